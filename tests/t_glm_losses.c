/* SPDX-License-Identifier: MIT */
/* t_glm_losses.c: every loss in every table. Conjugates, domains, slopes and rows' gaps stand
 * beside their definitions, by numeric minimisation in long double. So do certificates of dual
 * variables that are none, and the optimum of coordinate ascent beside one found slowly, from the
 * definitions alone. */
#include "engine/glm/glm_model.h"
#include "engine/glm/solve/sdca_state.h"
#include "tests/glm_small.h"
#include "tests/t.h"

enum { LS_DRAWS = 120, LS_SEED = 35 };

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

/* One random row: a label y of the loss, a score, and a dual variable in the loss's domain. Both
 * are often at a border or a kink. */
struct ls_draw {
    const struct gy_glm_loss *row;
    int loss;
    float y, c, z, dual, q;
};

static float ls_number(uint64_t n, uint32_t what) { return gy_rng_uniform(LS_SEED, what, 0, n); }

static float ls_clip(double x) { return (float)fmax(-40, fmin(x, 40)); }

static struct ls_draw ls_draw_of(int loss, uint64_t n)
{
    struct ls_draw d = { .row = gy_glm_loss_at(loss), .loss = loss };
    const int at = (int)(8 * ls_number(n, 1)), edge = (int)(8 * ls_number(n, 2));
    d.y = d.row->labels == GY_GLM_NUMBERS ? 3 * gy_rng_normal(LS_SEED, 3, 0, n) : ls_number(n, 3) < 0.5f ? -1.0f : 1.0f;
    d.c = ldexpf(1 + ls_number(n, 4), (int)(6 * ls_number(n, 5)) - 3);
    d.z = at == 0 ? 0 : at == 1 ? d.y : 3 * gy_rng_normal(LS_SEED, 6, 0, n);
    d.q = edge == 7 ? 0 : 4 * ls_number(n, 8);
    if (d.row->form == GY_GLM_LOGIT)
        d.dual = 6 * gy_rng_normal(LS_SEED, 7, 0, n);
    else {
        const float lo = ls_clip(d.row->least), hi = ls_clip(d.row->most), part = edge == 0 ? 0 : edge == 1 ? 1 : ls_number(n, 7);
        d.dual = d.c * (lo + part * (hi - lo));
    }
    return d;
}

static struct ls_row ls_row_of(const struct ls_draw *d, double dual)
{
    const long double y = (long double)d->y, c = (long double)d->c;
    return (struct ls_row){ d->loss, y, c, gs_coefficient(d->loss, y, (long double)dual, c) };
}

