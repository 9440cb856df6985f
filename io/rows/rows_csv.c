/* SPDX-License-Identifier: MIT */
/* rows_csv.c: plain CSV of numbers, in the list of rows_convert.c. One column is the label, the
 * others are dense features in their order; zeros are not stored. Columns are separated by tabs,
 * semicolons or commas, whichever the first line has first. A first line without any number has
 * names. A missing number is a failure: it is not zero. */
#include "io/rows/rows_text.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* A number and blanks around it; stands on the separator or the line's end then. */
static const unsigned char *rcsv_number(struct gy_rows_piece *o, const unsigned char *p, float *value)
{
    const unsigned char separator = o->layout->separator, *first = p;
    while (*p == ' ')
        p++;
    const int quoted = *p == '"' && o->settings->lenient;
    if (quoted)
        gy_rows_note(o, GY_MEND_QUOTED, 1);
    p = gy_rows_number(p + quoted, value);
    if (!p || (quoted && *p != '"'))
        return gy_rows_fail_number(o, first, "a column");
    p += quoted;
    while (*p == ' ')
        p++;
    if (*p == separator || gy_rows_at_end(p))
        return p;
    if (*p < ' ' || p[-1] == ' ')
        return gy_rows_fail(o, p, "byte 0x%02x behind a number, not a separator or the line's end", *p);
    return gy_rows_fail_number(o, first, "a column");
}

#define RCSV_ONES ((uint64_t)0x0101010101010101u)

/* High bits of the bytes that are not 0 to 9; the lowest is right. */
static inline uint64_t rcsv_not_digits(uint64_t word) { return (word | (word + RCSV_ONES * 0x76)) & RCSV_ONES * 0x80; }

/* Parses digits with one point among them. word: the last character in the highest byte, 0 below
 * the first; a digit is 0 to 9. At most seven digits are multiplied by a power of ten that is off
 * by half of a double's last place. No float's rounding edge is near enough for this to differ from
 * the exact quotient. Returns 0: zero, 1: not zero, -1: no number. */
static inline int rcsv_point(uint64_t word, uint64_t found, int negative, float *value)
{
    static const double power[2][8] = { { 1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7 }, { -1, -1e-1, -1e-2, -1e-3, -1e-4, -1e-5, -1e-6, -1e-7 } };
    const uint64_t one = (found & (0 - found)) >> 7; /* in the first byte that is no digit */
    word ^= one * ('.' ^ '0');
    const uint64_t whole = word & (one - 1), number = whole << 8 | (word ^ whole);
    *value = (float)((double)(int32_t)gy_rows_eight_digits(number) * power[negative][__builtin_clzll(one) >> 3]);
    return (rcsv_not_digits(word) | (word & one * 255)) != 0 ? -1 : number != 0;
}

/* The same for [-]digits[.digits] in [p, end), with at most eight characters behind the sign.
 * Nearly all numbers are so short. */
static inline int rcsv_short(const unsigned char *p, const unsigned char *end, float *value)
{
    static const float sign[2] = { 1, -1 };
    const int negative = *p == '-';
    p += negative;
    const uint64_t n = (uint64_t)(end - p);
    if (n - 1 > 7)
        return -1;
    const uint64_t word = (gy_rows_word(p) ^ RCSV_ONES * '0') << (64 - 8 * n), found = rcsv_not_digits(word);
    if (found != 0)
        return n > 1 ? rcsv_point(word, found, negative, value) : -1;
    *value = (float)(int32_t)gy_rows_eight_digits(word) * sign[negative];
    return word != 0;
}

/* The next separators and line ends of a text. */
struct rcsv_stops {
    const unsigned char *at;
    uint64_t bits; /* one for each of the 64 bytes at `at` */
    const unsigned char *next; /* behind the last one */
    unsigned char separator;
};

#if defined(__SSE2__)
static inline uint64_t rcsv_sixteen(const unsigned char *p, unsigned char separator)
{
    const __m128i some = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(some, _mm_set1_epi8((char)separator)), _mm_cmpeq_epi8(some, _mm_set1_epi8('\n')));
    return (uint64_t)(uint32_t)_mm_movemask_epi8(found);
}
static inline uint64_t rcsv_look_for(const unsigned char *p, unsigned char separator)
{
    return rcsv_sixteen(p, separator) | rcsv_sixteen(p + 16, separator) << 16 | rcsv_sixteen(p + 32, separator) << 32 | rcsv_sixteen(p + 48, separator) << 48;
}
#else
/* High bits of the bytes that are zero. */
static inline uint64_t rcsv_zeros(uint64_t word) { return ~(((word & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu) | word) & 0x8080808080808080u; }
static inline uint64_t rcsv_look_for(const unsigned char *p, unsigned char separator)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t bits = 0;
    for (int k = 0; k < 8; k++) {
        const uint64_t word = gy_rows_word(p + 8 * k), found = rcsv_zeros(word ^ ones * separator) | rcsv_zeros(word ^ ones * '\n');
        bits |= ((found >> 7) * 0x0102040810204080u >> 56) << 8 * k;
    }
    return bits;
}
#endif

static inline void rcsv_stand_at(struct rcsv_stops *stops, const unsigned char *p)
{
    if (p != stops->next) {
        stops->at = stops->next = p;
        stops->bits = rcsv_look_for(p, stops->separator);
    }
}
static inline const unsigned char *rcsv_stop(struct rcsv_stops *stops)
{
    while (stops->bits == 0) {
        stops->at += 64;
        stops->bits = rcsv_look_for(stops->at, stops->separator);
    }
    const unsigned char *const stop = stops->at + __builtin_ctzll(stops->bits);
    stops->bits &= stops->bits - 1;
    stops->next = stop + 1;
    return stop;
}

