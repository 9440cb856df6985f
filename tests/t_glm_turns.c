/* SPDX-License-Identifier: MIT */
/* t_glm_turns.c: one model of a training, turn by turn. Answers of solvers and referee are
 * scripted; what the training makes of them is checked. An answer whose objective is not finite is
 * none: it takes nothing from an earlier answer. */
#include "engine/glm/referee.h"
#include "engine/glm/solve/softmax.h"
#include "tests/data_files.h"

/* What a solver says in its turn, and then the referee of its weights. */
struct gt_turn {
    int status;
    float weight;
    double objective, bound;
    enum gy_glm_why why;
};

struct gt_case {
    const char *name;
    int own;      /* a solver was asked for: there is no other */
    int hinge;    /* weights may be lengthened afterwards: their objective is `longer` */
    double longer;
    struct gt_turn turn[4];
    int status, turns; /* that come out */
    float weight;
    const char *why;
};

static const struct gt_case *gt_now;
static int gt_at;        /* turns begun */
static int gt_judged;    /* answers of this turn */
/* 1: an answer without a finite objective leaves dual variables of NaN */
static int gt_spoils;
static int gt_warm_bad;  /* a turn began with such numbers */

static int gt_solve(struct gy_glm_run *run, struct gy_error *err)
{
    const struct gt_turn *const turn = &gt_now->turn[gt_at++];
    gt_judged = 0;
    for (int64_t i = 0; run->dual && i < run->feed->rows; i++) {
        gt_warm_bad |= run->has_dual && !isfinite(run->dual[i]);
        run->dual[i] = gt_spoils && !isfinite(turn->objective) ? (float)NAN : 0.5f;
    }
    run->epochs = run->first_epoch + 1;
    run->w[0] = turn->weight;
    run->why = turn->why;
    return turn->status == GY_OK ? GY_OK : GY_FAIL(err, turn->status, "turn %d ends so", gt_at);
}

static int gt_fits(const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, const char **why)
{
    (void)problem;
    (void)feed;
    (void)why;
    return 1;
}

static const struct gy_glm_solver gt_solver[] = { { "first", "", gt_fits, gt_solve }, { "second", "", gt_fits, gt_solve }, { "third", "", gt_fits, gt_solve } };

static const struct gy_glm_solver *gt_choose(uint32_t *tried, struct gy_error *err)
{
    for (size_t k = 0; k < GY_COUNT(gt_solver); k++)
        if (!(*tried >> k & 1)) {
            *tried |= (uint32_t)1 << k;
            return &gt_solver[k];
        }
    (void)GY_FAIL(err, GY_E_UNSUPPORTED, "all were tried");
    return NULL;
}

static int gt_referee(struct gy_glm_verdict *out)
{
    const struct gt_turn *const turn = &gt_now->turn[gt_at - 1];
    *out = (struct gy_glm_verdict){ .objective = gt_judged++ ? gt_now->longer : turn->objective, .bound = turn->bound };
    out->least = out->objective;
    return GY_OK;
}

/* The file of the library with these in place of the library's. */
#define gy_glm_choose(name, problem, feed, tried, err) ((void)(feed), gt_choose(tried, err))
#define gy_glm_referee(answer, out, err) ((void)(answer), gt_referee(out))
#include "engine/glm/glm_train_solve.c"
#undef gy_glm_choose
#undef gy_glm_referee

static int gt_train(const struct gt_case *c, const char *folder, int resume, struct gyre_glm **model, struct gyre_error *error)
{
    static const int64_t start[] = { 0, 1, 2, 3, 4 };
    static const uint32_t id[] = { 0, 1, 0, 1 };
    static const float label[] = { 1, -1, 1, -1 };
    struct gyre_glm_data data;
    struct gyre_glm_config config;
    gyre_glm_data_default(&data);
    data.rows = 4;
    data.start = start;
    data.id = id;
    data.label = label;
    gyre_glm_config_default(&config);
    config.train = &data;
    config.loss = c->hinge ? GYRE_GLM_HINGE : GYRE_GLM_LOGISTIC;
    config.solver = c->own ? "first" : NULL;
    config.threads = 1;
    config.folder = folder;
    config.resume = resume;
    gt_now = c;
    gt_at = 0;
    return gyre_glm_train(model, &config, NULL, error);
}

