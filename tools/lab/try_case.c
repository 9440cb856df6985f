/* SPDX-License-Identifier: MIT */
/* try_case.c: poisons outputs before the kernel runs, and lays guard zones around every tensor. The
 * truth is the reference in float on the inputs as stored. The reference's own roundings are
 * allowed beside the kernel's. A second run must give the same bits. */
#include "tools/lab/try_case.h"
#include "kernels/cpu/ref/ref.h"
#include "engine/base/half.h"
#include "engine/base/rng.h"
#include "kernels/op_table.h"
#include "tools/lab/op_bound.h"
#ifndef GY_NO_CUDA

#define TRYC_POISON 0xff /* a number that is none */
#define TRYC_GUARD 0xa5
#define TRYC_ACT_PARAM 0.125f /* of an activation that has one */

/* ---- what tensors there are ---- */

static int64_t tryc_count(const struct gy_try_case *c, int role)
{
    const struct gy_geom *g = &c->geom;
    const int64_t in = g->n * g->h * g->w * g->c, out = g->n * g->p * g->q * g->k;
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
    case GY_LOSS: return g->n;
    case GY_ARG: return c->t->code == GY_OP_SOFTMAX_CE ? g->n : out;
    default: return g->k;
    }
}

/* Is the role an activation, stored as the case's dtype? */
static int tryc_is_half(const struct gy_try_case *c, int role)
{
    const int loss = c->t->code == GY_OP_SOFTMAX_CE || c->t->code == GY_OP_SOFTMAX_CE_BWD;
    if (c->dtype == GY_F32 || (loss && role == GY_Y))
        return 0;
    return role == GY_X || role == GY_Y || role == GY_RES || role == GY_DX || role == GY_DY || role == GY_DRES || role == GY_AGAIN;
}

/* Does the op read what the role holds before? */
static int tryc_reads(const struct gy_try_case *c, int role)
{
    const int sums = role == GY_DW || role == GY_DBIAS || role == GY_DGAMMA || role == GY_DBETA;
    return (role == GY_DX && c->t->flags & GY_F_ADD_DX) || (role == GY_DRES && c->t->flags & GY_F_ADD_DRES) ||
           (sums && c->t->accumulate) || (gy_op_row(c->t->code)->reads >> role & 1);
}

static int tryc_writes(const struct gy_try_case *c, int role) { return (int)(gy_op_row(c->t->code)->writes >> role & 1); }
static size_t tryc_body(const struct gy_try_tensor *t) { return (size_t)t->count * (size_t)t->bytes; }

/* ---- elements ---- */

/* f16 as IEEE 754 has it, rounded to nearest even. */
static float tryc_f16_widen(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double value = exponent == 31 ? (fraction ? (double)NAN : HUGE_VAL) : exponent ? ldexp(1024 + fraction, exponent - 25)
                                                                                         : ldexp(fraction, -24);
    return (float)(h & 0x8000 ? -value : value);
}

static uint16_t tryc_f16_narrow(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent = 0;
    if (isnan(value))
        return 0x7e00;
    frexp((double)value, &exponent);
    const int step = exponent < -13 ? -24 : exponent - 11; /* of the last place */
    const double rounded = isfinite(value) ? ldexp(nearbyint(ldexp(fabs((double)value), -step)), step) : 65536;
    if (rounded >= 65536)
        return sign | 0x7c00;
    if (rounded < ldexp(1, -14))
        return (uint16_t)(sign | (int)ldexp(rounded, 24));
    frexp(rounded, &exponent);
    return (uint16_t)(sign | (exponent + 14) << 10 | ((int)ldexp(rounded, 11 - exponent) & 1023));
}

static float tryc_get(const struct gy_try_case *c, const unsigned char *body, int bytes, int64_t i)
{
    uint16_t half;
    float value;
    if (bytes == 4) {
        memcpy(&value, body + 4 * i, sizeof value);
        return value;
    }
    memcpy(&half, body + 2 * i, sizeof half);
    return c->dtype == GY_F16 ? tryc_f16_widen(half) : gy_bf16_widen(half);
}

