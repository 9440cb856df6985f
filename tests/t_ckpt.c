/* SPDX-License-Identifier: MIT */
/* t_ckpt.c: which net a checkpoint fits. Nets differ in one word of their text, though all names
 * and shapes of tensors are the same. Inputs are normalised in another way, files are of older
 * versions, imported weights have no place in the net. */
#include <sys/mman.h>
#include <unistd.h>

#include "engine/gyre.h"
#include "tests/comma.h"
#include "tests/t.h"

static char ckpt_path[] = "/tmp/gyre_t_ckpt_XXXXXX";
static char ckpt_said[1024]; /* the last line of the log */

static void ckpt_log(void *user, int level, const char *text)
{
    (void)user, (void)level;
    snprintf(ckpt_said, sizeof ckpt_said, "%s", text);
}

static struct gyre_config ckpt_config(const char *net)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = net;
    config.batch = 2;
    config.threads = 1;
    config.log = (struct gyre_logger){ .write = ckpt_log, .level = GYRE_LOG_WARN };
    return config;
}

static struct gyre_net *ckpt_open(const struct gyre_config *config)
{
    struct gyre_net *net = NULL;
    struct gyre_error error = { 0 };
    const int status = gyre_open(&net, config, &error);
    T_CHECK_MSG(status == GYRE_OK, "%s\n%s", error.text, config->net);
    return status == GYRE_OK ? net : NULL;
}

/* The file is a checkpoint of that configuration. */
static void ckpt_write(const struct gyre_config *config)
{
    struct gyre_net *net = ckpt_open(config);
    T_CHECK_MSG(net && gyre_save(net, ckpt_path) == GYRE_OK, "%s", net ? gyre_last_error(net)->text : "");
    gyre_close(net);
}

/* Loads the file; *text: what was said. */
static int ckpt_read(const struct gyre_config *config, char text[512])
{
    struct gyre_net *net = ckpt_open(config);
    const int status = net ? gyre_load(net, ckpt_path) : GYRE_E_BUG;
    snprintf(text, 512, "%s", net && status != GYRE_OK ? gyre_last_error(net)->text : "");
    gyre_close(net);
    return status;
}

/* ---- nets ---- */

static const char ckpt_net[] =
    "input 9x9x4\nc: conv 4 3x3 bias\nrelu\nb: bn\nmaxpool 3x3 stride 2 pad 1\nx: relu6\nl: lrn 3\nd: conv 4 1x1 from x\ny: add l\n"
    "sigmoid\ne: conv 4 1x1\nadd y x\ndropout 0.2\nf: linear 5\nsoftmax smooth 0.1\n";

enum { CKPT_SAME, CKPT_OTHER, CKPT_LOOSE /* another net for training, the same for evaluation */ };
static const struct {
    const char *from, *to; /* one word of the text becomes another */
    int kind;
} ckpt_edits[] = {
    { "input", "# a comment\n\n  input", CKPT_SAME }, { "3x3 bias", "3x3   bias  # here", CKPT_SAME },
    { "3x3 bias", "3 bias stride 1 pad 1x1 groups 1", CKPT_SAME }, { "\nrelu\n", "\nlabel: relu\n", CKPT_SAME },
    { "b: bn", "b: bn eps 1e-5 momentum 0.1", CKPT_SAME }, { "lrn 3", "lrn 3 k 1 beta 0.75", CKPT_SAME },
    { "relu\nb: bn", "block b {\nrelu\n}\nb: bn", CKPT_SAME }, { "input 9x9x4", "input 10x9x4", CKPT_OTHER },
    { "bias", "bias dilation 2", CKPT_OTHER }, { "bias", "bias pad 2", CKPT_OTHER }, { "bias", "bias groups 1 pad 0", CKPT_OTHER },
    { "\nrelu\n", "\nsigmoid\n", CKPT_OTHER }, { "\nrelu\n", "\nrelu6\n", CKPT_OTHER }, { "\nrelu\n", "\n", CKPT_OTHER },
    { "\nrelu\n", "\nrelu\nrelu\n", CKPT_OTHER }, { "b: bn", "b: bn eps 1e-4", CKPT_OTHER }, { "b: bn", "b: bn momentum 0.2", CKPT_OTHER },
    { "maxpool 3x3", "avgpool 3x3", CKPT_OTHER }, { "maxpool 3x3 stride 2 pad 1", "avgpool 3x3 stride 2 pad 1 exclude-pad", CKPT_OTHER },
    { "maxpool 3x3 stride 2 pad 1", "maxpool 1x1 stride 2", CKPT_OTHER }, { "lrn 3", "lrn 5", CKPT_OTHER },
    { "lrn 3", "lrn 3 alpha 0.001", CKPT_OTHER }, { "lrn 3", "lrn 3 beta 0.5", CKPT_OTHER }, { "lrn 3", "lrn 3 k 2", CKPT_OTHER },
    { "add y x", "add x y", CKPT_OTHER }, { "add y x", "add y", CKPT_OTHER }, { "d: conv 4 1x1 from x", "d: conv 4 1x1", CKPT_OTHER },
    { "dropout 0.2", "dropout 0.3", CKPT_LOOSE }, { "smooth 0.1", "smooth 0.2", CKPT_LOOSE },
    { "softmax smooth 0.1", "softmax", CKPT_LOOSE }, { "dropout 0.2\n", "", CKPT_OTHER }, { "softmax smooth 0.1", "mse", CKPT_OTHER },
};

