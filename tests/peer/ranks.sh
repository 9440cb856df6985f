#!/bin/sh
# SPDX-License-Identifier: MIT
# What two processes of one thread each gain over one: ResNet-20 in turns, images a second and their ratio, and the machine's load before each
# turn, which must be near 0 for the figures to mean anything. Packed images: with a folder of JPEG files the decoding threads of two
# processes take part of two processors.
# ranks.sh GYRE DATA. Variables: BATCH (of each process, 128), STEPS (60), TURNS (5).
set -eu
gyre=$1 data=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run() # run NAME COMMAND...: images a second
{
    name=$1
    shift
    "$@" train resnet20 "$data" --test-data none --steps "${STEPS:-60}" --batch "${BATCH:-128}" --threads 1 --pad-crop 4 --flip \
        --out "$folder/$name" >/dev/null
    tail -n 1 "$folder/$name/metrics.csv" | sed 's/.*,//'
}
turn=0
while [ "$turn" -lt "${TURNS:-5}" ]; do
    turn=$((turn + 1))
    load=$(cut -d' ' -f1 /proc/loadavg)
    one=$(run "one$turn" "$gyre")
    two=$(run "two$turn" "$gyre" launch --ranks 2 --threads 1 -- "$gyre")
    echo "$load $one $two"
done | awk '{ printf("load %5.2f   1 process %8.1f images/s   2 processes %8.1f   ratio %.3f\n", $1, $2, $3, $3 / $2); r[NR] = $3 / $2 }
    END { for (i = 1; i <= NR; i++) for (k = i + 1; k <= NR; k++) if (r[k] < r[i]) { t = r[i]; r[i] = r[k]; r[k] = t }
          printf("median ratio %.3f\n", r[int((NR + 1) / 2)]) }'
