/* SPDX-License-Identifier: MIT */
/* emu.h: the CUDA emulator, a shared library with the names of the CUDA runtime, the driver and
 * NVRTC. The CUDA backend runs on it without knowing. It is written to be read: one file for one
 * idea.
 *
 *   words.h, prelude.cuh   the dialect of kernels in C, for the host's compiler
 *   fiber.c                a CUDA thread is a fiber: its stack, a switch of about 14 instructions
 *   launch.c               a grid: blocks one after the other, the fibers of a block in a random
 *                          order between meetings
 *   warp.c                 what lanes of a warp do together: shuffles, matrices
 *   async.c                cp.async: asynchronous copies
 *   memory.c               device memory: allocations with guard pages, a table of live ones
 *   check.c                every load and store of a kernel: bounds, races, values never written
 *   barrier.c, bulk.c, wgmma.c   sm_90: barriers that count, bulk copies, products of a warp group
 *   clock.c                order between threads that meet without the whole block
 *   tsan.c                 or ThreadSanitizer checks, each fiber one of its threads
 *   report.c               the sentence that says what a kernel did wrong and where
 *   api_runtime.c, api_driver.c, api_nvrtc.c   the exported functions
 *
 * One launch runs at a time, on the calling OS thread; emu_lock guards all of this state. */
#ifndef GY_EMU_H
#define GY_EMU_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/op_device.h"
#include "kernels/cuda/args.h"
#include "tests/emu/words.h"

#define EMU_API __attribute__((visibility("default")))
#define EMU_THREADS_MOST 1024
#define EMU_SHARED_MOST (227 * 1024)
#define EMU_STACK_BYTES ((size_t)128 << 10)

/* Numbers of cudaError_t that the emulator returns. */
enum {
    EMU_OK = 0, EMU_INVALID_VALUE = 1, EMU_NO_MEMORY = 2, EMU_NO_DEVICE = 100, EMU_INVALID_DEVICE = 101, EMU_BAD_IMAGE = 200,
    EMU_INVALID_HANDLE = 400, EMU_NOT_FOUND = 500, EMU_ILLEGAL_ADDRESS = 700, EMU_LAUNCH_FAILED = 719,
    EMU_CAPTURE_WRONG = 900
};

/* ---- fiber.c ---- */

struct emu_fiber {
    void *sp;                         /* where it continues; its registers lie on its stack */
    unsigned char *stack;             /* EMU_STACK_BYTES, a guard page below */
    void *context;                    /* ucontext_t, where there is no switch of our own */
    void *tsan;                       /* ThreadSanitizer's fiber, when it checks */
    const void *asan_stack;           /* AddressSanitizer: of a fiber whose stack is not ours */
    size_t asan_bytes;
    void *asan_fake;
};
/* Makes a fiber start in entry at the next switch; its stack is taken once and used again. 0, or -1
 * without memory. */
int emu_fiber_make(struct emu_fiber *fiber, void (*entry)(void));
void emu_fiber_switch(struct emu_fiber *from, struct emu_fiber *to);
void emu_fiber_begin(void);           /* the first thing that an entry does */
/* the scheduler was reached by longjmp */
void emu_fiber_home(struct emu_fiber *from, struct emu_fiber *scheduler);
void emu_fiber_free(struct emu_fiber *fiber);

/* ---- launch.c ---- */

enum emu_state { EMU_READY, EMU_AT_SYNC, EMU_AT_GROUP, EMU_AT_EVENT, EMU_ENDED };

struct emu_thread {
    struct emu_fiber fiber;
    int tid, state;
    const char *site;                 /* where it waits: "file.cu:12" */
    int word;                         /* at a group: which word, with these records */
    const void *in;
    void *out;
};

struct emu_module {
    struct emu_module *next;
    void *handle;                     /* of dlopen */
    char path[256];                   /* of the shared object, removed with the module */
    const unsigned char *base, *limit; /* where it lies in memory */
    struct emu_function *functions;   /* given out of it */
};

struct emu_function {
    struct emu_function *next;
    struct emu_module *module;
    void (*entry)(const struct gy_args *a);
    char name[96];
    int shared_most;                  /* what cuFuncSetAttribute allowed */
};

struct emu_launch {
    const struct emu_function *function;
    struct gy_args args;
    int grid[3], threads;
    size_t shared;
};

/* What went wrong; filled by the fiber that sees it, told when the block has been left. */
struct emu_fault {
    int set, tid;
    char what[512];                   /* the sentence without its place */
    const void *pc;                   /* instruction, or NULL */
    const char *site;                 /* or the word's place, or NULL */
};

