/* SPDX-License-Identifier: MIT */
/* t_net_host_memory.c: allreduce in shared memory among processes. Sums are right, with the same
 * bits on every rank. Sizes lie around slots, slices and strips; memory may be one's own; sums may
 * be begun and finished later; a rank may never come. The same goes into one result of all ranks,
 * which a slow rank still reads when the others begin the next sum there. Once more among threads,
 * for a race detector. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/cpu.h"
#include "engine/base/rng.h"
#include "net/schedule/add.h"
#include "net/comm/host_memory.h"
#include "tests/t.h"

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
static int node_case(struct gy_net_host *node, int rank, int ranks, int64_t count, int outside, uint64_t round)
{
    struct gy_error err = {0};
    static float own[NODE_MOST / 4];
    float *data = outside ? own : (float *)gy_net_host_memory(node), v[GY_NET_HOST_RANKS];
    const float *const sums = outside ? own : (const float *)gy_net_host_sums(node);
    int right = 1;
    for (int64_t i = 0; i < count; i++)
        data[i] = node_value(rank, i, round);
    if ((outside ? gy_net_host_allreduce_outside : gy_net_host_allreduce)(node, data, count, &err) != GY_OK) {
        printf("    %s\n", err.text);
        return 0;
    }
    for (int64_t i = 0; i < count; i++) {
        for (int r = 0; r < ranks; r++)
            v[r] = node_value(r, i, round);
        const float sum = node_tree(v, ranks);
        right &= memcmp(&sum, &sums[i], sizeof sum) == 0;
        right &= sums == data || memcmp(&v[rank], &data[i], sizeof sum) == 0;
    }
    return right && (sums != data || gy_net_host_barrier(node, &err) == GY_OK);
}

/* 1: the sum of all ranks' values of that round stands at data. */
static int node_is_sum(const float *data, int ranks, int64_t count, uint64_t round)
{
    float v[GY_NET_HOST_RANKS];
    int right = 1;
    for (int64_t i = 0; i < count; i++) {
        for (int r = 0; r < ranks; r++)
            v[r] = node_value(r, i, round);
        const float sum = node_tree(v, ranks);
        right &= memcmp(&sum, &data[i], sizeof sum) == 0;
    }
    return right;
}

/* Starts sums of three buffers one after the other. Ranks test at different moments, and wait in
 * another order. */
static int node_begun_case(struct gy_net_host *node, int rank, int ranks, uint64_t round)
{
    static const int64_t at[] = {0, 16, 5024}, length[] = {7, 5001, 20001};
    float *const memory = gy_net_host_memory(node), *const sums = gy_net_host_sums(node);
    struct gy_error err = {0};
    int64_t ticket[3];
    int right = 1;
    for (int k = 0; k < 3 && right; k++) {
        for (int64_t i = 0; i < length[k]; i++)
            memory[at[k] + i] = node_value(rank, i, round + (uint64_t)k);
        right &= gy_net_host_start(node, memory + at[k], length[k], &ticket[k], &err) == GY_OK;
        for (int look = 0; look < (rank * 7 + k + (int)round) % 3; look++)
            gy_net_host_test(node, ticket[0], &err);
    }
    for (int k = 0; k < 3 && right; k++) {
        const int which = (k + rank) % 3;
        right &= gy_net_host_wait(node, ticket[which], &err) == GY_OK && gy_net_host_test(node, ticket[which], &err) == 1;
        right &= node_is_sum(sums + at[which], ranks, length[which], round + (uint64_t)which);
    }
    return right;
}

/* More sums than a rank may have open, without a look in between. */
static int node_many_case(struct gy_net_host *node, int rank, int ranks)
{
    float *const memory = gy_net_host_memory(node), *const sums = gy_net_host_sums(node);
    struct gy_error err = {0};
    int64_t ticket = 0;
    int right = 1;
    for (int k = 0; k < GY_NET_HOST_OPEN + 40; k++) {
        memory[16 * k] = (float)(rank + 1) * (float)(k + 1);
        right &= gy_net_host_start(node, memory + 16 * k, 1, &ticket, &err) == GY_OK;
    }
    right &= gy_net_host_wait(node, ticket, &err) == GY_OK;
    for (int k = 0; k < GY_NET_HOST_OPEN + 40; k++)
        right &= sums[16 * k] == (float)(ranks * (ranks + 1) / 2) * (float)(k + 1);
    return right;
}

static void node_fill(float *data, int rank, int round, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)(rank + 1) * (float)(round + i % 13);
}

static int node_is_filled(const float *sums, int ranks, int round, int64_t count)
{
    int right = 1;
    for (int64_t i = 0; i < count; i++)
        right &= sums[i] == (float)(ranks * (ranks + 1) / 2) * (float)(round + i % 13);
    return right;
}

