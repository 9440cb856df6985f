/* SPDX-License-Identifier: MIT */
/* gather.c: a gather by one float sum, in which each rank gives zeros for all rows but its own. A
 * float holds 16 bits of a number exactly, so each number travels as four floats. */
#include "engine/job/gather.h"

#define GATHER_PARTS 4

GY_INT int gy_job_gather(struct gyre_job *job, const int64_t *own, int count, int64_t *all,
                         struct gy_error *err)
{
    const size_t numbers = (size_t)gyre_job_ranks(job) * (size_t)count;
    const size_t first = (size_t)gyre_job_rank(job) * (size_t)count;
    const struct gy_alloc alloc = gy_alloc_default();
    float *const parts = gy_alloc_take(&alloc, numbers, GATHER_PARTS * sizeof *parts);
    if (!parts)
        return GY_NOMEM(err, "the ranks' figures", numbers * GATHER_PARTS * sizeof *parts);
    for (size_t i = 0; i < (size_t)count * GATHER_PARTS; i++)
        parts[first * GATHER_PARTS + i] =
            (float)((uint64_t)own[i / GATHER_PARTS] >> 16 * (i % GATHER_PARTS) & 0xffff);
    const int status = gy_peers_sum(job, parts, (int64_t)(numbers * GATHER_PARTS), err);
    for (size_t i = 0; i < numbers && status == GY_OK; i++) {
        uint64_t value = 0;
        for (size_t k = 0; k < GATHER_PARTS; k++)
            value |= (uint64_t)parts[i * GATHER_PARTS + k] << 16 * k;
        all[i] = (int64_t)value;
    }
    gy_alloc_free(&alloc, parts, numbers * GATHER_PARTS * sizeof *parts);
    return status;
}
