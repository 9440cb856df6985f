/* SPDX-License-Identifier: MIT */
/* cmd_options.c: options from their table. gyre.c, cmd_ranks.c, cmd_recipe.c and cmd_help.c call
 * it. Defaults go through the same setter as the user's values. So a default can be printed, and
 * one out of range is noticed. */
#include "tools/cli.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- setters ---- */

static int set_whole(const struct cli_option *o, const char *text, void *at)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || (o->lo < o->hi && ((double)value < o->lo || (double)value > o->hi)))
        return -1;
    *(int64_t *)at = value;
    return 0;
}

static int set_auto(const struct cli_option *o, const char *text, void *at)
{
    if (strcmp(text, "auto") != 0)
        return set_whole(o, text, at);
    *(int64_t *)at = 0;
    return 0;
}

static int set_size(const struct cli_option *o, const char *text, void *at)
{
    static const char units[] = "KMGT";
    char *end;
    double bytes = *text >= '0' && *text <= '9' ? strtod(text, &end) : 0;
    (void)o;
    if (!(bytes > 0))
        return -1;
    const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
    for (int i = 0; unit && i <= (int)(unit - units); i++)
        bytes *= 1024;
    end += unit != NULL;
    if ((*end && strcmp(end, "B") != 0 && strcmp(end, "iB") != 0) || bytes >= 1e18)
        return -1;
    *(int64_t *)at = (int64_t)bytes;
    return 0;
}

static int set_real_number(const struct cli_option *o, const char *text, char stop, double *value, const char **end)
{
    char *after;
    *value = strtod(text, &after);
    *end = after;
    return after == text || (*after && *after != stop) || !isfinite(*value) ||
           (o->lo < o->hi && (*value < o->lo || *value > o->hi)) ? -1 : 0;
}

static int set_real(const struct cli_option *o, const char *text, void *at)
{
    const char *end;
    double value;
    if (set_real_number(o, text, 0, &value, &end))
        return -1;
    *(double *)at = value;
    return 0;
}

static int set_reals(const struct cli_option *o, const char *text, void *at)
{
    struct cli_reals *out = at;
    out->count = 0;
    for (;;) {
        const char *end;
        if (out->count == CLI_REALS_MAX || set_real_number(o, text, ',', &out->value[out->count++], &end))
            return -1;
        if (!*end)
            return 0;
        text = end + 1;
    }
}

static int set_pairs(const struct cli_option *o, const char *text, void *at)
{
    struct cli_pairs *out = at;
    const struct cli_option any = { .name = o->name };
    for (;;) {
        const char *end;
        double left, right;
        if (out->count == CLI_PAIRS_MAX || set_real_number(&any, text, ':', &left, &end) || *end != ':' ||
            set_real_number(o, end + 1, ',', &right, &end))
            return -1;
        out->left[out->count] = (float)left;
        out->right[out->count++] = (float)right;
        if (!*end)
            return 0;
        text = end + 1;
    }
}

static int set_text(const struct cli_option *o, const char *text, void *at)
{
    (void)o;
    *(const char **)at = text;
    return 0;
}

static int set_choice(const struct cli_option *o, const char *text, void *at)
{
    int64_t index = 0;
    const size_t bytes = strlen(text);
    for (const char *word = o->arg; *word; index++) {
        const size_t length = strcspn(word, "|");
        if (length == bytes && memcmp(word, text, bytes) == 0) {
            *(int64_t *)at = index;
            return 0;
        }
        word += length + (word[length] == '|');
    }
    return -1;
}

static int set_flag(const struct cli_option *o, const char *text, void *at)
{
    const int off = strcmp(text, "off") == 0;
    (void)o;
    *(int64_t *)at = !off;
    return *text == 0 || off || strcmp(text, "on") == 0 ? 0 : -1;
}

static int (*const setters[])(const struct cli_option *o, const char *text, void *at) = {
    [CLI_FLAG] = set_flag, [CLI_WHOLE] = set_whole, [CLI_REAL] = set_real,
    [CLI_TEXT] = set_text, [CLI_CHOICE] = set_choice, [CLI_REALS] = set_reals,
    [CLI_SIZE] = set_size, [CLI_AUTO] = set_auto, [CLI_PAIRS] = set_pairs,
};

int cli_set_option(const struct cli_option *o, const char *text, void *at)
{
    return setters[o->type](o, text, at);
}

