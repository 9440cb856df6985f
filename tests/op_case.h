/* SPDX-License-Identifier: MIT */
/* op_case.h: one case of the op test: an op, its shapes and options, and its memory. Each tensor
 * lies there once in float (or bf16) for the kernel, between guard zones, and once in double for
 * the truth. */
#ifndef GY_OP_CASE_H
#define GY_OP_CASE_H
#include "engine/base/half.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "kernels/op_table.h"
#include "kernels/backend.h"
#include "kernels/cpu/ref/ref.h"
#include "tests/t.h"

/* The truth of each op code: the references in double (ref_double.c). */
const gy_ref_fn *op_truth_table(void);

/* What tensors hold, in order: bell-shaped numbers; one number everywhere; one huge element;
 * denormals; powers of two, whose sums are exact; zeros of both signs; bell-shaped numbers with
 * some NaN in X or DY. */
enum op_values { OP_NORMAL, OP_EQUAL, OP_HUGE, OP_TINY, OP_POWERS, OP_ZEROS, OP_VALUES, OP_NAN = OP_VALUES };

#define OP_BIT(role) (1ull << (role))

struct op_case {
    int code, act, dtype;
    uint32_t flags;
    struct gy_geom geom;
    float f[8];
    uint64_t without; /* optional roles that are left out */
    int accumulate, valid_less, values;
    int absent;    /* batch norm: samples that are not there */
    int spans;     /* update ops: number of tensors */
    int span_room; /* elements from one span to the next; 0: 48 */
};

#define OP_GUARD 64 /* elements before and behind each tensor */
#define OP_POISON 0xa5

struct op_tensor {
    int64_t count;
    int bytes;            /* of an element: 4; 2 for bf16; 1 for u8; sizeof(struct gy_mix) */
    int real;             /* float, bf16 or f16 here, double in the truth */
    int f16;
    unsigned char *raw;   /* guards included */
    /* real only: value; value with all inputs positive, the size of the terms */
    double *truth, *size;
    void *other;          /* not real: copy for the truth */
};

struct op_memory {
    struct op_tensor t[GY_ROLES];
    struct gy_span spans[8];
    struct gy_uniform u;
    uint64_t seed;
};

static int op_span_room(const struct op_case *c) { return c->span_room ? c->span_room : 48; }

/* Elements of a role. */
static int64_t op_count(const struct op_case *c, int role)
{
    const struct gy_geom *g = &c->geom;
    const int64_t in = g->n * g->h * g->w * g->c, out = g->n * g->p * g->q * g->k;
    const int loss = c->code == GY_OP_SOFTMAX_CE || c->code == GY_OP_MSE;
    if (c->spans)
        return role == GY_SUMS ? 2 * c->spans + 2 : (int64_t)op_span_room(c) * c->spans + 37;
    switch (role) {
    case GY_X:
    case GY_DX: return in;
    case GY_Y:
    case GY_DY:
    case GY_RES:
    case GY_DRES:
    case GY_AGAIN: return out;
    case GY_W:
    case GY_DW: return (int64_t)g->k * g->r * g->s * (g->c / g->groups);
    case GY_STATS:
    case GY_SUMS: return 2 * (int64_t)g->k;
    case GY_LABEL:
    case GY_MIX:
    case GY_LOSS: return g->n;
    case GY_TARGET: return out;
    case GY_ARG: return loss ? g->n : out;
    default: return g->k;
    }
}

static unsigned char *op_place(const struct op_tensor *t) { return t->raw + OP_GUARD * t->bytes; }

/* Roughly normal, deviation 1: four 16-bit pieces of a hash (splitmix64) added up. */
static double op_bell(uint64_t seed, int role, int64_t i)
{
    uint64_t z = (seed * 64 + (uint64_t)role + 1) * 0x9e3779b97f4a7c15u + (uint64_t)i * 0xd1342543de82ef95u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const double sum =
        (double)(z & 0xffff) + (double)(z >> 16 & 0xffff) + (double)(z >> 32 & 0xffff) + (double)(z >> 48);
    return (sum / 65536 - 2) * 1.7320508;
}

