/* SPDX-License-Identifier: MIT */
/* optim.c: learning rates by step, for step.c, and first weights, for open.c. The update rules are
 * ops: kernels/cpu/update.c, kernels/cpu/ref/ref_optim.c. */
#include "engine/run/engine.h"
#include "engine/base/rng.h"

static const double optim_pi = 3.14159265358979323846;

static double optim_steps(const struct gyre_schedule *s, int64_t step)
{
    double rate = (double)s->rate;
    for (int i = 0; i < 8 && s->milestone[i] && step >= s->milestone[i]; i++)
        rate *= (double)s->gamma;
    return rate;
}

GY_INT float gy_schedule_rate(const struct gyre_schedule *s, int64_t step)
{
    const double rate = (double)s->rate, from = (double)s->warmup_from, final = (double)s->final_rate;
    if (step < s->warmup)
        return (float)(from + (rate - from) * (double)(step + 1) / (double)s->warmup);
    const double length = (double)gy_max64(s->steps - s->warmup, 1);
    const double done = fmin((double)(step - s->warmup) / length, 1);
    switch (s->kind) {
    case GYRE_STEPS: return (float)optim_steps(s, step);
    case GYRE_COSINE: return (float)(final + (rate - final) * 0.5 * (1 + cos(optim_pi * done)));
    case GYRE_POLY: return (float)(final + (rate - final) * pow(1 - done, (double)s->power));
    default: return s->rate;
    }
}

/* As TensorFlow's ExponentialMovingAverage with num_updates: a young average forgets its begin. */
GY_INT float gy_average_keep(float decay, int64_t updates)
{
    return (float)fmin((double)decay, (1 + (double)updates) / (10 + (double)updates));
}

/* He et al. 2015 (fan out): four elements a draw. */
static void optim_fill_normal(const struct gyre_net *net, int param, int64_t first, int64_t count, float *row)
{
    const struct gy_param *p = &net->graph.params[param];
    const float spread = sqrtf(2.0f / ((float)p->k * (float)(p->r * p->s)));
    float four[4];
    for (int64_t i = first; i < first + count; i++) {
        if (i == first || i % 4 == 0)
            gy_rng_normals(net->config.seed, GY_RNG_INIT, (uint64_t)param, (uint64_t)(i / 4), four);
        row[i - first] = four[i % 4] * spread;
    }
}

/* PyTorch's default for fully connected layers: uniform, bounded by 1 / sqrt(inputs). */
static void optim_fill_uniform(const struct gyre_net *net, int param, int64_t first, int64_t count, float *row)
{
    const float bound = 1.0f / sqrtf((float)net->graph.nodes[net->graph.params[param].node].geom.c);
    uint32_t words[4];
    for (int64_t i = first; i < first + count; i++) {
        if (i == first || i % 4 == 0)
            gy_rng_words(net->config.seed, GY_RNG_INIT, (uint64_t)param, (uint64_t)(i / 4), words);
        row[i - first] = (2 * ((float)(words[i % 4] >> 8) * (1.0f / 16777216.0f)) - 1) * bound;
    }
}

static void optim_fill_plain(const struct gyre_net *net, int param, int64_t first, int64_t count, float *row)
{
    const int kind = net->graph.params[param].kind;
    (void)first;
    for (int64_t i = 0; i < count; i++)
        row[i] = kind == GY_PARAM_GAMMA || kind == GY_PARAM_RUN_VAR;
}

/* How a parameter starts, by kind: elements [first, first + count) in PyTorch's order. */
static void (*const optim_fill[])(const struct gyre_net *, int, int64_t, int64_t, float *) = {
    [GY_PARAM_CONV_WEIGHT] = optim_fill_normal,    [GY_PARAM_LINEAR_WEIGHT] = optim_fill_uniform,
    [GY_PARAM_CONV_BIAS] = optim_fill_plain,       [GY_PARAM_LINEAR_BIAS] = optim_fill_uniform,
    [GY_PARAM_GAMMA] = optim_fill_plain,           [GY_PARAM_BETA] = optim_fill_plain,
    [GY_PARAM_RUN_MEAN] = optim_fill_plain,        [GY_PARAM_RUN_VAR] = optim_fill_plain,
};

static int optim_init_param(struct gyre_net *net, int param)
{
    const struct gy_param *p = &net->graph.params[param];
    const int64_t row = gy_param_row_count(p);
    const int region = gy_param_is_state(p->kind) ? GY_AT_STATE : GY_AT_PARAM;
    for (int32_t k = 0; k < p->k && gy_region_has(net, region, param); k++) {
        optim_fill[p->kind](net, param, k * row, row, net->row2);
        GY_TRY(gy_param_write_row(net, param, region, k, net->row2));
        if (region == GY_AT_PARAM && gy_region_has(net, GY_AT_EMA, param))
            GY_TRY(gy_param_write_row(net, param, GY_AT_EMA, k, net->row2));
    }
    return GY_OK;
}

GY_INT int gy_init_weights(struct gyre_net *net)
{
    for (int i = 0; i < net->graph.param_count; i++)
        GY_TRY(optim_init_param(net, i));
    return GY_OK;
}
