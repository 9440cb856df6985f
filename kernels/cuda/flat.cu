/* SPDX-License-Identifier: MIT */
/* flat.cu: ops that go element by element: input, activation, addition, dropout; and moves of
 * channels: concat, shortcut.
 *
 * Idea: a tensor is a line of GY_ITEMS elements, whatever its shape. Memory alone bounds these ops:
 * only 16 bytes an access, and enough of them in flight, count.
 *
 *   1  one element a thread: 2 or 4 bytes an access, so load and store units are the limit
 *   2  GY_VEC elements a thread (16 bytes): a quarter or an eighth of the instructions
 *   3  (this one) GY_PER such vectors a thread, GY_THREADS vectors apart, all loaded before the
 *      first is stored: more bytes in flight for a warp. GY_PER is 4 for large tensors and 1 for
 *      small ones, which would not fill the device
 *
 * Block: GY_THREADS (256) threads in a line, GY_THREADS * GY_VEC * GY_PER elements. Grid: as many
 * as the tensor has. Shared memory: none. Alignment: tensors start on 64 bytes. Tails: the last
 * vector may be cut, its elements go one by one. Moves of channels have no tail: GY_VEC divides
 * every count of channels there. In place (outputs over inputs): a thread reads all its elements
 * before it writes the first, and no other thread reads them. The variant, a row of variants_ops.c,
 * names one part: FLAT_INPUT, FLAT_ACT, FLAT_ACT_BWD, FLAT_ADD, FLAT_ADD_BWD, FLAT_DROPOUT,
 * FLAT_CONCAT, FLAT_CONCAT_BWD, FLAT_SHORTCUT, FLAT_SHORTCUT_BWD. */
#include "prelude.cuh"

#if GY_ITEMS < 2147483648
typedef uint32_t flat_index; /* divisions by constants are cheaper in 32 bits */
#else
typedef uint64_t flat_index;
#endif

#define FLAT_EACH(k) GY_UNROLL for (int k = 0; k < GY_PER; k++)

/* First element of the thread's vector k. */
GY_FN int64_t flat_at(int k) { return (((int64_t)GY_BX * GY_PER + k) * GY_THREADS + GY_TID) * GY_VEC; }
GY_FN int flat_whole(int64_t i) { return i <= (int64_t)GY_ITEMS - GY_VEC; }
/* The same, or the thread's first vector again if there is no vector k: loads need no branch
 * between them. */
GY_FN int64_t flat_own(int k) { return flat_whole(flat_at(k)) ? flat_at(k) : flat_at(0); }
#define FLAT_BEGIN                                                                                                     \
    if (flat_at(0) >= GY_ITEMS)                                                                                        \
    return

GY_FN struct gy_vec flat_get(const gy_t *p, int k)
{
#if GY_ITEMS % GY_VEC == 0
    return gy_get_vec(p, flat_own(k));
#else
    struct gy_vec out;
    if (flat_whole(flat_at(k)))
        return gy_get_vec(p, flat_at(k));
    GY_EACH(j) out.v[j] = flat_at(k) + j < GY_ITEMS ? gy_get(p, flat_at(k) + j) : 0.0f;
    return out;
#endif
}

GY_FN void flat_put(gy_t *p, int k, struct gy_vec x)
{
    if (flat_whole(flat_at(k))) {
        gy_put_vec(p, flat_at(k), x);
    } else {
#if GY_ITEMS % GY_VEC != 0
        GY_EACH(j) if (flat_at(k) + j < GY_ITEMS) gy_put(p, flat_at(k) + j, x.v[j]);
#endif
    }
}

#ifdef FLAT_INPUT
/* GY_N x GY_H x GY_W_ x GY_C; with GY_F_U8 bytes, else floats. */
#define FLAT_SAMPLE ((flat_index)GY_H * GY_W_ * GY_C)

GY_FN float flat_value(const void *x, int64_t i)
{
    return GY_FLAGS & GY_F_U8 ? (float)((const uint8_t *)x)[i] / 255.0f : ((const float *)x)[i];
}

