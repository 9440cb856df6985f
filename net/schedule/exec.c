/* SPDX-License-Identifier: MIT */
/* exec.c: posts the messages of a round, lane by lane. When all of them are done it adds what came,
 * in the order of the list, and begins the lane's next round. Data to be added waits in a staging
 * area, which has room for the lane's largest round. Where no other step of the round touches the
 * same pieces, it is added while it arrives, if the transport allows.
 *
 * Floats that travel as bf16 are half the bytes; sums are made in float. A rank rounds what it
 * sends in its own buffer, too, so that it continues with what the other one has. At the end every
 * rank rounds what it has. So all end with the same bits. */
#include "engine/base/half.h"
#include "net/schedule/add.h"
#include "net/schedule/exec.h"

#define EXEC_STRIP 1024

struct exec_lane {
    int64_t at, end, last;  /* its round is [at, end); last: the end of its steps */
    unsigned char *staging;
};
struct gy_net_exec {
    struct gy_alloc alloc;
    struct gy_arena arena;
    const struct gy_net_schedule *s;
    struct gy_net_end end;
    gy_net_add_fn add;
    struct gy_net_request *requests; /* one a step of this rank */
    unsigned char *alone;            /* [steps]: no other step of its round touches its pieces */
    struct exec_lane *lanes;
    float *data;
    int64_t most, count, first;      /* first: of this rank's steps */
    int left;                        /* lanes that are not done */
    uint32_t tag;
};

GY_INT void gy_net_add_plain(float *dst, const float *src, int64_t count)
{
    gy_net_sum2(dst, dst, src, count);
}

GY_INT int64_t gy_net_piece_at(const struct gy_net_schedule *s, int32_t piece, int64_t count)
{
    if (piece >= s->pieces)
        return count;
    return (int64_t)((double)count / s->pieces * piece) / 16 * 16;
}

static int64_t exec_elements(const struct gy_net_exec *e, const struct gy_net_step *t, int64_t count)
{
    return gy_net_piece_at(e->s, t->piece + t->pieces, count) - gy_net_piece_at(e->s, t->piece, count);
}

static int64_t exec_round_end(const struct gy_net_exec *e, const struct exec_lane *lane)
{
    int64_t end = lane->at;
    while (end < lane->last && e->s->steps[end].round == e->s->steps[lane->at].round)
        end++;
    return end;
}

/* ---- bf16 ---- */

/* Rounds data in place to what bf16 keeps, and writes that to `to`, which may be NULL. */
static void exec_pack(uint16_t *to, float *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const uint16_t half = gy_bf16_narrow(data[i]);
        data[i] = gy_bf16_widen(half);
        if (to)
            to[i] = half;
    }
}

static void exec_unpack(const struct gy_net_exec *e, float *data, const uint16_t *from, int64_t count, int adds)
{
    float strip[EXEC_STRIP];
    for (int64_t at = 0; at < count; at += EXEC_STRIP) {
        const int64_t n = gy_min64(EXEC_STRIP, count - at);
        float *const to = adds ? strip : data + at;
        for (int64_t i = 0; i < n; i++)
            to[i] = gy_bf16_widen(from[at + i]);
        if (adds)
            e->add(data + at, strip, n);
    }
}

/* Does the message of this step lie in the staging area? */
static int exec_is_staged(const struct gy_net_exec *e, const struct gy_net_step *t)
{
    return e->end.half || t->kind == GY_NET_ADD;
}

static size_t exec_bytes(const struct gy_net_exec *e, int64_t count)
{
    return (size_t)count * (e->end.half ? sizeof(uint16_t) : sizeof(float));
}

/* ---- rounds ---- */

/* Takes bytes of a step's message from byte `at` on. It adds them, or unpacks them where the
 * message replaces. */
static void exec_give(const struct gy_net_exec *e, const struct gy_net_step *t, size_t at, const void *came, size_t bytes)
{
    const size_t each = exec_bytes(e, 1);
    float *const data = e->data + gy_net_piece_at(e->s, t->piece, e->count) + at / each;
    if (e->end.half)
        exec_unpack(e, data, came, (int64_t)(bytes / each), t->kind == GY_NET_ADD);
    else
        e->add(data, came, (int64_t)(bytes / each));
}

static void exec_take(struct gy_net_request *r, size_t bytes)
{
    const struct gy_net_exec *e = r->taker;
    exec_give(e, &e->s->steps[e->first + (r - e->requests)], r->taken, r->buffer, bytes);
}

