/* SPDX-License-Identifier: MIT */
/* winograd.c: convolution r x r, forward and data gradient, by Winograd's F(m x m, r x r). That
 * takes (m + r - 1)^2 multiplications where the direct way needs r^2 m^2. With m = 4 these are 4
 * times fewer for 3x3 filters, 6.25 for 5x5; with m = 7 5.4 for 3x3. A transformed tile is (m + r -
 * 1)^2 vectors of channels, called points here. The convolution is one product [tiles x C] [C x K]
 * for each point, by the usual micro-kernel. A work item is a block of tiles times a group of
 * weight panels. All this is float: the transform of the inputs widens bf16, writing outputs
 * rounds, filters are not rounded.
 *
 * The data gradient is the same convolution with mirrored weights and padding r - 1 - pad. Filters
 * are transformed beforehand. With one block only, they are transformed beside the products, slice
 * by slice and row by row of points: none is needed twice. Tiles that several items share are
 * transformed beforehand, too. */
#include "kernels/cpu/block_sizes.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/driver.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/winograd.h"

#define WINO_CHANNELS_LEAST 32
#define WINO_TURN 32          /* channels of a work item of the filters */
#define WINO_INPUTS 8         /* tiles of a work item of the inputs */
#define WINO_PAD 16           /* floats between rows, against overflowing cache sets */
#define WINO_IMAGE 256        /* most pixels of an image that is a block by itself */
#define WINO_SIDE_MOST 4      /* most images along a side of a large one */
#define WINO_ALONE (96 * 81)  /* points of tiles that are one block when there are no more */
#define WINO_ALONE_FAR (160 * 81) /* the same where no cache keeps filters (WINO_FAR floats) */
#define WINO_FAR (1 << 22)
#define WINO_NEXT (1 << 18)   /* floats of a block's transformed tiles beyond a near cache */
/* Measured on Zen 4. In multiply-adds of the direct way: a number transformed on either side, a
 * filter. Factors of the direct way on pairs: forward and data gradient; weight gradient. */
#define WINO_TRANSFORM 12.0
#define WINO_FILTER 12.0
#define WINO_PAIRS 0.94
#define WINO_PAIRS_GRAD 1.3

/* ---- the choice ---- */

/* How the images of an op are cut into tiles of m x m outputs, side x side images together. */
static void wino_cut_images(struct gy_wino_plan *w, const struct gy_op *op, int m, int32_t side)
{
    const struct gy_geom *g = &op->geom;
    const int back = op->code == GY_OP_CONV_DGRAD;
    w->m = m;
    w->edge = m + g->r - 1;
    w->n = g->n;
    w->in_h = back ? g->p : g->h;
    w->in_w = back ? g->q : g->w;
    w->out_h = back ? g->h : g->p;
    w->out_w = back ? g->w : g->q;
    w->pad_h = back ? g->r - 1 - g->pad_h : g->pad_h;
    w->pad_w = back ? g->r - 1 - g->pad_w : g->pad_w;
    w->side = side;
    w->cell_h = w->out_h + g->r - 1 - w->pad_h;
    w->cell_w = w->out_w + g->r - 1 - w->pad_w;
    w->tiles_h = ((side - 1) * w->cell_h + w->out_h + m - 1) / m;
    w->tiles_w = ((side - 1) * w->cell_w + w->out_w + m - 1) / m;
    w->tiles = gy_ceil_div(w->n, (int64_t)side * side) * w->tiles_h * w->tiles_w;
}

/* The same with the number of images together that makes the fewest tiles. */
static void wino_cut_best(struct gy_wino_plan *w, const struct gy_op *op, int m)
{
    wino_cut_images(w, op, m, 1);
    for (int32_t side = 2; side <= WINO_SIDE_MOST && op->code != GY_OP_CONV; side *= 2) {
        struct gy_wino_plan other = *w;
        wino_cut_images(&other, op, m, side);
        if (other.tiles < w->tiles)
            *w = other;
    }
}

/* Time of a pass in float multiply-adds of the direct way: products, transforms of filters and of
 * both sides. A weight gradient transforms both sides once a block of channels. */
