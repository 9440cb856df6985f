/* SPDX-License-Identifier: MIT */
/* x86_amx.c: AMX: eight tiles of at most 16 rows x 64 bytes. The instruction tdpbf16ps takes a tile
 * A of rows x pairs and a tile B of pairs x columns. It adds their product to a tile of float sums.
 * A pair is two bf16. A panel of pairs is B as it stands. Rows that lie evenly apart (pixels of one
 * line, sums in a buffer) are read and written in place; others go through a small copy.
 *
 * ldtilecfg gives every tile its shape, so edges need no masks: rows, columns and the pairs of a
 * step are those of the task. It also clears the tiles, so each task has one. tilerelease ends the
 * task; no shape is kept from call to call. The instruction takes numbers below 2^-126 as zero,
 * like vdpbf16ps. select.c calls gy_kernels_amx. */
#include "kernels/cpu/isa/x86_avx512.h"

#if defined(__x86_64__)

#define AMX_ATTR __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define AMX_EDGE 16                                   /* most rows of a tile, pairs of a row */
#define AMX_ROW ((int64_t)(AMX_EDGE * sizeof(float))) /* bytes */
#define AMX_BLOCK (2 * AMX_EDGE)                      /* rows, columns of the sums in tiles */
#define AMX_OUTER 4                                   /* tiles of sums side by side in outer */

/* Tile instructions do not tell the compiler which memory they read. This orders writes: all to *p
 * and to memory that others see come before it or after it, as written. */
#define AMX_SETTLED(p) __asm__ volatile("" : : "r"(p) : "memory")

/* What ldtilecfg reads. */
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void amx_shape(struct amx_config *c, int tile, int64_t rows, int64_t cols)
{
    if (rows <= 0 || cols <= 0)
        return; /* a tile without a shape cannot be used by mistake */
    c->rows[tile] = (uint8_t)rows;
    c->row_bytes[tile] = (uint16_t)(cols * (int64_t)sizeof(float));
}

/* Units of a step, so that all steps are as even as can be. */
static int64_t amx_step(int64_t len)
{
    return gy_ceil_div(gy_max64(len, 1), gy_max64(gy_ceil_div(len, AMX_EDGE), 1));
}

/* Where a tile lies in memory: rows pitch bytes apart. */
struct amx_place {
    const float *at;
    int64_t pitch;
};

/* Do up to 17 rows lie evenly apart? pitch in bytes. */
AMX_ATTR GY_ALWAYS int amx_even(const float *const *rows, int64_t count, int64_t *pitch)
{
    *pitch = 0;
    if (count < 2)
        return 1;
    const __m512i apart = _mm512_set1_epi64((int64_t)((uintptr_t)rows[1] - (uintptr_t)rows[0]));
    const unsigned lanes = (1u << (count - 1)) - 1u;
    const __mmask8 lo = (__mmask8)lanes, hi = (__mmask8)(lanes >> 8);
    const __m512i a = _mm512_sub_epi64(_mm512_maskz_loadu_epi64(lo, rows + 1), _mm512_maskz_loadu_epi64(lo, rows));
    const __m512i b = _mm512_sub_epi64(_mm512_maskz_loadu_epi64(hi, rows + 9), _mm512_maskz_loadu_epi64(hi, rows + 8));
    *pitch = (int64_t)((uintptr_t)rows[1] - (uintptr_t)rows[0]);
    return (_mm512_mask_cmpneq_epi64_mask(lo, a, apart) | _mm512_mask_cmpneq_epi64_mask(hi, b, apart)) == 0;
}

/* cols floats of src, zeros up to 16. */
AMX_ATTR GY_ALWAYS __m512 amx_row(const float *src, int64_t cols)
{
    return cols >= AMX_EDGE ? a512_load(src) : a512_load_n(src, gy_max64(cols, 0));
}

/* A tile's rows from pointers, n units of each and zeros. */
AMX_ATTR static struct amx_place amx_copy_rows(float *dst, const float *const *rows, int64_t count, int64_t first, int64_t n)
{
    AMX_SETTLED(dst);
    for (int64_t i = 0; i < count; i++)
        a512_store(dst + i * AMX_EDGE, amx_row(rows[i] + first, n));
    AMX_SETTLED(dst);
    return (struct amx_place){dst, AMX_ROW};
}

