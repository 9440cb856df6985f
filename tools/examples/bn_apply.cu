/* SPDX-License-Identifier: MIT */
/* bn_apply.cu: a kernel of one's own, tried beside the library's:
 *
 *     gyre kernels try tools/examples/bn_apply.cu               on the GPU: checked, then ranked
 *     gyre kernels try tools/examples/bn_apply.cu --device emu  without: checked, races found
 *     gyre kernels try tools/examples/bn_apply.cu --arch 90     compiled: registers, stack, spills
 *
 * The lines below say what it is; tools/lab/try_text.h lists them. kernels/op.h has the ops,
 * kernels/cuda/prelude.cuh the dialect: C with shapes as macros, GY_P for tensors, GY_SHARED. */
// gyre: op bn-apply
// gyre: dtype f32 bf16
// gyre: act relu
// gyre: with res
// gyre: shape 2x5x7x24
// gyre: shape 3x9x9x100
// gyre: define MY_VECTORS N*H*W*C/4
// gyre: launch my_apply grid up(N*H*W*C/4,256) threads 256
#include "prelude.cuh"

/* y = relu(x * scale + shift + res), four neighbours a thread: C must be divisible by 4. */
GY_KERNEL(my_apply)
{
    const int64_t vector = (int64_t)GY_BX * GY_THREADS + GY_TID;
    if (vector >= MY_VECTORS)
        return;
    const int c = (int)(vector * 4 % GY_C);
    struct gy_vec4 x = gy_get4(GY_P(const gy_t, GY_X), vector * 4);
    const struct gy_vec4 res = gy_get4(GY_P(const gy_t, GY_RES), vector * 4);
    GY_UNROLL for (int j = 0; j < 4; j++)
        x.v[j] = gy_act_of(x.v[j] * GY_P(const float, GY_SCALE)[c + j] + GY_P(const float, GY_SHIFT)[c + j] + res.v[j]);
    gy_put4(GY_P(gy_t, GY_Y), vector * 4, x);
}
