/* SPDX-License-Identifier: MIT */
/* t_schedule.c: schedules. Every algorithm is proved for every number of ranks, layouts and goals.
 * Numbers run through them give the sums that the proof promises. Each kind of damage to a schedule
 * is noticed. */
#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "net/schedule/schedule.h"
#include "tests/net_algorithms.h"
#include "tests/t.h"

static const struct gy_alloc *schedule_alloc(void)
{
    static struct gy_alloc alloc;
    alloc = gy_alloc_default();
    return &alloc;
}

/* Halving alone, without a power of two, makes nothing but an allreduce. */
static int schedule_is_refused(const char *name, int ranks, int goal)
{
    return strcmp(name, "halving") == 0 && goal != GY_NET_ALLREDUCE && (ranks & (ranks - 1)) != 0;
}

static int schedule_build(struct gy_net_schedule *s, const char *name, const struct gy_net_shape *shape, int goal)
{
    struct gy_error err = {0};
    const int status = gy_net_build(s, name, shape, goal, schedule_alloc(), &err);
    T_CHECK_MSG(status == (schedule_is_refused(name, shape->ranks, goal) ? GY_E_UNSUPPORTED : GY_OK), "%s of %d, goal %d: %d, %s", name, shape->ranks,
                goal, status, err.text);
    return status;
}

static void schedule_prove(const char *name, const struct gy_net_shape *shape, int goal, struct gy_net_proof *proof)
{
    struct gy_net_schedule s;
    struct gy_error err = {0};
    if (schedule_build(&s, name, shape, goal) != GY_OK)
        return;
    const int status = gy_net_verify(&s, proof, &err);
    T_CHECK_MSG(status == GY_OK, "%s of %d ranks, %d lanes, goal %d: %s", name, shape->ranks, shape->lanes, goal, err.text);
    gy_net_close_schedule(&s);
}

/* dims of ranks: its prime factors, at most two of them of one size together. */
static void schedule_dims(struct gy_net_shape *shape)
{
    shape->dim_count = 0;
    int rest = shape->ranks;
    for (int f = 2; rest > 1 && shape->dim_count < GY_NET_DIMS - 1; f++)
        for (; rest % f == 0 && shape->dim_count < GY_NET_DIMS - 1; rest /= f)
            shape->dims[shape->dim_count++] = f;
    shape->dims[shape->dim_count++] = rest;
}

/* Proves all algorithms of the table. Direct is left out above 64 ranks: it sends a message from
 * each rank to each. */
static void schedule_all(int ranks, int lanes)
{
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count);
    struct gy_net_shape shape = { .ranks = ranks, .lanes = lanes };
    struct gy_net_proof proof;
    schedule_dims(&shape);
    for (size_t i = 0; i < count; i++)
        for (int goal = 0; goal < GY_NET_GOALS; goal++)
            if (rows[i].goals & 1u << goal && (ranks <= 64 || strcmp(rows[i].name, "direct") != 0))
                schedule_prove(rows[i].name, &shape, goal, &proof);
}

/* Hosts of unequal ranks. Algorithms that do not look at hosts see a number of ranks alone. */
static void schedule_unequal(uint64_t seed)
{
    int hosts[8];
    struct gy_net_shape shape = { .lanes = 2, .hosts = hosts, .host_count = 2 + (int)(seed % 6) };
    struct gy_net_proof proof;
    for (int h = 0; h < shape.host_count; h++) {
        uint32_t words[4];
        gy_rng_words(7, 1, seed, (uint64_t)h, words);
        hosts[h] = 1 + (int)(words[0] % 8);
        shape.ranks += hosts[h];
    }
    for (int i = 0; net_allreduce(i); i++)
        schedule_prove(net_allreduce(i), &shape, GY_NET_ALLREDUCE, &proof);
}

/* Powers of two: flat, by dimensions and by doubling, sums are one tree. */
static void schedule_certificates(void)
{
    const struct gy_net_shape flat = { .ranks = 64, .lanes = 1 }, grid = { .ranks = 64, .lanes = 3, .dim_count = 3, .dims = {4, 2, 8} };
    struct gy_net_proof a, b, c, ring, blocks;
    schedule_prove("halving", &flat, GY_NET_ALLREDUCE, &a);
    schedule_prove("multihalving", &grid, GY_NET_ALLREDUCE, &b);
    schedule_prove("doubling", &flat, GY_NET_ALLREDUCE, &c);
    schedule_prove("ring", &flat, GY_NET_ALLREDUCE, &ring);
    schedule_prove("blocks", &flat, GY_NET_ALLREDUCE, &blocks);
    T_CHECK(memcmp(a.order, b.order, sizeof a.order) == 0);
    T_CHECK(memcmp(a.order, c.order, sizeof a.order) == 0);
    T_CHECK(memcmp(a.order, blocks.order, sizeof a.order) == 0);
    T_CHECK(memcmp(a.order, ring.order, sizeof a.order) != 0);
    T_CHECK(a.rounds == 12 && c.rounds == 7 && ring.rounds == 126);
}

