/* SPDX-License-Identifier: MIT */
/* Every loss in every table: conjugates, domains, slopes and rows' gaps beside their definitions, by numeric minimisation in long double; certificates of
 * dual numbers that are none; and the optimum that coordinate ascent finds beside one found slowly, from the definitions alone. */
#include "engine/glm/glm_model.h"
#include "engine/glm/solve/sdca_state.h"
#include "tests/glm_small.h"
#include "tests/t.h"

/* ---- definitions ---- */

struct ls_row {
    int loss;
    long double y, c, g; /* g: what its features count */
};

/* c l(y, z) + g z, whose minimum over z is the conjugate. */
static long double ls_tilted(const struct ls_row *r, long double z) { return r->c * gs_loss(r->loss, r->y, z) + r->g * z; }

/* Of a convex function of z in [lo, hi]. */
static long double ls_least(const struct ls_row *r, long double lo, long double hi)
{
    for (int i = 0; i < 300; i++) {
        const long double a = lo + (hi - lo) / 3, b = hi - (hi - lo) / 3;
        if (ls_tilted(r, a) < ls_tilted(r, b))
            hi = b;
        else
            lo = a;
    }
    return ls_tilted(r, (lo + hi) / 2);
}

static struct ls_row ls_row_of(int loss, double y, double dual, double c)
{
    return (struct ls_row){ loss, (long double)y, (long double)c, gs_coefficient(loss, (long double)y, (long double)dual, (long double)c) };
}

/* Dual numbers inside the domain of each loss, times c but for logits. */
static const float ls_inside[GY_GLM_LOSSES][5] = { { -30, -2, 0, 1.5f, 20 }, { -40, -1, 0, 0.5f, 9 }, { 0, 0.25f, 0.5f, 0.875f, 1 }, { 0, 0.25f, 1, 2, 30 } };
static const float ls_y[GY_GLM_LOSSES][2] = { { -1, 1 }, { -3, 0.75f }, { -1, 1 }, { -1, 1 } };

static void ls_point(int loss, float y, float c, float dual, float z)
{
    const struct ls_row row = ls_row_of(loss, (double)y, (double)dual, (double)c);
    const long double least = ls_least(&row, -120, 120), want = ls_tilted(&row, (long double)z) - least;
    const double size = (double)(row.c * gs_loss(loss, row.y, (long double)z) + fabsl(least) + fabsl(row.g * (long double)z));
    const double conjugate = gy_glm_conjugate(loss, (double)y, (double)dual, (double)c);
    const double gap = gy_glm_row_gap(loss, (double)y, (double)z, (double)dual, (double)c);
    T_CHECK_MSG(fabs(conjugate - (double)least) <= 1e-9 * size + 1e-12, "%s: conjugate at %g (y %g, c %g) is %.12g, the least of all z %.12Lg",
                gy_glm_loss_name(loss), (double)dual, (double)y, (double)c, conjugate, least);
    T_CHECK_MSG(fabs(gap - (double)want) <= 1e-9 * size + 1e-12, "%s: gap at z %g, dual %g (y %g, c %g) is %.12g, by definition %.12Lg", gy_glm_loss_name(loss),
                (double)z, (double)dual, (double)y, (double)c, gap, want);
    T_CHECK(gy_glm_is_dual(loss, (double)dual, (double)c));
}

/* The coefficient of the slope's dual number is -c dl/dz, and its row lacks nothing. */
static void ls_slope(int loss, float y, float c, float z)
{
    const float dual = gy_glm_slope_dual(loss, y, z, c);
    const long double h = 1e-6L, dz = (gs_loss(loss, (long double)y, (long double)z + h) - gs_loss(loss, (long double)y, (long double)z - h)) / (2 * h);
    const double found = (double)gy_glm_coefficient(loss, y, dual, c), want = -(double)c * (double)dz;
    const double gap = gy_glm_row_gap(loss, (double)y, (double)z, (double)dual, (double)c);
    T_CHECK_MSG(fabs(found - want) <= 1e-6 * (1 + fabs(want)), "%s: slope at z %g (y %g, c %g): %.9g, numerically %.9g", gy_glm_loss_name(loss), (double)z,
                (double)y, (double)c, found, want);
    T_CHECK_MSG(gap >= -1e-12 && gap <= 1e-9 * (1 + fabs(want)), "%s: gap at the slope of z %g (y %g, c %g): %g", gy_glm_loss_name(loss), (double)z, (double)y,
                (double)c, gap);
}

