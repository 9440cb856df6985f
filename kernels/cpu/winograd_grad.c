/* SPDX-License-Identifier: MIT */
/* winograd_grad.c: Winograd's weight gradients of convolutions; drivers.c runs it. For each point
 * (element of a transformed tile) it sums outer products over tiles, [K x tiles] [tiles x C]. A
 * work item owns a block of K x C at all points and walks the tiles, a strip at a time. With few
 * blocks tiles are split, too, and the parts are added in a fixed order. Tiles that WGWINO_FEW
 * blocks or more need are transformed beforehand, in rounds of splits that fit a last cache. */
#include "kernels/cpu/block_sizes.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/driver.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/winograd.h"

#define WGWINO_K 64     /* output channels of a block */
#define WGWINO_C 64     /* input channels, at most */
#define WGWINO_LINES (WGWINO_C * (int)sizeof(float) / GY_CACHE_LINE)
#define WGWINO_STRIP 64 /* tiles at a time */
#define WGWINO_SPLIT 64 /* fewest tiles a split is worth */
#define WGWINO_PAD 16   /* floats between tiles, against overflowing cache sets */
#define WGWINO_TURN 4   /* tiles of a work item of the transforms */
#define WGWINO_FEW 3    /* up to so many blocks transform tiles again: far caches cost more */
#define WGWINO_ROUND (1 << 21) /* floats of transformed tiles in a round: about, */
#define WGWINO_MOST (1 << 23)  /* and at most */

struct wgwino_own {
    float *u;           /* [point][WGWINO_K][WGWINO_C]: sums */
    float *v;           /* [point][WGWINO_STRIP][WGWINO_C]: inputs, unless they are a round's */
    float *m;           /* [point][WGWINO_STRIP][WGWINO_K]: gradients, likewise */
    const void **lines; /* what to prefetch, of the first point: sums, or tiles of a round */
    int32_t *at;        /* 0, 1, 2, ... */
};

/* Scratch of all threads. */
struct wgwino_all {
    float *v, *m;       /* of a round: [point][tile][pitch] */
    unsigned char *own; /* own_bytes a thread */
    float *parts;       /* of dw, part_pitch apart */
};

struct wgwino_plan {
    struct gy_wino_plan w;
    int64_t k_blocks, c_blocks, splits, split;  /* split: tiles of one */
    int64_t floats;                             /* of dw */
    int64_t round;                              /* splits transformed beforehand; 0: by each item */
    int64_t v_pitch, m_pitch;                   /* floats between tiles, inputs and gradients, */
    int64_t u_plane, v_plane, m_plane;          /* and between points */
    int64_t part_pitch;                         /* floats from part to part of dw; 0: dw itself */
    struct wgwino_own own;                      /* layouts of scratch */
    struct wgwino_all all;
    size_t own_bytes;
};

struct wgwino_job {
    const struct gy_cpu *cpu;
    const struct wgwino_plan *g;
    const void *x, *dy;
    int64_t first;      /* the round's first split */
    float *dw;          /* or the first part */
    struct wgwino_all all;
    int add;
};

static void wgwino_cut(struct wgwino_plan *g, const struct gy_op *op, struct gy_planner *planner)
{
    gy_wino_make_plan(&g->w, op, planner);
    g->k_blocks = gy_ceil_div(g->w.vec, WGWINO_K);
    g->c_blocks = gy_ceil_div(g->w.red, WGWINO_C);
    g->floats = (int64_t)g->w.vec * g->w.taps * g->w.red;
    const int64_t floats = (int64_t)g->w.points * (g->w.red + g->w.vec), most = gy_ceil_div(g->w.tiles * floats, WGWINO_MOST);
    const int rounds = g->k_blocks * g->c_blocks > WGWINO_FEW;
    const int64_t wanted = gy_max64(gy_ceil_div(op->block[GY_BLOCK_ITEMS], g->k_blocks * g->c_blocks), rounds ? most : 1);
    g->split = gy_max64(gy_ceil_div(g->w.tiles, gy_max64(gy_min64(wanted, g->w.tiles / WGWINO_SPLIT), 1)), 1);
    g->splits = gy_max64(gy_ceil_div(g->w.tiles, g->split), 1);
    const int64_t each = floats * g->split;
    g->round = 0;
    if (rounds && each <= WGWINO_MOST)
        g->round = gy_min64(gy_max64(WGWINO_ROUND / each, 1), g->splits);
    const int64_t tiles = g->round > 0 ? g->round * g->split : WGWINO_STRIP;
    g->v_pitch = g->round > 0 ? g->w.red + WGWINO_PAD : WGWINO_C;
    g->m_pitch = g->round > 0 ? g->w.vec + WGWINO_PAD : WGWINO_K;
    g->u_plane = gy_wino_plane(WGWINO_K * WGWINO_C);
    g->v_plane = gy_wino_plane(tiles * g->v_pitch);
    g->m_plane = gy_wino_plane(tiles * g->m_pitch);
}

