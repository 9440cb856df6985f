/* SPDX-License-Identifier: MIT */
/* Convolution 3x3 with stride 1, forward and data gradient, by Winograd's F(2x2, 3x3): 16 multiplications where the direct
 * way needs 36. The image is cut into 4x4 tiles that overlap by two; transformed, a tile is 16 vectors of channels, and
 * the convolution is 16 independent products [tiles x C] [C x K], done by the usual micro-kernel. A work item is a block of
 * tiles times a group of weight panels; the transformed tiles of a block stay in the second cache.
 *
 * The transforms add at most four numbers and multiply by powers of two only: the error is that of the direct sum
 * within a small factor. The data gradient is the same convolution with turned weights and padding 2 - pad.
 *
 * Weight gradient: 16 sums over tiles of outer products, [K x tiles] [tiles x C]. A work item owns a block of K x C of all 16
 * and walks the tiles; where there are few blocks, tiles are split too and the parts added in a fixed order. */
#include "conv.h"

#define WINO_CHANNELS_LEAST 64
#define WINO_TURN 16             /* channels of a work item of the filters */
#define WINO_PAD 16              /* floats between rows, against overflowing cache sets */

static const float wino_zeros[GY_SLICE_MAX * 8];

struct wino_plan {
    int32_t red, vec;              /* channels summed over, channels in vectors */
    int32_t in_h, in_w, out_h, out_w, pad_h, pad_w;
    int32_t tiles_h, tiles_w;      /* of an image */
    int64_t n, tiles, block, blocks, panels, panel_group, panel_groups, padded;
    int64_t pitch;                 /* floats of a transformed tile's row */
    int64_t pixels;                /* outputs of a block, where all but the last have the same */
    int transposed;
};

struct wino_job {
    const struct gy_cpu *cpu;
    const struct wino_plan *w;
    const struct gy_op *op;
    const float *in, *weights, *bias;
    float *out;
    float *u;          /* [panel][16][red][width] */
    float *mean, *m2;  /* [blocks][vec], NULL without statistics */
    unsigned char *own;
    size_t own_bytes;
    int add;
};

struct wino_own {
    float *v;           /* [16][block][pitch] */
    float *m;           /* [16][block][GY_WIDTH_MAX] */
    float *y;           /* [4 * block][GY_WIDTH_MAX]: outputs of a panel, pixel after pixel */
    const float **rows; /* [block] */
    float **outs;       /* [block] */
    void **pixels;      /* [4 * block]: where they go */
    int64_t *numbers;   /* [4 * block]: which pixel of the image each is */
};

GY_INT int gy_cpu_is_wino(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const int shape = g->r == 3 && g->s == 3 && g->stride_h == 1 && g->stride_w == 1 && g->dil_h == 1 && g->dil_w == 1 &&
                      g->groups == 1 && g->pad_h <= 2 && g->pad_w <= 2;
    const int size = g->c >= WINO_CHANNELS_LEAST && g->k >= WINO_CHANNELS_LEAST && g->c <= GY_SLICE_MAX * 8 &&
                     g->k <= GY_SLICE_MAX * 8 && g->p >= 4 && g->q >= 4 && g->h >= 4 && g->w >= 4;
    const int even = g->p % 2 == 0 && g->q % 2 == 0; /* else blocks are whole images: statistics need equal parts */
    return op->dtype == GY_F32 && shape && size && !gy_act_is_curve(op->act) && (even || (int64_t)g->p * g->q <= 256);
}

static void wino_cut(struct wino_plan *w, const struct gy_kernels *k, const int32_t *size)
{
    const int64_t image = (int64_t)w->tiles_h * w->tiles_w;
    struct gy_product p = {.vec = w->vec};
    w->tiles = w->n * image;
    w->pitch = w->red + WINO_PAD;
    w->block = gy_max64(gy_min64(size[GY_BLOCK_KEEP] / 16 / w->pitch, size[GY_BLOCK_STRIP]), 8);
    if (w->out_h % 2 != 0 || w->out_w % 2 != 0)
        w->block = gy_max64(w->block / image, 1) * image;
    w->blocks = gy_ceil_div(w->tiles, w->block);
    w->pixels = w->out_h % 2 == 0 && w->out_w % 2 == 0 ? 4 * w->block : w->block / image * w->out_h * w->out_w;
    while (gy_product_panel(&p, k, w->panels).kind != NULL)
        w->panels++;
    const struct gy_panel last = gy_product_panel(&p, k, w->panels - 1);
    w->padded = last.first + last.kind->width;
    const int64_t groups = gy_min64(gy_ceil_div(size[GY_BLOCK_ITEMS], w->blocks), w->panels);
    w->panel_group = gy_ceil_div(w->panels, groups);
    w->panel_groups = gy_ceil_div(w->panels, w->panel_group);
}

