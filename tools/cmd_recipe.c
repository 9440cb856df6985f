/* SPDX-License-Identifier: MIT */
/* cmd_recipe.c: recipes for gyre train, and gyre recipe: options of a run as a text, one a line, as
 * `name value` or `flag`; # begins a comment. Its lines stand between the defaults and the command
 * line. Comments at its head describe it: `# NAME: about`, then `# reaches: ...` and `# source:
 * ...`. Places of a run (data, folder) are not part of it; the command line has them. */
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RECIPE_BYTES 8192 /* of a file: it becomes one note of a checkpoint */
#define RECIPE_OPTIONS 96

/* ---- texts by name or file ---- */

static const char *built_in(const char *name)
{
    for (const char *const *at = cli_recipe_texts(); *at; at += 2)
        if (strcmp(*at, name) == 0)
            return at[1];
    return NULL;
}

static int say_no_recipe(const char *name)
{
    const char *names[64];
    size_t count = 0;
    for (const char *const *at = cli_recipe_texts(); *at && count < CLI_COUNT(names); at += 2)
        names[count++] = *at;
    const char *near = cli_nearest(name, names, count);
    if (near)
        return cli_fail(CLI_USAGE, "'%s' is neither a file nor a recipe; did you mean %s?", name,
                        near);
    return cli_fail(CLI_USAGE, "'%s' is neither a file nor a recipe; 'gyre recipe list' has those",
                    name);
}

/* *text is to be freed where *owned. */
static int open_recipe(const char *name, const char **text, char **owned)
{
    struct gyre_error error = { 0 };
    struct stat info;
    *owned = NULL;
    *text = built_in(name);
    if (*text)
        return CLI_OK;
    if (stat(name, &info) != 0)
        return say_no_recipe(name);
    *text = *owned = cli_read_file(name, RECIPE_BYTES, &error);
    return *text ? CLI_OK : cli_error(&error);
}

/* ---- lines ---- */

struct recipe_line {
    char name[64], value[256]; /* "" and "": an empty line */
    size_t comment;            /* where a comment begins, or the line's length */
    int value_there;
};

/* Reads one line of `bytes`; -1: a word is longer than anything that could be right, or there are
 * more than two. */
static int read_line(const char *line, size_t bytes, struct recipe_line *out)
{
    const char *word[3];
    size_t length[3] = { 0, 0, 0 }, at = 0;
    int words = 0;
    memset(out, 0, sizeof *out);
    out->comment = bytes;
    for (size_t i = 0; i < bytes && out->comment == bytes; i++)
        if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t'))
            out->comment = i;
    while (at < out->comment) {
        while (at < out->comment && strchr(" \t\r", line[at]))
            at++;
        const size_t from = at;
        while (at < out->comment && !strchr(" \t\r", line[at]))
            at++;
        if (at > from && words == 2)
            return -1;
        if (at > from) {
            word[words] = line + from;
            length[words++] = at - from;
        }
    }
    if (length[0] >= sizeof out->name || length[1] >= sizeof out->value)
        return -1;
    memcpy(out->name, words > 0 ? word[0] : "", length[0]);
    memcpy(out->value, words > 1 ? word[1] : "", length[1]);
    out->value_there = words > 1;
    return 0;
}

/* What says where a run is: paths and names, processes, files of the run. */
static int of_command_line(const struct cli_option *o)
{
    static const char *const names[] = {
        "ranks", "resume", "overwrite",      "json",    "threads", "pin",    "log",
        "keep",  "trace",  "loader-threads", "measure", "ops",     "bucket", "mem",
                                         "checkpoint-every"
    };
    for (size_t i = 0; i < CLI_COUNT(names); i++)
        if (strcmp(names[i], o->name) == 0)
            return 1;
    return o->type == CLI_TEXT;
}

struct recipe_reader {
    const struct cli_command *command;
    const char *name;
    void *values;
    int line, options;
    const struct cli_option *seen[RECIPE_OPTIONS];
    int seen_line[RECIPE_OPTIONS];
};

static int say_unknown(const struct recipe_reader *r, const char *word)
{
    char plain[300];
    const char *near = cli_nearest_option(r->command, word);
    cli_plain(plain, sizeof plain, word);
    if (near)
        return cli_fail(CLI_USAGE, "%s:%d: %s has no option '%s'; did you mean %s?", r->name,
                        r->line, r->command->name, plain, near);
    return cli_fail(CLI_USAGE, "%s:%d: %s has no option '%s'; 'gyre help %s' lists them", r->name,
                    r->line, r->command->name, plain, r->command->name);
}

