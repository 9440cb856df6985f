/* SPDX-License-Identifier: MIT */
/* tile_check.h: the products of a kernel set on register tiles, gemm and outer, of floats and of
 * pairs of bf16, against plain sums in double. Shapes lie around every edge; rows and outputs lie
 * evenly apart, astray or in disorder. Memory beside them is poisoned and has exactly the size that
 * may be read, so that a sanitizer sees more. */
#ifndef GY_TILE_CHECK_H
#define GY_TILE_CHECK_H
#include "engine/base/half.h"
#include "kernels/cpu/isa/table.h"
#include "tests/t.h"
#include <math.h>

#define TILE_ROWS 32      /* most in a tile of any set */
#define TILE_TAPS 9
#define TILE_PIXELS 128
#define TILE_OUT_PITCH 70 /* floats from one place of outputs to the next */

struct tile_set {
    const struct gy_kernels *k;
    int pair;                   /* pairs of bf16 instead of floats */
    const char *(*fault)(void); /* what a call left wrong otherwise, or NULL; may be NULL */
};

static uint32_t tile_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
static float tile_value(uint64_t *state) { return (float)(int32_t)(tile_random(state) % 2001) / 1000.0f - 1.0f; }

static uint32_t tile_pair(float first, float second)
{
    const uint16_t halves[2] = { gy_bf16_narrow(first), gy_bf16_narrow(second) };
    uint32_t pair;
    memcpy(&pair, halves, sizeof pair);
    return pair;
}

static void *tile_memory(int64_t count, size_t bytes)
{
    void *const p = calloc((size_t)gy_max64(count, 1), bytes);
    if (!p)
        abort();
    return p;
}

/* Random operands. */
static float *tile_units(const struct tile_set *set, int64_t count, uint64_t *state)
{
    float *const p = tile_memory(count, sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        const float first = tile_value(state);
        const uint32_t pair = tile_pair(first, tile_value(state));
        if (set->pair)
            memcpy(p + i, &pair, sizeof pair);
        else
            p[i] = first;
    }
    return p;
}

/* What no kernel may use. */
static void tile_poison(float *p, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        p[i] = NAN;
}

/* The product of two operands; size takes up its absolute value. */
static double tile_product(const struct tile_set *set, const float *a, const float *b, double *size)
{
    uint16_t x[2], y[2];
    if (!set->pair) {
        *size += fabs((double)*a * (double)*b);
        return (double)*a * (double)*b;
    }
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    const double first = (double)gy_bf16_widen(x[0]) * (double)gy_bf16_widen(y[0]);
    const double second = (double)gy_bf16_widen(x[1]) * (double)gy_bf16_widen(y[1]);
    *size += fabs(first) + fabs(second);
    return first + second;
}

/* Counts the check of one call. */
static int tile_held(const struct tile_set *set, int wrong, const char *task)
{
    const char *const fault = set->fault ? set->fault() : NULL;
    T_CHECK_MSG(wrong == 0 && !fault, "%s%s, %s: %d wrong, %s", set->k->name, set->pair ? " pairs" : "", task, wrong,
                fault ? fault : "no other fault");
    return wrong == 0 && !fault;
}

/* ---- the batch-reduce product ---- */

enum tile_lie { TILE_EVENLY, TILE_ONE_ASTRAY, TILE_SHUFFLED, TILE_WIDER, TILE_LIES };

/* The place of row i of count, below 2 * count. astray: the row that moves to a free place.
 * TILE_WIDER: rows after 15 take every second place. */
static int64_t tile_lies(int lie, int64_t i, int64_t count, int64_t astray)
{
    if (lie == TILE_EVENLY)
        return i;
    if (lie == TILE_ONE_ASTRAY)
        return i == astray % count ? count : i;
    if (lie == TILE_WIDER)
        return gy_max64(i, 2 * i - 15);
    return count - (i ^ 1);
}

struct tile_task {
    int64_t width, rows, cols, len, taps;
    int lie, out_lie, init;
};

/* Outputs that are wrong: of the task's rows and columns, or written beyond them. */
static int tile_gemm_wrong(const struct tile_set *set, const struct gy_gemm_tile *t, const struct tile_task *s,
                           const float *out, const float *was)
{
    const int64_t count = 2 * s->rows * TILE_OUT_PITCH;
    unsigned char *const used = tile_memory(count, 1);
    int wrong = 0;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t c = 0; c < s->cols; c++) {
            const int64_t at = t->out[i] + t->out_first + c - out;
            double want = t->init ? (double)t->init[c] : (double)was[at], size = fabs(want);
            for (int64_t tap = 0; tap < s->taps; tap++)
                for (int64_t j = 0; j < s->len; j++)
                    want += tile_product(set, t->rows[tap * t->row_pitch + i] + j,
                                         t->panel + (tap * s->len + j) * s->width + c, &size);
            wrong += !(fabs((double)out[at] - want) <= size * 0x1p-19);
            used[at] = 1;
        }
    for (int64_t at = 0; at < count; at++)
        wrong += !used[at] && memcmp(out + at, was + at, sizeof(float)) != 0;
    free(used);
    return wrong;
}

