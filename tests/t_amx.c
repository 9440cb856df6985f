/* SPDX-License-Identifier: MIT */
/* The AMX kernels on a model of the tiles in software, on any processor with AVX-512: the file of the kernels is compiled
 * here once more, with functions of the model in place of the instructions. First the model must refuse what the processor
 * would; then kernels run over shapes around every edge of a tile, and convolutions from the op test through the
 * drivers; not one instruction may be refused, and the tiles must be empty after every call. */
#include "../engine/base/base.h"
#if defined(__x86_64__)
#include "amx_model.h"
#define gy_kernels_amx amx_under_test /* the library has one of its own */
#include "../kernels/cpu/x86_amx.c"
#undef gy_kernels_amx
#pragma GCC diagnostic ignored "-Wunused-function" /* of the op test, a part is used */
#include "../engine/base/cpu.h"
#include "../kernels/cpu/conv.h"
#include "op_half.h"

#define AMX_TEST_OUT_PITCH 70

/* ---- the model itself ---- */

struct amx_test_config {
    const char *what;
    int byte, value; /* of a good configuration, changed */
};
static const struct amx_test_config amx_bad_configs[] = {
    { "palette 2", 0, 2 },           { "start row 16", 1, 16 },        { "a reserved byte", 7, 1 },
    { "65 bytes a row", 16, 65 },    { "17 rows", 48, 17 },            { "rows without columns", 51, 4 },
    { "columns without rows", 22, 4 }, { "columns of tile 8", 32, 4 }, { "rows of tile 8", 56, 4 },
};

/* Tiles 0: 3 x 2 sums, 1: 3 x 4 pairs, 2: 4 pairs x 2. */
static void amx_good_config(unsigned char *b)
{
    static const unsigned char shape[3][2] = { { 3, 8 }, { 3, 16 }, { 4, 8 } };
    memset(b, 0, 64);
    b[0] = 1;
    for (int i = 0; i < 3; i++) {
        b[48 + i] = shape[i][0];
        b[16 + 2 * i] = shape[i][1];
    }
}

/* Did what ran since `before` raise exactly so many faults? */
static int amx_refused(int64_t *before, int64_t count)
{
    const int64_t now = amx_faults, got = now - *before;
    *before = now;
    return got == count;
}

static void amx_test_refusals(void)
{
    unsigned char b[64];
    float block[64] = { 0.0f };
    int64_t before = amx_faults;
    _tile_release();
    _tile_zero(0);
    _tile_loadd(0, block, 8);
    _tile_stored(0, block, 8);
    _tile_dpbf16ps(0, 1, 2);
    T_CHECK(amx_refused(&before, 6)); /* each of the three tiles of the product */
    for (size_t i = 0; i < GY_COUNT(amx_bad_configs); i++) {
        amx_good_config(b);
        b[amx_bad_configs[i].byte] = (unsigned char)amx_bad_configs[i].value;
        _tile_loadconfig(b);
        T_CHECK_MSG(amx_refused(&before, 1) && !amx_now.configured, "%s", amx_bad_configs[i].what);
    }
    amx_good_config(b);
    _tile_loadconfig(b);
    _tile_dpbf16ps(0, 1, 2);
    T_CHECK(amx_refused(&before, 0));
    _tile_loadd(3, block, 8); /* has no shape */
    T_CHECK(amx_refused(&before, 1));
    _tile_dpbf16ps(0, 0, 2);
    T_CHECK(amx_refused(&before, 1));
    /* rows, columns and pairs of the three shapes must meet; no part of a pair */
    static const struct { int byte, value; } apart[] = { { 48, 2 }, { 16, 4 }, { 50, 3 }, { 18, 14 } };
    for (size_t i = 0; i < GY_COUNT(apart); i++) {
        amx_good_config(b);
        b[apart[i].byte] = (unsigned char)apart[i].value;
        _tile_loadconfig(b);
        _tile_dpbf16ps(0, 1, 2);
        T_CHECK_MSG(amx_refused(&before, 1), "case %d", (int)i);
    }
    _tile_release();
    amx_faults = 0;
}

static uint32_t amx_pair(float first, float second) { return gy_bf16_narrow(first) | (uint32_t)gy_bf16_narrow(second) << 16; }

