/* SPDX-License-Identifier: MIT */
/* rows_convert.c: turns text into blocks in rounds. One round does four things at once. It deals
 * the next pieces of text, and reads, parses and sums up those dealt before. It packs shares of the
 * blocks cut before, and writes those packed before. Between rounds one thread cuts the parsed rows
 * into blocks. The ends of pieces and rounds decide nothing about the blocks, so the file has the
 * same bytes with any number of threads. Memory is a piece of text a thread, and the rows of the
 * blocks between two rounds. */
#include "engine/base/file.h"
#include "io/rows/blocks_write.h"
#include "io/rows/rows_text.h"

#define CONVERT_PIECES 16                       /* of a round, a thread */
/* each round has this many times the pieces of the round before, up to the window */
#define CONVERT_GROWTH 4
#define CONVERT_ROWS 65536                      /* of a block */
#define CONVERT_ENTRIES ((int64_t)1 << 22)      /* of a block of no stated size */
#define CONVERT_ENTRIES_MOST ((int64_t)1 << 27) /* of any block of more than a row */
#define CONVERT_BITS 20                         /* of a hash */
#define CONVERT_BITS_MOST 30

struct convert_block {
    int first_view, views;
    struct gy_blocks_packed *packed;
    uint64_t shares; /* of it and the blocks before */
};
struct convert_blocks { /* of a round */
    struct convert_block *block;
    size_t room;
    int count;
};
struct convert_pieces { /* of a round */
    struct gy_rows_piece **piece; /* [window] */
    struct gy_rows_text *text;    /* [window] of pieces that were read in turn */
    int count;
};
struct convert_thread {
    struct gy_rows_keep keep;
    char apart[GY_CACHE_LINE];
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
    struct convert_thread *thread;          /* [threads] */
    struct convert_pieces fetched, parsed;
    int threads, window, ahead, more;       /* ahead: how many pieces are fetched, at most window */
    /* rows that wait for a block; rows whose blocks are being packed; pieces to be used again */
    struct convert_list ready, retired, idle;
    struct convert_blocks packs, writes;
    struct gy_rows *view; /* of packs */
    size_t view_room;
    int views;
    struct gy_blocks_sum sum;          /* of the block that is cut */
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
    if (list->tail)
        list->tail->next = piece;
    else
        list->head = piece;
    list->tail = piece;
}

static struct gy_rows_piece *convert_pop(struct convert_list *list)
{
    struct gy_rows_piece *piece = list->head;
    if (piece)
        list->head = piece->next;
    if (!list->head)
        list->tail = NULL;
    return piece;
}

/* ---- the parts of a round ---- */

static struct gy_rows_piece *convert_new_piece(struct convert_job *job)
{
    struct gy_rows_piece *p = convert_pop(&job->idle);
    if (!p)
        p = gy_alloc_take(&job->alloc, 1, sizeof *p);
    if (!p)
        return NULL;
    p->settings = &job->settings;
    p->rows = p->used = 0;
    p->lines = 0;
    p->status = GY_OK;
    memset(p->mend, 0, sizeof p->mend);
    memset(&p->sum, 0, sizeof p->sum);
    return p;
}

/* Fetches the pieces of the next round. While a round runs only this part takes from the idle
 * pieces. After a failure there are no more pieces. */
static int convert_fetch(struct convert_job *job, struct gy_error *err)
{
    struct convert_pieces *const to = &job->fetched;
    while (job->more && to->count < job->ahead) {
        struct gy_rows_piece *p = convert_new_piece(job);
        int status = p ? GY_OK : GY_NOMEM(err, "a piece of text", sizeof *p);
        if (status == GY_OK)
            status = gy_rows_source_next(job->source, &job->settings, p, &to->text[to->count], &job->more, err);
        if (status != GY_OK)
            job->more = 0;
        if (!job->more && p)
            convert_push(&job->idle, p);
        GY_TRY(status);
        if (job->more)
            to->piece[to->count++] = p;
    }
    return GY_OK;
}

