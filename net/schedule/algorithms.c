/* SPDX-License-Identifier: MIT */
/* algorithms.c: the algorithms by name, and the checks of a shape that all of them share. A new
 * algorithm is a row here; docs/changing.md has the other places. */
#include "net/schedule/algorithms.h"
#include "net/schedule/builders.h"

#define ALGORITHM_SCATTERS (1u << GY_NET_ALLREDUCE | 1u << GY_NET_REDUCE_SCATTER | 1u << GY_NET_ALL_GATHER)

static const struct gy_net_algorithm algorithm_rows[] = {
    {"ring", "one ring over all ranks: the fewest bytes, the most rounds", gy_net_build_ring, ALGORITHM_SCATTERS},
    {"halving", "recursive halving and doubling over all ranks", gy_net_build_halving, ALGORITHM_SCATTERS},
    {"direct", "everybody to everybody: one round each way", gy_net_build_direct, ALGORITHM_SCATTERS},
    {"multiring", "rings along each dimension in turn", gy_net_build_multiring, ALGORITHM_SCATTERS},
    {"multihalving", "halving along each dimension in turn", gy_net_build_multihalving, ALGORITHM_SCATTERS},
    {"hosts", "direct inside hosts, each rank's part between them; hosts may differ in ranks", gy_net_build_hosts,
     1u << GY_NET_ALLREDUCE},
    {"doubling", "whole buffers between ranks at distances 1, 2, 4: the fewest rounds", gy_net_build_doubling, 1u << GY_NET_ALLREDUCE},
    {"tree", "two binary trees, each for half of the buffer", gy_net_build_tree, 1u << GY_NET_ALLREDUCE},
    {"blocks", "a balanced tree over shards on any number of ranks", gy_net_build_blocks,
     1u << GY_NET_ALLREDUCE},
    {"binomial", "from rank 0 to everybody", gy_net_build_binomial, 1u << GY_NET_BROADCAST},
};

GY_INT const struct gy_net_algorithm *gy_net_algorithms(size_t *count)
{
    *count = GY_COUNT(algorithm_rows);
    return algorithm_rows;
}

GY_INT const struct gy_net_algorithm *gy_net_algorithm(const char *name)
{
    for (size_t i = 0; i < GY_COUNT(algorithm_rows); i++)
        if (strcmp(algorithm_rows[i].name, name) == 0)
            return &algorithm_rows[i];
    return NULL;
}

static const char *const algorithm_goals[GY_NET_GOALS] = {"allreduce", "reduce-scatter", "all-gather", "broadcast"};

static int algorithm_check(const struct gy_net_shape *shape, struct gy_error *err)
{
    int64_t product = 1;
    if (shape->ranks < 1 || shape->ranks > GY_NET_RANKS_MOST)
        return GY_FAIL(err, GY_E_ARG, "%d ranks; a schedule has 1 to %d", shape->ranks, GY_NET_RANKS_MOST);
    if (shape->lanes < 1 || shape->lanes > 1024)
        return GY_FAIL(err, GY_E_ARG, "%d lanes; a schedule has 1 to 1024", shape->lanes);
    if (shape->dim_count < 0 || shape->dim_count > GY_NET_DIMS)
        return GY_FAIL(err, GY_E_ARG, "%d dimensions; there may be %d", shape->dim_count, GY_NET_DIMS);
    for (int d = 0; d < shape->dim_count; d++) {
        if (shape->dims[d] < 1 || shape->dims[d] > shape->ranks)
            return GY_FAIL(err, GY_E_ARG, "dimension %d has %d ranks; it must have 1 to %d", d, shape->dims[d], shape->ranks);
        product = gy_min64(product * shape->dims[d], INT32_MAX);
    }
    for (int h = 0; h < shape->host_count; h++)
        if (shape->hosts[h] < 1)
            return GY_FAIL(err, GY_E_ARG, "host %d has %d ranks; it must have at least 1", h, shape->hosts[h]);
    if (shape->dim_count > 0 && product != shape->ranks)
        return GY_FAIL(err, GY_E_ARG, "the dimensions multiply to %" PRId64 ", not to %d ranks", product, shape->ranks);
    return GY_OK;
}

GY_INT int gy_net_algorithm_parse(const char *text, char *name, size_t room, int *lanes, struct gy_error *err)
{
    const char *colon = strchr(text, ':');
    const size_t bytes = colon ? (size_t)(colon - text) : strlen(text);
    int64_t value = *lanes;
    if (bytes >= room || (colon && gy_text_int(colon + 1, 1, 64, &value) != 0))
        return GY_FAIL(err, GY_E_ARG, "\"%.100s\" is no algorithm between hosts; it must be NAME or NAME:LANES with 1 to 64 lanes", text);
    memcpy(name, text, bytes);
    name[bytes] = 0;
    *lanes = (int)value;
    return GY_OK;
}

GY_INT const char *gy_net_goal_name(int goal) { return algorithm_goals[goal]; }

GY_INT int gy_net_build(struct gy_net_schedule *out, const char *algorithm, const struct gy_net_shape *shape, int goal,
                        const struct gy_alloc *alloc, struct gy_error *err)
{
    const struct gy_net_algorithm *row = gy_net_algorithm(algorithm);
    *out = (struct gy_net_schedule){ .failed = 1 };
    if (!row)
        return GY_FAIL(err, GY_E_ARG, "there is no algorithm \"%s\"", algorithm);
    if (!(row->goals & 1u << goal))
        return GY_FAIL(err, GY_E_UNSUPPORTED, "the algorithm %s makes no %s", algorithm, algorithm_goals[goal]);
    GY_TRY(algorithm_check(shape, err));
    const int status = row->build(out, shape, goal, alloc, err);
    if (status != GY_OK)
        gy_net_close_schedule(out);
    return status;
}
