/* SPDX-License-Identifier: MIT */
/* cifar.c: CIFAR's binary files as a data set (https://www.cs.toronto.edu/~kriz/cifar.html). A
 * record is a label byte, in CIFAR-100 a coarse label before it, and a 32x32 image: the red plane,
 * then green, then blue. Opening a file reads all labels; a sample's planes are read with the
 * sample. data_open.c tries it. */
#include "engine/base/text.h"
#include "io/images/data_set.h"

#define CIFAR_SIDE 32
#define CIFAR_PLANE (CIFAR_SIDE * CIFAR_SIDE)
#define CIFAR_FILES 8 /* at most, with the NULL that ends a list */

struct cifar_kind {
    const char *train[CIFAR_FILES], *test[CIFAR_FILES];
    const char *names, *inside; /* file of class names; folder that the archive unpacks to */
    int32_t classes, label_bytes;
};
static const struct cifar_kind cifar_kinds[] = {
    {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", NULL},
     {"test_batch.bin", NULL}, "batches.meta.txt", "cifar-10-batches-bin", 10, 1},
    {{"train.bin", NULL}, {"test.bin", NULL}, "fine_label_names.txt", "cifar-100-binary", 100, 2},
};

struct cifar_data {
    const struct cifar_kind *kind;
    struct gy_file file[CIFAR_FILES];
    unsigned char *label[CIFAR_FILES]; /* [records] of each file */
    const char *names[CIFAR_FILES];    /* of the files, without their folder */
    int64_t first[CIFAR_FILES + 1]; /* sample number at which each file begins */
    int files;
};

static size_t cifar_record_bytes(const struct cifar_kind *kind) { return (size_t)kind->label_bytes + 3 * CIFAR_PLANE; }

/* The file of a sample; *record: its number there. */
static int cifar_record(const struct cifar_data *own, int64_t index, int64_t *record)
{
    int f = 0;
    while (f + 1 < own->files && index >= own->first[f + 1])
        f++;
    *record = index - own->first[f];
    return f;
}

static int64_t cifar_records(const struct cifar_data *own, int file)
{
    return (int64_t)(own->file[file].size / cifar_record_bytes(own->kind));
}

static int cifar_read(struct gy_data *data, int64_t index, struct gy_decoder *decoder, struct gy_image *image,
                      struct gy_error *err)
{
    const struct cifar_data *own = data->own;
    int64_t record;
    const int file = cifar_record(own, index, &record);
    unsigned char planes[3 * CIFAR_PLANE];
    uint8_t *pixels = gy_decoder_take(decoder, CIFAR_PLANE, 3);
    if (!pixels)
        return GY_FAIL(err, GY_E_IMAGE, "%s: needs more memory than the decoder has", own->names[file]);
    const uint64_t at = (uint64_t)record * cifar_record_bytes(own->kind) + (uint64_t)own->kind->label_bytes;
    GY_TRY(gy_file_read_at(&own->file[file], at, planes, sizeof planes, err));
    for (int i = 0; i < CIFAR_PLANE; i++)
        for (int c = 0; c < 3; c++)
            pixels[3 * i + c] = planes[c * CIFAR_PLANE + i];
    *image = (struct gy_image){pixels, CIFAR_SIDE, CIFAR_SIDE, 3, NULL};
    return GY_OK;
}

static int32_t cifar_label(const struct gy_data *data, int64_t index)
{
    const struct cifar_data *own = data->own;
    int64_t record;
    const int file = cifar_record(own, index, &record);
    return own->label[file][record];
}

static void cifar_sample_name(const struct gy_data *data, int64_t index, char *buf, size_t room)
{
    const struct cifar_data *own = data->own;
    int64_t record;
    const int file = cifar_record(own, index, &record);
    snprintf(buf, room, "%s[%" PRId64 "]", own->names[file], record);
}

static void cifar_close(struct gy_data *data)
{
    struct cifar_data *own = data->own;
    if (!own)
        return;
    for (int i = 0; i < own->files; i++) {
        gy_alloc_free(&data->alloc, own->label[i], own->label[i] ? (size_t)cifar_records(own, i) : 0);
        gy_file_close(&own->file[i]);
    }
    gy_alloc_free(&data->alloc, own, sizeof *own);
}

static const struct gy_data_format cifar_format = {"cifar", cifar_read, cifar_label, cifar_sample_name, cifar_close};

