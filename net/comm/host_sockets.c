/* SPDX-License-Identifier: MIT */
/* host_sockets.c: the mapping has a line a rank: how many sums it is ready for, and has done its
 * share of. The groups' own mappings follow. A part's owners divide it among themselves again. Each
 * sums its share of all their buffers and writes the sum into all of them. */
#include "net/schedule/add.h"
#include "net/schedule/builders.h"
#include "net/comm/host_sockets.h"

#define HOST_SOCKETS_FLIGHTS 4
#define HOST_SOCKETS_STRIP 2048 /* floats that are summed at a time */
#define HOST_SOCKETS_DEPTH 5    /* strips that a sum of GY_NET_GROUPS, 16, keeps at once */
#define HOST_SOCKETS_PAGE ((size_t)4096)

struct host_sockets_line {
    uint64_t ready, done;
    unsigned char pad[GY_CACHE_LINE - 2 * sizeof(uint64_t)];
};
struct host_sockets_owner { /* of a part, in one group */
    const struct host_sockets_line *line;
    unsigned char *sums; /* where it sums: its buffers, or its group's result */
};
struct host_sockets_sum {
    float *data;
    int64_t count;
    uint64_t number; /* from 1 */
};
struct gy_net_host_sockets {
    struct gy_alloc alloc;
    struct gy_net_host *node;
    struct host_sockets_line *line;    /* this rank's */
    struct host_sockets_owner *owners; /* [own parts][groups] */
    size_t owner_count;
    int groups, group, parts, first, last; /* own parts: first .. last - 1 */
    struct host_sockets_sum sum[HOST_SOCKETS_FLIGHTS];
    uint64_t begun, done;
    float strip[HOST_SOCKETS_DEPTH][HOST_SOCKETS_STRIP];
};

/* ---- sums ---- */

static int host_sockets_ready(const struct gy_net_host_sockets *s, uint64_t number)
{
    for (size_t i = 0; i < s->owner_count; i++)
        if (__atomic_load_n(&s->owners[i].line->ready, __ATOMIC_ACQUIRE) < number)
            return 0;
    return 1;
}

static int host_sockets_done(const struct gy_net_host_sockets *s, uint64_t number)
{
    for (size_t i = 0; i < s->owner_count; i++)
        if (__atomic_load_n(&s->owners[i].line->done, __ATOMIC_ACQUIRE) < number)
            return 0;
    return 1;
}

/* to = the sum of `count` owners' floats at offset `byte` of their sums, as a balanced tree. room:
 * a strip for each level. */
static void host_sockets_add(float *to, const struct host_sockets_owner *from, int count, size_t byte, int64_t n, float (*room)[HOST_SOCKETS_STRIP])
{
    if (count == 1) {
        memcpy(to, from[0].sums + byte, (size_t)n * sizeof(float));
        return;
    }
    int left = 1;
    while (left * 2 < count)
        left *= 2;
    host_sockets_add(to, from, left, byte, n, room);
    host_sockets_add(room[0], from + left, count - left, byte, n, room + 1);
    gy_net_sum2(to, to, room[0], n);
}

/* This rank's share of a part. */
static void host_sockets_reduce(struct gy_net_host_sockets *s, const struct host_sockets_sum *sum, int part)
{
    const struct host_sockets_owner *owners = s->owners + (size_t)(part - s->first) * (size_t)s->groups;
    const unsigned char *const own = gy_net_host_sums(s->node);
    const size_t offset = (size_t)((const unsigned char *)sum->data - own);
    const int64_t begin = gy_net_host_part(sum->count, s->parts, part), count = gy_net_host_part(sum->count, s->parts, part + 1) - begin;
    const int64_t end = gy_net_host_part(count, s->groups, s->group + 1);
    for (int64_t at = gy_net_host_part(count, s->groups, s->group); at < end; at += HOST_SOCKETS_STRIP) {
        const int64_t n = gy_min64(HOST_SOCKETS_STRIP, end - at);
        const size_t byte = offset + (size_t)(begin + at) * sizeof(float);
        host_sockets_add(s->strip[0], owners, s->groups, byte, n, s->strip + 1);
        for (int g = 0; g < s->groups; g++)
            memcpy(owners[g].sums + byte, s->strip[0], (size_t)n * sizeof(float));
    }
}

static int host_sockets_start(void *self, unsigned flight, float *data, int64_t count, struct gy_error *err)
{
    struct gy_net_host_sockets *s = self;
    (void)err;
    s->sum[flight] = (struct host_sockets_sum){data, count, ++s->begun};
    __atomic_store_n(&s->line->ready, s->begun, __ATOMIC_RELEASE);
    return GY_OK;
}

static int host_sockets_test(void *self, unsigned flight, struct gy_error *err)
{
    struct gy_net_host_sockets *s = self;
    const struct host_sockets_sum *sum = &s->sum[flight];
    (void)err;
    if (s->done + 1 == sum->number && host_sockets_ready(s, sum->number)) {
        for (int part = s->first; part < s->last; part++)
            host_sockets_reduce(s, sum, part);
        __atomic_store_n(&s->line->done, ++s->done, __ATOMIC_RELEASE);
    }
    return s->done >= sum->number && host_sockets_done(s, sum->number);
}

/* ---- open and close ---- */

static size_t host_sockets_lines(const int *size, int groups)
{
    size_t ranks = 0;
    for (int g = 0; g < groups; g++)
        ranks += (size_t)size[g];
    return gy_align_up(ranks * sizeof(struct host_sockets_line), HOST_SOCKETS_PAGE);
}

