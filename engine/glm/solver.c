/* SPDX-License-Identifier: MIT */
/* The table of solvers, and the choice among those that fit, by the time that each is expected to take. */
#include "glm.h"

typedef const struct gy_glm_solver *(*solver_get)(void);
static const solver_get solver_list[] = { gy_glm_sdca, gy_glm_newton, gy_glm_l1 };

static int solver_names(char *text, size_t room)
{
    int used = 0;
    for (size_t k = 0; k < GY_COUNT(solver_list) && (size_t)used < room; k++)
        used += snprintf(text + used, room - (size_t)used, "%s%s", k ? ", " : "", solver_list[k]()->name);
    return used;
}

GY_INT const struct gy_glm_solver *gy_glm_choose(const char *name, const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, struct gy_error *err)
{
    const char *why = "there is none of that name", *first_why = NULL;
    for (size_t k = 0; k < GY_COUNT(solver_list); k++) {
        const struct gy_glm_solver *const solver = solver_list[k]();
        if (name && strcmp(name, solver->name) != 0)
            continue;
        if (solver->fits(problem, feed, &why))
            return solver;
        first_why = first_why ? first_why : why;
    }
    char names[80];
    solver_names(names, sizeof names);
    (void)GY_FAIL(err, GY_E_UNSUPPORTED, "no solver for this model (%s): %s; there are %s", name ? name : "any", first_why ? first_why : why, names);
    return NULL;
}
