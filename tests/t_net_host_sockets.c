/* SPDX-License-Identifier: MIT */
/* t_net_host_sockets.c: groups of one host. Sums among two, three and four sockets with equal and
 * unequal numbers of ranks, a thread a rank, are right to the bit. They block, or several are begun
 * at a time. The order is that of all ranks where groups are equal powers of two. Ranks get their
 * sockets from a made-up folder of the system, from their own words, or from a topology file; its
 * mistakes are tested. */
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/rng.h"
#include "net/comm/host_sockets.h"
#include "tests/t.h"

#define SOCKETS_RANKS 12
#define SOCKETS_BYTES ((size_t)1 << 18)
#define SOCKETS_WAIT 60000000000LL

/* ---- sums ---- */

static const int64_t sockets_counts[] = {5000, 0, 1, 17, 33, 1000, 4096, 12345, 20000};
#define SOCKETS_SUMS ((int)GY_COUNT(sockets_counts))
#define SOCKETS_KEPT 5000 /* sockets_counts[0] */

struct sockets_case {
    int size[GY_NET_GROUPS], groups;
};
struct sockets_rank {
    struct gy_net_host_sockets_config config;
    const struct sockets_case *c;
    int number, bad; /* number: among all ranks, group after group */
    float *kept;     /* [SOCKETS_KEPT] of the first sum, or NULL */
    pthread_t thread;
};

static float sockets_value(int rank, int sum, int64_t i)
{
    return gy_rng_uniform(5, (uint64_t)sum, (uint64_t)rank, (uint64_t)i) - 0.5f;
}

static float sockets_tree(const float *v, int count)
{
    int left = 1;
    if (count == 1)
        return v[0];
    while (left * 2 < count)
        left *= 2;
    return sockets_tree(v, left) + sockets_tree(v + left, count - left);
}

/* The groups' trees, then the tree of the groups. */
static float sockets_want(const struct sockets_case *c, int sum, int64_t i)
{
    float group[GY_NET_GROUPS], v[SOCKETS_RANKS];
    for (int g = 0, first = 0; g < c->groups; first += c->size[g], g++) {
        for (int k = 0; k < c->size[g]; k++)
            v[k] = sockets_value(first + k, sum, i);
        group[g] = sockets_tree(v, c->size[g]);
    }
    return sockets_tree(group, c->groups);
}

static int sockets_right(const struct sockets_case *c, const float *data, int sum, int64_t count)
{
    int right = 1;
    for (int64_t i = 0; i < count; i++) {
        const float want = sockets_want(c, sum, i);
        right &= memcmp(&want, &data[i], sizeof want) == 0;
    }
    return right;
}

static void sockets_fill_data(float *data, int rank, int sum, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = sockets_value(rank, sum, i);
}

/* Each sum alone; then all are begun, and waited for from the last. Calls with further rounds go on
 * with their numbers. Returns how many are wrong. */
static int sockets_sums(const struct sockets_rank *r, struct gy_net_host *node, int round, struct gy_error *err)
{
    float *const data = gy_net_host_memory(node), *const sums = gy_net_host_sums(node);
    int64_t ticket[SOCKETS_SUMS], at[SOCKETS_SUMS], offset = 0;
    int bad = 0;
    for (int k = 0; k < SOCKETS_SUMS; k++) {
        sockets_fill_data(data, r->number, round + k, sockets_counts[k]);
        bad += gy_net_host_allreduce(node, data, sockets_counts[k], err) != GY_OK || !sockets_right(r->c, sums, round + k, sockets_counts[k]);
    }
    for (int k = 0; k < SOCKETS_SUMS; k++) {
        at[k] = offset;
        offset += gy_ceil_div(sockets_counts[k], 16) * 16;
        sockets_fill_data(data + at[k], r->number, round + 100 + k, sockets_counts[k]);
        bad += gy_net_host_start(node, data + at[k], sockets_counts[k], &ticket[k], err) != GY_OK;
        for (int look = 0; look < (r->number * 7 + k) % 3; look++)
            gy_net_host_test(node, ticket[0], err);
    }
    for (int k = SOCKETS_SUMS - 1; k >= 0; k--)
        bad += gy_net_host_wait(node, ticket[k], err) != GY_OK || !sockets_right(r->c, sums + at[k], round + 100 + k, sockets_counts[k]);
    for (int k = 0; k < SOCKETS_SUMS && sums != data; k++)
        for (int64_t i = 0; i < sockets_counts[k]; i++)
            /* a rank's own data stays */
            bad += data[at[k] + i] != sockets_value(r->number, round + 100 + k, i);
    return bad;
}

