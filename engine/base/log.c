/* SPDX-License-Identifier: MIT */
/* log.c: passes on a message up to log->level as one line, escaped and cut at 1023 bytes. */
#include "engine/base/log.h"
#include "engine/base/text_plain.h"

GY_INT void gy_log_write(const struct gy_log *log, int level, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    if (!log || !log->fn || level > log->level)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    gy_text_plain(text, sizeof text);
    log->fn(log->user, level, text);
}
