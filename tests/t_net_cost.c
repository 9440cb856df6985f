/* SPDX-License-Identifier: MIT */
/* t_net_cost.c: the choice of an algorithm by cost: measurements between two ranks, and a lost or
 * silent one. The choice must be the fastest of all, by simulating each of them again. */
#include "net/schedule/algorithms.h"
#include "net/schedule/cost.h"
#include "tests/net_local.h"
#include "tests/t.h"
#include <pthread.h>

struct cost_rank {
    struct gy_net_end end;
    struct gy_net_costs costs;
    struct gy_error err;
    int status, leads;
};

static void *cost_thread(void *argument)
{
    struct cost_rank *r = argument;
    const struct gy_alloc alloc = gy_alloc_default();
    r->status = gy_net_cost_measure(&r->costs, &r->end, !r->end.rank, r->leads, &alloc, &r->err);
    return NULL;
}

static void cost_test_measure(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_local *local;
    struct cost_rank ranks[2] = {{ .leads = 1 }, { .leads = 0 }};
    struct gy_error err;
    pthread_t thread[2];
    if (!T_CHECK(gy_net_local_open(&local, 2, 3, 4, &alloc, &err) == GY_OK))
        return;
    for (int r = 0; r < 2; r++) {
        gy_net_local_end(local, r, &ranks[r].end);
        T_CHECK(pthread_create(&thread[r], NULL, cost_thread, &ranks[r]) == 0);
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(thread[r], NULL);
        T_CHECK_MSG(ranks[r].status == GY_OK, "rank %d: %s", r, ranks[r].err.text);
        const struct gy_net_costs *c = &ranks[r].costs;
        T_CHECK(c->latency > 0 && c->latency < 10 && c->rate > 0 && isfinite(c->rate) && c->add > 1e6 && isfinite(c->add));
    }
    gy_net_local_close(local);
}

static void cost_test_lost(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_local *local;
    struct cost_rank rank = { .leads = 1 };
    struct gy_error err;
    if (!T_CHECK(gy_net_local_open(&local, 2, 3, 0, &alloc, &err) == GY_OK))
        return;
    gy_net_local_end(local, 0, &rank.end);
    gy_net_local_kill(local, 1);
    cost_thread(&rank);
    T_CHECK(rank.status == GY_E_PEER && rank.err.text[0] != 0 && rank.costs.rate <= 0);
    gy_net_local_close(local);
}

/* ---- a transport that fails ---- */

struct cost_failing {
    struct gy_net_request *held; /* posted and not ended */
    int left;                    /* calls of progress until it fails */
};

static int cost_fail_post(void *self, struct gy_net_request *request, struct gy_error *err)
{
    struct cost_failing *const f = self;
    (void)err;
    request->state = GY_NET_PENDING;
    f->held = request;
    return GY_OK;
}

static int cost_fail_progress(void *self, struct gy_error *err)
{
    struct cost_failing *const f = self;
    if (f->left-- == 0)
        return GY_FAIL(err, GY_E_PEER, "no further rank can be let in");
    f->held->state = GY_NET_DONE;
    f->held = NULL;
    return GY_OK;
}

static void cost_fail_cancel(void *self, int peer)
{
    struct cost_failing *const f = self;
    (void)peer;
    f->held->state = GY_NET_LOST;
    f->held = NULL;
}

/* A measurement leaves no request behind: they lie on its stack. */
static void cost_test_failing(void)
{
    static const struct gy_net_transport transport = { .post = cost_fail_post, .progress = cost_fail_progress, .cancel = cost_fail_cancel };
    for (int calls = 0; calls < 4; calls++) {
        struct cost_failing failing = { .left = calls };
        struct cost_rank rank = { .end = { .transport = &transport, .self = &failing, .ranks = 2 }, .leads = 1 };
        cost_thread(&rank);
        T_CHECK_MSG(rank.status == GY_E_PEER && !failing.held, "call %d of progress fails: status %d, %s", calls, rank.status,
                    failing.held ? "a request is left" : rank.err.text);
    }
}

/* Seconds of one algorithm; HUGE_VAL: not for these hosts. */
static double cost_of(const char *name, const struct gy_net_shape *shape, int lanes, const struct gy_net_costs *c, double bytes)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_net_cluster cluster = gy_net_cost_cluster(c, shape);
    struct gy_net_shape one = *shape;
    struct gy_net_schedule s;
    struct gy_error err;
    double seconds = HUGE_VAL;
    one.lanes = lanes;
    if (gy_net_build(&s, name, &one, GY_NET_ALLREDUCE, &alloc, &err) != GY_OK)
        return HUGE_VAL;
    T_CHECK(gy_net_simulate(&s, &cluster, bytes, 1, &seconds, &err) == GY_OK);
    gy_net_close_schedule(&s);
    return seconds;
}

