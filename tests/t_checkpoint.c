/* SPDX-License-Identifier: MIT */
/* t_checkpoint.c: checkpoints that do not fit: of another shape, optimiser, seed or type, with
 * impossible counters, with tensors that are missing or hold no numbers. Each is refused with its
 * sentence, and the net stays as it was. Every one is made of a good checkpoint by one change. */
#include "engine/base/hash.h"
#include "engine/base/rng.h"
#include "engine/gyre.h"
#include "io/safetensors.h"
#include "tests/data_files.h"

static const char ck_text[] = "input 4x4x1\nconv1: conv 2 3x3\nbn1: bn\nrelu\nfc: linear 3\nsoftmax\n";

enum ck_how {
    CK_NONE, CK_DROP, CK_FLAT /* one dimension */, CK_MORE /* a further dimension, of 1 */,
    CK_LESS /* the last dimension is one element shorter */,
    CK_WHOLE /* integers */, CK_NAN
};

/* One change of a file: a metadata key gets another value (NULL: it is left out), or a tensor
 * changes. */
struct ck_change {
    const char *key, *value, *tensor;
    enum ck_how how;
};

/* ---- files ---- */

static int ck_copy_meta(struct gy_st_writer *w, const struct gy_st_file *from, const struct ck_change *c, struct gy_error *err)
{
    int added = 0;
    for (int i = 0; i < gy_st_meta_count(from); i++) {
        const char *const key = gy_st_meta_key(from, i);
        const int changed = c->key && strcmp(key, c->key) == 0;
        added |= changed;
        if (!changed || c->value)
            GY_TRY(gy_st_add_meta(w, key, changed ? c->value : gy_st_meta(from, key), err));
    }
    return c->key && c->value && !added ? gy_st_add_meta(w, c->key, c->value, err) : GY_OK;
}

static int ck_changed(const struct gy_st_tensor *t, const struct ck_change *c) { return c->tensor && strcmp(t->name, c->tensor) == 0; }

static int ck_declare(struct gy_st_writer *w, const struct gy_st_tensor *t, enum ck_how how, struct gy_error *err)
{
    int64_t shape[GY_ST_DIMS];
    memcpy(shape, t->shape, sizeof shape);
    if (how == CK_FLAT)
        shape[0] = t->count;
    if (how == CK_LESS)
        shape[t->dims - 1]--;
    if (how == CK_MORE)
        shape[t->dims] = 1;
    return gy_st_declare(w, t->name, how == CK_WHOLE ? GY_ST_I32 : t->type, shape, how == CK_FLAT ? 1 : t->dims + (how == CK_MORE), err);
}

static int ck_write(struct gy_st_writer *w, const struct gy_st_tensor *t, enum ck_how how, struct gy_error *err)
{
    static unsigned char bytes[65536];
    const float nan = NAN;
    if (t->bytes > sizeof bytes)
        return GY_FAIL(err, GY_E_BUG, "%s is larger than the test's buffer", t->name);
    GY_TRY(gy_st_read_bytes(t, 0, t->bytes, bytes, err));
    if (how == CK_NAN)
        memcpy(bytes + 4, &nan, sizeof nan);
    return gy_st_write(w, bytes, t->bytes - (how == CK_LESS ? t->bytes / (size_t)t->shape[t->dims - 1] : 0), err);
}

static int ck_copy(struct gy_st_writer *w, const struct gy_st_file *from, const struct ck_change *c, struct gy_error *err)
{
    GY_TRY(ck_copy_meta(w, from, c, err));
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < gy_st_count(from); i++) {
            const struct gy_st_tensor *const t = gy_st_at(from, i);
            const enum ck_how how = ck_changed(t, c) ? c->how : CK_NONE;
            if (how != CK_DROP)
                GY_TRY(pass == 0 ? ck_declare(w, t, how, err) : ck_write(w, t, how, err));
        }
    return GY_OK;
}

