#!/bin/sh
# SPDX-License-Identifier: MIT
# Parameter servers through launch and mpirun. They give the checkpoint of one process, also after a
# resume on other numbers of workers. Records are replayed. Workers are lost, also the one that
# tests and saves: the others say so and continue, and one that is started again joins them. Without
# a server no rank continues. Roles that do not add up are refused.
. "$(dirname "$0")/e2e.inc"
. "$(dirname "$0")/strike.inc"
make_images "$TMP/data/train" 4 20 20 1
make_images "$TMP/data/test" 4 5 20 2
tiny_net >"$TMP/tiny.net"

# servers W S FOLDER OPTIONS...
servers()
{
    workers=$1 count=$2 folder=$3
    shift 3
    "$GYRE" launch --workers "$workers" --servers "$count" --threads 1 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" \
        --batch 4 --out "$TMP/$folder" "$@"
}
one() # FOLDER OPTIONS...
{
    folder=$1
    shift
    "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch 4 --threads 1 --out "$TMP/$folder" "$@"
}
same_options='--shards 4 --epochs 2 --pad-crop 2 --flip --lr .02'

# ---- the bits of one process
for rule in sgd lars adamw; do
    # shellcheck disable=SC2086
    expect 0 one "one_$rule" $same_options --optimizer $rule --ema .9
    for shape in '2 1' '2 2' '4 2'; do
        # shellcheck disable=SC2086
        expect 0 servers $shape "many_$rule" $same_options --optimizer $rule --ema .9 --sync server --overwrite
        same "$TMP/one_$rule/checkpoint-10.safetensors" "$TMP/many_$rule/checkpoint-10.safetensors"
    done
done
if command -v mpirun >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    expect 0 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 3 "$GYRE" train "$TMP/tiny.net" "$TMP/data" \
        --batch 4 --threads 1 --out "$TMP/mpi" $same_options --optimizer adamw --ema .9 --sync server --servers 1
    same "$TMP/one_adamw/checkpoint-10.safetensors" "$TMP/mpi/checkpoint-10.safetensors"
else
    skip 'mpirun is not there'
fi

# ---- resumed on other numbers of workers and servers
flat='--shards 4 --schedule constant --lr .01 --optimizer adamw'
# shellcheck disable=SC2086
{
    expect 0 one whole $flat --steps 13
    expect 0 servers 2 2 parts $flat --steps 7 --sync server
    expect 0 servers 4 1 parts $flat --steps 13 --sync server --resume
}
same "$TMP/whole/checkpoint-13.safetensors" "$TMP/parts/checkpoint-13.safetensors"

# ---- replayed
expect 0 servers 3 2 loose --epochs 3 --sync async --staleness 2 --record "$TMP/order"
says "$out" 'gradients of slices: [0-9]* taken, 0 came too late'
expect 0 servers 3 2 again --epochs 3 --sync async --staleness 2 --replay "$TMP/order"
same "$(newest "$TMP/loose")" "$(newest "$TMP/again")"
expect 3 servers 3 2 other --epochs 3 --sync async --staleness 1 --replay "$TMP/order"
says "$err" 'belongs to another run'
expect 0 servers 3 1 spare --epochs 3 --sync server --backup 1 --json
json
says "$out" '"event":"servers","gradients":[0-9]*,"late":[0-9]*,"staleness":\[[1-9][0-9]*,0,'

# ---- who is lost: runs are long enough for a newcomer to start meanwhile; steps under a sanitizer
# are much slower, so there are fewer
slow=1
if grep -q __asan_init "$GYRE" || grep -q __tsan_init "$GYRE"; then slow=3; fi
few=$((3000 / slow)) many=$((6000 / slow)) most=$((12000 / slow))
for how in 'async' 'server --backup 1'; do
    strike "$TMP/lost" 10 2
    # shellcheck disable=SC2086
    expect 0 servers 3 1 lost --steps $few --schedule constant --lr .01 --test-data none --checkpoint-every 50 --overwrite --sync $how
    struck
    says "$err" 'rank 2 .*; the other workers go on'
    there "$TMP/lost/checkpoint-$few.safetensors"
    rm -rf "$TMP/lost"
done
strike "$TMP/lost" 10 0
got=0
servers 3 1 lost --steps 100000 --schedule constant --lr .01 --test-data none --checkpoint-every 50 --sync async >"$out" 2>"$err" || got=$?
struck
[ $got != 0 ] && ok || bad 'without its server a run ended well'
says "$err" 'rank 0 on .* has ended'

# any worker, the one that tests and saves as well, at any time: the others end well
seed=${SEED:-1}
for _ in 1 2 3 4 5 6; do
    seed=$((seed * 69069 % 1000003 + 1))
    who=$((1 + seed % 3)) rows=$((1 + seed / 3 % (few / 10)))
    case $((seed / 7 % 3)) in 0) how=server ;; 1) how='server --backup 1' ;; *) how=async ;; esac
    [ $((seed % 5)) -gt 1 ] || who=1
    until
        rm -rf "$TMP/die"
        strike_when has_steps "$TMP/die" $((3 * rows)) $who
        # shellcheck disable=SC2086
        expect 0 servers 3 1 die --steps $few --schedule constant --lr .01 --json --sync $how
        hit
    do :; done
    says "$err" "rank $who .*; the other workers go on"
    says "$out" '"lost_workers":1,'
    there "$TMP/die/checkpoint-$few.safetensors"
    "$GYRE" eval "$TMP/die/checkpoint-$few.safetensors" "$TMP/data/test" >"$TMP/eval" 2>&1 ||
        bad "seed $seed: no checkpoint of the others ($how, $who behind step $((3 * rows)))"
    [ "$(tail -n 1 "$TMP/die/metrics.csv" | cut -d, -f1)" = $few ] ||
        bad "seed $seed: the last row is of another step ($how, $who behind step $((3 * rows)))"
