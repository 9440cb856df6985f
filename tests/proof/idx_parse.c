/* SPDX-License-Identifier: MIT */
/* gy_idx_parse: it reads no more than the first 20 bytes of any file, and nothing outside of it. An
 * accepted file has 1 to 4 sides above 0. Their product, as gy_mul_count says it, is the bytes
 * behind the header. */
#define contract_gy_mul_count proved_gy_mul_count
#include "tests/proof/proof.h"
#undef contract_gy_mul_count
#include "io/images/idx.c"

static int64_t sides[4], product = 1;
static int side_count;

/* Stands for gy_mul_count: any product that is positive, or too large. It notes what was
 * multiplied. */
int contract_gy_mul_count(int64_t a, int64_t b, int64_t *out)
{
    const int64_t result = nondet_int64();
    PROOF_CLAIM(a == product && b > 0 && side_count < 4);
    if (result <= 0)
        return -1;
    sides[side_count++] = b;
    product = *out = result;
    return 0;
}

void proof(void)
{
    unsigned char head[GY_IDX_HEAD];
    struct gy_idx_view view;
    struct gy_error err;
    const size_t count = nondet_size();
    const unsigned char *const bytes = head + (count < GY_IDX_HEAD ? GY_IDX_HEAD - count : 0);
    if (gy_idx_parse(bytes, count, "file", &view, &err) != GY_OK)
        return;
    PROOF_CLAIM(view.dims >= 1 && view.dims <= 4 && view.at == 4 + 4 * (size_t)view.dims && side_count == view.dims);
    for (int i = 0; i < 4; i++)
        PROOF_CLAIM(view.shape[i] == (i < view.dims ? sides[i] : 1));
    PROOF_CLAIM(count >= view.at && (size_t)product == count - view.at);
}
