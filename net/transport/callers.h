/* SPDX-License-Identifier: MIT */
/* callers.h: callers of a listening socket, until each has proved to be a rank of this job. boot.c,
 * reform.c and tcp.c let ranks in by it. All callers are served at once, and none is waited for. Of
 * CALLERS_MOST (callers.c) at a time, one that has named a missing rank keeps its place until its
 * time is over. Of the others, which have said nothing yet, the oldest leaves for the next one. So
 * neither silence nor a flood of strangers keeps a rank out. A rank says its name at once, and
 * calls again if it was sent away before. */
#ifndef GY_NET_CALLERS_H
#define GY_NET_CALLERS_H
#include "engine/base/mem.h"
#include "net/transport/tcp_handshake.h"

struct gy_net_callers_config {
    int listener;
    int wake;                          /* ends a wait when it can be read; -1: none */
    const struct gy_net_handshake_self *self; /* must outlive the callers, as owner */
    /* A caller has proved that it is call->rank. The function returns 0 to let it in; the
     * connection is then the owner's. */
    int (*take)(void *owner, struct gy_net_handshake *call);
    /* A caller was sent away; why says the reason. NULL: nothing is reported. */
    void (*refuse)(void *owner, const struct gy_net_handshake *call, const char *why);
    void *owner;
};

struct gy_net_callers;
GY_INT int gy_net_callers_open(struct gy_net_callers **out, const struct gy_net_callers_config *config, const struct gy_alloc *alloc,
                               struct gy_error *err);
/* Serves once whoever calls. Returns when something has happened, at `until`, when wake can be
 * read, or after a second. GY_E_IO: no file has been free for a connection for a second, and no
 * stranger held one. */
GY_INT int gy_net_callers_serve(struct gy_net_callers *callers, int64_t until, struct gy_error *err);
/* NULL is fine; the listener is its owner's. */
GY_INT void gy_net_callers_close(struct gy_net_callers *callers);

#endif
