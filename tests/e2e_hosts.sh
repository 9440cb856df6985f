#!/bin/sh
# SPDX-License-Identifier: MIT
# gyre launch --hosts: the file of hosts line by line, where each process is started and with which
# words, variables and key. What stands for ssh here starts the command on this machine, and writes
# its words as one line at once. run_hosts.sh has real hosts.
. "$(dirname "$0")/e2e.inc"

cat >"$TMP/ssh" <<END
#!/bin/sh
line=
while [ \$# -gt 2 ]; do
    line="\$line\$1 "
    shift
done
printf '%s\n' "\$line\$1" >>"$TMP/said"
exec sh -c "\$2"
END
launch() { "$GYRE" launch --hosts "$TMP/hosts" --ssh "sh $TMP/ssh -o Some" "$@"; }
# what a process was told; its key comes by an open file
cat >"$TMP/tell" <<'END'
read -r key <&"$GYRE_KEY_FD"
echo "rank $GYRE_RANK of $GYRE_RANKS, here $GYRE_LOCAL_RANK of $GYRE_LOCAL_RANKS, at $GYRE_MASTER_HOST:$GYRE_MASTER_PORT," \
    "a key of ${#key}, ${GYRE_THREADS:-no} threads, turn $GYRE_EPOCH, ${GYRE_LISTEN_FD:+listens, }in $(pwd): $*"
echo "$key" >>"${0%tell}keys"
END
tell() { launch "$@" -- sh "$TMP/tell" "it's" 'two  words' '$HOME;&'; }

# ---- comments, empty lines, tabs; slots and an address; ranks in the order of the file
printf '# hosts of a job\n\n  first slots=2 address=127.0.0.1 # behind it\n\tsecond\r\nthird slots=1\n' >"$TMP/hosts"
expect 0 tell --threads 3 --port 4711
for row in '0 of 4, here 0 of 2' '1 of 4, here 1 of 2' '2 of 4, here 0 of 1' '3 of 4, here 0 of 1'; do
    tells "$out" "rank $row, at 127.0.0.1:4711, a key of 64, 3 threads, turn 0, in $(pwd): it's two  words \$HOME;&"
done
if [ "$(wc -l <"$out")" = 4 ] && [ "$(sort -u "$TMP/keys" | wc -l)" = 1 ]; then ok; else bad 'not four processes with one key'; fi
if [ "$(sort "$TMP/said" | uniq -c | tr -s ' ' | tr '\n' ,)" = ' 2 -o Some first, 1 -o Some second, 1 -o Some third,' ]; then ok; else
    bad "ssh was called otherwise: $(cat "$TMP/said")"
fi
# fewer ranks than there is room for: the last hosts have none
rm "$TMP/said"
expect 0 tell -n 2
tells "$out" 'rank 1 of 2, here 1 of 2, at 127.0.0.1:47201,'
if [ "$(sort -u "$TMP/said")" = '-o Some first' ]; then ok; else bad "started elsewhere: $(cat "$TMP/said")"; fi
# the processors of a host are divided among its processes
expect 0 tell -n 3
share=$(($(nproc) / 2))
tells "$out" "rank 1 of 3, here 1 of 2, at 127.0.0.1:47201, a key of 64, $((share > 0 ? share : 1)) threads"
tells "$out" "rank 2 of 3, here 0 of 1, at 127.0.0.1:47201, a key of 64, $(nproc) threads"
# variables of this job go along, and no others
expect 0 env GYRE_WIRE="it's bf16" OTHER=no "$GYRE" launch --hosts "$TMP/hosts" --ssh "env -i PATH=$PATH sh $TMP/ssh" -n 1 -- \
    sh -c 'echo "$GYRE_WIRE, ${OTHER:-none}"'
says "$out" "^it's bf16, none\$"

# ---- this host itself: without ssh, and rank 0 listens already
rm "$TMP/said"
printf 'localhost slots=3\n' >"$TMP/hosts"
expect 0 tell -n 2
says "$out" '^rank 0 of 2, here 0 of 2, at 127.0.0.1:[1-9][0-9]*, a key of 64, [0-9]* threads, turn 0, listens, in '
says "$out" '^rank 1 of 2, here 1 of 2, at 127.0.0.1:[1-9][0-9]*, a key of 64, [0-9]* threads, turn 0, in '
absent "$TMP/said"
printf '%s slots=1 address=127.0.0.1\nother\n' "$(uname -n)" >"$TMP/hosts"
expect 0 tell
says "$out" '^rank 0 of 2, .* listens, in '
if [ "$(cat "$TMP/said")" = '-o Some other' ]; then ok; else bad "started elsewhere: $(cat "$TMP/said")"; fi

# ---- two such hosts train as two processes of one do
make_images "$TMP/data" 4 20 20 1
plain_net >"$TMP/plain.net"
train() { "$GYRE" launch "$@" --threads 1 -- "$GYRE" train "$TMP/plain.net" "$TMP/data" --epochs 2 --batch 4 --test-data none --lr .02 --out "$folder"; }
folder=$TMP/one
expect 0 train --ranks 2
printf 'first address=127.0.0.1\nsecond\n' >"$TMP/hosts"
folder=$TMP/two
expect 0 train --hosts "$TMP/hosts" --ssh "sh $TMP/ssh"
says "$out" '^ranks: 2 processes of 4 images a step each'
there "$TMP/one/checkpoint-20.safetensors"
same "$TMP/one/checkpoint-20.safetensors" "$TMP/two/checkpoint-20.safetensors"
# a terminal's signal, which ssh gets too, ends all with a checkpoint
if command -v setsid >/dev/null; then
    (exec setsid "$GYRE" launch --hosts "$TMP/hosts" --ssh "sh $TMP/ssh" --threads 1 -- "$GYRE" train "$TMP/plain.net" "$TMP/data" \
        --schedule constant --lr .001 --steps 1000000 --checkpoint-every 5 --batch 4 --test-data none --out "$TMP/hung") >"$out" 2>"$err" </dev/null &
    pid=$!
    await "$TMP/hung"
    kill -s HUP -- "-$pid"
    got=0
    wait $pid || got=$?
    if [ $got = 6 ]; then ok; else bad "code $got after SIGHUP to the group of the launcher"; cat "$err"; fi
    says "$err" 'stopped after [0-9]* of 1000000 steps'
else
    skip 'no setsid (Debian: util-linux): no group of processes is stopped'
fi
# who ends badly is named with the host
expect 9 launch -- sh -c '[ $GYRE_RANK = 0 ] || exit 9; exec sleep 30'
says "$err" 'rank 1 on second (process [0-9]*) ended with code 9; the others are ended$'
expect 127 "$GYRE" launch --hosts "$TMP/hosts" --ssh "$TMP/no-such-ssh" -- true
says "$err" 'no-such-ssh cannot be started: No such file or directory$'

# ---- a file that is no list of hosts
refused() # refused CODE SENTENCE TEXT OPTIONS...
{
    code=$1 sentence=$2
    printf '%b' "$3" >"$TMP/hosts"
    shift 3
    expect "$code" launch "$@" -- true
    tells "$err" "gyre: $sentence"
}
refused 2 "$TMP/hosts:1: \"slots=0\"; slots are a number from 1 to 256" 'a slots=0\n'
refused 2 "$TMP/hosts:1: \"slots=257\"; slots are a number from 1 to 256" 'a slots=257\n'
refused 2 "$TMP/hosts:2: \"slots=2x\"; slots are a number from 1 to 256" '# a\nb slots=2x\n'
refused 2 "$TMP/hosts:1: \"slots=\"; slots are a number from 1 to 256" 'a slots=\n'
refused 2 "$TMP/hosts:2: \"speed=3\" is not known; after a host's name come slots=N and address=ADDRESS" 'a\nb speed=3\n'
refused 2 "$TMP/hosts:3: a is there twice; slots=N gives it N processes" 'a slots=2\nb\na address=b\n'
refused 2 "$TMP/hosts:1: \"address=\" is not known; after a host's name come slots=N and address=ADDRESS" 'a address=\n'
refused 2 "$TMP/hosts:1: this is no host's name" '-oProxyCommand=x\n'
refused 2 "$TMP/hosts:1: this is no host's name" "$(printf '%0300d' 0)\n"
refused 2 "$TMP/hosts:2: a line of more than 1022 bytes" "a\n# $(printf '%01100d' 0) b\n"
refused 2 "$TMP/hosts:1: a line of more than 1022 bytes" "# $(printf '%01021d' 0)"
refused 2 "$TMP/hosts:2: a byte of the line is 0; a file of hosts is text" '# a\na \0slots=2\n'
refused 2 "$TMP/hosts:1: a byte of the line is 0; a file of hosts is text" '# a comment\0\nb\n'
refused 2 "$TMP/hosts: there is no host in it" '# nothing\n\n'
refused 2 '3 processes; the hosts have room for 2, a job for 256' 'a\nb\n' -n 3
refused 2 '257 processes; the hosts have room for 257, a job for 256' 'a slots=256\nb\n'
refused 2 "$TMP/hosts: the other hosts cannot reach rank 0 on localhost; name it, or add address=" 'localhost\nb\n'
refused 2 'the address "no.such.host.invalid" of rank 0 is not known' 'localhost address=no.such.host.invalid\nb\n'
refused 2 "$TMP/hosts:257: more than 256 hosts" "$(awk 'BEGIN { for (i = 0; i < 257; i++) printf "h%d\\n", i }')"
expect 3 "$GYRE" launch --hosts "$TMP/none" -- true
says "$err" '/none: cannot be opened: No such file or directory$'
finish
