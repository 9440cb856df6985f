#!/bin/sh
# SPDX-License-Identifier: MIT
# A net whose fully connected layers are split over the processes. Its last checkpoint is, to the
# last byte, that of one process, and any number of processes continues from it. What is impossible
# gets one sentence.
. "$(dirname "$0")/e2e.inc"
make_images "$TMP/data/train" 4 24 20 1
make_images "$TMP/data/test" 4 5 20 2
split_net >"$TMP/two.net"

# run RANKS FOLDER OPTIONS...: RANKS processes; 1: one without a job
run()
{
    ranks=$1 folder=$2
    shift 2
    if [ "$ranks" = 1 ]; then
        "$GYRE" train "$TMP/two.net" "$TMP/data" --threads 1 --pad-crop 2 --flip --out "$folder" "$@"
    else
        "$GYRE" launch --ranks "$ranks" --threads 1 -- "$GYRE" train "$TMP/two.net" "$TMP/data" --pad-crop 2 \
            --flip --out "$folder" "$@"
    fi
}
# equal FOLDER FOLDER: the newest checkpoints
equal()
{
    there "$(newest "$1")"
    same "$(newest "$1")" "$(newest "$2")"
}
tests() { awk -F, '$5 != "" { print $1, $3, $4, $5, $6, $7 }' "$1/metrics.csv"; }

# ---- the same bits as one process, and the same test results; other slices with other shards
for optimizer in sgd adamw; do
    for ranks in 1 2 4; do
        expect 0 run $ranks "$TMP/$optimizer-$ranks" --epochs 2 --shards 4 --batch 4 --optimizer $optimizer --ema 0.9
        equal "$TMP/$optimizer-1" "$TMP/$optimizer-$ranks"
        tests "$TMP/$optimizer-$ranks" >"$TMP/tests.$ranks"
        same "$TMP/tests.1" "$TMP/tests.$ranks"
    done
done
for ranks in 1 3; do
    expect 0 run $ranks "$TMP/three-$ranks" --epochs 1 --shards 6 --batch 4
done
equal "$TMP/three-1" "$TMP/three-3"

# ---- one command starts them
expect 0 "$GYRE" train "$TMP/two.net" "$TMP/data" --ranks 2 --threads 1 --pad-crop 2 --flip --epochs 2 --shards 4 \
    --batch 4 --optimizer adamw --ema 0.9 --out "$TMP/command"
equal "$TMP/adamw-1" "$TMP/command"

# ---- what 2 processes began 4 go on with, and one
step=$(newest "$TMP/sgd-2" | sed 's/.*checkpoint-\([0-9]*\).*/\1/')
first=$((step / 2))
for ranks in 1 4; do
    mkdir "$TMP/on-$ranks"
    cp "$TMP/adamw-2/checkpoint-$first.safetensors" "$TMP/on-$ranks"
    expect 0 run $ranks "$TMP/on-$ranks" --epochs 2 --shards 4 --batch 4 --optimizer adamw --ema 0.9 --resume
    says "$out" "after $first of $step steps"
    equal "$TMP/adamw-1" "$TMP/on-$ranks"
done

# ---- ranks without shards, and sums of batches
expect 0 run 2 "$TMP/plain" --epochs 2 --batch 4 --accumulate 2
there "$(newest "$TMP/plain")"
expect 0 "$GYRE" eval "$(newest "$TMP/plain")" "$TMP/data/test"

# ---- a rank that is killed: it is named, and nobody hangs
run 3 "$TMP/killed" --schedule constant --lr .02 --steps 100000 --batch 4 --checkpoint-every 6 >"$out" 2>"$err" </dev/null &
pid=$!
await "$TMP/killed"
victim=
for process in $(pgrep -f "out $TMP/killed "); do
    if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -q '^GYRE_RANK=1$'; then victim=$process; fi
done
began=$(date +%s)
if [ -n "$victim" ] && kill -9 "$victim"; then ok; else bad 'rank 1 is not found'; fi
got=0
wait $pid || got=$?
if [ $got = 137 ] && [ $(($(date +%s) - began)) -le 20 ]; then ok; else bad "code $got after a killed rank"; fi
says "$err" 'rank 1 (process [0-9]*) was ended by signal 9'

# ---- AlexNet, of small images: two processes that keep half of two layers each
net=$(dirname "$0")/../tools/examples/alexnet-split.net
expect 0 "$GYRE" launch --ranks 4 --threads 1 -- "$GYRE" plan "$net" --batch 8
says "$out" "^split 'classifier.1': 1024 of 4096 columns"
says "$out" "^split 'classifier.4': 1024 of 4096 columns"
sed 's/224x224x3/64x64x3/; s/linear 4096/linear 512/; s/linear 1000/linear 4/' "$net" >"$TMP/two.net"
for ranks in 1 2; do
    expect 0 run $ranks "$TMP/alexnet-$ranks" --steps 2 --shards 2 --batch 4
done
equal "$TMP/alexnet-1" "$TMP/alexnet-2"

# ---- mistakes: one sentence
cat >"$TMP/two.net" <<'END'
input 20x20x3
fc: linear 3 split
relu
linear 4
softmax
END
expect 2 run 4 "$TMP/bad" --batch 4
says "$err" "layer 'fc' is split into 4 slices, one a rank, and has 3 columns"
expect 2 run 2 "$TMP/bad" --batch 4 --optimizer lars
says "$err" "layer 'fc' is split over 2 ranks: its optimizer needs the norm of a whole layer"
expect 2 run 2 "$TMP/bad" --batch 4 --clip 1
says "$err" 'optimizer.clip_norm needs the norm of all gradients'
expect 2 run 2 "$TMP/bad" --batch 4 --pipeline 2
says "$err" "layer 'fc' is split, and a stage of a pipeline has whole layers"
expect 2 run 3 "$TMP/bad" --batch 4 --shards 4
expect 2 "$GYRE" launch --ranks 2 --elastic 1:2 --threads 1 -- "$GYRE" train "$TMP/two.net" "$TMP/data" --batch 4 \
    --shards 2 --out "$TMP/bad"
says "$err" 'a net with split layers cannot outlive its ranks'
expect 2 "$GYRE" launch --workers 2 --servers 1 --threads 1 -- "$GYRE" train "$TMP/two.net" "$TMP/data" --batch 4 \
    --sync server --out "$TMP/bad"
says "$err" "layer 'fc' is split: its job cannot have servers"
finish
