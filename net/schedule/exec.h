/* SPDX-License-Identifier: MIT */
/* exec.h: runs one rank's part of a proved schedule on a transport. inter_host.c calls it; cost.c
 * takes its plain addition. Nothing is allocated after open. */
#ifndef GY_NET_EXEC_H
#define GY_NET_EXEC_H
#include "net/schedule/schedule.h"
#include "net/transport/transport.h"

/* dst[i] += src[i] */
typedef void (*gy_net_add_fn)(float *dst, const float *src, int64_t count);

struct gy_net_exec;

/* Makes an executor for buffers of up to `most` floats. The schedule must have been verified and
 * must outlive it. epoch separates its messages from those of other executors between the same
 * ranks. All ranks give the same epoch, below 2^16. add NULL: gy_net_add_plain. */
GY_INT int gy_net_exec_open(struct gy_net_exec **out, const struct gy_net_schedule *s, const struct gy_net_end *end, int64_t most,
                            unsigned epoch, gy_net_add_fn add, const struct gy_alloc *alloc, struct gy_error *err);
/* Begins on data, which belongs to the executor until it is done. All ranks give the same count.
 * GY_E_ARG: more than `most`; GY_E_STATE: the last one is not done. */
GY_INT int gy_net_exec_start(struct gy_net_exec *exec, float *data, int64_t count, struct gy_error *err);
/* 1: done; 0: not yet; < 0: a status, such as GY_E_PEER. */
GY_INT int gy_net_exec_test(struct gy_net_exec *exec, struct gy_error *err);
/* The same without progress of the transport, for a caller with several executors on one
 * transport. */
GY_INT int gy_net_exec_look(struct gy_net_exec *exec, struct gy_error *err);
/* NULL is fine. If its buffer is not done it cancels all that is pending on the transport, also
 * messages of other executors. */
GY_INT void gy_net_exec_close(struct gy_net_exec *exec);
/* Where piece p of a buffer begins, a multiple of 16 elements. p == pieces: its end. */
GY_INT int64_t gy_net_piece_at(const struct gy_net_schedule *s, int32_t piece, int64_t count);
GY_INT void gy_net_add_plain(float *dst, const float *src, int64_t count);

#endif