static void tryc_set(const struct gy_try_case *c, unsigned char *body, int bytes, int64_t i, float value)
{
    const uint16_t half = bytes == 4 ? 0 : c->dtype == GY_F16 ? tryc_f16_narrow(value) : gy_bf16_narrow(value);
    if (bytes == 4)
        memcpy(body + 4 * i, &value, sizeof value);
    else
        memcpy(body + 2 * i, &half, sizeof half);
}

/* ---- content ---- */

/* A value that the role may hold: rates and variances are positive; weights are values that 16 bits
 * hold exactly. */
static float tryc_value(const struct gy_try_case *c, int role, int64_t i)
{
    const float x = gy_rng_normal(c->seed, (uint32_t)role + 32, 0, (uint64_t)i);
    const int positive = role == GY_RSTD || role == GY_RUN_VAR || (role == GY_STATS && i >= c->geom.k);
    if (c->t->code == GY_OP_SOFTMAX_CE_BWD && role == GY_Y)
        return fabsf(x) / (float)c->geom.c;
    const float value = positive ? fabsf(x) + 0.1f : x;
    if (role != GY_W || c->dtype == GY_F32)
        return value;
    return c->dtype == GY_F16 ? tryc_f16_widen(tryc_f16_narrow(value)) : gy_bf16_widen(gy_bf16_narrow(value));
}

/* A cell of the window of output i that lies inside the image. */
static uint8_t tryc_cell(const struct gy_try_case *c, int64_t i)
{
    const struct gy_geom *g = &c->geom;
    const int32_t p = (int32_t)(i / g->k / g->q % g->p), q = (int32_t)(i / g->k % g->q);
    for (uint64_t draw = 0;; draw++) {
        uint32_t word[4];
        gy_rng_words(c->seed, 30, draw, (uint64_t)i, word);
        const int32_t r = (int32_t)(word[0] % (uint32_t)g->r), s = (int32_t)(word[1] % (uint32_t)g->s);
        const int32_t h = p * g->stride_h - g->pad_h + r, w = q * g->stride_w - g->pad_w + s;
        if (h >= 0 && h < g->h && w >= 0 && w < g->w)
            return (uint8_t)(r * g->s + s);
    }
}

static void tryc_fill_other(struct gy_try_case *c, int role, unsigned char *body)
{
    for (int64_t i = 0; i < c->tensor[role].count; i++) {
        uint32_t word[4];
        gy_rng_words(c->seed, 31, 0, (uint64_t)i, word);
        const int32_t label = (int32_t)(word[0] % (uint32_t)c->geom.c);
        if (role == GY_LABEL)
            memcpy(body + 4 * i, &label, sizeof label);
        else
            body[i] = tryc_cell(c, i);
    }
}

static void tryc_fill(struct gy_try_case *c, int role)
{
    struct gy_try_tensor *t = &c->tensor[role];
    unsigned char *const body = t->raw + c->guard;
    memset(t->raw, TRYC_GUARD, tryc_body(t) + 2 * c->guard);
    memset(body, TRYC_POISON, tryc_body(t));
    if (tryc_reads(c, role) && !t->real)
        tryc_fill_other(c, role, body);
    for (int64_t i = 0; i < t->count && t->real; i++) {
        if (tryc_reads(c, role))
            tryc_set(c, body, t->bytes, i, tryc_value(c, role, i));
        if (t->exact) {
            t->exact[i] = tryc_get(c, body, t->bytes, i);
            t->size[i] = fabsf(t->exact[i]);
        }
    }
    if (t->other)
        memcpy(t->other, body, tryc_body(t));
}

