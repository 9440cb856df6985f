/* SPDX-License-Identifier: MIT */
/* t_net_exec.c: schedules run with numbers, on ranks of one process whose messages arrive in
 * adversarial order. Sums are right, and all ranks have the same bits. Algorithms of one order
 * certificate have the same bits. Buffers may be empty or smaller than the number of ranks. A dead
 * rank ends the others with its number. Also with a thread a rank, for the thread checker. */
#include <pthread.h>

#include "engine/base/rng.h"
#include "net/schedule/exec.h"
#include "tests/net_algorithms.h"
#include "tests/net_local.h"
#include "tests/t.h"

#define EXEC_RANKS 16
#define EXEC_COUNT 5000
#define EXEC_ORDERS 32

struct exec_world {
    struct gy_alloc alloc;
    struct gy_net_schedule s;
    struct gy_net_proof proof; /* of s */
    struct gy_net_local *local;
    struct gy_net_exec *exec[EXEC_RANKS];
    float data[EXEC_RANKS][EXEC_COUNT];
    int64_t count;
    int status[EXEC_RANKS];
    struct gy_error err[EXEC_RANKS];
    int half;         /* floats travel as bf16 */
    /* the rank that is killed, and at which call; dies 0: none. After that, ranks that fail leave,
     * too. */
    int victim, dies;
};

static struct exec_world world; /* one test program, one world at a time */

static int exec_open(const char *algorithm, const struct gy_net_shape *shape, uint64_t seed, int delay, int64_t count)
{
    struct gy_error err = {0};
    world.alloc = gy_alloc_default();
    world.count = count;
    int status = gy_net_build(&world.s, algorithm, shape, GY_NET_ALLREDUCE, &world.alloc, &err);
    status = status == GY_OK ? gy_net_verify(&world.s, &world.proof, &err) : status;
    status = status == GY_OK ? gy_net_local_open(&world.local, shape->ranks, seed, delay, &world.alloc, &err) : status;
    for (int r = 0; r < shape->ranks && status == GY_OK; r++) {
        struct gy_net_end end;
        gy_net_local_end(world.local, r, &end);
        end.half = world.half;
        status = gy_net_exec_open(&world.exec[r], &world.s, &end, EXEC_COUNT, 3, NULL, &world.alloc, &err);
        for (int64_t i = 0; i < count; i++)
            world.data[r][i] = gy_rng_uniform(11, 1, (uint64_t)r, (uint64_t)i) - 0.5f;
    }
    T_CHECK_MSG(status == GY_OK, "%s of %d: %s", algorithm, shape->ranks, err.text);
    return status == GY_OK;
}

static void exec_shut(int ranks)
{
    for (int r = 0; r < ranks; r++) {
        gy_net_exec_close(world.exec[r]);
        world.exec[r] = NULL;
    }
    gy_net_local_close(world.local);
    world.local = NULL;
    gy_net_close_schedule(&world.s);
}

/* One thread drives all ranks, in a seeded order. Returns how many of them did not end. */
static int exec_drive(int ranks, uint64_t seed)
{
    int done[EXEC_RANKS] = {0}, left = ranks;
    for (int r = 0; r < ranks; r++)
        world.status[r] = gy_net_exec_start(world.exec[r], world.data[r], world.count, &world.err[r]);
    for (int call = 0; call < 2000000 && left > 0; call++) {
        uint32_t words[4];
        gy_rng_words(seed, 2, (uint64_t)call, 0, words);
        const int r = (int)(words[0] % (uint32_t)ranks);
        if (world.dies > 0 && call == world.dies - 1)
            gy_net_local_kill(world.local, world.victim);
        if (done[r])
            continue;
        world.status[r] = world.status[r] < 0 ? world.status[r] : gy_net_exec_test(world.exec[r], &world.err[r]);
        done[r] = world.status[r] != 0;
        left -= done[r];
        if (world.status[r] < 0 && world.dies > 0)
            gy_net_local_kill(world.local, r);
    }
    return left;
}

