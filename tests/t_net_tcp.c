/* SPDX-License-Identifier: MIT */
/* t_net_tcp.c: the transport on plain TCP. Every algorithm gives the right sums among 2 to 8 ranks.
 * Their bits are the same whether messages are added while they arrive or when they are whole.
 * Messages arrive whole and in the order of their tag, whatever the order of the receives. That
 * holds when far more is sent than either end keeps, and for receives that take bytes on the way. A
 * rank that breaks off, cancels, is killed or sends unexpected bytes ends the others' requests.
 * What was sent before a farewell arrives; strangers are sent away. Ranks are threads, and
 * processes where one is killed. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "net/schedule/algorithms.h"
#include "net/schedule/exec.h"
#include "net/transport/tcp.h"
#include "net/transport/tcp_handshake.h"
#include "tests/t.h"

#define TT_RANKS 8
#define TT_MOST 140001
#define TT_WAIT 120000000000LL /* all ranks may share one loaded core */
#define TT_VICTIM 1
#define TT_BUSY 4000000000LL

/* In memory that threads and processes share. */
struct tt_world {
    int ranks, met, failed, named; /* named: how many say who was killed */
    int64_t killed; /* when the victim was about to be, in ns */
    struct gy_net_endpoint address[TT_RANKS];
    unsigned char key[GY_NET_KEY_BYTES];
};
struct tt_rank {
    struct tt_world *world;
    int rank;
    struct gy_alloc alloc;
    struct gy_net_tcp *tcp;
    struct gy_net_end end;
    unsigned epoch;
    int status;
    int (*body)(struct tt_rank *own, struct gy_error *err);
};

static void tt_pause(void)
{
    nanosleep(&(const struct timespec){0, 1000000}, NULL);
}

/* All ranks come here; times: how often they have met with this one. */
static void tt_meet(struct tt_world *w, int times)
{
    __atomic_add_fetch(&w->met, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&w->met, __ATOMIC_ACQUIRE) < w->ranks * times)
        tt_pause();
}

static int tt_open(struct tt_rank *own, struct gy_error *err)
{
    struct gy_net_tcp_config config = { .rank = own->rank, .ranks = own->world->ranks };
    own->alloc = gy_alloc_default();
    gy_net_endpoint_loopback(&config.own);
    memcpy(config.key, own->world->key, sizeof config.key);
    const int status = gy_net_tcp_open(&own->tcp, &config, &own->alloc, err);
    if (status == GY_OK)
        gy_net_tcp_address(own->tcp, &own->world->address[own->rank]);
    tt_meet(own->world, 1);
    GY_TRY(status);
    gy_net_tcp_end(own->tcp, &own->end);
    return gy_net_tcp_connect(own->tcp, own->world->address, err);
}

static void *tt_thread(void *user)
{
    struct tt_rank *own = user;
    struct gy_error err = {0};
    int status = tt_open(own, &err);
    status = status == GY_OK ? own->body(own, &err) : status;
    gy_net_tcp_close(own->tcp);
    own->status = status;
    if (status != GY_OK) {
        printf("    rank %d of %d: %s\n", own->rank, own->world->ranks, err.text);
        __atomic_add_fetch(&own->world->failed, 1, __ATOMIC_ACQ_REL);
    }
    return NULL;
}

static struct tt_world *tt_world(int ranks)
{
    FILE *file = tmpfile(); /* memory that belongs to nobody, in POSIX */
    struct tt_world *w = file && ftruncate(fileno(file), sizeof *w) == 0
                             ? mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0) : MAP_FAILED;
    if (!file || w == MAP_FAILED) {
        puts("no memory that processes share");
        exit(1);
    }
    fclose(file);
    w->ranks = ranks;
    memset(w->key, 7, sizeof w->key);
    return w;
}

