/* SPDX-License-Identifier: MIT */
/* inter_host.c: a sum in flight has executors for each of this rank's parts and each size of
 * message. Small ones take the fewest rounds, large ones the fewest bytes. Large parts go through
 * INTER_HOST_WINDOW executors piece by piece. While one piece is added others travel, and a piece
 * is still in a cache when it is added. An executor knows hosts 0, 1, ...; its end of the transport
 * turns them into the ranks that own the part there. */
#include "engine/base/file.h"
#include "net/schedule/algorithms.h"
#include "net/comm/inter_host.h"
#include "net/schedule/builders.h"

#define INTER_HOST_FLIGHTS 4
/* pieces of a part under way at once; more would leave the caches */
#define INTER_HOST_WINDOW 2
#define INTER_HOST_FILE_MOST ((size_t)64 << 20)
/* floats of a part; up to here rounds cost more than bytes */
#define INTER_HOST_SMALL ((int64_t)1 << 14)
/* The same for two hosts, at least the transport's piece. With two hosts, one round carries as many
 * bytes as two rounds. */
#define INTER_HOST_PAIR ((int64_t)1 << 17)

enum inter_host_size { INTER_HOST_FEW, INTER_HOST_MANY, INTER_HOST_SIZES };

struct inter_host_part {
    struct gy_net_end end; /* the job's */
    int *rank;             /* [hosts]: who owns this part there */
    int part;
};
/* One part of one sum. Piece k is worked on in place k % INTER_HOST_WINDOW, on every rank. */
struct inter_host_run {
    struct gy_net_exec *few, *many[INTER_HOST_WINDOW];
    struct gy_net_exec *now[INTER_HOST_WINDOW]; /* that work; NULL: none */
    int64_t next[INTER_HOST_WINDOW];            /* where a place's next piece begins */
    float *data;
    int64_t count;
};
struct gy_net_inter_host {
    struct gy_alloc alloc;
    struct gy_arena arena;
    struct gy_net_schedule schedule[INTER_HOST_SIZES];
    struct inter_host_part *parts;               /* [owned] */
    struct inter_host_run *runs[INTER_HOST_FLIGHTS]; /* [owned] */
    int owned, all, channel;
    int64_t most[INTER_HOST_SIZES];              /* floats */
};

/* ---- the transport among the owners of one part ---- */

static int inter_host_post(void *self, struct gy_net_request *request, struct gy_error *err)
{
    const struct inter_host_part *part = self;
    request->peer = part->rank[request->peer];
    return part->end.transport->post(part->end.self, request, err);
}

static int inter_host_progress(void *self, struct gy_error *err)
{
    const struct inter_host_part *part = self;
    return part->end.transport->progress(part->end.self, err);
}

static void inter_host_cancel(void *self, int peer)
{
    const struct inter_host_part *part = self;
    part->end.transport->cancel(part->end.self, peer < 0 ? -1 : part->rank[peer]);
}

static const struct gy_net_transport inter_host_transport = {inter_host_post, inter_host_progress, inter_host_cancel, "part", 0, 0};

/* ---- sums ---- */

/* Begins the next piece of a part in a place of the window; nothing is left: 1. */
static int inter_host_next(const struct gy_net_inter_host *b, struct inter_host_run *run, int place, struct gy_error *err)
{
    const int64_t at = run->next[place], piece = b->most[INTER_HOST_MANY];
    run->now[place] = NULL;
    if (at >= run->count)
        return 1;
    run->now[place] = run->count <= b->most[INTER_HOST_FEW] ? run->few : run->many[place];
    run->next[place] = at + INTER_HOST_WINDOW * piece;
    return gy_net_exec_start(run->now[place], run->data + at, gy_min64(run->count - at, piece), err);
}

static int inter_host_start(void *self, unsigned flight, float *data, int64_t count, struct gy_error *err)
{
    struct gy_net_inter_host *b = self;
    for (int k = 0; k < b->owned; k++) {
        struct inter_host_run *run = &b->runs[flight][k];
        const int64_t begin = gy_net_host_part(count, b->all, b->parts[k].part);
        run->data = data + begin;
        run->count = gy_net_host_part(count, b->all, b->parts[k].part + 1) - begin;
        for (int place = 0; place < INTER_HOST_WINDOW; place++) {
            run->next[place] = place * b->most[INTER_HOST_MANY];
            const int status = inter_host_next(b, run, place, err);
            if (status < 0)
                return status;
        }
    }
    return GY_OK;
}

/* 1: nothing of the part is left in this place. */
static int inter_host_look(const struct gy_net_inter_host *b, struct inter_host_run *run, int place, struct gy_error *err)
{
    int status = 1;
    while (run->now[place] && (status = gy_net_exec_look(run->now[place], err)) == 1)
        GY_TRY(inter_host_next(b, run, place, err));
    return status;
}

