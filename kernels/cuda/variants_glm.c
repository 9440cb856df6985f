/* SPDX-License-Identifier: MIT */
/* variants_glm.c: the variants of linear models' ops, for variants.c: one row a code, all from the
 * same compiled file. The caller decides how many rows make steps at a time (geom.n): the more, the
 * older the model that a row sees. */
#include "kernels/cuda/variants_glm.h"
#include "engine/base/rng.h"
#include "kernels/glm_loss.h"
#ifndef GY_NO_CUDA

enum { GLM_CUT_THREADS = 256, GLM_CUT_WARPS = GLM_CUT_THREADS / 32, GLM_CUT_BLOCKS = 1024, GLM_CUT_PARTS = 256 };

static void cut_glm_launch(struct gy_cuda_cut *out, const char *entry, int64_t blocks, int threads)
{
    out->launch[out->launches++] = (struct gy_cuda_launch){ .entry = entry, .grid = { (unsigned)gy_max64(1, blocks), 1, 1 },
                                                            .threads = (unsigned)threads, .shared = (unsigned)threads * 2 * sizeof(double) };
}

static void cut_glm(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out)
{
    static const char *const entries[] = { "glm_step", "glm_step_long", "glm_build", "glm_scores", "glm_sums", "glm_squares" };
    const int warps = op->geom.n < GLM_CUT_WARPS ? 1 : GLM_CUT_WARPS, threads = 32 * warps;
    const int64_t parts = gy_min64(gy_ceil_div(op->geom.k, 4 * GLM_CUT_THREADS), GLM_CUT_PARTS);
    const int64_t steps = gy_ceil_div(op->geom.n, warps), scores = gy_min64(gy_ceil_div(op->geom.k, warps), GLM_CUT_BLOCKS);
    const int64_t blocks[] = { steps, steps, scores, scores, parts, parts };
    const int which = op->code - GY_OP_GLM_STEP;
    (void)device;
    out->file = "glm.cu";
    out->define[out->defines].name = "GLM_LOSS";
    out->define[out->defines++].text = gy_glm_loss_at(op->act)->symbol;
    out->define[out->defines].name = "GLM_STREAM";
    out->define[out->defines++].value = GY_RNG_ORDER;
    out->define[out->defines].name = "GLM_PARTS";
    out->define[out->defines++].value = gy_max64(1, parts);
    cut_glm_launch(out, entries[which], blocks[which], threads);
    if (op->code == GY_OP_GLM_SUMS || op->code == GY_OP_GLM_SQUARES) {
        cut_glm_launch(out, "glm_join", 1, threads);
        out->scratch = (size_t)gy_max64(1, parts) * 2 * sizeof(double);
    }
}

static int fits_glm(const struct gy_op *op, const struct gy_cuda_device *device)
{
    (void)device;
    return op->geom.n >= 1 && op->geom.k >= 1;
}

GY_INT const struct gy_cuda_row *gy_cuda_glm_row_at(int index)
{
    static const struct gy_cuda_row rows[] = {
        { GY_OP_GLM_STEP, "warps", 60, 1 << GY_F32, 0, fits_glm, cut_glm },
        { GY_OP_GLM_STEP_LONG, "blocks", 60, 1 << GY_F32, 0, fits_glm, cut_glm },
        { GY_OP_GLM_BUILD, "warps", 60, 1 << GY_F32, 0, fits_glm, cut_glm },
        { GY_OP_GLM_SCORES, "warps", 60, 1 << GY_F32, 0, fits_glm, cut_glm },
        { GY_OP_GLM_SUMS, "parts", 60, 1 << GY_F32, 0, fits_glm, cut_glm },
        { GY_OP_GLM_SQUARES, "parts", 60, 1 << GY_F32, 0, fits_glm, cut_glm },
    };
    return index >= 0 && (size_t)index < GY_COUNT(rows) ? &rows[index] : NULL;
}

#endif