/* Lays out the task's rows in memory x, with poison between them. With TILE_SHUFFLED some rows
 * point to the row of zeros. */
static void tile_lay_rows(const struct tile_task *s, float *x, const float *zero, int64_t gap, uint64_t seed,
                          const float **rows)
{
    for (int64_t i = 0; i < (s->taps + 1) * s->rows; i++)
        tile_poison(x + i * gap + s->len, gap - s->len);
    for (int64_t tap = 0; tap < s->taps; tap++)
        for (int64_t i = 0; i < s->rows; i++) {
            const int64_t at = tile_lies(s->lie, i, s->rows, (int64_t)(seed >> 20));
            rows[tap * s->rows + i] = s->lie == TILE_SHUFFLED && i % 5 == 3 ? zero : x + (tap * s->rows + at) * gap;
        }
}

static void tile_gemm_task(const struct tile_set *set, gy_gemm_fn fn, const struct tile_task *s, uint64_t seed)
{
    const int64_t panels = s->taps * s->len * s->width, gap = s->len + (seed % 3 == 0 ? 5 : 0);
    const int64_t outputs = 2 * s->rows * TILE_OUT_PITCH;
    float *const x = tile_units(set, (s->taps + 1) * s->rows * gap, &seed), *const panel = tile_units(set, panels, &seed);
    float *const zero = tile_memory(s->len, sizeof(float)), *const init = tile_memory(s->cols, sizeof(float));
    float *const out = tile_memory(outputs, sizeof(float)), *const was = tile_memory(outputs, sizeof(float));
    const float *rows[TILE_TAPS * TILE_ROWS];
    float *outs[TILE_ROWS];
    char task[120];
    for (int64_t i = 0; i < outputs; i++)
        out[i] = was[i] = tile_value(&seed);
    for (int64_t i = 0; i < s->cols; i++)
        init[i] = tile_value(&seed);
    for (int64_t i = 0; i < panels; i++)
        panel[i] = i % s->width < s->cols ? panel[i] : 0.0f;
    tile_lay_rows(s, x, zero, gap, seed, rows);
    for (int64_t i = 0; i < s->rows; i++)
        outs[i] = out + tile_lies(s->out_lie, i, s->rows, (int64_t)(seed >> 25)) * TILE_OUT_PITCH;
    const struct gy_gemm_tile t = { .rows = rows, .row_pitch = s->rows, .panel = panel, .taps = s->taps, .len = s->len,
                                    .out = outs, .out_first = s->lie == TILE_SHUFFLED ? 3 : 0,
                                    .init = s->init ? init : NULL, .cols = s->cols };
    fn(&t);
    snprintf(task, sizeof task, "gemm rows %d, cols %d of %d, len %d, taps %d, lie %d, outputs %d, init %d", (int)s->rows,
             (int)s->cols, (int)s->width, (int)s->len, (int)s->taps, s->lie, s->out_lie, s->init);
    tile_held(set, tile_gemm_wrong(set, &t, s, out, was), task);
    free(x);
    free(panel);
    free(zero);
    free(init);
    free(out);
    free(was);
}

/* Columns to try of a kind: all; of the narrowest also fewer. Returns 0 after the last. */
static int tile_cols(int kind, int width, int turn)
{
    const int cols[] = { width, 1, width - 1, width / 2, 2 };
    return turn >= (kind == GY_KINDS - 1 ? (int)GY_COUNT(cols) : 1) ? 0 : cols[turn];
}

static void tile_check_gemm(const struct tile_set *set)
{
    static const int lens[] = { 1, 2, 3, 4, 7, 15, 16, 17, 18, 24, 31, 32, 33, 50, 64 };
    uint64_t seed = 1;
    for (int i = 0; i < GY_KINDS; i++) {
        const struct gy_gemm_kind *kind = set->pair ? &set->k->gemm_pair[i] : &set->k->gemm[i];
        T_CHECK(kind->rows >= 1 && kind->rows <= TILE_ROWS && kind->width == set->k->gemm[i].width);
        for (int rows = 1; rows <= kind->rows; rows++)
            for (int c = 0; tile_cols(i, kind->width, c) > 0; c++)
                for (size_t l = 0; l < GY_COUNT(lens); l++, seed++) {
                    const int turn = (int)(seed % 32);
                    const struct tile_task task = { kind->width, rows, tile_cols(i, kind->width, c), lens[l],
                                                    turn % 2 ? 1 : turn % 4 ? 3 : TILE_TAPS, turn % TILE_LIES,
                                                    turn / TILE_LIES % TILE_LIES, turn / 16 };
                    tile_gemm_task(set, kind->fn[rows - 1], &task, seed);
                }
        /* every row in turn is the one that lies elsewhere */
        for (int rows = 2; rows <= kind->rows; rows += 3)
            for (int astray = 0; astray < rows; astray++) {
                const struct tile_task task = { kind->width, rows, kind->width, 16, 1, TILE_ONE_ASTRAY, TILE_ONE_ASTRAY, 0 };
                tile_gemm_task(set, kind->fn[rows - 1], &task, (uint64_t)astray << 8);
            }
    }
}

