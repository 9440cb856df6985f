/* SPDX-License-Identifier: MIT */
/* amx_model.h: AMX in software, after the operation sections of Intel's manual (LDTILECFG,
 * TILELOADD, TILESTORED, TILEZERO, TILERELEASE, TDPBF16PS). It has palette 1: eight tiles of 16
 * rows x 64 bytes, a set of them for each thread. Included before a file that uses the intrinsics,
 * it replaces them by functions. An instruction that the processor would refuse only counts as a
 * fault here. */
#ifndef GY_AMX_MODEL_H
#define GY_AMX_MODEL_H
#include "engine/base/base.h"
#include <immintrin.h>
#include <math.h>

#define AMX_MODEL_TILES 8
#define AMX_MODEL_ROWS 16
#define AMX_MODEL_BYTES 64 /* of a row */

struct amx_model_tile {
    int valid, rows, row_bytes;
    unsigned char data[AMX_MODEL_ROWS][AMX_MODEL_BYTES];
};
struct amx_model {
    int configured;
    struct amx_model_tile tile[AMX_MODEL_TILES];
};

static __thread struct amx_model amx_now; /* the thread's registers */
static int64_t amx_faults, amx_products;  /* of all threads; atomic */
static const char *amx_fault;             /* the last one; atomic */

static int amx_model_refuse(int wrong, const char *why)
{
    if (wrong) {
        __atomic_add_fetch(&amx_faults, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&amx_fault, why, __ATOMIC_RELAXED);
    }
    return wrong;
}

static void amx_model_release(void)
{
    memset(&amx_now, 0, sizeof amx_now);
}

static int amx_model_nonzero(const unsigned char *p, size_t count)
{
    int any = 0;
    for (size_t i = 0; i < count; i++)
        any |= p[i];
    return any;
}

/* The 64 bytes: palette, start row, 14 reserved; 16 halves of bytes a row; 16 bytes of rows. */
static void amx_model_loadconfig(const void *from)
{
    unsigned char b[64];
    struct amx_model next = { .configured = 1 };
    memcpy(b, from, sizeof b);
    if (b[0] == 0) {
        amx_model_release();
        return;
    }
    if (amx_model_refuse(b[0] > 1, "no such palette") ||
        amx_model_refuse(b[1] >= AMX_MODEL_ROWS || amx_model_nonzero(b + 2, 14), "reserved bytes") ||
        amx_model_refuse(amx_model_nonzero(b + 32, 16) || amx_model_nonzero(b + 56, 8), "more than 8 tiles"))
        return;
    for (int i = 0; i < AMX_MODEL_TILES; i++) {
        struct amx_model_tile *t = &next.tile[i];
        t->row_bytes = b[16 + 2 * i] | b[17 + 2 * i] << 8;
        t->rows = b[48 + i];
        t->valid = t->rows > 0;
        if (amx_model_refuse(t->row_bytes > AMX_MODEL_BYTES || t->rows > AMX_MODEL_ROWS, "a tile too large") ||
            amx_model_refuse((t->rows == 0) != (t->row_bytes == 0), "rows without columns"))
            return;
    }
    amx_now = next;
}

/* The tile, or NULL when it cannot be used. */
static struct amx_model_tile *amx_model_tile(int i)
{
    if (amx_model_refuse(!amx_now.configured, "no configuration") ||
        amx_model_refuse(i < 0 || i >= AMX_MODEL_TILES, "no such tile") ||
        amx_model_refuse(!amx_now.tile[i].valid, "a tile without a shape"))
        return NULL;
    return &amx_now.tile[i];
}

static void amx_model_zero(int dst)
{
    struct amx_model_tile *t = amx_model_tile(dst);
    if (t)
        memset(t->data, 0, sizeof t->data);
}

static void amx_model_loadd(int dst, const void *base, int64_t stride)
{
    struct amx_model_tile *t = amx_model_tile(dst);
    if (!t)
        return;
    memset(t->data, 0, sizeof t->data);
    for (int r = 0; r < t->rows; r++)
        memcpy(t->data[r], (const unsigned char *)base + r * stride, (size_t)t->row_bytes);
}

static void amx_model_stored(int src, void *base, int64_t stride)
{
    const struct amx_model_tile *t = amx_model_tile(src);
    for (int r = 0; t && r < t->rows; r++)
        memcpy((unsigned char *)base + r * stride, t->data[r], (size_t)t->row_bytes);
}

/* Numbers below the smallest normal one are zero, before and after. */
static float amx_model_flush(float v)
{
    return fabsf(v) < 0x1p-126f ? copysignf(0.0f, v) : v;
}
static float amx_model_bf16(const unsigned char *row, int i)
{
    const uint32_t bits = (uint32_t)row[2 * i] << 16 | (uint32_t)row[2 * i + 1] << 24;
    float v;
    memcpy(&v, &bits, sizeof v);
    return amx_model_flush(v);
}

/* One row of the product. The first and the second elements of the pairs are summed apart, then
 * both sums are added to the row of c. */
static void amx_model_dp_row(struct amx_model_tile *c, const struct amx_model_tile *a, const struct amx_model_tile *b, int m)
{
    const int depth = a->row_bytes / 4, cols = c->row_bytes / 4;
    float sum[AMX_MODEL_BYTES / 2] = { 0.0f }, old;
    for (int k = 0; k < depth; k++)
        for (int n = 0; n < cols; n++)
            for (int i = 0; i < 2; i++) {
                const float x = amx_model_bf16(a->data[m], 2 * k + i), y = amx_model_bf16(b->data[k], 2 * n + i);
                sum[2 * n + i] = amx_model_flush(fmaf(x, y, sum[2 * n + i]));
            }
    for (int n = 0; n < cols; n++) {
        memcpy(&old, c->data[m] + 4 * n, sizeof old);
        old = amx_model_flush(amx_model_flush(old) + amx_model_flush(sum[2 * n] + sum[2 * n + 1]));
        memcpy(c->data[m] + 4 * n, &old, sizeof old);
    }
}

static void amx_model_dpbf16ps(int dst, int src1, int src2)
{
    struct amx_model_tile *c = amx_model_tile(dst);
    const struct amx_model_tile *a = amx_model_tile(src1), *b = amx_model_tile(src2);
    if (amx_model_refuse(dst == src1 || dst == src2 || src1 == src2, "a tile named twice") || !a || !b || !c ||
        amx_model_refuse(a->row_bytes % 4 || b->row_bytes % 4 || c->row_bytes % 4, "part of a pair") ||
        amx_model_refuse(c->rows != a->rows, "rows of the sums") ||
        amx_model_refuse(c->row_bytes != b->row_bytes, "columns of the sums") ||
        amx_model_refuse(a->row_bytes / 4 != b->rows, "pairs of the factors"))
        return;
    __atomic_add_fetch(&amx_products, 1, __ATOMIC_RELAXED);
    for (int m = 0; m < c->rows; m++)
        amx_model_dp_row(c, a, b, m);
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig amx_model_loadconfig
#define _tile_release amx_model_release
#define _tile_zero amx_model_zero
#define _tile_loadd amx_model_loadd
#define _tile_stored amx_model_stored
#define _tile_dpbf16ps amx_model_dpbf16ps

#endif
