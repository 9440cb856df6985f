/* SPDX-License-Identifier: MIT */
/* roofline.c: the limit of an op, and the table of shares of it that ops reach. */
#include "tools/lab/roofline.h"

/* ---- limits ---- */

GY_INT double gy_roofline_peak(const struct gy_work *work, const struct gy_ceilings *c) { return work->half ? c->bf16 : c->f32; }

/* Seconds to move the bytes at these GB/s. */
static double roof_memory(const struct gy_work *work, double read, double copy)
{
    const double copied = 2 * fmin(work->read, work->written), rest = fabs(work->read - work->written);
    return (copied / copy + rest / (work->read > work->written ? read : copy)) * 1e-9;
}

static double roof_memory_or_cache(const struct gy_work *work, const struct gy_ceilings *c)
{
    const int cached = work->read + work->written <= c->cache_bytes;
    return roof_memory(work, cached ? c->cache_read : c->read, cached ? c->cache_copy : c->copy);
}

GY_INT double gy_roofline_bandwidth(const struct gy_work *work, const struct gy_ceilings *c)
{
    const double bytes = work->read + work->written;
    return bytes > 0 ? bytes * 1e-9 / roof_memory_or_cache(work, c) : c->copy;
}

GY_INT struct gy_limit gy_roofline(const struct gy_work *work, const struct gy_ceilings *c)
{
    struct gy_limit limit = { .compute = work->done * 1e-9 / gy_roofline_peak(work, c), .memory = roof_memory_or_cache(work, c) };
    limit.seconds = fmax(limit.compute, limit.memory);
    return limit;
}

GY_INT void gy_ceilings_merge(struct gy_ceilings *c, const struct gy_ceilings *more)
{
    c->f32 = fmax(c->f32, more->f32);
    c->bf16 = fmax(c->bf16, more->bf16);
    c->read = fmax(c->read, more->read);
    c->copy = fmax(c->copy, more->copy);
    c->cache_read = fmax(c->cache_read, more->cache_read);
    c->cache_copy = fmax(c->cache_copy, more->cache_copy);
    c->cache_bytes = fmax(c->cache_bytes, more->cache_bytes);
}

GY_INT void gy_ceilings_print(const struct gy_ceilings *c, const char *device, struct gy_sink *sink)
{
    gy_sink_printf(sink, "on %s\nmeasured: %.0f GFLOP/s in float, %.0f in bf16; memory %.0f GB/s read, %.0f copied; ", device,
                   c->f32, c->bf16, c->read, c->copy);
    gy_sink_printf(sink, "cache of %.0f MB %.0f and %.0f\n", c->cache_bytes * 1e-6, c->cache_read, c->cache_copy);
}

/* ---- what is expected ---- */

#define ROOF_KNOTS 7
#define ROOF_LAUNCH 4e-6 /* seconds to begin and end an op on a pool of threads */

/* Shares of the limit that ops reached inside real steps. The limit is that of memory even where
 * the op would fit the cache, as a step finds little there again. Printed by
 * tests/peer/roofline_shares.sh, 2026-11-22, on an AMD EPYC (Zen 5, AVX-512 with bf16), gcc 12.
 * Nets: resnet50 (batch 4 and 16), resnet18 (8, 16), resnet20 (32, 128), alexnet (16; 4 with adamw,
 * lars), lenet5 and mlp (64). They ran in both types, on one thread, and the larger batches on two.
 * Shares go by kind and intensity, not by net. Convolutions: at 8, 16, ... 512 multiplications and
 * additions a byte, between them along the logarithm. A factor reduces those of few channels. */
static const double roof_conv_shares[6][ROOF_KNOTS] = {
    { 0.41, 0.79, 0.84, 0.87, 0.85, 0.83, 0.83 }, /* conv, f32 */
    { 0.33, 0.80, 0.86, 0.85, 0.85, 0.85, 0.85 }, /* conv-dgrad, f32 */
    { 0.41, 0.66, 0.70, 0.78, 0.77, 0.75, 0.75 }, /* conv-wgrad, f32 */
    { 0.43, 0.53, 0.75, 0.81, 0.88, 0.87, 0.88 }, /* conv, bf16 */
    { 0.30, 0.71, 0.82, 0.85, 0.86, 0.86, 0.93 }, /* conv-dgrad, bf16 */
    { 0.32, 0.66, 0.65, 0.74, 0.78, 0.77, 0.68 }, /* conv-wgrad, bf16 */
};

