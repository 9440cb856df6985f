/* SPDX-License-Identifier: MIT */
/* recorder.h: a table of peers around another one, which job.c opens. It notes exchanges with other
 * ranks in the flight record and counts them. The net and its training loop report their own work
 * by `note`. */
#ifndef GY_RECORDER_H
#define GY_RECORDER_H
#include "engine/job/area.h"
#include "engine/job/counters.h"
#include "engine/job/flight.h"
#include "net/comm/comm.h"

struct gy_recorder {
    const struct gy_peers *inner;
    struct gy_flight flight;
    struct gy_job_counters counters;
    int64_t sums;                /* begun since the job was opened */
    int64_t number[GY_JOB_AREAS][GY_NET_HOST_OPEN]; /* of an area's open sums, ticket by ticket */
    int turn[GY_JOB_AREAS];      /* sums of a step there; 0: their order has no meaning */
    int64_t began[GY_DOINGS];     /* mono, of what the loop has begun */
    int64_t first;               /* mono, when the loop waited for its first batch; 0: not yet */
    int in_step;
    int inside;                  /* calls that are under way, which sum by themselves */
    int told;                    /* it is noted that a rank is lost */
};

/* Puts itself before job->peers. folder: for the record; NULL: it only counts. came: mono, when
 * this rank came to the ranks' meeting. must: a file that cannot be made is an error, and the file
 * stays when the job ends well. Without must such a failure only means that nothing is recorded. */
GY_INT int gy_recorder_open(struct gyre_job *job, const char *folder, int64_t came, int must,
                            struct gy_error *err);
/* How the job ended, for the record; nothing without a recorder. err is not NULL. */
GY_INT void gy_recorder_ended(struct gyre_job *job, int status, const struct gy_error *err);
/* Ranks have come together again: signs of life are those of the new world. */
GY_INT void gy_recorder_reformed(struct gyre_job *job);
/* After the world is closed, whose detector writes the signs of life. */
GY_INT void gy_recorder_close(struct gyre_job *job);

#endif
