/* SPDX-License-Identifier: MIT */
/* bench_conv.c: speed of the convolutions of known nets, a line a shape. It prints GFLOP/s and per
 * cent of this machine's measured multiply-add peak, for forward, data gradient and weight
 * gradient. Below stands each pass weighted by how often the net has the shape, then the passes of
 * batch norm in GB/s. Not part of the tests.
 *
 * bench_conv [resnet50|resnet20|alexnet|lenet5] [batch] [threads] [kernel set] [repetitions]
 * [without]
 *
 * without: number of a size of Winograd's (gy_kernels.wino) that is switched off: the difference is
 * what it earns. */
#include "engine/base/clock.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_context.h"

struct bench_shape {
    int count, side, c, k, r, stride, pad;
};

static const struct bench_shape bench_resnet50[] = {
    {1, 224, 3, 64, 7, 2, 3},    {1, 56, 64, 64, 1, 1, 0},     {3, 56, 64, 64, 3, 1, 1},   {4, 56, 64, 256, 1, 1, 0},
    {2, 56, 256, 64, 1, 1, 0},   {1, 56, 256, 128, 1, 1, 0},   {1, 56, 128, 128, 3, 2, 1}, {4, 28, 128, 512, 1, 1, 0},
    {1, 56, 256, 512, 1, 2, 0},  {3, 28, 512, 128, 1, 1, 0},   {3, 28, 128, 128, 3, 1, 1}, {1, 28, 512, 256, 1, 1, 0},
    {1, 28, 256, 256, 3, 2, 1},  {6, 14, 256, 1024, 1, 1, 0},  {1, 28, 512, 1024, 1, 2, 0}, {5, 14, 1024, 256, 1, 1, 0},
    {5, 14, 256, 256, 3, 1, 1},  {1, 14, 1024, 512, 1, 1, 0},  {1, 14, 512, 512, 3, 2, 1}, {3, 7, 512, 2048, 1, 1, 0},
    {1, 14, 1024, 2048, 1, 2, 0}, {2, 7, 2048, 512, 1, 1, 0},  {2, 7, 512, 512, 3, 1, 1},  {1, 1, 2048, 1000, 1, 1, 0},
};
static const struct bench_shape bench_resnet20[] = {
    {1, 32, 3, 16, 3, 1, 1},  {6, 32, 16, 16, 3, 1, 1}, {1, 32, 16, 32, 3, 2, 1}, {5, 16, 32, 32, 3, 1, 1},
    {1, 16, 32, 64, 3, 2, 1}, {5, 8, 64, 64, 3, 1, 1},  {1, 1, 64, 10, 1, 1, 0},
};
static const struct bench_shape bench_alexnet[] = {
    {1, 224, 3, 64, 11, 4, 2},  {1, 27, 64, 192, 5, 1, 2},  {1, 13, 192, 384, 3, 1, 1}, {1, 13, 384, 256, 3, 1, 1},
    {1, 13, 256, 256, 3, 1, 1}, {1, 1, 9216, 4096, 1, 1, 0}, {1, 1, 4096, 4096, 1, 1, 0}, {1, 1, 4096, 1000, 1, 1, 0},
};
static const struct bench_shape bench_lenet5[] = {
    {1, 28, 1, 6, 5, 1, 2},  {1, 14, 6, 16, 5, 1, 0}, {1, 1, 400, 120, 1, 1, 0}, {1, 1, 120, 84, 1, 1, 0},
    {1, 1, 84, 10, 1, 1, 0},
};

struct bench_net {
    const char *name;
    const struct bench_shape *shapes;
    size_t count;
};
static const struct bench_net bench_nets[] = {
    {"resnet50", bench_resnet50, GY_COUNT(bench_resnet50)},
    {"resnet20", bench_resnet20, GY_COUNT(bench_resnet20)},
    {"alexnet", bench_alexnet, GY_COUNT(bench_alexnet)},
    {"lenet5", bench_lenet5, GY_COUNT(bench_lenet5)},
};

struct bench {
    const struct gy_backend *backend;
    void *self;
    int reps;
    double peak; /* GFLOP/s of all threads */
};

static float *bench_tensor(const struct bench *b, int64_t count)
{
    struct gy_error err;
    void *mem = NULL;
    if (b->backend->mem_get(b->self, (size_t)count * sizeof(float), GY_MEM_DEVICE, &mem, &err) != GY_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    float *const x = mem;
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)((i * 2654435761u) % 65536) / 32768.0f - 1.0f;
    return x;
}