/* Lays out a thread's scratch; returns the bytes. */
static size_t wgwino_lay_own(const struct wgwino_plan *g, struct wgwino_own *own)
{
    const size_t points = (size_t)g->w.points;
    size_t used = 0;
    own->u = gy_scratch_take(&used, points * (size_t)g->u_plane, sizeof(float));
    own->v = gy_scratch_take(&used, g->round > 0 ? 0 : points * (size_t)g->v_plane, sizeof(float));
    own->m = gy_scratch_take(&used, g->round > 0 ? 0 : points * (size_t)g->m_plane, sizeof(float));
    own->lines = gy_scratch_take(&used, 2 * WGWINO_K * WGWINO_LINES, sizeof *own->lines);
    own->at = gy_scratch_take(&used, WGWINO_STRIP + GY_OUTER_LOOKAHEAD, sizeof *own->at);
    return used;
}

/* The gradients of a tile's outputs from channel k on; zeros outside the image. */
static void wgwino_gradients(const struct wgwino_job *job, int64_t tile, int64_t k, const void **dy)
{
    const struct gy_wino_plan *w = &job->g->w;
    int64_t numbers[GY_WINO_OUTS_MAX];
    gy_wino_outs(w, tile, numbers);
    for (int64_t j = 0; j < w->outs; j++)
        dy[j] = numbers[j] >= 0 ? gy_cpu_at(job->dy, numbers[j] * w->vec + k, w->dtype) : w->zeros;
}

/* Transformed gradients of tiles [first, first + count): channels [k, k + cols). */
static void wgwino_outputs(const struct wgwino_job *job, float *m, int64_t first, int64_t count, int64_t k, int64_t cols)
{
    const struct wgwino_plan *g = job->g;
    const void *dy[2][GY_WINO_OUTS_MAX];
    wgwino_gradients(job, first, k, dy[0]);
    for (int64_t i = 0; i < count; i++) {
        wgwino_gradients(job, gy_min64(first + i + 1, g->w.tiles - 1), k, dy[(i + 1) % 2]);
        g->w.kernels->spread[g->w.dtype](m + i * g->m_pitch, g->m_plane, dy[i % 2], dy[(i + 1) % 2], cols);
    }
}

/* Transformed inputs of the same tiles: channels [c, c + cols). */
static void wgwino_inputs(const struct wgwino_job *job, float *v, int64_t first, int64_t count, int64_t c, int64_t cols)
{
    const struct wgwino_plan *g = job->g;
    const void *d[2][GY_WINO_POINTS_MAX];
    gy_wino_pixels(&g->w, job->x, first, c, d[0]);
    for (int64_t i = 0; i < count; i++) {
        gy_wino_pixels(&g->w, job->x, gy_min64(first + i + 1, g->w.tiles - 1), c, d[(i + 1) % 2]);
        g->w.kernels->input[g->w.dtype](v + i * g->v_pitch, g->v_plane, d[i % 2], d[(i + 1) % 2], cols);
    }
}

/* Transforms WGWINO_TURN tiles of a round beforehand. */
static void wgwino_turn(void *arg, int64_t tile, int thread)
{
    const struct wgwino_job *job = arg;
    const struct wgwino_plan *g = job->g;
    const int64_t begin = job->first * g->split, at = tile * WGWINO_TURN;
    const int64_t count = gy_min64(WGWINO_TURN, gy_min64(begin + g->round * g->split, g->w.tiles) - begin - at);
    wgwino_outputs(job, job->all.m + at * g->m_pitch, begin + at, count, 0, g->w.vec);
    wgwino_inputs(job, job->all.v + at * g->v_pitch, begin + at, count, 0, g->w.red);
    (void)thread;
}

