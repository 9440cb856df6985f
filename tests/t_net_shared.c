/* SPDX-License-Identifier: MIT */
/* t_net_shared.c: the transport in shared memory. Each end posts a random sequence of sends and
 * receives, in an order of its own and with random pauses. What arrives is what was sent, in the
 * order of each tag. Ends are threads, so that a race detector sees both sides. A message of
 * another length, and a cancelled one, end as lost. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/mem.h"
#include "net/transport/shared.h"
#include "tests/t.h"

#define SH_ENDS 5
#define SH_EACH 60 /* messages from one end to another */
#define SH_TAGS 4
#define SH_BYTES 600000 /* the largest: more than a ring has room for */

static uint64_t sh_mix(uint64_t x) /* splitmix64 */
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

struct sh_message {
    struct gy_net_request r;
    unsigned char *bytes;
    uint64_t seed;
};
struct sh_end {
    void *base;
    int rank, ends, status, wrong, done;
    uint64_t seed;
    char text[200];
};

/* Both ends of message k of a pair know its seed, so its tag, its length and its bytes. */
static uint64_t sh_seed(const struct sh_end *e, int from, int to, int k)
{
    return sh_mix(e->seed + (uint64_t)(from * SH_ENDS + to) * SH_EACH + (uint64_t)k);
}
static uint32_t sh_tag(uint64_t s) { return (uint32_t)(s >> 50) % SH_TAGS; }
static size_t sh_bytes(uint64_t s)
{
    const size_t most[] = { 1, 90, 5000, SH_BYTES };
    return (size_t)(s >> 8) % most[s % 16 == 0 ? 3 : s % 3];
}
static unsigned char sh_byte(uint64_t s, size_t i)
{
    return (unsigned char)(sh_mix(s + i / 8) >> i % 8 * 8);
}

static void sh_make(const struct sh_end *e, struct sh_message *m, int sends, int peer, int k)
{
    m->seed = sh_seed(e, sends ? e->rank : peer, sends ? peer : e->rank, k);
    const size_t bytes = sh_bytes(m->seed);
    m->bytes = calloc(1, bytes + 1);
    for (size_t i = 0; sends && m->bytes && i < bytes; i++)
        m->bytes[i] = sh_byte(m->seed, i);
    m->r = (struct gy_net_request) {
        .sends = sends, .peer = peer, .tag = sh_tag(m->seed), .buffer = m->bytes, .bytes = bytes
    };
}

static int sh_is_wrong(const struct sh_message *m)
{
    for (size_t i = 0; !m->r.sends && i < m->r.bytes; i++)
        if (m->bytes[i] != sh_byte(m->seed, i))
            return 1;
    return m->r.state != GY_NET_DONE;
}

/* Posts all messages, in the order of each pair and direction but mixed otherwise. */
static int sh_post(struct sh_end *e, const struct gy_net_end *end, struct sh_message *all,
                   struct gy_error *err)
{
    int next[SH_ENDS][2] = { { 0 } }, count = 0;
    uint64_t dice = e->seed + (uint64_t)e->rank;
    while (count < 2 * (e->ends - 1) * SH_EACH) {
        dice = sh_mix(dice);
        const int peer = (int)(dice % (uint64_t)e->ends), sends = (int)(dice >> 20 & 1);
        if (peer == e->rank || next[peer][sends] == SH_EACH)
            continue;
        sh_make(e, &all[count], sends, peer, next[peer][sends]++);
        if (!all[count].bytes)
            return GY_E_NOMEM;
        GY_TRY(end->transport->post(end->self, &all[count++].r, err));
        if (dice >> 40 & 1)
            GY_TRY(end->transport->progress(end->self, err));
    }
    return GY_OK;
}

static int sh_exchange(struct sh_end *e, const struct gy_net_end *end, struct gy_error *err)
{
    const int count = 2 * (e->ends - 1) * SH_EACH;
    struct sh_message *const all = calloc((size_t)count, sizeof *all);
    int status = all ? sh_post(e, end, all, err) : GY_E_NOMEM;
    for (int i = 0; i < count && status == GY_OK; i++)
        while (all[i].r.state == GY_NET_PENDING && status == GY_OK) {
            status = end->transport->progress(end->self, err);
            nanosleep(&(const struct timespec) { 0, 1000 }, NULL);
        }
    for (int i = 0; i < count && all; i++) {
        e->done += all[i].r.state == GY_NET_DONE;
        e->wrong += status == GY_OK && sh_is_wrong(&all[i]);
        free(all[i].bytes);
    }
    free(all);
    return status;
}