static void tt_run(int ranks, int (*body)(struct tt_rank *own, struct gy_error *err), const char *what)
{
    struct tt_world *w = tt_world(ranks);
    struct tt_rank own[TT_RANKS];
    pthread_t threads[TT_RANKS];
    memset(own, 0, sizeof own);
    for (int r = 0; r < ranks; r++) {
        own[r] = (struct tt_rank){ .world = w, .rank = r, .body = body };
        pthread_create(&threads[r], NULL, tt_thread, &own[r]);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    T_CHECK_MSG(w->failed == 0, "%d ranks, %s", ranks, what);
    munmap(w, sizeof *w);
}

/* ---- requests ---- */

static struct gy_net_request tt_request(int sends, int peer, uint32_t tag, void *buffer, size_t bytes)
{
    return (struct gy_net_request){ .sends = sends, .peer = peer, .tag = tag, .buffer = buffer, .bytes = bytes };
}

static int tt_post(const struct tt_rank *own, struct gy_net_request *r, struct gy_error *err)
{
    return own->end.transport->post(own->end.self, r, err);
}

static int tt_progress(const struct tt_rank *own, struct gy_error *err)
{
    return own->end.transport->progress(own->end.self, err);
}

/* Until it is not pending any more; returns its state. */
static int tt_wait(const struct tt_rank *own, struct gy_net_request *r)
{
    const int64_t deadline = gy_clock_ns() + TT_WAIT;
    while (r->state == GY_NET_PENDING && gy_clock_ns() < deadline)
        tt_progress(own, NULL);
    return r->state;
}

static int tt_expect(int state, int wanted, const char *what, struct gy_error *err)
{
    return state == wanted ? GY_OK : GY_FAIL(err, GY_E_BUG, "%s: state %d, not %d", what, state, wanted);
}

/* Both ranks have what they waited for: whoever closes first breaks nothing off. */
static int tt_farewell(const struct tt_rank *own, struct gy_error *err)
{
    char byte = 0;
    struct gy_net_request in = tt_request(0, 1 - own->rank, UINT32_MAX, &byte, 1), out = tt_request(1, 1 - own->rank, UINT32_MAX, &byte, 1);
    char sent = 1;
    out.buffer = &sent;
    GY_TRY(tt_post(own, &in, err));
    GY_TRY(tt_post(own, &out, err));
    GY_TRY(tt_expect(tt_wait(own, &in), GY_NET_DONE, "farewell", err));
    return tt_expect(tt_wait(own, &out), GY_NET_DONE, "farewell", err);
}

static unsigned char tt_byte(uint32_t tag, uint32_t number, size_t at)
{
    return (unsigned char)((tag * 131 + number * 31 + at * 7 + at / 251) & 255);
}

static void tt_fill(unsigned char *to, uint32_t tag, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = tt_byte(tag, number, i);
}

static int tt_same(const unsigned char *from, uint32_t tag, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (from[i] != tt_byte(tag, number, i))
            return 0;
    return 1;
}

/* ---- sums ---- */

static float tt_given[TT_RANKS][TT_MOST];      /* what each rank gives */
static double tt_total[TT_RANKS + 1][TT_MOST]; /* the sum of that of the first ranks */

static void tt_make_values(void)
{
    for (int r = 0; r < TT_RANKS; r++)
        for (int64_t i = 0; i < TT_MOST; i++) {
            tt_given[r][i] = gy_rng_uniform(3, 1, (uint64_t)r, (uint64_t)i) - 0.5f;
            tt_total[r + 1][i] = tt_total[r][i] + (double)tt_given[r][i];
        }
}

/* half: within what this many bf16 roundings may lose, each 2^-9 of a sum of k values, at most k /
 * 2. */
static int tt_right(const struct tt_rank *own, const float *data, int64_t count)
{
    const double bound = own->end.half ? own->end.ranks * (own->end.ranks + 2) / 2048.0 : 1e-5;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(tt_total[own->end.ranks][i] - (double)data[i]) < bound))
            return 0;
    return 1;
}

static int tt_sum(struct gy_net_exec *exec, float *data, int64_t count, struct gy_error *err)
{
    int done = gy_net_exec_start(exec, data, count, err);
    const int64_t deadline = gy_clock_ns() + TT_WAIT;
    while (done == 0 && gy_clock_ns() < deadline)
        done = gy_net_exec_test(exec, err);
    return done == 0 ? GY_FAIL(err, GY_E_BUG, "no end after %d s", (int)(TT_WAIT / 1000000000)) : done;
}

/* A rank's end whose receives are never taken while they come. */
static int tt_whole_post(void *self, struct gy_net_request *r, struct gy_error *err)
{
    const struct tt_rank *own = self;
    r->take = NULL;
    return tt_post(own, r, err);
}

static int tt_whole_progress(void *self, struct gy_error *err)
{
    return tt_progress(self, err);
}

static void tt_whole_cancel(void *self, int peer)
{
    const struct tt_rank *own = self;
    own->end.transport->cancel(own->end.self, peer);
}

static const struct gy_net_transport tt_whole = {tt_whole_post, tt_whole_progress, tt_whole_cancel, "whole", 0, 0};

