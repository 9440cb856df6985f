/* SPDX-License-Identifier: MIT */
/* conv_grad.c: weight gradient. For a block of output channels k and input channels c it sums over
 * pixels dy[pixel][k] * x[pixel at a tap][c]. A tile owns a block of dw that stays near the core
 * for all taps, and walks strips of pixels. Each strip and tap lists only pixels with an input.
 * When dw is small and the image large, pixels are split over tiles, too; parts are added in a
 * fixed order.
 *
 * Rows of dy are read where they lie, or first copied into panels of a register tile's rows, or
 * copied row by row. As they lie, rows of many channels share a few sets of the caches.
 *
 * bf16: where the processor multiplies pairs, pixels are taken two by two. The panel of x and the
 * rows of dy are interleaved as they are gathered. Otherwise both are widened as they are gathered.
 *
 * With few channels, whole patches of lines take part, so vectors are full. A line is copied once;
 * in bf16 as pairs of each value and the next pixel's. Where output channels are whole panels of
 * the widest kind, vectors run over them instead. Then the rows of a register tile are values of
 * the patches, and the block of dw is transposed at the end. */
#include "kernels/cpu/block_sizes.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/driver.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/product.h"

#define WGRAD_TILE 32768       /* floats of dw of a tile, as counted where pixels are split */
#define WGRAD_SPLIT_PIXELS 256 /* fewest pixels a split is worth */
#define WGRAD_PARTS_MAX (1 << 22) /* floats of parts in all */
#define WGRAD_BIAS_ROWS 512
#define WGRAD_K_BLOCK 128      /* rows of such a tile, at most */
#define WGRAD_ROWS_FEW 64      /* blocks of at most 64 rows are not cut further for threads */
#define WGRAD_ITEMS_EACH 4     /* blocks wanted for each thread */
#define WGRAD_MEETS 1024       /* floats: dy rows a multiple of it apart share a cache set */
#define WGRAD_COPY_DEPTH 256   /* from so many channels of x on, such rows are copied first, */
#define WGRAD_COPY_STRIPS 4    /* and strips are 4 times as long: 384 pixels, not 96 */
#define WGRAD_SHARES 4         /* the last panels of a strip that prefetch the next one */
#define WGRAD_WHOLE 7          /* of an image with so many pixels a side few are at the edge */
#define WGRAD_PANEL_GAP (GY_WIDTH_MAX / 4) /* floats between panels of dy */
#define WGRAD_VECTORS (GY_WIDTH_MAX / 4) /* vectors of a panel, at most */

static const float wgrad_zeros[1];

struct wgrad_own {
    const float **rows; /* [strip], with lines [filter rows][strip] */
    const float **next; /* [strip]: of the next strip, where there is one tap */
    const void **dy_rows; /* [strip] */
    float *lines;
    float *pairs;       /* of lines: each value and the one of the next pixel */
    int32_t *at;        /* [strip]: pixels that count at this tap */
    float *turned;      /* [depth][k_block]: dw the other way round */
    float *patch;       /* [strip][pitch of patches] */
    float *x;           /* [strip][width]: panel of x at this tap */
    float *dy;          /* bf16: [strip][dy_pitch] or pairs [strip / 2][]; panels: [strip][rows] */
};

/* Scratch of all threads. */
struct wgrad_all {
    unsigned char *own; /* own_bytes a thread */
    float *parts;       /* of dw, part_pitch apart */
};

struct wgrad_plan {
    struct gy_product p;
    int64_t taps, depth;                 /* dw is [K][taps][depth] */
    int lines;                           /* few channels: patches are taken from lines, one tap */
    int join; /* patches are copied: with turned, or where lines are not whole vectors */
    int turned;                          /* lines: vectors run over output channels */
    int64_t line, pitch, row; /* floats (pairs) of a patch's line, a patch; pixels of a row, or 1 */
    int64_t k_block, c_block, k_blocks, c_blocks;
    int64_t splits, split, strip; /* pixels a split, a strip */
    int64_t dy_pitch;             /* of dy after widening, pairing or a copy by rows */
    int64_t dy_floats;            /* of that, or of panels */
    int64_t floats;               /* of dw */
    int half, pair;               /* bf16: widened, or (pair) two pixels at a time */
    int panels, copy;             /* float: dy is copied, into panels or row by row */
    int whole;                    /* panels of all pixels serve all taps; x is 0 without input */
    const float *zeros;
    int64_t part_pitch;                  /* floats from part to part of dw; 0: dw itself */
    struct wgrad_own own;                /* layouts of scratch */
    struct wgrad_all all;
    size_t own_bytes;
};

