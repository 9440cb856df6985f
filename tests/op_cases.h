/* SPDX-License-Identifier: MIT */
/* op_cases.h: the table of cases, made from short lists: every op code, sizes around vector widths
 * and tile edges, every option, hostile values. */
#ifndef GY_OP_CASES_H
#define GY_OP_CASES_H
#include "tests/op_run.h"

#define OP_CASES_MAX 16384

struct op_cases {
    struct op_case list[OP_CASES_MAX];
    int count;
};

static void op_add_case(struct op_cases *all, const struct op_case *c)
{
    if (all->count == OP_CASES_MAX) {
        printf("more than %d cases\n", OP_CASES_MAX);
        exit(1);
    }
    all->list[all->count++] = *c;
}

/* n h w c k, filter r s, stride, pad, dilation, groups */
struct op_conv_shape {
    int n, h, w, c, k, r, s, stride, pad, dil, groups;
};

static const struct op_conv_shape op_conv_shapes[] = {
    { 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1 },      { 2, 5, 7, 3, 8, 3, 3, 1, 1, 1, 1 },
    { 2, 7, 5, 8, 3, 3, 3, 2, 1, 1, 1 },      { 1, 9, 9, 3, 16, 7, 7, 2, 3, 1, 1 },
    { 2, 8, 8, 16, 16, 3, 3, 1, 1, 1, 1 },    { 1, 7, 7, 17, 33, 3, 3, 1, 1, 1, 1 },
    { 3, 6, 6, 31, 15, 1, 1, 1, 0, 1, 1 },    { 2, 7, 7, 64, 64, 1, 1, 1, 0, 1, 1 },
    { 2, 7, 7, 64, 65, 3, 3, 1, 1, 1, 1 },    { 1, 14, 14, 32, 96, 1, 1, 2, 0, 1, 1 },
    { 1, 14, 14, 24, 48, 3, 3, 2, 1, 1, 1 },  { 1, 12, 11, 4, 7, 5, 5, 1, 2, 1, 1 },
    { 1, 23, 23, 3, 9, 11, 11, 4, 2, 1, 1 },  { 2, 9, 10, 6, 10, 3, 3, 3, 0, 1, 1 },
    { 1, 13, 13, 5, 6, 3, 3, 1, 2, 2, 1 },    { 1, 15, 15, 8, 8, 3, 3, 2, 2, 2, 1 },
    { 2, 8, 8, 8, 16, 3, 3, 1, 1, 1, 2 },     { 2, 8, 8, 16, 8, 3, 3, 2, 1, 1, 4 },
    { 2, 9, 9, 16, 16, 3, 3, 1, 1, 1, 16 },   { 1, 9, 9, 33, 33, 3, 3, 2, 1, 1, 33 },
    { 1, 7, 7, 6, 12, 3, 3, 1, 1, 1, 6 },     { 1, 1, 20, 7, 9, 1, 3, 1, 1, 1, 1 },
    { 1, 20, 1, 7, 9, 3, 1, 1, 1, 1, 1 },     { 1, 6, 6, 2, 5, 2, 2, 2, 0, 1, 1 },
    { 9, 8, 10, 72, 66, 3, 3, 1, 1, 1, 1 },   { 1, 6, 8, 80, 70, 3, 3, 1, 0, 1, 1 },
    { 1, 5, 6, 66, 64, 3, 3, 1, 2, 1, 1 },    { 8, 7, 7, 64, 80, 3, 3, 1, 1, 1, 1 },
    { 1, 4, 6, 520, 64, 3, 3, 1, 1, 1, 1 },   { 2, 13, 14, 40, 64, 3, 3, 1, 1, 1, 1 },
    { 3, 18, 18, 32, 36, 3, 3, 1, 1, 1, 1 },  { 2, 12, 16, 33, 130, 3, 3, 1, 2, 1, 1 },
    { 1, 4, 4, 128, 129, 3, 3, 1, 1, 1, 1 },  { 1, 3, 3, 130, 64, 3, 3, 1, 1, 1, 1 },
    { 5, 1, 1, 127, 63, 1, 1, 1, 0, 1, 1 },   { 33, 1, 1, 100, 10, 1, 1, 1, 0, 1, 1 },
    { 1, 1, 1, 600, 40, 1, 1, 1, 0, 1, 1 },   { 7, 1, 1, 1100, 33, 1, 1, 1, 0, 1, 1 },
    { 1, 5, 5, 520, 20, 1, 1, 1, 0, 1, 1 },   { 1, 28, 28, 1, 6, 5, 5, 1, 2, 1, 1 },
    { 2, 14, 14, 6, 16, 5, 5, 1, 0, 1, 1 },   { 1, 6, 6, 12, 20, 4, 4, 1, 2, 1, 1 },
    { 1, 5, 5, 9, 9, 3, 3, 1, 3, 1, 1 },      { 2, 30, 30, 3, 20, 7, 7, 2, 3, 1, 1 },
    { 4, 16, 16, 16, 32, 3, 3, 2, 1, 1, 1 },  { 1, 3, 3, 512, 64, 3, 3, 1, 1, 1, 1 },
    { 1, 2, 2, 70, 70, 3, 3, 1, 1, 1, 1 },    { 1, 56, 5, 64, 64, 1, 1, 1, 0, 1, 1 },
    { 1, 10, 10, 40, 40, 3, 3, 1, 1, 1, 5 },  { 1, 8, 8, 3, 64, 4, 4, 4, 0, 1, 1 },
    { 3, 11, 13, 32, 32, 3, 3, 1, 1, 1, 32 }, { 1, 9, 8, 9, 18, 3, 3, 2, 0, 2, 9 },
    { 2, 9, 9, 64, 64, 5, 5, 2, 2, 1, 64 },   { 4, 28, 28, 16, 16, 3, 3, 1, 1, 1, 1 },
    { 2, 56, 56, 3, 32, 7, 7, 2, 3, 1, 1 },   { 2, 40, 40, 64, 16, 1, 1, 1, 0, 1, 1 },
    { 2, 8, 8, 64, 72, 3, 3, 2, 1, 1, 1 },    { 1, 8, 10, 72, 64, 5, 5, 2, 2, 1, 1 },
    /* from here on: Winograd tiles span several images */
    { 2, 16, 17, 8, 64, 3, 3, 1, 1, 1, 1 },   { 7, 13, 13, 40, 36, 3, 3, 1, 1, 1, 1 },
    { 15, 6, 6, 33, 64, 3, 3, 1, 1, 1, 1 },   { 4, 7, 6, 32, 40, 3, 3, 1, 2, 1, 1 },
    { 12, 9, 7, 32, 32, 3, 3, 1, 0, 1, 1 },   { 2, 14, 14, 256, 40, 3, 3, 1, 1, 1, 1 },
    { 3, 14, 13, 34, 257, 3, 3, 1, 1, 1, 1 }, { 1, 7, 17, 140, 33, 3, 3, 1, 0, 1, 1 },
    { 2, 7, 7, 512, 36, 3, 3, 1, 1, 1, 1 },   { 5, 14, 13, 34, 513, 3, 3, 1, 1, 1, 1 }, /* seven */
    { 1, 9, 8, 600, 33, 3, 3, 1, 0, 1, 1 },
    { 2, 9, 10, 32, 40, 5, 5, 1, 2, 1, 1 },   { 1, 13, 11, 33, 65, 5, 5, 1, 1, 1, 1 }, /* of 5x5 */
    { 3, 12, 9, 64, 32, 5, 5, 1, 0, 1, 1 },   { 6, 7, 6, 40, 36, 5, 5, 1, 2, 1, 1 },
    { 1, 4, 4, 130, 32, 5, 5, 1, 2, 1, 1 },   { 1, 19, 17, 48, 70, 5, 5, 1, 2, 1, 1 },
    { 1, 9, 9, 64, 64, 5, 5, 1, 2, 1, 2 },    { 5, 15, 14, 33, 36, 5, 5, 1, 2, 1, 1 },
    /* stride two */
    { 2, 28, 27, 128, 40, 3, 3, 2, 1, 1, 1 }, { 3, 27, 28, 34, 130, 3, 3, 2, 1, 1, 1 },
    { 2, 30, 29, 3, 64, 7, 7, 2, 3, 1, 1 }, /* output channels in vectors */
    /* stride two in phases */
    { 2, 57, 63, 3, 70, 7, 7, 2, 3, 1, 1 },   { 1, 33, 300, 4, 36, 7, 7, 2, 3, 1, 1 }, { 5, 33, 31, 1, 64, 7, 7, 2, 3, 1, 1 },
};

