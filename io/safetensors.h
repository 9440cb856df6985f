/* SPDX-License-Identifier: MIT */
/* safetensors.h: named tensors in one file: 8 bytes of header length, a JSON header, raw little-endian data. A header is believed
 * only after every name, type, shape and offset in it was checked against the file: no gap, no overlap, no byte outside. */
#ifndef GY_SAFETENSORS_H
#define GY_SAFETENSORS_H
#include "../engine/base/file.h"

#define GY_ST_DIMS 8

enum gy_st_type { GY_ST_F32, GY_ST_F16, GY_ST_BF16, GY_ST_F64, GY_ST_I64, GY_ST_I32, GY_ST_U8, GY_ST_OTHER };

struct gy_st_tensor {
    const char *name;
    int type;                  /* enum gy_st_type */
    int dims;
    int64_t shape[GY_ST_DIMS];
    int64_t count;             /* elements */
    const unsigned char *data; /* little-endian, maybe unaligned; in the mapped file */
    size_t bytes;
};

struct gy_st_file; /* opened for reading */
GY_INT int gy_st_open(struct gy_st_file **out, const struct gy_alloc *alloc, const char *path, struct gy_error *err);
GY_INT int gy_st_parse(struct gy_st_file **out, const struct gy_alloc *alloc, const unsigned char *bytes, size_t count,
                       const char *name, struct gy_error *err); /* the same from memory that outlives it: for tests and fuzzing */
GY_INT void gy_st_close(struct gy_st_file *file);
GY_INT int gy_st_count(const struct gy_st_file *file);
GY_INT const struct gy_st_tensor *gy_st_at(const struct gy_st_file *file, int index);
GY_INT const struct gy_st_tensor *gy_st_find(const struct gy_st_file *file, const char *name); /* or NULL */
GY_INT const char *gy_st_meta(const struct gy_st_file *file, const char *key);                  /* __metadata__ text, or NULL */
/* Elements [first, first + count) as float (F32, F16, BF16, F64); GY_E_FORMAT for other types. */
GY_INT int gy_st_read_f32(const struct gy_st_tensor *tensor, int64_t first, int64_t count, float *out, struct gy_error *err);

/* Writing: declare all tensors, then supply data in the same order in pieces of any size, then commit. Whole or absent. */
struct gy_st_writer;
GY_INT int gy_st_create(struct gy_st_writer **out, const struct gy_alloc *alloc, const char *path, struct gy_error *err);
GY_INT int gy_st_add_meta(struct gy_st_writer *writer, const char *key, const char *value, struct gy_error *err);
GY_INT int gy_st_declare(struct gy_st_writer *writer, const char *name, int type, const int64_t *shape, int dims,
                         struct gy_error *err);
GY_INT int gy_st_write(struct gy_st_writer *writer, const void *data, size_t bytes, struct gy_error *err); /* little-endian */
GY_INT int gy_st_commit(struct gy_st_writer *writer, struct gy_error *err); /* GY_E_BUG when data is missing; closes */
GY_INT void gy_st_abandon(struct gy_st_writer *writer);                      /* closes without a file; NULL is fine */

#endif
