/* SPDX-License-Identifier: MIT */
/* cmd_common.c: what several commands (cmd_*.c) need: sentences and exit codes, nets by name or
 * file, data sets by path, checkpoints with their notes. */
#include "engine/gyre_job.h"
#include "tools/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- sentences ---- */

int cli_exit_of(int status)
{
    static const struct {
        int from, to, code; /* from above to, as the ranges of enum gyre_status */
    } rows[] = {
        { GYRE_OK, GYRE_OK, CLI_OK },
        { GYRE_E_ARG, GYRE_E_IO + 1, CLI_USAGE },
        { GYRE_E_IO, GYRE_E_NOMEM + 1, CLI_DATA },
        { GYRE_E_NOMEM, GYRE_E_DEVICE + 1, CLI_RESOURCES },
        { GYRE_E_NONFINITE, GYRE_E_NONFINITE, CLI_NONFINITE },
        { GYRE_E_STOPPED, GYRE_E_STOPPED, CLI_STOPPED },
    };
    for (size_t i = 0; i < CLI_COUNT(rows); i++)
        if (status <= rows[i].from && status >= rows[i].to)
            return rows[i].code;
    return CLI_FAILED;
}

int cli_path(char *path, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int bytes = vsnprintf(path, room, fmt, args);
    va_end(args);
    if (bytes >= 0 && (size_t)bytes < room)
        return CLI_OK;
    return cli_fail(CLI_USAGE, "the path %.80s... has %d bytes; at most %zu are taken", path, bytes, room - 1);
}

int cli_error(const struct gyre_error *error) { return cli_fail(cli_exit_of(error->status), "%s", error->text); }

int cli_job_end(struct gyre_job *job, int code)
{
    struct gyre_error error;
    return (code == CLI_OK || code == CLI_STOPPED || code == CLI_UNPROVED) && gyre_job_end(job, &error) != GYRE_OK ? cli_error(&error) : code;
}

int cli_net_error(const struct gyre_net *net) { return cli_error(gyre_last_error(net)); }

static void write_log(void *user, int level, const char *text)
{
    static const char *const names[] = { "", "error: ", "warning: ", "", "" };
    char plain[2048];
    (void)user;
    cli_progress_skip_line();
    fprintf(stderr, "gyre: %s%s\n", level >= 1 && level <= 4 ? names[level] : "", cli_plain(plain, sizeof plain, text));
}

struct gyre_logger cli_logger(int64_t level)
{
    return (struct gyre_logger){ .write = write_log, .level = level > 0 ? (int)level : GYRE_LOG_WARN };
}

/* ---- text ---- */

static int write_stdout(void *user, const char *text, size_t bytes)
{
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes ? 0 : -1;
}

const struct gyre_sink cli_stdout = { write_stdout, NULL };

static int write_text(void *user, const char *text, size_t bytes)
{
    struct cli_text *t = user;
    if (t->room - t->bytes < bytes + 1) {
        const size_t room = 2 * t->room + bytes + 4096;
        char *grown = realloc(t->text, room);
        if (!grown)
            return -1;
        t->text = grown;
        t->room = room;
    }
    memcpy(t->text + t->bytes, text, bytes);
    t->bytes += bytes;
    t->text[t->bytes] = 0;
    return 0;
}

struct gyre_sink cli_text_sink(struct cli_text *text)
{
    memset(text, 0, sizeof *text);
    return (struct gyre_sink){ write_text, text };
}

void cli_text_free(struct cli_text *text)
{
    free(text->text);
    memset(text, 0, sizeof *text);
}

/* Bytes of the file, at most room; -1 with errno. */
static ssize_t read_all(int fd, char *text, size_t room)
{
    size_t bytes = 0;
    for (ssize_t some = 1; some != 0 && bytes < room; bytes += some > 0 ? (size_t)some : 0) {
        some = read(fd, text + bytes, room - bytes);
        if (some < 0 && errno != EINTR)
            return -1;
    }
    return (ssize_t)bytes;
}

static char *read_open_file(int fd, const char *path, size_t limit, struct gyre_error *error)
{
    char *text = malloc(limit + 2);
    const ssize_t bytes = text ? read_all(fd, text, limit + 1) : 0;
    if (text && bytes >= 0 && (size_t)bytes <= limit) {
        text[bytes] = 0;
        return text;
    }
    error->status = !text ? GYRE_E_NOMEM : bytes < 0 ? GYRE_E_IO : GYRE_E_FORMAT;
    if (bytes > 0)
        snprintf(error->text, sizeof error->text, "%.300s: larger than %zu bytes", path, limit);
    else
        snprintf(error->text, sizeof error->text, "%.300s: cannot be read: %s", path, strerror(errno));
    free(text);
    return NULL;
}

