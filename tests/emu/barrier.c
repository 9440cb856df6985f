/* SPDX-License-Identifier: MIT */
/* barrier.c: barriers that some threads of a block pass. Counting barriers lie in shared memory: a
 * phase ends when the announced arrivals and bytes are complete. Their state is kept here. The 8
 * bytes in shared memory only have to be initialised in an order on which every thread can rely.
 * Numbered barriers (1 to 15) are passed by a given number of threads at a time. */
#include "tests/emu/emu.h"

#define BARRIER_MOST 48

struct barrier {
    const unsigned char *at;
    int count, pending, phase, fenced, owner;
    long bytes;
    struct emu_order now, done;
};
struct barrier_some {
    int threads, arrived, round;
    struct emu_order now, done;
};
static struct barrier barrier_table[BARRIER_MOST];
static int barrier_count;
static struct barrier_some barrier_numbered[16];
static int barrier_registers[EMU_THREADS_MOST / 32];

void emu_barrier_block(void)
{
    barrier_count = 0;
    for (int i = 0; i < 16; i++)
        barrier_numbered[i].arrived = barrier_numbered[i].threads = 0;
    memset(barrier_registers, 0, sizeof barrier_registers);
}

/* Wakes those that wait at this place and may go on. */
static void barrier_wake(const void *at)
{
    struct emu_block *b = emu_block();
    for (int i = 0; i < b->launch->threads; i++)
        if (b->thread[i].state == EMU_AT_EVENT && b->thread[i].in == at)
            emu_wake(&b->thread[i]);
}

/* ---- barriers that count ---- */

static struct barrier *barrier_find(const void *at, const char *what, const char *site)
{
    emu_check_shared(at, 8, 0, what, site, NULL);
    for (int i = 0; i < barrier_count; i++)
        if (barrier_table[i].at == (const unsigned char *)at)
            return &barrier_table[i];
    emu_fail(site, NULL, "a barrier that nobody initialised");
}

void emu_bar_init(void *at, int arrivals, const char *site)
{
    if ((uintptr_t)at % 8 != 0 || arrivals < 1 || arrivals > (1 << 20) - 1)
        emu_fail(site, NULL, "a barrier for %d arrivals at %p: 1 to 2^20 - 1, divisible by 8", arrivals, at);
    emu_check_shared(at, 8, 1, "a barrier's initialisation writes", site, NULL);
    int i = 0;
    while (i < barrier_count && barrier_table[i].at != (unsigned char *)at)
        i++;
    if (i == BARRIER_MOST)
        emu_fail(site, NULL, "the emulator has %d barriers", BARRIER_MOST);
    barrier_count += i == barrier_count;
    struct barrier *k = &barrier_table[i];
    memset(k, 0, sizeof *k);
    k->at = at;
    k->count = k->pending = arrivals;
    k->owner = emu_block()->acting;
}

void emu_bar_init_done(void)
{
    for (int i = 0; i < barrier_count; i++)
        barrier_table[i].fenced |= barrier_table[i].owner == emu_block()->acting;
}

static void barrier_settle(struct barrier *k)
{
    if (k->pending != 0 || k->bytes != 0)
        return;
    k->phase++;
    k->pending = k->count;
    k->done = k->now;
    barrier_wake(k->at);
}

void emu_bar_arrive(void *at, int bytes, const char *site)
{
    struct barrier *k = barrier_find(at, "an arrival reads", site);
    if (k->pending == 0)
        emu_fail(site, NULL, "one arrival more than the %d of the barrier's phase", k->count);
    emu_clock_release(emu_block()->acting, &k->now);
    k->pending--;
    k->bytes += bytes;
    barrier_settle(k);
}

void emu_bar_wait(void *at, int parity, const char *site)
{
    struct emu_block *b = emu_block();
    const struct barrier *k = barrier_find(at, "a wait reads", site);
    emu_counts[EMU_COUNT_BAR]++;
    if (parity != 0 && parity != 1)
        emu_fail(site, NULL, "waits for parity %d", parity);
    while ((k->phase & 1) == parity) {
        b->now->in = at;
        emu_park(EMU_AT_EVENT, site);
    }
    emu_clock_acquire(b->acting, &k->done);
}

int emu_bar_agent(const void *at, const char *site)
{
    const struct barrier *k = barrier_find(at, "a bulk copy counts on", site);
    if (!k->fenced)
        emu_fail(site, NULL, "a bulk copy counts on a barrier without gy_bar_init_done");
    return EMU_AGENT_BAR + (int)(k - barrier_table);
}

void emu_bar_bytes(int agent, int bytes)
{
    struct barrier *k = &barrier_table[agent - EMU_AGENT_BAR];
    emu_clock_release(agent, &k->now);
    k->bytes -= bytes;
    barrier_settle(k);
}

/* What a thread that waits in vain is told. */
void emu_bar_explain(const void *at, char *room, size_t bytes)
{
    for (int i = 0; i < barrier_count; i++) {
        const struct barrier *k = &barrier_table[i];
        if (k->at == (const unsigned char *)at)
            snprintf(room, bytes, "the barrier's phase %d still wants %d of %d arrivals and %ld bytes", k->phase, k->pending, k->count,
                     k->bytes);
    }
}

/* ---- barriers with a number ---- */

void emu_some(int id, int threads, int waits, const char *site)
{
    struct emu_block *b = emu_block();
    if (id < 1 || id > 15 || threads < 32 || threads % 32 != 0 || threads > b->launch->threads)
        emu_fail(site, NULL, "barrier %d for %d threads: 1 to 15, whole warps of the block", id, threads);
    struct barrier_some *k = &barrier_numbered[id];
    if (k->arrived > 0 && k->threads != threads)
        emu_fail(site, NULL, "barrier %d is for %d threads here and for %d elsewhere", id, threads, k->threads);
    k->threads = threads;
    emu_counts[EMU_COUNT_SOME]++;
    emu_clock_release(b->acting, &k->now);
    const int round = k->round;
    if (++k->arrived == threads) {
        k->arrived = 0;
        k->round++;
        k->done = k->now;
        barrier_wake(k);
    }
    while (waits && k->round == round) {
        b->now->in = k;
        emu_park(EMU_AT_EVENT, site);
    }
    if (waits)
        emu_clock_acquire(b->acting, &k->done);
}

/* ---- shares of registers ---- */

/* The compiler decides what a kernel starts with. So only the shares that all warps have asked for
 * are summed. */
void emu_registers(int count, int more, const char *site)
{
    const struct emu_block *b = emu_block();
    const int warps = b->launch->threads / 32;
    int sum = 0;
    (void)more;
    if (count < 24 || count > 256 || count % 8 != 0)
        emu_fail(site, NULL, "%d registers a thread: 24 to 256, divisible by 8", count);
    barrier_registers[b->acting / 32] = count;
    for (int i = 0; i < warps; i++) {
        if (barrier_registers[i] == 0)
            return;
        sum += 32 * barrier_registers[i];
    }
    if (sum > 65536)
        emu_fail(site, NULL, "the shares of all warps are %d registers of 65536", sum);
}
