/* SPDX-License-Identifier: MIT */
/* simulation.c: time goes from event to event, by a heap. An event: a message begins to flow, a
 * flow ends, a rank has added, a link's bucket is empty. When flows begin or end, rates are
 * computed anew for the flows that share links with them, directly or through others. This is
 * filling: again and again the link with the least left for each of its flows fixes these flows
 * (max-min fairness). Other flows keep their rates.
 *
 * A link with a token bucket has its peak rate while there are tokens: they come at its own rate
 * and go with what flows. */
#include "engine/base/rng.h"
#include "net/schedule/simulation.h"

#define SIM_STREAM 0x73696d
#define SIM_TOKENS 1e-3 /* bytes: fewer count as none */
#define SIM_PATH 6 /* links of a way: rank, host, rack, and down again */

struct sim_message {      /* one a sending step */
    double left, rate, since;  /* bytes left at that time, bytes a second */
    int32_t links[SIM_PATH];
    /* neighbours in the lists of its links, as message * SIM_PATH + place; -1: none */
    int64_t next[SIM_PATH], before[SIM_PATH];
    int32_t link_count;
    int32_t turn;         /* counts its rates: older events are void */
    int flowing, fixed;
    int64_t seen;         /* the filling that it took part in last */
};
struct sim_lane {
    int64_t at, end, last;
    int32_t left, rank;
};
struct sim_link {
    double rate, free;
    /* The token bucket, in bytes; burst 0: none. tokens: there at time `since`. used: bytes a
     * second that flow from then on. */
    double burst, peak, tokens, since, used;
    int64_t flows;        /* list: message * SIM_PATH + place; -1 none */
    int32_t open, turn;   /* turn: as a message's */
    int64_t seen;
};
enum sim_kind { SIM_BEGIN, SIM_END, SIM_GO, SIM_DRY }; /* in the head's order of events */
struct sim_event {
    double at;
    int64_t what;         /* sending step, lane, or link */
    int32_t turn;
    int kind;
};
struct sim {
    const struct gy_net_schedule *s;
    const struct gy_net_cluster *c;
    struct gy_arena arena;
    int64_t *match;
    unsigned char *posted;
    int32_t *rank_of;
    struct sim_message *messages; /* [count], used at sending steps */
    struct sim_event *heap;
    int64_t events, room;
    struct sim_lane *lanes;
    int64_t lane_count, lanes_left;
    double *busy;                 /* [ranks]: until when a rank works for one of its lanes */
    struct sim_link *links;
    int link_count;
    int32_t *open_links;          /* of the present filling */
    int64_t *open_flows;
    int64_t open_link_count, open_flow_count, fillings;
    double now, piece_bytes;
    uint64_t seed;
    struct gy_alloc alloc;
    struct gy_error *err;
};

static double sim_normal(const struct sim *m, uint64_t what, uint64_t which)
{
    return (double)gy_rng_normal(m->seed, SIM_STREAM, what, which);
}

/* ---- the heap ---- */

static int sim_sooner(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->kind != b->kind ? a->kind < b->kind : a->what < b->what;
}

