/* SPDX-License-Identifier: MIT */
/* st_check_tensor: a tensor that is accepted lies inside the data of the file, and has as many
 * bytes as its elements. */
#include "tests/proof/proof.h"
#include "io/safetensors.c"

const char *contract_gy_st_show(char buf[128], const char *name)
{
    (void)name;
    buf[0] = 0;
    return buf;
}

void proof(void)
{
    struct gy_st_file file;
    struct gy_st_tensor tensor = { .name = "w" };
    struct gy_error err;
    const int64_t offsets[2] = { nondet_int64(), nondet_int64() };
    const size_t kind = nondet_size();
    PROOF_ASSUME(kind < GY_COUNT(st_dtypes) && offsets[0] >= 0 && offsets[1] >= 0);
    const uint64_t size = nondet_uint64(); /* of the file; none: it is no memory */
    file.data_at = nondet_uint64();
    file.data_bytes = nondet_uint64();
    PROOF_ASSUME(size > 0 && size <= PROOF_MOST && file.data_at <= size && file.data_bytes == size - file.data_at);
    unsigned char *const bytes = malloc(size);
    file.file.bytes = nondet_int() ? bytes : NULL;
    PROOF_ASSUME(bytes);
    tensor.count = nondet_int64();
    PROOF_ASSUME(tensor.count >= 0);
    if (st_check_tensor(&file, &tensor, &st_dtypes[kind], offsets, &err) == GY_OK) {
        PROOF_CLAIM((proof_wide)tensor.bytes * 8 == (proof_wide)tensor.count * (proof_wide)st_dtypes[kind].bits);
        PROOF_CLAIM(tensor.at >= file.data_at && (proof_wide)tensor.at + tensor.bytes <= size);
        PROOF_CLAIM(tensor.data == (file.file.bytes ? bytes + tensor.at : NULL));
    }
    free(bytes);
}
