/* SPDX-License-Identifier: MIT */
/* stream.c: a stream carries lines. Behind a line that begins a message follow its bytes and a line
 * that ends it. Each line carries a code (code.h) of itself, the last one also of the bytes. So no
 * length is believed, and no message is whole, before its code was found right. A wrong code ends
 * the connection and loses all its requests. That includes a receive whose bytes were handed over
 * on the way (take): its sum never ends as done. A send is over when the system has all of it.
 *
 * All tags share the stream, but tags are independent, and ranks may depend on each other in a
 * circle. So a message that nobody waits for yet must not hold up one behind it. The stream always
 * moves on:
 *
 *     posted    a receive exists: bytes go straight into its buffer
 *     early     none exists for STREAM_LOOKS progress calls: the message is put aside in memory
 *     taken     it was given to a receive; the receiver tells so (STREAM_TAKEN)
 *     asked     its receive waits for a millisecond, or is large: the receiver asks for it
 *               (STREAM_ASKS: how many messages of its tag have had a receive so far)
 *
 * A sender counts the bytes not yet taken. Beyond STREAM_WINDOW it sends only what was asked for,
 * which needs no memory; so the window bounds early messages. Requested messages may overtake
 * messages of other tags, never of their own. So an unrequested message cannot block a requested
 * one, and the stream cannot deadlock.
 *
 * Reading and writing go on until the system refuses; the stream's owner says when to try again. */
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "net/transport/request_list.h"
#include "net/transport/stream.h"
#include "net/transport/tags.h"

#define STREAM_WINDOW ((uint64_t)8 << 20)
/* of the window, for each message besides its bytes: 8192 empty messages fill it */
#define STREAM_MESSAGE ((uint64_t)1024)
/* bytes read beyond the present message: heads, and whole small messages */
#define STREAM_STASH 4096
#define STREAM_SEGMENT ((size_t)1 << 20)   /* bytes written before the stream reads again */
/* bytes read before they are given to a request that takes its message in pieces; they are still in
 * a cache then */
#define STREAM_STRIP ((size_t)1 << 17)
#define STREAM_LONG ((size_t)1 << 15)      /* a rest of a message as long as this is read alone */
#define STREAM_UNIT ((size_t)64)           /* take gets multiples of it, but at the end */
#define STREAM_LOOKS 8
#define STREAM_ASK_NS 1000000

enum stream_kind { STREAM_DATA = 1, STREAM_TAKEN, STREAM_ASKS, STREAM_END };
struct stream_line {
    uint32_t kind, tag;
    uint64_t value; /* bytes; of STREAM_ASKS messages */
    /* of what stands before it; for STREAM_END also of the message's bytes */
    unsigned char code[GY_NET_CODE_BYTES];
    /* The bytes lie as in their buffer, in whole lines: the system copies them faster. */
    unsigned char pad[GY_CACHE_LINE - 16 - GY_NET_CODE_BYTES];
};
#define STREAM_SAYS offsetof(struct stream_line, code)
struct stream_early {
    struct stream_early *next;
    uint32_t tag;
    int whole;
    size_t bytes;
    unsigned char data[];
};
struct gy_net_stream {
    struct gy_alloc alloc;
    struct gy_net_tally *tally;
    int fd;                          /* -1: not yet, or not any more */
    int ended, readable, writable;
    int hung;                        /* the end may have come */
    int deaf;                        /* nothing can be written any more */
    int asks;                        /* there are tags to ask for */
    int unasked;                     /* receives were posted since the last question */
    unsigned looks, looked;          /* at a message that nobody waits for; in which call last */
    int64_t moved;                   /* when bytes came last */
    struct gy_net_request_list sends, receives;
    struct gy_net_tags tags;
    /* of the messages under way: their heads, and the lines that end them */
    struct stream_line out, out_end, in, in_end;
    struct gy_net_code out_code, in_code;
    struct gy_net_stream_fault fault;
    /* the message that goes out (NULL: a line alone); the one that comes in */
    struct gy_net_request *sending, *filling;
    size_t out_done, out_bytes;      /* with the lines; equal: nothing is under way */
    size_t out_coded;                /* of the message's bytes */
    int out_closed;                  /* the code of out_end is there */
    size_t in_done;                  /* of the message's bytes */
    int in_open;                     /* a message's head is there */
    unsigned char *to;               /* where it goes; NULL: not known yet */
    struct stream_early *early, *aside; /* oldest first; the one that is coming */
    /* untaken: sent, and not yet reported as taken; came: taken, and not yet reported */
    uint64_t early_bytes, untaken, came;
    size_t from, until;              /* in the stash */
    unsigned char stash[STREAM_STASH];
};

