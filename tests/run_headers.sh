#!/bin/sh
# SPDX-License-Identifier: MIT
# run_headers.sh FOLDER VERSION...: t_cuda_api beside the headers of these versions of CUDA (11.8,
# 12.0, 12.9, 13.0), which come from PyPI and stay in FOLDER. In C11, where the headers say what a
# tensor map's boundary is. Variables: CC, GYRE_NO_INSTALL.
set -u
folder=$1
shift
passed=0 failed=0 skipped=0
mkdir -p "$folder"

# packages VERSION: what has its cuda.h, nvrtc.h and crt/host_defines.h
packages()
{
    case $1 in
    11.8) echo "nvidia-cuda-runtime-cu11==11.8.89 nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-nvcc-cu11==11.8.89" ;;
    12.0) echo "nvidia-cuda-runtime-cu12==12.0.146 nvidia-cuda-nvrtc-cu12==12.0.140 nvidia-cuda-nvcc-cu12==12.0.140" ;;
    12.9) echo "nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cuda-nvcc-cu12==12.9.86" ;;
    13.0) echo "nvidia-cuda-runtime==13.0.96 nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-crt==13.0.88" ;;
    esac
}

# wheel NAME==VERSION: unpacked once; prints its folder of headers
wheel()
{
    at=$folder/${1%%==*}-${1##*==}
    if [ ! -d "$at/nvidia" ] && [ "${GYRE_NO_INSTALL:-0}" != 1 ]; then
        mkdir -p "$at"
        python3 -m pip download -q --no-deps -d "$at" "$1" >/dev/null 2>&1 && python3 -m zipfile -e "$at"/*.whl "$at" && rm "$at"/*.whl
    fi
    for headers in "$at"/nvidia/*/include; do
        [ -d "$headers" ] && echo "$headers"
    done
}

# beside VERSION: one version's
beside()
{
    set -- "$1" "$(packages "$1")"
    paths=
    for package in $2; do
        if ! headers=$(wheel "$package"); then
            skipped=$((skipped + 1))
            echo "skipped: CUDA $1: $package is not to be had"
            return
        fi
        paths="$paths -isystem $headers"
    done
    program=$folder/t_cuda_api-$1
    # shellcheck disable=SC2086
    if "${CC:-cc}" -std=gnu11 -I. -DCAPI_ON_PATH $paths -o "$program" tests/t_cuda_api.c >"$program.log" 2>&1 &&
        "$program" >>"$program.log" 2>&1 && grep -qx "CUDA $1" "$program.log"; then
        passed=$((passed + 1))
        sed -n 's/^t_cuda_api:/  CUDA '"$1"':/p' "$program.log"
    else
        failed=$((failed + 1))
        echo "failed: CUDA $1"
        tail -n 12 "$program.log"
    fi
}

for version in "$@"; do
    case $(packages "$version") in
    "") failed=$((failed + 1)); echo "failed: CUDA $version: no packages are known" ;;
    *) beside "$version" ;;
    esac
done
printf 'run_headers.sh: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
