/* SPDX-License-Identifier: MIT */
/* criteo.c: Criteo's click logs, in the list of rows_convert.c. A line has a label, 13 integers and
 * 26 words, separated by tabs or commas. An id may precede the label, and the file may begin with a
 * line of names, as files with commas do. Integers become words: v above 2 the whole part of
 * ln(v)^2, another "SP" and itself, a missing one the empty word. A feature is the hash of field
 * and word, so a row has 39 ids of value 1. Ids whose hashes are equal become one, which is
 * counted. */
#include "io/rows/rows_text.h"

#define CRITEO_INTEGERS 13
#define CRITEO_FIELDS 39
#define CRITEO_PLACES 40
#define CRITEO_VECTORS 5 /* of four ids, half of the places */
#define CRITEO_NONE INT32_MAX

/* 1: a column ends with this byte. */
static inline int criteo_stops(unsigned char byte, unsigned char separator) { return byte == separator || byte == '\n' || byte == '\r'; }

/* ---- hashing ---- */

/* A word's hash begins with seed and field and ends with the word's length. Between, it takes eight
 * bytes at a time, at least once, with zeros behind the last ones. */
static inline uint64_t criteo_begin(uint64_t seed, int field) { return seed + (uint64_t)(field + 1) * 0x9e3779b97f4a7c15u; }
static inline uint64_t criteo_add(uint64_t hash, uint64_t word) { return (hash ^ word) * 0x9fb21c651e98df25u ^ (hash >> 32); }
static inline uint64_t criteo_end(uint64_t hash, size_t bytes) { return gy_rows_mix(hash + bytes); }

/* The first n bytes of word, n at most 8; the others 0. */
static inline uint64_t criteo_first_bytes(uint64_t word, size_t n) { return n >= 8 ? word : word & (((uint64_t)1 << 8 * n) - 1); }

static uint64_t criteo_hash(uint64_t hash, const unsigned char *p, size_t n)
{
    size_t k = 0;
    do {
        hash = criteo_add(hash, criteo_first_bytes(gy_rows_word(p + k), n - k));
        k += 8;
    } while (k < n);
    return criteo_end(hash, n);
}

/* ---- integers ---- */

/* Up to four characters of a number below 10000, the first in the lowest byte. */
static uint32_t criteo_decimal(uint32_t number)
{
    uint32_t word = 0;
    do
        word = word << 8 | ('0' + number % 10);
    while ((number /= 10) != 0);
    return word;
}

static uint32_t criteo_large(uint64_t v)
{
    const double ln = log((double)v);
    return criteo_decimal((uint32_t)(ln * ln)); /* at most 1967 */
}

GY_INT void gy_rows_criteo_words(uint32_t word[GY_ROWS_CRITEO_TABLE])
{
    for (uint32_t v = 0; v < GY_ROWS_CRITEO_TABLE; v++)
        word[v] = v > 2 ? criteo_large(v) : 'S' | 'P' << 8 | (uint32_t)('0' + v) << 16;
}

static inline size_t criteo_length(uint32_t word) { return word >> 24 ? 4 : word >> 16 ? 3 : word >> 8 ? 2 : 1; }

/* Hashes an integer field that is not blank; the separator or the line's end must follow it. */
static const unsigned char *criteo_integer(struct gy_rows_piece *o, const unsigned char *p, uint64_t *hash)
{
    const unsigned char *first = p, *digits = p + (*p == '-');
    uint64_t v;
    const uint64_t word = gy_rows_word(digits);
    const int n = gy_rows_digits(word);
    if (n == 0)
        return gy_rows_fail_number(o, p, "an integer");
    if (n < 8) {
        v = gy_rows_eight(word, n);
        p = digits + n;
    } else
        p = gy_rows_count(digits, &v);
    if (!criteo_stops(*p, o->layout->separator))
        return gy_rows_fail_number(o, first, "an integer");
    if (v > INT64_MAX)
        return gy_rows_fail(o, first, "an integer beyond %" PRId64, INT64_MAX);
    if (*first != '-') {
        const uint32_t text = v < GY_ROWS_CRITEO_TABLE ? o->settings->criteo_word[v] : criteo_large(v);
        *hash = criteo_end(criteo_add(*hash, text), criteo_length(text));
        return p;
    }
    unsigned char negative[32 + GY_ROWS_PAD] = { 0 };
    const int length = snprintf((char *)negative, 32, "SP%s%" PRIu64, v != 0 ? "-" : "", v);
    *hash = criteo_hash(*hash, negative, (size_t)length);
    return p;
}