GY_INT double gy_wino_cost(const struct gy_op *op, const struct gy_kernels *k, int size)
{
    const struct gy_geom *g = &op->geom;
    const int grad = op->code == GY_OP_CONV_WGRAD;
    struct gy_wino_plan w = {0};
    wino_cut_best(&w, op, k->wino[size].m);
    const double c = g->c, f = g->k, each = 1 / fmin(c, grad ? 64 : c) + 1 / fmin(f, grad ? 64 : f);
    const double tiles = (double)w.tiles * w.edge * w.edge * (1 + WINO_TRANSFORM * each);
    return c * f * (tiles + (grad ? 0 : WINO_FILTER * w.edge * w.edge));
}

/* The direct way; a set that multiplies pairs without saying how fast does so at twice the pace. */
GY_INT double gy_direct_cost(const struct gy_op *op, const struct gy_kernels *k, int size)
{
    const struct gy_geom *g = &op->geom;
    const int back = op->code == GY_OP_CONV_DGRAD && g->stride_h == 1, pairs = op->dtype == GY_BF16 && k->gemm_pair[0].fn;
    const double pixels = back ? (double)g->h * g->w : (double)g->p * g->q, pace = k->pair_pace > 0 ? (double)k->pair_pace : 2;
    const double cost = (double)g->n * pixels * g->r * g->s * g->c * g->k;
    (void)size;
    return !pairs ? cost : cost / pace * (op->code == GY_OP_CONV_WGRAD ? WINO_PAIRS_GRAD : WINO_PAIRS);
}

/* Outputs of a tile share roundings, which larger transforms make larger. Sums of enough terms
 * (channels; in weight gradients pixels) stay in the op test's bound. bf16 needs fewer channels: it
 * is rounded by more. ORDER: wino of struct gy_kernels. */
static const struct wino_least {
    int32_t channels, pixels; /* of data gradients in float; of weight gradients */
    int32_t sum;        /* most channels of a sum; with slices of it, filters are near products */
    int32_t forward;    /* in float, from so many channels on */
    int32_t few, half;  /* float with fewer channels sums `half` of them at a time */
} wino_least[GY_WINOS] = {{0, 128, 128, 0, 0, 0}, {256, 768, 64, 512, 512, 32}, {0, 1024, 128, 0, 0, 0}};

static int wino_is_shape(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    return g->r == g->s && g->stride_h == 1 && g->stride_w == 1 && g->dil_h == 1 && g->dil_w == 1 &&
           g->groups == 1 && g->pad_h < g->r && g->pad_w < g->r && g->c >= WINO_CHANNELS_LEAST && g->k >= WINO_CHANNELS_LEAST &&
           g->c <= GY_CHANNELS_MOST && g->k <= GY_CHANNELS_MOST && g->p >= 4 && g->q >= 4 && g->h >= 4 &&
           g->w >= 4 && !gy_act_is_curve(op->act);
}

/* Statistics need blocks of equally many pixels. No output may be small beside its neighbours, as
 * one with one tap of nine inside the image. */
GY_INT int gy_wino_fits(const struct gy_op *op, const struct gy_kernels *kernels, int size)
{
    const struct gy_wino *const k = &kernels->wino[size];
    const struct wino_least *const least = &wino_least[size];
    const struct gy_geom *g = &op->geom;
    const int64_t image = (int64_t)g->p * g->q;
    const int back = op->code == GY_OP_CONV_DGRAD, reach = g->r - 1;
    const int grad = op->code == GY_OP_CONV_WGRAD;
    if (!wino_is_shape(op) || k->r != g->r)
        return 0;
    const int pad_h = back ? reach - g->pad_h : g->pad_h, pad_w = back ? reach - g->pad_w : g->pad_w;
    if (grad)
        return g->n * image >= least->pixels;
    const int32_t needs = back ? least->channels : least->forward; /* roundings cross ReLU's kink */
    if ((op->dtype != GY_BF16 && (back ? g->k : g->c) < needs) || 2 * pad_h > reach || 2 * pad_w > reach)
        return 0;
    return op->tensor[GY_STATS] < 0 || (g->p % k->m == 0 && g->q % k->m == 0) || image <= WINO_IMAGE;
}

/* ---- the plan ---- */

