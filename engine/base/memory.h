/* SPDX-License-Identifier: MIT */
/* memory.h: how much memory the machine has left. The default hook (mem.c) refuses a request for
 * more. Systems grant it, then end the process that uses it. glm_train.c and lab/fit.c ask, too. */
#ifndef GY_MEMORY_H
#define GY_MEMORY_H
#include "engine/base/base.h"

#define GY_MEMORY_ASKED ((size_t)64 << 20) /* bytes; a look takes 0.1 ms, so less is not compared */

/* Bytes; UINT64_MAX where the system does not say. */
struct gy_memory {
    uint64_t total;     /* of the machine, or of the process's control group where that is less */
    uint64_t available; /* of these: free, or freed on demand; swap space counts */
};
/* root: "", or a folder that has proc and sys like the system's. */
GY_INT void gy_memory_look(struct gy_memory *memory, const char *root);
/* 1: these bytes are more than what is available; *available is set then. Few bytes never are. */
GY_INT int gy_memory_short(uint64_t bytes, uint64_t *available);
/* "; 123 are available" where these bytes are more than that, else "". Returns text. */
GY_INT const char *gy_memory_words(char *text, size_t room, uint64_t bytes);

#endif
