/* SPDX-License-Identifier: MIT */
/* t_rows_more.c: more of rows from text: Criteo's words hashed again by the letter, hashed ids, .gz
 * files whole and damaged. Also the files of real data that $GYRE_TEST_DATA has. */
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "tests/rows_case.h"

/* ---- Criteo ---- */

static uint64_t txt_criteo_hash(uint64_t seed, int field, const char *word)
{
    const size_t n = strlen(word);
    uint64_t hash = seed + (uint64_t)(field + 1) * 0x9e3779b97f4a7c15u;
    for (size_t k = 0; k == 0 || k < n; k += 8) {
        uint64_t part = 0;
        for (size_t i = k; i < n && i < k + 8; i++)
            part |= (uint64_t)(unsigned char)word[i] << 8 * (i - k);
        hash = ((hash ^ part) * 0x9fb21c651e98df25u) ^ (hash >> 32);
    }
    hash += n;
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
    return hash ^ hash >> 33;
}

/* The word that a column's text becomes. */
static void txt_criteo_word(int field, const char *text, char word[64])
{
    const int64_t v = field < 13 && text[0] != 0 ? strtoll(text, NULL, 10) : 0;
    if (field >= 13 || text[0] == 0)
        (void)gy_text_copy(word, 64, text);
    else if (v > 2)
        snprintf(word, 64, "%d", (int)(log((double)v) * log((double)v)));
    else
        snprintf(word, 64, "SP%" PRId64, v);
}

/* The row by the letter: hashes, sorted, each once. */
static void txt_criteo_row(char text[39][64], int bits, uint64_t seed, struct gy_buf *buf)
{
    uint64_t id[39], last = UINT64_MAX;
    for (int i = 0; i < 39; i++) {
        char word[64];
        txt_criteo_word(i, text[i], word);
        id[i] = txt_criteo_hash(seed, i, word) >> (64 - bits);
        for (int k = i; k > 0 && id[k - 1] > id[k]; k--) {
            const uint64_t swap = id[k];
            id[k] = id[k - 1];
            id[k - 1] = swap;
        }
    }
    for (int i = 0; i < 39; i++) {
        if (id[i] != last)
            gy_buf_printf(buf, " %" PRIu64 ":1", id[i]);
        last = id[i];
    }
    gy_buf_printf(buf, ";");
}

static void txt_make_column(int field, char text[64])
{
    const uint64_t draw = txt_next();
    text[0] = 0;
    if (draw % 5 == 0)
        return;
    if (field < 13)
        snprintf(text, 64, "%" PRId64, (int64_t)(draw >> (draw / 5 % 50 + 14)) - (draw % 3 == 0 ? 3 : 0));
    else
        snprintf(text, 64, draw % 7 == 0 ? "%" PRIx64 "-word of some length" : draw % 11 == 0 ? "%.0" PRIx64 : "%08" PRIx64,
                 draw % 7 == 0 ? draw : draw >> 33);
}

static void txt_test_criteo(void)
{
    static const int all_bits[] = { 20, 6, 30, 1 };
    /* TSV, or CSV with names and ids; four numbers of bits; more lines than a block has */
    for (int kind = 0; kind < 8; kind++) {
        const struct gy_alloc alloc = gy_alloc_default();
        const char separator = kind & 1 ? ',' : '\t';
        struct gy_buf text, want, got;
        struct gy_convert_report report;
        struct gy_convert_config config = txt_config(kind < 4 ? "criteo" : NULL, 0);
        config.hash_bits = all_bits[kind / 2];
        config.hash_seed = (uint64_t)kind * 77777777777u;
        config.block_rows = 20;
        gy_buf_open(&text, &alloc);
        gy_buf_open(&want, &alloc);
        for (int k = -1; (kind & 1) != 0 && k < 39; k++)
            gy_buf_printf(&text, k < 0 ? "Id,Label%.0d" : k < 13 ? ",I%d" : ",C%d", k < 13 ? k + 1 : k - 12);
        if (kind & 1)
            gy_buf_printf(&text, "\r\n");
        for (int i = 0; i < 50; i++) {
            char column[39][64];
            gy_buf_printf(&text, kind & 1 ? "%d,%d" : "%.0d%d", kind & 1 ? 1000 + i : 0, i % 3 == 0);
            gy_buf_printf(&want, "%d", i % 3 == 0);
            for (int k = 0; k < 39; k++) {
                txt_make_column(k, column[k]);
                gy_buf_printf(&text, "%c%s", separator, column[k]);
            }
            gy_buf_printf(&text, kind & 1 ? "\r\n" : "\n");
            txt_criteo_row(column, config.hash_bits, config.hash_seed, &want);
        }
        if (TXT_OK(txt_rows(&config, text.text, text.bytes, &got, &report) == GY_OK, "criteo", txt_err.text)) {
            T_CHECK_MSG(strcmp(got.text, want.text) == 0, "kind %d:\n%.300s\n%.300s", kind, got.text, want.text);
            T_CHECK(report.rows == 50 && (report.mends == 1) == (report.entries < 50 * 39) && (report.mends == 0 ||
                                                                                               report.mend[0].count == 50 * 39 - report.entries));
        }
        gy_buf_close(&got);
        gy_buf_close(&text);
        gy_buf_close(&want);
    }
}

