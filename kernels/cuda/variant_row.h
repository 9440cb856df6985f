/* SPDX-License-Identifier: MIT */
/* variant_row.h: one variant of an op on the device, a row of variants_ops.c, variants_conv.c or
 * variants_glm.c. The row says for which op code, architectures and types it is made, and whether
 * it fits the op's shape. Its cut names the file of its kernels, macros, launches and scratch.
 * Which facts of the op become macros stands in the row, too. Everything here is a pure function of
 * op and device and takes no memory. */
#ifndef GY_CUDA_VARIANT_ROW_H
#define GY_CUDA_VARIANT_ROW_H
#include "kernels/op.h"
#include "kernels/cuda/args.h"

#define GY_CUDA_LAUNCHES 4
#define GY_CUDA_DEFINES 16

struct gy_cuda_device {
    int arch;            /* 60, 70, 75, 80, 86, 89, 90, 100, 120 ... */
    /* multiprocessors; a cut that sums never depends on it, so bits are the same on every card */
    int processors;
    int shared_most;     /* bytes of shared memory a block may have */
    int bulk;            /* the driver makes tensor maps */
};

struct gy_cuda_launch {
    const char *entry;   /* name of the kernel in the file */
    unsigned grid[3];    /* at most 2^31 - 1, 65535, 65535 */
    unsigned threads;    /* a block */
    unsigned shared;     /* bytes */
};

/* Tensor map wanted for args.map[i]; filled when addresses are known. */
enum gy_cuda_map_kind { GY_MAP_NONE, GY_MAP_TILED, GY_MAP_IM2COL };
struct gy_cuda_map {
    int kind, role;                      /* of the tensor */
    uint64_t sizes[4], strides[3];       /* innermost first; strides from dimension 1 on, bytes */
    uint32_t box[4], element_strides[4]; /* tiled: elements of a box */
    int lower[2], upper[2];              /* im2col: corner of the pixel box, W then H */
    uint32_t channels, pixels;           /* im2col: a load brings pixels x channels */
    int swizzle;                         /* 0 none, 1 32 bytes, 2 64, 3 128 */
    int rank, f32;                       /* f32: elements are floats, else 16-bit */
};

/* One kernel file compiled with one set of macros, and what is launched from it, in order. */
struct gy_cuda_cut {
    const char *file;                                   /* "conv_ffma.cu" */
    /* a file that is not the library's; NULL: the library's of this name */
    const char *text;
    int launches, defines;
    struct gy_cuda_launch launch[GY_CUDA_LAUNCHES];     /* all from the same compiled file */
    /* beyond the row's facts: tile sizes, slices; text: a name instead of the value */
    struct { const char *name; int64_t value; const char *text; } define[GY_CUDA_DEFINES];
    struct gy_cuda_map map[GY_CUDA_MAPS];
    size_t scratch;                                     /* bytes of GY_SCRATCH */
};

/* Facts of an op that become macros, by name as in prelude.cuh. */
enum gy_cuda_facts {
    GY_FACT_SHAPE = 1,    /* GY_N GY_H GY_W_ GY_C (GY_W and GY_P are other things) */
    GY_FACT_OUT = 2,      /* GY_P_ GY_Q GY_K */
    GY_FACT_WINDOW = 4,   /* GY_R GY_S GY_STRIDE_* GY_PAD_* GY_DIL_* GY_GROUPS */
    GY_FACT_ACT = 8,      /* GY_ACT (else 0) */
    GY_FACT_FLAGS = 16,   /* GY_FLAGS (else 0) */
    GY_FACT_ID = 32,      /* GY_ID */
    GY_FACT_F = 64,       /* GY_F0 .. GY_F7 */
    GY_FACT_HAS = 128,    /* GY_HAS_X .. one for each role */
    GY_FACT_SPANS = 256   /* GY_SPANS */
};

struct gy_cuda_row {
    int code;             /* enum gy_opcode */
    const char *name;     /* for people, unique for its code: "ffma", "mma16", "wgmma", "rows" */
    int arch;             /* least architecture; a row for exactly one generation says so in fits */
    unsigned dtypes;      /* bits 1 << enum gy_dtype */
    unsigned facts;
    int (*fits)(const struct gy_op *op, const struct gy_cuda_device *device); /* NULL: always */
    /* out is zeroed */
    void (*cut)(const struct gy_op *op, const struct gy_cuda_device *device, struct gy_cuda_cut *out);
};

#endif
