/* SPDX-License-Identifier: MIT */
/* t_faults_train.c: faults by count in the training loop. An allocation, read, write or device call
 * fails at any moment. The run says so, leaves checkpoints that load, and ends, resumed, with the
 * bits and rows of an undisturbed one. The second-newest checkpoint is taken when the newest is
 * damaged. Evaluation gives the report of an undisturbed one, or none. */
#include "engine/base/hash.h"
#include "tests/data_files.h"
#include "tests/faults_device.h"

#include "engine/run/engine.h"

#define FR_IMAGES 6
#define FR_BATCH 2
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FR_SLOW 7
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FR_SLOW 7
#endif
#endif
#ifndef FR_SLOW
#define FR_SLOW 1
#endif
#define FR_LAST "checkpoint-6.safetensors"

static const char fr_text[] = "input 6x6x1\nconv 3 3x3\nbn\nrelu\nlinear 3\nsoftmax\n";

/* ---- a net and its data ---- */

struct fr_run {
    struct gyre_net *net;
    struct gyre_data *data;
    struct gyre_error error;
};

static struct df_log fr_heard;
static char fr_path[256]; /* of the data */
static int64_t fr_from; /* steps with which the last run began, by what it said */

static int fr_watch(void *user, const struct gyre_progress *p)
{
    (void)user;
    if (fr_from < 0)
        fr_from = strcmp(p->event, "resume") == 0 ? p->step : p->step - 1;
    return 0;
}

static char fr_folder[256]; /* of the run that is disturbed */

static int fr_open(struct fr_run *run)
{
    struct gyre_data_config d;
    struct gyre_config c;
    gyre_config_default(&c);
    c.net = fr_text;
    c.batch = FR_BATCH;
    c.threads = 1;
    c.input = GYRE_INPUT_U8;
    c.optimizer.ema = 0.9f;
    c.memory.hook = faults_hook;
    c.log = (struct gyre_logger){ df_take_log, &fr_heard, GYRE_LOG_WARN };
    gyre_data_config_default(&d);
    d.path = fr_path;
    d.split = "train";
    d.memory.hook = faults_hook;
    memset(run, 0, sizeof *run);
    GY_TRY(gyre_open_data(&run->data, &d, &run->error));
    return gyre_open(&run->net, &c, &run->error);
}

static void fr_close(struct fr_run *run)
{
    gyre_close(run->net);
    gyre_close_data(run->data);
}

static int fr_train(struct fr_run *run, const char *folder, int resume)
{
    struct gyre_train_config c;
    gyre_train_config_default(&c);
    c.train = c.test = run->data;
    c.epochs = 2;
    c.folder = folder;
    c.checkpoint_steps = 2;
    c.resume = resume;
    c.overwrite = !resume;
    c.augment.pad = 1;
    c.augment.flip = 0.5f;
    c.progress = fr_watch;
    fr_from = -1;
    const int status = gyre_train(run->net, &c);
    run->error = *gyre_last_error(run->net);
    return status;
}

/* ---- what a run leaves ---- */

struct fr_left {
    /* the last checkpoint; metrics.csv without its last column, the speed */
    char *last, *rows;
    size_t bytes;
};

static char *fr_read(const char *folder, const char *name, size_t *bytes)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char path[1024], *text = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return gy_file_read(&alloc, path, (size_t)1 << 24, &text, bytes, NULL) == GY_OK ? text : NULL;
}

static void fr_cut_speeds(char *text)
{
    char *to = text;
    for (char *line = text, *next; *line; line = next) {
        char *const end = strchr(line, '\n'), *comma = NULL;
        next = end ? end + 1 : line + strlen(line);
        for (char *at = line; at < next; at++)
            comma = *at == ',' ? at : comma;
        const size_t bytes = (size_t)((comma ? comma : next) - line);
        memmove(to, line, bytes);
        to += bytes;
        *to++ = '\n';
    }
    *to = 0;
}

static struct fr_left fr_left_in(const char *folder)
{
    struct fr_left left = { 0 };
    size_t bytes;
    left.last = fr_read(folder, FR_LAST, &left.bytes);
    left.rows = fr_read(folder, "metrics.csv", &bytes);
    if (left.rows)
        fr_cut_speeds(left.rows);
    return left;
}

static void fr_free(struct fr_left *left)
{
    free(left->last);
    free(left->rows);
}

static struct fr_left fr_want;