static const char *ckpt_edit(size_t edit, char text[1024])
{
    const char *at = strstr(ckpt_net, ckpt_edits[edit].from);
    T_CHECK_MSG(at != NULL, "%s", ckpt_edits[edit].from);
    if (at)
        snprintf(text, 1024, "%.*s%s%s", (int)(at - ckpt_net), ckpt_net, ckpt_edits[edit].to, at + strlen(ckpt_edits[edit].from));
    return at ? text : ckpt_net;
}

static void ckpt_test_nets(void)
{
    char edited[1024], text[512];
    struct gyre_config config = ckpt_config(ckpt_net);
    ckpt_write(&config);
    for (size_t i = 0; i < GY_COUNT(ckpt_edits); i++)
        for (int mode = GYRE_TRAIN; mode <= GYRE_INFER; mode++) {
            const int kind = ckpt_edits[i].kind, good = kind == CKPT_SAME || (kind == CKPT_LOOSE && mode == GYRE_INFER);
            config = ckpt_config(ckpt_edit(i, edited));
            config.mode = mode;
            const int status = ckpt_read(&config, text);
            T_CHECK_MSG(good ? status == GYRE_OK : status == GYRE_E_MISMATCH && strstr(text, "it is of another net"),
                        "'%s' as '%s', mode %d: %d %s", ckpt_edits[i].from, ckpt_edits[i].to, mode, status, text);
        }
}

/* ---- inputs ---- */

static const struct {
    int input;
    float mean, std; /* of channel c: times 1 + c / 3 */
    const char *text;
} ckpt_inputs[] = {
    { GYRE_INPUT_F32, 0, 1, NULL }, { GYRE_INPUT_U8, 0, 1, NULL }, { GYRE_INPUT_U8, 0.286f, 0.353f, NULL },
    { GYRE_INPUT_U8, 0.286f, 0.35300002f, NULL }, { GYRE_INPUT_F32, 0.286f, 0.353f, NULL }, { GYRE_INPUT_F32, -1e-30f, 3e37f, NULL },
    { GYRE_INPUT_F32, 127.5f, 1.1754944e-38f, NULL },
};

static void ckpt_set_input(struct gyre_config *config, size_t input)
{
    config->input = ckpt_inputs[input].input;
    for (int c = 0; c < 4; c++) {
        config->mean[c] = ckpt_inputs[input].mean * (1 + (float)c / 3);
        config->std[c] = ckpt_inputs[input].std * (1 + (float)c / 3);
    }
}

/* gyre_read_input brings back what was saved, to the bit. */
static void ckpt_check_told(const struct gyre_config *config)
{
    struct gyre_error error = { 0 };
    struct gyre_config told = ckpt_config(ckpt_net);
    T_CHECK_MSG(gyre_read_input(ckpt_path, &told, &error) == GYRE_OK, "%s", error.text);
    T_CHECK_MSG(told.input == config->input && memcmp(told.mean, config->mean, sizeof told.mean) == 0 && memcmp(told.std, config->std, sizeof told.std) == 0,
                "%d %.9g %.9g instead of %d %.9g %.9g", told.input, (double)told.mean[1], (double)told.std[1], config->input, (double)config->mean[1],
                (double)config->std[1]);
}

