/* SPDX-License-Identifier: MIT */
/* tuning.c: plans a net with measured rows: of the machine's file, a named one or a checkpoint. */
#include "engine/run/tuning.h"
#include "engine/base/file.h"
#include "engine/plan/plan_compile.h"
#include "engine/plan/tuning_file.h"

#ifndef GY_NO_TUNING

/* Reads measured rows. If nobody named the file, a broken one gives a warning and no rows. */
static int tuning_read(struct gyre_net *net, struct gy_tuned *tuned, char *path, size_t room)
{
    int named = 0;
    if (net->config.tune && gy_tuned_is_text(net->config.tune)) {
        gy_text_copy(path, room, "the rows of a checkpoint");
        return gy_tuned_read(tuned, net->config.tune, &net->alloc, net->backend, &net->caps, &net->error);
    }
    GY_TRY(gy_tuned_path(path, room, net->config.tune, net->config.use_env, &named, &net->error));
    const int absent = named && path[0] && !gy_file_exists(path);
    const int status = absent ? GY_FAIL(&net->error, GY_E_IO, "%.300s: there is no such file of block sizes", path)
                              : gy_tuned_read(tuned, path, &net->alloc, net->backend, &net->caps, &net->error);
    if (status == GY_OK || named || status == GY_E_NOMEM)
        return status;
    gy_log_write(&net->log, GY_LOG_WARN, "%s: block sizes are not used", net->error.text);
    path[0] = 0;
    return gy_tuned_read(tuned, path, &net->alloc, net->backend, &net->caps, &net->error);
}

/* The rows that chose kernels, for checkpoints. */
static int tuning_keep(struct gyre_net *net, const struct gy_tuned *tuned)
{
    struct gy_buf buf;
    if (net->caps.host_memory || !tuned->used)
        return GY_OK;
    gy_buf_open(&buf, &net->alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_tuned_print_used(tuned, &sink);
    net->tuned_rows =
        sink.failed || buf.failed ? NULL : gy_arena_text(&net->arena, buf.text, buf.bytes);
    const size_t bytes = buf.bytes;
    gy_buf_close(&buf);
    return net->tuned_rows ? GY_OK : GY_NOMEM(&net->error, "the rows of kernels", bytes);
}

GY_INT int gy_engine_plan_tuned(struct gyre_net *net, const struct gy_plan_config *config)
{
    char path[4096];
    struct gy_tuned tuned;
    struct gy_plan_config plan = *config;
    GY_TRY(tuning_read(net, &tuned, path, sizeof path));
    plan.tuned = &tuned;
    int status = gy_plan_build(&net->plan, &net->graph, &plan, &net->uniform, net->backend,
                               net->backend_self, &net->arena, &net->error);
    if (tuned.others)
        gy_log_write(&net->log, GY_LOG_INFO, "%s: %d of %d rows are for other processors or kernel "
                     "sets: passed over", path, tuned.others, tuned.count);
    if (tuned.stale)
        gy_log_write(&net->log, GY_LOG_INFO,
                     "%s: rows of %d ops choose kernels that are not this library's: passed over", path, tuned.stale);
    net->tuned_ops = tuned.used;
    if (status == GY_OK)
        status = tuning_keep(net, &tuned);
    net->config.tune = NULL;
    if (status == GY_OK && tuned.used) {
        net->config.tune = gy_arena_text(&net->arena, path, strlen(path));
        gy_log_write(&net->log, GY_LOG_INFO, "%d ops have %s from %s", tuned.used,
                     net->caps.host_memory ? "block sizes" : "kernels", path);
    }
    gy_tuned_close(&tuned);
    return status;
}

#endif
