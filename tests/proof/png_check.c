/* SPDX-License-Identifier: MIT */
/* gy_png_check: nothing is read outside of the file; what is accepted has a header first, and its
 * sides are those of the header. */
#include "tests/proof/proof.h"
#include "io/images/image_check.c"

enum { FILE_BYTES = 34 };

/* Stands for the checksum: all that it reads is there. */
int contract_png_check_crc(const unsigned char *chunk, size_t length, const char *name, struct gy_error *err)
{
    (void)name, (void)err;
    PROOF_CLAIM(__CPROVER_r_ok(chunk, length + 12));
    return nondet_int() ? GY_OK : GY_E_HASH;
}

void proof(void)
{
    unsigned char file[FILE_BYTES];
    struct gy_image_head head;
    struct gy_error err;
    const size_t count = nondet_size();
    PROOF_ASSUME(count >= 8 && count <= FILE_BYTES);
    const unsigned char *const bytes = file + (FILE_BYTES - count);
    if (gy_png_check(bytes, count, "file", &head, &err) != GY_OK)
        return;
    PROOF_CLAIM(count >= 33 && memcmp(bytes + 12, "IHDR", 4) == 0);
    PROOF_CLAIM(head.w == gy_be32(bytes + 16) && head.h == gy_be32(bytes + 20));
}
