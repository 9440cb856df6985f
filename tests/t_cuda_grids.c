/* SPDX-License-Identifier: MIT */
/* t_cuda_grids.c: launches of large convolutions, cut without a GPU. Random shapes reach up to the
 * limits of variants_conv.c. Each must have a row on every architecture, and every launch of a row
 * that fits must keep CUDA's limits of a grid.
 *
 *   t_cuda_grids [SHAPES [SEED]]    default 3000 shapes */
#include "engine/base/rng.h"
#include "kernels/cuda/variants.h"
#include "kernels/cuda/variants_conv.h"
#include "kernels/op_table.h"
#include "tests/t.h"

#define GRID_MOST ((int64_t)INT32_MAX - 1024) /* pixels of a batch; half: of an image, a filter */
#define GRID_VALUES 68719476736.0            /* of both images and the filter: 128 GiB in 16 bits */

static const int grid_archs[] = { 60, 70, 75, 80, 90, 120 };

struct grid_draws {
    uint64_t seed, at;
};

/* From 1 to most, each power of two as often. */
static int64_t grid_draw(struct grid_draws *d, int64_t most)
{
    const double u = (double)gy_rng_uniform(d->seed, 1, 0, d->at++);
    const int64_t value = (int64_t)exp(u * log((double)most + 1));
    return value < 1 ? 1 : value > most ? most : value;
}

/* One side: size, filter, stride, padding, dilation; returns the output's. */
static int32_t grid_side(struct grid_draws *d, int32_t *size, int32_t *taps, int32_t *stride, int32_t *pad, int32_t *dil)
{
    *size = (int32_t)grid_draw(d, 8192);
    *taps = (int32_t)grid_draw(d, grid_draw(d, *size));
    *dil = *taps > 1 && grid_draw(d, 4) == 4 && 2 * (*taps - 1) < *size ? 2 : 1;
    *stride = (int32_t)grid_draw(d, grid_draw(d, *size));
    *pad = (int32_t)grid_draw(d, *taps) - 1;
    return (*size + 2 * *pad - *dil * (*taps - 1) - 1) / *stride + 1;
}

/* 0: a shape beyond the limits, or a batch that would be empty. */
static int grid_make(struct grid_draws *d, struct gy_geom *g)
{
    memset(g, 0, sizeof *g);
    g->p = grid_side(d, &g->h, &g->r, &g->stride_h, &g->pad_h, &g->dil_h);
    g->q = grid_side(d, &g->w, &g->s, &g->stride_w, &g->pad_w, &g->dil_w);
    g->groups = grid_draw(d, 3) == 3 ? (int32_t)grid_draw(d, 512) : 1;
    g->c = g->groups * (int32_t)grid_draw(d, 4096 / g->groups);
    g->k = g->groups * (int32_t)grid_draw(d, 4096 / g->groups);
    const int64_t in = (int64_t)g->h * g->w, out = (int64_t)g->p * g->q, pixels = in > out ? in : out;
    if (in * g->c >= GRID_MOST / 2 || out * g->k >= GRID_MOST / 2 || (int64_t)g->r * g->s * g->c >= GRID_MOST / 2)
        return 0;
    const double filter = (double)g->k * g->r * g->s * (g->c / g->groups), image = (double)(in * g->c + out * g->k);
    const int64_t fit = (int64_t)((GRID_VALUES - filter) / image), most = (GRID_MOST - 1) / pixels;
    if (filter >= GRID_VALUES || fit < 1)
        return 0;
    g->n = grid_draw(d, fit < most ? fit : most);
    return 1;
}

/* 1: all launches of the row keep the limits. */
static int grid_keeps(const struct gy_op *op, const struct gy_cuda_device *device, const struct gy_cuda_row *row)
{
    struct gy_cuda_cut cut = { 0 };
    row->cut(op, device, &cut);
    if ((double)cut.scratch > 2 * GRID_VALUES)
        return 1;
    for (int i = 0; i < cut.launches; i++) {
        const struct gy_cuda_launch *const l = &cut.launch[i];
        if (l->grid[0] >= 1 && l->grid[0] <= INT32_MAX && l->grid[1] >= 1 && l->grid[1] <= 65535 && l->grid[2] >= 1 && l->grid[2] <= 65535 &&
            l->threads >= 1 && l->threads <= 1024)
            continue;
        printf("sm_%d, dtype %d, %s: %s wants %u x %u x %u blocks of %u threads\n", device->arch, op->dtype, row->name, l->entry, l->grid[0], l->grid[1],
               l->grid[2], l->threads);
        return 0;
    }
    return 1;
}

/* 1: some row fits, and all that do keep the limits. */
static int grid_fits(const struct gy_op *op, const struct gy_cuda_device *device, int64_t *cuts)
{
    int good = gy_cuda_pick(op, device, NULL) != NULL;
    for (int i = 0; gy_cuda_conv_row_at(i); i++) {
        const struct gy_cuda_row *const row = gy_cuda_conv_row_at(i);
        if (row->code != op->code || gy_cuda_pick(op, device, row->name) != row)
            continue;
        good &= grid_keeps(op, device, row);
        ++*cuts;
    }
    return good;
}

/* An op of the shape; extra: with statistics, or a bias's gradient. */
static struct gy_op grid_op(const struct gy_geom *g, int code, int dtype, int extra)
{
    static const int always[] = { GY_X, GY_W, GY_Y, GY_DY, GY_DX, GY_DW };
    struct gy_op op = gy_op_make(code, "shape", g);
    op.dtype = dtype;
    for (size_t i = 0; i < GY_COUNT(always); i++)
        op.tensor[always[i]] = always[i];
    if (extra)
        op.tensor[code == GY_OP_CONV ? GY_STATS : GY_DBIAS] = 1;
    return op;
}

static void grid_shape(const struct gy_geom *g, int shape, int64_t *cuts)
{
    static const int codes[] = { GY_OP_CONV, GY_OP_CONV_DGRAD, GY_OP_CONV_WGRAD };
    for (int turn = 0; turn < 3 * 2; turn++) {
        const int code = codes[turn % 3], classes = (int64_t)g->stride_h * g->stride_w < 65536;
        int good = 1;
        if (code == GY_OP_CONV_DGRAD && !classes)
            continue;
        for (size_t a = 0; a < GY_COUNT(grid_archs); a++)
            for (int dtype = 0; dtype < 3; dtype++) {
                const struct gy_op op = grid_op(g, code, dtype, turn / 3);
                const struct gy_cuda_device device = { .arch = grid_archs[a], .processors = 132, .shared_most = 99 << 10, .bulk = grid_archs[a] >= 90 };
                good &= grid_fits(&op, &device, cuts);
            }
        T_CHECK_MSG(good, "shape %d, op %d: n %" PRId64 ", %d x %d x %d to %d x %d x %d, filter %d x %d, stride %d x %d, groups %d", shape, code, g->n, g->h,
                    g->w, g->c, g->p, g->q, g->k, g->r, g->s, g->stride_h, g->stride_w, g->groups);
    }
}

int main(int argc, char **argv)
{
    const int shapes = argc > 1 ? atoi(argv[1]) : 3000;
    struct grid_draws d = { .seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1 };
    int64_t cuts = 0;
    int made = 0;
    for (int shape = 0; shape < shapes; shape++) {
        struct gy_geom g;
        d.at = (uint64_t)shape * 100;
        if (!grid_make(&d, &g))
            continue;
        made++;
        grid_shape(&g, shape, &cuts);
    }
    printf("%d shapes, %" PRId64 " cuts\n", made, cuts);
    T_CHECK(made > shapes / 4);
    T_END("t_cuda_grids");
}
