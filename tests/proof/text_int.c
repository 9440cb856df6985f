/* SPDX-License-Identifier: MIT */
/* gy_text_int: what is accepted is the number that the digits say, inside its range; whatever is not leaves the caller's number alone. */
#include "proof.h"
#include "../../engine/base/text.c"

enum { TEXT = 21 };

void proof(void)
{
    char text[TEXT + 1];
    const int64_t lo = nondet_int64(), hi = nondet_int64(), before = nondet_int64();
    int64_t value = before;
    text[TEXT] = 0;
    const int status = gy_text_int(text, lo, hi, &value);
    PROOF_CLAIM(status == 0 || (status == -1 && value == before));
    if (status != 0)
        return;
    const int sign = text[0] == '-' || text[0] == '+';
    __int128 sum = 0;
    int digits = 0;
    for (int i = 0; i < TEXT && text[i] != 0; i++) {
        PROOF_CLAIM((text[i] >= '0' && text[i] <= '9') || (i == 0 && sign));
        digits += !(i == 0 && sign);
        sum = i == 0 && sign ? 0 : sum * 10 + (text[i] - '0');
    }
    PROOF_CLAIM(digits > 0 && value == (text[0] == '-' ? -sum : sum) && value >= lo && value <= hi);
}
