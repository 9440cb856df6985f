/* SPDX-License-Identifier: MIT */
/* tcp_handshake.h: how both ends of a fresh connection learn that they are two ranks of one start
 * of a job. It serves the job's control (boot.c, reform.c) and data (tcp.c); callers.c is the
 * called end of all three. Both ends prove that they know its key, over nonces of both; the last
 * word says that the caller was let in:
 *
 *     caller  magic, version, epoch, number of ranks, its rank, the rank it calls, nonce
 *     called  nonce, HMAC(key, "data, called", all of the above)
 *     caller  HMAC(key, "data, caller", all of the above)
 *     called  HMAC(key, "data, taken", the same)
 *
 * Control has words of its own. Each direction of data gets a key of its own from the same, for the
 * code of its messages. Nothing blocks. Until the proof only these bytes, of fixed sizes, are read,
 * and nothing is allocated. */
#ifndef GY_NET_TCP_CALL_H
#define GY_NET_TCP_CALL_H
#include "net/transport/code.h"

#define GY_NET_HANDSHAKE_NONCE 32

struct gy_net_handshake_hello {
    unsigned char magic[4];
    /* In this machine's byte order, as floats are; a machine of another order is refused. */
    uint32_t version, epoch, ranks, from, to;
    unsigned char nonce[GY_NET_HANDSHAKE_NONCE];
};
/* What the end waits for. The caller: the connection, the answer, the last word. The called end: a
 * hello, the proof. */
enum gy_net_handshake_step { GY_NET_HANDSHAKE_CONNECTS, GY_NET_HANDSHAKE_ASKS, GY_NET_HANDSHAKE_HOPES, GY_NET_HANDSHAKE_LISTENS, GY_NET_HANDSHAKE_DOUBTS };
struct gy_net_handshake {
    int fd;           /* -1: none */
    enum gy_net_handshake_step step;
    int rank;         /* the other end's; when called, not known before the end */
    size_t have;      /* bytes of the present step */
    int64_t deadline;
    const char *why;  /* why gy_net_handshake_go ended it; a constant */
    struct gy_net_handshake_hello hello;
    unsigned char nonce[GY_NET_HANDSHAKE_NONCE], in[GY_NET_HANDSHAKE_NONCE + GY_NET_MAC_BYTES];
};
enum gy_net_handshake_kind {
    GY_NET_HANDSHAKE_DATA,
    GY_NET_HANDSHAKE_CONTROL,
    GY_NET_HANDSHAKE_AGAIN /* control, once ranks were lost */
};
struct gy_net_handshake_self {
    enum gy_net_handshake_kind kind;
    int rank, ranks;
    uint32_t epoch;                        /* of the start of the job; data has a key for each */
    enum gy_net_code_kind code;
    unsigned char key[GY_NET_KEY_BYTES];
    int (*missing)(void *owner, int rank); /* may this rank still call? NULL: any may */
    void *owner;
};
/* rank: whom it calls; -1: it is called. The connection may still be on its way. */
GY_INT void gy_net_handshake_begin(struct gy_net_handshake *call, int fd, int rank, int64_t deadline);
/* 1: both ends agree; call->rank is the other end's. A caller still waits for gy_net_handshake_take
 * of the called end. 0: it waits for bytes. -1: the connection broke, or the other end does not
 * belong to this job. -2: the other end has another key. */
GY_INT int gy_net_handshake_go(struct gy_net_handshake *call, const struct gy_net_handshake_self *self);
/* The called end's last word: the caller is let in. < 0: it is gone. */
GY_INT int gy_net_handshake_take(const struct gy_net_handshake *call, const struct gy_net_handshake_self *self);
/* Once both have agreed: a key of this connection for a purpose. */
GY_INT void gy_net_handshake_key(const struct gy_net_handshake *call, const struct gy_net_handshake_self *self, const char *purpose,
                                 unsigned char key[GY_NET_KEY_BYTES]);
/* The same as codes of what this end sends and gets. */
GY_INT void gy_net_handshake_codes(const struct gy_net_handshake *call, const struct gy_net_handshake_self *self, struct gy_net_code *out,
                                   struct gy_net_code *in);

#endif
