/* SPDX-License-Identifier: MIT */
/* Every decision (when to sum, how much to damp) follows from sums over ranks, which all ranks have
 * alike, bit for bit. */
#include "engine/glm/rank_sums.h"
#include "engine/base/clock.h"
#include "engine/job/peers.h"

#define GLML_RANKS 256     /* whose times are compared */
#define GLML_INNER_MOST 8
#define GLML_RECHECK 10    /* sums between two choices of inner */
#define GLML_MARGIN 1.1    /* sigma over what was measured */
/* ranks meet after working this many times longer than a sum lasts */
#define GLML_COST 8
#define GLML_PARTS_MOST 64
/* of a short sum on one host; the next constant is for each element and rank of a long one */
#define GLML_SUM_NS 15000
#define GLML_ELEMENT_NS 0.7

GY_INT int gy_glm_levels_open(struct gy_glm_levels *levels, struct gyre_job *job, const struct gy_alloc *alloc, int64_t width, int inner, struct gy_error *err)
{
    const int ranks = gyre_job_ranks(job);
    void *memory = NULL;
    *levels = (struct gy_glm_levels){ .sigma = ranks, .inner = inner > 0 ? inner : 1, .parts = 1, .job = job, .alloc = *alloc, .width = width,
                                      .forced = inner > 0 || !job || job->hosts == 1, .fan = ranks, .floor = 1, .last_dual = -HUGE_VAL };
    if (ranks == 1)
        return GY_OK;
    levels->base = gy_alloc_take(alloc, (size_t)width, sizeof(float));
    int failed = 0, status = levels->base ? GY_OK : GY_NOMEM(err, "the weights of the last sum", (size_t)width * sizeof(float));
    GY_TRY(gy_peers_any(job, status != GY_OK, &failed, status == GY_OK ? err : NULL));
    if (failed && status == GY_OK)
        status = GY_FAIL(err, GY_E_NOMEM, "another rank has no memory for %" PRId64 " weights", width);
    if (status == GY_OK)
        status = job->peers->take(job, ((size_t)width + 1) * sizeof(float), &memory, NULL, err);
    levels->change = memory;
    if (status != GY_OK)
        gy_glm_levels_close(levels);
    return status;
}

GY_INT void gy_glm_levels_close(struct gy_glm_levels *levels)
{
    if (levels->change)
        levels->job->peers->put(levels->job, levels->change);
    if (levels->base)
        gy_alloc_free(&levels->alloc, levels->base, (size_t)levels->width * sizeof(float));
    levels->base = levels->change = NULL;
}

GY_INT void gy_glm_levels_begin(struct gy_glm_levels *levels, const float *v)
{
    if (levels->base)
        memcpy(levels->base, v, (size_t)levels->width * sizeof(float));
    levels->since = levels->part = 0;
}

/* A row takes 50 ns and one for each entry (as for threads: sdca_state.c). */
GY_INT int gy_glm_levels_plan(struct gy_glm_levels *levels, int64_t rows, int64_t entries, int threads, struct gy_error *err)
{
    float work[2] = { (float)(50 * (double)rows + (double)entries), (float)threads };
    if (!levels->base || levels->job->hosts > 1 || levels->inner > 1)
        return GY_OK;
    GY_TRY(gy_peers_sum(levels->job, work, 2, err));
    const double pass = (double)work[0] / (double)work[1], sum = GLML_SUM_NS + GLML_ELEMENT_NS * (double)levels->width * (levels->fan + 2);
    levels->parts = (int)fmax(1, fmin(floor(pass / (GLML_COST * sum)), GLML_PARTS_MOST));
    return GY_OK;
}

/* Chooses more passes between sums where a sum is expensive. Each rank writes its times into its
 * own place, zeros elsewhere. The rank that comes last does not wait, so the least time is that of
 * the sum itself. */
