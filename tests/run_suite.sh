#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs what build.sh built in the folder $DIR: test programs, replays of the fuzz corpora, examples,
# end-to-end scripts. Each goes through run_one.sh, which keeps the counts. Programs run one after
# the other, under an emulator several at a time.
#
# Variables: BUILD, DIR, TALLY, JOBS
#     RUNNER            what starts a program, or empty
#     SUITE             the flavour's name; default: that of ./build.sh test
#     GYRE_TEST_ALL=1   the op test whole there and under sanitizers, too
#     TESTS             names to run; empty: all
set -eu
here=$(dirname "$0")
LOGS=$DIR/logs
export LOGS TALLY
mkdir -p "$LOGS"
GYRE_KERNEL_CACHE=$(cd "$BUILD" && pwd)/kernels # compiled CUDA kernels, of all flavours
export GYRE_KERNEL_CACHE
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=allocator_may_return_null=1

parallel=1
case $SUITE in
ppc) parallel=$JOBS LIMIT=3600 ;; # an emulated processor
asan|tsan|coverage) LIMIT=1800 ;;
*) LIMIT=${LIMIT:-600} ;;
esac
export LIMIT

# wanted NAME: it is among $TESTS, or these are not given
wanted() { case " ${TESTS:-$1} " in *" $1 "*) ;; *) return 1 ;; esac; }

# 'name program arguments', one a line
{
    if [ "$SUITE" = ppc ]; then
        # the longest first, in parts
        for part in 0 1 2 3 4 5 6 7 8 9 10 11 12; do
            echo "t_ops_part_$part $RUNNER $DIR/tests/t_ops --part $part/12"
        done
        # the emulator's usual processor has no matrix unit
        echo "t_tiles_power10 $RUNNER -cpu power10 $DIR/tests/t_tiles"
        echo "t_random_power10 $RUNNER -cpu power10 $DIR/tests/t_random --nets 60"
        for shape in 1x7x7x17- 1x9x9x3- 1x4x5x47-; do
            echo "t_ops_power10_$shape $RUNNER -cpu power10 $DIR/tests/t_ops --isa mma --case $shape"
        done
    fi
    for program in "$DIR"/tests/t_*; do
        case $SUITE/${program##*/} in ppc/t_ops) continue ;; esac
        wanted "${program##*/}" || continue
        # Fewer nets or problems where a program runs many times slower. What 300 of them hold is
        # counted in other suites.
        case $SUITE/${program##*/} in
        ppc/t_random) fewer='--nets 150' ;;
        ppc/t_prepare) fewer='--weights 300000' ;;
        ppc/t_glm_referee) fewer='--problems 40' ;;
        tsan/t_random|coverage/t_random) fewer='--nets 80' ;;
        default/t_ops) fewer="$([ "${GYRE_TEST_ALL:-0}" = 1 ] || echo --sample)" ;;
        asan/t_ops) fewer="$([ "${GYRE_TEST_ALL:-0}" = 1 ] || echo --sample)" ;;
        # threads meet in the drivers, which all kernel sets share
        tsan/t_ops)
            fewer=
            [ "${GYRE_TEST_ALL:-0}" = 1 ] || fewer=--sample
            [ -z "$fewer" ] || ! grep -q avx2 /proc/cpuinfo || fewer="$fewer --isa avx2"
            ;;
        coverage/t_ops) fewer='--part 1/12' ;;
        asan/t_glm_random) fewer='--problems 120 --seconds 60' ;;
        tsan/t_glm_random|ppc/t_glm_random|coverage/t_glm_random) fewer='--problems 40 --seconds 120' ;;
        *) fewer= ;;
        esac
        [ ! -x "$program" ] || echo "$(basename "$program") ${RUNNER:-} $program${fewer:+ $fewer}"
    done
    for program in "$DIR"/replay/fuzz_*; do
        name=$(basename "$program")
        wanted "$name" || continue
        [ ! -x "$program" ] || echo "$name ${RUNNER:-} $program tests/corpus/${name#fuzz_}"
    done
} | xargs -r -P "$parallel" -L 1 sh "$here/run_one.sh"

# end-to-end scripts drive the command; an emulator and the thread checker would take too long
case $SUITE in
ppc|tsan) exit 0 ;;
esac
[ -x "$DIR/gyre" ] || exit 0
for script in "$here"/e2e_*.sh; do
    [ -f "$script" ] && wanted "$(basename "$script" .sh)" || continue
    TMP=$(mktemp -d)
    export TMP
    GYRE=$(cd "$DIR" && pwd)/gyre EXAMPLES=$(cd "$DIR" && pwd)/examples sh "$here/run_one.sh" "$(basename "$script" .sh)" sh "$script"
    rm -rf "$TMP"
done
