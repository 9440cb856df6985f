/* SPDX-License-Identifier: MIT */
/* t_engine.c: an open net as a user sees it: lifecycle, memory, bits, files. The nets are small but
 * have every kind of fusion. */
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/gyre.h"
#include "tests/t.h"
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(GY_T_NO_TRAP)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define T_TRAP 0
#endif
#endif
#ifndef T_TRAP
#define T_TRAP 1
#endif
#else
#define T_TRAP 0
#endif

#if T_TRAP
/* Counts the process's calls of malloc and its kin: the proof that a step does not allocate. */
static volatile int64_t eng_mallocs;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *ptr, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *ptr, size_t bytes);
void *malloc(size_t bytes)
{
    __atomic_fetch_add(&eng_mallocs, 1, __ATOMIC_RELAXED);
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes)
{
    __atomic_fetch_add(&eng_mallocs, 1, __ATOMIC_RELAXED);
    return __libc_calloc(count, bytes);
}
void *realloc(void *ptr, size_t bytes)
{
    __atomic_fetch_add(&eng_mallocs, 1, __ATOMIC_RELAXED);
    return __libc_realloc(ptr, bytes);
}
#endif

static const char eng_residual[] =
    "input 8x8x3\n"
    "conv1: conv 8 3x3\nbn1: bn\nrelu\n"
    "repeat layer1 0..1 {\n conv1: conv 8 3x3\n bn1: bn\n relu\n conv2: conv 8 3x3\n bn2: bn\n add in\n relu\n}\n"
    "block layer2.0 {\n conv1: conv 16 3x3 stride 2\n bn1: bn\n relu\n conv2: conv 16 3x3\n bn2: bn\n"
    " downsample.0: conv 16 1x1 stride 2 from in\n downsample.1: bn\n add bn2\n relu\n}\n"
    "dropout 0.2\ngap\nfc: linear 5\nsoftmax smooth 0.1\n";

static const char eng_plain[] =
    "input 9x9x2\n"
    "conv1: conv 6 3x3 bias\nrelu\nlrn 5 alpha 1e-4 beta 0.75 k 1\nmaxpool 3x3 stride 2\n"
    "a: conv 4 1x1 bias\ns: sigmoid\n"
    "b: conv 4 3x3 groups 2\ntanh\nc: concat s\nd: conv 8 3x3 groups 8\nrelu6\nadd c\n"
    "avgpool 2x2\nflatten\nlinear 12\nrelu\nlinear 5\nmse\n";

/* Batch norms in every position: after the input, after each other, in a chain of residuals, before
 * activations, pools and norms, and twice. */
static const char eng_norms[] =
    "x: input 8x8x3\na: conv 3 3x3\nb: bn from x\nadd a\nrelu6\n"
    "c: conv 8 3x3\nbn\nsigmoid\nd: conv 8 1x1\nd1: bn\nd2: bn\n"
    "e: conv 8 3x3\ne1: bn\nadd d2\ne2: relu\n"
    "f: conv 8 3x3\nf1: bn\nadd e2\nf2: relu6\ng: conv 8 3x3\ng1: bn\nadd f2\n"
    "g2: relu\nl: lrn 3 alpha 0.01\nh: conv 8 3x3\nh1: bn\n"
    "hs: add g2\nk: conv 8 1x1 from g2\nk1: bn\nk2: tanh\n"
    "concat hs\nj: maxpool 2x2\nj1: conv 8 1x1 stride 2 from hs\nj2: bn\nj3: relu\n"
    "concat j\ndropout 0.1\nz: linear 8\nz1: bn\nz2: relu\nlinear 5\nsoftmax\n";

struct eng_case {
    const char *name, *text;
    int h, w, c;
};
static const struct eng_case eng_cases[] = { { "residual", eng_residual, 8, 8, 3 }, { "plain", eng_plain, 9, 9, 2 },
                                            { "norms", eng_norms, 8, 8, 3 } };

static struct gyre_config eng_config(const struct eng_case *c)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = c->text;
    config.net_name = c->name;
    config.batch = 6;
    config.threads = 1;
    config.schedule.rate = 0.05f;
    return config;
}

