/* SPDX-License-Identifier: MIT */
/* idx.c: IDX, the files of MNIST and its kin. A header (two zero bytes, a type, the number of
 * dimensions, big-endian sizes), then the cells. Images are u8 [N][H][W] or [N][H][W][C], labels u8
 * [N] in a second file. Opening keeps labels; an image is read with its sample. .gz files are
 * unpacked into memory at open. The file's length must be exactly what its header says. data_open.c
 * tries it. */
#include "engine/base/text.h"
#include "io/images/data_set.h"

#define IDX_U8 8
#define IDX_LIMIT ((size_t)INT_MAX)

struct idx_file {
    struct gy_file file;
    unsigned char *unpacked; /* NULL: plain */
    size_t unpacked_bytes;
    struct gy_idx_view view;
};

struct idx_data {
    struct idx_file images, labels;
    unsigned char *label; /* of each sample */
    char name[256]; /* of the images file, without folder */
};

GY_INT int gy_idx_parse(const unsigned char *bytes, size_t count, const char *name, struct gy_idx_view *view,
                        struct gy_error *err)
{
    if (count < 4)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: %zu bytes are too few for an IDX file", name, count);
    if (bytes[0] != 0 || bytes[1] != 0 || bytes[3] < 1 || bytes[3] > 4)
        return GY_FAIL(err, GY_E_FORMAT, "%s: not an IDX file: begins with %02x %02x %02x %02x", name, bytes[0],
                       bytes[1], bytes[2], bytes[3]);
    if (bytes[2] != IDX_U8)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s: IDX cells of type 0x%02x, only 0x08 (bytes) is read", name,
                       bytes[2]);
    struct gy_idx_view got = {bytes[3], {1, 1, 1, 1}, 0};
    const size_t head = 4 + 4 * (size_t)got.dims;
    if (count < head)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: ends inside the IDX header", name);
    int64_t cells = 1;
    for (int i = 0; i < got.dims; i++) {
        got.shape[i] = gy_be32(bytes + 4 + 4 * i);
        if (got.shape[i] == 0 || gy_mul_count(cells, got.shape[i], &cells))
            return GY_FAIL(err, GY_E_FORMAT, "%s: dimension %d of %" PRId64 " in the IDX header", name, i,
                           got.shape[i]);
    }
    const uint64_t have = count - head;
    if (have != (uint64_t)cells)
        return GY_FAIL(err, have < (uint64_t)cells ? GY_E_TRUNCATED : GY_E_FORMAT,
                       "%s: %" PRIu64 " bytes after the header, which says %" PRId64, name, have, cells);
    got.at = head;
    *view = got;
    return GY_OK;
}

/* ---- files ---- */

