/* SPDX-License-Identifier: MIT */
/* ports.c: a process finds its open files in /proc. Without /proc it finds no connection, and
 * nothing changes. */
#include <dirent.h>
#include <limits.h>
#include <sys/socket.h>

#include "engine/base/text.h"
#include "net/transport/ports.h"
#include "net/transport/socket.h"

typedef void (*ports_look)(int fd, void *self);

static void ports_walk(ports_look look, void *self)
{
    DIR *const folder = opendir("/proc/self/fd");
    int64_t fd;
    for (const struct dirent *d; folder != NULL && (d = readdir(folder));)
        if (gy_text_int(d->d_name, 0, INT_MAX, &fd) == 0)
            look((int)fd, self);
    if (folder)
        closedir(folder);
}

static void ports_listener(int fd, void *self)
{
    struct gy_net_ports *const found = self;
    struct gy_net_endpoint own;
    int listens = 0;
    socklen_t bytes = sizeof listens;
    if (found->count < GY_NET_PORTS && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens &&
        gy_net_endpoint_own(fd, &own) == 0)
        found->port[found->count++] = (uint16_t)gy_net_endpoint_port(&own);
}

static int ports_have(const struct gy_net_port_set *set, const struct gy_net_endpoint *at)
{
    const int port = gy_net_endpoint_port(at);
    return set->bits[port / 8] >> port % 8 & 1;
}

static void ports_connection(int fd, void *self)
{
    const struct gy_net_port_set *const set = self;
    struct gy_net_endpoint own, peer;
    if (gy_net_endpoint_own(fd, &own) == 0 && gy_net_endpoint_peer(fd, &peer) == 0 && (ports_have(set, &own) || ports_have(set, &peer)))
        gy_net_socket_near(fd);
}

GY_INT void gy_net_ports_read(struct gy_net_ports *out)
{
    *out = (struct gy_net_ports){ .count = 0 };
    ports_walk(ports_listener, out);
}

GY_INT void gy_net_ports_less(struct gy_net_ports *ports, const struct gy_net_ports *less)
{
    uint16_t left = 0;
    for (int i = 0; i < ports->count; i++) {
        int k = 0;
        while (k < less->count && less->port[k] != ports->port[i])
            k++;
        if (k == less->count)
            ports->port[left++] = ports->port[i];
    }
    ports->count = left;
}

GY_INT void gy_net_ports_add(struct gy_net_port_set *set, const struct gy_net_ports *ports)
{
    for (int i = 0; i < ports->count && i < GY_NET_PORTS; i++)
        set->bits[ports->port[i] / 8] |= (unsigned char)(1u << ports->port[i] % 8);
}

GY_INT void gy_net_ports_near(struct gy_net_port_set *set)
{
    ports_walk(ports_connection, set);
}