char *cli_read_file(const char *path, size_t limit, struct gyre_error *error)
{
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        error->status = GYRE_E_IO;
        snprintf(error->text, sizeof error->text, "%.300s: cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    char *text = read_open_file(fd, path, limit, error);
    close(fd);
    return text;
}

const char *cli_bytes(char buf[32], double bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    size_t unit = 0;
    for (; bytes >= 1000 && unit + 1 < CLI_COUNT(units); unit++)
        bytes /= 1000;
    snprintf(buf, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buf;
}

int cli_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int cli_spare(const char *written, const char *other)
{
    struct stat a, b;
    if (!written || !other)
        return CLI_OK;
    int same = strcmp(written, other) == 0;
    if (stat(written, &a) == 0 && stat(other, &b) == 0)
        same = S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    if (!same)
        return CLI_OK;
    return cli_fail(CLI_USAGE, "%s would be written over by the same command", other);
}

static int out_fail(const struct cli_out *out, int reason)
{
    return cli_fail(CLI_DATA, "%s: cannot be written: %s", out->path, strerror(reason));
}

int cli_out_open(struct cli_out *out, const char *path)
{
    struct stat info;
    *out = (struct cli_out){ .path = path };
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) {
        const int code = cli_path(out->temp, sizeof out->temp, "%s.part%ld", path, (long)getpid());
        if (code != CLI_OK)
            return code;
    }
    out->file = fopen(out->temp[0] ? out->temp : path, "wb");
    return out->file ? CLI_OK : out_fail(out, errno);
}

/* A pipe is not opened: it would wait for its reader, and lose it. */
int cli_can_write(const char *path)
{
    struct stat info;
    struct cli_out out;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return CLI_OK;
    const int code = cli_out_open(&out, path);
    if (code == CLI_OK)
        cli_out_close(&out, CLI_STOPPED);
    return code;
}

int cli_out_failed(struct cli_out *out)
{
    if (ferror(out->file) && out->reason == 0)
        out->reason = errno != 0 ? errno : EIO;
    return out->reason != 0;
}

int cli_out_close(struct cli_out *out, int code)
{
    if (!cli_out_failed(out) && fflush(out->file) != 0)
        out->reason = errno;
    if (out->reason == 0 && code == CLI_OK && out->temp[0] && fsync(fileno(out->file)) != 0)
        out->reason = errno;
    if (fclose(out->file) != 0 && out->reason == 0)
        out->reason = errno;
    if (out->reason == 0 && code == CLI_OK && out->temp[0] && rename(out->temp, out->path) != 0)
        out->reason = errno;
    if (out->reason != 0 && code == CLI_OK)
        code = out_fail(out, out->reason);
    if (code != CLI_OK && out->temp[0])
        remove(out->temp);
    return code;
}

/* ---- nets ---- */

const struct cli_option cli_net_option_rows[CLI_NET_ROWS] = {
    { "threads", "N", "0", "threads that compute; 0: one per processor", CLI_WHOLE, offsetof(struct cli_net_options, threads), 0, 4096 },
    { "pin", "auto|on|off", "auto", "bind these threads to processors; auto: keep them apart when they fill the machine", CLI_CHOICE,
      offsetof(struct cli_net_options, pin), 0, 0 },
    { "isa", "NAME", NULL, "kernel set: ref, avx2, avx512, avx512bf16, amx, vsx, mma; default: the best this processor has", CLI_TEXT,
      offsetof(struct cli_net_options, isa), 0, 0 },
    { "tune", "FILE|off", NULL, "block sizes measured by gyre tune; default: GYRE_TUNE, else ~/.cache/gyre/tune.txt where it is",
      CLI_TEXT, offsetof(struct cli_net_options, tune), 0, 0 },
    { "device", "NAME", "cpu",
      "where to compute: cpu; cuda or cuda:N, a GPU; cuda:all, of train: all GPUs of this machine, "
      "a process each; auto, a GPU where one works; emu, the CUDA emulator", CLI_TEXT,
      offsetof(struct cli_net_options, device), 0, 0 },
    { "dtype", "f32|bf16|f16", "f32", "what activations are stored as; bf16, f16: half the memory, sums and weights stay float; f16: on a GPU",
      CLI_CHOICE, offsetof(struct cli_net_options, dtype), 0, 0 },
    { "seed", "N", "1", "start of all random numbers", CLI_WHOLE, offsetof(struct cli_net_options, seed), 0, 9e15 },
    { "log", "error|warn|info|debug", "warn", "what is said on standard error", CLI_CHOICE, offsetof(struct cli_net_options, log), 0, 0 },
};

void cli_net_config(struct gyre_config *config, const struct cli_net_options *options, const char *text, const char *name)
{
    gyre_config_default(config);
    config->net = text;
    config->net_name = name;
    config->threads = (int)options->threads;
    config->seed = (uint64_t)options->seed;
    config->isa = options->isa;
    config->pin = (int)options->pin;
    config->tune = options->tune;
    config->dtype = (int)options->dtype;
    config->device = options->device ? options->device : "cpu"; /* NULL: of --log alone */
    /* compiling a GPU's kernels takes a while, so the log shows it */
    const int gpu = strcmp(config->device, "cpu") != 0;
    config->log = cli_logger(options->log + 1 + (gpu && options->log == 1));
    config->use_env = 1;
}

int cli_is_zoo_name(const char *name)
{
    for (int i = 0; gyre_zoo_name(i); i++)
        if (strcmp(gyre_zoo_name(i), name) == 0)
            return 1;
    return 0;
}

static int say_no_net(const char *name)
{
    const char *names[64];
    size_t count = 0;
    for (; count < CLI_COUNT(names) && gyre_zoo_name((int)count); count++)
        names[count] = gyre_zoo_name((int)count);
    const char *near = cli_nearest(name, names, count);
    if (near)
        return cli_fail(CLI_USAGE, "'%s' is neither a file nor a net of the zoo; did you mean %s?", name, near);
    return cli_fail(CLI_USAGE, "'%s' is neither a file nor a net of the zoo; 'gyre zoo' lists those", name);
}

char *cli_net_text(const char *name, const struct gyre_shape *shape, int *exit_code)
{
    struct gyre_error error = { 0 };
    struct cli_text text;
    struct stat info;
    const struct gyre_sink sink = cli_text_sink(&text);
    if (!cli_is_zoo_name(name) && stat(name, &info) != 0) {
        *exit_code = say_no_net(name);
        return NULL;
    }
    if (!cli_is_zoo_name(name) && (shape->h || shape->c || shape->classes)) {
        *exit_code = cli_fail(CLI_USAGE, "--size, --classes and --channels are for nets "
                              "of the zoo; the text of %s has its own", name);
        return NULL;
    }
    if (cli_is_zoo_name(name)) {
        if (gyre_zoo_text(name, shape->classes, shape->h, shape->w, shape->c, &sink, &error) == GYRE_OK)
            return text.text;
        cli_text_free(&text);
    } else
        text.text = cli_read_file(name, (size_t)1 << 20, &error);
    if (!text.text)
        *exit_code = cli_error(&error);
    return text.text;
}

int cli_net_splits(const char *name)
{
    struct gyre_error error;
    char *const text = cli_is_zoo_name(name) ? NULL : cli_read_file(name, (size_t)1 << 20, &error);
    int splits = 0;
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += strspn(at, "\r\n");
        const size_t line = strcspn(at, "#\r\n");
        const char *const linear = strstr(at, "linear "), *const word = linear ? strstr(linear, " split") : NULL;
        splits |= word && word + 6 <= at + line && strchr(" \t#\r\n", word[6]) != NULL;
    }
    free(text);
    return splits;
}

