/* SPDX-License-Identifier: MIT */
/* t_cuda_net.c: a net on the CUDA backend beside the same net on the CPU: the emulator, or a GPU
 * with 't_cuda_net cuda'. Loss, gradients, weights and scores agree within rounding. Programs
 * captured into graphs repeat what walked ones do. Absent devices are named. */
#include "engine/gyre.h"
#include "tests/device_here.h"
#include "tests/t.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define CNET_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CNET_NO_EMULATOR 1
#endif
#endif

static const char cnet_residual[] =
    "input 8x8x3\n"
    "conv1: conv 8 3x3\nbn1: bn\nrelu\n"
    "block layer1.0 {\n conv1: conv 16 3x3 stride 2\n bn1: bn\n relu\n conv2: conv 16 3x3\n bn2: bn\n"
    " downsample.0: conv 16 1x1 stride 2 from in\n downsample.1: bn\n add bn2\n relu\n}\n"
    "dropout 0.2\ngap\nfc: linear 5\nsoftmax smooth 0.1\n";
/* The same with tanh in place of relu: rounding across relu's corner changes a whole gradient. */
static const char cnet_smooth[] =
    "input 8x8x3\nconv1: conv 16 3x3\nbn1: bn\ntanh\n"
    "block layer1.0 {\n conv1: conv 16 3x3 stride 2\n bn1: bn\n tanh\n conv2: conv 16 3x3\n bn2: bn\n"
    " downsample.0: conv 16 1x1 stride 2 from in\n downsample.1: bn\n add bn2\n tanh\n}\n"
    "dropout 0.2\ngap\nfc: linear 5\nsoftmax smooth 0.1\n";
static const char cnet_plain[] =
    "input 9x9x2\n"
    "conv1: conv 6 3x3 bias\nrelu\nlrn 5 alpha 1e-4 beta 0.75 k 1\nmaxpool 3x3 stride 2\n"
    "a: conv 4 1x1 bias\ns: sigmoid\n"
    "b: conv 4 3x3 groups 2\ntanh\nc: concat s\nd: conv 8 3x3 groups 8\nrelu6\nadd c\n"
    "avgpool 2x2\nflatten\nlinear 5\nmse\n";

#define CNET_BATCH 4
#define CNET_ROOM 20000 /* elements of the largest tensor */

struct cnet_case {
    const char *name, *text;
    int h, w, c, optimizer, dtype;
    double allowed;  /* of losses and scores, relative to their size */
    /* of gradients, and of tensors' changes in five steps: about four times the rounding */
    double moved;
};
static const struct cnet_case cnet_cases[] = {
    { "residual", cnet_residual, 8, 8, 3, GYRE_SGD, GYRE_F32, 2e-5, 2e-5 },
    { "plain", cnet_plain, 9, 9, 2, GYRE_ADAMW, GYRE_F32, 2e-5, 2e-5 },
    { "smooth bf16", cnet_smooth, 8, 8, 3, GYRE_LARS, GYRE_BF16, 2e-3, 2e-2 },
    /* roundings flip some of its ReLUs; one weighs 0.04 */
    { "residual bf16", cnet_residual, 8, 8, 3, GYRE_LARS, GYRE_BF16, 1e-2, 0.15 },
};

static const char *cnet_device = "emu";

static void cnet_log(void *user, int level, const char *text)
{
    (void)user;
    printf("%s%s\n", level == GYRE_LOG_ERROR ? "error: " : "", text);
}

static struct gyre_config cnet_config(const struct cnet_case *c, const char *device)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = c->text;
    config.batch = CNET_BATCH;
    config.device = device;
    config.dtype = c->dtype;
    config.optimizer.kind = c->optimizer;
    config.optimizer.clip_norm = c->optimizer == GYRE_SGD ? 1 : 0;
    config.optimizer.ema = c->optimizer == GYRE_ADAMW ? 0.9f : 0;
    config.schedule.rate = 0.01f;
    config.log = (struct gyre_logger){ cnet_log, NULL, GYRE_LOG_WARN };
    config.use_env = 1;
    return config;
}

