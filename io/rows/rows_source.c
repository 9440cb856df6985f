/* SPDX-License-Identifier: MIT */
/* rows_source.c: gives rows_convert.c text in pieces of whole lines, from a file, a .gz file's
 * decoder or memory. A decoder's output is read in turn: the start of a line that does not end in
 * one piece waits for the next. A file's beginning, which says what the file is like, is also read
 * in turn. The threads that parse the other pieces of a file also read them: a piece is the lines
 * that begin in its bytes. */
#include "io/rows/rows_text.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define SOURCE_PIECE ((size_t)100)
#else
#define SOURCE_PIECE ((size_t)1 << 18)
#endif
#define SOURCE_LINE ((size_t)1 << 30) /* longest line */
#define SOURCE_PEEK ((size_t)1 << 16)
#define SOURCE_MORE ((size_t)1 << 12) /* read behind a piece, for its last line's end */

struct source_file {
    const char *name;
    const unsigned char *bytes; /* in memory; NULL: a path */
    int64_t size;
    struct gy_rows_layout layout;
};

struct gy_rows_source {
    struct gy_alloc alloc;
    struct source_file *file;
    int files, at;
    int open, first;
    int fd;              /* -1: none */
    struct gy_file packed; /* a .gz file, or its bytes */
    struct gy_inflate *gz;
    size_t pos;          /* bytes of the file that are read or dealt */
    int in_turn;         /* all of this file is to be read in turn */
    int ended;
    struct gy_rows_text rest; /* the beginning of a line */
    size_t rest_bytes;
    int64_t past;        /* bytes of the files before */
    int64_t done;
    unsigned char *peek;
};

static int source_make_files(struct gy_rows_source *s, const struct gy_convert_config *config, const struct gy_rows_bytes *bytes, struct gy_error *err)
{
    struct stat info;
    s->files = bytes ? 1 : config->files;
    if (s->files < 1)
        return GY_FAIL(err, GY_E_ARG, "no files to convert");
    s->file = gy_alloc_take(&s->alloc, (size_t)s->files, sizeof *s->file);
    if (!s->file)
        return GY_NOMEM(err, "a list of files", (size_t)s->files * sizeof *s->file);
    if (bytes) {
        s->file[0] = (struct source_file){ bytes->name, bytes->count > 0 ? bytes->bytes : (const unsigned char *)"", (int64_t)bytes->count, { 0, 0, 0, 0 } };
        return GY_OK;
    }
    for (int i = 0; i < s->files; i++) {
        s->file[i].name = config->from[i];
        if (stat(config->from[i], &info) != 0 || !S_ISREG(info.st_mode))
            return GY_FAIL(err, GY_E_IO, "%.300s: %s", config->from[i], errno != 0 ? strerror(errno) : "not a regular file");
        s->file[i].size = (int64_t)info.st_size;
    }
    return GY_OK;
}

GY_INT int gy_rows_source_open(struct gy_rows_source **out, const struct gy_convert_config *config, const struct gy_rows_bytes *bytes,
                               const struct gy_alloc *alloc,
                               struct gy_error *err)
{
    struct gy_rows_source *s = gy_alloc_take(alloc, 1, sizeof *s);
    if (!s)
        return GY_NOMEM(err, "reading text", sizeof *s);
    s->alloc = *alloc;
    s->fd = -1;
    errno = 0;
    const int status = source_make_files(s, config, bytes, err);
    if (status == GY_OK)
        *out = s;
    else
        gy_rows_source_close(s);
    return status;
}

static void source_close_file(struct gy_rows_source *s)
{
    gy_inflate_close(s->gz);
    gy_file_close(&s->packed);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->gz = NULL;
    s->open = 0;
}

GY_INT void gy_rows_source_close(struct gy_rows_source *s)
{
    if (!s)
        return;
    const struct gy_alloc alloc = s->alloc;
    source_close_file(s);
    gy_alloc_free(&alloc, s->rest.bytes, s->rest.room);
    gy_alloc_free(&alloc, s->peek, SOURCE_PEEK + GY_ROWS_PAD);
    gy_alloc_free(&alloc, s->file, (size_t)s->files * sizeof *s->file);
    gy_alloc_free(&alloc, s, sizeof *s);
}

GY_INT const char *gy_rows_source_name(const struct gy_rows_source *s, int file) { return s->file[file].name; }

