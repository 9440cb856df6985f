/* SPDX-License-Identifier: MIT */
/* select.h: the kernel set for a processor. cpu_backend.c selects once, when it is opened. */
#ifndef GY_CPU_SELECT_H
#define GY_CPU_SELECT_H
#include "kernels/cpu/isa/table.h"

/* The best set that bits (enum gy_cpu_bits, already masked) allow. */
GY_INT struct gy_kernels gy_kernels_select(unsigned bits);

#endif
