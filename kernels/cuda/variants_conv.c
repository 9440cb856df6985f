/* SPDX-License-Identifier: MIT */
/* variants_conv.c: rows of the convolutions; variants.c reads them. The op's shape and type and the
 * architecture decide how a tile, a slice or a chunk is cut, never the number of multiprocessors.
 * So the order of sums is the same on every card of an architecture. Rows whose name has a tile are
 * for 'gyre tune'. The one without, behind them, takes the tile that the shape suggests. */
#include "kernels/cuda/variants_conv.h"

#define CONV_THREADS 256
#define CONV_BLOCKS 256          /* blocks that leave no card without work */
/* two full waves on 132 multiprocessors, sm_90's; more would begin a third */
#define CONV_WAVES 264
#define CONV_LINES_WAVE 660      /* one wave: registers leave five blocks a multiprocessor */
#define CONV_PART_BYTES (64 << 20) /* bytes: a weight gradient's parts take no more */
#define CONV_CHUNK 128           /* CV_CHUNK of conv.cuh */

enum conv_dir { CONV_FORWARD, CONV_DGRAD, CONV_WGRAD };

struct conv_tile {
    int bm, bn, bk, tm, tn;
    int parts; /* of a weight gradient's slice, where its block leaves more than one; else 0 */
};

/* The product behind an op: rows x columns summed over depth, for each of classes x groups. */
struct conv_size {
    int64_t rows, cols, depth, classes;
};

static int conv_dir_of(const struct gy_op *op)
{
    return op->code == GY_OP_CONV ? CONV_FORWARD : op->code == GY_OP_CONV_DGRAD ? CONV_DGRAD : CONV_WGRAD;
}

static int64_t conv_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t conv_pixels(const struct gy_geom *g) { return g->n * g->p * g->q; }

static int32_t conv_gcd(int32_t a, int32_t b) { return b == 0 ? a : conv_gcd(b, a % b); }

static struct conv_size conv_size_of(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const int64_t cg = g->c / g->groups, kg = g->k / g->groups, taps = (int64_t)g->r * g->s;
    switch (conv_dir_of(op)) {
    case CONV_FORWARD: return (struct conv_size){ conv_pixels(g), kg, taps * cg, 1 };
    case CONV_DGRAD:
        return (struct conv_size){ g->n * conv_up(g->h, g->stride_h) * conv_up(g->w, g->stride_w), cg, taps * kg,
                                   (int64_t)g->stride_h * g->stride_w };
    default: return (struct conv_size){ kg, taps * cg, conv_pixels(g), 1 };
    }
}

static void conv_define(struct gy_cuda_cut *out, const char *name, int64_t value)
{
    out->define[out->defines].name = name;
    out->define[out->defines++].value = value;
}

static void conv_launch_of(struct gy_cuda_cut *out, const char *entry, int64_t x, int64_t y, int64_t z,
                           unsigned threads, unsigned shared)
{
    out->launch[out->launches++] =
        (struct gy_cuda_launch){ entry, { (unsigned)x, (unsigned)y, (unsigned)z }, threads, shared };
}

static void conv_launch(struct gy_cuda_cut *out, const char *entry, int64_t x, int64_t y, int64_t z, unsigned shared)
{
    conv_launch_of(out, entry, x, y, z, CONV_THREADS, shared);
}

/* What every convolution kernel is told beyond the facts. */
static void conv_begin(const struct gy_op *op, const char *file, struct gy_cuda_cut *out)
{
    const struct gy_geom *g = &op->geom;
    const int dir = conv_dir_of(op), back = dir == CONV_DGRAD;
    out->file = file;
    conv_define(out, "GY_DIR", dir);
    conv_define(out, "GY_TAP_H", back ? g->stride_h / conv_gcd(g->stride_h, g->dil_h) : 1);
    conv_define(out, "GY_TAP_W", back ? g->stride_w / conv_gcd(g->stride_w, g->dil_w) : 1);
}

/* Statistics: scratch has a row for every `each` pixels, merged by one launch or two. These
 * launches take only the shared memory that they use, a float a thread. With the product's a
 * multiprocessor would hold one block of them. */
static void conv_cut_stats(const struct gy_op *op, int64_t each, struct gy_cuda_cut *out)
{
    const int64_t rows = conv_up(conv_pixels(&op->geom), each), chunks = conv_up(rows, CONV_CHUNK),
                  blocks = conv_up(op->geom.k, 32);
    if (op->tensor[GY_STATS] < 0)
        return;
    conv_define(out, "GY_STAT_PIXELS", each);
    conv_define(out, "GY_STAT_FIRST", (int64_t)out->scratch);
    const unsigned threads = out->launch[0].threads, shared = threads * (unsigned)sizeof(float);
    if (chunks > 1)
        conv_launch_of(out, "conv_stats_chunks", chunks, blocks, 1, threads, shared);
    conv_launch_of(out, "conv_stats", blocks, 1, 1, threads, shared);
    out->scratch += (size_t)(rows + chunks) * 2 * (size_t)op->geom.k * sizeof(float);
}

