/* SPDX-License-Identifier: MIT */
/* pipeline_stage.c: a stage's place among the ranks of its job, and its ways to other stages. */
#include "engine/run/pipeline_stage.h"

GY_INT const struct gy_wire_calls *gy_pipe_wire(const struct gyre_net *net)
{
    return net->config.job->peers->wire();
}

GY_INT int gy_pipe_rank(const struct gyre_net *net, int stage, int copy)
{
    return copy * net->stage->stages + stage;
}
