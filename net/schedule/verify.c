/* SPDX-License-Identifier: MIT */
/* verify.c: proves a schedule by running it with symbols. Every piece of every rank holds an
 * expression: a contribution, or the sum of two expressions. Equal expressions are one node,
 * whatever the order of a sum's two sides (a + b and b + a have the same bits). A message passes
 * when both ends have reached its round, as in a rendezvous. If nothing can move and something is
 * left, the schedule can hang. At the end each node knows how many contributions it has, and a sum
 * of random words that only the complete set can have. The nodes' own hashes make the certificate
 * of order. */
#include "engine/base/hash.h"
#include "net/schedule/schedule.h"

#define VERIFY_NONE (-1) /* a piece without a defined content */

struct verify_node {
    uint64_t order;      /* hash of the expression */
    uint64_t leaves;     /* sum of the contributions' words */
    int32_t count;       /* contributions, INT32_MAX at most */
    int32_t left, right; /* left <= right; a contribution: its rank twice */
    int32_t next;        /* in the table's chain */
};

struct verify_lane { /* one lane of one rank, as it runs */
    int64_t at, end;     /* steps of its present round */
    int64_t last;        /* end of its steps */
    int32_t left;        /* steps of the round that did not pass yet */
    int32_t rank;
};

struct verify {
    const struct gy_net_schedule *s;
    struct gy_arena arena;
    struct verify_node *nodes;
    int32_t *heads;              /* [chains] */
    int64_t node_count, node_room, chains;
    int32_t *cells;              /* [ranks][pieces]: node or VERIFY_NONE */
    int64_t *match;              /* [count]: the step at the other end */
    /* [count]: the place in `stage` where a receiving step's pieces wait for the end of its
     * round */
    int64_t *stage_at;
    int32_t *stage;
    unsigned char *posted;       /* [count] */
    struct verify_lane *lanes;   /* [ranks * lanes] */
    int64_t *ready, ready_count; /* lanes whose round is done */
    /* [pieces] each: the last round that sent, added to, or received over a piece */
    int64_t *stamp[3];
    int64_t stamps;
    struct gy_error *err;
};