static void wino_make_plan(struct wino_plan *w, const struct gy_op *op, const struct gy_kernels *k)
{
    const struct gy_geom *g = &op->geom;
    const int back = op->code == GY_OP_CONV_DGRAD;
    *w = (struct wino_plan){.n = g->n, .transposed = back, .red = back ? g->k : g->c, .vec = back ? g->c : g->k};
    w->in_h = back ? g->p : g->h;
    w->in_w = back ? g->q : g->w;
    w->out_h = back ? g->h : g->p;
    w->out_w = back ? g->w : g->q;
    w->pad_h = back ? 2 - g->pad_h : g->pad_h;
    w->pad_w = back ? 2 - g->pad_w : g->pad_w;
    w->tiles_h = (w->out_h + 1) / 2;
    w->tiles_w = (w->out_w + 1) / 2;
    wino_cut(w, k, op->block);
}

static struct wino_own wino_carve_own(const struct wino_plan *w, struct gy_carve *carve)
{
    struct wino_own own;
    const size_t block = (size_t)w->block;
    own.v = gy_carve_take(carve, 16 * block * (size_t)w->pitch, sizeof(float));
    own.m = gy_carve_take(carve, 16 * block * GY_WIDTH_MAX, sizeof(float));
    own.y = gy_carve_take(carve, 4 * block * GY_WIDTH_MAX, sizeof(float));
    own.rows = gy_carve_take(carve, block, sizeof(*own.rows));
    own.outs = gy_carve_take(carve, block, sizeof(*own.outs));
    own.pixels = gy_carve_take(carve, 4 * block, sizeof(*own.pixels));
    own.numbers = gy_carve_take(carve, 4 * block, sizeof(*own.numbers));
    return own;
}

static size_t wino_place(const struct gy_cpu *cpu, const struct wino_plan *w, int stats, void *base, struct wino_job *job)
{
    struct gy_carve carve = {base, 0}, own = {NULL, 0};
    wino_carve_own(w, &own);
    job->u = gy_carve_take(&carve, 16 * (size_t)w->red * (size_t)w->padded, sizeof(float));
    job->mean = stats ? gy_carve_take(&carve, (size_t)(w->blocks * w->vec), sizeof(float)) : NULL;
    job->m2 = stats ? gy_carve_take(&carve, (size_t)(w->blocks * w->vec), sizeof(float)) : NULL;
    job->own_bytes = own.used;
    job->own = gy_carve_take(&carve, (size_t)cpu->threads, own.used);
    return carve.used;
}

static struct gy_panel wino_panel(const struct wino_job *job, int64_t index)
{
    const struct gy_product p = {.vec = job->w->vec};
    return gy_product_panel(&p, &job->cpu->k, index);
}

/* Nine rows of weights, [channel of the reduction][panel's columns] each, for channels [c, c + count). Where they lie the
 * other way round they are turned into room, [9][WINO_TURN][GY_WIDTH_MAX]. pitch: floats from channel to channel. */
static int64_t wino_taps(const struct wino_job *job, const struct gy_panel *panel, int64_t c, int64_t count, float *room,
                         const float **taps)
{
    const struct wino_plan *w = job->w;
    for (int tap = 0; tap < 9; tap++) {
        float *const turned = room + tap * WINO_TURN * GY_WIDTH_MAX;
        taps[tap] = w->transposed ? job->weights + (c * 9 + 8 - tap) * w->vec + panel->first : turned;
        if (!w->transposed)
            job->cpu->k.transpose(turned, GY_WIDTH_MAX, job->weights + (panel->first * 9 + tap) * w->red + c, 9 * w->red,
                                  panel->cols, count);
    }
    return w->transposed ? 9 * w->vec : GY_WIDTH_MAX;
}

