#!/bin/sh
# SPDX-License-Identifier: MIT
# gpu.sh OUT FOLDER [PART...]: everything that wants a GPU, so that one run tells everything. FOLDER
# holds gyre, bench_gpu and tests/. Parts: probe head rows nets layers train why peer sanitizer. A
# part has a time limit and a log of its own, and never stops the next. OUT gets report.txt, which
# grows line by line, and all.tgz with every log and CSV, made again after each part. Ends with 0,
# with 1 when anything failed, with 143 when it was stopped; a line of the report has the status of
# what failed.
#
# Variables:
#     GPU_PACK               what './build.sh gpu-pack' made: compiled kernels and images
#     GPU_DEVICE             cuda
#     GPU_EACH               one in so many op cases, 32
#     GPU_ROWS               a pattern of rows, all
#     GPU_NET, GPU_BATCH     of head and layers, resnet50 and 256
#     GPU_SECONDS            limits of all parts in per cent, 100
set -u
out=$1
folder=$2
shift 2
[ $# -gt 0 ] || set -- probe head rows nets layers train why peer sanitizer
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
report=$out/report.txt
device=${GPU_DEVICE:-cuda}
net=${GPU_NET:-resnet50}
batch=${GPU_BATCH:-256}
failed=0
say() { printf '%s\n' "$*" | tee -a "$report"; }
keep() { tar czf "$out/all.tgz.new" -C "$work" --exclude=./pack . && mv "$out/all.tgz.new" "$out/all.tgz"; }
at_end() { cp "$report" "$work/"; keep; rm -rf "$work"; }
trap at_end EXIT
trap 'exit 143' INT TERM HUP

# limited SECONDS COMMAND...: 124 or 137 when its time was over
limited() { limit=$(($1 * ${GPU_SECONDS:-100} / 100)); shift; timeout -k 5 "$limit" "$@"; }

# step NAME SECONDS COMMAND...: its output in NAME.log; one line in the report, and why it failed
step()
{
    name=$1 seconds=$2
    shift 2
    started=$(date +%s)
    limited "$seconds" "$@" >"$work/$name.log" 2>&1
    status=$?
    ! grep -q '^skipped' "$work/$name.log" || status=77 # here nothing may be passed over
    what="$name, $(($(date +%s) - started)) s"
    [ "$status" = 0 ] || what="$what, exit status $status"
    say "$(verdict $status) $what: $(tail -n 1 "$work/$name.log")"
    [ "$status" = 0 ] && return 0
    failed=$((failed + 1))
    grep -vE '^  after ' "$work/$name.log" | tail -n 8 | head -n 7 | sed 's/^/    /' >>"$report"
}

verdict() { case $1 in 0) echo "ok     " ;; 77) echo "skipped" ;; 124|137) echo "hung   " ;; *) echo "failed " ;; esac; }

# ---- parts ----

probe()
{
    say "$(uname -srm), $(getconf _NPROCESSORS_ONLN) cores, $("${CC:-cc}" --version | head -n 1)"
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,power.limit,temperature.gpu --format=csv,noheader 2>&1 |
        head -n 1 | tee -a "$report"
    for tool in python3 compute-sanitizer ncu cuobjdump nvdisasm; do
        say "$tool: $(command -v $tool || echo none)"
    done
    ldconfig -p 2>/dev/null | grep -E 'libcudart|libnvrtc\.' | sed 's/^/    /' >>"$report"
    python=$(python3 -c 'import nvidia.cu13 as m; print(list(m.__path__)[0])' 2>/dev/null) || python=
    say "CUDA of python3: ${python:-none}"
    if ! "$folder/gyre" plan lenet5 --device "$device" >"$work/probe.log" 2>&1 && [ -n "$python" ]; then
        say "gyre: $(tail -n 1 "$work/probe.log")"
        GYRE_CUDA_PATH=$python
        export GYRE_CUDA_PATH
        say "GYRE_CUDA_PATH is $python from here on"
    fi
    step device 60 "$folder/gyre" plan lenet5 --device "$device"
    arch=$(sed -n 's/^net .*, \(sm_[0-9]*\), .*/\1/p' "$work/device.log")
    packed=$(cat "$work/pack/arch" 2>/dev/null) || packed=$arch
    if [ -n "$arch" ] && [ "$packed" != "$arch" ]; then
        failed=$((failed + 1))
        say "failed  pack: $GPU_PACK has kernels for $packed, the device is $arch: they are compiled here"
    fi
}

