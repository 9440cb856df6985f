/* SPDX-License-Identifier: MIT */
/* tuning_file.c: reads and writes the file of measured block sizes. Its lines: "gyre-tune 1" first;
 * "on MODEL | SET" and "from SOURCE" hold for the rows behind them; # begins a comment. Rows:
 *
 *     conv f32 gemm+stats 16x56x56x64 56x56x256 1x1 stride 1x1 pad 0x0 dil 1x1 groups 1
 *         strip=168 gain=1.04                            (one line; on a GPU a kernel is chosen)
 *     conv bf16 mma16-64x64 ... groups 1 kernel=0123456789ab gain=1.04
 *
 * Whatever the bytes, reading ends in a table of sizes inside their ranges or in a sentence. */
#include "engine/plan/tuning_file.h"
#include "engine/base/file.h"
#include "engine/base/knob.h"
#include "kernels/op_table.h"
#ifndef GY_NO_TUNING

#define TUNED_BYTES ((size_t)1 << 20) /* largest file */
#define TUNED_ROWS 8192
#define TUNED_WORDS 32 /* most words of a row */

static const int tuned_codes[] = { GY_OP_CONV, GY_OP_CONV_DGRAD, GY_OP_CONV_WGRAD };
static const char *const tuned_types[] = { "f32", "bf16", "f16" }; /* ORDER: enum gy_dtype */

GY_INT int gy_tuned_path(char *path, size_t room, const char *wanted, int use_env, int *named, struct gy_error *err)
{
    const char *const said = wanted ? wanted : use_env ? gy_knob_get("GYRE_TUNE") : NULL;
    path[0] = 0;
    *named = said != NULL;
    if (said && strcmp(said, "off") == 0)
        return GY_OK;
    if (said)
        return gy_text_copy(path, room, said) == 0 ? GY_OK : GY_FAIL(err, GY_E_ARG, "path '%.80s' is longer than %zu bytes", said, room - 1);
    if (use_env)
        gy_file_cache(path, room, "tune.txt");
    return GY_OK;
}

/* ---- reading ---- */

struct tuned_reader {
    struct gy_tuned *tuned;
    const char *path;
    int line, begun;
    const char *machine, *set, *source;
    struct gy_error *err;
};

static int tuned_wrong(struct tuned_reader *r, const char *what, const char *found)
{
    return GY_FAIL(r->err, GY_E_FORMAT, "%.300s:%d: %.100s%s%.60s%s", r->path, r->line, what, found ? ", not '" : "",
                   found ? found : "", found ? "'" : "");
}

/* "16x56x56x64" into count numbers of at least lo. */
static int tuned_numbers(const char *text, int count, int64_t lo, int32_t *out)
{
    char one[16];
    for (int i = 0; i < count; i++, text++) {
        const size_t bytes = strcspn(text, "x");
        int64_t value;
        if (bytes >= sizeof one || (text[bytes] == 'x') != (i + 1 < count))
            return -1;
        memcpy(one, text, bytes);
        one[bytes] = 0;
        if (gy_text_int(one, lo, INT32_MAX, &value) != 0)
            return -1;
        out[i] = (int32_t)value;
        text += bytes;
    }
    return 0;
}