static void ls_conjugate_and_gap(const struct ls_draw *d)
{
    const struct ls_row row = ls_row_of(d, (double)d->dual);
    const double y = (double)d->y, c = (double)d->c, z = (double)d->z, dual = (double)d->dual;
    const long double least = ls_least(&row, -120, 120), want = ls_tilted(&row, (long double)z) - least;
    const double size = (double)(row.c * gs_loss(d->loss, row.y, (long double)z) + fabsl(least) + fabsl(row.g * (long double)z));
    const double conjugate = gy_glm_conjugate(d->row, y, dual, c), gap = d->row->gap(y, z, dual, c), seen = (double)d->row->gap_seen(d->y, d->z, d->dual, d->c);
    T_CHECK_MSG(fabs(conjugate - (double)least) <= 1e-9 * size + 1e-12, "%s: conjugate at %g (y %g, c %g) is %.12g, the least of all z %.12Lg",
                d->row->name, dual, y, c, conjugate, least);
    T_CHECK_MSG(fabs(gap - (double)want) <= 1e-9 * size + 1e-12, "%s: gap at z %g, dual %g (y %g, c %g) is %.12g, by definition %.12Lg", d->row->name, z,
                dual, y, c, gap, want);
    T_CHECK_MSG(d->row->form == GY_GLM_LOGIT || fabs(seen - gap) <= 1e-5 * size, "%s: gap at z %g, dual %g (y %g, c %g) is %g as it is seen, really %g",
                d->row->name, z, dual, y, c, seen, gap);
    /* a logit's gap_seen is quadratic, so it is compared where the gap is small */
    const float near = d->y * (0.0625f - d->dual);
    const double there = d->row->gap(y, (double)near, dual, c), square = (double)d->row->gap_seen(d->y, near, d->dual, d->c);
    T_CHECK_MSG(d->row->form != GY_GLM_LOGIT || fabs(square - there) <= 0.04 * there, "%s: gap at dual %g is %g as it is seen, really %g", d->row->name, dual,
                square, there);
    const double g = (double)d->row->coefficient(d->y, d->dual, d->c);
    T_CHECK_MSG(fabs(g - (double)row.g) <= 1e-6 * (double)fabsl(row.g), "%s: coefficient %g, not %Lg", d->row->name, g, row.g);
    T_CHECK_MSG(d->row->form == GY_GLM_LOGIT || fabs(gy_glm_sign(d->row, y) * dual - g) <= 1e-6 * fabs(g), "%s: sign", d->row->name);
    const double bent = (d->row->form == GY_GLM_NUMBER ? dual * y : dual) - gy_glm_bend(d->row) * dual * dual / c;
    T_CHECK_MSG(d->row->form == GY_GLM_LOGIT || fabs(bent - conjugate) <= 1e-9 * size + 1e-12, "%s: curvature says the conjugate is %g, it is %g",
                d->row->name, bent, conjugate);
}

/* The coefficient of the slope's dual variable is -c dl/dz, and its row has no gap. The steepest
 * slope nearby is no smaller. */
static void ls_slope(const struct ls_draw *d)
{
    const double y = (double)d->y, c = (double)d->c, z = (double)d->z + 1e-3; /* at no kink */
    const float dual = (float)gy_glm_dual_at(d->row, y, (double)(float)z, c);
    const long double ly = (long double)d->y, lz = (long double)(float)z, h = 1e-6L;
    const long double up = gs_loss(d->loss, ly, lz + h), mid = gs_loss(d->loss, ly, lz), down = gs_loss(d->loss, ly, lz - h);
    const double slope = (double)((up - down) / (2 * h)), want = -c * slope, found = (double)d->row->coefficient(d->y, dual, d->c);
    const double gap = d->row->gap(y, (double)(float)z, (double)dual, c), second = (double)((up - 2 * mid + down) / (h * h));
    double first, bend;
    d->row->slopes(y, (double)(float)z, &first, &bend);
    T_CHECK_MSG(fabs(d->row->value(y, (double)(float)z) - (double)mid) <= 1e-12 * (1 + (double)mid), "%s: value at %g", d->row->name, z);
    T_CHECK_MSG(fabs(first - slope) <= 1e-6 * (1 + fabs(slope)) && fabs(bend - second) <= 1e-3 * (1 + second), "%s: slopes at %g: %g %g, numerically %g %g",
                d->row->name, z, first, bend, slope, second);
    T_CHECK_MSG(fabs(found - want) <= 1e-6 * (c + fabs(want)), "%s: slope at z %g (y %g, c %g): %.9g, numerically %.9g", d->row->name, z, y, c, found, want);
    T_CHECK_MSG(gap >= -1e-12 * c && gap <= 1e-9 * (c + fabs(want)), "%s: gap at the slope of z %g (y %g, c %g): %g", d->row->name, z, y, c, gap);
    for (int k = 0; k < 9; k++) {
        const double off = (double)ls_number((uint64_t)k, 30) * 2, at = (double)(float)z + off * (k % 2 ? -1 : 1);
        const double near = (double)fabsl(gs_slope(d->loss, ly, (long double)at)), steepest = d->row->steepest(y, (double)(float)z, off);
        T_CHECK_MSG(near <= steepest * (1 + 1e-12), "%s: slope %g within %g of %g, none above %g", d->row->name, near, off, z, steepest);
        T_CHECK_MSG(steepest <= 4 * off + 4 * fabs(slope) + (off < 0.5 ? 0 : 1) + (d->row->smooth == GY_GLM_KINK && fabs(1 - y * z) < off + 0.01),
                    "%s: steepest %g within %g of %g, where it is %g", d->row->name, steepest, off, z, slope);
    }
}

