/* SPDX-License-Identifier: MIT */
/* feed.h: rows of a block file in memory, for solvers. */
#ifndef GY_GLM_FEED_H
#define GY_GLM_FEED_H
#include "io/rows/blocks.h"
#include "engine/glm/glm.h"

/* Unpacks part `part` of `parts` (consecutive rows, about the same number in each part) by all threads of the pool. A view is a block, or what of it
 * belongs to the part. normalize: every row gets a scale of 1 / |x|, rows of zeros 1. blocks stays open as long as the feed. */
GY_INT int gy_glm_feed_resident(struct gy_glm_feed **out, const struct gy_blocks *blocks, int part, int parts, int normalize,
                                const struct gy_alloc *alloc, struct gy_pool *pool, struct gy_error *err);
/* From now on ids are places of features in the order of how often they occur in the feed, and feed->features counts those that do: the few that most
 * entries name share few cache lines, and what goes over features goes over those that are there. Ids do not rise within rows any more. Gives back each
 * place's feature, of the feed; NULL: nothing has changed, for it would not be worth it, or there is no memory. */
GY_INT const uint32_t *gy_glm_feed_order(struct gy_glm_feed *feed, struct gy_pool *pool);
GY_INT void gy_glm_feed_close(struct gy_glm_feed *feed); /* of gy_glm_feed_resident; NULL is fine */

#endif
