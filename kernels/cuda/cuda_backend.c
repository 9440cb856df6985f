/* SPDX-License-Identifier: MIT */
/* cuda_backend.c: the CUDA backend, which devices.c opens. A queue is a stream, on which launches
 * and copies stand in the order of the calls; a mark is an event. What changes per step is a block
 * of the device's memory, sent when it changed. A program is walked once. The second time its
 * launches and marks are captured into a graph, which is launched as one from then on. The first
 * error is logged with its text and sticks. */
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_list.h"
#include "kernels/cuda/cuda_state.h"
#include "kernels/cuda/peak.h"
#include "kernels/cuda/plans.h"
#include "kernels/cuda/timing.h"
#ifndef GY_NO_CUDA

/* ---- opening ---- */

static int cuda_attribute(const struct gy_cuda_backend *cuda, int attribute)
{
    int value = 0;
    return cuda->lib.api.rt_device_attribute(&value, attribute, cuda->ordinal) == 0 ? value : 0;
}

static int cuda_look_at_device(struct gy_cuda_backend *cuda, struct gy_error *err)
{
    struct gy_cuda_device *d = &cuda->device;
    int count = 0;
    cuda->lib.api.rt_device_count(&count);
    if (cuda->ordinal >= count)
        return GY_FAIL(err, GY_E_NODEVICE, "there is no device %d; the driver lists %d", cuda->ordinal, count);
    if (cuda->lib.api.rt_set_device(cuda->ordinal) != 0)
        return GY_FAIL(err, GY_E_NODEVICE, "device %d cannot be used", cuda->ordinal);
    *d = (struct gy_cuda_device){ .arch = 10 * cuda_attribute(cuda, GY_CUDA_MAJOR) + cuda_attribute(cuda, GY_CUDA_MINOR),
                                  .processors = cuda_attribute(cuda, GY_CUDA_PROCESSORS),
                                  .shared_most = cuda_attribute(cuda, GY_CUDA_SHARED_MOST),
                                  .bulk = cuda->lib.api.dr_map_tiled && cuda->lib.api.dr_map_im2col };
    if (cuda->lib.api.dr_device_name(cuda->model, sizeof cuda->model, cuda->ordinal) != 0)
        gy_text_copy(cuda->model, sizeof cuda->model, "GPU");
    if (d->arch < 60)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s is of sm_%d; Gyre's kernels are for sm_60 and later", cuda->model, d->arch);
    snprintf(cuda->set, sizeof cuda->set, "sm_%d", d->arch);
    snprintf(cuda->name, sizeof cuda->name, "%s, %s, %d multiprocessors", cuda->model, cuda->set, d->processors);
    return GY_OK;
}

/* Bytes of shared memory that a block may have (CUDA C Programming Guide, compute capabilities). */
static int cuda_shared_of(int arch)
{
    static const struct { int arch, kib; } rows[] = { { 60, 48 }, { 70, 96 }, { 75, 64 }, { 80, 163 }, { 86, 99 }, { 87, 163 }, { 89, 99 },
                                                      { 90, 227 }, { 110, 227 }, { 120, 99 } };
    int kib = 48;
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        if (arch >= rows[i].arch)
            kib = rows[i].kib;
    return kib * 1024;
}

static void cuda_imagine_device(struct gy_cuda_backend *cuda, int arch)
{
    cuda->offline = 1;
    cuda->device = (struct gy_cuda_device){ .arch = arch, .processors = 100, .shared_most = cuda_shared_of(arch), .bulk = arch >= 90 };
    snprintf(cuda->set, sizeof cuda->set, "sm_%d", arch);
    gy_text_copy(cuda->model, sizeof cuda->model, "no device");
    snprintf(cuda->name, sizeof cuda->name, "no device, %s", cuda->set);
}

/* Kernels of an emulator depend on its library. */
static int cuda_hash_emulator(struct gy_cuda_backend *cuda, const char *path, struct gy_error *err)
{
    unsigned char piece[4096];
    struct gy_file file;
    struct gy_sha256 sha;
    int status = gy_file_open(&file, path, err);
    gy_sha256_open(&sha);
    for (uint64_t at = 0; status == GY_OK && at < file.size; at += sizeof piece) {
        const size_t some = file.size - at < sizeof piece ? (size_t)(file.size - at) : sizeof piece;
        status = gy_file_read_at(&file, at, piece, some, err);
        gy_sha256_add(&sha, piece, status == GY_OK ? some : 0);
    }
    gy_sha256_close(&sha, cuda->compiler.emulator);
    gy_file_close(&file);
    return status;
}