/* c (l(z + g) - 2 l(z) + l(z - g)), its most for any z so near. */
static double ls_second(const struct ls_draw *d, double z, double g, double wide)
{
    long double most = 0;
    for (int k = -20; k <= 20; k++) {
        const long double y = (long double)d->y, at = (long double)(z + wide * k / 20), h = (long double)g;
        most = fmaxl(most, (long double)d->c * (gs_loss(d->loss, y, at + h) - 2 * gs_loss(d->loss, y, at) + gs_loss(d->loss, y, at - h)));
    }
    return (double)most;
}

static void ls_moved(const struct ls_draw *d)
{
    const double grid = 1e-3, z = (double)d->z, moved = d->row->moved((double)d->y, z, (double)d->c, grid);
    const double least = ls_second(d, z, grid, 0), most = ls_second(d, z, grid, 2 * grid);
    T_CHECK_MSG(moved >= 0.999 * least - 1e-15 && moved <= 4.1 * most + 1e-15, "%s: moves by %g in a grid of %g at %g, which bends by %g to %g", d->row->name,
                moved, grid, z, least, most);
}

/* What is of D for this row alone where its dual variable moves from d->dual. */
static double ls_row_dual(const struct ls_draw *d, double dual)
{
    const long double y = (long double)d->y, c = (long double)d->c, from = gs_coefficient(d->loss, y, (long double)d->dual, c);
    const long double by = gs_coefficient(d->loss, y, (long double)dual, c) - from, conjugate = gs_conjugate(d->loss, y, (long double)dual, c);
    return (double)(conjugate - by * (long double)d->z - (long double)d->q / 2 * by * by);
}

/* No dual variable of a grid around is better than the step's. */
static void ls_step(const struct ls_draw *d)
{
    const double dual = (double)d->row->step(d->y, d->z, d->dual, d->q, d->c), best = ls_row_dual(d, dual);
    /* a row without features gets dual variable c, for its score stays 0 */
    if (d->q <= 0 && d->row->smooth == GY_GLM_KINK)
        return;
    T_CHECK_MSG(isfinite(best), "%s: a step to %g, which is none (y %g, c %g)", d->row->name, dual, (double)d->y, (double)d->c);
    for (int k = -200; k <= 200; k++) {
        const double other = dual + (k % 2 ? 1e-3 : 0.2) * k, there = ls_row_dual(d, other);
        T_CHECK_MSG(there <= best + 1e-5 * ((double)d->c + fabs(best) + fabs((double)d->dual * (double)d->z)),
                    "%s: from %g a step to %g with %.9g; %g has %.9g (y %g, z %g, q %g, c %g)", d->row->name, (double)d->dual, dual, best, other, there,
                    (double)d->y, (double)d->z, (double)d->q, (double)d->c);
    }
}

/* ---- domains ---- */

/* By definition: the tilted loss falls for ever in neither direction. */
static int ls_is_bounded(const struct ls_draw *d, double dual)
{
    const struct ls_row row = ls_row_of(d, dual);
    const long double far = 1e7L, slack = 1e-4L * row.c * 1e-3L;
    return ls_tilted(&row, 2 * far) >= ls_tilted(&row, far) - slack && ls_tilted(&row, -2 * far) >= ls_tilted(&row, -far) - slack;
}

static void ls_border(const struct ls_draw *d, double dual)
{
    const int inside = gy_glm_is_dual(d->row, dual, (double)d->c), bounded = isfinite(dual) && ls_is_bounded(d, dual);
    const double conjugate = gy_glm_conjugate(d->row, (double)d->y, dual, (double)d->c);
    T_CHECK_MSG(inside == bounded, "%s: %.9g with c %.9g %s a dual number by its row, %s by definition", d->row->name, dual, (double)d->c,
                inside ? "is" : "is not", bounded ? "is" : "is not");
    T_CHECK_MSG(bounded ? isfinite(conjugate) : conjugate == -HUGE_VAL, "%s: conjugate at %.9g with c %.9g is %g", d->row->name, dual, (double)d->c, conjugate);
}

