/* SPDX-License-Identifier: MIT */
/* elementwise.c: ops that meet every element once: activations, sums of branches, their gradients.
 * It cuts tensors into flat pieces. ReLU and ReLU6 are clamps, done by vector kernels; sigmoid,
 * tanh and leaky are plain loops. */
#include "engine/base/half.h"
#include "engine/base/rng.h"
#include "kernels/cpu/elementwise.h"

#define EW_PIECE 32768 /* floats in a tile */
#define EW_DROP 256    /* elements that are dropped or kept at a time */
#define EW_INPUT 192   /* floats normalised at a time: whole pixels of 1 to 4, 6, 8 ... channels */

static void ew_sigmoid(const struct gy_op *op, float *y, const float *x, int64_t count)
{
    (void)op;
    for (int64_t i = 0; i < count; i++)
        y[i] = 1.0f / (1.0f + expf(-x[i]));
}

static void ew_tanh(const struct gy_op *op, float *y, const float *x, int64_t count)
{
    (void)op;
    for (int64_t i = 0; i < count; i++)
        y[i] = tanhf(x[i]);
}

static void ew_leaky(const struct gy_op *op, float *y, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] > 0 ? x[i] : op->act_param * x[i];
}

GY_INT void gy_act_curve(const struct gy_op *op, float *y, const float *x, int64_t count)
{
    static void (*const curve[GY_ACTS])(const struct gy_op *, float *, const float *, int64_t) = {
        [GY_ACT_SIGMOID] = ew_sigmoid, [GY_ACT_TANH] = ew_tanh, [GY_ACT_LEAKY] = ew_leaky
    };
    curve[op->act](op, y, x, count);
}

GY_INT void gy_act_curve_back(const struct gy_op *op, float *d, const float *dy, const float *y,
                              int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        d[i] = dy[i] * gy_act_slope(op->act, op->act_param, y[i]);
}

struct ew_job {
    const struct gy_kernels *k;
    const struct gy_op *op;
    int64_t count;
    float lo, hi;
};

static void ew_run(const struct gy_cpu *cpu, const struct gy_op *op, gy_tile_fn fn)
{
    const struct gy_geom *g = &op->geom;
    struct ew_job job = { .k = &cpu->k, .op = op, .count = g->n * g->h * g->w * g->c };
    gy_act_limits(op->act, &job.lo, &job.hi);
    gy_pool_run(cpu->pool, fn, &job, gy_ceil_div(job.count, EW_PIECE));
}

static void ew_forward_tile(void *arg, int64_t tile, int thread)
{
    const struct ew_job *job = arg;
    const int64_t at = tile * EW_PIECE, count = gy_min64(EW_PIECE, job->count - at);
    const struct gy_op *op = job->op;
    const struct gy_affine_rows a = { .y = gy_cpu_out(op->ptr[GY_Y], at, op->dtype),
                                     .x = gy_cpu_at(op->ptr[GY_X], at, op->dtype),
                                     .res = gy_cpu_at(op->ptr[GY_RES], at, op->dtype), .rows = 1, .cols = count,
                                     .lo = job->lo, .hi = job->hi };
    if (gy_act_is_curve(op->act) && !a.res) {
        gy_act_curve(op, a.y, a.x, count);
        return;
    }
    job->k->affine[op->dtype](&a);
    if (gy_act_is_curve(op->act))
        gy_act_curve(op, a.y, a.y, count);
    (void)thread;
}

GY_INT void gy_cpu_act_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    ew_run(cpu, op, ew_forward_tile);
}

/* Gradient of a curve into dx and dres, through a small block. */
static void ew_curve_back(const struct ew_job *job, struct gy_back_rows *a)
{
    float block[256];
    const float *dy = a->dy, *y = a->y;
    float *const dx = a->dx, *const dres = a->dres;
    const int64_t count = a->count;
    a->y = NULL;
    for (int64_t i = 0; i < count; i += 256) {
        a->count = gy_min64(256, count - i);
        gy_act_curve_back(job->op, block, dy + i, y + i, a->count);
        a->dy = block;
        a->dx = dx ? dx + i : NULL;
        a->dres = dres ? dres + i : NULL;
        job->k->back[GY_F32](a);
    }
}

