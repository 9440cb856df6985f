/* SPDX-License-Identifier: MIT */
/* faults_device.h: devices of which the n-th call fails. Every backend that this program opens is
 * the real one with a table in which the functions that can fail count. One kind says that the host
 * cannot read its memory, as a GPU does. Then batches, results and pinned memory take the GPU's
 * way. Opening and compiling count as well. */
#ifndef GY_FAULTS_DEVICE_H
#define GY_FAULTS_DEVICE_H
#include "tests/faults.h"

static const struct gy_backend *faults_real; /* of the last backend that was opened */
static int faults_apart;

static int faults_broken(const char *what) { return faults_now(FAULTS_DEVICE, what); }

static int faults_told(const char *what, int status, struct gy_error *err)
{
    return GY_FAIL(err, status, "a fault was planted in %s", what);
}

static int fd_open(void **self, const struct gy_backend_config *config, struct gy_error *err)
{
    return faults_broken("open") ? faults_told("open", GY_E_NODEVICE, err) : faults_real->open(self, config, err);
}

static void fd_caps(void *self, struct gy_caps *out)
{
    faults_real->caps(self, out);
    out->host_memory = out->host_memory && !faults_apart;
}

static int fd_mem_get(void *self, size_t bytes, int kind, void **out, struct gy_error *err)
{
    const char *const what = kind == GY_MEM_HOST ? "pinned memory" : "device memory";
    return faults_broken(what) ? faults_told(what, GY_E_NOMEM, err) : faults_real->mem_get(self, bytes, kind, out, err);
}

static int fd_prepare(void *self, struct gy_op *op, struct gy_arena *arena, struct gy_error *err)
{
    return faults_broken("prepare") ? faults_told("prepare", GY_E_UNSUPPORTED, err) : faults_real->prepare(self, op, arena, err);
}

static int fd_ready(void *self, struct gy_error *err)
{
    return faults_broken("ready") ? faults_told("ready", GY_E_DEVICE, err) : faults_real->ready(self, err);
}

static int fd_run(void *self, const struct gy_op *op) { return faults_broken("run") ? GY_E_DEVICE : faults_real->run(self, op); }

static int fd_begin(void *self, int program, const struct gy_uniform *u)
{
    return faults_broken("begin") ? GY_E_DEVICE : faults_real->begin(self, program, u);
}

static int fd_end(void *self, int program) { return faults_broken("end") ? GY_E_DEVICE : faults_real->end(self, program); }

static int fd_copy(void *self, void *dst, const void *src, size_t bytes, int kind)
{
    return faults_broken("copy") ? GY_E_DEVICE : faults_real->copy(self, dst, src, bytes, kind);
}

static int fd_copy_on(void *self, int queue, void *dst, const void *src, size_t bytes, int kind)
{
    return faults_broken("copy_on") ? GY_E_DEVICE : faults_real->copy_on(self, queue, dst, src, bytes, kind);
}

static int fd_mark(void *self, int queue, unsigned mark)
{
    return faults_broken("mark") ? GY_E_DEVICE : faults_real->mark(self, queue, mark);
}

static int fd_wait(void *self, int queue, unsigned mark)
{
    return faults_broken("wait") ? GY_E_DEVICE : faults_real->wait(self, queue, mark);
}

static int fd_reach(void *self, unsigned mark) { return faults_broken("reach") ? GY_E_DEVICE : faults_real->reach(self, mark); }

static int fd_sync(void *self) { return faults_broken("sync") ? GY_E_DEVICE : faults_real->sync(self); }

static const struct gy_backend *faults_table(const struct gy_backend *real)
{
    static struct gy_backend table;
    if (!real)
        return NULL;
    faults_real = real;
    table = *real;
    table.open = fd_open, table.caps = fd_caps, table.mem_get = fd_mem_get, table.prepare = fd_prepare, table.ready = fd_ready;
    table.run = fd_run, table.begin = fd_begin, table.end = fd_end, table.copy = fd_copy, table.copy_on = fd_copy_on;
    table.mark = fd_mark, table.wait = fd_wait, table.reach = fd_reach, table.sync = fd_sync;
    return &table;
}

static const struct gy_backend *faults_cpu(void) { return faults_table(gy_cpu_backend()); }
static const struct gy_backend *faults_cuda(void) { return faults_table(gy_cuda_backend()); }

/* kernels/devices.c knows backends by name. This program compiles it with the tables above in place
 * of the library's. */
#define gy_cpu_backend faults_cpu
#define gy_cuda_backend faults_cuda
#include "kernels/devices.c"
#undef gy_cpu_backend
#undef gy_cuda_backend

#endif