/* "input 28x28x1", with or without a name, is the first line that is not empty or a comment. A byte
 * order mark may be before it. */
void cli_net_input(const char *text, struct gyre_shape *shape)
{
    static const char mark[] = "\xef\xbb\xbf";
    *shape = (struct gyre_shape){ 0, 0, 3, 0, 0 };
    text += strncmp(text, mark, sizeof mark - 1) == 0 ? sizeof mark - 1 : 0;
    for (const char *at = text; at && *at; at = strchr(at, '\n')) {
        long side[3] = { 0, 0, 0 };
        int count = 0;
        at += strspn(at, " \t\r\n");
        if (*at == '#')
            continue;
        const size_t name = strcspn(at, " \t\r\n");
        if (name > 0 && at[name - 1] == ':')
            at += name + strspn(at + name, " \t");
        if (strncmp(at, "input", 5) != 0 || (at[5] != ' ' && at[5] != '\t'))
            return;
        const char *next = at + 5;
        for (char *end; count < 3 && (count == 0 || *next == 'x'); count++, next = end)
            side[count] = strtol(next + 1, &end, 10);
        if (count == 3 && side[0] <= INT32_MAX && side[1] <= INT32_MAX && side[2] <= INT32_MAX)
            *shape = (struct gyre_shape){ (int32_t)side[0], (int32_t)side[1], (int32_t)side[2], 0, 0 };
        return;
    }
}

