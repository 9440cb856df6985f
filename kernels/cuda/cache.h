/* SPDX-License-Identifier: MIT */
/* cache.h: compiled kernels kept in files. compile.c reads and writes the cache folder,
 * cuda_backend.c opens packs, cuda_list.c writes them. The name of a file in the cache folder is
 * the SHA-256 of all that made it: kernel text and headers, macros, architecture, compiler version.
 * The file carries the SHA-256 of its own content. It is written beside its place and renamed, so
 * other processes see it whole or not at all. A file that does not verify counts as absent. A pack
 * is one file with many compiled kernels, for machines without NVRTC: its keys leave the compiler
 * out. */
#ifndef GY_CUDA_CACHE_H
#define GY_CUDA_CACHE_H
#include "kernels/cuda/api.h"
#ifndef GY_NO_CUDA

/* Machine code and the compiler's log. The memory is malloc's: its size is unknown before the
 * compiler ran. */
struct gy_cuda_image {
    unsigned char *bytes;  /* a cubin, a zero byte behind it */
    size_t size;
    char *text;            /* the compiler's log, NUL-terminated; NULL: none */
    int nvrtc;             /* its version: 13000 is 13.0 */
};
GY_INT void gy_cuda_image_free(struct gy_cuda_image *image); /* safe on a zeroed struct */
/* Takes memory; bytes are undefined. GY_E_NOMEM. */
GY_INT int gy_cuda_image_make(struct gy_cuda_image *image, size_t size, size_t text_bytes, struct gy_error *err);

/* The folder: `wanted`, or gyre/kernels under $XDG_CACHE_HOME or ~/.cache. "": wanted is "" or
 * "off", or nothing is known. */
GY_INT void gy_cuda_cache_folder(const char *wanted, char *out, size_t room);
/* 1 with *out filled, 0 when it is not there or damaged. */
GY_INT int gy_cuda_cache_get(const char *folder, const unsigned char key[32], struct gy_cuda_image *out);
/* A folder that cannot be written is named in the log; nothing else happens. */
GY_INT void gy_cuda_cache_put(const char *folder, const unsigned char key[32], const struct gy_cuda_image *image,
                              const struct gy_log *log);

/* Reading a pack. */
struct gy_cuda_pack {
    char *data;
    size_t bytes;
    int count;
};
/* every hash is checked */
GY_INT int gy_cuda_pack_open(struct gy_cuda_pack *pack, const char *path, struct gy_error *err);
GY_INT void gy_cuda_pack_close(struct gy_cuda_pack *pack); /* safe on a zeroed struct */
GY_INT int gy_cuda_pack_get(const struct gy_cuda_pack *pack, const unsigned char key[32], struct gy_cuda_image *out);

/* Writing one. keys: [count][32]. */
GY_INT int gy_cuda_pack_write(const char *path, unsigned char (*keys)[32], const struct gy_cuda_image *images, int count,
                              struct gy_error *err);

#endif
#endif
