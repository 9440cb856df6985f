#!/bin/sh
# SPDX-License-Identifier: MIT
# Linear models from the command line. Malformed rows end in one sentence with file, line and
# column. train, predict, convert, inspect and generate work on each other's files. Also:
# liblinear's options, JSON, metrics of a real data set, kill and resume, processes that train
# together.
. "$(dirname "$0")/e2e.inc"
cd "$TMP" || exit 1

# value KEY: the number behind "KEY": on the last line of $out
value() { tail -n 1 "$out" | sed -n "s/.*\"$1\":\\([-0-9.e+]*\\).*/\\1/p"; }
# near A B X: both are numbers and |A - B| <= X |B|
near()
{
    if awk -v a="$1" -v b="$2" -v x="$3" 'BEGIN { exit !(a != "" && b != "" && (a - b) ^ 2 <= (x * b) ^ 2) }'; then ok; else bad "$1 is not within $3 of $2"; fi
}

# ---- help and mistakes
for command in train predict verify convert inspect generate; do
    expect 0 "$GYRE" help glm $command
    says "$out" "^usage: gyre glm $command"
    cp "$out" help.txt
    expect 0 "$GYRE" glm $command --help
    same "$out" help.txt
    if awk 'length($0) > 132 { exit 1 }' "$out"; then ok; else bad "help glm $command has a line over 132 columns"; fi
done
mistake() # mistake PATTERN ARGS...
{
    pattern=$1
    shift
    expect 2 "$GYRE" glm "$@"
    says "$err" "$pattern"
    if [ "$(wc -l <"$err")" = 1 ] && [ ! -s "$out" ]; then ok; else bad "not one sentence: gyre glm $*"; fi
}
mistake "no command 'glm tarin'; did you mean glm train?" tarin x
mistake 'usage: gyre glm train' train
mistake "usage: gyre glm train|predict"
mistake "did you mean --normalize?" train x --normalise
mistake "l2 takes a number.*not 'many'" train x --l2 many
mistake "type 4 is not there.*softmax" train -s 4 x
mistake 'type 13 is not there' train -s 13 x
mistake "take one way" train -c 2 --l2 1 x
mistake "'-C\|-C (search" train -C x
mistake '\-p (errors' train -s 11 -p 0.1 x
mistake 'class-weight takes pairs' train -w1 heavy x
mistake "'-b'" train -b 1 x
mistake 'folds takes a whole number in 2' train -v 1 x
mistake 'take one way' train -c 2 --l2 0 x
mistake '--loss says another one than type 3' train -s 3 --loss squared x

# ---- what is read is not written over
printf '1 1:1 2:1\n-1 2:1\n1 1:2\n-1 1:-1\n1 1:3\n-1 2:2\n1 1:1\n-1 2:3\n' >read.svm
cp read.svm kept.svm
ln read.svm other.svm
expect 0 "$GYRE" glm train read.svm read.model -q
for count in many 3x 0; do
    expect 0 env GYRE_THREADS=$count "$GYRE" glm train read.svm read.model -q
    says "$err" "^gyre: warning: GYRE_THREADS is '$count', not a count in 1 .. 4096: ignored$"
done
expect 0 env GYRE_THREADS=3 "$GYRE" glm train read.svm read.model -q
if [ ! -s "$err" ]; then ok; else bad "GYRE_THREADS=3 is warned of"; fi
# each solver says why it does not fit
mistake '^gyre: no solver for this model: newton: .*; l1: .*; sdca: .* needs an l2 above 0$' train read.svm --loss hinge --l1 1
mistake '^gyre: no solver for this model: newton: [^;]*$' train read.svm --l1 1 --solver newton
mistake "^gyre: there is no solver 'newtn'; there are newton, l1, sdca$" train read.svm --solver newtn
# options that would have no effect
mistake 'without an l2 penalty the optimum may lie nowhere' train read.svm --l2 0
mistake '--balanced is for classes' train read.svm --loss squared --balanced
mistake '--class-weight is for classes' train read.svm --loss squared -w1 2
mistake '--softmax is for classes' train read.svm --loss squared --softmax
mistake '--folds tests on the rows of DATA' train read.svm --folds 2 --test read.svm
mistake '--probability is for the lines of OUT' predict -b 1 read.svm read.model
mistake '--scores is for the lines of OUT' predict --scores read.svm read.model
mistake '--resume is for the checkpoints' train read.svm --resume
mistake '--overwrite is for the checkpoints' train read.svm --overwrite
cp read.model kept.model
spared() # spared FILE ARGS...
{
    spared_=$1
    shift
    mistake "^gyre: $spared_ would be written over" "$@"
    same read.svm kept.svm
    same read.model kept.model
}
spared read.svm train read.svm read.svm
spared read.svm train read.svm other.svm
spared read.svm train kept.svm ./read.svm --test read.svm
spared read.svm train read.svm m.model --trace read.svm
spared m.model train read.svm m.model --trace m.model
spared read.svm predict read.svm read.model read.svm
spared read.model predict read.svm read.model read.model
spared read.svm convert read.svm read.svm
spared read.svm convert kept.svm read.svm other.svm
mistake 'read.svm is there and is no block file' convert kept.svm read.svm
same read.svm kept.svm
expect 0 "$GYRE" glm train read.svm read.svm --folds 2 -q --bias 1 --seed 3
same read.svm kept.svm

