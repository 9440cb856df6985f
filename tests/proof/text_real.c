/* SPDX-License-Identifier: MIT */
/* gy_text_real: nothing is read behind the text's end, nothing written outside of the room; what is
 * accepted is finite and inside its range. */
#include "tests/proof/proof.h"
#define strtod(text, end) nondet_double()
#undef isfinite
#define isfinite(x) __CPROVER_isfinited(x)
#define snprintf proof_snprintf
static int proof_snprintf(char *to, size_t room, const char *fmt, ...);
#include "engine/base/text.c"
#undef snprintf

enum { TEXT = 11 };

/* Stands for snprintf of an exponent: at most 13 bytes. */
static int proof_snprintf(char *to, size_t room, const char *fmt, ...)
{
    (void)fmt;
    PROOF_CLAIM(room >= 13 && __CPROVER_w_ok(to, room));
    to[0] = 'e';
    to[1] = 0;
    return 1;
}

void proof(void)
{
    char text[TEXT + 1];
    const double lo = nondet_double(), hi = nondet_double(), before = 0.5;
    double value = before;
    text[TEXT] = 0;
    const int status = gy_text_real(text, lo, hi, &value);
    PROOF_CLAIM(status == 0 || (status == -1 && value == before));
    PROOF_CLAIM(status != 0 || (isfinite(value) && !(value < lo) && !(value > hi)));
    const size_t at = nondet_size();
    PROOF_ASSUME(status == 0 && at < TEXT);
    for (size_t i = 0; i < TEXT; i++)
        PROOF_ASSUME(i > at || text[i] != 0);
    PROOF_CLAIM((text[at] >= '0' && text[at] <= '9') || text[at] == '.' || text[at] == '-' || text[at] == '+' || text[at] == 'e' || text[at] == 'E');
}
