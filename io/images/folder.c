/* SPDX-License-Identifier: MIT */
/* folder.c: a folder of images per class: root/<split>/<class>/<file> or root/<class>/<file>.
 * Classes and files are in the order of their names' bytes, the same on every machine. Opening
 * reads names alone, all into one block. No file is opened before its sample is needed, except the
 * first float map, for the size of all. So 50,000 files open in a moment and cost their name and 16
 * bytes each. data_open.c tries it last. */
#include <dirent.h>

#include "engine/base/text.h"
#include "io/images/data_set.h"

struct folder_pool { /* names behind each other, each with its NUL */
    char *text;
    size_t bytes, room;
};

struct folder_entry {
    size_t name; /* offset in the pool */
    int32_t label;
};

struct folder_list {
    struct folder_pool pool;
    struct folder_entry *entries; /* [room] */
    int64_t count, room;
};

struct folder_data {
    char root[4096];              /* with the split */
    struct folder_list files;
    int64_t ignored;              /* files that are no images by their name */
    int64_t real;                 /* float maps among the files */
};

static const char *const folder_endings[] = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".ppm", ".pgm", ".pnm",
                                             ".pfm"};

static int folder_same_letters(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        const char low = *a >= 'A' && *a <= 'Z' ? (char)(*a - 'A' + 'a') : *a;
        if (low != *b)
            return 0;
    }
    return *a == *b;
}

static int folder_is_real(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && folder_same_letters(dot, ".pfm");
}

static int folder_is_image(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < GY_COUNT(folder_endings); i++)
        if (folder_same_letters(dot, folder_endings[i]))
            return 1;
    return 0;
}

/* ---- growing lists ---- */

static int folder_add_name(struct folder_pool *pool, const struct gy_alloc *alloc, const char *name, size_t *offset,
                           struct gy_error *err)
{
    const size_t bytes = strlen(name) + 1;
    if (pool->room - pool->bytes < bytes) {
        const size_t room = pool->room * 2 + 4096;
        char *text = gy_alloc_grow(alloc, pool->text, pool->room, room, 1);
        if (!text)
            return GY_NOMEM(err, "file names", room);
        pool->text = text;
        pool->room = room;
    }
    memcpy(pool->text + pool->bytes, name, bytes);
    *offset = pool->bytes;
    pool->bytes += bytes;
    return GY_OK;
}

static int folder_add(struct folder_list *list, const struct gy_alloc *alloc, const char *name, int32_t label,
                      struct gy_error *err)
{
    if (list->count == list->room) {
        const int64_t room = list->room * 2 + 64;
        struct folder_entry *entries =
            gy_alloc_grow(alloc, list->entries, (size_t)list->room, (size_t)room, sizeof *entries);
        if (!entries)
            return GY_NOMEM(err, "a list of files", (size_t)room * sizeof *entries);
        list->entries = entries;
        list->room = room;
    }
    struct folder_entry *entry = &list->entries[list->count];
    GY_TRY(folder_add_name(&list->pool, alloc, name, &entry->name, err));
    entry->label = label;
    list->count++;
    return GY_OK;
}

static const char *folder_name_of(const struct folder_list *list, int64_t index)
{
    return list->pool.text + list->entries[index].name;
}

static void folder_free(struct folder_list *list, const struct gy_alloc *alloc)
{
    gy_alloc_free(alloc, list->entries, (size_t)list->room * sizeof *list->entries);
    gy_alloc_free(alloc, list->pool.text, list->pool.room);
}

/* ---- order ---- */

static void folder_swap(struct folder_entry *a, struct folder_entry *b)
{
    const struct folder_entry kept = *a;
    *a = *b;
    *b = kept;
}

/* Heap sort by the bytes of the names: in place, no worst case. */
static void folder_sift(const char *text, struct folder_entry *e, int64_t at, int64_t count)
{
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && strcmp(text + e[child].name, text + e[child + 1].name) < 0)
            child++;
        if (strcmp(text + e[at].name, text + e[child].name) >= 0)
            return;
        folder_swap(&e[at], &e[child]);
    }
}

