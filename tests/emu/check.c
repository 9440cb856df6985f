/* SPDX-License-Identifier: MIT */
/* Every load and store of a kernel comes here first. It must lie on the thread's own stack, in the block's shared memory, in one
 * allocation of device memory that lives, or (reading) among the constants of the compiled file. */
#include "emu.h"

int emu_check_block(void) { return 0; }

static void check_stack_of_other(const unsigned char *p, unsigned long bytes, int write, const void *pc)
{
    const struct emu_block *b = emu_block();
    for (int i = 0; i < b->launch->threads; i++) {
        const unsigned char *stack = b->thread[i].fiber.stack;
        if (p >= stack && p < stack + EMU_STACK_BYTES)
            emu_fail(NULL, pc, "%s %lu bytes at %p, a local variable of thread %d", write ? "writes" : "reads", bytes, (const void *)p, i);
    }
}

/* Says what lies near an address that no kernel may use. */
static void check_outside(const void *p, size_t bytes, const char *what, const char *site, const void *pc)
{
    const struct emu_range *dead = emu_memory_dead(p);
    int inside;
    const struct emu_range *near = emu_memory_find(p, bytes, &inside);
    if (dead && (!near || !inside))
        emu_fail(site, pc, "%s %zu bytes at %p, in an allocation of %zu bytes that was freed", what, bytes, p, dead->bytes);
    if (!near)
        emu_fail(site, pc, "%s %zu bytes at %p, and there is no device memory", what, bytes, p);
    const unsigned char *at = p;
    if (near->pinned && inside)
        emu_fail(site, pc, "%s %zu bytes at %p, in the host's memory", what, bytes, p);
    if (at >= near->base)
        emu_fail(site, pc, "%s %zu bytes at %p, byte %zu of the nearest allocation, which has %zu", what, bytes, p,
                 (size_t)(at - near->base), near->bytes);
    emu_fail(site, pc, "%s %zu bytes at %p, %zu bytes before the nearest allocation, which has %zu", what, bytes, p,
             (size_t)(near->base - at), near->bytes);
}

void emu_check_global(const void *p, size_t bytes, const char *what, const char *site, const void *pc)
{
    int inside;
    const struct emu_range *r = emu_memory_find(p, bytes, &inside);
    if (!r || !inside || r->pinned)
        check_outside(p, bytes, what, site, pc);
}

void emu_check_shared(const void *p, size_t bytes, const char *what, const char *site, const void *pc)
{
    const struct emu_block *b = emu_block();
    const unsigned char *at = p;
    if (at < b->shared || at > b->shared + b->launch->shared || (size_t)(b->shared + b->launch->shared - at) < bytes)
        emu_fail(site, pc, "%s %zu bytes at byte %td of the shared memory, which has %zu", what, bytes, at - b->shared,
                 b->launch->shared);
}

void emu_access(const void *p, unsigned long bytes, int write, const void *pc)
{
    const struct emu_block *b = emu_block();
    const unsigned char *at = p, *stack = b->now->fiber.stack;
    if ((size_t)(at - stack) < EMU_STACK_BYTES)
        return;
    if (bytes == 0)
        return;
    if (at >= b->shared - 4096 && at < b->shared + b->launch->shared + 4096) {
        emu_check_shared(p, bytes, write ? "writes" : "reads", NULL, pc);
        return;
    }
    int inside;
    const struct emu_range *r = emu_memory_find(p, bytes, &inside);
    if (r && inside && !r->pinned)
        return;
    const struct emu_module *m = b->launch->function->module;
    if (!write && at >= m->base && at < m->limit)
        return;
    if (at >= (const unsigned char *)&b->launch->args && at < (const unsigned char *)(&b->launch->args + 1))
        return;
    check_stack_of_other(at, bytes, write, pc);
    check_outside(p, bytes, write ? "writes" : "reads", NULL, pc);
}
