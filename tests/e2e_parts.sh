#!/bin/sh
# SPDX-License-Identifier: MIT
# What is trained on and what is tested on. Data without a test split are not tested on themselves.
# --val-split holds out a part of each class, the same for every number of processes. A resumed run
# and 'gyre eval' use it again; so do they mean, std and names.
. "$(dirname "$0")/e2e.inc"
make_images "$TMP/whole" 3 16 8 1
make_images "$TMP/other" 3 7 8 2
mkdir "$TMP/alone" "$TMP/packs"
cp -r "$TMP/whole" "$TMP/alone/train"
expect 0 "$GYRE" pack "$TMP/whole" "$TMP/whole.gyr"
cp "$TMP/whole.gyr" "$TMP/packs/train.gyr"
# IDX: 20 images of 8x8, labels 0 and 1 in turn
{ printf '\000\000\010\003\000\000\000\024\000\000\000\010\000\000\000\010' && head -c 1280 "$TMP/whole.gyr"; } >"$TMP/idx-train-images-idx3-ubyte"
{ printf '\000\000\010\001\000\000\000\024' && for i in 0 1 2 3 4 5 6 7 8 9; do printf '\000\001'; done; } >"$TMP/idx-train-labels-idx1-ubyte"

train() # train DATA FOLDER OPTIONS...
{
    from=$1 folder=$2
    shift 2
    # shellcheck disable=SC2086
    $RANKS "$GYRE" train mlp "$from" --size 8 --batch 4 --lr .01 --schedule constant --out "$TMP/$folder" "$@"
}
RANKS=

# ---- without a split nothing is tested, and that is said
for data in whole alone whole.gyr packs idx idx-train-images-idx3-ubyte; do
    expect 0 train "$TMP/$data" none --epochs 1 --overwrite
    says "$out" "nothing to test on: $TMP/$data has no split \"test\" (--val-split, --test-data)"
    if grep -q 'test accuracy' "$out" || cut -d, -f5-7 "$TMP/none/metrics.csv" | sed 1d | grep -q '[0-9]'; then bad "$data: tested"; else ok; fi
done
expect 0 train "$TMP/whole" none --epochs 1 --overwrite --test-data none
says "$out" 'nothing to test on: --test-data none'
expect 0 train "$TMP/whole" none --epochs 1 --overwrite --json
json
says "$out" '"test_accuracy":null'
says "$err" 'nothing to test on: .*whole has no split "test"'
# splits, but not this one: the training images do not stand in for it
for data in alone packs idx; do
    expect 3 "$GYRE" eval "$TMP/none" "$TMP/$data"
    says "$err" 'no split "test"\|choose a split'
done
expect 0 "$GYRE" eval "$TMP/none" "$TMP/whole" # no splits at all: all of it
says "$out" '48 images'

# ---- a part is held out: so many of each class, in each format
for data in whole alone whole.gyr packs; do
    expect 0 train "$TMP/$data" "held_$data" --epochs 2 --val-split .25
    says "$out" '36 images in 3 classes; 12 to test on, held out of 48 (0.25 of each class, seed 1)'
    says "$out" 'test accuracy'
    says "$TMP/held_$data/metrics.csv" '^18,2,[^,]*,[^,]*,[0-9.]*,[0-9.]*'
    same "$TMP/held_whole/checkpoint-18.safetensors" "$TMP/held_$data/checkpoint-18.safetensors"
done
expect 0 train "$TMP/idx" held_idx --epochs 1 --val-split .2
says "$out" '16 images in 2 classes; 4 to test on, held out of 20'
expect 2 train "$TMP/whole" more --val-split .25 --test-data "$TMP/other"
says "$err" 'take one of both'
expect 2 train "$TMP/whole" more --val-split .01
says "$err" 'hold_out of 0.01 is none of 48 samples in 3 classes'
RANKS="$GYRE launch --ranks 2 --threads 1 --"
expect 0 train "$TMP/whole" two --epochs 2 --val-split .25
says "$out" '36 images in 3 classes; 12 to test on, held out of 48'
RANKS=

# ---- a milestone before the first update is refused, and the list is not dropped. Any number of
# later ones is accepted.
expect 2 train "$TMP/whole" steps --epochs 4 --schedule step --milestones .01,2
says "$err" '--milestones has 0.01, which is before the first update; an epoch has 12 of them'
expect 2 train "$TMP/whole" steps --epochs 4 --schedule step --milestones 2,.01
says "$err" '--milestones has 0.01'
expect 2 train "$TMP/whole" steps --epochs 4 --schedule step --accumulate 3 --milestones .1,2
says "$err" 'an epoch has 4 of them'
expect 0 train "$TMP/whole" steps --epochs 4 --schedule step --milestones .1,2
says "$TMP/steps/metrics.csv" '^1,1,.*,0.01,'
says "$TMP/steps/metrics.csv" '^2,1,.*,0.001,'
says "$TMP/steps/metrics.csv" '^25,3,.*,0.0001,'

