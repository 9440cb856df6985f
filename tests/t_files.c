/* SPDX-License-Identifier: MIT */
/* t_files.c: JSON and safetensors. Hostile headers are built here byte by byte, and the sentence of
 * each refusal is checked. With --write FOLDER the program only leaves a sample there, for readers
 * in other languages. */
#include "io/json.h"
#include "io/safetensors.h"
#include "tests/t.h"
#include <unistd.h>

static struct gy_error files_err;
static char files_folder[1024];

static const char *files_path(char buf[2048], const char *name)
{
    snprintf(buf, 2048, "%s/%s", files_folder, name);
    return buf;
}

/* The whole file; the caller frees it with free(). NULL when it cannot be read. */
static char *files_load(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *data = calloc(1, 1 << 20);
    *bytes = data ? fread(data, 1, (1 << 20) - 1, file) : 0;
    fclose(file);
    return data;
}

/* Runs value through the reader: status and, for strings, the text. */
static int files_json(const char *text, char kind, char *out, int64_t *number)
{
    struct gy_json json;
    size_t bytes = 0;
    int status = GY_OK;
    gy_json_open(&json, (const unsigned char *)text, strlen(text), "j", &files_err);
    if (kind == 's')
        status = gy_json_string(&json, out, &bytes);
    else if (kind == 'n')
        status = gy_json_count(&json, number);
    else
        status = gy_json_skip(&json, 0);
    return status != GY_OK ? status : gy_json_finish(&json);
}

static void files_test_json(void)
{
    static const char *const good[] = {
        "{}", " [ ] ", "[1,2.5,-0,1e9,1E-9,0.1]", "{\"a\":[true,false,null],\"b\":{\"c\":\"d\"}}",
        "\"\\u00e9\\ud83d\\ude00\"",
        "[[[[[[[[[[]]]]]]]]]]"};
    static const char *const bad[] = {
        "", "{", "[", "[1,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "[01]", "[1.]", "[.5]", "[+1]", "[1e]",
        "tru",
        "\"abc", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\t\"", "\"\xC0\xAF\"",
        "\"\xED\xA0\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xE2\x82\"", "{} x", "[1 2]", "\"\\u0000\"", "[}", "{]"};
    static const char *const bad_counts[] = {"-1", "1.0", "1e3", "9223372036854775808", "01", "", "x"};
    char text[64], deep[200];
    int64_t number = 0;
    for (size_t i = 0; i < GY_COUNT(good); i++)
        T_CHECK_MSG(files_json(good[i], 'v', NULL, NULL) == GY_OK, "%s: %s", good[i], files_err.text);
    for (size_t i = 0; i < GY_COUNT(bad); i++)
        T_CHECK_MSG(files_json(bad[i], 'v', NULL, NULL) == GY_E_FORMAT, "%s was accepted", bad[i]);
    for (size_t i = 0; i < GY_COUNT(bad_counts); i++)
        T_CHECK_MSG(files_json(bad_counts[i], 'n', NULL, &number) == GY_E_FORMAT, "%s was accepted", bad_counts[i]);
    T_CHECK(files_json("9223372036854775807", 'n', NULL, &number) == GY_OK && number == INT64_MAX);
    T_CHECK(files_json("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20ac\\ud83d\\ude00\"", 's', text, NULL) == GY_OK &&
            strcmp(text, "a\"\\/\b\f\n\r\t\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == 0);
    memset(deep, '[', 100);
    memset(deep + 100, ']', 99);
    deep[199] = 0;
    T_CHECK(files_json(deep, 'v', NULL, NULL) == GY_E_FORMAT && strstr(files_err.text, "nested"));
}

static void files_test_quote(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_buf buf;
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_print_json_text("a\"b\\c\n\x01\xC3\xA9\xFF%s", &sink);
    T_CHECK_MSG(strcmp(buf.text, "\"a\\\"b\\\\c\\u000a\\u0001\xC3\xA9\\ufffd%s\"") == 0, "%s", buf.text);
    gy_buf_close(&buf);
}

/* A safetensors file in memory: header text and `data` bytes that count up. */
static size_t files_build(unsigned char *out, const char *header, size_t data)
{
    const size_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(out + 8, header, length);
    for (size_t i = 0; i < data; i++)
        out[8 + length + i] = (unsigned char)i;
    return 8 + length + data;
}

static void files_test_bad_headers(void)
{
    static const struct {
        const char *header;
        size_t data;
        int status;
        const char *word; /* of the sentence */
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, GY_E_TRUNCATED, "7 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, GY_E_FORMAT, "1 bytes follow"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, GY_E_FORMAT, "needs 12 bytes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,0]}}", 2, GY_E_FORMAT, "2 to 0"},
        {"{\"a\":{\"dtype\":\"F8_E4M3FNUZ\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, GY_E_FORMAT, "needs 3"},
        {"{\"a\":{\"dtype\":\"F8_E5M2FNUZ\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, GY_E_FORMAT, "needs 3"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],"
         "\"data_offsets\":[2,3]}}", 3, GY_E_FORMAT, "after"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
         "\"data_offsets\":[1,3]}}", 3, GY_E_FORMAT, "before"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
         "\"data_offsets\":[1,2]}}", 2, GY_E_FORMAT, "\"a\" occurs twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, GY_E_FORMAT, "twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, GY_E_FORMAT, "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0]}}", 0, GY_E_FORMAT, "expected"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0,0]}}", 0, GY_E_FORMAT, "expected"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, GY_E_UNSUPPORTED, "F33"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, GY_E_UNSUPPORTED, "8"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807,2],\"data_offsets\":[0,1]}}", 1, GY_E_FORMAT, "2^63"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1152921504606846977],\"data_offsets\":[0,8]}}", 8, GY_E_FORMAT, "bits"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, GY_E_FORMAT, "4 bits"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,0]}}", 0, GY_E_FORMAT, "integer"},
        {"{\"a\\n\":{\"dtype\":\"F33\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, GY_E_UNSUPPORTED, "\"a?\""},
        {"{\"__metadata__\":{\"a\":1}}", 0, GY_E_FORMAT, "string"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, GY_E_FORMAT, "metadata \"a\" occurs twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, GY_E_FORMAT, "second"},
        {"[]", 0, GY_E_FORMAT, "'{'"}, {" {}", 0, GY_E_FORMAT, "'{'"}, {"{}x", 0, GY_E_FORMAT, "after the end"},
        {"{}", 1, GY_E_FORMAT, "1 bytes follow"},
    };
    const struct gy_alloc alloc = gy_alloc_default();
    unsigned char bytes[1024];
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        struct gy_st_file *file = NULL;
        const size_t count = files_build(bytes, cases[i].header, cases[i].data);
        const int status = gy_st_parse(&file, &alloc, bytes, count, "bad.safetensors", &files_err);
        T_CHECK_MSG(status == cases[i].status && !file && strstr(files_err.text, cases[i].word) &&
                    strstr(files_err.text, "bad.safetensors"), "case %zu: %d %s", i, status, files_err.text);
        gy_st_close(file);
    }
}

