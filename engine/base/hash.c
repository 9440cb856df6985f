/* SPDX-License-Identifier: MIT */
/* hash.c: SHA-256 as FIPS 180-4 writes it, and both CRCs, reflected, eight bytes at a time. Tables
 * give the sixteen half bytes independently, each from the table for its distance from the end. On
 * x86 CRC-32C has an instruction. Long inputs take three lanes of it, or products of polynomials
 * where one instruction makes four (V. Gopal et al., Intel, 2009, has both). CRC-32 takes such
 * products, one at a time: it folds 64 bytes onto the next until few with the same sum are left. */
#include "engine/base/hash.h"
#include "engine/base/cpu.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t sha_rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void sha_schedule(const unsigned char block[64], uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        const uint32_t s0 = sha_rotate(a, 7) ^ sha_rotate(a, 18) ^ a >> 3;
        const uint32_t s1 = sha_rotate(b, 17) ^ sha_rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* One round: s[(7 - i) & 7], ... are h, g, ..., a. Roles turn by one a round, so nothing moves. */
static inline void sha_round(uint32_t s[8], int i, uint32_t word)
{
    const uint32_t a = s[-i & 7], b = s[(1 - i) & 7], c = s[(2 - i) & 7];
    const uint32_t e = s[(4 - i) & 7], f = s[(5 - i) & 7], g = s[(6 - i) & 7];
    const uint32_t s1 = sha_rotate(e, 6) ^ sha_rotate(e, 11) ^ sha_rotate(e, 25), choose = g ^ (e & (f ^ g));
    const uint32_t s0 = sha_rotate(a, 2) ^ sha_rotate(a, 13) ^ sha_rotate(a, 22), most = (a & b) | (c & (a | b));
    const uint32_t t = s[(7 - i) & 7] + s1 + choose + word;
    s[(3 - i) & 7] += t;
    s[(7 - i) & 7] = t + s0 + most;
}

