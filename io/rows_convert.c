/* SPDX-License-Identifier: MIT */
/* Text to blocks in rounds. In one round, side by side: the text of the next pieces is fetched, the pieces fetched before are parsed, the blocks cut
 * before are packed, those packed before are written. Between rounds one thread cuts the parsed rows into blocks. Where a piece or a round ends
 * decides nothing about the blocks, so that the file has the same bytes with any number of threads; memory is that of a few pieces a thread, and of
 * the blocks between two rounds. */
#include "../engine/base/file.h"
#include "blocks_write.h"
#include "rows_text.h"

#define CONVERT_PIECES 4                        /* of a round, a thread */
#define CONVERT_ROWS 65536                      /* of a block */
#define CONVERT_ENTRIES ((int64_t)1 << 22)      /* of a block of no stated size */
#define CONVERT_ENTRIES_MOST ((int64_t)1 << 27) /* of any block of more than a row */
#define CONVERT_BITS 20                         /* of a hash */
#define CONVERT_BITS_MOST 30

struct convert_block {
    int first_view, views;
    struct gy_blocks_packed *packed;
    int status;
    struct gy_error error;
};
struct convert_blocks { /* of a round */
    struct convert_block *block;
    size_t room;
    int count;
};
struct convert_list {
    struct gy_rows_piece *head, *tail;
};

struct convert_job {
    const struct gy_convert_config *config;
    struct gy_alloc alloc;
    struct gy_pool *pool;
    struct gy_rows_settings settings;
    struct gy_rows_source *source;
    struct gy_blocks_writer *writer;
    struct gy_rows_piece **fetched, **parsed; /* [window] of this round */
    int window, fetched_count, parsed_count, more;
    struct convert_list ready, retired, idle; /* rows that wait for a block; whose blocks are being packed; to be used again */
    struct convert_blocks packs, writes;
    struct gy_rows *view; /* of packs */
    size_t view_room;
    int views;
    int64_t block_rows, block_entries; /* limits */
    int64_t rows, entries;             /* of the block that is being gathered */
    int fetch_status, write_status;
    struct gy_error fetch_error, write_error;
    int file;                          /* of the last piece; -1: there was none */
    int64_t line, file_rows;           /* of it */
    int64_t mend[GY_MEND_COUNT], mend_line[GY_MEND_COUNT];
    int mend_file[GY_MEND_COUNT];
    struct gy_convert_report report;
};

/* ---- lists ---- */

static void convert_push(struct convert_list *list, struct gy_rows_piece *piece)
{
    piece->next = NULL;
    if (list->tail != NULL)
        list->tail->next = piece;
    else
        list->head = piece;
    list->tail = piece;
}

static struct gy_rows_piece *convert_pop(struct convert_list *list)
{
    struct gy_rows_piece *piece = list->head;
    if (piece != NULL)
        list->head = piece->next;
    if (list->head == NULL)
        list->tail = NULL;
    return piece;
}

/* Gives the arrays of a piece back; not its own text. */
static void convert_drop_rows(const struct convert_job *job, struct gy_rows_piece *p)
{
    const size_t entries = p->room / (size_t)job->settings.format->entry_bytes + GY_ROWS_PAD, rows = p->room / 2 + 2;
    if (p->room == 0)
        return;
    gy_alloc_free(&job->alloc, p->id, entries * sizeof *p->id);
    gy_alloc_free(&job->alloc, p->value, entries * sizeof *p->value);
    gy_alloc_free(&job->alloc, p->start, rows * sizeof *p->start);
    gy_alloc_free(&job->alloc, p->label, rows * sizeof *p->label);
    p->id = p->start = NULL;
    p->value = p->label = NULL;
    p->room = 0;
}

/* Arrays for all rows that so much text can have: an entry takes format->entry_bytes at least, a row two. They are not cleared: what is not used costs no
 * memory. */
