#!/bin/sh
# SPDX-License-Identifier: MIT
# run_emu.sh FOLDER: everything that the CUDA emulator can prove, in processes of their own, JOBS at
# a time. The op table runs with every row of the variant table on every class of architectures.
# Every net of the zoo makes one training step, all its layers, beside the CPU. Then the emulator
# itself: planted faults, then the same with the emulator built with AddressSanitizer and UBSan, and
# with kernels under ThreadSanitizer. That must name file and line of a missing barrier. FOLDER
# holds the tests of the default flavour; ASAN and TSAN those of the emulator alone in these
# flavours, or are empty. Variables: BUILD, TALLY, LOGS, JOBS, TSAN_RUNNER (starts programs of
# TSAN), EACH (one in so many cases of the table).
set -eu
folder=$1
here=$(dirname "$0")
GYRE_KERNEL_CACHE=$(cd "$BUILD" && pwd)/kernels LIMIT=${LIMIT:-3600}
ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1
export GYRE_KERNEL_CACHE LIMIT ASAN_OPTIONS UBSAN_OPTIONS

# 'name program arguments', one a line, the longest first
{
    echo "emu_table $folder/tests/t_ops_cuda --whole --each ${EACH:-24} --seed $(date +%j)"
    for net in $("$folder/gyre" zoo | awk '{ print $1 }'); do
        echo "emu_$net $folder/tests/t_cuda_net emu zoo $net"
    done
    for program in t_emu t_emu_hopper; do
        echo "$program $folder/tests/$program"
        [ -z "${ASAN:-}" ] || echo "${program}_asan $ASAN/tests/$program"
        [ -z "${TSAN:-}" ] || echo "${program}_tsan ${TSAN_RUNNER:-} $TSAN/tests/$program"
    done
} | xargs -P "${JOBS:-1}" -L 1 sh "$here/run_one.sh"
