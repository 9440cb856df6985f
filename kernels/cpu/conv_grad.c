/* SPDX-License-Identifier: MIT */
/* Weight gradient: for a block of output channels k and input channels c, sums over pixels of dy[pixel][k] *
 * x[pixel at a tap][c]. A tile owns a block of dw that stays near the core for all taps, and walks strips of
 * pixels; per strip and tap only the pixels that have an input are listed. When dw is small and the image large,
 * pixels are split over tiles too; the parts are then added in a fixed order.
 *
 * bf16: where the processor multiplies pairs, pixels are taken two by two: the panel of x and the rows of dy are
 * interleaved as they are gathered. Otherwise, and for images of few channels, both are widened as they are gathered. */
#include "conv.h"

#define WGRAD_TILE 32768       /* floats of dw of a tile, as counted where pixels are split */
#define WGRAD_SPLIT_PIXELS 256 /* fewest pixels a split is worth */
#define WGRAD_PARTS_MAX (1 << 22) /* floats of parts in all */
#define WGRAD_BIAS_ROWS 512
#define WGRAD_LINE_BELOW 32   /* filter rows of fewer floats are joined to patches */
#define WGRAD_K_BLOCK GY_BLOCK_ROWS_MOST
#define WGRAD_PATCH_MOST 32   /* channels up to which pairs of whole patches are taken, not of taps */

static const float wgrad_zeros[1];

struct wgrad_plan {
    struct gy_product p;
    int64_t taps, depth;                 /* dw is [K][taps][depth] */
    int patch;                           /* whole patches are copied: one tap */
    int64_t k_block, c_block, k_blocks, c_blocks;
    int64_t splits, split, strip;        /* pixels a split, a strip */
    int64_t floats;                      /* of dw */
    int half, pair;                      /* bf16: widened, or (pair) two pixels at a time */
};

struct wgrad_job {
    const struct gy_cpu *cpu;
    const struct wgrad_plan *plan;
    const void *x, *dy;
    float *dw;           /* or the first part */
    int64_t part_pitch;  /* floats from part to part; 0: dw itself */
    int add;
    unsigned char *own;
    size_t own_bytes;
};

struct wgrad_own {
    const float **rows; /* [strip], with lines [taps][strip] */
    const uint16_t **dy_rows; /* [strip], with pairs */
    float *lines;
    int32_t *at;        /* [strip]: pixels that count at this tap */
    float *patch;       /* [strip][patch pitch] */
    float *x;           /* [strip][width]: panel of x at this tap */
    float *dy;          /* bf16: [strip][k_block] widened, or [strip / 2][k_block] pairs */
};

/* bf16 in pairs with few channels: whole patches are copied (as pairs of channels), then interleaved by pixels. */
static int wgrad_take_patches(struct wgrad_plan *w, const struct gy_op *op, const struct gy_kernels *k)
{
    const struct gy_geom *g = &op->geom;
    gy_product_forward(&w->p, op, k, 1);
    if (!w->p.pair || w->p.odd || k->outer_pair[0].fn == NULL || g->groups > 1 || g->c > WGRAD_PATCH_MOST || g->r * g->s == 1)
        return 0;
    w->p.lines = w->p.copy = 0;
    w->p.patch = w->patch = w->pair = 1;
    w->taps = 1;
    w->depth = (int64_t)g->r * g->s * g->c;
    return 1;
}

/* Splits wanted, from tiles of a fixed size: the size that tiles have does not change where pixels are split. */
static int64_t wgrad_splits(const struct wgrad_plan *w, const struct gy_op *op)
{
    const int64_t rows = gy_min64(w->p.vec, WGRAD_K_BLOCK), cols = gy_max64(WGRAD_TILE / (rows * w->taps) / 64 * 64, 64);
    const int64_t tiles = w->p.groups * gy_ceil_div(w->p.vec, rows) * gy_ceil_div(w->depth, cols);
    return gy_ceil_div(op->block[GY_BLOCK_ITEMS], tiles);
}

