/* SPDX-License-Identifier: MIT */
/* pnm_number: it reads nothing outside of the file. The number is -1 or in its range, and ends at a
 * byte that is no digit or at the file's end. */
#include "tests/proof/proof.h"
#include "io/images/pnm.c"

enum { FILE_BYTES = 10 };

void proof(void)
{
    unsigned char file[FILE_BYTES];
    const size_t count = nondet_size();
    const int32_t limit = nondet_int();
    PROOF_ASSUME(count <= FILE_BYTES && limit >= 0 && limit <= 1 << 24);
    struct pnm_reader r = { file + (FILE_BYTES - count), file + FILE_BYTES };
    const int32_t value = pnm_number(&r, limit);
    PROOF_CLAIM(value >= -1 && value <= limit);
    PROOF_CLAIM(r.at >= file + (FILE_BYTES - count) && r.at <= file + FILE_BYTES && r.end == file + FILE_BYTES);
    PROOF_CLAIM(value < 0 || r.at == r.end || *r.at < '0' || *r.at > '9');
}
