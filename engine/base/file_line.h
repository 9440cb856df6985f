/* SPDX-License-Identifier: MIT */
/* file_line.h: reads lines of the system's text files (/proc, /sys) without allocation. memory.c
 * calls it below the allocator; cpu.c, pin.c and net/ call it, too. */
#ifndef GY_FILE_LINE_H
#define GY_FILE_LINE_H
#include "engine/base/base.h"

/* The first line of a small file of the system (/sys, /proc), with its end of line, cut to room; ""
 * when there is none. Returns line. */
GY_INT const char *gy_file_line(const char *path, char *line, int room);
/* The next line of an open file, with its end of line where there is room. The rest of a longer
 * line is skipped. 0: there is no line. */
GY_INT int gy_file_next(FILE *file, char *line, int room);

#endif
