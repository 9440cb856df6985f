/* SPDX-License-Identifier: MIT */
/* t_faults.c: faults by count: the n-th allocation, read, write and device call fails, for each n.
 * It does so while a net is opened, steps, saves, loads, is evaluated and trained. The call in
 * which it happened reports it with a sentence. No byte of memory stays; the earlier checkpoint is
 * whole, and the net continues with the same bits. A resumed run ends as one that was never
 * disturbed. */
#include "tests/data_files.h"
#include "tests/faults_device.h"

#include "engine/run/engine.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define FT_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FT_NO_EMULATOR 1
#endif
#endif

static const char ft_text[] = "input 8x8x1\nconv 4 3x3\nbn\nrelu\nlinear 3\nsoftmax\n";

#define FT_BATCH 4
#define FT_PIXELS 64

static const char *ft_mode_name(int mode) { return mode == FAULTS_ON ? "it and all later ones" : "once"; }

/* The fault was told where it happened. */
static int ft_told(const char *where, int64_t n, int status, const struct gyre_error *error)
{
    const int told = status < 0 && error->text[0] && error->status == status;
    T_CHECK_MSG(told, "%s, call %" PRId64 " (%s, %s): status %d, '%s' (%d)", where, n, faults.what, ft_mode_name(faults.mode), status, error->text,
                error->status);
    return told;
}

/* Until nothing fails any more. once: how many calls failed. */
static void ft_sweep(const char *name, int kinds, int mode, int64_t least, int (*once)(int kinds, int mode, int64_t n))
{
    int64_t n = 0;
    const int before = t_failed;
    while (once(kinds, mode, n) > 0 && t_failed - before < 12)
        n++;
    printf("%s: %" PRId64 " calls failed, %s\n", name, n, ft_mode_name(mode));
    T_CHECK_MSG(n >= least, "%s: only %" PRId64 " calls", name, n);
    T_CHECK_MSG(faults.bytes == 0, "%s: %" PRId64 " bytes were not given back", name, faults.bytes);
    faults.bytes = 0;
}

/* ---- files ---- */

struct ft_file {
    char *text;
    size_t bytes;
};

static struct ft_file ft_read(const char *path)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct ft_file file = { NULL, 0 };
    if (gy_file_read(&alloc, path, (size_t)1 << 24, &file.text, &file.bytes, NULL) != GY_OK)
        file = (struct ft_file){ NULL, 0 };
    return file;
}

static int ft_same(const struct ft_file *a, const struct ft_file *b)
{
    return a->text && b->text && a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0;
}

static int ft_is(const char *path, const struct ft_file *want)
{
    struct ft_file file = ft_read(path);
    const int same = ft_same(&file, want);
    free(file.text);
    return same;
}

