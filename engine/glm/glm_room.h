/* SPDX-License-Identifier: MIT */
/* glm_room.h: the memory of a run as a table: what each array is, and how long. All of it is taken,
 * or one sentence says how much it would have been. The solvers of solve/ call it. */
#ifndef GY_GLM_ROOM_H
#define GY_GLM_ROOM_H
#include "engine/base/mem.h"

struct gy_glm_room {
    void *pointer;       /* where the pointer to the array is: of any type */
    int64_t count;       /* below 0: the array is not wanted, and its pointer stays */
    size_t bytes;        /* of an element */
};
/* Sets each pointer to its array, which is zeroed and lies in the arena. what: for the sentence of
 * GY_E_NOMEM; what was taken by then stays in the arena. */
GY_INT int gy_glm_take_rooms(struct gy_arena *arena, const struct gy_glm_room *room, size_t rooms,
                             const char *what, struct gy_error *err);

#endif
