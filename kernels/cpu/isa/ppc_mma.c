/* SPDX-License-Identifier: MIT */
/* ppc_mma.c: POWER10's matrix unit. An accumulator holds 4 x 4 float sums. One instruction adds to
 * it the outer product of two vectors of four floats, or of four pairs of bf16 (two products a
 * place). A register tile is 8 rows x 16 columns or 16 x 8. It takes all eight accumulators, as two
 * units with four cycles each need.
 *
 * The batch-reduce product reads four neighbours of the reduction from four rows at a time and
 * transposes them. Rows missing to a whole group of four repeat the last one and are not stored. */
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/isa/micro.h"

#if GY_WITH_MMA
#include <altivec.h>
#undef vector
#undef bool
#undef pixel

#define MMA_ATTR __attribute__((target("cpu=power10")))
#define MMA_LINE 4   /* rows and columns of an accumulator */
#define MMA_GROUPS 4 /* most groups of rows in a tile */
#define MMA_ROWS (MMA_LINE * MMA_GROUPS)

typedef __vector float mma_f4;
typedef __vector double mma_d2;
typedef __vector unsigned char mma_bytes;
typedef __vector unsigned int mma_u4;
typedef __vector unsigned short mma_u8;

MMA_ATTR GY_ALWAYS mma_f4 mma_load(const float *p) { return vec_xl(0, p); }
MMA_ATTR GY_ALWAYS void mma_store(float *p, mma_f4 v) { vec_xst(v, 0, p); }
/* A part of a vector without a call: a call would move the accumulators to memory. */
MMA_ATTR GY_ALWAYS mma_f4 mma_load_n(const float *p, int64_t n)
{
    uint32_t bits[MMA_LINE] = {0, 0, 0, 0};
    if (n >= MMA_LINE)
        return mma_load(p);
    GY_UNROLL for (int i = 0; i < MMA_LINE - 1; i++)
    {
        if (i < n)
            memcpy(&bits[i], p + i, sizeof bits[i]);
    }
    return (mma_f4)(mma_u4){bits[0], bits[1], bits[2], bits[3]};
}
MMA_ATTR GY_ALWAYS void mma_store_n(float *p, mma_f4 v, int64_t n)
{
    const mma_u4 bits = (mma_u4)v;
    if (n >= MMA_LINE) {
        mma_store(p, v);
        return;
    }
    GY_UNROLL for (int i = 0; i < MMA_LINE - 1; i++)
    {
        const uint32_t part = bits[i];
        if (i < n)
            memcpy(p + i, &part, sizeof part);
    }
}

/* Element c of four rows, whatever it holds: bits are not to be taken for a number. */
MMA_ATTR GY_ALWAYS mma_f4 mma_column(const float *const *rows, int64_t c)
{
    uint32_t bits[MMA_LINE];
    GY_UNROLL for (int i = 0; i < MMA_LINE; i++) memcpy(&bits[i], rows[i] + c, sizeof bits[i]);
    return (mma_f4)(mma_u4){bits[0], bits[1], bits[2], bits[3]};
}

/* Four columns of four rows. */
MMA_ATTR GY_ALWAYS void mma_turn(mma_f4 *v, const float *const *rows, int64_t c)
{
    const mma_f4 a = mma_load(rows[0] + c), b = mma_load(rows[1] + c), d = mma_load(rows[2] + c), e = mma_load(rows[3] + c);
    const mma_d2 ab = (mma_d2)vec_mergeh(a, b), de = (mma_d2)vec_mergeh(d, e);
    const mma_d2 ab2 = (mma_d2)vec_mergel(a, b), de2 = (mma_d2)vec_mergel(d, e);
    v[0] = (mma_f4)vec_mergeh(ab, de);
    v[1] = (mma_f4)vec_mergel(ab, de);
    v[2] = (mma_f4)vec_mergeh(ab2, de2);
    v[3] = (mma_f4)vec_mergel(ab2, de2);
}

MMA_ATTR GY_ALWAYS void mma_zero(__vector_quad acc[][4], const int G, const int N)
{
    GY_UNROLL for (int g = 0; g < G; g++)
    {
        GY_UNROLL for (int v = 0; v < N; v++) __builtin_mma_xxsetaccz(&acc[g][v]);
    }
}

