/* SPDX-License-Identifier: MIT */
/* packed.c: reads a packed file (.gyr): raw pixels of a whole data set in one file, as pack.c
 * writes it. data_open.c tries it first. All numbers are little-endian.
 *
 *   header  96 bytes: 8 magic, u32 version 1, u32 flags 0, u64 samples, u32 classes, u32 channels,
 *           u32 h, u32 w (0 x 0: they differ), u64 offset of the index, u64 bytes of class names,
 *           u64 bytes of sample names, u64 bytes of the file, u32 CRC-32C of everything from the
 *           index to the end, zeros to byte 92, u32 CRC-32C of the 92 bytes before
 *   pixels  from byte 96, sample behind sample without gaps, [h][w][c] bytes each
 *   index   32 bytes a sample: u64 offset, u32 h, u32 w, u32 label, u32 CRC-32C of the pixels, u64
 *           offset in the sample names
 *   names   of the classes in order, then of the samples in order, each with a NUL
 *
 * Opening checks every field of it against the file, and keeps a copy of the index and names that
 * it checked. So reading has only the pixels' sum to check. */
#include "io/images/packed.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"

struct packed_data {
    struct gy_file file;
    struct gy_packed_view view;
};

struct packed_header {
    uint64_t count, index_at, class_bytes, name_bytes, file_bytes;
    uint32_t version, flags, classes, channels, h, w, tail_crc, crc;
};

static struct packed_header packed_read_header(const unsigned char *b)
{
    struct packed_header h;
    h.version = gy_le32(b + 8);
    h.flags = gy_le32(b + 12);
    h.count = gy_le64(b + 16);
    h.classes = gy_le32(b + 24);
    h.channels = gy_le32(b + 28);
    h.h = gy_le32(b + 32);
    h.w = gy_le32(b + 36);
    h.index_at = gy_le64(b + 40);
    h.class_bytes = gy_le64(b + 48);
    h.name_bytes = gy_le64(b + 56);
    h.file_bytes = gy_le64(b + 64);
    h.tail_crc = gy_le32(b + 72);
    h.crc = gy_le32(b + PACKED_HEADER - 4);
    return h;
}

static int packed_check_header(const struct packed_header *h, const unsigned char *bytes, uint64_t count,
                               const char *name, struct gy_error *err)
{
    if (gy_crc32c_differs(bytes, PACKED_HEADER - 4, h->crc))
        return GY_FAIL(err, GY_E_HASH, "%s: the checksum of its header differs", name);
    if (h->version != 1 || h->flags != 0)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s: version %" PRIu32 " with flags %" PRIu32
                       "; this build reads version 1", name, h->version, h->flags);
    if (h->file_bytes != count)
        return GY_FAIL(err, h->file_bytes > count ? GY_E_TRUNCATED : GY_E_FORMAT,
                       "%s: %" PRIu64 " bytes, its header says %" PRIu64, name, count, h->file_bytes);
    if (h->count < 1 || h->count > PACKED_SAMPLES || h->classes < 1 || h->classes > INT32_MAX ||
        (h->channels != 1 && h->channels != 3))
        return GY_FAIL(err, GY_E_FORMAT, "%s: %" PRIu64 " samples, %" PRIu32 " classes, %" PRIu32 " channels", name,
                       h->count, h->classes, h->channels);
    /* each term is below 2^63 after the limits on count, and the sum is compared piece by piece */
    const uint64_t index_bytes = h->count * PACKED_ENTRY;
    if (h->index_at < PACKED_HEADER || h->index_at > count || index_bytes > count - h->index_at ||
        h->class_bytes > count - h->index_at - index_bytes ||
        h->name_bytes != count - h->index_at - index_bytes - h->class_bytes || count - h->index_at > SIZE_MAX)
        return GY_FAIL(err, GY_E_FORMAT, "%s: its index and names do not fill the file", name);
    return GY_OK;
}

/* Exactly n texts, each with its NUL, in bytes bytes? */
static int packed_has_texts(const unsigned char *text, uint64_t bytes, uint64_t n)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char *nul = at < bytes ? memchr(text + at, 0, bytes - at) : NULL;
        if (!nul)
            return 0;
        at = (uint64_t)(nul - text) + 1;
    }
    return at == bytes;
}

