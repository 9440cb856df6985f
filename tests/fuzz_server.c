/* SPDX-License-Identifier: MIT */
/* fuzz_server.c: any bytes as a record of arrivals, and as frames of workers at a server. A
 * record's entries are within its workers and slices. A frame that is taken was sealed for its
 * turn. Whatever comes, the ledger keeps its count, and owes no worker twice. */
#include <stdlib.h>
#include <string.h>

#include "net/server/arrivals.h"
#include "net/server/frame.h"
#include "net/server/ledger.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())
#define FUZZ_WORKERS 3

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_record(const char *text)
{
    const struct gy_arrivals_head head = { .run = 1, .servers = 1, .workers = FUZZ_WORKERS,
                                           .slices = 5 };
    struct gy_arrivals a = { .head = head, .path = "fuzz" };
    struct gy_error err = { 0 };
    int status = gy_arrivals_parse(&a, text, &err);
    while (status == GY_OK && !a.ended) {
        const struct gy_arrival *const n = &a.next;
        FUZZ_REQUIRE(n->kind >= 0 && n->kind < GY_ARRIVAL_LOST);
        FUZZ_REQUIRE(n->worker >= 0 && n->worker < FUZZ_WORKERS && n->slice >= 0 && n->slice < 5);
        FUZZ_REQUIRE(gy_arrivals_may(&a, n->kind, n->worker, n->slice));
        status = gy_arrivals_taken(&a, n->kind, n->worker, n->slice, &err);
    }
    FUZZ_REQUIRE(status == GY_OK || err.text[0] != 0);
}

/* The first byte says how the ledger takes; then frames, of which some are sealed and made to
 * fit. */
static void fuzz_frames(const uint8_t *bytes, size_t count)
{
    struct gy_ledger_worker entry[FUZZ_WORKERS];
    struct gy_ledger ledger;
    const struct gy_ledger_rules rules = { .workers = FUZZ_WORKERS,
                                           .take = 1 + bytes[0] % FUZZ_WORKERS,
                                           .any_age = bytes[0] >> 4 & 1, .ahead =
                                           bytes[0] >> 5 & 1 ? 1 : -1 };
    int64_t number[FUZZ_WORKERS] = { 0 };
    gy_ledger_open(&ledger, &rules, entry, 0);
    for (size_t at = 1; at + sizeof(struct gy_server_frame) + 1 <= count;
         at += sizeof(struct gy_server_frame) + 1) {
        struct gy_server_frame frame;
        struct gy_error err = { 0 };
        const int w = bytes[at] % FUZZ_WORKERS;
        const struct gy_server_frame want = { .kind = GY_SERVER_PUSH, .run = 7, .worker = w,
                                              .number = number[w] + 1, .count = 4 };
        memcpy(&frame, bytes + at + 1, sizeof frame);
        if (bytes[at] & 128) {
            const int64_t version = entry[w].version + (frame.version & 1);
            frame = want;
            frame.version = version;
            gy_server_seal(&frame);
        }
        if (bytes[at] & 64)
            gy_ledger_gone(&ledger, w);
        if ((bytes[at] & 96) == 32 && entry[w].gone)
            gy_ledger_back(&ledger, w, bytes[at] >> 4 & 1);
        if (gy_server_check(&frame, &want, &err) != GY_OK) {
            FUZZ_REQUIRE(err.text[0] != 0);
            continue;
        }
        FUZZ_REQUIRE(frame.worker == w && frame.count == 4 && frame.number == number[w] + 1);
        const int owed = entry[w].owed || entry[w].here || entry[w].gone;
        if (gy_ledger_push(&ledger, w, frame.version, &err) < 0)
            continue;
        FUZZ_REQUIRE(!owed);
        number[w]++;
        if (gy_ledger_is_due(&ledger))
            gy_ledger_updated(&ledger, bytes[at] >> 5 & 1);
        for (int i = 0; i < FUZZ_WORKERS; i++)
            if (gy_ledger_may_answer(&ledger, i))
                gy_ledger_answered(&ledger, i);
        FUZZ_REQUIRE(ledger.here >= 0 && ledger.here <= FUZZ_WORKERS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *const text = malloc(count + 1);
    FUZZ_REQUIRE(text != NULL);
    if (count > 0) {
        memcpy(text, bytes, count);
        fuzz_frames(bytes, count);
    }
    text[count] = 0;
    fuzz_record(text);
    free(text);
    return 0;
}