/* A tile: WINO_TURN channels of the reduction for one panel. */
static void wino_filter_tile(void *arg, int64_t tile, int thread)
{
    const struct wino_job *job = arg;
    const struct wino_plan *w = job->w;
    const int64_t pieces = gy_ceil_div(w->red, WINO_TURN), first = tile % pieces * WINO_TURN;
    const struct gy_panel panel = wino_panel(job, tile / pieces);
    const int64_t width = panel.kind->width, count = gy_min64(WINO_TURN, w->red - first);
    float *const u = job->u + panel.first * 16 * w->red, room[9 * WINO_TURN * GY_WIDTH_MAX];
    const float *taps[9];
    const int64_t pitch = wino_taps(job, &panel, first, count, room, taps);
    for (int64_t c = first; c < first + count; c++) {
        for (int xi = 0; xi < 16 && panel.cols < width; xi++)
            memset(u + (xi * w->red + c) * width, 0, (size_t)width * sizeof(float));
        job->cpu->k.wino_filter(u + c * width, w->red * width, taps, panel.cols);
        for (int tap = 0; tap < 9; tap++)
            taps[tap] += pitch;
    }
    (void)thread;
}

/* The 16 input pixels of a tile; zeros outside the image. */
static void wino_pixels(const struct wino_plan *w, const float *in, int64_t tile, const float **d)
{
    const int64_t image = (int64_t)w->tiles_h * w->tiles_w, n = tile / image, at = tile % image;
    const int64_t top = at / w->tiles_w * 2 - w->pad_h, left = at % w->tiles_w * 2 - w->pad_w;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int64_t row = top + i, col = left + j;
            const int inside = row >= 0 && row < w->in_h && col >= 0 && col < w->in_w;
            d[4 * i + j] = inside ? in + ((n * w->in_h + row) * w->in_w + col) * w->red : wino_zeros;
        }
}

static void wino_inputs(const struct wino_job *job, const struct wino_own *own, int64_t first, int64_t count)
{
    const struct wino_plan *w = job->w;
    const float *d[16];
    for (int64_t i = 0; i < count; i++) {
        wino_pixels(w, job->in, first + i, d);
        job->cpu->k.wino_input(own->v + i * w->pitch, w->block * w->pitch, d, w->red);
    }
}

/* One of the 16 products for one panel. */
static void wino_product(const struct wino_job *job, const struct wino_own *own, const struct gy_panel *panel, int xi,
                         int64_t count)
{
    const struct wino_plan *w = job->w;
    const int64_t width = panel->kind->width, tiles = gy_ceil_div(count, panel->kind->rows), len = job->op->block[GY_BLOCK_SLICE];
    float *const m = own->m + xi * w->block * GY_WIDTH_MAX;
    for (int64_t c = 0; c < w->red; c += len) {
        const float *const u = job->u + (panel->first * 16 + xi * width) * w->red + c * width;
        for (int64_t i = 0; i < count; i++) {
            own->rows[i] = own->v + (xi * w->block + i) * w->pitch + c;
            own->outs[i] = m + i * GY_WIDTH_MAX;
        }
        struct gy_gemm_tile t = {.panel = u, .taps = 1, .row_pitch = count, .len = gy_min64(len, w->red - c),
                                 .cols = panel->cols, .init = c == 0 ? wino_zeros : NULL};
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t from = count * i / tiles, to = count * (i + 1) / tiles;
            t.rows = own->rows + from;
            t.out = own->outs + from;
            panel->kind->fn[to - from - 1](&t);
        }
    }
}

/* Where the outputs of a block lie: [tile][4] compacted to those inside the image. Returns how many. */
static int64_t wino_outputs(const struct wino_job *job, const struct wino_own *own, int64_t first, int64_t count)
{
    const struct wino_plan *w = job->w;
    const int64_t image = (int64_t)w->tiles_h * w->tiles_w;
    int64_t pixels = 0;
    for (int64_t i = 0; i < 4 * count; i++) {
        const int64_t tile = first + i / 4, at = tile % image;
        const int64_t row = at / w->tiles_w * 2 + i % 4 / 2, col = at % w->tiles_w * 2 + i % 2;
        if (row >= w->out_h || col >= w->out_w)
            continue;
        own->numbers[pixels] = (tile / image * w->out_h + row) * w->out_w + col;
        own->pixels[pixels] = job->out + own->numbers[pixels] * w->vec;
        pixels++;
    }
    return pixels;
}

