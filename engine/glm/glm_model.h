/* SPDX-License-Identifier: MIT */
/* glm_model.h: a linear model, the rows that come to it, and what its scores are worth. Rows come
 * from a source, in slices of bounded size that all threads score. The files of models, of training
 * and of verification include it, and those of tools/lab/ that make or look at models. */
#ifndef GY_GLM_MODEL_H
#define GY_GLM_MODEL_H
#include "io/rows/blocks.h"
#include "engine/base/text.h"
#include "engine/gyre_glm.h"
#include "engine/glm/glm.h"

struct gyre_glm {
    struct gy_alloc alloc;
    struct gyre_glm_info info;   /* label points behind */
    float *label, *class_weight; /* [info.classes] */
    float *w;                    /* [info.models][width] */
    int64_t width;               /* info.features + (info.bias != 0) */
    struct gyre_glm_part *part;  /* [info.models] */
    int is_other;                /* 1: info.loss stands for a loss of liblinear that is not here */
};

/* All weights 0. info->models follows from classes; class_weight NULL: all are 1. */
GY_INT int gy_glm_model_take(struct gyre_glm **out, const struct gyre_glm_info *info, const struct gy_alloc *alloc, struct gy_error *err);
GY_INT int32_t gy_glm_model_class(const struct gyre_glm *model, float label); /* its index, or -1 */
GY_INT const char *gy_glm_loss_name(int loss);
/* Why a model's training ended. gy_glm_why: the same word as a constant; NULL: it is none.
 * gy_glm_worse: of two words the later one in this order: "gap", "target", "validation", "epochs",
 * "time", "rounding", "stalled", "stopped". */
GY_INT const char *gy_glm_why(const char *word);
GY_INT const char *gy_glm_worse(const char *a, const char *b); /* either may be NULL */
/* What part k is the answer to. Against the rest, the class has its own weight and the others 1, as
 * in liblinear. Of a softmax: penalties and bias alone. */
GY_INT struct gy_glm_problem gy_glm_model_problem(const struct gyre_glm *model, int k);
static inline int gy_glm_model_is_whole(const struct gyre_glm *model) { return model->info.softmax && model->info.models > 1; }
/* What scores rows: `models` vectors of weights. Ids from `features` on count nothing, in a length
 * neither. normalize: a row is scaled to length 1 where rows->scale does not do it. */
struct gy_glm_scorer {
    const float *w;  /* [models][width] */
    int64_t width;
    uint32_t features;
    double bias;
    int normalize, models;
};
GY_INT struct gy_glm_scorer gy_glm_model_scorer(const struct gyre_glm *model);
/* Scores of rows [from, from + count): out [count][models]. */
GY_INT void gy_glm_score(const struct gy_glm_scorer *scorer, const struct gy_rows *rows, int32_t from, int32_t count, float *out);
/* Index of the class that the scores of one row decide for. */
GY_INT int32_t gy_glm_decide(const struct gyre_glm *model, const float *score);
/* Probabilities of classes from the scores of one row: 1, or 0: the model gives none. */
GY_INT int gy_glm_probability(const struct gyre_glm *model, const float *score, float *out);
/* -log of the class's, of several; also where that is less than a float or a double can be. */
GY_INT double gy_glm_log_loss(const struct gyre_glm *model, const float *score, int32_t class);

/* glm_model_text.c, glm_model_read.c, glm_model_onnx.c */
GY_INT void gy_glm_model_print(const struct gyre_glm *model, struct gy_sink *sink);
GY_INT int gy_glm_model_write(const struct gyre_glm *model, const char *path, struct gy_error *err);
GY_INT int gy_glm_model_read(struct gyre_glm **out, const char *path, const struct gy_alloc *alloc, struct gy_error *err);
/* The same of bytes; name: for sentences. */
GY_INT int gy_glm_model_parse(struct gyre_glm **out, const unsigned char *bytes, size_t count, const char *name, const struct gy_alloc *alloc,
                              struct gy_error *err);
GY_INT int gy_glm_model_onnx(const struct gyre_glm *model, const char *path, struct gy_error *err);

/* ---- source.c ---- */

/* All rows become blocks: a file of them, text that is converted into memory, the caller's
 * arrays. */
struct gy_glm_source {
    struct gy_alloc alloc;
    struct gy_blocks *blocks;
    int in_memory;
    struct gy_blocks_info info;
    struct gy_blocks_room room;
    int64_t at;                  /* next block */
    char name[512];              /* for sentences: the first file */
};
/* hash: what text is to be hashed with, and what a block file must have; NULL: as data says. most:
 * features that there may be where data does not say; 0: any. pool NULL: this thread. */
GY_INT int gy_glm_source_open(struct gy_glm_source **out, const struct gyre_glm_data *data, const struct gyre_glm_info *hash, uint32_t most,
                              struct gy_pool *pool, const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_glm_source_close(struct gy_glm_source *source); /* NULL is fine */
/* The next rows, valid until the call after; count 0 ends a pass. */
GY_INT int gy_glm_source_next(struct gy_glm_source *source, struct gy_rows *rows, struct gy_error *err);
GY_INT int gy_glm_is_blocks(const char *path); /* by its first bytes; 0: a text, or nothing */
/* A source in memory with the rows of one fold; others 1: with the rows of all other folds. A row's
 * fold follows from the seed and the row's number alone. */
struct gy_glm_fold {
    uint64_t seed;
    int number, folds, others;
};
GY_INT int gy_glm_source_fold(struct gy_glm_source **out, struct gy_glm_source *from, const struct gy_glm_fold *fold, const struct gy_alloc *alloc,
                              struct gy_error *err);

/* Some rows and their scores. */
struct gy_glm_slice {
    const struct gy_rows *rows;
    int32_t from, count;
    const float *score; /* [count][scorer.models] */
};
/* Scores all rows of the source once, in their order, and hands each slice to take, whose status
 * other than GY_OK ends it. */
GY_INT int gy_glm_source_score(struct gy_glm_source *source, const struct gy_glm_scorer *scorer, struct gy_pool *pool,
                               int (*take)(void *user, const struct gy_glm_slice *slice, struct gy_error *err), void *user, struct gy_error *err);

/* ---- metric.c ---- */

struct gy_glm_meter;
GY_INT int gy_glm_meter_open(struct gy_glm_meter **out, const struct gyre_glm *model, const struct gy_alloc *alloc, struct gy_error *err);
/* for gy_glm_source_score */
GY_INT int gy_glm_meter_take(void *meter, const struct gy_glm_slice *slice, struct gy_error *err);
/* another model of the same classes goes on */
GY_INT void gy_glm_meter_use(struct gy_glm_meter *meter, const struct gyre_glm *model);
GY_INT void gy_glm_meter_metrics(struct gy_glm_meter *meter, struct gyre_glm_metrics *out);
GY_INT void gy_glm_meter_print(struct gy_glm_meter *meter, int json, struct gy_sink *sink);
GY_INT void gy_glm_meter_close(struct gy_glm_meter *meter); /* NULL is fine */

/* ---- glm_api.c ---- */

/* Copies what the caller gave over the defaults and checks it. in NULL is GY_E_ARG. name: of the
 * rows, for the sentence. */
GY_INT int gy_glm_data_take(struct gyre_glm_data *out, const struct gyre_glm_data *in, const char *name, struct gy_error *err);

#endif
