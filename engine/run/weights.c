/* SPDX-License-Identifier: MIT */
/* weights.c: converts weights between Gyre's layout and PyTorch's, for checkpoints and programs.
 * Inside, a convolution's weights lie as [K][R][S][C], a fully connected layer's columns in NHWC
 * order; outside, as [K][C][R][S] and CHW. A conversion exchanges axes within one output channel, a
 * row. A fully connected weight is a convolution's whose window is the image that was flattened. */
#include "engine/run/engine.h"

/* Window and channels of one row. */
struct weights_row {
    int32_t r, s, c;
};

static struct weights_row weights_row_of(const struct gy_param *p)
{
    if (p->kind == GY_PARAM_CONV_WEIGHT)
        return (struct weights_row){ p->r, p->s, p->c };
    if (p->kind == GY_PARAM_LINEAR_WEIGHT)
        return (struct weights_row){ p->flat_h, p->flat_w, p->c / (p->flat_h * p->flat_w) };
    return (struct weights_row){ 1, 1, 1 };
}

GY_INT int64_t gy_param_row_count(const struct gy_param *p)
{
    const struct weights_row w = weights_row_of(p);
    return (int64_t)w.r * w.s * w.c;
}

GY_INT int gy_param_shape(const struct gy_param *p, int64_t shape[4])
{
    const int64_t all[4] = { p->k, p->c, p->r, p->s };
    memcpy(shape, all, sizeof all);
    return p->kind == GY_PARAM_CONV_WEIGHT ? 4 : p->kind == GY_PARAM_LINEAR_WEIGHT ? 2 : 1;
}

/* out [c][r][s] from in [r][s][c], or back. */
static void weights_turn(const struct weights_row *w, const float *in, float *out, int to_torch)
{
    const int64_t window = (int64_t)w->r * w->s;
    for (int64_t x = 0; x < window; x++)
        for (int64_t c = 0; c < w->c; c++) {
            const int64_t here = x * w->c + c, there = c * window + x;
            out[to_torch ? there : here] = in[to_torch ? here : there];
        }
}

GY_INT int64_t gy_param_torch_index(const struct gy_param *p, int64_t index)
{
    const struct weights_row w = weights_row_of(p);
    const int64_t within = index % gy_param_row_count(p);
    return index - within + within % w.c * w.r * w.s + within / w.c;
}

GY_INT int gy_region_has(const struct gyre_net *net, int region, int param)
{
    const int state = gy_param_is_state(net->graph.params[param].kind);
    if (net->pipe)
        return net->pipe->has(net, region, param);
    return net->base[region] && net->plan.region_bytes[region] && state == (region == GY_AT_STATE);
}

/* Parameter regions share one layout; state has its own. */
static unsigned char *weights_place(const struct gyre_net *net, int param, int region, int32_t k)
{
    const struct gy_param *p = &net->graph.params[param];
    k = net->pipe && net->pipe->place ? net->pipe->place(net, param, k) : k;
    return (unsigned char *)net->base[region] + net->plan.tensors[net->plan.param[param]].offset +
           (size_t)k * (size_t)gy_param_row_count(p) * sizeof(float);
}

GY_INT int gy_param_read_row(struct gyre_net *net, int param, int region, int32_t k, float *row)
{
    const struct weights_row w = weights_row_of(&net->graph.params[param]);
    const size_t bytes = (size_t)gy_param_row_count(&net->graph.params[param]) * sizeof(float);
    const int lent = net->pipe ? net->pipe->row(net, param, region, k, row) : 0;
    if (lent != 0)
        return lent < 0 ? lent : GY_OK;
    const int status = net->backend->copy(net->backend_self, net->row, weights_place(net, param, region, k), bytes, GY_COPY_TO_HOST);
    GY_TRY(gy_engine_checked(net, status, "fetching a tensor"));
    weights_turn(&w, net->row, row, 1);
    return GY_OK;
}

GY_INT int gy_param_write_row(struct gyre_net *net, int param, int region, int32_t k, const float *row)
{
    const struct weights_row w = weights_row_of(&net->graph.params[param]);
    const size_t bytes = (size_t)gy_param_row_count(&net->graph.params[param]) * sizeof(float);
    if (net->pipe && net->pipe->place && net->pipe->place(net, param, k) < 0)
        return GY_OK; /* of another rank */
    weights_turn(&w, row, net->row, 0);
    const int status = net->backend->copy(net->backend_self, weights_place(net, param, region, k), net->row, bytes, GY_COPY_TO_DEVICE);
    return gy_engine_checked(net, status, "sending a tensor");
}

