#!/bin/sh
# SPDX-License-Identifier: MIT
# 'gyre train' in random company. A draw is a net and some options; what holds of all runs is held:
#   again    recipe.txt of the run repeats it
#   recipe   its options in a recipe are those of the command line
#   resume   a run that ended after any of its steps goes on as if it had not
#   packed   packed files of the same images train the same
#   ranks    two processes share the shards of one
#   eval     says what the last test of the training said
# Weights and metrics are the same bits; the speed alone may differ. Options that cannot go together
# are refused in one sentence. A draw that fails is shrunk: options go while the same claim fails.
#
#   e2e_random.sh [FIRST COUNT]    draws FIRST, FIRST + 1, ... (1 16)
. "$(dirname "$0")/e2e.inc"
first=${1:-1} count=${2:-16}
make_images "$TMP/data/train" 3 12 16 1
make_images "$TMP/data/test" 3 4 16 2
for split in train test; do
    expect 0 "$GYRE" pack "$TMP/data" "$TMP/$split.gyr" --split $split
done
cat >"$TMP/small.net" <<'END'
input 16x16x3
conv 4 3x3
bn
relu
maxpool 2x2
dropout 0.1
linear 3
softmax
END
expect 0 "$GYRE" train "$TMP/small.net" "$TMP/data" --epochs 1 --batch 6 --out "$TMP/first"
expect 0 "$GYRE" export "$TMP/first" "$TMP/start.safetensors"

# What may be drawn: a row at most once, one of its ways. r: a recipe may hold it; c: the command
# line alone.
cat >"$TMP/table" <<'END'
r | batch 1 | batch 5 | batch 12 | batch 40
r | epochs 1 | epochs 3 | steps 1 | steps 8
r | optimizer lars; skip none | optimizer adamw | optimizer lamb | optimizer lars-unscaled
r | nesterov
r | lr .003 | lr 1e-2 | lr +0.1
r | momentum 0.5 | momentum 0
r | final-lr 0.001 | schedule step; milestones .5,1 | schedule poly; power 1 | schedule constant
r | warmup-epochs 0.7 | warmup-epochs 1; warmup-from 0.01
r | weight-decay 0 | weight-decay 0.01
r | smoothing 0.1
r | clip 0.5
r | ema 0.9
r | accumulate 2 | recompute
r | pad-crop 2 | resized-crop | jitter 0.3
r | flip
r | mixup 0.4 | cutmix 1
r | resize 18
r | mean .3,0.4,5e-1; std .2,.3,.4
r | val-split 0.25
r | shards 1 | shards 2 | shards 4 | sync-bn
r | dtype bf16
r | seed 0 | seed 123456789012
c | threads 1
c | isa ref
c | bucket 0.01
c | loader-threads 1
c | names cat,dog,hen
c | weights START
END

# draw NUMBER: the options, a line each: 'r flip', 'c threads 1'; each row comes once in four
draw()
{
    awk -F' *[|] *' -v seed="$1" -v start="$TMP/start.safetensors" '
        BEGIN { srand(seed) }
        rand() < 0.25 {
            n = split($(2 + int(rand() * (NF - 1))), way, / *; */)
            for (i = 1; i <= n; i++) {
                sub(/START/, start, way[i])
                print $1, way[i]
            }
        }' "$TMP/table"
}

# words PATTERN: the options of $options whose line begins so, for the command line
words() { sed -n "s/^$1 /--/p" "$options"; }

# train RUN NET DATA OPTION...: 1 where it fails; else RUN.weights and RUN.metrics
train()
{
    run=$at/$1
    shift
    # shellcheck disable=SC2154 # out, err: of e2e.inc
    "$GYRE" train "$@" --out "$run" --log error >"$out" 2>"$err" </dev/null || return 1
    "$GYRE" export "$run" "$run.weights" >/dev/null || return 1
    cut -d, -f1-8 "$run/metrics.csv" >"$run.metrics"
}

# alike CLAIM RUN: says CLAIM unless RUN ended as A did
alike()
{
    for kind in weights metrics; do
        cmp -s "$at/A.$kind" "$at/$2.$kind" || { echo "$1"; return; }
    done
}

