/* SPDX-License-Identifier: MIT */
/* Ops that the CPU does together: batch norm and the convolution behind it, forward and backward, and the data gradient and the sums that
 * batch norm takes over it. The same ops one after the other say what is right: everything but sums in the same bits, sums up to their
 * rounding; and with any number of threads the same bits. Around every tensor lies a guard. */
#include "../engine/base/cpu.h"
#include "../engine/op.h"
#include "../kernels/backend.h"
#include "../kernels/cpu/kernels.h"
#include "t.h"

#define JOIN_GUARD 64
#define JOIN_TENSORS 48

/* Backward: [bn-bwd] conv-dgrad [bn-sums]; forward: bn-apply conv. mask: of the sums, none, Y, made from X, with RES, and with a
 * scale and a shift of its own. */
enum join_mask { JOIN_NONE, JOIN_Y, JOIN_X, JOIN_RES, JOIN_OWN };
struct join_case {
    const char *name;
    int forward, before, then;
    int n, h, c, k, r, pad, groups, mask, act, add, dres, again;
};
static const struct join_case join_cases[] = {
    { "wide, mask from y, dy' in place", 0, 1, 1, 8, 14, 256, 64, 1, 0, 1, JOIN_Y, GY_ACT_RELU, 1, 1, 0 },
    { "wide, output made again", 0, 1, 1, 3, 14, 192, 96, 1, 0, 1, JOIN_RES, GY_ACT_RELU, 1, 1, 1 },
    { "wide, residual through a norm", 0, 1, 1, 3, 14, 192, 96, 1, 0, 1, JOIN_OWN, GY_ACT_RELU, 1, 1, 1 },
    { "odd channels, likewise", 0, 1, 1, 2, 15, 37, 53, 1, 0, 1, JOIN_OWN, GY_ACT_RELU6, 0, 1, 1 },
    { "narrow, mask from x", 0, 1, 1, 3, 28, 64, 256, 1, 0, 1, JOIN_X, GY_ACT_RELU6, 0, 0, 0 },
    { "odd channels", 0, 1, 1, 3, 19, 37, 53, 1, 0, 1, JOIN_X, GY_ACT_RELU, 0, 0, 1 },
    { "odd channels, few", 0, 1, 1, 2, 23, 5, 3, 1, 0, 1, JOIN_RES, GY_ACT_RELU, 1, 1, 0 },
    { "more channels than a slice", 0, 1, 1, 2, 21, 72, 1056, 1, 0, 1, JOIN_Y, GY_ACT_RELU, 0, 1, 0 },
    { "no activation", 0, 1, 1, 1, 40, 96, 48, 1, 0, 1, JOIN_NONE, GY_ACT_NONE, 1, 0, 0 },
    { "one pixel", 0, 1, 1, 1, 1, 96, 48, 1, 0, 1, JOIN_Y, GY_ACT_RELU, 1, 1, 0 },
    { "3x3 filters", 0, 1, 1, 2, 9, 12, 20, 3, 1, 1, JOIN_Y, GY_ACT_RELU, 1, 1, 0 },
    { "groups", 0, 1, 1, 2, 16, 96, 64, 1, 0, 4, JOIN_RES, GY_ACT_RELU, 0, 1, 1 },
    { "a few images of few pixels", 0, 1, 1, 6, 3, 512, 128, 1, 0, 1, JOIN_Y, GY_ACT_RELU, 1, 1, 0 },
    { "forward, with a residual", 1, 1, 0, 8, 14, 256, 64, 1, 0, 1, JOIN_RES, GY_ACT_RELU, 0, 0, 0 },
    { "forward, with one through a norm", 1, 1, 0, 2, 14, 256, 64, 1, 0, 1, JOIN_OWN, GY_ACT_RELU, 0, 0, 0 },
    { "forward, odd channels, likewise", 1, 1, 0, 3, 19, 53, 37, 1, 0, 1, JOIN_OWN, GY_ACT_RELU, 0, 0, 0 },
    { "forward, without", 1, 1, 0, 2, 28, 64, 160, 1, 0, 1, JOIN_X, GY_ACT_RELU6, 0, 0, 0 },
    { "forward, odd channels", 1, 1, 0, 3, 19, 53, 37, 1, 0, 1, JOIN_RES, GY_ACT_NONE, 0, 0, 0 },
    { "forward, more channels than a slice", 1, 1, 0, 2, 21, 1056, 72, 1, 0, 1, JOIN_X, GY_ACT_RELU, 0, 0, 0 },
};

