/* SPDX-License-Identifier: MIT */
/* newcomer.h: finds the job that a new process joins; job.c calls it when GYRE_JOIN is set. Its
 * launcher has named ranks of that job, of which one leads. On its own host it also reads the
 * board, which says who leads now. */
#ifndef GY_NEWCOMER_H
#define GY_NEWCOMER_H
#include "engine/base/status.h"

#define GY_NEWCOMER_HOST 256 /* bytes of a name */

struct gy_newcomer {
    const char *said;       /* "HOST:PORT,HOST:PORT ..." */
    int count, turn;        /* of addresses; tries so far */
    int64_t most, deadline; /* ns that one may take to answer; of all tries */
};
/* The open file that is the board, or -1; the first port on which ranks of the job listen, or 0. */
GY_INT int gy_newcomer_read(int *board, int *port, struct gy_error *err);
GY_INT void gy_newcomer_begin(struct gy_newcomer *n, const char *said, int64_t wait_ns);
/* The next address to try, and for how long: the board's, else those of the list one after the
 * other, ever longer. GY_E_ARG: it is no address. */
GY_INT int gy_newcomer_next(struct gy_newcomer *n, char host[GY_NEWCOMER_HOST], int *port,
                            int64_t *patience, struct gy_error *err);
GY_INT int gy_newcomer_is_late(const struct gy_newcomer *n); /* 1: no more tries */

#endif
