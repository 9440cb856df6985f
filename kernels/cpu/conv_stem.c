/* SPDX-License-Identifier: MIT */
/* Weight gradient of filters 7x7 with a stride of 2 on few channels, a net's first layer. Two by two pixels are one with four times
 * the channels, whose filter is 4x4 with a stride of 1; its gradient is found by Winograd's F(4x4, 4x4), 49 multiplications for
 * 256. Of so few input channels, output channels lie in the vectors. A work item is a part of all strips, rows of tiles or
 * pieces of them, for a block of output channels; parts are added in a fixed order. */
#include "conv.h"

#define STEM_OUT 4     /* outputs and taps along a side of a tile, */
#define STEM_EDGE 7    /* and points */
#define STEM_POINTS (STEM_EDGE * STEM_EDGE)
#define STEM_TAPS (STEM_OUT * STEM_OUT)
#define STEM_CELL 16   /* floats of a wide pixel, of which 4 C count */
#define STEM_LINES 8   /* copied lines of wide pixels: of a tile's STEM_EDGE, the next tile below shares three */
#define STEM_BEFORE 2  /* wide pixels that a tile's inputs begin before its outputs */
#define STEM_STRIP 32  /* most tiles of a strip */
#define STEM_K 64      /* output channels of a block */
#define STEM_PART 8    /* fewest strips that a part is worth */
#define STEM_PIXELS 1024 /* fewest outputs: so many terms keep roundings inside the op test's bound */
#define STEM_PACE 4    /* of pairs beside floats, at which the direct way is as fast */

struct stem_plan {
    const struct gy_geom *g;
    const struct gy_wino *kernels;
    int64_t tiles_h, tiles_w, pieces, width; /* tiles of an image; pieces of a row of them, and tiles of a piece */
    int64_t strips, parts, part, k_blocks;   /* part: strips of one */
    int64_t line;                            /* wide pixels of a copied line */
    int64_t u_plane, v_plane, m_plane;       /* floats from point to point */
    int64_t k_pitch, floats;                 /* of a part: [4 C][tap][k_pitch] */
};

struct stem_job {
    const struct gy_cpu *cpu;
    const struct stem_plan *s;
    const void *x, *dy;
    int dtype;
    float *parts, *sum;
    unsigned char *own;
    size_t own_bytes;
};

struct stem_own {
    float *u;           /* [point][4 C][STEM_K]: sums */
    float *v, *m;       /* [point][tile][STEM_CELL], [point][tile][STEM_K]: transformed inputs and gradients */
    float *wide;        /* [STEM_LINES][line + 1][STEM_CELL] */
    float *rows[2];     /* two rows of the image, with the zeros beside it */
    const float **from; /* [2][line]: where wide pixels lie in them */
};

/* A strip: tiles [column, column + tiles) of a row of tiles. */
struct stem_strip {
    int64_t image, row, column, tiles;
};

GY_INT int gy_cpu_stem_fits(const struct gy_op *op, const struct gy_kernels *k)
{
    const struct gy_geom *g = &op->geom;
    const int pairs = op->dtype == GY_BF16 && k->outer_pair[0].fn != NULL && k->pair_pace >= STEM_PACE;
    return op->code == GY_OP_CONV_WGRAD && k->phases.m == STEM_OUT && !pairs && g->r == 7 && g->s == 7 && g->stride_h == 2 &&
           g->stride_w == 2 && g->pad_h == 3 && g->pad_w == 3 && g->dil_h == 1 && g->dil_w == 1 && g->groups == 1 &&
           4 * g->c <= STEM_CELL && g->k >= STEM_K / 2 && g->k <= GY_CHANNELS_MOST && (int64_t)g->n * g->p * g->q >= STEM_PIXELS;
}

static int64_t stem_plane(int64_t floats) /* an odd number of cache lines */
{
    return ((floats + 15) / 16 | 1) * 16;
}

