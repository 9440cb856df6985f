/* SPDX-License-Identifier: MIT */
/* cli.c: what every file of the command needs: sentences on standard error, "did you mean", JSON,
 * and whether a bar stands on the terminal's last line. All cmd_*.c and cmd_options.c call it. */
#include "tools/cli.h"
#include <stdarg.h>
#include <string.h>

/* ---- the terminal's last line ---- */

static int bar_open; /* a bar stands on the terminal's last line */

void cli_progress_keep_line(void) { bar_open = 1; }

int cli_progress_skip_line(void)
{
    if (!bar_open)
        return 0;
    fputs("\r\033[K", stdout);
    fflush(stdout);
    bar_open = 0;
    return 1;
}

/* ---- sentences ---- */

const char *cli_plain(char *buf, size_t room, const char *text)
{
    size_t used = 0;
    int more = 0; /* bytes that a UTF-8 character still has */
    for (const unsigned char *at = (const unsigned char *)text; *at && used + 5 < room; at++) {
        const int inside = more > 0 && (*at & 0xc0) == 0x80;
        more = inside ? more - 1 : *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : *at >= 0xc0 ? 1 : 0;
        /* terminals take U+0080 to U+009F for controls */
        const int above = (*at >= 0x80 && *at < 0xa0) || (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0);
        const int control = !inside && (*at < 0x20 || *at == 0x7f || above);
        used += (size_t)snprintf(buf + used, room - used, control ? "\\x%02x" : "%c", *at);
        more = control ? 0 : more;
    }
    buf[used] = 0;
    return buf;
}

/* Written at once: the ranks of a job may all have something to say. */
int cli_fail(int exit_code, const char *fmt, ...)
{
    char text[8192], plain[sizeof text];
    va_list args;
    cli_progress_skip_line();
    fflush(stdout);
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "gyre: %s\n", cli_plain(plain, sizeof plain, text));
    return exit_code;
}

/* ---- did you mean ---- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Edit distance with swaps of neighbours; words of at most 31 letters. */
static size_t distance(const char *a, const char *b)
{
    size_t d[32][32];
    const size_t n = strlen(a), m = strlen(b);
    if (n > 31 || m > 31)
        return 99;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

const char *cli_nearest(const char *word, const char *const *words, size_t count)
{
    const char *best = NULL;
    size_t best_distance = 1 + strlen(word) / 3;
    for (size_t i = 0; i < count; i++) {
        const size_t d = distance(word, words[i]);
        if (d < best_distance || (d == best_distance && !best)) {
            best = words[i];
            best_distance = d;
        }
    }
    for (size_t i = 0; !best && i < count; i++) /* "check" for "checkpoint-every" */
        if (strlen(word) > 2 && strncmp(word, words[i], strlen(word)) == 0)
            best = words[i];
    return best;
}

/* ---- JSON ---- */

/* Bytes of a UTF-8 letter at text, 0 when it is none. */
static int utf8_bytes(const unsigned char *text)
{
    static const struct {
        unsigned mask, lead, least;
    } rows[] = { { 0x80, 0, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };
    for (int n = 0; n < 4; n++) {
        if ((text[0] & rows[n].mask) != rows[n].lead)
            continue;
        unsigned letter = text[0] & ~rows[n].mask;
        for (int i = 1; i <= n; i++) {
            if ((text[i] & 0xc0) != 0x80)
                return 0;
            letter = letter << 6 | (text[i] & 0x3f);
        }
        return letter >= rows[n].least && letter <= 0x10ffff && (letter < 0xd800 || letter > 0xdfff) ? n + 1 : 0;
    }
    return 0;
}

void cli_json_text(FILE *file, const char *text)
{
    fputc('"', file);
    while (*text) {
        const unsigned char c = (unsigned char)*text;
        const int bytes = utf8_bytes((const unsigned char *)text);
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 32 || c == 127)
            fprintf(file, "\\u%04x", c);
        else if (bytes == 0)
            fputs("\\ufffd", file);
        else
            fwrite(text, 1, (size_t)bytes, file);
        text += bytes ? bytes : 1;
    }
    fputc('"', file);
}

const char *cli_json_number(char buf[32], double value)
{
    if (value - value != 0)
        return "null";
    snprintf(buf, 32, "%.9g", value);
    return buf;
}
