/* SPDX-License-Identifier: MIT */
/* cpu_ceiling.c: measures what this machine can do at most with all threads of the backend. It
 * counts multiply-adds in registers, and bytes to and from memory and the last cache. The loops use
 * the vectors of the kernel set, so a masked set is held against its own peak. A figure is the best
 * of many short turns: on a busy machine one of them runs undisturbed. */
#include "kernels/cpu/cpu_ceiling.h"
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "kernels/cpu/isa/micro.h"
#ifndef GY_NO_TUNING

#define CEILING_SUMS 12         /* independent chains >= latency * width of a processor */
#define CEILING_TURN_NS 1000000 /* length of a turn: shorter than the system's time slice */
#define CEILING_TURNS 16
#define CEILING_CHUNKS 16       /* pieces of a turn's bytes, shared by the threads */
#define CEILING_WALK 4          /* turns for one walk through a buffer beyond the caches */
#define CEILING_MIB ((size_t)1 << 20)

/* loops times CEILING_SUMS vectors of multiply-adds; returns a number that depends on all. x: two
 * factors that the compiler does not know, then a first value a sum. */
typedef float (*ceiling_mul_fn)(int64_t loops, const float *x);
/* count floats, a multiple of 64, on a cache line. A read returns a sum. stream: bypass caches. */
typedef float (*ceiling_read_fn)(const float *x, int64_t count);
typedef void (*ceiling_copy_fn)(float *y, const float *x, int64_t count, int stream);

struct ceiling_set {
    const char *name;       /* of the kernel set */
    double flops, bf16_flops; /* of one vector's multiply-add */
    ceiling_mul_fn mul, bf16; /* bf16 NULL: no instruction */
    ceiling_read_fn read;
    ceiling_copy_fn copy;
};

/* Macros, as a set names its instructions in the call; a measurement is timed, not stepped. */
#define CEILING_MUL(name, attr, vec, fill, step)                                                                       \
    attr static float name(int64_t loops, const float *x)                                                              \
    {                                                                                                                  \
        const vec a = fill(x[0]), b = fill(x[1]);                                                                      \
        vec sum[CEILING_SUMS];                                                                                         \
        float out[sizeof(vec) / sizeof(float)], total = 0.0f;                                                          \
        GY_UNROLL for (int j = 0; j < CEILING_SUMS; j++) sum[j] = fill(x[2 + j]);                                      \
        for (int64_t i = 0; i < loops; i++) {                                                                          \
            GY_UNROLL for (int j = 0; j < CEILING_SUMS; j++) sum[j] = step(sum[j], a, b);                              \
        }                                                                                                              \
        GY_UNROLL for (int j = 0; j < CEILING_SUMS; j++)                                                               \
        {                                                                                                              \
            memcpy(out, &sum[j], sizeof out);                                                                          \
            total += out[0];                                                                                           \
        }                                                                                                              \
        return total;                                                                                                  \
    }

/* Eight vectors a turn. */
#define CEILING_READ(name, attr, vec, lanes, load, add)                                                                \
    attr static float name(const float *x, int64_t count)                                                              \
    {                                                                                                                  \
        vec sum[8];                                                                                                    \
        float out[lanes], total = 0.0f;                                                                                \
        GY_UNROLL for (int j = 0; j < 8; j++) sum[j] = load(x + j * (lanes));                                          \
        for (int64_t i = 0; i < count; i += 8 * (lanes)) {                                                             \
            GY_UNROLL for (int j = 0; j < 8; j++) sum[j] = add(sum[j], load(x + i + j * (lanes)));                     \
        }                                                                                                              \
        GY_UNROLL for (int j = 0; j < 8; j++)                                                                          \
        {                                                                                                              \
            memcpy(out, &sum[j], sizeof out);                                                                          \
            total += out[0];                                                                                           \
        }                                                                                                              \
        return total;                                                                                                  \
    }

#define CEILING_COPY(name, attr, lanes, load, store, stream_store, fence)                                              \
    attr static void name(float *y, const float *x, int64_t count, int stream)                                         \
    {                                                                                                                  \
        for (int64_t i = 0; i < count && !stream; i += 4 * (lanes)) {                                                  \
            GY_UNROLL for (int j = 0; j < 4; j++) store(y + i + j * (lanes), load(x + i + j * (lanes)));               \
        }                                                                                                              \
        for (int64_t i = 0; i < count && stream; i += 4 * (lanes)) {                                                   \
            GY_UNROLL for (int j = 0; j < 4; j++) stream_store(y + i + j * (lanes), load(x + i + j * (lanes)));        \
        }                                                                                                              \
        fence();                                                                                                       \
    }

