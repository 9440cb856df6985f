/* SPDX-License-Identifier: MIT */
/* cli.h: what the files of the command in tools/ share. A command is a row (struct cli_command)
 * and its options are rows, too. From these rows come parsing, defaults, help and "did you mean".
 * The command knows the library only through its public headers and lab.h. A new command is a row
 * beside its code, declared at the end of this file, and a line in a table of gyre.c. */
#ifndef GYRE_CLI_H
#define GYRE_CLI_H
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "engine/gyre.h"
#include "engine/gyre_glm.h"
#include <inttypes.h>
#include <stdio.h>

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#if defined(__GNUC__)
#define CLI_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))
#else
#define CLI_PRINTF(fmt_at, args_at)
#endif

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,    /* anything that has no code of its own */
    CLI_USAGE = 2,     /* command, option or net text is wrong */
    CLI_DATA = 3,      /* a file cannot be read, written or used */
    CLI_RESOURCES = 4, /* memory or device is missing */
    CLI_NONFINITE = 5, /* a loss or gradient is not finite */
    CLI_STOPPED = 6,   /* stopped by a signal; a checkpoint was written */
    CLI_UNPROVED = 7   /* linear model: the gap was not reached, or a claim of its file is wrong */
};

/* ---- sentences, words, JSON (cli.c) ---- */

/* "gyre: ..." on stderr; returns the code */
int cli_fail(int exit_code, const char *fmt, ...) CLI_PRINTF(2, 3);
const char *cli_nearest(const char *word, const char *const *words, size_t count); /* or NULL */
void cli_json_text(FILE *file, const char *text);                         /* quoted */
const char *cli_json_number(char buf[32], double value); /* "null" when not finite */
/* text with control characters as \xNN, for terminals; returns buf, in which what is too long is
 * cut */
const char *cli_plain(char *buf, size_t room, const char *text);
void cli_progress_keep_line(void); /* a bar stands on the terminal's last line */
int cli_progress_skip_line(void); /* ends an unfinished bar before other output */

/* ---- options (cmd_options.c) ---- */

enum cli_type {
    CLI_FLAG,   /* int64_t: 1 when given, 0 with "=off" */
    CLI_WHOLE,  /* int64_t in [lo, hi] */
    CLI_REAL,   /* double in [lo, hi] */
    CLI_TEXT,   /* const char * */
    CLI_CHOICE, /* int64_t: index in the words of arg, "sgd|lars|adamw" */
    CLI_REALS,  /* struct cli_reals, "0.5,0.5,0.5" */
    CLI_SIZE,   /* int64_t: bytes, "8G", "900M", "1.5GiB", "1000000"; units of 1024 */
    CLI_AUTO,   /* int64_t: as CLI_WHOLE; the word auto is 0 */
    CLI_PAIRS   /* struct cli_pairs, "1:2.5,-1:1"; the second number in [lo, hi]; given again, they
                   are added */
};
#define CLI_REALS_MAX 8
struct cli_reals {
    int count;
    double value[CLI_REALS_MAX];
};
#define CLI_PAIRS_MAX 64
struct cli_pairs {
    int count;
    float left[CLI_PAIRS_MAX], right[CLI_PAIRS_MAX];
};

struct cli_option {
    const char *name;    /* without dashes */
    const char *arg;     /* "N", "FILE"; of CLI_CHOICE the words; NULL for a flag */
    const char *initial; /* default as text, parsed like a given one; NULL: all zero */
    const char *help;
    enum cli_type type;
    size_t at;           /* offset in the struct of the command's values */
    double lo, hi;       /* CLI_WHOLE, CLI_REAL, CLI_REALS; both 0: any */
};
struct cli_group {
    const struct cli_option *options;
    size_t count;
    size_t base;         /* added to each option's offset */
};

struct cli_short {
    const char *letter, *name; /* "n", "ranks": -n is --ranks; a letter of NULL ends them */
};

struct cli_command {
    const char *name;
    const char *args;    /* "NET DATA" */
    const char *about;   /* one line */
    const char *details; /* paragraphs and examples; NULL */
    int least, most;     /* positional arguments */
    size_t bytes;        /* of the struct of values */
    struct cli_group groups[6];
    const struct cli_short *shorts; /* NULL: none */
    /* may change words before they are read: CLI_OK, or an exit code after a sentence; NULL */
    int (*words)(char **args, int count);
    /* Options of a recipe, by its name or file, into values: CLI_OK, or an exit code after a
     * sentence with file and line. They stand between defaults and words. NULL: the command has no
     * option CLI_RECIPE_OPTION. */
    int (*recipe)(const struct cli_command *command, const char *name, void *values);
    int (*run)(const void *values, char **args, int count);
};
#define CLI_RECIPE_OPTION "recipe"

