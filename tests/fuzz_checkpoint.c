/* SPDX-License-Identifier: MIT */
/* fuzz_checkpoint.c: any bytes as a checkpoint of a net. After an odd first byte they are lines
 * "key=value" of its metadata. A good checkpoint gets these counters, texts and notes instead of
 * its own; a key alone is removed. A checkpoint that does not fit changes no counter. One that is
 * taken has possible counters and sums, and is the same after saving and loading. */
#include "engine/run/engine.h"
#include "engine/train/train_notes.h"
#include "io/safetensors.h"
#include "tests/fuzz_file.h"

enum { FUZZ_BATCHES = 10, FUZZ_BATCH = 2, FUZZ_ACCUMULATE = 2, FUZZ_LINES = 16, FUZZ_TEXT = 4096, FUZZ_VALUES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct fuzz_line {
    const char *key, *value; /* NULL: taken away */
};

static struct gyre_net *fuzz_net(void)
{
    static struct gyre_net *net;
    struct gyre_config config;
    struct gyre_error error;
    gyre_config_default(&config);
    config.net = "input 1x1x2\nfc: linear 3\nsoftmax\n";
    config.batch = FUZZ_BATCH;
    config.threads = 1;
    config.seed = 5;
    config.accumulate = FUZZ_ACCUMULATE;
    FUZZ_REQUIRE(net || gyre_open(&net, &config, &error) == GYRE_OK);
    return net;
}

static struct train_run fuzz_run(void)
{
    return (struct train_run){ .net = fuzz_net(), .shape = { .batch = FUZZ_BATCH }, .info = { .samples = FUZZ_BATCHES * FUZZ_BATCH },
                               .per_epoch = FUZZ_BATCHES, .total = 3 * FUZZ_BATCHES, .mine = FUZZ_BATCH, .all = FUZZ_BATCH };
}

/* Samples of an epoch, and of the rest of an update that begins in it. */
static int64_t fuzz_most(void) { return (FUZZ_BATCHES + FUZZ_ACCUMULATE - 1) * FUZZ_BATCH; }

/* A checkpoint at the path, with all its notes. */
static void fuzz_good(const char *path)
{
    struct train_run run = fuzz_run();
    run.net->updates = 3;
    run.net->micro = run.done = 6;
    run.epoch = (struct train_sums){ 9.5, 12, 7 };
    run.row = (struct train_sums){ 1.25, 2, 1 };
    run.net->pending = 0;
    FUZZ_REQUIRE(gy_train_write_notes(&run) == GY_OK && gyre_note(run.net, "name", "small") == GYRE_OK && gyre_save(run.net, path) == GYRE_OK);
}

static int fuzz_lines(char *text, struct fuzz_line lines[FUZZ_LINES])
{
    int count = 0;
    while (*text && count < FUZZ_LINES) {
        char *const end = text + strcspn(text, "\n"), *const next = end + (*end != 0);
        *end = 0;
        char *const equals = strchr(text, '=');
        lines[count++] = (struct fuzz_line){ text, equals ? equals + 1 : NULL };
        if (equals)
            *equals = 0;
        text = next;
    }
    return count;
}

static const struct fuzz_line *fuzz_find(const struct fuzz_line *lines, int count, const char *key)
{
    for (int i = 0; i < count; i++)
        if (strcmp(lines[i].key, key) == 0)
            return &lines[i];
    return NULL;
}

static int fuzz_fill(struct gy_st_writer *w, const struct gy_st_file *from, const struct fuzz_line *lines, int count)
{
    for (int i = 0; i < gy_st_meta_count(from); i++) {
        const struct fuzz_line *const line = fuzz_find(lines, count, gy_st_meta_key(from, i));
        if (!line)
            GY_TRY(gy_st_add_meta(w, gy_st_meta_key(from, i), gy_st_meta(from, gy_st_meta_key(from, i)), NULL));
    }
    for (int i = 0; i < count; i++)
        if (lines[i].value && fuzz_find(lines, count, lines[i].key) == &lines[i])
            GY_TRY(gy_st_add_meta(w, lines[i].key, lines[i].value, NULL));
    for (int i = 0; i < gy_st_count(from); i++)
        GY_TRY(gy_st_declare(w, gy_st_at(from, i)->name, gy_st_at(from, i)->type, gy_st_at(from, i)->shape, gy_st_at(from, i)->dims, NULL));
    for (int i = 0; i < gy_st_count(from); i++) {
        float values[FUZZ_VALUES];
        const int64_t all = gy_st_at(from, i)->count;
        FUZZ_REQUIRE(all <= FUZZ_VALUES && gy_st_read_f32(gy_st_at(from, i), 0, all, values, NULL) == GY_OK);
        GY_TRY(gy_st_write_f32(w, values, all, NULL));
    }
    return GY_OK;
}

/* The good checkpoint with these lines at the path; 0: a writer refuses them. */
static int fuzz_make(const char *path, const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_file *from;
    struct gy_st_writer *w;
    struct fuzz_line lines[FUZZ_LINES];
    char text[FUZZ_TEXT], good[FUZZ_PATH];
    if (count >= sizeof text)
        return 0;
    memcpy(text, bytes, count);
    text[count] = 0;
    fuzz_good(fuzz_path(good, "good"));
    FUZZ_REQUIRE(gy_st_open(&from, &alloc, good, NULL) == GY_OK && gy_st_create(&w, &alloc, path, NULL) == GY_OK);
    const int status = fuzz_fill(w, from, lines, fuzz_lines(text, lines));
    if (status == GY_OK)
        FUZZ_REQUIRE(gy_st_commit(w, NULL) == GY_OK);
    else
        gy_st_abandon(w);
    gy_st_close(from);
    return status == GY_OK;
}

static void fuzz_texts(const char *path)
{
    struct gyre_config config;
    struct gyre_error error;
    char text[64];
    gyre_config_default(&config);
    if (gyre_read_input(path, &config, &error) == GYRE_OK)
        FUZZ_REQUIRE(isfinite(config.mean[0]) && isfinite(config.std[3]));
    FUZZ_REQUIRE(gyre_read_note(path, "name", text, sizeof text, &error) != GYRE_OK || memchr(text, 0, sizeof text));
}

static void fuzz_taken(const char *path)
{
    struct train_run run = fuzz_run();
    struct gyre_net *const net = run.net;
    const int64_t updates = net->updates, micro = net->micro;
    const int pending = net->pending;
    FUZZ_REQUIRE(updates >= 0 && micro >= updates && pending >= 0 && pending < 2);
    if (gy_train_read_notes(&run, path) == GY_OK)
        FUZZ_REQUIRE(run.epoch.labelled >= 0 && run.epoch.labelled <= fuzz_most() && run.epoch.right <= run.epoch.labelled &&
                     isfinite(run.epoch.loss) && run.row.right >= 0 && run.row.right <= run.row.labelled && isfinite(run.row.loss));
    FUZZ_REQUIRE(gyre_save(net, path) == GYRE_OK && gyre_load(net, path) == GYRE_OK);
    FUZZ_REQUIRE(net->updates == updates && net->micro == micro && net->pending == pending);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char path[FUZZ_PATH];
    struct gyre_net *const net = fuzz_net();
    if (count < 1)
        return 0;
    fuzz_path(path, "checkpoint");
    if (!(bytes[0] & 1))
        fuzz_write(path, bytes + 1, count - 1);
    else if (!fuzz_make(path, bytes + 1, count - 1))
        return 0;
    fuzz_texts(path);
    const int64_t updates = net->updates, micro = net->micro;
    const int status = gyre_load(net, path);
    FUZZ_REQUIRE(status == GYRE_OK || (strstr(gyre_last_error(net)->text, path) && net->updates == updates && net->micro == micro));
    if (status == GYRE_OK)
        fuzz_taken(path);
    return 0;
}