#define ENG_BATCH 6
#define ENG_PLAN 65536 /* bytes of a plan's text */
#define ENG_FILES 50
#define ENG_PIXELS (9 * 9 * 3)
struct eng_data {
    float x[ENG_BATCH * ENG_PIXELS];
    int32_t label[ENG_BATCH];
    struct gyre_batch batch;
};

static void eng_fill(struct eng_data *d, const struct eng_case *c, uint64_t step)
{
    const int64_t sample = (int64_t)c->h * c->w * c->c;
    for (int64_t i = 0; i < ENG_BATCH; i++) {
        d->label[i] = (int32_t)((step + (uint64_t)i) % 5);
        for (int64_t k = 0; k < sample; k++)
            d->x[i * sample + k] = gy_rng_normal(7, 99, step, (uint64_t)(i * sample + k)) + 0.3f * (float)d->label[i];
    }
    d->batch = (struct gyre_batch){ .x = d->x, .label = d->label, .count = ENG_BATCH };
}

static struct gyre_net *eng_open(const struct gyre_config *config)
{
    struct gyre_net *net = NULL;
    struct gyre_error error = { 0 };
    T_CHECK_MSG(gyre_open(&net, config, &error) == GYRE_OK, "%s", error.text);
    return net;
}

/* A number that stands for all weights and running values, to the bit. */
static uint64_t eng_hash(struct gyre_net *net)
{
    uint64_t hash = 1469598103934665603ull;
    for (int i = 0; i < gyre_tensor_count(net); i++) {
        struct gyre_tensor_info info;
        gyre_tensor_at(net, i, &info);
        float *values = calloc((size_t)info.count, sizeof *values);
        if (!values || gyre_get_tensor(net, info.name, values, info.count) != GYRE_OK)
            hash = 0;
        for (int64_t k = 0; values && k < info.count; k++) {
            uint32_t bits;
            memcpy(&bits, &values[k], sizeof bits);
            hash = (hash ^ bits) * 1099511628211ull;
        }
        free(values);
    }
    return hash;
}

static double eng_train(struct gyre_net *net, const struct eng_case *c, int first, int steps)
{
    static struct eng_data d;
    struct gyre_result r = { 0 };
    for (int i = first; i < first + steps; i++) {
        eng_fill(&d, c, (uint64_t)(i % 4));
        T_CHECK_MSG(gyre_step(net, &d.batch, &r) == GYRE_OK, "%s", gyre_last_error(net)->text);
    }
    return r.loss;
}

static void eng_test_learns(const struct eng_case *c, int optimizer, float rate)
{
    struct gyre_config config = eng_config(c);
    config.optimizer.kind = optimizer;
    config.schedule.rate = rate;
    config.optimizer.lars_eta = 0.02f;
    struct gyre_net *net = eng_open(&config);
    if (!net)
        return;
    const double first = eng_train(net, c, 0, 4), last = eng_train(net, c, 4, 60);
    T_CHECK_MSG(last < first * 0.8, "%s, optimizer %d: loss %g, after training %g", c->name, optimizer, first, last);
    gyre_close(net);
}

/* Equal bits with any number of threads, with recomputation of everything or of nothing, and with
 * or without a pause in a file. */
static void eng_test_bits(const struct eng_case *c)
{
    struct gyre_config config = eng_config(c);
    config.optimizer.ema = 0.9f;
    config.optimizer.clip_norm = 1.0f;
    uint64_t want = 0;
    for (int variant = 0; variant < 6; variant++) {
        config.threads = variant == 1 ? 2 : variant == 2 ? 3 : 1;
        config.recompute = variant == 3 ? 1 : variant == 5 ? -1 : 0;
        struct gyre_net *net = eng_open(&config);
        if (!net)
            return;
        eng_train(net, c, 0, 5);
        if (variant == 4) {
            char path[] = "/tmp/gyre_t_engine_XXXXXX";
            const int fd = mkstemp(path);
            T_CHECK(fd >= 0);
            T_CHECK_MSG(gyre_note(net, "classes", "a\nb") == GYRE_OK && gyre_save(net, path) == GYRE_OK, "%s",
                        gyre_last_error(net)->text);
            gyre_close(net);
            net = eng_open(&config);
            T_CHECK_MSG(gyre_load(net, path) == GYRE_OK, "%s", gyre_last_error(net)->text);
            char text[8];
            T_CHECK(gyre_read_note(path, "classes", text, sizeof text, NULL) == GYRE_OK && strcmp(text, "a\nb") == 0);
            remove(path);
        }
        eng_train(net, c, 5, 5);
        const uint64_t hash = eng_hash(net);
        want = variant == 0 ? hash : want;
        T_CHECK_MSG(hash == want && hash != 0, "%s: variant %d gives other bits", c->name, variant);
        gyre_close(net);
    }
}

