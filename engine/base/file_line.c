/* SPDX-License-Identifier: MIT */
/* file_line.c: reads lines into a buffer of fixed size. */
#include "engine/base/file_line.h"

GY_INT const char *gy_file_line(const char *path, char *line, int room)
{
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, room, file))
        line[0] = 0;
    if (file)
        fclose(file);
    return line;
}

GY_INT int gy_file_next(FILE *file, char *line, int room)
{
    if (!fgets(line, room, file))
        return 0;
    for (int c = 0; !strchr(line, '\n') && c != '\n' && c != EOF;)
        c = getc(file);
    return 1;
}
