/* SPDX-License-Identifier: MIT */
/* The feed of glm_stream.h. Windows are numbered pass after pass without end: number n is window n
 * mod windows, and lies in room n mod rooms. The thread that reads may be ahead of the solver by as
 * many windows as there are rooms. It goes on with the next pass while the solver ends this one.
 * All that both touch (filled, released, status, events) changes under the mutex. A room belongs to
 * the thread from released to filled, and else to the solver.
 *
 * Windows that are read faster than two threads meet have no thread: the solver reads each when it
 * wants it. */
#include "engine/glm/glm_stream.h"
#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include <pthread.h>
#include <signal.h>

#define GLMS_ROOMS 3
#define GLMS_EVENTS 2048
/* bytes of a window that is read in about the time in which a thread wakes, some 20 microseconds */
#define GLMS_SMALL 32768
#define GLMS_ROWS_MOST ((int64_t)1 << 30)
#define GLMS_ENTRIES_MOST (((int64_t)1 << 32) - 1) /* offsets of a view have 32 bits */

struct glms_window {
    int64_t block, first; /* its first block, and the number of that block's first row */
    /* rows and entries of this part; entries may be too many where a block is cut */
    int64_t blocks, rows, entries;
};

struct glms_room {
    unsigned char *memory;
    struct gy_rows rows;
};

struct glms_stream {
    struct gy_glm_feed feed;
    struct gy_arena arena;
    const struct gy_blocks *blocks;
    struct gy_blocks_info info;
    int normalize, shuffle;
    int alone;                   /* windows are small: no thread reads ahead */
    uint64_t seed;
    int64_t first, end;          /* rows of this part */
    struct glms_window *window;  /* [windows] */
    int64_t windows;
    size_t room_bytes, memory;   /* of the largest window; of all rooms */
    int64_t rooms;               /* as many as windows where all is resident */
    struct glms_room *room;
    size_t limit;                /* of all memory; 0: none */
    struct gy_blocks_room scratch; /* one block as it is unpacked */
    struct gy_glm_stream_event *event; /* [GLMS_EVENTS], by number */
    int64_t at, taken;           /* of the solver: next window of this pass, number of the next */
    int64_t left;                /* clock when next handed out a window; 0: none is trained on */
    pthread_t thread;
    int started;
    pthread_mutex_t mutex;
    pthread_cond_t was_filled, was_released;
    int64_t filled, released;    /* numbers below these */
    int64_t begin;               /* the first number that the thread reads */
    int stop, status;
    struct gy_error error;
    int64_t read_ns, waited_ns, computed_ns;
};

/* The window that has that number. */
static int64_t glms_window_of(const struct glms_stream *s, int64_t number)
{
    const int64_t at = number % s->windows;
    return s->shuffle ? gy_rng_permute(s->seed, GY_RNG_ORDER, (uint64_t)(number / s->windows), s->windows, at) : at;
}

static struct glms_room *glms_room_of(const struct glms_stream *s, int64_t number) { return &s->room[number % s->rooms]; }

/* ---- windows ---- */

static size_t glms_align(int64_t count) { return gy_align_up((size_t)count * 4, GY_CACHE_LINE); }

/* Bytes of a window's arrays in a room, and of room to begin them in. */
static size_t glms_bytes(const struct glms_stream *s, int64_t rows, int64_t entries)
{
    const size_t of_rows = glms_align(rows) * (size_t)(1 + s->info.has_weights + s->normalize) + (s->info.width ? 0 : glms_align(rows + 1));
    return of_rows + glms_align(entries) * (size_t)(1 + s->info.has_values) + GY_CACHE_LINE;
}

/* Rows and entries of block `block`, which begins at row `first`, that belong to this part. */
static void glms_size(const struct glms_stream *s, int64_t block, int64_t first, int64_t *whole, int64_t *rows, int64_t *entries)
{
    int32_t count = 0;
    int64_t all = 0;
    gy_blocks_size(s->blocks, block, &count, &all);
    *whole = count;
    *rows = gy_max64(0, gy_min64(first + count, s->end) - gy_max64(first, s->first));
    *entries = s->info.width ? *rows * s->info.width : *rows > 0 ? all : 0;
}