static int take_once(struct recipe_reader *r, const struct cli_option *o)
{
    for (int i = 0; i < r->options; i++)
        if (r->seen[i] == o)
            return cli_fail(CLI_USAGE, "%s:%d: %s was given in line %d already", r->name, r->line,
                            o->name, r->seen_line[i]);
    if (r->options == RECIPE_OPTIONS)
        return cli_fail(CLI_USAGE, "%s:%d: a recipe has at most %d options", r->name, r->line,
                        RECIPE_OPTIONS);
    r->seen[r->options] = o;
    r->seen_line[r->options++] = r->line;
    return CLI_OK;
}

static int take_line(struct recipe_reader *r, const struct recipe_line *line)
{
    char expected[160], plain[300];
    const struct cli_found f =
        cli_find_option(r->command, line->name, strlen(line->name), r->values);
    if (!f.option)
        return say_unknown(r, line->name);
    if (of_command_line(f.option))
        return cli_fail(
            CLI_USAGE,
            "%s:%d: %s is for the command line: it says where or how a run is made, not what it is",
            r->name, r->line, f.option->name);
    const int code = take_once(r, f.option);
    if (code != CLI_OK)
        return code;
    if (!line->value_there && f.option->type != CLI_FLAG)
        return cli_fail(CLI_USAGE, "%s:%d: %s needs a value: %s", r->name, r->line, f.option->name,
                        f.option->arg);
    if (cli_set_option(f.option, line->value, f.at) != 0)
        return cli_fail(CLI_USAGE, "%s:%d: %s takes %s, not '%s'", r->name, r->line, f.option->name,
                        cli_expected(expected, f.option),
                        cli_plain(plain, sizeof plain, line->value));
    return CLI_OK;
}

static int take_text(struct recipe_reader *r, const char *text)
{
    int code = CLI_OK;
    for (const char *at = text; *at && code == CLI_OK;) {
        const size_t bytes = strcspn(at, "\n");
        struct recipe_line line;
        r->line++;
        if (read_line(at, bytes, &line) != 0)
            return cli_fail(
                CLI_USAGE,
                "%s:%d: a line is an option and its value: 'batch 128', 'flip', '# comment'",
                r->name, r->line);
        if (line.name[0])
            code = take_line(r, &line);
        at += bytes + (at[bytes] == '\n');
    }
    return code;
}

int cli_apply_recipe(const struct cli_command *command, const char *name, void *values)
{
    struct recipe_reader reader = { .command = command, .name = name, .values = values };
    const char *text;
    char *owned;
    int code = open_recipe(name, &text, &owned);
    if (code == CLI_OK)
        code = take_text(&reader, text);
    free(owned);
    return code;
}

/* ---- values as a recipe ---- */

static size_t put_real(char *text, size_t room, double value)
{
    int bytes = snprintf(text, room, "%.9g", value);
    if (bytes < 0 || strtod(text, NULL) < value || strtod(text, NULL) > value)
        bytes = snprintf(text, room, "%.17g", value);
    return bytes > 0 ? (size_t)bytes : 0;
}

static void put_value(const struct cli_option *o, const void *at, char text[300])
{
    const struct cli_reals *reals = at;
    const int64_t *whole = at;
    const char *word = o->arg;
    size_t used = 0;
    text[0] = 0;
    switch (o->type) {
    case CLI_FLAG: snprintf(text, 300, "%s", *whole ? "on" : "off"); break;
    case CLI_AUTO:
    case CLI_SIZE:
    case CLI_WHOLE: snprintf(text, 300, "%" PRId64, *whole); break;
    case CLI_REAL: put_real(text, 300, *(const double *)at); break;
    case CLI_REALS:
        for (int i = 0; i < reals->count && used < 260; i++) {
            if (i > 0)
                text[used++] = ',';
            used += put_real(text + used, 300 - used, reals->value[i]);
        }
        break;
    case CLI_CHOICE:
        for (int64_t i = 0; i < *whole; i++)
            word += strcspn(word, "|") + 1;
        snprintf(text, 300, "%.*s", (int)strcspn(word, "|"), word);
        break;
    default: break;
    }
}

struct recipe_out {
    struct gyre_sink sink;
    int failed;
};

static void put_text(struct recipe_out *out, const char *text, size_t bytes)
{
    out->failed |= out->sink.write(out->sink.user, text, bytes) != 0;
}

/* Comments before the first option. */
static void put_head(const char *text, struct recipe_out *out)
{
    struct recipe_line line;
    while (*text) {
        const size_t bytes = strcspn(text, "\n");
        if (read_line(text, bytes, &line) != 0 || line.name[0])
            return;
        put_text(out, text, bytes);
        put_text(out, "\n", 1);
        text += bytes + (text[bytes] == '\n');
    }
}