static void ew_back_tile(void *arg, int64_t tile, int thread)
{
    const struct ew_job *job = arg;
    const struct gy_op *op = job->op;
    const int64_t at = tile * EW_PIECE;
    struct gy_back_rows a = { .dy = gy_cpu_at(op->ptr[GY_DY], at, op->dtype),
                             .y = op->act != GY_ACT_NONE ? gy_cpu_at(op->ptr[GY_Y], at, op->dtype) : NULL,
                             .dx = gy_cpu_out(op->ptr[GY_DX], at, op->dtype),
                             .dres = gy_cpu_out(op->ptr[GY_DRES], at, op->dtype),
                             .count = gy_min64(EW_PIECE, job->count - at), .lo = job->lo, .hi = job->hi,
                             .add_dx = (op->flags & GY_F_ADD_DX) != 0, .add_dres = (op->flags & GY_F_ADD_DRES) != 0 };
    if (a.y && gy_act_is_curve(op->act))
        ew_curve_back(job, &a);
    else
        job->k->back[op->dtype](&a);
    (void)thread;
}

GY_INT void gy_cpu_act_back_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    ew_run(cpu, op, ew_back_tile);
}

/* A row of output pixels: the channels of every stride-th input pixel between zeros. */
static void ew_shortcut_tile(void *arg, int64_t tile, int thread)
{
    const struct gy_op *op = ((const struct ew_job *)arg)->op;
    const struct gy_geom *g = &op->geom;
    const size_t elem = op->dtype == GY_F32 ? 4 : 2, low = (size_t)((g->k - g->c) / 2) * elem, some = (size_t)g->c * elem;
    const size_t rest = (size_t)g->k * elem - low - some;
    const int64_t row = tile / g->p * g->h + tile % g->p * g->stride_h;
    const unsigned char *x = gy_cpu_at(op->ptr[GY_X], row * g->w * g->c, op->dtype);
    unsigned char *y = gy_cpu_out(op->ptr[GY_Y], tile * g->q * g->k, op->dtype);
    for (int32_t q = 0; q < g->q; q++, x += (size_t)g->stride_w * some, y += low + some + rest) {
        memset(y, 0, low);
        memcpy(y + low, x, some);
        memset(y + low + some, 0, rest);
    }
    (void)thread;
}

GY_INT void gy_cpu_shortcut_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct ew_job job = { .k = &cpu->k, .op = op };
    gy_pool_run(cpu->pool, ew_shortcut_tile, &job, op->geom.n * op->geom.p);
}

/* A row of input pixels: those that forward read get the gradient, the others zero. */
static void ew_shortcut_back_tile(void *arg, int64_t tile, int thread)
{
    const struct ew_job *job = arg;
    const struct gy_op *op = job->op;
    const struct gy_geom *g = &op->geom;
    const int add = (op->flags & GY_F_ADD_DX) != 0;
    const int64_t h = tile % g->h, row = tile / g->h * g->p + h / g->stride_h, first = (g->k - g->c) / 2;
    const size_t line = (size_t)((int64_t)g->w * g->c * (op->dtype == GY_F32 ? 4 : 2));
    void *const dx = gy_cpu_out(op->ptr[GY_DX], tile * g->w * g->c, op->dtype);
    if (!add)
        memset(dx, 0, line);
    for (int32_t q = 0; q < g->q && h % g->stride_h == 0; q++) {
        const struct gy_back_rows a = { .dy = gy_cpu_at(op->ptr[GY_DY], (row * g->q + q) * g->k + first, op->dtype),
                                       .dx = gy_cpu_out(dx, (int64_t)q * g->stride_w * g->c, op->dtype),
                                       .count = g->c, .add_dx = add };
        job->k->back[op->dtype](&a);
    }
    (void)thread;
}

GY_INT void gy_cpu_shortcut_back_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct ew_job job = { .k = &cpu->k, .op = op };
    gy_pool_run(cpu->pool, ew_shortcut_back_tile, &job, op->geom.n * op->geom.h);
}

/* Element i of activations that are done one by one. */
static void ew_put(void *y, int64_t i, int dtype, float value)
{
    if (dtype == GY_F32)
        ((float *)y)[i] = value;
    else
        ((uint16_t *)y)[i] = gy_bf16_narrow(value);
}

