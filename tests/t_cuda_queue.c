/* SPDX-License-Identifier: MIT */
/* t_cuda_queue.c: queues and marks of the CUDA backend, on the emulator or on a GPU ('t_cuda_queue
 * cuda'). A batch goes up beside the work. Gradients go out as soon as their mark inside a captured
 * program is reached. Results are complete when the host has reached their mark. On the emulator a
 * wait that is left out is found. */
#include "engine/base/file.h"
#include "kernels/op_table.h"
#include "kernels/cuda/cuda_state.h"
#include "tests/device_here.h"
#include "tests/t.h"

#include <dlfcn.h>

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define CQ_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CQ_NO_EMULATOR 1
#endif
#endif

enum { CQ_COUNT = 256, CQ_ROUNDS = 4 };

struct cq_device {
    const struct gy_backend *backend;
    struct gy_alloc alloc;
    void *self;
    float *land, *x, *y, *z;  /* on the device */
    float *sent, *out;        /* pinned */
    struct gy_uniform u;
    struct gy_op op[2];       /* y = relu(x), z = relu(y) */
    char said[512];
};
static const size_t cq_bytes = CQ_COUNT * sizeof(float);

static void cq_log(void *user, int level, const char *text)
{
    struct cq_device *d = user;
    if (level == GY_LOG_ERROR)
        snprintf(d->said, sizeof d->said, "%s", text);
}

static struct gy_op cq_relu(struct cq_device *d, void *from, void *to)
{
    const struct gy_geom g = { .n = 1, .h = 1, .w = 1, .c = CQ_COUNT, .p = 1, .q = 1, .k = CQ_COUNT, .r = 1, .s = 1, .stride_h = 1, .stride_w = 1,
                               .dil_h = 1, .dil_w = 1, .groups = 1 };
    struct gy_op op = gy_op_make(GY_OP_ACT, "relu", &g);
    op.act = GY_ACT_RELU;
    op.u = &d->u;
    op.ptr[GY_X] = from;
    op.ptr[GY_Y] = to;
    op.tensor[GY_X] = op.tensor[GY_Y] = 0;
    return op;
}

static int cq_get(struct cq_device *d, float **out, int kind)
{
    struct gy_error err;
    void *p = NULL;
    if (!T_CHECK(d->backend->mem_get(d->self, cq_bytes, kind, &p, &err) == GY_OK))
        return -1;
    *out = p;
    return 0;
}

static gy_cuda_error (*cq_find)(gy_cuda_function *, gy_cuda_module, const char *);
static int cq_finds;

static gy_cuda_error cq_find_once(gy_cuda_function *function, gy_cuda_module module,
                                  const char *name)
{
    return cq_finds++ ? 500 : cq_find(function, module, name);
}

/* What a ready that failed midway left undone, the next one does. */
static int cq_ready(struct cq_device *d)
{
    struct gy_cuda_backend *const cuda = d->self;
    struct gy_error err;
    cq_find = cuda->lib.api.dr_module_function;
    cq_finds = 0;
    cuda->lib.api.dr_module_function = cq_find_once;
    T_CHECK(d->backend->ready(d->self, &err) == GY_E_DEVICE && cq_finds == 2);
    cuda->lib.api.dr_module_function = cq_find;
    return T_CHECK(d->backend->ready(d->self, &err) == GY_OK);
}