static void txt_test_criteo_failures(void)
{
    static const struct { const char *row, *says; } cases[] = {
        { "1\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n", NULL },
        { "1\tx\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n", "text:2:3: an integer is 'x'" },
        { "1\t1.5\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n", "text:2:3: an integer is '1.5', not" },
        { "1\t99999999999999999999\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n", "text:2:3: an integer beyond" },
        { "1\t1\t2\n", "text:2:6: 2 columns behind the label, not 39" },
        { "1\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n", "text:2:41: more than 39 columns" },
        { "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n", "text:2:1: the label is missing" },
        { "\n", "text:2:1: a blank line" },
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const struct gy_convert_config config = txt_config("criteo", 0);
        struct gy_blocks *blocks;
        char text[400];
        snprintf(text, sizeof text, "%s%s", cases[0].row, cases[i].row);
        const int status = txt_convert(&blocks, &config, text, strlen(text), NULL);
        T_CHECK_MSG((!cases[i].says) == (status == GY_OK) && (status == GY_OK || strncmp(txt_err.text, cases[i].says, strlen(cases[i].says)) == 0),
                    "case %zu: %s", i,
                    txt_err.text);
        gy_blocks_close(blocks);
    }
}

/* Blank lines that fill the first piece say nothing of the columns. */
static void txt_test_blank_piece(void)
{
    const size_t blanks = 300000;
    char *const text = malloc(blanks + 16);
    const struct gy_convert_config config = txt_config("csv", TXT_LENIENT);
    struct gy_blocks *blocks;
    memset(text, '\n', blanks);
    memcpy(text + blanks, "1,2\n3,4\n", 8);
    T_CHECK(txt_convert(&blocks, &config, text, blanks + 8, NULL) != GY_OK && strcmp(txt_err.text, "text:300001:1: more than 0 columns") == 0);
    gy_blocks_close(blocks);
    free(text);
}

/* ---- hashed ids ---- */

static void txt_test_hashed(void)
{
    struct gy_convert_config config = txt_config("svmlight", 0);
    struct gy_convert_report report;
    struct gy_blocks *blocks;
    struct gy_blocks_info info;
    const char *text = "1 1:1 2:2 9223372036854775807:4\n-1 5:1\n";
    config.hash_bits = 30;
    if (T_CHECK(txt_convert(&blocks, &config, text, strlen(text), &report) == GY_OK)) {
        gy_blocks_get_info(blocks, &info);
        T_CHECK(info.features == 1u << 30 && info.hash_bits == 30 && info.entries == 4 && report.mends == 0);
        gy_blocks_close(blocks);
    }
    config.hash_bits = 1;
    if (T_CHECK(txt_convert(&blocks, &config, text, strlen(text), &report) == GY_OK)) {
        gy_blocks_get_info(blocks, &info);
        T_CHECK(info.features == 2 && info.entries < 4 && report.mends == 1 && report.mend[0].count == 4 - info.entries);
        gy_blocks_close(blocks);
    }
    config.hash_bits = 31;
    T_CHECK(txt_convert(&blocks, &config, text, strlen(text), &report) == GY_E_ARG);
}

/* ---- .gz ---- */

/* A member of stored blocks of at most `most` bytes. */
static void txt_add_member(struct gy_buf *gz, const char *text, size_t count, size_t most)
{
    static const unsigned char head[10] = { 0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3 };
    unsigned char tail[8];
    gy_buf_add(gz, head, sizeof head);
    gy_buf_add(gz, "name", 5);
    for (size_t at = 0;;) {
        const size_t n = count - at < most ? count - at : most;
        const unsigned char block[5] = { at + n == count, (unsigned char)n, (unsigned char)(n >> 8), (unsigned char)~n, (unsigned char)(~n >> 8) };
        gy_buf_add(gz, block, sizeof block);
        gy_buf_add(gz, text + at, n);
        at += n;
        if (at == count)
            break;
    }
    const uint32_t crc = gy_crc32(0, text, count);
    for (int i = 0; i < 4; i++) {
        tail[i] = (unsigned char)(crc >> 8 * i);
        tail[i + 4] = (unsigned char)(count >> 8 * i);
    }
    gy_buf_add(gz, tail, sizeof tail);
}

