/* SPDX-License-Identifier: MIT */
/* byte_order.h: reads and writes whole numbers in files, the lowest byte first (le) or the highest
 * (be). Formats of images and png.c call it; block files have their own (rows/blocks.c). */
#ifndef GY_BYTE_ORDER_H
#define GY_BYTE_ORDER_H
#include "engine/base/base.h"

static inline uint32_t gy_le32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static inline uint64_t gy_le64(const unsigned char *at) { return gy_le32(at) | (uint64_t)gy_le32(at + 4) << 32; }
static inline uint32_t gy_be32(const unsigned char *at)
{
    return (uint32_t)at[3] | (uint32_t)at[2] << 8 | (uint32_t)at[1] << 16 | (uint32_t)at[0] << 24;
}
static inline void gy_put_le32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}
static inline void gy_put_le64(unsigned char *at, uint64_t value)
{
    gy_put_le32(at, (uint32_t)value);
    gy_put_le32(at + 4, (uint32_t)(value >> 32));
}
static inline void gy_put_be32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

#endif
