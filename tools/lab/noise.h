/* SPDX-License-Identifier: MIT */
/* noise.h: makes a full batch of noise for a net, with all labels in turn, for measurements without
 * data: why.c and roofline_bench.c. Zeros would not do: products of zeros take less power, and run
 * faster. */
#ifndef GY_LAB_NOISE_H
#define GY_LAB_NOISE_H
#include "engine/run/engine.h"

struct gy_noise {
    void *samples;
    int32_t *labels;
    struct gyre_batch batch; /* of the two above */
};

/* noise starts as zeros. Allocates; gy_noise_free also after a failure. */
int gy_noise_make(struct gyre_net *net, struct gy_noise *noise);
void gy_noise_free(struct gyre_net *net, struct gy_noise *noise);

#endif