/* The sum of count floats, added while they come in exec[0], when they are whole in exec[1]. */
static int tt_both(struct tt_rank *own, struct gy_net_exec *const exec[2], float *const data[2], int64_t count, const char *name, struct gy_error *err)
{
    for (int whole = 0; whole < 2; whole++) {
        for (int64_t i = 0; i < count; i++)
            data[whole][i] = tt_given[own->rank][i];
        const int status = tt_sum(exec[whole], data[whole], count, err);
        if (status < 0)
            return status;
        if (!tt_right(own, data[whole], count))
            return GY_FAIL(err, GY_E_BUG, "%s: wrong sum of %" PRId64, name, count);
    }
    return memcmp(data[0], data[1], (size_t)count * sizeof(float)) == 0 ? GY_OK : GY_FAIL(err, GY_E_BUG, "%s: other bits of %" PRId64, name, count);
}

static int tt_algorithm(struct tt_rank *own, const char *name, int lanes, float *const data[2], struct gy_error *err)
{
    static const int64_t counts[] = {0, 1, 3, 17, 4099, TT_MOST, 0, 5};
    const struct gy_net_end ends[2] = {own->end, {&tt_whole, own, own->rank, own->end.ranks, own->end.half}};
    struct gy_net_shape shape = { .ranks = own->end.ranks, .lanes = lanes };
    struct gy_net_schedule s = {0};
    struct gy_net_exec *exec[2] = {NULL, NULL};
    struct gy_net_proof proof;
    if (shape.ranks == 4)
        shape = (struct gy_net_shape){ .ranks = 4, .lanes = lanes, .dim_count = 2, .dims = {2, 2} };
    int status = gy_net_build(&s, name, &shape, GY_NET_ALLREDUCE, &own->alloc, err);
    status = status == GY_OK ? gy_net_verify(&s, &proof, err) : status;
    for (int whole = 0; whole < 2 && status == GY_OK; whole++)
        status = gy_net_exec_open(&exec[whole], &s, &ends[whole], TT_MOST, ++own->epoch, NULL, &own->alloc, err);
    for (size_t k = 0; k < GY_COUNT(counts) && status == GY_OK; k++)
        status = tt_both(own, exec, data, counts[k], name, err);
    gy_net_exec_close(exec[0]);
    gy_net_exec_close(exec[1]);
    gy_net_close_schedule(&s);
    return status;
}

static int tt_sums(struct tt_rank *own, struct gy_error *err)
{
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count);
    float *room = calloc(2 * TT_MOST, sizeof *room), *const data[2] = {room, room + TT_MOST};
    int status = room ? GY_OK : GY_E_NOMEM;
    for (int lanes = 1; lanes <= 3; lanes += 2)
        for (size_t i = 0; i < count && status == GY_OK; i++)
            if (rows[i].goals & 1u << GY_NET_ALLREDUCE)
                status = tt_algorithm(own, rows[i].name, lanes, data, err);
    free(room);
    return status;
}

static int tt_half(struct tt_rank *own, struct gy_error *err)
{
    own->end.half = 1;
    return tt_sums(own, err);
}

/* ---- messages that are taken while they come ---- */

static void tt_take(struct gy_net_request *r, size_t bytes)
{
    memcpy((unsigned char *)r->taker + r->taken, r->buffer, bytes);
}

/* Posted before, while and after it comes: taken parts and the buffer's rest are the message. */
static int tt_taken(struct tt_rank *own, struct gy_error *err)
{
    static const size_t sizes[] = {1, 63, 64, 5000, 1000003, 131072, 3000001};
    unsigned char *room = malloc(2 * sizes[6]), *const to = room + sizes[6];
    int status = room ? GY_OK : GY_E_NOMEM;
    for (uint32_t k = 0; k < 3 * GY_COUNT(sizes) && status == GY_OK; k++) {
        const size_t bytes = sizes[k % GY_COUNT(sizes)];
        const int calls = k < GY_COUNT(sizes) ? 0 : k < 2 * GY_COUNT(sizes) ? 10 : 200;
        struct gy_net_request r = tt_request(own->rank == 0, 1 - own->rank, k, room, bytes);
        memset(room, 0, 2 * sizes[6]);
        if (own->rank == 0)
            tt_fill(room, k, 0, bytes);
        else
            r.take = tt_take;
        r.taker = to;
        for (int c = 0; c < calls && own->rank == 1; c++)
            tt_progress(own, err);
        status = tt_post(own, &r, err);
        status = status == GY_OK ? tt_expect(tt_wait(own, &r), GY_NET_DONE, "taken", err) : status;
        if (status != GY_OK || own->rank == 0)
            continue;
        memcpy(to + r.taken, room, bytes - r.taken);
        if (!tt_same(to, k, 0, bytes))
            status = GY_FAIL(err, GY_E_BUG, "message %u of %zu bytes, %zu of them taken, is not what was sent", k, bytes, r.taken);
    }
    status = status == GY_OK ? tt_farewell(own, err) : status;
    free(room);
    return status;
}

