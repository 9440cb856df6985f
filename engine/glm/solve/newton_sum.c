/* SPDX-License-Identifier: MIT */
/* Sums of doubles over ranks by means of sums of floats. A few numbers, whose sizes may differ at
 * will, travel whole (exact_sums.h). Each number of a longer vector is split into a multiple of a
 * common unit and a small rest, rounded as a float. The unit is so coarse that the multiples' sums
 * are exact in float in any order. */
#include "engine/glm/solve/newton_state.h"
#include "engine/glm/exact_sums.h"
#include "engine/job/peers.h"

#define NW_FEW 16 /* numbers: with their places for each rank no longer than a short vector */

static double nw_unit(float most)
{
    int exponent;
    (void)frexp((double)most, &exponent); /* most < 2^exponent */
    return ldexp(1.0, exponent - 23);
}

static int nw_sum_part(struct gy_nw *nw, double *x, size_t count, double unit, struct gy_error *err)
{
    float *const whole = nw->wire, *const rest = nw->wire + count;
    for (size_t i = 0; i < count; i++) {
        const double w = rint(x[i] / unit) * unit;
        whole[i] = (float)w;
        rest[i] = (float)(x[i] - w);
    }
    GY_TRY(gy_peers_sum(nw->run->job, nw->wire, (int64_t)(2 * count), err));
    for (size_t i = 0; i < count; i++)
        x[i] = (double)whole[i] + (double)rest[i];
    return GY_OK;
}

GY_INT int gy_nw_sum(struct gy_nw *nw, double *x, size_t count, struct gy_error *err)
{
    float most = 0;
    if (!nw->wire || count == 0)
        return GY_OK;
    if (count <= NW_FEW) {
        nw->rounds++;
        return gy_glm_sum(nw->run, x, (int)count, err);
    }
    for (size_t i = 0; i < count; i++)
        most = fabs(x[i]) > (double)most ? (float)(fabs(x[i]) * (1 + 1e-6)) : x[i] == x[i] ? most : NAN;
    GY_TRY(gy_peers_sum(nw->run->job, &most, 1, err));
    nw->rounds++;
    if (!isfinite(most)) { /* no number on one rank: on none */
        for (size_t i = 0; i < count; i++)
            x[i] = (double)NAN;
        return GY_OK;
    }
    const double unit = most > 0 ? nw_unit(most) : 1.0;
    for (size_t at = 0; at < count; at += nw->wire_room)
        GY_TRY(nw_sum_part(nw, x + at, count - at < nw->wire_room ? count - at : nw->wire_room, unit, err));
    return GY_OK;
}