/* The entries from first on. */
static void folder_sort(const struct folder_list *list, int64_t first)
{
    const int64_t count = list->count - first;
    if (count < 2)
        return;
    struct folder_entry *e = list->entries + first;
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        folder_sift(list->pool.text, e, i, count);
    for (int64_t i = count - 1; i > 0; i--) {
        folder_swap(&e[0], &e[i]);
        folder_sift(list->pool.text, e, 0, i);
    }
}

/* ---- reading folders ---- */

static int folder_open_dir(DIR **dir, const char *path, struct gy_error *err)
{
    *dir = opendir(path);
    return *dir ? GY_OK : GY_FAIL(err, GY_E_IO, "%s: the folder cannot be read: %s", path, strerror(errno));
}

/* Calls take for every name that does not begin with a point. */
static int folder_each(const char *path, int (*take)(void *user, const char *name, struct gy_error *err), void *user,
                       struct gy_error *err)
{
    DIR *dir;
    GY_TRY(folder_open_dir(&dir, path, err));
    int status = GY_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno)
            status = GY_FAIL(err, GY_E_IO, "%s: the folder cannot be read: %s", path, strerror(errno));
        if (!entry || status != GY_OK)
            break;
        if (entry->d_name[0] != '.')
            status = take(user, entry->d_name, err);
        if (status != GY_OK)
            break;
    }
    closedir(dir);
    return status;
}

struct folder_walk { /* of the root, or of one class */
    struct gy_data *data;
    const char *root;
    struct folder_list *list;
    int32_t label;
    int64_t ignored, real;
};

static int folder_take_class(void *user, const char *name, struct gy_error *err)
{
    struct folder_walk *walk = user;
    char path[4096];
    GY_TRY(gy_file_join(path, sizeof path, walk->root, name, err));
    const int kind = gy_file_exists(path);
    if (kind < 0) /* a class too few would give all behind it other labels */
        return GY_FAIL(err, GY_E_IO, "%s: cannot be read: %s", path, strerror(errno));
    return kind == 2 ? folder_add(walk->list, &walk->data->alloc, name, 0, err) : GY_OK;
}

static int folder_take_file(void *user, const char *name, struct gy_error *err)
{
    struct folder_walk *walk = user;
    walk->real += folder_is_real(name);
    if (folder_is_image(name))
        return folder_add(walk->list, &walk->data->alloc, name, walk->label, err);
    walk->ignored++;
    return GY_OK;
}

static int folder_read_class(struct gy_data *data, struct folder_data *own, int32_t label, struct gy_error *err)
{
    char path[4096];
    const int64_t first = own->files.count;
    struct folder_walk walk = {data, own->root, &own->files, label, 0, 0};
    GY_TRY(gy_file_join(path, sizeof path, own->root, data->class_names[label], err));
    GY_TRY(folder_each(path, folder_take_file, &walk, err));
    own->ignored += walk.ignored;
    own->real += walk.real;
    if (own->files.count == first)
        gy_log_write(&data->log, GY_LOG_WARN, "data: %s: no images in this class", path);
    folder_sort(&own->files, first);
    return GY_OK;
}

/* The classes' names in order into data. */
static int folder_name_classes(struct gy_data *data, const struct folder_list *list, struct gy_error *err)
{
    if (list->count > INT32_MAX)
        return GY_FAIL(err, GY_E_FORMAT, "%" PRId64 " classes are too many", list->count);
    folder_sort(list, 0);
    const char **names = gy_arena_take(&data->arena, (size_t)list->count + 1, sizeof *names);
    for (int64_t i = 0; names && i < list->count; i++) {
        const char *name = folder_name_of(list, i);
        names[i] = gy_arena_text(&data->arena, name, strlen(name));
        if (!names[i])
            return GY_NOMEM(err, "class names", strlen(name) + 1);
    }
    if (!names)
        return GY_NOMEM(err, "class names", (size_t)list->count * sizeof *names);
    data->class_names = names;
    data->classes = (int32_t)list->count;
    return GY_OK;
}

static int folder_find_classes(struct gy_data *data, const char *root, struct gy_error *err)
{
    struct folder_list list = {{NULL, 0, 0}, NULL, 0, 0};
    struct folder_walk walk = {data, root, &list, 0, 0, 0};
    int status = folder_each(root, folder_take_class, &walk, err);
    if (status == GY_OK)
        status = folder_name_classes(data, &list, err);
    folder_free(&list, &data->alloc);
    return status;
}

