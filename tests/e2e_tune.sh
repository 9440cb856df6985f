#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre tune: the file of block sizes is written, used, merged. Mistakes in it get one sentence with
# file and line. Every bit of a training stays. Speed is not judged.
. "$(dirname "$0")/e2e.inc"

T=$TMP/tune.txt
make_images "$TMP/data/train" 2 6 16 1
cat >"$TMP/small.net" <<'NET'
input 16x16x3
conv 16 3x3
bn
relu
conv 24 3x3
bn
relu
avgpool 16
linear 2
softmax
NET
expect 0 "$GYRE" plan "$TMP/small.net"

# ---- tuning writes a file that has its source
expect 0 "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1 --out "$TMP/new/folder/tune.txt"
says "$out" '^ *1  conv  .* 4x16x16x3 \* 3x3/1 -> 16 '
says "$out" '^sum, weighted by count'
says "$TMP/new/folder/tune.txt" '^gyre-tune 1$'
if [ "$(ls "$TMP/new/folder")" = tune.txt ]; then ok; else bad 'something else lies beside the file'; fi

# ---- the usual place, and GYRE_TUNE
expect 0 "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1
there "$XDG_CACHE_HOME/gyre/tune.txt"
rm -rf "$XDG_CACHE_HOME"
expect 0 env -u XDG_CACHE_HOME HOME="$TMP/home" "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1
there "$TMP/home/.cache/gyre/tune.txt"
expect 0 env GYRE_TUNE="$T" "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1
there "$T"

# ---- rows of this machine are used, and every bit of a training stays
model=$(env GYRE_TUNE=off "$GYRE" plan "$TMP/small.net" | sed -n '1s/.* on \(.*\), [0-9]* threads\{0,1\}.*, [^,]*, [0-9]* parameters/\1/p')
set=$(env GYRE_TUNE=off "$GYRE" plan "$TMP/small.net" | sed -n '1s/.*, \([^,]*\), [0-9]* parameters/\1/p')
row() # row MACHINE SET SIZES
{
    printf 'gyre-tune 1\non %s | %s\nfrom a test\n' "$1" "$2"
    printf 'conv-dgrad f32 gemm 4x16x16x16 16x16x24 3x3 stride 1x1 pad 1x1 dil 1x1 groups 1 %s\n' "$3"
}
train() { "$GYRE" train "$TMP/small.net" "$TMP/data" --batch 4 --epochs 1 --threads "$1" --out "$2" --tune "$3"; }
row "$model" "$set" 'strip=8 items=64 gain=1.5' >"$T"
if [ "$set" = 'reference kernels' ]; then
    skip 'the reference has no block sizes'
else
    expect 0 "$GYRE" plan "$TMP/small.net" --batch 4 --tune "$T"
    says "$out" "^1 ops have block sizes from $T"
    expect 0 "$GYRE" plan "$TMP/small.net" --batch 5 --tune "$T"
    if grep -q 'have block sizes' "$out"; then bad 'a row of another shape was used'; else ok; fi
    expect 0 train 2 "$TMP/run1" off
    expect 0 train 2 "$TMP/run2" "$T"
    expect 0 train 1 "$TMP/run3" "$T"
    same "$(newest "$TMP/run1")" "$(newest "$TMP/run2")"
    same "$(newest "$TMP/run1")" "$(newest "$TMP/run3")"
fi

# ---- rows of other machines and sets are passed over, and kept when the file is written again
for wrong in "Some other processor|$set" "$model|other"; do
    row "${wrong%|*}" "${wrong#*|}" 'strip=8' >"$T"
    expect 0 "$GYRE" plan "$TMP/small.net" --batch 4 --tune "$T" --log info
    says "$err" 'tune.txt: 1 of 1 rows are for other processors or kernel sets: passed over'
    if grep -q 'have block sizes' "$out"; then bad "a row of $wrong was used"; else ok; fi
done
expect 0 "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1 --out "$T"
says "$T" '^on .* | other$'
says "$T" '^conv-dgrad f32 gemm 4x16x16x16 16x16x24 3x3 stride 1x1 pad 1x1 dil 1x1 groups 1 strip=8 gain='

