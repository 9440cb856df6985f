/* SPDX-License-Identifier: MIT */
/* topology.c: a host's identity is a hash of the kernel's boot, of the namespaces of processes and
 * of shared memory, and of the host's name. Two containers of one machine are two hosts; two
 * network namespaces alone are not. */
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "net/comm/topology.h"

#define TOPOLOGY_WORD 64

/* ---- identity ---- */

static void topology_add_file(struct gy_sha256 *sha, const char *path)
{
    char text[128];
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    const size_t bytes = fread(text, 1, sizeof text, file);
    gy_sha256_add(sha, text, bytes);
    fclose(file);
}

static void topology_add_namespace(struct gy_sha256 *sha, const char *path)
{
    struct stat at;
    uint64_t words[2] = {0, 0};
    if (stat(path, &at) == 0) {
        words[0] = (uint64_t)at.st_dev;
        words[1] = (uint64_t)at.st_ino;
    }
    gy_sha256_add(sha, words, sizeof words);
}

GY_INT void gy_net_identity_read(struct gy_net_identity *out, int rank, int apart)
{
    struct gy_sha256 sha;
    memset(out, 0, sizeof *out);
    if (gethostname(out->name, sizeof out->name - 1) != 0)
        gy_text_copy(out->name, sizeof out->name, "unknown");
    gy_sha256_open(&sha);
    topology_add_file(&sha, "/proc/sys/kernel/random/boot_id");
    topology_add_namespace(&sha, "/proc/self/ns/pid");
    topology_add_namespace(&sha, "/proc/self/ns/ipc");
    gy_sha256_add(&sha, out->name, sizeof out->name);
    if (apart)
        gy_sha256_add(&sha, &rank, sizeof rank);
    gy_sha256_close(&sha, out->host);
    out->pid = (int32_t)getpid();
    out->started = (int64_t)(gy_clock_wall() * 1e9);
    out->fd = -1;
    out->near = (struct gy_net_affinity){-1, -1};
    struct gy_pin_set allowed = {{0}};
    if (gy_pin_allowed(&allowed) > 0)
        gy_net_affinity_read("/sys/devices/system", &allowed, &out->near);
}

/* ---- hosts ---- */

static void topology_hosts(struct gy_net_topology *t, const struct gy_net_identity *all)
{
    int placed = 0;
    for (int r = 0; r < t->ranks; r++)
        t->host[r] = -1;
    for (int r = 0; r < t->ranks; r++) {
        if (t->host[r] >= 0)
            continue;
        t->first[t->hosts] = placed;
        for (int other = r; other < t->ranks; other++)
            if (memcmp(all[other].host, all[r].host, sizeof all[r].host) == 0) {
                t->host[other] = t->hosts;
                t->local[other] = placed - t->first[t->hosts];
                t->member[placed++] = other;
            }
        t->hosts++;
    }
    t->first[t->hosts] = placed;
}

/* ---- groups ---- */

/* Groups the ranks of a host by socket or by NUMA node. Returns 1 when every rank told that number
 * and there are 2 to GY_NET_GROUPS groups. */
static int topology_group_by(struct gy_net_topology *t, const struct gy_net_identity *all, int host, int by_socket)
{
    int32_t seen[GY_NET_GROUPS];
    int count = 0;
    for (int k = t->first[host]; k < t->first[host + 1]; k++) {
        const struct gy_net_affinity *near = &all[t->member[k]].near;
        const int32_t number = by_socket ? near->socket : near->node;
        int g = 0;
        while (g < count && seen[g] != number)
            g++;
        if (number < 0 || g == GY_NET_GROUPS)
            return 0;
        seen[g] = number;
        count = g == count ? count + 1 : count;
        t->group[t->member[k]] = g;
    }
    t->groups[host] = count;
    return count > 1;
}

static void topology_groups(struct gy_net_topology *t, const struct gy_net_identity *all)
{
    for (int h = 0; h < t->hosts; h++) {
        if (topology_group_by(t, all, h, 1) || topology_group_by(t, all, h, 0))
            continue;
        t->groups[h] = 1;
        for (int k = t->first[h]; k < t->first[h + 1]; k++)
            t->group[t->member[k]] = 0;
    }
}

/* ---- the file ---- */

struct topology_text {
    const char *at, *end, *name;
    int line, racks, rack_hosts; /* rack_hosts: in each */
    int *rank_order;             /* [hosts]: hosts, by their first numbers, rack after rack */
    int ordered;
    struct gy_error *err;
};

static int topology_bad(const struct topology_text *x, const char *what)
{
    return GY_FAIL(x->err, GY_E_FORMAT, "%s:%d: %s", x->name, x->line, what);
}

