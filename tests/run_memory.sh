#!/bin/sh
# SPDX-License-Identifier: MIT
# run_memory.sh DIR: the whole sweep of failing allocations, in a build with AddressSanitizer and
# UndefinedBehaviorSanitizer (DIR/tests/t_no_memory). Every n-th fails alone, and with all later
# ones, over every corpus as it is and changed. A leak is a failure.
set -u
dir=$1
log=$dir/no_memory.log
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
began=$(date +%s)
code=0
"$dir/tests/t_no_memory" --all >"$log" 2>&1 || code=$?
if [ $code = 0 ]; then grep 'allocations failed' "$log"; else tail -n 60 "$log"; fi
printf 'run_memory: %d s\n' $(($(date +%s) - began))
counts=$(sed -n 's/^t_no_memory: \(.*\), [0-9]* skipped$/\1/p' "$log")
if [ $code = 0 ] && [ -n "$counts" ]; then echo "$counts"; else echo '0 passed, 1 failed'; fi
exit $code
