/* SPDX-License-Identifier: MIT */
/* socket.h: TCP with deadlines. Every function returns by its deadline (monotonic nanoseconds); a peer that sends slowly
 * gains nothing. Addresses are numeric or names, "host:port" or "[v6]:port". */
#ifndef GY_NET_SOCKET_H
#define GY_NET_SOCKET_H
#include "../engine/base/status.h"

/* Binds one address (host NULL: the loopback address alone); port 0: any. *port: the one it got. */
GY_INT int gy_net_listen(const char *host, int port, int *fd, int *bound, struct gy_error *err);
GY_INT int gy_net_accept(int listener, int64_t deadline, int *fd, struct gy_error *err); /* GY_E_PEER: nobody came */
/* Tries again until the deadline while nobody listens yet. */
GY_INT int gy_net_connect(const char *host, int port, int64_t deadline, int *fd, struct gy_error *err);
GY_INT int gy_net_read(int fd, void *bytes, size_t count, int64_t deadline, struct gy_error *err);  /* GY_E_PEER: closed or late */
GY_INT int gy_net_write(int fd, const void *bytes, size_t count, int64_t deadline, struct gy_error *err);
/* Splits "host:port" into host (room bytes) and port. */
GY_INT int gy_net_address(const char *text, char *host, size_t room, int *port, struct gy_error *err);

#endif