static struct gy_geom op_conv_geom(const struct op_conv_shape *x)
{
    const int reach_h = x->dil * (x->r - 1) + 1, reach_w = x->dil * (x->s - 1) + 1;
    const int pad_h = x->r == 1 ? 0 : x->pad, pad_w = x->s == 1 ? 0 : x->pad;
    return (struct gy_geom){ .n = x->n,
                             .h = x->h,
                             .w = x->w,
                             .c = x->c,
                             .p = (x->h + 2 * pad_h - reach_h) / x->stride + 1,
                             .q = (x->w + 2 * pad_w - reach_w) / x->stride + 1,
                             .k = x->k,
                             .r = x->r,
                             .s = x->s,
                             .stride_h = x->stride,
                             .stride_w = x->stride,
                             .pad_h = pad_h,
                             .pad_w = pad_w,
                             .dil_h = x->dil,
                             .dil_w = x->dil,
                             .groups = x->groups };
}

/* The two directions differ in stride, padding and dilation. */
static struct gy_geom op_conv_skew(int c, int k, int groups)
{
    return (struct gy_geom){ .n = 2,
                             .h = 11,
                             .w = 14,
                             .c = c,
                             .p = 9,
                             .q = 7,
                             .k = k,
                             .r = 3,
                             .s = 5,
                             .stride_h = 1,
                             .stride_w = 2,
                             .pad_h = 1,
                             .pad_w = 1,
                             .dil_h = 2,
                             .dil_w = 1,
                             .groups = groups };
}

