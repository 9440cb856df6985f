# SPDX-License-Identifier: MIT
# Steps through a CPU micro-kernel in gdb, at the lines of its template, kernels/cpu/isa/tile.inc.
#
#     gdb -batch -x tools/examples/step_micro_kernel.gdb --args \
#         build/gyre train lenet5 DATA --threads 1 --batch 4 --steps 1 --test-data none \
#         --out /tmp/run
#
# A kernel is named after its set: a512_gemm, avx2_outer. It is inlined into one function for each
# size of tile. So a breakpoint has many places; N (vectors of a tile) and R (its rows) tell which
# one it is. The build is optimised: some variables cannot be shown. KERNEL_CFLAGS=-O0
# BUILD=/tmp/plain ./build.sh makes a build that shows all, also the vectors of sums (acc).
set pagination off
set confirm off
break a512_gemm
break avx2_gemm
run

echo \n-- which tile: vectors and rows; what it is given\n
print N
print R
print *t
echo \n-- some lines on\n
next 12
info locals
echo \n-- who called\n
backtrace 4

delete
continue