/* "1 1:1\n" in fixed codes, and 60 rows "LABEL 1:1 7:0.5 N:1" in codes of their own. gzip made
 * both. */
static const unsigned char txt_fixed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x33, 0x54, 0x30, 0xb4, 0x32, 0xe4, 0x02, 0x00, 0x81, 0x4b, 0xc6, 0xf8,
    0x06, 0x00, 0x00, 0x00,
};
static const unsigned char txt_dynamic[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x5d, 0xce, 0xbb, 0x0d, 0xc2, 0x50, 0x14, 0x44, 0xc1, 0x9c, 0x2a, 0x5c,
    0x01, 0x7a, 0xef, 0xfe, 0x0c, 0xee, 0xbf, 0x30, 0x4c, 0x66, 0x4d, 0xb6, 0x5a, 0x9d, 0x60, 0xd6, 0xb1, 0xaf, 0x7d, 0x9c, 0xd7, 0x7a,
    0xf7, 0xb1, 0xef, 0xf9, 0xda, 0xcf, 0x23, 0xee, 0x63, 0x3d, 0x8f, 0xb4, 0x28, 0x8b, 0xb6, 0x18, 0x8b, 0xd3, 0xe2, 0x63, 0xf1, 0xa5,
    0x88, 0x45, 0x11, 0x4a, 0x43, 0x69, 0x28, 0x0d, 0xa5, 0xa1, 0x34, 0x94, 0x86, 0xd2, 0x50, 0x1a, 0x4a, 0x53, 0x69, 0x2a, 0x4d, 0xa5,
    0xa9, 0x34, 0x95, 0xa6, 0xd2, 0x54, 0x9a, 0x4a, 0x53, 0x69, 0x2a, 0x2d, 0xa5, 0xa5, 0xb4, 0x94, 0x96, 0xd2, 0x52, 0x5a, 0x4a, 0x4b,
    0x69, 0x29, 0x2d, 0xa5, 0xa5, 0xb4, 0x95, 0xb6, 0xd2, 0x56, 0xda, 0x4a, 0x5b, 0x69, 0x2b, 0x6d, 0xa5, 0xad, 0xb4, 0x95, 0xb6, 0xd2,
    0x51, 0x3a, 0x4a, 0x47, 0xe9, 0x28, 0x1d, 0xa5, 0xa3, 0x74, 0x94, 0x8e, 0xd2, 0x51, 0x3a, 0x4a, 0xcf, 0xbf, 0xf4, 0x07, 0xaa, 0xf1,
    0x89, 0xa7, 0xfc, 0x03, 0x00, 0x00,
};

static void txt_check_gz(const void *bytes, size_t count, const char *want, size_t want_rows)
{
    const struct gy_convert_config config = txt_config(NULL, 0);
    struct gy_convert_report report;
    struct gy_buf got;
    if (TXT_OK(txt_rows(&config, bytes, count, &got, &report) == GY_OK, "gz", txt_err.text)) {
        T_CHECK_MSG(!want || strcmp(got.text, want) == 0, "%s", got.text);
        T_CHECK((size_t)report.rows == want_rows);
    }
    gy_buf_close(&got);
}

static void txt_test_gz(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_buf gz, text, plain, unpacked, want;
    struct gy_convert_report report;
    gy_buf_open(&want, &alloc);
    for (int i = 0; i < 60; i++)
        gy_buf_printf(&want, "%d 0:1 6:0.5 %d:1;", i % 2, i + 10);
    txt_check_gz(txt_fixed, sizeof txt_fixed, "1 0:1;", 1);
    txt_check_gz(txt_dynamic, sizeof txt_dynamic, want.text, 60);
    gy_buf_close(&want);
    /* several members and windows, lines that begin in one and end in the next */
    gy_buf_open(&text, &alloc);
    gy_buf_open(&gz, &alloc);
    txt_make_text(&text, (size_t)5 << 19, 1);
    txt_add_member(&gz, text.text, 1000003, 65535);
    txt_add_member(&gz, text.text + 1000003, text.bytes - 1000003, 12345);
    const struct gy_convert_config config = txt_config("svmlight", 0);
    T_CHECK(txt_rows(&config, text.text, text.bytes, &plain, &report) == GY_OK);
    T_CHECK_MSG(txt_rows(&config, gz.text, gz.bytes, &unpacked, &report) == GY_OK, "%s", txt_err.text);
    T_CHECK(report.bytes == (int64_t)text.bytes && plain.bytes == unpacked.bytes && strcmp(plain.text, unpacked.text) == 0);
    gy_buf_close(&plain);
    gy_buf_close(&unpacked);
    gy_buf_close(&text);
    gy_buf_close(&gz);
}

