/* SPDX-License-Identifier: MIT */
/* data_open.c: opens a data set, for engine/train/net_data.c: finds out which format a path holds.
 * It stands above the formats and knows them all. */
#include "io/images/data_set.h"

typedef int (*data_open_fn)(struct gy_data *data, const char *path, const char *split, int *found,
                            struct gy_error *err);
#define DATA_SHARE_LEAST 0.000001 /* what hold_out.c counts in */
#define DATA_SHARE_MOST 0.99
/* In this order: the last takes any folder. */
static const data_open_fn data_openers[] = {gy_packed_open, gy_cifar_open, gy_idx_open, gy_folder_open};

static int data_find_format(struct gy_data *data, const struct gy_data_config *config, struct gy_error *err)
{
    const char *split = config->split ? config->split : "";
    int found = 0;
    for (size_t i = 0; i < GY_COUNT(data_openers) && !found; i++)
        GY_TRY(data_openers[i](data, config->path, split, &found, err));
    if (!found && gy_file_exists(config->path) == 0)
        return GY_FAIL(err, GY_E_IO, "%s: no such file or folder", config->path);
    if (!found)
        return GY_FAIL(err, GY_E_FORMAT,
                       "%s: no data set found: neither IDX, CIFAR or packed files nor a folder per class%s%s",
                       config->path, split[0] ? " for split " : "", split);
    if (data->count > INT64_MAX / 2 || data->count < 1)
        return GY_FAIL(err, GY_E_FORMAT, "%s: no samples", config->path);
    if (config->hold_out > 0)
        GY_TRY(gy_data_hold_out(data, config, err));
    const char *name = !data->has_splits ? "" : split[0] ? split : "train";
    data->split = gy_arena_text(&data->arena, name, strlen(name));
    if (!data->split)
        return GY_NOMEM(err, "the name of a split", strlen(name) + 1);
    data->bad_map = gy_alloc_take(&data->alloc, (size_t)(data->count / 8 + 1), 1);
    if (!data->bad_map)
        return GY_NOMEM(err, "the record of unreadable samples", data->count / 8 + 1);
    return GY_OK;
}

static int data_check(const struct gy_data_config *config, struct gy_error *err)
{
    const double share = config->hold_out;
    if (!config->path || !config->path[0] || config->max_bad < 0 || config->max_pixels < 0)
        return GY_FAIL(err, GY_E_ARG, "data: a path is needed, and max_bad %" PRId64 " and max_pixels %" PRId64
                       " of 0 or more", config->max_bad, config->max_pixels);
    if (!(share == 0 || (share >= DATA_SHARE_LEAST && share <= DATA_SHARE_MOST)) || config->held < 0 || config->held > 1)
        return GY_FAIL(err, GY_E_ARG, "data: hold_out is %g and held is %d; they must be 0 or in %g .. %g, and 0 or 1", share,
                       config->held, DATA_SHARE_LEAST, DATA_SHARE_MOST);
    return GY_OK;
}

GY_INT int gy_data_open(struct gy_data **out, const struct gy_data_config *config, struct gy_error *err)
{
    GY_TRY(data_check(config, err));
    struct gy_data *data = gy_alloc_take(config->alloc, 1, sizeof *data);
    if (!data)
        return GY_NOMEM(err, "a data set", sizeof *data);
    data->alloc = *config->alloc;
    if (config->log)
        data->log = *config->log;
    data->max_bad = config->max_bad;
    data->max_pixels = config->max_pixels ? config->max_pixels : GY_IMAGE_PIXELS;
    if (pthread_mutex_init(&data->bad_lock, NULL)) {
        gy_alloc_free(config->alloc, data, sizeof *data);
        return GY_FAIL(err, GY_E_NOMEM, "out of memory: a lock cannot be made");
    }
    gy_arena_open_hook(&data->arena, &data->alloc);
    const int status = data_find_format(data, config, err);
    if (status != GY_OK) {
        gy_data_close(data);
        return status;
    }
    gy_log_write(&data->log, GY_LOG_INFO, "data: %s: %s, %" PRId64 " samples, %" PRId32 " classes", config->path,
                 data->format->name, data->count, data->classes);
    *out = data;
    return GY_OK;
}