/* ---- sums that end as activations, with statistics ---- */

#define TILE_WIDTH 64 /* of the kinds that finish, at most */
#define TILE_LEN 5

struct tile_end {
    const struct gy_gemm_kind *kind;
    int rows, add, stream;
    int64_t before; /* rows joined to; below 0: no statistics */
};

/* Statistics of column c of the sums, joined to those of e->before rows. */
static int tile_stats_wrong(const struct tile_end *e, const float *sums, int c, float mean, float m2, double old_mean,
                            double old_m2)
{
    double want_mean = 0.0, want_m2 = 0.0;
    for (int i = 0; i < e->rows; i++)
        want_mean += (double)sums[i * TILE_WIDTH + c] / e->rows;
    for (int i = 0; i < e->rows; i++)
        want_m2 += ((double)sums[i * TILE_WIDTH + c] - want_mean) * ((double)sums[i * TILE_WIDTH + c] - want_mean);
    if (e->before > 0) {
        const double share = (double)e->rows / (double)(e->before + e->rows), gap = want_mean - old_mean;
        want_m2 += old_m2 + gap * gap * (double)e->before * share;
        want_mean = old_mean + gap * share;
    }
    return !(fabs((double)mean - want_mean) <= 1e-5) + !(fabs((double)m2 - want_m2) <= 1e-4 * (1.0 + want_m2));
}

/* An activation that a sum should have become: rounded once, after was is added. */
static int tile_end_wrong(const struct tile_set *set, const struct tile_end *e, const unsigned char *got, float sum,
                          const unsigned char *was)
{
    uint16_t half[2];
    float value, before;
    if (!set->pair) {
        memcpy(&value, got, sizeof value);
        memcpy(&before, was, sizeof before);
        return value != (e->add ? sum + before : sum);
    }
    memcpy(&half[0], got, sizeof half[0]);
    memcpy(&half[1], was, sizeof half[1]);
    return half[0] != gy_bf16_narrow(e->add ? sum + gy_bf16_widen(half[1]) : sum);
}

static void tile_finish_task(const struct tile_set *set, const struct tile_end *e, uint64_t seed)
{
    const int width = e->kind->width;
    const size_t unit = set->pair ? 2 : 4, row = (size_t)(width + 64) * unit, bytes = row * TILE_ROWS;
    float *const x = tile_units(set, TILE_ROWS * TILE_LEN, &seed), *const panel = tile_units(set, TILE_LEN * width, &seed);
    float sums[TILE_ROWS * TILE_WIDTH], init[TILE_WIDTH], mean[TILE_WIDTH], m2[TILE_WIDTH], old[2][TILE_WIDTH];
    const float *in[TILE_ROWS];
    float *outs[TILE_ROWS];
    void *ends[TILE_ROWS];
    unsigned char *const mem = tile_memory((int64_t)bytes + 64, 1), *const was = tile_memory((int64_t)bytes, 1);
    unsigned char *const out = mem + (64 - (uintptr_t)mem % 64);
    int wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        out[i] = was[i] = (unsigned char)(i % 64); /* small numbers */
    for (int i = 0; i < TILE_ROWS; i++) {
        in[i] = x + i * TILE_LEN;
        outs[i] = sums + i * TILE_WIDTH;
        ends[i] = out + (size_t)i * row;
    }
    for (int c = 0; c < width; c++) {
        init[c] = tile_value(&seed);
        mean[c] = old[0][c] = tile_value(&seed);
        m2[c] = old[1][c] = 1.0f + tile_value(&seed);
    }
    struct gy_gemm_finish f = { .rows = ends, .first = 64, .add = e->add, .stream = e->stream, .last = 1,
                                .mean = e->before < 0 ? NULL : mean, .m2 = m2, .before = e->before };
    struct gy_gemm_tile t = { .rows = in, .row_pitch = TILE_ROWS, .panel = panel, .taps = 1, .len = TILE_LEN, .out = outs,
                              .init = init, .cols = width };
    e->kind->fn[e->rows - 1](&t);
    t.finish = &f;
    e->kind->fn[e->rows - 1](&t);
    for (int i = 0; i < e->rows; i++)
        for (int c = 0; c < width; c++) {
            const size_t at = (size_t)i * row + (size_t)(64 + c) * unit;
            wrong += tile_end_wrong(set, e, out + at, sums[i * TILE_WIDTH + c], was + at);
            memcpy(out + at, was + at, unit);
        }
    wrong += memcmp(out, was, bytes) != 0; /* nothing beside */
    for (int c = 0; c < width; c++)
        wrong += e->before >= 0 ? tile_stats_wrong(e, sums, c, mean[c], m2[c], (double)old[0][c], (double)old[1][c])
                                : mean[c] != old[0][c] || m2[c] != old[1][c];
    char task[120];
    snprintf(task, sizeof task, "finish rows %d, add %d, stream %d, before %d", e->rows, e->add, e->stream, (int)e->before);
    tile_held(set, wrong, task);
    free(x);
    free(panel);
    free(mem);
    free(was);
}

