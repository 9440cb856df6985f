#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs what build.sh built in the folder $DIR: test programs, replays of the fuzz corpora, end-to-end scripts. Each goes through
# run_one.sh, which keeps the counts. Variables: DIR, RUNNER (an emulator or empty), TALLY, SUITE (the flavour's name).
set -eu
here=$(dirname "$0")
LOGS=$DIR/logs
export LOGS TALLY
mkdir -p "$LOGS"

one() { sh "$here/run_one.sh" "$@"; }

for program in "$DIR"/tests/t_*; do
    [ -x "$program" ] || continue
    # shellcheck disable=SC2086
    one "$(basename "$program")" ${RUNNER:-} "$program"
done
for program in "$DIR"/replay/fuzz_*; do
    [ -x "$program" ] || continue
    name=$(basename "$program")
    # shellcheck disable=SC2086
    one "$name" ${RUNNER:-} "$program" "tests/corpus/${name#fuzz_}"
done
