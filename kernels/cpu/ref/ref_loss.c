/* SPDX-License-Identifier: MIT */
/* ref_loss.c: losses by sample. Softmax first subtracts the largest score; sums are in double. */
#include "kernels/cpu/ref/ref.h"

/* How many classes score higher than the label; among equals the lower class number is higher.
 * Every class is higher than a score that is not a number. */
static int32_t ref_loss_rank(const GY_REAL *x, int32_t classes, int32_t label)
{
    int32_t rank = 0;
    for (int32_t c = 0; c < classes; c++)
        rank += c != label && !(x[c] < x[label]) && !(x[c] == x[label] && c > label);
    return rank;
}

/* What is wanted of class c of sample n alone: its target, or its label. */
static double ref_loss_wanted(const struct gy_op *op, int64_t n, int32_t c)
{
    const GY_REAL *target = op->ptr[GY_TARGET];
    return target ? (double)target[n * op->geom.c + c] : c == ((const int32_t *)op->ptr[GY_LABEL])[n];
}

/* The same mixed with the partner's, which must have a label. */
static double ref_loss_mixed(const struct gy_op *op, int64_t n, int32_t c)
{
    const struct gy_mix *mix = op->ptr[GY_MIX];
    const int32_t *label = op->ptr[GY_LABEL];
    const int64_t partner = mix && label[mix[n].partner] >= 0 ? mix[n].partner : n;
    if (partner == n)
        return ref_loss_wanted(op, n, c);
    const double own = (double)mix[n].label;
    return own * ref_loss_wanted(op, n, c) + (1 - own) * ref_loss_wanted(op, partner, c);
}

/* What a class adds to a loss without a label: 0, or no number if its score is not finite. */
static double ref_loss_absent(GY_REAL score) { return 0 * (double)score; }

/* Smoothed. */
static double ref_loss_target(const struct gy_op *op, int64_t n, int32_t c)
{
    const double smooth = (double)op->f[0];
    return ref_loss_mixed(op, n, c) * (1 - smooth) + smooth / op->geom.c;
}

GY_INT void GY_REF(softmax_ce)(const struct gy_op *op)
{
    const int32_t classes = op->geom.c, *label = op->ptr[GY_LABEL];
    int32_t *rank = op->ptr[GY_ARG];
    GY_REAL *loss = op->ptr[GY_LOSS];
    for (int64_t n = 0; n < op->geom.n; n++) {
        const GY_REAL *x = (const GY_REAL *)op->ptr[GY_X] + n * classes;
        GY_REAL *y = (GY_REAL *)op->ptr[GY_Y] + n * classes;
        double largest = (double)x[0], sum = 0, total = 0;
        for (int32_t c = 0; c < classes; c++)
            largest = (double)x[c] > largest ? (double)x[c] : largest;
        for (int32_t c = 0; c < classes; c++)
            sum += exp((double)x[c] - largest);
        rank[n] = label[n] < 0 ? -1 : ref_loss_rank(x, classes, label[n]);
        for (int32_t c = 0; c < classes; c++)
            total += label[n] < 0 ? ref_loss_absent(x[c]) : ref_loss_target(op, n, c) * (log(sum) + largest - (double)x[c]);
        for (int32_t c = 0; c < classes; c++)
            y[c] = (GY_REAL)(exp((double)x[c] - largest) / sum);
        loss[n] = (GY_REAL)total;
    }
}

GY_INT void GY_REF(softmax_ce_bwd)(const struct gy_op *op)
{
    const int32_t classes = op->geom.c, *label = op->ptr[GY_LABEL];
    const double scale = (double)op->u->loss_scale / (double)op->geom.n;
    for (int64_t n = 0; n < op->geom.n; n++) {
        const GY_REAL *y = (const GY_REAL *)op->ptr[GY_Y] + n * classes;
        GY_REAL *dx = (GY_REAL *)op->ptr[GY_DX] + n * classes;
        for (int32_t c = 0; c < classes; c++) {
            const GY_REAL d = label[n] < 0 ? 0 : (GY_REAL)(((double)y[c] - ref_loss_target(op, n, c)) * scale);
            dx[c] = op->flags & GY_F_ADD_DX ? dx[c] + d : d;
        }
    }
}

GY_INT void GY_REF(mse)(const struct gy_op *op)
{
    const int32_t classes = op->geom.c, *label = op->ptr[GY_LABEL];
    int32_t *rank = op->ptr[GY_ARG];
    GY_REAL *loss = op->ptr[GY_LOSS];
    for (int64_t n = 0; n < op->geom.n; n++) {
        const GY_REAL *x = (const GY_REAL *)op->ptr[GY_X] + n * classes;
        GY_REAL *y = (GY_REAL *)op->ptr[GY_Y] + n * classes;
        double sum = 0;
        rank[n] = label[n] < 0 ? -1 : ref_loss_rank(x, classes, label[n]);
        for (int32_t c = 0; c < classes; c++) {
            const double off = (double)x[c] - ref_loss_mixed(op, n, c);
            sum += label[n] < 0 ? ref_loss_absent(x[c]) : off * off;
        }
        loss[n] = (GY_REAL)(sum / classes);
        for (int32_t c = 0; c < classes; c++)
            y[c] = x[c];
    }
}

GY_INT void GY_REF(mse_bwd)(const struct gy_op *op)
{
    const int32_t classes = op->geom.c, *label = op->ptr[GY_LABEL];
    const double scale = 2 * (double)op->u->loss_scale / (double)op->geom.n / classes;
    for (int64_t n = 0; n < op->geom.n; n++) {
        const GY_REAL *y = (const GY_REAL *)op->ptr[GY_Y] + n * classes;
        GY_REAL *dx = (GY_REAL *)op->ptr[GY_DX] + n * classes;
        for (int32_t c = 0; c < classes; c++) {
            const GY_REAL d = label[n] < 0 ? 0 : (GY_REAL)(((double)y[c] - ref_loss_mixed(op, n, c)) * scale);
            dx[c] = op->flags & GY_F_ADD_DX ? dx[c] + d : d;
        }
    }
}
