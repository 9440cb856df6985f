/* SPDX-License-Identifier: MIT */
/* parallel.h: runs one step in several parts and joins their results. Ranks are processes, each
 * with samples of its own. Shards are parts of the global batch; a rank computes its shards one
 * after the other. step.c and the training loop call it; a net alone has one rank and one shard. */
#ifndef GY_PARALLEL_H
#define GY_PARALLEL_H
#include "engine/run/engine.h"

/* Checks before planning that the configuration's ranks and shards fit, and tells the planner. */
GY_INT int gy_parallel_plan(struct gyre_net *net, struct gy_plan_config *plan);
/* Sums data over the ranks, and waits for it. All ranks call it. */
GY_INT int gy_parallel_sum(struct gyre_net *net, const char *name, float *data, int64_t count);
#ifndef GY_NO_RANKS
/* share.c: ops from GY_OP_SHARE_STATS on */
GY_INT int gy_parallel_share(struct gyre_net *net, const struct gy_op *op);
GY_INT int gy_parallel_replay(struct gyre_net *net, const struct gy_op *op); /* in find_nonfinite */
/* gyre_config.pipeline: chooses this rank's layers, and tells the planner. After the above. */
GY_INT int gy_pipe_plan(struct gyre_net *net, struct gy_plan_config *plan);
/* A net with split layers: chooses this rank's slices, and tells the planner. After the above. */
GY_INT int gy_split_plan(struct gyre_net *net, struct gy_plan_config *plan);
#endif
/* after planning: takes the tables of buckets and shards from the arena */
GY_INT int gy_parallel_tables(struct gyre_net *net);
GY_INT int gy_parallel_open(struct gyre_net *net); /* agree.c: all ranks compare what they train */
/* Is the loss checked after the backward pass, when all ranks' sums are complete anyway? */
GY_INT int gy_parallel_is_late(const struct gyre_net *net, int training);
/* the step of random numbers: another for every shard of the run */
GY_INT uint64_t gy_parallel_counter(const struct gyre_net *net);
/* The samples of a shard, out of those of this rank; it becomes the present one. */
GY_INT struct gyre_batch gy_parallel_part(struct gyre_net *net, const struct gyre_batch *batch, int shard);

/* GY_OP_BUCKET or GY_OP_AWAIT */
GY_INT int gy_parallel_run(struct gyre_net *net, const struct gy_op *op);
/* After backward was started on a device with memory of its own: begins sums as buckets arrive. */
GY_INT int gy_parallel_fetch(struct gyre_net *net);
/* Between two ops: closes buckets whose sums are complete. */
GY_INT int gy_parallel_poll(struct gyre_net *net);
/* After backward of a shard: running statistics and results join those of the shards before. */
GY_INT void gy_parallel_join(struct gyre_net *net, const struct gyre_result *result);
/* GY_E_PEER: a rank is lost. For callers that work without other ranks, such as an evaluation. */
GY_INT int gy_parallel_alive(struct gyre_net *net);
/* result becomes that of all ranks' samples. All ranks call it. */
GY_INT int gy_parallel_result(struct gyre_net *net, struct gyre_result *result);
/* GY_E_UNSUPPORTED for calls that need the whole net on this rank. */
GY_INT int gy_parallel_alone(struct gyre_net *net, const char *call);
/* Running statistics become the mean over all shards; nothing without gyre_config.shards. */
GY_INT int gy_parallel_state(struct gyre_net *net);
/* Waits for every sum that was begun: the gradients may be written again. */
GY_INT int gy_parallel_settle(struct gyre_net *net);

#endif