GY_INT size_t gy_net_host_sockets_bytes(const int *size, int groups, size_t most, int shared)
{
    size_t bytes = groups >= 1 && groups <= GY_NET_GROUPS ? host_sockets_lines(size, groups) : 0;
    for (int g = 0; g < groups && bytes > 0; g++) {
        const size_t each = gy_net_host_bytes(size[g], most, shared);
        if (each == 0 || each > SIZE_MAX - HOST_SOCKETS_PAGE || gy_add_size(bytes, gy_align_up(each, HOST_SOCKETS_PAGE), &bytes) != 0)
            return 0;
    }
    return bytes;
}

/* Where a group's mapping is, and its first line. */
static unsigned char *host_sockets_base(const struct gy_net_host_sockets_config *c, int group, int *line)
{
    unsigned char *at = (unsigned char *)c->base + host_sockets_lines(c->size, c->groups);
    *line = 0;
    for (int g = 0; g < group; g++) {
        at += gy_align_up(gy_net_host_bytes(c->size[g], c->most, c->shared), HOST_SOCKETS_PAGE);
        *line += c->size[g];
    }
    return at;
}

static int host_sockets_node(struct gy_net_host **out, const struct gy_net_host_sockets_config *c, int group, int rank, void *base,
                             const struct gy_alloc *alloc, struct gy_error *err)
{
    GY_TRY(gy_net_host_open(out, base, rank, c->size[group], c->most, c->wait_ns, alloc, err));
    if (c->shared)
        gy_net_host_share(*out);
    return GY_OK;
}

/* The rank of a group that owns a part: its line, and where it sums. */
static int host_sockets_owner(struct host_sockets_owner *out, const struct gy_net_host_sockets_config *c, int group, int part, int parts,
                              const struct gy_alloc *alloc, struct gy_error *err)
{
    int line;
    unsigned char *const base = host_sockets_base(c, group, &line);
    const int rank = (int)((int64_t)part * c->size[group] / parts);
    struct gy_net_host *node;
    GY_TRY(host_sockets_node(&node, c, group, rank, base, alloc, err));
    *out = (struct host_sockets_owner){(const struct host_sockets_line *)c->base + line + rank, gy_net_host_sums(node)};
    gy_net_host_close(node);
    return GY_OK;
}

static int host_sockets_fill(struct gy_net_host_sockets *s, const struct gy_net_host_sockets_config *c, struct gy_error *err)
{
    int line;
    const struct gy_net_host_level level = {s, s->parts, HOST_SOCKETS_FLIGHTS, host_sockets_start, host_sockets_test};
    GY_TRY(host_sockets_node(&s->node, c, c->group, c->rank, host_sockets_base(c, c->group, &line), &s->alloc, err));
    gy_net_host_join(s->node, &level);
    s->line = (struct host_sockets_line *)c->base + line + c->rank;
    s->first = (int)gy_ceil_div((int64_t)c->rank * s->parts, c->size[c->group]);
    s->last = (int)gy_ceil_div((int64_t)(c->rank + 1) * s->parts, c->size[c->group]);
    s->owners = gy_alloc_take(&s->alloc, (size_t)s->parts * (size_t)s->groups, sizeof *s->owners);
    if (!s->owners)
        return GY_NOMEM(err, "the sockets of a host", (size_t)s->parts * (size_t)s->groups * sizeof *s->owners);
    for (int part = s->first; part < s->last; part++)
        for (int g = 0; g < s->groups; g++)
            GY_TRY(host_sockets_owner(&s->owners[s->owner_count++], c, g, part, s->parts, &s->alloc, err));
    return GY_OK;
}

GY_INT int gy_net_host_sockets_open(struct gy_net_host_sockets **out, const struct gy_net_host_sockets_config *c, const struct gy_alloc *alloc,
                                    struct gy_error *err)
{
    if (gy_net_host_sockets_bytes(c->size, c->groups, c->most, c->shared) == 0)
        return GY_FAIL(err, GY_E_ARG, "%d sockets with %zu bytes of each rank; there may be %d sockets, and %d ranks on each", c->groups, c->most,
                       GY_NET_GROUPS, GY_NET_HOST_RANKS);
    struct gy_net_host_sockets *s = gy_alloc_take(alloc, 1, sizeof *s);
    if (!s)
        return GY_NOMEM(err, "the sockets of a host", sizeof *s);
    s->alloc = *alloc;
    s->groups = c->groups;
    s->group = c->group;
    s->parts = gy_net_parts(c->size, c->groups);
    const int status = host_sockets_fill(s, c, err);
    if (status == GY_OK)
        *out = s;
    else
        gy_net_host_sockets_close(s);
    return status;
}

GY_INT void gy_net_host_sockets_close(struct gy_net_host_sockets *s)
{
    if (!s)
        return;
    const struct gy_alloc alloc = s->alloc;
    gy_net_host_close(s->node);
    gy_alloc_free(&alloc, s->owners, (size_t)s->parts * (size_t)s->groups * sizeof *s->owners);
    gy_alloc_free(&alloc, s, sizeof *s);
}

GY_INT struct gy_net_host *gy_net_host_sockets_node(struct gy_net_host_sockets *s)
{
    return s->node;
}

GY_INT void gy_net_host_sockets_clear(struct gy_net_host_sockets *s)
{
    memset(s->line, 0, sizeof *s->line);
    gy_net_host_clear(s->node);
}