GY_INT void gy_wino_make_plan(struct gy_wino_plan *w, const struct gy_op *op, struct gy_planner *planner)
{
    const struct gy_geom *g = &op->geom;
    const struct gy_cpu *const cpu = planner->cpu;
    const int back = op->code == GY_OP_CONV_DGRAD, size = ((const struct gy_driver *)op->kernel)->size;
    *w = (struct gy_wino_plan){ .size = size, .kernels = &cpu->k.wino[size], .zeros = cpu->zeros, .dtype = op->dtype,
                               .taps = g->r * g->r, .transposed = back };
    w->red = back ? g->k : g->c;
    w->vec = back ? g->c : g->k;
    wino_cut_best(w, op, w->kernels->m);
    w->points = w->edge * w->edge;
    w->outs = w->m * w->m;
}

/* A place along an axis of a large image: its image and pixel there; WINO_NOWHERE: none. */
#define WINO_NOWHERE INT32_MAX
struct wino_place {
    int32_t image, pixel;
};

/* count places from first on, of images of size pixels. */
static void wino_places(struct wino_place *p, int64_t first, int count, int32_t cell, int32_t side, int32_t size)
{
    for (int32_t i = 0, at = (int32_t)first; i < count; i++, at++) {
        const int32_t image = at < 0 || side == 1 ? 0 : at / cell, pixel = at - image * cell;
        const int inside = pixel >= 0 && pixel < size && image < side;
        p[i] = inside ? (struct wino_place){image, pixel} : (struct wino_place){WINO_NOWHERE, 0};
    }
}

/* Numbers of the pixels at edge x edge places, counted over all images of height times width from
 * image first on; -1: none. */
static void wino_numbers(const struct gy_wino_plan *w, int64_t first, const struct wino_place *h, const struct wino_place *v,
                         int edge, int32_t height, int32_t width, int64_t *numbers)
{
    int64_t columns[GY_WINO_EDGE_MAX];
    for (int j = 0; j < edge; j++)
        columns[j] = v[j].image == WINO_NOWHERE ? 0 : v[j].image * (int64_t)height * width + v[j].pixel;
    for (int i = 0; i < edge; i++, numbers += edge) {
        const int64_t image = first + (h[i].image == WINO_NOWHERE ? w->n : h[i].image * (int64_t)w->side), images = w->n - image;
        const int64_t line = (image * height + h[i].pixel) * width;
        for (int j = 0; j < edge; j++)
            numbers[j] = v[j].image < images ? line + columns[j] : -1;
    }
}

GY_INT void gy_wino_pixels(const struct gy_wino_plan *w, const void *in, int64_t tile, int64_t c, const void **d)
{
    const int64_t large = (int64_t)w->tiles_h * w->tiles_w, at = tile % large, first = tile / large * w->side * w->side;
    const int64_t bytes = w->dtype == GY_F32 ? 4 : 2, pitch = w->red * bytes;
    const unsigned char *const from = (const unsigned char *)in + c * bytes;
    struct wino_place h[GY_WINO_EDGE_MAX] = {{0, 0}}, v[GY_WINO_EDGE_MAX] = {{0, 0}};
    int64_t numbers[GY_WINO_POINTS_MAX];
    wino_places(h, at / w->tiles_w * w->m - w->pad_h, w->edge, w->cell_h, w->side, w->in_h);
    wino_places(v, at % w->tiles_w * w->m - w->pad_w, w->edge, w->cell_w, w->side, w->in_w);
    wino_numbers(w, first, h, v, w->edge, w->in_h, w->in_w, numbers);
    for (int i = 0; i < w->edge * w->edge; i++)
        d[i] = numbers[i] >= 0 ? (const void *)(from + numbers[i] * pitch) : w->zeros;
}

GY_INT void gy_wino_outs(const struct gy_wino_plan *w, int64_t tile, int64_t *numbers)
{
    const int64_t large = (int64_t)w->tiles_h * w->tiles_w, at = tile % large, first = tile / large * w->side * w->side;
    struct wino_place h[GY_WINO_EDGE_MAX] = {{0, 0}}, v[GY_WINO_EDGE_MAX] = {{0, 0}};
    wino_places(h, at / w->tiles_w * w->m, w->m, w->cell_h, w->side, w->out_h);
    wino_places(v, at % w->tiles_w * w->m, w->m, w->cell_w, w->side, w->out_w);
    wino_numbers(w, first, h, v, w->m, w->out_h, w->out_w, numbers);
}