#define OP_CONV_PLAIN (OP_BIT(GY_BIAS) | OP_BIT(GY_SCALE) | OP_BIT(GY_SHIFT) | OP_BIT(GY_RES) | OP_BIT(GY_STATS))

static void op_add_convs_of(struct op_cases *all, const struct gy_geom *g, int values)
{
    struct op_case c = { .code = GY_OP_CONV, .geom = *g, .values = values, .without = OP_CONV_PLAIN };
    op_add_case(all, &c);
    c.without = OP_CONV_PLAIN & ~(OP_BIT(GY_BIAS));
    c.act = GY_ACT_RELU;
    op_add_case(all, &c);
    c.without = OP_CONV_PLAIN & ~(OP_BIT(GY_STATS));
    c.act = GY_ACT_NONE;
    op_add_case(all, &c);
    c.without = OP_BIT(GY_STATS);
    c.act = GY_ACT_RELU6;
    op_add_case(all, &c);
    c = (struct op_case){ .code = GY_OP_CONV_DGRAD, .geom = *g, .values = values };
    op_add_case(all, &c);
    c.flags = GY_F_ADD_DX;
    op_add_case(all, &c);
    c = (struct op_case){ .code = GY_OP_CONV_WGRAD, .geom = *g, .values = values };
    op_add_case(all, &c);
    c.accumulate = 1;
    c.without = OP_BIT(GY_DBIAS);
    op_add_case(all, &c);
}

/* Shapes with so many tiles that Winograd cuts them into several blocks and transforms the filters
 * once for all. With statistics a block of the first has whole images; the second has 5x5
 * filters. */
static const struct op_conv_shape op_block_shapes[] = { { 14, 15, 14, 33, 32, 3, 3, 1, 1, 1, 1 }, { 8, 16, 16, 33, 32, 5, 5, 1, 2, 1, 1 } };

static void op_add_blocks(struct op_cases *all)
{
    for (size_t i = 0; i < GY_COUNT(op_block_shapes); i++) {
        const struct gy_geom g = op_conv_geom(&op_block_shapes[i]);
        struct op_case c = { .code = GY_OP_CONV, .geom = g, .without = OP_CONV_PLAIN & ~(OP_BIT(GY_STATS)) };
        op_add_case(all, &c);
        c.without = OP_BIT(GY_STATS);
        c.act = GY_ACT_RELU6;
        op_add_case(all, &c);
        c = (struct op_case){ .code = GY_OP_CONV_DGRAD, .geom = g };
        op_add_case(all, &c);
        c.flags = GY_F_ADD_DX;
        op_add_case(all, &c);
    }
}

