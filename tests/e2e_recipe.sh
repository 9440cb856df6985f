#!/bin/sh
# SPDX-License-Identifier: MIT
# Recipes: what is built in, bad lines, the command line over a recipe, and that recipe.txt of a run
# repeats it to the same bits.
. "$(dirname "$0")/e2e.inc"
here=$(cd "$(dirname "$0")" && pwd)
make_images "$TMP/data/train" 3 12 16 1
make_images "$TMP/data/test" 3 4 16 2

# ---- the list, and what each built-in recipe must say of itself
expect 0 "$GYRE" recipe list
names=$(sed -n 's/^\([a-z][a-z0-9.-]*\)  *[A-Za-z].*/\1/p' "$out")
for wanted in goyal-2017 you-2017 mlperf-lars airbench-cifar10 fashion-128 fashion-4096; do
    if printf '%s\n' "$names" | grep -qx -e "$wanted"; then ok; else bad "no recipe $wanted"; fi
done
for recipe in $names; do
    expect 0 "$GYRE" recipe show "$recipe"
    says "$out" "^# $recipe: [^ ]"
    says "$out" '^# reaches: [0-9]'
    says "$out" '^# source: [^ ]'
    cp "$out" "$TMP/recipe"
    # its lines are options: only the data are missing
    expect 3 "$GYRE" train mlp "$TMP/nothing" --recipe "$recipe"
    tells "$err" "$TMP/nothing"
    expect 3 "$GYRE" train mlp "$TMP/nothing" --recipe "$TMP/recipe"
done

# ---- mistakes: one sentence with file and line, exit code 2, no folder
wrong() # wrong LINES SENTENCE
{
    printf "$1" >"$TMP/bad"
    expect 2 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/bad" --out "$TMP/none"
    tells "$err" "$2"
    if [ "$(wc -l <"$err")" = 1 ] && [ ! -s "$out" ]; then ok; else bad "not one sentence for: $1"; fi
    absent "$TMP/none"
}
wrong '# a recipe\nbacth 12\n' "$TMP/bad:2: train has no option 'bacth'; did you mean batch?"
wrong 'batch 12\n\nqqqqqqqq 3\n' "$TMP/bad:3: train has no option 'qqqqqqqq'; 'gyre help train' lists them"
wrong 'batch 0\n' "$TMP/bad:1: batch takes a whole number in 1 .. 1048576, not '0'"
wrong 'lr 0.1\nbatch 6\nlr 0.2 # again\n' "$TMP/bad:3: lr was given in line 1 already"
wrong 'batch # of images\n' "$TMP/bad:1: batch needs a value: N"
wrong 'batch 12 13\n' "$TMP/bad:1: a line is an option and its value"
wrong '\nflip maybe\n' "$TMP/bad:2: flip takes no value but 'on' or 'off', not 'maybe'"
wrong 'optimizer sdg\n' "$TMP/bad:1: optimizer takes one of sgd|lars|adamw"
wrong 'ranks 4\n' "$TMP/bad:1: ranks is for the command line"
wrong 'out runs\n' "$TMP/bad:1: out is for the command line"
wrong 'recipe you-2017\n' "$TMP/bad:1: recipe is for the command line"
wrong 'nesterov\nmomentum 0\n' '--nesterov needs --momentum above 0'
expect 2 "$GYRE" train mlp "$TMP/data" --recipe goyal-2071
tells "$err" "'goyal-2071' is neither a file nor a recipe; did you mean goyal-2017?"
expect 2 "$GYRE" recipe show nothing-like-it
tells "$err" "'gyre recipe list' has those"
expect 2 "$GYRE" recipe print
tells "$err" 'usage: gyre recipe'
head -c 9000 /dev/zero | tr '\0' '#' >"$TMP/long"
expect 2 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/long"
tells "$err" 'larger than 8192 bytes'
expect 2 "$GYRE" train mlp "$TMP/data" --recipe
tells "$err" 'recipe needs a value'

