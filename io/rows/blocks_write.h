/* SPDX-License-Identifier: MIT */
/* blocks_write.h: makes a block file, or blocks in memory, from packed blocks (blocks_pack.h), in
 * the order in which they are put. rows_convert.c, engine/glm/source.c and tools/lab/glm_generate.c
 * call it. Nothing is at the path before finish, except with append, where the old content stays
 * readable until then. */
#ifndef GY_BLOCKS_WRITE_H
#define GY_BLOCKS_WRITE_H
#include "io/rows/blocks.h"
#include "io/rows/blocks_pack.h"

struct gy_blocks_write {
    const char *path;    /* NULL: into memory */
    /* path exists, and blocks are added to it; hash and features must be its own */
    int append;
    uint32_t features;   /* 0: as many as the ids say */
    int hash_bits;
    uint64_t hash_seed;
    const struct gy_alloc *alloc;
};
struct gy_blocks_writer;

GY_INT int gy_blocks_create(struct gy_blocks_writer **out, const struct gy_blocks_write *config, struct gy_error *err);
/* Puts a block behind those before. GY_E_MISMATCH: it has an id beyond the features that were
 * stated. */
GY_INT int gy_blocks_put(struct gy_blocks_writer *writer, const struct gy_blocks_packed *packed, struct gy_error *err);
/* Writes index and header and closes the writer, also when it fails. memory: the blocks, opened;
 * NULL for a file. */
GY_INT int gy_blocks_finish(struct gy_blocks_writer *writer, struct gy_blocks **memory, struct gy_error *err);
/* NULL is fine; a file stays as it was before. */
GY_INT void gy_blocks_abandon(struct gy_blocks_writer *writer);

#endif