/* On, just inside and just beyond 0, -c and c; far away; and what is no number. */
static void ls_borders(const struct ls_draw *d)
{
    const float at[] = { 0, d->c, -d->c, 30 * d->c, -30 * d->c };
    for (size_t k = 0; k < GY_COUNT(at); k++) {
        ls_border(d, (double)at[k]);
        ls_border(d, (double)at[k] - 1e-6 * (double)d->c);
        ls_border(d, (double)at[k] + 1e-6 * (double)d->c);
    }
    ls_border(d, (double)NAN);
    ls_border(d, (double)INFINITY);
    ls_border(d, -(double)INFINITY);
    ls_border(d, (double)d->dual);
}

static void test_definitions(void)
{
    printf("%d draws of seed %d\n", LS_DRAWS, LS_SEED);
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++)
        for (uint64_t n = 0; n < LS_DRAWS; n++) {
            const struct ls_draw d = ls_draw_of(loss, n);
            ls_conjugate_and_gap(&d);
            ls_slope(&d);
            ls_moved(&d);
            ls_step(&d);
            ls_borders(&d);
        }
}

/* ---- rows ---- */

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

/* Whether the slope jumps anywhere; whether l'' is the same everywhere. */
static enum gy_glm_smooth ls_smooth(const struct gy_glm_loss *row)
{
    double jump = 0, least = HUGE_VAL, most = 0;
    for (int k = -3000; k <= 3000; k++) {
        double a, b, second, other;
        row->slopes(1, k * 1e-3 - 1e-9, &a, &second);
        row->slopes(1, k * 1e-3 + 1e-9, &b, &other);
        jump = fmax(jump, fabs(a - b));
        least = fmin(least, second);
        most = fmax(most, second);
    }
    return jump > 1e-3 ? GY_GLM_KINK : least == most ? GY_GLM_QUADRATIC : GY_GLM_SMOOTH;
}

/* A row answers every question: what nobody gave is 0 or NULL. */
static void test_rows(void)
{
    T_CHECK(!gy_glm_loss_at(-1) && !gy_glm_loss_at(GY_GLM_LOSSES) && !gy_glm_loss_name(-1) && !gy_glm_loss_name(GY_GLM_LOSSES));
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        const struct gy_glm_loss *const row = gy_glm_loss_at(loss);
        const char *const words[] = { row->name, row->symbol, row->liblinear[0], row->liblinear[1] };
        int given = row->step && row->coefficient && row->value && row->slopes && row->conjugate_inside && row->gap && row->gap_seen &&
                    row->steepest && row->moved && row->labels && row->form && row->smooth && row->curvature > 0 && row->most > row->least;
        for (size_t k = 0; k < GY_COUNT(words); k++)
            given = given && words[k] && words[k][0];
        T_CHECK_MSG(given, "loss %d (%s): its row has not all fields", loss, row->name ? row->name : "no name");
        if (!given)
            exit(1);
        T_CHECK_MSG(row->symbol[strspn(row->symbol, "abcdefghijklmnopqrstuvwxyz_")] == 0, "%s: '%s' is no symbol", row->name, row->symbol);
        T_CHECK_MSG((row->smooth == GY_GLM_KINK) == isinf(row->curvature) && row->smooth == ls_smooth(row), "%s: kinks", row->name);
        T_CHECK_MSG(row->smooth == GY_GLM_KINK || fabs(row->curvature - ls_curvature(loss)) <= 1e-6 * row->curvature, "%s: curvature %g, not %g", row->name,
                    row->curvature, ls_curvature(loss));
        T_CHECK((row->form == GY_GLM_NUMBER) == (row->labels == GY_GLM_NUMBERS));
        for (int other = 0; other < loss; other++)
            T_CHECK_MSG(strcmp(row->name, gy_glm_loss_name(other)) != 0 && strcmp(row->symbol, gy_glm_loss_at(other)->symbol) != 0, "%s twice", row->name);
    }
}

