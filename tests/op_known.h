/* SPDX-License-Identifier: MIT */
/* op_known.h: the truth itself against PyTorch: forward ops and updates on inputs that both compute
 * by one formula (tests/peer/op_values.py). Backward ops are held by central differences
 * (op_gradient.h). */
#ifndef GY_OP_KNOWN_H
#define GY_OP_KNOWN_H
#include "tests/op_check.h"
#include "tests/op_known_values.h"

#define KNOWN_MAX 256

/* Tensors of one op by role, filled on demand. */
struct known {
    double at[GY_ROLES][KNOWN_MAX];
    int32_t label[8], arg[64];
    struct gy_mix mix[8];
    struct gy_uniform u;
    struct gy_span span;
    struct gy_op op;
};

static void known_open(struct known *k, int code, const struct gy_geom *g)
{
    memset(k, 0, sizeof *k);
    k->op = gy_op_make(code, "known", g);
    k->op.u = &k->u;
    k->u = (struct gy_uniform){ .lr = 0.1f, .grad_scale = 1, .loss_scale = 1 };
}

/* Role holds scale * sin(0.7 i + 1.3 number) + plus. */
static void known_fill(struct known *k, int role, int number, double scale, double plus)
{
    for (int i = 0; i < KNOWN_MAX; i++)
        k->at[role][i] = scale * sin(0.7 * i + 1.3 * number) + plus;
    k->op.ptr[role] = k->at[role];
}

static void known_output(struct known *k, int role) { k->op.ptr[role] = k->at[role]; }
static void known_go(struct known *k) { op_truth_table()[k->op.code](&k->op); }

static void known_same(const char *name, const double *got, const double *want, size_t count)
{
    size_t i = 0;
    while (i < count && fabs(got[i] - want[i]) <= 1e-9 * (1 + fabs(want[i])))
        i++;
    T_CHECK_MSG(i == count, "%s[%zu] is %.12g, PyTorch has %.12g", name, i, got[i < count ? i : 0],
                want[i < count ? i : 0]);
}
#define KNOWN_SAME(k, role, name) known_same(#name, (k)->at[role], torch_##name, GY_COUNT(torch_##name))

static struct gy_geom known_flat(int n, int h, int w, int c)
{
    return (struct gy_geom){ .n = n,
                             .h = h,
                             .w = w,
                             .c = c,
                             .p = h,
                             .q = w,
                             .k = c,
                             .r = 1,
                             .s = 1,
                             .stride_h = 1,
                             .stride_w = 1,
                             .dil_h = 1,
                             .dil_w = 1,
                             .groups = 1 };
}

static void known_conv(struct known *k)
{
    const struct gy_geom g = { .n = 1,
                               .h = 5,
                               .w = 6,
                               .c = 4,
                               .p = 3,
                               .q = 6,
                               .k = 4,
                               .r = 3,
                               .s = 3,
                               .stride_h = 2,
                               .stride_w = 1,
                               .pad_h = 1,
                               .pad_w = 2,
                               .dil_h = 1,
                               .dil_w = 2,
                               .groups = 2 };
    known_open(k, GY_OP_CONV, &g);
    known_fill(k, GY_X, 1, 1, 0);
    known_fill(k, GY_W, 2, 1, 0);
    known_fill(k, GY_BIAS, 3, 1, 0);
    known_output(k, GY_Y);
    known_go(k);
    KNOWN_SAME(k, GY_Y, conv);
}

