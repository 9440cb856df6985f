#!/bin/sh
# SPDX-License-Identifier: MIT
# straggler.sh OUT [GYRE]: one of four workers is stopped for most of the time. It draws images a
# second and test accuracy over time on Fashion-MNIST: OUT/straggler.csv and OUT/straggler.svg. It
# compares allreduce, a server with one backup worker, an asynchronous server, and one undisturbed
# process. Variables: EPOCHS (default 4), NET (lenet5), BATCH (32), STOPPED (0.6 of each second),
# HOWS (one allreduce backup async), ASYNC (options of the last one: --lr .0125).
set -eu
LC_ALL=C
export LC_ALL
out=$1
gyre=${2:-build/gyre}
data=${MNIST:-/usr/share/datasets/fashion-mnist}
epochs=${EPOCHS:-4} net=${NET:-lenet5} batch=${BATCH:-32} stopped=${STOPPED:-0.6}
mkdir -p "$out"
csv=$out/straggler.csv
echo 'how,seconds,images,images_per_second,test_accuracy' >"$csv"

# stamped HOW IMAGES: a row for each epoch of the JSON lines on standard input; IMAGES a step
stamped()
{
    began=$(date +%s.%N)
    while read -r line; do
        case $line in *'"event":"epoch"'*) ;; *) continue ;; esac
        echo "$line $(date +%s.%N)" | awk -v how="$1" -v each="$2" -v began="$began" '
            function field(name) { match($0, "\"" name "\":[^,}]*"); return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) }
            { seconds = $NF - began; images = field("step") * each
              printf "%s,%.1f,%d,%.0f,%s\n", how, seconds, images, images / seconds, field("test_accuracy") }' >>"$csv"
    done
}

# stop_often FOLDER: rank 3 of the run into FOLDER, until it is gone
stop_often()
{
    process=
    while [ -z "$process" ]; do
        sleep 0.1
        for one in $(pgrep -f "train $net .*$1\$"); do
            if tr '\0' '\n' <"/proc/$one/environ" 2>/dev/null | grep -q '^GYRE_RANK=3$'; then process=$one; fi
        done
    done
    goes=$(echo "$stopped" | awk '{ print 1 - $1 }')
    while kill -STOP "$process" 2>/dev/null; do
        sleep "$stopped"
        kill -CONT "$process" 2>/dev/null || break
        sleep "$goes"
    done
}

# run HOW RANKS IMAGES LAUNCH... -- TRAIN...: four workers, one of them stopped often
run()
{
    how=$1 images=$2 roles=$3
    shift 3
    rm -rf "$out/$how"
    stop_often "$out/$how" &
    stopper=$!
    # shellcheck disable=SC2086
    "$gyre" launch $roles --threads 1 -- "$gyre" train "$net" "$data" --batch "$batch" --epochs "$epochs" --json "$@" --out "$out/$how" |
        stamped "$how" "$images"
    wait $stopper || :
}

rm -rf "$out/one"
for one in ${HOWS:-one allreduce backup async}; do
    case $one in
    one) "$gyre" train "$net" "$data" --batch $((4 * batch)) --epochs "$epochs" --threads 1 --json --out "$out/one" |
        stamped one $((4 * batch)) ;;
    allreduce) run allreduce $((4 * batch)) '--ranks 4' ;;
    backup) run backup $((3 * batch)) '--workers 4 --servers 1' --sync server --backup 1 ;;
    async) # shellcheck disable=SC2086
        run async $((4 * batch)) '--workers 4 --servers 1' --sync async ${ASYNC:---lr .0125} ;;
    esac
done

# Accuracy over time, a line each.
awk -F, 'NR > 1 { n[$1]++; x[$1, n[$1]] = $2; y[$1, n[$1]] = $5; if ($2 > most) most = $2; speed[$1] = $4; if (!seen[$1]++) order[++hows] = $1 }
    END {
        split("#555 #c33 #27a #2a5", colour, " ")
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"400\" font-family=\"sans-serif\" font-size=\"12\">"
        print "<rect width=\"640\" height=\"400\" fill=\"white\"/><path d=\"M60 20V350H620\" fill=\"none\" stroke=\"black\"/>"
        for (a = 0.7; a < 0.96; a += 0.05) printf "<text x=\"20\" y=\"%.0f\">%.2f</text>\n", 354 - (a - 0.7) / 0.25 * 330, a
        printf "<text x=\"520\" y=\"380\">%.0f seconds</text><text x=\"70\" y=\"15\">test accuracy</text>\n", most
        for (h = 1; h <= hows; h++) {
            printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour[h]
            for (i = 1; i <= n[order[h]]; i++) printf "%.1f,%.1f ", 60 + x[order[h], i] / most * 560, 350 - (y[order[h], i] - 0.7) / 0.25 * 330
            printf "\"/>\n<text x=\"400\" y=\"%d\" fill=\"%s\">%s: %s images/s</text>\n", 260 + 20 * h, colour[h], order[h], speed[order[h]]
        }
        print "</svg>"
    }' "$csv" >"$out/straggler.svg"
cat "$csv"
