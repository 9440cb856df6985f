/* SPDX-License-Identifier: MIT */
/* t_rows_text.c: text of sparse rows. A table has texts of every format, well formed and not,
 * strict and lenient. Each has the rows it becomes or the place and sentence of its failure.
 * Numbers stand beside strtod. Files have several pieces, with any number of threads, and are
 * appended to. */
#include "engine/base/file.h"
#include "tests/rows_case.h"

struct txt_case {
    const char *format, *text;
    int flags;
    const char *rows;  /* "label id:value ...;" a row; NULL: it fails */
    /* The place of a failure, "line:column", and a part of its sentence. Or place: the mends, as
     * "what count line". */
    const char *place;
    const char *says;
};

static void txt_check_mends(const struct txt_case *c, const struct gy_convert_report *report)
{
    char said[600] = "";
    for (int i = 0; i < report->mends; i++)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s %" PRId64 " %" PRId64, i ? ", " : "", report->mend[i].what, report->mend[i].count,
                 report->mend[i].line);
    T_CHECK_MSG(strcmp(said, c->place ? c->place : "") == 0, "%s: '%s': mended '%s'", c->format, c->text, said);
}

static void txt_check_case(const struct txt_case *c)
{
    const struct gy_convert_config config = txt_config(c->format, c->flags);
    struct gy_convert_report report;
    struct gy_buf buf;
    char place[64];
    const int status = txt_rows(&config, c->text, strlen(c->text), &buf, &report);
    if (c->rows) {
        if (TXT_OK(status == GY_OK, c->text, txt_err.text)) {
            T_CHECK_MSG(strcmp(buf.text, c->rows) == 0, "%s: '%s' became '%s'", c->format, c->text, buf.text);
            T_CHECK(report.bytes == (int64_t)strlen(c->text) || (c->flags & TXT_LENIENT) != 0);
            txt_check_mends(c, &report);
        }
    } else {
        snprintf(place, sizeof place, "text:%s: ", c->place);
        T_CHECK_MSG(status == GY_E_FORMAT && strncmp(txt_err.text, place, strlen(place)) == 0 && strstr(txt_err.text, c->says),
                    "%s: '%s': status %d, %s", c->format,
                    c->text, status, status != GY_OK ? txt_err.text : buf.text);
    }
    gy_buf_close(&buf);
}

/* ---- the table ---- */

