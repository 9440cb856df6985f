#!/bin/sh
# SPDX-License-Identifier: MIT
# Gradients that wait for their update when a run is stopped. One process has them in the
# checkpoint. Of several processes each has its own, so checkpoints follow updates. From every
# checkpoint a run continues to the same bits; with other steps it is refused.
. "$(dirname "$0")/e2e.inc"
make_images "$TMP/data/train" 4 20 12 1
cat >"$TMP/small.net" <<'END'
input 12x12x3
conv 6 5x5 pad 2
bn
relu
maxpool 2x2
conv 8 3x3
relu
dropout 0.2
linear 4
softmax
END

# train RANKS FOLDER OPTIONS...: 80 images are 10 steps of two processes an epoch, which updates of
# 3 steps do not divide
train()
{
    ranks=$1 folder=$2
    shift 2
    $RUN "$GYRE" launch --ranks "$ranks" --threads 1 -- "$GYRE" train "$TMP/small.net" "$TMP/data" --batch $((8 / ranks)) --epochs 4 \
        --schedule constant --lr .02 --momentum .9 --mixup .3 --flip --pad-crop 1 --accumulate 3 --ema .9 --clip 2 --test-data none \
        --out "$TMP/$folder" "$@"
}
RUN=

for ranks in 1 2; do
    expect 0 train $ranks "whole$ranks" --checkpoint-every 1 --keep 99
    last=$(newest "$TMP/whole$ranks")
    # the same checkpoints' last one, and from each of them to the end
    expect 0 train $ranks "plain$ranks"
    same "$last" "$TMP/plain$ranks/$(basename "$last")"
    count=0
    for checkpoint in "$TMP/whole$ranks"/checkpoint-*; do
        [ "$checkpoint" != "$last" ] || continue
        step=${checkpoint##*-}
        step=${step%%.*}
        [ $ranks = 2 ] || [ $((step % 4)) = 1 ] || continue # of one process every fourth
        rm -rf "$TMP/again"
        mkdir "$TMP/again"
        cp "$checkpoint" "$TMP/again"
        if train $ranks again --resume >"$out" 2>"$err" </dev/null && cmp -s "$last" "$TMP/again/$(basename "$last")"; then ok; else
            bad "$ranks processes, from step $step: $(tail -n 1 "$err")"
        fi
        count=$((count + 1))
    done
    if [ $count -ge 9 ]; then ok; else bad "$ranks processes: only $count checkpoints"; fi
done
# Two processes write only after updates, and lose none: 13 updates of 40 steps. One process writes
# anywhere.
if [ "$(find "$TMP/whole2" -name 'checkpoint-*' | wc -l)" = 13 ]; then ok; else bad "$(ls "$TMP/whole2")"; fi
for step in 3 6 9 39; do there "$TMP/whole2/checkpoint-$step.safetensors"; done
for step in 1 2 40; do absent "$TMP/whole2/checkpoint-$step.safetensors"; there "$TMP/whole1/checkpoint-$step.safetensors"; done
# Each epoch's checkpoint comes after the next update: 10 -> 12, 20 -> 21, 30, and after the last
# update.
expect 0 train 2 epochs --keep 9
for step in 12 21 30 39; do there "$TMP/epochs/checkpoint-$step.safetensors"; done
# a run in pieces that end anywhere
for steps in 4 14 25 40; do expect 0 train 2 pieces --steps $steps --resume; done
expect 2 train 2 brief --steps 2
says "$err" 'a run of 2 steps makes no update: accumulate is 3'
same "$TMP/whole2/checkpoint-39.safetensors" "$TMP/pieces/checkpoint-39.safetensors"

# ---- a signal: two processes finish the update
RUN=exec
train 2 stopped --epochs 100000 --accumulate 7 >"$out" 2>"$err" </dev/null &
pid=$!
RUN=
await "$TMP/stopped"
kill -TERM $pid
got=0
wait $pid || got=$?
if [ $got = 6 ]; then ok; else bad "code $got after SIGTERM"; cat "$err"; fi
step=$(newest "$TMP/stopped" | sed 's/.*-\([0-9]*\).*/\1/')
says "$err" "stopped after $step of"
if [ $((step % 7)) = 0 ]; then ok; else bad "stopped at step $step"; fi

# ---- other steps are other numbers of images: the run does not go on
expect 3 train 1 whole2 --resume
says "$err" 'the run had 80 samples, batch 4; now there are 80 samples, batch 8'
expect 3 train 1 whole2 --resume --batch 4
says "$err" 'the run had 2 ranks, accumulate 3; now it has 1 rank, accumulate 3'
expect 3 train 2 whole2 --resume --accumulate 1
says "$err" 'the run had 2 ranks, accumulate 3; now it has 2 ranks, accumulate 1'
expect 3 train 1 whole1 --resume --accumulate 5
says "$err" 'the run had 1 rank, accumulate 3; now it has 1 rank, accumulate 5'
expect 3 train 2 whole2 --resume --accumulate 1 --shards 2
says "$err" 'the run had 80 samples, batch 4; now there are 80 samples, batch 4 in 2 shards'
# A checkpoint of an older version does not record its ranks. Its waiting gradients are used, and
# the command says so.
mkdir "$TMP/old"
sed 's/note\.train\.step/note.train.stap/' "$TMP/whole1/checkpoint-1.safetensors" >"$TMP/old/checkpoint-1.safetensors"
expect 0 train 2 old --resume --batch 8
says "$err" 'the gradients that wait for their update.*stand for those of all 2 ranks'
finish