struct wgrad_job {
    const struct gy_cpu *cpu;
    const struct wgrad_plan *plan;
    const void *x, *dy;
    float *dw;           /* or the first part */
    int add;
    unsigned char *own;
};

/* Few channels: whole patches, made of lines. */
static int wgrad_take_lines(struct wgrad_plan *w, const struct gy_op *op, struct gy_planner *planner)
{
    const struct gy_kernels *const k = &planner->cpu->k;
    gy_product_forward(&w->p, op, planner, GY_PRODUCT_LINES);
    if (!w->p.lines)
        return 0;
    w->lines = 1;
    w->pair = w->p.odd;
    w->taps = 1;
    w->line = w->p.w.taps * (int64_t)w->p.red;
    w->depth = w->p.h.taps * w->line;
    w->turned = w->p.vec % (w->pair ? k->outer_pair : k->outer)[0].width == 0;
    w->join = w->turned || w->line % k->lanes != 0;
    w->pitch = ((w->depth + 15) & ~(int64_t)15) + 16;
    return 1;
}

/* Splits wanted, by tiles of a fixed size, so that their real size does not move a split. */
static int64_t wgrad_splits(const struct wgrad_plan *w, const struct gy_op *op)
{
    const int64_t rows = gy_min64(w->p.vec, WGRAD_K_BLOCK), cols = gy_max64(WGRAD_TILE / (rows * w->taps) / 64 * 64, 64);
    const int64_t tiles = w->p.groups * gy_ceil_div(w->p.vec, rows) * gy_ceil_div(w->depth, cols);
    return gy_ceil_div(op->block[GY_BLOCK_ITEMS], tiles);
}

/* Up to whole grid rows, where work is cut at such. */
static int64_t wgrad_rows_up(const struct wgrad_plan *w, int64_t pixels)
{
    return gy_ceil_div(pixels, w->row) * w->row;
}

/* Blocks of dw of at most so many rows. */
static void wgrad_cut_blocks(struct wgrad_plan *w, const struct gy_op *op, int64_t rows)
{
    w->k_block = gy_min64(w->p.vec, rows);
    const int64_t c_fit = gy_max64(op->block[GY_BLOCK_KEEP] / (w->k_block * w->taps) / 64 * 64, 64);
    w->k_blocks = gy_ceil_div(w->p.vec, w->k_block);
    w->c_blocks = gy_ceil_div(w->depth, c_fit);
    w->c_block = gy_min64(gy_ceil_div(gy_ceil_div(w->depth, w->c_blocks), 16) * 16, w->depth);
    w->c_blocks = gy_ceil_div(w->depth, w->c_block);
}

static int64_t wgrad_items(const struct wgrad_plan *w)
{
    return w->p.groups * w->splits * w->k_blocks * w->c_blocks;
}

/* From panel to panel of dy for tiles of a kind. */
static int64_t wgrad_panel(const struct wgrad_plan *w, const struct gy_outer_kind *kind)
{
    return kind->rows * w->strip + WGRAD_PANEL_GAP;
}

