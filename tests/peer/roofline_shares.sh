#!/bin/sh
# SPDX-License-Identifier: MIT
# roofline_shares.sh GYRE FOLDER: real steps of known nets into FOLDER, on one thread and on all,
# and from them the tables of tools/lab/roofline.c. Takes some minutes; wants a machine that nobody
# else uses.
set -eu
gyre=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
why() # why THREADS STEPS NET BATCH [OPTIONS]
{
    threads=$1 steps=$2 net=$3 batch=$4
    shift 4
    for dtype in f32 bf16; do
        name=$(echo "$net $batch t$threads $dtype $*" | tr -d - | tr ' ' _)
        "$gyre" why "$net" --batch "$batch" --threads "$threads" --dtype $dtype --measure "$steps" --tune off --json "$@" >"$folder/$name.json"
    done
}
why 1 4 resnet50 4
why 1 5 resnet18 8
why 1 4 alexnet 16
why 1 4 alexnet 4 --optimizer adamw
why 1 4 alexnet 4 --optimizer lars
why 1 10 resnet20 32
why 1 4 resnet20 128
why 1 20 lenet5 64
why 1 20 mlp 64
all=$(getconf _NPROCESSORS_ONLN)
if [ "$all" -gt 1 ]; then
    why "$all" 4 resnet50 16
    why "$all" 5 resnet18 16
    why "$all" 5 alexnet 16
fi
python3 "$here/roofline_shares.py" "$folder"/*.json