/* ---- orders ---- */

#define TT_MANY 200
#define TT_LARGE ((size_t)200000)

/* Receives 40 MB in the reverse order of the sends: more than sockets and the window hold. */
static int tt_reverse(struct tt_rank *own, struct gy_error *err)
{
    unsigned char *room = malloc(TT_LARGE * TT_MANY);
    struct gy_net_request *r = calloc(TT_MANY, sizeof *r);
    int status = room && r ? GY_OK : GY_E_NOMEM;
    for (uint32_t k = 0; k < TT_MANY && status == GY_OK && own->rank == 0; k++) {
        tt_fill(room + k * TT_LARGE, k, 0, TT_LARGE);
        r[k] = tt_request(1, 1, k, room + k * TT_LARGE, TT_LARGE);
        status = tt_post(own, &r[k], err);
    }
    for (uint32_t k = TT_MANY; k-- > 0 && status == GY_OK;) {
        if (own->rank == 1) {
            r[k] = tt_request(0, 0, k, room, TT_LARGE);
            status = tt_post(own, &r[k], err);
        }
        status = status == GY_OK ? tt_expect(tt_wait(own, &r[k]), GY_NET_DONE, "reverse", err) : status;
        if (status == GY_OK && own->rank == 1 && !tt_same(room, k, 0, TT_LARGE))
            status = GY_FAIL(err, GY_E_BUG, "message %u is not what was sent", k);
    }
    status = status == GY_OK ? tt_farewell(own, err) : status;
    free(room);
    free(r);
    return status;
}

/* Messages larger than the window, both ways at once. */
static int tt_huge(struct tt_rank *own, struct gy_error *err)
{
    const size_t bytes = (size_t)20 << 20;
    unsigned char *out = malloc(bytes), *in = malloc(bytes);
    int status = in && out ? GY_OK : GY_E_NOMEM;
    for (uint32_t k = 0; k < 3 && status == GY_OK; k++) {
        struct gy_net_request sends = tt_request(1, 1 - own->rank, k, out, bytes), receives = tt_request(0, 1 - own->rank, k, in, bytes);
        tt_fill(out, (uint32_t)own->rank, k, bytes);
        status = tt_post(own, k == 1 ? &sends : &receives, err);
        status = status == GY_OK ? tt_post(own, k == 1 ? &receives : &sends, err) : status;
        status = status == GY_OK ? tt_expect(tt_wait(own, &receives), GY_NET_DONE, "huge", err) : status;
        status = status == GY_OK ? tt_expect(tt_wait(own, &sends), GY_NET_DONE, "huge", err) : status;
        if (status == GY_OK && !tt_same(in, (uint32_t)(1 - own->rank), k, bytes))
            status = GY_FAIL(err, GY_E_BUG, "a huge message is not what was sent");
    }
    free(in);
    free(out);
    return status;
}

/* Random tags and sizes. The two ends post in orders that agree only within each tag. */
#define TT_TAGS 5
#define TT_MIXED 600
struct tt_mixed {
    uint32_t tag, number;
    size_t bytes;
    unsigned char *data;
    struct gy_net_request request;
};

static void tt_mix(struct tt_mixed *all, int shuffled)
{
    uint32_t count[TT_TAGS] = {0}, words[4];
    size_t bytes[TT_TAGS][TT_MIXED];
    for (uint32_t k = 0; k < TT_MIXED; k++) { /* the same messages for both */
        gy_rng_words(11, 1, k, 0, words);
        const uint32_t tag = words[0] % TT_TAGS;
        bytes[tag][count[tag]] = words[1] % 3 == 0 ? words[2] % 300000 : words[2] % 50;
        all[k] = (struct tt_mixed){ .tag = tag, .number = count[tag], .bytes = bytes[tag][count[tag]] };
        count[tag]++;
    }
    if (!shuffled)
        return;
    uint32_t next[TT_TAGS] = {0};
    for (uint32_t k = 0; k < TT_MIXED; k++) {
        gy_rng_words(12, 1, k / 40, 0, words); /* runs of one tag */
        uint32_t tag = words[0] % TT_TAGS;
        while (next[tag] == count[tag])
            tag = (tag + 1) % TT_TAGS;
        all[k] = (struct tt_mixed){ .tag = tag, .number = next[tag], .bytes = bytes[tag][next[tag]] };
        next[tag]++;
    }
}

