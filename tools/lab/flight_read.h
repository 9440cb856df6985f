/* SPDX-License-Identifier: MIT */
/* flight_read.h: reads flight records (engine/job/flight.h) and checks them. Whatever their bytes,
 * the result has numbers inside their ranges. timeline.c reads files by it; doctor*.c see its
 * records. */
#ifndef GY_FLIGHT_READ_H
#define GY_FLIGHT_READ_H
#include "engine/job/flight.h"

struct gy_flight_record {
    struct gy_alloc alloc;
    struct gy_flight_head head;
    struct gy_flight_live live;     /* a damaged end is none: GY_FLIGHT_RUNS */
    struct gy_flight_event *events; /* [count], oldest first */
    int count, room;
    /* events with a wrong sum; one is usual where the rank was killed */
    int damaged;
};

/* The sentence begins with the path. */
GY_INT int gy_flight_read(struct gy_flight_record *out, const char *path,
                          const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_flight_drop(struct gy_flight_record *record); /* safe on a zeroed struct */

#endif