GY_FN float flat_norm(float v, int c)
{
    const int at = c & 3;
    const float mean = at == 0 ? GY_F0 : at == 1 ? GY_F1 : at == 2 ? GY_F2 : GY_F3;
    const float scale = at == 0 ? GY_F4 : at == 1 ? GY_F5 : at == 2 ? GY_F6 : GY_F7;
    return (v - mean) * scale;
}

GY_FN struct gy_vec flat_values(const void *x, int k)
{
    const int64_t i = GY_ITEMS % GY_VEC == 0 ? flat_own(k) : flat_at(k);
    struct gy_vec out;
    GY_EACH(j) out.v[j] = 0.0f;
    if (GY_ITEMS % GY_VEC != 0 && !flat_whole(i)) {
        GY_EACH(j) out.v[j] = i + j < GY_ITEMS ? flat_value(x, i + j) : 0.0f;
    } else if (GY_FLAGS & GY_F_U8) {
#if GY_VEC == 8
        const struct gy_raw8 r = gy_load8((const uint8_t *)x + i);
        GY_EACH(j) out.v[j] = (float)(r.w[j / 4] >> (j % 4 * 8) & 255) / 255.0f;
#else
        GY_EACH(j) out.v[j] = flat_value(x, i + j);
#endif
    } else {
        out = gy_get_floats((const float *)x, i);
    }
    return out;
}

#if GY_HAS_MIX
/* The element at (h, w) of sample n as it is moved. */
GY_FN float flat_moved(const void *x, struct gy_mix m, int64_t n, int h, int w, int c)
{
    const int from_h = h - m.dy, from_w = (m.flip ? GY_W_ - 1 - w : w) - m.dx;
    if (from_h < 0 || from_h >= GY_H || from_w < 0 || from_w >= GY_W_)
        return flat_norm(0.0f, c);
    return flat_norm(flat_value(x, ((n * GY_H + from_h) * GY_W_ + from_w) * GY_C + c), c);
}

/* The element, moved, and mixed with the same place of its partner inside the box. own: without a
 * move. */
GY_FN float flat_mixed(const void *x, const struct gy_mix *mix, int64_t i, float own)
{
    const flat_index n = (flat_index)i / FLAT_SAMPLE, inside = (flat_index)i % FLAT_SAMPLE;
    const int c = (int)(inside % GY_C), w = (int)(inside / GY_C % GY_W_), h = (int)(inside / ((flat_index)GY_W_ * GY_C));
    const struct gy_mix m = mix[n];
    if (m.dy | m.dx | m.flip)
        own = flat_moved(x, m, (int64_t)n, h, w, c);
    if (m.partner == (int)n || h < m.h0 || h >= m.h1 || w < m.w0 || w >= m.w1)
        return own;
    return m.inside * own + (1.0f - m.inside) * flat_moved(x, mix[m.partner], m.partner, h, w, c);
}
#endif

GY_KERNEL(flat_input)
{
    struct gy_vec x[GY_PER];
    FLAT_BEGIN;
    FLAT_EACH(k) x[k] = flat_values(a.ptr[GY_X], k);
    FLAT_EACH(k) {
        const int64_t i = flat_at(k);
        GY_EACH(j) x[k].v[j] = flat_norm(x[k].v[j], (int)((flat_index)(i + j) % GY_C));
#if GY_HAS_MIX
        GY_EACH(j) if (i + j < GY_ITEMS)
            x[k].v[j] = flat_mixed(a.ptr[GY_X], GY_P(const struct gy_mix, GY_MIX), i + j, x[k].v[j]);
#endif
        flat_put(GY_P(gy_t, GY_Y), k, x[k]);
    }
}
#endif

#ifdef FLAT_ACT
GY_KERNEL(flat_act)
{
    struct gy_vec x[GY_PER];
    FLAT_BEGIN;
    FLAT_EACH(k) x[k] = flat_get(GY_P(const gy_t, GY_X), k);
    FLAT_EACH(k) {
        GY_EACH(j) x[k].v[j] = gy_act_of(x[k].v[j]);
        flat_put(GY_P(gy_t, GY_Y), k, x[k]);
    }
}
#endif