/* ---- data ---- */

static int open_source(struct gyre_data **data, const struct cli_source *source, const char *split, struct gyre_error *error)
{
    struct gyre_data_config config;
    gyre_data_config_default(&config);
    config.path = source->path;
    config.split = split;
    config.max_bad = source->max_bad;
    config.log = cli_logger(source->log + 1);
    config.hold_out = source->hold_out;
    config.hold_seed = source->hold_seed;
    config.held = source->held;
    *data = NULL;
    return gyre_open_data(data, &config, error);
}

int cli_open_split(struct gyre_data **data, const struct cli_source *source, char why[480])
{
    struct gyre_error error;
    const int status = open_source(data, source, source->split, &error);
    if (status != GYRE_E_FORMAT && status != GYRE_E_ARG)
        return status == GYRE_OK ? CLI_OK : cli_error(&error);
    memcpy(why, error.text, sizeof error.text);
    return CLI_OK;
}

int cli_open_data(struct gyre_data **data, const struct cli_source *source)
{
    struct gyre_error error, whole;
    struct gyre_data_info info;
    const int status = open_source(data, source, source->split, &error);
    if (status == GYRE_OK)
        return CLI_OK;
    if (status != GYRE_E_FORMAT || open_source(data, source, "", &whole) != GYRE_OK)
        return cli_error(&error);
    gyre_get_data_info(*data, &info);
    if (!info.split[0])
        return CLI_OK;
    gyre_close_data(*data); /* it has splits, and not the one that was asked for */
    *data = NULL;
    return cli_error(&error);
}

int cli_normalisation(const struct cli_reals *mean, const struct cli_reals *std, int32_t channels, float out_mean[4],
                      float out_std[4])
{
    static const float gray[2] = { 0.2860f, 0.3530f };
    static const float colour[2][3] = { { 0.485f, 0.456f, 0.406f }, { 0.229f, 0.224f, 0.225f } };
    const struct cli_reals *given[2] = { mean, std };
    float *out[2] = { out_mean, out_std };
    for (int k = 0; k < 2; k++) {
        if (given[k]->count > 1 && given[k]->count != channels)
            return cli_fail(CLI_USAGE, "--%s has %d numbers; the net's input has %d channels", k ? "std" : "mean", given[k]->count,
                            channels);
        for (int c = 0; c < 4; c++)
            out[k][c] = given[k]->count ? (float)given[k]->value[given[k]->count > 1 && c < channels ? c : 0]
                        : channels == 3 ? colour[k][c < 3 ? c : 0] : gray[k];
    }
    return CLI_OK;
}

/* ---- notes in checkpoints ---- */

