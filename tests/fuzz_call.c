/* SPDX-License-Identifier: MIT */
/* fuzz_call.c: the handshake of a connection, from either side. The other side says what it must,
 * with some of its bytes changed, cut or inserted; or it says any bytes. Only an unchanged one is
 * agreed to. No more is read than the handshake has, and a side that is refused is told why. The
 * system's random bytes are the same in every run, so the files that make them are part of this
 * one. */
#include "net/transport/auth.h"
#define gy_net_random auth_net_random
GY_INT int auth_net_random(unsigned char *out, size_t count, struct gy_error *err);
#include "net/transport/auth.c"
#undef gy_net_random
#include "net/transport/tcp_handshake.c"
#include <sys/ioctl.h>

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())
#define FUZZ_BEHIND 7 /* bytes that follow the handshake */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static unsigned char fuzz_dice;

GY_INT int gy_net_random(unsigned char *out, size_t count, struct gy_error *err)
{
    (void)err;
    for (size_t i = 0; i < count; i++)
        out[i] = fuzz_dice++;
    return GY_OK;
}

struct fuzz_talk {
    /* the input: changes, each a place of two bytes and a value; then other words to send */
    const uint8_t *at, *end;
    int changes, said;       /* to make; bytes that this side has said so far */
    int changed;             /* one was not undone */
    size_t piece;
    int fd;
    struct gy_net_handshake call;
    struct gy_net_handshake_self here, there;
};

/* Sends these bytes, with some of them changed. last: further bytes, not of the handshake, follow
 * at once. */
static int fuzz_say(struct fuzz_talk *t, const void *bytes, size_t count, int last)
{
    unsigned char said[256];
    int result = 0;
    FUZZ_REQUIRE(count <= sizeof said);
    memcpy(said, bytes, count);
    for (; t->changes > 0 && t->end - t->at >= 3; t->changes--, t->at += 3) {
        const int where = t->at[0];
        if (where < t->said || where >= t->said + (int)count)
            break; /* of a later word */
        said[where - t->said] ^= t->at[1];
    }
    t->changed |= memcmp(said, bytes, count) != 0;
    t->said += (int)count;
    for (size_t at = 0; at < count && result == 0; at += t->piece) {
        const size_t some = count - at < t->piece ? count - at : t->piece;
        FUZZ_REQUIRE(send(t->fd, said + at, some, MSG_NOSIGNAL) == (ssize_t)some);
        if (last && at + some == count)
            FUZZ_REQUIRE(send(t->fd, "behind", FUZZ_BEHIND, MSG_NOSIGNAL) == FUZZ_BEHIND);
        result = gy_net_handshake_go(&t->call, &t->here);
        FUZZ_REQUIRE(t->call.have < sizeof t->call.in && (result >= 0 || t->call.why));
    }
    return result;
}

static int fuzz_hear(struct fuzz_talk *t, void *bytes, size_t count)
{
    return recv(t->fd, bytes, count, MSG_DONTWAIT) == (ssize_t)count ? 0 : -1;
}

/* This side is the called one. */
static int fuzz_called(struct fuzz_talk *t)
{
    unsigned char answer[GY_NET_HANDSHAKE_NONCE + GY_NET_MAC_BYTES], mac[GY_NET_MAC_BYTES];
    struct gy_net_handshake other = { .fd = -1 };
    gy_net_handshake_begin(&t->call, t->call.fd, 1, 0);
    int result = gy_net_handshake_go(&t->call, &t->here);
    FUZZ_REQUIRE(result == 0 && fuzz_hear(t, &other.hello, sizeof other.hello) == 0 && !handshake_doubt(&other.hello, &t->there));
    FUZZ_REQUIRE(gy_net_random(other.nonce, sizeof other.nonce, NULL) == GY_OK);
    memcpy(answer, other.nonce, sizeof other.nonce);
    gy_net_handshake_key(&other, &t->there, handshake_kinds[t->there.kind].called, answer + sizeof other.nonce);
    result = fuzz_say(t, answer, sizeof answer, 0);
    if (result != 0)
        return result;
    FUZZ_REQUIRE(t->changed || (fuzz_hear(t, mac, sizeof mac) == 0 && handshake_is_code(&other, &t->there, handshake_kinds[t->there.kind].caller, mac)));
    gy_net_handshake_key(&other, &t->there, handshake_kinds[t->there.kind].taken, mac);
    return fuzz_say(t, mac, sizeof mac, 1);
}

