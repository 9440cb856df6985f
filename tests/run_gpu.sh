#!/bin/sh
# SPDX-License-Identifier: MIT
# run_gpu.sh FOLDER: gpu.sh rehearsed on the emulator with planted faults. A kernel never ends, or
# spoils the device at once or in the middle of training, or does nothing. A library is missing or
# of another version; there is no compiler. An archive is damaged, cut or of another architecture,
# or a pack of kernels is cut or of another architecture. The report must name each, and the other
# parts must have run. FOLDER holds gyre and tests/.
set -u
folder=$1
here=$(dirname "$0")
TMP=$(mktemp -d)
. "$here/e2e.inc"
trap 'rm -rf "$TMP"' EXIT
mkdir "$TMP/tests"
cp "$folder/tests/t_ops_cuda" "$TMP/tests/"
cp "$folder/gyre" "$folder/libgyre-emu.so" "$TMP/"
ln -s "$(cd "$folder" && pwd)/bench_gpu" "$TMP/bench_gpu"

# holds WHAT PATTERN: a line of the report is so
holds()
{
    if grep -Eq "$2" "$TMP/out/report.txt"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $1: no line like $2"
        sed 's/^/    /' "$TMP/out/report.txt"
    fi
}

# run STATUS VARIABLE=VALUE... -- PART...: gpu.sh ends with that status and leaves an archive
run()
{
    expected=$1
    shift
    set -- "$@"
    variables=
    while [ "$1" != -- ]; do
        variables="$variables $1"
        shift
    done
    shift
    rm -rf "$TMP/out"
    # shellcheck disable=SC2086
    env GPU_DEVICE=emu GYRE_EMU_ARCH=90 GPU_NET=lenet5 GPU_BATCH=4 GPU_STEPS=1 GPU_EACH=4000 GPU_JOBS=2 GPU_SECONDS=1000 $variables \
        sh "$here/gpu.sh" "$TMP/out" "$TMP" "$@" >"$TMP/log" 2>&1
    status=$?
    if [ "$status" = "$expected" ] && tar tzf "$TMP/out/all.tgz" | grep -q report.txt; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: gpu.sh $*: exit status $status, not $expected"
        tail -n 20 "$TMP/log"
    fi
}

run 0 'GPU_ROWS=^(dropout|lrn|concat)' -- probe head rows
holds "the step is timed" '^ok      bench-gyre-lenet5-4-bf16'
holds "every row passes" '^rows: 7 of 7 ran, 0 failed'

run 1 'GPU_ROWS=^(dropout|lrn|concat)' GYRE_EMU_PLANT=hang:flat_dropout,lost:lrn,skip:flat_concat GPU_SECONDS=60 -- rows
holds "a kernel that never ends is named with its case" '^hung    dropout line, .*last case: runs .*dropout'
holds "a device that is lost is named" '^failed  lrn direct, .*an illegal memory access.*lrn .*the device failed'
holds "a kernel that does nothing is found" '^failed  concat line'
holds "the rest has run: concat's backward pass" '^rows: 7 of 7 ran, 6 failed'

# libraries whose names hold the word HIDDEN are not found
cat >"$TMP/hide.c" <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    const char *const word = getenv("HIDDEN");
    return name && word && strstr(name, word) ? NULL : real(name, flags);
}
EOF
"${CC:-cc}" -shared -fPIC -w -o "$TMP/hide.so" "$TMP/hide.c" -ldl
hide="LD_PRELOAD=$TMP/hide.so HIDDEN="

run 1 GPU_DEVICE=cuda ${hide}libcudart -- probe rows train
holds "a missing library is named" '^failed  device, .*exit status 4: .*the CUDA runtime was not found: looked for libcudart'
holds "the parts behind it have run" '^failed  train'

head -c 100 /dev/urandom >"$TMP/pack"
run 1 GPU_PACK="$TMP/pack" -- probe
holds "an archive that is damaged is named" '^failed  pack: .*/pack: '
holds "the part behind it has run" '^ok      device'

mkdir "$TMP/old"
printf 'int cudaRuntimeGetVersion(int *v) { *v = 10020; return 0; }\n' >"$TMP/old.c"
"${CC:-cc}" -shared -fPIC -o "$TMP/old/libcudart.so.13" "$TMP/old.c"
run 1 GPU_DEVICE=cuda GYRE_CUDA_PATH="$TMP/old" -- probe train
holds "a library of another version is named" '^failed  device, .*exit status 4: .*/old/libcudart.so.13 has no function'
holds "the part behind it has run" '^failed  train'