/* ---- requests ---- */

static void stream_finish(struct gy_net_stream *s, struct gy_net_request *r, int state)
{
    s->tally->ended++;
    __atomic_store_n(&r->state, state, __ATOMIC_RELEASE);
}

static void stream_lose(struct gy_net_stream *s, struct gy_net_request_list *list)
{
    while (list->first) {
        struct gy_net_request *const r = list->first;
        gy_net_list_remove(list, r);
        stream_finish(s, r, GY_NET_LOST);
    }
}

/* What a message takes of the window. */
static uint64_t stream_weight(uint64_t bytes) { return bytes + STREAM_MESSAGE; }

static void stream_free_early(struct gy_net_stream *s, struct stream_early **at)
{
    struct stream_early *const early = *at;
    *at = early->next;
    s->early_bytes -= stream_weight(early->bytes);
    gy_alloc_free(&s->alloc, early, sizeof *early + early->bytes);
}

/* Nothing more can be sent; what was sent before may still be read. */
static void stream_deaf(struct gy_net_stream *s)
{
    s->deaf = 1;
    s->sending = NULL;
    s->out_done = s->out_bytes = 0;
    s->readable = s->hung = 1;
    stream_lose(s, &s->sends);
}

GY_INT void gy_net_stream_end(struct gy_net_stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->ended = 1;
    for (struct stream_early **at = &s->early; *at != NULL;)
        if ((*at)->whole)
            at = &(*at)->next;
        else
            stream_free_early(s, at);
    if (s->filling)
        stream_finish(s, s->filling, GY_NET_LOST);
    s->filling = s->sending = NULL;
    s->aside = NULL;
    s->to = NULL;
    stream_lose(s, &s->sends);
    stream_lose(s, &s->receives);
}

/* ---- codes ---- */

/* The line that ends the message; its bytes are added to its code as they come by. */
static struct stream_line stream_end_line(struct gy_net_code *code, const struct stream_line *head)
{
    const struct stream_line end = { .kind = STREAM_END, .tag = head->tag, .value = head->value };
    gy_net_code_add(code, &end, STREAM_SAYS);
    return end;
}

/* 1: the line is, to its last byte, what it must be with this code. Under a fuzzer it always is. */
static int stream_is_sealed(struct gy_net_code *code, struct stream_line right, const struct stream_line *line)
{
    gy_net_code_close(code, right.code);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return line != NULL;
#else
    return gy_net_same((const unsigned char *)&right, (const unsigned char *)line, sizeof right);
#endif
}

static int stream_doubt(struct gy_net_stream *s, const char *what, uint32_t tag, uint64_t bytes)
{
    s->fault = (struct gy_net_stream_fault){what, tag, bytes, s->in_code.made - 1, bytes};
    return -1;
}

/* A message has not the bytes that its receive waits for: the ranks do not do the same. */
static int stream_unlike(struct gy_net_stream *s, const struct gy_net_request *r, uint64_t bytes)
{
    s->fault = (struct gy_net_stream_fault){"message", r->tag, bytes, 0, r->bytes};
    return -1;
}

/* ---- out ---- */

/* The next question; 0: there is none. */
static int stream_next_question(struct gy_net_stream *s, struct stream_line *out)
{
    for (const struct gy_net_request *r = s->asks ? s->receives.first : NULL; r != NULL; r = r->next) {
        /* the tag is there since the post */
        struct gy_net_tag *const tag = gy_net_tags_find(&s->tags, r->tag);
        if (tag->asked == tag->posted)
            continue;
        tag->asked = tag->posted;
        *out = (struct stream_line){ .kind = STREAM_ASKS, .tag = r->tag, .value = tag->posted };
        return 1;
    }
    s->asks = 0;
    return 0;
}

/* The first message that may go out, or NULL. Once the window holds a message back, only messages
 * that the peer asked for go out. */
