/* SPDX-License-Identifier: MIT */
/* When windows were read and when they were trained on, for Chrome's trace viewer or as a drawing
 * of two rows. glm_train.c writes it at the end of a training with a trace. A bar above and the bar
 * of the same colour below are one window. Where the lower row has no gaps, reading costs nothing.
 * Numbers are printed as integers, whatever the locale. */
#include "engine/base/file.h"
#include "engine/base/text.h"
#include "engine/glm/glm_stream.h"

enum { GLMT_WIDE = 9600, GLMT_HIGH = 2500, GLMT_LEFT = 900, GLMT_RIGHT = 9400, GLMT_ROW = 750, GLMT_NEXT = 500, GLMT_BAR = 360, GLMT_BARS = 72 };

static int glmt_to_file(void *user, const char *text, size_t bytes) { return gy_outfile_write(user, text, bytes, NULL); }

static int64_t glmt_count(const struct gy_glm_feed *feed)
{
    struct gy_glm_stream_event e;
    int64_t count = 0;
    while (gy_glm_feed_stream_event(feed, count, &e))
        count++;
    return count;
}

/* ---- Chrome's trace viewer: microseconds ---- */

static void glmt_slice(struct gy_sink *sink, const struct gy_glm_stream_event *e, int rank, int row)
{
    const int64_t began = row ? e->train_began : e->read_began, ended = row ? e->train_ended : e->read_ended;
    if (began == 0 || ended == 0)
        return;
    gy_sink_printf(sink, ",\n{\"name\":\"window %" PRId64 "\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%" PRId64 ".%03d,\"dur\":%" PRId64 ".%03d,\"pid\":%d,"
                   "\"tid\":%d,\"args\":{\"pass\":%" PRId64 ",\"rows\":%" PRId64 ",\"entries\":%" PRId64 "}}", e->window, row ? "train" : "read",
                   began / 1000, (int)(began % 1000), (ended - began) / 1000, (int)((ended - began) % 1000), rank, row, e->pass, e->rows, e->entries);
}