/* A sum of fresh values, whose result is kept. */
static int sockets_keep(const struct sockets_rank *r, struct gy_net_host *node, struct gy_error *err)
{
    sockets_fill_data(gy_net_host_memory(node), r->number, 9, SOCKETS_KEPT);
    GY_TRY(gy_net_host_allreduce(node, gy_net_host_memory(node), SOCKETS_KEPT, err));
    memcpy(r->kept, gy_net_host_sums(node), SOCKETS_KEPT * sizeof(float));
    return GY_OK;
}

static void *sockets_thread(void *user)
{
    struct sockets_rank *r = user;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_host_sockets *s = NULL;
    struct gy_error err = {0};
    r->bad = gy_net_host_sockets_open(&s, &r->config, &alloc, &err) != GY_OK;
    if (r->kept && r->bad == 0)
        r->bad = sockets_keep(r, gy_net_host_sockets_node(s), &err) != GY_OK;
    for (int round = 0; round < 2 && r->bad == 0 && !r->kept; round++)
        r->bad = sockets_sums(r, gy_net_host_sockets_node(s), round * 1000, &err);
    if (r->bad > 0)
        printf("    rank %d: %s\n", r->number, err.text);
    gy_net_host_sockets_close(s);
    return NULL;
}

/* kept: [ranks][SOCKETS_KEPT], every rank's result of one sum; NULL: all sums. */
static void sockets_run(const struct sockets_case *c, int shared, float *kept)
{
    struct sockets_rank ranks[SOCKETS_RANKS];
    const size_t bytes = gy_net_host_sockets_bytes(c->size, c->groups, SOCKETS_BYTES, shared);
    void *base = NULL;
    int count = 0, bad = 0;
    if (!T_CHECK(bytes > 0 && posix_memalign(&base, 4096, bytes) == 0))
        return;
    memset(base, 0, bytes);
    for (int g = 0; g < c->groups; g++)
        for (int k = 0; k < c->size[g]; k++, count++)
            ranks[count] = (struct sockets_rank){
                .config = { .base = base, .size = c->size, .groups = c->groups, .group = g, .rank = k, .most = SOCKETS_BYTES, .shared = shared,
                           .wait_ns = SOCKETS_WAIT },
                .c = c, .number = count, .kept = kept ? kept + count * SOCKETS_KEPT : NULL};
    for (int r = 0; r < count; r++)
        T_CHECK(pthread_create(&ranks[r].thread, NULL, sockets_thread, &ranks[r]) == 0);
    for (int r = 0; r < count; r++) {
        pthread_join(ranks[r].thread, NULL);
        bad += ranks[r].bad;
    }
    T_CHECK_MSG(bad == 0, "%d groups, the first of %d, shared %d: %d wrong", c->groups, c->size[0], shared, bad);
    free(base);
}

/* Equal groups of a power of two: every rank ends with the bits of all ranks in one group. */
static void sockets_order(void)
{
    static const struct sockets_case cases[] = {{{2, 2}, 2}, {{4, 4}, 2}, {{2, 2, 2}, 3}, {{4, 4, 4}, 3}, {{1, 1, 1, 1}, 4}};
    static float apart[SOCKETS_RANKS * SOCKETS_KEPT], together[SOCKETS_RANKS * SOCKETS_KEPT];
    for (size_t n = 0; n < GY_COUNT(cases); n++) {
        const int ranks = cases[n].groups * cases[n].size[0];
        const struct sockets_case whole = {{ranks}, 1};
        memset(apart, 0, sizeof apart);
        memset(together, 0xff, sizeof together);
        sockets_run(&cases[n], 0, apart);
        sockets_run(&whole, 0, together);
        T_CHECK_MSG(memcmp(apart, together, (size_t)ranks * SOCKETS_KEPT * sizeof(float)) == 0, "%d groups of %d: other bits than one group of all",
                    cases[n].groups, cases[n].size[0]);
    }
}

/* ---- who is where ---- */