static void wgrad_make_plan(struct wgrad_plan *w, const struct gy_op *op, const struct gy_kernels *k)
{
    const struct gy_product *p = &w->p;
    if (!wgrad_take_patches(w, op, k)) {
        gy_product_forward(&w->p, op, k, 0);
        w->patch = p->patch || (p->lines && p->depth < WGRAD_LINE_BELOW);
        w->taps = w->patch ? 1 : p->taps;
        w->depth = w->patch ? p->taps * p->depth : p->depth;
        w->pair = op->dtype == GY_BF16 && k->outer_pair[0].fn != NULL && !p->lines && !p->patch;
    }
    w->half = op->dtype == GY_BF16;
    w->floats = (int64_t)op->geom.k * w->taps * w->depth;
    w->k_block = gy_min64(p->vec, op->block[GY_BLOCK_ROWS]);
    const int64_t c_fit = gy_max64(op->block[GY_BLOCK_KEEP] / (w->k_block * w->taps) / 64 * 64, 64);
    w->k_blocks = gy_ceil_div(p->vec, w->k_block);
    w->c_blocks = gy_ceil_div(w->depth, c_fit);
    w->c_block = gy_min64(gy_ceil_div(gy_ceil_div(w->depth, w->c_blocks), 16) * 16, w->depth);
    w->c_blocks = gy_ceil_div(w->depth, w->c_block);
    int64_t splits = gy_min64(wgrad_splits(w, op), p->pixels / WGRAD_SPLIT_PIXELS);
    splits = gy_max64(gy_min64(splits, WGRAD_PARTS_MAX / gy_max64(w->floats, 1)), 1);
    w->split = gy_max64(gy_ceil_div(p->pixels, splits), 1);
    w->splits = gy_max64(gy_ceil_div(p->pixels, w->split), 1);
    const int64_t strip = op->block[GY_BLOCK_STRIP], strips = gy_max64(gy_ceil_div(w->split, strip + strip / 4), 1);
    w->strip = gy_ceil_div(w->split, strips);
    w->p.strip = w->strip;
}

static struct wgrad_own wgrad_carve_own(const struct wgrad_plan *w, struct gy_carve *carve)
{
    struct wgrad_own own;
    const size_t strip = (size_t)w->strip;
    own.rows = gy_carve_take(carve, strip * (w->p.lines ? (size_t)w->p.taps : 1), sizeof(*own.rows));
    own.dy_rows = gy_carve_take(carve, w->pair ? strip : 0, sizeof(*own.dy_rows));
    own.lines = gy_carve_take(carve, w->p.lines ? (size_t)gy_product_lines_floats(&w->p) : 0, sizeof(float));
    own.at = gy_carve_take(carve, strip + GY_OUTER_AHEAD, sizeof(*own.at));
    own.patch = gy_carve_take(carve, w->patch ? strip * (size_t)gy_product_patch_pitch(&w->p) : 0, sizeof(float));
    own.x = gy_carve_take(carve, (strip + 1) * GY_WIDTH_MAX, sizeof(float));
    own.dy = gy_carve_take(carve, w->half ? (strip + 1) * WGRAD_K_BLOCK : 0, sizeof(float));
    return own;
}

static size_t wgrad_place(const struct gy_cpu *cpu, const struct wgrad_plan *w, int bias, void *base,
                          struct wgrad_job *job, float **bias_parts)
{
    struct gy_carve carve = {base, 0};
    struct gy_carve own = {NULL, 0};
    wgrad_carve_own(w, &own);
    job->own_bytes = own.used;
    job->own = gy_carve_take(&carve, (size_t)cpu->threads, own.used);
    job->part_pitch = w->splits > 1 ? w->floats : 0;
    float *const parts = gy_carve_take(&carve, (size_t)(w->splits * job->part_pitch), sizeof(float));
    job->dw = job->part_pitch > 0 ? parts : NULL;
    const size_t bias_rows = (size_t)gy_ceil_div(w->p.pixels, WGRAD_BIAS_ROWS);
    *bias_parts = gy_carve_take(&carve, bias ? bias_rows * (size_t)w->p.out_pitch : 0, sizeof(float));
    return carve.used;
}

