/* SPDX-License-Identifier: MIT */
/* Lane after lane, a round's messages are posted; when all of them are done what came is added, in the order of the list, and the
 * next round begins. What is received to be added lies in a staging area, a part a lane, as large as the lane's largest round. */
#include "exec.h"

struct exec_lane {
    int64_t at, end, last;  /* steps of its round, and behind its last */
    float *staging;
};
struct gy_net_exec {
    struct gy_alloc alloc;
    struct gy_arena arena;
    const struct gy_net_schedule *s;
    struct gy_net_end end;
    gy_net_add_fn add;
    struct gy_net_request *requests; /* one a step of this rank */
    struct exec_lane *lanes;
    float *data;
    int64_t most, count, first;      /* first: of this rank's steps */
    int left;                        /* lanes that are not done */
    uint32_t tag;
};

GY_INT void gy_net_add_plain(float *dst, const float *src, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        dst[i] += src[i];
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

/* Posts the round that begins at lane->at: receives first, so that what is sent finds its place. */
static int exec_post(struct gy_net_exec *e, struct exec_lane *lane, struct gy_error *err)
{
    float *room = lane->staging;
    lane->end = exec_round_end(e, lane);
    for (int sends = 0; sends < 2; sends++)
        for (int64_t i = lane->at; i < lane->end; i++) {
            const struct gy_net_step *t = &e->s->steps[i];
            if ((t->kind == GY_NET_SEND) != sends)
                continue;
            const int64_t n = exec_elements(e, t, e->count);
            struct gy_net_request *r = &e->requests[i - e->first];
            *r = (struct gy_net_request){.sends = sends, .peer = t->peer, .tag = e->tag | t->lane, .bytes = (size_t)n * sizeof(float),
                                         .buffer = t->kind == GY_NET_ADD ? room : e->data + gy_net_piece_at(e->s, t->piece, e->count)};
            room += t->kind == GY_NET_ADD ? n : 0;
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

static void exec_add(const struct gy_net_exec *e, const struct exec_lane *lane)
{
    for (int64_t i = lane->at; i < lane->end; i++) {
        const struct gy_net_step *t = &e->s->steps[i];
        if (t->kind == GY_NET_ADD)
            e->add(e->data + gy_net_piece_at(e->s, t->piece, e->count), e->requests[i - e->first].buffer, exec_elements(e, t, e->count));
    }
}

/* Goes on with a lane as far as it can. */
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
        else
            e->left--;
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

GY_INT int gy_net_exec_test(struct gy_net_exec *e, struct gy_error *err)
{
    if (e->left > 0)
        GY_TRY(e->end.transport->progress(e->end.self, err));
    for (int l = 0; l < e->s->lanes && e->left > 0; l++)
        GY_TRY(exec_lane(e, &e->lanes[l], err));
    return e->left == 0;
}

/* Floats that a lane's largest round receives to add. */
static int64_t exec_staging(const struct gy_net_exec *e, int lane)
{
    int64_t most = 0, now = 0;
    int round = -1;
    for (int64_t i = e->first; i < e->s->first[e->end.rank + 1]; i++) {
        const struct gy_net_step *t = &e->s->steps[i];
        if (t->lane != lane || t->kind != GY_NET_ADD)
            continue;
        now = t->round == round ? now : 0;
        round = t->round;
        now += exec_elements(e, t, e->most) + 32; /* a smaller buffer's pieces may be up to 16 elements off the proportion at both ends */
        most = gy_max64(most, now);
    }
    return most;
}

static int exec_take(struct gy_net_exec *e, struct gy_error *err)
{
    const size_t steps = (size_t)(e->s->first[e->end.rank + 1] - e->first);
    e->requests = gy_arena_take(&e->arena, steps + 1, sizeof(*e->requests));
    e->lanes = gy_arena_take(&e->arena, (size_t)e->s->lanes, sizeof(*e->lanes));
    if (e->requests == NULL || e->lanes == NULL)
        return GY_NOMEM(err, "an executor", steps * sizeof(*e->requests));
    for (int l = 0; l < e->s->lanes; l++) {
        const size_t floats = (size_t)exec_staging(e, l);
        e->lanes[l].staging = gy_arena_take(&e->arena, floats + 1, sizeof(float));
        if (e->lanes[l].staging == NULL)
            return GY_NOMEM(err, "an executor's staging", floats * sizeof(float));
    }
    return GY_OK;
}

GY_INT int gy_net_exec_open(struct gy_net_exec **out, const struct gy_net_schedule *s, const struct gy_net_end *end, int64_t most,
                            unsigned epoch, gy_net_add_fn add, const struct gy_alloc *alloc, struct gy_error *err)
{
    if (end->ranks != s->ranks || epoch >= 1u << 16)
        return GY_FAIL(err, GY_E_ARG, "a schedule for %d ranks on %d, epoch %u", s->ranks, end->ranks, epoch);
    struct gy_net_exec *e = gy_alloc_take(alloc, 1, sizeof(*e));
    if (e == NULL)
        return GY_NOMEM(err, "an executor", sizeof(*e));
    e->alloc = *alloc;
    e->s = s;
    e->end = *end;
    e->add = add != NULL ? add : gy_net_add_plain;
    e->most = most;
    e->first = s->first[end->rank];
    e->tag = (uint32_t)epoch << 16;
    gy_arena_open_hook(&e->arena, alloc);
    const int status = exec_take(e, err);
    if (status == GY_OK)
        *out = e;
    else
        gy_net_exec_close(e);
    return status;
}

GY_INT void gy_net_exec_close(struct gy_net_exec *e)
{
    if (e == NULL)
        return;
    const struct gy_alloc alloc = e->alloc;
    if (e->left > 0)
        e->end.transport->cancel(e->end.self, -1);
    gy_arena_close(&e->arena);
    gy_alloc_free(&alloc, e, sizeof(*e));
}