/* Back from the transformed sums, statistics, and to their places. */
static void wino_finish(const struct wino_job *job, const struct wino_own *own, const struct gy_panel *panel,
                        int64_t block, int64_t count, int64_t pixels)
{
    const struct wino_plan *w = job->w;
    const int64_t first = block * w->block, image = (int64_t)w->tiles_h * w->tiles_w;
    const struct gy_kernels *k = &job->cpu->k;
    float *to = own->y;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (first + i) % image, row = at / w->tiles_w * 2, col = at % w->tiles_w * 2;
        float *y[4] = {NULL};
        for (int j = 0; j < 4; j++)
            if (row + j / 2 < w->out_h && col + j % 2 < w->out_w) {
                y[j] = to;
                to += GY_WIDTH_MAX;
            }
        k->wino_output(y, own->m + i * GY_WIDTH_MAX, w->block * GY_WIDTH_MAX,
                       job->bias != NULL ? job->bias + panel->first : wino_zeros, panel->cols);
    }
    if (job->mean != NULL)
        k->stats[GY_F32](own->y, pixels, panel->cols, GY_WIDTH_MAX, job->mean + block * w->vec + panel->first,
                         job->m2 + block * w->vec + panel->first);
    k->narrow[GY_F32](own->pixels, panel->first, own->y, GY_WIDTH_MAX, pixels, panel->cols, job->add);
    for (int64_t i = 0; i < pixels && !w->transposed; i++)
        gy_cpu_epilogue(job->cpu, job->op, own->numbers[i], 1, panel->first, panel->cols);
}

static void wino_tile(void *arg, int64_t tile, int thread)
{
    const struct wino_job *job = arg;
    const struct wino_plan *w = job->w;
    const int64_t group = tile % w->panel_groups, block = tile / w->panel_groups, first = block * w->block;
    const int64_t count = gy_min64(w->block, w->tiles - first);
    struct gy_carve carve = {job->own + (size_t)thread * job->own_bytes, 0};
    const struct wino_own own = wino_carve_own(w, &carve);
    wino_inputs(job, &own, first, count);
    const int64_t pixels = wino_outputs(job, &own, first, count);
    for (int64_t i = group * w->panel_group; i < gy_min64((group + 1) * w->panel_group, w->panels); i++) {
        const struct gy_panel panel = wino_panel(job, i);
        for (int xi = 0; xi < 16; xi++)
            wino_product(job, &own, &panel, xi, count);
        wino_finish(job, &own, &panel, block, count, pixels);
    }
}

GY_INT size_t gy_cpu_wino_need(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wino_plan w;
    struct wino_job job;
    wino_make_plan(&w, op, &cpu->k);
    return wino_place(cpu, &w, op->tensor[GY_STATS] >= 0, NULL, &job);
}

GY_INT void gy_cpu_wino_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wino_plan w;
    wino_make_plan(&w, op, &cpu->k);
    const int back = w.transposed;
    struct wino_job job = {.cpu = cpu, .w = &w, .op = op, .in = op->ptr[back ? GY_DY : GY_X], .weights = op->ptr[GY_W],
                           .bias = back ? NULL : op->ptr[GY_BIAS], .out = op->ptr[back ? GY_DX : GY_Y],
                           .add = back && (op->flags & GY_F_ADD_DX) != 0};
    wino_place(cpu, &w, op->ptr[GY_STATS] != NULL, op->ptr[GY_SCRATCH], &job);
    gy_pool_run(cpu->pool, wino_filter_tile, &job, w.panels * gy_ceil_div(w.red, WINO_TURN));
    gy_pool_run(cpu->pool, wino_tile, &job, w.blocks * w.panel_groups);
    if (job.mean != NULL)
        gy_cpu_merge_stats(cpu, job.mean, job.m2, w.blocks, w.vec, w.pixels, w.n * w.out_h * w.out_w,
                           op->ptr[GY_STATS]);
}

#define WINO_K 64          /* output channels of a block of the weight gradient */
#define WINO_C 64          /* input channels, at most */
#define WINO_STRIP 64      /* tiles at a time */
#define WINO_SPLIT 64      /* fewest tiles a split is worth */

struct wino_grad {
    struct wino_plan w;
    int64_t k_blocks, c_blocks, splits, split; /* split: tiles of one */
    int64_t floats;                            /* of dw */
};

