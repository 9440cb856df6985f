#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre net: algorithms are listed; a schedule is proved, printed, edited and read again. Training on
# a described cluster is simulated to the times that a sum of latencies and bytes gives.
. "$(dirname "$0")/e2e.inc"
net() { "$GYRE" net "$@"; }

# ---- all algorithms that the list names are built and proved
expect 0 net list
says "$out" '^ring          one ring over all ranks: the fewest bytes, the most rounds$'
# a name in 13 columns and a few words on it, on every line; no name twice
if grep -qv '^[a-z][a-z ]\{12\} [^ ]' "$out"; then bad "other lines: $(cat "$out")"; else ok; fi
algorithms=$(cut -c1-14 "$out")
if [ -z "$(echo "$algorithms" | sort | uniq -d)" ]; then ok; else bad "a name twice: $(cat "$out")"; fi
for algorithm in $algorithms; do
    expect 0 net plan --algorithm "$algorithm" --ranks 6 --lanes 2 --rank -2
    says "$out" "^[a-z]* by $algorithm: 6 ranks, [0-9]* pieces in [24] lanes, [1-9][0-9]* messages, [1-9][0-9]* rounds\$"
    if [ "$(wc -l <"$out")" = 1 ]; then ok; else bad '--rank -2 prints steps'; fi
done
expect 0 net plan --algorithm binomial --ranks 4 --rank -2
says "$out" '^broadcast by binomial: 4 ranks, 1 pieces in 1 lane, 3 messages, 2 rounds$'
expect 0 net plan --algorithm ring --ranks 4 --rank -2
says "$out" '^allreduce by ring: 4 ranks, 4 pieces in 1 lane, 24 messages, 6 rounds$'
expect 0 net plan --algorithm multiring --dims 2x4 --rank -2
says "$out" '^allreduce by multiring: 8 ranks, 8 pieces in 1 lane, 64 messages, 8 rounds$'

# ---- one rank's steps, all ranks' steps, and a file of them
expect 0 net plan --algorithm multiring --dims 2x2 --rank 1
says "$out" '^rank 1  lane 0  round 0    send    pieces 0 to 1 to rank 0$'
says "$out" '^rank 1  lane 0  round 1    add     pieces 2 to 2 from rank 3$'
if [ "$(grep -c '^rank 1 ' "$out")" = 8 ] && [ "$(grep -c '^rank ' "$out")" = 8 ]; then ok; else bad "not the 8 steps of rank 1"; fi
expect 0 net plan --ranks 4
cp "$out" "$TMP/mine.schedule"
if [ "$(grep -c '^rank ' "$out")" = 32 ]; then ok; else bad "not 32 steps of four ranks"; fi
expect 0 net plan --file "$TMP/mine.schedule"
same "$TMP/mine.schedule" "$out"
# an editor's mistakes are found: a receive in place of a sum, a message that nobody sends
sed '/^rank 2 .*round 1 /s/add    /receive/' "$TMP/mine.schedule" >"$TMP/bad.schedule"
expect 3 net plan --file "$TMP/bad.schedule"
says "$err" 'schedule multihalving: piece 1 of rank 0 ends with 2 contributions, not with each of 4 once$'
sed '/^rank 3 .*round 3 .*send/d' "$TMP/mine.schedule" >"$TMP/bad.schedule"
expect 3 net plan --file "$TMP/bad.schedule"
says "$err" 'schedule multihalving: rank 2, lane 0, round 3, receive of pieces 2 to 3 with rank 3: the other end has no such step$'
printf 'no schedule\n' >"$TMP/bad.schedule"
expect 3 net plan --file "$TMP/bad.schedule"
says "$err" 'bad.schedule:1: '
expect 3 net plan --file "$TMP/none"
says "$err" '/none: cannot be read: No such file or directory$'