#ifdef FLAT_ADD
GY_KERNEL(flat_add)
{
    struct gy_vec x[GY_PER], res[GY_PER];
    FLAT_BEGIN;
    FLAT_EACH(k) {
        x[k] = flat_get(GY_P(const gy_t, GY_X), k);
        res[k] = flat_get(GY_P(const gy_t, GY_RES), k);
    }
    FLAT_EACH(k) {
        GY_EACH(j) x[k].v[j] = gy_act_of(x[k].v[j] + res[k].v[j]);
        flat_put(GY_P(gy_t, GY_Y), k, x[k]);
    }
}
#endif

/* Both work from dy and the output y: dx = dy masked; an addition's dres, too. What they are added
 * to is loaded with them. */
#if defined FLAT_ACT_BWD || defined FLAT_ADD_BWD
#define FLAT_ADDS_DX (GY_HAS_DX && (GY_FLAGS & GY_F_ADD_DX))
#define FLAT_ADDS_DRES (GY_HAS_DRES && (GY_FLAGS & GY_F_ADD_DRES))

GY_KERNEL(flat_back)
{
    struct gy_vec d[GY_PER], y[GY_PER], dx[GY_PER], dres[GY_PER];
    FLAT_BEGIN;
    FLAT_EACH(k) {
        GY_EACH(j) y[k].v[j] = dx[k].v[j] = dres[k].v[j] = 0.0f;
        d[k] = flat_get(GY_P(const gy_t, GY_DY), k);
        if (GY_HAS_Y && GY_ACT)
            y[k] = flat_get(GY_P(const gy_t, GY_Y), k);
        if (FLAT_ADDS_DX)
            dx[k] = flat_get(GY_P(const gy_t, GY_DX), k);
        if (FLAT_ADDS_DRES)
            dres[k] = flat_get(GY_P(const gy_t, GY_DRES), k);
    }
    FLAT_EACH(k) {
        GY_EACH(j) {
            d[k].v[j] = gy_act_back(d[k].v[j], y[k].v[j]);
            dx[k].v[j] = FLAT_ADDS_DX ? dx[k].v[j] + d[k].v[j] : d[k].v[j];
            dres[k].v[j] = FLAT_ADDS_DRES ? dres[k].v[j] + d[k].v[j] : d[k].v[j];
        }
        if (GY_HAS_DX)
            flat_put(GY_P(gy_t, GY_DX), k, dx[k]);
        if (GY_HAS_DRES)
            flat_put(GY_P(gy_t, GY_DRES), k, dres[k]);
    }
}
#endif

#ifdef FLAT_DROPOUT
#include "philox.cuh"

/* Element i uses word i % 4 of draw i / 4. FLAT_STREAM is the layer's stream. */
GY_KERNEL(flat_dropout)
{
    const uint32_t least = (uint32_t)((double)GY_F0 * 4294967296.0);
    const float scale = (float)(1.0 / (1.0 - (double)GY_F0));
    const uint64_t seed = a.u->seed, step = a.u->step;
    struct gy_vec x[GY_PER];
    FLAT_BEGIN;
    FLAT_EACH(k) x[k] = flat_get(GY_P(const gy_t, GY_X), k);
    FLAT_EACH(k) {
        GY_UNROLL for (int part = 0; part < GY_VEC / 4; part++) {
            const struct gy_words words = gy_philox(seed, FLAT_STREAM, step, (uint64_t)(flat_at(k) / 4 + part));
            GY_UNROLL for (int j = 0; j < 4; j++)
                x[k].v[4 * part + j] = words.w[j] >= least ? x[k].v[4 * part + j] * scale : 0.0f;
        }
        flat_put(GY_P(gy_t, GY_Y), k, x[k]);
    }
}
#endif

/* Moves of channels. GY_ITEMS counts the side that is walked; `wide`: its channels. A vector lies
 * in one pixel. */
struct flat_place {
    flat_index pixel;
    int c;
};

