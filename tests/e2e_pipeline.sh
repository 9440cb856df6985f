#!/bin/sh
# SPDX-License-Identifier: MIT
# A net in stages. Its last checkpoint is, to the last byte, that of one process. It resumes, stops
# and tests as one process does. It trains inside a limit that the whole net exceeds. What is
# impossible gets one sentence.
. "$(dirname "$0")/e2e.inc"
make_images "$TMP/data/train" 4 24 20 1
make_images "$TMP/data/test" 4 5 20 2
tiny_net >"$TMP/tiny.net"

# run RANKS FOLDER NET OPTIONS...: RANKS processes; 1: one without a job
run()
{
    ranks=$1 folder=$2 net=$3
    shift 3
    if [ "$ranks" = 1 ]; then
        "$GYRE" train "$net" "$TMP/data" --threads 1 --pad-crop 2 --flip --out "$folder" "$@"
    else
        "$GYRE" launch --ranks "$ranks" --threads 1 -- "$GYRE" train "$net" "$TMP/data" --pad-crop 2 \
            --flip --out "$folder" "$@"
    fi
}
# equal FOLDER FOLDER: the newest checkpoints
equal()
{
    there "$(newest "$1")"
    same "$(newest "$1")" "$(newest "$2")"
}

# ---- one process, 2 and 4 stages, and two copies of 2 stages: dropout and batch norm, then a net
# of the zoo
for net in "$TMP/tiny.net" resnet20; do
    epochs=2
    [ "$net" = resnet20 ] && epochs=1
    short=$(basename "$net" .net)
    expect 0 run 1 "$TMP/$short-one" "$net" --epochs $epochs --shards 4 --batch 3
    parameters=$(sed -n 's/^net: .*, \([0-9]* parameters\), .* of memory$/\1/p' "$out")
    for shape in '2 2' '4 4' '4 2'; do
        set -- $shape
        expect 0 run "$1" "$TMP/$short-$1-$2" "$net" --epochs $epochs --shards 4 --batch 3 --pipeline "$2"
        says "$out" "^pipeline: $2 stages, "
        says "$out" ", $parameters, [0-9.]* [kM]B of memory in the first stage$"
        equal "$TMP/$short-one" "$TMP/$short-$1-$2"
    done
done

# ---- one process that accumulates; both schedules; rows of metrics of the same test results
expect 0 run 1 "$TMP/sum" "$TMP/tiny.net" --epochs 3 --batch 4 --accumulate 3
for schedule in gpipe 1f1b; do
    expect 0 run 3 "$TMP/$schedule" "$TMP/tiny.net" --epochs 3 --batch 12 --micro 3 --pipeline 3 \
        --stage-schedule $schedule
    equal "$TMP/sum" "$TMP/$schedule"
done
tests() { awk -F, '$5 != "" { print $1, $3, $4, $5, $6, $7 }' "$1/metrics.csv"; }
tests "$TMP/sum" >"$TMP/tests.sum"
tests "$TMP/1f1b" >"$TMP/tests.1f1b"
same "$TMP/tests.sum" "$TMP/tests.1f1b"

# ---- what one process began stages go on with, and the other way round
mkdir "$TMP/on" "$TMP/back"
cp "$TMP/sum/checkpoint-24.safetensors" "$TMP/on"
expect 0 run 2 "$TMP/on" "$TMP/tiny.net" --epochs 3 --batch 12 --micro 3 --pipeline 2 --resume
says "$out" 'after 24 of 72 steps'
mkdir "$TMP/amid"
expect 0 run 1 "$TMP/begun" "$TMP/tiny.net" --epochs 1 --batch 4 --accumulate 3 --checkpoint-every 5 --keep 9
cp "$TMP/begun/checkpoint-5.safetensors" "$TMP/amid"
expect 2 run 2 "$TMP/amid" "$TMP/tiny.net" --epochs 3 --batch 12 --micro 3 --pipeline 2 --resume
says "$err" 'checkpoint-5.safetensors was saved amid an update, after 2 of its batches'
equal "$TMP/sum" "$TMP/on"
cp "$TMP/gpipe/checkpoint-48.safetensors" "$TMP/back"
expect 0 run 1 "$TMP/back" "$TMP/tiny.net" --epochs 3 --batch 4 --accumulate 3 --resume
equal "$TMP/sum" "$TMP/back"