/* ---- rows ---- */

/* How many bytes of a word come before the separator or the line's end. */
static size_t criteo_word_bytes(const unsigned char *p, unsigned char separator)
{
    size_t n = 0;
    while (!criteo_stops(p[n], separator))
        n++;
    return n;
}

/* How many of the eight bytes precede one below '-'; separators, line ends and few others are. */
static inline size_t criteo_before_low(uint64_t word)
{
    const uint64_t low = (word - 0x2d2d2d2d2d2d2d2du) & ~word & 0x8080808080808080u;
    return low == 0 ? 8 : (size_t)__builtin_ctzll(low) >> 3;
}

/* The hash of a word field: nearly all have eight bytes, or none. */
static inline const unsigned char *criteo_word(const unsigned char *p, unsigned char separator, uint64_t *hash)
{
    const uint64_t word = gy_rows_word(p);
    size_t n = criteo_before_low(word);
    if (criteo_stops(p[n], separator))
        *hash = criteo_end(criteo_add(*hash, criteo_first_bytes(word, n)), n);
    else {
        n = criteo_word_bytes(p, separator);
        *hash = criteo_hash(*hash, p, n);
    }
    return p + n;
}

typedef int32_t criteo_four __attribute__((vector_size(16)));

/* How many of the ids are smaller than each of the 20 at `of`; five vectors stay in registers. */
static inline void criteo_rank(const int32_t id[CRITEO_PLACES], const int32_t *of, int32_t *rank)
{
    criteo_four of4[CRITEO_VECTORS], a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 }, e = { 0 };
    memcpy(of4, of, sizeof of4);
    for (int k = 0; k < CRITEO_FIELDS; k++) {
        const criteo_four one = { id[k], id[k], id[k], id[k] };
        a -= one < of4[0];
        b -= one < of4[1];
        c -= one < of4[2];
        d -= one < of4[3];
        e -= one < of4[4];
    }
    const criteo_four all[CRITEO_VECTORS] = { a, b, c, d, e };
    memcpy(rank, all, sizeof all);
}

/* Sorts by counting smaller ids. Equal ids have one place; empty ones behind it are left out. */
static uint32_t criteo_sort(const int32_t id[CRITEO_PLACES], uint32_t *out)
{
    int32_t sorted[CRITEO_PLACES], at[CRITEO_PLACES];
    criteo_rank(id, id, at);
    criteo_rank(id, id + CRITEO_PLACES / 2, at + CRITEO_PLACES / 2);
    for (int k = 0; k < CRITEO_PLACES; k++)
        sorted[k] = CRITEO_NONE;
    for (int k = 0; k < CRITEO_FIELDS; k++)
        sorted[at[k]] = id[k];
    uint32_t left = 0;
    for (int k = 0; k < CRITEO_FIELDS; k++) {
        out[left] = (uint32_t)sorted[k];
        left += sorted[k] != CRITEO_NONE;
    }
    return left;
}

static const unsigned char *criteo_label(struct gy_rows_piece *o, const unsigned char *p, unsigned char separator)
{
    if (o->layout->label == 1) {
        p += criteo_word_bytes(p, separator);
        if (*p++ != separator)
            return gy_rows_fail(o, p - 1, "the line ends before its label");
    }
    const unsigned char *label = p;
    if ((unsigned)p[0] - '0' <= 9 && p[1] == separator) {
        o->label[o->rows] = (float)(p[0] - '0');
        return p + 1;
    }
    p = gy_rows_real(p, &o->label[o->rows]);
    return p && *p == separator ? p : gy_rows_fail_number(o, label, "the label");
}

