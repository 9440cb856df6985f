/* SPDX-License-Identifier: MIT */
/* gyre_glm.h: linear models. gyre_glm_train takes rows and gives the weights w that solve
 *
 *     min over w:  sum over rows of c_i loss(y_i, x_i . w)  +  l2 / 2 |w|^2  +  l1 |w|_1
 *
 * Losses are summed, not averaged: l2 is 1 / C of liblinear and scikit-learn. A trained model
 * carries a proved lower bound of the optimum. The gap between objective and bound limits its
 * error. The rules at the head of gyre.h hold here, too. */
#ifndef GYRE_GLM_H
#define GYRE_GLM_H
#include "gyre_base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gyre_glm;
enum gyre_glm_loss {
    GYRE_GLM_LOGISTIC,      /* log(1 + exp(-y z)), y -1 or 1 */
    /* (z - y)^2 / 2, y the label itself: a regression; half of what liblinear sums */
    GYRE_GLM_SQUARED,
    GYRE_GLM_HINGE,         /* max(0, 1 - y z) */
    GYRE_GLM_SQUARED_HINGE, /* max(0, 1 - y z)^2 */
    GYRE_GLM_LOSSES         /* how many there are */
};

/* Rows of sparse features, of files or of the caller's arrays; read during the call only. Ids count
 * from 0; feature 1 of a text is id 0. */
struct gyre_glm_data {
    size_t size;
    /* one block file (gyre_glm_convert), or text files, .gz too; NULL: the arrays below */
    const char *const *files;
    int file_count;
    const char *format; /* of text: "svmlight", "libffm", "criteo", "csv"; NULL: by its look */
    int zero_based;            /* 1: ids of svmlight text begin with 0; 0 */
    /* 1: plain faults of the text are mended, and counted in the log; 0: the first one ends the
     * call with file, line, column */
    int lenient;
    /* text: ids are hashed to so many bits; 0: as they are, criteo 20; prediction: the model's */
    int hash_bits;
    uint64_t hash_seed;        /* 0 */
    /* csv: from 0, -1 the last; 1: the first line has names, -1 by its look; 0, -1 */
    int label_column, header;
    /* text and arrays: 1 + the largest id that there may be; 0: as many as there are */
    uint32_t features;
    int64_t rows;              /* arrays: */
    const int64_t *start;      /* [rows + 1] offsets into id and value */
    const uint32_t *id;        /* rising within a row */
    const float *value;        /* NULL: 1 */
    const float *label;        /* [rows] */
    const float *weight;       /* [rows]; NULL: 1 */
    struct gyre_logger log;
};
GYRE_API void gyre_glm_data_default(struct gyre_glm_data *data);

/* How good scores are. Rows count by their weights; NAN where a number has no meaning. The smaller
 * of two labels may be 0 for -1 and -1 for 0. */
struct gyre_glm_metrics {
    /* unknown: rows whose label the model does not know; they count in nothing else */
    int64_t rows, unknown;
    /* mean of the model's own loss; of classes with probabilities their log-loss */
    double loss;
    /* of two classes: of the larger label; of several: means over classes; no auc */
    double log_loss, accuracy, precision, recall, auc;
    /* 0: exact; else auc is within so much: above 2^23 rows, scores go into 65,536 bins */
    double auc_error;
    /* regression: mean (z - y)^2, and the part of y's variance that is explained */
    double squared_error, r2;
};

struct gyre_glm_progress {
    int model, models;         /* from 0; classes one by one */
    int epoch, epochs;         /* passes over the rows; epochs: the most that there will be */
    /* the solver's estimates; gap: (objective - bound) / objective; NAN: none yet, or no bound */
    double objective, bound, gap;
    int certified;             /* 1: they are of this epoch; 0: of an earlier one */
    int64_t rows_done;
    double seconds, rows_per_second, seconds_left; /* seconds_left: NAN where unknown */
};

