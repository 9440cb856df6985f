#!/bin/sh
# SPDX-License-Identifier: MIT
# run_nvrtc.sh quick|full FOLDER: proof by compilation, by CUDA's own compiler. quick: a sample of
# the op table for sm_80 and sm_90, and a small net. full: every row of the variant table with every
# type and every way to cut, for every architecture from sm_75 to sm_121. Older compilers from PyPI
# (12.9, 11.8) in $BUILD/nvrtc, when they can be fetched, do so for sm_60 and sm_70. Then whole
# nets.
#
# A kernel that does not compile fails. So does a row that was not compiled though it serves the
# architecture, and a convolution that spills registers. So does the compiler's remark that products
# were serialised or register shares ignored, and a declaration of CUDA's that differs from Gyre's
# mirror (run_headers.sh). A list of what was compiled, row by architecture, ends in
# $BUILD/nvrtc/compiled.txt. Compiled kernels stay in $BUILD/nvrtc/cache: a second run takes what
# has not changed. FOLDER holds gyre and tests/t_ops_cuda. Variables: BUILD, GYRE_NO_INSTALL.
set -u
extent=$1
folder=$2
passed=0 failed=0 skipped=0
place=${BUILD:-build}/nvrtc
GYRE_KERNEL_CACHE=$place/cache
export GYRE_KERNEL_CACHE
mkdir -p "$GYRE_KERNEL_CACHE"
log=$place/log rows=$place/rows
: >"$rows"
compiler=13 # CUDA's, as it is installed

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
        said='^\([^ ]*  *[^ ]*\)  *sm_\([0-9]*\): \([0-9]*\) of .* compiled, at most \([0-9]*\) registers, \([0-9]*\) .*'
        sed -n "s/$said/$compiler \1 \2 \3 \4 \5/p" "$log" >>"$rows"
        sed -n "s/^[0-9]* launches, .*/$what, compiler $compiler: &/p" "$log" >>"$place/nets"
    else
        failed=$((failed + 1))
        echo "failed: $what"
        grep -v 'compiled, at most\|: not for it' "$log" | tail -n 12
    fi
}

table() { arch=$1; shift; try "op table for sm_$arch" "$folder/tests/t_ops_cuda" --arch "$arch" "$@"; }
net() { try "$*" "$folder/gyre" kernels "$@" --strict --tune off; }

# wheel NAME VERSION: its folder of libraries, from PyPI, unpacked once
wheel()
{
    at=$place/$1-$2
    if [ ! -d "$at/nvidia" ] && [ "${GYRE_NO_INSTALL:-0}" != 1 ]; then
        mkdir -p "$at"
        python3 -m pip download -q --no-deps -d "$at" "$1==$2" >/dev/null 2>&1 &&
            python3 -m zipfile -e "$at"/*.whl "$at" >/dev/null 2>&1
    fi
    [ -d "$at/nvidia/cuda_nvrtc/lib" ] && (cd "$at/nvidia/cuda_nvrtc/lib" && pwd)
}

# older NAME VERSION ARCH...: the op table, and a net for each of these architectures
older()
{
    if ! libraries=$(wheel "$1" "$2"); then
        skipped=$((skipped + 1))
        echo "skipped: NVRTC $2 is not to be had"
        return
    fi
    compiler=${2%.*}
    shift 2
    for arch in "$@"; do
        GYRE_CUDA_PATH=$libraries
        export GYRE_CUDA_PATH
        table "$arch" --whole --each 1000000
        case $arch in
        70) net resnet50 --arch 70 --batch 64 --dtype f16 ;;
        6?) net resnet50 --arch "$arch" --batch 64 ;;
        esac
    done
    unset GYRE_CUDA_PATH
}

# The list: a line a row of the table, a column an architecture and compiler
print_list()
{
    awk '
        {
            column = "sm_" $4 ($1 == "13" ? "" : "/" $1); row = sprintf("%-16s %-14s", $2, $3)
            if (!(column in seen)) { seen[column] = 1; order[columns++] = column }
            if (!(row in known)) { known[row] = 1; line[lines++] = row }
            count[row, column] = $5; total += $5; cells++
            if ($6 > most[row]) most[row] = $6
            spilled[row] += $7
        }
        END {
            printf("%-31s", "cases compiled")
            for (i = 0; i < columns; i++) printf(" %*s", length(order[i]), order[i])
            printf("  registers at most, bytes spilled\n")
            for (k = 0; k < lines; k++) {
                printf("%-31s", line[k])
                for (i = 0; i < columns; i++) printf(" %*s", length(order[i]), ((line[k], order[i]) in count) ? count[line[k], order[i]] : "-")
                printf("  %d, %d\n", most[line[k]], spilled[line[k]])
            }
            printf("%d variants, %d architectures and compilers, %d pairs, %d cases\n", lines, columns, cells, total)
        }' "$rows"
}

: >"$place/nets"
if [ "$extent" = quick ]; then
    table 80 --each 2000
    table 90 --each 2000
    [ "$skipped" -gt 0 ] || net lenet5 --arch 75 --batch 16
else
    for arch in 75 80 86 87 88 89 90 100 103 110 120 121; do
        table "$arch" --whole --each 1000000
    done
    if [ "$skipped" = 0 ]; then
        for arch in 75 80 90 120; do
            net resnet50 --arch $arch --batch 64
            net alexnet --arch $arch --batch 64
        done
        net resnet50 --arch 75 --batch 64 --dtype f16
        for arch in 80 90 120; do
            net resnet50 --arch $arch --batch 64 --dtype bf16
            net resnet20 --arch $arch --batch 128 --dtype bf16
        done
        net resnet50 --arch 90 --batch 256 --dtype bf16
        net resnet50 --arch 90 --batch 64 --dtype bf16 --infer
    fi
    older nvidia-cuda-nvrtc-cu12 12.9.86 60 61 70
    older nvidia-cuda-nvrtc-cu11 11.8.89 60 70 80
    try "the mirror of CUDA's declarations" sh "$(dirname "$0")/run_headers.sh" "$place" 11.8 12.0 12.9 13.0
    sed -n 's/^  CUDA/declarations of CUDA/p' "$log" >>"$place/nets"
    { print_list; cat "$place/nets"; } | tee "$place/compiled.txt"
fi
printf 'run_nvrtc.sh: %d passed, %d failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
printf '\n'
[ "$failed" = 0 ]