static const struct txt_case txt_light[] = {
    /* well formed */
    { "svmlight", "1 1:2 3:4.5\n-1 2:1\n", 0, "1 0:2 2:4.5;-1 1:1;", NULL, NULL },
    { "svmlight", "+1 1:1", 0, "1 0:1;", NULL, NULL },
    { "svmlight", "1 1:1 \r\n0 2:-2e1\t\r\n", 0, "1 0:1;0 1:-20;", NULL, NULL },
    { "svmlight", "1 1:1\r\n-1 2:1\r", 0, "1 0:1;-1 1:1;", NULL, NULL },
    { "svmlight", "  1\t1:.5  2:5. \n", 0, "1 0:0.5 1:5;", NULL, NULL },
    { "svmlight", "# a file\n1 1:1 # a row\n  # of two\n2 2:1#\n3 #\n4#\n", 0, "1 0:1;2 1:1;3;4;", NULL, NULL },
    { "svmlight", "1\n2\n", 0, "1;2;", NULL, NULL },
    { "svmlight", "-1.5e-1 0001:1 02:0\n", 0, "-0.150000006 0:1 1:0;", NULL, NULL },
    { "svmlight", "1 0:1 5:2\n", TXT_ZERO, "1 0:1 5:2;", NULL, NULL },
    { "svmlight", "1 4294967295:1\n", 0, "1 4294967294:1;", NULL, NULL },
    { "svmlight", "1 4294967294:1\n", TXT_ZERO, "1 4294967294:1;", NULL, NULL },
    { "svmlight", "1 12345678:1 123456789:0.1234567890123456789\n", 0, "1 12345677:1 123456788:0.123456791;", NULL, NULL },
    { "svmlight", "1 1:1e-60 2:3.4028234e38 3:0.000000000000000000000000000000000000000000001401298464324817\n", 0,
        "1 0:0 1:3.40282347e+38 2:1.40129846e-45;", NULL, NULL },
    /* ill formed */
    { "svmlight", "1 1:1\n\n2 1:1\n", 0, NULL, "2:1", "a blank line" },
    { "svmlight", "1 1:1\n2 1:1\n \r\n", 0, NULL, "3:2", "a blank line" },
    { "svmlight", "1 3:1 2:1\n", 0, NULL, "1:7", "id 2 behind 3" },
    { "svmlight", "1 1:1\n1 3:1 3:2\n", 0, NULL, "2:7", "id 3 comes twice" },
    { "svmlight", "1 0:1\n", 0, NULL, "1:3", "ids count from 1" },
    { "svmlight", "1 1:1 -2:1\n", 0, NULL, "1:7", "a negative id" },
    { "svmlight", "1 4294967296:1\n", 0, NULL, "1:3", "the largest that is read is 4294967295" },
    { "svmlight", "1 4294967295:1\n", TXT_ZERO, NULL, "1:3", "the largest that is read is 4294967294" },
    { "svmlight", "1 99999999999999999999999:1\n", 0, NULL, "1:3", "id 18446744073709551615 or more" },
    { "svmlight", "1 1:nan\n", 0, NULL, "1:5", "'nan', not a finite number" },
    { "svmlight", "1 1:1\n2 2:-inf 3:1\n", 0, NULL, "2:5", "'-inf', not a finite number" },
    { "svmlight", "1 1:1e39\n", 0, NULL, "1:5", "'1e39', not a finite number" },
    { "svmlight", "nan 1:1\n", 0, NULL, "1:1", "the label is 'nan'" },
    { "svmlight", "1,2 1:1\n", 0, NULL, "1:1", "the label is '1'" },
    { "svmlight", "yes 1:1\n", 0, NULL, "1:1", "the label is 'yes'" },
    { "svmlight", "1 1:\n", 0, NULL, "1:5", "a value is missing" },
    { "svmlight", "1 1: 2\n", 0, NULL, "1:5", "a value is missing" },
    { "svmlight", "1 1 2:1\n", 0, NULL, "1:4", "no ':' behind an id" },
    { "svmlight", "1 1:2:3\n", 0, NULL, "1:5", "'2:3', not a finite number" },
    { "svmlight", "1 1:0x10\n", 0, NULL, "1:5", "'0x10'" },
    { "svmlight", "1 1:1e\n", 0, NULL, "1:5", "'1e'" },
    { "svmlight", "1 1:1 a:1\n", 0, NULL, "1:7", "'a' (byte 0x61), not id:value" },
    { "svmlight", "1 qid:3 1:1\n", 0, NULL, "1:3", "qid" },
    { "svmlight", "1 1:1 qid:3\n", 0, NULL, "1:7", "'q'" },
    { "svmlight", "1 1:1\r2 1:1\n", 0, NULL, "1:6", "a carriage return inside" },
    { "svmlight", "1 1:1 5:1\n", TXT_FEW, NULL, "1:7", "id 5, but there are 4 features" },
    { "svmlight", "\xef\xbb\xbf" "1 1:1\n", 0, NULL, "1:1", "a byte order mark" },
    { "svmlight", "1 1:1 \x01 2:1\n", 0, NULL, "1:7", "byte 0x01" },
    { "svmlight", "1 1:1..2\n", 0, NULL, "1:5", "'1..2'" },
    { "svmlight", "1 1:--1\n", 0, NULL, "1:5", "'--1'" },
    { "svmlight", "1 1:1 2:12345678901234567890123456789012345678901234567890x\n", 0, NULL, "1:9", "1234567890..." },
    /* mended */
    { "svmlight", "1 1:1\n\n2 1:1\n\n\n", TXT_LENIENT, "1 0:1;2 0:1;", "blank lines were passed over 3 2", NULL },
    { "svmlight", "1 3:3 1:1 2:2\n", TXT_LENIENT, "1 0:1 1:2 2:3;", "ids that did not rise were sorted 1 1", NULL },
    { "svmlight", "1 1:1\n1 2:1 2:2 2:4\n", TXT_LENIENT, "1 0:1;1 1:7;", "duplicate ids, values were added 2 2", NULL },
    { "svmlight", "1 5:1 2:2 5:4\n", TXT_LENIENT, "1 1:2 4:5;", "ids that did not rise were sorted 1 1, duplicate ids, values were added 1 1", NULL },
    { "svmlight", "1 qid:3 1:1\n2 qid:4\n", TXT_LENIENT, "1 0:1;2;", "qid was left out 2 1", NULL },
    { "svmlight", "\xef\xbb\xbf" "1 1:1\n", TXT_LENIENT, "1 0:1;", "a byte order mark was passed over 1 1", NULL },
    { "svmlight", "1 1:1 4:4 5:1 9:1\n", TXT_LENIENT | TXT_FEW, "1 0:1 3:4;", "ids beyond the features were left out 2 1", NULL },
    { "svmlight", "1 0:1\n", TXT_LENIENT, NULL, "1:3", "ids count from 1" },
    { "svmlight", "1 1:nan\n", TXT_LENIENT, NULL, "1:5", "not a finite number" },
    { "svmlight", "1 1:3e38 1:3e38\n", TXT_LENIENT, NULL, "1:1", "more than a float holds" },
};

