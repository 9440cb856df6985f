/* SPDX-License-Identifier: MIT */
/* text_api.c: the public calls that need no net and only print: zoo, language, knobs. */
#include "engine/base/public.h"
#include "engine/text/graph.h"
#include "engine/base/knob.h"

GYRE_API const char *gyre_zoo_name(int index) { return gy_zoo_name(index); }
GYRE_API const char *gyre_zoo_about(int index) { return gy_zoo_about(index); }

GYRE_API int gyre_zoo_text(const char *name, int32_t classes, int32_t h, int32_t w, int32_t c, const struct gyre_sink *out,
                           struct gyre_error *error)
{
    GY_TRY(gy_given(name, "gyre_zoo_text: name", error));
    GY_TRY(gy_given(out, "gyre_zoo_text: sink", error));
    struct gy_error err = { 0 };
    struct gy_sink sink = gy_sink_of(out);
    int status = gy_zoo_write(&sink, name, classes, h, w, c, &err);
    if (status == GY_OK && sink.failed)
        status = GY_FAIL(&err, GY_E_IO, "the net's text could not be written");
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

GYRE_API int gyre_print_language(const struct gyre_sink *out)
{
    if (!out)
        return GYRE_E_ARG;
    struct gy_sink sink = gy_sink_of(out);
    gy_layer_help(&sink);
    return sink.failed ? GYRE_E_IO : GYRE_OK;
}

GYRE_API int gyre_print_knobs(const struct gyre_sink *out)
{
    if (!out)
        return GYRE_E_ARG;
    struct gy_sink sink = gy_sink_of(out);
    gy_knob_print(&sink);
    return sink.failed ? GYRE_E_IO : GYRE_OK;
}
