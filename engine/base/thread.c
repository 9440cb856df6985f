/* SPDX-License-Identifier: MIT */
/* One job at a time. A job has a number; workers wait until the number changes, take tiles from a shared counter until none is
 * left, and report. Waiting first spins for a short time, because the next op usually comes within microseconds, then sleeps on a
 * condition variable. With more threads than processors nobody spins. */
#include "thread.h"
#include "clock.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
long syscall(long number, ...); /* not declared under strict POSIX */
#endif

#define THREAD_SPIN_NS 60000

struct thread_worker {
    struct gy_pool *pool;
    pthread_t thread;
    int index;
};

struct gy_pool {
    struct gy_alloc alloc;
    struct thread_worker *workers; /* [threads]; the first is the caller and has no thread */
    int threads, started, spin;
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    int sleepers, caller_sleeps;   /* under the mutex */
    uint64_t job_number;           /* atomic; changed under the mutex */
    int busy;                      /* atomic: workers that have not finished the job */
    int stop;
    int64_t next;                  /* atomic: first tile that nobody took */
    gy_tile_fn fn;
    void *job;
    int64_t tiles;
};

GY_INT int gy_thread_count_available(void)
{
#if defined(__linux__) && defined(SYS_sched_getaffinity)
    unsigned long mask[128];
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    int count = 0;
    for (long i = 0; i < bytes / (long)sizeof mask[0]; i++)
        count += __builtin_popcountl(mask[i]);
    if (count > 0)
        return count;
#endif
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

/* Returns the number of the next job. */
static uint64_t thread_wait_job(struct gy_pool *pool, uint64_t seen)
{
    const int64_t start = gy_clock_ns();
    while (pool->spin && gy_clock_ns() - start < THREAD_SPIN_NS) {
        for (int i = 0; i < 32; i++) {
            const uint64_t number = __atomic_load_n(&pool->job_number, __ATOMIC_ACQUIRE);
            if (number != seen)
                return number;
            thread_pause();
        }
    }
    pthread_mutex_lock(&pool->mutex);
    pool->sleepers++;
    while (__atomic_load_n(&pool->job_number, __ATOMIC_ACQUIRE) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    pool->sleepers--;
    pthread_mutex_unlock(&pool->mutex);
    return __atomic_load_n(&pool->job_number, __ATOMIC_ACQUIRE);
}

static void thread_report(struct gy_pool *pool)
{
    if (__atomic_sub_fetch(&pool->busy, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    if (pool->caller_sleeps)
        pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
}

static void *thread_main(void *arg)
{
    const struct thread_worker *worker = arg;
    struct gy_pool *pool = worker->pool;
    uint64_t seen = 0;
    for (;;) {
        seen = thread_wait_job(pool, seen);
        if (pool->stop)
            return NULL;
        thread_take_tiles(pool, worker->index);
        thread_report(pool);
    }
}

static void thread_publish(struct gy_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    __atomic_store_n(&pool->busy, pool->started, __ATOMIC_RELAXED);
    __atomic_add_fetch(&pool->job_number, 1, __ATOMIC_RELEASE);
    if (pool->sleepers)
        pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

static void thread_wait_done(struct gy_pool *pool)
{
    const int64_t start = gy_clock_ns();
    while (pool->spin && gy_clock_ns() - start < THREAD_SPIN_NS) {
        for (int i = 0; i < 32; i++) {
            if (__atomic_load_n(&pool->busy, __ATOMIC_ACQUIRE) == 0)
                return;
            thread_pause();
        }
    }
    pthread_mutex_lock(&pool->mutex);
    pool->caller_sleeps = 1;
    while (__atomic_load_n(&pool->busy, __ATOMIC_ACQUIRE) != 0)
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
    thread_publish(pool);
    thread_take_tiles(pool, 0);
    thread_wait_done(pool);
}

GY_INT int gy_pool_threads(const struct gy_pool *pool) { return pool->threads; }

GY_INT void gy_pool_close(struct gy_pool *pool)
{
    if (!pool)
        return;
    pool->stop = 1;
    thread_publish(pool);
    for (int i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    const struct gy_alloc alloc = pool->alloc;
    gy_alloc_free(&alloc, pool->workers, (size_t)pool->threads * sizeof *pool->workers);
    gy_alloc_free(&alloc, pool, sizeof *pool);
}

static int thread_start(struct gy_pool *pool, struct gy_error *err)
{
    for (int i = 1; i < pool->threads; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        const int status = pthread_create(&pool->workers[i].thread, NULL, thread_main, &pool->workers[i]);
        if (status != 0)
            return GY_FAIL(err, GY_E_NOMEM, "thread %d of %d could not be started: %s", i + 1, pool->threads, strerror(status));
        pool->started = i;
    }
    return GY_OK;
}

GY_INT int gy_pool_open(struct gy_pool **out, const struct gy_alloc *alloc, int threads, struct gy_error *err)
{
    const int available = gy_thread_count_available();
    const int count = threads > 0 ? threads : available;
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
    pool->spin = count <= available;
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