static double op_draw(const struct op_case *c, const struct op_memory *m, int role, int64_t i)
{
    const double x = op_bell(m->seed, role, i);
    switch (c->values) {
    case OP_EQUAL: return 0.75;
    case OP_HUGE: return i == 3 ? 1e6 : x;
    case OP_TINY: return x * 1e-40;
    case OP_POWERS: return ldexp(x < 0 ? -1 : 1, (int)(fabs(x) * 2));
    case OP_ZEROS: return i % 2 ? -0.0 : 0.0;
    case OP_NAN: return (role == GY_X || role == GY_DY) && (i % 29 == 5 || i % 71 == 3) ? (double)NAN : x;
    default: return x;
    }
}

/* A value that the role may hold: rates and variances are positive. */
static float op_value(const struct op_case *c, const struct op_memory *m, int role, int64_t i)
{
    const double x = op_draw(c, m, role, i);
    const int positive = role == GY_RSTD || role == GY_RUN_VAR || role == GY_V ||
                         (role == GY_STATS && i >= c->geom.k) || (role == GY_SUMS && c->spans);
    if (c->code == GY_OP_SOFTMAX_CE_BWD && role == GY_Y)
        return (float)(fabs(x) / c->geom.c);
    return (float)(positive ? fabs(x) + 0.1 : x);
}

/* A filter cell of output i that lies inside the image: what max pooling leaves for backward. */
static uint8_t op_cell(const struct gy_geom *g, int64_t i, uint64_t seed)
{
    const int32_t p = (int32_t)(i / g->k / g->q % g->p), q = (int32_t)(i / g->k % g->q);
    for (uint64_t k = 0;; k++) {
        uint32_t word[4];
        gy_rng_words(seed, 5, k, (uint64_t)i, word);
        const int32_t r = (int32_t)(word[0] % (uint32_t)g->r), s = (int32_t)(word[1] % (uint32_t)g->s);
        const int32_t h = p * g->stride_h - g->pad_h + r, w = q * g->stride_w - g->pad_w + s;
        if (h >= 0 && h < g->h && w >= 0 && w < g->w)
            return (uint8_t)(r * g->s + s);
    }
}

static struct gy_mix op_mix(const struct gy_geom *g, int64_t i, uint64_t seed)
{
    uint32_t word[4];
    gy_rng_words(seed, 6, 0, (uint64_t)i, word);
    const int32_t h0 = (int32_t)(word[0] % (uint32_t)g->h), w0 = (int32_t)(word[1] % (uint32_t)g->w);
    return (struct gy_mix){ .partner = (int32_t)(word[2] % (uint32_t)g->n),
                            .inside = i % 2 ? 0.0f : 0.3f,
                            .label = 0.6f,
                            .h0 = h0,
                            .w0 = w0,
                            .h1 = (int32_t)gy_min64(g->h, h0 + 3),
                            .w1 = g->w,
                            .dy = i % 3 ? (int32_t)(word[3] % 5) - 2 : 0,
                            .dx = i % 3 ? (int32_t)(word[3] / 5 % 7) - 3 : 0,
                            .flip = i % 3 == 2 };
}

static void op_fill_other(const struct op_case *c, struct op_memory *m, int role)
{
    struct op_tensor *t = &m->t[role];
    unsigned char *place = op_place(t);
    for (int64_t i = 0; i < t->count; i++) {
        uint32_t word[4];
        gy_rng_words(m->seed, 7, (uint64_t)role, (uint64_t)i, word);
        if (role == GY_MIX)
            ((struct gy_mix *)(void *)place)[i] = op_mix(&c->geom, i, m->seed);
        else if (role == GY_LABEL)
            ((int32_t *)(void *)place)[i] = i < c->valid_less ? -1 : (int32_t)(word[0] % (uint32_t)c->geom.c);
        else
            place[i] = role == GY_ARG ? op_cell(&c->geom, i, m->seed) : (uint8_t)word[0];
    }
}

static int op_is_other(const struct op_case *c, int role)
{
    return role == GY_LABEL || role == GY_MIX || role == GY_ARG || (role == GY_X && c->flags & GY_F_U8);
}

