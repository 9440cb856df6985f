#!/bin/sh
# SPDX-License-Identifier: MIT
# run_hardened.sh FOLDER-OF-OBJECTS PRODUCT...: what guards the products, read out of the files
# themselves. Each is loaded at any address. It has read-only tables of addresses that are filled at
# its start, no executable stack and no search path of its own. Code outside kernels/cpu checks its
# stack and the bounds of copies.
set -u
objects=$1
shift
passed=0 failed=0

# fact PRODUCT WHAT COMMAND...: one check, said either way
fact()
{
    product=$1 what=$2
    shift 2
    if "$@" >/dev/null 2>&1; then
        passed=$((passed + 1))
        echo "$product: $what"
    else
        failed=$((failed + 1))
        echo "FAILED $product: not $what"
    fi
}
has() { readelf -W "$1" "$2" | grep -qE "$3"; }
lacks() { ! has "$@"; }
calls() { nm "$@" 2>/dev/null | grep -qE "$calls"; }
calls_none() { ! calls "$@"; }

for product in "$@"; do
    [ -f "$product" ] || { failed=$((failed + 1)); echo "FAILED $product is not there"; continue; }
    fact "$product" "independent of its address" has -h "$product" 'Type: *DYN'
    fact "$product" "read-only after its start" has -l "$product" GNU_RELRO
    fact "$product" "bound at its start" has -d "$product" 'BIND_NOW|FLAGS.*NOW'
    fact "$product" "without an executable stack" has -l "$product" 'GNU_STACK.* RW +0x'
    fact "$product" "without a search path" lacks -d "$product" 'RPATH|RUNPATH'
    calls=__stack_chk_fail
    fact "$product" "checking its stack" calls "$product"
    calls='__(memcpy|snprintf|vsnprintf|read|fgets)_chk'
    fact "$product" "checking bounds of copies" calls "$product"
done
calls='__stack_chk_fail|_chk$'
fact kernels/cpu "without checks at each call" calls_none "$objects"/kernels/cpu/*.o "$objects"/kernels/cpu/*/*.o
fact engine "with them" calls "$objects"/engine/*/*.o
echo "hardened: $passed passed, $failed failed"
[ "$failed" = 0 ]