/* The running block. */
struct emu_block {
    struct emu_thread thread[EMU_THREADS_MOST];
    struct emu_fiber scheduler;
    struct emu_thread *now;           /* who runs; NULL: the scheduler */
    int acting;                       /* for which thread; differs in words that one runs for all */
    const struct emu_launch *launch;
    int ready[EMU_THREADS_MOST], ready_count, live;
    unsigned char *shared;            /* launch->shared bytes, a guard page behind */
    unsigned char *keys;              /* ThreadSanitizer: addresses of the block's barriers */
    uint64_t random;
    jmp_buf escape;                   /* of the scheduler, for faults of its own */
    uint32_t epoch, block_epoch, launch_epoch; /* see check.c */
    struct emu_fault fault;
};
extern __attribute__((visibility("hidden"))) struct emu_block *emu_the_block;
static inline struct emu_block *emu_block(void) { return emu_the_block; }

/* Runs a whole grid. 0, or EMU_LAUNCH_FAILED with the sentence in emu_sentence. */
int emu_launch(const struct emu_launch *launch);
/* Parks the running fiber until its state is EMU_READY again. */
void emu_park(int state, const char *site);
void emu_wake(struct emu_thread *thread);
/* Ends the launch: notes the fault of the running thread (the first one counts) and leaves the
 * fiber for good. */
void emu_fail(const char *site, const void *pc, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));
/* The same for a fault that the scheduler sees: returns -1. */
int emu_fault(int tid, const char *site, const char *format, ...) __attribute__((format(printf, 3, 4)));
uint32_t emu_random(uint32_t below);
struct gy_emu_words *emu_words(void);

/* Counts how often words were carried out: those of groups (enum gy_emu_group_word), then these. */
enum {
    EMU_COUNT_WGMMA_F16 = GY_EMU_GROUP_WORDS, EMU_COUNT_WGMMA_BF16, EMU_COUNT_WGMMA_TURNED, EMU_COUNT_COPY_ASYNC, EMU_COUNT_BULK_TILED,
    EMU_COUNT_BULK_IM2COL, EMU_COUNT_BULK_STORE, EMU_COUNT_BAR, EMU_COUNT_SOME, EMU_COUNT_SYNC, EMU_COUNT_LIVE_LOAD, EMU_COUNT_LIVE_ADD,
    EMU_COUNTS
};
extern __attribute__((visibility("hidden"))) unsigned long long emu_counts[EMU_COUNTS];

/* ---- warp.c ---- */

int emu_group_lanes(int word);        /* how many threads carry out a word together */
void emu_group_run(int word, struct emu_thread *lane); /* all operands are there */

float emu_f16(unsigned half);
float emu_bf16(unsigned half);

/* ---- async.c ---- */

void emu_copy_async(void *shared, const void *global, int valid, const char *site, const void *pc);
void emu_copy_commit(void);
void emu_copy_wait(int newest);
void emu_async_block(void);           /* forgets what is under way, at the start of a block */

/* ---- memory.c ---- */

struct emu_range {
    unsigned char *base, *mapping;
    size_t bytes, mapped;
    struct emu_cell *shadow;          /* two a word of 4 bytes, see check.c */
    uint64_t number;                  /* counts allocations */
    int pinned;                       /* host memory: not reachable from kernels */
};
int emu_memory_get(void **out, size_t bytes, int pinned);
int emu_memory_put(void *p);
/* The allocation that holds p, or the nearest live one, or NULL; inside: all bytes lie in it. */
struct emu_range *emu_memory_find(const void *p, size_t bytes, int *inside);
/* Ended allocations, the last few of which are remembered for reports. */
const struct emu_range *emu_memory_dead(const void *p);
void emu_memory_open(int open);       /* device memory may be touched by this process */
size_t emu_memory_used(void);

/* ---- check.c ---- */

struct emu_cell {
    uint64_t write, read;
};
void emu_access(const void *p, unsigned long bytes, int write, const void *pc);
void emu_aligned(const void *p, unsigned long bytes, const void *pc);
/* gy_load_live, gy_atomic_add */
float emu_live(float *p, float v, int add, const char *site, const void *pc);
int emu_check_block(void); /* a block starts: shared memory is unwritten. 0, or -1 without memory */
/* An access that a word of the dialect makes for thread b->acting; what: "a tile's row reads".
 * Fails the launch as an access does. */
void emu_check_shared(const void *p, size_t bytes, int write, const char *what, const char *site, const void *pc);
void emu_check_global(const void *p, size_t bytes, int write, const char *what, const char *site, const void *pc);
/* Says that an asynchronous copy of the acting thread is writing (1) or reading (2) this shared
 * memory, or has ended (0). */
void emu_check_flying(const void *p, size_t bytes, int flying);
/* a bulk copy of the acting agent has written there */
void emu_check_landed(const void *p, size_t bytes, const char *site);
/* A read past the threads' own way to memory: what threads stored must have been fenced. */
void emu_check_async(const void *p, size_t bytes, const char *what, const char *site);