/* Pixels of a weight gradient's slice. Slices give about `blocks` blocks in all; none is shorter
 * than 8 steps, and their parts take at most CONV_PART_BYTES. */
static int64_t conv_slice_pixels(const struct gy_op *op, const struct conv_tile *t, int64_t blocks)
{
    const struct gy_geom *g = &op->geom;
    const struct conv_size size = conv_size_of(op);
    const int64_t tiles = conv_up(size.rows, t->bm) * conv_up(size.cols, t->bn) * g->groups;
    const int64_t parts = gy_max64(1, t->parts);
    const int64_t bytes = parts * size.rows * size.cols * g->groups * (int64_t)sizeof(float);
    int64_t slices = gy_max64(blocks / parts / tiles, tiles < CONV_BLOCKS ? 2 : 1);
    slices = gy_min64(slices, conv_up(size.depth, 8 * t->bk));
    slices = gy_max64(1, gy_min64(slices, CONV_PART_BYTES / bytes));
    return conv_up(conv_up(size.depth, slices), t->bk) * t->bk;
}

/* What follows the parts of a weight gradient: the bias's parts, and the sums of both. */
static void conv_cut_sum(const struct gy_op *op, int64_t slices, struct gy_cuda_cut *out)
{
    const struct conv_size size = conv_size_of(op);
    const int64_t weights = size.rows * size.cols * op->geom.groups, parts = slices > 1 ? slices : 0;
    const int64_t each = gy_max64(64, conv_up(size.depth, CONV_BLOCKS)), chunks = conv_up(size.depth, each);
    const int64_t channels = op->tensor[GY_DBIAS] >= 0 ? op->geom.k : 0;
    conv_define(out, "GY_SLICES", slices);
    conv_define(out, "GY_BIAS_PIXELS", each);
    conv_define(out, "GY_BIAS_CHUNKS", chunks);
    const unsigned threads = out->launch[0].threads;
    if (channels > 0)
        conv_launch_of(out, "conv_bias_chunks", conv_up(channels, 32), chunks, 1, threads,
                       threads * (unsigned)sizeof(float));
    if (parts > 0 || channels > 0)
        conv_launch_of(out, "conv_sum", conv_up((parts > 0 ? weights : 0) + channels, threads), 1, 1, threads, 0);
    out->scratch += (size_t)(parts * weights + chunks * channels) * sizeof(float);
}

/* Indices of pixels are int, offsets inside one image too. A data gradient's classes are a grid's
 * y. */
static int conv_small_enough(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const int64_t most = INT32_MAX - 1024;
    return conv_pixels(g) < most && g->n * g->h * g->w < most && (int64_t)g->h * g->w * g->c < most / 2 &&
           (int64_t)g->p * g->q * g->k < most / 2 && (int64_t)g->r * g->s * g->c < most / 2 && g->groups < 65536 &&
           conv_size_of(op).classes < 65536;
}

static int conv_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    (void)device;
    return conv_small_enough(op);
}

/* ---- plain: patches in memory ---- */

#define CONV_PLAIN_TILE 16

static void conv_plain_cut(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct gy_geom *g = &op->geom;
    const int dir = conv_dir_of(op);
    const int64_t pixels = conv_pixels(g), row = (int64_t)g->r * g->s * (g->c / g->groups), kg = g->k / g->groups;
    const int64_t values = pixels * g->groups * row, rows = dir == CONV_WGRAD ? kg : pixels,
                  cols = dir == CONV_FORWARD ? kg : row;
    const int64_t tiles = conv_up(rows, CONV_PLAIN_TILE) * conv_up(cols, CONV_PLAIN_TILE);
    const unsigned shared = 2 * CONV_PLAIN_TILE * (CONV_PLAIN_TILE + 1) * sizeof(float);
    (void)device;
    conv_begin(op, "conv_plain.cu", out);
    out->scratch = (size_t)(values + (dir == CONV_FORWARD ? pixels * g->k : 0)) * sizeof(float);
    if (dir != CONV_DGRAD)
        conv_launch(out, "plain_gather", conv_up(values, CONV_THREADS), 1, 1, shared);
    conv_launch(out, "plain_multiply", tiles, 1, g->groups, shared);
    if (op->tensor[GY_STATS] >= 0)
        conv_launch(out, "plain_stats", g->k, 1, 1, shared);
    if (dir == CONV_FORWARD)
        conv_launch(out, "plain_finish", conv_up(pixels * g->k, CONV_THREADS), 1, 1, shared);
    if (dir == CONV_DGRAD)
        conv_launch(out, "plain_collect", conv_up(g->n * g->h * g->w * g->c, CONV_THREADS), 1, 1, shared);
    if (op->tensor[GY_DBIAS] >= 0)
        conv_launch(out, "plain_bias", g->k, 1, 1, shared);
}

/* ---- ffma ---- */

static const struct conv_tile conv_ffma_tiles[] = {
    { 64, 64, 16, 4, 4, 0 }, { 128, 64, 16, 8, 4, 0 }, { 128, 128, 8, 8, 8, 0 }
};

/* Data gradients that need more registers than two blocks leave. They have classes of pixels, or
 * single loads, beside many sums. */
