/* SPDX-License-Identifier: MIT */
/* drivers.c: the table of CPU drivers, from ops to the functions that plan and run them. prepare
 * takes the cheapest row that fits, the first of equals. Without such a row the reference runs,
 * sample by sample in parallel where samples are independent. An op on bf16 that no row fits is
 * widened. The set "ref" has references alone. cpu_backend.c calls it. */
#include "kernels/cpu/driver.h"
#include "kernels/cpu/block_sizes.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/update.h"

/* ---- what fits ---- */

static int driver_no_curve(const struct gy_op *op, const struct gy_kernels *k, int size)
{
    (void)k, (void)size;
    return !gy_act_is_curve(op->act);
}

/* Curves (sigmoid, tanh, leaky) are computed on floats. */
static int driver_float_curve(const struct gy_op *op, const struct gy_kernels *k, int size)
{
    return op->dtype == GY_F32 || driver_no_curve(op, k, size);
}

static int driver_depth(const struct gy_op *op, const struct gy_kernels *k, int size)
{
    (void)k, (void)size;
    return gy_cpu_is_depthwise(op);
}

static int driver_grad(const struct gy_op *op, const struct gy_kernels *k, int size)
{
    return !driver_depth(op, k, size);
}

static int driver_conv(const struct gy_op *op, const struct gy_kernels *k, int size)
{
    return driver_grad(op, k, size) && driver_float_curve(op, k, size);
}

/* ---- references ---- */

/* Ops whose samples are independent: what a sample's tensors hold. */
enum driver_shape { DRIVER_SHAPE_NONE, DRIVER_SHAPE_IN, DRIVER_SHAPE_OUT };
struct driver_role {
    uint8_t role, shape; /* elements of a sample: h*w*c or p*q*k */
};
struct driver_samples {
    int code;
    struct driver_role roles[3];
};
static const struct driver_samples driver_samples[] = {
    {GY_OP_LRN, {{GY_X, DRIVER_SHAPE_IN}, {GY_Y, DRIVER_SHAPE_IN}}},
    {GY_OP_LRN_BWD, {{GY_X, DRIVER_SHAPE_IN}, {GY_DX, DRIVER_SHAPE_IN}, {GY_DY, DRIVER_SHAPE_IN}}},
    {GY_OP_CONCAT, {{GY_X, DRIVER_SHAPE_IN}, {GY_Y, DRIVER_SHAPE_OUT}}},
    {GY_OP_CONCAT_BWD, {{GY_DX, DRIVER_SHAPE_IN}, {GY_DY, DRIVER_SHAPE_OUT}}},
};

static void driver_ref_plan(struct gy_planner *planner, struct gy_op *op)
{
    for (size_t i = 0; i < GY_COUNT(driver_samples) && !planner->cpu->ref; i++)
        if (driver_samples[i].code == op->code)
            op->plan = &driver_samples[i];
}

static void driver_sample_tile(void *arg, int64_t tile, int thread)
{
    struct gy_op op = **(const struct gy_op *const *)arg;
    const struct driver_samples *const samples = op.plan;
    const struct gy_geom *g = &op.geom;
    const int64_t in = (int64_t)g->h * g->w * g->c, out = (int64_t)g->p * g->q * g->k;
    op.geom.n = 1;
    for (size_t i = 0; i < GY_COUNT(samples->roles); i++) {
        const struct driver_role *r = &samples->roles[i];
        if (r->shape != DRIVER_SHAPE_NONE && op.ptr[r->role])
            op.ptr[r->role] = (float *)op.ptr[r->role] + tile * (r->shape == DRIVER_SHAPE_IN ? in : out);
    }
    gy_ref_table()[op.code](&op);
    (void)thread;
}

static void driver_ref_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    if (op->plan)
        gy_pool_run(cpu->pool, driver_sample_tile, &op, op->geom.n);
    else
        gy_ref_table()[op->code](op);
}

