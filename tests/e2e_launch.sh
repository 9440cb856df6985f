#!/bin/sh
# SPDX-License-Identifier: MIT
# Several processes train one net. They give the same figures as one process with the larger batch.
# Every run has the same bits, also after a lost process and after a stop. A lost rank is named at
# once.
. "$(dirname "$0")/e2e.inc"
make_images "$TMP/data/train" 4 30 20 1
make_images "$TMP/data/test" 4 5 20 2
plain_net >"$TMP/plain.net"
tiny_net >"$TMP/tiny.net"

RUN= # or exec, in the background
restarts=
launch() # launch RANKS FOLDER OPTIONS...
{
    ranks=$1 folder=$2
    shift 2
    # shellcheck disable=SC2086
    $RUN "$GYRE" launch --ranks "$ranks" --threads 1 $restarts -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --epochs 12 --pad-crop 2 --flip \
        --checkpoint-every 5 --out "$folder" --batch 4 "$@"
}

# ---- two processes of four images, and one of eight
plain() { "$@" "$TMP/plain.net" "$TMP/data" --epochs 4 --pad-crop 2 --flip --lr .02 --test-data none; }
expect 0 plain "$GYRE" launch --ranks 2 --threads 1 -- "$GYRE" train --batch 4 --out "$TMP/two"
says "$out" 'ranks: 2 processes of 4 images'
expect 0 plain "$GYRE" train --batch 8 --threads 1 --out "$TMP/one"
if awk -F, 'NR == FNR { loss[$1] = $3; next } $1 != "step" && $3 != "" { rows++; d = $3 - loss[$1]; if (d > 1e-4 || d < -1e-4) wrong++ }
    END { exit !(rows > 5 && !wrong) }' "$TMP/one/metrics.csv" "$TMP/two/metrics.csv"; then ok; else bad 'two processes learn otherwise than one'; fi

# ---- the run that others must equal: 12 epochs of 10 steps
last=checkpoint-120.safetensors
expect 0 launch 3 "$TMP/whole"
there "$TMP/whole/$last"
expect 0 launch 3 "$TMP/again"
same "$TMP/whole/$last" "$TMP/again/$last"

# ---- train starts its processes itself: the bits of launch; what cannot be is said once
expect 0 "$GYRE" train "$TMP/tiny.net" "$TMP/data" --ranks=3 --threads 1 --epochs 12 --pad-crop 2 --flip --checkpoint-every 5 --batch 4 \
    --out "$TMP/itself"
same "$TMP/whole/$last" "$TMP/itself/$last"
expect 2 "$GYRE" train "$TMP/tiny.net" "$TMP/data" --ranks 3 --lr none
[ "$(grep -c -- --lr "$err")" = 1 ] && ok || bad 'a wrong option is not said once'
expect 2 "$GYRE" launch --ranks 2 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --ranks 2
says "$err" 'this one is of a job already'
expect 2 "$GYRE" train "$TMP/tiny.net" "$TMP/data" --ranks 300
says "$err" '1 .. 256'

# rank_process FOLDER RANK: its process number
rank_process()
{
    for process in $(pgrep -f "out $1 "); do
        if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -q "^GYRE_RANK=$2\$"; then
            echo "$process"
            return
        fi
    done
}

# ---- disturbed runs: at a constant rate a run may be cut anywhere. Each is stopped amid 100,000
# steps and goes on for some more. Then it has the bits of an undisturbed run.
endless='--schedule constant --lr .02 --steps 100000'
ends= # 'NAME STEP' of each run that went on
# go_on NAME: some more epochs of the run in $TMP/NAME, each of 10 steps
go_on()
{
    saved=$(newest "$TMP/$1")
    step=$(echo "$saved" | sed 's/.*checkpoint-\([0-9]*\).*/\1/')
    end=$(((step / 10 + 3) * 10))
    expect 0 launch 3 "$TMP/$1" --resume --schedule constant --lr .02 --steps $end
    tells "$out" "going on from $saved, after $step of $end steps"
    ends="$ends $1/checkpoint-$end"
}

# rank_process FOLDER RANK: its process number
rank_process()
{
    for process in $(pgrep -f "out $1 "); do
        if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -q "^GYRE_RANK=$2\$"; then
            echo "$process"
            return
        fi
    done
}
# disturb FOLDER RANK SIGNAL: once there is a checkpoint; without such a process the job is ended
disturb()
{
    await "$1"
    process=$(rank_process "$1" "$2")
    if [ -n "$process" ] && kill "-$3" "$process"; then ok; else
        bad "rank $2 did not get SIG$3"
        kill -9 $pid
    fi
}

