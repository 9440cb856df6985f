/* SPDX-License-Identifier: MIT */
/* ref_norm.c: batch norm in five steps (statistics, finish, apply; sums, gradient) and local
 * response norm. Sums over a channel are taken in double, pixel by pixel. */
#include "kernels/cpu/ref/ref.h"

/* Pixels of the samples that are there. */
static int64_t ref_bn_pixels(const struct gy_op *op) { return (op->geom.n - op->u->absent) * op->geom.h * op->geom.w; }

GY_INT void GY_REF(bn_stats)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *x = op->ptr[GY_X];
    GY_REAL *stats = op->ptr[GY_STATS];
    const int64_t pixels = ref_bn_pixels(op);
    for (int32_t c = 0; c < g->c; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < pixels; i++)
            sum += (double)x[i * g->c + c];
        const double mean = sum / (double)pixels;
        for (int64_t i = 0; i < pixels; i++)
            squares += ((double)x[i * g->c + c] - mean) * ((double)x[i * g->c + c] - mean);
        stats[c] = (GY_REAL)mean;
        stats[g->c + c] = (GY_REAL)squares;
    }
}

GY_INT void GY_REF(bn_finish)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *stats = op->ptr[GY_STATS], *gamma = op->ptr[GY_GAMMA], *beta = op->ptr[GY_BETA];
    GY_REAL *scale = op->ptr[GY_SCALE], *shift = op->ptr[GY_SHIFT], *mean = op->ptr[GY_MEAN], *rstd = op->ptr[GY_RSTD];
    GY_REAL *run_mean = op->ptr[GY_RUN_MEAN], *run_var = op->ptr[GY_RUN_VAR];
    const double count = (double)ref_bn_pixels(op), momentum = (double)op->f[1];
    for (int32_t c = 0; c < g->c; c++) {
        const double m = (double)stats[c], squares = (double)stats[g->c + c];
        const double inverse = 1 / sqrt(squares / count + (double)op->f[0]);
        mean[c] = (GY_REAL)m;
        rstd[c] = (GY_REAL)inverse;
        scale[c] = (GY_REAL)((double)gamma[c] * inverse);
        shift[c] = (GY_REAL)((double)beta[c] - m * (double)gamma[c] * inverse);
        run_mean[c] = (GY_REAL)((1 - momentum) * (double)run_mean[c] + momentum * m);
        run_var[c] = (GY_REAL)((1 - momentum) * (double)run_var[c] + momentum * squares / (count > 1 ? count - 1 : 1));
    }
}

GY_INT void GY_REF(bn_fold)(const struct gy_op *op)
{
    const GY_REAL *gamma = op->ptr[GY_GAMMA], *beta = op->ptr[GY_BETA], *bias = op->ptr[GY_BIAS];
    const GY_REAL *run_mean = op->ptr[GY_RUN_MEAN], *run_var = op->ptr[GY_RUN_VAR];
    GY_REAL *scale = op->ptr[GY_SCALE], *shift = op->ptr[GY_SHIFT];
    for (int32_t c = 0; c < op->geom.c; c++) {
        const double s = (double)gamma[c] / sqrt((double)run_var[c] + (double)op->f[0]);
        scale[c] = (GY_REAL)s;
        shift[c] = (GY_REAL)((double)beta[c] + ((bias ? (double)bias[c] : 0) - (double)run_mean[c]) * s);
    }
}

/* The summand of element i of channel c: nothing, res, or res with its own scale and shift. */
static GY_REAL ref_bn_res(const struct gy_op *op, int64_t i, int64_t c)
{
    const GY_REAL *res = op->ptr[GY_RES], *scale = op->ptr[GY_RES_SCALE], *shift = op->ptr[GY_RES_SHIFT];
    return !res ? 0 : scale ? res[i] * scale[c] + shift[c] : res[i];
}

GY_INT void GY_REF(bn_apply)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *x = op->ptr[GY_X], *scale = op->ptr[GY_SCALE], *shift = op->ptr[GY_SHIFT];
    GY_REAL *y = op->ptr[GY_Y];
    for (int64_t i = 0; i < g->n * g->h * g->w * g->c; i++)
        y[i] = ref_act_value(x[i] * scale[i % g->c] + shift[i % g->c] + ref_bn_res(op, i, i % g->c), op);
}

/* Element i of the output y that masks the gradient: Y, or made from X. */
static GY_REAL ref_bn_out(const struct gy_op *op, int64_t i)
{
    const GY_REAL *x = op->ptr[GY_X], *y = op->ptr[GY_Y];
    const GY_REAL *scale = op->ptr[GY_SCALE], *shift = op->ptr[GY_SHIFT];
    if (y)
        return y[i];
    const int64_t c = i % op->geom.c;
    return scale ? ref_act_value(x[i] * scale[c] + shift[c] + ref_bn_res(op, i, c), op) : 0;
}