GYRE_API int gyre_tensor_count(const struct gyre_net *net) { return net ? net->graph.param_count : 0; }

GYRE_API int gyre_tensor_at(const struct gyre_net *net, int index, struct gyre_tensor_info *info)
{
    if (!net || !info)
        return GYRE_E_ARG;
    if (index < 0 || index >= net->graph.param_count)
        return GYRE_E_ARG;
    const struct gy_param *p = &net->graph.params[index];
    memset(info, 0, sizeof *info);
    info->name = p->name;
    info->dims = gy_param_shape(p, info->shape);
    info->count = p->count;
    info->trained = !gy_param_is_state(p->kind);
    return GYRE_OK;
}

static const struct { const char *prefix; int region; } weights_prefix[] = {
    { "grad.", GY_AT_GRAD }, { "momentum.", GY_AT_OPT1 }, { "second.", GY_AT_OPT2 }, { "ema.", GY_AT_EMA },
};

GY_INT int gy_param_named(const struct gyre_net *net, const char *name, int first)
{
    const int count = net->graph.param_count;
    for (int i = 0; i < count; i++)
        if (strcmp(net->graph.params[(first + i) % count].name, name) == 0)
            return (first + i) % count;
    return -1;
}

/* The parameter and region that a public name means. A plain name wins over a prefix. */
static int weights_find(struct gyre_net *net, const char *call, const char *name, int64_t count, int *param, int *region)
{
    GY_TRY(gy_engine_ready(net, call, 0));
    *param = gy_param_named(net, name, 0);
    *region = *param >= 0 && gy_param_is_state(net->graph.params[*param].kind) ? GY_AT_STATE : GY_AT_PARAM;
    for (size_t i = 0; i < GY_COUNT(weights_prefix) && *param < 0; i++) {
        const size_t length = strlen(weights_prefix[i].prefix);
        if (strncmp(name, weights_prefix[i].prefix, length) == 0) {
            *param = gy_param_named(net, name + length, 0);
            *region = weights_prefix[i].region;
        }
    }
    if (*param < 0 || !gy_region_has(net, *region, *param))
        return gy_engine_fail(net, GY_E_ARG, "the net has no tensor '%.120s'", name);
    if (count != net->graph.params[*param].count)
        return gy_engine_fail(net, GY_E_ARG, "tensor '%.120s' has %" PRId64 " elements, not %" PRId64, name,
                              net->graph.params[*param].count, count);
    return GY_OK;
}

/* Gradients carry the loss scale and are sums over samples / batch; others see their mean. */
static float weights_scale(const struct gyre_net *net, int region)
{
    const double weight = net->grad_weight > 0 ? net->grad_weight : 1;
    return region == GY_AT_GRAD ? (float)((double)net->uniform.loss_scale * weight) : 1;
}

GYRE_API int gyre_get_tensor(struct gyre_net *net, const char *name, float *values, int64_t count)
{
    GY_TRY(gy_engine_given(net, name, "gyre_get_tensor: name"));
    GY_TRY(gy_engine_given(net, values, "gyre_get_tensor: values"));
    int param, region;
    GY_TRY(weights_find(net, "gyre_get_tensor", name, count, &param, &region));
    const int64_t row = gy_param_row_count(&net->graph.params[param]);
    for (int32_t k = 0; k < net->graph.params[param].k; k++)
        GY_TRY(gy_param_read_row(net, param, region, k, values + k * row));
    const float scale = weights_scale(net, region);
    for (int64_t i = 0; i < count && scale != 1; i++)
        values[i] /= scale;
    return GYRE_OK;
}

GYRE_API int gyre_set_tensor(struct gyre_net *net, const char *name, const float *values, int64_t count)
{
    GY_TRY(gy_engine_given(net, name, "gyre_set_tensor: name"));
    GY_TRY(gy_engine_given(net, values, "gyre_set_tensor: values"));
    int param, region;
    GY_TRY(weights_find(net, "gyre_set_tensor", name, count, &param, &region));
    const int64_t row = gy_param_row_count(&net->graph.params[param]);
    const float scale = weights_scale(net, region);
    const int averaged = region == GY_AT_PARAM && gy_region_has(net, GY_AT_EMA, param);
    for (int32_t k = 0; k < net->graph.params[param].k; k++) {
        for (int64_t i = 0; i < row; i++)
            net->row2[i] = values[k * row + i] * scale;
        GY_TRY(gy_param_write_row(net, param, region, k, net->row2));
        if (averaged) /* evaluation reads the average */
            GY_TRY(gy_param_write_row(net, param, GY_AT_EMA, k, net->row2));
    }
    return GYRE_OK;
}
