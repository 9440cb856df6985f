/* SPDX-License-Identifier: MIT */
/* sealed.c: each request has one or two of the inner transport's, kept in a record until they are
 * over. Messages of one tag keep their order, so the second has the tag of the first. Records are
 * used again; there are as many as requests were ever under way at once. */
#include "net/transport/sealed.h"
#include "net/transport/tags.h"

/* bytes that are copied, because a copy takes less time than a second message */
#define SEALED_SMALL ((size_t)4096)

struct sealed_work {
    struct sealed_work *next;
    struct gy_net_request *outer;
    struct gy_net_request part[2];
    int parts;
    uint64_t number;                /* of the messages with its tag */
    unsigned char word[GY_NET_CODE_BYTES], room[SEALED_SMALL + GY_NET_CODE_BYTES];
};
struct gy_net_sealed {
    struct gy_alloc alloc;
    struct gy_net_sealed_config config;
    struct gy_net_transport transport;
    struct gy_net_tags *tags;       /* [ranks] */
    struct sealed_work *pending, *spare;
    struct gy_net_fault fault;
};

/* ---- words ---- */

static void sealed_word(const struct gy_net_sealed *s, const struct sealed_work *w, unsigned char word[GY_NET_CODE_BYTES])
{
    static const char use[] = "message";
    const struct gy_net_request *const r = w->outer;
    const uint64_t own = (uint64_t)s->config.inner.rank, peer = (uint64_t)r->peer;
    const uint64_t head[] = {r->sends ? own : peer, r->sends ? peer : own, r->tag, w->number, r->bytes};
    const uint32_t crc = s->config.code == GY_NET_CODE_CRC ? gy_crc32c(0, r->buffer, r->bytes) : 0;
    const struct gy_net_part parts[] = {{use, sizeof use}, {head, sizeof head}, {&crc, sizeof crc}, {r->buffer, r->bytes}};
    gy_net_hmac(s->config.key, parts, GY_COUNT(parts) - (s->config.code == GY_NET_CODE_CRC), word);
}

/* 1: a received message, which is whole, has the word that it must have. */
static int sealed_is_right(const struct gy_net_sealed *s, const struct sealed_work *w, const unsigned char *came)
{
    unsigned char right[GY_NET_CODE_BYTES];
    sealed_word(s, w, right);
    return gy_net_same(right, came, sizeof right);
}

/* ---- records ---- */

static struct sealed_work *sealed_take(struct gy_net_sealed *s)
{
    struct sealed_work *const w = s->spare ? s->spare : gy_alloc_take(&s->alloc, 1, sizeof *w);
    if (w && w == s->spare)
        s->spare = w->next;
    return w;
}

static void sealed_give_back(struct gy_net_sealed *s, struct sealed_work *w)
{
    w->next = s->spare;
    s->spare = w;
}

static int sealed_state(const struct sealed_work *w)
{
    int state = GY_NET_DONE;
    for (int i = 0; i < w->parts; i++) {
        const int part = __atomic_load_n(&w->part[i].state, __ATOMIC_ACQUIRE);
        if (part == GY_NET_PENDING)
            return part;
        state = part == GY_NET_LOST ? part : state;
    }
    return state;
}

static void sealed_note_fault(struct gy_net_sealed *s, const struct gy_net_request *r)
{
    if (s->fault.text[0] != 0)
        return;
    s->fault.tag = r->tag;
    snprintf(s->fault.text, sizeof s->fault.text, "rank %d got a message from rank %d by %s that is not what was sent (tag %08" PRIx32 ", %zu bytes)",
             s->config.inner.rank, r->peer, s->transport.name, r->tag, r->bytes);
}

/* The inner requests are over, with this state: so is the outer one. */
static void sealed_finish(struct gy_net_sealed *s, struct sealed_work *w, int state)
{
    struct gy_net_request *const r = w->outer;
    if (state == GY_NET_DONE && !r->sends) {
        if (w->parts == 1 && r->bytes > 0)
            memcpy(r->buffer, w->room, r->bytes);
        if (!sealed_is_right(s, w, w->parts == 1 ? w->room + r->bytes : w->word)) {
            sealed_note_fault(s, r);
            state = GY_NET_LOST;
        }
    }
    __atomic_store_n(&r->state, state, __ATOMIC_RELEASE);
}

static void sealed_look(struct gy_net_sealed *s)
{
    for (struct sealed_work **at = &s->pending; *at != NULL;) {
        struct sealed_work *const w = *at;
        const int state = sealed_state(w);
        if (state == GY_NET_PENDING) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        sealed_finish(s, w, state);
        sealed_give_back(s, w);
    }
}

/* ---- the transport ---- */

