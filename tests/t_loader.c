/* SPDX-License-Identifier: MIT */
/* t_loader.c: the loader: the same batches for any number of threads and from any first batch,
 * whole epochs, the short end of an evaluation. Also unreadable samples, and the allocator's view
 * of it all. */
#include "engine/base/hash.h"
#include "tests/data_files.h"

struct watch { /* an allocator that counts, and fails once at a chosen call */
    int64_t calls, fail_at, live;
};

static void *watch_fn(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct watch *w = user;
    if (new_bytes == 0) {
        w->live -= ptr ? (int64_t)old_bytes : 0;
        free(ptr);
        return NULL;
    }
    if (w->calls++ == w->fail_at)
        return NULL;
    void *got = realloc(ptr, new_bytes);
    if (got)
        w->live += (int64_t)new_bytes - (ptr ? (int64_t)old_bytes : 0);
    return got;
}

static struct watch watch_now = {0, -1, 0};
static struct gy_alloc watch_alloc = {watch_fn, &watch_now};
static struct gy_error loader_err;

static struct gy_loader_config loader_config(int32_t batch, int32_t side, int32_t c, int training, int threads)
{
    struct gy_loader_config config;
    memset(&config, 0, sizeof config);
    config.alloc = &watch_alloc;
    config.batch = batch;
    config.h = config.w = side;
    config.c = c;
    config.training = training;
    config.seed = 11;
    config.threads = threads;
    config.depth = 3;
    return config;
}

static void loader_augment(struct gy_augment *a)
{
    a->resized_crop = 1;
    a->scale_min = .08f, a->scale_max = 1, a->ratio_min = .75f, a->ratio_max = 4.f / 3;
    a->flip = .5f, a->brightness = a->contrast = a->saturation = .4f, a->hue = .1f, a->mixup = .2f, a->cutmix = 1;
}

static int loader_open_data(struct gy_data **data, const char *path, const char *split, int64_t max_bad,
                            struct df_log *log)
{
    const struct gy_log to = {df_take_log, log, GY_LOG_WARN};
    const struct gy_data_config config = { .alloc = &watch_alloc, .log = log ? &to : NULL, .path = path, .split = split, .max_bad = max_bad };
    return gy_data_open(data, &config, &loader_err);
}

static uint32_t loader_sum_batch(const struct gy_loader_config *c, const struct gy_batch *b, uint32_t crc)
{
    crc = gy_crc32c(crc, b->pixels, (size_t)c->batch * (size_t)c->h * (size_t)c->w * (size_t)c->c);
    crc = gy_crc32c(crc, b->labels, (size_t)c->batch * sizeof *b->labels);
    crc = gy_crc32c(crc, b->samples, (size_t)c->batch * sizeof *b->samples);
    return b->mix ? gy_crc32c(crc, b->mix, (size_t)c->batch * sizeof *b->mix) : crc;
}

/* The sum of batches [config.first_batch, + n); 0 after an error. */
static uint32_t loader_sum(struct gy_data *data, const struct gy_loader_config *config, int n)
{
    struct gy_loader *loader;
    struct gy_batch batch;
    uint32_t crc = 1;
    if (gy_loader_open(&loader, data, config, &loader_err))
        return 0;
    for (int i = 0; i < n && crc; i++)
        crc = gy_loader_next(loader, &batch, &loader_err) ? 0 : loader_sum_batch(config, &batch, crc);
    gy_loader_close(loader);
    return crc;
}

