/* SPDX-License-Identifier: MIT */
/* tcp_handshake.c: a table of steps: what must arrive, and what is done with it. What is sent is
 * smaller than any socket's buffer, so it goes out whole. */
#include <sys/socket.h>

#include "net/transport/tcp_handshake.h"

static const struct {
    unsigned char magic[4];
    uint32_t version;
    const char *called, *caller, *taken;
} handshake_kinds[] = {
    [GY_NET_HANDSHAKE_DATA] = {{'G', 'Y', 'R', 'D'}, 4, "data, called", "data, caller", "data, taken"},
    [GY_NET_HANDSHAKE_CONTROL] = {{'G', 'Y', 'R', 'E'}, 4, "control, called", "control, caller", "control, taken"},
    [GY_NET_HANDSHAKE_AGAIN] = {{'G', 'Y', 'R', 'F'}, 1, "again, called", "again, caller",
                                "again, taken"},
};

GY_INT void gy_net_handshake_key(const struct gy_net_handshake *call, const struct gy_net_handshake_self *self, const char *purpose,
                                 unsigned char key[GY_NET_KEY_BYTES])
{
    const struct gy_net_part parts[] = {{purpose, strlen(purpose)}, {&call->hello, sizeof call->hello}, {call->nonce, sizeof call->nonce}};
    gy_net_hmac(self->key, parts, GY_COUNT(parts), key);
}