/* GY_OK is 0, as whatever is not said of a turn. */
static const struct gt_case gt_cases[] = {
    { .name = "the second answer is not finite, the third is the best", .turns = 3, .weight = 3, .why = "gap",
      .turn = { { .weight = 1, .objective = 10, .bound = 5, .why = GY_GLM_STALLED }, { .weight = 2, .objective = HUGE_VAL, .why = GY_GLM_GAP },
                { .weight = 3, .objective = 8, .bound = 8, .why = GY_GLM_GAP } } },
    { .name = "no answer after the first is finite", .turns = 3, .weight = 1, .why = "stalled",
      .turn = { { .weight = 1, .objective = 10, .bound = 5, .why = GY_GLM_STALLED }, { .weight = 2, .objective = HUGE_VAL, .why = GY_GLM_GAP },
                { .weight = 3, .objective = (double)NAN, .why = GY_GLM_GAP } } },
    { .name = "the last solver finds its own answer not finite", .turns = 3, .weight = 1, .why = "stalled",
      .turn = { { .weight = 1, .objective = 10, .bound = 5, .why = GY_GLM_STALLED }, { .weight = 2, .objective = 11, .bound = 4, .why = GY_GLM_STALLED },
                { .status = GY_E_NONFINITE, .weight = 3 } } },
    { .name = "the solver asked for goes on to what is not finite", .own = 1, .turns = 2, .weight = 1, .why = "stalled",
      .turn = { { .weight = 1, .objective = 10, .bound = 9, .why = GY_GLM_GAP }, { .weight = 2, .objective = HUGE_VAL, .why = GY_GLM_GAP } } },
    { .name = "the solver asked for goes on and says so itself", .own = 1, .turns = 2, .weight = 1, .why = "stalled",
      .turn = { { .weight = 1, .objective = 10, .bound = 9, .why = GY_GLM_GAP }, { .status = GY_E_NONFINITE, .weight = 2 } } },
    { .name = "a turn that is stopped has no finite answer", .status = GY_E_STOPPED, .turns = 2, .weight = 1, .why = "stopped",
      .turn = { { .weight = 1, .objective = 10, .bound = 5, .why = GY_GLM_STALLED }, { .status = GY_E_STOPPED, .weight = 2, .objective = HUGE_VAL } } },
    { .name = "weights that are lengthened lose too much", .own = 1, .hinge = 1, .longer = HUGE_VAL, .turns = 1, .weight = 1, .why = "stalled",
      .turn = { { .weight = 1, .objective = 10, .bound = 9, .why = GY_GLM_ROUNDING } } },
    { .name = "the first solver fails, the second does not", .turns = 2, .weight = 2, .why = "gap",
      .turn = { { .status = GY_E_NONFINITE, .weight = 1 }, { .weight = 2, .objective = 8, .bound = 8, .why = GY_GLM_GAP } } },
    { .name = "the first answer is not finite, the second is", .turns = 2, .weight = 2, .why = "gap",
      .turn = { { .weight = 1, .objective = HUGE_VAL, .why = GY_GLM_GAP },
                { .weight = 2, .objective = 8, .bound = 8, .why = GY_GLM_GAP } } },
    { .name = "no answer is finite", .status = GY_E_NONFINITE, .turns = 3,
      .turn = { { .weight = 1, .objective = HUGE_VAL, .why = GY_GLM_GAP },
                { .weight = 2, .objective = HUGE_VAL, .why = GY_GLM_GAP },
                { .weight = 3, .objective = (double)NAN, .why = GY_GLM_GAP } } },
    { .name = "the answer of the solver asked for is not finite", .own = 1,
      .status = GY_E_NONFINITE, .turns = 1,
      .turn = { { .weight = 1, .objective = HUGE_VAL, .why = GY_GLM_GAP } } },
    { .name = "the first answer is not finite, as it was stopped", .status = GY_E_NONFINITE,
      .turns = 1, .turn = { { .status = GY_E_STOPPED, .weight = 1, .objective = HUGE_VAL } } },
    { .name = "no solver has an answer", .status = GY_E_NONFINITE, .turns = 3,
      .turn = { { .status = GY_E_NONFINITE }, { .status = GY_E_NONFINITE }, { .status = GY_E_NONFINITE } } },
    { .name = "the second solver is short of memory", .turns = 2, .weight = 1, .why = "stalled",
      .turn = { { .weight = 1, .objective = 10, .bound = 5, .why = GY_GLM_STALLED },
                { .status = GY_E_NOMEM, .weight = 2 } } },
    { .name = "the first solver is short of memory", .status = GY_E_NOMEM, .turns = 1,
      .turn = { { .status = GY_E_NOMEM, .weight = 1 } } },
    { .name = "another error ends it", .status = GY_E_IO, .turns = 2,
      .turn = { { .weight = 1, .objective = 10, .bound = 5, .why = GY_GLM_STALLED }, { .status = GY_E_IO } } },
};

static void test_turns(void)
{
    for (size_t i = 0; i < GY_COUNT(gt_cases); i++) {
        const struct gt_case *const c = &gt_cases[i];
        struct gyre_glm *model = NULL;
        struct gyre_error error = { 0 };
        struct gyre_glm_part part;
        const int status = gt_train(c, NULL, 0, &model, &error);
        T_CHECK_MSG(status == c->status && gt_at == c->turns, "%s: status %d after %d turns: %s", c->name, status, gt_at, error.text);
        T_CHECK_MSG(c->why ? model != NULL : !model, "%s", c->name);
        if (model && T_CHECK(gyre_glm_get_part(model, 0, &part) == GYRE_OK))
            T_CHECK_MSG(part.weight[0] == c->weight && c->why && strcmp(part.why, c->why) == 0 && isfinite(part.objective), "%s: weight %g, %s, objective %g",
                        c->name, (double)part.weight[0], part.why, part.objective);
        gyre_glm_close(model);
    }
}

/* The checkpoint that such a training leaves begins the next one with numbers. */
static void test_checkpoint(void)
{
    static const struct gt_case spoilt = { .own = 1, .hinge = 1, .longer = 20,
        .turn = { { .weight = 1, .objective = 10, .bound = 9, .why = GY_GLM_GAP }, { .weight = 2, .objective = HUGE_VAL, .why = GY_GLM_GAP } } };
    static const struct gt_case next = { .own = 1, .hinge = 1, .longer = 20, .turn = { { .weight = 3, .objective = 8, .bound = 8, .why = GY_GLM_GAP } } };
    struct gyre_glm *model = NULL;
    struct gyre_error error = { 0 };
    gt_spoils = 1;
    T_CHECK_MSG(gt_train(&spoilt, df_path("run"), 0, &model, &error) == GYRE_OK, "%s", error.text);
    gyre_glm_close(model);
    model = NULL;
    gt_warm_bad = 0;
    T_CHECK_MSG(gt_train(&next, df_path("run"), 1, &model, &error) == GYRE_OK, "%s", error.text);
    T_CHECK(gt_at == 1 && !gt_warm_bad);
    gyre_glm_close(model);
}

int main(void)
{
    df_open();
    test_turns();
    test_checkpoint();
    df_remove(df_root);
    T_END("t_glm_turns");
}
