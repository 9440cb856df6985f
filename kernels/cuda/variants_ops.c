/* SPDX-License-Identifier: MIT */
/* variants_ops.c: the variants of every op but convolutions and those of linear models, as a table.
 * variants.c reads it: of an op's rows that fit, the last one is taken. A cut counts its grid from
 * the op's shape, spans and type alone. GY_VEC elements are one access: of floats 4 (16 bytes), of
 * 16-bit numbers 8 (16 bytes) or 4 (8 bytes), or one element, where the shape allows no more. */
#include "kernels/cuda/variants_ops.h"
#include "engine/base/rng.h"
#ifndef GY_NO_CUDA

/* CUT_BLOCKS: blocks that give every multiprocessor of any card work. Cuts aim at it. */
enum { CUT_THREADS = 256, CUT_BLOCKS = 1024 };
enum { CUT_ALL = 1 << GY_F32 | 1 << GY_BF16 | 1 << GY_F16 };

static void cut_define(struct gy_cuda_cut *out, const char *name, int64_t value)
{
    out->define[out->defines].name = name;
    out->define[out->defines++].value = value;
}

static void cut_launch(struct gy_cuda_cut *out, const char *entry, int64_t x, int64_t y, size_t shared)
{
    out->launch[out->launches++] = (struct gy_cuda_launch){ .entry = entry,
                                                            .grid = { (unsigned)x, (unsigned)y, 1 },
                                                            .threads = CUT_THREADS,
                                                            .shared = (unsigned)shared };
}

/* Most elements of an access that divide a, b and c. */
static int cut_vec(const struct gy_op *op, int64_t a, int64_t b, int64_t c)
{
    const int64_t rest = a | b | c;
    return op->dtype != GY_F32 && rest % 8 == 0 ? 8 : rest % 4 == 0 ? 4 : 1;
}

/* ---- flat.cu ---- */

/* A launch of kernel `entry` over `items` elements, `vec` an access. part: the macro that makes
 * flat.cu contain that kernel. */
static void cut_line(struct gy_cuda_cut *out, const char *entry, const char *part, int64_t items, int vec)
{
    const int64_t vectors = gy_ceil_div(items, vec);
    const int per = vectors >= (int64_t)4 * CUT_THREADS * CUT_BLOCKS ? 4 : 1;
    out->file = "flat.cu";
    cut_define(out, part, 1);
    cut_define(out, "GY_ITEMS", items);
    cut_define(out, "GY_VEC", vec);
    cut_define(out, "GY_PER", per);
    cut_launch(out, entry, gy_ceil_div(vectors, (int64_t)CUT_THREADS * per), 1, 0);
}

static int64_t cut_items(const struct gy_op *op)
{
    return op->geom.n * op->geom.h * op->geom.w * op->geom.c;
}

#define CUT_FLAT(name, entry, part)                                                                                    \
    static void cut_##name(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)       \
    {                                                                                                                  \
        (void)device;                                                                                                  \
        cut_line(out, entry, part, cut_items(op), cut_vec(op, 0, 0, 0));                                               \
    }
CUT_FLAT(input, "flat_input", "FLAT_INPUT")
CUT_FLAT(act, "flat_act", "FLAT_ACT")
CUT_FLAT(act_bwd, "flat_back", "FLAT_ACT_BWD")
CUT_FLAT(add, "flat_add", "FLAT_ADD")
CUT_FLAT(add_bwd, "flat_back", "FLAT_ADD_BWD")

static void cut_dropout(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    (void)device;
    cut_line(out, "flat_dropout", "FLAT_DROPOUT", cut_items(op), cut_vec(op, 0, 0, 0));
    cut_define(out, "FLAT_STREAM", (int64_t)GY_RNG_DROPOUT + op->id);
}

/* Channels are copied to or from a place in another tensor, `place` channels from its begin. The
 * elements of an access divide the channels of both tensors and place. */
static void cut_move(const struct gy_op *op, struct gy_cuda_cut *out, const char *entry, const char *part, int64_t items, int place)
{
    const struct gy_geom *g = &op->geom;
    cut_line(out, entry, part, items, cut_vec(op, g->c, g->k, place));
    cut_define(out, "GY_C", g->c);
    cut_define(out, "GY_K", g->k);
}

static void cut_concat(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const int back = op->code == GY_OP_CONCAT_BWD;
    (void)device;
    cut_move(op, out, back ? "flat_move_bwd" : "flat_concat", back ? "FLAT_CONCAT_BWD" : "FLAT_CONCAT", cut_items(op),
             op->geom.r);
    cut_define(out, "GY_R", op->geom.r);
}