/* isa: of the CPU's kernels, or NULL */
static struct gyre_net *cnet_open_by(const struct cnet_case *c, const char *device, int batch, const char *isa)
{
    struct gyre_config config = cnet_config(c, device);
    struct gyre_net *net = NULL;
    config.batch = batch;
    config.isa = isa;
    struct gyre_error error;
    if (!T_CHECK(gyre_open(&net, &config, &error) == GYRE_OK))
        printf("%s on %s: %s\n", c->name, device, error.text);
    return net;
}

static struct gyre_net *cnet_open(const struct cnet_case *c, const char *device) { return cnet_open_by(c, device, CNET_BATCH, NULL); }

struct cnet_data {
    float x[CNET_BATCH * 9 * 9 * 3];
    int32_t label[CNET_BATCH];
    struct gyre_mix mix[CNET_BATCH];
    struct gyre_batch batch;
};

static void cnet_fill(struct cnet_data *d, const struct cnet_case *c, int number)
{
    uint32_t state = 12345u + (uint32_t)number * 77;
    for (size_t i = 0; i < GY_COUNT(d->x); i++) {
        state = state * 1664525u + 1013904223u;
        d->x[i] = (float)(state >> 8) / 8388608.0f - 1;
    }
    for (int i = 0; i < CNET_BATCH; i++) {
        d->label[i] = i == 3 && number == 1 ? -1 : (i + number) % 5;
        d->mix[i] = (struct gyre_mix){ .partner = (i + 1) % 3, .inside = 0.5f, .label = 0.6f, .h0 = 1, .w0 = 0, .h1 = 5, .w1 = c->w };
    }
    d->batch = (struct gyre_batch){ .x = d->x, .label = d->label, .count = number == 2 ? 3 : CNET_BATCH };
    if (number == 0)
        d->batch.mix = d->mix;
}

