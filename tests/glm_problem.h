/* SPDX-License-Identifier: MIT */
/* glm_problem.h: linear models drawn at random: rows, labels, weights and every option of training,
 * as a text of one line and back. And the way back: a problem on which something fails, made as
 * small as it still fails. */
#ifndef GY_GLM_PROBLEM_H
#define GY_GLM_PROBLEM_H
#include "tests/random_net.h"

#define GP_ROWS 400
#define GP_FEATURES 300
#define GP_WIDTH (GP_FEATURES + 1) /* with the bias */
#define GP_CLASSES 6
#define GP_TEXT 4000000

enum gp_option {
    GP_LOSS, GP_L1, GP_L2, GP_BIAS, GP_FREE, GP_NORMALIZE, GP_SOFTMAX, GP_BALANCED, GP_FACTOR, GP_FACTOR_LABEL, GP_SOLVER, GP_THREADS, GP_RANKS, GP_SOURCE,
    GP_BLOCK, GP_FOLDER, GP_BEFORE, GP_STOP, GP_GAP, GP_TARGET, GP_VALIDATION, GP_EPOCHS, GP_EVERY, GP_ORDER, GP_SECONDS, GP_VERIFY,
    GP_OPTIONS
};
enum gp_solver { GP_AUTO, GP_SDCA, GP_NEWTON, GP_L1_SOLVER };
enum gp_source { GP_ARRAYS, GP_BLOCKS, GP_STREAMED };

struct gp_case {
    int rows, features, weighted;
    double option[GP_OPTIONS];           /* enum gp_option */
    float label[GP_ROWS], weight[GP_ROWS];
    float x[GP_ROWS * GP_FEATURES];      /* [rows][features]; 0: no entry, -0: an entry that is 0 */
};

/* An option's name, its plainest value, and the names of its values or NULL. The library names the
 * losses. */
struct gp_row {
    const char *name;
    double plain;
    const char *words; /* separated by spaces */
};
extern const struct gp_row gp_rows[GP_OPTIONS];
int gp_has_words(int option);

void gp_draw(struct gp_case *c, uint64_t seed);
/* Reads a case: "seed=N" draws it, "name=value" sets an option, "| label*weight id:value ..." is a
 * row. Returns 0; -1: *why says what is wrong. */
int gp_parse(struct gp_case *c, const char *text, char *why, size_t room);
void gp_options(const struct gp_case *c, char *text, size_t room); /* that are not plain */
void gp_print(const struct gp_case *c, char *text, size_t room); /* the text that gp_parse reads */
void gp_svmlight(const struct gp_case *c, FILE *file);
/* the arguments of 'gyre glm train' */
void gp_command(const struct gp_case *c, char *text, size_t room);

int gp_on(const struct gp_case *c, int option);
int gp_has(float x);                                               /* there is an entry */
/* Counts the classes; label gets their labels in rising order, at most GP_CLASSES of them. More
 * classes count as GP_CLASSES + 1. */
int gp_classes(const struct gp_case *c, float *label);
int gp_models(const struct gp_case *c);                            /* that training makes */
int gp_is_softmax(const struct gp_case *c);

/* Shrinks *c while fails(user, c) is true, in at most `tries` calls and `seconds` seconds. Returns
 * the number of calls. */
int gp_shrink(struct gp_case *c, int (*fails)(void *user, const struct gp_case *c), void *user, int tries, double seconds);

#endif
