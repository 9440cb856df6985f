/* SPDX-License-Identifier: MIT */
/* t_net_inter_host.c: hosts with any number of ranks, with every algorithm between them. Sums
 * block, or several are begun at a time, a thread a rank, with messages in adversarial order. Which
 * rank is on which host, racks and dims of a topology file, and its mistakes are tested. */
#include <pthread.h>

#include "engine/base/rng.h"
#include "net/comm/inter_host.h"
#include "tests/net_algorithms.h"
#include "tests/net_local.h"
#include "tests/t.h"

#define BETWEEN_RANKS 12
#define BETWEEN_BYTES ((size_t)1 << 20)
#define BETWEEN_SUMS 9

/* ---- topology ---- */

static void between_identities(struct gy_net_identity *all, const int *locals, int hosts, int dealt)
{
    int ranks = 0, placed[BETWEEN_RANKS] = {0};
    for (int h = 0; h < hosts; h++)
        ranks += locals[h];
    memset(all, 0, (size_t)ranks * sizeof *all);
    for (int r = 0, h = 0; r < ranks; r++) {
        while (placed[h] == locals[h]) /* one host after the other, or dealt round */
            h = (h + 1) % hosts;
        all[r].host[0] = (unsigned char)(h + 1);
        snprintf(all[r].name, sizeof all[r].name, "node%d", h);
        placed[h]++;
        h = dealt ? (h + 1) % hosts : h;
    }
}

static void between_topology(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const int locals[] = {2, 2, 2, 2};
    struct gy_net_identity all[8];
    struct gy_net_topology t;
    struct gy_error err = {0};
    between_identities(all, locals, 4, 1);
    if (T_CHECK(gy_net_topology_open(&t, all, 8, NULL, NULL, &alloc, &err) == GY_OK)) {
        T_CHECK(t.hosts == 4 && t.host[5] == 1 && t.local[5] == 1 && t.member[t.first[1]] == 1 && t.member[t.first[1] + 1] == 5);
        gy_net_topology_close(&t);
    }
    const char *const racks = "# two racks\nrack left node0 node2\nrack right node3 node1 other\n";
    if (T_CHECK(gy_net_topology_open(&t, all, 8, racks, "racks.txt", &alloc, &err) == GY_OK)) {
        T_CHECK(t.dim_count == 2 && t.dims[0] == 2 && t.dims[1] == 2 && t.host[0] == 0 && t.host[2] == 1 && t.host[3] == 2 && t.host[1] == 3);
        T_CHECK(t.member[t.first[2]] == 3 && t.member[t.first[2] + 1] == 7 && t.first[4] == 8);
        gy_net_topology_close(&t);
    }
    if (T_CHECK(gy_net_topology_open(&t, all, 8, "dims 2x2x2", "dims.txt", &alloc, &err) == GY_OK)) {
        T_CHECK(t.dim_count == 2 && t.dims[0] == 2 && t.dims[1] == 2);
        gy_net_topology_close(&t);
    }
    static const char *const bad[][2] = {
        {"dims 2x2x3", "12 ranks together"}, {"dims 4x2", "the first of dims is 4"}, {"dims 2x", "dims are sizes"}, {"rank a", "begins with dims"},
        {"rack a node0 node1\nrack b node2", "another number"}, {"rack a node0 node0\n", "in two racks"}, {"rack a node0 node1\n", "2 of the job's 4"},
        {"rack", "has a name"}, {"dims 2x4\nrack a node0 node1\nrack b node2 node3", "not both"},
        {"dims 4096x4096x4096x4096x4096x4096", "2147483647 ranks together"},
        {"dims 2x4x1x1x1x1x1x1x9", "the dims are more than 8 sizes"},
    };
    for (size_t i = 0; i < GY_COUNT(bad); i++)
        T_CHECK_MSG(gy_net_topology_open(&t, all, 8, bad[i][0], "bad.txt", &alloc, &err) == GY_E_FORMAT && strstr(err.text, bad[i][1]) &&
                    strstr(err.text, "bad.txt"), "\"%s\": %s", bad[i][0], err.text);
    struct gy_net_identity own, apart;
    gy_net_identity_read(&own, 1, 0);
    gy_net_identity_read(&apart, 1, 1);
    T_CHECK(memcmp(own.host, apart.host, sizeof own.host) != 0 && own.name[0] != 0);
}

