#!/bin/sh
# SPDX-License-Identifier: MIT
# Four hosts on one machine with two ranks on each: network namespaces with links of limited rate
# through a bridge. Each has process, memory and name spaces of its own. Every algorithm gives right
# sums, and training gives the bits of eight ranks of one host. Hosts may have unequal ranks; a lost
# rank ends all. Needs root. run_hosts.sh GYRE. Variable: RATE (of a link, default 400mbit).
. "$(dirname "$0")/e2e.inc"
GYRE=$1
. "$(dirname "$0")/hosts.inc"
. "$(dirname "$0")/strike.inc"
if ! hosts_up 4; then
    skip "$why"
    finish
fi
: >"$TMP/hosts.txt"
for i in 0 1 2 3; do
    echo "$tag$i slots=2 address=10.77.0.$((i + 1))" >>"$TMP/hosts.txt"
done
launch() { "$GYRE" launch --hosts "$TMP/hosts.txt" --threads 1 --ssh "sh $TMP/enter" "$@"; }
sums() { launch -- "$GYRE" bench allreduce --json --rounds "$1" --repeats 2 --least "$2" --most "$3"; }

# ---- every algorithm of an allreduce, on two levels and on one, with and without shared memory
algorithms=
for algorithm in $("$GYRE" net list | cut -c1-14); do
    if "$GYRE" net plan --algorithm "$algorithm" --ranks 2 --rank -2 | grep -q '^allreduce '; then algorithms="$algorithms $algorithm flat/$algorithm"; fi
done
if [ -n "$algorithms" ]; then ok; else bad 'no algorithm makes an allreduce'; fi
for algorithm in by-size ring:3 $algorithms; do
    case $algorithm in by-size) unset GYRE_ALLREDUCE ;; *) export GYRE_ALLREDUCE=$algorithm ;; esac
    expect 0 sums 1 4 262144
    says "$out" '"ranks":8,"bytes":262144'
done
unset GYRE_ALLREDUCE
expect 0 launch -- "$GYRE" bench allreduce --shared --json --rounds 1 --repeats 2 --least 4 --most 262144
says "$out" '"ranks":8,"bytes":262144,.*"shared":true'
has_ucx=
if ldd "$GYRE" >/dev/null 2>&1 && ldconfig -p 2>/dev/null | grep -q libucp.so; then has_ucx=yes; fi
for transport in ucx tcp; do
    export GYRE_TRANSPORT=$transport
    if [ $transport = ucx ] && [ -z "$has_ucx" ]; then
        skip "no UCX (Debian: libucx0), or a command without it"
        continue
    fi
    for algorithm in by-size multihalving flat/direct; do
        case $algorithm in by-size) unset GYRE_ALLREDUCE ;; *) export GYRE_ALLREDUCE=$algorithm ;; esac
        expect 0 sums 1 4 262144
        says "$out" '"ranks":8,"bytes":262144'
    done
done
unset GYRE_ALLREDUCE GYRE_TRANSPORT
GYRE_TRANSPORT=pigeon expect 2 sums 1 4 4
says "$err" 'GYRE_TRANSPORT is "pigeon"'

# ---- what memory of the host is worth on these links
for algorithm in flat/ring ring halving; do
    GYRE_ALLREDUCE=$algorithm expect 0 sums 3 4194304 4194304
    eval "$(printf '%s' "$algorithm" | tr / _)=$(sed -n 's/.*"fastest_us":\([0-9]*\).*/\1/p' "$out")"
    printf '%s: %s\n' "$algorithm" "$(tail -n 1 "$out")"
done
# shellcheck disable=SC2154
if [ "$halving" -lt "$flat_ring" ] || [ "$ring" -lt "$flat_ring" ]; then ok; else bad "two levels: $halving us, one ring of all ranks: $flat_ring us"; fi

# ---- training: the bits of one host
make_images "$TMP/data/train" 4 30 20 1
plain_net >"$TMP/plain.net"
epochs=8
learn()
{
    "$@" -- "$GYRE" train "$TMP/${net:-plain}.net" "$TMP/data" --epochs $epochs --lr .02 --log info \
        --test-data none --batch 2 --shards 8 --out "$folder" ${options:-}
}
folder=$TMP/one expect 0 learn "$GYRE" launch --ranks 8 --threads 1
folder=$TMP/four expect 0 learn launch
same "$TMP/one/checkpoint-56.safetensors" "$TMP/four/checkpoint-56.safetensors"
there "$TMP/four/checkpoint-56.safetensors"
# stages of the net on all hosts, 4 in two copies and 2 in four; over each transport
for parts in 4 2; do
    for transport in tcp ${has_ucx:+ucx}; do
        GYRE_TRANSPORT=$transport options="--pipeline $parts" folder=$TMP/$parts-$transport expect 0 learn launch
        same "$TMP/one/checkpoint-56.safetensors" "$TMP/$parts-$transport/checkpoint-56.safetensors"
        there "$TMP/$parts-$transport/checkpoint-56.safetensors"
    done
done
# a layer whose columns lie on all hosts
sed 's/^\(.*linear\) [0-9]*/\1 24 split\nrelu\nlinear 4/' "$TMP/plain.net" >"$TMP/whole.net"
folder=$TMP/slices net=whole expect 0 learn "$GYRE" launch --ranks 1 --threads 1
for transport in tcp ${has_ucx:+ucx}; do
    GYRE_TRANSPORT=$transport folder=$TMP/split-$transport net=whole expect 0 learn launch
    same "$TMP/slices/checkpoint-56.safetensors" "$TMP/split-$transport/checkpoint-56.safetensors"
    there "$TMP/split-$transport/checkpoint-56.safetensors"
