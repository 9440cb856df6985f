/* SPDX-License-Identifier: MIT */
/* loader.h: makes batches ahead of the step. Threads read, augment and write samples into a ring of
 * batch slots; the step takes the slots in order. Batch number k holds the same samples with the
 * same augmentation in every run with the same seed, whatever the number of threads. Sample order
 * and every draw are counted (gy_rng), so a run resumes anywhere. */
#ifndef GY_LOADER_H
#define GY_LOADER_H
#include "io/images/batch.h"
#include "io/images/data.h"

struct gy_loader_config {
    const struct gy_alloc *alloc;
    const struct gy_log *log;
    int32_t batch, h, w, c;          /* of a batch; gray is repeated to 3 channels, colour to 1 by its luma */
    int training; /* 1: shuffled epochs without end, whole batches only; 0: in order, once, last batch short */
    struct gy_augment augment;
    uint64_t seed;
    int64_t first_batch;             /* start here: resuming */
    int threads, depth;              /* loader threads (at least 1); slots in the ring (at least 2) */
    int32_t part, parts;             /* training: every step's samples are dealt to so many loaders, of which this is one; 0, 1 or 0: alone */
    int32_t groups;                  /* of a batch, equal parts of it: samples are mixed within their group; 0 or 1: one */
    int moves;                       /* training: padded crops and flips are told in mix, not made, where no colour jitter follows */
};

struct gy_batch {
    int64_t number;                  /* batch number in the run */
    int32_t count;                   /* samples that are there; the rest of the slot is zero with label -1 */
    const uint8_t *pixels;           /* [batch][h][w][c]; NULL for a float set */
    const int32_t *labels;           /* [batch] */
    const struct gy_batch_mix *mix;  /* [batch], or NULL when there is nothing to mix or to move */
    const int64_t *samples;          /* [batch] index in the data set, of what stands there; -1 behind count */
    const float *values;             /* [batch][h][w][c] of a float set, else NULL */
};

/* A float set is not resized: its images must be h x w x c, and of the augmentations it takes pad, flip, mixup and cutmix
 * alone. */
struct gy_loader;
GY_INT int gy_loader_open(struct gy_loader **out, struct gy_data *data, const struct gy_loader_config *config,
                          struct gy_error *err);
/* The next batch, valid until the call after; GY_OK with count 0 after the last (evaluation). An unreadable sample is
 * counted and named in the log; in training the next readable one by index stands in for it, in evaluation its pixels
 * are zero and its label -1. More than the data set's max_bad of them end it with GY_E_IMAGE and the file's name. One
 * thread calls this. */
GY_INT int gy_loader_next(struct gy_loader *loader, struct gy_batch *batch, struct gy_error *err);
/* Calls of next that had to wait, and how long in all. The first call does not count: nothing can be ready then. */
GY_INT int64_t gy_loader_waits(const struct gy_loader *loader, int64_t *ns);
GY_INT int64_t gy_loader_batches_per_epoch(const struct gy_loader *loader);
GY_INT void gy_loader_close(struct gy_loader *loader);                /* NULL is fine */

/* What batch number `number` consists of, without reading any pixel: sample indexes into samples[batch]; -1 behind the
 * last (evaluation). Samples that turn out unreadable are not looked through. */
GY_INT void gy_loader_order(const struct gy_loader *loader, int64_t number, int64_t *samples);

#endif
