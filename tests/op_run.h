/* SPDX-License-Identifier: MIT */
/* op_run.h: runs one case on a backend, apart or in place; and plants faults: kernels that are
 * wrong on purpose, which the comparison must notice. */
#ifndef GY_OP_RUN_H
#define GY_OP_RUN_H
#include "tests/op_check.h"

/* Faults of the results spoil one element of one output. Faults of the work, from
 * OP_FAULT_ACCUMULATE on, give the kernel another op. */
enum op_fault {
    OP_FAULT_NONE,
    OP_FAULT_VALUE,
    OP_FAULT_UNWRITTEN,
    OP_FAULT_BEYOND,
    OP_FAULT_BEFORE,
    OP_FAULT_INPUT,
    OP_FAULT_ACCUMULATE,
    OP_FAULT_ADD_DX,
    OP_FAULT_ADD_DRES,
    OP_FAULT_ACT,
    OP_FAULT_PAD,
    OP_FAULT_SCALE,
    OP_FAULT_RES,
    OP_FAULT_RES_SCALE,
    OP_FAULT_BIAS,
    OP_FAULT_NESTEROV,
    OP_FAULT_CLIP,
    OP_FAULT_MIX,
    OP_FAULT_CONSTANT,
    OP_FAULT_ABSENT,
    OP_FAULTS
};

static const char *const op_fault_names[OP_FAULTS] = { "none",  "value",      "unwritten", "beyond",   "before",
                                                       "input", "accumulate", "add-dx",    "add-dres", "act",
                                                       "pad",   "scale",      "res",       "res-scale", "bias",
                                                       "nesterov", "clip",    "mix",       "constant", "absent" };