static int conv_ffma_heavy(const struct gy_op *op, const struct conv_tile *t)
{
    const struct gy_geom *g = &op->geom;
    const int single = (g->c / g->groups) % 4 != 0 || (g->k / g->groups) % 4 != 0, sums = t->tm * t->tn;
    return op->code == GY_OP_CONV_DGRAD && (single ? sums >= 32 : g->stride_h * g->stride_w > 1 && sums >= 64);
}

static void conv_ffma_cut_by(const struct gy_op *op, const struct conv_tile *t, struct gy_cuda_cut *out)
{
    const struct conv_size size = conv_size_of(op);
    const int64_t tiles = conv_up(size.rows, t->bm) * conv_up(size.cols, t->bn);
    const unsigned shared = 2u * (unsigned)t->bk * (unsigned)(t->bm + t->bn + 8) * (unsigned)sizeof(float);
    const int wgrad = conv_dir_of(op) == CONV_WGRAD;
    conv_begin(op, "conv_ffma.cu", out);
    conv_define(out, "GY_BM", t->bm);
    conv_define(out, "GY_BN", t->bn);
    conv_define(out, "GY_BK", t->bk);
    conv_define(out, "GY_TM", t->tm);
    conv_define(out, "GY_TN", t->tn);
    conv_define(out, "GY_BLOCKS", conv_ffma_heavy(op, t) ? 1 : 2);
    const int64_t each = wgrad ? conv_slice_pixels(op, t, CONV_WAVES) : 0,
                  slices = wgrad ? conv_up(size.depth, each) : 1;
    conv_launch(out, "conv_ffma", tiles, wgrad ? slices : size.classes, op->geom.groups, shared);
    if (wgrad) {
        conv_define(out, "GY_SLICE_PIXELS", each);
        conv_cut_sum(op, slices, out);
    } else {
        conv_cut_stats(op, t->bm, out);
    }
}

/* The larger tile where it is filled and there are enough of them. */
static void conv_ffma_cut(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct conv_size size = conv_size_of(op);
    const struct conv_tile *t = &conv_ffma_tiles[0];
    const int64_t extent = conv_dir_of(op) == CONV_WGRAD ? CONV_BLOCKS : size.classes * op->geom.groups;
    (void)device;
    for (size_t i = 1; i < GY_COUNT(conv_ffma_tiles); i++) {
        const struct conv_tile *x = &conv_ffma_tiles[i];
        const int64_t blocks = conv_up(size.rows, x->bm) * conv_up(size.cols, x->bn) * extent;
        const int heavy = conv_ffma_heavy(op, x);
        if (size.rows > x->bm / 2 && size.cols > x->bn / 2 && blocks >= CONV_BLOCKS && !heavy)
            t = x;
    }
    conv_ffma_cut_by(op, t, out);
}

#define CONV_FFMA_CUT(index)                                                                                           \
    static void conv_ffma_cut_##index(const struct gy_op *op, const struct gy_cuda_device *device,                    \
                                      struct gy_cuda_cut *out)                                                         \
    {                                                                                                                  \
        (void)device;                                                                                                  \
        conv_ffma_cut_by(op, &conv_ffma_tiles[index], out);                                                            \
    }
CONV_FFMA_CUT(0)
CONV_FFMA_CUT(1)
CONV_FFMA_CUT(2)

/* ---- groups of few channels ---- */

#define CONV_GROUP_RUN 4         /* GR_RUN */
#define CONV_GROUP_STAT 1024     /* pixels a row of statistics */

/* Statistics are taken of stored sums. So an op that has them may not have scale, residual or
 * activation behind them. */
static int conv_group_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    const struct gy_geom *g = &op->geom;
    const int finish = op->tensor[GY_SCALE] >= 0 || op->tensor[GY_RES] >= 0 || op->act != GY_ACT_NONE;
    return conv_fits(op, device) && g->groups > 1 && g->c / g->groups <= 8 && g->k / g->groups <= 8 && g->s <= 16 &&
           !(op->tensor[GY_STATS] >= 0 && finish);
}

static int64_t conv_group_blocks(int64_t n, int64_t rows, int64_t cols, int64_t channels, int vec)
{
    return conv_up(n * rows * conv_up(cols, CONV_GROUP_RUN) * (channels / vec), CONV_THREADS);
}

