/* SPDX-License-Identifier: MIT */
/* api_runtime.c: the CUDA runtime's functions. Streams work at once, so a copy or a launch has
 * happened when the call returns. order.c knows in which order it might have happened on a GPU;
 * events decide that. While a stream is being captured, a graph notes launches and copies instead,
 * also those of streams that wait for an event of it. Launching the graph repeats them in that
 * order. */
#include "tests/emu/order.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

struct api_event;
struct api_node {
    int is_copy;
    /* an event that each launch of the graph records; else a copy or a kernel */
    struct api_event *record;
    struct emu_launch launch;
    struct emu_copy copy;
};
struct api_graph {
    struct api_node *node;
    size_t count, room;
    int uses; /* a graph and what was instantiated of it share the nodes */
};
struct api_stream {
    struct emu_stream order;  /* first: a kernel's launch knows no more of a stream */
    struct api_stream *next;
    struct api_graph *capture;
    int origin;
};
struct api_event {
    struct api_event *next;
    struct timespec time;
    struct api_graph *capture;
    int captured; /* recorded inside a capture that has ended: nobody else may wait */
    struct emu_seen seen;
};

static pthread_mutex_t api_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct api_stream *api_streams;
static struct api_stream api_default;
static struct api_event *api_events;
static int api_last, api_broken;

/* NULL is a stream of its own. */
static struct api_stream *api_stream_of(void *stream) { return stream ? stream : &api_default; }
struct emu_stream *emu_stream_of(void *stream) { return &api_stream_of(stream)->order; }

void emu_lock(void) { pthread_mutex_lock(&api_mutex); }
void emu_unlock(void) { pthread_mutex_unlock(&api_mutex); }
int emu_failed(void) { return api_broken; }
void emu_set_failed(int failed) { api_broken = failed; }

int emu_arch(void)
{
    const char *text = getenv("GYRE_EMU_ARCH");
    const int arch = text ? atoi(text) : 0;
    return arch >= 30 && arch < 200 ? arch : 80;
}

/* Remembers an error for cudaGetLastError. */
static int api_note(int error)
{
    if (error != EMU_OK)
        api_last = error;
    return error;
}

/* ---- device ---- */

EMU_API int cudaRuntimeGetVersion(int *version);
EMU_API int cudaDriverGetVersion(int *version);
EMU_API int cudaGetDeviceCount(int *count);
EMU_API int cudaSetDevice(int device);
EMU_API int cudaDeviceReset(void);
EMU_API int cudaDeviceSynchronize(void);
EMU_API int cudaDeviceGetAttribute(int *value, int attribute, int device);
EMU_API int cudaMemGetInfo(size_t *free_bytes, size_t *total);

int cudaRuntimeGetVersion(int *version) { return *version = 12090, EMU_OK; }
int cudaDriverGetVersion(int *version) { return *version = 12090, EMU_OK; }
int cudaGetDeviceCount(int *count)
{
    const char *text = getenv("GYRE_EMU_DEVICES");
    const int devices = text ? atoi(text) : 1;
    return *count = devices > 1 && devices <= 64 ? devices : 1, EMU_OK;
}

/* All are the same one: a process uses one of them. */
int cudaSetDevice(int device)
{
    int count = 0;
    cudaGetDeviceCount(&count);
    return api_note(device >= 0 && device < count ? EMU_OK : EMU_INVALID_DEVICE);
}

int cudaDeviceSynchronize(void)
{
    emu_lock();
    const int error = api_broken ? api_broken : emu_order_host_all();
    api_broken = error;
    emu_unlock();
    return error;
}

int cudaDeviceReset(void)
{
    emu_lock();
    api_broken = api_last = EMU_OK;
    emu_order_forget();
    emu_unlock();
    return EMU_OK;
}