static int tryc_take_host(struct gy_try_case *c, int role, int check, struct gy_error *err)
{
    struct gy_try_tensor *t = &c->tensor[role];
    const int number = role == GY_LABEL || (role == GY_ARG && c->t->code == GY_OP_SOFTMAX_CE);
    t->count = tryc_count(c, role);
    t->real = role != GY_LABEL && role != GY_ARG;
    t->bytes = t->real ? (tryc_is_half(c, role) ? 2 : 4) : number ? 4 : 1;
    const size_t bytes = tryc_body(t) + 2 * c->guard, count = (size_t)t->count;
    t->raw = gy_arena_take(&c->arena, bytes, 1);
    t->back = gy_arena_take(&c->arena, bytes, 1);
    int whole = t->raw && t->back;
    if (check && t->real) {
        t->exact = gy_arena_take(&c->arena, count, sizeof *t->exact);
        t->size = gy_arena_take(&c->arena, count, sizeof *t->size);
        t->truth = gy_arena_take(&c->arena, count, sizeof *t->truth);
        t->sizes = gy_arena_take(&c->arena, count, sizeof *t->sizes);
        whole &= t->exact && t->size && t->truth && t->sizes;
    } else if (check) {
        t->other = gy_arena_take(&c->arena, tryc_body(t), 1);
        whole &= t->other != NULL;
    }
    return whole ? GY_OK : GY_NOMEM(err, "a tensor of the kernel that is tried", bytes);
}

/* ---- the reference ---- */

GY_INT struct gy_op gy_try_op(const struct gy_try_case *c, const char *name)
{
    struct gy_op op = gy_op_make(c->t->code, name, &c->geom);
    const uint64_t roles = gy_try_roles(c->t);
    op.dtype = c->dtype;
    op.act = c->t->act;
    op.act_param = TRYC_ACT_PARAM;
    op.flags = c->t->flags;
    op.u = &c->u;
    memcpy(op.f, c->t->f, sizeof op.f);
    for (int role = 0; role < GY_ROLES; role++)
        op.tensor[role] = roles >> role & 1 ? role : -1;
    return op;
}

static void tryc_reference(struct gy_try_case *c, int sizes)
{
    struct gy_op op = gy_try_op(c, "reference");
    op.dtype = GY_F32;
    op.act = sizes ? GY_ACT_NONE : op.act;
    for (int role = 0; role < GY_ROLES; role++) {
        const struct gy_try_tensor *t = &c->tensor[role];
        op.ptr[role] = !t->count ? NULL : !t->real ? t->other : (void *)(sizes ? t->size : t->exact);
    }
    gy_ref_table()[op.code](&op);
}

static void tryc_truth(struct gy_try_case *c)
{
    tryc_reference(c, 0);
    if (gy_bound_is_sum(c->t->code))
        tryc_reference(c, 1);
    for (int role = 0; role < GY_ROLES; role++)
        for (int64_t i = 0; c->tensor[role].exact && i < c->tensor[role].count; i++) {
            c->tensor[role].truth[i] = (double)c->tensor[role].exact[i];
            c->tensor[role].sizes[i] = (double)c->tensor[role].size[i];
        }
}

GY_INT double gy_try_work(const struct gy_try *t, const struct gy_geom *g)
{
    const struct gy_op op = gy_op_make(t->code, "", g);
    return (double)gy_op_flops(&op) / 2;
}

/* ---- open and close ---- */

static int tryc_take_device(struct gy_try_case *c, int role, struct gy_error *err)
{
    struct gy_try_tensor *t = &c->tensor[role];
    return c->backend->mem_get(c->self, tryc_body(t) + 2 * c->guard, GY_MEM_DEVICE, &t->device, err);
}

GY_INT int gy_try_case_open(struct gy_try_case *c, const struct gy_alloc *alloc, int check, struct gy_error *err)
{
    const uint64_t roles = gy_try_roles(c->t);
    gy_arena_open_hook(&c->arena, alloc);
    c->checked = check;
    c->u = (struct gy_uniform){ .seed = c->seed, .step = 11, .lr = 0.1f, .loss_scale = 2, .grad_scale = 0.5f, .bias1 = 0.3f, .keep = 0.7f,
                                .bias2 = 0.05f, .accumulate = c->t->accumulate };
    for (int role = 0; role < GY_ROLES; role++) {
        if (!(roles >> role & 1))
            continue;
        GY_TRY(tryc_take_host(c, role, check, err));
        GY_TRY(tryc_take_device(c, role, err));
        tryc_fill(c, role);
    }
    if (check)
        tryc_truth(c);
    return GY_OK;
}

static void tryc_put_scratch(struct gy_try_case *c)
{
    if (c->scratch)
        c->backend->mem_put(c->self, c->scratch, c->scratch_bytes, GY_MEM_DEVICE);
    c->scratch = NULL;
    c->scratch_bytes = 0;
}

