/* SPDX-License-Identifier: MIT */
/* SHA-256 as FIPS 180-4 writes it; both CRCs by half bytes, reflected, with one 16-entry table each. CRC-32C uses the processor's
 * instruction where there is one. */
#include "hash.h"
#include "cpu.h"
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t sha_rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void sha_schedule(const unsigned char block[64], uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        const uint32_t s0 = sha_rotate(a, 7) ^ sha_rotate(a, 18) ^ a >> 3, s1 = sha_rotate(b, 17) ^ sha_rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void sha_block(struct gy_sha256 *sha, const unsigned char block[64])
{
    uint32_t w[64], s[8];
    sha_schedule(block, w);
    memcpy(s, sha->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t e = s[4], a = s[0];
        const uint32_t s1 = sha_rotate(e, 6) ^ sha_rotate(e, 11) ^ sha_rotate(e, 25), choose = (e & s[5]) ^ (~e & s[6]);
        const uint32_t s0 = sha_rotate(a, 2) ^ sha_rotate(a, 13) ^ sha_rotate(a, 22);
        const uint32_t t1 = s[7] + s1 + choose + sha_k[i] + w[i], t2 = s0 + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        sha->state[i] += s[i];
}

GY_INT void gy_sha256_open(struct gy_sha256 *sha)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    memcpy(sha->state, start, sizeof start);
    sha->bytes = 0;
}

GY_INT void gy_sha256_add(struct gy_sha256 *sha, const void *bytes, size_t count)
{
    const unsigned char *p = bytes;
    while (count) {
        const size_t have = (size_t)(sha->bytes % 64), take = count < 64 - have ? count : 64 - have;
        memcpy(sha->block + have, p, take);
        sha->bytes += take;
        p += take;
        count -= take;
        if (have + take == 64)
            sha_block(sha, sha->block);
    }
}

GY_INT void gy_sha256_close(struct gy_sha256 *sha, unsigned char digest[32])
{
    static const unsigned char pad[64] = { 0x80 };
    const uint64_t bits = sha->bytes * 8;
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    gy_sha256_add(sha, pad, (size_t)(1 + (119 - sha->bytes % 64) % 64));
    gy_sha256_add(sha, length, sizeof length);
    for (int i = 0; i < 32; i++)
        digest[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

GY_INT void gy_sha256_hex(const unsigned char digest[32], char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = 0;
}

/* table[i]: the remainder of half byte i. */
static uint32_t crc_add(const uint32_t table[16], uint32_t crc, const void *bytes, size_t count)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static const uint32_t crc_table_ieee[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                             0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                             0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
static const uint32_t crc_table_castagnoli[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                                   0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                                   0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const unsigned char *p, size_t count)
{
    uint64_t c = ~crc;
    for (; count >= 8; count -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        c = _mm_crc32_u64(c, word);
    }
    for (; count; count--, p++)
        c = _mm_crc32_u8((uint32_t)c, *p);
    return ~(uint32_t)c;
}
#endif

GY_INT uint32_t gy_crc32c(uint32_t crc, const void *bytes, size_t count)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return crc_sse42(crc, bytes, count);
#endif
    return crc_add(crc_table_castagnoli, crc, bytes, count);
}

GY_INT uint32_t gy_crc32(uint32_t crc, const void *bytes, size_t count)
{
    return crc_add(crc_table_ieee, crc, bytes, count);
}
