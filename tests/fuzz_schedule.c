/* SPDX-License-Identifier: MIT */
/* fuzz_schedule.c: any bytes as a schedule file, as a cluster file, as a topology. A schedule that
 * is read keeps its limits, can be proved or refused, and is the same when it is printed and read
 * again. */
#include <stdlib.h>
#include <string.h>

#include "net/schedule/schedule.h"
#include "tools/lab/cluster.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct fuzz_text {
    char *bytes;
    size_t count, room;
};

static int fuzz_write(void *user, const char *text, size_t count)
{
    struct fuzz_text *t = user;
    if (t->count + count > t->room) {
        t->room = 2 * (t->count + count);
        t->bytes = realloc(t->bytes, t->room);
        FUZZ_REQUIRE(t->bytes != NULL);
    }
    memcpy(t->bytes + t->count, text, count);
    t->count += count;
    return 0;
}

static void fuzz_again(const struct gy_net_schedule *s, const struct gy_alloc *alloc)
{
    struct fuzz_text text = {NULL, 0, 0};
    struct gy_sink sink = { .write = fuzz_write, .user = &text };
    const struct gy_net_proof proof = { .messages = 0 };
    struct gy_net_schedule again;
    struct gy_error err;
    gy_net_print(s, &proof, -1, &sink);
    FUZZ_REQUIRE(gy_net_read_schedule(&again, text.bytes, text.count, "again", alloc, &err) == GY_OK);
    FUZZ_REQUIRE(again.ranks == s->ranks && again.count == s->count && again.pieces == s->pieces && again.lanes == s->lanes);
    FUZZ_REQUIRE(s->count == 0 || memcmp(again.steps, s->steps, (size_t)s->count * sizeof *s->steps) == 0);
    gy_net_close_schedule(&again);
    free(text.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const char *const text = (const char *)bytes;
    struct gy_net_schedule s;
    struct gy_cluster_file cluster;
    struct gy_net_proof proof;
    struct gy_error err = {0};
    if (gy_net_read_schedule(&s, text, count, "fuzz", &alloc, &err) == GY_OK) {
        FUZZ_REQUIRE(s.ranks >= 1 && s.ranks <= GY_NET_RANKS_MOST && s.pieces >= 1 && s.pieces % s.lanes == 0);
        FUZZ_REQUIRE(gy_net_verify(&s, &proof, &err) == GY_OK || err.text[0] != 0);
        fuzz_again(&s, &alloc);
        gy_net_close_schedule(&s);
    } else {
        FUZZ_REQUIRE(err.text[0] != 0);
    }
    if (gy_cluster_parse(&cluster, text, count, "fuzz", &err) == GY_OK)
        FUZZ_REQUIRE(cluster.net.hosts >= 1 && (int64_t)cluster.net.hosts * cluster.net.ranks_per_host <= GY_NET_RANKS_MOST);
    return 0;
}