static int convert_write(struct convert_job *job, struct gy_error *err)
{
    for (int i = 0; i < job->writes.count; i++)
        GY_TRY(gy_blocks_put(job->writer, job->writes.block[i].packed, err));
    return GY_OK;
}

/* Rows [begin, end) of a parsed piece. */
static struct gy_rows convert_rows(const struct gy_rows_piece *p, int32_t begin, int32_t end)
{
    return (struct gy_rows){ 0, end - begin, 0, p->start + begin, p->id, p->value, p->same, p->label + begin, NULL, NULL };
}

static uint64_t convert_shares(const struct convert_blocks *blocks) { return blocks->count > 0 ? blocks->block[blocks->count - 1].shares : 0; }

static void convert_pack(const struct convert_job *job, uint64_t share)
{
    int low = 0, high = job->packs.count - 1;
    while (low < high) { /* the first block that ends behind the share */
        const int middle = (low + high) / 2;
        if (job->packs.block[middle].shares > share)
            high = middle;
        else
            low = middle + 1;
    }
    const struct convert_block *const block = &job->packs.block[low];
    gy_blocks_pack_share(block->packed, share - (block->shares - gy_blocks_shares(block->packed)), job->view + block->first_view, block->views);
}

static int convert_parse(struct convert_job *job, struct gy_rows_keep *keep, struct gy_rows_piece *p, struct gy_error *err)
{
    p->column = 1;
    p->same = 1;
    if (!p->text)
        GY_TRY(gy_rows_source_read(job->source, p, &keep->text, err));
    GY_TRY(gy_rows_keep_room(keep, p, &job->alloc, err));
    GY_TRY(job->settings.format->parse(p)); /* the sentence is p's already */
    const struct gy_rows rows = convert_rows(p, 0, p->rows);
    GY_TRY(gy_blocks_sum_add(&p->sum, &rows, err));
    return gy_rows_keep(keep, p, &job->alloc, err);
}

static void convert_tile(void *user, int64_t tile, int thread)
{
    struct convert_job *job = user;
    const int64_t shares = (int64_t)convert_shares(&job->packs);
    if (tile == 0) {
        if (job->fetch_status == GY_OK)
            job->fetch_status = convert_fetch(job, &job->fetch_error);
    } else if (tile == 1)
        job->write_status = convert_write(job, &job->write_error);
    else if (tile - 2 < shares)
        convert_pack(job, (uint64_t)tile - 2);
    else {
        struct gy_rows_piece *const p = job->parsed.piece[tile - 2 - shares];
        p->status = convert_parse(job, &job->thread[thread].keep, p, &p->error);
    }
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
    job->report.entries += (int64_t)p->sum.entries;
    job->report.bytes += (int64_t)p->bytes - p->added;
    convert_push(p->rows > 0 ? &job->ready : &job->idle, p);
    return GY_OK;
}

/* The block that is cut gets the rows up to `end` of a piece. */
static int convert_add_view(struct convert_job *job, struct gy_rows_piece *p, int32_t end, struct gy_error *err)
{
    const struct gy_rows rows = convert_rows(p, p->used, end);
    if ((size_t)job->views == job->view_room) {
        const size_t room = job->view_room ? 2 * job->view_room : 64;
        struct gy_rows *grown = gy_alloc_grow(&job->alloc, job->view, job->view_room, room, sizeof *grown);
        if (!grown)
            return GY_NOMEM(err, "views of rows", room * sizeof *grown);
        job->view = grown;
        job->view_room = room;
    }
    job->view[job->views++] = rows;
    p->used = end;
    if (rows.count < p->rows)
        return gy_blocks_sum_add(&job->sum, &rows, err);
    gy_blocks_sum_join(&job->sum, &p->sum);
    return GY_OK;
}

/* Closes a block. It takes all waiting rows up to row `end` of the piece `last`, of which it may
 * have none. */
