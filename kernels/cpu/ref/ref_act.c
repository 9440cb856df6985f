/* SPDX-License-Identifier: MIT */
/* ref_act.c: element by element: input, activation, addition, dropout, and moves of channels. */
#include "kernels/cpu/ref/ref.h"
#include "engine/base/rng.h"

/* Pixel (h, w) of sample n, moved as m says (NULL: not at all), normalised. */
static GY_REAL ref_input_pixel(const struct gy_op *op, const struct gy_mix *m, int64_t n, int32_t h, int32_t w, int32_t c)
{
    const struct gy_geom *g = &op->geom;
    const int32_t from_h = m ? h - m->dy : h, from_w = m ? (m->flip ? g->w - 1 - w : w) - m->dx : w;
    const int64_t at = ((n * g->h + from_h) * g->w + from_w) * g->c + c;
    GY_REAL value = 0;
    if (from_h >= 0 && from_h < g->h && from_w >= 0 && from_w < g->w)
        value = op->flags & GY_F_U8 ? (GY_REAL)((const uint8_t *)op->ptr[GY_X])[at] / 255 : ((const GY_REAL *)op->ptr[GY_X])[at];
    return (value - (GY_REAL)op->f[c & 3]) * (GY_REAL)op->f[4 + (c & 3)];
}

GY_INT void GY_REF(input)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const struct gy_mix *mix = op->ptr[GY_MIX];
    GY_REAL *y = op->ptr[GY_Y];
    const int64_t sample = (int64_t)g->h * g->w * g->c;
    for (int64_t i = 0; i < g->n * sample; i++) {
        const int64_t n = i / sample, inside = i % sample;
        const int32_t h = (int32_t)(inside / ((int64_t)g->w * g->c)), w = (int32_t)(inside / g->c % g->w), c = (int32_t)(inside % g->c);
        const struct gy_mix *m = mix ? &mix[n] : NULL;
        y[i] = ref_input_pixel(op, m, n, h, w, c);
        if (m && m->partner != n && h >= m->h0 && h < m->h1 && w >= m->w0 && w < m->w1)
            y[i] = (GY_REAL)m->inside * y[i] +
                   (1 - (GY_REAL)m->inside) * ref_input_pixel(op, &mix[m->partner], m->partner, h, w, c);
    }
}

static int64_t ref_act_count(const struct gy_op *op) { return op->geom.n * op->geom.h * op->geom.w * op->geom.c; }

GY_INT void GY_REF(act)(const struct gy_op *op)
{
    const GY_REAL *x = op->ptr[GY_X];
    GY_REAL *y = op->ptr[GY_Y];
    for (int64_t i = 0; i < ref_act_count(op); i++)
        y[i] = ref_act_value(x[i], op);
}

GY_INT void GY_REF(act_bwd)(const struct gy_op *op)
{
    const GY_REAL *dy = op->ptr[GY_DY], *y = op->ptr[GY_Y];
    GY_REAL *dx = op->ptr[GY_DX];
    for (int64_t i = 0; i < ref_act_count(op); i++) {
        const GY_REAL value = ref_act_mask(dy[i], y[i], op);
        dx[i] = op->flags & GY_F_ADD_DX ? dx[i] + value : value;
    }
}

GY_INT void GY_REF(add)(const struct gy_op *op)
{
    const GY_REAL *x = op->ptr[GY_X], *res = op->ptr[GY_RES];
    GY_REAL *y = op->ptr[GY_Y];
    for (int64_t i = 0; i < ref_act_count(op); i++)
        y[i] = ref_act_value(x[i] + res[i], op);
}

GY_INT void GY_REF(add_bwd)(const struct gy_op *op)
{
    const GY_REAL *dy = op->ptr[GY_DY], *y = op->ptr[GY_Y];
    GY_REAL *dx = op->ptr[GY_DX], *dres = op->ptr[GY_DRES];
    for (int64_t i = 0; i < ref_act_count(op); i++) {
        const GY_REAL value = ref_act_mask(dy[i], y ? y[i] : 0, op);
        if (dx)
            dx[i] = op->flags & GY_F_ADD_DX ? dx[i] + value : value;
        if (dres)
            dres[i] = op->flags & GY_F_ADD_DRES ? dres[i] + value : value;
    }
}

/* Element i uses word i % 4 of draw i / 4. It survives if these 32 bits are >= rate * 2^32. */
GY_INT void GY_REF(dropout)(const struct gy_op *op)
{
    const GY_REAL *x = op->ptr[GY_X];
    GY_REAL *y = op->ptr[GY_Y];
    const uint32_t least = (uint32_t)((double)op->f[0] * 4294967296.0);
    const GY_REAL scale = (GY_REAL)(1 / (1 - (double)op->f[0]));
    uint32_t words[4] = { 0 };
    for (int64_t i = 0; i < ref_act_count(op); i++) {
        if (i % 4 == 0)
            gy_rng_words(op->u->seed, GY_RNG_DROPOUT + (uint32_t)op->id, op->u->step, (uint64_t)(i / 4), words);
        y[i] = words[i % 4] >= least ? x[i] * scale : 0;
    }
}

GY_INT void GY_REF(concat)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *x = op->ptr[GY_X];
    GY_REAL *y = op->ptr[GY_Y];
    for (int64_t i = 0; i < g->n * g->h * g->w; i++)
        for (int32_t c = 0; c < g->c; c++)
            y[i * g->k + g->r + c] = x[i * g->c + c];
}

GY_INT void GY_REF(concat_bwd)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *dy = op->ptr[GY_DY];
    GY_REAL *dx = op->ptr[GY_DX];
    for (int64_t i = 0; i < g->n * g->h * g->w; i++)
        for (int32_t c = 0; c < g->c; c++)
            dx[i * g->c + c] = dy[i * g->k + g->r + c] + (op->flags & GY_F_ADD_DX ? dx[i * g->c + c] : 0);
}

GY_INT void GY_REF(shortcut)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *x = op->ptr[GY_X];
    GY_REAL *y = op->ptr[GY_Y];
    const int32_t pad = (g->k - g->c) / 2;
    for (int64_t i = 0; i < g->n * g->p * g->q; i++) {
        const int64_t n = i / ((int64_t)g->p * g->q), h = i / g->q % g->p * g->stride_h, w = i % g->q * g->stride_w;
        for (int32_t k = 0; k < g->k; k++)
            y[i * g->k + k] = k >= pad && k < pad + g->c ? x[((n * g->h + h) * g->w + w) * g->c + k - pad] : 0;
    }
}

GY_INT void GY_REF(shortcut_bwd)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *dy = op->ptr[GY_DY];
    GY_REAL *dx = op->ptr[GY_DX];
    const int32_t pad = (g->k - g->c) / 2;
    for (int64_t i = 0; i < g->n * g->h * g->w; i++) {
        const int64_t n = i / ((int64_t)g->h * g->w), h = i / g->w % g->h, w = i % g->w;
        const int read = h % g->stride_h == 0 && w % g->stride_w == 0;
        for (int32_t c = 0; c < g->c; c++) {
            const GY_REAL d = read ? dy[((n * g->p + h / g->stride_h) * g->q + w / g->stride_w) * g->k + pad + c] : 0;
            dx[i * g->c + c] = op->flags & GY_F_ADD_DX ? dx[i * g->c + c] + d : d;
        }
    }
}
