#!/bin/sh
# SPDX-License-Identifier: MIT
# run_nvrtc.sh quick|full FOLDER: proof by compilation. The kernels of a sample of the op table, every row of the variant table, and of
# whole nets are compiled by CUDA's own compiler for every architecture; a convolution that spills registers and the compiler's remark
# that matrix units were serialised fail. FOLDER holds gyre and tests/t_ops_cuda. quick: sm_80 and sm_90, few cases. full: sm_75
# to sm_121, and with older compilers from PyPI (12.9, 11.8) in $BUILD/nvrtc, when they can be fetched, sm_60 and sm_70.
# Variables: BUILD, GYRE_NO_INSTALL.
set -u
extent=$1
folder=$2
passed=0 failed=0 skipped=0
GYRE_KERNEL_CACHE=${BUILD:-build}/nvrtc/cache
export GYRE_KERNEL_CACHE
mkdir -p "$GYRE_KERNEL_CACHE"
log=$GYRE_KERNEL_CACHE/../log

# try WHAT COMMAND...: one check; prints what it says when it fails
try()
{
    what=$1
    shift
    if "$@" >"$log" 2>&1; then
        if grep -q '^skipped' "$log"; then
            skipped=$((skipped + 1))
            sed -n '/^skipped/p' "$log"
        else
            passed=$((passed + 1))
        fi
        grep ' spills ' "$log" | sed 's/^/  /'
    else
        failed=$((failed + 1))
        echo "failed: $what"
        grep -v 'compiled, at most' "$log" | tail -n 12
    fi
}

table() { try "op table for sm_$1" "$folder/tests/t_ops_cuda" --arch "$1" --each "$2"; }
net() { try "$*" "$folder/gyre" kernels "$@" --strict; }

# wheel NAME VERSION: its folder of libraries, from PyPI, unpacked once
wheel()
{
    place=$BUILD/nvrtc/$1-$2
    if [ ! -d "$place/nvidia" ] && [ "${GYRE_NO_INSTALL:-0}" != 1 ]; then
        mkdir -p "$place"
        python3 -m pip download -q --no-deps -d "$place" "$1==$2" >/dev/null 2>&1 &&
            python3 -m zipfile -e "$place"/*.whl "$place" >/dev/null 2>&1
    fi
    [ -d "$place/nvidia/cuda_nvrtc/lib" ] && (cd "$place/nvidia/cuda_nvrtc/lib" && pwd)
}

# older NAME VERSION ARCH...
older()
{
    if ! libraries=$(wheel "$1" "$2"); then
        skipped=$((skipped + 1))
        echo "skipped: NVRTC $2 is not to be had"
        return
    fi
    shift 2
    for arch in "$@"; do
        GYRE_CUDA_PATH=$libraries
        export GYRE_CUDA_PATH
        table "$arch" 300
    done
    unset GYRE_CUDA_PATH
}

if [ "$extent" = quick ]; then
    table 80 2000
    table 90 2000
    [ "$skipped" -gt 0 ] || net lenet5 --arch 75 --batch 16
else
    for arch in 75 80 86 87 88 89 90 100 103 110 120 121; do
        table "$arch" 200
    done
    if [ "$skipped" = 0 ]; then
        for arch in 75 80 90 120; do
            net resnet50 --arch $arch --batch 64
            net alexnet --arch $arch --batch 64
        done
        for arch in 80 90 120; do
            net resnet50 --arch $arch --batch 64 --dtype bf16
            net resnet20 --arch $arch --batch 128 --dtype bf16
        done
    fi
    older nvidia-cuda-nvrtc-cu12 12.9.86 60 61 70
    older nvidia-cuda-nvrtc-cu11 11.8.89 60 70 80
fi
printf 'run_nvrtc.sh: %d passed, %d failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
printf '\n'
[ "$failed" = 0 ]
