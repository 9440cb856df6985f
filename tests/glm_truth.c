/* SPDX-License-Identifier: MIT */
/* glm_truth.c: the optimum of a linear model by damped Newton steps in long double. The edges of
 * the hinge loss and of an l1 penalty are smoothed by logarithmic barriers of weight mu. Their
 * inner variables are eliminated in closed form (Boyd and Vandenberghe, "Convex Optimization",
 * 11.3). mu falls until the duality gap is small enough. The gap is that of the dual variables
 * which the slopes make. Each of its terms is a sum of differences of the Fenchel-Young inequality,
 * which cannot be negative. So nothing cancels. */
#include "tests/glm_truth.h"
#include "engine/gyre_glm.h"

typedef long double real;

#define GT_UNIT 5.5e-20L   /* 2^-64: rounding of long double, or more where it is longer */
#define GT_GOAL 1e-13L     /* relative gap that ends it */
#define GT_FALL 0.1L       /* mu from stage to stage */
#define GT_STEPS 2000
#define GT_STAGE 40        /* steps of a stage, at most */

/* ---- the problem ---- */

static float gt_factor(const struct gp_case *c, float label, int classes)
{
    int rows = 0;
    for (int i = 0; i < c->rows; i++)
        rows += c->label[i] <= label && c->label[i] >= label;
    double factor = gp_on(c, GP_BALANCED) ? (double)c->rows / ((double)classes * (double)rows) : 1;
    if (gp_on(c, GP_FACTOR) && (float)c->option[GP_FACTOR_LABEL] <= label && (float)c->option[GP_FACTOR_LABEL] >= label)
        factor *= (double)(float)c->option[GP_FACTOR];
    return (float)factor;
}

/* Sets y and c of a row. Weights and factors of classes are floats, c is their exact product. With
 * several classes and no softmax, only the part's own class has a factor. */
static void gt_label(struct gt_problem *t, const struct gp_case *c, int part, int i, const float *label, int classes)
{
    const float weight = c->weighted ? c->weight[i] : 1.0f;
    int class = 0;
    while (class + 1 < classes && label[class] < c->label[i])
        class++;
    t->y[i] = t->loss == GYRE_GLM_SQUARED ? (real)c->label[i] : t->classes > 1 ? class : class == (classes > 2 ? part : 1) ? 1 : -1;
    t->c[i] = (real)weight;
    if (t->classes > 1 || (t->loss != GYRE_GLM_SQUARED && (classes <= 2 || class == part)))
        t->c[i] *= (real)gt_factor(c, label[class], classes);
}

static void gt_row(struct gt_problem *t, const struct gp_case *c, int i, int features)
{
    real sum = 0, *const x = t->x + (size_t)i * (size_t)t->width;
    for (int j = 0; j < features; j++)
        sum += (real)c->x[i * c->features + j] * (real)c->x[i * c->features + j];
    /* the solver keeps this scale as a float */
    const float scale = gp_on(c, GP_NORMALIZE) && sum > 0 ? (float)(1 / sqrtl(sum)) : 1.0f;
    for (int j = 0; j < features; j++)
        x[j] = (real)c->x[i * c->features + j] * (real)scale;
    if (t->width > features)
        x[features] = (real)c->option[GP_BIAS];
    t->start[i + 1] = t->start[i];
    for (int j = 0; j < t->width; j++)
        if (x[j] < 0 || x[j] > 0)
            t->at[t->start[i + 1]++] = j;
}

int gt_open(struct gt_problem *t, const struct gp_case *c, int part, int features)
{
    float label[GP_CLASSES + 1];
    const int loss = (int)c->option[GP_LOSS], classes = gp_classes(c, label), width = features + gp_on(c, GP_BIAS);
    const size_t cells = (size_t)c->rows * (size_t)width + 1;
    *t = (struct gt_problem){ .loss = loss, .rows = c->rows, .width = width, .classes = gp_is_softmax(c) ? classes : 1, .free = gp_on(c, GP_FREE),
                              .l1 = (real)c->option[GP_L1], .l2 = (real)c->option[GP_L2] };
    t->x = calloc(cells, sizeof *t->x);
    t->y = calloc((size_t)c->rows, sizeof *t->y);
    t->c = calloc((size_t)c->rows, sizeof *t->c);
    t->start = calloc((size_t)c->rows + 1, sizeof *t->start);
    t->at = calloc(cells, sizeof *t->at);
    if (!t->x || !t->y || !t->c || !t->start || !t->at || classes > GP_CLASSES + (loss == GYRE_GLM_SQUARED))
        return gt_close(t), -1;
    for (int i = 0; i < c->rows; i++) {
        gt_row(t, c, i, features);
        gt_label(t, c, part, i, label, classes);
    }
    return 0;
}