static void tile_check_finish(const struct tile_set *set)
{
    static const int before[] = { -1, 0, 6, 1000 };
    for (int i = 0; i < GY_KINDS; i++) {
        const struct gy_gemm_kind *kind = set->pair ? &set->k->gemm_pair[i] : &set->k->gemm[i];
        for (int turn = 0; kind->finishes && turn < 16 * kind->rows; turn++) {
            const struct tile_end end = { kind, turn / 16 + 1, turn % 2, turn / 2 % 2, before[turn / 4 % 4] };
            tile_finish_task(set, &end, (uint64_t)turn);
        }
    }
}

/* ---- the outer product ---- */

static void tile_outer_task(const struct tile_set *set, gy_outer_fn fn, int64_t width, int64_t rows, int64_t cols,
                            int64_t pixels, uint64_t seed)
{
    const int64_t dy_pitch = rows + (seed % 2 ? 3 : 0), dw_pitch = cols + 5;
    float *const x = tile_units(set, pixels * width, &seed), *const dy = tile_units(set, (pixels + 1) * dy_pitch, &seed);
    float *const dw = tile_memory(rows * dw_pitch, sizeof(float)), *const was = tile_memory(rows * dw_pitch, sizeof(float));
    const int add = seed % 5 < 3;
    int32_t at[TILE_PIXELS + GY_OUTER_LOOKAHEAD];
    char task[120];
    int wrong = 0;
    const int listed = seed % 3 != 1;
    for (int p = 0; p < TILE_PIXELS + GY_OUTER_LOOKAHEAD; p++)
        at[p] = (int32_t)(p >= pixels ? pixels : seed % 3 ? p : pixels - 1 - p);
    for (int64_t p = 0; p <= pixels; p++)
        tile_poison(dy + p * dy_pitch + (p < pixels ? rows : 0), dy_pitch - (p < pixels ? rows : 0));
    for (int64_t i = 0; i < rows * dw_pitch; i++)
        dw[i] = was[i] = tile_value(&seed);
    for (int64_t i = 0; i < pixels * width; i++)
        x[i] = i % width < cols ? x[i] : 0.0f;
    const struct gy_outer_tile t = { .x = x, .dy = dy, .dy_pitch = dy_pitch, .at = listed ? at : NULL, .pixels = pixels, .dw = dw,
                                     .dw_pitch = dw_pitch, .cols = cols, .add = add };
    fn(&t);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < dw_pitch; c++) {
            double want = add || c >= cols ? (double)was[i * dw_pitch + c] : 0.0, size = fabs(want);
            for (int64_t p = 0; p < pixels && c < cols; p++)
                want += tile_product(set, dy + at[p] * dy_pitch + i, x + p * width + c, &size);
            wrong += !(fabs((double)dw[i * dw_pitch + c] - want) <= size * 0x1p-19);
        }
    snprintf(task, sizeof task, "outer rows %d, cols %d of %d, pixels %d, add %d", (int)rows, (int)cols, (int)width,
             (int)pixels, add);
    tile_held(set, wrong, task);
    free(x);
    free(dy);
    free(dw);
    free(was);
}

static void tile_check_outer(const struct tile_set *set)
{
    static const int pixels[] = { 0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 96, 101 };
    uint64_t seed = 1;
    for (int i = 0; i < GY_KINDS; i++) {
        const struct gy_outer_kind *kind = set->pair ? &set->k->outer_pair[i] : &set->k->outer[i];
        T_CHECK(kind->rows >= 1 && kind->rows <= TILE_ROWS && kind->width == set->k->outer[i].width);
        for (int rows = 1; rows <= kind->rows; rows++)
            for (int c = 0; tile_cols(i, kind->width, c) > 0; c++)
                for (size_t p = 0; p < GY_COUNT(pixels); p++, seed++)
                    tile_outer_task(set, kind->fn[rows - 1], kind->width, rows, tile_cols(i, kind->width, c), pixels[p], seed);
    }
}

#endif
