/* SPDX-License-Identifier: MIT */
/* noise.c: noise from one linear congruential generator: the same batch for the same net. */
#include "tools/lab/noise.h"

int gy_noise_make(struct gyre_net *net, struct gy_noise *noise)
{
    const struct gy_tensor *x = &net->plan.tensors[net->plan.input];
    const struct gy_alloc *alloc = gy_engine_scratch(net);
    const size_t batch = (size_t)net->config.batch;
    noise->samples = gy_alloc_take(alloc, x->bytes, 1);
    noise->labels = gy_alloc_take(alloc, batch, sizeof *noise->labels);
    if (!noise->samples || !noise->labels)
        return GY_NOMEM(&net->error, "a batch of noise", x->bytes);
    uint32_t random = 1;
    for (int64_t i = 0; i < x->count; i++) {
        random = random * 1664525u + 1013904223u;
        if (net->config.input == GYRE_INPUT_U8)
            ((uint8_t *)noise->samples)[i] = (uint8_t)(random >> 24);
        else
            ((float *)noise->samples)[i] = (float)(random >> 8) / 8388608.0f - 1.0f;
    }
    for (size_t i = 0; i < batch; i++)
        noise->labels[i] = (int32_t)(i % (size_t)net->graph.classes);
    noise->batch = (struct gyre_batch){
        .x = noise->samples, .label = noise->labels, .count = (int32_t)batch };
    return GY_OK;
}

void gy_noise_free(struct gyre_net *net, struct gy_noise *noise)
{
    const struct gy_alloc *alloc = gy_engine_scratch(net);
    if (noise->samples)
        gy_alloc_free(alloc, noise->samples, net->plan.tensors[net->plan.input].bytes);
    if (noise->labels)
        gy_alloc_free(alloc, noise->labels, (size_t)net->config.batch * sizeof *noise->labels);
    memset(noise, 0, sizeof *noise);
}
