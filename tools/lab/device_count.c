/* SPDX-License-Identifier: MIT */
/* device_count.c: counts the devices of a kind on this machine, as the driver lists them, without a
 * context on any. tools/cmd_ranks.c calls it for --device cuda:all. */
#include "engine/base/knob.h"
#include "engine/base/public.h"
#include "kernels/devices.h"
#ifndef GY_NO_CUDA
#include "kernels/cuda/api.h"
#endif
#include "tools/lab/lab.h"

/* The emulator shows as many as it was told to; that it opens is tried. */
static int count_emulated(int *count, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_log log = { NULL, NULL, GY_LOG_ERROR };
    struct gy_backend_config config = { .alloc = &alloc, .log = &log };
    const struct gy_backend *backend;
    const char *const text = gy_knob_get("GYRE_EMU_DEVICES");
    int64_t devices = 1;
    void *self;
    if (text && gy_text_int(text, 1, 64, &devices) != 0)
        return GY_FAIL(err, GY_E_ARG,
                       "GYRE_EMU_DEVICES is '%.40s'; it must be a number from 1 to 64", text);
    GY_TRY(gy_device_open_backend("emu", &config, 1, 0, &backend, &self, err));
    backend->close(self);
    *count = (int)devices;
    return GY_OK;
}

#ifdef GY_NO_CUDA
static int count_cuda(int *count, struct gy_error *err)
{
    (void)count;
    return GY_FAIL(err, GY_E_NODEVICE, "device 'cuda': this build has no CUDA");
}
#else
static int count_cuda(int *count, struct gy_error *err)
{
    const struct gy_log log = { NULL, NULL, GY_LOG_ERROR };
    struct gy_cuda_library lib = { .runtime = NULL };
    GY_TRY(gy_cuda_load(&lib, gy_knob_get("GYRE_CUDA_PATH"), NULL, &log, err));
    const int status = lib.api.rt_device_count(count) == 0 && *count > 0
                           ? GY_OK : GY_FAIL(err, GY_E_NODEVICE, "the driver lists no GPU");
    gy_cuda_unload(&lib);
    return status;
}
#endif

GYRE_API int gyre_count_devices(const char *kind, int *count, struct gyre_error *error)
{
    GY_TRY(gy_given(kind, "gyre_count_devices: kind", error));
    GY_TRY(gy_given(count, "gyre_count_devices: count", error));
    struct gy_error err = { 0 };
    int status;
    if (strcmp(kind, "cuda") == 0)
        status = count_cuda(count, &err);
    else if (strcmp(kind, "emu") == 0)
        status = count_emulated(count, &err);
    else
        status = GY_FAIL(&err, GY_E_NODEVICE,
                         "device '%.40s:all' is not known; there are cuda:all and emu:all", kind);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
