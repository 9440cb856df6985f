/* SPDX-License-Identifier: MIT */
/* kernel_notes.c: notes a GPU's kernels in a checkpoint. That is: hashes of texts and code, the
 * rows of a tuning file that chose them, and the settings on which their macros depend. */
#ifndef GY_NO_CUDA
#include "kernels/cuda/cuda_list.h"
#endif
#include "kernels/devices.h"
#include "engine/run/kernel_notes.h"
#include <float.h>

/* What the macros of kernels depend on, as one line of a checkpoint's note, and back. */
static const struct notes_item {
    size_t at;
    int real; /* a float; else an int */
} notes_items[] = {
#define NOTES_INT(member) { offsetof(struct gyre_config, member), 0 }
#define NOTES_REAL(member) { offsetof(struct gyre_config, member), 1 }
    NOTES_INT(mode), NOTES_INT(batch), NOTES_INT(recompute), NOTES_INT(dtype), NOTES_INT(input), NOTES_REAL(mean[0]), NOTES_REAL(mean[1]),
    NOTES_REAL(mean[2]), NOTES_REAL(mean[3]), NOTES_REAL(std[0]), NOTES_REAL(std[1]), NOTES_REAL(std[2]), NOTES_REAL(std[3]),
    NOTES_INT(optimizer.kind), NOTES_REAL(optimizer.momentum), NOTES_INT(optimizer.nesterov), NOTES_REAL(optimizer.weight_decay),
    NOTES_INT(optimizer.decay_all), NOTES_REAL(optimizer.beta1), NOTES_REAL(optimizer.beta2), NOTES_REAL(optimizer.eps),
    NOTES_REAL(optimizer.lars_eta), NOTES_REAL(optimizer.clip_norm), NOTES_REAL(optimizer.ema),
};
#define NOTES_ITEMS ((int)GY_COUNT(notes_items))

static void notes_text(const struct gyre_config *c, char *text, size_t room)
{
    size_t used = 0;
    for (int i = 0; i < NOTES_ITEMS && used < room; i++) {
        const unsigned char *at = (const unsigned char *)c + notes_items[i].at;
        const double value = notes_items[i].real ? (double)*(const float *)(const void *)at : (double)*(const int *)(const void *)at;
        used += (size_t)gy_max64(0, gy_text_print(text + used, room - used, "%s%.9g", i ? " " : "", value));
    }
}

GY_INT int gy_kernel_notes_config(const char *text, struct gyre_config *c)
{
    double value[GY_COUNT(notes_items)];
    if (gy_text_reals(text, value, NOTES_ITEMS) != NOTES_ITEMS)
        return 0;
    for (int i = 0; i < NOTES_ITEMS; i++) {
        unsigned char *at = (unsigned char *)c + notes_items[i].at;
        if (fabs(value[i]) > (notes_items[i].real ? (double)FLT_MAX : 1e9))
            return 0;
        if (notes_items[i].real)
            *(float *)(void *)at = (float)value[i];
        else
            *(int *)(void *)at = (int)value[i];
    }
    return 1;
}

#ifdef GY_NO_CUDA
static void notes_hash(void *self, char texts[65], char code[65], int *count)
{
    (void)self;
    texts[0] = code[0] = 0;
    *count = 0;
}
#else
static void notes_hash(void *self, char texts[65], char code[65], int *count) { gy_cuda_list_hash(self, texts, code, count); }
#endif

GY_INT int gy_engine_note_kernels(struct gyre_net *net)
{
    char texts[65], code[65], line[512];
    struct gy_device device;
    int count;
    if (net->caps.host_memory)
        return GY_OK;
    notes_hash(net->backend_self, texts, code, &count);
    const int emulated = gy_device_parse(net->config.device, &device) == 0 && device.kind == GY_DEVICE_EMU;
    snprintf(line, sizeof line, "%s %d %s %s", emulated ? "emu" : net->caps.set, count, texts, code);
    GY_TRY(gyre_note(net, "kernels", line));
    if (net->tuned_rows && gyre_note(net, "kernels.tune", net->tuned_rows) != GYRE_OK)
        gy_log_write(&net->log, GY_LOG_WARN, "the rows of %s are too many for a checkpoint's notes: 'gyre audit' will not know them",
                     net->config.tune);
    notes_text(&net->config, line, sizeof line);
    return gyre_note(net, "kernels.config", line);
}