/* |a - b| over |b|, a tensor. */
static double cnet_apart(const float *a, const float *b, int64_t count)
{
    double off = 0, size = 1e-30;
    for (int64_t i = 0; i < count; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(off / size);
}

/* Compares every tensor with that prefix. from: NULL, or the former values of all tensors, so that
 * the changes are compared. */
static void cnet_compare(const struct cnet_case *c, struct gyre_net *a, struct gyre_net *b, const char *prefix, const float *from, double allowed)
{
    static float va[CNET_ROOM], vb[CNET_ROOM];
    struct gyre_tensor_info info;
    for (int i = 0; i < gyre_tensor_count(a); i++) {
        char name[160];
        if (!T_CHECK(gyre_tensor_at(a, i, &info) == GYRE_OK && info.count <= CNET_ROOM) || (prefix[0] && !info.trained))
            continue;
        snprintf(name, sizeof name, "%s%s", prefix, info.name);
        if (!T_CHECK(gyre_get_tensor(a, name, va, info.count) == GYRE_OK && gyre_get_tensor(b, name, vb, info.count) == GYRE_OK))
            continue;
        for (int64_t k = 0; from && k < info.count; k++, from++)
            va[k] -= *from, vb[k] -= *from;
        const double apart = cnet_apart(va, vb, info.count);
        T_CHECK_MSG(apart <= allowed, "%s: %s%s is %.3g apart, allowed %.3g", c->name, name, from ? ", how it moved," : "", apart, allowed);
    }
}

/* All elements of all tensors, which the two nets share to the bit. */
static void cnet_begin(struct gyre_net *a, struct gyre_net *b, float *from)
{
    static float vb[CNET_ROOM];
    struct gyre_tensor_info info;
    int64_t used = 0;
    for (int i = 0; i < gyre_tensor_count(a); i++, used += info.count)
        if (T_CHECK(gyre_tensor_at(a, i, &info) == GYRE_OK && used + info.count <= CNET_ROOM))
            T_CHECK(gyre_get_tensor(a, info.name, from + used, info.count) == GYRE_OK && gyre_get_tensor(b, info.name, vb, info.count) == GYRE_OK &&
                    memcmp(from + used, vb, (size_t)info.count * sizeof *vb) == 0);
}

static void cnet_scores(const struct cnet_case *c, struct gyre_net *a, struct gyre_net *b, const struct gyre_batch *batch)
{
    const float *sa, *sb, *la, *lb;
    const int32_t *ra, *rb;
    float pa[CNET_BATCH * 5], pb[CNET_BATCH * 5];
    T_CHECK(gyre_get_scores(a, &sa, &la, &ra) == GYRE_OK && gyre_get_scores(b, &sb, &lb, &rb) == GYRE_OK);
    T_CHECK(cnet_apart(sa, sb, batch->count * 5) <= c->allowed && cnet_apart(la, lb, batch->count) <= c->allowed);
    T_CHECK(gyre_predict(a, batch, pa) == GYRE_OK && gyre_predict(b, batch, pb) == GYRE_OK);
    T_CHECK(cnet_apart(pa, pb, batch->count * 5) <= c->allowed);
}

/* One gradient, then five steps: from the second on the device repeats captured programs. */
static void cnet_steps(const struct cnet_case *c, struct gyre_net *cpu, struct gyre_net *device)
{
    struct gyre_result a, b;
    struct cnet_data d;
    static float from[CNET_ROOM];
    cnet_begin(cpu, device, from);
    cnet_fill(&d, c, 0);
    T_CHECK(gyre_gradient(cpu, &d.batch, &a) == GYRE_OK && gyre_gradient(device, &d.batch, &b) == GYRE_OK);
    T_CHECK_MSG(fabs(a.loss - b.loss) <= c->allowed * fabs(a.loss), "%s: loss %.9g and %.9g", c->name, a.loss, b.loss);
    cnet_compare(c, device, cpu, "grad.", NULL, c->moved);
    for (int step = 0; step < 5; step++) {
        cnet_fill(&d, c, step % 3);
        T_CHECK(gyre_step(cpu, &d.batch, &a) == GYRE_OK && gyre_step(device, &d.batch, &b) == GYRE_OK);
        T_CHECK_MSG(fabs(a.loss - b.loss) <= 4 * c->allowed * fabs(a.loss), "%s: step %d: loss %.9g and %.9g", c->name, step, a.loss,
                    b.loss);
        T_CHECK(a.labelled == b.labelled && a.step == b.step && a.step == step + 1);
    }
    cnet_compare(c, device, cpu, "", from, c->moved);
    cnet_scores(c, device, cpu, &d.batch);
}

/* The same steps again have the same bits. */
static void cnet_bits(const struct cnet_case *c)
{
    struct gyre_net *net[2] = { cnet_open(c, cnet_device), cnet_open(c, cnet_device) };
    double loss[2] = { 0, 1 };
    for (int i = 0; i < 2 && net[i]; i++)
        for (int step = 0; step < 3; step++) {
            struct gyre_result r;
            struct cnet_data d;
            cnet_fill(&d, c, step);
            T_CHECK(gyre_step(net[i], &d.batch, &r) == GYRE_OK);
            loss[i] = r.loss;
        }
    T_CHECK(memcmp(&loss[0], &loss[1], sizeof loss[0]) == 0);
    if (net[0] && net[1])
        cnet_compare(c, net[0], net[1], "", NULL, 0);
    gyre_close(net[0]);
    gyre_close(net[1]);
}

/* A sample that is not a number is found, and the net goes on. */
static void cnet_nonfinite(const struct cnet_case *c, struct gyre_net *net)
{
    struct gyre_error where;
    struct gyre_result r;
    struct cnet_data d;
    int32_t sample = -1;
    cnet_fill(&d, c, 0);
    d.batch.mix = NULL;
    d.x[2 * c->h * c->w * c->c + 5] = NAN;
    T_CHECK(gyre_step(net, &d.batch, &r) == GYRE_E_NONFINITE);
    T_CHECK(gyre_find_nonfinite(net, &d.batch, &sample, &where) == GYRE_E_NONFINITE && sample == 2);
    cnet_fill(&d, c, 1);
    T_CHECK(gyre_step(net, &d.batch, &r) == GYRE_OK && isfinite(r.loss));
}

static void cnet_devices(void)
{
    static const struct { const char *name; int status; const char *says; } rows[] = {
        { "gpu", GYRE_E_NODEVICE, "cuda:N" }, { "cuda:x", GYRE_E_NODEVICE, "not known" }, { "cuda:99", GYRE_E_NODEVICE, NULL },
        { "sm_80", GYRE_E_NODEVICE, "nothing can run" }, { "sm_", GYRE_E_NODEVICE, "not known" },
    };
    struct gyre_error error;
    struct gyre_need need, cpu;
    struct gyre_net *net = NULL;
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        const struct gyre_config config = cnet_config(&cnet_cases[0], rows[i].name);
        T_CHECK(gyre_open(&net, &config, &error) == rows[i].status);
        T_CHECK_MSG(rows[i].says ? strstr(error.text, rows[i].says) != NULL : dh_says_why(error.text), "%s: %s", rows[i].name, error.text);
    }
    struct gyre_config config = cnet_config(&cnet_cases[0], "sm_90");
    T_CHECK(gyre_measure(&config, &need, &error) == GYRE_OK && need.device_bytes > 0 && need.pinned_bytes > 0);
    config.device = "cpu";
    T_CHECK(gyre_measure(&config, &cpu, &error) == GYRE_OK && cpu.device_bytes == 0 && cpu.pinned_bytes == 0);
    T_CHECK(need.parameters == cpu.parameters && need.flops == cpu.flops);
    config.device = "auto";
    config.log.write = NULL;
    if (T_CHECK(gyre_open(&net, &config, &error) == GYRE_OK))
        gyre_close(net);
}

