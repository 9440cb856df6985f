#!/bin/sh
# SPDX-License-Identifier: MIT
# run_one.sh NAME COMMAND...: runs one test program and adds 'passed failed skipped' from its
# closing line to the file $TALLY. A crash, a time-out, or a program without a closing line is one
# failure. Shows the whole output only when something failed. Variables: TALLY, LOGS (folder of
# outputs), LIMIT (seconds, default 900), COUNTERS (where a coverage build leaves what it counts, or
# empty).
name=$1
shift
log=$LOGS/$name.log
[ -z "${COUNTERS:-}" ] || export GCOV_PREFIX="$COUNTERS/$name"
started=$(date +%s)
status=0
watch=
if [ -t 1 ]; then
    # a person sees which program runs, and after ten seconds where it is
    while sleep 2; do
        [ $(($(date +%s) - started)) -lt 10 ] || printf '\r\033[K  %s: %.100s' "$name" "$(tail -n 1 "$log" | tr -d '\000-\037')"
    done &
    watch=$!
fi
timeout -k 5 "${LIMIT:-900}" "$@" >"$log" 2>&1 </dev/null || status=$?
[ -z "$watch" ] || { kill $watch 2>/dev/null && printf '\r\033[K'; }
seconds=$(($(date +%s) - started))

# the closing line: 'name: 3 passed, 0 failed' with or without ', 1 skipped'
counts=$(sed -n -E '$s/^(.*[: ])?([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\2 \3 \5/p' "$log")
# shellcheck disable=SC2086
set -- $counts
passed=${1:-0} failed=${2:-0} skipped=${3:-0}
why=
if [ -z "$counts" ]; then
    why='no closing line'
    failed=$((failed + 1))
elif [ "$status" != 0 ] && [ "$failed" = 0 ]; then
    why='counts are good but'
    failed=1
fi
[ "$status" != 124 ] || why="stopped after ${LIMIT:-900} s"
echo "$passed $failed $skipped" >>"$TALLY"
[ -z "${COUNTERS:-}" ] || echo "$name $seconds" >>"$COUNTERS.seconds"
{
    if [ "$failed" != 0 ]; then
        tail -n 40 "$log" | sed 's/^/    | /'
        printf '  FAILED  %-28s %5d passed, %d failed, %d skipped (%s exit status %d), %d s\n' \
            "$name" "$passed" "$failed" "$skipped" "${why:+$why,}" "$status" "$seconds"
    else
        grep '^skipped' "$log" | sed 's/^/    | /'
        printf '  ok      %-28s %5d passed' "$name" "$passed"
        [ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
        printf ', %d s\n' "$seconds"
    fi
}
exit 0