/* Factors for more than 16 channels on both sides, for 8 to 16 on one, for less than 8 read, and
 * for Winograd's way. The last one was measured alone in steps of resnet50 and resnet18 (16), in
 * both types, on two threads. */
static const double roof_widths[2][4] = {
    { 1.00, 0.67, 0.87, 0.66 }, /* f32 */
    { 1.00, 0.59, 0.82, 1.00 }, /* bf16 */
};

/* Other ops: at a 32nd of the cache's bytes, and at the cache's bytes. Above 1: the caches help. 0:
 * not measured. */
static const double roof_op_shares[GY_OP_ALL_CODES][2] = {
    [GY_OP_ACT] = { 1.32, 1.42 }, [GY_OP_ACT_BWD] = { 1.24, 1.29 }, [GY_OP_ADAMW] = { 0.99, 0.99 },
    [GY_OP_ADD] = { 2.06, 1.85 }, [GY_OP_ADD_BWD] = { 1.22, 1.06 }, [GY_OP_POOL_AVG] = { 0.57, 0.31 },
    [GY_OP_POOL_AVG_BWD] = { 0.24, 0.24 }, [GY_OP_BN_APPLY] = { 0.80, 0.68 }, [GY_OP_BN_BWD] = { 0.92, 0.73 },
    [GY_OP_BN_FINISH] = { 2.32, 2.32 }, [GY_OP_BN_SUMS] = { 0.66, 0.57 }, [GY_OP_DROPOUT] = { 0.02, 0.02 },
    [GY_OP_INPUT] = { 0.28, 0.34 }, [GY_OP_LARS] = { 0.96, 0.96 }, [GY_OP_POOL_MAX] = { 0.27, 0.26 },
    [GY_OP_POOL_MAX_BWD] = { 0.29, 0.22 }, [GY_OP_NORMS] = { 0.81, 0.81 }, [GY_OP_SGD] = { 1.33, 0.91 },
    [GY_OP_SHORTCUT] = { 0.79, 0.59 }, [GY_OP_SHORTCUT_BWD] = { 0.61, 0.40 }, [GY_OP_SOFTMAX_CE] = { 0.01, 0.01 },
    [GY_OP_SOFTMAX_CE_BWD] = { 0.06, 0.06 },
};

/* The share at a place between 0 and the last knot; outside, that of the nearest end. */
static double roof_between(const double *share, int knots, double at)
{
    const double place = fmin(fmax(at, 0), knots - 1);
    const int knot = (int)fmin(place, knots - 2);
    return share[knot] + (place - knot) * (share[knot + 1] - share[knot]);
}

static int roof_width(const struct gy_op *op)
{
    const int32_t c = op->geom.c / op->geom.groups;
    return gy_op_is_winograd(op) ? 3 : c < 8 ? 2 : c <= 16 || op->geom.k <= 16;
}

static double roof_share(const struct gy_op *op, const struct gy_work *work, const struct gy_ceilings *c)
{
    const double bytes = fmax(work->read + work->written, 1), *share = roof_op_shares[op->code];
    if (gy_op_is_conv(op))
        return roof_widths[work->half][roof_width(op)] *
               roof_between(roof_conv_shares[3 * work->half + gy_op_kind(op) - GY_OP_IS_CONV], ROOF_KNOTS,
                            log2(fmax(work->flops, 1) / bytes) - 3);
    return share[0] > 0 ? roof_between(share, 2, log2(bytes / c->cache_bytes) / 5 + 1) : 0.5;
}

GY_INT double gy_roofline_expect(const struct gy_op *op, const struct gy_work *work, const struct gy_ceilings *c)
{
    const double compute = work->done * 1e-9 / gy_roofline_peak(work, c);
    return ROOF_LAUNCH + fmax(compute, roof_memory(work, c->read, c->copy)) / roof_share(op, work, c);
}

#undef ROOF_KNOTS
#undef ROOF_LAUNCH