/* Each loss has a name of its own, and numbers in the tables above. */
static void test_names(void)
{
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        if (!T_CHECK(gy_glm_loss_name(loss) != NULL))
            continue;
        T_CHECK_MSG(ls_y[loss][0] < ls_y[loss][1] && ls_inside[loss][0] < ls_inside[loss][4], "%s: no dual numbers here", gy_glm_loss_name(loss));
        for (int other = 0; other < loss; other++)
            T_CHECK_MSG(strcmp(gy_glm_loss_name(loss), gy_glm_loss_name(other)) != 0, "%s: losses %d and %d", gy_glm_loss_name(loss), loss, other);
    }
    T_CHECK(gy_glm_loss_name(-1) == NULL && gy_glm_loss_name(GY_GLM_LOSSES) == NULL);
}

static void test_definitions(void)
{
    static const float z[] = { -5, -1.25f, 0, 0.5f, 3 }, c[] = { 0.125f, 1, 6 };
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++)
        for (size_t k = 0; k < 2 * GY_COUNT(c) * GY_COUNT(z); k++) {
            const float y = ls_y[loss][k % 2], weight = c[k / 2 % GY_COUNT(c)], score = z[k / 2 / GY_COUNT(c)];
            ls_slope(loss, y, weight, score);
            for (int i = 0; i < 5; i++)
                ls_point(loss, y, weight, ls_inside[loss][i] * (loss == GY_GLM_LOGISTIC ? 1 : weight), score);
        }
}

/* ---- certificates of what is no dual number ---- */

enum { LS_ROWS = 5, LS_C = 2 };

struct ls_data {
    struct glm_data data;
    int64_t start[LS_ROWS + 1];
    uint32_t id[2 * LS_ROWS];
    float value[2 * LS_ROWS], label[LS_ROWS], weight[LS_ROWS], dual[LS_ROWS];
};

static void ls_make(struct ls_data *d, int loss)
{
    memset(d, 0, sizeof *d);
    for (int i = 0; i < LS_ROWS; i++) {
        d->start[i + 1] = 2 * i + 2;
        d->id[2 * i + 1] = 1;
        d->value[2 * i] = 0.5f * (float)(i - 2);
        d->value[2 * i + 1] = 1 + 0.25f * (float)i;
        d->label[i] = ls_y[loss][i % 2];
        d->weight[i] = LS_C;
        d->dual[i] = ls_inside[loss][i] * (loss == GY_GLM_LOGISTIC ? 1 : LS_C);
    }
    d->data = (struct glm_data){ .rows = LS_ROWS, .entries = 2 * LS_ROWS, .start = d->start, .id = d->id, .value = d->value, .label = d->label,
                                 .weight = d->weight, .feed = { .features = 2 } };
    glm_data_cut(&d->data, 1, 1);
}

static struct gy_glm_problem ls_problem(int loss, double l2)
{
    return (struct gy_glm_problem){ .loss = loss, .l2 = l2, .target = loss == GY_GLM_SQUARED ? GY_GLM_TARGET_VALUE : GY_GLM_TARGET_CLASS, .positive = 1,
                                    .class_weight = { 1, 1 } };
}

static double ls_bound(struct ls_data *d, int loss, double *primal)
{
    static const float w[2] = { 0.5f, -0.25f };
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_glm_problem problem = ls_problem(loss, 0.5);
    struct gy_glm_run run = { .problem = &problem, .feed = &d->data.feed, .alloc = &alloc };
    struct gy_glm_certificate at = { 0 };
    struct gy_error err = { 0 };
    T_CHECK(gy_pool_open(&run.pool, &alloc, 1, &err) == GY_OK && gy_glm_certify(&run, w, d->dual, &at, &err) == GY_OK);
    gy_pool_close(run.pool);
    T_CHECK(at.gap == at.primal - at.dual);
    *primal = at.primal;
    return at.dual;
}

