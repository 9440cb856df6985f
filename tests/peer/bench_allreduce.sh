#!/bin/sh
# SPDX-License-Identifier: MIT
# Sums over two processes (in shared memory; over TCP of our own and of UCX) beside Open MPI (its default, coll/sm, and TCP by ob1 and by
# UCX) and Gloo, in turn, several passes; the fastest of all passes of each counts. Prints a table in microseconds and ratios; writes CSV,
# each row with the machine and the commit. Needs a quiet machine for figures, mpicc and mpirun (Debian: openmpi-bin libopenmpi-dev) and PyTorch for its rows.
#     bench_allreduce.sh GYRE OUT.csv    Variables: LEAST, MOST (bytes), ROUNDS, PASSES, PYTHON, MACHINE, COMMIT, ONLY (rows, by pattern)
set -eu
gyre=$1 out=$2
here=$(dirname "$0")
LEAST=${LEAST:-8} MOST=${MOST:-268435456} ROUNDS=${ROUNDS:-10} PASSES=${PASSES:-3} PYTHON=${PYTHON:-python3} ONLY=${ONLY:-}
MACHINE=${MACHINE:-$(nproc) cores $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)}
COMMIT=${COMMIT:-$(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
have_mpi=no have_gloo=no
if command -v mpicc >/dev/null && mpicc -O2 "$here/bench_allreduce.c" -o "$work/mpi"; then have_mpi=yes; fi
if "$PYTHON" -c 'import torch.distributed' 2>/dev/null; then have_gloo=yes; fi

# row NAME COMMAND...: lines 'NAME,BYTES,FASTEST' are added
row()
{
    name=$1
    shift
    [ -z "$ONLY" ] || echo "$name" | grep -Eqx "$ONLY" || return 0
    "$@" 2>"$work/err" | sed -n "s/.*\"bytes\": *\([0-9]*\), *\"fastest_us\": *\([0-9.]*\),.*/$name,\1,\2/p" >>"$work/all" || cat "$work/err" >&2
}
mpi() { mpirun -n 2 --bind-to core "$@" "$work/mpi" "$LEAST" "$MOST" "$ROUNDS"; }
pass=0
while [ $pass -lt "$PASSES" ]; do
    row gyre "$gyre" bench allreduce --json --least "$LEAST" --most "$MOST" --rounds "$ROUNDS"
    [ $have_mpi = no ] || row openmpi mpi
    [ $have_mpi = no ] || row openmpi_sm mpi --mca coll basic,sm,self,inter,libnbc --mca coll_sm_priority 100
    [ $have_gloo = no ] || row gloo "$PYTHON" "$here/bench_allreduce.py" "$LEAST" "$MOST" "$ROUNDS"
    row gyre_tcp env GYRE_ALLREDUCE=flat/ GYRE_TRANSPORT=tcp "$gyre" bench allreduce --json --least "$LEAST" --most "$MOST" --rounds "$ROUNDS"
    row gyre_ucx_tcp env GYRE_ALLREDUCE=flat/ GYRE_TRANSPORT=ucx UCX_NET_DEVICES=lo "$gyre" bench allreduce --json --least "$LEAST" --most "$MOST" \
        --rounds "$ROUNDS"
    [ $have_mpi = no ] || row openmpi_tcp mpi --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo
    [ $have_mpi = no ] || row openmpi_ucx_tcp mpi --mca pml ucx \
        --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any -x UCX_TLS=tcp,self -x UCX_NET_DEVICES=lo
    pass=$((pass + 1))
done
awk -F, -v csv="$out" -v machine="$(echo "$MACHINE" | tr , ' ')" -v commit="$COMMIT" '
    !(($1, $2) in best) || $3 < best[$1, $2] { best[$1, $2] = $3 }
    !($2 in seen) { seen[$2] = 1; size[++sizes] = $2 }
    !($1 in met) { met[$1] = 1; name[++names] = $1 }
    END {
        printf "%10s", "bytes"; printf "bytes" >csv
        for (k = 1; k <= names; k++) { printf "  %15s", name[k]; printf ",%s", name[k] >csv }
        printf "  %10s  %10s\n", "memory", "TCP"; printf ",machine,commit\n" >csv
        for (i = 1; i <= sizes; i++) {
            s = size[i]; mpi = 1e30; tcp = 1e30
            printf "%10d", s; printf "%d", s >csv
            for (k = 1; k <= names; k++) {
                v = best[name[k], s]; printf "  %15.2f", v; printf ",%s", v >csv
                if (name[k] ~ /^openmpi(_sm)?$/ && v < mpi) mpi = v
                if (name[k] ~ /^openmpi.*tcp$/ && v < tcp) tcp = v
            }
            printf "  %9.2fx  %9.2fx\n", best["gyre", s] / mpi, best["gyre_tcp", s] / tcp; printf ",%s,%s\n", machine, commit >csv
        }
        print "memory, TCP: this library over the best of Open MPI (0.2x is five times as fast)"
    }' "$work/all"
