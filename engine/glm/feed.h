/* SPDX-License-Identifier: MIT */
/* feed.h: a feed whose rows stay in memory, for solvers; glm_stream.h is the one for more rows.
 * glm_train.c opens it, and glm_train_solve.c puts its features into another order and back. */
#ifndef GY_GLM_FEED_H
#define GY_GLM_FEED_H
#include "io/rows/blocks.h"
#include "engine/glm/glm.h"

/* Unpacks part `part` of `parts` of the blocks by all threads of the pool. Parts are consecutive
 * rows, about equally many. A view is a block, or its rows in the part. normalize: every row gets a
 * scale of 1 / |x|, rows of zeros 1. blocks stays open as long as the feed. */
GY_INT int gy_glm_feed_resident(struct gy_glm_feed **out, const struct gy_blocks *blocks, int part, int parts, int normalize,
                                const struct gy_alloc *alloc, struct gy_pool *pool, struct gy_error *err);
/* From now on ids are places of features, ordered by how often the features occur in the feed.
 * feed->features counts those that occur. So the features of most entries share few cache lines,
 * and loops over features skip those that do not occur. Ids do not rise within rows any more.
 * Returns the feature of each place, owned by the feed. NULL: nothing has changed, as it would not
 * pay or there is no memory. */
GY_INT const uint32_t *gy_glm_feed_order(struct gy_glm_feed *feed, struct gy_pool *pool);
/* Ids are features again, in the order that they had; whatever failed, this does not. */
GY_INT void gy_glm_feed_unorder(struct gy_glm_feed *feed, struct gy_pool *pool);
GY_INT void gy_glm_feed_close(struct gy_glm_feed *feed); /* of gy_glm_feed_resident; NULL is fine */

#endif