static void conv_group_cut(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct gy_geom *g = &op->geom;
    const int64_t pixels = conv_pixels(g), strips = CONV_THREADS / 32;
    const int vec = g->c == g->groups && g->k == g->groups && g->k % 4 == 0 ? 4 : 1;
    const unsigned shared = (unsigned)(strips * 32 * g->s * (int64_t)sizeof(float));
    (void)device;
    conv_begin(op, "conv_group.cu", out);
    if (op->code == GY_OP_CONV) {
        conv_launch(out, "group_forward", conv_group_blocks(g->n, g->p, g->q, g->k, vec), 1, 1, shared);
        if (op->tensor[GY_STATS] >= 0 && op->dtype != GY_F32)
            out->scratch = (size_t)(pixels * g->k) * sizeof(float);
        if (op->tensor[GY_STATS] >= 0)
            conv_launch(out, "group_stats", conv_up(pixels, CONV_GROUP_STAT), conv_up(g->k, 32), 1, shared);
        conv_cut_stats(op, CONV_GROUP_STAT, out);
    } else if (op->code == GY_OP_CONV_DGRAD) {
        conv_launch(out, "group_dgrad", conv_group_blocks(g->n, g->h, g->w, g->c, vec), 1, 1, shared);
    } else {
        const int64_t blocks = (int64_t)g->r * (g->c / g->groups) * conv_up(g->k, 32);
        const int64_t slices = gy_min64(conv_up(4 * CONV_BLOCKS, blocks), conv_up(pixels, 64));
        const int64_t most = gy_max64(1, CONV_PART_BYTES / (blocks * 32 * g->s * (int64_t)sizeof(float)));
        const int64_t each = conv_up(pixels, gy_max64(1, gy_min64(slices, most)));
        conv_launch(out, "group_wgrad", blocks, conv_up(pixels, each), 1, shared);
        conv_define(out, "GY_SLICE_PIXELS", each);
        conv_cut_sum(op, conv_up(pixels, each), out);
    }
}

/* ---- mma ---- */

#define CONV_MMA_BK 32

struct conv_mma_tile {
    struct conv_tile t;
    int warps_m, warps_n;
};
static const struct conv_mma_tile conv_mma_tiles[] = {
    { { 64, 64, CONV_MMA_BK, 0, 0, 0 }, 2, 2 },
    { { 128, 64, CONV_MMA_BK, 0, 0, 0 }, 4, 2 },
    { { 128, 128, CONV_MMA_BK, 0, 0, 0 }, 2, 4 },
};

static int conv_mma_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    return conv_fits(op, device) && op->geom.groups == 1;
}

/* f16 on the generation before sm_80. */
static int conv_mma_75_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    return conv_mma_fits(op, device) && device->arch < 80;
}

/* f16 on sm_70: both operands lie along the reduction, which the weight gradient's do not. */
static int conv_mma_70_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    return conv_mma_fits(op, device) && device->arch < 75 && (op->code == GY_OP_CONV || op->geom.k % 8 == 0);
}

/* Weights in 16 bits, rows padded to 8: bytes. */
static size_t conv_mma_weights(const struct gy_op *op, int arch)
{
    const struct gy_geom *g = &op->geom;
    const int64_t taps = (int64_t)g->r * g->s;
    if (op->code == GY_OP_CONV)
        return (size_t)(g->k * conv_up(taps * g->c, 8) * 8) * 2;
    return (size_t)(taps * (arch < 75 ? g->c * conv_up(g->k, 8) * 8 : g->k * conv_up(g->c, 8) * 8)) * 2;
}

/* Are channels gathered one by one? */
static int conv_mma_gathers(const struct gy_op *op)
{
    const int c = op->geom.c % 8 != 0, k = op->geom.k % 8 != 0;
    return op->code == GY_OP_CONV ? c : op->code == GY_OP_CONV_DGRAD ? k : c || k;
}

static void conv_mma_begin(const struct gy_op *op, const struct conv_mma_tile *x, int stages, int gathers,
                           struct gy_cuda_cut *out)
{
    conv_begin(op, "conv_mma.cu", out);
    conv_define(out, "GY_BM", x->t.bm);
    conv_define(out, "GY_BN", x->t.bn);
    conv_define(out, "GY_STAGES", stages);
    conv_define(out, "GY_WARPS_M", x->warps_m);
    conv_define(out, "GY_WARPS_N", x->warps_n);
    conv_define(out, "GY_BLOCKS", x->warps_m * x->warps_n < 8 ? 3 : gathers ? 1 : 2);
}

static unsigned conv_mma_shared(const struct conv_tile *t, int stages)
{
    const unsigned tiles = (unsigned)(stages * (t->bm + t->bn) * t->bk * 2), out = (unsigned)(t->bm * (t->bn + 8) * 2);
    return tiles > out ? tiles : out;
}

static void conv_mma_cut_by(const struct gy_op *op, const struct gy_cuda_device *device, const struct conv_mma_tile *x,
                            struct gy_cuda_cut *out)
{
    const struct conv_size size = conv_size_of(op);
    const struct conv_tile *t = &x->t;
    const int wgrad = conv_dir_of(op) == CONV_WGRAD, stages = device->arch < 80 ? 2 : t->bm + t->bn > 192 ? 3 : 4;
    const unsigned threads = (unsigned)(x->warps_m * x->warps_n * 32);
    const unsigned shared = conv_mma_shared(t, stages);
    conv_mma_begin(op, x, stages, conv_mma_gathers(op), out);
    const int64_t tiles = conv_up(size.rows, t->bm) * conv_up(size.cols, t->bn);
    if (wgrad) {
        const int64_t each = conv_slice_pixels(op, t, CONV_WAVES),
                      slices = conv_up(size.depth, each);
        conv_launch_of(out, "conv_mma", tiles, slices, 1, threads, shared);
        conv_define(out, "GY_SLICE_PIXELS", each);
        conv_cut_sum(op, slices, out);
        return;
    }
    const size_t weights = conv_mma_weights(op, device->arch);
    out->scratch = (weights + 255) / 256 * 256;
    conv_launch_of(out, "conv_mma_weights", conv_up((int64_t)weights / 16, threads), 1, 1, threads, 0);
    conv_launch_of(out, "conv_mma", tiles, size.classes, 1, threads, shared);
    conv_cut_stats(op, t->bm, out);
}