const char *cli_expected(char buf[160], const struct cli_option *o)
{
    char range[80] = "";
    if (o->lo < o->hi)
        snprintf(range, sizeof range, " in %.15g .. %.15g", o->lo, o->hi);
    static const char *const what[] = { "no value but 'on' or 'off'",
                                        "a whole number",
                                        "a number",
                                        "text",
                                        "one of ",
                                        "numbers with commas between",
                                        "a size such as 8G, 900M or 1000000",
                                        "'auto' or a whole number",
                                        "pairs of numbers such as 1:2.5,-1:1" };
    snprintf(buf, 160, "%s%s%s", what[o->type], o->type == CLI_CHOICE ? o->arg : "", range);
    return buf;
}

static void say_wrong_value(const struct cli_command *command, const struct cli_option *o,
                            const char *text)
{
    char expected[160];
    cli_fail(CLI_USAGE, "%s: --%s takes %s, not '%s'", command->name, o->name,
             cli_expected(expected, o), text);
}

/* ---- finding ---- */

struct cli_found cli_find_option(const struct cli_command *command, const char *name, size_t bytes,
                                 void *values)
{
    for (size_t g = 0; g < CLI_COUNT(command->groups); g++)
        for (size_t i = 0; i < command->groups[g].count; i++) {
            const struct cli_option *o = &command->groups[g].options[i];
            if (strlen(o->name) == bytes && memcmp(o->name, name, bytes) == 0)
                return (struct cli_found){ o, (char *)values + command->groups[g].base + o->at };
        }
    return (struct cli_found){ NULL, NULL };
}

/* "n" of "-n" to "ranks"; other words as they are. */
static const char *long_name(const struct cli_command *command, const char *arg)
{
    for (const struct cli_short *s = command->shorts; s && s->letter && arg[1] != '-'; s++)
        if (strcmp(s->letter, arg + 1) == 0)
            return s->name;
    return arg[1] == '-' ? arg + 2 : NULL;
}

const char *cli_nearest_option(const struct cli_command *command, const char *word)
{
    const char *names[128];
    size_t count = 0;
    for (size_t g = 0; g < CLI_COUNT(command->groups); g++)
        for (size_t i = 0; i < command->groups[g].count && count < CLI_COUNT(names); i++)
            names[count++] = command->groups[g].options[i].name;
    return cli_nearest(word, names, count);
}

static void say_unknown(const struct cli_command *command, const char *name, size_t bytes)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)bytes, name);
    const char *near = cli_nearest_option(command, word);
    if (near)
        cli_fail(CLI_USAGE, "%s has no option '--%s'; did you mean --%s?", command->name, word, near);
    else
        cli_fail(CLI_USAGE, "%s has no option '--%s'; 'gyre help %s' lists them", command->name, word, command->name);
}

int cli_set_defaults(const struct cli_command *command, void *values)
{
    memset(values, 0, command->bytes);
    for (size_t g = 0; g < CLI_COUNT(command->groups); g++)
        for (size_t i = 0; i < command->groups[g].count; i++) {
            const struct cli_option *o = &command->groups[g].options[i];
            if (o->initial && setters[o->type](o, o->initial, (char *)values + command->groups[g].base + o->at)) {
                say_wrong_value(command, o, o->initial);
                return -1;
            }
        }
    return 0;
}

/* Takes one "--name", "--name value", "--name=value" or "-n value" at args[i]. Returns how many
 * words it took; -1 after a sentence. */
static int take_option(const struct cli_command *command, char **args, int i, int count, void *values)
{
    const char *name = long_name(command, args[i]), *equals = strchr(name, '=');
    const size_t bytes = equals ? (size_t)(equals - name) : strlen(name);
    const struct cli_found f = cli_find_option(command, name, bytes, values);
    if (!f.option) {
        say_unknown(command, name, bytes);
        return -1;
    }
    const int flag = f.option->type == CLI_FLAG;
    if (!flag && !equals && i + 1 == count) {
        cli_fail(CLI_USAGE, "%s: --%s needs a value: %s", command->name, f.option->name, f.option->arg);
        return -1;
    }
    const char *text = equals ? equals + 1 : flag ? "" : args[i + 1];
    if (setters[f.option->type](f.option, text, f.at)) {
        say_wrong_value(command, f.option, text);
        return -1;
    }
    return flag || equals ? 1 : 2;
}