done
got=0
strike "$TMP/shards" 20 1
servers 4 1 shards --shards 4 --steps $many --schedule constant --lr .01 --sync server >"$out" 2>"$err" || got=$?
struck
[ $got != 0 ] && ok || bad 'without a worker that has shards a run ended well'
[ "$(grep -c 'rank 1 on .* has ended; .*; no other worker has its shards' "$err")" = 4 ] ||
    bad 'not on every rank'

# ---- a worker that was lost is started again, joins at a step's border, and gives gradients
# back SHAPE STEPS HOW...
back()
{
    shape=$1 steps=$2
    shift 2
    # shellcheck disable=SC2086
    "$GYRE" launch $shape --threads 1 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch 4 --out "$TMP/back" --steps "$steps" \
        --schedule constant --lr .01 --test-data none --checkpoint-every 1000 --json --sync "$@"
}
for how in server async 'async --staleness 1' 'server --backup 1'; do
    until
        rm -rf "$TMP/back"
        strike_when has_steps "$TMP/back" 60 2
        # shellcheck disable=SC2086
        expect 0 back '--workers 3 --servers 1 --elastic 2:4' $many $how
        hit
    do :; done
    says "$err" 'rank 2 .* has ended.*; the other workers go on'
    says "$err" '1 worker joined behind step [0-9]*'
    says "$out" '"lost_workers":1,"joined_workers":1,"gradients_of_joined":[1-9]'
    there "$TMP/back/checkpoint-$many.safetensors"
done
# worker 0, then the one that took its place, then who leads and one that joined; with two servers
rm -rf "$TMP/back"
(
    folder=$TMP/back joined='joined behind step'
    soon has_rows "$folder" 10 && lose_ranks "$folder" 2 && soon has_said "$joined" 1 && lose_ranks "$folder" 5 &&
        soon has_said "$joined" 2 && lose_ranks "$folder" 3 6
) &
striker=$!
expect 0 back '--workers 3 --servers 2 --elastic 3:5' $most async
struck
says "$out" '"lost_workers":4,"joined_workers":4,"gradients_of_joined":[1-9]'
[ "$(grep -c 'rank [0-9]* .* has ended.*; the other workers go on' "$err")" -ge 4 ] || bad 'a lost worker was not named'
there "$TMP/back/checkpoint-$most.safetensors"
"$GYRE" eval "$TMP/back/checkpoint-$most.safetensors" "$TMP/data/test" >"$TMP/eval" 2>&1
says "$TMP/eval" 'top'
# one that comes back with another batch is of another run: it says so and goes, the others go on
cat >"$TMP/strange.sh" <<END
exec "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch \${GYRE_JOIN:+1}4 --out "$TMP/back" --steps $many --schedule constant --lr .01 \
    --test-data none --checkpoint-every 1000 --sync async
END
rm -rf "$TMP/back"
strike "$TMP/back" 10 2
expect 0 "$GYRE" launch --workers 3 --servers 1 --elastic 2:4 --threads 1 -- sh "$TMP/strange.sh"
struck
says "$err" 'is of another run'
there "$TMP/back/checkpoint-$many.safetensors"
rm -rf "$TMP/back"
got=0
strike "$TMP/back" 10 1 2
back '--workers 2 --servers 1 --elastic 2:3' $many server >"$out" 2>"$err" || got=$?
struck
[ $got != 0 ] || [ "$(grep -c 'joined behind' "$err")" -gt 0 ] || bad 'without workers a run ended well'

# ---- every worker fails at a loss that is not finite: the servers do not wait for them
for sync in server async; do
    got=0
    timeout 120 "$GYRE" launch --workers 2 --servers 1 --threads 1 -- "$GYRE" train "$TMP/tiny.net" "$TMP/data" --batch 4 \
        --out "$TMP/wild_$sync" --sync $sync --lr 1e6 --schedule constant >"$out" 2>"$err" </dev/null || got=$?
    case $got in 1 | 5) ok ;; *) bad "exit code $got of workers that fail, --sync $sync" ;; esac
    tells "$err" 'it was the last worker'
done

# ---- roles that do not add up
refused() # SENTENCE COMMAND...
{
    sentence=$1
    shift
    expect 2 "$@"
    tells "$err" "$sentence"
}
refused 'some ranks of the job are servers, but --sync is allreduce' servers 2 1 bad
refused 'async need servers' one bad --sync async
refused '--workers is for --servers' "$GYRE" launch --workers 2 -- true
refused '3 workers and 1 servers are not 5 ranks' "$GYRE" launch --ranks 5 --workers 3 --servers 1 -- true
refused '2 servers need 2 workers or more' "$GYRE" launch --ranks 3 --servers 2 -- true
refused 'the job was started with 1 servers' servers 2 1 bad --sync server --servers 2
refused 'there may be 0 to 1' servers 2 1 bad --sync server --backup 2
refused '--staleness is for --sync async' servers 2 1 bad --sync server --staleness 2
refused 'take one of both' servers 2 1 bad --sync async --record a --replay b
refused 'has no record that could be replayed' servers 2 1 bad --sync async --record a --elastic 2:3
refused 'take fewer servers' servers 2 20 bad --sync server
refused 'clip_norm with parameter servers' servers 2 1 bad --sync server --clip 1
refused 'needs the sums of them all' servers 2 1 bad --sync async --shards 2
# a worker that is late loses the one that refuses: the refusal decides the code
# shellcheck disable=SC2016
expect 2 "$GYRE" launch --workers 2 --servers 1 -- sh -c '[ "$GYRE_RANK" = 1 ] && exit 2; sleep 1; exit 1'
finish