/* Images of few channels, copied to 4 a pixel: lines of a filter row, rounded up to 32 numbers. */
static int conv_lines_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    const struct gy_geom *g = &op->geom;
    return conv_mma_fits(op, device) && g->c <= 4 && g->stride_w % 2 == 0 && g->dil_w == 1 && g->s <= 16;
}

static int conv_lines_70_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    return conv_lines_fits(op, device) && device->arch < 75;
}

static int conv_lines_75_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    return conv_lines_fits(op, device) && device->arch < 80;
}

static void conv_lines_cut(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct gy_geom *g = &op->geom;
    const int64_t pixels = conv_pixels(g), line = conv_up(4 * g->s, 32) * 32, row = g->r * line;
    const int64_t high = (int64_t)(g->p - 1) * g->stride_h + (g->r - 1) * g->dil_h + 1;
    const int64_t wide = conv_up((int64_t)(g->q - 1) * g->stride_w + line / 4, 2) * 2,
                  chunks = g->n * high * (wide / 2);
    const int wgrad = op->code == GY_OP_CONV_WGRAD, stages = device->arch < 80 ? 2 : 4;
    const struct conv_mma_tile *x = &conv_mma_tiles[wgrad ? 0 : 1];
    const unsigned shared = conv_mma_shared(&x->t, stages), threads = (unsigned)(x->warps_m * x->warps_n * 32);
    conv_mma_begin(op, x, stages, 0, out);
    conv_define(out, "GY_LINES", 1);
    const int64_t tiles = conv_up(wgrad ? g->k : pixels, x->t.bm) * conv_up(wgrad ? row : g->k, x->t.bn);
    const int64_t weights = wgrad ? 0 : g->k * row / 8; /* chunks of 16 bytes, as of the image */
    conv_launch_of(out, "conv_mma_lines", conv_up(chunks + weights, threads), 1, 1, threads, 0);
    const int64_t each = wgrad ? conv_slice_pixels(op, &x->t, CONV_LINES_WAVE) : 0,
                  slices = wgrad ? conv_up(pixels, each) : 1;
    conv_launch_of(out, "conv_mma", tiles, slices, 1, threads, shared);
    if (wgrad) {
        conv_define(out, "GY_SLICE_PIXELS", each);
        conv_cut_sum(op, slices, out);
    }
    const int64_t first = conv_up(wgrad ? (int64_t)out->scratch : weights * 16, 256) * 256;
    conv_define(out, "GY_LINES_FIRST", first);
    out->scratch = (size_t)(first + chunks * 16);
    if (!wgrad)
        conv_cut_stats(op, x->t.bm, out);
}

static void conv_mma_cut(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct conv_size size = conv_size_of(op);
    const struct conv_mma_tile *t = &conv_mma_tiles[0];
    const int64_t extent = conv_dir_of(op) == CONV_WGRAD ? CONV_BLOCKS : size.classes;
    /* loads that wait in registers leave room for fewer sums: before sm_80 the largest tile is not
     * taken; gathered loads take the least one */
    const int gathered = conv_mma_gathers(op);
    for (size_t i = 1; !gathered && i < GY_COUNT(conv_mma_tiles) - (device->arch < 80); i++) {
        const struct conv_tile *x = &conv_mma_tiles[i].t;
        const int64_t blocks = conv_up(size.rows, x->bm) * conv_up(size.cols, x->bn) * extent;
        if (size.rows > x->bm / 2 && size.cols > x->bn / 2 && blocks >= CONV_BLOCKS)
            t = &conv_mma_tiles[i];
    }
    conv_mma_cut_by(op, device, t, out);
}

#define CONV_MMA_CUT(index)                                                                                            \
    static void conv_mma_cut_##index(const struct gy_op *op, const struct gy_cuda_device *device,                     \
                                     struct gy_cuda_cut *out)                                                          \
    {                                                                                                                  \
        conv_mma_cut_by(op, device, &conv_mma_tiles[index], out);                                                      \
    }
CONV_MMA_CUT(0)
CONV_MMA_CUT(1)
CONV_MMA_CUT(2)

/* ---- wgmma ---- */

#define CONV_WGMMA_BM 128
#define CONV_WGMMA_THREADS 384

/* A view of the input that im2col boxes walk: corners of the box in which a tap's first pixels lie,
 * for both axes (W, H). */
struct conv_corners {
    int lower[2], upper[2];
};

