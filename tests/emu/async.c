/* SPDX-License-Identifier: MIT */
/* Copies that go on by themselves (cp.async). */
#include "emu.h"

void emu_copy_async(void *shared, const void *global, int bytes, int valid, const char *site, const void *pc)
{
    emu_check_shared(shared, (size_t)bytes, 1, "an asynchronous copy writes", site, pc);
    if (valid > 0)
        emu_check_global(global, (size_t)valid, 0, "an asynchronous copy reads", site, pc);
    memset(shared, 0, (size_t)bytes);
    if (valid > 0)
        memcpy(shared, global, (size_t)valid);
}

void emu_copy_commit(void) {}
void emu_copy_wait(int newest, const char *site) { (void)newest, (void)site; }
void emu_async_block(void) {}
int emu_async_end(void) { return 0; }
