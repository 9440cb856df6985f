#!/bin/sh
# SPDX-License-Identifier: MIT
# The command line: help, mistakes with suggestions, exit codes, JSON, what prints without data.
. "$(dirname "$0")/e2e.inc"

# ---- help
expect 0 "$GYRE" help
says "$out" '^  train  '
for command in $(sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' "$out" | grep -v gyre); do
    expect 0 "$GYRE" help "$command"
    says "$out" "^usage: gyre $command"
    cp "$out" "$TMP/help"
    expect 0 "$GYRE" "$command" --help
    same "$out" "$TMP/help"
    if awk 'length($0) > 132 { exit 1 }' "$out"; then ok; else bad "help $command has a line over 132 columns"; fi
done
# each command of an example knows its options
for command in $("$GYRE" help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' | grep -v gyre) 'bench allreduce' \
    'glm train' 'glm predict' 'glm verify' 'glm convert' 'glm inspect' 'glm generate'; do
    # shellcheck disable=SC2086
    "$GYRE" help $command | sed -n 's/^  gyre //p'
done | sed 's/ *>.*//; s/ -- gyre /\n/' >"$TMP/examples"
while read -r example; do
    # shellcheck disable=SC2086
    expect 0 "$GYRE" $example --help
done <"$TMP/examples"
if [ "$(wc -l <"$TMP/examples")" -ge 45 ]; then ok; else bad 'few examples'; fi
expect 0 "$GYRE" help train
says "$out" '--batch N  *images a step (128)'
says "$out" '^Examples:'
expect 0 "$GYRE" help kernels
says "$out" '^  --show list|source|ptx|cubin$' # as wide as its column
expect 0 "$GYRE" help exit
says "$out" '^  6  stopped'
expect 0 "$GYRE" help language
says "$out" '^  conv K RxS  *convolution to K channels$'
says "$out" '^      stride N|HxW  *step between windows (1 to 16384); default 1$'
says "$out" '^  softmax  *loss: cross-entropy of the softmax; the last line$'
expect 0 "$GYRE" --version
says "$out" '^gyre [0-9]*\.[0-9]*\.[0-9]*$'
says "$out" '^source [0-9a-z]*$'
expect 2 "$GYRE"

# ---- mistakes: one sentence, a suggestion, exit code 2
mistake() # mistake PATTERN ARGS...
{
    pattern=$1
    shift
    expect 2 "$GYRE" "$@"
    says "$err" "$pattern"
    if [ "$(wc -l <"$err")" = 1 ] && [ ! -s "$out" ]; then ok; else bad "not one sentence: gyre $*"; fi
}
mistake "no command 'trian'; did you mean train?" trian
mistake "no command 'xyzzy'; 'gyre help' lists them" xyzzy
mistake "no command 'evall'; did you mean eval?" help evall
mistake "no help of 'net plan' alone; see 'gyre help net'$" help net plan
mistake "no help of 'exit now' alone; see 'gyre help exit'$" help exit now
mistake "no help of 'language x' alone; see 'gyre help language'$" help language x
mistake "usage: gyre --version; 'now' is not known$" --version now
mistake "no help of 'a b' alone; see 'gyre help help'$" help a b
mistake "no option '--epoch'; did you mean --epochs?" train lenet5 data --epoch 3
mistake "no option '--moemntum'; did you mean --momentum?" train lenet5 data --moemntum=.9
mistake "no option '--qqqqqq'; 'gyre help train' lists them" train lenet5 data --qqqqqq
mistake "'-e'" train lenet5 data -e 3
mistake "batch takes a whole number in 1 .. 1048576, not '0'" train lenet5 data --batch 0
mistake "batch takes a whole number in 1 .. 1048576, not 'many'" train lenet5 data --batch many
mistake "batch takes a whole number.*not '3x'" plan lenet5 --batch=3x
mistake "batch takes a whole number.*not '99999999999999999999'" plan lenet5 --batch 99999999999999999999
mistake "lr takes a number.*not 'nan'" train lenet5 data --lr nan
mistake "optimizer takes one of sgd|lars|adamw|lamb|lars-unscaled, not 'sdg'" train lenet5 data --optimizer sdg
mistake "mean takes numbers.*not '.5,,.5'" train lenet5 data --mean .5,,.5
mistake 'epochs needs a value' train lenet5 data --epochs
mistake 'flip takes no value' train lenet5 data --flip=1
mistake 'usage: gyre train \[options\] NET DATA; 1 argument was given' train lenet5
mistake 'usage: gyre plan' plan a b
mistake "neither a file nor a net of the zoo; did you mean resnet50?" plan resnet5O
mistake "isa 'sse9' is not known" plan lenet5 --isa sse9
case $(uname -m) in x86_64) other=vsx ;; *) other=avx2 ;; esac
mistake "isa '$other' is not what this processor has; it has: ref" plan lenet5 --isa $other
expect 2 env GYRE_ISA=$other "$GYRE" plan lenet5
says "$err" "isa '$other' is not what"
mistake 'import needs --net' import x.safetensors
# build.sh says so, too, before it does anything
script=$(dirname "$0")/../build.sh
built() # built SENTENCE VARIABLE=VALUE ... WORD...
{
    sentence="^build.sh: $1$"
    shift
    expect 1 env TESTS= JOBS=1 CC=false BUILD="$TMP/never" "$@"
    says "$err" "$sentence"
    if [ ! -e "$TMP/never" ]; then ok; else bad "build.sh made its folder"; fi
}
built "build takes nothing, not 'CC=clang'" sh "$script" build CC=clang
built "help takes nothing, not 'me'" sh "$script" help me
built "fuzz takes a whole number above 0, not '0'" sh "$script" fuzz 0
built "JOBS takes a whole number above 0, not 'all'" JOBS=all sh "$script" help
built "BUILD is 'a b'; .*" BUILD='a b' sh "$script" help
built "there is no test 't_bse'; tests/ has .*" TESTS='t_base t_bse' sh "$script" help
built "there is no test 'run_suite'; tests/ has .*" sh "$script" test e2e_cli run_suite
# options that would leave others without effect
mistake '--resume goes on.*--overwrite removes' train lenet5 data --resume --overwrite
mistake '--pad-crop and --resized-crop are two ways' train lenet5 data --resized-crop --pad-crop 4
mistake '--pad-crop and --resized-crop are two ways' why lenet5 --resized-crop --pad-crop 4
mistake '--milestones is for --schedule step' train lenet5 data --milestones 1,2
mistake '--final-lr is for --schedule cosine and poly' train lenet5 data --schedule step --final-lr .1
mistake '--power is for --schedule poly' train lenet5 data --power 3
mistake '--nesterov is for --optimizer sgd and lars' train lenet5 data --optimizer adamw --nesterov
mistake '--nesterov is for --optimizer sgd and lars' train lenet5 data --optimizer lamb --nesterov
mistake '--nesterov needs --momentum' train lenet5 data --momentum 0 --nesterov
mistake '--split and --sample are for --data' predict x.safetensors x.png --sample 3
mistake '--split and --sample are for --data' predict x.safetensors x.png --split train
mistake '--names and --data both name' import x.safetensors --net lenet5 --out y.safetensors --names a,b --data d
mistake 'predict needs image files' predict x.safetensors
expect 4 "$GYRE" plan lenet5 --device tpu
says "$err" "device 'tpu' is not known"
expect 3 "$GYRE" train lenet5 "$TMP/nothing" --out "$TMP/run"
says "$err" "$TMP/nothing"
absent "$TMP/run"
expect 3 "$GYRE" eval "$TMP/nothing.safetensors" "$TMP"
says "$err" 'nothing.safetensors'
expect 3 "$GYRE" eval "$TMP" "$TMP"
says "$err" 'no checkpoint'
expect 3 "$GYRE" info "$TMP/nothing"

