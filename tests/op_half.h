/* SPDX-License-Identifier: MIT */
/* op_half.h: the cases once more on bf16: all of the ops with kernels of their own for it, a third
 * of the others. Denormals are left out: bf16's pair products take them as zero. */
#ifndef GY_OP_HALF_H
#define GY_OP_HALF_H
#include "tests/op_cases.h"

/* Under an emulator, or with every access watched, time is short. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define OP_HALF_EACH 1
#else
#define OP_HALF_EACH 5
#endif

static int op_has_half(int code)
{
    return code == GY_OP_CONV || code == GY_OP_CONV_DGRAD || code == GY_OP_CONV_WGRAD || code == GY_OP_BN_APPLY ||
           code == GY_OP_BN_SUMS || code == GY_OP_BN_BWD;
}

static void op_add_halves(struct op_cases *all)
{
    const int count = all->count;
    /* cases of each code so far; every n-th case of a code is added in bf16 */
    int met[GY_OP_CODES] = { 0 };
    for (int i = 0; i < count; i++) {
        struct op_case c = all->list[i];
        c.dtype = GY_BF16;
        if (!c.spans && c.values != OP_TINY && met[c.code]++ % (op_has_half(c.code) ? OP_HALF_EACH : 3) == 0)
            op_add_case(all, &c);
    }
}

#endif