static int convert_take_rows(const struct convert_job *job, struct gy_rows_piece *p, struct gy_error *err)
{
    const size_t room = p->bytes > 0 ? p->bytes : 1, entries = room / (size_t)job->settings.format->entry_bytes + GY_ROWS_PAD, rows = room / 2 + 2;
    if (room <= p->room)
        return GY_OK;
    if (entries > UINT32_MAX || rows > INT32_MAX)
        return GY_FAIL(err, GY_E_FORMAT, "a line of %zu bytes is too long", p->bytes);
    convert_drop_rows(job, p);
    p->id = gy_alloc_grow(&job->alloc, NULL, 0, entries, sizeof *p->id);
    p->value = job->settings.format->ones ? NULL : gy_alloc_grow(&job->alloc, NULL, 0, entries, sizeof *p->value);
    p->start = gy_alloc_grow(&job->alloc, NULL, 0, rows, sizeof *p->start);
    p->label = gy_alloc_grow(&job->alloc, NULL, 0, rows, sizeof *p->label);
    p->room = room;
    if (p->id == NULL || (p->value == NULL && !job->settings.format->ones) || p->start == NULL || p->label == NULL)
        return GY_NOMEM(err, "rows of a piece of text", (2 * entries + 2 * rows) * sizeof *p->id);
    return GY_OK;
}

static void convert_drop_piece(const struct convert_job *job, struct gy_rows_piece *p)
{
    convert_drop_rows(job, p);
    gy_alloc_free(&job->alloc, p->own, p->own_room);
    gy_alloc_free(&job->alloc, p, sizeof *p);
}

/* ---- the parts of a round ---- */