# ---- a run: options of the recipe, then those of the command line, wherever they stand
cat >"$TMP/small.txt" <<'END'
# small: three epochs of a small net
# reaches: 3 epochs
batch 6
epochs 3    # a comment behind a value
lr 0.01
flip
mean 0.5,0.25,0.125
schedule poly
END
expect 0 "$GYRE" train mlp "$TMP/data" --epochs 2 --recipe "$TMP/small.txt" --flip=off --size 16 --out "$TMP/a"
says "$out" "^recipe: $TMP/small.txt; as it was run: $TMP/a/recipe.txt"
says "$out" '^run: 12 steps of 6 images'
says "$TMP/a/recipe.txt" '^# small: three epochs'
says "$TMP/a/recipe.txt" '^batch 6$'
tells "$TMP/a/recipe.txt" "epochs 2  # $TMP/small.txt has 3"
tells "$TMP/a/recipe.txt" "flip off  # $TMP/small.txt has on"
says "$TMP/a/recipe.txt" '^mean 0.5,0.25,0.125$'
says "$TMP/a/recipe.txt" '^schedule poly$'
says "$TMP/a/recipe.txt" '^size 16 '
expect 0 "$GYRE" train mlp "$TMP/data" --epochs 2 --batch 6 --lr .01 --mean .5,.25,.125 --schedule poly --size 16 --out "$TMP/b"
says "$TMP/b/recipe.txt" '^epochs 2$'
expect 0 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/a/recipe.txt" --out "$TMP/c"
for run in a b c; do
    "$GYRE" export "$TMP/$run" "$TMP/$run.safetensors" >/dev/null
done
same "$TMP/a.safetensors" "$TMP/b.safetensors"
same "$TMP/a.safetensors" "$TMP/c.safetensors"

