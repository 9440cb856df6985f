/* SPDX-License-Identifier: MIT */
/* image_stb.c: the bridge to stb_image, a system header, for JPEG, PNG and BMP (image.c) and for
 * deflate (gzip.c). Its memory is a decoder's block (zeroed, bounded, forgotten as a whole). Its
 * assertions become errors, and callers have checked headers and sizes before. stb_image has no
 * user pointer, hence the one thread-local variable of Gyre: the decoder at work on this thread.
 * Without the header, build with GY_NO_IMAGE. */
#include "io/images/data_set.h"

#ifdef GY_NO_IMAGE

GY_INT int gy_stb_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                         int32_t channels, struct gy_image *image, struct gy_error *err)
{
    (void)decoder, (void)bytes, (void)count, (void)channels, (void)image;
    return GY_FAIL(err, GY_E_UNSUPPORTED, "%s: this build reads no JPEG, PNG or BMP (built without stb_image)", name);
}

GY_INT int gy_stb_inflate(const unsigned char *bytes, size_t count, unsigned char *out, size_t out_bytes,
                          const char *name, struct gy_error *err)
{
    (void)bytes, (void)count, (void)out, (void)out_bytes;
    return GY_FAIL(err, GY_E_UNSUPPORTED,
                   "%s: this build reads no .gz files (built without stb_image); unpack it first", name);
}

#else

#include <setjmp.h>

struct stb_call {
    struct gy_decoder *decoder; /* NULL: nothing may be allocated */
    const char *assertion;      /* text of the one that failed */
    jmp_buf back;
};
static __thread struct stb_call *stb_now;

static void *stb_take(size_t bytes)
{
    void *piece = stb_now->decoder ? gy_decoder_take(stb_now->decoder, bytes, 1) : NULL;
    return piece ? memset(piece, 0, bytes) : NULL;
}

static void *stb_resize(void *ptr, size_t old_bytes, size_t new_bytes)
{
    unsigned char *piece =
        stb_now->decoder ? gy_decoder_resize(stb_now->decoder, ptr, ptr ? old_bytes : 0, new_bytes) : NULL;
    if (piece && new_bytes > old_bytes)
        memset(piece + old_bytes, 0, new_bytes - old_bytes);
    return piece;
}

static void stb_drop(void *ptr)
{
    if (stb_now->decoder)
        gy_decoder_drop(stb_now->decoder, ptr);
}

static void stb_assertion_failed(const char *text)
{
    stb_now->assertion = text;
    longjmp(stb_now->back, 1);
}

#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_MAX_DIMENSIONS 16384
#define STBI_MALLOC(bytes) stb_take(bytes)
#define STBI_REALLOC_SIZED(ptr, old_bytes, new_bytes) stb_resize((ptr), (old_bytes), (new_bytes))
#define STBI_FREE(ptr) stb_drop(ptr)
#define STBI_REALLOC(ptr, bytes) ((void)(ptr), (void)(bytes), (void *)NULL)
#define STBI_ASSERT(cond) ((cond) ? (void)0 : stb_assertion_failed(#cond))

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#endif
#if defined(__has_include)
#if __has_include(<stb/stb_image.h>)
#include <stb/stb_image.h>
#else
#include <stb_image.h>
#endif
#else
#include <stb/stb_image.h>
#endif
/* Declared by the header but not built: defined here so that no compiler complains. */
static stbi_uc *stbi_load_gif_from_memory(stbi_uc const *buffer, int len, int **delays, int *x, int *y, int *z,
                                          int *comp, int req_comp)
{
    (void)buffer, (void)len, (void)delays, (void)x, (void)y, (void)z, (void)comp, (void)req_comp;
    return NULL;
}
static void stbi_set_unpremultiply_on_load_thread(int flag) { (void)flag; }
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* Why stb_image gave up, as words for people. */
static const char *stb_reason(const struct stb_call *call)
{
    const char *reason = call->assertion ? "its structure contradicts itself" : stbi_failure_reason();
    if (reason && strcmp(reason, "outofmem") == 0)
        return "decoding it needs more memory than a decoder has";
    return reason ? reason : "it is damaged";
}

/* Four bytes a pixel to three, in place. */
static void stb_drop_fourth(unsigned char *pixels, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint32_t pixel;
        memcpy(&pixel, pixels + 4 * i, 4);
        memcpy(pixels + 3 * i, &pixel, 4); /* the fourth byte lies before the next pixel */
    }
}

GY_INT int gy_stb_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                         int32_t channels, struct gy_image *image, struct gy_error *err)
{
    /* a JPEG: stb_image's vectors make four channels, not three */
    const int four = channels == 3 && count > 1 && bytes[0] == 0xff;
    if (count > INT_MAX)
        return GY_FAIL(err, GY_E_IMAGE, "%s: %zu bytes are more than an image file may have", name, count);
    struct stb_call call;
    memset(&call, 0, sizeof call);
    call.decoder = decoder;
    unsigned char *volatile pixels = NULL;
    int w = 0, h = 0, c = 0;
    stb_now = &call;
    if (setjmp(call.back) == 0)
        pixels = stbi_load_from_memory(bytes, (int)count, &w, &h, &c, four ? 4 : channels);
    stb_now = NULL;
    if (!pixels)
        return GY_FAIL(err, GY_E_IMAGE, "%s: cannot be decoded: %s", name, stb_reason(&call));
    if (four)
        stb_drop_fourth(pixels, (size_t)w * (size_t)h);
    *image = (struct gy_image){pixels, h, w, channels, NULL};
    return GY_OK;
}

GY_INT int gy_stb_inflate(const unsigned char *bytes, size_t count, unsigned char *out, size_t out_bytes,
                          const char *name, struct gy_error *err)
{
    if (count > INT_MAX || out_bytes > INT_MAX)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s: .gz files above %d bytes are not read; unpack it first", name,
                       INT_MAX);
    struct stb_call call;
    memset(&call, 0, sizeof call);
    volatile int got = -1;
    stb_now = &call;
    if (setjmp(call.back) == 0) /* stb_image only reads through these pointers of char */
        got = stbi_zlib_decode_noheader_buffer((char *)out, (int)out_bytes, (const char *)bytes, (int)count);
    stb_now = NULL;
    if (got < 0)
        return GY_FAIL(err, GY_E_FORMAT, "%s: the compressed data are damaged", name);
    if ((size_t)got != out_bytes)
        return GY_FAIL(err, GY_E_FORMAT, "%s: unpacks to %d bytes, its trailer says %zu", name, got, out_bytes);
    return GY_OK;
}

#endif