static void stem_make_plan(struct stem_plan *s, const struct gy_op *op, const struct gy_cpu *cpu)
{
    const struct gy_geom *const g = s->g = &op->geom;
    s->kernels = &cpu->k.phases;
    s->tiles_h = gy_ceil_div(g->p, STEM_OUT);
    s->tiles_w = gy_ceil_div(g->q, STEM_OUT);
    s->pieces = gy_ceil_div(s->tiles_w, STEM_STRIP);
    s->width = gy_ceil_div(s->tiles_w, s->pieces);
    s->strips = g->n * s->pieces * s->tiles_h;
    s->k_blocks = gy_ceil_div(g->k, STEM_K);
    const int64_t wanted = gy_ceil_div(op->block[GY_BLOCK_ITEMS], s->k_blocks);
    s->part = gy_ceil_div(s->strips, gy_max64(gy_min64(wanted, s->strips / STEM_PART), 1));
    s->parts = gy_ceil_div(s->strips, s->part);
    s->line = s->width * STEM_OUT + STEM_EDGE - STEM_OUT;
    s->u_plane = stem_plane(4 * g->c * STEM_K);
    s->v_plane = stem_plane(s->width * STEM_CELL);
    s->m_plane = stem_plane(s->width * STEM_K);
    s->k_pitch = s->k_blocks * STEM_K;
    s->floats = 4 * g->c * STEM_TAPS * s->k_pitch;
}

static struct stem_own stem_carve_own(const struct stem_plan *s, struct gy_carve *carve)
{
    struct stem_own own;
    const size_t row = (size_t)(2 * s->line * s->g->c + GY_ROWS_MAX);
    own.u = gy_carve_take(carve, (size_t)(STEM_POINTS * s->u_plane), sizeof(float));
    own.v = gy_carve_take(carve, (size_t)(STEM_POINTS * s->v_plane), sizeof(float));
    own.m = gy_carve_take(carve, (size_t)(STEM_POINTS * s->m_plane), sizeof(float));
    own.wide = gy_carve_take(carve, (size_t)(STEM_LINES * (s->line + 1) * STEM_CELL), sizeof(float));
    own.rows[0] = gy_carve_take(carve, row, sizeof(float));
    own.rows[1] = gy_carve_take(carve, row, sizeof(float));
    own.from = gy_carve_take(carve, (size_t)(2 * s->line), sizeof(*own.from));
    return own;
}

static size_t stem_place(const struct gy_cpu *cpu, const struct stem_plan *s, void *base, struct stem_job *job)
{
    struct gy_carve carve = {base, 0}, own = {NULL, 0};
    stem_carve_own(s, &own);
    job->parts = gy_carve_take(&carve, (size_t)(s->parts * s->floats), sizeof(float));
    job->sum = gy_carve_take(&carve, (size_t)s->floats, sizeof(float));
    job->own_bytes = own.used;
    job->own = gy_carve_take(&carve, (size_t)cpu->threads, own.used);
    return carve.used;
}

/* ---- inputs ---- */

/* One row of the image, `first` pixels before or behind its begin, with zeros where it is not. */
static void stem_row(const struct stem_job *job, int64_t image, int64_t row, int64_t first, float *to)
{
    const struct gy_geom *g = job->s->g;
    const int64_t count = 2 * job->s->line, left = gy_min64(gy_max64(-first, 0), count);
    const int64_t inside = row < 0 || row >= g->h ? 0 : gy_max64(gy_min64(g->w - first, count) - left, 0);
    const int64_t at = ((image * g->h + row) * g->w + first + left) * g->c;
    memset(to, 0, (size_t)(2 * job->s->line * g->c) * sizeof(float));
    if (inside > 0)
        job->cpu->k.widen[job->dtype](to + left * g->c, gy_cpu_at(job->x, at, job->dtype), inside * g->c);
}

static float *stem_line(const struct stem_job *job, const struct stem_own *own, int64_t line)
{
    return own->wide + (line + STEM_LINES) % STEM_LINES * (job->s->line + 1) * STEM_CELL; /* copies write beyond the last one */
}

