/* SPDX-License-Identifier: MIT */
/* cuda_state.c: what every part of the CUDA backend does. It keeps the first error, chooses the
 * device for the calling thread, and sends what changes per step. */
#include "kernels/cuda/cuda_state.h"
#ifndef GY_NO_CUDA

GY_INT int gy_cuda_check(struct gy_cuda_backend *cuda, gy_cuda_error error, const char *what)
{
    if (error != 0 && cuda->failed == GY_OK) {
        /* the driver's numbers are the runtime's */
        const char *const text = cuda->lib.api.rt_error_text(error);
        gy_log_write(&cuda->log, GY_LOG_ERROR, "%s: %s: %s", cuda->set, what, text ? text : "(no text)");
        cuda->failed = GY_E_DEVICE;
    }
    return cuda->failed;
}

GY_INT int gy_cuda_here(struct gy_cuda_backend *cuda)
{
    if (cuda->offline) /* no library is open */
        return GY_E_NODEVICE;
    return gy_cuda_check(cuda, cuda->lib.api.rt_set_device(cuda->ordinal), "choosing the device");
}

/* Copies leave from a ring of pinned blocks. The first one is used again only after the queue was
 * empty. */
GY_INT int gy_cuda_send_uniform(struct gy_cuda_backend *cuda, const struct gy_uniform *u)
{
    GY_TRY(gy_cuda_here(cuda));
    if (!u || (cuda->sent_any && memcmp(&cuda->sent[cuda->sent_at], u, sizeof *u) == 0))
        return cuda->failed;
    cuda->sent_at = cuda->sent_any ? (cuda->sent_at + 1) % GY_CUDA_UNIFORMS : 0;
    cuda->sent_any = 1;
    if (cuda->sent_at == 0)
        GY_TRY(gy_cuda_check(cuda, cuda->lib.api.rt_stream_synchronize(cuda->stream), "the work so far"));
    cuda->sent[cuda->sent_at] = *u;
    return gy_cuda_check(cuda, cuda->lib.api.rt_memcpy_async(cuda->uniform, &cuda->sent[cuda->sent_at], sizeof *u, GY_CUDA_TO_DEVICE,
                                                             cuda->stream), "a copy");
}

#endif