/* The config of an older program is shorter: no byte behind its size is read or written. */
static void ckpt_check_short(void)
{
    const size_t bytes = offsetof(struct gyre_config, loss_scale) / 8 * 8, page = (size_t)sysconf(_SC_PAGESIZE);
    const struct gyre_config fresh = ckpt_config(ckpt_net);
    FILE *const file = tmpfile(); /* two pages; the second one cannot be touched */
    unsigned char *const pages = file && ftruncate(fileno(file), 2 * (off_t)page) == 0
                                     ? mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0) : MAP_FAILED;
    struct gyre_error error = { 0 };
    if (!T_CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0))
        return;
    struct gyre_config *const told = (void *)(pages + page - bytes);
    const size_t sizes[] = { bytes, offsetof(struct gyre_config, threads) - 1, 0, sizeof fresh + 1 };
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        memcpy(told, &fresh, bytes);
        told->size = sizes[i];
        const int status = gyre_read_input(ckpt_path, told, &error);
        T_CHECK_MSG(i == 0 ? status == GYRE_OK && told->input == GYRE_INPUT_U8
                           : status == GYRE_E_ARG && strstr(error.text, "config.size is") && told->input == GYRE_INPUT_F32,
                    "size %zu: %d %s", sizes[i], status, error.text);
    }
    munmap(pages, 2 * page);
    fclose(file);
}

static void ckpt_test_inputs(void)
{
    char text[512];
    for (size_t was = 0; was < GY_COUNT(ckpt_inputs); was++) {
        struct gyre_config config = ckpt_config(ckpt_net);
        ckpt_set_input(&config, was);
        ckpt_write(&config);
        ckpt_check_told(&config);
        for (size_t now = 0; now < GY_COUNT(ckpt_inputs); now++)
            for (int mode = GYRE_TRAIN; mode <= GYRE_INFER; mode++) {
                ckpt_set_input(&config, now);
                config.mode = mode;
                const int status = ckpt_read(&config, text);
                T_CHECK_MSG(was == now ? status == GYRE_OK : status == GYRE_E_MISMATCH && strstr(text, "its input was '"), "%d, %d: %d %s", (int)was,
                            (int)now, status, text);
            }
    }
    struct gyre_config config = ckpt_config("input 4x4x2\nlinear 3\nsoftmax\n");
    ckpt_set_input(&config, 2);
    ckpt_write(&config);
    ckpt_check_short();
    config.mean[3] = 9; /* no channel has it */
    T_CHECK_MSG(ckpt_read(&config, text) == GYRE_OK, "%s", text);
    config.mean[1] = 0.25f;
    T_CHECK(ckpt_read(&config, text) == GYRE_E_MISMATCH);
    T_CHECK_MSG(strstr(text, "was 'u8 mean 0.286000013 0.381333351 std 0.352999985 0.470666647', this net's is 'u8 mean 0.286000013 0.25 std"), "%s", text);
}

/* Writes `to` over the first place of `from` in the file; both are equally long. */
static void ckpt_patch(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *f = fopen(ckpt_path, "r+b");
    const size_t count = f ? fread(bytes, 1, sizeof bytes, f) : 0, length = strlen(from);
    size_t at = 0;
    while (at + length < count && memcmp(bytes + at, from, length) != 0)
        at++;
    T_CHECK_MSG(f && at + length < count, "no %s", from);
    if (f && fseek(f, (long)at, SEEK_SET) == 0)
        T_CHECK(fwrite(to, 1, strlen(to), f) == length);
    if (f)
        fclose(f);
}

/* Files of before: without the input they load as they did; damaged ones are told. */
static void ckpt_test_old(void)
{
    static const struct {
        const char *from, *to;
        int status; /* of gyre_read_input */
    } rows[] = {
        { "gyre.input", "note.input", GYRE_E_ARG }, { "u8 mean", "u9 mean", GYRE_E_FORMAT }, { "u8 mean 0", "u8 mean ,", GYRE_E_FORMAT },
        { " std ", " stu ", GYRE_E_FORMAT }, { " 1.33333337 ", " 1.33 3 4 5 ", GYRE_E_FORMAT },
    };
    struct gyre_config config = ckpt_config(ckpt_net), other = config;
    struct gyre_error error = { 0 };
    char text[512];
    ckpt_set_input(&config, 1);
    ckpt_set_input(&other, 4);
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        ckpt_write(&config);
        ckpt_patch(rows[i].from, rows[i].to);
        T_CHECK_MSG(gyre_read_input(ckpt_path, &other, &error) == rows[i].status, "%s: %s", rows[i].to, error.text);
        T_CHECK_MSG((ckpt_read(&other, text) == GYRE_OK) == (i == 0), "%s: %s", rows[i].to, text);
    }
}

struct ckpt_budget {
    int64_t left; /* allocations that still succeed */
    int64_t live; /* bytes */
};

