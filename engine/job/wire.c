/* SPDX-License-Identifier: MIT */
/* wire.c: messages with places. Both ends use the places of a message in turn: the n-th message
 * lies in place n modulo their number. */
#include "engine/job/wire.h"

#include "engine/base/clock.h"
#include "engine/job/messages.h"
#include "net/comm/comm.h"
#include "net/transport/transport.h"

#define WIRE_TAG (GY_NET_MESSAGE_TAG + 0x01000000u)

/* One message and its places. */
struct wire_line {
    struct gy_wire_message is;
    struct gy_net_request *request; /* [places] */
    unsigned char *room;            /* [places] of bytes */
    int64_t posted, used;           /* sends or receives begun; receives that were taken */
    int64_t expected;
};

struct gy_wire {
    struct gyre_job *job;
    struct wire_line *line;
    int count;
    int64_t waited;
    struct gy_wire *next; /* of the job, after a failure */
};

static size_t wire_stride(const struct wire_line *l)
{
    return gy_align_up(l->is.bytes + 1, GY_CACHE_LINE);
}
static unsigned char *wire_place(const struct wire_line *l, int64_t n)
{
    return l->room + (size_t)(n % l->is.places) * wire_stride(l);
}

static void wire_free(struct gy_wire *wire)
{
    const struct gy_alloc *alloc = &wire->job->alloc;
    for (int i = 0; wire->line && i < wire->count; i++) {
        struct wire_line *l = &wire->line[i];
        gy_alloc_free(alloc, l->request, (size_t)l->is.places * sizeof *l->request);
        gy_alloc_free(alloc, l->room, (size_t)l->is.places * wire_stride(l));
    }
    gy_alloc_free(alloc, wire->line, ((size_t)wire->count + 1) * sizeof *wire->line);
    gy_alloc_free(alloc, wire, sizeof *wire);
}

static int wire_pending(const struct gy_wire *wire)
{
    for (int i = 0; i < wire->count; i++)
        for (int k = 0; k < wire->line[i].is.places; k++)
            if (wire->line[i].request[k].peer >= 0 &&
                wire->line[i].request[k].state == GY_NET_PENDING)
                return 1;
    return 0;
}

static void wire_close(struct gy_wire *wire)
{
    if (wire && wire_pending(wire)) {
        wire->next = wire->job->left;
        wire->job->left = wire;
    } else if (wire)
        wire_free(wire);
}

GY_INT void gy_wire_free_left(struct gyre_job *job)
{
    while (job->left) {
        struct gy_wire *const wire = job->left;
        job->left = wire->next;
        wire_free(wire);
    }
}

static int wire_fill(struct gy_wire *wire, const struct gy_wire_message *messages,
                     struct gy_error *err)
{
    for (int i = 0; i < wire->count; i++) {
        struct wire_line *l = &wire->line[i];
        l->is = messages[i];
        l->request = gy_alloc_take(&wire->job->alloc, (size_t)l->is.places, sizeof *l->request);
        l->room = gy_alloc_take(&wire->job->alloc, (size_t)l->is.places, wire_stride(l));
        if (!l->request || !l->room) {
            wire->count = i + 1;
            return GY_NOMEM(err, "places for messages",
                            (size_t)messages[i].places * messages[i].bytes);
        }
        for (int k = 0; k < l->is.places; k++)
            l->request[k] = (struct gy_net_request){ .state = GY_NET_DONE, .peer = -1 };
    }
    return GY_OK;
}

static int wire_open(struct gy_wire **out, struct gyre_job *job,
                     const struct gy_wire_message *messages, int count, struct gy_error *err)
{
    struct gy_wire *const wire = gy_alloc_take(&job->alloc, 1, sizeof *wire);
    if (!wire)
        return GY_NOMEM(err, "messages between ranks", sizeof *wire);
    wire->job = job;
    wire->count = count;
    wire->line = gy_alloc_take(&job->alloc, (size_t)count + 1, sizeof *wire->line);
    const int status =
        wire->line ? wire_fill(wire, messages, err)
                   : GY_NOMEM(err, "messages between ranks", (size_t)count * sizeof *wire->line);
    if (status == GY_OK)
        *out = wire;
    else
        wire_free(wire);
    return status;
}

static int wire_await(struct gy_wire *wire, struct gy_net_request *r, struct gy_error *err)
{
    if (r->peer < 0 || r->state == GY_NET_DONE)
        return GY_OK;
    const int64_t began = gy_clock_ns();
    const int status = wire->job->peers->await(wire->job, r, err);
    wire->waited += gy_clock_ns() - began;
    return status;
}

