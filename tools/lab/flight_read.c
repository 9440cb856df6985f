/* SPDX-License-Identifier: MIT */
/* flight_read.c: reads a record whole, for timeline.c. Its head must be right. Of the rest whatever
 * is right is taken, since the process may have ended amid a write. */
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "tools/lab/flight_read.h"

#define FLIGHT_ROOM_MOST (1 << 20)
#define FLIGHT_RANKS_MOST 65536
#define FLIGHT_MONO_MOST (INT64_C(1) << 58) /* nanoseconds of nine years */
#define FLIGHT_WALL_MOST (INT64_C(1) << 61) /* in the year 2043 */

static int flight_mono(int64_t t) { return t >= 0 && t < FLIGHT_MONO_MOST; }
static int flight_wall_right(int64_t t) { return t >= 0 && t < FLIGHT_WALL_MOST; }

static int flight_head_wrong(const struct gy_flight_head *h, size_t bytes)
{
    if (h->head_bytes != GY_FLIGHT_PAGE || h->event_bytes != sizeof(struct gy_flight_event))
        return 1;
    if (h->room < 1 || h->room > FLIGHT_ROOM_MOST)
        return 1;
    if (bytes != GY_FLIGHT_PAGE + (size_t)h->room * sizeof(struct gy_flight_event))
        return 1;
    if (h->ranks < 1 || h->ranks > FLIGHT_RANKS_MOST || h->rank < 0 || h->rank >= h->ranks)
        return 1;
    return !flight_wall_right(h->job) || !flight_wall_right(h->wall) || !flight_mono(h->came) ||
           !flight_mono(h->met);
}

static int flight_head(struct gy_flight_record *r, const char *path, const unsigned char *bytes,
                       size_t count, struct gy_error *err)
{
    struct gy_flight_head *const h = &r->head;
    if (count < sizeof h->magic || memcmp(bytes, GY_FLIGHT_MAGIC, sizeof h->magic) != 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: this is no flight record", path);
    if (count < GY_FLIGHT_PAGE)
        return GY_FAIL(err, GY_E_TRUNCATED, "%.300s: a flight record that ends in its head", path);
    memcpy(h, bytes, sizeof *h);
    if (h->version == 1u << 24)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: a flight record of a machine with the other "
                       "order of bytes; read it on such a one", path);
    if (h->version != GY_FLIGHT_VERSION)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: a flight record of version %" PRIu32 "; this "
                       "program reads version %d", path, h->version, GY_FLIGHT_VERSION);
    if (gy_crc32c_differs(h, offsetof(struct gy_flight_head, crc), h->crc))
        return GY_FAIL(err, GY_E_HASH, "%.300s: the record's head is damaged", path);
    if (flight_head_wrong(h, count))
        return GY_FAIL(err, GY_E_FORMAT,
                       "%.300s: the record's %zu bytes are not what its head says", path, count);
    h->name[sizeof h->name - 1] = 0;
    r->room = (int)h->room;
    return GY_OK;
}

static void flight_live(struct gy_flight_record *r, const unsigned char *bytes)
{
    struct gy_flight_live *const l = &r->live;
    const size_t from = offsetof(struct gy_flight_live, ended);
    memcpy(l, bytes + GY_FLIGHT_LIVE, sizeof *l);
    l->text[sizeof l->text - 1] = 0;
    const struct gy_net_beat *const b = &l->beat;
    if (!flight_mono(b->last) || !flight_mono(b->gap) || !flight_mono(b->gap_at))
        l->beat = (struct gy_net_beat){ .last = r->head.met };
    const size_t covered = offsetof(struct gy_flight_live, crc) - from;
    const int whole = !gy_crc32c_differs((unsigned char *)l + from, covered, l->crc);
    if (whole && l->state >= GY_FLIGHT_RUNS && l->state <= GY_FLIGHT_LEFT && flight_mono(l->ended))
        return;
    l->state = GY_FLIGHT_RUNS;
    l->ended = 0;
    l->status = GY_OK;
    l->text[0] = 0;
}

/* 1: it is one; 0: the place is empty; -1: it is damaged. */
static int flight_event(const struct gy_flight_record *r, const struct gy_flight_event *e,
                        int place)
{
    static const struct gy_flight_event blank;
    if (memcmp(e, &blank, sizeof blank) == 0)
        return 0;
    if (gy_crc32c_differs(e, offsetof(struct gy_flight_event, crc), e->crc))
        return -1;
    const int right = e->number > 0 && e->number < (uint64_t)FLIGHT_MONO_MOST &&
                      (int)(e->number % (uint64_t)r->room) == place && e->kind < GY_DOINGS &&
                      e->phase <= GY_FLIGHT_ENDED && e->peer >= -1 && e->peer < r->head.ranks;
    const int times = flight_mono(e->mono) && flight_wall_right(e->wall) && flight_mono(e->step) &&
                      flight_mono(e->sum);
    return right && times ? 1 : -1;
}

static int flight_older(const void *a, const void *b)
{
    const struct gy_flight_event *const x = a, *const y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Clocks do not go back: an event that does is damaged, whatever its sum. */
static void flight_order(struct gy_flight_record *r)
{
    int kept = 0;
    qsort(r->events, (size_t)r->count, sizeof *r->events, flight_older);
    const uint64_t last = r->count > 0 ? r->events[r->count - 1].number : 0;
    for (int i = 0; i < r->count; i++) {
        const struct gy_flight_event e = r->events[i];
        const int back = kept > 0 && e.mono < r->events[kept - 1].mono;
        if (back || last - e.number >= (uint64_t)r->room)
            r->damaged++;
        else
            r->events[kept++] = e;
    }
    r->count = kept;
}

static int flight_events(struct gy_flight_record *r, const unsigned char *bytes,
                         struct gy_error *err)
{
    r->events = gy_alloc_take(&r->alloc, (size_t)r->room, sizeof *r->events);
    if (!r->events)
        return GY_NOMEM(err, "a record's events", (size_t)r->room * sizeof *r->events);
    for (int place = 0; place < r->room; place++) {
        struct gy_flight_event e;
        memcpy(&e, bytes + GY_FLIGHT_PAGE + (size_t)place * sizeof e, sizeof e);
        const int is = flight_event(r, &e, place);
        r->damaged += is < 0;
        if (is > 0)
            r->events[r->count++] = e;
    }
    flight_order(r);
    return GY_OK;
}

GY_INT int gy_flight_read(struct gy_flight_record *out, const char *path,
                          const struct gy_alloc *alloc, struct gy_error *err)
{
    const size_t most = GY_FLIGHT_PAGE + (size_t)FLIGHT_ROOM_MOST * sizeof(struct gy_flight_event);
    char *text = NULL;
    size_t bytes = 0;
    struct gy_file file;
    *out = (struct gy_flight_record){ .alloc = *alloc };
    GY_TRY(gy_file_open(&file, path, err)); /* a pipe is refused: reading would wait for it */
    gy_file_close(&file);
    GY_TRY(gy_file_read(alloc, path, most, &text, &bytes, err));
    int status = flight_head(out, path, (const unsigned char *)text, bytes, err);
    if (status == GY_OK) {
        flight_live(out, (const unsigned char *)text);
        status = flight_events(out, (const unsigned char *)text, err);
    }
    gy_alloc_free(alloc, text, bytes + 1);
    return status;
}

GY_INT void gy_flight_drop(struct gy_flight_record *r)
{
    if (r->events)
        gy_alloc_free(&r->alloc, r->events, (size_t)r->room * sizeof *r->events);
    *r = (struct gy_flight_record){ .count = 0 };
}
