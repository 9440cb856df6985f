/* SPDX-License-Identifier: MIT */
/* slices.h: cuts the parameters into slices and says which server holds which. */
#ifndef GY_NET_SERVER_SLICES_H
#define GY_NET_SERVER_SLICES_H
#include "engine/base/mem.h"
#include "net/server/slice.h"

/* Gives each slice to a server: the largest first, to the server that has least, and of several
 * to that of the smallest number. The same on every rank. */
GY_INT int gy_server_deal(struct gy_server_slice *slices, int count, int servers,
                          struct gy_error *err);
/* Is each of `floats` in one slice at most, and has each server a slice? */
GY_INT int gy_server_slices_check(const struct gy_server_slice *slices, int count, int servers,
                                  int64_t floats, struct gy_error *err);
/* The sum of contributions, one a worker, in the order of a balanced tree over those that are
 * there: ((0 + 1) + (2 + 3)) + ... part: [parts], written over; the sum is in part[0]. */
GY_INT void gy_server_add(float *const *part, int parts, int64_t count);

#endif