/* The folder has what the undisturbed run has left. */
static void fr_whole(const char *folder, const char *name, int64_t n)
{
    struct fr_left left = fr_left_in(folder);
    T_CHECK_MSG(left.last && left.bytes == fr_want.bytes && memcmp(left.last, fr_want.last, left.bytes) == 0,
                "%s, call %" PRId64 " (%s): the last checkpoint has other bytes", name, n, faults.what);
    T_CHECK_MSG(left.rows && strcmp(left.rows, fr_want.rows) == 0, "%s, call %" PRId64 " (%s): other rows:\n%s", name, n, faults.what,
                left.rows ? left.rows : "none");
    fr_free(&left);
}

/* Every checkpoint loads. Nothing half-written is left that a resumed run would not clean. */
static void fr_all_load(struct gyre_net *net, const char *folder, const char *name, int64_t n)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        T_CHECK_MSG(!strstr(e->d_name, ".part"), "%s, call %" PRId64 " (%s): %s is left", name, n, faults.what, e->d_name);
        if (strncmp(e->d_name, "checkpoint-", 11) == 0)
            T_CHECK_MSG(gyre_load(net, path) == GYRE_OK, "%s, call %" PRId64 " (%s): %s", name, n, faults.what, gyre_last_error(net)->text);
    }
    if (dir)
        closedir(dir);
}

/* ---- a run that is disturbed, and goes on ---- */

static const char *fr_name; /* of the sweep */
static int fr_goes_on;      /* the disturbed run goes on from a run of four steps */

static void fr_resume(int64_t n)
{
    struct fr_run run;
    if (T_CHECK(fr_open(&run) == GYRE_OK)) {
        fr_all_load(run.net, fr_folder, fr_name, n);
        T_CHECK_MSG(fr_train(&run, fr_folder, 1) == GYRE_OK, "%s, call %" PRId64 " (%s): %s", fr_name, n, faults.what, run.error.text);
        fr_whole(fr_folder, fr_name, n);
        fr_close(&run);
    }
}

static int fr_begin(void)
{
    struct fr_run run;
    df_remove(fr_folder);
    if (!fr_goes_on)
        return 1;
    int good = fr_open(&run) == GYRE_OK && fr_train(&run, fr_folder, 0) == GYRE_OK;
    good = good && unlink(df_path("run/" FR_LAST)) == 0;
    fr_close(&run);
    return T_CHECK(good);
}

static int fr_once(int kinds, int mode, int64_t n)
{
    struct fr_run run;
    if (!fr_begin() || !T_CHECK(fr_open(&run) == GYRE_OK))
        return 0;
    memset(&run.net->error, 0, sizeof run.net->error);
    faults_begin(kinds, mode, n);
    const int status = fr_train(&run, fr_folder, fr_goes_on), hit = faults_end();
    fr_close(&run);
    if (status == GYRE_OK) { /* what failed was not needed: batches ahead of the last step */
        T_CHECK_MSG(hit == 0 || kinds == FAULTS_READ, "%s, call %" PRId64 " (%s): nothing was told", fr_name, n, faults.what);
        T_CHECK_MSG(!fr_goes_on || fr_from >= 2, "%s, call %" PRId64 " (%s): begins anew", fr_name, n, faults.what);
        fr_whole(fr_folder, fr_name, n);
        return hit;
    }
    T_CHECK_MSG(status < 0 && run.error.text[0] && run.error.status == status, "%s, call %" PRId64 " (%s): status %d, '%s'", fr_name, n,
                faults.what, status, run.error.text);
    T_CHECK_MSG(hit > 0, "%s: %s", fr_name, run.error.text);
    fr_resume(n);
    return hit;
}

/* every: 1, or more where a sanitizer makes a run long. */
static void fr_sweep_every(int64_t every, const char *name, int kinds, int mode, int64_t least, int (*once)(int kinds, int mode, int64_t n))
{
    int64_t n = 0;
    const int before = t_failed;
    fr_name = name;
    while (once(kinds, mode, n) > 0 && t_failed - before < 12)
        n += every;
    printf("%s%s: %" PRId64 " calls failed, %s\n", name, fr_goes_on ? ", resumed" : "", n, mode == FAULTS_ON ? "it and all later ones" : "once");
    T_CHECK_MSG(n >= least, "%s: only %" PRId64 " calls", name, n);
    T_CHECK_MSG(faults.bytes == 0, "%s: %" PRId64 " bytes were not given back", name, faults.bytes);
    faults.bytes = 0;
}

