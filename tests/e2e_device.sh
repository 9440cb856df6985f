#!/bin/sh
# SPDX-License-Identifier: MIT
# Devices from the command line. A machine without a GPU says so and continues with 'auto'. The
# emulator trains as the CPU does. Where CUDA's compiler is installed, kernels are listed, dumped
# and packed without a GPU.
. "$(dirname "$0")/e2e.inc"

make_images "$TMP/data" 2 8 12 1
cat >"$TMP/small.net" <<'END'
input 8x8x3
conv 8 3x3
bn
relu
gap
linear 2
softmax
END
train() { "$GYRE" train "$TMP/small.net" "$TMP/data" --batch 8 --steps 3 --lr .05 --test-data none "$@"; }

# without a GPU
if nvidia-smi >/dev/null 2>&1; then
    skip "this machine has a GPU"
else
    expect 4 train --out "$TMP/cuda" --device cuda
    # one of four sentences is true of this machine; --device auto goes on for the same reason
    found='the CUDA runtime was not found: looked for libcudart[.]so[.]13, libcudart[.]so[.]12, .*; GYRE_CUDA_PATH names a folder$'
    works='no NVIDIA driver: .*libcudart[.]so.* (CUDA [0-9.]*) was opened, but it found no libcuda[.]so[.]1 that works (..*)$'
    served='the NVIDIA driver is too old: it serves CUDA [0-9.]*, .*libcudart[.]so.* is [0-9.]*$'
    listed='no NVIDIA GPU: the driver (CUDA [0-9.]*) and .*libcudart[.]so.* are there, but ..*'
    says "$err" "^gyre: \($found\|$works\|$served\|$listed\)"
    absent "$TMP/cuda/metrics.csv"
    reason=$(sed -n 's/^gyre: //p' "$err" | tail -n 1)
    expect 0 train --out "$TMP/auto" --device auto --log info
    tells "$err" "device auto: the CPU, because $reason"
    there "$TMP/auto/metrics.csv"
fi
if ! nvidia-smi >/dev/null 2>&1; then
    # one process a GPU: without one it is said once
    expect 4 train --out "$TMP/all" --device cuda:all
    if [ "$(grep -c '^gyre: ' "$err")" = 1 ]; then ok; else bad "$(cat "$err")"; fi
    absent "$TMP/all"
fi
expect 2 train --out "$TMP/all" --ranks 2 --device=cuda:all
says "$err" 'both say how many processes there are'
expect 4 train --out "$TMP/all" --device tpu:all
says "$err" "device 'tpu:all' is not known; there are cuda:all and emu:all"
expect 2 env GYRE_RANK=0 GYRE_RANKS=2 GYRE_EMU_DEVICES=2 "$GYRE" train "$TMP/small.net" "$TMP/data" --device emu:all
says "$err" 'this one is of a job already'
expect 4 train --out "$TMP/no" --device gpu
says "$err" "there are: cpu, cuda, cuda:N, auto, emu"
expect 0 "$GYRE" help train
says "$out" 'cuda:N'