/* One pixel of a sample, normalised. */
static float ew_input_value(const struct gy_op *op, int64_t at, int32_t channel)
{
    const float mean = op->f[channel & 3], rate = op->f[4 + (channel & 3)];
    if (op->flags & GY_F_U8)
        return ((float)((const uint8_t *)op->ptr[GY_X])[at] / 255.0f - mean) * rate;
    return (((const float *)op->ptr[GY_X])[at] - mean) * rate;
}

/* mean and rate of EW_INPUT floats, as the channels repeat. */
struct ew_input_row {
    float mean[EW_INPUT], rate[EW_INPUT];
};

static void ew_input_repeat(const struct gy_op *op, struct ew_input_row *r)
{
    for (int32_t i = 0, c = 0; i < EW_INPUT; i++, c = c + 1 == op->geom.c ? 0 : c + 1) {
        r->mean[i] = op->f[c & 3];
        r->rate[i] = op->f[4 + (c & 3)];
    }
}

/* EW_INPUT floats from element at on, normalised; a loop that compilers turn into vectors. */
static void ew_input_piece(const struct gy_op *op, const struct ew_input_row *r, int64_t at, float *restrict to)
{
    if (op->flags & GY_F_U8) {
        const uint8_t *const x = (const uint8_t *)op->ptr[GY_X] + at;
        for (int i = 0; i < EW_INPUT; i++)
            to[i] = ((float)x[i] / 255.0f - r->mean[i]) * r->rate[i];
        return;
    }
    const float *const x = (const float *)op->ptr[GY_X] + at;
    for (int i = 0; i < EW_INPUT; i++)
        to[i] = (x[i] - r->mean[i]) * r->rate[i];
}

/* Columns [from, to) of an image row; other: where the partner's row begins, or -1. */
static void ew_input_columns(const struct gy_op *op, int64_t row, int64_t other, int32_t from, int32_t to, float inside)
{
    const int32_t channels = op->geom.c;
    int32_t c = 0;
    for (int64_t i = (int64_t)from * channels; i < (int64_t)to * channels; i++) {
        const float own = ew_input_value(op, row + i, c);
        const float mixed = other < 0 ? own : inside * own + (1.0f - inside) * ew_input_value(op, other + i, c);
        ew_put(op->ptr[GY_Y], row + i, op->dtype, mixed);
        c = c + 1 == channels ? 0 : c + 1;
    }
}

/* An image without mixing, as far as whole pieces go; returns the elements done. */
static int64_t ew_input_pieces(const struct ew_job *job, int64_t first, int64_t count)
{
    const struct gy_op *op = job->op;
    struct ew_input_row r;
    float piece[EW_INPUT];
    if (EW_INPUT % op->geom.c != 0)
        return 0;
    ew_input_repeat(op, &r);
    int64_t at = 0;
    for (; at + EW_INPUT <= count; at += EW_INPUT) {
        void *const to = gy_cpu_out(op->ptr[GY_Y], first + at, op->dtype);
        ew_input_piece(op, &r, first + at, op->dtype == GY_F32 ? to : piece);
        if (op->dtype != GY_F32)
            job->k->narrow[op->dtype](&to, 0, piece, EW_INPUT, 1, EW_INPUT, 0);
    }
    return at;
}

static int ew_is_moved(const struct gy_mix *m) { return (m->dy | m->dx | m->flip) != 0; }

/* Pixel (h, w) of a sample as it is moved: where it lies, or -1. */
static int64_t ew_input_from(const struct gy_geom *g, const struct gy_mix *m, int64_t n, int32_t h, int32_t w)
{
    const int32_t from_h = h - m->dy, from_w = (m->flip ? g->w - 1 - w : w) - m->dx;
    return from_h < 0 || from_h >= g->h || from_w < 0 || from_w >= g->w ? -1 : ((n * g->h + from_h) * g->w + from_w) * g->c;
}

static float ew_input_moved(const struct gy_op *op, int64_t from, int32_t channel)
{
    return from >= 0 ? ew_input_value(op, from + channel, channel) : (0.0f - op->f[channel & 3]) * op->f[4 + (channel & 3)];
}