# ---- nets and plans
expect 0 "$GYRE" zoo
says "$out" '^lenet5 '
for net in $(cut -d' ' -f1 "$out"); do
    expect 0 "$GYRE" zoo "$net"
    says "$out" '^input '
done
expect 0 "$GYRE" zoo resnet20 --classes 7 --size 48
says "$out" '^input 48x48x3'
cp "$out" "$TMP/my.net"
expect 0 "$GYRE" plan "$TMP/my.net" --batch 4
says "$out" '^peak: [1-9][0-9]* bytes ([0-9.]* MB); without shared activations [0-9.]* MB$'
expect 0 "$GYRE" plan resnet152 --batch 4096 # a plan takes no memory of the net's size
says "$out" '^peak: [0-9]* bytes'
{
    echo 'input 16384x16384x4'
    awk 'BEGIN { for (i = 0; i < 1300; i++) print "conv 4 1x1\nrelu" }'
    printf 'maxpool 16\nmaxpool 16\nmaxpool 16\nlinear 2\nsoftmax\n'
} >"$TMP/vast.net"
expect 4 "$GYRE" plan "$TMP/vast.net" --batch 1048576
says "$err" 'out of memory: the activations need more bytes than 63 bits count$'
expect 0 "$GYRE" plan lenet5 --batch 2 --json
json
expect 0 "$GYRE" plan resnet20 --batch 2 --recompute --json
json
expect 0 "$GYRE" plan lenet5 --batch 2 --infer
expect 0 "$GYRE" bench lenet5 --batch 2 --runs 1
expect 0 "$GYRE" bench lenet5 --batch 2 --runs 1 --csv
says "$out" '^program,op,layer,shape,kernel,us,GFLOP/s,% of peak,GB/s,% of bandwidth,limit us,% of limit$'
says "$out" '^forward,conv,conv1,2x28x28x1 [*] 5x5/1 -> 6,[a-z]*,[0-9.]*,'
printf 'input 8x8x1\nconv 4 3x3\nbogus\n' >"$TMP/bad.net"
expect 2 "$GYRE" plan "$TMP/bad.net"
says "$err" 'bad.net:3:'
# names with a quote, a backslash and a control character, in whatever is JSON
odd=$(printf '%s/a"b\\c\001d.net' "$TMP")
printf 'input 8x8x1\nconv 4 3x3\nrelu\nlinear 2\nsoftmax\n' >"$odd"
for command in plan 'plan --pipeline 2 --batch 8' 'fit --mem 2G --target-batch 4' 'why --steps 1 --batch 2'; do
    # shellcheck disable=SC2086
    expect 0 "$GYRE" $command "$odd" --json
    json
    tells "$out" 'a\"b\\c\u0001d.net"'
