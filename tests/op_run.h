/* SPDX-License-Identifier: MIT */
/* op_run.h: runs one case on a backend and holds every output against the truth. Where an op is a sum of products, the error allowed is
 * eps * (8 + 2 sqrt(terms)) times the sum of the products' sizes; elsewhere a few eps of the value and of the tensor's mean size. */
#ifndef GY_OP_RUN_H
#define GY_OP_RUN_H
#include "op_case.h"

#define OP_EPS 5.9604645e-8 /* 2^-24 */

struct op_device {
    const struct gy_backend *backend;
    void *self;
    const char *isa;
    int spoil; /* the meta test: a wrong number after every run */
};

static struct gy_alloc op_alloc;

static int op_device_open(struct op_device *d, const char *isa, int threads)
{
    struct gy_error err = { 0 };
    op_alloc = gy_alloc_default();
    const struct gy_backend_config config = { .alloc = &op_alloc, .isa = isa, .threads = threads };
    *d = (struct op_device){ .backend = gy_cpu_backend(), .isa = isa };
    return d->backend->open(&d->self, &config, &err);
}

static int64_t op_terms(const struct op_case *c)
{
    const struct gy_geom *g = &c->geom;
    switch (c->code) {
    case GY_OP_CONV: return (int64_t)g->r * g->s * (g->c / g->groups);
    case GY_OP_CONV_DGRAD: return (int64_t)g->r * g->s * (g->k / g->groups);
    default: return g->n * g->p * g->q;
    }
}

static double op_rms(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return count ? sqrt(sum / (double)count) : 0;
}

/* Is the op a sum of products whose sizes were computed? */
static int op_is_sum(int code)
{
    return code == GY_OP_CONV || code == GY_OP_CONV_DGRAD || code == GY_OP_CONV_WGRAD || code == GY_OP_BN_APPLY || code == GY_OP_ADD;
}

static double op_limit(const struct op_case *c, const struct op_memory *m, int role, int64_t i, double rms)
{
    const struct op_tensor *t = &m->t[role];
    const double grow = OP_EPS * (8 + 2 * sqrt((double)op_terms(c))), truth = fabs(t->truth[i]);
    const double pixels = (double)(c->geom.n * c->geom.p * c->geom.q);
    if (role == GY_STATS) {
        const int source = c->code == GY_OP_CONV ? GY_Y : GY_X;
        const double typical = op_rms(m->t[source].size, m->t[source].count);
        const double rounding = c->code == GY_OP_CONV ? grow : 0;
        return 1e-37 + (i < c->geom.k ? (rounding + 16 * OP_EPS) * typical : 64 * OP_EPS * truth + (rounding + 16 * OP_EPS) * typical * typical * pixels);
    }
    if (c->code == GY_OP_BN_SUMS) {
        const double dy = op_rms(m->t[GY_DY].truth, m->t[GY_DY].count), x = op_rms(m->t[GY_X].truth, m->t[GY_X].count);
        const double terms = 1 + (x + op_rms(m->t[GY_MEAN].truth, c->geom.k)) * op_rms(m->t[GY_RSTD].truth, c->geom.k) * 3;
        return OP_EPS * (8 + 2 * sqrt(pixels)) * pixels * dy * terms + 16 * OP_EPS * truth + 1e-37;
    }
    if (op_is_sum(c->code)) /* the slope of a curve is at most 1 */
        return grow * t->size[i] + (c->act >= GY_ACT_SIGMOID ? 4 * OP_EPS : 0) + 1e-37;
    if (c->code == GY_OP_BN_BWD)
        return 64 * OP_EPS * (truth + 4 * rms) * (1 + op_rms(m->t[GY_SUMS].truth, 2 * c->geom.k) / pixels) + 1e-38;
    return 64 * OP_EPS * (truth + rms) + 1e-38;
}

/* The number of wrong elements; the first is told. */
static int op_compare_real(const struct op_case *c, const struct op_memory *m, int role, const char *where)
{
    const struct op_tensor *t = &m->t[role];
    const float *got = (const float *)(const void *)op_place(t);
    const double rms = op_rms(t->truth, t->count);
    char text[300];
    int wrong = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (fabs((double)got[i] - t->truth[i]) <= op_limit(c, m, role, i, rms) && isfinite(t->truth[i]))
            continue;
        if (wrong++ == 0)
            printf("%s: %s seed %" PRIu64 ": %s[%" PRId64 "] is %.9g, truth %.9g, allowed %.3g\n", where, op_text(c, text, sizeof text), m->seed,
                   gy_role_name(role), i, (double)got[i], t->truth[i], op_limit(c, m, role, i, rms));
    }
    return wrong;
}

