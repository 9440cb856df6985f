/* SPDX-License-Identifier: MIT */
/* t_tune.c: block sizes. Every value worth trying leaves every bit, or, where sums may be cut
 * elsewhere, the result within rounding. Whatever the sizes, also odd ones, the bits are the same
 * for any number of threads. The file of measured sizes: what is put in comes out, keys are exact,
 * and no bytes break the reader. */
#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/plan/tuning_file.h"
#include "kernels/cpu/block_sizes.h"
#include "tests/t.h"
#include <unistd.h>

struct tune_case {
    int32_t n, side, c, k, r, stride, pad, groups;
};
static const struct tune_case tune_cases[] = {
    {2, 9, 64, 96, 1, 1, 0, 1}, {3, 8, 640, 80, 1, 2, 0, 1}, {2, 10, 96, 64, 3, 1, 1, 1}, {2, 9, 64, 72, 3, 2, 1, 1},
    {1, 19, 3, 20, 7, 2, 3, 1}, {4, 12, 8, 12, 5, 1, 2, 1},  {2, 8, 32, 32, 3, 1, 1, 4},  {9, 1, 300, 70, 1, 1, 0, 1},
    {3, 21, 32, 48, 3, 1, 1, 1},
};
static const int tune_codes[3] = {GY_OP_CONV, GY_OP_CONV_DGRAD, GY_OP_CONV_WGRAD};
static const int tune_threads[3] = {1, 2, 3};

struct tune_device {
    const struct gy_backend *backend;
    void *self[3]; /* by number of threads */
    struct gy_arena *plans;
};

/* The outputs of a run. */
struct tune_result {
    float *out;
    float *stats;
    int64_t floats; /* of out */
    int64_t bytes;
};

static float *tune_floats(int64_t count, uint64_t seed)
{
    float *const x = calloc((size_t)count + 64, sizeof *x);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = gy_rng_uniform(seed, 7, 0, (uint64_t)i) - 0.5f;
    return x;
}

/* Halves of bf16, from the same numbers; float tensors stay. */
static void tune_round(float *x, int64_t count)
{
    uint16_t *const half = (uint16_t *)(void *)x;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        half[i] = (uint16_t)(bits >> 16);
    }
}

static struct gy_geom tune_geom(const struct tune_case *c)
{
    struct gy_geom g = { .n = c->n, .h = c->side, .w = c->side, .c = c->c, .k = c->k, .r = c->r, .s = c->r, .stride_h = c->stride,
                        .stride_w = c->stride, .pad_h = c->pad, .pad_w = c->pad, .dil_h = 1, .dil_w = 1, .groups = c->groups };
    g.p = g.q = (c->side + 2 * c->pad - c->r) / c->stride + 1;
    return g;
}

struct tune_memory {
    float *x, *w, *y, *stats;
    int64_t nx, nw, ny;
};

static struct tune_memory tune_memory_of(const struct gy_geom *g, int dtype, int code)
{
    struct tune_memory m = { .nx = g->n * g->h * g->w * g->c, .nw = (int64_t)g->k * g->r * g->s * (g->c / g->groups),
                            .ny = g->n * g->p * g->q * g->k };
    m.x = tune_floats(m.nx, 1);
    m.w = tune_floats(m.nw, 2);
    m.y = tune_floats(m.ny, 3);
    m.stats = tune_floats(2 * g->k, 4);
    if (dtype == GY_BF16) {
        tune_round(m.x, m.nx);
        tune_round(m.y, m.ny);
    }
    (void)code;
    return m;
}

static void tune_memory_free(struct tune_memory *m)
{
    free(m->x);
    free(m->w);
    free(m->y);
    free(m->stats);
}

static struct gy_op tune_make(int code, int dtype, const struct gy_geom *g, int stats, const struct gy_uniform *u)
{
    struct gy_op op = { .code = code, .dtype = dtype, .geom = *g, .u = u, .name = "test"};
    static const int roles[3][3] = {{GY_X, GY_W, GY_Y}, {GY_DX, GY_W, GY_DY}, {GY_X, GY_DW, GY_DY}};
    for (int r = 0; r < GY_ROLES; r++)
        op.tensor[r] = -1;
    for (int r = 0; r < 3; r++)
        op.tensor[roles[code == GY_OP_CONV ? 0 : code == GY_OP_CONV_DGRAD ? 1 : 2][r]] = r;
    if (stats)
        op.tensor[GY_STATS] = 3;
    return op;
}

