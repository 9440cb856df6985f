#!/bin/sh
# SPDX-License-Identifier: MIT
# run_proof.sh FOLDER [NAME...]: the proofs of the table tests/proof/bounds by CBMC 6. Each runs
# once on the source as it is, which must hold, and once with the table's planted mistake, which
# must not. FOLDER keeps what is made. CBMC is $GYRE_CBMC (a folder with cbmc, goto-cc,
# goto-instrument, kissat), or that of PATH. On Debian as root it may be Debian 13's, unpacked into
# FOLDER/cbmc without touching the system. Without any all proofs are skipped. Variables: JOBS (at
# most 2 proofs at a time), LIMIT (seconds of a processor a run, default 300), GYRE_NO_INSTALL=1
# (unpacks nothing).
set -eu
export LC_ALL=C
TABLE=tests/proof/bounds
PACKAGES="cbmc kissat minisat libc6 libgcc-s1 libstdc++6 zlib1g"
CHECKS="--bounds-check --pointer-check --pointer-overflow-check --pointer-primitive-check --signed-overflow-check --conversion-check
--div-by-zero-check --undefined-shift-check --enum-range-check --memory-leak-check --unwinding-assertions --malloc-may-fail --malloc-fail-null
--slice-formula --drop-unused-functions --stop-on-fail"
MEMORY=4000000 # kB

# ---- one proof: run_proof.sh --one FOLDER TOOLS NAME ----

# field NUMBER: of the table's row
field() { printf '%s\n' "$row" | cut -d'|' -f"$1" | sed 's/^ *//; s/ *$//'; }

# "18 f.0:4 g.1:4": of all loops, of some
unwind() { field 4 | sed 's/ -[^ ]*//g; s/ / --unwindset /; s/:\([0-9]*\) /:\1,/g'; }

# Checks but those that the row leaves out, as "-conversion-check"
checks()
{
    for check in $CHECKS; do
        case " $(field 4) " in *" ${check#-} "*) ;; *) echo "$check" ;; esac
    done
}

# prove TREE LOG: 0 it holds, 10 it does not, else the tools failed
prove()
{
    replace=
    for callee in $(field 3); do
        replace="$replace --replace-calls $callee:contract_$callee"
    done
    with=
    [ "$(field 5)" != kissat ] || with="--external-sat-solver $tools/kissat"
    # shellcheck disable=SC2046,SC2086,SC3045 # words; every shell of today has this limit
    {
        "$tools/goto-cc" -std=gnu99 -I "$1" -D_POSIX_C_SOURCE=200809L --function proof -o "$2.goto" "$1/tests/proof/$name.c" &&
            { [ -z "$replace" ] || "$tools/goto-instrument" $replace "$2.goto" "$2.goto"; } || return 1
        code=0
        (ulimit -t "$LIMIT" && exec "$tools/cbmc" "$2.goto" $(checks) --unwind $(unwind) $with) || code=$?
        rm -f "$2.goto"
        return $code
    } >"$2" 2>&1
}

# plant TREE: a copy of what harnesses read, with the mistake
plant()
{
    rm -rf "$1"
    mkdir -p "$1/tests"
    cp -R engine io net kernels "$1" && cp -R tests/proof "$1/tests"
    sed -i "$(printf '%s\n' "$row" | cut -d'|' -f9- | sed 's/^ *//')" "$1/$(field 2)"
    ! cmp -s "$(field 2)" "$1/$(field 2)"
}

say_row() { printf '  %-7s %-18s %-28s %4s s  %s\n' "$1" "$name" "$(field 7)" "$2" "$3"; }

one()
{
    folder=$1 tools=$2 name=$3 code=0
    row=$(grep "^$name *|" $TABLE)
    log=$folder/$name.log
    # shellcheck disable=SC3045
    ulimit -v $MEMORY
    if [ "$(field 5)" = kissat ] && [ ! -x "$tools/kissat" ]; then
        say_row skipped - "there is no kissat"
        echo "0 0 1" >>"$folder/tally"
        return
    fi
    prove . "$log" || code=$?
    times >"$log.times" # of a processor: others may use the machine
    took=$(awk -F'[m.s]' 'NR == 2 { print 60 * $1 + $2 }' "$log.times")
    rm -f "$log.times"
    if [ $code != 0 ]; then
        say_row FAILED "$took" "$(why $code "$log"); see $log"
        echo "0 1 0" >>"$folder/tally"
        return
    fi
    code=0
    plant "$folder/planted/$name" || code=9
    [ $code != 0 ] || prove "$folder/planted/$name" "$log.planted" || code=$?
    rm -rf "$folder/planted/$name"
    case $code in
    10)
        say_row ok "$took" "planted mistake found: $(violated "$log.planted")"
        echo "1 0 0" >>"$folder/tally"
        ;;
    *)
        say_row FAILED "$took" "the planted mistake: $(why $code "$log.planted"); see $log.planted"
        echo "0 1 0" >>"$folder/tally"
        ;;
    esac
}