/* n rows of a panel, cols columns of each, and rows of zeros up to depth: dst [depth][width]. */
AMX_ATTR static struct amx_place amx_copy_panel(float *dst, const float *panel, int64_t width, int64_t cols, int64_t n,
                                                int64_t depth)
{
    AMX_SETTLED(dst);
    for (int64_t i = 0; i < depth; i++)
        for (int64_t c = 0; c < width; c += AMX_EDGE)
            a512_store(dst + i * width + c, i < n ? amx_row(panel + i * width + c, cols - c) : a512_set1(0.0f));
    AMX_SETTLED(dst);
    return (struct amx_place){dst, width * (int64_t)sizeof(float)};
}

/* ---- the batch-reduce product ---- */

/* A block of at most 32 rows x 32 columns. Sums are in tiles 0 1 (rows 0-15) and 2 3 (rows 16-31),
 * rows in 4 and 5, the panel's columns in 6 and 7. Tiles beyond its edges have no shape. */
struct amx_block {
    const struct gy_gemm_tile *t;
    int64_t rows[2], cols, width, depth; /* rows of each half; a task's columns; a step's pairs */
    int lower, right;                    /* is there a second half? */
    int64_t first;                       /* the block's first column */
    float a[2][AMX_EDGE * AMX_EDGE] __attribute__((aligned(64)));
    float b[AMX_EDGE * GY_WIDTH_MAX] __attribute__((aligned(64)));
    float out[AMX_BLOCK * AMX_BLOCK] __attribute__((aligned(64)));
};

AMX_ATTR static void amx_gemm_configure(const struct amx_block *k)
{
    struct amx_config c = { .palette = 1 };
    const int64_t left = gy_min64(k->cols, AMX_EDGE), right = k->right ? AMX_EDGE : 0;
    for (int half = 0; half < 2; half++) {
        amx_shape(&c, 2 * half, k->rows[half], left);
        amx_shape(&c, 2 * half + 1, k->rows[half], right);
        amx_shape(&c, 4 + half, k->rows[half], k->depth);
    }
    amx_shape(&c, 6, k->depth, left);
    amx_shape(&c, 7, k->depth, right);
    AMX_SETTLED(&c);
    _tile_loadconfig(&c);
}

/* The four tiles of sums at p; the lower half is lower floats further. */
AMX_ATTR GY_ALWAYS void amx_gemm_load(const struct amx_block *k, const float *p, int64_t pitch, int64_t lower)
{
    AMX_SETTLED(p);
    _tile_loadd(0, p, pitch);
    if (k->right)
        _tile_loadd(1, p + AMX_EDGE, pitch);
    if (k->lower)
        _tile_loadd(2, p + lower, pitch);
    if (k->lower && k->right)
        _tile_loadd(3, p + lower + AMX_EDGE, pitch);
}
AMX_ATTR GY_ALWAYS void amx_gemm_store(const struct amx_block *k, float *p, int64_t pitch, int64_t lower)
{
    _tile_stored(0, p, pitch);
    if (k->right)
        _tile_stored(1, p + AMX_EDGE, pitch);
    if (k->lower)
        _tile_stored(2, p + lower, pitch);
    if (k->lower && k->right)
        _tile_stored(3, p + lower + AMX_EDGE, pitch);
    AMX_SETTLED(p);
}

/* Do all outputs lie evenly apart? */
AMX_ATTR static int amx_gemm_even(const struct amx_block *k, int64_t *pitch)
{
    const float *const *out = (const float *const *)k->t->out;
    int64_t lower = 0;
    if (!amx_even(out, k->rows[0], pitch))
        return 0;
    return !k->lower || (amx_even(out + AMX_EDGE - 1, k->rows[1] + 1, &lower) && lower == *pitch);
}

/* First sums: the same row everywhere (rows 0 bytes apart), or what the outputs hold. */
AMX_ATTR static void amx_gemm_begin(struct amx_block *k)
{
    const struct gy_gemm_tile *t = k->t;
    const int64_t at = t->out_first + k->first, cols = gy_min64(k->cols - k->first, AMX_BLOCK);
    int64_t pitch;
    if (t->init) {
        amx_gemm_load(k, t->init + k->first, 0, 0);
        return;
    }
    if (amx_gemm_even(k, &pitch)) {
        amx_gemm_load(k, t->out[0] + at, pitch, k->lower ? t->out[AMX_EDGE] - t->out[0] : 0);
        return;
    }
    for (int64_t i = 0; i < k->rows[0] + k->rows[1]; i++)
        for (int64_t c = 0; c < cols; c += AMX_EDGE)
            a512_store(k->out + i * AMX_BLOCK + c, amx_row(t->out[i] + at + c, cols - c));
    amx_gemm_load(k, k->out, 2 * AMX_ROW, AMX_EDGE * AMX_BLOCK);
}