/* Every cut of a good file is refused, and so is every lie of its length field. */
static void files_test_cuts(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    unsigned char bytes[512];
    const size_t count = files_build(bytes, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}  ", 8);
    struct gy_st_file *file = NULL;
    T_CHECK(gy_st_parse(&file, &alloc, bytes, count, "x", &files_err) == GY_OK);
    gy_st_close(file);
    int refused = 0;
    for (size_t cut = 0; cut < count; cut++) {
        unsigned char *exact = malloc(cut + 1); /* so that a sanitizer sees a byte too many */
        memcpy(exact, bytes, cut);
        refused += gy_st_parse(&file, &alloc, exact, cut, "x", &files_err) != GY_OK;
        free(exact);
    }
    T_CHECK(refused == (int)count);
    memset(bytes, 0xFF, 8);
    T_CHECK(gy_st_parse(&file, &alloc, bytes, count, "x", &files_err) == GY_E_FORMAT);
    memset(bytes, 0, 8);
    T_CHECK(gy_st_parse(&file, &alloc, bytes, count, "x", &files_err) == GY_E_FORMAT);
    bytes[0] = 200;
    T_CHECK(gy_st_parse(&file, &alloc, bytes, count, "x", &files_err) == GY_E_TRUNCATED);
}

static void files_test_good(void)
{
    static const char header[] =
        "{\"z\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[4,8]},"
        "\"__metadata__\":{\"k\":\"v\\n\",\"\":\"empty\"},"
        "\"a\":{\"shape\":[1,2],\"data_offsets\":[0,4],\"dtype\":\"F16\",\"note\":[{\"x\":1.5}]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
        "\"flags\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[8,9]}} ";
    const struct gy_alloc alloc = gy_alloc_default();
    unsigned char bytes[1024];
    struct gy_st_file *file = NULL;
    float value[2];
    const size_t count = files_build(bytes, header, 9);
    if (!T_CHECK(gy_st_parse(&file, &alloc, bytes, count, "good", &files_err) == GY_OK))
        return;
    T_CHECK(gy_st_count(file) == 4 && strcmp(gy_st_at(file, 0)->name, "z") == 0 && !gy_st_at(file, 4));
    T_CHECK(gy_st_meta_count(file) == 2 && strcmp(gy_st_meta(file, "k"), "v\n") == 0 && !gy_st_meta(file, "x"));
    T_CHECK(strcmp(gy_st_meta(file, ""), "empty") == 0 && strcmp(gy_st_meta_key(file, 0), "k") == 0);
    const struct gy_st_tensor *half = gy_st_find(file, "a"), *flags = gy_st_find(file, "flags");
    T_CHECK(half && half->dims == 2 && half->shape[1] == 2 && half->type == GY_ST_F16 && half->bytes == 4);
    T_CHECK(flags && flags->type == GY_ST_OTHER && flags->dims == 0 && flags->data && flags->data[0] == 8);
    T_CHECK(gy_st_find(file, "none")->count == 0 && !gy_st_find(file, "nome"));
    T_CHECK(gy_st_read_f32(half, 0, 2, value, &files_err) == GY_OK);
    /* 0x0100 and 0x0302: subnormal */
    T_CHECK(value[0] == 256.0f / 16777216.0f && value[1] == 770.0f / 16777216.0f);
    T_CHECK(gy_st_read_f32(half, 1, 2, value, &files_err) == GY_E_ARG);
    T_CHECK(gy_st_read_f32(half, -1, 1, value, &files_err) == GY_E_ARG);
    T_CHECK(gy_st_read_f32(flags, 0, 1, value, &files_err) == GY_E_FORMAT && strstr(files_err.text, "BOOL"));
    gy_st_close(file);
}

