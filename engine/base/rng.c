/* SPDX-License-Identifier: MIT */
/* rng.c: Philox4x32-10: ten rounds of two 32 x 32 -> 64 bit products; Weyl constants step the
 * keys. */
#include "engine/base/rng.h"

GY_INT void gy_rng_words(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element, uint32_t out[4])
{
    uint32_t c[4] = { (uint32_t)element, (uint32_t)(element >> 32), (uint32_t)step, (uint32_t)(step >> 32) ^ stream };
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t n0 = (uint32_t)(b >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)b;
        c[3] = (uint32_t)a;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

/* RNG_SIDE draws side by side: a round waits for its draw's last; other draws fill the time. */
#define RNG_SIDE 4
static void rng_side(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element, uint32_t *out)
{
    uint32_t c[4][RNG_SIDE], k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (unsigned i = 0; i < RNG_SIDE; i++) {
        c[0][i] = (uint32_t)(element + i);
        c[1][i] = (uint32_t)((element + i) >> 32);
        c[2][i] = (uint32_t)step;
        c[3][i] = (uint32_t)(step >> 32) ^ stream;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        for (int i = 0; i < RNG_SIDE; i++) {
            const uint64_t a = (uint64_t)0xD2511F53u * c[0][i], b = (uint64_t)0xCD9E8D57u * c[2][i];
            c[0][i] = (uint32_t)(b >> 32) ^ c[1][i] ^ k0;
            c[2][i] = (uint32_t)(a >> 32) ^ c[3][i] ^ k1;
            c[1][i] = (uint32_t)b;
            c[3][i] = (uint32_t)a;
        }
    }
    for (int i = 0; i < 4 * RNG_SIDE; i++)
        out[i] = c[i % 4][i / 4];
}

GY_INT void gy_rng_draws(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element, int64_t count, uint32_t *out)
{
    int64_t i = 0;
    for (; i + RNG_SIDE <= count; i += RNG_SIDE)
        rng_side(seed, stream, step, element + (uint64_t)i, out + 4 * i);
    for (; i < count; i++)
        gy_rng_words(seed, stream, step, element + (uint64_t)i, out + 4 * i);
}

static float rng_unit(uint32_t word) { return (float)(word >> 8) * (1.0f / 16777216.0f); }

GY_INT float gy_rng_uniform(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element)
{
    uint32_t w[4];
    gy_rng_words(seed, stream, step, element, w);
    return rng_unit(w[0]);
}

GY_INT void gy_rng_normals(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element, float out[4])
{
    uint32_t w[4];
    gy_rng_words(seed, stream, step, element, w);
    for (int i = 0; i < 4; i += 2) {
        const double u = ((double)w[i] + 1) / 4294967296.0;
        const double angle = 6.283185307179586 * ((double)w[i + 1] / 4294967296.0);
        const double radius = sqrt(-2 * log(u));
        out[i] = (float)(radius * cos(angle));
        out[i + 1] = (float)(radius * sin(angle));
    }
}

GY_INT float gy_rng_normal(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element)
{
    float four[4];
    gy_rng_normals(seed, stream, step, element, four);
    return four[0];
}

/* A four-round Feistel network on an even number of bits. Images from count on are mapped again. */
GY_INT int64_t gy_rng_permute(uint64_t seed, uint32_t stream, uint64_t step, int64_t count, int64_t index)
{
    int half = 1;
    while (half < 31 && (int64_t)1 << (2 * half) < count)
        half++;
    const uint32_t mask = (uint32_t)(((uint64_t)1 << half) - 1);
    uint64_t x = (uint64_t)index;
    do {
        uint32_t left = (uint32_t)(x >> half) & mask, right = (uint32_t)x & mask;
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t w[4];
            gy_rng_words(seed, stream, step, (uint64_t)round << 32 | right, w);
            const uint32_t next = left ^ (w[0] & mask);
            left = right;
            right = next;
        }
        x = (uint64_t)left << half | right;
    } while (x >= (uint64_t)count);
    return (int64_t)x;
}
