/* SPDX-License-Identifier: MIT */
/* socket.c: sockets do not block; a wait is a poll that ends at the deadline. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/text.h"
#include "net/transport/socket.h"

#define SOCKET_RETRY_NS 20000000 /* between tries to connect */
/* callers that the system keeps until they are accepted; the system may keep fewer (somaxconn) */
#define SOCKET_BACKLOG 1024

static int socket_ready(int fd, short events, int64_t deadline)
{
    for (;;) {
        const int64_t left = deadline - gy_clock_ns();
        struct pollfd p = { .fd = fd, .events = events };
        const int n = poll(&p, 1, left <= 0 ? 0 : (int)gy_min64(left / 1000000 + 1, 1000));
        if (n > 0)
            return 1;
        if (left <= 0 || (n < 0 && errno != EINTR))
            return 0;
    }
}

static int socket_set_up(int fd)
{
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* Where a host can be reached. */
struct socket_address {
    struct sockaddr_storage at;
    socklen_t bytes;
};

#ifndef GY_NO_NAMES
/* Returns how many of `room` addresses were filled; below 0: a status. */
static int socket_find(const char *host, int port, int listens, struct socket_address *out, int room, struct gy_error *err)
{
    const struct addrinfo want = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0) };
    struct addrinfo *found = NULL;
    char service[16];
    int count = 0;
    snprintf(service, sizeof service, "%d", port);
    const int status = getaddrinfo(host, service, &want, &found);
    if (status != 0)
        return GY_FAIL(err, GY_E_ARG, "the host \"%s\" is not known: %s", host,
                       gai_strerror(status));
    for (const struct addrinfo *a = found; a != NULL && count < room; a = a->ai_next, count++) {
        memcpy(&out[count].at, a->ai_addr, a->ai_addrlen);
        out[count].bytes = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return count;
}
#else
/* A static build looks no names up: the system would need libraries for it. */
static int socket_find(const char *host, int port, int listens, struct socket_address *out, int room, struct gy_error *err)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    (void)listens, (void)room;
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "\"%s\" is no address in numbers; this build knows "
                       "no names of hosts", host);
    memcpy(&out->at, &at, sizeof at);
    out->bytes = sizeof at;
    return 1;
}
#endif

static int socket_port(int fd)
{
    struct gy_net_endpoint own;
    return gy_net_endpoint_own(fd, &own) == 0 ? gy_net_endpoint_port(&own) : -1;
}

GY_INT int gy_net_listen(const char *host, int port, int *fd, int *bound, struct gy_error *err)
{
    struct socket_address found;
    const int count = socket_find(host ? host : "127.0.0.1", port, 1, &found, 1, err);
    if (count < 0)
        return count;
    const int one = 1, s = socket(found.at.ss_family, SOCK_STREAM, 0);
    int good = s >= 0 && socket_set_up(s) && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0;
    good = good && bind(s, (const struct sockaddr *)(const void *)&found.at, found.bytes) == 0 && listen(s, SOCKET_BACKLOG) == 0;
    const int problem = errno;
    if (!good) {
        if (s >= 0)
            close(s);
        return GY_FAIL(err, GY_E_IO, "cannot listen on %s port %d: %s", host ? host : "127.0.0.1", port, strerror(problem));
    }
    *fd = s;
    *bound = socket_port(s);
    return GY_OK;
}

/* One try. Returns the connected socket; -1: nobody answered. */
static int socket_try(const struct socket_address *to, int64_t deadline)
{
    const int s = socket(to->at.ss_family, SOCK_STREAM, 0);
    int problem = 0;
    socklen_t bytes = sizeof problem;
    if (s < 0)
        return -1;
    int good = socket_set_up(s) && (connect(s, (const struct sockaddr *)(const void *)&to->at, to->bytes) == 0 || errno == EINPROGRESS);
    good = good && socket_ready(s, POLLOUT, deadline) && getsockopt(s, SOL_SOCKET, SO_ERROR, &problem, &bytes) == 0 && problem == 0;
    if (good)
        return s;
    close(s);
    return -1;
}

