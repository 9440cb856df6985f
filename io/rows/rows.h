/* SPDX-License-Identifier: MIT */
/* rows.h: rows of sparse features, the form in which every linear model gets its data, whatever the
 * file. blocks.h and all of engine/glm/ include it. struct gy_rows is a view: it owns nothing,
 * and who hands it out says how long its arrays live. Ids count from 0; feature 1 of a text file is
 * id 0. */
#ifndef GY_ROWS_H
#define GY_ROWS_H
#include "engine/base/base.h"

/* Row i has the entries [begin, end) of id and value. With start they are start[i], start[i + 1];
 * else i * width, (i + 1) * width. Its features are value * scale[i]. */
struct gy_rows {
    int64_t first;         /* number of its first row in the data set */
    int32_t count;         /* rows; 0: none are left */
    int32_t width;         /* every row has so many entries; 0: start says */
    /* [count + 1] offsets into id and value, start[0] 0; NULL with a width */
    const uint32_t *start;
    const uint32_t *id;    /* rising within a row, each once */
    const float *value;    /* NULL: all are `same` */
    float same;
    const float *label;    /* [count] as the file has them: a class or a target */
    const float *weight;   /* [count], or NULL: 1 */
    const float *scale;    /* [count], or NULL: 1; 1 / |x| where rows are normalised */
};

static inline uint32_t gy_rows_begin(const struct gy_rows *rows, int32_t i)
{
    return rows->start ? rows->start[i] : (uint32_t)i * (uint32_t)rows->width;
}
static inline uint32_t gy_rows_end(const struct gy_rows *rows, int32_t i) { return gy_rows_begin(rows, i + 1); }

#endif