/* Channels through every vector width and its neighbours. */
static void op_add_conv_widths(struct op_cases *all)
{
    static const int width[] = { 1,  2,  3,  4,  5,  7,  8,  9,  15, 16,  17,  31,
                                 32, 33, 47, 48, 49, 63, 64, 65, 96, 127, 128, 129 };
    for (size_t i = 0; i < GY_COUNT(width); i++) {
        const struct op_conv_shape by_k = { 1, 5, 5, 11, width[i], 3, 3, 1, 1, 1, 1 },
                                   by_c = { 1, 4, 5, width[i], 13, 3, 3, 1, 1, 1, 1 };
        const struct op_conv_shape pixels = { 1, 1, width[i], 16, 16, 1, 1, 1, 0, 1, 1 };
        const struct gy_geom a = op_conv_geom(&by_k), b = op_conv_geom(&by_c), c = op_conv_geom(&pixels);
        op_add_convs_of(all, &a, OP_NORMAL);
        op_add_convs_of(all, &b, OP_NORMAL);
        op_add_convs_of(all, &c, OP_NORMAL);
    }
}

static struct gy_geom op_flat_geom(int n, int h, int w, int c)
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

static void op_add_flags(struct op_cases *all, struct op_case c)
{
    op_add_case(all, &c);
    c.flags |= GY_F_ADD_DX | GY_F_ADD_DRES;
    op_add_case(all, &c);
}

#define OP_RES_OWN (OP_BIT(GY_RES_SCALE) | OP_BIT(GY_RES_SHIFT))
#define OP_BN_MADE (OP_BIT(GY_SCALE) | OP_BIT(GY_SHIFT) | OP_BIT(GY_RES) | OP_RES_OWN | OP_BIT(GY_AGAIN))

/* Batch norm backward: the mask from Y, or made from X. */
static void op_add_bn_back(struct op_cases *all, const struct gy_geom *g, int act, int values)
{
    const uint64_t no_y = act ? 0 : OP_BIT(GY_Y), no_dres = OP_BIT(GY_DRES);
    const struct op_case back = { .code = GY_OP_BN_BWD, .geom = *g, .act = act, .values = values },
                         sums = { .code = GY_OP_BN_SUMS, .geom = *g, .act = act, .values = values };
    const int made = act != GY_ACT_NONE && !gy_act_is_curve(act);
    for (int from_x = 0; from_x <= 2 * made; from_x++) {
        struct op_case c = back;
        c.without = from_x == 2 ? OP_BIT(GY_Y) : from_x ? OP_BIT(GY_Y) | OP_BIT(GY_RES) : no_y | OP_BN_MADE;
        op_add_flags(all, c);
        c.without |= no_dres;
        op_add_flags(all, c);
    }
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        struct op_case c = sums;
        c.accumulate = accumulate;
        c.without = no_y | OP_BN_MADE | (accumulate ? no_dres : 0);
        op_add_case(all, &c);
        for (int kind = act == GY_ACT_NONE ? 3 : 0; kind < 6 && (made || act == GY_ACT_NONE); kind++) {
            c.without = OP_BIT(GY_Y) | (kind < 3 ? OP_BIT(GY_AGAIN) : 0);
            c.without |= (kind % 3 > 0 ? 0 : OP_BIT(GY_RES)) | (kind % 3 > 1 ? 0 : OP_RES_OWN);
            c.without |= (kind + accumulate) % 2 ? no_dres : 0;
            op_add_case(all, &c);
        }
    }
}

/* Batch norm of a batch whose last samples are not there. */
static void op_add_absent(struct op_cases *all, const struct gy_geom *g, int absent)
{
    const uint64_t alone = OP_BIT(GY_Y) | OP_BN_MADE;
    op_add_case(all, &(struct op_case){ .code = GY_OP_BN_STATS, .geom = *g, .absent = absent, .flags = GY_F_PARTIAL });
    op_add_case(all, &(struct op_case){ .code = GY_OP_BN_STATS, .geom = *g, .absent = absent });
    op_add_case(all, &(struct op_case){ .code = GY_OP_BN_FINISH, .geom = *g, .absent = absent, .f = { 1e-5f, 0.1f } });
    op_add_case(all, &(struct op_case){ .code = GY_OP_BN_SUMS, .geom = *g, .absent = absent, .without = alone | OP_BIT(GY_DRES) });
    for (int act = GY_ACT_NONE; act <= GY_ACT_RELU; act++) {
        struct op_case back = { .code = GY_OP_BN_BWD, .geom = *g, .act = act, .absent = absent,
                                .without = act ? OP_BN_MADE : alone };
        op_add_flags(all, back);
        back.without |= OP_BIT(GY_DRES);
        op_add_flags(all, back);
    }
}