struct wino_own {
    float *u;           /* [point of a row][len][width], where filters are near */
    float *v;           /* [point][block][pitch], where tiles are not shared */
    float *m;           /* [point][block][GY_WIDTH_MAX] */
    float *room;        /* [taps][WINO_TURN, or len with near filters][GY_WIDTH_MAX]: by channels */
    float *y;           /* [outs * block][GY_WIDTH_MAX]: outputs of a panel, pixel after pixel */
    const float **rows; /* [block]: where tiles begin in v, */
    float **sums;       /* [block]: and in m */
    struct gy_prefetch_pair *pairs; /* [block]: rows, each with the one behind it */
    void **pixels;      /* [outs * block]: where they go */
    int64_t *numbers;   /* [outs * block]: which pixel of the images each is, -1 outside */
};

/* Scratch of all threads. */
struct wino_all {
    float *u;           /* [panel][slice][point][len][width], unless filters are near */
    float *v;           /* [block][point][tile][pitch], where tiles are shared */
    float *mean, *m2;   /* [blocks][vec], with statistics */
    unsigned char *own; /* own_bytes a thread */
};

/* How forward and data gradient are cut. */
struct wino_cut {
    struct gy_wino_plan p;
    int64_t block, blocks; /* tiles of a block */
    const struct gy_panel *panel; /* [panels] */
    int64_t panels, panel_group, panel_groups;
    int64_t len, slices;   /* the reduction: channels of a slice, whose filters lie together */
    int64_t sum;           /* channels of a sum, one or more of which are a slice */
    int64_t pitch;         /* floats of a transformed tile's row */
    int64_t v_plane, m_plane, u_plane; /* floats between points: inputs, sums, a panel's filters */
    int64_t pixels;        /* outputs of a block, where all but the last have the same */
    int near, shared;      /* filters are transformed beside the products; tiles before */
    int stats;             /* of outputs are taken */
    struct wino_own own;   /* layouts of scratch */
    struct wino_all all;
    size_t own_bytes;
};

static void wino_make_cut(struct wino_cut *w, const struct gy_op *op, struct gy_planner *planner)
{
    const struct gy_kernels *const k = &planner->cpu->k;
    const struct gy_wino_plan *p = &w->p;
    gy_wino_make_plan(&w->p, op, planner);
    w->panel = gy_product_panels(planner, k->gemm, p->vec, &w->panels);
    if (!w->panel)
        return;
    const int64_t image = (int64_t)p->tiles_h * p->tiles_w;
    const int whole = p->out_h % p->m == 0 && p->out_w % p->m == 0;
    w->stats = op->tensor[GY_STATS] >= 0;
    w->pitch = p->red + WINO_PAD;
    w->block = gy_max64(gy_min64(op->block[GY_BLOCK_KEEP] / p->points / w->pitch, op->block[GY_BLOCK_STRIP]), 8);
    if (p->tiles * p->points <= ((int64_t)p->points * p->red * p->vec > WINO_FAR ? WINO_ALONE_FAR : WINO_ALONE))
        w->block = gy_max64(p->tiles, 1);
    if (!whole && w->stats)
        w->block = gy_max64(w->block / image, 1) * image;
    w->blocks = gy_ceil_div(p->tiles, w->block);
    w->pixels = whole ? p->outs * w->block : w->block / image * p->out_h * p->out_w;
    const int64_t groups = gy_min64(gy_ceil_div(op->block[GY_BLOCK_ITEMS], gy_max64(w->blocks, 1)), w->panels);
    w->panel_group = gy_ceil_div(w->panels, groups);
    w->panel_groups = gy_ceil_div(w->panels, w->panel_group);
    w->near = w->blocks <= 1;
    w->shared = w->panel_groups > 1;
    const struct wino_least *const least = &wino_least[p->size];
    w->sum = p->dtype != GY_BF16 && p->red < least->few ? least->half : least->sum;
    w->len = w->near ? w->sum : gy_ceil_div(op->block[GY_BLOCK_SLICE], w->sum) * w->sum;
    w->len = gy_min64(w->len, p->red);
    w->slices = gy_ceil_div(p->red, w->len);
    w->v_plane = gy_wino_plane(w->block * w->pitch);
    w->m_plane = gy_wino_plane(w->block * GY_WIDTH_MAX);
    w->u_plane = gy_wino_plane(w->len * k->gemm[0].width);
}

