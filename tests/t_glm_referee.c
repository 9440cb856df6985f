/* SPDX-License-Identifier: MIT */
/* t_glm_referee.c: the referee beside a plain second one in long double. Problems, weights and dual
 * variables are random, also such as no solver would leave. The objective lies between the two
 * ends, which lie close to each other. The bound is that of the dual variables, moved as the
 * problem asks for. It is never above the objective of any weights that this test finds. Ranks and
 * threads say the same.
 *
 *     t_glm_referee [--problems N] [--seed S] [--one N] */
#include "engine/gyre_job.h"
#include "engine/base/rng.h"
#include "engine/glm/glm_model.h"
#include "engine/glm/referee.h"
#include "tests/glm_ranks.h"
#include "tests/t.h"

#define TR_ROWS 60
#define TR_FEATURES 12
#define TR_CLASSES 4
#define TR_DESCENTS 300

struct tr {
    uint64_t seed;
    int64_t number;
    int words;
    /* the problem */
    int rows, features, classes, normalize, threads; /* classes 0: one vector of weights */
    struct gy_glm_problem problem;
    float factor[TR_CLASSES], label_of[TR_CLASSES];
    int64_t start[TR_ROWS + 1];
    uint32_t id[TR_ROWS * TR_FEATURES];
    float value[TR_ROWS * TR_FEATURES], label[TR_ROWS], weight[TR_ROWS];
    /* the answer */
    float w[TR_CLASSES * (TR_FEATURES + 1)], dual[TR_ROWS];
    double point[TR_CLASSES * (TR_FEATURES + 1)];
    int has_dual, has_point;
    /* what the referee says, of ranks in shared memory */
    struct gy_glm_verdict *said;
};

static double tr_unit(struct tr *t)
{
    uint32_t word[4];
    gy_rng_words(t->seed, 77, (uint64_t)t->number, (uint64_t)t->words++, word);
    return ((double)word[0] + 0.5) / 4294967296.0;
}
static int tr_below(struct tr *t, int count) { return (int)(tr_unit(t) * count); }
static double tr_scale(struct tr *t, double decades) { return pow(10, decades * (2 * tr_unit(t) - 1)); }

static int tr_dim(const struct tr *t) { return t->features + (t->problem.bias != 0); }
static int tr_models(const struct tr *t) { return t->classes ? t->classes : 1; }

static void tr_make_rows(struct tr *t)
{
    double scale[TR_FEATURES];
    const int wild = tr_below(t, 3) == 0, ones = tr_below(t, 4) == 0, weighted = tr_below(t, 3) == 0;
    for (int j = 0; j < t->features; j++)
        scale[j] = wild ? tr_scale(t, 4) : 1;
    for (int i = 0; i < t->rows; i++) {
        int64_t at = t->start[i];
        for (int j = 0; j < t->features; j++)
            if (tr_below(t, 3)) {
                t->id[at] = (uint32_t)j;
                t->value[at++] = ones ? 1 : (float)(scale[j] * (2 * tr_unit(t) - 1));
            }
        t->start[i + 1] = at;
        t->weight[i] = !weighted ? 1 : tr_below(t, 5) == 0 ? 0 : (float)tr_scale(t, 3);
        t->label[i] = t->problem.loss == GY_GLM_SQUARED ? (float)(10 * tr_unit(t) - 5) : (float)tr_below(t, 2);
        if (t->classes)
            t->label[i] = t->label_of[tr_below(t, t->classes)];
    }
    for (int i = 0; i < t->rows && i < t->classes; i++) {
        t->label[i] = t->label_of[i]; /* no class is without rows */
        t->weight[i] = 1;
    }
}

