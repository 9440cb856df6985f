#!/bin/sh
# SPDX-License-Identifier: MIT
# run_profile.sh core|nets|glm quick|full: a profile of the library as one file. It compiles without
# a warning, needs nothing but the C library, exports gyre_ names alone, and has nothing of what it
# is made without. full: by every compiler and level, with the time of -O2 and the size of its code.
# core also trains a net from arrays, with real images where they are. Variables: CC, BUILD,
# SOURCE_ID, SOURCES (the profile's files), MNIST (folder of Fashion-MNIST's files).
set -u
. tests/uses.inc
profile=$1
extent=$2
folder=$BUILD/profile_$profile
strict="-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wundef -Werror -ffp-contract=off"
passed=0 failed=0
mkdir -p "$folder"

# holds WHAT COMMAND...: one check
holds()
{
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $what"
    fi
}

# shellcheck disable=SC2086
make_it() { sh tools/amalgamate.sh "$folder" "$SOURCE_ID" "$profile" $SOURCES; }
in_folder() { (cd "$folder" && "$@"); }
only_public() { [ -z "$(nm -g "$folder/gyre.o" | awk 'NF == 3 && $3 !~ /^gyre_/ { print $3 }' | tee /dev/stderr)" ]; }
closed() { [ -z "$(nm -u "$folder/gyre.o" | grep -E ' (gy_|gyre_)' | tee /dev/stderr)" ]; }
# lacks PATTERN: no symbol of the object begins so, static ones not either
lacks() { [ -z "$(nm "$folder/gyre.o" | awk -v begins="^($1)" '$NF ~ begins { print $NF }' | tee /dev/stderr)" ]; }
# Every function that the header declares is there.
whole()
{
    grep -E '^GYRE_API' "$folder/gyre.h" | sed -E 's/^([^(]*)\(.*/\1/; s/.*[ *]//' | sort -u >"$folder/declared"
    nm -g "$folder/gyre.o" | awk 'NF == 3 { print $3 }' | sort -u | comm -23 "$folder/declared" - >"$folder/missing"
    [ -s "$folder/declared" ] && ! grep . "$folder/missing"
}

holds "it is made" make_it
# shellcheck disable=SC2086
holds "without warnings as C99" in_folder "$CC" -O1 $strict -c gyre.c -o gyre.o
holds "only gyre_ names leave it" only_public
holds "it is closed" closed
holds "what its header declares is there" whole
case $profile in
core) others='gy_cuda|gy_net_|gy_glm|gyre_glm|gyre_job_open|gyre_train$|gy_image|gy_rows|gy_blocks_' ;;
nets) others='gy_cuda|gy_net_|gy_glm|gyre_glm|gyre_job_open|gy_rows|gy_blocks_' ;;
glm) others='gy_cuda|gy_net_|gyre_train$|gyre_open$|gy_image|gyre_job_open' ;;
esac
holds "it has nothing of the others" lacks "$others"
lines=$(wc -l <"$folder/gyre.c")
echo "$profile: $lines lines, $(size "$folder/gyre.o" | awk 'NR == 2 { print $1 }') B of code at -O1"

uses_of "$profile" "$folder"
for use in "$folder"/use_*.c; do
    holds "$use of docs/profiles.md" use_compiles "$use" "$folder/gyre.o" "$folder"
done
if [ "$profile" = core ]; then
    holds "at most 24,000 lines" [ "$lines" -le 24000 ]
    holds "a program that trains from arrays links" "$CC" -O1 -Wall -Wextra -Werror -std=c99 -I"$folder" -o "$folder/arrays" \
        tools/examples/arrays.c "$folder/gyre.o" -lm -lpthread -ldl
    if [ -f "$MNIST/train-images-idx3-ubyte.gz" ] && [ -x "$folder/arrays" ]; then
        gunzip -c "$MNIST/train-images-idx3-ubyte.gz" >"$folder/images" && gunzip -c "$MNIST/train-labels-idx1-ubyte.gz" >"$folder/labels"
        "$folder/arrays" "$folder/images" "$folder/labels" 100 "$folder/net.safetensors" >"$folder/arrays.log" 2>&1
        holds "it trains: at least 60 of 100 right" awk '/^step 100:/ { right = $5 } END { exit !(right >= 60) }' "$folder/arrays.log"
        holds "it saves" [ -s "$folder/net.safetensors" ]
        rm -f "$folder/images" "$folder/labels"
    else
        echo "skipped: no images of Fashion-MNIST"
    fi
fi
if [ "$extent" = full ]; then
    for compiler in gcc clang; do
        command -v $compiler >/dev/null 2>&1 || continue
        for level in -O0 -O2 -O3; do
            began=$(date +%s)
            # shellcheck disable=SC2086
            holds "$compiler $level without warnings" in_folder $compiler $level $strict -c gyre.c -o other.o
            echo "$profile: $compiler $level: $(($(date +%s) - began)) s, $(size "$folder/other.o" | awk 'NR == 2 { print $1 }') B of code"
        done
    done
fi
echo "profile_$profile: $passed passed, $failed failed"
[ "$failed" = 0 ]