/* Shared memory a block may have, by architecture, in KiB. */
static int api_shared_most(int arch)
{
    static const int table[][2] = {{60, 48}, {70, 96}, {75, 64}, {80, 163}, {86, 99}, {89, 99}, {90, 227}, {100, 227}, {120, 99}};
    int kib = 48;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (arch >= table[i][0])
            kib = table[i][1];
    return kib * 1024;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    const int arch = emu_arch();
    /* 0: there is no time, as a GPU would have it */
    const int clock = getenv("GYRE_EMU_CLOCK") ? 1000000 : 0;
    const int table[][2] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152},
                            {10, 32}, {12, 65536}, {13, clock}, {16, 4}, {36, 1000000}, {37, 256}, {38, 4 << 20},
                            {39, 2048}, {75, arch / 10}, {76, arch % 10}, {81, api_shared_most(arch) + 1024},
                            {97, api_shared_most(arch)}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i][0] == attribute)
            return *value = table[i][1], EMU_OK;
    *value = 0;
    return EMU_OK;
}

int cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    emu_lock();
    const size_t used = emu_memory_used();
    emu_unlock();
    *total = (size_t)16 << 30;
    *free_bytes = used < *total ? *total - used : 0;
    return EMU_OK;
}

/* ---- memory ---- */

EMU_API int cudaMalloc(void **ptr, size_t bytes);
EMU_API int cudaFree(void *ptr);
EMU_API int cudaMallocHost(void **ptr, size_t bytes);
EMU_API int cudaHostAlloc(void **ptr, size_t bytes, unsigned flags);
EMU_API int cudaFreeHost(void *ptr);
EMU_API int cudaHostRegister(void *ptr, size_t bytes, unsigned flags);
EMU_API int cudaHostUnregister(void *ptr);
EMU_API int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream);
EMU_API int cudaMemcpy(void *dst, const void *src, size_t bytes, int kind);
EMU_API int cudaMemsetAsync(void *dst, int value, size_t bytes, void *stream);

static int api_get(void **ptr, size_t bytes, int pinned)
{
    emu_lock();
    const int error = api_broken ? api_broken : emu_memory_get(ptr, bytes, pinned);
    emu_unlock();
    return api_note(error);
}

static int api_put(void *ptr)
{
    emu_lock();
    /* the call waits for the device */
    const int late = emu_order_host_all(), error = emu_memory_put(ptr);
    api_broken = api_broken ? api_broken : late;
    emu_unlock();
    return api_note(error);
}

int cudaMalloc(void **ptr, size_t bytes) { return api_get(ptr, bytes, 0); }
int cudaFree(void *ptr) { return api_put(ptr); }
int cudaMallocHost(void **ptr, size_t bytes) { return api_get(ptr, bytes, 1); }
int cudaHostAlloc(void **ptr, size_t bytes, unsigned flags) { return (void)flags, api_get(ptr, bytes, 1); }
int cudaFreeHost(void *ptr) { return api_put(ptr); }

static int api_register(const void *ptr, size_t bytes, int on)
{
    emu_lock();
    /* the call waits for the device */
    const int late = emu_order_host_all(), error = emu_order_register(ptr, bytes, on);
    api_broken = api_broken ? api_broken : late;
    emu_unlock();
    return api_note(error);
}

int cudaHostRegister(void *ptr, size_t bytes, unsigned flags) { return (void)flags, api_register(ptr, bytes, 1); }
int cudaHostUnregister(void *ptr) { return api_register(ptr, 0, 0); }

/* Whether an address of a copy is what its kind says: live device memory, or memory of the host. */
static int api_right_side(const void *p, size_t bytes, int device)
{
    int inside;
    const struct emu_range *r = emu_memory_find(p, bytes, &inside);
    const int on_device = r && inside && !r->pinned;
    return on_device == device;
}

/* Whether the host's side is memory that the driver has to go through at once. */
static int api_pageable(const void *p, size_t bytes)
{
    int inside;
    const struct emu_range *r = emu_memory_find(p, bytes, &inside);
    return (!r || !inside) && !emu_order_registered(p, bytes);
}

