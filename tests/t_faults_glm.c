/* SPDX-License-Identifier: MIT */
/* t_faults_glm.c: faults by count in linear models. The n-th allocation, read, write and device
 * call fails. It does so while text becomes a block file, or a model is trained, saved, loaded and
 * asked. Training is in memory, from a file, with checkpoints, on a device. A call that fails says
 * why and leaves what was there before. One that succeeds has the result of an undisturbed one. */
#include "tools/lab/lab.h"
#include "tests/data_files.h"
#include "tests/faults_device.h"

#include "engine/gyre_glm.h"
#include "io/rows/blocks.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define FG_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FG_NO_EMULATOR 1
#endif
#endif

#define FG_ROWS 200
#define FG_FEATURES 12

static const char *fg_name; /* of the sweep */

/* Until nothing fails any more. once: how many calls failed. */
static void fg_sweep(const char *name, int kinds, int mode, int64_t least, int (*once)(int kinds, int mode, int64_t n))
{
    int64_t n = 0;
    const int before = t_failed;
    fg_name = name;
    while (once(kinds, mode, n) > 0 && t_failed - before < 12)
        n++;
    printf("%s: %" PRId64 " calls failed, %s\n", name, n, mode == FAULTS_ON ? "it and all later ones" : "once");
    T_CHECK_MSG(n >= least, "%s: only %" PRId64 " calls", name, n);
    T_CHECK_MSG(faults.bytes == 0, "%s: %" PRId64 " bytes were not given back", name, faults.bytes);
    faults.bytes = 0;
}

/* A fault was told; or nothing failed. 1: the call went well. */
static int fg_told(int64_t n, int hit, int status, const struct gyre_error *error)
{
    const int told = status == GYRE_OK || (hit && status < 0 && error->text[0] && error->status == status);
    T_CHECK_MSG(told, "%s, call %" PRId64 " (%s): status %d, '%s'", fg_name, n, hit ? faults.what : "nothing failed", status, error->text);
    return status == GYRE_OK;
}

/* ---- rows ---- */

static void fg_write_text(void)
{
    static char text[FG_ROWS * 128];
    size_t bytes = 0;
    for (int i = 0; i < FG_ROWS; i++) {
        int sum = 0;
        const size_t label = bytes;
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "+1");
        for (int f = 1 + i % 3; f <= FG_FEATURES; f += 1 + (i * 7 + f) % 4) {
            const int value = (i * 31 + f * 17) % 9 - 4;
            sum += f % 2 ? value : -value;
            bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, " %d:%d", f, value ? value : 5);
        }
        text[label] = sum + i % 5 > 2 ? '+' : '-';
        text[bytes++] = '\n';
    }
    df_write("rows.txt", text, bytes);
}

struct fg_bytes {
    char *text;
    size_t bytes;
};

static struct fg_bytes fg_read(const char *name)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct fg_bytes b = { NULL, 0 };
    if (gy_file_read(&alloc, df_path(name), (size_t)1 << 24, &b.text, &b.bytes, NULL) != GY_OK)
        b = (struct fg_bytes){ NULL, 0 };
    return b;
}

static int fg_is(const char *name, const struct fg_bytes *want)
{
    struct fg_bytes b = fg_read(name);
    const int same = b.text && want->text && b.bytes == want->bytes && memcmp(b.text, want->text, b.bytes) == 0;
    free(b.text);
    return same;
}

/* ---- text becomes blocks ---- */

static int fg_append;
static struct fg_bytes fg_once, fg_twice; /* the file after one and two conversions */

static int fg_convert(int append, struct gyre_error *error)
{
    static char path[256];
    static const char *files[1];
    struct gyre_glm_data from;
    struct gyre_glm_convert_config c;
    snprintf(path, sizeof path, "%s/rows.txt", df_root);
    files[0] = path;
    gyre_glm_data_default(&from);
    from.files = files;
    from.file_count = 1;
    gyre_glm_convert_default(&c);
    c.from = &from;
    c.to = df_path("blocks/rows.blocks");
    c.append = append;
    c.block_rows = 20;
    c.threads = 1;
    return gyre_glm_convert(&c, 0, NULL, error);
}

static int fg_parts(void)
{
    int parts = 0;
    DIR *dir = opendir(df_path("blocks"));
    for (const struct dirent *e; dir && (e = readdir(dir));)
        parts += strstr(e->d_name, ".part") != NULL;
    if (dir)
        closedir(dir);
    return parts;
}

static int fg_nowhere(void *user, const char *text, size_t bytes)
{
    (void)user, (void)text, (void)bytes;
    return 0;
}