/* The wide pixels of a strip's lines from number `from` on. */
static void stem_wide(const struct stem_job *job, const struct stem_own *own, const struct stem_strip *at, int from)
{
    const struct stem_plan *s = job->s;
    for (int64_t i = from; i < STEM_EDGE; i++) {
        const int64_t line = at->row * STEM_OUT - STEM_BEFORE + i;
        for (int a = 0; a < 2; a++)
            stem_row(job, at->image, 2 * line + a, 2 * (at->column * STEM_OUT - STEM_BEFORE), own->rows[a]);
        job->cpu->k.patches(stem_line(job, own, line), STEM_CELL, own->from, 2, 2 * s->g->c, s->line);
    }
}

static void stem_inputs(const struct stem_job *job, const struct stem_own *own, const struct stem_strip *at)
{
    const struct stem_plan *s = job->s;
    const float *d[STEM_POINTS];
    for (int64_t i = 0; i < STEM_POINTS; i++)
        d[i] = stem_line(job, own, at->row * STEM_OUT - STEM_BEFORE + i / STEM_EDGE) + i % STEM_EDGE * STEM_CELL;
    for (int64_t tile = 0; tile < at->tiles; tile++) {
        const void *const *const from = (const void *const *)d;
        s->kernels->input[0][GY_F32](own->v + tile * STEM_CELL, s->v_plane, from, from, 4 * s->g->c);
        for (int64_t i = 0; i < STEM_POINTS; i++)
            d[i] += STEM_OUT * STEM_CELL;
    }
}

/* ---- gradients ---- */

static void stem_pixels(const struct stem_job *job, const struct stem_strip *at, int64_t tile, int64_t k, const void **dy)
{
    const struct gy_geom *g = job->s->g;
    for (int64_t i = 0; i < STEM_OUT * STEM_OUT; i++) {
        const int64_t row = at->row * STEM_OUT + i / STEM_OUT, column = (at->column + tile) * STEM_OUT + i % STEM_OUT;
        const int64_t pixel = (at->image * g->p + row) * g->q + column;
        dy[i] = row < g->p && column < g->q ? gy_cpu_at(job->dy, pixel * g->k + k, job->dtype) : job->cpu->zeros;
    }
}

static void stem_gradients(const struct stem_job *job, const struct stem_own *own, const struct stem_strip *at, int64_t k, int64_t cols)
{
    const struct stem_plan *s = job->s;
    const void *dy[2][STEM_OUT * STEM_OUT];
    stem_pixels(job, at, 0, k, dy[0]);
    for (int64_t tile = 0; tile < at->tiles; tile++) {
        stem_pixels(job, at, tile + 1, k, dy[(tile + 1) % 2]);
        s->kernels->spread[job->dtype](own->m + tile * STEM_K, s->m_plane, dy[tile % 2], dy[(tile + 1) % 2], cols);
    }
}

/* ---- sums ---- */

static void stem_products(const struct stem_job *job, const struct stem_own *own, int64_t tiles, int64_t cols, int add)
{
    const struct stem_plan *s = job->s;
    struct gy_outer_tile t = {.x_pitch = STEM_K, .dy_pitch = STEM_CELL, .pixels = tiles, .dw_pitch = STEM_K, .add = add};
    for (int64_t point = 0; point < STEM_POINTS; point++) {
        const struct gy_outer_kind *kind = job->cpu->k.outer;
        for (int64_t c = 0; c < cols; c += t.cols) {
            while (kind < job->cpu->k.outer + GY_KINDS - 1 && cols - c < kind->width)
                kind++;
            t.x = own->m + point * s->m_plane + c;
            t.cols = gy_min64(kind->width, cols - c);
            struct gy_even even = gy_even_tiles(4 * s->g->c, kind->rows);
            for (int64_t i = 0, from = 0, to; i < even.tiles; i++, from = to) {
                to = gy_even_next(&even);
                t.dy = own->v + point * s->v_plane + from;
                t.dw = own->u + point * s->u_plane + from * STEM_K + c;
                kind->fn[to - from - 1](&t);
            }
        }
    }
}

