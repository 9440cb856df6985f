/* SPDX-License-Identifier: MIT */
/* glm_device_window.h: windows (glm_window.h) made of rows, as they travel to a device.
 * glm_device_pass.c makes them; glm_device.c asks how alike rows are. */
#ifndef GY_GLM_DEVICE_WINDOW_H
#define GY_GLM_DEVICE_WINDOW_H
#include "engine/glm/glm.h"

struct gy_glm_pack {
    const struct gy_glm_problem *problem;
    struct gy_pool *pool;      /* of threads that copy, or NULL */
    uint32_t features;
    size_t room;               /* bytes of a window */
    int32_t most_rows;
    /* dual variables of all rows; those of a window go with it; NULL: they do not */
    const float *dual;
};
/* Rows of a view that lie side by side. */
struct gy_glm_piece {
    const struct gy_rows *rows;
    int32_t from, count;
    int64_t first;             /* number of its first dual variable */
    int32_t row;               /* where it is in the window: filled by gy_glm_pack */
    uint32_t entry;
};
struct gy_glm_packed {
    int32_t rows, longs;
    size_t bytes;
    uint64_t dual;             /* place of the dual variables; 0: none */
};

/* 1: `rows` rows with `entries` entries, of the view's form, fit a window. */
GY_INT int gy_glm_pack_fits(const struct gy_glm_pack *how, const struct gy_rows *form, int64_t rows, int64_t entries);
/* How many rows of the view, from `from` on, fit a window; 0: not even one. */
GY_INT int32_t gy_glm_pack_count(const struct gy_glm_pack *how, const struct gy_rows *rows, int32_t from);
/* Makes a window of pieces that fit it, at least one. All are of views of one form. at: aligned to
 * 16 bytes. */
GY_INT struct gy_glm_packed gy_glm_pack(const struct gy_glm_pack *how, struct gy_glm_piece *piece, int pieces, unsigned char *at);
/* The window's dual variables to their places among all. */
GY_INT void gy_glm_unpack_duals(const struct gy_glm_piece *piece, int pieces, const struct gy_glm_packed *in, const unsigned char *at, float *dual);
/* Bytes that a window of all these rows needs at most, whatever their form. */
GY_INT size_t gy_glm_pack_most(int64_t rows, int64_t entries);
/* How alike rows are: the mean of |cosine| over pairs drawn by seed, the bias included; 0: there
 * are no pairs. */
GY_INT double gy_glm_likeness(const struct gy_glm_problem *problem, const struct gy_rows *rows, uint64_t seed);

#endif
