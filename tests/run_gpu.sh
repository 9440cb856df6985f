#!/bin/sh
# SPDX-License-Identifier: MIT
# run_gpu.sh FOLDER: gpu.sh rehearsed on the emulator with planted faults: a kernel that never ends, one
# that spoils the device, one that does nothing, a library that is missing or of another version, an
# archive that is damaged or cut, a pack of kernels that is cut.
# The report must name each, and what is not planted must have run. FOLDER holds gyre and tests/.
set -u
folder=$1
here=$(dirname "$0")
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
passed=0 failed=0
cp -r "$folder/tests" "$folder/gyre" "$folder/libgyre-emu.so" "$TMP/"
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
    env GPU_DEVICE=emu GYRE_EMU_ARCH=90 GPU_NET=lenet5 GPU_BATCH=4 GPU_STEPS=1 GPU_EACH=4000 GPU_JOBS=2 GPU_SECONDS=30 $variables \
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

run 1 'GPU_ROWS=^(dropout|lrn|concat)' GYRE_EMU_PLANT=hang:flat_dropout,lost:lrn,skip:flat_concat -- rows
holds "a kernel that never ends is named with its case" '^hung    dropout line, .*last case: runs .*dropout'
holds "a device that is lost is named" '^failed  lrn direct, .*an illegal memory access.*lrn .*the device failed'
holds "a kernel that does nothing is found" '^failed  concat line'
holds "the rest has run: concat's backward pass" '^rows: 7 of 7 ran, 6 failed'

run 1 GPU_DEVICE=cuda GYRE_CUDA_PATH="$TMP/nowhere" -- probe rows train
holds "a missing library is named" '^failed  device, .*libcudart'
holds "the parts behind it have run" '^failed  train'

head -c 100 /dev/urandom >"$TMP/pack"
run 1 GPU_PACK="$TMP/pack" -- probe
holds "an archive that is damaged is named" '^failed  pack: .*/pack: '
holds "the part behind it has run" '^ok      device'

mkdir "$TMP/old"
printf 'int cudaRuntimeGetVersion(int *v) { *v = 10020; return 0; }\n' >"$TMP/old.c"
"${CC:-cc}" -shared -fPIC -o "$TMP/old/libcudart.so.13" "$TMP/old.c"
run 1 GPU_DEVICE=cuda GYRE_CUDA_PATH="$TMP/old" -- probe train
holds "a library of another version is named" '^failed  device, .*/old/libcudart.so.13 has no function'
holds "the part behind it has run" '^failed  train'

tar cJf "$TMP/whole" -C "$TMP" gyre
head -c 5000 "$TMP/whole" >"$TMP/pack"
run 1 GPU_PACK="$TMP/pack" -- probe
holds "an archive that is cut is named" '^failed  pack: .*/pack: '

printf 'GYREPCK1 and then not much' >"$TMP/kernels.pack"
run 1 GYRE_KERNEL_PACK="$TMP/kernels.pack" -- probe head
holds "a pack of kernels that is cut is named" '^failed  device, .*kernels.pack: kernel 0 of the pack is cut off'
holds "the part behind it has run" 'bench-gyre-lenet5'
echo "run_gpu: $passed passed, $failed failed"
[ "$failed" = 0 ]
