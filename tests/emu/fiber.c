/* SPDX-License-Identifier: MIT */
/* fiber.c: a fiber is a stack and the registers that a called function must keep; the running one
 * yields the processor itself. The switch pushes those registers onto the own stack, exchanges
 * stack pointers and pops the other's: a call that returns in another fiber. Stacks are mapped
 * once, a page that may not be touched below them, and used for every later block. Built with
 * AddressSanitizer, a switch tells it which stack comes next. */
#include "tests/emu/emu.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- AddressSanitizer ---- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static struct emu_fiber *fiber_left; /* by the last switch */

static void fiber_leave(struct emu_fiber *from, struct emu_fiber *to)
{
    fiber_left = from;
    __sanitizer_start_switch_fiber(&from->asan_fake, to->stack ? to->stack : to->asan_stack, to->stack ? EMU_STACK_BYTES : to->asan_bytes);
}
static void fiber_arrive(struct emu_fiber *here)
{
    __sanitizer_finish_switch_fiber(here ? here->asan_fake : NULL, &fiber_left->asan_stack, &fiber_left->asan_bytes);
}
void emu_fiber_begin(void) { fiber_arrive(NULL); }
void emu_fiber_home(struct emu_fiber *from, struct emu_fiber *scheduler)
{
    fiber_leave(from, scheduler);
    fiber_arrive(scheduler);
}
static void fiber_clean(struct emu_fiber *fiber) { ASAN_UNPOISON_MEMORY_REGION(fiber->stack, EMU_STACK_BYTES); }
#else
static void fiber_leave(struct emu_fiber *from, struct emu_fiber *to) { (void)from, (void)to; }
static void fiber_arrive(struct emu_fiber *here) { (void)here; }
void emu_fiber_begin(void) {}
void emu_fiber_home(struct emu_fiber *from, struct emu_fiber *scheduler) { (void)from, (void)scheduler; }
static void fiber_clean(struct emu_fiber *fiber) { (void)fiber; }
#endif

/* ---- stacks ---- */

static int fiber_stack(struct emu_fiber *fiber)
{
    if (fiber->stack)
        fiber_clean(fiber);
    if (fiber->stack)
        return 0;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *map =
        mmap(NULL, EMU_STACK_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return -1;
    mprotect(map, page, PROT_NONE);
    fiber->stack = map + page;
    return 0;
}

static void fiber_unmap(struct emu_fiber *fiber)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (fiber->stack)
        munmap(fiber->stack - page, EMU_STACK_BYTES + page);
    fiber->stack = NULL;
}

#if defined(__x86_64__) && !defined(EMU_UCONTEXT)

/* void emu_switch(void **save, void *load) */
void emu_switch(void **save, void *load);
__asm__(".text\n"
        ".globl emu_switch\n"
        ".hidden emu_switch\n"
        ".type emu_switch, @function\n"
        "emu_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size emu_switch, . - emu_switch\n");

int emu_fiber_make(struct emu_fiber *fiber, void (*entry)(void))
{
    if (fiber_stack(fiber) != 0)
        return -1;
    /* as if entry had called emu_switch: six registers, its return address, and 0 where its caller
     * would be */
    void **top = (void **)(void *)(fiber->stack + EMU_STACK_BYTES) - 2;
    top[1] = NULL;
    top[0] = NULL;
    memcpy(&top[0], &entry, sizeof entry);
    top -= 6;
    memset(top, 0, 6 * sizeof *top);
    fiber->sp = top;
    return 0;
}

void emu_fiber_switch(struct emu_fiber *from, struct emu_fiber *to)
{
    if (to->tsan)
        emu_tsan_switch(to->tsan);
    fiber_leave(from, to);
    emu_switch(&from->sp, to->sp);
    fiber_arrive(from);
}
void emu_fiber_free(struct emu_fiber *fiber) { fiber_unmap(fiber); }

#else

#include <ucontext.h>

static ucontext_t *fiber_context(struct emu_fiber *fiber)
{
    if (!fiber->context)
        fiber->context = calloc(1, sizeof(ucontext_t));
    return fiber->context;
}

int emu_fiber_make(struct emu_fiber *fiber, void (*entry)(void))
{
    if (fiber_stack(fiber) != 0 || !fiber_context(fiber))
        return -1;
    ucontext_t *context = fiber->context;
    getcontext(context);
    context->uc_stack.ss_sp = fiber->stack;
    context->uc_stack.ss_size = EMU_STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, entry, 0);
    return 0;
}

void emu_fiber_switch(struct emu_fiber *from, struct emu_fiber *to)
{
    if (to->tsan)
        emu_tsan_switch(to->tsan);
    fiber_leave(from, to);
    swapcontext(fiber_context(from), to->context);
    fiber_arrive(from);
}

void emu_fiber_free(struct emu_fiber *fiber)
{
    fiber_unmap(fiber);
    free(fiber->context);
    fiber->context = NULL;
}

#endif
