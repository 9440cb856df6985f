/* SPDX-License-Identifier: MIT */
/* t_emu_hopper.c: the emulator's words of sm_90. Pipelines of bulk copies and products of a warp
 * group run against plain loops, in every layout of operands. Pixels of im2col boxes stand against
 * the definition. Steps that are left out are found. */
#include "tests/emu_host.h"

enum { TYPE_BF16 = 9, SHARED = 98304 };
static const char *hopper_options[12] = {"-DGY_ARCH=90", "-DGY_SHARED_BYTES=98304", "-DGY_DTYPE=1", "-DGY_ACT=0"};

static void *compile_hopper(int count, const char *const *more)
{
    for (int i = 0; i < count; i++)
        hopper_options[4 + i] = more[i];
    return compile("tests/emu/hopper.cu", hopper_options, 4 + count, 0, NULL, 0);
}

/* A matrix [rows][columns] of small integers on the device. Its map has boxes of box_rows x
 * box_columns. */
struct matrix {
    int rows, columns, *value;
    void *device;
};

static void matrix_open(struct matrix *m, struct gy_tensor_map *map, int rows, int columns, int box_rows, int box_columns, int swizzle,
                        int salt)
{
    const size_t count = (size_t)rows * (size_t)columns;
    uint16_t *half = calloc(count, sizeof *half);
    m->value = calloc(count, sizeof *m->value);
    m->rows = rows;
    m->columns = columns;
    for (size_t i = 0; half && m->value && i < count; i++) {
        m->value[i] = (int)((i * 37 + i / 64 * 5 + (size_t)salt) % 7) - 3;
        half[i] = half_of(m->value[i], 1);
    }
    m->device = device_of(half, count * sizeof *half);
    free(half);
    const uint64_t sizes[2] = {(uint64_t)columns, (uint64_t)rows}, strides[1] = {(uint64_t)columns * 2};
    const uint32_t box[2] = {(uint32_t)box_columns, (uint32_t)box_rows}, steps[2] = {1, 1};
    T_CHECK(cuda.map_tiled(map, TYPE_BF16, 2, m->device, sizes, strides, box, steps, 0, swizzle, 0, 0) == 0);
}

static void matrix_close(struct matrix *m)
{
    T_CHECK(cuda.free(m->device) == 0);
    free(m->value);
}

/* Y[64][n] = a b^T, or of operands that lie [k][m] */
static int wrong_numbers(const float *y, const struct matrix *a, int turn_a, const struct matrix *b, int turn_b)
{
    const int k = turn_a ? a->rows : a->columns, n = turn_b ? b->columns : b->rows;
    int wrong = 0;
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < n; j++) {
            int sum = 0;
            for (int e = 0; e < k; e++)
                sum += a->value[turn_a ? e * 64 + i : i * k + e] * b->value[turn_b ? e * n + j : j * k + e];
            wrong += y[i * n + j] != (float)sum;
        }
    return wrong;
}

static void test_pipeline(int columns)
{
    char width[40];
    snprintf(width, sizeof width, "-DGY_COLUMNS=%d", columns);
    const char *const more[] = {"-DGY_THREADS=256", width};
    void *module = compile_hopper(2, more);
    static float y[64 * 256];
    struct matrix x, w;
    struct run run = { .grid = {1, 1, 1}, .threads = 256, .shared = SHARED };
    matrix_open(&x, &run.args.map[0], 64, 256, 64, 64, 3, 1);
    matrix_open(&w, &run.args.map[1], columns, 256, columns, 64, 3, 2);
    run.args.ptr[GY_Y] = device_of(NULL, sizeof y);
    const int status = module ? launch(module, "pipeline", &run) : -1;
    T_CHECK_MSG(status == 0, "%d columns: %s", columns, cuda.text(status));
    T_CHECK(cuda.copy(y, run.args.ptr[GY_Y], sizeof y, 2, NULL) == 0);
    T_CHECK_MSG(status || wrong_numbers(y, &x, 0, &w, 0) == 0, "%d columns", columns);
    cuda.reset();
    matrix_close(&x);
    matrix_close(&w);
    T_CHECK(cuda.free(run.args.ptr[GY_Y]) == 0 && module && cuda.unload(module) == 0);
}