/* Lists the pixels of the strip that have an input at the tap (rows and at, side by side); returns how many. With lines
 * and patches that is all of them. */
static int64_t wgrad_list(const struct wgrad_plan *w, const struct wgrad_own *own, const void *x, int64_t pixel,
                          int64_t count, int64_t tap)
{
    const struct gy_product *p = &w->p;
    const int64_t pitch = gy_product_patch_pitch(p);
    int64_t n = 0;
    if (w->patch) {
        for (int64_t i = 0; i < count; i++)
            own->rows[i] = own->patch + i * pitch;
    } else if (p->lines) {
        gy_product_line_rows(p, own->lines + tap * p->line_tap, pixel, count, own->rows);
    } else {
        gy_product_rows(p, x, pixel, count, tap, wgrad_zeros, own->rows);
    }
    for (int64_t i = 0; i < count; i++) {
        const float *const row = own->rows[i];
        own->rows[n] = row;
        own->at[n] = (int32_t)i;
        n += row != wgrad_zeros;
    }
    return n;
}

/* Padded lines, and patches from them where wanted. */
static void wgrad_lines(const struct wgrad_job *job, const struct wgrad_own *own, const void *x, int64_t pixel,
                        int64_t count)
{
    const struct gy_product *p = &job->plan->p;
    gy_product_lines(p, x, pixel, count, own->lines);
    if (!job->plan->patch)
        return;
    for (int64_t t = 0; t < p->taps; t++)
        gy_product_line_rows(p, own->lines + t * p->line_tap, pixel, count, own->rows + t * count);
    job->cpu->k.patches(own->patch, gy_product_patch_pitch(p), own->rows, p->taps, p->depth, count);
}

struct wgrad_area { /* the block of dw that a tile owns */
    int64_t c_from, c_to, k_from, k_count;
    const struct gy_outer_kind *kinds;
    int64_t tiles;                   /* along k, the same cut for all kinds */
    int32_t edge[WGRAD_K_BLOCK + 1]; /* tile i: k_from + edge[i] to k_from + edge[i + 1] */
};

static void wgrad_make_area(const struct wgrad_job *job, int64_t ci, int64_t ki, struct wgrad_area *a)
{
    const struct wgrad_plan *w = job->plan;
    const int64_t k_from = ki * w->k_block, k_count = gy_min64(w->k_block, w->p.vec - k_from);
    a->c_from = ci * w->c_block;
    a->c_to = gy_min64(a->c_from + w->c_block, w->depth);
    a->k_from = k_from;
    a->k_count = k_count;
    a->kinds = w->pair ? job->cpu->k.outer_pair : job->cpu->k.outer;
    int widest = 0;
    while (widest < GY_KINDS - 1 && a->c_to - a->c_from < a->kinds[widest].width)
        widest++;
    int rows = a->kinds[widest].rows;
    for (int i = widest; i < GY_KINDS; i++)
        rows = a->kinds[i].rows < rows ? a->kinds[i].rows : rows;
    a->tiles = gy_ceil_div(k_count, rows);
    for (int64_t i = 0; i <= a->tiles; i++)
        a->edge[i] = (int32_t)(k_count * i / a->tiles);
}

/* dy of the listed pixels, two by two; then the list is the pairs themselves. */
static void wgrad_pair_dy(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                          const uint16_t *dy, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++)
        own->dy_rows[i] = dy + own->at[i] * job->plan->p.out_pitch;
    job->cpu->k.pair_rows(own->dy, WGRAD_K_BLOCK, own->dy_rows, area->k_from, area->k_count, pixels);
    for (int64_t i = 0; i < (pixels + 1) / 2; i++)
        own->at[i] = (int32_t)i;
}