/* All rows of a block file can be read, and there are so many. */
static int64_t fg_rows(void)
{
    const struct gyre_sink sink = { .write = fg_nowhere };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gyre_error error;
    struct gyre_glm_data how;
    struct gy_blocks *blocks;
    struct gy_blocks_info info;
    gyre_glm_data_default(&how);
    if (gyre_glm_print_inspect(df_path("blocks/rows.blocks"), &how, 0, &sink, &error) != GYRE_OK ||
        gy_blocks_open(&blocks, df_path("blocks/rows.blocks"), &alloc, NULL) != GY_OK)
        return -1;
    gy_blocks_get_info(blocks, &info);
    gy_blocks_close(blocks);
    return info.rows;
}

static int fg_convert_once(int kinds, int mode, int64_t n)
{
    struct gyre_error error = { 0 };
    df_folder("blocks");
    df_write("blocks/rows.blocks", fg_once.text, fg_once.bytes);
    faults_begin(kinds, mode, n);
    const int status = fg_convert(fg_append, &error), hit = faults_end();
    const int64_t rows = fg_rows();
    if (fg_told(n, hit, status, &error))
        T_CHECK_MSG(fg_is("blocks/rows.blocks", fg_append ? &fg_twice : &fg_once) && (!hit || kinds == FAULTS_READ), "%s, call %" PRId64 " (%s): %"
                    PRId64 " rows", fg_name, n, faults.what, rows);
    T_CHECK_MSG(rows == FG_ROWS || (fg_append && rows == 2 * FG_ROWS), "%s, call %" PRId64 " (%s): %" PRId64 " rows are left", fg_name, n, faults.what,
                rows);
    T_CHECK_MSG(fg_parts() == 0, "%s, call %" PRId64 " (%s): a part is left", fg_name, n, faults.what);
    if (status != GYRE_OK && rows == FG_ROWS) /* what was there is as good as before */
        T_CHECK_MSG(fg_convert(1, &error) == GYRE_OK && fg_rows() == 2 * FG_ROWS, "%s, call %" PRId64 " (%s): %s", fg_name, n, faults.what, error.text);
    return hit;
}

static void fg_blocks(void)
{
    struct gyre_error error = { 0 };
    df_folder("blocks");
    T_CHECK_MSG(fg_convert(0, &error) == GYRE_OK, "%s", error.text);
    fg_once = fg_read("blocks/rows.blocks");
    T_CHECK(fg_convert(1, &error) == GYRE_OK);
    fg_twice = fg_read("blocks/rows.blocks");
    for (fg_append = 0; fg_append < 2; fg_append++)
        for (int mode = FAULTS_ONCE; mode <= FAULTS_ON; mode++) {
            fg_sweep(fg_append ? "appending, memory" : "converting, memory", FAULTS_MEMORY, mode, 10, fg_convert_once);
            fg_sweep(fg_append ? "appending, reading" : "converting, reading", FAULTS_READ, mode, 3, fg_convert_once);
            fg_sweep(fg_append ? "appending, writing" : "converting, writing", FAULTS_WRITE, mode, 7, fg_convert_once);
        }
    df_write("rows.blocks", fg_once.text, fg_once.bytes);
}

/* ---- training ---- */

struct fg_case {
    const char *solver, *device;
    int streamed, folder, validate, folds, softmax, epochs, loss; /* epochs 0: 200 */
    size_t device_bytes;
    double l1, gap;    /* gap 0: FG_GAP */
};
static struct fg_case fg_now;

#define FG_GAP 1e-3
#define FG_DEVICE 11000 /* bytes of a device: rows and their dual variables come and go */
#define FG_WINDOWS 7200 /* bytes: less than the rows need, and enough for two blocks */

struct fg_model {
    float w[FG_FEATURES + 2];
    double objective;
    int epochs, streamed;
};
static struct fg_model fg_want;

/* Rows of three classes, in arrays: each has the feature of its class, and another. */
static void fg_classes(struct gyre_glm_data *rows)
{
    static int64_t start[FG_ROWS + 1];
    static uint32_t id[2 * FG_ROWS];
    static float label[FG_ROWS];
    for (int i = 0; i < FG_ROWS; i++) {
        start[i + 1] = 2 * (i + 1);
        id[2 * i] = (uint32_t)(i * 5 % 7 == 0 ? 1 : i % 3);
        id[2 * i + 1] = (uint32_t)(3 + i * 11 % (FG_FEATURES - 3));
        label[i] = (float)(i % 3);
    }
    rows->files = NULL;
    rows->file_count = 0;
    rows->rows = FG_ROWS;
    rows->start = start;
    rows->id = id;
    rows->label = label;
}