/* Sum over the blocks that a .gz becomes, 0 when it fails. */
static uint64_t txt_gz_id(const char *bytes, size_t count)
{
    const struct gy_convert_config config = txt_config("svmlight", 0);
    struct gy_blocks *blocks;
    struct gy_blocks_info info;
    if (txt_convert(&blocks, &config, bytes, count, NULL) != GY_OK)
        return 0;
    gy_blocks_get_info(blocks, &info);
    gy_blocks_close(blocks);
    return info.id;
}

/* A changed bit is noticed, or was one that decides nothing: the content is the same then. */
static void txt_test_gz_damage(void)
{
    char copy[sizeof txt_dynamic];
    size_t cut = 0, changed = 0, noticed = 0;
    memcpy(copy, txt_dynamic, sizeof copy);
    const uint64_t right = txt_gz_id(copy, sizeof copy);
    for (size_t n = 2; n < sizeof copy; n++)
        cut += txt_gz_id(copy, n) != 0 || txt_err.status != GY_E_TRUNCATED;
    for (size_t n = 10; n < sizeof copy; n++)
        for (int bit = 0; bit < 8; bit++) {
            copy[n] = (char)(copy[n] ^ 1 << bit);
            const uint64_t id = txt_gz_id(copy, sizeof copy);
            noticed += id == 0;
            changed += id != 0 && id != right;
            copy[n] = (char)txt_dynamic[n];
        }
    T_CHECK_MSG(right != 0 && cut == 0 && changed == 0 && noticed + 10 > 8 * (sizeof copy - 10),
                "%zu cuts and %zu changed bits were not noticed, %zu were", cut, changed, noticed);
}

/* Bits of a .gz, the lowest first. */
struct txt_bits {
    unsigned char bytes[512];
    int count;
};

static void txt_put(struct txt_bits *b, unsigned value, int bits)
{
    for (int i = 0; i < bits; i++, b->count++)
        b->bytes[b->count / 8] = (unsigned char)(b->bytes[b->count / 8] | (value >> i & 1) << b->count % 8);
}

/* A code, its highest bit first. */
static void txt_put_code(struct txt_bits *b, unsigned code, int bits)
{
    for (int i = bits; i-- > 0;)
        txt_put(b, code >> i & 1, 1);
}

enum { TXT_LITERALS = 257, TXT_DISTANCES = 3 };

/* The code of a symbol among others of these lengths (RFC 1951, 3.2.2). */
static unsigned txt_code(const unsigned char *length, int n, int symbol)
{
    unsigned code = 0;
    for (int bits = 1; bits <= length[symbol]; bits++) {
        code <<= 1;
        for (int i = 0; i < n; i++)
            code += length[i] == bits && (bits < length[symbol] || i < symbol);
    }
    return code;
}

/* "1 1:1\n" in codes of its own, of these lengths; an end only where it has a code. */
static size_t txt_make_dynamic(struct txt_bits *b, const unsigned char *literal, const unsigned char *distance)
{
    static const char text[] = "1 1:1\n";
    static const unsigned char head[10] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3 };
    const uint32_t crc = gy_crc32(0, text, 6);
    memset(b, 0, sizeof *b);
    memcpy(b->bytes, head, sizeof head);
    b->count = 80;
    txt_put(b, 5, 3); /* the last block, with codes of its own */
    txt_put(b, TXT_LITERALS - 257, 5);
    txt_put(b, TXT_DISTANCES - 1, 5);
    txt_put(b, 19 - 4, 4);
    for (int i = 0; i < 19; i++) /* lengths are written in five bits each */
        txt_put(b, 5, 3);
    for (int i = 0; i < TXT_LITERALS + TXT_DISTANCES; i++)
        txt_put_code(b, i < TXT_LITERALS ? literal[i] : distance[i - TXT_LITERALS], 5);
    for (int i = 0; i < 6; i++)
        txt_put_code(b, txt_code(literal, TXT_LITERALS, text[i]), literal[(unsigned char)text[i]]);
    txt_put_code(b, txt_code(literal, TXT_LITERALS, 256), literal[256]);
    b->count = (b->count + 7) / 8 * 8;
    txt_put(b, crc, 32);
    txt_put(b, 6, 32);
    return (size_t)b->count / 8;
}

