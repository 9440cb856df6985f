/* SPDX-License-Identifier: MIT */
/* op_check.h: holds every output of a case against the truth, and says how far off a kernel may be: an element-wise op
 * by a few roundings; a sum of products by eps * (8 + 2 sqrt(terms)) times the sum of the products' sizes, and by
 * nothing at all where every partial sum is a whole number below 2^24. A value that is not a number must stay so and
 * infect no other. */
#ifndef GY_OP_CHECK_H
#define GY_OP_CHECK_H
#include "op_case.h"

#define OP_EPS 5.9604645e-8    /* 2^-24 */
#define OP_SMALLEST 1.4013e-45 /* the step between denormals */

static int op_quiet; /* the tests of the test: complaints are only counted */

/* Roundings allowed to ops that are no long sums, times the value and the tensor's mean size; 0: the same number. */
static const uint8_t op_slack[GY_OP_CODES] = {
    [GY_OP_INPUT] = 8,           [GY_OP_BN_FINISH] = 8, [GY_OP_BN_FOLD] = 8,     [GY_OP_ACT] = 8,
    [GY_OP_POOL_MAX] = 0,        [GY_OP_POOL_AVG] = 16, [GY_OP_LRN] = 16,        [GY_OP_DROPOUT] = 4,
    [GY_OP_CONCAT] = 0,          [GY_OP_SHORTCUT] = 0,  [GY_OP_SOFTMAX_CE] = 16, [GY_OP_MSE] = 16,
    [GY_OP_SOFTMAX_CE_BWD] = 16, [GY_OP_MSE_BWD] = 16,  [GY_OP_ACT_BWD] = 16,    [GY_OP_POOL_MAX_BWD] = 16,
    [GY_OP_POOL_AVG_BWD] = 16,   [GY_OP_LRN_BWD] = 32,  [GY_OP_ADD_BWD] = 16,    [GY_OP_CONCAT_BWD] = 4,
    [GY_OP_SHORTCUT_BWD] = 4,    [GY_OP_NORMS] = 32,    [GY_OP_SGD] = 16,        [GY_OP_LARS] = 16,
    [GY_OP_ADAMW] = 32,
};

/* Products in one sum. */
static int64_t op_terms(const struct op_case *c)
{
    const struct gy_geom *g = &c->geom;
    switch (c->code) {
    case GY_OP_CONV: return (int64_t)g->r * g->s * (g->c / g->groups);
    case GY_OP_CONV_DGRAD: return (int64_t)g->r * g->s * (g->k / g->groups);
    default: return g->n * g->p * g->q;
    }
}

/* Over the elements that are numbers. */
static double op_rms(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += isfinite(x[i]) ? x[i] * x[i] : 0;
    return count ? sqrt(sum / (double)count) : 0;
}

/* Is the op a sum of products whose sizes were computed? */
static int op_is_sum(int code)
{
    return code == GY_OP_CONV || code == GY_OP_CONV_DGRAD || code == GY_OP_CONV_WGRAD || code == GY_OP_BN_APPLY ||
           code == GY_OP_ADD;
}

static double op_grow(const struct op_case *c) { return OP_EPS * (8 + 2 * sqrt((double)op_terms(c))); }

/* Channel statistics: elements may already be off by `each` behind a convolution. */
static double op_limit_stats(const struct op_case *c, const struct op_memory *m, int64_t i)
{
    const struct op_tensor *x = &m->t[c->code == GY_OP_CONV ? GY_Y : GY_X], *stats = &m->t[GY_STATS];
    const int64_t channels = c->geom.k, pixels = c->geom.n * c->geom.p * c->geom.q, channel = i % channels;
    const double each = c->code == GY_OP_CONV ? op_grow(c) * stats->size[channel] : 0, n = (double)pixels;
    double sum = 0;
    for (int64_t p = 0; p < pixels; p++)
        sum += fabs(x->truth[p * channels + channel]);
    if (i < channels)
        return each + OP_EPS * (8 + 2 * sqrt(n)) * sum / n;
    const double off = each + 8 * OP_EPS * sum / n, squares = stats->truth[i];
    return OP_EPS * (32 + 2 * sqrt(n)) * squares + 2 * off * sqrt(n * squares) + n * off * off;
}

/* Element i of the output that masks the gradient of batch norm: given, or made from X. */
static double op_bn_out(const struct op_case *c, const struct op_memory *m, int64_t i)
{
    const int64_t channel = i % c->geom.c;
    if (m->t[GY_Y].truth)
        return m->t[GY_Y].truth[i];
    if (!m->t[GY_SCALE].truth)
        return 0;
    const double made = m->t[GY_X].truth[i] * m->t[GY_SCALE].truth[channel] + m->t[GY_SHIFT].truth[channel];
    return (double)ref_act_value((float)(made + (m->t[GY_RES].truth ? m->t[GY_RES].truth[i] : 0)), c->act);
}

