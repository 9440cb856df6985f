/* SPDX-License-Identifier: MIT */
/* words.h: the table through which a kernel compiled as C reaches the emulator. Words of the
 * dialect that are more than C end in a call of one of these functions. A kernel's file holds a
 * pointer to it, set when the module is loaded. `place` always describes the fiber that runs.
 * prelude.cuh and the emulator read it. */
#ifndef GY_EMU_WORDS_H
#define GY_EMU_WORDS_H

struct gy_emu_place {
    int tid, threads;          /* in the block */
    int block[3], grid[3];
    unsigned char *shared;     /* the block's shared memory */
    unsigned long stack, stack_bytes; /* the thread's own, where it may do what it wants */
};

/* Words that a whole warp (or warp group) executes together. `in` and `out` are records on each
 * lane's stack. */
enum gy_emu_group_word {
    GY_EMU_SHFL_XOR, GY_EMU_SHFL_DOWN, GY_EMU_SHFL,
    GY_EMU_LDMATRIX4, GY_EMU_LDMATRIX4_TURNED,
    GY_EMU_MMA_8_8_4_F16, GY_EMU_MMA_16_8_8_F16, GY_EMU_MMA_16_8_16_F16, GY_EMU_MMA_16_8_16_BF16,
    GY_EMU_WARP_SYNC,
    /* 128 threads; wait: in is int */
    GY_EMU_WGMMA, GY_EMU_WGMMA_FENCE, GY_EMU_WGMMA_COMMIT, GY_EMU_WGMMA_WAIT,
    GY_EMU_GROUP_WORDS
};
struct gy_emu_shfl {
    unsigned value;
    int which; /* mask, distance or lane */
};
/* Fragments of one lane, as registers; unused ones are not read. */
struct gy_emu_mma {
    float d[8];
    unsigned a[4], b[2];
};
struct gy_emu_wgmma {
    unsigned long long a, b; /* descriptions of the tiles */
    int columns, f16, add, turn_a, turn_b;
    float *d;
};

struct gy_emu_words {
    struct gy_emu_place place;
    void (*access)(const void *p, unsigned long bytes, int write, const void *pc);
    void (*aligned)(const void *p, unsigned long bytes, const void *pc);
    void (*sync)(const char *site);
    void (*group)(int word, const char *site, const void *in, void *out);
    /* 16 bytes */
    void (*copy_async)(void *shared, const void *global, int valid, const char *site, const void *pc);
    void (*copy_commit)(void);
    void (*copy_wait)(int newest);
    /* sm_90 */
    void (*bar_init)(void *bar, int arrivals, const char *site);
    void (*bar_init_done)(void);
    void (*bar_arrive)(void *bar, int bytes, const char *site);
    void (*bar_wait)(void *bar, int parity, const char *site);
    void (*bulk_load)(void *shared, const void *map, void *bar, const int *c, int rank, const int *offset, const char *site);
    void (*bulk_store)(const void *map, const void *shared, const int *c, int rank, const char *site);
    void (*bulk_commit)(void);
    void (*bulk_wait)(int newest);
    void (*fence_async)(void);
    void (*some)(int id, int threads, int waits, const char *site);
    void (*registers)(int count, int more, const char *site);
    /* what is there; add: and v more from now on */
    float (*live)(float *p, float v, int add, const char *site, const void *pc);
};

#endif
