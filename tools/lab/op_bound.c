/* SPDX-License-Identifier: MIT */
/* op_bound.c: computes how far each element of a kernel's output may be from the truth. The op test
 * (tests/op_check.h) and try_case.c call it. Bounds follow from the number and size of an output's
 * terms. For activations stored in 16 bits half a step of the type is added. Where a curve's
 * gradient subtracts (1 - y^2 of tanh), the sizes of both terms count. A new op needs a row in
 * bound_slack. */
#include "tools/lab/op_bound.h"
#include "kernels/op_table.h"
#include "kernels/cpu/ref/ref.h"

#define BOUND_EPS 5.9604645e-8         /* 2^-24 */
#define BOUND_SMALLEST 1.4013e-45      /* the step between denormals */
#define BOUND_HALF_EPS 0.00390625      /* 2^-8: half a step of bf16, beside the value */
#define BOUND_F16_EPS 0.00048828125    /* 2^-11, likewise of f16 */
#define BOUND_F16_SMALLEST 2.4e-7      /* four steps between its denormals */

/* Roundings allowed to ops that are no long sums, each of the size of the value plus the tensor's
 * root mean square. 0: the result must be equal. */
static const uint8_t bound_slack[GY_OP_CODES] = {
    [GY_OP_INPUT] = 8,           [GY_OP_BN_FINISH] = 8, [GY_OP_BN_FOLD] = 8,     [GY_OP_ACT] = 8,
    [GY_OP_POOL_MAX] = 0,        [GY_OP_POOL_AVG] = 16, [GY_OP_LRN] = 16,        [GY_OP_DROPOUT] = 4,
    [GY_OP_CONCAT] = 0,          [GY_OP_SHORTCUT] = 0,  [GY_OP_SOFTMAX_CE] = 16, [GY_OP_MSE] = 16,
    [GY_OP_SOFTMAX_CE_BWD] = 16, [GY_OP_MSE_BWD] = 16,  [GY_OP_ACT_BWD] = 16,    [GY_OP_POOL_MAX_BWD] = 16,
    [GY_OP_POOL_AVG_BWD] = 16,   [GY_OP_LRN_BWD] = 32,  [GY_OP_ADD_BWD] = 16,    [GY_OP_CONCAT_BWD] = 4,
    [GY_OP_SHORTCUT_BWD] = 4,    [GY_OP_NORMS] = 32,    [GY_OP_SGD] = 16,        [GY_OP_LARS] = 16,
    [GY_OP_ADAMW] = 32,          [GY_OP_LAMB] = 64,
};

/* Products in one sum. */
static int64_t bound_terms(const struct gy_bound *b)
{
    const struct gy_geom *g = &b->geom;
    switch (b->code) {
    case GY_OP_CONV: return (int64_t)g->r * g->s * (g->c / g->groups);
    case GY_OP_CONV_DGRAD: return (int64_t)g->r * g->s * (g->k / g->groups);
    default: return g->n * g->p * g->q;
    }
}

GY_INT double gy_bound_rms(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += isfinite(x[i]) ? x[i] * x[i] : 0;
    return count ? sqrt(sum / (double)count) : 0;
}

GY_INT int gy_bound_is_sum(int code)
{
    return code == GY_OP_CONV || code == GY_OP_CONV_DGRAD || code == GY_OP_CONV_WGRAD || code == GY_OP_BN_APPLY ||
           code == GY_OP_ADD;
}

static double bound_grow(const struct gy_bound *b)
{
    return BOUND_EPS * (8 + 2 * sqrt((double)bound_terms(b)));
}

/* The size of element i's sum. Winograd's way makes a tile of up to 4x4 pixels from one set of
 * products: an element then errs by the size of its tile's largest sum, which at a border is up to
 * 2.25 times its own (Barabasz et al. 2020, "Error analysis and improving the accuracy of Winograd
 * convolution"). Tiles may begin anywhere, so the pixels less than 4 away count. */
static double bound_size(const struct gy_bound *b, int role, int64_t i)
{
    const struct gy_geom *const g = &b->geom;
    const int forward = b->code == GY_OP_CONV && role == GY_Y;
    const int back = b->code == GY_OP_CONV_DGRAD && role == GY_DX;
    const int dense = g->stride_h == 1 && g->stride_w == 1 && g->dil_h == 1 && g->dil_w == 1 &&
                      g->groups == 1;
    double size = b->size[role][i];
    if (!(forward || back) || !dense || g->r != g->s || (g->r != 3 && g->r != 5))
        return size;
    const int64_t channels = forward ? g->k : g->c;
    const int64_t width = forward ? g->q : g->w, height = forward ? g->p : g->h;
    const int64_t col = i / channels % width, row = i / channels / width % height;
    for (int64_t y = row > 3 ? row - 3 : 0; y <= row + 3 && y < height; y++)
        for (int64_t x = col > 3 ? col - 3 : 0; x <= col + 3 && x < width; x++)
            size = fmax(size, b->size[role][i + ((y - row) * width + x - col) * channels]);
    return size;
}