static void bench_drop(const struct bench *b, void *mem, int64_t count)
{
    b->backend->mem_put(b->self, mem, (size_t)count * sizeof(float), GY_MEM_DEVICE);
}

/* Seconds of the fastest of some runs. */
static double bench_op(const struct bench *b, struct gy_op op)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_arena arena;
    struct gy_error err;
    gy_arena_open_hook(&arena, &alloc);
    for (int i = 0; i < GY_ROLES; i++)
        op.tensor[i] = op.ptr[i] ? i : -1;
    if (b->backend->prepare(b->self, &op, &arena, &err) != GY_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    const int64_t scratch = (int64_t)op.scratch_bytes / 4 + 16;
    op.ptr[GY_SCRATCH] = bench_tensor(b, scratch);
    double best = 1e30;
    for (int i = 0; i < b->reps; i++) {
        const int64_t start = gy_clock_ns();
        b->backend->run(b->self, &op);
        best = fmin(best, 1e-9 * (double)(gy_clock_ns() - start));
    }
    bench_drop(b, op.ptr[GY_SCRATCH], scratch);
    gy_arena_close(&arena);
    return best;
}

/* The three passes of a shape, and the weighted sums: seconds of each pass, then its flops. */
static void bench_conv_shape(const struct bench *b, const struct bench_shape *s, int64_t batch, double total[6])
{
    struct gy_uniform u = { .grad_scale = 1.0f };
    struct gy_geom g = { .n = batch, .h = s->side, .w = s->side, .c = s->c, .k = s->k, .r = s->r, .s = s->r,
                        .stride_h = s->stride, .stride_w = s->stride, .pad_h = s->pad, .pad_w = s->pad, .dil_h = 1,
                        .dil_w = 1, .groups = 1 };
    g.p = g.q = (s->side + 2 * s->pad - s->r) / s->stride + 1;
    const int64_t nx = g.n * g.h * g.w * g.c, ny = g.n * g.p * g.q * g.k, nw = (int64_t)g.k * g.r * g.s * g.c;
    float *const x = bench_tensor(b, nx), *const y = bench_tensor(b, ny), *const w = bench_tensor(b, nw);
    float *const dw = bench_tensor(b, nw), *const stats = bench_tensor(b, 2 * g.k);
    const struct gy_op ops[3] = {
        { .code = GY_OP_CONV, .geom = g, .u = &u, .ptr = {[GY_X] = x, [GY_W] = w, [GY_Y] = y, [GY_STATS] = stats} },
        { .code = GY_OP_CONV_DGRAD, .geom = g, .u = &u, .ptr = {[GY_DY] = y, [GY_W] = w, [GY_DX] = x} },
        { .code = GY_OP_CONV_WGRAD, .geom = g, .u = &u, .ptr = {[GY_X] = x, [GY_DY] = y, [GY_DW] = dw} }};
    const double flops = 2.0 * (double)ny * g.r * g.s * g.c;
    printf("%2d x %4d -> %4d  %2dx%-2d /%d  %3d |", s->count, s->c, s->k, s->r, s->r, s->stride, s->side);
    for (int i = 0; i < 3; i++) {
        if (i == 1 && s->c <= 3) { /* nobody asks for the gradient of an image */
            printf("       -     ");
            continue;
        }
        const double seconds = bench_op(b, ops[i]);
        printf(" %7.1f", flops / seconds * 1e-9);
        if (b->peak > 0.0)
            printf(" %3.0f%%", flops / seconds * 1e-7 / b->peak);
        total[i] += seconds * s->count;
        total[3 + i] += flops * s->count;
    }
    printf("\n");
    bench_drop(b, x, nx);
    bench_drop(b, y, ny);
    bench_drop(b, w, nw);
    bench_drop(b, dw, nw);
    bench_drop(b, stats, 2 * g.k);
}