/* Evaluation: fold and apply. Training: statistics, finish and apply. */
static void known_norm(struct known *k, int train)
{
    static const int roles[] = { GY_Y, GY_STATS, GY_SCALE, GY_SHIFT, GY_MEAN, GY_RSTD };
    const struct gy_geom g = known_flat(2, 2, 2, 3);
    known_open(k, GY_OP_BN_STATS, &g);
    known_fill(k, GY_X, 1, 1, 0);
    known_fill(k, GY_GAMMA, 2, 1, 0);
    known_fill(k, GY_BETA, 3, 1, 0);
    known_fill(k, GY_RUN_MEAN, 4, 1, 0);
    known_fill(k, GY_RUN_VAR, 5, 1, 2);
    for (size_t i = 0; i < GY_COUNT(roles); i++)
        known_output(k, roles[i]);
    k->op.f[0] = 1e-5f;
    k->op.f[1] = 0.1f;
    if (train)
        known_go(k);
    k->op.code = train ? GY_OP_BN_FINISH : GY_OP_BN_FOLD;
    known_go(k);
    k->op.code = GY_OP_BN_APPLY;
    known_go(k);
    if (train) {
        KNOWN_SAME(k, GY_Y, bn_train);
        KNOWN_SAME(k, GY_RUN_MEAN, bn_run_mean);
        KNOWN_SAME(k, GY_RUN_VAR, bn_run_var);
    } else {
        KNOWN_SAME(k, GY_Y, bn_eval);
    }
}

static void known_pool(struct known *k, int code, float inside)
{
    const struct gy_geom g = { .n = 1,
                               .h = 5,
                               .w = 5,
                               .c = 2,
                               .p = 3,
                               .q = 3,
                               .k = 2,
                               .r = 3,
                               .s = 3,
                               .stride_h = 2,
                               .stride_w = 2,
                               .pad_h = 1,
                               .pad_w = 1,
                               .dil_h = 1,
                               .dil_w = 1,
                               .groups = 1 };
    known_open(k, code, &g);
    known_fill(k, GY_X, 1, 1, 0);
    known_output(k, GY_Y);
    k->op.f[0] = inside;
    known_go(k);
}

static void known_act(struct known *k, int act)
{
    const struct gy_geom g = known_flat(1, 1, 1, 9);
    known_open(k, GY_OP_ACT, &g);
    known_fill(k, GY_X, 1, 5, 0);
    known_output(k, GY_Y);
    k->op.act = act;
    k->op.act_param = OP_ACT_PARAM;
    known_go(k);
}

static void known_lrn(struct known *k, int size)
{
    struct gy_geom g = known_flat(1, 2, 1, 7);
    g.r = size;
    known_open(k, GY_OP_LRN, &g);
    known_fill(k, GY_X, 1, 1, 0);
    known_output(k, GY_Y);
    k->op.f[0] = 2;
    k->op.f[1] = 0.5f;
    k->op.f[2] = 0.75f;
    known_go(k);
}

static void known_loss(struct known *k, int code, int mixed)
{
    static const int32_t label[] = { 4, 0, 2 };
    const struct gy_geom g = known_flat(3, 1, 1, 5);
    known_open(k, code, &g);
    known_fill(k, GY_X, 1, 3, 0);
    known_output(k, GY_Y);
    known_output(k, GY_LOSS);
    memcpy(k->label, label, sizeof label);
    for (int i = 0; i < 3; i++)
        k->mix[i] = (struct gy_mix){ .partner = (i + 1) % 3, .label = 0.6f };
    k->op.ptr[GY_LABEL] = k->label;
    k->op.ptr[GY_ARG] = k->arg;
    k->op.ptr[GY_MIX] = mixed ? k->mix : NULL;
    k->op.f[0] = 0.1f;
    known_go(k);
}

/* Three steps; each: of PyTorch's weights after every one of them, or NULL. */
static void known_update_each(struct known *k, int code, uint32_t flags, float clip, const double *each)
{
    static const float constants[] = { 0.9f, 0.01f, 0.9f, 0.95f, 1e-6f, 0.02f };
    const struct gy_geom g = known_flat(1, 1, 1, 1);
    known_open(k, code, &g);
    k->span = (struct gy_span){ .count = 6, .decay = 1, .rate = 1, .adapt = 1 };
    k->op.spans = &k->span;
    k->op.span_count = 1;
    k->op.flags = flags;
    memcpy(k->op.f, constants, sizeof constants);
    k->op.f[GY_C_CLIP] = clip;
    known_fill(k, GY_W, 1, 1, 0);
    known_output(k, GY_M);
    known_output(k, GY_V);
    known_output(k, GY_SUMS);
    for (int step = 1; step <= 3; step++) {
        known_fill(k, GY_DW, 1 + step, 1, 0);
        k->u.bias1 = (float)(1 - pow((double)constants[GY_C_BETA1], step));
        k->u.bias2 = (float)(1 - pow((double)constants[GY_C_BETA2], step));
        k->op.code = GY_OP_NORMS;
        known_go(k);
        k->op.code = code;
        known_go(k);
        for (int i = 0; each && i < 6; i++)
            T_CHECK_MSG(fabs(k->at[GY_W][i] - each[6 * (step - 1) + i]) < 1e-7, "op %d, flags %u, step %d: weight %d is %.9g, not %.9g",
                        code, flags, step, i, k->at[GY_W][i], each[6 * (step - 1) + i]);
    }
}