GY_INT void gy_try_case_close(struct gy_try_case *c)
{
    tryc_put_scratch(c);
    for (int role = 0; role < GY_ROLES; role++)
        if (c->tensor[role].device)
            c->backend->mem_put(c->self, c->tensor[role].device, 0, GY_MEM_DEVICE);
    gy_arena_close(&c->arena);
    memset(c->tensor, 0, sizeof c->tensor);
}

GY_INT int gy_try_place(struct gy_try_case *c, struct gy_op *op, struct gy_error *err)
{
    if (op->scratch_bytes > c->scratch_bytes) {
        tryc_put_scratch(c);
        GY_TRY(c->backend->mem_get(c->self, op->scratch_bytes, GY_MEM_DEVICE, &c->scratch, err));
        c->scratch_bytes = op->scratch_bytes;
    }
    for (int role = 0; role < GY_ROLES; role++)
        op->ptr[role] = c->tensor[role].device ? (unsigned char *)c->tensor[role].device + c->guard : NULL;
    op->ptr[GY_SCRATCH] = op->scratch_bytes ? c->scratch : NULL;
    return GY_OK;
}

/* ---- the check ---- */

/* Where an element lies: "y[17] (n 0, h 0, w 0, c 17)". */
static const char *tryc_where(const struct gy_try_case *c, int role, int64_t i, char *text, size_t room)
{
    const struct gy_geom *g = &c->geom;
    const int in = role == GY_X || role == GY_DX, out = tryc_count(c, role) == g->n * g->p * g->q * g->k;
    const int64_t ch = in ? g->c : g->k, w = in ? g->w : g->q, h = in ? g->h : g->p;
    if (in || (out && role != GY_W && role != GY_DW))
        snprintf(text, room, "%s[%" PRId64 "] (n %" PRId64 ", h %" PRId64 ", w %" PRId64 ", c %" PRId64 ")", gy_role_name(role), i,
                 i / ch / w / h, i / ch / w % h, i / ch % w, i % ch);
    else
        snprintf(text, room, "%s[%" PRId64 "]", gy_role_name(role), i);
    return text;
}

struct tryc_result {
    int64_t wrong;
    double most;       /* error over what is allowed */
    char first[300];
};

static void tryc_compare_real(const struct gy_try_case *c, const struct gy_bound *bound, int role, struct tryc_result *out)
{
    const struct gy_try_tensor *t = &c->tensor[role];
    const double rms = gy_bound_rms(t->truth, t->count);
    char where[120];
    for (int64_t i = 0; i < t->count; i++) {
        const double got = (double)tryc_get(c, t->back + c->guard, t->bytes, i), off = fabs(got - t->truth[i]);
        const double limit = gy_bound_of(bound, role, i, rms, t->bytes == 2) + gy_bound_of(bound, role, i, rms, 0);
        if (off <= limit || (isnan(got) && isnan(t->truth[i]))) {
            out->most = limit > 0 ? fmax(out->most, off / limit) : out->most;
            continue;
        }
        if (out->wrong++ == 0)
            snprintf(out->first, sizeof out->first, "%s is %.9g, expected %.9g, allowed to differ by %.3g",
                     tryc_where(c, role, i, where, sizeof where), got, t->truth[i], limit);
    }
}

static void tryc_compare_other(const struct gy_try_case *c, int role, struct tryc_result *out)
{
    const struct gy_try_tensor *t = &c->tensor[role];
    const unsigned char *const got = t->back + c->guard, *const want = t->other;
    char where[120];
    for (int64_t i = 0; i < t->count; i++) {
        int32_t pair[2] = { 0, 0 };
        memcpy(&pair[0], got + i * t->bytes, (size_t)t->bytes);
        memcpy(&pair[1], want + i * t->bytes, (size_t)t->bytes);
        if (pair[0] != pair[1] && out->wrong++ == 0)
            snprintf(out->first, sizeof out->first, "%s is %d, expected %d", tryc_where(c, role, i, where, sizeof where), (int)pair[0],
                     (int)pair[1]);
    }
}