/* ---- the data set ---- */

/* "class/file" into buf; -1 when it is too long. */
static int folder_place(const struct gy_data *data, const char *root, int64_t index, char *buf, size_t room)
{
    const struct folder_data *own = data->own;
    const int n = snprintf(buf, room, "%s%s%s/%s", root, root[0] ? "/" : "",
                           data->class_names[own->files.entries[index].label], folder_name_of(&own->files, index));
    return n > 0 && (size_t)n < room ? 0 : -1;
}

/* Names begin with the last part of the root: "train/cat/0042.jpg". */
static void folder_sample_name(const struct gy_data *data, int64_t index, char *buf, size_t room)
{
    const struct folder_data *own = data->own;
    const char *base = strrchr(own->root, '/');
    (void)folder_place(data, base ? base + 1 : own->root, index, buf, room);
}

/* All of a float set must be as its first one was. */
static int folder_read_real(const struct gy_data *data, const char *path, struct gy_decoder *decoder,
                            struct gy_image *image, struct gy_error *err)
{
    struct gy_image got;
    GY_TRY(gy_pfm_read_file(decoder, path, data->max_pixels, &got, err));
    if (data->h && (got.h != data->h || got.w != data->w || got.c != data->channels))
        return GY_FAIL(err, GY_E_IMAGE, "%s: %" PRId32 " x %" PRId32 " x %" PRId32 ", but this float set has %" PRId32
                       " x %" PRId32 " x %" PRId32, path, got.h, got.w, got.c, data->h, data->w, data->channels);
    *image = got;
    return GY_OK;
}

static int folder_read(struct gy_data *data, int64_t index, struct gy_decoder *decoder, struct gy_image *image,
                       struct gy_error *err)
{
    const struct folder_data *own = data->own;
    char path[4096 + 512];
    if (folder_place(data, own->root, index, path, sizeof path))
        return GY_FAIL(err, GY_E_IO, "%s/...: the path is longer than %zu bytes", own->root, sizeof path);
    if (data->real)
        return folder_read_real(data, path, decoder, image, err);
    return gy_image_read_file(decoder, path, path, 3, data->max_pixels, image, err);
}

static int32_t folder_label(const struct gy_data *data, int64_t index)
{
    const struct folder_data *own = data->own;
    return own->files.entries[index].label;
}

static void folder_close(struct gy_data *data)
{
    struct folder_data *own = data->own;
    if (!own)
        return;
    folder_free(&own->files, &data->alloc);
    gy_alloc_free(&data->alloc, own, sizeof *own);
}

static const struct gy_data_format folder_format = {"folder", folder_read, folder_label, folder_sample_name,
                                                    folder_close};

/* Folders of a path, until the first is found. */
struct folder_look {
    const char *path;
    int found;
};

static int folder_look_at(void *user, const char *name, struct gy_error *err)
{
    struct folder_look *look = user;
    char path[4096];
    if (!look->found) {
        GY_TRY(gy_file_join(path, sizeof path, look->path, name, err));
        const int kind = gy_file_exists(path);
        if (kind < 0)
            return GY_FAIL(err, GY_E_IO, "%s: cannot be read: %s", path, strerror(errno));
        look->found = kind == 2;
    }
    return GY_OK;
}

/* Sets root to the folder of a split, and *found to 1, where path has one. A split has folders of
 * its own. A folder without any is a class with such a name, as "train" is among vehicles. */
static int folder_find_split(char *root, size_t room, const char *path, const char *split, int *found, struct gy_error *err)
{
    const char *alias;
    for (int i = 0; !*found && (alias = gy_data_split_alias(split, i)); i++) {
        GY_TRY(gy_file_join(root, room, path, alias, err));
        struct folder_look look = {root, 0};
        const int kind = gy_file_exists(root);
        if (kind < 0)
            return GY_FAIL(err, GY_E_IO, "%s: cannot be read: %s", root, strerror(errno));
        if (kind == 2)
            GY_TRY(folder_each(root, folder_look_at, &look, err));
        *found = look.found;
    }
    return GY_OK;
}