/* Small whole numbers, by hand; rows lie apart, and what is beyond a tile stays. */
static void amx_test_product(void)
{
    unsigned char b[64];
    uint32_t rows[3][6], cols[4][5];
    float sums[3][4];
    memset(rows, 0x7f, sizeof rows);
    memset(cols, 0x7f, sizeof cols);
    for (int m = 0; m < 3; m++)
        for (int k = 0; k < 4; k++)
            rows[m][k] = amx_pair((float)(m + k), (float)(m - k));
    for (int k = 0; k < 4; k++)
        for (int n = 0; n < 2; n++)
            cols[k][n] = amx_pair((float)(n + 2 * k), (float)(3 - n));
    for (int i = 0; i < 12; i++)
        sums[i / 4][i % 4] = 100.0f;
    amx_good_config(b);
    _tile_loadconfig(b);
    _tile_loadd(0, sums, sizeof sums[0]);
    _tile_loadd(1, rows, sizeof rows[0]);
    _tile_loadd(2, cols, sizeof cols[0]);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, sums, sizeof sums[0]);
    _tile_release();
    T_CHECK(amx_faults == 0);
    for (int m = 0; m < 3; m++)
        for (int n = 0; n < 4; n++) {
            float want = 100.0f;
            for (int k = 0; k < 4 && n < 2; k++)
                want += (float)((m + k) * (n + 2 * k) + (m - k) * (3 - n));
            T_CHECK_MSG(sums[m][n] == want, "row %d, column %d: %g instead of %g", m, n, (double)sums[m][n], (double)want);
        }
}

/* ---- the kernels ---- */

static uint32_t amx_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
static float amx_value(uint64_t *state) { return (float)(int32_t)(amx_random(state) % 2001) / 1000.0f - 1.0f; }

/* count pairs of random bf16; memory of exactly that size, so that a sanitizer sees reads beyond. */
static float *amx_pairs(int64_t count, uint64_t *state)
{
    float *const p = malloc((size_t)gy_max64(count, 1) * sizeof(float));
    for (int64_t i = 0; p && i < count; i++) {
        const uint32_t pair = amx_pair(amx_value(state), amx_value(state));
        memcpy(p + i, &pair, sizeof pair);
    }
    return p;
}

/* What no kernel may use. */
static void amx_poison(float *p, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        p[i] = NAN;
}

/* The product of two pairs; size takes up its absolute value. */
static double amx_product(const float *a, const float *b, double *size)
{
    uint16_t x[2], y[2];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    const double first = (double)gy_bf16_widen(x[0]) * (double)gy_bf16_widen(y[0]);
    const double second = (double)gy_bf16_widen(x[1]) * (double)gy_bf16_widen(y[1]);
    *size += fabs(first) + fabs(second);
    return first + second;
}

enum amx_lie { AMX_EVENLY, AMX_ONE_ASTRAY, AMX_SHUFFLED, AMX_WIDER, AMX_LIES };

/* The place of row i of count, below 2 * count. astray: the row that goes to a free place. Wider: from row 15 on, where the
 * first tile ends, every second place. */
static int64_t amx_lies(int lie, int64_t i, int64_t count, int64_t astray)
{
    if (lie == AMX_EVENLY)
        return i;
    if (lie == AMX_ONE_ASTRAY)
        return i == astray % count ? count : i;
    if (lie == AMX_WIDER)
        return gy_max64(i, 2 * i - 15);
    return count - (i ^ 1);
}

struct amx_task {
    int64_t rows, cols, len, taps;
    int lie, out_lie, init;
};

static int64_t amx_width(int64_t cols) { return cols > 32 ? 64 : cols > 16 ? 32 : 16; }

/* Outputs that are wrong: of the task's rows and columns, or written beyond them. */
static int amx_gemm_wrong(const struct gy_gemm_tile *t, const struct amx_task *s, const float *out, const float *was,
                          int64_t places)
{
    int wrong = 0;
    unsigned char *const used = calloc((size_t)(places * AMX_TEST_OUT_PITCH), 1);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t c = 0; c < s->cols; c++) {
            const int64_t at = t->out[i] + t->out_first + c - out;
            double want = t->init ? (double)t->init[c] : (double)was[at], size = fabs(want);
            for (int64_t tap = 0; tap < s->taps; tap++)
                for (int64_t j = 0; j < s->len; j++)
                    want += amx_product(t->rows[tap * t->row_pitch + i] + j,
                                        t->panel + (tap * s->len + j) * amx_width(s->cols) + c, &size);
            wrong += !(fabs((double)out[at] - want) <= size * 0x1p-19);
            used[at] = 1;
        }
    for (int64_t at = 0; at < places * AMX_TEST_OUT_PITCH; at++)
        wrong += !used[at] && memcmp(out + at, was + at, sizeof(float)) != 0;
    free(used);
    return wrong;
}