static void fr_sweep(const char *name, int kinds, int mode, int64_t least, int (*once)(int kinds, int mode, int64_t n))
{
    fr_sweep_every(1, name, kinds, mode, least, once);
}

/* ---- the newest checkpoint is damaged ---- */

static void fr_damage(const char *path, int how)
{
    struct stat info;
    FILE *file = fopen(path, "r+b");
    if (!T_CHECK(file && fstat(fileno(file), &info) == 0))
        return;
    if (how == 0)
        T_CHECK(ftruncate(fileno(file), info.st_size - 1) == 0);
    else if (how == 1)
        T_CHECK(fputc('x', file) == 'x');
    else
        /* a NaN */
        T_CHECK(fseek(file, -4, SEEK_END) == 0 && fwrite("\xff\xff\xff\x7f", 1, 4, file) == 4);
    fclose(file);
}

static void fr_damaged(void)
{
    for (int how = 0; how < 3; how++) {
        struct fr_run run;
        fr_goes_on = 1;
        if (!fr_begin())
            return;
        fr_damage(df_path("run/checkpoint-4.safetensors"), how);
        fr_heard = (struct df_log){ 0, "" };
        if (!T_CHECK(fr_open(&run) == GYRE_OK))
            return;
        T_CHECK(fr_train(&run, fr_folder, 1) == GYRE_OK);
        T_CHECK_MSG(fr_heard.lines == 1 && strstr(fr_heard.last, "checkpoint-4.safetensors"), "%d lines, '%s'", fr_heard.lines, fr_heard.last);
        T_CHECK_MSG(fr_from == 2, "goes on from step %" PRId64, fr_from);
        fr_whole(fr_folder, "damaged", how);
        fr_close(&run);
    }
    fr_goes_on = 0;
}

/* Signals that interrupt reads and writes, and calls that move half of the bytes, do no harm. */
static void fr_interrupted(void)
{
    struct fr_run run;
    df_remove(fr_folder);
    faults.interrupts = 1;
    if (T_CHECK(fr_open(&run) == GYRE_OK)) {
        T_CHECK_MSG(fr_train(&run, fr_folder, 0) == GYRE_OK, "%s", run.error.text);
        fr_close(&run);
    }
    faults.interrupts = 0;
    T_CHECK_MSG(faults.calls > 20, "only %" PRId64 " calls", faults.calls);
    fr_whole(fr_folder, "interrupted", 0);
}

/* ---- evaluation ---- */

struct fr_page {
    char text[16384];
    size_t bytes;
    int fails; /* the call of that number, from 1 */
};

static int fr_take(void *user, const char *text, size_t bytes)
{
    struct fr_page *page = user;
    if (faults_now(FAULTS_WRITE, "the sink") || page->bytes + bytes >= sizeof page->text)
        return -1;
    memcpy(page->text + page->bytes, text, bytes);
    page->bytes += bytes;
    return 0;
}

static struct fr_page fr_page_want;
static struct gyre_report fr_report_want;
static int fr_json;

static int fr_evaluate(struct fr_run *run, struct fr_page *page, struct gyre_report *report)
{
    struct gyre_evaluate_config c;
    const struct gyre_sink sink = { fr_take, page };
    gyre_evaluate_config_default(&c);
    c.data = run->data;
    c.text = &sink;
    c.json = fr_json;
    c.confusion_svg = df_path("confusion.svg");
    memset(page, 0, sizeof *page);
    memset(report, 0, sizeof *report);
    memset(&run->net->error, 0, sizeof run->net->error);
    const int status = gyre_evaluate(run->net, &c, report);
    report->seconds = 0;
    run->error = *gyre_last_error(run->net);
    return status;
}

static int fr_evaluate_once(int kinds, int mode, int64_t n)
{
    static struct fr_page page;
    struct gyre_report report;
    struct fr_run run;
    size_t bytes;
    if (!T_CHECK(fr_open(&run) == GYRE_OK))
        return 0;
    remove(df_path("confusion.svg"));
    faults_begin(kinds, mode, n);
    const int status = fr_evaluate(&run, &page, &report), hit = faults_end();
    char *const svg = fr_read(df_root, "confusion.svg", &bytes);
    T_CHECK_MSG((status == GYRE_OK) == (hit == 0) && (status == GYRE_OK || run.error.text[0]), "%s, call %" PRId64 " (%s): status %d, '%s'", fr_name, n,
                faults.what, status, run.error.text);
    T_CHECK_MSG(!svg || (bytes > 6 && memcmp(svg + bytes - 7, "</svg>\n", 7) == 0), "%s, call %" PRId64 " (%s): half a picture", fr_name, n, faults.what);
    if (status == GYRE_OK)
        T_CHECK(svg && memcmp(&report, &fr_report_want, sizeof report) == 0 && strcmp(page.text, fr_page_want.text) == 0);
    else
        T_CHECK_MSG(report.samples == 0, "%s, call %" PRId64 " (%s): a report of a failure", fr_name, n, faults.what);
    free(svg);
    fr_close(&run);
    return hit;
}

