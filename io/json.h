/* SPDX-License-Identifier: MIT */
/* json.h: a strict JSON reader that walks text once and builds nothing (RFC 8259), for
 * safetensors.c. The caller asks for what it expects next; anything else is an error with the byte
 * position. Nothing is allocated. */
#ifndef GY_JSON_H
#define GY_JSON_H
#include "engine/base/text.h"

#define GY_JSON_DEPTH 32 /* arrays and objects within each other in skipped values */

struct gy_json {
    const unsigned char *start, *at, *end;
    const char *source; /* for sentences, which say "SOURCE: JSON header, byte N: what" */
    struct gy_error *err;
};
GY_INT void gy_json_open(struct gy_json *json, const unsigned char *text, size_t bytes, const char *source,
                         struct gy_error *err);
/* All return GY_OK or GY_E_FORMAT with a sentence: source, byte position, what was expected. They
 * skip white space before. */
GY_INT int gy_json_take(struct gy_json *json, char mark); /* one of { } [ ] : , */
/* Called before each member of an object or array whose opening mark was taken (close: '}' or ']').
 * *seen counts members, 0 at first. *more 0: the closing mark was taken. */
GY_INT int gy_json_more(struct gy_json *json, char close, int64_t *seen, int *more);
/* A string, decoded as UTF-8 into out with a NUL; it is never longer than the quoted text. out
 * NULL: only checked. U+0000 is refused, so the result is a C string. */
GY_INT int gy_json_string(struct gy_json *json, char *out, size_t *bytes);
/* An integer in [0, 2^63 - 1]: no sign, point or exponent. */
GY_INT int gy_json_count(struct gy_json *json, int64_t *out);
GY_INT int gy_json_skip(struct gy_json *json, int depth); /* any one value; depth: 0 at the call */
GY_INT int gy_json_finish(struct gy_json *json);              /* only white space is left */
GY_INT int gy_json_fail(struct gy_json *json, const char *what); /* GY_E_FORMAT at this byte */

#endif
