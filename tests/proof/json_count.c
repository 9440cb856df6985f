/* SPDX-License-Identifier: MIT */
/* gy_json_count: nothing is read outside of the text; no digit is left and no number is above 2^63
 * - 1. One of at most 3 digits is that of its digits: longer ones take solvers long. */
#include "tests/proof/proof.h"
#include "io/json.c"

enum { TEXT = 24, DIGITS = 3 };

void proof(void)
{
    unsigned char text[TEXT];
    struct gy_error err;
    struct gy_json json;
    int64_t value = -1;
    const size_t count = nondet_size();
    PROOF_ASSUME(count <= TEXT);
    const unsigned char *at = text + (TEXT - count);
    gy_json_open(&json, at, count, "text", &err);
    const int status = gy_json_count(&json, &value);
    PROOF_CLAIM(json.at >= at && json.at <= json.end && json.end == text + TEXT);
    if (status != GY_OK)
        return;
    while (at < json.at && (*at < '0' || *at > '9'))
        at++;
    PROOF_CLAIM(at < json.at && json.at - at <= 19 && value >= 0);
    PROOF_CLAIM(json.at == json.end || *json.at < '0' || *json.at > '9');
    if (json.at - at > DIGITS)
        return;
    int64_t sum = 0;
    for (int i = 0; i < DIGITS; i++)
        if (i < json.at - at)
            sum = sum * 10 + (at[i] - '0');
    PROOF_CLAIM(sum == value);
}