static int tt_mixed_one(const struct tt_rank *own, struct tt_mixed *m, struct gy_error *err)
{
    GY_TRY(tt_expect(tt_wait(own, &m->request), GY_NET_DONE, "mixed", err));
    const int good = own->rank == 1 || tt_same(m->data, m->tag, m->number, m->bytes);
    free(m->data);
    m->data = NULL;
    return good ? GY_OK : GY_FAIL(err, GY_E_BUG, "message %u of tag %u is not what was sent", m->number, m->tag);
}

static int tt_mixed(struct tt_rank *own, struct gy_error *err)
{
    struct tt_mixed *all = calloc(TT_MIXED, sizeof *all);
    int status = all ? GY_OK : GY_E_NOMEM;
    uint32_t waited = 0;
    if (all)
        tt_mix(all, own->rank == 0);
    for (uint32_t k = 0; k < TT_MIXED && status == GY_OK; k++) {
        struct tt_mixed *m = &all[k];
        m->data = malloc(m->bytes + 1);
        if (own->rank == 1)
            tt_fill(m->data, m->tag, m->number, m->bytes);
        m->request = tt_request(own->rank == 1, 1 - own->rank, m->tag, m->data, m->bytes);
        status = tt_post(own, &m->request, err);
        for (; status == GY_OK && own->rank == 0 && k - waited >= 10; waited++)
            status = tt_mixed_one(own, &all[waited], err);
    }
    for (; status == GY_OK && waited < TT_MIXED; waited++)
        status = tt_mixed_one(own, &all[waited], err);
    status = status == GY_OK ? tt_farewell(own, err) : status;
    free(all);
    return status;
}

/* ---- ends ---- */

/* Rank 0 sends and leaves at once; rank 1 takes its time, and sends what nobody will read. */
static int tt_leave(struct tt_rank *own, struct gy_error *err)
{
    static const size_t bytes = 100000;
    unsigned char *room = malloc(3 * bytes);
    int status = room ? GY_OK : GY_E_NOMEM;
    struct gy_net_request r[3], extra = tt_request(1, 0, 9, room, 10);
    if (own->rank == 1 && status == GY_OK) { /* makes the connection */
        status = tt_post(own, &extra, err);
        status = status == GY_OK ? tt_expect(tt_wait(own, &extra), GY_NET_DONE, "before leaving", err) : status;
        for (int k = 0; k < 200; k++) {
            tt_progress(own, err);
            tt_pause();
        }
    }
    for (uint32_t k = 0; k < 3 && status == GY_OK; k++) {
        tt_fill(room + k * bytes, k, 0, bytes);
        r[k] = tt_request(own->rank == 0, 1 - own->rank, own->rank == 0 ? k : 2 - k, room + k * bytes, bytes);
        status = tt_post(own, &r[k], err);
        if (own->rank == 1)
            status = status == GY_OK ? tt_expect(tt_wait(own, &r[k]), GY_NET_DONE, "after leaving", err) : status;
    }
    for (uint32_t k = 0; k < 3 && status == GY_OK; k++) {
        status = tt_expect(tt_wait(own, &r[k]), GY_NET_DONE, "leaving", err);
        if (status == GY_OK && own->rank == 1 && !tt_same(room + k * bytes, 2 - k, 0, bytes))
            status = GY_FAIL(err, GY_E_BUG, "what was sent before the farewell is not what came");
    }
    free(room);
    return status;
}

/* Sizes that differ, or a cancelled receive: both ends' requests end, and nothing can be posted. */
static int tt_break(struct tt_rank *own, int cancels, struct gy_error *err)
{
    char room[100] = {0};
    struct gy_net_request first = tt_request(own->rank == 0, 1 - own->rank, 1, room, own->rank == 0 ? 50 : 100);
    struct gy_net_request second = tt_request(0, 1 - own->rank, 2, room, 1), third = second;
    if (cancels)
        first.bytes = 50;
    GY_TRY(tt_post(own, &first, err));
    GY_TRY(tt_post(own, &second, err));
    tt_wait(own, &first);
    if (cancels && own->rank == 0)
        own->end.transport->cancel(own->end.self, 1);
    GY_TRY(tt_expect(tt_wait(own, &second), GY_NET_LOST, "broken off", err));
    GY_TRY(tt_expect(first.state, cancels || own->rank == 0 ? GY_NET_DONE : GY_NET_LOST, "the first", err));
    const int status = tt_post(own, &third, NULL);
    return status == GY_E_PEER && third.state == GY_NET_LOST ? GY_OK : GY_FAIL(err, GY_E_BUG, "posted to a rank that is gone: %d", status);
}