static int wire_post(struct gy_wire *wire, struct wire_line *l, struct gy_error *err)
{
    struct gy_net_request *const r = &l->request[l->posted % l->is.places];
    *r = (struct gy_net_request){ .sends = l->is.sends,
                                  .peer = l->is.peer,
                                  .tag = WIRE_TAG + l->is.number,
                                  .buffer = wire_place(l, l->posted),
                                  .bytes = l->is.bytes };
    l->posted++;
    return wire->job->peers->post(wire->job, r, err);
}

/* Receives for which there is a place. */
static int wire_ask(struct gy_wire *wire, struct wire_line *l, struct gy_error *err)
{
    while (l->posted < l->expected && l->posted - l->used < l->is.places)
        GY_TRY(wire_post(wire, l, err));
    return GY_OK;
}

static int wire_expect(struct gy_wire *wire, int message, int count, struct gy_error *err)
{
    struct wire_line *const l = &wire->line[message];
    l->expected += count;
    return wire_ask(wire, l, err);
}

static int wire_send(struct gy_wire *wire, int message, const void *data, struct gy_error *err)
{
    struct wire_line *const l = &wire->line[message];
    GY_TRY(wire_await(wire, &l->request[l->posted % l->is.places], err));
    memcpy(wire_place(l, l->posted), data, l->is.bytes);
    return wire_post(wire, l, err);
}

static int wire_take(struct gy_wire *wire, int message, void *data, struct gy_error *err)
{
    struct wire_line *const l = &wire->line[message];
    if (l->used >= l->posted)
        return GY_FAIL(err, GY_E_BUG, "a message from rank %d is taken that nobody asked for",
                       l->is.peer);
    GY_TRY(wire_await(wire, &l->request[l->used % l->is.places], err));
    memcpy(data, wire_place(l, l->used), l->is.bytes);
    l->used++;
    return wire_ask(wire, l, err);
}

static int wire_drain(struct gy_wire *wire, struct gy_error *err)
{
    for (int i = 0; i < wire->count; i++)
        for (int k = 0; k < wire->line[i].is.places && wire->line[i].is.sends; k++)
            GY_TRY(wire_await(wire, &wire->line[i].request[k], err));
    return GY_OK;
}

/* ---- single messages ---- */

/* A request lies on the stack of its call: no transport may know it behind a failure. */
static int wire_single(struct gyre_job *job, struct gy_net_request *r, struct gy_error *err)
{
    int status = job->peers->post(job, r, err);
    if (status == GY_OK)
        status = job->peers->await(job, r, err);
    if (status != GY_OK)
        gy_job_forget(job, r->peer);
    return status;
}

static int wire_tell(struct gyre_job *job, int peer, uint32_t number, const void *data,
                     size_t bytes, struct gy_error *err)
{
    struct gy_net_request r = { .sends = 1,
                                .peer = peer,
                                .tag = WIRE_TAG + number,
                                .buffer = (void *)(uintptr_t)data,
                                .bytes = bytes };
    return wire_single(job, &r, err);
}

static int wire_hear(struct gyre_job *job, int peer, uint32_t number, void *data, size_t bytes,
                     struct gy_error *err)
{
    struct gy_net_request r = {
        .peer = peer, .tag = WIRE_TAG + number, .buffer = data, .bytes = bytes
    };
    return wire_single(job, &r, err);
}

static int wire_both(struct gyre_job *job, struct gy_net_request *in, struct gy_net_request *out,
                     struct gy_error *err)
{
    GY_TRY(job->peers->post(job, in, err));
    GY_TRY(job->peers->post(job, out, err));
    GY_TRY(job->peers->await(job, in, err));
    return job->peers->await(job, out, err);
}

static int wire_pass(struct gyre_job *job, uint32_t number, int to, const void *out,
                     size_t out_bytes, int from, void *in, size_t in_bytes, struct gy_error *err)
{
    struct gy_net_request a = {
        .peer = from, .tag = WIRE_TAG + number, .buffer = in, .bytes = in_bytes
    };
    struct gy_net_request b = { .sends = 1,
                                .peer = to,
                                .tag = WIRE_TAG + number,
                                .buffer = (void *)(uintptr_t)out,
                                .bytes = out_bytes };
    const int status = wire_both(job, &a, &b, err);
    if (status != GY_OK) {
        gy_job_forget(job, from);
        gy_job_forget(job, to);
    }
    return status;
}

static int wire_swap(struct gyre_job *job, int peer, uint32_t number, const void *out, void *in,
                     size_t bytes, struct gy_error *err)
{
    return wire_pass(job, number, peer, out, bytes, peer, in, bytes, err);
}

static int64_t wire_waited(const struct gy_wire *wire) { return wire->waited; }

GY_INT const struct gy_wire_calls *gy_wire_calls(void)
{
    static const struct gy_wire_calls calls = { wire_open, wire_close, wire_expect, wire_send,
                                                wire_take, wire_drain, wire_tell,   wire_hear,
                                                wire_pass, wire_swap,   wire_waited };
    return &calls;
}