# The headline first, so that nothing that fails later can take it.
head_part()
{
    echo "who,net,batch,type,images_per_second,first_step_seconds,fastest_ms,median_ms,bytes,loss" >"$work/bench.csv"
    row gyre "$net $batch bf16"
    [ "$device" = emu ] || row graph "$net $batch bf16"
}

# row gyre|graph|compile "NET BATCH TYPE"
row()
{
    case $1 in
    gyre) # shellcheck disable=SC2086
        step "bench-gyre-$(echo "$2" | tr ' ' -)" 60 "$folder/bench_gpu" $2 "$device" "${GPU_STEPS:-30}" ;;
    *) # shellcheck disable=SC2086
        step "bench-$1-$(echo "$2" | tr ' ' -)" 120 python3 tests/peer/bench_gpu.py $2 "$1" ;;
    esac
    tail -n 1 "$work/$name.log" | grep -E '^(gyre|pytorch)' >>"$work/bench.csv"
}

# one_row OP ROW: a process of its own, so that what hangs or spoils the device costs one row.
# Its log names each case before it runs.
one_row()
{
    name=row-$1-$2
    each=${GPU_EACH:-32}
    case $2 in wgmma*) each=$(((each + 7) / 8)) ;; esac # which no other device runs
    began=$(date +%s)
    limited 45 "$folder/tests/t_ops_cuda" --device "$device" --op "$1" --row "$2" --each "$each" --say >"$work/rows/$name.log" 2>&1
    status=$?
    last=$(tail -n 1 "$work/rows/$name.log")
    if [ "$status" != 0 ]; then
        last="$last; $(grep -vE '^runs |^  after ' "$work/rows/$name.log" | sed -n 2,3p | tr '\n' ' ')"
        [ "$status" -lt 124 ] || last="last case: $(grep '^runs ' "$work/rows/$name.log" | tail -n 1)"
    fi
    echo "$(verdict $status) $1 $2, $(($(date +%s) - began)) s: $last" >>"$work/rows.txt"
}

rows()
{
    mkdir -p "$work/rows"
    : >"$work/rows.txt"
    "$folder/tests/t_ops_cuda" --device "$device" --list >"$work/pairs" 2>"$work/rows.log" || say "failed  rows: $(tail -n 1 "$work/rows.log")"
    { grep wgmma "$work/pairs"; grep -v wgmma "$work/pairs"; } | grep -E "${GPU_ROWS:-.}" >"$work/pairs.sorted"
    started=$(date +%s) running=0
    while read -r op kernel; do
        one_row "$op" "$kernel" &
        running=$((running + 1))
        [ $((running % ${GPU_JOBS:-8})) -ne 0 ] || wait
    done <"$work/pairs.sorted"
    wait
    bad=$(grep -vc '^ok' "$work/rows.txt")
    failed=$((failed + bad))
    grep -v '^ok' "$work/rows.txt" >>"$report"
    say "rows: $(wc -l <"$work/rows.txt") of $(wc -l <"$work/pairs.sorted") ran, $bad failed, $(($(date +%s) - started)) s"
}

nets()
{
    step net 90 "$folder/tests/t_cuda_net" "$device"
    for test in half queue input glm; do
        step $test 60 "$folder/tests/t_cuda_$test" "$device"
    done
    for model in ${GPU_ZOO:-fashion resnet20 resnet18 resnet50 alexnet}; do
        step "zoo-$model" 90 "$folder/tests/t_cuda_net" "$device" zoo "$model"
        step "zoo16-$model" 90 "$folder/tests/t_cuda_net" "$device" zoo16 "$model"
    done
}

