#!/bin/sh
# SPDX-License-Identifier: MIT
# The command on a machine that fails: the n-th system call of each kind gives an error, memory is
# limited, the process is killed. A run then ends with the result of an undisturbed one, or with a
# sentence and an exit code, never with a signal. No file under a final name is less than whole, no
# earlier checkpoint is lost, nothing half written is left. The resumed run ends with the bits and
# rows of an undisturbed one. run_faults_system.sh GYRE. Variables: SEED (of the moments of kills;
# printed), KILLS (20), CALLS (most of a kind in a scenario; 10), STEPS (of memory limits in a
# scenario; 20). Needs strace, and a shell whose ulimit knows -v.
. "$(dirname "$0")/e2e.inc"
case $1 in /*) GYRE=$1 ;; *) GYRE=$PWD/$1 ;; esac
SEED=${SEED:-$(date +%s)}
KILLS=${KILLS:-20}
CALLS=${CALLS:-10}
STEPS=${STEPS:-20}
printf 'seed of the kills: %s\n' "$SEED"
unset GYRE_KERNEL_CACHE
GYRE_TUNE=off
export GYRE_TUNE

# ---- what is run
make_images "$TMP/data/train" 4 12 12 1
make_images "$TMP/data/test" 4 3 12 2
cat >"$TMP/small.net" <<'END'
input 12x12x3
conv 6 3x3
bn
relu
conv 8 3x3 stride 2
relu
linear 4
softmax
END
awk 'BEGIN { srand(3); for (i = 0; i < 4000; i++) { k = int(rand() * 2) % 2; print k, (k + 1) ":" rand(), 4 ":" rand(), 5 + i % 90 ":1" } }' >"$TMP/rows.svm"
awk 'NR % 3 == 1' "$TMP/rows.svm" >"$TMP/more.svm"
train() # train FOLDER OPTIONS...
{
    folder=$1
    shift
    exec_or_run "$GYRE" train "$TMP/small.net" "$TMP/data" --batch 8 --lr .05 --steps 12 --checkpoint-every 2 --keep 9 --threads 1 --flip --ema .9 \
        --schedule constant --out "$folder" "$@"
}
exec_or_run() { $RUN "$@"; }
RUN=

# A scenario has these functions, each with a FOLDER. NAME_prepare. NAME_run: runs through $RUN.
# NAME_whole: the result is there and right. NAME_sound: nothing is lost and nothing half written.
# NAME_again: what a person does next, without a fault.
parts= # may: a killed process has left them
no_parts()
{
    if [ "$parts" != may ] && [ -n "$(find "$1" -name '*.part*')" ]; then
        problem "left over: $(cd "$1" && echo ./*.part*)"
    fi
}
# same_net FILE WANT: the same tensors, in a file that can be read. A run that was ended between two
# rows has other sums for the next row.
same_net()
{
    tail -c "$tensors" "$1" >"$TMP/tensors.got"
    tail -c "$tensors" "$2" >"$TMP/tensors.want"
    cmp -s "$TMP/tensors.got" "$TMP/tensors.want" && "$GYRE" info "$1" >/dev/null 2>&1
}
checkpoints_sound() # every checkpoint is as that step's of the undisturbed run
{
    for file in "$1"/checkpoint-*.safetensors; do
        [ -e "$file" ] || continue
        want=$TMP/steps/$(basename "$file")
        cmp -s "$file" "$want" || same_net "$file" "$want" || problem "$(basename "$file") is not whole"
    done
    no_parts "$1"
}
rows_of() { sed 's/,[^,]*$//' "$1/metrics.csv" 2>/dev/null; }
run_whole()
{
    cmp -s "$1/checkpoint-12.safetensors" "$TMP/whole/checkpoint-12.safetensors" || problem 'another last checkpoint'
    rows_of "$1" >"$TMP/rows.got"
    cmp -s "$TMP/rows.got" "$TMP/rows.want" || problem 'other rows'
    checkpoints_sound "$1"
}
train_prepare() { mkdir "$1"; }
train_run() { train "$1"; }
train_whole() { run_whole "$1"; }
train_sound() { checkpoints_sound "$1"; }
train_again() { train "$1" --resume; }
resume_prepare() { cp -r "$TMP/half" "$1"; }
resume_run() { train "$1" --resume; }
resume_whole() { run_whole "$1"; }
resume_sound()
{
    for step in 2 4 6; do
        [ -e "$1/checkpoint-$step.safetensors" ] || problem "checkpoint-$step is lost"
    done
    checkpoints_sound "$1"
}
resume_again() { train "$1" --resume; }
# a target that is there already stays until the new one is whole
one_of() # one_of FILE OLD NEW
{
    cmp -s "$1" "$2" || cmp -s "$1" "$3" || problem "$(basename "$1") is neither the old one nor the new one"
}
pack_prepare() { mkdir "$1" && cp "$TMP/old.gyr" "$1/data.gyr"; }
pack_run() { exec_or_run "$GYRE" pack "$TMP/data" "$1/data.gyr" --threads 1; }
pack_whole() { cmp -s "$1/data.gyr" "$TMP/new.gyr" || problem 'another packed file'; no_parts "$1"; }
pack_sound() { one_of "$1/data.gyr" "$TMP/old.gyr" "$TMP/new.gyr"; no_parts "$1"; }
pack_again() { pack_run "$1"; }
append_prepare() { mkdir "$1" && cp "$TMP/old.blocks" "$1/rows.blocks"; }
append_run() { exec_or_run "$GYRE" glm convert "$TMP/more.svm" "$1/rows.blocks" --append --threads 1; }
append_whole() { cmp -s "$1/rows.blocks" "$TMP/new.blocks" || problem 'another block file'; }
seen() { (cd "$1" && "$GYRE" glm inspect rows.blocks --json) >"$TMP/rows.seen" 2>/dev/null; }
append_sound() # what is behind the end that the header states does not count
{
    seen "$1" || problem 'the block file cannot be read any more'
    cmp -s "$TMP/rows.seen" "$TMP/inspect.old" || cmp -s "$TMP/rows.seen" "$TMP/inspect.new" || problem 'the block file has other rows'
}
append_again()
{
    seen "$1"
    cmp -s "$TMP/rows.seen" "$TMP/inspect.new" || append_run "$1"
}
glm_prepare() { mkdir "$1" && cp "$TMP/old.model" "$1/a.model"; }
glm_run()
{
    exec_or_run "$GYRE" glm train "$TMP/new.blocks" "$1/a.model" --solver newton --l2 2 --gap 1e-6 -m 1 --out "$1/run" --checkpoint-every 0 --resume -q
}
# a training that goes on ends at another point of the same proved gap
glm_whole()
{
    cmp -s "$1/a.model" "$TMP/new.model" || "$GYRE" glm verify "$1/a.model" "$TMP/new.blocks" >/dev/null 2>&1 || problem 'another model'
    no_parts "$1"
}
glm_sound() { one_of "$1/a.model" "$TMP/old.model" "$TMP/new.model"; no_parts "$1"; }
glm_again() { glm_run "$1"; }

# ---- undisturbed
expect 0 train "$TMP/whole"
rows_of "$TMP/whole" >"$TMP/rows.want"
expect 0 train "$TMP/steps" --checkpoint-every 1 --keep 99
same "$TMP/whole/checkpoint-8.safetensors" "$TMP/steps/checkpoint-8.safetensors"
header=$(od -An -tu8 -N8 "$TMP/whole/checkpoint-12.safetensors")
tensors=$(($(wc -c <"$TMP/whole/checkpoint-12.safetensors") - 8 - header))
expect 0 train "$TMP/half" --steps 6
rm -f "$TMP/half/curve.svg"
expect 0 "$GYRE" pack "$TMP/data/test" "$TMP/old.gyr"
expect 0 "$GYRE" pack "$TMP/data" "$TMP/new.gyr"
expect 0 "$GYRE" glm convert "$TMP/rows.svm" "$TMP/old.blocks" --threads 1
cp "$TMP/old.blocks" "$TMP/new.blocks"
expect 0 "$GYRE" glm convert "$TMP/more.svm" "$TMP/new.blocks" --append --threads 1
for age in old new; do
    mkdir "$TMP/inspect"
    cp "$TMP/$age.blocks" "$TMP/inspect/rows.blocks"
    seen "$TMP/inspect"
    mv "$TMP/rows.seen" "$TMP/inspect.$age"
    rm -r "$TMP/inspect"
done
expect 0 "$GYRE" glm train "$TMP/old.blocks" "$TMP/old.model" --l2 7 -m 1 -q
mkdir "$TMP/model"
RUN=
expect 0 glm_run "$TMP/model"
cp "$TMP/model/a.model" "$TMP/new.model"

# ---- what a disturbed run is judged by
problems=
problem() { problems="$problems; $*"; }
# judge SCENARIO FOLDER CODE STRICT: STRICT 1: it must not have gone well
judge()
{
    if [ "$3" = 0 ]; then
        "$1_whole" "$2"
        [ "$4" != 1 ] || problem 'nothing was told'
    else
        [ "$4" = kill ] || [ "$3" -lt 124 ] || problem "code $3"
        [ "$4" = kill ] || [ -s "$err" ] || problem "code $3 without a word"
        "$1_sound" "$2"
    fi
}
# go_on SCENARIO FOLDER: without a fault, to the right end
go_on()
{
    RUN='timeout 60'
    if "$1_again" "$2" >"$out" 2>"$TMP/again" </dev/null; then
        "$1_whole" "$2"
    else
        problem "does not go on: $(tail -n 1 "$TMP/again")"
    fi
}
# disturbed SCENARIO HOW WHAT COMMAND...: the scenario under COMMAND. HOW: as STRICT, or kill
runs=0
disturbed()
{
    scenario=$1 strict=$2 what=$3
    shift 3
    [ "$strict" != kill ] || parts=may
    folder=$TMP/disturbed problems=
    rm -rf "$folder"
    "${scenario}_prepare" "$folder"
    RUN="timeout 60 $*"
    got=0
    "${scenario}_run" "$folder" >"$out" 2>"$err" </dev/null || got=$?
    said=$(tail -n 1 "$err")
    judge "$scenario" "$folder" "$got" "$strict"
    case $scenario in train|resume) parts= ;; esac # such a run cleans its folder when it goes on
    [ "$got" = 0 ] || go_on "$scenario" "$folder"
    parts=
    runs=$((runs + 1))
    if [ -z "$problems" ]; then ok; else bad "$scenario, $what: code $got$problems; it said: $said"; fi
}

# ---- the judge itself: what must not happen is seen
planted() # planted SCENARIO WHAT: the folder $TMP/planted after a run that ended with a sentence
{
    problems=
    echo 'a sentence' >"$err"
    judge "$1" "$TMP/planted" 3 0
    if [ -n "$problems" ]; then ok; else bad "$2 is not noticed"; fi
    rm -rf "$TMP/planted"
}
resume_prepare "$TMP/planted" && head -c 900 "$TMP/whole/checkpoint-8.safetensors" >"$TMP/planted/checkpoint-8.safetensors"
planted resume 'half a checkpoint'
resume_prepare "$TMP/planted" && rm "$TMP/planted/checkpoint-4.safetensors"
planted resume 'a lost checkpoint'
resume_prepare "$TMP/planted" && : >"$TMP/planted/checkpoint-8.safetensors.part1000"
planted resume 'a file that is half written'
pack_prepare "$TMP/planted" && head -c 900 "$TMP/new.gyr" >"$TMP/planted/data.gyr"
planted pack 'half a packed file'

# ---- the n-th system call
# Calls of a run, each with an error. strict: a run that succeeds in spite of it has not checked. An
# interruption (EINTR) must not matter.
cat >"$TMP/kinds" <<'END'
write ENOSPC strict
write EIO strict
write EINTR quiet
pwrite64 ENOSPC strict
pwrite64 EINTR quiet
fsync EIO strict
fsync EINTR quiet
?rename,?renameat,?renameat2 EIO strict
?rename,?renameat,?renameat2 EACCES strict
openat EMFILE any
openat EIO any
openat ENOSPC any
openat EINTR any
read EIO any
read EINTR quiet
pread64 EIO any
pread64 EINTR quiet
?fstat,?newfstatat EIO any
getdents64 EIO any
mmap ENOMEM any
mprotect ENOMEM any
ftruncate EIO any
fcntl ENOLCK any
lseek EIO any
close EIO any
?mkdir,?mkdirat ENOSPC any
?unlink,?unlinkat EIO any
?clone,?clone3 EAGAIN any
sched_getaffinity EINVAL any
END
# call_count SCENARIO CALLS: sets count, the most calls that a thread of an undisturbed run makes.
# loading is the number of them before the command's own first act.
call_count()
{
    strace -qq -o "$TMP/calls" -e "trace=$2,fcntl" "$GYRE" --version >/dev/null 2>&1
    loading=$(awk -v calls=",$2," '/^fcntl/ { exit } { sub(/\(.*/, "") } index(calls, "," $0 ",") || index(calls, ",?" $0 ",") { n++ } END { print n + 0 }' \
        "$TMP/calls")
    rm -rf "$TMP/counted"
    "$1_prepare" "$TMP/counted"
    RUN="strace -f -qq -o $TMP/calls -e trace=$2"
    "$1_run" "$TMP/counted" >"$out" 2>"$err" </dev/null || return 1
    count=$(awk '/^[0-9]+ +[a-z0-9_]+\(/ { n[$1]++ } END { for (t in n) most = n[t] > most ? n[t] : most; print most + 0 }' "$TMP/calls")
}
scenarios='train resume pack append glm'
if ! command -v strace >/dev/null || ! strace -qq -o /dev/null true 2>/dev/null; then
    skip 'no strace, or it may not trace here: system calls do not fail'
