/* SPDX-License-Identifier: MIT */
/* timing.c: times an op on the device. Its launches, repeated, are captured into a graph, so that
 * the host does not delay short kernels. The graph runs once to warm up and once between two
 * events. */
#include "kernels/cuda/timing.h"
#include "kernels/cuda/cuda_state.h"
#include "kernels/cuda/plans.h"
#ifndef GY_NO_CUDA

struct timing {
    struct gy_cuda_backend *cuda;
    gy_cuda_event event[2];
    gy_cuda_graph graph;
    gy_cuda_exec exec;
};

/* Launches while the stream is captured; the capture is ended whatever happens. */
static int timing_capture(struct timing *t, const struct gy_op *op, int repeats)
{
    struct gy_cuda_backend *cuda = t->cuda;
    const struct gy_cuda_api *api = &cuda->lib.api;
    GY_TRY(gy_cuda_check(cuda, api->rt_capture_begin(cuda->stream, GY_CUDA_CAPTURE_RELAXED), "capturing an op"));
    cuda->capturing = GY_BACKEND_PROGRAMS; /* no program's: nothing is sent meanwhile */
    int status = GY_OK;
    for (int i = 0; i < repeats && status == GY_OK; i++)
        status = gy_cuda_run(cuda, op);
    cuda->capturing = -1;
    const gy_cuda_error error = api->rt_capture_end(cuda->stream, &t->graph);
    GY_TRY(status);
    GY_TRY(gy_cuda_check(cuda, error, "capturing an op"));
    return gy_cuda_check(cuda, api->rt_graph_instantiate(&t->exec, t->graph, 0), "making a graph");
}

static int timing_measure(struct timing *t, double *milliseconds)
{
    struct gy_cuda_backend *cuda = t->cuda;
    const struct gy_cuda_api *api = &cuda->lib.api;
    float ms = 0;
    for (int i = 0; i < 2; i++)
        GY_TRY(gy_cuda_check(cuda, api->rt_event_create(&t->event[i], 0), "an event"));
    GY_TRY(gy_cuda_check(cuda, api->rt_graph_launch(t->exec, cuda->stream), "a graph"));
    GY_TRY(gy_cuda_check(cuda, api->rt_event_record(t->event[0], cuda->stream), "an event"));
    GY_TRY(gy_cuda_check(cuda, api->rt_graph_launch(t->exec, cuda->stream), "a graph"));
    GY_TRY(gy_cuda_check(cuda, api->rt_event_record(t->event[1], cuda->stream), "an event"));
    GY_TRY(gy_cuda_check(cuda, api->rt_stream_synchronize(cuda->stream), "the work so far"));
    GY_TRY(gy_cuda_check(cuda, api->rt_event_elapsed(&ms, t->event[0], t->event[1]), "an event"));
    *milliseconds = (double)ms;
    return GY_OK;
}

/* The emulator has a clock only where it was given one. */
static int timing_has_clock(const struct gy_cuda_backend *cuda)
{
    int khz = 0;
    return !cuda->lib.emulated || (cuda->lib.api.rt_device_attribute(&khz, GY_CUDA_CLOCK_RATE, cuda->ordinal) == 0 && khz > 0);
}

GY_INT int gy_cuda_time(void *self, const struct gy_op *op, int repeats, double *seconds, struct gy_error *err)
{
    struct timing t = { .cuda = self };
    const struct gy_cuda_api *api = &t.cuda->lib.api;
    double ms = 0;
    if (t.cuda->offline || !timing_has_clock(t.cuda))
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s: no time on %s", t.cuda->name, t.cuda->offline ? "an architecture" : "the emulator");
    int status = gy_cuda_send_uniform(t.cuda, op->u);
    if (status == GY_OK)
        status = timing_capture(&t, op, repeats);
    if (status == GY_OK)
        status = timing_measure(&t, &ms);
    for (int i = 0; i < 2; i++)
        if (t.event[i])
            api->rt_event_destroy(t.event[i]);
    if (t.exec)
        api->rt_exec_destroy(t.exec);
    if (t.graph)
        api->rt_graph_destroy(t.graph);
    if (status != GY_OK)
        return GY_FAIL(err, GY_E_DEVICE, "%s failed while %s of layer %s was timed; the log says how", t.cuda->name,
                       op->variant ? op->variant : "a kernel", op->name ? op->name : "");
    *seconds = fmax(ms, 1e-6) * 1e-3 / repeats;
    return GY_OK;
}

#endif
