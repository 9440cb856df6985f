/* SPDX-License-Identifier: MIT */
/* t_cuda_half.c: f16 with loss scaling, on the emulator or on a GPU ('t_cuda_half cuda'). Training
 * goes as in float. Gradients that overflow cost an update and half the scale, never a weight. The
 * scale is part of a checkpoint and grows again. The CPU, which has no f16, says so. */
#include "engine/run/engine.h"
#include "tests/data_files.h"
#include "tests/device_here.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define CHALF_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHALF_NO_EMULATOR 1
#endif
#endif

#define CHALF_BATCH 4
#define CHALF_SIDE 28
#define CHALF_FILE "t_cuda_half.safetensors"

static const char chalf_small[] = "input 6x6x1\nconv 8 3x3 bias\nrelu\nlinear 5\nsoftmax\n";
static const char chalf_mse[] = "input 6x6x1\nlinear 5\nmse\n";
static const char *chalf_device = "emu";
static int chalf_quiet;

static void chalf_log(void *user, int level, const char *text)
{
    (void)user;
    if (!chalf_quiet || level == GYRE_LOG_ERROR)
        printf("%s\n", text);
}

static struct gyre_config chalf_config(const char *text, const char *device, int dtype)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = text;
    config.batch = CHALF_BATCH;
    config.device = device;
    config.dtype = dtype;
    config.schedule.rate = 0.02f;
    config.log = (struct gyre_logger){ chalf_log, NULL, GYRE_LOG_WARN };
    config.use_env = 1;
    return config;
}

static struct gyre_net *chalf_open(const struct gyre_config *config)
{
    struct gyre_net *net = NULL;
    struct gyre_error error;
    if (!T_CHECK(gyre_open(&net, config, &error) == GYRE_OK))
        printf("%s\n", error.text);
    return net;
}

/* Images whose bright quarter says the class. */
struct chalf_data {
    float x[CHALF_BATCH * CHALF_SIDE * CHALF_SIDE];
    int32_t label[CHALF_BATCH];
    struct gyre_batch batch;
};
static void chalf_fill(struct chalf_data *d, int side, int number)
{
    uint32_t state = 77u + (uint32_t)number * 13;
    for (int n = 0; n < CHALF_BATCH; n++) {
        d->label[n] = (n + number) % 4;
        for (int i = 0; i < side * side; i++) {
            state = state * 1664525u + 1013904223u;
            const int quarter = 2 * (i / side >= side / 2) + (i % side >= side / 2);
            d->x[n * side * side + i] = (float)(state >> 8) / 33554432.0f + (quarter == d->label[n] ? 1.0f : 0.0f);
        }
    }
    d->batch = (struct gyre_batch){ .x = d->x, .label = d->label, .count = CHALF_BATCH };
}

static int chalf_step(struct gyre_net *net, int side, int number, struct gyre_result *r)
{
    static struct chalf_data d;
    chalf_fill(&d, side, number);
    return gyre_step(net, &d.batch, r);
}

/* ---- the CPU refuses ---- */

static void chalf_refused(void)
{
    const struct gyre_config config = chalf_config(chalf_small, "cpu", GYRE_F16);
    struct gyre_net *net = NULL;
    struct gyre_error error;
    T_CHECK(gyre_open(&net, &config, &error) == GYRE_E_UNSUPPORTED && strstr(error.text, "dtype f16") && strstr(error.text, "bf16"));
    struct gyre_config wrong = config;
    wrong.loss_scale = 0;
    T_CHECK(gyre_open(&net, &wrong, &error) == GYRE_E_ARG && strstr(error.text, "loss_scale"));
}

/* ---- lenet5 as in float ---- */

struct chalf_text {
    char bytes[8192];
    size_t used;
};
static int chalf_text_add(void *user, const char *bytes, size_t count)
{
    struct chalf_text *text = user;
    if (text->used + count >= sizeof text->bytes)
        return -1;
    memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
    text->bytes[text->used] = 0;
    return 0;
}

