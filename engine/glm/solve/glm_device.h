/* SPDX-License-Identifier: MIT */
/* glm_device.h: linear models on a device with memory of its own. */
#ifndef GY_GLM_DEVICE_H
#define GY_GLM_DEVICE_H
#include "engine/base/log.h"
#include "engine/glm/glm.h"

struct gy_glm_device {
    const char *name;          /* "cuda", "cuda:1", "emu"; "auto": CUDA where it works, else the CPU's solver; "cpu" */
    size_t memory;             /* bytes of the device's that may be used; 0: all */
    int use_env;               /* knobs of the environment (GYRE_EMU, GYRE_KERNEL_CACHE ...) may be read */
    const char *kernel_cache;  /* folder; NULL: the usual one */
    const struct gy_log *log;  /* NULL: silent */
};

/* As a solver's solve: stochastic dual coordinate ascent on the device, of this rank's rows; each rank of a host takes a GPU of its own. Data that do not
 * fit into its memory stream through it. GY_E_UNSUPPORTED with a sentence without an l2 and for a free bias. Not the same bits each time. */
GY_INT int gy_glm_solve_on(struct gy_glm_run *run, const struct gy_glm_device *device, struct gy_error *err);

#endif