struct wino_job {
    const struct gy_cpu *cpu;
    const struct wino_cut *w;
    const struct gy_op *op;
    const void *in;
    const float *weights, *bias;
    void *out;
    struct wino_all all;
    int add;
};

/* Lays out a thread's scratch; returns the bytes. */
static size_t wino_lay_own(const struct wino_cut *w, struct wino_own *own)
{
    const size_t block = (size_t)w->block, outs = block * (size_t)w->p.outs, points = (size_t)w->p.points;
    size_t used = 0;
    own->u = gy_scratch_take(&used, w->near ? (size_t)w->p.edge * (size_t)w->u_plane : 0, sizeof(float));
    own->v = gy_scratch_take(&used, w->shared ? 0 : points * (size_t)w->v_plane, sizeof(float));
    own->m = gy_scratch_take(&used, points * (size_t)w->m_plane, sizeof(float));
    own->room = gy_scratch_take(&used, (size_t)w->p.taps * (w->near ? (size_t)w->len : WINO_TURN) * GY_WIDTH_MAX, sizeof(float));
    own->y = gy_scratch_take(&used, outs * GY_WIDTH_MAX, sizeof(float));
    own->rows = gy_scratch_take(&used, block, sizeof *own->rows);
    own->sums = gy_scratch_take(&used, block, sizeof *own->sums);
    own->pairs = gy_scratch_take(&used, block, sizeof *own->pairs);
    own->pixels = gy_scratch_take(&used, outs, sizeof *own->pixels);
    own->numbers = gy_scratch_take(&used, outs, sizeof *own->numbers);
    return used;
}

GY_INT void gy_cpu_wino_plan(struct gy_planner *planner, struct gy_op *op)
{
    struct wino_cut *const w = gy_planner_take(planner, 1, sizeof *w);
    op->plan = w;
    if (!w)
        return;
    wino_make_cut(w, op, planner);
    const size_t points = (size_t)w->p.points, parts = w->stats ? (size_t)(w->blocks * w->p.vec) : 0;
    const size_t filters = w->near ? 0 : points;
    w->own_bytes = wino_lay_own(w, &w->own);
    w->all.u = gy_scratch_take(&op->scratch_bytes, filters * (size_t)(w->panels * w->slices * w->u_plane), sizeof(float));
    w->all.v = gy_scratch_take(&op->scratch_bytes, w->shared ? points * (size_t)(w->blocks * w->v_plane) : 0, sizeof(float));
    w->all.mean = gy_scratch_take(&op->scratch_bytes, parts, sizeof(float));
    w->all.m2 = gy_scratch_take(&op->scratch_bytes, parts, sizeof(float));
    w->all.own = gy_scratch_take(&op->scratch_bytes, (size_t)planner->cpu->threads, w->own_bytes);
}

static struct wino_own wino_get_own(const struct wino_job *job, int thread)
{
    struct wino_own own = job->w->own;
    gy_scratch_move(&own, sizeof own, job->all.own + (size_t)thread * job->w->own_bytes);
    return own;
}

/* ---- transforms ---- */

/* The taps of a panel's filters, for channels [c, c + count): room [tap][count][GY_WIDTH_MAX]. */
static void wino_taps(const struct wino_job *job, const struct gy_panel *panel, int64_t c, int64_t count, float *room)
{
    const struct gy_wino_plan *p = &job->w->p;
    const int64_t taps = p->taps, plane = count * GY_WIDTH_MAX;
    for (int64_t tap = 0; tap < taps && !p->transposed; tap++)
        job->cpu->k.transpose(room + tap * plane, GY_WIDTH_MAX, job->weights + (panel->first * taps + tap) * p->red + c,
                              taps * p->red, panel->cols, count);
    for (int64_t i = 0; i < count * taps && p->transposed; i++)
        memcpy(room + (taps - 1 - i % taps) * plane + i / taps * GY_WIDTH_MAX,
               job->weights + (c * taps + i) * p->vec + panel->first, (size_t)panel->cols * sizeof(float));
}

