/* SPDX-License-Identifier: MIT */
/* compile.h: makes machine code of units of compilation: a kernel file with one set of macros for
 * one architecture. It comes from a pack, from the cache folder, or from NVRTC, which compiles all
 * that are missing at once in parallel threads. plans.c, peak.c and cuda_list.c call it. */
#ifndef GY_CUDA_COMPILE_H
#define GY_CUDA_COMPILE_H
#include "kernels/cuda/cache.h"
#include "kernels/cuda/sources.h"
#ifndef GY_NO_CUDA

struct gy_cuda_unit {
    const char *file;         /* "conv_ffma.cu"; text, or if NULL gy_cuda_source(file) */
    const char *text;
    const char *options;      /* "-DNAME=VALUE", each with a zero byte behind it */
    size_t option_bytes;
    int option_count, arch;
    unsigned char source[32]; /* SHA-256 of text, headers, options, architecture: for packs */
    unsigned char key[32];    /* of that and the compiler's version: what the cache knows it by */
    struct gy_cuda_image image;
    int origin;               /* enum gy_cuda_origin */
};
enum gy_cuda_origin { GY_CUDA_MISSING, GY_CUDA_FROM_PACK, GY_CUDA_FROM_CACHE, GY_CUDA_COMPILED };

struct gy_cuda_compiler {
    struct gy_cuda_library *lib; /* NVRTC is opened when it is first needed */
    const char *where;           /* folder in which CUDA is looked for first; or NULL */
    char folder[4096];           /* of the cache; "": none */
    struct gy_cuda_pack pack;
    const struct gy_log *log;
    int threads;                 /* 0: one a processor */
    int lacked;                  /* it was said what the pack lacks */
    int ptx;                     /* 1: images are PTX text, for people, without cache and pack */
    unsigned char emulator[32];  /* SHA-256 of the emulator's library, in keys; else zeros */
};

/* Fills each unit's image. GY_E_BUG: a compile error, with the compiler's first sentence. If
 * something is to be compiled without NVRTC, the sentence says where it was looked for. */
GY_INT int gy_cuda_compile(struct gy_cuda_compiler *compiler, struct gy_cuda_unit *const *units, int count, struct gy_error *err);
/* fills source */
GY_INT void gy_cuda_unit_hash(struct gy_cuda_unit *unit, const struct gy_cuda_compiler *compiler);

/* What the compiler said of a kernel. */
struct gy_cuda_report {
    /* bytes, a thread's and a block's (static) */
    int registers, stack, spill_stores, spill_loads, shared;
};
/* entry: the kernel's name. 0 when the log does not speak of it. */
GY_INT int gy_cuda_report_of(const char *log, const char *entry, struct gy_cuda_report *out);

#endif
#endif
