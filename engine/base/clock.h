/* SPDX-License-Identifier: MIT */
/* clock.h: reads clocks. Monotonic nanoseconds measure durations and deadlines; seconds since 1970
 * stamp files. Every part of the library calls it. */
#ifndef GY_CLOCK_H
#define GY_CLOCK_H
#include "engine/base/base.h"

GY_INT int64_t gy_clock_ns(void);   /* monotonic nanoseconds */
GY_INT double gy_clock_wall(void);  /* seconds since 1970 */
/* Writes the day (UTC) of `wall` seconds since 1970, not below 0, as "2026-11-21"; returns text.
 * (gmtime would link the rules of time zones into a static program.) */
GY_INT const char *gy_clock_date(double wall, char text[32]);

#endif
