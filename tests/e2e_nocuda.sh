#!/bin/sh
# SPDX-License-Identifier: MIT
# One binary for machines with and without CUDA. A dlopen of our own hides its libraries from the
# command, and puts them back one broken piece at a time, made here. Each time training continues on
# the CPU, with the same numbers. --device cuda says what is missing, what was looked for and where.
# Then come CUDA's real libraries, if they are on this machine and no GPU is.
. "$(dirname "$0")/e2e.inc"
here=$(cd "$(dirname "$0")" && pwd)
GYRE_KERNEL_CACHE=off
export GYRE_KERNEL_CACHE

make_images "$TMP/data" 2 6 8 1
cat >"$TMP/small.net" <<'NET'
input 8x8x3
conv 4 3x3
bn
relu
gap
linear 2
softmax
NET
train() { "$GYRE" train "$TMP/small.net" "$TMP/data" --batch 4 --steps 3 --lr .05 --test-data none "$@"; }

# numbers FOLDER: its columns that hold no times; three steps were taken, each with a loss
numbers()
{
    cut -d, -f1-8 "$1/metrics.csv" >"$1.rows"
    if awk -F, 'NR > 1 && $1 == NR - 1 && $3 > 0 { good++ } END { exit !(NR == 4 && good == 3) }' "$1.rows"; then ok; else bad "no three losses in $1"; fi
}

expect 0 train --out "$TMP/cpu" --device cpu
numbers "$TMP/cpu"

# trains NAME: 'auto' gives the CPU's numbers and weights, whatever there is
trains()
{
    expect 0 train --out "$TMP/$1" --device auto --log info
    cp "$err" "$TMP/$1.log"
    numbers "$TMP/$1"
    same "$TMP/cpu.rows" "$TMP/$1.rows"
    there "$TMP/cpu/checkpoint-3.safetensors"
    same "$TMP/cpu/checkpoint-3.safetensors" "$TMP/$1/checkpoint-3.safetensors"
}

# missing NAME SENTENCE: 'auto' goes on for that reason, 'cuda' ends with it
missing()
{
    trains "$1"
    says "$TMP/$1.log" "device auto: the CPU, because $2"
    expect 4 train --out "$TMP/$1.cuda" --device cuda
    says "$err" "$2"
    absent "$TMP/$1.cuda/metrics.csv"
}

cc=${CC:-cc}
# a library: NAME CODE
library() { printf '%s\n' "$2" >"$1.c" && $cc -shared -fPIC -w -o "$1" "$1.c" -ldl 2>"$TMP/cc"; }

# With NOCUDA_LOG set only libraries below NOCUDA_ROOM are found, and each requested one is logged.
hide='#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    const char *log = getenv("NOCUDA_LOG"), *room = getenv("NOCUDA_ROOM");
    if (!log || !room || !name || !(strstr(name, "libcudart") || strstr(name, "libnvrtc")))
        return real(name, flags);
    FILE *f = fopen(log, "a");
    if (f) {
        fprintf(f, "%s\n", name);
        fclose(f);
    }
    return strncmp(name, room, strlen(room)) == 0 ? real(name, flags) : NULL;
}'
NOCUDA_LOG=$TMP/asked NOCUDA_ROOM=$TMP/room/
export NOCUDA_LOG NOCUDA_ROOM
mkdir -p "$TMP/room/empty" "$TMP/room/cuda/lib64"
GYRE_CUDA_PATH=$TMP/room/empty
if ! command -v $cc >/dev/null 2>&1; then
    skip "no compiler for a dlopen that hides libraries"
    finish
fi
if library "$TMP/hide.so" "$hide"; then ok; else
    bad "the dlopen that hides libraries does not compile: $(cat "$TMP/cc")"
    finish
fi
# ASan wants to be the first library
ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 LD_PRELOAD=$TMP/hide.so
export GYRE_CUDA_PATH ASAN_OPTIONS LD_PRELOAD
"$GYRE" plan "$TMP/small.net" --device cuda >"$out" 2>"$err" </dev/null
if [ ! -s "$NOCUDA_LOG" ]; then
    # a static program, or one whose sanitizer comes first
    if LD_PRELOAD='' ldd "$GYRE" 2>/dev/null | grep -q 'libdl\|libc[.]' && ! LD_PRELOAD='' ldd "$GYRE" | grep -q 'lib[at]san'; then
        bad "the command asked for none of CUDA's libraries"
    else
        skip "this build's dlopen cannot be replaced"
    fi
    finish
