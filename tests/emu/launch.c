/* SPDX-License-Identifier: MIT */
/* launch.c: a grid runs block after block. In a block every thread is a fiber. The scheduler takes
 * one of the ready ones at random (the seed is GYRE_EMU_SEED). It lets it run until it waits for
 * others: at a barrier, at a word of its whole warp, or for a copy. When none is ready, all live
 * ones may have met at one barrier; then they continue. Otherwise some thread waits for one that
 * will never come. Then the launch ends with a sentence that names both. */
#include "tests/emu/emu.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

struct emu_block *emu_the_block; /* taken at the first launch, kept for stacks */
#define launch_block emu_the_block
static struct gy_emu_words launch_words;
static uint64_t launch_count;
static char launch_begin, launch_end; /* keys of order for ThreadSanitizer */

struct gy_emu_words *emu_words(void) { return &launch_words; }

unsigned long long emu_counts[EMU_COUNTS];
EMU_API const char *gyre_emu_word(int index, unsigned long long *times);
/* For tests that ask what was executed: a word's name and how often; NULL past the last. */
const char *gyre_emu_word(int index, unsigned long long *times)
{
    static const char *const names[EMU_COUNTS] = {
        [GY_EMU_SHFL_XOR] = "shfl.bfly", [GY_EMU_SHFL_DOWN] = "shfl.down", [GY_EMU_SHFL] = "shfl.idx", [GY_EMU_LDMATRIX4] = "ldmatrix.x4 (mma)",
        [GY_EMU_LDMATRIX4_TURNED] = "ldmatrix.x4.trans (mma)", [GY_EMU_MMA_8_8_4_F16] = "mma.m8n8k4 f16",
        [GY_EMU_MMA_16_8_8_F16] = "mma.m16n8k8 f16", [GY_EMU_MMA_16_8_16_F16] = "mma.m16n8k16 f16",
        [GY_EMU_MMA_16_8_16_BF16] = "mma.m16n8k16 bf16", [GY_EMU_WARP_SYNC] = "bar.warp.sync", [GY_EMU_WGMMA] = "wgmma.mma_async",
        [GY_EMU_WGMMA_FENCE] = "wgmma.fence", [GY_EMU_WGMMA_COMMIT] = "wgmma.commit_group", [GY_EMU_WGMMA_WAIT] = "wgmma.wait_group",
        [EMU_COUNT_WGMMA_F16] = "wgmma f16", [EMU_COUNT_WGMMA_BF16] = "wgmma bf16", [EMU_COUNT_WGMMA_TURNED] = "wgmma, operands turned",
        [EMU_COUNT_COPY_ASYNC] = "cp.async (copy)", [EMU_COUNT_BULK_TILED] = "cp.async.bulk.tensor (copy)",
        [EMU_COUNT_BULK_IM2COL] = "cp.async.bulk.tensor im2col (copy)", [EMU_COUNT_BULK_STORE] = "cp.async.bulk.tensor store",
        [EMU_COUNT_BAR] = "mbarrier.try_wait", [EMU_COUNT_SOME] = "bar.sync of some warps", [EMU_COUNT_SYNC] = "bar.sync",
        [EMU_COUNT_LIVE_LOAD] = "ld.relaxed", [EMU_COUNT_LIVE_ADD] = "red.add",
    };
    if (index < 0 || index >= EMU_COUNTS)
        return NULL;
    *times = emu_counts[index];
    return names[index];
}

/* xorshift64*: order need not be good, only repeatable */
uint32_t emu_random(uint32_t below)
{
    uint64_t x = launch_block->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    launch_block->random = x;
    return (uint32_t)((x * 0x2545f4914f6cdd1dull >> 32) * below >> 32);
}

/* ---- faults ---- */

static void launch_note(int tid, const char *site, const void *pc, const char *format, va_list arguments)
    __attribute__((format(printf, 4, 0)));
static void launch_note(int tid, const char *site, const void *pc, const char *format, va_list arguments)
{
    struct emu_fault *f = &launch_block->fault;
    if (f->set)
        return;
    f->set = 1;
    f->tid = tid;
    f->site = site;
    f->pc = pc;
    vsnprintf(f->what, sizeof f->what, format, arguments);
}

void emu_fail(const char *site, const void *pc, const char *format, ...)
{
    struct emu_block *b = launch_block;
    va_list arguments;
    va_start(arguments, format);
    launch_note(b->acting, site, pc, format, arguments);
    va_end(arguments);
    if (!b->now)
        longjmp(b->escape, 1);
    for (;;)
        emu_fiber_switch(&b->now->fiber, &b->scheduler);
}