/* Channel statistics: elements may already be off by `each` behind a convolution. */
static double bound_stats(const struct gy_bound *b, int64_t i)
{
    const double *const x = b->truth[b->code == GY_OP_CONV ? GY_Y : GY_X];
    const int64_t channels = b->geom.k, pixels = b->geom.n * b->geom.p * b->geom.q, channel = i % channels;
    const double each = b->code == GY_OP_CONV ? bound_grow(b) * b->size[GY_STATS][channel] : 0, n = (double)pixels;
    double sum = 0;
    for (int64_t p = 0; p < pixels; p++)
        sum += fabs(x[p * channels + channel]);
    if (i < channels)
        return each + BOUND_EPS * (8 + 2 * sqrt(n)) * sum / n;
    const double off = each + 8 * BOUND_EPS * sum / n, squares = b->truth[GY_STATS][i];
    return BOUND_EPS * (32 + 2 * sqrt(n)) * squares + 2 * off * sqrt(n * squares) + n * off * off;
}

/* What is added to element i of a batch norm's output; and the size of its terms. */
static double bound_added(const struct gy_bound *b, int64_t i)
{
    const int64_t channel = i % b->geom.c;
    const double res = b->truth[GY_RES] ? b->truth[GY_RES][i] : 0;
    return b->truth[GY_RES_SCALE] ? res * b->truth[GY_RES_SCALE][channel] + b->truth[GY_RES_SHIFT][channel] : res;
}

static double bound_added_size(const struct gy_bound *b, int64_t i)
{
    const int64_t channel = i % b->geom.c;
    const double res = b->truth[GY_RES] ? fabs(b->truth[GY_RES][i]) : 0;
    return b->truth[GY_RES_SCALE] ? res * fabs(b->truth[GY_RES_SCALE][channel]) + fabs(b->truth[GY_RES_SHIFT][channel]) : res;
}

/* Element i of the output that masks the gradient of batch norm: given, or made from X. */
static double bound_bn_out(const struct gy_bound *b, int64_t i)
{
    const int64_t channel = i % b->geom.c;
    if (b->truth[GY_Y])
        return b->truth[GY_Y][i];
    if (!b->truth[GY_SCALE])
        return 0;
    const double made = b->truth[GY_X][i] * b->truth[GY_SCALE][channel] + b->truth[GY_SHIFT][channel];
    const struct gy_op op = { .act = b->act, .act_param = b->act_param };
    return (double)ref_act_value((float)(made + bound_added(b, i)), &op);
}

/* |dy * slope| of the activation. A curve's slope is a difference: there both terms count with
 * their sizes. */
static double bound_masked(const struct gy_bound *b, int64_t i)
{
    const double dy = b->truth[GY_DY][i], at = bound_bn_out(b, i);
    const struct gy_act_row *const act = gy_act_row(b->act);
    if (gy_act_is_curve(b->act))
        return fabs(dy) * ((double)act->slope0 + fabs(at) * ((double)act->slope1 + fabs(at)));
    const struct gy_op op = { .act = b->act, .act_param = b->act_param };
    return fabs((double)ref_act_mask((float)dy, (float)at, &op));
}

/* Bound of batch norm's output (AGAIN), which backward makes once more from X. */
static double bound_again(const struct gy_bound *b, int64_t i)
{
    const double product = b->truth[GY_X][i] * b->truth[GY_SCALE][i % b->geom.c];
    const double sum = fabs(product) + fabs(b->truth[GY_SHIFT][i % b->geom.c]);
    return 4 * BOUND_EPS * (sum + bound_added_size(b, i));
}

/* |dy| where the mask is made from X and a rounding decides on which side of an edge of the
 * activation the element is; else 0. */
static double bound_edge(const struct gy_bound *b, int64_t i)
{
    const int64_t channel = i % b->geom.c;
    if (b->truth[GY_Y] || !b->truth[GY_SCALE] || !isfinite(gy_act_row(b->act)->lo))
        return 0;
    const double made = b->truth[GY_X][i] * b->truth[GY_SCALE][channel] + b->truth[GY_SHIFT][channel] +
                        bound_added(b, i);
    const double off = bound_again(b, i);
    const double lo = (double)gy_act_row(b->act)->lo, hi = (double)gy_act_row(b->act)->hi;
    return fabs(made - lo) <= off || fabs(made - hi) <= off ? fabs(b->truth[GY_DY][i]) : 0;
}

/* Bounds of all outputs of BN_SUMS: AGAIN, DRES, and the two sums (SUMS, DBETA, DGAMMA) from the
 * sizes of their terms. */