GY_INT int gy_net_connect(const char *host, int port, int64_t deadline, int *fd, struct gy_error *err)
{
    struct socket_address found[8];
    const int count = socket_find(host, port, 0, found, 8, err);
    int s = -1;
    if (count < 0)
        return count;
    for (;;) {
        for (int k = 0; k < count && s < 0; k++)
            s = socket_try(&found[k], deadline);
        if (s >= 0 || gy_clock_ns() + SOCKET_RETRY_NS > deadline)
            break;
        poll(NULL, 0, SOCKET_RETRY_NS / 1000000);
    }
    if (s < 0)
        return GY_FAIL(err, GY_E_PEER, "nobody answers at %s port %d", host, port);
    *fd = s;
    return GY_OK;
}

GY_INT int gy_net_wait(int fd, int64_t deadline)
{
    return socket_ready(fd, POLLIN, deadline);
}

GY_INT int gy_net_read(int fd, void *bytes, size_t count, int64_t deadline, struct gy_error *err)
{
    for (size_t have = 0; have < count;) {
        const ssize_t n = recv(fd, (unsigned char *)bytes + have, count - have, 0);
        if (n > 0)
            have += (size_t)n;
        else if (n == 0)
            return GY_FAIL(err, GY_E_PEER, "the peer closed the connection after %zu of %zu bytes", have, count);
        else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return GY_FAIL(err, GY_E_PEER, "the connection broke: %s", strerror(errno));
        else if (!socket_ready(fd, POLLIN, deadline))
            return GY_FAIL(err, GY_E_PEER, "the peer was silent for too long, after %zu of %zu bytes", have, count);
    }
    return GY_OK;
}

GY_INT int gy_net_write(int fd, const void *bytes, size_t count, int64_t deadline, struct gy_error *err)
{
    for (size_t done = 0; done < count;) {
        const ssize_t n = send(fd, (const unsigned char *)bytes + done, count - done, MSG_NOSIGNAL);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return GY_FAIL(err, GY_E_PEER, "the connection broke: %s", strerror(errno));
        else if (!socket_ready(fd, POLLOUT, deadline))
            return GY_FAIL(err, GY_E_PEER, "the peer takes nothing for too long, after %zu of %zu bytes", done, count);
    }
    return GY_OK;
}

/* ---- addresses of the system ---- */

static int socket_keep(const struct sockaddr_storage *at, socklen_t bytes, struct gy_net_endpoint *out)
{
    if (bytes > sizeof out->bytes || (at->ss_family != AF_INET && at->ss_family != AF_INET6))
        return -1;
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, at, bytes);
    out->count = bytes;
    return 0;
}

/* Copies the bytes of an address's host. An IPv4 address mapped into IPv6 counts as IPv4. Returns
 * how many bytes; 0: no such address. */
static int socket_host(const struct gy_net_endpoint *at, unsigned char host[16])
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;
    struct sockaddr_storage any = {0};
    memcpy(&any, at->bytes, at->count <= sizeof at->bytes ? at->count : 0);
    if (any.ss_family == AF_INET && at->count == sizeof v4) {
        memcpy(&v4, &any, sizeof v4);
        memcpy(host, &v4.sin_addr, 4);
        return 4;
    }
    if (any.ss_family != AF_INET6 || at->count != sizeof v6)
        return 0;
    memcpy(&v6, &any, sizeof v6);
    const int is_mapped = memcmp(&v6.sin6_addr, mapped, sizeof mapped) == 0;
    memcpy(host, (const unsigned char *)&v6.sin6_addr + (is_mapped ? 12 : 0), is_mapped ? 4 : 16);
    return is_mapped ? 4 : 16;
}

GY_INT int gy_net_endpoint_own(int fd, struct gy_net_endpoint *out)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    return getsockname(fd, (struct sockaddr *)(void *)&at, &bytes) == 0 ? socket_keep(&at, bytes, out) : -1;
}