# ---- a resumed run: what its checkpoint says instead of the call, and only that
kept() { "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --schedule constant --lr .01 "$@"; }
expect 0 kept --epochs 3 --out "$TMP/kept" --val-split .25 --mean .491,.25,.125 --std .3 --resize 20
expect 0 kept --epochs 4 --out "$TMP/kept" --resume
says "$TMP/kept/recipe.txt" '^epochs 4$'
says "$TMP/kept/recipe.txt" '^val-split 0.25$'
says "$TMP/kept/recipe.txt" '^mean 0.491,0.25,0.125$'
says "$TMP/kept/recipe.txt" '^std 0.3,0.3,0.3$'
says "$TMP/kept/recipe.txt" '^resize 20$'
expect 0 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/kept/recipe.txt" --out "$TMP/kept-again"
for run in kept kept-again; do
    "$GYRE" export "$TMP/$run" "$TMP/$run.safetensors" >/dev/null
    tail -n 1 "$TMP/$run/metrics.csv" | cut -d, -f 1-8 >"$TMP/$run.row"
done
same "$TMP/kept.safetensors" "$TMP/kept-again.safetensors"
same "$TMP/kept.row" "$TMP/kept-again.row"
expect 0 kept --epochs 1 --out "$TMP/usual"
expect 0 kept --epochs 2 --out "$TMP/usual" --resume
if grep -q '^mean\|^std\|^resize\|^val' "$TMP/usual/recipe.txt"; then bad 'what is usual is in recipe.txt'; else ok; fi

# ---- in the checkpoint and in JSON
if grep -q '"note.recipe":"# small: three epochs' "$TMP"/a/checkpoint-12.safetensors; then ok; else bad 'no note of the recipe'; fi
if grep -q '"note.recipe"' "$TMP"/b/checkpoint-12.safetensors; then bad 'a note of no recipe'; else ok; fi
expect 0 "$GYRE" info "$TMP/a"
says "$out" '^recipe:'
says "$out" '^  # small: three epochs of a small net'
expect 0 "$GYRE" info "$TMP/a" --json
json
expect 0 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/small.txt" --size 16 --out "$TMP/d" --json
json
tells "$out" '"recipe":"# small: three epochs of a small net'

# ---- with ranks: every process reads the same file
expect 0 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/small.txt" --size 16 --out "$TMP/two" --ranks 2 --shards 2 --threads 1
expect 0 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/small.txt" --size 16 --out "$TMP/one" --shards 2 --threads 1
"$GYRE" export "$TMP/one" "$TMP/one.safetensors" >/dev/null
"$GYRE" export "$TMP/two" "$TMP/two.safetensors" >/dev/null
same "$TMP/one.safetensors" "$TMP/two.safetensors"

# ---- --accumulate auto: as much at a time as fits. recipe.txt has the choice, and repeats it to
# the same bits.
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 18 --accumulate auto --epochs 2 --optimizer lamb --out "$TMP/auto"
says "$out" '^update: 18 images as [0-9]* batches of [0-9]*; batch norms see'
chosen=$(sed -n 's/^update: 18 images as \([0-9]*\) batches of \([0-9]*\);.*/\1 \2/p' "$out")
if [ $((${chosen% *} * ${chosen#* })) = 18 ]; then ok; else bad "an update of $chosen"; fi
says "$TMP/auto/recipe.txt" "^batch ${chosen#* }\$"
expect 0 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/auto/recipe.txt" --out "$TMP/again"
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 18 --accumulate auto --epochs 4 --optimizer lamb --out "$TMP/auto" --resume
says "$out" 'as the run has it'
expect 0 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/auto/recipe.txt" --epochs 4 --out "$TMP/again" --resume
for run in auto again; do
    "$GYRE" export "$TMP/$run" "$TMP/$run.safetensors" >/dev/null
done
same "$TMP/auto.safetensors" "$TMP/again.safetensors"
# its steps are updates of --batch images, however these are cut; so are those between checkpoints
micros() { "$GYRE" train mlp "$TMP/data" --schedule constant --lr .01 --size 16 "$@"; }
expect 0 micros --batch 6 --accumulate 3 --steps 6 --out "$TMP/cut"
expect 0 micros --batch 18 --accumulate auto --steps 5 --checkpoint-every 2 --out "$TMP/cut" --resume
for step in 6 12 15; do there "$TMP/cut/checkpoint-$step.safetensors"; done
absent "$TMP/cut/checkpoint-8.safetensors"
says "$TMP/cut/recipe.txt" '^steps 15$'
expect 0 micros --batch 6 --accumulate 3 --steps 15 --out "$TMP/cut-by-hand"
expect 0 "$GYRE" train mlp "$TMP/data" --recipe "$TMP/cut/recipe.txt" --out "$TMP/cut-again"
for run in cut cut-by-hand cut-again; do
    "$GYRE" export "$TMP/$run" "$TMP/$run.safetensors" >/dev/null
done
same "$TMP/cut.safetensors" "$TMP/cut-by-hand.safetensors"
same "$TMP/cut.safetensors" "$TMP/cut-again.safetensors"
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 9 --accumulate auto --epochs 1 --ranks 2 --mem 200M --out "$TMP/both"
expect 4 "$GYRE" train mlp "$TMP/data" --size 16 --batch 18 --accumulate auto --mem 1M --out "$TMP/none"
tells "$err" 'with a batch of 1; the limit is 1.0 MB'
if [ "$(wc -l <"$err")" = 1 ]; then ok; else bad 'not one sentence of a batch that does not fit'; fi
absent "$TMP/none"
expect 2 "$GYRE" train mlp "$TMP/data" --size 16 --mem 1G --out "$TMP/none"
tells "$err" '--mem is for --accumulate auto'
expect 2 "$GYRE" train mlp "$TMP/data" --accumulate some
tells "$err" "accumulate takes 'auto' or a whole number in 1 .. 1048576, not 'some'"

# ---- each update rule by its name, a checkpoint of another rule, and what the ratio leaves alone
rules=$("$GYRE" train mlp "$TMP/data" --optimizer none 2>&1 |
    sed -n 's/.*optimizer takes one of \([a-z|-]*\), not.*/\1/p' | tr '|' ' ')
case $rules in 'sgd lars '*) ok ;; *) bad "the command names no update rules: '$rules'" ;; esac
for rule in $rules; do
    expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 1 --optimizer $rule --out "$TMP/$rule"
    "$GYRE" export "$TMP/$rule" "$TMP/$rule.safetensors" >/dev/null
    expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 1 --optimizer $rule --skip none --out "$TMP/$rule.all"
    "$GYRE" export "$TMP/$rule.all" "$TMP/$rule.all.safetensors" >/dev/null
    if cmp -s "$TMP/$rule.safetensors" "$TMP/$rule.all.safetensors"; then bad "--skip none does not change $rule"; else ok; fi
done
if cmp -s "$TMP/lars.safetensors" "$TMP/lars-unscaled.safetensors"; then bad 'both LARS are one'; else ok; fi
expect 3 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 2 --optimizer lars --out "$TMP/lars-unscaled" --resume
tells "$err" "the run's optimizer was kind 4, this net's is 1"

# ---- fit for a cluster, and a cluster's file with a loop. The network is so slow that bf16 pays on
# any machine.
cat >"$TMP/four.cluster" <<'END'
hosts 2
ranks-per-host 2
inside 10G 1us
nic 1M 10us
compute 10ms
note of two hosts
END
expect 0 "$GYRE" fit resnet20 --mem 300M --ranks 4 --cluster "$TMP/four.cluster" --target-batch 128
says "$out" '^choice: batch [0-9]*, [0-9]* an update, .* wire bf16: [0-9]* images/s expected, [0-9.]* % efficient'
says "$out" '^of two hosts'
# the command that it prints has what it planned with
expect 0 "$GYRE" fit resnet20 --mem 300M --ranks 4 --cluster "$TMP/four.cluster" --target-batch 128 --optimizer adamw --size 40 --classes 7 \
    --ema .9 --threads 1
says "$out" '^  gyre launch --ranks 4 --hosts HOSTS -- gyre train resnet20 DATA --batch .* --wire bf16 '
says "$out" ' --wire bf16 --optimizer adamw --ema 0.9 --size 40 --classes 7 --threads 1$'
expect 0 "$GYRE" fit resnet20 --mem 300M --ranks 4 --cluster "$TMP/four.cluster" --target-batch 128 --json
json
expect 2 "$GYRE" fit resnet20 --mem 300M --ranks 6 --cluster "$TMP/four.cluster"
tells "$err" '6 ranks are not some of the 2 hosts with 2 ranks each'
expect 2 "$GYRE" fit resnet20 --mem 300M --ranks 4 --cluster "$TMP/four.cluster" --target-batch 129
tells "$err" 'no whole number for each of 4 ranks'
expect 2 "$GYRE" fit resnet20 --mem 300M --ranks 4
tells "$err" '--ranks and --cluster go together'
echo 'include one.cluster' >"$TMP/two.cluster"
echo 'include two.cluster' >"$TMP/one.cluster"
for command in 'fit mlp --mem 1G --ranks 2' 'net simulate'; do
    expect 3 "$GYRE" $command --cluster "$TMP/one.cluster"
    tells "$err" 'two.cluster:1:9: the file includes itself in a loop of 2'
    if [ "$(wc -l <"$err")" = 1 ]; then ok; else bad 'not one sentence of a loop'; fi
done
for file in ddl skylake-1024 skylake-1600; do
    sed 's/^hosts .*/hosts 4/' "$here/../tools/examples/$file.cluster" >"$TMP/$file.cluster"
    cp "$here/../tools/examples/skylake.cluster" "$TMP"
    expect 0 "$GYRE" net simulate --cluster "$TMP/$file.cluster" --samples 1
    says "$out" 'published   images/s'
    says "$out" '^published: '
done

# ---- and gyre why takes it, too
expect 0 "$GYRE" why mlp "$TMP/data" --recipe "$TMP/small.txt" --size 16 --measure 2 --batch 5
says "$out" 'batch 5'
finish