static void cost_test_choice(int hosts, const struct gy_net_costs *c, double bytes)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_net_shape shape = { .ranks = hosts, .lanes = 1, .dim_count = hosts % 2 == 0 && hosts > 2 ? 2 : 0, .dims = {2, hosts / 2} };
    char name[48] = "";
    double seconds = 0;
    struct gy_error err;
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count);
    if (!T_CHECK(gy_net_cost_choose(c, &shape, NULL, bytes, name, sizeof name, &seconds, &alloc, &err) == GY_OK))
        return;
    for (size_t i = 0; i < count; i++)
        for (int lanes = 1; lanes <= 4 && (rows[i].goals & 1u << GY_NET_ALLREDUCE); lanes *= 2) {
            const double other = cost_of(rows[i].name, &shape, lanes, c, bytes);
            T_CHECK_MSG(seconds <= other * 1.021, "%d hosts, %.0f bytes: %s takes %g s, %s:%d %g s", hosts, bytes, name, seconds,
                        rows[i].name, lanes, other);
        }
    const double wire = 2.0 * (hosts - 1) / hosts * bytes / c->rate, rounds = ceil(log2(hosts)) * c->latency;
    T_CHECK_MSG(seconds >= 0.99 * fmax(wire, c->latency), "%d hosts, %.0f bytes: %s in %g s is faster than possible", hosts, bytes, name, seconds);
    if (bytes >= 1e8 && c->latency < 1e-4)
        T_CHECK_MSG(seconds <= 1.2 * (wire + bytes / c->add), "%d hosts: %s takes %g s for %g s of wire", hosts, name, seconds, wire);
    if (bytes <= 8)
        T_CHECK_MSG(seconds <= 1.1 * (rounds + c->latency), "%d hosts: %s takes %g s for %g s of rounds", hosts, name, seconds, rounds);
}

static int cost_certificate(const char *said, const struct gy_net_shape *shape, unsigned char order[32])
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_shape one = *shape;
    struct gy_net_schedule s;
    struct gy_net_proof proof;
    struct gy_error err;
    char name[48];
    if (gy_net_algorithm_parse(said, name, sizeof name, &one.lanes, &err) != GY_OK ||
        gy_net_build(&s, name, &one, GY_NET_ALLREDUCE, &alloc, &err) != GY_OK)
        return 0;
    const int good = gy_net_verify(&s, &proof, &err) == GY_OK;
    memcpy(order, proof.order, sizeof proof.order);
    gy_net_close_schedule(&s);
    return good;
}

/* Only schedules with the same sums take part, and of these the fastest is taken. */
static void cost_test_like(int hosts, const char *like, const struct gy_net_costs *c, double bytes)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_net_shape shape = { .ranks = hosts, .lanes = 1, .dim_count = hosts % 2 == 0 && hosts > 2 ? 2 : 0, .dims = {2, hosts / 2} };
    unsigned char wanted[32], found[32];
    char name[48] = "", row[64];
    double seconds = 0;
    struct gy_error err;
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count);
    if (!T_CHECK(gy_net_cost_choose(c, &shape, like, bytes, name, sizeof name, &seconds, &alloc, &err) == GY_OK))
        return;
    T_CHECK_MSG(cost_certificate(like, &shape, wanted) && cost_certificate(name, &shape, found) && memcmp(wanted, found, 32) == 0,
                "%d hosts: %s does not make the sums of %s", hosts, name, like);
    for (size_t i = 0; i < count; i++)
        for (int lanes = 1; lanes <= 4 && (rows[i].goals & 1u << GY_NET_ALLREDUCE); lanes *= 2) {
            snprintf(row, sizeof row, "%s:%d", rows[i].name, lanes);
            if (cost_certificate(row, &shape, found) && memcmp(wanted, found, 32) == 0)
                T_CHECK_MSG(seconds <= cost_of(rows[i].name, &shape, lanes, c, bytes) * 1.021, "%d hosts, %.0f bytes, like %s: %s is slower than %s",
                            hosts, bytes, like, name, row);
        }
}

/* Between two hosts nothing is gained by more messages where their work counts. */
static void cost_test_lanes(void)
{
    const struct gy_net_costs loopback = {5e-6, 4e9, 5e10, 0};
    const struct gy_net_shape two = { .ranks = 2, .lanes = 1 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err;
    char name[48] = "";
    T_CHECK(gy_net_cost_choose(&loopback, &two, "halving:2", 524288, name, sizeof name, NULL, &alloc, &err) == GY_OK);
    T_CHECK_MSG(strchr(name, ':') && strcmp(strchr(name, ':'), ":1") == 0, "%s", name);
}

int main(void)
{
    static const struct gy_net_costs costs[] = {{1e-6, 1e10, 1e10, 0}, {3e-5, 1.25e8, 5e9, 0}, {1e-3, 1e9, 1e10, 0}};
    static const int hosts[] = {2, 3, 4, 6, 8};
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_net_shape many = { .ranks = GY_NET_COST_HOSTS + 1, .lanes = 1 };
    struct gy_error err;
    char name[48];
    cost_test_measure();
    cost_test_lost();
    cost_test_failing();
    cost_test_lanes();
    for (size_t c = 0; c < GY_COUNT(costs); c++)
        for (size_t h = 0; h < GY_COUNT(hosts); h++)
            for (double bytes = 8; bytes <= 1e9; bytes *= 464)
                cost_test_choice(hosts[h], &costs[c], bytes);
    for (size_t c = 0; c < GY_COUNT(costs); c++)
        for (double bytes = 8; bytes <= 1e9; bytes *= 464) {
            cost_test_like(8, "halving:2", &costs[c], bytes);
            cost_test_like(8, "doubling:1", &costs[c], bytes);
            cost_test_like(6, "multihalving:2", &costs[c], bytes);
            cost_test_like(3, "ring:2", &costs[c], bytes);
        }
    T_CHECK(gy_net_cost_choose(&costs[0], &(struct gy_net_shape){ .ranks = 4, .lanes = 1 }, "none:1", 1e6, name, sizeof name, NULL, &alloc,
                               &err) == GY_E_ARG);
    T_CHECK(gy_net_cost_choose(&costs[0], &many, NULL, 1e6, name, sizeof name, NULL, &alloc, &err) == GY_E_UNSUPPORTED);
    T_END("t_net_cost");
}