static int packed_check_entry(const struct packed_header *h, const unsigned char *entry, uint64_t number,
                              uint64_t *pixel_at, const char *names, uint64_t *name_at, const char *name,
                              struct gy_error *err)
{
    const uint32_t ih = gy_le32(entry + 8), iw = gy_le32(entry + 12), label = gy_le32(entry + 16);
    if (ih < 1 || iw < 1 || ih > GY_IMAGE_SIDE || iw > GY_IMAGE_SIDE || (h->h && (ih != h->h || iw != h->w)))
        return GY_FAIL(err, GY_E_FORMAT, "%s: sample %" PRIu64 " has %" PRIu32 " x %" PRIu32 " pixels", name, number,
                       iw, ih);
    if (label >= h->classes)
        return GY_FAIL(err, GY_E_FORMAT, "%s: sample %" PRIu64 " has label %" PRIu32 ", the last class is %" PRIu32,
                       name, number, label, h->classes - 1);
    if (gy_le64(entry) != *pixel_at || gy_le64(entry + 24) != *name_at)
        return GY_FAIL(err, GY_E_FORMAT, "%s: sample %" PRIu64 " does not lie behind the one before it", name, number);
    *pixel_at += (uint64_t)ih * iw * h->channels;
    *name_at += strlen(names + *name_at) + 1;
    if (*pixel_at > h->index_at)
        return GY_FAIL(err, GY_E_FORMAT, "%s: the pixels of sample %" PRIu64 " reach into the index", name, number);
    return GY_OK;
}

static int packed_check_index(const struct packed_header *h, struct gy_packed_view *view, const char *name,
                              struct gy_error *err)
{
    uint64_t pixel_at = PACKED_HEADER, name_at = 0;
    for (uint64_t i = 0; i < h->count; i++) {
        const unsigned char *entry = view->index + i * PACKED_ENTRY;
        GY_TRY(packed_check_entry(h, entry, i, &pixel_at, view->names, &name_at, name, err));
        const int32_t ih = (int32_t)gy_le32(entry + 8), iw = (int32_t)gy_le32(entry + 12);
        view->max_h = ih > view->max_h ? ih : view->max_h;
        view->max_w = iw > view->max_w ? iw : view->max_w;
        const size_t bytes = (size_t)ih * (size_t)iw * h->channels;
        view->most_bytes = bytes > view->most_bytes ? bytes : view->most_bytes;
    }
    if (pixel_at != h->index_at)
        return GY_FAIL(err, GY_E_FORMAT, "%s: the pixels end at byte %" PRIu64 ", the index begins at %" PRIu64, name,
                       pixel_at, h->index_at);
    return GY_OK;
}

/* What the copy of all behind the pixels holds. */
static int packed_check_tail(const struct packed_header *h, struct gy_packed_view *view, const char *name,
                             struct gy_error *err)
{
    if (gy_crc32c_differs(view->index, view->index_bytes, h->tail_crc))
        return GY_FAIL(err, GY_E_HASH, "%s: the checksum of its index differs", name);
    view->class_names = (const char *)view->index + h->count * PACKED_ENTRY;
    view->names = view->class_names + h->class_bytes;
    if (!packed_has_texts((const unsigned char *)view->class_names, h->class_bytes, h->classes) ||
        !packed_has_texts((const unsigned char *)view->names, h->name_bytes, h->count))
        return GY_FAIL(err, GY_E_FORMAT, "%s: the names of its classes or samples are damaged", name);
    return packed_check_index(h, view, name, err);
}

GY_INT int gy_packed_parse(const struct gy_file *file, const struct gy_alloc *alloc, struct gy_packed_view *view,
                           struct gy_error *err)
{
    unsigned char head[PACKED_HEADER];
    if (file->size < PACKED_HEADER)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: %" PRIu64 " bytes are too few for a packed file", file->name, file->size);
    GY_TRY(gy_file_read_at(file, 0, head, sizeof head, err));
    if (memcmp(head, PACKED_MAGIC, 8) != 0)
        return GY_FAIL(err, GY_E_FORMAT, "%s: not a packed file", file->name);
    const struct packed_header h = packed_read_header(head);
    GY_TRY(packed_check_header(&h, head, file->size, file->name, err));
    struct gy_packed_view got = { .count = (int64_t)h.count, .classes = (int32_t)h.classes, .channels = (int32_t)h.channels,
                                 .h = (int32_t)h.h, .w = (int32_t)h.w, .index_at = h.index_at,
                                 .index_bytes = (size_t)(file->size - h.index_at) };
    got.index = gy_alloc_take(alloc, got.index_bytes, 1);
    if (!got.index)
        return GY_NOMEM(err, "the index of a packed file", got.index_bytes);
    int status = gy_file_read_at(file, h.index_at, got.index, got.index_bytes, err);
    if (status == GY_OK)
        status = packed_check_tail(&h, &got, file->name, err);
    if (status == GY_OK)
        *view = got;
    else
        gy_alloc_free(alloc, got.index, got.index_bytes);
    return status;
}

