/* SPDX-License-Identifier: MIT */
/* hash.h: sums of bytes, for files, messages and caches: SHA-256 (FIPS 180-4) for identity, CRC-32C
 * (Castagnoli) for records and messages, CRC-32 for PNG and gzip. Pieces give the same sum. */
#ifndef GY_HASH_H
#define GY_HASH_H
#include "engine/base/base.h"

struct gy_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};
GY_INT void gy_sha256_open(struct gy_sha256 *sha);
GY_INT void gy_sha256_add(struct gy_sha256 *sha, const void *bytes, size_t count);
GY_INT void gy_sha256_close(struct gy_sha256 *sha, unsigned char digest[32]);
GY_INT void gy_sha256_hex(const unsigned char digest[32], char hex[65]);

/* Start with crc 0; feed pieces in order. */
GY_INT uint32_t gy_crc32c(uint32_t crc, const void *bytes, size_t count);
/* The sum of bytes with sum `first` and, behind them, `bytes` bytes with sum `second`. */
GY_INT uint32_t gy_crc32c_join(uint32_t first, uint32_t second, size_t bytes);
/* 1: the bytes have another CRC-32C. Always 0 in a fuzz target, which must get past it. */
GY_INT int gy_crc32c_differs(const void *bytes, size_t count, uint32_t crc);
GY_INT uint32_t gy_crc32(uint32_t crc, const void *bytes, size_t count);

#endif
