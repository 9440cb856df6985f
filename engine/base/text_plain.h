/* SPDX-License-Identifier: MIT */
/* text_plain.h: makes text safe to show on a terminal. status.c, log.c, schedule_text.c call it. */
#ifndef GY_TEXT_PLAIN_H
#define GY_TEXT_PLAIN_H
#include "engine/base/base.h"

/* Turns control characters, also a terminal's above 127, into \xNN; cuts what leaves the room. So
 * no stranger's name of a file or class in a sentence can control the terminal. */
GY_INT void gy_text_plain(char *text, size_t room);

#endif