/* This side is the caller. */
static int fuzz_caller(struct fuzz_talk *t)
{
    unsigned char answer[GY_NET_HANDSHAKE_NONCE + GY_NET_MAC_BYTES], mac[GY_NET_MAC_BYTES];
    struct gy_net_handshake other = { .fd = -1 };
    other.hello = (struct gy_net_handshake_hello){ .version = handshake_kinds[t->there.kind].version, .epoch = t->there.epoch,
                                                   .ranks = (uint32_t)t->there.ranks, .from = (uint32_t)t->there.rank, .to = (uint32_t)t->here.rank };
    memcpy(other.hello.magic, handshake_kinds[t->there.kind].magic, sizeof other.hello.magic);
    gy_net_handshake_begin(&t->call, t->call.fd, -1, 0);
    const int result = fuzz_say(t, &other.hello, sizeof other.hello, 0);
    if (result != 0)
        return result;
    FUZZ_REQUIRE(fuzz_hear(t, answer, sizeof answer) == 0);
    memcpy(other.nonce, answer, sizeof other.nonce);
    FUZZ_REQUIRE(t->changed || handshake_is_code(&other, &t->there, handshake_kinds[t->there.kind].called, answer + sizeof other.nonce));
    gy_net_handshake_key(&other, &t->there, handshake_kinds[t->there.kind].caller, mac);
    return fuzz_say(t, mac, sizeof mac, 1);
}

/* This side says the rest of the input. */
static int fuzz_anything(struct fuzz_talk *t, int calls)
{
    int result = 0;
    gy_net_handshake_begin(&t->call, t->call.fd, calls ? 1 : -1, 0);
    t->changed = 1;
    t->changes = 0;
    if (calls)
        result = gy_net_handshake_go(&t->call, &t->here);
    while (result == 0 && t->at < t->end) {
        const size_t rest = (size_t)(t->end - t->at), some = rest < 128 ? rest : 128;
        t->at += some;
        result = fuzz_say(t, t->at - some, some, 0);
    }
    return result;
}

static void fuzz_judge(struct fuzz_talk *t, int result)
{
    int left = 0;
    FUZZ_REQUIRE((result == 1) == !t->changed);
    FUZZ_REQUIRE(result != 1 || (t->call.rank == t->there.rank && ioctl(t->call.fd, FIONREAD, &left) == 0 && left == FUZZ_BEHIND));
    shutdown(t->fd, SHUT_WR);
    for (int i = 0; i < 4 && result == 0; i++)
        result = gy_net_handshake_go(&t->call, &t->here);
    FUZZ_REQUIRE(result == 1 || (result < 0 && t->call.why));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    int ends[2];
    if (count < 2 || count > 4096)
        return 0;
    const int calls = bytes[0] & 1, anything = bytes[0] & 2;
    struct fuzz_talk t = { .at = bytes + 2, .end = bytes + count, .changes = bytes[0] >> 4, .piece = (size_t)bytes[1] + 1 };
    t.here = (struct gy_net_handshake_self){ .kind = bytes[0] & 4 ? GY_NET_HANDSHAKE_CONTROL : GY_NET_HANDSHAKE_DATA,
                                            .rank = calls ? 2 : 1, .ranks = 3, .epoch = 5, .key = {1, 2, 3} };
    t.there = t.here;
    t.there.rank = calls ? 1 : 2;
    fuzz_dice = 1;
    FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && ioctl(ends[0], FIONBIO, &(int){1}) == 0);
    t.call.fd = ends[0];
    t.fd = ends[1];
    fuzz_judge(&t, anything ? fuzz_anything(&t, calls) : calls ? fuzz_called(&t) : fuzz_caller(&t));
    close(ends[0]);
    close(ends[1]);
    return 0;
}
