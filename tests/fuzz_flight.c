/* SPDX-License-Identifier: MIT */
/* fuzz_flight.c: any bytes as a rank's flight record. What is read has its numbers inside their
 * ranges and its events in order. The doctor has a verdict on it, alone and beside a second rank
 * with the same events. */
#include "tests/fuzz_file.h"
#include "tools/lab/flight_read.h"
#include "tools/lab/lab.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_record(const struct gy_flight_record *r)
{
    FUZZ_REQUIRE(r->head.rank >= 0 && r->head.rank < r->head.ranks && r->count >= 0 &&
                 r->count <= r->room);
    FUZZ_REQUIRE(memchr(r->head.name, 0, sizeof r->head.name) &&
                 memchr(r->live.text, 0, sizeof r->live.text));
    FUZZ_REQUIRE(r->live.state >= GY_FLIGHT_RUNS && r->live.state <= GY_FLIGHT_LEFT);
    for (int i = 0; i < r->count; i++) {
        const struct gy_flight_event *const e = &r->events[i];
        FUZZ_REQUIRE(e->kind < GY_DOINGS && e->peer >= -1 && e->peer < r->head.ranks &&
                     e->step >= 0);
        FUZZ_REQUIRE(i == 0 || (e->number > e[-1].number && e->mono >= e[-1].mono));
    }
}

struct fuzz_page {
    size_t bytes;
    int begins; /* with a brace */
};

static int fuzz_print(void *user, const char *text, size_t bytes)
{
    struct fuzz_page *const page = user;
    if (page->bytes == 0)
        page->begins = text[0] == '{';
    page->bytes += bytes;
    return 0;
}

static void fuzz_doctor(void)
{
    struct gyre_error error;
    for (int json = 0; json < 2; json++) {
        struct fuzz_page page = { 0, 0 };
        const struct gyre_sink sink = { fuzz_print, &page };
        const int status = gyre_print_doctor(fuzz_folder(), 0, json, &sink, &error);
        FUZZ_REQUIRE(status == GYRE_OK ? page.bytes > 0 && page.begins == json
                     : error.text[0] != 0);
    }
}

/* The same record as that of the next rank. */
static void fuzz_second(const uint8_t *bytes, size_t count)
{
    struct gy_flight_head h;
    char path[FUZZ_PATH], name[32];
    uint8_t *const copy = malloc(count);
    FUZZ_REQUIRE(copy);
    memcpy(copy, bytes, count);
    memcpy(&h, bytes, sizeof h);
    h.rank = (h.rank + 1) % h.ranks;
    h.host[0] ^= h.host[1]; /* another host, or the same */
    h.crc = gy_flight_crc(&h, &h.crc);
    memcpy(copy, &h, sizeof h);
    snprintf(name, sizeof name, "flight.%d", (int)h.rank);
    fuzz_write(fuzz_path(path, name), copy, count);
    free(copy);
    fuzz_doctor();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_flight_record record;
    struct gy_error err = { 0 };
    char path[FUZZ_PATH], name[32];
    fuzz_empty();
    fuzz_write(fuzz_path(path, "record"), bytes, count);
    const int status = gy_flight_read(&record, path, &alloc, &err);
    FUZZ_REQUIRE(status == GY_OK || (err.status == status &&
                                     strncmp(err.text, path, strlen(path)) == 0));
    if (status != GY_OK) {
        gy_flight_drop(&record);
        return 0;
    }
    fuzz_record(&record);
    snprintf(name, sizeof name, "flight.%d", (int)record.head.rank);
    gy_flight_drop(&record);
    fuzz_write(fuzz_path(path, name), bytes, count);
    fuzz_doctor();
    fuzz_second(bytes, count);
    return 0;
}
