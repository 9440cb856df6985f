/* SPDX-License-Identifier: MIT */
/* counters.h: what a rank counts while it trains (recorder.c), for the report at a run's end. All
 * fields are int64_t, so that they travel as rows (gather.h). A new field needs its line here and
 * its name in tools/lab/job_report.c. */
#ifndef GY_COUNTERS_H
#define GY_COUNTERS_H
#include "engine/base/base.h"

struct gy_job_counters {
    int64_t steps;              /* of the loop */
    int64_t run_ns;             /* from the first one's input to the last one's end */
    int64_t step_ns;            /* in them, all that follows up to wait_ns included */
    int64_t sum_ns, wait_ns;    /* helping sums beside compute; blocked in one, or in a message */
    int64_t batch_ns, save_ns;  /* beside steps: for the loader, in checkpoints */
    int64_t test_ns, meet_ns;   /* in tests, in sums between steps */
    int64_t sums, sum_bytes;
    int64_t messages, message_bytes; /* that this rank sent */
    int64_t dropped, stale;     /* gradients: servers count them */
};

#define GY_COUNTERS (sizeof(struct gy_job_counters) / sizeof(int64_t))

#endif