done
expect 2 "$GYRE" fit lenet5 --mem 8G --device sm_90
says "$err" 'the speed of this device cannot be measured'
expect 0 "$GYRE" knobs
says "$out" 'GYRE_THREADS'
expect 0 env GYRE_THREAD=2 "$GYRE" plan lenet5 --batch 1
says "$err" 'GYRE_THREADS'

# ---- output that cannot be written
if [ -w /dev/full ]; then
    got=0
    "$GYRE" zoo resnet50 >/dev/full 2>"$err" || got=$?
    if [ "$got" = 3 ]; then ok; else bad "exit code $got on a full device"; fi
else
    skip 'no /dev/full'
fi

# ---- one pass through all commands on a tiny data set
make_images "$TMP/data/train" 3 12 16 1
make_images "$TMP/data/test" 3 4 16 2
expect 0 "$GYRE" info "$TMP/data" --json
json
says "$out" '"classes":\["class_0","class_1","class_2"\]'
expect 0 "$GYRE" info "$TMP/data"
tells "$out" 'size 0 x 0 (they may differ)'
expect 0 "$GYRE" pack "$TMP/data" "$TMP/train.gyr" --side 16
says "$out" '36 images in 3 classes'
expect 0 "$GYRE" pack "$TMP/data" "$TMP/test.gyr" --side 16 --split test
expect 0 "$GYRE" train mlp "$TMP/train.gyr" --test-data "$TMP/test.gyr" --batch 6 --epochs 2 --out "$TMP/packed" --lr .01
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 3 --out "$TMP/run" --lr .01 --json
json
says "$out" '"event":"epoch".*"epoch":3,.*"test_accuracy":[01]'
says "$out" '"event":"epoch".*"loader_waits":[0-9]*,"loader_wait_seconds":[0-9]'
says "$out" '"event":"end"'
there "$TMP/run/curve.svg"
there "$TMP/run/metrics.csv"
says "$TMP/run/metrics.csv" '^step,epoch,loss,accuracy,test_loss'
says "$TMP/run/metrics.csv" '^18,3,'
if ls "$TMP"/run/events.out.tfevents.* >/dev/null 2>&1; then ok; else bad 'no event file'; fi
expect 2 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --out "$TMP/run"
says "$err" 'holds a run.*--resume, --overwrite, --out'
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 1 --out "$TMP/run2" --lr .01
says "$out" '^checkpoint: .*/run2/checkpoint-6.safetensors$'
says "$out" '^epoch 1/1  step 6/6 .* images/s  input waits [0-9]* ([0-9.]* s)$'
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 1 --out "$TMP/run2" --lr .01 --overwrite
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 3 --out "$TMP/line" --schedule poly --power 1 --lr .018
says "$TMP/line/metrics.csv" '^17,3,.*,0\.002,' # the last but one of 18 steps
expect 0 "$GYRE" eval "$TMP/run" "$TMP/data" --confusion "$TMP/confusion.svg"
says "$out" '^class_2  *4  *[01][.][0-9]*  *[01][.][0-9]*  *[01][.][0-9]*  *[01][.][0-9]*$'
there "$TMP/confusion.svg"
expect 0 "$GYRE" eval "$TMP/run" "$TMP/data" --json
json
says "$out" '"samples":12'
expect 0 "$GYRE" predict "$TMP/run" "$TMP/data/test/class_1/image_0.ppm" --top 2
says "$out" '%  class_'
if [ "$(wc -l <"$out")" = 3 ]; then ok; else bad 'predict --top 2 does not print 3 lines'; fi
expect 0 "$GYRE" predict "$TMP/run" "$TMP/data/test/class_1/image_0.ppm" "$TMP/data/test/class_2/image_0.ppm" --json
json
expect 0 "$GYRE" predict "$TMP/run" --data "$TMP/data" --sample 5
says "$out" 'class_1.*labelled class_1'
# the label is the data's own, where other classes have the numbers of the checkpoint's
mkdir -p "$TMP/other/test/emu" "$TMP/other/test/zoo"
cp "$TMP/data/test/class_1/image_0.ppm" "$TMP/other/test/emu"
cp "$TMP/data/test/class_2/image_0.ppm" "$TMP/other/test/zoo"
expect 0 "$GYRE" predict "$TMP/run" --data "$TMP/other" --sample 1
says "$out" 'image_0.ppm (labelled zoo)$'
expect 2 "$GYRE" predict "$TMP/run" --data "$TMP/data" --sample 12
says "$err" 'has 12 images'
expect 3 "$GYRE" predict "$TMP/run" "$TMP/nothing.png" "$TMP/data/test/class_1/image_0.ppm"
says "$err" 'nothing.png'
says "$out" 'class_1/image_0.ppm'
expect 0 "$GYRE" info "$TMP/run"
says "$out" '^epochs: 3'
# commands that compute nothing take no options of computing
mistake "info has no option '--threads'" info "$TMP/run" --threads 1
mistake "export has no option '--device'" export "$TMP/run" "$TMP/none.safetensors" --device cpu
mistake "import has no option '--dtype'" import "$TMP/none.safetensors" --net lenet5 --dtype bf16
expect 0 "$GYRE" info "$TMP/run" --json
json
# a name and a tab in the input's line, or a byte order mark before it, change nothing
for input in '# gray\n\ninput ' '# gray\nimage: input ' 'image:\tinput\t' '\0357\0273\0277input ' '\0357\0273\0277# gray\ninput '; do
    printf '%b16x16x1\nlinear 3\nsoftmax\n' "$input" >"$TMP/gray.net"
    expect 0 "$GYRE" train "$TMP/gray.net" "$TMP/data" --batch 6 --epochs 1 --overwrite --out "$TMP/gray"
    expect 0 "$GYRE" info "$TMP/gray"
    says "$out" '^mean: 0[.]286'