# ---- an epoch of 24 batches ends amid an update of 9, whose batches count in the next one: 3 epochs
# and one more are 4, in every byte and row
# across FOLDER OPTIONS...
across()
{
    folder=$1
    shift
    run 2 "$folder" "$TMP/tiny.net" --schedule constant --lr .02 --batch 36 --micro 9 --pipeline 2 "$@"
}
expect 0 across "$TMP/four" --epochs 4
expect 0 across "$TMP/more" --epochs 3
expect 0 across "$TMP/more" --epochs 4 --resume
says "$out" 'after 72 of 96 steps'
equal "$TMP/four" "$TMP/more"
for of in four more; do cut -d, -f 1-8 "$TMP/$of/metrics.csv" >"$TMP/rows.$of"; done
same "$TMP/rows.four" "$TMP/rows.more"

# ---- steps are updates, between checkpoints, too
expect 0 run 2 "$TMP/every" "$TMP/tiny.net" --schedule constant --batch 12 --micro 3 --pipeline 2 \
    --steps 5 --checkpoint-every 2 --keep 9
for step in 6 12 15; do there "$TMP/every/checkpoint-$step.safetensors"; done
absent "$TMP/every/checkpoint-3.safetensors"
absent "$TMP/every/checkpoint-9.safetensors"

# ---- a net of 164 MB of tensors inside 165 MB of addresses: as 2 and as 4 stages, to the same bits
fat_net()
{
    echo 'input 20x20x3'
    for layer in 1 2 3 4 5 6; do printf 'linear 1536\nrelu\n'; done
    printf 'linear 4\nsoftmax\n'
}
fat_net >"$TMP/fat.net"
expect 0 "$GYRE" pack "$TMP/data/train" "$TMP/fat.pack"
# fat FOLDER COMMAND...: at most so many kilobytes of addresses
fat()
{
    folder=$1
    shift
    (
        ulimit -v 165000
        MALLOC_ARENA_MAX=1 "$@" "$TMP/fat.net" "$TMP/fat.pack" --test-data none --out "$folder"
    )
}
if (ulimit -v 165000 && "$GYRE" zoo >/dev/null 2>&1); then
    expect 4 fat "$TMP/fat-none" "$GYRE" train --steps 4 --batch 4 --accumulate 4 --threads 1
    says "$err" 'out of memory'
    expect 0 "$GYRE" train "$TMP/fat.net" "$TMP/fat.pack" --test-data none --out "$TMP/fat-one" --steps 4 \
        --batch 4 --accumulate 4 --threads 1
    for stages in 2 4; do
        expect 0 fat "$TMP/fat-$stages" "$GYRE" launch --ranks $stages --threads 1 -- "$GYRE" train --steps 1 \
            --batch 16 --micro 4 --pipeline $stages
        equal "$TMP/fat-one" "$TMP/fat-$stages"
        rm -rf "$TMP/fat-$stages"
    done
else
    skip 'this build needs more addresses than any net here'
fi

# ---- a plan has as many slots as passes ahead, and the formula's bubble for equal stages
expect 0 "$GYRE" plan resnet20 --pipeline 4 --batch 64 --micro 8
says "$out" '8 micro-batches: bubble .* equal stages would have 27.3 %'
says "$out" '^    0 .* 4   *[0-9.]* %'
expect 0 "$GYRE" plan resnet20 --pipeline 4 --batch 64 --micro 8 --stage-schedule gpipe
says "$out" '^    3 .* 8   *[0-9.]* %'
expect 0 "$GYRE" plan resnet20 --pipeline 2 --json
json

