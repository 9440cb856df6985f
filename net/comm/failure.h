/* SPDX-License-Identifier: MIT */
/* failure.h: the failure detector: notices that a rank is gone. comm.c alone calls it. A thread of
 * each rank sends signs of life to rank 0, and rank 0 to all. They go over the connections of
 * boot.h, which the detector then owns. The end of its connection shows at once that a process
 * died. On its own host the system tells (pidfd), should a child keep the connection open. A
 * process that is stopped or unreachable is noticed after GY_NET_SILENT_NS. Rank 0 decides who is
 * lost and tells all, so that every rank has the same sentence. When rank 0 is lost, each rank says
 * so itself.
 *
 * A rank that leaves in peace says so, with the number of sums that it took part in. It counts as
 * lost only when another rank begins a further sum, or waits for all to be through
 * (gy_net_failure_end). Without that wait a rank may be gone while another waits for the last sum.
 * Then none is left to notice that a third one is stopped. A rank that failed in a sum also says
 * so. It is lost at once: others may wait in that sum.
 *
 * A live rank may be late; none is lost for that before wait_ns. Each sign of life says how long
 * ago the rank's own thread last began a sum or a wait. When some rank waits, and for wait_ns none
 * has begun another sum, rank 0 blames the rank that was away longest, never one that waits. Ranks
 * also report to whom their data does not come through any more. Rank 0 gathers that for
 * FAILURE_GATHER_NS. It blames the rank that most of it is about, or both where it is about two
 * alone.
 *
 * Ranks of one host count their sums in memory that all of them see, so the sentence is exact
 * there. Of other hosts it tells what the last sign of life said. */
#ifndef GY_NET_FAILURE_H
#define GY_NET_FAILURE_H
#include "net/comm/boot.h"
#include "net/comm/topology.h"

#define GY_NET_BEAT_NS 250000000
#define GY_NET_SILENT_NS 2500000000LL /* FAILURE_SILENT of failure.c says it in words */
#define GY_NET_BOARD_BYTES ((size_t)4096)

struct gy_net_failure_config {
    /* the guard alone uses its connections until it closes */
    struct gy_net_boot *boot;
    const struct gy_net_identity *all; /* [ranks], who is who */
    int rank, ranks;
    /* GY_NET_BOARD_BYTES, zeroed, that the ranks of this host share; or NULL */
    void *board;
    /* how long ranks that live wait for each other; 0: for ever */
    int64_t wait_ns;
    int firm;                          /* ranks from here on may be spared; 0: none */
};

/* Signs of life of this rank: the clock at its thread's last turn, of which there are four a second
 * and more; the longest pause between two, and when that was over. */
struct gy_net_beat {
    int64_t last, gap, gap_at;
};

struct gy_net_failure;
/* boot, all and board must outlive the guard. */
GY_INT int gy_net_failure_open(struct gy_net_failure **out, const struct gy_net_failure_config *config, const struct gy_alloc *alloc,
                               struct gy_error *err);
/* Says farewell, unless a rank was lost. NULL is fine. */
GY_INT void gy_net_failure_close(struct gy_net_failure *guard);
/* This rank begins a sum. All ranks begin the same number of sums. */
GY_INT void gy_net_failure_enter(struct gy_net_failure *guard);
/* This rank has begun a sum that it will not finish. */
GY_INT void gy_net_failure_fail(struct gy_net_failure *guard);
/* This rank has found what ends the job: all ranks say this sentence, unless one was lost before.
 * The first call counts; one thread. */
GY_INT void gy_net_failure_tell(struct gy_net_failure *guard, const char *text);
/* No data comes through between this rank and that one. A second call for the same rank does no
 * harm. */
GY_INT void gy_net_failure_cut(struct gy_net_failure *guard, int rank);
/* This rank has finished its sums. GY_OK: all ranks have. GY_E_PEER, with the sentence: a rank is
 * lost, or has left before. Blocks; called once. */
GY_INT int gy_net_failure_end(struct gy_net_failure *guard, struct gy_error *err);
/* From now on ranks may be lost without an end of the job: those from config.firm on. Of rank 0,
 * which decides. */
GY_INT void gy_net_failure_spare(struct gy_net_failure *guard);
/* This rank's own thread waits. It calls this again and again. */
GY_INT void gy_net_failure_wait(struct gy_net_failure *guard);
/* Is it one of those that may be lost, and is? *text (may be NULL): its sentence. Any thread. */
GY_INT int gy_net_failure_spared(const struct gy_net_failure *guard, int rank, const char **text);
/* No data comes through between this rank and that one, as this rank found. */
GY_INT int gy_net_failure_is_cut(const struct gy_net_failure *guard, int rank);
/* From now on the thread writes its signs of life there, too, until the guard closes. */
GY_INT void gy_net_failure_beat(struct gy_net_failure *guard, struct gy_net_beat *beat);
/* GY_E_PEER with its sentence when a rank is lost, else GY_OK. Any thread. */
GY_INT int gy_net_failure_lost(struct gy_net_failure *guard, struct gy_error *err);

#endif