static int cuda_open_stream(struct gy_cuda_backend *cuda, struct gy_error *err)
{
    const struct gy_cuda_api *api = &cuda->lib.api;
    void *ring = NULL;
    gy_cuda_error error = api->rt_free(NULL); /* makes the device's context */
    for (int i = 0; i < GY_QUEUES && error == 0; i++)
        error = api->rt_stream_create(&cuda->queue[i], GY_CUDA_STREAM_NON_BLOCKING);
    cuda->stream = cuda->queue[GY_QUEUE_WORK];
    for (int i = 0; i < GY_MARKS && error == 0; i++)
        error = api->rt_event_create(&cuda->event[i], GY_CUDA_EVENT_NO_TIMING);
    if (error == 0)
        error = api->rt_malloc(&cuda->uniform, sizeof(struct gy_uniform));
    if (error == 0)
        error = api->rt_malloc_host(&ring, GY_CUDA_UNIFORMS * sizeof(struct gy_uniform));
    cuda->sent = ring;
    return error == 0 ? GY_OK : GY_FAIL(err, GY_E_NODEVICE, "%s cannot be used: %s", cuda->name, api->rt_error_text(error));
}

static int cuda_open_compiler(struct gy_cuda_backend *cuda, const struct gy_backend_config *config, struct gy_error *err)
{
    struct gy_cuda_compiler *c = &cuda->compiler;
    c->lib = &cuda->lib;
    c->log = &cuda->log;
    c->threads = config->threads;
    if (config->cuda_path && gy_text_copy(cuda->where, sizeof cuda->where, config->cuda_path) != 0)
        return GY_FAIL(err, GY_E_ARG, "GYRE_CUDA_PATH is longer than %zu bytes", sizeof cuda->where);
    c->where = config->cuda_path ? cuda->where : NULL;
    gy_cuda_cache_folder(config->kernel_cache, c->folder, sizeof c->folder);
    if (config->emulator)
        GY_TRY(cuda_hash_emulator(cuda, config->emulator, err));
    return config->kernel_pack ? gy_cuda_pack_open(&c->pack, config->kernel_pack, err) : GY_OK;
}

static int cuda_open_parts(struct gy_cuda_backend *cuda, const struct gy_backend_config *config, struct gy_error *err)
{
    GY_TRY(cuda_open_compiler(cuda, config, err));
    if (config->arch) {
        cuda_imagine_device(cuda, config->arch);
        return GY_OK;
    }
    GY_TRY(gy_cuda_load(&cuda->lib, cuda->compiler.where, config->emulator, config->log, err));
    GY_TRY(cuda_look_at_device(cuda, err));
    return cuda_open_stream(cuda, err);
}

static void cuda_close_stream(struct gy_cuda_backend *cuda)
{
    const struct gy_cuda_api *api = &cuda->lib.api;
    for (int i = 0; i < GY_BACKEND_PROGRAMS; i++)
        if (cuda->program[i].exec)
            api->rt_exec_destroy(cuda->program[i].exec);
    if (cuda->sent)
        api->rt_free_host(cuda->sent);
    if (cuda->uniform)
        api->rt_free(cuda->uniform);
    for (int i = 0; i < GY_MARKS; i++)
        if (cuda->event[i])
            api->rt_event_destroy(cuda->event[i]);
    for (int i = 0; i < GY_QUEUES; i++)
        if (cuda->queue[i])
            api->rt_stream_destroy(cuda->queue[i]);
}

/* Ends the capture of a program that broke off in the middle. Before that nothing can be waited for
 * or given back. */
static void cuda_drop_capture(struct gy_cuda_backend *cuda)
{
    gy_cuda_graph graph = NULL;
    if (cuda->capturing < 0)
        return;
    cuda->capturing = -1;
    cuda->lib.api.rt_capture_end(cuda->stream, &graph);
    if (graph)
        cuda->lib.api.rt_graph_destroy(graph);
    cuda->lib.api.rt_last_error();
}

/* Until all queues are empty. */
static gy_cuda_error cuda_sync_queues(const struct gy_cuda_backend *cuda)
{
    gy_cuda_error first = 0;
    for (int i = 0; i < GY_QUEUES; i++) {
        const gy_cuda_error error = cuda->queue[i] ? cuda->lib.api.rt_stream_synchronize(cuda->queue[i]) : 0;
        first = first ? first : error;
    }
    return first;
}