struct wino_grad_job {
    const struct gy_cpu *cpu;
    const struct wino_grad *g;
    const float *x, *dy;
    float *dw;          /* or the first part */
    int64_t part_pitch; /* 0: dw itself */
    unsigned char *own;
    size_t own_bytes;
    int add;
};

struct wino_grad_own {
    float *u;    /* [16][WINO_K][WINO_C] sums; a panel's columns begin at its first */
    float *v;    /* [panel][16][WINO_STRIP][width] */
    float *m;    /* [16][WINO_STRIP][WINO_K] */
    int32_t *at; /* 0, 1, 2, ... */
};

static void wino_grad_plan(struct wino_grad *g, const struct gy_op *op, const struct gy_kernels *k)
{
    wino_make_plan(&g->w, op, k);
    g->k_blocks = gy_ceil_div(g->w.vec, WINO_K);
    g->c_blocks = gy_ceil_div(g->w.red, WINO_C);
    g->floats = (int64_t)g->w.vec * 9 * g->w.red;
    const int64_t wanted = gy_ceil_div(op->block[GY_BLOCK_ITEMS], g->k_blocks * g->c_blocks);
    g->split = gy_max64(gy_ceil_div(g->w.tiles, gy_max64(gy_min64(wanted, g->w.tiles / WINO_SPLIT), 1)), 1);
    g->splits = gy_max64(gy_ceil_div(g->w.tiles, g->split), 1);
}

static struct wino_grad_own wino_grad_carve(struct gy_carve *carve)
{
    struct wino_grad_own own;
    own.u = gy_carve_take(carve, 16 * WINO_K * WINO_C, sizeof(float));
    own.v = gy_carve_take(carve, 16 * WINO_STRIP * (WINO_C + GY_WIDTH_MAX), sizeof(float));
    own.m = gy_carve_take(carve, 16 * WINO_STRIP * WINO_K, sizeof(float));
    own.at = gy_carve_take(carve, WINO_STRIP + GY_OUTER_AHEAD, sizeof(*own.at));
    return own;
}

static size_t wino_grad_place(const struct gy_cpu *cpu, const struct wino_grad *g, void *base, struct wino_grad_job *job)
{
    struct gy_carve carve = {base, 0}, own = {NULL, 0};
    wino_grad_carve(&own);
    job->own_bytes = own.used;
    job->own = gy_carve_take(&carve, (size_t)cpu->threads, own.used);
    job->part_pitch = g->splits > 1 ? g->floats : 0;
    job->dw = gy_carve_take(&carve, (size_t)(g->splits * job->part_pitch), sizeof(float));
    return carve.used;
}

/* Transformed gradients of tiles [first, first + count): channels [k, k + cols). */
static void wino_grad_outputs(const struct wino_grad_job *job, const struct wino_grad_own *own, int64_t first,
                              int64_t count, int64_t k, int64_t cols)
{
    const struct wino_plan *w = &job->g->w;
    const int64_t image = (int64_t)w->tiles_h * w->tiles_w;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (first + i) % image, n = (first + i) / image;
        const float *dy[4];
        for (int j = 0; j < 4; j++) {
            const int64_t row = at / w->tiles_w * 2 + j / 2, col = at % w->tiles_w * 2 + j % 2;
            const int inside = row < w->out_h && col < w->out_w;
            dy[j] = inside ? job->dy + ((n * w->out_h + row) * w->out_w + col) * w->vec + k : wino_zeros;
        }
        job->cpu->k.wino_output_back(own->m + i * WINO_K, WINO_STRIP * WINO_K, dy, cols);
    }
}

/* One panel of transformed inputs: v [16][WINO_STRIP][width], zero beyond cols. */
static void wino_grad_inputs(const struct wino_grad_job *job, float *v, int64_t first, int64_t count, int64_t c,
                             int64_t width, int64_t cols)
{
    const struct wino_plan *w = &job->g->w;
    if (cols < width)
        memset(v, 0, (size_t)(16 * WINO_STRIP * width) * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        const float *d[16];
        wino_pixels(w, job->x, first + i, d);
        for (int j = 0; j < 16; j++)
            d[j] += d[j] == wino_zeros ? 0 : c;
        job->cpu->k.wino_input(v + i * width, WINO_STRIP * width, d, cols);
    }
}

