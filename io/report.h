/* SPDX-License-Identifier: MIT */
/* report.h: the files of a run for people: TensorBoard events, metric rows as CSV, curves and a
 * confusion matrix as SVG. engine/train/train_files.c and evaluate.c call it. */
#ifndef GY_REPORT_H
#define GY_REPORT_H
#include "engine/base/file.h"
#include "engine/base/text.h"

/* TensorBoard: TFRecord framing (length, masked CRC-32C) around Event messages with one
 * simple_value each. The folder gets a new file "events.out.tfevents.<seconds>.<host>". Each event
 * is one write at the file's end, since a run may be killed; readers accept a cut last record.
 * Errors: GY_E_IO; GY_E_ARG for a tag of more than 400 bytes. */
struct gy_events;
GY_INT int gy_events_open(struct gy_events **out, const struct gy_alloc *alloc, const char *folder,
                          struct gy_error *err);
GY_INT int gy_events_scalar(struct gy_events *events, int64_t step, const char *tag, double value,
                            struct gy_error *err);
/* The run goes on from a checkpoint. Readers drop the events of earlier files from `step` on. */
GY_INT int gy_events_restart(struct gy_events *events, int64_t step, struct gy_error *err);
/* NULL is fine. It is closed also after an error. */
GY_INT int gy_events_close(struct gy_events *events, struct gy_error *err);

/* Rows appended to a CSV with a fixed header. Opening an existing file keeps the rows whose first
 * column (step) is at most keep_step. So a resumed run neither repeats nor loses rows. keep_step -1
 * starts anew. A cut last row is dropped. GY_E_MISMATCH: rows would be kept under another header.
 * header and fmt have no newline. */
struct gy_csv;
GY_INT int gy_csv_open(struct gy_csv **out, const struct gy_alloc *alloc, const char *path, const char *header,
                       int64_t keep_step, struct gy_error *err);
/* The step of the last row that was kept, or -1. */
GY_INT int64_t gy_csv_last(const struct gy_csv *csv);
/* Appends a row in one write. GY_E_BUG: it has more than 1022 bytes. */
GY_INT int gy_csv_row(struct gy_csv *csv, struct gy_error *err, const char *fmt, ...) GY_PRINTF(3, 4);
/* NULL is fine. It is closed also after an error. */
GY_INT int gy_csv_close(struct gy_csv *csv, struct gy_error *err);

/* A line chart: series share the x axis and use the left or the right y axis. Points that are not
 * finite break the line. Allocates nothing; the file is whole or absent. Labels may be NULL. */
struct gy_series {
    const char *name;
    const double *x, *y; /* [count], x ascending */
    int64_t count;
    int right;           /* 1: right axis */
};
GY_INT int gy_svg_curve(const char *path, const char *title, const char *x_label, const char *left_label,
                        const char *right_label, const struct gy_series *series, int count, struct gy_error *err);
/* counts [classes][classes], row: truth, column: prediction. names may be NULL: numbers. With more
 * than 64 classes there are no labels. GY_E_ARG: more than 16384 classes. */
GY_INT int gy_svg_confusion(const char *path, const char *title, const int64_t *counts, int32_t classes,
                            const char *const *names, struct gy_error *err);

#endif