/* A bound of dual numbers that are some, -INFINITY as soon as one is none; what stands at a row of weight 0 is not looked at. */
static void test_infeasible(void)
{
    static const float none[] = { NAN, INFINITY, -INFINITY, -1e-6f, LS_C * 1.000001f }; /* the finite ones: of some losses */
    for (int k = 0; k < GY_GLM_LOSSES * (int)GY_COUNT(none); k++) {
        struct ls_data d;
        double primal, all;
        const int loss = k / (int)GY_COUNT(none);
        const float dual = none[k % (int)GY_COUNT(none)];
        if (isfinite(gs_conjugate(loss, 1, (long double)dual, LS_C))) {
            T_CHECK(isfinite(dual) && gy_glm_is_dual(loss, (double)dual, LS_C));
            continue;
        }
        ls_make(&d, loss);
        const struct gy_glm_problem problem = ls_problem(loss, 0.5);
        const double whole = ls_bound(&d, loss, &all), want = (double)gs_sums_of(&problem, &d.data, (float[2]){ 0.5f, -0.25f }, d.dual).dual;
        T_CHECK_MSG(fabs(whole - want) <= 1e-12 * (1 + fabs(want)), "%s: bound %.15g, plainly %.15g", gy_glm_loss_name(loss), whole, want);
        for (int i = 0; i < LS_ROWS; i++) {
            const float was = d.dual[i];
            d.dual[i] = dual;
            T_CHECK(!gy_glm_is_dual(loss, (double)d.dual[i], LS_C));
            const double bound = ls_bound(&d, loss, &primal);
            T_CHECK_MSG(bound == -HUGE_VAL && primal == all, "%s: dual number %g of row %d: bound %g", gy_glm_loss_name(loss), (double)d.dual[i], i, bound);
            d.weight[i] = 0;
            T_CHECK_MSG(isfinite(ls_bound(&d, loss, &primal)), "%s: dual number %g of a row that does not count", gy_glm_loss_name(loss), (double)d.dual[i]);
            d.weight[i] = LS_C;
            d.dual[i] = was;
        }
        free(d.data.offsets);
        free(d.data.view);
    }
}

/* ---- optima ---- */

enum { LS_MOST = 40, LS_WIDE = 8 };

/* Rows, dense; the dual objective as a function of all coefficients. */
struct ls_slow {
    const struct gy_glm_problem *problem;
    int rows, dim;
    long double x[LS_MOST][LS_WIDE], y[LS_MOST], c[LS_MOST], part[LS_MOST]; /* part: a dual number over c; of the logistic loss sig of one */
    long double u[LS_WIDE];
};

static long double ls_count(const struct ls_slow *s, int i, long double part)
{
    return s->problem->loss == GY_GLM_SQUARED ? s->c[i] * part : s->y[i] * s->c[i] * part;
}

static long double ls_conjugate(const struct ls_slow *s, int i, long double part)
{
    const long double rest = 1 - part;
    if (s->problem->loss == GY_GLM_LOGISTIC)
        return -s->c[i] * ((part > 0 ? part * logl(part) : 0) + (rest > 0 ? rest * logl(rest) : 0));
    return gs_conjugate(s->problem->loss, s->y[i], s->c[i] * part, s->c[i]);
}

/* What is of D where row i has another number and the others stay. */
static long double ls_dual_of(const struct ls_slow *s, int i, long double part)
{
    const long double step = (ls_count(s, i, part) - ls_count(s, i, s->part[i])) / (long double)s->problem->l2;
    const long double soft = (long double)s->problem->l1 / (long double)s->problem->l2;
    long double square = 0;
    for (int j = 0; j < s->dim; j++) {
        const long double over = fmaxl(fabsl(s->u[j] + step * s->x[i][j]) - soft, 0);
        square += over * over;
    }
    return ls_conjugate(s, i, part) - (long double)s->problem->l2 / 2 * square;
}

/* The best number of row i, by thirds. */
static void ls_visit(struct ls_slow *s, int i)
{
    static const long double most[GY_GLM_LOSSES] = { 1, 60, 1, 60 }, least[GY_GLM_LOSSES] = { 0, -60, 0, 0 };
    long double lo = least[s->problem->loss], hi = most[s->problem->loss];
    for (int k = 0; k < 110; k++) {
        const long double a = lo + (hi - lo) / 3, b = hi - (hi - lo) / 3;
        if (ls_dual_of(s, i, a) > ls_dual_of(s, i, b))
            hi = b;
        else
            lo = a;
    }
    const long double part = (lo + hi) / 2, step = (ls_count(s, i, part) - ls_count(s, i, s->part[i])) / (long double)s->problem->l2;
    for (int j = 0; j < s->dim; j++)
        s->u[j] += step * s->x[i][j];
    s->part[i] = part;
}

