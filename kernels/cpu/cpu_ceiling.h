/* SPDX-License-Identifier: MIT */
/* cpu_ceiling.h: the CPU's gy_backend_lab.ceilings, for cpu_backend.c. */
#ifndef GY_CPU_CEILING_H
#define GY_CPU_CEILING_H
#include "kernels/backend.h"
#include "kernels/cpu/cpu_context.h"

#ifndef GY_NO_TUNING
/* Measures with cpu's threads and kernel set for half a second. Takes up to 128 MiB from alloc (512
 * with more than 8 threads) and gives them back. GY_E_NOMEM: *out is untouched. */
GY_INT int gy_cpu_ceilings(const struct gy_cpu *cpu, const struct gy_alloc *alloc, struct gy_ceilings *out);
#endif

#endif
