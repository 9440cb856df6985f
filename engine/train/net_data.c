/* SPDX-License-Identifier: MIT */
/* net_data.c: public calls on data sets, loaders, contact sheets, images and packing: thin handles
 * around io/. Asserts hold structs that are handed over whole to the same fields on both sides. */
#include "engine/train/net_data.h"
#include "io/png.h"

#define API_IMAGE_SIDE 16384 /* longest side of an image of gyre_read_image */

GY_STATIC_ASSERT(sizeof(struct gyre_augment) == sizeof(struct gy_augment), augment_size);
GY_STATIC_ASSERT(offsetof(struct gyre_augment, resize) == offsetof(struct gy_augment, resize), augment_resize);
GY_STATIC_ASSERT(offsetof(struct gyre_augment, mixup) == offsetof(struct gy_augment, mixup), augment_mixup);
GY_STATIC_ASSERT(sizeof(struct gyre_mix) == sizeof(struct gy_batch_mix), batch_mix_size);
GY_STATIC_ASSERT(offsetof(struct gyre_mix, h0) == offsetof(struct gy_batch_mix, h0), batch_mix_box);
GY_STATIC_ASSERT(offsetof(struct gyre_mix, dy) == offsetof(struct gy_batch_mix, dy), batch_mix_move);

struct gyre_loader {
    struct gy_alloc alloc;
    struct gyre_data *data;
    struct gy_loader *loader;
    int32_t batch, h, w, c;
};

static int api_check_log(const struct gyre_logger *log, const char *name, struct gy_error *err)
{
    return log->level >= 0 && log->level <= GYRE_LOG_DEBUG ? GY_OK : GY_FAIL(err, GY_E_ARG, "%s.log.level is %d; it must be in 0 .. %d", name, log->level,
                                                                            GYRE_LOG_DEBUG);
}

GYRE_API void gyre_data_config_default(struct gyre_data_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->split = "";
    config->hold_seed = 1;
    config->log.level = GYRE_LOG_INFO;
}

static int api_open_data(struct gyre_data **out, const struct gyre_data_config *config, struct gy_error *err)
{
    struct gyre_data_config c;
    struct gy_alloc alloc;
    gyre_data_config_default(&c);
    GY_TRY(gy_config_take(&c, sizeof c, config, offsetof(struct gyre_data_config, max_bad), "data config", err));
    GY_TRY(api_check_log(&c.log, "data config", err));
    GY_TRY(gy_config_hook(&c.memory, "data config", &alloc, err));
    struct gyre_data *data = gy_alloc_take(&alloc, 1, sizeof *data);
    if (!data)
        return GY_NOMEM(err, "a data set's handle", sizeof *data);
    data->alloc = alloc;
    data->log = gy_log_of(&c.log);
    const struct gy_data_config inner = { .alloc = &data->alloc, .log = &data->log, .path = c.path, .split = c.split,
                                          .max_bad = c.max_bad, .hold_out = c.hold_out, .hold_seed = c.hold_seed,
                                          .held = c.held };
    const int status = gy_data_open(&data->data, &inner, err);
    if (status != GY_OK) {
        gy_alloc_free(&alloc, data, sizeof *data);
        return status;
    }
    *out = data;
    return GY_OK;
}