static void stem_finish(const struct stem_job *job, const struct stem_own *own, float *part, int64_t k, int64_t cols)
{
    const struct stem_plan *s = job->s;
    for (int64_t c = 0; c < 4 * s->g->c; c++) {
        float *taps[STEM_TAPS];
        for (int64_t tap = 0; tap < STEM_TAPS; tap++)
            taps[tap] = part + (c * STEM_TAPS + tap) * s->k_pitch + k;
        s->kernels->filter_back(taps, own->u + c * STEM_K, s->u_plane, cols, 0);
    }
}

static void stem_tile(void *arg, int64_t tile, int thread)
{
    const struct stem_job *job = arg;
    const struct stem_plan *s = job->s;
    const int64_t part = tile / s->k_blocks, k = tile % s->k_blocks * STEM_K, cols = gy_min64(STEM_K, s->g->k - k);
    const int64_t first = part * s->part, end = gy_min64(first + s->part, s->strips);
    struct gy_carve carve = {job->own + (size_t)thread * job->own_bytes, 0};
    const struct stem_own own = stem_carve_own(s, &carve);
    for (int64_t i = 0; i < 2 * s->line; i++)
        own.from[i] = own.rows[i / s->line] + i % s->line * 2 * s->g->c;
    for (int64_t strip = first; strip < end; strip++) {
        const int64_t column = strip / s->tiles_h % s->pieces * s->width;
        const struct stem_strip at = {strip / s->tiles_h / s->pieces, strip % s->tiles_h, column, gy_min64(s->width, s->tiles_w - column)};
        stem_wide(job, &own, &at, strip > first && at.row > 0 ? STEM_EDGE - STEM_OUT : 0);
        stem_inputs(job, &own, &at);
        stem_gradients(job, &own, &at, k, cols);
        stem_products(job, &own, at.tiles, cols, strip > first);
    }
    stem_finish(job, &own, job->parts + part * s->floats, k, cols);
}

/* Tap t of the filter is tap (t + 1) / 2 of the wide one, of the pixels' even rows where t is odd. */
static void stem_unfold(const struct stem_plan *s, const float *sum, float *dw, int add)
{
    const int64_t taps = s->g->r, c = s->g->c;
    for (int64_t i = 0; i < s->g->k * taps * taps * c; i++) {
        const int64_t k = i / (taps * taps * c), h = i / (taps * c) % taps, w = i / c % taps;
        const int64_t channel = ((h + 1) % 2 * 2 + (w + 1) % 2) * c + i % c, tap = (h + 1) / 2 * STEM_OUT + (w + 1) / 2;
        const float value = sum[(channel * STEM_TAPS + tap) * s->k_pitch + k];
        dw[i] = add ? dw[i] + value : value;
    }
}

GY_INT size_t gy_cpu_stem_grad_need(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct stem_plan s;
    struct stem_job job;
    stem_make_plan(&s, op, cpu);
    const size_t need = stem_place(cpu, &s, NULL, &job), bias = gy_cpu_dbias_need(cpu, op);
    return need > bias ? need : bias;
}

GY_INT void gy_cpu_stem_grad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct stem_plan s;
    stem_make_plan(&s, op, cpu);
    struct stem_job job = {.cpu = cpu, .s = &s, .x = op->ptr[GY_X], .dy = op->ptr[GY_DY], .dtype = op->dtype};
    stem_place(cpu, &s, op->ptr[GY_SCRATCH], &job);
    gy_pool_run(cpu->pool, stem_tile, &job, s.parts * s.k_blocks);
    gy_cpu_sum_parts(cpu, job.parts, s.parts, s.floats, s.floats, job.sum, 0);
    stem_unfold(&s, job.sum, op->ptr[GY_DW], op->u->accumulate != 0);
    gy_cpu_dbias_run(cpu, op);
}