# the emulator
GYRE_EMU_BESIDE=$(dirname "$GYRE")/libgyre-emu.so
if [ -f "$GYRE_EMU_BESIDE" ] && command -v cc >/dev/null 2>&1; then
    expect 0 train --out "$TMP/cpu" --device cpu
    expect 0 train --out "$TMP/emu" --device emu
    # the same steps and epochs, and losses that differ by rounding alone
    for side in cpu emu; do cut -d, -f1-3 "$TMP/$side/metrics.csv" >"$TMP/$side.rows"; done
    if paste -d, "$TMP/cpu.rows" "$TMP/emu.rows" |
        awk -F, 'NR > 1 { d = $3 - $6; rows++; wrong += $1 != $4 || $2 != $5 || d > 2e-6 || -d > 2e-6 } END { exit !(rows == 3 && !wrong) }'; then ok
    else bad "losses of the CPU and of the emulator differ"; fi
    # a process a device: the bits of as many that were started by hand, one result
    expect 0 env GYRE_EMU_DEVICES=2 "$GYRE" train "$TMP/small.net" "$TMP/data" --batch 8 --steps 2 --lr .05 --test-data none --device emu:all \
        --out "$TMP/emu2"
    says "$out" '^ranks: 2 processes of 8 images'
    if [ "$(grep -c '^checkpoint: ' "$out")" = 1 ]; then ok; else bad 'not one result'; fi
    expect 0 "$GYRE" launch --ranks 2 -- "$GYRE" train "$TMP/small.net" "$TMP/data" --batch 8 --steps 2 --lr .05 --test-data none --device emu \
        --out "$TMP/emu3"
    same "$TMP/emu2/checkpoint-2.safetensors" "$TMP/emu3/checkpoint-2.safetensors"
    expect 0 train --out "$TMP/emu1" --device emu:all
    if grep -q '^ranks:' "$out"; then bad 'one device, and several processes'; else ok; fi
    same "$TMP/emu/checkpoint-3.safetensors" "$TMP/emu1/checkpoint-3.safetensors"
    expect 2 env GYRE_EMU_DEVICES=none "$GYRE" train "$TMP/small.net" "$TMP/data" --device emu:all
    says "$err" 'it must be a number from 1 to 64'
    expect 0 "$GYRE" eval "$TMP/emu" "$TMP/data" --device cpu
    expect 0 "$GYRE" audit "$TMP/emu"
    says "$out" 'machine code that this compiler makes: the same'
    expect 2 "$GYRE" audit "$TMP/cpu"
    says "$err" 'records no kernels'
    expect 0 "$GYRE" plan "$TMP/small.net" --batch 8 --device emu
    says "$out" '^net .*, batch 8, on emulated sm_80, sm_80, 4 multiprocessors,'
    for row in 'input  *input  *8x8x8x3 .*  line' 'conv  *conv1  *8x8x8x3 [*] 3x3/1 -> 8 .*  ffma' 'bn-apply+relu  *bn1 .*  columns' \
        'softmax-ce  *softmax1 .*  warp' 'conv-wgrad  *conv1 .*  ffma' 'sgd  *update .*  spans'; do
        says "$out" "^ *[0-9]*  $row\$"
    done
    # Rows that choose a kernel. They are used where machine, set, shape and the kernel's hash are
    # right, and the audit knows them.
    row() # row MACHINE KERNEL HASH
    {
        printf 'gyre-tune 1\non %s\nfrom a test\nconv f32 %s+stats 8x8x8x3 8x8x8 3x3 stride 1x1 pad 1x1 dil 1x1 groups 1 kernel=%s\n' \
            "$1" "$2" "$3" >"$TMP/rows.txt"
    }
    planned() { expect 0 "$GYRE" plan "$TMP/small.net" --batch 8 --device emu --tune "$TMP/rows.txt" --log info; }
    row 'emulated sm_80 | sm_80' ffma-128x64 any
    planned
    says "$out" '^1 ops have kernels from .*rows.txt'
    says "$out" ' conv  *conv1 .*  ffma-128x64$'
    expect 0 train --out "$TMP/rows" --device emu --tune "$TMP/rows.txt"
    expect 0 "$GYRE" audit "$TMP/rows"
    says "$out" '^  conv f32 ffma-128x64+stats 8x8x8x3'
    says "$out" 'texts and macros of this library: the same'
    row 'emulated sm_80 | sm_80' ffma-128x64 000000000000
    planned
    says "$err" 'rows of 1 ops choose kernels that are not this library'
    row 'emulated sm_80 | sm_80' ffma 000000000000 # chosen anyway, but not by this row
    planned
    says "$err" 'rows of 1 ops choose kernels that are not this library'
    if grep -q 'have kernels from' "$out"; then bad 'a stale row was used'; else ok; fi
    row 'emulated sm_80 | sm_80' wgmma any # not for this architecture
    planned
    if grep -q 'have kernels from' "$out"; then bad 'a row of another kernel was used'; else ok; fi
    row 'Another GPU | sm_80' ffma-128x64 any
    planned
    says "$err" '1 of 1 rows are for other processors'
    row 'emulated sm_80 | sm_80' ffma-128x64 12345
    expect 3 "$GYRE" plan "$TMP/small.net" --device emu --tune "$TMP/rows.txt"
    says "$err" "rows.txt:4: kernel is a hash of 12 digits, or any, not '12345'"
    tune() { "$GYRE" tune "$TMP/small.net" --batch 8 --infer --runs 1 --device emu --out "$TMP/tuned.txt" "$@"; }
    expect 2 tune
    says "$err" 'any order (--any-order) must be allowed'
    expect 2 tune --any-order
    says "$err" 'no time on the emulator'
    expect 0 env GYRE_EMU_CLOCK=1 "$GYRE" tune "$TMP/small.net" --batch 8 --infer --runs 1 --device emu --out "$TMP/tuned.txt" --any-order
    says "$out" '^  1  conv  .* 8x8x8x3 \* 3x3/1 -> 8 '
    says "$out" '^sum, weighted by count'
    says "$TMP/tuned.txt" '^gyre-tune 1$'
    printf 'no pack' >"$TMP/bad.pack"
    GYRE_KERNEL_PACK=$TMP/bad.pack
    export GYRE_KERNEL_PACK
    expect 3 "$GYRE" plan "$TMP/small.net" --device emu
    says "$err" 'bad.pack is no pack of kernels'
    unset GYRE_KERNEL_PACK