static void wgrad_cut(struct wgrad_plan *w, const struct gy_op *op, struct gy_planner *planner)
{
    const struct gy_product *p = &w->p;
    const struct gy_cpu *const cpu = planner->cpu;
    const struct gy_kernels *k = &cpu->k;
    w->zeros = cpu->zeros;
    if (!wgrad_take_lines(w, op, planner)) {
        gy_product_forward(&w->p, op, planner, GY_PRODUCT_SINGLE);
        w->taps = p->taps;
        w->depth = p->depth;
        w->pair = op->dtype == GY_BF16 && k->outer_pair[0].fn && !p->lines && !p->patch;
    }
    w->half = op->dtype == GY_BF16;
    w->panels = !w->half && !w->lines && k->outer[0].panels;
    w->copy = !w->half && !w->lines && !w->panels && p->out_pitch % WGRAD_MEETS == 0 && w->depth >= WGRAD_COPY_DEPTH;
    w->whole = w->panels && w->taps > 1 && !p->patch && w->depth <= GY_CHANNELS_MOST && gy_min64(p->h.grid, p->w.grid) >= WGRAD_WHOLE;
    w->floats = (int64_t)op->geom.k * w->taps * w->depth;
    int64_t splits = gy_min64(wgrad_splits(w, op), p->pixels / WGRAD_SPLIT_PIXELS);
    splits = gy_max64(gy_min64(splits, WGRAD_PARTS_MAX / gy_max64(w->floats, 1)), 1);
    w->row = w->lines ? p->w.grid : 1;
    w->split = wgrad_rows_up(w, gy_max64(gy_ceil_div(p->pixels, splits), 1));
    w->splits = gy_max64(gy_ceil_div(p->pixels, w->split), 1);
    const int64_t strip = op->block[GY_BLOCK_STRIP] * (w->copy ? WGRAD_COPY_STRIPS : 1);
    const int64_t strips = gy_max64(gy_ceil_div(w->split, strip + strip / 4), 1);
    w->strip = wgrad_rows_up(w, gy_ceil_div(w->split, strips));
    w->p.strip = w->strip;
    /* the cuts of dw's blocks move no sum, so there are more where threads would wait */
    int64_t rows = op->block[GY_BLOCK_ROWS];
    wgrad_cut_blocks(w, op, rows);
    for (; rows > WGRAD_ROWS_FEW && wgrad_items(w) < WGRAD_ITEMS_EACH * cpu->threads; rows /= 2)
        wgrad_cut_blocks(w, op, rows / 2);
    w->dy_pitch = ((w->k_block + 15) & ~(int64_t)15) + 16; /* neighbours lie in other cache sets */
    w->dy_floats = w->half || w->copy ? (w->strip + 1) * w->dy_pitch : 0;
    for (int i = 0; i < GY_KINDS && w->panels; i++)
        w->dy_floats = gy_max64(w->dy_floats, gy_ceil_div(w->k_block, k->outer[i].rows) * wgrad_panel(w, &k->outer[i]));
}

/* Lays out a thread's scratch; returns the bytes. */
static size_t wgrad_lay_own(const struct wgrad_plan *w, struct wgrad_own *own)
{
    size_t used = 0;
    const size_t strip = (size_t)w->strip;
    const size_t lines = w->lines ? (size_t)(gy_product_lines_floats(&w->p) + (int64_t)w->p.w.in_step * w->p.red + 16) : 0;
    own->rows = gy_scratch_take(&used, strip * (w->join ? (size_t)w->p.h.taps : 1), sizeof *own->rows);
    own->next = gy_scratch_take(&used, w->taps == 1 ? strip : 0, sizeof *own->next);
    own->dy_rows = gy_scratch_take(&used, strip, sizeof *own->dy_rows);
    own->lines = gy_scratch_take(&used, lines, sizeof(float));
    own->pairs = gy_scratch_take(&used, w->pair ? 2 * lines : 0, sizeof(float));
    own->at = gy_scratch_take(&used, strip + GY_OUTER_LOOKAHEAD, sizeof *own->at);
    own->patch = gy_scratch_take(&used, w->join ? strip * (size_t)w->pitch
                                                : w->p.patch ? strip * (size_t)gy_product_patch_pitch(&w->p) : 0, sizeof(float));
    own->turned = gy_scratch_take(&used, w->turned ? (size_t)(w->depth * w->k_block) : 0, sizeof(float));
    own->x = gy_scratch_take(&used, (strip + 1) * GY_WIDTH_MAX, sizeof(float));
    own->dy = gy_scratch_take(&used, (size_t)w->dy_floats, sizeof(float));
    return used;
}

/* Floats or pairs from a line of a patch to the next. */
static int64_t wgrad_line_tap(const struct wgrad_plan *w)
{
    return w->p.line_tap * (w->pair ? 2 : 1);
}

/* Lists the pixels of the strip that have an input at the tap in rows and at; returns how many.
 * With patches that is all of them. */
static int64_t wgrad_list(const struct wgrad_plan *w, const struct wgrad_own *own, const void *x, int64_t pixel,
                          int64_t count, int64_t tap)
{
    const struct gy_product *p = &w->p;
    int64_t n = 0;
    if (p->patch)
        for (int64_t i = 0; i < count; i++)
            own->rows[i] = own->patch + i * gy_product_patch_pitch(p);
    else
        gy_product_rows(p, x, pixel, count, tap, w->whole ? w->zeros : wgrad_zeros, own->rows);
    for (int64_t i = 0; i < count; i++) {
        const float *const row = own->rows[i];
        own->rows[n] = row;
        own->at[n] = (int32_t)i;
        n += row != wgrad_zeros;
    }
    return n;
}

/* Copies lines that pixels of whole grid rows meet; own->rows: begin of each pixel's patch, or of
 * each pair of neighbours in a row, whose values are then pairs. Returns how many. */