int emu_fault(int tid, const char *site, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    launch_note(tid, site, NULL, format, arguments);
    va_end(arguments);
    return -1;
}

/* A kernel left its stack, or wrote over a return address in it. The launch ends with a sentence
 * like any other. */
static void launch_crash(int number, siginfo_t *info, void *context)
{
    struct emu_block *b = launch_block;
    (void)context;
    if (!b || !b->now) {
        signal(number, SIG_DFL); /* not a kernel's doing */
        return;
    }
    const unsigned char *stack = b->now->fiber.stack, *at = info->si_addr;
    const int over = at < stack && at >= stack - 65536;
    emu_fault(b->acting, NULL, over ? "needs more than %zu bytes of stack" : "crashed on a CPU (its stack has %zu bytes)",
              EMU_STACK_BYTES);
    emu_fiber_home(&b->now->fiber, &b->scheduler);
    b->now = NULL;
    longjmp(b->escape, 1);
}

/* Catches crashes during a launch, on a stack of its own; state: 1 begins, 0 ends. */
static void launch_guard(int begins)
{
    static unsigned char room[65536];
    static struct sigaction segv, bus;
    static stack_t before;
    struct sigaction action;
    if (!begins) {
        sigaction(SIGSEGV, &segv, NULL);
        sigaction(SIGBUS, &bus, NULL);
        sigaltstack(&before, NULL);
        return;
    }
    const stack_t own = { .ss_sp = room, .ss_size = sizeof room };
    memset(&action, 0, sizeof action);
    action.sa_sigaction = launch_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaltstack(&own, &before);
    sigaction(SIGSEGV, &action, &segv);
    sigaction(SIGBUS, &action, &bus);
}

/* ---- fibers of a block ---- */

static void launch_thread(void)
{
    struct emu_block *b = launch_block;
    emu_fiber_begin();
    emu_tsan_order(&launch_begin, 0);
    b->launch->function->entry(&b->launch->args);
    emu_tsan_order(&launch_end, 1);
    b->now->state = EMU_ENDED;
    b->live--;
    for (;;)
        emu_fiber_switch(&b->now->fiber, &b->scheduler);
}

void emu_park(int state, const char *site)
{
    struct emu_block *b = launch_block;
    b->now->state = state;
    b->now->site = site;
    emu_fiber_switch(&b->now->fiber, &b->scheduler);
}

void emu_wake(struct emu_thread *thread)
{
    struct emu_block *b = launch_block;
    thread->state = EMU_READY;
    b->ready[b->ready_count++] = thread->tid;
}

static void launch_sync(const char *site)
{
    unsigned char *key = launch_block->keys + launch_block->epoch % 2;
    emu_counts[EMU_COUNT_SYNC]++;
    emu_tsan_order(key, 1);
    emu_park(EMU_AT_SYNC, site);
    emu_tsan_order(key, 0);
}

/* A word of several lanes. The last lane to come carries it out for all and goes on; the others
 * become ready. */
static void launch_group(int word, const char *site, const void *in, void *out)
{
    struct emu_block *b = launch_block;
    struct emu_thread *me = b->now;
    const int lanes = emu_group_lanes(word), first = me->tid / lanes * lanes;
    me->word = word;
    me->in = in;
    me->out = out;
    if (first + lanes > b->launch->threads)
        emu_fail(site, NULL, "a word of %d lanes, but the block ends after %d of them", lanes, b->launch->threads - first);
    me->state = EMU_AT_GROUP;
    me->site = site;
    for (int i = first; i < first + lanes; i++)
        if (b->thread[i].state != EMU_AT_GROUP || b->thread[i].word != word || strcmp(b->thread[i].site, site) != 0) {
            emu_park(EMU_AT_GROUP, site);
            return;
        }
    emu_counts[word]++;
    emu_tsan_own(1);
    emu_group_run(word, &b->thread[first]);
    emu_tsan_own(0);
    b->acting = me->tid;
    me->state = EMU_READY;
    for (int i = first; i < first + lanes; i++)
        if (i != me->tid)
            emu_wake(&b->thread[i]);
}

static void launch_fence(void) { emu_clock_fence(launch_block->acting); }

/* ---- nobody is ready ---- */

