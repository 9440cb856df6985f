/* SPDX-License-Identifier: MIT */
/* socket.h: TCP sockets with deadlines, in monotonic nanoseconds: a call that has one returns by
 * it, but for the look-up of a name. A peer that sends slowly gains nothing. Addresses are
 * "host:port" or "[v6]:port", host a number or a name. boot.c, reform.c and rendezvous.c wait with
 * it; tcp.c, callers.c and ports.c use what never waits. */
#ifndef GY_NET_SOCKET_H
#define GY_NET_SOCKET_H
#include "engine/base/status.h"

/* Binds one address (host NULL: the loopback address alone); port 0: any. *bound: the port it got.
 * GY_E_ARG: no such host; GY_E_IO. */
GY_INT int gy_net_listen(const char *host, int port, int *fd, int *bound, struct gy_error *err);
/* Tries again until the deadline while nobody listens yet. GY_E_ARG: no such host; GY_E_PEER:
 * nobody answers. */
GY_INT int gy_net_connect(const char *host, int port, int64_t deadline, int *fd, struct gy_error *err);
GY_INT int gy_net_wait(int fd, int64_t deadline); /* 1: something to read, or it broke; 0: late */
/* GY_E_PEER: closed or late */
GY_INT int gy_net_read(int fd, void *bytes, size_t count, int64_t deadline, struct gy_error *err);
GY_INT int gy_net_write(int fd, const void *bytes, size_t count, int64_t deadline, struct gy_error *err);
/* ---- sockets that nobody waits for ---- */
/* An address as the system has it, in bytes that can travel. */
struct gy_net_endpoint {
    uint32_t count;
    unsigned char bytes[28]; /* room for IPv6 */
};
/* of the socket's own side; < 0: none that fits */
GY_INT int gy_net_endpoint_own(int fd, struct gy_net_endpoint *out);
GY_INT int gy_net_endpoint_peer(int fd, struct gy_net_endpoint *out);
/* the first address of a network interface such as "eth1" */
GY_INT int gy_net_endpoint_interface(const char *name, struct gy_net_endpoint *out,
                                     struct gy_error *err);
GY_INT void gy_net_endpoint_loopback(struct gy_net_endpoint *out);
/* "10.0.0.1:4000", "[fe80::1]:4000" */
GY_INT void gy_net_endpoint_text(const struct gy_net_endpoint *at, char *text, size_t room);
GY_INT int gy_net_endpoint_port(const struct gy_net_endpoint *at);
GY_INT int gy_net_endpoint_is_loopback(const struct gy_net_endpoint *at);
GY_INT int gy_net_endpoint_same_host(const struct gy_net_endpoint *a, const struct gy_net_endpoint *b);
/* Listens on that address, on any port; *bound: with it. Does not block. */
GY_INT int gy_net_listen_at(const struct gy_net_endpoint *at, int *fd, struct gy_net_endpoint *bound, struct gy_error *err);
/* 0; EAGAIN: nobody is there; else errno's number */
GY_INT int gy_net_accept_now(int listener, int *fd);
/* Connects without waiting: 0 when it is under way; < 0: refused at once, or no socket. */
GY_INT int gy_net_connect_begin(const struct gy_net_endpoint *to, int *fd);
/* Waits until it is connected: 0; ETIMEDOUT, or what the problem is. */
GY_INT int gy_net_connect_wait(int fd, int64_t deadline);
GY_INT int gy_net_connect_problem(int fd); /* 0: connected or under way; else errno's number */
/* Has the system ask the other end of a silent connection once a second whether it can be reached
 * (TCP keepalive), whatever its process does. */
GY_INT void gy_net_socket_watch(int fd);
/* 1: the other end's system did not answer for GY_NET_CUT_MS. Data, or keepalive probes where this
 * end waits, asked it at least twice. The system of a process that reads nothing still answers. */
#define GY_NET_CUT_MS 2500
GY_INT int gy_net_socket_is_cut(int fd, int waits);
/* If both ends are on this machine, chooses the simplest congestion control: nothing needs
 * pacing. */
GY_INT void gy_net_socket_near(int fd);
/* Splits "host:port" into host (room bytes) and port. GY_E_ARG: it is no address. */
GY_INT int gy_net_address(const char *text, char *host, size_t room, int *port, struct gy_error *err);

#endif