static int tt_mismatch(struct tt_rank *own, struct gy_error *err)
{
    return tt_break(own, 0, err);
}

static int tt_cancel(struct tt_rank *own, struct gy_error *err)
{
    return tt_break(own, 1, err);
}

/* Rank 0 asks for more than systems buffer, then reads nothing for longer than a cut path stays
 * unnoticed. Its system still answers, so it is not cut off. */
static int tt_busy(struct tt_rank *own, struct gy_error *err)
{
    const size_t bytes = (size_t)64 << 20;
    unsigned char *room = calloc(1, bytes);
    struct gy_net_request r = tt_request(own->rank == 1, 1 - own->rank, 2, room, bytes);
    int status = room ? tt_post(own, &r, err) : GY_E_NOMEM;
    const int64_t began = gy_clock_ns();
    for (int k = 0; gy_clock_ns() < began + TT_BUSY && status == GY_OK; k++) {
        if (own->rank == 1 || k < 10)
            tt_progress(own, err);
        if (r.state != GY_NET_PENDING || (own->rank == 1 && gy_net_tcp_cut(own->tcp) >= 0))
            status = GY_FAIL(err, GY_E_BUG, "a rank that reads nothing: state %d, or it is called cut off", r.state);
        tt_pause();
    }
    status = status == GY_OK ? tt_expect(tt_wait(own, &r), GY_NET_DONE, "after", err) : status;
    status = status == GY_OK ? tt_farewell(own, err) : status;
    free(room);
    return status;
}

/* ---- strangers ---- */

/* Says something else than a rank would, as `kind` tells; the connection stays open. */
static int tt_stranger(const struct tt_world *w, int kind)
{
    unsigned char noise[4096];
    struct gy_net_handshake_self self = { .rank = 1, .ranks = w->ranks };
    struct gy_net_handshake call;
    int fd = -1;
    if (gy_net_connect_begin(&w->address[0], &fd) != 0)
        return -1;
    tt_pause();
    memset(noise, kind == 1 ? 0xff : 0, sizeof noise);
    if (kind == 1 || kind == 2)
        (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL);
    if (kind == 3)
        (void)!send(fd, "GYRD", 4, MSG_NOSIGNAL);
    if (kind == 4) { /* everything right but the key */
        gy_net_handshake_begin(&call, fd, 0, 0);
        for (int k = 0; k < 50 && gy_net_handshake_go(&call, &self) == 0; k++)
            tt_pause();
        (void)!send(fd, noise, 32, MSG_NOSIGNAL);
    }
    return fd;
}

static int tt_hostile(struct tt_rank *own, struct gy_error *err)
{
    int fds[300], count = 0;
    if (own->rank == 2) {
        for (int k = 0; k < 100; k++)
            fds[count++] = tt_stranger(own->world, k < 20 ? k % 5 : 0);
        tt_meet(own->world, 2);
    } else {
        while (__atomic_load_n(&own->world->met, __ATOMIC_ACQUIRE) < own->world->ranks + 1) {
            tt_progress(own, err);
            tt_pause();
        }
        __atomic_add_fetch(&own->world->met, 1, __ATOMIC_ACQ_REL);
    }
    const int status = tt_sums(own, err);
    while (count > 0)
        if (fds[--count] >= 0)
            close(fds[count]);
    return status;
}

/* A rank that breaks the protocol: it has the key, and sends impossible lines with right codes.
 * Nothing is taken from it, and its requests end. */
struct tt_line {
    uint32_t kind, tag;
    uint64_t value;
    unsigned char code[32], pad[16];
};
static const struct tt_mad {
    const char *what;
    struct tt_line head;
    /* sent this often, with the head's number of bytes; then the connection stays open in
     * silence */
    int times;
} tt_mads[] = {
    {"an unknown frame", {99, 1, 1, {0}, {0}}, 0},
    {"a message beyond all memory", {1, 5, (uint64_t)1 << 60, {0}, {0}}, 0},
    {"more bytes than the receive has", {1, 1, 200, {0}, {0}}, 0},
    {"more taken than was sent", {2, 0, 5, {0}, {0}}, 0},
    {"more than the window, unasked", {1, 7, 1 << 20, {0}, {0}}, 12},
    {"more messages of no bytes than anybody keeps", {1, 7, 0, {0}, {0}}, 9000},
};
static size_t tt_mad_now; /* set while there is one thread */