static void amx_test_gemm_task(const struct gy_kernels *k, const struct amx_task *s, uint64_t seed)
{
    const int64_t width = amx_width(s->cols), count = s->rows * s->taps, gap = s->len + (seed % 3 == 0 ? 5 : 0);
    const int kind = width == 64 ? 0 : width == 32 ? 1 : 2;
    const int64_t places = 2 * s->rows, first = s->lie == AMX_SHUFFLED ? 3 : 0;
    float *x = amx_pairs((count + s->rows) * gap, &seed), *panel = amx_pairs(count / s->rows * s->len * width, &seed);
    float *zero = calloc((size_t)s->len, sizeof(float)), *init = malloc((size_t)s->cols * sizeof(float));
    float *out = malloc((size_t)(places * AMX_TEST_OUT_PITCH) * sizeof(float));
    float *was = malloc((size_t)(places * AMX_TEST_OUT_PITCH) * sizeof(float));
    const float *rows[9 * 32];
    float *outs[32];
    for (int64_t i = 0; i < count + s->rows; i++)
        amx_poison(x + i * gap + s->len, gap - s->len);
    for (int64_t i = 0; i < places * AMX_TEST_OUT_PITCH; i++)
        out[i] = was[i] = amx_value(&seed);
    for (int64_t i = 0; i < s->cols; i++)
        init[i] = amx_value(&seed);
    for (int64_t tap = 0; tap < s->taps; tap++)
        for (int64_t i = 0; i < s->rows; i++) {
            const int64_t at = amx_lies(s->lie, i, s->rows, (int64_t)(seed >> 20) % s->rows);
            rows[tap * s->rows + i] = s->lie == AMX_SHUFFLED && i % 5 == 3 ? zero : x + (tap * s->rows + at) * gap;
        }
    for (int64_t i = 0; i < s->rows; i++)
        outs[i] = out + amx_lies(s->out_lie, i, s->rows, (int64_t)(seed >> 25)) * AMX_TEST_OUT_PITCH;
    for (int64_t i = 0; i < count / s->rows * s->len * width; i++)
        if (i % width >= s->cols)
            panel[i] = 0.0f;
    const struct gy_gemm_tile t = { .rows = rows, .row_pitch = s->rows, .panel = panel, .taps = s->taps, .len = s->len,
                                    .out = outs, .out_first = first, .init = s->init ? init : NULL, .cols = s->cols };
    k->gemm_pair[kind].fn[s->rows - 1](&t);
    const int wrong = amx_gemm_wrong(&t, s, out, was, places);
    T_CHECK_MSG(wrong == 0 && amx_faults == 0 && !amx_now.configured,
                "rows %d, cols %d, len %d, taps %d, rows lie %d, outputs %d, init %d: %d wrong, %d faults (%s)", (int)s->rows,
                (int)s->cols, (int)s->len, (int)s->taps, s->lie, s->out_lie, s->init, wrong, (int)amx_faults,
                amx_fault ? amx_fault : "none");
    amx_faults = 0;
    free(x);
    free(panel);
    free(zero);
    free(init);
    free(out);
    free(was);
}

static void amx_test_gemm(const struct gy_kernels *k)
{
    static const int cols[] = { 1, 2, 7, 15, 16, 32, 64 }, lens[] = { 1, 2, 7, 15, 16, 17, 18, 24, 31, 32, 33, 50, 64 };
    uint64_t seed = 1;
    for (int rows = 1; rows <= 32; rows++)
        for (size_t c = 0; c < GY_COUNT(cols); c++)
            for (size_t l = 0; l < GY_COUNT(lens); l++, seed++) {
                const int turn = (int)(seed % 32);
                amx_test_gemm_task(k, &(struct amx_task){ rows, cols[c], lens[l], turn % 2 ? 1 : turn % 4 ? 3 : 9,
                                                          turn % AMX_LIES, turn / AMX_LIES % AMX_LIES, turn / 16 },
                                   seed);
            }
    /* every row in turn is the one that lies elsewhere */
    for (int rows = 2; rows <= 32; rows += 3)
        for (uint64_t astray = 0; astray < 32; astray++)
            amx_test_gemm_task(k, &(struct amx_task){ rows, 32, 16, 1, AMX_ONE_ASTRAY, AMX_ONE_ASTRAY, 0 }, astray);
}

