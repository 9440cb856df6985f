/* SPDX-License-Identifier: MIT */
/* gy_arena_take in a fixed block: what is given out lies inside, begins at a cache line, and lies
 * behind what was given out before. */
#define contract_gy_mul_size proved_gy_mul_size
#include "tests/proof/proof.h"
#undef contract_gy_mul_size
#include "engine/base/mem.h"
#define memset proof_memset
static void *proof_memset(void *at, int byte, size_t count);
#include "engine/base/mem.c"
#undef memset

enum { BLOCK = 256 };
static unsigned char block[BLOCK];
static size_t product; /* of the last call of gy_mul_size */

/* Stands for gy_mul_size: any product, or none. */
int contract_gy_mul_size(size_t a, size_t b, size_t *out)
{
    (void)a, (void)b;
    if (nondet_int())
        return -1;
    product = *out = nondet_size();
    return 0;
}

/* Stands for memset: all that it clears is there. The arena itself is cleared in truth. */
static void *proof_memset(void *at, int byte, size_t count)
{
    PROOF_CLAIM(__CPROVER_w_ok(at, count));
    if (count == sizeof(struct gy_arena) && __CPROVER_POINTER_OBJECT(at) != __CPROVER_POINTER_OBJECT(block))
        *(struct gy_arena *)at = (struct gy_arena){ .chunks = NULL };
    return at;
}

void proof(void)
{
    struct gy_arena arena;
    const size_t skip = nondet_size(), bytes = nondet_size();
    PROOF_ASSUME(skip < GY_CACHE_LINE && bytes <= BLOCK - skip);
    gy_arena_open_fixed(&arena, block + skip, bytes);
    const unsigned char *last = block + skip;
    for (int i = 0; i < 3; i++) {
        const unsigned char *const piece = gy_arena_take(&arena, nondet_size(), nondet_size());
        if (!piece)
            continue;
        PROOF_CLAIM(product <= BLOCK && (uintptr_t)piece % GY_CACHE_LINE == 0);
        PROOF_CLAIM(piece >= last && piece + product <= block + skip + bytes);
        last = piece + product;
    }
}