static int eng_take(void *user, const char *data, size_t bytes)
{
    char *const text = user;
    const size_t used = strlen(text), room = ENG_PLAN - 1 - used;
    const size_t count = bytes < room ? bytes : room;
    memcpy(text + used, data, count);
    text[used + count] = 0;
    return 0;
}

/* How often the plan makes layer b's products. */
static int eng_products(struct gyre_net *net)
{
    static char text[ENG_PLAN];
    const struct gyre_sink sink = { .write = eng_take, .user = text };
    int count = 0;
    text[0] = 0;
    T_CHECK(gyre_print_plan(net, 1, &sink) == GYRE_OK);
    for (const char *at = text; (at = strstr(at, "\"op\":\"conv\",\"layer\":\"b\"")) != NULL; at++)
        count++;
    return count;
}

/* A large value of few products is made again in backward: the same bits. */
static void eng_test_made_again(void)
{
    static const struct eng_case c = { "large", "input 224x224x3\na: conv 8 3x3\nrelu\nb: conv 64 1x1\nbn\nrelu\nconv 4 1x1\nbn\ngap\n"
                                                "linear 5\nsoftmax\n", 224, 224, 3 };
    const int64_t count = ENG_BATCH * (int64_t)c.h * c.w * c.c;
    struct gyre_config config = eng_config(&c);
    int32_t label[ENG_BATCH] = { 0, 1, 2, 3, 4, 0 };
    uint64_t hash[2] = { 0, 1 };
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = gy_rng_normal(7, 98, 0, (uint64_t)i);
    for (int kept = 0; x && kept < 2; kept++) {
        const struct gyre_batch batch = { .x = x, .label = label, .count = ENG_BATCH };
        config.recompute = kept ? -1 : 0;
        struct gyre_net *net = eng_open(&config);
        if (!net)
            break;
        T_CHECK_MSG(eng_products(net) == 2 - kept, "b is made %d times", eng_products(net));
        for (int step = 0; step < 2; step++)
            T_CHECK(gyre_step(net, &batch, NULL) == GYRE_OK);
        hash[kept] = eng_hash(net);
        gyre_close(net);
    }
    T_CHECK(hash[0] == hash[1]);
    free(x);
}

/* Two half batches add up to the whole batch if there is no batch norm and the loss is a mean. */
static void eng_test_accumulate(void)
{
    const struct eng_case *c = &eng_cases[1];
    struct gyre_config config = eng_config(c);
    static struct eng_data d;
    float whole[6 * 2 * 9], halves[6 * 2 * 9];
    eng_fill(&d, c, 0);
    for (int run = 0; run < 2; run++) {
        config.accumulate = run ? 2 : 1;
        struct gyre_net *net = eng_open(&config);
        if (!net)
            return;
        struct gyre_batch half = d.batch;
        half.count = run ? 3 : 6;
        T_CHECK(gyre_step(net, &half, NULL) == GYRE_OK);
        if (run) {
            half.x = d.x + 3 * 9 * 9 * 2;
            half.label = d.label + 3;
            T_CHECK(gyre_step(net, &half, NULL) == GYRE_OK);
        }
        T_CHECK(gyre_get_tensor(net, "conv1.weight", run ? halves : whole, 6 * 2 * 9) == GYRE_OK);
        gyre_close(net);
    }
    float worst = 0;
    for (int i = 0; i < 6 * 2 * 9; i++)
        worst = fmaxf(worst, fabsf(whole[i] - halves[i]));
    T_CHECK_MSG(worst < 1e-6f, "largest difference %g", (double)worst);
}

