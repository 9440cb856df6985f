/* SPDX-License-Identifier: MIT */
/* engine.c: what all calls on an open net need: sentences of failures, which calls are allowed. */
#include "engine/run/engine.h"

GY_INT int gy_engine_fail(struct gyre_net *net, int status, const char *fmt, ...)
{
    char text[sizeof net->error.text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return GY_FAIL(&net->error, status, "%s", text);
}

GY_INT const struct gy_alloc *gy_engine_scratch(const struct gyre_net *net) { return &net->scratch; }
GY_INT const struct gy_log *gy_engine_log(const struct gyre_net *net) { return &net->log; }

GY_INT int gy_engine_given(struct gyre_net *net, const void *pointer, const char *what)
{
    if (!net)
        return GY_E_ARG;
    return pointer ? GY_OK : gy_engine_fail(net, GY_E_ARG, "%s is NULL", what);
}

GYRE_API const struct gyre_error *gyre_last_error(const struct gyre_net *net)
{
    static const struct gyre_error none = { .status = GYRE_E_ARG, .file = "", .text = "the net is NULL" };
    return net ? (const struct gyre_error *)(const void *)&net->error : &none;
}

GYRE_API void gyre_get_shape(const struct gyre_net *net, struct gyre_shape *shape)
{
    if (!net || !shape)
        return;
    const struct gy_graph *g = &net->graph;
    *shape = (struct gyre_shape){ g->h, g->w, g->c, g->classes, net->config.batch };
}

GY_INT int gy_engine_checked(struct gyre_net *net, int status, const char *what)
{
    if (status == GY_OK)
        return GY_OK;
    net->failed = 1;
    return gy_engine_fail(net, status, "the device failed in %s or in what came before; the log says how", what);
}

GY_INT int gy_engine_ready(struct gyre_net *net, const char *call, int training)
{
    if (net->failed)
        return gy_engine_fail(net, GY_E_STATE, "%s: the device failed before; the net can only be closed", call);
    if (net->torn)
        return gy_engine_fail(net, GY_E_STATE, "%s: the net has only a part of the file that was read last; it can be read again, or the net closed", call);
    if (training && net->config.mode != GYRE_TRAIN)
        return gy_engine_fail(net, GY_E_STATE, "%s: the net was opened with GYRE_INFER", call);
    return GY_OK;
}

GY_INT int gy_engine_updated(struct gyre_net *net, const char *call)
{
    if (net->pending == 0)
        return GY_OK;
    return gy_engine_fail(net, GY_E_STATE, "%s in mid-accumulation: the gradients of %d of %d calls of gyre_step wait for their update and would be lost",
                          call, net->pending, net->config.accumulate);
}
