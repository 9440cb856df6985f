/* SPDX-License-Identifier: MIT */
/* report.h: what a run leaves for people: TensorBoard event files, metric rows as CSV, curves and a confusion matrix as SVG. */
#ifndef GY_REPORT_H
#define GY_REPORT_H
#include "../engine/base/file.h"
#include "../engine/base/text.h"

/* TensorBoard: TFRecord framing (length, masked CRC-32C) around Event messages with one simple_value each. Appended and flushed per
 * event, since a run may be killed: readers accept a cut last record. */
struct gy_events;
GY_INT int gy_events_open(struct gy_events **out, const struct gy_alloc *alloc, const char *folder, struct gy_error *err);
GY_INT int gy_events_scalar(struct gy_events *events, int64_t step, const char *tag, double value, struct gy_error *err);
GY_INT void gy_events_close(struct gy_events *events);

/* Rows appended to a CSV with a fixed header. Opening an existing file keeps the rows whose first column (step) is at most keep_step:
 * a resumed run neither repeats nor loses rows. */
struct gy_csv;
GY_INT int gy_csv_open(struct gy_csv **out, const struct gy_alloc *alloc, const char *path, const char *header,
                       int64_t keep_step, struct gy_error *err);
GY_INT int gy_csv_row(struct gy_csv *csv, struct gy_error *err, const char *fmt, ...) GY_PRINTF(3, 4); /* without newline; flushed */
GY_INT void gy_csv_close(struct gy_csv *csv);

/* A line chart. Series share the x axis; the first `left` ones are scaled on the left axis, the rest on the right. */
struct gy_series {
    const char *name;
    const double *x, *y;
    int64_t count;
    int right; /* 1: right axis */
};
GY_INT int gy_svg_curve(const char *path, const char *title, const char *x_label, const char *left_label,
                        const char *right_label, const struct gy_series *series, int count, struct gy_error *err);
/* counts [classes][classes], row: truth, column: prediction. names may be NULL. Up to 64 classes are labelled. */
GY_INT int gy_svg_confusion(const char *path, const char *title, const int64_t *counts, int32_t classes,
                            const char *const *names, struct gy_error *err);

#endif