static void amx_test_outer_task(const struct gy_kernels *k, int64_t rows, int64_t cols, int64_t pixels, int add, uint64_t seed)
{
    const int64_t width = amx_width(cols), dy_pitch = rows + (seed % 2 ? 3 : 0), dw_pitch = cols + 5;
    float *x = amx_pairs(pixels * width, &seed), *dy = amx_pairs((pixels + 1) * dy_pitch, &seed);
    float *dw = malloc((size_t)(rows * dw_pitch) * sizeof(float)), *was = malloc((size_t)(rows * dw_pitch) * sizeof(float));
    int32_t at[128 + GY_OUTER_AHEAD];
    int wrong = 0;
    for (int p = 0; p < 128 + GY_OUTER_AHEAD; p++)
        at[p] = (int32_t)pixels;
    for (int64_t p = 0; p <= pixels; p++)
        amx_poison(dy + p * dy_pitch + (p < pixels ? rows : 0), dy_pitch - (p < pixels ? rows : 0));
    for (int64_t i = 0; i < rows * dw_pitch; i++)
        dw[i] = was[i] = amx_value(&seed);
    for (int64_t p = 0; p < pixels; p++)
        at[p] = (int32_t)(seed % 3 ? p : pixels - 1 - p);
    for (int64_t i = 0; i < pixels * width; i++)
        if (i % width >= cols)
            x[i] = 0.0f;
    const struct gy_outer_tile t = { .x = x, .dy = dy, .dy_pitch = dy_pitch, .at = at, .pixels = pixels, .dw = dw,
                                     .dw_pitch = dw_pitch, .cols = cols, .add = add };
    k->outer_pair[width == 64 ? 0 : width == 32 ? 1 : 2].fn[rows - 1](&t);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < dw_pitch; c++) {
            double want = add || c >= cols ? (double)was[i * dw_pitch + c] : 0.0, size = fabs(want);
            for (int64_t p = 0; p < pixels && c < cols; p++)
                want += amx_product(dy + at[p] * dy_pitch + i, x + p * width + c, &size);
            wrong += !(fabs((double)dw[i * dw_pitch + c] - want) <= size * 0x1p-19);
        }
    T_CHECK_MSG(wrong == 0 && amx_faults == 0 && !amx_now.configured,
                "outer: rows %d, cols %d, pixels %d, add %d: %d wrong, %d faults (%s)", (int)rows, (int)cols, (int)pixels, add,
                wrong, (int)amx_faults, amx_fault ? amx_fault : "none");
    amx_faults = 0;
    free(x);
    free(dy);
    free(dw);
    free(was);
}

static void amx_test_outer(const struct gy_kernels *k)
{
    static const int cols[] = { 1, 7, 15, 16, 32, 64 }, pixels[] = { 0, 1, 2, 15, 16, 17, 31, 32, 33, 96, 101 };
    uint64_t seed = 1;
    for (int rows = 1; rows <= 16; rows++)
        for (size_t c = 0; c < GY_COUNT(cols); c++)
            for (size_t p = 0; p < GY_COUNT(pixels); p++, seed++)
                amx_test_outer_task(k, rows, cols[c], pixels[p], seed % 5 < 3, seed);
}

/* ---- convolutions through the drivers ---- */

/* A backend whose kernel table is the one under test. Its description stays that of avx512bf16. */
static int amx_device_open(struct op_device *d, int threads)
{
    if (!T_CHECK(op_device_open(d, "avx512bf16", threads) == GY_OK))
        return 0;
    struct gy_cpu *const cpu = d->self; /* the backend begins with it */
    if (!T_CHECK(strcmp(cpu->k.name, "avx512bf16") == 0)) {
        op_device_close(d);
        return 0;
    }
    amx_under_test(&cpu->k);
    return T_CHECK(strcmp(cpu->k.name, "amx") == 0);
}

static int amx_is_product(const struct op_case *c)
{
    return c->dtype == GY_BF16 && (c->code == GY_OP_CONV || c->code == GY_OP_CONV_DGRAD || c->code == GY_OP_CONV_WGRAD);
}

static void amx_test_ops(void)
{
    static struct op_cases cases;
    struct op_device d;
    int ran = 0;
    if (!amx_device_open(&d, 2))
        return;
    op_cases_make(&cases);
    op_add_halves(&cases);
    const int64_t before = amx_products;
    for (int i = 0; i < cases.count; i++) {
        if (!amx_is_product(&cases.list[i]))
            continue;
        const int wrong = op_run_fault(&d, &cases.list[i], 1000 + (uint64_t)i, 0);
        if (wrong >= 0)
            T_CHECK(wrong == 0 && amx_faults == 0);
        ran += wrong >= 0;
    }
    T_CHECK(ran > 20 && amx_products - before > ran);
    printf("%d convolutions, %" PRId64 " tile products\n", ran, amx_products - before);
    op_device_close(&d);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 4096);
    amx_test_refusals();
    amx_test_product();
    if (gy_cpu_bits() & GY_CPU_AVX512) {
        struct gy_kernels k = gy_kernels_select(gy_cpu_bits() & ~(unsigned)GY_CPU_AMX);
        for (int i = 0; i < GY_KINDS; i++)
            T_CHECK(k.gemm[i].width == 64 >> i && k.outer[i].width == 64 >> i);
        amx_under_test(&k);
        amx_test_gemm(&k);
        amx_test_outer(&k);
    } else {
        T_SKIP("kernels of AMX on its model: no AVX-512 here");
    }
    if (gy_cpu_bits() & GY_CPU_AVX512BF16)
        amx_test_ops();
    else
        T_SKIP("convolutions on the model of AMX: no AVX-512 BF16 here");
    T_END("t_amx");
}

#else
#include "t.h"

int main(void)
{
    T_SKIP("AMX on its model: not an x86 processor");
    T_END("t_amx");
}
#endif