/* ---- nets of the zoo on small images: 't_cuda_net emu zoo [NAME...]'; zoo16: in bf16 ---- */

struct cnet_text {
    char bytes[1 << 17];
    size_t used;
};
static int cnet_text_add(void *user, const char *bytes, size_t count)
{
    struct cnet_text *text = user;
    if (text->used + count >= sizeof text->bytes)
        return -1;
    memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
    text->bytes[text->used] = 0;
    return 0;
}

#define CNET_SIDE 64
#define CNET_MOST 8 /* samples */

/* How far tensors of two nets may differ: as far as rounding alone takes them. The same step with
 * another order of summation measures that. A ReLU near 0 may be on the other side in one of
 * them. */
struct cnet_apart {
    double most;        /* measured */
    int tensors;
    char name[160];     /* the one that is farthest */
};

static void cnet_apart_all(struct gyre_net *a, struct gyre_net *b, const char *prefix, struct cnet_apart *out)
{
    struct gyre_tensor_info info;
    for (int i = 0; i < gyre_tensor_count(a); i++) {
        char name[160];
        if (!T_CHECK(gyre_tensor_at(a, i, &info) == GYRE_OK) || (prefix[0] && !info.trained))
            continue;
        float *va = malloc((size_t)info.count * sizeof *va), *vb = malloc((size_t)info.count * sizeof *vb);
        snprintf(name, sizeof name, "%s%s", prefix, info.name);
        if (T_CHECK(va && vb && gyre_get_tensor(a, name, va, info.count) == GYRE_OK && gyre_get_tensor(b, name, vb, info.count) == GYRE_OK)) {
            const double apart = cnet_apart(va, vb, info.count);
            out->tensors++;
            if (!(apart <= out->most)) {
                out->most = apart;
                memcpy(out->name, name, sizeof name);
            }
        }
        free(va);
        free(vb);
    }
}

/* Residual branches of a deep net begin small (Goyal et al. 2017). With a factor of 1 and two
 * samples, the least rounding grows a millionfold. */