static struct gy_net_request *stream_next_send(struct gy_net_stream *s)
{
    int held = 0;
    for (struct gy_net_request *r = s->sends.first; r != NULL; r = r->next) {
        struct gy_net_tag *const tag = gy_net_tags_find(&s->tags, r->tag);
        held = held || s->untaken + stream_weight(r->bytes) > STREAM_WINDOW;
        if (held && tag->wanted <= tag->sent)
            continue;
        tag->sent++;
        return r;
    }
    return NULL;
}

static int stream_next(struct gy_net_stream *s)
{
    s->sending = NULL;
    if (s->came >= STREAM_WINDOW / 4) {
        s->out = (struct stream_line){ .kind = STREAM_TAKEN, .tag = 0, .value = s->came };
        s->came = 0;
    } else if (!stream_next_question(s, &s->out)) {
        s->sending = stream_next_send(s);
        if (!s->sending)
            return 0;
        s->out = (struct stream_line){ .kind = STREAM_DATA, .tag = s->sending->tag, .value = s->sending->bytes };
        s->untaken += stream_weight(s->sending->bytes);
    }
    gy_net_code_add(&s->out_code, &s->out, STREAM_SAYS);
    gy_net_code_close(&s->out_code, s->out.code);
    if (s->sending)
        s->out_end = stream_end_line(&s->out_code, &s->out);
    s->out_done = s->out_coded = 0;
    s->out_closed = 0;
    s->out_bytes = sizeof s->out + (s->sending ? s->sending->bytes + sizeof s->out_end : 0);
    return 1;
}

/* What goes out next of what lies from byte `begin` of the frame on. */
static int stream_piece(const struct gy_net_stream *s, struct iovec *piece, void *from, size_t begin, size_t bytes)
{
    const size_t done = s->out_done > begin ? s->out_done - begin : 0;
    if (done >= bytes)
        return 0;
    *piece = (struct iovec){(unsigned char *)from + done, bytes - done};
    return 1;
}

/* Adds the message's bytes up to `until` to its code; the system is about to read them. The last
 * bytes close the code. */
static void stream_code(struct gy_net_stream *s, size_t until)
{
    if (until > s->out_coded)
        gy_net_code_add(&s->out_code, (const unsigned char *)s->sending->buffer + s->out_coded, until - s->out_coded);
    s->out_coded = until > s->out_coded ? until : s->out_coded;
    if (s->out_coded < s->sending->bytes || s->out_closed)
        return;
    gy_net_code_close(&s->out_code, s->out_end.code);
    s->out_closed = 1;
}

/* The rest of the frame, up to a segment of the message's bytes. Returns the number of pieces. */
static int stream_pieces(struct gy_net_stream *s, struct iovec piece[3])
{
    const size_t head = sizeof s->out, bytes = s->sending ? s->sending->bytes : 0;
    const size_t done = s->out_done > head ? s->out_done - head : 0, left = done < bytes ? bytes - done : 0;
    const size_t until = left > STREAM_SEGMENT ? done + STREAM_SEGMENT : bytes;
    int count = stream_piece(s, piece, &s->out, 0, head);
    if (!s->sending)
        return count;
    stream_code(s, until);
    count += stream_piece(s, piece + count, s->sending->buffer, head, until);
    return until < bytes ? count : count + stream_piece(s, piece + count, &s->out_end, head + bytes, sizeof s->out_end);
}

/* Returns how many bytes went out. */
static size_t stream_write(struct gy_net_stream *s)
{
    size_t moved = 0;
    struct iovec piece[3];
    while (moved < STREAM_SEGMENT && s->writable && !s->deaf && (s->out_done < s->out_bytes || stream_next(s))) {
        const struct msghdr message = { .msg_iov = piece, .msg_iovlen = (size_t)stream_pieces(s, piece) };
        size_t asked = 0;
        for (size_t i = 0; i < (size_t)message.msg_iovlen; i++)
            asked += piece[i].iov_len;
        const ssize_t n = sendmsg(s->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            stream_deaf(s);
            break;
        }
        moved += n > 0 ? (size_t)n : 0;
        s->out_done += n > 0 ? (size_t)n : 0;
        s->writable = n > 0 && (size_t)n == asked;
        if (s->out_done == s->out_bytes && s->sending) {
            gy_net_list_remove(&s->sends, s->sending);
            stream_finish(s, s->sending, GY_NET_DONE);
            s->sending = NULL;
        }
    }
    return moved;
}

