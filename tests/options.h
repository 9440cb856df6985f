/* SPDX-License-Identifier: MIT */
/* options.h: options of training as a table, combinations of them by number, and a training with
 * one of them. Each rank leaves behind its numbers after every step. */
#ifndef GY_OPTIONS_H
#define GY_OPTIONS_H
#include "engine/gyre.h"

#define OPT_STEPS 5
#define OPT_ROWS 48        /* of the table, at most */
#define OPT_VALUES 8       /* of a row, at most */
#define OPT_RANKS 4
#define OPT_BATCH 4        /* samples of a rank or shard */
#define OPT_CLASSES 7
#define OPT_SAMPLES (8 * OPT_BATCH)
#define OPT_PIXELS 128     /* of a sample, at most */
#define OPT_FLOATS 4096    /* of a net with all that goes with it */
#define OPT_PARAMETERS 1024
#define OPT_TEXT 1024

/* OPT_LABELS_NONE: every other step has no labels */
enum opt_labels { OPT_LABELS_ALL, OPT_LABELS_SOME, OPT_LABELS_FEW, OPT_LABELS_NONE };
enum opt_brief { OPT_FULL, OPT_BRIEF /* two of three batches */, OPT_SINGLE /* one sample */ };
enum opt_mix { OPT_MIX_NONE, OPT_MIX_UP, OPT_MIX_CUT, OPT_MIX_MOVE, OPT_MIX_FLIP, OPT_MIX_ALL };
enum opt_between { OPT_BETWEEN_NONE, OPT_BETWEEN_GRADIENT, OPT_BETWEEN_FIND, OPT_BETWEEN_SET, OPT_BETWEEN_EXPORT };

/* One combination. Members that are no option of the library say how batches are made and which
 * calls are made. */
struct opt_case {
    struct gyre_config config; /* net points to text */
    uint64_t seed;             /* of the samples */
    int pick[OPT_ROWS];        /* the values, by their place in their rows */
    int body, loss, ranks, mean, isa, mix, labels, targets, brief, between, bad, hosts;
    float dropout;
    int resume;                /* 1: a second net goes on from a file in every step */
    char text[OPT_TEXT];
};

/* An option. The values' first one is the default. */
struct opt_row {
    const char *name;
    int type;                       /* enum opt_type, of the place */
    size_t at;                      /* in struct opt_case */
    double value[OPT_VALUES];
    int count;
    const char *word[OPT_VALUES];   /* names of the values; NULL: numbers */
    /* "name=value ...": options without which this one has no effect; NULL: none */
    const char *needs;
    int alike;                      /* bits of a training do not depend on it */
};

extern const struct opt_row opt_rows[];
extern const int opt_row_count;
/* index of the row; -1: there is none */
int opt_row_named(const char *name);
const char *opt_value_name(int row, int value, char *buf, size_t room);
/* the combination of that number */
void opt_draw(struct opt_case *c, uint64_t number);
/* all defaults; samples of that number */
void opt_plain(struct opt_case *c, uint64_t number);
/* text: "name=value ...". 0; -1: it is not in the table */
int opt_set(struct opt_case *c, const char *text);
/* makes c->config and the rest from c->pick */
void opt_make(struct opt_case *c);
/* the options that are not at their default */
void opt_print(const struct opt_case *c, char *buf, size_t room);

/* A reason why the library must refuse a combination. at_step: gyre_open accepts it, gyre_step does
 * not. */
struct opt_refusal {
    int (*when)(const struct opt_case *c);
    int status, at_step;
    const char *says;
};
extern const struct opt_refusal opt_refusals[];
extern const int opt_refusal_count;

/* ---- a training ---- */

/* Batches are functions of the case, the step and the rank. */
enum opt_batch_kind { OPT_TRAIN, OPT_EVAL, OPT_PROBE };
struct opt_data {
    float x[OPT_SAMPLES * OPT_PIXELS], target[OPT_SAMPLES * OPT_CLASSES];
    uint8_t bytes[OPT_SAMPLES * OPT_PIXELS];
    int32_t label[OPT_SAMPLES];
    struct gyre_mix mix[OPT_SAMPLES];
    struct gyre_batch batch;
};
void opt_batch(const struct opt_case *c, const struct gyre_shape *shape, int kind, int step, int rank, struct opt_data *d);
int opt_same_results(const struct gyre_result *a, const struct gyre_result *b); /* bit for bit */
int opt_is_bad(const struct opt_case *c, int step); /* the loss of that step is not finite */

struct opt_step {
    int status, eval_status, probe_status, scores_status;
    /* gyre_last_error when a status is not GYRE_OK: after gyre_step; after the calls behind it */
    char text[480], said[480];
    struct gyre_result result, eval, probe;
    float scores[OPT_SAMPLES * OPT_CLASSES], each[OPT_SAMPLES], predicted[OPT_BATCH * OPT_CLASSES];
    int32_t rank[OPT_SAMPLES];
    float values[OPT_FLOATS];       /* tensors of all kinds, one after the other */
    float gradient[OPT_PARAMETERS]; /* of gyre_gradient */
    /* what differs: the resumed net, or two calls that must agree; empty: nothing */
    char resumed[200];
};
struct opt_left {
    int status;
    char text[480];
    struct gyre_shape shape;
    int64_t floats;                 /* in values, before the gradients */
    float begin[OPT_FLOATS];
    struct opt_step step[OPT_STEPS];
};

/* Tensors of a kind: enum train_kind's first six. */
extern const char *const opt_prefix[];
int opt_has(const struct gyre_config *config, int kind, int trained);
#define OPT_GRADIENT 5 /* the last kind */
/* Tensors of kinds [from, to), one after the other; how many floats they are; -1: one cannot be
 * had. */
int64_t opt_dump(struct gyre_net *net, const struct gyre_config *config, int from, int to,
                 float *values, int64_t room);
/* Runs all ranks, each in a process. folder: for checkpoints. left: [OPT_RANKS], in shared memory.
 * Returns 1 if every process exited by itself. */
int opt_run(const struct opt_case *c, const char *folder, struct opt_left *left);

/* ---- how it fared ---- */

struct opt_verdict {
    int refused, wrong;
    /* compared with the truth; of these, held to a ten thousandth of their tensor's maximum */
    int64_t numbers, tight;
    double worst;           /* the largest ratio of a difference to what it may be */
    char what[600];         /* what is wrong first; or where the worst is */
};
/* records that something is wrong */
void opt_says(struct opt_verdict *v, int step, int rank, const char *what, const char *text);
/* What the ranks left beside what they should have left; fault: enum train_fault, of the truth. */
void opt_judge_all(const struct opt_case *c, const struct opt_left *left, int fault, struct opt_verdict *v);
/* Judges a combination that every rank must refuse, with a sentence that says why. Returns 0 if it
 * need not be refused. */
int opt_judge_refusal(const struct opt_case *c, const struct opt_left *left, struct opt_verdict *v);
/* Options return to their defaults, one by one, as long as judge(user, c, v) still finds c wrong.
 * *v: the verdict on what is left. judge may complete c, for example by what an option needs. */
void opt_shrink(struct opt_case *c,
                void (*judge)(const void *user, struct opt_case *c, struct opt_verdict *v),
                const void *user, struct opt_verdict *v);

#endif
