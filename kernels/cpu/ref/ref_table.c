/* SPDX-License-Identifier: MIT */
/* ref_table.c: the reference of each op code. drivers.c, tools/lab/try_case.c and op tests read. */
#include "kernels/cpu/ref/ref.h"

GY_INT const gy_ref_fn *GY_REF_TABLE(void)
{
    static const gy_ref_fn table[GY_OP_CODES] = {
        [GY_OP_INPUT] = GY_REF(input), [GY_OP_CONV] = GY_REF(conv),
        [GY_OP_BN_STATS] = GY_REF(bn_stats), [GY_OP_BN_FINISH] = GY_REF(bn_finish),
        [GY_OP_BN_FOLD] = GY_REF(bn_fold), [GY_OP_BN_APPLY] = GY_REF(bn_apply),
        [GY_OP_ACT] = GY_REF(act), [GY_OP_POOL_MAX] = GY_REF(pool_max),
        [GY_OP_POOL_AVG] = GY_REF(pool_avg), [GY_OP_LRN] = GY_REF(lrn),
        [GY_OP_DROPOUT] = GY_REF(dropout), [GY_OP_ADD] = GY_REF(add),
        [GY_OP_CONCAT] = GY_REF(concat), [GY_OP_SHORTCUT] = GY_REF(shortcut),
        [GY_OP_SOFTMAX_CE] = GY_REF(softmax_ce), [GY_OP_MSE] = GY_REF(mse),
        [GY_OP_SOFTMAX_CE_BWD] = GY_REF(softmax_ce_bwd), [GY_OP_MSE_BWD] = GY_REF(mse_bwd),
        [GY_OP_CONV_DGRAD] = GY_REF(conv_dgrad), [GY_OP_CONV_WGRAD] = GY_REF(conv_wgrad),
        [GY_OP_BN_SUMS] = GY_REF(bn_sums), [GY_OP_BN_BWD] = GY_REF(bn_bwd),
        [GY_OP_ACT_BWD] = GY_REF(act_bwd), [GY_OP_POOL_MAX_BWD] = GY_REF(pool_max_bwd),
        [GY_OP_POOL_AVG_BWD] = GY_REF(pool_avg_bwd), [GY_OP_LRN_BWD] = GY_REF(lrn_bwd),
        [GY_OP_ADD_BWD] = GY_REF(add_bwd), [GY_OP_CONCAT_BWD] = GY_REF(concat_bwd),
        [GY_OP_SHORTCUT_BWD] = GY_REF(shortcut_bwd), [GY_OP_NORMS] = GY_REF(norms),
        [GY_OP_SGD] = GY_REF(momentum), [GY_OP_LARS] = GY_REF(momentum), [GY_OP_ADAMW] = GY_REF(adamw),
        [GY_OP_LAMB] = GY_REF(lamb),
    };
    return table;
}
