/* SPDX-License-Identifier: MIT */
/* csv.c: a CSV that grows by a row at a time and survives the process's end. A row is one write. A
 * resumed run first rewrites the file, whole or absent, with the rows that it keeps. */
#include "io/report.h"
#include <fcntl.h>
#include <unistd.h>

#define CSV_LIMIT ((size_t)1 << 30) /* bytes of an old file */
#define CSV_ROW 1024                /* bytes of a row, its newline and a NUL, at most */

struct gy_csv {
    struct gy_alloc alloc;
    int open, fd;
    char path[4096];
    int64_t last; /* step of the last row that was kept; -1: none */
};

/* The step that a row begins with, or -1 when it does not begin with a number. */
static int64_t csv_step(const char *at, const char *end)
{
    char text[24];
    int64_t step = -1;
    size_t length = 0;
    while (at + length < end && length < sizeof text - 1 && at[length] != ',') {
        text[length] = at[length];
        length++;
    }
    text[length] = 0;
    return gy_text_int(text, 0, INT64_MAX, &step) == 0 ? step : -1;
}

/* Writes the header and, of the old text, every whole row whose step is at most keep_step. */
static int csv_rewrite(struct gy_csv *csv, struct gy_outfile *out, const char *header, const char *old, size_t bytes,
                       int64_t keep_step, struct gy_error *err)
{
    const char *end = old + bytes;
    GY_TRY(gy_outfile_write(out, header, strlen(header), err));
    GY_TRY(gy_outfile_write(out, "\n", 1, err));
    for (const char *at = old, *next; at < end; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            break;
        next = newline + 1;
        const int64_t step = csv_step(at, newline);
        if (step < 0 || step > keep_step)
            continue;
        GY_TRY(gy_outfile_write(out, at, (size_t)(next - at), err));
        csv->last = step;
    }
    return GY_OK;
}

/* Skips the old file's header, which must be ours: *at .. *bytes are its rows then. */
static int csv_skip_header(const char *path, const char *header, const char **at, size_t *bytes, struct gy_error *err)
{
    const char *newline = *bytes > 0 ? memchr(*at, '\n', *bytes) : NULL;
    const size_t length = newline ? (size_t)(newline - *at) : 0;
    if (!newline) { /* killed before the header was whole */
        *bytes = 0;
        return GY_OK;
    }
    if (length != strlen(header) || memcmp(*at, header, length) != 0)
        return GY_FAIL(err, GY_E_MISMATCH, "%s: its columns are \"%.*s\", not \"%s\": move it away", path,
                       (int)gy_min64((int64_t)length, 120), *at, header);
    *at = newline + 1;
    *bytes -= length + 1;
    return GY_OK;
}

static int csv_prepare(struct gy_csv *csv, const char *header, int64_t keep_step, struct gy_error *err)
{
    struct gy_outfile out;
    char *old = NULL;
    size_t room = 0;
    if (keep_step >= 0 && gy_file_exists(csv->path) != 0)
        GY_TRY(gy_file_read(&csv->alloc, csv->path, CSV_LIMIT, &old, &room, err));
    const char *at = old ? old : "";
    size_t bytes = room;
    int status = csv_skip_header(csv->path, header, &at, &bytes, err);
    if (status == GY_OK)
        status = gy_outfile_open(&out, csv->path, err);
    if (status == GY_OK) {
        status = csv_rewrite(csv, &out, header, at, bytes, keep_step, err);
        if (status == GY_OK)
            status = gy_outfile_commit(&out, err);
        gy_outfile_abandon(&out);
    }
    if (old)
        gy_alloc_free(&csv->alloc, old, room + 1);
    return status;
}

GY_INT int gy_csv_open(struct gy_csv **out, const struct gy_alloc *alloc, const char *path, const char *header,
                       int64_t keep_step, struct gy_error *err)
{
    struct gy_csv *csv = gy_alloc_take(alloc, 1, sizeof *csv);
    if (!csv)
        return GY_NOMEM(err, "CSV file", sizeof *csv);
    csv->alloc = *alloc;
    csv->last = -1;
    int status = GY_OK;
    if (gy_text_copy(csv->path, sizeof csv->path, path) != 0)
        status = GY_FAIL(err, GY_E_ARG, "a path of %zu bytes is too long", strlen(path));
    if (status == GY_OK)
        status = csv_prepare(csv, header, keep_step, err);
    if (status == GY_OK) {
        csv->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        csv->open = csv->fd >= 0;
        if (!csv->open)
            status = GY_FAIL(err, GY_E_IO, "%s: cannot open: %s", path, strerror(errno));
    }
    if (status != GY_OK)
        gy_csv_close(csv, NULL);
    else
        *out = csv;
    return status;
}

GY_INT int64_t gy_csv_last(const struct gy_csv *csv) { return csv->last; }

GY_INT int gy_csv_row(struct gy_csv *csv, struct gy_error *err, const char *fmt, ...)
{
    char row[CSV_ROW], why[160];
    va_list args;
    va_start(args, fmt);
    const int bytes = gy_text_vprint(row, sizeof row - 1, fmt, args);
    va_end(args);
    if (bytes < 0 || (size_t)bytes >= sizeof row - 1)
        return GY_FAIL(err, GY_E_BUG, "%s: a row of %d bytes; at most %d are written", csv->path, bytes, CSV_ROW - 2);
    row[bytes] = '\n';
    if (gy_file_write_all(csv->fd, row, (size_t)bytes + 1) != 0)
        return GY_FAIL(err, GY_E_IO, "%s: cannot write: %s", csv->path, gy_file_reason(errno, why));
    return GY_OK;
}

GY_INT int gy_csv_close(struct gy_csv *csv, struct gy_error *err)
{
    if (!csv)
        return GY_OK;
    const struct gy_alloc alloc = csv->alloc;
    const int bad = csv->open && close(csv->fd) != 0 && errno != EINTR;
    const int status = bad ? GY_FAIL(err, GY_E_IO, "%s: cannot write: %s", csv->path, strerror(errno)) : GY_OK;
    gy_alloc_free(&alloc, csv, sizeof *csv);
    return status;
}
