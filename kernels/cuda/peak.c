/* SPDX-License-Identifier: MIT */
/* peak.c: measures the device's limits with the kernels of ceiling.cu between two events; the best
 * of a few tries counts. On sm_90 products of warp groups measure the matrix units' peak. Elsewhere
 * it is what NVIDIA states a multiprocessor does in a clock, at the clock that the multiply-adds
 * ran at. */
#include "kernels/cuda/peak.h"
#include "kernels/cuda/cuda_state.h"
#ifndef GY_NO_CUDA

#define PEAK_BYTES ((size_t)512 << 20) /* a buffer far beyond every cache */
#define PEAK_TURNS 20                  /* inside the cache */
#define PEAK_MULTIPLIES 2000           /* of 64 multiply-adds a thread */
#define PEAK_TRIES 5
#define PEAK_THREADS 256
#define PEAK_BLOCKS 16                 /* a multiprocessor */
#define PEAK_PRODUCTS 1500             /* of 64 x 256 x 64, a group: about 15 ms */
#define PEAK_TILES (48 << 10)          /* bytes of shared memory for them */

/* Operations of a multiprocessor in a clock: float and, where there is one, bf16 matrix unit (CUDA
 * C Programming Guide; white papers). */
struct peak_row {
    int arch, f32, bf16;
};
static const struct peak_row peak_rows[] = { { 60, 128, 0 }, { 61, 256, 0 }, { 70, 128, 0 }, { 80, 128, 2048 }, { 86, 256, 512 },
                                             { 87, 256, 1024 }, { 89, 256, 512 }, { 90, 256, 4096 }, { 100, 256, 8192 },
                                             { 120, 256, 512 } };

static struct peak_row peak_row_of(int arch)
{
    struct peak_row row = peak_rows[0];
    for (size_t i = 0; i < GY_COUNT(peak_rows); i++)
        if (arch >= peak_rows[i].arch)
            row = peak_rows[i];
    return row;
}

struct peak_job {
    struct gy_cuda_backend *cuda;
    struct gy_args args;
    gy_cuda_event begin, end;
    void *memory[2];
    size_t bytes;
};

/* Seconds of one launch, the fastest of some; < 0 when it fails. */
static double peak_time(struct peak_job *job, gy_cuda_function function, unsigned shared)
{
    const struct gy_cuda_api *api = &job->cuda->lib.api;
    const unsigned blocks = (unsigned)job->cuda->device.processors * PEAK_BLOCKS;
    double best = -1;
    for (int i = 0; i < PEAK_TRIES; i++) {
        void *parameters[] = { &job->args };
        float ms = 0;
        if (api->rt_event_record(job->begin, job->cuda->stream) != 0 ||
            api->dr_launch_kernel(function, blocks, 1, 1, PEAK_THREADS, 1, 1, shared,
                                  job->cuda->stream, parameters, NULL) != 0 ||
            api->rt_event_record(job->end, job->cuda->stream) != 0 || api->rt_stream_synchronize(job->cuda->stream) != 0 ||
            api->rt_event_elapsed(&ms, job->begin, job->end) != 0 || !(ms > 0))
            return -1;
        if (best < 0 || (double)ms * 1e-3 < best)
            best = (double)ms * 1e-3;
    }
    return best;
}

/* Compiles ceiling.cu for these sizes and times the entry; seconds, or < 0. */
static double peak_run(struct peak_job *job, const char *entry, size_t bytes, int turns,
                       unsigned shared)
{
    struct gy_cuda_backend *cuda = job->cuda;
    const struct gy_cuda_api *api = &cuda->lib.api;
    char options[512];
    int used = 0;
    used += snprintf(options, sizeof options,
                     "-DGY_ARCH=%d%c-DGY_THREADS=%d%c-DGY_SHARED_BYTES=%d%c-DGY_DTYPE=0%c"
                     "-DGY_ACT=0%c-DGY_FLAGS=0%c-DGY_ITEMS=%zu%c-DGY_TURNS=%d%c-DGY_MULTIPLIES=%d",
                     cuda->device.arch, 0, PEAK_THREADS, 0, PEAK_TILES, 0, 0, 0, 0, bytes / 16, 0,
                     turns, 0, PEAK_MULTIPLIES);
    struct gy_cuda_unit unit = { .file = "ceiling.cu", .options = options, .option_bytes = (size_t)used + 1, .option_count = 9,
                                 .arch = cuda->device.arch };
    struct gy_cuda_unit *list[] = { &unit };
    struct gy_error err = { 0 };
    gy_cuda_module module = NULL;
    gy_cuda_function function = NULL;
    double seconds = -1;
    if (gy_cuda_compile(&cuda->compiler, list, 1, &err) != GY_OK)
        gy_log_write(&cuda->log, GY_LOG_WARN, "%s", err.text);
    else if (api->dr_module_load(&module, unit.image.bytes, 0, NULL, NULL) == 0 && api->dr_module_function(&function, module, entry) == 0)
        seconds = peak_time(job, function, shared);
    if (module)
        api->dr_module_unload(module);
    gy_cuda_image_free(&unit.image);
    return seconds;
}