/* The next word of the line; 0 bytes at its end. */
static size_t topology_word(struct topology_text *x, char *word)
{
    size_t bytes = 0;
    while (x->at < x->end && (*x->at == ' ' || *x->at == '\t' || *x->at == '\r'))
        x->at++;
    while (x->at < x->end && *x->at != ' ' && *x->at != '\t' && *x->at != '\r' && *x->at != '#') {
        if (bytes < TOPOLOGY_WORD)
            word[bytes++] = *x->at;
        x->at++;
    }
    if (bytes == 0)
        x->at = x->end;
    word[bytes < TOPOLOGY_WORD ? bytes : TOPOLOGY_WORD - 1] = 0;
    return bytes;
}

static int topology_dims(struct topology_text *x, struct gy_net_topology *t)
{
    char word[TOPOLOGY_WORD];
    int dims[GY_NET_DIMS], count = 0;
    int64_t product = 1, size;
    topology_word(x, word);
    for (char *part = word; part != NULL; count++) {
        char *const next = strchr(part, 'x');
        if (next)
            *next = 0;
        if (gy_text_int(part, 1, GY_NET_RANKS_MOST, &size) != 0)
            return topology_bad(x, "dims are sizes with x between them, as 4x8x8");
        dims[count] = (int)size;
        product = gy_min64(product * size, INT32_MAX);
        part = next ? next + 1 : NULL;
        if (part && count + 1 == GY_NET_DIMS)
            return topology_bad(x, "the dims are more than 8 sizes");
    }
    if (product != t->ranks)
        return GY_FAIL(x->err, GY_E_FORMAT, "%s:%d: the dims have %" PRId64 " ranks together; the job has %d", x->name, x->line, product, t->ranks);
    for (int h = 0; h < t->hosts; h++)
        if (gy_net_topology_locals(t, h) != dims[0])
            return GY_FAIL(x->err, GY_E_FORMAT, "%s:%d: the first of dims is %d, the ranks of a host; host %d has %d", x->name, x->line, dims[0], h,
                           gy_net_topology_locals(t, h));
    t->dim_count = count - 1;
    memcpy(t->dims, dims + 1, (size_t)(count - 1) * sizeof dims[0]);
    return GY_OK;
}

static int topology_find(const struct gy_net_topology *t, const struct gy_net_identity *all, const char *name)
{
    for (int h = 0; h < t->hosts; h++)
        if (strcmp(all[t->member[t->first[h]]].name, name) == 0)
            return h;
    return -1;
}

static int topology_rack(struct topology_text *x, const struct gy_net_topology *t, const struct gy_net_identity *all)
{
    char word[TOPOLOGY_WORD];
    int hosts = 0;
    if (topology_word(x, word) == 0)
        return topology_bad(x, "a rack has a name and hosts");
    while (topology_word(x, word) > 0) {
        const int host = topology_find(t, all, word);
        if (host < 0)
            continue; /* not of this job */
        hosts++;
        for (int k = 0; k < x->ordered; k++)
            if (x->rank_order[k] == host)
                return topology_bad(x, "a host is in two racks");
        x->rank_order[x->ordered++] = host;
    }
    if (hosts == 0)
        return GY_OK;
    if (x->racks > 0 && hosts != x->rack_hosts)
        return topology_bad(x, "this rack has another number of the job's hosts than the first one");
    x->rack_hosts = hosts;
    x->racks++;
    return GY_OK;
}

static int topology_sockets(struct topology_text *x, struct gy_net_topology *t)
{
    char word[TOPOLOGY_WORD];
    int64_t size, next = 0;
    int count = 0;
    for (; topology_word(x, word) > 0; count++) {
        if (gy_text_int(word, 1, GY_NET_RANKS_MOST, &size) != 0 || count == GY_NET_GROUPS)
            return topology_bad(x, "sockets are at most 16 numbers of ranks, as 2 2");
        for (int r = 0; r < t->ranks; r++)
            if (t->local[r] >= next && t->local[r] < next + size)
                t->group[r] = count;
        next += size;
    }
    for (int h = 0; h < t->hosts; h++) {
        if (gy_net_topology_locals(t, h) != next)
            return GY_FAIL(x->err, GY_E_FORMAT, "%s:%d: the sockets have %" PRId64 " ranks together; host %d has %d", x->name, x->line, next, h,
                           gy_net_topology_locals(t, h));
        t->groups[h] = count;
    }
    t->told = 1;
    return GY_OK;
}

static int topology_line(struct topology_text *x, struct gy_net_topology *t, const struct gy_net_identity *all)
{
    char word[TOPOLOGY_WORD];
    if (topology_word(x, word) == 0)
        return GY_OK;
    if (strcmp(word, "dims") == 0)
        return topology_dims(x, t);
    if (strcmp(word, "sockets") == 0)
        return topology_sockets(x, t);
    return strcmp(word, "rack") == 0 ? topology_rack(x, t, all) : topology_bad(x, "a line begins with dims, rack or sockets");
}

