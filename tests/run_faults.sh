#!/bin/sh
# SPDX-License-Identifier: MIT
# Random moments: a rank of a training run is killed (kill -9) or stopped (SIGSTOP) between its
# start and its end. Every other rank ends within five seconds, all with the same sentence, which
# names it. 'gyre launch --restarts' continues from the last checkpoint, and the run ends with the
# file of an undisturbed one. A job that is suspended as a whole continues. Runs have 2, 3 and 4
# ranks on one host, and two hosts with two ranks each (network namespaces, as root). Then a rank
# with another net, and one with another key. run_faults.sh GYRE [MOMENTS]. Variables: SEED (of the
# moments; printed), SHAPES (of the jobs), STEPS, GYRE_TEST_DATA (CIFAR-10 and ResNet-20 instead of
# a small net).
. "$(dirname "$0")/e2e.inc"
. "$(dirname "$0")/hosts.inc"
GYRE=$1
MOMENTS=${2:-50}
SEED=${SEED:-$(date +%s)}
printf 'seed of the moments: %s\n' "$SEED"
if [ ! -r /proc/self/environ ] || ! command -v pgrep >/dev/null; then
    skip 'no /proc or pgrep: processes are not lost'
    finish
fi

# ---- what is trained: a run of some seconds
archive=${GYRE_TEST_DATA:-/nowhere}/images/cifar10-jpeg.tar.gz
tiny_net >"$TMP/tiny.net"
if [ -f "$archive" ]; then
    mkdir "$TMP/data"
    tar xzf "$archive" -C "$TMP/data" train
    net=resnet20 steps=${STEPS:-40} batch=8
else
    make_images "$TMP/data/train" 4 30 20 1
    net=$TMP/tiny.net steps=${STEPS:-1500} batch=4
fi
every=$((steps / 8))
last=checkpoint-$steps.safetensors
: >"$TMP/hosts.txt"
for i in 0 1; do
    echo "$tag$i slots=2 address=10.77.0.$((i + 1))" >>"$TMP/hosts.txt"
done
train() # train SHAPE FOLDER OPTIONS OF LAUNCH...: the shape is a number of ranks, or hosts
{
    shape=$1 folder=$2
    shift 2
    if [ "$shape" = hosts ]; then set -- --hosts "$TMP/hosts.txt" --ssh "sh $TMP/enter" "$@"; else set -- --ranks "$shape" "$@"; fi
    $RUN "$GYRE" launch --threads 1 "$@" -- "$GYRE" train $net "$TMP/data/train" --test-data none --steps "$steps" --batch "$batch" \
        --pad-crop 2 --flip --mixup .2 --checkpoint-every "$every" --resume --out "$folder"
}
RUN= # or exec, in the background

# ---- undisturbed runs, and how long they take
shapes=${SHAPES:-2 3 4 2 3 4 hosts}
case $shapes in
*hosts*)
    if ! hosts_up 2; then
        skip "two hosts: $why"
        shapes=$(echo "$shapes" | sed 's/ *hosts//')
    fi
    ;;
esac
for shape in $(printf '%s\n' $shapes | sort -u); do
    began=$(date +%s%N)
    expect 0 train "$shape" "$TMP/whole.$shape"
    there "$TMP/whole.$shape/$last"
    eval "took_$shape=$((($(date +%s%N) - began) / 1000000))"
done

