#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre net doctor on ten kinds of stalls, planted into jobs of three ranks of one host, each with
# more than one guilty rank. As root they are also planted into jobs of four hosts in network
# namespaces with clocks of their own. There a link of the data's network is cut, a host cannot be
# reached, a rank stands still or is gone. It must name the guilty rank and the cause in nine of ten
# at least; the others are printed. run_doctor.sh GYRE
. "$(dirname "$0")/e2e.inc"
GYRE=$1
. "$(dirname "$0")/stalls.inc"

stalls=0 named=0
# stall NAME WORDS...: counts whether all of it held
stall()
{
    before=$failed
    "$@"
    stalls=$((stalls + 1))
    if [ "$failed" = "$before" ]; then named=$((named + 1)); fi
    failed=$before
}
for rank in 0 2; do stall stall_stopped $rank; done
for rank in 0 1; do stall stall_killed $rank; done
for rank in 1 2; do stall stall_options $rank; done
for rank in 0 2; do stall stall_late $rank; done
for rank in 0 1; do stall stall_paused $rank; done
if [ -n "$has_plant" ]; then
    for rank in 0 1; do stall stall_halts hang $rank hang; done
    for rank in 0 2; do stall stall_halts stuck $rank 'slow input'; done
    for rank in 0 1; do stall stall_slow disk $rank 'slow input' --steps 30; done
    stall stall_slow save 0 'slow checkpoint' --steps 24 --checkpoint-every 2
    for rank in 0 2; do stall stall_slow slow $rank 'slow rank' --steps 80; done
    for rank in 0 1; do stall stall_exits $rank; done
else
    skip "no C compiler: nothing is planted into a rank's own work"
fi

# ---- hosts with two networks, as in run_liveness.sh
hosts()
{
    ip -n "$switch" link add br1 type bridge && ip -n "$switch" link set br1 up
    : >"$TMP/hosts.txt"
    for i in 0 1 2 3; do
        ip -n "$switch" link add "d$i" type veth peer name eth1 netns "$tag$i" && ip -n "$switch" link set "d$i" master br1 up &&
            ip -n "$tag$i" addr add "10.78.0.$((i + 1))/24" dev eth1 && ip -n "$tag$i" link set eth1 up
        echo "$tag$i slots=1 address=10.77.0.$((i + 1))" >>"$TMP/hosts.txt"
    done
    sleep 2 # until the links run
    GYRE_TRANSPORT=tcp GYRE_INTERFACE=eth1
    export GYRE_TRANSPORT GYRE_INTERFACE
    launch=launch_hosts prefix=hosts-
}
launch_hosts() { exec "$GYRE" launch --hosts "$TMP/hosts.txt" --threads 1 --ssh "sh $TMP/enter" "$@"; }
# stall_link NAME RANK CAUSE COMMAND...: amid the run the command is given
stall_link()
{
    rank=$2 cause=$3
    stall_run "$1" $endless
    shift 3
    stall_begun
    if ! "$@"; then bad "this system cannot: $*"; fi
    wait $pid
    stall_told "$rank" "$cause"
}
if [ "$(id -u)" != 0 ]; then
    skip 'network namespaces need root'
else
    RATE=400mbit
    . "$(dirname "$0")/hosts.inc"
    if hosts_up 4; then
        hosts
        stall stall_link down 2 'cut link' ip -n "$switch" link set d2 down
        ip -n "$switch" link set d2 up
        sleep 2
        stall stall_link drops 0 'cut link' tc -n "$switch" qdisc add dev d0 root pfifo limit 0
        tc -n "$switch" qdisc del dev d0 root
        stall stall_link host 3 'cut host' ip -n "$switch" link set p3 down
        ip -n "$switch" link set p3 up
        sleep 2
        stall stall_stopped 3
        stall stall_killed 1
    else
        skip "$why"
    fi
fi
printf 'stalls: the guilty rank and the cause were named in %d of %d\n' "$named" "$stalls"
if [ $((10 * named)) -ge $((9 * stalls)) ]; then ok; else bad "only $named of $stalls"; fi
finish