/* Fills values (zeroed) and moves the positional arguments to the front of args. Returns how many
 * there are, -1 after a sentence, -2 when help was asked for. */
int cli_parse(const struct cli_command *command, char **args, int count, void *values);
void cli_print_command(const struct cli_command *command, FILE *file);

/* Pieces of the above, for option texts that come from elsewhere. */
struct cli_found {
    const struct cli_option *option; /* NULL: there is none */
    void *at;                        /* its place in values */
};
struct cli_found cli_find_option(const struct cli_command *command, const char *name, size_t bytes,
                                 void *values);
const char *cli_nearest_option(const struct cli_command *command, const char *word); /* or NULL */
int cli_set_defaults(const struct cli_command *command, void *values); /* -1 after a sentence */
int cli_set_option(const struct cli_option *o, const char *text, void *at); /* -1: no such value */
const char *cli_expected(char buf[160], const struct cli_option *o); /* "a number in 1 .. 5" */

/* ---- recipes (cmd_recipe.c) ---- */

struct cli_text;
const char *const *cli_recipe_texts(void); /* name, text, ..., NULL: made by tools/embed.sh */
/* The function cli_command.recipe of every command that has one. */
int cli_apply_recipe(const struct cli_command *command, const char *name, void *values);
/* What values say beyond the defaults, as a recipe with the comments at the head of the one named,
 * if any. */
int cli_recipe_of(const struct cli_command *command, const char *name, const void *values,
                  struct cli_text *out);

/* ---- commands by name, and help (cmd_help.c) ---- */

#define CLI_COMMANDS_MOST 64
struct cli_table { /* gyre.c has it */
    const struct cli_command *const *commands; /* in the order of the overview */
    size_t count;
    const struct cli_command *const *two_words; /* those of two words, "glm train" */
    size_t two_count;
};
/* or NULL, after a sentence */
const struct cli_command *cli_find_command(const struct cli_table *table, const char *name);
/* Commands of two words. NULL: there is none; *wrong 1: after a sentence. */
const struct cli_command *cli_find_two(const struct cli_table *table, const char *first, const char *second, int *wrong);
/* NULL: the overview; more: the second word of a command, or NULL */
int cli_help(const struct cli_table *table, const char *topic, const char *more);

/* ---- common to commands (cmd_common.c) ---- */

#define CLI_OPTIMIZERS "sgd|lars|adamw|lamb|lars-unscaled" /* ORDER: enum gyre_optimizer_kind */
/* Options of everything that opens a net. */
struct cli_net_options {
    int64_t threads, seed, log, dtype, pin;
    const char *isa, *device, *tune;
};
enum { CLI_NET_ROWS = 8 }; /* the last is --log */
extern const struct cli_option cli_net_option_rows[CLI_NET_ROWS];
#define CLI_NET_GROUP(values, member) { cli_net_option_rows, CLI_COUNT(cli_net_option_rows), offsetof(values, member) }

/* CLI_USAGE after a sentence when the path is longer than the room */
int cli_path(char *path, size_t room, const char *fmt, ...) CLI_PRINTF(3, 4);
int cli_exit_of(int status); /* enum gyre_status to enum cli_exit */
int cli_error(const struct gyre_error *error); /* says it, returns the exit code */
/* cmd_ranks.c: reads "MIN:MAX" of --elastic: CLI_OK, or CLI_USAGE after a sentence. */
int cli_elastic(const char *text, int *least, int *most);
/* cmd_ranks.c: with --ranks, or a device "cuda:all", this process becomes gyre launch and nothing
 * returns. Else, or with one rank, CLI_OK; or an exit code after a sentence. */
int cli_start_ranks(const struct cli_command *command, char **args, int count);
/* Returns code. Where that is no failure, it first waits until all ranks have come here; if one was
 * lost, it says so and returns that error's code. */
int cli_job_end(struct gyre_job *job, int code);
int cli_net_error(const struct gyre_net *net);
struct gyre_logger cli_logger(int64_t level);                       /* 0: warnings */
extern const struct gyre_sink cli_stdout;

/* ---- parameter servers (cmd_servers.c) ---- */