static void sockets_put(const char *root, const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%.200s/%.250s", root, path);
    for (char *p = whole + strlen(root) + 1; *p != 0; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(whole, 0755);
            *p = '/';
        }
    FILE *file = fopen(whole, "w");
    if (T_CHECK(file != NULL)) {
        fputs(text, file);
        fclose(file);
    }
}

static struct gy_net_affinity sockets_near(const char *root, uint64_t processors)
{
    struct gy_pin_set set = {{processors}};
    struct gy_net_affinity near;
    gy_net_affinity_read(root, &set, &near);
    return near;
}

/* The part's processors, as bits. */
static uint64_t sockets_share(const char *root, uint64_t processors, int part, int parts)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_pin_set set = {{processors}}, out;
    struct gy_error err = {0};
    return T_CHECK(gy_net_affinity_share(root, &set, part, parts, &out, &alloc, &err) == GY_OK) ? out.bits[0] : 0;
}

/* Processors 2k and 2k + 1 are one core, but for 5 and 7 with 4 and 6: there 4, 6 and 5, 7. */
static void sockets_shares(const char *root)
{
    static const char *const sibling[] = {"0-1\n", "0-1\n", "2-3\n", "2-3\n", "4,6\n", "5,7\n", "4,6\n", "5,7\n"};
    char path[80];
    for (int cpu = 0; cpu < 8; cpu++) {
        snprintf(path, sizeof path, "cpu/cpu%d/topology/thread_siblings_list", cpu);
        sockets_put(root, path, sibling[cpu]);
    }
    T_CHECK(sockets_share(root, 0xff, 0, 2) == 0x0f && sockets_share(root, 0xff, 1, 2) == 0xf0);
    T_CHECK(sockets_share(root, 0xff, 0, 4) == 0x03 && sockets_share(root, 0xff, 1, 4) == 0x0c);
    T_CHECK(sockets_share(root, 0xff, 0, 3) == 0x0f && sockets_share(root, 0xff, 1, 3) != 0 && sockets_share(root, 0xff, 2, 3) != 0);
    T_CHECK((sockets_share(root, 0xff, 1, 3) | sockets_share(root, 0xff, 2, 3)) == 0xf0);
    /* cores 0, and 2 with 3 */
    T_CHECK(sockets_share(root, 0x0d, 0, 2) == 0x01 && sockets_share(root, 0x0d, 1, 2) == 0x0c);
    T_CHECK(sockets_share(root, 0x0d, 0, 3) == 0x01 && sockets_share(root, 0x0d, 1, 3) == 0x04 && sockets_share(root, 0x0d, 2, 3) == 0x08);
    /* more processes than processors */
    T_CHECK(sockets_share(root, 0x03, 2, 3) == 0x01 && sockets_share(root, 0x03, 1, 3) == 0x02);
    T_CHECK(sockets_share("/no/such/folder", 0x3c, 1, 2) == 0x30);
}

/* Two nodes have every second of 1024 processors. */
static void sockets_interleaved(void)
{
    char root[] = "/tmp/gyre-sockets-XXXXXX", path[64], text[4096];
    struct gy_pin_set set = {{0}};
    struct gy_net_affinity near;
    if (!T_CHECK(mkdtemp(root) != NULL))
        return;
    for (int node = 0; node < 2; node++) {
        size_t at = 0;
        for (int cpu = node; cpu < 1024; cpu += 2)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", at > 0 ? "," : "", cpu);
        snprintf(path, sizeof path, "node/node%d/cpulist", node);
        sockets_put(root, path, text);
    }
    set.bits[1023 / 64] = UINT64_C(1) << 1023 % 64;
    gy_net_affinity_read(root, &set, &near);
    T_CHECK_MSG(near.node == 1, "processor 1023 is of node %d", (int)near.node);
    snprintf(path, sizeof path, "rm -r %s", root);
    T_CHECK(system(path) == 0);
}

/* Eight processors on two sockets of two NUMA nodes each: nodes 0, 1, 8, 9, and a node of memory
 * alone. */