/* A line, with bytes where it begins a message; < 0: it was noticed. */
static int tt_mad_say(int fd, const struct tt_line *head, const unsigned char *bytes, struct gy_net_code *code)
{
    struct tt_line line = *head, end = { .kind = 4, .tag = head->tag, .value = head->value };
    gy_net_code_add(code, &line, 16);
    gy_net_code_close(code, line.code);
    if (gy_net_write(fd, &line, sizeof line, gy_clock_ns() + TT_WAIT, NULL) != GY_OK)
        return -1;
    if (!bytes)
        return 0;
    gy_net_code_add(code, &end, 16);
    gy_net_code_add(code, bytes, head->value);
    gy_net_code_close(code, end.code);
    return gy_net_write(fd, bytes, head->value, gy_clock_ns() + TT_WAIT, NULL) != GY_OK ? -1
           : gy_net_write(fd, &end, sizeof end, gy_clock_ns() + TT_WAIT, NULL);
}

static int tt_mad_rank(const struct tt_rank *own, const struct tt_mad *mad, struct gy_error *err)
{
    struct gy_net_handshake_self self = { .rank = 1, .ranks = 2 };
    struct gy_net_handshake call;
    struct gy_net_code out, in;
    unsigned char *bytes = calloc(1, 1 << 20);
    int fd = -1, agreed = 0;
    memcpy(self.key, own->world->key, sizeof self.key);
    if (bytes && gy_net_connect_begin(&own->world->address[0], &fd) == 0) {
        gy_net_handshake_begin(&call, fd, 0, 0);
        for (int k = 0; k < 5000 && (agreed = gy_net_handshake_go(&call, &self)) == 0; k++)
            tt_pause();
        gy_net_handshake_codes(&call, &self, &out, &in);
        for (int k = 0; k < (mad->times > 0 ? mad->times : 1) && agreed == 1; k++)
            if (tt_mad_say(fd, &mad->head, mad->times > 0 ? bytes : NULL, &out) < 0)
                break;
    }
    tt_meet(own->world, 2);
    if (fd >= 0)
        close(fd);
    free(bytes);
    return agreed == 1 ? GY_OK : GY_FAIL(err, GY_E_BUG, "who has the key is not let in");
}

static int tt_mad(struct tt_rank *own, struct gy_error *err)
{
    char room[100];
    const struct tt_mad *mad = &tt_mads[tt_mad_now];
    if (own->rank == 1)
        return tt_mad_rank(own, mad, err);
    struct gy_net_request r = tt_request(0, 1, 1, room, sizeof room);
    int status = tt_post(own, &r, err);
    status = status == GY_OK ? tt_expect(tt_wait(own, &r), GY_NET_LOST, mad->what, err) : status;
    tt_meet(own->world, 2);
    return status;
}

/* ---- processes ---- */

/* A ring turns until the victim is gone. The others soon see GY_E_PEER; the first names it. */
static int tt_lose(struct tt_rank *own, struct gy_error *err)
{
    const struct gy_net_shape shape = { .ranks = own->end.ranks, .lanes = 2 };
    struct gy_net_schedule s = {0};
    struct gy_net_exec *exec = NULL;
    float *data = calloc(TT_MOST, sizeof *data);
    GY_TRY(gy_net_build(&s, "ring", &shape, GY_NET_ALLREDUCE, &own->alloc, err));
    int status = gy_net_exec_open(&exec, &s, &own->end, TT_MOST, 1, NULL, &own->alloc, err);
    for (int k = 0; k < 3000 && status == GY_OK; k++) {
        memset(data, 0, TT_MOST * sizeof *data);
        if (k == 20 && own->rank == TT_VICTIM) {
            own->world->killed = gy_clock_ns();
            kill(getpid(), SIGKILL);
        }
        status = tt_sum(exec, data, TT_MOST, err);
        status = status > 0 ? GY_OK : status;
    }
    gy_net_exec_close(exec);
    gy_net_close_schedule(&s);
    free(data);
    if (status != GY_E_PEER)
        return GY_FAIL(err, GY_E_BUG, "status %d after the loss", status);
    char lost[24], gone[24];
    snprintf(lost, sizeof lost, "rank %d was lost", TT_VICTIM);
    snprintf(gone, sizeof gone, "rank %d is gone", TT_VICTIM);
    __atomic_add_fetch(&own->world->named, strstr(err->text, lost) || strstr(err->text, gone), __ATOMIC_ACQ_REL);
    return GY_OK;
}

/* Rank 0 can open no further file when rank 1 calls: it says so, and does not spin. In
 * processes. */
