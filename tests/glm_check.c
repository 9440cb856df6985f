/* SPDX-License-Identifier: MIT */
/* glm_check.c: judges a training of a linear model by the exact objective of its weights and by the
 * interval that holds the optimum. */
#include "tests/glm_check.h"

#define GC_WORK 8e8          /* multiplications for a part's optimum, at most: about a second */
#define GC_NOISE 1e-13L      /* of the truth, relative */
/* relative excess of a reported objective over the exact one, beside float64 rounding */
#define GC_CLAIM 1e-9L
#define GC_NARROW 1e-10L     /* an interval that is wider decides nothing */
#define GC_ZERO 1e-30L       /* is as good as 0 */
/* "rounding" may be the reason this near the optimum, or as near as floats allow */
#define GC_NEAR 1e-2L
#define GC_FLOATS 100.0L     /* times what rounding scores to float does */

/* In the order in which the report takes the last one that a part has. */
static const char *const gc_whys[] = { "gap", "target", "validation", "epochs", "time", "rounding", "stalled", "stopped" };

static int gc_says(char why[GC_WHY], const char *kind, const struct gc_outcome *o, const char *fmt, ...) GY_PRINTF(4, 5);
static int gc_says(char why[GC_WHY], const char *kind, const struct gc_outcome *o, const char *fmt, ...)
{
    va_list args;
    const int head = snprintf(why, GC_WHY, "%s (%s): ", kind, o->solver[0] ? o->solver : "none");
    va_start(args, fmt);
    vsnprintf(why + head, GC_WHY - (size_t)head, fmt, args);
    va_end(args);
    return 1;
}

/* ---- refusals ---- */

static int gc_loss(const struct gp_case *c) { return (int)c->option[GP_LOSS]; }

static const char *gc_softmax_refusal(const struct gp_case *c)
{
    return gc_loss(c) != GYRE_GLM_LOGISTIC ? "softmax of another loss" : gp_on(c, GP_L1) ? "softmax with l1" : gp_on(c, GP_SOLVER) ? "softmax with a solver"
           : !gp_on(c, GP_L2) ? "softmax without l2" : NULL;
}

static int gc_fits(const struct gp_case *c, int solver)
{
    const int hinge = gc_loss(c) == GYRE_GLM_HINGE, free = gp_on(c, GP_FREE);
    switch (solver) {
    case GP_SDCA: return gp_on(c, GP_L2) && !free;
    case GP_NEWTON: return !gp_on(c, GP_L1) && gp_on(c, GP_L2) && !(hinge && free);
    default: return gp_on(c, GP_L1) && !hinge;
    }
}

static int gc_has_label(const struct gp_case *c, float label)
{
    int has = 0;
    for (int i = 0; i < c->rows; i++)
        has |= c->label[i] >= label && c->label[i] <= label;
    return has;
}

const char *gc_refusal(const struct gp_case *c)
{
    float label[GP_CLASSES + 1];
    const int solver = (int)c->option[GP_SOLVER];
    if (gp_on(c, GP_FREE) && !gp_on(c, GP_BIAS))
        return "no bias that could be free";
    if (gc_loss(c) != GYRE_GLM_SQUARED && gp_classes(c, label) == 1)
        return "one class";
    if (gc_loss(c) != GYRE_GLM_SQUARED && gp_on(c, GP_FACTOR) && !gc_has_label(c, (float)c->option[GP_FACTOR_LABEL]))
        return "a weight for a label that no row has";
    if (gp_is_softmax(c))
        return gc_softmax_refusal(c);
    if (solver != GP_AUTO)
        return gc_fits(c, solver) ? NULL : "a solver that does not fit";
    return gc_fits(c, GP_SDCA) || gc_fits(c, GP_NEWTON) || gc_fits(c, GP_L1_SOLVER) ? NULL : "no solver fits";
}

/* All rows of a class weigh nothing, or no row has an entry. */
static int gc_is_empty(const struct gp_case *c)
{
    float label[GP_CLASSES + 1];
    double weight[GP_CLASSES + 1] = { 0 };
    const int classes = gc_loss(c) == GYRE_GLM_SQUARED ? 1 : gp_classes(c, label);
    int entries = 0, none = 0;
    for (int i = 0; i < c->rows; i++) {
        int class = 0;
        while (class + 1 < classes && label[class] < c->label[i])
            class++;
        weight[class] += c->weighted ? (double)c->weight[i] : 1;
    }
    for (int k = 0; k < classes; k++)
        none |= !(weight[k] > 0);
    for (int e = 0; e < c->rows * c->features; e++)
        entries += gp_has(c->x[e]);
    return none || (entries == 0 && !gp_on(c, GP_BIAS)) || c->features == 0;
}

