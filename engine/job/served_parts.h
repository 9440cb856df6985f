/* SPDX-License-Identifier: MIT */
/* served_parts.h: the state of a job with servers, shared by the files served_*.c. job.c opens and
 * closes such a job by it. */
#ifndef GY_JOB_SERVED_PARTS_H
#define GY_JOB_SERVED_PARTS_H
#include "engine/gyre_job.h"
#include "engine/job/served.h"
#include "net/comm/comm.h"
#include "net/server/frame.h"
#include "net/server/ledger.h"
#include "net/server/slices.h"

/* Tags of the messages between a worker and a server, each way. */
#define GY_SERVED_TALK (GY_NET_MESSAGE_TAG + 0x5000000u) /* frames alone */
#define GY_SERVED_SUMS (GY_SERVED_TALK + 1u)
#define GY_SERVED_ALL (GY_SERVED_TALK + 2u)    /* what a server holds */
#define GY_SERVED_END (GY_SERVED_TALK + 3u)    /* what a server counted */
#define GY_SERVED_SLICES (GY_SERVED_TALK + 4u) /* the first slice's; the next ones follow */

/* Two messages, one each way, with a frame at the begin of each. */
struct gy_served_lane {
    struct gy_net_request in, out;
    struct gy_server_frame *get, *give;
    size_t bytes;      /* of each, frame included */
    int64_t number;    /* frames so far */
    int64_t version;   /* a worker: of the weights that it has */
};

/* JOINS: the others have begun. */
enum gy_served_phase { GY_SERVED_BEFORE, GY_SERVED_JOINS, GY_SERVED_NOW, GY_SERVED_AFTER };

struct gy_served {
    struct gy_alloc alloc;
    struct gyre_job *all, *job;      /* workers and servers; this job */
    struct gyre_job_config config;
    int workers, servers, number;    /* this rank's among its kind */
    int *rank_of;                    /* [workers]: a worker's in the job of all; -1: nobody's */
    int *age;                        /* [workers]: meetings that were before it came */
    int phase;
    struct gy_served_net net;
    struct gy_server_slice *slices;  /* [net.count] */
    struct gy_served_lane *lanes;    /* a worker: [net.count] */
    /* A worker's talk with some server. All of it lives as long as the job: a request that fails
     * stays the transport's. */
    struct gy_server_frame talk;
    struct gy_net_request talk_out, out, in;
    unsigned char *room;             /* [room_bytes], what is sent or comes */
    size_t room_bytes;
    int64_t sums, fetches, leaves, meets; /* frames so far */
    int64_t steps;                   /* a worker's, between two of them */
    int meet, came, met;             /* called to meet; workers that came since; meetings */
    int stop;                        /* some worker was asked to */
    unsigned char *told;             /* a worker: [workers], lost ones of whom it has said so */
    struct gy_net_request *end;      /* a worker that leaves: [servers], what each counted */
    struct gy_served_report *counted;
    struct gy_server_run *server;    /* a server's */
    struct gy_served_report report;
};

GY_INT int gy_served_rank(const struct gy_served *s, int server); /* in the job of all */
GY_INT int gy_served_is_lost(const struct gy_served *s, int worker, const char **text);
GY_INT int gy_served_leader(const struct gy_served *s); /* a worker; -1: all are lost */
GY_INT int gy_served_lockstep(const struct gy_served *s);
/* Waits, after some calls longer each time: nothing has moved `still` times. */
GY_INT void gy_served_pause(const struct gy_served *s, int still);
/* Until the request is done, or a peer is gone that may be: then it is not GY_NET_DONE. */
GY_INT int gy_served_await(struct gy_served *s, struct gy_net_request *request,
                           struct gy_error *err);
/* Posts what the request says. A peer that may be lost, and is, is no error: it is GY_NET_LOST. */
GY_INT int gy_served_post(struct gy_served *s, struct gy_net_request *request,
                          struct gy_error *err);
/* The floats behind a lane's frame. */
GY_INT float *gy_served_floats(struct gy_server_frame *frame);
GY_INT void gy_served_lane_clear(struct gy_served_lane *lane); /* nothing is under way */
GY_INT int gy_served_lane_open(struct gy_served *s, struct gy_served_lane *lane, int slice,
                               struct gy_error *err);
GY_INT void gy_served_lane_close(struct gy_served *s, struct gy_served_lane *lane);

/* served_worker.c */
/* Waits until all servers serve; one that joins does not. */
GY_INT int gy_worker_begin(struct gy_served *s, struct gy_error *err);
/* Sends the gradient of a slice. The ticket is for pull, which waits for the answer and puts the
 * slice's weights in place. */
GY_INT int gy_worker_push(struct gy_served *s, const float *gradient, int64_t *ticket,
                          struct gy_error *err);
GY_INT int gy_worker_pull(struct gy_served *s, int64_t ticket, struct gy_error *err);
/* The sum over all workers, made by server 0. Of workers that do not go in step: each its own
 * data. */
GY_INT int gy_worker_sum(struct gy_served *s, float *data, int64_t count, struct gy_error *err);
/* As gy_served_calls.fetch. */
GY_INT int gy_worker_fetch(struct gy_served *s, unsigned regions, int last, struct gy_error *err);
/* 1: who leads is lost, and this worker is next. */
GY_INT int gy_worker_leave(struct gy_served *s, int leads, struct gy_error *err);
GY_INT int gy_worker_meet(struct gy_served *s, struct gy_error *err); /* where it was called */
GY_INT void gy_worker_close(struct gy_served *s);

/* served_meet.c */
/* Numbers the ranks of a new job. joins: this one comes to a job whose others have begun. */
GY_INT int gy_served_places(struct gy_served *s, int joins, struct gy_error *err);
/* All ranks that live call it when no message is under way. Who was lost has no rank then. */
GY_INT int gy_served_reform(struct gy_served *s, struct gy_error *err);

/* served_server.c: serves until all workers have left. */
GY_INT int gy_server_serve(struct gy_served *s, struct gy_error *err);
GY_INT void gy_server_close(struct gy_served *s); /* after the job's network has ended */

/* served_job.c */
/* Makes a job of workers of an open one, which belongs to the new one from then on. Its first
 * config.servers ranks are servers. A collective. After a failure the caller closes *out, or `all`
 * where *out was not set. */
GY_INT int gy_served_open(struct gyre_job **out, struct gyre_job *all,
                          const struct gyre_job_config *config, struct gy_error *err);
GY_INT struct gyre_job *gy_served_all(const struct gyre_job *job); /* the job that it was made of */
GY_INT void gy_served_close(struct gyre_job *job); /* after that one */

#endif