/* One axis of class cls of the data gradient: 0 where no tap is read. */
static int conv_dgrad_corner(int cls, int size_in, int size_out, int filter, int stride, int pad, int dil, int *lower,
                             int *upper)
{
    const int step = stride / conv_gcd(stride, dil);
    int tap0 = 0;
    while (tap0 < filter && (cls + pad - tap0 * dil) % stride != 0)
        tap0++;
    if (tap0 == filter || cls >= size_out)
        return 0;
    const int taps = (filter - 1 - tap0) / step + 1, grid = (size_out - cls + stride - 1) / stride;
    *lower = (cls + pad - tap0 * dil) / stride - (taps - 1) * (step * dil / stride);
    *upper = grid - size_in + *lower;
    return 1;
}

/* The same corners for all classes, or 0. */
static int conv_dgrad_corners(const struct gy_geom *g, struct conv_corners *out)
{
    int found[2] = { 0, 0 }, same = 1;
    for (int axis = 0; axis < 2; axis++) {
        const int stride = axis ? g->stride_h : g->stride_w;
        for (int cls = 0; cls < stride; cls++) {
            int lower, upper;
            if (!conv_dgrad_corner(cls, axis ? g->p : g->q, axis ? g->h : g->w, axis ? g->r : g->s, stride,
                                   axis ? g->pad_h : g->pad_w, axis ? g->dil_h : g->dil_w, &lower, &upper))
                continue;
            same = same && (!found[axis] || (out->lower[axis] == lower && out->upper[axis] == upper));
            out->lower[axis] = lower;
            out->upper[axis] = upper;
            found[axis] = 1;
        }
    }
    return same && found[0] && found[1];
}

static int conv_corners_of(const struct gy_op *op, struct conv_corners *out)
{
    const struct gy_geom *g = &op->geom;
    if (op->code == GY_OP_CONV_DGRAD)
        return conv_dgrad_corners(g, out);
    out->lower[0] = -g->pad_w;
    out->lower[1] = -g->pad_h;
    /* so that a row has q pixels, whatever lies behind them */
    out->upper[0] = (g->q - 1) * g->stride_w + 1 - g->w - g->pad_w;
    out->upper[1] = (g->p - 1) * g->stride_h + 1 - g->h - g->pad_h;
    return 1;
}

/* A plain product: every output pixel has its input at the same place. */
static int conv_is_product(const struct gy_geom *g)
{
    return g->r == 1 && g->s == 1 && g->pad_h == 0 && g->pad_w == 0 && g->stride_h == 1 && g->stride_w == 1 &&
           g->p == g->h && g->q == g->w;
}

/* What bulk copies can describe, and channels that fill most of a box. */
static int conv_wgmma_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    const struct gy_geom *g = &op->geom;
    const int dgrad = op->code == GY_OP_CONV_DGRAD, red = dgrad ? g->k : g->c;
    struct conv_corners at = { { 0, 0 }, { 0, 0 } };
    if (!conv_fits(op, device) || device->arch < 90 || device->arch >= 100 || !device->bulk || g->groups != 1)
        return 0;
    if (red % 8 != 0 || red < 64 || (op->code == GY_OP_CONV_WGRAD && g->k % 8 != 0))
        return 0;
    if (conv_is_product(g))
        return 1;
    if (g->stride_h > 8 || g->stride_w > 8 || (g->r - 1) * g->dil_h > 255 || (g->s - 1) * g->dil_w > 255 ||
        !conv_corners_of(op, &at))
        return 0;
    for (int i = 0; i < 2; i++)
        if (at.lower[i] < -128 || at.lower[i] > 127 || at.upper[i] < -128 || at.upper[i] > 127)
            return 0;
    return 1;
}

/* The widest tile leaves no registers for classes of pixels, nor for the weight gradient's
 * places. */
static int conv_wgmma_wide_fits(const struct gy_op *op, const struct gy_cuda_device *device)
{
    return conv_wgmma_fits(op, device) && conv_size_of(op).classes == 1 && conv_size_of(op).rows >= 4 * CONV_WGMMA_BM;
}

static void conv_map_matrix(struct gy_cuda_map *map, int role, int64_t cols, int64_t rows, int box_rows)
{
    *map = (struct gy_cuda_map){ .kind = GY_MAP_TILED, .role = role, .rank = 2, .swizzle = 3 };
    map->sizes[0] = (uint64_t)cols;
    map->sizes[1] = (uint64_t)rows;
    map->strides[0] = (uint64_t)cols * 2;
    map->box[0] = 64;
    map->box[1] = (uint32_t)box_rows;
    map->element_strides[0] = map->element_strides[1] = 1;
}