static void *ckpt_limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct ckpt_budget *budget = user;
    if (new_bytes == 0) {
        free(ptr);
        budget->live -= ptr ? (int64_t)old_bytes : 0;
        return NULL;
    }
    void *grown = budget->left-- > 0 ? realloc(ptr, new_bytes) : NULL;
    if (grown && !ptr)
        memset(grown, 0, new_bytes);
    budget->live += grown ? (int64_t)new_bytes - (ptr ? (int64_t)old_bytes : 0) : 0;
    return grown;
}

/* Every allocation of loading fails once, with another text of the net. Each time there is a clean
 * error, the net stays as it was, and no memory is left. */
static void ckpt_test_memory(void)
{
    struct ckpt_budget budget = { INT64_MAX, 0 };
    char edited[1024];
    struct gyre_config config = ckpt_config(ckpt_net);
    ckpt_write(&config);
    config = ckpt_config(ckpt_edit(0, edited));
    config.memory.hook = ckpt_limited;
    config.memory.user = &budget;
    struct gyre_net *net = ckpt_open(&config);
    const int64_t live = budget.live;
    int loaded = 0, failed = 0;
    for (int left = 0; net && left < 200 && !loaded; left++) {
        budget.left = left;
        const int status = gyre_load(net, ckpt_path);
        loaded = status == GYRE_OK;
        failed += !loaded;
        T_CHECK_MSG((loaded || status == GYRE_E_NOMEM) && budget.live == live, "%d: %d %s, %d bytes are left", left, status, gyre_last_error(net)->text,
                    (int)(budget.live - live));
    }
    T_CHECK_MSG(loaded && failed > 3, "%d", failed);
    gyre_close(net);
    T_CHECK(budget.live == 0);
}

/* ---- imports ---- */

static int ckpt_import(const char *net_text, int partial, int *skipped, char text[512])
{
    const struct gyre_config config = ckpt_config(net_text);
    struct gyre_net *net = ckpt_open(&config);
    ckpt_said[0] = 0;
    const int status = net ? gyre_import(net, ckpt_path, partial, skipped) : GYRE_E_BUG;
    snprintf(text, 512, "%s", net && status != GYRE_OK ? gyre_last_error(net)->text : "");
    gyre_close(net);
    return status;
}

static void ckpt_test_import(void)
{
    static const char large[] = "input 6x6x3\nc: conv 4 3x3\nb: bn\nrelu\nc2: conv 4 3x3\nb2: bn\nrelu\nf: linear 5\nsoftmax\n",
                      small[] = "input 6x6x3\nc: conv 4 3x3\nb: bn\nrelu\nf: linear 5\nsoftmax\n";
    struct gyre_config config = ckpt_config(large);
    char text[512];
    int skipped = 77;
    config.optimizer.kind = GYRE_ADAMW;
    config.optimizer.ema = 0.5f;
    ckpt_write(&config); /* with its optimiser's state */
    T_CHECK_MSG(ckpt_import(large, 0, &skipped, text) == GYRE_OK && skipped == 0 && !ckpt_said[0], "%s %s", text, ckpt_said);
    T_CHECK_MSG(ckpt_import(small, 0, &skipped, text) == GYRE_E_MISMATCH && !strstr(text, "of its tensors are not in this net, such as 'b2") &&
                strstr(text, "of its tensors are not in this net, such as '"), "%s", text);
    T_CHECK_MSG(ckpt_import(small, 1, &skipped, text) == GYRE_OK && skipped == 0 && strstr(ckpt_said, "are not in this net, such as '"), "%s %s", text,
                ckpt_said);
    struct gyre_net *net = ckpt_open(&config);
    /* PyTorch's form: weights, and the count of batches of each norm */
    T_CHECK(net && gyre_export(net, ckpt_path) == GYRE_OK);
    gyre_close(net);
    T_CHECK_MSG(ckpt_import(large, 0, &skipped, text) == GYRE_OK && !ckpt_said[0], "%s %s", text, ckpt_said);
    T_CHECK_MSG(ckpt_import(small, 0, &skipped, text) == GYRE_E_MISMATCH && strstr(text, ": 5 of its tensors are not in this net, such as '"), "%s", text);
    T_CHECK_MSG(ckpt_import(small, 1, &skipped, text) == GYRE_OK && strstr(ckpt_said, ": 5 of its tensors"), "%s %s", text, ckpt_said);
}

/* ---- names ---- */

