#!/bin/sh
# SPDX-License-Identifier: MIT
# run_amalgamation.sh quick|full: the library as one file, profile all (run_profile.sh has the
# others). It must be the same bytes each time, compile with one plain line, and export only gyre_
# names. It must carry the test programs that were built in $DIR. Those are linked once against its
# object with GY_INT empty, so that they see internal functions. full: all of them, and every
# compiler and level of optimisation. Variables: CC, DIR, BUILD, SOURCE_ID, SOURCES (the library's
# files).
set -u
. tests/uses.inc
extent=$1
folder=$BUILD/amalgamation
libs="-lm -lpthread -ldl"
helpers=$DIR/libtests.a
[ -f "$helpers" ] || helpers=
passed=0 failed=0
mkdir -p "$folder/again" "$folder/tests"

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
make_it() { sh tools/amalgamate.sh "$1" "$SOURCE_ID" all $SOURCES; }
same() { cmp "$folder/gyre.c" "$folder/again/gyre.c" && cmp "$folder/gyre.h" "$folder/again/gyre.h"; }
only_public() { [ -z "$(nm -g "$1" | awk 'NF == 3 && $3 !~ /^gyre_/ { print $3 }' | tee /dev/stderr)" ]; }
in_folder() { (cd "$folder" && "$@"); }
# shellcheck disable=SC2086
with_app() { in_folder "$CC" -o app app.c gyre.c $libs && "$folder/app"; }
run_test()
{
    # shellcheck disable=SC2086
    "$CC" -o "$folder/tests/$1" "$DIR/obj/tests/$1.o" $helpers "$DIR/liblab.a" "$folder/all.o" $libs || return 1
    "$folder/tests/$1" >"$folder/tests/$1.log" 2>&1 && return 0
    tail -n 5 "$folder/tests/$1.log"
    return 1
}

holds "it is made" make_it "$folder"
holds "it is made again" make_it "$folder/again"
holds "same inputs, same bytes" same
holds "cc -c gyre.c" in_folder "$CC" -c gyre.c
holds "only gyre_ names leave it" only_public "$folder/gyre.o"
sed -e 's|engine/||' -e 's|gyre_glm|gyre|' tests/hdr.c >"$folder/app.c"
holds "cc app.c gyre.c, and it runs" with_app
for example in tools/examples/*.c; do
    [ -f "$example" ] || continue
    # all public headers are one here
    sed -E 's!"gyre_(job|glm|base).h"!"gyre.h"!' "$example" >"$folder/example.c"
    # shellcheck disable=SC2086
    holds "$example links" "$CC" -I"$folder" -o "$folder/example" "$folder/example.c" "$folder/gyre.o" $libs
done
uses_of all "$folder"
for use in "$folder"/use_*.c; do
    holds "$use of docs/profiles.md" use_compiles "$use" "$folder/gyre.o" "$folder"
done
strict="-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wundef -Werror -ffp-contract=off"
# shellcheck disable=SC2086
holds "without warnings as C99" in_folder "$CC" -O1 $strict -DGY_INT= -c gyre.c -o all.o

case $extent in
quick) tests="t_engine t_net" ;;
*) tests=$(for t in "$DIR"/tests/t_*; do [ ! -x "$t" ] || basename "$t"; done) ;;
esac
# replaces TEST: it has a function in place of the library's. An archive allows that, one object
# does not.
functions() { nm -g "$1" | awk '$2 == "T" { print $3 }' | sort; }
functions "$folder/all.o" >"$folder/functions"
replaces() { [ -f "$DIR/obj/tests/$1.o" ] && functions "$DIR/obj/tests/$1.o" | comm -12 - "$folder/functions" | grep -q .; }
for test in $tests; do
    if replaces "$test"; then
        echo "left out: $test replaces a function of the library"
        continue
    fi
    [ ! -f "$DIR/obj/tests/$test.o" ] || holds "$test with the amalgamation" run_test "$test"
done
if [ "$extent" = full ]; then
    for compiler in gcc clang powerpc64le-linux-gnu-gcc; do
        command -v $compiler >/dev/null 2>&1 || continue
        include=
        case $compiler in powerpc*) include=-I../include ;; esac
        for level in -O0 -O2 -O3; do
            # shellcheck disable=SC2086
            holds "$compiler $level without warnings" in_folder $compiler $level $strict $include -c gyre.c -o other.o
        done
        # shellcheck disable=SC2086
        holds "$compiler without images" in_folder $compiler -O1 $strict -DGY_NO_IMAGE -c gyre.c -o other.o
        # shellcheck disable=SC2086
        holds "$compiler without CUDA, ranks, UCX, names" in_folder $compiler -O1 $strict $include \
            -DGY_NO_CUDA -DGY_NO_RANKS -DGY_NO_UCX -DGY_NO_NAMES -c gyre.c -o other.o
    done
fi
echo "amalgamation: $passed passed, $failed failed"
[ "$failed" = 0 ]
