#!/bin/sh
# SPDX-License-Identifier: MIT
# Alive, late and lost are told apart, in full. Schedules are random; one rank is 13 seconds late,
# one hangs, jobs run under a flood of strangers. Then hosts in network namespaces have a network of
# their own for data. One is taken down, or its system drops what comes, while control continues.
# The second part needs root. run_liveness.sh GYRE TESTS. TESTS: the folder of the test programs.
# Variables: CASES, SEED.
. "$(dirname "$0")/e2e.inc"
GYRE=$1
TESTS=$2

# ---- one machine
program() # program WORDS...: t_liveness must hold; its counts are added
{
    code=0
    "$TESTS/t_liveness" "$@" >"$TMP/program" 2>&1 || code=$?
    grep -v '^t_liveness: ' "$TMP/program" || true
    if [ $code = 0 ] && grep -q '^t_liveness: [1-9][0-9]* passed, 0 failed' "$TMP/program"; then ok; else bad "t_liveness $*: code $code"; fi
}
program --cases "${CASES:-48}" --seed "${SEED:-$(date +%j)}"
program --late 13
program --hang 8
program --flood 5

# ---- hosts with two networks
if [ "$(id -u)" != 0 ]; then
    skip 'network namespaces need root'
    finish
fi
RATE=400mbit
. "$(dirname "$0")/hosts.inc"
if ! hosts_up 4; then
    skip "$why"
    finish
fi
ip -n "$switch" link add br1 type bridge && ip -n "$switch" link set br1 up
: >"$TMP/hosts.txt"
for i in 0 1 2 3; do
    ip -n "$switch" link add "d$i" type veth peer name eth1 netns "$tag$i" && ip -n "$switch" link set "d$i" master br1 up &&
        ip -n "$tag$i" addr add "10.78.0.$((i + 1))/24" dev eth1 && ip -n "$tag$i" link set eth1 up
    echo "$tag$i slots=1 address=10.77.0.$((i + 1))" >>"$TMP/hosts.txt"
done
sleep 2 # until the links run
make_images "$TMP/data/train" 4 30 20 1
plain_net >"$TMP/plain.net"
GYRE_TRANSPORT=tcp GYRE_INTERFACE=eth1
export GYRE_TRANSPORT GYRE_INTERFACE
# lose NAME PATTERN ALGORITHM COMMAND...: a job of four hosts trains, the command runs, and all
# ranks must say the same within five seconds
lose()
{
    folder=$TMP/$1 pattern=$2 algorithm=$3
    shift 3
    GYRE_ALLREDUCE=$algorithm "$GYRE" launch --hosts "$TMP/hosts.txt" --threads 1 --ssh "sh $TMP/enter" -- "$GYRE" train "$TMP/plain.net" "$TMP/data" \
        --epochs 100000 --lr .02 --test-data none --batch 2 --out "$folder" >"$out" 2>"$err" &
    pid=$!
    await "$folder"
    began=$(date +%s%N)
    if ! "$@"; then bad "this system cannot: $*"; fi
    (sleep 60; kill $pid) 2>/dev/null &
    limit=$!
    got=0
    wait $pid || got=$?
    kill $limit
    took=$((($(date +%s%N) - began) / 1000000))
    printf "%s: %s ms\n" "${folder##*/}" "$took"
    if [ $got != 0 ] && [ $took -le 5500 ]; then ok; else bad "code $got after $took ms: $*"; fi
    told=$(grep -a -c "$pattern" "$err")
    kinds=$(grep -a "$pattern" "$err" | sort -u | wc -l)
    if [ "$told" -ge 4 ] && [ "$kinds" = 1 ]; then ok; else bad "$told sentences of $kinds kinds: $pattern"; cat "$err"; fi
}
lose down "rank 2 on ${tag}2 .*lives, but no data comes through to it or from it" ring ip -n "$switch" link set d2 down
ip -n "$switch" link set d2 up
sleep 2
# the last switch before a host drops what goes to it: that host's words still reach the others
lose drops "rank 0 on ${tag}0 .*lives, but no data comes through to it or from it" direct tc -n "$switch" qdisc add dev d0 root pfifo limit 0
finish