/* A strip of tiles for a block: inputs and gradients of the first point. */
struct wgwino_strip {
    const float *v, *m;
    int64_t count, rows, cols;
    int add;
};

/* Chooses what of point n + 1 is prefetched while point n is worked on: sums of tile rows
 * [from, to), or a round's inputs and gradients, one cache line of each tile a call. */
static void wgwino_prefetch(const struct wgwino_plan *g, const struct wgwino_own *own, const struct wgwino_strip *s, int n, int64_t call,
                            int64_t from, int64_t to, struct gy_outer_tile *t)
{
    const int64_t lines = t->lookahead.step == 1 ? WGWINO_LINES : 1, inputs = call < WGWINO_LINES, last = n + 1 == g->w.points;
    if (g->round == 0) {
        t->lookahead.first = last ? 0 : (n + 1) * g->u_plane * (int64_t)sizeof(float);
        t->lookahead.lines = own->lines + from * WGWINO_LINES + (t->dw - own->u) % WGWINO_C * (int64_t)sizeof(float) / GY_CACHE_LINE;
        t->lookahead.count = s->add && !last ? (to - from) * lines : 0;
        return;
    }
    t->lookahead.count = call < 2 * WGWINO_LINES && !last ? s->count : 0;
    if (t->lookahead.count == 0)
        return;
    t->lookahead.step = 1;
    t->lookahead.first = (n + 1) * (inputs ? g->v_plane : g->m_plane) * (int64_t)sizeof(float);
    t->lookahead.lines = own->lines + call * s->count;
}

/* The outer products of a strip, point by point, panel by panel. */
static void wgwino_products(const struct wgwino_job *job, const struct wgwino_own *own, const struct wgwino_strip *s)
{
    const struct wgwino_plan *g = job->g;
    struct gy_outer_tile t = { .x_pitch = g->v_pitch, .at = own->at, .dy_pitch = g->m_pitch, .pixels = s->count,
                              .dw_pitch = WGWINO_C, .add = s->add };
    for (int n = 0; n < g->w.points; n++) {
        float *const u = own->u + n * g->u_plane;
        int64_t call = 0;
        const struct gy_outer_kind *kind = job->cpu->k.outer;
        for (int64_t c = 0; c < s->cols; c += t.cols) {
            while (kind < job->cpu->k.outer + GY_KINDS - 1 && s->cols - c < kind->width)
                kind++;
            t.x = s->v + n * g->v_plane + c;
            t.cols = gy_min64(kind->width, s->cols - c);
            struct gy_even even = gy_even_tiles(s->rows, kind->rows);
            for (int64_t i = 0, from = 0, to; i < even.tiles; i++, from = to) {
                to = gy_even_next(&even);
                t.dy = s->m + n * g->m_plane + from;
                t.dw = u + from * WGWINO_C + c;
                t.lookahead.step = kind->width == WGWINO_C ? 1 : WGWINO_LINES;
                wgwino_prefetch(g, own, s, n, call++, from, to, &t);
                kind->fn[to - from - 1](&t);
            }
        }
    }
}

/* Lists the cache lines to prefetch: of the block's sums, or of the strip's tiles. */
static void wgwino_lines(const struct wgwino_plan *g, const struct wgwino_own *own, const struct wgwino_strip *s)
{
    const int64_t line = GY_CACHE_LINE / (int64_t)sizeof(float);
    for (int64_t i = 0; i < WGWINO_K * WGWINO_LINES && g->round == 0; i++)
        own->lines[i] = own->u + i * line;
    for (int64_t l = 0; l < WGWINO_LINES && g->round > 0; l++)
        for (int64_t i = 0; i < s->count; i++) {
            own->lines[l * s->count + i] = s->v + i * g->v_pitch + l * line;
            own->lines[(WGWINO_LINES + l) * s->count + i] = s->m + i * g->m_pitch + l * line;
        }
}

/* Transforms the sums back, to the taps of each output channel. */
static void wgwino_finish(const struct wgwino_job *job, const struct wgwino_own *own, float *dw, int64_t k, int64_t rows,
                          int64_t c, int64_t cols)
{
    const struct wgwino_plan *g = job->g;
    for (int64_t i = 0; i < rows; i++) {
        float *dg[GY_WINO_TAPS_MAX];
        for (int tap = 0; tap < g->w.taps; tap++)
            dg[tap] = dw + ((k + i) * g->w.taps + tap) * g->w.red + c;
        g->w.kernels->filter_back(dg, own->u + i * WGWINO_C, g->u_plane, cols, job->add && g->part_pitch == 0);
    }
}

