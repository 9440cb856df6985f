/* SPDX-License-Identifier: MIT */
/* lrn.cu: local response norm over channels, for rows of variants_ops.c: y = x * b^-beta, b = k +
 * alpha / size * sum of x^2 over the GY_R channels around. k, alpha, beta are GY_F0, GY_F1, GY_F2.
 * The window of channel c is c - GY_R / 2 .. c + (GY_R - 1) / 2. Backward: dx = dy b^-beta - 2 beta
 * alpha / size * x * sum of (dy x b^(-beta - 1)) over the windows that hold c.
 *
 *   1  LRN_DIRECT: an element a thread, windows read from memory; backward recomputes each b of the
 *      window. Reads and powers grow with the window; kept for tensors of very many channels
 *   2  LRN_SHARED (the usual one): a block takes LRN_PIXELS whole pixels into shared memory, and
 *      makes every b once
 *
 * Block: 256 threads, neighbours on neighbouring channels, so that shared memory is read without
 * conflicts. Shared memory (2): forward 1, backward 3 floats an element, at most 2048 elements.
 * Alignment: none needed, 2 or 4 bytes an access: the window costs more than the access. Tails:
 * threads beyond the tensor or the block's pixels are idle. */
#include "prelude.cuh"

#define LRN_PAIR ((int64_t)GY_PIXELS * GY_C) /* elements */

/* b^-beta */
GY_FN float lrn_power(float b)
{
    if (GY_F2 == 0.75f) {
        const float r = 1.0f / sqrtf(b);
        return r * sqrtf(r);
    }
    return powf(b, -GY_F2);
}

#ifdef LRN_DIRECT
GY_FN float lrn_base(const gy_t *x, int c)
{
    float sum = 0.0f;
    for (int j = c - GY_R / 2; j <= c + (GY_R - 1) / 2; j++)
        if (j >= 0 && j < GY_C)
            sum += gy_get(x, j) * gy_get(x, j);
    return GY_F0 + GY_F1 / (float)GY_R * sum;
}

#ifdef LRN_FORWARD
GY_KERNEL(lrn)
{
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID;
    if (i >= LRN_PAIR)
        return;
    const int c = (int)(i % GY_C);
    const gy_t *x = GY_P(const gy_t, GY_X) + (i - c);
    gy_put(GY_P(gy_t, GY_Y), i, gy_get(x, c) * lrn_power(lrn_base(x, c)));
}
#else
GY_KERNEL(lrn)
{
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID;
    if (i >= LRN_PAIR)
        return;
    const int c = (int)(i % GY_C);
    const gy_t *x = GY_P(const gy_t, GY_X) + (i - c), *dy = GY_P(const gy_t, GY_DY) + (i - c);
    gy_t *dx = GY_P(gy_t, GY_DX);
    float sum = 0.0f;
    for (int j = c - (GY_R - 1) / 2; j <= c + GY_R / 2; j++)
        if (j >= 0 && j < GY_C) {
            const float b = lrn_base(x, j);
            sum += gy_get(dy, j) * gy_get(x, j) * (lrn_power(b) / b);
        }
    const float d = gy_get(dy, c) * lrn_power(lrn_base(x, c)) - 2.0f * GY_F2 * GY_F1 / (float)GY_R * gy_get(x, c) * sum;
    gy_put(dx, i, GY_FLAGS & GY_F_ADD_DX ? gy_get(dx, i) + d : d);
}
#endif
#endif

#ifdef LRN_SHARED
#define LRN_ROOM (LRN_PIXELS * GY_C)

/* Sum of v over channels c - below .. c + above of the pixel that begins at v. */
GY_FN float lrn_window(const float *v, int c, int below, int above, int squares)
{
    float sum = 0.0f;
    GY_UNROLL for (int j = -below; j <= above; j++)
        if (c + j >= 0 && c + j < GY_C)
            sum += squares ? v[c + j] * v[c + j] : v[c + j];
    return sum;
}

GY_FN float lrn_base(const float *x, int c)
{
    return GY_F0 + GY_F1 / (float)GY_R * lrn_window(x, c, GY_R / 2, (GY_R - 1) / 2, 1);
}

/* Element of the tensor that is element e of the block, and whether there is one. */
GY_FN int64_t lrn_at(int e) { return (int64_t)GY_BX * LRN_ROOM + e; }
#define LRN_EACH(e) GY_UNROLL_NOT for (int e = GY_TID; e < LRN_ROOM && lrn_at(e) < LRN_PAIR; e += GY_THREADS)

#ifdef LRN_FORWARD
struct lrn_shared {
    float x[LRN_ROOM];
};

GY_KERNEL(lrn)
{
    GY_SHARED(struct lrn_shared, s);
    LRN_EACH(e) s->x[e] = gy_get(GY_P(const gy_t, GY_X), lrn_at(e));
    GY_SYNC();
    LRN_EACH(e) gy_put(GY_P(gy_t, GY_Y), lrn_at(e), s->x[e] * lrn_power(lrn_base(s->x + (e - e % GY_C), e % GY_C)));
}
#else
struct lrn_shared {
    float x[LRN_ROOM], own[LRN_ROOM], sent[LRN_ROOM]; /* own: dy b^-beta; sent: that * x / b */
};

GY_KERNEL(lrn)
{
    GY_SHARED(struct lrn_shared, s);
    gy_t *dx = GY_P(gy_t, GY_DX);
    LRN_EACH(e) s->x[e] = gy_get(GY_P(const gy_t, GY_X), lrn_at(e));
    GY_SYNC();
    LRN_EACH(e) {
        const float b = lrn_base(s->x + (e - e % GY_C), e % GY_C);
        const float own = gy_get(GY_P(const gy_t, GY_DY), lrn_at(e)) * lrn_power(b);
        s->own[e] = own;
        s->sent[e] = own * s->x[e] / b;
    }
    GY_SYNC();
    LRN_EACH(e) {
        const float sum = lrn_window(s->sent + (e - e % GY_C), e % GY_C, (GY_R - 1) / 2, GY_R / 2, 0);
        const float d = s->own[e] - 2.0f * GY_F2 * GY_F1 / (float)GY_R * s->x[e] * sum;
        gy_put(dx, lrn_at(e), GY_FLAGS & GY_F_ADD_DX ? gy_get(dx, lrn_at(e)) + d : d);
    }
}
#endif
#endif