static void known_update(struct known *k, int code, uint32_t flags, float clip) { known_update_each(k, code, flags, clip, NULL); }

/* AdamW's bias corrections are floats in the uniform block. */
static void known_adamw(struct known *k)
{
    known_update(k, GY_OP_ADAMW, 0, 0);
    for (size_t i = 0; i < GY_COUNT(torch_adamw); i++)
        T_CHECK(fabs(k->at[GY_W][i] - torch_adamw[i]) < 1e-7);
}

static void op_known(void)
{
    static struct known k;
    const int before = t_passed;
    known_conv(&k);
    known_norm(&k, 0);
    known_norm(&k, 1);
    known_pool(&k, GY_OP_POOL_MAX, 0);
    KNOWN_SAME(&k, GY_Y, max_pool);
    known_pool(&k, GY_OP_POOL_AVG, 0);
    KNOWN_SAME(&k, GY_Y, avg_pool);
    known_pool(&k, GY_OP_POOL_AVG, 1);
    KNOWN_SAME(&k, GY_Y, avg_pool_inside);
    known_act(&k, GY_ACT_RELU);
    KNOWN_SAME(&k, GY_Y, relu);
    known_act(&k, GY_ACT_RELU6);
    KNOWN_SAME(&k, GY_Y, relu6);
    known_act(&k, GY_ACT_SIGMOID);
    KNOWN_SAME(&k, GY_Y, sigmoid);
    known_act(&k, GY_ACT_TANH);
    KNOWN_SAME(&k, GY_Y, tanh);
    known_act(&k, GY_ACT_LEAKY);
    KNOWN_SAME(&k, GY_Y, leaky);
    known_lrn(&k, 5);
    KNOWN_SAME(&k, GY_Y, lrn5);
    known_lrn(&k, 4);
    KNOWN_SAME(&k, GY_Y, lrn4);
    known_loss(&k, GY_OP_SOFTMAX_CE, 0);
    KNOWN_SAME(&k, GY_Y, softmax);
    KNOWN_SAME(&k, GY_LOSS, ce);
    known_loss(&k, GY_OP_SOFTMAX_CE, 1);
    KNOWN_SAME(&k, GY_LOSS, ce_mix);
    known_loss(&k, GY_OP_MSE, 0);
    KNOWN_SAME(&k, GY_LOSS, mse);
    known_loss(&k, GY_OP_MSE, 1);
    KNOWN_SAME(&k, GY_LOSS, mse_mix);
    known_update(&k, GY_OP_SGD, 0, 0);
    KNOWN_SAME(&k, GY_W, sgd);
    known_update(&k, GY_OP_SGD, GY_F_NESTEROV, 0);
    KNOWN_SAME(&k, GY_W, nesterov);
    known_update(&k, GY_OP_SGD, 0, 0.5f);
    KNOWN_SAME(&k, GY_W, sgd_clip);
    known_adamw(&k);
    known_update_each(&k, GY_OP_LARS, 0, 0, torch_lars);
    known_update_each(&k, GY_OP_LARS, GY_F_UNSCALED, 0, torch_lars_unscaled);
    known_update_each(&k, GY_OP_LARS, 0, 0.5f, torch_lars_clip);
    known_update_each(&k, GY_OP_LAMB, 0, 0, torch_lamb);
    known_update_each(&k, GY_OP_LAMB, 0, 0.5f, torch_lamb_clip);
    printf("known answers: %d checks held\n", t_passed - before);
}

#endif
