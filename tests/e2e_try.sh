#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre kernels try: the example is right; kernels with a mistake each are refused in a sentence that names the place.
. "$(dirname "$0")/e2e.inc"
here=$(cd "$(dirname "$0")/.." && pwd)
example=$here/tools/examples/bn_apply.cu

if "$GYRE" kernels try "$example" --device cpu --arch 80 >"$out" 2>"$err"; then
    says "$out" 'bn-apply bf16 3x9x9x100 -> 9x9x100: compiled, not run'
    says "$out" 'this file  *my_apply '
    sed 's/launch my_apply/launch my_aply/' "$example" >"$TMP/own.cu"
    expect 3 "$GYRE" kernels try "$TMP/own.cu" --arch 80
    says "$err" "own.cu has no kernel 'my_aply', which a line launches"
elif grep -q 'has no CUDA' "$err"; then
    skip 'this build has no CUDA'
    finish
else
    says "$err" 'NVRTC, CUDA.s compiler of kernels, was not found: looked for libnvrtc.so.13,'
    skip 'no NVRTC'
fi
expect 2 "$GYRE" kernels tri "$example"
says "$err" 'gyre kernels try FILE.cu'

emulator=$(dirname "$GYRE")/libgyre-emu.so
if [ ! -f "$emulator" ] || ! command -v cc >/dev/null 2>&1; then
    skip 'no emulator beside the command, or no C compiler'
    finish
fi
export GYRE_EMU="$emulator" GYRE_EMU_ARCH=80 GYRE_EMU_QUIET=1
try() { "$GYRE" kernels try "$TMP/own.cu" --device emu; }
# own SCRIPT: the example, changed by sed
own() { sed "$1" "$example" >"$TMP/own.cu"; if cmp -s "$TMP/own.cu" "$example"; then bad "nothing changed: $1"; fi; }

cp "$example" "$TMP/own.cu"
expect 0 try
says "$out" '^bn-apply f32 2x5x7x24 -> 5x7x24: right: two runs, the same bits'
says "$out" '^bn-apply bf16 3x9x9x100 -> 9x9x100: right'
says "$out" '^  this file  *my_apply'
says "$out" '^  columns  *norm_apply'
says "$out" '^no times: '

own '/^.. gyre: shape 3x/d;s/^.. gyre: dtype .*/\/\/ gyre: dtype f32/'
expect 0 env GYRE_EMU_CLOCK=1 "$GYRE" kernels try "$TMP/own.cu" --device emu --runs 2
says "$out" '^  this file  *my_apply .* [0-9.]*  *[0-9.]* x$'
says "$out" '^  columns  *norm_apply .* [0-9.]*  *1.00 x$'

