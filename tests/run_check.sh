#!/bin/sh
# SPDX-License-Identifier: MIT
# run_check.sh FOLDER: tools/check.sh must find what breaks a rule of the tree. In copies of the
# tree one thing is planted at a time; the rule that is named must fail, and without it every rule
# passes. FOLDER is a flavour's, with libgyre.a and obj.
set -u
flavour=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
cd "$(dirname "$0")/.." || exit 1

# A fresh copy of the tree, with the library and its objects beside it
copy()
{
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/.ci"
    cp -Rp build.sh README.md docs engine io kernels net tests tools "$scratch/tree"
    cp .ci/run "$scratch/tree/.ci"
}

check() { (cd "$scratch/tree" && SCRATCH=$scratch/work sh tools/check.sh "$flavour/libgyre.a" "$1") >"$scratch/log" 2>&1; }

# finds WHAT RULE: what lies in the copy is found, by this rule
finds()
{
    if ! check "$2" && grep -q "^FAILED $2" "$scratch/log"; then
        passed=$((passed + 1))
        echo "found: $1"
    else
        failed=$((failed + 1))
        echo "failed: $1 was not found by the rule '$2'"
        tail -n 15 "$scratch/log"
    fi
    copy
}

after() { sed -i "s|^$2\$|&\n$3|" "$scratch/tree/$1"; }
put() { printf '%s\n' "$2" >>"$scratch/tree/$1"; }

copy
if check quick; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "failed: the tree as it is"
    tail -n 30 "$scratch/log"
fi
put io/json.c '#include "engine/run/engine.h"'
finds "an include against a direction" "include directions"
after engine/base/rng.h '#define GY_RNG_H' '#include "engine/base/hash.h"'
after engine/base/hash.h '#define GY_HASH_H' '#include "engine/base/rng.h"'
finds "a circle of includes" "form of the tree"
cp "$scratch/tree/engine/base/rng.h" "$scratch/tree/io/rng.h"
finds "a base name that stands twice" "form of the tree"
put io/json.c "/* $(printf '%0180d' 0) */"
finds "a line of more than 160 columns" "text"
put io/json.c "/* $(printf '%0110d' 0) */"
finds "one more line of more than 100 columns" "form of the tree"
put io/json.c '#include "json.h"'
finds "an include that is no path from the root" "include directions"
sed -i 's/ew_leaky/ew_bent/g' "$scratch/tree/kernels/cpu/elementwise.c"
finds "a row of docs/changing.md whose text is gone" "docs/changing.md"
printf '%s\n' '/* SPDX-License-Identifier: MIT */' '/* Another place for GY_ACT_LEAKY. */' >"$scratch/tree/engine/plan/another.c"
finds "a place that no row of docs/changing.md names" "docs/changing.md"
echo "check: $passed passed, $failed failed"
[ "$failed" = 0 ]