done
# a comment is no last word, and --smoothing is none of a comment
for end in 'softmax # x' 'softmax # a plain softmax' 'softmax\n# ends in a plain softmax'; do
    printf 'input 16x16x1\nlinear 3\n%b' "$end" >"$TMP/gray.net"
    expect 0 "$GYRE" train "$TMP/gray.net" "$TMP/data" --batch 6 --steps 1 --smoothing .5 --overwrite --out "$TMP/gray"
    tells "$(newest "$TMP/gray")" '\u000asoftmax smooth 0.5'
done
printf 'input 16x16x1\nlinear 3\nsoftmax smooth 0.1 # softmax' >"$TMP/gray.net"
expect 2 "$GYRE" train "$TMP/gray.net" "$TMP/data" --batch 6 --steps 1 --smoothing .5 --overwrite --out "$TMP/gray"
says "$err" '--smoothing needs a net that ends in a plain'
expect 0 "$GYRE" export "$TMP/run" "$TMP/weights.safetensors"
# a pipe or a device is written and stays what it is: no file is put in its place
mkfifo "$TMP/pipe"
cat "$TMP/pipe" >"$TMP/piped" &
expect 0 "$GYRE" export "$TMP/run" "$TMP/pipe"
if [ -p "$TMP/pipe" ]; then wait $!; else bad 'a file stands in the place of a pipe'; kill $!; fi
same "$TMP/weights.safetensors" "$TMP/piped"
if mknod "$TMP/null" c 1 3 2>/dev/null; then
    expect 0 "$GYRE" export "$TMP/run" "$TMP/null"
    if [ -c "$TMP/null" ]; then ok; else bad 'a file stands in the place of a device'; fi