AMX_ATTR static void amx_gemm_end(struct amx_block *k)
{
    const struct gy_gemm_tile *t = k->t;
    const int64_t at = t->out_first + k->first, cols = gy_min64(k->cols - k->first, AMX_BLOCK);
    int64_t pitch;
    if (amx_gemm_even(k, &pitch)) {
        amx_gemm_store(k, t->out[0] + at, pitch, k->lower ? t->out[AMX_EDGE] - t->out[0] : 0);
        return;
    }
    amx_gemm_store(k, k->out, 2 * AMX_ROW, AMX_EDGE * AMX_BLOCK);
    for (int64_t i = 0; i < k->rows[0] + k->rows[1]; i++)
        for (int64_t c = 0; c < cols; c += AMX_EDGE)
            a512_store_n(t->out[i] + at + c, a512_load(k->out + i * AMX_BLOCK + c), gy_min64(cols - c, AMX_EDGE));
}

/* One step: the products of the tiles that have a shape. */
AMX_ATTR GY_ALWAYS void amx_gemm_step(const struct amx_block *k, const struct amx_place *a, const struct amx_place *b)
{
    _tile_loadd(6, b->at, b->pitch);
    _tile_loadd(4, a[0].at, a[0].pitch);
    _tile_dpbf16ps(0, 4, 6);
    if (k->right) {
        _tile_loadd(7, b->at + AMX_EDGE, b->pitch);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (k->lower) {
        _tile_loadd(5, a[1].at, a[1].pitch);
        _tile_dpbf16ps(2, 5, 6);
    }
    if (k->lower && k->right)
        _tile_dpbf16ps(3, 5, 7);
}

/* Where a step's row tile lies: in place, or copied if rows are uneven or the step is cut. */
AMX_ATTR GY_ALWAYS struct amx_place amx_gemm_rows(struct amx_block *k, int half, const float *const *rows, int even,
                                                  int64_t pitch, int64_t c, int64_t n)
{
    rows += half * AMX_EDGE;
    if (even && n == k->depth)
        return (struct amx_place){rows[0] + c, pitch};
    return amx_copy_rows(k->a[half], rows, k->rows[half], c, n);
}

AMX_ATTR static void amx_gemm_sum(struct amx_block *k)
{
    const struct gy_gemm_tile *t = k->t;
    for (int64_t tap = 0; tap < t->taps; tap++) {
        const float *const *rows = t->rows + tap * t->row_pitch;
        const float *const w = t->panel + tap * t->len * k->width + k->first;
        int64_t pitch[2];
        const int even[2] = {amx_even(rows, k->rows[0], &pitch[0]),
                             k->lower && amx_even(rows + AMX_EDGE, k->rows[1], &pitch[1])};
        for (int64_t c = 0; c < t->len; c += k->depth) {
            const int64_t n = gy_min64(k->depth, t->len - c);
            struct amx_place a[2] = {amx_gemm_rows(k, 0, rows, even[0], pitch[0], t->row_first + c, n), {NULL, 0}};
            struct amx_place b = {w + c * k->width, k->width * (int64_t)sizeof(float)};
            if (k->lower)
                a[1] = amx_gemm_rows(k, 1, rows, even[1], pitch[1], t->row_first + c, n);
            if (n < k->depth)
                b = amx_copy_panel(k->b, b.at, k->width, k->cols - k->first, n, k->depth);
            amx_gemm_step(k, a, &b);
        }
    }
}

/* The panel's width follows from cols: only the narrowest is ever cut. */
AMX_ATTR static void amx_gemm(const struct gy_gemm_tile *t, int64_t rows)
{
    struct amx_block k;
    k.t = t;
    k.rows[0] = gy_min64(rows, AMX_EDGE);
    k.rows[1] = rows - k.rows[0];
    k.cols = t->cols;
    k.width = gy_ceil_div(t->cols, AMX_EDGE) * AMX_EDGE;
    k.depth = amx_step(t->len);
    k.lower = k.rows[1] > 0;
    k.right = t->cols > AMX_EDGE;
    for (int64_t tap = 0; tap < t->taps; tap++)
        gy_prefetch_rows(&t->prefetch, t->rows + tap * t->row_pitch, t->row_first, t->len);
    amx_gemm_configure(&k);
    for (k.first = 0; k.first < t->cols; k.first += AMX_BLOCK) {
        amx_gemm_begin(&k);
        amx_gemm_sum(&k);
        amx_gemm_end(&k);
    }
    _tile_release();
}

/* ---- the outer product ---- */

/* Turns four rows into columns j, j + 4, ...: v[0..3] hold rows, then columns in each 128 bits. */
AMX_ATTR GY_ALWAYS void amx_turn_4(__m512 *v)
{
    const __m512 a = _mm512_unpacklo_ps(v[0], v[1]), b = _mm512_unpackhi_ps(v[0], v[1]);
    const __m512 c = _mm512_unpacklo_ps(v[2], v[3]), d = _mm512_unpackhi_ps(v[2], v[3]);
    v[0] = _mm512_shuffle_ps(a, c, 0x44);
    v[1] = _mm512_shuffle_ps(a, c, 0xee);
    v[2] = _mm512_shuffle_ps(b, d, 0x44);
    v[3] = _mm512_shuffle_ps(b, d, 0xee);
}

/* dst[i][p] = dy[at[p] * pitch + i], i < 16, p < n; zero for other p. Rows are read up to count. */
AMX_ATTR static struct amx_place amx_turn(float *dst, const struct gy_outer_tile *t, int64_t first, int64_t n, int64_t count)
{
    __m512 v[AMX_EDGE];
    AMX_SETTLED(dst);
    GY_UNROLL for (int p = 0; p < AMX_EDGE; p++)
        v[p] = p < n ? amx_row(t->dy + (t->at ? t->at[first + p] : first + p) * t->dy_pitch, count) : a512_set1(0.0f);
    GY_UNROLL for (int p = 0; p < AMX_EDGE; p += 4) amx_turn_4(v + p);
    GY_UNROLL for (int j = 0; j < 4; j++)
    {
        const __m512 p = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x88), q = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xdd);
        const __m512 r = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x88);
        const __m512 s = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xdd);
        a512_store(dst + j * AMX_EDGE, _mm512_shuffle_f32x4(p, r, 0x88));
        a512_store(dst + (8 + j) * AMX_EDGE, _mm512_shuffle_f32x4(p, r, 0xdd));
        a512_store(dst + (4 + j) * AMX_EDGE, _mm512_shuffle_f32x4(q, s, 0x88));
        a512_store(dst + (12 + j) * AMX_EDGE, _mm512_shuffle_f32x4(q, s, 0xdd));
    }
    AMX_SETTLED(dst);
    return (struct amx_place){dst, AMX_ROW};
}

