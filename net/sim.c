/* SPDX-License-Identifier: MIT */
/* Time goes from event to event: a message becomes ready, a flow ends, a rank has added. Between events rates are constant; they are
 * found by filling: the link with the least left for each of its flows fixes these flows, again and again (max-min fairness). */
#include "../engine/base/rng.h"
#include "sim.h"

#define SIM_STREAM 0x73696d
#define SIM_PATH 6 /* links of a way: rank, host, rack, and down again */

enum sim_state { SIM_IDLE, SIM_POSTED, SIM_LATENT, SIM_FLOWING, SIM_DONE };

struct sim_message {      /* one a sending step */
    int64_t receive;      /* the step at the other end */
    double at;            /* when it begins to flow */
    double left, rate;    /* bytes, bytes a second */
    int32_t links[SIM_PATH];
    int32_t link_count;
    int state, fixed;
};
struct sim_lane {
    int64_t at, end, last;
    int32_t left, rank;
    double ready;         /* adding: when it goes on; else infinity */
};
struct sim_link {
    double rate, free;
    int32_t flows, open;
};
struct sim {
    const struct gy_net_schedule *s;
    const struct gy_net_cluster *c;
    struct gy_arena arena;
    int64_t *match;
    unsigned char *posted;
    int32_t *rank_of;
    struct sim_message *messages; /* [count], used at sending steps */
    int64_t *active;              /* latent or flowing */
    int64_t active_count;
    struct sim_lane *lanes;
    int64_t lane_count, lanes_left;
    struct sim_link *links;
    int link_count;
    double now, piece_bytes;
    uint64_t seed;
    struct gy_error *err;
};

static double sim_normal(const struct sim *m, uint64_t what, uint64_t which)
{
    return (double)gy_rng_normal(m->seed, SIM_STREAM, what, which);
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
    for (int l = 0; l < m->link_count; l++)
        m->links[l].rate = l < 2 * m->s->ranks ? m->c->inside_rate : l < 2 * (m->s->ranks + m->c->hosts) ? m->c->nic_rate : m->c->rack_rate;
}

/* ---- sharing ---- */

static void sim_open_links(struct sim *m)
{
    for (int l = 0; l < m->link_count; l++) {
        m->links[l].free = m->links[l].rate;
        m->links[l].open = 0;
    }
    for (int64_t i = 0; i < m->active_count; i++) {
        struct sim_message *f = &m->messages[m->active[i]];
        f->fixed = f->state != SIM_FLOWING;
        for (int k = 0; k < f->link_count && !f->fixed; k++)
            m->links[f->links[k]].open++;
    }
}

