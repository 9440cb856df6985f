/* SPDX-License-Identifier: MIT */
/* loader.h: makes batches ahead of the step; engine/train/net_data.c opens it. Threads read,
 * augment and write samples into a ring of batch slots; the step takes the slots in order. Batch
 * number k holds the same samples with the same augmentation in every run with the same seed,
 * whatever the number of threads. Sample order and every draw are counted (gy_rng), so a run
 * resumes anywhere. */
#ifndef GY_LOADER_H
#define GY_LOADER_H
#include "io/images/batch.h"
#include "io/images/data.h"

struct gy_loader_config {
    const struct gy_alloc *alloc;
    const struct gy_log *log;
    /* of a batch; gray is repeated to 3 channels, colour becomes 1 channel by its luma */
    int32_t batch, h, w, c;
    /* 1: shuffled epochs without end, whole batches only; 0: in order, once, the last batch
     * short */
    int training;
    struct gy_augment augment;
    uint64_t seed;
    int64_t first_batch;             /* start here: resuming */
    /* loader threads (at least 1); slots in the ring (at least 2) */
    int threads, depth;
    /* Training: the samples of each step are dealt to `parts` loaders; this is number `part`. parts
     * 0 or 1: alone. */
    int32_t part, parts;
    /* equal parts of a batch; samples are mixed within their group; 0 or 1: one */
    int32_t groups;
    /* training: padded crops and flips are recorded in mix instead of made, where no colour jitter
     * follows */
    int moves;
};

struct gy_batch {
    int64_t number;                  /* batch number in the run */
    /* samples that are there; the rest of the slot is zero with label -1 */
    int32_t count;
    const uint8_t *pixels;           /* [batch][h][w][c]; NULL for a float set */
    const int32_t *labels;           /* [batch] */
    const struct gy_batch_mix *mix;  /* [batch], or NULL when there is nothing to mix or to move */
    /* [batch], each sample's index in the data set; -1 from count on */
    const int64_t *samples;
    const float *values;             /* [batch][h][w][c] of a float set, else NULL */
};

/* A float set is not resized: its images must be h x w x c. It takes only pad, flip, mixup and
 * cutmix of the augmentations. */
struct gy_loader;
GY_INT int gy_loader_open(struct gy_loader **out, struct gy_data *data, const struct gy_loader_config *config,
                          struct gy_error *err);
/* Gets the next batch, valid until the next call. In evaluation GY_OK with count 0 follows the last
 * batch. An unreadable sample is counted and named in the log. In training the next readable sample
 * by index replaces it; in evaluation its pixels are zero and its label is -1. More than the data
 * set's max_bad of them end in GY_E_IMAGE with the file's name. Only one thread calls this. */
GY_INT int gy_loader_next(struct gy_loader *loader, struct gy_batch *batch, struct gy_error *err);
/* The number of calls of next that had to wait, and how long in all. The first call does not count:
 * nothing can be ready then. */
GY_INT int64_t gy_loader_waits(const struct gy_loader *loader, int64_t *ns);
GY_INT int64_t gy_loader_batches_per_epoch(const struct gy_loader *loader);
GY_INT void gy_loader_close(struct gy_loader *loader);                /* NULL is fine */

/* Writes the indexes of the samples of batch `number` to samples[batch], without reading any pixel;
 * -1 behind the last (evaluation). Samples that turn out unreadable are not replaced here. Tests
 * call it. */
GY_INT void gy_loader_order(const struct gy_loader *loader, int64_t number, int64_t *samples);

#endif
