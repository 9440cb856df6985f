/* SPDX-License-Identifier: MIT */
/* packed.h: the numbers of the packed format that its reader and its writer share; packed.c
 * describes it. */
#ifndef GY_PACKED_H
#define GY_PACKED_H
#include "io/images/data_set.h"

#define PACKED_MAGIC "\x89GYR\r\n\x1a\n"
#define PACKED_HEADER 96
#define PACKED_ENTRY 32
#define PACKED_SAMPLES ((uint64_t)1 << 40) /* more are refused */

#endif