static void eng_test_no_allocation(const struct eng_case *c)
{
#if T_TRAP
    struct gyre_config config = eng_config(c);
    config.threads = 2;
    struct gyre_net *net = eng_open(&config);
    if (!net)
        return;
    eng_train(net, c, 0, 1);
    const int64_t before = eng_mallocs;
    eng_train(net, c, 1, 50);
    T_CHECK_MSG(eng_mallocs == before, "%" PRId64 " allocations in 50 steps", eng_mallocs - before);
    void *volatile probe = malloc(10);
    T_CHECK(eng_mallocs == before + 1); /* the trap works */
    free(probe);
    gyre_close(net);
#else
    (void)c;
    T_SKIP("malloc is not trapped in this build");
#endif
}

/* An allocator that fails once, at call number `fail`, and keeps count of what is out. */
struct eng_hook {
    int64_t calls, fail, open;
};

static void *eng_hook_fn(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct eng_hook *h = user;
    (void)old_bytes;
    if (new_bytes == 0) {
        h->open -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (h->calls++ == h->fail)
        return NULL;
    void *p = realloc(ptr, new_bytes);
    h->open += p && !ptr;
    return p;
}

static void eng_test_each_failure(const struct eng_case *c)
{
    struct gyre_config config = eng_config(c);
    int64_t fail = 0;
    for (;; fail++) {
        struct eng_hook hook = { .fail = fail };
        struct gyre_net *net = NULL;
        struct gyre_error error = { 0 };
        config.threads = 2;
        config.memory.hook = eng_hook_fn;
        config.memory.user = &hook;
        const int status = gyre_open(&net, &config, &error);
        if (status == GYRE_OK)
            gyre_close(net);
        else if (!T_CHECK(status == GYRE_E_NOMEM && error.text[0]))
            printf("    allocation %" PRId64 ": %d %s\n", fail, status, error.text);
        T_CHECK(hook.open == 0);
        if (hook.calls <= fail)
            break;
    }
    T_CHECK_MSG(fail > 3, "only %" PRId64 " allocations", fail);
}

/* Any number of files is written and read, whatever room the block has. */
static void eng_check_files(struct gyre_net *net)
{
    char path[] = "/tmp/t_engine_XXXXXX";
    const int file = mkstemp(path);
    int failed = file < 0 || close(file) != 0;
    for (int i = 0; i < ENG_FILES && !failed; i++)
        failed = gyre_save(net, path) != GYRE_OK || gyre_load(net, path) != GYRE_OK || gyre_export(net, path) != GYRE_OK ||
                 gyre_import(net, path, 0, NULL) != GYRE_OK;
    T_CHECK_MSG(!failed, "%s", gyre_last_error(net)->text);
    unlink(path);
}

static void eng_test_measure(const struct eng_case *c)
{
    struct gyre_config config = eng_config(c);
    struct gyre_need need;
    struct gyre_error error;
    T_CHECK(gyre_measure(&config, &need, &error) == GYRE_OK);
    unsigned char *raw = calloc(1, need.host_bytes + 64), *block = raw + (64 - (uintptr_t)raw % 64) % 64;
    struct gyre_net *net = NULL;
    config.memory.block = block;
    config.memory.block_bytes = need.host_bytes;
    T_CHECK_MSG(gyre_open(&net, &config, &error) == GYRE_OK, "%s", error.text);
    if (net) {
        eng_train(net, c, 0, 2);
        eng_check_files(net);
    }
    gyre_close(net);
    config.memory.block_bytes = need.host_bytes / 2;
    T_CHECK(gyre_open(&net, &config, &error) == GYRE_E_NOMEM && error.text[0]);
    free(raw);
}

/* Recomputation and inference take less. */
static void eng_test_less(const struct eng_case *c)
{
    struct gyre_config config = eng_config(c);
    struct gyre_need need, less;
    struct gyre_error error;
    T_CHECK(gyre_measure(&config, &need, &error) == GYRE_OK);
    config.recompute = 1;
    /* Memory of ops beside tensors is not considered where the net is cut. In so small a net it may
     * cost a little. */
    T_CHECK(gyre_measure(&config, &less, &error) == GYRE_OK && less.activation_bytes <= need.activation_bytes + 4096);
    config.recompute = -1;
    T_CHECK(gyre_measure(&config, &less, &error) == GYRE_OK && less.activation_bytes >= need.activation_bytes);
    config.recompute = 0;
    config.mode = GYRE_INFER;
    T_CHECK(gyre_measure(&config, &less, &error) == GYRE_OK && less.host_bytes < need.host_bytes && less.gradient_bytes == 0);
}

/* Memory at any address that malloc may give, 16 bytes apart. */
static void *eng_skewed(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    const size_t skew = *(const size_t *)user;
    unsigned char *block = NULL;
    (void)old_bytes;
    if (new_bytes == 0)
        free(ptr ? (unsigned char *)ptr - skew : NULL);
    else if (!ptr && posix_memalign((void **)&block, 64, new_bytes + skew) == 0)
        return block + skew;
    return NULL;
}

/* What an arena's chunk holds does not depend on its address. Else a net could take more memory
 * than was measured elsewhere. */
static void eng_test_chunks(void)
{
    int held[4];
    for (size_t i = 0; i < 4; i++) {
        size_t skew = 16 * i;
        const struct gy_alloc alloc = { eng_skewed, &skew };
        struct gy_arena arena;
        gy_arena_open_hook(&arena, &alloc);
        T_CHECK(gy_arena_take(&arena, 1, 1) != NULL);
        const size_t one = arena.reserved;
        for (held[i] = 0; arena.reserved == one && gy_arena_take(&arena, 1, 1);)
            held[i]++;
        gy_arena_close(&arena);
        T_CHECK_MSG(held[i] == held[0], "%d pieces, %d where the chunk lies %zu bytes further", held[0], held[i], skew);
    }
}

static void eng_test_nonfinite(void)
{
    const struct eng_case *c = &eng_cases[0];
    struct gyre_config config = eng_config(c);
    static struct eng_data d;
    struct gyre_net *net = eng_open(&config);
    struct gyre_error where = { 0 };
    int32_t sample = -7;
    if (!net)
        return;
    eng_train(net, c, 0, 2);
    const uint64_t before = eng_hash(net);
    eng_fill(&d, c, 0);
    T_CHECK(gyre_find_nonfinite(net, &d.batch, &sample, &where) == GYRE_OK && sample == -1);
    d.x[4 * 8 * 8 * 3 + 2 * 8 * 3 + 5 * 3 + 1] = NAN;
    T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_E_NONFINITE);
    T_CHECK(gyre_find_nonfinite(net, &d.batch, &sample, &where) == GYRE_E_NONFINITE);
    T_CHECK_MSG(sample == 4 && strstr(where.text, "[4][2][5][1]"), "sample %d: %s", sample, where.text);
    T_CHECK(eng_hash(net) == before); /* nothing was updated, running statistics included */
    eng_fill(&d, c, 0);
    float w[16 * 8];
    T_CHECK(gyre_get_tensor(net, "layer2.0.downsample.0.weight", w, 16 * 8) == GYRE_OK);
    w[17] = INFINITY;
    T_CHECK(gyre_set_tensor(net, "layer2.0.downsample.0.weight", w, 16 * 8) == GYRE_OK);
    T_CHECK(gyre_find_nonfinite(net, &d.batch, &sample, &where) == GYRE_E_NONFINITE && sample == -1);
    T_CHECK_MSG(strstr(where.text, "layer2.0.downsample.0.weight") != NULL, "%s", where.text);
    w[17] = 3e38f;
    for (int i = 0; i < 16 * 8; i++)
        w[i] = 3e38f;
    T_CHECK(gyre_set_tensor(net, "layer2.0.downsample.0.weight", w, 16 * 8) == GYRE_OK);
    T_CHECK(gyre_find_nonfinite(net, &d.batch, &sample, &where) == GYRE_E_NONFINITE);
    T_CHECK_MSG(strstr(where.text, "layer2.0.downsample") && strstr(where.text, "op"), "%s", where.text);
    gyre_close(net);
}

