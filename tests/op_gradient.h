/* SPDX-License-Identifier: MIT */
/* op_gradient.h: backward ops against central differences, in double, on the references. The loss
 * is a fixed random projection of the output. Its derivative by an input is compared with (L(x + e)
 * - L(x - e)) / 2e. Where a function has a kink, inputs keep away from it: activations at 0 and 6,
 * max pooling at equal cells. */
#ifndef GY_OP_GRADIENT_H
#define GY_OP_GRADIENT_H
#include "tests/op_check.h"

#define GRAD_STEP 1e-5
#define GRAD_SAMPLES 24 /* elements looked at, a tensor */

/* One chain: up to three forward ops in a row, then up to two backward ops. All of them share the
 * roles. */
struct grad_chain {
    int forward[3], backward[2]; /* op codes, -1: none */
    struct {
        int8_t input, gradient;
    } pair[4]; /* roles; input -1 ends */
    uint64_t without;
    int act;
    struct gy_geom geom;
    float f[8];
    int targets; /* loss ops: the loss itself is the output */
};

struct grad_memory {
    double *at[GY_ROLES];
    int64_t count[GY_ROLES];
    double *projection;
    struct gy_uniform u;
    int32_t label[64];
    uint8_t arg[4096];
    struct gy_mix mix[64];
};

static struct gy_op grad_op(const struct grad_chain *c, struct grad_memory *m, int code)
{
    struct gy_op op = gy_op_make(code, "gradient", &c->geom);
    op.act = c->act;
    op.act_param = OP_ACT_PARAM;
    op.id = 3;
    op.u = &m->u;
    memcpy(op.f, c->f, sizeof op.f);
    const uint64_t used = (gy_op_row(code)->reads | gy_op_row(code)->writes) & ~c->without;
    for (int role = 0; role < GY_ROLES; role++)
        if (used >> role & 1)
            op.ptr[role] = m->at[role];
    const int loss = c->targets;
    if (used >> GY_ARG & 1)
        op.ptr[GY_ARG] = loss ? (void *)(m->label + 32) : (void *)m->arg;
    if (used >> GY_LABEL & 1)
        op.ptr[GY_LABEL] = m->label;
    if (used >> GY_MIX & 1)
        op.ptr[GY_MIX] = m->mix;
    return op;
}

static double grad_loss(const struct grad_chain *c, struct grad_memory *m)
{
    double sum = 0;
    for (int i = 0; i < 3 && c->forward[i] >= 0; i++) {
        const struct gy_op op = grad_op(c, m, c->forward[i]);
        op_truth_table()[c->forward[i]](&op);
    }
    if (c->targets) {
        for (int64_t n = 0; n < c->geom.n; n++)
            sum += m->at[GY_LOSS][n];
        return sum / (double)c->geom.n;
    }
    for (int64_t i = 0; i < m->count[GY_Y]; i++)
        sum += m->projection[i] * m->at[GY_Y][i];
    return sum;
}

/* Keeps inputs away from kinks: |x| and |x - 6| at least 0.05, and no two cells of a pool equal. */
static double grad_input(int64_t i)
{
    const double x = 3 * (double)gy_rng_normal(4, 50, 1, (uint64_t)i);
    return fabs(x) < 0.05 ? x + 0.1 : fabs(x - 6) < 0.05 ? x + 0.1 : x + 1e-3 * (double)(i % 97);
}

/* Nothing depends on samples that are not there. */
static void grad_check_zero(const struct grad_chain *c, const struct grad_memory *m, int absent)
{
    int64_t other = 0;
    for (int64_t i = m->count[GY_DX] / c->geom.n * (c->geom.n - absent); i < m->count[GY_DX]; i++)
        other += m->at[GY_DX][i] != 0;
    T_CHECK_MSG(other == 0, "%s: %" PRId64 " elements of absent samples", gy_op_row(c->backward[1])->name, other);
}

/* absent: samples that are not there, so that nothing reads what is made of them. */
static void grad_make(const struct grad_chain *c, struct grad_memory *m, int absent)
{
    const struct op_case shape = { .code = c->forward[0], .geom = c->geom };
    memset(m, 0, sizeof *m);
    m->u = (struct gy_uniform){ .seed = 9, .step = 2, .loss_scale = 1, .grad_scale = 1, .absent = absent };
    for (int role = 0; role < GY_ROLES; role++) {
        m->count[role] = role == GY_STATS || role == GY_SUMS ? 2 * c->geom.k : op_count(&shape, role);
        m->at[role] = calloc((size_t)m->count[role] + 1, sizeof(double));
        for (int64_t i = 0; m->at[role] && i < m->count[role]; i++)
            m->at[role][i] = role == GY_X || role == GY_RES ? grad_input(i + 1000 * role)
                                                            : (double)gy_rng_normal(4, (uint32_t)role, 2, (uint64_t)i);
    }
    m->projection = calloc((size_t)m->count[GY_Y] + 1, sizeof(double));
    for (int64_t i = 0; i < m->count[GY_Y]; i++)
        m->projection[i] = i < m->count[GY_Y] / c->geom.n * (c->geom.n - absent) ? (double)gy_rng_normal(4, 60, 3, (uint64_t)i) : 0;
    for (int64_t i = 0; i < c->geom.n; i++) {
        /* sample 2 has no label, and is the partner of another sample */
        m->label[i] = i == 2 ? -1 : (int32_t)(i % c->geom.c);
        m->mix[i] = (struct gy_mix){ .partner = (int32_t)((i + 1) % c->geom.n), .inside = 0.4f, .label = 0.7f };
    }
}