static void cut_shortcut(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct gy_geom *g = &op->geom;
    const int back = op->code == GY_OP_SHORTCUT_BWD;
    (void)device;
    cut_move(op, out, back ? "flat_move_bwd" : "flat_shortcut", back ? "FLAT_SHORTCUT_BWD" : "FLAT_SHORTCUT",
             back ? cut_items(op) : g->n * g->p * g->q * g->k, (g->k - g->c) / 2);
    cut_define(out, "GY_H", g->h);
    cut_define(out, "GY_W_", g->w);
    cut_define(out, "GY_P_", g->p);
    cut_define(out, "GY_Q", g->q);
    cut_define(out, "GY_STRIDE_H", g->stride_h);
    cut_define(out, "GY_STRIDE_W", g->stride_w);
}

/* ---- norm.cu ---- */

/* A block of columns: GY_COLS vectors of channels, the power of two up to 32 that covers them. */
struct cut_columns {
    int64_t pixels, groups; /* of blocks beside one another */
    int vec, cols, rows;
};

static struct cut_columns cut_columns_of(const struct gy_op *op, int64_t pixels)
{
    struct cut_columns c = { .pixels = pixels, .vec = cut_vec(op, op->geom.c, 0, 0), .cols = 1 };
    const int64_t wide = op->geom.c / c.vec;
    while (c.cols < wide && c.cols < 32)
        c.cols *= 2;
    c.groups = gy_ceil_div(wide, c.cols);
    c.rows = CUT_THREADS / c.cols;
    return c;
}

static int64_t cut_pixels(const struct gy_op *op) { return op->geom.n * op->geom.h * op->geom.w; }

/* Defines of a block of columns with `steps` rows a thread; returns the tiles. */
static int64_t cut_tiles(struct gy_cuda_cut *out, const struct gy_op *op, const struct cut_columns *c, int64_t steps, const char *part)
{
    const int64_t tiles = gy_ceil_div(c->pixels, c->rows * steps);
    out->file = "norm.cu";
    cut_define(out, part, 1);
    cut_define(out, "GY_PIXELS", c->pixels);
    cut_define(out, "GY_IMAGE", c->pixels / op->geom.n);
    cut_define(out, "GY_C", op->geom.c);
    cut_define(out, "GY_VEC", c->vec);
    cut_define(out, "GY_COLS", c->cols);
    cut_define(out, "GY_TILE", c->rows * steps);
    cut_define(out, "GY_TILES", tiles);
    return tiles;
}

/* Rows that a thread adds before the block adds over its threads: a multiple of 4. It gives at most
 * about 2 * CUT_BLOCKS blocks. Fewer, longer blocks would leave multiprocessors idle at the end of
 * the launch; more blocks would leave more parts to join. */
static int64_t cut_sum_steps(const struct cut_columns *c)
{
    const int64_t tiles = gy_max64(1, 2 * CUT_BLOCKS / c->groups);
    return gy_ceil_div(gy_ceil_div(c->pixels, c->rows * tiles), 4) * 4;
}

static void cut_sums_of(const struct gy_op *op, struct gy_cuda_cut *out, int stats)
{
    const struct cut_columns c = cut_columns_of(op, cut_pixels(op));
    const int64_t tiles = cut_tiles(out, op, &c, cut_sum_steps(&c), stats ? "NORM_STATS" : "NORM_SUMS");
    const size_t shared = (size_t)(2 * c.vec + stats) * CUT_THREADS * sizeof(float);
    cut_launch(out, stats ? "norm_stats" : "norm_sums", tiles, c.groups, shared);
    if (stats && tiles == 1)
        return;
    cut_launch(out, stats ? "norm_stats_join" : "norm_sums_join", gy_ceil_div(op->geom.c, 8), 1, shared);
    out->scratch = (size_t)tiles * 2 * (size_t)op->geom.c * sizeof(float);
}

static void cut_stats(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    (void)device;
    cut_sums_of(op, out, 1);
}

static void cut_sums(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    (void)device;
    cut_sums_of(op, out, 0);
}

/* A pass without sums: 1, 2, 4, 8 or 16 rows a thread, while 2 * CUT_BLOCKS blocks are left. */
static void cut_pass(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct cut_columns c = cut_columns_of(op, cut_pixels(op));
    const int back = op->code == GY_OP_BN_BWD;
    int64_t steps = 1;
    (void)device;
    while (steps < 16 && gy_ceil_div(c.pixels, c.rows * steps * 2) * c.groups >= 2 * CUT_BLOCKS)
        steps *= 2;
    const int64_t tiles = cut_tiles(out, op, &c, steps, back ? "NORM_BWD" : "NORM_APPLY");
    cut_launch(out, back ? "norm_bwd" : "norm_apply", tiles, c.groups, 0);
}

