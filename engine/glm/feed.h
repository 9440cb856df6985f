/* SPDX-License-Identifier: MIT */
/* feed.h: rows of a block file in memory, for solvers. */
#ifndef GY_GLM_FEED_H
#define GY_GLM_FEED_H
#include "../../io/blocks.h"
#include "glm.h"

/* Unpacks part `part` of `parts` (consecutive rows, about the same number in each part) by all threads of the pool. A view is a block, or what of it
 * belongs to the part. normalize: every row gets a scale of 1 / |x|, rows of zeros 1. blocks stays open as long as the feed. */
GY_INT int gy_glm_feed_resident(struct gy_glm_feed **out, const struct gy_blocks *blocks, int part, int parts, int normalize,
                                const struct gy_alloc *alloc, struct gy_pool *pool, struct gy_error *err);
GY_INT void gy_glm_feed_close(struct gy_glm_feed *feed); /* of gy_glm_feed_resident; NULL is fine */

#endif
