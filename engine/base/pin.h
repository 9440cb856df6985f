/* SPDX-License-Identifier: MIT */
/* pin.h: chooses a processor for each thread of a pool (thread.c). They are among those that the
 * process may run on: first one of every core, then the rest. net/comm/ binds processes with it. */
#ifndef GY_PIN_H
#define GY_PIN_H
#include "engine/base/base.h"

#define GY_PIN_PROCESSORS 4096
struct gy_pin_set {
    uint64_t bits[GY_PIN_PROCESSORS / 64];
};
static inline int gy_pin_has(const struct gy_pin_set *set, int cpu) { return (int)(set->bits[cpu / 64] >> (cpu % 64) & 1); }

enum gy_pin { GY_PIN_AUTO, GY_PIN_ON, GY_PIN_OFF };

/* Processors that the calling thread may run on. Returns how many; 0: the system does not say. */
GY_INT int gy_pin_allowed(struct gy_pin_set *set);
/* processor [threads]: that of each thread. Returns 1, or 0 with *why (for people): they get none.
 * AUTO gives some if they fill all processors or all cores, and nothing limits the process. */
GY_INT int gy_pin_choose(int how, int threads, int *processor, const char **why);
/* Its parts. root: the system's folder of processors; order [room]; *cores: number of cores. */
GY_INT int gy_pin_order(const char *root, const struct gy_pin_set *allowed, int *order, int room, int *cores);
GY_INT int gy_pin_list_first(const char *list, const struct gy_pin_set *allowed); /* of "0-3,8" */
GY_INT int gy_pin_quota_limits(const char *text); /* cpu.max; "max 100000" does not */

/* Binds the calling thread, and those that it starts later. -1: the system refuses. */
GY_INT int gy_pin_to(const struct gy_pin_set *set);
GY_INT int gy_pin_here(int cpu);
/* Moves the calling thread to a processor, to which it is not bound afterwards. */
GY_INT void gy_pin_move(int cpu);
GY_INT int gy_pin_current(void); /* processor that runs this, -1: unknown */

#endif
