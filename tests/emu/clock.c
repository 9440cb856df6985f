/* SPDX-License-Identifier: MIT */
/* Order between threads of one epoch: barriers that only some threads of a block pass. */
#include "emu.h"

unsigned emu_clock_now(int tid) { return (void)tid, 0; }
int emu_clock_before(int tid, unsigned clock, int other) { return (void)tid, (void)clock, (void)other, 0; }
