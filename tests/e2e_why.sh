#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre bench, why and fit: what they print adds up, JSON is JSON, mistakes are one sentence. Figures
# of speed are not judged.
. "$(dirname "$0")/e2e.inc"

# python CODE: runs it with the file $out as argument; without python3 it is skipped
python()
{
    if ! command -v python3 >/dev/null 2>&1; then
        skip 'no python3'
    elif python3 -c "import json, sys
d = json.loads(open(sys.argv[1]).read(), parse_constant=lambda x: 1 / 0)
$1" "$out"; then
        ok
    else
        bad "$1: $(head -c 300 "$out")"
    fi
}
mistake() # mistake PATTERN ARGS...
{
    pattern=$1
    shift
    expect 2 "$GYRE" "$@"
    says "$err" "$pattern"
    if [ "$(wc -l <"$err")" = 1 ] && [ ! -s "$out" ]; then ok; else bad "not one sentence: gyre $*"; fi
}

# ---- bench
expect 0 "$GYRE" bench resnet20 --batch 2 --runs 1
says "$out" '^measured: [0-9]* GFLOP/s in float'
says "$out" '^  6 x 2x32x32x16 \* 3x3/1 -> 16  *|'
says "$out" '^sum, weighted by count'
says "$out" '^convolution, weight gradient  *20 '
says "$out" 'at the limits [0-9.]* images/s'
expect 0 "$GYRE" bench lenet5 --batch 2 --runs 1 --csv
says "$out" '^program,op,layer,shape,kernel,us,GFLOP/s,% of peak,GB/s,% of bandwidth,limit us,% of limit$'
if awk -F, 'NF != 12 { exit 1 }' "$out"; then ok; else bad 'a line of the CSV has not 12 fields'; fi
expect 0 "$GYRE" bench lenet5 --batch 2 --runs 1 --infer
says "$out" '^eval '

# ---- why
make_images "$TMP/data/train" 3 12 16 1
expect 0 "$GYRE" why lenet5 --batch 4 --measure 3
says "$out" '^a step takes .* images/s'
says "$out" '^furthest from their limits'
says "$out" '^--batch  *4 -> 8 '
says "$out" '^--recompute  *off -> on '
expect 0 "$GYRE" why resnet20 --batch 2 --measure 2 --ops
says "$out" '^all ops'
expect 0 "$GYRE" why mlp "$TMP/data" --size 16 --batch 6 --measure 3 --flip --epochs 3 --out "$TMP/never"
says "$out" 'folder data'
says "$out" '^gyre pack  *folder -> packed'
absent "$TMP/never"
expect 0 "$GYRE" why lenet5 --batch 4 --measure 3 --accumulate 2 --json
python 'assert abs(sum(d["percent"].values()) - 100) < 0.1, d["percent"]'
python 'assert d["binds"] in ("input", "compute", "memory", "none"), d["binds"]'
python 'assert len(d["furthest"]) == 5 and len(d["ops"]) > 10 and d["images_per_second"] > 0'
python 'assert all(o["us"] > 0 and o["limit_us"] > 0 for o in d["ops"])'
python 'assert {k["knob"] for k in d["knobs"]} >= {"--batch", "--recompute", "--threads"}, d["knobs"]'
expect 0 "$GYRE" why mlp "$TMP/data" --size 16 --batch 6 --measure 3 --json
python 'assert d["data"] == "folder" and 0 <= d["waits"] <= 3'
mistake "measure takes a whole number in 1 .. 100000, not '0'" why lenet5 --measure 0
mistake "no option '--mesure'; did you mean --measure?" why lenet5 --mesure 3
mistake 'usage: gyre why \[options\] NET \[DATA\]; 0 arguments were given' why
mistake 'did you mean lenet5?' why lenet6
expect 3 "$GYRE" why lenet5 "$TMP/nothing"
says "$err" '/nothing: no such file or folder$'

# ---- fit
expect 0 "$GYRE" fit resnet20 --mem 100M
says "$out" '^choice: batch [0-9]*, .*images/s expected$'
says "$out" '^  gyre train resnet20 DATA --batch [0-9]*'
expect 0 "$GYRE" fit resnet20 --mem 60M --target-batch 96 --type f32 --optimizer adamw
says "$out" '^  gyre train resnet20 DATA --batch [0-9]* --accumulate [0-9]* .*--optimizer adamw'
expect 0 "$GYRE" fit resnet20 --mem 60M --target-batch 96 --json
python 'c = d["choice"]; assert c["fits"] and c["bytes"] <= d["limit_bytes"] == 60 << 20 and c["batch"] * c["accumulate"] == 96'
python 'best = max(c["images_per_second"] for c in d["candidates"] if c["fits"]); assert d["choice"]["images_per_second"] >= .98 * best'
expect 0 "$GYRE" fit lenet5 --mem 1.5GiB --type bf16 --json
python 'assert d["choice"]["batch"] == 256 and all(c["dtype"] == "bf16" for c in d["candidates"])'
# a path with a byte that is no UTF-8: JSON stays JSON
odd=$TMP/odd$(printf '\377').net
plain_net >"$odd"
expect 0 "$GYRE" fit "$odd" --mem 60M --target-batch 4 --json
json
expect 0 "$GYRE" why "$odd" --batch 2 --measure 1 --json
json
# the line that it prints is one that train takes, within the memory that it named
"$GYRE" fit mlp --mem 40M --size 16 --classes 3 --target-batch 6 >"$out"
line=$(sed -n 's/^  gyre train mlp DATA //p' "$out")
# shellcheck disable=SC2086
expect 0 "$GYRE" train mlp "$TMP/data" $line --steps 2 --out "$TMP/fitted"
mistake 'fit needs --mem SIZE' fit lenet5
mistake "takes a size such as 8G, 900M or 1000000, not 'lots'" fit lenet5 --mem lots
mistake "takes a size such as .* not '8X'" fit lenet5 --mem 8X
mistake "takes a size such as .* not '-8G'" fit lenet5 --mem=-8G
mistake "type takes one of any|f32|bf16, not 'f64'" fit lenet5 --mem 1G --type f64
mistake 'did you mean resnet50?' fit resnet5O --mem 1G
expect 4 "$GYRE" fit resnet50 --mem 100M
says "$err" 'resnet50 needs .* with a batch of 1.*; the limit is 104.9 MB'
finish
