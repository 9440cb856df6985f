/* SPDX-License-Identifier: MIT */
/* ports.h: finds the sockets of a library that does not expose their descriptors, for ucx.c. It
 * knows the ports on which the library listens, here and in other processes. Each connection has
 * such a port at one end. */
#ifndef GY_NET_PORTS_H
#define GY_NET_PORTS_H
#include "engine/base/base.h"

#define GY_NET_PORTS 15
struct gy_net_ports {            /* one process's */
    uint16_t count, port[GY_NET_PORTS];
};
struct gy_net_port_set {
    unsigned char bits[1 << 13]; /* of the port p: bit p % 8 of byte p / 8 */
};

/* The ports on which this process listens now, at most GY_NET_PORTS. */
GY_INT void gy_net_ports_read(struct gy_net_ports *out);
/* Takes the ports of `less` out of ports. */
GY_INT void gy_net_ports_less(struct gy_net_ports *ports, const struct gy_net_ports *less);
/* Puts the ports of one process into the set. */
GY_INT void gy_net_ports_add(struct gy_net_port_set *set, const struct gy_net_ports *ports);
/* Calls gy_net_socket_near for this process's connections that have a port of the set at one
 * end. */
GY_INT void gy_net_ports_near(struct gy_net_port_set *set);

#endif
