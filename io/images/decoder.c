/* SPDX-License-Identifier: MIT */
/* decoder.c: a decoder is one block of memory taken at open, handed out upwards and forgotten when
 * the next image begins. So decoding cannot leak, cannot exceed its bound and never calls the
 * allocator. Under AddressSanitizer every byte that is not handed out is poisoned, with a gap after
 * each piece, so that overruns inside the block are seen. */
#include "io/images/decoder.h"

#if defined(__SANITIZE_ADDRESS__)
#define DECODER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DECODER_ASAN 1
#endif
#endif

#ifdef DECODER_ASAN
#include <sanitizer/asan_interface.h>
#define DECODER_GAP 64
#define DECODER_HIDE(at, bytes) __asan_poison_memory_region((at), (bytes))
#define DECODER_SHOW(at, bytes) __asan_unpoison_memory_region((at), (bytes))
#else
#define DECODER_GAP 0
#define DECODER_HIDE(at, bytes) ((void)(at), (void)(bytes))
#define DECODER_SHOW(at, bytes) ((void)(at), (void)(bytes))
#endif

GY_INT int gy_decoder_open(struct gy_decoder **out, const struct gy_alloc *alloc, size_t limit_bytes,
                           struct gy_error *err)
{
    struct gy_decoder *decoder = gy_alloc_take(alloc, 1, sizeof *decoder);
    if (!decoder)
        return GY_NOMEM(err, "an image decoder", sizeof *decoder);
    decoder->alloc = *alloc;
    decoder->room = gy_align_up(limit_bytes < 4096 ? 4096 : limit_bytes, GY_CACHE_LINE);
    /* not through gy_alloc_take: pages that no image needs stay untouched */
    decoder->block = alloc->fn(alloc->user, NULL, 0, decoder->room);
    if (!decoder->block) {
        const size_t room = decoder->room;
        gy_alloc_free(alloc, decoder, sizeof *decoder);
        return GY_NOMEM(err, "an image decoder", room);
    }
    gy_decoder_reset(decoder);
    *out = decoder;
    return GY_OK;
}

GY_INT void gy_decoder_close(struct gy_decoder *decoder)
{
    if (!decoder)
        return;
    const struct gy_alloc alloc = decoder->alloc;
    DECODER_SHOW(decoder->block, decoder->room);
    gy_alloc_free(&alloc, decoder->block, decoder->room);
    gy_alloc_free(&alloc, decoder, sizeof *decoder);
}

GY_INT void gy_decoder_reset(struct gy_decoder *decoder)
{
    decoder->used = 0;
    decoder->last = 0;
    DECODER_HIDE(decoder->block, decoder->room);
}

GY_INT void *gy_decoder_take(struct gy_decoder *decoder, size_t count, size_t elem_bytes)
{
    size_t bytes;
    if (gy_mul_size(count, elem_bytes, &bytes) || bytes > decoder->room)
        return NULL;
    const size_t whole = gy_align_up(bytes ? bytes : 1, 16) + DECODER_GAP;
    if (whole > decoder->room - decoder->used)
        return NULL;
    unsigned char *piece = decoder->block + decoder->used;
    decoder->last = decoder->used;
    decoder->used += whole;
    DECODER_SHOW(piece, bytes);
    return piece;
}

GY_INT void gy_decoder_drop(struct gy_decoder *decoder, void *ptr)
{
    if (!ptr || decoder->used == 0 || (unsigned char *)ptr != decoder->block + decoder->last)
        return;
    DECODER_HIDE(decoder->block + decoder->last, decoder->used - decoder->last);
    decoder->used = decoder->last; /* the piece before it cannot be given back any more */
}

GY_INT void *gy_decoder_resize(struct gy_decoder *decoder, void *ptr, size_t old_bytes, size_t new_bytes)
{
    if (ptr && decoder->used > 0 && (unsigned char *)ptr == decoder->block + decoder->last) {
        const size_t at = decoder->last;
        if (new_bytes > decoder->room)
            return NULL;
        const size_t whole = gy_align_up(new_bytes ? new_bytes : 1, 16) + DECODER_GAP;
        if (whole > decoder->room - at)
            return NULL;
        DECODER_HIDE(decoder->block + at, decoder->used - at);
        decoder->used = at + whole;
        DECODER_SHOW(decoder->block + at, new_bytes);
        return ptr;
    }
    void *fresh = gy_decoder_take(decoder, new_bytes, 1);
    if (fresh && ptr)
        memcpy(fresh, ptr, old_bytes < new_bytes ? old_bytes : new_bytes);
    return fresh;
}

#undef DECODER_GAP
#undef DECODER_HIDE
#undef DECODER_SHOW