static struct gy_rows_piece *convert_new_piece(struct convert_job *job)
{
    struct gy_rows_piece *p = convert_pop(&job->idle);
    if (p == NULL)
        p = gy_alloc_take(&job->alloc, 1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->settings = &job->settings;
    p->rows = p->used = 0;
    p->lines = 0;
    p->status = GY_OK;
    memset(p->mend, 0, sizeof p->mend);
    return p;
}

/* Only this part takes from the idle pieces while a round runs. */
static int convert_fetch(struct convert_job *job, struct gy_error *err)
{
    while (job->more && job->fetched_count < job->window) {
        struct gy_rows_piece *p = convert_new_piece(job);
        if (p == NULL)
            return GY_NOMEM(err, "a piece of text", sizeof *p);
        const int status = gy_rows_source_next(job->source, &job->settings, p, &job->more, err);
        if (status != GY_OK)
            job->more = 0;
        if (!job->more)
            convert_push(&job->idle, p);
        GY_TRY(status);
        if (job->more)
            job->fetched[job->fetched_count++] = p;
    }
    return GY_OK;
}

static int convert_write(struct convert_job *job, struct gy_error *err)
{
    for (int i = 0; i < job->writes.count; i++)
        GY_TRY(gy_blocks_put(job->writer, job->writes.block[i].packed, err));
    return GY_OK;
}

static void convert_pack(struct convert_job *job, struct convert_block *block)
{
    block->status = gy_blocks_pack(&block->packed, job->view + block->first_view, block->views, &job->alloc, &block->error);
}

static void convert_parse(struct convert_job *job, struct gy_rows_piece *p)
{
    p->status = convert_take_rows(job, p, &p->error);
    p->column = 1;
    if (p->status != GY_OK)
        return;
    p->start[0] = 0;
    p->status = job->settings.format->parse(p);
}

static void convert_tile(void *user, int64_t tile, int thread)
{
    struct convert_job *job = user;
    (void)thread;
    if (tile == 0) {
        if (job->fetch_status == GY_OK)
            job->fetch_status = convert_fetch(job, &job->fetch_error);
    } else if (tile == 1)
        job->write_status = convert_write(job, &job->write_error);
    else if (tile - 2 < job->packs.count)
        convert_pack(job, &job->packs.block[tile - 2]);
    else
        convert_parse(job, job->parsed[tile - 2 - job->packs.count]);
}

/* ---- between rounds ---- */

static int convert_check_file(const struct convert_job *job, struct gy_error *err)
{
    if (job->file >= 0 && job->file_rows == 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: no rows in %" PRId64 " lines", gy_rows_source_name(job->source, job->file), job->line);
    return GY_OK;
}

static void convert_add_mends(struct convert_job *job, const struct gy_rows_piece *p)
{
    for (int k = 0; k < GY_MEND_COUNT; k++) {
        if (p->mend[k] > 0 && job->mend[k] == 0) {
            job->mend_file[k] = p->file;
            job->mend_line[k] = job->line + p->mend_line[k] + 1;
        }
        job->mend[k] += p->mend[k];
    }
}

/* Takes a parsed piece over: its failure, or its rows and what was mended. */
static int convert_accept(struct convert_job *job, struct gy_rows_piece *p, struct gy_error *err)
{
    if (p->first) {
        GY_TRY(convert_check_file(job, err));
        job->file = p->file;
        job->line = job->file_rows = 0;
    }
    if (p->status != GY_OK)
        return GY_FAIL(err, p->status, "%.200s:%" PRId64 ":%" PRId64 ": %s", gy_rows_source_name(job->source, p->file), job->line + p->lines + 1,
                       p->column, p->error.text);
    convert_add_mends(job, p);
    job->line += p->lines;
    job->file_rows += p->rows;
    job->report.rows += p->rows;
    job->report.entries += p->start[p->rows];
    job->report.bytes += (int64_t)p->bytes - p->added;
    convert_push(p->rows > 0 ? &job->ready : &job->idle, p);
    return GY_OK;
}

static int convert_add_view(struct convert_job *job, struct gy_rows_piece *p, int32_t end, struct gy_error *err)
{
    if ((size_t)job->views == job->view_room) {
        const size_t room = job->view_room ? 2 * job->view_room : 64;
        struct gy_rows *grown = gy_alloc_grow(&job->alloc, job->view, job->view_room, room, sizeof *grown);
        if (grown == NULL)
            return GY_NOMEM(err, "views of rows", room * sizeof *grown);
        job->view = grown;
        job->view_room = room;
    }
    job->view[job->views++] = (struct gy_rows){ 0, end - p->used, 0, p->start + p->used, p->id, p->value, 1, p->label + p->used, NULL, NULL };
    p->used = end;
    return GY_OK;
}

/* The block takes all waiting rows up to row `end` of the piece `last`, of which it may have none. */
static int convert_close_block(struct convert_job *job, struct gy_rows_piece *last, int32_t end, struct gy_error *err)
{
    struct convert_blocks *b = &job->packs;
    if ((size_t)b->count == b->room) {
        const size_t room = b->room ? 2 * b->room : 16;
        struct convert_block *grown = gy_alloc_grow(&job->alloc, b->block, b->room, room, sizeof *grown);
        if (grown == NULL)
            return GY_NOMEM(err, "a list of blocks", room * sizeof *grown);
        memset(grown + b->room, 0, (room - b->room) * sizeof *grown);
        b->block = grown;
        b->room = room;
    }
    struct convert_block *block = &b->block[b->count++];
    block->first_view = job->views;
    for (struct gy_rows_piece *p = job->ready.head;; p = job->ready.head) {
        const int32_t stop = p == last ? end : p->rows;
        if (stop > p->used)
            GY_TRY(convert_add_view(job, p, stop, err));
        if (p->used == p->rows)
            convert_push(&job->retired, convert_pop(&job->ready));
        if (p == last)
            break;
    }
    block->views = job->views - block->first_view;
    job->rows = job->entries = 0;
    return GY_OK;
}

/* Gathers the rows of a piece that stands at the end of those that wait. */
static int convert_cut_piece(struct convert_job *job, struct gy_rows_piece *p, struct gy_error *err)
{
    for (int32_t i = 0; i < p->rows; i++) {
        const int64_t length = p->start[i + 1] - p->start[i];
        if (job->rows > 0 && (job->rows == job->block_rows || job->entries + length > job->block_entries))
            GY_TRY(convert_close_block(job, p, i, err));
        job->rows++;
        job->entries += length;
    }
    return GY_OK;
}

/* Everything parsed is accepted in the order of the text, and cut into blocks. Pieces that were not come to stay in `parsed`. */
static int convert_cut(struct convert_job *job, struct gy_error *err)
{
    int status = GY_OK, done = 0;
    while (status == GY_OK && done < job->parsed_count) {
        struct gy_rows_piece *p = job->parsed[done];
        status = convert_accept(job, p, err);
        if (status != GY_OK)
            break;
        done++;
        status = convert_cut_piece(job, p, err);
    }
    job->parsed_count -= done;
    memmove(job->parsed, job->parsed + done, (size_t)job->parsed_count * sizeof(struct gy_rows_piece *));
    return status;
}

static int convert_check_round(const struct convert_job *job, struct gy_error *err)
{
    if (job->write_status != GY_OK)
        return GY_FAIL(err, job->write_status, "%s", job->write_error.text);
    for (int i = 0; i < job->packs.count; i++)
        if (job->packs.block[i].status != GY_OK)
            return GY_FAIL(err, job->packs.block[i].status, "%s", job->packs.block[i].error.text);
    return GY_OK;
}

/* What was packed is written next; the rows that it was made of are free. */
static void convert_turn(struct convert_job *job)
{
    const struct convert_blocks written = job->writes;
    for (struct gy_rows_piece *p = convert_pop(&job->retired); p != NULL; p = convert_pop(&job->retired))
        convert_push(&job->idle, p);
    job->writes = job->packs;
    job->packs = written;
    job->packs.count = 0;
    job->views = 0;
}

static int convert_progress(const struct convert_job *job, struct gy_error *err)
{
    const struct gy_convert_config *c = job->config;
    const int64_t done = gy_rows_source_done(job->source), total = gy_rows_source_total(job->source);
    if (c->progress != NULL && c->progress(c->user, done, total) != 0)
        return GY_FAIL(err, GY_E_STOPPED, "the conversion was stopped at byte %" PRId64 " of %" PRId64, done, total);
    return GY_OK;
}

/* What was fetched is parsed next. */
static void convert_pass_on(struct convert_job *job)
{
    struct gy_rows_piece **const fetched = job->fetched;
    job->fetched = job->parsed;
    job->parsed = fetched;
    job->parsed_count = job->fetched_count;
    job->fetched_count = 0;
}

/* A failure to fetch waits until the text before it is parsed: the first failure in the text is the one that is told. */
static int convert_round(struct convert_job *job, struct gy_error *err)
{
    gy_pool_run(job->pool, convert_tile, job, 2 + job->packs.count + job->parsed_count);
    GY_TRY(convert_check_round(job, err));
    convert_turn(job);
    GY_TRY(convert_cut(job, err));
    convert_pass_on(job);
    return convert_progress(job, err);
}

static int convert_run(struct convert_job *job, struct gy_error *err)
{
    while (job->more || job->parsed_count > 0)
        GY_TRY(convert_round(job, err));
    if (job->fetch_status != GY_OK)
        return GY_FAIL(err, job->fetch_status, "%s", job->fetch_error.text);
    GY_TRY(convert_check_file(job, err));
    if (job->rows > 0)
        GY_TRY(convert_close_block(job, job->ready.tail, job->ready.tail->rows, err));
    while (job->packs.count > 0 || job->writes.count > 0)
        GY_TRY(convert_round(job, err));
    return GY_OK;
}

/* ---- settings ---- */

static const struct gy_rows_format *convert_format(int index)
{
    const struct gy_rows_format *(*const formats[])(void) = { gy_rows_svmlight, gy_rows_libffm, gy_rows_criteo, gy_rows_csv };
    return index >= 0 && (size_t)index < GY_COUNT(formats) ? formats[index]() : NULL;
}

GY_INT const char *gy_convert_format(int index, const char **about)
{
    const struct gy_rows_format *f = convert_format(index);
    if (f != NULL && about != NULL)
        *about = f->about;
    return f != NULL ? f->name : NULL;
}

/* The first format that one of the first lines looks like. A label alone could be of several. */
static int convert_guess(struct convert_job *job, struct gy_error *err)
{
    const unsigned char *line, *end;
    size_t bytes = 0;
    GY_TRY(gy_rows_source_peek(job->source, &line, &bytes, err));
    for (end = line + bytes; line < end; line = (const unsigned char *)memchr(line, '\n', (size_t)(end - line)) + 1) {
        const unsigned char *const stop = memchr(line, '\n', (size_t)(end - line));
        for (int i = 0; convert_format(i) != NULL; i++)
            if (convert_format(i)->fits(line, stop)) {
                job->settings.format = convert_format(i);
                return GY_OK;
            }
    }
    return GY_FAIL(err, GY_E_FORMAT, "%.300s: none of its first lines looks like svmlight, libffm, criteo or csv; name the format",
                   gy_rows_source_name(job->source, 0));
}

static int convert_choose_format(struct convert_job *job, struct gy_error *err)
{
    const char *name = job->config->format;
    if (name == NULL)
        return convert_guess(job, err);
    for (int i = 0; convert_format(i) != NULL; i++)
        if (strcmp(convert_format(i)->name, name) == 0)
            job->settings.format = convert_format(i);
    return job->settings.format != NULL ? GY_OK : GY_FAIL(err, GY_E_ARG, "format '%.60s'; there are svmlight, libffm, criteo and csv", name);
}

static int convert_check_config(const struct gy_convert_config *c, struct gy_error *err)
{
    if (c->hash_bits < 0 || c->hash_bits > CONVERT_BITS_MOST)
        return GY_FAIL(err, GY_E_ARG, "ids of %d hashed bits; at most %d", c->hash_bits, CONVERT_BITS_MOST);
    if (c->block_rows < 0 || c->block_rows > 1 << 20)
        return GY_FAIL(err, GY_E_ARG, "blocks of %" PRId32 " rows; at most %d", c->block_rows, 1 << 20);
    if (c->label_column < -1)
        return GY_FAIL(err, GY_E_ARG, "label column %d; columns count from 0, -1 is the last", c->label_column);
    return GY_OK;
}

static int convert_settle(struct convert_job *job, struct gy_error *err)
{
    const struct gy_convert_config *c = job->config;
    struct gy_rows_settings *s = &job->settings;
    GY_TRY(convert_choose_format(job, err));
    const int criteo = s->format == gy_rows_criteo();
    s->lenient = c->lenient;
    s->zero_based = c->zero_based;
    s->hash_bits = criteo && c->hash_bits == 0 ? CONVERT_BITS : c->hash_bits;
    s->hash_seed = c->hash_seed;
    s->features = c->features;
    s->label_column = c->label_column;
    s->header = c->header;
    if (s->hash_bits != 0 && s->format == gy_rows_csv())
        return GY_FAIL(err, GY_E_ARG, "the columns of a CSV cannot be hashed");
    if (s->hash_bits != 0 && s->features != 0 && s->features != 1u << s->hash_bits)
        return GY_FAIL(err, GY_E_ARG, "%" PRIu32 " features, but ids are hashed to %d bits", s->features, s->hash_bits);
    s->features = s->hash_bits != 0 ? 1u << s->hash_bits : s->features;
    if (criteo) {
        s->criteo_word = gy_alloc_take(&job->alloc, GY_ROWS_CRITEO_TABLE, sizeof *s->criteo_word);
        if (s->criteo_word == NULL)
            return GY_NOMEM(err, "a table of integers", GY_ROWS_CRITEO_TABLE * sizeof *s->criteo_word);
        gy_rows_criteo_words(s->criteo_word);
    }
    return GY_OK;
}

/* The columns of a CSV are its features, also where the last are zero in every row. */
static int convert_settle_columns(struct convert_job *job, struct gy_error *err)
{
    struct gy_rows_settings *s = &job->settings;
    if (s->format != gy_rows_csv() || job->fetched_count == 0)
        return GY_OK;
    const uint32_t columns = (uint32_t)job->fetched[0]->layout->columns - 1;
    if (s->features != 0 && s->features != columns)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: %" PRIu32 " columns beside the label, but %" PRIu32 " features were asked for",
                       gy_rows_source_name(job->source, 0), columns,
                       s->features);
    s->features = columns;
    return GY_OK;
}

/* ---- open and close ---- */

static int convert_open(struct convert_job *job, const struct gy_rows_bytes *bytes, int memory, struct gy_error *err)
{
    const struct gy_convert_config *c = job->config;
    GY_TRY(convert_check_config(c, err));
    GY_TRY(gy_rows_source_open(&job->source, c, bytes, &job->alloc, err));
    GY_TRY(convert_settle(job, err));
    job->pool = c->pool;
    if (job->pool == NULL)
        GY_TRY(gy_pool_open(&job->pool, &job->alloc, 1, err));
    job->window = CONVERT_PIECES * gy_pool_threads(job->pool);
    job->fetched = gy_alloc_take(&job->alloc, (size_t)job->window, sizeof *job->fetched);
    job->parsed = gy_alloc_take(&job->alloc, (size_t)job->window, sizeof *job->parsed);
    if (job->fetched == NULL || job->parsed == NULL)
        return GY_NOMEM(err, "a list of pieces", (size_t)job->window * sizeof *job->fetched);
    job->block_rows = c->block_rows > 0 ? c->block_rows : CONVERT_ROWS;
    job->block_entries = c->block_rows > 0 ? CONVERT_ENTRIES_MOST : CONVERT_ENTRIES;
    job->more = 1;
    job->fetch_status = convert_fetch(job, &job->fetch_error);
    GY_TRY(convert_settle_columns(job, err));
    convert_pass_on(job);
    const struct gy_blocks_write to = { memory ? NULL : c->to, c->append && !memory, job->settings.features, job->settings.hash_bits,
                                        job->settings.hash_bits != 0 ? c->hash_seed : 0, &job->alloc };
    if (!memory && c->to == NULL)
        return GY_FAIL(err, GY_E_ARG, "no path for the block file");
    return gy_blocks_create(&job->writer, &to, err);
}

static void convert_drop_list(const struct convert_job *job, struct convert_list *list)
{
    for (struct gy_rows_piece *p = convert_pop(list); p != NULL; p = convert_pop(list))
        convert_drop_piece(job, p);
}

static void convert_drop_blocks(const struct convert_job *job, const struct convert_blocks *blocks)
{
    for (size_t i = 0; i < blocks->room; i++)
        gy_blocks_drop(blocks->block[i].packed, &job->alloc);
    gy_alloc_free(&job->alloc, blocks->block, blocks->room * sizeof *blocks->block);
}

static void convert_close(struct convert_job *job)
{
    const struct gy_alloc alloc = job->alloc;
    for (int i = 0; i < job->fetched_count; i++)
        convert_push(&job->idle, job->fetched[i]);
    for (int i = 0; i < job->parsed_count; i++)
        convert_push(&job->idle, job->parsed[i]);
    convert_drop_list(job, &job->ready);
    convert_drop_list(job, &job->retired);
    convert_drop_list(job, &job->idle);
    convert_drop_blocks(job, &job->packs);
    convert_drop_blocks(job, &job->writes);
    gy_alloc_free(&alloc, job->view, job->view_room * sizeof *job->view);
    gy_alloc_free(&alloc, job->fetched, (size_t)job->window * sizeof *job->fetched);
    gy_alloc_free(&alloc, job->parsed, (size_t)job->window * sizeof *job->parsed);
    gy_alloc_free(&alloc, job->settings.criteo_word, GY_ROWS_CRITEO_TABLE * sizeof *job->settings.criteo_word);
    gy_blocks_abandon(job->writer);
    if (job->config->pool == NULL)
        gy_pool_close(job->pool);
    gy_rows_source_close(job->source);
    gy_alloc_free(&alloc, job, sizeof *job);
}

static void convert_report(struct convert_job *job, struct gy_convert_report *report)
{
    for (int k = 0; k < GY_MEND_COUNT; k++)
        if (job->mend[k] > 0)
            job->report.mend[job->report.mends++] = (struct gy_convert_mend){ gy_rows_mend_text((enum gy_rows_mend)k), job->mend[k], job->mend_line[k],
                job->mend_file[k] };
    if (report != NULL)
        *report = job->report;
}

static int convert_all(struct gy_blocks **memory, const struct gy_convert_config *config, const struct gy_rows_bytes *bytes, const struct gy_alloc *alloc,
                       struct gy_convert_report *report, struct gy_error *err)
{
    struct convert_job *job = gy_alloc_take(alloc, 1, sizeof *job);
    if (job == NULL)
        return GY_NOMEM(err, "a conversion", sizeof *job);
    job->config = config;
    job->alloc = *alloc;
    job->file = -1;
    int status = convert_open(job, bytes, memory != NULL, err);
    if (status == GY_OK)
        status = convert_run(job, err);
    if (status == GY_OK) {
        status = gy_blocks_finish(job->writer, memory, err);
        job->writer = NULL;
    }
    if (status == GY_OK)
        convert_report(job, report);
    convert_close(job);
    return status;
}

GY_INT int gy_convert(const struct gy_convert_config *config, const struct gy_alloc *alloc, struct gy_convert_report *report, struct gy_error *err)
{
    return convert_all(NULL, config, NULL, alloc, report, err);
}

GY_INT int gy_convert_to_memory(struct gy_blocks **out, const struct gy_convert_config *config, const struct gy_alloc *alloc,
                                struct gy_convert_report *report,
                                struct gy_error *err)
{
    return convert_all(out, config, NULL, alloc, report, err);
}

GY_INT int gy_convert_bytes(struct gy_blocks **out, const struct gy_convert_config *config, const struct gy_rows_bytes *bytes, const struct gy_alloc *alloc,
                            struct gy_convert_report *report, struct gy_error *err)
{
    return convert_all(out, config, bytes, alloc, report, err);
}

#undef CONVERT_PIECES
#undef CONVERT_ROWS
#undef CONVERT_ENTRIES
#undef CONVERT_ENTRIES_MOST
#undef CONVERT_BITS
#undef CONVERT_BITS_MOST