static void tr_make(struct tr *t, uint64_t seed, int64_t number)
{
    static const double strengths[] = { 0, 1e-6, 0.01, 1, 30 };
    struct gy_glm_verdict *const said = t->said;
    memset(t, 0, sizeof *t);
    t->said = said;
    t->seed = seed;
    t->number = number;
    t->rows = 4 + tr_below(t, TR_ROWS - 4);
    t->features = tr_below(t, 8) ? 1 + tr_below(t, TR_FEATURES) : 0;
    t->classes = tr_below(t, 4) ? 0 : 2 + tr_below(t, TR_CLASSES - 1);
    t->normalize = tr_below(t, 4) == 0;
    t->threads = 1 + tr_below(t, 3);
    struct gy_glm_problem *const p = &t->problem;
    *p = (struct gy_glm_problem){ .loss = t->classes ? GY_GLM_LOGISTIC : tr_below(t, GY_GLM_LOSSES), .positive = 1, .class_weight = { 1, 1 } };
    p->l2 = strengths[tr_below(t, 5)];
    p->l1 = t->classes || tr_below(t, 2) ? 0 : strengths[2 + tr_below(t, 3)];
    p->l2 = p->l1 > 0 && tr_below(t, 2) ? 0 : p->l2;
    p->bias = tr_below(t, 2) ? 0 : 0.5 + tr_unit(t);
    p->bias_free = p->bias != 0 && tr_below(t, 2);
    p->target = p->loss == GY_GLM_SQUARED ? GY_GLM_TARGET_VALUE : GY_GLM_TARGET_CLASS;
    if (tr_below(t, 3) == 0)
        p->class_weight[tr_below(t, 2)] = (float)tr_scale(t, 2);
    for (int k = 0; k < t->classes; k++) {
        t->label_of[k] = (float)k;
        t->factor[k] = tr_below(t, 2) ? 1 : (float)tr_scale(t, 1);
    }
    tr_make_rows(t);
}

/* ---- a second implementation ---- */

struct tr_row {
    long double c, y;
    long double x[TR_FEATURES + 1];
};

static struct tr_row tr_row(const struct tr *t, int i)
{
    struct tr_row r = { 0 };
    const struct gy_glm_problem *const p = &t->problem;
    double square = 0;
    for (int64_t k = t->start[i]; k < t->start[i + 1]; k++)
        square += (double)t->value[k] * (double)t->value[k];
    /* the definition makes the scale a float */
    const double scale = t->normalize && square > 0 ? (double)(float)(1 / sqrt(square)) : 1;
    for (int64_t k = t->start[i]; k < t->start[i + 1]; k++)
        r.x[t->id[k]] = (long double)scale * (long double)t->value[k];
    if (p->bias != 0)
        r.x[t->features] = (long double)p->bias;
    r.y = t->classes || p->loss == GY_GLM_SQUARED ? (long double)t->label[i] : t->label[i] == p->positive ? 1 : -1;
    r.c = t->classes ? (long double)t->factor[(int)t->label[i]]
        : p->loss == GY_GLM_SQUARED ? 1 : (long double)p->class_weight[r.y > 0];
    r.c *= (long double)t->weight[i];
    return r;
}

static long double tr_dot(const struct tr *t, const struct tr_row *r, const float *w)
{
    long double z = 0;
    for (int j = 0; j < tr_dim(t); j++)
        z += r->x[j] * (long double)w[j];
    return z;
}

/* The score that decides a row's dual variable, where none is given. */
static long double tr_at(const struct tr *t, const struct tr_row *r)
{
    long double z = 0;
    for (int j = 0; t->has_point && j < tr_dim(t); j++)
        z += r->x[j] * (long double)t->point[j];
    return t->has_point ? z : tr_dot(t, r, t->w);
}

/* The loss at scores z, and its slopes over them. */
static long double tr_loss(const struct tr *t, const struct tr_row *r, const long double *z, long double *slope)
{
    const long double y = r->y, m = y * z[0], under = m < 1 ? 1 - m : 0;
    if (t->classes) {
        int top = 0;
        long double others = 0;
        for (int k = 1; k < t->classes; k++)
            top = z[k] > z[top] ? k : top;
        for (int k = 0; k < t->classes; k++)
            others += k == top ? 0 : expl(z[k] - z[top]);
        for (int k = 0; k < t->classes; k++)
            slope[k] = r->c * (expl(z[k] - z[top]) / (1 + others) - (k == (int)y));
        return r->c * (log1pl(others) + (z[top] - z[(int)y]));
    }
    switch (t->problem.loss) {
    case GY_GLM_LOGISTIC:
        slope[0] = -r->c * y / (1 + expl(m));
        return r->c * (m > 0 ? log1pl(expl(-m)) : log1pl(expl(m)) - m);
    case GY_GLM_SQUARED:
        slope[0] = r->c * (z[0] - y);
        return r->c * 0.5L * (z[0] - y) * (z[0] - y);
    case GY_GLM_HINGE:
        slope[0] = m < 1 ? -r->c * y : 0;
        return r->c * under;
    default:
        slope[0] = -2 * r->c * y * under;
        return r->c * under * under;
    }
}