static int idx_ends_in_gz(const char *path)
{
    const size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

static void idx_close_file(struct idx_file *file, const struct gy_alloc *alloc)
{
    gy_alloc_free(alloc, file->unpacked, file->unpacked_bytes);
    gy_file_close(&file->file);
}

static int idx_unpack(struct idx_file *file, const struct gy_alloc *alloc, const char *path, struct gy_error *err)
{
    char *packed;
    size_t bytes;
    GY_TRY(gy_file_read(alloc, path, SIZE_MAX, &packed, &bytes, err));
    const int status = gy_gzip_read(alloc, (const unsigned char *)packed, bytes, path, IDX_LIMIT, &file->unpacked,
                                    &file->unpacked_bytes, err);
    gy_alloc_free(alloc, packed, bytes + 1);
    if (status == GY_OK)
        file->file = gy_file_of(file->unpacked, file->unpacked_bytes, path);
    return status;
}

static int idx_open_file(struct idx_file *file, const struct gy_alloc *alloc, const char *path, struct gy_error *err)
{
    unsigned char head[GY_IDX_HEAD] = {0};
    GY_TRY(idx_ends_in_gz(path) ? idx_unpack(file, alloc, path, err) : gy_file_open(&file->file, path, err));
    if (file->file.size > SIZE_MAX)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s: %" PRIu64 " bytes are more than this machine can count", path, file->file.size);
    const size_t count = (size_t)file->file.size;
    GY_TRY(gy_file_read_at(&file->file, 0, head, count < sizeof head ? count : sizeof head, err));
    return gy_idx_parse(head, count, path, &file->view, err);
}

/* ---- which files ---- */

/* path + middle + tail, or the same with .gz, whichever is a file. */
static int idx_try(char *out, size_t room, const char *path, const char *middle, const char *tail)
{
    static const char *const packing[] = {"", ".gz"};
    for (size_t i = 0; i < GY_COUNT(packing); i++) {
        const int n = snprintf(out, room, "%s%s%s%s", path, middle, tail, packing[i]);
        if (n > 0 && (size_t)n < room && gy_file_exists(out) == 1)
            return 1;
    }
    return 0;
}

/* The last place of word in the part of path behind its folder, or NULL. */
static const char *idx_last(const char *path, const char *word)
{
    const char *base = strrchr(path, '/'), *found = NULL;
    for (const char *at = base ? base : path; (at = strstr(at, word)) != NULL; at++)
        found = at;
    return found;
}

/* Finds the images file. path is a folder or a prefix, which sets *has_splits, or a file name or
 * its first part. */
static int idx_find_images(char *out, size_t room, const char *path, const char *split, int *has_splits)
{
    static const char *const tails[] = {"-images-idx3-ubyte", "-images.idx3-ubyte", "-images-idx4-ubyte"};
    const int kind = gy_file_exists(path);
    *has_splits = 0;
    if (kind == 1) /* by its name or its first bytes */
        return (idx_last(path, "images") || gy_file_begins(path, "\0\0\x08", 3)) &&
               gy_text_copy(out, room, path) == 0;
    for (size_t t = 0; t < GY_COUNT(tails); t++) {
        const char *alias;
        for (int i = 0; (alias = gy_data_split_alias(split[0] ? split : "train", i)) != NULL; i++) {
            char middle[64];
            snprintf(middle, sizeof middle, "%c%s", kind == 2 ? '/' : '-', alias);
            if (idx_try(out, room, path, middle, tails[t]))
                return *has_splits = 1;
        }
        if (kind == 0 && idx_try(out, room, path, "", tails[t]))
            return 1;
    }
    return 0;
}

/* Finds the labels file beside the images file: "images" becomes "labels", "idx3" or "idx4" becomes
 * "idx1". */
static int idx_find_labels(char *out, size_t room, const char *images, struct gy_error *err)
{
    const char *word = idx_last(images, "images");
    char stem[4096];
    if (!word || gy_text_copy(stem, sizeof stem, images))
        return GY_FAIL(
            err, GY_E_ARG,
            "%s: an IDX images file needs \"images\" in its name, its labels file the same name with \"labels\"",
            images);
    memcpy(stem + (word - images), "labels", 6);
    const char *rank = idx_last(stem, "idx");
    if (rank && (rank[3] == '3' || rank[3] == '4'))
        stem[rank + 3 - stem] = '1';
    const size_t n = strlen(stem);
    if (idx_ends_in_gz(stem))
        stem[n - 3] = 0;
    if (!idx_try(out, room, stem, "", ""))
        return GY_FAIL(err, GY_E_IO, "%s: its labels file %s (or with .gz) is not there", images, stem);
    return GY_OK;
}

/* ---- the data set ---- */

static int idx_read(struct gy_data *data, int64_t index, struct gy_decoder *decoder, struct gy_image *image,
                    struct gy_error *err)
{
    const struct idx_data *own = data->own;
    const size_t bytes = (size_t)data->h * (size_t)data->w * (size_t)data->channels;
    uint8_t *pixels = gy_decoder_take(decoder, bytes, 1);
    if (!pixels)
        return GY_FAIL(err, GY_E_IMAGE, "%s: needs more memory than the decoder has", own->name);
    GY_TRY(gy_file_read_at(&own->images.file, own->images.view.at + (uint64_t)index * bytes, pixels, bytes, err));
    *image = (struct gy_image){pixels, data->h, data->w, data->channels, NULL};
    return GY_OK;
}

static int32_t idx_label(const struct gy_data *data, int64_t index)
{
    const struct idx_data *own = data->own;
    return own->label[index];
}

static void idx_sample_name(const struct gy_data *data, int64_t index, char *buf, size_t room)
{
    const struct idx_data *own = data->own;
    snprintf(buf, room, "%s[%" PRId64 "]", own->name, index);
}

static void idx_close(struct gy_data *data)
{
    struct idx_data *own = data->own;
    if (!own)
        return;
    gy_alloc_free(&data->alloc, own->label, own->label ? (size_t)own->labels.view.shape[0] : 0);
    idx_close_file(&own->images, &data->alloc);
    idx_close_file(&own->labels, &data->alloc);
    gy_alloc_free(&data->alloc, own, sizeof *own);
}

static const struct gy_data_format idx_format = {"idx", idx_read, idx_label, idx_sample_name, idx_close};

static int idx_check(struct gy_data *data, const struct idx_data *own, const char *images, const char *labels,
                     struct gy_error *err)
{
    const struct gy_idx_view *v = &own->images.view, *l = &own->labels.view;
    if (v->dims < 3 || (v->dims == 4 && v->shape[3] != 1 && v->shape[3] != 3))
        return GY_FAIL(err, GY_E_FORMAT, "%s: %d dimensions, last %" PRId64 "; images have 3, or 4 "
                       "with 1 or 3 channels", images, v->dims, v->shape[v->dims - 1]);
    GY_TRY(gy_image_check_size(v->shape[1], v->shape[2], data->max_pixels, images, err));
    if (l->dims != 1)
        return GY_FAIL(err, GY_E_FORMAT, "%s: %d dimensions, labels have 1", labels, l->dims);
    if (l->shape[0] != v->shape[0])
        return GY_FAIL(err, GY_E_MISMATCH, "%s: %" PRId64 " labels for %" PRId64 " images", labels,
                       l->shape[0], v->shape[0]);
    return GY_OK;
}

/* Fills data from the views, and keeps the labels. */
static int idx_describe(struct gy_data *data, struct idx_data *own, struct gy_error *err)
{
    const struct gy_idx_view *v = &own->images.view;
    own->label = gy_alloc_take(&data->alloc, (size_t)v->shape[0], 1);
    if (!own->label)
        return GY_NOMEM(err, "labels", (size_t)v->shape[0]);
    GY_TRY(gy_file_read_at(&own->labels.file, own->labels.view.at, own->label, (size_t)v->shape[0], err));
    data->count = v->shape[0];
    data->h = data->max_h = (int32_t)v->shape[1];
    data->w = data->max_w = (int32_t)v->shape[2];
    data->channels = v->dims == 4 ? (int32_t)v->shape[3] : 1;
    data->decode_bytes = gy_align_up((size_t)data->h * (size_t)data->w * (size_t)data->channels, GY_CACHE_LINE) + GY_CACHE_LINE;
    int32_t classes = 1;
    for (int64_t i = 0; i < data->count; i++)
        if (own->label[i] >= classes)
            classes = own->label[i] + 1;
    return gy_data_number_classes(data, classes, err);
}

GY_INT int gy_idx_open(struct gy_data *data, const char *path, const char *split, int *found, struct gy_error *err)
{
    char images[4096], labels[4096];
    const int whole = gy_data_is_whole(split), here = idx_find_images(images, sizeof images, path, split, &data->has_splits);
    *found = here || (!whole && idx_find_images(images, sizeof images, path, "train", &data->has_splits));
    if (!*found)
        return GY_OK;
    if (!here || (!data->has_splits && !whole))
        return gy_data_no_split(path, split, err);
    GY_TRY(idx_find_labels(labels, sizeof labels, images, err));
    struct idx_data *own = gy_alloc_take(&data->alloc, 1, sizeof *own);
    if (!own)
        return GY_NOMEM(err, "an IDX data set", sizeof *own);
    data->format = &idx_format;
    data->own = own;
    GY_TRY(idx_open_file(&own->images, &data->alloc, images, err));
    GY_TRY(idx_open_file(&own->labels, &data->alloc, labels, err));
    GY_TRY(idx_check(data, own, images, labels, err));
    const char *base = strrchr(images, '/');
    (void)gy_text_copy(own->name, sizeof own->name, base ? base + 1 : images);
    return idx_describe(data, own, err);
}