# ---- moments
# ranks_of FOLDER: "RANK PROCESS" of the first start
ranks_of()
{
    for process in $(pgrep -f "out $1\$"); do
        [ "$(readlink "/proc/$process/exe")" = "$GYRE_FILE" ] || continue
        tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | awk -F= -v process="$process" '
            $1 == "GYRE_RANK" { rank = $2 } $1 == "GYRE_EPOCH" { epoch = $2 } END { if (rank != "" && epoch == 0) print rank, process }'
    done
}
GYRE_FILE=$(readlink -f "$GYRE")
# living PROCESSES...: how many are there, other than as zombies
living()
{
    count=0
    for process in "$@"; do
        case $(sed 's/.*) //; s/ .*//' "/proc/$process/stat" 2>/dev/null) in '' | Z | X) ;; *) count=$((count + 1)) ;; esac
    done
    echo $count
}
# moment NUMBER SHAPE SIGNAL VICTIM PERMILLE (of the run's time)
moment()
{
    number=$1 shape=$2 signal=$3 victim=$4 folder=$TMP/moment.$1
    eval "wait_ms=\$((took_$shape * $5 / 1000))"
    RUN=exec
    train "$shape" "$folder" --restarts 1 >"$out" 2>"$err" </dev/null &
    pid=$!
    RUN=
    sleep "$(printf '%d.%03d' $((wait_ms / 1000)) $((wait_ms % 1000)))"
    all=$(ranks_of "$folder")
    process=$(echo "$all" | awk -v rank="$victim" '$1 == rank { print $2 }')
    others=$(echo "$all" | awk -v rank="$victim" '$1 != rank { print $2 }')
    amid=0
    # 1: between the first checkpoint and the last
    [ -z "$(newest "$folder" 2>/dev/null)" ] || [ -e "$folder/$last" ] || amid=1
    hit=0
    [ -z "$process" ] || ! kill "-$signal" "$process" 2>/dev/null || hit=1
    began=$(date +%s%N)
    [ $hit = 1 ] || others=
    # shellcheck disable=SC2086
    while [ "$(living $others)" -gt 0 ] && [ $((($(date +%s%N) - began) / 1000000)) -lt 30000 ]; do sleep 0.05; done
    gone=$((($(date +%s%N) - began) / 1000000))
    got=0
    wait $pid || got=$?
    sentences=$(grep -E "rank $victim on .*(has ended|is silent|has left)|rank $victim was lost" "$err" | grep -v 'was ended by' | sed 's/^gyre: //')
    told=$(printf '%s' "$sentences" | grep -c .)
    kinds=$(printf '%s' "$sentences" | sort -u | grep -c .)
    printf '%2d: %-5s %-4s rank %s at %5d ms%s: others gone after %4d ms, %d of %d say: %s\n' "$number" "$shape" "$signal" "$victim" "$wait_ms" \
        "$([ $amid = 1 ] || echo ' (begin or end)')$([ $hit = 1 ] || echo ', over')" "$gone" "$told" "$(echo $others | wc -w)" \
        "$(printf '%s' "$sentences" | head -n 1)"
    problem= # one that stood still on another host may go on, to hear that it was lost
    [ $got = 0 ] || problem="$problem; the job ended with code $got"
    [ $gone -le 5000 ] || problem="$problem; others after $gone ms"
    [ "$kinds" -le 1 ] || problem="$problem; $kinds different sentences"
    [ $hit = 0 ] || [ $amid = 0 ] || [ "$told" -ge "$(echo $others | wc -w)" ] || problem="$problem; $told sentences"
    cmp -s "$TMP/whole.$shape/$last" "$folder/$last" || problem="$problem; another result"
    if [ -z "$problem" ]; then
        ok
        rm -rf "$folder"
    else
        bad "moment $number$problem"
        cat "$err"
    fi
}
awk -v seed="$SEED" -v moments="$MOMENTS" -v shapes="$shapes" 'BEGIN {
    srand(seed)
    kinds = split(shapes, shape, " ")
    for (m = 1; m <= moments; m++) {
        s = shape[(m - 1) % kinds + 1]
        print m, s, rand() < .5 ? "KILL" : "STOP", int(rand() * (s == "hosts" ? 4 : s)), int(rand() * 950)
    }
}' >"$TMP/moments"
while read -r number shape signal victim part <&4; do
    moment "$number" "$shape" "$signal" "$victim" "$part" 4<&-
done 4<"$TMP/moments"

# ---- a whole job that is suspended, as by Ctrl-Z, goes on
case $shapes in
*3*)
    RUN=exec
    train 3 "$TMP/suspended" >"$out" 2>"$err" </dev/null &
    pid=$!
    RUN=
    # shellcheck disable=SC2154
    sleep "$(printf '%d.%03d' $((took_3 / 2000)) $((took_3 / 2 % 1000)))"
    all="$pid $(pgrep -P $pid)"
    # shellcheck disable=SC2086
    kill -STOP $all
    sleep 6 # longer than a rank may be silent, and a process stopped
    # shellcheck disable=SC2086
    kill -CONT $all
    got=0
    wait $pid || got=$?
    if [ $got = 0 ]; then ok; else bad "code $got after a pause"; cat "$err"; fi
    same "$TMP/whole.3/$last" "$TMP/suspended/$last"
    ;;
esac

# ---- a rank with another net; one with another key
sed 's/conv 16/conv 20/' "$TMP/tiny.net" >"$TMP/other.net"
# odd PATTERN COUNT SCRIPT: the job ends within five seconds, with COUNT times one sentence
odd()
{
    began=$(date +%s)
    got=0
    "$GYRE" launch --ranks 3 --threads 1 -- sh -c "$3" >"$out" 2>"$err" </dev/null || got=$?
    if [ $got != 0 ] && [ $(($(date +%s) - began)) -le 5 ]; then ok; else bad "code $got after $(($(date +%s) - began)) s: $1"; fi
    if [ "$(grep -c "$1" "$err")" -ge "$2" ] && [ "$(grep "$1" "$err" | sort -u | wc -l)" = 1 ]; then ok; else bad "not $2 times: $1"; cat "$err"; fi
}
[ -d "$TMP/data/train/class_0" ] || make_images "$TMP/small/train" 4 30 20 1
[ -d "$TMP/small" ] || ln -s data "$TMP/small"
odd 'rank 1 has not the same as rank 0: net' 3 "[ \$GYRE_RANK = 1 ] && net=other || net=tiny
    exec '$GYRE' train '$TMP/'\$net.net '$TMP/small/train' --test-data none --steps 100 --batch 4 --out '$TMP/odd'"
(umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$TMP/wrong-key")
odd 'rank 2 was not accepted by rank 0 .* does not have this job.s key' 1 "[ \$GYRE_RANK = 2 ] && unset GYRE_KEY_FD && export GYRE_KEY_FILE='$TMP/wrong-key'
    exec '$GYRE' train '$TMP/tiny.net' '$TMP/small/train' --test-data none --steps 100 --batch 4 --out '$TMP/keys'"
says "$err" 'rank 2 (process [0-9]*) ended with code'
finish
