/* SPDX-License-Identifier: MIT */
/* jpeg_skip_scan: nothing is read outside of the file; it ends at a mark that is neither data, fill
 * nor restart, or at the file's end. */
#include "tests/proof/proof.h"
#define memchr proof_memchr
#include "io/images/image_check.c"

enum { FILE_BYTES = 10 };

void proof(void)
{
    unsigned char file[FILE_BYTES];
    const size_t count = nondet_size(), from = nondet_size();
    PROOF_ASSUME(count <= FILE_BYTES && from <= count);
    const unsigned char *const bytes = file + (FILE_BYTES - count);
    const size_t at = jpeg_skip_scan(bytes, from, count);
    PROOF_CLAIM(at >= from && at <= count);
    if (at < count) {
        PROOF_CLAIM(at + 1 < count && bytes[at] == 0xff && bytes[at + 1] != 0 && bytes[at + 1] != 0xff);
        PROOF_CLAIM(bytes[at + 1] < JPEG_RST0 || bytes[at + 1] > JPEG_RST7);
    }
}