/* The least share of any link that has flows; < 0: none has. */
static double sim_least(const struct sim *m)
{
    double least = -1;
    for (int l = 0; l < m->link_count; l++)
        if (m->links[l].open > 0) {
            const double share = m->links[l].free / m->links[l].open;
            least = least < 0 || share < least ? share : least;
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

static void sim_share(struct sim *m)
{
    sim_open_links(m);
    for (double share = sim_least(m); share >= 0; share = sim_least(m))
        for (int64_t i = 0; i < m->active_count; i++) {
            struct sim_message *f = &m->messages[m->active[i]];
            if (f->fixed || !sim_is_full(m, f, share))
                continue;
            f->fixed = 1;
            f->rate = share;
            for (int k = 0; k < f->link_count; k++) {
                m->links[f->links[k]].free = fmax(m->links[f->links[k]].free - share, 0);
                m->links[f->links[k]].open--;
            }
        }
}

/* ---- steps ---- */

static int64_t sim_round_end(const struct sim *m, int64_t at, int64_t last)
{
    int64_t end = at;
    while (end < last && m->s->steps[end].round == m->s->steps[at].round)
        end++;
    return end;
}

static void sim_begin(struct sim *m, int64_t send)
{
    struct sim_message *f = &m->messages[send];
    const struct gy_net_step *t = &m->s->steps[send];
    const double latency = sim_way(m, m->rank_of[send], t->peer, f);
    const double noise = m->c->noise > 0 ? exp(m->c->noise * sim_normal(m, 1, (uint64_t)send)) : 1;
    f->state = SIM_LATENT;
    f->at = m->now + latency * noise;
    f->left = m->piece_bytes * t->pieces * noise;
    m->active[m->active_count++] = send;
}

static void sim_post(struct sim *m, struct sim_lane *l)
{
    l->end = sim_round_end(m, l->at, l->last);
    l->left = (int32_t)(l->end - l->at);
    for (int64_t i = l->at; i < l->end; i++) {
        m->posted[i] = 1;
        if (m->posted[m->match[i]])
            sim_begin(m, m->s->steps[i].kind == GY_NET_SEND ? i : m->match[i]);
    }
}

static double sim_adding(const struct sim *m, const struct sim_lane *l)
{
    double bytes = 0;
    for (int64_t i = l->at; i < l->end; i++)
        bytes += m->s->steps[i].kind == GY_NET_ADD ? m->piece_bytes * m->s->steps[i].pieces : 0;
    return m->c->add_rate > 0 ? bytes / m->c->add_rate : 0;
}

static struct sim_lane *sim_lane_of(struct sim *m, int64_t step)
{
    return &m->lanes[(int64_t)m->rank_of[step] * m->s->lanes + m->s->steps[step].lane];
}

static void sim_ended(struct sim *m, int64_t step)
{
    struct sim_lane *l = sim_lane_of(m, step);
    if (--l->left == 0)
        l->ready = m->now + sim_adding(m, l);
}

static void sim_next_round(struct sim *m, struct sim_lane *l)
{
    l->ready = INFINITY;
    l->at = l->end;
    if (l->at < l->last)
        sim_post(m, l);
    else
        m->lanes_left--;
}

/* ---- events ---- */

static double sim_next_time(const struct sim *m)
{
    double next = INFINITY;
    for (int64_t i = 0; i < m->active_count; i++) {
        const struct sim_message *f = &m->messages[m->active[i]];
        next = fmin(next, f->state == SIM_LATENT ? f->at : m->now + f->left / f->rate);
    }
    for (int64_t i = 0; i < m->lane_count; i++)
        next = fmin(next, m->lanes[i].ready);
    return next;
}

/* Moves all flows on to time `to`; ends those that are through. */
static int sim_advance(struct sim *m, double to)
{
    const double passed = to - m->now;
    int changed = 0;
    int64_t kept = 0;
    m->now = to;
    for (int64_t i = 0; i < m->active_count; i++) {
        const int64_t send = m->active[i];
        struct sim_message *f = &m->messages[send];
        if (f->state == SIM_FLOWING)
            f->left -= f->rate * passed;
        if (f->state == SIM_LATENT && f->at <= to) {
            f->state = SIM_FLOWING;
            changed = 1;
        } else if (f->state == SIM_FLOWING && f->left <= f->rate * 1e-12) {
            f->state = SIM_DONE;
            changed = 1;
        }
        if (f->state == SIM_DONE) {
            sim_ended(m, send);
            sim_ended(m, m->match[send]);
        } else
            m->active[kept++] = send;
    }
    m->active_count = kept;
    return changed;
}

static int sim_run(struct sim *m)
{
    while (m->lanes_left > 0) {
        const double next = sim_next_time(m);
        if (isinf(next))
            return GY_FAIL(m->err, GY_E_FORMAT, "schedule %s hangs: it was not verified", m->s->name);
        const int changed = sim_advance(m, next);
        for (int64_t i = 0; i < m->lane_count; i++)
            if (m->lanes[i].ready <= m->now)
                sim_next_round(m, &m->lanes[i]);
        if (changed)
            sim_share(m);
    }
    return GY_OK;
}

/* ---- open ---- */

/* Pairs the sends of a (sender, lane, receiver) with its receives, in order; the schedule was verified. */
static void sim_match(struct sim *m)
{
    const struct gy_net_schedule *s = m->s;
    for (int r = 0; r < s->ranks; r++)
        for (int64_t i = s->first[r]; i < s->first[r + 1]; i++)
            m->rank_of[i] = r;
    for (int64_t i = 0; i < s->count; i++)
        m->match[i] = -1;
    for (int64_t i = 0; i < s->count; i++) {
        const struct gy_net_step *t = &s->steps[i];
        for (int64_t j = s->first[t->peer]; t->kind == GY_NET_SEND && j < s->first[t->peer + 1]; j++)
            if (s->steps[j].kind != GY_NET_SEND && m->match[j] < 0 && s->steps[j].peer == m->rank_of[i] && s->steps[j].lane == t->lane) {
                m->match[i] = j;
                m->match[j] = i;
                break;
            }
    }
}

static int sim_take(struct sim *m)
{
    const size_t count = (size_t)m->s->count + 1;
    struct gy_arena *a = &m->arena;
    m->lane_count = (int64_t)m->s->ranks * m->s->lanes;
    m->link_count = sim_rack_link(m, sim_rack(m, m->c->hosts - 1) + 1, SIM_OUT);
    int there = (m->match = gy_arena_take(a, count, sizeof(*m->match))) != NULL;
    there &= (m->posted = gy_arena_take(a, count, 1)) != NULL;
    there &= (m->rank_of = gy_arena_take(a, count, sizeof(*m->rank_of))) != NULL;
    there &= (m->messages = gy_arena_take(a, count, sizeof(*m->messages))) != NULL;
    there &= (m->active = gy_arena_take(a, count, sizeof(*m->active))) != NULL;
    there &= (m->lanes = gy_arena_take(a, (size_t)m->lane_count, sizeof(*m->lanes))) != NULL;
    there &= (m->links = gy_arena_take(a, (size_t)m->link_count, sizeof(*m->links))) != NULL;
    return there ? GY_OK : GY_NOMEM(m->err, "a simulation", count * sizeof(*m->messages));
}

/* Every lane begins when its rank does. */
static void sim_start(struct sim *m)
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
            l->ready = begin;
            m->lanes_left++;
        }
    }
}

GY_INT int gy_net_simulate(const struct gy_net_schedule *s, const struct gy_net_cluster *c, double bytes, uint64_t seed, double *seconds,
                           struct gy_error *err)
{
    struct sim m = {.s = s, .c = c, .seed = seed, .piece_bytes = bytes / s->pieces, .err = err};
    if (c->hosts * c->ranks_per_host != s->ranks)
        return GY_FAIL(err, GY_E_ARG, "%d hosts of %d ranks; the schedule is for %d ranks", c->hosts, c->ranks_per_host, s->ranks);
    gy_arena_open_hook(&m.arena, &s->alloc);
    int status = sim_take(&m);
    if (status == GY_OK) {
        sim_match(&m);
        sim_rates(&m);
        sim_start(&m);
        status = sim_run(&m);
    }
    gy_arena_close(&m.arena);
    if (status == GY_OK)
        *seconds = m.now;
    return status;
}