# ---- mistakes
mistake() # mistake SENTENCE ARGUMENTS...
{
    sentence=$1
    shift
    expect 2 net "$@"
    tells "$err" "gyre: $sentence"
}
mistake "net: 'bogus' is not one of list, plan, simulate and doctor" bogus
mistake 'there is no algorithm "spiral"' plan --algorithm spiral --ranks 3
mistake 'there is no rank 5 of 3' plan --ranks 3 --rank 5
mistake 'the dimensions multiply to 6, not to 4 ranks' plan --dims 2x3 --ranks 4
large=4096x4096x4096x4096x4096x4096
mistake "net: --dims $large: at most 7 dimensions and 4096 ranks" plan --dims $large
for dims in 4x x4 0x2 2xx2 4.2 two; do
    mistake "net: --dims takes sizes such as 4x8x8, not '$dims'" plan --dims $dims
done
mistake 'net: --dims 2x2x2x2x2x2x2x2: at most 7 dimensions and 4096 ranks' plan --dims 2x2x2x2x2x2x2x2
mistake 'net: --dims 64x65: at most 7 dimensions and 4096 ranks' plan --dims 64x65
mistake 'net simulate needs --cluster FILE' simulate

# ---- a simulation: two hosts, 1 ms and 1 GB/s between them, 2 GB/s to add, a step of 100 ms, half
# of it backward
cat >"$TMP/two.cluster" <<'END'
hosts           2
ranks-per-host  1
inside          20G 1us
nic             1G 1ms
add             2G
compute         100ms
backward        0.5
END
simulate() { net simulate --cluster "$TMP/two.cluster" --lanes 1 --megabytes 100 --samples 3 "$@"; }
# row HOSTS SUM STEP EFFICIENCY: both quantiles are the same without noise
row() { says "$out" "^ *$1  *$1  *$2  *$2  *$3  *$3  *$4 %  *$4 %\$"; }
# a ring of two sends each half twice and adds one: 2 * (1 + 50) + 25 ms
expect 0 simulate --algorithm ring --bucket 100
says "$out" '^simulated, not measured: ring in 1 lanes, 100 MB of gradients in buckets of 100 MB, 3 samples$'
row 1 0.000 100.000 100.0
row 2 127.000 227.000 44.1
# Quarters are ready at 62.5, 75, 87.5 and 100 ms. Each takes 2 * (1 + 12.5) + 6.25 ms, one after
# the other.
expect 0 simulate --algorithm ring --bucket 25
row 2 127.000 195.500 51.2
# by doubling the whole goes over once, and is added: 1 + 100 + 50 ms
expect 0 simulate --algorithm doubling --bucket 100
row 2 151.000 251.000 39.8
# with noise and ranks that begin apart, quantiles differ; the same numbers come again
printf 'noise 0.1\nskew 2ms\n' >>"$TMP/two.cluster"
expect 0 simulate --algorithm ring --bucket 100 --samples 40
cp "$out" "$TMP/noisy"
if awk '$1 == 2 { noisy = $3 > 127 && $4 > $3 && $5 > 227 && $6 > $5 && $7 < 44.1 } END { exit !noisy }' "$out"; then ok; else
    bad "no noise: $(tail -n 1 "$out")"
fi
expect 0 simulate --algorithm ring --bucket 100 --samples 40
same "$TMP/noisy" "$out"
# hosts double until all are there, two ranks each
sed 's/^hosts.*/hosts 6/; s/^ranks-per-host.*/ranks-per-host 2/' "$TMP/two.cluster" >"$TMP/six.cluster"
expect 0 net simulate --cluster "$TMP/six.cluster" --samples 1
if [ "$(awk 'NR > 3 { printf "%s/%s ", $1, $2 }' "$out")" = '2/1 4/2 8/4 12/6 ' ]; then ok; else bad "other rows: $(cat "$out")"; fi
mistake '1e+08 bytes in buckets of 1e+06; there may be 1 to 64 buckets' simulate --cluster "$TMP/two.cluster" --megabytes 100 --bucket 1
grep -v compute "$TMP/two.cluster" >"$TMP/lazy.cluster"
expect 3 net simulate --cluster "$TMP/lazy.cluster"
says "$err" 'lazy.cluster: compute is missing: the seconds of a step$'
expect 3 net simulate --cluster "$TMP/none"
says "$err" '/none: cannot be read: No such file or directory$'
mistake 'the algorithm binomial makes no allreduce' simulate --cluster "$TMP/two.cluster" --algorithm binomial
finish