/* GFLOP/s of warp groups' products, or 0 where there are none. */
static double peak_matrix(struct peak_job *job)
{
    const struct gy_cuda_device *d = &job->cuda->device;
    if (d->arch < 90 || d->arch >= 100)
        return 0;
    const double seconds = peak_run(job, "ceiling_matrix", 16, PEAK_PRODUCTS, PEAK_TILES);
    const double groups = (double)d->processors * PEAK_BLOCKS * (PEAK_THREADS / 128.0);
    return seconds > 0 ? groups * PEAK_PRODUCTS * 64 * 256 * 64 * 2 / seconds * 1e-9 : 0;
}

static int peak_measure(struct peak_job *job, struct gy_ceilings *out)
{
    const struct gy_cuda_device *d = &job->cuda->device;
    const struct peak_row row = peak_row_of(d->arch);
    int l2 = 0;
    job->cuda->lib.api.rt_device_attribute(&l2, GY_CUDA_L2_BYTES, job->cuda->ordinal);
    const size_t inside = gy_align_up((size_t)(l2 > 1 << 20 ? l2 : 1 << 20) / 4, 4096), all = job->bytes;
    const double threads = (double)d->processors * PEAK_BLOCKS * PEAK_THREADS;
    const double copy = peak_run(job, "ceiling_copy", all, 1, 0);
    const double read = peak_run(job, "ceiling_read", all, 1, 0);
    const double near_copy = peak_run(job, "ceiling_copy", inside, PEAK_TURNS, 0);
    const double near_read = peak_run(job, "ceiling_read", inside, PEAK_TURNS, 0);
    const double multiply = peak_run(job, "ceiling_multiply", 16, 1, 0);
    if (copy <= 0 || read <= 0 || near_copy <= 0 || near_read <= 0 || multiply <= 0)
        return GY_E_DEVICE;
    out->f32 = threads * PEAK_MULTIPLIES * 64 * 2 / multiply * 1e-9;
    out->bf16 = peak_matrix(job);
    if (out->bf16 <= 0)
        out->bf16 = row.bf16 ? out->f32 * row.bf16 / row.f32 : out->f32;
    out->copy = 2 * (double)all / copy * 1e-9;
    out->read = (double)all / read * 1e-9;
    out->cache_copy = 2 * (double)inside * PEAK_TURNS / near_copy * 1e-9;
    out->cache_read = (double)inside * PEAK_TURNS / near_read * 1e-9;
    out->cache_bytes = l2;
    return GY_OK;
}

static int peak_take(struct peak_job *job)
{
    const struct gy_cuda_api *api = &job->cuda->lib.api;
    if (api->rt_event_create(&job->begin, 0) != 0 || api->rt_event_create(&job->end, 0) != 0)
        return GY_E_DEVICE;
    /* beside a net there may be little room */
    for (job->bytes = PEAK_BYTES; job->bytes >= (size_t)64 << 20; job->bytes /= 2) {
        if (api->rt_malloc(&job->memory[0], job->bytes) == 0 && api->rt_malloc(&job->memory[1], job->bytes) == 0)
            break;
        api->rt_last_error();
        if (job->memory[0])
            api->rt_free(job->memory[0]);
        job->memory[0] = job->memory[1] = NULL;
    }
    if (!job->memory[1])
        return GY_E_NOMEM;
    job->args.ptr[GY_X] = job->memory[0];
    job->args.ptr[GY_Y] = job->memory[1];
    return api->rt_memset_async(job->memory[0], 0, job->bytes, job->cuda->stream) == 0 ? GY_OK : GY_E_DEVICE;
}

GY_INT int gy_cuda_ceilings(void *self, struct gy_ceilings *out)
{
    struct peak_job job = { .cuda = self };
    const struct gy_cuda_api *api = &job.cuda->lib.api;
    if (job.cuda->offline || job.cuda->lib.emulated) /* the emulator's times mean nothing */
        return GY_E_UNSUPPORTED;
    GY_TRY(gy_cuda_check(job.cuda, api->rt_set_device(job.cuda->ordinal), "choosing the device"));
    int status = peak_take(&job);
    if (status == GY_OK)
        status = peak_measure(&job, out);
    for (int i = 0; i < 2; i++)
        if (job.memory[i])
            api->rt_free(job.memory[i]);
    if (job.begin)
        api->rt_event_destroy(job.begin);
    if (job.end)
        api->rt_event_destroy(job.end);
    return status;
}

#endif