static int sh_open(struct gy_net_shared **out, void *base, int rank, int ends, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    int local[SH_ENDS + 1];
    for (int r = 0; r <= ends; r++)
        local[r] = r < ends ? r : -1;
    const struct gy_net_shared_config config = { base, rank, ends + 1, local, ends };
    return gy_net_shared_open(out, &config, &alloc, err);
}

static void *sh_run(void *arg)
{
    struct sh_end *const e = arg;
    struct gy_net_shared *shared = NULL;
    struct gy_net_end end;
    struct gy_error err = { 0 };
    e->status = sh_open(&shared, e->base, e->rank, e->ends, &err);
    if (e->status == GY_OK) {
        gy_net_shared_end(shared, &end);
        e->status = sh_exchange(e, &end, &err);
    }
    snprintf(e->text, sizeof e->text, "%.190s", err.text);
    gy_net_shared_close(shared);
    return NULL;
}

static void *sh_memory(int ends)
{
    void *base = NULL;
    const size_t bytes = gy_net_shared_bytes(ends);
    if (posix_memalign(&base, GY_CACHE_LINE, bytes) != 0)
        return NULL;
    return memset(base, 0, bytes);
}

static void sh_random(uint64_t seed)
{
    struct sh_end e[SH_ENDS];
    pthread_t thread[SH_ENDS];
    const int ends = 2 + (int)(seed % (SH_ENDS - 1));
    void *const base = sh_memory(ends);
    for (int k = 0; k < ends && base; k++) {
        e[k] = (struct sh_end) { .base = base, .rank = k, .ends = ends, .seed = seed * 1000003 };
        T_CHECK(pthread_create(&thread[k], NULL, sh_run, &e[k]) == 0);
    }
    for (int k = 0; k < ends && base; k++) {
        pthread_join(thread[k], NULL);
        T_CHECK_MSG(e[k].status == GY_OK && e[k].wrong == 0 &&
                        e[k].done == 2 * (ends - 1) * SH_EACH,
                    "seed %" PRIu64 ", end %d of %d: status %d, %d wrong, %d done: %s", seed, k,
                    ends, e[k].status, e[k].wrong, e[k].done, e[k].text);
    }
    free(base);
}

/* Two ends in one thread, for what must not happen. */
static void sh_bad(void)
{
    void *const base = sh_memory(2);
    struct gy_net_shared *s[2] = { NULL };
    struct gy_net_end end[2];
    struct gy_error err = { 0 };
    unsigned char from[64] = "what is sent", to[64] = "";
    for (int k = 0; k < 2; k++) {
        T_CHECK(sh_open(&s[k], base, k, 2, &err) == GY_OK);
        gy_net_shared_end(s[k], &end[k]);
    }
    struct gy_net_request send = { .sends = 1, .peer = 1, .tag = 5, .buffer = from, .bytes = 64 };
    struct gy_net_request take = { .peer = 0, .tag = 5, .buffer = to, .bytes = 63 },
                          self = { .peer = 0 }, far = { .peer = 2 };
    T_CHECK(!gy_net_shared_has(s[0], 2) && !gy_net_shared_has(s[0], -1) &&
            !gy_net_shared_has(NULL, 0) && gy_net_shared_has(s[0], 1));
    T_CHECK(end[0].transport->post(s[0], &self, &err) == GY_E_BUG &&
            end[0].transport->post(s[0], &far, &err) == GY_E_BUG);
    T_CHECK(end[0].transport->post(s[0], &send, &err) == GY_OK &&
            end[1].transport->post(s[1], &take, &err) == GY_OK);
    T_CHECK(end[0].transport->progress(s[0], &err) == GY_OK &&
            send.state == GY_NET_PENDING); /* nobody has asked yet */
    T_CHECK(end[1].transport->progress(s[1], &err) == GY_OK &&
            end[0].transport->progress(s[0], &err) == GY_OK);
    T_CHECK(send.state == GY_NET_DONE);
    T_CHECK(end[1].transport->progress(s[1], &err) == GY_E_PEER && strstr(err.text, "64 bytes") &&
            strstr(err.text, "63 were expected"));
    struct gy_net_request more = { .peer = 0, .tag = 6, .buffer = to, .bytes = 8 };
    T_CHECK(end[1].transport->post(s[1], &more, &err) == GY_OK);
    end[1].transport->cancel(s[1], 0);
    T_CHECK(more.state == GY_NET_LOST && take.state == GY_NET_LOST && to[0] == 0);
    gy_net_shared_close(s[0]);
    gy_net_shared_close(s[1]);
    free(base);
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 1 ? 1 : 12;
    for (uint64_t seed = first; seed < first + count; seed++)
        sh_random(seed);
    sh_bad();
    T_END("t_net_shared");
}
