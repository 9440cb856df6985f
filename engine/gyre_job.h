/* SPDX-License-Identifier: MIT */
/* gyre_job.h: several processes, on one machine or many, as the ranks of a job. They train a net or
 * a linear model together, or sum what a program gives them. */
#ifndef GYRE_JOB_H
#define GYRE_JOB_H
#include "gyre_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- several processes, between machines ---------------------------------------------------- */
/* Processes ("ranks") that train one net together. Each computes its own batches. Gradients are
 * summed over all before an update, so all hold the same weights. They are started by 'gyre
 * launch', on one host or several, by mpirun, srun or torchrun. */
struct gyre_job;
enum gyre_wire { GYRE_WIRE_F32, GYRE_WIRE_BF16 };
enum gyre_sync {
    GYRE_SYNC_ALLREDUCE, /* gradients are summed among all ranks */
    GYRE_SYNC_SERVER,    /* an update a step, of the gradients of all workers */
    GYRE_SYNC_ASYNC      /* an update a gradient */
};
struct gyre_job_config {
    size_t size;
    double wait_seconds;    /* how long a rank waits for the others before GYRE_E_PEER; 600 */
    /* enum gyre_wire: what gradients travel as between hosts; sums are made in float.
     * GYRE_WIRE_BF16 halves the bytes, rounds to 8 bits, and is refused where nothing travels;
     * GYRE_WIRE_F32 */
    int wire;
    int messages;           /* 1: ranks also send each other messages; 0 */
    int elastic_least, elastic_most; /* with gyre_config.shards gyre_train goes on when ranks are
                             * lost, while so many are left, and lets in newcomers; with servers
                             * newcomers take the places of workers that were lost; 0: off */
    /* Parameter servers: so many of the ranks, the first ones, hold the weights, to which the
     * others, the workers, push gradients. The job that is opened is one of workers: its rank and
     * ranks count them. A server's rank is not below ranks, and gyre_train serves there. 0 */
    int servers;
    /* enum gyre_sync; with servers GYRE_SYNC_SERVER or GYRE_SYNC_ASYNC; GYRE_SYNC_ALLREDUCE */
    int sync;
    /* GYRE_SYNC_SERVER: an update takes the first workers - backup gradients, late ones are
     * dropped; 0 */
    int backup;
    /* GYRE_SYNC_ASYNC: steps that a worker may be ahead of the slowest one; -1: any number; -1 */
    int64_t staleness;
    /* GYRE_SYNC_ASYNC: 1: the learning rate is divided by a gradient's staleness; 0 */
    int stale_rate;
    /* file to which a server writes the order of arrivals, several FILE.0, FILE.1 ...; NULL */
    const char *record;
    /* such a file: what comes is taken in its order, which gives the same bits; NULL */
    const char *replay;
    /* folder in which each rank keeps what it did last, for 'gyre net doctor', until the job has
     * ended well; NULL: none, unless the variable GYRE_FLIGHT names one, which then stays; NULL */
    const char *flight;
};
GYRE_API void gyre_job_config_default(struct gyre_job_config *config);
/* Where this process stands, from its launcher's variables; without any, rank 0 of 1. config may be
 * NULL. Goes into gyre_config.job. */
GYRE_API int gyre_job_open(struct gyre_job **job, const struct gyre_job_config *config, struct gyre_error *error);
/* This rank's work is done and saved: waits until all ranks have come here. GYRE_E_PEER: one is
 * lost, or closed its job before; then a run that is started again may have to go on (never with
 * elastic_least). Once, before gyre_job_close; a rank that fails closes without it, and the others
 * know. NULL is fine. */
GYRE_API int gyre_job_end(struct gyre_job *job, struct gyre_error *error);
GYRE_API void gyre_job_close(struct gyre_job *job); /* NULL is fine; nets of it must be closed */
GYRE_API int gyre_job_rank(const struct gyre_job *job);  /* NULL: 0 */
GYRE_API int gyre_job_ranks(const struct gyre_job *job); /* NULL: 1 */
/* data[i] = sum of all ranks' data[i], the same bits on each; in any memory, without a copy in that
 * of gyre_job_memory. Blocks. */
GYRE_API int gyre_job_sum(struct gyre_job *job, float *data, int64_t count, struct gyre_error *error);

/* Sums over a job's ranks, also for programs that train by other means (libgyre-net.so). */
/* Zeroed memory on a page of its own in which sums need no copy on one host. All ranks take the
 * same, in the same order. Blocks. */
GYRE_API int gyre_job_memory(struct gyre_job *job, size_t bytes, void **memory, struct gyre_error *error);
/* The same with sums of their own. The sum of data in `memory` stands at the same offset in `sums`,
 * which all ranks of a host, or socket, share and only read. Data stays as it is, and may be
 * written again when its sum is there. Sums must be read before the next sum at that place is
 * begun. A rank that is alone, on its host or at all, has sums == memory. Both end with
 * gyre_job_release of memory. */
GYRE_API int gyre_job_memory_shared(struct gyre_job *job, size_t bytes, void **memory, void **sums, struct gyre_error *error);
/* NULL is fine; no sum may be open in it */
GYRE_API void gyre_job_release(struct gyre_job *job, void *memory);
/* Begins data[i] = sum of all ranks' data[i], the same bits on each, in memory of gyre_job_memory,
 * which is not touched until the sum is there. All ranks begin the same sums in the same order.
 * Does not allocate. */
GYRE_API int gyre_job_sum_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket, struct gyre_error *error);
/* Helps open sums along; done: 1 when this one is there. Does not wait. */
GYRE_API int gyre_job_sum_test(struct gyre_job *job, int64_t ticket, int *done, struct gyre_error *error);
/* GYRE_E_PEER when a rank does not come */
GYRE_API int gyre_job_sum_wait(struct gyre_job *job, int64_t ticket, struct gyre_error *error);

#ifdef __cplusplus
}
#endif
#endif
