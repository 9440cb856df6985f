/* SPDX-License-Identifier: MIT */
/* text_plain.h: makes text safe to show on a terminal. The error writer and the log call it. */
#ifndef GY_TEXT_PLAIN_H
#define GY_TEXT_PLAIN_H
#include "engine/base/base.h"

/* Control characters of the text, also those of a terminal above 127, become \xNN, in its room; what does not fit then is cut. Names of files and classes
 * are a stranger's: no sentence that has them may speak to the terminal. */
GY_INT void gy_text_plain(char *text, size_t room);

#endif