# ---- rows that are wrong: exit code 3, one sentence, file, line and column
wrong() # wrong NAME PATTERN TEXT [ARGS]
{
    name_=$1 pattern=$2
    printf "$3" >"$name_"
    shift 3
    expect 3 "$GYRE" glm train "$name_" m.model "$@"
    says "$err" "$name_.*$pattern"
    if [ "$(wc -l <"$err")" = 1 ]; then ok; else bad "not one sentence: $name_"; fi
    absent m.model
}
wrong empty.svm '' ''
wrong unsorted.svm '2:' '1 1:1\n-1 3:1 2:1\n'
wrong twice.svm '1:' '1 2:1 2:1\n-1 3:1\n'
wrong zero.svm '1:' '1 0:1 2:1\n-1 3:1\n'
wrong nan.svm '2:' '1 1:1\n-1 3:nan\n'
wrong inf.svm '1:' '1 1:inf\n-1 3:1\n'
wrong large.svm '1:' '1 4294967297:1\n-1 3:1\n'
wrong label.svm '2:' '1 1:1\nx 1:1\n'
wrong colon.svm '1:' '1 1\n-1 1:1\n'
wrong word.svm '2:' '1 1:1\n-1 1:1 hello\n'
wrong one.svm 'all 2 rows have the label 1' '1 1:1\n1 2:1\n'
wrong many.svm 'more than 1024 different labels' "$(awk 'BEGIN { for (i = 0; i < 1100; i++) printf "%d.5 1:1\\n", i }')"
# not 'all 2 rows have the label 1': the file has both
printf '1 1:1\n-1 1:2\n1 1:3\n' >fold.svm
expect 3 "$GYRE" glm train many.svm --folds 50
says "$err" 'more than 1024 different labels'
expect 3 "$GYRE" glm train fold.svm --folds 3
says "$err" '^gyre: fold.svm: without fold [1-3] there are only 1 of 2 labels; take fewer folds$'
expect 3 "$GYRE" glm train nothing.svm
says "$err" 'nothing.svm'
mkdir folder
expect 3 "$GYRE" glm train folder
# What real files may have: CRLF, no last newline, 0/1 labels, blanks at the end. Blank lines are
# mended.
wrong blank.svm '2:1: a blank line' '1 1:1\n\n-1 1:1\n'
printf '1 1:1 \r\n0 2:1\r\n1 1:2 2:1' >odd.svm
expect 0 "$GYRE" glm train odd.svm odd.model --quiet
if [ -s "$out" ]; then bad 'quiet says something'; else ok; fi
there odd.model
expect 0 "$GYRE" glm train unsorted.svm u.model --lenient
says "$err" 'unsorted.svm: .*first in line 2'
expect 0 "$GYRE" glm convert twice.svm unsorted.svm mended.blocks --lenient
says "$out" 'mended: .*first in .*twice.svm:1'
expect 0 "$GYRE" glm convert twice.svm unsorted.svm mended.blocks --lenient --json
json
expect 3 "$GYRE" glm convert unsorted.svm never.blocks
says "$err" 'unsorted.svm:2:'
absent never.blocks

