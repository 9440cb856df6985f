/* SPDX-License-Identifier: MIT */
/* ucx.h: the transport between hosts on UCX: whatever network it finds, RDMA or TCP; network.c
 * opens it. Its library is opened at run time, so that Gyre builds and starts without it. An
 * endpoint is made at the first message from or to a rank. A rank that breaks off ends its requests
 * as GY_NET_LOST. One thread at a time may use it. */
#ifndef GY_NET_UCX_H
#define GY_NET_UCX_H
#include "net/transport/transport.h"

#define GY_NET_UCX_ADDRESS 1024 /* bytes that are kept for one rank's address */

struct gy_net_ucx_config {
    int rank, ranks;
    /* UCX's names, used where its variable UCX_TLS is not set; NULL: all but shared memory */
    const char *transports;
    /* of this start of the job; it is in every tag, so a stranger's message meets no receive */
    uint64_t secret;
};

struct gy_net_ucx;
/* GY_E_UNSUPPORTED: no UCX here. */
GY_INT int gy_net_ucx_open(struct gy_net_ucx **out, const struct gy_net_ucx_config *config, const struct gy_alloc *alloc,
                           struct gy_error *err);
/* Pending requests are lost. Waits two seconds at most until what was sent has left. NULL is
 * fine. */
GY_INT void gy_net_ucx_close(struct gy_net_ucx *ucx);
/* This rank's address; the rest of the GY_NET_UCX_ADDRESS bytes is 0. */
GY_INT void gy_net_ucx_address(const struct gy_net_ucx *ucx, unsigned char *address);
/* addresses of all ranks: [ranks][GY_NET_UCX_ADDRESS]; copied. */
GY_INT int gy_net_ucx_connect(struct gy_net_ucx *ucx, const unsigned char *addresses, struct gy_error *err);
GY_INT void gy_net_ucx_end(struct gy_net_ucx *ucx, struct gy_net_end *out);
/* transports: all but shared memory and UCX's own use of TCP */
#define GY_NET_UCX_RDMA "^sm,tcp"
/* Are there devices that move memory themselves, and work? */
GY_INT int gy_net_ucx_has_rdma(void);
/* "1.13": what two ranks must share. */
GY_INT void gy_net_ucx_version(const struct gy_net_ucx *ucx, char *text, size_t room);

#endif