/* With bf16 on the way, sums are within what this many roundings may lose, and all are bf16. A
 * rounding to nearest is off by 2^-9 of a sum of k values, which is at most k / 2. Such roundings
 * do not pull sums to one side: over many they stay within a quarter of a rounding. */
static int exec_right(int ranks)
{
    const double bound = world.half ? ranks * (ranks + 2) / 2048.0 : 1e-5;
    double pull = 0, size = 0;
    int right = 1;
    for (int64_t i = 0; i < world.count; i++) {
        double sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += (double)(gy_rng_uniform(11, 1, (uint64_t)r, (uint64_t)i) - 0.5f);
        right &= fabs(sum - (double)world.data[0][i]) < bound;
        pull += ((double)world.data[0][i] - sum) * (sum < 0 ? -1 : 1);
        size += fabs(sum);
        uint32_t bits;
        memcpy(&bits, &world.data[0][i], sizeof bits);
        right &= !world.half || (bits & 0xffff) == 0;
        for (int r = 1; r < ranks; r++)
            right &= memcmp(&world.data[0][i], &world.data[r][i], sizeof(float)) == 0;
    }
    return right && (world.count < 1000 || fabs(pull) <= size / 2048);
}

static void exec_case(const char *algorithm, int ranks, int lanes, int64_t count, uint64_t seed)
{
    const int hosts[] = {1, 3, ranks - 4};
    struct gy_net_shape shape = { .ranks = ranks, .lanes = lanes };
    if (ranks % 2 == 0)
        shape = (struct gy_net_shape){ .ranks = ranks, .lanes = lanes, .dim_count = 2, .dims = {2, ranks / 2} };
    if (ranks > 4) { /* an algorithm takes the hosts, the dimensions or neither */
        shape.host_count = 3;
        shape.hosts = hosts;
    }
    if (!exec_open(algorithm, &shape, seed, (int)(seed % 7), count))
        return;
    const int left = exec_drive(ranks, seed);
    T_CHECK_MSG(left == 0, "%s of %d ranks, %d lanes, %" PRId64 " floats: %d ranks do not end", algorithm, ranks, lanes, count, left);
    T_CHECK_MSG(exec_right(ranks), "%s of %d ranks, %d lanes, %" PRId64 " floats: wrong sums", algorithm, ranks, lanes, count);
    exec_shut(ranks);
}

static const int64_t exec_counts[] = {0, 1, 17, 100, EXEC_COUNT};

/* Every number of ranks with every size of buffers. */
static void exec_sizes(const char *algorithm, int least, size_t seed)
{
    for (int ranks = least; ranks <= EXEC_RANKS; ranks++)
        for (size_t k = 0; k < GY_COUNT(exec_counts); k++)
            exec_case(algorithm, ranks, 1 + (ranks + (int)k) % 3, exec_counts[k], (uint64_t)ranks + seed + k);
}

/* The order of sums that one algorithm was the first to have, and its bits. */
struct exec_order {
    const char *name;
    unsigned char order[sizeof world.proof.order];
    float bits[EXEC_COUNT];
    int sharers; /* other algorithms of this order */
};

/* Compares the world's sums with those of the same order. A new order is added, with these sums. */
static void exec_compare(struct exec_order *seen, int *count, const char *algorithm)
{
    int k = 0;
    while (k < *count && memcmp(seen[k].order, world.proof.order, sizeof seen[k].order) != 0)
        k++;
    if (k < *count) {
        seen[k].sharers++;
        T_CHECK_MSG(memcmp(seen[k].bits, world.data[0], sizeof seen[k].bits) == 0, "%s has other bits than %s", algorithm, seen[k].name);
        return;
    }
    if (!T_CHECK(k < EXEC_ORDERS))
        return;
    seen[k].name = algorithm;
    memcpy(seen[k].order, world.proof.order, sizeof seen[k].order);
    memcpy(seen[k].bits, world.data[0], sizeof seen[k].bits);
    *count = k + 1;
}

/* The proofs say which algorithms share an order. At least three do, in different numbers of
 * lanes. */