GY_FN struct flat_place flat_place_of(int64_t i, int wide)
{
    struct flat_place at;
    at.pixel = (flat_index)(i / GY_VEC) / (uint32_t)(wide / GY_VEC);
    at.c = (int)((flat_index)(i / GY_VEC) % (uint32_t)(wide / GY_VEC)) * GY_VEC;
    return at;
}

/* Element of the GY_K-channel tensor that is element i of the GY_C-channel one, at channel GY_R. */
#if defined FLAT_CONCAT || defined FLAT_CONCAT_BWD
GY_FN int64_t flat_in_wide(int64_t i)
{
    const struct flat_place at = flat_place_of(i, GY_C);
    return (int64_t)at.pixel * GY_K + GY_R + at.c;
}
#endif

#ifdef FLAT_CONCAT
GY_KERNEL(flat_concat)
{
    struct gy_vec x[GY_PER];
    FLAT_BEGIN;
    FLAT_EACH(k) x[k] = flat_get(GY_P(const gy_t, GY_X), k);
    FLAT_EACH(k) if (flat_whole(flat_at(k))) gy_put_vec(GY_P(gy_t, GY_Y), flat_in_wide(flat_at(k)), x[k]);
}
#endif

#ifdef FLAT_SHORTCUT
#define FLAT_PAD ((GY_K - GY_C) / 2)

GY_FN struct gy_vec flat_short(const gy_t *x, int64_t i)
{
    const struct flat_place at = flat_place_of(i, GY_K);
    const int64_t n = at.pixel / ((flat_index)GY_P_ * GY_Q), h = at.pixel / GY_Q % GY_P_ * GY_STRIDE_H,
                  w = at.pixel % GY_Q * GY_STRIDE_W;
    struct gy_vec out;
    if (at.c >= FLAT_PAD && at.c < FLAT_PAD + GY_C)
        return gy_get_vec(x, ((n * GY_H + h) * GY_W_ + w) * GY_C + at.c - FLAT_PAD);
    GY_EACH(j) out.v[j] = 0.0f;
    return out;
}

GY_KERNEL(flat_shortcut)
{
    struct gy_vec y[GY_PER];
    FLAT_BEGIN;
    FLAT_EACH(k) y[k] = flat_short(GY_P(const gy_t, GY_X), flat_own(k));
    FLAT_EACH(k) flat_put(GY_P(gy_t, GY_Y), k, y[k]);
}
#endif

/* Backward: what dx takes is gathered at the place that `flat_sent` finds. */
#if defined FLAT_CONCAT_BWD || defined FLAT_SHORTCUT_BWD
#ifdef FLAT_CONCAT_BWD
GY_FN struct gy_vec flat_sent(const gy_t *dy, int64_t i) { return gy_get_vec(dy, flat_in_wide(i)); }
#else
GY_FN struct gy_vec flat_sent(const gy_t *dy, int64_t i)
{
    const struct flat_place at = flat_place_of(i, GY_C);
    const int64_t n = at.pixel / ((flat_index)GY_H * GY_W_);
    const int h = (int)(at.pixel / GY_W_ % GY_H), w = (int)(at.pixel % GY_W_);
    struct gy_vec out;
    if (h % GY_STRIDE_H == 0 && w % GY_STRIDE_W == 0)
        return gy_get_vec(dy, ((n * GY_P_ + h / GY_STRIDE_H) * GY_Q + w / GY_STRIDE_W) * GY_K + (GY_K - GY_C) / 2 + at.c);
    GY_EACH(j) out.v[j] = 0.0f;
    return out;
}
#endif

GY_KERNEL(flat_move_bwd)
{
    struct gy_vec d[GY_PER], dx[GY_PER];
    FLAT_BEGIN;
    FLAT_EACH(k) {
        d[k] = flat_sent(GY_P(const gy_t, GY_DY), flat_own(k));
        if (GY_FLAGS & GY_F_ADD_DX)
            dx[k] = flat_get(GY_P(const gy_t, GY_DX), k);
    }
    FLAT_EACH(k) {
        if (GY_FLAGS & GY_F_ADD_DX)
            GY_EACH(j) d[k].v[j] += dx[k].v[j];
        flat_put(GY_P(gy_t, GY_DX), k, d[k]);
    }
}
#endif