static int tt_starved(struct tt_rank *own, struct gy_error *err)
{
    char byte = 0;
    struct gy_net_request r = tt_request(0, 1 - own->rank, 1, &byte, 1);
    struct rlimit limit;
    const int next = dup(0);
    close(next);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)next;
    if (own->rank == 0)
        setrlimit(RLIMIT_NOFILE, &limit);
    tt_meet(own->world, 2);
    const int64_t until = gy_clock_ns() + 10000000000;
    int status = tt_post(own, &r, err);
    while (status == GY_OK && gy_clock_ns() < until && !__atomic_load_n(&own->world->named, __ATOMIC_ACQUIRE)) {
        status = tt_progress(own, err);
        tt_pause();
    }
    own->end.transport->cancel(own->end.self, -1); /* the request ends with this function */
    if (own->rank == 1)
        return GY_OK;
    __atomic_store_n(&own->world->named, 1, __ATOMIC_RELEASE);
    return status == GY_E_PEER && strstr(err->text, "rank 0: other ranks cannot be let in: Too many open files")
               ? GY_OK : GY_FAIL(err, GY_E_BUG, "without a free file rank 0 says %d", status);
}

static void tt_starve(void)
{
    struct tt_world *w = tt_world(2);
    struct rusage used;
    pid_t pids[2] = {0};
    int bad = 0;
    fflush(stdout);
    for (int r = 0; r < 2; r++)
        if ((pids[r] = fork()) == 0) {
            struct tt_rank own = { .world = w, .rank = r, .body = tt_starved };
            tt_thread(&own);
            getrusage(RUSAGE_SELF, &used);
            if (used.ru_utime.tv_sec + used.ru_stime.tv_sec > 0)
                printf("    rank %d works while it waits\n", r);
            fflush(stdout);
            _exit(own.status != GY_OK || used.ru_utime.tv_sec + used.ru_stime.tv_sec > 0);
        }
    for (int r = 0; r < 2; r++) {
        int code = -1;
        waitpid(pids[r], &code, 0);
        bad += !WIFEXITED(code) || WEXITSTATUS(code) != 0;
    }
    T_CHECK_MSG(bad == 0, "%d of 2 ranks are not right without a free file", bad);
    munmap(w, sizeof *w);
}

static void tt_kill(int ranks)
{
    struct tt_world *w = tt_world(ranks);
    pid_t pids[TT_RANKS] = {0};
    int bad = 0, lost = 0;
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if ((pids[r] = fork()) == 0) {
            struct tt_rank own = { .world = w, .rank = r, .body = tt_lose };
            tt_thread(&own);
            fflush(stdout);
            _exit(own.status != GY_OK);
        }
    for (int left = ranks; left > 0; left--) {
        int code = -1;
        const pid_t pid = waitpid(-1, &code, 0);
        if (pid == pids[TT_VICTIM])
            lost = WIFSIGNALED(code) && WTERMSIG(code) == SIGKILL;
        else
            bad += !WIFEXITED(code) || WEXITSTATUS(code) != 0;
    }
    const double seconds = (double)(gy_clock_ns() - w->killed) * 1e-9;
    T_CHECK_MSG(lost && w->killed > 0, "%d ranks: none was killed", ranks);
    T_CHECK_MSG(w->named > 0, "%d ranks: nobody says who was killed", ranks);
    T_CHECK_MSG(bad == 0 && seconds < 6, "%d ranks, one killed: %d bad, %.1f s", ranks, bad, seconds);
    munmap(w, sizeof *w);
}

int main(void)
{
    tt_make_values();
    for (int ranks = 2; ranks <= TT_RANKS; ranks++)
        tt_run(ranks, tt_sums, "sums");
    tt_run(2, tt_half, "sums that travel as bf16");
    tt_run(4, tt_half, "sums that travel as bf16");
    tt_run(2, tt_taken, "messages that are taken while they come");
    tt_run(2, tt_reverse, "receives in the reverse order");
    tt_run(2, tt_huge, "messages beyond the window");
    tt_run(2, tt_mixed, "tags and sizes at random");
    tt_run(2, tt_leave, "a farewell");
    tt_run(2, tt_mismatch, "sizes that differ");
    tt_run(2, tt_cancel, "a cancelled receive");
    tt_run(2, tt_busy, "a rank that reads nothing for a while");
    tt_run(3, tt_hostile, "strangers");
    for (tt_mad_now = 0; tt_mad_now < GY_COUNT(tt_mads); tt_mad_now++)
        tt_run(2, tt_mad, tt_mads[tt_mad_now].what);
    tt_starve();
    tt_kill(3);
    tt_kill(4);
    T_END("t_net_tcp");
}