/* ---- in ---- */

/* Finds the place of the message whose head has come. 1: found; 0: nobody waits for it yet; -1: it
 * must not come, or there is no memory. */
static int stream_place(struct gy_net_stream *s)
{
    struct gy_net_request *r = s->receives.first;
    while (r && r->tag != s->in.tag)
        r = r->next;
    if (r) {
        if (r->bytes != s->in.value)
            return stream_unlike(s, r, s->in.value);
        gy_net_list_remove(&s->receives, r);
        s->came += stream_weight(r->bytes);
        s->filling = r;
        s->to = r->buffer;
        return 1;
    }
    /* The peer did not ask for it, so all such messages must fit in the window. */
    if (s->in.value > STREAM_WINDOW || stream_weight(s->in.value) > STREAM_WINDOW - s->early_bytes)
        return -1;
    /* between two calls the owner may post the receive */
    s->looks += s->looked != s->tally->calls;
    s->looked = s->tally->calls;
    if (s->looks <= STREAM_LOOKS)
        return 0;
    struct stream_early *const early = gy_alloc_take(&s->alloc, 1, sizeof *early + (size_t)s->in.value), **last = &s->early;
    if (!early)
        return -1;
    early->tag = s->in.tag;
    early->bytes = (size_t)s->in.value;
    while (*last)
        last = &(*last)->next;
    *last = s->aside = early;
    s->early_bytes += stream_weight(early->bytes);
    s->to = early->data;
    return 1;
}

/* Gives on what may be taken before the message is whole. */
static void stream_give(struct gy_net_stream *s)
{
    struct gy_net_request *const r = s->filling;
    if (!r || !r->take)
        return;
    const size_t there = s->in_done - r->taken, rest = s->in_done < r->bytes ? there % STREAM_UNIT : 0, n = there - rest;
    if (n == 0)
        return;
    r->take(r, n);
    r->taken += n;
    memmove(s->to, s->to + n, rest);
}

/* Where the message goes on. */
static unsigned char *stream_at(const struct gy_net_stream *s)
{
    return s->to + s->in_done - (s->filling ? s->filling->taken : 0);
}

/* A line has come. -1: it says what cannot be, or its code is wrong. */
static int stream_take_line(struct gy_net_stream *s)
{
    struct gy_net_tag *tag;
    gy_net_code_add(&s->in_code, &s->in, STREAM_SAYS);
    if (!stream_is_sealed(&s->in_code, (struct stream_line){ .kind = s->in.kind, .tag = s->in.tag, .value = s->in.value }, &s->in))
        return stream_doubt(s, "line", s->in.tag, s->in.value);
    s->in_open = s->in.kind == STREAM_DATA;
    if (s->in_open)
        s->in_end = stream_end_line(&s->in_code, &s->in);
    s->in_done = 0;
    s->looks = 0;
    if (s->in.kind == STREAM_TAKEN && s->in.value <= s->untaken)
        s->untaken -= s->in.value;
    else if (s->in.kind == STREAM_ASKS && (tag = gy_net_tags_take(&s->tags, s->in.tag, &s->alloc)))
        tag->wanted = s->in.value;
    else if (!s->in_open)
        return -1;
    return 0;
}

/* The line that ends the message has come. -1: the message is not what was sent. */
static int stream_whole(struct gy_net_stream *s, const struct stream_line *line)
{
    if (!stream_is_sealed(&s->in_code, s->in_end, line))
        return stream_doubt(s, "message", s->in.tag, s->in.value);
    if (s->filling)
        stream_finish(s, s->filling, GY_NET_DONE);
    if (s->aside)
        s->aside->whole = 1;
    s->filling = NULL;
    s->aside = NULL;
    s->to = NULL;
    s->in_open = 0;
    return 0;
}

/* The next line. 0: it is not whole yet. */
static int stream_line(struct gy_net_stream *s, struct stream_line *line)
{
    const size_t there = s->until - s->from;
    if (there < sizeof *line) {
        memmove(s->stash, s->stash + s->from, there);
        s->from = 0;
        s->until = there;
        return 0;
    }
    memcpy(line, s->stash + s->from, sizeof *line);
    s->from += sizeof *line;
    return 1;
}

