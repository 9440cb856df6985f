/* SPDX-License-Identifier: MIT */
/* t_amx.c: the AMX kernels on a model of the tiles in software, on any processor with AVX-512. The
 * file of the kernels is compiled here once more, with functions of the model in place of the
 * instructions. First the model must refuse what the processor would. Then kernels run over shapes
 * around every edge of a tile, and convolutions from the op test through the drivers. Not one
 * instruction may be refused, and the tiles must be empty after every call. */
#include "engine/base/base.h"
#if defined(__x86_64__)
#include "tests/amx_model.h"
#define gy_kernels_amx amx_under_test /* the library has one of its own */
#include "kernels/cpu/isa/x86_amx.c"
#undef gy_kernels_amx
#pragma GCC diagnostic ignored "-Wunused-function" /* of the op test, a part is used */
#include "engine/base/cpu.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/isa/select.h"
#include "tests/op_half.h"
#include "tests/tile_check.h"

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
            rows[m][k] = tile_pair((float)(m + k), (float)(m - k));
    for (int k = 0; k < 4; k++)
        for (int n = 0; n < 2; n++)
            cols[k][n] = tile_pair((float)(n + 2 * k), (float)(3 - n));
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

/* After a call no instruction has been refused, and the tiles are empty. */
static const char *amx_left(void)
{
    const int64_t faults = amx_faults;
    amx_faults = 0;
    return faults ? amx_fault : amx_now.configured ? "tiles are not released" : NULL;
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

/* Most products of numbers in a convolution. Sanitizers make the model 20 times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AMX_MOST INT64_C(500000)
#else
#define AMX_MOST INT64_MAX
#endif

static int amx_is_product(const struct op_case *c)
{
    const struct gy_geom *const g = &c->geom;
    if (c->dtype != GY_BF16 || (c->code != GY_OP_CONV && c->code != GY_OP_CONV_DGRAD && c->code != GY_OP_CONV_WGRAD))
        return 0;
    return g->n * g->p * g->q * g->k <= AMX_MOST / ((int64_t)g->r * g->s * (g->c / g->groups));
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
        const struct tile_set set = { &k, 1, amx_left };
        tile_check_gemm(&set);
        tile_check_finish(&set);
        tile_check_outer(&set);
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
#include "tests/t.h"

int main(void)
{
    T_SKIP("AMX on its model: not an x86 processor");
    T_END("t_amx");
}
#endif