static int glms_holds(const struct glms_stream *s, int64_t rows, int64_t entries, size_t room)
{
    return rows <= GLMS_ROWS_MOST && entries <= GLMS_ENTRIES_MOST && glms_bytes(s, rows, entries) <= room;
}

/* Cuts the part into windows of whole blocks that fit into `room` bytes and end once they have
 * `aim` bytes. Returns how many; -1: a single block is larger. Writes them to s->window where that
 * is not NULL. */
static int64_t glms_cut(struct glms_stream *s, size_t room, size_t aim)
{
    struct glms_window now = { 0 };
    int64_t count = 0, first = 0;
    for (int64_t b = 0; b < s->info.blocks; b++) {
        int64_t whole, rows, entries;
        glms_size(s, b, first, &whole, &rows, &entries);
        if (rows > 0 && !glms_holds(s, rows, entries, room))
            return -1;
        if (rows > 0 && now.blocks > 0 &&
            (glms_bytes(s, now.rows, now.entries) >= aim || !glms_holds(s, now.rows + rows, now.entries + entries, room))) {
            if (s->window)
                s->window[count] = now;
            count++;
            now = (struct glms_window){ 0 };
        }
        if (rows > 0) {
            if (now.blocks++ == 0) {
                now.block = b;
                now.first = first;
            }
            now.rows += rows;
            now.entries += entries;
        }
        first += whole;
    }
    if (now.blocks > 0 && s->window)
        s->window[count] = now;
    return count + (now.blocks > 0);
}

/* Bytes of the part when every block has a room, and of the largest block. */
static size_t glms_total(struct glms_stream *s, size_t *largest)
{
    int64_t first = 0;
    size_t all = 0;
    *largest = 0;
    for (int64_t b = 0; b < s->info.blocks; b++) {
        int64_t whole, some, more;
        glms_size(s, b, first, &whole, &some, &more);
        const size_t bytes = some > 0 ? glms_bytes(s, some, more) : 0;
        s->feed.rows += some;
        all += bytes;
        *largest = bytes > *largest ? bytes : *largest;
        first += whole;
    }
    return all;
}

/* Chooses the number and size of rooms. Where all rows fit, each block is a window with a room of
 * its own. Else there are three rooms, or two where a block is large, and windows are about
 * equal. */
static int glms_plan(struct glms_stream *s, struct gy_error *err)
{
    size_t largest, aim = SIZE_MAX;
    const size_t all = glms_total(s, &largest), unpack = s->scratch.bytes, left = s->limit == 0 ? SIZE_MAX : s->limit > unpack ? s->limit - unpack : 0;
    if (s->feed.rows == 0)
        return GY_OK;
    s->rooms = all <= left ? INT64_MAX : left / GLMS_ROOMS >= largest ? GLMS_ROOMS : 2;
    s->room_bytes = all <= left ? all : left / (size_t)s->rooms / GY_CACHE_LINE * GY_CACHE_LINE;
    if (s->room_bytes < largest)
        return GY_FAIL(err, GY_E_NOMEM, "rows are read in windows of a block at least, two of them at a time: %zu bytes; the limit is %zu bytes",
                       unpack + 2 * largest, s->limit);
    aim = all <= left ? 1 : all / (size_t)gy_max64(glms_cut(s, s->room_bytes, aim), 1);
    s->windows = glms_cut(s, s->room_bytes, aim);
    s->window = gy_arena_take(&s->arena, (size_t)s->windows, sizeof *s->window);
    if (!s->window)
        return GY_NOMEM(err, "the list of windows", (size_t)s->windows * sizeof *s->window);
    glms_cut(s, s->room_bytes, aim);
    s->rooms = gy_min64(s->rooms, s->windows);
    return GY_OK;
}

/* ---- filling a room: the thread ---- */

static void *glms_array(unsigned char **at, int64_t count)
{
    void *const array = *at;
    *at += glms_align(count);
    return array;
}

/* A window's arrays while they are written. */
struct glms_arrays {
    uint32_t *start, *id;
    float *value, *label, *weight, *scale;
};