# claims: those that do not hold of $net with $options; or 'refused' alone
claims()
{
    rm -rf "$at"
    mkdir "$at"
    every="--checkpoint-every 1 --keep 1000"
    # shellcheck disable=SC2046,SC2086 # options are words
    {
        if ! train A "$net" "$TMP/data" $(words '[rc]') $every; then
            if [ "$(wc -l <"$err")" = 1 ] && [ ! -e "$at/A" ]; then echo refused; else echo sentence; fi
            return
        fi
        train B "$net" "$TMP/data" $(words c) --recipe "$at/A/recipe.txt" --checkpoint-every 1
        alike again B
        sed -n 's/^r //p' "$options" >"$at/recipe"
        train C "$net" "$TMP/data" $(words c) --recipe "$at/recipe"
        alike recipe C
        cp -R "$at/A" "$at/D"
        steps=$(find "$at/D" -name 'checkpoint-*' | wc -l)
        find "$at/D" -name 'checkpoint-*' | sed 's/.*checkpoint-\([0-9]*\).*/\1 &/' | sort -n |
            sed "1,$((number % steps + 1))d; s/^[0-9]* //" | xargs rm -f
        train D "$net" "$TMP/data" $(words '[rc]') $every --resume
        alike resume D
        if ! grep -q -e val-split -e names "$options"; then
            train E "$net" "$TMP/train.gyr" $(words '[rc]') --test-data "$TMP/test.gyr"
            alike packed E
        fi
        if grep -q 'shards [24]' "$options"; then
            train F "$net" "$TMP/data" $(words '[rc]') --ranks 2
            alike ranks F
        fi
        if ! grep -q val-split "$options"; then
            how=$(words '[rc]' | grep -e dtype -e isa)
            "$GYRE" eval "$at/A" "$TMP/data" $how --json >"$out" 2>"$err"
            sed 's/.*"top1":\([0-9.e-]*\).*/\1/' "$out" | cat - "$at/A.metrics" |
                awk -F, 'NR == 1 { top1 = $1 }
                    NR > 2 && $6 != "" { tested = $6 }
                    END { if ((top1 - tested) ^ 2 > 1e-12) print "eval" }'
        fi
    } | tr '\n' ' '
}

# shrink CLAIM: leaves what CLAIM needs in $options
shrink()
{
    lines=$(wc -l <"$options")
    while [ "$lines" -gt 0 ]; do
        cp "$options" "$options.all"
        sed -i "${lines}d" "$options"
        case " $(claims) " in *" $1 "*) ;; *) cp "$options.all" "$options" ;; esac
        lines=$((lines - 1))
    done
}

# one NUMBER: a draw; $failing has the claims that do not hold
one()
{
    number=$1 options=$TMP/options at=$TMP/at net=$TMP/small.net
    [ $((number % 3)) != 0 ] || net=mlp
    draw "$number" >"$options"
    grep -q -e ' batch' "$options" || echo 'r batch 6' >>"$options"
    grep -q -e ' epochs' -e ' steps' "$options" || echo 'r epochs 2' >>"$options"
    [ "$net" != mlp ] || echo 'r size 16' >>"$options"
    failing=$(claims)
}

refused=0
for number in $(seq "$first" $((first + count - 1))); do
    one "$number"
    case $failing in
    '') ok ;;
    'refused ') ok; refused=$((refused + 1)) ;;
    *) shrink "${failing%% *}"
       bad "draw $number: $failing of $net $(words '[rc]' | tr '\n' ' ')" ;;
    esac
done
echo "$count draws, $refused of them refused"
if [ $((2 * refused)) -le $((count + 1)) ]; then ok; else bad "too many were refused"; fi

# ---- planted faults: a command that loses a line of recipe.txt, and one that resumes otherwise
real=$GYRE GYRE=$TMP/faulty
export real
# planted CLAIM OPTION <SCRIPT: a draw finds it, and the shrinker leaves OPTION; without batch and
# size some nets do not train
planted()
{
    cat >"$GYRE"
    chmod +x "$GYRE"
    number=0 found=
    while [ -z "$found" ] && [ "$number" -lt 100 ]; do
        one $((number + 1))
        case " $failing" in *" $1 "*) found=1 ;; esac
    done
    shrink "$1"
    if [ -n "$found" ] && grep -q "^$2" "$options" && [ "$(wc -l <"$options")" -le 3 ]; then
        ok
    else
        bad "planted fault of $1, draw $number: $(words '[rc]' | tr '\n' ' ')"
    fi
}
planted again 'r flip' <<'END'
#!/bin/sh
"$real" "$@" || exit
case "$*" in train*--recipe*|train*--ranks*|[!t]*) exit ;; esac
while [ "$1" != --out ]; do shift; done
sed -i /^flip/d "$2/recipe.txt"
END
planted resume 'r ema' <<'END'
#!/bin/sh
case "$*" in
*--ema*--resume*) exec "$real" "$@" --ema 0.5 ;;
*) exec "$real" "$@" ;;
esac
END
finish
