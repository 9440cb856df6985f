/* SPDX-License-Identifier: MIT */
/* arrivals.c: writes a record beside the run; it becomes a file at the run's end. A record to be
 * replayed may come from anybody: each line is checked when its turn comes. */
#include "net/server/arrivals.h"
#include "engine/base/text.h"

#define ARRIVALS_MOST ((size_t)1 << 30)
#define ARRIVALS_LINE 160

static const char *const arrivals_word[GY_ARRIVAL_KINDS] = { "push", "fetch", "leave", "lost" };

static void arrivals_head_text(const struct gy_arrivals_head *h, char text[ARRIVALS_LINE])
{
    snprintf(text, ARRIVALS_LINE, "gyre arrivals 1 run %016" PRIx64 " server %d of %d workers %d "
             "slices %d\n", h->run, h->server, h->servers, h->workers, h->slices);
}

/* ---- recording ---- */

GY_INT int gy_arrivals_record(struct gy_arrivals *a, const struct gy_alloc *alloc, const char *path,
                              const struct gy_arrivals_head *head, struct gy_error *err)
{
    char text[ARRIVALS_LINE];
    *a = (struct gy_arrivals){ .alloc = *alloc, .head = *head };
    a->out = gy_alloc_take(alloc, 1, sizeof *a->out);
    if (!a->out)
        return GY_NOMEM(err, "a record of arrivals", sizeof *a->out);
    arrivals_head_text(head, text);
    GY_TRY(gy_outfile_open(a->out, path, err));
    return gy_outfile_write(a->out, text, strlen(text), err);
}

static int arrivals_write(struct gy_arrivals *a, int kind, int worker, int slice,
                          struct gy_error *err)
{
    char text[ARRIVALS_LINE];
    if (kind == GY_ARRIVAL_PUSH)
        snprintf(text, sizeof text, "%s %d %d\n", arrivals_word[kind], worker, slice);
    else
        snprintf(text, sizeof text, "%s %d\n", arrivals_word[kind], worker);
    return gy_outfile_write(a->out, text, strlen(text), err);
}

/* ---- replaying ---- */

static int arrivals_number(const char **at, int most, int *out)
{
    char word[32];
    int64_t value;
    if (gy_text_word(at, word, sizeof word) != 0 || gy_text_int(word, 0, most, &value) != 0)
        return -1;
    *out = (int)value;
    return 0;
}

/* One line, without its end. */
static int arrivals_line(const struct gy_arrivals *a, const char *line, struct gy_arrival *out)
{
    char word[16];
    *out = (struct gy_arrival){ .kind = 0 };
    if (gy_text_word(&line, word, sizeof word) != 0)
        return -1;
    while (out->kind < GY_ARRIVAL_KINDS && strcmp(word, arrivals_word[out->kind]) != 0)
        out->kind++;
    if (out->kind == GY_ARRIVAL_KINDS || arrivals_number(&line, a->head.workers - 1,
                                                         &out->worker) != 0)
        return -1;
    if (out->kind == GY_ARRIVAL_PUSH && arrivals_number(&line, a->head.slices - 1,
                                                        &out->slice) != 0)
        return -1;
    return line[strspn(line, " \t\r")] == 0 ? 0 : -1;
}

static int arrivals_next(struct gy_arrivals *a, struct gy_error *err)
{
    char line[ARRIVALS_LINE];
    const size_t bytes = strcspn(a->at, "\n");
    a->ended = *a->at == 0;
    if (a->ended)
        return GY_OK;
    a->line++;
    snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line - 1),
             a->at);
    a->at += bytes + (a->at[bytes] == '\n');
    const int good = bytes < sizeof line && arrivals_line(a, line, &a->next) == 0;
    if (good && a->next.kind == GY_ARRIVAL_LOST)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s:%" PRId64 ": worker %d was lost there: such a "
                       "run cannot be replayed further", a->path, a->line, a->next.worker);
    if (good)
        return GY_OK;
    return GY_FAIL(err, GY_E_FORMAT, "%s:%" PRId64 ": \"%.60s\" is no arrival of %d workers and %d "
                   "slices", a->path, a->line, line, a->head.workers, a->head.slices);
}

GY_INT int gy_arrivals_parse(struct gy_arrivals *a, const char *text, struct gy_error *err)
{
    char want[ARRIVALS_LINE];
    arrivals_head_text(&a->head, want);
    if (strncmp(text, "gyre arrivals ", 14) != 0)
        return GY_FAIL(err, GY_E_FORMAT, "%s: it is no record of arrivals", a->path);
    if (strncmp(text, want, strlen(want)) != 0)
        return GY_FAIL(err, GY_E_MISMATCH, "%s belongs to another run: it begins "
                       "with \"%.*s\", and this one would with \"%.*s\"", a->path,
                       (int)strcspn(text, "\n") < 120 ? (int)strcspn(text, "\n") : 120, text,
                       (int)strcspn(want, "\n"), want);
    a->at = text + strlen(want);
    a->line = 1;
    return arrivals_next(a, err);
}

GY_INT int gy_arrivals_replay(struct gy_arrivals *a, const struct gy_alloc *alloc, const char *path,
                              const struct gy_arrivals_head *head, struct gy_error *err)
{
    *a = (struct gy_arrivals){ .alloc = *alloc, .head = *head };
    snprintf(a->path, sizeof a->path, "%.300s", path);
    GY_TRY(gy_file_read(alloc, path, ARRIVALS_MOST, &a->text, &a->bytes, err));
    return gy_arrivals_parse(a, a->text, err);
}

/* ---- both ---- */

GY_INT int gy_arrivals_may(const struct gy_arrivals *a, int kind, int worker, int slice)
{
    if (!a->at)
        return 1;
    return !a->ended && a->next.kind == kind && a->next.worker == worker && a->next.slice == slice;
}

GY_INT int gy_arrivals_taken(struct gy_arrivals *a, int kind, int worker, int slice,
                             struct gy_error *err)
{
    if (a->out)
        return arrivals_write(a, kind, worker, slice, err);
    return a->at ? arrivals_next(a, err) : GY_OK;
}

GY_INT int gy_arrivals_end(struct gy_arrivals *a, struct gy_error *err)
{
    if (a->out)
        return gy_outfile_commit(a->out, err);
    if (a->at && !a->ended)
        return GY_FAIL(err, GY_E_MISMATCH, "%s:%" PRId64 ": the record goes on, and all workers "
                       "have left: it belongs to another run", a->path, a->line);
    return GY_OK;
}

GY_INT void gy_arrivals_close(struct gy_arrivals *a)
{
    if (a->out) {
        gy_outfile_abandon(a->out);
        gy_alloc_free(&a->alloc, a->out, sizeof *a->out);
    }
    if (a->text)
        gy_alloc_free(&a->alloc, a->text, a->bytes + 1);
    *a = (struct gy_arrivals){ .out = NULL };
}
