/* SPDX-License-Identifier: MIT */
/* clock.c: the two clocks of POSIX, and the date of a day without the C library's time zones. */
#include "engine/base/clock.h"
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

/* Days from 1 March of year 0 (Hinnant, "chrono-compatible low-level date algorithms"). */
GY_INT const char *gy_clock_date(double wall, char text[32])
{
    const int64_t days = (int64_t)(wall / 86400) + 719468, era = days / 146097, of_era = days % 146097;
    const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year + year / 4 - year / 100), part = (5 * of_year + 2) / 153;
    const int month = (int)(part < 10 ? part + 3 : part - 9), day = (int)(of_year - (153 * part + 2) / 5 + 1);
    snprintf(text, 32, "%04d-%02d-%02d", (int)(year + era * 400 + (month <= 2)), month, day);
    return text;
}