static void test_layout(int swizzle, int turn_a, int turn_b)
{
    char text[3][40];
    snprintf(text[0], sizeof text[0], "-DGY_SWIZZLE=%d", swizzle);
    snprintf(text[1], sizeof text[1], "-DGY_TURN_A=%d", turn_a);
    snprintf(text[2], sizeof text[2], "-DGY_TURN_B=%d", turn_b);
    const char *const more[] = {"-DGY_THREADS=128", "-DGY_COLUMNS=128", text[0], text[1], text[2]};
    void *module = compile_hopper(5, more);
    static float y[64 * 128];
    struct matrix x, w;
    struct run run = { .grid = {1, 1, 1}, .threads = 128, .shared = SHARED };
    matrix_open(&x, &run.args.map[0], 64, 64, 64, 8 << swizzle, swizzle, 1);
    matrix_open(&w, &run.args.map[1], turn_b ? 64 : 128, turn_b ? 128 : 64, turn_b ? 64 : 128, 8 << swizzle, swizzle, 2);
    run.args.ptr[GY_Y] = device_of(NULL, sizeof y);
    const int status = module ? launch(module, "layouts", &run) : -1;
    T_CHECK_MSG(status == 0, "swizzle %d, turned %d %d: %s", swizzle, turn_a, turn_b, cuda.text(status));
    T_CHECK(cuda.copy(y, run.args.ptr[GY_Y], sizeof y, 2, NULL) == 0);
    T_CHECK_MSG(status || wrong_numbers(y, &x, turn_a, &w, turn_b) == 0, "swizzle %d, turned %d %d", swizzle, turn_a, turn_b);
    cuda.reset();
    matrix_close(&x);
    matrix_close(&w);
    T_CHECK(cuda.free(run.args.ptr[GY_Y]) == 0 && module && cuda.unload(module) == 0);
}

/* ---- im2col ---- */

struct window {
    int n, h, w, r, s, stride, pad, dilation;
};
enum { CHANNELS = 16 };

/* The value of a tile's pixel for tap (tr, ts) and channel c, by the definition of a convolution.
 * It is 0 outside the images. */
static uint16_t window_pixel(const struct window *v, const uint16_t *x, int pixel, int tr, int ts, int c)
{
    const int q = (v->w + 2 * v->pad - v->dilation * (v->s - 1) - 1) / v->stride + 1;
    const int p = (v->h + 2 * v->pad - v->dilation * (v->r - 1) - 1) / v->stride + 1;
    const int n = pixel / q / p, h = pixel / q % p * v->stride - v->pad + tr * v->dilation;
    const int w = pixel % q * v->stride - v->pad + ts * v->dilation;
    return n < v->n && h >= 0 && h < v->h && w >= 0 && w < v->w ? x[((n * v->h + h) * v->w + w) * CHANNELS + c] : 0;
}

static void check_window(void *module, const struct window *v, int first, int tr, int ts)
{
    const int count = v->n * v->h * v->w * CHANNELS;
    const int q = (v->w + 2 * v->pad - v->dilation * (v->s - 1) - 1) / v->stride + 1;
    const int p = (v->h + 2 * v->pad - v->dilation * (v->r - 1) - 1) / v->stride + 1;
    uint16_t *x = calloc((size_t)count, sizeof *x), y[64 * CHANNELS];
    for (int i = 0; x && i < count; i++)
        x[i] = (uint16_t)(i + 1);
    const int32_t at[5] = {first % q * v->stride - v->pad, first / q % p * v->stride - v->pad, first / q / p, ts * v->dilation, tr * v->dilation};
    struct run run = { .grid = {1, 1, 1}, .threads = 128, .shared = SHARED };
    void *device = device_of(x, (size_t)count * sizeof *x);
    run.args.ptr[GY_ARG] = device_of(at, sizeof at);
    run.args.ptr[GY_Y] = device_of(NULL, sizeof y);
    const uint64_t sizes[4] = {CHANNELS, (uint64_t)v->w, (uint64_t)v->h, (uint64_t)v->n};
    const uint64_t strides[3] = {CHANNELS * 2, (uint64_t)v->w * CHANNELS * 2, (uint64_t)(v->h * v->w) * CHANNELS * 2};
    const int lower[2] = {-v->pad, -v->pad}, upper[2] = {v->pad - v->dilation * (v->s - 1), v->pad - v->dilation * (v->r - 1)};
    const uint32_t steps[4] = {1, (uint32_t)v->stride, (uint32_t)v->stride, 1};
    T_CHECK(cuda.map_im2col(&run.args.map[0], TYPE_BF16, 4, device, sizes, strides, lower, upper, CHANNELS, 64, steps, 0, 0, 0, 0) == 0);
    const int status = launch(module, "pixels", &run);
    T_CHECK_MSG(status == 0, "%s", cuda.text(status));
    T_CHECK(cuda.copy(y, run.args.ptr[GY_Y], sizeof y, 2, NULL) == 0);
    int wrong = 0;
    for (int i = 0; x && i < 64 * CHANNELS; i++)
        wrong += y[i] != window_pixel(v, x, first + i / CHANNELS, tr, ts, i % CHANNELS);
    T_CHECK_MSG(wrong == 0, "%dx%d stride %d pad %d dilation %d from %d tap %d %d: %d numbers", v->r, v->s, v->stride, v->pad,
                v->dilation, first, tr, ts, wrong);
    T_CHECK(cuda.free(device) == 0 && cuda.free(run.args.ptr[GY_ARG]) == 0 && cuda.free(run.args.ptr[GY_Y]) == 0);
    free(x);
}

