#!/bin/sh
# SPDX-License-Identifier: MIT
# run_fuzz.sh SECONDS TARGET: one fuzz target on a copy of its corpus. What it finds stays in
# $DIR/found/TARGET; a crash is one failure, shown with the file that makes it. Variables: DIR,
# TALLY.
seconds=$1
target=$2
new=$DIR/found/$target
log=$new.log
mkdir -p "$new"
if "$DIR/fuzz/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$new-" "$new" "tests/corpus/${target#fuzz_}" >"$log" 2>&1; then
    echo "1 0 0" >>"$TALLY"
    printf '  ok      %-28s %s inputs\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: //p' "$log")"
else
    echo "0 1 0" >>"$TALLY"
    tail -n 40 "$log" | sed 's/^/    | /'
    printf '  FAILED  %-28s see %s\n' "$target" "$log"
fi