/* The tensor whose pixels are gathered, as boxes of 64 channels of `pixels`. */
static void conv_map_pixels(struct gy_cuda_map *map, const struct gy_op *op, int pixels)
{
    const struct gy_geom *g = &op->geom;
    const int dgrad = op->code == GY_OP_CONV_DGRAD, role = dgrad ? GY_DY : GY_X;
    const int64_t c = dgrad ? g->k : g->c, w = dgrad ? g->q : g->w, h = dgrad ? g->p : g->h;
    struct conv_corners at = { { 0, 0 }, { 0, 0 } };
    if (conv_is_product(g)) {
        conv_map_matrix(map, role, c, g->n * h * w, pixels);
        return;
    }
    conv_corners_of(op, &at);
    *map = (struct gy_cuda_map){ .kind = GY_MAP_IM2COL, .role = role, .rank = 4, .swizzle = 3, .channels = 64 };
    const uint64_t sizes[4] = { (uint64_t)c, (uint64_t)w, (uint64_t)h, (uint64_t)g->n };
    const uint64_t strides[3] = { (uint64_t)c * 2, (uint64_t)(w * c) * 2, (uint64_t)(h * w * c) * 2 };
    memcpy(map->sizes, sizes, sizeof sizes);
    memcpy(map->strides, strides, sizeof strides);
    memcpy(map->lower, at.lower, sizeof at.lower);
    memcpy(map->upper, at.upper, sizeof at.upper);
    map->pixels = (uint32_t)pixels;
    map->element_strides[0] = map->element_strides[3] = 1;
    map->element_strides[1] = dgrad ? 1 : (uint32_t)g->stride_w;
    map->element_strides[2] = dgrad ? 1 : (uint32_t)g->stride_h;
}

static int64_t conv_up64(int64_t x) { return conv_up(x, 64) * 64; }

/* bm 64: of weight gradients alone. */
static void conv_wgmma_cut_by(const struct gy_op *op, const struct gy_cuda_device *device, int bm,
                              int bn, struct gy_cuda_cut *out)
{
    const struct gy_geom *g = &op->geom;
    const struct conv_size size = conv_size_of(op);
    const int dgrad = op->code == GY_OP_CONV_DGRAD, wgrad = op->code == GY_OP_CONV_WGRAD,
              stages = bn == 256 ? 3 : bn >= 128 ? 4 : 5;
    const int64_t taps = (int64_t)g->r * g->s, cols = wgrad ? taps * conv_up64(g->c) : size.cols;
    const int64_t tiles = conv_up(size.rows, bm) * conv_up(cols, bn) * size.classes;
    const unsigned shared =
        (unsigned)(stages * (bm + bn) * 128 + 2 * 64 * (bn + 8) * 2 + 2 * 8 * bn * 4 + 16 * stages);
    const unsigned most = device->processors > 0 ? (unsigned)device->processors : 1;
    conv_begin(op, "conv_wgmma.cu", out);
    conv_define(out, "GY_BM", bm);
    conv_define(out, "GY_BN", bn);
    conv_define(out, "GY_STAGES", stages);
    conv_define(out, "GY_TILED", conv_is_product(g));
    conv_map_pixels(&out->map[wgrad ? 1 : 0], op, wgrad ? 64 : CONV_WGMMA_BM);
    if (wgrad) {
        const int parts = CONV_WGMMA_BM / bm;
        const struct conv_tile t = { bm, bn, 64, 0, 0, parts };
        const int64_t each = conv_slice_pixels(op, &t, CONV_WAVES),
                      slices = conv_up(size.depth, each);
        conv_map_matrix(&out->map[0], GY_DY, g->k, size.depth, 64);
        conv_launch_of(out, "conv_wgmma", tiles, slices, 1, CONV_WGMMA_THREADS, shared);
        conv_define(out, "GY_SLICE_PIXELS", each);
        conv_cut_sum(op, slices * parts, out);
        return;
    }
    const int64_t row = taps * conv_up64(dgrad ? g->k : g->c), weights = size.cols * row;
    conv_map_matrix(&out->map[1], GY_SCRATCH, row, size.cols, bn);
    out->scratch = (size_t)conv_up(weights * 2, 256) * 256;
    conv_launch_of(out, "conv_wgmma_weights", conv_up(weights / 8, CONV_WGMMA_THREADS), 1, 1, CONV_WGMMA_THREADS, 0);
    conv_launch_of(out, "conv_wgmma", gy_min64(tiles, most), 1, 1, CONV_WGMMA_THREADS, shared);
    conv_cut_stats(op, CONV_WGMMA_BM, out);
}

static void conv_wgmma_cut(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct conv_size size = conv_size_of(op);
    const int64_t taps = (int64_t)op->geom.r * op->geom.s;
    const int64_t cols = op->code == GY_OP_CONV_WGRAD ? taps * conv_up64(op->geom.c) : size.cols;
    const int64_t high = conv_up(size.rows, CONV_WGMMA_BM) * size.classes, wide = high * conv_up(cols, 256);
    const int wgrad = op->code == GY_OP_CONV_WGRAD, few = !wgrad && high * conv_up(cols, 128) < CONV_BLOCKS / 2;
    const int widest = !wgrad && size.classes == 1 && cols % 256 == 0 && wide >= CONV_BLOCKS;
    if (wgrad && size.rows <= 64 && cols % 192 == 0)
        conv_wgmma_cut_by(op, device, 64, 192, out);
    else
        conv_wgmma_cut_by(op, device, CONV_WGMMA_BM, cols <= 64 || few ? 64 : widest ? 256 : 128,
                          out);
}

static void conv_wgmma_cut_low(const struct gy_op *op, const struct gy_cuda_device *device,
                               struct gy_cuda_cut *out)
{
    conv_wgmma_cut_by(op, device, 64, 192, out);
}