fi
"$GYRE" zoo mlp --size 16 --channels 3 --classes 3 >"$TMP/mlp.net"
for option in '--size 16' '--classes 3'; do
    mistake 'of the zoo; the text of .*mlp.net has its own' train "$TMP/mlp.net" "$TMP/data" $option
done
mistake 'are for nets of the zoo' plan "$TMP/mlp.net" --channels 1
expect 0 "$GYRE" import "$TMP/weights.safetensors" --net "$TMP/mlp.net" --out "$TMP/imported.safetensors" --data "$TMP/data"
# a larger net: its last layer has no place
sed 's/^ *softmax/linear 3\nsoftmax/' "$TMP/mlp.net" >"$TMP/deep.net"
expect 0 "$GYRE" train "$TMP/deep.net" "$TMP/data" --batch 6 --steps 1 --out "$TMP/deep" --test-data none
expect 0 "$GYRE" export "$TMP/deep" "$TMP/deep.safetensors"
expect 3 "$GYRE" import "$TMP/deep.safetensors" --net "$TMP/mlp.net" --out "$TMP/part.safetensors"
says "$err" 'deep.safetensors: 2 of its tensors are not in this net, such as'
absent "$TMP/part.safetensors"
expect 0 "$GYRE" import "$TMP/deep.safetensors" --net "$TMP/mlp.net" --out "$TMP/part.safetensors" --partial
says "$err" 'warning: .*2 of its tensors are not in this net.*left out'
expect 0 "$GYRE" eval "$TMP/run" "$TMP/data" --json
cp "$out" "$TMP/eval"
accuracy=$(tail -n 1 "$TMP/run/metrics.csv" | cut -d, -f6) # of the last epoch
says "$out" "\"top1\":$accuracy,"
expect 0 "$GYRE" eval "$TMP/imported.safetensors" "$TMP/data" --json
same "$out" "$TMP/eval"
expect 3 "$GYRE" eval "$TMP/weights.safetensors" "$TMP/data"
says "$err" 'not a checkpoint of Gyre'
expect 0 "$GYRE" train "$TMP/mlp.net" "$TMP/data" --batch 6 --epochs 1 --out "$TMP/fine" --weights "$TMP/weights.safetensors"
expect 0 "$GYRE" train "$TMP/mlp.net" "$TMP/data" --batch 6 --epochs 2 --out "$TMP/fine" --weights "$TMP/gone.safetensors" --resume
expect 3 "$GYRE" train "$TMP/mlp.net" "$TMP/data" --batch 6 --epochs 2 --out "$TMP/new" --weights "$TMP/gone.safetensors" --resume
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 1 --out "$TMP/run3" --names 'red,"green",blue'
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 2 --out "$TMP/run3" --names 'red,"green",blue' --resume
says "$out" '^going on from .*checkpoint-6.safetensors, after 6 of 12 steps'
expect 0 "$GYRE" predict "$TMP/run3" "$TMP/data/test/class_1/image_0.ppm" --json
json
says "$out" '"class":1,"name":"\\"green\\"","score":0[.][0-9]*'
# data whose classes are only numbered take the names of the checkpoint, where it knows them
for class in 0 1 2; do
    mkdir -p "$TMP/numbers/test/$class"
    cp "$TMP/data/test/class_$class/"* "$TMP/numbers/test/$class"
