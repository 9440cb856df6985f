/* SPDX-License-Identifier: MIT */
/* failure.h: notices that a rank is gone. A thread of each rank sends a sign of life to rank 0, and
 * rank 0 to all, over the connections of boot.h, which belong to it from then on. A process that
 * dies is noticed at once, by the end of its connection, and on its own host by the system's word
 * (pidfd), should a child of it keep the connection open; one that stands still or cannot be
 * reached, after GY_NET_SILENT_NS. Rank 0 decides who is lost and tells all, so that every rank has
 * the same sentence. Without rank 0 each rank says that of rank 0. Who leaves in peace says so,
 * with the number of sums that it took part in: it is lost only when somebody begins another, or
 * waits for all to be through (gy_net_failure_end). Who has failed in a sum says that as well, and
 * is lost at once: others may wait in the same sum, which it has entered. Without that wait a rank
 * may be gone while another still waits for the last sum, and nobody is left who notices that a
 * third one stands still.
 *
 * A rank whose process lives may be late, and nobody is lost for that before wait_ns. Each sign of
 * life says how long ago the rank's own thread was last seen to begin a sum or to wait. When some
 * rank waits and for wait_ns none has begun another sum, rank 0 blames the one that was away
 * longest: never one that waits. Ranks also say to whom their data does not come through any more.
 * Rank 0 gathers that for GUARD_GATHER_NS and blames the rank that most of it is about, or both
 * where it is about two alone.
 *
 * Ranks of one host count their sums in memory that all of them see, so that the sentence is exact
 * there. Of other hosts it tells what the last sign of life said. */
#ifndef GY_NET_FAILURE_H
#define GY_NET_FAILURE_H
#include "net/comm/boot.h"
#include "net/comm/topology.h"

#define GY_NET_BEAT_NS 250000000
#define GY_NET_SILENT_NS 2500000000LL
#define GY_NET_BOARD_BYTES ((size_t)4096)

struct gy_net_failure_config {
    struct gy_net_boot *boot;          /* nothing else may use its connections until the guard closes */
    const struct gy_net_identity *all; /* [ranks], who is who */
    int rank, ranks;
    void *board;                       /* GY_NET_BOARD_BYTES that the ranks of this host share, zeroed; or NULL */
    int64_t wait_ns;                   /* how long ranks that live wait for each other; 0: for ever */
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
GY_INT void gy_net_failure_enter(struct gy_net_failure *guard); /* this rank begins a sum; all ranks begin the same number of them */
GY_INT void gy_net_failure_fail(struct gy_net_failure *guard);  /* a sum that this rank has begun will not be finished by it */
/* This rank has found what ends the job: all ranks say this sentence, unless one was lost before.
 * The first call counts; one thread. */
GY_INT void gy_net_failure_tell(struct gy_net_failure *guard, const char *text);
GY_INT void gy_net_failure_cut(struct gy_net_failure *guard, int rank); /* no data comes through between this rank and that one; again is fine */
/* This rank is through with its sums: GY_OK when all are, GY_E_PEER with the sentence when one is lost or has left before. Blocks; once. */
GY_INT int gy_net_failure_end(struct gy_net_failure *guard, struct gy_error *err);
/* From now on ranks may be lost without an end of the job: those from config.firm on. Of rank 0,
 * which decides. */
GY_INT void gy_net_failure_spare(struct gy_net_failure *guard);
GY_INT void gy_net_failure_wait(struct gy_net_failure *guard); /* this rank's own thread waits: said again and again */
/* Is it one of those that may be lost, and is? *text (may be NULL): its sentence. Any thread. */
GY_INT int gy_net_failure_spared(const struct gy_net_failure *guard, int rank, const char **text);
/* GY_E_PEER with its sentence when a rank is lost, else GY_OK. Any thread. */
/* No data comes through between this rank and that one, as this rank found. */
GY_INT int gy_net_failure_is_cut(const struct gy_net_failure *guard, int rank);
/* From now on the thread writes its signs of life there, too, until the guard closes. */
GY_INT void gy_net_failure_beat(struct gy_net_failure *guard, struct gy_net_beat *beat);
GY_INT int gy_net_failure_lost(struct gy_net_failure *guard, struct gy_error *err);

#endif