#define CONV_WGMMA_CUT(bn)                                                                                             \
    static void conv_wgmma_cut_##bn(const struct gy_op *op, const struct gy_cuda_device *device,                      \
                                    struct gy_cuda_cut *out)                                                           \
    {                                                                                                                  \
        conv_wgmma_cut_by(op, device, CONV_WGMMA_BM, bn, out);                                                         \
    }
CONV_WGMMA_CUT(64)
CONV_WGMMA_CUT(128)
CONV_WGMMA_CUT(256)

#define CONV_ALL (1u << GY_F32 | 1u << GY_BF16 | 1u << GY_F16)
#define CONV_HALVES (1u << GY_BF16 | 1u << GY_F16)
#define CONV_FACTS (GY_FACT_SHAPE | GY_FACT_OUT | GY_FACT_WINDOW)
#define CONV_FACTS_0 (CONV_FACTS | GY_FACT_ACT | GY_FACT_HAS)
#define CONV_FACTS_1 (CONV_FACTS | GY_FACT_FLAGS)
#define CONV_FACTS_2 (CONV_FACTS | GY_FACT_HAS)
#define CONV_THREE(name, arch, dtypes, fits, cut)                                                                      \
    { GY_OP_CONV, name, arch, dtypes, CONV_FACTS_0, fits, cut },                                                       \
    { GY_OP_CONV_DGRAD, name, arch, dtypes, CONV_FACTS_1, fits, cut },                                                 \
    { GY_OP_CONV_WGRAD, name, arch, dtypes, CONV_FACTS_2, fits, cut }

static const struct gy_cuda_row conv_rows[] = {
    CONV_THREE("plain", 60, CONV_ALL, conv_fits, conv_plain_cut),
    CONV_THREE("ffma-64x64", 60, CONV_ALL, conv_fits, conv_ffma_cut_0),
    CONV_THREE("ffma-128x64", 60, CONV_ALL, conv_fits, conv_ffma_cut_1),
    CONV_THREE("ffma-128x128", 60, CONV_ALL, conv_fits, conv_ffma_cut_2),
    CONV_THREE("ffma", 60, CONV_ALL, conv_fits, conv_ffma_cut),
    { GY_OP_CONV, "mma4", 70, 1u << GY_F16, CONV_FACTS_0, conv_mma_70_fits, conv_mma_cut },
    { GY_OP_CONV_DGRAD, "mma4", 70, 1u << GY_F16, CONV_FACTS_1, conv_mma_70_fits, conv_mma_cut },
    { GY_OP_CONV, "mma4-lines", 70, 1u << GY_F16, CONV_FACTS_0, conv_lines_70_fits, conv_lines_cut },
    CONV_THREE("mma8", 75, 1u << GY_F16, conv_mma_75_fits, conv_mma_cut),
    { GY_OP_CONV, "mma8-lines", 75, 1u << GY_F16, CONV_FACTS_0, conv_lines_75_fits, conv_lines_cut },
    { GY_OP_CONV_WGRAD, "mma8-lines", 75, 1u << GY_F16, CONV_FACTS_2, conv_lines_75_fits, conv_lines_cut },
    CONV_THREE("mma16-64x64", 80, CONV_HALVES, conv_mma_fits, conv_mma_cut_0),
    CONV_THREE("mma16-128x64", 80, CONV_HALVES, conv_mma_fits, conv_mma_cut_1),
    CONV_THREE("mma16-128x128", 80, CONV_HALVES, conv_mma_fits, conv_mma_cut_2),
    CONV_THREE("mma16", 80, CONV_HALVES, conv_mma_fits, conv_mma_cut),
    { GY_OP_CONV, "mma16-lines", 80, CONV_HALVES, CONV_FACTS_0, conv_lines_fits, conv_lines_cut },
    { GY_OP_CONV_WGRAD, "mma16-lines", 80, CONV_HALVES, CONV_FACTS_2, conv_lines_fits, conv_lines_cut },
    CONV_THREE("wgmma-128x64", 90, CONV_HALVES, conv_wgmma_fits, conv_wgmma_cut_64),
    CONV_THREE("wgmma-128x128", 90, CONV_HALVES, conv_wgmma_fits, conv_wgmma_cut_128),
    { GY_OP_CONV, "wgmma-128x256", 90, CONV_HALVES, CONV_FACTS_0, conv_wgmma_wide_fits, conv_wgmma_cut_256 },
    { GY_OP_CONV_DGRAD, "wgmma-128x256", 90, CONV_HALVES, CONV_FACTS_1, conv_wgmma_wide_fits, conv_wgmma_cut_256 },
    { GY_OP_CONV_WGRAD, "wgmma-64x192", 90, CONV_HALVES, CONV_FACTS_2, conv_wgmma_fits,
      conv_wgmma_cut_low },
    CONV_THREE("wgmma", 90, CONV_HALVES, conv_wgmma_fits, conv_wgmma_cut),
    CONV_THREE("group", 60, CONV_ALL, conv_group_fits, conv_group_cut),
};

GY_INT const struct gy_cuda_row *gy_cuda_conv_row_at(int index)
{
    return index >= 0 && index < (int)GY_COUNT(conv_rows) ? &conv_rows[index] : NULL;
}