/* Does the op read what the role holds before? */
static int op_reads(const struct op_case *c, int role)
{
    const int adds = (role == GY_DX && c->flags & GY_F_ADD_DX) || (role == GY_DRES && c->flags & GY_F_ADD_DRES) ||
                     ((role == GY_DW || role == GY_DBIAS || role == GY_DGAMMA || role == GY_DBETA) && c->accumulate);
    const int part = c->code == GY_OP_CONCAT && role == GY_Y; /* the other channels stay */
    return adds || part || (gy_op_row(c->code)->reads >> role & 1);
}

static int op_writes(const struct op_case *c, int role) { return (int)(gy_op_row(c->code)->writes >> role & 1); }

/* f16 as IEEE 754 has it, rounded to nearest even. */
static float op_f16_widen(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double value = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                         : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                        : ldexp(fraction, -24);
    return (float)(h & 0x8000 ? -value : value);
}

static uint16_t op_f16_narrow(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent = 0;
    if (isnan(value))
        return 0x7e00;
    frexp((double)value, &exponent);
    const int step = exponent < -13 ? -24 : exponent - 11; /* of the last place */
    const double places = isfinite(value) ? nearbyint(ldexp(fabs((double)value), -step)) : 0, rounded = ldexp(places, step);
    if (!isfinite(value) || rounded >= 65536)
        return sign | 0x7c00;
    if (rounded < ldexp(1, -14))
        return (uint16_t)(sign | (int)ldexp(rounded, 24));
    frexp(rounded, &exponent);
    return (uint16_t)(sign | (exponent + 14) << 10 | ((int)ldexp(rounded, 11 - exponent) & 1023));
}

static float op_get(const struct op_tensor *t, int64_t i)
{
    const void *place = op_place(t);
    if (t->bytes != 2)
        return ((const float *)place)[i];
    return t->f16 ? op_f16_widen(((const uint16_t *)place)[i]) : gy_bf16_widen(((const uint16_t *)place)[i]);
}

static void op_set(const struct op_tensor *t, int64_t i, float value)
{
    void *place = op_place(t);
    if (t->bytes == 2)
        ((uint16_t *)place)[i] = t->f16 ? op_f16_narrow(value) : gy_bf16_narrow(value);
    else
        ((float *)place)[i] = value;
}

/* Is the role an activation of type c->dtype? */
static int op_is_half(const struct op_case *c, int role)
{
    const int loss = c->code == GY_OP_SOFTMAX_CE || c->code == GY_OP_MSE || c->code == GY_OP_SOFTMAX_CE_BWD ||
                     c->code == GY_OP_MSE_BWD;
    const int given = c->code == GY_OP_INPUT && role == GY_X;
    if ((c->dtype != GY_BF16 && c->dtype != GY_F16) || given || (loss && role == GY_Y))
        return 0;
    return role == GY_X || role == GY_Y || role == GY_RES || role == GY_DX || role == GY_DY || role == GY_DRES ||
           role == GY_AGAIN;
}

static void op_fill(const struct op_case *c, struct op_memory *m, int role)
{
    struct op_tensor *t = &m->t[role];
    memset(t->raw, OP_POISON, (size_t)(t->count + 2 * OP_GUARD) * (size_t)t->bytes);
    if (!t->real) {
        if (op_reads(c, role))
            op_fill_other(c, m, role);
        memcpy(t->other, op_place(t), (size_t)t->count * (size_t)t->bytes);
        return;
    }
    const int reads = op_reads(c, role);
    for (int64_t i = 0; i < t->count; i++) {
        const float value = reads ? op_value(c, m, role, i) : NAN;
        /* weights that bf16 or f16 holds: a kernel may round them */
        const int whole = role != GY_W || c->dtype == GY_F32;
        op_set(t, i, whole ? value : c->dtype == GY_F16 ? op_f16_widen(op_f16_narrow(value)) : gy_bf16_widen(gy_bf16_narrow(value)));
        t->truth[i] = (double)op_get(t, i);
        t->size[i] = fabs(t->truth[i]);
    }
}

static void op_spans(const struct op_case *c, struct op_memory *m)
{
    const int room = op_span_room(c);
    int64_t at = 0;
    for (int s = 0; s < c->spans; s++) {
        m->spans[s] = (struct gy_span){ .first = at,
                                        .count = s + 1 == c->spans ? room + 37 : room - s,
                                        .decay = s % 2 ? 1.0f : 0.0f,
                                        .rate = s == 2 ? 0.5f : 1.0f,
                                        .adapt = s % 2 };
        at += room;
    }
}

