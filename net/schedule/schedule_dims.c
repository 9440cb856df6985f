/* SPDX-License-Identifier: MIT */
/* schedule_dims.c: collectives over dimensions; rows of algorithms.c. Ranks form a grid. Along each
 * dimension in turn the groups that differ in this coordinate only scatter what they still hold;
 * then they gather in the reverse order. Parts shrink from dimension to dimension, so the far and
 * slow dimensions move the least. All groups of a dimension work at once, each on its own part:
 * many rings.
 *
 *     dims 4x8x8:   scatter in hosts (1 -> 1/4), in racks (1/4 -> 1/32), between racks
 *                   (1/32 -> 1/256), gather back
 *
 * This is the mesh collective of Barnett and van de Geijn (1994). With rings in each dimension it
 * is the multi-ring of PowerAI DDL (Cho et al. 2017). With recursive halving in each it is better
 * than that on switched networks. One dimension gives the flat forms.
 *
 * Halving begins with the nearest ranks, in every dimension. So its sums are the balanced tree over
 * ranks, for any dimensions that are powers of two. In flat halving, ranks beyond the largest power
 * of two first add to a partner, which tells them the result at the end. In a grid, a dimension
 * that is no power of two has rings. All lanes begin at once and go through the dimensions by
 * themselves. */
#include "net/schedule/builders.h"

struct dims_kind {
    gy_net_group_fn scatter, gather;
    int power; /* members must be a power of two */
};
static const struct dims_kind dims_ring = {gy_net_ring_scatter, gy_net_ring_gather, 0};
static const struct dims_kind dims_halving = {gy_net_halving_scatter, gy_net_halving_gather, 1};
static const struct dims_kind dims_direct = {gy_net_direct_scatter, gy_net_direct_gather, 0};

static int dims_is_power(int n)
{
    return (n & (n - 1)) == 0;
}

/* One lane's way through the grid. round: the next to be used. rank: room for a group's members. */
struct dims_walk {
    struct gy_net_schedule *s;
    const struct dims_kind *kind;
    int lane, round;
    int *rank; /* [largest dimension] */
};

/* The block of a coordinate along dimension d. */
static int dims_block(const struct gy_net_schedule *s, int d, int at)
{
    return s->turned >> d & 1 ? gy_net_turned(at, s->dims[d]) : at;
}

/* Adds the rounds of all groups along dimension d, and returns the round after them. Each group
 * works on the part that its members hold; the coordinates before d decide which part that is. */
static int dims_along(const struct dims_walk *w, int d, int scatter)
{
    const struct gy_net_schedule *s = w->s;
    int stride = 1, held = s->pieces / s->lanes, end = w->round;
    for (int k = 0; k < d; k++) {
        stride *= s->dims[k];
        held /= s->dims[k];
    }
    const struct dims_kind *kind = w->kind->power && !dims_is_power(s->dims[d]) ? &dims_ring : w->kind;
    for (int base = 0; base < s->ranks; base++) {
        if (base / stride % s->dims[d] != 0)
            continue;
        int32_t piece = w->lane * (s->pieces / s->lanes), part = s->pieces / s->lanes;
        for (int k = 0, rest = base; k < d; rest /= s->dims[k++])
            piece += dims_block(s, k, rest % s->dims[k]) * (part /= s->dims[k]);
        for (int m = 0; m < s->dims[d]; m++)
            w->rank[dims_block(s, d, m)] = base + m * stride;
        const struct gy_net_group g = {w->lane, s->dims[d], w->rank, piece, held / s->dims[d]};
        end = (scatter ? kind->scatter : kind->gather)(w->s, &g, w->round);
    }
    return end;
}

/* Ranks from `core` on are folded into the first ones. With GY_NET_ADD they give all their data to
 * rank r - core, else they take all data from it. */
static void dims_fold(const struct dims_walk *w, int core, int ranks, int kind)
{
    const int32_t part = w->s->pieces / w->s->lanes;
    for (int r = core; r < ranks; r++)
        gy_net_move(w->s, w->lane, w->round, kind == GY_NET_ADD ? r : r - core, kind == GY_NET_ADD ? r - core : r, kind,
                    w->lane * part, part);
}

static void dims_lane(struct dims_walk *w, int core, int ranks, int goal)
{
    w->round = 0;
    if (core < ranks)
        dims_fold(w, core, ranks, GY_NET_ADD), w->round++;
    for (int d = 0; goal != GY_NET_ALL_GATHER && d < w->s->dim_count; d++)
        w->round = dims_along(w, d, 1);
    for (int d = w->s->dim_count - 1; goal != GY_NET_REDUCE_SCATTER && d >= 0; d--)
        w->round = dims_along(w, d, 0);
    if (core < ranks)
        dims_fold(w, core, ranks, GY_NET_RECV);
}

/* Ranks of the grid: all, or for flat halving the largest power of two among them. */
static int dims_core(const struct gy_net_shape *shape, const struct dims_kind *kind, int flat)
{
    int core = 1;
    while (core * 2 <= shape->ranks)
        core *= 2;
    return kind->power && flat ? core : shape->ranks;
}

static int dims_build(struct gy_net_schedule *out, const char *name, const struct dims_kind *kind, const struct gy_net_shape *shape,
                      int flat, int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    const int core = dims_core(shape, kind, flat);
    if (core < shape->ranks && goal != GY_NET_ALLREDUCE)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s of %d ranks: only an allreduce works without a power of two", name, shape->ranks);
    int *const rank = gy_alloc_take(alloc, (size_t)shape->ranks, sizeof *rank);
    if (!rank)
        return GY_NOMEM(err, "a schedule's ranks", (size_t)shape->ranks * sizeof *rank);
    struct dims_walk w = { .s = out, .kind = kind, .rank = rank };
    gy_net_open_schedule(out, alloc, name, goal, core, core * shape->lanes, shape->lanes);
    out->dim_count = flat || shape->dim_count == 0 ? 1 : shape->dim_count;
    out->dims[0] = core;
    for (int d = 0; d < out->dim_count && !flat && shape->dim_count > 0; d++)
        out->dims[d] = shape->dims[d];
    for (int d = 0; d < out->dim_count; d++)
        out->turned |= kind->power && dims_is_power(out->dims[d]) ? 1u << d : 0;
    for (w.lane = 0; w.lane < shape->lanes; w.lane++)
        dims_lane(&w, core, shape->ranks, goal);
    out->ranks = shape->ranks;
    gy_alloc_free(alloc, rank, (size_t)shape->ranks * sizeof *rank);
    return gy_net_finish(out, err);
}

GY_INT int gy_net_build_ring(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                             int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    return dims_build(out, "ring", &dims_ring, shape, 1, goal, alloc, err);
}

GY_INT int gy_net_build_halving(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                                int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    return dims_build(out, "halving", &dims_halving, shape, 1, goal, alloc, err);
}

GY_INT int gy_net_build_direct(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                               int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    return dims_build(out, "direct", &dims_direct, shape, 1, goal, alloc, err);
}

GY_INT int gy_net_build_multiring(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                                  int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    return dims_build(out, "multiring", &dims_ring, shape, 0, goal, alloc, err);
}

GY_INT int gy_net_build_multihalving(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                                     int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    return dims_build(out, "multihalving", &dims_halving, shape, 0, goal, alloc, err);
}