/* The outer products of one panel of a strip. */
static void wino_grad_products(const struct wino_grad_job *job, const struct wino_grad_own *own,
                               const struct gy_outer_kind *kind, const float *v, float *u, int64_t count, int64_t rows,
                               int64_t cols, int add)
{
    const int64_t tiles = gy_ceil_div(rows, kind->rows);
    (void)job;
    for (int xi = 0; xi < 16; xi++) {
        struct gy_outer_tile t = {.x = v + xi * WINO_STRIP * kind->width, .at = own->at, .dy_pitch = WINO_K,
                                  .pixels = count, .dw_pitch = WINO_C, .cols = cols, .add = add};
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t from = rows * i / tiles, to = rows * (i + 1) / tiles;
            t.dy = own->m + xi * WINO_STRIP * WINO_K + from;
            t.dw = u + (xi * WINO_K + from) * WINO_C;
            kind->fn[to - from - 1](&t);
        }
    }
}

/* From the 16 sums to the nine taps of each output channel. */
static void wino_grad_finish(const struct wino_grad_job *job, const struct wino_grad_own *own, float *dw, int64_t k,
                             int64_t rows, int64_t c, int64_t cols)
{
    const struct wino_plan *w = &job->g->w;
    for (int64_t i = 0; i < rows; i++) {
        float *dg[9];
        for (int tap = 0; tap < 9; tap++)
            dg[tap] = dw + ((k + i) * 9 + tap) * w->red + c;
        job->cpu->k.wino_filter_back(dg, own->u + i * WINO_C, WINO_K * WINO_C, cols, job->add && job->part_pitch == 0);
    }
}

static void wino_grad_tile(void *arg, int64_t tile, int thread)
{
    const struct wino_grad_job *job = arg;
    const struct wino_grad *g = job->g;
    const int64_t split = tile / g->c_blocks / g->k_blocks, k = tile / g->c_blocks % g->k_blocks * WINO_K;
    const int64_t c = tile % g->c_blocks * WINO_C, rows = gy_min64(WINO_K, g->w.vec - k);
    const int64_t c_end = gy_min64(c + WINO_C, g->w.red), end = gy_min64((split + 1) * g->split, g->w.tiles);
    struct gy_carve carve = {job->own + (size_t)thread * job->own_bytes, 0};
    const struct wino_grad_own own = wino_grad_carve(&carve);
    for (int32_t i = 0; i < WINO_STRIP + GY_OUTER_AHEAD; i++)
        own.at[i] = i < WINO_STRIP ? i : 0;
    for (int64_t at = split * g->split; at < end; at += WINO_STRIP) {
        const int64_t count = gy_min64(WINO_STRIP, end - at);
        const struct gy_outer_kind *kind = job->cpu->k.outer;
        wino_grad_outputs(job, &own, at, count, k, rows);
        for (int64_t from = c, cols; from < c_end; from += cols) {
            while (kind < job->cpu->k.outer + GY_KINDS - 1 && c_end - from < kind->width)
                kind++;
            cols = gy_min64(kind->width, c_end - from);
            wino_grad_inputs(job, own.v, at, count, from, kind->width, cols);
            wino_grad_products(job, &own, kind, own.v, own.u + from - c, count, rows, cols, at > split * g->split);
        }
    }
    wino_grad_finish(job, &own, job->dw + split * job->part_pitch, k, rows, c, c_end - c);
}

GY_INT size_t gy_cpu_wino_grad_need(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wino_grad g;
    struct wino_grad_job job;
    wino_grad_plan(&g, op, &cpu->k);
    return wino_grad_place(cpu, &g, NULL, &job);
}

GY_INT void gy_cpu_wino_grad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wino_grad g;
    wino_grad_plan(&g, op, &cpu->k);
    const int add = op->u->accumulate != 0;
    struct wino_grad_job job = {.cpu = cpu, .g = &g, .x = op->ptr[GY_X], .dy = op->ptr[GY_DY], .add = add};
    wino_grad_place(cpu, &g, op->ptr[GY_SCRATCH], &job);
    if (job.part_pitch == 0)
        job.dw = op->ptr[GY_DW];
    gy_pool_run(cpu->pool, wino_grad_tile, &job, g.splits * g.k_blocks * g.c_blocks);
    if (job.part_pitch > 0)
        gy_cpu_sum_parts(cpu, job.dw, g.splits, g.floats, job.part_pitch, op->ptr[GY_DW], add);
}