static int api_copy(struct api_stream *s, const struct emu_copy *c)
{
    const int to_device = c->kind != 2, from_device = c->src && c->kind != 1;
    if (c->bytes == 0)
        return EMU_OK;
    if (!api_right_side(c->dst, c->bytes, to_device) || (c->src && !api_right_side(c->src, c->bytes, from_device)))
        return emu_refuse(EMU_INVALID_VALUE, "a copy or fill of %zu bytes from %p to %p: %s", c->bytes, c->src, c->dst,
                          "one of both is not the memory that its kind says, or not all of it is allocated");
    emu_order_issue(&s->order, 0);
    api_broken = emu_order_check(c);
    if (api_broken)
        return api_broken;
    emu_memory_open(1);
    if (c->src)
        memmove(c->dst, c->src, c->bytes);
    else
        memset(c->dst, c->value, c->bytes);
    emu_memory_open(0);
    int error = emu_order_copy(c);
    if (!error && c->kind == 2 && api_pageable(c->dst, c->bytes))
        error = emu_order_host(&s->order.seen);
    return api_broken = error;
}

static int api_copy_on(void *stream, const struct emu_copy *copy)
{
    emu_lock();
    int error = api_broken;
    if (!error && !emu_capture(stream, NULL, copy, &error))
        error = api_copy(api_stream_of(stream), copy);
    emu_unlock();
    return api_note(error);
}

int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream)
{
    const struct emu_copy copy = {dst, src, bytes, kind, 0};
    return kind < 1 || kind > 3 || !src ? api_note(EMU_INVALID_VALUE) : api_copy_on(stream, &copy);
}

int cudaMemcpy(void *dst, const void *src, size_t bytes, int kind) { return cudaMemcpyAsync(dst, src, bytes, kind, NULL); }

int cudaMemsetAsync(void *dst, int value, size_t bytes, void *stream)
{
    const struct emu_copy copy = {dst, NULL, bytes, 3, value};
    return api_copy_on(stream, &copy);
}

/* ---- streams and events ---- */

EMU_API int cudaStreamCreateWithFlags(void **stream, unsigned flags);
EMU_API int cudaStreamDestroy(void *stream);
EMU_API int cudaStreamSynchronize(void *stream);
EMU_API int cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
EMU_API int cudaEventCreateWithFlags(void **event, unsigned flags);
EMU_API int cudaEventDestroy(void *event);
EMU_API int cudaEventRecord(void *event, void *stream);
EMU_API int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags);
EMU_API int cudaEventQuery(void *event);
EMU_API int cudaEventSynchronize(void *event);
EMU_API int cudaEventElapsedTime(float *milliseconds, void *begin, void *end);

int cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
    (void)flags;
    struct api_stream *s = calloc(1, sizeof *s);
    if (!s)
        return api_note(EMU_NO_MEMORY);
    emu_lock();
    emu_order_stream(&s->order);
    s->next = api_streams;
    api_streams = s;
    emu_unlock();
    *stream = s;
    return EMU_OK;
}

int cudaStreamDestroy(void *stream)
{
    emu_lock();
    for (struct api_stream **s = &api_streams; *s; s = &(*s)->next)
        if (*s == stream) {
            *s = (*s)->next;
            emu_order_stream_end(stream);
            free(stream);
            break;
        }
    emu_unlock();
    return EMU_OK;
}

int cudaStreamSynchronize(void *stream)
{
    struct api_stream *s = api_stream_of(stream);
    if (s->capture)
        return api_note(EMU_CAPTURE_WRONG);
    emu_lock();
    if (!api_broken)
        api_broken = emu_order_host(&s->order.seen);
    emu_unlock();
    return api_note(emu_failed());
}

