/* SPDX-License-Identifier: MIT */
/* json.c: strict JSON, read by asking. The position never passes the end: every look compares
 * first. */
#include "io/json.h"

GY_INT void gy_json_open(struct gy_json *json, const unsigned char *text, size_t bytes, const char *source,
                         struct gy_error *err)
{
    json->start = json->at = text;
    json->end = text + bytes;
    json->source = source;
    json->err = err;
}

GY_INT int gy_json_fail(struct gy_json *json, const char *what)
{
    return GY_FAIL(json->err, GY_E_FORMAT, "%s: JSON header, byte %zu: %s", json->source,
                   (size_t)(json->at - json->start), what);
}

/* The next byte that is not white space, not taken; 0 at the end. */
static int json_peek(struct gy_json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
        json->at++;
    return json->at < json->end ? *json->at : 0;
}

GY_INT int gy_json_take(struct gy_json *json, char mark)
{
    if (json_peek(json) != mark) {
        char what[] = "expected ' '";
        what[10] = mark;
        return gy_json_fail(json, what);
    }
    json->at++;
    return GY_OK;
}

GY_INT int gy_json_more(struct gy_json *json, char close, int64_t *seen, int *more)
{
    if (json_peek(json) == close) {
        json->at++;
        *more = 0;
        return GY_OK;
    }
    if (*seen > 0)
        GY_TRY(gy_json_take(json, ','));
    ++*seen;
    *more = 1;
    return GY_OK;
}

/* Four hexadecimal digits. */
static int json_hex4(struct gy_json *json, uint32_t *out)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        const int c = json->at < json->end ? *json->at : 0;
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *found = c != 0 ? strchr(digits, c) : NULL;
        if (!found)
            return gy_json_fail(json, "expected four hexadecimal digits after \\u");
        value = value * 16 + (uint32_t)((found - digits) & 15);
    }
    *out = value;
    return GY_OK;
}

/* What follows \u, a surrogate pair joined. */
static int json_code_point(struct gy_json *json, uint32_t *out)
{
    uint32_t high, low;
    GY_TRY(json_hex4(json, &high));
    if (high == 0)
        return gy_json_fail(json, "\\u0000 is not allowed here");
    if (high >= 0xDC00 && high < 0xE000)
        return gy_json_fail(json, "a low surrogate without a high one");
    if (high < 0xD800 || high >= 0xE000) {
        *out = high;
        return GY_OK;
    }
    if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
        return gy_json_fail(json, "a high surrogate without a low one");
    json->at += 2;
    GY_TRY(json_hex4(json, &low));
    if (low < 0xDC00 || low >= 0xE000)
        return gy_json_fail(json, "a high surrogate without a low one");
    *out = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    return GY_OK;
}

/* Code point to UTF-8; returns the length: at most 3 for a \uXXXX (6 bytes), 4 for a pair (12). */
static int json_encode(uint32_t code, unsigned char out[4])
{
    const int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (int i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (unsigned char)(0x80 | (code & 0x3F));
    out[0] = (unsigned char)(lead[length] | code);
    return length;
}

/* What follows a backslash, as UTF-8. */
static int json_escape(struct gy_json *json, unsigned char out[4], int *length)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const int c = json->at < json->end ? *json->at++ : 0;
    if (c == 'u') {
        uint32_t code = 0;
        GY_TRY(json_code_point(json, &code));
        *length = json_encode(code, out);
        return GY_OK;
    }
    const char *found = c != 0 ? strchr(from, c) : NULL;
    if (!found)
        return gy_json_fail(json, "unknown escape in a string");
    out[0] = (unsigned char)to[found - from];
    *length = 1;
    return GY_OK;
}