/* Numbers the hosts anew, rack after rack. */
static int topology_reorder(struct gy_net_topology *t, const struct topology_text *x)
{
    int *const member = gy_alloc_take(&t->alloc, (size_t)t->ranks, sizeof *member);
    int *const first = gy_alloc_take(&t->alloc, (size_t)t->hosts + 1, sizeof *first);
    int *const groups = gy_alloc_take(&t->alloc, (size_t)t->hosts, sizeof *groups);
    int placed = 0;
    for (int h = 0; member != NULL && first && groups && h < t->hosts; h++) {
        const int from = x->rank_order[h];
        first[h] = placed;
        groups[h] = t->groups[from];
        for (int k = t->first[from]; k < t->first[from + 1]; k++) {
            t->host[t->member[k]] = h;
            member[placed++] = t->member[k];
        }
        first[h + 1] = placed;
    }
    const int good = member && first && groups;
    if (good) {
        memcpy(t->member, member, (size_t)t->ranks * sizeof *member);
        memcpy(t->first, first, ((size_t)t->hosts + 1) * sizeof *first);
        memcpy(t->groups, groups, (size_t)t->hosts * sizeof *groups);
    }
    gy_alloc_free(&t->alloc, groups, (size_t)t->hosts * sizeof *groups);
    gy_alloc_free(&t->alloc, member, (size_t)t->ranks * sizeof *member);
    gy_alloc_free(&t->alloc, first, ((size_t)t->hosts + 1) * sizeof *first);
    return good ? GY_OK : GY_E_NOMEM;
}

static int topology_read(struct gy_net_topology *t, const struct gy_net_identity *all, const char *text, struct topology_text *x)
{
    for (const char *at = text; *at != 0; x->line++) {
        const size_t bytes = strcspn(at, "\n");
        x->at = at;
        x->end = at + bytes;
        GY_TRY(topology_line(x, t, all));
        at += bytes + (at[bytes] != 0);
    }
    if (x->racks == 0)
        return GY_OK;
    if (t->dim_count > 0)
        return topology_bad(x, "there may be dims or racks, not both");
    if (x->ordered != t->hosts || x->rack_hosts * x->racks != t->hosts)
        return GY_FAIL(x->err, GY_E_FORMAT, "%s: %d of the job's %d hosts are in racks", x->name, x->ordered, t->hosts);
    t->dim_count = 2;
    t->dims[0] = x->rack_hosts;
    t->dims[1] = x->racks;
    return topology_reorder(t, x) == GY_OK ? GY_OK : GY_NOMEM(x->err, "the topology", (size_t)t->ranks * sizeof(int));
}

GY_INT int gy_net_topology_locals(const struct gy_net_topology *t, int host)
{
    return t->first[host + 1] - t->first[host];
}

GY_INT int gy_net_topology_group(const struct gy_net_topology *t, int rank, int size[GY_NET_GROUPS])
{
    const int host = t->host[rank];
    int before = 0;
    memset(size, 0, GY_NET_GROUPS * sizeof *size);
    for (int k = t->first[host]; k < t->first[host + 1]; k++) {
        const int other = t->member[k];
        before += other < rank && t->group[other] == t->group[rank];
        size[t->group[other]]++;
    }
    return before;
}

GY_INT int gy_net_topology_open(struct gy_net_topology *out, const struct gy_net_identity *all, int ranks, const char *text, const char *name,
                                const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_topology t = { .alloc = *alloc, .ranks = ranks };
    const size_t each = (size_t)ranks + 1;
    int status = GY_OK;
    t.host = gy_alloc_take(alloc, each, sizeof(int));
    t.local = gy_alloc_take(alloc, each, sizeof(int));
    t.first = gy_alloc_take(alloc, each, sizeof(int));
    t.member = gy_alloc_take(alloc, each, sizeof(int));
    t.group = gy_alloc_take(alloc, each, sizeof(int));
    t.groups = gy_alloc_take(alloc, each, sizeof(int));
    int *const order = gy_alloc_take(alloc, each, sizeof(int));
    if (!t.host || !t.local || !t.first || !t.member || !t.group || !t.groups || !order)
        status = GY_NOMEM(err, "the topology", 7 * each * sizeof(int));
    if (status == GY_OK) {
        topology_hosts(&t, all);
        topology_groups(&t, all);
    }
    if (status == GY_OK && text) {
        struct topology_text x = { .name = name, .line = 1, .rank_order = order, .err = err };
        status = topology_read(&t, all, text, &x);
    }
    gy_alloc_free(alloc, order, each * sizeof(int));
    if (status == GY_OK)
        *out = t;
    else
        gy_net_topology_close(&t);
    return status;
}

GY_INT void gy_net_topology_close(struct gy_net_topology *t)
{
    const size_t bytes = ((size_t)t->ranks + 1) * sizeof(int);
    gy_alloc_free(&t->alloc, t->host, bytes);
    gy_alloc_free(&t->alloc, t->local, bytes);
    gy_alloc_free(&t->alloc, t->first, bytes);
    gy_alloc_free(&t->alloc, t->member, bytes);
    gy_alloc_free(&t->alloc, t->group, bytes);
    gy_alloc_free(&t->alloc, t->groups, bytes);
    *t = (struct gy_net_topology){0};
}