# ---- generated rows: made, trained on, predicted; blocks and text are the same rows
expect 0 "$GYRE" glm generate g.blocks --rows 20000 --features 3000 --weights planted.model --json
json
planted=$(value log_loss)
expect 0 "$GYRE" glm generate g.svm --rows 20000 --features 3000 --text
says "$out" '^20000 rows of'
expect 0 "$GYRE" glm convert g.svm c.blocks --block-rows 4096
says "$out" '^20000 rows with 780000 entries'
expect 0 "$GYRE" glm inspect g.blocks --json
json
says "$out" '"rows":20000,"entries":780000'
expect 0 "$GYRE" glm inspect g.blocks
says "$out" 'all are 1'
expect 0 "$GYRE" glm predict g.blocks planted.model --json
json
near "$(value log_loss)" "$planted" 1e-6
expect 0 "$GYRE" glm train g.blocks g.model --l2 5 --gap 1e-6 --test g.blocks --json --threads 1
json
says "$out" '"event":"end","status":"ok"'
objective=$(value objective) loss=$(value log_loss)
if awk -v gap="$(value gap)" 'BEGIN { exit !(gap <= 1e-6 && gap > -1e-9) }'; then ok; else bad "gap $(value gap)"; fi
if awk -v a="$loss" -v b="$planted" 'BEGIN { exit !(a > 0 && a < b + 0) }'; then ok; else bad "its own rows: log-loss $loss, planted $planted"; fi
expect 0 "$GYRE" glm train g.svm g2.model --l2 5 --gap 1e-6 --json
near "$(value objective)" "$objective" 2e-6
expect 0 "$GYRE" glm inspect g.model
says "$out" 'a linear model, loss logistic'
expect 0 "$GYRE" glm inspect g.model --json
json
expect 0 "$GYRE" glm predict g.blocks g.model labels.txt --json
near "$(value log_loss)" "$loss" 1e-6
if [ "$(wc -l <labels.txt)" = 20000 ]; then ok; else bad 'labels.txt does not have 20000 lines'; fi
expect 0 "$GYRE" glm predict -b 1 g.blocks g.model shares.txt --quiet
if [ "$(head -n 1 shares.txt)" = 'labels 1 0' ] && [ "$(wc -l <shares.txt)" = 20001 ]; then ok; else bad "shares.txt begins with $(head -n 1 shares.txt)"; fi
if awk 'NR > 1 && ($2 + $3 - 1) ^ 2 > 1e-10 { exit 1 }' shares.txt; then ok; else bad 'probabilities do not sum to 1'; fi
expect 0 "$GYRE" glm predict g.blocks g.model -
if cmp -s "$out" labels.txt; then ok; else bad 'standard output has other labels'; fi
# less memory than the rows take: they are streamed, to the same optimum
expect 0 "$GYRE" glm train c.blocks s.model --l2 5 --gap 1e-4 --memory 2.3 --json
says "$out" '"streamed":true'
near "$(value objective)" "$objective" 1e-4
expect 0 "$GYRE" glm train c.blocks s.model --l2 5 --trace trace.svg
there trace.svg
# damaged files
head -c 100000 g.blocks >cut.blocks
expect 3 "$GYRE" glm train cut.blocks
says "$err" 'cut.blocks'
cp g.blocks flip.blocks
printf '\377\377\377' | dd of=flip.blocks bs=1 seek=50000 conv=notrunc 2>/dev/null
expect 3 "$GYRE" glm train flip.blocks
says "$err" 'flip.blocks.*block'
head -n 40 g.model >cut.model
expect 3 "$GYRE" glm predict g.blocks cut.model
says "$err" 'cut.model:'
expect 3 "$GYRE" glm predict g.blocks g.svm
says "$err" 'g.svm:1:'
if [ -w /dev/full ]; then
    expect 3 "$GYRE" glm predict g.blocks g.model /dev/full
    says "$err" '/dev/full.*No space'
fi
# a file that does not become whole leaves the one before
cp labels.txt kept.txt
(ulimit -f 20; exec "$GYRE" glm predict g.blocks g.model labels.txt --quiet) 2>"$err"
got=$?
if [ $got = 3 ]; then ok; else bad "code $got under a limit"; fi
says "$err" 'labels.txt: cannot be written: File too large'
if cmp -s kept.txt labels.txt && ! ls labels.txt.part* >/dev/null 2>&1; then ok; else bad 'labels.txt is not as it was'; fi
# a model that could not be written is said before rows are read and trained on
for model in no/such.model .; do
    expect 3 "$GYRE" glm train g.blocks $model --json
    tells "$err" "gyre: $model: cannot be written: "
    if [ -s "$out" ]; then bad "$model: trained first"; else ok; fi
