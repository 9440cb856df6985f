#!/bin/sh
# SPDX-License-Identifier: MIT
# Training is the same bits whatever happens to it: threads, loaders, signals, kill -9 at random
# moments.
. "$(dirname "$0")/e2e.inc"
make_images "$TMP/data/train" 4 30 20 1
make_images "$TMP/data/test" 4 5 20 2
cat >"$TMP/tiny.net" <<'END'
input 20x20x3
conv 12 3x3
bn
relu
conv 16 3x3
bn
relu
conv 12 3x3 stride 2
bn
relu
dropout 0.2
linear 4
softmax
END

RUN= # or exec
train() # train FOLDER OPTIONS...: everything that is random is on
{
    folder=$1
    shift
    $RUN "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch 8 --epochs 12 --pad-crop 2 --flip --jitter .2 --mixup .3 --accumulate 2 \
        --ema .9 --clip 5 --checkpoint-every 5 --keep 3 --out "$folder" "$@"
}

# ---- the run that all others must equal: 12 epochs of 15 steps
began=$(date +%s%N)
expect 0 train "$TMP/whole" --threads 1
ended=$(date +%s%N)
last=checkpoint-180.safetensors
there "$TMP/whole/$last"
if [ "$(find "$TMP/whole" -name 'checkpoint-*' | wc -l)" = 3 ]; then ok; else bad "--keep 3 kept $(ls "$TMP/whole")"; fi
# rows FOLDER: its columns without times. Each of the 180 steps has a loss, each of the 12 epochs a
# test.
rows()
{
    cut -d, -f1-8 "$1/metrics.csv" >"$1.csv"
    if awk -F, 'NR > 1 && $1 == NR - 1 && $3 > 0 && $4 != "" { good++ } $6 ~ /^[0-9]/ { tested++ } END { exit !(NR == 181 && good == 180 && tested == 12) }' \
        "$1.csv"; then ok; else bad "not 180 steps and 12 tests in $1.csv: $(tail -n 1 "$1.csv")"; fi
}
rows "$TMP/whole"
for threads in 2 3; do
    expect 0 train "$TMP/threads$threads" --threads $threads --loader-threads $threads
    same "$TMP/whole/$last" "$TMP/threads$threads/$last"
    rows "$TMP/threads$threads"
    same "$TMP/whole.csv" "$TMP/threads$threads.csv"
done

# ---- SIGINT and SIGTERM: finish the step, write a checkpoint, exit code 6
for signal in INT TERM; do
    folder=$TMP/stopped$signal
    # a background job of a shell without job control ignores SIGINT: env starts it with the default
    env --default-signal=INT true 2>/dev/null && fresh='env --default-signal=INT' || fresh=
    [ -n "$fresh" ] || [ $signal = TERM ] || { skip 'env cannot reset signals'; continue; }
    $fresh "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch 8 --steps 100000 --schedule constant --lr .001 --checkpoint-every 50000 \
        --out "$folder" >"$out" 2>"$err" </dev/null &
    pid=$!
    tries=0
    while [ ! -s "$folder/metrics.csv" ] || [ "$(wc -l <"$folder/metrics.csv")" -lt 3 ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || break
        sleep 0.05
    done
    kill -$signal $pid
    got=0
    wait $pid || got=$?
    if [ "$got" = 6 ]; then ok; else bad "exit code $got after SIG$signal"; fi
    says "$err" 'stopped after [0-9]* of 100000 steps'
    says "$out" '^checkpoint: '
    there "$(newest "$folder")"
done

# ---- stop and resume after every few steps: --steps cuts the run, the schedule is constant then
part() { folder=$1; shift; "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch 8 --schedule constant --lr .02 --accumulate 2 --mixup .3 \
    --out "$folder" --keep 2 "$@"; }
expect 0 part "$TMP/constant" --steps 40
done=0
for steps in 3 15 16 38 40; do
    expect 0 part "$TMP/pieces" --steps $steps --resume
    [ $done = 0 ] || says "$out" "^going on from .*/checkpoint-$done.safetensors, after $done of $steps steps\$"
    done=$steps
done
cmp -s "$TMP/constant/checkpoint-40.safetensors" "$TMP/pieces/checkpoint-40.safetensors" && ok || bad 'a run in pieces has other bits'

# ---- kill -9 at ten random moments, each after 5 to 30 hundredths of the whole run's time; then go
# on. A run that ended before does not count as a kill. Each start goes on from the newest
# checkpoint, unless it was killed before it could.
kills=0 starts=0 went=0
seed=$$
while [ $kills -lt 10 ] && [ $starts -lt 60 ]; do
    starts=$((starts + 1))
    before=$(newest "$TMP/killed" 2>/dev/null)
    RUN=exec # the background process is the command itself
    train "$TMP/killed" --resume --threads $((kills % 3 + 1)) --log info >"$out" 2>"$err" </dev/null &
    pid=$!
    RUN=
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    sleep "$(awk -v a="$began" -v b="$ended" -v p=$((seed / 65536 % 26 + 5)) \
        'BEGIN { t = (b - a) / 1e9; printf "%.3f", (t > 0 && t < 1000 ? t : 1) * p / 100 }')"
    kill -9 $pid 2>/dev/null
    got=0
    wait $pid 2>/dev/null || got=$?
    case $got in
    137) kills=$((kills + 1)) ;;
    0) ;;
    *) bad "start $starts ended with code $got before it was killed: $(tail -n 1 "$err")" ;;
    esac
    if [ -n "$before" ] && [ "$(newest "$TMP/killed")" != "$before" ]; then
        tells "$err" "going on from $before" # said at once, whatever standard output still holds
        went=$((went + 1))
    fi
    # A run that is done before ten kills starts once more. One killed after its last checkpoint
    # still has to write a row.
    if [ "$got" = 0 ] && [ -s "$TMP/killed/$last" ] && [ $kills -lt 10 ]; then
        same "$TMP/whole/$last" "$TMP/killed/$last"
        rows "$TMP/killed"
        same "$TMP/whole.csv" "$TMP/killed.csv"
        rm -r "$TMP/killed"
    fi
done
printf 'killed %d times of %d, %d went on, the last time at %s\n' "$kills" "$starts" "$went" "$(basename "$(newest "$TMP/killed")")"
if [ $kills = 10 ] && [ $went -gt 0 ]; then ok; else bad "killed $kills times of $starts, $went went on"; fi
expect 0 train "$TMP/killed" --resume --threads 1
same "$TMP/whole/$last" "$TMP/killed/$last"
rows "$TMP/killed"
same "$TMP/whole.csv" "$TMP/killed.csv"
if [ -z "$(find "$TMP/killed" -name '*part*')" ]; then ok; else bad 'a half-written file was left'; fi

# ---- a finished run has nothing left to do; other data or batch is refused
expect 0 train "$TMP/killed" --resume
same "$TMP/whole/$last" "$TMP/killed/$last"
expect 3 train "$TMP/killed" --resume --batch 4
says "$err" 'the run had 120 samples, batch 8; now there are 120 samples, batch 4'
expect 3 train "$TMP/killed" --resume --seed 2
says "$err" "the run's seed was 1, this net's is 2; no older one can be used"
finish