GY_INT int64_t gy_rows_source_total(const struct gy_rows_source *s)
{
    int64_t total = 0;
    for (int i = 0; i < s->files; i++)
        total += s->file[i].size;
    return total;
}

GY_INT int64_t gy_rows_source_done(const struct gy_rows_source *s) { return s->done; }

/* The next bytes of the file, at most room; fewer only at its end. */
static int source_read(struct gy_rows_source *s, unsigned char *to, size_t room, size_t *got, struct gy_error *err)
{
    const struct source_file *f = &s->file[s->at];
    size_t done = 0;
    if (s->gz) {
        const int status = gy_inflate_read(s->gz, to, room, got, err);
        s->pos = (size_t)gy_inflate_taken(s->gz);
        return status;
    }
    if (f->bytes) {
        done = room < (size_t)f->size - s->pos ? room : (size_t)f->size - s->pos;
        memcpy(to, f->bytes + s->pos, done);
    }
    while (!f->bytes && done < room) {
        const ssize_t some = read(s->fd, to + done, room - done);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return GY_FAIL(err, GY_E_IO, "%.300s: cannot be read: %s", f->name, strerror(errno));
        if (some == 0)
            break;
        done += (size_t)some;
    }
    s->pos += done;
    *got = done;
    return GY_OK;
}

/* A file that begins as a .gz file does is read through the decoder. */
static int source_open_gz(struct gy_rows_source *s, const unsigned char *begin, size_t got, struct gy_error *err)
{
    const struct source_file *f = &s->file[s->at];
    s->pos = 0;
    if (got < 2 || begin[0] != 0x1f || begin[1] != 0x8b)
        return f->bytes || lseek(s->fd, 0, SEEK_SET) == 0 ? GY_OK : GY_FAIL(err, GY_E_IO, "%.300s: cannot be read: %s", f->name, strerror(errno));
    if (f->bytes)
        s->packed = gy_file_of(f->bytes, (size_t)f->size, f->name);
    else
        GY_TRY(gy_file_open(&s->packed, f->name, err));
    return gy_inflate_open(&s->gz, &s->packed, &s->alloc, err);
}

