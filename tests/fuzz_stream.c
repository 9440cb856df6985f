/* SPDX-License-Identifier: MIT */
/* fuzz_stream.c: the bytes on a connection of data. The input is a list of acts. A receive or a
 * send is posted. The peer sends a message, a line that is no message, a message's first line with
 * any length, or any bytes. One byte on its way is changed; waiting bytes are delivered in pieces.
 * A receive that is done has the bytes of the message that was sent as this one of its tag. Memory
 * is bounded; all ends. Codes are true where nothing was changed. The fuzzer's build takes all of
 * them, so there a change must only break nothing. */
#include "net/transport/stream.c"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())

enum { FUZZ_TAGS = 3, FUZZ_POSTS = 48, FUZZ_MESSAGE = 700, FUZZ_WIRE = 1 << 16 };
enum fuzz_act { FUZZ_RECEIVE, FUZZ_SEND, FUZZ_SENT, FUZZ_LINE, FUZZ_BEGIN, FUZZ_BYTES, FUZZ_CHANGE, FUZZ_MOVE, FUZZ_ACTS };
#define FUZZ_MEMORY ((int64_t)STREAM_WINDOW + (1 << 20))

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct fuzz_post {
    struct gy_net_request request;
    unsigned char *buffer; /* of exactly its bytes */
    int number;            /* of its tag */
};
struct fuzz_state {
    struct gy_net_stream *stream;
    struct gy_net_tally tally;
    struct gy_net_code code; /* the peer's */
    int peer;
    int64_t live, changed;   /* bytes taken of the hook; what came is not all what was sent */
    struct fuzz_post post[FUZZ_POSTS];
    int posts, received[FUZZ_TAGS], sent[FUZZ_TAGS];
    size_t sizes[FUZZ_TAGS][FUZZ_POSTS];
    unsigned char wire[FUZZ_WIRE];
    size_t waits;            /* bytes on the wire */
};
struct fuzz_text {
    const uint8_t *at, *end;
};

static uint32_t fuzz_take(struct fuzz_text *text, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes && text->at < text->end; i++)
        value = value << 8 | *text->at++;
    return value;
}

static void *fuzz_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct fuzz_state *f = user;
    f->live += (int64_t)new_bytes - (int64_t)old_bytes;
    FUZZ_REQUIRE(f->live >= 0 && f->live <= FUZZ_MEMORY);
    if (new_bytes)
        return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static unsigned char fuzz_byte(int tag, int number, size_t at) { return (unsigned char)(tag * 89 + number * 31 + (int)(at % 251)); }

/* ---- the peer ---- */

static void fuzz_put(struct fuzz_state *f, const void *bytes, size_t count)
{
    if (count > FUZZ_WIRE - f->waits)
        return;
    memcpy(f->wire + f->waits, bytes, count);
    f->waits += count;
}

static struct stream_line fuzz_sealed(struct gy_net_code *code, uint32_t kind, uint32_t tag, uint64_t value)
{
    struct stream_line line = { .kind = kind, .tag = tag, .value = value };
    gy_net_code_add(code, &line, STREAM_SAYS);
    gy_net_code_close(code, line.code);
    return line;
}

static void fuzz_message(struct fuzz_state *f, int tag, size_t size)
{
    unsigned char body[FUZZ_MESSAGE];
    const int number = f->sent[tag];
    if (number == FUZZ_POSTS || f->waits + size + 2 * sizeof(struct stream_line) > FUZZ_WIRE)
        return;
    const struct stream_line head = fuzz_sealed(&f->code, STREAM_DATA, (uint32_t)tag, size);
    struct stream_line end = { .kind = STREAM_END, .tag = (uint32_t)tag, .value = size };
    for (size_t i = 0; i < size; i++)
        body[i] = fuzz_byte(tag, number, i);
    gy_net_code_add(&f->code, &end, STREAM_SAYS);
    gy_net_code_add(&f->code, body, size);
    gy_net_code_close(&f->code, end.code);
    fuzz_put(f, &head, sizeof head);
    fuzz_put(f, body, size);
    fuzz_put(f, &end, sizeof end);
    f->sizes[tag][number] = size;
    f->sent[tag]++;
}

static void fuzz_line(struct fuzz_state *f, uint32_t kind, struct fuzz_text *text)
{
    const uint32_t tag = fuzz_take(text, 1);
    const uint64_t high = fuzz_take(text, 1) % 3 == 0 ? (uint64_t)fuzz_take(text, 4) << 32 : 0;
    const struct stream_line line = fuzz_sealed(&f->code, kind, tag, high | fuzz_take(text, 3));
    fuzz_put(f, &line, sizeof line);
    f->changed |= kind == STREAM_DATA;
}

/* ---- this end ---- */

static void fuzz_post(struct fuzz_state *f, int sends, int tag, size_t size)
{
    if (f->posts == FUZZ_POSTS)
        return;
    struct fuzz_post *const p = &f->post[f->posts++];
    p->buffer = calloc(size + (size == 0), 1);
    p->number = f->received[tag];
    p->request = (struct gy_net_request){ .sends = sends, .tag = (uint32_t)tag, .buffer = p->buffer, .bytes = size };
    FUZZ_REQUIRE(p->buffer != NULL);
    const int status = gy_net_stream_post(f->stream, &p->request);
    /* a refused request takes no message */
    f->received[tag] += !sends && p->request.state != GY_NET_LOST;
    FUZZ_REQUIRE(status == GY_OK ? p->request.state != GY_NET_LOST || f->stream->ended : p->request.state == GY_NET_LOST);
}