static int cifar_take_labels(struct cifar_data *own, int file, const struct gy_alloc *alloc, const char *path,
                             struct gy_error *err)
{
    const struct gy_file *f = &own->file[file];
    const size_t record = cifar_record_bytes(own->kind);
    if (f->size == 0 || f->size % record != 0)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: %" PRIu64 " bytes are no whole number of CIFAR records of %zu", path,
                       f->size, record);
    const int64_t count = cifar_records(own, file);
    unsigned char *label = own->label[file] = gy_alloc_take(alloc, (size_t)count, 1);
    if (!label)
        return GY_NOMEM(err, "labels", (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t at = (uint64_t)i * record + (uint64_t)own->kind->label_bytes - 1;
        GY_TRY(gy_file_read_at(f, at, &label[i], 1, err));
        if (label[i] >= own->kind->classes)
            return GY_FAIL(err, GY_E_FORMAT, "%s: record %" PRId64 " has label %d, the last class is %d", path, i, label[i],
                           own->kind->classes - 1);
    }
    return GY_OK;
}

static int cifar_add_file(struct gy_data *data, struct cifar_data *own, const char *folder, const char *name,
                          struct gy_error *err)
{
    char path[4096];
    GY_TRY(gy_file_join(path, sizeof path, folder, name, err));
    GY_TRY(gy_file_open(&own->file[own->files], path, err));
    const int file = own->files++;
    own->names[file] = name;
    GY_TRY(cifar_take_labels(own, file, &data->alloc, path, err));
    data->count += cifar_records(own, file);
    own->first[file + 1] = data->count;
    return GY_OK;
}

/* Class names come from a text file in the folder, a line each. A class without a line keeps its
 * number as its name. */
static int cifar_name_classes(struct gy_data *data, const struct cifar_kind *kind, const char *folder,
                              struct gy_error *err)
{
    char path[4096], *text = NULL;
    size_t bytes = 0;
    GY_TRY(gy_data_number_classes(data, kind->classes, err));
    GY_TRY(gy_file_join(path, sizeof path, folder, kind->names, err));
    if (gy_file_exists(path) != 1)
        return GY_OK;
    GY_TRY(gy_file_read(&data->alloc, path, 65536, &text, &bytes, err));
    int32_t label = 0;
    int status = GY_OK;
    for (size_t at = 0; at < bytes && label < kind->classes && status == GY_OK;) {
        const size_t length = strcspn(text + at, "\r\n");
        char *name = length ? gy_arena_text(&data->arena, text + at, length) : NULL;
        if (length && !name)
            status = GY_NOMEM(err, "class names", length);
        if (name)
            data->class_names[label++] = name;
        at += length + 1;
    }
    gy_alloc_free(&data->alloc, text, bytes + 1);
    return status;
}

/* Finds which CIFAR lies at path, by the first file of the split; NULL: none. folder becomes path,
 * or the archive's folder in it. */
static const struct cifar_kind *cifar_find(const char *path, int test, char *folder, size_t room)
{
    for (size_t k = 0; k < GY_COUNT(cifar_kinds); k++)
        for (int inside = 0; inside < 2; inside++) {
            const struct cifar_kind *kind = &cifar_kinds[k];
            char file[4096];
            const int n = snprintf(folder, room, "%s%s%s", path, inside ? "/" : "", inside ? kind->inside : "");
            if (n > 0 && (size_t)n < room &&
                gy_file_join(file, sizeof file, folder, test ? kind->test[0] : kind->train[0], NULL) == GY_OK &&
                gy_file_exists(file) == 1)
                return kind;
        }
    return NULL;
}

GY_INT int gy_cifar_open(struct gy_data *data, const char *path, const char *split, int *found, struct gy_error *err)
{
    char folder[4096];
    const int test = strcmp(split, "test") == 0;
    const int known = test || gy_data_is_whole(split);
    const struct cifar_kind *kind = known && gy_file_exists(path) == 2 ? cifar_find(path, test, folder, sizeof folder) : NULL;
    if (!kind)
        return GY_OK;
    *found = data->has_splits = 1;
    struct cifar_data *own = gy_alloc_take(&data->alloc, 1, sizeof *own);
    if (!own)
        return GY_NOMEM(err, "a CIFAR data set", sizeof *own);
    own->kind = kind;
    data->format = &cifar_format;
    data->own = own;
    const char *const *files = test ? kind->test : kind->train;
    for (int i = 0; files[i]; i++)
        GY_TRY(cifar_add_file(data, own, folder, files[i], err));
    data->channels = 3;
    data->h = data->w = data->max_h = data->max_w = CIFAR_SIDE;
    data->decode_bytes = 4 * CIFAR_PLANE; /* three planes, and room for the decoder's alignment */
    return cifar_name_classes(data, kind, folder, err);
}
