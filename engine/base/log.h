/* SPDX-License-Identifier: MIT */
/* log.h: how all parts of the library report: only through the caller's callback. Levels differ in
 * volume. Error and warn are rare and name a cause. Info is a few lines per open or epoch, debug
 * some more at open. A step logs nothing but an update that f16 skipped (loss_scale.c). */
#ifndef GY_LOG_H
#define GY_LOG_H
#include "engine/base/base.h"

enum gy_log_level { GY_LOG_ERROR = 1, GY_LOG_WARN = 2, GY_LOG_INFO = 3, GY_LOG_DEBUG = 4 };

struct gy_log {
    void (*fn)(void *user, int level, const char *text); /* NULL: silent; text has no newline */
    void *user;
    int level; /* highest level that is passed on */
};

/* log may be NULL. */
GY_INT void gy_log_write(const struct gy_log *log, int level, const char *fmt, ...) GY_PRINTF(3, 4);

#endif
