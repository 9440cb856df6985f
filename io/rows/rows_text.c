/* SPDX-License-Identifier: MIT */
/* rows_text.c: what svmlight.c, criteo.c and rows_csv.c share: error messages with a column, counts
 * of mended faults, numbers, and sorting a row. Numbers are strtod's, as float. A mantissa up to
 * 2^53 with a power of ten up to 22 takes one correctly rounded operation. Else an interval around
 * the approximation decides whether its float is certain. What is not certain goes to strtod. */
#include "io/rows/rows_text.h"
#include "engine/base/text.h"
#include <float.h>

#define RTEXT_WORD_SHOWN 40
#define RTEXT_NUMBER_MOST 1000 /* bytes of a number */
#define RTEXT_SMALL_SORT 24

static const char *const rtext_mends[GY_MEND_COUNT] = {
    "blank lines were passed over",
    "ids that did not rise were sorted",
    "duplicate ids, values were added",
    "qid was left out",
    "a byte order mark was passed over",
    "ids beyond the features were left out",
    "ids whose hashes are equal became one",
    "quotes around numbers were left out",
};

GY_INT const char *gy_rows_mend_text(enum gy_rows_mend kind) { return rtext_mends[kind]; }

GY_INT void gy_rows_note(struct gy_rows_piece *piece, enum gy_rows_mend kind, int64_t count)
{
    if (piece->mend[kind] == 0)
        piece->mend_line[kind] = piece->lines;
    piece->mend[kind] += count;
}

GY_INT const unsigned char *gy_rows_fail(struct gy_rows_piece *piece, const unsigned char *at, const char *fmt, ...)
{
    char text[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    piece->column = at - piece->line + 1;
    piece->status = GY_FAIL(&piece->error, GY_E_FORMAT, "%s", text);
    return NULL;
}

GY_INT const unsigned char *gy_rows_blank_line(struct gy_rows_piece *piece, const unsigned char *p)
{
    if (!piece->settings->lenient)
        return gy_rows_fail(piece, p, "a blank line");
    gy_rows_note(piece, GY_MEND_BLANK, 1);
    return p;
}

/* The word at `at` made printable, cut after RTEXT_WORD_SHOWN bytes. */
static const char *rtext_shown(const unsigned char *at, char shown[RTEXT_WORD_SHOWN + 4])
{
    size_t n = 0;
    for (; n < RTEXT_WORD_SHOWN && at[n] > ' ' && at[n] != ','; n++)
        shown[n] = at[n] < 127 ? (char)at[n] : '?';
    memcpy(shown + n, "...", n == RTEXT_WORD_SHOWN ? 4 : 0);
    shown[n == RTEXT_WORD_SHOWN ? n + 3 : n] = 0;
    return shown;
}

GY_INT const unsigned char *gy_rows_fail_number(struct gy_rows_piece *piece, const unsigned char *at, const char *what)
{
    char shown[RTEXT_WORD_SHOWN + 4];
    if (rtext_shown(at, shown)[0] == 0)
        return gy_rows_fail(piece, at, "%s is missing", what);
    return gy_rows_fail(piece, at, "%s is '%s', not a finite number", what, shown);
}

GY_INT const unsigned char *gy_rows_count(const unsigned char *p, uint64_t *value)
{
    uint64_t n = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        const unsigned digit = (unsigned)*p - '0';
        n = n > (UINT64_MAX - digit) / 10 ? UINT64_MAX : n * 10 + digit;
    }
    *value = n;
    return p;
}

/* ---- numbers ---- */