static int check_count(const struct cli_command *command, int kept)
{
    if (kept < command->least || kept > command->most) {
        cli_fail(CLI_USAGE, "usage: gyre %s%s%s%s; %d argument%s given", command->name, command->groups[0].count ? " [options]" : "",
                 command->args[0] ? " " : "", command->args, kept, kept == 1 ? " was" : "s were");
        return -1;
    }
    return kept;
}

/* The words of a command line, over what values hold; as cli_parse. */
static int take_words(const struct cli_command *command, char **args, int count, void *values)
{
    int kept = 0, only_args = 0;
    for (int i = 0; i < count;) {
        char *arg = args[i];
        if (only_args || arg[0] != '-' || !arg[1]) {
            args[kept++] = arg;
            i++;
        } else if (strcmp(arg, "--") == 0) {
            only_args = 1;
            i++;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            return -2;
        } else if (!long_name(command, arg)) {
            cli_fail(CLI_USAGE, "%s: options begin with two dashes; '%s' is not one", command->name, arg);
            return -1;
        } else {
            const int words = take_option(command, args, i, count, values);
            if (words < 0)
                return -1;
            i += words;
        }
    }
    return check_count(command, kept);
}

/* The words are read twice: first for the recipe's name, then over its lines. */
static int take_recipe(const struct cli_command *command, char **args, int count, void *values)
{
    const size_t bytes = sizeof CLI_RECIPE_OPTION - 1;
    const char **name = cli_find_option(command, CLI_RECIPE_OPTION, bytes, values).at;
    char **const copy = calloc((size_t)count + 1, sizeof *copy);
    if (!copy) {
        cli_fail(CLI_RESOURCES, "out of memory: %d words", count);
        return -1;
    }
    memcpy(copy, args, (size_t)count * sizeof *copy);
    const int kept = take_words(command, copy, count, values);
    const char *const given = *name;
    free(copy);
    if (kept < 0 || !given)
        return kept;
    const int plain = cli_set_defaults(command, values);
    return plain == 0 && command->recipe(command, given, values) == CLI_OK ? 0 : -1;
}

int cli_parse(const struct cli_command *command, char **args, int count, void *values)
{
    if (cli_set_defaults(command, values))
        return -1;
    const int taken = command->recipe ? take_recipe(command, args, count, values) : 0;
    return taken < 0 ? taken : take_words(command, args, count, values);
}

/* ---- help ---- */

/* Words of text after column `from`, wrapped at 100. */
static void print_wrapped(FILE *file, const char *text, int from)
{
    int column = from;
    while (*text) {
        const int bytes = (int)strcspn(text, " ");
        if (column > from && column + 1 + bytes > 100) {
            fprintf(file, "\n%*s", from, "");
            column = from;
        }
        column += fprintf(file, "%s%.*s", column > from ? " " : "", bytes, text);
        text += bytes + (text[bytes] == ' ');
    }
    fputc('\n', file);
}

static const char *letter_of(const struct cli_command *command, const struct cli_option *o)
{
    for (const struct cli_short *s = command->shorts; s && s->letter; s++)
        if (strcmp(s->name, o->name) == 0)
            return s->letter;
    return NULL;
}

static void print_option(FILE *file, const struct cli_command *command, const struct cli_option *o)
{
    char left[96], help[480];
    const char *const letter = letter_of(command, o);
    snprintf(left, sizeof left, "  %s%s%s--%s%s%s", letter ? "-" : "", letter ? letter : "", letter ? ", " : "",
             o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    snprintf(help, sizeof help, "%s%s%s%s", o->help, o->initial ? " (" : "", o->initial ? o->initial : "", o->initial ? ")" : "");
    const int column = 30;
    fprintf(file, "%-*s", column, left);
    if (strlen(left) >= (size_t)column)
        fprintf(file, "\n%*s", column, "");
    print_wrapped(file, help, column);
}

void cli_print_command(const struct cli_command *command, FILE *file)
{
    fprintf(file, "usage: gyre %s%s%s%s\n%s\n", command->name, command->args[0] ? " " : "", command->args,
            command->groups[0].count ? " [options]" : "", command->about);
    if (command->groups[0].count)
        fprintf(file, "\nOptions (defaults in brackets):\n");
    for (size_t g = 0; g < CLI_COUNT(command->groups); g++)
        for (size_t i = 0; i < command->groups[g].count; i++)
            print_option(file, command, &command->groups[g].options[i]);
    if (command->details)
        fprintf(file, "\n%s", command->details);
    fprintf(file, "\nExit codes: 'gyre help exit'.\n");
}
