/* SPDX-License-Identifier: MIT */
/* A table of steps: what has to come, and what is done with it. What is sent is less than any socket's room, so it goes out whole. */
#include <sys/socket.h>

#include "tcp_call.h"

#define CALL_VERSION 3u

static const unsigned char call_magic[4] = {'G', 'Y', 'R', 'D'};

enum call_step { CALL_CONNECTS, CALL_ASKS, CALL_LISTENS, CALL_DOUBTS };

static void call_code(const struct gy_net_call *call, const struct gy_net_call_self *self, const char *role, unsigned char mac[GY_NET_MAC_BYTES])
{
    const struct gy_net_part parts[] = {{role, strlen(role)}, {&call->hello, sizeof(call->hello)}, {call->nonce, sizeof(call->nonce)}};
    gy_net_hmac(self->key, parts, GY_COUNT(parts), mac);
}

static int call_send(const struct gy_net_call *call, const void *bytes, size_t count)
{
    return send(call->fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count ? 0 : -1;
}

/* The caller's hello, once there is a connection. */
static int call_connects(struct gy_net_call *call, const struct gy_net_call_self *self)
{
    call->hello = (struct gy_net_call_hello){.version = CALL_VERSION, .from = (uint32_t)self->rank, .to = (uint32_t)call->rank};
    memcpy(call->hello.magic, call_magic, sizeof(call_magic));
    if (gy_net_random(call->hello.nonce, sizeof(call->hello.nonce), NULL) != GY_OK || call_send(call, &call->hello, sizeof(call->hello)) != 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    call->step = CALL_ASKS;
    return 0;
}

static int call_asks(struct gy_net_call *call, const struct gy_net_call_self *self)
{
    unsigned char mac[GY_NET_MAC_BYTES];
    memcpy(call->nonce, call->in, sizeof(call->nonce));
    call_code(call, self, "data, called", mac);
    if (!gy_net_same(mac, call->in + sizeof(call->nonce), sizeof(mac)))
        return -1;
    call_code(call, self, "data, caller", mac);
    return call_send(call, mac, sizeof(mac)) == 0 ? 1 : -1;
}

/* Ranks call those below them. */
static int call_listens(struct gy_net_call *call, const struct gy_net_call_self *self)
{
    unsigned char answer[GY_NET_CALL_NONCE + GY_NET_MAC_BYTES];
    const struct gy_net_call_hello *const hello = &call->hello;
    memcpy(&call->hello, call->in, sizeof(call->hello));
    if (memcmp(hello->magic, call_magic, sizeof(call_magic)) != 0 || hello->version != CALL_VERSION || hello->to != (uint32_t)self->rank ||
        hello->from <= hello->to || hello->from >= (uint32_t)self->ranks || gy_net_random(call->nonce, sizeof(call->nonce), NULL) != GY_OK)
        return -1;
    memcpy(answer, call->nonce, sizeof(call->nonce));
    call_code(call, self, "data, called", answer + sizeof(call->nonce));
    call->step = CALL_DOUBTS;
    return call_send(call, answer, sizeof(answer));
}

static int call_doubts(struct gy_net_call *call, const struct gy_net_call_self *self)
{
    unsigned char mac[GY_NET_MAC_BYTES];
    call_code(call, self, "data, caller", mac);
    call->rank = (int)call->hello.from;
    return gy_net_same(mac, call->in, sizeof(mac)) ? 1 : -1;
}

static const struct {
    size_t bytes;
    int (*take)(struct gy_net_call *call, const struct gy_net_call_self *self);
} call_steps[] = {
    [CALL_CONNECTS] = {0, call_connects},
    [CALL_ASKS] = {GY_NET_CALL_NONCE + GY_NET_MAC_BYTES, call_asks},
    [CALL_LISTENS] = {sizeof(struct gy_net_call_hello), call_listens},
    [CALL_DOUBTS] = {GY_NET_MAC_BYTES, call_doubts},
};

GY_INT void gy_net_call_begin(struct gy_net_call *call, int fd, int rank, int64_t deadline)
{
    *call = (struct gy_net_call){.fd = fd, .rank = rank, .step = rank < 0 ? CALL_LISTENS : CALL_CONNECTS, .deadline = deadline};
}

/* 1: the present step's bytes are there. */
static int call_read(struct gy_net_call *call)
{
    const size_t want = call_steps[call->step].bytes;
    while (call->have < want) {
        const ssize_t n = recv(call->fd, call->in + call->have, want - call->have, 0);
        if (n > 0)
            call->have += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return -1;
        else
            return 0;
    }
    call->have = 0;
    return 1;
}

GY_INT int gy_net_call_go(struct gy_net_call *call, const struct gy_net_call_self *self)
{
    for (;;) {
        const int step = call->step, read = call_read(call), taken = read == 1 ? call_steps[step].take(call, self) : read;
        if (taken != 0 || call->step == step)
            return taken;
    }
}

GY_INT void gy_net_call_codes(const struct gy_net_call *call, const struct gy_net_call_self *self, struct gy_net_code *out, struct gy_net_code *in)
{
    unsigned char key[GY_NET_MAC_BYTES];
    const int calls = call->hello.from == (uint32_t)self->rank;
    call_code(call, self, "data, bytes of the caller", key);
    gy_net_code_open(calls ? out : in, self->code, key);
    call_code(call, self, "data, bytes of the called", key);
    gy_net_code_open(calls ? in : out, self->code, key);
}