/* Posts the round that begins at lane->at: receives first, so that what is sent finds its place. */
static int exec_post(struct gy_net_exec *e, struct exec_lane *lane, struct gy_error *err)
{
    unsigned char *room = lane->staging;
    lane->end = exec_round_end(e, lane);
    for (int sends = 0; sends < 2; sends++)
        for (int64_t i = lane->at; i < lane->end; i++) {
            const struct gy_net_step *t = &e->s->steps[i];
            if ((t->kind == GY_NET_SEND) != sends)
                continue;
            const int64_t n = exec_elements(e, t, e->count);
            float *const data = e->data + gy_net_piece_at(e->s, t->piece, e->count);
            struct gy_net_request *r = &e->requests[i - e->first];
            *r = (struct gy_net_request){ .sends = sends, .peer = t->peer, .tag = e->tag | t->lane, .bytes = exec_bytes(e, n),
                                         .buffer = exec_is_staged(e, t) ? (void *)room : data };
            if (exec_is_staged(e, t))
                room += gy_align_up(r->bytes, sizeof(float));
            if (exec_is_staged(e, t) && !sends && e->alone[i - e->first]) {
                r->take = exec_take;
                r->taker = e;
            }
            if (sends && e->end.half)
                exec_pack(r->buffer, data, n);
            GY_TRY(e->end.transport->post(e->end.self, r, err));
        }
    return GY_OK;
}

/* 1: the round's messages are done; < 0: one is lost. */
static int exec_round_done(const struct gy_net_exec *e, const struct exec_lane *lane, struct gy_error *err)
{
    for (int64_t i = lane->at; i < lane->end; i++) {
        const struct gy_net_request *r = &e->requests[i - e->first];
        const int state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
        if (state == GY_NET_LOST)
            return GY_FAIL(err, GY_E_PEER, "rank %d: rank %d was lost in round %d of %s", e->end.rank, r->peer, e->s->steps[i].round, e->s->name);
        if (state == GY_NET_PENDING)
            return 0;
    }
    return 1;
}

/* What came of staged messages and was not taken yet. */
static void exec_add(const struct gy_net_exec *e, const struct exec_lane *lane)
{
    for (int64_t i = lane->at; i < lane->end; i++) {
        const struct gy_net_step *t = &e->s->steps[i];
        struct gy_net_request *const r = &e->requests[i - e->first];
        if (t->kind != GY_NET_SEND && exec_is_staged(e, t))
            exec_give(e, t, r->taken, r->buffer, r->bytes - r->taken);
    }
}

/* Goes on with a lane as far as messages have come. */
static int exec_lane(struct gy_net_exec *e, struct exec_lane *lane, struct gy_error *err)
{
    while (lane->at < lane->last) {
        const int done = exec_round_done(e, lane, err);
        if (done != 1)
            return done;
        exec_add(e, lane);
        lane->at = lane->end;
        if (lane->at < lane->last)
            GY_TRY(exec_post(e, lane, err));
        else if (--e->left == 0 && e->end.half)
            exec_pack(NULL, e->data, e->count);
    }
    return GY_OK;
}

GY_INT int gy_net_exec_start(struct gy_net_exec *e, float *data, int64_t count, struct gy_error *err)
{
    if (count < 0 || count > e->most)
        return GY_FAIL(err, GY_E_ARG, "a buffer of %" PRId64 " floats; the executor was opened for %" PRId64, count, e->most);
    if (e->left > 0)
        return GY_FAIL(err, GY_E_STATE, "the buffer before is not done");
    e->data = data;
    e->count = count;
    int64_t at = e->first;
    for (int l = 0; l < e->s->lanes; l++) {
        struct exec_lane *lane = &e->lanes[l];
        lane->at = at;
        while (at < e->s->first[e->end.rank + 1] && e->s->steps[at].lane == l)
            at++;
        lane->last = at;
        e->left += lane->at < lane->last;
    }
    for (int l = 0; l < e->s->lanes; l++)
        if (e->lanes[l].at < e->lanes[l].last)
            GY_TRY(exec_post(e, &e->lanes[l], err));
    return GY_OK;
}

GY_INT int gy_net_exec_look(struct gy_net_exec *e, struct gy_error *err)
{
    for (int l = 0; l < e->s->lanes && e->left > 0; l++)
        GY_TRY(exec_lane(e, &e->lanes[l], err));
    return e->left == 0;
}

