/* SPDX-License-Identifier: MIT */
/* svmlight.c: two text formats, which rows_convert.c has in its list. Lines of svmlight and libsvm
 * are "label id:value id:value ... # comment", those of libffm "label field:id:value ...". Unless
 * `lenient` is set, svmlight's ids must rise within a line. libffm's come in the order of fields
 * and are sorted. svmlight's ids count from 1, or from 0 if the caller says so; libffm's are taken
 * as they are. libffm's fields are checked and left out: a linear model has no use for them. */
#include "io/rows/rows_text.h"

struct svm_place { /* where a row's entries go, and what was seen on the way */
    uint32_t *id;
    float *value;
    uint32_t count;
    int unsorted, twice;
    int64_t last;
};

/* Fails: no row of these formats can have what is at p. */
static const unsigned char *svm_fail_entry(struct gy_rows_piece *o, const unsigned char *p, int fields)
{
    static const char *const form[2] = { "id:value", "field:id:value" };
    if (*p == 0)
        return gy_rows_fail(o, p, "a zero byte, not %s", form[fields]);
    if (*p == '-')
        return gy_rows_fail(o, p, "a negative id; ids count from %d", !o->settings->zero_based && !fields);
    if (*p == '\r')
        return gy_rows_fail(o, p, "a carriage return inside the line");
    return gy_rows_fail(o, p, "'%c' (byte 0x%02x), not %s", *p > ' ' && *p < 127 ? *p : '?', *p, form[fields]);
}

/* An id out of order or range: 1 takes the entry, 0 leaves it out, -1 is a failure. */
static int svm_odd_id(struct gy_rows_piece *o, struct svm_place *at, const unsigned char *p, uint64_t number, int64_t id, int fields)
{
    const struct gy_rows_settings *s = o->settings;
    if (id < 0)
        gy_rows_fail(o, p, "id 0; ids count from 1 unless they are said to count from 0");
    else if (s->hash_bits == 0 && id >= UINT32_MAX)
        gy_rows_fail(o, p, "id %" PRIu64 "%s; the largest that is read is %" PRId64, number, number == UINT64_MAX ? " or more" : "",
                     (int64_t)UINT32_MAX - 1 + (!fields && !s->zero_based));
    else if (id == INT64_MAX)
        gy_rows_fail(o, p, "id %" PRIu64 "; the largest that is hashed is %" PRId64, number, INT64_MAX - 1 + (!fields && !s->zero_based));
    else if (s->hash_bits == 0 && s->features != 0 && id >= (int64_t)s->features) {
        if (s->lenient) {
            gy_rows_note(o, GY_MEND_BEYOND, 1);
            return 0;
        }
        gy_rows_fail(o, p, "id %" PRIu64 ", but there are %" PRIu32 " features", number, s->features);
    } else if (s->hash_bits == 0 && s->features == 0 && id >= (int64_t)s->most)
        gy_rows_fail(o, p, "id %" PRIu64 ", but the memory that is available has room for the weights of %" PRIu32 " features; state how many there are "
                     "(--features), or hash the ids (--hash-bits)", number, s->most);
    else if (fields || s->lenient) {
        at->unsorted |= id < at->last;
        at->twice |= id == at->last;
        return 1;
    } else if (id == at->last)
        gy_rows_fail(o, p, "id %" PRIu64 " comes twice", number);
    else
        gy_rows_fail(o, p, "id %" PRIu64 " behind %" PRId64 "; ids rise in a row", number, at->last + !s->zero_based);
    return -1;
}

static uint32_t svm_hash(const struct gy_rows_settings *s, uint64_t id)
{
    return (uint32_t)(gy_rows_mix(gy_rows_mix(id + s->hash_seed) ^ s->hash_seed) >> (64 - s->hash_bits));
}

/* The number at p, at once where it has up to seven digits; returns the first other character. */
static inline const unsigned char *svm_digits(const unsigned char *p, uint64_t *number)
{
    const uint64_t word = gy_rows_word(p);
    const int digits = gy_rows_digits(word);
    if (digits == 8)
        return gy_rows_count(p, number);
    *number = gy_rows_eight(word, digits);
    return p + digits;
}

/* Entries from p to what is none. fields is a constant, so that each format has its own loop. */
static inline const unsigned char *svm_entries(struct gy_rows_piece *o, const unsigned char *p, struct svm_place *at, const int fields)
{
    const struct gy_rows_settings *s = o->settings;
    const int64_t base = fields ? 0 : !s->zero_based, most = s->hash_bits != 0 ? INT64_MAX : s->features != 0 ? (int64_t)s->features : (int64_t)s->most;
    int64_t last = at->last;
    uint32_t k = at->count;
    for (;;) {
        uint64_t number;
        float value;
        p = gy_rows_blanks(p);
        if ((unsigned)*p - '0' > 9)
            break;
        const unsigned char *entry = p, *colon = svm_digits(p, &number);
        if (fields) {
            if (*colon != ':' || (unsigned)colon[1] - '0' > 9 || number > INT32_MAX)
                return gy_rows_fail(o, p, "%s", number > INT32_MAX ? "a field beyond 2147483647" : "not field:id:value");
            entry = colon + 1;
            colon = svm_digits(entry, &number);
        }
        if (*colon != ':')
            return gy_rows_fail(o, colon, "%s", fields ? "not field:id:value" : "no ':' behind an id");
        p = gy_rows_number(colon + 1, &value);
        if (!p)
            return gy_rows_fail_number(o, colon + 1, "a value");
        if (*p > ' ' && *p != '#')
            return gy_rows_fail_number(o, colon + 1, "a value");
        const int64_t id = number > INT64_MAX ? INT64_MAX : (int64_t)number - base;
        if (id <= last || id >= most) {
            at->last = last;
            const int take = svm_odd_id(o, at, entry, number, id, fields);
            if (take < 0)
                return NULL;
            if (take == 0)
                continue;
        }
        last = id;
        at->id[k] = s->hash_bits != 0 ? svm_hash(s, (uint64_t)id) : (uint32_t)id;
        at->value[k++] = value;
    }
    at->last = last;
    at->count = k;
    return p;
}