struct cli_servers {
    int64_t servers, sync, backup, staleness, stale_rate;
    const char *record, *replay;
};
extern const struct cli_option cli_server_rows[7];
struct gyre_job_config;
/* CLI_OK, or an exit code after a sentence */
int cli_server_config(const struct cli_servers *values, struct gyre_job_config *out);
/* smaller buckets, so that each server has several */
void cli_server_bucket(struct gyre_config *config, int servers);

/* What the servers counted. */
void cli_server_report(const struct gyre_progress *progress, int json);

/* ---- texts, nets, data, checkpoints (cmd_common.c) ---- */

/* A text that grows, for sinks. */
struct cli_text {
    char *text;
    size_t bytes, room;
};
struct gyre_sink cli_text_sink(struct cli_text *text);
void cli_text_free(struct cli_text *text);
/* NUL-terminated, to free(); NULL on failure */
char *cli_read_file(const char *path, size_t limit, struct gyre_error *error);

const char *cli_bytes(char buf[32], double bytes);                        /* "12.3 MB" */

/* The text of a net, by its name in the zoo or by file, to free(). NULL comes after a sentence,
 * with *exit_code set. Arguments classes, h, w, c are as in gyre_zoo_text; a file stands as it
 * is, and takes none of them. */
int cli_is_zoo_name(const char *name);
char *cli_net_text(const char *name, const struct gyre_shape *shape, int *exit_code);
/* May the net have split layers, whose ranks send messages? */
int cli_net_splits(const char *name);
/* h, w and c of a net text's first line; 0 0 3 when it says none (opening it will say what is
 * wrong). */
void cli_net_input(const char *text, struct gyre_shape *shape);
/* gyre_config from the options; text and its name are the caller's. */
void cli_net_config(struct gyre_config *config, const struct cli_net_options *options, const char *text, const char *name);

/* Which samples: those of a split, or one of its two parts. */
struct cli_source {
    const char *path, *split;
    int64_t max_bad, log;
    double hold_out;          /* 0: no parts */
    uint64_t hold_seed;
    int held;
};
/* The split of a path; all of it when it has no splits at all. */
int cli_open_data(struct gyre_data **data, const struct cli_source *source);
/* The split alone: without it, or with too few samples for two parts, *data is NULL and why says
 * what is missing; CLI_OK. */
int cli_open_split(struct gyre_data **data, const struct cli_source *source, char why[480]);
int cli_is_folder(const char *path);
/* CLI_USAGE after a sentence where writing one file would destroy another; NULL is none. */
int cli_spare(const char *written, const char *other);

/* A file that a command writes: it is whole in the end, or as it was before. A device or a pipe is
 * written itself. */
struct cli_out {
    FILE *file;
    const char *path;
    char temp[4200];          /* beside it; "": none */
    int reason;               /* errno of the first write that failed; 0: none did */
};
/* CLI_OK, or CLI_DATA after a sentence. */
int cli_out_open(struct cli_out *out, const char *path);
/* Has a write failed? Ask soon behind it: errno says why. */
int cli_out_failed(struct cli_out *out);
/* Finds out before long work whether a file can be opened for writing. CLI_OK, or CLI_DATA after a
 * sentence. */
int cli_can_write(const char *path);
/* Where code is CLI_OK and all is written, the file takes its place; else it is removed. Returns
 * the command's code. */
int cli_out_close(struct cli_out *out, int code);

/* A part of a data set that a run held out, as its checkpoints remember it; share 0: none. */
struct cli_hold {
    double share;
    uint64_t seed;
    int64_t of;               /* samples of both parts */
    uint32_t labels;          /* gyre_data_info.hold_labels */
};

/* What a checkpoint knows beside weights. */
struct cli_checkpoint {
    char path[4096];
    char *net;                /* text, to free() */
    char *classes;            /* names, a line each; or NULL */
    float mean[4], std[4];
    int has_input; /* 1: mean and std are the file's; 0: it says none, they are 0 and 1 */
    int32_t resize;
    /* 1: its net is opened for float samples; as the file says, else 0; may be set before it is
     * opened */
    int real;
    struct cli_hold hold;
};
/* path: a checkpoint, or the folder of a run. Returns an exit code after a sentence, or CLI_OK. */
int cli_open_checkpoint(struct cli_checkpoint *checkpoint, const char *path);
void cli_close_checkpoint(struct cli_checkpoint *checkpoint);
/* Class number i of names a line each; buf when there is no name. Valid until the next call with
 * the same buf. */
