/* SPDX-License-Identifier: MIT */
/* algorithms.h: the table of collective algorithms, and schedules built by an algorithm's name. It
 * stands above the files that build one algorithm each (builders.h). inter_host.c and cost.c build
 * by it, schedule_text.c takes names of goals; so do the lab and tests. */
#ifndef GY_NET_ALGORITHMS_H
#define GY_NET_ALGORITHMS_H
#include "net/schedule/schedule.h"

struct gy_net_algorithm {
    const char *name;      /* "ring" */
    const char *about;     /* one line for people */
    gy_net_builder *build; /* builders.h */
    unsigned goals;        /* bits 1 << enum gy_net_goal */
};
GY_INT const struct gy_net_algorithm *gy_net_algorithms(size_t *count);
GY_INT const struct gy_net_algorithm *gy_net_algorithm(const char *name); /* NULL: none */
GY_INT const char *gy_net_goal_name(int goal);                           /* "allreduce" */
/* Splits "name" or "name:lanes" with 1 to 64 lanes; *lanes stays where none are said. name: [room].
 * Whether there is such an algorithm, only gy_net_build finds out. GY_E_ARG: lanes or length. */
GY_INT int gy_net_algorithm_parse(const char *text, char *name, size_t room, int *lanes, struct gy_error *err);
/* Builds by name, unproved. After a failure nothing is left to close. GY_E_ARG: no such algorithm
 * or shape; GY_E_UNSUPPORTED: not for this goal, or this number of ranks; GY_E_NOMEM. */
GY_INT int gy_net_build(struct gy_net_schedule *out, const char *algorithm, const struct gy_net_shape *shape, int goal,
                        const struct gy_alloc *alloc, struct gy_error *err);

#endif