/* File `to` is file `from` with the change. */
static void ck_make(const char *from, const char *to, const struct ck_change *c)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_file *file = NULL;
    struct gy_st_writer *w = NULL;
    struct gy_error err = { 0 };
    int status = gy_st_open(&file, &alloc, from, &err);
    if (status == GY_OK)
        status = gy_st_create(&w, &alloc, to, &err);
    if (status == GY_OK) {
        status = ck_copy(w, file, c, &err);
        if (status == GY_OK)
            status = gy_st_commit(w, &err);
        else
            gy_st_abandon(w);
    }
    gy_st_close(file);
    T_CHECK_MSG(status == GY_OK, "%s", err.text);
}

/* ---- nets ---- */

static void ck_config(struct gyre_config *config)
{
    gyre_config_default(config);
    config->net = ck_text;
    config->batch = 2;
    config->threads = 1;
    config->seed = 5;
    config->accumulate = 2;
}

static struct gyre_net *ck_open(const struct gyre_config *config)
{
    struct gyre_net *net = NULL;
    struct gyre_error error = { 0 };
    T_CHECK_MSG(gyre_open(&net, config, &error) == GYRE_OK, "%s", error.text);
    return net;
}

static void ck_steps(struct gyre_net *net, int steps)
{
    float x[2 * 16];
    int32_t label[2] = { 0, 2 };
    const struct gyre_batch batch = { .x = x, .label = label, .count = 2 };
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < 2 * 16; i++)
            x[i] = gy_rng_normal(1, 1, (uint64_t)s, (uint64_t)i);
        T_CHECK(gyre_step(net, &batch, NULL) == GYRE_OK);
    }
}

/* The net's whole state, in its own words. */
static uint32_t ck_state(struct gyre_net *net)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *text;
    size_t bytes;
    uint32_t crc = 0;
    if (gyre_save(net, df_path("state")) == GYRE_OK && gy_file_read(&alloc, df_path("state"), (size_t)1 << 24, &text, &bytes, NULL) == GY_OK) {
        crc = gy_crc32c(0, text, bytes);
        gy_alloc_free(&alloc, text, bytes + 1);
    }
    T_CHECK(crc != 0);
    return crc;
}

static void ck_refused(struct gyre_net *net, int (*load)(struct gyre_net *, const char *), const char *path, int status, const char *says)
{
    const uint32_t before = ck_state(net);
    const int got = load(net, path);
    const char *const text = gyre_last_error(net)->text;
    T_CHECK_MSG(got == status && strstr(text, says) && strstr(text, path), "%d, '%s'; not %d, '%s'", got, text, status, says);
    T_CHECK_MSG(ck_state(net) == before, "'%s': the net has changed", says);
}

/* ---- what is refused ---- */

struct ck_row {
    struct ck_change change;
    int status;
    const char *says;
};