/* P(w), and its slopes of what is smooth in it. */
static long double tr_objective(const struct tr *t, const float *w, long double *slope)
{
    const int dim = tr_dim(t), models = tr_models(t);
    long double sum = 0, z[TR_CLASSES], s[TR_CLASSES];
    memset(slope, 0, (size_t)(models * dim) * sizeof *slope);
    for (int i = 0; i < t->rows; i++) {
        const struct tr_row r = tr_row(t, i);
        if (!(r.c > 0))
            continue;
        for (int k = 0; k < models; k++)
            z[k] = tr_dot(t, &r, w + k * dim);
        sum += tr_loss(t, &r, z, s);
        for (int k = 0; k < models; k++)
            for (int j = 0; j < dim; j++)
                slope[k * dim + j] += s[k] * r.x[j];
    }
    for (int k = 0; k < models; k++)
        for (int j = 0; j < dim - (t->problem.bias_free != 0); j++) {
            const long double v = (long double)w[k * dim + j];
            sum += 0.5L * (long double)t->problem.l2 * v * v + (long double)t->problem.l1 * fabsl(v);
            slope[k * dim + j] += (long double)t->problem.l2 * v;
        }
    return sum;
}

/* How dual variables are moved. Each loses shift c and is scaled by the side of its sign.
 * Probabilities go a share of the way to q. */
struct tr_moved {
    long double shift, side[2], share, q[TR_CLASSES];
};

/* What dual variables add up to. */
struct tr_sums {
    long double conjugate, size, weight, pull[2], most, square;
    long double own[TR_CLASSES], u[TR_CLASSES * (TR_FEATURES + 1)];
};

/* -p log p - (1 - p) log (1 - p) */
static long double tr_entropy(long double p) { return p > 0 && p < 1 ? -p * logl(p) - (1 - p) * log1pl(-p) : 0; }

/* The dual variable of row i in its domain, moved: its coefficient, with y, and its conjugate. */
static long double tr_conjugate(const struct tr *t, int i, const struct tr_row *r, const struct tr_moved *m, long double *pull)
{
    long double z = tr_at(t, r), slope, a;
    const int loss = t->problem.loss;
    (void)tr_loss(t, r, &z, &slope);
    /* training's weight of a row is a float */
    const int scaled = loss != GY_GLM_LOGISTIC && r->c > 0;
    const long double part = scaled ? r->c / (long double)(float)r->c : 1;
    const long double own = t->dual[i] == t->dual[i] ? part * (long double)t->dual[i] : 0;
    if (!t->has_dual)
        a = -slope;
    else if (loss == GY_GLM_LOGISTIC)
        a = r->y * r->c / (1 + expl(-own));
    else if (loss == GY_GLM_SQUARED)
        a = own;
    else
        a = r->y * (loss == GY_GLM_HINGE ? fminl(fmaxl(own, 0), r->c) : fmaxl(own, 0));
    a -= loss == GY_GLM_SQUARED ? m->shift * r->c : 0;
    a *= m->side[a > 0];
    *pull = a;
    const long double linear = a * r->y;
    return loss == GY_GLM_LOGISTIC ? r->c * tr_entropy(linear / r->c) : loss == GY_GLM_SQUARED ? linear - a * a / (2 * r->c)
         : loss == GY_GLM_HINGE    ? linear : linear - a * a / (4 * r->c);
}

static void tr_add_row(const struct tr *t, int i, const struct tr_row *r, const struct tr_moved *m, struct tr_sums *s)
{
    long double pull, z[TR_CLASSES], slope[TR_CLASSES];
    if (!t->classes) {
        const long double conjugate = tr_conjugate(t, i, r, m, &pull);
        s->conjugate += conjugate;
        s->size += fabsl(conjugate);
        s->pull[pull > 0] += fabsl(pull);
        for (int j = 0; j < tr_dim(t); j++)
            s->u[j] += pull * r->x[j];
        return;
    }
    for (int k = 0; k < t->classes; k++)
        z[k] = tr_dot(t, r, t->w + k * tr_dim(t));
    (void)tr_loss(t, r, z, slope);
    s->own[(int)r->y] += r->c;
    for (int k = 0; k < t->classes; k++) {
        const long double p = (slope[k] / r->c + (k == (int)r->y)) * (1 - m->share) + m->share * m->q[k];
        s->conjugate += p > 0 ? -r->c * p * logl(p) : 0;
        for (int j = 0; j < tr_dim(t); j++)
            s->u[k * tr_dim(t) + j] += r->c * ((k == (int)r->y) - p) * r->x[j];
    }
    s->size = s->conjugate;
}