static const struct txt_case txt_others[] = {
    { "libffm", "1 0:3:1 1:7:0.5\n0 2:9:1 0:4:2\r\n", 0, "1 3:1 7:0.5;0 4:2 9:1;", NULL, NULL },
    { "libffm", "1 0:0:1", 0, "1 0:1;", NULL, NULL },
    { "libffm", "1 0:3:1 1:3:1\n", 0, NULL, "1:1", "an id comes twice" },
    { "libffm", "1 0:3:1 1:9:1 2:3:1\n", TXT_LENIENT, "1 3:2 9:1;", "duplicate ids, values were added 1 1", NULL },
    { "libffm", "1 3:1\n", 0, NULL, "1:6", "not field:id:value" },
    { "libffm", "1 a:3:1\n", 0, NULL, "1:3", "not field:id:value" },
    { "libffm", "1 9999999999:3:1\n", 0, NULL, "1:3", "a field beyond" },
    { "libffm", "1 0:x:1\n", 0, NULL, "1:3", "not field:id:value" },
    { "libffm", "1 0:1:1:1\n", 0, NULL, "1:7", "not a finite number" },
    { "libffm", "1 0:4294967295:1\n", 0, NULL, "1:5", "the largest that is read is 4294967294" },
    { "csv", "1,0,2\n3,4,0\n", 0, "2 0:1;0 0:3 1:4;", NULL, NULL },
    { "csv", "a,b,label\r\n1, 2 ,3\r\n", 0, "3 0:1 1:2;", NULL, NULL },
    { "csv", "label;x\n1;-2.5", TXT_FIRST, "1 0:-2.5;", NULL, NULL },
    { "csv", "1\t2\t3\n", TXT_FIRST, "1 0:2 1:3;", NULL, NULL },
    { "csv", "1,2\n3,4\n", TXT_HEADER, "4 0:3;", NULL, NULL },
    { "csv", "\"a\",\"b\"\n1,2\n", 0, "2 0:1;", NULL, NULL },
    { "csv", "a,,2b\n1,2,3\n", 0, "3 0:1 1:2;", NULL, NULL },
    { "csv", "year,2019\n1,2\n", TXT_HEADER, "2 0:1;", NULL, NULL },
    { "csv", "year,2019\n1,2\n", 0, NULL, "1:1", "1 of 2 columns are numbers" },
    { "csv", "1,,3\n0,2,4\n", 0, NULL, "1:1", "2 of 3 columns are numbers" },
    { "csv", "1,2,\r\n0,2,4\r\n", TXT_LENIENT, NULL, "1:1", "2 of 3 columns are numbers" },
    { "csv", "\n1,nan,3\n0,2,4\n", TXT_LENIENT, NULL, "2:1", "--header yes" },
    { "csv", "1,2\n3\n", 0, NULL, "2:2", "1 columns, not 2" },
    { "csv", "1,2\n3,4,5\n", 0, NULL, "2:4", "more than 2 columns" },
    { "csv", "1,2\n3,\n", 0, NULL, "2:3", "a column is missing" },
    { "csv", "1,2\r3,4\n", 0, NULL, "1:4", "byte 0x0d behind a number" },
    { "csv", "1,2,3\n3,,4\n", 0, NULL, "2:3", "a column is missing" },
    { "csv", "1,2\n3,NA\n", 0, NULL, "2:3", "'NA'" },
    { "csv", "1,2\n3,1e99\n", 0, NULL, "2:3", "'1e99'" },
    { "csv", "1,2\n\"3\",4\n", 0, NULL, "2:1", "'\"3\"'" },
    { "csv", "1,2\n\"3\",4\n", TXT_LENIENT, "2 0:1;4 0:3;", "quotes around numbers were left out 1 2", NULL },
    { "csv", "1,2\n\n3,4\n", 0, NULL, "2:1", "a blank line" },
    { "csv", "\n1,2\n\n3,4\n", TXT_LENIENT, "2 0:1;4 0:3;", "blank lines were passed over 2 1", NULL },
    { "csv", "1\n2\n", 0, NULL, "1:1", "1 columns" },
    { "csv", "1,2 3\n", 0, NULL, "1:5", "byte 0x33 behind a number" },
};