static int handshake_send(const struct gy_net_handshake *call, const void *bytes, size_t count)
{
    return send(call->fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count ? 0 : -1;
}

static int handshake_end(struct gy_net_handshake *call, int status, const char *why)
{
    call->why = why;
    return status;
}

/* 1: what came is the code of these words. */
static int handshake_is_code(const struct gy_net_handshake *call, const struct gy_net_handshake_self *self, const char *words, const unsigned char *came)
{
    unsigned char mac[GY_NET_MAC_BYTES];
    gy_net_handshake_key(call, self, words, mac);
    return gy_net_same(mac, came, sizeof mac);
}

/* ---- the caller ---- */

/* The hello, once there is a connection. */
static int handshake_connects(struct gy_net_handshake *call, const struct gy_net_handshake_self *self)
{
    call->hello = (struct gy_net_handshake_hello){ .version = handshake_kinds[self->kind].version, .epoch = self->epoch, .ranks = (uint32_t)self->ranks,
                                                  .from = (uint32_t)self->rank, .to = (uint32_t)call->rank };
    memcpy(call->hello.magic, handshake_kinds[self->kind].magic, sizeof call->hello.magic);
    if (gy_net_random(call->hello.nonce, sizeof call->hello.nonce, NULL) != GY_OK)
        return handshake_end(call, -1, "this system gives no random bytes");
    if (handshake_send(call, &call->hello, sizeof call->hello) != 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : handshake_end(call, -1, "the connection broke");
    call->step = GY_NET_HANDSHAKE_ASKS;
    return 0;
}

static int handshake_asks(struct gy_net_handshake *call, const struct gy_net_handshake_self *self)
{
    unsigned char mac[GY_NET_MAC_BYTES];
    memcpy(call->nonce, call->in, sizeof call->nonce);
    if (!handshake_is_code(call, self, handshake_kinds[self->kind].called, call->in + sizeof call->nonce))
        return handshake_end(call, -2, "it has another key");
    gy_net_handshake_key(call, self, handshake_kinds[self->kind].caller, mac);
    call->step = GY_NET_HANDSHAKE_HOPES;
    return handshake_send(call, mac, sizeof mac) == 0 ? 0 : handshake_end(call, -1, "the connection broke");
}

static int handshake_hopes(struct gy_net_handshake *call, const struct gy_net_handshake_self *self)
{
    return handshake_is_code(call, self, handshake_kinds[self->kind].taken, call->in) ? 1 : handshake_end(call, -2, "it has another key");
}

/* ---- the called end ---- */

/* Why this is no caller of ours; NULL: it is one. Ranks call those below them. */
static const char *handshake_doubt(const struct gy_net_handshake_hello *hello, const struct gy_net_handshake_self *self)
{
    if (memcmp(hello->magic, handshake_kinds[self->kind].magic, sizeof hello->magic) != 0)
        return "it is no rank of Gyre";
    if (hello->version != handshake_kinds[self->kind].version)
        return "it has another version of Gyre";
    if (hello->epoch != self->epoch)
        return "it is of another start of the job";
    if (hello->ranks != (uint32_t)self->ranks)
        return "it counts another number of ranks";
    if (hello->to != (uint32_t)self->rank || hello->from <= hello->to || hello->from >= hello->ranks ||
        (self->missing && !self->missing(self->owner, (int)hello->from)))
        return "it claims a rank that is taken";
    return NULL;
}

static int handshake_listens(struct gy_net_handshake *call, const struct gy_net_handshake_self *self)
{
    unsigned char answer[GY_NET_HANDSHAKE_NONCE + GY_NET_MAC_BYTES];
    memcpy(&call->hello, call->in, sizeof call->hello);
    const char *const doubt = handshake_doubt(&call->hello, self);
    if (doubt)
        return handshake_end(call, -1, doubt);
    if (gy_net_random(call->nonce, sizeof call->nonce, NULL) != GY_OK)
        return handshake_end(call, -1, "this system gives no random bytes");
    memcpy(answer, call->nonce, sizeof call->nonce);
    gy_net_handshake_key(call, self, handshake_kinds[self->kind].called, answer + sizeof call->nonce);
    call->step = GY_NET_HANDSHAKE_DOUBTS;
    return handshake_send(call, answer, sizeof answer) == 0 ? 0 : handshake_end(call, -1, "the connection broke");
}

static int handshake_doubts(struct gy_net_handshake *call, const struct gy_net_handshake_self *self)
{
    call->rank = (int)call->hello.from;
    return handshake_is_code(call, self, handshake_kinds[self->kind].caller, call->in) ? 1 : handshake_end(call, -2, "it has another key");
}

GY_INT int gy_net_handshake_take(const struct gy_net_handshake *call, const struct gy_net_handshake_self *self)
{
    unsigned char mac[GY_NET_MAC_BYTES];
    gy_net_handshake_key(call, self, handshake_kinds[self->kind].taken, mac);
    return handshake_send(call, mac, sizeof mac);
}

/* ---- both ---- */

static const struct {
    size_t bytes;
    int (*take)(struct gy_net_handshake *call, const struct gy_net_handshake_self *self);
    const char *broke; /* why there was no more */
} handshake_steps[] = {
    [GY_NET_HANDSHAKE_CONNECTS] = {0, handshake_connects, NULL},
    [GY_NET_HANDSHAKE_ASKS] = {GY_NET_HANDSHAKE_NONCE + GY_NET_MAC_BYTES, handshake_asks, "the peer closed the connection"},
    [GY_NET_HANDSHAKE_HOPES] = {GY_NET_MAC_BYTES, handshake_hopes, "the peer closed the connection"},
    [GY_NET_HANDSHAKE_LISTENS] = {sizeof(struct gy_net_handshake_hello), handshake_listens, "it says nothing"},
    [GY_NET_HANDSHAKE_DOUBTS] = {GY_NET_MAC_BYTES, handshake_doubts, "it has another key, or was lost"},
};

GY_INT void gy_net_handshake_begin(struct gy_net_handshake *call, int fd, int rank, int64_t deadline)
{
    *call = (struct gy_net_handshake){ .fd = fd, .rank = rank, .step = rank < 0 ? GY_NET_HANDSHAKE_LISTENS : GY_NET_HANDSHAKE_CONNECTS, .deadline = deadline };
}

/* 1: the present step's bytes are there. */
static int handshake_read(struct gy_net_handshake *call)
{
    const size_t want = handshake_steps[call->step].bytes;
    while (call->have < want) {
        const ssize_t n = recv(call->fd, call->in + call->have, want - call->have, 0);
        if (n > 0)
            call->have += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return handshake_end(call, -1, handshake_steps[call->step].broke);
        else
            return 0;
    }
    call->have = 0;
    return 1;
}

GY_INT int gy_net_handshake_go(struct gy_net_handshake *call, const struct gy_net_handshake_self *self)
{
    for (;;) {
        const enum gy_net_handshake_step step = call->step;
        const int read = handshake_read(call), taken = read == 1 ? handshake_steps[step].take(call, self) : read;
        if (taken != 0 || call->step == step)
            return taken;
    }
}

GY_INT void gy_net_handshake_codes(const struct gy_net_handshake *call, const struct gy_net_handshake_self *self, struct gy_net_code *out,
                                   struct gy_net_code *in)
{
    unsigned char key[GY_NET_MAC_BYTES];
    const int calls = call->hello.from == (uint32_t)self->rank;
    gy_net_handshake_key(call, self, "data, bytes of the caller", key);
    gy_net_code_open(calls ? out : in, self->code, key);
    gy_net_handshake_key(call, self, "data, bytes of the called", key);
    gy_net_code_open(calls ? in : out, self->code, key);
}