static void op_memory_free(struct op_memory *m)
{
    for (int role = 0; role < GY_ROLES; role++) {
        free(m->t[role].raw);
        free(m->t[role].truth);
        free(m->t[role].size);
        free(m->t[role].other);
    }
    memset(m, 0, sizeof *m);
}

/* All tensors of a case, filled. */
static void op_memory_make(struct op_memory *m, const struct op_case *c, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    m->seed = seed;
    m->u = (struct gy_uniform){ .seed = seed,
                                .step = 11,
                                .lr = 0.1f,
                                .loss_scale = 2,
                                .grad_scale = 0.5f,
                                .bias1 = 0.3f,
                                .bias2 = 0.05f,
                                .keep = 0.7f,
                                .accumulate = c->accumulate,
                                .absent = c->absent };
    op_spans(c, m);
    const uint64_t used = (gy_op_row(c->code)->reads | gy_op_row(c->code)->writes) & ~c->without;
    for (int role = 0; role < GY_ROLES; role++) {
        struct op_tensor *t = &m->t[role];
        if (!(used >> role & 1))
            continue;
        t->count = op_count(c, role);
        t->real = !op_is_other(c, role);
        t->f16 = c->dtype == GY_F16;
        const int number = role == GY_LABEL || (role == GY_ARG && (c->code == GY_OP_SOFTMAX_CE || c->code == GY_OP_MSE));
        t->bytes = t->real ? (op_is_half(c, role) ? 2 : 4) : number ? 4 : role == GY_MIX ? (int)sizeof(struct gy_mix) : 1;
        t->raw = malloc((size_t)(t->count + 2 * OP_GUARD) * (size_t)t->bytes);
        t->truth = malloc((size_t)t->count * sizeof(double));
        t->size = malloc((size_t)t->count * sizeof(double));
        t->other = malloc((size_t)t->count * (size_t)t->bytes);
        if (!t->raw || !t->truth || !t->size || !t->other) {
            printf("out of memory\n");
            exit(1);
        }
        op_fill(c, m, role);
    }
}

#define OP_ACT_PARAM 0.1875f /* of activations that have one: three sixteenths, a bf16 */

enum op_side { OP_KERNEL, OP_TRUTH, OP_SIZE };

static struct gy_op op_record(const struct op_case *c, struct op_memory *m, enum op_side side)
{
    struct gy_op op = gy_op_make(c->code, "case", &c->geom);
    op.dtype = side == OP_KERNEL ? c->dtype : GY_F32;
    op.act = side == OP_SIZE ? GY_ACT_NONE : c->act;
    op.act_param = OP_ACT_PARAM;
    op.id = 3;
    op.flags = c->flags;
    op.spans = c->spans ? m->spans : NULL;
    op.span_count = c->spans;
    op.u = &m->u;
    memcpy(op.f, c->f, sizeof op.f);
    for (int role = 0; role < GY_ROLES; role++) {
        const struct op_tensor *t = &m->t[role];
        if (!t->raw)
            continue;
        op.tensor[role] = role; /* prepare asks which roles there are */
        op.ptr[role] = side == OP_KERNEL ? (void *)op_place(t)
                       : !t->real        ? t->other
                                         : (void *)(side == OP_TRUTH ? t->truth : t->size);
    }
    return op;
}

static const char *op_text(const struct op_case *c, char *text, size_t room)
{
    const struct gy_geom *g = &c->geom;
    snprintf(text, room,
             "%s %" PRId64 "x%dx%dx%d->%dx%dx%d r%dx%d s%dx%d p%dx%d d%d g%d act%d flags%u without%" PRIx64
             " acc%d less%d absent%d values%d%s",
             gy_op_row(c->code)->name, g->n, g->h, g->w, g->c, g->p, g->q, g->k, g->r, g->s, g->stride_h, g->stride_w,
             g->pad_h, g->pad_w, g->dil_h, g->groups, c->act, c->flags, c->without, c->accumulate, c->valid_less, c->absent,
             c->values, c->dtype == GY_BF16 ? " bf16" : c->dtype == GY_F16 ? " f16" : "");
    return text;
}

#endif
