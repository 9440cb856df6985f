/* SPDX-License-Identifier: MIT */
/* t_cuda_input.c: images are normalised, moved (random crop from a border, flip) and mixed on the
 * device. Bytes go up, and the results of a net on the emulator or a GPU ('t_cuda_input cuda') have
 * the bits of the CPU's. A whole training, augmentation included, ends as on the CPU. */
#include "engine/run/engine.h"
#include "tests/data_files.h"
#include "tests/device_here.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define CIN_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CIN_NO_EMULATOR 1
#endif
#endif

#define CIN_BATCH 6
#define CIN_SIDE 10
enum { CIN_PIXELS = CIN_BATCH * CIN_SIDE * CIN_SIDE };

static const char cin_text[] = "input 10x10x1\nconv 4 3x3 bias\nrelu\nlinear 5\nsoftmax\n";
static const char *cin_device = "emu";

static void cin_log(void *user, int level, const char *text)
{
    (void)user;
    if (level <= GYRE_LOG_WARN)
        printf("%s\n", text);
}

static struct gyre_net *cin_open(const char *device, int input)
{
    struct gyre_config config;
    struct gyre_error error;
    struct gyre_net *net = NULL;
    gyre_config_default(&config);
    config.net = cin_text;
    config.batch = CIN_BATCH;
    config.device = device;
    config.input = input;
    config.mean[0] = 0.3f;
    config.std[0] = 0.7f;
    config.schedule.rate = 0.05f;
    config.log = (struct gyre_logger){ cin_log, NULL, GYRE_LOG_WARN };
    config.use_env = 1;
    if (!T_CHECK(gyre_open(&net, &config, &error) == GYRE_OK))
        printf("%s\n", error.text);
    return net;
}

/* What the input op writes in the forward program, run alone. */
static int cin_input(struct gyre_net *net, const struct gyre_batch *batch, float out[CIN_PIXELS])
{
    const struct gy_op *op = &net->plan.program[GY_FORWARD].ops[0];
    if (!T_CHECK(op->code == GY_OP_INPUT))
        return -1;
    GY_TRY(gy_engine_feed(net, batch));
    GY_TRY(net->backend->run(net->backend_self, op));
    GY_TRY(net->backend->copy(net->backend_self, out, op->ptr[GY_Y], CIN_PIXELS * sizeof *out, GY_COPY_TO_HOST));
    return net->backend->sync(net->backend_self);
}

/* By hand. */
static float cin_pixel(const struct gyre_batch *b, int real, int n, int h, int w)
{
    const struct gyre_mix *m = &b->mix[n];
    const int from_h = h - m->dy, from_w = (m->flip ? CIN_SIDE - 1 - w : w) - m->dx, at = (n * CIN_SIDE + from_h) * CIN_SIDE + from_w;
    float value = 0;
    if (from_h >= 0 && from_h < CIN_SIDE && from_w >= 0 && from_w < CIN_SIDE)
        value = real ? ((const float *)b->x)[at] : (float)((const uint8_t *)b->x)[at] / 255.0f;
    return (value - 0.3f) * (1.0f / 0.7f);
}

static float cin_want(const struct gyre_batch *b, int real, int i)
{
    const int n = i / CIN_SIDE / CIN_SIDE, h = i / CIN_SIDE % CIN_SIDE, w = i % CIN_SIDE;
    const struct gyre_mix *m = &b->mix[n];
    const float own = cin_pixel(b, real, n, h, w);
    const int mixed = m->partner != n && h >= m->h0 && h < m->h1 && w >= m->w0 && w < m->w1;
    return mixed ? m->inside * own + (1.0f - m->inside) * cin_pixel(b, real, m->partner, h, w) : own;
}

/* Every sample in another way; weights of mixing by which products are exact. */
static void cin_mix(struct gyre_mix mix[CIN_BATCH], int number)
{
    for (int i = 0; i < CIN_BATCH; i++) {
        mix[i] = (struct gyre_mix){ .partner = i, .inside = 1, .label = 1 };
        if (i % 2 || number == 1) {
            mix[i].dy = (i + number) % 5 - 2;
            mix[i].dx = 2 - (i + 2 * number) % 5;
            mix[i].flip = (i + number) % 3 == 0;
        }
        if (number == 2) {
            mix[i].partner = (i + 1) % CIN_BATCH;
            mix[i].inside = i % 2 ? 0.0f : 0.5f;
            mix[i].h0 = 1, mix[i].h1 = 8, mix[i].w0 = i % 3, mix[i].w1 = CIN_SIDE;
        }
    }
    if (number == 1)
        mix[3].dy = 40; /* out of sight */
}