static int tuned_index(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

/* Words 3 .. 13 of a row. */
static int tuned_geometry(struct tuned_reader *r, char **w, struct gy_geom *g)
{
    static const char *const marks[] = { "stride", "pad", "dil" };
    int32_t in[4], out[3], filter[2], pair[3][2], groups;
    if (tuned_numbers(w[3], 4, 1, in) != 0)
        return tuned_wrong(r, "the input's shape is four numbers such as 16x56x56x64", w[3]);
    if (tuned_numbers(w[4], 3, 1, out) != 0)
        return tuned_wrong(r, "the output's shape is three numbers such as 56x56x64", w[4]);
    if (tuned_numbers(w[5], 2, 1, filter) != 0)
        return tuned_wrong(r, "the filter is two numbers such as 3x3", w[5]);
    for (int i = 0; i < 3; i++)
        if (strcmp(w[6 + 2 * i], marks[i]) != 0 || tuned_numbers(w[7 + 2 * i], 2, i == 1 ? 0 : 1, pair[i]) != 0)
            return tuned_wrong(r, "after the filter come stride, pad and dil, such as 'stride 1x1 pad 0x0 dil 1x1'", w[6 + 2 * i]);
    if (strcmp(w[12], "groups") != 0 || tuned_numbers(w[13], 1, 1, &groups) != 0)
        return tuned_wrong(r, "after dil comes groups and a number", w[12]);
    *g = (struct gy_geom){ .n = in[0], .h = in[1], .w = in[2], .c = in[3], .p = out[0], .q = out[1], .k = out[2], .r = filter[0],
                           .s = filter[1], .stride_h = pair[0][0], .stride_w = pair[0][1], .pad_h = pair[1][0],
                           .pad_w = pair[1][1], .dil_h = pair[2][0], .dil_w = pair[2][1], .groups = groups };
    return GY_OK;
}

/* The hash of a kernel's text and macros, 12 digits, or "any". */
static int tuned_kernel(struct tuned_reader *r, const char *word, struct gy_tuned_row *row)
{
    const size_t bytes = strlen(word);
    if (strcmp(word, "any") != 0 && (bytes != sizeof row->kernel - 1 || strspn(word, "0123456789abcdef") != bytes))
        return tuned_wrong(r, "kernel is a hash of 12 digits, or any", word);
    memcpy(row->kernel, word, bytes + 1);
    return GY_OK;
}

static int tuned_size(struct tuned_reader *r, const char *word, struct gy_tuned_row *row)
{
    const char *const equals = strchr(word, '=');
    const size_t bytes = equals ? (size_t)(equals - word) : 0;
    const struct gy_block_info *info;
    int64_t value;
    if (!equals)
        return tuned_wrong(r, "a size is written name=number", word);
    if (bytes == 6 && memcmp(word, "kernel", 6) == 0)
        return tuned_kernel(r, equals + 1, row);
    if (bytes == 4 && memcmp(word, "gain", 4) == 0)
        return gy_text_real(equals + 1, 0, 1e6, &row->gain) == 0 ? GY_OK : tuned_wrong(r, "gain is a number", word);
    for (int place = 0; place < GY_OP_BLOCKS && (info = r->tuned->backend->lab->block(place)); place++) {
        if (strlen(info->name) != bytes || memcmp(info->name, word, bytes) != 0)
            continue;
        if (gy_text_int(equals + 1, info->lo, info->hi, &value) != 0)
            return GY_FAIL(r->err, GY_E_FORMAT, "%.300s:%d: %s is '%.40s'; it must be in %d .. %d", r->path, r->line, info->name,
                           equals + 1, (int)info->lo, (int)info->hi);
        row->block[place] = (int32_t)value;
        return GY_OK;
    }
    return tuned_wrong(r, "there is no size of this name", word);
}

static int tuned_read_row(struct tuned_reader *r, char *line)
{
    char *word[TUNED_WORDS];
    const char *passes[GY_COUNT(tuned_codes)];
    int count = 0;
    for (char *p = line; *p && count < TUNED_WORDS;) {
        p += strspn(p, " \t");
        if (*p)
            word[count++] = p;
        p += strcspn(p, " \t");
        if (*p)
            *p++ = 0;
    }
    for (size_t i = 0; i < GY_COUNT(tuned_codes); i++)
        passes[i] = gy_op_row(tuned_codes[i])->name;
    struct gy_tuned_row row = { .machine = r->machine, .set = r->set, .source = r->source, .gain = 1 };
    const int pass = tuned_index(word[0], passes, (int)GY_COUNT(passes));
    if (pass < 0)
        return tuned_wrong(r, "a line begins with on, from, #, or one of conv, conv-dgrad, conv-wgrad", word[0]);
    if (!row.machine || !row.source)
        return tuned_wrong(r, "a row must stand below the lines on and from", NULL);
    if (count < 15 || count == TUNED_WORDS)
        return tuned_wrong(r, "a row has a pass, a type, a kernel, a shape and sizes", NULL);
    row.code = tuned_codes[pass];
    row.dtype = tuned_index(word[1], tuned_types, (int)GY_COUNT(tuned_types));
    if (row.dtype < 0)
        return tuned_wrong(r, "the type is f32, bf16 or f16", word[1]);
    row.variant = word[2];
    char *const plus = strchr(word[2], '+');
    row.stats = plus != NULL;
    if (plus && strcmp(plus, "+stats") != 0)
        return tuned_wrong(r, "a kernel is a name, or a name and +stats", word[2]);
    if (plus)
        *plus = 0;
    GY_TRY(tuned_geometry(r, word, &row.geom));
    for (int i = 14; i < count; i++)
        GY_TRY(tuned_size(r, word[i], &row));
    return gy_tuned_put(r->tuned, &row, r->err);
}

/* "on MODEL | SET" */
static int tuned_read_on(struct tuned_reader *r, char *text)
{
    char *const bar = strstr(text, " | ");
    if (!bar || bar == text || !bar[3])
        return tuned_wrong(r, "after on come the processor's model, ' | ' and the kernel set", text);
    *bar = 0;
    r->machine = text;
    r->set = bar + 3;
    r->source = NULL;
    return GY_OK;
}

static int tuned_read_line(struct tuned_reader *r, char *line)
{
    const size_t length = strcspn(line, "\r");
    line[length] = 0;
    for (const char *p = line; *p; p++)
        if ((unsigned char)*p < 32 && *p != '\t')
            return tuned_wrong(r, "not a text file", NULL);
    line += strspn(line, " \t");
    if (line[0] == 0 || line[0] == '#')
        return GY_OK;
    if (!r->begun) {
        r->begun = strcmp(line, "gyre-tune 1") == 0;
        return r->begun ? GY_OK : tuned_wrong(r, "a file of block sizes begins with 'gyre-tune 1'", line);
    }
    if (strncmp(line, "on ", 3) == 0)
        return tuned_read_on(r, line + 3);
    if (strncmp(line, "from ", 5) == 0) {
        r->source = line + 5;
        return GY_OK;
    }
    return tuned_read_row(r, line);
}

static int tuned_read_text(struct gy_tuned *tuned, const char *path, struct gy_error *err)
{
    struct tuned_reader r = { .tuned = tuned, .path = path, .err = err };
    char *const end = tuned->text + tuned->text_bytes;
    for (char *line = tuned->text; line < end;) {
        char *const next = line + strcspn(line, "\n");
        const int last = next >= end;
        r.line++;
        if (!last && *next == 0)
            return tuned_wrong(&r, "not a text file", NULL);
        *next = 0;
        GY_TRY(tuned_read_line(&r, line));
        line = next + 1;
    }
    return r.begun ? GY_OK : tuned_wrong(&r, "a file of block sizes begins with 'gyre-tune 1'", NULL);
}

GY_INT int gy_tuned_is_text(const char *path) { return strncmp(path, "gyre-tune 1\n", 12) == 0; }

static int tuned_take_text(struct gy_tuned *t, const char *path, struct gy_error *err)
{
    if (!gy_tuned_is_text(path))
        return gy_file_read(&t->alloc, path, TUNED_BYTES, &t->text, &t->text_bytes, err);
    t->text_bytes = strlen(path);
    t->text = gy_alloc_take(&t->alloc, t->text_bytes + 1, 1);
    if (!t->text)
        return GY_NOMEM(err, "a table of kernels", t->text_bytes);
    memcpy(t->text, path, t->text_bytes);
    return GY_OK;
}

GY_INT int gy_tuned_read(struct gy_tuned *tuned, const char *path, const struct gy_alloc *alloc, const struct gy_backend *backend,
                         const struct gy_caps *caps, struct gy_error *err)
{
    struct gy_tuned t = { .alloc = *alloc, .backend = backend, .machine = caps->machine, .set = caps->set };
    if (!backend->lab || !caps->set || !path[0] || (!gy_tuned_is_text(path) && !gy_file_exists(path))) {
        *tuned = t;
        return GY_OK;
    }
    GY_TRY(tuned_take_text(&t, path, err));
    const int status = tuned_read_text(&t, gy_tuned_is_text(path) ? "kernels.tune" : path, err);
    if (status == GY_OK)
        *tuned = t;
    else
        gy_tuned_close(&t);
    return status;
}

GY_INT void gy_tuned_close(struct gy_tuned *tuned)
{
    if (tuned->text)
        gy_alloc_free(&tuned->alloc, tuned->text, tuned->text_bytes + 1);
    gy_alloc_free(&tuned->alloc, tuned->rows, (size_t)tuned->room * sizeof *tuned->rows);
    *tuned = (struct gy_tuned){ .alloc = tuned->alloc };
}

/* ---- rows ---- */

static int tuned_same_shape(const struct gy_geom *a, const struct gy_geom *b)
{
    return a->n == b->n && a->h == b->h && a->w == b->w && a->c == b->c && a->p == b->p && a->q == b->q && a->k == b->k &&
           a->r == b->r && a->s == b->s && a->stride_h == b->stride_h && a->stride_w == b->stride_w && a->pad_h == b->pad_h &&
           a->pad_w == b->pad_w && a->dil_h == b->dil_h && a->dil_w == b->dil_w && a->groups == b->groups;
}

static int tuned_is_here(const struct gy_tuned *t, const struct gy_tuned_row *row)
{
    return t->set && (!t->machine || strcmp(row->machine, t->machine) == 0) && strcmp(row->set, t->set) == 0;
}

static struct gy_tuned_row *tuned_find(const struct gy_tuned *tuned, const struct gy_op *op)
{
    for (int i = 0; i < tuned->count; i++) {
        struct gy_tuned_row *row = &tuned->rows[i];
        if (row->code == op->code && row->dtype == op->dtype && row->stats == (op->tensor[GY_STATS] >= 0) &&
            tuned_same_shape(&row->geom, &op->geom) && tuned_is_here(tuned, row))
            return row;
    }
    return NULL;
}

GY_INT const struct gy_tuned_row *gy_tuned_find(const struct gy_tuned *tuned, const struct gy_op *op) { return tuned_find(tuned, op); }

/* The place of a row's key, or count. */
static int tuned_place(const struct gy_tuned *t, const struct gy_tuned_row *row)
{
    int i = 0;
    while (i < t->count && !(t->rows[i].code == row->code && t->rows[i].dtype == row->dtype && t->rows[i].stats == row->stats &&
                             tuned_same_shape(&t->rows[i].geom, &row->geom) && strcmp(t->rows[i].machine, row->machine) == 0 &&
                             strcmp(t->rows[i].set, row->set) == 0))
        i++;
    return i;
}

static int tuned_grow(struct gy_tuned *t, struct gy_error *err)
{
    const int room = t->room ? 2 * t->room : 64;
    if (t->count >= TUNED_ROWS)
        return GY_FAIL(err, GY_E_FORMAT, "more than %d rows of block sizes; delete some", TUNED_ROWS);
    if (t->count < t->room)
        return GY_OK;
    struct gy_tuned_row *const rows = gy_alloc_grow(&t->alloc, t->rows, (size_t)t->room, (size_t)room, sizeof *rows);
    if (!rows)
        return GY_NOMEM(err, "a table of block sizes", (size_t)room * sizeof *rows);
    t->rows = rows;
    t->room = room;
    return GY_OK;
}

GY_INT int gy_tuned_put(struct gy_tuned *t, const struct gy_tuned_row *row, struct gy_error *err)
{
    static const int32_t nothing[GY_OP_BLOCKS];
    const int place = tuned_place(t, row), empty = !row->kernel[0] && memcmp(row->block, nothing, sizeof nothing) == 0;
    if (place == t->count && empty)
        return GY_OK;
    if (place == t->count) {
        GY_TRY(tuned_grow(t, err));
        t->others += !tuned_is_here(t, row);
        t->count++;
    }
    t->rows[place] = *row;
    if (empty) {
        t->others -= !tuned_is_here(t, row);
        memmove(&t->rows[place], &t->rows[place + 1], (size_t)(--t->count - place) * sizeof *t->rows);
    }
    return GY_OK;
}

/* The row's kernel, where it fits and is what was measured; else 0 and op->variant is NULL. */
static int tuned_choose(struct gy_tuned *tuned, const struct gy_tuned_row *row,
                        const struct gy_backend *backend, void *self, struct gy_op *op)
{
    char hash[65] = "";
    op->variant = row->variant;
    const int there = backend->lab->kernel_hash(self, op, hash);
    if (there && (strcmp(row->kernel, "any") == 0 || strncmp(hash, row->kernel, sizeof row->kernel - 1) == 0))
        return 1;
    op->variant = NULL;
    tuned->stale++;
    return 0;
}

GY_INT int gy_tuned_prepare(struct gy_tuned *tuned, const struct gy_backend *backend, void *self, struct gy_op *op,
                            struct gy_arena *arena, struct gy_error *err)
{
    struct gy_tuned_row *const row = tuned ? tuned_find(tuned, op) : NULL;
    const int stale = row && row->kernel[0] && !tuned_choose(tuned, row, backend, self, op);
    if (row && !row->kernel[0])
        memcpy(op->block, row->block, sizeof op->block);
    GY_TRY(backend->prepare(self, op, arena, err));
    if (!row)
        return GY_OK;
    if (!stale && op->variant && strcmp(op->variant, row->variant) == 0) {
        tuned->used++;
        row->used = 1;
        return GY_OK;
    }
    if (row->kernel[0])
        return GY_OK;
    memset(op->block, 0, sizeof op->block);
    return backend->prepare(self, op, arena, err);
}

/* ---- writing ---- */

GY_INT void gy_tuned_sizes(const struct gy_backend *backend, const int32_t block[GY_OP_BLOCKS], struct gy_sink *sink)
{
    const struct gy_block_info *info;
    for (int place = 0; place < GY_OP_BLOCKS && (info = backend->lab->block(place)); place++)
        if (block[place])
            gy_sink_printf(sink, "%s=%d ", info->name, (int)block[place]);
}

static void tuned_print_row(const struct gy_tuned *t, const struct gy_tuned_row *row, struct gy_sink *sink)
{
    const struct gy_geom *g = &row->geom;
    gy_sink_printf(sink, "%s %s %s%s %" PRId64 "x%dx%dx%d %dx%dx%d %dx%d stride %dx%d pad %dx%d dil %dx%d groups %d ",
                   gy_op_row(row->code)->name, tuned_types[row->dtype], row->variant, row->stats ? "+stats" : "", g->n, g->h, g->w,
                   g->c, g->p, g->q, g->k, g->r, g->s, g->stride_h, g->stride_w, g->pad_h, g->pad_w, g->dil_h, g->dil_w, g->groups);
    gy_tuned_sizes(t->backend, row->block, sink);
    if (row->kernel[0])
        gy_sink_printf(sink, "kernel=%s ", row->kernel);
    gy_sink_printf(sink, "gain=%.3f\n", row->gain);
}

static void tuned_print_rows(const struct gy_tuned *t, int used, struct gy_sink *sink)
{
    const struct gy_tuned_row *last = NULL;
    for (int i = 0; i < t->count; i++) {
        const struct gy_tuned_row *const row = &t->rows[i];
        if (used && !row->used)
            continue;
        const int same = last && strcmp(last->machine, row->machine) == 0 && strcmp(last->set, row->set) == 0;
        if (!same)
            gy_sink_printf(sink, "\non %s | %s\n", row->machine, row->set);
        if (!same || strcmp(last->source, row->source) != 0)
            gy_sink_printf(sink, "from %s\n", row->source);
        tuned_print_row(t, row, sink);
        last = row;
    }
}

GY_INT void gy_tuned_print_used(const struct gy_tuned *tuned, struct gy_sink *sink)
{
    gy_sink_printf(sink, "gyre-tune 1\n");
    tuned_print_rows(tuned, 1, sink);
}

static void tuned_print(const struct gy_tuned *t, struct gy_sink *sink)
{
    gy_sink_printf(sink, "gyre-tune 1\n# Block sizes of convolutions, and on a GPU their kernels, written by 'gyre tune'. Rows of other processors\n"
                         "# and kernel sets are passed over; the whole file may be deleted, or another one used with GYRE_TUNE.\n");
    tuned_print_rows(t, 0, sink);
}

GY_INT int gy_tuned_write(const struct gy_tuned *tuned, const char *path, struct gy_error *err)
{
    struct gy_buf buf;
    struct gy_outfile out;
    gy_buf_open(&buf, &tuned->alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    tuned_print(tuned, &sink);
    int status = sink.failed || buf.failed ? GY_NOMEM(err, "the text of block sizes", buf.room) : GY_OK;
    if (status == GY_OK)
        status = gy_outfile_open(&out, path, err);
    if (status == GY_OK) {
        status = gy_outfile_write(&out, buf.text, buf.bytes, err);
        if (status == GY_OK)
            status = gy_outfile_commit(&out, err);
        gy_outfile_abandon(&out);
    }
    gy_buf_close(&buf);
    return status;
}

#endif