static int source_open_file(struct gy_rows_source *s, struct gy_error *err)
{
    const struct source_file *f = &s->file[s->at];
    unsigned char begin[2];
    size_t got = 0;
    s->open = s->first = 1;
    s->ended = 0;
    s->pos = s->rest_bytes = 0;
    if (!f->bytes) {
        s->fd = open(f->name, O_RDONLY | O_CLOEXEC);
        if (s->fd < 0)
            return GY_FAIL(err, GY_E_IO, "%.300s: cannot be read: %s", f->name, strerror(errno));
    }
    GY_TRY(source_read(s, begin, sizeof begin, &got, err));
    if (got == 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: the file is empty", f->name);
    return source_open_gz(s, begin, got, err);
}

GY_INT int gy_rows_source_peek(struct gy_rows_source *s, const unsigned char **text, size_t *bytes, struct gy_error *err)
{
    size_t got = 0;
    if (!s->peek && !(s->peek = gy_alloc_take(&s->alloc, SOURCE_PEEK + GY_ROWS_PAD, 1)))
        return GY_NOMEM(err, "the first lines", SOURCE_PEEK);
    int status = source_open_file(s, err);
    if (status == GY_OK)
        status = source_read(s, s->peek, SOURCE_PEEK, &got, err);
    source_close_file(s);
    GY_TRY(status);
    memset(s->peek + got, 0, GY_ROWS_PAD);
    s->peek[got] = '\n';
    *text = s->peek;
    *bytes = got + 1;
    return GY_OK;
}

/* ---- pieces ---- */

static int source_room(const struct gy_rows_source *s, struct gy_rows_text *text, size_t need, struct gy_error *err)
{
    if (need <= text->room)
        return GY_OK;
    const size_t more = need + need / 8; /* the next piece may need a little more */
    unsigned char *grown = gy_alloc_grow(&s->alloc, text->bytes, text->room, more, 1);
    if (!grown)
        return GY_NOMEM(err, "a piece of text", more);
    *text = (struct gy_rows_text){ grown, more };
    return GY_OK;
}

/* Makes bytes [from, to) the piece's text. It adds a missing last newline and the zeros that may be
 * read behind the text. */
static void source_end_piece(struct gy_rows_piece *piece, unsigned char *text, size_t from, size_t to)
{
    piece->added = to > from && text[to - 1] != '\n';
    if (piece->added)
        text[to++] = '\n';
    memset(text + to, 0, GY_ROWS_PAD);
    piece->text = text + from;
    piece->bytes = to - from;
}

/* Bytes up to the last newline of n; 0 when there is none. */
static size_t source_whole_lines(const unsigned char *text, size_t n)
{
    while (n > 0 && text[n - 1] != '\n')
        n--;
    return n;
}

static int source_fill(struct gy_rows_source *s, struct gy_rows_piece *piece, struct gy_rows_text *text, struct gy_error *err)
{
    size_t have = s->rest_bytes, want = SOURCE_PIECE + have, lines = 0;
    do {
        size_t got = 0;
        if (want > SOURCE_LINE)
            return GY_FAIL(err, GY_E_FORMAT, "%.300s: a line is longer than %zu bytes", s->file[s->at].name, SOURCE_LINE);
        GY_TRY(source_room(s, text, want + 1 + GY_ROWS_PAD, err));
        if (s->rest_bytes > 0)
            memcpy(text->bytes, s->rest.bytes, s->rest_bytes);
        s->rest_bytes = 0;
        GY_TRY(source_read(s, text->bytes + have, want - have, &got, err));
        have += got;
        s->ended = have < want;
        lines = s->ended ? have : source_whole_lines(text->bytes, have);
        want *= 2;
    } while (!s->ended && lines == 0);
    GY_TRY(source_room(s, &s->rest, have - lines, err));
    if (have > lines)
        memcpy(s->rest.bytes, text->bytes + lines, have - lines);
    s->rest_bytes = have - lines;
    source_end_piece(piece, text->bytes, 0, lines);
    return GY_OK;
}

/* All of `count` bytes of the file at `at`. */
static int source_read_at(const struct source_file *f, int fd, int64_t at, unsigned char *to, size_t count, struct gy_error *err)
{
    if (f->bytes)
        memcpy(to, f->bytes + at, count);
    for (size_t done = 0; f->bytes == NULL && done < count;) {
        const ssize_t some = pread(fd, to + done, count - done, (off_t)(at + (int64_t)done));
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return GY_FAIL(err, GY_E_IO, "the file cannot be read: %s", strerror(errno));
        if (some == 0)
            return GY_FAIL(err, GY_E_IO, "the file ends at byte %" PRId64 ", but had %" PRId64, at + (int64_t)done, f->size);
        done += (size_t)some;
    }
    return GY_OK;
}

/* From the byte before the piece on, which is a newline where a line begins with the piece. */
static int source_read_piece(const struct gy_rows_source *s, int fd, struct gy_rows_piece *piece, struct gy_rows_text *text, struct gy_error *err)
{
    const struct source_file *f = &s->file[piece->file];
    const size_t all = (size_t)(f->size - (piece->from - 1));
    size_t have = 0, want = piece->span + 1 + SOURCE_MORE, begin = 0, end = 0;
    while (end == 0) {
        const size_t seen = have > piece->span ? have : piece->span;
        want = want < all ? want : all;
        if (want > SOURCE_LINE)
            return GY_FAIL(err, GY_E_FORMAT, "a line is longer than %zu bytes", SOURCE_LINE);
        GY_TRY(source_room(s, text, want + 1 + GY_ROWS_PAD, err));
        GY_TRY(source_read_at(f, fd, piece->from - 1 + (int64_t)have, text->bytes + have, want - have, err));
        have = want;
        const unsigned char *const first = memchr(text->bytes, '\n', piece->span);
        if (!first) { /* they are all of a line that began before */
            begin = end = 1;
            break;
        }
        const unsigned char *const last = memchr(text->bytes + seen, '\n', have - seen);
        begin = (size_t)(first - text->bytes) + 1;
        end = last ? (size_t)(last - text->bytes) + 1 : have == all ? have : 0;
        want *= 2;
    }
    source_end_piece(piece, text->bytes, begin, end);
    return GY_OK;
}

GY_INT int gy_rows_source_read(const struct gy_rows_source *s, struct gy_rows_piece *piece, struct gy_rows_text *text, struct gy_error *err)
{
    const struct source_file *f = &s->file[piece->file];
    const int fd = !f->bytes ? open(f->name, O_RDONLY | O_CLOEXEC) : -1;
    if (!f->bytes && fd < 0)
        return GY_FAIL(err, GY_E_IO, "the file cannot be read: %s", strerror(errno));
    const int status = source_read_piece(s, fd, piece, text, err);
    if (fd >= 0)
        close(fd);
    return status;
}

/* A byte order mark is three bytes that no line begins with. */
static int source_skip_mark(const struct gy_rows_source *s, const struct gy_rows_settings *settings, struct gy_rows_piece *piece, struct gy_error *err)
{
    const size_t mark = gy_rows_mark(piece->text, piece->bytes);
    if (mark == 0)
        return GY_OK;
    if (!settings->lenient)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s:1:1: a byte order mark", s->file[s->at].name);
    gy_rows_note(piece, GY_MEND_MARK, 1);
    piece->text += mark;
    piece->bytes -= mark;
    return GY_OK;
}

/* Learns from the first line that is not blank. */
static int source_look(struct gy_rows_source *s, const struct gy_rows_settings *settings, const struct gy_rows_piece *piece, struct gy_error *err)
{
    struct gy_error why;
    const unsigned char *line = piece->text, *end = piece->text + piece->bytes;
    int64_t number = 1;
    for (; line < end && gy_rows_at_end(gy_rows_blanks(line)); number++)
        line = gy_rows_behind(gy_rows_blanks(line));
    if (line >= end)
        return GY_OK;
    const unsigned char *stop = memchr(line, '\n', (size_t)(end - line));
    stop -= stop > line && stop[-1] == '\r';
    if (settings->format->look(&s->file[s->at].layout, settings, line, stop, &why) != GY_OK)
        return GY_FAIL(err, why.status, "%.300s:%" PRId64 ":1: %s", s->file[s->at].name, number, why.text);
    const struct gy_rows_layout *mine = &s->file[s->at].layout, *first = &s->file[0].layout;
    if (mine->columns != first->columns)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s:%" PRId64 ":1: %" PRId32 " columns, but %.300s has %" PRId32, s->file[s->at].name, number,
                       mine->columns, s->file[0].name,
                       first->columns);
    return GY_OK;
}

