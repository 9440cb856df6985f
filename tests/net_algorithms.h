/* SPDX-License-Identifier: MIT */
/* net_algorithms.h: names of algorithms for loops of tests, from the table of net/schedule: a new
 * row is tested as it is. */
#ifndef GY_NET_ALGORITHMS_OF_TESTS_H
#define GY_NET_ALGORITHMS_OF_TESTS_H
#include "net/schedule/algorithms.h"

/* The allreduce algorithm with this number, in the order of the table; NULL: there are no more. */
static inline const char *net_allreduce(int number)
{
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].goals & 1u << GY_NET_ALLREDUCE && number-- == 0)
            return rows[i].name;
    return NULL;
}

#endif