static void tr_add(const struct tr *t, const struct tr_moved *m, struct tr_sums *s)
{
    const int dim = tr_dim(t);
    memset(s, 0, sizeof *s);
    for (int i = 0; i < t->rows; i++) {
        const struct tr_row r = tr_row(t, i);
        s->weight += r.c > 0 ? r.c : 0;
        if (r.c > 0)
            tr_add_row(t, i, &r, m, s);
    }
    for (int j = 0; j < tr_models(t) * dim; j++) {
        const long double over = fabsl(s->u[j]) - (long double)t->problem.l1;
        if (t->problem.bias_free && j % dim == dim - 1)
            continue;
        s->most = fmaxl(s->most, fabsl(s->u[j]));
        s->square += over > 0 ? over * over : 0;
    }
}

static long double tr_proves(const struct tr *t, const struct tr_sums *s)
{
    const long double l2 = (long double)t->problem.l2;
    return s->square <= 0 ? s->conjugate : l2 > 0 ? s->conjugate - s->square / (2 * l2) : 0;
}

/* Probabilities that add up to the rows of each class. */
static void tr_share(const struct tr *t, struct tr_moved *m, const struct tr_sums *s)
{
    long double sum[TR_CLASSES];
    for (int k = 0; k < t->classes; k++) {
        sum[k] = s->own[k] - s->u[k * tr_dim(t) + tr_dim(t) - 1] / (long double)t->problem.bias;
        m->share = sum[k] > s->own[k] ? fmaxl(m->share, 1 - s->own[k] / sum[k]) : m->share;
    }
    for (int k = 0; k < t->classes; k++)
        m->q[k] = m->share > 0 ? fmaxl(s->own[k] - (1 - m->share) * sum[k], 0) / (m->share * s->weight) : 0;
}

/* The bound of the answer's dual variables, moved to suit a free bias. *size: the size of the terms
 * whose difference it is. */
static long double tr_bound(const struct tr *t, long double *size)
{
    struct tr_moved m = { .side = { 1, 1 } };
    struct tr_sums s;
    tr_add(t, &m, &s);
    if (t->problem.bias_free && t->classes) {
        tr_share(t, &m, &s);
        tr_add(t, &m, &s);
    } else if (t->problem.bias_free) {
        if (t->problem.loss == GY_GLM_SQUARED) {
            m.shift = s.weight > 0 ? (s.pull[1] - s.pull[0]) / s.weight : 0;
            tr_add(t, &m, &s);
        } else {
            m.side[0] = s.pull[0] > s.pull[1] ? s.pull[1] / s.pull[0] : 1;
            m.side[1] = s.pull[1] > s.pull[0] ? s.pull[0] / s.pull[1] : 1;
            tr_add(t, &m, &s);
        }
    }
    long double best = fmaxl(tr_proves(t, &s), 0);
    *size = s.size + (t->problem.l2 > 0 ? s.square / (2 * (long double)t->problem.l2) : 0);
    if (t->problem.l1 > 0 && s.most > (long double)t->problem.l1) {
        for (int side = 0; side < 2; side++)
            m.side[side] *= (long double)t->problem.l1 / s.most;
        tr_add(t, &m, &s);
        best = fmaxl(best, s.conjugate);
        *size = fmaxl(*size, s.size);
    }
    return best;
}

/* ---- weights and dual variables ---- */

/* Descends as far as halving and doubling of steps goes. Any weights may be used; better ones judge
 * harder. */
static void tr_descend(const struct tr *t, float *w)
{
    const int all = tr_models(t) * tr_dim(t);
    long double slope[TR_CLASSES * (TR_FEATURES + 1)], none[TR_CLASSES * (TR_FEATURES + 1)], step = 1;
    float next[TR_CLASSES * (TR_FEATURES + 1)];
    for (int turn = 0; turn < TR_DESCENTS; turn++) {
        const long double at = tr_objective(t, w, slope);
        for (int halving = 0; halving < 60; halving++, step *= 0.5L) {
            for (int j = 0; j < all; j++) {
                const int free = t->problem.bias_free && j % tr_dim(t) == tr_dim(t) - 1;
                const long double moved = (long double)w[j] - step * slope[j], soft = free ? 0 : step * (long double)t->problem.l1;
                next[j] = (float)(moved > soft ? moved - soft : moved < -soft ? moved + soft : 0);
            }
            if (tr_objective(t, next, none) < at)
                break;
        }
        if (!(tr_objective(t, next, none) < at))
            return;
        memcpy(w, next, (size_t)all * sizeof *w);
        step *= 4;
    }
}