static void cnet_tame(struct gyre_net *net)
{
    static float small[2048];
    struct gyre_tensor_info info;
    const char *last = ".bn2.weight";
    for (size_t i = 0; i < GY_COUNT(small); i++)
        small[i] = 0.1f;
    for (int i = 0; i < gyre_tensor_count(net); i++)
        if (gyre_tensor_at(net, i, &info) == GYRE_OK && strstr(info.name, ".bn3.weight"))
            last = ".bn3.weight";
    for (int i = 0; i < gyre_tensor_count(net); i++)
        if (gyre_tensor_at(net, i, &info) == GYRE_OK && strstr(info.name, last))
            T_CHECK(info.count <= (int64_t)GY_COUNT(small) && gyre_set_tensor(net, info.name, small, info.count) == GYRE_OK);
}

#define CNET_TRIES 4
/* allowed distance from float32, in distances of the CPU's bf16; both round at the same places */
#define CNET_NARROW 1.5

/* Steps of the same net: on the CPU in float32, on the CPU with other roundings, on the device. The
 * other roundings come from the reference kernels' order of summation, or from bf16 if the device
 * trains in bf16. */
struct cnet_trio {
    struct gyre_net *net[3];
    struct gyre_result result[3];
};

static int cnet_step_of(struct cnet_trio *t, const struct cnet_case *c, int which, const struct gyre_batch *batch)
{
    struct cnet_case of = *c;
    if (which == 0)
        of.dtype = GYRE_F32;
    t->net[which] = cnet_open_by(&of, which == 2 ? cnet_device : "cpu", batch->count,
                                 which == 1 && c->dtype == GYRE_F32 ? "ref" : NULL);
    if (!t->net[which])
        return 0;
    cnet_tame(t->net[which]);
    return T_CHECK(gyre_step(t->net[which], batch, &t->result[which]) == GYRE_OK);
}

/* 1: they agree; 0: they do not, a failure with the last input. */
static int cnet_try(const struct cnet_case *c, const struct gyre_batch *batch, int last)
{
    static const char *const prefixes[] = { "grad.", "", "momentum." };
    struct cnet_trio t = { { NULL, NULL, NULL }, { { .loss = 0 } } };
    int good = cnet_step_of(&t, c, 0, batch) && cnet_step_of(&t, c, 1, batch) && cnet_step_of(&t, c, 2, batch);
    for (size_t k = 0; k < GY_COUNT(prefixes) && good; k++) {
        struct cnet_apart rounding = { .most = 0 }, device = { .most = 0 };
        cnet_apart_all(t.net[1], t.net[0], prefixes[k], &rounding);
        cnet_apart_all(t.net[2], t.net[0], prefixes[k], &device);
        const double apart = fabs(t.result[2].loss - t.result[0].loss);
        const double other = fabs(t.result[1].loss - t.result[0].loss);
        const int narrow = c->dtype != GYRE_F32;
        const double allowed = narrow ? CNET_NARROW * rounding.most : 2e-5 + (rounding.most <= 1e-3 ? 4 * rounding.most : 0);
        const double loss = narrow ? 4 * other + 1e-3 * fabs(t.result[0].loss) : 2e-5 * fabs(t.result[0].loss);
        good = device.most <= allowed && apart <= loss;
        printf("%-10s %3d tensors %-9s at most %.2g apart (%s), by rounding %.2g (%s); loss %.9g and %.9g\n", c->name, device.tensors,
               prefixes[k], device.most, device.name, rounding.most, rounding.name, t.result[2].loss, t.result[0].loss);
    }
    if (good || last)
        T_CHECK_MSG(good, "%s: the nets do not agree with any input", c->name);
    for (int i = 0; i < 3; i++)
        gyre_close(t.net[i]);
    return good;
}

/* A ReLU so near 0 that rounding flips it in one net makes some tensors differ by a thousandth and
 * more. In the deepest nets this happens, and another input is tried. A real fault shows with every
 * input. */