/* One line that is not blank; returns its newline. */
static const unsigned char *criteo_row(struct gy_rows_piece *o, const unsigned char *p, unsigned char separator)
{
    const struct gy_rows_settings *s = o->settings;
    int32_t id[CRITEO_PLACES];
    id[CRITEO_FIELDS] = 0;
    p = criteo_label(o, p, separator);
    for (int field = 0; p != NULL && field < CRITEO_FIELDS; field++) {
        uint64_t hash = criteo_begin(s->hash_seed, field);
        if (*p != separator)
            return gy_rows_fail(o, p, "%d columns behind the label, not %d", field, CRITEO_FIELDS);
        p++;
        if (field >= CRITEO_INTEGERS || criteo_stops(*p, separator))
            p = criteo_word(p, separator, &hash);
        else
            p = criteo_integer(o, p, &hash);
        id[field] = (int32_t)(hash >> (64 - s->hash_bits));
    }
    if (!p)
        return NULL;
    if (!gy_rows_at_end(p))
        return gy_rows_fail(o, p, *p == separator ? "more than %d columns behind the label" : "a carriage return inside the line, behind %d columns",
                            CRITEO_FIELDS);
    const uint32_t start = o->start[o->rows], left = criteo_sort(id, o->id + start);
    if (left != CRITEO_FIELDS)
        gy_rows_note(o, GY_MEND_COLLISION, CRITEO_FIELDS - left);
    o->start[++o->rows] = start + left;
    return p;
}

static int criteo_parse(struct gy_rows_piece *o)
{
    const unsigned char *p = o->text, *end = p + o->bytes, separator = o->layout->separator;
    int header = o->first && o->layout->header;
    for (; p < end; o->lines++) {
        o->line = p;
        if (gy_rows_at_end(p))
            p = gy_rows_blank_line(o, p);
        else if (header) {
            p = memchr(p, '\n', (size_t)(end - p));
            header = 0;
        } else
            p = criteo_row(o, p, separator);
        if (!p)
            return o->status;
        p = gy_rows_behind(p);
    }
    return GY_OK;
}

static int32_t criteo_columns(const unsigned char *line, const unsigned char *end, unsigned char separator)
{
    int32_t columns = 1;
    for (; line < end; line++)
        columns += *line == separator;
    return columns;
}

/* 40 columns, or 41 with an id before the label. A first line without a numeric label has names. */
static int criteo_look(struct gy_rows_layout *layout, const struct gy_rows_settings *settings, const unsigned char *line, const unsigned char *end,
                       struct gy_error *err)
{
    (void)settings;
    float label;
    layout->separator = memchr(line, '\t', (size_t)(end - line)) ? '\t' : ',';
    layout->columns = criteo_columns(line, end, layout->separator);
    layout->label = layout->columns == CRITEO_FIELDS + 2;
    if (layout->columns != CRITEO_FIELDS + 1 && layout->columns != CRITEO_FIELDS + 2)
        return GY_FAIL(err, GY_E_FORMAT, "%" PRId32 " columns between %s; Criteo's rows have 40, or 41 with an id", layout->columns,
                       layout->separator == ',' ? "commas" : "tabs");
    const unsigned char *p = line;
    if (layout->label == 1)
        p = (const unsigned char *)memchr(line, layout->separator, (size_t)(end - line)) + 1;
    layout->header = *p != layout->separator && !gy_rows_real(p, &label);
    return GY_OK;
}

static int criteo_fits(const unsigned char *line, const unsigned char *end)
{
    const int32_t tabs = criteo_columns(line, end, '\t'), commas = criteo_columns(line, end, ',');
    return tabs == CRITEO_FIELDS + 1 || tabs == CRITEO_FIELDS + 2 || (commas == CRITEO_FIELDS + 2 && memcmp(line, "Id,", 3) == 0);
}

static const struct gy_rows_format criteo_format = { "criteo", "Criteo's click logs, TSV or CSV: 13 integers and 26 words, hashed to 39 ids a row", 1, 1,
    criteo_look, criteo_fits, criteo_parse };

GY_INT const struct gy_rows_format *gy_rows_criteo(void) { return &criteo_format; }