/* The slopes' dual variables, less or more; and some that are in no domain. */
static void tr_duals(struct tr *t)
{
    static const float odd[] = { NAN, -1, -1e30f, 40 };
    const int loss = t->problem.loss;
    const double noise = tr_below(t, 2) ? 0.01 : 1e-7;
    for (int i = 0; i < t->rows; i++) {
        const struct tr_row r = tr_row(t, i);
        const double z = (double)tr_dot(t, &r, t->w), m = (double)r.y * z, c = (double)r.c, under = m < 1 ? 1 - m : 0;
        const double dual = loss == GY_GLM_LOGISTIC ? -m : loss == GY_GLM_SQUARED ? c * ((double)r.y - z) : loss == GY_GLM_HINGE ? c * (m < 1) : 2 * c * under;
        t->dual[i] = tr_below(t, 100) == 0 ? odd[tr_below(t, 4)] : (float)(dual * (1 + noise * (2 * tr_unit(t) - 1)));
        if (loss == GY_GLM_SQUARED && t->dual[i] < -1e20f)
            t->dual[i] = 0;
    }
}

static void tr_answer(struct tr *t)
{
    const int all = tr_models(t) * tr_dim(t), kind = tr_below(t, 4);
    for (int j = 0; j < all; j++)
        t->w[j] = kind == 0 ? 0 : (float)(tr_scale(t, kind == 1 ? 4 : 1) * (2 * tr_unit(t) - 1));
    if (kind > 1)
        tr_descend(t, t->w);
    /* longer weights tell rows apart, with losses far below 1 */
    const float longer = kind == 3 ? (float)(1 + 40 * tr_unit(t)) : 1;
    for (int j = 0; j < all; j++)
        t->w[j] *= longer;
    for (int j = 0; j < all; j++)
        t->point[j] = (double)t->w[j] * (1 + 0.01 * tr_unit(t));
    t->has_dual = !t->classes && tr_below(t, 2);
    t->has_point = !t->classes && !t->has_dual && tr_below(t, 3) == 0;
    tr_duals(t);
}

/* ---- the referee ---- */

static int tr_judge(void *user, struct gyre_job *job, int rank)
{
    struct tr *const t = user;
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gyre_glm_data data = { .size = sizeof data, .rows = t->rows, .start = t->start, .id = t->id, .value = t->value, .label = t->label,
                                        .weight = t->weight, .features = (uint32_t)t->features, .header = -1 };
    const struct gy_glm_classes classes = { .label = t->label_of, .factor = t->factor, .count = t->classes };
    const int ranks = gyre_job_ranks(job);
    struct gy_glm_source *source = NULL;
    struct gy_pool *pool = NULL;
    struct gy_error err = { 0 };
    int64_t first = t->rows / ranks * rank + (rank < t->rows % ranks ? rank : t->rows % ranks);
    int status = gy_pool_open(&pool, &alloc, t->threads, &err);
    if (status == GY_OK)
        status = gy_glm_source_open(&source, &data, NULL, 0, pool, &alloc, &err);
    const struct gy_glm_answer answer = { .blocks = source ? source->blocks : NULL, .alloc = &alloc, .pool = pool, .job = job, .problem = &t->problem,
                                          .classes = t->classes ? &classes : NULL, .normalize = t->normalize, .features = (uint32_t)t->features,
                                          .w = t->w, .dual = t->has_dual ? t->dual + first : NULL, .point = t->has_point ? t->point : NULL };
    if (status == GY_OK)
        status = gy_glm_referee(&answer, &t->said[rank], &err);
    if (status != GY_OK)
        printf("    %s\n", err.text);
    gy_glm_source_close(source);
    gy_pool_close(pool);
    return status == GY_OK;
}

/* ---- a case ---- */

/* A hinge at whose corner a row lies, so nearly that roundings decide what its slope is. */
static int tr_has_kink(const struct tr *t)
{
    int near = 0;
    for (int i = 0; i < t->rows && t->problem.loss == GY_GLM_HINGE; i++) {
        const struct tr_row r = tr_row(t, i);
        near |= fabsl(1 - r.y * tr_at(t, &r)) < 1e-9L;
    }
    return near;
}

