#!/bin/sh
# SPDX-License-Identifier: MIT
# demo.sh GYRE DATA FOLDER: trains the zoo's net 'fashion' on the 60,000 real images of
# Fashion-MNIST and measures it on the 10,000 test images. It draws curve and confusion matrix and
# classifies one image. It fails below 92.0 % test accuracy.
set -eu
gyre=$1
data=$2
folder=$3
WANTED=92.0

say() { printf '\n%s\n' "$*"; }

rm -rf "$folder"
mkdir -p "$folder"
started=$(date +%s)
say "1. Training: $gyre train fashion $data"
"$gyre" train fashion "$data" --out "$folder/run" --epochs 7 --batch 128 --lr 0.1 --warmup-epochs 0.5 --flip --weight-decay 0.0005 \
    --ema 0.998
seconds=$(($(date +%s) - started))

say "2. Test: $gyre eval $folder/run $data"
"$gyre" eval "$folder/run" "$data" --confusion "$folder/confusion.svg" >"$folder/eval.txt"
sed -n 1,4p "$folder/eval.txt"

say "3. One image: $gyre predict $folder/run --data $data --sample 17"
"$gyre" predict "$folder/run" --data "$data" --sample 17
say "   (0 T-shirt, 1 trouser, 2 pullover, 3 dress, 4 coat, 5 sandal, 6 shirt, 7 sneaker, 8 bag, 9 ankle boot)"

accuracy=$(sed -n 's/.*top-1 \([0-9.]*\) %.*/\1/p' "$folder/eval.txt")
say "What is there now:"
for made in "$folder/run/curve.svg" "$folder/confusion.svg" "$folder/eval.txt" "$folder"/run/checkpoint-*.safetensors; do
    [ ! -s "$made" ] || echo "  $made"
done
say "Test accuracy $accuracy % after $seconds seconds of training."
awk -v got="$accuracy" -v wanted=$WANTED 'BEGIN { exit !(got >= wanted) }' || { echo "demo: below $WANTED %"; exit 1; }