# ---- which images they are: where no image can be read, each is named. One process and two hold
# out the same ones.
cp -r "$TMP/whole" "$TMP/broken"
for image in "$TMP"/broken/*/*; do : >"$image"; done
# names RUN SPLIT: the images of the split
names()
{
    "$GYRE" eval "$TMP/$1" "$TMP/broken" --split "$2" --max-bad 99 >/dev/null 2>"$err"
    grep -o 'class_[0-9]/image_[0-9]*' "$err" | sort -u
}
names held_whole val >"$TMP/held"
names two val >"$TMP/held_two"
if [ "$(wc -l <"$TMP/held")" = 12 ]; then ok; else bad "held out: $(cat "$TMP/held")"; fi
same "$TMP/held" "$TMP/held_two"
for class in 0 1 2; do
    if [ "$(grep -c "class_$class/" "$TMP/held")" = 4 ]; then ok; else bad "class $class: $(cat "$TMP/held")"; fi
done
# No name is in both: training never reads held-out images, with one process or two. Testing reads
# nothing else.
cp -r "$TMP/whole" "$TMP/kept"
cp -r "$TMP/broken" "$TMP/tested"
while read -r image; do
    : >"$TMP/kept/$image.ppm"
    cp "$TMP/whole/$image.ppm" "$TMP/tested/$image.ppm"
done <"$TMP/held"
expect 0 train "$TMP/kept" kept --epochs 2 --val-split .25 --test-data none
same "$TMP/held_whole/checkpoint-18.safetensors" "$TMP/kept/checkpoint-18.safetensors"
RANKS="$GYRE launch --ranks 2 --threads 1 --"
expect 0 train "$TMP/kept" kept_two --epochs 2 --val-split .25 --test-data none
RANKS=
expect 3 train "$TMP/kept" kept_all --epochs 1
expect 0 "$GYRE" eval "$TMP/held_whole" "$TMP/tested"
says "$out" 'data: the 12 of 48 images that the run held out (0.25 of each class, seed 1)'
says "$out" '^12 images'
expect 0 "$GYRE" eval "$TMP/held_whole" "$TMP/whole" --json
json
says "$out" '"samples":12'
says "$err" 'the 12 of 48 images'
accuracy=$(tail -n 1 "$TMP/held_whole/metrics.csv" | cut -d, -f6)
says "$out" "\"top1\":$accuracy,"
expect 0 "$GYRE" eval "$TMP/held_whole" "$TMP/whole" --split train
says "$out" '^48 images'
expect 0 "$GYRE" eval "$TMP/held_whole" "$TMP/other" # others: all of them, and that is said
says "$out" 'data: all 21 images; the run held out 0.25 of each class of others, of 48'
expect 0 "$GYRE" info "$TMP/held_whole"
says "$out" '^val-split: 0.25 of each class by seed 1, of 48 images'

# ---- a resumed run keeps the part, mean, std and names that it began with, even if this call does
# not give them
begun() { train "$TMP/whole" "$@" --flip; }
expect 0 begun through --epochs 4 --val-split .25 --mean .5 --std .25 --names red,green,blue
expect 0 begun pieces --epochs 2 --val-split .25 --mean .5 --std .25 --names red,green,blue
expect 0 begun pieces --epochs 4 --resume
says "$out" '12 to test on, held out of 48'
same "$TMP/through/checkpoint-36.safetensors" "$TMP/pieces/checkpoint-36.safetensors"
expect 3 begun pieces --epochs 5 --resume --val-split .5
says "$err" 'the run had 36 samples.*now there are 24 samples'
expect 3 begun pieces --epochs 5 --resume --mean .4
says "$err" "its input was 'u8 mean 0.5 0.5 0.5 std 0.25 0.25 0.25', this net's is 'u8 mean 0.400000006"
expect 3 begun none --epochs 5 --resume --val-split .25
says "$err" 'the run had 48 samples'
expect 0 "$GYRE" predict "$TMP/pieces" "$TMP/whole/class_1/image_0.ppm"
says "$out" '%  green'
expect 3 "$GYRE" eval "$TMP/pieces" "$TMP/whole" --mean .4
says "$err" "its input was 'u8 mean 0.5"
# The library's own records suffice, without the notes of this command: a program's checkpoint has
# none.
expect 0 "$GYRE" eval "$TMP/pieces" "$TMP/whole" --split train --json
cp "$out" "$TMP/measured"
sed 's/note\.mean/note.meen/; s/note\.std/note.stt/' "$(newest "$TMP/pieces")" >"$TMP/own.safetensors"
expect 0 "$GYRE" eval "$TMP/own.safetensors" "$TMP/whole" --split train --json
same "$out" "$TMP/measured"
expect 3 begun pieces --epochs 5 --resume --smoothing .1
says "$err" 'it is of another net'
finish