GY_INT int gy_net_exec_test(struct gy_net_exec *e, struct gy_error *err)
{
    if (e->left > 0)
        GY_TRY(e->end.transport->progress(e->end.self, err));
    return gy_net_exec_look(e, err);
}

/* Elements of a lane's largest round that lie in the staging area. */
static int64_t exec_staging(const struct gy_net_exec *e, int lane)
{
    int64_t most = 0, now = 0;
    int round = -1;
    for (int64_t i = e->first; i < e->s->first[e->end.rank + 1]; i++) {
        const struct gy_net_step *t = &e->s->steps[i];
        if (t->lane != lane || !exec_is_staged(e, t))
            continue;
        now = t->round == round ? now : 0;
        round = t->round;
        /* A smaller buffer's pieces may be up to 16 elements off the proportion at both ends. */
        now += exec_elements(e, t, e->most) + 32;
        most = gy_max64(most, now);
    }
    return most;
}

static int exec_touches(const struct gy_net_step *a, const struct gy_net_step *b)
{
    return a->piece < b->piece + b->pieces && b->piece < a->piece + a->pieces;
}

/* Which steps' messages may be added before their round is over. */
static void exec_find_alone(struct gy_net_exec *e, int64_t steps)
{
    const struct gy_net_step *const own = &e->s->steps[e->first];
    for (int64_t begin = 0, end; begin < steps; begin = end) {
        for (end = begin; end < steps && own[end].lane == own[begin].lane && own[end].round == own[begin].round; end++)
            continue;
        for (int64_t i = begin; i < end; i++) {
            int64_t other = begin;
            while (other < end && (other == i || !exec_touches(&own[i], &own[other])))
                other++;
            e->alone[i] = other == end;
        }
    }
}

static int exec_memory(struct gy_net_exec *e, struct gy_error *err)
{
    const size_t steps = (size_t)(e->s->first[e->end.rank + 1] - e->first);
    e->requests = gy_arena_take(&e->arena, steps + 1, sizeof *e->requests);
    e->alone = gy_arena_take(&e->arena, steps + 1, 1);
    e->lanes = gy_arena_take(&e->arena, (size_t)e->s->lanes, sizeof *e->lanes);
    if (!e->requests || !e->alone || !e->lanes)
        return GY_NOMEM(err, "an executor", steps * sizeof *e->requests);
    exec_find_alone(e, (int64_t)steps);
    for (int l = 0; l < e->s->lanes; l++) {
        const size_t bytes = exec_bytes(e, exec_staging(e, l)) + sizeof(float);
        e->lanes[l].staging = gy_arena_take(&e->arena, bytes, 1);
        if (!e->lanes[l].staging)
            return GY_NOMEM(err, "an executor's staging", bytes);
    }
    return GY_OK;
}

GY_INT int gy_net_exec_open(struct gy_net_exec **out, const struct gy_net_schedule *s, const struct gy_net_end *end, int64_t most,
                            unsigned epoch, gy_net_add_fn add, const struct gy_alloc *alloc, struct gy_error *err)
{
    if (end->ranks != s->ranks || epoch >= 1u << 16)
        return GY_FAIL(err, GY_E_ARG, "a schedule for %d ranks on %d, epoch %u", s->ranks, end->ranks, epoch);
    struct gy_net_exec *e = gy_alloc_take(alloc, 1, sizeof *e);
    if (!e)
        return GY_NOMEM(err, "an executor", sizeof *e);
    e->alloc = *alloc;
    e->s = s;
    e->end = *end;
    e->add = add ? add : gy_net_add_plain;
    e->most = most;
    e->first = s->first[end->rank];
    e->tag = (uint32_t)epoch << 16;
    gy_arena_open_hook(&e->arena, alloc);
    const int status = exec_memory(e, err);
    if (status == GY_OK)
        *out = e;
    else
        gy_net_exec_close(e);
    return status;
}

GY_INT void gy_net_exec_close(struct gy_net_exec *e)
{
    if (!e)
        return;
    const struct gy_alloc alloc = e->alloc;
    if (e->left > 0)
        e->end.transport->cancel(e->end.self, -1);
    gy_arena_close(&e->arena);
    gy_alloc_free(&alloc, e, sizeof *e);
}
