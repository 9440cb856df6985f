/* SPDX-License-Identifier: MIT */
/* frame.h: the header before the floats that workers and parameter servers send each other. It
 * tells the run, the sender, the slice and a number in it. So frames of another run, duplicates and
 * late repetitions are refused. served_worker.c and served_server.c seal and check them. */
#ifndef GY_NET_SERVER_FRAME_H
#define GY_NET_SERVER_FRAME_H
#include "engine/base/mem.h"

enum gy_server_kind {
    GY_SERVER_PUSH = 1, /* a worker's gradient of a slice */
    GY_SERVER_WEIGHTS,  /* the answer: the slice's weights */
    GY_SERVER_SUM,      /* `count` floats of a worker follow, to be summed over all workers */
    GY_SERVER_FETCH,    /* a worker wants all that the server holds */
    GY_SERVER_LEAVE,    /* a worker pushes no more */
    GY_SERVER_MEET,     /* a worker comes together with all others: somebody wants to join */
    GY_SERVER_END,      /* a worker's last frame */
    GY_SERVER_KINDS
};
enum gy_server_flag {
    GY_SERVER_STOP = 1,    /* a worker was asked to stop */
    GY_SERVER_REFUSED = 2, /* the update was not made: a loss that is not finite, or no label */
    GY_SERVER_LAST = 4,    /* of a fetch: answer when all others have left; of a leave: all is saved */
    GY_SERVER_CALL = 16,   /* an answer: workers come together behind their step */
    GY_SERVER_LATE = 8     /* the gradient was dropped: the slice had been updated meanwhile */
};

struct gy_server_frame {
    uint32_t magic;
    int32_t kind;
    uint64_t run;          /* tells runs apart; the same on all ranks of one */
    int32_t worker, slice; /* slice -1: of no slice */
    int64_t number;        /* of the worker's frames of this slice and kind, from 1 */
    int64_t version;       /* updates that the slice's weights have had */
    int64_t count;         /* floats behind it */
    float sums[2];         /* GY_SERVER_PUSH: losses, labelled samples, of the worker */
    uint32_t flags;
    uint32_t check;        /* of all that stands before */
};

GY_INT void gy_server_seal(struct gy_server_frame *frame); /* sets magic and check */
/* Is it, bytes from another rank, the frame that is expected next? Its version, flags and sums are
 * the sender's; all else must be as in want. GY_E_HASH: it is damaged; GY_E_MISMATCH: it is
 * another. */
GY_INT int gy_server_check(const struct gy_server_frame *frame, const struct gy_server_frame *want,
                           struct gy_error *err);

#endif
