#!/bin/sh
# SPDX-License-Identifier: MIT
# Sums over two processes, in shared memory, over TCP of our own and of UCX. Beside them stand Open
# MPI (its default, coll/sm, and TCP by ob1 and by UCX) and Gloo. All take turns in several passes;
# the fastest of all passes of each counts. Prints a table in microseconds and ratios; writes CSV,
# each row with the machine and the commit. Needs a quiet machine for figures, mpicc and mpirun
# (Debian: openmpi-bin libopenmpi-dev) and PyTorch for its rows. Ours and Open MPI's are bound to
# cores. The other libraries have SECONDS_EACH for a size, and each row LIMIT seconds for a pass. So
# all of it, 8 bytes to 256 MiB, takes some minutes. A row that is absent, fails or is not done in
# its time is named, shown as "-", and makes the exit code 1.
#
#     bench_allreduce.sh GYRE OUT.csv
#     Variables: LEAST, MOST (bytes), ROUNDS, PASSES, SECONDS_EACH, LIMIT, PYTHON, MACHINE, COMMIT,
#                ONLY (rows, by pattern)
set -eu
gyre=$1 out=$2
here=$(dirname "$0")
LEAST=${LEAST:-8} MOST=${MOST:-268435456} ROUNDS=${ROUNDS:-10} PASSES=${PASSES:-3} PYTHON=${PYTHON:-python3} ONLY=${ONLY:-}
SECONDS_EACH=${SECONDS_EACH:-0.25} LIMIT=${LIMIT:-90}
MACHINE=${MACHINE:-$(nproc) cores $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)}
COMMIT=${COMMIT:-$(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
lacks_mpi='no mpicc and mpirun' lacks_gloo="no torch.distributed for $PYTHON"
if command -v mpicc >/dev/null && command -v mpirun >/dev/null && mpicc -O2 "$here/bench_allreduce.c" -o "$work/mpi"; then lacks_mpi=; fi
if "$PYTHON" -c 'import torch.distributed' 2>/dev/null; then lacks_gloo=; fi
missing=0
miss()
{
    echo "$*" >&2
    missing=1
}

# row NAME REASON COMMAND...: adds lines 'NAME,BYTES,FASTEST'. A REASON says why the command is not
# here.
row()
{
    name=$1 reason=$2 status=0
    shift 2
    [ -z "$ONLY" ] || echo "$name" | grep -Eqx "$ONLY" || return 0
    if [ -n "$reason" ]; then
        miss "$name: $reason"
        return 0
    fi
    timeout "$LIMIT" "$@" >"$work/lines" 2>"$work/err" || status=$?
    sed -n "s/.*\"bytes\": *\([0-9]*\), *\"fastest_us\": *\([0-9.]*\),.*/$name,\1,\2/p" "$work/lines" >>"$work/all"
    [ $status = 0 ] && return 0
    miss "$name: code $status (124: not done in $LIMIT s) after $(tail -n 1 "$work/all")"
    cat "$work/err" >&2
}
bench="env GYRE_BIND=1 $gyre bench allreduce --json --least $LEAST --most $MOST --rounds $ROUNDS"
mpi="mpirun -n 2 --bind-to core"
their="$LEAST $MOST $ROUNDS $SECONDS_EACH"
pass=0
: >"$work/all"
# shellcheck disable=SC2086 # words of commands
while [ $pass -lt "$PASSES" ]; do
    row gyre "" $bench
    row gyre_shared "" $bench --shared
    row openmpi "$lacks_mpi" $mpi "$work/mpi" $their
    row openmpi_sm "$lacks_mpi" $mpi --mca coll basic,sm,self,inter,libnbc --mca coll_sm_priority 100 "$work/mpi" $their
    row gloo "$lacks_gloo" "$PYTHON" "$here/bench_allreduce.py" $their
    row gyre_tcp "" env GYRE_ALLREDUCE=flat/ GYRE_TRANSPORT=tcp $bench
    row gyre_ucx_tcp "" env GYRE_ALLREDUCE=flat/ GYRE_TRANSPORT=ucx UCX_NET_DEVICES=lo $bench
    row openmpi_tcp "$lacks_mpi" $mpi --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo "$work/mpi" $their
    row openmpi_ucx_tcp "$lacks_mpi" $mpi --mca pml ucx \
        --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any -x UCX_TLS=tcp,self -x UCX_NET_DEVICES=lo "$work/mpi" $their
    pass=$((pass + 1))
done
awk -F, -v csv="$out" -v machine="$(echo "$MACHINE" | tr , ' ')" -v commit="$COMMIT" '
    function ratio(own, other) { return own > 0 && other > 0 ? sprintf("%.3fx", own / other) : "-" }
    function least(a, b) { return a == "" || (b != "" && b + 0 < a + 0) ? b : a }
    { best[$1, $2] = least(best[$1, $2], $3) }
    !($2 in seen) { seen[$2] = 1; size[++sizes] = $2 }
    !($1 in met) { met[$1] = 1; name[++names] = $1 }
    END {
        printf "%10s", "bytes"; printf "bytes" >csv
        for (k = 1; k <= names; k++) { printf "  %15s", name[k]; printf ",%s", name[k] >csv }
        printf "  %10s  %10s  %10s  %10s  %10s  %10s\n", "memory", "Gloo", "TCP", "UCX", "s/memory", "s/Gloo"; printf ",machine,commit\n" >csv
        for (i = 1; i <= sizes; i++) {
            s = size[i]
            printf "%10d", s; printf "%d", s >csv
            for (k = 1; k <= names; k++) {
                v = best[name[k], s]
                printf "  %15s", v == "" ? "-" : sprintf("%.2f", v); printf ",%s", v >csv
            }
            mpi = least(best["openmpi", s], best["openmpi_sm", s]); tcp = least(best["openmpi_tcp", s], best["openmpi_ucx_tcp", s])
            printf "  %10s  %10s  %10s  %10s  %10s  %10s\n", ratio(best["gyre", s], mpi), ratio(best["gyre", s], best["gloo", s]),
                ratio(best["gyre_tcp", s], tcp), ratio(best["gyre_ucx_tcp", s], tcp), ratio(best["gyre_shared", s], mpi),
                ratio(best["gyre_shared", s], best["gloo", s])
            printf ",%s,%s\n", machine, commit >csv
        }
        print "this library over the best of Open MPI (0.2x is five times as fast) in memory, over Gloo, over the best of Open MPI over TCP: plain, UCX;"
        print "s/memory, s/Gloo: the same for sums into one result that both ranks read (gyre_shared), over what Open MPI and Gloo take for one each"
    }' "$work/all"
exit $missing
