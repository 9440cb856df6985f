#!/bin/sh
# SPDX-License-Identifier: MIT
# Ranks that are started by other means: Open MPI's mpirun, MPICH's Hydra, torchrun's variables, a
# real Slurm. Slurm is munge, slurmctld and two slurmd on this machine, all in a folder of their
# own. Also 'gyre launch --hosts' through a real sshd, on this host and, as root, on two hosts in
# network namespaces. Each trains to the bits of 'gyre launch', on ranks of one host. With
# GYRE_ALLREDUCE=flat/ it does so through the network between ranks that count as hosts. A rank that
# fails ends the job. A launcher that is not installed is skipped. run_launchers.sh GYRE
. "$(dirname "$0")/e2e.inc"
. "$(dirname "$0")/hosts.inc"
. "$(dirname "$0")/strike.inc"
GYRE=$1
make_images "$TMP/data/train" 4 30 20 1
tiny_net >"$TMP/tiny.net"
tiny_net | sed 's/^\(.*linear [0-9]*\)/\1 split/' >"$TMP/split.net"
last=checkpoint-15.safetensors

# ranks_train FOLDER LAUNCHER...: four ranks of two images, one thread each; with the options $more
more='' net=$TMP/tiny.net steps=15
ranks_train()
{
    folder=$TMP/$1
    shift
    "$@" "$GYRE" train "$net" "$TMP/data" --epochs 1 --steps $steps --batch 2 --threads 1 --pad-crop 2 --flip --out "$folder" $more
}
# elastic_train FOLDER LAUNCHER...: the same, longer and with shards; ranks 0 and 3 are killed
elastic_train()
{
    (
        soon has_rows "$TMP/$1" 200 && lose_ranks "$TMP/$1" 0 && soon has_rows "$TMP/$1" 700 && lose_ranks "$TMP/$1" 3
    ) &
    striker=$!
    elastic_alone "$@"
}
elastic_alone()
{
    folder=$1
    shift
    more='--shards 4 --elastic 1:4' steps=6000
    got=0
    ranks_train "$folder" "$@" || got=$?
    more='' steps=15
    return $got
}
# parts_train PREFIX LAUNCHER...: trains the net in 4 stages, in two copies of 2, and with a layer
# that is split. Each ends with the bits of one process.
parts_train()
{
    prefix=$1
    shift
    for parts in 4 2; do
        more="--shards 4 --pipeline $parts"
        expect 0 ranks_train "$prefix-$parts" "$@"
        there "$TMP/$prefix-$parts/$last"
        same "$TMP/whole/$last" "$TMP/$prefix-$parts/$last"
    done
    more='--shards 4' net=$TMP/split.net
    expect 0 ranks_train "$prefix-split" "$@"
    there "$TMP/$prefix-split/$last"
    same "$TMP/slices/$last" "$TMP/$prefix-split/$last"
    more='' net=$TMP/tiny.net
}
# served_train FOLDER SERVERS SYNC LAUNCHER...: some of the ranks are parameter servers
served_train()
{
    folder=$1 more="--servers $2 --sync $3"
    [ "$3" = async ] || more="$more --shards 4"
    shift 3
    got=0
    ranks_train "$folder" "$@" || got=$?
    more=
    return $got
}
# reaches FOLDER: as gyre launch
reaches() { there "$TMP/$1/$last"; same "$TMP/launch/$last" "$TMP/$1/$last"; }

expect 0 ranks_train launch "$GYRE" launch --ranks 4 --
long=checkpoint-6000.safetensors
expect 0 elastic_alone elastic "$GYRE" launch --ranks 1 --
there "$TMP/elastic/$long"
there "$TMP/launch/$last"
more='--shards 4'
expect 0 ranks_train whole env
net=$TMP/split.net
expect 0 ranks_train slices env
more='' net=$TMP/tiny.net
parts_train parts "$GYRE" launch --ranks 4 --
there "$TMP/whole/$last"
expect 0 ranks_train flat env GYRE_ALLREDUCE=flat/doubling "$GYRE" launch --ranks 4 --
there "$TMP/flat/$last"
# What is measured between hosts never shows in the bits. A schedule from a file is like any other.
expect 0 ranks_train chosen env GYRE_ALLREDUCE=flat/ "$GYRE" launch --ranks 4 --
same "$TMP/flat/$last" "$TMP/chosen/$last"
"$GYRE" net plan --algorithm doubling --ranks 4 >"$TMP/mine.schedule"
expect 0 ranks_train file env GYRE_ALLREDUCE=flat/file:"$TMP/mine.schedule" "$GYRE" launch --ranks 4 --
same "$TMP/flat/$last" "$TMP/file/$last"
sed 2d "$TMP/mine.schedule" >"$TMP/broken.schedule"
expect 3 ranks_train broken env GYRE_ALLREDUCE=flat/file:"$TMP/broken.schedule" "$GYRE" launch --ranks 4 --
says "$err" 'schedule doubling: rank 1'
expect 0 ranks_train fastest env GYRE_ALLREDUCE=flat/fastest "$GYRE" launch --ranks 4 --