/* A finished receive must hold the message of its number. A message that the peer changed fails its
 * code; the fuzzer's build does not check codes. */
static void fuzz_done(const struct fuzz_state *f, const struct fuzz_post *p)
{
    const int tag = (int)p->request.tag;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (f->changed)
        return;
#endif
    FUZZ_REQUIRE(p->number < f->sent[tag] && f->sizes[tag][p->number] == p->request.bytes);
    for (size_t i = 0; i < p->request.bytes; i++)
        FUZZ_REQUIRE(p->buffer[i] == fuzz_byte(tag, p->number, i));
}

static void fuzz_check(const struct fuzz_state *f)
{
    for (int i = 0; i < f->posts; i++)
        if (!f->post[i].request.sends && f->post[i].request.state == GY_NET_DONE)
            fuzz_done(f, &f->post[i]);
    FUZZ_REQUIRE(f->stream->early_bytes <= STREAM_WINDOW && f->stream->until <= STREAM_STASH && f->stream->from <= f->stream->until);
}

/* Delivers the wire in pieces, and lets the stream move after each. */
static void fuzz_move(struct fuzz_state *f, size_t piece)
{
    unsigned char sent[4096];
    for (size_t at = 0; at < f->waits;) {
        const size_t some = f->waits - at < piece ? f->waits - at : piece;
        if (send(f->peer, f->wire + at, some, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)some)
            break;
        at += some;
        for (int i = 0; i < STREAM_LOOKS + 2 && !gy_net_stream_has_ended(f->stream); i++) {
            f->tally.calls++;
            gy_net_stream_news(f->stream, GY_NET_STREAM_IN | GY_NET_STREAM_OUT);
            if (gy_net_stream_move(f->stream) == 0 && i > 1 && !f->stream->in_open)
                break;
        }
    }
    f->waits = 0;
    while (recv(f->peer, sent, sizeof sent, MSG_DONTWAIT) > 0)
        continue;
    fuzz_check(f);
}

static void fuzz_act(struct fuzz_state *f, struct fuzz_text *text)
{
    unsigned char raw[64];
    const uint32_t act = fuzz_take(text, 1), kind = act % FUZZ_ACTS;
    const int tag = (int)(act / FUZZ_ACTS % FUZZ_TAGS);
    size_t at;
    switch (kind) {
    case FUZZ_RECEIVE:
    case FUZZ_SEND: fuzz_post(f, kind == FUZZ_SEND, tag, fuzz_take(text, 2) % FUZZ_MESSAGE); break;
    case FUZZ_SENT: fuzz_message(f, tag, fuzz_take(text, 2) % FUZZ_MESSAGE); break;
    case FUZZ_LINE: fuzz_line(f, tag == 0 ? STREAM_TAKEN : tag == 1 ? STREAM_ASKS : fuzz_take(text, 1), text); break;
    case FUZZ_BEGIN: fuzz_line(f, STREAM_DATA, text); break;
    case FUZZ_BYTES:
        for (at = 0; at < (size_t)(act / FUZZ_ACTS) * 2 && text->at < text->end; at++)
            raw[at] = *text->at++;
        fuzz_put(f, raw, at);
        f->changed |= at > 0;
        break;
    case FUZZ_CHANGE:
        at = fuzz_take(text, 2);
        if (f->waits > 0)
            f->wire[at % f->waits] ^= (unsigned char)(1 + fuzz_take(text, 1) % 255);
        f->changed |= f->waits > 0;
        break;
    default: fuzz_move(f, 1 + fuzz_take(text, 2) % 5000);
    }
}

static void fuzz_end(struct fuzz_state *f)
{
    fuzz_move(f, 1000);
    gy_net_stream_end(f->stream);
    for (int i = 0; i < f->posts; i++) {
        FUZZ_REQUIRE(f->post[i].request.state != GY_NET_PENDING);
        free(f->post[i].buffer);
    }
    gy_net_stream_free(f->stream);
    FUZZ_REQUIRE(f->live == 0);
    close(f->peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct fuzz_state f;
    const struct gy_alloc alloc = {fuzz_alloc, &f};
    const unsigned char key[GY_NET_KEY_BYTES] = {1, 2, 3};
    struct fuzz_text text = {bytes, bytes + count};
    struct gy_net_code out, in;
    int ends[2];
    if (count == 0 || count > 4096)
        return 0;
    memset(&f, 0, sizeof f);
    const enum gy_net_code_kind kind = fuzz_take(&text, 1) & 1 ? GY_NET_CODE_HMAC : GY_NET_CODE_CRC;
    FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    f.peer = ends[1];
    FUZZ_REQUIRE(ioctl(ends[0], FIONBIO, &(int){1}) == 0);
    gy_net_code_open(&out, kind, key);
    gy_net_code_open(&in, kind, key);
    gy_net_code_open(&f.code, kind, key);
    f.stream = gy_net_stream_open(&f.tally, &alloc);
    FUZZ_REQUIRE(f.stream != NULL);
    gy_net_stream_begin(f.stream, ends[0], &out, &in);
    for (int i = 0; i < 96 && text.at < text.end; i++)
        fuzz_act(&f, &text);
    fuzz_end(&f);
    return 0;
}
