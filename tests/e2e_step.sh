#!/bin/sh
# SPDX-License-Identifier: MIT
# A kernel stepped in gdb, as tools/examples/step_kernel.gdb does it.
. "$(dirname "$0")/e2e.inc"
here=$(cd "$(dirname "$0")/.." && pwd)

if ! command -v gdb >/dev/null 2>&1; then
    skip "no gdb: a kernel is not stepped"
    finish
fi
emulator=$(dirname "$GYRE")/libgyre-emu.so
if [ ! -f "$emulator" ]; then
    skip "no emulator beside the command"
    finish
fi
export GYRE_EMU="$emulator" GYRE_EMU_ARCH=80
make_images "$TMP/data/train" 2 4 8 1
cd "$here" || exit 1
expect 0 gdb -nx -batch -x tools/examples/step_kernel.gdb --args "$GYRE" train mlp "$TMP/data" --device emu --batch 4 --steps 1 \
    --test-data none --out "$TMP/run"
says "$out" 'Breakpoint 1, loss_softmax_thread'
says "$out" 'tid = 1, '
says "$out" '^largest = '
says "$out" '#[12] .* loss_softmax '
says "$out" '^checkpoint:'
finish