static struct glms_arrays glms_lay(const struct glms_stream *s, const struct glms_window *w, unsigned char *at)
{
    struct glms_arrays a = { 0 };
    a.id = glms_array(&at, w->entries);
    a.value = s->info.has_values ? glms_array(&at, w->entries) : NULL;
    a.label = glms_array(&at, w->rows);
    a.weight = s->info.has_weights ? glms_array(&at, w->rows) : NULL;
    a.scale = s->normalize ? glms_array(&at, w->rows) : NULL;
    a.start = s->info.width ? NULL : glms_array(&at, w->rows + 1);
    return a;
}

static float glms_scale(const struct gy_rows *in, int32_t row)
{
    const uint32_t begin = gy_rows_begin(in, row), end = gy_rows_end(in, row);
    double sum = 0;
    for (uint32_t k = begin; in->value && k < end; k++)
        sum += (double)in->value[k] * (double)in->value[k];
    if (!in->value)
        sum = (double)in->same * (double)in->same * (double)(end - begin);
    return sum > 0 ? (float)(1 / sqrt(sum)) : 1.0f;
}

/* Rows [from, to) of a block behind what the window has. */
static void glms_append(const struct gy_rows *in, int32_t from, int32_t to, const struct glms_arrays *a, int64_t rows, int64_t entries)
{
    const uint32_t begin = gy_rows_begin(in, from);
    const size_t count = gy_rows_begin(in, to) - begin, some = (size_t)(to - from);
    memcpy(a->id + entries, in->id + begin, count * 4);
    if (a->value && in->value)
        memcpy(a->value + entries, in->value + begin, count * 4);
    for (size_t k = 0; a->value && !in->value && k < count; k++)
        a->value[entries + (int64_t)k] = in->same;
    memcpy(a->label + rows, in->label + from, some * 4);
    if (a->weight && in->weight)
        memcpy(a->weight + rows, in->weight + from, some * 4);
    for (size_t k = 0; a->weight && !in->weight && k < some; k++)
        a->weight[rows + (int64_t)k] = 1;
    for (int32_t i = from; a->scale && i < to; i++)
        a->scale[rows + i - from] = glms_scale(in, i);
    for (int32_t i = from; a->start && i <= to; i++)
        a->start[rows + i - from] = (uint32_t)entries + gy_rows_begin(in, i) - begin;
}

/* The block that is read after block b of that number's window; -1: none. */
static int64_t glms_after(const struct glms_stream *s, int64_t number, int64_t b)
{
    const struct glms_window *const w = &s->window[glms_window_of(s, number)];
    return b + 1 < w->block + w->blocks ? b + 1 : s->feed.resident && number + 1 >= s->windows ? -1 : s->window[glms_window_of(s, number + 1)].block;
}

/* Reads the window's blocks into its room. */
static int glms_fill(const struct glms_stream *s, int64_t number, struct glms_room *room, struct gy_error *err)
{
    const struct glms_window *const w = &s->window[glms_window_of(s, number)];
    const struct glms_arrays a = glms_lay(s, w, room->memory);
    int64_t first = w->first, rows = 0, entries = 0;
    for (int64_t b = w->block; b < w->block + w->blocks; b++) {
        struct gy_rows in;
        if (!s->alone)
            gy_blocks_ahead(s->blocks, glms_after(s, number, b));
        GY_TRY(gy_blocks_read(s->blocks, b, &s->scratch, &in, err));
        const int32_t from = (int32_t)gy_max64(0, s->first - first), to = (int32_t)gy_min64(in.count, s->end - first);
        const int64_t count = to >= from ? (int64_t)gy_rows_begin(&in, to) - gy_rows_begin(&in, from) : 0;
        if (to < from || rows + to - from > w->rows || entries + count > w->entries)
            return GY_FAIL(err, GY_E_FORMAT, "block %" PRId64 " has %d rows, more than the index of its file says", b, (int)in.count);
        glms_append(&in, from, to, &a, rows, entries);
        rows += to - from;
        entries += count;
        first += in.count;
    }
    room->rows = (struct gy_rows){ .first = gy_max64(w->first, s->first), .count = (int32_t)rows, .width = s->info.width, .start = a.start, .id = a.id,
                                   .value = a.value, .same = s->info.same, .label = a.label,
                                   .weight = a.weight, .scale = a.scale };
    return GY_OK;
}

