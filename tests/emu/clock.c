/* SPDX-License-Identifier: MIT */
/* clock.c: order between threads of one epoch, for words at which only some threads of a block
 * meet: counting barriers, barriers of some warps, warps. Every thread knows of each other one up
 * to which time it has seen what that one did. Time is one counter for the block; an access is
 * stamped with it. A release publishes that all the thread did until now can be seen, and advances
 * the time. An acquire sees what was published. Asynchronous actors have numbers behind the
 * threads': EMU_AGENT_GROUP + g reads for a product of warp group g, EMU_AGENT_BAR + its barrier
 * writes for a bulk copy. Without such words nothing here costs time. */
#include "tests/emu/emu.h"

static uint16_t clock_seen[EMU_IDS][EMU_IDS];
uint16_t emu_clock_time;
int emu_clock_used;
static uint64_t clock_fences[EMU_IDS];

void emu_clock_start(void)
{
    if (emu_clock_used)
        memset(clock_seen, 0, sizeof clock_seen);
    emu_clock_used = 0;
    emu_clock_time = 1;
}

int emu_clock_before(int id, unsigned stamp, int other) { return emu_clock_used && clock_seen[other][id] >= stamp; }

/* Beyond what a stamp can hold everything until now counts as seen: a new epoch. */
static void clock_tick(void)
{
    emu_clock_used = 1;
    if (++emu_clock_time == 0x7fff) {
        emu_block()->epoch++;
        emu_clock_start();
    }
}

static void clock_join(uint16_t *to, const uint16_t *from)
{
    for (int i = 0; i < EMU_IDS; i++)
        to[i] = to[i] > from[i] ? to[i] : from[i];
}

void emu_clock_release(int id, struct emu_order *order)
{
    const uint32_t epoch = emu_block()->epoch;
    if (order->epoch != epoch)
        memset(order->seen, 0, sizeof order->seen);
    order->epoch = epoch;
    clock_join(order->seen, clock_seen[id]);
    order->seen[id] = emu_clock_time;
    clock_tick();
    order->key = order;
    emu_tsan_order(order, 1);
}

void emu_clock_acquire(int id, const struct emu_order *order)
{
    if (order->epoch == emu_block()->epoch)
        clock_join(clock_seen[id], order->seen);
    if (order->key)
        emu_tsan_order(order->key, 0);
}

void emu_clock_pass(int from, int to, int all)
{
    if (all)
        clock_join(clock_seen[to], clock_seen[from]);
    clock_seen[to][from] = emu_clock_time;
    clock_tick();
}

void emu_clock_fence(int id)
{
    clock_fences[id] = (uint64_t)emu_block()->epoch << 32 | emu_clock_time;
    clock_tick();
}

int emu_clock_fenced(int id, uint32_t epoch, unsigned stamp) { return ((uint64_t)epoch << 32 | stamp) <= clock_fences[id]; }
