/* SPDX-License-Identifier: MIT */
/* decoder.h: the memory of one thread that decodes images. It is one block, from which pieces are
 * taken upwards: file contents, pixels, scratch. It is empty again for the next image, so a decoder
 * can leak nothing. Each thread of a loader and of packing has one. The block is reserved at once;
 * its pages are touched only as images need them. */
#ifndef GY_DECODER_H
#define GY_DECODER_H
#include "engine/base/mem.h"

#define GY_DECODER_BYTES ((size_t)256 << 20) /* enough for 20 million pixels of any JPEG */

struct gy_decoder {
    struct gy_alloc alloc;
    unsigned char *block;
    size_t room, used;
    size_t last; /* offset of the newest piece: it alone can grow or be given back */
};
GY_INT int gy_decoder_open(struct gy_decoder **out, const struct gy_alloc *alloc, size_t limit_bytes,
                           struct gy_error *err);
GY_INT void gy_decoder_close(struct gy_decoder *decoder);

GY_INT void gy_decoder_reset(struct gy_decoder *decoder);
/* count * elem_bytes bytes of undefined content, aligned for any type. NULL: the block is
 * exhausted. */
GY_INT void *gy_decoder_take(struct gy_decoder *decoder, size_t count, size_t elem_bytes);
/* As realloc; the old piece is lost unless it was the newest. */
GY_INT void *gy_decoder_resize(struct gy_decoder *decoder, void *ptr, size_t old_bytes, size_t new_bytes);
/* Gives the newest piece back; other pieces stay. */
GY_INT void gy_decoder_drop(struct gy_decoder *decoder, void *ptr);

#endif