struct join_tensor {
    unsigned char *raw, *want; /* want: what the ops leave one by one */
    int64_t count;
    int half, role, sums;
};

struct join_run {
    const struct gy_backend *backend;
    void *self;
    const struct join_case *c;
    int dtype, count, ops;
    struct join_tensor t[JOIN_TENSORS];
    struct gy_op op[3];
    struct gy_uniform u;
};

static size_t join_bytes(const struct join_tensor *t) { return (size_t)t->count * (t->half ? 2 : 4); }
static unsigned char *join_body(const struct join_tensor *t) { return t->raw + JOIN_GUARD; }

static uint32_t join_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void join_fill(struct join_run *run)
{
    uint32_t seed = 7;
    for (int i = 0; i < run->count; i++) {
        struct join_tensor *t = &run->t[i];
        memset(t->raw, 0x5a, join_bytes(t) + 2 * JOIN_GUARD);
        for (int64_t j = 0; j < t->count; j++) {
            const float value = (float)join_random(&seed) / 8388608.0f - 1.0f, stored = t->role == GY_RSTD ? fabsf(value) + 0.1f : value;
            const uint16_t half = gy_bf16_narrow(stored);
            memcpy(join_body(t) + j * (t->half ? 2 : 4), t->half ? (const void *)&half : (const void *)&stored, t->half ? 2 : 4);
        }
    }
}

/* A new tensor for a role of an op; its number. */
static int join_take(struct join_run *run, struct gy_op *op, int role, int64_t count, int half)
{
    struct join_tensor *t = &run->t[run->count];
    *t = (struct join_tensor){ .count = count, .half = half && run->dtype == GY_BF16, .role = role };
    t->sums = role == GY_SUMS || role == GY_DGAMMA || role == GY_DBETA;
    void *at = NULL;
    struct gy_error err;
    T_CHECK(run->backend->mem_get(run->self, join_bytes(t) + 2 * JOIN_GUARD, GY_MEM_DEVICE, &at, &err) == GY_OK);
    t->raw = at;
    t->want = malloc(join_bytes(t) + 1);
    op->tensor[role] = run->count;
    op->ptr[role] = join_body(t);
    return run->count++;
}

static void join_link(struct gy_op *op, int role, const struct gy_op *from, int from_role)
{
    op->tensor[role] = from->tensor[from_role];
    op->ptr[role] = from->ptr[from_role];
}

static struct gy_op *join_op(struct join_run *run, int code, const struct gy_geom *g, int act)
{
    struct gy_op *op = &run->op[run->ops++];
    *op = gy_op_make(code, "join", g);
    op->dtype = run->dtype;
    op->act = act;
    op->u = &run->u;
    return op;
}

static struct gy_geom join_flat(const struct gy_geom *g, int channels)
{
    struct gy_geom flat = *g;
    flat.c = flat.k = channels;
    flat.r = flat.s = flat.groups = 1;
    flat.pad_h = flat.pad_w = 0;
    return flat;
}

static void join_floats(struct join_run *run, struct gy_op *op, const int *roles, int count)
{
    for (int i = 0; i < count; i++)
        join_take(run, op, roles[i], (roles[i] == GY_SUMS ? 2 : 1) * (int64_t)op->geom.c, 0);
}

static void join_mask_roles(struct join_run *run, struct gy_op *op, int mask, int64_t count)
{
    static const int made[] = { GY_SCALE, GY_SHIFT }, own[] = { GY_RES_SCALE, GY_RES_SHIFT };
    if (mask == JOIN_Y)
        join_take(run, op, GY_Y, count, 1);
    if (mask >= JOIN_X)
        join_floats(run, op, made, 2);
    if (mask >= JOIN_RES)
        join_take(run, op, GY_RES, count, 1);
    if (mask == JOIN_OWN)
        join_floats(run, op, own, 2);
}

