#!/bin/sh
# SPDX-License-Identifier: MIT
# run_static.sh COMMAND: the static command without CUDA and UCX. It is under 3 MB stripped and
# needs no library. It works in a root folder that holds nothing but itself and busybox (root only;
# skipped otherwise).
set -u
command=$1
LIMIT_BYTES=3000000
passed=0 failed=0 skipped=0

holds()
{
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $what"
    fi
}
close()
{
    echo "static: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}

bytes=$(wc -c <"$command") || { failed=1; close; }
echo "$command: $bytes bytes"
holds "under $LIMIT_BYTES bytes" test "$bytes" -lt $LIMIT_BYTES
interpreter() { readelf -l "$command" | grep -q INTERP; }
no_interpreter() { ! interpreter; }
holds "no dynamic loader" no_interpreter

box=$(command -v busybox)
if [ "$(id -u)" != 0 ] || [ -z "$box" ] || ldd "$box" >/dev/null 2>&1; then
    echo "skipped: the empty root folder (needs root and a static busybox)"
    skipped=1
    close
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$box" "$root/busybox"
cp "$command" "$root/gyre"
inside() { chroot "$root" /busybox sh -c "$1" >"$root/log" 2>&1 || { cat "$root/log"; return 1; }; }
holds "help" inside '/gyre help'
holds "a net of the zoo" inside '/gyre zoo lenet5 >/net.txt && /busybox grep -q conv /net.txt'
holds "its plan" inside '/gyre plan /net.txt --batch 8'

# 64 images of 28 x 28, half of them black and half white, as IDX files
octal() { printf '\\%03o\\%03o\\%03o\\%03o' $(($1 / 16777216 % 256)) $(($1 / 65536 % 256)) $(($1 / 256 % 256)) $(($1 % 256)); }
mkdir "$root/data"
for part in train t10k; do
    # shellcheck disable=SC2059
    {
        printf '\000\000\010\003'
        printf "$(octal 64)$(octal 28)$(octal 28)"
        head -c 25088 /dev/zero
        head -c 25088 /dev/zero | tr '\000' '\377'
    } >"$root/data/$part-images-idx3-ubyte"
    # shellcheck disable=SC2059
    {
        printf '\000\000\010\001'
        printf "$(octal 64)"
        head -c 32 /dev/zero
        head -c 32 /dev/zero | tr '\000' '\001'
    } >"$root/data/$part-labels-idx1-ubyte"
done
holds "training" inside '/gyre train lenet5 /data --epochs 1 --batch 16 --out /run'
holds "two ranks over TCP" inside 'export GYRE_ALLREDUCE=flat/halving
    /gyre launch --ranks 2 --threads 1 -- /gyre train lenet5 /data --epochs 1 --batch 8 --shards 2 --out /two'
holds "their checkpoint" inside '/busybox ls /two | /busybox grep -q safetensors'
holds "a checkpoint" inside '/busybox ls /run | /busybox grep -q safetensors'
close