static int inter_host_test(void *self, unsigned flight, struct gy_error *err)
{
    struct gy_net_inter_host *b = self;
    int done = 1;
    if (b->owned > 0)
        GY_TRY(inter_host_progress(&b->parts[0], err));
    for (int k = 0; k < b->owned; k++)
        for (int place = 0; place < INTER_HOST_WINDOW; place++) {
            const int status = inter_host_look(b, &b->runs[flight][k], place, err);
            if (status < 0)
                return status;
            done &= status;
        }
    return done;
}

/* ---- open ---- */

static const char *inter_host_choice(const struct gy_net_inter_host_config *c, int size)
{
    if (c->algorithm)
        return c->algorithm;
    if (!c->choice)
        return gy_net_choice_rule(c->topology, c->end.transport, size == INTER_HOST_MANY);
    return size == INTER_HOST_FEW ? c->choice->few : c->choice->many;
}

/* A schedule that somebody wrote, for as many ranks as there are hosts. */
static int inter_host_file(struct gy_net_schedule *out, const char *path, int hosts, const struct gy_alloc *alloc, struct gy_error *err)
{
    char *text;
    size_t bytes;
    GY_TRY(gy_file_read(alloc, path, INTER_HOST_FILE_MOST, &text, &bytes, err));
    const int status = gy_net_read_schedule(out, text, bytes, path, alloc, err);
    gy_alloc_free(alloc, text, bytes + 1);
    GY_TRY(status);
    if (out->goal != GY_NET_ALLREDUCE || out->ranks != hosts)
        return GY_FAIL(err, GY_E_MISMATCH, "%.200s is the %s of %d ranks; there are %d hosts, and sums are an allreduce", path,
                       gy_net_goal_name(out->goal), out->ranks, hosts);
    return GY_OK;
}

static int inter_host_schedule(struct gy_net_inter_host *b, const struct gy_net_inter_host_config *c, int size, struct gy_error *err)
{
    const struct gy_net_topology *t = c->topology;
    struct gy_net_shape shape = { .ranks = t->hosts, .lanes = size == INTER_HOST_FEW ? 1 : 2, .dim_count = t->dim_count };
    struct gy_net_proof proof;
    char name[48];
    const char *const said = inter_host_choice(c, size);
    memcpy(shape.dims, t->dims, sizeof shape.dims);
    if (strncmp(said, GY_NET_FILE, strlen(GY_NET_FILE)) == 0) {
        GY_TRY(inter_host_file(&b->schedule[size], said + strlen(GY_NET_FILE), t->hosts, &b->alloc, err));
    } else {
        GY_TRY(gy_net_algorithm_parse(said, name, sizeof name, &shape.lanes, err));
        GY_TRY(gy_net_build(&b->schedule[size], name, &shape, GY_NET_ALLREDUCE, &b->alloc, err));
    }
    return gy_net_verify(&b->schedule[size], &proof, err);
}

static int inter_host_owner(const struct gy_net_topology *t, int host, int part, int parts)
{
    return t->member[t->first[host] + (int)((int64_t)part * gy_net_topology_locals(t, host) / parts)];
}

static int inter_host_count(struct gy_net_inter_host *b, const struct gy_net_topology *t, struct gy_error *err)
{
    int *const size = gy_arena_take(&b->arena, (size_t)t->hosts, sizeof *size);
    if (!size)
        return GY_NOMEM(err, "the hosts", (size_t)t->hosts * sizeof *size);
    for (int h = 0; h < t->hosts; h++)
        size[h] = gy_net_topology_locals(t, h);
    b->all = gy_net_parts(size, t->hosts);
    return GY_OK;
}

static int inter_host_own(struct gy_net_inter_host *b, const struct gy_net_inter_host_config *c, struct gy_error *err)
{
    const struct gy_net_topology *t = c->topology;
    GY_TRY(inter_host_count(b, t, err));
    b->parts = gy_arena_take(&b->arena, (size_t)b->all, sizeof *b->parts);
    for (int p = 0; b->parts != NULL && p < b->all; p++) {
        if (inter_host_owner(t, t->host[c->end.rank], p, b->all) != c->end.rank)
            continue;
        struct inter_host_part *part = &b->parts[b->owned++];
        *part = (struct inter_host_part){ .end = c->end, .part = p, .rank = gy_arena_take(&b->arena, (size_t)t->hosts, sizeof(int)) };
        if (!part->rank)
            return GY_NOMEM(err, "a part's owners", (size_t)t->hosts * sizeof(int));
        for (int h = 0; h < t->hosts; h++)
            part->rank[h] = inter_host_owner(t, h, p, b->all);
    }
    return b->parts ? GY_OK : GY_NOMEM(err, "the parts of a sum", (size_t)b->all * sizeof *b->parts);
}