/* Batch norm and element-wise ops on one shape. */
static void op_add_flat(struct op_cases *all, const struct gy_geom *g, int values)
{
    struct op_case c = { .code = GY_OP_BN_STATS, .geom = *g, .values = values };
    op_add_case(all, &c);
    c = (struct op_case){ .code = GY_OP_BN_FINISH, .geom = *g, .values = values, .f = { 1e-5f, 0.1f } };
    op_add_case(all, &c);
    c = (struct op_case){ .code = GY_OP_BN_FOLD, .geom = *g, .values = values, .f = { 1e-5f } };
    op_add_case(all, &c);
    c.without = OP_BIT(GY_BIAS);
    op_add_case(all, &c);
    for (int act = 0; act < GY_ACTS; act++) {
        const uint64_t no_y = act ? 0 : OP_BIT(GY_Y);
        op_add_case(all, &(struct op_case){ .code = GY_OP_BN_APPLY, .geom = *g, .act = act, .values = values });
        op_add_case(all,
                    &(struct op_case){ .code = GY_OP_BN_APPLY, .geom = *g, .act = act, .values = values, .without = OP_RES_OWN });
        op_add_case(all, &(struct op_case){ .code = GY_OP_BN_APPLY,
                                            .geom = *g,
                                            .act = act,
                                            .values = values,
                                            .without = OP_BIT(GY_RES) | OP_RES_OWN });
        op_add_case(all, &(struct op_case){ .code = GY_OP_ADD, .geom = *g, .act = act, .values = values });
        op_add_flags(
            all, (struct op_case){ .code = GY_OP_ADD_BWD, .geom = *g, .act = act, .values = values, .without = no_y });
        op_add_flags(
            all,
            (struct op_case){
                .code = GY_OP_ADD_BWD, .geom = *g, .act = act, .values = values, .without = no_y | OP_BIT(GY_DRES) });
        op_add_bn_back(all, g, act, values);
        if (act == GY_ACT_NONE)
            continue;
        op_add_case(all, &(struct op_case){ .code = GY_OP_ACT, .geom = *g, .act = act, .values = values });
        op_add_flags(all, (struct op_case){ .code = GY_OP_ACT_BWD, .geom = *g, .act = act, .values = values });
    }
    op_add_case(all, &(struct op_case){ .code = GY_OP_DROPOUT, .geom = *g, .f = { 0.3f }, .values = values });
    for (int size = 3; size <= 5; size++) {
        op_add_flags(all,
                     (struct op_case){ .code = GY_OP_LRN_BWD, .geom = *g, .f = { 2, 0.5f, 0.75f }, .values = values });
        op_add_case(all, &(struct op_case){ .code = GY_OP_LRN, .geom = *g, .f = { 2, 0.5f, 0.75f }, .values = values });
        for (int i = 1; i <= 3; i++)
            all->list[all->count - i].geom.r = size;
    }
}

/* Forward ops and the gradients of convolution with NaN inputs. NaN must persist, and reach only
 * the outputs that depend on them. */
static void op_add_nans(struct op_cases *all)
{
    static const int flat[] = { GY_OP_BN_APPLY, GY_OP_ACT, GY_OP_ADD };
    const struct gy_geom g = op_flat_geom(3, 3, 5, 18), few = op_flat_geom(2, 3, 3, 3), row = op_flat_geom(9, 1, 1, 10);
    for (size_t i = 0; i < GY_COUNT(flat); i++)
        for (int act = flat[i] == GY_OP_ACT; act < GY_ACTS; act++)
            op_add_case(all, &(struct op_case){ .code = flat[i], .geom = g, .act = act, .values = OP_NAN });
    op_add_case(all, &(struct op_case){ .code = GY_OP_BN_STATS, .geom = g, .values = OP_NAN });
    op_add_case(all, &(struct op_case){ .code = GY_OP_DROPOUT, .geom = g, .f = { 0.3f }, .values = OP_NAN });
    op_add_case(
        all, &(struct op_case){ .code = GY_OP_INPUT, .geom = few, .f = { 0, 0, 0, 0, 1, 1, 1, 1 }, .values = OP_NAN });
    for (int less = 0; less < 4; less++) /* samples without a label */
        op_add_case(all, &(struct op_case){ .code = GY_OP_SOFTMAX_CE, .geom = row, .values = OP_NAN, .valid_less = less });
    for (int less = 0; less < 4; less++) /* samples without a label */
        op_add_case(all, &(struct op_case){ .code = GY_OP_MSE, .geom = row, .values = OP_NAN, .valid_less = less });
    for (size_t i = 0; i < GY_COUNT(op_conv_shapes); i += 3) {
        const struct gy_geom conv = op_conv_geom(&op_conv_shapes[i]);
        op_add_convs_of(all, &conv, OP_NAN);
    }
}