static int fg_train(struct fg_model *out, int resume, struct gyre_error *error)
{
    static char path[256], folder[256];
    const char *files[1] = { path };
    struct gyre_glm_data rows;
    struct gyre_glm_config c;
    struct gyre_glm_part part;
    struct gyre_glm_report report;
    struct gyre_glm *model = NULL;
    snprintf(path, sizeof path, "%s/rows.blocks", df_root);
    snprintf(folder, sizeof folder, "%s/kept", df_root);
    gyre_glm_data_default(&rows);
    rows.files = files;
    rows.file_count = 1;
    gyre_glm_config_default(&c);
    c.train = &rows;
    c.test = fg_now.validate ? &rows : NULL;
    c.validation = fg_now.validate ? 1e-4 : 0;
    c.solver = fg_now.solver;
    c.device = fg_now.device ? fg_now.device : "cpu";
    c.softmax = fg_now.softmax;
    c.loss = fg_now.loss;
    if (fg_now.softmax)
        fg_classes(&rows);
    c.l1 = fg_now.l1;
    c.l2 = fg_now.l1 > 0 ? 0 : 1;
    c.bias = 1;
    c.bias_free = fg_now.l1 > 0;
    c.threads = 1;
    c.gap = fg_now.gap > 0 ? fg_now.gap : FG_GAP;
    c.epochs = fg_now.epochs ? fg_now.epochs : 200;
    c.folds = fg_now.folds;
    c.memory_bytes = fg_now.streamed ? FG_WINDOWS : 0;
    c.device_bytes = fg_now.device_bytes;
    c.folder = fg_now.folder ? folder : NULL;
    c.checkpoint_seconds = 0;
    c.resume = resume;
    c.overwrite = !resume;
    c.memory.hook = faults_hook;
    memset(out, 0, sizeof *out);
    const int status = gyre_glm_train(&model, &c, &report, error);
    if (status == GYRE_OK && model) {
        struct gyre_glm_info info;
        gyre_glm_get_info(model, &info);
        gyre_glm_get_part(model, 0, &part);
        memcpy(out->w, part.weight, (info.features + 1) * sizeof(float));
        out->objective = part.objective;
        out->epochs = part.epochs;
        out->streamed = report.streamed;
    } else if (status == GYRE_OK)
        out->objective = report.test.loss;
    gyre_glm_close(model);
    return status;
}

/* The same bits; of a device, which adds in any order, as good a model. */
static int fg_is_right(const struct fg_model *m)
{
    if (!fg_now.device)
        return memcmp(m, &fg_want, sizeof *m) == 0;
    return fabs(m->objective - fg_want.objective) <= 2 * fg_now.gap * fg_want.objective;
}

/* Calls that may fail without an error. Reading ahead of the end may fail, and so may device memory
 * for windows that could have stayed there. So may waiting for the device once the model has come
 * back. Without memory to read the kernel cache, kernels are compiled. */
static int fg_may_fail(int kinds)
{
    const int64_t later = -1 - __atomic_load_n(&faults.left, __ATOMIC_SEQ_CST);
    if (kinds == FAULTS_READ || strcmp(faults.what, "device memory") == 0)
        return 1;
    return (fg_now.device && strcmp(faults.what, "realloc") == 0) || (strcmp(faults.what, "sync") == 0 && later == 0);
}

static int fg_train_once(int kinds, int mode, int64_t n)
{
    struct gyre_error error = { 0 };
    struct fg_model m;
    df_remove(df_path("kept"));
    faults_begin(kinds, mode, n);
    const int status = fg_train(&m, 0, &error), hit = faults_end();
    if (fg_told(n, hit, status, &error)) {
        if (n < 0)
            fg_want = m;
        T_CHECK_MSG(fg_is_right(&m), "%s, call %" PRId64 " (%s): another model: objective %.9g, not %.9g", fg_name, n, faults.what,
                    m.objective, fg_want.objective);
        T_CHECK_MSG(!hit || fg_may_fail(kinds), "%s, call %" PRId64 " (%s): nothing was told", fg_name, n, faults.what);
        T_CHECK(m.streamed == fg_now.streamed);
    } else if (fg_now.folder) {
        T_CHECK_MSG(fg_train(&m, 1, &error) == GYRE_OK, "%s, call %" PRId64 " (%s), resumed: %s", fg_name, n, faults.what, error.text);
        T_CHECK_MSG(fabs(m.objective - fg_want.objective) <= 2 * FG_GAP * fg_want.objective, "%s, call %" PRId64 " (%s), resumed: objective %.9g, not %.9g",
                    fg_name, n, faults.what, m.objective, fg_want.objective);
    }
    return hit;
}

