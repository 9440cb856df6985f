/* SPDX-License-Identifier: MIT */
/* gy_json_string: it reads nothing outside of the text. It writes no more than the quoted text has
 * bytes, less its two marks, with a NUL. */
#include "tests/proof/proof.h"
#define memcpy proof_memcpy
#include "engine/base/text.c"
#include "io/json.c"

enum { TEXT = 12 };

/* Stands for json_escape, by what its proof claims. */
int contract_json_escape(struct gy_json *json, unsigned char out[4], int *length)
{
    const int taken = nondet_int(), bytes = nondet_int();
    PROOF_ASSUME(taken >= 0 && taken <= json->end - json->at);
    json->at += taken;
    if (bytes < 1 || bytes > 4 || bytes > taken)
        return GY_E_FORMAT;
    for (int i = 0; i < 4; i++)
        out[i] = nondet_byte();
    *length = bytes;
    return GY_OK;
}

int contract_gy_utf8_length(const unsigned char *at, const unsigned char *end)
{
    const int length = nondet_int();
    return length >= 0 && length <= 4 && length <= end - at ? length : 0;
}

void proof(void)
{
    unsigned char text[TEXT];
    char room[TEXT];
    struct gy_error err;
    struct gy_json json;
    size_t bytes = 0;
    const size_t count = nondet_size();
    PROOF_ASSUME(count >= 1 && count <= TEXT);
    const unsigned char *const begin = text + (TEXT - count);
    char *const out = nondet_int() ? room + (TEXT - (count - 1)) : NULL;
    gy_json_open(&json, begin, count, "text", &err);
    if (gy_json_string(&json, out, &bytes) == GY_OK)
        PROOF_CLAIM((ptrdiff_t)bytes + 2 <= json.at - begin && (!out || out[bytes] == 0));
    PROOF_CLAIM(json.at >= begin && json.at <= json.end);
}
