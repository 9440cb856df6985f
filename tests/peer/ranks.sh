#!/bin/sh
# SPDX-License-Identifier: MIT
# What two processes of one thread each gain over one: ResNet-20 in turns, images a second and their
# ratio to one process's:
#   each      both take BATCH images a step
#   same      together they take BATCH, half each: the steps of one process in half the time
#   strangers two processes at once that know nothing of each other, BATCH each: what the machine
#             grants, without any sum or wait
# and the machine's load before each turn, which must be near 0 for the figures to mean anything.
# Packed images: with a folder of JPEG files the decoding threads of two processes take part of two
# processors. ranks.sh GYRE DATA. Variables: BATCH (128), STEPS (60), TURNS (5).
set -eu
gyre=$1 data=$2 batch=${BATCH:-128}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run() # run NAME BATCH COMMAND...: images a second
{
    name=$1 images=$2
    shift 2
    "$@" train resnet20 "$data" --test-data none --steps "${STEPS:-60}" --batch "$images" --threads 1 --pad-crop 4 --flip \
        --out "$folder/$name" >/dev/null
    tail -n 1 "$folder/$name/metrics.csv" | sed 's/.*,//'
}
two() { run "$1" "$2" "$gyre" launch --ranks 2 --threads 1 -- "$gyre"; }
turn=0
while [ "$turn" -lt "${TURNS:-5}" ]; do
    turn=$((turn + 1))
    load=$(cut -d' ' -f1 /proc/loadavg)
    one=$(run "one$turn" "$batch" "$gyre")
    each=$(two "each$turn" "$batch")
    same=$(two "same$turn" "$((batch / 2))")
    run "other$turn" "$batch" "$gyre" >"$folder/other" &
    other=$!
    stranger=$(run "stranger$turn" "$batch" "$gyre")
    wait "$other"
    echo "$load $one $each $same $stranger $(cat "$folder/other")"
done | awk '
    function median(r, n,    i, k, t) {
        for (i = 1; i <= n; i++) for (k = i + 1; k <= n; k++) if (r[k] < r[i]) { t = r[i]; r[i] = r[k]; r[k] = t }
        return r[int((n + 1) / 2)]
    }
    { e[NR] = $3 / $2; s[NR] = $4 / $2; a[NR] = ($5 + $6) / $2
      printf("load %5.2f   1 process %8.1f images/s   2, each %8.1f (%.3f)   2, same %8.1f (%.3f)   2 strangers %8.1f (%.3f)\n",
             $1, $2, $3, e[NR], $4, s[NR], $5 + $6, a[NR]) }
    END { printf("median ratio: each %.3f, same %.3f, strangers %.3f\n", median(e, NR), median(s, NR), median(a, NR)) }'
