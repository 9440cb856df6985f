/* SPDX-License-Identifier: MIT */
/* glm_shrink.c: makes a linear problem on which something fails smaller: plainer options, fewer
 * rows, columns and entries, shorter numbers. A problem that still fails is the one from then
 * on. */
#include "engine/base/clock.h"
#include "tests/glm_problem.h"

struct gs_shrink {
    struct gp_case *now, *next; /* next: with one thing changed */
    int (*fails)(void *user, const struct gp_case *c);
    void *user;
    int calls, tries;
    int64_t until;
};

static int gs_is_over(const struct gs_shrink *s) { return s->calls >= s->tries || gy_clock_ns() > s->until; }

static int gs_differ(double a, double b) { return a < b || a > b; }

/* Takes the change when the problem still fails with it. */
static int gs_try(struct gs_shrink *s)
{
    const int taken = !gs_is_over(s) && (s->calls++, s->fails(s->user, s->next));
    memcpy(taken ? s->now : s->next, taken ? s->next : s->now, sizeof *s->now);
    return taken;
}

/* ---- options ---- */

static double gs_rounded(double v, int digits)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", digits, v);
    return strtod(text, NULL);
}

static int gs_options(struct gs_shrink *s)
{
    int progress = 0;
    for (int k = 0; k < GP_OPTIONS; k++) {
        double *const value = &s->next->option[k];
        if (gs_differ(*value, gp_rows[k].plain)) {
            *value = gp_rows[k].plain;
            if (gs_try(s)) {
                progress = 1;
                continue;
            }
        }
        const double shorter[] = { 1, pow(10, floor(log10(fabs(*value) + 1e-300))), gs_rounded(*value, 1), floor(*value / 2) };
        for (int n = gp_has_words(k) ? 4 : 0; n < 4; n++) {
            const double plain = gp_rows[k].plain;
            const int nearer = n < 3 ? gs_differ(*value, 1) && gs_differ(gs_rounded(*value, 6), gs_rounded(shorter[n], 6))
                                     : *value > 2 && *value <= 1000 && shorter[n] >= plain;
            /* a power of ten is as plain as 1: no change back and forth */
            if (!nearer || !gs_differ(*value, plain) || (n > 0 && n < 2 && gs_rounded(*value, 1) <= shorter[1] && gs_rounded(*value, 1) >= shorter[1]))
                continue;
            *value = shorter[n];
            if (gs_try(s)) {
                progress = 1;
                break;
            }
        }
    }
    return progress;
}

static int gs_unweighted(struct gs_shrink *s)
{
    if (!s->now->weighted)
        return 0;
    s->next->weighted = 0;
    return gs_try(s);
}

/* ---- rows and columns ---- */

static void gs_drop_rows(struct gp_case *c, int first, int count)
{
    const int rest = c->rows - first - count;
    memmove(c->x + first * c->features, c->x + (first + count) * c->features, (size_t)(rest * c->features) * sizeof *c->x);
    memmove(c->label + first, c->label + first + count, (size_t)rest * sizeof *c->label);
    memmove(c->weight + first, c->weight + first + count, (size_t)rest * sizeof *c->weight);
    c->rows -= count;
}

static void gs_drop_columns(struct gp_case *c, int first, int count)
{
    const int left = c->features - count;
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < left; j++)
            c->x[i * left + j] = c->x[i * c->features + (j < first ? j : j + count)];
    c->features = left;
}

/* Halves first, then smaller pieces. least: that stay. */
static int gs_pieces(struct gs_shrink *s, const int *size, int least, void (*drop)(struct gp_case *c, int first, int count))
{
    int progress = 0;
    for (int piece = (*size + 1) / 2; piece > 0; piece = piece == 1 ? 0 : (piece + 1) / 2)
        for (int first = *size - piece; first >= 0 && !gs_is_over(s);) {
            if (*size - piece >= least) {
                drop(s->next, first, piece);
                progress |= gs_try(s);
            }
            first = first - piece < 0 && first > 0 ? 0 : first - piece;
            first = first + piece > *size ? *size - piece : first;
        }
    return progress;
}

/* ---- numbers ---- */

/* may_go: 0 is tried too. Weights cannot be negative. */
static int gs_number(struct gs_shrink *s, float *value, int may_go, int is_weight)
{
    const double v = (double)*value, size = fabs(v), sign = v < 0 ? -1 : 1;
    const double power = size > 0 ? pow(10, floor(log10(size) + 0.5)) : 0;
    const double simpler[] = { 0, 1, -1, sign * power, gs_rounded(v, 1), gs_rounded(v, 2) };
    if (!(size > 0))
        return 0;
    for (int n = may_go ? 0 : 1; n < 6; n++) {
        if (n > 0 && (v >= 1 ? v <= 1 : v <= -1 && v >= -1))
            return 0; /* 1 or -1: as simple as it gets */
        const int is_power = !gs_differ(gs_rounded(size, 7), gs_rounded(power, 7));
        if ((n > 2 && is_power) || (n == 4 && !gs_differ(gs_rounded(v, 7), simpler[4])) || (n == 5 && !gs_differ(gs_rounded(v, 7), simpler[5])))
            continue;
        if (is_weight && n == 2)
            continue;
        *value = (float)simpler[n];
        if (gs_try(s))
            return 1;
    }
    return 0;
}

static int gs_numbers(struct gs_shrink *s)
{
    struct gp_case *const c = s->next;
    int progress = 0;
    for (int i = 0; i < c->rows && !gs_is_over(s); i++) {
        progress |= gs_number(s, &c->label[i], 0, 0);
        if (c->weighted)
            progress |= gs_number(s, &c->weight[i], 1, 1);
        for (int j = 0; j < c->features; j++)
            progress |= gs_number(s, &c->x[i * c->features + j], 1, 0);
    }
    return progress;
}

int gp_shrink(struct gp_case *c, int (*fails)(void *user, const struct gp_case *c), void *user, int tries, double seconds)
{
    struct gs_shrink s = { .now = c, .next = malloc(sizeof *c), .fails = fails, .user = user, .tries = tries };
    s.until = gy_clock_ns() + (int64_t)(seconds * 1e9);
    if (!s.next)
        return 0;
    memcpy(s.next, c, sizeof *c);
    for (int progress = 1; progress && !gs_is_over(&s);) {
        progress = gs_pieces(&s, &s.next->rows, 1, gs_drop_rows);
        progress |= gs_pieces(&s, &s.next->features, 0, gs_drop_columns);
        progress |= gs_unweighted(&s) | gs_options(&s);
        progress |= s.next->rows * s.next->features <= 400 ? gs_numbers(&s) : 0;
    }
    free(s.next);
    return s.calls;
}