/* Waits until a room is free for that number; 0: the feed is closed, or nothing is left to read. */
static int glms_may_fill(struct glms_stream *s, int64_t number)
{
    pthread_mutex_lock(&s->mutex);
    while (!s->stop && !s->feed.resident && number >= s->released + s->rooms)
        pthread_cond_wait(&s->was_released, &s->mutex);
    const int go = !s->stop && !(s->feed.resident && number >= s->windows);
    pthread_mutex_unlock(&s->mutex);
    return go;
}

/* A window was read. Under the mutex. */
static void glms_note(struct glms_stream *s, int64_t number, int status, const struct gy_error *err, int64_t began)
{
    const int64_t now = gy_clock_ns();
    s->read_ns += now - began;
    s->event[number % GLMS_EVENTS] = (struct gy_glm_stream_event){ .number = number, .window = glms_window_of(s, number),
        .pass = number / s->windows, .rows = glms_room_of(s, number)->rows.count, .entries = s->window[glms_window_of(s, number)].entries,
        .read_began = began, .read_ended = now };
    if (status == GY_OK)
        s->filled = number + 1;
    else {
        s->status = status;
        s->error = *err;
    }
}

static void glms_tell(struct glms_stream *s, int64_t number, int status, const struct gy_error *err, int64_t began)
{
    pthread_mutex_lock(&s->mutex);
    glms_note(s, number, status, err, began);
    pthread_cond_signal(&s->was_filled);
    pthread_mutex_unlock(&s->mutex);
}

/* The solver itself, in the thread's place. Under the mutex. */
static void glms_fill_alone(struct glms_stream *s, int64_t number)
{
    struct gy_error err = { 0 };
    const int64_t began = gy_clock_ns();
    const int status = glms_fill(s, number, glms_room_of(s, number), &err);
    glms_note(s, number, status, &err, began);
}

static void *glms_main(void *self)
{
    struct glms_stream *const s = self;
    struct gy_error err = { 0 };
    int status = GY_OK;
    for (int64_t number = s->begin; status == GY_OK && glms_may_fill(s, number); number++) {
        const int64_t began = gy_clock_ns();
        status = glms_fill(s, number, glms_room_of(s, number), &err);
        glms_tell(s, number, status, &err, began);
    }
    return NULL;
}

/* ---- handing out: the solver ---- */

/* The window that was handed out last is trained on; its room is free. Under the mutex. */
static void glms_release(struct glms_stream *s, int64_t now)
{
    if (s->left == 0)
        return;
    s->event[(s->taken - 1) % GLMS_EVENTS].train_ended = now;
    s->computed_ns += now - s->left;
    s->left = 0;
    s->released = s->taken;
    pthread_cond_signal(&s->was_released);
}

/* Waits for window `at` of the pass. Under the mutex. */
static int glms_wait(struct glms_stream *s, int64_t now, struct gy_error *err)
{
    const int64_t number = s->feed.resident ? s->at : s->taken;
    const struct glms_room *const room = glms_room_of(s, number);
    if (s->alone && s->filled <= number && s->status == GY_OK)
        glms_fill_alone(s, number);
    while (s->filled <= number && s->status == GY_OK)
        pthread_cond_wait(&s->was_filled, &s->mutex);
    if (s->filled <= number) {
        if (err)
            *err = s->error;
        return s->status;
    }
    const int64_t then = gy_clock_ns();
    struct gy_glm_stream_event *const e = &s->event[s->taken % GLMS_EVENTS];
    if (e->number != s->taken || e->read_ended == 0)
        *e = (struct gy_glm_stream_event){ .number = s->taken, .window = glms_window_of(s, s->taken), .pass = s->taken / s->windows, .rows = room->rows.count,
                                           .entries = s->window[glms_window_of(s, s->taken)].entries };
    e->train_began = then;
    s->waited_ns += then - now;
    s->left = then;
    return GY_OK;
}

static int glms_next(void *self, struct gy_rows *rows, struct gy_error *err)
{
    struct glms_stream *const s = self;
    const int64_t now = gy_clock_ns();
    int status = GY_OK;
    *rows = (struct gy_rows){ 0 };
    if (s->windows == 0)
        return GY_OK;
    pthread_mutex_lock(&s->mutex);
    glms_release(s, now);
    if (s->at == s->windows)
        s->at = 0;
    else {
        status = glms_wait(s, now, err);
        if (status == GY_OK) {
            *rows = glms_room_of(s, s->taken)->rows;
            s->taken++;
            s->at++;
        }
    }
    pthread_mutex_unlock(&s->mutex);
    return status;
}