/* A weight's index is that of gyre_get_tensor. */
static void eng_test_nonfinite_weights(void)
{
    static const struct { const char *name; int count, at; const char *says; } rows[] = {
        { "conv1.weight", 36, 25, "'conv1.weight'[1][0][2][1] is inf" },
        { "linear1.weight", 36, 28, "'linear1.weight'[1][10] is inf" },
        { "conv1.bias", 2, 1, "'conv1.bias'[1] is inf" },
    };
    struct gyre_config config;
    struct gyre_error where = { 0 };
    const float x[18] = { 0 };
    const int32_t label = 0;
    const struct gyre_batch batch = { .x = x, .label = &label, .count = 1 };
    gyre_config_default(&config);
    config.net = "input 3x3x2\nconv 2 3x3 bias\nlinear 2\nsoftmax\n";
    config.batch = 1;
    struct gyre_net *net = eng_open(&config);
    for (size_t i = 0; net && i < sizeof rows / sizeof rows[0]; i++) {
        float w[36], bad[36];
        T_CHECK(gyre_get_tensor(net, rows[i].name, w, rows[i].count) == GYRE_OK);
        memcpy(bad, w, sizeof bad);
        bad[rows[i].at] = INFINITY;
        T_CHECK(gyre_set_tensor(net, rows[i].name, bad, rows[i].count) == GYRE_OK);
        T_CHECK(gyre_find_nonfinite(net, &batch, NULL, &where) == GYRE_E_NONFINITE);
        T_CHECK_MSG(strstr(where.text, rows[i].says), "%s", where.text);
        T_CHECK(gyre_set_tensor(net, rows[i].name, w, rows[i].count) == GYRE_OK);
    }
    gyre_close(net);
}