/* These filters at a row of points: u [point of the row][channel][width], planes u_plane apart. */
static void wino_filters(const struct wino_job *job, const struct gy_panel *panel, const float *room, int64_t count, int row,
                         float *u)
{
    const float *taps[GY_WINO_TAPS_MAX];
    for (int tap = 0; tap < job->w->p.taps; tap++)
        taps[tap] = room + tap * count * GY_WIDTH_MAX;
    const struct gy_wino_filters f = { .u = u, .pitch = job->w->u_plane, .taps = taps, .step = GY_WIDTH_MAX, .channels = count,
                                      .width = panel->kind->width, .count = panel->cols, .row = row };
    job->w->p.kernels->filter(&f);
}

static const float *wino_slice_filters(const struct wino_job *job, int64_t panel, int64_t slice)
{
    return job->all.u + (panel * job->w->slices + slice) * job->w->p.points * job->w->u_plane;
}

/* A tile: WINO_TURN channels of a slice of a panel. */
static void wino_filter_tile(void *arg, int64_t tile, int thread)
{
    const struct wino_job *job = arg;
    const struct wino_cut *w = job->w;
    const int64_t pieces = gy_ceil_div(w->len, WINO_TURN), from = tile % pieces * WINO_TURN;
    const int64_t slice = tile / pieces % w->slices, index = tile / pieces / w->slices, c = slice * w->len + from;
    const struct gy_panel panel = job->w->panel[index];
    float *const u = job->all.u + (index * w->slices + slice) * w->p.points * w->u_plane + from * panel.kind->width;
    float *const room = wino_get_own(job, thread).room;
    const int64_t count = gy_min64(gy_min64(WINO_TURN, w->len - from), w->p.red - c);
    if (count <= 0)
        return;
    wino_taps(job, &panel, c, count, room);
    for (int row = 0; row < w->p.edge; row++)
        wino_filters(job, &panel, room, count, row, u + row * w->p.edge * w->u_plane);
}

/* Tiles [first, first + count) of a block that begins with tile `start`. */
static void wino_inputs(const struct wino_job *job, float *v, int64_t start, int64_t first, int64_t count)
{
    const struct wino_cut *w = job->w;
    const void *d[2][GY_WINO_POINTS_MAX];
    gy_wino_pixels(&w->p, job->in, start + first, 0, d[first % 2]);
    for (int64_t i = first; i < first + count; i++) {
        gy_wino_pixels(&w->p, job->in, gy_min64(start + i + 1, w->p.tiles - 1), 0, d[(i + 1) % 2]);
        w->p.kernels->input[w->p.dtype](v + i * w->pitch, w->v_plane, d[i % 2], d[(i + 1) % 2], w->p.red);
    }
}

static void wino_input_tile(void *arg, int64_t tile, int thread)
{
    const struct wino_job *job = arg;
    const struct wino_cut *w = job->w;
    const int64_t pieces = gy_ceil_div(w->block, WINO_INPUTS), block = tile / pieces, first = tile % pieces * WINO_INPUTS;
    const int64_t count = gy_min64(gy_min64(WINO_INPUTS, w->block - first), w->p.tiles - block * w->block - first);
    wino_inputs(job, job->all.v + block * w->p.points * w->v_plane, block * w->block, first, count);
    (void)thread;
}

/* ---- products ---- */

/* A register tile's product over channels [first, end); prefetches another point's rows, `ahead`
 * floats behind. It adds sums of few channels: less is rounded, and bits fit any batch size. */
static void wino_sum(const struct wino_cut *w, const struct gy_panel *panel, struct gy_gemm_tile *t, int64_t rows, int64_t begin,
                     int64_t first, int64_t end, int64_t ahead)
{
    t->init = first == 0 ? w->p.zeros : NULL;
    for (int64_t c = first; c < end; c += w->sum) {
        t->row_first = begin + c;
        t->len = gy_min64(w->sum, end - c);
        t->prefetch.first = (t->row_first + ahead) * (int64_t)sizeof(float);
        t->prefetch.bytes = t->len * (int64_t)sizeof(float);
        panel->kind->fn[rows - 1](t);
        t->panel += t->len * panel->kind->width;
        t->init = NULL;
    }
}