/* The sums: [group][accumulator][row of the group]. */
MMA_ATTR GY_ALWAYS void mma_take(mma_f4 sum[][4][MMA_LINE], __vector_quad acc[][4], const int G, const int N)
{
    GY_UNROLL for (int g = 0; g < G; g++)
    {
        GY_UNROLL for (int v = 0; v < N; v++) __builtin_mma_disassemble_acc(sum[g][v], &acc[g][v]);
    }
}

/* to = from + row i of the sums; from NULL: zero. */
MMA_ATTR GY_ALWAYS void mma_add_row(float *to, const float *from, mma_f4 sum[][4][MMA_LINE], int64_t i, int64_t cols,
                                    const int N)
{
    GY_UNROLL for (int v = 0; v < N; v++)
    {
        const int64_t at = v * MMA_LINE;
        const mma_f4 first = from ? mma_load_n(from + at, cols - at) : vec_splats(0.0f);
        mma_store_n(to + at, vec_add(first, sum[i / MMA_LINE][v][i % MMA_LINE]), cols - at);
    }
}

#define KIND f
#define GER __builtin_mma_xvf32gerpp
#include "kernels/cpu/isa/mma.inc"
#define KIND h
#define GER __builtin_mma_xvbf16ger2pp
#include "kernels/cpu/isa/mma.inc"

/* Tiles of 16 columns have up to 8 rows, of 8 and 4 columns up to 16. Macros from here on: lists of
 * names, with nothing to step. */
#define MMA_SHAPE(P, G, N)                                                                                             \
    MMA_ATTR static void mma_##P##_gemm_##G##_##N(const struct gy_gemm_tile *t, int64_t rows)                          \
    {                                                                                                                  \
        mma_##P##_gemm(t, rows, G, N);                                                                                 \
    }                                                                                                                  \
    MMA_ATTR static void mma_##P##_outer_##G##_##N(const struct gy_outer_tile *t, int64_t rows)                        \
    {                                                                                                                  \
        mma_##P##_outer(t, rows, G, N);                                                                                \
    }
#define MMA_SHAPES(P)                                                                              \
    MMA_SHAPE(P, 1, 4) MMA_SHAPE(P, 2, 4) MMA_SHAPE(P, 1, 2) MMA_SHAPE(P, 2, 2) MMA_SHAPE(P, 3, 2) \
    MMA_SHAPE(P, 4, 2) MMA_SHAPE(P, 1, 1) MMA_SHAPE(P, 2, 1) MMA_SHAPE(P, 3, 1) MMA_SHAPE(P, 4, 1)
MMA_SHAPES(f)
MMA_SHAPES(h)

