/* SPDX-License-Identifier: MIT */
/* glm_device.h: linear models on a device with memory of its own. glm_train_solve.c calls it where
 * the configuration names a device other than "cpu". */
#ifndef GY_GLM_DEVICE_H
#define GY_GLM_DEVICE_H
#include "engine/base/log.h"
#include "engine/glm/glm.h"

struct gy_glm_device {
    const char *name;          /* "cuda", "cuda:1", "emu"; "auto": CUDA where it works */
    size_t memory;             /* bytes of the device's that may be used; 0: all */
    /* variables of the environment (GYRE_EMU, GYRE_KERNEL_CACHE ...) may be read */
    int use_env;
    const char *kernel_cache;  /* folder; NULL: the usual one */
    const struct gy_log *log;  /* NULL: silent */
};

/* A solver's solve: stochastic dual coordinate ascent on the device, over this rank's rows. Each
 * rank of a host takes its own GPU. Data that do not fit into its memory stream through it.
 * GY_E_UNSUPPORTED: l2 is 0, or the bias is free. With "auto" GY_E_NODEVICE, too: on all ranks no
 * device can train this, and nothing was begun. Results are not bitwise repeatable. */
GY_INT int gy_glm_solve_on(struct gy_glm_run *run, const struct gy_glm_device *device, struct gy_error *err);

#endif