done
expect 0 "$GYRE" predict "$TMP/run3" --data "$TMP/numbers" --sample 5
says "$out" '(labelled "green")$'
expect 0 "$GYRE" eval "$TMP/run3" "$TMP/numbers"
for class in red '"green"' blue; do
    if [ "$(grep -c "^$class  *4  *[01][.]" "$out")" = 1 ] && [ "$(grep -c "^$class  *[0-4]  *[0-4]  *[0-4]\$" "$out")" = 1 ]; then ok; else
        bad "no rows of $class: $(cat "$out")"
    fi
done
if grep -q 'are the classes the same' "$err"; then bad 'a warning of numbers'; else ok; fi
long=$(printf '%05000d,%05000d,%05000d' 1 2 3)
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 6 --epochs 1 --out "$TMP/run5" --names "$long"
says "$err" 'warning: the names of 3 classes are too long for the checkpoint; it will know only numbers$'
expect 0 "$GYRE" eval "$TMP/run5" "$TMP/numbers"
says "$out" '^2  *4  *[01][.]'
expect 2 "$GYRE" train mlp "$TMP/data" --size 16 --out "$TMP/run4" --batch 6 --names red,green
says "$err" '2 names; the net has 3 classes'
expect 2 "$GYRE" train mlp "$TMP/data" --size 16 --out "$TMP/run4" --batch 6 --names 'red
dark,green,blue'
says "$err" 'names has a line break'
# --resize is of training, too, where nothing crops
shown() { expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 9 --show-batch "$TMP/shown.$1" $2; }
shown plain ''
shown resized '--resize 24'
shown padded '--pad-crop 2'
shown both '--pad-crop 2 --resize 24'
if cmp -s "$TMP/shown.plain" "$TMP/shown.resized"; then bad '--resize leaves a training batch'; else ok; fi
same "$TMP/shown.padded" "$TMP/shown.both"
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 9 --show-batch "$TMP/batch.png" --flip --jitter .4 --pad-crop 2 --mixup .2
there "$TMP/batch.png"
expect 0 "$GYRE" train mlp "$TMP/data" --size 16 --batch 9 --epochs 1 --out "$TMP/smooth" --smoothing .1 --optimizer adamw --ema .9 \
    --clip 1 --schedule step --warmup-epochs .5 --accumulate 2 --cutmix 1
expect 0 "$GYRE" eval "$TMP/smooth" "$TMP/data"
finish