done
expect 3 "$GYRE" launch -n 2 --threads 1 -- "$GYRE" glm train g.blocks no/such.model
tells "$err" 'gyre: no/such.model: cannot be written: '
expect 3 "$GYRE" glm train g.blocks traced.model --trace no/such.svg
tells "$err" 'gyre: no/such.svg: cannot be written: '
absent traced.model
expect 0 "$GYRE" glm train read.svm no/such.model --folds 2 --gap 0 --epochs 2
# a model of hashed ids takes rows that are hashed alike, and hashes text itself
expect 0 "$GYRE" glm train g.svm h.model --hash-bits 10
expect 0 "$GYRE" glm predict g.svm h.model
expect 3 "$GYRE" glm predict g.blocks h.model
says "$err" 'hashed to 0 bits.*the model has 10'

# ---- liblinear's options
printf '%s\n' '1 1:1 2:0.5' '-1 1:-1 3:1' '1 2:1 3:-1' '-1 2:-0.5' '1 1:0.3' '-1 1:0.2 3:2' >tiny.svm
for type in 0 1 2 3 5 6 7; do
    expect 0 "$GYRE" glm train -q -s $type -c 2 -e 0.001 -B 1 -m 1 -w1 2 -w-1 .5 tiny.svm tiny$type.model
    says tiny$type.model "^solver_type L[12]R_L"
done
expect 0 "$GYRE" glm train -s 11 -c 2 tiny.svm tiny11.model
says tiny11.model '^solver_type L2R_L2LOSS_SVR'
expect 0 "$GYRE" glm train -B 1 -R -s 0 tiny.svm free.model
expect 0 "$GYRE" glm train -v 3 g.blocks --l2 5 --json
json
if awk -v auc="$(value auc)" 'BEGIN { exit !(auc > 0.6 && auc < 0.9) }'; then ok; else bad "cross-validation: AUC $(value auc)"; fi
if command -v liblinear-predict >/dev/null 2>&1; then
    expect 0 liblinear-predict -b 1 g.svm g.model theirs.txt
    if awk 'NR == FNR { a[FNR] = $0; next } { split(a[FNR], x, " "); if (FNR > 1 && (x[1] != $1 || (x[2] - $2) ^ 2 > 1e-10)) n++ }
        END { exit !(FNR == 20001 && !n) }' \
        theirs.txt shares.txt; then
        ok
    else
        bad "liblinear's predict says something else"
    fi
else
    skip 'no liblinear-predict (Debian: liblinear-tools)'
fi

# ---- more classes, regression, ONNX
awk 'BEGIN { srand(3); for (i = 0; i < 300; i++) { k = i % 3; print k + 1, (k + 1) ":" 1 + rand(), 4 ":" rand() } }' >three.svm
expect 0 "$GYRE" glm train three.svm three.model --test three.svm --json
json
near "$(value accuracy)" 1 0.02
expect 0 "$GYRE" glm train three.svm soft.model --softmax --test three.svm --json
near "$(value accuracy)" 1 0.02
expect 0 "$GYRE" glm predict three.svm three.model
says "$out" '^ *3  *100 '
expect 0 "$GYRE" glm predict -b 1 three.svm soft.model p.txt
says p.txt '^labels 1 2 3$'
expect 0 "$GYRE" glm train three.svm ridge.model --loss squared --l2 0.1 --bias 1 --test three.svm
says "$out" 'R2 0\.'
expect 2 "$GYRE" glm predict -b 1 three.svm ridge.model p.txt
says "$err" 'no probabilities'
for model in three soft ridge; do
    expect 0 "$GYRE" glm train three.svm $model.onnx $([ $model = ridge ] && echo --loss squared) $([ $model = soft ] && echo --softmax)
    there $model.onnx
done
# no two nodes of an ONNX model have the same name: a type that comes twice stands there twice
expect 0 "$GYRE" glm train three.svm shares.onnx --normalize
if [ "$(grep -ao Normalizer shares.onnx | wc -l)" = 2 ]; then ok; else bad 'two nodes have one name'; fi

# ---- another program proves what a model's file says; a missed gap is told by the exit code
for model in three soft ridge; do
    rows=three.svm
    expect 0 "$GYRE" glm verify $model.model $rows
    says "$out" ': holds$'