fi

# no libraries at all
missing none "the CUDA runtime was not found: looked for libcudart.so.13, libcudart.so.12, libcudart.so.11.0 and libcudart.so in \
$TMP/room/empty, the system's folders, /usr/local/cuda and Python's packages; GYRE_CUDA_PATH names a folder"
for place in "$TMP/room/empty/" "$TMP/room/empty/lib64/" '' /usr/local/cuda/lib64/; do
    says "$NOCUDA_LOG" "^${place}libcudart.so.13\$"
    says "$NOCUDA_LOG" "^${place}libcudart.so.11.0\$"
done
expect 4 "$GYRE" kernels "$TMP/small.net" --arch 80 --batch 4
says "$err" "NVRTC, CUDA's compiler of kernels, was not found: looked for libnvrtc.so.13, libnvrtc.so.12, .*$TMP/room/empty"

# a runtime made here: every function is there and fails, but for those that say what there is
names=$(grep -o '"cuda[A-Z][A-Za-z]*"' "$here/../kernels/cuda/load.c" | tr -d '"' | grep -v DriverEntryPoint | sort -u)
# runtime VERSION DRIVER STATUS COUNT [WITHOUT]
runtime()
{
    code="int cudaRuntimeGetVersion(int *v) { *v = $1; return 0; }
int cudaDriverGetVersion(int *v) { *v = $2; return 0; }
int cudaGetDeviceCount(int *n) { *n = $4; return $3; }
const char *cudaGetErrorString(int e) { return \"the runtime's own words\"; }
const char *cudaGetErrorName(int e) { return \"cudaErrorMade\"; }"
    for function in $names; do
        case $function in
        cudaRuntimeGetVersion|cudaDriverGetVersion|cudaGetDeviceCount|cudaGetErrorString|cudaGetErrorName|"${5:-}") ;;
        *) code="$code
int $function(void) { return 999; }" ;;
        esac
    done
    rm -f "$TMP"/room/cuda/lib64/*
    LD_PRELOAD='' library "$TMP/room/cuda/lib64/libcudart.so.13" "$code" || bad "a library does not compile: $(cat "$TMP/cc")"
}
GYRE_CUDA_PATH=$TMP/room/cuda
so=$TMP/room/cuda/lib64/libcudart.so.13
runtime 13000 0 35 0
missing driver "no NVIDIA driver: $so (CUDA 13.0) was opened, but it found no libcuda.so.1 that works (the runtime's own words)"
runtime 13000 12020 35 0
missing old "the NVIDIA driver is too old: it serves CUDA 12.2, $so is 13.0"
runtime 13000 13000 100 0
missing gpu "no NVIDIA GPU: the driver (CUDA 13.0) and $so are there, but the runtime's own words"
runtime 13000 13010 0 0
missing list "no NVIDIA GPU: the driver (CUDA 13.1) and $so are there, but they list no device"
runtime 13000 13000 0 1
missing entry "NVIDIA's driver has no function cuModuleLoadDataEx; it serves CUDA 13.0, Gyre needs 11.8"
runtime 13000 13000 0 1 cudaStreamBeginCapture
missing function "$so has no function cudaStreamBeginCapture; Gyre works with CUDA 11.8 to 13"
printf 'no library' >"$so"
missing broken "the CUDA runtime was not found"
unset LD_PRELOAD NOCUDA_LOG NOCUDA_ROOM GYRE_CUDA_PATH

# CUDA's own libraries, and no GPU
real=
for folder in /usr/local/cuda /usr/local/cuda-*; do
    [ -n "$real" ] || ! ls "$folder"/lib64/libcudart.so.1[1-9]* >/dev/null 2>&1 || real=$folder
done
if [ -z "$real" ]; then
    skip "CUDA's libraries are not on this machine"
elif nvidia-smi >/dev/null 2>&1 || [ -e /dev/nvidia0 ]; then
    skip "this machine has a GPU"
else
    GYRE_CUDA_PATH=$real
    export GYRE_CUDA_PATH
    missing real "no NVIDIA driver: $real/lib64/libcudart.so.1.* was opened, but it found no libcuda.so.1 that works"
fi
finish
