#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre kernels try: the example is right; kernels with a mistake each are refused in a sentence that
# names the place.
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

# flags: results are added to what is there. scratch: its bytes are computed, and one launch reads
# what another wrote.
cat >"$TMP/own.cu" <<'END'
// gyre: op add-bwd
// gyre: act relu
// gyre: with y dres
// gyre: flags add-dx add-dres
// gyre: shape 2x3x5x7
// gyre: launch own_back grid up(N*H*W*C,64) threads 64
#include "prelude.cuh"
GY_KERNEL(own_back)
{
    const int i = GY_BX * GY_THREADS + GY_TID;
    if (i >= GY_N * GY_H * GY_W_ * GY_C)
        return;
    const float d = gy_get(GY_P(const gy_t, GY_Y), i) > 0 ? gy_get(GY_P(const gy_t, GY_DY), i) : 0;
    gy_put(GY_P(gy_t, GY_DX), i, d + gy_get(GY_P(const gy_t, GY_DX), i));
    gy_put(GY_P(gy_t, GY_DRES), i, d + gy_get(GY_P(const gy_t, GY_DRES), i));
}
END
cp "$TMP/own.cu" "$TMP/back.cu"
expect 0 try
says "$out" '^add-bwd f32 2x3x5x7 -> 3x5x7: right'
for role in dx dres; do # sets what the flag says it adds to, and the reverse
    sed "s/\(gy_put(GY_P(gy_t, GY_$(echo $role | tr a-z A-Z)), i, d\) + gy_get.*/\1);/" "$TMP/back.cu" >"$TMP/own.cu"
    expect 3 try
    says "$err" "own.cu: wrong on shape 2x3x5x7, f32: $role\[[0-9]*\] "
    sed "s/ add-$role//" "$TMP/back.cu" >"$TMP/own.cu"
    expect 3 try
    says "$err" "own.cu: wrong on shape 2x3x5x7, f32: $role\[[0-9]*\] "
done
cat >"$TMP/own.cu" <<'END'
// gyre: op conv-wgrad
// gyre: with dbias
// gyre: flags accumulate
// gyre: shape 4x3x3x5 k 6 filter 1x1
// gyre: define MY_PIXELS (H*W+0)*(2-1)
// gyre: scratch 4*(N*K*C+N*K-(3-3))
// gyre: launch own_part grid N threads K*C+K
// gyre: launch own_sum grid 1 threads K*C+K
#include "prelude.cuh"
GY_KERNEL(own_part)
{
    const int i = GY_TID, k = i < GY_K * GY_C ? i / GY_C : i - GY_K * GY_C, c = i % GY_C;
    float sum = 0;
    for (int p = GY_BX * MY_PIXELS; p < (GY_BX + 1) * MY_PIXELS; p++)
        sum += gy_get(GY_P(const gy_t, GY_DY), p * GY_K + k) * (i < GY_K * GY_C ? gy_get(GY_P(const gy_t, GY_X), p * GY_C + c) : 1);
    GY_P(float, GY_SCRATCH)[GY_BX * (GY_K * GY_C + GY_K) + i] = sum;
}
GY_KERNEL(own_sum)
{
    const int i = GY_TID;
    float *const to = i < GY_K * GY_C ? GY_P(float, GY_DW) + i : GY_P(float, GY_DBIAS) + i - GY_K * GY_C;
    float sum = *to;
    for (int n = 0; n < GY_N; n++)
        sum += GY_P(const float, GY_SCRATCH)[n * (GY_K * GY_C + GY_K) + i];
    *to = sum;
}
END
cp "$TMP/own.cu" "$TMP/sums.cu"
expect 0 try
says "$out" '^conv-wgrad f32 4x3x3x5 -> 3x3x6: right'
sed 's/ flags accumulate/ dtype f32/' "$TMP/sums.cu" >"$TMP/own.cu"
expect 3 try
says "$err" 'own.cu: wrong on shape 4x3x3x5, f32: d[a-z]*\[0\] '
# too small: no room for the bias
sed 's/scratch .*/scratch 4*(N*K*C)/' "$TMP/sums.cu" >"$TMP/own.cu"
expect 1 try
says "$err" 'out of bounds: byte [0-9]* of the nearest allocation, which has 480$'
cat >"$TMP/own.cu" <<'END'
// gyre: op avg-pool
// gyre: f 1
// gyre: shape 2x5x4x3 filter 3x3 stride 2 pad 1
// gyre: launch own_mean grid N*P*Q threads K
#include "prelude.cuh"
GY_KERNEL(own_mean)
{
    const int q = GY_BX % GY_Q * GY_STRIDE_W - GY_PAD_W, p = GY_BX / GY_Q % GY_P_ * GY_STRIDE_H - GY_PAD_H, n = GY_BX / (GY_P_ * GY_Q);
    float sum = 0;
    int cells = 0;
    for (int h = p < 0 ? 0 : p; h < p + GY_R && h < GY_H; h++)
        for (int w = q < 0 ? 0 : q; w < q + GY_S && w < GY_W_; w++, cells++)
            sum += gy_get(GY_P(const gy_t, GY_X), ((n * GY_H + h) * GY_W_ + w) * GY_C + GY_TID);
    gy_put(GY_P(gy_t, GY_Y), GY_BX * GY_K + GY_TID, sum / cells);
}
END
cp "$TMP/own.cu" "$TMP/mean.cu"
expect 0 try
says "$out" '^avg-pool f32 2x5x4x3 -> 3x2x3: right'
sed 's/gyre: f 1/gyre: f 0/' "$TMP/mean.cu" >"$TMP/own.cu"
expect 3 try
says "$err" 'own.cu: wrong on shape 2x5x4x3, f32: y\['