static void glmt_json(const struct gy_glm_feed *feed, int rank, struct gy_sink *sink)
{
    static const char *const rows[] = { "read", "train" };
    struct gy_glm_stream_event e;
    gy_sink_printf(sink, "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", rank, rank);
    for (int row = 0; row < 2; row++)
        gy_sink_printf(sink, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", rank, row, rows[row]);
    for (int64_t i = 0; gy_glm_feed_stream_event(feed, i, &e); i++)
        for (int row = 0; row < 2; row++)
            glmt_slice(sink, &e, rank, row);
    gy_sink_printf(sink, "\n]\n");
}

/* ---- a drawing, in tenths of a pixel ---- */

struct glmt_chart {
    struct gy_sink *sink;
    int64_t began, ended; /* ns */
};

static int64_t glmt_x(const struct glmt_chart *c, int64_t at)
{
    return GLMT_LEFT + (int64_t)((double)(at - c->began) * (GLMT_RIGHT - GLMT_LEFT) / (double)gy_max64(c->ended - c->began, 1));
}

static void glmt_text(struct gy_sink *sink, int64_t x, int64_t y, const char *anchor, const char *text)
{
    gy_sink_printf(sink, "<text x=\"%" PRId64 "\" y=\"%" PRId64 "\" text-anchor=\"%s\" fill=\"#1f2933\" font-size=\"130\">%s</text>\n", x, y, anchor, text);
}

static void glmt_bar(const struct glmt_chart *c, const struct gy_glm_stream_event *e, int row)
{
    static const char *const colors[] = { "#0b6bb5", "#d1490c", "#0a8754" };
    const int64_t began = row ? e->train_began : e->read_began, ended = row ? e->train_ended : e->read_ended, y = GLMT_ROW + row * GLMT_NEXT;
    if (began == 0 || ended == 0 || began < c->began)
        return;
    const int64_t x = glmt_x(c, began), wide = gy_max64(glmt_x(c, ended) - x, 6);
    gy_sink_printf(c->sink, "<rect x=\"%" PRId64 "\" y=\"%" PRId64 "\" width=\"%" PRId64 "\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\" "
                   "stroke-width=\"6\"/>\n", x, y, wide, GLMT_BAR, colors[e->number % 3]);
    if (wide > 220)
        gy_sink_printf(c->sink, "<text x=\"%" PRId64 "\" y=\"%" PRId64 "\" text-anchor=\"middle\" fill=\"#ffffff\" font-size=\"130\">%" PRId64 "</text>\n",
                       x + wide / 2, y + GLMT_BAR / 2 + 45, e->window);
}

/* Marks at multiples of 1, 2 or 5 times a power of ten microseconds. */
static void glmt_axis(const struct glmt_chart *c)
{
    const int64_t span = (c->ended - c->began) / 1000, y = GLMT_ROW + 2 * GLMT_NEXT;
    int64_t step = 1;
    for (int k = 0; span / step > 8; k++)
        step = k % 3 == 1 ? step / 2 * 5 : step * 2;
    for (int64_t at = 0; at <= span; at += step) {
        char label[48];
        const int64_t x = glmt_x(c, c->began + at * 1000);
        gy_sink_printf(c->sink, "<line x1=\"%" PRId64 "\" y1=\"%d\" x2=\"%" PRId64 "\" y2=\"%" PRId64 "\" stroke=\"#cbd2d9\" stroke-width=\"8\"/>\n", x,
                       GLMT_ROW - 60, x, y);
        snprintf(label, sizeof label, "%" PRId64 " %s", step >= 1000 ? at / 1000 : at, step >= 1000 ? "ms" : "us");
        glmt_text(c->sink, x, y + 170, "middle", label);
    }
}

static void glmt_words(const struct gy_glm_feed *feed, struct gy_sink *sink)
{
    struct gy_glm_stream_counts n;
    char line[256], memory[16];
    gy_glm_feed_stream_counts(feed, &n);
    snprintf(line, sizeof line, "reading %" PRId64 " ms, training %" PRId64 " ms, waiting for rows %" PRId64 " ms; %" PRId64 " windows a pass, %d rooms, %s",
             (int64_t)(n.read * 1e3), (int64_t)(n.computed * 1e3), (int64_t)(n.waited * 1e3), n.windows, n.rooms,
             gy_text_bytes(memory, sizeof memory, (double)n.memory));
    gy_sink_printf(sink, "<text x=\"200\" y=\"280\" fill=\"#1f2933\" font-size=\"180\" font-weight=\"600\">rows are read while others train</text>\n");
    glmt_text(sink, 200, 510, "start", line);
    glmt_text(sink, 200, GLMT_ROW + 220, "start", "read");
    glmt_text(sink, 200, GLMT_ROW + GLMT_NEXT + 220, "start", "train");
}

/* The last windows, as many as can be told apart. */
static void glmt_svg(const struct gy_glm_feed *feed, struct gy_sink *sink)
{
    struct gy_glm_stream_event e;
    struct glmt_chart c = { .sink = sink, .began = INT64_MAX };
    const int64_t from = gy_max64(0, glmt_count(feed) - GLMT_BARS);
    for (int64_t i = from; gy_glm_feed_stream_event(feed, i, &e); i++) {
        c.began = gy_min64(c.began, e.read_began ? e.read_began : e.train_began);
        c.ended = gy_max64(c.ended, gy_max64(e.read_ended, e.train_ended));
    }
    if (c.began > c.ended)
        c.began = c.ended;
    gy_sink_printf(sink, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                   "viewBox=\"0 0 %d %d\" font-family=\"Inter,'Segoe UI',Roboto,'DejaVu Sans',Arial,sans-serif\">\n"
                   "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
                   GLMT_WIDE / 10, GLMT_HIGH / 10, GLMT_WIDE, GLMT_HIGH, GLMT_WIDE, GLMT_HIGH);
    glmt_words(feed, sink);
    glmt_axis(&c);
    for (int64_t i = from; gy_glm_feed_stream_event(feed, i, &e); i++)
        for (int row = 0; row < 2; row++)
            glmt_bar(&c, &e, row);
    gy_sink_printf(sink, "</svg>\n");
}

/* ---- files ---- */

static int glmt_ends_in(const char *path, const char *end)
{
    const size_t bytes = strlen(path), more = strlen(end);
    return bytes >= more && strcmp(path + bytes - more, end) == 0;
}

/* "name.svg" of rank 3 is "name.3.svg". */
static int glmt_path(char own[4096], const char *path, int rank, int ranks, struct gy_error *err)
{
    const char *const slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    if (!dot || (slash && dot < slash))
        dot = path + strlen(path);
    const int bytes = ranks > 1 ? snprintf(own, 4096, "%.*s.%d%s", (int)(dot - path), path, rank, dot) : snprintf(own, 4096, "%s", path);
    return bytes < 0 || bytes >= 4096 ? GY_FAIL(err, GY_E_ARG, "the trace's path is longer than 4080 bytes") : GY_OK;
}

GY_INT int gy_glm_feed_stream_trace(const struct gy_glm_feed *feed, const char *path, int rank, int ranks, struct gy_error *err)
{
    char own[4096];
    struct gy_outfile out;
    GY_TRY(glmt_path(own, path, rank, ranks, err));
    GY_TRY(gy_outfile_open(&out, own, err));
    struct gy_sink sink = { .write = glmt_to_file, .user = &out };
    if (glmt_ends_in(path, ".svg"))
        glmt_svg(feed, &sink);
    else
        glmt_json(feed, rank, &sink);
    return gy_outfile_commit(&out, err);
}