static void op_add_flats(struct op_cases *all)
{
    static const int shape[][4] = { { 1, 1, 1, 1 },  { 2, 3, 5, 7 },    { 1, 4, 4, 8 },    { 3, 5, 5, 16 },
                                    { 2, 7, 7, 17 }, { 1, 9, 9, 33 },   { 4, 8, 8, 64 },   { 1, 2, 2, 129 },
                                    { 9, 1, 1, 65 }, { 2, 20, 20, 31 }, { 1, 40, 40, 15 }, { 2, 33, 33, 31 } };
    for (size_t i = 0; i < GY_COUNT(shape); i++) {
        const struct gy_geom g = op_flat_geom(shape[i][0], shape[i][1], shape[i][2], shape[i][3]);
        op_add_flat(all, &g, OP_NORMAL);
        for (int absent = 1; absent < shape[i][0]; absent += 2)
            op_add_absent(all, &g, absent);
    }
    for (int values = OP_EQUAL; values < OP_VALUES; values++) {
        const struct gy_geom g = op_flat_geom(2, 3, 3, 18);
        op_add_flat(all, &g, values);
    }
}

static void op_add_pools(struct op_cases *all)
{
    static const struct op_conv_shape shape[] = {
        { 2, 8, 8, 16, 16, 2, 2, 2, 0, 1, 1 }, { 1, 9, 7, 5, 5, 3, 3, 2, 1, 1, 1 },
        { 2, 7, 7, 33, 33, 3, 3, 1, 1, 1, 1 }, { 1, 6, 6, 3, 3, 6, 6, 6, 0, 1, 1 },
        { 1, 13, 13, 8, 8, 3, 3, 2, 0, 1, 1 }, { 3, 5, 5, 17, 17, 5, 5, 1, 2, 1, 1 },
        { 1, 7, 7, 64, 64, 7, 7, 7, 0, 1, 1 }, { 1, 10, 10, 1, 1, 2, 2, 3, 0, 1, 1 },
        { 1, 9, 8, 72, 72, 3, 3, 2, 1, 1, 1 }
    };
    static const int kinds[] = { OP_NORMAL, OP_EQUAL, OP_HUGE, OP_ZEROS, OP_NAN };
    for (size_t i = 0; i < GY_COUNT(shape); i++)
        for (size_t kind = 0; kind < GY_COUNT(kinds); kind++) {
            const struct gy_geom g = op_conv_geom(&shape[i]);
            const int values = kinds[kind];
            op_add_case(all, &(struct op_case){ .code = GY_OP_POOL_MAX, .geom = g, .values = values });
            op_add_flags(all, (struct op_case){ .code = GY_OP_POOL_MAX_BWD, .geom = g, .values = values });
            for (int inside = 0; inside < 2; inside++) {
                op_add_case(all, &(struct op_case){
                                     .code = GY_OP_POOL_AVG, .geom = g, .values = values, .f = { (float)inside } });
                op_add_flags(all,
                             (struct op_case){
                                 .code = GY_OP_POOL_AVG_BWD, .geom = g, .values = values, .f = { (float)inside } });
            }
        }
}

/* Channels that move: concat of c channels to place r of k; shortcut from c to k channels. */
static void op_add_moves(struct op_cases *all)
{
    static const int part[][3] = { { 3, 0, 8 }, { 5, 3, 8 }, { 16, 16, 48 }, { 1, 6, 7 }, { 33, 2, 40 } };
    for (size_t i = 0; i < GY_COUNT(part); i++) {
        struct gy_geom g = op_flat_geom(2, 5, 3, part[i][0]);
        g.r = part[i][1];
        g.k = part[i][2];
        op_add_flags(all, (struct op_case){ .code = GY_OP_CONCAT_BWD, .geom = g });
        op_add_case(all, &(struct op_case){ .code = GY_OP_CONCAT, .geom = g });
    }
    static const int sides[][4] = { { 16, 32, 8, 2 }, { 3, 7, 5, 2 }, { 8, 8, 6, 1 }, { 2, 64, 7, 3 } };
    for (size_t i = 0; i < GY_COUNT(sides); i++) {
        struct gy_geom g = op_flat_geom(2, sides[i][2], sides[i][2], sides[i][0]);
        g.k = sides[i][1];
        g.stride_h = g.stride_w = sides[i][3];
        g.p = g.q = (sides[i][2] - 1) / sides[i][3] + 1;
        op_add_case(all, &(struct op_case){ .code = GY_OP_SHORTCUT, .geom = g });
        op_add_flags(all, (struct op_case){ .code = GY_OP_SHORTCUT_BWD, .geom = g });
    }
}