GY_INT int gy_net_endpoint_peer(int fd, struct gy_net_endpoint *out)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    return getpeername(fd, (struct sockaddr *)(void *)&at, &bytes) == 0 ? socket_keep(&at, bytes, out) : -1;
}

GY_INT int gy_net_endpoint_interface(const char *name, struct gy_net_endpoint *out, struct gy_error *err)
{
    struct ifaddrs *all = NULL;
    int found = 0;
    if (getifaddrs(&all) != 0)
        return GY_FAIL(err, GY_E_IO, "the network interfaces of this host cannot be listed: %s", strerror(errno));
    for (const struct ifaddrs *a = all; a != NULL && !found; a = a->ifa_next) {
        struct sockaddr_storage at = {0};
        const int v4 = a->ifa_addr && a->ifa_addr->sa_family == AF_INET, v6 = a->ifa_addr && a->ifa_addr->sa_family == AF_INET6;
        const socklen_t bytes = v4 ? sizeof(struct sockaddr_in) : v6 ? sizeof(struct sockaddr_in6) : 0;
        if (bytes == 0 || strcmp(a->ifa_name, name) != 0)
            continue;
        memcpy(&at, a->ifa_addr, bytes);
        found = socket_keep(&at, bytes, out) == 0;
    }
    freeifaddrs(all);
    return found ? GY_OK : GY_FAIL(err, GY_E_ARG, "GYRE_INTERFACE is \"%.60s\"; this host has no such interface with an address", name);
}

GY_INT int gy_net_endpoint_port(const struct gy_net_endpoint *at)
{
    struct sockaddr_storage any = {0};
    memcpy(&any, at->bytes, at->count <= sizeof at->bytes ? at->count : 0);
    return ntohs(any.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&any)->sin6_port : ((struct sockaddr_in *)(void *)&any)->sin_port);
}

GY_INT void gy_net_endpoint_text(const struct gy_net_endpoint *at, char *text, size_t room)
{
    unsigned char host[16];
    char words[INET6_ADDRSTRLEN] = "an unknown address";
    const int bytes = socket_host(at, host);
    if (bytes > 0)
        (void)inet_ntop(bytes == 4 ? AF_INET : AF_INET6, host, words, sizeof words);
    snprintf(text, room, bytes == 16 ? "[%s]:%d" : "%s:%d", words, gy_net_endpoint_port(at));
}

GY_INT void gy_net_endpoint_loopback(struct gy_net_endpoint *out)
{
    struct sockaddr_storage at = {0};
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(&at, &v4, sizeof v4);
    (void)socket_keep(&at, sizeof v4, out);
}

GY_INT int gy_net_endpoint_is_loopback(const struct gy_net_endpoint *at)
{
    static const unsigned char v6[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    unsigned char host[16];
    const int bytes = socket_host(at, host);
    return bytes == 4 ? host[0] == 127 : bytes == 16 && memcmp(host, v6, sizeof v6) == 0;
}

GY_INT int gy_net_endpoint_same_host(const struct gy_net_endpoint *a, const struct gy_net_endpoint *b)
{
    unsigned char one[16], two[16];
    const int bytes = socket_host(a, one);
    return bytes > 0 && bytes == socket_host(b, two) && memcmp(one, two, (size_t)bytes) == 0;
}

/* Port 0 of the same host. */
static void socket_any_port(struct sockaddr_storage *at)
{
    if (at->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)at)->sin6_port = 0;
    else
        ((struct sockaddr_in *)(void *)at)->sin_port = 0;
}