static const unsigned char *svm_qid(struct gy_rows_piece *o, const unsigned char *p)
{
    if (!o->settings->lenient)
        return gy_rows_fail(o, p, "qid groups rows for ranking, which linear models here do not do");
    gy_rows_note(o, GY_MEND_QID, 1);
    while (*p > ' ')
        p++;
    return p;
}

/* Sorts entries, adds values of equal ids. Fails where ids may not repeat or a sum is infinite. */
static const unsigned char *svm_order(struct gy_rows_piece *o, struct svm_place *at, const unsigned char *p, int fields)
{
    const uint32_t left = gy_rows_tidy(at->id, at->value, at->count);
    const int hashed = o->settings->hash_bits != 0;
    if (at->unsorted && !fields)
        gy_rows_note(o, GY_MEND_UNSORTED, 1);
    if (left != at->count) {
        if (!o->settings->lenient && !hashed)
            return gy_rows_fail(o, o->line, "an id comes twice in this line");
        gy_rows_note(o, hashed ? GY_MEND_COLLISION : GY_MEND_DUPLICATE, at->count - left);
    }
    at->count = left;
    for (uint32_t k = 0; k < left; k++)
        if (!isfinite(at->value[k]))
            return gy_rows_fail(o, o->line, "the values of an id that comes twice add up to more than a float holds");
    return p;
}

static const unsigned char *svm_line_end(struct gy_rows_piece *o, const unsigned char *p, int fields)
{
    if (*p == '#')
        while (*p != '\n')
            p++;
    return gy_rows_at_end(p) ? p : svm_fail_entry(o, p, fields);
}

/* One line that is not blank; returns its newline. */
static inline const unsigned char *svm_row(struct gy_rows_piece *o, const unsigned char *p, const int fields)
{
    const uint32_t start = o->start[o->rows];
    struct svm_place at = { o->id + start, o->value + start, 0, 0, 0, -1 };
    const unsigned char *label = p;
    p = gy_rows_number(p, &o->label[o->rows]);
    if (!p || (*p > ' ' && *p != '#'))
        return gy_rows_fail_number(o, label, "the label");
    p = svm_entries(o, p, &at, fields);
    if (p && *p == 'q' && memcmp(p, "qid:", 4) == 0 && at.count == 0 && !fields) {
        p = svm_qid(o, p);
        p = p ? svm_entries(o, p, &at, fields) : NULL;
    }
    if (p)
        p = svm_line_end(o, p, fields);
    if (p && (at.unsorted || at.twice || o->settings->hash_bits != 0))
        p = svm_order(o, &at, p, fields);
    if (!p)
        return NULL;
    o->start[++o->rows] = start + at.count;
    return p;
}

static inline int svm_parse(struct gy_rows_piece *o, const int fields)
{
    const unsigned char *p = o->text, *end = p + o->bytes;
    for (; p < end; o->lines++) {
        o->line = p;
        p = gy_rows_blanks(p);
        if (*p == '#')
            p = svm_line_end(o, p, fields);
        else if (gy_rows_at_end(p))
            p = gy_rows_blank_line(o, p);
        else
            p = svm_row(o, p, fields);
        if (!p)
            return o->status;
        p = gy_rows_behind(p);
    }
    return GY_OK;
}

static int svm_parse_light(struct gy_rows_piece *o) { return svm_parse(o, 0); }
static int svm_parse_ffm(struct gy_rows_piece *o) { return svm_parse(o, 1); }

static int svm_look(struct gy_rows_layout *layout, const struct gy_rows_settings *settings, const unsigned char *line, const unsigned char *end,
                    struct gy_error *err)
{
    (void)settings, (void)line, (void)end, (void)err;
    *layout = (struct gy_rows_layout){ 0, 0, ' ', 0 };
    return GY_OK;
}

/* Colons of the word behind the label; -1 when the line does not begin with a number. */
static int svm_colons(const unsigned char *line)
{
    float label;
    int colons = 0;
    const unsigned char *p = gy_rows_real(gy_rows_blanks(line), &label);
    if (!p || *p > ' ')
        return -1;
    p = gy_rows_blanks(p);
    if (memcmp(p, "qid:", 4) == 0)
        return 1;
    for (; *p > ' '; p++)
        colons += *p == ':';
    return colons;
}
static int svm_fits_light(const unsigned char *line, const unsigned char *end) { return end > line && svm_colons(line) == 1; }
static int svm_fits_ffm(const unsigned char *line, const unsigned char *end) { return end > line && svm_colons(line) == 2; }

static const struct gy_rows_format svm_light = { "svmlight", "label id:value ..., ids from 1 (libsvm, liblinear; zero-based on demand)", 0, 4, svm_look,
    svm_fits_light, svm_parse_light };
static const struct gy_rows_format svm_ffm = { "libffm", "label field:id:value ..., ids as they are; fields are checked and left out", 0, 6, svm_look,
    svm_fits_ffm, svm_parse_ffm };

GY_INT const struct gy_rows_format *gy_rows_svmlight(void) { return &svm_light; }
GY_INT const struct gy_rows_format *gy_rows_libffm(void) { return &svm_ffm; }