static int op_compare(const struct op_case *c, const struct op_memory *m, const char *where)
{
    char text[300];
    int wrong = 0;
    for (int role = 0; role < GY_ROLES; role++) {
        const struct op_tensor *t = &m->t[role];
        if (!t->raw)
            continue;
        if (!op_guards_whole(t)) {
            printf("%s: %s: written beside %s\n", where, op_text(c, text, sizeof text), gy_role_name(role));
            wrong++;
        }
        if (op_writes(c, role) && t->real)
            wrong += op_compare_real(c, m, role, where);
        else if (op_writes(c, role) && memcmp(op_place(t), t->other, (size_t)t->count * (size_t)t->bytes) != 0) {
            printf("%s: %s: %s differs\n", where, op_text(c, text, sizeof text), gy_role_name(role));
            wrong++;
        }
    }
    return wrong;
}

/* A wrong kernel: the last element of the first output is off by a hundredth. */
static void op_spoil(const struct op_case *c, struct op_memory *m)
{
    for (int role = 0; role < GY_ROLES; role++) {
        struct op_tensor *t = &m->t[role];
        if (!t->raw || !op_writes(c, role))
            continue;
        if (t->real)
            ((float *)(void *)op_place(t))[t->count - 1] += 0.01f * (float)(1 + fabs(t->truth[t->count - 1]));
        else
            op_place(t)[0] ^= 1;
        return;
    }
}

/* Prepares and runs op; the scratch starts as NaNs. Returns a status. */
static int op_execute(const struct op_device *d, struct gy_op *op)
{
    struct gy_error err = { 0 };
    int status = d->backend->prepare(d->self, op, &err);
    if (status != GY_OK) {
        printf("refused: %s\n", err.text);
        return status;
    }
    unsigned char *raw = op->scratch_bytes ? malloc(op->scratch_bytes + 2 * GY_CACHE_LINE) : NULL;
    if (raw) {
        unsigned char *place = raw + (GY_CACHE_LINE - (uintptr_t)raw % GY_CACHE_LINE);
        memset(raw, 0xff, op->scratch_bytes + 2 * GY_CACHE_LINE);
        op->ptr[GY_SCRATCH] = place;
    }
    status = d->backend->run(d->self, op);
    if (status == GY_OK)
        status = d->backend->sync(d->self);
    free(raw);
    return status;
}

/* Truth, and the sizes of the terms. */
static void op_truth(const struct op_case *c, struct op_memory *m)
{
    const struct gy_op truth = op_record(c, m, OP_TRUTH), size = op_record(c, m, OP_SIZE);
    op_truth_table()[c->code](&truth);
    if (op_is_sum(c->code))
        op_truth_table()[c->code](&size);
    else if (m->t[GY_X].real)
        for (int64_t i = 0; i < m->t[GY_X].count; i++)
            m->t[GY_X].size[i] = fabs(m->t[GY_X].truth[i]);
}

/* Number of wrong elements of a case. */
static int op_run_case(const struct op_device *d, const struct op_case *c, uint64_t seed)
{
    struct op_memory m;
    op_memory_make(&m, c, seed);
    struct gy_op op = op_record(c, &m, OP_KERNEL);
    op_truth(c, &m);
    int wrong = op_execute(d, &op) != GY_OK;
    if (d->spoil)
        op_spoil(c, &m);
    wrong += op_compare(c, &m, d->isa);
    op_memory_free(&m);
    return wrong;
}

/* The same, with output `pair` of the op's in-place list written over its input. */
static int op_run_in_place(const struct op_device *d, const struct op_case *c, int pair, uint64_t seed)
{
    const int out = gy_op_row(c->code)->in_place[pair].out, in = out < 0 ? -1 : gy_op_row(c->code)->in_place[pair].in;
    struct op_memory m;
    int wrong = 0;
    if (out < 0)
        return 0;
    op_memory_make(&m, c, seed);
    if (m.t[out].raw && m.t[in].raw && m.t[out].count == m.t[in].count && !op_reads(c, out)) {
        struct gy_op op = op_record(c, &m, OP_KERNEL);
        op_truth(c, &m);
        op.ptr[out] = op.ptr[in];
        wrong = op_execute(d, &op) != GY_OK;
        memcpy(op_place(&m.t[out]), op_place(&m.t[in]), (size_t)m.t[out].count * 4);
        wrong += op_compare(c, &m, "in place");
    }
    op_memory_free(&m);
    return wrong;
}

#endif
