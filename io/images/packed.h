/* SPDX-License-Identifier: MIT */
/* packed.h: the numbers of the packed format. packed.c, which describes it, reads such files;
 * pack.c writes them. A change of a number is a new format. */
#ifndef GY_PACKED_H
#define GY_PACKED_H
#include "io/images/data_set.h"

#define PACKED_MAGIC "\x89GYR\r\n\x1a\n"
#define PACKED_HEADER 96 /* bytes, the magic is the first 8 of them */
#define PACKED_ENTRY 32  /* bytes of a sample in the index */
#define PACKED_SAMPLES ((uint64_t)1 << 40) /* more are refused */

#endif