static void cnet_zoo_net(const char *name, int dtype, int side, int channels, int samples)
{
    static struct cnet_text text;
    static float x[CNET_MOST * CNET_SIDE * CNET_SIDE * 3];
    static const int32_t label[CNET_MOST] = { 1, 3, 0, 4, 2, 2, 1, 0 };
    const struct gyre_sink sink = { cnet_text_add, &text };
    const struct gyre_batch batch = { .x = x, .label = label, .count = samples };
    const struct cnet_case c = { name, text.bytes, side, side, channels, GYRE_SGD, dtype, 0, 0 };
    struct gyre_error error;
    text.used = 0;
    if (!T_CHECK(gyre_zoo_text(name, 5, side, side, channels, &sink, &error) == GYRE_OK))
        return;
    uint32_t state = 99;
    for (int try = 0; try < CNET_TRIES; try++) {
        for (size_t i = 0; i < GY_COUNT(x); i++)
            x[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1;
        if (cnet_try(&c, &batch, try + 1 == CNET_TRIES))
            return;
    }
}

/* Tests the named nets, or all. In bf16, batch norms of a batch of two would leave nothing but
 * roundings. */
static void cnet_zoo(int dtype, char *const *names, int count)
{
    /* a batch norm needs more than two numbers, also behind the last pooling */
    static const struct { const char *name; int side, channels, samples; } sizes[] = {
        { "logistic", 28, 1, 2 },  { "mlp", 28, 1, 2 },      { "lenet5", 28, 1, 2 },    { "fashion", 28, 1, 2 },
        { "alexnet", 64, 3, 2 },   { "alexnet-bn", 64, 3, CNET_MOST }, { "resnet18", 64, 3, 2 }, { "resnet34", 64, 3, 2 },
        { "resnet50", 64, 3, 2 },  { "resnet101", 33, 3, 2 }, { "resnet152", 33, 3, 2 },
    };
    for (int i = 0; gyre_zoo_name(i); i++) {
        const char *const name = gyre_zoo_name(i);
        int side = 32, channels = 3, samples = 2;
        for (size_t k = 0; k < GY_COUNT(sizes); k++)
            if (strcmp(sizes[k].name, name) == 0)
                side = sizes[k].side, channels = sizes[k].channels, samples = sizes[k].samples;
        int wanted = count == 0;
        for (int k = 0; k < count; k++)
            wanted |= strcmp(names[k], name) == 0;
        if (wanted)
            cnet_zoo_net(name, dtype, side, channels, dtype == GYRE_F32 ? samples : CNET_MOST);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (argc > 1)
        cnet_device = argv[1];
    cnet_devices();
#ifdef CNET_NO_EMULATOR
    if (strcmp(cnet_device, "emu") == 0) {
        T_SKIP("no emulator under ThreadSanitizer");
        T_END("t_cuda_net");
    }
#endif
    const struct gyre_config config = cnet_config(&cnet_cases[0], cnet_device);
    struct gyre_need need;
    struct gyre_error error;
    if (!dh_opened(cnet_device, gyre_measure(&config, &need, &error), error.text))
        T_END("t_cuda_net");
    if (argc > 2 && (strcmp(argv[2], "zoo") == 0 || strcmp(argv[2], "zoo16") == 0)) {
        cnet_zoo(strcmp(argv[2], "zoo") == 0 ? GYRE_F32 : GYRE_BF16, argv + 3, argc - 3);
        T_END("t_cuda_net");
    }
    for (size_t i = 0; i < GY_COUNT(cnet_cases); i++) {
        struct gyre_net *cpu = cnet_open(&cnet_cases[i], "cpu"), *device = cnet_open(&cnet_cases[i], cnet_device);
        if (cpu && device) {
            cnet_steps(&cnet_cases[i], cpu, device);
            cnet_nonfinite(&cnet_cases[i], device);
        }
        gyre_close(cpu);
        gyre_close(device);
    }
    cnet_bits(&cnet_cases[0]);
    cnet_zoo_net("lenet5", GYRE_F32, 28, 1, 2);
    T_END("t_cuda_net");
}
