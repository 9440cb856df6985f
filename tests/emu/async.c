/* SPDX-License-Identifier: MIT */
/* async.c: cp.async: copies from device to shared memory that run by themselves until the thread
 * that started them waits. The emulator is as unkind as the manual allows. Until the wait the
 * destination holds NaNs and no thread may touch it. The source is read either at once or only at
 * the wait, at random. Other threads see the data after the wait and a barrier, as after a
 * store. */
#include "tests/emu/emu.h"

struct async_copy {
    unsigned char *shared;
    const unsigned char *global;
    int valid, group, early;
    const char *site;
    const void *pc;
    unsigned char data[16];
};
/* Of one thread, in the order of issue. */
struct async_queue {
    struct async_copy *copy;
    int first, count, room;
    int group; /* the one that the next commit closes */
};
static struct async_queue async_queues[EMU_THREADS_MOST];

void emu_async_block(void)
{
    const struct emu_block *b = emu_block();
    for (int i = 0; i < b->launch->threads; i++)
        async_queues[i].first = async_queues[i].count = async_queues[i].group = 0;
}

static struct async_copy *async_new(struct async_queue *q)
{
    if (q->first == q->count)
        q->first = q->count = 0;
    if (q->count == q->room) {
        const int room = q->room ? q->room * 2 : 16;
        struct async_copy *copy = realloc(q->copy, (size_t)room * sizeof *copy);
        if (!copy)
            emu_fail(NULL, NULL, "the emulator has no memory");
        q->copy = copy;
        q->room = room;
    }
    return &q->copy[q->count++];
}

void emu_copy_async(void *shared, const void *global, int valid, const char *site, const void *pc)
{
    struct async_queue *q = &async_queues[emu_block()->acting];
    if ((uintptr_t)shared % 16 != 0 || ((uintptr_t)global % 16 != 0 && valid > 0))
        emu_fail(site, pc, "an asynchronous copy from %p to %p: both must be divisible by 16", global, shared);
    if (valid < 0 || valid > 16)
        emu_fail(site, pc, "an asynchronous copy of %d bytes of 16", valid);
    emu_check_shared(shared, 16, 1, "an asynchronous copy writes", site, pc);
    if (valid > 0)
        emu_check_global(global, (size_t)valid, 0, "an asynchronous copy reads", site, pc);
    emu_counts[EMU_COUNT_COPY_ASYNC]++;
    struct async_copy *c = async_new(q);
    *c = (struct async_copy){shared, global, valid, q->group, emu_random(2) == 0, site, pc, {0}};
    if (c->early && valid > 0)
        memcpy(c->data, global, (size_t)valid);
    memset(shared, 0xff, 16);
    emu_check_flying(shared, 16, 1);
}

static void async_finish(struct async_copy *c)
{
    if (!c->early && c->valid > 0) {
        emu_check_global(c->global, (size_t)c->valid, 0, "an asynchronous copy reads", c->site, c->pc);
        memcpy(c->data, c->global, (size_t)c->valid);
    }
    emu_check_flying(c->shared, 16, 0);
    emu_check_shared(c->shared, 16, 1, "an asynchronous copy writes", c->site, c->pc);
    memcpy(c->shared, c->data, 16);
}

void emu_copy_commit(void) { async_queues[emu_block()->acting].group++; }

void emu_copy_wait(int newest)
{
    struct async_queue *q = &async_queues[emu_block()->acting];
    while (q->first < q->count && q->copy[q->first].group < q->group - newest)
        async_finish(&q->copy[q->first++]);
}
