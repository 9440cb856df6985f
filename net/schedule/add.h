/* SPDX-License-Identifier: MIT */
/* add.h: adds float arrays in vectors of eight floats, for sums of all levels: exec.c,
 * host_memory.c and host_sockets.c call it. Each element is added by itself, so the bits are the
 * same whatever the vectors. */
#ifndef GY_NET_ADD_H
#define GY_NET_ADD_H
#include "engine/base/base.h"

/* to[i] = a[i] + b[i]; to may be a or b, else they do not overlap. */
GY_INT void gy_net_sum2(float *to, const float *a, const float *b, int64_t count);
/* The same, written past the caches where the processor can: the lines of `to` are not read first.
 * to is neither a nor b. Other threads see the sums in order only after gy_net_past_end. */
GY_INT void gy_net_sum2_past(float *to, const float *a, const float *b, int64_t count);
GY_INT void gy_net_past_end(void);
/* a[i] = b[i] = a[i] + b[i] */
GY_INT void gy_net_sum_both(float *a, float *b, int64_t count);

#endif