/* Sums again and again at the same place. Data is filled anew as soon as its sum is there. One
 * rank, each in turn, reads the sum late. */
static int node_again_case(struct gy_net_host *node, int rank, int ranks, int64_t count, int rounds)
{
    const struct timespec moment = {0, 200000};
    float *const memory = gy_net_host_memory(node), *const sums = gy_net_host_sums(node);
    struct gy_error err = {0};
    int64_t ticket;
    int right = 1;
    for (int round = 0; round < rounds && right; round++) {
        if (round == 0 || sums == memory)
            node_fill(memory, rank, round, count);
        if (round % 3 == 0)
            right &= gy_net_host_allreduce(node, memory, count, &err) == GY_OK;
        else
            right &= gy_net_host_start(node, memory, count, &ticket, &err) == GY_OK && gy_net_host_wait(node, ticket, &err) == GY_OK;
        if (sums != memory)
            node_fill(memory, rank, round + 1, count);
        if (round % ranks == rank)
            nanosleep(&moment, NULL);
        right &= node_is_filled(sums, ranks, round, count);
    }
    return right;
}

/* Several sums at a time; then one place many times, with a few floats and with many. */
static int node_cases(struct gy_net_host *node, int rank, int ranks, int rounds)
{
    int right = 1;
    for (int round = 0; right && round < rounds; round++)
        right &= node_begun_case(node, rank, ranks, 100 + 3 * (uint64_t)round);
    right = right && node_many_case(node, rank, ranks);
    right = right && node_again_case(node, rank, ranks, 5, 60);
    return right && node_again_case(node, rank, ranks, 5001, 60);
}

static int node_child(void *base, int rank, int ranks, int shared)
{
    const int64_t counts[] = {0, 1, 2, 1023, 1024, 1025, 4096, 2048 * 3 + 17, 50001, NODE_MOST / 4};
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_host *node;
    int right = gy_net_host_open(&node, base, rank, ranks, NODE_MOST, NODE_WAIT, &alloc, &err) == GY_OK;
    if (right && shared)
        gy_net_host_share(node);
    right = right && (gy_net_host_sums(node) != gy_net_host_memory(node)) == (shared && ranks > 1);
    for (size_t k = 0; right && k < 2 * GY_COUNT(counts); k++)
        right &= node_case(node, rank, ranks, counts[k / 2], (int)(k % 2), k);
    right = right && node_cases(node, rank, ranks, 3);
    gy_net_host_close(node);
    return right;
}

static void *node_map(int ranks, size_t most)
{
    const size_t bytes = gy_net_host_bytes(ranks, most, 1);
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), (off_t)bytes) != 0)
        return NULL;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    fclose(file);
    return base == MAP_FAILED ? NULL : base;
}

static void node_processes(int ranks, int shared)
{
    void *base = node_map(ranks, NODE_MOST);
    if (!T_CHECK(base != NULL))
        return;
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0)
            _exit(node_child(base, r, ranks, shared) ? 0 : 1);
    for (int r = 0; r < ranks; r++) {
        int status = -1;
        wait(&status);
        T_CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a rank of %d: status %d", ranks, status);
    }
    munmap(base, gy_net_host_bytes(ranks, NODE_MOST, 1));
}

struct node_thread {
    void *base;
    int rank, ranks, shared, right;
};

static void *node_thread_run(void *arg)
{
    struct node_thread *t = arg;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_host *node;
    t->right = gy_net_host_open(&node, t->base, t->rank, t->ranks, NODE_MOST, NODE_WAIT, &alloc, &err) == GY_OK;
    if (t->right && t->shared)
        gy_net_host_share(node);
    t->right = t->right && node_cases(node, t->rank, t->ranks, 4);
    gy_net_host_close(node);
    return NULL;
}

static void node_threads(int ranks, int shared)
{
    struct node_thread all[7];
    pthread_t thread[7];
    void *base = node_map(ranks, NODE_MOST);
    if (!T_CHECK(base != NULL))
        return;
    for (int r = 0; r < ranks; r++) {
        all[r] = (struct node_thread){base, r, ranks, shared, 0};
        T_CHECK(pthread_create(&thread[r], NULL, node_thread_run, &all[r]) == 0);
    }
    for (int r = 0; r < ranks; r++) {
        pthread_join(thread[r], NULL);
        T_CHECK_MSG(all[r].right, "thread %d of %d, shared %d", r, ranks, shared);
    }
    munmap(base, gy_net_host_bytes(ranks, NODE_MOST, 1));
}

/* More than the last cache holds of two ranks and their sum, so that stores bypass it. Huge caches
 * count as 128 MiB. */
static int64_t node_far_count(void) { return gy_min64((int64_t)gy_cpu_cache_bytes(3), 1 << 27) / 3 / (int64_t)sizeof(float) + 5003; }

