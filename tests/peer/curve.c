/* SPDX-License-Identifier: MIT */
/* curve.c: draws a line chart of standard input. A line is a point, SERIES X Y; the points of a
 * series follow each other with rising X. Usage: curve FILE.svg TITLE X-LABEL Y-LABEL */
#include "io/report.h"
#include <stdlib.h>

#define CURVE_SERIES 8
#define CURVE_POINTS 256

struct curve_series {
    char name[64];
    double x[CURVE_POINTS], y[CURVE_POINTS];
    int64_t count;
};

static int curve_read(struct curve_series *all)
{
    char name[64];
    double x, y;
    int count = 0;
    while (scanf("%63s %lf %lf", name, &x, &y) == 3) {
        if (count == 0 || strcmp(all[count - 1].name, name) != 0) {
            if (count == CURVE_SERIES)
                return -1;
            memcpy(all[count++].name, name, sizeof name);
        }
        struct curve_series *s = &all[count - 1];
        if (s->count == CURVE_POINTS)
            return -1;
        s->x[s->count] = x;
        s->y[s->count++] = y;
    }
    return count;
}

int main(int argc, char **argv)
{
    static struct curve_series all[CURVE_SERIES];
    struct gy_series series[CURVE_SERIES];
    struct gy_error err = { 0 };
    if (argc != 5)
        return fprintf(stderr, "curve FILE.svg TITLE X-LABEL Y-LABEL <POINTS\n"), 2;
    const int count = curve_read(all);
    if (count <= 0)
        return fprintf(stderr, "curve: 1 to %d series of 1 to %d points\n", CURVE_SERIES, CURVE_POINTS), 2;
    for (int i = 0; i < count; i++)
        series[i] = (struct gy_series){ all[i].name, all[i].x, all[i].y, all[i].count, 0 };
    if (gy_svg_curve(argv[1], argv[2], argv[3], argv[4], NULL, series, count, &err) != GY_OK)
        return fprintf(stderr, "curve: %s\n", err.text), 1;
    return 0;
}