/* What may be refused, with a sentence, and need not be. */
static int gc_may_refuse(const struct gp_case *c, const struct gc_outcome *o)
{
    return (o->status == GYRE_E_NOMEM && (int)c->option[GP_SOURCE] == GP_STREAMED)
           || ((o->status == GYRE_E_ARG || o->status == GYRE_E_FORMAT || o->status == GYRE_E_UNSUPPORTED) && gc_is_empty(c));
}

static int gc_refused(char why[GC_WHY], const struct gc_outcome *o, const char *reason)
{
    snprintf(why, GC_WHY, "refused (status %d): %.300s: %.400s", o->status, reason, o->text);
    return 1;
}

static int gc_judge_refusal(const struct gp_case *c, const struct gc_outcome *o, const char *reason, char why[GC_WHY])
{
    const int known = o->status == GYRE_E_ARG || o->status == GYRE_E_FORMAT || o->status == GYRE_E_UNSUPPORTED || o->status == GYRE_E_NOMEM;
    if (!reason && !gc_may_refuse(c, o))
        return gc_refused(why, o, "without reason");
    if (!known)
        return gc_refused(why, o, reason ? reason : "empty");
    if (!o->text[0] || strchr(o->text, '\n') || strlen(o->text) > 500)
        return gc_says(why, "refused", o, "not with one sentence: '%.400s'", o->text);
    return 0;
}

/* ---- the truth ---- */

int gc_is_model(const struct gc_outcome *o) { return o->status == GYRE_OK || o->status == GYRE_E_STOPPED; }

int gc_truth_open(struct gc_truth *truth, const struct gp_case *c, const struct gc_outcome *o)
{
    *truth = (struct gc_truth){ 0 };
    const int parts = gp_is_softmax(c) ? 1 : gp_models(c);
    if (!gc_is_model(o) || (int)o->features > c->features)
        return 0;
    for (int k = 0; k < parts && k < GP_CLASSES; k++, truth->parts++) {
        if (gt_open(&truth->problem[k], c, k, (int)o->features) != 0)
            return gc_truth_close(truth), -1;
        gt_optimum_of(&truth->problem[k], GC_WORK, &truth->optimum[k]);
        truth->undecided += truth->optimum[k].upper - truth->optimum[k].lower > GC_NARROW * truth->optimum[k].upper + GC_ZERO;
    }
    return 0;
}

void gc_truth_close(struct gc_truth *truth)
{
    for (int k = 0; k < truth->parts; k++)
        gt_close(&truth->problem[k]);
    *truth = (struct gc_truth){ 0 };
}

/* Exact objective of a part's weights. Of softmax all classes are one part. */
static void gc_exact(const struct gc_truth *truth, const struct gc_outcome *o, int part, struct gt_value *out)
{
    const struct gt_problem *const t = &truth->problem[part];
    float w[GP_CLASSES * GP_WIDTH];
    for (int k = 0; k < t->classes; k++)
        memcpy(w + k * t->width, o->part[t->classes > 1 ? k : part].weight, (size_t)t->width * sizeof *w);
    gt_value_of(t, w, out);
}

double gc_distance(const struct gc_truth *truth, const struct gc_outcome *o)
{
    long double worst = 0;
    for (int k = 0; k < truth->parts; k++) {
        struct gt_value v;
        gc_exact(truth, o, k, &v);
        const long double off = v.p > truth->optimum[k].upper ? (v.p - truth->optimum[k].upper) / v.p : 0;
        worst = off > worst ? off : worst;
    }
    return (double)worst;
}

/* ---- claims ---- */

static int gc_part_reaches(const struct gp_case *c, const struct gc_part *p)
{
    return p->objective - p->bound <= c->option[GP_GAP] * fabs(p->objective) * (1 + 1e-12);
}

int gc_reaches(const struct gp_case *c, const struct gc_outcome *o)
{
    int all = 1;
    for (int k = 0; k < (gp_is_softmax(c) ? 1 : o->models); k++)
        all &= gc_part_reaches(c, &o->part[k]);
    return all;
}

static int gc_judge_weights(const struct gc_outcome *o, int width, char why[GC_WHY])
{
    for (int k = 0; k < o->models; k++)
        for (int j = 0; j < width; j++)
            if (!isfinite(o->part[k].weight[j]))
                return gc_says(why, "weight", o, "weight %d of model %d is %g", j, k, (double)o->part[k].weight[j]);
    return 0;
}

