/* SPDX-License-Identifier: MIT */
/* find_nonfinite.c: finds where the first number that is not finite came from; gyre_train asks it.
 * It checks weights and batch, then replays the step and checks what each op wrote. Weights and
 * running statistics stay; gradients are replaced, unless some wait for an update. */
#include "engine/run/parallel.h"

struct nonfinite_place {
    int tensor;
    int64_t index;
    double value;
};

/* IEEE half: subnormals are multiples of 2^-24. */
static float nonfinite_f16(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float size = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexpf((float)(1024 + fraction), exponent - 25)
                                                                               : ldexpf((float)fraction, -24);
    return half >> 15 ? -size : size;
}

/* Element i of a row of float, f16 or bf16: the latter are the upper halves of floats. */
static float nonfinite_value(const void *row, int64_t i, int dtype)
{
    if (dtype == GY_F32)
        return ((const float *)row)[i];
    if (dtype == GY_F16)
        return nonfinite_f16(((const uint16_t *)row)[i]);
    const uint32_t bits = (uint32_t)((const uint16_t *)row)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Index of the first element that is not finite, or -1. */
static int64_t nonfinite_scan(const void *row, int64_t count, int dtype, double *value)
{
    for (int64_t i = 0; i < count; i++) {
        *value = (double)nonfinite_value(row, i, dtype);
        if (!isfinite(*value))
            return i;
    }
    return -1;
}

/* 1: found, 0: none, or a status. Rows of device memory go through the net's row buffer. */
static int nonfinite_tensor(struct gyre_net *net, int tensor, struct nonfinite_place *at)
{
    const struct gy_tensor *t = &net->plan.tensors[tensor];
    if (t->dtype != GY_F32 && t->dtype != GY_BF16 && t->dtype != GY_F16)
        return 0;
    const size_t each = gy_dtype_bytes(t->dtype);
    const unsigned char *base = (const unsigned char *)net->base[t->region] + t->offset;
    for (int64_t first = 0; first < t->count; first += net->row_count) {
        const int64_t count = gy_min64(net->row_count, t->count - first);
        const int status = net->backend->copy(net->backend_self, net->row, base + (size_t)first * each, (size_t)count * each, GY_COPY_TO_HOST);
        GY_TRY(gy_engine_checked(net, status, "a replay"));
        const int64_t found = nonfinite_scan(net->row, count, t->dtype, &at->value);
        if (found >= 0) {
            at->tensor = tensor;
            at->index = first + found;
            return 1;
        }
    }
    return 0;
}

/* "[3][0][17][2]" */
static void nonfinite_index(int dims, const int64_t dim[4], int64_t index, char *text, size_t room)
{
    size_t used = 0;
    int64_t below = 1;
    for (int d = 0; d < dims; d++)
        below *= dim[d];
    text[0] = 0;
    for (int d = 0; d < dims && used < room; d++) {
        below /= dim[d];
        used += (size_t)snprintf(text + used, room - used, "[%" PRId64 "]", index / below % dim[d]);
    }
}

/* Of a parameter or its gradient in PyTorch's layout, as gyre_get_tensor gives it. */
static void nonfinite_where(const struct gyre_net *net, const struct nonfinite_place *at, char *text, size_t room)
{
    const struct gy_tensor *t = &net->plan.tensors[at->tensor];
    for (int i = 0; i < net->graph.param_count; i++) {
        const struct gy_param *p = &net->graph.params[i];
        int64_t shape[4];
        if (net->plan.param[i] != at->tensor && net->plan.grad[i] != at->tensor)
            continue;
        const int dims = gy_param_shape(p, shape);
        nonfinite_index(dims, shape, gy_param_torch_index(p, at->index), text, room);
        return;
    }
    nonfinite_index(t->dims, t->dim, at->index, text, room);
}

static int nonfinite_report(const struct gyre_net *net, const struct nonfinite_place *at, const char *who, int32_t *sample,
                            struct gy_error *where)
{
    const struct gy_tensor *t = &net->plan.tensors[at->tensor];
    /* values of layers have four dimensions; what has fewer is of channels */
    const int value = (t->region == GY_AT_ACT || t->region == GY_AT_SLOTS) && t->dims == 4;
    const int per_sample = t->dim[0] == net->config.batch && (value || t->region == GY_AT_IN || t->region == GY_AT_OUT);
    char index[128];
    nonfinite_where(net, at, index, sizeof index);
    *sample = per_sample ? (int32_t)(at->index / (t->count / t->dim[0])) : -1;
    return GY_FAIL(where, GY_E_NONFINITE, "%s: tensor '%s'%s is %g", who, t->name, index, at->value);
}

/* Weights, running statistics, the batch: as nonfinite_tensor. */
static int nonfinite_before(struct gyre_net *net, struct nonfinite_place *at)
{
    int found = 0;
    for (int i = 0; i < net->graph.param_count && !found; i++)
        if (net->plan.tensors[net->plan.param[i]].region != GY_AT_ACT) /* else of another stage */
            found = nonfinite_tensor(net, net->plan.param[i], at);
    if (!found)
        found = nonfinite_tensor(net, net->plan.input, at);
    return found || net->plan.target < 0 ? found : nonfinite_tensor(net, net->plan.target, at);
}

static int nonfinite_op(struct gyre_net *net, const struct gy_op *op, struct nonfinite_place *at)
{
    const uint64_t writes = gy_op_row(op->code)->writes;
    int found = 0;
    if (op->code == GY_OP_CONCAT && op->geom.r + op->geom.c < op->geom.k) /* more of Y is to come */
        return 0;
    for (int role = 0; role < GY_ROLES && !found; role++)
        if (writes >> role & 1 && op->tensor[role] >= 0)
            found = nonfinite_tensor(net, op->tensor[role], at);
    return found;
}

static int nonfinite_program(struct gyre_net *net, int program, int32_t *sample, struct gy_error *where)
{
    struct nonfinite_place at;
    for (int i = 0; i < net->plan.program[program].count; i++) {
        const struct gy_op *op = &net->plan.program[program].ops[i];
        if (gy_engine_skips(net, op))
            continue;
        if (op->code >= GY_OP_CODES) {
#ifndef GY_NO_RANKS
            GY_TRY(gy_parallel_replay(net, op));
#endif
            continue;
        }
        GY_TRY(gy_engine_checked(net, net->backend->run(net->backend_self, op), "a replay"));
        GY_TRY(gy_engine_checked(net, net->backend->sync(net->backend_self), "a replay"));
        const int found = nonfinite_op(net, op, &at);
        if (found == 0)
            continue;
        if (found < 0)
            return found;
        char who[200];
        snprintf(who, sizeof who, "%s op %d, %s of layer '%s', wrote it", gy_program_name(program), i,
                 gy_op_row(op->code)->name, op->name);
        return nonfinite_report(net, &at, who, sample, where);
    }
    return GY_OK;
}

static int nonfinite_find(struct gyre_net *net, const struct gyre_batch *batch, int32_t *sample, struct gy_error *where)
{
    struct nonfinite_place at;
    if (net->pipe && net->pipe->aside)
        net->pipe->aside(net);
    GY_TRY(gy_engine_feed(net, batch));
    const int found = nonfinite_before(net, &at);
    if (found != 0)
        return found < 0 ? found : nonfinite_report(net, &at, "before the first op", sample, where);
    net->uniform.step = gy_parallel_counter(net);
    GY_TRY(nonfinite_program(net, GY_FORWARD, sample, where));
    if (net->pending > 0) /* backward would overwrite gradients that wait for an update */
        return GY_OK;
    net->uniform.accumulate = 0;
    net->uniform.loss_scale = 1;
    return nonfinite_program(net, GY_BACKWARD, sample, where);
}

static int nonfinite_copy_state(struct gyre_net *net, int to, int from)
{
    const size_t bytes = net->plan.region_bytes[GY_AT_KEEP];
    return gy_engine_checked(net, net->backend->copy(net->backend_self, net->base[to], net->base[from], bytes, GY_COPY_ON_DEVICE), "a replay");
}

/* Running statistics are afterwards what they were. */
static int nonfinite_replay(struct gyre_net *net, const struct gyre_batch *batch, int32_t *sample, struct gy_error *where)
{
    GY_TRY(gy_engine_ready(net, "gyre_find_nonfinite", 1));
    GY_TRY(nonfinite_copy_state(net, GY_AT_KEEP, GY_AT_STATE));
    const int status = nonfinite_find(net, batch, sample, where);
    GY_TRY(nonfinite_copy_state(net, GY_AT_STATE, GY_AT_KEEP));
    return status;
}

GYRE_API int gyre_find_nonfinite(struct gyre_net *net, const struct gyre_batch *batch, int32_t *sample,
                                 struct gyre_error *where)
{
    GY_TRY(gy_given(net, "gyre_find_nonfinite: net", where));
    GY_TRY(gy_given(batch, "gyre_find_nonfinite: batch", where));
    struct gy_error err = { 0 };
    int32_t found = -1;
    const int status = nonfinite_replay(net, batch, &found, &err);
    if (sample)
        *sample = found;
    if (status == GY_OK)
        return GYRE_OK;
    return gy_error_out(where, status == GY_E_NONFINITE ? &err : &net->error);
}
