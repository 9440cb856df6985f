#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre launch --elastic: lost processes are named, the others continue, newcomers join, rank 0 may
# be lost. The run always ends with the file of an undisturbed one. Bad input gets a sentence.
. "$(dirname "$0")/e2e.inc"
. "$(dirname "$0")/strike.inc"
make_images "$TMP/data/train" 4 64 20 1
make_images "$TMP/data/test" 4 5 20 2
tiny_net >"$TMP/tiny.net"
steps=480
last=checkpoint-$steps.safetensors

# train FOLDER OPTIONS...
train()
{
    folder=$1
    shift
    "$GYRE" train "$TMP/tiny.net" "$TMP/data" --steps $steps --pad-crop 2 --flip --mixup .2 --shards 4 \
        --batch 4 --threads 1 --keep 99 --test-data none --log info --out "$folder" "$@"
}
# launch RANKS MIN:MAX FOLDER
launch()
{
    "$GYRE" launch --ranks "$1" --elastic "$2" --threads 1 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" \
        --steps $steps --pad-crop 2 --flip --mixup .2 --shards 4 --batch 4 --keep 99 --test-data none --log info --out "$3"
}

expect 0 train "$TMP/one"
there "$TMP/one/$last"

# ---- shards on a number of processes that does not divide them
expect 0 "$GYRE" launch --ranks 3 --threads 1 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --steps $steps --pad-crop 2 \
    --flip --mixup .2 --shards 4 --batch 4 --test-data none --out "$TMP/three"
same "$TMP/one/$last" "$TMP/three/$last"

# ---- a worker is lost, is replaced, and its successor joins
strike "$TMP/worker" 40 1
expect 0 launch 3 1:3 "$TMP/worker"
struck
same "$TMP/one/$last" "$TMP/worker/$last"
says "$err" 'rank 1 (process [0-9]*) was ended by signal 9; 2 go on'
says "$err" 'is started as rank 3 and joins them'
says "$err" 'rank 1 on .* has ended.*; [23] of 3 ranks go on behind step [0-9]*, [0-9]* ms later'

# ---- rank 0 is lost: another tests, writes and reports from then on
strike "$TMP/leader" 40 0
expect 0 launch 3 1:3 "$TMP/leader"
struck
same "$TMP/one/$last" "$TMP/leader/$last"
says "$err" 'rank 0 (process [0-9]*) was ended by signal 9; 2 go on'
says "$out" '^checkpoint: '
if cut -d, -f1,3,4 "$TMP/one/metrics.csv" | cmp -s - /dev/null; then bad 'no metrics'; else ok; fi
cut -d, -f1-5 "$TMP/one/metrics.csv" >"$TMP/want.csv"
cut -d, -f1-5 "$TMP/leader/metrics.csv" >"$TMP/got.csv"
same "$TMP/want.csv" "$TMP/got.csv"

# ---- one after the other, newcomers too, until nobody of the first is left
steps=1920
expect 0 train "$TMP/long"
joined='[:;] 2 \(of [0-9] \)\?ranks go on behind step'
(
    soon has_rows "$TMP/all" 40 && lose_ranks "$TMP/all" 1 && soon has_said "$joined" 1 && lose_ranks "$TMP/all" 0 &&
        soon has_said "$joined" 2 && lose_ranks "$TMP/all" 2
) &
striker=$!
expect 0 launch 2 1:2 "$TMP/all"
struck
same "$TMP/long/checkpoint-$steps.safetensors" "$TMP/all/checkpoint-$steps.safetensors"
steps=480

# ---- started by train itself
strike "$TMP/itself" 40 1
expect 0 train "$TMP/itself" --ranks 3 --elastic 1:3
struck
same "$TMP/one/$last" "$TMP/itself/$last"
says "$err" 'rank 1 (process [0-9]*) was ended by signal 9; 2 go on'

# ---- a rank dies at any time, also while ranks meet and after the last step. The bits are the
# same; before the first step there may be a sentence instead.
seed=$(date +%s)
for i in 1 2 3 4; do
    rank=$(((seed + i) % 3))
    later=$(awk -v seed=$((seed + i)) 'BEGIN { srand(seed); printf "%.3f", rand() * 1.5 }')
    rm -rf "$TMP/any"
    (
        sleep "$later"
        victim=$(rank_of "$TMP/any" $rank)
        [ -z "$victim" ] || kill -9 "$victim"
    ) &
    striker=$! got=0
    timeout 120 "$GYRE" launch --ranks 3 --elastic 1:3 --threads 1 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --steps 64 \
        --shards 4 --batch 4 --log info --out "$TMP/any" >"$out" 2>"$err" </dev/null || got=$?
    wait $striker
    [ -s "$TMP/short/checkpoint-64.safetensors" ] || "$GYRE" train "$TMP/tiny.net" "$TMP/data" --steps 64 --shards 4 --batch 4 \
        --threads 1 --out "$TMP/short" >/dev/null 2>&1
    if [ $got = 0 ]; then
        same "$TMP/short/checkpoint-64.safetensors" "$TMP/any/checkpoint-64.safetensors"
    elif [ $got != 124 ] && [ ! -s "$TMP/any/metrics.csv" ] && grep -q -E "rank $rank .*(has ended|was lost)" "$err"; then
        ok
    else
        bad "code $got, rank $rank killed after $later s (seed $seed)"
        tail -n 5 "$err"
    fi
done

# ---- fewer than MIN: each says so, the worst end's code
got=0
strike "$TMP/few" 40 1
launch 2 2:2 "$TMP/few" >"$out" 2>"$err" || got=$?
struck
[ $got = 137 ] && ok || bad "code $got with too few"
says "$err" '1 of 2 ranks are left; the job needs 2'

# ---- what cannot be
expect 2 "$GYRE" launch --elastic 3 -- true
says "$err" 'MIN:MAX'
expect 2 "$GYRE" launch --ranks 5 --elastic 1:4 -- true
says "$err" 'begins with MIN to MAX processes'
expect 2 train "$TMP/bad" --elastic 2:1
says "$err" 'MIN:MAX'
expect 2 "$GYRE" train "$TMP/tiny.net" "$TMP/data" --elastic 1:2 --out "$TMP/bad"
says "$err" 'needs shards'
expect 2 train "$TMP/bad" --elastic 1:8
says "$err" 'a job of up to 8 ranks needs as many shards; there are 4'
GYRE_JOIN=127.0.0.1:1 GYRE_KEY_FILE=/nowhere GYRE_RANK=7 GYRE_RANKS=9 expect 3 train "$TMP/bad" --elastic 1:4
says "$err" '/nowhere'
finish
