/* SPDX-License-Identifier: MIT */
/* gy_bmp_check: it reads no more than the first 30 bytes, and nothing outside of the file. In an
 * accepted file every row of pixels, padded to 4 bytes, lies inside, as far as images of 64 x 4
 * pixels say. Sides become signed as on every compiler that builds Gyre: they wrap. */
#include "tests/proof/proof.h"
#include "io/images/image_check.c"

enum { HEAD = 30 };

void proof(void)
{
    unsigned char file[HEAD];
    struct gy_image_head head;
    struct gy_error err;
    const size_t count = nondet_size();
    if (count < HEAD) {
        PROOF_CLAIM(gy_bmp_check(file + (HEAD - count), count, "file", &head, &err) != GY_OK);
        return;
    }
    if (gy_bmp_check(file, count, "file", &head, &err) != GY_OK)
        return;
    const int64_t bits = gy_le32(file + 14) == 12 ? file[24] | file[25] << 8 : file[28] | file[29] << 8;
    PROOF_CLAIM(head.w >= 1 && head.h >= 1 && bits >= 1 && bits <= 32);
    if (head.w > 64 || head.h > 4) /* products of more bits take solvers long */
        return;
    PROOF_CLAIM(gy_le32(file + 10) + (uint64_t)((head.w * bits + 31) / 32 * 4 * head.h) <= count);
}