/* by the look: no format is named */
static const struct txt_case txt_looks[] = {
    { NULL, "# c\n1 3:1\n", 0, "1 2:1;", NULL, NULL },
    { NULL, "1 3:1:2\n", 0, "1 1:2;", NULL, NULL },
    { NULL, "1,2\n", 0, "2 0:1;", NULL, NULL },
    { NULL, "# a9a, adult census\n \t# by, hand\n+1 1:1 3:1\n-1 2:1\n", 0, "1 0:1 2:1;-1 1:1;", NULL, NULL },
    { NULL, "\xef\xbb\xbf" "1 1:1\n", TXT_LENIENT, "1 0:1;", "a byte order mark was passed over 1 1", NULL },
    { NULL, "\xef\xbb\xbf" "# a, b\n1 1:1\n", TXT_LENIENT, "1 0:1;", "a byte order mark was passed over 1 1", NULL },
    { NULL, "1 qid:1 3:1\n", TXT_LENIENT, "1 2:1;", "qid was left out 1 1", NULL },
};

static void txt_test_tables(void)
{
    for (size_t i = 0; i < GY_COUNT(txt_light); i++)
        txt_check_case(&txt_light[i]);
    for (size_t i = 0; i < GY_COUNT(txt_others); i++)
        txt_check_case(&txt_others[i]);
    for (size_t i = 0; i < GY_COUNT(txt_looks); i++)
        txt_check_case(&txt_looks[i]);
}

/* What is no row at all, and bytes of zero. */
static void txt_test_empty(void)
{
    static const struct { const char *format, *text; size_t count; const char *says; } cases[] = {
        { "svmlight", "", 0, "the file is empty" }, { NULL, "", 0, "the file is empty" }, { "svmlight", "# only a comment\n", 17, "no rows in 1 lines" },
        { "csv", "a,b\n", 4, "no rows in 1 lines" }, { NULL, "hello\n", 6, "none of its first lines looks like" }, { "svmlight", "1 1:1\0 2:1\n", 11,
            "text:1:6: a zero byte" },
        { "svmlight", "\0", 1, "text:1:1: the label" }, { "criteo", "1\t2\n", 4, "text:1:1: 2 columns" },
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const struct gy_convert_config config = txt_config(cases[i].format, 0);
        struct gy_blocks *blocks;
        const int status = txt_convert(&blocks, &config, cases[i].text, cases[i].count, NULL);
        T_CHECK_MSG(status == GY_E_FORMAT && !blocks && strstr(txt_err.text, cases[i].says), "case %zu: status %d, %s", i, status,
                    txt_err.text);
    }
}

