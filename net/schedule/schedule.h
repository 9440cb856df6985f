/* SPDX-License-Identifier: MIT */
/* schedule.h: a collective as data. schedule_*.c build it, verify.c proves it, exec.c runs it,
 * simulation.c times it. The buffer is cut into equal pieces. For every rank a schedule lists
 * steps: send pieces to a peer, receive pieces from it, or receive them and add them to one's own.
 *
 * A step belongs to a lane and a round. The steps of one lane and round run at once. What is sent
 * is the content before the round. Additions to the same piece are made in the order of the list.
 * The lane's next round begins when these are done. Lanes know nothing of each other and never
 * touch each other's pieces, so a schedule that cuts its work into lanes is pipelined. A message is
 * matched by sender, receiver and lane, in the order of the lists.
 *
 * Schedules come from pure functions of the number of ranks and the layout (algorithms.c), or from
 * text (schedule_text.c). Each must be proved by gy_net_verify before exec.h runs it. */
#ifndef GY_NET_SCHEDULE_H
#define GY_NET_SCHEDULE_H
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define GY_NET_RANKS_MOST 4096
#define GY_NET_DIMS 8
#define GY_NET_STEPS_MOST ((int64_t)1 << 26)

enum gy_net_kind { GY_NET_SEND, GY_NET_RECV, GY_NET_ADD, GY_NET_KINDS };

struct gy_net_step {
    uint16_t lane, round;
    uint8_t kind, spare[3];
    int32_t peer;
    int32_t piece, pieces; /* [piece, piece + pieces) */
};

/* What every rank holds at the end, from a whole buffer of its own at the beginning. */
enum gy_net_goal {
    GY_NET_ALLREDUCE,      /* the sum, everywhere */
    /* the sum of the pieces that are its own (gy_net_owner); the rest is undefined */
    GY_NET_REDUCE_SCATTER,
    GY_NET_ALL_GATHER,     /* every piece as its owner had it */
    GY_NET_BROADCAST,      /* every piece as rank 0 had it */
    GY_NET_GOALS
};

struct gy_net_schedule {
    char name[48];
    int goal, ranks, lanes;
    int32_t pieces;            /* a multiple of lanes; a lane has a contiguous part of them */
    int dim_count, dims[GY_NET_DIMS];
    /* bit d: blocks of dimension d lie in the order of their coordinates' bits read backward */
    unsigned turned;
    /* rank after rank; within a rank by lane, then round, then as listed */
    struct gy_net_step *steps;
    int64_t *first;            /* [ranks + 1]: where a rank's steps begin */
    int64_t count, room;       /* steps, and places */
    struct gy_alloc alloc;
    int failed; /* a builder ran out of memory or of a limit; gy_net_finish says so */
    int32_t *rank_of;          /* while it is built: the rank of each step */
};

/* The layout by which an algorithm cuts its work. lanes: parts of the buffer that follow each
 * other, at least 1. dims: sizes whose product is ranks, the innermost (nearest) first; dim_count
 * 0: one dimension. Ranks that differ in coordinate 0 only are neighbours on a host. hosts: the
 * number of consecutive ranks on each host, for algorithms that know unequal hosts. host_count 0:
 * hosts are made from dims[0]. */
struct gy_net_shape {
    int ranks, lanes, dim_count, host_count;
    int dims[GY_NET_DIMS];
    const int *hosts;
};

/* Building: open, add steps in any order of ranks, finish, which sorts them. A step of 0 pieces is
 * left out. After a failure of finish the caller closes. All memory comes from alloc. */
GY_INT void gy_net_open_schedule(struct gy_net_schedule *s, const struct gy_alloc *alloc, const char *name, int goal, int ranks,
                                 int32_t pieces, int lanes);
GY_INT void gy_net_add(struct gy_net_schedule *s, int rank, int lane, int round, int kind, int peer, int32_t piece, int32_t pieces);
/* Both ends of one message: from sends, to receives with kind GY_NET_RECV or GY_NET_ADD. */
GY_INT void gy_net_move(struct gy_net_schedule *s, int lane, int round, int from, int to, int kind, int32_t piece, int32_t pieces);
GY_INT int gy_net_finish(struct gy_net_schedule *s, struct gy_error *err);
GY_INT void gy_net_close_schedule(struct gy_net_schedule *s); /* safe on a zeroed struct */

/* n is a power of two: the bits of i < n in reverse order. */
GY_INT int gy_net_turned(int i, int n);

/* Who holds a piece after a reduce-scatter, and before an all-gather. */
GY_INT int gy_net_owner(const struct gy_net_schedule *s, int32_t piece);

/* A group of ranks that work on consecutive blocks of pieces. After a scatter, the owner of block b
 * holds its sum, of pieces [piece + b * block, + block). The argument round is the first round to
 * use; the functions return the one after the last. */
struct gy_net_group {
    int lane, members;
    const int *rank;  /* [members]: owner of each block */
    int32_t piece, block;
};
typedef int (*gy_net_group_fn)(struct gy_net_schedule *s, const struct gy_net_group *g, int round);
GY_INT int gy_net_ring_scatter(struct gy_net_schedule *s, const struct gy_net_group *g, int round);
GY_INT int gy_net_ring_gather(struct gy_net_schedule *s, const struct gy_net_group *g, int round);
/* members: power of two */
GY_INT int gy_net_halving_scatter(struct gy_net_schedule *s, const struct gy_net_group *g, int round);
GY_INT int gy_net_halving_gather(struct gy_net_schedule *s, const struct gy_net_group *g, int round);
GY_INT int gy_net_direct_scatter(struct gy_net_schedule *s, const struct gy_net_group *g, int round);
GY_INT int gy_net_direct_gather(struct gy_net_schedule *s, const struct gy_net_group *g, int round);

/* What verification finds out beside right or wrong. */
struct gy_net_proof {
    /* certificate of the order of all sums: schedules with the same give the same bits */
    unsigned char order[32];
    int64_t messages, pieces_sent;
    int rounds;               /* of the lane with the most */
};
/* Proves a schedule. Every message has one sender and one receiver of equal length, in order.
 * Nothing waits for ever, even when a send only ends with its receive. No step of a round touches a
 * piece that another step of the rank receives in it; what is sent may be added to. Lanes keep to
 * their own pieces. Every rank ends with what the goal says, each contribution exactly once, in the
 * same order on every rank. GY_E_FORMAT with a sentence that names rank and step, or rank and
 * piece; GY_E_NOMEM. */
GY_INT int gy_net_verify(const struct gy_net_schedule *s, struct gy_net_proof *proof, struct gy_error *err);

/* rank: whose steps; -1: everybody's, then the text can be read again; -2: nobody's. */
GY_INT void gy_net_print(const struct gy_net_schedule *s, const struct gy_net_proof *proof, int rank, struct gy_sink *sink);
/* A schedule from text of a file `name`; GY_E_FORMAT names file and line. It is not proved yet. */
GY_INT int gy_net_read_schedule(struct gy_net_schedule *out, const char *text, size_t bytes, const char *name, const struct gy_alloc *alloc,
                                struct gy_error *err);

/* A builder writes the schedule of a shape for a goal (enum gy_net_goal) into out, unproved. Errors
 * and ownership are those of gy_net_build (algorithms.h). */
typedef int gy_net_builder(struct gy_net_schedule *out, const struct gy_net_shape *shape, int goal,
                           const struct gy_alloc *alloc, struct gy_error *err);

#endif
