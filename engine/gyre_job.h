/* SPDX-License-Identifier: MIT */
/* gyre_job.h: several processes, on one machine or many, as the ranks of a job. They train a net or
 * a linear model together, or sum arrays of floats. 'gyre launch', mpirun, srun or torchrun starts
 * them. Each opens the job, puts it into gyre_config.job or gyre_glm_config.job, and ends it:
 *
 *     gyre_job_open(&job, NULL, &error);
 *     ... gyre_train, gyre_glm_train, or gyre_job_sum(job, data, count, &error) ...
 *     gyre_job_end(job, &error), gyre_job_close(job); */
#ifndef GYRE_JOB_H
#define GYRE_JOB_H
#include "gyre_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- several processes, between machines ---------------------------------------------------- */
/* Ranks that train one net together compute their own batches. Gradients are summed over all ranks
 * before an update, so all hold the same weights. */
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
    /* 0: off. With gyre_config.shards gyre_train continues after ranks are lost, while at least
     * elastic_least are left, and admits newcomers up to elastic_most. With servers newcomers
     * replace lost workers. */
    int elastic_least, elastic_most;
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
    /* file to which a server writes the order of arrivals; several write FILE.0, FILE.1 ...;
     * NULL */
    const char *record;
    /* such a file: gradients are taken in its order, which gives the same bits; NULL */
    const char *replay;
    /* folder of flight records, which 'gyre net doctor' reads: each rank's last events. A job that
     * ends well removes them. NULL: the folder that GYRE_FLIGHT names, which stays, or none;
     * NULL */
    const char *flight;
};
GYRE_API void gyre_job_config_default(struct gyre_job_config *config);
/* Where this process stands, from its launcher's variables; without any, rank 0 of 1. config may be
 * NULL. Goes into gyre_config.job. A process that a launcher started opens one job. */
GYRE_API int gyre_job_open(struct gyre_job **job, const struct gyre_job_config *config, struct gyre_error *error);
/* Says that this rank's work is done and saved, and waits until all ranks have called it.
 * GYRE_E_PEER: a rank was lost or closed its job early; restart the run with `resume` (never needed
 * with elastic_least). Call it once, before gyre_job_close. A rank that fails closes without it;
 * the others notice. NULL is fine. */
GYRE_API int gyre_job_end(struct gyre_job *job, struct gyre_error *error);
/* NULL is fine; nets of it must be closed. Releases memory of gyre_job_memory, too. */
GYRE_API void gyre_job_close(struct gyre_job *job);
GYRE_API int gyre_job_rank(const struct gyre_job *job);  /* NULL: 0 */
GYRE_API int gyre_job_ranks(const struct gyre_job *job); /* NULL: 1 */
/* data[i] = sum of all ranks' data[i], the same bits on each (NaNs may differ in theirs). data may
 * be any memory; memory of gyre_job_memory saves a copy. Blocks. GYRE_E_PEER: a rank is lost, or
 * sums another count. */
GYRE_API int gyre_job_sum(struct gyre_job *job, float *data, int64_t count, struct gyre_error *error);

/* Sums over a job's ranks, also for programs that train by other means (libgyre-net.so). */
/* Takes zeroed memory on a page of its own, in which sums need no copy on one host. All ranks take
 * the same sizes in the same order, else GYRE_E_MISMATCH. Blocks. */
GYRE_API int gyre_job_memory(struct gyre_job *job, size_t bytes, void **memory, struct gyre_error *error);
/* As gyre_job_memory, with separate memory for the sums. The sum of data in `memory` stands at the
 * same offset in `sums`, which all ranks of a host, or socket, share and only read. Data stays
 * unchanged, and may be written again when its sum is complete. Sums must be read before the next
 * sum at that place begins. A rank that is alone, on its host or at all, has sums == memory.
 * gyre_job_release of memory releases both. */
GYRE_API int gyre_job_memory_shared(struct gyre_job *job, size_t bytes, void **memory, void **sums, struct gyre_error *error);
/* NULL is fine; no sum may be open in it */
GYRE_API void gyre_job_release(struct gyre_job *job, void *memory);
/* Begins data[i] = sum of all ranks' data[i], as gyre_job_sum. data lies in memory of
 * gyre_job_memory and must not be touched until the sum is complete. All ranks begin the same sums
 * in the same order. Does not allocate. */
GYRE_API int gyre_job_sum_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket, struct gyre_error *error);
/* Makes progress on all open sums; done: 1 when this one is complete. Does not wait. */
GYRE_API int gyre_job_sum_test(struct gyre_job *job, int64_t ticket, int *done, struct gyre_error *error);
/* The same, and waits, as gyre_job_sum does. GYRE_E_PEER when a rank does not come */
GYRE_API int gyre_job_sum_wait(struct gyre_job *job, int64_t ticket, struct gyre_error *error);

#ifdef __cplusplus
}
#endif
#endif
