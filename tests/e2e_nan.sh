#!/bin/sh
# SPDX-License-Identifier: MIT
# Float images (.pfm) train like others; a row of NaNs is found in the one file that has it.
. "$(dirname "$0")/e2e.inc"

# make_pfm FILE CLASS NUMBER [ROW]: 8 x 8 gray, stripes across (0) or down (1). That row of the
# file, from 0, is NaN.
make_pfm()
{
    dark=$(printf '\\001\\001\\%03o\\076' $((128 + $3 * 4)))
    light=$(printf '\\001\\001\\%03o\\077' $((64 + $3 * 2)))
    nan='\000\000\300\177'
    pixels= y=0
    while [ $y -lt 8 ]; do
        x=0
        while [ $x -lt 8 ]; do
            if [ "$2" = 0 ]; then odd=$((y % 2)); else odd=$((x % 2)); fi
            if [ "$y" = "${4:-}" ]; then pixels=$pixels$nan
            elif [ $odd = 0 ]; then pixels=$pixels$dark
            else pixels=$pixels$light; fi
            x=$((x + 1))
        done
        y=$((y + 1))
    done
    printf "Pf\n8 8\n-1.0\n$pixels" >"$1"
}
for class in 0 1; do
    mkdir -p "$TMP/data/train/class_$class" "$TMP/data/test/class_$class"
    i=0
    while [ $i -lt 12 ]; do
        make_pfm "$TMP/data/train/class_$class/image_$i.pfm" $class $i
        make_pfm "$TMP/data/test/class_$class/image_$i.pfm" $class $((i + 12))
        i=$((i + 1))
    done
done
train() # train FOLDER OPTIONS...
{
    folder=$1
    shift
    "$GYRE" train mlp "$TMP/data" --batch 6 --lr .01 --mean .5 --std .25 --out "$folder" "$@"
}

# ---- float images are trained on and measured, the same with every number of threads
expect 0 train "$TMP/run" --epochs 1
there "$TMP/run/checkpoint-4.safetensors"
expect 0 "$GYRE" eval "$TMP/run" "$TMP/data"
says "$out" '24 images'
for threads in 1 3; do
    expect 0 train "$TMP/threads_$threads" --epochs 3 --pad-crop 2 --flip --mixup .2 --loader-threads $threads
done
same "$TMP/threads_1/checkpoint-12.safetensors" "$TMP/threads_3/checkpoint-12.safetensors"
expect 0 train "$TMP/shown" --show-batch "$TMP/batch.png"
there "$TMP/batch.png"

# ---- what float images do not take is said
expect 3 train "$TMP/large" --size 16
says "$err" 'float images are 8 x 8 x 1'
expect 2 train "$TMP/jitter" --jitter .4
says "$err" 'float images take no'
expect 2 "$GYRE" pack "$TMP/data" "$TMP/data.gyr"
says "$err" 'float images cannot be packed'
absent "$TMP/data.gyr"
expect 3 "$GYRE" predict "$TMP/run" "$TMP/data/test/class_0/image_0.pfm"
says "$err" 'image_0.pfm.*PFM'
cp "$TMP/data/train/class_0/image_0.pfm" "$TMP/data/train/class_0/other.ppm"
expect 3 train "$TMP/mixed"
says "$err" '24 of 25 images are .pfm'
rm "$TMP/data/train/class_0/other.ppm"

# ---- what is refused overwrites nothing: for its images, or because ranks disagree; then it does
cp -r "$TMP/run" "$TMP/over"
expect 2 train "$TMP/over" --jitter .4 --overwrite
says "$err" 'float images take no'
if diff -r "$TMP/run" "$TMP/over"; then ok; else bad 'a refused --overwrite changed the folder'; fi
expect 3 "$GYRE" launch --ranks 2 --threads 1 -- sh -c '[ "$GYRE_RANK" = 0 ] || set -- "$@" --val-split .25
    exec "$@"' sh "$GYRE" train mlp "$TMP/data" --batch 3 --steps 4 --schedule constant \
    --out "$TMP/over" --overwrite
says "$err" 'number of training samples'
rm -f "$TMP/over"/flight.*
if diff -r "$TMP/run" "$TMP/over"; then ok; else bad 'ranks that disagree changed the folder'; fi
expect 0 train "$TMP/over" --steps 2 --overwrite
there "$TMP/over/checkpoint-2.safetensors"
absent "$TMP/over/checkpoint-4.safetensors"
if grep -q '^4,' "$TMP/over/metrics.csv"; then bad 'rows of the run before are there'; else ok; fi

# ---- a planted row of NaN: third in the file, whose rows go upwards, so y is 5
cp "$TMP/run/checkpoint-4.safetensors" "$TMP/before"
make_pfm "$TMP/data/train/class_1/image_7.pfm" 1 7 2
expect 5 train "$TMP/run" --epochs 2 --resume
says "$err" "tensor 'samples'\[[0-5]\]\[5\]\[0\]\[0\] is -\{0,1\}nan; image train/class_1/image_7.pfm"
same "$TMP/run/checkpoint-4.safetensors" "$TMP/before"
absent "$TMP/run/checkpoint-8.safetensors"
expect 0 "$GYRE" eval "$TMP/run" "$TMP/data"
says "$out" '24 images'
expect 5 train "$TMP/with_mixup" --epochs 1 --mixup .2
says "$err" 'image_7.pfm'
expect 5 train "$TMP/with_shards" --epochs 1 --batch 3 --shards 4
says "$err" "tensor 'samples'\[[0-2]\]\[5\]\[0\]\[0\] is -\{0,1\}nan; image train/class_1/image_7.pfm"
expect 5 "$GYRE" launch --ranks 2 --threads 1 -- "$GYRE" train mlp "$TMP/data" --batch 3 --lr .01 --mean .5 --std .25 --epochs 1 --shards 4 \
    --out "$TMP/on_ranks"
says "$err" 'image_7.pfm'
make_pfm "$TMP/data/train/class_1/image_7.pfm" 1 7
expect 0 train "$TMP/run" --epochs 2 --resume
there "$TMP/run/checkpoint-8.safetensors"

# ---- a test on a row of NaN is shown, too
make_pfm "$TMP/data/test/class_1/image_7.pfm" 1 7 2
expect 0 train "$TMP/tested" --epochs 1
says "$out" 'test loss -\{0,1\}nan  test accuracy [0-9]'
finish
