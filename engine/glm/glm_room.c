/* SPDX-License-Identifier: MIT */
/* Takes the arrays of a table from an arena, one after another, and gives large ones large
 * pages. */
#include "engine/glm/glm_room.h"

GY_INT int gy_glm_take_rooms(struct gy_arena *arena, const struct gy_glm_room *room, size_t rooms,
                             const char *what, struct gy_error *err)
{
    size_t all = 0;
    int ok = 1;
    for (size_t i = 0; i < rooms; i++) {
        const size_t count = (size_t)gy_max64(room[i].count, 1);
        void *const p = room[i].count < 0 ? NULL : gy_arena_take(arena, count, room[i].bytes);
        all += room[i].count < 0 ? 0 : count * room[i].bytes;
        ok &= p || room[i].count < 0;
        if (p)
            memcpy(room[i].pointer, &p, sizeof p);
        if (p)
            gy_mem_large_pages(p, count * room[i].bytes);
    }
    return ok ? GY_OK : GY_NOMEM(err, what, all);
}