/* A byte order mark and nothing behind it. */
static void txt_test_mark_alone(void)
{
    for (int lenient = 0; lenient < 2; lenient++) {
        const struct gy_convert_config config = txt_config("svmlight", lenient ? TXT_LENIENT : 0);
        struct gy_blocks *blocks;
        T_CHECK(txt_convert(&blocks, &config, "\xef\xbb\xbf", 3, NULL) == GY_E_FORMAT);
        T_CHECK_MSG(strstr(txt_err.text, lenient ? "no rows in 1 lines" : "text:1:1: a byte order mark") != NULL, "%s", txt_err.text);
    }
}

/* ---- numbers ---- */

/* Makes a number of a random form. It looks like a printed double or float, has many digits, has a
 * large or small power, or lies halfway between two floats. */
static void txt_make_number(char text[80])
{
    uint64_t bits = txt_next();
    const uint32_t low = (uint32_t)bits;
    double d;
    float f;
    memcpy(&d, &bits, sizeof d);
    memcpy(&f, &low, sizeof f);
    const double unit = (double)(bits >> 11) * 0x1p-53;
    switch (txt_next() % 8) {
    case 0: snprintf(text, 80, "%.17g", isfinite(d) ? d : 1.5); break;
    case 1: snprintf(text, 80, "%.9g", isfinite(f) ? (double)f : 2.5); break;
    case 2: snprintf(text, 80, "%.17g", unit); break;
    case 3: snprintf(text, 80, "%.6f", unit * 1000 - 500); break;
    case 4: snprintf(text, 80, "%.20f", unit * (double)(bits % 7)); break;
    case 5: snprintf(text, 80, "%" PRIu64 ".%" PRIu64 "e%d", bits >> 20, bits & 0xfffff, (int)(bits % 90) - 45); break;
    case 6: snprintf(text, 80, "%s%.15fe%+d", bits & 1 ? "+" : "-", unit, (int)(bits % 30) - 15); break;
    default: /* exactly between two floats, or the last digit beside it */
        f = (float)unit;
        snprintf(text, 80, "%.60g", (double)f + (double)(nextafterf(f, 2) - f) / 2);
        text[0 + strlen(text) - 1] = (char)('0' + bits % 10);
    }
}

static void txt_test_numbers(void)
{
    int bad = 0;
    for (int i = 0; i < 200000; i++) {
        char text[80 + GY_ROWS_PAD] = { 0 };
        float value = 0;
        txt_make_number(text);
        const double want = strtod(text, NULL);
        const unsigned char *end = gy_rows_real((const unsigned char *)text, &value);
        const int fits = isfinite((float)want);
        const int same = fits ? end == (const unsigned char *)text + strlen(text) && value == (float)want : !end;
        bad += !same;
        if (!same && bad < 10)
            printf("    %s is %.17g, not %.9g\n", text, want, (double)value);
    }
    T_CHECK_MSG(bad == 0, "%d numbers differ from strtod", bad);
}

/* ---- files of several pieces ---- */

/* Into a file, or into memory where to is NULL. */
static int txt_convert_files(const char *from, const char *second, const char *to, struct gy_blocks **memory, int threads, int32_t block_rows, int append,
                             struct gy_convert_report *report)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const char *const files[2] = { from, second };
    struct gy_convert_config config = txt_config("svmlight", 0);
    struct gy_pool *pool = NULL;
    T_CHECK(gy_pool_open(&pool, &alloc, threads, &txt_err) == GY_OK);
    config.from = files;
    config.files = second ? 2 : 1;
    config.to = to;
    config.append = append;
    config.block_rows = block_rows;
    config.pool = threads == 1 ? NULL : pool;
    const int status = to ? gy_convert(&config, &alloc, report, &txt_err) : gy_convert_to_memory(memory, &config, &alloc, report, &txt_err);
    gy_pool_close(pool);
    return status;
}

