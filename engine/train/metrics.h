/* SPDX-License-Identifier: MIT */
/* metrics.h: how good a net is on a data set, gathered batch by batch from its scores, for
 * evaluate.c. It has loss, top-1, top-5, confusion matrix, and each class's precision, recall, F1
 * and average precision. Sums are taken in the order of the samples, so equal runs give equal
 * bits. */
#ifndef GY_METRICS_H
#define GY_METRICS_H
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define GY_METRICS_SCORES ((int64_t)1 << 27) /* most samples * classes for average precision */
#define GY_METRICS_MATRIX 4096               /* most classes of a confusion matrix */

struct gy_metrics;

/* Of a class, or means over classes. NAN: not defined, as nothing of the class is there. */
struct gy_class_metrics {
    int64_t truth, predicted, right; /* samples: of the class, taken for it, both */
    double precision, recall, f1;    /* right / predicted, or 0; right / truth; harmonic mean */
    double average_precision; /* sum over scores of (recall gained) * precision; NAN: not asked */
};

struct gy_metrics_total {
    int64_t samples;               /* with a label */
    double loss, top1, top5;       /* means; top1 and top5 in [0, 1]; NAN without samples */
    struct gy_class_metrics macro; /* plain means over classes with samples; counts are sums */
};

/* ap_samples: most samples that will come, for average precision, which keeps all scores; 0: it is
 * not asked. If samples * classes exceeds GY_METRICS_SCORES it is left out, and gy_metrics_note
 * says so. All memory is taken here. */
GY_INT int gy_metrics_open(struct gy_metrics **out, const struct gy_alloc *alloc, int32_t classes, int64_t ap_samples,
                           struct gy_error *err);
GY_INT void gy_metrics_close(struct gy_metrics *metrics); /* NULL is fine */
/* Adds a batch: scores [n][classes], labels [n] (-1: skipped), loss [n], rank [n]: how many classes
 * score higher than the label. The prediction is the highest score: the label if nothing scores
 * higher, else the first. GY_E_ARG: a label is too large. */
GY_INT int gy_metrics_add(struct gy_metrics *metrics, const float *scores, const int32_t *labels, const float *loss,
                          const int32_t *rank, int64_t n, struct gy_error *err);
/* After the last batch: average precision of every class. Does not allocate. */
GY_INT void gy_metrics_finish(struct gy_metrics *metrics);

GY_INT void gy_metrics_total(const struct gy_metrics *metrics, struct gy_metrics_total *total);
GY_INT void gy_metrics_class(const struct gy_metrics *metrics, int32_t label, struct gy_class_metrics *out);
/* [classes][classes], row: truth, column: prediction. NULL: more than GY_METRICS_MATRIX classes. */
GY_INT const int64_t *gy_metrics_confusion(const struct gy_metrics *metrics);
GY_INT const char *gy_metrics_note(const struct gy_metrics *metrics); /* left out, why; or NULL */

/* Prints a table. It has totals, classes (up to 20, else the 10 with the lowest F1), the matrix of
 * up to 20 classes, the most frequent confusions. names: [classes] or NULL. */
GY_INT void gy_metrics_print(const struct gy_metrics *metrics, const char *const *names, struct gy_sink *sink);
/* One JSON object with all of it, NAN as null; the confusion matrix of up to 256 classes. */
GY_INT void gy_metrics_json(const struct gy_metrics *metrics, const char *const *names, struct gy_sink *sink);

#endif
