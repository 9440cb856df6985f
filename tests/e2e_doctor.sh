#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre net doctor on jobs with something planted: it names the guilty rank and the cause. Ranks
# stand still, are gone, hang, wait for a disk, are slow, late, or were started otherwise.
# run_doctor.sh has more of them, and hosts. It also tests what the end of a run says of its ranks.
. "$(dirname "$0")/e2e.inc"
. "$(dirname "$0")/stalls.inc"
if [ ! -r /proc/self/environ ] || ! command -v pgrep >/dev/null; then
    skip 'no /proc or pgrep: processes are not stopped'
    finish
fi

# ---- a run of several ranks says at its end what they spent their time on
expect 0 env GYRE_ALLREDUCE=flat/ring "$GYRE" launch --ranks 3 --threads 1 -- "$GYRE" train "$TMP/plain.net" "$TMP/data" --epochs 3 --batch 4 --lr .02 \
    --test-data none --out "$TMP/well"
says "$out" '^ranks:  *[1-9][0-9]* images/s in steps, [1-9][0-9]* over the run; [0-9.]* times one rank'
for rank in 0 1 2; do says "$out" "^  rank $rank  *compute [0-9.]* s, sums [0-9.]* s, waits [0-9.]* s, input [0-9.]* s"; done
says "$out" '^links:  *[0-9.]* .B over the network: 0 to 1 [0-9.]* .B, 1 to 2 [0-9.]* .B, 2 to 0 '
absent "$TMP/well/flight.0"
for how in '--elastic 1:3 --shards 4' '--servers 1 --sync server'; do
    # shellcheck disable=SC2086
    expect 0 "$GYRE" train "$TMP/plain.net" "$TMP/data" --ranks 3 --threads 1 --epochs 1 --batch 4 \
        --lr .02 --test-data none --overwrite --out "$TMP/ways" $how
    for rank in 0 1 2; do absent "$TMP/ways/flight.$rank"; done
done
expect 0 "$GYRE" train "$TMP/plain.net" "$TMP/data" --ranks 2 --threads 1 --epochs 3 --batch 4 --lr .02 --test-data none --out "$TMP/json" --json
json
# 48 images in steps of 8 are 6 steps an epoch. A step has a sum for each bucket of its plan, and
# one for its results.
says "$out" '^{"event":"ranks",.*"rank":1,.*"steps":18,"sums":36,"sum_bytes":[1-9][0-9]*,.*"dropped":0,"stale":0}'
expect 0 "$GYRE" train "$TMP/plain.net" "$TMP/data" --threads 1 --epochs 1 --batch 4 --lr .02 --test-data none --out "$TMP/alone"
if grep -q '^ranks:' "$out"; then bad 'one process speaks of ranks'; else ok; fi

# ---- stalls
stall_stopped 2
says "$folder.err" "gyre net doctor $folder"
stall_killed 1
stall_options 1
stall_late 1
if [ -n "$has_plant" ]; then
    stall_halts hang 1 hang
    stall_slow disk 2 'slow input' --steps 20
    stall_slow slow 1 'slow rank' --steps 60
    says "$folder.out" '^straggler:  rank 1: it waits for .* it computes for '
else
    skip "no C compiler: nothing is planted into a rank's own work"
fi

# ---- folders without records
expect 3 "$GYRE" net doctor "$TMP/data"
says "$err" 'there is no flight record here that can be read'
expect 3 "$GYRE" net doctor "$TMP/nowhere"
says "$err" 'nowhere: cannot be read: No such file'
mkdir "$TMP/piped"
mkfifo "$TMP/piped/flight.0"
expect 3 timeout 20 "$GYRE" net doctor "$TMP/piped"
says "$err" 'flight.0: not a regular file: it is left out'
expect 2 "$GYRE" net doctor
says "$err" 'needs the folder of the records'
expect 3 env GYRE_FLIGHT=/dev/null/no "$GYRE" train "$TMP/plain.net" "$TMP/data" --ranks 2 --batch 4 --out "$TMP/no"
says "$err" '/dev/null'
finish