done
for model in tiny0 tiny2 tiny3 tiny5 tiny6 free; do
    expect 0 "$GYRE" glm verify $model.model tiny.svm --json
    json
    says "$out" '"holds":true'
done
# an optimum of 0 that is met is proved
printf '0 1:1\n0 1:2 2:1\n0 2:1\n' >none.svm
for penalty in '--l2 1' '--l1 1' '--l1 1 --l2 1' '--l2 1 --bias 1 --bias-free'; do
    # shellcheck disable=SC2086
    expect 0 "$GYRE" glm train none.svm none.model --loss squared $penalty
    says "$out" '^objective: 0, bound 0, gap 0.00e+00, proved'
    expect 0 "$GYRE" glm verify none.model none.svm --gap 1e-6
    expect 0 "$GYRE" glm inspect none.model
    says "$out" ': at most 0 of it above the optimum$'
done
# bounds that are better than their gaps: those of the weights' slopes do not reach them
printf '0 1:-1\n1 1:-2 2:-2 3:2\n0 1:1 2:1 3:-1\n' >kink.svm
for gap in 0.0001 0.1; do
    expect 0 "$GYRE" glm train kink.svm kink.model --loss hinge --l1 1 --l2 0.5 --gap $gap --threads 1
    expect 0 "$GYRE" glm verify kink.model kink.svm --threads 1
done
# The same model with another weight, another objective, another bound. Each has its own checksum,
# or none.
unsummed() { sed 's/^gyre 2$/gyre 1/; /^crc32c/d' "$@"; }
digit=$(awk '$0 == "w" { at = NR + 1 } NR == at { print; exit }' g.model)
sed "s/^$digit\$/${digit%?}$(((${digit#"${digit%?}"} + 1) % 10))/" g.model >changed.model
expect 3 "$GYRE" glm verify changed.model g.blocks
says "$err" 'changed.model:.*checksum'
unsummed three.model >forged.model
expect 0 "$GYRE" glm verify forged.model three.svm
unsummed three.model | awk '/^part 1/ { for (i = 1; i < NF; i++) if ($i == "objective") $(i + 1) *= 0.9 } { print }' >forged.model
expect 7 "$GYRE" glm verify forged.model three.svm
says "$out" 'its objective is higher than it says'
unsummed three.model | awk '/^part 1/ { for (i = 1; i < NF; i++) { if ($i == "objective") p = $(i + 1); if ($i == "bound") $(i + 1) = p * 1.01 } }
    { print }' >forged.model
