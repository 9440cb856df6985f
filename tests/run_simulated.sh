#!/bin/sh
# SPDX-License-Identifier: MIT
# The simulator beside the clock. Hosts on one machine (network namespaces, links of limited rate
# through a bridge) make sums by several algorithms and sizes. The same schedules are simulated on a
# cluster file that describes those links. The file knows the links' rate less what headers take and
# the bucket of their limiter. It also has the time of a message, which one further case gives: a
# small sum. Nothing is fitted to the cases themselves. Each must agree within LIMIT per cent. Trees
# and doubling over four hosts are left out. There sums that follow each other overlap or delay each
# other (measured 0.9 to 1.4 times one simulated sum). Needs root.
#     run_simulated.sh GYRE [OUT.csv]
#     Variables: RATES (of the links, mbit), LIMIT, TRIES, ROUNDS, MACHINE, COMMIT
. "$(dirname "$0")/e2e.inc"
GYRE=$1
csv=${2:-$TMP/simulated.csv}
RATES=${RATES:-100 200} LIMIT=${LIMIT:-10} TRIES=${TRIES:-3} ROUNDS=${ROUNDS:-9}
MACHINE=${MACHINE:-$(nproc) cores $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)}
COMMIT=${COMMIT:-$(git -C "$(dirname "$0")" rev-parse --short HEAD 2>/dev/null || echo unknown)}
BURST=65536 # bytes of the limiters' buckets
for tool in ip tc unshare nsenter; do
    if ! command -v $tool >/dev/null; then
        skip "no $tool (Debian: iproute2, util-linux)"
        finish
    fi
done
tag=q$$
switch=${tag}s
holders=
hosts_down()
{
    for holder in $holders; do
        kill -9 "$holder" 2>/dev/null
    done
    for i in 0 1 2 3; do
        ip netns del "$tag$i" 2>/dev/null
    done
    ip netns del "$switch" 2>/dev/null
}
trap 'exit 1' INT TERM
trap 'hosts_down; [ -z "$own_tmp" ] || rm -rf "$own_tmp"' EXIT
if ! ip netns add "$switch" 2>/dev/null || ! ip -n "$switch" link add br0 type bridge 2>/dev/null; then
    skip 'network namespaces are not allowed here (root?)'
    finish
fi
ip -n "$switch" link set br0 up

# host_up I: namespaces, an address, and a process that keeps them; its number lies in $TMP/holder.I
host_up()
{
    host=$tag$1
    ip netns add "$host" && ip -n "$host" link set lo up &&
        ip -n "$switch" link add "p$1" type veth peer name eth0 netns "$host" &&
        ip -n "$switch" link set "p$1" master br0 up && ip -n "$host" addr add "10.78.0.$(($1 + 1))/24" dev eth0 &&
        ip -n "$host" link set eth0 up && tcp_calm "$host" || return 1
    ip netns exec "$host" unshare --ipc --pid --uts --fork --mount-proc --kill-child \
        sh -c "hostname $host; echo ready >$TMP/ready.$1; exec sleep 3600" &
    holders="$holders $!"
    while [ ! -s "$TMP/ready.$1" ]; do sleep 0.05; done
    pgrep -P $! >"$TMP/holder.$1"
}
# Settings for hosts of slow links. A connection that rested goes on at its speed. Neither its own
# host's queue nor the switch's holds much of one connection. Otherwise other connections, and the
# acknowledgements of the other direction, would wait behind it.
tcp_calm()
{
    ip netns exec "$1" sh -c 'echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle
        echo 65536 >/proc/sys/net/ipv4/tcp_limit_output_bytes
        echo 4096 131072 131072 | tee /proc/sys/net/ipv4/tcp_rmem >/proc/sys/net/ipv4/tcp_wmem'
}
# links RATE: of every host, out and in. The queue is long: nothing is dropped.
links()
{
    for i in 0 1 2 3; do
        tc -n "$tag$i" qdisc replace dev eth0 root tbf rate "$1mbit" burst $BURST latency 2s &&
            tc -n "$switch" qdisc replace dev "p$i" root tbf rate "$1mbit" burst $BURST latency 2s || return 1
    done
}
for i in 0 1 2 3; do
    if ! host_up $i; then
        skip 'links cannot be made here'
        finish
    fi
done
if ! links 100; then
    skip 'links cannot be shaped here'
    finish
fi
sleep 2 # until the links run

