/* SPDX-License-Identifier: MIT */
/* shared.c: a ring is two counters of bytes, written and read, and room for bytes between them.
 * Each counter has one writer; the other end reads it with acquire, so it sees what was put there
 * before. A message travels in pieces, between which announcements go the same way. A large message
 * is written and read at the same time, through a ring that stays in the caches. */
#include "net/transport/request_list.h"
#include "net/transport/shared.h"
#include "net/transport/tags.h"

#define SHARED_ALL ((size_t)32 << 20)   /* bytes of all rings; more if each has its least */
#define SHARED_MOST ((size_t)256 << 10) /* of a ring: half of a core's own cache, or less */
#define SHARED_LEAST ((size_t)4 << 10)
#define SHARED_PIECE                                                                               \
    ((size_t)32 << 10) /* a first-level cache, so that a piece is read while it is there */
#define SHARED_SMALL                                                                               \
    ((size_t)2 << 10) /* a piece shorter than this waits for room, unless it is the last */

enum shared_kind { SHARED_WANT = 1, SHARED_PIECE_OF };
struct shared_frame {
    uint32_t kind, tag;
    uint64_t piece, total; /* bytes of this piece, which follow; of its message */
};
struct shared_ring {
    uint64_t written;
    unsigned char pad1[GY_CACHE_LINE - sizeof(uint64_t)];
    uint64_t read;
    unsigned char pad2[GY_CACHE_LINE - sizeof(uint64_t)];
    unsigned char bytes[];
};
struct shared_peer {
    int rank; /* of the job */
    struct shared_ring *out, *in;
    uint64_t written, read; /* this end's counters of out, in */
    struct gy_net_request_list sends, receives;
    struct gy_net_request *unsaid;            /* the first receive that was not announced */
    struct gy_net_request *sending, *filling; /* in pieces; out_done, in_done of their bytes */
    size_t out_done, in_done;
    struct gy_net_tags tags;
};
struct gy_net_shared {
    struct gy_alloc alloc;
    struct gy_net_shared_config config;
    int *local;                /* [ranks] */
    struct shared_peer *peers; /* [locals]; of this rank's own number nothing is used */
    size_t room;               /* bytes of a ring: a power of two */
};

static size_t shared_room(int locals)
{
    const size_t rings = (size_t)locals * (size_t)locals;
    size_t room = SHARED_MOST;
    while (room > SHARED_LEAST && room * rings > SHARED_ALL)
        room /= 2;
    return room;
}

GY_INT size_t gy_net_shared_bytes(int locals)
{
    return (size_t)locals * (size_t)locals * (sizeof(struct shared_ring) + shared_room(locals));
}

static struct shared_ring *shared_ring(const struct gy_net_shared *s, int from, int to)
{
    const size_t number = (size_t)from * (size_t)s->config.locals + (size_t)to;
    unsigned char *const base = s->config.base;
    return (struct shared_ring *)(void *)(base + number * (sizeof(struct shared_ring) + s->room));
}

/* ---- requests ---- */

static void shared_end(struct gy_net_request_list *list, struct gy_net_request *r, int state)
{
    gy_net_list_remove(list, r);
    __atomic_store_n(&r->state, state, __ATOMIC_RELEASE);
}

static int shared_post(void *self, struct gy_net_request *r, struct gy_error *err)
{
    struct gy_net_shared *const s = self;
    if (!gy_net_shared_has(s, r->peer) || r->peer == s->config.rank)
        return GY_FAIL(err, GY_E_BUG, "a message between rank %d and rank %d in one memory",
                       s->config.rank, r->peer);
    struct shared_peer *const p = &s->peers[s->local[r->peer]];
    if (!gy_net_tags_take(&p->tags, r->tag, &s->alloc))
        return GY_NOMEM(err, "the tags of messages", sizeof(struct gy_net_tag));
    r->state = GY_NET_PENDING;
    gy_net_list_append(r->sends ? &p->sends : &p->receives, r);
    if (!r->sends && !p->unsaid)
        p->unsaid = r;
    return GY_OK;
}

/* ---- writing ---- */

static size_t shared_min(size_t a, size_t b) { return a < b ? a : b; }
static size_t shared_padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static size_t shared_space(const struct gy_net_shared *s, const struct shared_peer *p)
{
    return s->room - (size_t)(p->written - __atomic_load_n(&p->out->read, __ATOMIC_ACQUIRE));
}

