/* SPDX-License-Identifier: MIT */
/* share.c: ops in which ranks wait for each other (step.c). They share batch-norm statistics, send
 * tensors between stages of a pipeline, or exchange columns of split layers. */
#include "engine/run/parallel.h"
#include "engine/run/split_ranks.h"

/* STATS become those of all ranks' samples. The means are summed first, then squared deviations
 * from the common mean: so nothing is cancelled. */
static int share_stats(struct gyre_net *net, const struct gy_op *op)
{
    const int64_t channels = op->geom.c;
    const double each = (double)op->geom.n * op->geom.h * op->geom.w;
    const float part = 1.0f / (float)net->parallel.ranks;
    float *const mean = op->ptr[GY_STATS], *const square = mean + channels, *const own = net->parallel.room;
    memcpy(own, mean, (size_t)channels * sizeof *own);
    GY_TRY(gy_parallel_sum(net, op->name, mean, channels));
    for (int64_t c = 0; c < channels; c++) {
        mean[c] *= part;
        const double apart = (double)own[c] - (double)mean[c];
        square[c] = (float)((double)square[c] + each * apart * apart);
    }
    return gy_parallel_sum(net, op->name, square, channels);
}

/* SUMS become their mean over ranks. */
static int share_sums(struct gyre_net *net, const struct gy_op *op)
{
    const int64_t count = net->plan.tensors[op->tensor[GY_SUMS]].count;
    const float part = 1.0f / (float)net->parallel.ranks;
    float *const sums = op->ptr[GY_SUMS];
    GY_TRY(gy_parallel_sum(net, op->name, sums, count));
    for (int64_t i = 0; i < count; i++)
        sums[i] *= part;
    return GY_OK;
}

/* A tensor to another stage of a pipeline, or from one. */
static int share_message(struct gyre_net *net, const struct gy_op *op)
{
    return net->pipe->run(net, op);
}

GY_INT int gy_parallel_share(struct gyre_net *net, const struct gy_op *op)
{
    /* ORDER: enum gy_opcode, from GY_OP_SHARE_STATS on */
    static int (*const run[])(struct gyre_net *, const struct gy_op *) = {
        share_stats, share_sums, share_message, share_message, gy_split_run, gy_split_run
    };
    return run[op->code - GY_OP_SHARE_STATS](net, op);
}

/* Other ranks are not asked: they may be at another place. The replay ends where something of
 * theirs would come. */
GY_INT int gy_parallel_replay(struct gyre_net *net, const struct gy_op *op)
{
    if (op->code == GY_OP_RECV || op->code == GY_OP_PASS)
        return gy_engine_fail(net, GY_E_STATE, "all is finite up to layer '%.100s', whose numbers "
                              "come from another rank: the replay ends there", op->name);
    return op->code == GY_OP_SPLIT ? gy_parallel_share(net, op) : GY_OK;
}
