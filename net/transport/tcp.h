/* SPDX-License-Identifier: MIT */
/* tcp.h: the transport between hosts on plain TCP, for hosts without a faster one; network.c opens
 * it. It has one connection for each two ranks that talk, made at the first message, and needs no
 * library. Nothing is copied in between: the system writes straight into the buffer that waits. A
 * rank that breaks off ends its requests as GY_NET_LOST. So does a message that is not what was
 * sent; from then on progress fails with a sentence. One thread at a time may use it; a thread of
 * its own lets other ranks in meanwhile. */
#ifndef GY_NET_TCP_H
#define GY_NET_TCP_H
#include "net/transport/code.h"
#include "net/transport/socket.h"
#include "net/transport/transport.h"

struct gy_net_tcp_config {
    int rank, ranks;
    unsigned char key[GY_NET_KEY_BYTES]; /* of this start of the job: only who knows it is let in */
    enum gy_net_code_kind code;          /* of messages; the same on all ranks */
    /* how long a rank that does not answer is called; 0: for ever */
    int64_t wait_ns;
    /* the address on which other ranks reach this one; its port does not matter */
    struct gy_net_endpoint own;
};

struct gy_net_tcp;
GY_INT int gy_net_tcp_open(struct gy_net_tcp **out, const struct gy_net_tcp_config *config, const struct gy_alloc *alloc, struct gy_error *err);
/* Pending requests are lost. Waits two seconds at most until peers have what was sent. NULL is
 * fine. */
GY_INT void gy_net_tcp_close(struct gy_net_tcp *tcp);
/* This rank's address. */
GY_INT void gy_net_tcp_address(const struct gy_net_tcp *tcp, struct gy_net_endpoint *address);
/* addresses: [ranks], copied. */
GY_INT int gy_net_tcp_connect(struct gy_net_tcp *tcp, const struct gy_net_endpoint *addresses, struct gy_error *err);
/* The text may be empty. */
GY_INT const struct gy_net_fault *gy_net_tcp_fault(const struct gy_net_tcp *tcp);
/* The next rank that is waited for while nothing comes through to it, or whose connection broke. It
 * names each rank once. -1: none. Only the thread that uses the transport calls it. */
GY_INT int gy_net_tcp_cut(struct gy_net_tcp *tcp);
GY_INT void gy_net_tcp_end(struct gy_net_tcp *tcp, struct gy_net_end *out);

#endif