static void fr_evaluations(int reading)
{
    for (fr_json = 0; fr_json < 2; fr_json++) {
        struct fr_run run;
        if (!T_CHECK(fr_open(&run) == GYRE_OK && fr_evaluate(&run, &fr_page_want, &fr_report_want) == GYRE_OK && fr_report_want.samples == FR_IMAGES))
            return;
        fr_close(&run);
        if (reading) {
            fr_sweep("evaluation, reading", FAULTS_READ, FAULTS_ONCE, 12, fr_evaluate_once);
            continue;
        }
        fr_sweep("evaluation, memory", FAULTS_MEMORY, FAULTS_ONCE, 8, fr_evaluate_once);
        fr_sweep("evaluation, writing", FAULTS_WRITE, FAULTS_ONCE, 20, fr_evaluate_once);
        for (faults_apart = 0; faults_apart < 2; faults_apart++)
            fr_sweep("evaluation, device", FAULTS_DEVICE, FAULTS_ONCE, 20, fr_evaluate_once);
        faults_apart = 0;
    }
}

/* ---- opening data ---- */

/* What a data set is to its user, as a number: every label, class and name, and pixels. */
static uint32_t fr_sum_data(struct gyre_data *data)
{
    struct gyre_data_info info;
    struct gyre_loader_config c;
    struct gyre_loader *loader = NULL;
    struct gyre_batch batch = { .count = 1 };
    struct gyre_error error;
    char name[512];
    gyre_get_data_info(data, &info);
    uint32_t crc = gy_crc32c((uint32_t)info.classes, &info.samples, sizeof info.samples);
    for (int32_t k = 0; k < info.classes; k++)
        crc = gy_crc32c(crc, gyre_class_name(data, k), strlen(gyre_class_name(data, k)));
    gyre_loader_config_default(&c);
    c.batch = FR_BATCH;
    c.h = c.w = 6;
    c.c = 1;
    if (gyre_open_loader(&loader, data, &c, &error) != GYRE_OK)
        return 0;
    while (batch.count > 0 && crc) {
        crc = gyre_next_batch(loader, &batch, NULL, &error) == GYRE_OK ? crc : 0;
        crc = batch.count > 0 ? gy_crc32c(crc, batch.label, (size_t)batch.count * sizeof *batch.label) : crc;
        crc = batch.count > 0 ? gy_crc32c(crc, batch.x, (size_t)batch.count * 36) : crc;
    }
    gyre_close_loader(loader);
    gyre_sample_name(data, 0, name, sizeof name);
    return gy_crc32c(crc, name, strlen(name));
}

static const struct {
    const char *name, *path;
    int64_t reads;
} fr_sets[] = { { "a folder", "split", 12 }, { "a folder of one class", "single", 6 }, { "IDX files", "idx", 8 }, { "packed images", "packed.gyr", 6 } };
static size_t fr_set;
static uint32_t fr_set_want;

static int fr_data_once(int kinds, int mode, int64_t n)
{
    struct gyre_data_config d;
    struct gyre_data *data = NULL;
    struct gyre_error error = { 0 };
    gyre_data_config_default(&d);
    d.path = df_path(fr_sets[fr_set].path);
    d.split = "train";
    d.memory.hook = faults_hook;
    faults_begin(kinds, mode, n);
    const int status = gyre_open_data(&data, &d, &error), hit = faults_end();
    T_CHECK_MSG(status == GYRE_OK || (hit && error.text[0] && error.status == status), "%s, call %" PRId64 " (%s): %d '%s'", fr_name, n, faults.what,
                status, error.text);
    if (status == GYRE_OK) {
        const uint32_t sum = fr_sum_data(data);
        fr_set_want = n < 0 ? sum : fr_set_want;
        T_CHECK_MSG(sum == fr_set_want && sum != 0, "%s, call %" PRId64 " (%s): another data set", fr_name, n, faults.what);
        T_CHECK_MSG(!hit || kinds == FAULTS_READ, "%s, call %" PRId64 " (%s): nothing was told", fr_name, n, faults.what);
        gyre_close_data(data);
    }
    return hit;
}