expect 7 "$GYRE" glm verify forged.model three.svm
says "$out" 'its bound is above the optimum'
expect 7 "$GYRE" glm verify g.model c.blocks --l2 6
# what a file may say and training refuses is judged as well: labels 1 and 0 over rows of 1 and -1,
# a free bias without a bias
expect 0 "$GYRE" glm train tiny.svm plain.model --l2 1 --gap 1e-3
unsummed plain.model | sed 's/^label 1 -1$/label 1 0/; s/^label -1 1$/label 0 1/' >forged.model
if grep -q '^label.* 0' forged.model; then ok; else bad 'no label was changed'; fi
expect 7 "$GYRE" glm verify forged.model tiny.svm --gap 1e-12
says "$out" 'the gap that was asked for is not proved'
unsummed plain.model | sed 's/^bias_free 0/bias_free 1/' >forged.model
expect 7 "$GYRE" glm verify forged.model tiny.svm --gap 1e-12
says "$out" 'the gap that was asked for is not proved'
expect 7 "$GYRE" glm train tiny.svm short.model --gap 1e-6 --epochs 1 --solver sdca
says "$err" "training ended by 'epochs'"
there short.model
expect 0 "$GYRE" glm train tiny.svm short.model --gap 0 --epochs 1 --solver sdca
expect 2 "$GYRE" glm train tiny.svm short.model --gap 1e-20
says "$err" '1e-13 at least'
if command -v liblinear-train >/dev/null 2>&1; then
    for type in '0 --l2 1' '1 --l2 1' '3 --l2 1' '5 --l1 1'; do
        expect 0 liblinear-train -q -s ${type%% *} -e 1e-6 tiny.svm their.model
        # shellcheck disable=SC2086
        expect 0 "$GYRE" glm verify their.model tiny.svm ${type#* } --gap 1e-3
        says "$out" 'says nothing of itself$'
    done
    expect 7 "$GYRE" glm verify their.model tiny.svm --l1 2 --gap 1e-3
else
    skip 'no liblinear-train (Debian: liblinear-tools)'
fi

# Over rows of other labels our own solution is one of another problem: it proves nothing here.
printf '1 1:1 2:0.5\n0 1:-1 3:1\n1 2:1 3:-1\n0 2:-0.5\n1 1:0.3\n0 1:0.2 3:2\n' >tiny01.svm
printf 'solver_type L2R_LR\nnr_class 2\nlabel 2 1\nnr_feature 3\nbias 1\nw\n0\n0\n0\n-2\n' >label2.model
expect 7 "$GYRE" glm verify label2.model tiny01.svm --gap 0.01
says "$out" 'the gap that was asked for is not proved'
sed 's/^label.*/label 1 0/' label2.model >label1.model
expect 7 "$GYRE" glm verify label1.model tiny01.svm --gap 0.01
# with a bias of 0 liblinear's file has its weight; a loss that is not here is not judged as another
printf 'solver_type L2R_LR\nnr_class 2\nlabel 1 0\nnr_feature 3\nbias 0\nw\n0.5\n0.1\n-0.2\n7\n' >zero.model
expect 0 "$GYRE" glm verify zero.model tiny01.svm
printf 'solver_type L2R_L1LOSS_SVR_DUAL\nnr_class 2\nnr_feature 3\nbias -1\nw\n0.5\n0.1\n-0.2\n' >svr.model
expect 2 "$GYRE" glm verify svr.model tiny01.svm
says "$err" 'L2R_L1LOSS_SVR_DUAL'
expect 0 "$GYRE" glm predict tiny01.svm svr.model

# ---- many features: coordinate ascent takes them in its own order, except in a run that keeps
# checkpoints. The model does not show it.
awk 'BEGIN { srand(5); for (i = 0; i < 6000; i++) { at = 0; line = i % 3 + 1
    for (k = 0; k < 14; k++) { at += 1 + int(rand() * rand() * 3000); if (at <= 20000) line = line " " at ":" 1 + (at + i) % 3 }
    print line } }' >wide.svm
expect 0 "$GYRE" glm train wide.svm own.model --loss hinge --l2 1 --bias 1 --gap 1e-5 --solver sdca --json
wide=$(value objective)
says "$out" '"models":3'
expect 0 "$GYRE" glm train wide.svm ids.model --loss hinge --l2 1 --bias 1 --gap 1e-5 --solver sdca --json --out wide.run
near "$(value objective)" "$wide" 2e-5
for model in own ids; do
    expect 0 "$GYRE" glm predict wide.svm $model.model $model.txt --json
    # at most one row in a hundred gets another class than its own
    awk 'NR == FNR { a[FNR] = $1; next } a[FNR] != $1 { n++ } END { exit !(FNR == 6000 && n <= 60) }' $model.txt wide.svm && ok ||
        bad "$model.model predicts other classes"
done
# the models after the first get the same solver, though few features have places by then
awk 'BEGIN { srand(7); for (i = 0; i < 2400; i++) { line = ""; z = 0
    for (k = 0; k < 100; k++) if (rand() < 0.2) { line = line " " 1 + k * 90 ":1"; z += k % 7 - 3 }
    z += 6 * rand() - 3; print (z < -6 ? 0 : z < 0 ? 1 : z < 6 ? 2 : 3) line } }' >spread.svm
expect 0 "$GYRE" glm train spread.svm spread.model --loss hinge --gap 1e-3 --threads 1 --json
says "$out" '"solver":"sdca","why":"gap"'
# where it stands still, the next solver has them as they are
awk 'BEGIN { srand(5); for (i = 0; i < 1500; i++) { at = 0; line = i % 2
    for (k = 0; k < 60; k++) { at += 1 + int(rand() * rand() * 600); if (at <= 9000) line = line " " at ":" (1 + (at + i) % 3) * 10 ^ (at % 9 - 4) }
    print line } }' >wild.svm
expect 0 "$GYRE" glm train wild.svm wild.model --l2 0.0001 --gap 1e-6 --threads 1 --json
says "$out" '"solver":"newton","why":"gap"'
square() { awk '$0 == "w" { f = 1; next } f { s += $1 * $1 } END { print s }' "$1"; }
near "$(square own.model)" "$(square ids.model)" .02