static void grad_free(struct grad_memory *m)
{
    for (int role = 0; role < GY_ROLES; role++)
        free(m->at[role]);
    free(m->projection);
}

static double grad_difference(const struct grad_chain *c, struct grad_memory *m, double *x)
{
    const double old = *x;
    *x = old + GRAD_STEP;
    const double above = grad_loss(c, m);
    *x = old - GRAD_STEP;
    const double below = grad_loss(c, m);
    *x = old;
    return (above - below) / (2 * GRAD_STEP);
}

static void grad_check_pair(const struct grad_chain *c, struct grad_memory *m, int input, int gradient)
{
    const int64_t count = m->count[gradient];
    double *kept = malloc((size_t)count * sizeof *kept);
    double rms = 0;
    int wrong = 0;
    if (!kept)
        return;
    /* the forward ops run again below, so the gradient is copied */
    memcpy(kept, m->at[gradient], (size_t)count * sizeof *kept);
    rms = op_rms(kept, count);
    for (int64_t i = 0; i < GRAD_SAMPLES && i < count; i++) {
        const int64_t at = count <= GRAD_SAMPLES ? i : i * (count - 1) / (GRAD_SAMPLES - 1);
        const double numeric = grad_difference(c, m, &m->at[input][at]);
        if (!(fabs(numeric - kept[at]) <= 1e-5 * (fabs(numeric) + rms) + 1e-7) && wrong++ == 0)
            printf("%s, act %d: %s[%" PRId64 "] is %.9g, difference %.9g\n", gy_op_row(c->backward[0])->name, c->act,
                   gy_role_name(gradient), at, kept[at], numeric);
    }
    T_CHECK(wrong == 0 && rms > 0);
    free(kept);
}

static void grad_check_absent(const struct grad_chain *c, int absent)
{
    struct grad_memory m;
    grad_make(c, &m, absent);
    grad_loss(c, &m);
    memcpy(m.at[GY_DY], m.projection, (size_t)m.count[GY_Y] * sizeof(double));
    for (int i = 0; i < 2 && c->backward[i] >= 0; i++) {
        struct gy_op op = grad_op(c, &m, c->backward[i]);
        if (c->backward[i] == GY_OP_DROPOUT) { /* its own gradient, with other roles */
            op.ptr[GY_X] = m.at[GY_DY];
            op.ptr[GY_Y] = m.at[GY_DX];
        }
        op_truth_table()[c->backward[i]](&op);
    }
    if (absent)
        grad_check_zero(c, &m, absent);
    for (int i = 0; i < 4 && c->pair[i].input >= 0; i++)
        grad_check_pair(c, &m, c->pair[i].input, c->pair[i].gradient);
    grad_free(&m);
}

static void grad_check(const struct grad_chain *c) { grad_check_absent(c, 0); }

#define GRAD_GEOM(n_, h_, w_, c_, p_, q_, k_, r_, s_, st_, pd_, dl_, gr_)                                              \
    {                                                                                                                  \
        .n = n_, .h = h_, .w = w_, .c = c_, .p = p_, .q = q_, .k = k_, .r = r_, .s = s_, .stride_h = st_,              \
        .stride_w = st_, .pad_h = pd_, .pad_w = pd_, .dil_h = dl_, .dil_w = dl_, .groups = gr_                         \
    }
#define GRAD_END                                                                                                       \
    {                                                                                                                  \
        -1, -1                                                                                                         \
    }
#define GRAD_CONV_OFF (OP_BIT(GY_SCALE) | OP_BIT(GY_SHIFT) | OP_BIT(GY_RES) | OP_BIT(GY_STATS))