static void cin_bits(int real)
{
    static uint8_t pixels[CIN_PIXELS];
    static float values[CIN_PIXELS], a[CIN_PIXELS], b[CIN_PIXELS];
    struct gyre_mix mix[CIN_BATCH];
    int32_t label[CIN_BATCH] = { 0, 1, 2, 3, 4, 0 };
    struct gyre_net *cpu = cin_open("cpu", real ? GYRE_INPUT_F32 : GYRE_INPUT_U8), *device = cin_open(cin_device, real ? GYRE_INPUT_F32 : GYRE_INPUT_U8);
    for (int i = 0; i < CIN_PIXELS; i++) {
        pixels[i] = (uint8_t)(i * 37 + i / 7);
        values[i] = (float)pixels[i] / 128.0f;
    }
    for (int number = 0; number < 3 && cpu && device; number++) {
        const struct gyre_batch batch = { .x = real ? (const void *)values : pixels, .label = label, .mix = mix, .count = CIN_BATCH };
        cin_mix(mix, number);
        T_CHECK(cin_input(cpu, &batch, a) == GY_OK && cin_input(device, &batch, b) == GY_OK);
        int apart = 0, wrong = 0;
        for (int i = 0; i < CIN_PIXELS; i++) {
            const float want = cin_want(&batch, real, i);
            apart += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
            wrong += fabsf(a[i] - want) > 2e-7f * fmaxf(1, fabsf(want));
        }
        T_CHECK_MSG(apart == 0 && wrong == 0, "mix %d: %d of %d differ from the CPU's, %d there are wrong", number, apart, CIN_PIXELS, wrong);
    }
    if (cpu && device) { /* what cannot be */
        struct gyre_batch batch = { .x = real ? (const void *)values : pixels, .label = label, .mix = mix, .count = CIN_BATCH };
        mix[2].dx = 70000;
        T_CHECK(gyre_step(device, &batch, NULL) == GYRE_E_ARG && strstr(gyre_last_error(device)->text, "70000"));
    }
    gyre_close(cpu);
    gyre_close(device);
}

/* Bytes alone go up: the batch's place on the device holds no more than the images as they are. */
static void cin_bytes(void)
{
    struct gyre_net *net = cin_open(cin_device, GYRE_INPUT_U8);
    if (!net)
        return;
    const struct gy_tensor *x = &net->plan.tensors[net->plan.input];
    T_CHECK(x->dtype == GY_U8 && x->bytes == CIN_PIXELS && net->plan.region_bytes[GY_AT_LAND] == net->plan.region_bytes[GY_AT_IN]);
    gyre_close(net);
}

/* ---- a whole training ---- */

static void cin_train(const char *device, struct gyre_augment augment, float *weights, int64_t count)
{
    struct gyre_data_config dc;
    struct gyre_train_config tc;
    struct gyre_data *data = NULL;
    struct gyre_error error;
    gyre_data_config_default(&dc);
    dc.path = df_path("idx");
    dc.split = "train";
    struct gyre_net *net = cin_open(device, GYRE_INPUT_U8);
    if (net && T_CHECK(gyre_open_data(&data, &dc, &error) == GYRE_OK)) {
        gyre_train_config_default(&tc);
        tc.train = data;
        tc.max_steps = 5;
        tc.augment = augment;
        T_CHECK(gyre_train(net, &tc) == GYRE_OK);
        T_CHECK(gyre_get_tensor(net, net->graph.params[0].name, weights, count) == GYRE_OK);
    }
    gyre_close_data(data);
    gyre_close(net);
}

static void cin_training(void)
{
    const struct gyre_augment none = { 0 }, moves = { .pad = 2, .flip = 0.5f };
    float cpu[36], device[36], plain[36];
    cin_train("cpu", moves, cpu, 36);
    cin_train(cin_device, moves, device, 36);
    cin_train("cpu", none, plain, 36);
    float off = 0, other = 0;
    for (int i = 0; i < 36; i++) {
        off = fmaxf(off, fabsf(cpu[i] - device[i]));
        other = fmaxf(other, fabsf(cpu[i] - plain[i]));
    }
    T_CHECK_MSG(off < 1e-5f && other > 1e-3f, "weights are %g apart, %g from those of a training without", (double)off, (double)other);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (argc > 1)
        cin_device = argv[1];
#ifdef CIN_NO_EMULATOR
    if (strcmp(cin_device, "emu") == 0) {
        T_SKIP("no emulator under ThreadSanitizer");
        T_END("t_cuda_input");
    }
#endif
    struct gyre_config config;
    struct gyre_need need;
    struct gyre_error error;
    gyre_config_default(&config);
    config.net = cin_text;
    config.device = cin_device;
    config.use_env = 1;
    if (!dh_opened(cin_device, gyre_measure(&config, &need, &error), error.text))
        T_END("t_cuda_input");
    cin_bits(0);
    cin_bits(1);
    cin_bytes();
    df_open();
    df_folder("idx");
    df_write_idx("idx/train", 60, CIN_SIDE, CIN_SIDE, 5);
    cin_training();
    df_remove(df_root);
    T_END("t_cuda_input");
}