# ---- checkpoints: killed and gone on with
expect 0 "$GYRE" glm train g.blocks k.model --l2 5 --gap 1e-6 --out run --json
best=$(value objective)
there run/glm-0.safetensors
expect 2 "$GYRE" glm train g.blocks k.model --l2 5 --gap 1e-6 --out run
says "$err" 'holds a run.*--resume'
expect 3 "$GYRE" glm train g.blocks k.model --l2 6 --out run --resume
says "$err" 'l2 was 5'
rm -rf run
"$GYRE" glm train g.blocks k.model --l2 5 --gap 1e-13 --epochs 100000 --solver sdca --out run --checkpoint-every 0 >"$out" 2>&1 &
child=$!
waited=0
while [ ! -s run/glm-0.safetensors ] && [ $waited -lt 100 ]; do
    sleep 0.1
    waited=$((waited + 1))
done
kill -9 $child 2>/dev/null
got=0
wait $child 2>/dev/null || got=$?
if [ $got = 137 ]; then ok; else bad "code $got: it was over before it was killed"; cat "$out"; fi
there run/glm-0.safetensors
expect 0 "$GYRE" glm train g.blocks k.model --l2 5 --gap 1e-6 --solver sdca --out run --resume --json
near "$(value objective)" "$best" 2e-6
if grep -q '"epoch":1,' "$out"; then bad 'begins anew'; else ok; fi
says "$out" '"epoch":[1-9][0-9]*,'

# ---- test rows that cannot be read: the model is there. A run that tests on the way leaves its
# checkpoint.
awk 'BEGIN { srand(9); for (i = 0; i < 600; i++) { k = int(rand() * 2) % 2; print k, (k + 1) ":" rand(), 4 ":" rand(), 5 + i % 7 ":1" } }' >rows.svm
expect 0 "$GYRE" glm convert rows.svm rows.blocks
expect 0 "$GYRE" glm train rows.svm fine.model --l2 1 --gap 1e-4 -m 1
cp rows.blocks hurt.blocks
printf 'x' | dd of=hurt.blocks bs=1 seek=4100 conv=notrunc 2>/dev/null
expect 3 "$GYRE" glm train rows.svm hurt.model --l2 1 --gap 1e-4 -m 1 --test hurt.blocks
says "$err" 'hurt.blocks: the checksum of block 0 differs'
same fine.model hurt.model
for solver in sdca newton; do
    expect 3 "$GYRE" glm train rows.svm no.model --l2 1 --gap 1e-12 --test hurt.blocks --validation .001 --solver $solver --out hurt.$solver
    says "$err" 'hurt.blocks: the checksum of block 0 differs'
    absent no.model
    there hurt.$solver/glm-0.safetensors
    expect 0 "$GYRE" glm train rows.svm yes.model --l2 1 --gap 1e-5 --test rows.svm --solver $solver --out hurt.$solver --resume
done

# ---- softmax: weights of classes, validation, checkpoints
awk 'BEGIN { srand(8); for (i = 0; i < 900; i++) { k = int(rand() * 3) % 3; print k + 1, (k + 1) ":" rand(), 4 ":" rand(), 5 + i % 7 ":1" } }' >soft.svm
awk '{ print } $1 == 2 { print; print }' soft.svm >thrice.svm
expect 0 "$GYRE" glm train thrice.svm s.model --softmax --l2 1 --gap 1e-8 --json
best=$(value objective)
expect 0 "$GYRE" glm train soft.svm s.model --softmax --l2 1 --gap 1e-8 --class-weight 2:3 --json
near "$(value objective)" "$best" 1e-7
expect 0 "$GYRE" glm train soft.svm s.model --softmax --l2 1e-3 --gap 0 --epochs 50 --validation 0.5 --test soft.svm --json
says "$out" '"why":"validation"'
expect 0 "$GYRE" glm train soft.svm s.model --softmax --l2 1 --gap 0 --epochs 2 --balanced --out soft.run --json
expect 3 "$GYRE" glm train soft.svm s.model --softmax --l2 1 --gap 1e-8 --out soft.run --resume
says "$err" 'class_weights_crc was'
expect 3 "$GYRE" glm train soft.svm s.model --l2 1 --gap 1e-8 --balanced --out soft.run --resume
expect 0 "$GYRE" glm train soft.svm s.model --softmax --l2 1 --gap 1e-8 --balanced --out soft.run --resume --json
best=$(value objective)
says "$out" '"epoch":3'
if grep -q '"epoch":1,' "$out"; then bad 'begins anew'; else ok; fi
expect 0 "$GYRE" glm train soft.svm s.model --softmax --l2 1 --gap 1e-8 --balanced --json
near "$(value objective)" "$best" 1e-7