static void cut_channels(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const int fold = op->code == GY_OP_BN_FOLD;
    (void)device;
    out->file = "norm.cu";
    cut_define(out, fold ? "NORM_FOLD" : "NORM_FINISH", 1);
    cut_define(out, "GY_PIXELS", cut_pixels(op));
    cut_define(out, "GY_IMAGE", (int64_t)op->geom.h * op->geom.w);
    cut_define(out, "GY_C", op->geom.c);
    cut_define(out, "GY_VEC", 1);
    cut_define(out, "GY_COLS", 1);
    cut_define(out, "GY_TILE", CUT_THREADS);
    cut_launch(out, fold ? "norm_fold" : "norm_finish", gy_ceil_div(op->geom.c, CUT_THREADS), 1, 0);
}

/* ---- pool.cu ---- */

static void cut_pool(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    static const struct { int code; const char *part, *entry; } parts[] = {
        { GY_OP_POOL_MAX, "POOL_MAX", "pool_max" },
        { GY_OP_POOL_AVG, "POOL_AVG", "pool_avg" },
        { GY_OP_POOL_MAX_BWD, "POOL_MAX_BWD", "pool_gather" },
        { GY_OP_POOL_AVG_BWD, "POOL_AVG_BWD", "pool_gather" },
    };
    const struct gy_geom *g = &op->geom;
    const int back = op->code == GY_OP_POOL_MAX_BWD || op->code == GY_OP_POOL_AVG_BWD;
    const int vec = cut_vec(op, g->c, 0, 0);
    const int64_t vectors = g->n * (back ? (int64_t)g->h * g->w : (int64_t)g->p * g->q) * (g->c / vec);
    size_t i = 0;
    (void)device;
    while (parts[i].code != op->code)
        i++;
    out->file = "pool.cu";
    cut_define(out, parts[i].part, 1);
    cut_define(out, "GY_VEC", vec);
    cut_launch(out, parts[i].entry, gy_ceil_div(vectors, CUT_THREADS), 1, 0);
}

/* One window over the whole image. */
static int fits_pool_global(const struct gy_op *op, const struct gy_cuda_device *device)
{
    const struct gy_geom *g = &op->geom;
    (void)device;
    return g->p == 1 && g->q == 1 && g->pad_h == 0 && g->pad_w == 0 && g->r == g->h && g->s == g->w;
}

static void cut_pool_global(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const struct cut_columns c = cut_columns_of(op, (int64_t)op->geom.h * op->geom.w);
    (void)device;
    out->file = "pool.cu";
    cut_define(out, "POOL_GLOBAL", 1);
    cut_define(out, "GY_VEC", c.vec);
    cut_define(out, "GY_COLS", c.cols);
    cut_launch(out, "pool_global", op->geom.n, c.groups, (size_t)c.vec * CUT_THREADS * sizeof(float));
}

/* ---- lrn.cu ---- */

enum { CUT_LRN_ROOM = 2048 };

static void cut_lrn(const struct gy_op *op, struct gy_cuda_cut *out, const char *kind)
{
    out->file = "lrn.cu";
    cut_define(out, kind, 1);
    if (op->code == GY_OP_LRN)
        cut_define(out, "LRN_FORWARD", 1);
    cut_define(out, "GY_PIXELS", cut_pixels(op));
    cut_define(out, "GY_C", op->geom.c);
    cut_define(out, "GY_R", op->geom.r);
}

static void cut_lrn_direct(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    (void)device;
    cut_lrn(op, out, "LRN_DIRECT");
    cut_launch(out, "lrn", gy_ceil_div(cut_items(op), CUT_THREADS), 1, 0);
}

static int fits_lrn_shared(const struct gy_op *op, const struct gy_cuda_device *device)
{
    (void)device;
    return op->geom.c <= CUT_LRN_ROOM;
}

static void cut_lrn_shared(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const int64_t pixels = gy_min64(CUT_LRN_ROOM / op->geom.c, cut_pixels(op));
    const int64_t arrays = op->code == GY_OP_LRN ? 1 : 3;
    (void)device;
    cut_lrn(op, out, "LRN_SHARED");
    cut_define(out, "LRN_PIXELS", pixels);
    cut_launch(out, "lrn", gy_ceil_div(cut_pixels(op), pixels), 1, (size_t)(arrays * pixels * op->geom.c) * sizeof(float));
}