/* ---- sums ---- */

struct between_world {
    struct gy_net_topology topology;
    struct gy_net_local *local;
    void *memory[BETWEEN_RANKS]; /* of a host */
    const char *algorithm;
    int64_t piece;
    int shared; /* each host's sums go into one result */
    int bad[BETWEEN_RANKS];
};
struct between_rank {
    struct between_world *w;
    int rank;
    pthread_t thread;
};

static float between_value(int rank, int sum, int64_t i)
{
    return gy_rng_uniform(5, (uint64_t)sum, (uint64_t)rank, (uint64_t)i) - 0.5f;
}

static void between_fill(float *data, int rank, int sum, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = between_value(rank, sum, i);
}

static int between_right(const float *data, int ranks, int sum, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double want = 0;
        for (int r = 0; r < ranks; r++)
            want += (double)between_value(r, sum, i);
        if (!(fabs(want - (double)data[i]) < 1e-5))
            return 0;
    }
    return 1;
}

static const int64_t between_counts[BETWEEN_SUMS] = {5000, 0, 1, 17, 33, 1000, 4096, 12345, 20000};

/* Each alone, then all begun and waited for from the last. Returns how many are wrong. */
static int between_sums(struct gy_net_host *node, int rank, int ranks, struct gy_error *err)
{
    float *const data = gy_net_host_memory(node), *const sums = gy_net_host_sums(node);
    int64_t ticket[BETWEEN_SUMS], at[BETWEEN_SUMS];
    int bad = 0;
    for (int k = 0; k < BETWEEN_SUMS; k++) {
        between_fill(data, rank, k, between_counts[k]);
        bad += gy_net_host_allreduce(node, data, between_counts[k], err) != GY_OK || !between_right(sums, ranks, k, between_counts[k]);
    }
    int64_t offset = 0;
    for (int k = 0; k < BETWEEN_SUMS; k++) {
        at[k] = offset;
        offset += gy_ceil_div(between_counts[k], 16) * 16;
        between_fill(data + at[k], rank, 100 + k, between_counts[k]);
        bad += gy_net_host_start(node, data + at[k], between_counts[k], &ticket[k], err) != GY_OK;
    }
    for (int k = BETWEEN_SUMS - 1; k >= 0; k--)
        bad += gy_net_host_wait(node, ticket[k], err) != GY_OK || !between_right(sums + at[k], ranks, 100 + k, between_counts[k]);
    for (int k = 0; k < BETWEEN_SUMS && sums != data; k++)
        for (int64_t i = 0; i < between_counts[k]; i++)
            bad += data[at[k] + i] != between_value(rank, 100 + k, i); /* what a rank gave stays */
    return bad;
}

static void *between_thread(void *user)
{
    const struct between_rank *own = user;
    struct between_world *w = own->w;
    const struct gy_net_topology *t = &w->topology;
    const struct gy_alloc alloc = gy_alloc_default();
    const int host = t->host[own->rank];
    struct gy_net_inter_host_config config = { .topology = t, .algorithm = w->algorithm, .channel = 3, .most = BETWEEN_BYTES,
                                              .piece = w->piece };
    struct gy_net_host_level level;
    struct gy_net_inter_host *between = NULL;
    struct gy_net_host *node = NULL;
    struct gy_error err = {0};
    gy_net_local_end(w->local, own->rank, &config.end);
    int status = gy_net_host_open(&node, w->memory[host], t->local[own->rank], gy_net_topology_locals(t, host), BETWEEN_BYTES, 60000000000, &alloc, &err);
    status = status == GY_OK ? gy_net_inter_host_open(&between, &config, &alloc, &err) : status;
    if (status == GY_OK && w->shared)
        gy_net_host_share(node);
    if (status == GY_OK) {
        gy_net_inter_host_level(between, &level);
        gy_net_host_join(node, &level);
        w->bad[own->rank] = between_sums(node, own->rank, t->ranks, &err);
    }
    if (status != GY_OK || w->bad[own->rank] != 0) {
        w->bad[own->rank]++;
        printf("    rank %d, %s: %s\n", own->rank, w->algorithm ? w->algorithm : "by size", err.text);
    }
    gy_net_inter_host_close(between);
    gy_net_host_close(node);
    return NULL;
}