/* Any column; returns what is behind its separator or the line's end. */
static __attribute__((noinline)) const unsigned char *rcsv_odd(struct gy_rows_piece *o, const unsigned char *p, int32_t column, float *value)
{
    const struct gy_rows_layout *const l = o->layout;
    p = rcsv_number(o, p, value);
    if (!p)
        return NULL;
    if (column + 1 < l->columns)
        return *p == l->separator ? p + 1 : gy_rows_fail(o, p, "%" PRId32 " columns, not %" PRId32, column + 1, l->columns);
    return gy_rows_at_end(p) ? gy_rows_behind(p) : gy_rows_fail(o, p, "more than %" PRId32 " columns", l->columns);
}

/* One line that is not blank; returns the next one. */
static inline const unsigned char *rcsv_row(struct gy_rows_piece *o, const unsigned char *p, struct rcsv_stops *stops)
{
    const struct gy_rows_layout l = *o->layout;
    uint32_t at = o->start[o->rows], feature = 0;
    uint32_t *const id = o->id;
    float *const values = o->value;
    float label = 0;
    if (l.columns == 0) /* all that was seen of the file before are blank lines */
        return gy_rows_fail(o, p, "more than 0 columns");
    rcsv_stand_at(stops, p);
    for (int32_t column = 0; column < l.columns; column++) {
        float value;
        const int last = column + 1 == l.columns;
        const unsigned char *const stop = rcsv_stop(stops), *const end = stop - (last && stop[-1] == '\r');
        int some = rcsv_short(p, end, &value);
        if (some >= 0 && *stop == (last ? '\n' : l.separator))
            p = stop + 1;
        else {
            float odd;
            p = rcsv_odd(o, p, column, &odd);
            if (!p)
                return NULL;
            rcsv_stand_at(stops, p);
            value = odd;
            some = value != 0;
        }
        if (column == l.label) {
            label = value;
            continue;
        }
        id[at] = feature++;
        values[at] = value;
        at += (uint32_t)some;
    }
    o->label[o->rows] = label;
    o->start[++o->rows] = at;
    return p;
}

static const unsigned char *rcsv_blank(struct gy_rows_piece *o, const unsigned char *p)
{
    p = gy_rows_blank_line(o, p);
    return p ? gy_rows_behind(p) : NULL;
}

static int rcsv_parse(struct gy_rows_piece *o)
{
    const unsigned char *p = o->text, *end = p + o->bytes;
    struct rcsv_stops stops = { NULL, 0, NULL, o->layout->separator };
    int header = o->first && o->layout->header;
    for (; p < end; o->lines++) {
        o->line = p;
        if (gy_rows_at_end(gy_rows_blanks(p)))
            p = rcsv_blank(o, gy_rows_blanks(p));
        else if (header) {
            p = (const unsigned char *)memchr(p, '\n', (size_t)(end - p)) + 1;
            header = 0;
        } else
            p = rcsv_row(o, p, &stops);
        if (!p)
            return o->status;
    }
    return GY_OK;
}

static unsigned char rcsv_separator(const unsigned char *line, const unsigned char *end)
{
    for (; line < end; line++)
        if (*line == ',' || *line == ';' || *line == '\t')
            return *line;
    return ',';
}

/* Columns of the line, and in *numbers how many of them are numbers. */
static int32_t rcsv_columns(const unsigned char *line, const unsigned char *end,
                            unsigned char separator, int32_t *numbers)
{
    int32_t columns = 0;
    *numbers = 0;
    for (;;) {
        float value;
        while (*line == ' ' || *line == '"')
            line++;
        const unsigned char *stop = memchr(line, separator, (size_t)(end - line)), *p = gy_rows_real(line, &value);
        columns++;
        *numbers += p && (*p <= ' ' || *p == separator || *p == '"');
        if (!stop)
            return columns;
        line = stop + 1;
    }
}

static int rcsv_look(struct gy_rows_layout *layout, const struct gy_rows_settings *settings, const unsigned char *line, const unsigned char *end,
                     struct gy_error *err)
{
    int32_t numbers;
    layout->separator = rcsv_separator(line, end);
    layout->columns = rcsv_columns(line, end, layout->separator, &numbers);
    layout->header = settings->header < 0 ? numbers == 0 : settings->header;
    layout->label = settings->label_column < 0 ? layout->columns - 1 : settings->label_column;
    if (layout->columns < 2 || layout->label >= layout->columns)
        return GY_FAIL(err, GY_E_FORMAT, "%" PRId32 " columns, and the label is column %" PRId32 " (from 0)", layout->columns, layout->label);
    if (settings->header < 0 && numbers > 0 && numbers < layout->columns)
        return GY_FAIL(err, GY_E_FORMAT, "%" PRId32 " of %" PRId32 " columns are numbers: a row "
                       "that lacks some, or names (then --header yes)", numbers, layout->columns);
    return GY_OK;
}

static int rcsv_fits(const unsigned char *line, const unsigned char *end)
{
    const unsigned char separator = rcsv_separator(line, end);
    return memchr(line, separator, (size_t)(end - line)) && !memchr(line, ':', (size_t)(end - line));
}

static const struct gy_rows_format rcsv_format = { "csv", "numbers between commas, semicolons or tabs: a label and dense features", 0, 2, rcsv_look,
    rcsv_fits, rcsv_parse };

GY_INT const struct gy_rows_format *gy_rows_csv(void) { return &rcsv_format; }
