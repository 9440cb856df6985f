/* SPDX-License-Identifier: MIT */
/* cache.c: the records of the cache folder and of packs. A record is a head of fixed size with the
 * key, sizes and the SHA-256 of head and content, then the content. A pack is a mark and its
 * records one after another. Numbers are little-endian, as on every machine that has a GPU. */
#include "kernels/cuda/cache.h"
#ifndef GY_NO_CUDA
#include "engine/base/file.h"
#include "engine/base/hash.h"

#define CACHE_MOST ((size_t)1 << 30) /* bytes of a file that is read */

static const char cache_mark[8] = { 'G', 'Y', 'R', 'E', 'K', 'R', 'N', '1' };
static const char cache_pack_mark[8] = { 'G', 'Y', 'R', 'E', 'P', 'C', 'K', '1' };

struct cache_head {
    char mark[8];
    unsigned char key[32];
    uint64_t size, text_bytes; /* the log with its NUL; 0: none */
    int32_t nvrtc, unused;
    unsigned char hash[32];    /* of all before it and of the content */
};
GY_STATIC_ASSERT(sizeof(struct cache_head) == 96, cache_head);

GY_INT void gy_cuda_image_free(struct gy_cuda_image *image)
{
    const struct gy_alloc alloc = gy_alloc_default();
    gy_alloc_free(&alloc, image->bytes, image->size + 1);
    gy_alloc_free(&alloc, image->text, 0);
    memset(image, 0, sizeof *image);
}

GY_INT int gy_cuda_image_make(struct gy_cuda_image *image, size_t size, size_t text_bytes, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_cuda_image new = { .size = size };
    if (size > CACHE_MOST || text_bytes > CACHE_MOST)
        return GY_FAIL(err, GY_E_NOMEM, "a compiled kernel of %zu bytes with %zu bytes of text", size, text_bytes);
    new.bytes = gy_alloc_take(&alloc, size + 1, 1);
    new.text = text_bytes ? gy_alloc_take(&alloc, text_bytes + 1, 1) : NULL;
    if (!new.bytes || (text_bytes && !new.text)) {
        gy_cuda_image_free(&new);
        return GY_NOMEM(err, "a compiled kernel", size + text_bytes);
    }
    *image = new;
    return GY_OK;
}

static void cache_hash(const struct cache_head *head, const void *bytes, const void *text, unsigned char hash[32])
{
    struct gy_sha256 sha;
    gy_sha256_open(&sha);
    gy_sha256_add(&sha, head, offsetof(struct cache_head, hash));
    gy_sha256_add(&sha, bytes, (size_t)head->size);
    if (text)
        gy_sha256_add(&sha, text, (size_t)head->text_bytes);
    gy_sha256_close(&sha, hash);
}

/* The record at data, of at most `bytes`: its whole length, or 0 when it is cut or damaged. */
static size_t cache_record(const char *data, size_t bytes, struct cache_head *head)
{
    unsigned char hash[32];
    if (bytes < sizeof *head)
        return 0;
    memcpy(head, data, sizeof *head);
    const size_t room = bytes - sizeof *head;
    if (memcmp(head->mark, cache_mark, sizeof cache_mark) != 0 || head->size > room || head->text_bytes > room - head->size)
        return 0;
    cache_hash(head, data + sizeof *head, data + sizeof *head + head->size, hash);
    return memcmp(hash, head->hash, sizeof hash) == 0 ? sizeof *head + (size_t)(head->size + head->text_bytes) : 0;
}

static int cache_take(const struct cache_head *head, const char *content, struct gy_cuda_image *out)
{
    if (gy_cuda_image_make(out, (size_t)head->size, (size_t)head->text_bytes, NULL) != GY_OK)
        return 0;
    memcpy(out->bytes, content, (size_t)head->size);
    if (out->text)
        memcpy(out->text, content + head->size, (size_t)head->text_bytes);
    out->nvrtc = head->nvrtc;
    return 1;
}

static int cache_write(struct gy_outfile *file, const unsigned char key[32], const struct gy_cuda_image *image, struct gy_error *err)
{
    struct cache_head head = { .size = image->size, .text_bytes = image->text ? strlen(image->text) + 1 : 0,
                               .nvrtc = image->nvrtc };
    memcpy(head.mark, cache_mark, sizeof head.mark);
    memcpy(head.key, key, sizeof head.key);
    cache_hash(&head, image->bytes, image->text, head.hash);
    GY_TRY(gy_outfile_write(file, &head, sizeof head, err));
    GY_TRY(gy_outfile_write(file, image->bytes, image->size, err));
    return gy_outfile_write(file, image->text ? image->text : "", (size_t)head.text_bytes, err);
}

/* ---- the folder ---- */