/* Sums in tiles 0 to 3, side by side; dy turned in 4; columns of x in 5 and 6, in turn. */
AMX_ATTR static void amx_outer_configure(int64_t rows, int64_t cols, int64_t depth)
{
    struct amx_config c = { .palette = 1 };
    for (int v = 0; v < AMX_OUTER; v++)
        amx_shape(&c, v, rows, gy_min64(cols - v * AMX_EDGE, AMX_EDGE));
    amx_shape(&c, 4, rows, depth);
    amx_shape(&c, 5, depth, gy_min64(cols, AMX_EDGE));
    amx_shape(&c, 6, depth, gy_min64(cols - AMX_EDGE, AMX_EDGE));
    AMX_SETTLED(&c);
    _tile_loadconfig(&c);
}

AMX_ATTR GY_ALWAYS void amx_outer_step(struct amx_place a, struct amx_place x, int64_t cols)
{
    _tile_loadd(4, a.at, a.pitch);
    _tile_loadd(5, x.at, x.pitch);
    _tile_dpbf16ps(0, 4, 5);
    if (cols > AMX_EDGE) {
        _tile_loadd(6, x.at + AMX_EDGE, x.pitch);
        _tile_dpbf16ps(1, 4, 6);
    }
    if (cols > 2 * AMX_EDGE) {
        _tile_loadd(5, x.at + 2 * AMX_EDGE, x.pitch);
        _tile_dpbf16ps(2, 4, 5);
        _tile_loadd(6, x.at + 3 * AMX_EDGE, x.pitch);
        _tile_dpbf16ps(3, 4, 6);
    }
}