/* The product of point n, for one panel and the tiles of a block. */
static void wino_product(const struct wino_job *job, const struct wino_own *own, const struct gy_panel *panel, int64_t first,
                         int64_t end, int n, const float *u, struct gy_even even)
{
    const struct wino_cut *w = job->w;
    const int64_t next = gy_min64(n + 1, w->p.points - 1);
    const int cold = (int64_t)w->p.points * w->v_plane > WINO_NEXT;
    struct gy_gemm_tile t = { .taps = 1, .out_first = n * w->m_plane, .cols = panel->cols };
    for (int64_t i = 0, from = 0, to; i < even.tiles; i++, from = to) {
        to = gy_even_next(&even);
        t.rows = own->rows + from;
        t.out = own->sums + from;
        t.prefetch.pairs = own->pairs + from;
        t.prefetch.pair_count = cold ? to - from - 1 : 0;
        t.panel = u;
        wino_sum(w, panel, &t, to - from, n * w->v_plane, first, end, (next - n) * w->v_plane);
    }
}

static void wino_products(const struct wino_job *job, const struct wino_own *own, int64_t index, int64_t count)
{
    const struct wino_cut *w = job->w;
    const struct gy_panel panel = job->w->panel[index];
    const struct gy_even even = gy_even_tiles(count, panel.kind->rows);
    for (int64_t slice = 0; slice < w->slices; slice++) {
        const int64_t first = slice * w->len, end = gy_min64(first + w->len, w->p.red);
        if (w->near)
            wino_taps(job, &panel, first, end - first, own->room);
        const float *const u = w->near ? own->u : wino_slice_filters(job, index, slice);
        for (int n = 0; n < w->p.points; n++) {
            const int column = n % w->p.edge;
            if (w->near && column == 0)
                wino_filters(job, &panel, own->room, end - first, n / w->p.edge, own->u);
            wino_product(job, own, &panel, first, end, n, u + (w->near ? column : n) * w->u_plane, even);
        }
    }
}

/* Where a block's outputs lie: numbers of all, pixels of those inside the image. Returns these. */
static int64_t wino_outputs(const struct wino_job *job, const struct wino_own *own, int64_t first, int64_t count)
{
    const struct gy_wino_plan *p = &job->w->p;
    int64_t pixels = 0;
    for (int64_t i = 0; i < count; i++)
        gy_wino_outs(p, first + i, own->numbers + i * p->outs);
    for (int64_t i = 0; i < count * p->outs; i++)
        if (own->numbers[i] >= 0)
            own->pixels[pixels++] = gy_cpu_out(job->out, own->numbers[i] * p->vec, p->dtype);
    return pixels;
}

/* Scale, shift and activation on outputs that are still float and side by side. */
static void wino_clamp(const struct wino_job *job, const struct wino_own *own, const struct gy_panel *panel, int64_t pixels)
{
    const float *const scale = job->op->ptr[GY_SCALE], *const shift = job->op->ptr[GY_SHIFT];
    if (!scale && job->op->act == GY_ACT_NONE)
        return;
    struct gy_affine_rows a = { .y = own->y, .x = own->y, .scale = scale ? scale + panel->first : NULL,
                               .shift = shift ? shift + panel->first : NULL, .rows = pixels, .cols = panel->cols,
                               .pitch = GY_WIDTH_MAX };
    gy_act_limits(job->op->act, &a.lo, &a.hi);
    job->cpu->k.affine[GY_F32](&a);
}

/* Are outputs what the transform gives, with nothing left to do? Vectors are stored whole. */
static int wino_is_plain(const struct wino_job *job, const struct gy_panel *panel)
{
    const struct gy_op *op = job->op;
    const int epilogue = !job->w->p.transposed && (op->ptr[GY_SCALE] || op->ptr[GY_RES] || op->act != GY_ACT_NONE);
    return op->dtype == GY_F32 && !job->add && !job->w->stats && !epilogue && panel->cols % job->cpu->k.lanes == 0;
}