static int glml_choose(struct gy_glm_levels *levels, double sum_seconds, struct gy_error *err)
{
    float sum[2 * GLML_RANKS] = { 0 }, *const pass = sum + GLML_RANKS, least = INFINITY, most = 0;
    const int rank = gyre_job_rank(levels->job), ranks = (int)gy_min64(gyre_job_ranks(levels->job), GLML_RANKS);
    if (levels->forced || !(levels->rounds == 2 || levels->rounds % GLML_RECHECK == 0))
        return GY_OK;
    if (rank < ranks) {
        sum[rank] = (float)sum_seconds;
        pass[rank] = (float)(levels->pass_seconds / levels->since);
    }
    GY_TRY(gy_peers_sum(levels->job, sum, 2 * GLML_RANKS, err));
    for (int r = 0; r < ranks; r++) {
        least = fminf(least, sum[r]);
        most = fmaxf(most, pass[r]);
    }
    const float inner = most > 0 ? floorf(sqrtf(least / most) + 0.5f) : 1;
    levels->inner = inner < 1 ? 1 : inner > GLML_INNER_MOST ? GLML_INNER_MOST : (int)inner;
    return GY_OK;
}

GY_INT int gy_glm_levels_due(const struct gy_glm_levels *levels) { return !levels->base || levels->since + 1 >= levels->inner; }

/* Orthogonal changes have |sum|^2 = the sum of squares; equal ones have `fan` times that. With
 * sigma at or above the ratio a sum raises the dual objective by at least what the ranks saw (as
 * for threads: sdca_pass.c). sigma falls more slowly than it rises. */
static void glml_measure(struct gy_glm_levels *levels, double together, double apart)
{
    if (levels->fixed || !(apart > 0) || !(together < HUGE_VAL))
        return;
    const double wanted = fmin(GLML_MARGIN * together / apart, levels->fan), now = levels->sigma;
    levels->sigma = fmax(levels->floor, wanted > now ? wanted : 0.5 * (wanted + now));
}

static int glml_sum(struct gy_glm_levels *levels, float *v, struct gy_error *err)
{
    const float back = (float)(1 / levels->sigma);
    float *const change = levels->change, *const base = levels->base;
    double apart = 0, together = 0;
    for (int64_t j = 0; j < levels->width; j++) {
        change[j] = v[j] - base[j];
        apart += (double)change[j] * (double)change[j];
    }
    change[levels->width] = (float)apart;
    GY_TRY(gy_peers_sum(levels->job, change, levels->width + 1, err));
    for (int64_t j = 0; j < levels->width; j++) {
        together += (double)change[j] * (double)change[j];
        v[j] = base[j] += change[j] * back;
    }
    glml_measure(levels, together, (double)change[levels->width]);
    return GY_OK;
}

GY_INT int gy_glm_levels_part(const struct gy_glm_levels *levels, int64_t visited, int64_t rows)
{
    return levels->part + 1 < levels->parts && (visited == INT64_MAX || visited >= rows * (levels->part + 1) / levels->parts);
}

GY_INT int gy_glm_levels_meet(struct gy_glm_levels *levels, float *v, struct gy_error *err)
{
    const int64_t began = gy_clock_ns();
    GY_TRY(glml_sum(levels, v, err));
    levels->seconds_summing += (double)(gy_clock_ns() - began) * 1e-9;
    levels->rounds++;
    levels->part++;
    return GY_OK;
}

GY_INT int gy_glm_levels_pass(struct gy_glm_levels *levels, float *v, double seconds, int now, int *summed, struct gy_error *err)
{
    const int due = gy_glm_levels_due(levels) || now;
    *summed = due;
    levels->seconds_training += seconds;
    if (!levels->base)
        return GY_OK;
    levels->pass_seconds += seconds;
    levels->since++;
    if (!due)
        return GY_OK;
    const int64_t began = gy_clock_ns();
    GY_TRY(glml_sum(levels, v, err));
    const double took = (double)(gy_clock_ns() - began) * 1e-9;
    levels->seconds_summing += took;
    levels->rounds++;
    GY_TRY(glml_choose(levels, took, err));
    levels->since = levels->part = 0;
    levels->pass_seconds = 0;
    return GY_OK;
}

GY_INT void gy_glm_levels_damp(struct gy_glm_levels *levels)
{
    levels->floor = fmin(2 * fmax(levels->floor, levels->sigma), levels->fan);
    levels->sigma = fmax(levels->sigma, levels->floor);
}

GY_INT int gy_glm_levels_guard(struct gy_glm_levels *levels, double dual)
{
    const int fell = levels->last_dual > -HUGE_VAL && !(dual >= levels->last_dual - 1e-7 * fabs(levels->last_dual));
    levels->last_dual = dual;
    if (fell && levels->base)
        gy_glm_levels_damp(levels);
    return fell;
}