static void bench_norm(const struct bench *b, int64_t rows, int32_t c)
{
    struct gy_uniform u = { .grad_scale = 1.0f };
    const struct gy_geom g = { .n = rows, .h = 1, .w = 1, .c = c, .p = 1, .q = 1, .k = c };
    const int64_t count = rows * c;
    float *const x = bench_tensor(b, count), *const y = bench_tensor(b, count), *const z = bench_tensor(b, count);
    float *const v = bench_tensor(b, 8 * c);
    float *const dy = bench_tensor(b, count);
    struct bench_pass {
        const char *name;
        int tensors; /* read and written */
        struct gy_op op;
    } passes[] = {
        {"stats", 1, { .code = GY_OP_BN_STATS, .ptr = {[GY_X] = x, [GY_STATS] = v} }},
        {"apply + relu", 2,
         { .code = GY_OP_BN_APPLY, .act = GY_ACT_RELU,
          .ptr = {[GY_X] = x, [GY_SCALE] = v, [GY_SHIFT] = v + c, [GY_Y] = y} }},
        {"apply + add + relu", 3,
         { .code = GY_OP_BN_APPLY, .act = GY_ACT_RELU,
          .ptr = {[GY_X] = x, [GY_SCALE] = v, [GY_SHIFT] = v + c, [GY_RES] = z, [GY_Y] = y} }},
        {"backward sums", 3,
         { .code = GY_OP_BN_SUMS, .act = GY_ACT_RELU,
          .ptr = {[GY_DY] = dy, [GY_X] = x, [GY_Y] = y, [GY_MEAN] = v, [GY_RSTD] = v + c, [GY_SUMS] = v + 2 * c,
                  [GY_DGAMMA] = v + 4 * c, [GY_DBETA] = v + 5 * c} }},
        {"backward", 4,
         { .code = GY_OP_BN_BWD, .act = GY_ACT_RELU,
          .ptr = {[GY_DY] = dy, [GY_X] = x, [GY_Y] = y, [GY_MEAN] = v, [GY_RSTD] = v + c, [GY_GAMMA] = v + 4 * c,
                  [GY_SUMS] = v + 2 * c, [GY_DX] = z} }},
    };
    printf("batch norm, %" PRId64 " x %d:", rows, (int)c);
    for (size_t i = 0; i < GY_COUNT(passes); i++) {
        passes[i].op.geom = g;
        passes[i].op.u = &u;
        const double seconds = bench_op(b, passes[i].op);
        printf("  %s %.1f GB/s", passes[i].name, (double)passes[i].tensors * (double)count * 4e-9 / seconds);
    }
    printf("\n");
    bench_drop(b, x, count);
    bench_drop(b, y, count);
    bench_drop(b, z, count);
    bench_drop(b, dy, count);
    bench_drop(b, v, 8 * c);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "resnet50", *isa = argc > 4 ? argv[4] : NULL;
    const int64_t batch = argc > 2 ? atoi(argv[2]) : 16;
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_log log = {NULL, NULL, 0};
    const struct gy_backend_config config = { .alloc = &alloc, .log = &log, .isa = isa, .threads = argc > 3 ? atoi(argv[3]) : 0 };
    struct bench b = { .backend = gy_cpu_backend(), .reps = argc > 5 ? atoi(argv[5]) : 3 };
    const struct bench_net *net = NULL;
    struct gy_error err;
    struct gy_caps caps;
    for (size_t i = 0; i < GY_COUNT(bench_nets); i++)
        net = strcmp(bench_nets[i].name, name) == 0 ? &bench_nets[i] : net;
    if (!net || batch < 1 || b.backend->open(&b.self, &config, &err) != GY_OK) {
        fprintf(stderr, "usage: bench_conv [resnet50|resnet20|alexnet|lenet5] [batch] [threads] [kernel set] "
                        "[repetitions] [without]\n");
        return 2;
    }
    struct gy_cpu *const cpu = b.self; /* the backend begins with it */
    const int without = argc > 6 ? atoi(argv[6]) : -1;
    if (without >= 0 && without < GY_WINOS)
        cpu->k.wino[without].r = 0; /* fits no filter */
    b.backend->caps(b.self, &caps);
    struct gy_ceilings ceilings = {0};
    b.backend->lab->ceilings(b.self, &ceilings);
    b.peak = ceilings.f32;
    printf("%s, batch %d on %s; multiply-add peak %.0f GFLOP/s\n", name, (int)batch, caps.device, b.peak);
    printf("count  channels       filter  side |  forward       data grad    weight grad  (GFLOP/s, %% of peak)\n");
    double total[6] = {0.0};
    for (size_t i = 0; i < net->count; i++)
        bench_conv_shape(&b, &net->shapes[i], batch, total);
    printf("weighted by count: ");
    for (int i = 0; i < 3; i++)
        printf(" %.1f ms %.1f GFLOP/s %.1f%%;", total[i] * 1e3, total[3 + i] / total[i] * 1e-9,
               b.peak > 0.0 ? total[3 + i] / total[i] * 1e-7 / b.peak : 0.0);
    printf("\n");
    bench_norm(&b, batch * 56 * 56, 64);
    bench_norm(&b, batch * 14 * 14, 1024);
    b.backend->close(b.self);
    return 0;
}