static void sockets_system(void)
{
    char root[] = "/tmp/gyre-sockets-XXXXXX", path[64], text[16];
    if (!T_CHECK(mkdtemp(root) != NULL))
        return;
    static const char *const node[][2] = {{"0", "0-1\n"}, {"1", "2-3\n"}, {"8", "4,6\n"}, {"9", "5,7\n"}, {"250", "\n"}};
    for (size_t i = 0; i < GY_COUNT(node); i++) {
        snprintf(path, sizeof path, "node/node%s/cpulist", node[i][0]);
        sockets_put(root, path, node[i][1]);
    }
    for (int cpu = 0; cpu < 8; cpu++) {
        snprintf(path, sizeof path, "cpu/cpu%d/topology/physical_package_id", cpu);
        snprintf(text, sizeof text, "%d\n", cpu / 4);
        sockets_put(root, path, text);
    }
    struct gy_net_affinity near = sockets_near(root, 0x03);
    T_CHECK(near.node == 0 && near.socket == 0);
    near = sockets_near(root, 0x80);
    T_CHECK(near.node == 9 && near.socket == 1);
    near = sockets_near(root, 0xf0);
    T_CHECK(near.node == -1 && near.socket == 1);
    near = sockets_near(root, 0xff);
    T_CHECK(near.node == -1 && near.socket == -1);
    near = sockets_near("/no/such/folder", 0xff);
    T_CHECK(near.node == -1 && near.socket == -1);
    sockets_shares(root);
    near = sockets_near(root, 0x1ff); /* a processor of which the system says nothing */
    T_CHECK(near.socket == -1);
    snprintf(path, sizeof path, "rm -r %s", root);
    T_CHECK(system(path) == 0);
}

static void sockets_topology(void)
{
    static const struct gy_net_affinity two[] = {{0, 0}, {8, 1}, {-1, 0}, {9, 1}, {1, 0}}, nodes[] = {{0, 0}, {1, 0}, {0, 0}, {1, 0}, {2, 0}},
                                    free_one[] = {{0, 0}, {8, 1}, {-1, -1}, {9, 1}, {1, 0}};
    static const struct {
        const struct gy_net_affinity *near;
        const char *text;
        int groups, group[5];
    } rows[] = {
        {two, NULL, 2, {0, 1, 0, 1, 0}}, {nodes, NULL, 3, {0, 1, 0, 1, 2}}, {free_one, NULL, 1, {0, 0, 0, 0, 0}},
        {two, "sockets 3 2", 2, {0, 0, 0, 1, 1}}, {two, "sockets 5 # one group\n", 1, {0, 0, 0, 0, 0}},
    };
    static const char *const bad[][2] = {{"sockets 2 2", "4 ranks together; host 0 has 5"}, {"sockets 5 x", "numbers of ranks"}, {"sockets", "0 ranks"}};
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_identity all[5];
    struct gy_net_topology t;
    struct gy_error err = {0};
    int size[GY_NET_GROUPS];
    memset(all, 0, sizeof all);
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        for (int r = 0; r < 5; r++)
            all[r].near = rows[i].near[r];
        if (!T_CHECK(gy_net_topology_open(&t, all, 5, rows[i].text, "sockets.txt", &alloc, &err) == GY_OK))
            continue;
        T_CHECK_MSG(t.groups[0] == rows[i].groups && memcmp(t.group, rows[i].group, sizeof rows[i].group) == 0, "row %zu: %d groups", i, t.groups[0]);
        if (i == 0)
            T_CHECK(gy_net_topology_group(&t, 4, size) == 2 && size[0] == 3 && size[1] == 2 && gy_net_topology_group(&t, 3, size) == 1);
        gy_net_topology_close(&t);
    }
    for (size_t i = 0; i < GY_COUNT(bad); i++)
        T_CHECK_MSG(gy_net_topology_open(&t, all, 5, bad[i][0], "bad.txt", &alloc, &err) == GY_E_FORMAT && strstr(err.text, bad[i][1]),
                    "\"%s\": %s", bad[i][0], err.text);
}

int main(void)
{
    static const struct sockets_case cases[] = {
        {{2, 2}, 2}, {{3, 2}, 2}, {{1, 4}, 2}, {{4, 4, 4}, 3}, {{2, 1, 3}, 3}, {{1, 1, 1, 1}, 4}, {{5, 3, 4}, 3}, {{3}, 1},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++)
        for (int shared = 0; shared < 2; shared++)
            sockets_run(&cases[i], shared, NULL);
    sockets_order();
    sockets_system();
    sockets_interleaved();
    sockets_topology();
    T_END("t_net_host_sockets");
}