static int note_floats(struct gyre_net *net, const char *key, const float *values, int32_t count)
{
    char text[128] = "";
    for (int32_t i = 0, used = 0; i < count && i < 4; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%.9g", i ? "," : "", (double)values[i]);
    return gyre_note(net, key, text) == GYRE_OK ? CLI_OK : cli_net_error(net);
}

int cli_note_input(struct gyre_net *net, const float mean[4], const float std[4], int32_t channels, int32_t resize)
{
    char text[32];
    snprintf(text, sizeof text, "%d", resize);
    int code = note_floats(net, "mean", mean, channels);
    if (code == CLI_OK)
        code = note_floats(net, "std", std, channels);
    if (code == CLI_OK && gyre_note(net, "resize", text) != GYRE_OK)
        code = cli_net_error(net);
    return code;
}

#define IMAGE_SIDE 16384 /* longest side of an image that the library reads */
#define HOLD_NOTE "val-split"

int cli_note_hold(struct gyre_net *net, const struct gyre_data *data)
{
    struct gyre_data_info info;
    char text[160];
    gyre_get_data_info(data, &info);
    snprintf(text, sizeof text, "%.6g of each class by seed %" PRIu64 ", of %" PRId64 " images with labels %08" PRIx32, info.hold_out, info.hold_seed,
             info.hold_of, info.hold_labels);
    return !(info.hold_out > 0) || gyre_note(net, HOLD_NOTE, text) == GYRE_OK ? CLI_OK : cli_net_error(net);
}

/* A note of a checkpoint; "" where there is none. */
static int read_note(const char *path, const char *key, char *text, size_t room)
{
    struct gyre_error error;
    text[0] = 0;
    const int status = gyre_read_note(path, key, text, room, &error);
    return status == GYRE_OK || status == GYRE_E_ARG ? CLI_OK : cli_error(&error);
}

/* Where the text goes on behind a word; NULL when something else stands there. */
static const char *text_after(const char *text, const char *word)
{
    const size_t bytes = strlen(word);
    return strncmp(text, word, bytes) == 0 ? text + bytes : NULL;
}

/* Reads what cli_note_hold wrote; else all is zero. It does not use sscanf, which alone is a
 * fiftieth of the static command. */
static struct cli_hold hold_of_text(const char *text)
{
    static const struct cli_hold none;
    struct cli_hold hold = none;
    char *end;
    hold.share = strtod(text, &end);
    const char *at = text_after(end, " of each class by seed ");
    if (at) {
        hold.seed = strtoull(at, &end, 10);
        at = text_after(end, ", of ");
    }
    if (at) {
        hold.of = strtoll(at, &end, 10);
        at = text_after(end, " images with labels ");
    }
    if (!at)
        return none;
    hold.labels = (uint32_t)strtoul(at, &end, 16);
    return end > at ? hold : none;
}

static int names_of_data(const struct gyre_sink *sink, const struct gyre_data *data)
{
    struct gyre_data_info info;
    int failed = 0;
    gyre_get_data_info(data, &info);
    for (int32_t i = 0; i < info.classes; i++) {
        const char *name = gyre_class_name(data, i);
        failed |= sink->write(sink->user, name, strcspn(name, "\n")) | sink->write(sink->user, "\n", 1);
    }
    return failed ? CLI_RESOURCES : CLI_OK;
}

static int names_of_list(const struct gyre_sink *sink, const char *list, int32_t classes)
{
    int32_t count = 0;
    if (strchr(list, '\n')) /* a note has a name a line */
        return cli_fail(CLI_USAGE, "--names has a line break; names are between commas");
    for (const char *at = list; at; count++) {
        const size_t bytes = strcspn(at, ",");
        if (sink->write(sink->user, at, bytes) || sink->write(sink->user, "\n", 1))
            return CLI_RESOURCES;
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    return count == classes ? CLI_OK : cli_fail(CLI_USAGE, "--names has %d names; the net has %d classes", count, classes);
}

int cli_note_classes(struct gyre_net *net, const struct gyre_data *data, const char *names)
{
    struct gyre_shape shape;
    struct cli_text text;
    const struct gyre_sink sink = cli_text_sink(&text);
    gyre_get_shape(net, &shape);
    const int code = names ? names_of_list(&sink, names, shape.classes) : names_of_data(&sink, data);
    if (code == CLI_OK && text.text && (text.bytes > 12000 || gyre_note(net, "classes", text.text) != GYRE_OK))
        fprintf(stderr, "gyre: warning: the names of %d classes are too long for the checkpoint; it will know only numbers\n",
                shape.classes);
    cli_text_free(&text);
    return code;
}

const char *cli_class(const char *names, int32_t i, char *buf, size_t room)
{
    for (int32_t k = 0; names && *names; k++) {
        const size_t bytes = strcspn(names, "\n");
        if (k == i) {
            snprintf(buf, room, "%.*s", (int)bytes, names);
            return buf;
        }
        names += bytes + (names[bytes] == '\n');
    }
    snprintf(buf, room, "%d", i);
    return buf;
}

int cli_only_numbers(const struct gyre_data *data)
{
    struct gyre_data_info info;
    char number[16];
    gyre_get_data_info(data, &info);
    for (int32_t i = 0; i < info.classes; i++) {
        snprintf(number, sizeof number, "%d", i);
        if (strcmp(gyre_class_name(data, i), number) != 0)
            return 0;
    }
    return 1;
}

/* ---- checkpoints ---- */

/* Up to four numbers with commas; what is missing is `initial`. */
static void floats_of_text(const char *text, float initial, float out[4])
{
    for (int c = 0; c < 4; c++)
        out[c] = initial;
    for (int c = 0; c < 4 && *text; c++) {
        char *end;
        out[c] = (float)strtod(text, &end);
        if (*end != ',')
            break;
        text = end + 1;
    }
}

/* What checkpoints of older versions have: mean and std as this command noted them. */
static int read_old_input(struct cli_checkpoint *c)
{
    char mean[256], std[256];
    int code = read_note(c->path, "mean", mean, sizeof mean);
    code = code != CLI_OK ? code : read_note(c->path, "std", std, sizeof std);
    if (code != CLI_OK)
        return code;
    floats_of_text(mean, 0, c->mean);
    floats_of_text(std, 1, c->std);
    c->has_input = mean[0] && std[0];
    return CLI_OK;
}

/* As the library wrote it; in checkpoints of older versions, as this command noted it. */
static int read_input(struct cli_checkpoint *c)
{
    struct gyre_config config;
    struct gyre_error error;
    gyre_config_default(&config);
    const int status = gyre_read_input(c->path, &config, &error);
    if (status != GYRE_OK)
        return status == GYRE_E_ARG ? read_old_input(c) : cli_error(&error);
    c->has_input = 1;
    c->real = config.input == GYRE_INPUT_F32;
    memcpy(c->mean, config.mean, sizeof c->mean);
    memcpy(c->std, config.std, sizeof c->std);
    return CLI_OK;
}

static int damaged_note(const struct cli_checkpoint *c, const char *key, const char *text)
{
    return cli_fail(CLI_DATA, "%.300s: its note '%s', '%.80s', is damaged", c->path, key, text);
}

static int read_checkpoint(struct cli_checkpoint *c)
{
    const size_t room = (size_t)1 << 20;
    struct gyre_error error;
    char resize[32], hold[160];
    c->net = malloc(room);
    c->classes = malloc(16384);
    if (!c->net || !c->classes)
        return cli_fail(CLI_RESOURCES, "out of memory: a net's text needs %zu bytes", room);
    if (gyre_read_net(c->path, c->net, room, NULL, &error) != GYRE_OK)
        return error.status == GYRE_E_ARG ? cli_fail(CLI_DATA, "%s is not a checkpoint of Gyre ('gyre import' makes one from weights)",
                                                     c->path)
                                          : cli_error(&error);
    int code = read_note(c->path, "classes", c->classes, 16384);
    code = code != CLI_OK ? code : read_note(c->path, "resize", resize, sizeof resize);
    code = code != CLI_OK ? code : read_note(c->path, HOLD_NOTE, hold, sizeof hold);
    if (code != CLI_OK)
        return code;
    char *end;
    const long side = strtol(resize, &end, 10);
    if (*end || side < 0 || side > IMAGE_SIDE)
        return damaged_note(c, "resize", resize);
    c->resize = (int32_t)side;
    c->hold = hold_of_text(hold);
    if (hold[0] && !(c->hold.share > 0 && c->hold.share < 1 && c->hold.of > 0))
        return damaged_note(c, HOLD_NOTE, hold);
    return read_input(c);
}

int cli_open_checkpoint(struct cli_checkpoint *c, const char *path)
{
    struct gyre_error error;
    int code = CLI_OK;
    memset(c, 0, sizeof *c);
    if (!cli_is_folder(path))
        code = cli_path(c->path, sizeof c->path, "%s", path);
    else if (gyre_find_checkpoint(path, c->path, sizeof c->path, &error) != GYRE_OK)
        return cli_error(&error);
    if (code == CLI_OK)
        code = read_checkpoint(c);
    if (code != CLI_OK)
        cli_close_checkpoint(c);
    return code;
}

void cli_close_checkpoint(struct cli_checkpoint *c)
{
    free(c->net);
    free(c->classes);
    c->net = c->classes = NULL;
}

int cli_open_net(struct gyre_net **net, const struct cli_checkpoint *c, const struct cli_net_options *options, int batch)
{
    struct gyre_config config;
    struct gyre_error error;
    cli_net_config(&config, options, c->net, c->path);
    config.mode = GYRE_INFER;
    config.batch = batch;
    config.input = c->real ? GYRE_INPUT_F32 : GYRE_INPUT_U8;
    memcpy(config.mean, c->mean, sizeof config.mean);
    memcpy(config.std, c->std, sizeof config.std);
    *net = NULL;
    if (gyre_open(net, &config, &error) != GYRE_OK)
        return cli_error(&error);
    if (gyre_load(*net, c->path) == GYRE_OK)
        return CLI_OK;
    const int code = cli_net_error(*net);
    gyre_close(*net);
    *net = NULL;
    return code;
}

#undef HOLD_NOTE
#undef IMAGE_SIDE