/* IEEE halves and bfloat16 at their edges, from an address that is not aligned. */
static void files_test_values(void)
{
    static const unsigned char half[] = {0, 0x00, 0x3C, 0x01, 0x00, 0xFF, 0x7B, 0x00, 0xFC,
                                         0x00, 0x80, 0x01, 0x7E, 0x00, 0x04};
    static const unsigned char brain[] = {0, 0x80, 0x3F, 0x40, 0xC0};
    static const unsigned char integer[] = {0, 0xFE, 0xFF, 0xFF, 0xFF, 0x05, 0, 0, 0};
    struct gy_st_tensor tensor = { .name = "t", .dtype = "F16", .type = GY_ST_F16, .count = 7, .data = half + 1 };
    float value[7];
    T_CHECK(gy_st_read_f32(&tensor, 0, 7, value, &files_err) == GY_OK);
    T_CHECK(value[0] == 1.0f && value[1] == 1.0f / 16777216.0f && value[2] == 65504.0f && value[3] == -HUGE_VALF);
    T_CHECK(value[4] == 0.0f && signbit(value[4]) && isnan(value[5]) && value[6] == 1.0f / 16384.0f);
    tensor.type = GY_ST_BF16;
    tensor.count = 2;
    tensor.data = brain + 1;
    T_CHECK(gy_st_read_f32(&tensor, 0, 2, value, &files_err) == GY_OK && value[0] == 1.0f && value[1] == -3.0f);
    tensor.type = GY_ST_I32;
    tensor.data = integer + 1;
    T_CHECK(gy_st_read_f32(&tensor, 0, 2, value, &files_err) == GY_E_FORMAT);
}

static const float files_reals[6] = {1, -2.5f, 3e-38f, 65504, 0.1f, -0.0f};
static const int64_t files_numbers[2] = {-1, INT64_MAX};

