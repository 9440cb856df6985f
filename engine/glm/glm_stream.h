/* SPDX-License-Identifier: MIT */
/* glm_stream.h: a feed of rows that need not fit into memory; glm_train.c opens it. A thread reads
 * ahead while the solver trains on the window before. It takes the next blocks of this rank's part,
 * checks and unpacks them, and joins them to one window. Rooms for windows are few and taken when
 * the feed is opened. Windows come in the order of rows. Shuffled, they come in a new order in
 * every pass, so that no window always trains last. Windows of at most 32 KiB are read when they
 * are wanted, without that thread.
 *
 * Rows are dealt by number: each rank has one contiguous piece, and their lengths differ by one row
 * at most. A block on a border is read by both neighbours. Where all windows fit, rows are
 * resident: every window is read once and views stay valid (feed.h does that by all threads). */
#ifndef GY_GLM_STREAM_H
#define GY_GLM_STREAM_H
#include "io/rows/blocks.h"
#include "engine/glm/glm.h"

/* Rows [*first, *end) of the whole are those of rank `part` of `parts`. */
static inline void gy_glm_deal(int64_t rows, int part, int parts, int64_t *first, int64_t *end)
{
    const int64_t each = rows / parts, more = rows % parts;
    *first = each * part + gy_min64(part, more);
    *end = *first + each + (part < more);
}

/* What the feed did since it was opened. The reading thread's seconds run in parallel to the
 * solver's. */
struct gy_glm_stream_counts {
    double read;     /* seconds of reading, checking and unpacking */
    double waited;   /* of the solver, for a window that was not read */
    double computed; /* of the solver, between two calls of next */
    int64_t windows; /* of a pass */
    int64_t taken, ready; /* windows that were handed out, and that were read so far */
    int rooms;
    size_t memory;   /* bytes of rooms */
};

/* A window's life: read into its room, then trained on. Times: gy_clock_ns; 0: not yet. */
struct gy_glm_stream_event {
    int64_t number;         /* of all windows that were handed out, from 0 */
    int64_t window, pass;
    int64_t rows, entries;
    int64_t read_began, read_ended; /* 0, 0: it was resident */
    int64_t train_began, train_ended;
};

/* A feed over part `part` of `parts`, in at most memory_limit bytes; 0: no limit, all windows stay.
 * normalize: rows get the scale 1 / |x|. blocks outlives the feed. GY_E_NOMEM: the limit is below
 * two windows of one block each and the room to unpack one; the sentence says how much is needed.
 * Errors of reading, such as GY_E_HASH, come from next. */
GY_INT int gy_glm_feed_stream(struct gy_glm_feed **out, const struct gy_blocks *blocks, int part, int parts, int normalize, size_t memory_limit,
                              const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_glm_feed_stream_close(struct gy_glm_feed *feed); /* NULL is fine; not during next */
GY_INT void gy_glm_feed_stream_counts(const struct gy_glm_feed *feed, struct gy_glm_stream_counts *counts);
/* 1: event `index` of those that are kept, the last 2048 at most, the oldest first; 0: there are no
 * more. */
GY_INT int gy_glm_feed_stream_event(const struct gy_glm_feed *feed, int64_t index, struct gy_glm_stream_event *event);

/* Writes when each window was read and trained on. A path that ends in .svg gets two rows of bars;
 * any other gets a file for Chrome's trace viewer. Of several ranks each writes its own file,
 * "name.RANK.svg". See glm_stream_trace.c. */
GY_INT int gy_glm_feed_stream_trace(const struct gy_glm_feed *feed, const char *path, int rank, int ranks, struct gy_error *err);

#endif