else
    began=$(date +%s)
    while read -r call error how; do
        for scenario in $scenarios; do
            call_count "$scenario" "$call"
            own=$((count - loading))
            tried=$((own < CALLS ? own : CALLS))
            i=0
            while [ $i -lt "$tried" ]; do
                n=$((loading + 1 + (own - 1) * i / (tried > 1 ? tried - 1 : 1)))
                i=$((i + 1))
                strict=0
                [ "$how" != strict ] || strict=1
                disturbed "$scenario" $strict "$error at call $n of $count of $call" \
                    strace -f -qq -o /dev/null -e "trace=$call" -e "inject=$call:error=$error:when=$n"
                # words on standard output go through the C library, which gives up; that is told
                case $how/$got/$said in
                */0/* | strict/* | any/* | */'gyre: writing to standard output failed') ;;
                *) bad "$scenario, $error at call $n of $call: code $got: $said" ;;
                esac
            done
        done
    done <"$TMP/kinds"
    printf '%d runs with a failing system call, %d s\n' $runs $(($(date +%s) - began))
fi

# ---- memory: of the address space, in steps from what the smallest command needs
cat >"$TMP/under" <<'END'
ulimit -v "$1"
shift
exec "$@"
END
if (ulimit -v 4000000) 2>/dev/null; then
    began=$(date +%s) runs=0
    least=4000
    while ! sh "$TMP/under" $least "$GYRE" --version >/dev/null 2>&1; do least=$((least + 1000)); done
    for scenario in $scenarios; do
        most=$least
        for round in 1 2 3 4 5 6 7 8; do
            rm -rf "$TMP/disturbed"
            "${scenario}_prepare" "$TMP/disturbed"
            RUN="sh $TMP/under $most"
            "${scenario}_run" "$TMP/disturbed" >"$out" 2>"$err" </dev/null && break
            most=$((most * 2))
        done
        i=0
        while [ $i -lt "$STEPS" ]; do
            limit=$((least + (most - least) * i / STEPS))
            i=$((i + 1))
            disturbed "$scenario" 0 "$limit KB of memory" sh "$TMP/under" $limit
        done
    done
    printf '%d runs with little memory, from %d KB on, %d s\n' $runs "$least" $(($(date +%s) - began))
else
    skip 'this shell cannot limit the address space'
fi

# ---- kills
began=$(date +%s) runs=0
killed=0
for scenario in $scenarios; do
    rm -rf "$TMP/timed"
    "${scenario}_prepare" "$TMP/timed"
    RUN=
    whole_ms=$(date +%s%N)
    "${scenario}_run" "$TMP/timed" >/dev/null 2>&1 </dev/null
    whole_ms=$((($(date +%s%N) - whole_ms) / 1000000))
    k=0
    while [ $k -lt "$KILLS" ]; do
        k=$((k + 1))
        wait_s=$(awk -v s="$SEED" -v n="$k" -v w="$scenario" -v ms="$whole_ms" '
            BEGIN { srand(s % 100000 * 1000 + length(w) * 100 + n); print rand() * ms * 1.1 / 1000 }')
        disturbed "$scenario" kill "killed after $wait_s s" timeout --foreground -s KILL "$wait_s"
        [ "$got" = 0 ] || killed=$((killed + 1))
    done
done
if [ $killed -gt 0 ]; then ok; else bad "nothing was killed (seed $SEED)"; fi
printf '%d runs to be killed, %d were, %d s\n' $runs $killed $(($(date +%s) - began))
finish
