/* SPDX-License-Identifier: MIT */
/* messages.h: messages from one rank of a job to another (gyre_job_config.messages). job.c opens
 * the rings and puts post, progress and await into the job's table. By that table wire.c and the
 * files served_*.c, workers and servers, exchange messages. */
#ifndef GY_MESSAGES_H
#define GY_MESSAGES_H
#include "engine/job/peers.h"
#include "net/comm/comm.h"
#include "net/transport/shared.h"

/* Maps job->ring_bytes of the host's file from offset on, for messages between its ranks. */
GY_INT int gy_job_open_rings(struct gyre_job *job, size_t offset, struct gy_error *err);
GY_INT void gy_job_close_rings(struct gyre_job *job);
/* The way of messages to a rank; transport NULL: there is none. */
GY_INT void gy_job_way(const struct gyre_job *job, int rank, struct gy_net_end *out);
/* Begins what the request says; its tag is from GY_NET_MESSAGE_TAG on. Does not wait. */
GY_INT int gy_job_post(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err);
/* After a failure: cancels all that is under way with that rank; requests are the caller's
 * again. */
GY_INT void gy_job_forget(struct gyre_job *job, int peer);
/* Moves what can be moved. GY_E_PEER: a rank is lost. Does not wait. */
GY_INT int gy_job_progress(struct gyre_job *job, struct gy_error *err);
/* Waits until the request is done, without a limit of its own: the failure detector ends it.
 * GY_E_PEER: a rank is lost, or it was cancelled. */
GY_INT int gy_job_await(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err);

#endif
