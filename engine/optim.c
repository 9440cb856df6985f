/* SPDX-License-Identifier: MIT */
/* Numbers that depend on the step alone (the learning rate), and the numbers that a net starts with. */
#include "engine.h"
#include "base/rng.h"

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

/* How a parameter starts: He et al. 2015 (fan out) for convolutions, PyTorch's uniform for fully connected layers. */
static float optim_first(const struct gyre_net *net, int param, int64_t element)
{
    const struct gy_param *p = &net->graph.params[param];
    const uint64_t seed = net->config.seed, step = (uint64_t)param;
    const float bound = 1.0f / sqrtf((float)net->graph.nodes[p->node].geom.c);
    switch (p->kind) {
    case GY_PARAM_CONV_WEIGHT:
        return gy_rng_normal(seed, GY_RNG_INIT, step, (uint64_t)element) * sqrtf(2.0f / ((float)p->k * (float)(p->r * p->s)));
    case GY_PARAM_LINEAR_WEIGHT:
    case GY_PARAM_LINEAR_BIAS:
        return (2 * gy_rng_uniform(seed, GY_RNG_INIT, step, (uint64_t)element) - 1) * bound;
    case GY_PARAM_GAMMA:
    case GY_PARAM_RUN_VAR: return 1;
    default: return 0;
    }
}

static int optim_init_param(struct gyre_net *net, int param)
{
    const struct gy_param *p = &net->graph.params[param];
    const int64_t row = gy_param_row_count(p);
    const int region = gy_param_is_state(p->kind) ? GY_AT_STATE : GY_AT_PARAM;
    for (int32_t k = 0; k < p->k; k++) {
        for (int64_t i = 0; i < row; i++)
            net->row2[i] = optim_first(net, param, k * row + i);
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