/* Impossible codes: no code for the end, or more literals or distances than their lengths allow. */
static void txt_test_gz_codes(void)
{
    static const struct {
        /* bits of a code: of four literals, of three distances, of the end */
        int literal, distance, end;
        const char *says;           /* NULL: it is right */
    } rows[] = { { 3, 0, 3, NULL }, { 3, 2, 3, NULL }, { 3, 2, 1, NULL }, { 2, 2, 2, "too many codes of a length, or no end" },
                 { 2, 2, 1, "too many codes of a length, or no end" }, { 3, 1, 3, "too many codes of a length, or no end" },
                 { 3, 2, 0, "too many codes of a length, or no end" } };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        unsigned char literal[TXT_LITERALS] = { 0 }, distance[TXT_DISTANCES];
        struct txt_bits gz;
        memset(distance, rows[i].distance, sizeof distance);
        literal['1'] = literal[' '] = literal[':'] = literal['\n'] = (unsigned char)rows[i].literal;
        literal[256] = (unsigned char)rows[i].end;
        const size_t count = txt_make_dynamic(&gz, literal, distance);
        if (!rows[i].says)
            txt_check_gz(gz.bytes, count, "1 0:1;", 1);
        else {
            const uint64_t id = txt_gz_id((const char *)gz.bytes, count);
            T_CHECK_MSG(id == 0 && txt_err.status == GY_E_FORMAT && strstr(txt_err.text, rows[i].says), "codes %zu: %d, '%s'", i, txt_err.status,
                        txt_err.text);
        }
    }
}

/* ---- real files ---- */

struct txt_file {
    const char *name;
    int zero_based, classes;
    int64_t rows, entries;
    uint32_t features;
};

static void txt_check_file(const struct txt_file *f, const char *folder)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char path[4096];
    struct gy_convert_config config = txt_config(NULL, f->zero_based ? TXT_ZERO : 0);
    struct gy_convert_report report;
    struct gy_blocks *blocks = NULL;
    struct gy_blocks_info info;
    const char *const files[1] = { path };
    snprintf(path, sizeof path, "%s/glm/%s", folder, f->name);
    if (gy_file_exists(path) != 1) {
        T_SKIP("a file of $GYRE_TEST_DATA/glm is absent");
        return;
    }
    config.from = files;
    config.files = 1;
    if (!TXT_OK(gy_convert_to_memory(&blocks, &config, &alloc, &report, &txt_err) == GY_OK, f->name, txt_err.text))
        return;
    gy_blocks_get_info(blocks, &info);
    T_CHECK_MSG(info.rows == f->rows && info.features == f->features && info.classes == f->classes && info.entries == f->entries &&
                report.entries == f->entries,
                "%s: %" PRId64 " x %" PRIu32 ", %" PRId64 " entries, %" PRId32 " labels", f->name, info.rows, info.features, info.entries, info.classes);
    gy_blocks_close(blocks);
}

static void txt_test_files(void)
{
    static const struct txt_file files[] = {
        { "a9a", 0, 2, 32561, 451592, 123 },
        { "a9a.t", 0, 2, 16281, 225731, 122 },
        { "heart_scale", 0, 2, 270, 3378, 13 },
        { "german_scale", 0, 2, 1000, 23001, 24 },
        { "cocoa_small.train", 0, 2, 2000, 94790, 9947 },
        { "cocoa_small.test", 0, 2, 600, 23730, 9930 },
        { "frappe.validation.libfm", 1, 2, 57722, 577220, 5382 },
        { "frappe.test.libfm", 1, 2, 28860, 288600, 5378 },
        { "imdb.train.svm.gz", 0, 2, 25000, 3546930, 262142 },
        { "imdb.test.svm.gz", 0, 2, 25000, 3480814, 262140 },
        { "criteo.tiny.train.csv", 0, 2, 1999, 77961, 1u << 20 },
        { "criteo.tiny.test.csv", 0, 1, 1999, 77961, 1u << 20 },
    };
    const char *folder = getenv("GYRE_TEST_DATA");
    if (!folder || folder[0] == 0) {
        T_SKIP("GYRE_TEST_DATA is not set: real files are not converted");
        return;
    }
    for (size_t i = 0; i < GY_COUNT(files); i++)
        txt_check_file(&files[i], folder);
}

int main(void)
{
    txt_test_criteo();
    txt_test_criteo_failures();
    txt_test_blank_piece();
    txt_test_hashed();
    txt_test_gz();
    txt_test_gz_damage();
    txt_test_gz_codes();
    txt_test_files();
    T_END("t_rows_more");
}
