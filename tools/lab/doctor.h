/* SPDX-License-Identifier: MIT */
/* doctor.h: finds what held a job up, from the records of its ranks on one clock. doctor_print.c
 * calls it for gyre net doctor (tools/cmd_network.c). */
#ifndef GY_DOCTOR_H
#define GY_DOCTOR_H
#include "tools/lab/timeline.h"

struct gy_doctor;
struct gy_doctor_cause {
    const char *name;
    int (*holds)(struct gy_doctor *d); /* and says who is guilty */
    /* behind "rank 2 "; what to look at. NULL: the job was asked to stop */
    const char *what, *look;
};

struct gy_doctor {
    const struct gy_timeline *t;
    unsigned char *guilty, *waits; /* [t->all], zeroed; waits: for the guilty */
    const struct gy_doctor_cause *cause; /* NULL: none was found */
    int64_t sum, since, step;   /* the sum in which they wait, the first of them since then */
    int bucket;                 /* -1: none of the gradients' */
    int64_t until;              /* they gave up */
    int64_t silent;             /* how long the guilty had given no sign of life then */
    int share;                  /* enum gy_share, of a slow rank; -1 */
    /* Milliseconds a step that the guilty spends on share, that others do, and that they wait. Of a
     * late rank, here is how late it was. */
    double here, others, waited;
    const char *said;           /* a rank's own sentence, or NULL */
};

/* Returns how many ranks wait. */
GY_INT int gy_doctor_judge(struct gy_doctor *doctor);

#endif