static int gc_judge_part(const struct gc_truth *truth, const struct gc_outcome *o, int k, char why[GC_WHY])
{
    const struct gc_part *const p = &o->part[k];
    const struct gt_optimum *const best = &truth->optimum[k];
    struct gt_value v;
    gc_exact(truth, o, k, &v);
    const long double claim = (long double)p->objective, bound = (long double)p->bound;
    const long double upper = v.p + v.error < best->upper ? v.p + v.error : best->upper;
    if (o->status == GYRE_E_STOPPED && isnan(p->objective))
        return 0; /* its turn had not come */
    if (!(claim >= v.p - v.error - GC_NOISE * v.p))
        return gc_says(why, "objective below", o, "model %d claims %.17g; its weights have %.17Lg, %.3Lg more", k, p->objective, v.p, v.p - claim);
    if (!(claim <= v.p + v.error + GC_CLAIM * v.p + 4 * v.f64 + GC_ZERO))
        return gc_says(why, "objective above", o, "model %d claims %.17g; its weights have %.17Lg, %.3Lg less (float64 explains %.3Lg)", k, p->objective, v.p,
                       claim - v.p, v.f64);
    if (bound > upper + GC_NOISE * upper + GC_ZERO)
        return gc_says(why, "false bound", o, "model %d: bound %.17g, the optimum is at most %.17Lg, %.3Lg less", k, p->bound, upper, bound - upper);
    if (isinf(p->bound))
        return gc_says(why, "bound", o, "model %d: bound %g", k, p->bound);
    return 0;
}

/* Its place among reasons; -1: it is none. */
static int gc_rank_of(const char *why)
{
    for (int k = 0; k < (int)GY_COUNT(gc_whys); k++)
        if (strcmp(why, gc_whys[k]) == 0)
            return k;
    return -1;
}

/* A part may say of its end only what is so. */
static int gc_judge_end(const struct gp_case *c, const struct gc_truth *truth, const struct gc_outcome *o, int k, char why[GC_WHY])
{
    const struct gc_part *const p = &o->part[k];
    const double *const option = c->option, gap = p->objective - p->bound;
    struct gt_value v;
    if (gc_rank_of(p->why) < 0)
        return gc_says(why, "why", o, "model %d: \"%s\" is no reason to end", k, p->why);
    if (strcmp(p->why, "gap") == 0 && !gc_part_reaches(c, p))
        return gc_says(why, "not the gap", o, "model %d says \"gap\": objective %.17g, bound %.17g are %.3g apart, not %g", k, p->objective, p->bound,
                       gap / fabs(p->objective), option[GP_GAP]);
    if ((strcmp(p->why, "target") == 0 && !(p->objective <= option[GP_TARGET])) || (strcmp(p->why, "epochs") == 0 && p->epochs < (int)option[GP_EPOCHS])
        || (strcmp(p->why, "validation") == 0 && !gp_on(c, GP_VALIDATION)) || (strcmp(p->why, "time") == 0 && !gp_on(c, GP_SECONDS))
        || (strcmp(p->why, "stopped") == 0 && o->status != GYRE_E_STOPPED))
        return gc_says(why, "why", o, "model %d says \"%s\", which is not so: objective %.17g, %d epochs", k, p->why, p->objective, p->epochs);
    gc_exact(truth, o, k, &v);
    /* a wider interval may mean that no bound exists at all */
    const int known = truth->optimum[k].upper - truth->optimum[k].lower <= GC_NEAR * truth->optimum[k].upper;
    if (known && strcmp(p->why, "rounding") == 0 && (long double)gap > GC_NEAR * v.p + GC_FLOATS * v.f32 + v.bound + GC_ZERO)
        return gc_says(why, "not rounding", o, "model %d says \"rounding\": %.9Lg, bound %.9g, optimum %.9Lg; rounding scores to float moves it by %.3Lg", k,
                       v.p, p->bound, truth->optimum[k].upper, v.f32);
    return 0;
}

static int gc_judge_why(const struct gp_case *c, const struct gc_truth *truth, const struct gc_outcome *o, char why[GC_WHY])
{
    int last = 0;
    for (int k = 0; k < truth->parts; k++) {
        if (o->status == GYRE_E_STOPPED && isnan(o->part[k].objective))
            continue; /* its turn had not come */
        if (gc_judge_end(c, truth, o, k, why))
            return 1;
        last = gc_rank_of(o->part[k].why) > last ? gc_rank_of(o->part[k].why) : last;
    }
    if (gc_rank_of(o->why) != last || (strcmp(o->why, "stopped") == 0) != (o->status == GYRE_E_STOPPED))
        return gc_says(why, "why", o, "status %d, all say \"%s\", the models \"%s\"", o->status, o->why, gc_whys[last]);
    if (o->status != GYRE_E_STOPPED && o->reached != gc_reaches(c, o))
        return gc_says(why, "reached", o, "the report says %d", o->reached);
    return 0;
}

/* A bound that is true, as others see, but that verification has no bound for that is as good. */
int gc_is_unproved(const struct gc_verdict *verdict) { return strcmp(verdict->wrong, "its bound is not proved") == 0; }