/* Of a net with SGD and two updates done, seed 5, accumulate 2. */
static const struct ck_row ck_rows[] = {
    { { .key = "gyre.seed" }, GYRE_E_MISMATCH, "metadata 'gyre.seed' is missing or not a number: not a checkpoint of Gyre" },
    { { .key = "gyre.optimizer" }, GYRE_E_MISMATCH, "metadata 'gyre.optimizer' is missing or not a number" },
    { { .key = "gyre.updates" }, GYRE_E_MISMATCH, "metadata 'gyre.updates' is missing or not a number" },
    { { .key = "gyre.batches", .value = "4.5" }, GYRE_E_MISMATCH, "metadata 'gyre.batches' is missing or not a number" },
    { { .key = "gyre.pending", .value = "none" }, GYRE_E_MISMATCH, "metadata 'gyre.pending' is missing or not a number" },
    { { .key = "gyre.seed", .value = "6" }, GYRE_E_MISMATCH, "the run's seed was 6, this net's is 5" },
    { { .key = "gyre.optimizer", .value = "2" }, GYRE_E_MISMATCH, "the run's optimizer was kind 2, this net's is 0" },
    { { .key = "gyre.updates", .value = "-1" }, GYRE_E_MISMATCH, "counters -1, 4, 0 do not fit this net" },
    { { .key = "gyre.batches", .value = "-4" }, GYRE_E_MISMATCH, "counters 2, -4, 0 do not fit this net" },
    { { .key = "gyre.pending", .value = "-1" }, GYRE_E_MISMATCH, "counters 2, 4, -1 do not fit this net" },
    { { .key = "gyre.pending", .value = "2" }, GYRE_E_MISMATCH, "counters 2, 4, 2 do not fit this net" },
    { { .key = "gyre.pending", .value = "1" }, GYRE_E_MISMATCH, "tensor 'grad.conv1.weight' is missing" },
    { { .tensor = "conv1.weight", .how = CK_DROP }, GYRE_E_MISMATCH, "tensor 'conv1.weight' is missing" },
    { { .tensor = "bn1.running_var", .how = CK_DROP }, GYRE_E_MISMATCH, "tensor 'bn1.running_var' is missing" },
    { { .tensor = "momentum.fc.bias", .how = CK_DROP }, GYRE_E_MISMATCH, "tensor 'momentum.fc.bias' is missing" },
    { { .tensor = "conv1.weight", .how = CK_FLAT }, GYRE_E_MISMATCH, "tensor 'conv1.weight' has shape [18]; the net has [2,1,3,3]" },
    { { .tensor = "conv1.weight", .how = CK_MORE }, GYRE_E_MISMATCH, "tensor 'conv1.weight' has shape [2,1,3,3,1]; the net has [2,1,3,3]" },
    { { .tensor = "fc.weight", .how = CK_LESS }, GYRE_E_MISMATCH, "tensor 'fc.weight' has shape [3,31]; the net has [3,32]" },
    { { .tensor = "fc.weight", .how = CK_WHOLE }, GYRE_E_FORMAT, "tensor \"fc.weight\" holds I32, not real numbers" },
    { { .tensor = "momentum.fc.weight", .how = CK_WHOLE }, GYRE_E_FORMAT, "tensor \"momentum.fc.weight\" holds I32, not real numbers" },
    { { .tensor = "fc.weight", .how = CK_NAN }, GYRE_E_MISMATCH, "tensor 'fc.weight' holds nan at element 1" },
};

static void ck_training(void)
{
    struct gyre_config config;
    ck_config(&config);
    struct gyre_net *net = ck_open(&config);
    if (!net)
        return;
    ck_steps(net, 4);
    T_CHECK(gyre_save(net, df_path("good")) == GYRE_OK);
    ck_steps(net, 1); /* another state than the file's */
    for (size_t i = 0; i < GY_COUNT(ck_rows); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/bad-%zu", df_root, i);
        ck_make(df_path("good"), path, &ck_rows[i].change);
        ck_refused(net, gyre_load, path, ck_rows[i].status, ck_rows[i].says);
    }
    const struct ck_change none = { .key = NULL };
    ck_make(df_path("good"), df_path("copy"), &none);
    T_CHECK_MSG(gyre_load(net, df_path("copy")) == GYRE_OK, "%s", gyre_last_error(net)->text);
    const uint32_t now = ck_state(net);
    T_CHECK(gyre_load(net, df_path("good")) == GYRE_OK && ck_state(net) == now);
    gyre_close(net);
}

/* A net for inference asks for less of a file: no momentum, and no fitting seed or optimizer. Its
 * weights must be as good as for training. */