static void cuda_close(void *self)
{
    struct gy_cuda_backend *cuda = self;
    if (!cuda)
        return;
    const struct gy_alloc alloc = cuda->alloc;
    if (cuda->lib.runtime)
        cuda->lib.api.rt_set_device(cuda->ordinal);
    cuda_drop_capture(cuda);
    cuda_sync_queues(cuda);
    gy_cuda_plans_close(cuda);
    if (cuda->lib.runtime)
        cuda_close_stream(cuda);
    gy_cuda_pack_close(&cuda->compiler.pack);
    gy_cuda_unload(&cuda->lib);
    gy_arena_close(&cuda->arena);
    gy_alloc_free(&alloc, cuda, sizeof *cuda);
}

static int cuda_open(void **self, const struct gy_backend_config *config, struct gy_error *err)
{
    struct gy_cuda_backend *cuda = gy_alloc_take(config->alloc, 1, sizeof *cuda);
    if (!cuda)
        return GY_NOMEM(err, "the CUDA backend", sizeof *cuda);
    cuda->alloc = *config->alloc;
    if (config->log)
        cuda->log = *config->log;
    cuda->ordinal = config->device;
    cuda->capturing = -1;
    gy_arena_open_hook(&cuda->arena, &cuda->alloc);
    const int status = cuda_open_parts(cuda, config, err);
    if (status != GY_OK) {
        cuda_close(cuda);
        return status;
    }
    *self = cuda;
    return GY_OK;
}

static void cuda_caps(void *self, struct gy_caps *out)
{
    struct gy_cuda_backend *cuda = self;
    const int driver = cuda->lib.driver_version;
    snprintf(cuda->versions, sizeof cuda->versions, "driver for CUDA %d.%d, NVRTC %d.%d", driver / 1000, driver % 1000 / 10,
             cuda->lib.nvrtc_major, cuda->lib.nvrtc_minor);
    *out = (struct gy_caps){ .device = cuda->name, .host_memory = 0, .dtypes = 1u << GY_F32 | 1u << GY_BF16 | 1u << GY_F16,
                             .threads = 1, .machine = cuda->offline ? NULL : cuda->model, .set = cuda->set, .versions = cuda->versions,
                             .processors = cuda->device.processors };
}

/* ---- memory ---- */

static int cuda_remember_pinned(struct gy_cuda_backend *cuda, void *ptr, size_t bytes)
{
    for (int i = 0; i < GY_CUDA_PINNED; i++)
        if (!cuda->pinned[i].ptr) {
            cuda->pinned[i].ptr = ptr;
            cuda->pinned[i].bytes = bytes;
            return 1;
        }
    return 0;
}

static int cuda_is_pinned(const struct gy_cuda_backend *cuda, const void *ptr)
{
    const unsigned char *const at = ptr;
    for (int i = 0; i < GY_CUDA_PINNED; i++)
        if (cuda->pinned[i].ptr && at >= cuda->pinned[i].ptr && at < cuda->pinned[i].ptr + cuda->pinned[i].bytes)
            return 1;
    return 0;
}

static void cuda_forget_pinned(struct gy_cuda_backend *cuda, const void *ptr)
{
    for (int i = 0; i < GY_CUDA_PINNED; i++)
        if (cuda->pinned[i].ptr == ptr)
            cuda->pinned[i].ptr = NULL;
}

static void cuda_pin(void *self, void *ptr, size_t bytes, int on)
{
    struct gy_cuda_backend *cuda = self;
    cuda->lib.api.rt_set_device(cuda->ordinal);
    if (!on) {
        cuda_sync_queues(cuda);
        if (cuda_is_pinned(cuda, ptr))
            cuda->lib.api.rt_host_unregister(ptr);
        cuda_forget_pinned(cuda, ptr);
        return;
    }
    if (cuda->lib.api.rt_host_register(ptr, bytes, 0) != 0)
        cuda->lib.api.rt_last_error(); /* a refusal is no fault */
    else if (!cuda_remember_pinned(cuda, ptr, bytes))
        cuda->lib.api.rt_host_unregister(ptr);
}

static int cuda_get_pinned(struct gy_cuda_backend *cuda, size_t bytes, void **out, struct gy_error *err)
{
    void *ptr = NULL;
    if (cuda->lib.api.rt_malloc_host(&ptr, bytes) != 0 || !ptr)
        return GY_NOMEM(err, "pinned memory of the host", bytes);
    memset(ptr, 0, bytes);
    if (!cuda_remember_pinned(cuda, ptr, bytes)) {
        cuda->lib.api.rt_free_host(ptr);
        return GY_FAIL(err, GY_E_BUG, "more than %d pieces of pinned memory", GY_CUDA_PINNED);
    }
    *out = ptr;
    return GY_OK;
}

