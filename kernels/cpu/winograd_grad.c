/* SPDX-License-Identifier: MIT */
/* Weight gradient of convolutions with stride 1 by Winograd's way backward: for each of the (m + r - 1)^2 points a sum over
 * tiles of outer products, [K x tiles] [tiles x C]. A work item owns a block of K x C of all points and walks the tiles,
 * a strip of them at a time; where there are few blocks, tiles are split too and the parts added in a fixed order. */
#include "winograd.h"

#define WGWINO_K 64     /* output channels of a block */
#define WGWINO_C 64     /* input channels, at most */
#define WGWINO_STRIP 48 /* tiles at a time */
#define WGWINO_SPLIT 64 /* fewest tiles a split is worth */

struct wgwino_plan {
    struct gy_wino_plan w;
    int64_t k_blocks, c_blocks, splits, split;  /* split: tiles of one */
    int64_t floats;                             /* of dw */
    int64_t u_plane, v_plane, m_plane;          /* floats from point to point */
};

struct wgwino_job {
    const struct gy_cpu *cpu;
    const struct wgwino_plan *g;
    const void *x, *dy;
    float *dw;          /* or the first part */
    int64_t part_pitch; /* 0: dw itself */
    unsigned char *own;
    size_t own_bytes;
    int add;
};

struct wgwino_own {
    float *u;    /* [point][WGWINO_K][WGWINO_C] sums; a panel's columns begin at its first */
    float *v;    /* [point][WGWINO_STRIP][width]: inputs of a panel */
    float *m;    /* [point][WGWINO_STRIP][WGWINO_K]: gradients */
    int32_t *at; /* 0, 1, 2, ... */
};

static void wgwino_make_plan(struct wgwino_plan *g, const struct gy_op *op, const struct gy_kernels *k)
{
    gy_wino_make_plan(&g->w, op, k);
    g->k_blocks = gy_ceil_div(g->w.vec, WGWINO_K);
    g->c_blocks = gy_ceil_div(g->w.red, WGWINO_C);
    g->floats = (int64_t)g->w.vec * g->w.taps * g->w.red;
    const int64_t wanted = gy_ceil_div(op->block[GY_BLOCK_ITEMS], g->k_blocks * g->c_blocks);
    g->split = gy_max64(gy_ceil_div(g->w.tiles, gy_max64(gy_min64(wanted, g->w.tiles / WGWINO_SPLIT), 1)), 1);
    g->splits = gy_max64(gy_ceil_div(g->w.tiles, g->split), 1);
    g->u_plane = gy_wino_plane(WGWINO_K * WGWINO_C);
    g->v_plane = gy_wino_plane(WGWINO_STRIP * GY_WIDTH_MAX);
    g->m_plane = gy_wino_plane(WGWINO_STRIP * WGWINO_K);
}

static struct wgwino_own wgwino_carve_own(const struct wgwino_plan *g, struct gy_carve *carve)
{
    struct wgwino_own own;
    const size_t points = (size_t)g->w.points;
    own.u = gy_carve_take(carve, points * (size_t)g->u_plane, sizeof(float));
    own.v = gy_carve_take(carve, points * (size_t)g->v_plane, sizeof(float));
    own.m = gy_carve_take(carve, points * (size_t)g->m_plane, sizeof(float));
    own.at = gy_carve_take(carve, WGWINO_STRIP + GY_OUTER_AHEAD, sizeof(*own.at));
    return own;
}

static size_t wgwino_place(const struct gy_cpu *cpu, const struct wgwino_plan *g, void *base, struct wgwino_job *job)
{
    struct gy_carve carve = {base, 0}, own = {NULL, 0};
    wgwino_carve_own(g, &own);
    job->own_bytes = own.used;
    job->own = gy_carve_take(&carve, (size_t)cpu->threads, own.used);
    job->part_pitch = g->splits > 1 ? g->floats : 0;
    job->dw = gy_carve_take(&carve, (size_t)(g->splits * job->part_pitch), sizeof(float));
    return carve.used;
}

/* The gradients of a tile's outputs from channel k on; zeros outside the image. */
static void wgwino_gradients(const struct wgwino_job *job, int64_t tile, int64_t k, const void **dy)
{
    const struct gy_wino_plan *w = &job->g->w;
    int64_t numbers[GY_WINO_OUTS_MAX];
    gy_wino_outs(w, tile, numbers);
    for (int64_t j = 0; j < w->outs; j++)
        dy[j] = numbers[j] >= 0 ? gy_cpu_at(job->dy, numbers[j] * w->vec + k, w->dtype) : gy_wino_zeros();
}

/* Transformed gradients of tiles [first, first + count): channels [k, k + cols). */
static void wgwino_outputs(const struct wgwino_job *job, const struct wgwino_own *own, int64_t first, int64_t count, int64_t k,
                           int64_t cols)
{
    const struct wgwino_plan *g = job->g;
    const void *dy[2][GY_WINO_OUTS_MAX];
    wgwino_gradients(job, first, k, dy[0]);
    for (int64_t i = 0; i < count; i++) {
        wgwino_gradients(job, gy_min64(first + i + 1, g->w.tiles - 1), k, dy[(i + 1) % 2]);
        g->w.kernels->spread[g->w.dtype](own->m + i * WGWINO_K, g->m_plane, dy[i % 2], dy[(i + 1) % 2], cols);
    }
}