/* Size of dy behind the activation: of its terms, where a curve's slope is a difference. */
static double op_masked_size(const struct op_case *c, const struct op_memory *m, int64_t i)
{
    const double dy = m->t[GY_DY].truth[i], at = op_bn_out(c, m, i);
    if (c->act == GY_ACT_TANH)
        return fabs(dy) * (1 + at * at);
    if (c->act == GY_ACT_SIGMOID)
        return fabs(dy * at) * (1 + fabs(at));
    return fabs((double)ref_act_mask((float)dy, (float)at, c->act));
}

/* Batch norm's output, made once more. */
static double op_limit_again(const struct op_case *c, const struct op_memory *m, int64_t i)
{
    const double product = m->t[GY_X].truth[i] * m->t[GY_SCALE].truth[i % c->geom.c];
    const double sum = fabs(product) + fabs(m->t[GY_SHIFT].truth[i % c->geom.c]);
    return 4 * OP_EPS * (sum + (m->t[GY_RES].truth ? fabs(m->t[GY_RES].truth[i]) : 0));
}

/* The two sums of batch norm's gradient, from the sizes of their terms. */
static double op_limit_bn_sums(const struct op_case *c, const struct op_memory *m, int role, int64_t i)
{
    const int64_t channels = c->geom.c, pixels = c->geom.n * c->geom.h * c->geom.w, channel = i % channels;
    const double mean = fabs(m->t[GY_MEAN].truth[channel]), rstd = m->t[GY_RSTD].truth[channel];
    const int second = role == GY_DGAMMA || (role == GY_SUMS && i >= channels);
    double sum = 0;
    if (role == GY_AGAIN)
        return op_limit_again(c, m, i);
    for (int64_t at = channel; at < pixels * channels; at += channels) {
        const double d = op_masked_size(c, m, at);
        sum += second ? d * (fabs(m->t[GY_X].truth[at]) + mean) * rstd : d;
    }
    return OP_EPS * (16 + 2 * sqrt((double)pixels)) * sum + 4 * OP_EPS * fabs(m->t[role].truth[i]);
}

static double op_limit_bn_bwd(const struct op_case *c, const struct op_memory *m, int role, int64_t i)
{
    const int64_t channel = i % c->geom.c;
    const double pixels = (double)(c->geom.n * c->geom.h * c->geom.w), *sums = m->t[GY_SUMS].truth;
    const double gamma = fabs(m->t[GY_GAMMA].truth[channel]), rstd = m->t[GY_RSTD].truth[channel];
    const double d = op_masked_size(c, m, i);
    const double xhat = (fabs(m->t[GY_X].truth[i]) + fabs(m->t[GY_MEAN].truth[channel])) * rstd;
    const double size = gamma * rstd * (d + (fabs(sums[channel]) + xhat * fabs(sums[c->geom.c + channel])) / pixels);
    return 16 * OP_EPS * (fabs(m->t[role].truth[i]) + (role == GY_DRES ? d : size));
}

/* rms: of the tensor's truth. */
static double op_limit_float(const struct op_case *c, const struct op_memory *m, int role, int64_t i, double rms)
{
    const struct op_tensor *t = &m->t[role];
    const double denormal = OP_SMALLEST * (8 + (double)op_terms(c)), truth = fabs(t->truth[i]);
    const int curve = c->act == GY_ACT_SIGMOID || c->act == GY_ACT_TANH;
    if (role == GY_STATS)
        return op_limit_stats(c, m, i) + denormal;
    if (c->code == GY_OP_BN_SUMS)
        return op_limit_bn_sums(c, m, role, i) + denormal;
    if (c->code == GY_OP_BN_BWD)
        return op_limit_bn_bwd(c, m, role, i) + denormal;
    if (op_is_sum(c->code) && c->values == OP_POWERS && !curve && t->size[i] < 16777216)
        return 0;
    if (op_is_sum(c->code)) /* the slope of a curve is at most 1 */
        return op_grow(c) * t->size[i] + (curve ? 4 * OP_EPS : 0) + denormal;
    if (op_slack[c->code] == 0)
        return 0;
    const int slope = curve && (c->code == GY_OP_ACT_BWD || c->code == GY_OP_ADD_BWD); /* a difference */
    const double size = c->code == GY_OP_NORMS ? 0 : slope ? op_masked_size(c, m, i) + rms : rms;
    return op_slack[c->code] * OP_EPS * (truth + size) + denormal;
}