static void chalf_lenet(void)
{
    static struct chalf_text text;
    const struct gyre_sink sink = { chalf_text_add, &text };
    struct gyre_error error;
    struct gyre_result a = { 0 }, b = { 0 };
    if (!T_CHECK(gyre_zoo_text("lenet5", 10, CHALF_SIDE, CHALF_SIDE, 1, &sink, &error) == GYRE_OK))
        return;
    struct gyre_config full = chalf_config(text.bytes, "cpu", GYRE_F32), half = chalf_config(text.bytes, chalf_device, GYRE_F16);
    full.schedule.rate = half.schedule.rate = 0.1f;
    struct gyre_net *cpu = chalf_open(&full), *device = chalf_open(&half);
    double first = 0;
    for (int step = 0; step < 9 && cpu && device; step++) {
        T_CHECK(chalf_step(cpu, CHALF_SIDE, step % 3, &a) == GYRE_OK && chalf_step(device, CHALF_SIDE, step % 3, &b) == GYRE_OK);
        T_CHECK_MSG(fabs(a.loss - b.loss) <= 0.02 * a.loss + 0.002, "step %d: loss %.6f in float, %.6f in f16", step, a.loss, b.loss);
        first = step ? first : a.loss;
    }
    T_CHECK_MSG(a.loss < 0.7 * first && b.skipped_steps == 0 && b.loss_scale == 65536 && a.loss_scale == 1,
                "loss %.4f to %.4f, %" PRId64 " steps skipped", first, a.loss, b.skipped_steps);
    gyre_close(cpu);
    gyre_close(device);
}

/* ---- overflow ---- */

static void chalf_get(struct gyre_net *net, const char *name, float *values)
{
    T_CHECK(gyre_get_tensor(net, name, values, 72) == GYRE_OK);
}

