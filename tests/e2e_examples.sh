#!/bin/sh
# SPDX-License-Identifier: MIT
# The example programs, compiled by build.sh, on a tiny data set.
. "$(dirname "$0")/e2e.inc"
if [ ! -x "${EXAMPLES:-}/train" ]; then
    skip "EXAMPLES names no folder with the example programs"
    finish
fi
make_images "$TMP/data/train" 3 16 28 1
expect 1 "$EXAMPLES/train"
says "$err" '^usage: train DATA FOLDER'
expect 1 "$EXAMPLES/train" "$TMP/nothing" "$TMP/run"
says "$err" '/nothing: no such file or folder$'
expect 0 "$EXAMPLES/train" "$TMP/data" "$TMP/run"
says "$out" '^step 1: loss [0-9.]*, accuracy [0-9.]*, written to'
there "$TMP/run/checkpoint-1.safetensors"
there "$TMP/run/curve.svg"
expect 0 "$EXAMPLES/predict" "$TMP/run/checkpoint-1.safetensors" "$TMP/data/train/class_1/image_3.ppm"
says "$out" '^class 9: 0\.[0-9]*$'
expect 1 "$EXAMPLES/predict" "$TMP/run/checkpoint-1.safetensors" "$TMP/nothing.png"
says "$err" '/nothing.png: cannot be opened: No such file or directory$'
expect 0 "$EXAMPLES/sum" 1000
says "$out" '^rank 0 of 1: 0 of 1000 sums are wrong$'
expect 0 "$GYRE" launch -n 3 -- "$EXAMPLES/sum" 100003
says "$out" 'rank 0 of 3: 0 of 100003 sums are wrong$'
says "$out" 'rank 2 of 3: 0 of 100003 sums are wrong$'
finish