# ---- a file with a mistake: where it was named, an error; in the usual place, a warning
wrong() # wrong PATTERN: of $T, named and not
{
    expect 3 "$GYRE" plan "$TMP/small.net" --batch 4 --tune "$T"
    says "$err" "$1"
    if [ "$(wc -l <"$err")" = 1 ]; then ok; else bad "not one sentence for '$1'"; fi
    mkdir -p "$XDG_CACHE_HOME/gyre"
    cp "$T" "$XDG_CACHE_HOME/gyre/tune.txt"
    expect 0 "$GYRE" plan "$TMP/small.net" --batch 4
    says "$err" "$1.*: block sizes are not used"
    rm -rf "$XDG_CACHE_HOME"
}
printf 'hello\n' >"$T"
wrong "tune.txt:1: a file of block sizes begins with 'gyre-tune 1', not 'hello'"
: >"$T"
wrong "tune.txt:0: a file of block sizes begins with"
row "$model" "$set" 'strip=1000000' >"$T"
wrong "tune.txt:4: strip is '1000000'; it must be in 8 .. 4096"
row "$model" "$set" 'strip=-1' >"$T"
wrong "tune.txt:4: strip is '-1'"
row "$model" "$set" 'strap=16' >"$T"
wrong "tune.txt:4: there is no size of this name, not 'strap=16'"
row "$model" "$set" 'strip=16' | sed 's/4x16x16x16/4x16x16/' >"$T"
wrong "tune.txt:4: the input's shape is four numbers"
row "$model" "$set" 'strip=16' | sed 's/4x16x16x16/99999999999x16x16x16/' >"$T"
wrong "tune.txt:4: the input's shape is four numbers"
row "$model" "$set" 'strip=16' | sed 's/f32/f33/' >"$T"
wrong "tune.txt:4: the type is f32, bf16 or f16, not 'f33'"
row "$model" "$set" 'strip=16' | sed 's/gemm/gemm+x/' >"$T"
wrong "tune.txt:4: a kernel is a name"
row "$model" "$set" '' >"$T"
wrong "tune.txt:4: a row has a pass, a type, a kernel, a shape and sizes"
row "$model" "$set" 'strip=16' | sed '/^from/d' >"$T"
wrong "tune.txt:3: a row must stand below the lines on and from"
printf 'gyre-tune 1\non nothing\n' >"$T"
wrong "tune.txt:2: after on come the processor's model"
printf 'gyre-tune 1\nfoo bar\n' >"$T"
wrong "tune.txt:2: a line begins with on, from"
printf 'gyre-tune 1\n\000\001\n' >"$T"
wrong "tune.txt:2: not a text file"
head -c 2000000 /dev/zero >"$T"
wrong "tune.txt: 2000000 bytes"
printf 'gyre-tune 1\nbroken\n' >"$T"
expect 3 "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1 --out "$T"
says "$err" "tune.txt:2: a line begins with"
says "$T" '^broken$'

# ---- places that cannot be
expect 3 "$GYRE" plan "$TMP/small.net" --tune "$TMP/nowhere.txt"
says "$err" 'nowhere.txt: there is no such file of block sizes'
: >"$TMP/file"
expect 3 "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1 --out "$TMP/file/tune.txt"
says "$err" 'a file is in the way of this folder'
mkdir "$TMP/locked"
chmod 555 "$TMP/locked"
if [ "$(id -u)" = 0 ]; then
    skip 'a folder that cannot be written: root may write everywhere'
else
    expect 3 "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1 --out "$TMP/locked/tune.txt"
    says "$err" 'locked/tune.txt: cannot be written: Permission denied'
fi
expect 3 "$GYRE" tune "$TMP/small.net" --batch 4 --runs 1 --out /proc/tune.txt
says "$err" '/proc/tune.txt: cannot be written'
expect 2 "$GYRE" tune "$TMP/small.net" --tune off
says "$err" 'there is no place for block sizes'

# ---- words
expect 0 "$GYRE" help tune
says "$out" 'gyre tune resnet50 --batch 16'
expect 0 "$GYRE" knobs
says "$out" '^GYRE_TUNE '
says "$out" '^GYRE_PIN '
expect 0 env GYRE_PIN=sideways "$GYRE" plan "$TMP/small.net"
says "$err" "GYRE_PIN is 'sideways', not auto, on or off: ignored"
for pin in auto on off; do
    expect 0 "$GYRE" plan "$TMP/small.net" --threads 2 --pin $pin --log debug
    if [ "$set" != 'reference kernels' ]; then says "$err" '2 threads are .*bound to processors'; fi
done
finish
