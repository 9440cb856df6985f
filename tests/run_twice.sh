#!/bin/sh
# SPDX-License-Identifier: MIT
# run_twice.sh 'TARGET...' PRODUCT...: builds two copies of the tree, in folders of different names,
# by `build.sh TARGET`. Each PRODUCT (a file's name in the build folder) has the same bytes in both.
set -u
targets=$1
shift
passed=0 failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for folder in a another/of/a/longer/name; do
    mkdir -p "$scratch/$folder"
    cp -Rp build.sh engine io kernels net tests tools "$scratch/$folder"
    for target in $targets; do
        (cd "$scratch/$folder" && env -u DIR BUILD=build CCACHE_DISABLE=1 GYRE_NO_INSTALL=1 sh ./build.sh "$target") >"$scratch/log" 2>&1 ||
            { tail -n 20 "$scratch/log"; failed=$((failed + 1)); }
    done
done
for product in "$@"; do
    if cmp "$scratch/a/build/$product" "$scratch/another/of/a/longer/name/build/$product"; then
        passed=$((passed + 1))
        echo "$product: the same $(wc -c <"$scratch/a/build/$product") bytes"
    else
        failed=$((failed + 1))
    fi
done
echo "twice: $passed passed, $failed failed"
[ "$failed" = 0 ]