# ---- a stop: all stages finish the same update. The resumed run ends with the bits of one that was
# not stopped.
run 2 "$TMP/stopped" "$TMP/tiny.net" --schedule constant --lr .02 --steps 100000 --batch 12 --micro 3 --pipeline 2 \
    --checkpoint-every 6 >"$out" 2>"$err" </dev/null &
pid=$!
await "$TMP/stopped"
launcher=$(pgrep -f "launch --ranks 2 --threads 1 -- .* --out $TMP/stopped " | head -n 1)
if [ -n "$launcher" ] && kill -TERM "$launcher"; then ok; else bad 'the launcher is not found'; fi
got=0
wait $pid || got=$?
if [ $got = 6 ]; then ok; else bad "code $got after SIGTERM"; tail -n 5 "$err"; fi
step=$(newest "$TMP/stopped" | sed 's/.*checkpoint-\([0-9]*\).*/\1/')
updates=$((step / 3 + 2))
expect 0 run 2 "$TMP/stopped" "$TMP/tiny.net" --schedule constant --lr .02 --steps $updates --batch 12 --micro 3 \
    --pipeline 2 --checkpoint-every 6 --resume
expect 0 run 1 "$TMP/calm" "$TMP/tiny.net" --schedule constant --lr .02 --steps $((3 * updates)) --batch 4 \
    --accumulate 3
equal "$TMP/calm" "$TMP/stopped"

# ---- a stage that is killed: it is named, and nobody hangs
run 3 "$TMP/killed" "$TMP/tiny.net" --schedule constant --lr .02 --steps 100000 --batch 12 --micro 3 --pipeline 3 \
    --checkpoint-every 6 >"$out" 2>"$err" </dev/null &
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
if [ $got = 137 ] && [ $(($(date +%s) - began)) -le 20 ]; then ok; else bad "code $got after a killed stage"; fi
says "$err" 'rank 1 (process [0-9]*) was ended by signal 9'

# ---- mistakes: one sentence
expect 2 run 2 "$TMP/bad" "$TMP/tiny.net" --pipeline 3 --batch 4
says "$err" '2 ranks are no whole copies of a pipeline of 3 stages'
expect 2 run 12 "$TMP/bad" "$TMP/tiny.net" --pipeline 12 --batch 4
says "$err" 'a pipeline of 12 stages is longer than the net, which can be cut into'
expect 2 run 2 "$TMP/bad" "$TMP/tiny.net" --pipeline 2 --batch 4 --mem 50K
says "$err" "fits no rank's memory: it needs [0-9]* bytes, [0-9]* too many for the limit of 51200"
expect 2 run 2 "$TMP/bad" "$TMP/tiny.net" --pipeline 2 --batch 4 --micro 3
says "$err" 'cannot be cut into 3 equal parts'
expect 2 run 2 "$TMP/bad" "$TMP/tiny.net" --pipeline 2 --batch 4 --accumulate 2
expect 2 run 1 "$TMP/bad" "$TMP/tiny.net" --batch 4 --micro 2
expect 2 run 2 "$TMP/bad" "$TMP/tiny.net" --pipeline 2 --batch 4 --clip 1
says "$err" 'pipeline and optimizer.clip_norm together'
expect 2 run 2 "$TMP/bad" "$TMP/tiny.net" --pipeline 2 --batch 4 --recompute
expect 3 "$GYRE" launch --ranks 2 --threads 1 -- sh -c '[ $GYRE_RANK = 1 ] && how=gpipe || how=1f1b
    exec "$@" --stage-schedule $how' sh "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch 4 --pipeline 2 --out "$TMP/bad"
says "$err" 'rank 1 has not the same as rank 0: stages of the pipeline'
finish
