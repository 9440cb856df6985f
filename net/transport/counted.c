/* SPDX-License-Identifier: MIT */
/* counted.c: counts sends alone: what a rank receives, another one sends. */
#include "net/transport/counted.h"

struct gy_net_counted {
    struct gy_alloc alloc;
    struct gy_net_transport table; /* named and sized as the one inside */
    struct gy_net_end inner;
    int64_t *sent;
};

static int counted_post(void *self, struct gy_net_request *request, struct gy_error *err)
{
    struct gy_net_counted *const c = self;
    if (request->sends && request->peer >= 0 && request->peer < c->inner.ranks)
        c->sent[request->peer] += (int64_t)request->bytes;
    return c->inner.transport->post(c->inner.self, request, err);
}

static int counted_progress(void *self, struct gy_error *err)
{
    const struct gy_net_counted *const c = self;
    return c->inner.transport->progress(c->inner.self, err);
}

static void counted_cancel(void *self, int peer)
{
    const struct gy_net_counted *const c = self;
    c->inner.transport->cancel(c->inner.self, peer);
}

GY_INT int gy_net_counted_open(struct gy_net_counted **out, struct gy_net_end *end,
                               const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_counted *const c = gy_alloc_take(alloc, 1, sizeof *c);
    int64_t *const sent = gy_alloc_take(alloc, (size_t)end->ranks, sizeof *sent);
    if (!c || !sent) {
        gy_alloc_free(alloc, c, sizeof *c);
        gy_alloc_free(alloc, sent, (size_t)end->ranks * sizeof *sent);
        return GY_NOMEM(err, "the count of bytes between ranks", (size_t)end->ranks * sizeof *sent);
    }
    *c = (struct gy_net_counted){ .alloc = *alloc, .table = *end->transport, .inner = *end,
                                 .sent = sent };
    c->table.post = counted_post;
    c->table.progress = counted_progress;
    c->table.cancel = counted_cancel;
    end->transport = &c->table;
    end->self = c;
    *out = c;
    return GY_OK;
}

GY_INT void gy_net_counted_close(struct gy_net_counted *c)
{
    if (!c)
        return;
    const struct gy_alloc alloc = c->alloc;
    gy_alloc_free(&alloc, c->sent, (size_t)c->inner.ranks * sizeof *c->sent);
    gy_alloc_free(&alloc, c, sizeof *c);
}

GY_INT int64_t *gy_net_counted_sent(struct gy_net_counted *c) { return c ? c->sent : NULL; }
