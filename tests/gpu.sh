#!/bin/sh
# SPDX-License-Identifier: MIT
# gpu.sh OUT FOLDER [PART...]: everything that wants a GPU, in parts that can run alone, within 10 minutes in all: ops net train
# sanitizer bench. FOLDER holds gyre, libgyre.a and tests/. A plain report is OUT/report.txt, measurements are OUT/bench.csv.
# Variables: CC, GPU_DATA and GPU_NET (images for training, default Fashion-MNIST where it is; the net, fashion), GPU_EACH (one in so many op cases; 8).
set -u
out=$1
folder=$2
shift 2
[ $# -gt 0 ] || set -- ops net train sanitizer bench
mkdir -p "$out"
out=$(cd "$out" && pwd)
report=$out/report.txt
data=${GPU_DATA:-/usr/share/datasets/fashion-mnist}
failed=0
GYRE_KERNEL_CACHE=${GYRE_KERNEL_CACHE:-$out/../kernels}
export GYRE_KERNEL_CACHE
say() { printf '%s\n' "$*" | tee -a "$report"; }

# part NAME COMMAND...: its output in OUT/NAME.log, its last lines in the report
part()
{
    name=$1
    shift
    started=$(date +%s)
    status=0
    "$@" >"$out/$name.log" 2>&1 || status=$?
    ! grep -q '^skipped' "$out/$name.log" || status=77 # here nothing may be passed over
    [ "$status" = 0 ] || failed=$((failed + 1))
    say "== $name: exit status $status, $(($(date +%s) - started)) s"
    tail -n 60 "$out/$name.log" >>"$report"
}

bench_rows()
{
    ${CC:-cc} -O2 -I. -o "$out/bench_gpu" tests/peer/bench_gpu.c "$folder/libgyre.a" -lm -lpthread -ldl || return 1
    echo "who,net,batch,type,images_per_second,first_step_seconds,fastest_ms,median_ms,bytes,loss" >"$out/bench.csv"
    for row in "resnet50 64 bf16" "resnet50 256 bf16" "resnet50 512 bf16" "resnet50 64 f32" "resnet20 256 f32"; do
        # shellcheck disable=SC2086
        timeout 60 "$out/bench_gpu" $row >>"$out/bench.csv" || echo "gyre failed: $row"
        for mode in graph compile; do
            # shellcheck disable=SC2086
            timeout 90 python3 tests/peer/bench_gpu.py $row $mode >>"$out/bench.csv" || echo "PyTorch failed: $row $mode"
        done
    done
    cat "$out/bench.csv"
    rm -f "$out/bench_gpu"
    timeout 120 "$folder/gyre" bench resnet50 --device cuda --dtype bf16 --batch 64 --csv >"$out/layers.csv"
}

train_net()
{
    if [ -d "$data" ]; then
        timeout 120 "$folder/gyre" train "${GPU_NET:-fashion}" "$data" --device cuda --batch 128 --epochs 3 --lr 0.1 --out "$out/run" --overwrite
    else
        echo "no data in $data: GPU_DATA names it"
    fi
}

: >"$report"
say "$(date -u) $(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader 2>/dev/null | head -n 1)"
if ! "$folder/gyre" plan lenet5 --device cuda >/dev/null 2>"$out/why"; then
    say "$(cat "$out/why")"
    exit 1
fi
for name in "$@"; do
    case $name in
    ops) part ops timeout 300 "$folder/tests/t_ops_cuda" --device cuda --each "${GPU_EACH:-8}" ;;
    net)
        part net timeout 120 "$folder/tests/t_cuda_net" cuda
        part zoo timeout 150 "$folder/tests/t_cuda_net" cuda zoo fashion resnet20 resnet18 resnet50 alexnet
        for test in half queue input glm; do
            part "$test" timeout 60 "$folder/tests/t_cuda_$test" cuda
        done
        ;;
    train) part train train_net ;;
    sanitizer)
        if command -v compute-sanitizer >/dev/null 2>&1; then
            part sanitizer timeout 120 compute-sanitizer --error-exitcode 9 "$folder/tests/t_ops_cuda" --device cuda --each 1500
        else
            say "== sanitizer: compute-sanitizer is not installed"
        fi
        ;;
    bench) part bench bench_rows ;;
    *) say "gpu.sh: there is no part $name" ;;
    esac
done
say "gpu.sh: $failed parts failed"
[ "$failed" = 0 ]