struct gyre_glm_config {
    size_t size;
    /* test: for the report, and for validation; NULL: none */
    const struct gyre_glm_data *train, *test;
    int loss;                  /* enum gyre_glm_loss; GYRE_GLM_LOGISTIC */
    double l1, l2;             /* 0, 1 */
    double bias;               /* value of a last feature that every row has; 0: none */
    int bias_free;             /* 1: its weight is not penalised; 0 */
    int normalize;             /* 1: rows are scaled to length 1, also in prediction; 0 */
    int softmax; /* more than two classes: 1 one softmax, 0 one against the rest each; 0 */
    /* [weights] rows of that label count so many times; one class against the rest: as that class
     * alone, as in liblinear */
    const float *weight_label, *weight_factor;
    int weights;
    int balanced; /* 1: such weights are rows / (classes rows of the class) for each class; 0 */
    const char *solver; /* "sdca", "newton", "l1"; NULL: the one that is expected to be fastest */
    const char *device;        /* as in struct gyre_config; "cpu" */
    /* 0: all processors of this process. Dual coordinate ascent with another number visits rows in
     * another order: other bits. */
    int threads;
    int pin;                   /* enum gyre_pin; GYRE_PIN_AUTO */
    struct gyre_job *job;      /* ranks that train together: all give the same; NULL: alone */
    /* When a model is done: the first that holds. */
    double gap; /* relative gap of what is proved in the end; 1e-4; 0: no; at least 1e-13 */
    double target;             /* objective at or below this; 0: no */
    double validation; /* the mean loss on test improves by a smaller part in three checks; 0: no */
    int epochs, every; /* most passes, 1000; passes between certificates, 0: the solver's choice */
    double seconds;            /* most of them for a model; 0: no limit */
    /* of a GPU's memory, at most; rows that need more stream through it; 0: all */
    size_t device_bytes;
    /* rows of this rank that need more are streamed from their block file; 0: 6/10 of the machine's
     * or control group's, shared by the ranks of a host */
    size_t memory_bytes;
    uint64_t seed;             /* 1 */
    /* cross-validation: trains so often, without a part of the rows, and makes no model; 0 */
    int folds;
    const char *folder;        /* for checkpoints; NULL: none */
    double checkpoint_seconds; /* 60 */
    int resume, overwrite;     /* as in struct gyre_train_config */
    const char *trace; /* file for what ran when, as JSON for Chrome's trace viewer; NULL: none */
    struct gyre_memory memory; /* hook only */
    struct gyre_logger log;
    /* may be NULL; non-zero: stop */
    int (*progress)(void *user, const struct gyre_glm_progress *progress);
    void *user;
};
GYRE_API void gyre_glm_config_default(struct gyre_glm_config *config);

struct gyre_glm_report {
    int64_t rows, entries;
    uint32_t features;
    int classes, models, ranks, threads;
    int streamed;              /* 1: rows were read from the file pass after pass */
    const char *solver, *why; /* why: that of the parts' which comes last in struct gyre_glm_part */
    int reached;               /* 1: every part is within the gap that was asked for, or none was */
    double objective, bound, gap; /* summed over models; gap: the largest of them, relative */
    int epochs, rounds;        /* of all models; rounds: sums over ranks */
    double open_seconds, train_seconds; /* until rows are ready; until the last certificate */
    struct gyre_glm_metrics test; /* rows 0: not tested */
};
/* *model is the caller's until gyre_glm_close (with folds NULL). GYRE_E_STOPPED after a stop:
 * *model stands as it is, report too. When test rows cannot be read after training, *model and
 * report are set beside the error. After any other error *model is as it was. */
GYRE_API int gyre_glm_train(struct gyre_glm **model, const struct gyre_glm_config *config, struct gyre_glm_report *report, struct gyre_error *error);
GYRE_API void gyre_glm_close(struct gyre_glm *model); /* NULL is fine */

/* Writes a text that liblinear reads, followed by fields that it ignores. A path that ends in .onnx
 * gets a LinearClassifier or LinearRegressor. The file is whole or absent. */
GYRE_API int gyre_glm_save(const struct gyre_glm *model, const char *path, struct gyre_error *error);
/* liblinear's own models too */
GYRE_API int gyre_glm_load(struct gyre_glm **model, const char *path, struct gyre_error *error);