static const char *tr_wrong(struct tr *t, const struct gy_glm_verdict *v)
{
    long double slope[TR_CLASSES * (TR_FEATURES + 1)], size;
    float low[TR_CLASSES * (TR_FEATURES + 1)];
    const long double at = tr_objective(t, t->w, slope);
    if (!((long double)v->objective >= at && (long double)v->least <= at))
        return "the objective is not between its ends";
    if (!(v->objective - v->least <= 1e-9 * v->objective + 1e-15))
        return "the ends of the objective are far from each other";
    if (!((long double)v->bound <= at))
        return "the bound is above the objective";
    memcpy(low, t->w, sizeof low);
    tr_descend(t, low);
    if (!((long double)v->bound <= tr_objective(t, low, slope)))
        return "the bound is above another objective";
    const long double bound = tr_bound(t, &size);
    /* slopes of scores have rounding errors of their own */
    const long double near = (t->has_dual ? 1e-9L : 1e-5L) * size + (t->has_dual ? 1e-15L : 1e-12L) * at;
    if (!t->has_dual && tr_has_kink(t))
        return NULL;
    return fabsl((long double)v->bound - bound) <= near + 1e-30L ? NULL : "the bound is not that of the dual numbers";
}

/* How many bounds say something is counted. */
static const char *tr_loose(const struct gy_glm_verdict *v, int *tight)
{
    const double gap = (v->objective - v->bound) / (v->objective > 0 ? v->objective : 1);
    *tight += gap < 0.01;
    return gap >= 0 ? NULL : "a gap below 0";
}

/* Two ranks say the same bits, and what one says but for roundings. */
static const char *tr_ranks(struct tr *t, const struct gy_glm_verdict *alone)
{
    if (!gr_run(2, tr_judge, t))
        return "ranks failed";
    if (memcmp(&t->said[0], &t->said[1], sizeof *t->said) != 0)
        return "ranks say different things";
    if (fabs(t->said[0].bound - alone->bound) > 1e-9 * fabs(alone->objective))
        return "ranks say something else than one";
    return tr_wrong(t, &t->said[0]);
}

static const char *tr_case(struct tr *t, uint64_t seed, int64_t number, int *tight)
{
    tr_make(t, seed, number);
    tr_answer(t);
    if (!tr_judge(t, NULL, 0))
        return "the referee failed";
    const struct gy_glm_verdict alone = t->said[0];
    const char *const wrong = tr_wrong(t, &alone), *const loose = tr_loose(&alone, tight);
    if (wrong || loose)
        return wrong ? wrong : loose;
    t->threads = t->threads % 3 + 1;
    if (!tr_judge(t, NULL, 0) || memcmp(&alone, &t->said[0], sizeof alone) != 0)
        return "other threads, other bits";
    return number % 8 == 0 ? tr_ranks(t, &alone) : NULL;
}

static void tr_check(struct tr *t, uint64_t seed, int64_t number, int *tight)
{
    const char *const wrong = tr_case(t, seed, number, tight);
    const struct gy_glm_problem *const p = &t->problem;
    const struct gy_glm_verdict *const v = &t->said[0];
    T_CHECK_MSG(!wrong, "t_glm_referee --seed %" PRIu64 " --one %" PRId64 ": %s: loss %d, l1 %g, l2 %g, bias %g, free %d, %d classes, dual %d, point %d: "
                "%.17g .. %.17g, bound %.17g", seed, number, wrong, p->loss, p->l1, p->l2, p->bias, p->bias_free, t->classes, t->has_dual, t->has_point,
                v->least, v->objective, v->bound);
}

int main(int argc, char **argv)
{
    struct tr t = { .said = gr_memory(2 * sizeof *t.said) };
    int64_t problems = 400, one = -1;
    uint64_t seed = 1;
    int tight = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        problems = strcmp(argv[i], "--problems") == 0 ? strtoll(argv[i + 1], NULL, 10) : problems;
        seed = strcmp(argv[i], "--seed") == 0 ? strtoull(argv[i + 1], NULL, 10) : seed;
        one = strcmp(argv[i], "--one") == 0 ? strtoll(argv[i + 1], NULL, 10) : one;
    }
    for (int64_t n = one < 0 ? 0 : one; n < (one < 0 ? problems : one + 1); n++)
        tr_check(&t, seed, n, &tight);
    printf("bounds within 1 %%: %d of %" PRId64 "\n", tight, one < 0 ? problems : 1);
    if (one < 0)
        T_CHECK(tight > problems / 8);
    T_END("t_glm_referee");
}
