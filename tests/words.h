/* SPDX-License-Identifier: MIT */
/* words.h: text that is put together piece by piece, in a buffer of fixed size. */
#ifndef GY_WORDS_H
#define GY_WORDS_H
#include "engine/base/base.h"

struct words {
    char *at;
    size_t left;
};

/* Adds a piece; one that does not fit is left out. */
static inline void words_put(struct words *w, const char *fmt, ...) GY_PRINTF(2, 3);
static inline void words_put(struct words *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int bytes = vsnprintf(w->at, w->left, fmt, args);
    va_end(args);
    if (bytes < 0 || (size_t)bytes >= w->left)
        return;
    w->at += bytes;
    w->left -= (size_t)bytes;
}

#endif
