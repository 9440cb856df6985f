/* SPDX-License-Identifier: MIT */
/* hopper.cuh: words of the dialect that only sm_90a has; prelude.cuh includes it there. Like that
 * file it exists twice: here in inline PTX, and for the emulator in C. Blocks are not clustered.
 *
 * Barriers that count: a uint64_t in shared memory. A phase ends when as many arrivals as
 * gy_bar_init said, and as many bytes as were expected, have come. Phases alternate in parity; the
 * first is 0. A wait for the parity of the phase before the current one returns at once.
 *   gy_bar_init(bar, arrivals); gy_bar_init_done() by the same thread; then GY_SYNC
 *   gy_bar_arrive(bar)   gy_bar_expect(bar, bytes): arrives, too      gy_bar_wait(bar, parity)
 * Bulk copies of a box that a tensor map (args.map) describes. One thread starts them. Shared
 * memory lies on 128 bytes, with a swizzle of 128 bytes on 1024. They bring whole boxes, zeros
 * outside the tensor, and count on the barrier.
 *   gy_bulk_load2(shared, map, bar, c0, c1), gy_bulk_load4(shared, map, bar, c0, c1, c2, c3)
 *   gy_bulk_im2col(shared, map, bar, c, w, h, n, off_w, off_h)
 *   gy_bulk_store2(map, shared, c0, c1); gy_bulk_commit();
 *   gy_bulk_wait_read(n): all but the newest n groups have been read
 *   gy_map_fetch(map)    brings a map into the cache early
 *   gy_fence_async()     bulk copies and wgmma see this thread's stores in shared memory; a barrier
 *                        follows
 * Products of 128 threads (a warp group, 4 warps from a multiple of 4): d[64][N] (+)= a[64][16]
 * b[16][N]. Thread t holds d[i] = (16 * (t / 32) + t % 32 / 4 + i / 2 % 2 * 8, i / 4 * 8 + t % 4 *
 * 2 + i % 2). add 0: d = 0 first. turn 0: an operand lies with k innermost, turn 1: with m or n
 * innermost.
 *   gy_wgmma_fence()     before the first one, and after other code has touched d
 *   gy_wgmma_64(d, a, b, add, turn_a, turn_b), _128, _192, _256: float d[N / 2];
 *                        a, b from gy_wgmma_tile; bf16 or f16 by GY_DTYPE
 *   gy_wgmma_commit(); gy_wgmma_wait(n): all but the newest n groups are done; d is in use before
 *   gy_wgmma_hold(v)     for every float of d behind the last wait: its uses do not move before it
 *   gy_wgmma_tile(shared, lbo, sbo, swizzle): swizzle 0 none, 1: 32 bytes, 2: 64, 3: 128.
 *                        k innermost: rows of the swizzle's width, 8 rows in a piece, sbo bytes
 *                        from one piece to the next along m or n (no swizzle: pieces are 8 x 16
 *                        bytes, lbo apart along k). m or n innermost: lbo bytes between pieces
 *                        along m or n, sbo along k (no swizzle: the other way round). The start may
 *                        be moved by bytes along k within the swizzle's width.
 * Others
 *   gy_some_sync(id, threads), gy_some_arrive(id, threads): barriers 1 to 15 for some warps
 *   gy_warp_sync()       the warp sees its own stores
 *   gy_registers_less(n), gy_registers_more(n): registers a thread of the warp group may have, a
 *                        multiple of 8 */
#ifndef GY_HOPPER_CUH
#define GY_HOPPER_CUH

GY_FN uint32_t gy_at(const void *shared) { return (uint32_t)__cvta_generic_to_shared(shared); }

GY_FN void gy_bar_init(uint64_t *bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(gy_at(bar)), "r"(arrivals) : "memory");
}
GY_FN void gy_bar_init_done(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
GY_FN void gy_bar_arrive(uint64_t *bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(gy_at(bar)) : "memory");
}
GY_FN void gy_bar_expect(uint64_t *bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(gy_at(bar)), "r"(bytes) : "memory");
}
GY_FN void gy_bar_wait(uint64_t *bar, int parity)
{
    uint32_t done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(gy_at(bar)), "r"(parity) : "memory");
    while (!done);
}

GY_FN void gy_bulk_load2(void *shared, const struct gy_tensor_map *map, uint64_t *bar, int c0, int c1)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                     gy_at(shared)), "l"(map), "r"(gy_at(bar)), "r"(c0), "r"(c1) : "memory");
}
GY_FN void gy_bulk_load4(void *shared, const struct gy_tensor_map *map, uint64_t *bar, int c0, int c1, int c2, int c3)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
                 "[%2];" ::"r"(gy_at(shared)), "l"(map), "r"(gy_at(bar)), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