GY_INT void GY_REF(bn_sums)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *dy = op->ptr[GY_DY], *x = op->ptr[GY_X], *mean = op->ptr[GY_MEAN], *rstd = op->ptr[GY_RSTD];
    GY_REAL *again = op->ptr[GY_AGAIN], *dres = op->ptr[GY_DRES];
    GY_REAL *sums = op->ptr[GY_SUMS], *dgamma = op->ptr[GY_DGAMMA], *dbeta = op->ptr[GY_DBETA];
    for (int32_t c = 0; c < g->c; c++) {
        double sum = 0, product = 0;
        for (int64_t i = c; i < g->n * g->h * g->w * g->c; i += g->c) {
            const GY_REAL y = ref_bn_out(op, i);
            const GY_REAL d = ref_act_mask(dy[i], y, op);
            if (again)
                again[i] = y;
            if (dres)
                dres[i] = d;
            sum += (double)d;
            product += (double)d * ((double)x[i] - (double)mean[c]) * (double)rstd[c];
        }
        sums[c] = (GY_REAL)sum;
        sums[g->c + c] = (GY_REAL)product;
        dbeta[c] = sums[c] + (op->u->accumulate ? dbeta[c] : 0);
        dgamma[c] = sums[g->c + c] + (op->u->accumulate ? dgamma[c] : 0);
    }
}

GY_INT void GY_REF(bn_bwd)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *dy = op->ptr[GY_DY], *x = op->ptr[GY_X], *mean = op->ptr[GY_MEAN], *rstd = op->ptr[GY_RSTD];
    const GY_REAL *gamma = op->ptr[GY_GAMMA], *sums = op->ptr[GY_SUMS];
    GY_REAL *dx = op->ptr[GY_DX], *dres = op->ptr[GY_DRES];
    const int64_t there = ref_bn_pixels(op) * g->c;
    const GY_REAL share = (GY_REAL)(1.0 / (double)ref_bn_pixels(op));
    for (int64_t i = 0; i < g->n * g->h * g->w * g->c; i++) {
        const int32_t c = (int32_t)(i % g->c);
        const GY_REAL d = ref_act_mask(dy[i], ref_bn_out(op, i), op), xhat = (x[i] - mean[c]) * rstd[c];
        const GY_REAL value = i < there ? gamma[c] * rstd[c] * (d - (sums[c] + xhat * sums[g->c + c]) * share) : 0;
        if (dx)
            dx[i] = op->flags & GY_F_ADD_DX ? dx[i] + value : value;
        if (dres)
            dres[i] = op->flags & GY_F_ADD_DRES ? dres[i] + d : d;
    }
}

/* k + alpha / size * sum of squares over the window around c: size / 2 channels below, (size - 1) /
 * 2 above. */
static double ref_lrn_base(const struct gy_op *op, const GY_REAL *x, int32_t c)
{
    const int32_t size = op->geom.r;
    double sum = 0;
    for (int32_t j = c - size / 2; j <= c + (size - 1) / 2; j++)
        if (j >= 0 && j < op->geom.c)
            sum += (double)x[j] * (double)x[j];
    return (double)op->f[0] + (double)op->f[1] / size * sum;
}

GY_INT void GY_REF(lrn)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    for (int64_t i = 0; i < g->n * g->h * g->w; i++) {
        const GY_REAL *x = (const GY_REAL *)op->ptr[GY_X] + i * g->c;
        GY_REAL *y = (GY_REAL *)op->ptr[GY_Y] + i * g->c;
        for (int32_t c = 0; c < g->c; c++)
            y[c] = (GY_REAL)((double)x[c] * pow(ref_lrn_base(op, x, c), -(double)op->f[2]));
    }
}

/* dx_c = dy_c b_c^-beta - 2 beta alpha / size * x_c * sum of dy_j x_j b_j^(-beta - 1), j near c */
static double ref_lrn_grad(const struct gy_op *op, const GY_REAL *x, const GY_REAL *dy, int32_t c)
{
    const int32_t size = op->geom.r;
    const double beta = (double)op->f[2];
    double sum = 0;
    for (int32_t j = c - (size - 1) / 2; j <= c + size / 2; j++)
        if (j >= 0 && j < op->geom.c)
            sum += (double)dy[j] * (double)x[j] * pow(ref_lrn_base(op, x, j), -beta - 1);
    return (double)dy[c] * pow(ref_lrn_base(op, x, c), -beta) - 2 * beta * (double)op->f[1] / size * (double)x[c] * sum;
}

GY_INT void GY_REF(lrn_bwd)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    for (int64_t i = 0; i < g->n * g->h * g->w; i++) {
        const GY_REAL *x = (const GY_REAL *)op->ptr[GY_X] + i * g->c, *dy = (const GY_REAL *)op->ptr[GY_DY] + i * g->c;
        GY_REAL *dx = (GY_REAL *)op->ptr[GY_DX] + i * g->c;
        for (int32_t c = 0; c < g->c; c++) {
            const GY_REAL value = (GY_REAL)ref_lrn_grad(op, x, dy, c);
            dx[c] = op->flags & GY_F_ADD_DX ? dx[c] + value : value;
        }
    }
}
