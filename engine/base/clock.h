/* SPDX-License-Identifier: MIT */
/* clock.h: time. Monotonic for measuring, wall for stamps. */
#ifndef GY_CLOCK_H
#define GY_CLOCK_H
#include "engine/base/base.h"

GY_INT int64_t gy_clock_ns(void);   /* monotonic nanoseconds */
GY_INT double gy_clock_wall(void);  /* seconds since 1970 */
/* The day (UTC) of so many seconds since 1970 or later, as "2026-11-21"; returns text. (gmtime
 * would make a static program larger by the rules of time zones.) */
GY_INT const char *gy_clock_date(double wall, char text[32]);

#endif
