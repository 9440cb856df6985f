/* SPDX-License-Identifier: MIT */
/* data_set.c: answers the questions of data.h on an open data set of any format. It also has what
 * the formats share, and the record of samples that could not be read. */
#include "io/images/data_set.h"

GY_INT const char *gy_data_split_alias(const char *split, int number)
{
    static const char *const test[] = {"test", "t10k", "val", "valid", "validation", NULL};
    static const char *const train[] = {"train", "training", NULL};
    if (strcmp(split, "test") == 0)
        return test[number];
    if (strcmp(split, "train") == 0)
        return train[number];
    return number == 0 ? split : NULL;
}

GY_INT int gy_data_number_classes(struct gy_data *data, int32_t classes, struct gy_error *err)
{
    const char **names = gy_arena_take(&data->arena, (size_t)classes, sizeof *names);
    for (int32_t i = 0; names && i < classes; i++) {
        char text[16];
        const int n = snprintf(text, sizeof text, "%" PRId32, i);
        names[i] = gy_arena_text(&data->arena, text, (size_t)n);
        if (!names[i])
            return GY_NOMEM(err, "class names", (size_t)n + 1);
    }
    if (!names)
        return GY_NOMEM(err, "class names", (size_t)classes * sizeof *names);
    data->class_names = names;
    data->classes = classes;
    return GY_OK;
}

GY_INT int gy_data_is_whole(const char *split) { return !split[0] || strcmp(split, "train") == 0; }

GY_INT int gy_data_no_split(const char *path, const char *split, struct gy_error *err)
{
    return GY_FAIL(err, GY_E_FORMAT, "%s has no split \"%s\"", path, split);
}

GY_INT void gy_data_close(struct gy_data *data)
{
    if (!data)
        return;
    const struct gy_alloc alloc = data->alloc;
    gy_alloc_free(&alloc, data->bad_map, (size_t)(data->count / 8 + 1));
    gy_alloc_free(&alloc, data->chosen, (size_t)data->count * sizeof *data->chosen);
    if (data->format)
        data->format->close(data);
    gy_arena_close(&data->arena);
    pthread_mutex_destroy(&data->bad_lock);
    gy_alloc_free(&alloc, data, sizeof *data);
}

GY_INT int64_t gy_data_count(const struct gy_data *data) { return data->count; }

GY_INT int32_t gy_data_classes(const struct gy_data *data) { return data->classes; }

GY_INT int32_t gy_data_channels(const struct gy_data *data) { return data->channels; }

GY_INT int gy_data_is_real(const struct gy_data *data) { return data->real; }

GY_INT const char *gy_data_format(const struct gy_data *data) { return data->format->name; }

GY_INT const char *gy_data_split(const struct gy_data *data) { return data->split; }

GY_INT struct gy_data_hold gy_data_hold(const struct gy_data *data) { return data->hold; }

/* The number by which the format knows a sample. */
static int64_t data_number(const struct gy_data *data, int64_t index) { return data->chosen ? data->chosen[index] : index; }

GY_INT const char *gy_data_class_name(const struct gy_data *data, int32_t label)
{
    return label >= 0 && label < data->classes ? data->class_names[label] : NULL;
}

GY_INT int32_t gy_data_label(const struct gy_data *data, int64_t index)
{
    return index >= 0 && index < data->count ? data->format->label(data, data_number(data, index)) : -1;
}

GY_INT int gy_data_warn_empty(const struct gy_data *data, const char *what, const struct gy_alloc *alloc, const struct gy_log *log,
                              struct gy_error *err)
{
    const size_t classes = (size_t)data->classes;
    int32_t empty = 0, first = -1;
    unsigned char *const seen = gy_alloc_take(alloc, classes, 1);
    if (!seen)
        return GY_NOMEM(err, "a list of classes", classes);
    for (int64_t i = 0; i < data->count; i++) {
        const int32_t label = gy_data_label(data, i);
        if (label >= 0 && label < data->classes)
            seen[label] = 1;
    }
    for (int32_t c = data->classes - 1; c >= 0; c--)
        if (!seen[c]) {
            empty++;
            first = c;
        }
    gy_alloc_free(alloc, seen, classes);
    if (empty == 1)
        gy_log_write(log, GY_LOG_WARN, "%s: class %" PRId32 " ('%.200s') of %" PRId32 " has no sample", what, first, gy_data_class_name(data, first),
                     data->classes);
    else if (empty > 1)
        gy_log_write(log, GY_LOG_WARN, "%s: %" PRId32 " of %" PRId32 " classes have no sample, the first is class %" PRId32 " ('%.200s')", what, empty,
                     data->classes, first, gy_data_class_name(data, first));
    return GY_OK;
}

GY_INT void gy_data_side(const struct gy_data *data, int32_t *h, int32_t *w)
{
    *h = data->h;
    *w = data->w;
}

GY_INT const char *gy_data_sample_name(const struct gy_data *data, int64_t index, char *buf, size_t room)
{
    if (index >= 0 && index < data->count)
        data->format->sample_name(data, data_number(data, index), buf, room);
    else if (room > 0)
        buf[0] = 0;
    return buf;
}

GY_INT int gy_data_read(struct gy_data *data, int64_t index, struct gy_decoder *decoder, struct gy_image *image,
                        struct gy_error *err)
{
    if (index < 0 || index >= data->count)
        return GY_FAIL(err, GY_E_ARG, "sample %" PRId64 " of a data set of %" PRId64, index, data->count);
    gy_decoder_reset(decoder);
    return data->format->read(data, data_number(data, index), decoder, image, err);
}

/* ---- unreadable samples ---- */

GY_INT int gy_data_is_bad_status(int status)
{
    return status == GY_E_IMAGE || status == GY_E_TRUNCATED || status == GY_E_IO || status == GY_E_HASH ||
           status == GY_E_FORMAT;
}

GY_INT int64_t gy_data_bad(const struct gy_data *data)
{
    /* data is const for the caller only */
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&data->bad_lock;
    pthread_mutex_lock(lock);
    const int64_t bad = data->bad;
    pthread_mutex_unlock(lock);
    return bad;
}

GY_INT int gy_data_note_bad(struct gy_data *data, int64_t index, const struct gy_error *why, struct gy_error *err)
{
    const unsigned char bit = (unsigned char)(1u << (index % 8));
    pthread_mutex_lock(&data->bad_lock);
    const int first = !(data->bad_map[index / 8] & bit);
    data->bad_map[index / 8] |= bit;
    data->bad += first;
    const int64_t bad = data->bad;
    pthread_mutex_unlock(&data->bad_lock);
    if (bad > data->max_bad && data->max_bad == 0)
        return GY_FAIL(err, GY_E_IMAGE, "%s", why->text);
    if (bad > data->max_bad)
        return GY_FAIL(err, GY_E_IMAGE, "%" PRId64 " unreadable images, at most %" PRId64 " are skipped; the last: %s",
                       bad, data->max_bad, why->text);
    if (first)
        gy_log_write(&data->log, GY_LOG_WARN, "skipped unreadable image %" PRId64 " of at most %" PRId64 ": %s", bad,
                     data->max_bad, why->text);
    return GY_OK;
}