static int sim_push(struct sim *m, double at, int kind, int64_t what, int32_t turn)
{
    if (m->events == m->room) {
        const int64_t room = 2 * m->room + 1024;
        struct sim_event *heap = gy_alloc_grow(&m->alloc, m->heap, (size_t)m->room, (size_t)room, sizeof *heap);
        if (!heap)
            return GY_NOMEM(m->err, "a simulation's events", (size_t)room * sizeof *heap);
        m->heap = heap;
        m->room = room;
    }
    const struct sim_event e = {at, what, turn, kind};
    int64_t i = m->events++;
    for (; i > 0 && sim_sooner(&e, &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = e;
    return GY_OK;
}

static struct sim_event sim_pop(struct sim *m)
{
    const struct sim_event first = m->heap[0], last = m->heap[--m->events];
    int64_t i = 0;
    for (int64_t child = 1; child < m->events; child = 2 * i + 1) {
        child += child + 1 < m->events && sim_sooner(&m->heap[child + 1], &m->heap[child]);
        if (!sim_sooner(&m->heap[child], &last))
            break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return first;
}

/* ---- the cluster ---- */

enum sim_side { SIM_OUT, SIM_IN };

static int sim_host(const struct sim *m, int rank)
{
    return rank / m->c->ranks_per_host;
}
static int sim_rack(const struct sim *m, int host)
{
    return m->c->hosts_per_rack > 0 ? host / m->c->hosts_per_rack : 0;
}
static int sim_rank_link(int rank, int side)
{
    return 2 * rank + side;
}
static int sim_host_link(const struct sim *m, int host, int side)
{
    return 2 * (m->s->ranks + host) + side;
}
static int sim_rack_link(const struct sim *m, int rack, int side)
{
    return 2 * (m->s->ranks + m->c->hosts + rack) + side;
}

/* The links between two ranks, and the latency of the way. */
static double sim_way(const struct sim *m, int from, int to, struct sim_message *out)
{
    const int hosts[2] = {sim_host(m, from), sim_host(m, to)}, racks[2] = {sim_rack(m, hosts[0]), sim_rack(m, hosts[1])};
    int n = 0;
    double latency = m->c->inside_latency;
    out->links[n++] = sim_rank_link(from, SIM_OUT);
    out->links[n++] = sim_rank_link(to, SIM_IN);
    if (hosts[0] != hosts[1]) {
        out->links[n++] = sim_host_link(m, hosts[0], SIM_OUT);
        out->links[n++] = sim_host_link(m, hosts[1], SIM_IN);
        latency = m->c->nic_latency;
    }
    if (racks[0] != racks[1]) {
        out->links[n++] = sim_rack_link(m, racks[0], SIM_OUT);
        out->links[n++] = sim_rack_link(m, racks[1], SIM_IN);
        latency += m->c->rack_latency;
    }
    out->link_count = n;
    return latency;
}

static void sim_rates(struct sim *m)
{
    for (int l = 0; l < m->link_count; l++) {
        m->links[l].flows = -1;
        m->links[l].rate = l < 2 * m->s->ranks ? m->c->inside_rate : l < 2 * (m->s->ranks + m->c->hosts) ? m->c->nic_rate : m->c->rack_rate;
        if (l >= 2 * m->s->ranks && l < 2 * (m->s->ranks + m->c->hosts)) {
            m->links[l].burst = m->c->burst;
            m->links[l].peak = m->c->peak;
        }
    }
}

/* ---- sharing ---- */

static void sim_join(struct sim *m, int64_t flow)
{
    struct sim_message *f = &m->messages[flow];
    for (int k = 0; k < f->link_count; k++) {
        struct sim_link *l = &m->links[f->links[k]];
        f->next[k] = l->flows;
        f->before[k] = -1;
        if (l->flows >= 0)
            m->messages[l->flows / SIM_PATH].before[l->flows % SIM_PATH] = flow * SIM_PATH + k;
        l->flows = flow * SIM_PATH + k;
    }
}

static void sim_part(struct sim *m, int64_t flow)
{
    const struct sim_message *f = &m->messages[flow];
    for (int k = 0; k < f->link_count; k++) {
        const int64_t next = f->next[k], before = f->before[k];
        if (next >= 0)
            m->messages[next / SIM_PATH].before[next % SIM_PATH] = before;
        if (before >= 0)
            m->messages[before / SIM_PATH].next[before % SIM_PATH] = next;
        else
            m->links[f->links[k]].flows = next;
    }
}

/* What a link can carry from now on. */
static double sim_carries(const struct sim *m, struct sim_link *l)
{
    if (l->burst <= 0)
        return l->rate;
    l->tokens = fmax(fmin(l->tokens + (l->rate - l->used) * (m->now - l->since), l->burst), 0);
    l->since = m->now;
    l->used = 0;
    return l->tokens > SIM_TOKENS ? l->peak : l->rate;
}

static void sim_see_link(struct sim *m, int32_t link)
{
    struct sim_link *l = &m->links[link];
    if (l->seen == m->fillings)
        return;
    l->seen = m->fillings;
    l->free = sim_carries(m, l);
    l->open = 0;
    m->open_links[m->open_link_count++] = link;
}

/* Collects the links that share flows with these, directly or through others, and those flows. */
static void sim_gather(struct sim *m, const int32_t *links, int count)
{
    m->fillings++;
    m->open_link_count = m->open_flow_count = 0;
    for (int k = 0; k < count; k++)
        sim_see_link(m, links[k]);
    for (int64_t i = 0; i < m->open_link_count; i++)
        for (int64_t at = m->links[m->open_links[i]].flows; at >= 0; at = m->messages[at / SIM_PATH].next[at % SIM_PATH]) {
            struct sim_message *f = &m->messages[at / SIM_PATH];
            m->links[m->open_links[i]].open++;
            if (f->seen == m->fillings)
                continue;
            f->seen = m->fillings;
            f->fixed = 0;
            m->open_flows[m->open_flow_count++] = at / SIM_PATH;
            for (int k = 0; k < f->link_count; k++)
                sim_see_link(m, f->links[k]);
        }
}

/* The least share of any open link that has flows; < 0: none has. */
static double sim_least(const struct sim *m)
{
    double least = -1;
    for (int64_t i = 0; i < m->open_link_count; i++) {
        const struct sim_link *l = &m->links[m->open_links[i]];
        if (l->open > 0 && (least < 0 || l->free / l->open < least))
            least = l->free / l->open;
    }
    return least;
}

static int sim_is_full(const struct sim *m, const struct sim_message *f, double share)
{
    for (int k = 0; k < f->link_count; k++)
        if (m->links[f->links[k]].free / m->links[f->links[k]].open <= share * (1 + 1e-12))
            return 1;
    return 0;
}

/* The flow goes on at this rate. If that is another one, its end becomes a new event. */
static int sim_fix(struct sim *m, int64_t flow, double share)
{
    struct sim_message *f = &m->messages[flow];
    f->fixed = 1;
    for (int k = 0; k < f->link_count; k++) {
        m->links[f->links[k]].free = fmax(m->links[f->links[k]].free - share, 0);
        m->links[f->links[k]].used += share;
        m->links[f->links[k]].open--;
    }
    if (f->rate == share)
        return GY_OK;
    f->left = fmax(f->left - f->rate * (m->now - f->since), 0);
    f->since = m->now;
    f->rate = share;
    return sim_push(m, m->now + f->left / share, SIM_END, flow, ++f->turn);
}

/* When the buckets of the links that were looked at will be empty. */
static int sim_buckets(struct sim *m)
{
    for (int64_t i = 0; i < m->open_link_count; i++) {
        struct sim_link *l = &m->links[m->open_links[i]];
        if (l->burst > 0 && l->used > l->rate * (1 + 1e-9))
            GY_TRY(sim_push(m, m->now + l->tokens / (l->used - l->rate), SIM_DRY, m->open_links[i], ++l->turn));
        else
            l->turn++;
    }
    return GY_OK;
}

static int sim_share(struct sim *m, const int32_t *links, int count)
{
    sim_gather(m, links, count);
    for (double share = sim_least(m); share >= 0; share = sim_least(m))
        for (int64_t i = 0; i < m->open_flow_count; i++) {
            const struct sim_message *f = &m->messages[m->open_flows[i]];
            if (!f->fixed && sim_is_full(m, f, share))
                GY_TRY(sim_fix(m, m->open_flows[i], share));
        }
    return sim_buckets(m);
}

/* ---- steps ---- */

static int64_t sim_round_end(const struct sim *m, int64_t at, int64_t last)
{
    int64_t end = at;
    while (end < last && m->s->steps[end].round == m->s->steps[at].round)
        end++;
    return end;
}

static int sim_begin(struct sim *m, int64_t send)
{
    struct sim_message *f = &m->messages[send];
    const struct gy_net_step *t = &m->s->steps[send];
    const double latency = sim_way(m, m->rank_of[send], t->peer, f);
    const double noise = m->c->noise > 0 ? exp(m->c->noise * sim_normal(m, 1, (uint64_t)send)) : 1;
    f->left = m->piece_bytes * t->pieces * noise;
    return sim_push(m, m->now + latency * noise, SIM_BEGIN, send, 0);
}

static int sim_post(struct sim *m, struct sim_lane *l)
{
    l->end = sim_round_end(m, l->at, l->last);
    l->left = (int32_t)(l->end - l->at);
    for (int64_t i = l->at; i < l->end; i++) {
        m->posted[i] = 1;
        if (m->posted[m->match[i]])
            GY_TRY(sim_begin(m, m->s->steps[i].kind == GY_NET_SEND ? i : m->match[i]));
    }
    return GY_OK;
}

/* When the rank has dealt with this round's messages and added what came. It works for one lane at
 * a time. */
static double sim_added(const struct sim *m, const struct sim_lane *l)
{
    double bytes = 0;
    for (int64_t i = l->at; i < l->end; i++)
        bytes += m->s->steps[i].kind == GY_NET_ADD ? m->piece_bytes * m->s->steps[i].pieces : 0;
    const double work = (double)(l->end - l->at) * m->c->overhead + (m->c->add_rate > 0 ? bytes / m->c->add_rate : 0);
    if (work <= 0)
        return m->now;
    m->busy[l->rank] = fmax(m->busy[l->rank], m->now) + work;
    return m->busy[l->rank];
}

static int sim_ended(struct sim *m, int64_t step)
{
    const int64_t lane = (int64_t)m->rank_of[step] * m->s->lanes + m->s->steps[step].lane;
    return --m->lanes[lane].left > 0 ? GY_OK : sim_push(m, sim_added(m, &m->lanes[lane]), SIM_GO, lane, 0);
}

/* ---- events ---- */

static int sim_go(struct sim *m, struct sim_lane *l)
{
    l->at = l->end;
    if (l->at < l->last)
        return sim_post(m, l);
    m->lanes_left--;
    return GY_OK;
}

static int sim_flow_begins(struct sim *m, int64_t send)
{
    struct sim_message *f = &m->messages[send];
    f->flowing = 1;
    f->since = m->now;
    sim_join(m, send);
    return sim_share(m, f->links, f->link_count);
}

static int sim_flow_ends(struct sim *m, int64_t send)
{
    struct sim_message *f = &m->messages[send];
    f->flowing = 0;
    sim_part(m, send);
    GY_TRY(sim_ended(m, send));
    GY_TRY(sim_ended(m, m->match[send]));
    return sim_share(m, f->links, f->link_count);
}

static int sim_dry(struct sim *m, int64_t link)
{
    const int32_t links[1] = {(int32_t)link};
    m->links[link].tokens = 0;
    m->links[link].since = m->now;
    m->links[link].used = m->links[link].rate;
    return sim_share(m, links, 1);
}

/* Events of rates that have changed since. */
static int sim_is_void(const struct sim *m, const struct sim_event *e)
{
    return e->kind == SIM_DRY ? e->turn != m->links[e->what].turn
                              : e->kind == SIM_END && (e->turn != m->messages[e->what].turn || !m->messages[e->what].flowing);
}

static int sim_run(struct sim *m)
{
    while (m->events > 0 && m->lanes_left > 0) {
        const struct sim_event e = sim_pop(m);
        if (sim_is_void(m, &e))
            continue;
        m->now = e.at;
        switch (e.kind) {
        case SIM_BEGIN: GY_TRY(sim_flow_begins(m, e.what)); break;
        case SIM_END: GY_TRY(sim_flow_ends(m, e.what)); break;
        case SIM_DRY: GY_TRY(sim_dry(m, e.what)); break;
        default: GY_TRY(sim_go(m, &m->lanes[e.what]));
        }
    }
    return m->lanes_left == 0 ? GY_OK : GY_FAIL(m->err, GY_E_FORMAT, "schedule %s hangs: it was not verified", m->s->name);
}

/* ---- open ---- */

/* Pairs the sends of a (sender, lane, receiver) with its receives, in order; the schedule was
 * verified. The search in a receiver's steps goes on where the last receive from this sender was
 * found. */
static void sim_match_rank(struct sim *m, int rank, int64_t *from)
{
    const struct gy_net_schedule *s = m->s;
    for (int r = 0; r < s->ranks; r++)
        from[r] = s->first[r];
    for (int64_t i = s->first[rank]; i < s->first[rank + 1]; i++) {
        const struct gy_net_step *t = &s->steps[i];
        if (t->kind != GY_NET_SEND)
            continue;
        int64_t j = from[t->peer];
        while (j < s->first[t->peer + 1] - 1 && (s->steps[j].kind == GY_NET_SEND || s->steps[j].peer != rank || s->steps[j].lane != t->lane))
            j++;
        from[t->peer] = j + 1; /* lanes stand one after another on both sides */
        m->match[i] = j;
        m->match[j] = i;
    }
}

static void sim_match(struct sim *m)
{
    const struct gy_net_schedule *s = m->s;
    for (int r = 0; r < s->ranks; r++) {
        for (int64_t i = s->first[r]; i < s->first[r + 1]; i++)
            m->rank_of[i] = r;
        sim_match_rank(m, r, m->open_flows);
    }
}

static int sim_take(struct sim *m)
{
    const size_t count = (size_t)gy_max64(m->s->count, m->s->ranks) + 1;
    struct gy_arena *a = &m->arena;
    m->lane_count = (int64_t)m->s->ranks * m->s->lanes;
    m->link_count = sim_rack_link(m, sim_rack(m, m->c->hosts - 1) + 1, SIM_OUT);
    int there = (m->match = gy_arena_take(a, count, sizeof *m->match)) != NULL;
    there &= (m->posted = gy_arena_take(a, count, 1)) != NULL;
    there &= (m->rank_of = gy_arena_take(a, count, sizeof *m->rank_of)) != NULL;
    there &= (m->messages = gy_arena_take(a, count, sizeof *m->messages)) != NULL;
    there &= (m->open_flows = gy_arena_take(a, count, sizeof *m->open_flows)) != NULL;
    there &= (m->lanes = gy_arena_take(a, (size_t)m->lane_count, sizeof *m->lanes)) != NULL;
    there &= (m->busy = gy_arena_take(a, (size_t)m->s->ranks, sizeof *m->busy)) != NULL;
    there &= (m->links = gy_arena_take(a, (size_t)m->link_count, sizeof *m->links)) != NULL;
    there &= (m->open_links = gy_arena_take(a, (size_t)m->link_count, sizeof *m->open_links)) != NULL;
    return there ? GY_OK : GY_NOMEM(m->err, "a simulation", count * sizeof *m->messages);
}

/* Every lane begins when its rank does. */
static int sim_start(struct sim *m)
{
    const struct gy_net_schedule *s = m->s;
    for (int r = 0; r < s->ranks; r++) {
        const double begin = m->c->skew * (double)gy_rng_uniform(m->seed, SIM_STREAM, 2, (uint64_t)r);
        int64_t at = s->first[r];
        for (int lane = 0; lane < s->lanes; lane++) {
            struct sim_lane *l = &m->lanes[(int64_t)r * s->lanes + lane];
            l->rank = r;
            l->at = l->end = at;
            while (at < s->first[r + 1] && s->steps[at].lane == lane)
                at++;
            l->last = at;
            m->lanes_left++;
            GY_TRY(sim_push(m, begin, SIM_GO, (int64_t)r * s->lanes + lane, 0));
        }
    }
    return GY_OK;
}

GY_INT int gy_net_simulate(const struct gy_net_schedule *s, const struct gy_net_cluster *c, double bytes, uint64_t seed, double *seconds,
                           struct gy_error *err)
{
    struct sim m = { .s = s, .c = c, .seed = seed, .piece_bytes = bytes / s->pieces, .alloc = s->alloc, .err = err };
    if (c->hosts * c->ranks_per_host != s->ranks)
        return GY_FAIL(err, GY_E_ARG, "%d hosts of %d ranks; the schedule is for %d ranks", c->hosts, c->ranks_per_host, s->ranks);
    gy_arena_open_hook(&m.arena, &s->alloc);
    int status = sim_take(&m);
    if (status == GY_OK) {
        sim_match(&m);
        sim_rates(&m);
        status = sim_start(&m);
        status = status == GY_OK ? sim_run(&m) : status;
    }
    gy_alloc_free(&s->alloc, m.heap, (size_t)m.room * sizeof *m.heap);
    gy_arena_close(&m.arena);
    if (status == GY_OK)
        *seconds = m.now;
    return status;
}
