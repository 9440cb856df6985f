#!/bin/sh
# SPDX-License-Identifier: MIT
# Parameter servers over four hosts in network namespaces, over TCP and UCX. Two workers with one
# and two servers, each on a host of its own, have the bits of one process. So do two ranks on each
# host. A lost worker, also the one that tests and saves, is named and the others continue; with
# --elastic it is started again on its host, and its gradients count. Without a server none
# continues. Needs root. run_hosts_servers.sh GYRE. Variable: RATE (of a link, default
# 400mbit).
. "$(dirname "$0")/e2e.inc"
GYRE=$1
. "$(dirname "$0")/hosts.inc"
. "$(dirname "$0")/strike.inc"
if ! hosts_up 4; then
    skip "$why"
    finish
fi
make_images "$TMP/data/train" 4 30 20 1
make_images "$TMP/data/test" 4 5 20 2
tiny_net >"$TMP/tiny.net"

# hosts SLOTS...: a file of hosts with so many ranks each
hosts()
{
    i=0
    : >"$TMP/hosts.txt"
    for slots in "$@"; do
        echo "$tag$i slots=$slots address=10.77.0.$((i + 1))" >>"$TMP/hosts.txt"
        i=$((i + 1))
    done
}
# learn COMMAND...: the run in $folder, started by the command
learn() { "$@" "$GYRE" train "$TMP/tiny.net" "$TMP/data" --lr .02 --batch 2 --pad-crop 2 --flip --optimizer adamw --out "$folder" $more; }
# served WORKERS SERVERS
served() { learn "$GYRE" launch --hosts "$TMP/hosts.txt" --workers "$1" --servers "$2" --threads 1 --ssh "sh $TMP/enter" --; }
last=checkpoint-45.safetensors

# ---- the bits of one process
more='--shards 4 --epochs 3 --ema .9 --threads 1'
folder=$TMP/one expect 0 learn env
there "$TMP/one/$last"
more="$more --sync server"
for transport in tcp ucx; do
    if [ $transport = ucx ] && ! ldconfig -p 2>/dev/null | grep -q libucp.so; then
        skip 'no UCX (Debian: libucx0)'
        continue
    fi
    export GYRE_TRANSPORT=$transport
    hosts 1 1 1
    folder=$TMP/$transport-2-1 expect 0 served 2 1
    same "$TMP/one/$last" "$TMP/$transport-2-1/$last"
    hosts 1 1 1 1
    folder=$TMP/$transport-2-2 expect 0 served 2 2
    same "$TMP/one/$last" "$TMP/$transport-2-2/$last"
    hosts 2 2 1 1
    folder=$TMP/$transport-4-2 expect 0 served 4 2
    same "$TMP/one/$last" "$TMP/$transport-4-2/$last"
done
unset GYRE_TRANSPORT

# ---- workers that are lost: rank 2 tests and saves; the others are on other hosts
hosts 1 2 1 1
for how in server async; do
    more="--steps 2000 --checkpoint-every 500 --threads 1 --sync $how"
    for who in 2 4; do
        strike "$TMP/lost" 20 $who
        folder=$TMP/lost expect 0 served 3 2
        struck
        says "$err" "rank $who on $tag.* has ended.*; the other workers go on"
        there "$TMP/lost/checkpoint-2000.safetensors"
        rm -rf "$TMP/lost"
    done
done

# ---- a lost worker is started again on the host that lost it, as the loss of the newcomer shows;
# then so is the one that tests and saves
hosts 1 1 1 2
more='--steps 12000 --schedule constant --lr .01 --test-data none --threads 1 --checkpoint-every 2000 --json'
# elastic SYNC...
elastic()
{
    # shellcheck disable=SC2086
    "$GYRE" launch --hosts "$TMP/hosts.txt" --workers 3 --servers 2 --elastic 3:5 --threads 1 --ssh "sh $TMP/enter" -- \
        "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch 4 --out "$TMP/back" $more --sync "$@"
}
joined='joined behind step'
for how in server async; do
    rm -rf "$TMP/back"
    (
        soon has_steps "$TMP/back" 60 && lose_ranks "$TMP/back" 4 && soon has_said "$joined" 1 && lose_ranks "$TMP/back" 5 &&
            soon has_said "$joined" 2 && lose_ranks "$TMP/back" 2
    ) &
    striker=$!
    # shellcheck disable=SC2086
    expect 0 elastic $how
    struck
    says "$err" "rank 4 on ${tag}3 .*has ended.*; the other workers go on"
    says "$err" "rank 2 on ${tag}2 .*has ended.*; the other workers go on"
    # the newcomer is rank 4 among them and rank 5 of those that were started
    [ "$(grep -c "rank 4 on ${tag}3 .*has ended.*; the other workers go on" "$err")" = 2 ] || bad 'it came on another host'
    says "$err" 'is started as rank 7 and joins them'
    says "$out" '"lost_workers":3,"joined_workers":3,"gradients_of_joined":[1-9]'
    there "$TMP/back/checkpoint-12000.safetensors"
done

# ---- a server on another host is lost: every rank says so
more='--steps 100000 --checkpoint-every 50 --test-data none --threads 1 --sync async'
folder=$TMP/server
served 3 2 >"$out" 2>"$err" &
pid=$!
has_checkpoint() { [ -n "$(newest "$folder" 2>/dev/null)" ]; }
soon has_checkpoint && lose_ranks "$folder" 1
got=0
wait $pid || got=$?
[ $got != 0 ] && ok || bad 'without its server a run ended well'
told=$(grep -a -c "rank 1 on ${tag}1 .*has ended" "$err")
if [ "$told" -ge 4 ]; then ok; else bad "$told ranks say who was lost"; cat "$err"; fi
finish
