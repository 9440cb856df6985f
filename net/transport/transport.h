/* SPDX-License-Identifier: MIT */
/* transport.h: the interface of what moves bytes between ranks. shared.c, tcp.c and ucx.c implement
 * it; sealed.h and counted.h stand around another one. exec.c, cost.c and engine/job/ post
 * messages, then call progress until a request is done; neither call waits for a peer. Messages
 * between two ranks with one tag arrive in the order in which they were posted, others in any
 * order. Every function is mandatory. */
#ifndef GY_NET_TRANSPORT_H
#define GY_NET_TRANSPORT_H
#include "engine/base/mem.h"

/* GY_NET_LOST: the peer is gone, or the request was cancelled. */
enum gy_net_state { GY_NET_PENDING, GY_NET_DONE, GY_NET_LOST };
/* One message on its way. The owner keeps it, and the buffer, until state is not GY_NET_PENDING. */
struct gy_net_request {
    int state;               /* written by post, progress and cancel alone */
    int sends, peer;
    uint32_t tag;
    void *buffer;            /* a send only reads it */
    size_t bytes;
    /* Of a receive; may be NULL. A transport may call it while a message arrives, in the order of
     * its bytes. It hands over the bytes behind `taken`, which lie at the buffer's start; their
     * place is then used again. Bytes not handed over when the request is done lie there, too. */
    void (*take)(struct gy_net_request *request, size_t bytes);
    void *taker;             /* the owner's, for take */
    size_t taken;            /* the transport's */
    struct gy_net_request *next, *prev; /* the transport's, as what follows */
    void *owner;
    int64_t stamp;
};

/* What ended a transport: a message that is not what was sent. */
struct gy_net_fault {
    uint32_t tag;   /* as it came */
    char text[256]; /* who noticed it, of whom, on which way; empty: there is none */
};

struct gy_net_transport {
    /* Posts what the request says. GY_E_PEER when the peer is known to be gone. */
    int (*post)(void *self, struct gy_net_request *request, struct gy_error *err);
    /* Moves what can be moved; < 0: the transport is broken. */
    int (*progress)(void *self, struct gy_error *err);
    /* Ends every pending request of a peer (-1: of all) as GY_NET_LOST. Nothing can be exchanged
     * with that peer any more. */
    void (*cancel)(void *self, int peer);
    const char *name;        /* what is measured on it is kept under it */
    /* floats for each host of a piece of a large sum: pieces follow each other (inter_host.c) */
    int64_t piece;
    int lanes;               /* most lanes that make sums faster; 0: any number */
};

/* A rank's end of a transport. */
struct gy_net_end {
    const struct gy_net_transport *transport;
    void *self;
    int rank, ranks;
    int half; /* floats of sums travel as bf16 */
};

#endif