/* Runs op with its block sizes on a device; the outputs are malloc'd. */
static int tune_run(const struct tune_device *d, int thread, struct gy_op op, struct tune_result *out)
{
    struct gy_error err;
    struct tune_memory m = tune_memory_of(&op.geom, op.dtype, op.code);
    const int grad = op.code == GY_OP_CONV_WGRAD, back = op.code == GY_OP_CONV_DGRAD;
    void *scratch = NULL;
    const int status = d->backend->prepare(d->self[thread], &op, d->plans, &err);
    if (status == GY_OK && op.scratch_bytes)
        T_CHECK(d->backend->mem_get(d->self[thread], op.scratch_bytes, GY_MEM_DEVICE, &scratch, &err) == GY_OK);
    op.ptr[back ? GY_DX : GY_X] = m.x;
    op.ptr[grad ? GY_DW : GY_W] = m.w;
    op.ptr[op.code == GY_OP_CONV ? GY_Y : GY_DY] = m.y;
    op.ptr[GY_STATS] = op.tensor[GY_STATS] >= 0 ? m.stats : NULL;
    op.ptr[GY_SCRATCH] = scratch;
    if (status == GY_OK)
        T_CHECK(d->backend->run(d->self[thread], &op) == GY_OK);
    if (scratch)
        d->backend->mem_put(d->self[thread], scratch, op.scratch_bytes, GY_MEM_DEVICE);
    float **const kept = grad ? &m.w : back ? &m.x : &m.y;
    out->floats = grad ? m.nw : back ? m.nx : m.ny;
    out->bytes = out->floats * (op.dtype == GY_BF16 && !grad ? 2 : 4);
    out->out = *kept;
    *kept = NULL;
    out->stats = m.stats;
    m.stats = NULL;
    tune_memory_free(&m);
    return status;
}

static void tune_result_free(struct tune_result *r)
{
    free(r->out);
    free(r->stats);
}

static int tune_same_bits(const struct tune_result *a, const struct tune_result *b, int32_t k)
{
    return memcmp(a->out, b->out, (size_t)a->bytes) == 0 && memcmp(a->stats, b->stats, (size_t)k * 2 * sizeof(float)) == 0;
}

static float tune_at(const struct tune_result *r, int64_t i)
{
    if (r->bytes == 4 * r->floats)
        return r->out[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)(const void *)r->out)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Largest difference over the largest value. */
static double tune_distance(const struct tune_result *a, const struct tune_result *b)
{
    double most = 0, largest = 1e-30;
    for (int64_t i = 0; i < a->floats; i++) {
        most = fmax(most, fabs((double)tune_at(a, i) - (double)tune_at(b, i)));
        largest = fmax(largest, fabs((double)tune_at(a, i)));
    }
    return most / largest;
}

/* Sizes in op's places: the bits for all numbers of threads, and beside the usual sizes. */
static void tune_check_sizes(const struct tune_device *d, const struct gy_op *op, const struct tune_result *usual, int exact)
{
    struct tune_result r[3];
    for (int t = 0; t < 3; t++)
        T_CHECK(tune_run(d, t, *op, &r[t]) == GY_OK);
    T_CHECK_MSG(tune_same_bits(&r[0], &r[1], op->geom.k) && tune_same_bits(&r[0], &r[2], op->geom.k),
                "op %d, type %d, %dx%dx%d: sizes %d %d %d %d %d: threads differ", op->code, op->dtype, op->geom.h, op->geom.c,
                op->geom.k, op->block[0], op->block[1], op->block[2], op->block[3], op->block[4]);
    if (exact)
        T_CHECK_MSG(tune_same_bits(&r[0], usual, op->geom.k), "op %d, type %d, %dx%dx%d, filter %d: sizes %d %d %d %d %d change bits",
                    op->code, op->dtype, op->geom.h, op->geom.c, op->geom.k, op->geom.r, op->block[0], op->block[1], op->block[2],
                    op->block[3], op->block[4]);
    else
        T_CHECK_MSG(tune_distance(usual, &r[0]) < (op->dtype == GY_BF16 ? 0.01 : 1e-5), "op %d, type %d: distance %g", op->code,
                    op->dtype, tune_distance(usual, &r[0]));
    for (int t = 0; t < 3; t++)
        tune_result_free(&r[t]);
}

/* How many places have values that leave every bit, and how many such that do not. */
static int tune_places[2];

