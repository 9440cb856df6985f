/* SPDX-License-Identifier: MIT */
/* train_files.h: the folder of a run, for the training loop: its checkpoints by number, its metric
 * rows, events and curve. */
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
/* Is this a file that cannot be used, so that an older one may stand in? Not when memory, a device or another rank is to blame. */
GY_INT int gy_checkpoint_is_bad(int status);
GY_INT int gy_checkpoint_path(char *path, size_t room, const char *folder, int64_t step, struct gy_error *err);
/* Removes all but the newest `keep` of those with at most `step` batches. A file that cannot be removed is only named in the log. */
GY_INT int gy_checkpoints_prune(const struct gy_alloc *alloc, const struct gy_log *log, const char *folder, int64_t step,
                                int keep, struct gy_error *err);
/* Removes what a killed process left half written in the folder. */
GY_INT void gy_run_folder_clean(const char *folder);

/* A point of the metrics: a row of metrics.csv, and events. */
struct gy_run_row {
    int64_t step, samples;     /* batches done; labelled training samples since the row before, 0: none */
    int epoch;
    double loss, accuracy;     /* training, since the row before */
    int tested;
    double test_loss, test_accuracy, test_top5;
    double rate, images_per_second;
    int64_t skipped_steps;     /* GYRE_F16 */
    double loss_scale;         /* 0: none */
};
struct gy_run_files {
    const struct gy_alloc *alloc;
    const char *folder;
    struct gy_csv *csv;
    struct gy_events *events;
};
/* first_step: batches done by the checkpoint that the run goes on from; -1: a new run. */
GY_INT int gy_run_files_open(struct gy_run_files *files, const struct gy_alloc *alloc, const char *folder,
                             int64_t first_step, struct gy_error *err);
GY_INT int64_t gy_run_files_last(const struct gy_run_files *files); /* step of the last row that was there when they were opened, or -1 */
GY_INT int gy_run_files_close(struct gy_run_files *files, struct gy_error *err); /* safe on a zeroed struct; all gone in any case */
GY_INT int gy_run_files_row(struct gy_run_files *files, const struct gy_run_row *row, struct gy_error *err);
/* Draws curve.svg from metrics.csv. per_epoch: batches of an epoch. */
GY_INT int gy_run_files_curve(struct gy_run_files *files, int64_t per_epoch, struct gy_error *err);

#endif
