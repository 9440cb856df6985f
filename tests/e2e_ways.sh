#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre train with options drawn at random, in each way over processes, beside one process. The last
# checkpoint must be that of one process, to its last byte, and so must the tests in metrics.csv. Of
# some combinations the way goes on from a checkpoint of one process. What fails is shrunk: options
# are left out as long as it fails. At the end ways forget an option, which must be noticed.
#
# Variables: SEED (1), RUNS (14, combinations).
. "$(dirname "$0")/e2e.inc"
SEED=${SEED:-1} RUNS=${RUNS:-14}
make_images "$TMP/data/train" 4 24 20 1
make_images "$TMP/data/test" 4 5 20 2
tiny_net >"$TMP/tiny.net"
plain_net >"$TMP/plain.net"
split_net >"$TMP/split.net"

# below N: a number of the sequence in $number, 0 .. N - 1 (Park, Miller 1988)
state=$SEED
below()
{
    state=$((state * 48271 % 2147483647))
    number=$((state / 64 % $1))
}

# Choices of options. A line is a group, of which one or none is taken, and begins with its kind.
# a: for all ways. b: not where an update has several batches; their number then divides an epoch's.
# s: not with stages. n: needs the norms of all gradients: no stages, split layers or servers.
choices()
{
    cat <<'END'
a --optimizer adamw --lr .002|--momentum .5 --nesterov|--momentum 0|--nesterov
n --optimizer lars --lr 1|--optimizer lamb --lr .005|--optimizer lars-unscaled --lr 1
n --clip .5
s --recompute
a --weight-decay .02|--weight-decay 0
a --schedule step|--schedule poly --power 1|--schedule constant|--final-lr .001
a --warmup-epochs 1|--warmup-epochs 1 --warmup-from .01
a --smoothing .1
a --ema .9|--ema .5
a --pad-crop 2|--resized-crop
a --flip
a --jitter .3
a --mixup .4|--cutmix .5
a --dtype bf16
a --seed 77
a --checkpoint-every 6|--checkpoint-every 3
a --test-data none
b --val-split .2
a --loader-threads 2
a --threads 2
a --bucket .001
a --skip none
b --batch 3|--batch 5
END
}

# Ways: KINDS of choices, the net, options of one process and of the way, what starts the way
ways='
abs|tiny|--shards 4|--shards 4|ranks 2
abns|tiny|--shards 4|--shards 4|ranks 4
ab|tiny|--shards 4|--shards 4 --pipeline 2|ranks 2
abs|split|--shards 4|--shards 4|ranks 2
abs|tiny|--shards 2|--shards 2 --sync server|servers 2 1
a|tiny|--accumulate 3|--micro 3 --pipeline 3 --stage-schedule gpipe|micro 3
ab|plain|--shards 4|--shards 4 --pipeline 2|ranks 4
abs|tiny|--shards 4|--shards 4 --sync server --bucket .001|servers 4 2
abns|tiny|--shards 4|--shards 4|elastic 2
abs|split|--shards 4|--shards 4|ranks 4
abn|plain|--shards 4 --optimizer lamb --lr .005|--shards 4 --optimizer lamb --lr .005 --pipeline 2|lamb 2
'
way_of() { printf '%s' "$ways" | sed -n "$(($1 % 11 + 2))p" | cut -d'|' -f"$2"; }

# draw WAY: lines of options into $TMP/options
draw()
{
    kinds=$(way_of "$1" 1)
    : >"$TMP/options"
    choices >"$TMP/choices"
    while read -r kind line; do
        below 3
        case $kinds in *$kind*) [ $number = 0 ] || continue ;; *) continue ;; esac
        below "$(printf '%s' "$line" | tr -cd '|' | wc -c | awk '{ print $1 + 1 }')"
        printf '%s\n' "$line" | cut -d'|' -f$((number + 1)) >>"$TMP/options"
    done <"$TMP/choices"
    case $(way_of "$1" 5) in lamb*) sed -i '/--optimizer\|--nesterov\|--clip/d' "$TMP/options" ;; esac
    grep -q -e '--optimizer l' "$TMP/options" && sed -i '/--optimizer adamw/d' "$TMP/options"
    grep -q -e '--optimizer adamw\|--optimizer lamb' "$TMP/options" && sed -i '/^--nesterov\|^--momentum/d' "$TMP/options"
}

