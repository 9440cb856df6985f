#!/bin/sh
# SPDX-License-Identifier: MIT
# A fast CIFAR-10 recipe (the net of fast_cifar.net and its schedule) in Gyre from packed records,
# then the same in PyTorch (fast_cifar.py). It prints time and test accuracy of both. Without
# PyTorch, Gyre alone, from its own start.
#
#   fast_cifar.sh [FOLDER]    FOLDER/train/CLASS/*.jpg, FOLDER/test/CLASS/*.jpg;
#                             default: the archive in GYRE_TEST_DATA
#
# Variables:
#   EPOCHS (10), BATCH (1024), RATE (1.5), FINAL (0.1), DECAY (0.00133), WARM (2.3 epochs), THREADS,
#   GYRE (build/gyre), PYTHON
#   DTYPE           f32 bf16; several run one after the other
#   IMAGES          0: all; else so many of each class
#   MODE            of PyTorch (eager, compile)
#   CURVE=FILE.csv  also the test accuracy after each epoch over seconds of training, both sides,
#                   tests not counted, and FILE.svg beside it; and when either side reached LEVELS
#                   (0.60 0.70 0.80 0.85 0.87), on a straight line between epochs
set -eu
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)
EPOCHS=${EPOCHS:-10} BATCH=${BATCH:-1024} RATE=${RATE:-1.5} FINAL=${FINAL:-0.1} DECAY=${DECAY:-0.00133} WARM=${WARM:-2.3}
DTYPE=${DTYPE:-f32 bf16} IMAGES=${IMAGES:-0} MODE=${MODE:-eager} GYRE=${GYRE:-$here/../../build/gyre} PYTHON=${PYTHON:-python3}
THREADS=${THREADS:-$(getconf _NPROCESSORS_ONLN)} CURVE=${CURVE:-} LEVELS=${LEVELS:-0.60 0.70 0.80 0.85 0.87}
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
now() { date +%s%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", (b - a) / 1e9 }'; }

data=${1:-}
if [ -z "$data" ]; then
    archive=${GYRE_TEST_DATA:-}/images/cifar10-jpeg.tar.gz
    if [ ! -f "$archive" ]; then
        echo "skipped: no folder given, and GYRE_TEST_DATA has no images/cifar10-jpeg.tar.gz"
        exit 0
    fi
    data=$TMP/cifar
    mkdir "$data"
    tar xzf "$archive" -C "$data"
fi
if [ "$IMAGES" -gt 0 ]; then
    for class in "$data"/train/*/; do
        part=$TMP/part/train/$(basename "$class")
        mkdir -p "$part"
        find "$class" -type f | sort | sed "${IMAGES}q" | xargs cp -t "$part"
    done
    cp -r "$data/test" "$TMP/part/test"
    data=$TMP/part
fi

# ---- accuracy over seconds

# curve_of_run RUN BEGIN: rows EPOCH,SECONDS,ACCURACY. A checkpoint's time less the run's begin is
# the time that it took.
curve_of_run()
{
    epoch=0
    for step in $(find "$1" -name 'checkpoint-*.safetensors' | sed 's/.*-\([0-9]*\)\.safetensors/\1/' | sort -n); do
        epoch=$((epoch + 1)) checkpoint=$1/checkpoint-$step.safetensors
        top1=$("$GYRE" eval "$checkpoint" "$TMP/test.gyr" --json | sed -n 's/.*"top1":\([0-9.e-]*\).*/\1/p' | sed 1q)
        stat -c '%.9Y' "$checkpoint" | awk -v epoch=$epoch -v begin="$2" -v top1="$top1" \
            '{ printf "%d,%.2f,%.4f\n", epoch, $1 - begin / 1e9, top1 }'
    done
}

# reached LEVELS <CURVE: a line a level, with the seconds of both sides
reached()
{
    awk -F, -v levels="$1" 'NR == 1 { next }
        !(($1, $2) in seconds) { seconds[$1, $2] = accuracy[$1, $2] = 0; types[$2] }
        { n = split(levels, level, " ")
          for (i = 1; i <= n; i++)
              if (accuracy[$1, $2] < level[i] && $5 >= level[i] && !(($1, $2, i) in at)) {
                  part = (level[i] - accuracy[$1, $2]) / ($5 - accuracy[$1, $2])
                  at[$1, $2, i] = seconds[$1, $2] + part * ($4 - seconds[$1, $2])
              }
          seconds[$1, $2] = $4; accuracy[$1, $2] = $5 }
        END { for (type in types) for (i = 1; i <= n; i++) {
                  a = at["gyre", type, i]; b = at["pytorch", type, i]
                  printf "%s reaches %.2f: gyre %s, pytorch %s%s\n", type, level[i], a ? sprintf("%.1f s", a) : "never",
                      b ? sprintf("%.1f s", b) : "never", a && b ? sprintf(", ratio %.3f", a / b) : "" } }'
}