static void tune_check_op(const struct tune_device *d, const struct gy_op *op)
{
    static const int32_t odd[][GY_OP_BLOCKS] = {{8, 16, 1, 1024, 8}, {13, 40, 256, 5000, 24}, {4096, 512, 7, 1048576, 128}, {-5, INT32_MAX, -1, 1, 999}};
    struct gy_op ready = *op;
    struct gy_error err;
    struct tune_result usual;
    T_CHECK(d->backend->prepare(d->self[0], &ready, d->plans, &err) == GY_OK);
    T_CHECK(tune_run(d, 0, *op, &usual) == GY_OK);
    for (int place = 0; place < GY_OP_BLOCKS; place++) {
        int32_t values[GY_BLOCK_TRIES];
        const int kept = d->backend->lab->block_tries(d->self[0], &ready, place, 0, values);
        const int tries = d->backend->lab->block_tries(d->self[0], &ready, place, 1, values);
        const int strict = op->code == GY_OP_CONV_DGRAD && place == GY_BLOCK_STRIP;
        T_CHECK(kept == tries || (kept == 0 && !strict));
        tune_places[0] += kept > 0;
        tune_places[1] += kept == 0 && tries > 0;
        for (int i = 0; i < tries; i++) {
            const struct gy_block_info *const info = d->backend->lab->block(place);
            struct gy_op other = *op;
            T_CHECK(info && values[i] >= info->lo && values[i] <= info->hi);
            other.block[place] = values[i];
            tune_check_sizes(d, &other, &usual, kept > 0);
        }
    }
    for (size_t i = 0; i < GY_COUNT(odd); i++) {
        struct gy_op other = *op;
        memcpy(other.block, odd[i], sizeof other.block);
        tune_check_sizes(d, &other, &usual, 0);
        other = *op;
        other.block[GY_BLOCK_STRIP] = odd[i][GY_BLOCK_STRIP];
        if (op->code == GY_OP_CONV_DGRAD)
            tune_check_sizes(d, &other, &usual, 1);
    }
    tune_result_free(&usual);
}

static void tune_test_sizes(const char *isa)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_arena plans;
    struct tune_device d = { .backend = gy_cpu_backend(), .plans = &plans };
    gy_arena_open_hook(&plans, &alloc);
    const struct gy_uniform u = { .grad_scale = 1.0f };
    struct gy_error err;
    for (int t = 0; t < 3; t++) {
        const struct gy_backend_config config = { .alloc = &alloc, .isa = isa, .threads = tune_threads[t] };
        if (!T_CHECK(d.backend->open(&d.self[t], &config, &err) == GY_OK))
            return;
    }
    for (size_t i = 0; i < GY_COUNT(tune_cases); i++)
        for (int n = 0; n < 6; n++) {
            const struct gy_geom g = tune_geom(&tune_cases[i]);
            const struct gy_op op = tune_make(tune_codes[n % 3], n / 3 ? GY_BF16 : GY_F32, &g, n % 3 == 0 && i % 2 == 0, &u);
            tune_check_op(&d, &op);
        }
    for (int t = 0; t < 3; t++)
        d.backend->close(d.self[t]);
    gy_arena_close(&plans);
}

/* ---- the file ---- */

static int tune_write_text(const char *path, const void *text, size_t bytes)
{
    FILE *const file = fopen(path, "wb");
    const int written = file && fwrite(text, 1, bytes, file) == bytes;
    return file && fclose(file) == 0 && written;
}

