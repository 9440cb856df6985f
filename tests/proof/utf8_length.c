/* SPDX-License-Identifier: MIT */
/* gy_utf8_length and json_encode are inverse to each other: every character has one sequence, and
 * every sequence that is accepted is one. */
#include "tests/proof/proof.h"
#include "engine/base/text.c"
#include "io/json.c"

static uint32_t decoded(const unsigned char *at, int length)
{
    static const unsigned char mask[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    uint32_t code = at[0] & mask[length];
    for (int i = 1; i < 4; i++)
        if (i < length)
            code = code << 6 | (at[i] & 0x3fu);
    return code;
}

void proof(void)
{
    unsigned char room[4], out[4];
    const size_t count = nondet_size();
    const uint32_t code = nondet_uint32();
    PROOF_ASSUME(count <= 4 && code <= 0x10ffff && (code < 0xd800 || code >= 0xe000));
    const unsigned char *const at = room + (4 - count);
    const int length = gy_utf8_length(at, room + 4), encoded = json_encode(code, out);
    PROOF_CLAIM(gy_utf8_length(out, out + encoded) == encoded && decoded(out, encoded) == code);
    if (length == 0)
        return;
    unsigned char again[4];
    const uint32_t found = decoded(at, length);
    PROOF_CLAIM(length <= (int)count && found <= 0x10ffff && (found < 0xd800 || found >= 0xe000));
    PROOF_CLAIM(json_encode(found, again) == length);
    for (int i = 0; i < 4; i++)
        PROOF_CLAIM(i >= length || again[i] == at[i]);
}