/* 1: open; 0: there is no such device. */
static int cq_open(struct cq_device *d, const char *device)
{
    char path[4096];
    struct gy_error err = { 0 };
    const struct gy_log log = { cq_log, d, GY_LOG_WARN };
    memset(d, 0, sizeof *d);
    d->alloc = gy_alloc_default();
    d->backend = gy_cuda_backend();
    struct gy_backend_config config = { .alloc = &d->alloc, .log = &log, .kernel_cache = getenv("GYRE_KERNEL_CACHE"),
                                        .cuda_path = getenv("GYRE_CUDA_PATH") };
    const int emulated = strcmp(device, "emu") == 0;
    config.emulator = emulated ? dh_emulator(path, sizeof path) : NULL;
    const int there = d->backend && (!emulated || config.emulator);
    if (!dh_opened(device, there ? d->backend->open(&d->self, &config, &err) : GY_E_NODEVICE, err.text))
        return 0;
    if (cq_get(d, &d->land, GY_MEM_DEVICE) || cq_get(d, &d->x, GY_MEM_DEVICE) || cq_get(d, &d->y, GY_MEM_DEVICE) ||
        cq_get(d, &d->z, GY_MEM_DEVICE) || cq_get(d, &d->sent, GY_MEM_HOST) || cq_get(d, &d->out, GY_MEM_HOST))
        return 0;
    d->op[0] = cq_relu(d, d->x, d->y);
    d->op[1] = cq_relu(d, d->y, d->z);
    T_CHECK(d->backend->prepare(d->self, &d->op[0], NULL, &err) == GY_OK);
    T_CHECK(d->backend->prepare(d->self, &d->op[1], NULL, &err) == GY_OK);
    return cq_ready(d);
}

static void cq_close(struct cq_device *d)
{
    float *const device[] = { d->land, d->x, d->y, d->z }, *const host[] = { d->sent, d->out };
    for (size_t i = 0; i < GY_COUNT(device); i++)
        if (device[i])
            d->backend->mem_put(d->self, device[i], cq_bytes, GY_MEM_DEVICE);
    for (size_t i = 0; i < GY_COUNT(host); i++)
        if (host[i])
            d->backend->mem_put(d->self, host[i], cq_bytes, GY_MEM_HOST);
    if (d->self)
        d->backend->close(d->self);
}

/* What the host sends, to x by way of land. lacks: the wait that is left out. */
enum { CQ_NOTHING, CQ_SENT, CQ_TAKEN, CQ_BUCKET, CQ_REACH };

static int cq_send(const struct cq_device *d, float value, int lacks)
{
    const struct gy_backend *b = d->backend;
    for (int i = 0; i < CQ_COUNT; i++)
        d->sent[i] = i % 2 ? value + (float)i : -1;
    if (lacks != CQ_TAKEN)
        GY_TRY(b->wait(d->self, GY_QUEUE_COPY, GY_MARK_TAKEN));
    GY_TRY(b->copy_on(d->self, GY_QUEUE_COPY, d->land, d->sent, cq_bytes, GY_COPY_TO_DEVICE));
    GY_TRY(b->mark(d->self, GY_QUEUE_COPY, GY_MARK_SENT));
    if (lacks != CQ_SENT)
        GY_TRY(b->wait(d->self, GY_QUEUE_WORK, GY_MARK_SENT));
    GY_TRY(b->copy(d->self, d->x, d->land, cq_bytes, GY_COPY_ON_DEVICE));
    return b->mark(d->self, GY_QUEUE_WORK, GY_MARK_TAKEN);
}

/* The program: an op, a mark, another op. It is walked at first, captured the second time, and then
 * repeated by the device. */
static int cq_program(const struct cq_device *d)
{
    const struct gy_backend *b = d->backend;
    const int begun = b->begin(d->self, 0, &d->u);
    if (begun == 1)
        return GY_OK;
    GY_TRY(begun);
    GY_TRY(b->run(d->self, &d->op[0]));
    GY_TRY(b->mark(d->self, GY_QUEUE_WORK, GY_MARK_BUCKET + 3));
    GY_TRY(b->run(d->self, &d->op[1]));
    return b->end(d->self, 0);
}

/* y goes out beside the second op. */
static int cq_fetch(const struct cq_device *d, int lacks)
{
    const struct gy_backend *b = d->backend;
    if (lacks != CQ_BUCKET)
        GY_TRY(b->wait(d->self, GY_QUEUE_PEERS, GY_MARK_BUCKET + 3));
    GY_TRY(b->copy_on(d->self, GY_QUEUE_PEERS, d->out, d->y, cq_bytes, GY_COPY_TO_HOST));
    GY_TRY(b->mark(d->self, GY_QUEUE_PEERS, GY_MARK_RESULTS));
    GY_TRY(b->wait(d->self, GY_QUEUE_WORK, GY_MARK_RESULTS)); /* the next round writes y again */
    return lacks == CQ_REACH || lacks == CQ_TAKEN ? GY_OK : b->reach(d->self, GY_MARK_RESULTS);
}