static void ck_evaluation(void)
{
    static const struct ck_row rows[] = {
        { { .key = "gyre.seed", .value = "6" }, GYRE_OK, "" },
        { { .key = "gyre.optimizer", .value = "2" }, GYRE_OK, "" },
        { { .key = "gyre.pending", .value = "7" }, GYRE_OK, "" },
        { { .tensor = "momentum.fc.weight", .how = CK_DROP }, GYRE_OK, "" },
        { { .key = "gyre.updates", .value = "-1" }, GYRE_E_MISMATCH, "counters -1, 4, 0 do not fit this net" },
        { { .tensor = "fc.weight", .how = CK_DROP }, GYRE_E_MISMATCH, "tensor 'fc.weight' is missing" },
        { { .tensor = "bn1.weight", .how = CK_LESS }, GYRE_E_MISMATCH, "tensor 'bn1.weight' has shape [1]; the net has [2]" },
        { { .tensor = "fc.weight", .how = CK_WHOLE }, GYRE_E_FORMAT, "holds I32, not real numbers" },
    };
    struct gyre_config config;
    ck_config(&config);
    config.mode = GYRE_INFER;
    struct gyre_net *net = ck_open(&config);
    for (size_t i = 0; net && i < GY_COUNT(rows); i++) {
        ck_make(df_path("good"), df_path("odd"), &rows[i].change);
        if (rows[i].status != GYRE_OK)
            ck_refused(net, gyre_load, df_path("odd"), rows[i].status, rows[i].says);
        else
            T_CHECK_MSG(gyre_load(net, df_path("odd")) == GYRE_OK, "%zu: %s", i, gyre_last_error(net)->text);
    }
    gyre_close(net);
}

/* ---- weights alone ---- */

static int ck_import_all(struct gyre_net *net, const char *path) { return gyre_import(net, path, 0, NULL); }
static int ck_import_some(struct gyre_net *net, const char *path) { return gyre_import(net, path, 1, NULL); }

static void ck_importing(void)
{
    static const struct ck_row rows[] = {
        { { .tensor = "conv1.weight", .how = CK_DROP }, GYRE_E_MISMATCH, "tensor 'conv1.weight' is missing" },
        { { .tensor = "conv1.weight", .how = CK_FLAT }, GYRE_E_MISMATCH, "tensor 'conv1.weight' has shape [18]; the net has [2,1,3,3]" },
        { { .tensor = "fc.bias", .how = CK_LESS }, GYRE_E_MISMATCH, "tensor 'fc.bias' has shape [2]; the net has [3]" },
    };
    static const struct ck_row values[] = { /* refused with partial, too */
        { { .tensor = "fc.bias", .how = CK_WHOLE }, GYRE_E_FORMAT, "tensor \"fc.bias\" holds I32, not real numbers" },
        { { .tensor = "fc.bias", .how = CK_NAN }, GYRE_E_MISMATCH, "tensor 'fc.bias' holds nan at element 1" },
    };
    struct gyre_config config;
    ck_config(&config);
    struct gyre_net *net = ck_open(&config);
    for (size_t i = 0; net && i < GY_COUNT(rows); i++) {
        int skipped = -1;
        ck_make(df_path("good"), df_path("weights"), &rows[i].change);
        ck_refused(net, ck_import_all, df_path("weights"), rows[i].status, rows[i].says);
        T_CHECK(gyre_import(net, df_path("weights"), 1, &skipped) == GYRE_OK && skipped == 1);
    }
    for (size_t i = 0; net && i < GY_COUNT(values); i++) {
        ck_make(df_path("good"), df_path("weights"), &values[i].change);
        ck_refused(net, ck_import_all, df_path("weights"), values[i].status, values[i].says);
        ck_refused(net, ck_import_some, df_path("weights"), values[i].status, values[i].says);
    }
    gyre_close(net);
}

/* With partial, averages of weights that the file does not have stay, too. */
static void ck_import_averages(void)
{
    const struct ck_change drop = { .tensor = "conv1.weight", .how = CK_DROP };
    struct gyre_config config;
    float kept[18], now[18], fc[96], average[96];
    ck_config(&config);
    config.optimizer.ema = 0.9f;
    struct gyre_net *net = ck_open(&config);
    if (!net)
        return;
    ck_make(df_path("good"), df_path("weights"), &drop);
    ck_steps(net, 6);
    T_CHECK(gyre_get_tensor(net, "ema.conv1.weight", kept, 18) == GYRE_OK);
    T_CHECK(gyre_import(net, df_path("weights"), 1, NULL) == GYRE_OK);
    T_CHECK(gyre_get_tensor(net, "ema.conv1.weight", now, 18) == GYRE_OK && memcmp(kept, now, sizeof now) == 0);
    T_CHECK(gyre_get_tensor(net, "fc.weight", fc, 96) == GYRE_OK && gyre_get_tensor(net, "ema.fc.weight", average, 96) == GYRE_OK);
    T_CHECK(memcmp(fc, average, sizeof fc) == 0); /* what was read is its average, too */
    gyre_close(net);
}