/* One panel of transformed inputs: v [point][WGWINO_STRIP][width], zero beyond cols. */
static void wgwino_inputs(const struct wgwino_job *job, float *v, int64_t first, int64_t count, int64_t c, int64_t width,
                          int64_t cols)
{
    const struct wgwino_plan *g = job->g;
    if (cols < width)
        memset(v, 0, (size_t)(g->w.points * g->v_plane) * sizeof(float));
    const void *d[2][GY_WINO_POINTS_MAX];
    gy_wino_pixels(&g->w, job->x, first, c, d[0]);
    for (int64_t i = 0; i < count; i++) {
        gy_wino_pixels(&g->w, job->x, gy_min64(first + i + 1, g->w.tiles - 1), c, d[(i + 1) % 2]);
        g->w.kernels->input[g->w.dtype](v + i * width, g->v_plane, d[i % 2], d[(i + 1) % 2], cols);
    }
}

/* The outer products of one panel of a strip. */
static void wgwino_products(const struct wgwino_job *job, const struct wgwino_own *own, const struct gy_outer_kind *kind,
                            float *u, int64_t count, int64_t rows, int64_t cols, int add)
{
    const struct wgwino_plan *g = job->g;
    const struct gy_even even = gy_even_tiles(rows, kind->rows);
    for (int64_t xi = 0; xi < g->w.points; xi++) {
        struct gy_even e = even;
        struct gy_outer_tile t = {.x = own->v + xi * g->v_plane, .at = own->at, .dy_pitch = WGWINO_K, .pixels = count,
                                  .dw_pitch = WGWINO_C, .cols = cols, .add = add};
        for (int64_t i = 0, from = 0, to; i < e.tiles; i++, from = to) {
            to = gy_even_next(&e);
            t.dy = own->m + xi * g->m_plane + from;
            t.dw = u + xi * g->u_plane + from * WGWINO_C;
            kind->fn[to - from - 1](&t);
        }
    }
}

/* From the sums to the taps of each output channel. */
static void wgwino_finish(const struct wgwino_job *job, const struct wgwino_own *own, float *dw, int64_t k, int64_t rows,
                          int64_t c, int64_t cols)
{
    const struct wgwino_plan *g = job->g;
    for (int64_t i = 0; i < rows; i++) {
        float *dg[GY_WINO_TAPS_MAX];
        for (int tap = 0; tap < g->w.taps; tap++)
            dg[tap] = dw + ((k + i) * g->w.taps + tap) * g->w.red + c;
        g->w.kernels->filter_back(dg, own->u + i * WGWINO_C, g->u_plane, cols, job->add && job->part_pitch == 0);
    }
}

static void wgwino_tile(void *arg, int64_t tile, int thread)
{
    const struct wgwino_job *job = arg;
    const struct wgwino_plan *g = job->g;
    const int64_t split = tile / g->c_blocks / g->k_blocks, k = tile / g->c_blocks % g->k_blocks * WGWINO_K;
    const int64_t c = tile % g->c_blocks * WGWINO_C, rows = gy_min64(WGWINO_K, g->w.vec - k);
    const int64_t c_end = gy_min64(c + WGWINO_C, g->w.red), end = gy_min64((split + 1) * g->split, g->w.tiles);
    struct gy_carve carve = {job->own + (size_t)thread * job->own_bytes, 0};
    const struct wgwino_own own = wgwino_carve_own(g, &carve);
    for (int32_t i = 0; i < WGWINO_STRIP + GY_OUTER_AHEAD; i++)
        own.at[i] = i < WGWINO_STRIP ? i : 0;
    for (int64_t at = split * g->split; at < end; at += WGWINO_STRIP) {
        const int64_t count = gy_min64(WGWINO_STRIP, end - at);
        const struct gy_outer_kind *kind = job->cpu->k.outer;
        wgwino_outputs(job, &own, at, count, k, rows);
        for (int64_t from = c, cols; from < c_end; from += cols) {
            while (kind < job->cpu->k.outer + GY_KINDS - 1 && c_end - from < kind->width)
                kind++;
            cols = gy_min64(kind->width, c_end - from);
            wgwino_inputs(job, own.v, at, count, from, kind->width, cols);
            wgwino_products(job, &own, kind, own.u + from - c, count, rows, cols, at > split * g->split);
        }
    }
    wgwino_finish(job, &own, job->dw + split * job->part_pitch, k, rows, c, c_end - c);
}

GY_INT size_t gy_cpu_wino_grad_need(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wgwino_plan g;
    struct wgwino_job job;
    wgwino_make_plan(&g, op, &cpu->k);
    const size_t need = wgwino_place(cpu, &g, NULL, &job), bias = gy_cpu_dbias_need(cpu, op);
    return need > bias ? need : bias;
}

GY_INT void gy_cpu_wino_grad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wgwino_plan g;
    wgwino_make_plan(&g, op, &cpu->k);
    const int add = op->u->accumulate != 0;
    struct wgwino_job job = {.cpu = cpu, .g = &g, .x = op->ptr[GY_X], .dy = op->ptr[GY_DY], .add = add};
    wgwino_place(cpu, &g, op->ptr[GY_SCRATCH], &job);
    if (job.part_pitch == 0)
        job.dw = op->ptr[GY_DW];
    gy_pool_run(cpu->pool, wgwino_tile, &job, g.splits * g.k_blocks * g.c_blocks);
    if (job.part_pitch > 0)
        gy_cpu_sum_parts(cpu, job.dw, g.splits, g.floats, job.part_pitch, op->ptr[GY_DW], add);
    gy_cpu_dbias_run(cpu, op);
}