/* P at the weights of u, and D. */
static void ls_sums(const struct ls_slow *s, long double *primal, long double *dual)
{
    const long double l1 = (long double)s->problem->l1, l2 = (long double)s->problem->l2;
    long double w[LS_WIDE];
    *primal = *dual = 0;
    for (int j = 0; j < s->dim; j++) {
        w[j] = copysignl(fmaxl(fabsl(s->u[j]) - l1 / l2, 0), s->u[j]);
        *primal += l2 / 2 * w[j] * w[j] + l1 * fabsl(w[j]);
        *dual -= l2 / 2 * w[j] * w[j];
    }
    for (int i = 0; i < s->rows; i++) {
        long double z = 0;
        for (int j = 0; j < s->dim; j++)
            z += s->x[i][j] * w[j];
        *primal += s->c[i] * gs_loss(s->problem->loss, s->y[i], z);
        *dual += ls_conjugate(s, i, s->part[i]);
    }
}

static void ls_fill(struct ls_slow *s, const struct gy_glm_problem *problem, const struct glm_data *d)
{
    const struct gy_rows view = { .label = d->label, .weight = d->weight };
    memset(s, 0, sizeof *s);
    s->problem = problem;
    s->rows = (int)d->rows;
    s->dim = (int)d->feed.features + (problem->bias != 0);
    for (int i = 0; i < s->rows; i++) {
        const float y = gy_glm_y(problem, &view, i);
        s->y[i] = (long double)y;
        s->c[i] = (long double)gy_glm_c(problem, &view, i, y);
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++)
            s->x[i][d->id[e]] += (long double)d->value[e];
        if (problem->bias != 0)
            s->x[i][d->feed.features] = (long double)problem->bias;
    }
}

static void ls_optimum(int loss, int kind)
{
    static struct ls_slow slow;
    const struct gy_alloc alloc = gy_alloc_default();
    const struct glm_data_kind rows = { .rows = 24, .features = 5, .most = 4, .values = 1, .regression = loss == GY_GLM_SQUARED, .seed = 40 + (uint64_t)kind };
    struct gy_glm_problem problem = ls_problem(loss, kind ? 3 : 0.5);
    struct glm_data data;
    struct gy_error err = { 0 };
    float w[LS_WIDE];
    long double primal = 1, dual = 0;
    glm_data_random(&data, &rows);
    data.weight = glm_data_grow(NULL, (size_t)data.rows * sizeof *data.weight);
    for (int64_t i = 0; i < data.rows; i++)
        data.weight[i] = 0.5f + (float)(i % 4);
    glm_data_cut(&data, 2, 1);
    problem.bias = kind == 1 ? 0.5 : 0;
    problem.l1 = kind == 2 ? 0.75 : 0;
    ls_fill(&slow, &problem, &data);
    for (int sweep = 0; sweep < 4000 && primal - dual > 1e-10L * primal; sweep++) {
        for (int i = 0; i < slow.rows; i++)
            ls_visit(&slow, i);
        if (sweep % 20 == 0)
            ls_sums(&slow, &primal, &dual);
    }
    ls_sums(&slow, &primal, &dual);
    T_CHECK_MSG(primal - dual <= 1e-8L * primal && primal >= dual - 1e-14L * primal, "%s, kind %d: the slow optimum is in %.12Lg to %.12Lg",
                gy_glm_loss_name(loss), kind, dual, primal);
    for (int threads = 1; threads <= 2; threads++) {
        struct gy_glm_run run = { .problem = &problem, .feed = &data.feed, .alloc = &alloc, .w = w, .seed = 1, .stop = { .gap = 1e-6, .epochs = 5000 } };
        memset(w, 0, sizeof w);
        T_CHECK(gy_pool_open(&run.pool, &alloc, threads, &err) == GY_OK && gy_glm_sdca()->solve(&run, &err) == GY_OK);
        gy_pool_close(run.pool);
        T_CHECK_MSG(strcmp(run.why, "gap") == 0 && run.result.primal >= (double)dual * (1 - 1e-12) && run.result.dual <= (double)primal * (1 + 1e-12) &&
                    run.result.primal - (double)primal <= 1e-6 * run.result.primal, "%s, kind %d, %d threads: '%s', P %.12g, D %.12g; the optimum is %.12Lg",
                    gy_glm_loss_name(loss), kind, threads, run.why, run.result.primal, run.result.dual, primal);
    }
    glm_data_free(&data);
}