static void op_add_losses(struct op_cases *all)
{
    static const int shape[][2] = { { 1, 2 }, { 3, 10 }, { 17, 5 }, { 8, 1000 }, { 5, 33 } };
    for (size_t i = 0; i < GY_COUNT(shape); i++)
        for (int option = 0; option < 8; option++) {
            const struct gy_geom g = op_flat_geom(shape[i][0], 1, 1, shape[i][1]);
            const uint64_t without = option & 1 ? OP_BIT(GY_MIX) : 0, target = without | (option & 2 ? OP_BIT(GY_TARGET) : 0);
            const float smooth = option & 2 ? 0.1f : 0.0f;
            const int less = option & 4 && shape[i][0] > 1, values = option == 5 ? OP_HUGE : OP_NORMAL;
            op_add_case(all, &(struct op_case){ .code = GY_OP_SOFTMAX_CE,
                                                .geom = g,
                                                .f = { smooth },
                                                .without = without,
                                                .valid_less = less,
                                                .values = values });
            op_add_flags(
                all,
                (struct op_case){
                    .code = GY_OP_SOFTMAX_CE_BWD, .geom = g, .f = { smooth }, .without = without, .valid_less = less });
            op_add_case(all, &(struct op_case){ .code = GY_OP_MSE, .geom = g, .without = target, .valid_less = less });
            op_add_flags(all,
                         (struct op_case){ .code = GY_OP_MSE_BWD, .geom = g, .without = target, .valid_less = less });
        }
}

static void op_add_inputs(struct op_cases *all)
{
    for (int c = 1; c <= 4; c++)
        for (int option = 0; option < 4; option++) {
            const struct gy_geom g = op_flat_geom(3, 7, 9, c);
            op_add_case(all, &(struct op_case){ .code = GY_OP_INPUT,
                                                .geom = g,
                                                .flags = option & 1 ? GY_F_U8 : 0,
                                                .without = option & 2 ? 0 : OP_BIT(GY_MIX),
                                                .f = { 0.5f, 0.4f, 0.3f, 0.2f, 2, 3, 4, 5 } });
        }
}

static void op_add_updates(struct op_cases *all)
{
    static const struct { int code; uint32_t flags; } rules[] = {
        { GY_OP_SGD, 0 }, { GY_OP_LARS, 0 }, { GY_OP_ADAMW, 0 }, { GY_OP_LAMB, 0 }, { GY_OP_LARS, GY_F_UNSCALED },
    };
    static const int sizes[][2] = { { 1, 48 }, { 3, 48 }, { 5, 48 }, { 3, 16400 } };
    for (size_t size = 0; size < GY_COUNT(sizes); size++) {
        const struct gy_geom g = op_flat_geom(1, 1, 1, 1);
        const int spans = sizes[size][0], room = sizes[size][1];
        op_add_case(all, &(struct op_case){ .code = GY_OP_NORMS, .geom = g, .spans = spans, .span_room = room });
        for (size_t rule = 0; rule < GY_COUNT(rules); rule++)
            for (int option = 0; option < 8; option++) {
                const int clip = option & 4, ratio = rules[rule].code == GY_OP_LARS || rules[rule].code == GY_OP_LAMB;
                op_add_case(all,
                            &(struct op_case){
                                .code = rules[rule].code,
                                .geom = g,
                                .spans = spans,
                                .span_room = room,
                                .flags = rules[rule].flags | (option & 1 ? GY_F_NESTEROV : 0),
                                .without = (option & 2 ? 0 : OP_BIT(GY_EMA)) | (clip || ratio ? 0 : OP_BIT(GY_SUMS)),
                                .f = { 0.9f, 0.01f, 0.8f, 0.95f, 1e-6f, 0.02f, clip ? 0.5f : 0.0f } });
            }
    }
}