static void sha_block(struct gy_sha256 *sha, const unsigned char block[64])
{
    uint32_t w[64], s[8];
    sha_schedule(block, w);
    memcpy(s, sha->state, sizeof s);
    for (int i = 0; i < 64; i += 8) {
        sha_round(s, 0, w[i] + sha_k[i]);
        sha_round(s, 1, w[i + 1] + sha_k[i + 1]);
        sha_round(s, 2, w[i + 2] + sha_k[i + 2]);
        sha_round(s, 3, w[i + 3] + sha_k[i + 3]);
        sha_round(s, 4, w[i + 4] + sha_k[i + 4]);
        sha_round(s, 5, w[i + 5] + sha_k[i + 5]);
        sha_round(s, 6, w[i + 6] + sha_k[i + 6]);
        sha_round(s, 7, w[i + 7] + sha_k[i + 7]);
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

/* table[k][n]: the remainder of half byte n with k half bytes after it. */
static const uint32_t crc_table_ieee[16][16] = {
    { 0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
      0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c },
    { 0x00000000, 0x77073096, 0xee0e612c, 0x990951ba, 0x076dc419, 0x706af48f, 0xe963a535, 0x9e6495a3,
      0x0edb8832, 0x79dcb8a4, 0xe0d5e91e, 0x97d2d988, 0x09b64c2b, 0x7eb17cbd, 0xe7b82d07, 0x90bf1d91 },
    { 0x00000000, 0x4ac21251, 0x958424a2, 0xdf4636f3, 0xf0794f05, 0xbabb5d54, 0x65fd6ba7, 0x2f3f79f6,
      0x3b83984b, 0x71418a1a, 0xae07bce9, 0xe4c5aeb8, 0xcbfad74e, 0x8138c51f, 0x5e7ef3ec, 0x14bce1bd },
    { 0x00000000, 0x191b3141, 0x32366282, 0x2b2d53c3, 0x646cc504, 0x7d77f445, 0x565aa786, 0x4f4196c7,
      0xc8d98a08, 0xd1c2bb49, 0xfaefe88a, 0xe3f4d9cb, 0xacb54f0c, 0xb5ae7e4d, 0x9e832d8e, 0x87981ccf },
    { 0x00000000, 0x1c26a370, 0x384d46e0, 0x246be590, 0x709a8dc0, 0x6cbc2eb0, 0x48d7cb20, 0x54f16850,
      0xe1351b80, 0xfd13b8f0, 0xd9785d60, 0xc55efe10, 0x91af9640, 0x8d893530, 0xa9e2d0a0, 0xb5c473d0 },
    { 0x00000000, 0x01c26a37, 0x0384d46e, 0x0246be59, 0x0709a8dc, 0x06cbc2eb, 0x048d7cb2, 0x054f1685,
      0x0e1351b8, 0x0fd13b8f, 0x0d9785d6, 0x0c55efe1, 0x091af964, 0x08d89353, 0x0a9e2d0a, 0x0b5c473d },
    { 0x00000000, 0x5019579f, 0xa032af3e, 0xf02bf8a1, 0x9b14583d, 0xcb0d0fa2, 0x3b26f703, 0x6b3fa09c,
      0xed59b63b, 0xbd40e1a4, 0x4d6b1905, 0x1d724e9a, 0x764dee06, 0x2654b999, 0xd67f4138, 0x866616a7 },
    { 0x00000000, 0xb8bc6765, 0xaa09c88b, 0x12b5afee, 0x8f629757, 0x37def032, 0x256b5fdc, 0x9dd738b9,
      0xc5b428ef, 0x7d084f8a, 0x6fbde064, 0xd7018701, 0x4ad6bfb8, 0xf26ad8dd, 0xe0df7733, 0x58631056 },
    { 0x00000000, 0x60e09782, 0xc1c12f04, 0xa121b886, 0x58f35849, 0x3813cfcb, 0x9932774d, 0xf9d2e0cf,
      0xb1e6b092, 0xd1062710, 0x70279f96, 0x10c70814, 0xe915e8db, 0x89f57f59, 0x28d4c7df, 0x4834505d },
    { 0x00000000, 0x3d6029b0, 0x7ac05360, 0x47a07ad0, 0xf580a6c0, 0xc8e08f70, 0x8f40f5a0, 0xb220dc10,
      0x30704bc1, 0x0d106271, 0x4ab018a1, 0x77d03111, 0xc5f0ed01, 0xf890c4b1, 0xbf30be61, 0x825097d1 },
    { 0x00000000, 0x03d6029b, 0x07ac0536, 0x047a07ad, 0x0f580a6c, 0x0c8e08f7, 0x08f40f5a, 0x0b220dc1,
      0x1eb014d8, 0x1d661643, 0x191c11ee, 0x1aca1375, 0x11e81eb4, 0x123e1c2f, 0x16441b82, 0x15921919 },
    { 0x00000000, 0xcb5cd3a5, 0x4dc8a10b, 0x869472ae, 0x9b914216, 0x50cd91b3, 0xd659e31d, 0x1d0530b8,
      0xec53826d, 0x270f51c8, 0xa19b2366, 0x6ac7f0c3, 0x77c2c07b, 0xbc9e13de, 0x3a0a6170, 0xf156b2d5 },
    { 0x00000000, 0x67de9cce, 0xcfbd399c, 0xa863a552, 0x440b7579, 0x23d5e9b7, 0x8bb64ce5, 0xec68d02b,
      0x8816eaf2, 0xefc8763c, 0x47abd36e, 0x20754fa0, 0xcc1d9f8b, 0xabc30345, 0x03a0a617, 0x647e3ad9 },
    { 0x00000000, 0xa6770bb4, 0x979f1129, 0x31e81a9d, 0xf44f2413, 0x52382fa7, 0x63d0353a, 0xc5a73e8e,
      0x33ef4e67, 0x959845d3, 0xa4705f4e, 0x020754fa, 0xc7a06a74, 0x61d761c0, 0x503f7b5d, 0xf64870e9 },
    { 0x00000000, 0x7cbb312b, 0xf9766256, 0x85cd537d, 0x299dc2ed, 0x5526f3c6, 0xd0eba0bb, 0xac509190,
      0x533b85da, 0x2f80b4f1, 0xaa4de78c, 0xd6f6d6a7, 0x7aa64737, 0x061d761c, 0x83d02561, 0xff6b144a },
    { 0x00000000, 0xccaa009e, 0x4225077d, 0x8e8f07e3, 0x844a0efa, 0x48e00e64, 0xc66f0987, 0x0ac50919,
      0xd3e51bb5, 0x1f4f1b2b, 0x91c01cc8, 0x5d6a1c56, 0x57af154f, 0x9b0515d1, 0x158a1232, 0xd92012ac },
};
static const uint32_t crc_table_castagnoli[16][16] = {
    { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
      0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 },
    { 0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c, 0x26a1e7e8, 0xd4ca64eb,
      0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b, 0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24 },
    { 0x00000000, 0x3fc5f181, 0x7f8be302, 0x404e1283, 0xff17c604, 0xc0d23785, 0x809c2506, 0xbf59d487,
      0xfbc3faf9, 0xc4060b78, 0x844819fb, 0xbb8de87a, 0x04d43cfd, 0x3b11cd7c, 0x7b5fdfff, 0x449a2e7e },
    { 0x00000000, 0x13a29877, 0x274530ee, 0x34e7a899, 0x4e8a61dc, 0x5d28f9ab, 0x69cf5132, 0x7a6dc945,
      0x9d14c3b8, 0x8eb65bcf, 0xba51f356, 0xa9f36b21, 0xd39ea264, 0xc03c3a13, 0xf4db928a, 0xe7790afd },
    { 0x00000000, 0x70a27d8a, 0xe144fb14, 0x91e6869e, 0xc76580d9, 0xb7c7fd53, 0x26217bcd, 0x56830647,
      0x8b277743, 0xfb850ac9, 0x6a638c57, 0x1ac1f1dd, 0x4c42f79a, 0x3ce08a10, 0xad060c8e, 0xdda47104 },
    { 0x00000000, 0xa541927e, 0x4f6f520d, 0xea2ec073, 0x9edea41a, 0x3b9f3664, 0xd1b1f617, 0x74f06469,
      0x38513ec5, 0x9d10acbb, 0x773e6cc8, 0xd27ffeb6, 0xa68f9adf, 0x03ce08a1, 0xe9e0c8d2, 0x4ca15aac },
    { 0x00000000, 0xe964b13d, 0xd725148b, 0x3e41a5b6, 0xaba65fe7, 0x42c2eeda, 0x7c834b6c, 0x95e7fa51,
      0x52a0c93f, 0xbbc47802, 0x8585ddb4, 0x6ce16c89, 0xf90696d8, 0x106227e5, 0x2e238253, 0xc747336e },
    { 0x00000000, 0xdd45aab8, 0xbf672381, 0x62228939, 0x7b2231f3, 0xa6679b4b, 0xc4451272, 0x1900b8ca,
      0xf64463e6, 0x2b01c95e, 0x49234067, 0x9466eadf, 0x8d665215, 0x5023f8ad, 0x32017194, 0xef44db2c },
    { 0x00000000, 0x8f2261d3, 0x1ba8b557, 0x948ad484, 0x37516aae, 0xb8730b7d, 0x2cf9dff9, 0xa3dbbe2a,
      0x6ea2d55c, 0xe180b48f, 0x750a600b, 0xfa2801d8, 0x59f3bff2, 0xd6d1de21, 0x425b0aa5, 0xcd796b76 },
    { 0x00000000, 0x38116fac, 0x7022df58, 0x4833b0f4, 0xe045beb0, 0xd854d11c, 0x906761e8, 0xa8760e44,
      0xc5670b91, 0xfd76643d, 0xb545d4c9, 0x8d54bb65, 0x2522b521, 0x1d33da8d, 0x55006a79, 0x6d1105d5 },
    { 0x00000000, 0xc00c303e, 0x85f4168d, 0x45f826b3, 0x0e045beb, 0xce086bd5, 0x8bf04d66, 0x4bfc7d58,
      0x1c08b7d6, 0xdc0487e8, 0x99fca15b, 0x59f09165, 0x120cec3d, 0xd200dc03, 0x97f8fab0, 0x57f4ca8e },
    { 0x00000000, 0xef306b19, 0xdb8ca0c3, 0x34bccbda, 0xb2f53777, 0x5dc55c6e, 0x697997b4, 0x8649fcad,
      0x6006181f, 0x8f367306, 0xbb8ab8dc, 0x54bad3c5, 0xd2f32f68, 0x3dc34471, 0x097f8fab, 0xe64fe4b2 },
    { 0x00000000, 0x9c5bfaa6, 0x3d5b83bd, 0xa100791b, 0x7ab7077a, 0xe6ecfddc, 0x47ec84c7, 0xdbb77e61,
      0xf56e0ef4, 0x6935f452, 0xc8358d49, 0x546e77ef, 0x8fd9098e, 0x1382f328, 0xb2828a33, 0x2ed97095 },
    { 0x00000000, 0x68032cc8, 0xd0065990, 0xb8057558, 0xa5e0c5d1, 0xcde3e919, 0x75e69c41, 0x1de5b089,
      0x4e2dfd53, 0x262ed19b, 0x9e2ba4c3, 0xf628880b, 0xebcd3882, 0x83ce144a, 0x3bcb6112, 0x53c84dda },
    { 0x00000000, 0x847609b4, 0x0d006599, 0x89766c2d, 0x1a00cb32, 0x9e76c286, 0x1700aeab, 0x9376a71f,
      0x34019664, 0xb0779fd0, 0x3901f3fd, 0xbd77fa49, 0x2e015d56, 0xaa7754e2, 0x230138cf, 0xa777317b },
    { 0x00000000, 0x493c7d27, 0x9278fa4e, 0xdb448769, 0x211d826d, 0x6821ff4a, 0xb3657823, 0xfa590504,
      0x423b04da, 0x0b0779fd, 0xd043fe94, 0x997f83b3, 0x632686b7, 0x2a1afb90, 0xf15e7cf9, 0xb86201de },
};

static uint32_t crc_add(const uint32_t table[16][16], uint32_t crc, const void *bytes, size_t count)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (; count >= 8; count -= 8, p += 8) {
        const uint32_t lo = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        const uint32_t hi = (uint32_t)p[4] | (uint32_t)p[5] << 8 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 24;
        crc = table[15][lo & 15] ^ table[14][lo >> 4 & 15] ^ table[13][lo >> 8 & 15] ^ table[12][lo >> 12 & 15] ^
              table[11][lo >> 16 & 15] ^ table[10][lo >> 20 & 15] ^ table[9][lo >> 24 & 15] ^ table[8][lo >> 28] ^
              table[7][hi & 15] ^ table[6][hi >> 4 & 15] ^ table[5][hi >> 8 & 15] ^ table[4][hi >> 12 & 15] ^
              table[3][hi >> 16 & 15] ^ table[2][hi >> 20 & 15] ^ table[1][hi >> 24 & 15] ^ table[0][hi >> 28];
    }
    for (; count; count--, p++) {
        crc ^= *p;
        crc = crc >> 8 ^ table[1][crc & 15] ^ table[0][crc >> 4 & 15];
    }
    return ~crc;
}

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

#define CRC_LANE ((size_t)1024)                       /* bytes of each of three sums side by side */
#define CRC_LANES __attribute__((target("sse4.2,pclmul")))

/* Moves the sum of earlier bytes over n later ones; by is x^(8n - 33) modulo the polynomial. */
CRC_LANES static uint64_t crc_move(uint64_t crc, uint64_t by)
{
    const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)by), 0x00);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* The instruction takes three cycles and can begin in each of them. */
