/* SPDX-License-Identifier: MIT */
/* train_notes.h: the state of a run of the training loop, which the files train_*.c and net_train.c
 * share, and the notes of its checkpoints. */
#ifndef GY_TRAIN_NOTES_H
#define GY_TRAIN_NOTES_H
#include "engine/base/file_lock.h"
#include "engine/run/engine.h"
#include "engine/train/train_files.h"
#include "engine/train/train_served.h"

struct train_sums {
    double loss;
    int64_t labelled, right;
};

/* What all ranks that train have alike between two steps. */
struct train_state {
    int64_t done;                   /* batches */
    int64_t concluded;              /* batches done when a row or an epoch was concluded last */
    struct train_sums epoch, row;   /* since the epoch's begin, since the last row */
    struct train_sums last_epoch, last_row; /* what they were before that */
    int64_t halt;
};

struct train_run {
    struct gyre_net *net;
    struct gyre_train_config config, given; /* given: before a follower removed what is rank 0's */
    struct gyre_shape shape;
    struct gyre_data_info info;
    struct gyre_loader *loader;
    struct gy_run_files files;
    struct gy_lock lock;                    /* of the folder */
    struct gy_train_served served;
    int64_t per_epoch, total, done;         /* batches */
    /* done, before the last step: of workers that do not go in step it can be any number less */
    int64_t before;
    int lends;                      /* this rank's part of the net goes into rank 0's checkpoints */
    int64_t lent;                   /* batches done when weights went to rank 0 last; -1: never */
    int64_t saved;                  /* batches done at the last checkpoint; -1: none */
    int64_t compared;               /* batches done at the last comparison of weights; -1: never */
    int64_t row_every;
    struct train_sums epoch, row;   /* since the epoch's begin, since the last row */
    int64_t epoch_began, epoch_first; /* clock and batches done when this process began the epoch */
    double seconds_per_batch, seconds_per_test;
    struct gyre_progress progress;
    int stop, between;              /* the callback asked to stop; the net is whole between steps */
    int halt;                       /* some rank's callback did, and all know it */
    int joined;                     /* this rank came later */
    int due;                        /* a checkpoint waits for the next update */
    int stepping;                   /* a step was begun, and has not come back well */
    int leads;                      /* this rank has the folder, if there is one */
    int64_t written;                /* where it leads: batches done at the last written row */
    int64_t concluded;              /* batches done at the last conclusion; the sums before it: */
    struct train_sums last_epoch, last_row;
    int32_t mine, all;              /* samples of a step: of this rank, of all */
};

/* What a checkpoint holds for the loop: the sums that the next row and epoch need. */
GY_INT int gy_train_write_notes(struct train_run *run);
/* GY_E_MISMATCH: the checkpoint was made on other data, its steps were others, or a note is
 * damaged. */
GY_INT int gy_train_read_notes(struct train_run *run, const char *path);

#endif
