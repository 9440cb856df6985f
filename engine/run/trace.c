/* SPDX-License-Identifier: MIT */
/* trace.c: the thread that steps the net fills the ring, without a lock or an allocation.
 * gyre_write_trace writes it as a JSON array of trace events, in microseconds of the monotonic
 * clock that all processes of a host share. */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/run/trace.h"
#include "engine/job/peers.h"

static const char trace_end[] = GY_TRACE_END;

GY_INT int gy_trace_open(struct gyre_net *net)
{
    struct gy_trace *t = &net->trace;
    if (net->config.trace_events == 0)
        return GY_OK;
    t->room = net->config.trace_events;
    t->events = gy_arena_take(&net->arena, (size_t)t->room, sizeof *t->events);
    return t->events ? GY_OK : GY_NOMEM(&net->error, "the trace", (size_t)t->room * sizeof *t->events);
}

GY_INT int64_t gy_trace_clock(const struct gyre_net *net) { return net->trace.events ? gy_clock_ns() : 0; }

GY_INT void gy_trace_put(struct gyre_net *net, int row, const char *name, const char *what, const char *group, int64_t began, double bytes)
{
    struct gy_trace *t = &net->trace;
    if (!t->events)
        return;
    struct gy_trace_event *e = &t->events[t->count++ % t->room];
    *e = (struct gy_trace_event){ .name = name, .what = what, .group = group, .began = began, .ended = gy_clock_ns(),
                                  .step = net->updates, .bytes = bytes, .row = row };
    if (row == GY_TRACE_TALK) { /* a row shows one thing at a time: sums wait in turn */
        e->began = gy_max64(e->began, t->talk_ended);
        t->talk_ended = e->ended;
    }
}

/* ---- writing ---- */

static int trace_to_file(void *user, const char *text, size_t bytes)
{
    return gy_outfile_write(user, text, bytes, NULL);
}

static void trace_names(int rank, struct gy_sink *sink)
{
    static const char *const rows[GY_TRACE_ROWS] = { "compute", "communication", "input" };
    gy_sink_printf(sink, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", rank, rank);
    gy_sink_printf(sink, ",\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"sort_index\":%d}}", rank, rank);
    for (int row = 0; row < GY_TRACE_ROWS; row++)
        gy_sink_printf(sink, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", rank, row, rows[row]);
}

static void trace_event(const struct gy_trace_event *e, int rank, struct gy_sink *sink)
{
    gy_sink_printf(sink, ",\n{\"name\":");
    gy_print_json_text(e->name, sink);
    gy_sink_printf(sink, ",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":{\"op\":\"%s\",\"step\":%" PRId64,
                   e->group, (double)e->began * 1e-3, (double)(e->ended - e->began) * 1e-3, rank, e->row, e->what, e->step);
    if (e->bytes > 0)
        gy_sink_printf(sink, ",\"bytes\":%.0f", e->bytes);
    gy_sink_printf(sink, "}}");
}

static void trace_print(const struct gyre_net *net, struct gy_sink *sink)
{
    const struct gy_trace *t = &net->trace;
    const int rank = gyre_job_rank(net->config.job);
    trace_names(rank, sink);
    for (int64_t i = gy_max64(0, t->count - t->room); i < t->count; i++)
        trace_event(&t->events[i % t->room], rank, sink);
    gy_sink_printf(sink, "%s", trace_end);
}

GY_INT int gy_trace_write(struct gyre_net *net, const char *path, const char *behind, size_t bytes)
{
    struct gy_outfile out;
    GY_TRY(gy_outfile_open(&out, path, &net->error));
    struct gy_sink sink = { .write = trace_to_file, .user = &out };
    if (behind) {
        gy_outfile_write(&out, behind, bytes - (sizeof trace_end - 1), NULL);
        gy_sink_printf(&sink, ",\n");
    } else
        gy_sink_printf(&sink, "[\n");
    trace_print(net, &sink);
    return gy_outfile_commit(&out, &net->error); /* the first error of all that was written, too */
}

GY_INT int gy_trace_ready(struct gyre_net *net, const char *path)
{
    GY_TRY(gy_engine_given(net, path, "gyre_write_trace: path"));
    if (net->trace.events)
        return GY_OK;
    return gy_engine_fail(net, GY_E_STATE, "gyre_write_trace: the net was opened with trace_events 0");
}

#ifdef GY_NO_RANKS
GYRE_API int gyre_write_trace(struct gyre_net *net, const char *path)
{
    GY_TRY(gy_trace_ready(net, path));
    return gy_trace_write(net, path, NULL, 0);
}
#endif
