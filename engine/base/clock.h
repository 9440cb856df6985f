/* SPDX-License-Identifier: MIT */
/* clock.h: time. Monotonic for measuring, wall for stamps. */
#ifndef GY_CLOCK_H
#define GY_CLOCK_H
#include "base.h"

GY_INT int64_t gy_clock_ns(void);   /* monotonic nanoseconds */
GY_INT double gy_clock_wall(void);  /* seconds since 1970 */

#endif