static int cq_round(const struct cq_device *d, float value, int lacks)
{
    GY_TRY(cq_send(d, value, lacks));
    GY_TRY(cq_program(d));
    return cq_fetch(d, lacks);
}

static int cq_right(const struct cq_device *d, float value)
{
    int right = 1;
    for (int i = 0; i < CQ_COUNT; i++)
        right &= d->out[i] == (i % 2 ? value + (float)i : 0);
    return right;
}

static void cq_rounds(struct cq_device *d)
{
    for (int round = 0; round < CQ_ROUNDS; round++) {
        T_CHECK_MSG(cq_round(d, 1000.0f * (float)round, CQ_NOTHING) == GY_OK, "round %d: %s", round, d->said);
        T_CHECK_MSG(cq_right(d, 1000.0f * (float)round), "round %d", round);
        T_CHECK(d->backend->poll(d->self, GY_MARK_RESULTS) == 1);
    }
    /* the last mark was never set */
    T_CHECK(d->backend->sync(d->self) == GY_OK && d->backend->poll(d->self, GY_MARKS - 1) == 1);
}

/* The emulator as after a new start: a device that failed stays so. */
static void cq_reset(void)
{
    char path[4096];
    int (*reset)(void) = NULL;
    const char *const name = dh_emulator(path, sizeof path);
    void *const library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *const symbol = library ? dlsym(library, "cudaDeviceReset") : NULL;
    memcpy(&reset, &symbol, sizeof reset);
    T_CHECK(reset && reset() == 0);
}

/* Runs a round that lacks one wait, after `before` good ones. before 0: the program is walked; else
 * it is a captured one. */
static void cq_lacking(int lacks, int before)
{
    struct cq_device d;
    if (!T_CHECK(cq_open(&d, "emu")))
        return;
    for (int round = 0; round < before; round++)
        T_CHECK(cq_round(&d, 1, CQ_NOTHING) == GY_OK);
    int status = cq_round(&d, 2, lacks);
    if (lacks == CQ_TAKEN) /* the next batch meets the copy that takes the last one away */
        status = status == GY_OK ? cq_round(&d, 3, lacks) : status;
    if (lacks == CQ_REACH) {
        T_CHECK(status == GY_OK && !cq_right(&d, 2)); /* not there yet */
        T_CHECK(d.backend->sync(d.self) == GY_OK && cq_right(&d, 2));
    } else
        T_CHECK_MSG(status == GY_E_DEVICE && strstr(d.said, "no event between"), "wait %d, after %d rounds: %d, %s", lacks, before, status, d.said);
    cq_close(&d);
    cq_reset();
}

int main(int argc, char **argv)
{
    struct cq_device d;
    const char *const device = argc > 1 ? argv[1] : "emu";
    setvbuf(stdout, NULL, _IOLBF, 4096);
#ifdef CQ_NO_EMULATOR
    if (strcmp(device, "emu") == 0) {
        T_SKIP("no emulator under ThreadSanitizer");
        T_END("t_cuda_queue");
    }
#endif
    if (!cq_open(&d, device))
        T_END("t_cuda_queue");
    cq_rounds(&d);
    cq_close(&d);
    if (strcmp(device, "emu") == 0) {
        static const struct { int lacks, before; } cases[] = { { CQ_REACH, 3 }, { CQ_SENT, 0 }, { CQ_SENT, 3 }, { CQ_TAKEN, 1 }, { CQ_TAKEN, 3 },
                                                               { CQ_BUCKET, 0 }, { CQ_BUCKET, 3 } };
        for (size_t i = 0; i < GY_COUNT(cases); i++)
            cq_lacking(cases[i].lacks, cases[i].before);
    }
    T_END("t_cuda_queue");
}
