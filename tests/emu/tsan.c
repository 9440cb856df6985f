/* SPDX-License-Identifier: MIT */
/* tsan.c: the other checker. With GYRE_EMU_TSAN=1 in a program built with -fsanitize=thread,
 * kernels call the real ThreadSanitizer. Each fiber is one of its threads. A switch between fibers
 * orders nothing; only barriers do: arrival releases, departure acquires. So it reports a missing
 * barrier with both stacks, as it does for threads. Every block has shared memory and barriers at
 * addresses of its own, with no order between blocks but the launch's begin and end. Its functions
 * are looked up by name, so the emulator itself is not built with it. It does not see bulk
 * copies. */
#include "tests/emu/emu.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TSAN_SLICE ((size_t)256 << 10)
#define TSAN_SLICES 4096

static struct {
    void *(*create)(unsigned flags);
    void (*name)(void *fiber, const char *name);
    void *(*current)(void);
    void (*switch_to)(void *fiber, unsigned flags);
    void (*acquire)(void *p);
    void (*release)(void *p);
    void (*read)(void *p, unsigned long bytes);
    void (*write)(void *p, unsigned long bytes);
    void (*ignore)(void);
    void (*heed)(void);
} tsan;
int emu_tsan_state;
static unsigned char *tsan_slices;
static unsigned tsan_slice;

int emu_tsan_ask(void)
{
    static const char *const names[] = {"__tsan_create_fiber", "__tsan_set_fiber_name", "__tsan_get_current_fiber", "__tsan_switch_to_fiber",
                                        "__tsan_acquire", "__tsan_release", "__tsan_read_range", "__tsan_write_range",
                                        "AnnotateIgnoreWritesBegin", "AnnotateIgnoreWritesEnd"};
    const char *wanted = getenv("GYRE_EMU_TSAN");
    emu_tsan_state = wanted && strcmp(wanted, "1") == 0 ? 1 : -1;
    for (size_t i = 0; emu_tsan_state > 0 && i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, names[i]);
        if (!symbol) {
            fprintf(stderr, "gyre emulator: GYRE_EMU_TSAN=1, but this program is not built with -fsanitize=thread (no %s)\n", names[i]);
            emu_tsan_state = -1;
        }
        memcpy((char *)&tsan + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return emu_tsan_state;
}

/* A fiber's name in reports: the block it worked for last, and its thread. */
void emu_tsan_fiber(void **fiber, int tid)
{
    char name[60];
    const int *block = emu_words()->place.block;
    if (!emu_tsan())
        return;
    if (!*fiber)
        *fiber = tsan.create(0);
    snprintf(name, sizeof name, "block %d %d %d thread %d", block[0], block[1], block[2], tid);
    tsan.name(*fiber, name);
}
void *emu_tsan_here(void) { return emu_tsan() ? tsan.current() : NULL; }
void emu_tsan_switch(void *fiber) { tsan.switch_to(fiber, 1); } /* 1: no order */

void emu_tsan_order(void *key, int release)
{
    if (emu_tsan())
        (release ? tsan.release : tsan.acquire)(key);
}

void emu_tsan_touch(const void *p, size_t bytes, int write)
{
    void *at;
    memcpy(&at, &p, sizeof at);
    (write ? tsan.write : tsan.read)(at, bytes);
}

/* What the emulator itself copies between fibers is no access of theirs. */
void emu_tsan_own(int own)
{
    if (emu_tsan())
        (own ? tsan.ignore : tsan.heed)();
}

/* Fresh memory of which the checker knows nothing: it is mapped and cleared unseen, and given out
 * slice by slice. The first page holds the barriers' addresses. NULL without memory. */
unsigned char *emu_tsan_slice(void)
{
    if (!tsan_slices) {
        const long p = syscall(SYS_mmap, NULL, TSAN_SLICE * TSAN_SLICES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
        if (p == -1)
            return NULL;
        memcpy(&tsan_slices, &p, sizeof p);
    }
    if (tsan_slice > 0)
        syscall(SYS_madvise, tsan_slices + (tsan_slice - 1) * TSAN_SLICE, TSAN_SLICE, MADV_DONTNEED);
    return tsan_slice < TSAN_SLICES ? tsan_slices + tsan_slice++ * TSAN_SLICE : NULL;
}