static void test_windows(void)
{
    static const struct window windows[] = {{2, 9, 7, 3, 3, 1, 1, 1}, {3, 8, 10, 3, 3, 2, 1, 1}, {2, 6, 6, 1, 1, 1, 0, 1},
                                            {1, 12, 11, 5, 3, 1, 2, 1}, {2, 10, 10, 3, 3, 1, 2, 2}, {4, 7, 7, 1, 1, 2, 0, 1}};
    const char *const more[] = {"-DGY_THREADS=128"};
    void *module = compile_hopper(1, more);
    if (!T_CHECK(module != NULL))
        return;
    for (size_t i = 0; i < GY_COUNT(windows); i++)
        for (int first = 0; first < 128; first += 50)
            for (int tap = 0; tap < windows[i].r * windows[i].s; tap += 2)
                check_window(module, &windows[i], first, tap / windows[i].s, tap % windows[i].s);
    T_CHECK(cuda.unload(module) == 0);
}

/* ---- what is left out ---- */

struct left_out {
    int number;
    const char *kernel, *says;
    unsigned threads;
};
static const struct left_out left_out[] = {
    {1, "pipeline", "one arrival more than the 1", 256},
    {2, "pipeline", "still wants 0 of 1 arrivals and 256 bytes", 256},
    {3, "pipeline", "warp group 0: race: wgmma's a reads byte 0 of shared memory, which a bulk copy wrote at hopper.cu:", 256},
    {4, "pipeline", "without gy_wgmma_fence", 256},
    {5, "pipeline", "race: a bulk copy writes", 256},
    {6, "staged", "stored without a gy_fence_async", 128},
    {7, "staged", "a bulk copy reads byte ", 128},
    {9, "pipeline", "race: ", 256},
    {8, "staged", "while an asynchronous copy of thread", 128},
};

static int staged_right(const struct run *run)
{
    uint16_t x[2048], y[2048];
    int wrong = 0;
    T_CHECK(cuda.copy(x, run->args.ptr[GY_X], sizeof x, 2, NULL) == 0 && cuda.copy(y, run->args.ptr[GY_Y], sizeof y, 2, NULL) == 0);
    for (int i = 0; i < 2048; i++)
        wrong += y[i] != (uint16_t)(x[i] + 1);
    return wrong == 0;
}

static void check_left_out(const struct left_out *l, int number)
{
    char wrong[40], threads[40];
    snprintf(wrong, sizeof wrong, "-DGY_WRONG=%d", number);
    snprintf(threads, sizeof threads, "-DGY_THREADS=%u", l->threads);
    const char *const more[] = {threads, wrong};
    void *module = compile_hopper(2, more);
    const int staged = strcmp(l->kernel, "staged") == 0;
    static const char *const seeds[] = {"1", "2", "3"};
    for (size_t seed = 0; seed < GY_COUNT(seeds); seed++) {
        setenv("GYRE_EMU_SEED", seeds[seed], 1);
        struct matrix x, w, y;
        struct run run = { .grid = {1, 1, 1}, .threads = l->threads, .shared = SHARED };
        matrix_open(&x, &run.args.map[0], 64, 256, 64, 64, 3, 1);
        matrix_open(&w, &run.args.map[1], 64, 256, 64, 64, 3, 2);
        matrix_open(&y, &run.args.map[2], 128, 256, 16, 64, 0, 3);
        run.args.ptr[GY_X] = x.device;
        run.args.ptr[GY_Y] = y.device;
        if (staged) {
            const uint64_t sizes[2] = {64, 32}, strides[1] = {128};
            const uint32_t box[2] = {64, 16}, steps[2] = {1, 1};
            T_CHECK(cuda.map_tiled(&run.args.map[0], TYPE_BF16, 2, y.device, sizes, strides, box, steps, 0, 0, 0, 0) == 0);
        }
        const int status = module ? launch(module, l->kernel, &run) : -1;
        const char *text = cuda.text(status);
        if (number == 0)
            T_CHECK_MSG(status == 0, "seed %s: %s", seeds[seed], text);
        else
            T_CHECK_MSG(status == 719 && strstr(text, l->says) && strstr(text, "hopper.cu:"), "%d: %d %s", number, status, text);
        T_CHECK(number != 0 || !staged || staged_right(&run));
        if (getenv("VERBOSE"))
            printf("%d %s\n", number, text);
        cuda.reset();
        matrix_close(&x);
        matrix_close(&w);
        matrix_close(&y);
    }
    T_CHECK(module && cuda.unload(module) == 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    setenv("GYRE_EMU_QUIET", "1", 0);
    setenv("GYRE_EMU_ARCH", "90", 1);
    if (!emu_open(argv[0])) {
        T_SKIP("no libgyre-emu.so beside the test");
        T_END("t_emu_hopper");
    }
    for (int columns = 64; columns <= 256; columns += 64)
        test_pipeline(columns);
    for (int i = 0; i < 16; i++)
        test_layout(i / 4, i / 2 % 2, i % 2);
    test_windows();
    for (size_t i = 0; i < GY_COUNT(left_out); i++) {
        check_left_out(&left_out[i], left_out[i].number);
        if (i == 0 || i == 5)
            check_left_out(&left_out[i], 0);
    }
    T_END("t_emu_hopper");
}