static int inter_host_exec(struct gy_net_inter_host *b, const struct gy_net_inter_host_config *c, int flight, int part, int place, struct gy_error *err)
{
    const struct gy_net_topology *t = c->topology;
    struct inter_host_run *run = &b->runs[flight][part];
    const int size = place == INTER_HOST_WINDOW ? INTER_HOST_FEW : INTER_HOST_MANY;
    const struct gy_net_end end = {&inter_host_transport, &b->parts[part], t->host[c->end.rank], t->hosts, c->end.half};
    const int flights = (c->channel * INTER_HOST_FLIGHTS + flight) * b->all + b->parts[part].part;
    return gy_net_exec_open(size == INTER_HOST_FEW ? &run->few : &run->many[place], &b->schedule[size], &end, b->most[size],
                            (unsigned)(flights * (INTER_HOST_WINDOW + 1) + place), NULL, &b->alloc, err);
}

static int inter_host_runs(struct gy_net_inter_host *b, const struct gy_net_inter_host_config *c, struct gy_error *err)
{
    for (int f = 0; f < INTER_HOST_FLIGHTS; f++) {
        b->runs[f] = gy_arena_take(&b->arena, (size_t)b->owned + 1, sizeof *b->runs[f]);
        if (!b->runs[f])
            return GY_NOMEM(err, "sums between hosts", (size_t)b->owned * sizeof *b->runs[f]);
        for (int k = 0; k < b->owned; k++)
            for (int place = 0; place <= INTER_HOST_WINDOW; place++)
                GY_TRY(inter_host_exec(b, c, f, k, place, err));
    }
    return GY_OK;
}

/* A piece has, for each host, as many floats as are worth a message, up to GY_NET_PIECE_MOST. */
static void inter_host_sizes(struct gy_net_inter_host *b, const struct gy_net_inter_host_config *c)
{
    const int64_t piece = c->piece > 0 ? c->piece : gy_min64(c->end.transport->piece * c->topology->hosts, GY_NET_PIECE_MOST);
    b->most[INTER_HOST_MANY] = gy_min64((int64_t)(c->most / sizeof(float)) / gy_max64(b->all, 1) + 32, piece);
    const int64_t pair = gy_max64(INTER_HOST_PAIR, c->end.transport->piece);
    b->most[INTER_HOST_FEW] = gy_min64(b->most[INTER_HOST_MANY], c->topology->hosts == 2 ? pair : INTER_HOST_SMALL);
}

GY_INT int gy_net_inter_host_open(struct gy_net_inter_host **out, const struct gy_net_inter_host_config *config, const struct gy_alloc *alloc,
                                  struct gy_error *err)
{
    struct gy_net_inter_host *b = gy_alloc_take(alloc, 1, sizeof *b);
    if (!b)
        return GY_NOMEM(err, "the level between hosts", sizeof *b);
    b->alloc = *alloc;
    b->channel = config->channel;
    gy_arena_open_hook(&b->arena, alloc);
    int status = inter_host_own(b, config, err);
    inter_host_sizes(b, config);
    for (int size = 0; size < INTER_HOST_SIZES && status == GY_OK; size++)
        status = inter_host_schedule(b, config, size, err);
    status = status == GY_OK ? inter_host_runs(b, config, err) : status;
    if (status == GY_OK)
        *out = b;
    else
        gy_net_inter_host_close(b);
    return status;
}

GY_INT void gy_net_inter_host_close(struct gy_net_inter_host *b)
{
    if (!b)
        return;
    const struct gy_alloc alloc = b->alloc;
    for (int f = 0; f < INTER_HOST_FLIGHTS && b->runs[f]; f++)
        for (int k = 0; k < b->owned; k++)
            for (int place = 0; place <= INTER_HOST_WINDOW; place++)
                gy_net_exec_close(place < INTER_HOST_WINDOW ? b->runs[f][k].many[place] : b->runs[f][k].few);
    for (int size = 0; size < INTER_HOST_SIZES; size++)
        gy_net_close_schedule(&b->schedule[size]);
    gy_arena_close(&b->arena);
    gy_alloc_free(&alloc, b, sizeof *b);
}

/* As inter_host_exec makes it, backwards. */
GY_INT int gy_net_inter_host_flight(const struct gy_net_inter_host *b, uint32_t tag)
{
    const int flights = (int)(tag >> 16) / (INTER_HOST_WINDOW + 1) / b->all;
    return flights / INTER_HOST_FLIGHTS == b->channel ? flights % INTER_HOST_FLIGHTS : -1;
}

GY_INT void gy_net_inter_host_level(struct gy_net_inter_host *b, struct gy_net_host_level *out)
{
    *out = (struct gy_net_host_level){ .self = b, .parts = b->all, .flights = INTER_HOST_FLIGHTS, .start = inter_host_start, .test = inter_host_test };
}