static int convert_close_block(struct convert_job *job, struct gy_rows_piece *last, int32_t end, struct gy_error *err)
{
    struct convert_blocks *b = &job->packs;
    if ((size_t)b->count == b->room) {
        const size_t room = b->room ? 2 * b->room : 16;
        struct convert_block *grown = gy_alloc_grow(&job->alloc, b->block, b->room, room, sizeof *grown);
        if (!grown)
            return GY_NOMEM(err, "a list of blocks", room * sizeof *grown);
        memset(grown + b->room, 0, (room - b->room) * sizeof *grown);
        b->block = grown;
        b->room = room;
    }
    struct convert_block *block = &b->block[b->count];
    block->first_view = job->views;
    memset(&job->sum, 0, sizeof job->sum);
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
    GY_TRY(gy_blocks_plan(&block->packed, &job->sum, &job->alloc, err));
    block->shares = convert_shares(b) + gy_blocks_shares(block->packed);
    b->count++;
    job->rows = job->entries = 0;
    return GY_OK;
}

/* Gathers the rows of a piece that stands at the end of those that wait. */
static int convert_cut_piece(struct convert_job *job, struct gy_rows_piece *p, struct gy_error *err)
{
    const int64_t entries = (int64_t)p->sum.entries;
    if (job->rows + p->rows <= job->block_rows && job->entries + entries <= job->block_entries) {
        job->rows += p->rows;
        job->entries += entries;
        return GY_OK;
    }
    for (int32_t i = 0; i < p->rows; i++) {
        const int64_t length = p->start[i + 1] - p->start[i];
        if (job->rows > 0 && (job->rows == job->block_rows || job->entries + length > job->block_entries))
            GY_TRY(convert_close_block(job, p, i, err));
        job->rows++;
        job->entries += length;
    }
    return GY_OK;
}

/* Accepts what was parsed, in the order of the text, and cuts it into blocks. Pieces that it did
 * not reach stay in `parsed`. */
static int convert_cut(struct convert_job *job, struct gy_error *err)
{
    int status = GY_OK, done = 0;
    struct convert_pieces *const from = &job->parsed;
    while (status == GY_OK && done < from->count) {
        struct gy_rows_piece *p = from->piece[done];
        status = convert_accept(job, p, err);
        if (status != GY_OK)
            break;
        done++;
        status = convert_cut_piece(job, p, err);
    }
    from->count -= done;
    memmove(from->piece, from->piece + done, (size_t)from->count * sizeof *from->piece);
    return status;
}

/* What was packed is written next; the rows that it was made of are free. */
static void convert_turn(struct convert_job *job)
{
    const struct convert_blocks written = job->writes;
    for (struct gy_rows_piece *p = convert_pop(&job->retired); p != NULL; p = convert_pop(&job->retired)) {
        gy_rows_let_go(p);
        convert_push(&job->idle, p);
    }
    job->writes = job->packs;
    job->packs = written;
    job->packs.count = 0;
    job->views = 0;
}

static int convert_progress(const struct convert_job *job, struct gy_error *err)
{
    const struct gy_convert_config *c = job->config;
    const int64_t done = gy_rows_source_done(job->source), total = gy_rows_source_total(job->source);
    if (c->progress && c->progress(c->user, done, total) != 0)
        return GY_FAIL(err, GY_E_STOPPED, "the conversion was stopped at byte %" PRId64 " of %" PRId64, done, total);
    return GY_OK;
}

/* What was fetched is parsed next. */
static void convert_pass_on(struct convert_job *job)
{
    const struct convert_pieces fetched = job->fetched;
    job->fetched = job->parsed;
    job->parsed = fetched;
    job->fetched.count = 0;
    job->ahead = (int)gy_min64((int64_t)CONVERT_GROWTH * job->ahead, job->window);
}

/* One round. A failure to fetch waits until the text before it is parsed, so the first failure in
 * the text is reported. */