expect 0 "$GYRE" glm train soft.svm s.model --softmax --l2 1 --bias 1 --bias-free --gap 1e-6 --json
near "$(value objective)" "$(value bound)" 1e-6
says "$out" '"why":"gap"'

# ---- where no device can train a model, or serves with the solver that is named, auto is the CPU
for options in '--l1 0.1' '--bias 1 --bias-free' '--solver newton'; do
    # shellcheck disable=SC2086
    expect 0 "$GYRE" glm train tiny.svm auto.model $options --device auto --json
    near "$(value objective)" "$(value bound)" 1e-3
done
expect 0 env CUDA_VISIBLE_DEVICES= "$GYRE" glm train wild.svm auto.model --l2 0.0001 --gap 1e-6 --threads 1 --device auto --json
says "$out" '"solver":"newton","why":"gap"'
expect 0 "$GYRE" glm train soft.svm auto.model --softmax --device auto
expect 2 "$GYRE" glm train soft.svm auto.model --softmax --device nonsense
says "$err" "softmax is trained on the CPU; device is 'nonsense'"

# ---- two processes, one model
expect 0 "$GYRE" launch -n 2 --threads 1 -- "$GYRE" glm train g.blocks two.model --l2 5 --gap 1e-6 --json
near "$(sed -n 's/.*"event":"end".*"objective":\([-0-9.e+]*\).*/\1/p' "$out")" "$objective" 2e-6
if [ "$(grep -c '"event":"end"' "$out")" = 1 ]; then ok; else bad 'not one rank alone speaks'; fi
# a gap that is not reached is an end like others: nothing starts again
expect 7 "$GYRE" launch -n 2 --threads 1 --restarts 2 -- "$GYRE" glm train g.blocks short.model --l2 5 --gap 1e-12 --epochs 1 --solver sdca
if grep -q -e 'started again' -e 'ended with code' "$err"; then bad 'a gap that is not reached is a crash'; cat "$err"; else ok; fi
there short.model
# one that takes part in other sums is refused; without a device on one rank none trains on its own
cat >other.sh <<'END'
gyre=$1
shift
[ "$GYRE_RANK" = 0 ] || set --
exec "$gyre" glm train tiny.svm other.model --l2 1 --epochs 5 --gap 0 "$@"
END
for option in '--trace other.json' '--out other.run' '--test tiny.svm' '--device auto'; do
    # shellcheck disable=SC2086
    if "$GYRE" launch -n 2 --threads 1 -- sh other.sh "$GYRE" $option >"$out" 2>"$err"; then bad "$option on one rank"; else ok; fi
    says "$err" "the linear model's settings"
done
if [ -f "$(dirname "$GYRE")/libgyre-emu.so" ]; then
    echo 'gyre=$1; [ "$GYRE_RANK" = 0 ] || export GYRE_EMU=/nowhere; exec "$gyre" glm train g.blocks other.model --l2 5 --device emu' >emu.sh
    if "$GYRE" launch -n 2 --threads 1 -- sh emu.sh "$GYRE" >"$out" 2>"$err"; then bad 'a rank without a device trains'; else ok; fi
    says "$err" 'another rank cannot train on its device'
else
    skip 'no emulator'
fi

# ---- a real data set and its known optimum
a9a=${GYRE_TEST_DATA:-}/glm/a9a
if [ -f "$a9a" ] && [ -f "$a9a.t" ]; then
    expect 0 "$GYRE" glm train "$a9a" a9a.model --l2 1 --gap 1e-10 --solver newton --test "$a9a.t" --json
    near "$(value objective)" 10529.5625846 1e-8
    near "$(value log_loss)" .32405864 1e-7
    near "$(value accuracy)" .849886 1e-6
    near "$(value auc)" .90222074 1e-7
    expect 0 "$GYRE" glm predict "$a9a.t" a9a.model --json
    near "$(value log_loss)" .32405864 1e-7
else
    skip 'no a9a in GYRE_TEST_DATA/glm'
fi
finish
