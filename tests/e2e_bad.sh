#!/bin/sh
# SPDX-License-Identifier: MIT
# What a run meets on bad days: unreadable images, damaged checkpoints, a full disk, numbers that
# run away.
. "$(dirname "$0")/e2e.inc"
make_images "$TMP/data/train" 3 20 12 1
make_images "$TMP/data/test" 3 4 12 2
train() # train FOLDER OPTIONS...
{
    folder=$1
    shift
    "$GYRE" train mlp "$TMP/data" --size 12 --batch 10 --lr .01 --out "$folder" "$@"
}

# ---- unreadable images are counted and named; above --max-bad they are an error
expect 0 train "$TMP/good" --epochs 2
cp -r "$TMP/data/train" "$TMP/kept"
head -c 100 "$TMP/kept/class_0/image_3.ppm" >"$TMP/data/train/class_0/image_3.ppm"
: >"$TMP/data/train/class_1/image_4.ppm"
echo 'not an image' >"$TMP/data/train/class_2/image_5.ppm"
printf 'P6\n99999999 99999999\n255\nxxxx' >"$TMP/data/train/class_2/image_6.ppm"
expect 3 train "$TMP/bad0" --epochs 2
says "$err" 'image_[3456].ppm'
expect 3 train "$TMP/bad3" --epochs 2 --max-bad 3
says "$err" '4 unreadable images, at most 3 are skipped'
says "$err" 'skipped unreadable image'
expect 0 train "$TMP/bad4" --epochs 2 --max-bad 4
for image in class_0/image_3 class_1/image_4 class_2/image_5 class_2/image_6; do says "$err" "$image.ppm"; done
says "$out" 'unreadable images that were skipped: 4'
for threads in 2 3; do
    expect 0 train "$TMP/bad4_$threads" --epochs 2 --max-bad 4 --loader-threads $threads
    same "$TMP/bad4/checkpoint-12.safetensors" "$TMP/bad4_$threads/checkpoint-12.safetensors"
done
expect 3 "$GYRE" pack "$TMP/data" "$TMP/data.gyr"
absent "$TMP/data.gyr"
expect 0 "$GYRE" pack "$TMP/data" "$TMP/data.gyr" --max-bad 4
says "$out" '56 images in 3 classes, 4 unreadable ones left out'
expect 0 "$GYRE" eval "$TMP/good" "$TMP/data" --split train --max-bad 4
says "$out" '56 images.*4 unreadable ones skipped'
expect 3 "$GYRE" eval "$TMP/good" "$TMP/data" --split train
expect 3 "$GYRE" predict "$TMP/good" "$TMP/data/train/class_2/image_6.ppm"
says "$err" 'class_2/image_6.ppm: the PNM header is damaged$'
rm -r "$TMP/data/train"
mv "$TMP/kept" "$TMP/data/train"

# ---- an unreadable test image ends the run after its epoch's checkpoint. Once repaired, the run
# ends with the bits and rows of an undisturbed one.
mv "$TMP/data/test/class_1/image_2.ppm" "$TMP/kept.ppm"
echo 'not an image' >"$TMP/data/test/class_1/image_2.ppm"
expect 3 train "$TMP/untested" --epochs 2
says "$err" 'class_1/image_2.ppm'
there "$TMP/untested/checkpoint-6.safetensors"
expect 3 train "$TMP/untested" --epochs 2 --resume
says "$err" 'class_1/image_2.ppm'
mv "$TMP/kept.ppm" "$TMP/data/test/class_1/image_2.ppm"
expect 0 train "$TMP/untested" --epochs 2 --resume
same "$TMP/good/checkpoint-12.safetensors" "$TMP/untested/checkpoint-12.safetensors"
for folder in good untested; do sed 's/,[^,]*$//' "$TMP/$folder/metrics.csv" >"$TMP/$folder.rows"; done
same "$TMP/good.rows" "$TMP/untested.rows"

# ---- a packed file that was damaged
head -c 5000 "$TMP/data.gyr" >"$TMP/cut.gyr"
expect 3 "$GYRE" train mlp "$TMP/cut.gyr" --batch 5 --out "$TMP/cut"
says "$err" 'cut.gyr: 5000 bytes, its header says [1-9][0-9]*$'

