#!/bin/sh
# SPDX-License-Identifier: MIT
# Recipes: what is built in, bad lines, the command line over a recipe, and that recipe.txt of a run repeats it to the same bits.
. "$(dirname "$0")/e2e.inc"
make_images "$TMP/data/train" 3 12 16 1
make_images "$TMP/data/test" 3 4 16 2

# ---- the list, and what each built-in recipe must say of itself
expect 0 "$GYRE" recipe list
names=$(sed -n 's/^\([a-z][a-z0-9.-]*\)  *[A-Za-z].*/\1/p' "$out")
for wanted in goyal-2017 you-2017 airbench-cifar10 fashion-128; do
    if printf '%s\n' "$names" | grep -qx -e "$wanted"; then ok; else bad "no recipe $wanted"; fi
done
for recipe in $names; do
    expect 0 "$GYRE" recipe show "$recipe"
    says "$out" "^# $recipe: [^ ]"
    says "$out" '^# reaches: [0-9]'
    says "$out" '^# source: [^ ]'
    cp "$out" "$TMP/recipe"
    expect 3 "$GYRE" train mlp "$TMP/nothing" --recipe "$recipe" # its lines are options: only the data are missing
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
tells "$TMP/a/recipe.txt" "epochs 2  # of the command line; $TMP/small.txt: 3"
tells "$TMP/a/recipe.txt" "flip off  # of the command line; $TMP/small.txt: on"
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

# ---- and gyre why takes it, too
expect 0 "$GYRE" why mlp "$TMP/data" --recipe "$TMP/small.txt" --size 16 --measure 2 --batch 5
says "$out" 'batch 5'
finish