draw()
{
    cc -std=c99 -D_POSIX_C_SOURCE=200809L -O2 -I "$here/../.." -o "$TMP/curve" "$here/curve.c" "${LIBRARY:-$here/../../build/libgyre.a}" \
        -lm -lpthread -ldl
    sed 1d "$CURVE" | awk -F, '{ printf "%s-%s %s %.2f\n", $1, $2, $4, 100 * $5 }' |
        "$TMP/curve" "${CURVE%.csv}.svg" "CIFAR-10, the same net, start and rates" "seconds of training on $THREADS threads" "% right"
}

# ---- what both begin with
weights=
said=$("$PYTHON" "$here/fast_cifar.py" "$data" --write-start "$TMP/start.safetensors") || said="skipped: $PYTHON failed"
if [ -s "$TMP/start.safetensors" ]; then weights="--weights $TMP/start.safetensors"; else echo "${said:-no PyTorch}; Gyre's own start"; fi

begin=$(now)
"$GYRE" pack "$data" "$TMP/train.gyr" --split train >/dev/null
"$GYRE" pack "$data" "$TMP/test.gyr" --split test >/dev/null
echo "packed in $(since "$begin") s; $EPOCHS epochs, batch $BATCH, $THREADS threads"
[ -z "$CURVE" ] || echo "side,type,epoch,seconds,test_accuracy" >"$CURVE"
keep=1
[ -z "$CURVE" ] || keep=$EPOCHS
for dtype in $DTYPE; do
    begin=$(now)
    # shellcheck disable=SC2086
    "$GYRE" train "$here/fast_cifar.net" "$TMP/train.gyr" --test-data none --batch "$BATCH" --epochs "$EPOCHS" --lr "$RATE" --final-lr "$FINAL" \
        --warmup-epochs "$WARM" --schedule poly --power 1 --momentum 0.85 --nesterov --weight-decay "$DECAY" --pad-crop 2 --flip \
        --mean 0.4914,0.4822,0.4465 --std 0.247,0.2435,0.2616 --dtype "$dtype" --threads "$THREADS" --out "$TMP/run-$dtype" $weights --keep "$keep" \
        >"$TMP/log"
    seconds=$(since "$begin")
    "$GYRE" eval "$TMP/run-$dtype" "$TMP/test.gyr" --json >"$TMP/test.json"
    accuracy=$(sed -n 's/.*"top1":\([0-9.e-]*\).*/\1/p' "$TMP/test.json" | sed 1q)
    waits=$(sed -n 's/.*\(input waits .*)\).*/\1/p' "$TMP/log" | tail -n 1)
    echo "gyre     $dtype: $seconds s of training, test accuracy ${accuracy:-unknown}, $waits"
    [ -z "$CURVE" ] || curve_of_run "$TMP/run-$dtype" "$begin" | sed "s/^/gyre,$dtype,/" >>"$CURVE"
    [ -n "$weights" ] || continue
    "$PYTHON" "$here/fast_cifar.py" "$data" --start "$TMP/start.safetensors" --epochs "$EPOCHS" --batch "$BATCH" --rate "$RATE" \
        --final "$FINAL" --warm "$WARM" --decay "$DECAY" --dtype "$dtype" --mode "$MODE" --threads "$THREADS" --curve "$TMP/peer.csv" \
        2>"$TMP/log" >"$TMP/peer.json" ||
        { tail -n 5 "$TMP/log"; exit 1; }
    sed 's/.*"seconds": \([0-9.]*\).*"test_accuracy": \([0-9.]*\).*/\1 s of training, test accuracy \2/' "$TMP/peer.json" |
        sed "s/^/pytorch  $dtype: /"
    [ -z "$CURVE" ] || sed "s/^/pytorch,$dtype,/" "$TMP/peer.csv" >>"$CURVE"
done
[ -z "$CURVE" ] || { draw && reached "$LEVELS" <"$CURVE"; }