# other kinds of ops: sums with a bias, windows whose places are whole numbers
cat >"$TMP/own.cu" <<'END'
// gyre: op conv
// gyre: dtype f16
// gyre: with bias
// gyre: shape 2x6x5x8 k 12 filter 3x3 stride 2 pad 1 groups 2
// gyre: launch own_conv grid up(N*P*Q*K,64) threads 64
#include "prelude.cuh"
GY_KERNEL(own_conv)
{
    const int i = GY_BX * GY_THREADS + GY_TID, k = i % GY_K, q = i / GY_K % GY_Q, p = i / GY_K / GY_Q % GY_P_, n = i / GY_K / GY_Q / GY_P_;
    const int each = GY_C / GY_GROUPS, first = k / (GY_K / GY_GROUPS) * each;
    float sum = 0;
    if (n >= GY_N)
        return;
    for (int r = 0; r < GY_R; r++)
        for (int s = 0; s < GY_S; s++) {
            const int h = p * GY_STRIDE_H - GY_PAD_H + r, w = q * GY_STRIDE_W - GY_PAD_W + s;
            for (int c = 0; c < each && h >= 0 && h < GY_H && w >= 0 && w < GY_W_; c++)
                sum += gy_get(GY_P(const gy_t, GY_X), ((n * GY_H + h) * GY_W_ + w) * GY_C + first + c) *
                       GY_P(const float, GY_W)[((k * GY_R + r) * GY_S + s) * each + c];
        }
    gy_put(GY_P(gy_t, GY_Y), i, sum + GY_P(const float, GY_BIAS)[k]);
}
END
expect 0 try
says "$out" '^conv f16 2x6x5x8 -> 3x3x12: right'
cat >"$TMP/own.cu" <<'END'
// gyre: op max-pool
// gyre: with arg
// gyre: shape 1x4x4x3 filter 2x2 stride 2
// gyre: launch own_pool grid N*P*Q threads K
#include "prelude.cuh"
GY_KERNEL(own_pool)
{
    const int64_t first = ((int64_t)GY_BX / GY_Q * 2 * GY_W_ + GY_BX % GY_Q * 2) * GY_C + GY_TID;
    float most = gy_get(GY_P(const gy_t, GY_X), first);
    int at = 0;
    for (int i = 1; i < 4; i++) {
        const float x = gy_get(GY_P(const gy_t, GY_X), first + (i / 2 * GY_W_ + i % 2) * GY_C);
        at = x > most ? i : at;
        most = x > most ? x : most;
    }
    gy_put(GY_P(gy_t, GY_Y), (int64_t)GY_BX * GY_K + GY_TID, most);
    GY_P(uint8_t, GY_ARG)[GY_BX * GY_K + GY_TID] = (uint8_t)at;
}
END
expect 0 try
says "$out" '^max-pool f32 1x4x4x3 -> 2x2x3: right'
sed 's/(uint8_t)at/(uint8_t)(at + (GY_BX == 3))/' "$TMP/own.cu" >"$TMP/other.cu"
mv "$TMP/other.cu" "$TMP/own.cu"
expect 3 try
says "$err" 'wrong on shape 1x4x4x3, f32: arg\[9\] (n 0, h 1, w 1, c 0) is [1-4], expected [0-3]; 3 of'

# wrong results: the element, what was expected, what came
small='/^.. gyre: shape 3x/d;s/^.. gyre: dtype .*/\/\/ gyre: dtype f32/'
own "$small;s/ + res.v\[j\]//"
expect 3 try
says "$err" 'own.cu: wrong on shape 2x5x7x24, f32: y\[[0-9]*\] (n 0, h 0, w 0, c [0-9]*) is [-0-9.e]*, expected [-0-9.e]*, allowed to differ by'
own "$small;s/gy_put4(.*/if (vector != 17) &/"
expect 3 try
says "$err" 'y\[68\] (n 0, h 0, w 2, c 20) is -*nan, expected'
own "$small;s/gy_put4(GY_P(gy_t, GY_Y)/gy_put4(GY_P(gy_t, GY_X)/"
expect 3 try
says "$err" 'wrong on shape 2x5x7x24, f32: x is only read by the op, and was changed'
# beside the tensor, and lines that are wrong
own "$small;s/if (vector >= MY_VECTORS)/if (vector >= MY_VECTORS + 1)/"
expect 1 try
says "$err" 'kernel my_apply, own.cu:26, block 1 0 0, .* out of bounds: byte 6720 of the nearest allocation, which has 6720$'
says "$err" 'own.cu: the device failed while the kernel ran; the log says how$'
own "$small;s/gy_act_of/gy_act_off/"
expect 1 try
says "$err" 'kernel .*own.cu does not compile for sm_80'
own 's/op bn-apply/op bn-aply/'
expect 3 try
says "$err" "own.cu:10: no op 'bn-aply' can be tried; did you mean bn-apply?"
own 's/grid up(N\*H\*W\*C\/4,256)/grid up(N*H*Z,256)/'
expect 3 try
says "$err" "own.cu: 'up(N\*H\*Z,256)' is no number in 1"
own 's/^.. gyre: shape.*//'
expect 3 try
says "$err" 'own.cu says no shape: it needs a line such as'
own 's/gyre: with res/gyre: with mix/'
expect 3 try
says "$err" "own.cu:13: with names a tensor that the op may have, in small letters, not 'mix'"
expect 3 "$GYRE" kernels try "$TMP/nowhere.cu" --device emu
says "$err" 'nowhere.cu'
finish