struct gyre_glm_info {
    /* classes 0: a regression; models: 1 for two classes, else one a class */
    int loss, classes, models;
    uint32_t features;
    double l1, l2, bias;
    int bias_free, normalize, softmax, hash_bits;
    uint64_t hash_seed;
    const float *label, *class_weight; /* [classes] rising; how often a row of each counts */
};
/* NULL is fine, of both */
GYRE_API void gyre_glm_get_info(const struct gyre_glm *model, struct gyre_glm_info *info);
struct gyre_glm_part {
    /* [features + (bias != 0)]; of two classes the larger label has positive scores */
    const float *weight;
    /* proved: this objective is not above the first, the best one not below the second; of a
     * softmax only in part 0; or NAN */
    double objective, bound, loss;
    int epochs;
    /* why training ended: "gap", "target", "validation", "epochs", "time", "stopped"; NULL:
     * unknown. "rounding": the gap is near what floats allow. "stalled": it is not, but no step
     * helped. */
    const char *why;
};
/* GYRE_E_ARG, without a sentence: there is none */
GYRE_API int gyre_glm_get_part(const struct gyre_glm *model, int index, struct gyre_glm_part *part);

struct gyre_glm_scores {
    int64_t first;             /* number of the first row */
    int32_t count;
    const float *truth, *label; /* [count] as data has it, and predicted (regression: the score) */
    const float *score;        /* [count][models] */
    const float *probability;  /* [count][classes]; NULL: the loss gives none */
};
struct gyre_glm_predict_config {
    size_t size;
    const struct gyre_glm_data *data;
    int threads;               /* 0: all processors of this process */
    /* gets rows one batch after the other; non-zero stops; may be NULL */
    int (*take)(void *user, const struct gyre_glm_scores *scores);
    void *user;
    int json;                  /* table: 0 text, 1 one JSON object */
    const struct gyre_sink *table; /* metrics, also of each class; or NULL */
};
GYRE_API void gyre_glm_predict_default(struct gyre_glm_predict_config *config);
/* Scores rows in bounded memory and measures how good the scores are; metrics may be NULL. Features
 * that the model does not have count nothing, in a row's length neither. */
GYRE_API int gyre_glm_predict(const struct gyre_glm *model, const struct gyre_glm_predict_config *config, struct gyre_glm_metrics *metrics,
                              struct gyre_error *error);

struct gyre_glm_verify_config {
    size_t size;
    const struct gyre_glm_data *data;
    int threads;               /* 0: all processors of this process */
    /* penalties, where the model's file does not say them (liblinear's); below 0: the model's */
    double l1, l2;
    double gap; /* relative gap that is to be proved beside what the model says; 0: none */
    double seconds;            /* most of them for a bound of our own; 0: no limit */
    struct gyre_logger log;
};
GYRE_API void gyre_glm_verify_default(struct gyre_glm_verify_config *config);
struct gyre_glm_verdict {
    /* the part's objective lies between the first two; no weights have one below bound */
    double objective, least, bound;
    const char *wrong;         /* what does not hold, or NULL */
};
/* Checks what a model claims of itself, over the rows it was trained on; verdict: [models], or one
 * of a softmax. Returns GYRE_OK with wrong claims, too. */
GYRE_API int gyre_glm_verify(const struct gyre_glm *model, const struct gyre_glm_verify_config *config, struct gyre_glm_verdict *verdict,
                             struct gyre_error *error);

struct gyre_glm_convert_config {
    size_t size;
    const struct gyre_glm_data *from; /* text files */
    const char *to;            /* block file; over any other file: GYRE_E_STATE */
    int append;                /* 1: behind what it holds; 0: it is written anew */
    int32_t block_rows;        /* 0: 65536, fewer where rows are long */
    int threads;
    /* bytes of text; may be NULL; non-zero stops */
    int (*progress)(void *user, int64_t done, int64_t total);
    void *user;
};
GYRE_API void gyre_glm_convert_default(struct gyre_glm_convert_config *config);
/* What was read and mended is printed to text (may be NULL), with json as one JSON object. */
GYRE_API int gyre_glm_convert(const struct gyre_glm_convert_config *config, int json, const struct gyre_sink *text, struct gyre_error *error);
#ifdef __cplusplus
}
#endif
#endif
