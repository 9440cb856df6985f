/* SPDX-License-Identifier: MIT */
/* variants.c: picks the last row that fits an op from the three tables of rows, and gives its facts
 * to the compiler as macros. */
#include "kernels/cuda/variants.h"
#include "engine/base/text.h"
#include "kernels/cuda/variants_conv.h"
#include "kernels/cuda/variants_glm.h"
#include "kernels/cuda/variants_ops.h"
#ifndef GY_NO_CUDA

/* ---- picking ---- */

static int pick_fits(const struct gy_cuda_row *row, const struct gy_op *op, const struct gy_cuda_device *device)
{
    return row->code == op->code && row->arch <= device->arch && (row->dtypes >> op->dtype & 1) &&
           (!row->fits || row->fits(op, device));
}

GY_INT const struct gy_cuda_row *gy_cuda_pick(const struct gy_op *op, const struct gy_cuda_device *device, const char *want)
{
    static const struct gy_cuda_row *(*const tables[])(int) = { gy_cuda_row_at, gy_cuda_conv_row_at, gy_cuda_glm_row_at };
    const struct gy_cuda_row *best = NULL;
    for (size_t t = 0; t < GY_COUNT(tables); t++)
        for (int i = 0; tables[t](i); i++) {
            const struct gy_cuda_row *row = tables[t](i);
            if (!pick_fits(row, op, device))
                continue;
            if (want && strcmp(row->name, want) == 0)
                return row;
            best = row;
        }
    return best;
}

/* ---- options of the compiler ---- */

struct pick_room {
    char *text;
    size_t bytes, used;
    int count; /* -1: the room did not suffice */
};

static void pick_put(struct pick_room *room, const char *name, const char *value)
{
    if (room->count < 0)
        return;
    const size_t left = room->bytes - room->used;
    const int length = snprintf(room->text + room->used, left, "-D%s=%s", name, value);
    if (length < 0 || (size_t)length >= left) {
        room->count = -1;
        return;
    }
    room->used += (size_t)length + 1;
    room->count++;
}

static void pick_int(struct pick_room *room, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    pick_put(room, name, text);
}

/* Nine digits name a float exactly. A whole number gets a point. */
static void pick_float(struct pick_room *room, const char *name, float value)
{
    char digits[40], text[48];
    gy_text_print(digits, sizeof digits, "%.9g", (double)value);
    snprintf(text, sizeof text, "%s%s", digits, strpbrk(digits, ".e") ? "f" : ".0f");
    pick_put(room, name, text);
}

static void pick_shape(struct pick_room *room, const struct gy_geom *g, unsigned facts)
{
    const struct { unsigned fact; const char *name; int64_t value; } facts_of[] = {
        { GY_FACT_SHAPE, "GY_N", g->n },           { GY_FACT_SHAPE, "GY_H", g->h },
        { GY_FACT_SHAPE, "GY_W_", g->w },           { GY_FACT_SHAPE, "GY_C", g->c },
        { GY_FACT_OUT, "GY_P_", g->p },            { GY_FACT_OUT, "GY_Q", g->q },
        { GY_FACT_OUT, "GY_K", g->k },             { GY_FACT_WINDOW, "GY_R", g->r },
        { GY_FACT_WINDOW, "GY_S", g->s },          { GY_FACT_WINDOW, "GY_STRIDE_H", g->stride_h },
        { GY_FACT_WINDOW, "GY_STRIDE_W", g->stride_w }, { GY_FACT_WINDOW, "GY_PAD_H", g->pad_h },
        { GY_FACT_WINDOW, "GY_PAD_W", g->pad_w },  { GY_FACT_WINDOW, "GY_DIL_H", g->dil_h },
        { GY_FACT_WINDOW, "GY_DIL_W", g->dil_w },  { GY_FACT_WINDOW, "GY_GROUPS", g->groups },
    };
    for (size_t i = 0; i < GY_COUNT(facts_of); i++)
        if (facts & facts_of[i].fact)
            pick_int(room, facts_of[i].name, facts_of[i].value);
}

static int pick_has(const struct gy_op *op, int role) { return op->tensor[role] >= 0; }