/* Has the path any of the usual splits? root is scratch. */
static int folder_has_splits(char *root, size_t room, const char *path, const char **usual, struct gy_error *err)
{
    static const char *const splits[] = {"train", "test"};
    int found = 0;
    for (size_t i = 0; i < GY_COUNT(splits) && !found; i++) {
        GY_TRY(folder_find_split(root, room, path, splits[i], &found, err));
        *usual = found ? splits[i] : NULL;
    }
    return GY_OK;
}

/* The folder of the split; the path itself where it has no splits and none or "train" is meant. */
static int folder_find_root(struct gy_data *data, char *root, size_t room, const char *path, const char *split, struct gy_error *err)
{
    const char *usual = NULL;
    if (split[0])
        GY_TRY(folder_find_split(root, room, path, split, &data->has_splits, err));
    if (data->has_splits)
        return GY_OK;
    GY_TRY(folder_has_splits(root, room, path, &usual, err));
    if (!gy_data_is_whole(split) || (usual && split[0]))
        return gy_data_no_split(path, split, err);
    if (usual)
        return GY_FAIL(err, GY_E_FORMAT, "%s: no images in its class folders; choose a split, such as \"%s\"", path, usual);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n >= room)
        return GY_FAIL(err, GY_E_ARG, "%.100s...: the path is longer than %zu bytes", path, room);
    memcpy(root, path, n);
    root[n] = 0;
    return GY_OK;
}

/* Why there is nothing: a sentence that helps. */
static int folder_nothing(const struct gy_data *data, const char *path, const char *split, struct gy_error *err)
{
    return GY_FAIL(err, GY_E_FORMAT,
                   "%s: no images in %" PRId32 " class folders%s%s (read are .jpg .png .bmp .ppm .pgm .pfm)", path,
                   data->classes, split[0] ? " for split " : "", split);
}

/* Size and channels of a float set: those of its first readable image. */
static int folder_measure(struct gy_data *data, struct gy_error *err)
{
    struct gy_decoder *decoder;
    struct gy_image image = {NULL, 0, 0, 0, NULL};
    GY_TRY(gy_decoder_open(&decoder, &data->alloc, data->decode_bytes, err));
    int status = GY_E_IMAGE;
    for (int64_t i = 0; i < data->count && i <= data->max_bad && gy_data_is_bad_status(status); i++)
        status = folder_read(data, i, decoder, &image, err);
    gy_decoder_close(decoder);
    data->h = image.h;
    data->w = image.w;
    data->channels = image.c;
    return status;
}

/* Are the files float maps? All of them or none. */
static int folder_find_kind(struct gy_data *data, struct gy_error *err)
{
    const struct folder_data *own = data->own;
    if (own->real == 0)
        return GY_OK;
    if (own->real < data->count)
        return GY_FAIL(err, GY_E_FORMAT, "%s: %" PRId64 " of %" PRId64 " images are .pfm; a data set is all .pfm or has none",
                       own->root, own->real, data->count);
    data->real = 1;
    return folder_measure(data, err);
}

GY_INT int gy_folder_open(struct gy_data *data, const char *path, const char *split, int *found, struct gy_error *err)
{
    if (gy_file_exists(path) != 2)
        return GY_OK;
    *found = 1;
    struct folder_data *own = gy_alloc_take(&data->alloc, 1, sizeof *own);
    if (!own)
        return GY_NOMEM(err, "a folder data set", sizeof *own);
    data->format = &folder_format;
    data->own = own;
    GY_TRY(folder_find_root(data, own->root, sizeof own->root, path, split, err));
    GY_TRY(folder_find_classes(data, own->root, err));
    for (int32_t label = 0; label < data->classes; label++)
        GY_TRY(folder_read_class(data, own, label, err));
    if (own->files.count == 0)
        return folder_nothing(data, path, split, err);
    if (own->ignored)
        gy_log_write(&data->log, GY_LOG_WARN, "data: %s: %" PRId64 " files ignored that are no images by their names",
                     own->root, own->ignored);
    data->count = own->files.count;
    data->channels = 3;
    data->decode_bytes = GY_DECODER_BYTES;
    data->costly = 1;
    return folder_find_kind(data, err);
}