static void fr_data(void)
{
    for (fr_set = 0; fr_set < GY_COUNT(fr_sets); fr_set++) {
        fr_name = fr_sets[fr_set].name;
        fr_data_once(0, FAULTS_ONCE, -1);
        for (int mode = FAULTS_ONCE; mode <= FAULTS_ON; mode++) {
            fr_sweep(fr_sets[fr_set].name, FAULTS_READ, mode, fr_sets[fr_set].reads, fr_data_once);
            fr_sweep(fr_sets[fr_set].name, FAULTS_MEMORY, mode, 3, fr_data_once);
        }
    }
}

/* ---- all of it ---- */

/* Two images of each class. */
static void fr_write_images(const char *folder, int classes)
{
    char name[128];
    df_folder(folder);
    for (int c = 0; c < classes; c++) {
        snprintf(name, sizeof name, "%s/%c", folder, 'a' + c);
        df_folder(name);
        for (int i = 0; i < FR_IMAGES / 3; i++) {
            snprintf(name, sizeof name, "%s/%c/%d.pgm", folder, 'a' + c, i);
            df_write_pnm(name, c * 17 + i, 6, 6, 1);
        }
    }
}

static void fr_write_sets(void)
{
    struct fr_run run = { 0 };
    struct gyre_error error = { 0 };
    struct gyre_data_config d;
    df_folder("split");
    fr_write_images("split/train", 3);
    fr_write_images("split/test", 3);
    df_folder("single");
    fr_write_images("single/train", 1);
    fr_write_images("single/test", 1);
    df_folder("idx");
    df_write_idx("idx/train", FR_IMAGES, 6, 6, 3);
    df_write_idx("idx/t10k", 3, 6, 6, 3);
    gyre_data_config_default(&d);
    d.path = df_path("split");
    d.split = "train";
    d.memory.hook = faults_hook;
    if (!T_CHECK(gyre_open_data(&run.data, &d, &run.error) == GYRE_OK))
        return;
    T_CHECK_MSG(gyre_pack(run.data, df_path("packed.gyr"), 0, 1, NULL, NULL, &error) == GYRE_OK, "%s", error.text);
    fr_close(&run);
}

/* From now on this is trained on. */
static void fr_use(const char *data)
{
    struct fr_run run;
    snprintf(fr_path, sizeof fr_path, "%s/%s", df_root, data);
    if (T_CHECK(fr_open(&run) == GYRE_OK)) {
        T_CHECK_MSG(fr_train(&run, df_path("whole"), 0) == GYRE_OK, "%s", run.error.text);
        fr_close(&run);
    }
    fr_free(&fr_want);
    fr_want = fr_left_in(df_path("whole"));
    T_CHECK(fr_want.last && fr_want.rows);
}

int main(void)
{
    faults_folder(df_root, sizeof df_root);
    snprintf(fr_folder, sizeof fr_folder, "%s/run", df_root);
    fr_write_sets();
    fr_data();
    fr_use("split");
    fr_damaged();
    fr_interrupted();
    fr_evaluations(1);
    for (fr_goes_on = 0; fr_goes_on < 2; fr_goes_on++)
        fr_sweep_every(FR_SLOW, "training, reading", FAULTS_READ, FAULTS_ONCE, 40, fr_once);
    fr_goes_on = 0;
    fr_use("packed.gyr");
    fr_interrupted();
    fr_use("idx"); /* decoders of photographs are large, and slow under a sanitizer */
    fr_evaluations(0);
    for (fr_goes_on = 0; fr_goes_on < 2; fr_goes_on++) {
        fr_sweep("training, memory", FAULTS_MEMORY, FAULTS_ONCE, 40, fr_once);
        fr_sweep("training, writing", FAULTS_WRITE, FAULTS_ONCE, 35, fr_once);
    }
    fr_goes_on = 0;
    fr_sweep("training, a full disk", FAULTS_WRITE, FAULTS_ON, 70, fr_once);
    fr_sweep("training, device", FAULTS_DEVICE, FAULTS_ONCE, 200, fr_once);
    fr_free(&fr_want);
    df_remove(df_root);
    T_END("t_faults_train");
}
