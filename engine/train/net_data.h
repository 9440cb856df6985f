/* SPDX-License-Identifier: MIT */
/* net_data.h: the public data handles, as the training loop, the evaluation and the lab see them.
 * net_data.c has the public calls. */
#ifndef GY_DATA_API_H
#define GY_DATA_API_H
#include "engine/run/engine.h"
#include "io/images/data.h"
#include "io/images/loader.h"

struct gyre_data {
    struct gy_alloc alloc;
    struct gy_log log;
    struct gy_data *data;
};

/* GY_E_MISMATCH: the net's input has another type than the data's samples. which: "training". */
GY_INT int gy_data_check_input(struct gyre_net *net, const struct gyre_data *data, const char *which);

/* Batches that were not ready when asked for, the first aside, and the seconds that it took. */
GY_INT int64_t gy_loader_ready_waits(const struct gyre_loader *loader, double *seconds);

#endif