CRC_LANES static uint32_t crc_sse42_lanes(uint32_t crc, const unsigned char *p, size_t count)
{
    uint64_t a = (uint32_t)~crc;
    for (; count >= 3 * CRC_LANE; count -= 3 * CRC_LANE, p += 3 * CRC_LANE) {
        uint64_t b = 0, c = 0, word[3];
        for (size_t i = 0; i < CRC_LANE; i += 8) {
            memcpy(&word[0], p + i, 8);
            memcpy(&word[1], p + CRC_LANE + i, 8);
            memcpy(&word[2], p + 2 * CRC_LANE + i, 8);
            a = _mm_crc32_u64(a, word[0]);
            b = _mm_crc32_u64(b, word[1]);
            c = _mm_crc32_u64(c, word[2]);
        }
        a = crc_move(a, 0xa51b6135) ^ crc_move(b, 0x170076fa) ^ c; /* over two lanes, over one */
    }
    return crc_sse42(~(uint32_t)a, p, count);
}

#define CRC_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
#define CRC_WIDE_LEAST ((size_t)1024)

/* As crc_fold_one, four times side by side. */
CRC_WIDE static __m512i crc_wide_fold(__m512i x, __m512i by, __m512i next)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00), _mm512_clmulepi64_epi128(x, by, 0x11), next, 0x96);
}

