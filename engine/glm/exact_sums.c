/* SPDX-License-Identifier: MIT */
/* Ranks can sum floats alone. A few doubles travel as their bits, sixteen in a float. Each rank
 * writes them to a place of its own, and zeros to the others'. So nothing is rounded or out of
 * range, and every rank adds them in the order of ranks. A long vector is brought to whole
 * multiples of 2^-46 of its largest magnitude, in three digits of 16 bits. Sums of such digits over
 * up to 256 ranks are exact in float, in any order. */
#include "engine/glm/exact_sums.h"
#include "engine/job/peers.h"
#include <float.h>

#define SUMS_WORDS 4 /* of sixteen bits, in a double */
#define SUMS_PARTS 3
#define SUMS_CHUNK ((int64_t)1 << 16) /* values of a vector that travel together */
#define SUMS_DIGIT 65536.0
#define SUMS_RANKS 256

static int sums_alone(const struct gy_glm_run *run) { return !run->job || run->job->ranks == 1; }

static void sums_split(double v, float word[SUMS_WORDS])
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    for (int k = 0; k < SUMS_WORDS; k++)
        word[k] = (float)(bits >> 16 * k & 0xffff);
}

static double sums_join(const float word[SUMS_WORDS])
{
    uint64_t bits = 0;
    double v;
    for (int k = 0; k < SUMS_WORDS; k++)
        bits |= (uint64_t)word[k] << 16 * k;
    memcpy(&v, &bits, sizeof v);
    return v;
}

GY_INT int gy_glm_sum(const struct gy_glm_run *run, double *values, int count, struct gy_error *err)
{
    if (sums_alone(run))
        return GY_OK;
    const int64_t ranks = run->job->ranks, each = (int64_t)SUMS_WORDS * count;
    float *const parts = gy_alloc_take(run->alloc, (size_t)(ranks * each), sizeof *parts);
    if (!parts)
        return GY_NOMEM(err, "sums over ranks", ranks * each * 4);
    for (int i = 0; i < count; i++)
        sums_split(values[i], parts + run->job->rank * each + SUMS_WORDS * i);
    const int status = gy_peers_sum(run->job, parts, ranks * each, err);
    for (int i = 0; status == GY_OK && i < count; i++) {
        values[i] = 0;
        for (int64_t r = 0; r < ranks; r++)
            values[i] += sums_join(parts + r * each + (int64_t)SUMS_WORDS * i);
    }
    gy_alloc_free(run->alloc, parts, (size_t)(ranks * each) * sizeof *parts);
    return status;
}

/* The largest magnitude of all ranks: their exponents are counted, one place each. Of the highest
 * exponent 2^1024 would be the scale, which is no double; digits have room for its half. */
static int sums_largest(const struct gy_glm_run *run, const double *values, int64_t count, double *scale, struct gy_error *err)
{
    float seen[1074 + DBL_MAX_EXP + 1] = { 0 };
    double most = 0;
    int exponent = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabs(values[i]) > most ? fabs(values[i]) : most;
    frexp(most, &exponent);
    seen[most > 0 ? exponent + 1074 : 0] = 1;
    GY_TRY(gy_peers_sum(run->job, seen, (int64_t)GY_COUNT(seen), err));
    int top = 1074 + DBL_MAX_EXP;
    while (top > 0 && seen[top] == 0)
        top--;
    *scale = ldexp(1, top - 1074 < DBL_MAX_EXP ? top - 1074 : DBL_MAX_EXP - 1);
    return GY_OK;
}

static int sums_chunk(const struct gy_glm_run *run, double *values, int64_t count, double scale, float *parts, struct gy_error *err)
{
    for (int64_t i = 0; i < count; i++) {
        double left = values[i] / scale;
        for (int k = 0; k < SUMS_PARTS; k++) {
            left *= k ? SUMS_DIGIT : 0.5 * SUMS_DIGIT;
            const double whole = floor(left + 0.5);
            parts[SUMS_PARTS * i + k] = (float)whole;
            left -= whole;
        }
    }
    GY_TRY(gy_peers_sum(run->job, parts, count * SUMS_PARTS, err));
    for (int64_t i = 0; i < count; i++) {
        const float *const p = parts + SUMS_PARTS * i;
        values[i] = (((double)p[2] / SUMS_DIGIT + (double)p[1]) / SUMS_DIGIT + (double)p[0]) / (0.5 * SUMS_DIGIT) * scale;
    }
    return GY_OK;
}

GY_INT int gy_glm_sum_vector(const struct gy_glm_run *run, double *values, int64_t count, struct gy_error *err)
{
    if (sums_alone(run))
        return GY_OK;
    if (run->job->ranks > SUMS_RANKS)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%d ranks train a linear model; at most %d can", run->job->ranks, SUMS_RANKS);
    double scale;
    GY_TRY(sums_largest(run, values, count, &scale, err));
    const size_t room = (size_t)gy_min64(count, SUMS_CHUNK) * SUMS_PARTS;
    float *const parts = gy_alloc_take(run->alloc, room, sizeof *parts);
    if (!parts)
        return GY_NOMEM(err, "sums over ranks", room * sizeof *parts);
    int status = GY_OK;
    for (int64_t at = 0; status == GY_OK && at < count; at += SUMS_CHUNK)
        status = sums_chunk(run, values + at, gy_min64(count - at, SUMS_CHUNK), scale, parts, err);
    gy_alloc_free(run->alloc, parts, room * sizeof *parts);
    return status;
}