/* A net of 2 images a batch; or NULL, which is a failure. */
static struct gyre_net *eng_open_two(const char *text)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = text;
    config.batch = 2;
    return eng_open(&config);
}

/* Channels of a norm are no samples, even where there are as many of both. */
static void eng_test_nonfinite_sum(void)
{
    struct gyre_error where = { 0 };
    float x[2 * 9];
    const int32_t label[2] = { 0, 1 };
    const struct gyre_batch batch = { .x = x, .label = label, .count = 2 };
    int32_t sample = -7;
    struct gyre_net *net = eng_open_two("input 3x3x1\nconv 2 1x1\nbn\nlinear 2\nsoftmax\n");
    for (int i = 0; i < 2 * 9; i++)
        x[i] = (float)(i % 5 - 2) * 1e25f; /* the sum of squares is infinite */
    if (!net)
        return;
    T_CHECK(gyre_find_nonfinite(net, &batch, &sample, &where) == GYRE_E_NONFINITE);
    T_CHECK_MSG(sample == -1 && strstr(where.text, "conv1.stats"), "sample %d: %s", sample, where.text);
    gyre_close(net);
}

/* What a batch before left where a concatenation is written by parts is not what an op wrote. */
static void eng_test_nonfinite_parts(void)
{
    struct gyre_error where = { 0 };
    float x[2 * 9] = { 0 };
    const int32_t label[2] = { 0, 1 };
    const struct gyre_batch batch = { .x = x, .label = label, .count = 2 };
    int32_t sample = -7;
    struct gyre_net *net = eng_open_two("input 3x3x1\na: conv 2 1x1\nconv 3 1x1\nconcat a\nlinear 2\nsoftmax\n");
    if (!net)
        return;
    x[1] = x[11] = NAN;
    T_CHECK(gyre_step(net, &batch, NULL) == GYRE_E_NONFINITE);
    x[1] = x[11] = 0;
    T_CHECK_MSG(gyre_find_nonfinite(net, &batch, &sample, &where) == GYRE_OK && sample == -1, "sample %d: %s", sample, where.text);
    gyre_close(net);
}

/* A net for inference takes the averaged weights of a checkpoint, also of one between two
 * updates. */
static void eng_test_average(void)
{
    const struct eng_case *c = &eng_cases[0];
    struct gyre_config config = eng_config(c);
    static struct eng_data d;
    struct gyre_result during = { 0 }, after = { 0 };
    char path[] = "/tmp/gyre_t_engine_XXXXXX";
    config.optimizer.ema = 0.8f;
    config.accumulate = 2;
    struct gyre_net *net = eng_open(&config);
    const int fd = mkstemp(path);
    if (!net || fd < 0) {
        T_CHECK(fd >= 0);
        return;
    }
    close(fd);
    eng_train(net, c, 0, 7);
    eng_fill(&d, c, 3);
    T_CHECK(gyre_eval(net, &d.batch, &during) == GYRE_OK && gyre_save(net, path) == GYRE_OK);
    gyre_close(net);
    config = eng_config(c);
    config.mode = GYRE_INFER;
    net = eng_open(&config);
    T_CHECK_MSG(net && gyre_load(net, path) == GYRE_OK, "%s", net ? gyre_last_error(net)->text : "");
    T_CHECK(net && gyre_eval(net, &d.batch, &after) == GYRE_OK && during.loss == after.loss && during.top1 == after.top1);
    gyre_close(net);
    remove(path);
}

