/* SPDX-License-Identifier: MIT */
/* The two clocks of POSIX. */
#include "clock.h"
#include <time.h>

GY_INT int64_t gy_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

GY_INT double gy_clock_wall(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