# ---- Open MPI
if command -v mpirun >/dev/null 2>&1; then
    mpi="mpirun --allow-run-as-root --oversubscribe -n 4"
    # shellcheck disable=SC2086
    expect 0 ranks_train mpi $mpi
    reaches mpi
    # shellcheck disable=SC2086
    expect 0 ranks_train mpi-flat $mpi -x GYRE_ALLREDUCE=flat/doubling
    same "$TMP/flat/$last" "$TMP/mpi-flat/$last"
    # shellcheck disable=SC2086
    parts_train mpi-parts $mpi
    # a job that outlives its ranks, and its rank 0
    # shellcheck disable=SC2086
    expect 0 elastic_train mpi-elastic $mpi --enable-recovery
    struck
    same "$TMP/elastic/$long" "$TMP/mpi-elastic/$long"
    # parameter servers: two workers and one, two and two; worker 0 is lost, and the others go on
    for servers in 1 2; do
        expect 0 served_train mpi-served-$servers $servers server mpirun --allow-run-as-root --oversubscribe -n $((2 + servers))
        same "$TMP/whole/$last" "$TMP/mpi-served-$servers/$last"
    done
    until
        rm -rf "$TMP/mpi-lost"
        strike_when has_steps "$TMP/mpi-lost" 100 1
        # shellcheck disable=SC2086
        steps=6000 expect 0 served_train mpi-lost 1 async $mpi --enable-recovery
        hit
    do :; done
    there "$TMP/mpi-lost/$long"
    says "$err" 'rank 1 on .* has ended.*; the other workers go on'
    # shellcheck disable=SC2086
    expect 2 ranks_train mpi-bad $mpi env GYRE_ALLREDUCE=flat/nothing
    says "$err" 'nothing'
else
    skip 'mpirun is not installed (Debian: openmpi-bin)'
fi

# ---- Hydra, two jobs at once
if command -v mpiexec.hydra >/dev/null 2>&1; then
    ranks_train hydra-beside mpiexec.hydra -n 4 >"$TMP/beside" 2>&1 &
    pid=$!
    expect 0 ranks_train hydra mpiexec.hydra -n 4
    reaches hydra
    if wait $pid; then ok; else bad 'of two jobs at once'; tail -n 5 "$TMP/beside"; fi
    reaches hydra-beside
else
    skip 'mpiexec.hydra is not installed (Debian: mpich)'
fi

# ---- torchrun's variables
torch_ranks()
{
    pids=
    for rank in 0 1 2 3; do
        RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29512 TORCHELASTIC_RUN_ID=one "$@" &
        pids="$pids $!"
    done
    code=0
    for pid in $pids; do wait "$pid" || code=$?; done
    return $code
}
expect 0 ranks_train torch torch_ranks
reaches torch

