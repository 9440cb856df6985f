#!/bin/sh
# SPDX-License-Identifier: MIT
# Test accuracy over the batch, a line an optimiser: trains every row of a grid, writes a CSV row by
# row and an SVG. There an optimiser with --skip none has a line of its own, NAME-all.
#
#   large_batch.sh GRID DATA FOLDER     FOLDER/results.csv, FOLDER/results.svg, FOLDER/runs/
#
# GRID is a text; # begins a comment. 'all OPTION...' gives options to the lines below it. Every
# other line is
#   NET OPTIMIZER BATCH GHOST SEED,SEED,... [OPTION...]
# BATCH: images an update. GHOST: images that batch norms see together, as shards of that size; -:
# all at once. NET may be a file, whose name must not have blanks; options are those of 'gyre
# train', --recipe among them.
#
# It continues where it was stopped. A row in the CSV is not run again, and an interrupted run
# resumes from its newest checkpoint. It may run unattended: nohup sh large_batch.sh GRID DATA
# FOLDER >log 2>&1 & Variables: GYRE (build/gyre), LIBRARY (build/libgyre.a), CC (cc), NICE (10).
set -eu
export LC_ALL=C
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
[ $# -eq 3 ] || { sed -n '/^#   large_batch/s/^#   /usage: /p' "$0" >&2; exit 2; }
grid=$1 data=$2 folder=$3
GYRE=${GYRE:-$root/build/gyre} LIBRARY=${LIBRARY:-$root/build/libgyre.a} CC=${CC:-cc} NICE=${NICE:-10}
csv=$folder/results.csv
mkdir -p "$folder/runs"
[ -s "$csv" ] || echo 'net,optimizer,batch,ghost,seed,epochs,test_accuracy,seconds,status,options' >"$csv"

# last METRICS COLUMN: of the last row that was tested
last() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) { if ($i == name) k = i; if ($i == "test_accuracy") t = i } next }
    $t != "" { value = $k } END { print value }' "$1"; }

# train RUN NET BATCH GHOST SEED OPTIMIZER [OPTION...]: returns the command's exit code; its time is
# added to RUN/seconds
train()
{
    run=$1 net=$2 batch=$3 ghost=$4 seed=$5 optimizer=$6
    shift 6
    if [ "$ghost" != - ] && [ "$ghost" -lt "$batch" ]; then
        set -- --batch "$ghost" --shards $((batch / ghost)) "$@"
    else
        set -- --batch "$batch" "$@"
    fi
    begin=$(date +%s) code=0
    nice -n "$NICE" "$GYRE" train "$net" "$data" --optimizer "$optimizer" --seed "$seed" --out "$run" --resume "$@" \
        >>"$run.log" 2>&1 || code=$?
    echo $(($(cat "$run.seconds" 2>/dev/null || echo 0) + $(date +%s) - begin)) >"$run.seconds"
    return $code
}

# row NET OPTIMIZER BATCH GHOST SEED OPTION...
row()
{
    net=$1 optimizer=$2 batch=$3 ghost=$4 seed=$5
    shift 5
    key="$(basename "$net"),$optimizer,$batch,$ghost,$seed"
    if awk -v key="$key," -v options="\"$*\"" 'index($0, key) == 1 && substr($0, length($0) - length(options) + 1) == options { found = 1 }
        END { exit !found }' "$csv"; then
        return 0
    fi
    run=$folder/runs/$(echo "$key" | tr , -)-$(printf '%s' "$*" | cksum | cut -d' ' -f1)
    code=0
    train "$run" "$net" "$batch" "$ghost" "$seed" "$optimizer" "$@" || code=$?
    case $code in
    0) status=done ;;
    5) status=diverged ;; # a loss that is no number
    6) echo "stopped: $key; start again to go on"; exit 6 ;;
    *) echo "failed with $code: $key $*"; tail -n 2 "$run.log"; failed=$((failed + 1)); return 0 ;;
    esac
    accuracy=0 epochs=0
    if [ -s "$run/metrics.csv" ]; then
        accuracy=$(last "$run/metrics.csv" test_accuracy) epochs=$(last "$run/metrics.csv" epoch)
    fi
    [ "$status" = done ] || accuracy=0
    printf '%s,%s,%s,%s,%s,"%s"\n' "$key" "${epochs:-0}" "${accuracy:-0}" "$(cat "$run.seconds")" "$status" "$*" >>"$csv"
    tail -n 1 "$csv"
    rm -f "$run"/checkpoint-*.safetensors # the row is written: only the curve is kept
    draw
}

# Means over seeds, accuracy in percent over the logarithm of the batch. Each of several nets has
# lines of its own.
draw()
{
    [ "$(wc -l <"$csv")" -gt 1 ] || return 0
    [ -x "$folder/curve" ] || "$CC" -std=c99 -D_POSIX_C_SOURCE=200809L -O2 -I "$root" -o "$folder/curve" "$here/curve.c" "$LIBRARY" \
        -lm -lpthread -ldl
    awk -F, 'NR > 1 { key = $1 " " $2 (/--skip none/ ? "-all" : "") " " $3; if (!(key in n)) order[++keys] = key
                      nets += !($1 in net); net[$1]; n[key]++; sum[key] += $7 }
        END { for (i = 1; i <= keys; i++) { split(order[i], w, " ")
              printf "%s%s %.4f %.4f\n", (nets > 1 ? w[1] ":" : ""), w[2], log(w[3]) / log(2),
                  100 * sum[order[i]] / n[order[i]] } }' "$csv" |
        sort -k1,1 -k2,2n | "$folder/curve" "$folder/results.svg" "Test accuracy over the batch" "log2 of images an update" "%"
}

common='' failed=0
while read -r first rest; do
    case $first in
    ''|'#'*) continue ;;
    all) common=${rest%%#*}; continue ;;
    esac
    # shellcheck disable=SC2086 # words on purpose
    set -- $first ${rest%%#*}
    [ $# -ge 5 ] || { echo "$grid: a line is NET OPTIMIZER BATCH GHOST SEEDS [OPTION...]: $first $rest" >&2; exit 2; }
    net=$1 optimizer=$2 batch=$3 ghost=$4 seeds=$5
    shift 5
    for seed in $(echo "$seeds" | tr , ' '); do
        # shellcheck disable=SC2086
        row "$net" "$optimizer" "$batch" "$ghost" "$seed" $common "$@" </dev/null
    done
done <"$grid"
draw
[ "$failed" = 0 ] || { echo "$failed rows failed; start again to try them once more"; exit 1; }
