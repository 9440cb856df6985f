/* SPDX-License-Identifier: MIT */
/* Plain CSV of numbers: one column is the label, the others are dense features in their order; zeros are not stored. Columns are separated by tabs,
 * semicolons or commas, whichever of these the first line has first. A first line with a column that is no number has names. A missing number is a
 * failure: it is not zero. */
#include "rows_text.h"

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
    if (p == NULL || (quoted && *p != '"'))
        return gy_rows_fail_number(o, first, "a column");
    p += quoted;
    while (*p == ' ')
        p++;
    return *p == separator || gy_rows_at_end(p) ? p : gy_rows_fail_number(o, first, "a column");
}

static const unsigned char *rcsv_row(struct gy_rows_piece *o, const unsigned char *p)
{
    const struct gy_rows_layout *l = o->layout;
    uint32_t at = o->start[o->rows], feature = 0;
    for (int32_t column = 0; column < l->columns; column++) {
        float value;
        if (column > 0 && *p++ != l->separator)
            return gy_rows_fail(o, p - 1, "%" PRId32 " columns, not %" PRId32, column, l->columns);
        p = rcsv_number(o, p, &value);
        if (p == NULL)
            return NULL;
        if (column == l->label) {
            o->label[o->rows] = value;
            continue;
        }
        o->id[at] = feature++;
        o->value[at] = value;
        at += value != 0;
    }
    if (!gy_rows_at_end(p))
        return gy_rows_fail(o, p, "more than %" PRId32 " columns", l->columns);
    o->start[++o->rows] = at;
    return p;
}

static int rcsv_parse(struct gy_rows_piece *o)
{
    const unsigned char *p = o->text, *end = p + o->bytes;
    int header = o->first && o->layout->header;
    for (; p < end; o->lines++) {
        o->line = p;
        if (gy_rows_at_end(gy_rows_blanks(p)))
            p = gy_rows_blank_line(o, gy_rows_blanks(p));
        else if (header) {
            p = memchr(p, '\n', (size_t)(end - p));
            header = 0;
        } else
            p = rcsv_row(o, p);
        if (p == NULL)
            return o->status;
        p = gy_rows_behind(p);
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

/* Columns of the line, and in *names whether one of them is no number. */
static int32_t rcsv_columns(const unsigned char *line, const unsigned char *end, unsigned char separator, int *names)
{
    int32_t columns = 0;
    *names = 0;
    for (;;) {
        float value;
        while (*line == ' ' || *line == '"')
            line++;
        const unsigned char *stop = memchr(line, separator, (size_t)(end - line)), *p = gy_rows_real(line, &value);
        columns++;
        *names |= p == NULL || (*p > ' ' && *p != separator && *p != '"');
        if (stop == NULL)
            return columns;
        line = stop + 1;
    }
}

static int rcsv_look(struct gy_rows_layout *layout, const struct gy_rows_settings *settings, const unsigned char *line, const unsigned char *end,
                     struct gy_error *err)
{
    int names;
    layout->separator = rcsv_separator(line, end);
    layout->columns = rcsv_columns(line, end, layout->separator, &names);
    layout->header = settings->header < 0 ? names : settings->header;
    layout->label = settings->label_column < 0 ? layout->columns - 1 : settings->label_column;
    if (layout->columns < 2 || layout->label >= layout->columns)
        return GY_FAIL(err, GY_E_FORMAT, "%" PRId32 " columns, and the label is column %" PRId32 " (from 0)", layout->columns, layout->label);
    return GY_OK;
}

static int rcsv_fits(const unsigned char *line, const unsigned char *end)
{
    const unsigned char separator = rcsv_separator(line, end);
    return memchr(line, separator, (size_t)(end - line)) != NULL && memchr(line, ':', (size_t)(end - line)) == NULL;
}

static const struct gy_rows_format rcsv_format = { "csv", "numbers between commas, semicolons or tabs: a label and dense features", 0, 2, rcsv_look,
    rcsv_fits, rcsv_parse };

GY_INT const struct gy_rows_format *gy_rows_csv(void) { return &rcsv_format; }
