/* SPDX-License-Identifier: MIT */
/* thread.c: the pool runs one job at a time. One word, state, holds all that threads agree on: the
 * job's number, whether it is open, how many workers are in it. A worker joins by counting itself
 * in while the job is open. It takes tiles from a shared counter until none is left, then counts
 * itself out. The caller works likewise, closes the job when no tile is left, and waits only for
 * those who joined. A worker that wakes late finds the job closed and cannot delay it. The job's
 * fields change only while the job is closed and empty.
 *
 * A waiting thread first spins for a short time, because the next op usually comes within
 * microseconds, then sleeps on a condition variable. With more threads than processors none spins
 * or yields. On a busy machine a sleeper that is woken gets its turn at once. A thread that yielded
 * gets it after all others, when the job is over. */
#include "engine/base/thread.h"
#include "engine/base/clock.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define THREAD_SPIN_NS 60000
#define THREAD_MOST 4096
#define THREAD_OPEN ((uint64_t)1 << 31)   /* in state; above: job's number, below: workers in */
#define THREAD_JOINED (THREAD_OPEN - 1)

struct thread_worker {
    struct gy_pool *pool;
    pthread_t thread;
    int index;
    int processor; /* its own, -1: none */
    int seen_on;   /* atomic: where it last began a job */
};

struct gy_pool {
    struct gy_alloc alloc;
    struct thread_worker *workers;       /* [threads]; the first is the caller and has no thread */
    int threads, running, started, spin; /* running: threads to be started, and the caller */
    int placed, bound;                   /* threads have own processors; workers cannot leave */
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    int sleepers, caller_sleeps;         /* under the mutex */
    int stop;                            /* atomic */
    gy_tile_fn fn;
    void *job;
    int64_t tiles;
    char apart[GY_CACHE_LINE];
    uint64_t state;                      /* atomic */
    char apart_too[GY_CACHE_LINE];
    int64_t next;                  /* atomic: first tile that nobody took */
    char apart_again[GY_CACHE_LINE];
};

GY_INT int gy_thread_count_available(void)
{
    struct gy_pin_set allowed;
    const int count = gy_pin_allowed(&allowed);
    if (count > 0)
        return count;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < 65536 ? (int)online : 1;
}

static void thread_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("" ::: "memory");
#endif
}

static void thread_take_tiles(struct gy_pool *pool, int thread)
{
    for (;;) {
        const int64_t tile = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        if (tile >= pool->tiles)
            return;
        pool->fn(pool->job, tile, thread);
    }
}

static uint64_t thread_state(const struct gy_pool *pool) { return __atomic_load_n(&pool->state, __ATOMIC_ACQUIRE); }

/* Is there something for a worker that last saw job `seen`: a new open job, or the end? */
static int thread_is_wanted(const struct gy_pool *pool, uint64_t seen)
{
    const uint64_t state = thread_state(pool);
    return ((state & THREAD_OPEN) && state >> 32 != seen) || __atomic_load_n(&pool->stop, __ATOMIC_ACQUIRE);
}

static int thread_nobody_is_in(const struct gy_pool *pool, uint64_t unused)
{
    (void)unused;
    return (thread_state(pool) & THREAD_JOINED) == 0;
}

/* Waits a short time without sleeping; whether the condition came. */
static int thread_linger(const struct gy_pool *pool, int (*holds)(const struct gy_pool *, uint64_t), uint64_t seen)
{
    if (holds(pool, seen))
        return 1;
    const int64_t start = pool->spin ? gy_clock_ns() : 0;
    while (pool->spin && gy_clock_ns() - start < THREAD_SPIN_NS)
        for (int i = 0; i < 32; i++) {
            thread_pause();
            if (holds(pool, seen))
                return 1;
        }
    return 0;
}

