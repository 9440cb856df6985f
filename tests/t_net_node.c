/* SPDX-License-Identifier: MIT */
/* Allreduce in shared memory among processes: right sums, the same bits on every rank, sizes around slots, slices and strips, memory of
 * one's own, a rank that never comes. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../engine/base/rng.h"
#include "../net/node.h"
#include "t.h"

#define NODE_MOST (1 << 20)
#define NODE_WAIT 20000000000LL

static float node_value(int rank, int64_t i, uint64_t round)
{
    return gy_rng_uniform(3, 4, round * 100 + (uint64_t)rank, (uint64_t)i) - 0.5f;
}

static float node_tree(const float *v, int count)
{
    int left = 1;
    if (count == 1)
        return v[0];
    while (left * 2 < count)
        left *= 2;
    return node_tree(v, left) + node_tree(v + left, count - left);
}

/* One size; 1: right to the bit. */
static int node_case(struct gy_net_node *node, int rank, int ranks, int64_t count, int outside, uint64_t round)
{
    struct gy_error err = {0};
    static float own[NODE_MOST / 4];
    float *data = outside ? own : (float *)gy_net_node_memory(node), v[GY_NET_NODE_RANKS];
    int right = 1;
    for (int64_t i = 0; i < count; i++)
        data[i] = node_value(rank, i, round);
    if ((outside ? gy_net_node_allreduce_outside : gy_net_node_allreduce)(node, data, count, &err) != GY_OK) {
        printf("    %s\n", err.text);
        return 0;
    }
    for (int64_t i = 0; i < count; i++) {
        for (int r = 0; r < ranks; r++)
            v[r] = node_value(r, i, round);
        const float sum = node_tree(v, ranks);
        right &= memcmp(&sum, &data[i], sizeof(sum)) == 0;
    }
    return right && gy_net_node_barrier(node, &err) == GY_OK;
}

static int node_child(void *base, int rank, int ranks)
{
    const int64_t counts[] = {0, 1, 2, 1023, 1024, 1025, 4096, 2048 * 3 + 17, 50001, NODE_MOST / 4};
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_node *node;
    int right = gy_net_node_open(&node, base, rank, ranks, NODE_MOST, NODE_WAIT, &alloc, &err) == GY_OK;
    for (size_t k = 0; right && k < 2 * GY_COUNT(counts); k++)
        right &= node_case(node, rank, ranks, counts[k / 2], (int)(k % 2), k);
    gy_net_node_close(node);
    return right;
}

static void *node_map(int ranks, size_t most)
{
    const size_t bytes = gy_net_node_bytes(ranks, most);
    FILE *file = tmpfile();
    if (file == NULL || ftruncate(fileno(file), (off_t)bytes) != 0)
        return NULL;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    fclose(file);
    return base == MAP_FAILED ? NULL : base;
}

static void node_processes(int ranks)
{
    void *base = node_map(ranks, NODE_MOST);
    if (!T_CHECK(base != NULL))
        return;
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0)
            _exit(node_child(base, r, ranks) ? 0 : 1);
    for (int r = 0; r < ranks; r++) {
        int status = -1;
        wait(&status);
        T_CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a rank of %d: status %d", ranks, status);
    }
    munmap(base, gy_net_node_bytes(ranks, NODE_MOST));
}

static void node_missing(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_node *node = NULL;
    void *base = node_map(3, 4096);
    if (!T_CHECK(base != NULL && gy_net_node_open(&node, base, 1, 3, 4096, 50000000, &alloc, &err) == GY_OK))
        return;
    T_CHECK(gy_net_node_allreduce(node, gy_net_node_memory(node), 4, &err) == GY_E_PEER);
    T_CHECK_MSG(strstr(err.text, "rank 2") != NULL, "%s", err.text);
    T_CHECK(gy_net_node_allreduce(node, gy_net_node_memory(node), 1025, &err) == GY_E_ARG);
    gy_net_node_close(node);
    T_CHECK(gy_net_node_open(&node, base, 0, 65, 4096, 1, &alloc, &err) == GY_E_ARG);
}

int main(void)
{
    const int ranks[] = {1, 2, 3, 4, 5, 8};
    for (size_t k = 0; k < GY_COUNT(ranks); k++)
        node_processes(ranks[k]);
    node_missing();
    T_END("t_net_node");
}