tar cJf "$TMP/whole" -C "$TMP" gyre
head -c 5000 "$TMP/whole" >"$TMP/pack"
run 1 GPU_PACK="$TMP/pack" -- probe
holds "an archive that is cut is named" '^failed  pack: .*/pack: '

# gpu_pack.sh with programs that only leave a file each where compiled kernels go
mkdir -p "$TMP/stub/tests" "$TMP/idx"
printf 'images' | gzip >"$TMP/idx/train-images-ubyte.gz"
printf 'labels' >"$TMP/idx/train-labels-ubyte"
printf '#!/bin/sh\nmkdir -p "$GYRE_KERNEL_CACHE"\n: >"$GYRE_KERNEL_CACHE/$(echo "$@" | tr -dc a-z0-9)"\necho made\n' >"$TMP/stub/gyre"
chmod +x "$TMP/stub/gyre"
cp "$TMP/stub/gyre" "$TMP/stub/tests/t_ops_cuda"
kernels=$(($(wc -l <"$here/gpu_nets.txt") + 1))
pack() { sh "$here/gpu_pack.sh" "$TMP/pack" "$TMP/stub" "$TMP/packs" "$TMP/idx" "$1" >"$TMP/log" || bad "no archive: $(tail -n 1 "$TMP/log")"; }
pack 80
run 1 GPU_PACK="$TMP/pack" -- probe head
holds "what an archive holds is said" "^pack: $kernels compiled kernels"
holds "an archive for another architecture is named" '^failed  pack: .*/pack has kernels for sm_80, the device is sm_90'
holds "the part behind it has run" '^ok      bench-gyre-lenet5'
pack 90
run 0 GPU_PACK="$TMP/pack" -- probe
if tar xOf "$TMP/pack" images/train-images-ubyte images/train-labels-ubyte | grep -qx imageslabels; then ok; else bad "the archive lacks images"; fi

printf 'GYREPCK1 and then not much' >"$TMP/kernels.pack"
run 1 GYRE_KERNEL_PACK="$TMP/kernels.pack" -- probe head
holds "a pack of kernels that is cut is named" '^failed  device, .*exit status 3: .*kernels.pack: kernel 0 of the pack is cut off'
holds "the part behind it has run" 'bench-gyre-lenet5'

# Training. The emulator stands in for a GPU that has a runtime, with its compiler or without one.
make_images "$TMP/images" 2 128 8 1
printf 'input 8x8x3\nconv 4 3x3\nrelu\ngap\nlinear 2\nsoftmax\n' >"$TMP/tiny.net"
mkdir "$TMP/compiler" "$TMP/runtime"
ln -s "$TMP/libgyre-emu.so" "$TMP/compiler/libnvrtc.so.13"
ln -s "$TMP/libgyre-emu.so" "$TMP/runtime/libcudart.so.13"
for arch in 80 90; do
    GYRE_KERNEL_CACHE=$TMP/packed GYRE_CUDA_PATH=$TMP/compiler "$TMP/gyre" kernels pack "$TMP/tiny.net" --batch 128 --arch $arch \
        --out "$TMP/kernels.$arch" >"$TMP/log" 2>&1 || bad "no pack is made: $(tail -n 1 "$TMP/log")"
done
few="GPU_DATA=$TMP/images GPU_TRAIN=$TMP/tiny.net"
# shellcheck disable=SC2086
run 1 $few GYRE_EMU_PLANT=lost:optim_update@4 -- train probe
holds "a device that is lost in the middle is named" '^failed  train, .*exit status 1: .*the device failed in the update program'
holds "in which step" 'step 2/6'
holds "with the reason" 'an illegal memory access'
holds "the part behind it has run" '^ok      device'
none="$few GPU_DEVICE=cuda GYRE_CUDA_PATH=$TMP/runtime GYRE_KERNEL_CACHE=off ${hide}libnvrtc"
# shellcheck disable=SC2086
run 1 $none -- train probe
holds "a missing compiler is named" '^failed  train, .*exit status 4: gyre: NVRTC, CUDA.s compiler of kernels, was not found: looked for'
holds "the part behind it has run" '^ok      device'
# shellcheck disable=SC2086
run 1 $none GYRE_KERNEL_PACK="$TMP/kernels.80" -- train probe
holds "a pack of another architecture is named" '^failed  train, .*exit status 4: gyre: the pack of 12 kernels lacks 12 that sm_90 needs, and NVRTC'
holds "the part behind it has run" '^ok      device'
# shellcheck disable=SC2086
run 0 $none GYRE_KERNEL_PACK="$TMP/kernels.90" -- train
holds "a pack of this one needs no compiler" '^ok      train'
echo "run_gpu: $passed passed, $failed failed"
[ "$failed" = 0 ]
