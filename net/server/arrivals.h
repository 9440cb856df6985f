/* SPDX-License-Identifier: MIT */
/* arrivals.h: the order in which a server took its workers' messages, as a text file;
 * served_server.c calls it. The first line tells the run and the server, then a line each: "push
 * WORKER SLICE", "fetch WORKER", "leave WORKER", "lost WORKER". Replayed in that order, the same
 * gradients make the same weights, to the bit. All calls are fine on a zeroed struct: nothing is
 * recorded or replayed. */
#ifndef GY_NET_SERVER_ARRIVALS_H
#define GY_NET_SERVER_ARRIVALS_H
#include "engine/base/file.h"

enum gy_arrival_kind { GY_ARRIVAL_PUSH, GY_ARRIVAL_FETCH, GY_ARRIVAL_LEAVE, GY_ARRIVAL_LOST,
                       GY_ARRIVAL_KINDS };
struct gy_arrival {
    int kind, worker, slice; /* slice 0 where it is of none */
};

/* Whose order it is; all of it is in the file's first line. */
struct gy_arrivals_head {
    uint64_t run;
    int server, servers, workers, slices;
};

struct gy_arrivals {
    struct gy_alloc alloc;
    struct gy_arrivals_head head;
    struct gy_outfile *out;   /* what is recorded */
    char *text;               /* the file that is replayed; NULL: it is the caller's */
    size_t bytes;
    const char *at;           /* behind the next line; NULL: no replay */
    int64_t line;             /* of the next one */
    struct gy_arrival next;
    int ended;                /* there is no next one */
    char path[304];
};

/* Begins a record, or a replay, at path. After a failure the caller closes, too. */
GY_INT int gy_arrivals_record(struct gy_arrivals *a, const struct gy_alloc *alloc, const char *path,
                              const struct gy_arrivals_head *head, struct gy_error *err);
GY_INT int gy_arrivals_replay(struct gy_arrivals *a, const struct gy_alloc *alloc, const char *path,
                              const struct gy_arrivals_head *head, struct gy_error *err);
/* The same of a text in memory, which is the caller's and ends with a NUL. a->head and a->path must
 * be set, all else zero. GY_E_FORMAT: no record; GY_E_MISMATCH: of another run; GY_E_UNSUPPORTED: a
 * worker was lost there. */
GY_INT int gy_arrivals_parse(struct gy_arrivals *a, const char *text, struct gy_error *err);
/* May it be taken now? Without a replay always. */
GY_INT int gy_arrivals_may(const struct gy_arrivals *a, int kind, int worker, int slice);
/* It was taken: recorded, or the next one of the replay is read. */
GY_INT int gy_arrivals_taken(struct gy_arrivals *a, int kind, int worker, int slice,
                             struct gy_error *err);
/* The run is over: the record becomes a file; of a replay nothing may be left. */
GY_INT int gy_arrivals_end(struct gy_arrivals *a, struct gy_error *err);
GY_INT void gy_arrivals_close(struct gy_arrivals *a); /* safe on a zeroed struct */

#endif