/* Layers of real nets, for speed: the stem, four stages and classifier of ResNet, and layers of
 * CIFAR's ResNet and of a depthwise net. */
static void op_bench_make(struct op_cases *all)
{
    static const struct op_conv_shape convs[] = {
        { 8, 224, 224, 3, 64, 7, 7, 2, 3, 1, 1 },    { 8, 56, 56, 64, 64, 3, 3, 1, 1, 1, 1 },
        { 8, 56, 56, 64, 256, 1, 1, 1, 0, 1, 1 },    { 8, 28, 28, 128, 128, 3, 3, 1, 1, 1, 1 },
        { 8, 14, 14, 256, 256, 3, 3, 1, 1, 1, 1 },   { 8, 7, 7, 512, 512, 3, 3, 1, 1, 1, 1 },
        { 64, 32, 32, 16, 16, 3, 3, 1, 1, 1, 1 },    { 64, 8, 8, 64, 64, 3, 3, 1, 1, 1, 1 },
        { 8, 28, 28, 128, 128, 3, 3, 1, 1, 1, 128 }, { 64, 1, 1, 2048, 1000, 1, 1, 1, 0, 1, 1 }
    };
    static const struct op_conv_shape pool = { 8, 112, 112, 64, 64, 3, 3, 2, 1, 1, 1 };
    const struct gy_geom flat = op_flat_geom(8, 56, 56, 64), big = op_conv_geom(&pool);
    for (size_t i = 0; i < GY_COUNT(convs); i++) {
        const struct gy_geom g = op_conv_geom(&convs[i]);
        op_add_case(all, &(struct op_case){ .code = GY_OP_CONV, .geom = g, .without = OP_CONV_PLAIN });
        op_add_case(all, &(struct op_case){ .code = GY_OP_CONV_DGRAD, .geom = g });
        op_add_case(all, &(struct op_case){ .code = GY_OP_CONV_WGRAD, .geom = g, .without = OP_BIT(GY_DBIAS) });
    }
    op_add_flat(all, &flat, OP_NORMAL);
    op_add_case(all, &(struct op_case){ .code = GY_OP_POOL_MAX, .geom = big });
    op_add_case(all, &(struct op_case){ .code = GY_OP_POOL_MAX_BWD, .geom = big });
    for (int code = GY_OP_NORMS; code <= GY_OP_LAMB; code++)
        op_add_case(all, &(struct op_case){ .code = code,
                                            .geom = op_flat_geom(1, 1, 1, 1),
                                            .spans = 3,
                                            .span_room = 1600000,
                                            .without = OP_BIT(GY_EMA),
                                            .f = { 0.9f, 0.01f, 0.8f, 0.95f, 1e-6f, 0.02f } });
}

/* All cases of the test. */
static void op_cases_make(struct op_cases *all)
{
    for (size_t i = 0; i < GY_COUNT(op_conv_shapes); i++) {
        const struct gy_geom g = op_conv_geom(&op_conv_shapes[i]);
        op_add_convs_of(all, &g, OP_NORMAL);
    }
    static const struct op_conv_shape hostile[] = { { 1, 7, 7, 17, 33, 3, 3, 1, 1, 1, 1 },
                                                    { 2, 9, 9, 16, 16, 3, 3, 1, 1, 1, 16 },
                                                    { 1, 9, 9, 3, 16, 7, 7, 2, 3, 1, 1 },
                                                    { 5, 1, 1, 127, 63, 1, 1, 1, 0, 1, 1 } };
    for (size_t i = 0; i < GY_COUNT(hostile); i++)
        for (int values = OP_EQUAL; values < OP_VALUES; values++) {
            const struct gy_geom g = op_conv_geom(&hostile[i]);
            op_add_convs_of(all, &g, values);
        }
    static const int skew[][3] = { { 5, 7, 1 }, { 16, 32, 1 }, { 8, 8, 2 }, { 18, 18, 18 } };
    for (size_t i = 0; i < GY_COUNT(skew); i++) {
        const struct gy_geom g = op_conv_skew(skew[i][0], skew[i][1], skew[i][2]);
        op_add_convs_of(all, &g, OP_NORMAL);
    }
    op_add_conv_widths(all);
    op_add_flats(all);
    op_add_nans(all);
    op_add_pools(all);
    op_add_moves(all);
    op_add_losses(all);
    op_add_inputs(all);
    op_add_updates(all);
}

#endif