static void between_case(const int *locals, int hosts, int dealt, const char *text, const char *algorithm, uint64_t seed, int shared)
{
    const struct gy_alloc alloc = gy_alloc_default();
    /* up to 29 pieces, or one */
    struct between_world w = { .algorithm = algorithm, .piece = seed % 2 == 1 ? 700 : 0, .shared = shared };
    struct between_rank ranks[BETWEEN_RANKS];
    struct gy_net_identity all[BETWEEN_RANKS];
    struct gy_error err = {0};
    int count = 0, bad = 0;
    for (int h = 0; h < hosts; h++)
        count += locals[h];
    between_identities(all, locals, hosts, dealt);
    int status = gy_net_topology_open(&w.topology, all, count, text, "a topology", &alloc, &err);
    status = status == GY_OK ? gy_net_local_open(&w.local, count, seed, (int)(seed % 5), &alloc, &err) : status;
    for (int h = 0; h < hosts && status == GY_OK; h++)
        w.memory[h] = calloc(1, gy_net_host_bytes(gy_net_topology_locals(&w.topology, h), BETWEEN_BYTES, shared));
    for (int r = 0; r < count && status == GY_OK; r++) {
        ranks[r] = (struct between_rank){ .w = &w, .rank = r };
        T_CHECK(pthread_create(&ranks[r].thread, NULL, between_thread, &ranks[r]) == 0);
    }
    for (int r = 0; r < count && status == GY_OK; r++) {
        pthread_join(ranks[r].thread, NULL);
        bad += w.bad[r];
    }
    T_CHECK_MSG(status == GY_OK && bad == 0, "%d ranks on %d hosts, %s, shared %d: %d bad, %s", count, hosts,
                algorithm ? algorithm : "by size", shared, bad, err.text);
    gy_net_local_close(w.local);
    gy_net_topology_close(&w.topology);
    for (int h = 0; h < hosts; h++)
        free(w.memory[h]);
}

int main(void)
{
    static const int two[] = {2, 2}, unequal[] = {1, 3}, three[] = {3, 1, 2}, four[] = {2, 1, 2, 1}, single[] = {1, 1, 1, 1, 1}, many[] = {3, 3, 3, 3};
    const char *const racks = "rack a node0 node2\nrack b node1 node3\n";
    between_topology();
    for (int i = 0, more = 1; more; i++) { /* the last one: by size */
        char name[64] = "";
        more = net_allreduce(i) != NULL;
        if (more && i % 2 == 1)
            snprintf(name, sizeof name, "%s:%d", net_allreduce(i), 2 + (i / 2 + 1) % 2);
        else if (more)
            snprintf(name, sizeof name, "%s", net_allreduce(i));
        for (int shared = 0; shared < 2; shared++) {
            const char *const algorithm = more ? name : NULL;
            const uint64_t seed = (uint64_t)i;
            between_case(two, 2, 0, NULL, algorithm, seed, shared);
            between_case(two, 2, 0, NULL, algorithm, seed + 1, shared);
            between_case(unequal, 2, 1, NULL, algorithm, seed + 1, shared);
            between_case(three, 3, 1, NULL, algorithm, seed + 2, shared);
            between_case(four, 4, 0, racks, algorithm, seed + 3, shared);
        }
    }
    for (int shared = 0; shared < 2; shared++) {
        between_case(single, 5, 0, NULL, "ring:2", 1, shared);
        between_case(many, 4, 1, "dims 3x2x2", "multiring:2", 2, shared);
    }
    T_END("t_net_inter_host");
}