GY_INT void gy_cuda_cache_folder(const char *wanted, char *out, size_t room)
{
    out[0] = 0;
    if (!wanted)
        gy_file_cache(out, room, "kernels");
    else if (strcmp(wanted, "off") != 0 && gy_text_copy(out, room, wanted) != 0)
        out[0] = 0;
}

static int cache_path(const char *folder, const unsigned char key[32], char path[4096])
{
    char hex[65];
    gy_sha256_hex(key, hex);
    return folder[0] ? gy_file_join(path, 4096, folder, hex, NULL) : GY_E_ARG;
}

GY_INT int gy_cuda_cache_get(const char *folder, const unsigned char key[32], struct gy_cuda_image *out)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct cache_head head;
    char path[4096], *data;
    size_t bytes;
    if (cache_path(folder, key, path) != GY_OK || gy_file_exists(path) != 1 ||
        gy_file_read(&alloc, path, CACHE_MOST, &data, &bytes, NULL) != GY_OK)
        return 0;
    const int whole = bytes > 0 && cache_record(data, bytes, &head) == bytes && memcmp(head.key, key, sizeof head.key) == 0;
    const int taken = whole && cache_take(&head, data + sizeof head, out);
    gy_alloc_free(&alloc, data, bytes + 1);
    return taken;
}

static int cache_store(const char *path, const unsigned char key[32], const struct gy_cuda_image *image, struct gy_error *err)
{
    struct gy_outfile file;
    GY_TRY(gy_outfile_open(&file, path, err));
    const int status = cache_write(&file, key, image, err);
    if (status != GY_OK) {
        gy_outfile_abandon(&file);
        return status;
    }
    return gy_outfile_commit(&file, err);
}

GY_INT void gy_cuda_cache_put(const char *folder, const unsigned char key[32], const struct gy_cuda_image *image,
                              const struct gy_log *log)
{
    struct gy_error err = { 0 };
    char path[4096];
    if (cache_path(folder, key, path) != GY_OK)
        return;
    if (gy_file_make_folder(folder, &err) != GY_OK || cache_store(path, key, image, &err) != GY_OK)
        gy_log_write(log, GY_LOG_WARN, "compiled kernels are not kept: %s", err.text);
}

/* ---- packs ---- */

GY_INT int gy_cuda_pack_open(struct gy_cuda_pack *pack, const char *path, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_cuda_pack new = { .data = NULL };
    struct cache_head head;
    GY_TRY(gy_file_read(&alloc, path, CACHE_MOST, &new.data, &new.bytes, err));
    size_t at = sizeof cache_pack_mark;
    if (new.bytes < at || memcmp(new.data, cache_pack_mark, at) != 0) {
        gy_cuda_pack_close(&new);
        return GY_FAIL(err, GY_E_FORMAT, "%.300s is no pack of kernels", path);
    }
    for (; at < new.bytes; new.count++) {
        const size_t length = cache_record(new.data + at, new.bytes - at, &head);
        if (!length) {
            const int bad = new.count;
            gy_cuda_pack_close(&new);
            return GY_FAIL(err, GY_E_HASH, "%.300s: kernel %d of the pack is cut off or damaged", path, bad);
        }
        at += length;
    }
    *pack = new;
    return GY_OK;
}

GY_INT void gy_cuda_pack_close(struct gy_cuda_pack *pack)
{
    const struct gy_alloc alloc = gy_alloc_default();
    gy_alloc_free(&alloc, pack->data, pack->bytes + 1);
    memset(pack, 0, sizeof *pack);
}

GY_INT int gy_cuda_pack_get(const struct gy_cuda_pack *pack, const unsigned char key[32], struct gy_cuda_image *out)
{
    struct cache_head head;
    size_t at = sizeof cache_pack_mark;
    for (int i = 0; i < pack->count; i++) {
        memcpy(&head, pack->data + at, sizeof head);
        if (memcmp(head.key, key, sizeof head.key) == 0)
            return cache_take(&head, pack->data + at + sizeof head, out);
        at += sizeof head + (size_t)(head.size + head.text_bytes);
    }
    return 0;
}

GY_INT int gy_cuda_pack_write(const char *path, unsigned char (*keys)[32], const struct gy_cuda_image *images, int count,
                              struct gy_error *err)
{
    struct gy_outfile file;
    GY_TRY(gy_outfile_open(&file, path, err));
    int status = gy_outfile_write(&file, cache_pack_mark, sizeof cache_pack_mark, err);
    for (int i = 0; i < count && status == GY_OK; i++)
        status = cache_write(&file, keys[i], &images[i], err);
    if (status != GY_OK) {
        gy_outfile_abandon(&file);
        return status;
    }
    return gy_outfile_commit(&file, err);
}

#endif