/* ---- the thread ---- */

static int glms_start(struct glms_stream *s, struct gy_error *err)
{
    sigset_t all, before;
    if (s->windows == 0 || s->alone)
        return GY_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&s->thread, NULL, glms_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->started = !failed;
    return failed ? GY_FAIL(err, GY_E_NOMEM, "the thread that reads ahead cannot be started: %s", strerror(failed)) : GY_OK;
}

static void glms_stop(struct glms_stream *s)
{
    pthread_mutex_lock(&s->mutex);
    s->stop = 1;
    pthread_cond_signal(&s->was_released);
    pthread_mutex_unlock(&s->mutex);
    if (s->started)
        pthread_join(s->thread, NULL);
    s->started = s->stop = 0;
}

/* What the thread has read of the next pass is forgotten, and it begins that pass anew. */
static int glms_shuffle(void *self, int on, uint64_t seed, struct gy_error *err)
{
    struct glms_stream *const s = self;
    if (s->at != 0)
        return GY_FAIL(err, GY_E_BUG, "the order of windows was changed after %" PRId64 " of %" PRId64 " of them", s->at, s->windows);
    glms_stop(s);
    if (s->status != GY_OK) /* next says it */
        return GY_OK;
    s->shuffle = on;
    s->seed = seed;
    s->filled = s->released = s->begin = s->taken;
    return glms_start(s, err);
}

/* ---- opening ---- */

/* Entries of the part: those of a block that lies on a border are counted. */
static int glms_count(struct glms_stream *s, struct gy_error *err)
{
    s->feed.entries = 0;
    for (int64_t k = 0; k < s->windows; k++) {
        int64_t first = s->window[k].first;
        for (int64_t b = s->window[k].block; b < s->window[k].block + s->window[k].blocks; b++) {
            int64_t whole, rows, entries;
            glms_size(s, b, first, &whole, &rows, &entries);
            if (rows < whole && !s->info.width) {
                struct gy_rows in;
                GY_TRY(gy_blocks_read(s->blocks, b, &s->scratch, &in, err));
                const int32_t from = (int32_t)gy_max64(0, s->first - first), to = (int32_t)gy_min64(in.count, s->end - first);
                entries = (int64_t)gy_rows_begin(&in, to) - gy_rows_begin(&in, from);
            }
            s->feed.entries += entries;
            first += whole;
        }
    }
    return GY_OK;
}

static void glms_describe(struct glms_stream *s)
{
    struct gy_glm_feed *const f = &s->feed;
    f->next = glms_next;
    f->self = s;
    f->first = s->first;
    f->shuffle = s->rooms < s->windows ? glms_shuffle : NULL;
    f->all_rows = s->info.rows;
    f->features = s->info.features;
    f->views = (int)gy_min64(s->windows, INT_MAX);
    f->resident = s->rooms == s->windows;
    for (int64_t k = 0; k < s->windows; k++) {
        f->most_rows = (int32_t)gy_max64(f->most_rows, s->window[k].rows);
        f->most_entries = gy_max64(f->most_entries, s->window[k].entries);
    }
}

/* A resident window's room is its own; others take any window. */
static int glms_take_rooms(struct glms_stream *s, struct gy_error *err)
{
    s->room_bytes = 0;
    for (int64_t k = 0; k < s->windows; k++) {
        const size_t bytes = glms_bytes(s, s->window[k].rows, s->window[k].entries);
        s->room_bytes = bytes > s->room_bytes ? bytes : s->room_bytes;
    }
    s->room = gy_arena_take(&s->arena, (size_t)s->rooms, sizeof *s->room);
    for (int64_t i = 0; s->room && i < s->rooms; i++) {
        const size_t bytes = s->feed.resident ? glms_bytes(s, s->window[i].rows, s->window[i].entries) : s->room_bytes;
        s->room[i].memory = gy_arena_take(&s->arena, 1, bytes);
        if (!s->room[i].memory)
            return GY_NOMEM(err, "a window of rows", bytes);
        gy_mem_large_pages(s->room[i].memory, bytes);
        s->memory += bytes;
    }
    s->alone = !s->feed.resident && s->room_bytes <= GLMS_SMALL;
    s->event = gy_arena_take(&s->arena, GLMS_EVENTS, sizeof *s->event);
    return s->room && s->event ? GY_OK : GY_NOMEM(err, "the trace of windows", GLMS_EVENTS * sizeof *s->event);
}

