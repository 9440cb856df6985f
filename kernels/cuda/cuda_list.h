/* SPDX-License-Identifier: MIT */
/* cuda_list.h: what the CUDA backend would launch for a prepared op, and what the compiler made of
 * it. tools/lab/kernel_list.c prints and packs it for 'gyre kernels', tools/lab/try.c prepares a
 * user's kernel. engine/run/kernel_notes.c notes the hashes in checkpoints; cuda_backend.c's lab
 * lists variants. */
#ifndef GY_CUDA_LIST_H
#define GY_CUDA_LIST_H
#include "kernels/backend.h"
#include "engine/base/text.h"

struct gy_kernel_info {
    const char *file, *entry, *row;    /* "conv_ffma.cu", name of the kernel, name of the variant */
    char source[65];                   /* SHA-256 of text, macros and architecture, in hex */
    unsigned grid[3], threads, shared; /* shared: dynamic bytes of a block */
    int reported;                      /* the rest was said by the compiler */
    int registers, stack, spilled;     /* of a thread; bytes stored and loaded beside registers */
    double occupancy;                  /* share of a multiprocessor's threads */
    int hot; /* a convolution whose channels fill vectors: it must not spill */
};

/* Compiles everything prepared so far; also without a device. self: of gy_cuda_backend. */
GY_INT int gy_cuda_list_ready(void *self, struct gy_error *err);
/* Launch number `launch` of a prepared op; 0 past the last. After gy_cuda_list_ready. */
GY_INT int gy_cuda_list_info(void *self, const struct gy_op *op, int launch, struct gy_kernel_info *out);

#ifndef GY_NO_CUDA
/* Name of the index-th row that fits op, in the table's order; the last one is the table's choice.
 * NULL past it. */
GY_INT const char *gy_cuda_list_variant(void *self, const struct gy_op *op, int index);
/* Prepares op with a kernel of the caller's: cut->text. Texts live as long as the backend. */
struct gy_cuda_cut;
GY_INT int gy_cuda_list_own(void *self, struct gy_op *op, const struct gy_cuda_cut *cut, struct gy_error *err);
#endif

enum gy_kernel_form { GY_KERNEL_SOURCE, GY_KERNEL_PTX, GY_KERNEL_CUBIN };
/* The op's kernels as text with their macros, as PTX, or as machine code. */
GY_INT int gy_cuda_list_dump(void *self, const struct gy_op *op, int form, struct gy_sink *sink, struct gy_error *err);

/* Kernels on their way into a pack, of one backend after another. */
struct gy_kernel_pack {
    unsigned char (*keys)[32];
    struct gy_cuda_image *images;
    int count, room;
};
/* after gy_cuda_list_ready */
GY_INT int gy_cuda_list_collect(void *self, struct gy_kernel_pack *pack, struct gy_error *err);
GY_INT int gy_cuda_list_write(const struct gy_kernel_pack *pack, const char *path, struct gy_error *err);
GY_INT void gy_cuda_list_close(struct gy_kernel_pack *pack);
/* Two hashes over all kernels prepared so far, in hex: of texts, macros and architecture; of
 * machine code. *count: how many. After ready. */
GY_INT void gy_cuda_list_hash(void *self, char texts[65], char code[65], int *count);

#endif
