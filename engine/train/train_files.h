/* SPDX-License-Identifier: MIT */
/* train_files.h: the folder of a run, for the training loop (net_train.c, train_lead.c): its
 * checkpoints by number, its metric rows, events and curve. */
#ifndef GY_TRAIN_FILES_H
#define GY_TRAIN_FILES_H
#include "engine/train/net_data.h"
#include "io/report.h"

/* Checkpoints of a folder by batches done, newest first. */
struct gy_checkpoints {
    struct gy_alloc alloc;
    int64_t *steps;
    int count, room;
};
GY_INT int gy_checkpoints_list(struct gy_checkpoints *list, const struct gy_alloc *alloc, const char *folder,
                               struct gy_error *err); /* a folder that is not there has none */
GY_INT void gy_checkpoints_close(struct gy_checkpoints *list); /* safe on a zeroed struct */
GY_INT int gy_checkpoint_is_bad(int status); /* an older one may do; not: memory, device, rank */
GY_INT int gy_checkpoint_path(char *path, size_t room, const char *folder, int64_t step, struct gy_error *err);
/* Keeps the newest `keep` of those with at most `step` batches. The log names failed removals. */
GY_INT int gy_checkpoints_prune(const struct gy_alloc *alloc, const struct gy_log *log, const char *folder, int64_t step,
                                int keep, struct gy_error *err);
/* Removes what a killed process left half written in the folder. */
GY_INT void gy_run_folder_clean(const char *folder);

/* A point of the metrics: a row of metrics.csv, and events. */
struct gy_run_row {
    int64_t step, samples; /* batches done; labelled training samples since the last row, or 0 */
    int epoch;
    double loss, accuracy; /* training, since the row before */
    int tested;
    double test_loss, test_accuracy, test_top5;
    double rate, images_per_second;
    int64_t skipped_steps; /* GYRE_F16 */
    double loss_scale;     /* 0: none */
};
struct gy_run_files {
    const struct gy_alloc *alloc;
    const char *folder;
    struct gy_csv *csv;
    struct gy_events *events;
};
/* first_step: batches done by the checkpoint that the run goes on from; -1: a new run. alloc and
 * folder must outlive the files; after a failure they are closed, too. */
GY_INT int gy_run_files_open(struct gy_run_files *files, const struct gy_alloc *alloc, const char *folder,
                             int64_t first_step, struct gy_error *err);
/* last: step of the last row at opening, or -1. close: zeroed is fine; frees all in any case. */
GY_INT int64_t gy_run_files_last(const struct gy_run_files *files);
GY_INT int gy_run_files_close(struct gy_run_files *files, struct gy_error *err);
GY_INT int gy_run_files_row(struct gy_run_files *files, const struct gy_run_row *row, struct gy_error *err);
/* Draws curve.svg from metrics.csv. per_epoch: batches of an epoch. */
GY_INT int gy_run_files_curve(struct gy_run_files *files, int64_t per_epoch, struct gy_error *err);

#endif
