/* SPDX-License-Identifier: MIT */
/* philox.cuh: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011),
 * for flat.cu and glm.cu. The counter is (draw, step, stream), the key the seed: gy_rng_words of
 * engine/base/rng.h, bit by bit. */
struct gy_words {
    uint32_t w[4];
};

GY_FN struct gy_words gy_philox(uint64_t seed, uint64_t stream, uint64_t step, uint64_t draw)
{
    uint32_t c0 = (uint32_t)draw, c1 = (uint32_t)(draw >> 32), c2 = (uint32_t)step, c3 = (uint32_t)(step >> 32) ^ (uint32_t)stream;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    GY_UNROLL for (int round = 0; round < 10; round++) {
        const uint64_t high = (uint64_t)0xD2511F53u * c0, low = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(low >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(high >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)low;
        c3 = (uint32_t)high;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct gy_words out;
    out.w[0] = c0;
    out.w[1] = c1;
    out.w[2] = c2;
    out.w[3] = c3;
    return out;
}
