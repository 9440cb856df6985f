/* SPDX-License-Identifier: MIT */
/* gy_add_size: the sum where it fits, else -1 and nothing changed. */
#include "tests/proof/proof.h"

void proof(void)
{
    const size_t a = nondet_size(), b = nondet_size(), before = nondet_size();
    size_t out = before;
    const int status = gy_add_size(a, b, &out);
    PROOF_CLAIM((status == 0) == ((proof_wide)a + b <= SIZE_MAX));
    PROOF_CLAIM(status == 0 ? out == a + b : status == -1 && out == before);
}
