/* SPDX-License-Identifier: MIT */
/* cost.c: measures with small messages first: half the shortest round trip is the latency. Then it
 * doubles the message until a way takes some milliseconds; the time beyond the latency gives the
 * rate. Candidates are simulated without a proof, as builders' schedules: the one that is chosen is
 * proved where it is used (inter_host.c). */
#include "net/schedule/cost.h"
#include "engine/base/clock.h"
#include "net/schedule/algorithms.h"
#include "net/schedule/exec.h"

#define COST_TURNS 24                     /* small messages; the first ones warm up */
#define COST_TRIES 4                      /* longer ones */
#define COST_SMALL ((size_t)8)
#define COST_FIRST ((size_t)16 << 10)
#define COST_MOST ((size_t)4 << 20)
/* seconds of one way; a longer message is not tried after that */
#define COST_ENOUGH 3e-3
#define COST_PATIENCE_NS 10000000000
#define COST_TAG 0x436f7374u
#define COST_FLOATS ((int64_t)1 << 16)    /* added at a time: two such arrays fit in a level-2 cache */

static const int cost_lanes[] = {1, 2, 4};

static int cost_state(const struct gy_net_request *request)
{
    return __atomic_load_n(&request->state, __ATOMIC_ACQUIRE);
}

/* One message, done when this returns. */
static int cost_move(const struct gy_net_end *end, int peer, int sends, void *buffer, size_t bytes, struct gy_error *err)
{
    struct gy_net_request request = { .sends = sends, .peer = peer, .tag = COST_TAG, .buffer = buffer, .bytes = bytes };
    const int64_t deadline = gy_clock_ns() + COST_PATIENCE_NS;
    GY_TRY(end->transport->post(end->self, &request, err));
    while (cost_state(&request) == GY_NET_PENDING) {
        const int status = end->transport->progress(end->self, err);
        if (cost_state(&request) == GY_NET_PENDING && (status != GY_OK || gy_clock_ns() > deadline))
            end->transport->cancel(end->self, peer); /* the request ends with this function */
        GY_TRY(status);
    }
    return cost_state(&request) == GY_NET_DONE ? GY_OK
                                        : GY_FAIL(err, GY_E_PEER, "rank %d did not answer while the network was measured", peer);
}

/* Seconds of one way: half of forth and back. */
static int cost_way(const struct gy_net_end *end, int peer, int leads, void *buffer, size_t bytes, double *seconds, struct gy_error *err)
{
    const int64_t begin = gy_clock_ns();
    GY_TRY(cost_move(end, peer, leads, buffer, bytes, err));
    GY_TRY(cost_move(end, peer, !leads, buffer, bytes, err));
    *seconds = (double)(gy_clock_ns() - begin) * 0.5e-9;
    return GY_OK;
}

static int cost_latency(struct gy_net_costs *out, const struct gy_net_end *end, int peer, int leads, void *buffer, struct gy_error *err)
{
    double least = HUGE_VAL, way;
    for (int i = 0; i < COST_TURNS; i++) {
        GY_TRY(cost_way(end, peer, leads, buffer, COST_SMALL, &way, err));
        least = fmin(least, way);
    }
    out->latency = fmax(least, 1e-8);
    return GY_OK;
}

/* Both ranks must stop at the same length, so the leader sends its decision in a small message.
 * Other work on the machine makes a way longer, never shorter, so the shortest of a few tries
 * counts. */
static int cost_rate(struct gy_net_costs *out, const struct gy_net_end *end, int peer, int leads, unsigned char *buffer, struct gy_error *err)
{
    int enough = 0;
    for (size_t bytes = COST_FIRST; bytes <= COST_MOST && !enough; bytes *= 2) {
        double least = HUGE_VAL, way;
        unsigned char word[COST_SMALL] = {0};
        for (int i = 0; i < COST_TRIES; i++) {
            GY_TRY(cost_way(end, peer, leads, buffer, bytes, &way, err));
            least = fmin(least, way);
        }
        out->rate = (double)bytes / fmax(least - out->latency, 1e-9);
        word[0] = least >= COST_ENOUGH;
        GY_TRY(cost_move(end, peer, leads, word, sizeof word, err));
        enough = word[0];
    }
    return GY_OK;
}

static void cost_add(struct gy_net_costs *out, float *floats)
{
    double least = HUGE_VAL;
    for (int i = 0; i < 5; i++) {
        const int64_t begin = gy_clock_ns();
        gy_net_add_plain(floats, floats + COST_FLOATS, COST_FLOATS);
        least = fmin(least, (double)(gy_clock_ns() - begin) * 1e-9);
    }
    out->add = (double)COST_FLOATS * sizeof(float) / fmax(least, 1e-9);
}

