/* SPDX-License-Identifier: MIT */
/* timeline.c: puts ranks on one clock. One host has one clock. Sums that all ranks leave together
 * set those of several hosts: between two ranks the median of the differences counts. Without such
 * a sum the wall clocks do. */
#include <dirent.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "tools/lab/timeline.h"

#define TIMELINE_FILES 65536
#define TIMELINE_APART (INT64_C(1) << 60) /* nanoseconds of two clocks; no sum of times overflows */

/* ---- files ---- */

struct timeline_reader {
    struct gy_timeline *t;
    const char *folder, *behind; /* behind the number in a file's name */
    void (*note)(void *user, const char *text);
    void *user;
};

/* The rank in a file's name, or -1. */
static int timeline_number(const char *name, const char *behind)
{
    char digits[8];
    int64_t rank = -1;
    const size_t head = strlen("flight."), bytes = strlen(name), tail = strlen(behind);
    if (bytes <= head + tail || bytes - head - tail >= sizeof digits)
        return -1;
    if (strncmp(name, "flight.", head) != 0 || strcmp(name + bytes - tail, behind) != 0)
        return -1;
    memcpy(digits, name + head, bytes - head - tail);
    digits[bytes - head - tail] = 0;
    return gy_text_int(digits, 0, TIMELINE_FILES - 1, &rank) == 0 ? (int)rank : -1;
}

static void timeline_say(const struct timeline_reader *r, const char *name, const char *why)
{
    char text[600];
    snprintf(text, sizeof text, "%.64s: %.480s: it is left out", name, why);
    r->note(r->user, text);
}

/* A file that cannot be used is named and left out; GY_E_NOMEM ends it all. */
static int timeline_add(const struct timeline_reader *r, const char *name, struct gy_error *err)
{
    struct gy_timeline *const t = r->t;
    struct gy_flight_record record;
    struct gy_error own = { 0 };
    char path[4096], text[160];
    GY_TRY(gy_file_join(path, sizeof path, r->folder, name, err));
    if (gy_flight_read(&record, path, &t->alloc, &own) != GY_OK) {
        const size_t named = strncmp(own.text, path, strlen(path)) == 0 ? strlen(path) + 2 : 0;
        timeline_say(r, name, own.text + named);
        return own.status == GY_E_NOMEM ? GY_FAIL(err, GY_E_NOMEM, "%s", own.text) : GY_OK;
    }
    if (record.head.rank != timeline_number(name, r->behind)) {
        snprintf(text, sizeof text, "the record of rank %d under another name",
                 (int)record.head.rank);
        timeline_say(r, name, text);
        gy_flight_drop(&record);
        return GY_OK;
    }
    struct gy_timeline_rank *const more = gy_alloc_grow(&t->alloc, t->ranks, (size_t)t->room,
                                                        (size_t)t->count + 1, sizeof *more);
    if (!more) {
        gy_flight_drop(&record);
        return GY_NOMEM(err, "the records", sizeof *more);
    }
    t->ranks = more;
    t->room = t->count + 1;
    t->ranks[t->count++] = (struct gy_timeline_rank){ .record = record, .rank = record.head.rank };
    return GY_OK;
}