static int txt_convert_file(const char *from, const char *second, const char *to, int threads, int append, struct gy_convert_report *report)
{
    return txt_convert_files(from, second, to, NULL, threads, 0, append, report);
}

static int txt_same_files(const char *a, const char *b)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *x = NULL, *y = NULL;
    size_t xs = 0, ys = 0;
    const int same = gy_file_read(&alloc, a, SIZE_MAX, &x, &xs, &txt_err) == GY_OK && gy_file_read(&alloc, b, SIZE_MAX, &y, &ys, &txt_err) == GY_OK &&
                     xs > 0 && xs == ys && memcmp(x, y, xs) == 0;
    gy_alloc_free(&alloc, x, xs + 1);
    gy_alloc_free(&alloc, y, ys + 1);
    return same;
}

static void txt_test_threads(void)
{
    static const int32_t block_rows[] = { 0, 1000, 37 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_convert_report a, b;
    struct gy_buf text;
    char from[320], one[320], many[320];
    gy_buf_open(&text, &alloc);
    txt_make_text(&text, (size_t)5 << 19, 1);
    T_CHECK(txt_write_file(txt_path(from, "text"), text.text, text.bytes) == 0);
    T_CHECK(txt_convert_file(from, from, txt_path(one, "one"), 1, 0, &a) == GY_OK && txt_convert_file(from, from, txt_path(many, "many"), 2, 0, &b) == GY_OK);
    T_CHECK(txt_same_files(one, many) && a.rows == b.rows && a.bytes == 2 * (int64_t)text.bytes);
    for (size_t i = 0; i < GY_COUNT(block_rows); i++) {
        struct gy_blocks_info info[3];
        for (int threads = 1; threads <= 3; threads++) {
            struct gy_blocks *blocks = NULL;
            T_CHECK_MSG(txt_convert_files(from, from, NULL, &blocks, threads, block_rows[i], 0, &a) == GY_OK, "%s", txt_err.text);
            gy_blocks_get_info(blocks, &info[threads - 1]);
            gy_blocks_close(blocks);
        }
        /* the same checksums of the same blocks */
        T_CHECK(info[0].id == info[1].id && info[0].id == info[2].id && info[0].blocks == info[2].blocks);
        T_CHECK(block_rows[i] == 0 || info[0].blocks == (info[0].rows + block_rows[i] - 1) / block_rows[i]);
    }
    gy_buf_close(&text);
}

/* Lines that begin in one piece and end in a later one, so that no line begins in the pieces
 * between. The last line has no end. */
static void txt_test_long_lines(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_buf text;
    char from[320], word[40];
    gy_buf_open(&text, &alloc);
    int64_t entries_in_all = 0;
    for (int line = 0; line < 3000; line++) {
        const int entries = line == 1000 ? 150000 : line == 1001 || line == 2999 ? 50000 : line % 7;
        entries_in_all += entries;
        gy_buf_add(&text, line % 2 ? "1" : "0", 1);
        for (int k = 1; k <= entries; k++)
            gy_buf_add(&text, word, (size_t)snprintf(word, sizeof word, " %d:%d", k, line == 1001 ? k % 5 : 1));
        gy_buf_add(&text, "\n", line < 2999);
    }
    T_CHECK(txt_write_file(txt_path(from, "text"), text.text, text.bytes) == 0);
    uint64_t id[3] = { 0, 1, 2 };
    for (int threads = 1; threads <= 3; threads++) {
        struct gy_convert_report report = { 0 };
        struct gy_blocks_info info = { 0 };
        struct gy_blocks *blocks = NULL;
        T_CHECK_MSG(txt_convert_files(from, NULL, NULL, &blocks, threads, 500, 0, &report) == GY_OK, "%s", txt_err.text);
        if (!blocks)
            break;
        gy_blocks_get_info(blocks, &info);
        id[threads - 1] = info.id;
        T_CHECK(report.rows == 3000 && report.bytes == (int64_t)text.bytes && info.entries == report.entries && info.features == 150000);
        T_CHECK(report.entries == entries_in_all);
        gy_blocks_close(blocks);
    }
    T_CHECK(id[0] == id[1] && id[0] == id[2]);
    gy_buf_close(&text);
}

/* A failure in the last piece names its line, whatever the threads; nothing is left at the path. */
static void txt_test_late_failure(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_buf text;
    char from[320], to[320], want[400];
    int64_t lines = 1;
    gy_buf_open(&text, &alloc);
    txt_make_text(&text, (size_t)5 << 19, 0);
    for (size_t i = 0; i < text.bytes; i++)
        lines += text.text[i] == '\n';
    gy_buf_printf(&text, "1 1:1 1:1\n1 2:1\n");
    T_CHECK(txt_write_file(txt_path(from, "text"), text.text, text.bytes) == 0);
    snprintf(want, sizeof want, "%s:%" PRId64 ":7: id 1 comes twice", from, lines);
    remove(txt_path(to, "absent"));
    for (int threads = 1; threads <= 3; threads++) {
        T_CHECK(txt_convert_file(from, NULL, to, threads, 0, NULL) == GY_E_FORMAT && gy_file_exists(to) == 0);
        T_CHECK_MSG(strcmp(txt_err.text, want) == 0, "%s", txt_err.text);
    }
    gy_buf_close(&text);
}

static void txt_test_append(void)
{
    char a[320], b[320], to[320];
    struct gy_blocks *blocks = NULL;
    struct gy_buf buf;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_convert_report report;
    T_CHECK(txt_write_file(txt_path(a, "a"), "1 1:1\n2 5:1\n", 12) == 0 && txt_write_file(txt_path(b, "b"), "3 9:2", 5) == 0);
    T_CHECK(txt_convert_file(a, NULL, txt_path(to, "appended"), 1, 0, &report) == GY_OK && report.rows == 2);
    T_CHECK(txt_convert_file(b, a, to, 2, 1, &report) == GY_OK && report.rows == 3 && report.bytes == 17);
    if (!T_CHECK(gy_blocks_open(&blocks, to, &alloc, &txt_err) == GY_OK))
        return;
    gy_buf_open(&buf, &alloc);
    txt_print(blocks, &buf);
    T_CHECK_MSG(strcmp(buf.text, "1 0:1;2 4:1;3 8:2;1 0:1;2 4:1;") == 0, "%s", buf.text);
    gy_buf_close(&buf);
    gy_blocks_close(blocks);
    T_CHECK(txt_write_file(b, "3 9:", 4) == 0 && txt_convert_file(a, b, to, 1, 1, NULL) == GY_E_FORMAT);
    T_CHECK(gy_blocks_open(&blocks, to, &alloc, &txt_err) == GY_OK);
    gy_blocks_close(blocks);
    T_CHECK(txt_write_file(b, "", 0) == 0 && txt_convert_file(a, b, to, 1, 0, NULL) == GY_E_FORMAT && strstr(txt_err.text,
                                                                                                                "/b: the file is empty") != NULL);
    T_CHECK(txt_convert_file(a, "/nonexistent/text", to, 1, 0, NULL) == GY_E_IO);
}

/* An allocator that counts what is out, and refuses when `left` requests were granted. */
struct txt_memory {
    int64_t out, left;
};

static void *txt_take(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct txt_memory *m = user;
    if (new_bytes > 0 && m->left-- <= 0)
        return NULL;
    m->out += (int64_t)new_bytes - (ptr ? (int64_t)old_bytes : 0);
    if (new_bytes > 0)
        return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

/* Whichever request is refused first, the conversion reports it and frees every piece with its
 * size. */
static void txt_test_memory(void)
{
    static const char *const text[2] = { "1 1:1 2:2\n-1 3:1\n\n3 5:1 4:1\n1\n", "1,2\n3,4\n" };
    for (int64_t kind = 0, refused = 0; kind < 2; kind++, refused = 0) {
        int status = GY_E_NOMEM, bad = 0;
        for (int64_t left = 0; status == GY_E_NOMEM && left < 1000; left++) {
            struct txt_memory memory = { 0, left };
            const struct gy_alloc alloc = { txt_take, &memory };
            const struct gy_rows_bytes bytes = { "text", (const unsigned char *)text[kind], strlen(text[kind]) };
            struct gy_convert_config config = txt_config(NULL, TXT_LENIENT);
            struct gy_blocks *blocks = NULL;
            config.block_rows = 2;
            status = gy_convert_bytes(&blocks, &config, &bytes, &alloc, NULL, &txt_err);
            refused += status == GY_E_NOMEM;
            gy_blocks_close(blocks);
            bad += memory.out != 0;
        }
        T_CHECK_MSG(status == GY_OK && bad == 0 && refused > 20, "after %" PRId64 " refusals %s, %d left memory behind", refused, gy_status_name(status),
                    bad);
    }
}

static int txt_stop(void *user, int64_t done, int64_t total)
{
    int64_t *seen = user;
    seen[0]++;
    seen[1] = done;
    return total != 0 && seen[0] == seen[2];
}

static void txt_test_progress(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_convert_config config = txt_config("svmlight", 0);
    struct gy_blocks *blocks = NULL;
    int64_t seen[3] = { 0, 0, 0 };
    char from[320];
    const char *const files[1] = { txt_path(from, "text") };
    config.from = files;
    config.files = 1;
    config.progress = txt_stop;
    config.user = seen;
    T_CHECK(txt_write_file(from, "1 1:1\n", 6) == 0 && gy_convert_to_memory(&blocks, &config, &alloc, NULL, &txt_err) == GY_OK && seen[0] > 0 &&
            seen[1] == 6);
    gy_blocks_close(blocks);
    seen[2] = seen[0] + 1;
    T_CHECK(gy_convert_to_memory(&blocks, &config, &alloc, NULL, &txt_err) == GY_E_STOPPED);
}

static void txt_test_config(void)
{
    const char *const text = "1 1:1\n";
    static const struct { int32_t block_rows; int label_column, hash_bits; const char *format; uint32_t features; } wrong[] = {
        { -1, -1, 0, "svmlight", 0 }, { (1 << 20) + 1, -1, 0, "svmlight", 0 }, { 0, -2, 0, "csv", 0 }, { 0, -1, -1, "svmlight", 0 }, { 0, -1, 31,
            "criteo", 0 },
        { 0, -1, 0, "libsvm", 0 },    { 0, -1, 8, "csv", 0 },                  { 0, -1, 8, "svmlight", 200 },
    };
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        struct gy_convert_config config = txt_config(wrong[i].format, 0);
        struct gy_blocks *blocks;
        config.block_rows = wrong[i].block_rows;
        config.label_column = wrong[i].label_column;
        config.hash_bits = wrong[i].hash_bits;
        config.features = wrong[i].features;
        T_CHECK_MSG(txt_convert(&blocks, &config, text, strlen(text), NULL) == GY_E_ARG && txt_err.text[0] != 0, "case %zu was taken", i);
    }
    const char *about = NULL;
    int formats = 0;
    for (; gy_convert_format(formats, &about) != NULL; formats++)
        T_CHECK(about && about[0] != 0);
    T_CHECK(formats == 4 && !gy_convert_format(-1, NULL));
}

int main(void)
{
    static const char *const names[] = { "text", "one", "many", "a", "b", "appended" };
    const char *base = getenv("TMPDIR");
    snprintf(txt_folder, sizeof txt_folder, "%s/t_rows_text_%ld", base ? base : "/tmp", (long)getpid());
    T_CHECK(gy_file_make_folder(txt_folder, &txt_err) == GY_OK);
    txt_test_tables();
    txt_test_empty();
    txt_test_mark_alone();
    txt_test_numbers();
    txt_test_threads();
    txt_test_long_lines();
    txt_test_late_failure();
    txt_test_append();
    txt_test_memory();
    txt_test_progress();
    txt_test_config();
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        char path[320];
        remove(txt_path(path, names[i]));
    }
    rmdir(txt_folder);
    T_END("t_rows_text");
}