/* Far too large a scale: no weight moves until it fits, then gradients are those of float. */
static void chalf_overflow(void)
{
    struct gyre_config config = chalf_config(chalf_small, chalf_device, GYRE_F16);
    const struct gyre_config full = chalf_config(chalf_small, "cpu", GYRE_F32);
    struct gyre_result r = { 0 };
    float start[72], now[72], grad[72], want[72];
    config.loss_scale = 16777216;
    struct gyre_net *net = chalf_open(&config), *cpu = chalf_open(&full);
    const char *weight = net ? net->graph.params[0].name : "";
    char name[80];
    snprintf(name, sizeof name, "grad.%s", weight);
    if (!net || !cpu || !T_CHECK(net->graph.params[0].count == 72))
        return;
    chalf_get(net, weight, start);
    T_CHECK(chalf_step(net, 6, 0, &r) == GYRE_OK && r.step == 1 && r.skipped_steps == 0);
    chalf_get(net, weight, now);
    /* the device skipped the update; the host does not know yet */
    T_CHECK(memcmp(start, now, sizeof now) == 0);
    T_CHECK(chalf_step(net, 6, 0, &r) == GYRE_OK && r.step == 1 && r.skipped_steps == 1 && r.loss_scale == 8388608);
    for (int step = 0; step < 20; step++)
        T_CHECK(chalf_step(net, 6, 0, &r) == GYRE_OK);
    T_CHECK_MSG(r.skipped_steps >= 4 && r.skipped_steps < 12 && r.step + r.skipped_steps == 22, "%" PRId64 " skipped, %" PRId64 " done",
                r.skipped_steps, r.step);
    T_CHECK(r.loss_scale == ldexpf(16777216, -(int)r.skipped_steps));
    chalf_get(net, weight, now);
    T_CHECK(memcmp(start, now, sizeof now) != 0 && isfinite(now[0]));
    for (int i = 0; i < cpu->graph.param_count; i++) { /* the same weights: the same gradients */
        static float all[2048];
        const struct gy_param *p = &cpu->graph.params[i];
        if (T_CHECK(p->count <= 2048 && gyre_get_tensor(net, p->name, all, p->count) == GYRE_OK))
            T_CHECK(gyre_set_tensor(cpu, p->name, all, p->count) == GYRE_OK);
    }
    static struct chalf_data d;
    chalf_fill(&d, 6, 1);
    T_CHECK(gyre_gradient(net, &d.batch, &r) == GYRE_OK && gyre_gradient(cpu, &d.batch, &r) == GYRE_OK);
    chalf_get(net, name, grad);
    chalf_get(cpu, name, want);
    double off = 0, size = 0;
    for (int i = 0; i < 72; i++) {
        off += ((double)grad[i] - (double)want[i]) * ((double)grad[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    T_CHECK_MSG(off <= 1e-5 * size, "gradients %g of %g apart", sqrt(off), sqrt(size));
    gyre_close(net);
    gyre_close(cpu);
}

/* The scale doubles after 2000 good updates and stops at its limit. */
static void chalf_growth(void)
{
    const struct gyre_config config = chalf_config(chalf_small, chalf_device, GYRE_F16);
    struct gyre_result r = { 0 };
    struct gyre_net *net = chalf_open(&config);
    if (!net)
        return;
    net->scale.now = 1024;
    net->scale.good = 1998;
    for (int step = 0; step < 3; step++)
        T_CHECK(chalf_step(net, 6, 0, &r) == GYRE_OK && r.loss_scale == (step < 2 ? 1024 : 2048));
    T_CHECK(net->scale.good == 0 && net->scale.open == 1 && gy_scale_settle(net) == GY_OK && net->scale.good == 1 && net->scale.open == 0);
    net->scale = (struct gy_scale){ .now = 16777216, .good = 1999 };
    net->scale.open = 1; /* the norm of the last update is still there */
    T_CHECK(gy_scale_settle(net) == GY_OK && net->scale.now == 16777216 && net->scale.good == 0);
    gyre_close(net);
}

/* Gradients that no scale helps end the run with a sentence. */
static void chalf_hopeless(void)
{
    struct gyre_config config = chalf_config(chalf_mse, chalf_device, GYRE_F16);
    static struct chalf_data d;
    float target[CHALF_BATCH * 5];
    struct gyre_result r;
    config.loss_scale = 1.0f / 1048576;
    struct gyre_net *net = chalf_open(&config);
    if (!net)
        return;
    chalf_fill(&d, 6, 0);
    for (int i = 0; i < CHALF_BATCH * 5; i++)
        target[i] = 1e15f;
    d.batch.target = target;
    T_CHECK(gyre_step(net, &d.batch, &r) == GYRE_OK && isfinite(r.loss));
    T_CHECK(gyre_step(net, &d.batch, &r) == GYRE_E_NONFINITE && strstr(gyre_last_error(net)->text, "loss scale"));
    d.batch.target = NULL;
    T_CHECK(gyre_step(net, &d.batch, &r) == GYRE_OK && r.step == 1 && r.skipped_steps == 1);
    gyre_close(net);
}

/* ---- a run that is interrupted ---- */

/* Steps first .. last - 1; sums of two gradients wait for their update. */
static struct gyre_net *chalf_run(struct gyre_net *net, int first, int last)
{
    struct gyre_result r;
    for (int step = first; step < last; step++)
        T_CHECK(chalf_step(net, 6, step, &r) == GYRE_OK);
    return net;
}

static void chalf_same(struct gyre_net *a, struct gyre_net *b)
{
    static float va[2048], vb[2048];
    static const char *const prefixes[] = { "", "momentum." };
    for (int i = 0; i < a->graph.param_count; i++)
        for (int k = 0; k < 2; k++) {
            char name[160];
            const struct gy_param *p = &a->graph.params[i];
            snprintf(name, sizeof name, "%s%s", prefixes[k], p->name);
            if (T_CHECK(p->count <= 2048 && gyre_get_tensor(a, name, va, p->count) == GYRE_OK &&
                        gyre_get_tensor(b, name, vb, p->count) == GYRE_OK))
                T_CHECK_MSG(memcmp(va, vb, (size_t)p->count * sizeof *va) == 0, "%s differs", name);
        }
}

static void chalf_resume(void)
{
    struct gyre_config config = chalf_config(chalf_small, chalf_device, GYRE_F16);
    struct gyre_error error;
    config.loss_scale = 2097152;
    config.accumulate = 2;
    struct gyre_net *whole = chalf_open(&config), *half = chalf_open(&config), *rest = chalf_open(&config);
    if (!whole || !half || !rest)
        return;
    chalf_run(whole, 0, 14);
    chalf_run(half, 0, 5); /* in the middle of a sum, an overflow behind it, one before it */
    T_CHECK(gyre_save(half, CHALF_FILE) == GYRE_OK && half->scale.skipped > 0 && half->pending == 1);
    gyre_close(half);
    T_CHECK(gyre_load(rest, CHALF_FILE) == GYRE_OK);
    chalf_run(rest, 5, 14);
    T_CHECK(gy_scale_settle(whole) == GY_OK && gy_scale_settle(rest) == GY_OK);
    T_CHECK_MSG(whole->scale.now == rest->scale.now && whole->scale.good == rest->scale.good && whole->scale.skipped == rest->scale.skipped &&
                    whole->updates == rest->updates && whole->scale.skipped > 1,
                "scale %g and %g, skipped %" PRId64 " and %" PRId64 ", updates %" PRId64 " and %" PRId64, (double)whole->scale.now,
                (double)rest->scale.now, whole->scale.skipped, rest->scale.skipped, whole->updates, rest->updates);
    chalf_same(whole, rest);
    config.dtype = GYRE_F32;
    config.device = "cpu";
    struct gyre_net *other = chalf_open(&config); /* sums that carry a scale are not for float */
    T_CHECK(other && gyre_load(other, CHALF_FILE) == GYRE_E_MISMATCH && strstr(gyre_last_error(other)->text, "loss scale"));
    gyre_close(other);
    config.mode = GYRE_INFER;
    if (T_CHECK(gyre_open(&other, &config, &error) == GYRE_OK)) {
        T_CHECK(gyre_load(other, CHALF_FILE) == GYRE_OK);
        gyre_close(other);
    }
    gyre_close(whole);
    gyre_close(rest);
    remove(CHALF_FILE);
}

/* ---- the loop ---- */

struct chalf_told {
    int64_t skipped;
    double scale;
};
static int chalf_progress(void *user, const struct gyre_progress *p)
{
    struct chalf_told *told = user;
    told->skipped = p->skipped_steps;
    told->scale = p->loss_scale;
    return 0;
}

static struct gyre_net *chalf_train(const struct gyre_config *config, const char *folder, int64_t steps, int resume, struct chalf_told *told)
{
    struct gyre_data_config dc;
    struct gyre_train_config tc;
    struct gyre_data *data = NULL;
    struct gyre_error error;
    gyre_data_config_default(&dc);
    dc.path = df_path("idx");
    dc.split = "train";
    struct gyre_net *net = chalf_open(config);
    if (net && T_CHECK(gyre_open_data(&data, &dc, &error) == GYRE_OK)) {
        gyre_train_config_default(&tc);
        tc.train = data;
        tc.max_steps = steps;
        tc.folder = folder;
        tc.resume = resume;
        tc.progress = chalf_progress;
        tc.user = told;
        if (!T_CHECK(gyre_train(net, &tc) == GYRE_OK))
            printf("%s\n", gyre_last_error(net)->text);
    }
    gyre_close_data(data);
    return net;
}

/* Skipped updates are reported. A training that was interrupted right behind one ends with the same
 * bits. */
static void chalf_loop(void)
{
    struct gyre_config config = chalf_config(chalf_small, chalf_device, GYRE_F16);
    struct chalf_told told = { 0, 0 }, again = { 0, 0 };
    config.input = GYRE_INPUT_U8;
    config.loss_scale = 2097152;
    df_open();
    df_folder("idx");
    df_write_idx("idx/train", 20, 6, 6, 5);
    struct gyre_net *whole = chalf_train(&config, df_path("whole"), 8, 0, &told);
    T_CHECK_MSG(told.skipped > 1 && told.skipped < 8 && told.scale == (double)ldexpf(2097152, -(int)told.skipped), "%" PRId64 " skipped, scale %g",
                told.skipped, told.scale);
    gyre_close(chalf_train(&config, df_path("parts"), 1, 0, &again));
    T_CHECK(again.skipped == 1 && again.scale == 1048576);
    struct gyre_net *parts = chalf_train(&config, df_path("parts"), 8, 1, &again);
    T_CHECK(again.skipped == told.skipped && again.scale == told.scale);
    if (whole && parts)
        chalf_same(whole, parts);
    gyre_close(whole);
    gyre_close(parts);
    df_remove(df_root);
}

/* What is not finite is found in f16 tensors, too. */
static void chalf_nonfinite(void)
{
    const struct gyre_config config = chalf_config(chalf_small, chalf_device, GYRE_F16);
    static struct chalf_data d;
    struct gyre_error where;
    struct gyre_result r;
    int32_t sample = -1;
    struct gyre_net *net = chalf_open(&config);
    if (!net)
        return;
    chalf_fill(&d, 6, 0);
    d.x[2 * 36 + 7] = 1e30f; /* finite in float, not in f16 */
    T_CHECK(gyre_step(net, &d.batch, &r) == GYRE_E_NONFINITE);
    T_CHECK(gyre_find_nonfinite(net, &d.batch, &sample, &where) == GYRE_E_NONFINITE && sample == 2 && strstr(where.text, "input"));
    gyre_close(net);
}

int main(int argc, char **argv)
{
    struct gyre_error error;
    struct gyre_need need;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (argc > 1)
        chalf_device = argv[1];
    chalf_refused();
#ifdef CHALF_NO_EMULATOR
    if (strcmp(chalf_device, "emu") == 0) {
        T_SKIP("no emulator under ThreadSanitizer");
        T_END("t_cuda_half");
    }
#endif
    const struct gyre_config config = chalf_config(chalf_small, chalf_device, GYRE_F16);
    if (!dh_opened(chalf_device, gyre_measure(&config, &need, &error), error.text))
        T_END("t_cuda_half");
    chalf_overflow();
    chalf_growth();
    chalf_resume();
    chalf_loop();
    chalf_nonfinite();
    chalf_quiet = 1;
    chalf_hopeless();
    chalf_lenet();
    T_END("t_cuda_half");
}