static int timeline_by_rank(const void *a, const void *b)
{
    const struct gy_timeline_rank *const x = a, *const y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int timeline_files(const struct timeline_reader *r, struct gy_error *err)
{
    DIR *const folder = opendir(r->folder);
    int status = GY_OK;
    if (!folder)
        return GY_FAIL(err, GY_E_IO, "%.300s: cannot be read: %s", r->folder, strerror(errno));
    for (const struct dirent *e; status == GY_OK && (e = readdir(folder));)
        if (timeline_number(e->d_name, r->behind) >= 0)
            status = timeline_add(r, e->d_name, err);
    closedir(folder);
    if (r->t->count > 1)
        qsort(r->t->ranks, (size_t)r->t->count, sizeof *r->t->ranks, timeline_by_rank);
    return status;
}

/* The newest start counts. */
static void timeline_one_job(const struct timeline_reader *r)
{
    struct gy_timeline *const t = r->t;
    const struct gy_flight_head *newest = &t->ranks[0].record.head;
    int kept = 0;
    for (int i = 1; i < t->count; i++)
        newest = t->ranks[i].record.head.job > newest->job ? &t->ranks[i].record.head : newest;
    const int64_t job = newest->job;
    t->all = newest->ranks;
    for (int i = 0; i < t->count; i++) {
        struct gy_timeline_rank *const at = &t->ranks[i];
        char name[32], text[120], day[32];
        if (at->record.head.job == job && at->record.head.ranks == t->all) {
            t->ranks[kept++] = *at;
            continue;
        }
        snprintf(name, sizeof name, "flight.%d%s", at->rank, r->behind);
        snprintf(text, sizeof text, "a record of another start of a job, on %s with %d ranks",
                 gy_clock_date((double)at->record.head.job * 1e-9, day),
                     (int)at->record.head.ranks);
        timeline_say(r, name, text);
        gy_flight_drop(&at->record);
    }
    t->count = kept;
}

/* ---- one clock ---- */

static int timeline_is_common(const struct gy_flight_event *e)
{
    return e->phase == GY_FLIGHT_ENDED && e->sum > 0 &&
           (e->kind == GY_DOES_WAIT || e->kind == GY_DOES_MEET || e->kind == GY_DOES_AGREE);
}

static int timeline_smaller(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Both have their sums in order. room: of one record's events. */
static int64_t timeline_shift(const struct gy_flight_record *to,
                              const struct gy_flight_record *from, int64_t *room)
{
    int count = 0;
    for (int i = 0, k = 0; i < to->count && k < from->count;) {
        const struct gy_flight_event *const a = &to->events[i], *const b = &from->events[k];
        if (!timeline_is_common(a) || (timeline_is_common(b) && a->sum < b->sum))
            i++;
        else if (!timeline_is_common(b) || a->sum > b->sum)
            k++;
        else {
            room[count++] = a->mono - b->mono;
            i++;
            k++;
        }
    }
    if (count == 0) {
        const int64_t apart = (from->head.wall - from->head.met) - (to->head.wall - to->head.met);
        return gy_max64(-TIMELINE_APART, gy_min64(apart, TIMELINE_APART));
    }
    qsort(room, (size_t)count, sizeof *room, timeline_smaller);
    return room[count / 2];
}

static int timeline_clocks(struct gy_timeline *t, struct gy_error *err)
{
    const struct gy_flight_record *const first = &t->ranks[0].record;
    int64_t *const room = gy_alloc_take(&t->alloc, (size_t)first->room, sizeof *room);
    if (!room)
        return GY_NOMEM(err, "the ranks' clocks", (size_t)first->room * sizeof *room);
    t->wall = first->head.wall - first->head.met;
    for (int i = 0; i < t->count; i++) {
        const struct gy_flight_record *const r = &t->ranks[i].record;
        int new = 1;
        for (int k = 0; k < i && new; k++)
            new = memcmp(r->head.host, t->ranks[k].record.head.host, sizeof r->head.host) != 0;
        t->hosts += new;
        if (memcmp(r->head.host, first->head.host, sizeof r->head.host) != 0)
            t->ranks[i].shift = timeline_shift(first, r, room);
    }
    gy_alloc_free(&t->alloc, room, (size_t)first->room * sizeof *room);
    return GY_OK;
}

/* ---- a rank's end ---- */

/* What was begun and not ended: when, and by which event. */
struct timeline_open {
    const struct gy_flight_event *by[GY_DOINGS];
};

static void timeline_take(struct gy_timeline_rank *r, struct timeline_open *o,
                          const struct gy_flight_event *e)
{
    const int began = e->phase == GY_FLIGHT_BEGAN;
    const int sums = e->kind >= GY_DOES_SUM && e->kind <= GY_DOES_AGREE && e->kind != GY_DOES_WAIT;
    r->step = gy_max64(r->step, e->step);
    if (sums && began)
        r->sum_begun = gy_max64(r->sum_begun, e->sum);
    if (e->kind == GY_DOES_AGREE && began) {
        r->agreed = e->bytes;
        r->agrees = 1;
    }
    if (e->kind < GY_DOES_EVAL)
        r->program = e->kind;
    else if (e->kind != GY_DOES_SUM && e->kind < GY_DOES_LOST)
        o->by[e->kind] = began ? e : NULL;
    if (e->kind == GY_DOES_STEP)
        r->program = -1;
}

static void timeline_state(struct gy_timeline_rank *r)
{
    struct timeline_open open = { { NULL } };
    const struct gy_flight_event *last = NULL;
    const struct gy_flight_record *const rec = &r->record;
    r->doing = r->program = r->bucket = r->peer = -1;
    for (int i = 0; i < rec->count; i++)
        timeline_take(r, &open, &rec->events[i]);
    for (int k = 0; k < GY_DOINGS; k++)
        if (open.by[k] && (!last || open.by[k]->number > last->number))
            last = open.by[k];
    r->came = rec->head.came + r->shift;
    r->sign = gy_max64(rec->live.beat.last, rec->head.met);
    if (rec->count > 0)
        r->sign = gy_max64(r->sign, rec->events[rec->count - 1].mono);
    r->sign = gy_max64(r->sign, rec->live.ended) + r->shift;
    r->ended = rec->live.ended ? rec->live.ended + r->shift : 0;
    r->since = (rec->count > 0 ? rec->events[rec->count - 1].mono : rec->head.met) + r->shift;
    if (!last)
        return;
    r->doing = last->kind;
    r->since = last->mono + r->shift;
    r->sum = last->sum;
    r->bucket = last->bucket;
    r->peer = last->peer;
}

/* ---- a rank's steps ---- */

/* Of one rank, while its events go by. */
struct timeline_sum {
    int64_t began[GY_DOINGS]; /* 0: not */
    int64_t first, last;      /* begins of steps */
    int64_t now[GY_SHARES], kept[GY_SHARES]; /* kept: up to the last begin */
    int in_step;
};

static const unsigned char timeline_shares_of[GY_DOINGS] = {
    [GY_DOES_BATCH] = GY_SHARE_BATCH, [GY_DOES_SAVE] = GY_SHARE_SAVE,
        [GY_DOES_TEST] = GY_SHARE_TEST,
    [GY_DOES_WAIT] = GY_SHARE_WAIT, [GY_DOES_MEET] = GY_SHARE_WAIT, [GY_DOES_AGREE] = GY_SHARE_WAIT,
    [GY_DOES_MESSAGE] = GY_SHARE_WAIT,
};

static void timeline_add_event(struct gy_timeline_rank *r, struct timeline_sum *s,
                               const struct gy_flight_event *e)
{
    const int share = timeline_shares_of[e->kind], began = e->phase == GY_FLIGHT_BEGAN;
    const int64_t took = !began && s->first && s->began[e->kind] ? e->mono - s->began[e->kind] : 0;
    if (e->kind == GY_DOES_STEP) {
        s->now[GY_SHARE_COMPUTE] += took;
        s->in_step = began;
    } else if (share && took) {
        s->now[share] += took;
        s->now[GY_SHARE_COMPUTE] -= s->in_step ? took : 0;
    }
    if (e->kind == GY_DOES_STEP && began) {
        r->steps += s->first != 0;
        s->first = s->first ? s->first : e->mono;
        s->last = e->mono;
        memcpy(s->kept, s->now, sizeof s->kept);
    }
    s->began[e->kind] = began ? e->mono : 0;
}

static void timeline_shares(struct gy_timeline_rank *r)
{
    struct timeline_sum sum = { .first = 0 };
    for (int i = 0; i < r->record.count; i++)
        timeline_add_event(r, &sum, &r->record.events[i]);
    memcpy(r->share, sum.kept, sizeof r->share);
    r->share[GY_SHARE_REST] = sum.last - sum.first;
    for (int s = 0; s < GY_SHARES; s++)
        r->share[GY_SHARE_REST] -= s == GY_SHARE_REST ? 0 : sum.kept[s];
}

/* ---- open and close ---- */

GY_INT int gy_timeline_open(struct gy_timeline *out, const char *folder, int old,
                            void (*note)(void *user, const char *text), void *user,
                            const struct gy_alloc *alloc, struct gy_error *err)
{
    const struct timeline_reader r = { out, folder, old ? GY_FLIGHT_OLD : "", note, user };
    *out = (struct gy_timeline){ .alloc = *alloc };
    int status = timeline_files(&r, err);
    if (status == GY_OK && out->count == 0)
        status = GY_FAIL(err, GY_E_IO, "%.300s: there is no flight record here that can be read "
                         "(flight.RANK%s)", folder, r.behind);
    if (status == GY_OK) {
        timeline_one_job(&r);
        status = timeline_clocks(out, err);
    }
    for (int i = 0; i < out->count && status == GY_OK; i++) {
        struct gy_timeline_rank *const at = &out->ranks[i];
        timeline_state(at);
        timeline_shares(at);
        out->end = gy_max64(out->end, at->sign);
        if (at->record.live.state == GY_FLIGHT_FAILED)
            out->failed = out->failed ? gy_min64(out->failed, at->ended) : at->ended;
    }
    if (status != GY_OK)
        gy_timeline_close(out);
    return status;
}

GY_INT int gy_timeline_has_done(const struct gy_timeline_rank *r, int64_t sum)
{
    for (int i = r->record.count - 1; i >= 0; i--) {
        const struct gy_flight_event *const e = &r->record.events[i];
        if (e->phase == GY_FLIGHT_ENDED && e->sum == sum && e->kind != GY_DOES_WAIT)
            return 1;
    }
    return 0;
}

GY_INT void gy_timeline_close(struct gy_timeline *t)
{
    for (int i = 0; i < t->count; i++)
        gy_flight_drop(&t->ranks[i].record);
    if (t->ranks)
        gy_alloc_free(&t->alloc, t->ranks, (size_t)t->room * sizeof *t->ranks);
    t->ranks = NULL;
    t->count = 0;
}

GY_INT const struct gy_timeline_rank *gy_timeline_rank(const struct gy_timeline *t, int rank)
{
    for (int i = 0; i < t->count; i++)
        if (t->ranks[i].rank == rank)
            return &t->ranks[i];
    return NULL;
}

GY_INT const char *gy_timeline_clock(const struct gy_timeline *t, int64_t at, char text[32])
{
    const int64_t ms = (at + t->wall) / 1000000;
    const int day = (int)((ms % 86400000 + 86400000) % 86400000), minute = day / 60000;
    snprintf(text, 32, "%02d:%02d:%02d.%03d", minute / 60, minute % 60, day / 1000 % 60,
             day % 1000);
    return text;
}