static const char *launch_where(const struct emu_thread *t, char *room, size_t bytes)
{
    if (t->state == EMU_ENDED)
        snprintf(room, bytes, "has ended");
    else
        snprintf(room, bytes, "waits at %s", t->site);
    return room;
}

/* Says who waits for whom. */
static int launch_stuck(void)
{
    struct emu_block *b = launch_block;
    char where[160];
    for (int i = 0; i < b->launch->threads; i++) {
        const struct emu_thread *t = &b->thread[i];
        if (t->state != EMU_AT_GROUP)
            continue;
        const int lanes = emu_group_lanes(t->word), first = t->tid / lanes * lanes;
        for (int j = first; j < first + lanes; j++) {
            const struct emu_thread *other = &b->thread[j];
            if (other->state != EMU_AT_GROUP || strcmp(other->site, t->site) != 0)
                return emu_fault(i, t->site, "all %d lanes must come, but lane %d (thread %d) is missing: it %s", lanes, j - first,
                                 j, launch_where(other, where, sizeof where));
        }
    }
    for (int i = 0; i < b->launch->threads; i++)
        if (b->thread[i].state == EMU_AT_EVENT) {
            snprintf(where, sizeof where, "no other thread can go on");
            emu_bar_explain(b->thread[i].in, where, sizeof where);
            return emu_fault(i, b->thread[i].site, "waits for what will never come: %s", where);
        }
    return emu_fault(0, NULL, "no thread can go on");
}

/* All that live stand at one barrier: they go on. */
static int launch_release(void)
{
    struct emu_block *b = launch_block;
    const struct emu_thread *one = NULL;
    for (int i = 0; i < b->launch->threads; i++) {
        const struct emu_thread *t = &b->thread[i];
        if (t->state == EMU_ENDED)
            continue;
        if (t->state != EMU_AT_SYNC)
            return launch_stuck();
        if (one && strcmp(one->site, t->site) != 0)
            return emu_fault(i, t->site, "divergent barrier: thread %d waits at %s, thread %d at %s", t->tid, t->site, one->tid,
                             one->site);
        one = t;
    }
    b->epoch++;
    emu_clock_start();
    for (int i = 0; i < b->launch->threads; i++)
        if (b->thread[i].state == EMU_AT_SYNC)
            emu_wake(&b->thread[i]);
    return 0;
}

static void launch_enter(struct emu_thread *t)
{
    struct emu_block *b = launch_block;
    b->now = t;
    b->acting = t->tid;
    launch_words.place.tid = t->tid;
    launch_words.place.stack = (unsigned long)(uintptr_t)t->fiber.stack;
    emu_fiber_switch(&b->scheduler, &t->fiber);
    b->now = NULL;
}

/* A block's shared memory ends at a page that may not be touched. It is aligned to 1024 bytes, as
 * in CUDA. */
static unsigned char *launch_shared(size_t bytes)
{
    static unsigned char *end;
    if (!end) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE), most = (EMU_SHARED_MOST + page - 1) / page * page + page;
        unsigned char *map = mmap(NULL, most + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
            return NULL;
        mprotect(map + most, page, PROT_NONE);
        end = map + most;
    }
    return end - (bytes + 1023) / 1024 * 1024;
}

static int launch_start_block(void)
{
    struct emu_block *b = launch_block;
    const struct emu_launch *l = b->launch;
    b->keys = emu_tsan() ? emu_tsan_slice() : NULL;
    b->shared = emu_tsan() ? b->keys + 4096 : launch_shared(l->shared);
    if (!b->shared || (emu_tsan() && !b->keys))
        return emu_fault(0, NULL, "the emulator has no memory for another block");
    launch_words.place.shared = b->shared;
    b->epoch++;
    b->block_epoch = b->epoch;
    b->live = l->threads;
    b->ready_count = 0;
    b->now = NULL;
    memset(b->shared, 0xff, l->shared); /* a NaN in every type */
    emu_clock_start();
    emu_async_block();
    emu_barrier_block();
    emu_bulk_block();
    emu_wgmma_block();
    if (emu_check_block() != 0)
        return emu_fault(0, NULL, "the emulator has no memory");
    for (int i = 0; i < l->threads; i++) {
        b->thread[i].tid = i;
        emu_tsan_fiber(&b->thread[i].fiber.tsan, i);
        if (emu_fiber_make(&b->thread[i].fiber, launch_thread) != 0)
            return emu_fault(0, NULL, "the emulator has no memory for %d stacks", l->threads);
        emu_wake(&b->thread[i]);
    }
    return 0;
}