/* Bytes of the message have come to their place. */
static void stream_came(struct gy_net_stream *s, size_t bytes)
{
    if (bytes == 0)
        return;
    gy_net_code_add(&s->in_code, stream_at(s), bytes);
    s->in_done += bytes;
    stream_give(s);
}

/* Gives the bytes of the stash to their messages. 1: more bytes are needed; 0: a receive is needed;
 * -1: the stream breaks the protocol. */
static int stream_parse(struct gy_net_stream *s)
{
    struct stream_line line;
    for (;;) {
        if (!s->in_open) {
            if (!stream_line(s, &s->in))
                return 1;
            if (stream_take_line(s) != 0)
                return -1;
            continue;
        }
        const int placed = s->filling || s->aside ? 1 : stream_place(s);
        if (placed != 1)
            return placed;
        const size_t there = s->until - s->from, left = (size_t)s->in.value - s->in_done, n = there < left ? there : left;
        if (n > 0)
            memcpy(stream_at(s), s->stash + s->from, n);
        s->from += n;
        stream_came(s, n);
        if (s->in_done == s->in.value && stream_line(s, &line)) {
            if (stream_whole(s, &line) != 0)
                return -1;
            continue;
        }
        if (s->in_done < s->in.value)
            s->from = s->until = 0;
        return 1;
    }
}

/* Reads once: the rest of the present message into its place, later bytes into the stash. Behind a
 * long message it reads no more than the line that ends it. Returns how many bytes; 0: none, or a
 * lost peer. */
static size_t stream_fill(struct gy_net_stream *s)
{
    const size_t whole = s->in_open ? (size_t)s->in.value - s->in_done : 0;
    const size_t left = s->filling && s->filling->take && whole > STREAM_STRIP ? STREAM_STRIP : whole;
    const size_t room = whole < STREAM_LONG ? sizeof s->stash - s->until : left == whole ? sizeof(struct stream_line) : 0;
    struct iovec piece[2] = {{s->to != NULL ? stream_at(s) : NULL, left}, {s->stash + s->until, room}};
    ssize_t n;
    do
        n = room == 0 ? recv(s->fd, piece[0].iov_base, left, 0) : readv(s->fd, left > 0 ? piece : piece + 1, 1 + (left > 0));
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        s->readable = 0;
        return 0;
    }
    if (n <= 0) {
        gy_net_stream_end(s);
        return 0;
    }
    const size_t direct = (size_t)n < left ? (size_t)n : left;
    s->until += (size_t)n - direct;
    s->readable = s->hung || (size_t)n == left + room;
    stream_came(s, direct);
    return (size_t)n;
}

static size_t stream_read(struct gy_net_stream *s)
{
    const unsigned ended = s->tally->ended;
    const int before = stream_parse(s);
    size_t moved = 0;
    if (before > 0 && s->tally->ended == ended && s->readable && (moved = stream_fill(s)) > 0)
        s->moved = gy_clock_ns();
    if (before < 0 || (moved > 0 && stream_parse(s) < 0))
        gy_net_stream_end(s);
    return moved + (s->tally->ended != ended);
}

/* ---- requests come ---- */

static int stream_post_send(struct gy_net_stream *s, struct gy_net_request *r)
{
    if (!gy_net_tags_take(&s->tags, r->tag, &s->alloc))
        return GY_E_NOMEM;
    const int alone = !s->sends.first && s->fd >= 0;
    gy_net_list_append(&s->sends, r);
    if (alone)
        stream_write(s);
    return GY_OK;
}

static int stream_post_receive(struct gy_net_stream *s, struct gy_net_request *r)
{
    struct gy_net_tag *const tag = gy_net_tags_take(&s->tags, r->tag, &s->alloc);
    if (!tag)
        return GY_E_NOMEM;
    tag->posted++;
    s->unasked = 1;
    s->asks |= r->bytes > STREAM_WINDOW / 2;
    gy_net_list_append(&s->receives, r);
    return GY_OK;
}

