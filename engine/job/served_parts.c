/* SPDX-License-Identifier: MIT */
/* What both sides of a job with servers do alike. */
#include "engine/job/served_parts.h"

GY_INT int gy_served_rank(const struct gy_served *s, int server) { return s->workers + server; }

GY_INT int gy_served_lockstep(const struct gy_served *s)
{
    return s->config.sync == GYRE_SYNC_SERVER && s->config.backup == 0;
}

GY_INT float *gy_served_floats(struct gy_server_frame *frame)
{
    return (float *)(void *)(frame + 1);
}

GY_INT int gy_served_lane_open(struct gy_served *s, struct gy_served_lane *lane, int slice,
                               struct gy_error *err)
{
    const size_t floats = (size_t)s->slices[slice].count * sizeof(float);
    lane->bytes = sizeof *lane->get + floats;
    lane->get = gy_alloc_take(&s->alloc, 1, lane->bytes);
    lane->give = gy_alloc_take(&s->alloc, 1, lane->bytes);
    lane->version = s->net.version;
    lane->in.state = lane->out.state = GY_NET_DONE;
    return lane->get && lane->give ? GY_OK : GY_NOMEM(err, "a slice on its way", 2 * lane->bytes);
}

GY_INT void gy_served_lane_close(struct gy_served *s, struct gy_served_lane *lane)
{
    gy_alloc_free(&s->alloc, lane->get, lane->bytes);
    gy_alloc_free(&s->alloc, lane->give, lane->bytes);
}
