/* SPDX-License-Identifier: MIT */
/* faults.cu: every fault that a kernel can have, planted where a comment says HERE and its name.
 * With GY_RIGHT the same kernels are correct, and nothing may be found in them. */
#include "prelude.cuh"

#ifdef GY_RIGHT
#define WRONG(wrong, right) right
#else
#define WRONG(wrong, right) wrong
#endif

struct room {
    float v[GY_THREADS];
};

/* Reverses x in shared memory. Without the barrier a thread may read before its partner has
 * written. */
GY_KERNEL(missing_barrier)
{
    GY_SHARED(struct room, s);
    s->v[GY_TID] = 0.0f;
    GY_SYNC();
    s->v[GY_TID] = GY_P(const float, GY_X)[GY_TID];
    WRONG(, GY_SYNC());
    GY_P(float, GY_Y)[GY_TID] = s->v[GY_THREADS - 1 - GY_TID]; /* HERE missing_barrier */
}

/* The second round overwrites what others still read. */
GY_KERNEL(write_after_read)
{
    GY_SHARED(struct room, s);
    float sum = 0.0f;
    for (int i = 0; i < 3; i++) {
        s->v[GY_TID] = (float)i;
        GY_SYNC();
        sum += s->v[(GY_TID + 33) % GY_THREADS]; /* HERE write_after_read */
        WRONG(, GY_SYNC());
    }
    GY_P(float, GY_Y)[GY_TID] = sum;
}

/* Two threads write the same place. */
GY_KERNEL(write_write)
{
    GY_SHARED(struct room, s);
    s->v[WRONG(GY_TID / 2, GY_TID)] = 1.0f; /* HERE write_write */
    GY_SYNC();
    GY_P(float, GY_Y)[GY_TID] = s->v[GY_TID / 2];
}

/* Two threads of a block exchange through device memory without a barrier. */
GY_KERNEL(global_race)
{
    float *y = GY_P(float, GY_Y);
    y[GY_TID] = 1.0f;
    WRONG(, GY_SYNC());
    const float v = y[GY_TID ^ 1]; /* HERE global_race */
    GY_SYNC();
    y[GY_TID] = v;
}

/* Blocks write into each other's part of y. */
GY_KERNEL(blocks_race)
{
    GY_P(float, GY_Y)[GY_BX * (WRONG(GY_THREADS - 1, GY_THREADS)) + GY_TID] = (float)GY_BX; /* HERE blocks_race */
}

/* All add to one place, and read it as if nobody did. */
GY_KERNEL(live_race)
{
    float *y = GY_P(float, GY_Y);
    gy_atomic_add(y, gy_load_live(y + 1) + 1.0f);
    WRONG(, GY_SYNC());
    const float v = y[0]; /* HERE live_race */
    GY_SYNC();
    y[GY_TID] = v;
}

/* Sums of 16-bit neighbours: no race, though threads share words of 4 bytes. */
GY_KERNEL(halves)
{
    uint16_t *y = GY_P(uint16_t, GY_Y);
    y[GY_TID] = (uint16_t)GY_TID;
    GY_SYNC();
    const uint16_t v = y[GY_THREADS - 1 - GY_TID];
    GY_SYNC();
    y[GY_TID] = WRONG(v, v);
    WRONG(y[GY_TID ^ 2] = 0, (void)0); /* HERE halves */
}

GY_KERNEL(outside_global)
{
    GY_P(float, GY_Y)[GY_TID + WRONG(1, 0)] = 1.0f; /* HERE outside_global */
}

GY_KERNEL(outside_shared)
{
    GY_SHARED(struct room, s);
    s->v[GY_TID + WRONG(1, 0)] = 1.0f; /* HERE outside_shared */
    GY_SYNC();
    GY_P(float, GY_Y)[GY_TID] = s->v[GY_TID];
}

/* Y was freed before the launch. */
GY_KERNEL(freed)
{
    GY_P(float, GY_Y)[GY_TID] = 1.0f; /* HERE freed */
}

/* BIAS is an address of the host. */
GY_KERNEL(host_memory)
{
    const float *b = GY_P(const float, GY_BIAS);
    GY_P(float, GY_Y)[GY_TID] = b[0]; /* HERE host_memory */
}

GY_KERNEL(misaligned)
{
    const struct gy_raw16 v = gy_load16(GY_P(const char, GY_X) + WRONG(8, 16)); /* HERE misaligned */
    if (GY_TID == 0)
        gy_store16(GY_P(char, GY_Y), v);
}

/* A barrier that half of the threads reach elsewhere. */
GY_KERNEL(divergent)
{
    GY_SHARED(struct room, s);
    s->v[GY_TID] = 1.0f;
#ifdef GY_RIGHT
    GY_SYNC();
#else
    if (GY_TID < 32)
        GY_SYNC();
    else
        GY_SYNC(); /* HERE divergent */
#endif
    GY_P(float, GY_Y)[GY_TID] = s->v[GY_TID ^ 32];
}

/* One thread leaves before the barrier, which is allowed. Its place was never written, which is
 * found. */
GY_KERNEL(never_written)
{
    GY_SHARED(struct room, s);
    WRONG(if (GY_TID == 5) return, (void)0);
    s->v[GY_TID] = 2.0f;
    GY_SYNC();
    GY_P(float, GY_Y)[GY_TID] = s->v[(GY_TID + 1) % GY_THREADS]; /* HERE never_written */
}

GY_KERNEL(missing_lane)
{
    float v = (float)GY_TID;
    if (GY_TID != WRONG(7, -1))
        v = gy_shfl_xor(v, 1); /* HERE missing_lane */
    GY_SYNC();
    GY_P(float, GY_Y)[GY_TID] = v;
}

/* A thread follows the address of another one's variable. */
GY_KERNEL(other_stack)
{
    GY_SHARED(struct room, s);
    float mine[4] = {0};
    float **where = (float **)(void *)s;
    if (GY_TID == 0)
        *where = mine;
    GY_SYNC();
    if (GY_TID == WRONG(3, 0))
        (*where)[1] = 4.0f; /* HERE other_stack */
    GY_SYNC();
    GY_P(float, GY_Y)[GY_TID] = mine[1];
}

/* A variable larger than the stack, as a GPU's local memory would allow */
GY_KERNEL(too_deep)
{
    volatile float many[WRONG(100000, 10)];
    many[GY_TID % 10] = 1.0f;
    GY_P(float, GY_Y)[GY_TID] = many[GY_TID % 10];
}