void gt_close(struct gt_problem *t)
{
    free(t->x);
    free(t->y);
    free(t->c);
    free(t->start);
    free(t->at);
    *t = (struct gt_problem){ 0 };
}

static int gt_is_penalised(const struct gt_problem *t, int j) { return !t->free || j + 1 < t->width; }

static real gt_score(const struct gt_problem *t, int i, const real *w, real *size)
{
    const real *const x = t->x + (size_t)i * (size_t)t->width;
    real sum = 0, sizes = 0;
    for (int e = t->start[i]; e < t->start[i + 1]; e++) {
        const real v = x[t->at[e]] * w[t->at[e]];
        sum += v;
        sizes += fabsl(v);
    }
    *size = sizes;
    return sum;
}

/* ---- losses of one row, without c ---- */

struct gt_term {
    real value, slope, curve;
};

static struct gt_term gt_loss(int loss, real y, real z)
{
    const real m = y * z, e = expl(-fabsl(m)), under = m < 1 ? 1 - m : 0, s = (m > 0 ? e : 1) / (1 + e);
    switch (loss) {
    case GYRE_GLM_LOGISTIC: return (struct gt_term){ log1pl(e) + (m < 0 ? -m : 0), -y * s, e / ((1 + e) * (1 + e)) };
    case GYRE_GLM_SQUARED: return (struct gt_term){ (z - y) * (z - y) / 2, z - y, 1 };
    case GYRE_GLM_HINGE: return (struct gt_term){ under, m < 1 ? -y : 0, 0 };
    default: return (struct gt_term){ under * under, -2 * y * under, m < 1 ? 2 : 0 };
    }
}

/* c max(0, 1 - y z) with barriers: min over s of c s - mu log s - mu log(s - v), v = 1 - y z. */
static struct gt_term gt_soft_hinge(real c, real y, real z, real mu)
{
    const real v = 1 - y * z, q = c * v / (2 * mu), r = sqrtl(1 + q * q), e = q > 0 ? 1 / (r + q) : r - q, up = q > 0 ? r + q : 1 / (r - q);
    const real alpha = c / (1 + e), upper = mu / c * (1 + up), lower = mu / c * (1 + e);
    return (struct gt_term){ c * upper - mu * logl(upper) - mu * logl(lower), -y * alpha, c * c / (2 * mu) * e / (r * (1 + e) * (1 + e)) };
}

/* l1 |w| with barriers: min over s of l1 s - mu log(s - w) - mu log(s + w). */
static struct gt_term gt_soft_size(real l1, real w, real mu)
{
    const real r = hypotl(mu, l1 * w), d = mu + r;
    return (struct gt_term){ d - mu * logl(d / l1), l1 * l1 * w / d, l1 * l1 * mu / (d * r) };
}

/* log sum exp(z) - z_y; p: the probabilities. */
static real gt_softmax(const real *z, int classes, int y, real *p)
{
    real most = z[0], sum = 0, rest = 0;
    int top = 0;
    for (int k = 1; k < classes; k++)
        if (z[k] > most)
            most = z[k], top = k;
    for (int k = 0; k < classes; k++) {
        p[k] = expl(z[k] - most);
        sum += p[k];
        rest += k == top ? 0 : p[k];
    }
    for (int k = 0; k < classes; k++)
        p[k] /= sum;
    return log1pl(rest) + (most - z[y]);
}

/* ---- the objective ---- */

/* Value, slopes and the sum of slope times size of one row. */
struct gt_row_value {
    real value, pull, z[GP_CLASSES], p[GP_CLASSES], slope[GP_CLASSES], size;
    struct gt_term term;
};

static void gt_visit(const struct gt_problem *t, int i, const real *w, struct gt_row_value *r)
{
    real size;
    r->size = 0;
    for (int k = 0; k < t->classes; k++) {
        r->z[k] = gt_score(t, i, w + k * t->width, &size);
        r->size = size > r->size ? size : r->size;
    }
    if (t->classes == 1) {
        r->term = gt_loss(t->loss, t->y[i], r->z[0]);
        r->value = r->term.value;
        r->slope[0] = r->term.slope;
        r->pull = fabsl(r->term.slope);
        r->size += t->loss == GYRE_GLM_SQUARED ? fabsl(t->y[i]) : 0;
        return;
    }
    r->value = gt_softmax(r->z, t->classes, (int)t->y[i], r->p);
    r->pull = 0;
    for (int k = 0; k < t->classes; k++) {
        r->slope[k] = r->p[k] - (k == (int)t->y[i]);
        r->pull += k == (int)t->y[i] ? 0 : 2 * r->p[k];
    }
}

