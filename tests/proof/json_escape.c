/* SPDX-License-Identifier: MIT */
/* json_escape: it reads nothing outside of the text. An accepted escape is one character of UTF-8,
 * with no more bytes than its text has. */
#include "tests/proof/proof.h"
#define strchr proof_strchr
#include "engine/base/text.c"
#include "io/json.c"

enum { TEXT = 13 };

void proof(void)
{
    unsigned char text[TEXT], out[4];
    struct gy_error err;
    struct gy_json json;
    int length = 0;
    const size_t count = nondet_size();
    PROOF_ASSUME(count <= TEXT);
    const unsigned char *const begin = text + (TEXT - count);
    gy_json_open(&json, begin, count, "text", &err);
    if (json_escape(&json, out, &length) == GY_OK) {
        PROOF_CLAIM(length >= 1 && length <= 4 && length <= json.at - begin && out[0] != 0);
        PROOF_CLAIM(gy_utf8_length(out, out + length) == length);
    }
    PROOF_CLAIM(json.at >= begin && json.at <= json.end && json.end == text + TEXT);
}
