/* SPDX-License-Identifier: MIT */
/* slices.c: deals slices greedily. With the largest first no server has more than a third above the
 * best cut. */
#include "net/server/slices.h"

static int slices_largest(const struct gy_server_slice *slices, int count)
{
    int best = -1;
    for (int k = 0; k < count; k++)
        if (slices[k].server < 0 && (best < 0 || slices[k].count > slices[best].count))
            best = k;
    return best;
}

/* Floats that a server has so far. */
static int64_t slices_load(const struct gy_server_slice *slices, int count, int server)
{
    int64_t load = 0;
    for (int k = 0; k < count; k++)
        load += slices[k].server == server ? slices[k].count : 0;
    return load;
}

static int slices_least(const struct gy_server_slice *slices, int count, int servers)
{
    int least = 0;
    for (int s = 1; s < servers; s++)
        if (slices_load(slices, count, s) < slices_load(slices, count, least))
            least = s;
    return least;
}

GY_INT int gy_server_deal(struct gy_server_slice *slices, int count, int servers,
                          struct gy_error *err)
{
    if (count < servers)
        return GY_FAIL(err, GY_E_ARG, "%d servers, but the parameters are cut into %d slices: take "
                       "fewer servers or smaller buckets", servers, count);
    for (int k = 0; k < count; k++)
        slices[k].server = -1;
    for (int k; (k = slices_largest(slices, count)) >= 0;)
        slices[k].server = slices_least(slices, count, servers);
    return GY_OK;
}

static int slices_overlap(const struct gy_server_slice *a, const struct gy_server_slice *b)
{
    return a->first < b->first + b->count && b->first < a->first + a->count;
}

GY_INT int gy_server_slices_check(const struct gy_server_slice *slices, int count, int servers,
                                  int64_t floats, struct gy_error *err)
{
    for (int k = 0; k < count; k++) {
        const struct gy_server_slice *const s = &slices[k];
        if (s->count < 1 || s->first < 0 || s->first > floats - s->count)
            return GY_FAIL(err, GY_E_MISMATCH, "slice %d is floats %" PRId64 " to %" PRId64
                           " of %" PRId64, k, s->first, s->first + s->count, floats);
        if (s->server < 0 || s->server >= servers)
            return GY_FAIL(err, GY_E_MISMATCH, "slice %d is of server %d; there are %d", k,
                           s->server, servers);
        for (int i = 0; i < k; i++)
            if (slices_overlap(&slices[i], s))
                return GY_FAIL(err, GY_E_MISMATCH, "the slices %d of server %d and %d of server %d "
                               "have parameters in common", i, slices[i].server, k, s->server);
    }
    for (int s = 0; s < servers; s++)
        if (slices_load(slices, count, s) == 0)
            return GY_FAIL(err, GY_E_MISMATCH, "server %d of %d has no slice", s, servers);
    return GY_OK;
}

GY_INT void gy_server_add(float *const *part, int parts, int64_t count)
{
    for (int stride = 1; stride < parts; stride *= 2)
        for (int p = 0; p + stride < parts; p += 2 * stride) {
            float *const to = part[p];
            const float *const from = part[p + stride];
            for (int64_t i = 0; i < count; i++)
                to[i] += from[i];
        }
}
