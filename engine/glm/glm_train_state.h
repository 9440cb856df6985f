/* SPDX-License-Identifier: MIT */
/* glm_train_state.h: a training in progress, for glm_train.c (the whole), glm_train_solve.c (one
 * model), glm_train_progress.c (callbacks) and glm_train_checkpoint.c. */
#ifndef GY_GLM_TRAIN_STATE_H
#define GY_GLM_TRAIN_STATE_H
#include "engine/base/file_lock.h"
#include "engine/glm/glm_model.h"
#include "engine/glm/solve/softmax.h"

struct glm_train {
    struct gyre_glm_config c;
    struct gy_alloc alloc;
    struct gy_pool *pool;
    struct gy_glm_source *source, *tests; /* tests may be NULL */
    struct gy_glm_feed *feed;
    struct gyre_glm *model;
    int64_t began;           /* clock: when rows began to be opened */
    int streamed;            /* the feed is one of glm_stream.h */
    int trained;             /* all models are made; what fails now takes none of them away */
    int placed;              /* its features are in another order (feed.h) */
    /* rows are so few that every rank trains on all of them, without the other ranks */
    int apart;
    int64_t rows;            /* of this rank */
    float *dual;             /* [rows + 1]; NULL: nothing is kept, and no solver needed them yet */
    double *point, *last;    /* [width + 1] each; NULL: no solver needed it yet */
    const struct gy_glm_classes *classes; /* while all are trained as one softmax; else NULL */
    struct gy_glm_run run;   /* of model number `at` */
    int at, run_epoch, seen; /* run_epoch: its epochs so far; seen: it has had a certificate */
    const char *solver;
    struct gy_error progress_error; /* of a callback */
    struct gy_lock lock;     /* of the folder; of the first rank */
    int64_t kept;            /* clock of the last checkpoint */
};

/* 1: the CPU trains, by the solvers of solver.c; 0: a device does (solve/glm_device.c). "auto" is a
 * device until it shows that none can train the model; then c.device becomes "cpu". */
static inline int gy_glm_train_is_own(const struct glm_train *t) { return !t->c.device || strcmp(t->c.device, "cpu") == 0; }
static inline int gy_glm_train_is_auto(const struct glm_train *t)
{
    return t->c.device && strcmp(t->c.device, "auto") == 0;
}

/* glm_train.c: bytes that the rows of this rank may take; ranks of a host share its memory. */
GY_INT size_t gy_glm_train_memory(const struct gyre_glm_config *config);

/* glm_train_progress.c: what a solver calls; user is the training. */
GY_INT int gy_glm_train_validate(void *user, const float *w, double *loss, struct gy_error *err);
GY_INT int gy_glm_train_progress(void *user, const struct gy_glm_progress *p);

/* glm_train_solve.c: trains model k, or all classes as one softmax, and sets what it claims. */
GY_INT int gy_glm_train_one(struct glm_train *t, int k, struct gy_error *err);

/* glm_train_checkpoint.c: checkpoints, one file for each model in config.folder. Without a folder
 * the first three do nothing, and keep is not called. */
/* Makes sure that the folder exists and holds no other run. Locks it on the first rank. */
GY_INT int gy_glm_train_folder(struct glm_train *t, struct gy_error *err);
/* Resumes model t->at into t->run, where config.resume asks for it and there is a checkpoint. */
GY_INT int gy_glm_train_resume(struct glm_train *t, struct gy_error *err);
/* This rank is the first, and it is time for a checkpoint. */
GY_INT int gy_glm_train_due(const struct glm_train *t);
/* Writes the checkpoint of model t->at. Collective. */
GY_INT int gy_glm_train_keep(struct glm_train *t, struct gy_error *err);

#endif