static void test_same_for_all_threads(void)
{
    struct gy_data *data;
    T_CHECK(loader_open_data(&data, df_path("idx"), "train", 0, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(16, 24, 3, 1, 1);
    loader_augment(&config.augment);
    const uint32_t one = loader_sum(data, &config, 20);
    T_CHECK(one != 0);
    for (int threads = 2; threads <= 5; threads++) {
        config.threads = threads;
        config.depth = 1 + threads;
        T_CHECK_MSG(loader_sum(data, &config, 20) == one, "%d threads", threads);
    }
    config.seed = 12;
    T_CHECK(loader_sum(data, &config, 20) != one);
    gy_data_close(data);
}

static void test_resume(void)
{
    struct gy_data *data;
    struct gy_loader *whole, *part;
    struct gy_batch a, b;
    T_CHECK(loader_open_data(&data, df_path("idx"), "train", 0, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(16, 24, 1, 1, 2);
    loader_augment(&config.augment);
    T_CHECK(gy_loader_open(&whole, data, &config, &loader_err) == GY_OK);
    config.first_batch = 9;
    T_CHECK(gy_loader_open(&part, data, &config, &loader_err) == GY_OK);
    for (int i = 0; i < 9; i++)
        T_CHECK(gy_loader_next(whole, &a, &loader_err) == GY_OK && a.number == i && a.count == 16);
    for (int i = 9; i < 15; i++) {
        T_CHECK(gy_loader_next(whole, &a, &loader_err) == GY_OK && gy_loader_next(part, &b, &loader_err) == GY_OK);
        T_CHECK(a.number == i && b.number == i && loader_sum_batch(&config, &a, 1) == loader_sum_batch(&config, &b, 1));
    }
    gy_loader_close(whole);
    gy_loader_close(part);
    gy_data_close(data);
}

/* 100 samples in batches of 16: an epoch is 6 batches of different samples. gy_loader_order agrees
 * with the batches. */
static void test_epochs(void)
{
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    int64_t order[16];
    T_CHECK(loader_open_data(&data, df_path("idx"), "train", 0, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(16, 8, 1, 1, 2);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
    T_CHECK(gy_loader_batches_per_epoch(loader) == 6);
    int64_t first[2] = {-1, -1};
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[100] = {0}, twice = 0, right = 0, pixels = 0;
        for (int i = 0; i < 6; i++) {
            T_CHECK(gy_loader_next(loader, &batch, &loader_err) == GY_OK);
            gy_loader_order(loader, batch.number, order);
            right += memcmp(order, batch.samples, sizeof order) == 0;
            for (int k = 0; k < 16; k++) {
                twice += seen[order[k]]++ > 0;
                pixels +=
                    batch.pixels[k * 64 + 9] == df_pixel((int)order[k], 1, 1, 0) && batch.labels[k] == order[k] % 10;
            }
            if (i == 0)
                first[epoch] = order[0] * 100 + order[1];
        }
        T_CHECK_MSG(twice == 0 && right == 6 && pixels == 96, "%d %d %d", twice, right, pixels);
    }
    T_CHECK(first[0] != first[1]);
    gy_loader_close(loader);
    gy_data_close(data);
}

/* A caller that does nothing between batches is faster than one thread that makes them, so it
 * waits. The first batch of a run, resumed or not, does not count. */
static void test_waits(void)
{
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    int64_t ns = -1;
    T_CHECK(loader_open_data(&data, df_path("idx"), "train", 0, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(64, 96, 3, 1, 1);
    loader_augment(&config.augment);
    config.first_batch = 7;
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
    T_CHECK(gy_loader_waits(loader, &ns) == 0 && ns == 0);
    T_CHECK(gy_loader_next(loader, &batch, &loader_err) == GY_OK);
    T_CHECK(gy_loader_waits(loader, &ns) == 0 && ns == 0);
    int got = 0;
    while (got < 12)
        got += gy_loader_next(loader, &batch, &loader_err) == GY_OK ? 1 : 100;
    const int64_t waits = gy_loader_waits(loader, &ns);
    T_CHECK_MSG(got == 12 && waits > 0 && waits <= 12 && ns > 0, "%d batches, %" PRId64 " waits, %" PRId64 " ns", got, waits, ns);
    gy_loader_close(loader);
    gy_data_close(data);
}

static void test_evaluation(void)
{
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    int64_t order[16];
    T_CHECK(loader_open_data(&data, df_path("idx"), "train", 0, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(16, 8, 3, 0, 2);
    loader_augment(&config.augment); /* of no effect */
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK && gy_loader_batches_per_epoch(loader) == 7);
    int64_t at = 0, right = 0;
    while (gy_loader_next(loader, &batch, &loader_err) == GY_OK && batch.count > 0) {
        for (int k = 0; k < batch.count; k++, at++)
            right += batch.samples[k] == at && batch.labels[k] == at % 10 &&
                     batch.pixels[(k * 64 + 10) * 3 + 1] == df_pixel((int)at, 1, 2, 0);
        T_CHECK(!batch.mix && batch.count == (batch.number < 6 ? 16 : 4));
        if (batch.number == 6)
            T_CHECK(batch.labels[4] == -1 && batch.labels[15] == -1 && batch.samples[4] == -1 &&
                    batch.pixels[4 * 64 * 3] == 0 && batch.pixels[16 * 64 * 3 - 1] == 0);
    }
    T_CHECK(at == 100 && right == 100);
    T_CHECK(gy_loader_next(loader, &batch, &loader_err) == GY_OK && batch.count == 0);
    gy_loader_order(loader, 6, order);
    T_CHECK(order[3] == 99 && order[4] == -1);
    gy_loader_close(loader);
    gy_data_close(data);
}

/* Pixel of sample k at (y, x) as mix moves it. */
static uint8_t loader_moved(const struct gy_batch *b, int32_t side, int32_t c, int32_t k, int32_t y, int32_t x, int32_t channel)
{
    const struct gy_batch_mix *m = &b->mix[k];
    const int32_t from_y = y - m->dy, from_x = (m->flip ? side - 1 - x : x) - m->dx;
    return from_y < 0 || from_y >= side || from_x < 0 || from_x >= side
               ? 0
               : b->pixels[(((size_t)k * (size_t)side + (size_t)from_y) * (size_t)side + (size_t)from_x) * (size_t)c + (size_t)channel];
}

/* Applies the told moves by hand; the result must be the batches that the loader makes by itself.
 * mixed: both have mix. Returns how many pixels moved. */
static int64_t loader_compare_moves(const struct gy_batch *made, const struct gy_batch *told, int32_t side, int32_t c, int mixed)
{
    int64_t wrong = 0, elsewhere = 0;
    for (int32_t k = 0; k < made->count; k++) {
        for (int32_t i = 0; i < side * side * c; i++) {
            const size_t at = (size_t)(k * side * side * c + i);
            wrong += made->pixels[at] != loader_moved(told, side, c, k, i / c / side, i / c % side, i % c);
            elsewhere += made->pixels[at] != told->pixels[at];
        }
        const struct gy_batch_mix *m = &told->mix[k];
        wrong += made->labels[k] != told->labels[k] || made->samples[k] != told->samples[k];
        wrong += mixed ? memcmp(m, &made->mix[k], offsetof(struct gy_batch_mix, dy)) != 0 || made->mix[k].dy || made->mix[k].dx || made->mix[k].flip
                       : m->partner != k || m->inside != 1 || m->label != 1;
    }
    T_CHECK_MSG(wrong == 0, "%" PRId64 " pixels or fields", wrong);
    return elsewhere;
}

static void test_moves(void)
{
    static const struct { struct gy_augment a; int32_t c; int tells; } rows[] = {
        {{ .pad = 2, .flip = 0.5f }, 1, 1},
        {{ .pad = 9 }, 3, 1}, /* out of the image, too */
        {{ .flip = 1 }, 3, 1},
        {{ .pad = 3, .flip = 0.5f, .mixup = 0.2f, .cutmix = 1 }, 1, 1},
        {{ .resized_crop = 1, .scale_min = 0.3f, .scale_max = 1, .ratio_min = 0.75f, .ratio_max = 1.3333f, .flip = 0.5f }, 3, 1},
        {{ .pad = 2, .flip = 0.5f, .contrast = 0.4f }, 3, 0},
        {{ .resized_crop = 1, .scale_min = 0.3f, .scale_max = 1, .ratio_min = 0.75f, .ratio_max = 1.3333f }, 3, 0},
    };
    struct gy_data *data;
    T_CHECK(loader_open_data(&data, df_path("idx"), "train", 0, NULL) == GY_OK);
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        struct gy_loader_config config = loader_config(16, 10, rows[i].c, 1, 2);
        struct gy_loader *made, *told;
        struct gy_batch a, b;
        config.augment = rows[i].a;
        T_CHECK(gy_loader_open(&made, data, &config, &loader_err) == GY_OK);
        config.moves = 1;
        T_CHECK(gy_loader_open(&told, data, &config, &loader_err) == GY_OK);
        const int mixed = config.augment.mixup > 0;
        int64_t elsewhere = 0;
        for (int k = 0; k < 4; k++) {
            T_CHECK(gy_loader_next(made, &a, &loader_err) == GY_OK && gy_loader_next(told, &b, &loader_err) == GY_OK);
            T_CHECK((a.mix != NULL) == mixed && (b.mix != NULL) == (mixed || rows[i].tells));
            if (rows[i].tells && b.mix)
                elsewhere += loader_compare_moves(&a, &b, 10, rows[i].c, mixed);
            else
                T_CHECK(memcmp(a.pixels, b.pixels, 16 * 100 * (size_t)rows[i].c) == 0);
        }
        T_CHECK(!rows[i].tells || elsewhere > 1000);
        gy_loader_close(made);
        gy_loader_close(told);
    }
    gy_data_close(data);
}

static void test_refused(void)
{
    struct gy_data *data;
    struct gy_loader *loader = NULL;
    T_CHECK(loader_open_data(&data, df_path("idx"), "train", 0, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(101, 8, 1, 1, 1);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_E_ARG &&
            strstr(loader_err.text, "fewer than a batch of 101"));
    config = loader_config(32, 8, 1, 1, 1);
    config.parts = 4; /* 3 whole batches of the 100 samples */
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_E_ARG &&
            strstr(loader_err.text, "100 samples, fewer than 4 batches of 32"));
    config = loader_config(4, 8, 2, 1, 1);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_E_ARG && strstr(loader_err.text, "2 channels"));
    config = loader_config(4, 8, 1, 1, 0);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_E_ARG && strstr(loader_err.text, "threads 0"));
    config = loader_config(4, 8, 1, 1, 1);
    config.augment.hue = 2;
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_E_ARG && strstr(loader_err.text, "hue 2"));
    config.augment = (struct gy_augment){ .resized_crop = 1, .scale_min = .5f, .scale_max = 1, .ratio_min = 1, .ratio_max = 1, .pad = 4 };
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_E_ARG && strstr(loader_err.text, "pad 4 and resized_crop"));
    T_CHECK(!loader);
    gy_data_close(data);
}

/* ---- unreadable samples: in a folder of 12, numbers 3, 4 and 11 ---- */

static void loader_make_folder(void)
{
    char name[64];
    df_folder("f"), df_folder("f/a"), df_folder("f/b");
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "f/%s/%02d.ppm", i < 6 ? "a" : "b", i);
        df_write_pnm(name, i, 8, 8, 3);
    }
    df_write("f/a/03.ppm", "P6 8 8 255\nshort", 16);
    df_write("f/a/04.ppm", "", 0);
    df_write("f/b/11.ppm", "GIF89a", 6);
}

static void test_bad_training(void)
{
    struct df_log log = {0, ""};
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    int64_t order[4];
    T_CHECK(loader_open_data(&data, df_path("f"), "", 3, &log) == GY_OK);
    struct gy_loader_config config = loader_config(4, 8, 3, 1, 3);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
    static const int stands_for[12] = {0, 1, 2, 5, 5, 5, 6, 7, 8, 9, 10, 0};
    int right = 0;
    for (int i = 0; i < 9; i++) {
        T_CHECK(gy_loader_next(loader, &batch, &loader_err) == GY_OK);
        gy_loader_order(loader, i, order);
        for (int k = 0; k < 4; k++) {
            const int want = stands_for[order[k]];
            right += batch.samples[k] == want && batch.labels[k] == (want >= 6) &&
                     batch.pixels[k * 192 + 27] == df_pixel(want, 1, 1, 0);
        }
    }
    T_CHECK_MSG(right == 36, "%d", right);
    T_CHECK_MSG(gy_data_bad(data) == 3 && log.lines == 3, "%d", log.lines);
    gy_loader_close(loader);
    gy_data_close(data);
}

/* The limit is reached at the same batch whatever the number of threads. */
static void test_bad_limit(void)
{
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    int64_t stopped[4];
    for (int threads = 1; threads <= 4; threads++) {
        T_CHECK(loader_open_data(&data, df_path("f"), "", 1, NULL) == GY_OK);
        struct gy_loader_config config = loader_config(1, 8, 3, 1, threads);
        T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
        int64_t n = 0;
        while (n < 100 && gy_loader_next(loader, &batch, &loader_err) == GY_OK)
            n++;
        stopped[threads - 1] = n;
        T_CHECK_MSG(loader_err.status == GY_E_IMAGE && strstr(loader_err.text, "2 unreadable images, at most 1"), "%s",
                    loader_err.text);
        T_CHECK(gy_loader_next(loader, &batch, &loader_err) == GY_E_IMAGE);
        gy_loader_close(loader);
        gy_data_close(data);
    }
    T_CHECK(stopped[0] < 12 && stopped[1] == stopped[0] && stopped[2] == stopped[0] && stopped[3] == stopped[0]);
}

static void test_bad_evaluation(void)
{
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    T_CHECK(loader_open_data(&data, df_path("f"), "", 3, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(12, 8, 3, 0, 2);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
    T_CHECK(gy_loader_next(loader, &batch, &loader_err) == GY_OK && batch.count == 12 && gy_data_bad(data) == 3);
    T_CHECK(batch.labels[3] == -1 && batch.labels[4] == -1 && batch.labels[11] == -1 && batch.labels[5] == 0);
    T_CHECK(batch.samples[3] == 3 && batch.pixels[3 * 192] == 0 && batch.pixels[5 * 192] == df_pixel(5, 0, 0, 0));
    gy_loader_close(loader);
    gy_data_close(data);
    T_CHECK(loader_open_data(&data, df_path("f"), "", 0, NULL) == GY_OK);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
    T_CHECK_MSG(gy_loader_next(loader, &batch, &loader_err) == GY_E_IMAGE && strstr(loader_err.text, "a/03.ppm: 16 bytes are too few"),
                "%d %s", loader_err.status, loader_err.text);
    gy_loader_close(loader);
    gy_data_close(data);
}

static void test_all_bad(void)
{
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    df_folder("g"), df_folder("g/a");
    df_write("g/a/1.jpg", "no", 2), df_write("g/a/2.jpg", "", 0);
    T_CHECK(loader_open_data(&data, df_path("g"), "", 10, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(1, 8, 3, 1, 2);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
    T_CHECK(gy_loader_next(loader, &batch, &loader_err) == GY_E_IMAGE && strstr(loader_err.text, "none of the 2"));
    gy_loader_close(loader);
    gy_data_close(data);
}

/* ---- memory ---- */

static void test_nothing_after_open(void)
{
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    T_CHECK(loader_open_data(&data, df_path("f"), "", 3, NULL) == GY_OK);
    struct gy_loader_config config = loader_config(4, 16, 3, 1, 2);
    loader_augment(&config.augment);
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
    const int64_t calls = watch_now.calls;
    int good = 0;
    for (int i = 0; i < 50; i++)
        good += gy_loader_next(loader, &batch, &loader_err) == GY_OK;
    T_CHECK(good == 50 && watch_now.calls == calls);
    gy_loader_close(loader);
    gy_data_close(data);
    T_CHECK_MSG(watch_now.live == 0, "%" PRId64 " bytes are left", watch_now.live);
}

/* Every allocation of opening fails once in turn: a clean error and nothing left. */
static void test_failing_allocations(const char *path, const char *split)
{
    int64_t failures = 0;
    int clean = 1;
    for (int64_t at = 0;; at++) {
        struct gy_data *data = NULL;
        struct gy_loader *loader = NULL;
        struct gy_loader_config config = loader_config(4, 16, 3, 1, 2);
        watch_now.calls = 0;
        watch_now.fail_at = at;
        loader_err.text[0] = 0;
        int status = loader_open_data(&data, path, split, 3, NULL);
        if (status == GY_OK)
            status = gy_loader_open(&loader, data, &config, &loader_err);
        const int done = status == GY_OK;
        clean = clean && (done || (status == GY_E_NOMEM && loader_err.text[0] && !loader));
        gy_loader_close(loader);
        gy_data_close(data);
        clean = clean && watch_now.live == 0;
        if (done || !clean)
            break;
        failures++;
    }
    watch_now.fail_at = -1;
    T_CHECK_MSG(clean && failures > 5, "%s: after %" PRId64 " failures: %s, %" PRId64 " bytes left", path, failures,
                loader_err.text, watch_now.live);
}

static void test_jpegs(void)
{
    const char *root = getenv("GYRE_TEST_DATA");
    char command[1024];
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    snprintf(command, sizeof command, "mkdir -p %s/in/all && tar xf %s/images/imagenet-120.tar -C "
             "%s/in/all 2>/dev/null", df_root, root ? root : "/nonexistent", df_root);
    if (!root || system(command)) {
        T_SKIP("GYRE_TEST_DATA has no images/imagenet-120.tar");
        return;
    }
    T_CHECK(loader_open_data(&data, df_path("in"), "", 0, NULL) == GY_OK && gy_data_count(data) == 120);
    struct gy_loader_config config = loader_config(40, 32, 3, 0, 2);
    config.augment.resize = 36;
    T_CHECK(gy_loader_open(&loader, data, &config, &loader_err) == GY_OK);
    int64_t got = 0;
    while (gy_loader_next(loader, &batch, &loader_err) == GY_OK && batch.count > 0)
        got += batch.count;
    T_CHECK_MSG(got == 120 && gy_data_bad(data) == 0, "%" PRId64, got);
    gy_loader_close(loader);
    gy_data_close(data);
}

int main(void)
{
    df_open();
    df_folder("idx");
    df_write_idx("idx/train", 100, 8, 8, 10);
    loader_make_folder();
    test_same_for_all_threads();
    test_resume();
    test_epochs();
    test_waits();
    test_evaluation();
    test_moves();
    test_refused();
    test_bad_training();
    test_bad_limit();
    test_bad_evaluation();
    test_all_bad();
    test_nothing_after_open();
    test_failing_allocations(df_path("idx"), "train");
    test_failing_allocations(df_path("f"), "");
    test_jpegs();
    df_remove(df_root);
    T_END("t_loader");
}