#define OP_HALF_EPS 0.00390625 /* 2^-8: half a step of bf16, beside the value */

#define OP_F16_EPS 0.00048828125 /* 2^-11, likewise of f16 */
#define OP_F16_SMALLEST 2.4e-7   /* four steps between its denormals */

/* Outputs in bf16 or f16 are rounded once more; a convolution's are before its epilogue as well. */
static double op_limit(const struct op_case *c, const struct op_memory *m, int role, int64_t i, double rms)
{
    const double limit = op_limit_float(c, m, role, i, rms), truth = fabs(m->t[role].truth[i]);
    if (m->t[role].bytes != 2 || (op_slack[c->code] == 0 && !op_is_sum(c->code) && c->code != GY_OP_BN_SUMS && c->code != GY_OP_BN_BWD))
        return limit;
    const int twice = c->code == GY_OP_CONV && (m->t[GY_SCALE].raw || m->t[GY_RES].raw || c->act), f16 = m->t[role].f16;
    return limit + (f16 ? OP_F16_EPS : OP_HALF_EPS) * (truth + (twice ? m->t[role].size[i] : 0)) + (f16 ? OP_F16_SMALLEST : 1e-40);
}

/* A weight gradient may multiply a gradient that is not a number with the zeros of the padding. */
static int op_may_spread(const struct op_case *c) { return c->values == OP_NAN && c->code == GY_OP_CONV_WGRAD; }

/* The number of wrong elements; the first is told. */
static int op_compare_real(const struct op_case *c, const struct op_memory *m, int role, const char *where)
{
    const struct op_tensor *t = &m->t[role];
    const double rms = op_rms(t->truth, t->count);
    char text[300];
    int wrong = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const int allowed = c->values == OP_NAN ? !isinf(t->truth[i]) : isfinite(t->truth[i]);
        const float got = op_get(t, i);
        if (allowed && isnan(got) && (isnan(t->truth[i]) || op_may_spread(c)))
            continue;
        if (allowed && fabs((double)got - t->truth[i]) <= op_limit(c, m, role, i, rms))
            continue;
        if (wrong++ == 0 && !op_quiet)
            printf("%s: %s seed %" PRIu64 ": %s[%" PRId64 "] is %.9g, truth %.9g, allowed %.3g\n", where,
                   op_text(c, text, sizeof text), m->seed, gy_role_name(role), i, (double)got, t->truth[i],
                   op_limit(c, m, role, i, rms));
    }
    return wrong;
}

static int op_guards_whole(const struct op_tensor *t)
{
    const size_t guard = (size_t)OP_GUARD * (size_t)t->bytes, body = (size_t)t->count * (size_t)t->bytes;
    for (size_t i = 0; i < guard; i++)
        if (t->raw[i] != OP_POISON || t->raw[guard + body + i] != OP_POISON)
            return 0;
    return 1;
}

/* Is a tensor that the op only reads as it was? */
static int op_input_whole(const struct op_tensor *t)
{
    if (!t->real)
        return memcmp(op_place(t), t->other, (size_t)t->count * (size_t)t->bytes) == 0;
    for (int64_t i = 0; i < t->count; i++) {
        const float now = op_get(t, i), was = (float)t->truth[i];
        if (memcmp(&now, &was, sizeof now) != 0 && !isnan(t->truth[i]))
            return 0;
    }
    return 1;
}

static int op_complain(const struct op_case *c, int role, const char *where, const char *what)
{
    char text[300];
    if (!op_quiet)
        printf("%s: %s: %s: %s\n", where, op_text(c, text, sizeof text), gy_role_name(role), what);
    return 1;
}

/* taken: role whose memory an output took over (in place), or -1. */
static int op_compare(const struct op_case *c, const struct op_memory *m, const char *where, int taken)
{
    int wrong = 0;
    for (int role = 0; role < GY_ROLES; role++) {
        const struct op_tensor *t = &m->t[role];
        if (!t->raw)
            continue;
        if (!op_guards_whole(t))
            wrong += op_complain(c, role, where, "written beside");
        if (op_writes(c, role) && t->real)
            wrong += op_compare_real(c, m, role, where);
        else if (op_writes(c, role) && memcmp(op_place(t), t->other, (size_t)t->count * (size_t)t->bytes) != 0)
            wrong += op_complain(c, role, where, "differs");
        else if (!op_writes(c, role) && role != taken && !op_input_whole(t))
            wrong += op_complain(c, role, where, "an input was changed");
    }
    return wrong;
}

#endif