static int launch_one_block(void)
{
    struct emu_block *b = launch_block;
    if (launch_start_block() != 0 || setjmp(b->escape) != 0)
        return -1;
    while (b->live > 0) {
        /* what goes on by itself is finished now and then, and when all wait */
        if (emu_bulk_pending() && (b->ready_count == 0 || emu_random(4) == 0) && emu_bulk_some())
            continue;
        if (b->ready_count == 0 && launch_release() != 0)
            return -1;
        const int k = (int)emu_random((uint32_t)b->ready_count), tid = b->ready[k];
        b->ready[k] = b->ready[--b->ready_count];
        launch_enter(&b->thread[tid]);
        if (b->fault.set)
            return -1;
    }
    return emu_bulk_end();
}

/* ---- a grid ---- */

static int launch_prepare(const struct emu_launch *launch)
{
    if (!launch_block)
        launch_block = calloc(1, sizeof *launch_block);
    if (!launch_block)
        return -1;
    const char *seed = getenv("GYRE_EMU_SEED");
    struct emu_block *b = launch_block;
    b->launch = launch;
    b->fault.set = 0;
    b->random = (seed ? strtoull(seed, NULL, 10) : 1) * 0x9e3779b97f4a7c15ull + ++launch_count * 0xbf58476d1ce4e5b9ull + 1;
    b->epoch++;
    b->launch_epoch = b->epoch;
    struct gy_emu_words *w = &launch_words;
    memcpy(w->place.grid, launch->grid, sizeof launch->grid);
    w->place.threads = launch->threads;
    w->place.stack_bytes = EMU_STACK_BYTES;
    w->access = emu_access;
    w->aligned = emu_aligned;
    w->sync = launch_sync;
    w->group = launch_group;
    w->copy_async = emu_copy_async;
    w->copy_commit = emu_copy_commit;
    w->copy_wait = emu_copy_wait;
    w->bar_init = emu_bar_init;
    w->bar_init_done = emu_bar_init_done;
    w->bar_arrive = emu_bar_arrive;
    w->bar_wait = emu_bar_wait;
    w->bulk_load = emu_bulk_load;
    w->bulk_store = emu_bulk_store;
    w->bulk_commit = emu_bulk_commit;
    w->bulk_wait = emu_bulk_wait;
    w->fence_async = launch_fence;
    w->some = emu_some;
    w->registers = emu_registers;
    w->live = emu_live;
    return 0;
}

/* A fault for rehearsals, GYRE_EMU_PLANT "hang:KERNEL,lost:KERNEL,skip:KERNEL": the kernel never
 * ends, spoils the device, or does nothing. "lost:KERNEL@20" begins with its 20th launch. */
static int launch_is_planted(const char *what, const struct emu_launch *launch)
{
    static long seen; /* launches of the kernel that has an @ */
    char word[128];
    const char *plants = getenv("GYRE_EMU_PLANT");
    if (!plants)
        return 0;
    snprintf(word, sizeof word, "%s:%s", what, launch->function->name);
    const char *const at = strstr(plants, word);
    const char end = at ? at[strlen(word)] : 1;
    if (end == '@')
        return ++seen >= strtol(at + strlen(word) + 1, NULL, 10);
    return end == 0 || end == ',';
}

int emu_launch(const struct emu_launch *launch)
{
    while (launch_is_planted("hang", launch))
        pause();
    if (launch_is_planted("lost", launch))
        return EMU_ILLEGAL_ADDRESS;
    if (launch_is_planted("skip", launch))
        return EMU_OK;
    if (launch_prepare(launch) != 0)
        return EMU_NO_MEMORY;
    int *at = launch_words.place.block, bad = 0;
    launch_block->scheduler.tsan = emu_tsan_here();
    emu_tsan_order(&launch_begin, 1);
    emu_memory_open(1);
    launch_guard(1);
    for (at[2] = 0; at[2] < launch->grid[2] && !bad; at[2]++)
        for (at[1] = 0; at[1] < launch->grid[1] && !bad; at[1]++)
            for (at[0] = 0; at[0] < launch->grid[0] && !bad; at[0]++)
                if (launch_one_block() != 0) {
                    emu_report(launch, &launch_block->fault, at);
                    bad = 1;
                }
    launch_guard(0);
    emu_memory_open(0);
    emu_tsan_order(&launch_end, 0);
    return bad ? EMU_LAUNCH_FAILED : EMU_OK;
}