static void test_optima(void)
{
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++)
        for (int kind = 0; kind < 3; kind++)
            ls_optimum(loss, kind);
}

/* ---- curvatures ---- */

/* The largest second derivative, numerically. */
static double ls_curvature(int loss)
{
    long double most = 0;
    for (int k = -4000; k <= 4000; k++) {
        const long double h = 1e-3L, z = (long double)k / 1000 + 0.0003L;
        const long double second = (gs_loss(loss, 1, z + h) - 2 * gs_loss(loss, 1, z) + gs_loss(loss, 1, z - h)) / (h * h);
        most = fmaxl(most, second);
    }
    return (double)most;
}

static double ls_kappa(int loss, double l2, double square, double rows)
{
    const struct gy_glm_problem problem = ls_problem(loss, l2);
    struct gy_glm_run run = { .problem = &problem };
    const struct gy_sdca s = { .run = &run };
    return gy_sdca_kappa(&s, square, rows);
}

/* The first kappa goes with the curvature where there is one; without, it lies between l2 and the rows' size, as their geometric mean does. */
static void test_kappa(void)
{
    const double one = ls_kappa(GY_GLM_SQUARED, 1, 600, 100) / ls_curvature(GY_GLM_SQUARED);
    T_CHECK_MSG(fabs(one - 1.5) < 1e-6, "%g for a mean of 6", one);
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        const double kappa = ls_kappa(loss, 1, 600, 100), want = loss == GY_GLM_HINGE ? 1.2 * sqrt(6) : one * ls_curvature(loss);
        T_CHECK_MSG(fabs(kappa - want) <= 1e-4 * want, "%s: kappa %g, not %g", gy_glm_loss_name(loss), kappa, want);
        T_CHECK(ls_kappa(loss, 1, 1e3, 1) < ls_kappa(loss, 1, 1e9, 1) && ls_kappa(loss, 1, 1e9, 1) == ls_kappa(loss, 1, 1e10, 1));
    }
    T_CHECK(fabs(ls_kappa(GY_GLM_HINGE, 4, 600, 100) - 2 * ls_kappa(GY_GLM_HINGE, 1, 600, 100)) < 1e-9);
}

/* The l2 below which passes of ascent are expected to take longer than Newton's method, for a loss that bends so. */
static double ls_turn(int loss, uint32_t features)
{
    const struct gy_glm_feed feed = { .rows = 100000, .all_rows = 100000, .entries = 10000000, .features = features };
    double lo = 1e-12, hi = 1e6;
    for (int k = 0; k < 200; k++) {
        const double l2 = sqrt(lo * hi);
        const struct gy_glm_problem problem = ls_problem(loss, l2);
        struct gy_error err = { 0 };
        if (strcmp(gy_glm_choose(NULL, &problem, &feed, NULL, &err)->name, "sdca") == 0)
            hi = l2;
        else
            lo = l2;
    }
    return hi;
}

/* The choice of a solver looks at curvature over l2. Of the hinge loss, which has none, Newton's method is for few features. */
static void test_choice(void)
{
    const double one = ls_turn(GY_GLM_SQUARED, 5000) / ls_curvature(GY_GLM_SQUARED), hinge = ls_turn(GY_GLM_HINGE, 500);
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        const double turn = ls_turn(loss, 5000), want = one * ls_curvature(loss);
        T_CHECK_MSG(loss == GY_GLM_HINGE || fabs(turn - want) <= 1e-3 * want, "%s: from an l2 of %g on, not %g", gy_glm_loss_name(loss), turn, want);
    }
    T_CHECK_MSG(hinge > 3.5 && hinge < 7, "hinge: from an l2 of %g on", hinge);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_names();
    test_definitions();
    test_infeasible();
    test_optima();
    test_kappa();
    test_choice();
    T_END("t_glm_losses");
}