/* By width (16, 8, 4), then by groups. */
typedef void (*mma_gemm_fn)(const struct gy_gemm_tile *t, int64_t rows);
typedef void (*mma_outer_fn)(const struct gy_outer_tile *t, int64_t rows);
#define MMA_TABLE(P, OP)                                                                                               \
    static const mma_##OP##_fn mma_##P##_##OP##_shapes[GY_KINDS][MMA_GROUPS] = {                                       \
        {mma_##P##_##OP##_1_4, mma_##P##_##OP##_2_4},                                                                  \
        {mma_##P##_##OP##_1_2, mma_##P##_##OP##_2_2, mma_##P##_##OP##_3_2, mma_##P##_##OP##_4_2},                      \
        {mma_##P##_##OP##_1_1, mma_##P##_##OP##_2_1, mma_##P##_##OP##_3_1, mma_##P##_##OP##_4_1}};
MMA_TABLE(f, gemm)
MMA_TABLE(f, outer)
MMA_TABLE(h, gemm)
MMA_TABLE(h, outer)

/* cols tell the kind: only the narrowest is ever cut. */
static int mma_kind(int64_t cols)
{
    return cols > 8 ? 0 : cols > 4 ? 1 : 2;
}

#define MMA_FN(P, OP, R)                                                                                               \
    static void mma_##P##_##OP##_rows_##R(const struct gy_##OP##_tile *t)                                              \
    {                                                                                                                  \
        mma_##P##_##OP##_shapes[mma_kind(t->cols)][(R - 1) / MMA_LINE](t, R);                                          \
    }
#define MMA_NAME(P, OP, R) mma_##P##_##OP##_rows_##R,
#define MMA_16(F, P, OP)                                                                                               \
    F(P, OP, 1) F(P, OP, 2) F(P, OP, 3) F(P, OP, 4) F(P, OP, 5) F(P, OP, 6) F(P, OP, 7) F(P, OP, 8) F(P, OP, 9)        \
    F(P, OP, 10) F(P, OP, 11) F(P, OP, 12) F(P, OP, 13) F(P, OP, 14) F(P, OP, 15) F(P, OP, 16)
#define MMA_LIST(P, OP)                                                                                                \
    MMA_16(MMA_FN, P, OP)                                                                                              \
    static const gy_##OP##_fn mma_##P##_##OP##_list[MMA_ROWS] = {MMA_16(MMA_NAME, P, OP)};
MMA_LIST(f, gemm)
MMA_LIST(f, outer)
MMA_LIST(h, gemm)
MMA_LIST(h, outer)

MMA_ATTR static void mma_pair_rows(float *dst, int64_t pitch, const uint16_t *const *rows, int64_t first, int64_t cols,
                                   int64_t count)
{
    for (int64_t i = 0; i < count; i += 2, dst += pitch) {
        const uint16_t *const a = rows[i] + first, *const b = i + 1 < count ? rows[i + 1] + first : NULL;
        int64_t c = 0;
        for (; c + 8 <= cols; c += 8) {
            const mma_u8 va = vec_xl(0, a + c), vb = b ? vec_xl(0, b + c) : vec_splats((unsigned short)0);
            mma_store(dst + c, (mma_f4)vec_mergeh(va, vb));
            mma_store(dst + c + 4, (mma_f4)vec_mergel(va, vb));
        }
        for (; c < cols; c++) {
            const uint16_t pair[2] = {a[c], b ? b[c] : 0};
            memcpy(dst + c, pair, sizeof pair);
        }
    }
}

/* Rounded to bf16 in the upper half; what is below is rubbish. */
MMA_ATTR GY_ALWAYS mma_u4 mma_round(mma_f4 v)
{
    const mma_u4 bits = (mma_u4)v, odd = vec_and(vec_sr(bits, vec_splats(16u)), vec_splats(1u));
    const mma_u4 up = vec_add(vec_add(bits, vec_splats(0x7fffu)), odd);
    return vec_sel(vec_or(bits, vec_splats(0x400000u)), up, (mma_u4)vec_cmpeq(v, v));
}

MMA_ATTR static void mma_pair_floats(float *dst, const float *a, const float *b, int64_t count)
{
    for (int64_t c = 0; c < count; c += MMA_LINE) {
        const int64_t n = count - c;
        const mma_u4 lo = vec_sr(mma_round(mma_load_n(a + c, n)), vec_splats(16u));
        const mma_u4 hi = vec_and(mma_round(mma_load_n(b + c, n)), vec_splats(0xffff0000u));
        mma_store_n(dst + c, (mma_f4)vec_or(lo, hi), n);
    }
}

GY_INT void gy_kernels_mma(struct gy_kernels *k)
{
    static const struct { int width, rows; } kinds[GY_KINDS] = {{16, 8}, {8, 16}, {4, 16}};
    k->name = "mma";
    for (int i = 0; i < GY_KINDS; i++) {
        k->gemm[i] = (struct gy_gemm_kind){kinds[i].width, kinds[i].rows, mma_f_gemm_list, 0};
        k->outer[i] = (struct gy_outer_kind){kinds[i].width, kinds[i].rows, mma_f_outer_list, 0};
        k->gemm_pair[i] = (struct gy_gemm_kind){kinds[i].width, kinds[i].rows, mma_h_gemm_list, 0};
        k->outer_pair[i] = (struct gy_outer_kind){kinds[i].width, kinds[i].rows, mma_h_outer_list, 0};
    }
    k->pair_rows = mma_pair_rows;
    k->pair_floats = mma_pair_floats;
}

#else

GY_INT void gy_kernels_mma(struct gy_kernels *k) { (void)k; }

#endif