static void thread_wait_wanted(struct gy_pool *pool, uint64_t seen)
{
    if (thread_linger(pool, thread_is_wanted, seen))
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->sleepers++;
    while (!thread_is_wanted(pool, seen))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    pool->sleepers--;
    pthread_mutex_unlock(&pool->mutex);
}

/* Counts this worker in; the number of the job, or 0 when it has closed. */
static uint64_t thread_join_job(struct gy_pool *pool, uint64_t seen)
{
    uint64_t state = thread_state(pool);
    while ((state & THREAD_OPEN) && state >> 32 != seen)
        if (__atomic_compare_exchange_n(&pool->state, &state, state + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return state >> 32;
    return 0;
}

static void thread_leave_job(struct gy_pool *pool)
{
    if (__atomic_sub_fetch(&pool->state, 1, __ATOMIC_ACQ_REL) & (THREAD_OPEN | THREAD_JOINED))
        return; /* others are in, or the caller has not come to wait */
    pthread_mutex_lock(&pool->mutex);
    if (pool->caller_sleeps)
        pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
}

/* Two threads may share a processor while another idles, until the system notices. So a thread that
 * finds itself where another last was goes to its own processor. Unless bound, it may move on. */
static void thread_settle(struct thread_worker *worker)
{
    const struct gy_pool *pool = worker->pool;
    if (!pool->placed)
        return;
    int here = gy_pin_current(), alone = 1;
    if (here == worker->seen_on)
        return;
    for (int i = 0; i < pool->running; i++)
        alone &= i == worker->index || __atomic_load_n(&pool->workers[i].seen_on, __ATOMIC_RELAXED) != here;
    if (!alone) {
        gy_pin_move(worker->processor);
        here = worker->processor;
    }
    __atomic_store_n(&worker->seen_on, here, __ATOMIC_RELAXED);
}

static void *thread_main(void *arg)
{
    struct thread_worker *worker = arg;
    struct gy_pool *pool = worker->pool;
    uint64_t seen = 0;
    if (pool->bound)
        gy_pin_here(worker->processor);
    for (;;) {
        thread_wait_wanted(pool, seen);
        if (__atomic_load_n(&pool->stop, __ATOMIC_ACQUIRE))
            return NULL;
        const uint64_t number = thread_join_job(pool, seen);
        if (number == 0)
            continue;
        seen = number;
        thread_settle(worker);
        thread_take_tiles(pool, worker->index);
        thread_leave_job(pool);
    }
}

/* Opens the next job; wakes one sleeper for each tile but the caller's first. Numbers from 1 on. */
static void thread_open_job(struct gy_pool *pool)
{
    const uint32_t last = (uint32_t)(__atomic_load_n(&pool->state, __ATOMIC_RELAXED) >> 32);
    const uint64_t number = last == UINT32_MAX ? 1 : (uint64_t)last + 1;
    pthread_mutex_lock(&pool->mutex);
    __atomic_store_n(&pool->state, number << 32 | THREAD_OPEN, __ATOMIC_RELEASE);
    if (pool->sleepers > pool->tiles - 1)
        for (int64_t i = 1; i < pool->tiles; i++)
            pthread_cond_signal(&pool->wake);
    else if (pool->sleepers)
        pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

static void thread_close_job(struct gy_pool *pool)
{
    __atomic_fetch_and(&pool->state, ~THREAD_OPEN, __ATOMIC_ACQ_REL);
    if (thread_linger(pool, thread_nobody_is_in, 0))
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->caller_sleeps = 1;
    while (!thread_nobody_is_in(pool, 0))
        pthread_cond_wait(&pool->done, &pool->mutex);
    pool->caller_sleeps = 0;
    pthread_mutex_unlock(&pool->mutex);
}

GY_INT void gy_pool_run(struct gy_pool *pool, gy_tile_fn fn, void *job, int64_t tiles)
{
    if (pool->started == 0 || tiles <= 1) {
        for (int64_t tile = 0; tile < tiles; tile++)
            fn(job, tile, 0);
        return;
    }
    pool->fn = fn;
    pool->job = job;
    pool->tiles = tiles;
    __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
    thread_open_job(pool);
    thread_settle(&pool->workers[0]);
    thread_take_tiles(pool, 0);
    thread_close_job(pool);
}

GY_INT int gy_pool_threads(const struct gy_pool *pool) { return pool->threads; }
GY_INT int gy_pool_running(const struct gy_pool *pool) { return pool->running; }
GY_INT int gy_pool_is_pinned(const struct gy_pool *pool) { return pool->bound; }

GY_INT void gy_pool_close(struct gy_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    __atomic_store_n(&pool->stop, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    const struct gy_alloc alloc = pool->alloc;
    gy_alloc_free(&alloc, pool->workers, (size_t)pool->threads * sizeof *pool->workers);
    gy_alloc_free(&alloc, pool, sizeof *pool);
}

static int thread_start_all(struct gy_pool *pool, struct gy_error *err)
{
    for (int i = 1; i < pool->running; i++) {
        const int status = pthread_create(&pool->workers[i].thread, NULL, thread_main, &pool->workers[i]);
        if (status != 0)
            return GY_FAIL(err, GY_E_NOMEM, "thread %d of %d could not be started: %s", i + 1, pool->threads,
                           strerror(status));
        pool->started = i;
    }
    return GY_OK;
}

/* The workers take no signals: those are for the caller's own threads. */
static int thread_start(struct gy_pool *pool, struct gy_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int status = thread_start_all(pool, err);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return status;
}

/* Processors of the threads, before they start. */
static void thread_place(struct gy_pool *pool, int how, const char **why)
{
    int processor[THREAD_MOST];
    const char *reason = "there is one thread";
    pool->placed = pool->running > 1 && gy_pin_choose(how, pool->running, processor, &reason);
    pool->bound = pool->placed && how == GY_PIN_ON;
    for (int i = 0; i < pool->running; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        pool->workers[i].seen_on = -1;
        pool->workers[i].processor = pool->placed ? processor[i] : -1;
    }
    if (why)
        *why = reason;
}

/* limit: run no more threads than there are processors. */
static int thread_open(struct gy_pool **out, const struct gy_alloc *alloc, int threads, int limit, int how, const char **why,
                       struct gy_error *err)
{
    if (threads < 0 || threads > THREAD_MOST)
        return GY_FAIL(err, GY_E_ARG, "%d threads; 0 to %d are possible", threads, THREAD_MOST);
    const int available = gy_thread_count_available();
    const int count = threads > 0 ? threads : available < THREAD_MOST ? available : THREAD_MOST;
    struct gy_pool *pool = gy_alloc_take(alloc, 1, sizeof *pool);
    struct thread_worker *workers = gy_alloc_take(alloc, (size_t)count, sizeof *workers);
    if (!pool || !workers) {
        gy_alloc_free(alloc, workers, (size_t)count * sizeof *workers);
        gy_alloc_free(alloc, pool, sizeof *pool);
        return GY_NOMEM(err, "the thread pool", (size_t)count * sizeof *workers);
    }
    pool->alloc = *alloc;
    pool->workers = workers;
    pool->threads = count;
    pool->running = limit && count > available ? available : count;
    pool->spin = pool->running <= available;
    thread_place(pool, how, why);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    const int status = thread_start(pool, err);
    if (status != GY_OK) {
        gy_pool_close(pool);
        return status;
    }
    *out = pool;
    return GY_OK;
}

GY_INT int gy_pool_open(struct gy_pool **out, const struct gy_alloc *alloc, int threads, struct gy_error *err)
{
    return thread_open(out, alloc, threads, 0, GY_PIN_OFF, NULL, err);
}

GY_INT int gy_pool_open_compute(struct gy_pool **out, const struct gy_alloc *alloc, int threads, int how, const char **why,
                                struct gy_error *err)
{
    return thread_open(out, alloc, threads, 1, how, why, err);
}
