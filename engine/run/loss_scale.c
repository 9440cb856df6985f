/* SPDX-License-Identifier: MIT */
/* loss_scale.c: loss scaling of f16. Small gradients would round to 0, so the loss's gradient is
 * multiplied by a scale, by which the update divides again. A gradient that overflows makes the
 * norm of all infinite or NaN. The device then leaves all weights alone (GY_F_SKIP), so the host
 * need not wait for the norm. step.c has it read before the next gradients are made. After an
 * overflow the host halves the scale and counts the update as skipped. After SCALE_GOOD updates in
 * a row it doubles the scale. A scale that starts as a power of two stays one: scaling is exact. */
#include "engine/run/engine.h"
#ifndef GY_NO_CUDA

#define SCALE_GOOD 2000
#define SCALE_MOST 16777216.0f               /* 2^24 */
#define SCALE_LEAST 0.00000095367431640625f /* 2^-20: what still overflows is not finite */

GY_INT void gy_scale_open(struct gyre_net *net)
{
    net->scale = (struct gy_scale){ .now = net->config.dtype == GYRE_F16 ? net->config.loss_scale : 1 };
    net->uniform.loss_scale = net->scale.now;
}

/* The squared norm of all gradients of the last update. */
static size_t scale_at(const struct gyre_net *net)
{
    return net->plan.tensors[net->plan.norms].offset + (2 * (size_t)net->plan.span_count + 1) * sizeof(float);
}

GY_INT int gy_scale_updated(struct gyre_net *net)
{
    if (net->config.dtype != GYRE_F16)
        return GY_OK;
    net->scale.open = 1;
    if (!net->pinned)
        return GY_OK;
    int status = net->backend->copy(net->backend_self, (unsigned char *)net->seen[GY_AT_OUT] + scale_at(net),
                                    (unsigned char *)net->base[GY_AT_OUT] + scale_at(net), sizeof(float), GY_COPY_TO_HOST);
    if (status == GY_OK)
        status = net->backend->mark(net->backend_self, GY_QUEUE_WORK, GY_MARK_UPDATE);
    return gy_engine_checked(net, status, "the update");
}

static int scale_halve(struct gyre_net *net)
{
    struct gy_scale *s = &net->scale;
    net->updates--;
    s->skipped++;
    s->good = 0;
    if (s->now / 2 < SCALE_LEAST)
        return gy_engine_fail(net, GY_E_NONFINITE, "the gradients at step %" PRId64 " are not finite, even with a loss scale of %g", net->updates,
                              (double)s->now);
    s->now /= 2;
    gy_log_write(&net->log, GY_LOG_INFO, "update %" PRId64 " was skipped: gradients overflowed f16; the loss scale is now %g",
                 net->updates + 1, (double)s->now);
    return GY_OK;
}

GY_INT int gy_scale_settle(struct gyre_net *net)
{
    struct gy_scale *s = &net->scale;
    float norm;
    if (!s->open)
        return GY_OK;
    GY_TRY(gy_engine_checked(net, net->backend->reach(net->backend_self, GY_MARK_UPDATE), "the update"));
    s->open = 0;
    memcpy(&norm, (const unsigned char *)net->seen[GY_AT_OUT] + scale_at(net), sizeof norm);
    if (!isfinite(norm))
        return scale_halve(net);
    if (++s->good >= SCALE_GOOD) {
        s->good = 0;
        s->now = fminf(2 * s->now, SCALE_MOST);
    }
    return GY_OK;
}
#endif
