/* SPDX-License-Identifier: MIT */
/* kernel_list.h: what a checkpoint records of a GPU's kernels. */
#ifndef GY_KERNEL_LIST_H
#define GY_KERNEL_LIST_H
#include "engine/run/engine.h"

/* Notes of the kernels that the net runs, and of what they depend on, for every later gyre_save; nothing on the CPU. */
GY_INT int gy_net_note_kernels(struct gyre_net *net);

#endif