static int tryc_zones_whole(const struct gy_try_case *c, const struct gy_try_tensor *t)
{
    for (size_t i = 0; i < c->guard; i++)
        if (t->back[i] != TRYC_GUARD || t->back[c->guard + tryc_body(t) + i] != TRYC_GUARD)
            return 0;
    return 1;
}

static void tryc_say(struct tryc_result *out, int role, const char *what)
{
    if (out->wrong++ == 0)
        snprintf(out->first, sizeof out->first, "%s %s", gy_role_name(role), what);
}

static void tryc_compare(const struct gy_try_case *c, struct tryc_result *out)
{
    struct gy_bound bound = { .code = c->t->code, .act = c->t->act, .act_param = TRYC_ACT_PARAM,
                              .dtype = c->dtype, .geom = c->geom };
    for (int role = 0; role < GY_ROLES; role++) {
        bound.truth[role] = c->tensor[role].truth;
        bound.size[role] = c->tensor[role].sizes;
    }
    for (int role = 0; role < GY_ROLES; role++) {
        const struct gy_try_tensor *t = &c->tensor[role];
        if (!t->count)
            continue;
        if (!tryc_zones_whole(c, t))
            tryc_say(out, role, "was written beside its ends");
        if (!tryc_writes(c, role) && memcmp(t->raw + c->guard, t->back + c->guard, tryc_body(t)) != 0)
            tryc_say(out, role, "is only read by the op, and was changed");
        else if (tryc_writes(c, role) && t->real)
            tryc_compare_real(c, &bound, role, out);
        else if (tryc_writes(c, role))
            tryc_compare_other(c, role, out);
    }
}

static int tryc_once(struct gy_try_case *c, const struct gy_op *op)
{
    for (int role = 0; role < GY_ROLES; role++)
        if (c->tensor[role].count)
            GY_TRY(c->backend->copy(c->self, c->tensor[role].device, c->tensor[role].raw, tryc_body(&c->tensor[role]) + 2 * c->guard,
                                    GY_COPY_TO_DEVICE));
    GY_TRY(c->backend->run(c->self, op));
    GY_TRY(c->backend->sync(c->self));
    for (int role = 0; role < GY_ROLES; role++)
        if (c->tensor[role].count)
            GY_TRY(c->backend->copy(c->self, c->tensor[role].back, c->tensor[role].device, tryc_body(&c->tensor[role]) + 2 * c->guard,
                                    GY_COPY_TO_HOST));
    return c->backend->sync(c->self);
}

/* A number that follows from every byte of the outputs. */
static uint64_t tryc_bits(const struct gy_try_case *c)
{
    uint64_t hash = 1469598103934665603u;
    for (int role = 0; role < GY_ROLES; role++)
        for (size_t i = 0; c->tensor[role].count && tryc_writes(c, role) && i < tryc_body(&c->tensor[role]); i++)
            hash = (hash ^ c->tensor[role].back[c->guard + i]) * 1099511628211u;
    return hash;
}

GY_INT int gy_try_check(struct gy_try_case *c, const struct gy_op *op, double *most, struct gy_error *err)
{
    static const char *const types[] = { "f32", "bf16", "f16" };
    struct tryc_result result = { .wrong = 0 };
    uint64_t bits = 0;
    for (int run = 0; run < 2; run++) {
        if (tryc_once(c, op) != GY_OK)
            return GY_FAIL(err, GY_E_DEVICE, "%.200s: the device failed while the kernel ran; the log says how", c->t->path);
        tryc_compare(c, &result);
        if (run == 1 && result.wrong == 0 && tryc_bits(c) != bits)
            return GY_FAIL(err, GY_E_MISMATCH, "%.200s: a second run on the same inputs gives other bits", c->t->path);
        bits = tryc_bits(c);
        if (result.wrong)
            return GY_FAIL(err, GY_E_MISMATCH, "%.200s: wrong on shape %" PRId64 "x%dx%dx%d, %s: %s; %" PRId64 " of the outputs' elements "
                           "are wrong", c->t->path, c->geom.n, (int)c->geom.h, (int)c->geom.w, (int)c->geom.c, types[c->dtype],
                           result.first, result.wrong);
    }
    *most = result.most;
    return GY_OK;
}

#undef TRYC_POISON
#undef TRYC_GUARD
#endif