/* ---- plain C: the compiler's vectors, a multiplication and an addition ---- */

#define CEILING_C_ATTR
typedef float ceiling_f4 __attribute__((vector_size(16)));
GY_ALWAYS ceiling_f4 ceiling_c_fill(float v) { return (ceiling_f4){v, v, v, v}; }
GY_ALWAYS ceiling_f4 ceiling_c_step(ceiling_f4 sum, ceiling_f4 a, ceiling_f4 b) { return sum * a + b; }
GY_ALWAYS ceiling_f4 ceiling_c_load(const float *p)
{
    ceiling_f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
GY_ALWAYS ceiling_f4 ceiling_c_add(ceiling_f4 a, ceiling_f4 b) { return a + b; }
GY_ALWAYS void ceiling_c_store(float *p, ceiling_f4 v) { memcpy(p, &v, sizeof v); }
GY_ALWAYS void ceiling_c_fence(void) {}
CEILING_MUL(ceiling_c_mul, CEILING_C_ATTR, ceiling_f4, ceiling_c_fill, ceiling_c_step)
CEILING_READ(ceiling_c_read, CEILING_C_ATTR, ceiling_f4, 4, ceiling_c_load, ceiling_c_add)
CEILING_COPY(ceiling_c_copy, CEILING_C_ATTR, 4, ceiling_c_load, ceiling_c_store, ceiling_c_store, ceiling_c_fence)

#if defined(__x86_64__)
#include <immintrin.h>

#define CEILING_AVX2_ATTR __attribute__((target("avx2,fma")))
CEILING_MUL(ceiling_avx2_mul, CEILING_AVX2_ATTR, __m256, _mm256_set1_ps, _mm256_fmadd_ps)
CEILING_READ(ceiling_avx2_read, CEILING_AVX2_ATTR, __m256, 8, _mm256_loadu_ps, _mm256_add_ps)
CEILING_COPY(ceiling_avx2_copy, CEILING_AVX2_ATTR, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps, _mm_sfence)

#define CEILING_A512_ATTR __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
CEILING_MUL(ceiling_a512_mul, CEILING_A512_ATTR, __m512, _mm512_set1_ps, _mm512_fmadd_ps)
CEILING_READ(ceiling_a512_read, CEILING_A512_ATTR, __m512, 16, _mm512_loadu_ps, _mm512_add_ps)
CEILING_COPY(ceiling_a512_copy, CEILING_A512_ATTR, 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps, _mm_sfence)

/* Pairs of bf16: the floats' halves. */
#define CEILING_BF16_ATTR __attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
CEILING_BF16_ATTR GY_ALWAYS __m512 ceiling_bf16_step(__m512 sum, __m512 a, __m512 b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
CEILING_MUL(ceiling_bf16_mul, CEILING_BF16_ATTR, __m512, _mm512_set1_ps, ceiling_bf16_step)

/* Tiles of zeros, which take as long as others: four sums, twelve products a turn. */
GY_STATIC_ASSERT(CEILING_SUMS == 12, ceiling_amx);
__attribute__((target("amx-tile,amx-bf16"))) static float ceiling_amx_mul(int64_t loops, const float *x)
{
    uint8_t config[64] = {1};
    float row[16 * 16] = {x[0]};
    for (int i = 0; i < 8; i++) {
        config[16 + 2 * i] = 64; /* bytes of a row */
        config[48 + i] = 16;     /* rows */
    }
    __asm__ volatile("" : : "r"(config) : "memory");
    _tile_loadconfig(config);
    for (int64_t i = 0; i < 3 * loops; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, row, 64);
    _tile_release();
    return row[0];
}
#elif defined(__powerpc64__) && defined(__VSX__)
#include <altivec.h>
#undef vector
#undef bool
#undef pixel
#define CEILING_VSX_ATTR
typedef __vector float ceiling_vsx_f4;
CEILING_MUL(ceiling_vsx_mul, CEILING_VSX_ATTR, ceiling_vsx_f4, vec_splats, vec_madd)

#if GY_WITH_MMA
/* Eight accumulators, three times a turn: twice CEILING_SUMS. */
GY_STATIC_ASSERT(CEILING_SUMS == 12, ceiling_mma);
#define CEILING_MMA(name, ger)                                                                                         \
    __attribute__((target("cpu=power10"))) static float name(int64_t loops, const float *x)                            \
    {                                                                                                                  \
        const __vector unsigned char a = (__vector unsigned char)vec_xl(0, x), b = (__vector unsigned char)vec_xl(4, x); \
        __vector_quad sum[8];                                                                                          \
        ceiling_vsx_f4 out[8][4];                                                                                      \
        float total = 0.0f;                                                                                            \
        GY_UNROLL for (int j = 0; j < 8; j++) __builtin_mma_xxsetaccz(&sum[j]);                                        \
        for (int64_t i = 0; i < 3 * loops; i++) {                                                                      \
            GY_UNROLL for (int j = 0; j < 8; j++) ger(&sum[j], a, b);                                                  \
        }                                                                                                              \
        GY_UNROLL for (int j = 0; j < 8; j++) __builtin_mma_disassemble_acc(out[j], &sum[j]);                          \
        for (int j = 0; j < 8; j++)                                                                                    \
            total += out[j][0][0];                                                                                     \
        return total;                                                                                                  \
    }
CEILING_MMA(ceiling_mma_mul, __builtin_mma_xvf32gerpp)
CEILING_MMA(ceiling_mma_bf16_mul, __builtin_mma_xvbf16ger2pp)
#endif
#endif

/* The last row serves every other name. */
static const struct ceiling_set ceiling_sets[] = {
#if defined(__x86_64__)
    {"amx", 32, 16384, ceiling_a512_mul, ceiling_amx_mul, ceiling_a512_read, ceiling_a512_copy},
    {"avx512bf16", 32, 64, ceiling_a512_mul, ceiling_bf16_mul, ceiling_a512_read, ceiling_a512_copy},
    {"avx512", 32, 32, ceiling_a512_mul, NULL, ceiling_a512_read, ceiling_a512_copy},
    {"avx2", 16, 16, ceiling_avx2_mul, NULL, ceiling_avx2_read, ceiling_avx2_copy},
#elif defined(__powerpc64__) && defined(__VSX__)
#if GY_WITH_MMA
    {"mma", 64, 128, ceiling_mma_mul, ceiling_mma_bf16_mul, ceiling_c_read, ceiling_c_copy},
#endif
    {"vsx", 8, 8, ceiling_vsx_mul, NULL, ceiling_c_read, ceiling_c_copy},
#endif
    {"portable", 8, 8, ceiling_c_mul, NULL, ceiling_c_read, ceiling_c_copy},
};

static const struct ceiling_set *ceiling_find(const char *name)
{
    size_t i = 0;
    while (i + 1 < GY_COUNT(ceiling_sets) && strcmp(ceiling_sets[i].name, name) != 0)
        i++;
    return &ceiling_sets[i];
}

/* What the threads do in one turn. */
struct ceiling_job {
    const struct ceiling_set *set;
    ceiling_mul_fn mul;
    int64_t loops;        /* of mul */
    float factor[2 + CEILING_SUMS];
    float *y;             /* of the present turn */
    const float *x;
    int64_t count;        /* floats of a chunk */
    int64_t walk;         /* turns after which a walk through the buffer begins again */
    int stream;
    volatile float sink[CEILING_CHUNKS]; /* what was computed: the work cannot be left out */
};

static void ceiling_mul_tile(void *arg, int64_t tile, int thread)
{
    struct ceiling_job *job = arg;
    job->sink[tile % CEILING_CHUNKS] = job->mul(job->loops, job->factor);
    (void)thread;
}

static void ceiling_read_tile(void *arg, int64_t tile, int thread)
{
    struct ceiling_job *job = arg;
    job->sink[tile] = job->set->read(job->x + tile * job->count, job->count);
    (void)thread;
}

static void ceiling_copy_tile(void *arg, int64_t tile, int thread)
{
    struct ceiling_job *job = arg;
    job->set->copy(job->y + tile * job->count, job->x + tile * job->count, job->count, job->stream);
    (void)thread;
}

/* Nanoseconds of the fastest of some turns; the first walk warms caches and clocks. */
static double ceiling_best(struct gy_pool *pool, gy_tile_fn fn, struct ceiling_job *job, int64_t tiles)
{
    int64_t best = INT64_MAX;
    float *const y = job->y;
    const float *const x = job->x;
    for (int64_t i = 0; i < job->walk + CEILING_TURNS; i++) {
        const int64_t at = i % job->walk * CEILING_CHUNKS * job->count;
        job->x = x + at;
        job->y = y + at;
        const int64_t start = gy_clock_ns();
        gy_pool_run(pool, fn, job, tiles);
        best = i < job->walk ? best : gy_min64(best, gy_clock_ns() - start);
    }
    return (double)gy_max64(best, 1);
}

/* Nanoseconds of one thread, the best of three. */
static int64_t ceiling_mul_alone(struct ceiling_job *job)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        const int64_t start = gy_clock_ns();
        ceiling_mul_tile(job, 0, 0);
        best = gy_min64(best, gy_clock_ns() - start);
    }
    return best;
}

