/* SPDX-License-Identifier: MIT */
/* t_net_sealed.c: the check of messages on a transport that checks nothing. One of two ranks'
 * messages is changed, left out, repeated, swapped with another or made with another key, at
 * random. Whatever a receive believes is what was sent; the rest is named and lost. Without harm
 * all arrives, of any size and tag, in any order of receives. */
#include "engine/base/rng.h"
#include "net/transport/sealed.h"
#include "tests/t.h"

#define TL_MESSAGES 40
#define TL_TAGS 3
#define TL_MOST 9000
#define TL_TURNS 400
#define TL_HELD 256

enum tl_harm { TL_NONE, TL_BYTE, TL_OUT, TL_TWICE, TL_SWAP, TL_STRANGER, TL_HARMS };
static const char *const tl_harms[] = {"nothing", "a byte changed", "a message left out", "a message twice", "two messages swapped", "another key"};

/* ---- a transport that checks nothing ---- */

struct tl_message {
    uint32_t tag;
    int to;
    size_t bytes;
    unsigned char data[TL_MOST + 64];
};
static struct {
    struct tl_message held[TL_HELD];
    int count;
    struct gy_net_request *receives[2][TL_HELD]; /* of each rank, as they were posted */
    int waiting[2];
    int sent, harmed, at;                        /* at: which message the harm meets */
    enum tl_harm harm;
    uint32_t words[4];
} tl;

static void tl_push(int to, uint32_t tag, const void *bytes, size_t count)
{
    struct tl_message *const m = &tl.held[tl.count++];
    *m = (struct tl_message){ .tag = tag, .to = to, .bytes = count };
    memcpy(m->data, bytes, count);
}

/* Swaps the last message with the one before it of the same way, tag and size. */
static void tl_swap_last(void)
{
    static struct tl_message room;
    struct tl_message *const last = &tl.held[tl.count - 1];
    for (int i = tl.count - 2; i >= 0; i--)
        if (tl.held[i].to == last->to && tl.held[i].tag == last->tag && tl.held[i].bytes == last->bytes) {
            room = tl.held[i];
            tl.held[i] = *last;
            *last = room;
            tl.harmed = memcmp(room.data, tl.held[i].data, room.bytes) != 0;
            return;
        }
}

static int tl_post(void *self, struct gy_net_request *r, struct gy_error *err)
{
    const int rank = *(const int *)self;
    (void)err;
    r->state = GY_NET_PENDING;
    if (!r->sends) {
        tl.receives[rank][tl.waiting[rank]++] = r;
        return GY_OK;
    }
    r->state = GY_NET_DONE;
    const int now = tl.sent++ >= tl.at && !tl.harmed;
    tl_push(r->peer, r->tag, r->buffer, r->bytes);
    struct tl_message *const m = &tl.held[tl.count - 1];
    if (!now || tl.harm == TL_NONE || tl.harm == TL_STRANGER)
        return GY_OK;
    if (tl.harm == TL_SWAP) {
        tl_swap_last();
        return GY_OK;
    }
    tl.harmed = 1;
    if (tl.harm == TL_BYTE)
        m->data[tl.words[0] % m->bytes] ^= (unsigned char)(1u << tl.words[1] % 8);
    else if (tl.harm == TL_OUT)
        tl.count--;
    else
        tl_push(m->to, m->tag, m->data, m->bytes);
    return GY_OK;
}

/* The first message that fits. */
static int tl_meet(int rank, struct gy_net_request *r)
{
    for (int i = 0; i < tl.count; i++) {
        struct tl_message *const m = &tl.held[i];
        if (m->to != rank || m->tag != r->tag)
            continue;
        if (m->bytes == r->bytes)
            memcpy(r->buffer, m->data, m->bytes);
        r->state = m->bytes == r->bytes ? GY_NET_DONE : GY_NET_LOST;
        memmove(m, m + 1, (size_t)(--tl.count - i) * sizeof *m);
        return 1;
    }
    return 0;
}

static int tl_progress(void *self, struct gy_error *err)
{
    const int rank = *(const int *)self;
    int left = 0;
    (void)err;
    for (int i = 0; i < tl.waiting[rank]; i++)
        if (!tl_meet(rank, tl.receives[rank][i]))
            tl.receives[rank][left++] = tl.receives[rank][i];
    tl.waiting[rank] = left;
    return GY_OK;
}

static void tl_cancel(void *self, int peer)
{
    const int rank = *(const int *)self;
    (void)peer;
    for (int i = 0; i < tl.waiting[rank]; i++)
        tl.receives[rank][i]->state = GY_NET_LOST;
    tl.waiting[rank] = 0;
}

static const struct gy_net_transport tl_transport = {tl_post, tl_progress, tl_cancel, "post", 0, 0};
static int tl_ranks[2] = {0, 1};

/* ---- two ranks ---- */

struct tl_case {
    uint32_t tag;
    int from;
    size_t bytes;
    struct gy_net_request send, receive;
    unsigned char out[TL_MOST], in[TL_MOST];
};
static struct tl_case tl_cases[TL_MESSAGES];