/* Bytes at a place of the ring, whose end is followed by its begin. */
static void shared_copy_in(struct gy_net_shared *s, struct shared_peer *p, const void *from,
                           size_t bytes)
{
    const size_t at = (size_t)p->written & (s->room - 1);
    const size_t first = bytes < s->room - at ? bytes : s->room - at;
    if (bytes > 0) {
        memcpy(p->out->bytes + at, from, first);
        memcpy(p->out->bytes, (const unsigned char *)from + first, bytes - first);
    }
    p->written += shared_padded(bytes);
}

/* What was copied in can be read from here on. */
static void shared_publish(struct shared_peer *p)
{
    __atomic_store_n(&p->out->written, p->written, __ATOMIC_RELEASE);
}

static void shared_announce(struct gy_net_shared *s, struct shared_peer *p)
{
    for (; p->unsaid && shared_space(s, p) >= sizeof(struct shared_frame);
         p->unsaid = p->unsaid->next) {
        const struct shared_frame frame = { .kind = SHARED_WANT, .tag = p->unsaid->tag };
        shared_copy_in(s, p, &frame, sizeof frame);
        shared_publish(p);
    }
}

/* The oldest message whose receive was announced; NULL: none. */
static struct gy_net_request *shared_next(struct shared_peer *p)
{
    for (struct gy_net_request *r = p->sends.first; r; r = r->next) {
        struct gy_net_tag *const tag = gy_net_tags_find(&p->tags, r->tag);
        if (tag->sent < tag->wanted) {
            tag->sent++;
            return r;
        }
    }
    return NULL;
}

/* One piece of the message under way. Returns 0 when there is none, or no room for it. */
static int shared_send_piece(struct gy_net_shared *s, struct shared_peer *p)
{
    const size_t head = sizeof(struct shared_frame), space = shared_space(s, p);
    if (!p->sending) {
        p->sending = shared_next(p);
        p->out_done = 0;
    }
    struct gy_net_request *const r = p->sending;
    const size_t left = r ? r->bytes - p->out_done : 0;
    if (!r || space < head + shared_min(shared_padded(left), SHARED_SMALL))
        return 0;
    const size_t piece = shared_min(shared_min(left, SHARED_PIECE), space - head);
    const struct shared_frame frame = { SHARED_PIECE_OF, r->tag, piece, r->bytes };
    shared_copy_in(s, p, &frame, sizeof frame);
    shared_copy_in(s, p, (const unsigned char *)r->buffer + p->out_done, piece);
    shared_publish(p);
    p->out_done += piece;
    if (p->out_done == r->bytes) {
        shared_end(&p->sends, r, GY_NET_DONE);
        p->sending = NULL;
    }
    return 1;
}

/* ---- reading ---- */

static void shared_copy_out(const struct gy_net_shared *s, struct shared_peer *p, void *to,
                            size_t bytes)
{
    const size_t at = (size_t)p->read & (s->room - 1);
    const size_t first = bytes < s->room - at ? bytes : s->room - at;
    if (bytes > 0) {
        memcpy(to, p->in->bytes + at, first);
        memcpy((unsigned char *)to + first, p->in->bytes, bytes - first);
    }
    p->read += shared_padded(bytes);
}

static int shared_wanted(struct gy_net_shared *s, struct shared_peer *p, uint32_t name,
                         struct gy_error *err)
{
    struct gy_net_tag *const tag = gy_net_tags_take(&p->tags, name, &s->alloc);
    if (!tag)
        return GY_NOMEM(err, "the tags of messages", sizeof *tag);
    tag->wanted++;
    return GY_OK;
}

/* The receive that a first piece belongs to: the oldest of its tag. */
static int shared_begin(struct gy_net_shared *s, struct shared_peer *p,
                        const struct shared_frame *f, struct gy_error *err)
{
    struct gy_net_request *r = p->receives.first;
    while (r && r->tag != f->tag)
        r = r->next;
    if (!r || r->bytes != f->total)
        return GY_FAIL(err, GY_E_PEER, "rank %d sent rank %d %" PRIu64 " bytes (tag %08" PRIx32
                       ") where %zu were expected", p->rank, s->config.rank, f->total, f->tag,
                       r ? r->bytes : 0);
    p->filling = r;
    p->in_done = 0;
    return GY_OK;
}

static int shared_take_piece(struct gy_net_shared *s, struct shared_peer *p,
                             const struct shared_frame *f, struct gy_error *err)
{
    if (!p->filling)
        GY_TRY(shared_begin(s, p, f, err));
    struct gy_net_request *const r = p->filling;
    if (f->tag != r->tag || f->piece > r->bytes - p->in_done || f->piece > SHARED_PIECE)
        return GY_FAIL(err, GY_E_PEER, "the memory of rank %d and rank %d is damaged", p->rank,
                       s->config.rank);
    shared_copy_out(s, p, (unsigned char *)r->buffer + p->in_done, (size_t)f->piece);
    p->in_done += (size_t)f->piece;
    if (p->in_done < r->bytes)
        return GY_OK;
    shared_end(&p->receives, r, GY_NET_DONE);
    p->filling = NULL;
    return GY_OK;
}