/* What verification says of the file. */
static int gc_judge_verdict(const struct gc_truth *truth, const struct gc_outcome *o, char why[GC_WHY])
{
    if (o->verify[0])
        return gc_says(why, "verify", o, "%s", o->verify);
    for (int k = 0; k < truth->parts && o->verified; k++) {
        const struct gc_verdict *const d = &o->verdict[k];
        const struct gt_optimum *const best = &truth->optimum[k];
        struct gt_value v;
        gc_exact(truth, o, k, &v);
        if ((long double)d->objective < v.p - v.error - GC_NOISE * v.p || (long double)d->least > v.p + v.error + GC_NOISE * v.p + GC_ZERO)
            return gc_says(why, "verdict", o, "model %d: its objective %.17Lg is not in [%.17g, %.17g]", k, v.p, d->least, d->objective);
        if ((long double)d->bound > best->upper + GC_NOISE * best->upper + GC_ZERO)
            return gc_says(why, "verdict", o, "model %d: bound %.17g, the optimum is at most %.17Lg", k, d->bound, best->upper);
        if (d->wrong[0] && !gc_is_unproved(d) && !isnan(o->part[k].objective))
            return gc_says(why, "verdict", o, "model %d: %s (objective %.17g in [%.17g, %.17g], bound %.17g, proved %.17g)", k, d->wrong, o->part[k].objective,
                           d->least, d->objective, o->part[k].bound, d->bound);
    }
    return 0;
}

static int gc_differs(double a, double b) { return !(fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b))) && !(isnan(a) && isnan(b)); }

static int gc_judge_report(const struct gc_truth *truth, const struct gc_outcome *o, char why[GC_WHY])
{
    double objective = 0, bound = 0, gap = -1;
    for (int k = 0; k < truth->parts; k++) {
        const struct gc_part *const p = &o->part[k];
        const double own = p->objective > 0 ? (p->objective - p->bound) / p->objective : 0;
        objective += p->objective;
        bound += p->bound;
        gap = own > gap || isnan(own) ? own : gap;
    }
    if (o->status == GYRE_E_STOPPED) /* parts whose turn did not come are in no sum */
        return 0;
    if (gc_differs(objective, o->objective) || gc_differs(bound, o->bound))
        return gc_says(why, "report", o, "objective %.17g, bound %.17g; the models have %.17g, %.17g", o->objective, o->bound, objective, bound);
    if (!isnan(gap) && fabs(gap - o->gap) > 1e-12 * (1 + fabs(gap)))
        return gc_says(why, "report", o, "gap %.17g; the models have %.17g", o->gap, gap);
    return 0;
}

int gc_judge(const struct gp_case *c, const struct gc_truth *truth, const struct gc_outcome *o, char why[GC_WHY])
{
    const char *const reason = gc_refusal(c);
    why[0] = 0;
    if (!gc_is_model(o))
        return gc_judge_refusal(c, o, reason, why);
    if (reason)
        return gc_says(why, "not refused", o, "%s", reason);
    if (o->models != gp_models(c) || (int)o->features > c->features)
        return gc_says(why, "model", o, "%d models of %u features", o->models, o->features);
    if (o->file[0])
        return gc_says(why, "file", o, "%s", o->file);
    if (gc_judge_weights(o, truth->problem[0].width, why))
        return 1;
    for (int k = 0; k < truth->parts; k++)
        if (gc_judge_part(truth, o, k, why))
            return 1;
    return gc_judge_why(c, truth, o, why) || gc_judge_report(truth, o, why) || gc_judge_verdict(truth, o, why);
}

void gc_print(const struct gc_truth *truth, const struct gc_outcome *o)
{
    printf("    status %d, %s, why \"%s\", %d epochs, %.2f s%s%s%s\n", o->status, o->solver, o->why, o->epochs, o->seconds, o->streamed ? ", streamed" : "",
           o->text[0] ? ": " : "", o->text);
    for (int k = 0; k < truth->parts && gc_is_model(o); k++) {
        struct gt_value v;
        gc_exact(truth, o, k, &v);
        const struct gt_optimum *const best = &truth->optimum[k];
        printf("    model %d: objective %.17g (exact %.17Lg) bound %.17g epochs %d%s%s\n        optimum in [%.17Lg, %.17Lg], %.2Lg wide, %d steps;%s", k,
               o->part[k].objective, v.p, o->part[k].bound, o->part[k].epochs, o->part[k].why[0] ? " why " : "", o->part[k].why, best->lower, best->upper,
               best->upper - best->lower, best->steps, truth->problem[k].width > 12 ? "" : " weights");
        for (int j = 0; j < truth->problem[k].width && truth->problem[k].width <= 12; j++)
            printf(" %.9g", (double)o->part[k].weight[j]);
        printf("\n");
    }
}
