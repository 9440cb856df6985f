/* SPDX-License-Identifier: MIT */
/* hopper.cuh: the words of sm_90 (kernels/cuda/hopper.cuh lists them) for the emulator. */
#ifndef GY_HOPPER_CUH
#define GY_HOPPER_CUH

#define GY_EMU_WORD static __attribute__((noinline, unused)) GY_EMU_PLAIN

GY_EMU_WORD void gy_emu_bar_init(uint64_t *bar, int arrivals, const char *site) { gy_emu->bar_init(bar, arrivals, site); }
GY_EMU_WORD void gy_bar_init_done(void) { gy_emu->bar_init_done(); }
GY_EMU_WORD void gy_emu_bar_arrive(uint64_t *bar, int bytes, const char *site) { gy_emu->bar_arrive(bar, bytes, site); }
GY_EMU_WORD void gy_emu_bar_wait(uint64_t *bar, int parity, const char *site) { gy_emu->bar_wait(bar, parity, site); }
#define gy_bar_init(bar, arrivals) gy_emu_bar_init(bar, arrivals, GY_HERE)
#define gy_bar_arrive(bar) gy_emu_bar_arrive(bar, 0, GY_HERE)
#define gy_bar_expect(bar, bytes) gy_emu_bar_arrive(bar, bytes, GY_HERE)
#define gy_bar_wait(bar, parity) gy_emu_bar_wait(bar, parity, GY_HERE)

GY_EMU_WORD void gy_emu_bulk_load(void *shared, const struct gy_tensor_map *map, uint64_t *bar, int rank, int c0, int c1, int c2, int c3,
                                  const int *offset, const char *site)
{
    const int c[4] = {c0, c1, c2, c3};
    gy_emu->bulk_load(shared, map, bar, c, rank, offset, site);
}
GY_EMU_WORD void gy_emu_bulk_im2col(void *shared, const struct gy_tensor_map *map, uint64_t *bar, int c, int w, int h, int n, int off_w,
                                    int off_h, const char *site)
{
    const int offset[2] = {off_w, off_h};
    gy_emu_bulk_load(shared, map, bar, 4, c, w, h, n, offset, site);
}
GY_EMU_WORD void gy_emu_bulk_store(const struct gy_tensor_map *map, const void *shared, int c0, int c1, const char *site)
{
    const int c[2] = {c0, c1};
    gy_emu->bulk_store(map, shared, c, 2, site);
}
#define gy_bulk_load2(shared, map, bar, c0, c1) gy_emu_bulk_load(shared, map, bar, 2, c0, c1, 0, 0, NULL, GY_HERE)
#define gy_bulk_load4(shared, map, bar, c0, c1, c2, c3) gy_emu_bulk_load(shared, map, bar, 4, c0, c1, c2, c3, NULL, GY_HERE)
#define gy_bulk_im2col(shared, map, bar, c, w, h, n, off_w, off_h)                                                     \
    gy_emu_bulk_im2col(shared, map, bar, c, w, h, n, off_w, off_h, GY_HERE)
#define gy_bulk_store2(map, shared, c0, c1) gy_emu_bulk_store(map, shared, c0, c1, GY_HERE)
GY_EMU_WORD void gy_bulk_commit(void) { gy_emu->bulk_commit(); }
GY_EMU_WORD void gy_bulk_wait_read(int newest) { gy_emu->bulk_wait(newest); }
GY_FN void gy_map_fetch(const struct gy_tensor_map *map) { (void)map; }
GY_EMU_WORD void gy_fence_async(void) { gy_emu->fence_async(); }

GY_EMU_WORD void gy_emu_some(int id, int threads, int waits, const char *site) { gy_emu->some(id, threads, waits, site); }
#define gy_some_sync(id, threads) gy_emu_some(id, threads, 1, GY_HERE)
#define gy_some_arrive(id, threads) gy_emu_some(id, threads, 0, GY_HERE)
#define gy_warp_sync() gy_emu_group(GY_EMU_WARP_SYNC, GY_HERE, NULL, NULL)
GY_EMU_WORD void gy_emu_registers(int count, int more, const char *site) { gy_emu->registers(count, more, site); }
#define gy_registers_less(n) gy_emu_registers(n, 0, GY_HERE)
#define gy_registers_more(n) gy_emu_registers(n, 1, GY_HERE)

/* Addresses of shared memory count from the block's first byte. */
GY_FN uint64_t gy_wgmma_tile(const void *shared, int lbo, int sbo, int swizzle)
{
    const uint64_t at = (uint64_t)((const unsigned char *)shared - gy_emu_shared()), mode = swizzle == 0 ? 0 : (uint64_t)(4 - swizzle);
    return (at >> 4 & 0x3fff) | (uint64_t)(lbo >> 4 & 0x3fff) << 16 | (uint64_t)(sbo >> 4 & 0x3fff) << 32 | mode << 62;
}
GY_FN void gy_emu_wgmma(int columns, float *d, uint64_t a, uint64_t b, int add, int turn_a, int turn_b, const char *site)
{
    const struct gy_emu_wgmma in = {a, b, columns, GY_DTYPE == 2, add, turn_a, turn_b, d};
    gy_emu_group(GY_EMU_WGMMA, site, &in, NULL);
}
GY_FN void gy_emu_wgmma_wait(int newest, const char *site) { gy_emu_group(GY_EMU_WGMMA_WAIT, site, &newest, NULL); }
#define gy_wgmma_hold(v) ((void)(v))
#define gy_wgmma_fence() gy_emu_group(GY_EMU_WGMMA_FENCE, GY_HERE, NULL, NULL)
#define gy_wgmma_commit() gy_emu_group(GY_EMU_WGMMA_COMMIT, GY_HERE, NULL, NULL)
#define gy_wgmma_wait(n) gy_emu_wgmma_wait(n, GY_HERE)
#define gy_wgmma_64(d, a, b, add, turn_a, turn_b) gy_emu_wgmma(64, d, a, b, add, turn_a, turn_b, GY_HERE)
#define gy_wgmma_128(d, a, b, add, turn_a, turn_b) gy_emu_wgmma(128, d, a, b, add, turn_a, turn_b, GY_HERE)
#define gy_wgmma_192(d, a, b, add, turn_a, turn_b) gy_emu_wgmma(192, d, a, b, add, turn_a, turn_b, GY_HERE)
#define gy_wgmma_256(d, a, b, add, turn_a, turn_b) gy_emu_wgmma(256, d, a, b, add, turn_a, turn_b, GY_HERE)

#endif