static real gt_penalty(const struct gt_problem *t, const real *w)
{
    real sum = 0;
    for (int k = 0; k < t->classes; k++)
        for (int j = 0; j < t->width; j++)
            if (gt_is_penalised(t, j))
                sum += t->l2 / 2 * w[k * t->width + j] * w[k * t->width + j] + t->l1 * fabsl(w[k * t->width + j]);
    return sum;
}

/* Scores rounded to float cause slopes that shift the sum of theta x by up to `pulled`. With l2 the
 * bound loses the square of that over 2 l2; else it loses in proportion to the excess over l1.
 * pulled: [width], of one class. */
static real gt_bound_lost(const struct gt_problem *t, const real *pulled, real p)
{
    real lost = 0, most = 0;
    for (int j = 0; j < t->width; j++) {
        if (gt_is_penalised(t, j) && t->l2 > 0)
            lost += pulled[j] * pulled[j] / (2 * t->l2);
        most = pulled[j] > most ? pulled[j] : most;
    }
    return t->classes * (t->l2 > 0 ? lost : most * p / t->l1);
}

static void gt_value_at(const struct gt_problem *t, const real *w, struct gt_value *out)
{
    struct gt_row_value r = { 0 };
    real p = gt_penalty(t, w), moved = 0, bent = 0, single = 0, pulled[GP_WIDTH] = { 0 };
    for (int i = 0; i < t->rows; i++) {
        if (!(t->c[i] > 0))
            continue;
        gt_visit(t, i, w, &r);
        const real *const x = t->x + (size_t)i * (size_t)t->width;
        const real terms = (real)(t->start[i + 1] - t->start[i] + 4), jump = t->loss == GYRE_GLM_HINGE && fabsl(1 - t->y[i] * r.z[0]) < 1e-6L * r.size;
        const real curve = t->classes > 1 ? r.pull : r.term.curve;
        p += t->c[i] * r.value;
        moved += t->c[i] * (r.pull + jump) * r.size * terms;
        bent += t->c[i] * 2 * r.size * r.size * terms * terms;
        single += t->c[i] * ((r.pull + jump) * r.size * 0x1p-22L + r.size * r.size * 0x1p-44L);
        for (int e = t->start[i]; e < t->start[i + 1]; e++)
            pulled[t->at[e]] += t->c[i] * curve * r.size * 0x1p-22L * fabsl(x[t->at[e]]);
    }
    const real count = (real)(t->rows + t->width + 8);
    *out = (struct gt_value){ .p = p, .f32 = single, .bound = gt_bound_lost(t, pulled, p) };
    out->error = 2 * GT_UNIT * (moved + count * p) + GT_UNIT * GT_UNIT * bent;
    out->f64 = 0x1p-52L * (moved + count * p) + 0x1p-104L * bent;
}

void gt_value_of(const struct gt_problem *t, const float *w, struct gt_value *out)
{
    const size_t count = (size_t)t->classes * (size_t)t->width;
    real *const v = calloc(count + 1, sizeof *v);
    for (size_t j = 0; j < count && v; j++)
        v[j] = (real)w[j];
    if (v)
        gt_value_at(t, v, out);
    else
        *out = (struct gt_value){ .p = nanl("") };
    free(v);
}

/* ---- the gap ---- */

struct gt_solve {
    const struct gt_problem *t;
    int all;                 /* weights */
    real mu;
    /* g: gradient, then the step; u: sum of theta x over the dual variables */
    real *w, *trial, *g, *u;
    real *h;                 /* [all][all], lower triangle */
    double work;             /* multiplications left */
};

static int gt_is_smooth(const struct gt_problem *t) { return t->loss != GYRE_GLM_HINGE && !(t->l1 > 0); }

/* The rest of the Fenchel-Young inequality of row i, with the dual variable -slope. It is 0 for a
 * smooth loss. */
static real gt_row_gap(const struct gt_problem *t, int i, const struct gt_row_value *r, real alpha)
{
    const real m = t->y[i] * r->z[0];
    return t->loss != GYRE_GLM_HINGE ? 0 : m < 1 ? (t->c[i] - alpha) * (1 - m) : alpha * (m - 1);
}