/* The last sample's weights are shares, its flip is 0 or 1. */
static void eng_test_mix(struct gyre_net *net, struct gyre_batch *batch)
{
    static const struct { float inside, label; int32_t flip; int good; } rows[] = {
        { 0, 1, 0, 1 }, { 1, 0, 1, 1 }, { -1, 1, 0, 0 }, { 1e30f, 1, 0, 0 }, { NAN, 1, 0, 0 }, { 1, 2, 0, 0 }, { 1, -0.5f, 0, 0 }, { 1, NAN, 0, 0 },
        { 1, 1, 2, 0 }, { 1, 1, -1, 0 } };
    struct gyre_mix mix[6] = { { 0 } };
    batch->mix = mix;
    for (int32_t i = 0; i < 6; i++)
        mix[i].partner = i;
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        mix[5].inside = rows[i].inside;
        mix[5].label = rows[i].label;
        mix[5].flip = rows[i].flip;
        const int status = gyre_eval(net, batch, NULL);
        T_CHECK_MSG(rows[i].good ? status == GYRE_OK : status == GYRE_E_ARG && strstr(gyre_last_error(net)->text, "batch.mix[5]: inside"), "row %d: %d %s",
                    (int)i, status, gyre_last_error(net)->text);
    }
    batch->mix = NULL;
}

static double eng_measure_seconds(int blocks)
{
    char text[100];
    struct gyre_config config;
    struct gyre_error error = { 0 };
    struct gyre_need need;
    gyre_config_default(&config);
    snprintf(text, sizeof text, "input 4x4x2\nrepeat a 1..%d {\nconv 2 1x1\nbn\nrelu\n}\nlinear 3\nsoftmax\n", blocks);
    config.net = text;
    const clock_t began = clock();
    T_CHECK_MSG(gyre_measure(&config, &need, &error) == GYRE_OK, "%s", error.text);
    return (double)(clock() - began) / CLOCKS_PER_SEC;
}

/* Placing takes the square of a net's depth, not its cube: 36 times for six times the layers. */
static void eng_test_deep(void)
{
    const double shallow = eng_measure_seconds(200), deep = eng_measure_seconds(1200);
    T_CHECK_MSG(deep < 80 * shallow, "%.3f s for 200 blocks, %.3f s for 1200", shallow, deep);
}

/* Sentences count samples of the caller's batch, not of a shard. */
static void eng_test_shard_sentences(void)
{
    const float x[8] = { 0 };
    int32_t label[8] = { 0, 1, 0, 1, 0, 1, 2, 1 };
    struct gyre_mix mix[8] = { { 0 } };
    struct gyre_batch batch = { .x = x, .label = label, .count = 8 };
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = "input 1x1x1\nlinear 2\nsoftmax\n";
    config.batch = 2;
    config.shards = 4;
    struct gyre_net *net = eng_open(&config);
    if (!net)
        return;
    T_CHECK(gyre_step(net, &batch, NULL) == GYRE_E_ARG);
    T_CHECK_MSG(strstr(gyre_last_error(net)->text, "label 2 of sample 6"), "%s", gyre_last_error(net)->text);
    label[6] = -1;
    batch.mix = mix;
    for (int i = 0; i < 8; i++)
        mix[i] = (struct gyre_mix){ .partner = i, .inside = 1, .label = 1 };
    for (int i = 0; i < 2; i++) {
        mix[5].partner = i ? INT32_MIN : 3;
        T_CHECK(gyre_step(net, &batch, NULL) == GYRE_E_ARG);
        T_CHECK_MSG(strstr(gyre_last_error(net)->text, i ? "batch.mix[5]: partner -2147483648" : "batch.mix[5]: partner 3") &&
                    strstr(gyre_last_error(net)->text, "4 .. 5"), "%s", gyre_last_error(net)->text);
    }
    gyre_close(net);
}

