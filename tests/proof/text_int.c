/* SPDX-License-Identifier: MIT */
/* gy_text_int: an accepted text is digits behind at most a sign, and a number of that sign inside
 * its range. Any other text leaves the caller's number alone. A number of at most 3 digits is that
 * of its digits: longer ones take solvers long. */
#include "tests/proof/proof.h"
#include "engine/base/text.c"

enum { TEXT = 21, DIGITS = 3 };

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
    const int sign = text[0] == '-' || text[0] == '+', end = (int)strlen(text);
    const size_t at = nondet_size();
    PROOF_CLAIM(end > sign && value >= lo && value <= hi && (text[0] == '-' ? value <= 0 : value >= 0));
    PROOF_CLAIM(at >= (size_t)end || (text[at] >= '0' && text[at] <= '9') || (at == 0 && sign));
    if (end - sign > DIGITS)
        return;
    int64_t sum = 0;
    for (int i = 0; i < DIGITS; i++)
        if (sign + i < end)
            sum = sum * 10 + (text[sign + i] - '0');
    PROOF_CLAIM(value == (text[0] == '-' ? -sum : sum));
}