/* ---- certificates of what is no dual variable ---- */

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
        const struct ls_draw draw = ls_draw_of(loss, (uint64_t)i + 7);
        d->label[i] = i % 2 && draw.row->labels == GY_GLM_CLASSES ? -draw.y : draw.y;
        d->weight[i] = LS_C;
        d->dual[i] = draw.row->form == GY_GLM_LOGIT ? draw.dual : draw.dual / draw.c * LS_C;
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

/* A bound is finite for valid dual variables, and -INFINITY as soon as one is invalid. Dual
 * variables of rows of weight 0 do not matter. */
static void test_infeasible(void)
{
    /* the finite ones are invalid for some losses only */
    static const float none[] = { NAN, INFINITY, -INFINITY, -1e-6f, LS_C * 1.000001f };
    for (int k = 0; k < GY_GLM_LOSSES * (int)GY_COUNT(none); k++) {
        struct ls_data d;
        double primal, all;
        const int loss = k / (int)GY_COUNT(none);
        const float dual = none[k % (int)GY_COUNT(none)];
        if (isfinite(gs_conjugate(loss, 1, (long double)dual, LS_C))) {
            T_CHECK(isfinite(dual) && gy_glm_is_dual(gy_glm_loss_at(loss), (double)dual, LS_C));
            continue;
        }
        ls_make(&d, loss);
        const struct gy_glm_problem problem = ls_problem(loss, 0.5);
        const double whole = ls_bound(&d, loss, &all), want = (double)gs_sums_of(&problem, &d.data, (float[2]){ 0.5f, -0.25f }, d.dual).dual;
        T_CHECK_MSG(fabs(whole - want) <= 1e-12 * (1 + fabs(want)), "%s: bound %.15g, plainly %.15g", gy_glm_loss_name(loss), whole, want);
        for (int i = 0; i < LS_ROWS; i++) {
            const float was = d.dual[i];
            d.dual[i] = dual;
            T_CHECK(!gy_glm_is_dual(gy_glm_loss_at(loss), (double)d.dual[i], LS_C));
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
    /* part: a dual variable over c; for the logistic loss its sigmoid */
    long double x[LS_MOST][LS_WIDE], y[LS_MOST], c[LS_MOST], part[LS_MOST];
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
        T_CHECK_MSG(run.why == GY_GLM_GAP && run.result.primal >= (double)dual * (1 - 1e-12) && run.result.dual <= (double)primal * (1 + 1e-12) &&
                    run.result.primal - (double)primal <= 1e-6 * run.result.primal, "%s, kind %d, %d threads: '%s', P %.12g, D %.12g; the optimum is %.12Lg",
                    gy_glm_loss_name(loss), kind, threads, gy_glm_why_name(run.why), run.result.primal, run.result.dual, primal);
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

static double ls_kappa(int loss, double l2, double square, double rows)
{
    const struct gy_glm_problem problem = ls_problem(loss, l2);
    struct gy_glm_run run = { .problem = &problem };
    const struct gy_glm_loss *const row = gy_glm_loss_at(loss);
    const struct gy_sdca s = { .run = &run, .loss = row, .rough = row->smooth == GY_GLM_KINK };
    return gy_sdca_kappa(&s, square, rows);
}

/* The first kappa is proportional to the curvature. Without curvature it lies between l2 and the
 * rows' size, and goes with their geometric mean. */
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

/* The l2 below which passes of ascent are expected to take longer than Newton's method for this
 * loss. */
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

/* The choice of a solver depends on curvature over l2. For the hinge loss, which has no curvature,
 * Newton's method is for few features. */
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
    test_rows();
    test_definitions();
    test_infeasible();
    test_optima();
    test_kappa();
    test_choice();
    T_END("t_glm_losses");
}