static const double rtext_ten[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
#define RTEXT_TEN 22

/* The number again, by strtod. */
static const unsigned char *rtext_real_slow(const unsigned char *first, const unsigned char *end, float *value)
{
    char text[RTEXT_NUMBER_MOST + 1];
    double exact;
    if (end - first > RTEXT_NUMBER_MOST)
        return NULL;
    memcpy(text, first, (size_t)(end - first));
    text[end - first] = 0;
    if (gy_text_real(text, -DBL_MAX, DBL_MAX, &exact) != 0 || !isfinite((float)exact))
        return NULL;
    *value = (float)exact;
    return end;
}

static const uint32_t rtext_whole[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000 };

/* Adds a run of digits to *m, whose digits are counted in *n. */
static const unsigned char *rtext_run(const unsigned char *p, uint64_t *m, int *n)
{
    for (;;) {
        const uint64_t word = gy_rows_word(p);
        const int digits = gy_rows_digits(word);
        if (digits == 0 || *n > 40)
            return p;
        *m = *m * rtext_whole[digits] + gy_rows_eight(word, digits);
        *n += digits;
        p += digits;
        if (digits < 8)
            return p;
    }
}

static const unsigned char *rtext_zeros(const unsigned char *p)
{
    while (*p == '0')
        p++;
    return p;
}

/* m * 10^exponent as float where that is certain; 0 where it is not. */
static int rtext_certain(uint64_t m, int exponent, float *value)
{
    if (exponent < -2 * RTEXT_TEN || exponent > 2 * RTEXT_TEN)
        return m == 0 ? (*value = 0, 1) : 0;
    const int size = exponent < 0 ? -exponent : exponent, one = size < RTEXT_TEN ? size : RTEXT_TEN;
    double d = (double)m;
    d = exponent < 0 ? d / rtext_ten[one] / rtext_ten[size - one] : d * rtext_ten[one] * rtext_ten[size - one];
    *value = (float)d;
    if (m <= (uint64_t)1 << 53 && size <= RTEXT_TEN)
        return isfinite(*value);
    const double margin = d * 0x1p-49;
    return isfinite(*value) && (float)(d - margin) == (float)(d + margin);
}

/* Adds the exponent at p, if any, at most +-99999. Returns its end; NULL when it has no digits. */
static const unsigned char *rtext_power(const unsigned char *p, int *exponent)
{
    if ((*p | 32) != 'e')
        return p;
    const int negative = p[1] == '-';
    uint64_t size = 0;
    p += 1 + (negative || p[1] == '+');
    const unsigned char *end = gy_rows_count(p, &size);
    const int some = size > 99999 ? 99999 : (int)size;
    *exponent += negative ? -some : some;
    return end > p ? end : NULL;
}

/* [-]digits[.digits] with at most seven digits on each side, as most are: one division, correctly
 * rounded. NULL: another number, or none. */
static const unsigned char *rtext_short(const unsigned char *p, float *value)
{
    const int negative = *p == '-';
    const uint64_t word = gy_rows_word(p + negative);
    const int n = gy_rows_digits(word);
    if (n == 0 || n == 8)
        return NULL;
    p += negative + n;
    double d = (double)gy_rows_eight(word, n);
    if (*p == '.') {
        const uint64_t fraction = gy_rows_word(p + 1);
        const int places = gy_rows_digits(fraction);
        if (places == 0 || places == 8)
            return NULL;
        d = (d * rtext_ten[places] + (double)gy_rows_eight(fraction, places)) / rtext_ten[places];
        p += 1 + places;
    }
    if ((*p | 32) == 'e')
        return NULL;
    *value = (float)(negative ? -d : d);
    return p;
}

/* Any number. */
static const unsigned char *rtext_real(const unsigned char *p, float *value)
{
    const unsigned char *first = p;
    const int negative = *p == '-';
    uint64_t m = 0;
    int n = 0, exponent = 0;
    p += negative || *p == '+';
    const unsigned char *digits = p;
    p = rtext_run(rtext_zeros(p), &m, &n);
    int found = p > digits;
    if (*p == '.') {
        const unsigned char *fraction = p + 1;
        p = rtext_run(n == 0 ? rtext_zeros(fraction) : fraction, &m, &n);
        found |= p > fraction;
        exponent = -(int)gy_min64(p - fraction, 99999);
    }
    if (!found)
        return NULL;
    if (n > 19 || (*p >= '0' && *p <= '9')) { /* more digits than m holds */
        while ((*p >= '0' && *p <= '9') || *p == '.')
            p++;
        p = rtext_power(p, &exponent);
        return p ? rtext_real_slow(first, p, value) : NULL;
    }
    p = rtext_power(p, &exponent);
    if (!p)
        return NULL;
    if (!rtext_certain(m, exponent, value))
        return rtext_real_slow(first, p, value);
    *value = negative ? -*value : *value;
    return p;
}

GY_INT const unsigned char *gy_rows_real(const unsigned char *p, float *value)
{
    const unsigned char *const end = rtext_short(p, value);
    return end ? end : rtext_real(p, value);
}

/* ---- a row ---- */

static void rtext_swap(uint32_t *id, float *value, uint32_t a, uint32_t b)
{
    const uint32_t i = id[a];
    id[a] = id[b];
    id[b] = i;
    if (value) {
        const float v = value[a];
        value[a] = value[b];
        value[b] = v;
    }
}

/* Lets entry `at` of the heap [0, n) sink below those that are larger. */
static void rtext_sink(uint32_t *id, float *value, uint32_t at, uint32_t n)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n)
            return;
        child += child + 1 < n && id[child + 1] > id[child];
        if (id[child] <= id[at])
            return;
        rtext_swap(id, value, at, child);
        at = child;
    }
}

static void rtext_sort(uint32_t *id, float *value, uint32_t n)
{
    if (n <= RTEXT_SMALL_SORT) {
        for (uint32_t i = 1; i < n; i++)
            for (uint32_t k = i; k > 0 && id[k - 1] > id[k]; k--)
                rtext_swap(id, value, k - 1, k);
        return;
    }
    for (uint32_t i = n / 2; i-- > 0;)
        rtext_sink(id, value, i, n);
    for (uint32_t i = n - 1; i > 0; i--) {
        rtext_swap(id, value, 0, i);
        rtext_sink(id, value, 0, i);
    }
}

GY_INT uint32_t gy_rows_tidy(uint32_t *id, float *value, uint32_t n)
{
    uint32_t left = 0;
    rtext_sort(id, value, n);
    for (uint32_t k = 0; k < n; k++) {
        if (left > 0 && id[left - 1] == id[k]) {
            if (value)
                value[left - 1] += value[k];
            continue;
        }
        id[left] = id[k];
        if (value)
            value[left] = value[k];
        left++;
    }
    return left;
}