# The matrix products are 1x1 convolutions on one image, behind one that makes their channels.
layers()
{
    step layers 120 "$folder/gyre" bench "$net" --device "$device" --dtype bf16 --batch "$batch" --csv
    grep -E '^[a-z]+,' "$work/layers.log" >"$work/layers.csv"
    for size in "64x64 4096" "64x128 8192"; do
        printf 'input %sx3\nconv %s 1x1\nconv %s 1x1\ngap\nlinear 10\nsoftmax\n' "${size% *}" "${size#* }" "${size#* }" >"$work/product.net"
        step "product-${size#* }" 60 "$folder/gyre" bench "$work/product.net" --device "$device" --dtype bf16 --batch 1 --csv
        grep ",conv.*x${size#* } \* 1x1/1 -> ${size#* }," "$work/product-${size#* }.log" >>"$work/layers.csv"
    done
    step layers-peer 120 python3 tests/peer/bench_layers.py "$work/layers.csv" --predicted tests/perf/cuda_predicted.csv --seconds 90
    cp "$work/layers-peer.log" "$work/layers-peer.csv"
    grep 'geometric' "$work/layers-peer.log" | tee -a "$report"
}

train()
{
    if [ -d "${GPU_DATA:-}" ]; then
        step train 120 "$folder/gyre" train "${GPU_TRAIN:-fashion}" "$GPU_DATA" --device "$device" --batch 128 --epochs "${GPU_EPOCHS:-3}" --lr 0.1 \
            --out "$work/run" --overwrite
    else
        failed=$((failed + 1))
        say "failed  train: there are no images; GPU_PACK names a pack that has them"
    fi
}

# Counters of every kernel of a step: issue slots, the matrix units, L2 and memory.
why()
{
    command -v ncu >/dev/null 2>&1 || { say "skipped why: ncu is not installed"; return; }
    ncu --query-metrics --chip gh100 2>/dev/null | awk '{ print $1 }' >"$work/metrics"
    metrics=
    for metric in gpu__time_duration.sum sm__cycles_elapsed.max sm__inst_executed.sum sm__inst_issued.sum sm__pipe_tensor_cycles_active.sum \
        sm__pipe_tensor_op_hmma_cycles_active.sum dram__bytes_read.sum dram__bytes_write.sum lts__t_bytes.sum; do
        ! grep -q "^${metric%.*}\$" "$work/metrics" || metrics=$metrics${metrics:+,}$metric
    done
    step why 110 ncu --clock-control none --csv --page raw --log-file "$work/why.csv" --launch-count "${GPU_LAUNCHES:-400}" \
        --kernel-name 'regex:^(conv_wgmma|conv_mma|conv_sum|norm_.*)$' --metrics "$metrics" "$folder/bench_gpu" "$net" 64 bf16 "$device" 1
}

peer()
{
    row compile "$net $batch bf16"
    for size in 64 512; do
        row gyre "$net $size bf16"
        row graph "$net $size bf16"
    done
    row gyre "$net 64 f32"
    row graph "$net 64 f32"
    row gyre "resnet20 256 f32"
    row graph "resnet20 256 f32"
}

# Accesses outside of a tensor, and races in shared memory, of a few cases of every row.
sanitizer()
{
    command -v compute-sanitizer >/dev/null 2>&1 || { say "skipped sanitizer: compute-sanitizer is not installed"; return; }
    for tool in memcheck racecheck; do
        step "$tool" 100 compute-sanitizer --tool $tool --error-exitcode 9 "$folder/tests/t_ops_cuda" --device "$device" --each 1500
    done
}

# ---- the run ----

: >"$report"
say "gyre on a GPU, $(date -u)"
if [ -n "${GPU_PACK:-}" ]; then
    mkdir -p "$work/pack"
    if tar xf "$GPU_PACK" -C "$work/pack" 2>"$work/pack.log"; then
        GPU_DATA=${GPU_DATA:-$work/pack/images}
        GYRE_KERNEL_CACHE=$work/pack/kernels
        export GYRE_KERNEL_CACHE
        say "pack: $(find "$work/pack/kernels" -type f | wc -l) compiled kernels"
    else
        failed=$((failed + 1))
        say "failed  pack: $GPU_PACK: $(tail -n 1 "$work/pack.log")"
    fi
fi
GYRE_KERNEL_CACHE=${GYRE_KERNEL_CACHE:-$folder/kernels}
export GYRE_KERNEL_CACHE
for part in "$@"; do
    say "== $part"
    case $part in
    head) head_part ;;
    probe|rows|nets|layers|train|why|peer|sanitizer) "$part" ;;
    *) failed=$((failed + 1)); say "failed  $part: there is no such part" ;;
    esac
    cp "$report" "$work/"
    keep
done
say "gpu.sh: $failed failed"
[ "$failed" = 0 ]
