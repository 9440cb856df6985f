#!/bin/sh
# SPDX-License-Identifier: MIT
# A linear training that is killed at random moments, again and again, and resumed. It ends at the
# objective of an undisturbed run, also when another number of ranks resumes it, and when a rank is
# killed. Checkpoints of other rows and other settings are refused by name. run_glm_kill.sh GYRE.
# Variables: KILLS (default 15), SEED (of the moments).
. "$(dirname "$0")/e2e.inc"
GYRE=$1
KILLS=${KILLS:-15}
SEED=${SEED:-$$}
field() { sed -n "s/.*\"event\":\"end\".*\"$2\":\\([^,}]*\\).*/\\1/p" "$1"; }
near()
{
    if awk -v a="$1" -v b="$2" -v p="$3" 'BEGIN { d = a - b; exit !(a > 0 && d <= p * a && -d <= p * a) }'; then
        ok
    else
        bad "objectives $1 and $2 (seed $SEED)"
    fi
}
# moment N: seconds between 0 and 0.6
moment() { awk -v s="$SEED" -v n="$1" 'BEGIN { srand(s * 1000 + n); print rand() * 0.6 }'; }
RUN=
train() # train FOLDER OPTIONS...
{
    folder=$1
    shift
    $RUN "$GYRE" glm train "$TMP/rows.blocks" "$folder.model" --solver sdca --l2 50 --gap 1e-7 -m 1 --json --out "$folder" --checkpoint-every 0 "$@"
}
expect 0 "$GYRE" glm generate "$TMP/rows.blocks" --rows 200000 --features 3000
expect 0 train "$TMP/whole"
whole=$(field "$out" objective)
says "$out" '"why":"gap"'

# killed FOLDER KILLS OPTIONS...: starts the training KILLS times and kills it each time, unless it
# is done before
resumed=0
killed()
{
    folder=$1 kills=$2
    shift 2
    n=0
    while [ $n -lt "$kills" ]; do
        n=$((n + 1))
        RUN=exec
        train "$folder" --resume "$@" >"$TMP/killed.$n" 2>"$err" </dev/null &
        pid=$!
        RUN=
        sleep "$(moment $n)"
        kill -9 $pid 2>/dev/null
        got=0
        wait $pid 2>/dev/null || got=$?
        case $got in 137) ;; 0) break ;; *) bad "code $got in start $n (seed $SEED)"; cat "$err" ;; esac
    done
    there "$folder/glm-0.safetensors"
    first=$(sed -n '1s/.*"epoch":\([0-9]*\).*/\1/p' "$TMP/killed.$n")
    [ "${first:-0}" -le 1 ] || resumed=$((resumed + 1))
}
killed "$TMP/alone" "$KILLS"
expect 0 train "$TMP/alone" --resume
near "$whole" "$(field "$out" objective)" 2e-7
killed "$TMP/threads" "$KILLS" -m 2
expect 0 train "$TMP/threads" --resume -m 2
near "$whole" "$(field "$out" objective)" 2e-7
# rows that are streamed
killed "$TMP/streamed" "$KILLS" --memory 21
expect 0 train "$TMP/streamed" --resume --memory 21
says "$out" '"streamed":true'
near "$whole" "$(field "$out" objective)" 2e-7
if [ $resumed -gt 0 ]; then ok; else bad "no start went on from a checkpoint (seed $SEED)"; fi

# ---- ranks: one of two is killed, then three go on, then one alone
ranks() # ranks COUNT OPTIONS...
{
    count=$1
    shift
    "$GYRE" launch -n "$count" --threads 1 -- "$GYRE" glm train "$TMP/rows.blocks" "$TMP/ranks.model" --solver sdca --l2 50 --gap "$GAP" -m 1 --json \
        --out "$TMP/ranks" --checkpoint-every 0 --resume "$@"
}
if [ -r /proc/self/environ ] && command -v pgrep >/dev/null; then
    GAP=1e-12 lost=0 # out of reach: the run lasts
    for victim in 0 1 0; do
        ranks 2 >"$out" 2>"$err" </dev/null &
        pid=$!
        tries=0
        while [ ! -s "$TMP/ranks/glm-0.safetensors" ] && [ $tries -lt 400 ]; do
            tries=$((tries + 1))
            sleep 0.05
        done
        sleep "$(moment $victim)"
        hit=0
        for process in $(pgrep -f "out $TMP/ranks "); do
            if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -q "^GYRE_RANK=$victim\$"; then
                kill -9 "$process" && hit=1
            fi
        done
        got=0
        wait $pid || got=$?
        case $hit/$got in # 1: another rank said first that it is gone; 0: the run was over before
        1/137|1/1) lost=$((lost + 1)) ;;
        ?/0) ;;
        *) bad "code $got"; cat "$err" ;;
        esac
    done
    if [ $lost -gt 0 ]; then ok; else bad "no rank was lost (seed $SEED)"; fi
    there "$TMP/ranks/glm-0.safetensors.1"
    GAP=1e-5
    expect 0 ranks 3
    near "$whole" "$(field "$out" objective)" 2e-5
    expect 0 ranks 1
    near "$whole" "$(field "$out" objective)" 2e-5
else
    skip 'no /proc or pgrep: ranks are not killed'
fi

# ---- what does not belong together
expect 3 train "$TMP/alone" --resume --l2 51
says "$err" 'of another run: l2 was 50, now it is 51'
expect 3 train "$TMP/alone" --resume --seed 9
says "$err" 'of another run: the seed was 1, now it is 9'
expect 0 "$GYRE" glm generate "$TMP/rows.blocks" --rows 200000 --features 3000 --seed 4
expect 3 train "$TMP/alone" --resume
says "$err" "of another run: the data set's id was"
finish
