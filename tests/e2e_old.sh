#!/bin/sh
# SPDX-License-Identifier: MIT
# Checkpoints that an earlier build wrote after 6 of 12 steps resume here, and end with the bits
# with which that build ended. tests/checkpoints/ has them; the reference kernels compute, so that
# every processor has the same bits. The images are made by a formula.
. "$(dirname "$0")/e2e.inc"
old=$(cd "$(dirname "$0")" && pwd)/checkpoints
cd "$TMP" || exit 1 # a checkpoint holds the name under which the net was given

# Three classes of eight images of 8 x 8
mkdir -p "$TMP/data/train/class_0" "$TMP/data/train/class_1" "$TMP/data/train/class_2"
awk -v folder="$TMP/data/train" 'BEGIN {
    for (k = 0; k < 3; k++)
        for (i = 0; i < 8; i++) {
            file = folder "/class_" k "/image_" i ".ppm"
            printf "P6\n8 8\n255\n" >file
            for (y = 0; y < 8; y++)
                for (x = 0; x < 8; x++)
                    for (c = 0; c < 3; c++)
                        printf "%c", 1 + (x * (k + 2) * 7 + y * 13 + i * 5 + c * 17) % 120 >file
            close(file)
        }
}'
printf 'input 8x8x3\nc1: conv 4 3x3\nb1: bn\nrelu\nmaxpool 2x2\nlinear 3\nmse\n' >n.net

# goes_on NUMBER SHA-256 OPTION...: old_NUMBER, trained with these options, ends with these bits
goes_on()
{
    number=$1 bits=$2
    shift 2
    mkdir -p "$TMP/run_$number"
    cp "$old/old_$number.safetensors" "$TMP/run_$number/checkpoint-6.safetensors"
    expect 0 "$GYRE" train n.net data --isa ref --threads 1 --batch 6 --steps 12 --checkpoint-every 6 --keep 5 \
        --lr 0.05 --seed 3 --out "$TMP/run_$number" --resume "$@"
    have=$(sha256sum <"$TMP/run_$number/checkpoint-12.safetensors" | cut -d' ' -f1)
    if [ "$have" = "$bits" ]; then ok; else bad "checkpoint $number with $* ends as $have, not as $bits"; fi
}
goes_on 1 faa724a210259acf871a98c5dc21e52d2aeff24d65fe179866344b214a5d29ef --optimizer sgd
goes_on 2 5433049f56ea81d228d35c5195f7a0fa862246731ee22f65e8fb636056a2e1d4 --optimizer lars --clip 1
goes_on 3 c59d7af14724cea56e60b99f8f30ca91eef4ac2a6d41c7a28ac7e9f4623774a6 --optimizer sgd --nesterov --accumulate 2 --ema 0.9
finish