/* GFLOP/s of all threads. */
static double ceiling_peak(const struct gy_cpu *cpu, struct ceiling_job *job, ceiling_mul_fn mul, double flops)
{
    job->mul = mul;
    job->loops = 1024;
    while (ceiling_mul_alone(job) < CEILING_TURN_NS && job->loops < (int64_t)1 << 32)
        job->loops *= 2;
    const double best = ceiling_best(cpu->pool, ceiling_mul_tile, job, cpu->threads);
    return flops * CEILING_SUMS * (double)job->loops * cpu->threads / best;
}

/* GB/s over bytes of memory, 1 / walk of them a turn: reads all; copies one half to the other. */
static double ceiling_read(const struct gy_cpu *cpu, struct ceiling_job *job, float *memory, size_t bytes)
{
    job->x = job->y = memory;
    job->count = (int64_t)(bytes / sizeof(float)) / (CEILING_CHUNKS * job->walk);
    return (double)job->count * 4 * CEILING_CHUNKS / ceiling_best(cpu->pool, ceiling_read_tile, job, CEILING_CHUNKS);
}

static double ceiling_copy(const struct gy_cpu *cpu, struct ceiling_job *job, float *memory, size_t bytes)
{
    job->x = memory;
    job->y = memory + bytes / 2 / sizeof(float);
    job->count = (int64_t)(bytes / 2 / sizeof(float)) / (CEILING_CHUNKS * job->walk);
    const double moved = 8.0 * (double)job->count * CEILING_CHUNKS;
    return moved / ceiling_best(cpu->pool, ceiling_copy_tile, job, CEILING_CHUNKS);
}