# ---- ssh
ssh_end()
{
    for pid in "$TMP"/ssh/*.pid; do
        [ ! -s "$pid" ] || kill "$(cat "$pid")" 2>/dev/null
    done
    hosts_down
}
# ssh_begin: makes keys of hosts and of the client, and the file that ssh reads. ssh_server adds a
# server.
ssh_begin()
{
    mkdir -m 700 "$TMP/ssh"
    ssh-keygen -q -t ed25519 -N '' -f "$TMP/ssh/host" && ssh-keygen -q -t ed25519 -N '' -f "$TMP/ssh/user" || return 1
    cp "$TMP/ssh/user.pub" "$TMP/ssh/authorized"
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
    : >"$TMP/ssh/config"
}
# ssh_server NAME ADDRESS PORT COMMAND...: the server is started by the command
ssh_server()
{
    cat >>"$TMP/ssh/config" <<END
Host $1
    HostName $2
    Port $3
    User $(id -un)
    IdentityFile $TMP/ssh/user
    IdentitiesOnly yes
    BatchMode yes
    UserKnownHostsFile $TMP/ssh/known
END
    echo "[$2]:$3 $(cat "$TMP/ssh/host.pub")" >>"$TMP/ssh/known"
    cat >"$TMP/ssh/server.$3" <<END
ListenAddress $2
Port $3
HostKey $TMP/ssh/host
PidFile $TMP/ssh/$3.pid
AuthorizedKeysFile $TMP/ssh/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
END
    port=$3
    shift 3
    "$@" "$sshd" -f "$TMP/ssh/server.$port" -E "$TMP/ssh/server.$port.log"
}
# ssh_answers NAME COMMAND...: the server does; asked by the command
ssh_answers()
{
    server=$1
    shift
    "$@" ssh -F "$TMP/ssh/config" "$server" true 2>/dev/null
}
sshd=$(command -v sshd || PATH=/usr/sbin:/sbin command -v sshd)
if [ -z "$sshd" ] || ! command -v ssh >/dev/null || ! command -v ssh-keygen >/dev/null; then
    skip 'no ssh or sshd (Debian: openssh-client, openssh-server)'
elif ! ssh_begin || ! ssh_server near-a 127.0.0.1 17022 || ! ssh_server near-b 127.0.0.1 17023; then
    bad 'sshd did not begin'
    cat "$TMP"/ssh/*.log
else
    trap 'exit 1' INT TERM
    trap 'ssh_end; [ -z "$own_tmp" ] || rm -rf "$own_tmp"' EXIT
    for i in a b; do soon ssh_answers near-$i; done
    printf 'near-a slots=2 address=127.0.0.1\nnear-b slots=2\n' >"$TMP/near.txt"
    by_ssh() { "$GYRE" launch --hosts "$TMP/near.txt" --ssh "ssh -F $TMP/ssh/config" "$@"; }
    expect 0 ranks_train ssh by_ssh --
    reaches ssh
    expect 0 ranks_train ssh-flat env GYRE_ALLREDUCE=flat/doubling "$GYRE" launch --hosts "$TMP/near.txt" --ssh "ssh -F $TMP/ssh/config" --
    same "$TMP/flat/$last" "$TMP/ssh-flat/$last"
    expect 5 by_ssh -- sh -c '[ $GYRE_RANK = 3 ] && exit 5; exec sleep 30'
    says "$err" 'rank 3 on near-b.*ended with code 5'
    # no command line has the key: sixty-four hexadecimal digits in a row
    expect 1 by_ssh -- sh -c 'for f in /proc/[0-9]*/cmdline; do tr "\0" "\n" <"$f" 2>/dev/null | grep -a GYRE_RANKS; done |
        grep -a -E -q "(^|[^0-9a-f])[0-9a-f]{64}([^0-9a-f]|\$)"'
    if [ "$(id -u)" != 0 ]; then
        skip 'two hosts need root'
    elif ! hosts_up 2 || ! ip -n "$switch" addr add 10.77.0.200/24 dev br0; then
        skip "two hosts: $why"
    else
        : >"$TMP/far.txt"
        for i in 0 1; do
            ssh_server "$tag$i" "10.77.0.$((i + 1))" 1703$i nsenter -t "$(cat "$TMP/holder.$i")" --net --ipc --pid --uts --mount --
            echo "$tag$i slots=2 address=10.77.0.$((i + 1))" >>"$TMP/far.txt"
        done
        for i in 0 1; do soon ssh_answers "$tag$i" ip netns exec "$switch"; done
        expect 0 ranks_train far ip netns exec "$switch" "$GYRE" launch --hosts "$TMP/far.txt" --ssh "ssh -F $TMP/ssh/config" --
        reaches far
        says "$out" '4 processes'
    fi
fi

# ---- Slurm
slurm_end()
{
    # of a step whose end the controller did not hear any more
    for process in $(pgrep slurmstepd); do
        case $(readlink "/proc/$process/cwd") in "$TMP"/slurm*) kill -9 "$process" ;; esac
    done
    for pid in "$TMP"/slurm/*.pid; do
        [ ! -s "$pid" ] || kill "$(cat "$pid")" 2>/dev/null
    done
    sleep 1
    ssh_end
    [ -z "$own_tmp" ] || rm -rf "$own_tmp"
}
slurm_begin()
{
    host=$(hostname -s)
    mkdir -p "$TMP/slurm/state"
    chmod 755 "$TMP" "$TMP/slurm"
    dd if=/dev/urandom of="$TMP/slurm/munge.key" bs=128 count=1 2>/dev/null
    chmod 600 "$TMP/slurm/munge.key"
    cat >"$TMP/slurm/slurm.conf" <<END
ClusterName=gyre
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$TMP/slurm/munge.sock
StateSaveLocation=$TMP/slurm/state
SlurmdSpoolDir=$TMP/slurm/spool-%n
SlurmctldPidFile=$TMP/slurm/slurmctld.pid
SlurmdPidFile=$TMP/slurm/slurmd-%n.pid
SlurmctldLogFile=$TMP/slurm/slurmctld.log
SlurmdLogFile=$TMP/slurm/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
NodeName=$host NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=4 State=UNKNOWN
NodeName=$host-b NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
    SLURM_CONF=$TMP/slurm/slurm.conf
    export SLURM_CONF
    trap slurm_end EXIT
    munged --force --key-file="$TMP/slurm/munge.key" --socket="$TMP/slurm/munge.sock" --pid-file="$TMP/slurm/munged.pid" \
        --log-file="$TMP/slurm/munged.log" --seed-file="$TMP/slurm/munge.seed" >"$TMP/slurm/begin.log" 2>&1 &&
        slurmctld -c >>"$TMP/slurm/begin.log" 2>&1 && slurmd -N "$host" >>"$TMP/slurm/begin.log" 2>&1 && slurmd -N "$host-b" >>"$TMP/slurm/begin.log" 2>&1
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ! sinfo -h -t idle -o %D 2>/dev/null | grep -q 2 || return 0
        sleep 1
    done
    return 1
}
if ! command -v slurmctld >/dev/null 2>&1 || ! command -v munged >/dev/null 2>&1; then
    skip 'Slurm is not installed (Debian: slurm-wlm, munge)'
elif [ "$(id -u)" != 0 ]; then
    skip 'Slurm is started by root here'
elif ! slurm_begin; then
    bad 'Slurm did not begin'
    tail -n 3 "$TMP"/slurm/*.log
else
    expect 0 ranks_train slurm srun -N 1 -n 4 # one node: nothing has to be said
    reaches slurm
    parts_train slurm-parts srun -N 1 -n 4
    # srun tells of the killed ones
    expect 137 elastic_train slurm-elastic srun -N 1 -n 4 -K0 --no-kill
    struck
    same "$TMP/elastic/$long" "$TMP/slurm-elastic/$long"
    for servers in 1 2; do
        expect 0 served_train slurm-served-$servers $servers server srun -N 1 -n $((2 + servers))
        same "$TMP/whole/$last" "$TMP/slurm-served-$servers/$last"
    done
    strike_when has_steps "$TMP/slurm-lost" 100 1
    steps=6000 expect 137 served_train slurm-lost 1 async srun -N 1 -n 4 -K0 --no-kill
    struck
    there "$TMP/slurm-lost/$long"
    says "$err" 'rank 1 on .* has ended.*; the other workers go on'
    # several nodes: a key; Slurm's list of hosts tells where rank 0 is
    expect 2 ranks_train slurm-alone srun -N 2 -n 4
    says "$err" 'GYRE_KEY_FILE, a file of 64 hexadecimal digits that its owner alone may read; '
    (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$TMP/key")
    expect 0 ranks_train slurm-two env GYRE_KEY_FILE="$TMP/key" GYRE_MASTER_HOST=127.0.0.1 srun -N 2 -n 4
    reaches slurm-two
    parts_train slurm-parts-two env GYRE_KEY_FILE="$TMP/key" GYRE_MASTER_HOST=127.0.0.1 srun -N 2 -n 4
    if getent hosts "$host" >/dev/null; then
        expect 0 ranks_train slurm-list env GYRE_KEY_FILE="$TMP/key" srun -N 2 -n 4
        reaches slurm-list
    else
        skip "the name of this host, $host, leads nowhere"
    fi
    expect 0 ranks_train slurm-flat env GYRE_KEY_FILE="$TMP/key" GYRE_MASTER_HOST=127.0.0.1 GYRE_ALLREDUCE=flat/doubling srun -N 2 -n 4
    same "$TMP/flat/$last" "$TMP/slurm-flat/$last"
    expect 0 served_train slurm-served-two 2 server env GYRE_KEY_FILE="$TMP/key" GYRE_MASTER_HOST=127.0.0.1 srun -N 2 -n 4
    same "$TMP/whole/$last" "$TMP/slurm-served-two/$last"
    expect 137 elastic_train slurm-elastic-two env GYRE_KEY_FILE="$TMP/key" GYRE_MASTER_HOST=127.0.0.1 srun -N 2 -n 4 -K0 --no-kill
    struck
    same "$TMP/elastic/$long" "$TMP/slurm-elastic-two/$long"
fi
finish