static void pick_roles(struct pick_room *room, const struct gy_op *op)
{
    static const char *const names[GY_ROLES] = {
        [GY_X] = "GY_HAS_X",               [GY_Y] = "GY_HAS_Y",               [GY_W] = "GY_HAS_W",
        [GY_BIAS] = "GY_HAS_BIAS",         [GY_RES] = "GY_HAS_RES",           [GY_STATS] = "GY_HAS_STATS",
        [GY_GAMMA] = "GY_HAS_GAMMA",       [GY_BETA] = "GY_HAS_BETA",         [GY_SCALE] = "GY_HAS_SCALE",
        [GY_SHIFT] = "GY_HAS_SHIFT",       [GY_RES_SCALE] = "GY_HAS_RES_SCALE", [GY_RES_SHIFT] = "GY_HAS_RES_SHIFT",
        [GY_MEAN] = "GY_HAS_MEAN",         [GY_RSTD] = "GY_HAS_RSTD",
        [GY_RUN_MEAN] = "GY_HAS_RUN_MEAN", [GY_RUN_VAR] = "GY_HAS_RUN_VAR",   [GY_ARG] = "GY_HAS_ARG",
        [GY_LABEL] = "GY_HAS_LABEL",       [GY_MIX] = "GY_HAS_MIX",           [GY_TARGET] = "GY_HAS_TARGET",
        [GY_LOSS] = "GY_HAS_LOSS",         [GY_DX] = "GY_HAS_DX",             [GY_DY] = "GY_HAS_DY",
        [GY_DW] = "GY_HAS_DW",             [GY_DBIAS] = "GY_HAS_DBIAS",       [GY_DRES] = "GY_HAS_DRES",
        [GY_SUMS] = "GY_HAS_SUMS",         [GY_DGAMMA] = "GY_HAS_DGAMMA",     [GY_DBETA] = "GY_HAS_DBETA",
        [GY_AGAIN] = "GY_HAS_AGAIN",       [GY_M] = "GY_HAS_M",               [GY_V] = "GY_HAS_V",
        [GY_EMA] = "GY_HAS_EMA",           [GY_SCRATCH] = "GY_HAS_SCRATCH",
    };
    for (int role = 0; role < GY_ROLES; role++)
        pick_int(room, names[role], pick_has(op, role));
}

GY_INT int gy_cuda_options(const struct gy_op *op, const struct gy_cuda_row *row, const struct gy_cuda_cut *cut,
                           const struct gy_cuda_device *device, char *room, size_t bytes, size_t *used)
{
    static const char *const constants[8] = { "GY_F0", "GY_F1", "GY_F2", "GY_F3", "GY_F4", "GY_F5", "GY_F6", "GY_F7" };
    struct pick_room out = { .text = room, .bytes = bytes };
    unsigned shared = 0; /* the most that one of the launches has */
    for (int i = 0; i < cut->launches; i++)
        shared = cut->launch[i].shared > shared ? cut->launch[i].shared : shared;
    pick_int(&out, "GY_ARCH", device->arch);
    pick_int(&out, "GY_THREADS", cut->launch[0].threads);
    pick_int(&out, "GY_SHARED_BYTES", shared);
    pick_int(&out, "GY_DTYPE", op->dtype);
    pick_int(&out, "GY_ACT", row->facts & GY_FACT_ACT ? op->act : 0);
    if (row->facts & GY_FACT_ACT && op->act_param != 0)
        pick_float(&out, "GY_ACT_PARAM", op->act_param);
    pick_int(&out, "GY_FLAGS", row->facts & GY_FACT_FLAGS ? (int64_t)op->flags : 0);
    if (row->facts & GY_FACT_ID)
        pick_int(&out, "GY_ID", op->id);
    if (row->facts & GY_FACT_SPANS)
        pick_int(&out, "GY_SPANS", op->span_count);
    pick_shape(&out, &op->geom, row->facts);
    for (int i = 0; i < 8 && row->facts & GY_FACT_F; i++)
        pick_float(&out, constants[i], op->f[i]);
    if (row->facts & GY_FACT_HAS)
        pick_roles(&out, op);
    for (int i = 0; i < cut->defines; i++)
        if (cut->define[i].text)
            pick_put(&out, cut->define[i].name, cut->define[i].text);
        else
            pick_int(&out, cut->define[i].name, cut->define[i].value);
    if (out.count >= 0)
        *used = out.used;
    return out.count;
}

#endif