/* ---- damage ---- */

enum schedule_damage { DAMAGE_DROP, DAMAGE_DOUBLE, DAMAGE_PEER, DAMAGE_PIECE, DAMAGE_LENGTH, DAMAGE_KIND, DAMAGE_SWAP, DAMAGES };

static void schedule_remove(struct gy_net_schedule *s, int64_t at)
{
    memmove(&s->steps[at], &s->steps[at + 1], (size_t)(s->count - at - 1) * sizeof *s->steps);
    s->count--;
    for (int r = 0; r <= s->ranks; r++)
        s->first[r] -= s->first[r] > at;
}

static void schedule_repeat(struct gy_net_schedule *s, int64_t at)
{
    memmove(&s->steps[at + 1], &s->steps[at], (size_t)(s->count - at) * sizeof *s->steps);
    s->count++;
    for (int r = 0; r <= s->ranks; r++)
        s->first[r] += s->first[r] > at;
}

/* Exchanges step `at` and the next one of its rank where their rounds differ. Returns 0 when that
 * changes nothing. */
static int schedule_exchange(struct gy_net_schedule *s, int64_t at)
{
    struct gy_net_step *a = &s->steps[at], *b = a + 1, old = *a;
    if (at + 1 >= s->count || a->lane != b->lane || a->round == b->round)
        return 0;
    if (a->kind == b->kind && a->peer == b->peer && a->piece == b->piece && a->pieces == b->pieces)
        return 0;
    const uint16_t rounds[2] = {a->round, b->round};
    *a = *b;
    *b = old;
    a->round = rounds[0];
    b->round = rounds[1];
    return 1;
}

/* Returns 0 when this damage does nothing to this step. */
static int schedule_damage(struct gy_net_schedule *s, int64_t at, int damage)
{
    struct gy_net_step *t = &s->steps[at];
    switch (damage) {
    case DAMAGE_DROP: schedule_remove(s, at); return 1;
    case DAMAGE_DOUBLE: schedule_repeat(s, at); return 1;
    case DAMAGE_PEER: t->peer = (t->peer + 1) % s->ranks; return 1;
    case DAMAGE_PIECE: t->piece = (t->piece + 1) % s->pieces; return s->pieces > 1;
    case DAMAGE_LENGTH: t->pieces++; return 1;
    case DAMAGE_KIND: t->kind = (uint8_t)((t->kind + 1) % GY_NET_KINDS); return 1;
    default: return schedule_exchange(s, at);
    }
}

/* A swap may leave a schedule that is right in another order. Then the order's certificate or the
 * sums must still be sound, so it is only counted. Every other damage must be refused. */
static void schedule_mutants(const char *name, const struct gy_net_shape *shape)
{
    struct gy_net_schedule s;
    struct gy_net_proof proof;
    int harmless = 0, tried = 0;
    if (schedule_build(&s, name, shape, GY_NET_ALLREDUCE) != GY_OK)
        return;
    const int64_t count = s.count;
    gy_net_close_schedule(&s);
    for (int64_t at = 0; at < count; at++)
        for (int damage = 0; damage < DAMAGES; damage++) {
            struct gy_error err = {0};
            if (schedule_build(&s, name, shape, GY_NET_ALLREDUCE) != GY_OK)
                return;
            const int changed = s.count + 1 < s.room && schedule_damage(&s, at, damage);
            const int status = changed ? gy_net_verify(&s, &proof, &err) : GY_OK;
            tried += changed;
            if (damage == DAMAGE_SWAP)
                harmless += changed && status == GY_OK;
            else if (changed)
                T_CHECK_MSG(status == GY_E_FORMAT, "%s of %d: damage %d of step %" PRId64 " was not noticed", name, shape->ranks, damage, at);
            gy_net_close_schedule(&s);
        }
    printf("%s of %d ranks: %d mutants, %d swaps that leave a right schedule\n", name, shape->ranks, tried, harmless);
    /* a swap, a single piece and a full list may change nothing */
    T_CHECK(tried > count * (DAMAGES - 3));
}

/* ---- bad input of builders ---- */

