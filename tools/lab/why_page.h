/* SPDX-License-Identifier: MIT */
/* why_page.h: figures of some measured steps. why.c takes them, why_page.c prints them. */
#ifndef GY_WHY_PAGE_H
#define GY_WHY_PAGE_H
#include "tools/lab/lab.h"
#include "engine/run/engine.h"
#include "tools/lab/roofline.h"

#define GY_WHY_KNOBS 8
#define GY_WHY_WORST 5

struct gy_why_op {
    const struct gy_op *op;
    int program;
    double seconds;          /* median of its time in a step; of the update: its part of one step */
    double least;            /* its shortest run */
    struct gy_work work;
    struct gy_limit limit;
};

struct gy_why_kind {
    int ops;
    double seconds, limit, expected;
};

/* One change of configuration and what it would do. */
struct gy_why_knob {
    const char *name;
    char change[32];         /* "32 -> 64" */
    double images;           /* a second, predicted; 0: nothing to predict */
    size_t bytes;            /* of memory, 0: as now */
    char reason[192];
    int paced;               /* the loader, not the ops, decides what is predicted */
};

struct gy_why {
    struct gyre_net *net;
    struct gy_ceilings ceilings;
    int steps, threads, processors;
    const char *data;        /* format of the data; NULL: synthetic */
    struct gy_why_op *ops;   /* forward, backward, update */
    int op_count;
    struct gy_why_kind kind[GY_OP_KINDS];
    /* seconds of a step in ops; of these, in ops limited by compute, by memory */
    double in_ops, compute, memory;
    double limit;            /* sum of the ops' limits */
    double outside, waited;  /* seconds of a step outside of ops; waiting for the loader */
    double seconds;          /* of a step: in_ops + outside + waited */
    double images;           /* a second, over all measured steps */
    int64_t waits;           /* steps that had to wait */
    size_t bytes;            /* memory now */
    int worst[GY_WHY_WORST], worst_count; /* ops furthest from their limit, by seconds */
    struct gy_why_knob knob[GY_WHY_KNOBS];
    int knob_count;
};

/* The page, or one JSON object. */
GY_INT void gy_why_print(const struct gy_why *why, int json, int all_ops, struct gy_sink *sink);

#endif