/* The same of weight w, to which u = sum of theta x belongs. */
static real gt_weight_gap(const struct gt_problem *t, real w, real u, real *excess)
{
    const real over = fabsl(u) - t->l1, s = u > 0 ? over : -over, d = t->l2 * w - s;
    if (!(t->l2 > 0)) {
        *excess = over > *excess ? over : *excess;
        return t->l1 * fabsl(w) - w * u;
    }
    if (over > 0)
        return d * d / (2 * t->l2) + t->l1 * (fabsl(w) - (u > 0 ? w : -w));
    return t->l2 / 2 * w * w + fabsl(w) * (w < 0 ? t->l1 + u : t->l1 - u);
}

/* Bounds how far the free weight can be from its value, because no row's loss exceeds p. moved: a
 * bound on the distance of the other weights. */
static real gt_reach(const struct gt_problem *t, const real *w, real p, real moved)
{
    real all = 0;
    const int sides = t->loss == GYRE_GLM_SQUARED ? 1 : t->classes > 1 ? t->classes : 2;
    for (int side = 0; side < sides; side++) {
        real least = HUGE_VALL;
        for (int i = 0; i < t->rows; i++) {
            struct gt_row_value r = { 0 };
            const real *const x = t->x + (size_t)i * (size_t)t->width;
            real length = 0, most = 0;
            if (!(t->c[i] > 0) || (sides > 1 && (t->classes > 1 ? (int)t->y[i] : t->y[i] > 0) != side))
                continue;
            gt_visit(t, i, w, &r);
            for (int j = 0; j + 1 < t->width; j++) {
                length += x[j] * x[j];
                most = fabsl(x[j]) > most ? fabsl(x[j]) : most;
            }
            const real ratio = p / t->c[i], far = t->loss == GYRE_GLM_SQUARED || t->loss == GYRE_GLM_SQUARED_HINGE ? sqrtl(2 * ratio) : ratio;
            const real reach = (far + 1 + 2 * r.size + 2 * (t->l2 > 0 ? sqrtl(length) : most) * moved) / x[t->width - 1];
            least = reach < least ? reach : least;
        }
        all = least > all ? least : all;
    }
    return all;
}

/* What a slope of the free weights that is not 0 can make of them. */
static real gt_free_gap(const struct gt_solve *s, const real *w, real p, real others)
{
    const struct gt_problem *const t = s->t;
    real slope = 0, gap = 0;
    for (int k = 0; k < t->classes && t->free; k++)
        slope += fabsl(s->u[k * t->width + t->width - 1]);
    if (!(slope > 0))
        return 0;
    for (int n = 0; n < 3; n++) {
        const real far = n ? others + gap : p, moved = t->l2 > 0 ? sqrtl(2 * far / t->l2) : 2 * p / t->l1;
        gap = slope * gt_reach(t, w, p, moved);
    }
    return gap;
}

/* u belongs to the dual variables, which need not be those of w's slopes. */
static real gt_gap(const struct gt_solve *s, const real *w, real p, real row_gaps)
{
    const struct gt_problem *const t = s->t;
    real gap = row_gaps, excess = 0;
    for (int k = 0; k < t->classes; k++)
        for (int j = 0; j < t->width; j++)
            if (gt_is_penalised(t, j))
                gap += gt_weight_gap(t, w[k * t->width + j], s->u[k * t->width + j], &excess);
    if (excess > 0)
        /* |w|_1 at the optimum is at most p / l1 */
        gap += excess * (t->l1 > 0 ? p / t->l1 : HUGE_VALL);
    return gap + gt_free_gap(s, w, p, gap);
}

/* ---- Newton's method ---- */

