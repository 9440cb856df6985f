/* SPDX-License-Identifier: MIT */
/* safetensors.h: reads and writes named tensors in one file: 8 bytes of header length, a JSON
 * header, raw little-endian data. The reader first checks every name, type, shape and offset of the
 * header against the file: no gap, no overlap, no byte outside. Checkpoints of nets (engine/run,
 * engine/train) and of linear models use it. Format: https://huggingface.co/docs/safetensors */
#ifndef GY_SAFETENSORS_H
#define GY_SAFETENSORS_H
#include "engine/base/file.h"

#define GY_ST_DIMS 8
#define GY_ST_MAX_HEADER 100000000 /* bytes, as the format says */

enum gy_st_type { GY_ST_F32, GY_ST_F16, GY_ST_BF16, GY_ST_F64, GY_ST_I64, GY_ST_I32, GY_ST_U8, GY_ST_OTHER };

struct gy_st_tensor {
    const char *name;          /* UTF-8 */
    const char *dtype;         /* the file's word: "F32", "BOOL" */
    int type;                  /* enum gy_st_type */
    int dims;                  /* 0: one element */
    int64_t shape[GY_ST_DIMS];
    int64_t count;             /* elements */
    const unsigned char *data; /* little-endian, maybe unaligned; NULL: in a file, at `at` */
    const struct gy_file *file;
    uint64_t at;
    size_t bytes;
};

struct gy_st_file; /* opened for reading */
/* Errors: GY_E_IO, GY_E_TRUNCATED (the file ends before its header says so), GY_E_FORMAT,
 * GY_E_UNSUPPORTED (an unknown dtype or number of dimensions), GY_E_NOMEM. */
GY_INT int gy_st_open(struct gy_st_file **out, const struct gy_alloc *alloc, const char *path, struct gy_error *err);
/* The same from memory that outlives it: for tests and fuzzing. name is for sentences. */
GY_INT int gy_st_parse(struct gy_st_file **out, const struct gy_alloc *alloc, const unsigned char *bytes, size_t count,
                       const char *name, struct gy_error *err);
GY_INT void gy_st_close(struct gy_st_file *file); /* NULL is fine */
GY_INT int gy_st_count(const struct gy_st_file *file);
/* at, meta_key: in the header's order. find, meta (__metadata__ text): NULL where there is none. */
GY_INT const struct gy_st_tensor *gy_st_at(const struct gy_st_file *file, int index);
GY_INT const struct gy_st_tensor *gy_st_find(const struct gy_st_file *file, const char *name);
GY_INT const char *gy_st_meta(const struct gy_st_file *file, const char *key);
GY_INT int gy_st_meta_count(const struct gy_st_file *file);
GY_INT const char *gy_st_meta_key(const struct gy_st_file *file, int index);
/* bytes as they are */
GY_INT int gy_st_read_bytes(const struct gy_st_tensor *tensor, size_t from, size_t bytes, void *to, struct gy_error *err);
/* Elements [first, first + count) as float (F32, F16, BF16, F64). GY_E_FORMAT: another type;
 * GY_E_ARG: out of range. */
GY_INT int gy_st_read_f32(const struct gy_st_tensor *tensor, int64_t first, int64_t count, float *out,
                          struct gy_error *err);

/* Writing: declare all tensors, supply data in the same order in pieces of any size, then commit.
 * The file is whole or absent. The data section starts at a multiple of 8 bytes and has no gaps.
 * Declare wide elements first where an old reader wants them aligned. */
struct gy_st_writer;
GY_INT int gy_st_create(struct gy_st_writer **out, const struct gy_alloc *alloc, const char *path,
                        struct gy_error *err);
GY_INT int gy_st_add_meta(struct gy_st_writer *writer, const char *key, const char *value, struct gy_error *err);
GY_INT int gy_st_declare(struct gy_st_writer *writer, const char *name, int type, const int64_t *shape, int dims,
                         struct gy_error *err);
/* data: little-endian. */
GY_INT int gy_st_write(struct gy_st_writer *writer, const void *data, size_t bytes, struct gy_error *err);
/* count values of this machine, converted; they may start and end inside a tensor of that type. */
GY_INT int gy_st_write_f32(struct gy_st_writer *writer, const float *values, int64_t count, struct gy_error *err);
GY_INT int gy_st_write_i64(struct gy_st_writer *writer, const int64_t *values, int64_t count, struct gy_error *err);
/* Closes, whatever happens; GY_E_BUG when data is missing. */
GY_INT int gy_st_commit(struct gy_st_writer *writer, struct gy_error *err);
GY_INT void gy_st_abandon(struct gy_st_writer *writer); /* closes without a file; NULL is fine */

/* Shared by reader and writer. */
GY_INT int gy_st_element_bytes(int type);     /* of enum gy_st_type; 0 for GY_ST_OTHER */
GY_INT const char *gy_st_dtype(int type);     /* "F32"; NULL for GY_ST_OTHER */
/* Heap sort of order[0..count) by less(context, a, b); allocates nothing. */
GY_INT void gy_st_sort(int32_t *order, int32_t count, int (*less)(const void *context, int32_t a, int32_t b),
                       const void *context);
/* A name for sentences: cut, control characters as '?'. Returns buf. */
GY_INT const char *gy_st_show(char buf[128], const char *name);

#endif