static int glms_open(struct glms_stream *s, int part, int parts, size_t limit, struct gy_error *err)
{
    gy_blocks_get_info(s->blocks, &s->info);
    if (parts < 1 || part < 0 || part >= parts)
        return GY_FAIL(err, GY_E_ARG, "part %d of %d parts of the rows", part, parts);
    gy_glm_deal(s->info.rows, part, parts, &s->first, &s->end);
    s->limit = limit;
    s->scratch.bytes = gy_blocks_room_bytes(s->blocks, -1);
    GY_TRY(glms_plan(s, err));
    glms_describe(s);
    s->feed.parts = parts;
    s->scratch.memory = gy_arena_take(&s->arena, 1, s->scratch.bytes);
    if (!s->scratch.memory)
        return GY_NOMEM(err, "a block of rows", s->scratch.bytes);
    GY_TRY(glms_take_rooms(s, err));
    gy_arena_freeze(&s->arena);
    GY_TRY(glms_count(s, err));
    return glms_start(s, err);
}

GY_INT int gy_glm_feed_stream(struct gy_glm_feed **out, const struct gy_blocks *blocks, int part, int parts, int normalize, size_t memory_limit,
                              const struct gy_alloc *alloc, struct gy_error *err)
{
    struct glms_stream *const s = gy_alloc_take(alloc, 1, sizeof *s);
    if (!s)
        return GY_NOMEM(err, "the feed's handle", sizeof *s);
    s->blocks = blocks;
    s->normalize = normalize != 0;
    gy_arena_open_hook(&s->arena, alloc);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->was_filled, NULL);
    pthread_cond_init(&s->was_released, NULL);
    const int status = glms_open(s, part, parts, memory_limit, err);
    if (status == GY_OK)
        *out = &s->feed;
    else
        gy_glm_feed_stream_close(&s->feed);
    return status;
}

/* A feed's self is set late; it lies first in its handle. */
GY_INT void gy_glm_feed_stream_close(struct gy_glm_feed *feed)
{
    struct glms_stream *const s = (struct glms_stream *)(void *)feed;
    if (!s)
        return;
    glms_stop(s);
    pthread_cond_destroy(&s->was_filled);
    pthread_cond_destroy(&s->was_released);
    pthread_mutex_destroy(&s->mutex);
    const struct gy_alloc alloc = s->arena.alloc;
    gy_arena_close(&s->arena);
    gy_alloc_free(&alloc, s, sizeof *s);
}

GY_INT void gy_glm_feed_stream_counts(const struct gy_glm_feed *feed, struct gy_glm_stream_counts *counts)
{
    struct glms_stream *const s = feed->self;
    pthread_mutex_lock(&s->mutex);
    *counts = (struct gy_glm_stream_counts){ .read = (double)s->read_ns * 1e-9, .waited = (double)s->waited_ns * 1e-9,
        .computed = (double)s->computed_ns * 1e-9, .windows = s->windows, .taken = s->taken, .ready = s->filled, .rooms = (int)gy_min64(s->rooms, INT_MAX),
        .memory = s->memory + s->scratch.bytes };
    pthread_mutex_unlock(&s->mutex);
}

GY_INT int gy_glm_feed_stream_event(const struct gy_glm_feed *feed, int64_t index, struct gy_glm_stream_event *event)
{
    struct glms_stream *const s = feed->self;
    pthread_mutex_lock(&s->mutex);
    /* the thread may already have put later windows where the oldest were */
    const int64_t oldest = gy_max64(0, gy_max64(s->filled, s->taken) - GLMS_EVENTS), number = oldest + index;
    const int there = s->windows > 0 && index >= 0 && number < s->taken;
    if (there)
        *event = s->event[number % GLMS_EVENTS];
    pthread_mutex_unlock(&s->mutex);
    return there;
}
