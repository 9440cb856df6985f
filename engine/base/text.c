/* SPDX-License-Identifier: MIT */
/* text.c: writes text to sinks and growing buffers; reads numbers and words; finds near words. */
#include "engine/base/text.h"
#include <float.h>
#include <locale.h>

GY_INT int gy_text_vprint(char *text, size_t room, const char *fmt, va_list args)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
    const int length = vsnprintf(text, room, fmt, args);
    uselocale(before); /* of this thread */
    if (plain)
        freelocale(plain);
    return length;
}

GY_INT int gy_text_print(char *text, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int length = gy_text_vprint(text, room, fmt, args);
    va_end(args);
    return length;
}

GY_INT void gy_sink_printf(struct gy_sink *sink, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    const int length = gy_text_vprint(text, sizeof text, fmt, args);
    va_end(args);
    if (length <= 0 || sink->failed || !sink->write)
        return;
    const size_t bytes = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    sink->failed = sink->write(sink->user, text, bytes) != 0 || bytes < (size_t)length;
}

GY_INT int gy_utf8_length(const unsigned char *at, const unsigned char *end)
{
    if (at >= end)
        return 0;
    if (at[0] < 0x80)
        return 1;
    const int wide = at[0] >= 0xF0 && at[0] < 0xF5 ? 4 : 0;
    const int length = at[0] >= 0xC2 && at[0] < 0xE0 ? 2 : at[0] >= 0xE0 && at[0] < 0xF0 ? 3 : wide;
    if (length == 0 || end - at < length)
        return 0;
    for (int i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    const int overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    const int outside = (at[0] == 0xED && at[1] >= 0xA0) || (at[0] == 0xF4 && at[1] >= 0x90);
    return overlong || outside ? 0 : length;
}

GY_INT int gy_utf8_valid(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    const unsigned char *end = at + strlen(text);
    while (at < end) {
        const int length = gy_utf8_length(at, end);
        if (length == 0)
            return 0;
        at += length;
    }
    return 1;
}

GY_INT void gy_print_json_text(const char *text, struct gy_sink *sink)
{
    const unsigned char *at = (const unsigned char *)text;
    const unsigned char *end = at + strlen(text);
    gy_sink_printf(sink, "\"");
    while (at < end) {
        const int length = gy_utf8_length(at, end);
        if (length == 0)
            gy_sink_printf(sink, "\\ufffd");
        else if (*at == '"' || *at == '\\')
            gy_sink_printf(sink, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7F)
            gy_sink_printf(sink, "\\u%04x", *at);
        else
            gy_sink_printf(sink, "%.*s", length, (const char *)at);
        at += length == 0 ? 1 : length;
    }
    gy_sink_printf(sink, "\"");
}

GY_INT void gy_buf_open(struct gy_buf *buf, const struct gy_alloc *alloc)
{
    memset(buf, 0, sizeof *buf);
    buf->alloc = *alloc;
}

static int text_buf_reserve(struct gy_buf *buf, size_t more)
{
    size_t need, room = buf->room ? buf->room : 256;
    if (gy_add_size(buf->bytes, more, &need) != 0 || need > SIZE_MAX / 4)
        return -1;
    while (room <= need)
        room *= 2;
    if (room == buf->room)
        return 0;
    char *text = gy_alloc_grow(&buf->alloc, buf->text, buf->room, room, 1);
    if (!text)
        return -1;
    buf->text = text;
    buf->room = room;
    return 0;
}

GY_INT void gy_buf_add(struct gy_buf *buf, const void *bytes, size_t count)
{
    if (buf->failed || text_buf_reserve(buf, count) != 0) {
        buf->failed = 1;
        return;
    }
    if (count)
        memcpy(buf->text + buf->bytes, bytes, count);
    buf->bytes += count;
    buf->text[buf->bytes] = 0;
}

GY_INT void gy_buf_printf(struct gy_buf *buf, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    const int length = gy_text_vprint(text, sizeof text, fmt, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text)
        buf->failed = 1;
    else
        gy_buf_add(buf, text, (size_t)length);
}

GY_INT void gy_buf_close(struct gy_buf *buf)
{
    gy_alloc_free(&buf->alloc, buf->text, buf->room);
    memset(buf, 0, sizeof *buf);
}

static int text_write_buf(void *user, const char *text, size_t bytes)
{
    struct gy_buf *buf = user;
    gy_buf_add(buf, text, bytes);
    return buf->failed;
}

GY_INT struct gy_sink gy_sink_buf(struct gy_buf *buf) { return (struct gy_sink){ text_write_buf, buf, 0 }; }

GY_INT int gy_text_copy(char *dst, size_t room, const char *src)
{
    const size_t bytes = strlen(src), fits = room == 0 ? 0 : bytes < room ? bytes : room - 1;
    if (room == 0)
        return -1;
    memcpy(dst, src, fits);
    dst[fits] = 0;
    return fits == bytes ? 0 : -1;
}

GY_INT int gy_text_int(const char *text, int64_t lo, int64_t hi, int64_t *out)
{
    const int negative = text[0] == '-';
    const char *p = text + (negative || text[0] == '+');
    int64_t value = 0;
    if (*p == 0)
        return -1;
    for (; *p; p++) {
        if (*p < '0' || *p > '9')
            return -1;
        const int digit = *p - '0';
        if (value < (INT64_MIN + digit) / 10)
            return -1;
        value = value * 10 - digit; /* negative: INT64_MIN has no positive twin */
    }
    if (!negative && value == INT64_MIN)
        return -1;
    value = negative ? value : -value;
    if (value < lo || value > hi)
        return -1;
    *out = value;
    return 0;
}

#define TEXT_REAL_ROOM 1200 /* more digits than any double has; a longer text is refused */

/* Copies the digits of a run to *to and returns the first character that is none. */
static const char *text_digits(const char *p, char **to, const char *end)
{
    for (; *p >= '0' && *p <= '9' && *to < end; p++)
        *(*to)++ = *p;
    return p;
}

/* The exponent at *p, or 0 if there is none; at most 99999 in size. -1: malformed. */
static int text_exponent(const char **p, int *value)
{
    *value = 0;
    if (**p != 'e' && **p != 'E')
        return 0;
    (*p)++;
    const int negative = **p == '-';
    *p += negative || **p == '+';
    const char *first = *p;
    for (; **p >= '0' && **p <= '9'; (*p)++)
        *value = *value < 9999 ? *value * 10 + (**p - '0') : 99999;
    *value = negative ? -*value : *value;
    return *p > first ? 0 : -1;
}

/* Rewrites the number as an integer with an exponent, "-1.25e3" as "-125e1". Without a decimal mark
 * strtod reads it alike in every locale. No hex, inf, nan or blank reaches it. */
GY_INT int gy_text_real(const char *text, double lo, double hi, double *out)
{
    char plain[TEXT_REAL_ROOM + 16], *to = plain;
    const char *end = plain + TEXT_REAL_ROOM, *p = text;
    int exponent;
    if (*p == '-' || *p == '+')
        *to++ = *p++;
    const char *first = to;
    p = text_digits(p, &to, end);
    const char *whole = to;
    if (*p == '.')
        p = text_digits(p + 1, &to, end);
    if (to == first || text_exponent(&p, &exponent) != 0 || *p != 0)
        return -1;
    snprintf(to, sizeof plain - (size_t)(to - plain), "e%d", exponent - (int)(to - whole));
    const double value = strtod(plain, NULL);
    if (!isfinite(value) || value < lo || value > hi)
        return -1;
    *out = value;
    return 0;
}

GY_INT int gy_text_word(const char **at, char *word, size_t room)
{
    const char *from = *at + strspn(*at, " \t\r\n");
    const size_t bytes = strcspn(from, " \t\r\n");
    if (bytes == 0 || bytes >= room)
        return -1;
    memcpy(word, from, bytes);
    word[bytes] = 0;
    *at = from + bytes;
    return 0;
}

GY_INT int gy_text_reals(const char *text, double *out, int count)
{
    char word[TEXT_REAL_ROOM];
    int done = 0;
    while (done < count && gy_text_word(&text, word, sizeof word) == 0 && gy_text_real(word, -DBL_MAX, DBL_MAX, &out[done]) == 0)
        done++;
    return done;
}

#define TEXT_WORD 48 /* a longer word resembles nothing */

static size_t text_least(size_t a, size_t b) { return a < b ? a : b; }

/* Edits from a to b: insert, delete, change, swap of neighbours. Three rows: i - 2, i - 1, i. */
static size_t text_distance(const char *a, const char *b)
{
    size_t rows[3][TEXT_WORD + 1];
    const size_t na = strlen(a), nb = strlen(b);
    if (na > TEXT_WORD || nb > TEXT_WORD)
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3];
        const size_t *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = text_least(last[j - 1] + (a[i - 1] != b[j - 1]), text_least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = text_least(row[j], before[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

/* Near: at most a third of the word's letters, and one more. */
GY_INT const char *gy_text_nearest(const char *word, const char *const *candidates, size_t count)
{
    const size_t length = strlen(word);
    size_t best = length / 3 + 2;
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        const size_t distance = text_distance(word, candidates[i]);
        if (distance < best) {
            best = distance;
            found = candidates[i];
        }
    }
    return found;
}

GY_INT const char *gy_text_bytes(char *buf, size_t room, double bytes)
{
    static const char *const unit[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    size_t u = 0;
    for (; bytes >= 999.95 && u + 1 < GY_COUNT(unit); u++)
        bytes /= 1000;
    snprintf(buf, room, u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
    return buf;
}