static int convert_round(struct convert_job *job, struct gy_error *err)
{
    gy_pool_run(job->pool, convert_tile, job, 2 + (int64_t)convert_shares(&job->packs) + job->parsed.count);
    if (job->write_status != GY_OK)
        return GY_FAIL(err, job->write_status, "%s", job->write_error.text);
    convert_turn(job);
    GY_TRY(convert_cut(job, err));
    convert_pass_on(job);
    return convert_progress(job, err);
}

static int convert_run(struct convert_job *job, struct gy_error *err)
{
    while (job->more || job->parsed.count > 0)
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
    if (f && about)
        *about = f->about;
    return f ? f->name : NULL;
}

/* The first format that one of the first lines looks like. A label alone could be of several, as a
 * comment could. */
static int convert_guess(struct convert_job *job, struct gy_error *err)
{
    const unsigned char *line, *end;
    size_t bytes = 0;
    GY_TRY(gy_rows_source_peek(job->source, &line, &bytes, err));
    end = line + bytes;
    line += gy_rows_mark(line, bytes);
    for (; line < end; line = (const unsigned char *)memchr(line, '\n', (size_t)(end - line)) + 1) {
        const unsigned char *const stop = memchr(line, '\n', (size_t)(end - line));
        if (*gy_rows_blanks(line) == '#')
            continue;
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
    if (!name)
        return convert_guess(job, err);
    for (int i = 0; convert_format(i) != NULL; i++)
        if (strcmp(convert_format(i)->name, name) == 0)
            job->settings.format = convert_format(i);
    return job->settings.format ? GY_OK : GY_FAIL(err, GY_E_ARG, "format '%.60s'; there are svmlight, libffm, criteo and csv", name);
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
    s->most = c->features_most != 0 ? c->features_most : UINT32_MAX;
    s->label_column = c->label_column;
    s->header = c->header;
    if (s->hash_bits != 0 && s->format == gy_rows_csv())
        return GY_FAIL(err, GY_E_ARG, "the columns of a CSV cannot be hashed");
    if (s->hash_bits != 0 && s->features != 0 && s->features != 1u << s->hash_bits)
        return GY_FAIL(err, GY_E_ARG, "%" PRIu32 " features, but ids are hashed to %d bits", s->features, s->hash_bits);
    s->features = s->hash_bits != 0 ? 1u << s->hash_bits : s->features;
    if (criteo) {
        s->criteo_word = gy_alloc_take(&job->alloc, GY_ROWS_CRITEO_TABLE, sizeof *s->criteo_word);
        if (!s->criteo_word)
            return GY_NOMEM(err, "a table of integers", GY_ROWS_CRITEO_TABLE * sizeof *s->criteo_word);
        gy_rows_criteo_words(s->criteo_word);
    }
    return GY_OK;
}

/* The columns of a CSV are its features, also where the last are zero in every row. */
static int convert_settle_columns(struct convert_job *job, struct gy_error *err)
{
    struct gy_rows_settings *s = &job->settings;
    if (s->format != gy_rows_csv() || job->fetched.count == 0)
        return GY_OK;
    const uint32_t columns = (uint32_t)job->fetched.piece[0]->layout->columns - 1;
    if (s->features != 0 && s->features != columns)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: %" PRIu32 " columns beside the label, but %" PRIu32 " features were asked for",
                       gy_rows_source_name(job->source, 0), columns,
                       s->features);
    s->features = columns;
    return GY_OK;
}

/* ---- open and close ---- */

static int convert_take_pieces(const struct convert_job *job, struct convert_pieces *pieces, struct gy_error *err)
{
    pieces->piece = gy_alloc_take(&job->alloc, (size_t)job->window, sizeof *pieces->piece);
    pieces->text = gy_alloc_take(&job->alloc, (size_t)job->window, sizeof *pieces->text);
    return pieces->piece && pieces->text ? GY_OK : GY_NOMEM(err, "a list of pieces", (size_t)job->window * sizeof *pieces->text);
}