/* F of barriers at w; with `whole` its gradient, the curvature and u. *gaps: of rows. */
static real gt_smooth(struct gt_solve *s, const real *w, int whole, real *gaps)
{
    const struct gt_problem *const t = s->t;
    struct gt_row_value r = { 0 };
    real f = 0;
    *gaps = 0;
    if (whole) {
        memset(s->u, 0, (size_t)s->all * sizeof *s->u);
        memset(s->h, 0, (size_t)s->all * (size_t)s->all * sizeof *s->h);
    }
    for (int i = 0; i < t->rows; i++) {
        const real *const x = t->x + (size_t)i * (size_t)t->width;
        if (!(t->c[i] > 0))
            continue;
        gt_visit(t, i, w, &r);
        struct gt_term term = { t->c[i] * r.value, t->c[i] * r.slope[0], t->c[i] * r.term.curve };
        if (t->loss == GYRE_GLM_HINGE)
            term = gt_soft_hinge(t->c[i], t->y[i], r.z[0], s->mu);
        f += term.value;
        *gaps += gt_row_gap(t, i, &r, fabsl(term.slope));
        for (int a = 0; a < t->classes && whole; a++) {
            const real slope = t->classes > 1 ? t->c[i] * r.slope[a] : term.slope;
            for (int e = t->start[i]; e < t->start[i + 1]; e++)
                s->u[a * t->width + t->at[e]] -= slope * x[t->at[e]];
            for (int b = 0; b <= a; b++) {
                const real curve = t->classes > 1 ? t->c[i] * (a == b ? r.p[a] * (1 - r.p[a]) : -r.p[a] * r.p[b]) : term.curve;
                for (int e = t->start[i]; e < t->start[i + 1] && (curve < 0 || curve > 0); e++) {
                    real *const row = s->h + (size_t)(a * t->width + t->at[e]) * (size_t)s->all + b * t->width;
                    const real v = curve * x[t->at[e]];
                    for (int o = t->start[i]; o < (a == b ? e + 1 : t->start[i + 1]); o++)
                        row[t->at[o]] += v * x[t->at[o]];
                }
            }
        }
    }
    for (int j = 0; j < s->all; j++) {
        const int penalised = gt_is_penalised(t, j % (t->width ? t->width : 1));
        struct gt_term size = { 0, 0, 0 };
        if (penalised && t->l1 > 0)
            size = gt_soft_size(t->l1, w[j], s->mu);
        f += size.value + (penalised ? t->l2 / 2 * w[j] * w[j] : 0);
        if (whole) {
            s->g[j] = size.slope + (penalised ? t->l2 * w[j] : 0) - s->u[j];
            s->h[(size_t)j * (size_t)s->all + (size_t)j] += size.curve + (penalised ? t->l2 : 0);
        }
    }
    return f;
}

/* Factors the curvature and solves for the step, which replaces g with its sign reversed. A pivot
 * lost to rounding leaves its weight in place. Returns g . step. */
static real gt_step(struct gt_solve *s)
{
    const int n = s->all;
    real slope = 0;
    for (int j = 0; j < n; j++) {
        real *const hj = s->h + (size_t)j * (size_t)n;
        const real whole = hj[j];
        for (int k = 0; k <= j; k++) {
            const real *const hk = s->h + (size_t)k * (size_t)n;
            real sum = hj[k];
            for (int m = 0; m < k; m++)
                sum -= hj[m] * hk[m];
            /* the diagonal holds reciprocals */
            hj[k] = k < j ? sum * hk[k] : sum > whole * 4 * GT_UNIT && sum > 0 ? 1 / sqrtl(sum) : 0;
        }
    }
    for (int j = 0; j < n; j++) {
        s->trial[j] = s->g[j];
        for (int m = 0; m < j; m++)
            s->trial[j] -= s->h[(size_t)j * (size_t)n + (size_t)m] * s->trial[m];
        s->trial[j] *= s->h[(size_t)j * (size_t)n + (size_t)j];
        slope += s->trial[j] * s->trial[j];
    }
    for (int j = n - 1; j >= 0; j--) {
        for (int m = j + 1; m < n; m++)
            s->trial[j] -= s->h[(size_t)m * (size_t)n + (size_t)j] * s->trial[m];
        s->trial[j] *= s->h[(size_t)j * (size_t)n + (size_t)j];
    }
    memcpy(s->g, s->trial, (size_t)n * sizeof *s->g);
    return slope;
}

/* The longest step of 1, 1/2, 1/4 ... that brings enough. 0: none does. */
static int gt_search(struct gt_solve *s, real f, real slope)
{
    real gaps, length = 1;
    for (int n = 0; n < 60; n++, length /= 2) {
        for (int j = 0; j < s->all; j++)
            s->trial[j] = s->w[j] - length * s->g[j];
        const real now = gt_smooth(s, s->trial, 0, &gaps), noise = 64 * GT_UNIT * fabsl(f);
        if (now <= f - length * slope / 10000 || (slope < 1e4L * noise && now <= f + noise)) {
            memcpy(s->w, s->trial, (size_t)s->all * sizeof *s->w);
            return 1;
        }
    }
    return 0;
}