/* Folds 256 bytes onto the 256 behind them. In the end 16 are left, which have the same sum. */
CRC_WIDE static uint32_t crc_wide(uint32_t crc, const unsigned char *p, size_t count)
{
    const __m512i far = _mm512_broadcast_i32x4(_mm_set_epi64x(0xb9e02b86, 0xdcb17aa4));
    const __m512i near = _mm512_broadcast_i32x4(_mm_set_epi64x(0x9e4addf8, 0x740eef02));
    const __m128i next = _mm_set_epi64x(0x14cd00bd6, 0xf20c0dfe);
    __m512i x[4];
    uint64_t left[8];
    for (int k = 0; k < 4; k++)
        x[k] = _mm512_loadu_si512(p + 64 * k);
    x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    for (p += 256, count -= 256; count >= 256; p += 256, count -= 256)
        for (int k = 0; k < 4; k++)
            x[k] = crc_wide_fold(x[k], far, _mm512_loadu_si512(p + 64 * k));
    for (int k = 1; k < 4; k++)
        x[0] = crc_wide_fold(x[0], near, x[k]);
    _mm512_storeu_si512(left, x[0]);
    __m128i y = _mm_set_epi64x((long long)left[1], (long long)left[0]);
    for (int k = 2; k < 8; k += 2) {
        const __m128i low = _mm_clmulepi64_si128(y, next, 0x00), high = _mm_clmulepi64_si128(y, next, 0x11);
        y = _mm_xor_si128(_mm_xor_si128(low, high), _mm_set_epi64x((long long)left[k + 1], (long long)left[k]));
    }
    _mm_storeu_si128((__m128i *)(void *)left, y);
    return crc_sse42(~(uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, left[0]), left[1]), p, count);
}

