/* SPDX-License-Identifier: MIT */
/* timeline.h: the flight records of one start of a job on one clock, for doctor.c and
 * doctor_print.c. It says where each rank stood at the end, and what its steps were spent on. */
#ifndef GY_TIMELINE_H
#define GY_TIMELINE_H
#include "tools/lab/flight_read.h"

#define GY_TIMELINE_SECOND INT64_C(1000000000)

/* What goes by from one step's begin to the next one's. Compute is what a step does not wait;
 * rest is what nobody noted, between steps. */
enum gy_share {
    GY_SHARE_COMPUTE, GY_SHARE_BATCH, GY_SHARE_SAVE, GY_SHARE_TEST, GY_SHARE_REST, GY_SHARE_WAIT,
    GY_SHARES
};

struct gy_timeline_rank {
    struct gy_flight_record record;
    int rank;
    int64_t shift;          /* added to its clock gives that of the first record */
    int64_t came;           /* to the ranks' meeting; this and what follows on the common clock */
    int64_t sign;           /* its last sign of life, whatever gave it */
    int64_t ended;          /* it said how it ended; 0: it did not */
    int64_t step;           /* batches done */
    int doing;              /* enum gy_doing, what it had begun last and not ended; -1: nothing */
    int64_t since;          /* then */
    int64_t sum;            /* doing GY_DOES_WAIT, MEET, AGREE: which */
    int bucket, peer;       /* of the wait; -1 */
    int program;            /* in a step: the one that ran last; -1 */
    int64_t sum_begun;      /* the last one: they begin in order, and end in any */
    int64_t agreed;         /* the value that it compared last */
    int agrees;
    /* steps that are in its record from begin to end; nanoseconds */
    int64_t steps, share[GY_SHARES];
};

struct gy_timeline {
    struct gy_alloc alloc;
    struct gy_timeline_rank *ranks; /* [count], in order; of each at most one */
    int count, room, all;   /* room: there is memory for so many; all: ranks of the job */
    int hosts;
    int64_t wall;           /* that plus the common clock is the time since 1970 */
    int64_t end;            /* the last sign of life of all */
    int64_t failed;         /* the first rank said that it failed; 0: none did */
};

/* Reads DIR/flight.N (with `old`, those of the start before). note is called with a sentence for
 * each file that is left out. GY_E_IO and others: nothing can be read. */
GY_INT int gy_timeline_open(struct gy_timeline *out, const char *folder, int old,
                            void (*note)(void *user, const char *text), void *user,
                            const struct gy_alloc *alloc, struct gy_error *err);
/* Its record says that this sum was there. */
GY_INT int gy_timeline_has_done(const struct gy_timeline_rank *r, int64_t sum);
GY_INT void gy_timeline_close(struct gy_timeline *timeline);
/* or NULL */
GY_INT const struct gy_timeline_rank *gy_timeline_rank(const struct gy_timeline *t, int rank);
/* "17:03:11.250" */
GY_INT const char *gy_timeline_clock(const struct gy_timeline *t, int64_t at, char text[32]);

#endif
