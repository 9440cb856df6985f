/* SPDX-License-Identifier: MIT */
/* Allreduce in shared memory among processes: right sums, the same bits on every rank, sizes around slots, slices and strips, memory of
 * one's own, sums that are begun and finished later, a rank that never comes. Once more among threads, for who looks for races. */
#include <pthread.h>
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

/* 1: the sum of all ranks' values of that round stands at data. */
static int node_is_sum(const float *data, int ranks, int64_t count, uint64_t round)
{
    float v[GY_NET_NODE_RANKS];
    int right = 1;
    for (int64_t i = 0; i < count; i++) {
        for (int r = 0; r < ranks; r++)
            v[r] = node_value(r, i, round);
        const float sum = node_tree(v, ranks);
        right &= memcmp(&sum, &data[i], sizeof(sum)) == 0;
    }
    return right;
}

/* Sums of three buffers are begun one after the other; ranks look at other moments, and wait in another order. */
static int node_begun_case(struct gy_net_node *node, int rank, int ranks, uint64_t round)
{
    static const int64_t at[] = {0, 16, 5024}, length[] = {7, 5001, 20001};
    float *const memory = gy_net_node_memory(node);
    struct gy_error err = {0};
    int64_t ticket[3];
    int right = 1;
    for (int k = 0; k < 3 && right; k++) {
        for (int64_t i = 0; i < length[k]; i++)
            memory[at[k] + i] = node_value(rank, i, round + (uint64_t)k);
        right &= gy_net_node_start(node, memory + at[k], length[k], &ticket[k], &err) == GY_OK;
        for (int look = 0; look < (rank * 7 + k + (int)round) % 3; look++)
            gy_net_node_test(node, ticket[0], &err);
    }
    for (int k = 0; k < 3 && right; k++) {
        const int which = (k + rank) % 3;
        right &= gy_net_node_wait(node, ticket[which], &err) == GY_OK && gy_net_node_test(node, ticket[which], &err) == 1;
        right &= node_is_sum(memory + at[which], ranks, length[which], round + (uint64_t)which);
    }
    return right;
}

/* More sums than a rank may have open, without a look in between. */
static int node_many_case(struct gy_net_node *node, int rank, int ranks)
{
    float *const memory = gy_net_node_memory(node);
    struct gy_error err = {0};
    int64_t ticket = 0;
    int right = 1;
    for (int k = 0; k < GY_NET_NODE_OPEN + 40; k++) {
        memory[16 * k] = (float)(rank + 1) * (float)(k + 1);
        right &= gy_net_node_start(node, memory + 16 * k, 1, &ticket, &err) == GY_OK;
    }
    right &= gy_net_node_wait(node, ticket, &err) == GY_OK;
    for (int k = 0; k < GY_NET_NODE_OPEN + 40; k++)
        right &= memory[16 * k] == (float)(ranks * (ranks + 1) / 2) * (float)(k + 1);
    return right;
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
    for (uint64_t round = 0; right && round < 3; round++)
        right &= node_begun_case(node, rank, ranks, 100 + 3 * round);
    right = right && node_many_case(node, rank, ranks);
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

struct node_thread {
    void *base;
    int rank, ranks, right;
};

static void *node_thread_run(void *arg)
{
    struct node_thread *t = arg;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_node *node;
    t->right = gy_net_node_open(&node, t->base, t->rank, t->ranks, NODE_MOST, NODE_WAIT, &alloc, &err) == GY_OK;
    for (uint64_t round = 0; t->right && round < 4; round++)
        t->right &= node_begun_case(node, t->rank, t->ranks, 100 + 3 * round);
    t->right = t->right && node_many_case(node, t->rank, t->ranks);
    gy_net_node_close(node);
    return NULL;
}

static void node_threads(int ranks)
{
    struct node_thread all[4];
    pthread_t thread[4];
    void *base = node_map(ranks, NODE_MOST);
    if (!T_CHECK(base != NULL))
        return;
    for (int r = 0; r < ranks; r++) {
        all[r] = (struct node_thread){base, r, ranks, 0};
        T_CHECK(pthread_create(&thread[r], NULL, node_thread_run, &all[r]) == 0);
    }
    for (int r = 0; r < ranks; r++) {
        pthread_join(thread[r], NULL);
        T_CHECK_MSG(all[r].right, "thread %d of %d", r, ranks);
    }
    munmap(base, gy_net_node_bytes(ranks, NODE_MOST));
}

static void node_missing(void)
{
    int64_t ticket;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_node *node = NULL;
    void *base = node_map(3, 4096);
    if (!T_CHECK(base != NULL && gy_net_node_open(&node, base, 1, 3, 4096, 50000000, &alloc, &err) == GY_OK))
        return;
    T_CHECK(gy_net_node_allreduce(node, gy_net_node_memory(node), 4, &err) == GY_E_PEER);
    T_CHECK_MSG(strstr(err.text, "rank 2") != NULL, "%s", err.text);
    T_CHECK(gy_net_node_allreduce(node, gy_net_node_memory(node), 1025, &err) == GY_E_ARG);
    T_CHECK(gy_net_node_start(node, gy_net_node_memory(node), 1025, &ticket, &err) == GY_E_ARG);
    T_CHECK(gy_net_node_start(node, gy_net_node_memory(node), 4, &ticket, &err) == GY_OK && ticket == 0);
    T_CHECK(gy_net_node_test(node, ticket, &err) == 0 && gy_net_node_wait(node, ticket, &err) == GY_E_PEER);
    T_CHECK_MSG(strstr(err.text, "rank 0") != NULL, "%s", err.text);
    gy_net_node_close(node);
    T_CHECK(gy_net_node_open(&node, base, 0, 65, 4096, 1, &alloc, &err) == GY_E_ARG);
}

int main(void)
{
    const int ranks[] = {1, 2, 3, 4, 5, 8};
    for (size_t k = 0; k < GY_COUNT(ranks); k++)
        node_processes(ranks[k]);
    node_threads(2);
    node_threads(4);
    node_missing();
    T_END("t_net_node");
}
