/* SPDX-License-Identifier: MIT */
/* counted.h: a transport that counts the bytes which this rank sends to each other one. It leaves
 * the rest to the transport inside. comm.c puts it around the network between hosts. */
#ifndef GY_NET_COUNTED_H
#define GY_NET_COUNTED_H
#include "net/transport/transport.h"

struct gy_net_counted;
/* *end is that of the transport inside, and then the counting one. */
GY_INT int gy_net_counted_open(struct gy_net_counted **out, struct gy_net_end *end,
                               const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_net_counted_close(struct gy_net_counted *counted); /* NULL is fine */
/* [ranks]; the caller may clear them. NULL: NULL. */
GY_INT int64_t *gy_net_counted_sent(struct gy_net_counted *counted);

#endif