/* ---- loss.cu ---- */

static void cut_loss(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const int softmax = op->code == GY_OP_SOFTMAX_CE;
    (void)device;
    out->file = "loss.cu";
    cut_define(out, softmax ? "LOSS_SOFTMAX" : "LOSS_MSE", 1);
    cut_launch(out, softmax ? "loss_softmax" : "loss_mse", gy_ceil_div(op->geom.n, CUT_THREADS / 32), 1, 0);
}

static void cut_loss_bwd(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    (void)device;
    out->file = "loss.cu";
    cut_define(out, op->code == GY_OP_SOFTMAX_CE_BWD ? "LOSS_SOFTMAX_BWD" : "LOSS_MSE_BWD", 1);
    cut_launch(out, "loss_bwd", gy_ceil_div(op->geom.n * op->geom.c, CUT_THREADS), 1, 0);
}

/* ---- optim.cu ---- */

/* CUT_SLICE: most elements of a slice, unless a span has more than CUT_SLICE * CUT_BLOCKS. */
enum { CUT_SPANS_MOST = 65535 /* grid y */, CUT_SLICE = 65536 };

static int fits_norms(const struct gy_op *op, const struct gy_cuda_device *device)
{
    (void)device;
    return op->span_count >= 1 && op->span_count <= CUT_SPANS_MOST;
}

static int fits_update(const struct gy_op *op, const struct gy_cuda_device *device)
{
    (void)device;
    return op->span_count >= 1;
}

/* Slices of each span, as many as the largest span needs; scratch holds two sums a slice. */
static int64_t cut_slices(const struct gy_op *op, struct gy_cuda_cut *out)
{
    int64_t most = 1;
    for (int s = 0; s < op->span_count; s++)
        most = gy_max64(most, op->spans[s].count);
    const int64_t parts = gy_min64(gy_ceil_div(most, CUT_SLICE), CUT_BLOCKS);
    cut_define(out, "OPTIM_PARTS", parts);
    out->scratch = (size_t)parts * (size_t)op->span_count * 2 * sizeof(float);
    return parts;
}

static void cut_norms(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const size_t shared = 2 * (CUT_THREADS / 32) * sizeof(float);
    (void)device;
    out->file = "optim.cu";
    cut_define(out, "OPTIM_NORMS", 1);
    cut_launch(out, "optim_norms", cut_slices(op, out), op->span_count, shared);
    cut_launch(out, "optim_norms_span", op->span_count, 1, shared);
    cut_launch(out, "optim_norms_all", 1, 1, shared);
}

static void cut_update(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    static const char *const rule[GY_OP_CODES] = {
        [GY_OP_SGD] = "OPTIM_SGD",
        [GY_OP_LARS] = "OPTIM_LARS",
        [GY_OP_ADAMW] = "OPTIM_ADAMW",
        [GY_OP_LAMB] = "OPTIM_LAMB",
    };
    const struct gy_span *last = &op->spans[op->span_count - 1];
    (void)device;
    out->file = "optim.cu";
    cut_define(out, rule[op->code], 1);
    cut_launch(out, "optim_update", gy_ceil_div(last->first + last->count, 4 * CUT_THREADS), 1, 0);
}

static void cut_lamb(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    const size_t shared = 2 * (CUT_THREADS / 32) * sizeof(float);
    out->file = "optim.cu";
    cut_launch(out, "optim_lamb", cut_slices(op, out), op->span_count, shared);
    cut_launch(out, "optim_norms_span", op->span_count, 1, shared);
    cut_update(op, device, out);
}

/* ---- the table ---- */