# ---- kill -9 of a process: named, over at once, and the run goes on to the same bits
if [ -r /proc/self/environ ] && command -v pgrep >/dev/null; then
    for victim in 0 2 1; do
        folder=$TMP/killed$victim
        # shellcheck disable=SC2086
        launch 3 "$folder" $endless >"$out" 2>"$err" </dev/null &
        pid=$!
        disturb "$folder" $victim KILL
        began=$(date +%s)
        got=0
        wait $pid || got=$?
        if [ $got = 137 ] && [ $(($(date +%s) - began)) -le 5 ]; then ok; else bad "code $got after $(($(date +%s) - began)) s"; fi
        says "$err" "rank $victim (process [0-9]*) was ended by signal 9"
    done
    go_on killed1
    # one that stands still: every other rank says so, it is ended, and the job goes on by itself
    restarts='--restarts 1'
    RUN=exec # the background process is the launcher itself
    # shellcheck disable=SC2086
    launch 3 "$TMP/stood" $endless --resume >"$out" 2>"$err" </dev/null &
    pid=$!
    RUN=
    restarts=
    disturb "$TMP/stood" 2 STOP
    tries=0
    while ! grep -q '^going on from' "$out" && [ $tries -lt 600 ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
    kill -TERM $pid
    got=0
    wait $pid || got=$?
    if [ $got = 6 ]; then ok; else bad "code $got after a stopped process"; cat "$err"; fi
    says "$out" '^going on from .*/stood/checkpoint-[0-9]*.safetensors, after [1-9][0-9]* of 100000 steps$'
    if [ "$(grep 'rank 2 on .* is silent' "$err" | sort | uniq -c | awk '{ print $1 }')" = 2 ]; then ok; else
        bad 'not the same sentence of two ranks'
        cat "$err"
    fi
    go_on stood
    # and one that stood still before the ranks met
    began=$(date +%s)
    expect 137 "$GYRE" launch --ranks 3 --threads 1 -- sh -c '[ $GYRE_RANK != 1 ] || kill -STOP $$; exec "$@"' sh "$GYRE" train "$TMP/tiny.net" \
        "$TMP/data" --batch 4 --out "$TMP/early"
    says "$err" 'rank 1 (process [0-9]*) is stopped for 4 seconds'
    if [ $(($(date +%s) - began)) -le 7 ]; then ok; else bad "$(($(date +%s) - began)) s"; fi
else
    skip 'no /proc or pgrep: processes are not killed'
fi

# ---- a stop: all finish the same step, also where each process gets the signal, as a terminal's
# stop FOLDER SIGNAL WHOM: '' the launcher, - its group
stop()
{
    RUN='exec setsid'
    # shellcheck disable=SC2086
    launch 3 "$TMP/$1" $endless >"$out" 2>"$err" </dev/null &
    pid=$!
    RUN=
    await "$TMP/$1"
    kill -s "$2" -- "$3$pid"
    got=0
    wait $pid || got=$?
    if [ $got = 6 ]; then ok; else bad "code $got after SIG$2 to ${3:+the group of }the launcher"; cat "$err"; fi
    says "$err" 'stopped after [0-9]* of 100000 steps'
    go_on "$1"
}
if command -v setsid >/dev/null; then
    stop stopped TERM ''
    stop group TERM -
    stop hung HUP ''
else
    skip 'no setsid (Debian: util-linux): no group of processes is stopped'
fi

# ---- the same undisturbed, with all its checkpoints
most=$(printf '%s\n' $ends | sed 's/.*checkpoint-//' | sort -n | tail -n 1)
expect 0 launch 3 "$TMP/calm" --schedule constant --lr .02 --steps "$most" --keep 100000
for end in $ends; do
    there "$TMP/calm/${end#*/}.safetensors"
    same "$TMP/calm/${end#*/}.safetensors" "$TMP/$end.safetensors"
done

# ---- shards: one, two and four processes end with the same file. Another number of processes may
# go on where a run stopped.
sharded() # sharded RANKS FOLDER OPTIONS...
{
    ranks=$1 folder=$2
    shift 2
    "$GYRE" launch --ranks "$ranks" --threads 1 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --epochs 4 --pad-crop 2 --flip --mixup .2 \
        --shards 4 --batch 3 --out "$folder" "$@"
}
last=checkpoint-40.safetensors
for ranks in 1 2 4; do
    expect 0 sharded $ranks "$TMP/shards$ranks" --trace "$TMP/trace$ranks.json"
    says "$out" 'shards: 4 of 3 images'
    there "$TMP/shards$ranks/$last"
done
same "$TMP/shards1/$last" "$TMP/shards2/$last"
same "$TMP/shards1/$last" "$TMP/shards4/$last"
# Ranks on two sockets, as a topology file says. Equal sockets keep the order of sums. On unequal
# sockets sums are right, too.
echo 'sockets 2 2' >"$TMP/even"
echo 'sockets 3 1' >"$TMP/odd"
expect 0 env GYRE_TOPOLOGY="$TMP/even" "$GYRE" launch --ranks 4 --threads 1 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --epochs 4 --pad-crop 2 \
    --flip --mixup .2 --shards 4 --batch 3 --out "$TMP/sockets"
same "$TMP/shards1/$last" "$TMP/sockets/$last"
expect 0 env GYRE_TOPOLOGY="$TMP/odd" "$GYRE" launch --ranks 4 --threads 1 -- "$GYRE" bench allreduce --json --rounds 1 --repeats 1 --least 4 --most 65536
says "$out" '"ranks":4,"bytes":65536'
# sums into a result that the ranks of a socket, or of the host, share
expect 0 env GYRE_TOPOLOGY="$TMP/odd" "$GYRE" launch --ranks 4 --threads 1 -- "$GYRE" bench allreduce --shared --json --rounds 1 --repeats 1 --least 4 \
    --most 65536
says "$out" '"ranks":4,"bytes":65536,.*"shared":true'
expect 0 "$GYRE" bench allreduce --shared --json --ranks 3 --rounds 1 --repeats 2 --least 4 --most 16777216
says "$out" '"ranks":3,"bytes":16777216,.*"shared":true'
expect 2 "$GYRE" bench allreduce --shared --outside
says "$err" 'no result to share'
expect 3 env GYRE_TOPOLOGY="$TMP/odd" "$GYRE" launch --ranks 3 --threads 1 -- "$GYRE" bench allreduce --rounds 1 --repeats 1 --least 4 --most 4
says "$err" 'odd:1: the sockets have 4 ranks together; host 0 has 3'
mkdir "$TMP/moved"
cp "$TMP/shards4/checkpoint-20.safetensors" "$TMP/moved"
expect 0 sharded 2 "$TMP/moved" --resume --bucket 0.001
same "$TMP/shards1/$last" "$TMP/moved/$last"
says "$TMP/trace4.json" '"rank 3"'
says "$TMP/trace4.json" '"name":"bucket 0","cat":"gradients"'
says "$TMP/trace1.json" '"name":"conv1","cat":"forward"'
expect 0 sharded 3 "$TMP/three"
same "$TMP/shards1/$last" "$TMP/three/$last"
expect 2 sharded 3 "$TMP/five" --shards 5
says "$err" '5 shards cannot be dealt to 3 ranks'
expect 0 launch 2 "$TMP/synced" --sync-bn --epochs 2

# ---- without shards another number of processes does not go on, since a step would have other
# images. Another number of shards does not go on, either.
mkdir "$TMP/fewer"
cp "$TMP/whole/checkpoint-110.safetensors" "$TMP/fewer"
expect 3 launch 2 "$TMP/fewer" --resume --epochs 9
says "$err" 'checkpoint-110.safetensors: the run had 3 ranks, accumulate 1; now it has 2 ranks, accumulate 1'
expect 3 "$GYRE" train "$TMP/tiny.net" "$TMP/data" --epochs 9 --batch 4 --out "$TMP/fewer" --resume
says "$err" 'now it has 1 rank, accumulate 1'
rm "$TMP/moved/checkpoint-40.safetensors"
expect 3 sharded 2 "$TMP/moved" --resume --shards 2
says "$err" 'batch 3 in 4 shards; now there are 120 samples, batch 3 in 2 shards'

# ---- each process on its own processors: the same bits
if [ "$(nproc)" -ge 2 ]; then
    expect 0 "$GYRE" launch --ranks 2 --threads 1 --bind -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --epochs 4 --pad-crop 2 --flip --mixup .2 \
        --shards 4 --batch 3 --out "$TMP/bound"
    same "$TMP/shards1/checkpoint-40.safetensors" "$TMP/bound/checkpoint-40.safetensors"
else
    skip 'one processor: there are no parts'
fi

# ---- mistakes
expect 2 "$GYRE" launch
expect 2 "$GYRE" launch --ranks 0 -- true
if env --ignore-signal=CHLD true 2>/dev/null; then
    expect 0 timeout -s KILL 60 env --ignore-signal=CHLD "$GYRE" launch --ranks 2 -- true
else
    skip 'env cannot ignore signals'
fi
expect 127 "$GYRE" launch -- "$TMP/no-such-command"
says "$err" 'cannot be started'
expect 3 "$GYRE" launch --ranks 2 -- sh -c "[ \$GYRE_RANK = 0 ] && sleep 20; exit 3"
says "$err" 'rank 1 (process [0-9]*) ended with code 3'
expect 2 env GYRE_RANK=0 GYRE_RANKS=2 "$GYRE" train "$TMP/plain.net" "$TMP/data"
says "$err" 'gyre launch'
expect 2 env SLURM_PROCID=1 SLURM_NTASKS=4 "$GYRE" train "$TMP/plain.net" "$TMP/data"
says "$err" 'Slurm say that this is rank 1 of 4.*gyre launch'
expect 0 env SLURM_PROCID=1 SLURM_NTASKS=4 GYRE_RANK=0 GYRE_RANKS=1 "$GYRE" train "$TMP/plain.net" "$TMP/data" --batch 8 --steps 2 --out "$TMP/alone"
expect 2 env GYRE_RANK=2 GYRE_RANKS=2 "$GYRE" train "$TMP/plain.net" "$TMP/data"
says "$err" 'rank 2 of 2'
finish
