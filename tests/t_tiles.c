/* SPDX-License-Identifier: MIT */
/* t_tiles.c: every kernel set that this processor has, on register tiles of every shape;
 * tile_check.h says what is compared. Under an emulator of another processor this is the short test
 * of that processor's sets. */
#include "engine/base/cpu.h"
#include "kernels/cpu/isa/select.h"
#include "tests/tile_check.h"

static void tiles_check_pairs_made(const struct gy_kernels *k)
{
    enum { COLS = 37, PITCH = 40 };
    uint16_t x[3][COLS];
    float dst[2 * PITCH], a[COLS], b[COLS];
    uint64_t seed = 5;
    for (int i = 0; i < 3 * COLS; i++)
        x[i / COLS][i % COLS] = (uint16_t)tile_random(&seed);
    const uint16_t *const rows[3] = { x[0], x[1], x[2] };
    for (int cols = 1; cols < COLS; cols++) {
        int wrong = 0;
        memset(dst, 0x55, sizeof dst);
        k->pair_rows(dst, PITCH, rows, 1, cols, 3);
        for (int i = 0; i < 2 * cols; i++) {
            const int row = i / cols * 2, c = i % cols;
            const uint16_t want[2] = { x[row][1 + c], row + 1 < 3 ? x[row + 1][1 + c] : 0 };
            wrong += memcmp(dst + row / 2 * PITCH + c, want, sizeof want) != 0;
        }
        for (int i = 0; i < cols; i++) {
            const uint32_t bits[2] = { tile_random(&seed) * 2, tile_random(&seed) * 2 };
            memcpy(a + i, &bits[0], sizeof bits[0]);
            memcpy(b + i, &bits[1], sizeof bits[1]);
        }
        a[0] = NAN;
        b[cols - 1] = INFINITY;
        k->pair_floats(dst, a, b, cols);
        for (int c = 0; c < cols; c++) {
            const uint16_t want[2] = { gy_bf16_narrow(a[c]), gy_bf16_narrow(b[c]) };
            wrong += memcmp(dst + c, want, sizeof want) != 0;
        }
        T_CHECK_MSG(wrong == 0, "%s: %d columns, %d pairs are wrong", k->name, cols, wrong);
    }
}

/* Rows turned into columns of pairs, in whole blocks and beside them. Numbers below 2^-126 are left
 * out: they multiply as zero. */
static void tiles_check_pairs_turned(const struct gy_kernels *k)
{
    enum { ROWS = 19, COLS = 67, PITCH = 24 };
    float src[ROWS * COLS], dst[(COLS + 1) / 2 * PITCH];
    uint64_t seed = 7;
    for (int i = 0; i < ROWS * COLS; i++)
        src[i] = tile_value(&seed);
    src[3] = NAN;
    src[COLS] = INFINITY;
    for (int rows = 1; rows <= ROWS; rows++) {
        for (int cols = 1; cols <= COLS; cols++) {
            int wrong = 0;
            memset(dst, 0x55, sizeof dst);
            k->pair_turn(dst, PITCH, src, COLS, rows, cols);
            for (int i = 0; i < (cols + 1) / 2 * rows; i++) {
                const int r = i % rows, c = i / rows * 2;
                const float second = c + 1 < cols ? src[r * COLS + c + 1] : 0;
                const uint16_t want[2] = { gy_bf16_narrow(src[r * COLS + c]), gy_bf16_narrow(second) };
                wrong += memcmp(dst + c / 2 * PITCH + r, want, sizeof want) != 0;
            }
            T_CHECK_MSG(wrong == 0, "%s: %d rows of %d, %d pairs are wrong", k->name, rows, cols, wrong);
        }
    }
}

/* Sets by name, and what their kernels call themselves. here: the set is of this architecture, and
 * a processor that lacks it skips it. */
static const struct {
    const char *name, *kernels;
    int here;
} tiles_sets[] = {
    { "ref", "portable", 1 },
#if defined(__x86_64__)
    { "avx2", "avx2", 1 }, { "avx512", "avx512", 1 }, { "avx512bf16", "avx512bf16", 1 }, { "amx", "amx", 1 },
    { "vsx", "vsx", 0 },   { "mma", "mma", 0 },
#elif defined(__powerpc64__)
    { "avx2", "avx2", 0 }, { "avx512", "avx512", 0 }, { "avx512bf16", "avx512bf16", 0 }, { "amx", "amx", 0 },
    { "vsx", "vsx", 1 },   { "mma", "mma", GY_WITH_MMA },
#endif
};

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 4096);
    for (size_t i = 0; i < GY_COUNT(tiles_sets); i++) {
        unsigned mask = 0;
        char why[64];
        if (!T_CHECK(gy_cpu_mask(tiles_sets[i].name, &mask) == 0) || !T_CHECK(mask != 0 || i == 0))
            continue;
        if ((gy_cpu_bits() & mask) != mask) {
            snprintf(why, sizeof why, "this processor has no %s", tiles_sets[i].name);
            if (tiles_sets[i].here)
                T_SKIP(why);
            continue;
        }
        const struct gy_kernels k = gy_kernels_select(mask);
        struct tile_set set = { .k = &k };
        T_CHECK_MSG(strcmp(k.name, tiles_sets[i].kernels) == 0, "the set %s has kernels %s", tiles_sets[i].name, k.name);
        printf("%s\n", k.name);
        tile_check_gemm(&set);
        tile_check_finish(&set);
        tile_check_outer(&set);
        if (!k.gemm_pair[0].fn)
            continue;
        set.pair = 1;
        tile_check_gemm(&set);
        tile_check_finish(&set);
        tile_check_outer(&set);
        tiles_check_pairs_made(&k);
        if (k.pair_turn)
            tiles_check_pairs_turned(&k);
    }
    T_END("t_tiles");
}