/* dy of all pixels of the strip, widened. */
static void wgrad_wide_dy(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                          const uint16_t *dy, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        job->cpu->k.widen[GY_BF16](own->dy + i * WGRAD_K_BLOCK, dy + i * job->plan->p.out_pitch + area->k_from,
                                   area->k_count);
}

/* The panel of x: cols columns from c on of the listed pixels. */
static void wgrad_gather(const struct wgrad_job *job, const struct wgrad_own *own, int64_t width, int64_t c,
                         int64_t cols, int64_t pixels)
{
    const struct gy_kernels *k = &job->cpu->k;
    const struct gy_product *p = &job->plan->p;
    if (!job->plan->pair && (!job->plan->half || p->lines || p->patch)) {
        k->gather(own->x, width, own->rows, c, cols, pixels);
        return;
    }
    if (cols < width)
        memset(own->x, 0, (size_t)(pixels * width) * sizeof(float));
    if (job->plan->pair) {
        k->pair_rows(own->x, width, (const uint16_t *const *)(const void *)own->rows, c, cols, pixels);
        return;
    }
    for (int64_t i = 0; i < pixels; i++)
        k->widen[GY_BF16](own->x + i * width, gy_product_in(p, own->rows[i], c), cols);
}

/* One tap: every panel of x meets every k tile. dy: of area's first channel at the strip's first pixel. */
static void wgrad_tap(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                      struct gy_outer_tile *t, float *dw, const float *dy)
{
    const int64_t pixels = t->pixels;
    int kind = 0;
    t->pixels = job->plan->pair ? (pixels + 1) / 2 : pixels;
    for (int64_t c = area->c_from; c < area->c_to; c += t->cols) {
        while (kind < GY_KINDS - 1 && area->c_to - c < area->kinds[kind].width)
            kind++;
        const struct gy_outer_kind *k = &area->kinds[kind];
        t->cols = gy_min64(k->width, area->c_to - c);
        wgrad_gather(job, own, k->width, c, t->cols, pixels);
        for (int64_t i = 0; i < area->tiles; i++) {
            const int64_t at = area->edge[i], rows = area->edge[i + 1] - at;
            t->dy = dy + at;
            t->dw = dw + (area->k_from + at) * t->dw_pitch + c;
            k->fn[rows - 1](t);
        }
    }
}

/* One tap of a strip: dy is laid out as the kernels want it. all: every pixel of the strip was listed at the tap before. */
static void wgrad_strip_tap(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                            struct gy_outer_tile *t, int64_t tap, const void *dy, int64_t count, int *all)
{
    const struct wgrad_plan *w = job->plan;
    const int64_t pixels = t->pixels;
    const float *rows = own->dy;
    t->dy_pitch = w->half ? WGRAD_K_BLOCK : w->p.out_pitch;
    if (!w->half)
        rows = (const float *)dy + area->k_from;
    else if (w->pair && !(*all && pixels == count))
        wgrad_pair_dy(job, own, area, dy, pixels);
    else if (w->pair)
        for (int64_t i = 0; i < (pixels + 1) / 2; i++)
            own->at[i] = (int32_t)i;
    *all = pixels == count;
    memset(own->at + (w->pair ? (pixels + 1) / 2 : pixels), 0, GY_OUTER_AHEAD * sizeof(*own->at));
    wgrad_tap(job, own, area, t, t->dw + tap * w->depth, rows);
}

