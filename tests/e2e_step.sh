#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels stepped in gdb: a micro-kernel of the CPU's, as tools/examples/step_micro_kernel.gdb does
# it, and a CUDA kernel on the emulator, as step_kernel.gdb does.
. "$(dirname "$0")/e2e.inc"
here=$(cd "$(dirname "$0")/.." && pwd)

if ! command -v gdb >/dev/null 2>&1; then
    skip "no gdb: a kernel is not stepped"
    finish
fi
cd "$here" || exit 1
if ! grep -qw -e avx2 /proc/cpuinfo; then
    skip "no AVX2: no micro-kernel is stepped"
else
    make_images "$TMP/small/train" 2 4 28 1
    expect 0 gdb -nx -batch -x tools/examples/step_micro_kernel.gdb --args "$GYRE" train lenet5 "$TMP/small" --threads 1 --batch 4 \
        --steps 1 --test-data none --out "$TMP/micro"
    says "$out" 'Breakpoint [12]\(\.[0-9]*\)\?, \(a512\|avx2\)_gemm (.*kernels/cpu/isa/tile\.inc:[0-9]'
    says "$out" '= {rows = 0x.* len = [1-9]' # the struct that the template reads
    says "$out" '^tap = [0-9]'                # a variable of its loop
    says "$out" '#1 .*\(a512\|avx2\)_gemm_[0-9]*_[124] (.*tile_kind\.inc:'
    says "$out" '^checkpoint:'
    expect 0 gdb -nx -batch -ex 'break a512_pool_max' -ex 'break avx2_pool_max' -ex run -ex 'next 4' -ex 'print *a' \
        -ex 'info locals' --args "$GYRE" train lenet5 "$TMP/small" --threads 1 --batch 4 --steps 1 --test-data none --out "$TMP/pool"
    says "$out" 'Breakpoint [12]\(\.[0-9]*\)\?, \(a512\|avx2\)_pool_max (.*kernels/cpu/isa/pool\.inc:[0-9]'
    says "$out" '= {.* row_pitch = [1-9]'
    says "$out" '^[ci] = [0-9]' # of its loops; which, the compiler says
fi
emulator=$(dirname "$GYRE")/libgyre-emu.so
if [ ! -f "$emulator" ]; then
    skip "no emulator beside the command"
    finish
fi
export GYRE_EMU="$emulator" GYRE_EMU_ARCH=80
make_images "$TMP/data/train" 2 4 8 1
expect 0 gdb -nx -batch -x tools/examples/step_kernel.gdb --args "$GYRE" train mlp "$TMP/data" --device emu --batch 4 --steps 1 \
    --test-data none --out "$TMP/run"
says "$out" 'Breakpoint 1, loss_softmax_thread'
says "$out" 'tid = 1, '
says "$out" '^largest = '
says "$out" '#[12] .* loss_softmax '
says "$out" '^checkpoint:'
finish
