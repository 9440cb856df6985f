#!/bin/sh
# SPDX-License-Identifier: MIT
# ddp.sh [RANKS]: trains PyTorch's DistributedDataParallel on Fashion-MNIST with its buckets summed
# by Gyre (tools/examples/ddp.py), and again by Gloo. It prints the losses of every tenth step side
# by side. More than 1e-4 apart, relative, or different weights among the ranks: failed. Variables:
# STEPS (100), FOLDER (/usr/share/datasets/fashion-mnist), BUILD (build), PYTHON.
set -eu
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)
BUILD=$(cd "${BUILD:-$here/../../build}" && pwd)
FOLDER=${FOLDER:-/usr/share/datasets/fashion-mnist} PYTHON=${PYTHON:-python3} ranks=${1:-2}
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
if ! "$PYTHON" -c 'import torch, numpy' 2>/dev/null; then
    echo "skipped: no PyTorch"
    exit 0
fi
for side in gyre gloo; do
    option=
    [ $side = gyre ] || option=--gloo
    # shellcheck disable=SC2086
    "$BUILD/gyre" launch --ranks "$ranks" -- "$PYTHON" "$here/../../tools/examples/ddp.py" "$FOLDER" --library "$BUILD/libgyre-net.so" \
        --meet "$TMP/meet-$side" --steps "${STEPS:-100}" $option >"$TMP/$side"
    sed -n 's/^step \([0-9]*\) loss \(.*\)/\1 \2/p' "$TMP/$side" >"$TMP/$side.loss"
done
echo "step, loss with sums by Gyre, by Gloo"
paste -d ' ' "$TMP/gyre.loss" "$TMP/gloo.loss" | cut -d ' ' -f 1,2,4
grep -h accuracy "$TMP/gyre" "$TMP/gloo"
paste -d ' ' "$TMP/gyre.loss" "$TMP/gloo.loss" |
    awk '{ d = ($2 - $4) / $4; if (d < 0) d = -d; if (d > most) most = d }
         END { printf "%d losses, at most %.1e apart\n", NR, most; exit NR == 0 || most > 1e-4 }'