static void tl_make(uint32_t turn)
{
    static const size_t sizes[] = {0, 1, 64, 4095, 4096, 4097, TL_MOST};
    for (uint32_t k = 0; k < TL_MESSAGES; k++) {
        struct tl_case *const c = &tl_cases[k];
        uint32_t words[4];
        gy_rng_words(41, turn, k, 0, words);
        c->tag = words[0] % TL_TAGS;
        c->from = (int)(words[1] % 2);
        c->bytes = words[2] % 2 ? sizes[words[3] % GY_COUNT(sizes)] : 200;
        for (size_t i = 0; i < c->bytes; i++)
            c->out[i] = (unsigned char)(words[0] + i * 7 + i / 250);
        memset(c->in, 0, sizeof c->in);
        c->send = (struct gy_net_request){ .sends = 1, .peer = 1 - c->from, .tag = c->tag, .buffer = c->out, .bytes = c->bytes };
        c->receive = (struct gy_net_request){ .peer = c->from, .tag = c->tag, .buffer = c->in, .bytes = c->bytes };
    }
}

/* 1: a rank has named the fault. */
static int tl_talk(const struct gy_net_end end[2])
{
    struct gy_error err = {0};
    int named = 0;
    for (uint32_t k = 0; k < TL_MESSAGES; k++) {
        struct tl_case *const c = &tl_cases[k];
        T_CHECK(end[c->from].transport->post(end[c->from].self, &c->send, &err) == GY_OK);
        T_CHECK(end[1 - c->from].transport->post(end[1 - c->from].self, &c->receive, &err) == GY_OK);
    }
    for (int rank = 0; rank < 2; rank++) {
        char says[80];
        snprintf(says, sizeof says, "rank %d got a message from rank %d by post that is not what was sent", rank, 1 - rank);
        const int status = end[rank].transport->progress(end[rank].self, &err);
        T_CHECK_MSG(status == GY_OK || (status == GY_E_PEER && strncmp(err.text, says, strlen(says)) == 0), "%d, '%s'", status, err.text);
        named |= status != GY_OK;
    }
    return named;
}

static int tl_turn(enum gy_net_code_kind code, enum tl_harm harm, uint32_t turn)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_sealed *sealed[2] = {NULL, NULL};
    struct gy_net_end end[2];
    struct gy_error err = {0};
    int lost = 0;
    memset(&tl, 0, sizeof tl);
    tl.harm = harm;
    gy_rng_words(42, turn, 0, 0, tl.words);
    tl.at = (int)(tl.words[2] % (TL_MESSAGES - 4));
    tl_make(turn);
    for (int rank = 0; rank < 2; rank++) {
        struct gy_net_sealed_config config = { .inner = {&tl_transport, &tl_ranks[rank], rank, 2, 0}, .code = code };
        memset(config.key, harm == TL_STRANGER ? rank : 5, sizeof config.key);
        if (!T_CHECK(gy_net_sealed_open(&sealed[rank], &config, &alloc, &err) == GY_OK))
            return 0;
        gy_net_sealed_end(sealed[rank], &end[rank]);
    }
    const int named = tl_talk(end);
    for (int rank = 0; rank < 2; rank++)
        end[rank].transport->cancel(end[rank].self, -1);
    for (uint32_t k = 0; k < TL_MESSAGES; k++) {
        const struct tl_case *const c = &tl_cases[k];
        T_CHECK_MSG(c->receive.state == GY_NET_LOST || (c->receive.state == GY_NET_DONE && memcmp(c->in, c->out, c->bytes) == 0),
                    "turn %u, %s: message %u is believed and is not what was sent", turn, tl_harms[harm], k);
        lost += c->receive.state == GY_NET_LOST;
    }
    const int harmed = tl.harmed || harm == TL_STRANGER;
    /* a message that is left out is missed by those behind it, or its receive has no end */
    T_CHECK_MSG(harmed ? lost > 0 || harm == TL_TWICE : lost == 0, "turn %u, %s: %d lost", turn, tl_harms[harm], lost);
    T_CHECK_MSG(!named || harmed, "turn %u: named without harm", turn);
    T_CHECK_MSG(!harmed || named || lost > 0 || harm == TL_TWICE, "turn %u, %s: nobody says so", turn, tl_harms[harm]);
    gy_net_sealed_close(sealed[0]);
    gy_net_sealed_close(sealed[1]);
    return harmed && named;
}

int main(void)
{
    int named[TL_HARMS] = {0};
    for (uint32_t turn = 0; turn < TL_TURNS; turn++) {
        const enum tl_harm harm = (enum tl_harm)(turn % TL_HARMS);
        named[harm] += tl_turn(turn % 2 ? GY_NET_CODE_HMAC : GY_NET_CODE_CRC, harm, turn / 2);
    }
    for (int h = 0; h < TL_HARMS; h++)
        T_CHECK_MSG(h == TL_NONE ? named[h] == 0 : named[h] > 20, "%s: named %d times", tl_harms[h], named[h]);
    T_END("t_net_sealed");
}