struct op_device {
    const struct gy_backend *backend;
    void *self;
    const char *isa;
    int fault; /* enum op_fault */
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

static void op_device_close(struct op_device *d) { d->backend->close(d->self); }

static int op_forget(struct gy_op *op, int role)
{
    const int was = op->ptr[role] != NULL;
    op->ptr[role] = NULL;
    op->tensor[role] = -1;
    return was;
}

static int op_unflag(struct gy_op *op, uint32_t flag, int role)
{
    const int was = (op->flags & flag) && op->ptr[role];
    op->flags &= ~flag;
    return was;
}

static int op_zero(struct gy_op *op, int constant)
{
    const int was = op->f[constant] > 0;
    op->f[constant] = 0;
    return was;
}

/* Changes op as a kernel would that forgets something. Returns 0 where the change has no effect. u:
 * memory for a changed copy of the uniform. */
static int op_plant_work(struct gy_op *op, struct gy_uniform *u, int fault)
{
    const int was = op->u->accumulate, conv = op->code == GY_OP_CONV,
              mask = op->code == GY_OP_BN_SUMS || op->code == GY_OP_BN_BWD,
              loss = op->code == GY_OP_SOFTMAX_CE || op->code == GY_OP_SOFTMAX_CE_BWD;
    switch (fault) {
    case OP_FAULT_ACCUMULATE:
        *u = *op->u;
        op->u = u;
        u->accumulate = 0;
        return (op->code == GY_OP_CONV_WGRAD || op->code == GY_OP_BN_SUMS) && was;
    case OP_FAULT_ABSENT: {
        const int had = op->u->absent;
        *u = *op->u;
        op->u = u;
        u->absent = 0;
        return had && op->code != GY_OP_BN_SUMS;
    }
    case OP_FAULT_ADD_DX: return op_unflag(op, GY_F_ADD_DX, GY_DX);
    case OP_FAULT_ADD_DRES: return op_unflag(op, GY_F_ADD_DRES, GY_DRES);
    case OP_FAULT_ACT: {
        const int had = op->act;
        op->act = GY_ACT_NONE;
        return had;
    }
    case OP_FAULT_PAD: {
        const int had = op->geom.pad_h > 0 && op->geom.h > 1;
        op->geom.pad_h = 0;
        return conv && had;
    }
    case OP_FAULT_SCALE: return (conv || mask) && op_forget(op, GY_SCALE) + op_forget(op, GY_SHIFT) > 0;
    case OP_FAULT_RES: return op->code != GY_OP_ADD && op_forget(op, GY_RES);
    case OP_FAULT_RES_SCALE: return op_forget(op, GY_RES_SCALE) + op_forget(op, GY_RES_SHIFT) > 0;
    case OP_FAULT_BIAS: return conv && op_forget(op, GY_BIAS);
    case OP_FAULT_NESTEROV:
        return op_unflag(op, GY_F_NESTEROV, GY_M) && (op->code == GY_OP_SGD || op->code == GY_OP_LARS);
    case OP_FAULT_CLIP: return op->spans && op->ptr[GY_M] && op_zero(op, GY_C_CLIP);
    case OP_FAULT_MIX: return op->geom.n > 1 && op_forget(op, GY_MIX);
    case OP_FAULT_CONSTANT: return (loss || op->code == GY_OP_LRN) && op_zero(op, 0);
    default: return 1;
    }
}

/* Spoils what the kernel left in output number `which` of the case, or in its first input. Returns
 * 0 when there is no such tensor. */
static int op_plant_result(const struct op_case *c, struct op_memory *m, int fault, int which)
{
    for (int role = 0; role < GY_ROLES; role++) {
        struct op_tensor *t = &m->t[role];
        if (!t->raw || op_writes(c, role) == (fault == OP_FAULT_INPUT) || which-- > 0)
            continue;
        unsigned char *last = op_place(t) + (t->count - 1) * t->bytes, *end = last + t->bytes;
        switch (fault) {
        case OP_FAULT_BEYOND: *end ^= 1; break;
        case OP_FAULT_BEFORE: op_place(t)[-1] ^= 1; break;
        case OP_FAULT_UNWRITTEN:
            if (t->real)
                op_set(t, t->count - 1, NAN);
            else
                memset(last, OP_POISON, (size_t)t->bytes);
            break;
        default:
            if (t->real)
                op_set(t, t->count - 1, op_get(t, t->count - 1) + (t->bytes == 2 ? 0.1f : 0.01f) *
                       (float)(op_rms(t->truth, t->count) + fabs(t->truth[t->count - 1])));
            else
                *last ^= 1;
        }
        return 1;
    }
    return 0;
}

/* Prepares the op without addresses, then runs it. The scratch starts as NaN; bytes around it must
 * stay as they are. Returns a status. */
static int op_execute(const struct op_device *d, struct gy_op *op)
{
    struct gy_error err = { 0 };
    struct gy_op blank = *op;
    struct gy_arena arena;
    gy_arena_open_hook(&arena, &op_alloc);
    memset(blank.ptr, 0, sizeof blank.ptr);
    int status = d->backend->prepare(d->self, &blank, &arena, &err);
    if (status != GY_OK) {
        printf("refused: %s\n", err.text);
        gy_arena_close(&arena);
        return status;
    }
    memcpy(blank.ptr, op->ptr, sizeof blank.ptr);
    *op = blank;
    unsigned char *raw = malloc(op->scratch_bytes + 4 * GY_CACHE_LINE);
    if (!raw) {
        gy_arena_close(&arena);
        return GY_E_NOMEM;
    }
    unsigned char *place = raw + (2 * GY_CACHE_LINE - (uintptr_t)raw % GY_CACHE_LINE);
    memset(raw, 0xff, op->scratch_bytes + 4 * GY_CACHE_LINE);
    op->ptr[GY_SCRATCH] = op->scratch_bytes ? place : NULL;
    status = d->backend->run(d->self, op);
    if (status == GY_OK)
        status = d->backend->sync(d->self);
    for (int i = 0; i < GY_CACHE_LINE; i++)
        if (place[-1 - i] != 0xff || place[op->scratch_bytes + (size_t)i] != 0xff)
            status = GY_E_BUG;
    free(raw);
    gy_arena_close(&arena);
    return status;
}

/* Truth, and the sizes of the terms. */
static void op_truth(const struct op_case *c, struct op_memory *m)
{
    const struct gy_op truth = op_record(c, m, OP_TRUTH), size = op_record(c, m, OP_SIZE);
    op_truth_table()[c->code](&truth);
    if (op_is_sum(c->code))
        op_truth_table()[c->code](&size);
}

/* Number of wrong elements of a case, with a fault in output `which` if there is one; -1: the case
 * does not have that fault. */
static int op_run_fault(const struct op_device *d, const struct op_case *c, uint64_t seed, int which)
{
    struct op_memory m;
    struct gy_uniform u;
    op_memory_make(&m, c, seed);
    struct gy_op op = op_record(c, &m, OP_KERNEL);
    op_truth(c, &m);
    const int has = d->fault < OP_FAULT_ACCUMULATE || (which == 0 && op_plant_work(&op, &u, d->fault));
    int wrong = has ? op_execute(d, &op) != GY_OK : -1;
    if (has && d->fault != OP_FAULT_NONE && d->fault < OP_FAULT_ACCUMULATE && !op_plant_result(c, &m, d->fault, which))
        wrong = -1;
    if (wrong >= 0)
        wrong += op_compare(c, &m, d->isa, -1);
    op_memory_free(&m);
    return wrong;
}

/* Runs the case with output `pair` of the op's in-place list written over its input. Returns the
 * number of wrong elements; -1: there is no such pair. */
static int op_run_in_place(const struct op_device *d, const struct op_case *c, int pair, uint64_t seed)
{
    const int out = gy_op_row(c->code)->in_place[pair].out, in = out < 0 ? -1 : gy_op_row(c->code)->in_place[pair].in;
    struct op_memory m;
    int wrong = -1;
    if (out < 0)
        return -1;
    op_memory_make(&m, c, seed);
    if (m.t[out].raw && m.t[in].raw && m.t[out].count == m.t[in].count && !op_reads(c, out)) {
        struct gy_op op = op_record(c, &m, OP_KERNEL);
        op_truth(c, &m);
        op.ptr[out] = op.ptr[in];
        wrong = op_execute(d, &op) != GY_OK;
        memcpy(op_place(&m.t[out]), op_place(&m.t[in]), (size_t)m.t[out].count * (size_t)m.t[out].bytes);
        wrong += op_compare(c, &m, "in place", in);
    }
    op_memory_free(&m);
    return wrong;
}

#endif