static int crc_has_wide(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("sse4.2");
}
#endif

GY_INT uint32_t gy_crc32c(uint32_t crc, const void *bytes, size_t count)
{
#if defined(__x86_64__)
    if (count >= CRC_WIDE_LEAST && crc_has_wide())
        return crc_wide(crc, bytes, count);
    if (count >= 3 * CRC_LANE && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        return crc_sse42_lanes(crc, bytes, count);
    if (__builtin_cpu_supports("sse4.2"))
        return crc_sse42(crc, bytes, count);
#endif
    return crc_add(crc_table_castagnoli, crc, bytes, count);
}

#if defined(__x86_64__)
#define CRC_CLMUL __attribute__((target("pclmul")))
#define CRC_FOLD_LEAST ((size_t)64)

CRC_CLMUL static __m128i crc_load(const unsigned char *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

/* Folds 16 bytes onto those n bytes behind. by: x^(8n+64) and x^(8n) modulo the polynomial. */
CRC_CLMUL static __m128i crc_fold_one(__m128i x, __m128i by, __m128i next)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), next);
}

CRC_CLMUL static uint32_t crc_fold(uint32_t crc, const unsigned char *p, size_t count)
{
    const __m128i far = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), near = _mm_set_epi64x(0xccaa009e, 0x1751997d0);
    __m128i x[4];
    unsigned char left[16];
    for (int k = 0; k < 4; k++)
        x[k] = crc_load(p + 16 * k);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    for (p += 64, count -= 64; count >= 64; p += 64, count -= 64)
        for (int k = 0; k < 4; k++)
            x[k] = crc_fold_one(x[k], far, crc_load(p + 16 * k));
    for (int k = 1; k < 4; k++)
        x[0] = crc_fold_one(x[0], near, x[k]);
    _mm_storeu_si128((__m128i *)(void *)left, x[0]);
    return crc_add(crc_table_ieee, crc_add(crc_table_ieee, UINT32_MAX, left, sizeof left), p, count);
}
#endif

GY_INT uint32_t gy_crc32(uint32_t crc, const void *bytes, size_t count)
{
#if defined(__x86_64__)
    if (count >= CRC_FOLD_LEAST && __builtin_cpu_supports("pclmul"))
        return crc_fold(crc, bytes, count);
#endif
    return crc_add(crc_table_ieee, crc, bytes, count);
}

/* The product of two polynomials, of which the highest bit is x^0, modulo CRC-32C's. */
static uint32_t crc_times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a != 0; a <<= 1) {
        product ^= a >> 31 ? b : 0;
        b = b >> 1 ^ (b & 1 ? 0x82f63b78 : 0);
    }
    return product;
}

/* Bytes that follow multiply a sum by x^8 each. */
GY_INT uint32_t gy_crc32c_join(uint32_t first, uint32_t second, size_t bytes)
{
    uint32_t power = (uint32_t)1 << 23; /* x^8, then its squares */
    for (; bytes != 0; bytes >>= 1, power = crc_times(power, power))
        first = bytes & 1 ? crc_times(first, power) : first;
    return first ^ second;
}

GY_INT int gy_crc32c_differs(const void *bytes, size_t count, uint32_t crc)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)bytes, (void)count, (void)crc;
    return 0;
#else
    return gy_crc32c(0, bytes, count) != crc;
#endif
}