static int64_t wgrad_lines(const struct wgrad_job *job, const struct wgrad_own *own, const void *x, int64_t pixel,
                           int64_t count)
{
    const struct wgrad_plan *w = job->plan;
    const struct gy_product *p = &w->p;
    const int64_t lines = gy_product_lines(p, x, pixel, count, own->lines);
    gy_product_line_rows(p, own->lines, pixel, count, own->rows);
    if (!w->pair)
        return count;
    const uint16_t *const from = (const uint16_t *)(const void *)own->lines;
    job->cpu->k.pair_values(own->pairs, from, from + p->w.in_step * p->red, lines * 2 * p->line_pitch);
    int64_t n = 0;
    for (int64_t g = 0; g < count; g += w->row)
        for (int64_t j = g; j < g + w->row; j += 2)
            own->rows[n++] = own->pairs + ((const uint16_t *)(const void *)own->rows[j] - from);
    return n;
}

/* Whole patches of count of them, copied from the lines. */
static void wgrad_join(const struct wgrad_job *job, const struct wgrad_own *own, int64_t count)
{
    const struct wgrad_plan *w = job->plan;
    for (int64_t i = count; i < count * w->p.h.taps; i++)
        own->rows[i] = own->rows[i - count] + wgrad_line_tap(w);
    job->cpu->k.patches(own->patch, w->pitch, own->rows, w->p.h.taps, w->line, count);
    for (int64_t i = 0; i < count; i++)
        own->rows[i] = own->patch + i * w->pitch;
}

struct wgrad_area { /* the block of dw that a tile owns */
    int64_t c_from, c_to, k_from, k_count;
    const struct gy_outer_kind *kinds;
};

/* The next strip, to be prefetched: x's rows at own->next; dy's dy_from bytes behind this one's. */
struct wgrad_next {
    int64_t dy_from, count;
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
}

/* Rows of dy of the listed pixels. */
static void wgrad_dy_rows(const struct wgrad_plan *w, const struct wgrad_own *own, const void *dy, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++)
        own->dy_rows[i] = gy_cpu_at(dy, own->at[i] * w->p.out_pitch, w->half ? GY_BF16 : GY_F32);
}

/* dy of the listed pixels, two by two or, floats, one by one. */
static void wgrad_copy_dy(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area, int64_t pixels)
{
    const struct gy_kernels *k = &job->cpu->k;
    const void *const rows = own->dy_rows;
    if (job->plan->pair)
        k->pair_rows(own->dy, job->plan->dy_pitch, (const uint16_t *const *)rows, area->k_from, area->k_count, pixels);
    else
        k->gather(own->dy, job->plan->dy_pitch, (const float *const *)rows, area->k_from, area->k_count, pixels);
}

/* dy of all pixels of the strip, widened. */
static void wgrad_wide_dy(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                          const uint16_t *dy, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        job->cpu->k.widen[GY_BF16](own->dy + i * job->plan->dy_pitch, dy + i * job->plan->p.out_pitch + area->k_from,
                                   area->k_count);
}

/* The same of patches: every vector has its place behind a patch's first value. */
static void wgrad_gather_lines(const struct wgrad_job *job, const struct wgrad_own *own, int64_t width, int64_t c,
                               int64_t pixels)
{
    const struct wgrad_plan *w = job->plan;
    const int64_t step = job->cpu->k.lanes;
    int32_t at[WGRAD_VECTORS];
    for (int64_t i = 0; i < width / step; i++) {
        const int64_t from = c + i * step;
        at[i] = (int32_t)(w->join ? from : from / w->line * wgrad_line_tap(w) + from % w->line);
    }
    job->cpu->k.gather_at(own->x, width, own->rows, at, pixels);
}