GY_INT int gy_net_cost_measure(struct gy_net_costs *out, const struct gy_net_end *end, int peer, int leads, const struct gy_alloc *alloc,
                               struct gy_error *err)
{
    struct gy_net_costs costs = {0};
    void *const buffer = gy_alloc_take(alloc, 1, COST_MOST);
    if (!buffer)
        return GY_NOMEM(err, "measuring the network", COST_MOST);
    cost_add(&costs, buffer);
    int status = cost_latency(&costs, end, peer, leads, buffer, err);
    status = status == GY_OK ? cost_rate(&costs, end, peer, leads, buffer, err) : status;
    gy_alloc_free(alloc, buffer, COST_MOST);
    if (status == GY_OK)
        *out = costs;
    return status;
}

/* ---- the choice ---- */

struct cost_order {
    int wanted;              /* 0: any */
    unsigned char order[32]; /* certificate */
};

/* The certificate of an algorithm's order of sums. */
static int cost_certify(const char *name, const struct gy_net_shape *shape, unsigned char order[32], const struct gy_alloc *alloc,
                        struct gy_error *err)
{
    struct gy_net_schedule s;
    struct gy_net_proof proof;
    GY_TRY(gy_net_build(&s, name, shape, GY_NET_ALLREDUCE, alloc, err));
    const int status = gy_net_verify(&s, &proof, err);
    memcpy(order, proof.order, sizeof proof.order);
    gy_net_close_schedule(&s);
    return status;
}

/* What `like` asks for; its own lanes count, those of shape do not. */
static int cost_like(const char *like, const struct gy_net_shape *shape, struct cost_order *out, const struct gy_alloc *alloc,
                     struct gy_error *err)
{
    struct gy_net_shape one = *shape;
    char name[48];
    *out = (struct cost_order){ .wanted = like != NULL };
    if (!like)
        return GY_OK;
    one.lanes = 1;
    GY_TRY(gy_net_algorithm_parse(like, name, sizeof name, &one.lanes, err));
    return cost_certify(name, &one, out->order, alloc, err);
}

/* Expected seconds of one schedule. HUGE_VAL: it cannot be built for these hosts, or its order of
 * sums differs from the wanted one. */
static double cost_expect(const char *name, const struct gy_net_shape *shape, const struct gy_net_cluster *cluster,
                          const struct cost_order *like, double bytes, const struct gy_alloc *alloc)
{
    struct gy_net_schedule s;
    struct gy_error why = {0};
    unsigned char order[32];
    double seconds = HUGE_VAL;
    if (like->wanted && (cost_certify(name, shape, order, alloc, &why) != GY_OK || memcmp(order, like->order, sizeof order) != 0))
        return HUGE_VAL;
    if (gy_net_build(&s, name, shape, GY_NET_ALLREDUCE, alloc, &why) != GY_OK)
        return HUGE_VAL;
    if (gy_net_simulate(&s, cluster, bytes, 1, &seconds, &why) != GY_OK)
        seconds = HUGE_VAL;
    gy_net_close_schedule(&s);
    return seconds;
}

GY_INT struct gy_net_cluster gy_net_cost_cluster(const struct gy_net_costs *c, const struct gy_net_shape *shape)
{
    return (struct gy_net_cluster){ .hosts = shape->ranks, .ranks_per_host = 1, .inside_rate = 1e15, .nic_rate = c->rate,
                                   .nic_latency = c->latency / 2, .overhead = c->latency / 4, .add_rate = c->add };
}

GY_INT int gy_net_cost_choose(const struct gy_net_costs *costs, const struct gy_net_shape *shape, const char *like, double bytes, char *name,
                              size_t room, double *seconds, const struct gy_alloc *alloc, struct gy_error *err)
{
    const struct gy_net_cluster cluster = gy_net_cost_cluster(costs, shape);
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count), *best = NULL;
    struct gy_net_shape one = *shape;
    struct cost_order order;
    double least = HUGE_VAL;
    int lanes = 1;
    if (shape->ranks > GY_NET_COST_HOSTS)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%d hosts: more than %d are not simulated", shape->ranks, GY_NET_COST_HOSTS);
    GY_TRY(cost_like(like, shape, &order, alloc, err));
    for (size_t i = 0; i < count; i++)
        for (size_t l = 0; l < GY_COUNT(cost_lanes) && (rows[i].goals & 1u << GY_NET_ALLREDUCE); l++) {
            one.lanes = cost_lanes[l];
            if (costs->lanes > 0 && one.lanes > costs->lanes)
                continue;
            const double expected = cost_expect(rows[i].name, &one, &cluster, &order, bytes, alloc);
            if (expected < least * 0.98) { /* more lanes, a later row: only for a gain */
                least = expected;
                best = &rows[i];
                lanes = cost_lanes[l];
            }
        }
    if (!best)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "no algorithm can be simulated for %d hosts", shape->ranks);
    snprintf(name, room, "%s:%d", best->name, lanes);
    if (seconds)
        *seconds = least;
    return GY_OK;
}