static void exec_same_bits(void)
{
    static struct exec_order seen[EXEC_ORDERS];
    int count = 0, sharers = 0;
    for (int a = 0; net_allreduce(a); a++) {
        const struct gy_net_shape shape = { .ranks = 16, .lanes = 1 + a % 3, .dim_count = 2, .dims = {4, 4} };
        if (!exec_open(net_allreduce(a), &shape, (uint64_t)a, 3, EXEC_COUNT))
            return;
        T_CHECK(exec_drive(16, (uint64_t)a) == 0);
        exec_compare(seen, &count, net_allreduce(a));
        exec_shut(16);
    }
    for (int k = 0; k < count; k++)
        sharers = seen[k].sharers > sharers ? seen[k].sharers : sharers;
    T_CHECK_MSG(count > 1 && sharers >= 2, "%d orders, at most %d algorithms share the order of another", count, sharers);
}

/* Its error says that this other rank is not there any more. */
static int exec_misses(int rank, int other)
{
    char lost[24], gone[24];
    snprintf(lost, sizeof lost, "rank %d was lost", other);
    snprintf(gone, sizeof gone, "rank %d is gone", other);
    return strstr(world.err[rank].text, lost) || strstr(world.err[rank].text, gone);
}

/* A rank dies amid a sum. The ranks that would send to it or receive from it name it; they leave,
 * so that all end. */
static void exec_dead(int call)
{
    enum { RANKS = 8, VICTIM = 5 };
    const struct gy_net_shape shape = { .ranks = RANKS, .lanes = 1 };
    if (!exec_open("ring", &shape, 1, 2, 1000))
        return;
    world.victim = VICTIM;
    world.dies = call;
    T_CHECK(exec_drive(RANKS, 1) == 0);
    for (int r = 0; r < RANKS; r++) {
        const int before = (r + RANKS - 1) % RANKS, behind = (r + 1) % RANKS;
        const int named = before == VICTIM || behind == VICTIM ? exec_misses(r, VICTIM) : exec_misses(r, before) || exec_misses(r, behind);
        T_CHECK_MSG(world.status[r] == GY_E_PEER && named, "killed at %d, rank %d: %d, %s", call, r, world.status[r], world.err[r].text);
    }
    world.dies = 0;
    exec_shut(RANKS);
}

static void *exec_thread(void *arg)
{
    const int r = (int)(intptr_t)arg;
    world.status[r] = gy_net_exec_start(world.exec[r], world.data[r], world.count, &world.err[r]);
    while (world.status[r] == 0)
        world.status[r] = gy_net_exec_test(world.exec[r], &world.err[r]);
    return NULL;
}

static void exec_threads(const char *algorithm)
{
    const struct gy_net_shape shape = { .ranks = 4, .lanes = 2, .dim_count = 2, .dims = {2, 2} };
    pthread_t threads[4];
    if (!exec_open(algorithm, &shape, 9, 1, EXEC_COUNT))
        return;
    for (int r = 0; r < 4; r++)
        T_CHECK(pthread_create(&threads[r], NULL, exec_thread, (void *)(intptr_t)r) == 0);
    for (int r = 0; r < 4; r++)
        pthread_join(threads[r], NULL);
    T_CHECK_MSG(exec_right(4), "%s on threads: wrong sums", algorithm);
    exec_shut(4);
}

int main(void)
{
    for (int a = 0; net_allreduce(a); a++) {
        exec_sizes(net_allreduce(a), 1, (size_t)a);
        for (uint64_t seed = 0; seed < 5; seed++)
            exec_case(net_allreduce(a), 6, 2, EXEC_COUNT, seed);
        exec_threads(net_allreduce(a));
    }
    world.half = 1;
    for (int a = 0; net_allreduce(a); a++) {
        exec_sizes(net_allreduce(a), 2, (size_t)a);
        exec_threads(net_allreduce(a));
    }
    world.half = 0;
    exec_same_bits();
    for (int call = 1; call <= 100; call += 11)
        exec_dead(call);
    T_END("t_net_exec");
}