static const char *const verify_kinds[GY_NET_KINDS] = {"send", "receive", "add"};

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t verify_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The rank that a step belongs to. */
static int verify_where(const struct verify *v, int64_t step)
{
    int low = 0, high = v->s->ranks;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (v->s->first[middle] <= step)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int verify_bad(const struct verify *v, int64_t step, const char *what)
{
    const struct gy_net_step *t = &v->s->steps[step];
    return GY_FAIL(v->err, GY_E_FORMAT, "schedule %s: rank %d, lane %d, round %d, %s of pieces %d to %d with rank %d: %s", v->s->name,
                   verify_where(v, step), t->lane, t->round, verify_kinds[t->kind], t->piece, t->piece + t->pieces - 1, t->peer, what);
}

/* ---- every step by itself ---- */

static int verify_step(const struct verify *v, int64_t i, int rank)
{
    const struct gy_net_schedule *s = v->s;
    const struct gy_net_step *t = &s->steps[i];
    const int32_t part = s->pieces / s->lanes;
    if (t->kind >= GY_NET_KINDS || t->lane >= s->lanes)
        return GY_FAIL(v->err, GY_E_FORMAT, "schedule %s: step %" PRId64 " of rank %d has kind %d and lane %d", s->name, i, rank, t->kind, t->lane);
    if (t->peer < 0 || t->peer >= s->ranks || t->peer == rank)
        return verify_bad(v, i, "there is no such peer");
    if (t->pieces < 1 || t->piece < t->lane * part || t->pieces > part || t->piece > (t->lane + 1) * part - t->pieces)
        return verify_bad(v, i, "the pieces are not its lane's");
    const struct gy_net_step *before = i > s->first[rank] ? t - 1 : NULL;
    if (before && (before->lane > t->lane || (before->lane == t->lane && before->round > t->round)))
        return verify_bad(v, i, "the steps are not in order");
    return GY_OK;
}

/* Within a round a piece may be sent and added to. A step that receives over a piece must be the
 * only one that touches it. */
static int verify_round(struct verify *v, int64_t from, int64_t to)
{
    v->stamps++;
    for (int64_t i = from; i < to; i++) {
        const struct gy_net_step *t = &v->s->steps[i];
        for (int32_t p = t->piece; p < t->piece + t->pieces; p++) {
            const int sent = v->stamp[GY_NET_SEND][p] == v->stamps, received = v->stamp[GY_NET_RECV][p] == v->stamps;
            if (received || (t->kind == GY_NET_RECV && (sent || v->stamp[GY_NET_ADD][p] == v->stamps)))
                return verify_bad(v, i, "another step of the round uses a piece that is received");
            v->stamp[t->kind][p] = v->stamps;
        }
    }
    return GY_OK;
}

static int64_t verify_round_end(const struct gy_net_schedule *s, int64_t at, int64_t last)
{
    int64_t end = at;
    while (end < last && s->steps[end].lane == s->steps[at].lane && s->steps[end].round == s->steps[at].round)
        end++;
    return end;
}

static int verify_steps(struct verify *v)
{
    const struct gy_net_schedule *s = v->s;
    for (int r = 0; r < s->ranks; r++) {
        for (int64_t i = s->first[r]; i < s->first[r + 1]; i++)
            GY_TRY(verify_step(v, i, r));
        for (int64_t i = s->first[r], end; i < s->first[r + 1]; i = end) {
            end = verify_round_end(s, i, s->first[r + 1]);
            GY_TRY(verify_round(v, i, end));
        }
    }
    return GY_OK;
}

/* ---- messages: sends and receives pair off by (sender, lane, receiver, place) ---- */

struct verify_sort {
    const struct gy_net_schedule *s;
    const int32_t *rank_of;
    int64_t *at;
};

static int verify_sort_key(const struct verify_sort *o, int64_t step, int which)
{
    const struct gy_net_step *t = &o->s->steps[step];
    const int sends = t->kind == GY_NET_SEND;
    /* which: 0 receiver, 1 lane, 2 sender */
    return which == 1 ? t->lane : (which == 2) == sends ? o->rank_of[step] : t->peer;
}

static void verify_pass(const struct verify_sort *o, const int64_t *from, int64_t *to, int64_t count, int which)
{
    const int keys = which == 1 ? o->s->lanes : o->s->ranks;
    memset(o->at, 0, ((size_t)keys + 1) * sizeof *o->at);
    for (int64_t i = 0; i < count; i++)
        o->at[verify_sort_key(o, from[i], which) + 1]++;
    for (int k = 0; k < keys; k++)
        o->at[k + 1] += o->at[k];
    for (int64_t i = 0; i < count; i++)
        to[o->at[verify_sort_key(o, from[i], which)]++] = from[i];
}

static int verify_pair(struct verify *v, const struct verify_sort *o, int64_t send, int64_t receive)
{
    for (int which = 0; which < 3; which++)
        if (verify_sort_key(o, send, which) != verify_sort_key(o, receive, which))
            return verify_bad(v, verify_sort_key(o, send, 2) < verify_sort_key(o, receive, 2) ? send : receive, "the other end has no such step");
    if (v->s->steps[send].pieces != v->s->steps[receive].pieces || v->s->steps[send].piece != v->s->steps[receive].piece)
        return verify_bad(v, send, "the other end expects other pieces");
    v->match[send] = receive;
    v->match[receive] = send;
    return GY_OK;
}

static int verify_match(struct verify *v)
{
    const struct gy_net_schedule *s = v->s;
    const size_t count = (size_t)s->count + 1;
    int64_t *list[2] = {gy_arena_take(&v->arena, count, sizeof(int64_t)), gy_arena_take(&v->arena, count, sizeof(int64_t))};
    int64_t *other = gy_arena_take(&v->arena, count, sizeof(int64_t)), number[2] = {0, 0};
    int32_t *rank_of = gy_arena_take(&v->arena, count, sizeof(int32_t));
    int64_t *at = gy_arena_take(&v->arena, (size_t)gy_max64(s->ranks, s->lanes) + 1, sizeof(int64_t));
    if (!list[0] || !list[1] || !other || !rank_of || !at)
        return GY_NOMEM(v->err, "a schedule's proof", count * sizeof(int64_t));
    for (int r = 0; r < s->ranks; r++)
        for (int64_t i = s->first[r]; i < s->first[r + 1]; i++) {
            const int receives = s->steps[i].kind != GY_NET_SEND;
            rank_of[i] = r;
            list[receives][number[receives]++] = i;
        }
    const struct verify_sort order = {s, rank_of, at};
    for (int side = 0; side < 2; side++) {
        verify_pass(&order, list[side], other, number[side], 0);
        verify_pass(&order, other, list[side], number[side], 1);
        verify_pass(&order, list[side], other, number[side], 2);
        memcpy(list[side], other, (size_t)number[side] * sizeof *other);
    }
    for (int64_t i = 0; i < gy_min64(number[0], number[1]); i++)
        GY_TRY(verify_pair(v, &order, list[0][i], list[1][i]));
    if (number[0] != number[1])
        return verify_bad(v, list[number[0] < number[1]][gy_min64(number[0], number[1])], "the other end has no such step");
    return GY_OK;
}

/* ---- expressions ---- */

static int verify_sum(struct verify *v, int32_t a, int32_t b, int32_t *out)
{
    const int32_t left = a < b ? a : b, right = a < b ? b : a;
    const uint64_t key = verify_mix((uint64_t)left << 32 | (uint32_t)right);
    int32_t *head = &v->heads[key % (uint64_t)v->chains];
    for (int32_t n = *head; n != VERIFY_NONE; n = v->nodes[n].next)
        if (v->nodes[n].left == left && v->nodes[n].right == right) {
            *out = n;
            return GY_OK;
        }
    if (v->node_count == v->node_room)
        return GY_FAIL(v->err, GY_E_NOMEM, "schedule %s: more than %" PRId64 " different sums", v->s->name, v->node_room);
    const struct verify_node *l = &v->nodes[left], *r = &v->nodes[right];
    const uint64_t low = l->order < r->order ? l->order : r->order, high = l->order < r->order ? r->order : l->order;
    const int32_t count = (int32_t)gy_min64((int64_t)l->count + r->count, INT32_MAX);
    v->nodes[v->node_count] = (struct verify_node){
        .order = verify_mix(verify_mix(low) + high), .leaves = l->leaves + r->leaves,
        .count = count, .left = left, .right = right, .next = *head };
    *out = *head = (int32_t)v->node_count++;
    return GY_OK;
}

/* ---- the run ---- */

static int32_t *verify_cell(const struct verify *v, int rank, int32_t piece)
{
    return &v->cells[(int64_t)rank * v->s->pieces + piece];
}

/* Both ends are there: what the sender has now waits at the receiver for the end of its round. */
static int verify_pass_message(struct verify *v, int64_t send)
{
    const struct gy_net_step *t = &v->s->steps[send];
    const int from = v->s->steps[v->match[send]].peer;
    for (int32_t k = 0; k < t->pieces; k++) {
        const int32_t node = *verify_cell(v, from, t->piece + k);
        if (node == VERIFY_NONE)
            return verify_bad(v, send, "it has nothing there to send");
        v->stage[v->stage_at[v->match[send]] + k] = node;
    }
    return GY_OK;
}

static int64_t verify_lane_of(const struct verify *v, int64_t step, int rank)
{
    return (int64_t)rank * v->s->lanes + v->s->steps[step].lane;
}

static void verify_done(struct verify *v, int64_t lane)
{
    if (--v->lanes[lane].left == 0)
        v->ready[v->ready_count++] = lane;
}

/* A lane begins the round at l->at. Messages whose other end is there already pass at once. */
static int verify_enter(struct verify *v, int64_t lane)
{
    struct verify_lane *l = &v->lanes[lane];
    l->end = verify_round_end(v->s, l->at, l->last);
    l->left = (int32_t)(l->end - l->at);
    for (int64_t i = l->at, end = l->end; i < end; i++) {
        v->posted[i] = 1;
        if (!v->posted[v->match[i]])
            continue;
        GY_TRY(verify_pass_message(v, v->s->steps[i].kind == GY_NET_SEND ? i : v->match[i]));
        /* the peer's lane has the same number */
        verify_done(v, verify_lane_of(v, i, v->s->steps[i].peer));
        verify_done(v, lane);
    }
    return GY_OK;
}

/* All messages of the lane's round have passed: they take effect in the order of the list. */
static int verify_leave(struct verify *v, int64_t lane)
{
    struct verify_lane *l = &v->lanes[lane];
    for (int64_t i = l->at; i < l->end; i++) {
        const struct gy_net_step *t = &v->s->steps[i];
        for (int32_t k = 0; k < t->pieces && t->kind != GY_NET_SEND; k++) {
            int32_t *cell = verify_cell(v, l->rank, t->piece + k);
            const int32_t came = v->stage[v->stage_at[i] + k];
            if (t->kind == GY_NET_ADD && *cell == VERIFY_NONE)
                return verify_bad(v, i, "it has nothing there to add to");
            if (t->kind == GY_NET_RECV)
                *cell = came;
            else
                GY_TRY(verify_sum(v, *cell, came, cell));
        }
    }
    l->at = l->end;
    return l->at < l->last ? verify_enter(v, lane) : GY_OK;
}

static int verify_run(struct verify *v)
{
    const int64_t lanes = (int64_t)v->s->ranks * v->s->lanes;
    for (int64_t lane = 0; lane < lanes; lane++)
        if (v->lanes[lane].at < v->lanes[lane].last)
            GY_TRY(verify_enter(v, lane));
    while (v->ready_count > 0)
        GY_TRY(verify_leave(v, v->ready[--v->ready_count]));
    for (int64_t lane = 0; lane < lanes; lane++)
        for (int64_t i = v->lanes[lane].at; i < v->lanes[lane].last; i++)
            if (!v->posted[v->match[i]])
                return verify_bad(v, i, "it waits for ever");
    return GY_OK;
}

/* ---- beginning and end ---- */

static void verify_begin(struct verify *v)
{
    const struct gy_net_schedule *s = v->s;
    int64_t staged = 0;
    for (int r = 0; r < s->ranks; r++)
        v->nodes[r] = (struct verify_node){ .order = verify_mix((uint64_t)r), .leaves = verify_mix((uint64_t)r + 1000003), .count = 1,
                                           .left = r, .right = r, .next = VERIFY_NONE };
    v->node_count = s->ranks;
    for (int64_t c = 0; c < v->chains; c++)
        v->heads[c] = VERIFY_NONE;
    for (int r = 0; r < s->ranks; r++)
        for (int32_t p = 0; p < s->pieces; p++) {
            const int has = s->goal == GY_NET_ALL_GATHER ? gy_net_owner(s, p) == r : s->goal != GY_NET_BROADCAST || r == 0;
            *verify_cell(v, r, p) = has ? r : VERIFY_NONE;
        }
    for (int64_t i = 0; i < s->count; i++) {
        v->stage_at[i] = staged;
        staged += s->steps[i].kind == GY_NET_SEND ? 0 : s->steps[i].pieces;
    }
    for (int r = 0; r < s->ranks; r++)
        for (int64_t i = s->first[r], lane = 0; lane < s->lanes; lane++) {
            struct verify_lane *l = &v->lanes[(int64_t)r * s->lanes + lane];
            *l = (struct verify_lane){ .at = i, .rank = r };
            while (i < s->first[r + 1] && s->steps[i].lane == lane)
                i++;
            l->last = i;
        }
}

static int verify_cell_end(const struct verify *v, int rank, int32_t piece, uint64_t all)
{
    const struct gy_net_schedule *s = v->s;
    const int32_t node = *verify_cell(v, rank, piece), owner = s->goal == GY_NET_BROADCAST ? 0 : gy_net_owner(s, piece);
    if (s->goal == GY_NET_ALL_GATHER || s->goal == GY_NET_BROADCAST)
        return node == owner ? GY_OK : GY_FAIL(v->err, GY_E_FORMAT, "schedule %s: rank %d does not end with piece %d of rank %d", s->name,
                                               rank, piece, owner);
    if (s->goal == GY_NET_REDUCE_SCATTER && rank != owner)
        return GY_OK;
    if (v->nodes[node].count != s->ranks || v->nodes[node].leaves != all)
        return GY_FAIL(v->err, GY_E_FORMAT, "schedule %s: piece %d of rank %d ends with %d contributions, not with each of %d once", s->name,
                       piece, rank, v->nodes[node].count, s->ranks);
    if (s->goal == GY_NET_ALLREDUCE && node != *verify_cell(v, 0, piece))
        return GY_FAIL(v->err, GY_E_FORMAT, "schedule %s: piece %d is summed in another order on rank %d than on rank 0", s->name, piece, rank);
    return GY_OK;
}

/* Hashes the expressions of the pieces. An expression that all pieces share counts once, so that
 * the hash does not depend on the number of pieces. */
static void verify_certificate(const struct verify *v, struct gy_net_proof *proof)
{
    struct gy_sha256 sha;
    int same = 1;
    gy_sha256_open(&sha);
    for (int32_t p = 0; p < v->s->pieces; p++)
        same &= *verify_cell(v, gy_net_owner(v->s, p), p) == *verify_cell(v, gy_net_owner(v->s, 0), 0);
    for (int32_t p = 0; p < (same ? 1 : v->s->pieces); p++)
        gy_sha256_add(&sha, &v->nodes[*verify_cell(v, gy_net_owner(v->s, p), p)].order, sizeof(uint64_t));
    gy_sha256_close(&sha, proof->order);
}

static int verify_end(const struct verify *v, struct gy_net_proof *proof)
{
    const struct gy_net_schedule *s = v->s;
    uint64_t all = 0;
    for (int r = 0; r < s->ranks; r++)
        all += v->nodes[r].leaves;
    for (int r = 0; r < s->ranks; r++)
        for (int32_t p = 0; p < s->pieces; p++)
            GY_TRY(verify_cell_end(v, r, p, all));
    *proof = (struct gy_net_proof){ .messages = s->count / 2 };
    for (int64_t i = 0; i < s->count; i++) {
        proof->pieces_sent += s->steps[i].kind == GY_NET_SEND ? s->steps[i].pieces : 0;
        proof->rounds = (int)gy_max64(proof->rounds, s->steps[i].round + 1);
    }
    verify_certificate(v, proof);
    return GY_OK;
}

/* Room for everything; sums are at most one for each piece that is added. */
static int verify_take(struct verify *v)
{
    const struct gy_net_schedule *s = v->s;
    int64_t added = 0, staged = 0;
    for (int64_t i = 0; i < s->count; i++) {
        added += s->steps[i].kind == GY_NET_ADD ? s->steps[i].pieces : 0;
        staged += s->steps[i].kind == GY_NET_SEND ? 0 : s->steps[i].pieces;
    }
    v->node_room = gy_min64(s->ranks + added, INT32_MAX);
    v->chains = v->node_room * 2 + 1;
    const size_t count = (size_t)s->count + 1, lanes = (size_t)s->ranks * (size_t)s->lanes;
    struct gy_arena *a = &v->arena;
    int there = (v->nodes = gy_arena_take(a, (size_t)v->node_room, sizeof *v->nodes)) != NULL;
    there &= (v->heads = gy_arena_take(a, (size_t)v->chains, sizeof *v->heads)) != NULL;
    there &= (v->cells = gy_arena_take(a, (size_t)s->ranks * (size_t)s->pieces, sizeof *v->cells)) != NULL;
    there &= (v->match = gy_arena_take(a, count, sizeof *v->match)) != NULL;
    there &= (v->stage_at = gy_arena_take(a, count, sizeof *v->stage_at)) != NULL;
    there &= (v->stage = gy_arena_take(a, (size_t)staged + 1, sizeof *v->stage)) != NULL;
    there &= (v->posted = gy_arena_take(a, count, 1)) != NULL;
    there &= (v->lanes = gy_arena_take(a, lanes, sizeof *v->lanes)) != NULL;
    there &= (v->ready = gy_arena_take(a, lanes, sizeof *v->ready)) != NULL;
    return there ? GY_OK : GY_NOMEM(v->err, "a schedule's proof", (size_t)v->node_room * sizeof *v->nodes);
}

static int verify_all(struct verify *v, struct gy_net_proof *proof)
{
    for (int kind = 0; kind < GY_NET_KINDS; kind++)
        if (!(v->stamp[kind] = gy_arena_take(&v->arena, (size_t)v->s->pieces, sizeof(int64_t))))
            return GY_NOMEM(v->err, "a schedule's proof", (size_t)v->s->pieces * sizeof(int64_t));
    GY_TRY(verify_steps(v)); /* sizes are sound from here on */
    GY_TRY(verify_take(v));
    GY_TRY(verify_match(v));
    verify_begin(v);
    GY_TRY(verify_run(v));
    return verify_end(v, proof);
}

GY_INT int gy_net_verify(const struct gy_net_schedule *s, struct gy_net_proof *proof, struct gy_error *err)
{
    struct verify v = { .s = s, .err = err };
    if (s->ranks < 1 || s->ranks > GY_NET_RANKS_MOST || s->lanes < 1 || s->pieces < 1 || s->pieces % s->lanes != 0)
        return GY_FAIL(err, GY_E_FORMAT, "schedule %s: %d ranks, %d pieces in %d lanes", s->name, s->ranks, s->pieces, s->lanes);
    gy_arena_open_hook(&v.arena, &s->alloc);
    const int status = verify_all(&v, proof);
    gy_arena_close(&v.arena);
    return status;
}