done
# Without rank 0 and then another one, from unequal hosts; and without a whole host. Newcomers take
# their places.
epochs=200 last=checkpoint-1400.safetensors
all_on='[:;] 8 \(of [0-9] \)\?ranks go on behind step'
folder=$TMP/long expect 0 learn env
there "$TMP/long/$last"
(
    soon has_rows "$TMP/six" 40 && lose_ranks "$TMP/six" 0 && soon has_rows "$TMP/six" 80 && lose_ranks "$TMP/six" 5
) &
striker=$!
folder=$TMP/six expect 0 learn launch --elastic 2:8
struck
same "$TMP/long/$last" "$TMP/six/$last"
says "$err" "rank 5 on ${tag}2 .*; [67] go on"
says "$err" 'is started as rank 8 and joins them'
says "$err" 'is started as rank 9 and joins them'
says "$err" "$all_on"
strike "$TMP/host" 40 2 3
folder=$TMP/host expect 0 learn launch --elastic 2:8
struck
same "$TMP/long/$last" "$TMP/host/$last"
says "$err" 'ranks go on behind step [0-9]*, '
says "$err" "$all_on"
# one that came is lost, too, and replaced
(
    soon has_rows "$TMP/later" 40 && lose_ranks "$TMP/later" 4 && soon has_said "$all_on" 1 &&
        lose_ranks "$TMP/later" 8
) &
striker=$!
folder=$TMP/later expect 0 learn launch --elastic 2:8
struck
same "$TMP/long/$last" "$TMP/later/$last"
says "$err" 'is started as rank 9 and joins them'

# ---- hosts with 3, 1, 2 and 1 ranks, and racks
i=0
: >"$TMP/unequal.txt"
for slots in 3 1 2 1; do
    echo "$tag$i slots=$slots address=10.77.0.$((i + 1))" >>"$TMP/unequal.txt"
    i=$((i + 1))
done
printf 'rack left %s0 %s2\nrack right %s1 %s3\n' "$tag" "$tag" "$tag" "$tag" >"$TMP/racks.txt"
mv "$TMP/unequal.txt" "$TMP/hosts.txt"
for algorithm in ring multihalving; do
    GYRE_ALLREDUCE=$algorithm GYRE_TOPOLOGY=$TMP/racks.txt expect 0 sums 1 4 65536
    says "$out" '"ranks":7,"bytes":65536'
done
GYRE_TOPOLOGY=$TMP/no-file expect 3 sums 1 4 4
says "$err" 'no-file'

# ---- a killed rank, one that stands still, a link that is cut: every other rank ends within five
# seconds, with the same sentence
victim_of() # the process of a rank of the run in the folder $1
{
    for process in $(pgrep -f "out $1\$"); do
        if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -q "^GYRE_RANK=$2\$"; then
            echo "$process"
            return
        fi
    done
}
# lose NAME RANK PATTERN COMMAND...: the run loses that rank by the command; PROCESS is its number
lose()
{
    folder=$TMP/$1 victim=$2 pattern=$3
    shift 3
    launch -- "$GYRE" train "$TMP/plain.net" "$TMP/data" --epochs 100000 --lr .02 --test-data none --batch 2 --out "$folder" >"$out" 2>"$err" &
    pid=$!
    await "$folder"
    PROCESS=$(victim_of "$folder" "$victim")
    export PROCESS
    began=$(date +%s)
    "$@"
    got=0
    wait $pid || got=$?
    took=$(($(date +%s) - began))
    if [ $got != 0 ] && [ $took -le 5 ]; then ok; else bad "code $got after $took s: $*"; fi
    told=$(grep -a -c "$pattern" "$err")
    kinds=$(grep -a "$pattern" "$err" | sort -u | wc -l)
    if [ "$told" -ge 3 ] && [ "$kinds" = 1 ]; then ok; else bad "$told sentences of $kinds kinds: $pattern"; cat "$err"; fi
}
lose killed 5 "rank 5 on ${tag}2 .*has ended" sh -c 'kill -9 $PROCESS'
lose killed0 0 "rank 0 on ${tag}0 .*has ended" sh -c 'kill -9 $PROCESS'
lose still 4 "rank 4 on ${tag}2 .*is silent" sh -c 'kill -STOP $PROCESS'
lose cut 6 "on ${tag}3 .*is silent" ip -n "$switch" link set p3 down
ip -n "$switch" link set p3 up
if [ -n "$has_ucx" ]; then
    export GYRE_TRANSPORT=ucx
    lose killed-ucx 5 "rank 5 on ${tag}2 .*has ended" sh -c 'kill -9 $PROCESS'
    lose still-ucx 4 "rank 4 on ${tag}2 .*is silent" sh -c 'kill -STOP $PROCESS'
    unset GYRE_TRANSPORT
fi

# ---- a rank that ends badly
expect 3 launch -- sh -c "[ \$GYRE_RANK = 4 ] && exit 3; exec sleep 30"
says "$err" "rank 4 on ${tag}2.*ended with code 3"

# ---- one that stands still when nobody waits for it any more: its own host ends it
began=$(date +%s)
# shellcheck disable=SC2016
expect 137 launch -- sh -c '[ $GYRE_RANK != 4 ] || kill -STOP $$'
says "$err" "rank 4 on ${tag}2.*ended with code 137"
if [ $(($(date +%s) - began)) -le 8 ]; then ok; else bad "$(($(date +%s) - began)) s"; fi
finish