static void tune_test_file(const char *path)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_caps caps = { .machine = "A processor", .set = "a set"}, elsewhere = { .machine = "A processor", .set = "other"};
    const struct gy_backend *const backend = gy_cpu_backend();
    struct gy_error err;
    struct gy_tuned t;
    const struct gy_geom g = tune_geom(&tune_cases[0]);
    struct gy_op op = tune_make(GY_OP_CONV, GY_F32, &g, 0, NULL);
    const struct gy_tuned_row row = { .machine = "A processor", .set = "a set", .source = "today, here", .variant = "gemm", .code = GY_OP_CONV,
                                     .geom = g, .block = {84, 0, 48}, .gain = 1.25 };
    remove(path);
    T_CHECK(gy_tuned_read(&t, path, &alloc, backend, &caps, &err) == GY_OK && t.count == 0 && !gy_tuned_find(&t, &op));
    T_CHECK(gy_tuned_put(&t, &row, &err) == GY_OK && gy_tuned_put(&t, &row, &err) == GY_OK && t.count == 1);
    struct gy_tuned_row other = row;
    other.machine = "Some other";
    T_CHECK(gy_tuned_put(&t, &other, &err) == GY_OK && t.count == 2 && t.others == 1);
    T_CHECK(gy_tuned_write(&t, path, &err) == GY_OK);
    gy_tuned_close(&t);
    T_CHECK(gy_tuned_read(&t, path, &alloc, backend, &caps, &err) == GY_OK && t.count == 2 && t.others == 1);
    const struct gy_tuned_row *const found = gy_tuned_find(&t, &op);
    if (T_CHECK(found != NULL))
        T_CHECK(found->block[0] == 84 && found->block[1] == 0 && found->block[2] == 48 && fabs(found->gain - 1.25) < 1e-9 &&
                strcmp(found->source, "today, here") == 0 && strcmp(found->variant, "gemm") == 0);
    op.tensor[GY_STATS] = 3;
    T_CHECK(!gy_tuned_find(&t, &op));
    op.tensor[GY_STATS] = -1;
    op.dtype = GY_BF16;
    T_CHECK(!gy_tuned_find(&t, &op));
    op.dtype = GY_F32;
    op.geom.n++;
    T_CHECK(!gy_tuned_find(&t, &op));
    memset(other.block, 0, sizeof other.block);
    T_CHECK(gy_tuned_put(&t, &other, &err) == GY_OK && t.count == 1);
    gy_tuned_close(&t);
    op.geom.n--;
    T_CHECK(gy_tuned_read(&t, path, &alloc, backend, &elsewhere, &err) == GY_OK && t.others == 2 && !gy_tuned_find(&t, &op));
    gy_tuned_close(&t);
}

/* Bytes of a good file changed, taken out and doubled: each ends in a table or a sentence. */
static void tune_test_hostile(const char *path)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_caps caps = { .machine = "A processor", .set = "a set"};
    static const char spice[] = "\n\r\t x=|.-+09#\377\001 on from";
    char *good = NULL, text[4096];
    size_t bytes = 0;
    struct gy_error err;
    int read = 0, refused = 0;
    T_CHECK(gy_file_read(&alloc, path, 4000, &good, &bytes, &err) == GY_OK && bytes > 100);
    for (uint64_t n = 0; good && n < 3000; n++) {
        uint32_t w[4];
        size_t size = bytes;
        memcpy(text, good, bytes);
        for (int change = 0; change < 3; change++) {
            gy_rng_words(5, 1, n, (uint64_t)change, w);
            if (w[0] % 4 == 0)
                size = w[1] % (size + 1);
            else if (w[0] % 4 == 1 && size > 1)
                memmove(text + w[1] % size, text + w[2] % size, size - (w[1] % size > w[2] % size ? w[1] % size : w[2] % size));
            else if (size > 0)
                text[w[1] % size] = spice[w[2] % (sizeof spice - 1)];
        }
        struct gy_tuned t;
        T_CHECK(tune_write_text(path, text, size));
        err.text[0] = 0;
        const int status = gy_tuned_read(&t, path, &alloc, gy_cpu_backend(), &caps, &err);
        if (status == GY_OK) {
            for (int i = 0; i < t.count; i++)
                for (int place = 0; gy_cpu_backend()->lab->block(place); place++) {
                    const struct gy_block_info *const info = gy_cpu_backend()->lab->block(place);
                    const int32_t v = t.rows[i].block[place];
                    read += v == 0 || (v >= info->lo && v <= info->hi) ? 1 : 1000000;
                }
            gy_tuned_close(&t);
        } else
            refused += strncmp(err.text, path, strlen(path)) == 0 ? 1 : 1000000;
    }
    T_CHECK_MSG(read > 100 && read < 1000000, "%d rows read", read);
    T_CHECK_MSG(refused > 100 && refused < 1000000, "%d files refused", refused);
    gy_alloc_free(&alloc, good, bytes + 1);
    remove(path);
}

int main(void)
{
    char path[80];
    snprintf(path, sizeof path, "/tmp/gyre_t_tune_%ld.txt", (long)getpid());
    tune_test_sizes(NULL);
    tune_test_sizes("avx2");
    T_CHECK_MSG(tune_places[0] > 0 && tune_places[1] > 0, "%d places leave every bit, %d do not", tune_places[0], tune_places[1]);
    tune_test_file(path);
    tune_test_hostile(path);
    T_END("t_tune");
}