# The property that does not hold: its place, its words
violated()
{
    sed -n '/^Violated property:/{
        n
        s/^ *file \([^ ]*\).* line \([0-9]*\) .*/\1:\2/
        s/.*proof\/\.\.\/\.\.\///
        s/.*tests/tests/
        h
        n
        s/^ */ /
        H
        g
        s/\n//
        p
    }' "$1" | sed 1q | cut -c1-110
}

why()
{
    case $1 in
    0) echo "was not found" ;;
    9) echo "changes nothing: the table's expression matches no line" ;;
    10) violated "$2" ;;
    137|152) echo "more than $LIMIT s" ;;
    *) echo "the tools ended with $1" ;;
    esac
}

# ---- tools ----

whole() { [ -x "$1/cbmc" ] && [ -x "$1/goto-cc" ] && [ -x "$1/goto-instrument" ] && "$1/cbmc" --version 2>/dev/null | grep -q '^[6-9]\.'; }

# mirror: where this machine's packages come from
mirror()
{
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -n 's/^URIs: *\(http[^ ]*debian\)\/* *$/\1/p; s/^deb  *\(\[[^]]*\] *\)\{0,1\}\(http[^ ]*debian\)\/* .*/\2/p' | sed 1q
}

# unpack FOLDER: Debian 13's packages, and scripts that start what is in them by its own loader
unpack()
{
    from=$(mirror)
    mkdir -p "$1/apt/lists/partial" "$1/apt/cache/archives/partial" "$1/debs" "$1/root" "$1/bin"
    echo "deb ${from:-http://deb.debian.org/debian} trixie main" >"$1/apt/sources.list"
    cat >"$1/apt/apt.conf" <<X
Dir::Etc::SourceList "$1/apt/sources.list";
Dir::Etc::SourceParts "-";
Dir::State "$1/apt";
Dir::State::status "/dev/null";
Dir::Cache "$1/apt/cache";
APT::Sandbox::User "root";
X
    # shellcheck disable=SC2086
    (
        APT_CONFIG=$1/apt/apt.conf
        export APT_CONFIG
        apt-get -qq update && cd "$1/debs" && apt-get -qq download $PACKAGES
    ) >"$1/log" 2>&1 || return 1
    for package in "$1"/debs/*.deb; do
        dpkg -x "$package" "$1/root" || return 1
    done
    libraries=$1/root/usr/lib/x86_64-linux-gnu
    for tool in cbmc goto-cc goto-instrument kissat; do
        printf '#!/bin/sh\nexec %s --library-path %s:%s %s "$@"\n' "$libraries/ld-linux-x86-64.so.2" "$libraries" "$1/root/usr/lib" \
            "$1/root/usr/bin/$tool" >"$1/bin/$tool"
        chmod +x "$1/bin/$tool"
    done
    rm -rf "$1/debs" "$1/apt"
}

can_unpack()
{
    [ "${GYRE_NO_INSTALL:-0}" != 1 ] && [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && [ "$(uname -m)" = x86_64 ] &&
        command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1
}

# Prints the folder of the tools.
tools()
{
    on_path=$(command -v cbmc 2>/dev/null) || on_path=
    for place in ${GYRE_CBMC:+"$GYRE_CBMC"} ${on_path:+"${on_path%/*}"} "$1/cbmc/bin"; do
        ! whole "$place" || { echo "$place"; return 0; }
    done
    can_unpack && unpack "$1/cbmc" && whole "$1/cbmc/bin" && echo "$1/cbmc/bin"
}

# ---- all ----

LIMIT=${LIMIT:-300}
export LIMIT
if [ "$1" = --one ]; then
    one "$2" "$3" "$4"
    exit 0
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sed -n '/^#/d; s/ *|.*//p' $TABLE)
: >"$folder/tally"
if found=$(tools "$folder"); then
    printf '%s\n' "$@" | xargs -P "$(case ${JOBS:-2} in 1) echo 1 ;; *) echo 2 ;; esac)" -n 1 sh "$0" --one "$folder" "$found"
else
    for name in "$@"; do
        echo "  skipped $name: there is no CBMC 6"
        echo "0 0 1" >>"$folder/tally"
    done
fi
awk '{ p += $1; f += $2; s += $3 }
     END { printf("proof: %d passed, %d failed%s\n", p, f, (s ? ", " s " skipped" : "")); exit (f > 0) }' "$folder/tally"