static void sealed_prepare(const struct gy_net_sealed *s, struct sealed_work *w)
{
    struct gy_net_request *const r = w->outer, part = { .sends = r->sends, .peer = r->peer, .tag = r->tag, .buffer = r->buffer, .bytes = r->bytes };
    w->parts = r->bytes > SEALED_SMALL ? 2 : 1;
    w->part[0] = w->part[1] = part;
    w->part[1].buffer = w->word;
    w->part[1].bytes = sizeof w->word;
    if (r->sends)
        sealed_word(s, w, w->word);
    if (w->parts == 2)
        return;
    w->part[0].buffer = w->room;
    w->part[0].bytes = r->bytes + sizeof w->word;
    if (r->sends && r->bytes > 0)
        memcpy(w->room, r->buffer, r->bytes);
    if (r->sends)
        memcpy(w->room + r->bytes, w->word, sizeof w->word);
}

static int sealed_post(void *self, struct gy_net_request *r, struct gy_error *err)
{
    struct gy_net_sealed *const s = self;
    const struct gy_net_end *const inner = &s->config.inner;
    struct gy_net_tag *const tag = gy_net_tags_take(&s->tags[r->peer], r->tag, &s->alloc);
    struct sealed_work *const w = tag ? sealed_take(s) : NULL;
    int status = GY_OK;
    r->state = GY_NET_LOST;
    if (!w)
        return GY_NOMEM(err, "the tags of messages", sizeof *w);
    w->outer = r;
    w->number = r->sends ? tag->sent++ : tag->posted++;
    sealed_prepare(s, w);
    for (int i = 0; i < w->parts && status == GY_OK; i++)
        status = inner->transport->post(inner->self, &w->part[i], err);
    if (status != GY_OK && w->parts == 2) /* the first one may be under way */
        inner->transport->cancel(inner->self, r->peer);
    if (status != GY_OK) {
        sealed_give_back(s, w);
        return status;
    }
    r->state = GY_NET_PENDING;
    w->next = s->pending;
    s->pending = w;
    return GY_OK;
}

static int sealed_progress(void *self, struct gy_error *err)
{
    struct gy_net_sealed *const s = self;
    const int status = s->config.inner.transport->progress(s->config.inner.self, err);
    sealed_look(s);
    return s->fault.text[0] == 0 ? status : GY_FAIL(err, GY_E_PEER, "%s", s->fault.text);
}

static void sealed_cancel(void *self, int peer)
{
    struct gy_net_sealed *const s = self;
    s->config.inner.transport->cancel(s->config.inner.self, peer);
    sealed_look(s);
}

/* ---- open and close ---- */

GY_INT int gy_net_sealed_open(struct gy_net_sealed **out, const struct gy_net_sealed_config *config, const struct gy_alloc *alloc,
                              struct gy_error *err)
{
    const struct gy_net_transport *const inner = config->inner.transport;
    struct gy_net_sealed *const s = gy_alloc_take(alloc, 1, sizeof *s);
    if (!s)
        return GY_NOMEM(err, "the check of messages", sizeof *s);
    s->alloc = *alloc;
    s->config = *config;
    s->transport = (struct gy_net_transport){sealed_post, sealed_progress, sealed_cancel, inner->name, inner->piece, inner->lanes};
    s->tags = gy_alloc_take(alloc, (size_t)config->inner.ranks, sizeof *s->tags);
    if (!s->tags) {
        gy_net_sealed_close(s);
        return GY_NOMEM(err, "the check of messages", (size_t)config->inner.ranks * sizeof *s->tags);
    }
    *out = s;
    return GY_OK;
}

GY_INT void gy_net_sealed_close(struct gy_net_sealed *s)
{
    if (!s)
        return;
    const struct gy_alloc alloc = s->alloc;
    if (s->pending)
        sealed_cancel(s, -1);
    for (struct sealed_work *w = s->spare, *next; w != NULL; w = next) {
        next = w->next;
        gy_alloc_free(&alloc, w, sizeof *w);
    }
    for (int r = 0; s->tags != NULL && r < s->config.inner.ranks; r++)
        gy_net_tags_free(&s->tags[r], &alloc);
    gy_alloc_free(&alloc, s->tags, (size_t)s->config.inner.ranks * sizeof *s->tags);
    gy_alloc_free(&alloc, s, sizeof *s);
}

GY_INT void gy_net_sealed_end(struct gy_net_sealed *s, struct gy_net_end *out)
{
    *out = s->config.inner;
    out->transport = &s->transport;
    out->self = s;
}

GY_INT const struct gy_net_fault *gy_net_sealed_fault(const struct gy_net_sealed *s)
{
    return &s->fault;
}