static const struct grad_chain grad_chains[] = {
    { { GY_OP_CONV, -1, -1 },
      { GY_OP_CONV_DGRAD, GY_OP_CONV_WGRAD },
      { { GY_X, GY_DX }, { GY_W, GY_DW }, { GY_BIAS, GY_DBIAS }, GRAD_END },
      GRAD_CONV_OFF,
      0,
      GRAD_GEOM(2, 7, 6, 4, 4, 3, 6, 3, 3, 2, 1, 1, 1),
      { 0 },
      0 },
    { { GY_OP_CONV, -1, -1 },
      { GY_OP_CONV_DGRAD, GY_OP_CONV_WGRAD },
      { { GY_X, GY_DX }, { GY_W, GY_DW }, { GY_BIAS, GY_DBIAS }, GRAD_END },
      GRAD_CONV_OFF,
      0,
      GRAD_GEOM(1, 9, 9, 4, 9, 9, 8, 3, 3, 1, 2, 2, 2),
      { 0 },
      0 },
    { { GY_OP_CONV, -1, -1 },
      { GY_OP_CONV_DGRAD, GY_OP_CONV_WGRAD },
      { { GY_X, GY_DX }, { GY_W, GY_DW }, { GY_BIAS, GY_DBIAS }, GRAD_END },
      GRAD_CONV_OFF,
      0,
      GRAD_GEOM(2, 5, 5, 6, 3, 3, 6, 3, 3, 1, 0, 1, 6),
      { 0 },
      0 },
    { { GY_OP_POOL_MAX, -1, -1 },
      { GY_OP_POOL_MAX_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(2, 7, 7, 3, 4, 4, 3, 3, 3, 2, 1, 1, 1),
      { 0 },
      0 },
    { { GY_OP_POOL_AVG, -1, -1 },
      { GY_OP_POOL_AVG_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(2, 7, 7, 3, 4, 4, 3, 3, 3, 2, 1, 1, 1),
      { 0 },
      0 },
    { { GY_OP_POOL_AVG, -1, -1 },
      { GY_OP_POOL_AVG_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(2, 7, 7, 3, 4, 4, 3, 3, 3, 2, 1, 1, 1),
      { 1 },
      0 },
    { { GY_OP_LRN, -1, -1 },
      { GY_OP_LRN_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(2, 3, 3, 9, 3, 3, 9, 5, 1, 1, 0, 1, 1),
      { 2, 0.5f, 0.75f },
      0 },
    { { GY_OP_LRN, -1, -1 },
      { GY_OP_LRN_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(2, 3, 3, 9, 3, 3, 9, 4, 1, 1, 0, 1, 1),
      { 2, 0.5f, 0.75f },
      0 },
    { { GY_OP_DROPOUT, -1, -1 },
      { GY_OP_DROPOUT, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(2, 3, 3, 5, 3, 3, 5, 1, 1, 1, 0, 1, 1),
      { 0.4f },
      0 },
    { { GY_OP_SHORTCUT, -1, -1 },
      { GY_OP_SHORTCUT_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(2, 5, 5, 4, 3, 3, 8, 1, 1, 2, 0, 1, 1),
      { 0 },
      0 },
    { { GY_OP_CONCAT, -1, -1 },
      { GY_OP_CONCAT_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(2, 3, 3, 4, 3, 3, 9, 2, 1, 1, 0, 1, 1),
      { 0 },
      0 },
    { { GY_OP_SOFTMAX_CE, -1, -1 },
      { GY_OP_SOFTMAX_CE_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(4, 1, 1, 7, 1, 1, 7, 1, 1, 1, 0, 1, 1),
      { 0.1f },
      1 },
    { { GY_OP_MSE, -1, -1 },
      { GY_OP_MSE_BWD, -1 },
      { { GY_X, GY_DX }, GRAD_END },
      0,
      0,
      GRAD_GEOM(4, 1, 1, 7, 1, 1, 7, 1, 1, 1, 0, 1, 1),
      { 0 },
      1 },
};

/* Every activation: alone, after a sum, and after a batch norm with and without a residual. Batches
 * have all samples, or all but one. */
static void grad_activations(int act)
{
    const struct gy_geom g = GRAD_GEOM(3, 4, 3, 5, 4, 3, 5, 1, 1, 1, 0, 1, 1);
    if (act)
        grad_check(&(struct grad_chain){
            { GY_OP_ACT, -1, -1 }, { GY_OP_ACT_BWD, -1 }, { { GY_X, GY_DX }, GRAD_END }, 0, act, g, { 0 }, 0 });
    grad_check(&(struct grad_chain){ { GY_OP_ADD, -1, -1 },
                                     { GY_OP_ADD_BWD, -1 },
                                     { { GY_X, GY_DX }, { GY_RES, GY_DRES }, GRAD_END },
                                     0,
                                     act,
                                     g,
                                     { 0 },
                                     0 });
    for (int kind = 0; kind < 4; kind++) {
        const int res = kind % 2;
        const struct grad_chain norm = {
            { GY_OP_BN_STATS, GY_OP_BN_FINISH, GY_OP_BN_APPLY },
            { GY_OP_BN_SUMS, GY_OP_BN_BWD },
            { { GY_X, GY_DX }, { GY_GAMMA, GY_DGAMMA }, { GY_BETA, GY_DBETA }, { res ? GY_RES : -1, GY_DRES } },
            OP_BIT(GY_RES_SCALE) | OP_BIT(GY_RES_SHIFT) | (res ? 0 : OP_BIT(GY_RES) | OP_BIT(GY_DRES)),
            act,
            g,
            { 1e-5f, 0.1f },
            0 };
        grad_check_absent(&norm, kind / 2);
    }
}

static void op_gradients(void)
{
    const int before = t_passed;
    for (size_t i = 0; i < GY_COUNT(grad_chains); i++)
        grad_check(&grad_chains[i]);
    for (int act = 0; act < GY_ACTS; act++)
        grad_activations(act);
    printf("gradients: %d checks held\n", t_passed - before);
}

#endif