static void join_backward(struct join_run *run, const struct gy_geom *g)
{
    static const int norm[] = { GY_MEAN, GY_RSTD, GY_GAMMA, GY_SUMS }, sums[] = { GY_MEAN, GY_RSTD, GY_SUMS, GY_DGAMMA, GY_DBETA };
    const struct join_case *c = run->c;
    const struct gy_geom out = join_flat(g, g->k), in = join_flat(g, g->c);
    const int64_t outs = g->n * g->p * g->q * g->k, ins = g->n * g->h * g->w * g->c;
    struct gy_op *bwd = join_op(run, GY_OP_BN_BWD, &out, GY_ACT_NONE), *d = join_op(run, GY_OP_CONV_DGRAD, g, GY_ACT_NONE);
    struct gy_op *s = join_op(run, GY_OP_BN_SUMS, &in, c->act);
    join_take(run, bwd, GY_DY, outs, 1);
    join_take(run, bwd, GY_X, outs, 1);
    join_take(run, bwd, GY_DX, outs, 1);
    join_floats(run, bwd, norm, 4);
    join_link(d, GY_DY, bwd, GY_DX);
    join_take(run, d, GY_W, (int64_t)g->k * g->r * g->s * (g->c / g->groups), 0);
    join_take(run, d, GY_DX, ins, 1);
    d->flags = c->add ? GY_F_ADD_DX : 0;
    join_link(s, GY_DY, d, GY_DX);
    join_take(run, s, GY_X, ins, 1);
    join_floats(run, s, sums, 5);
    join_mask_roles(run, s, c->mask, ins);
    if (c->dres)
        join_link(s, GY_DRES, d, GY_DX);
    if (c->again)
        join_take(run, s, GY_AGAIN, ins, 1);
}

static void join_forward(struct join_run *run, const struct gy_geom *g)
{
    const struct gy_geom in = join_flat(g, g->c);
    const int64_t outs = g->n * g->p * g->q * g->k, ins = g->n * g->h * g->w * g->c;
    struct gy_op *a = join_op(run, GY_OP_BN_APPLY, &in, run->c->act), *conv = join_op(run, GY_OP_CONV, g, GY_ACT_NONE);
    join_take(run, a, GY_X, ins, 1);
    join_take(run, a, GY_Y, ins, 1);
    join_mask_roles(run, a, run->c->mask, ins);
    join_link(conv, GY_X, a, GY_Y);
    join_take(run, conv, GY_W, (int64_t)g->k * g->r * g->s * (g->c / g->groups), 0);
    join_take(run, conv, GY_Y, outs, 1);
    join_take(run, conv, GY_STATS, 2 * (int64_t)g->k, 0);
}

/* All ops in turn; joined: as the backend joins them. Returns how many are done with the one before. */
static int join_do(struct join_run *run, int joined)
{
    struct gy_op op[3];
    struct gy_error err;
    size_t scratch = 1;
    void *room = NULL;
    int count = 0;
    for (int i = 0; i < run->ops; i++) {
        op[i] = run->op[i];
        T_CHECK(run->backend->prepare(run->self, &op[i], &err) == GY_OK);
        if (joined && i > 0)
            run->backend->join(run->self, &op[i - 1], &op[i]);
        count += op[i].before != NULL;
    }
    for (int i = 0; i < run->ops; i++)
        scratch = op[i].scratch_bytes > scratch ? op[i].scratch_bytes : scratch;
    T_CHECK(run->backend->mem_get(run->self, scratch + JOIN_GUARD, GY_MEM_DEVICE, &room, &err) == GY_OK);
    memset(room, 0xff, scratch + JOIN_GUARD);
    for (int i = 0; i < run->ops; i++)
        op[i].ptr[GY_SCRATCH] = room;
    for (int i = 0; i < run->ops; i++)
        T_CHECK(run->backend->run(run->self, &op[i]) == GY_OK);
    int guard = 1;
    for (size_t i = 0; i < JOIN_GUARD; i++)
        guard &= ((unsigned char *)room)[scratch + i] == 0xff;
    T_CHECK(guard);
    run->backend->mem_put(run->self, room, scratch + JOIN_GUARD, GY_MEM_DEVICE);
    return count;
}

static int join_guards_whole(const struct join_tensor *t)
{
    for (size_t i = 0; i < JOIN_GUARD; i++)
        if (t->raw[i] != 0x5a || join_body(t)[join_bytes(t) + i] != 0x5a)
            return 0;
    return 1;
}

/* Sums of so many terms below 4 in another order. */
static int join_near(const struct join_tensor *t, double terms)
{
    for (int64_t i = 0; i < t->count; i++) {
        float got, want;
        memcpy(&got, join_body(t) + 4 * i, 4);
        memcpy(&want, t->want + 4 * i, 4);
        if (!(fabs((double)got - (double)want) <= 1e-6 * (1 + sqrt(terms) * 4 + fabs((double)want))))
            return 0;
    }
    return 1;
}

static int join_same(const struct join_run *run, const struct join_tensor *t, int exact)
{
    const double terms = (double)run->c->n * run->c->h * run->c->h;
    return memcmp(join_body(t), t->want, join_bytes(t)) == 0 || (t->sums && !exact && join_near(t, terms));
}