static void fg_train_case(const char *name, const struct fg_case *c, int kinds, int64_t least)
{
    fg_now = *c;
    fg_name = name;
    fg_train_once(0, FAULTS_ONCE, -1);
    fg_sweep(name, kinds, FAULTS_ONCE, least, fg_train_once);
}

static void fg_training(void)
{
    static const struct {
        const char *name;
        struct fg_case c;
        int kinds;
        int64_t least;
    } rows[] = {
        { "ascent, memory", { .solver = "sdca" }, FAULTS_MEMORY, 10 },
        { "ascent, reading", { .solver = "sdca" }, FAULTS_READ, 3 },
        { "newton, memory", { .solver = "newton" }, FAULTS_MEMORY, 10 },
        { "l1, memory", { .solver = "l1", .l1 = 0.5 }, FAULTS_MEMORY, 10 },
        { "softmax, memory", { .softmax = 1 }, FAULTS_MEMORY, 10 },
        { "validation, memory", { .solver = "newton", .validate = 1 }, FAULTS_MEMORY, 10 },
        { "folds, memory", { .solver = "sdca", .folds = 3 }, FAULTS_MEMORY, 30 },
        { "streamed, memory", { .solver = "sdca", .streamed = 1 }, FAULTS_MEMORY, 10 },
        { "streamed, reading", { .solver = "sdca", .streamed = 1 }, FAULTS_READ, 3 },
        { "streamed newton, memory", { .solver = "newton", .streamed = 1 }, FAULTS_MEMORY, 10 },
        { "checkpoints, memory", { .solver = "sdca", .folder = 1 }, FAULTS_MEMORY, 30 },
        { "checkpoints, reading", { .solver = "sdca", .folder = 1 }, FAULTS_READ, 3 },
        { "checkpoints, writing", { .solver = "sdca", .folder = 1 }, FAULTS_WRITE, 20 },
        { "checkpoints of newton, writing", { .solver = "newton", .folder = 1 }, FAULTS_WRITE, 20 },
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        fg_train_case(rows[i].name, &rows[i].c, rows[i].kinds, rows[i].least);
}

/* Without memory for a second solver the first one's answer stands. */
static void fg_second(void)
{
    struct gyre_error error = { 0 };
    struct fg_model m;
    int stood = 0;
    fg_now = (struct fg_case){ .loss = GYRE_GLM_HINGE, .gap = 1e-13, .epochs = 2000 };
    fg_name = "a second solver, memory";
    T_CHECK_MSG(fg_train(&fg_want, 0, &error) == GYRE_OK, "%s", error.text);
    for (int64_t n = 0, hit = 1; hit; n++) {
        faults_begin(FAULTS_MEMORY, FAULTS_ONCE, n);
        const int status = fg_train(&m, 0, &error);
        hit = faults_end();
        if (fg_told(n, (int)hit, status, &error) && hit) {
            stood++;
            T_CHECK_MSG(fabs(m.objective - fg_want.objective) <= 1e-5 * fg_want.objective,
                        "call %" PRId64 ": objective %.9g, not %.9g", n, m.objective, fg_want.objective);
        }
    }
    printf("%s: %d answers stood\n", fg_name, stood);
    T_CHECK(stood > 0);
    T_CHECK_MSG(faults.bytes == 0, "%" PRId64 " bytes were not given back", faults.bytes);
}

static void fg_devices(void)
{
    const struct fg_case c = { .device = "emu", .gap = 0.3 }, little = { .device = "emu", .gap = 0.5, .epochs = 2, .device_bytes = FG_DEVICE };
    struct gyre_error error = { 0 };
    struct fg_model m;
#ifdef FG_NO_EMULATOR
    T_SKIP("no emulator under ThreadSanitizer");
    return;
#endif
    fg_now = c;
    if (fg_train(&m, 0, &error) == GYRE_E_NODEVICE) {
        T_SKIP("no emulator: linear models on a device");
        return;
    }
    fg_train_case("a device", &c, FAULTS_DEVICE, 30);
    fg_train_case("a device, memory", &c, FAULTS_MEMORY, 20);
    fg_train_case("a device with little memory", &little, FAULTS_DEVICE, 100);
}

/* ---- models ---- */

static struct gyre_glm *fg_model;
static const char *fg_format; /* the file's name */
static struct fg_bytes fg_file, fg_before;

static int fg_save_once(int kinds, int mode, int64_t n)
{
    struct gyre_error error = { 0 };
    df_write(fg_format, fg_before.text, fg_before.bytes);
    faults_begin(kinds, mode, n);
    const int status = gyre_glm_save(fg_model, df_path(fg_format), &error), hit = faults_end();
    const int old = fg_is(fg_format, &fg_before), now = fg_is(fg_format, &fg_file);
    if (fg_told(n, hit, status, &error))
        T_CHECK_MSG(!hit && now, "%s, call %" PRId64 " (%s): nothing was told", fg_name, n, faults.what);
    T_CHECK_MSG(old || now, "%s, call %" PRId64 " (%s): half a model", fg_name, n, faults.what);
    return hit;
}

static int fg_load_once(int kinds, int mode, int64_t n)
{
    struct gyre_error error = { 0 };
    struct gyre_glm *model = NULL;
    faults_begin(kinds, mode, n);
    const int status = gyre_glm_load(&model, df_path(fg_format), &error), hit = faults_end();
    if (fg_told(n, hit, status, &error)) {
        T_CHECK_MSG(!hit, "%s, call %" PRId64 " (%s): nothing was told", fg_name, n, faults.what);
        T_CHECK(gyre_glm_save(model, df_path("again.model"), &error) == GYRE_OK && fg_is("again.model", &fg_file));
        gyre_glm_close(model);
    } else
        T_CHECK(!model);
    return hit;
}

static struct gyre_glm_metrics fg_metrics;

static int fg_predict_once(int kinds, int mode, int64_t n)
{
    static char path[256];
    const char *files[1] = { path };
    struct gyre_error error = { 0 };
    struct gyre_glm_data rows;
    struct gyre_glm_predict_config c;
    struct gyre_glm_metrics m = { 0 };
    snprintf(path, sizeof path, "%s/rows.txt", df_root);
    gyre_glm_data_default(&rows);
    rows.files = files;
    rows.file_count = 1;
    gyre_glm_predict_default(&c);
    c.data = &rows;
    c.threads = 1;
    faults_begin(kinds, mode, n);
    const int status = gyre_glm_predict(fg_model, &c, &m, &error), hit = faults_end();
    if (fg_told(n, hit, status, &error)) {
        fg_metrics = n < 0 ? m : fg_metrics;
        T_CHECK_MSG((!hit || kinds == FAULTS_READ) && memcmp(&m, &fg_metrics, sizeof m) == 0, "%s, call %" PRId64 " (%s): other metrics", fg_name, n,
                    faults.what);
    }
    return hit;
}

static void fg_models(void)
{
    static const char *const names[] = { "rows.model", "rows.onnx" };
    static char path[256];
    const char *files[1] = { path };
    struct gyre_error error = { 0 };
    struct gyre_glm_data rows;
    struct gyre_glm_config c;
    snprintf(path, sizeof path, "%s/rows.blocks", df_root);
    gyre_glm_data_default(&rows);
    rows.files = files;
    rows.file_count = 1;
    gyre_glm_config_default(&c);
    c.train = &rows;
    c.threads = 1;
    T_CHECK(gyre_glm_train(&fg_model, &c, NULL, &error) == GYRE_OK);
    df_write("before", "what was there", 14);
    fg_before = fg_read("before");
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        fg_format = names[i];
        T_CHECK(gyre_glm_save(fg_model, df_path(fg_format), &error) == GYRE_OK);
        free(fg_file.text);
        fg_file = fg_read(fg_format);
        fg_sweep(i ? "saving ONNX, writing" : "saving, writing", FAULTS_WRITE, FAULTS_ONCE, 5, fg_save_once);
        fg_sweep(i ? "saving ONNX, memory" : "saving, memory", FAULTS_MEMORY, FAULTS_ONCE, 0, fg_save_once);
        if (i > 0)
            continue;
        fg_sweep("loading, memory", FAULTS_MEMORY, FAULTS_ONCE, 3, fg_load_once);
        fg_sweep("loading, reading", FAULTS_READ, FAULTS_ONCE, 3, fg_load_once);
    }
    fg_name = "predicting";
    fg_predict_once(0, FAULTS_ONCE, -1);
    fg_sweep("predicting, memory", FAULTS_MEMORY, FAULTS_ONCE, 5, fg_predict_once);
    fg_sweep("predicting, reading", FAULTS_READ, FAULTS_ONCE, 3, fg_predict_once);
    gyre_glm_close(fg_model);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 4096);
    faults_folder(df_root, sizeof df_root);
    fg_write_text();
    fg_blocks();
    fg_models();
    fg_training();
    fg_second();
    fg_devices();
    free(fg_once.text);
    free(fg_twice.text);
    free(fg_file.text);
    free(fg_before.text);
    df_remove(df_root);
    T_END("t_faults_glm");
}