GY_INT void gy_packed_at(const struct gy_packed_view *view, int64_t index, struct gy_packed_record *record)
{
    const unsigned char *entry = view->index + (size_t)index * PACKED_ENTRY;
    record->at = gy_le64(entry);
    record->h = (int32_t)gy_le32(entry + 8);
    record->w = (int32_t)gy_le32(entry + 12);
    record->label = (int32_t)gy_le32(entry + 16);
    record->crc = gy_le32(entry + 20);
    record->name = view->names + gy_le64(entry + 24);
}

/* ---- the data set ---- */

static int packed_read(struct gy_data *data, int64_t index, struct gy_decoder *decoder, struct gy_image *image,
                       struct gy_error *err)
{
    const struct packed_data *own = data->own;
    struct gy_packed_record r;
    gy_packed_at(&own->view, index, &r);
    const int32_t c = own->view.channels;
    const size_t bytes = (size_t)r.h * (size_t)r.w * (size_t)c;
    uint8_t *pixels = gy_decoder_take(decoder, bytes, 1);
    if (!pixels)
        return GY_FAIL(err, GY_E_IMAGE, "%s: needs more memory than the decoder has", own->file.name);
    GY_TRY(gy_file_read_at(&own->file, r.at, pixels, bytes, err));
    if (gy_crc32c_differs(pixels, bytes, r.crc))
        return GY_FAIL(err, GY_E_HASH, "%s: the checksum of sample %" PRId64 " (%s) differs", own->file.name, index, r.name);
    *image = (struct gy_image){pixels, r.h, r.w, c, NULL};
    return GY_OK;
}

static int32_t packed_label(const struct gy_data *data, int64_t index)
{
    const struct packed_data *own = data->own;
    struct gy_packed_record r;
    gy_packed_at(&own->view, index, &r);
    return r.label;
}

static void packed_sample_name(const struct gy_data *data, int64_t index, char *buf, size_t room)
{
    const struct packed_data *own = data->own;
    struct gy_packed_record r;
    gy_packed_at(&own->view, index, &r);
    (void)gy_text_copy(buf, room, r.name);
}

static void packed_close(struct gy_data *data)
{
    struct packed_data *own = data->own;
    if (!own)
        return;
    gy_alloc_free(&data->alloc, own->view.index, own->view.index_bytes);
    gy_file_close(&own->file);
    gy_alloc_free(&data->alloc, own, sizeof *own);
}

static const struct gy_data_format packed_format = {"packed", packed_read, packed_label, packed_sample_name,
                                                    packed_close};

static int packed_describe(struct gy_data *data, const struct gy_packed_view *view, struct gy_error *err)
{
    data->class_names = gy_arena_take(&data->arena, (size_t)view->classes, sizeof *data->class_names);
    if (!data->class_names)
        return GY_NOMEM(err, "class names", (size_t)view->classes * sizeof *data->class_names);
    const char *name = view->class_names;
    for (int32_t i = 0; i < view->classes; i++, name += strlen(name) + 1)
        data->class_names[i] = name;
    data->count = view->count;
    data->classes = view->classes;
    data->channels = view->channels;
    data->h = view->h;
    data->w = view->w;
    data->max_h = view->max_h;
    data->max_w = view->max_w;
    data->decode_bytes = gy_align_up(view->most_bytes, GY_CACHE_LINE) + GY_CACHE_LINE;
    return GY_OK;
}

/* A file that begins with the magic, or, with *has_splits set, a folder with "<split>.gyr". */
static int packed_find(const char *path, const char *split, char *file, size_t room, int *has_splits)
{
    *has_splits = gy_file_exists(path) != 1;
    if (!*has_splits) {
        return gy_file_begins(path, PACKED_MAGIC, 8) && gy_text_copy(file, room, path) == 0;
    }
    const char *alias;
    for (int i = 0; (alias = gy_data_split_alias(split[0] ? split : "train", i)) != NULL; i++) {
        const int n = snprintf(file, room, "%s/%s.gyr", path, alias);
        if (n > 0 && (size_t)n < room && gy_file_exists(file) == 1)
            return 1;
    }
    return 0;
}

GY_INT int gy_packed_open(struct gy_data *data, const char *path, const char *split, int *found, struct gy_error *err)
{
    char file[4096];
    if (!packed_find(path, split, file, sizeof file, &data->has_splits))
        return GY_OK;
    *found = 1;
    if (!data->has_splits && !gy_data_is_whole(split))
        return gy_data_no_split(path, split, err);
    struct packed_data *own = gy_alloc_take(&data->alloc, 1, sizeof *own);
    if (!own)
        return GY_NOMEM(err, "a packed data set", sizeof *own);
    data->format = &packed_format;
    data->own = own;
    GY_TRY(gy_file_open(&own->file, file, err));
    GY_TRY(gy_packed_parse(&own->file, &data->alloc, &own->view, err));
    return packed_describe(data, &own->view, err);
}
