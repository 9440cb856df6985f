# SPDX-License-Identifier: MIT
# Steps through a CUDA kernel in gdb, on a machine without a GPU. On the emulator a kernel is C with
# debug lines, and a CUDA thread is a fiber of this process.
#
#     gdb -batch -x tools/examples/step_kernel.gdb --args \
#         build/gyre train mlp DATA --device emu --batch 4 --steps 1 --test-data none --out /tmp/run
#
# A kernel NAME is the function NAME_thread. Kernels are compiled and loaded while the program runs,
# so breakpoints are pending at first. gy_emu->place says which CUDA thread runs: tid, block, grid.
# `next` goes on in this thread. At a word that waits for others (GY_SYNC, a shuffle) the others run
# in between. The kernel's threads are no threads of gdb.
set pagination off
set confirm off
set breakpoint pending on
directory kernels/cuda
# no optimisation, and so no kernels of the cache
set environment GYRE_EMU_CFLAGS -O0
set environment GYRE_KERNEL_CACHE off

# thread 1 of block 0 of the loss; any condition in C may follow the if
break loss_softmax_thread if gy_emu->place.tid == 1 && gy_emu->place.block[0] == 0
run

echo \n-- which thread of which block\n
print gy_emu->place
echo \n-- its arguments: a role's address; device memory is readable while a kernel runs\n
print a.ptr[GY_LABEL]
print *(int (*)[4]) a.ptr[GY_LABEL]

echo \n-- a few lines on\n
next 8
info locals
echo \n-- into a function, and where this is: function, kernel, fiber\n
step
backtrace

delete
continue