static double bound_bn_sums(const struct gy_bound *b, int role, int64_t i)
{
    const int64_t channels = b->geom.c, pixels = b->geom.n * b->geom.h * b->geom.w, channel = i % channels;
    const double mean = fabs(b->truth[GY_MEAN][channel]), rstd = b->truth[GY_RSTD][channel];
    const int second = role == GY_DGAMMA || (role == GY_SUMS && i >= channels);
    double sum = 0, edge = 0;
    if (role == GY_AGAIN)
        return bound_again(b, i);
    if (role == GY_DRES)
        return 16 * BOUND_EPS * (fabs(b->truth[role][i]) + bound_masked(b, i)) + bound_edge(b, i);
    for (int64_t at = channel; at < pixels * channels; at += channels) {
        const double d = bound_masked(b, at), times = second ? (fabs(b->truth[GY_X][at]) + mean) * rstd : 1;
        sum += d * times;
        edge += bound_edge(b, at) * times;
    }
    return BOUND_EPS * (16 + 2 * sqrt((double)pixels)) * sum + edge + 4 * BOUND_EPS * fabs(b->truth[role][i]);
}

static double bound_bn_bwd(const struct gy_bound *b, int role, int64_t i)
{
    const int64_t channel = i % b->geom.c;
    const double pixels = (double)(b->geom.n * b->geom.h * b->geom.w), *const sums = b->truth[GY_SUMS];
    const double gamma = fabs(b->truth[GY_GAMMA][channel]), rstd = b->truth[GY_RSTD][channel];
    const double d = bound_masked(b, i);
    const double xhat = (fabs(b->truth[GY_X][i]) + fabs(b->truth[GY_MEAN][channel])) * rstd;
    const double size = gamma * rstd * (d + (fabs(sums[channel]) + xhat * fabs(sums[b->geom.c + channel])) / pixels);
    const double edge = bound_edge(b, i) * (role == GY_DRES ? 1 : gamma * rstd);
    return 16 * BOUND_EPS * (fabs(b->truth[role][i]) + (role == GY_DRES ? d : size)) + edge;
}

/* Bound of a result in float. */
static double bound_float(const struct gy_bound *b, int role, int64_t i, double rms)
{
    const double denormal = BOUND_SMALLEST * (8 + (double)bound_terms(b)), truth = fabs(b->truth[role][i]);
    const int curve = gy_act_is_curve(b->act);
    if (role == GY_STATS)
        return bound_stats(b, i) + denormal;
    if (b->code == GY_OP_BN_SUMS)
        return bound_bn_sums(b, role, i) + denormal;
    if (b->code == GY_OP_BN_BWD)
        return bound_bn_bwd(b, role, i) + denormal;
    if (gy_bound_is_sum(b->code) && b->whole && !curve && b->size[role][i] < 16777216)
        return 0;
    if (gy_bound_is_sum(b->code)) /* the slope of a curve is at most 1 */
        return bound_grow(b) * bound_size(b, role, i) + (curve ? 4 * BOUND_EPS : 0) + denormal;
    if (bound_slack[b->code] == 0)
        return 0;
    /* tanh's slope is 1 - y^2: near |y| = 1 the terms are larger than the result */
    const int slope = curve && (b->code == GY_OP_ACT_BWD || b->code == GY_OP_ADD_BWD);
    const double size = b->code == GY_OP_NORMS ? 0 : slope ? bound_masked(b, i) + rms : rms;
    return bound_slack[b->code] * BOUND_EPS * (truth + size) + denormal;
}

/* An eighth of what a convolution's inputs lost when they were rounded to 16 bits. There are n
 * roundings, most of which cancel out. No sum has to be better than that. */
static double bound_inputs(const struct gy_bound *b, int role, int64_t i)
{
    const int sum = (b->code == GY_OP_CONV && role == GY_Y) || (b->code == GY_OP_CONV_DGRAD && role == GY_DX);
    const double eps = b->dtype == GY_F16 ? BOUND_F16_EPS : BOUND_HALF_EPS;
    return sum && !b->whole ? eps / 8 * b->size[role][i] / sqrt((double)bound_terms(b)) : 0;
}

/* Outputs in bf16 or f16 are rounded once more. A convolution's may be rounded before its epilogue,
 * too. Ops that only move values are not rounded. */
GY_INT double gy_bound_of(const struct gy_bound *b, int role, int64_t i, double rms, int half)
{
    const double limit = bound_float(b, role, i, rms), truth = fabs(b->truth[role][i]);
    const int moved = bound_slack[b->code] == 0 && !gy_bound_is_sum(b->code) && b->code != GY_OP_BN_SUMS && b->code != GY_OP_BN_BWD;
    if (!half || moved)
        return limit;
    const int twice = b->code == GY_OP_CONV && (b->truth[GY_SCALE] || b->truth[GY_RES] || b->act), f16 = b->dtype == GY_F16;
    return limit + bound_inputs(b, role, i) + (f16 ? BOUND_F16_EPS : BOUND_HALF_EPS) * (truth + (twice ? b->size[role][i] : 0)) +
           (f16 ? BOUND_F16_SMALLEST : 1e-40);
}

#undef BOUND_EPS
#undef BOUND_SMALLEST
#undef BOUND_HALF_EPS
#undef BOUND_F16_EPS
#undef BOUND_F16_SMALLEST