const char *cli_class(const char *names, int32_t i, char *buf, size_t room);
/* Does the data know no names, only numbers? */
int cli_only_numbers(const struct gyre_data *data);
/* Opens the checkpoint's net for inference and loads its weights. */
int cli_open_net(struct gyre_net **net, const struct cli_checkpoint *checkpoint, const struct cli_net_options *options, int batch);

/* mean and std for channels: the given ones, else those of Fashion-MNIST (1) or ImageNet (3).
 * CLI_USAGE after a sentence. */
int cli_normalisation(const struct cli_reals *mean, const struct cli_reals *std, int32_t channels, float out_mean[4],
                      float out_std[4]);
/* Writes what eval and predict need into the net's notes. */
int cli_note_input(struct gyre_net *net, const float mean[4], const float std[4], int32_t channels, int32_t resize);
/* nothing where nothing is held out */
int cli_note_hold(struct gyre_net *net, const struct gyre_data *data);
/* names: "cat,dog,..." instead of those of the data, or NULL. data may be NULL when names are
 * given. */
int cli_note_classes(struct gyre_net *net, const struct gyre_data *data, const char *names);

/* ---- batches larger than memory (cmd_micro.c) ---- */

struct cli_micro {
    int update; /* images of an update, of each process or shard; 0: nothing was chosen */
    size_t bytes;          /* that may be taken; 0: of what is free */
    int batch, accumulate; /* chosen: their product is the update */
    size_t planned;        /* bytes */
};
/* The micro-batch that fits and is fastest, or that of a checkpoint to go on from; all ranks choose
 * as rank 0. */
int cli_choose_micro(const struct gyre_config *config, const char *checkpoint, struct gyre_job *job,
                     struct cli_micro *micro);
void cli_say_micro(const struct cli_micro *micro); /* a line where something was chosen */

/* ---- the terminal (cmd_progress.c) ---- */

struct cli_progress;
enum cli_progress_kind { CLI_PROGRESS_AUTO, CLI_PROGRESS_PLAIN, CLI_PROGRESS_JSON };
struct cli_progress *cli_progress_open(enum cli_progress_kind kind);
void cli_progress_close(struct cli_progress *progress);
/* gyre_train_config.progress */
int cli_progress_train(void *progress, const struct gyre_progress *p);
int cli_progress_count(void *progress, int64_t done, int64_t total);   /* for gyre_pack */
/* A bar on a terminal, ten times a second; elsewhere line, not sooner than `pause` seconds after
 * the last one. */
int cli_progress_show(struct cli_progress *progress, const char *left, double part, const char *right, const char *line, double pause);

/* A handler for Ctrl-C, SIGTERM and SIGHUP, with flags of sigaction. Those that nohup ignores stay
 * ignored. */
void cli_on_stop(void (*handler)(int number), int flags);
void cli_catch_signals(void); /* they become a flag */
int cli_stop_signal(void); /* 0: none came */

/* ---- gyre why (cmd_why.c; its command takes train's options and stands beside it) ---- */

struct cli_why_options {
    int64_t steps, all_ops;
};
extern const struct cli_option cli_why_rows[2];
/* loop: training data or NULL, augmentation and loader threads. */
int cli_print_why(struct gyre_net *net, const struct gyre_train_config *loop, const struct cli_why_options *options, int json);

/* ---- linear models (cmd_glm.c) ---- */

/* Options of everything that reads rows. */
struct cli_glm_options {
    int64_t format, zero_based, lenient, hash_bits, hash_seed, label_column, header, features, log;
};
extern const struct cli_option cli_glm_option_rows[9];
#define CLI_GLM_GROUP(values, member) { cli_glm_option_rows, CLI_COUNT(cli_glm_option_rows), offsetof(values, member) }
/* paths are the caller's, as long as data is used. */
void cli_glm_data(struct gyre_glm_data *data, const struct cli_glm_options *options, char *const *paths, int count);

/* ---- commands: one row each, beside the code that runs it ---- */

extern const struct cli_command cmd_train, cmd_eval, cmd_predict, cmd_plan, cmd_bench,
    cmd_bench_sum, cmd_tune, cmd_kernels, cmd_audit, cmd_why, cmd_fit, cmd_network, cmd_launch,
    cmd_glm, cmd_glm_train, cmd_glm_predict, cmd_glm_verify, cmd_glm_convert, cmd_glm_inspect,
    cmd_glm_generate, cmd_zoo, cmd_knobs, cmd_pack, cmd_export, cmd_import, cmd_info, cmd_recipe;

#endif