GYRE_API int gyre_open_data(struct gyre_data **data, const struct gyre_data_config *config, struct gyre_error *error)
{
    GY_TRY(gy_given(data, "gyre_open_data: data", error));
    GY_TRY(gy_given(config, "gyre_open_data: config", error));
    struct gy_error err = { 0 };
    const int status = api_open_data(data, config, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

GYRE_API void gyre_close_data(struct gyre_data *data)
{
    if (!data)
        return;
    const struct gy_alloc alloc = data->alloc;
    gy_data_close(data->data);
    gy_alloc_free(&alloc, data, sizeof *data);
}

GYRE_API void gyre_get_data_info(const struct gyre_data *data, struct gyre_data_info *info)
{
    if (!data || !info)
        return;
    info->format = gy_data_format(data->data);
    info->samples = gy_data_count(data->data);
    info->bad = gy_data_bad(data->data);
    info->classes = gy_data_classes(data->data);
    info->channels = gy_data_channels(data->data);
    gy_data_side(data->data, &info->h, &info->w);
    info->real = gy_data_is_real(data->data);
    info->split = gy_data_split(data->data);
    const struct gy_data_hold hold = gy_data_hold(data->data);
    info->hold_out = hold.share;
    info->hold_seed = hold.seed;
    info->hold_of = hold.of;
    info->hold_labels = hold.labels;
}

GY_INT int gy_data_check_input(struct gyre_net *net, const struct gyre_data *data, const char *which)
{
    static const char *const names[] = { "u8 and need GYRE_INPUT_U8", "float and need GYRE_INPUT_F32" };
    const int real = gy_data_is_real(data->data);
    if (real == (net->config.input == GYRE_INPUT_F32))
        return GY_OK;
    return gy_engine_fail(net, GY_E_MISMATCH, "the %s samples are %s; the net was opened with %s", which, names[real],
                          real ? "GYRE_INPUT_U8" : "GYRE_INPUT_F32");
}

GYRE_API const char *gyre_class_name(const struct gyre_data *data, int32_t label)
{
    return data ? gy_data_class_name(data->data, label) : NULL;
}

GYRE_API const char *gyre_sample_name(const struct gyre_data *data, int64_t index, char *buf, size_t room)
{
    if (data && buf && room > 0)
        return gy_data_sample_name(data->data, index, buf, room);
    if (buf && room > 0)
        buf[0] = 0;
    return buf;
}

/* ---- loader ---- */

GYRE_API void gyre_loader_config_default(struct gyre_loader_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->batch = 32;
    config->augment = (struct gyre_augment){ .scale_min = 0.08f, .scale_max = 1, .ratio_min = 0.75f, .ratio_max = 1.3333f };
    config->seed = 1;
    config->threads = 1;
    config->depth = 4;
    config->groups = 1;
    config->log.level = GYRE_LOG_INFO;
}

static int api_loader_start(struct gyre_loader *loader, const struct gyre_loader_config *c, struct gy_error *err)
{
    struct gy_log log = gy_log_of(&c->log);
    struct gy_loader_config inner = { .alloc = &loader->alloc, .log = c->log.write ? &log : &loader->data->log,
                                      .batch = c->batch, .h = c->h, .w = c->w, .c = c->c, .training = c->training,
                                      .seed = c->seed, .first_batch = c->first_batch, .threads = c->threads,
                                      .depth = c->depth, .part = c->part, .parts = c->parts, .groups = c->groups,
                                      .moves = c->moves };
    memcpy(&inner.augment, &c->augment, sizeof inner.augment);
    return gy_loader_open(&loader->loader, loader->data->data, &inner, err);
}

static int api_open_loader(struct gyre_loader **out, struct gyre_data *data, const struct gyre_loader_config *config,
                           struct gy_error *err)
{
    struct gyre_loader_config c;
    struct gy_alloc alloc;
    gyre_loader_config_default(&c);
    GY_TRY(gy_config_take(&c, sizeof c, config, offsetof(struct gyre_loader_config, training), "loader config",
                          err));
    GY_TRY(api_check_log(&c.log, "loader config", err));
    GY_TRY(gy_config_hook(&c.memory, "loader config", &alloc, err));
    struct gyre_loader *loader = gy_alloc_take(&alloc, 1, sizeof *loader);
    if (!loader)
        return GY_NOMEM(err, "a loader's handle", sizeof *loader);
    *loader = (struct gyre_loader){ .alloc = alloc, .data = data, .batch = c.batch, .h = c.h, .w = c.w, .c = c.c };
    const int status = api_loader_start(loader, &c, err);
    if (status != GY_OK) {
        gy_alloc_free(&alloc, loader, sizeof *loader);
        return status;
    }
    *out = loader;
    return GY_OK;
}

GYRE_API int gyre_open_loader(struct gyre_loader **loader, struct gyre_data *data, const struct gyre_loader_config *config,
                              struct gyre_error *error)
{
    GY_TRY(gy_given(loader, "gyre_open_loader: loader", error));
    GY_TRY(gy_given(data, "gyre_open_loader: data", error));
    GY_TRY(gy_given(config, "gyre_open_loader: config", error));
    struct gy_error err = { 0 };
    const int status = api_open_loader(loader, data, config, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

GYRE_API int gyre_next_batch(struct gyre_loader *loader, struct gyre_batch *batch, const int64_t **samples,
                             struct gyre_error *error)
{
    GY_TRY(gy_given(loader, "gyre_next_batch: loader", error));
    GY_TRY(gy_given(batch, "gyre_next_batch: batch", error));
    struct gy_error err = { 0 };
    struct gy_batch b = { 0 };
    const int status = gy_loader_next(loader->loader, &b, &err);
    if (status != GY_OK)
        return gy_error_out(error, &err);
    *batch = (struct gyre_batch){ .x = b.values ? (const void *)b.values : b.pixels, .label = b.labels, .mix = (const struct gyre_mix *)(const void *)b.mix,
                                  .count = b.count };
    if (samples)
        *samples = b.samples;
    return GYRE_OK;
}

GYRE_API void gyre_close_loader(struct gyre_loader *loader)
{
    if (!loader)
        return;
    const struct gy_alloc alloc = loader->alloc;
    gy_loader_close(loader->loader);
    gy_alloc_free(&alloc, loader, sizeof *loader);
}

GY_INT int64_t gy_loader_ready_waits(const struct gyre_loader *loader, double *seconds)
{
    int64_t ns;
    const int64_t waits = gy_loader_waits(loader->loader, &ns);
    *seconds = (double)ns * 1e-9;
    return waits;
}

/* ---- contact sheet ---- */

/* A grid of enlarged samples with a gap of two pixels. */
struct api_sheet {
    uint8_t *pixels;
    int32_t columns, rows, zoom, h, w; /* h, w: of the whole */
};

/* A value of the batch, in 0 .. 255; one that is not a number is 0. */
static float api_level(const struct gyre_loader *l, const struct gyre_batch *b, size_t at)
{
    if (!gy_data_is_real(l->data->data))
        return (float)((const uint8_t *)b->x)[at];
    const float level = ((const float *)b->x)[at] * 255;
    return level > 0 ? level < 255 ? level : 255 : 0;
}

/* A pixel of sample i after its shift and flip; 0 outside. */
static float api_moved_level(const struct gyre_loader *l, const struct gyre_batch *b, int32_t i, int32_t y, int32_t x, int32_t c)
{
    const int32_t dy = b->mix ? b->mix[i].dy : 0, dx = b->mix ? b->mix[i].dx : 0, flip = b->mix ? b->mix[i].flip : 0;
    const int32_t from_y = y - dy, from_x = (flip ? l->w - 1 - x : x) - dx;
    if (from_y < 0 || from_y >= l->h || from_x < 0 || from_x >= l->w)
        return 0;
    return api_level(l, b, (((size_t)i * (size_t)l->h + (size_t)from_y) * (size_t)l->w + (size_t)from_x) * (size_t)l->c + (size_t)c);
}

/* The pixel that the net sees: moved and mixed as the step does it. */
static uint8_t api_mixed_pixel(const struct gyre_loader *l, const struct gyre_batch *b, int32_t i, int32_t y, int32_t x, int32_t c)
{
    const float own = api_moved_level(l, b, i, y, x, c);
    if (!b->mix || b->mix[i].partner == i)
        return (uint8_t)(own + 0.5f);
    const struct gyre_mix *m = &b->mix[i];
    if (y < m->h0 || y >= m->h1 || x < m->w0 || x >= m->w1)
        return (uint8_t)(own + 0.5f);
    return (uint8_t)(m->inside * own + (1 - m->inside) * api_moved_level(l, b, m->partner, y, x, c) + 0.5f);
}

static void api_sheet_sample(struct api_sheet *s, const struct gyre_loader *l, const struct gyre_batch *b, int32_t i)
{
    const int32_t top = i / s->columns * (l->h * s->zoom + 2) + 2, left = i % s->columns * (l->w * s->zoom + 2) + 2;
    for (int32_t y = 0; y < l->h * s->zoom; y++)
        for (int32_t x = 0; x < l->w * s->zoom; x++)
            for (int32_t c = 0; c < l->c; c++)
                s->pixels[((size_t)(top + y) * (size_t)s->w + (size_t)(left + x)) * (size_t)l->c + (size_t)c] =
                    api_mixed_pixel(l, b, i, y / s->zoom, x / s->zoom, c);
}

static int api_sheet_write(const struct gyre_loader *l, const struct gyre_batch *b, const char *path, struct gy_error *err)
{
    struct api_sheet s = { .columns = 1, .zoom = l->h < 64 ? 64 / l->h : 1 };
    while (s.columns * s.columns < b->count)
        s.columns++;
    s.rows = (b->count + s.columns - 1) / s.columns;
    s.h = s.rows * (l->h * s.zoom + 2) + 2;
    s.w = s.columns * (l->w * s.zoom + 2) + 2;
    size_t bytes;
    if (gy_mul_size((size_t)s.h, (size_t)s.w, &bytes) || gy_mul_size(bytes, (size_t)l->c, &bytes))
        return GY_FAIL(err, GY_E_ARG, "a contact sheet of %d images of %d x %d is too large", b->count, l->h, l->w);
    s.pixels = gy_alloc_take(&l->alloc, bytes, 1);
    if (!s.pixels)
        return GY_NOMEM(err, "a contact sheet", bytes);
    for (int32_t i = 0; i < b->count; i++)
        api_sheet_sample(&s, l, b, i);
    const int status = gy_image_write_png(path, s.pixels, s.h, s.w, l->c, &l->alloc, err);
    gy_alloc_free(&l->alloc, s.pixels, bytes);
    return status;
}

GYRE_API int gyre_write_contact_sheet(struct gyre_loader *loader, const char *path, struct gyre_error *error)
{
    GY_TRY(gy_given(loader, "gyre_write_contact_sheet: loader", error));
    GY_TRY(gy_given(path, "gyre_write_contact_sheet: path", error));
    struct gyre_batch batch = { 0 };
    struct gy_error err = { 0 };
    int status = gyre_next_batch(loader, &batch, NULL, error);
    if (status != GYRE_OK)
        return status;
    if (batch.count == 0)
        status = GY_FAIL(&err, GY_E_STATE, "the loader has no batch left for %.200s", path);
    else
        status = api_sheet_write(loader, &batch, path, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* ---- one image ---- */

static int api_read_image(const char *path, int32_t h, int32_t w, int32_t c, int32_t resize, uint8_t *pixels,
                          struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_decoder *decoder;
    struct gy_image image;
    if (h < 1 || w < 1 || h > API_IMAGE_SIDE || w > API_IMAGE_SIDE || (c != 1 && c != 3) || resize < 0)
        return GY_FAIL(err, GY_E_ARG, "an image of %d x %d x %d from %d was asked for; sides are 1 .. %d, channels 1 or 3", h, w,
                       c, resize, API_IMAGE_SIDE);
    GY_TRY(gy_decoder_open(&decoder, &alloc, GY_DECODER_BYTES, err));
    int status = gy_image_read(decoder, path, 0, (int64_t)64 << 20, &image, err);
    if (status == GY_OK)
        status = gy_image_fit(&image, h, w, c, resize, pixels, decoder, err);
    gy_decoder_close(decoder);
    return status;
}

GYRE_API int gyre_read_image(const char *path, int32_t h, int32_t w, int32_t c, int32_t resize, uint8_t *pixels,
                             struct gyre_error *error)
{
    GY_TRY(gy_given(path, "gyre_read_image: path", error));
    GY_TRY(gy_given(pixels, "gyre_read_image: pixels", error));
    struct gy_error err = { 0 };
    const int status = api_read_image(path, h, w, c, resize, pixels, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* ---- packing ---- */

GYRE_API int gyre_pack(struct gyre_data *data, const char *path, int32_t side, int threads,
                       int (*progress)(void *user, int64_t done, int64_t total), void *user, struct gyre_error *error)
{
    GY_TRY(gy_given(data, "gyre_pack: data", error));
    GY_TRY(gy_given(path, "gyre_pack: path", error));
    struct gy_error err = { 0 };
    const struct gy_pack_config config = { .alloc = &data->alloc, .log = &data->log, .side = side, .threads = threads,
                                           .progress = progress, .user = user };
    const int status = gy_data_pack(data->data, path, &config, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