int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)flags;
    const struct api_event *e = event;
    struct api_stream *s = api_stream_of(stream);
    emu_lock();
    int error = api_broken ? api_broken : e->captured || (s->capture && !e->capture) ? EMU_CAPTURE_WRONG : EMU_OK;
    if (e->capture)
        s->capture = e->capture;
    else if (!error)
        emu_order_join(&s->order.seen, &e->seen);
    emu_unlock();
    return api_note(error);
}

int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    (void)flags;
    struct api_event *e = calloc(1, sizeof *e);
    *event = e;
    if (!e)
        return api_note(EMU_NO_MEMORY);
    emu_lock();
    e->next = api_events;
    api_events = e;
    emu_unlock();
    return EMU_OK;
}

int cudaEventDestroy(void *event)
{
    emu_lock();
    for (struct api_event **e = &api_events; *e; e = &(*e)->next)
        if (*e == event) {
            *e = (*e)->next;
            free(event);
            break;
        }
    emu_unlock();
    return EMU_OK;
}

/* external: inside a capture the record becomes part of the graph, for those outside */
static int api_record(struct api_event *e, struct api_stream *s, int external)
{
    int error = EMU_OK;
    if (s->capture && external) {
        const struct emu_copy none = {NULL, NULL, 0, 0, 0};
        emu_capture(s, NULL, &none, &error);
        if (!error)
            s->capture->node[s->capture->count - 1].record = e;
        return error;
    }
    e->capture = s->capture;
    e->captured = 0;
    if (!s->capture)
        e->seen = s->order.seen;
    clock_gettime(CLOCK_MONOTONIC, &e->time);
    return EMU_OK;
}

int cudaEventRecord(void *event, void *stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}

int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
    emu_lock();
    const int error = flags > 1 ? EMU_INVALID_VALUE : api_record(event, api_stream_of(stream), flags == 1);
    emu_unlock();
    return api_note(error ? error : emu_failed());
}

int cudaEventSynchronize(void *event)
{
    const struct api_event *e = event;
    if (e->capture || e->captured)
        return api_note(EMU_CAPTURE_WRONG);
    emu_lock();
    if (!api_broken)
        api_broken = emu_order_host(&e->seen);
    emu_unlock();
    return api_note(emu_failed());
}

int cudaEventQuery(void *event) { return cudaEventSynchronize(event); }

int cudaEventElapsedTime(float *milliseconds, void *begin, void *end)
{
    const struct api_event *b = begin, *e = end;
    *milliseconds = (float)((double)(e->time.tv_sec - b->time.tv_sec) * 1e3 + (double)(e->time.tv_nsec - b->time.tv_nsec) * 1e-6);
    return EMU_OK;
}

/* ---- graphs ---- */

EMU_API int cudaStreamBeginCapture(void *stream, int mode);
EMU_API int cudaStreamEndCapture(void *stream, void **graph);
EMU_API int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags);
EMU_API int cudaGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
EMU_API int cudaGraphLaunch(void *exec, void *stream);
EMU_API int cudaGraphDestroy(void *graph);
EMU_API int cudaGraphExecDestroy(void *exec);

int emu_capture(void *stream, const struct emu_launch *launch, const struct emu_copy *copy, int *status)
{
    struct api_graph *g = api_stream_of(stream)->capture;
    if (!g)
        return 0;
    if (g->count == g->room) {
        const size_t room = g->room ? g->room * 2 : 64;
        struct api_node *node = aligned_alloc(GY_CUDA_MAP_ALIGN, room * sizeof *node);
        if (!node)
            return *status = EMU_NO_MEMORY, 1;
        if (g->count)
            memcpy(node, g->node, g->count * sizeof *node);
        free(g->node);
        g->node = node;
        g->room = room;
    }
    struct api_node *n = &g->node[g->count++];
    memset(n, 0, sizeof *n);
    n->is_copy = copy != NULL;
    if (copy)
        n->copy = *copy;
    else
        n->launch = *launch;
    return *status = EMU_OK, 1;
}

static void api_graph_drop(struct api_graph *g)
{
    if (g && --g->uses == 0) {
        free(g->node);
        free(g);
    }
}

