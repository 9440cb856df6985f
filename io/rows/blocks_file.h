/* SPDX-License-Identifier: MIT */
/* blocks_file.h: the format of a block file, shared by its reader (blocks.c), its writer
 * (blocks_write.c) and what packs blocks (blocks_pack.c). All numbers are little-endian.
 *
 *   header  4096 bytes: 8 magic, u32 version 1, u32 flags 0, u64 rows, u64 entries, u64 blocks,
 *           u64 offset of the index, u64 its bytes, u64 bytes of the file,
 *           u32 CRC-32C of the index, u32 features, u32 bits of hashed ids, u32 1 where the
 *           number of features was told,
 *           u64 seed of the hash, u32 labels, zeros to byte 124, u32 CRC-32C of the 124 bytes
 *           before, zeros
 *   blocks  each from a multiple of 4096. Its parts begin at multiples of 64, with zeros between:
 *           lengths of the rows (packed), ids (packed), values (packed, or f32), labels (bits, or
 *           f32), weights f32. A part that the index says is not needed is absent
 *   index   64 bytes a block: u64 offset, u64 bytes, u32 rows, u32 entries, u32 entries of every
 *           row or 0, u8 bits of an id, u8 bits of a length (0: no lengths), u8 labels (0 all are
 *           the first, 1 a bit chooses, 2 f32), u8 flags (1 values, 2 weights, 4 values are whole
 *           numbers), f32 value of all entries, or the least whole one, f32 two labels, u32 1 + the
 *           largest id, u32 CRC-32C of the block, u8 bits by which a whole value is above the least
 *           one, zeros
 *           then 16 bytes a label: f32 label, u32 0, u64 rows that have it. No labels: too many
 *
 * Packed numbers of b bits lie one behind the other, the first in the lowest bits. An append writes
 * blocks and a new index behind the file's end, and the header last. An append that is stopped
 * earlier has changed nothing; a reader ignores what lies behind the end that the header names. */
#ifndef GY_BLOCKS_FILE_H
#define GY_BLOCKS_FILE_H
#include "engine/base/base.h"

#define BLOCKS_MAGIC "\x89GYB\r\n\x1a\n"
#define BLOCKS_HEAD 4096
#define BLOCKS_HEAD_USED 128
#define BLOCKS_ALIGN 4096
#define BLOCKS_PART 64               /* parts of a block begin at multiples */
#define BLOCKS_SLACK 32              /* bytes behind packed numbers, for reads of whole words */
#define BLOCKS_ENTRY 64
#define BLOCKS_LABEL 16
#define BLOCKS_ROWS (1u << 20)       /* most rows of a block */
#define BLOCKS_ENTRIES (1u << 30)    /* most entries of a block */
#define BLOCKS_COUNT ((uint64_t)1 << 40) /* most blocks */

enum gy_blocks_labels { GY_BLOCKS_LABEL_ONE, GY_BLOCKS_LABEL_BITS, GY_BLOCKS_LABEL_REAL };
enum gy_blocks_flags { GY_BLOCKS_VALUES = 1, GY_BLOCKS_WEIGHTS = 2, GY_BLOCKS_WHOLE = 4 };
#define BLOCKS_WHOLE_MOST 8388608.0f /* most of a whole value, either sign: its double is exact */
#define BLOCKS_WHOLE_BITS 24

struct gy_blocks_head {
    uint32_t version, flags;
    uint64_t rows, entries, blocks, index_at, index_bytes, file_bytes;
    uint32_t index_crc, features, hash_bits, told;
    uint64_t hash_seed;
    uint32_t classes;
};

struct gy_blocks_entry {
    uint64_t at, bytes;
    uint32_t rows, entries, width;
    uint8_t id_bits, length_bits, label_kind, flags;
    float same, label[2];
    uint32_t features, crc;
    uint8_t value_bits; /* 0: values, if any, are f32 */
    int64_t first; /* number of its first row; not in the file */
};

/* Offsets of a block's parts from its first byte, and its bytes in all. */
struct gy_blocks_parts {
    uint64_t lengths, ids, values, labels, weights, bytes;
};
GY_INT struct gy_blocks_parts gy_blocks_place(const struct gy_blocks_entry *entry);
GY_INT void gy_blocks_put_entry(unsigned char at[BLOCKS_ENTRY], const struct gy_blocks_entry *entry);
GY_INT void gy_blocks_get_entry(const unsigned char at[BLOCKS_ENTRY], struct gy_blocks_entry *entry);
GY_INT void gy_blocks_put_label(unsigned char at[BLOCKS_LABEL], float label, int64_t rows);
GY_INT void gy_blocks_put_head(unsigned char at[BLOCKS_HEAD], const struct gy_blocks_head *head);

/* ---- packed numbers (blocks_bits.c) ---- */

GY_INT int gy_bits_of(uint32_t most); /* bits that numbers up to most take, at least 1 */
/* Unpacks n numbers of `bits` bits (1 to 32) that begin at a whole byte. BLOCKS_SLACK bytes behind
 * them must be readable. */
GY_INT void gy_bits_unpack(const unsigned char *from, int bits, uint32_t *out, size_t n);

struct gy_bits_writer {
    unsigned char *to;
    uint64_t word; /* the lowest `held` bits, at most 63, wait */
    int held;
};
GY_INT void gy_bits_pack(struct gy_bits_writer *writer, const uint32_t *value, size_t n, int bits);
GY_INT void gy_bits_flush(struct gy_bits_writer *writer);

/* Facts of a run of ids: the largest, and how often one is not above the one before it. */
struct gy_bits_look {
    uint32_t most;
    size_t falls;
};
/* Adds id[0, n) to look; with `before`, id[-1] is there. */
GY_INT void gy_bits_see(struct gy_bits_look *look, const uint32_t *id, size_t n, int before);
/* Widens range (least, largest) to n values. Not 0: one is no whole number of at most
 * BLOCKS_WHOLE_MOST, and the range means nothing. */
GY_INT int gy_bits_see_whole(const float *value, size_t n, int32_t range[2]);

static inline uint32_t gy_blocks_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif
