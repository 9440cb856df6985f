/* SPDX-License-Identifier: MIT */
/* served_meet.c: numbers workers when ranks come together, for served_job.c, served_server.c and
 * served_worker.c. A worker keeps its number and its rank in the job of workers (below: its name),
 * whatever its rank in the job of all. A newcomer gets a number that no live worker has. The worker
 * that came first leads, and of several the one of the smallest number; its name is rank 0. */
#include "engine/job/cast.h"
#include "engine/job/served_parts.h"
#include "net/comm/reform.h"

#define MEET_AGAIN 20 /* tries; a loss while ranks come together costs one */

/* What each rank tells of itself. */
struct meet_card {
    int32_t server, number; /* server -1: it is none; number -1: a new worker */
    int32_t age, rank;      /* rank: in the job of workers */
    int32_t met, workers;   /* meetings so far */
    int64_t steps;
};

static int meet_tables(struct gy_served *s, int workers, struct gy_error *err)
{
    s->workers = workers;
    s->rank_of = gy_alloc_take(&s->alloc, (size_t)workers, sizeof *s->rank_of);
    s->age = gy_alloc_take(&s->alloc, (size_t)workers, sizeof *s->age);
    if (s->rank_of && s->age)
        return GY_OK;
    return GY_NOMEM(err, "the workers' ranks", (size_t)workers * sizeof *s->rank_of);
}

/* All servers are there, in their order. */
static int meet_servers(const struct gy_served *s, const struct meet_card *cards,
                        struct gy_error *err)
{
    for (int k = 0; k < s->servers; k++)
        if (k >= s->all->ranks || cards[k].server != k)
            return GY_FAIL(err, GY_E_STATE, "server %d was lost while ranks came together", k);
    return GY_OK;
}

static int meet_smallest_free(const int *taken, int from)
{
    while (taken[from])
        from++;
    return from;
}

/* Those that were there keep their numbers; others get what is free. */
static void meet_number(struct gy_served *s, struct meet_card *cards)
{
    int taken[GY_NET_MEMBERS + 1] = { 0 };
    for (int w = 0; w < s->workers; w++)
        s->rank_of[w] = -1;
    for (int r = s->servers; r < s->all->ranks; r++)
        if (cards[r].number >= 0)
            taken[cards[r].number] = 1;
    for (int r = s->servers; r < s->all->ranks; r++) {
        struct meet_card *const c = &cards[r];
        if (c->number < 0) {
            c->number = meet_smallest_free(taken, 0);
            taken[c->number] = 1;
            c->age = s->met;
            c->rank = -1;
            s->came++;
            if (s->told)
                s->told[c->number] = 0;
        }
        s->rank_of[c->number] = r;
        s->age[c->number] = c->age;
    }
}

/* Names in the job of workers: 0 is the leader's. */
static void meet_name(struct gy_served *s, struct meet_card *cards)
{
    const int leader = gy_served_leader(s);
    int taken[GY_NET_MEMBERS + 1] = { 1 };
    cards[s->rank_of[leader]].rank = 0;
    for (int r = s->servers; r < s->all->ranks; r++)
        if (cards[r].rank > 0)
            taken[cards[r].rank] = 1;
    for (int r = s->servers; r < s->all->ranks; r++)
        if (cards[r].rank < 0) {
            cards[r].rank = meet_smallest_free(taken, 1);
            taken[cards[r].rank] = 1;
        }
}

/* This rank's own place among them. */
static void meet_take(struct gy_served *s, const struct meet_card *own)
{
    struct gyre_job *const all = s->all, *const job = s->job;
    job->world = all->world;
    job->local = all->local;
    job->locals = all->locals;
    job->hosts = 1;
    job->area = all->area;
    job->ranks = s->workers;
    job->rank = own->server >= 0 ? s->workers + s->number : own->rank;
    s->number = own->server >= 0 ? s->number : own->number;
}

/* A collective. */
static int meet_share(struct gy_served *s, struct gy_error *err)
{
    struct gyre_job *const all = s->all;
    const int serves = s->rank_of && s->job->rank >= s->workers;
    const struct meet_card own = { .server = serves ? s->number : -1,
                                   .number = serves || !s->rank_of ? -1 : s->number,
                                   .age = s->age && !serves ? s->age[s->number] : 0,
                                   .rank = s->job->rank,
                                   .steps = s->steps,
                                   .met = s->met,
                                   .workers = s->workers };
    struct meet_card cards[GY_NET_MEMBERS];
    GY_TRY(gy_job_share(all, &own, sizeof own, cards, err));
    GY_TRY(meet_servers(s, cards, err));
    if (!s->rank_of)
        GY_TRY(meet_tables(s, cards[0].workers, err));
    s->met = cards[0].met + 1;
    meet_number(s, cards);
    if (gy_served_leader(s) < 0)
        return GY_OK;
    meet_name(s, cards);
    for (int r = s->servers; r < all->ranks; r++)
        s->steps = gy_max64(s->steps, cards[r].steps);
    meet_take(s, &cards[all->rank]);
    return GY_OK;
}

GY_INT int gy_served_places(struct gy_served *s, int joins, struct gy_error *err)
{
    const int workers = s->all->ranks - s->servers, serves = s->all->rank < s->servers;
    if (joins) {
        s->phase = GY_SERVED_JOINS;
        return meet_share(s, err);
    }
    const struct meet_card own = { .server = serves ? s->number : -1,
                                   .number = s->number,
                                   .rank = s->number };
    GY_TRY(meet_tables(s, workers, err));
    for (int w = 0; w < workers; w++)
        s->rank_of[w] = s->servers + w;
    meet_take(s, &own);
    return GY_OK;
}

/* The end of the old job's network tells all that each has come. Who was lost there is not in what
 * follows: that alone counts. */
GY_INT int gy_served_reform(struct gy_served *s, struct gy_error *err)
{
    struct gy_error lost = { 0 };
    int status = GY_E_PEER;
    (void)gy_net_comm_end(s->all->world, &lost);
    for (int tries = 0; status == GY_E_PEER && tries < MEET_AGAIN; tries++) {
        status = s->all->peers->reform(s->all, err);
        status = status == GY_OK ? meet_share(s, err) : status;
    }
    if (status == GY_E_STATE && lost.text[0] != 0)
        return GY_FAIL(err, GY_E_PEER, "%s", lost.text);
    return status == GY_E_STATE ? GY_E_PEER : status;
}

#undef MEET_AGAIN
