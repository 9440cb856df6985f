/* SPDX-License-Identifier: MIT */
/* glm_window.h: rows of a linear model as a device has them. A window is one piece of memory: this
 * record, then arrays at multiples of 16 bytes from its first byte. glm_device_window.c fills it,
 * glm_device_pass.c sends it with one copy, kernels/cuda/glm.cu reads it. */
#ifndef GY_GLM_WINDOW_H
#define GY_GLM_WINDOW_H
#ifndef __CUDACC_RTC__ /* which has these types and no such file */
#include <stdint.h>
#endif

#define GY_GLM_LONG 1024 /* a longer row has a block of threads instead of a warp */

/* A place 0: there is no such array. */
struct gy_glm_window {
    int32_t rows, width;   /* width: entries of every row; 0: start says */
    int32_t longs;         /* long rows */
    float same;            /* value of all entries where there are no values */
    uint32_t features;     /* w[features] is the bias's weight */
    uint32_t unused;
    uint64_t start;        /* uint32_t [rows + 1], from 0 */
    uint64_t id;           /* uint32_t [entries] */
    uint64_t value;        /* float [entries] */
    uint64_t y, c;         /* float [rows]: what losses call y and c */
    uint64_t scale;        /* float [rows] */
    uint64_t long_rows;    /* int32_t [longs] */
};

#endif
