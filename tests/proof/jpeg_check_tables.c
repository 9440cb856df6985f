/* SPDX-License-Identifier: MIT */
/* jpeg_check_tables: nothing is read outside of the segment; what is accepted is whole tables of at
 * most 256 codes, one behind the other. */
#include "tests/proof/proof.h"
#include "io/images/image_check.c"

enum { SEGMENT = 40 };

void proof(void)
{
    unsigned char room[SEGMENT];
    struct gy_error err;
    const size_t length = nondet_size();
    PROOF_ASSUME(length >= 2 && length <= SEGMENT);
    const unsigned char *const segment = room + (SEGMENT - length);
    if (jpeg_check_tables(segment, length, "file", &err) != GY_OK)
        return;
    size_t at = 2;
    while (at < length) {
        size_t codes = 0;
        PROOF_CLAIM(length - at >= 17);
        for (size_t i = 1; i <= 16; i++)
            codes += segment[at + i];
        PROOF_CLAIM(codes <= 256);
        at += 17 + codes;
    }
    PROOF_CLAIM(at == length);
}