static void join_compare(const struct join_run *run, int threads, int exact)
{
    for (int i = 0; i < run->count; i++) {
        const struct join_tensor *t = &run->t[i];
        T_CHECK_MSG(join_guards_whole(t), "%s: tensor %d (%s) was left", run->c->name, i, gy_role_name(t->role));
        T_CHECK_MSG(join_same(run, t, exact), "%s, dtype %d, %d threads: %s differs", run->c->name, run->dtype, threads,
                    gy_role_name(t->role));
    }
}

static void join_keep(struct join_run *run)
{
    for (int i = 0; i < run->count; i++)
        memcpy(run->t[i].want, join_body(&run->t[i]), join_bytes(&run->t[i]));
}

static void join_open(struct join_run *run, const struct join_case *c, const char *isa, int dtype, int threads)
{
    static const struct gy_log quiet = { 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_backend_config config = { .alloc = &alloc, .log = &quiet, .isa = isa, .threads = threads };
    const struct gy_geom g = { .n = c->n, .h = c->h, .w = c->h, .c = c->c, .p = c->h, .q = c->h, .k = c->k, .r = c->r, .s = c->r,
                               .stride_h = 1, .stride_w = 1, .pad_h = c->pad, .pad_w = c->pad, .dil_h = 1, .dil_w = 1,
                               .groups = c->groups };
    struct gy_error err;
    *run = (struct join_run){ .backend = gy_cpu_backend(), .c = c, .dtype = dtype };
    T_CHECK(run->backend->open(&run->self, &config, &err) == GY_OK);
    if (c->forward)
        join_forward(run, &g);
    else
        join_backward(run, &g);
}

static void join_close(struct join_run *run)
{
    for (int i = 0; i < run->count; i++) {
        run->backend->mem_put(run->self, run->t[i].raw, join_bytes(&run->t[i]) + 2 * JOIN_GUARD, GY_MEM_DEVICE);
        free(run->t[i].want);
    }
    run->backend->close(run->self);
}

/* Returns how many ops were joined to another. */
static int join_check(const struct join_case *c, const char *isa, int dtype)
{
    static struct join_run one, run;
    int joined = 0;
    join_open(&one, c, isa, dtype, 1);
    join_fill(&one);
    T_CHECK(join_do(&one, 0) == 0);
    join_keep(&one);
    for (int threads = 1; threads <= 3; threads++) {
        join_open(&run, c, isa, dtype, threads);
        join_fill(&run);
        joined += join_do(&run, 1);
        for (int i = 0; i < run.count; i++)
            memcpy(run.t[i].want, one.t[i].want, join_bytes(&run.t[i]));
        join_compare(&run, threads, threads > 1);
        for (int i = 0; i < run.count && threads == 1; i++) /* from here on sums are these */
            memcpy(one.t[i].want, join_body(&run.t[i]), join_bytes(&run.t[i]));
        join_close(&run);
    }
    join_close(&one);
    return joined;
}

/* A mistake is seen. */
static void join_check_sees(void)
{
    static struct join_run run;
    join_open(&run, &join_cases[0], NULL, GY_F32, 1);
    join_fill(&run);
    join_do(&run, 0);
    join_keep(&run);
    join_fill(&run);
    run.op[1].flags = 0; /* forgets to add */
    join_do(&run, 1);
    int seen = 0;
    for (int i = 0; i < run.count; i++)
        seen += !join_same(&run, &run.t[i], 0);
    T_CHECK_MSG(seen > 0, "a data gradient that forgets to add was not seen");
    join_close(&run);
}

int main(void)
{
    static const char *const names[] = { "ref", "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma" };
    setvbuf(stdout, NULL, _IOLBF, 4096);
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        unsigned mask = 0;
        int joined = 0;
        if (!T_CHECK(gy_cpu_mask(names[i], &mask) == 0) || (gy_cpu_bits() & mask) != mask)
            continue;
        for (size_t k = 0; k < GY_COUNT(join_cases); k++)
            for (int half = 0; half < 2; half++)
                joined += join_check(&join_cases[k], names[i], half ? GY_BF16 : GY_F32);
        T_CHECK_MSG((joined > 0) == (mask != 0), "%s: %d ops were joined", names[i], joined);
        printf("%s: %d ops were joined\n", names[i], joined);
    }
    join_check_sees();
    T_END("t_join");
}
