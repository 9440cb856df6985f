/* SPDX-License-Identifier: MIT */
/* split_ranks.h: calls of a net with slices of layers (plan/split.h), for split_*.c and share.c. */
#ifndef GY_SPLIT_RANKS_H
#define GY_SPLIT_RANKS_H
#include "engine/plan/split.h"
#include "engine/run/engine.h"

struct gy_split_net {
    struct gy_split plan;
    int saving;          /* rank 0 writes rows of all ranks */
    float *window;       /* rows of another rank */
    int64_t window_room; /* floats */
    int window_param, window_region;
    int64_t window_first, window_count; /* rows */
};

/* split_run.c */
GY_INT int gy_split_agree(struct gyre_net *net); /* may this job have split layers? */
GY_INT int gy_split_run(struct gyre_net *net, const struct gy_op *op); /* GY_OP_PASS, GY_OP_SPLIT */

/* split_rows.c */
GY_INT int gy_split_has(const struct gyre_net *net, int region, int param);
GY_INT int32_t gy_split_place(const struct gyre_net *net, int param, int32_t k);
GY_INT int gy_split_row(struct gyre_net *net, int param, int region, int32_t k, float *row);
GY_INT int gy_split_save(struct gyre_net *net, const char *path, int everything);

#endif
