/* SPDX-License-Identifier: MIT */
/* devices.h: opens the backend of a device's name, "cpu" or "cuda:1"; engine and tools call it. */
#ifndef GY_DEVICE_H
#define GY_DEVICE_H
#include "kernels/backend.h"

enum gy_device_kind {
    GY_DEVICE_CPU,
    GY_DEVICE_CUDA,
    GY_DEVICE_EMU,  /* the CUDA backend on the emulator */
    GY_DEVICE_AUTO, /* CUDA where it works, else the CPU */
    GY_DEVICE_ARCH  /* the CUDA backend without a device, for gyre_measure and lists of kernels */
};
struct gy_device {
    int kind, number; /* CUDA: which, from 0; ARCH: 75, 80, 90 ... */
};

/* "cpu", "cuda", "cuda:1", "emu", "auto", "sm_90". 0, or -1 when it is none of them. */
GY_INT int gy_device_parse(const char *text, struct gy_device *out);
/* Opens what a name says and fills device, arch, emulator and cuda_path of config; the rest is the
 * caller's. use_env: knobs may come from the environment. own: GPU where the name has no number. */
GY_INT int gy_device_open_backend(const char *name, struct gy_backend_config *config, int use_env, int own, const struct gy_backend **backend,
                                  void **self, struct gy_error *err);

#endif
