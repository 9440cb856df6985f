/* SPDX-License-Identifier: MIT */
/* slices.h: deals slices of the parameters to servers, and adds what workers push. The slices are a
 * net's buckets (train_served.c). served_job.c deals and checks, served_server.c adds. */
#ifndef GY_NET_SERVER_SLICES_H
#define GY_NET_SERVER_SLICES_H
#include "engine/base/mem.h"
#include "net/server/slice.h"

/* Sets the server of each slice: the largest slice first, to the server that has least, and of
 * several to that of the smallest number. The same on every rank. GY_E_ARG: fewer slices than
 * servers. */
GY_INT int gy_server_deal(struct gy_server_slice *slices, int count, int servers,
                          struct gy_error *err);
/* GY_OK: no parameter of `floats` is in two slices, no slice is empty, and each server has one.
 * GY_E_MISMATCH names what is wrong. */
GY_INT int gy_server_slices_check(const struct gy_server_slice *slices, int count, int servers,
                                  int64_t floats, struct gy_error *err);
/* The sum of contributions, one a worker, in the order of a balanced tree over those that are
 * there: ((0 + 1) + (2 + 3)) + ... part: [parts], written over; the sum is in part[0]. */
GY_INT void gy_server_add(float *const *part, int parts, int64_t count);

#endif