static int node_far_child(void *base, int rank, int64_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_host *node;
    if (gy_net_host_open(&node, base, rank, 2, (size_t)count * sizeof(float), NODE_WAIT, &alloc, &err) != GY_OK)
        return 0;
    gy_net_host_share(node);
    const int right = node_again_case(node, rank, 2, count, 5);
    gy_net_host_close(node);
    return right;
}

static void node_far(void)
{
    const int64_t count = node_far_count();
    const size_t most = (size_t)count * sizeof(float);
    int status = -1;
    void *base = node_map(2, most);
    if (!T_CHECK(base != NULL))
        return;
    fflush(stdout);
    if (fork() == 0)
        _exit(node_far_child(base, 1, count) ? 0 : 1);
    T_CHECK(node_far_child(base, 0, count));
    wait(&status);
    T_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    munmap(base, gy_net_host_bytes(2, most, 1));
}

/* At every place in a cache line, and not a float beside. */
static void node_past(void)
{
    static float a[200], b[200], to[220];
    for (int i = 0; i < 200; i++) {
        a[i] = node_value(0, i, 7);
        b[i] = node_value(1, i, 7);
    }
    for (int at = 1; at < 18; at++)
        for (int n = 0; n < 200; n += 1 + n / 3) {
            int right = 1;
            for (int i = 0; i < 220; i++)
                to[i] = -9;
            gy_net_sum2_past(to + at, a, b, n);
            gy_net_past_end();
            for (int i = 0; i < 220; i++)
                right &= to[i] == (i < at || i >= at + n ? -9 : a[i - at] + b[i - at]);
            T_CHECK_MSG(right, "%d floats at %d", n, at);
        }
}

/* Each rank clears its own line and buffers, and its part of the result. All ranks together clear
 * all. */
static void node_cleared(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_host *node[3] = {NULL};
    const size_t most = 4096 + 52;
    void *base = node_map(3, most);
    if (!T_CHECK(base != NULL))
        return;
    memset(base, 1, gy_net_host_bytes(3, most, 1));
    for (int r = 0; r < 3; r++) {
        if (!T_CHECK(gy_net_host_open(&node[r], base, r, 3, most, NODE_WAIT, &alloc, &err) == GY_OK))
            return;
        gy_net_host_share(node[r]);
        gy_net_host_clear(node[r]);
    }
    int right = gy_net_host_sums(node[0]) == gy_net_host_sums(node[2]);
    for (size_t i = 0; i < most; i++)
        right &= ((unsigned char *)gy_net_host_sums(node[0]))[i] == 0 && ((unsigned char *)gy_net_host_memory(node[1]))[i] == 0;
    T_CHECK(right);
    for (int r = 0; r < 3; r++)
        gy_net_host_close(node[r]);
    munmap(base, gy_net_host_bytes(3, most, 1));
}

static void node_missing(void)
{
    int64_t ticket;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_host *node = NULL;
    void *base = node_map(3, 4096);
    if (!T_CHECK(base && gy_net_host_open(&node, base, 1, 3, 4096, 50000000, &alloc, &err) == GY_OK))
        return;
    T_CHECK(gy_net_host_allreduce(node, gy_net_host_memory(node), 4, &err) == GY_E_PEER);
    T_CHECK_MSG(strstr(err.text, "rank 2") != NULL, "%s", err.text);
    T_CHECK(gy_net_host_allreduce(node, gy_net_host_memory(node), 1025, &err) == GY_E_ARG);
    T_CHECK(gy_net_host_start(node, gy_net_host_memory(node), 1025, &ticket, &err) == GY_E_ARG);
    T_CHECK(gy_net_host_start(node, gy_net_host_memory(node), 4, &ticket, &err) == GY_OK && ticket == 0);
    T_CHECK(gy_net_host_test(node, ticket, &err) == 0 && gy_net_host_wait(node, ticket, &err) == GY_E_PEER);
    T_CHECK_MSG(strstr(err.text, "rank 0") != NULL, "%s", err.text);
    gy_net_host_close(node);
    T_CHECK(gy_net_host_open(&node, base, 0, 65, 4096, 1, &alloc, &err) == GY_E_ARG);
}

int main(void)
{
    const int ranks[] = {1, 2, 3, 4, 5, 8}, sharing[] = {1, 2, 3, 5, 7};
    for (size_t k = 0; k < GY_COUNT(ranks); k++)
        node_processes(ranks[k], 0);
    for (size_t k = 0; k < GY_COUNT(sharing); k++)
        node_processes(sharing[k], 1);
    node_threads(2, 0);
    node_threads(4, 0);
    for (size_t k = 0; k < GY_COUNT(sharing); k++)
        node_threads(sharing[k], 1);
    node_past();
    node_far();
    node_cleared();
    node_missing();
    T_END("t_net_host_memory");
}