/* Each limit, and the first value beyond it. status GY_OK: it is built. */
static const struct {
    struct gy_net_shape shape;
    int status;
    const char *says;
} schedule_limits[] = {
    {{ .ranks = 0, .lanes = 1 }, GY_E_ARG, "0 ranks; a schedule has 1 to"},
    {{ .ranks = 1, .lanes = 1 }, GY_OK, ""},
    {{ .ranks = GY_NET_RANKS_MOST + 1, .lanes = 1 }, GY_E_ARG, "ranks; a schedule has 1 to"},
    {{ .ranks = 4, .lanes = 0 }, GY_E_ARG, "0 lanes; a schedule has 1 to 1024"},
    {{ .ranks = 4, .lanes = 1024 }, GY_OK, ""},
    {{ .ranks = 4, .lanes = 1025 }, GY_E_ARG, "1025 lanes; a schedule has 1 to 1024"},
    {{ .ranks = 4, .lanes = 1, .dim_count = -1 }, GY_E_ARG, "-1 dimensions; there may be 8"},
    {{ .ranks = 4, .lanes = 1, .dim_count = 0 }, GY_OK, ""},
    {{ .ranks = 256, .lanes = 1, .dim_count = 8, .dims = {2, 2, 2, 2, 2, 2, 2, 2} }, GY_OK, ""},
    {{ .ranks = 256, .lanes = 1, .dim_count = 9, .dims = {2, 2, 2, 2, 2, 2, 2, 2} }, GY_E_ARG, "9 dimensions; there may be 8"},
    {{ .ranks = 6, .lanes = 1, .dim_count = 2, .dims = {2, 2} }, GY_E_ARG, "the dimensions multiply to 4, not to 6 ranks"},
    {{ .ranks = 6, .lanes = 1, .dim_count = 2, .dims = {6, 0} }, GY_E_ARG, "dimension 1 has 0 ranks; it must have 1 to 6"},
    {{ .ranks = 6, .lanes = 1, .dim_count = 2, .dims = {7, 1} }, GY_E_ARG, "dimension 0 has 7 ranks; it must have 1 to 6"},
    {{ .ranks = 6, .lanes = 1, .dim_count = 2, .dims = {6, 1} }, GY_OK, ""},
    {{ .ranks = 4096, .lanes = 1, .dim_count = 6, .dims = {4096, 4096, 4096, 4096, 4096, 4096} },
     GY_E_ARG, "multiply to 2147483647, not to 4096 ranks"},
    {{ .ranks = 6, .lanes = 1, .host_count = 2, .hosts = (const int[]){6, 0} }, GY_E_ARG, "host 1 has 0 ranks; it must have at least 1"},
};

static void schedule_refusals(void)
{
    struct gy_net_schedule s;
    struct gy_error err = {0};
    const struct gy_net_shape good = { .ranks = 4, .lanes = 1 };
    T_CHECK(gy_net_build(&s, "spiral", &good, GY_NET_ALLREDUCE, schedule_alloc(), &err) == GY_E_ARG);
    T_CHECK(gy_net_build(&s, "binomial", &good, GY_NET_ALLREDUCE, schedule_alloc(), &err) == GY_E_UNSUPPORTED);
    for (size_t i = 0; i < GY_COUNT(schedule_limits); i++) {
        err = (struct gy_error){0};
        const int status = gy_net_build(&s, "multiring", &schedule_limits[i].shape, GY_NET_ALLREDUCE, schedule_alloc(), &err);
        T_CHECK_MSG(status == schedule_limits[i].status && strstr(err.text, schedule_limits[i].says), "limit %zu: %d, '%s'", i, status, err.text);
        if (status == GY_OK)
            gy_net_close_schedule(&s);
    }
}

/* 256 ranks as PowerAI DDL had them. */
static void schedule_large(void)
{
    const struct gy_net_shape shape = { .ranks = 256, .lanes = 4, .dim_count = 3, .dims = {4, 8, 8} };
    struct gy_net_proof proof;
    struct gy_net_schedule s;
    struct gy_error err = {0};
    if (schedule_build(&s, "multiring", &shape, GY_NET_ALLREDUCE) != GY_OK)
        return;
    const int64_t begin = gy_clock_ns();
    const int status = gy_net_verify(&s, &proof, &err);
    T_CHECK_MSG(status == GY_OK, "%s", err.text);
    printf("multiring 4x8x8 in 4 lanes: %" PRId64 " messages, %d rounds, proved in %.1f ms\n", proof.messages, proof.rounds,
           (double)(gy_clock_ns() - begin) * 1e-6);
    T_CHECK(status == GY_OK && proof.rounds == 34 && proof.pieces_sent == 2 * (256 - 1) * 256 * 4);
    gy_net_close_schedule(&s);
}

int main(void)
{
    for (int ranks = 1; ranks <= 64; ranks++)
        schedule_all(ranks, 1 + ranks % 3);
    for (uint64_t k = 0; k < 6; k++) {
        uint32_t words[4];
        gy_rng_words(5, 1, k, 0, words);
        schedule_all(65 + (int)(words[0] % (k == 0 ? 960 : 300)), 1);
    }
    for (uint64_t seed = 0; seed < 60; seed++)
        schedule_unequal(seed);
    schedule_certificates();
    for (int i = 0; net_allreduce(i); i++) {
        const struct gy_net_shape six = { .ranks = 6, .lanes = 1, .dim_count = 2, .dims = {2, 3} };
        const struct gy_net_shape eight = { .ranks = 8, .lanes = 2, .dim_count = 2, .dims = {2, 4} };
        schedule_mutants(net_allreduce(i), &six);
        schedule_mutants(net_allreduce(i), &eight);
    }
    schedule_refusals();
    schedule_large();
    T_END("t_schedule");
}