/* The panel of x: cols columns from c on of the listed pixels. */
static void wgrad_gather(const struct wgrad_job *job, const struct wgrad_own *own, int64_t width, int64_t c,
                         int64_t cols, int64_t pixels)
{
    const struct gy_kernels *k = &job->cpu->k;
    const struct gy_product *p = &job->plan->p;
    if (job->plan->lines) {
        wgrad_gather_lines(job, own, width, c, pixels);
        return;
    }
    if (!job->plan->pair && (!job->plan->half || p->patch)) {
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

/* The rows of dw that register tile i of tiles takes: from, count. */
static int64_t wgrad_rows_of(int64_t rows, int64_t tiles, int64_t i, int64_t *count)
{
    const int64_t from = rows * i / tiles;
    *count = rows * (i + 1) / tiles - from;
    return from;
}

/* What the register tiles prefetch for the next gather. A tile takes one cache line of every row,
 * or of every second row where it takes pixels in pairs. */
struct wgrad_lookahead {
    struct wgrad_rows { /* dy, x */
        const void *const *rows;
        int64_t from, lines, count, each; /* first byte; a row's lines; rows in all, a tile */
    } part[2];
    int64_t every, shares; /* 1 or 2; tiles that share a line */
};

static int64_t wgrad_lines_of(int64_t bytes)
{
    return gy_ceil_div(bytes, GY_CACHE_LINE);
}

/* dy of the next strip: the last panels share its lines, so memory is busy all the time. */
static struct wgrad_rows wgrad_dy_lookahead(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                                            const struct wgrad_next *next, int64_t c, int64_t pixels)
{
    const int64_t unit = job->plan->half ? 2 : 4, width = area->kinds[0].width;
    const int64_t lines = next->count > 0 ? wgrad_lines_of(area->k_count * unit) : 0;
    const int64_t panels = gy_min64(gy_ceil_div(area->c_to - area->c_from, width), WGRAD_SHARES);
    const int64_t left = gy_ceil_div(area->c_to - c, width); /* panels after this one */
    const int64_t from = lines * gy_max64(panels - 1 - left, 0) / panels, to = lines * gy_max64(panels - left, 0) / panels;
    return (struct wgrad_rows){(const void *const *)own->dy_rows, next->dy_from + area->k_from * unit + from * GY_CACHE_LINE, to - from,
                               gy_min64(pixels, next->count), 0};
}

/* After column c: the next columns of the listed pixels, or the next strip. */
static struct wgrad_lookahead wgrad_make_lookahead(const struct wgrad_job *job, const struct wgrad_own *own,
                                                   const struct wgrad_area *area, const struct wgrad_next *next, int64_t c,
                                                   int64_t pixels, int64_t tiles)
{
    const struct wgrad_plan *w = job->plan;
    const int64_t unit = w->half ? 2 : 4, width = area->kinds[0].width;
    const int direct = !w->lines && !w->p.patch, more = direct && c < area->c_to;
    const int64_t from = more ? c : area->c_from, lines = wgrad_lines_of(gy_min64(width, area->c_to - from) * unit);
    struct wgrad_lookahead a = { .every = w->pair && direct ? 2 : 1 };
    a.part[0] = wgrad_dy_lookahead(job, own, area, next, c, pixels);
    if (more)
        a.part[1] = (struct wgrad_rows){(const void *const *)own->rows, from * unit, lines, pixels, 0};
    else if (direct && w->taps == 1)
        a.part[1] = (struct wgrad_rows){(const void *const *)own->next, from * unit, lines, next->count, 0};
    a.shares = gy_max64(tiles / gy_max64((a.part[0].lines + a.part[1].lines) * a.every, 1), 1);
    for (int i = 0; i < 2; i++)
        a.part[i].each = gy_ceil_div(gy_ceil_div(a.part[i].count, a.every), a.shares);
    return a;
}

/* What the next tile prefetches. Tiles share a line of all rows: a core has too few in flight. */
static void wgrad_prefetch(const struct wgrad_lookahead *a, struct gy_outer_tile *t, int64_t tile)
{
    int64_t line = tile / a->shares;
    const int64_t share = tile - line * a->shares, odd = line & (a->every - 1);
    t->lookahead.count = 0;
    for (int i = 0; i < 2; i++) {
        const struct wgrad_rows *const p = &a->part[i];
        if (line < p->lines * a->every) {
            const int64_t first = p->each * share;
            t->lookahead.lines = p->rows + odd + first * a->every;
            t->lookahead.first = p->from + (a->every == 2 ? line / 2 : line) * GY_CACHE_LINE;
            t->lookahead.step = a->every;
            t->lookahead.count = gy_min64(p->each, (a->every == 2 ? (p->count - odd + 1) / 2 : p->count) - first);
            return;
        }
        line -= p->lines * a->every;
    }
}

/* What of a strip's dy is laid out already: every pixel, panels of a kind. */
struct wgrad_laid {
    int all;
    const struct gy_outer_kind *kind;
};

/* One tap: every panel of x meets every k tile. dy: area's channel 0 at the strip's pixel 0. */
static void wgrad_tap(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                      struct gy_outer_tile *t, float *dw, const float *dy, const struct wgrad_next *next, struct wgrad_laid *laid)
{
    const struct wgrad_plan *w = job->plan;
    const int64_t pixels = t->pixels;
    const struct gy_outer_kind *k = area->kinds;
    t->pixels = w->pair && !w->lines ? (pixels + 1) / 2 : pixels;
    for (int64_t c = area->c_from; c < area->c_to; c += t->cols) {
        while (k < area->kinds + GY_KINDS - 1 && area->c_to - c < k->width)
            k++;
        t->cols = gy_min64(k->width, area->c_to - c);
        if (w->panels && laid->kind != k)
            job->cpu->k.panels(own->dy, wgrad_panel(w, k), (const float *const *)(const void *)own->dy_rows, area->k_from, area->k_count,
                               k->rows, pixels);
        laid->kind = k;
        wgrad_gather(job, own, k->width, c, t->cols, pixels);
        const int64_t tiles = gy_ceil_div(area->k_count, k->rows);
        const struct wgrad_lookahead lookahead = wgrad_make_lookahead(job, own, area, next, c + t->cols, pixels, tiles);
        for (int64_t i = 0; i < tiles; i++) {
            int64_t count;
            int64_t from = wgrad_rows_of(area->k_count, tiles, i, &count);
            t->dy = dy + from;
            if (w->panels) {
                from = i * k->rows;
                count = gy_min64(k->rows, area->k_count - from);
                t->dy = own->dy + i * wgrad_panel(w, k);
                t->dy_pitch = k->rows;
            }
            t->dw = dw + (area->k_from + from) * t->dw_pitch + c;
            wgrad_prefetch(&lookahead, t, i);
            k->fn[count - 1](t);
        }
    }
}

/* One tap of a strip: dy is laid out as the kernels want it. laid: since the tap before. */
static void wgrad_strip_tap(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                            const struct gy_outer_tile *tile, int64_t tap, const void *dy, int64_t count,
                            const struct wgrad_next *next, struct wgrad_laid *laid)
{
    const struct wgrad_plan *w = job->plan;
    struct gy_outer_tile own_tile = *tile, *const t = &own_tile;
    const int64_t pixels = t->pixels;
    const int copied = w->pair || w->copy;
    t->dy_pitch = w->half || copied ? w->dy_pitch : w->p.out_pitch;
    wgrad_dy_rows(w, own, dy, pixels);
    const int same = laid->all && pixels == count;
    if (copied && !same)
        wgrad_copy_dy(job, own, area, pixels);
    *laid = (struct wgrad_laid){pixels == count, same ? laid->kind : NULL};
    memset(own->at + pixels, 0, GY_OUTER_LOOKAHEAD * sizeof *own->at);
    t->at = copied || w->panels || pixels == count ? NULL : own->at; /* copies have no gaps */
    const struct wgrad_next none = {0, 0};
    wgrad_tap(job, own, area, t, t->dw + tap * w->depth, w->half || copied ? own->dy : (const float *)dy + area->k_from,
              tap + 1 == w->taps ? next : &none, laid);
}

/* Rows of dy in strips of whole grid rows, cols channels from k on: in pairs, widened or copied. */
static void wgrad_line_dy(const struct wgrad_job *job, const struct wgrad_own *own, float *dst, int64_t pitch, int64_t k,
                          int64_t cols, int64_t count)
{
    const struct wgrad_plan *w = job->plan;
    const int64_t half = (w->row + 1) / 2;
    for (int64_t g = 0; g * w->row < count && w->pair; g++)
        job->cpu->k.pair_rows(dst + g * half * pitch, pitch, (const uint16_t *const *)(const void *)own->dy_rows + g * w->row, k,
                              cols, w->row);
    for (int64_t i = 0; i < count && !w->pair; i++)
        job->cpu->k.widen[w->half ? GY_BF16 : GY_F32](dst + i * pitch, gy_cpu_at(own->dy_rows[i], k, w->half ? GY_BF16 : GY_F32), cols);
}

/* Output channels [from, to) of an area, in vectors; values of patches meet dy while it is near. */
static void wgrad_turned_group(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                               struct gy_outer_tile *t, int64_t from, int64_t to, int64_t count)
{
    const struct wgrad_plan *w = job->plan;
    const struct gy_outer_kind *const kind = area->kinds;
    const int64_t rows = area->c_to - area->c_from, tiles = gy_ceil_div(rows, kind->rows);
    const float *const dy = w->half ? own->x : (const float *)own->dy_rows[0] + area->k_from + from;
    for (int64_t k = from; k < to && w->half; k += kind->width)
        wgrad_line_dy(job, own, own->x + (k - from) * count, kind->width, area->k_from + k, kind->width, count);
    for (int64_t i = 0; i < tiles; i++) {
        int64_t values;
        const int64_t row = area->c_from + wgrad_rows_of(rows, tiles, i, &values);
        t->dy = own->patch + row;
        for (int64_t k = from; k < to; k += kind->width) {
            t->x = dy + (k - from) * (w->half ? count : 1);
            t->dw = own->turned + row * w->k_block + k;
            kind->fn[values - 1](t);
        }
    }
}

static void wgrad_strip_turned(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                               struct gy_outer_tile *t, int64_t count)
{
    const struct wgrad_plan *w = job->plan;
    t->cols = area->kinds->width;
    t->x_pitch = w->half ? 0 : w->p.out_pitch;
    t->dw_pitch = w->k_block;
    t->dy_pitch = w->pitch;
    for (int64_t k = 0; k < area->k_count; k += GY_WIDTH_MAX)
        wgrad_turned_group(job, own, area, t, k, gy_min64(k + GY_WIDTH_MAX, area->k_count), count);
}

/* A strip of whole grid rows with lines: patches (or pairs of them) meet dy (or pairs of it). */
static void wgrad_strip_lines(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                              struct gy_outer_tile *t, const void *x, int64_t pixel, const void *dy, int64_t count,
                              const struct wgrad_next *next)
{
    const struct wgrad_plan *w = job->plan;
    t->pixels = wgrad_lines(job, own, x, pixel, count);
    if (w->join)
        wgrad_join(job, own, t->pixels);
    t->dy_pitch = w->half ? w->dy_pitch : w->p.out_pitch;
    for (int64_t i = 0; i < count; i++)
        own->dy_rows[i] = gy_cpu_at(dy, i * w->p.out_pitch, w->half ? GY_BF16 : GY_F32);
    if (w->turned) {
        wgrad_strip_turned(job, own, area, t, count);
        return;
    }
    if (w->half)
        wgrad_line_dy(job, own, own->dy, w->dy_pitch, area->k_from, area->k_count, count);
    struct wgrad_laid laid = {0, NULL};
    wgrad_tap(job, own, area, t, t->dw, w->half ? own->dy : (const float *)dy + area->k_from, next, &laid);
}

/* The block of dw, the other way round and back. */
static void wgrad_turn(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area, float *dw, int back)
{
    const struct wgrad_plan *w = job->plan;
    float *const block = dw + area->k_from * w->depth + area->c_from, *const turned = own->turned + area->c_from * w->k_block;
    if (back)
        job->cpu->k.transpose(block, w->depth, turned, w->k_block, area->c_to - area->c_from, area->k_count);
    else
        job->cpu->k.transpose(turned, w->k_block, block, w->depth, area->k_count, area->c_to - area->c_from);
}

/* A strip tap by tap. */
static void wgrad_strip_taps(const struct wgrad_job *job, const struct wgrad_own *own, const struct wgrad_area *area,
                             struct gy_outer_tile *t, const void *x, int64_t pixel, const void *dy, int64_t count,
                             const struct wgrad_next *next)
{
    const struct wgrad_plan *w = job->plan;
    struct wgrad_laid laid = {0, NULL};
    if (w->p.patch)
        gy_product_patches(&w->p, x, pixel, count, own->patch, gy_product_patch_pitch(&w->p));
    if (w->half && !w->pair)
        wgrad_wide_dy(job, own, area, dy, count);
    for (int64_t tap = 0; tap < w->taps; tap++) {
        t->pixels = wgrad_list(w, own, x, pixel, count, tap);
        wgrad_strip_tap(job, own, area, t, tap, dy, count, next, &laid);
    }
}

/* The strip of count pixels, 0 or less: none, from pixel `at` on, behind one of `before` pixels. */
static struct wgrad_next wgrad_next_strip(const struct wgrad_job *job, const struct wgrad_own *own, const void *x, int64_t at,
                                          int64_t count, int64_t before)
{
    const struct wgrad_plan *w = job->plan;
    if (count > 0 && w->taps == 1 && !w->lines && !w->p.patch)
        gy_product_rows(&w->p, x, at, count, 0, wgrad_zeros, own->next);
    return (struct wgrad_next){before * w->p.out_pitch * (w->half ? 2 : 4), gy_max64(count, 0)};
}

static void wgrad_tile(void *arg, int64_t tile, int thread)
{
    const struct wgrad_job *job = arg;
    const struct wgrad_plan *w = job->plan;
    const struct gy_product *p = &w->p;
    const int64_t rest = tile / w->c_blocks / w->k_blocks, split = rest % w->splits, group = rest / w->splits;
    const int64_t end = gy_min64((split + 1) * w->split, p->pixels), row = w->taps * w->depth;
    const int dtype = w->half ? GY_BF16 : GY_F32;
    struct wgrad_own own = w->own;
    gy_scratch_move(&own, sizeof own, job->own + (size_t)thread * w->own_bytes);
    float *const dw = job->dw + split * w->part_pitch + group * p->vec * row;
    const void *const x = gy_cpu_at(job->x, group * p->red, dtype);
    struct wgrad_area area;
    wgrad_make_area(job, tile % w->c_blocks, tile / w->c_blocks % w->k_blocks, &area);
    if (w->turned && job->add && w->part_pitch == 0)
        wgrad_turn(job, &own, &area, dw, 0);
    for (int64_t at = split * w->split; at < end; at += w->strip) {
        const int64_t count = gy_min64(w->strip, end - at);
        const void *const dy = gy_cpu_at(job->dy, at * p->out_pitch + group * p->vec, dtype);
        const int64_t left = gy_min64(w->strip, end - at - count);
        const struct wgrad_next next = wgrad_next_strip(job, &own, x, at + count, left, count);
        struct gy_outer_tile t = { .x = own.x, .dw = dw, .dw_pitch = row };
        t.add = at > split * w->split || (job->add && w->part_pitch == 0);
        if (w->lines)
            wgrad_strip_lines(job, &own, &area, &t, x, at, dy, count, &next);
        else
            wgrad_strip_taps(job, &own, &area, &t, x, at, dy, count, &next);
    }
    if (w->turned)
        wgrad_turn(job, &own, &area, dw, 1);
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

/* Rows of dy are added in parts of WGRAD_BIAS_ROWS, at the begin of scratch. */
static struct wgrad_bias_job wgrad_bias(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    return (struct wgrad_bias_job){cpu, op->ptr[GY_DY], op->dtype, op->ptr[GY_SCRATCH], (int64_t)g->n * g->p * g->q, g->k};
}

GY_INT size_t gy_cpu_dbias_need(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct wgrad_bias_job job = wgrad_bias(cpu, op);
    return op->tensor[GY_DBIAS] < 0 ? 0 : (size_t)(gy_ceil_div(job.rows, WGRAD_BIAS_ROWS) * job.channels) * sizeof(float);
}

GY_INT void gy_cpu_dbias_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct wgrad_bias_job job = wgrad_bias(cpu, op);
    const int64_t parts = gy_ceil_div(job.rows, WGRAD_BIAS_ROWS);
    if (!op->ptr[GY_DBIAS])
        return;
    gy_pool_run(cpu->pool, wgrad_bias_tile, &job, parts);
    gy_cpu_sum_parts(cpu, job.parts, parts, job.channels, job.channels, op->ptr[GY_DBIAS], op->u->accumulate != 0);
}

GY_INT void gy_cpu_wgrad_plan(struct gy_planner *planner, struct gy_op *op)
{
    struct wgrad_plan *const w = gy_planner_take(planner, 1, sizeof *w);
    const size_t bias = gy_cpu_dbias_need(planner->cpu, op);
    size_t used = 0;
    op->plan = w;
    if (!w)
        return;
    wgrad_cut(w, op, planner);
    w->own_bytes = wgrad_lay_own(w, &w->own);
    w->part_pitch = w->splits > 1 ? w->floats : 0;
    w->all.own = gy_scratch_take(&used, (size_t)planner->cpu->threads, w->own_bytes);
    w->all.parts = gy_scratch_take(&used, (size_t)(w->splits * w->part_pitch), sizeof(float));
    op->scratch_bytes = used > bias ? used : bias;
}

GY_INT void gy_cpu_wgrad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct wgrad_plan *const w = op->plan;
    const int add = op->u->accumulate != 0, split = w->part_pitch > 0;
    struct wgrad_all all = w->all;
    gy_scratch_move(&all, sizeof all, op->ptr[GY_SCRATCH]);
    struct wgrad_job job = { .cpu = cpu, .plan = w, .x = op->ptr[GY_X], .dy = op->ptr[GY_DY], .add = add, .own = all.own,
                            .dw = split ? all.parts : op->ptr[GY_DW] };
    gy_pool_run(cpu->pool, wgrad_tile, &job, wgrad_items(w));
    if (split)
        gy_cpu_sum_parts(cpu, all.parts, w->splits, w->floats, w->part_pitch, op->ptr[GY_DW], add);
    gy_cpu_dbias_run(cpu, op);
}
