/* SPDX-License-Identifier: MIT */
/* schedule_tree.c: whole-buffer algorithms, for small messages and for broadcasts; rows of
 * algorithms.c.
 *
 * doubling: in round t every rank exchanges all it has with the rank at distance 2^t, and both add.
 * It takes log2 p latencies, log2 p times the bytes. Ranks beyond the largest power of two first
 * add to one below, which sends them the sum at the end.
 *
 *             0 <-> 1, 2 <-> 3;  0 <-> 2, 1 <-> 3
 *
 * tree: two binary trees, each for half of the lanes. A leaf of one tree is an inner node of the
 * other, but for one rank at most. So with many lanes every link carries data both ways all the
 * time (Sanders, Speck and Traeff 2009).
 *
 *                  3                 4
 *                /   \             /   \
 *               1     5           2     6         sums up to the root, result down
 *              0 2   4 6         1 3   5 0
 *
 * binomial: broadcast: in round t the ranks below 2^t send to those 2^t further on. */
#include "net/schedule/builders.h"

static void tree_open(struct gy_net_schedule *s, const char *name, const struct gy_net_shape *shape, int lanes, int goal,
                      const struct gy_alloc *alloc)
{
    gy_net_open_schedule(s, alloc, name, goal, shape->ranks, lanes, lanes);
    s->dim_count = 1;
    s->dims[0] = shape->ranks;
}

GY_INT int gy_net_build_doubling(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                                 int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    int core = 1, round;
    while (core * 2 <= shape->ranks)
        core *= 2;
    tree_open(out, "doubling", shape, shape->lanes, goal, alloc);
    for (int lane = 0; lane < shape->lanes; lane++) {
        for (int r = core; r < shape->ranks; r++)
            gy_net_move(out, lane, 0, r, r - core, GY_NET_ADD, lane, 1);
        round = 1;
        for (int distance = 1; distance < core; distance *= 2, round++)
            for (int r = 0; r < core; r++)
                gy_net_move(out, lane, round, r, r ^ distance, GY_NET_ADD, lane, 1);
        for (int r = core; r < shape->ranks; r++)
            gy_net_move(out, lane, round, r - core, r, GY_NET_RECV, lane, 1);
    }
    return gy_net_finish(out, err);
}

/* A tree whose in-order walk is 0 .. p - 1: the root of [lo, hi) is its middle. The rank at a place
 * is (place + shift) % p. */
struct tree_walk {
    struct gy_net_schedule *s;
    int ranks, shift, lane, height;
};

static int tree_rank(const struct tree_walk *w, int place)
{
    return (place + w->shift) % w->ranks;
}

/* Adds the messages between the root of [lo, hi), at this depth, and its children; then those below
 * the children. The deepest messages go up first. */
static void tree_edges(const struct tree_walk *w, int lo, int hi, int depth)
{
    const int root = lo + (hi - lo) / 2;
    const int bounds[2][2] = {{lo, root}, {root + 1, hi}};
    for (int side = 0; side < 2; side++) {
        const int from = bounds[side][0], to = bounds[side][1];
        if (from >= to)
            continue;
        const int child = tree_rank(w, from + (to - from) / 2), parent = tree_rank(w, root);
        gy_net_move(w->s, w->lane, w->height - depth - 1, child, parent, GY_NET_ADD, w->lane, 1);
        gy_net_move(w->s, w->lane, w->height + depth, parent, child, GY_NET_RECV, w->lane, 1);
        tree_edges(w, from, to, depth + 1); /* as deep as the tree: 12 levels for 4,096 ranks */
    }
}

GY_INT int gy_net_build_tree(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                             int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct tree_walk w = { .s = out, .ranks = shape->ranks };
    while (1 << w.height <= shape->ranks)
        w.height++;
    tree_open(out, "tree", shape, 2 * shape->lanes, goal, alloc);
    for (w.lane = 0; w.lane < 2 * shape->lanes; w.lane++) {
        w.shift = w.lane % 2;
        tree_edges(&w, 0, shape->ranks, 0);
    }
    return gy_net_finish(out, err);
}

GY_INT int gy_net_build_binomial(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                                 int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    tree_open(out, "binomial", shape, shape->lanes, goal, alloc);
    for (int lane = 0; lane < shape->lanes; lane++)
        for (int round = 0, have = 1; have < shape->ranks; round++, have *= 2)
            for (int r = 0; r < have && r + have < shape->ranks; r++)
                gy_net_move(out, lane, round, r, r + have, GY_NET_RECV, lane, 1);
    return gy_net_finish(out, err);
}