# lines that say nothing that can be: line, sentence
# wrong LINE SENTENCE: LINE replaces the example's second line; op is set before it
wrong()
{
    printf '// gyre: op conv\n// gyre: %s\n' "$1" >"$TMP/own.cu"
    printf '// gyre: shape 1x4x4x2 k 2\n// gyre: launch k grid 1\n' >>"$TMP/own.cu"
    expect 3 try
    tells "$err" "own.cu:2: $2"
}
wrong 'dtype f32 f64' "a dtype is f32, bf16 or f16, each at most once, not 'f64'"
wrong 'dtype f32 f32' "a dtype is f32, bf16 or f16, each at most once, not 'f32'"
wrong 'act selu' "an activation is relu, relu6, sigmoid, tanh or leaky, not 'selu'"
wrong 'act' 'an activation is relu, relu6, sigmoid, tanh or leaky'
wrong 'with dx' "with names a tensor that the op may have, in small letters, not 'dx'"
wrong 'flags add' "a flag is add-dx, add-dres or accumulate, not 'add'"
wrong 'f 1 two' "f has numbers, not 'two'"
wrong 'shape 4x4' "a shape begins with four numbers such as 2x7x5x24, not '4x4'"
wrong 'shape 1x4x4x2 size 3' "behind the input's shape come k, filter RxS, stride, pad, dil or groups, each with a number, not 'size'"
wrong 'shape 1x4x4x2 k 2 filter 7x1' 'the filter is larger than the padded input'
wrong 'shape 1x4x4x2 k 2 groups 3' 'groups must divide the channels on both sides'
wrong 'shape 60000x200x200x2 k 2' 'a tensor of more than 2^31 elements'
wrong 'define A' "define has a name and a number; there may be 8, not 'A'"
wrong 'scratch' 'scratch has a number of bytes'
wrong 'launch k threads 3' "launch has a kernel's name and a grid, not 'k'"
wrong 'launch k blocks 3' "behind the kernel's name come grid, threads and shared with numbers, not 'blocks'"
wrong 'launch k grid 1 shared' "behind the kernel's name come grid, threads and shared with numbers, not 'shared'"
wrong 'op conv act' "nothing may follow here, not 'act'"
wrong 'speed 3' "a line says op, dtype, act, with, flags, f, shape, define, scratch or launch, not 'speed'"
wrong "$(printf 'define A %08300d' 1)" 'the lines are longer than 8 kB'
for line in 'with bias' 'shape 1x4x4x2'; do
    printf '// gyre: %s\n// gyre: op conv\n' "$line" >"$TMP/own.cu"
    expect 3 try
    says "$err" 'own.cu:1: the line with op comes first$'
done
printf '// gyre: op max-pool\n// gyre: shape 1x40x40x2 filter 17x17\n' >"$TMP/own.cu"
expect 3 try
says "$err" 'own.cu:2: a window has at most 255 cells and is larger than the padding$'
for count in 'launch k grid 1/5:there may be four launches' 'shape 1x4x4x2 k 2/9:there may be 8 shapes' \
    "define A 1/9:define has a name and a number; there may be 8, not 'A'"; do
    times=${count#*/}
    { echo '// gyre: op conv'; awk -v line="${count%%/*}" -v times="${times%%:*}" 'BEGIN { while (times--) print "// gyre: " line }'; } >"$TMP/own.cu"
    expect 3 try
    tells "$err" "own.cu:$((${times%%:*} + 1)): ${times#*:}"
done

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