static int convert_open(struct convert_job *job, const struct gy_rows_bytes *bytes, int memory, struct gy_error *err)
{
    const struct gy_convert_config *c = job->config;
    GY_TRY(convert_check_config(c, err));
    GY_TRY(gy_rows_source_open(&job->source, c, bytes, &job->alloc, err));
    GY_TRY(convert_settle(job, err));
    job->pool = c->pool;
    if (!job->pool)
        GY_TRY(gy_pool_open(&job->pool, &job->alloc, 1, err));
    job->ahead = job->threads = gy_pool_threads(job->pool);
    job->window = CONVERT_PIECES * job->threads;
    job->thread = gy_alloc_take(&job->alloc, (size_t)job->threads, sizeof *job->thread);
    if (!job->thread)
        return GY_NOMEM(err, "what threads keep", (size_t)job->threads * sizeof *job->thread);
    GY_TRY(convert_take_pieces(job, &job->fetched, err));
    GY_TRY(convert_take_pieces(job, &job->parsed, err));
    job->block_rows = c->block_rows > 0 ? c->block_rows : CONVERT_ROWS;
    job->block_entries = c->block_rows > 0 ? CONVERT_ENTRIES_MOST : CONVERT_ENTRIES;
    job->more = 1;
    job->fetch_status = convert_fetch(job, &job->fetch_error);
    GY_TRY(convert_settle_columns(job, err));
    convert_pass_on(job);
    const struct gy_blocks_write to = { memory ? NULL : c->to, c->append && !memory, job->settings.features, job->settings.hash_bits,
                                        job->settings.hash_bits != 0 ? c->hash_seed : 0, &job->alloc };
    if (!memory && !c->to)
        return GY_FAIL(err, GY_E_ARG, "no path for the block file");
    return gy_blocks_create(&job->writer, &to, err);
}

static void convert_drop_list(const struct convert_job *job, struct convert_list *list)
{
    for (struct gy_rows_piece *p = convert_pop(list); p != NULL; p = convert_pop(list))
        gy_alloc_free(&job->alloc, p, sizeof *p);
}

static void convert_drop_pieces(struct convert_job *job, struct convert_pieces *pieces)
{
    for (int i = 0; i < pieces->count; i++)
        convert_push(&job->idle, pieces->piece[i]);
    for (int i = 0; pieces->text != NULL && i < job->window; i++)
        gy_alloc_free(&job->alloc, pieces->text[i].bytes, pieces->text[i].room);
    gy_alloc_free(&job->alloc, pieces->piece, (size_t)job->window * sizeof *pieces->piece);
    gy_alloc_free(&job->alloc, pieces->text, (size_t)job->window * sizeof *pieces->text);
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
    convert_drop_pieces(job, &job->fetched);
    convert_drop_pieces(job, &job->parsed);
    convert_drop_list(job, &job->ready);
    convert_drop_list(job, &job->retired);
    convert_drop_list(job, &job->idle);
    convert_drop_blocks(job, &job->packs);
    convert_drop_blocks(job, &job->writes);
    gy_alloc_free(&alloc, job->view, job->view_room * sizeof *job->view);
    for (int i = 0; job->thread != NULL && i < job->threads; i++)
        gy_rows_keep_close(&job->thread[i].keep, &alloc);
    gy_alloc_free(&alloc, job->thread, (size_t)job->threads * sizeof *job->thread);
    gy_alloc_free(&alloc, job->settings.criteo_word, GY_ROWS_CRITEO_TABLE * sizeof *job->settings.criteo_word);
    gy_blocks_abandon(job->writer);
    if (!job->config->pool)
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
    if (report)
        *report = job->report;
}

static int convert_all(struct gy_blocks **memory, const struct gy_convert_config *config, const struct gy_rows_bytes *bytes, const struct gy_alloc *alloc,
                       struct gy_convert_report *report, struct gy_error *err)
{
    struct convert_job *job = gy_alloc_take(alloc, 1, sizeof *job);
    if (!job)
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