/* ---- sums that wait, with a loss scale ---- */

static void ck_pending(void)
{
    static const struct ck_row rows[] = {
        { { .tensor = "grad.fc.bias", .how = CK_DROP }, GYRE_E_MISMATCH, "tensor 'grad.fc.bias' is missing" },
        { { .tensor = "grad.fc.bias", .how = CK_NAN }, GYRE_E_MISMATCH, "tensor 'grad.fc.bias' holds nan at element 1" },
        { { .key = "gyre.scale", .value = "1199570944" }, GYRE_E_MISMATCH, "metadata 'gyre.scale_good' is missing or not a number" },
    };
    struct gyre_config config;
    ck_config(&config);
    struct gyre_net *net = ck_open(&config);
    if (!net)
        return;
    ck_steps(net, 3);
    T_CHECK(gyre_save(net, df_path("pending")) == GYRE_OK);
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        ck_make(df_path("pending"), df_path("odd"), &rows[i].change);
        ck_refused(net, gyre_load, df_path("odd"), rows[i].status, rows[i].says);
    }
    gyre_close(net);
}

/* Bits of floats: 65536 is 1199570944, 0 is 0, infinity 2139095040. */
static void ck_scales(void)
{
    static const struct {
        const char *scale, *good, *skipped, *says; /* says NULL: taken */
    } rows[] = {
        { "1199570944", "3", "1", NULL },
        { "0", "3", "1", "the loss scale 0, 3 and 1 cannot be" },
        { "2139095040", "3", "1", "the loss scale inf, 3 and 1 cannot be" },
        { "1199570944", "-3", "1", "the loss scale 65536, -3 and 1 cannot be" },
        { "1199570944", "1000001", "1", "the loss scale 65536, 1000001 and 1 cannot be" },
        { "1199570944", "3", "-1", "the loss scale 65536, 3 and -1 cannot be" },
        { "1199570944", "3", NULL, "metadata 'gyre.skipped' is missing or not a number" },
    };
    struct gyre_config config;
    ck_config(&config);
    struct gyre_net *net = ck_open(&config);
    for (int pending = 0; pending < 2 && net; pending++)
        for (size_t i = 0; i < GY_COUNT(rows); i++) {
            const struct ck_change scale = { .key = "gyre.scale", .value = rows[i].scale }, good = { .key = "gyre.scale_good", .value = rows[i].good },
                                   skipped = { .key = "gyre.skipped", .value = rows[i].skipped };
            const char *const says = rows[i].says ? rows[i].says : "gradients wait for their update, with a loss scale; this net's dtype is not f16";
            ck_make(df_path(pending ? "pending" : "good"), df_path("scale"), &scale);
            ck_make(df_path("scale"), df_path("scale2"), &good);
            ck_make(df_path("scale2"), df_path("scaled"), &skipped);
            if (pending || rows[i].says)
                ck_refused(net, gyre_load, df_path("scaled"), GYRE_E_MISMATCH, says);
            else
                T_CHECK_MSG(gyre_load(net, df_path("scaled")) == GYRE_OK, "%s", gyre_last_error(net)->text);
        }
    gyre_close(net);
}

int main(void)
{
    df_open();
    ck_training();
    ck_evaluation();
    ck_importing();
    ck_import_averages();
    ck_pending();
    ck_scales();
    df_remove(df_root);
    T_END("t_checkpoint");
}
