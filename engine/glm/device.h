/* SPDX-License-Identifier: MIT */
/* device.h: linear models on a device with memory of its own. */
#ifndef GY_GLM_DEVICE_H
#define GY_GLM_DEVICE_H
#include "../base/log.h"
#include "glm.h"

struct gy_glm_device {
    const char *name;          /* "cuda", "cuda:1", "emu"; "auto": CUDA where it works, else the CPU's solver; "cpu" */
    size_t memory;             /* bytes of the device's that may be used; 0: all */
    int use_env;               /* knobs of the environment (GYRE_EMU, GYRE_KERNEL_CACHE ...) may be read */
    const char *kernel_cache;  /* folder; NULL: the usual one */
    const struct gy_log *log;  /* NULL: silent */
};

/* As a solver's solve: stochastic dual coordinate ascent on the device. Data that do not fit into its memory stream through it. GY_E_UNSUPPORTED with
 * a sentence for l1, for a free bias and for several ranks. Not the same bits each time. */
GY_INT int gy_glm_solve_on(struct gy_glm_run *run, const struct gy_glm_device *device, struct gy_error *err);
/* The same with knobs, without a log. */
GY_INT int gy_glm_solve_device(struct gy_glm_run *run, const char *device, size_t memory_cap, struct gy_error *err);

/* ---- windows (glm_window.h) made of rows; device_window.c ---- */

struct gy_glm_pack {
    const struct gy_glm_problem *problem;
    struct gy_pool *pool;      /* of threads that copy, or NULL */
    uint32_t features;
    size_t room;               /* bytes of a window */
    int32_t most_rows;
    int duals;                 /* with an array for dual numbers, not filled */
};
struct gy_glm_packed {
    int32_t rows, longs;
    size_t bytes;
    uint64_t dual;             /* place of the array; 0: none */
};

/* Makes a window of as many of the view's rows, from `from` on, as have room; rows 0: not even one has. at: aligned to 16 bytes. */
GY_INT struct gy_glm_packed gy_glm_pack(const struct gy_glm_pack *how, const struct gy_rows *rows, int32_t from, unsigned char *at);
/* Bytes that a window of all these rows needs at most, whatever their form. */
GY_INT size_t gy_glm_pack_most(int64_t rows, int64_t entries);
/* How alike rows are: the mean of |cosine| over pairs drawn by seed, the bias included; 0 where there are none. */
GY_INT double gy_glm_likeness(const struct gy_glm_problem *problem, const struct gy_rows *rows, uint64_t seed);

#endif