/* The beginning of a file, or the next piece of a file that is read in turn. So is a file that is
 * longer than the system said. */
static int source_next_text(struct gy_rows_source *s, const struct gy_rows_settings *settings, struct gy_rows_piece *piece, struct gy_rows_text *text,
                            struct gy_error *err)
{
    GY_TRY(source_fill(s, piece, text, err));
    if (!s->first)
        return GY_OK;
    if (piece->bytes == 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: the file is empty", s->file[s->at].name);
    GY_TRY(source_skip_mark(s, settings, piece, err));
    GY_TRY(source_look(s, settings, piece, err));
    s->in_turn = s->gz || (int64_t)s->pos >= s->file[s->at].size;
    if (!s->in_turn) {
        s->pos -= s->rest_bytes;
        s->rest_bytes = 0;
    }
    return GY_OK;
}

static void source_deal(struct gy_rows_source *s, struct gy_rows_piece *piece)
{
    const size_t left = (size_t)s->file[s->at].size - s->pos;
    piece->text = NULL;
    piece->bytes = 0;
    piece->from = (int64_t)s->pos;
    piece->span = left < SOURCE_PIECE ? left : SOURCE_PIECE;
    s->pos += piece->span;
    s->ended = piece->span == left;
}

GY_INT int gy_rows_source_next(struct gy_rows_source *s, const struct gy_rows_settings *settings, struct gy_rows_piece *piece, struct gy_rows_text *text,
                               int *more, struct gy_error *err)
{
    *more = 0;
    if (s->open && s->ended) {
        s->past += s->file[s->at].size;
        s->at++;
        source_close_file(s);
    }
    if (!s->open && s->at == s->files)
        return GY_OK;
    if (!s->open)
        GY_TRY(source_open_file(s, err));
    piece->file = s->at;
    piece->first = s->first;
    piece->layout = &s->file[s->at].layout;
    if (s->first || s->in_turn)
        GY_TRY(source_next_text(s, settings, piece, text, err));
    else
        source_deal(s, piece);
    s->done = s->past + (int64_t)s->pos;
    s->first = 0;
    *more = 1;
    return GY_OK;
}

#undef SOURCE_PIECE