GY_INT int gy_json_string(struct gy_json *json, char *out, size_t *bytes)
{
    size_t count = 0;
    if (json_peek(json) != '"')
        return gy_json_fail(json, "expected a string");
    json->at++;
    while (json->at < json->end && *json->at != '"') {
        unsigned char piece[4];
        int length = 0;
        if (*json->at < 0x20)
            return gy_json_fail(json, "a control character in a string");
        if (*json->at == '\\') {
            json->at++;
            GY_TRY(json_escape(json, piece, &length));
        } else {
            length = gy_utf8_length(json->at, json->end);
            if (length == 0)
                return gy_json_fail(json, "a string that is not UTF-8");
            memcpy(piece, json->at, (size_t)length);
            json->at += length;
        }
        if (out)
            memcpy(out + count, piece, (size_t)length);
        count += (size_t)length;
    }
    if (json->at == json->end)
        return gy_json_fail(json, "a string without an end");
    json->at++;
    if (out)
        out[count] = 0;
    *bytes = count;
    return GY_OK;
}

GY_INT int gy_json_count(struct gy_json *json, int64_t *out)
{
    int64_t value = 0;
    const int first = json_peek(json);
    if (first < '0' || first > '9')
        return gy_json_fail(json, "expected an integer of at least 0");
    const unsigned char *begin = json->at;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        const int digit = *json->at - '0';
        if (value > (INT64_MAX - digit) / 10)
            return gy_json_fail(json, "an integer above 2^63 - 1");
        value = value * 10 + digit;
    }
    if (first == '0' && json->at - begin > 1)
        return gy_json_fail(json, "an integer with leading zeros");
    if (json->at < json->end && (*json->at == '.' || *json->at == 'e' || *json->at == 'E'))
        return gy_json_fail(json, "a fraction where an integer is expected");
    *out = value;
    return GY_OK;
}

static int json_digits(struct gy_json *json)
{
    const unsigned char *begin = json->at;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
        json->at++;
    return json->at > begin ? GY_OK : gy_json_fail(json, "expected a digit");
}

/* -?int frac? exp?, value not needed. */
static int json_skip_number(struct gy_json *json)
{
    if (*json->at == '-')
        json->at++;
    const int zero = json->at < json->end && *json->at == '0';
    const unsigned char *begin = json->at;
    GY_TRY(json_digits(json));
    if (zero && json->at - begin > 1)
        return gy_json_fail(json, "a number with leading zeros");
    if (json->at < json->end && *json->at == '.') {
        json->at++;
        GY_TRY(json_digits(json));
    }
    if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
        json->at++;
        if (json->at < json->end && (*json->at == '+' || *json->at == '-'))
            json->at++;
        GY_TRY(json_digits(json));
    }
    return GY_OK;
}

static int json_skip_word(struct gy_json *json)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(json->end - json->at) >= length && memcmp(json->at, words[i], length) == 0) {
            json->at += length;
            return GY_OK;
        }
    }
    return gy_json_fail(json, "expected a value");
}

GY_INT int gy_json_skip(struct gy_json *json, int depth)
{
    size_t bytes;
    const int c = json_peek(json);
    if (c == '"')
        return gy_json_string(json, NULL, &bytes);
    if (c == '-' || (c >= '0' && c <= '9'))
        return json_skip_number(json);
    if (c != '{' && c != '[')
        return json_skip_word(json);
    if (depth >= GY_JSON_DEPTH)
        return gy_json_fail(json, "values nested too deeply");
    json->at++;
    int64_t seen = 0;
    for (int more;;) {
        GY_TRY(gy_json_more(json, c == '{' ? '}' : ']', &seen, &more));
        if (!more)
            return GY_OK;
        if (c == '{') {
            GY_TRY(gy_json_string(json, NULL, &bytes));
            GY_TRY(gy_json_take(json, ':'));
        }
        GY_TRY(gy_json_skip(json, depth + 1));
    }
}

GY_INT int gy_json_finish(struct gy_json *json)
{
    (void)json_peek(json);
    return json->at == json->end ? GY_OK : gy_json_fail(json, "text after the end");
}
