#!/bin/sh
# SPDX-License-Identifier: MIT
# servers.sh OUT.csv [GYRE]: images a second of two workers of one thread each, beside one process.
# They train by our allreduce, with one and two parameter servers in step, and by PyTorch's
# DistributedDataParallel over Gloo where PyTorch is here. All take turns, a CSV row each.
# Variables: NET (lenet5; or resnet20 with DATA of 32 x 32), DATA
# (/usr/share/datasets/fashion-mnist), BATCH (64, of each worker), STEPS (300), TURNS (3), PYTHON.
# Give it a quiet machine: a server wants a part of a processor beside the workers.
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
csv=$1 gyre=${2:-$here/../../build/gyre}
net=${NET:-lenet5} data=${DATA:-/usr/share/datasets/fashion-mnist} batch=${BATCH:-64} steps=${STEPS:-300} python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'turn,load,how,workers,servers,images_per_second' >"$csv"
# row HOW WORKERS SERVERS SPEED
row() { echo "$turn,$load,$1,$2,$3,$4" | tee -a "$csv"; }
# run HOW WORKERS SERVERS SYNC LAUNCH...
run()
{
    how=$1 workers=$2 servers=$3 sync=$4
    shift 4
    "$@" "$gyre" train "$net" "$data" --test-data none --steps "$steps" --batch "$batch" --threads 1 --sync "$sync" --overwrite \
        --out "$folder/$how" >/dev/null
    row "$how" "$workers" "$servers" "$(tail -n 1 "$folder/$how/metrics.csv" | sed 's/.*,//')"
}
launch() { roles=$1; shift; "$gyre" launch $roles --threads 1 -- "$@"; }
turn=0
while [ $turn -lt "${TURNS:-3}" ]; do
    turn=$((turn + 1)) load=$(cut -d' ' -f1 /proc/loadavg)
    run one 1 0 allreduce env
    run allreduce 2 0 allreduce launch '--ranks 2'
    run server-1 2 1 server launch '--workers 2 --servers 1'
    run server-2 2 2 server launch '--workers 2 --servers 2'
    if "$python" -c 'import torch' 2>/dev/null; then
        row gloo 2 0 "$("$gyre" launch --ranks 2 --threads 1 -- "$python" "$here/servers_ddp.py" "$net" --batch "$batch" --steps "$steps" \
            --meet "$folder/meet.$turn")"
    elif [ $turn = 1 ]; then
        echo 'skipped: no PyTorch' >&2
    fi
done
