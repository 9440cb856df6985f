/* SPDX-License-Identifier: MIT */
/* job.h: the processes that train one net together, and what a net needs of them: sums over all
 * ranks with the same bits on each. Nets, the training loop and solvers call it through the table
 * of peers.h; job_sums.c has the public sums.
 *
 * Sums of gradients begin as soon as a part of them is complete, and finish later. The gradients
 * lie in memory that all ranks of a host map, so nothing is copied. The rank's own thread sums its
 * slice, and talks to other hosts, whenever it polls (gy_job_test, gy_job_wait). */
#ifndef GY_JOB_H
#define GY_JOB_H
#include "engine/gyre_job.h"
#include "engine/job/peers.h"
#include "net/comm/host_sockets.h"
#include "net/comm/comm.h"
#include "engine/job/messages.h"
#include "engine/job/area.h"

/* data[i] = sum of all ranks' data[i]; NULL or one rank: unchanged. Data outside gy_job_take is
 * copied; separate `sums` get the result. Blocks. GY_E_PEER: a rank does not come. */
GY_INT int gy_job_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err);
/* flag of any rank, on every rank. */
GY_INT int gy_job_any(struct gyre_job *job, int flag, int *out, struct gy_error *err);
/* GY_E_MISMATCH: a value is not rank 0's. what: "the seed", for each rank's sentence. Blocks. */
GY_INT int gy_job_agree(struct gyre_job *job, const char *what, uint64_t value, struct gy_error *err);
/* The same among ranks of a kind: each is compared with the first rank that gives the same kind. */
GY_INT int gy_job_agree_alike(struct gyre_job *job, const char *what, uint64_t kind, uint64_t value, struct gy_error *err);
GY_INT int gy_job_follow(struct gyre_job *job, int64_t *value, struct gy_error *err); /* rank 0's */

/* The ranks that live come together again, in new numbers. Without servers no memory of gy_job_take
 * may be left. GY_E_PEER: one was lost meanwhile, again; GY_E_STATE: this rank must not go on. */
GY_INT int gy_job_reform(struct gyre_job *job, struct gy_error *err);
/* 1: this is rank 0, and somebody waits to be let in, by gy_job_reform. Between two steps. */
GY_INT int gy_job_look(struct gyre_job *job);

/* ---- sums that are begun ---- */

/* Zeroed memory on a page of its own, for sums without copies; all ranks take the same in order.
 * sums NULL: results stand there; else *sums is where they stand, at the same offset
 * (gy_net_host_share). */
GY_INT int gy_job_take(struct gyre_job *job, size_t bytes, void **out, void **sums, struct gy_error *err);
/* What sums the memory without a copy; NULL: it is none of gy_job_take, or this rank is alone. */
GY_INT struct gy_net_host *gy_job_node(const struct gyre_job *job, const void *memory);
GY_INT void gy_job_put(struct gyre_job *job, void *memory); /* NULL is fine; no sum is open in it */
/* In each step `sums` sums of the memory are begun: its buckets, by which sentences name them. */
GY_INT void gy_job_turn(struct gyre_job *job, const void *memory, int sums);
/* Begins data[i] = sum of all ranks' data[i], in memory of gy_job_take, or in its sums. It is not
 * touched until the sum is there. All ranks begin the same sums in order. Does not allocate. */
GY_INT int gy_job_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket, struct gy_error *err);
/* Helps along; 1: the sum is there, 0: not yet, below 0: a status. Does not wait. */
GY_INT int gy_job_test(struct gyre_job *job, int64_t ticket, struct gy_error *err);
GY_INT int gy_job_wait(struct gyre_job *job, int64_t ticket, struct gy_error *err);

#endif
