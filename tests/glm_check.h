/* SPDX-License-Identifier: MIT */
/* glm_check.h: compares the result of a training with the truth. A claim that the model does not
 * keep, a refusal without a reason, a wrong reason for the end: each gives a sentence. */
#ifndef GY_GLM_CHECK_H
#define GY_GLM_CHECK_H
#include "engine/gyre_glm.h"
#include "tests/glm_truth.h"

#define GC_WHY 800

struct gc_part {
    double objective, bound, loss;
    int epochs;
    char why[24];      /* empty: it says none */
    float weight[GP_WIDTH];
};

/* What verification of the model's file says of a part. */
struct gc_verdict {
    double objective, least, bound;
    char wrong[200];   /* empty: nothing */
};

/* Of one rank. */
struct gc_outcome {
    int status, models, classes, streamed, threads, ranks;
    uint32_t features;
    double objective, bound, gap, seconds; /* of the report; seconds: of the whole call */
    int epochs, reached, verified;
    char text[600], solver[24], why[24];
    char file[200];    /* first difference of a saved and loaded model; empty: none */
    char verify[300];  /* what verification itself got wrong; empty: nothing */
    struct gc_part part[GP_CLASSES];
    struct gc_verdict verdict[GP_CLASSES];
};

/* Problems of all parts, and their optima. */
struct gc_truth {
    int parts, undecided;
    struct gt_problem problem[GP_CLASSES];
    struct gt_optimum optimum[GP_CLASSES];
};
/* 0; -1: out of memory */
int gc_truth_open(struct gc_truth *truth, const struct gp_case *c, const struct gc_outcome *o);
void gc_truth_close(struct gc_truth *truth);

/* Why this problem must be refused; NULL: it need not be. */
const char *gc_refusal(const struct gp_case *c);
int gc_is_model(const struct gc_outcome *o); /* there is one */
int gc_reaches(const struct gp_case *c, const struct gc_outcome *o); /* its gap, in every part */
/* How far the objective is above the optimum, relative to it, of the worst part. */
double gc_distance(const struct gc_truth *truth, const struct gc_outcome *o);

int gc_is_unproved(const struct gc_verdict *verdict);
/* 0; 1: *why is "kind (solver): what is wrong". truth is not read where there is no model. */
int gc_judge(const struct gp_case *c, const struct gc_truth *truth, const struct gc_outcome *o, char why[GC_WHY]);
void gc_print(const struct gc_truth *truth, const struct gc_outcome *o);

#endif