# ---- a damaged checkpoint is named, and the one before is taken
expect 0 train "$TMP/whole" --epochs 6
expect 0 train "$TMP/damaged" --epochs 6
rm "$TMP/damaged/checkpoint-36.safetensors"
head -c 3000 "$TMP/whole/checkpoint-30.safetensors" >"$TMP/damaged/checkpoint-30.safetensors"
expect 0 "$GYRE" info "$TMP/damaged"
says "$out" 'checkpoint-24'
expect 0 train "$TMP/damaged" --epochs 6 --resume
says "$err" 'checkpoint-30.safetensors'
same "$TMP/whole/checkpoint-36.safetensors" "$TMP/damaged/checkpoint-36.safetensors"
for step in 24 30 36; do : >"$TMP/damaged/checkpoint-$step.safetensors"; done
expect 3 train "$TMP/damaged" --epochs 6 --resume
says "$err" 'checkpoint-36.safetensors.*no older one can be used'
expect 3 "$GYRE" eval "$TMP/damaged" "$TMP/data"

# ---- a checkpoint that does not fit: each change is told, and nothing is trained or tested with it
# fits_not SENTENCE FROM TO: makes a checkpoint in which a text of the header is another of the same
# length. It is neither resumed nor tested.
fits_not()
{
    rm -rf "$TMP/misfit"
    mkdir "$TMP/misfit"
    sed "s/$2/$3/" "$TMP/whole/checkpoint-36.safetensors" >"$TMP/misfit/checkpoint-36.safetensors"
    if cmp -s "$TMP/whole/checkpoint-36.safetensors" "$TMP/misfit/checkpoint-36.safetensors"; then bad "no '$2' in a checkpoint"; fi
    expect 3 train "$TMP/misfit" --epochs 8 --resume
    says "$err" "misfit/checkpoint-36.safetensors: $1"
    says "$err" 'no older one can be used'
    absent "$TMP/misfit/checkpoint-42.safetensors"
}
fits_not "the run's seed was 7, this net's is 1" 'gyre.seed":"1"' 'gyre.seed":"7"'
fits_not "the run's optimizer was kind 2, this net's is 0" 'gyre.optimizer":"0"' 'gyre.optimizer":"2"'
fits_not 'counters -6, 36, 0 do not fit this net' 'gyre.updates":"36"' 'gyre.updates":"-6"'
fits_not 'it is of step 96, not of the step that its name says' 'gyre.batches":"36"' 'gyre.batches":"96"'
fits_not 'counters 99, 36, 0 do not fit this net' 'gyre.updates":"36"' 'gyre.updates":"99"'
old=$(grep -ao 'train.sums":"[^"]*' "$TMP/whole/checkpoint-36.safetensors" | head -n 1)
spoilt() # spoilt FROM TO: as above, but the net itself is as it was, so that it can still be tested
{
    rm -rf "$TMP/misfit"
    mkdir "$TMP/misfit"
    sed "s/$1/$2/" "$TMP/whole/checkpoint-36.safetensors" >"$TMP/misfit/checkpoint-36.safetensors"
    if cmp -s "$TMP/whole/checkpoint-36.safetensors" "$TMP/misfit/checkpoint-36.safetensors"; then bad "no '$1' in a checkpoint"; fi
    expect 3 train "$TMP/misfit" --epochs 8 --resume
    says "$err" "misfit/checkpoint-36.safetensors: its note of the epoch's sums is damaged"
    absent "$TMP/misfit/checkpoint-42.safetensors"
    expect 0 "$GYRE" eval "$TMP/misfit" "$TMP/data"
}
# the sum of losses, samples and right ones of the epoch: of equal length, and none can be
first=$(echo "$old" | sed 's/.*:"//; s/ .*//')
for wrong in nan -inf 1e999; do
    spoilt "$first 60" "$(printf "%-${#first}s" "$wrong") 60"
done
spoilt "$first 60 " "$first 99 "
spoilt "$first 60 " "$first -6 "
fits_not "metadata 'gyre.batches' is missing or not a number: not a checkpoint of Gyre" 'gyre.batches"' 'gyre.butches"'
expect 3 "$GYRE" eval "$TMP/misfit" "$TMP/data"
says "$err" "metadata 'gyre.batches' is missing or not a number"
fits_not "metadata 'gyre.pending' is missing or not a number" 'gyre.pending":"0"' 'gyre.pending":"x"'
fits_not "tensor 'fc2.bias' is missing" '"fc2.bias"' '"fc2.bios"'
expect 3 "$GYRE" eval "$TMP/misfit" "$TMP/data"
says "$err" "tensor 'fc2.bias' is missing"
expect 3 "$GYRE" predict "$TMP/misfit" "$TMP/data/train/class_0/image_0.ppm"
says "$err" "tensor 'fc2.bias' is missing"
fits_not "tensor 'momentum.fc3.bias' is missing" '"momentum.fc3.bias"' '"momentum.fc3.bios"'
expect 0 "$GYRE" eval "$TMP/misfit" "$TMP/data" # which needs no momentum
fits_not "tensor 'fc3.weight' has shape \[128,3\]; the net has \[3,128\]" '"shape":\[3,128\]' '"shape":[128,3]'
expect 3 train "$TMP/whole" --epochs 8 --resume --optimizer adamw
says "$err" "the run's optimizer was kind 0, this net's is 2"
"$GYRE" zoo mlp --size 16 --channels 3 --classes 3 >"$TMP/larger.net"
expect 0 "$GYRE" export "$TMP/whole" "$TMP/small.safetensors"
expect 3 "$GYRE" import "$TMP/small.safetensors" --net "$TMP/larger.net" --out "$TMP/no.safetensors"
says "$err" "small.safetensors: tensor 'fc1.weight' has shape \[256,432\]; the net has \[256,768\]"
absent "$TMP/no.safetensors"

# ---- other classes than the net's
make_images "$TMP/more" 5 4 12 3
expect 3 "$GYRE" eval "$TMP/whole" "$TMP/more"
says "$err" 'the data set has 5 classes, the net 3'

# ---- a loss that is not finite: where, which images, its own exit code; the last checkpoint stands
expect 5 train "$TMP/wild" --epochs 40 --lr 1000000 --momentum 0.99 --schedule constant --checkpoint-every 1
says "$err" 'step [0-9]* is not finite'
says "$err" 'class_[012]/image_[0-9]*.ppm'
there "$(newest "$TMP/wild")"

# ---- two runs in one folder: the second is refused while the first writes there. A killed run does
# not lock out the next.
in_use() # in_use FOLDER PROCESS COMMAND...
{
    folder=$1 process=$2
    shift 2
    expect 2 "$@"
    says "$err" "$folder is being written already, by process $process on .*; two at once would remove each other.s files"
}
wait_for() # wait_for FILE
{
    waited=0
    while [ ! -s "$1" ] && [ $waited -lt 200 ]; do
        waited=$((waited + 1))
        sleep 0.05
    done
}
"$GYRE" train mlp "$TMP/data" --size 12 --batch 10 --lr .01 --out "$TMP/both" --epochs 100000 >/dev/null 2>&1 </dev/null &
pid=$!
wait_for "$TMP/both/checkpoint-6.safetensors"
in_use "$TMP/both" $pid train "$TMP/both" --epochs 1 --overwrite
in_use "$TMP/both" $pid train "$TMP/both" --epochs 1 --resume
awk 'BEGIN { for (i = 0; i < 300; i++) print i % 2, i % 7 + 1 ":1" }' >"$TMP/rows.svm"
in_use "$TMP/both" $pid "$GYRE" glm train "$TMP/rows.svm" "$TMP/rows.model" --out "$TMP/both"
kill -9 $pid
wait $pid 2>/dev/null
there "$TMP/both/run.lock"
last=$(newest "$TMP/both" | sed 's/.*-\([0-9]*\).*/\1/')
expect 0 train "$TMP/both" --steps $((last + 6)) --resume
absent "$TMP/both/run.lock"
"$GYRE" glm generate "$TMP/g.blocks" --rows 40000000 --features 3000 >/dev/null 2>&1 </dev/null &
pid=$!
wait_for "$TMP/g.blocks.lock"
in_use "$TMP/g.blocks" $pid "$GYRE" glm convert "$TMP/rows.svm" "$TMP/g.blocks"
kill -9 $pid
wait $pid 2>/dev/null
expect 0 "$GYRE" glm convert "$TMP/rows.svm" "$TMP/g.blocks"
absent "$TMP/g.blocks.lock"
rm -f "$TMP"/g.blocks*

# ---- a full disk
disk=$TMP/disk
mkdir "$disk"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=1500k gyre-test "$disk" 2>/dev/null; then
    trap 'umount "$disk" 2>/dev/null; [ -z "$own_tmp" ] || rm -rf "$own_tmp"' EXIT
    expect 0 train "$TMP/room" --epochs 6 --keep 9
    bytes=$(wc -c <"$TMP/room/checkpoint-6.safetensors")
    mount -o "remount,size=$((bytes * 5 / 2 / 1024 + 60))k" "$disk"
    expect 3 train "$disk/run" --epochs 6 --keep 9
    says "$err" 'checkpoint-18.safetensors.*No space left'
    absent "$disk/run/checkpoint-18.safetensors"
    if [ -z "$(find "$disk/run" -name "*part*")" ]; then ok; else bad "left over in $disk/run"; fi
    same "$TMP/room/checkpoint-12.safetensors" "$disk/run/checkpoint-12.safetensors"
    mount -o remount,size=40m "$disk"
    expect 0 train "$disk/run" --epochs 6 --keep 9 --resume
    same "$TMP/room/checkpoint-36.safetensors" "$disk/run/checkpoint-36.safetensors"
    umount "$disk"
else
    skip 'no tmpfs can be mounted here: a full disk'
fi

# ---- a file that becomes larger than allowed: its name and the limit, and no part of it is left
(ulimit -f 40; "$GYRE" train mlp "$TMP/data" --size 12 --batch 10 --lr .01 --out "$TMP/limited" --epochs 2 >"$out" 2>"$err") </dev/null
got=$?
if [ $got = 3 ]; then ok; else bad "code $got under a limit"; cat "$err"; fi
says "$err" 'limited/checkpoint-6.safetensors: cannot be written: File too large; the limit of this process is [1-9][0-9]* bytes$'
if [ -z "$(find "$TMP/limited" -name '*.part*')" ]; then ok; else bad "$(ls "$TMP/limited")"; fi

# ---- closed standard input and output: no file takes their numbers, nothing is written into one
"$GYRE" train mlp "$TMP/data" --size 12 --batch 10 --lr .01 --out "$TMP/closed" --epochs 2 <&- >&- 2>&-
got=$?
if [ $got = 0 ]; then ok; else bad "code $got with closed descriptors"; fi
same "$TMP/good/checkpoint-12.safetensors" "$TMP/closed/checkpoint-12.safetensors"
sed 's/,[^,]*$//' "$TMP/closed/metrics.csv" >"$TMP/closed.rows"
same "$TMP/good.rows" "$TMP/closed.rows"

# ---- a path that is too long is refused, not cut
long=$TMP/$(awk 'BEGIN { for (i = 0; i < 500; i++) printf "./././././" }')here
expect 2 train "$long" --epochs 1
says "$err" 'the path .* has [0-9]* bytes; at most 4095 are taken'
expect 2 "$GYRE" glm train "$TMP/rows.svm" "$long"
says "$err" 'the path .* has [0-9]* bytes; at most 4095 are taken'
expect 2 "$GYRE" eval "$long" "$TMP/data"
middle=$TMP/$(awk 'BEGIN { for (i = 0; i < 250; i++) printf "./././././" }')deep
expect 0 train "$middle" --epochs 1
there "$TMP/deep/checkpoint-6.safetensors"
expect 0 "$GYRE" glm train "$TMP/rows.svm" "$middle.model" -q
there "$TMP/deep.model"

# ---- a folder that cannot be written
: >"$TMP/file"
expect 3 train "$TMP/file/run" --epochs 1
says "$err" "$TMP/file"
# ---- a class without a sample is a warning: a folder that is empty, a label that is far too large
mkdir "$TMP/data/train/class_9" "$TMP/data/test/class_9"
expect 0 train "$TMP/empty" --epochs 1
says "$err" "^gyre: warning: the training data: class 3 ('class_9') of 4 has no sample$"
expect 0 "$GYRE" pack "$TMP/data" "$TMP/empty.gyr"
says "$err" "empty.gyr: class 3 ('class_9') of 4 has no sample$"
mkdir "$TMP/data/train/class_8" "$TMP/data/test/class_8"
expect 0 train "$TMP/empty2" --epochs 1
says "$err" "the training data: 2 of 5 classes have no sample, the first is class 3 ('class_8')$"
rmdir "$TMP/data/"*/class_[89]
expect 0 train "$TMP/full" --epochs 1
if grep -q 'no sample' "$err"; then bad 'a warning where each class has samples'; else ok; fi
mkdir "$TMP/label"
printf '\000\000\010\003\000\000\000\004\000\000\000\002\000\000\000\002abcdefghijklmnop' >"$TMP/label/train-images-idx3-ubyte"
printf '\000\000\010\001\000\000\000\004\000\001\000\377' >"$TMP/label/train-labels-idx1-ubyte"
expect 0 "$GYRE" train mlp "$TMP/label" --test-data none --size 2 --batch 2 --steps 1 --out "$TMP/labels"
says "$err" "the training data: 253 of 256 classes have no sample, the first is class 2 ('2')$"

# ---- names that speak to the terminal: no control character is printed, whatever prints them
escape=$(printf "\033") speaks=$(printf 'red\033[2J\rgyre: all is well\302\233m')
mkdir -p "$TMP/odd/train/$speaks" "$TMP/odd/train/plain" "$TMP/odd/test"
cp "$TMP/data/train/class_0/"* "$TMP/odd/train/$speaks/"
cp "$TMP/data/train/class_1/"* "$TMP/odd/train/plain/"
cp -r "$TMP/odd/train/." "$TMP/odd/test"
quiet() # quiet CODE COMMAND...: its output has no control character but ends of lines
{
    expect "$@"
    if cat "$out" "$err" | tr -d '\n' | grep -q "$(printf '[\001-\037\177]')" || grep -q "$(printf '\302\233')" "$out" "$err"; then
        bad "control characters: $*"
    else
        ok
    fi
}
quiet 0 "$GYRE" info "$TMP/odd"
says "$out" 'red.x1b\[2J.x0dgyre: all is well.xc2.x9bm$'
quiet 0 "$GYRE" train mlp "$TMP/odd" --size 12 --batch 10 --lr .01 --epochs 1 --out "$TMP/oddrun" --json
quiet 0 "$GYRE" eval "$TMP/oddrun" "$TMP/odd"
quiet 0 "$GYRE" predict "$TMP/oddrun" "$TMP/odd/test/$speaks/image_1.ppm"
quiet 0 "$GYRE" info "$TMP/oddrun" --tensors
echo 'no image' >"$TMP/odd/train/$speaks/image_0$escape[31m.ppm"
quiet 3 "$GYRE" train mlp "$TMP/odd" --size 12 --batch 10 --out "$TMP/oddrun2" --json
says "$err" 'image_0.x1b'
quiet 3 "$GYRE" predict "$TMP/oddrun" "$TMP/odd/train/$speaks/image_0$escape[31m.ppm"
quiet 2 "$GYRE" plan "$escape[31mnet"
quiet 2 "$GYRE" "$escape[31m"
latin=$(printf 'caf\351') lines=$(printf 'two\nlines')
mkdir -p "$TMP/latin/train/$latin" "$TMP/latin/train/$lines" "$TMP/latin/test"
cp "$TMP/data/train/class_0/"* "$TMP/latin/train/$latin/"
cp "$TMP/data/train/class_1/"* "$TMP/latin/train/$lines/"
cp -r "$TMP/latin/train/." "$TMP/latin/test"
expect 0 "$GYRE" train mlp "$TMP/latin" --size 12 --batch 10 --epochs 1 --out "$TMP/latinrun"
expect 0 "$GYRE" eval "$TMP/latinrun" "$TMP/latin"
if grep -q 'are the classes the same' "$err"; then bad 'a name is not that of its note'; else ok; fi

# ---- few bytes that ask for more memory than there is: said before any of it is taken
left=$(awk '/^(MemAvailable|SwapFree):/ { kb += $2 } END { print int(kb / 1000000) }' /proc/meminfo 2>/dev/null || :)
if [ "${left:-0}" -lt 1 ] || [ "$left" -gt 120 ]; then
    skip "memory of ${left:-unknown} GB: what needs more than there is"
else
    printf -- '+1 4200000000:1\n-1 5:1\n' >"$TMP/vast.svm"
    expect 3 "$GYRE" glm train "$TMP/vast.svm" "$TMP/vast.model"
    says "$err" 'vast.svm:1:4: id 4200000000, but the memory that is available has room for the weights of [0-9]* features; .*--features.*--hash-bits'
    expect 3 "$GYRE" glm train "$TMP/vast.svm" "$TMP/vast.model" --lenient
    expect 4 "$GYRE" glm train "$TMP/vast.svm" "$TMP/vast.model" --features 4200000000
    says "$err" 'vast.svm: a model of 4200000000 features needs [0-9]* bytes at least; [0-9]* are available'
    expect 0 "$GYRE" glm convert "$TMP/vast.svm" "$TMP/vast.blocks"
    expect 4 "$GYRE" glm train "$TMP/vast.blocks" "$TMP/vast.model"
    absent "$TMP/vast.model"
    expect 0 "$GYRE" glm train "$TMP/vast.svm" "$TMP/vast.model" --hash-bits 12
    expect 0 "$GYRE" glm predict "$TMP/vast.svm" "$TMP/vast.model"
    printf 'input 2000x2000x3\nlinear 700\nlinear 3\nsoftmax\n' >"$TMP/vast.net"
    expect 4 "$GYRE" train "$TMP/vast.net" "$TMP/data" --batch 1 --steps 1 --out "$TMP/vast"
    says "$err" 'a memory block needs [0-9]* bytes; [0-9]* are available'
    expect 4 "$GYRE" train resnet18 "$TMP/data" --batch 60 --size 4096 --steps 1 --out "$TMP/vast"
fi
finish