/* ---- clock.c ---- */

/* Numbers of what acts: threads, products of warp groups, bulk copies by their barrier. */
enum { EMU_AGENT_GROUP = EMU_THREADS_MOST, EMU_AGENT_BAR = EMU_AGENT_GROUP + 8, EMU_IDS = EMU_AGENT_BAR + 48 };
struct emu_order {
    void *key;                        /* ThreadSanitizer's name of the released order */
    uint32_t epoch;
    uint16_t seen[EMU_IDS];
};
/* since the epoch began; else nobody has seen anything */
extern __attribute__((visibility("hidden"))) int emu_clock_used;
void emu_clock_start(void);           /* of an epoch */
extern __attribute__((visibility("hidden"))) uint16_t emu_clock_time;
static inline unsigned emu_clock_now(void) { return emu_clock_time; } /* below 2^15 */
/* what id did until then has happened for the other one */
int emu_clock_before(int id, unsigned stamp, int other);
void emu_clock_release(int id, struct emu_order *order);
void emu_clock_acquire(int id, const struct emu_order *order);
/* what from did, and if all what it has seen, has happened for to */
void emu_clock_pass(int from, int to, int all);
void emu_clock_fence(int id);
int emu_clock_fenced(int id, uint32_t epoch, unsigned stamp);

/* ---- tsan.c ---- */

/* 0 not asked yet, 1 in use, -1 not */
extern __attribute__((visibility("hidden"))) int emu_tsan_state;
int emu_tsan_ask(void);
/* ThreadSanitizer checks in place of check.c */
static inline int emu_tsan(void) { return (emu_tsan_state ? emu_tsan_state : emu_tsan_ask()) > 0; }
void emu_tsan_fiber(void **fiber, int tid);
void *emu_tsan_here(void);
void emu_tsan_switch(void *fiber);
void emu_tsan_order(void *key, int release);
void emu_tsan_touch(const void *p, size_t bytes, int write);
void emu_tsan_own(int own);
unsigned char *emu_tsan_slice(void);

/* ---- barrier.c ---- */

void emu_barrier_block(void);
void emu_bar_init(void *at, int arrivals, const char *site);
void emu_bar_init_done(void);
void emu_bar_arrive(void *at, int bytes, const char *site);
void emu_bar_wait(void *at, int parity, const char *site);
int emu_bar_agent(const void *at, const char *site); /* for a bulk copy whose bytes it counts */
void emu_bar_bytes(int agent, int bytes);            /* have come */
void emu_bar_explain(const void *at, char *room, size_t bytes);
void emu_some(int id, int threads, int waits, const char *site);
void emu_registers(int count, int more, const char *site);

/* ---- bulk.c ---- */

int emu_map_tiled(void *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill);
int emu_map_im2col(void *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides, const int *lower,
                   const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int l2,
                   int fill);
void emu_bulk_load(void *shared, const void *map, void *bar, const int *c, int rank, const int *offset, const char *site);
void emu_bulk_store(const void *map, const void *shared, const int *c, int rank, const char *site);
void emu_bulk_commit(void);
void emu_bulk_wait(int newest);
void emu_bulk_block(void);
int emu_bulk_end(void);               /* 0, or a fault is set: a load is under way */
int emu_bulk_pending(void);
int emu_bulk_some(void);              /* finishes one load; 0: there is none */
size_t emu_swizzled(size_t offset, int swizzle); /* 0 none, 1: 32 bytes, 2: 64, 3: 128 */

/* ---- wgmma.c ---- */

void emu_wgmma_block(void);
void emu_wgmma_run(int word, struct emu_thread *lane);

/* ---- report.c ---- */

void emu_report(const struct emu_launch *launch, const struct emu_fault *fault, const int block[3]);
void emu_report_line(const struct emu_module *m, const void *pc, char *out, size_t bytes);
const char *emu_sentence(void);       /* of the last fault, or "" */
/* Sets the sentence of a call that is refused; returns the error. */
int emu_refuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emu_sentence_clear(void);

/* ---- api ---- */

void emu_lock(void);
void emu_unlock(void);
int emu_arch(void);                   /* GYRE_EMU_ARCH, 80 */
/* a launch failed before: everything fails until cudaDeviceReset, as on a GPU */
int emu_failed(void);
void emu_set_failed(int failed);
/* of this process, for files that the host's compiler and dlopen need; "" if none */
const char *emu_folder(void);
int emu_write_file(const char *path, const void *data, size_t bytes);
/* If the stream is being captured, notes the launch or the copy and returns 1. */
struct emu_copy {
    void *dst;
    const void *src;                  /* NULL: fill with value */
    size_t bytes;
    int kind, value;
};
int emu_capture(void *stream, const struct emu_launch *launch, const struct emu_copy *copy, int *status);

#endif
