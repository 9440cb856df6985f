/* SPDX-License-Identifier: MIT */
/* t_memory.h: memory of which the allocation after `left` others fails; bytes that are held. */
#ifndef GY_T_MEMORY_H
#define GY_T_MEMORY_H
#include "engine/base/mem.h"

struct t_memory {
    int left;
    int64_t bytes;
};
static void *t_memory_fn(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct t_memory *const m = user;
    const struct gy_alloc plain = gy_alloc_default();
    if (new_bytes && __atomic_fetch_sub(&m->left, 1, __ATOMIC_RELAXED) == 0)
        return NULL;
    __atomic_fetch_add(&m->bytes, (int64_t)new_bytes - (int64_t)old_bytes, __ATOMIC_RELAXED);
    return plain.fn(plain.user, ptr, old_bytes, new_bytes);
}

#endif
