/* SPDX-License-Identifier: MIT */
/* flight.h: the flight recorder of a rank: its last events in a ring of fixed size, noted by
 * recorder.c. With a folder the ring is a mapped file DIR/flight.RANK, which outlives the process
 * however it ends; 'gyre net doctor' reads it. The thread that steps writes it without a lock, a
 * system call or an allocation.
 *
 * The file, in the byte order of the machine that wrote it:
 *
 *     bytes    what
 *     0        struct gy_flight_head: "GYFLIGHT", version, sizes, who this is; a CRC-32C of that
 *     512      struct gy_flight_live: last sign of life; how the rank ended, with a CRC-32C of that
 *     4096     room events of 64 bytes, struct gy_flight_event, each with a CRC-32C of its own
 *
 * Event number n, from 1 on, stands in place n % room. An event that was being written when the
 * process ended has a wrong sum; readers skip it. */
#ifndef GY_FLIGHT_H
#define GY_FLIGHT_H
#include "engine/job/peers.h"
#include "net/comm/failure.h"

#define GY_FLIGHT_MAGIC "GYFLIGHT"
#define GY_FLIGHT_VERSION 1
#define GY_FLIGHT_ROOM 4096
#define GY_FLIGHT_PAGE 4096
#define GY_FLIGHT_LIVE 512
#define GY_FLIGHT_BYTES (GY_FLIGHT_PAGE + (size_t)GY_FLIGHT_ROOM * sizeof(struct gy_flight_event))
#define GY_FLIGHT_OLD ".before" /* behind the name of the record of the start before this one */

enum gy_flight_phase { GY_FLIGHT_BEGAN, GY_FLIGHT_ENDED };

struct gy_flight_event {
    uint64_t number;
    int64_t mono, wall; /* nanoseconds: since the host was started; since 1970 */
    int64_t step;       /* batches done before */
    int64_t sum;        /* number of a sum since the job was opened; else 0 */
    int64_t bytes;      /* GY_DOES_AGREE: the value that is compared */
    int32_t peer;       /* who is waited for, where this rank knows it; -1 */
    int16_t bucket;     /* of the step's gradients; -1 */
    uint8_t kind, phase; /* enum gy_doing, enum gy_flight_phase */
    uint32_t pad, crc;   /* crc: of what stands before it */
};

struct gy_flight_head {
    char magic[8];
    uint32_t version, head_bytes, event_bytes, room;
    int64_t job;        /* of this start, the same on all ranks: when rank 0 came to the meeting */
    int32_t rank, ranks, pid, local;
    unsigned char host[32]; /* equal on ranks of one host */
    char name[64];      /* of the host */
    int64_t came, met;  /* mono: it came to the ranks' meeting; all were there */
    int64_t wall;       /* at met */
    uint32_t pad, crc;  /* crc: of what stands before it */
};

enum gy_flight_state { GY_FLIGHT_RUNS, GY_FLIGHT_WELL, GY_FLIGHT_FAILED, GY_FLIGHT_LEFT };

struct gy_flight_live {
    struct gy_net_beat beat; /* mono */
    int64_t ended;      /* mono; 0: not */
    int32_t state, status; /* enum gy_flight_state, GY_E_ */
    char text[480];     /* of GY_FLIGHT_FAILED */
    uint32_t pad, crc;  /* crc: from `ended` to pad */
};

GY_STATIC_ASSERT(sizeof(struct gy_flight_event) == 64, flight_event);
GY_STATIC_ASSERT(sizeof(struct gy_flight_head) <= GY_FLIGHT_LIVE, flight_head);
GY_STATIC_ASSERT(GY_FLIGHT_LIVE + sizeof(struct gy_flight_live) <= GY_FLIGHT_PAGE, flight_live);

struct gy_flight {
    struct gy_flight_head *head;   /* the mapping; NULL: nothing is kept */
    struct gy_flight_live *live;
    struct gy_flight_event *events;
    uint64_t count;
    int64_t wall;                  /* that plus mono is the wall clock, as of the last step */
    int64_t step;
    char path[4096];
    int keeps;                     /* the file stays when the job ends well */
    int fd;                        /* of the file, which is locked while it is recorded into */
};

/* Makes folder/flight.RANK from head, of which the caller fills in who this is. A file of that name
 * is first renamed, with GY_FLIGHT_OLD behind its name. GY_E_STATE: a process still records into
 * it. After this or another error, such as GY_E_IO, nothing is kept. */
GY_INT int gy_flight_open(struct gy_flight *flight, const char *folder,
                          const struct gy_flight_head *head, struct gy_error *err);
/* Notes what the event says; number, clocks and step are set here. Returns mono. */
GY_INT int64_t gy_flight_note(struct gy_flight *flight, const struct gy_flight_event *event);
/* How the rank ends; the first that is not GY_FLIGHT_WELL counts. text may be NULL. */
GY_INT void gy_flight_end(struct gy_flight *flight, int state, int status, const char *text);
/* Removes the file after GY_FLIGHT_WELL, unless it is one that stays (keeps). */
GY_INT void gy_flight_close(struct gy_flight *flight); /* safe on a zeroed struct */
GY_INT uint32_t gy_flight_crc(const void *from, const void *crc); /* of what lies between */

#endif