/* What a checkpoint consists of, in small; bytes are supplied in odd pieces. */
static int files_write_sample(const char *path, const struct gy_alloc *alloc)
{
    static const int64_t two[] = {2}, matrix[] = {2, 3}, three[] = {3}, none[] = {0, 4};
    struct gy_st_writer *writer;
    GY_TRY(gy_st_create(&writer, alloc, path, &files_err));
    int status = gy_st_add_meta(writer, "net", "conv 16 3x3\n\"quoted\" \\ \xC3\xA9 \x01", &files_err);
    if (status == GY_OK)
        status = gy_st_add_meta(writer, "step", "1000", &files_err);
    if (status == GY_OK)
        status = gy_st_declare(writer, "counters", GY_ST_I64, two, 1, &files_err);
    if (status == GY_OK)
        status = gy_st_declare(writer, "conv1.weight", GY_ST_F32, matrix, 2, &files_err);
    if (status == GY_OK)
        status = gy_st_declare(writer, "empty", GY_ST_F32, none, 2, &files_err);
    if (status == GY_OK)
        status = gy_st_declare(writer, "scalar", GY_ST_F32, NULL, 0, &files_err);
    if (status == GY_OK)
        status = gy_st_declare(writer, "bytes", GY_ST_U8, three, 1, &files_err);
    if (status == GY_OK)
        status = gy_st_write_i64(writer, files_numbers, 2, &files_err);
    if (status == GY_OK)
        status = gy_st_write_f32(writer, files_reals, 4, &files_err);
    if (status == GY_OK)
        status = gy_st_write_f32(writer, files_reals + 4, 2, &files_err);
    if (status == GY_OK)
        status = gy_st_write_f32(writer, files_reals, 1, &files_err);
    if (status == GY_OK)
        status = gy_st_write(writer, "\x07\x08", 2, &files_err);
    if (status == GY_OK)
        status = gy_st_write(writer, "\x09", 1, &files_err);
    if (status == GY_OK)
        return gy_st_commit(writer, &files_err);
    gy_st_abandon(writer);
    return status;
}

static void files_test_round_trip(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_file *file = NULL;
    char path[2048];
    float value[6];
    int64_t number[2];
    unsigned char small[2];
    files_path(path, "sample.safetensors");
    if (!T_CHECK(files_write_sample(path, &alloc) == GY_OK))
        return;
    if (!T_CHECK(gy_st_open(&file, &alloc, path, &files_err) == GY_OK))
        return;
    T_CHECK(gy_st_count(file) == 5 && strcmp(gy_st_at(file, 1)->name, "conv1.weight") == 0);
    T_CHECK(strcmp(gy_st_meta(file, "net"), "conv 16 3x3\n\"quoted\" \\ \xC3\xA9 \x01") == 0);
    T_CHECK(gy_st_read_f32(gy_st_find(file, "conv1.weight"), 0, 6, value, &files_err) == GY_OK);
    T_CHECK(memcmp(value, files_reals, sizeof value) == 0);
    const struct gy_st_tensor *const counters = gy_st_find(file, "counters");
    T_CHECK(gy_st_read_bytes(counters, 0, sizeof number, number, &files_err) == GY_OK);
    T_CHECK(number[0] == -1 && number[1] == INT64_MAX);
    T_CHECK(gy_st_read_bytes(gy_st_find(file, "bytes"), 1, 2, small, &files_err) == GY_OK);
    T_CHECK(small[0] == 8 && small[1] == 9);
    T_CHECK(gy_st_find(file, "scalar")->dims == 0 && gy_st_find(file, "empty")->count == 0);
    gy_st_close(file);
    size_t bytes = 0;
    unsigned char *raw = (unsigned char *)files_load(path, &bytes);
    T_CHECK(raw && raw[0] % 8 == 0 && bytes == 8 + (size_t)raw[0] + 256 * (size_t)raw[1] + 16 + 24 + 4 + 3);
    free(raw);
    T_CHECK(gy_st_open(&file, &alloc, files_path(path, "absent"), &files_err) == GY_E_IO);
}

static void files_test_writer_errors(void)
{
    static const int64_t one[] = {1}, negative[] = {-1}, huge[] = {INT64_MAX};
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_writer *writer = NULL;
    char path[2048];
    files_path(path, "never.safetensors");
    T_CHECK(gy_st_create(&writer, &alloc, "/absent-folder/x/y", &files_err) == GY_E_IO);
    if (!T_CHECK(gy_st_create(&writer, &alloc, path, &files_err) == GY_OK))
        return;
    T_CHECK(gy_st_declare(writer, "a", GY_ST_U8, one, 1, &files_err) == GY_OK);
    T_CHECK(gy_st_declare(writer, "b", GY_ST_OTHER, one, 1, &files_err) == GY_E_ARG);
    T_CHECK(gy_st_declare(writer, "b", GY_ST_U8, negative, 1, &files_err) == GY_E_ARG);
    T_CHECK(gy_st_declare(writer, "b", GY_ST_U8, huge, 1, &files_err) == GY_E_ARG);
    T_CHECK(gy_st_declare(writer, "b\xFF", GY_ST_U8, one, 1, &files_err) == GY_E_ARG);
    T_CHECK(gy_st_declare(writer, "b", GY_ST_U8, one, 9, &files_err) == GY_E_ARG);
    T_CHECK(gy_st_write(writer, "xy", 2, &files_err) == GY_E_BUG);
    T_CHECK(gy_st_write(writer, "x", 1, &files_err) == GY_E_BUG); /* the first error stays */
    T_CHECK(gy_st_commit(writer, &files_err) == GY_E_BUG && gy_file_exists(path) == 0);
    if (!T_CHECK(gy_st_create(&writer, &alloc, path, &files_err) == GY_OK))
        return;
    T_CHECK(gy_st_declare(writer, "a", GY_ST_U8, one, 1, &files_err) == GY_OK);
    /* data is missing */
    T_CHECK(gy_st_commit(writer, &files_err) == GY_E_BUG && gy_file_exists(path) == 0);
    if (!T_CHECK(gy_st_create(&writer, &alloc, path, &files_err) == GY_OK))
        return;
    T_CHECK(gy_st_declare(writer, "a", GY_ST_U8, one, 1, &files_err) == GY_OK);
    T_CHECK(gy_st_declare(writer, "a", GY_ST_U8, one, 1, &files_err) == GY_OK);
    T_CHECK(gy_st_write(writer, "x", 1, &files_err) == GY_E_ARG && strstr(files_err.text, "twice"));
    gy_st_abandon(writer);
    T_CHECK(gy_file_exists(path) == 0);
}