int cudaStreamBeginCapture(void *stream, int mode)
{
    (void)mode;
    struct api_stream *s = api_stream_of(stream);
    struct api_graph *g = calloc(1, sizeof *g);
    if (!g || s->capture) {
        free(g);
        return api_note(s->capture ? EMU_CAPTURE_WRONG : EMU_NO_MEMORY);
    }
    g->uses = 1;
    s->capture = g;
    s->origin = 1;
    return EMU_OK;
}

int cudaStreamEndCapture(void *stream, void **graph)
{
    struct api_stream *s = api_stream_of(stream);
    struct api_graph *g = s->capture;
    if (!g || !s->origin)
        return api_note(EMU_CAPTURE_WRONG);
    emu_lock();
    for (struct api_stream *other = api_streams; other; other = other->next)
        if (other->capture == g)
            other->capture = NULL;
    for (struct api_event *e = api_events; e; e = e->next)
        if (e->capture == g) {
            e->capture = NULL;
            e->captured = 1;
        }
    s->capture = NULL;
    s->origin = 0;
    emu_unlock();
    *graph = g;
    return EMU_OK;
}

int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags)
{
    (void)flags;
    struct api_graph *g = graph;
    emu_lock();
    g->uses++;
    emu_unlock();
    *exec = g;
    return EMU_OK;
}

int cudaGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    return cudaGraphInstantiate(exec, graph, flags);
}

static int api_repeat(struct api_stream *s, const struct api_node *n)
{
    if (n->record)
        return api_record(n->record, s, 0);
    if (n->is_copy)
        return api_copy(s, &n->copy);
    emu_order_issue(&s->order, 1);
    return emu_launch(&n->launch);
}

int cudaGraphLaunch(void *exec, void *stream)
{
    struct api_stream *s = api_stream_of(stream);
    const struct api_graph *g = exec;
    emu_lock();
    for (size_t i = 0; i < g->count && !api_broken; i++)
        api_broken = api_repeat(s, &g->node[i]);
    const int error = api_broken;
    emu_unlock();
    return api_note(error);
}

static int api_drop(void *graph)
{
    emu_lock();
    api_graph_drop(graph);
    emu_unlock();
    return EMU_OK;
}

int cudaGraphDestroy(void *graph) { return api_drop(graph); }
int cudaGraphExecDestroy(void *exec) { return api_drop(exec); }

/* ---- errors ---- */

EMU_API int cudaGetLastError(void);
EMU_API const char *cudaGetErrorString(int error);
EMU_API const char *cudaGetErrorName(int error);

struct api_error {
    int number;
    const char *name, *text;
};
static const struct api_error api_errors[] = {
    {EMU_OK, "cudaSuccess", "no error"},
    {EMU_INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {EMU_NO_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {EMU_NO_DEVICE, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {EMU_INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {EMU_BAD_IMAGE, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {EMU_INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {EMU_NOT_FOUND, "cudaErrorSymbolNotFound", "named symbol not found"},
    {EMU_ILLEGAL_ADDRESS, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {EMU_LAUNCH_FAILED, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {EMU_CAPTURE_WRONG, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
};

static const struct api_error *api_error_of(int error)
{
    for (size_t i = 0; i < sizeof api_errors / sizeof *api_errors; i++)
        if (api_errors[i].number == error)
            return &api_errors[i];
    return NULL;
}

int cudaGetLastError(void)
{
    const int error = api_last;
    api_last = api_broken;
    return error;
}

const char *cudaGetErrorString(int error)
{
    const struct api_error *e = api_error_of(error);
    if ((error == EMU_LAUNCH_FAILED || error == EMU_INVALID_VALUE) && emu_sentence()[0])
        return emu_sentence();
    return e ? e->text : "unrecognized error code";
}

const char *cudaGetErrorName(int error)
{
    const struct api_error *e = api_error_of(error);
    return e ? e->name : "unrecognized error code";
}
