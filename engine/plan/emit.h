/* SPDX-License-Identifier: MIT */
/* emit.h: the working state while a graph becomes programs, once for training and once for
 * evaluation. plan_compile.c drives it. Fusion is decided first (fuse.c). A node whose work another
 * node's op does is absorbed; its value is that op's output.
 *
 *     conv|linear|add + act             one op, with an activation
 *     conv|linear + bn [+ add] [+ act]  training: conv writes statistics, one pass does the rest;
 *                                       it may make the output of a norm that it adds, too
 *                                       evaluation: all of it in the conv's epilogue
 *     flatten; dropout                  no op: a flatten, dropout of rate 0, any in evaluation
 *     conv|linear|add + clamp + maxpool training: relu or relu6 behind the pool: fewer values */
#ifndef GY_EMIT_H
#define GY_EMIT_H
#include "engine/plan/program.h"

struct gy_emit_node {
    int head;      /* node whose op makes this node's value; itself when it is not absorbed */
    int tail;      /* of a head: the last node that it absorbed, or itself */
    int users;     /* nodes that read this one */
    int user;      /* the last of them */
    int last_use;  /* highest node that reads it; itself when none */
    int act;       /* of a head: activation done with it */
    float act_param; /* its parameter */
    int res;       /* of a head: head of the value that is added, or -1 */
    int through;   /* batch norm whose output the norm that adds it recomputes from its input */
    int bn;        /* of a conv: batch norm behind it (statistics in training, else its fold); -1 */
    int needs;     /* a gradient with respect to its value is needed */
    int read;      /* backward reads its value, or recomputation cuts there: kept unless cheap */
    int added;     /* a batch norm adds it */
    int crosses;   /* ops of another stage read it */
    int cheap;     /* its value is not kept for backward, which recomputes it */
    int value;     /* tensor, -1 not yet */
    int late;      /* the value made again, -1 not yet */
    int gradient;  /* tensor, -1 not yet */
    int stats, scale, shift, mean, rstd, arg; /* tensors, -1 none */
    int waiting;   /* of a batch norm: the last conv whose weight gradient waits for it, -1 none */
    int next;      /* of a waiting conv: the next one, -1 none */
    int dy;        /* of a waiting conv: gradient of its output, a tensor */
};

struct gy_emit {
    struct gy_builder *b;
    struct gy_emit_node *nodes;
    int train;    /* else evaluation */
    int program;  /* where forward ops go */
    int again;    /* recomputing in backward: statistics are known already */
};
/* fuse.c. gy_emit_added: head of what bn's op adds, or -1; op gets the scale that this needs. */
GY_INT int gy_emit_fuse(struct gy_emit *e); /* fills nodes; GY_E_NOMEM */
GY_INT int gy_emit_added(const struct gy_emit *e, int bn, struct gy_op *op);
GY_INT int gy_emit_act(int layer); /* enum gy_act of an activation layer, else 0 */
GY_INT void gy_emit_set_act(const struct gy_emit *e, int node, struct gy_op *op); /* sets act */
GY_INT void gy_emit_forward(struct gy_emit *e, int node); /* emit_forward.c */
GY_INT struct gy_op gy_emit_input(const struct gy_emit *e, int node); /* emit_forward.c: no Y yet */
GY_INT void gy_emit_backward(struct gy_emit *e, int node); /* emit_backward.c */
GY_INT int gy_emit_segments(const struct gy_emit *e, int *segment_end); /* recompute.c: how many */
GY_INT void gy_emit_cheap(struct gy_emit *e, const int *segment_end, int segments); /* sets cheap */

#endif