/* gyre_batch.count has 31 bits. */
static void eng_test_too_many_samples(void)
{
    struct gyre_config config;
    struct gyre_error error = { 0 };
    struct gyre_need need;
    gyre_config_default(&config);
    config.net = "input 1x1x1\nlinear 2\nsoftmax\n";
    config.batch = 32768;
    config.shards = 65536;
    T_CHECK(gyre_measure(&config, &need, &error) == GYRE_E_ARG);
    T_CHECK_MSG(strstr(error.text, "65536 shards of 32768"), "%s", error.text);
    config.batch = 32767;
    T_CHECK_MSG(gyre_measure(&config, &need, &error) == GYRE_OK, "%s", error.text);
}

static void eng_test_hostile(void)
{
    struct gyre_config config = eng_config(&eng_cases[0]);
    static struct eng_data d;
    struct gyre_net *net = eng_open(&config);
    struct gyre_error error = { 0 };
    if (!net)
        return;
    eng_fill(&d, &eng_cases[0], 0);
    d.batch.count = 7;
    T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_E_ARG);
    d.batch.count = 0;
    T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_E_ARG);
    T_CHECK(gyre_find_nonfinite(net, &d.batch, NULL, &error) == GYRE_E_ARG && strstr(error.text, "batch of 0 samples"));
    d.batch.count = 6;
    const void *const x = d.batch.x;
    d.batch.x = NULL;
    T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_E_ARG && strcmp(gyre_last_error(net)->text, "batch.x is NULL") == 0);
    T_CHECK(gyre_find_nonfinite(net, &d.batch, NULL, &error) == GYRE_E_ARG && strcmp(error.text, "batch.x is NULL") == 0);
    d.batch.x = x;
    eng_test_mix(net, &d.batch);
    d.label[3] = 5;
    T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_E_ARG && strstr(gyre_last_error(net)->text, "label 5 of sample 3"));
    float few[3];
    T_CHECK(gyre_get_tensor(net, "fc.bias", few, 3) == GYRE_E_ARG);
    T_CHECK(gyre_get_tensor(net, "nothing", few, 3) == GYRE_E_ARG);
    T_CHECK(gyre_load(net, "/nonexistent/file") == GYRE_E_IO);
    T_CHECK(gyre_save(net, "/nonexistent/file") == GYRE_E_IO);
    gyre_close(net);
    gyre_close(NULL);
    config.optimizer.momentum = NAN;
    T_CHECK(gyre_open(&net, &config, &error) == GYRE_E_ARG && strstr(error.text, "momentum"));
    config = eng_config(&eng_cases[0]);
    config.batch = -1;
    T_CHECK(gyre_open(&net, &config, &error) == GYRE_E_ARG && strstr(error.text, "batch is -1"));
    config = eng_config(&eng_cases[0]);
    config.size = 3;
    T_CHECK(gyre_open(&net, &config, &error) == GYRE_E_ARG);
    config = eng_config(&eng_cases[0]);
    config.device = "abacus";
    T_CHECK(gyre_open(&net, &config, &error) == GYRE_E_NODEVICE);
    config = eng_config(&eng_cases[0]);
    config.mode = GYRE_INFER;
    net = eng_open(&config);
    eng_fill(&d, &eng_cases[0], 0);
    T_CHECK(net && gyre_step(net, &d.batch, NULL) == GYRE_E_STATE && gyre_eval(net, &d.batch, NULL) == GYRE_OK);
    gyre_close(net);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 1024);
    for (size_t i = 0; i < GY_COUNT(eng_cases); i++) {
        eng_test_learns(&eng_cases[i], GYRE_SGD, 0.05f);
        eng_test_learns(&eng_cases[i], GYRE_LARS, 0.1f);
        eng_test_learns(&eng_cases[i], GYRE_ADAMW, 0.01f);
        eng_test_bits(&eng_cases[i]);
        eng_test_no_allocation(&eng_cases[i]);
        eng_test_each_failure(&eng_cases[i]);
        eng_test_measure(&eng_cases[i]);
        eng_test_less(&eng_cases[i]);
    }
    eng_test_chunks();
    eng_test_accumulate();
    eng_test_made_again();
    eng_test_nonfinite();
    eng_test_nonfinite_weights();
    eng_test_nonfinite_sum();
    eng_test_nonfinite_parts();
    eng_test_average();
    eng_test_deep();
    eng_test_shard_sentences();
    eng_test_too_many_samples();
    eng_test_hostile();
    T_END("t_engine");
}