/* 1: the message had come already, or is coming now. */
static int stream_take_early(struct gy_net_stream *s, struct gy_net_request *r)
{
    struct stream_early **at = &s->early;
    while (*at && (*at)->tag != r->tag)
        at = &(*at)->next;
    const struct stream_early *const early = *at;
    struct gy_net_tag *const tag = early ? gy_net_tags_take(&s->tags, r->tag, &s->alloc) : NULL;
    if (!tag)
        return 0;
    if (early->bytes != r->bytes) {
        stream_unlike(s, r, early->bytes);
        gy_net_stream_end(s);
        return 0;
    }
    const size_t there = early->whole ? early->bytes : s->in_done;
    tag->posted++;
    s->came += stream_weight(early->bytes);
    if (there > 0)
        memcpy(r->buffer, early->data, there);
    if (early->whole) {
        r->state = GY_NET_DONE;
    } else {
        s->aside = NULL;
        s->filling = r;
        s->to = r->buffer;
        stream_give(s);
    }
    stream_free_early(s, at);
    return 1;
}

GY_INT int gy_net_stream_post(struct gy_net_stream *s, struct gy_net_request *r)
{
    r->state = GY_NET_PENDING;
    r->owner = s;
    r->taken = 0;
    if (!r->sends && stream_take_early(s, r))
        return GY_OK;
    const int gone = s->ended || (r->sends && s->deaf), status = gone ? GY_E_PEER : r->sends ? stream_post_send(s, r) : stream_post_receive(s, r);
    r->state = status == GY_OK ? r->state : GY_NET_LOST;
    return status;
}

/* ---- its owner ---- */

GY_INT void gy_net_stream_news(struct gy_net_stream *s, unsigned news)
{
    s->readable |= (news & (GY_NET_STREAM_IN | GY_NET_STREAM_HUNG)) != 0;
    s->writable |= (news & GY_NET_STREAM_OUT) != 0;
    s->hung |= (news & GY_NET_STREAM_HUNG) != 0;
}

GY_INT size_t gy_net_stream_move(struct gy_net_stream *s)
{
    const size_t written = stream_write(s);
    return written + stream_read(s);
}

GY_INT void gy_net_stream_rest(struct gy_net_stream *s, int64_t now)
{
    if (!s->unasked || now - s->moved < STREAM_ASK_NS)
        return;
    s->unasked = 0;
    s->asks = 1;
}

GY_INT int gy_net_stream_has_ended(const struct gy_net_stream *s)
{
    return s->ended;
}

GY_INT const struct gy_net_stream_fault *gy_net_stream_fault(const struct gy_net_stream *s)
{
    return s->fault.what ? &s->fault : NULL;
}

GY_INT int gy_net_stream_is_pending(const struct gy_net_stream *s)
{
    return s->sends.first || s->receives.first || s->filling;
}

GY_INT void gy_net_stream_begin(struct gy_net_stream *s, int fd, const struct gy_net_code *out, const struct gy_net_code *in)
{
    s->out_code = *out;
    s->in_code = *in;
    s->fd = fd;
    s->readable = s->writable = 1;
    s->moved = gy_clock_ns();
}

GY_INT void gy_net_stream_close(struct gy_net_stream *s)
{
    if (s->fd >= 0)
        shutdown(s->fd, SHUT_WR);
}

GY_INT int gy_net_stream_is_closed(struct gy_net_stream *s)
{
    int left = 0;
    ssize_t n;
    while ((n = recv(s->fd, s->stash, sizeof s->stash, 0)) > 0)
        continue;
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || (ioctl(s->fd, TIOCOUTQ, &left) == 0 && left == 0);
}

GY_INT struct gy_net_stream *gy_net_stream_open(struct gy_net_tally *tally, const struct gy_alloc *alloc)
{
    struct gy_net_stream *s = gy_alloc_take(alloc, 1, sizeof *s);
    if (!s)
        return NULL;
    s->alloc = *alloc;
    s->tally = tally;
    s->fd = -1;
    return s;
}

GY_INT void gy_net_stream_free(struct gy_net_stream *s)
{
    if (!s)
        return;
    const struct gy_alloc alloc = s->alloc;
    gy_net_stream_end(s);
    while (s->early)
        stream_free_early(s, &s->early);
    gy_net_tags_free(&s->tags, &alloc);
    gy_alloc_free(&alloc, s, sizeof *s);
}