static double driver_ref_cost(const struct gy_op *op, const struct gy_kernels *k, int size)
{
    (void)op, (void)k, (void)size;
    return HUGE_VAL;
}

/* ---- the table ---- */

static void driver_norms_plan(struct gy_planner *planner, struct gy_op *op)
{
    op->scratch_bytes = gy_cpu_norms_need(planner->cpu, op);
}

enum { DRIVER_F32 = 1 << GY_F32, DRIVER_BF16 = 1 << GY_BF16, DRIVER_BOTH = DRIVER_F32 | DRIVER_BF16 };

/* Winograd sizes. ORDER: wino of struct gy_kernels. */
static const struct gy_driver driver_rows[] = {
    {"gemm", GY_OP_CONV, DRIVER_BOTH, driver_conv, gy_direct_cost, gy_cpu_conv_plan, gy_cpu_conv_run, 0},
    {"gemm", GY_OP_CONV_DGRAD, DRIVER_BOTH, driver_grad, gy_direct_cost, gy_cpu_dgrad_plan, gy_cpu_dgrad_run, 0},
    {"outer", GY_OP_CONV_WGRAD, DRIVER_BOTH, driver_grad, gy_direct_cost, gy_cpu_wgrad_plan, gy_cpu_wgrad_run, 0},
    {"depthwise", GY_OP_CONV, DRIVER_F32, driver_depth, NULL, gy_cpu_depth_plan, gy_cpu_depth_run, 0},
    {"depthwise", GY_OP_CONV_DGRAD, DRIVER_F32, driver_depth, NULL, gy_cpu_depth_plan, gy_cpu_depth_dgrad_run, 0},
    {"depthwise", GY_OP_CONV_WGRAD, DRIVER_F32, driver_depth, NULL, gy_cpu_depth_plan, gy_cpu_depth_wgrad_run, 0},
    {"winograd4", GY_OP_CONV, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_cpu_wino_plan, gy_cpu_wino_run, 0},
    {"winograd7", GY_OP_CONV, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_cpu_wino_plan, gy_cpu_wino_run, 1},
    {"winograd4", GY_OP_CONV, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_cpu_wino_plan, gy_cpu_wino_run, 2},
    {"winograd4", GY_OP_CONV_DGRAD, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_cpu_wino_plan, gy_cpu_wino_run, 0},
    {"winograd7", GY_OP_CONV_DGRAD, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_cpu_wino_plan, gy_cpu_wino_run, 1},
    {"winograd4", GY_OP_CONV_DGRAD, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_cpu_wino_plan, gy_cpu_wino_run, 2},
    {"winograd4", GY_OP_CONV_WGRAD, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_wino_grad_plan, gy_wino_grad_run, 0},
    {"winograd7", GY_OP_CONV_WGRAD, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_wino_grad_plan, gy_wino_grad_run, 1},
    {"winograd4", GY_OP_CONV_WGRAD, DRIVER_BOTH, gy_wino_fits, gy_wino_cost, gy_wino_grad_plan, gy_wino_grad_run, 2},
    {"rows", GY_OP_BN_STATS, DRIVER_BOTH, NULL, NULL, gy_cpu_bn_parts_plan, gy_cpu_bn_stats_run, 0},
    {"rows", GY_OP_BN_APPLY, DRIVER_BOTH, driver_float_curve, NULL, gy_cpu_bn_apply_plan, gy_cpu_bn_apply_run, 0},
    {"rows", GY_OP_BN_SUMS, DRIVER_BOTH, driver_no_curve, NULL, gy_cpu_bn_parts_plan, gy_cpu_bn_sums_run, 0},
    {"rows", GY_OP_BN_BWD, DRIVER_BOTH, driver_no_curve, NULL, gy_cpu_bn_back_plan, gy_cpu_bn_back_run, 0},
    {"flat", GY_OP_INPUT, DRIVER_BOTH, NULL, NULL, NULL, gy_cpu_input_run, 0},
    {"flat", GY_OP_DROPOUT, DRIVER_BOTH, NULL, NULL, NULL, gy_cpu_dropout_run, 0},
    {"rows", GY_OP_POOL_MAX, DRIVER_BOTH, NULL, NULL, gy_cpu_pool_plan, gy_cpu_pool_max_run, 0},
    {"rows", GY_OP_POOL_AVG, DRIVER_BOTH, NULL, NULL, gy_cpu_pool_plan, gy_cpu_pool_avg_run, 0},
    {"rows", GY_OP_POOL_MAX_BWD, DRIVER_BOTH, NULL, NULL, gy_cpu_pool_plan, gy_cpu_pool_back_run, 0},
    {"rows", GY_OP_POOL_AVG_BWD, DRIVER_BOTH, NULL, NULL, gy_cpu_pool_plan, gy_cpu_pool_back_run, 0},
    {"flat", GY_OP_NORMS, DRIVER_F32, NULL, NULL, driver_norms_plan, gy_cpu_norms_run, 0},
    {"flat", GY_OP_SGD, DRIVER_F32, NULL, NULL, NULL, gy_cpu_update_run, 0},
    {"flat", GY_OP_LARS, DRIVER_F32, NULL, NULL, NULL, gy_cpu_update_run, 0},
    {"flat", GY_OP_ADAMW, DRIVER_F32, NULL, NULL, NULL, gy_cpu_update_run, 0},
    {"flat", GY_OP_LAMB, DRIVER_F32, NULL, NULL, driver_norms_plan, gy_cpu_update_run, 0},
    {"flat", GY_OP_ACT, DRIVER_BOTH, driver_float_curve, NULL, NULL, gy_cpu_act_run, 0},
    {"flat", GY_OP_ADD, DRIVER_BOTH, driver_float_curve, NULL, NULL, gy_cpu_act_run, 0},
    {"rows", GY_OP_SHORTCUT, DRIVER_BOTH, NULL, NULL, NULL, gy_cpu_shortcut_run, 0},
    {"rows", GY_OP_SHORTCUT_BWD, DRIVER_BOTH, NULL, NULL, NULL, gy_cpu_shortcut_back_run, 0},
    {"flat", GY_OP_ACT_BWD, DRIVER_BOTH, driver_float_curve, NULL, NULL, gy_cpu_act_back_run, 0},
    {"flat", GY_OP_ADD_BWD, DRIVER_BOTH, driver_float_curve, NULL, NULL, gy_cpu_act_back_run, 0},
    {"ref", GY_DRIVER_ANY, DRIVER_F32, NULL, driver_ref_cost, driver_ref_plan, driver_ref_run, 0},
    {"widened", GY_DRIVER_ANY, DRIVER_BF16, NULL, driver_ref_cost, gy_cpu_wide_plan, gy_cpu_wide_run, 0},
};

static int driver_can(const struct gy_driver *row, const struct gy_op *op, const struct gy_cpu *cpu)
{
    return (row->code == GY_DRIVER_ANY || (row->code == op->code && !cpu->ref)) && row->dtypes >> op->dtype & 1 &&
           (!row->fits || row->fits(op, &cpu->k, row->size));
}

GY_INT void gy_driver_prepare(struct gy_planner *planner, struct gy_op *op)
{
    const struct gy_cpu *const cpu = planner->cpu;
    const struct gy_driver *best = NULL;
    double least = 0;
    for (size_t i = 0; i < GY_COUNT(driver_rows); i++) {
        const struct gy_driver *const row = &driver_rows[i];
        if (!driver_can(row, op, cpu))
            continue;
        const double cost = row->cost ? row->cost(op, &cpu->k, row->size) : 0;
        if (!best || cost < least) {
            best = row;
            least = cost;
        }
    }
    op->kernel = best;
    op->variant = best->name;
    op->plan = NULL;
    op->scratch_bytes = 0;
    planner->cpu->plans++;
    gy_cpu_blocks_choose(op, cpu->k.name);
    if (best->plan)
        best->plan(planner, op);
}