# what stands for ssh
cat >"$TMP/enter" <<END
pid=\$(cat "$TMP/holder.\${1#$tag}")
exec nsenter -t "\$pid" --net --ipc --pid --uts --mount -- sh -c "\$2"
END
# measured ALGORITHM HOSTS LOCALS BYTES REPEATS: microseconds, the median
measured()
{
    : >"$TMP/hosts.txt"
    for i in 0 1 2 3; do
        [ $i -ge "$2" ] || echo "$tag$i slots=$3 address=10.78.0.$((i + 1))" >>"$TMP/hosts.txt"
    done
    GYRE_ALLREDUCE=$1 "$GYRE" launch --hosts "$TMP/hosts.txt" --threads 1 --ssh "sh $TMP/enter" -- \
        "$GYRE" bench allreduce --json --rounds "$ROUNDS" --repeats "$5" --least "$4" --most "$4" 2>"$err" |
        sed -n 's/.*"median_us":\([0-9.]*\).*/\1/p'
}
# simulated ALGORITHM LANES HOSTS LOCALS BYTES MBIT LATENCY_US: microseconds. A packet of 1514 bytes
# carries 1448 of the sums. For two of them, one of 66 bytes comes the other way, where there are
# sums, too. Lanes: the pieces of a sum (net/comm/inter_host.c).
simulated()
{
    cat >"$TMP/x.cluster" <<END
hosts $3
ranks-per-host $4
inside 8G 1us
nic $(awk "BEGIN { print $6 / 8 * 1448 / (1514 + 66 / 2) }")M $7us
burst $BURST 1G
add 4G
compute 1ms
END
    "$GYRE" net simulate --cluster "$TMP/x.cluster" --algorithm "$1" --lanes "$2" --megabytes "$(awk "BEGIN { print $5 / 1e6 }")" \
        --bucket 1000 --samples 1 2>"$err" | awk 'NF >= 6 && $1 + 0 > 0 { us = $3 * 1000 } END { print us }'
}
# A message's time: of a sum of 4 KiB by a ring over four hosts, a sixth.
message_us() { measured ring 4 "$1" 4096 20 | awk '{ print $1 / 6 }'; }

echo "case,link_mbit,hosts,ranks_per_host,bytes,measured_us,simulated_us,ratio,machine,commit" >"$csv"
# agrees NAME SIMULATED LANES HOSTS LOCALS BYTES MBIT LATENCY. Other work on this machine makes a
# median longer. Of TRIES the first that agrees counts, or the last.
agrees()
{
    sim=$(simulated "$2" "$3" "$4" "$5" "$6" "$7" "$8")
    ratio=
    for try in $(seq "$TRIES"); do
        us=$(measured "$1" "$4" "$5" "$6" 2)
        case "$us,$sim" in ,* | *,) continue ;; esac
        ratio=$(awk "BEGIN { printf \"%.3f\", $sim / $us }")
        if awk "BEGIN { exit !($ratio >= 1 - $LIMIT / 100 && $ratio <= 1 + $LIMIT / 100) }"; then break; fi
    done
    printf '%-10s %4s mbit  %s x %s ranks  %8s bytes  measured %10s us  simulated %10s us  ratio %s\n' "$1" "$7" "$4" "$5" "$6" "$us" "$sim" "$ratio"
    echo "$1,$7,$4,$5,$6,$us,$sim,$ratio,$(echo "$MACHINE" | tr , ' '),$COMMIT" >>"$csv"
    if [ -n "$ratio" ] && awk "BEGIN { exit !($ratio >= 1 - $LIMIT / 100 && $ratio <= 1 + $LIMIT / 100) }"; then ok; else
        bad "$1 over $4 hosts: simulated $sim us, measured $us us (try $try)"
    fi
}
for rate in $RATES; do
    links "$rate"
    one=$(message_us 1) two=$(message_us 2)
    printf '%s mbit: a message takes %s us with one rank a host, %s us with two\n' "$rate" "$one" "$two"
    agrees ring:1 ring 4 4 1 4194304 "$rate" "$one"
    agrees ring:1 ring 1 4 1 524288 "$rate" "$one"
    agrees halving:1 halving 4 4 1 4194304 "$rate" "$one"
    agrees halving:1 halving 1 4 1 524288 "$rate" "$one"
    agrees direct:1 direct 1 4 1 1048576 "$rate" "$one"
    agrees doubling:1 doubling 1 2 1 524288 "$rate" "$one"
    agrees halving:1 hosts 2 4 2 4194304 "$rate" "$two"
    agrees halving:1 hosts 1 4 2 1048576 "$rate" "$two"
done
finish