/* One option: nothing where it is the default and the recipe did not say otherwise. */
static void put_option(const struct cli_option *o, const char *plain, const char *recipe,
                       const char *now, const char *name, struct recipe_out *out)
{
    char line[1200];
    const int bare = o->type == CLI_FLAG && strcmp(now, "on") == 0,
              changed = name && strcmp(now, recipe) != 0;
    if (strcmp(now, recipe) == 0 && strcmp(now, plain) == 0)
        return;
    snprintf(line, sizeof line, "%s%s%s%s%.500s%s%s\n", o->name, bare ? "" : " ", bare ? "" : now,
             changed ? "  # " : "", changed ? name : "", changed ? " has " : "", changed ? recipe : "");
    put_text(out, line, strlen(line));
}

static void put_options(const struct cli_command *command, const char *name, const char *plain,
                        const char *recipe, const char *now, struct recipe_out *out)
{
    for (size_t g = 0; g < CLI_COUNT(command->groups); g++)
        for (size_t i = 0; i < command->groups[g].count; i++) {
            const struct cli_option *o = &command->groups[g].options[i];
            const size_t at = command->groups[g].base + o->at;
            char texts[3][300];
            if (of_command_line(o))
                continue;
            put_value(o, plain + at, texts[0]);
            put_value(o, recipe + at, texts[1]);
            put_value(o, now + at, texts[2]);
            put_option(o, texts[0], texts[1], texts[2], name, out);
        }
}

int cli_recipe_of(const struct cli_command *command, const char *name, const void *values,
                  struct cli_text *out)
{
    const char *text = "";
    char *owned = NULL;
    char *const plain = calloc(1, command->bytes), *const recipe = calloc(1, command->bytes);
    int code =
        plain && recipe ? CLI_OK : cli_fail(CLI_RESOURCES, "out of memory: a recipe's options");
    struct recipe_out writer = { cli_text_sink(out), 0 };
    if (code == CLI_OK &&
        (cli_set_defaults(command, plain) != 0 || cli_set_defaults(command, recipe) != 0))
        code = CLI_USAGE;
    if (code == CLI_OK && name)
        code = open_recipe(name, &text, &owned);
    if (code == CLI_OK && name)
        code = cli_apply_recipe(command, name, recipe);
    if (code == CLI_OK) {
        put_head(text, &writer);
        put_options(command, name, plain, recipe, values, &writer);
        put_text(&writer, "", 0);
        if (writer.failed)
            code = cli_fail(CLI_RESOURCES, "out of memory: a recipe's text");
    }
    free(owned);
    free(recipe);
    free(plain);
    return code;
}

/* ---- gyre recipe ---- */

/* The rest of the line that begins with `# key`, of the comments at the head; 0 bytes: there is
 * none. */
static size_t head_line(const char *text, const char *key, const char **rest)
{
    for (*rest = text; **rest == '#'; *rest += strcspn(*rest, "\n"), *rest += **rest == '\n') {
        const char *at = *rest + strspn(*rest, "# ");
        if (strncmp(at, key, strlen(key)) == 0 && strncmp(at + strlen(key), ": ", 2) == 0) {
            *rest = at + strlen(key) + 2;
            return strcspn(*rest, "\n");
        }
    }
    return 0;
}

static int list_recipes(void)
{
    for (const char *const *at = cli_recipe_texts(); *at; at += 2) {
        const char *rest;
        size_t bytes = head_line(at[1], at[0], &rest);
        printf("%-20s %.*s\n", at[0], (int)bytes, rest);
        bytes = head_line(at[1], "reaches", &rest);
        printf("%-20s %.*s\n", "", (int)bytes, rest);
    }
    return CLI_OK;
}

static int recipe_run(const void *values, char **args, int count)
{
    const char *text;
    char *owned;
    (void)values;
    if (strcmp(args[0], "list") == 0 && count == 1)
        return list_recipes();
    if (strcmp(args[0], "show") != 0 || count != 2)
        return cli_fail(CLI_USAGE, "usage: gyre recipe list, or gyre recipe show NAME");
    const int code = open_recipe(args[1], &text, &owned);
    if (code == CLI_OK)
        fputs(text, stdout);
    free(owned);
    return code;
}

const struct cli_command cmd_recipe = {
    .name = "recipe",
    .args = "list|show [NAME]",
    .about = "shows options of known runs, for gyre train --recipe",
    .least = 1,
    .most = 2,
    .run = recipe_run,
    .details = "A recipe is the options of 'gyre train' as a text, an option a line without its "
               "dashes, # begins a comment:\n\n"
               "  # my recipe\n"
               "  batch 128\n"
               "  lr 0.1        # options of the command line win over these\n"
               "  flip\n\n"
               "The list says what each built-in recipe reaches; 'show' prints its text with where "
               "that figure comes from.\n"
               "A run writes the options that it ran with into recipe.txt of its folder, again as "
               "a recipe, and with --recipe\n"
               "into its checkpoints.\n\n"
               "Examples:\n"
               "  gyre recipe list\n"
               "  gyre recipe show you-2017 >my.txt\n"
               "  gyre train alexnet-bn imagenet --recipe my.txt --epochs 30\n",
};