/* The largest buffer that is read nearer to the cache's speed than to memory's. The system may give
 * the last cache of a whole machine of which this is a part. */
static double ceiling_cache_bytes(const struct gy_cpu *cpu, struct ceiling_job *job, float *memory, size_t bytes,
                                  size_t cached, const struct gy_ceilings *c)
{
    size_t last = cached;
    for (size_t next = 2 * cached; next < bytes; next *= 2) {
        if (ceiling_read(cpu, job, memory, next) < sqrt(c->read * c->cache_read))
            break;
        last = next;
    }
    return (double)last;
}

static void ceiling_peaks(const struct gy_cpu *cpu, struct ceiling_job *job, struct gy_ceilings *c)
{
    c->f32 = fmax(c->f32, ceiling_peak(cpu, job, job->set->mul, job->set->flops));
    if (job->set->bf16)
        c->bf16 = fmax(c->bf16, ceiling_peak(cpu, job, job->set->bf16, job->set->bf16_flops));
    else
        c->bf16 = c->f32;
}

GY_INT int gy_cpu_ceilings(const struct gy_cpu *cpu, const struct gy_alloc *alloc, struct gy_ceilings *out)
{
    const size_t last = gy_cpu_cache_bytes(3), most = (cpu->threads > 8 ? 512 : 128) * CEILING_MIB;
    const size_t bytes = last < most / 4 ? gy_align_up(4 * last, CEILING_MIB) : most;
    const size_t share = 4 * CEILING_MIB * (size_t)cpu->threads;
    const size_t cached = gy_align_up(share < bytes / 16 ? share : bytes / 16, CEILING_MIB);
    void *const raw = gy_alloc_take(alloc, 1, bytes + GY_CACHE_LINE);
    if (!raw)
        return GY_E_NOMEM;
    float *const memory = (float *)(void *)((unsigned char *)raw + (-(uintptr_t)raw & (GY_CACHE_LINE - 1)));
    struct ceiling_job job = { .set = ceiling_find(cpu->k.name), .x = memory, .y = memory, .walk = 1 };
    struct gy_ceilings c = { .f32 = 0.0 };
    job.factor[0] = 0.5f;
    job.factor[1] = 0.25f;
    ceiling_peaks(cpu, &job, &c);
    c.cache_read = ceiling_read(cpu, &job, memory, cached);
    c.cache_copy = ceiling_copy(cpu, &job, memory, cached);
    job.stream = 1;
    job.walk = CEILING_WALK;
    c.read = ceiling_read(cpu, &job, memory, bytes);
    c.copy = ceiling_copy(cpu, &job, memory, bytes);
    job.walk = 1;
    c.cache_bytes = ceiling_cache_bytes(cpu, &job, memory, bytes, cached, &c);
    job.x = job.y = memory;
    ceiling_peaks(cpu, &job, &c); /* again, lest another program had a core the first time */
    gy_alloc_free(alloc, raw, bytes + GY_CACHE_LINE);
    *out = c;
    return GY_OK;
}

#endif