/* An image that is moved, or mixed with one that is, pixel by pixel. */
static void ew_input_image(const struct gy_op *op, const struct gy_mix *mix, int64_t n)
{
    const struct gy_geom *g = &op->geom;
    const struct gy_mix *m = &mix[n], *other = &mix[m->partner];
    for (int64_t i = 0; i < (int64_t)g->h * g->w; i++) {
        const int32_t h = (int32_t)(i / g->w), w = (int32_t)(i % g->w);
        const int mixed = m->partner != n && h >= m->h0 && h < m->h1 && w >= m->w0 && w < m->w1;
        const int64_t own = ew_input_from(g, m, n, h, w), from = mixed ? ew_input_from(g, other, m->partner, h, w) : -1;
        for (int32_t c = 0; c < g->c; c++) {
            const float value = ew_input_moved(op, own, c);
            ew_put(op->ptr[GY_Y], ((int64_t)n * g->h * g->w + i) * g->c + c, op->dtype,
                   mixed ? m->inside * value + (1.0f - m->inside) * ew_input_moved(op, from, c) : value);
        }
    }
}

/* A tile is an image. */
static void ew_input_tile(void *arg, int64_t tile, int thread)
{
    const struct ew_job *job = arg;
    const struct gy_op *op = job->op;
    const struct gy_geom *g = &op->geom;
    const struct gy_mix *mix = op->ptr[GY_MIX];
    const int64_t line = (int64_t)g->w * g->c, sample = g->h * line;
    const int plain = !mix || mix[tile].partner == tile;
    if (mix && (ew_is_moved(&mix[tile]) || ew_is_moved(&mix[mix[tile].partner]))) {
        ew_input_image(op, mix, tile);
        return;
    }
    const int64_t done = plain ? ew_input_pieces(job, tile * sample, sample) / line : 0; /* rows */
    for (int32_t h = (int32_t)done; h < g->h; h++) { /* also a row that was done in part */
        const int64_t row = tile * sample + h * line;
        int32_t from = 0, to = 0;
        if (mix && mix[tile].partner != tile && h >= mix[tile].h0 && h < mix[tile].h1) {
            from = mix[tile].w0 < 0 ? 0 : mix[tile].w0;
            to = mix[tile].w1 > g->w ? g->w : mix[tile].w1;
        }
        ew_input_columns(op, row, -1, 0, from < to ? from : g->w, 1.0f);
        if (from >= to)
            continue;
        ew_input_columns(op, row, mix[tile].partner * sample + h * line, from, to, mix[tile].inside);
        ew_input_columns(op, row, -1, to, g->w, 1.0f);
    }
    (void)thread;
}

GY_INT void gy_cpu_input_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct ew_job job = { .k = &cpu->k, .op = op };
    gy_pool_run(cpu->pool, ew_input_tile, &job, op->geom.n);
}

/* Element i uses word i % 4 of draw i / 4. */
static void ew_dropout_tile(void *arg, int64_t tile, int thread)
{
    const struct ew_job *job = arg;
    const struct gy_op *op = job->op;
    const uint32_t least = (uint32_t)((double)op->f[0] * 4294967296.0);
    const float scale = (float)(1.0 / (1.0 - (double)op->f[0]));
    const int64_t end = gy_min64((tile + 1) * EW_PIECE, job->count);
    for (int64_t i = tile * EW_PIECE, n; i < end; i += n) {
        uint32_t words[EW_DROP];
        float v[EW_DROP];
        n = gy_min64(EW_DROP, end - i);
        gy_rng_draws(op->u->seed, GY_RNG_DROPOUT + (uint32_t)op->id, op->u->step, (uint64_t)(i / 4), (n + 3) / 4, words);
        job->k->widen[op->dtype](v, gy_cpu_at(op->ptr[GY_X], i, op->dtype), n);
        for (int64_t j = 0; j < n; j++)
            v[j] = words[j] >= least ? v[j] * scale : 0.0f;
        void *const to = gy_cpu_out(op->ptr[GY_Y], i, op->dtype);
        job->k->narrow[op->dtype](&to, 0, v, n, 1, n, 0);
    }
    (void)thread;
}

GY_INT void gy_cpu_dropout_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    ew_run(cpu, op, ew_dropout_tile);
}