/* Keeps P at w as an upper bound, and P less the gap as a lower bound, where they are better.
 * Returns the gap. */
static real gt_keep(const struct gt_solve *s, const real *w, real row_gaps, struct gt_optimum *out)
{
    struct gt_value at;
    gt_value_at(s->t, w, &at);
    const real gap = gt_gap(s, w, at.p, row_gaps), noise = at.error + 64 * GT_UNIT * at.p, lower = at.p - gap - gap * 1e-12L - noise;
    out->upper = at.p + noise < out->upper ? at.p + noise : out->upper;
    out->lower = lower > out->lower ? lower : out->lower;
    return gap;
}

/* For the hinge loss: evaluates the point of the whole step, with dual variables extrapolated
 * linearly. If mu is small, dual variables computed from new scores lose their digits. The
 * extrapolated ones yield the same u as the new weights, up to rounding. */
static void gt_foretell(struct gt_solve *s, struct gt_optimum *out)
{
    const struct gt_problem *const t = s->t;
    struct gt_row_value r = { 0 };
    real row_gaps = 0, size;
    memset(s->u, 0, (size_t)s->all * sizeof *s->u);
    for (int j = 0; j < s->all; j++)
        s->trial[j] = s->w[j] - s->g[j];
    for (int i = 0; i < t->rows; i++) {
        const real *const x = t->x + (size_t)i * (size_t)t->width;
        if (!(t->c[i] > 0))
            continue;
        gt_visit(t, i, s->w, &r);
        const struct gt_term term = gt_soft_hinge(t->c[i], t->y[i], r.z[0], s->mu);
        const real alpha = -t->y[i] * (term.slope - term.curve * gt_score(t, i, s->g, &size)), dual = alpha < 0 ? 0 : alpha > t->c[i] ? t->c[i] : alpha;
        gt_visit(t, i, s->trial, &r);
        row_gaps += gt_row_gap(t, i, &r, dual);
        for (int e = t->start[i]; e < t->start[i + 1]; e++)
            s->u[t->at[e]] += dual * t->y[i] * x[t->at[e]];
    }
    gt_keep(s, s->trial, row_gaps, out);
}

static void gt_run(struct gt_solve *s, struct gt_optimum *out)
{
    const struct gt_problem *const t = s->t;
    const real terms = 2 * (real)(t->rows + s->all), share = (real)(t->start[t->rows]) / (real)(t->rows * (t->width ? t->width : 1));
    const double cost = (double)s->all * s->all * ((double)t->rows * (double)(share * share) / 2 + s->all / 6.0 + 4) + 100.0 * t->rows;
    const int smooth = gt_is_smooth(t);
    int still = 0, stage = 0; /* steps that brought nothing; steps with this mu */
    for (s->mu = out->upper / terms; s->work > 0 && still < 4 && out->steps < GT_STEPS; s->work -= cost, out->steps++) {
        real row_gaps;
        const real f = gt_smooth(s, s->w, 1, &row_gaps), gap = gt_keep(s, s->w, row_gaps, out);
        if (out->upper - out->lower <= GT_GOAL * out->upper)
            return;
        if (!smooth && (gap <= 2 * terms * s->mu || stage >= GT_STAGE)) {
            s->mu *= GT_FALL;
            stage = 0;
            if (s->mu * terms < GT_GOAL * out->upper / 1000)
                return; /* rounding is larger */
            continue;
        }
        const real slope = gt_step(s);
        if (t->loss == GYRE_GLM_HINGE)
            gt_foretell(s, out);
        const int stands = !gt_search(s, f, slope) || slope < 1e-30L * out->upper;
        still = stands && smooth ? still + 1 : 0;
        stage = stands ? GT_STAGE : stage + 1;
    }
}

void gt_optimum_of(const struct gt_problem *t, double work, struct gt_optimum *out)
{
    const size_t all = (size_t)t->classes * (size_t)t->width;
    struct gt_solve s = { .t = t, .all = (int)all, .work = work };
    struct gt_value zero;
    real *const memory = calloc(4 * all + all * all + 1, sizeof *memory);
    *out = (struct gt_optimum){ 0, HUGE_VALL, 0 };
    if (!memory)
        return;
    s.w = memory;
    s.trial = s.w + all;
    s.g = s.trial + all;
    s.u = s.g + all;
    s.h = s.u + all;
    gt_value_at(t, s.w, &zero);
    out->upper = zero.p + zero.error;
    if (out->upper > 0)
        gt_run(&s, out);
    free(memory);
}