/* How many files a folder has. */
static int ft_count(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

/* ---- nets ---- */

static int ft_emu; /* on the emulator, in f16 with a loss scale */

static void ft_config(struct gyre_config *config)
{
    gyre_config_default(config);
    if (ft_emu) {
        config->device = "emu";
        config->dtype = GYRE_F16;
        config->use_env = 1;
    }
    config->net = ft_text;
    config->batch = FT_BATCH;
    config->threads = 1;
    config->input = GYRE_INPUT_U8;
    config->optimizer.ema = 0.9f;
    config->memory.hook = faults_hook;
}

static struct gyre_net *ft_open(void)
{
    struct gyre_net *net = NULL;
    struct gyre_config config;
    struct gyre_error error = { 0 };
    ft_config(&config);
    T_CHECK_MSG(gyre_open(&net, &config, &error) == GYRE_OK, "%s", error.text);
    return net;
}

static struct gyre_batch ft_batch(int step)
{
    static unsigned char x[FT_BATCH * FT_PIXELS];
    static int32_t label[FT_BATCH];
    for (int i = 0; i < FT_BATCH; i++) {
        label[i] = (step + i) % 3;
        for (int k = 0; k < FT_PIXELS; k++)
            x[i * FT_PIXELS + k] = (unsigned char)((step * 7 + i * 31 + k * (3 + label[i])) & 255);
    }
    return (struct gyre_batch){ .x = x, .label = label, .count = FT_BATCH };
}

static int ft_step(struct gyre_net *net, int step)
{
    const struct gyre_batch batch = ft_batch(step);
    return gyre_step(net, &batch, NULL);
}

/* What a net is after so many steps, as its checkpoint. */
static struct ft_file ft_after(int steps)
{
    struct gyre_net *net = ft_open();
    for (int s = 0; net && s < steps; s++)
        T_CHECK(ft_step(net, s) == GYRE_OK);
    T_CHECK(net && gyre_save(net, df_path("after")) == GYRE_OK);
    gyre_close(net);
    struct ft_file file = ft_read(df_path("after"));
    remove(df_path("after"));
    return file;
}

static struct ft_file ft_want[4]; /* after so many steps */

/* The net's state is that after so many steps, as a file that it writes says. */
static int ft_stands(struct gyre_net *net, int steps)
{
    const int good = gyre_save(net, df_path("stands")) == GYRE_OK && ft_is(df_path("stands"), &ft_want[steps]);
    remove(df_path("stands"));
    return good;
}

/* It computes nothing and gives and takes no weights. */
static int ft_refuses(struct gyre_net *net)
{
    static float values[65536];
    struct gyre_tensor_info info;
    return ft_step(net, 0) == GYRE_E_STATE && gyre_tensor_at(net, 0, &info) == GYRE_OK &&
           gyre_get_tensor(net, info.name, values, info.count) == GYRE_E_STATE &&
           gyre_set_tensor(net, info.name, values, info.count) == GYRE_E_STATE;
}

/* After a fault of the device a net can only be closed. */
static void ft_ended(struct gyre_net *net, const char *where, int64_t n)
{
    T_CHECK_MSG(ft_refuses(net), "%s, call %" PRId64 " (%s): what comes afterwards is not refused", where, n, faults.what);
}

static void ft_forget_error(struct gyre_net *net) { memset(&net->error, 0, sizeof net->error); }

/* ---- opening ---- */

static int ft_open_once(int kinds, int mode, int64_t n)
{
    struct gyre_net *net = NULL;
    struct gyre_config config;
    struct gyre_error error = { 0 };
    ft_config(&config);
    faults_begin(kinds, mode, n);
    const int status = gyre_open(&net, &config, &error), hit = faults_end();
    if (hit)
        ft_told("gyre_open", n, status, &error);
    else
        T_CHECK_MSG(status == GYRE_OK, "%s", error.text);
    if (status == GYRE_OK)
        gyre_close(net);
    T_CHECK_MSG(faults.bytes == 0, "gyre_open, call %" PRId64 ": %" PRId64 " bytes", n, faults.bytes);
    return hit;
}

/* ---- writing checkpoints ---- */

static int ft_save_of(int kinds, int mode, int64_t n, int (*save)(struct gyre_net *, const char *), const struct ft_file *before,
                      const struct ft_file *after)
{
    struct gyre_net *net = ft_open();
    if (!net || !T_CHECK(ft_step(net, 0) == GYRE_OK && ft_step(net, 1) == GYRE_OK))
        return 0;
    df_folder("save");
    df_write("save/x.safetensors", before->text, before->bytes);
    ft_forget_error(net);
    faults_begin(kinds, mode, n);
    const int status = save(net, df_path("save/x.safetensors")), hit = faults_end();
    struct ft_file file = ft_read(df_path("save/x.safetensors"));
    if (hit && ft_told("gyre_save", n, status, gyre_last_error(net)))
        T_CHECK_MSG(ft_same(&file, before) || (kinds == FAULTS_WRITE && ft_same(&file, after)), "call %" PRId64 " (%s): the file is neither the old "
                    "one nor the new", n, faults.what);
    if (!hit)
        T_CHECK(status == GYRE_OK && ft_same(&file, after));
    T_CHECK_MSG(ft_count(df_path("save")) == 1, "call %" PRId64 " (%s): files were left", n, faults.what);
    if (hit && kinds == FAULTS_DEVICE)
        ft_ended(net, "gyre_save", n);
    else
        T_CHECK(ft_stands(net, 2) && ft_step(net, 2) == GYRE_OK && ft_stands(net, 3));
    free(file.text);
    gyre_close(net);
    return hit;
}

static int ft_save_once(int kinds, int mode, int64_t n) { return ft_save_of(kinds, mode, n, gyre_save, &ft_want[1], &ft_want[2]); }

static struct ft_file ft_exported; /* after two steps */

static int ft_export_once(int kinds, int mode, int64_t n) { return ft_save_of(kinds, mode, n, gyre_export, &ft_want[1], &ft_exported); }

/* ---- reading them ---- */

static int ft_load(struct gyre_net *net) { return gyre_load(net, df_path("two")); }
static int ft_import(struct gyre_net *net) { return gyre_import(net, df_path("two"), 0, NULL); }

static int ft_load_of(int kinds, int mode, int64_t n, int (*load)(struct gyre_net *), int whole)
{
    struct gyre_net *net = ft_open();
    if (!net || !T_CHECK(ft_step(net, 0) == GYRE_OK))
        return 0;
    ft_forget_error(net);
    faults_begin(kinds, mode, n);
    const int status = load(net), hit = faults_end();
    if (hit && ft_told("gyre_load", n, status, gyre_last_error(net)) && kinds != FAULTS_DEVICE)
        T_CHECK_MSG(ft_stands(net, 1) || ft_refuses(net), "call %" PRId64 " (%s): the net has changed", n, faults.what);
    if (hit && kinds == FAULTS_DEVICE)
        ft_ended(net, "gyre_load", n);
    else
        T_CHECK(load(net) == GYRE_OK && (!whole || (ft_stands(net, 2) && ft_step(net, 2) == GYRE_OK && ft_stands(net, 3))));
    T_CHECK(hit || status == GYRE_OK);
    gyre_close(net);
    return hit;
}

static int ft_load_once(int kinds, int mode, int64_t n) { return ft_load_of(kinds, mode, n, ft_load, 1); }
static int ft_import_once(int kinds, int mode, int64_t n) { return ft_load_of(kinds, mode, n, ft_import, 0); }

/* What is asked of a file without a net. */
static int ft_look_once(int kinds, int mode, int64_t n)
{
    struct gyre_error error = { 0 };
    char text[256] = "";
    size_t bytes = 0;
    faults_begin(kinds, mode, n);
    int status = gyre_read_net(df_path("two"), text, sizeof text, &bytes, &error);
    if (status == GYRE_OK && !faults.hit)
        status = gyre_read_note(df_path("two"), "what", text + 128, 64, &error);
    const int hit = faults_end();
    if (hit)
        ft_told("gyre_read_net", n, status, &error);
    else
        T_CHECK(status == GYRE_OK && bytes == strlen(ft_text) && strcmp(text, ft_text) == 0 && strcmp(text + 128, "a note") == 0);
    return hit;
}

/* ---- calls of the device ---- */

static int ft_scores(struct gyre_net *net)
{
    const float *scores;
    return gyre_get_scores(net, &scores, NULL, NULL);
}

static int ft_predict(struct gyre_net *net)
{
    float scores[3 * FT_BATCH];
    const struct gyre_batch batch = ft_batch(5);
    return gyre_predict(net, &batch, scores);
}

static int ft_gradient(struct gyre_net *net)
{
    const struct gyre_batch batch = ft_batch(6);
    return gyre_gradient(net, &batch, NULL);
}

static int ft_tensor(struct gyre_net *net)
{
    float values[4];
    GY_TRY(gyre_get_tensor(net, "grad.bn1.weight", values, 4));
    GY_TRY(gyre_get_tensor(net, "bn1.running_var", values, 4));
    return gyre_set_tensor(net, "bn1.running_var", values, 4);
}

static int ft_bad_step(struct gyre_net *net)
{
    float values[4] = { NAN, 1, 1, 1 }, kept[4];
    GY_TRY(gyre_get_tensor(net, "bn1.weight", kept, 4));
    GY_TRY(gyre_set_tensor(net, "bn1.weight", values, 4));
    const int status = ft_step(net, 7);
    GY_TRY(status == GYRE_E_NONFINITE ? GYRE_OK : status);
    return gyre_set_tensor(net, "bn1.weight", kept, 4);
}

static int ft_first(struct gyre_net *net) { return ft_step(net, 0); }
static int ft_find(struct gyre_net *net)
{
    struct gyre_error error = { 0 };
    const struct gyre_batch batch = ft_batch(6);
    int32_t sample;
    const int status = gyre_find_nonfinite(net, &batch, &sample, &error);
    T_CHECK(status == GYRE_OK || error.text[0]);
    return status;
}
static int ft_keep(struct gyre_net *net) { return gyre_save(net, df_path("kept")); }

/* Makes one call after the other until one meets the fault. On the emulator, which is slow, only
 * the first three are made. */
static int ft_calls_once(int kinds, int mode, int64_t n)
{
    static const struct {
        const char *name;
        int (*call)(struct gyre_net *);
    } calls[] = { { "gyre_step", ft_first }, { "gyre_step again", ft_first }, { "gyre_predict", ft_predict }, { "gyre_get_scores", ft_scores },
                  { "gyre_gradient", ft_gradient }, { "gyre_get_tensor", ft_tensor }, { "gyre_step that is not finite", ft_bad_step },
                  { "gyre_find_nonfinite", ft_find }, { "gyre_save", ft_keep }, { "gyre_load", ft_load }, { "gyre_step after loading", ft_first } };
    struct gyre_net *net = ft_open();
    int hit = 0;
    if (!net)
        return 0;
    faults_begin(kinds, mode, n);
    for (size_t i = 0; i < (ft_emu ? 3 : GY_COUNT(calls)) && !hit; i++) {
        ft_forget_error(net);
        const int status = calls[i].call(net);
        hit = __atomic_load_n(&faults.hit, __ATOMIC_SEQ_CST);
        if (hit)
            ft_told(calls[i].name, n, status, gyre_last_error(net));
        else
            T_CHECK_MSG(status == GYRE_OK, "%s: %s", calls[i].name, gyre_last_error(net)->text);
    }
    hit = faults_end();
    if (hit)
        ft_ended(net, "calls", n);
    gyre_close(net);
    return hit;
}

/* ---- all of it ---- */

static void ft_prepare(void)
{
    struct gyre_net *net = NULL;
    for (int s = 0; s < 4; s++)
        ft_want[s] = ft_after(s);
    net = ft_open();
    for (int s = 0; net && s < 2; s++)
        T_CHECK(ft_step(net, s) == GYRE_OK);
    T_CHECK(net && gyre_export(net, df_path("exported")) == GYRE_OK);
    ft_exported = ft_read(df_path("exported"));
    T_CHECK(net && gyre_note(net, "what", "a note") == GYRE_OK && gyre_save(net, df_path("two")) == GYRE_OK);
    gyre_close(net);
}

static void ft_release(void)
{
    for (int s = 0; s < 4; s++)
        free(ft_want[s].text);
    free(ft_exported.text);
}

/* In memory and files. */
static void ft_host(void)
{
    ft_prepare();
    for (int mode = FAULTS_ONCE; mode <= FAULTS_ON; mode++) {
        ft_sweep("gyre_open, memory", FAULTS_MEMORY, mode, 4, ft_open_once);
        ft_sweep("gyre_save, memory", FAULTS_MEMORY, mode, 8, ft_save_once);
        ft_sweep("gyre_save, files", FAULTS_WRITE, mode, 5, ft_save_once);
        ft_sweep("gyre_export, files", FAULTS_WRITE, mode, 5, ft_export_once);
        ft_sweep("gyre_load, memory", FAULTS_MEMORY, mode, 5, ft_load_once);
        ft_sweep("gyre_load, files", FAULTS_READ, mode, 3, ft_load_once);
        ft_sweep("gyre_import, files", FAULTS_READ, mode, 3, ft_import_once);
        ft_sweep("gyre_read_net, memory", FAULTS_MEMORY, mode, 10, ft_look_once);
        ft_sweep("gyre_read_net, files", FAULTS_READ, mode, 6, ft_look_once);
    }
    ft_release();
}

/* Of a device with memory of its own, checkpoints have other notes. */
static void ft_device(void)
{
    for (faults_apart = 0; faults_apart < 2; faults_apart++) {
        printf("a device %s\n", faults_apart ? "with memory of its own" : "in the host's memory");
        ft_prepare();
        ft_sweep("gyre_open, device", FAULTS_DEVICE, FAULTS_ONCE, 20, ft_open_once);
        ft_sweep("gyre_save, device", FAULTS_DEVICE, FAULTS_ONCE, 10, ft_save_once);
        ft_sweep("gyre_export, device", FAULTS_DEVICE, FAULTS_ONCE, 10, ft_export_once);
        ft_sweep("gyre_load, device", FAULTS_DEVICE, FAULTS_ONCE, 10, ft_load_once);
        ft_sweep("gyre_import, device", FAULTS_DEVICE, FAULTS_ONCE, 10, ft_import_once);
        ft_sweep("calls of a net, device", FAULTS_DEVICE, FAULTS_ONCE, 60, ft_calls_once);
        ft_release();
    }
    faults_apart = 0;
}

/* As on a GPU: pinned memory, queues, programs that repeat, a scale that waits for the update. */
static void ft_emulator(void)
{
    struct gyre_config config;
    struct gyre_need need;
#ifdef FT_NO_EMULATOR
    T_SKIP("no emulator under ThreadSanitizer");
    return;
#endif
    ft_emu = 1;
    ft_config(&config);
    config.memory.hook = NULL;
    if (gyre_measure(&config, &need, NULL) != GYRE_OK)
        T_SKIP("no emulator: nets on a device");
    else {
        ft_prepare();
        ft_sweep("gyre_open, emulator", FAULTS_DEVICE, FAULTS_ONCE, 20, ft_open_once);
        ft_sweep("steps of a net, emulator", FAULTS_DEVICE, FAULTS_ONCE, 60, ft_calls_once);
        ft_release();
    }
    ft_emu = 0;
}

int main(void)
{
    faults_folder(df_root, sizeof df_root);
    ft_host();
    ft_device();
    ft_emulator();
    df_remove(df_root);
    T_END("t_faults");
}
