/* SPDX-License-Identifier: MIT */
/* What the lanes of a warp do together. All operands lie on the lanes' stacks when emu_group_run is called, so a word is a
 * plain loop over lanes. */
#include "emu.h"

int emu_group_lanes(int word)
{
    (void)word;
    return 32;
}

static void warp_shuffle(int word, struct emu_thread *lane)
{
    unsigned value[32];
    for (int i = 0; i < 32; i++)
        value[i] = ((const struct gy_emu_shfl *)lane[i].in)->value;
    for (int i = 0; i < 32; i++) {
        const int which = ((const struct gy_emu_shfl *)lane[i].in)->which;
        int from = which & 31;
        if (word == GY_EMU_SHFL_XOR)
            from = (i ^ which) < 32 && (i ^ which) >= 0 ? i ^ which : i;
        if (word == GY_EMU_SHFL_DOWN)
            from = i + which < 32 ? i + which : i; /* beyond the warp: its own value */
        *(unsigned *)lane[i].out = value[from];
    }
}

void emu_group_run(int word, struct emu_thread *lane)
{
    warp_shuffle(word, lane);
}