# train FOLDER BY OPTIONS...: BY is what stands in the last column of a way
train()
{
    folder=$1 by=$2
    shift 2
    set -- "$GYRE" train "$TMP/$net.net" "$TMP/data" --epochs 2 --out "$folder" "$@"
    case $by in
    one) "$@" ;;
    servers*) "$GYRE" launch --workers "$(echo "$by" | cut -d' ' -f2)" --servers "${by##* }" -- "$@" ;;
    elastic*) "$GYRE" launch --ranks "${by##* }" --elastic "1:${by##* }" -- "$@" ;;
    *) "$GYRE" launch --ranks "${by##* }" -- "$@" ;;
    esac >"$folder.log" 2>&1 </dev/null
}
tests()
{
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["test_accuracy"] != "" { print $at["step"], $at["test_loss"], $at["test_accuracy"], $at["test_top5"] }' "$1/metrics.csv"
}

# differs WAY RESUMES FORGOTTEN OPTIONS...: says how a way differs from one process; empty: it does
# not. FORGOTTEN: an option that only the one process gets.
differs()
{
    way=$1 resumes=$2 forgotten=$3
    shift 3
    net=$(way_of "$way" 2)
    start=$(way_of "$way" 5)
    batch=4 rest=
    case " $* " in *' --batch 3 '*) batch=3 ;; *' --batch 5 '*) batch=5 ;; esac
    for word in "$@"; do
        case $word in --batch | 3 | 5) [ "$word" != --batch ] && [ "$last" != --batch ] && rest="$rest $word" ;; *) rest="$rest $word" ;; esac
        last=$word
    done
    whole=$batch
    case $start in micro*) whole=$((3 * batch)) ;; esac
    rm -rf "$TMP/one" "$TMP/all"
    # shellcheck disable=SC2046,SC2086
    train "$TMP/one" one $(way_of "$way" 3) --threads 1 --batch $batch $rest $forgotten ||
        { echo "one process: $(tail -n 1 "$TMP/one.log")"; return; }
    mkdir "$TMP/all"
    if [ "$resumes" = 1 ]; then
        first=$(find "$TMP/one" -name 'checkpoint-*' | sed 's/.*checkpoint-\([0-9]*\).*/\1 &/' | sort -n | sed 1q)
        cp "${first#* }" "$TMP/all"
    fi
    # shellcheck disable=SC2046,SC2086
    train "$TMP/all" "$start" $(way_of "$way" 4) --threads 1 --batch $whole $rest --resume ||
        { echo "it ended badly: $(tail -n 1 "$TMP/all.log")"; return; }
    cmp -s "$(newest "$TMP/one")" "$(newest "$TMP/all")" || { echo 'other bytes in the last checkpoint'; return; }
    tests "$TMP/one" | tail -n 1 >"$TMP/one.tests"
    tests "$TMP/all" | tail -n 1 >"$TMP/all.tests"
    cmp -s "$TMP/one.tests" "$TMP/all.tests" || echo "other tests: $(cat "$TMP/all.tests"), of one process $(cat "$TMP/one.tests")"
}

# Lines of $TMP/options are left out as long as it fails.
shrink()
{
    again=1
    while [ $again = 1 ]; do
        again=0 lines=$(wc -l <"$TMP/options")
        while [ "$lines" -gt 0 ]; do
            sed "${lines}d" "$TMP/options" >"$TMP/fewer"
            # shellcheck disable=SC2046
            if [ -n "$(differs "$1" "$2" '' $(cat "$TMP/fewer"))" ]; then
                cp "$TMP/fewer" "$TMP/options"
                again=1
            fi
            lines=$((lines - 1))
        done
    done
}

run=0
while [ $run -lt "$RUNS" ]; do
    way=$((SEED + run - 1)) run=$((run + 1))
    draw $way
    below 2
    resumes=$number
    # shellcheck disable=SC2046
    why=$(differs $way $resumes '' $(cat "$TMP/options"))
    if [ -z "$why" ]; then
        ok
        continue
    fi
    bad "seed $SEED, run $run, $(way_of $way 5) $(way_of $way 4), resumes $resumes: $why: $(tr '\n' ' ' <"$TMP/options")"
    shrink $way $resumes
    # shellcheck disable=SC2046
    echo "    it also fails with: $(tr '\n' ' ' <"$TMP/options"): $(differs $way $resumes '' $(cat "$TMP/options"))"
done

# ---- options that a way forgets
run=0
for option in '--momentum .5' '--ema .9' '--smoothing .1' '--flip' '--mixup .4' '--seed 5' '--warmup-epochs 1' '--dtype bf16'; do
    if [ -n "$(differs $run 0 "$option")" ]; then ok; else bad "$(way_of $run 5) without $option is not noticed"; fi
    run=$((run + 1))
done
finish
