/* SPDX-License-Identifier: MIT */
/* op_check.h: holds every output of a case against the truth, as far off as tools/lab/op_bound.h
 * allows. A value that is not a number must stay so and infect no other. */
#ifndef GY_OP_CHECK_H
#define GY_OP_CHECK_H
#include "tools/lab/op_bound.h"
#include "tests/op_case.h"

static int op_quiet; /* the tests of the test: complaints are only counted */

/* The case for tools/lab/op_bound.h; the memory stays the case's. */
static struct gy_bound op_bound(const struct op_case *c, const struct op_memory *m)
{
    struct gy_bound b = { .code = c->code, .act = c->act, .act_param = OP_ACT_PARAM, .dtype = c->dtype, .geom = c->geom, .whole = c->values == OP_POWERS };
    for (int role = 0; role < GY_ROLES; role++) {
        b.truth[role] = m->t[role].truth;
        b.size[role] = m->t[role].size;
    }
    return b;
}

static int op_is_sum(int code) { return gy_bound_is_sum(code); }
static double op_rms(const double *x, int64_t count) { return gy_bound_rms(x, count); }

/* A weight gradient may multiply a gradient that is not a number with the zeros of the padding. */
static int op_may_spread(const struct op_case *c) { return c->values == OP_NAN && c->code == GY_OP_CONV_WGRAD; }

/* Beyond the range of f16, up to a rounding: infinite there. */
static int op_overflows(const struct op_tensor *t, int64_t i, float got)
{
    return t->f16 && t->bytes == 2 && isinf(got) && (double)got * t->truth[i] > 0 && fabs(t->truth[i]) > 65504 - 32;
}

/* The number of wrong elements; the first is told. */
static int op_compare_real(const struct op_case *c, const struct op_memory *m, int role, const char *where)
{
    const struct op_tensor *t = &m->t[role];
    const double rms = op_rms(t->truth, t->count);
    const struct gy_bound bound = op_bound(c, m);
    char text[300];
    int wrong = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const int allowed = c->values == OP_NAN ? !isinf(t->truth[i]) : isfinite(t->truth[i]);
        const float got = op_get(t, i);
        if (allowed && isnan(got) && (isnan(t->truth[i]) || op_may_spread(c)))
            continue;
        if (op_overflows(t, i, got))
            continue;
        if (allowed && fabs((double)got - t->truth[i]) <= gy_bound_of(&bound, role, i, rms, t->bytes == 2))
            continue;
        if (wrong++ == 0 && !op_quiet)
            printf("%s: %s seed %" PRIu64 ": %s[%" PRId64 "] is %.9g, truth %.9g, allowed %.3g\n", where,
                   op_text(c, text, sizeof text), m->seed, gy_role_name(role), i, (double)got, t->truth[i],
                   gy_bound_of(&bound, role, i, rms, t->bytes == 2));
    }
    return wrong;
}

static int op_guards_whole(const struct op_tensor *t)
{
    const size_t guard = (size_t)OP_GUARD * (size_t)t->bytes, body = (size_t)t->count * (size_t)t->bytes;
    for (size_t i = 0; i < guard; i++)
        if (t->raw[i] != OP_POISON || t->raw[guard + body + i] != OP_POISON)
            return 0;
    return 1;
}

/* Is a tensor that the op only reads as it was? */
static int op_input_whole(const struct op_tensor *t)
{
    if (!t->real)
        return memcmp(op_place(t), t->other, (size_t)t->count * (size_t)t->bytes) == 0;
    for (int64_t i = 0; i < t->count; i++) {
        const float now = op_get(t, i), was = (float)t->truth[i];
        if (memcmp(&now, &was, sizeof now) != 0 && !isnan(t->truth[i]))
            return 0;
    }
    return 1;
}

static int op_complain(const struct op_case *c, int role, const char *where, const char *what)
{
    char text[300];
    if (!op_quiet)
        printf("%s: %s: %s: %s\n", where, op_text(c, text, sizeof text), gy_role_name(role), what);
    return 1;
}

/* taken: role whose memory an output took over (in place), or -1. */
static int op_compare(const struct op_case *c, const struct op_memory *m, const char *where, int taken)
{
    int wrong = 0;
    for (int role = 0; role < GY_ROLES; role++) {
        const struct op_tensor *t = &m->t[role];
        if (!t->raw)
            continue;
        if (!op_guards_whole(t))
            wrong += op_complain(c, role, where, "written beside");
        if (op_writes(c, role) && t->real)
            wrong += op_compare_real(c, m, role, where);
        else if (op_writes(c, role) && memcmp(op_place(t), t->other, (size_t)t->count * (size_t)t->bytes) != 0)
            wrong += op_complain(c, role, where, "differs");
        else if (!op_writes(c, role) && role != taken && !op_input_whole(t))
            wrong += op_complain(c, role, where, "an input was changed");
    }
    return wrong;
}

#endif
