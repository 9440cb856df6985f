/* SPDX-License-Identifier: MIT */
/* op_table.h: a table of what the engine knows of each op code, in the order of the codes. A row
 * has the op's name, the roles that it reads and writes, and which output may replace which input.
 * Also an op's work and shape. Planner, engine, backends, tools and tests read it. */
#ifndef GY_ENGINE_OP_H
#define GY_ENGINE_OP_H
#include "kernels/op.h"

struct gy_op_row {
    const char *name;
    uint64_t reads, writes; /* bits 1 << enum gy_role */
    struct { int8_t out, in; } in_place[2]; /* out -1 ends the list */
};

GY_INT const struct gy_op_row *gy_op_row(int code);
GY_INT const char *gy_role_name(int role);
/* An activation. A clamp goes through the vector kernels, and its gradient is dy where y is inside
 * lo and hi, else 0. A curve is a loop of its own; gy_act_slope has its slope at the output y. With
 * bends that is the op's parameter for y <= 0. */
struct gy_act_row {
    const char *name;
    enum { GY_ACT_IS_CLAMP = 1, GY_ACT_IS_CURVE } kind;
    float lo, hi, slope0, slope1, square;
    int bends;
};
GY_INT const struct gy_act_row *gy_act_row(int act);
static inline int gy_act_is_curve(int act) { return gy_act_row(act)->kind == GY_ACT_IS_CURVE; }
static inline void gy_act_limits(int act, float *lo, float *hi)
{
    *lo = gy_act_row(act)->lo;
    *hi = gy_act_row(act)->hi;
}
/* Of a curve, at its output y. */
static inline float gy_act_slope(int act, float param, float y)
{
    const struct gy_act_row *const row = gy_act_row(act);
    return row->bends && !(y > 0) ? param : row->slope0 + y * (row->slope1 - row->square * y);
}
GY_INT size_t gy_dtype_bytes(int dtype);
GY_INT int64_t gy_op_flops(const struct gy_op *op);   /* multiplications and additions */
/* all roles empty */
GY_INT struct gy_op gy_op_make(int code, const char *name, const struct gy_geom *geom);

/* Kinds of ops, as tables and predictions know them. */
enum gy_op_kinds {
    GY_OP_IS_OTHER, GY_OP_IS_CONV, GY_OP_IS_DGRAD, GY_OP_IS_WGRAD, GY_OP_IS_NORM, GY_OP_IS_NORM_BACK, GY_OP_IS_ELEMENT,
    GY_OP_IS_POOL, GY_OP_IS_UPDATE,
    GY_OP_KINDS
};
GY_INT const char *gy_kind_name(int kind);
GY_INT int gy_op_kind(const struct gy_op *op);
GY_INT int gy_op_is_conv(const struct gy_op *op); /* forward or either gradient */
/* "32x56x56x64 * 3x3/1 -> 64", or the shape alone, or spans; returns text. */
GY_INT const char *gy_op_shape(const struct gy_op *op, char *text, size_t room);

#endif