static int cuda_mem_get(void *self, size_t bytes, int kind, void **out, struct gy_error *err)
{
    struct gy_cuda_backend *cuda = self;
    size_t free_bytes = 0, total = 0;
    char need[16], have[16];
    void *ptr = NULL;
    if (cuda->offline)
        return GY_FAIL(err, GY_E_NODEVICE, "device '%s' is an architecture, not a device: nothing can run on it", cuda->set);
    GY_TRY(gy_cuda_here(cuda));
    if (kind == GY_MEM_HOST)
        return cuda_get_pinned(cuda, bytes, out, err);
    if (cuda->lib.api.rt_malloc(&ptr, bytes) != 0 || !ptr) {
        cuda->lib.api.rt_last_error(); /* a refusal is no fault */
        cuda->lib.api.rt_mem_info(&free_bytes, &total);
        return GY_FAIL(err, GY_E_NOMEM, "out of memory on %s: %s are needed, %s are free", cuda->name,
                       gy_text_bytes(need, sizeof need, (double)bytes), gy_text_bytes(have, sizeof have, (double)free_bytes));
    }
    if (cuda->lib.api.rt_memset_async(ptr, 0, bytes, cuda->stream) != 0 ||
        cuda->lib.api.rt_stream_synchronize(cuda->stream) != 0) { /* for all queues */
        cuda->lib.api.rt_free(ptr);
        return GY_FAIL(err, GY_E_DEVICE, "%s: its memory cannot be cleared", cuda->name);
    }
    *out = ptr;
    return GY_OK;
}

static void cuda_mem_put(void *self, void *ptr, size_t bytes, int kind)
{
    struct gy_cuda_backend *cuda = self;
    (void)bytes;
    cuda->lib.api.rt_set_device(cuda->ordinal);
    cuda_drop_capture(cuda);
    cuda_sync_queues(cuda);
    if (kind != GY_MEM_HOST) {
        cuda->lib.api.rt_free(ptr);
        return;
    }
    cuda_forget_pinned(cuda, ptr);
    cuda->lib.api.rt_free_host(ptr);
}

/* enum gy_copy_kind to cudaMemcpyKind */
static const int cuda_copy_kind[] = { [GY_COPY_TO_DEVICE] = GY_CUDA_TO_DEVICE, [GY_COPY_TO_HOST] = GY_CUDA_TO_HOST,
                                      [GY_COPY_ON_DEVICE] = GY_CUDA_ON_DEVICE };

static int cuda_copy_on(void *self, int queue, void *dst, const void *src, size_t bytes, int kind)
{
    struct gy_cuda_backend *cuda = self;
    const gy_cuda_stream stream = cuda->queue[queue];
    if (bytes == 0)
        return GY_OK;
    GY_TRY(gy_cuda_here(cuda));
    GY_TRY(gy_cuda_check(cuda, cuda->lib.api.rt_memcpy_async(dst, src, bytes, cuda_copy_kind[kind], stream), "a copy"));
    const void *const host = kind == GY_COPY_TO_HOST ? dst : src;
    if (kind == GY_COPY_ON_DEVICE || cuda_is_pinned(cuda, host))
        return GY_OK;
    return gy_cuda_check(cuda, cuda->lib.api.rt_stream_synchronize(stream), "a copy");
}

static int cuda_copy(void *self, void *dst, const void *src, size_t bytes, int kind)
{
    return cuda_copy_on(self, GY_QUEUE_WORK, dst, src, bytes, kind);
}

/* ---- queues ---- */

/* Inside a capture the record becomes part of the graph, and each launch of it records anew. */
static int cuda_mark(void *self, int queue, unsigned mark)
{
    struct gy_cuda_backend *cuda = self;
    const int inside = cuda->capturing >= 0 && queue == GY_QUEUE_WORK;
    GY_TRY(gy_cuda_here(cuda));
    return gy_cuda_check(cuda, inside ? cuda->lib.api.rt_event_record_flags(cuda->event[mark], cuda->stream, GY_CUDA_EVENT_EXTERNAL)
                                      : cuda->lib.api.rt_event_record(cuda->event[mark], cuda->queue[queue]), "a mark");
}

static int cuda_wait(void *self, int queue, unsigned mark)
{
    struct gy_cuda_backend *cuda = self;
    GY_TRY(gy_cuda_here(cuda));
    return gy_cuda_check(cuda, cuda->lib.api.rt_stream_wait_event(cuda->queue[queue], cuda->event[mark], 0), "a wait");
}

