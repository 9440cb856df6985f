/* SPDX-License-Identifier: MIT */
/* blocks.h: opens and reads a block file, for the feeds, sources and referee of engine/glm/: sparse
 * rows in blocks of some tens of thousands of rows and some megabytes. A block is the unit of
 * reading, of checking (CRC-32C), of dealing rows to ranks, and of shuffling a set larger than
 * memory. Conversion writes the file once; an append adds blocks. Ids are packed to the bits that
 * the largest needs, whole values to those of their range. Values, weights and offsets are stored
 * only where rows differ in them. */
#ifndef GY_BLOCKS_H
#define GY_BLOCKS_H
#include "engine/base/mem.h"
#include "io/rows/blocks_labels.h"
#include "io/rows/rows.h"

struct gy_blocks_info {
    int64_t rows, entries, blocks;
    /* 1 + the largest id, or what the conversion was told (hashing to 2^b) */
    uint32_t features;
    int32_t width;          /* entries of every row; 0: they differ */
    int32_t id_bits;
    int has_values, has_weights;
    float same;             /* the value of all entries, when has_values is 0 */
    int32_t most_rows;      /* rows of the largest block */
    int64_t most_entries;
    int32_t classes;        /* different labels; 0: a regression, above GY_BLOCKS_CLASSES */
    const float *label;     /* [classes] rising; lives as long as the file is open */
    const int64_t *label_rows; /* [classes] */
    int hash_bits;          /* ids are hashes; 0: they are not */
    uint64_t hash_seed;
    uint64_t id;            /* hash of all blocks' checksums: tells two data sets apart */
};

/* Room that a block is unpacked into. Its arrays lie in one piece of memory of the caller. */
struct gy_blocks_room {
    void *memory;
    size_t bytes; /* at least gy_blocks_room_bytes */
};

struct gy_blocks;
/* Opens the file and checks header and index; rows are checked when they are read. */
GY_INT int gy_blocks_open(struct gy_blocks **out, const char *path, const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_blocks_close(struct gy_blocks *blocks); /* NULL is fine */
GY_INT void gy_blocks_get_info(const struct gy_blocks *blocks, struct gy_blocks_info *info);
/* Rows and entries of a block, from the index; either may be NULL. */
GY_INT void gy_blocks_size(const struct gy_blocks *blocks, int64_t block, int32_t *rows, int64_t *entries);
/* of one block; -1: of the largest */
GY_INT size_t gy_blocks_room_bytes(const struct gy_blocks *blocks, int64_t block);
/* Reads the block, checks its CRC and unpacks it. *rows lives as long as room and the open blocks:
 * of blocks in memory, arrays that need no unpacking point into these. Any number of threads may
 * call it at once, each with a room of its own. GY_E_HASH names file and block. */
GY_INT int gy_blocks_read(const struct gy_blocks *blocks, int64_t block, const struct gy_blocks_room *room, struct gy_rows *rows, struct gy_error *err);
/* Asks the system to read a block's bytes into memory soon; -1: none. */
GY_INT void gy_blocks_ahead(const struct gy_blocks *blocks, int64_t soon);

/* ---- what reading and writing share ---- */

struct gy_blocks_head;
struct gy_blocks_entry;
/* Opens the bytes of a block file, which must stay until close. own, if not NULL: close frees it,
 * as own_bytes bytes. */
GY_INT int gy_blocks_open_memory(struct gy_blocks **out, const unsigned char *bytes, size_t count, const char *name, const struct gy_alloc *alloc,
                                 void *own, size_t own_bytes, struct gy_error *err);
/* For appending: the header, and the entries and label counts as they are. */
GY_INT void gy_blocks_get_head(const struct gy_blocks *blocks, struct gy_blocks_head *head, const struct gy_blocks_entry **entry);

#endif