GY_INT int gy_net_listen_at(const struct gy_net_endpoint *own, int *fd, struct gy_net_endpoint *bound, struct gy_error *err)
{
    struct sockaddr_storage at = {0};
    memcpy(&at, own->bytes, own->count);
    socket_any_port(&at);
    const int s = socket(at.ss_family, SOCK_STREAM, 0);
    const int good = s >= 0 && socket_set_up(s) && bind(s, (const struct sockaddr *)(const void *)&at, own->count) == 0 && listen(s, SOCKET_BACKLOG) == 0 &&
                     gy_net_endpoint_own(s, bound) == 0;
    const int problem = errno;
    if (!good && s >= 0)
        close(s);
    *fd = good ? s : -1;
    return good ? GY_OK : GY_FAIL(err, GY_E_IO, "cannot listen for the data of other ranks: %s", strerror(problem));
}

GY_INT int gy_net_accept_now(int listener, int *fd)
{
    const int s = accept(listener, NULL, NULL), problem = errno;
    if (s < 0)
        return problem != 0 ? problem : EIO;
    if (!socket_set_up(s)) {
        close(s);
        return EIO;
    }
    *fd = s;
    return 0;
}

GY_INT int gy_net_connect_begin(const struct gy_net_endpoint *to, int *fd)
{
    struct sockaddr_storage at = {0};
    if (to->count > sizeof to->bytes)
        return -1;
    memcpy(&at, to->bytes, to->count);
    const int s = socket(at.ss_family, SOCK_STREAM, 0);
    if (s >= 0 && socket_set_up(s) && (connect(s, (const struct sockaddr *)(const void *)&at, to->count) == 0 || errno == EINPROGRESS)) {
        *fd = s;
        return 0;
    }
    if (s >= 0)
        close(s);
    return -1;
}

GY_INT int gy_net_connect_problem(int fd)
{
    int problem = 0;
    socklen_t bytes = sizeof problem;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &bytes) == 0 ? problem : errno;
}

GY_INT int gy_net_connect_wait(int fd, int64_t deadline)
{
    return socket_ready(fd, POLLOUT, deadline) ? gy_net_connect_problem(fd) : ETIMEDOUT;
}

/* The number of unanswered probes is the largest possible. So the system never cuts the connection;
 * whoever waits for it decides. */
GY_INT void gy_net_socket_watch(int fd)
{
    static const int on = 1, seconds = 1, questions = 127;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions);
}

/* The beginning of Linux's struct tcp_info (linux/tcp.h), which does not change. probes counts
 * unanswered probes of a silent connection or of one whose other end has no room. probes and
 * retransmits begin anew with each answer. Times are in ms. */
struct socket_info {
    unsigned char state, ca_state, retransmits, probes, backoff, options, scales, flags;
    uint32_t rto, ato, snd_mss, rcv_mss, unacked, sacked, lost, retrans, fackets, last_data_sent, last_ack_sent, last_data_recv, last_ack_recv;
};

GY_INT int gy_net_socket_is_cut(int fd, int waits)
{
    struct socket_info info;
    socklen_t bytes = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || bytes < sizeof info)
        return 0;
    return info.last_data_recv >= GY_NET_CUT_MS && info.last_ack_recv >= GY_NET_CUT_MS && ((waits && info.probes >= 2) || info.retransmits >= 2);
}

GY_INT void gy_net_socket_near(int fd)
{
    struct gy_net_endpoint own, peer;
    if (gy_net_endpoint_own(fd, &own) == 0 && gy_net_endpoint_peer(fd, &peer) == 0 && gy_net_endpoint_same_host(&own, &peer))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

GY_INT int gy_net_address(const char *text, char *host, size_t room, int *port, struct gy_error *err)
{
    const char *colon = strrchr(text, ':');
    const int brackets = text[0] == '[' && colon && colon > text && colon[-1] == ']';
    const char *first = text + brackets, *last = colon ? colon - brackets : NULL;
    int64_t number;
    if (!colon || last <= first || (size_t)(last - first) >= room || gy_text_int(colon + 1, 1, 65535, &number) != 0)
        return GY_FAIL(err, GY_E_ARG, "\"%s\" is no address; it must be HOST:PORT", text);
    memcpy(host, first, (size_t)(last - first));
    host[last - first] = 0;
    *port = (int)number;
    return GY_OK;
}