/* From transformed sums to statistics and outputs at their places, with the epilogue. */
static void wino_finish(const struct wino_job *job, const struct wino_own *own, const struct gy_panel *panel,
                        int64_t block, int64_t count, int64_t pixels)
{
    const struct wino_cut *w = job->w;
    const struct gy_kernels *k = &job->cpu->k;
    const float *const first = job->bias ? job->bias + panel->first : w->p.zeros;
    const int forward = !w->p.transposed, adds = forward && job->op->ptr[GY_RES];
    const int plain = wino_is_plain(job, panel);
    float *y[GY_WINO_OUTS_MAX];
    for (int64_t i = 0, n = 0; i < count; i++) {
        for (int64_t j = 0; j < w->p.outs; j++) {
            const int inside = own->numbers[i * w->p.outs + j] >= 0;
            y[j] = !inside ? NULL : plain ? (float *)own->pixels[n] + panel->first : own->y + n * GY_WIDTH_MAX;
            n += inside;
        }
        w->p.kernels->output(y, own->m + i * GY_WIDTH_MAX, w->m_plane, first, panel->cols);
    }
    if (plain)
        return;
    const int64_t at = block * w->p.vec + panel->first;
    if (w->stats)
        k->stats[GY_F32](own->y, pixels, panel->cols, GY_WIDTH_MAX, job->all.mean + at, job->all.m2 + at);
    if (forward && !adds)
        wino_clamp(job, own, panel, pixels);
    k->narrow[w->p.dtype](own->pixels, panel->first, own->y, GY_WIDTH_MAX, pixels, panel->cols, job->add);
    for (int64_t i = 0; i < count * w->p.outs && adds; i++)
        if (own->numbers[i] >= 0)
            gy_cpu_epilogue(job->cpu, job->op, own->numbers[i], 1, panel->first, panel->cols);
}

static void wino_tile(void *arg, int64_t tile, int thread)
{
    const struct wino_job *job = arg;
    const struct wino_cut *w = job->w;
    const int64_t group = tile % w->panel_groups, block = tile / w->panel_groups, first = block * w->block;
    const int64_t count = gy_min64(w->block, w->p.tiles - first);
    const struct wino_own own = wino_get_own(job, thread);
    const float *v = own.v;
    if (w->shared)
        v = job->all.v + block * w->p.points * w->v_plane;
    else
        wino_inputs(job, own.v, first, 0, count);
    const int64_t pixels = wino_outputs(job, &own, first, count);
    for (int64_t i = 0; i < count; i++) {
        own.rows[i] = v + i * w->pitch;
        own.sums[i] = own.m + i * GY_WIDTH_MAX;
        own.pairs[i] = (struct gy_prefetch_pair){{own.rows[i], v + gy_min64(i + 1, count - 1) * w->pitch}};
    }
    for (int64_t i = group * w->panel_group; i < gy_min64((group + 1) * w->panel_group, w->panels); i++) {
        const struct gy_panel panel = w->panel[i];
        wino_products(job, &own, i, count);
        wino_finish(job, &own, &panel, block, count, pixels);
    }
}

GY_INT void gy_cpu_wino_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct wino_cut *const w = op->plan;
    const int back = w->p.transposed;
    struct wino_job job = { .cpu = cpu, .w = w, .op = op, .in = op->ptr[back ? GY_DY : GY_X], .weights = op->ptr[GY_W],
                           .bias = back ? NULL : op->ptr[GY_BIAS], .out = op->ptr[back ? GY_DX : GY_Y], .all = w->all,
                           .add = back && (op->flags & GY_F_ADD_DX) != 0 };
    gy_scratch_move(&job.all, sizeof job.all, op->ptr[GY_SCRATCH]);
    if (!w->near)
        gy_pool_run(cpu->pool, wino_filter_tile, &job, w->panels * w->slices * gy_ceil_div(w->len, WINO_TURN));
    if (w->shared)
        gy_pool_run(cpu->pool, wino_input_tile, &job, w->blocks * gy_ceil_div(w->block, WINO_INPUTS));
    gy_pool_run(cpu->pool, wino_tile, &job, w->blocks * w->panel_groups);
    if (w->stats)
        gy_cpu_merge_stats(cpu, job.all.mean, job.all.m2, w->blocks, w->p.vec, w->pixels, w->p.n * w->p.out_h * w->p.out_w,
                           op->ptr[GY_STATS]);
}