static int cuda_poll(void *self, unsigned mark)
{
    struct gy_cuda_backend *cuda = self;
    GY_TRY(gy_cuda_here(cuda));
    const gy_cuda_error error = cuda->lib.api.rt_event_query(cuda->event[mark]);
    if (error == GY_CUDA_NOT_READY)
        return 0;
    GY_TRY(gy_cuda_check(cuda, error, "the work so far"));
    return 1;
}

static int cuda_reach(void *self, unsigned mark)
{
    struct gy_cuda_backend *cuda = self;
    GY_TRY(gy_cuda_here(cuda));
    return gy_cuda_check(cuda, cuda->lib.api.rt_event_synchronize(cuda->event[mark]), "the work so far");
}

static int cuda_sync(void *self)
{
    struct gy_cuda_backend *cuda = self;
    GY_TRY(gy_cuda_here(cuda));
    return gy_cuda_check(cuda, cuda_sync_queues(cuda), "the work so far");
}

/* ---- programs ---- */

/* From now on programs are walked op by op. */
static int cuda_without_graphs(struct gy_cuda_backend *cuda, gy_cuda_error error)
{
    cuda->lib.api.rt_last_error();
    cuda->no_graphs = 1;
    gy_log_write(&cuda->log, GY_LOG_DEBUG, "%s: no CUDA graphs: %s", cuda->set, cuda->lib.api.rt_error_text(error));
    return 0;
}

static int cuda_begin(void *self, int program, const struct gy_uniform *u)
{
    struct gy_cuda_backend *cuda = self;
    struct gy_cuda_program *p = &cuda->program[program];
    GY_TRY(gy_cuda_send_uniform(cuda, u));
    if (p->exec) {
        GY_TRY(gy_cuda_check(cuda, cuda->lib.api.rt_graph_launch(p->exec, cuda->stream), "a graph"));
        return 1;
    }
    if (p->walked++ == 0 || cuda->no_graphs) /* the first time an error shall name its kernel */
        return 0;
    const gy_cuda_error error = cuda->lib.api.rt_capture_begin(cuda->stream, GY_CUDA_CAPTURE_RELAXED);
    if (error != 0)
        return cuda_without_graphs(cuda, error);
    cuda->capturing = program;
    return 0;
}

static int cuda_end(void *self, int program)
{
    struct gy_cuda_backend *cuda = self;
    struct gy_cuda_program *p = &cuda->program[program];
    gy_cuda_graph graph = NULL;
    if (cuda->capturing != program)
        return cuda->failed;
    cuda->capturing = -1;
    GY_TRY(gy_cuda_check(cuda, cuda->lib.api.rt_capture_end(cuda->stream, &graph), "capturing a program"));
    const gy_cuda_error error = cuda->lib.api.rt_graph_instantiate(&p->exec, graph, 0);
    cuda->lib.api.rt_graph_destroy(graph);
    GY_TRY(gy_cuda_check(cuda, error, "making a graph"));
    return gy_cuda_check(cuda, cuda->lib.api.rt_graph_launch(p->exec, cuda->stream), "a graph");
}

/* ---- the rest ---- */

static const struct gy_block_info *cuda_block(int place)
{
    (void)place;
    return NULL;
}

static int cuda_block_tries(void *self, const struct gy_op *op, int place, int any_order, int32_t values[GY_BLOCK_TRIES])
{
    (void)self;
    (void)op;
    (void)place;
    (void)any_order;
    (void)values;
    return 0;
}

/* Plans of launches lie in the backend's own memory. */
static int cuda_prepare(void *self, struct gy_op *op, struct gy_arena *arena, struct gy_error *err)
{
    (void)arena;
    return gy_cuda_prepare(self, op, err);
}

GY_INT const struct gy_backend *gy_cuda_backend(void)
{
    static const struct gy_backend_lab lab = {
        .ceilings = gy_cuda_ceilings, .block = cuda_block, .block_tries = cuda_block_tries, .variant = gy_cuda_list_variant,
        .kernel_hash = gy_cuda_kernel_hash, .time = gy_cuda_time };
    static const struct gy_backend backend = {
        .open = cuda_open, .close = cuda_close, .caps = cuda_caps, .mem_get = cuda_mem_get, .mem_put = cuda_mem_put, .pin = cuda_pin,
        .prepare = cuda_prepare, .ready = gy_cuda_ready, .run = gy_cuda_run, .begin = cuda_begin, .end = cuda_end, .copy = cuda_copy,
        .copy_on = cuda_copy_on, .mark = cuda_mark, .wait = cuda_wait, .poll = cuda_poll, .reach = cuda_reach, .sync = cuda_sync,
        .lab = &lab };
    return &backend;
}

#endif