static void wgrad_tile(void *arg, int64_t tile, int thread)
{
    const struct wgrad_job *job = arg;
    const struct wgrad_plan *w = job->plan;
    const struct gy_product *p = &w->p;
    const int64_t rest = tile / w->c_blocks / w->k_blocks, split = rest % w->splits, group = rest / w->splits;
    const int64_t end = gy_min64((split + 1) * w->split, p->pixels), row = w->taps * w->depth;
    const int dtype = w->half ? GY_BF16 : GY_F32;
    struct gy_carve carve = {job->own + (size_t)thread * job->own_bytes, 0};
    const struct wgrad_own own = wgrad_carve_own(w, &carve);
    float *const dw = job->dw + split * job->part_pitch + group * p->vec * row;
    const void *const x = gy_cpu_at(job->x, group * p->red, dtype);
    struct wgrad_area area;
    wgrad_make_area(job, tile % w->c_blocks, tile / w->c_blocks % w->k_blocks, &area);
    for (int64_t at = split * w->split; at < end; at += w->strip) {
        const int64_t count = gy_min64(w->strip, end - at);
        const void *const dy = gy_cpu_at(job->dy, at * p->out_pitch + group * p->vec, dtype);
        int all = 0;
        if (p->patch)
            gy_product_patches(p, x, at, count, own.patch, gy_product_patch_pitch(p));
        if (p->lines)
            wgrad_lines(job, &own, x, at, count);
        if (w->half && !w->pair)
            wgrad_wide_dy(job, &own, &area, dy, count);
        for (int64_t tap = 0; tap < w->taps; tap++) {
            struct gy_outer_tile t = {.x = own.x, .at = own.at, .dw = dw, .dw_pitch = row};
            t.pixels = wgrad_list(w, &own, x, at, count, tap);
            t.add = at > split * w->split || (job->add && job->part_pitch == 0);
            wgrad_strip_tap(job, &own, &area, &t, tap, dy, count, &all);
        }
    }
}

struct wgrad_bias_job {
    const struct gy_cpu *cpu;
    const void *dy;
    int dtype;
    float *parts;
    int64_t rows, channels;
};

static void wgrad_bias_tile(void *arg, int64_t tile, int thread)
{
    const struct wgrad_bias_job *job = arg;
    const int64_t first = tile * WGRAD_BIAS_ROWS, count = gy_min64(WGRAD_BIAS_ROWS, job->rows - first);
    float *const sum = job->parts + tile * job->channels;
    memset(sum, 0, (size_t)job->channels * sizeof(float));
    job->cpu->k.col_sums[job->dtype](gy_cpu_at(job->dy, first * job->channels, job->dtype), count, job->channels,
                                     job->channels, sum);
    (void)thread;
}

GY_INT size_t gy_cpu_wgrad_need(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wgrad_plan plan;
    struct wgrad_job job;
    float *bias_parts;
    wgrad_make_plan(&plan, op, &cpu->k);
    return wgrad_place(cpu, &plan, op->tensor[GY_DBIAS] >= 0, NULL, &job, &bias_parts);
}

GY_INT void gy_cpu_wgrad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wgrad_plan w;
    float *bias_parts;
    const int add = op->u->accumulate != 0;
    wgrad_make_plan(&w, op, &cpu->k);
    struct wgrad_job job = {.cpu = cpu, .plan = &w, .x = op->ptr[GY_X], .dy = op->ptr[GY_DY], .add = add};
    wgrad_place(cpu, &w, op->ptr[GY_DBIAS] != NULL, op->ptr[GY_SCRATCH], &job, &bias_parts);
    if (job.part_pitch == 0)
        job.dw = op->ptr[GY_DW];
    gy_pool_run(cpu->pool, wgrad_tile, &job, w.p.groups * w.splits * w.k_blocks * w.c_blocks);
    if (job.part_pitch > 0)
        gy_cpu_sum_parts(cpu, job.dw, w.splits, w.floats, job.part_pitch, op->ptr[GY_DW], add);
    if (op->ptr[GY_DBIAS] == NULL)
        return;
    const int64_t parts = gy_ceil_div(w.p.pixels, WGRAD_BIAS_ROWS), channels = w.p.out_pitch;
    struct wgrad_bias_job bias = {cpu, op->ptr[GY_DY], op->dtype, bias_parts, w.p.pixels, channels};
    gy_pool_run(cpu->pool, wgrad_bias_tile, &bias, parts);
    gy_cpu_sum_parts(cpu, bias_parts, parts, channels, channels, op->ptr[GY_DBIAS], add);
}