GY_FN void gy_bulk_im2col(void *shared, const struct gy_tensor_map *map, uint64_t *bar, int c, int w, int h, int n, int off_w,
                          int off_h)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
                 "[%2], {%7, %8};" ::"r"(gy_at(shared)), "l"(map), "r"(gy_at(bar)), "r"(c), "r"(w), "r"(h), "r"(n),
                 "h"((uint16_t)off_w), "h"((uint16_t)off_h) : "memory");
}
GY_FN void gy_bulk_store2(const struct gy_tensor_map *map, const void *shared, int c0, int c1)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(gy_at(shared)),
                 "r"(c0), "r"(c1) : "memory");
}
GY_FN void gy_bulk_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define gy_bulk_wait_read(n) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory")
GY_FN void gy_map_fetch(const struct gy_tensor_map *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
GY_FN void gy_fence_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define gy_some_sync(id, threads) asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory")
#define gy_some_arrive(id, threads) asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory")
#define gy_warp_sync() __syncwarp()
#define gy_registers_less(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))
#define gy_registers_more(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))

GY_FN uint64_t gy_wgmma_tile(const void *shared, int lbo, int sbo, int swizzle)
{
    const uint64_t mode = swizzle == 0 ? 0 : (uint64_t)(4 - swizzle);
    return (uint64_t)(gy_at(shared) >> 4 & 0x3fff) | (uint64_t)(lbo >> 4 & 0x3fff) << 16 | (uint64_t)(sbo >> 4 & 0x3fff) << 32 |
           mode << 62;
}
GY_FN void gy_wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
GY_FN void gy_wgmma_hold(float *v) { asm volatile("" : "+f"(*v)::"memory"); }
GY_FN void gy_wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define gy_wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

#if GY_DTYPE == 2
#define GY_WGMMA_TYPE "f16.f16"
#else
#define GY_WGMMA_TYPE "bf16.bf16"
#endif
/* 32 operands, and their names from %i on */
#define GY_D4(d, i) "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3])
#define GY_D16(d, i) GY_D4(d, i), GY_D4(d, (i) + 4), GY_D4(d, (i) + 8), GY_D4(d, (i) + 12)
#define GY_D32(d, i) GY_D16(d, i), GY_D16(d, (i) + 16)
#define GY_R10(t) "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9"
#define GY_R32 GY_R10("") ", " GY_R10("1") ", " GY_R10("2") ", %30, %31"
#define GY_R64 GY_R32 ", %32, %33, %34, %35, %36, %37, %38, %39, " GY_R10("4") ", " GY_R10("5") ", %60, %61, %62, %63"
#define GY_R96 GY_R64 ", %64, %65, %66, %67, %68, %69, " GY_R10("7") ", " GY_R10("8") ", %90, %91, %92, %93, %94, %95"
#define GY_R128 GY_R96 ", %96, %97, %98, %99, " GY_R10("10") ", " GY_R10("11") ", %120, %121, %122, %123, %124, %125, %126, %127"
#define GY_WGMMA(width, names, a_, b_, add_, ta_, tb_, operands, a, b, add, turn_a, turn_b)                            \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " add_ ", 0; wgmma.mma_async.sync.aligned.m64n" width                 \
                 "k16.f32." GY_WGMMA_TYPE " {" names "}, " a_ ", " b_ ", p, 1, 1, " ta_ ", " tb_ "; }"                 \
                 : operands : "l"(a), "l"(b), "r"((int)(add)), "n"(turn_a), "n"(turn_b))
#define GY_COMMA ,
#define gy_wgmma_64(d, a, b, add, turn_a, turn_b)                                                                      \
    GY_WGMMA("64", GY_R32, "%32", "%33", "%34", "%35", "%36", GY_D32(d, 0), a, b, add, turn_a, turn_b)
#define gy_wgmma_128(d, a, b, add, turn_a, turn_b)                                                                     \
    GY_WGMMA("128", GY_R64, "%64", "%65", "%66", "%67", "%68", GY_D32(d, 0) GY_COMMA GY_D32(d, 32), a, b, add, turn_a, turn_b)
#define gy_wgmma_192(d, a, b, add, turn_a, turn_b)                                                                     \
    GY_WGMMA("192", GY_R96, "%96", "%97", "%98", "%99", "%100",                                                        \
             GY_D32(d, 0) GY_COMMA GY_D32(d, 32) GY_COMMA GY_D32(d, 64), a, b, add, turn_a, turn_b)
#define gy_wgmma_256(d, a, b, add, turn_a, turn_b)                                                                     \
    GY_WGMMA("256", GY_R128, "%128", "%129", "%130", "%131", "%132",                                                   \
             GY_D32(d, 0) GY_COMMA GY_D32(d, 32) GY_COMMA GY_D32(d, 64) GY_COMMA GY_D32(d, 96), a, b, add, turn_a, turn_b)

#endif
