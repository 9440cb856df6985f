/* SPDX-License-Identifier: MIT */
/* ref_conv.c: a convolution and its two gradients in plain loops: each element is one sum. */
#include "kernels/cpu/ref/ref.h"

struct ref_conv_pixel {
    int64_t n;
    int32_t p, q;
};

/* Input row or column that filter cell `cell` of output `out` reads; outside the image: padding. */
static int32_t ref_conv_in(int32_t out, int32_t cell, int32_t stride, int32_t dilation, int32_t pad)
{
    return out * stride - pad + cell * dilation;
}

static GY_REAL ref_conv_sum(const struct gy_op *op, const struct ref_conv_pixel *at, int32_t k)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *x = op->ptr[GY_X], *w = op->ptr[GY_W];
    const int32_t cg = g->c / g->groups, first = k / (g->k / g->groups) * cg;
    GY_REAL sum = 0;
    for (int32_t r = 0; r < g->r; r++)
        for (int32_t s = 0; s < g->s; s++) {
            const int32_t h = ref_conv_in(at->p, r, g->stride_h, g->dil_h, g->pad_h);
            const int32_t v = ref_conv_in(at->q, s, g->stride_w, g->dil_w, g->pad_w);
            if (h < 0 || h >= g->h || v < 0 || v >= g->w)
                continue;
            for (int32_t c = 0; c < cg; c++)
                sum += x[((at->n * g->h + h) * g->w + v) * g->c + first + c] *
                       w[(((int64_t)k * g->r + r) * g->s + s) * cg + c];
        }
    return sum;
}

/* What follows the statistics: scale and shift, the residual, the activation. */
static GY_REAL ref_conv_epilogue(const struct gy_op *op, GY_REAL y, int64_t at, int32_t k)
{
    const GY_REAL *scale = op->ptr[GY_SCALE], *shift = op->ptr[GY_SHIFT], *res = op->ptr[GY_RES];
    if (scale)
        y = y * scale[k] + shift[k];
    if (res)
        y += res[at];
    return ref_act_value(y, op);
}

static void ref_conv_stats(const struct gy_op *op, int64_t pixels)
{
    const GY_REAL *y = op->ptr[GY_Y];
    GY_REAL *stats = op->ptr[GY_STATS];
    const int32_t channels = op->geom.k;
    for (int32_t k = 0; k < channels; k++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < pixels; i++)
            sum += (double)y[i * channels + k];
        const double mean = sum / (double)pixels;
        for (int64_t i = 0; i < pixels; i++)
            squares += ((double)y[i * channels + k] - mean) * ((double)y[i * channels + k] - mean);
        stats[k] = (GY_REAL)mean;
        stats[channels + k] = (GY_REAL)squares;
    }
}

GY_INT void GY_REF(conv)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *bias = op->ptr[GY_BIAS];
    GY_REAL *y = op->ptr[GY_Y];
    const int64_t pixels = g->n * g->p * g->q;
    for (int64_t i = 0; i < pixels; i++) {
        const struct ref_conv_pixel at = { i / ((int64_t)g->p * g->q), (int32_t)(i / g->q % g->p),
                                           (int32_t)(i % g->q) };
        for (int32_t k = 0; k < g->k; k++)
            y[i * g->k + k] = ref_conv_sum(op, &at, k) + (bias ? bias[k] : 0);
    }
    if (op->ptr[GY_STATS])
        ref_conv_stats(op, pixels);
    for (int64_t i = 0; i < pixels * g->k; i++)
        y[i] = ref_conv_epilogue(op, y[i], i, (int32_t)(i % g->k));
}

/* The output row or column whose filter cell `cell` reads input `in`; -1: none. */
static int32_t ref_conv_out(int32_t in, int32_t cell, int32_t stride, int32_t dilation, int32_t pad, int32_t count)
{
    const int32_t at = in + pad - cell * dilation;
    return at < 0 || at % stride || at / stride >= count ? -1 : at / stride;
}

static GY_REAL ref_dgrad_sum(const struct gy_op *op, int64_t n, int32_t h, int32_t v, int32_t c)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *dy = op->ptr[GY_DY], *w = op->ptr[GY_W];
    const int32_t cg = g->c / g->groups, kg = g->k / g->groups, first = c / cg * kg;
    GY_REAL sum = 0;
    for (int32_t r = 0; r < g->r; r++)
        for (int32_t s = 0; s < g->s; s++) {
            const int32_t p = ref_conv_out(h, r, g->stride_h, g->dil_h, g->pad_h, g->p);
            const int32_t q = ref_conv_out(v, s, g->stride_w, g->dil_w, g->pad_w, g->q);
            if (p < 0 || q < 0)
                continue;
            for (int32_t k = first; k < first + kg; k++)
                sum +=
                    dy[((n * g->p + p) * g->q + q) * g->k + k] * w[(((int64_t)k * g->r + r) * g->s + s) * cg + c % cg];
        }
    return sum;
}

GY_INT void GY_REF(conv_dgrad)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    GY_REAL *dx = op->ptr[GY_DX];
    for (int64_t i = 0; i < g->n * g->h * g->w; i++)
        for (int32_t c = 0; c < g->c; c++) {
            const GY_REAL sum =
                ref_dgrad_sum(op, i / ((int64_t)g->h * g->w), (int32_t)(i / g->w % g->h), (int32_t)(i % g->w), c);
            dx[i * g->c + c] = op->flags & GY_F_ADD_DX ? dx[i * g->c + c] + sum : sum;
        }
}

static GY_REAL ref_wgrad_sum(const struct gy_op *op, int32_t k, int32_t r, int32_t s, int32_t c)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *x = op->ptr[GY_X], *dy = op->ptr[GY_DY];
    GY_REAL sum = 0;
    for (int64_t n = 0; n < g->n; n++)
        for (int32_t p = 0; p < g->p; p++)
            for (int32_t q = 0; q < g->q; q++) {
                const int32_t h = ref_conv_in(p, r, g->stride_h, g->dil_h, g->pad_h);
                const int32_t v = ref_conv_in(q, s, g->stride_w, g->dil_w, g->pad_w);
                if (h >= 0 && h < g->h && v >= 0 && v < g->w)
                    sum += x[((n * g->h + h) * g->w + v) * g->c + c] * dy[((n * g->p + p) * g->q + q) * g->k + k];
            }
    return sum;
}

static void ref_bias_grad(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *dy = op->ptr[GY_DY];
    GY_REAL *db = op->ptr[GY_DBIAS];
    for (int32_t k = 0; k < g->k; k++) {
        double sum = 0;
        for (int64_t i = 0; i < g->n * g->p * g->q; i++)
            sum += (double)dy[i * g->k + k];
        db[k] = (GY_REAL)sum + (op->u->accumulate ? db[k] : 0);
    }
}

GY_INT void GY_REF(conv_wgrad)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const int32_t cg = g->c / g->groups;
    GY_REAL *dw = op->ptr[GY_DW];
    for (int32_t k = 0; k < g->k; k++)
        for (int32_t i = 0; i < g->r * g->s * cg; i++) {
            const int32_t c = k / (g->k / g->groups) * cg + i % cg;
            const GY_REAL sum = ref_wgrad_sum(op, k, i / cg / g->s, i / cg % g->s, c);
            GY_REAL *d = &dw[(int64_t)k * g->r * g->s * cg + i];
            *d = op->u->accumulate ? *d + sum : sum;
        }
    if (op->ptr[GY_DBIAS])
        ref_bias_grad(op);
}
