/* SPDX-License-Identifier: MIT */
/* cast.c: spreads bytes by float sums. A float holds 16 bits as a whole number, and a number plus
 * zeros is that number. So an allreduce in which all other ranks give zeros is a broadcast of any
 * bytes. It is slow, and used seldom. */
#include "engine/job/cast.h"

#define CAST_ROOM 65536 /* numbers at a time */

/* count bytes as numbers. */
static void cast_put(float *numbers, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i += 2)
        numbers[i / 2] = (float)(bytes[i] | (i + 1 < count ? bytes[i + 1] << 8 : 0));
}

static void cast_get(const float *numbers, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)((uint32_t)numbers[i / 2] >> 8 * (i % 2));
}

static int cast_piece(struct gyre_job *job, int own, unsigned char *bytes, size_t count,
                      float *numbers, struct gy_error *err)
{
    const size_t words = (count + 1) / 2;
    memset(numbers, 0, words * sizeof *numbers);
    if (own)
        cast_put(numbers, bytes, count);
    GY_TRY(gy_peers_sum(job, numbers, (int64_t)words, err));
    cast_get(numbers, bytes, count);
    return GY_OK;
}

GY_INT int gy_job_cast(struct gyre_job *job, int from, void *bytes, size_t count,
                       struct gy_error *err)
{
    unsigned char *const at = bytes;
    int status = GY_OK;
    if (gyre_job_ranks(job) == 1)
        return GY_OK;
    float *const numbers = gy_alloc_take(&job->alloc, CAST_ROOM, sizeof *numbers);
    if (!numbers)
        return GY_NOMEM(err, "what a rank spreads", CAST_ROOM * sizeof *numbers);
    for (size_t i = 0, piece; i < count && status == GY_OK; i += piece) {
        piece = count - i < 2 * (size_t)CAST_ROOM ? count - i : 2 * (size_t)CAST_ROOM;
        status = cast_piece(job, job->rank == from, at + i, piece, numbers, err);
    }
    gy_alloc_free(&job->alloc, numbers, CAST_ROOM * sizeof *numbers);
    return status;
}

GY_INT int gy_job_share(struct gyre_job *job, const void *own, size_t count, void *all,
                        struct gy_error *err)
{
    unsigned char *const at = all;
    memcpy(at + (size_t)gyre_job_rank(job) * count, own, count);
    for (int r = 0; r < gyre_job_ranks(job); r++)
        GY_TRY(gy_job_cast(job, r, at + (size_t)r * count, count, err));
    return GY_OK;
}