else
    skip "no emulator beside the command, or no C compiler"
fi

# kernels without a GPU
expect 2 "$GYRE" kernels pack "$TMP/small.net"
says "$err" 'needs --arch and --out'
if "$GYRE" kernels "$TMP/small.net" --arch 80 --batch 8 >"$out" 2>"$err"; then
    ok
    says "$out" 'launches, 0 of kernels that spill'
    expect 0 "$GYRE" kernels "$TMP/small.net" --batch 8 --layer conv1 --show source --op conv
    says "$out" '#define GY_ARCH 80'
    expect 0 "$GYRE" kernels "$TMP/small.net" --batch 8 --layer conv1 --show ptx --op conv
    says "$out" '\.entry'
    expect 0 "$GYRE" kernels "$TMP/small.net" --batch 8 --layer conv1 --show cubin --out "$TMP/conv.cubin"
    there "$TMP/conv.cubin"
    expect 2 "$GYRE" kernels "$TMP/small.net" --layer none --show ptx
    expect 0 "$GYRE" kernels pack "$TMP/small.net" --batch 8 --arch 75,90 --out "$TMP/kernels"
    # With the pack and without CUDA's libraries: a folder of the cache that cannot be read, nothing
    # to compile
    GYRE_KERNEL_PACK=$TMP/kernels GYRE_KERNEL_CACHE=off
    export GYRE_KERNEL_PACK GYRE_KERNEL_CACHE
    expect 0 "$GYRE" kernels "$TMP/small.net" --batch 8 --arch 90 --log info
    if grep -q 'compiling kernels\|compiled [0-9]* kernels' "$err"; then bad "something was compiled in spite of the pack"; else ok; fi
    expect 0 "$GYRE" kernels "$TMP/small.net" --batch 8 --arch 80
    says "$err" 'the pack of [0-9]* kernels lacks [0-9]* that sm_80 needs; they are compiled'
    unset GYRE_KERNEL_PACK
    expect 0 "$GYRE" kernels "$TMP/small.net" --batch 8 --arch 90 --log info
    says "$err" 'compiled [0-9]* kernels' # without it, it was
    unset GYRE_KERNEL_CACHE
else
    says "$err" 'NVRTC, CUDA.s compiler of kernels, was not found: looked for libnvrtc.so.13,'
    skip "no NVRTC"
fi
finish