struct files_budget {
    int left;       /* allocations that still succeed */
    int64_t live;   /* bytes */
};

static void *files_limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct files_budget *budget = user;
    if (new_bytes == 0) {
        free(ptr);
        budget->live -= (int64_t)old_bytes;
        return NULL;
    }
    void *grown = budget->left-- > 0 ? realloc(ptr, new_bytes) : NULL;
    if (grown)
        budget->live += (int64_t)new_bytes - (ptr ? (int64_t)old_bytes : 0);
    return grown;
}

/* Every allocation of writing and reading fails once. Each time there is a clean error, nothing is
 * left behind, and no byte leaks. */
static void files_test_memory(void)
{
    char path[2048], scarce[2048];
    files_path(path, "sample.safetensors");
    files_path(scarce, "scarce.safetensors");
    int wrote = 0, opened = 0, clean = 1;
    for (int left = 0; left < 200 && !(wrote && opened); left++) {
        struct files_budget budget = {left, 0};
        const struct gy_alloc alloc = {files_limited, &budget};
        struct gy_st_file *file = NULL;
        int status = files_write_sample(scarce, &alloc);
        wrote = status == GY_OK;
        clean = clean && (wrote || (status == GY_E_NOMEM && gy_file_exists(scarce) == 0)) && budget.live == 0;
        budget.left = left;
        status = gy_st_open(&file, &alloc, path, &files_err);
        opened = status == GY_OK;
        clean = clean && (opened || status == GY_E_NOMEM);
        gy_st_close(file);
        clean = clean && budget.live == 0;
    }
    T_CHECK(wrote && opened && clean);
}

/* The trained weights that lie beside the project. */
static void files_test_real(void)
{
    const char *data = getenv("GYRE_TEST_DATA");
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_file *file = NULL;
    char path[2048];
    snprintf(path, sizeof path, "%s/weights/resnet20-cifar.safetensors", data ? data : "");
    if (!data || gy_file_exists(path) != 1) {
        T_SKIP("weights/resnet20-cifar.safetensors under GYRE_TEST_DATA");
        return;
    }
    if (!T_CHECK(gy_st_open(&file, &alloc, path, &files_err) == GY_OK))
        return;
    const struct gy_st_tensor *conv = gy_st_find(file, "layer1.0.conv1.weight");
    T_CHECK(conv && conv->dims == 4 && conv->shape[0] == 16 && conv->shape[2] == 3 && conv->count == 2304);
    gy_st_close(file);
}

int main(int argc, char **argv)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char path[2048];
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        snprintf(path, sizeof path, "%s/sample.safetensors", argv[2]);
        return files_write_sample(path, &alloc) != GY_OK;
    }
    const char *base = getenv("TMPDIR");
    snprintf(files_folder, sizeof files_folder, "%s/gyre-t_files-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(files_folder)) {
        printf("cannot make %s\n", files_folder);
        return 1;
    }
    files_test_json();
    files_test_quote();
    files_test_bad_headers();
    files_test_cuts();
    files_test_good();
    files_test_values();
    files_test_round_trip();
    files_test_writer_errors();
    files_test_memory();
    files_test_real();
    remove(files_path(path, "scarce.safetensors"));
    remove(files_path(path, "sample.safetensors"));
    T_CHECK(rmdir(files_folder) == 0); /* nothing else was left there */
    T_END("t_files");
}
