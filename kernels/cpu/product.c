/* SPDX-License-Identifier: MIT */
/* product.c: geometry of convolution products: both views (forward, a class of the data gradient),
 * the cut of their work, each (output pixel, tap)'s input pixel. */
#include "kernels/cpu/block_sizes.h"
#include "kernels/cpu/product.h"

#define PRODUCT_PATCH_BELOW 8   /* with fewer channels a pointer per tap would be all overhead */
#define PRODUCT_LINES_BELOW 16  /* units; with fewer, lines are cheaper than pointers a tap */
#define PRODUCT_TILE_WORK 65536 /* multiply-adds below which a tile is not cut further */

static int32_t product_gcd(int32_t a, int32_t b)
{
    while (b != 0) {
        const int32_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static struct gy_axis product_forward_axis(int32_t out, int32_t in, int32_t taps, int32_t stride, int32_t pad,
                                           int32_t dil)
{
    return (struct gy_axis){ .grid = out, .taps = taps, .tap_step = 1, .off0 = -pad, .off_step = dil,
                            .in_step = stride, .in_size = in, .out_step = 1, .out_size = out };
}

/* dx row a + stride * i has dy row i + (a + pad - tap * dil) / stride of each tap that divides. */
static struct gy_axis product_dgrad_axis(int32_t dx, int32_t dy, int32_t taps, int32_t stride, int32_t pad, int32_t dil,
                                         int32_t a)
{
    struct gy_axis x = { .grid = dx > a ? (dx - a + stride - 1) / stride : 0, .in_step = 1, .in_size = dy, .out0 = a,
                        .out_step = stride, .out_size = dx };
    int32_t tap = 0;
    while (tap < taps && (a + pad - (int64_t)tap * dil) % stride != 0)
        tap++;
    if (tap == taps)
        return x;
    x.tap0 = tap;
    x.tap_step = stride / product_gcd(stride, dil);
    x.taps = (taps - 1 - tap) / x.tap_step + 1;
    x.off0 = (int32_t)((a + pad - (int64_t)tap * dil) / stride);
    x.off_step = -(int32_t)((int64_t)x.tap_step * dil / stride);
    return x;
}

/* The same taps in the other order, so that the input coordinate grows with them. */
static void product_turn(struct gy_axis *x)
{
    if (x->off_step >= 0 || x->taps == 0)
        return;
    x->tap0 += (x->taps - 1) * x->tap_step;
    x->off0 += (x->taps - 1) * x->off_step;
    x->tap_step = -x->tap_step;
    x->off_step = -x->off_step;
}

GY_INT const struct gy_panel *gy_product_panels(struct gy_planner *planner, const struct gy_gemm_kind *kinds, int64_t vec,
                                                int64_t *count)
{
    const struct gy_gemm_kind *const last = kinds + GY_KINDS - 1;
    struct gy_panel *const panel = gy_planner_take(planner, gy_ceil_div(vec, last->width), sizeof *panel);
    *count = 0;
    for (int64_t first = 0; panel && first < vec; ++*count) {
        while (kinds < last && vec - first < kinds->width)
            kinds++;
        panel[*count] = (struct gy_panel){kinds, first, gy_min64(kinds->width, vec - first)};
        first += panel[*count].cols;
    }
    return panel;
}

/* Balanced blocks: as many as needed so that none exceeds limit. */
static int64_t product_block(int64_t total, int64_t limit)
{
    return gy_max64(gy_ceil_div(total, gy_max64(gy_ceil_div(total, limit), 1)), 1);
}

static void product_cut_reduction(struct gy_product *p, const int32_t *block)
{
    const int64_t slice = block[GY_BLOCK_SLICE];
    const int64_t taps = (int64_t)p->h.taps * p->w.taps;
    p->taps = p->patch || p->odd ? gy_min64(taps, 1) : p->lines ? p->h.taps : taps;
    p->depth = p->patch ? (int64_t)p->r * p->s * p->red : p->lines ? (int64_t)p->w.taps * p->red : p->red;
    p->depth = p->odd ? (p->depth * p->h.taps + 1) / 2 : p->depth;
    const int64_t cells = (gy_max64(p->w.grid - 1, 0) + p->odd) * p->w.in_step + p->w.taps;
    p->line_pitch = (cells * p->red * gy_product_cell(p) / (int64_t)sizeof(float) + 32) & ~(int64_t)15;
    p->depth_block = product_block(p->depth, slice);
    if (p->depth_block < p->depth)
        p->depth_block = (p->depth_block + 15) & ~(int64_t)15;
    p->tap_block = product_block(p->taps, gy_max64(slice / p->depth_block, 1));
}

static void product_cut_output(struct gy_product *p, struct gy_planner *planner, const int32_t *block)
{
    const int64_t strip = block[GY_BLOCK_STRIP];
    const struct gy_kernels *const k = &planner->cpu->k;
    p->panel = gy_product_panels(planner, p->pair ? k->gemm_pair : k->gemm, p->vec, &p->panels);
    if (!p->panel)
        return;
    for (int64_t i = 0; i < p->panels; i++)
        p->padded += p->panel[i].kind->width;
    p->pixels = p->n * p->h.grid * p->w.grid;
    p->strips = gy_max64(gy_ceil_div(p->pixels, strip + strip / 4), 1);
    const int64_t rows = p->panel[0].kind->rows;
    p->strip = gy_ceil_div(gy_ceil_div(gy_max64(p->pixels, 1), p->strips), rows) * rows;
    p->strips = gy_max64(gy_ceil_div(p->pixels, p->strip), 1);
    const int64_t work = p->strip * p->taps * p->depth * p->vec;
    int64_t groups = gy_ceil_div(block[GY_BLOCK_ITEMS], p->strips * p->groups);
    groups = gy_min64(gy_min64(groups, p->panels), gy_max64(work / PRODUCT_TILE_WORK, 1));
    p->panel_group = gy_ceil_div(p->panels, groups);
    p->panel_groups = gy_ceil_div(p->panels, p->panel_group);
    p->packed = p->strips == 1 ? 0 : (int64_t)p->groups * p->padded * p->taps * p->depth;
}

static void product_cut(struct gy_product *p, struct gy_planner *planner, const int32_t *block)
{
    p->copy = !p->patch && !p->lines && p->unit == 2;
    product_cut_reduction(p, block);
    p->line_tap = p->lines ? p->h.off_step * p->line_pitch : 0;
    product_cut_output(p, planner, block);
}

/* How input elements are read: as floats, in pairs of bf16, or one bf16 at a time. */
static void product_type(struct gy_product *p, const struct gy_kernels *k, int dtype, enum gy_product_use use)
{
    p->half = dtype == GY_BF16;
    p->pair = p->half && use != GY_PRODUCT_SINGLE && k->gemm_pair[0].fn;
    p->odd = p->pair && (use == GY_PRODUCT_LINES || p->red % 2 != 0 || p->in_pitch % 2 != 0);
    p->unit = p->half && (!p->pair || p->odd) ? 2 : 4;
    p->widen = k->widen[GY_BF16];
    p->red /= p->unit == 4 && p->pair ? 2 : 1;
    p->in_pitch /= p->unit == 4 && p->pair ? 2 : 1;
}

/* Few channels: lines; without them, an odd number does not go in pairs. */
static void product_take_lines(struct gy_product *p, int32_t taps, enum gy_product_use use)
{
    const int32_t limit = p->odd ? 2 * PRODUCT_LINES_BELOW + 1 : PRODUCT_LINES_BELOW + (use == GY_PRODUCT_LINES);
    p->lines = p->red < limit && !(p->odd && p->transposed) && taps > 1 && p->groups == 1 && (p->w.off_step == 1 || p->w.taps == 1);
    if (p->odd && !p->lines)
        p->odd = p->pair = 0;
}

GY_INT void gy_product_forward(struct gy_product *p, const struct gy_op *op, struct gy_planner *planner,
                               enum gy_product_use use)
{
    const struct gy_geom *g = &op->geom;
    *p = (struct gy_product){ .n = g->n, .groups = g->groups, .red = g->c / g->groups, .vec = g->k / g->groups,
                             .r = g->r, .s = g->s, .in_pitch = g->c, .out_pitch = g->k };
    product_type(p, &planner->cpu->k, op->dtype, use);
    p->h = product_forward_axis(g->p, g->h, g->r, g->stride_h, g->pad_h, g->dil_h);
    p->w = product_forward_axis(g->q, g->w, g->s, g->stride_w, g->pad_w, g->dil_w);
    product_take_lines(p, g->r * g->s, use);
    p->patch = p->red < PRODUCT_PATCH_BELOW && g->r * g->s > 1 && !p->lines;
    product_cut(p, planner, op->block);
}

GY_INT void gy_product_dgrad(struct gy_product *p, const struct gy_op *op, struct gy_planner *planner, int32_t a, int32_t b)
{
    const struct gy_geom *g = &op->geom;
    *p = (struct gy_product){ .n = g->n, .groups = g->groups, .red = g->k / g->groups, .vec = g->c / g->groups,
                             .r = g->r, .s = g->s, .in_pitch = g->k, .out_pitch = g->c, .transposed = 1 };
    product_type(p, &planner->cpu->k, op->dtype, GY_PRODUCT_PAIRS);
    p->h = product_dgrad_axis(g->h, g->p, g->r, g->stride_h, g->pad_h, g->dil_h, a);
    p->w = product_dgrad_axis(g->w, g->q, g->s, g->stride_w, g->pad_w, g->dil_w, b);
    product_turn(&p->h);
    product_turn(&p->w);
    product_take_lines(p, p->h.taps * p->w.taps, GY_PRODUCT_PAIRS);
    product_cut(p, planner, op->block);
}

static int64_t product_clamp(int64_t v, int64_t lo, int64_t hi)
{
    return gy_min64(gy_max64(v, lo), hi);
}

/* First grid coordinate whose input coordinate g * step + off is at least limit. */
static int64_t product_first(int64_t limit, int64_t off, int64_t step)
{
    return limit <= off ? 0 : gy_ceil_div(limit - off, step);
}

GY_INT void gy_product_rows(const struct gy_product *p, const void *in, int64_t first, int64_t count, int64_t tap,
                            const float *zero, const float **rows)
{
    const struct gy_axis *h = &p->h, *w = &p->w;
    const int64_t off_h = h->off0 + (tap / w->taps) * h->off_step, off_w = w->off0 + (tap % w->taps) * w->off_step;
    const int64_t lo = product_first(0, off_w, w->in_step), hi = product_first(w->in_size, off_w, w->in_step);
    int64_t j = first % w->grid, i = first / w->grid % h->grid, n = first / w->grid / h->grid;
    while (count > 0) {
        const int64_t run = gy_min64(w->grid - j, count), row = i * h->in_step + off_h;
        int64_t from = product_clamp(lo, j, j + run), to = product_clamp(hi, from, j + run);
        if (row < 0 || row >= h->in_size)
            from = to = j + run;
        const float *at = zero;
        if (from < to)
            at = gy_product_in(p, in, ((n * h->in_size + row) * w->in_size + from * w->in_step + off_w) * p->in_pitch);
        for (int64_t q = j; q < from; q++)
            *rows++ = zero;
        for (int64_t q = from; q < to; q++, at = gy_product_in(p, at, w->in_step * p->in_pitch))
            *rows++ = at;
        for (int64_t q = to; q < j + run; q++)
            *rows++ = zero;
        count -= run;
        j = 0;
        if (++i == h->grid) {
            i = 0;
            n++;
        }
    }
}

GY_INT void gy_product_outs(const struct gy_product *p, void *out, int64_t first, int64_t count, void **outs)
{
    const struct gy_axis *h = &p->h, *w = &p->w;
    int64_t j = first % w->grid, i = first / w->grid % h->grid, n = first / w->grid / h->grid;
    if (h->out_step == 1 && w->out_step == 1) { /* every pixel */
        unsigned char *at = (unsigned char *)out + first * p->out_pitch * (p->half ? 2 : 4);
        for (; count > 0; count--, at += p->out_pitch * (p->half ? 2 : 4))
            *outs++ = at;
        return;
    }
    for (; count > 0; count--) {
        const int64_t row = n * h->out_size + h->out0 + i * h->out_step;
        const int64_t at = (row * w->out_size + w->out0 + j * w->out_step) * p->out_pitch;
        *outs++ = (unsigned char *)out + at * (p->half ? 2 : 4);
        if (++j < w->grid)
            continue;
        j = 0;
        if (++i == h->grid) {
            i = 0;
            n++;
        }
    }
}

GY_INT int64_t gy_product_patch_pitch(const struct gy_product *p)
{
    const int64_t cells = (int64_t)p->r * p->s * p->red;
    return (((p->odd ? (cells + 1) / 2 : cells) + 15) & ~(int64_t)15) + 16;
}

/* One row of a patch: w.taps x red floats. */
static void product_patch_row(const struct gy_product *p, const void *line, int64_t col, float *dst)
{
    const struct gy_axis *w = &p->w;
    if (w->off_step == 1 && p->in_pitch == p->red && col >= 0 && col + w->taps <= w->in_size) {
        gy_product_take(p, dst, gy_product_in(p, line, col * p->in_pitch), w->taps * p->red);
        return;
    }
    for (int64_t t = 0; t < w->taps; t++, col += w->off_step, dst += p->red) {
        if (col >= 0 && col < w->in_size)
            gy_product_take(p, dst, gy_product_in(p, line, col * p->in_pitch), p->red);
        else
            memset(dst, 0, (size_t)p->red * sizeof(float));
    }
}

GY_INT void gy_product_patches(const struct gy_product *p, const void *in, int64_t first, int64_t count, float *patch,
                               int64_t pitch)
{
    const struct gy_axis *h = &p->h, *w = &p->w;
    const int64_t line = (int64_t)w->taps * p->red;
    for (int64_t m = first; m < first + count; m++, patch += pitch) {
        const int64_t n = m / w->grid / h->grid, col = m % w->grid * w->in_step + w->off0;
        int64_t row = m / w->grid % h->grid * h->in_step + h->off0;
        for (int64_t t = 0; t < h->taps; t++, row += h->off_step) {
            if (row >= 0 && row < h->in_size)
                product_patch_row(p, gy_product_in(p, in, (n * h->in_size + row) * w->in_size * p->in_pitch), col,
                                  patch + t * line);
            else
                memset(patch + t * line, 0, (size_t)line * sizeof(float));
        }
    }
}

/* Lines of a run of grid rows of one image. */
static int64_t product_lines_of(const struct gy_product *p, int64_t rows)
{
    return (rows - 1) * p->h.in_step + (p->h.taps - 1) * (int64_t)p->h.off_step + 1;
}

GY_INT int64_t gy_product_lines_floats(const struct gy_product *p)
{
    const int64_t grid = gy_max64(p->w.grid, 1), images = gy_max64(p->h.grid, 1);
    const int64_t rows = (p->strip + grid - 2) / grid + 1, runs = (rows + images - 2) / images + 1;
    return (rows * p->h.in_step + runs * gy_max64(product_lines_of(p, 1) - p->h.in_step, 0)) * p->line_pitch + 16;
}

/* One padded line: zeros, the image's row (NULL: none), zeros; odd: also for the last pair. */
static void product_line(const struct gy_product *p, const void *row, float *dst)
{
    const int64_t cols = (p->w.grid - 1) * (int64_t)p->w.in_step + p->w.taps, red = p->red;
    const int64_t from = row ? product_clamp(-p->w.off0, 0, cols) : cols;
    const int64_t to = product_clamp(p->w.in_size - (int64_t)p->w.off0, from, cols);
    const size_t cell = (size_t)gy_product_cell(p);
    unsigned char *const at = (unsigned char *)dst, *const end = (unsigned char *)(dst + p->line_pitch);
    memset(at, 0, (size_t)(from * red) * cell);
    if (from < to)
        gy_product_take(p, at + (size_t)(from * red) * cell, gy_product_in(p, row, (from + p->w.off0) * red), (to - from) * red);
    memset(at + (size_t)(to * red) * cell, 0, (size_t)(end - at) - (size_t)(to * red) * cell);
}

/* The grid row behind those from g on that lie in one image; at most last + 1. */
static int64_t product_run(const struct gy_product *p, int64_t g, int64_t last)
{
    return gy_min64((g / p->h.grid + 1) * p->h.grid, last + 1);
}

GY_INT int64_t gy_product_lines(const struct gy_product *p, const void *in, int64_t first, int64_t count, float *lines)
{
    const struct gy_axis *h = &p->h;
    const int64_t last = (first + count - 1) / p->w.grid;
    float *const begin = lines;
    for (int64_t g = first / p->w.grid, end; g <= last; g = end) {
        const int64_t n = g / h->grid;
        int64_t row = g % h->grid * h->in_step + h->off0;
        end = product_run(p, g, last);
        for (int64_t i = product_lines_of(p, end - g); i > 0; i--, row++, lines += p->line_pitch) {
            const int inside = row >= 0 && row < h->in_size;
            product_line(p, inside ? gy_product_in(p, in, (n * h->in_size + row) * p->w.in_size * p->in_pitch) : NULL, lines);
        }
    }
    return (lines - begin) / p->line_pitch;
}

GY_INT void gy_product_line_rows(const struct gy_product *p, const float *lines, int64_t first, int64_t count,
                                 const float **rows)
{
    const int64_t last = (first + count - 1) / p->w.grid, step = p->w.in_step * p->red * gy_product_cell(p);
    int64_t j = first % p->w.grid, left = count;
    for (int64_t g = first / p->w.grid, end; g <= last; g = end) {
        const float *line = lines;
        end = product_run(p, g, last);
        lines += product_lines_of(p, end - g) * p->line_pitch;
        for (int64_t i = g; i < end; i++, line += p->h.in_step * p->line_pitch, j = 0) {
            const int64_t run = gy_min64(p->w.grid - j, left);
            const unsigned char *at = (const unsigned char *)line + j * step;
            for (int64_t q = 0; q < run; q++, at += step)
                *rows++ = (const float *)(const void *)at;
            left -= run;
        }
    }
}