/* The tiles of sums that have a shape, from dw or as zeros, which they are already. */
AMX_ATTR GY_ALWAYS void amx_outer_begin(const struct gy_outer_tile *t, int64_t pitch)
{
    AMX_SETTLED(t->dw);
    if (!t->add)
        return;
    _tile_loadd(0, t->dw, pitch);
    if (t->cols > AMX_EDGE)
        _tile_loadd(1, t->dw + AMX_EDGE, pitch);
    if (t->cols > 2 * AMX_EDGE) {
        _tile_loadd(2, t->dw + 2 * AMX_EDGE, pitch);
        _tile_loadd(3, t->dw + 3 * AMX_EDGE, pitch);
    }
}
AMX_ATTR GY_ALWAYS void amx_outer_end(const struct gy_outer_tile *t, int64_t pitch)
{
    _tile_stored(0, t->dw, pitch);
    if (t->cols > AMX_EDGE)
        _tile_stored(1, t->dw + AMX_EDGE, pitch);
    if (t->cols > 2 * AMX_EDGE) {
        _tile_stored(2, t->dw + 2 * AMX_EDGE, pitch);
        _tile_stored(3, t->dw + 3 * AMX_EDGE, pitch);
    }
    AMX_SETTLED(t->dw);
}

AMX_ATTR static void amx_outer(const struct gy_outer_tile *t, int64_t rows)
{
    const int64_t width = gy_ceil_div(t->cols, AMX_EDGE) * AMX_EDGE, depth = amx_step(t->pixels);
    const int64_t pitch = t->dw_pitch * (int64_t)sizeof(float);
    float turned[AMX_EDGE * AMX_EDGE] __attribute__((aligned(64)));
    float rest[AMX_EDGE * GY_WIDTH_MAX] __attribute__((aligned(64)));
    amx_outer_configure(rows, t->cols, depth);
    amx_outer_begin(t, pitch);
    for (int64_t p = 0; p < t->pixels; p += depth) {
        const int64_t n = gy_min64(depth, t->pixels - p);
        struct amx_place x = {t->x + p * width, width * (int64_t)sizeof(float)};
        const struct amx_place dy = amx_turn(turned, t, p, n, rows);
        if (n < depth)
            x = amx_copy_panel(rest, x.at, width, t->cols, n, depth);
        amx_outer_step(dy, x, t->cols);
    }
    amx_outer_end(t, pitch);
    _tile_release();
}

/* ---- the table ---- */

#define AMX_GEMM_FN(R) AMX_ATTR static void amx_gemm_##R(const struct gy_gemm_tile *t) { amx_gemm(t, R); }
#define AMX_OUTER_FN(R) AMX_ATTR static void amx_outer_##R(const struct gy_outer_tile *t) { amx_outer(t, R); }
#define AMX_16(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16)
#define AMX_32(F) F(17) F(18) F(19) F(20) F(21) F(22) F(23) F(24) F(25) F(26) F(27) F(28) F(29) F(30) F(31) F(32)
AMX_16(AMX_GEMM_FN)
AMX_32(AMX_GEMM_FN)
AMX_16(AMX_OUTER_FN)
#define AMX_GEMM_NAME(R) amx_gemm_##R,
#define AMX_OUTER_NAME(R) amx_outer_##R,
static const gy_gemm_fn amx_gemm_list[AMX_BLOCK] = {AMX_16(AMX_GEMM_NAME) AMX_32(AMX_GEMM_NAME)};
static const gy_outer_fn amx_outer_list[AMX_EDGE] = {AMX_16(AMX_OUTER_NAME)};

/* The widths stay those of AVX-512: kinds of pairs and of floats go together. */
GY_INT void gy_kernels_amx(struct gy_kernels *k)
{
    k->name = "amx";
    k->pair_pace = 16.0f;
    for (int i = 0; i < GY_KINDS; i++) {
        k->gemm_pair[i].rows = AMX_BLOCK;
        k->gemm_pair[i].fn = amx_gemm_list;
        k->gemm_pair[i].finishes = 0;
        k->outer_pair[i].rows = AMX_EDGE;
        k->outer_pair[i].fn = amx_outer_list;
    }
}

#else

GY_INT void gy_kernels_amx(struct gy_kernels *k) { (void)k; }

#endif
