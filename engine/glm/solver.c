/* SPDX-License-Identifier: MIT */
/* The table of solvers, and the choice among those that fit, by the time that each is expected to
 * take. glm_train_solve.c calls it. A new solver is a row of solver_list,
 * with a function for its time. */
#include "engine/glm/glm.h"

#define SOLVER_DENSE 1024  /* most features of which Newton's method keeps a matrix */
#define SOLVER_ENTRIES 20.0 /* of a row, where ranks do not know each other's */
#define SOLVER_HINGE 5.0   /* passes of a loss with a kink, over those of a smooth one */
#define SOLVER_CURVATURE 2.0 /* most that counts of a loss's curvature; a kink counts as this */
/* Costs below this are equal. Then the first solver in the table wins: it gets further where
 * features differ much in size. */
#define SOLVER_NOTHING 1e6
/* coordinate ascent's passes with several ranks, over those of one: ranks damp each other */
#define SOLVER_RANKS 8.0

/* Costs are nanoseconds on one core, about, as the steps were measured; ranks and threads divide
 * all of them alike. per: entries of a row. */
struct solver_shape {
    const struct gy_glm_problem *problem;
    double rows, per, features;
    int alone;
};

/* Passes go with how far one row can move the weights. */
static double solver_sdca_cost(const struct solver_shape *s)
{
    const struct gy_glm_loss *const loss = gy_glm_loss_of(s->problem);
    const double curvature = fmin(loss->curvature, SOLVER_CURVATURE);
    const double rough = loss->smooth == GY_GLM_KINK ? SOLVER_HINGE : 1;
    const double passes = (6 + 2 * log2(1 + curvature * s->per / s->problem->l2)) * rough;
    return (s->alone ? 1 : SOLVER_RANKS) * passes * s->rows * (40 + 2.5 * s->per);
}

/* Newton's method: four steps with a matrix of all features' products. The hinge loss takes some
 * dozens of steps, nearly all with few rows in the matrix. Without a matrix it takes some dozens of
 * passes of conjugate gradients. */
static double solver_newton_cost(const struct solver_shape *s)
{
    const double passes = gy_glm_has_kink(s->problem) ? 30 : 4;
    if (s->features > SOLVER_DENSE)
        return 60 * s->rows * (20 + 2.5 * s->per);
    return s->rows * (passes * (20 + 2 * s->per) + 4 * 0.35 * s->per * s->per) + passes * 0.1 * s->features * s->features * s->features;
}

static double solver_l1_cost(const struct solver_shape *s) { return 40 * s->rows * (20 + 2.5 * s->per); }

static const struct {
    const struct gy_glm_solver *(*get)(void);
    double (*cost)(const struct solver_shape *shape);
} solver_list[] = { { gy_glm_newton, solver_newton_cost }, { gy_glm_l1, solver_l1_cost }, { gy_glm_sdca, solver_sdca_cost } };

/* Adds a name to the text, and behind ": " what is said of it, unless that is "". */
static void solver_add(char *text, size_t room, int *used, const char *before, const char *name,
                       const char *what)
{
    if ((size_t)*used < room)
        *used += snprintf(text + *used, room - (size_t)*used, "%s%s%s%s", before, name, *what ? ": " : "", what);
}

GY_INT const struct gy_glm_solver *gy_glm_choose(const char *name, const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, uint32_t *tried,
                                                 struct gy_error *err)
{
    /* ranks know each other's rows, not their entries, and must choose alike */
    const int alone = feed->parts <= 1;
    const double rows = (double)gy_max64(feed->all_rows, 1), per = alone ? (double)feed->entries / rows : SOLVER_ENTRIES;
    const struct solver_shape shape = { problem, rows, per, feed->features, alone };
    const struct gy_glm_solver *best = NULL;
    uint32_t bit = 0;
    const char *why;
    char names[80] = "", whys[300] = "";
    int named = 0, said = 0;
    double least = HUGE_VAL;
    for (size_t k = 0; k < GY_COUNT(solver_list); k++) {
        const struct gy_glm_solver *const solver = solver_list[k].get();
        solver_add(names, sizeof names, &named, k ? ", " : "", solver->name, "");
        if ((name && strcmp(name, solver->name) != 0) || (tried && *tried >> k & 1))
            continue;
        if (solver->fits(problem, feed, &why)) {
            const double cost = fmax(solver_list[k].cost(&shape), SOLVER_NOTHING);
            bit = !best || cost < least ? (uint32_t)1 << k : bit;
            best = !best || cost < least ? solver : best;
            least = fmin(least, cost);
        } else
            solver_add(whys, sizeof whys, &said, said ? "; " : "", solver->name, why);
    }
    if (tried)
        *tried |= bit;
    if (best)
        return best;
    if (said)
        (void)GY_FAIL(err, GY_E_UNSUPPORTED, "no solver for this model: %s", whys);
    else
        (void)GY_FAIL(err, GY_E_UNSUPPORTED, "there is no solver '%.40s'; there are %s", name ? name : "", names);
    return NULL;
}
