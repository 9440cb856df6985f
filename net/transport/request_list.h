/* SPDX-License-Identifier: MIT */
/* request_list.h: a list of requests in the order in which they were posted, linked by their own
 * members. shared.c and stream.c keep their requests in it. */
#ifndef GY_NET_REQUEST_LIST_H
#define GY_NET_REQUEST_LIST_H
#include "net/transport/transport.h"

struct gy_net_request_list {
    struct gy_net_request *first, *last;
};

static inline void gy_net_list_append(struct gy_net_request_list *list, struct gy_net_request *r)
{
    r->next = NULL;
    r->prev = list->last;
    if (list->last)
        list->last->next = r;
    else
        list->first = r;
    list->last = r;
}

static inline void gy_net_list_remove(struct gy_net_request_list *list, struct gy_net_request *r)
{
    if (r->prev)
        r->prev->next = r->next;
    else
        list->first = r->next;
    if (r->next)
        r->next->prev = r->prev;
    else
        list->last = r->prev;
}

#endif