/* One frame. Returns 1, 0 when there is none, or a status. */
static int shared_read_frame(struct gy_net_shared *s, struct shared_peer *p, struct gy_error *err)
{
    struct shared_frame frame;
    if (__atomic_load_n(&p->in->written, __ATOMIC_ACQUIRE) == p->read)
        return 0;
    shared_copy_out(s, p, &frame, sizeof frame);
    const int status = frame.kind == SHARED_WANT ? shared_wanted(s, p, frame.tag, err)
                                                 : shared_take_piece(s, p, &frame, err);
    __atomic_store_n(&p->in->read, p->read, __ATOMIC_RELEASE);
    return status == GY_OK ? 1 : status;
}

/* ---- the transport ---- */

static int shared_progress(void *self, struct gy_error *err)
{
    struct gy_net_shared *const s = self;
    for (int k = 0; k < s->config.locals; k++) {
        struct shared_peer *const p = &s->peers[k];
        int read = 1, sent = 1;
        while (p->out && (read > 0 || sent > 0)) {
            shared_announce(s, p);
            sent = shared_send_piece(s, p);
            read = shared_read_frame(s, p, err);
            if (read < 0)
                return read;
        }
    }
    return GY_OK;
}

static void shared_lose(struct gy_net_request_list *list)
{
    while (list->first)
        shared_end(list, list->first, GY_NET_LOST);
}

static void shared_cancel(void *self, int peer)
{
    struct gy_net_shared *const s = self;
    for (int k = 0; k < s->config.locals; k++) {
        struct shared_peer *const p = &s->peers[k];
        if (!p->out || (peer >= 0 && p->rank != peer))
            continue;
        shared_lose(&p->sends);
        shared_lose(&p->receives);
        p->unsaid = p->sending = p->filling = NULL;
    }
}

static const struct gy_net_transport shared_transport = {
    shared_post, shared_progress, shared_cancel, "shared", 0, 0
};

GY_INT int gy_net_shared_has(const struct gy_net_shared *s, int rank)
{
    return s && rank >= 0 && rank < s->config.ranks && s->local[rank] >= 0;
}

GY_INT void gy_net_shared_end(struct gy_net_shared *s, struct gy_net_end *out)
{
    *out = (struct gy_net_end) {
        .transport = &shared_transport, .self = s, .rank = s->config.rank, .ranks = s->config.ranks
    };
}

GY_INT int gy_net_shared_open(struct gy_net_shared **out, const struct gy_net_shared_config *config,
                              const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_shared *const s = gy_alloc_take(alloc, 1, sizeof *s);
    if (!s)
        return GY_NOMEM(err, "messages in shared memory", sizeof *s);
    *s = (struct gy_net_shared) { .alloc = *alloc,
                                  .config = *config,
                                  .room = shared_room(config->locals) };
    s->local = gy_alloc_take(alloc, (size_t)config->ranks, sizeof *s->local);
    s->peers = gy_alloc_take(alloc, (size_t)config->locals, sizeof *s->peers);
    if (!s->local || !s->peers) {
        gy_net_shared_close(s);
        return GY_NOMEM(err, "messages in shared memory",
                        (size_t)config->locals * sizeof *s->peers);
    }
    memcpy(s->local, config->local, (size_t)config->ranks * sizeof *s->local);
    const int own = s->local[config->rank];
    for (int r = 0; r < config->ranks; r++) {
        const int k = s->local[r];
        if (k < 0 || k == own)
            continue;
        s->peers[k] = (struct shared_peer) { .rank = r,
                                             .out = shared_ring(s, own, k),
                                             .in = shared_ring(s, k, own) };
    }
    *out = s;
    return GY_OK;
}

GY_INT void gy_net_shared_close(struct gy_net_shared *s)
{
    if (!s)
        return;
    const struct gy_alloc alloc = s->alloc;
    if (s->peers)
        shared_cancel(s, -1);
    for (int k = 0; k < s->config.locals && s->peers; k++)
        gy_net_tags_free(&s->peers[k].tags, &alloc);
    gy_alloc_free(&alloc, s->peers, (size_t)s->config.locals * sizeof *s->peers);
    gy_alloc_free(&alloc, s->local, (size_t)s->config.ranks * sizeof *s->local);
    gy_alloc_free(&alloc, s, sizeof *s);
}