static const char ckpt_labels[] = "input 4x4x3\na: conv 3 3x3\nmomentum.a: conv 3 3x3\nsecond.a: conv 3 3x3\n"
                                  "ema.a: conv 3 3x3\nema.ema.a: conv 3 3x3\ngrad.a: conv 3 3x3\nlinear 5\nsoftmax\n";

static float ckpt_loss(struct gyre_net *net, int steps)
{
    static const float x[2 * 48] = { 1, -2, 3, [60] = 2, -1 };
    static const int32_t label[2] = { 1, 4 };
    const struct gyre_batch batch = { .x = x, .label = label, .count = 2 };
    struct gyre_result r = { 0 };
    for (int i = 0; i < steps; i++)
        T_CHECK_MSG(gyre_step(net, &batch, &r) == GYRE_OK, "%s", gyre_last_error(net)->text);
    T_CHECK(gyre_eval(net, &batch, &r) == GYRE_OK);
    return (float)r.loss;
}

/* A layer's weights are called as another layer's optimiser state, average or gradient. */
static void ckpt_test_names(void)
{
    for (int ema = 0; ema < 2; ema++) {
        struct gyre_config config = ckpt_config(ckpt_labels);
        char text[512];
        int skipped = 77;
        config.optimizer.kind = GYRE_ADAMW;
        config.optimizer.ema = ema ? 0.5f : 0;
        config.accumulate = 2;
        config.schedule.rate = 0.01f;
        struct gyre_net *net = ckpt_open(&config), *again = ckpt_open(&config);
        ckpt_loss(net, 3);
        T_CHECK_MSG(gyre_save(net, ckpt_path) == GYRE_OK && gyre_load(again, ckpt_path) == GYRE_OK, "%s %s", gyre_last_error(net)->text,
                    gyre_last_error(again)->text);
        const float now = ckpt_loss(net, 0), later = ckpt_loss(net, 4), same = ckpt_loss(again, 4);
        T_CHECK_MSG(memcmp(&later, &same, sizeof same) == 0 && memcmp(&later, &now, sizeof now) != 0, "ema %d: %g and %g", ema, (double)later, (double)same);
        gyre_close(again);
        gyre_close(net);
        T_CHECK_MSG(ckpt_import(ckpt_labels, 0, &skipped, text) == GYRE_OK && skipped == 0, "%s", text);
        config.mode = GYRE_INFER;
        again = ckpt_open(&config);
        T_CHECK(gyre_load(again, ckpt_path) == GYRE_OK);
        const float infer = ckpt_loss(again, 0);
        T_CHECK_MSG(memcmp(&infer, &now, sizeof now) == 0, "ema %d: %g when it was saved, %g with GYRE_INFER", ema, (double)now, (double)infer);
        gyre_close(again);
    }
}

/* ---- locales ---- */

/* Half a batch waits for its update: the file says 0.5, whatever the program's locale. */
static void ckpt_test_comma(void)
{
    static const float x[2 * 48] = { 1, -2, 3 };
    static const int32_t label[2] = { 1, 4 };
    const struct gyre_batch half = { .x = x, .label = label, .count = 1 };
    struct gyre_config config = ckpt_config(ckpt_labels), told;
    struct gyre_error error = { 0 };
    char text[512];
    config.accumulate = 2;
    config.mean[0] = 0.25f;
    if (!test_comma()) {
        T_SKIP("no locale with a decimal comma is installed, and localedef makes none");
        return;
    }
    struct gyre_net *net = ckpt_open(&config);
    T_CHECK(gyre_step(net, &half, NULL) == GYRE_OK && gyre_save(net, ckpt_path) == GYRE_OK);
    gyre_close(net);
    T_CHECK_MSG(ckpt_read(&config, text) == GYRE_OK, "%s", text);
    gyre_config_default(&told);
    T_CHECK(gyre_read_input(ckpt_path, &told, &error) == GYRE_OK &&
            memcmp(told.mean, config.mean, sizeof told.mean) == 0);
    setlocale(LC_ALL, "C");
    T_CHECK_MSG(ckpt_read(&config, text) == GYRE_OK, "%s", text);
}

int main(void)
{
    const int fd = mkstemp(ckpt_path);
    if (fd < 0)
        return 2;
    close(fd);
    ckpt_test_nets();
    ckpt_test_inputs();
    ckpt_test_old();
    ckpt_test_memory();
    ckpt_test_import();
    ckpt_test_names();
    ckpt_test_comma();
    remove(ckpt_path);
    T_END("t_ckpt");
}
