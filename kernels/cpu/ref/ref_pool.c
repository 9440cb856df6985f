/* SPDX-License-Identifier: MIT */
/* ref_pool.c: pooling. Backward passes gather: each input cell sums, in window order, what the
 * windows over it send back. */
#include "kernels/cpu/ref/ref.h"

static int64_t ref_pool_at(const struct gy_geom *g, int64_t n, int32_t h, int32_t w, int32_t c)
{
    return ((n * g->h + h) * g->w + w) * g->c + c;
}

static void ref_pool_max_one(const struct gy_op *op, int64_t i, int32_t c)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *x = op->ptr[GY_X];
    const int64_t n = i / ((int64_t)g->p * g->q);
    const int32_t top = (int32_t)(i / g->q % g->p) * g->stride_h - g->pad_h,
                  left = (int32_t)(i % g->q) * g->stride_w - g->pad_w;
    GY_REAL best = 0;
    int cell = -1;
    for (int32_t r = 0; r < g->r; r++)
        for (int32_t s = 0; s < g->s; s++) {
            if (top + r < 0 || top + r >= g->h || left + s < 0 || left + s >= g->w)
                continue;
            const GY_REAL value = x[ref_pool_at(g, n, top + r, left + s, c)];
            if (cell < 0 || value > best || isnan(value)) {
                best = value;
                cell = r * g->s + s;
            }
        }
    ((GY_REAL *)op->ptr[GY_Y])[i * g->c + c] = best;
    if (op->ptr[GY_ARG])
        ((uint8_t *)op->ptr[GY_ARG])[i * g->c + c] = (uint8_t)cell;
}

GY_INT void GY_REF(pool_max)(const struct gy_op *op)
{
    for (int64_t i = 0; i < op->geom.n * op->geom.p * op->geom.q; i++)
        for (int32_t c = 0; c < op->geom.c; c++)
            ref_pool_max_one(op, i, c);
}

/* Cells of window (p, q) that count. */
static GY_REAL ref_pool_cells(const struct gy_op *op, int32_t p, int32_t q)
{
    const struct gy_geom *g = &op->geom;
    const int32_t top = p * g->stride_h - g->pad_h, left = q * g->stride_w - g->pad_w;
    const int inside = op->f[0] > 0;
    const int64_t h0 = inside ? gy_max64(top, 0) : top, w0 = inside ? gy_max64(left, 0) : left;
    const int64_t h1 = gy_min64(top + g->r, inside ? g->h : g->h + g->pad_h),
                  w1 = gy_min64(left + g->s, inside ? g->w : g->w + g->pad_w);
    return (GY_REAL)((h1 - h0) * (w1 - w0));
}

GY_INT void GY_REF(pool_avg)(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const GY_REAL *x = op->ptr[GY_X];
    GY_REAL *y = op->ptr[GY_Y];
    for (int64_t i = 0; i < g->n * g->p * g->q; i++) {
        const int32_t p = (int32_t)(i / g->q % g->p), q = (int32_t)(i % g->q);
        for (int32_t c = 0; c < g->c; c++) {
            GY_REAL sum = 0;
            for (int32_t h = p * g->stride_h - g->pad_h; h < p * g->stride_h - g->pad_h + g->r; h++)
                for (int32_t w = q * g->stride_w - g->pad_w; w < q * g->stride_w - g->pad_w + g->s; w++)
                    if (h >= 0 && h < g->h && w >= 0 && w < g->w)
                        sum += x[ref_pool_at(g, i / ((int64_t)g->p * g->q), h, w, c)];
            y[i * g->c + c] = sum / ref_pool_cells(op, p, q);
        }
    }
}

/* What window (p, q) sends back to the input cell that is its cell number `cell`. */
static GY_REAL ref_pool_back(const struct gy_op *op, int64_t n, int32_t p, int32_t q, int32_t c, int cell)
{
    const struct gy_geom *g = &op->geom;
    const int64_t at = ((n * g->p + p) * g->q + q) * g->c + c;
    const GY_REAL dy = ((const GY_REAL *)op->ptr[GY_DY])[at];
    if (op->code == GY_OP_POOL_AVG_BWD)
        return dy / ref_pool_cells(op, p, q);
    return ((const uint8_t *)op->ptr[GY_ARG])[at] == cell ? dy : 0;
}

static GY_REAL ref_pool_gather(const struct gy_op *op, int64_t n, int32_t h, int32_t w, int32_t c)
{
    const struct gy_geom *g = &op->geom;
    GY_REAL sum = 0;
    for (int32_t r = g->r - 1; r >= 0; r--)
        for (int32_t s = g->s - 1; s >= 0; s--) {
            const int32_t top = h + g->pad_h - r, left = w + g->pad_w - s;
            if (top < 0 || left < 0 || top % g->stride_h || left % g->stride_w)
                continue;
            if (top / g->stride_h < g->p && left / g->stride_w < g->q)
                sum += ref_pool_back(op, n, top / g->stride_h, left / g->stride_w, c, r * g->s + s);
        }
    return sum;
}

static void ref_pool_bwd(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    GY_REAL *dx = op->ptr[GY_DX];
    for (int64_t i = 0; i < g->n * g->h * g->w; i++)
        for (int32_t c = 0; c < g->c; c++) {
            const GY_REAL d =
                ref_pool_gather(op, i / ((int64_t)g->h * g->w), (int32_t)(i / g->w % g->h), (int32_t)(i % g->w), c);
            dx[i * g->c + c] = op->flags & GY_F_ADD_DX ? dx[i * g->c + c] + d : d;
        }
}

GY_INT void GY_REF(pool_max_bwd)(const struct gy_op *op) { ref_pool_bwd(op); }
GY_INT void GY_REF(pool_avg_bwd)(const struct gy_op *op) { ref_pool_bwd(op); }