static void wgwino_tile(void *arg, int64_t tile, int thread)
{
    const struct wgwino_job *job = arg;
    const struct wgwino_plan *g = job->g;
    const int64_t split = job->first + tile / g->c_blocks / g->k_blocks, k = tile / g->c_blocks % g->k_blocks * WGWINO_K;
    const int64_t c = tile % g->c_blocks * WGWINO_C, begin = split * g->split, end = gy_min64(begin + g->split, g->w.tiles);
    struct wgwino_own own = g->own;
    gy_scratch_move(&own, sizeof own, job->all.own + (size_t)thread * g->own_bytes);
    struct wgwino_strip s = { .v = own.v, .m = own.m, .rows = gy_min64(WGWINO_K, g->w.vec - k), .cols = gy_min64(WGWINO_C, g->w.red - c) };
    for (int32_t i = 0; i < WGWINO_STRIP + GY_OUTER_LOOKAHEAD; i++)
        own.at[i] = i < WGWINO_STRIP ? i : 0;
    for (int64_t at = begin; at < end; at += WGWINO_STRIP) {
        s.count = gy_min64(WGWINO_STRIP, end - at);
        s.add = at > begin;
        if (g->round > 0) {
            s.v = job->all.v + (at - job->first * g->split) * g->v_pitch + c;
            s.m = job->all.m + (at - job->first * g->split) * g->m_pitch + k;
        } else {
            wgwino_outputs(job, own.m, at, s.count, k, s.rows);
            wgwino_inputs(job, own.v, at, s.count, c, s.cols);
        }
        wgwino_lines(g, &own, &s);
        wgwino_products(job, &own, &s);
    }
    wgwino_finish(job, &own, job->dw + split * g->part_pitch, k, s.rows, c, s.cols);
}

GY_INT void gy_wino_grad_plan(struct gy_planner *planner, struct gy_op *op)
{
    struct wgwino_plan *const g = gy_planner_take(planner, 1, sizeof *g);
    const size_t bias = gy_cpu_dbias_need(planner->cpu, op);
    size_t used = 0;
    op->plan = g;
    if (!g)
        return;
    wgwino_cut(g, op, planner);
    const size_t points = g->round > 0 ? (size_t)g->w.points : 0;
    g->own_bytes = wgwino_lay_own(g, &g->own);
    g->part_pitch = g->splits > 1 ? g->floats : 0;
    g->all.v = gy_scratch_take(&used, points * (size_t)g->v_plane, sizeof(float));
    g->all.m = gy_scratch_take(&used, points * (size_t)g->m_plane, sizeof(float));
    g->all.own = gy_scratch_take(&used, (size_t)planner->cpu->threads, g->own_bytes);
    g->all.parts = gy_scratch_take(&used, (size_t)(g->splits * g->part_pitch), sizeof(float));
    op->scratch_bytes = used > bias ? used : bias;
}

GY_INT void gy_wino_grad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct wgwino_plan *const g = op->plan;
    const int add = op->u->accumulate != 0, split = g->part_pitch > 0;
    struct wgwino_job job = { .cpu = cpu, .g = g, .x = op->ptr[GY_X], .dy = op->ptr[GY_DY], .add = add, .all = g->all };
    gy_scratch_move(&job.all, sizeof job.all, op->ptr[GY_SCRATCH]);
    job.dw = split ? job.all.parts : op->ptr[GY_DW];
    const int64_t round = g->round > 0 ? g->round : g->splits;
    for (; job.first < g->splits; job.first += round) {
        const int64_t splits = gy_min64(round, g->splits - job.first);
        if (g->round > 0)
            gy_pool_run(cpu->pool, wgwino_turn, &job,
                        gy_ceil_div(gy_min64(splits * g->split, g->w.tiles - job.first * g->split), WGWINO_TURN));
        gy_pool_run(cpu->pool, wgwino_tile, &job, splits * g->k_blocks * g->c_blocks);
    }
    if (split)
        gy_cpu_sum_parts(cpu, job.dw, g->splits, g->floats, g->part_pitch, op->ptr[GY_DW], add);
    gy_cpu_dbias_run(cpu, op);
}