GY_INT const struct gy_cuda_row *gy_cuda_row_at(int index)
{
    enum {
        FLAT = GY_FACT_ACT | GY_FACT_FLAGS | GY_FACT_HAS,
        POOL = GY_FACT_SHAPE | GY_FACT_OUT | GY_FACT_WINDOW | GY_FACT_FLAGS,
        UPDATE = GY_FACT_FLAGS | GY_FACT_F | GY_FACT_HAS | GY_FACT_SPANS
    };
    static const struct gy_cuda_row rows[] = {
        { GY_OP_INPUT, "line", 60, CUT_ALL, GY_FACT_SHAPE | GY_FACT_FLAGS | GY_FACT_F | GY_FACT_HAS, NULL, cut_input },
        { GY_OP_ACT, "line", 60, CUT_ALL, GY_FACT_ACT, NULL, cut_act },
        { GY_OP_ACT_BWD, "line", 60, CUT_ALL, FLAT, NULL, cut_act_bwd },
        { GY_OP_ADD, "line", 60, CUT_ALL, GY_FACT_ACT, NULL, cut_add },
        { GY_OP_ADD_BWD, "line", 60, CUT_ALL, FLAT, NULL, cut_add_bwd },
        { GY_OP_DROPOUT, "line", 60, CUT_ALL, GY_FACT_F, NULL, cut_dropout },
        { GY_OP_CONCAT, "line", 60, CUT_ALL, 0, NULL, cut_concat },
        { GY_OP_CONCAT_BWD, "line", 60, CUT_ALL, GY_FACT_FLAGS, NULL, cut_concat },
        { GY_OP_SHORTCUT, "line", 60, CUT_ALL, 0, NULL, cut_shortcut },
        { GY_OP_SHORTCUT_BWD, "line", 60, CUT_ALL, GY_FACT_FLAGS, NULL, cut_shortcut },
        { GY_OP_BN_STATS, "columns", 60, CUT_ALL, 0, NULL, cut_stats },
        { GY_OP_BN_FINISH, "channels", 60, CUT_ALL, GY_FACT_F, NULL, cut_channels },
        { GY_OP_BN_FOLD, "channels", 60, CUT_ALL, GY_FACT_F | GY_FACT_HAS, NULL, cut_channels },
        { GY_OP_BN_APPLY, "columns", 60, CUT_ALL, GY_FACT_ACT | GY_FACT_HAS, NULL, cut_pass },
        { GY_OP_BN_SUMS, "columns", 60, CUT_ALL, GY_FACT_ACT | GY_FACT_HAS, NULL, cut_sums },
        { GY_OP_BN_BWD, "columns", 60, CUT_ALL, FLAT, NULL, cut_pass },
        { GY_OP_POOL_MAX, "window", 60, CUT_ALL, POOL | GY_FACT_HAS, NULL, cut_pool },
        { GY_OP_POOL_AVG, "window", 60, CUT_ALL, POOL | GY_FACT_F, NULL, cut_pool },
        { GY_OP_POOL_AVG, "global", 60, CUT_ALL, POOL | GY_FACT_F, fits_pool_global, cut_pool_global },
        { GY_OP_POOL_MAX_BWD, "gather", 60, CUT_ALL, POOL, NULL, cut_pool },
        { GY_OP_POOL_AVG_BWD, "gather", 60, CUT_ALL, POOL | GY_FACT_F, NULL, cut_pool },
        { GY_OP_LRN, "direct", 60, CUT_ALL, GY_FACT_F, NULL, cut_lrn_direct },
        { GY_OP_LRN, "shared", 60, CUT_ALL, GY_FACT_F, fits_lrn_shared, cut_lrn_shared },
        { GY_OP_LRN_BWD, "direct", 60, CUT_ALL, GY_FACT_FLAGS | GY_FACT_F, NULL, cut_lrn_direct },
        { GY_OP_LRN_BWD, "shared", 60, CUT_ALL, GY_FACT_FLAGS | GY_FACT_F, fits_lrn_shared, cut_lrn_shared },
        { GY_OP_SOFTMAX_CE, "warp", 60, CUT_ALL, GY_FACT_SHAPE | GY_FACT_F | GY_FACT_HAS, NULL, cut_loss },
        { GY_OP_MSE, "warp", 60, CUT_ALL, GY_FACT_SHAPE | GY_FACT_F | GY_FACT_HAS, NULL, cut_loss },
        { GY_OP_SOFTMAX_CE_BWD, "line", 60, CUT_ALL, GY_FACT_SHAPE | GY_FACT_FLAGS | GY_FACT_F | GY_FACT_HAS, NULL, cut_loss_bwd },
        { GY_OP_MSE_BWD, "line", 60, CUT_ALL, GY_FACT_SHAPE | GY_FACT_FLAGS | GY_FACT_F | GY_FACT_HAS, NULL, cut_loss_bwd },
        { GY_OP_NORMS, "slices", 60, 1 << GY_F32, GY_FACT_SPANS, fits_norms, cut_norms },
        { GY_OP_SGD, "spans", 60, 1 << GY_F32, UPDATE, fits_update, cut_update },
        { GY_OP_LARS, "spans", 60, 1 << GY_F32, UPDATE, fits_update, cut_update },
        { GY_OP_ADAMW, "spans", 60, 1 << GY_F32, UPDATE, fits_update, cut_update },
        { GY_OP_LAMB, "spans", 60, 1 << GY_F32, UPDATE, fits_norms, cut_lamb },
    };
    return index >= 0 && (size_t)index < GY_COUNT(rows) ? &rows[index] : NULL;
}

#endif
