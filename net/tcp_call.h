/* SPDX-License-Identifier: MIT */
/* tcp_call.h: how both ends of a fresh connection learn that it is between two ranks of one start of a job. Both prove that they know its
 * key, over nonces of both, as boot.h's do:
 *     caller  magic, version, its rank, the rank it calls, nonce
 *     called  nonce, HMAC(key, "data, called", all of the above)
 *     caller  HMAC(key, "data, caller", all of the above)
 * Each direction gets a key of its own from the same, for the code of its messages.
 * Nothing blocks. Until the proof no more than these bytes, of fixed sizes, are read, and nothing is allocated. */
#ifndef GY_NET_TCP_CALL_H
#define GY_NET_TCP_CALL_H
#include "code.h"

#define GY_NET_CALL_NONCE 32

struct gy_net_call_hello {
    unsigned char magic[4];
    uint32_t version, from, to; /* in this machine's order of bytes: so are floats, and a machine of another order is refused */
    unsigned char nonce[GY_NET_CALL_NONCE];
};
struct gy_net_call {
    int fd;           /* -1: none */
    int step, rank;   /* the other end's; when called, not known before the end */
    size_t have;      /* bytes of the present step */
    int64_t deadline;
    struct gy_net_call_hello hello;
    unsigned char nonce[GY_NET_CALL_NONCE], in[GY_NET_CALL_NONCE + GY_NET_MAC_BYTES];
};
struct gy_net_call_self {
    int rank, ranks;
    enum gy_net_code_kind code;
    unsigned char key[GY_NET_KEY_BYTES];
};
/* rank: whom it calls; -1: it is called. The connection may still be on its way. */
GY_INT void gy_net_call_begin(struct gy_net_call *call, int fd, int rank, int64_t deadline);
/* 1: agreed, with call->rank; 0: it waits for bytes; -1: this is no connection of ours, or it broke. */
GY_INT int gy_net_call_go(struct gy_net_call *call, const struct gy_net_call_self *self);
/* Once both have agreed: the codes of what this end sends and gets. */
GY_INT void gy_net_call_codes(const struct gy_net_call *call, const struct gy_net_call_self *self, struct gy_net_code *out, struct gy_net_code *in);

#endif
