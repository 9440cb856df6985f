/* SPDX-License-Identifier: MIT */
/* wire.h: messages of fixed sizes that two ranks send each other again and again, with a few places
 * at either end. A send copies into a place and returns; a receiver posts receives before it needs
 * them. So bytes travel while ranks compute. Pipelines and split layers of engine/run/ call it
 * through the job's table (gyre_job_config.messages). */
#ifndef GY_WIRE_H
#define GY_WIRE_H
#include "engine/job/peers.h"

struct gy_wire;
struct gy_wire_message {
    int sends, peer, places;
    uint32_t number; /* below 2^24; both ends give the same, and another for each message */
    size_t bytes;
};

struct gy_wire_calls {
    int (*open)(struct gy_wire **out, struct gyre_job *job, const struct gy_wire_message *messages,
                int count, struct gy_error *err);
    /* NULL is fine. What is still under way after a failure ends with the job. */
    void (*close)(struct gy_wire *wire);
    /* `count` more of a message will come: those for which there is a place are asked for. */
    int (*expect)(struct gy_wire *wire, int message, int count, struct gy_error *err);
    int (*send)(struct gy_wire *wire, int message, const void *data,
                struct gy_error *err); /* waits for a place */
    int (*take)(struct gy_wire *wire, int message, void *data,
                struct gy_error *err);                        /* waits for the message */
    int (*drain)(struct gy_wire *wire, struct gy_error *err); /* until all that was sent has left */
    /* A single message, without places: both wait until it is over. */
    int (*tell)(struct gyre_job *job, int peer, uint32_t number, const void *data, size_t bytes,
                struct gy_error *err);
    int (*hear)(struct gyre_job *job, int peer, uint32_t number, void *data, size_t bytes,
                struct gy_error *err);
    /* To one rank and from another, or the same one, at once. */
    int (*pass)(struct gyre_job *job, uint32_t number, int to, const void *out, size_t out_bytes,
                int from, void *in, size_t in_bytes, struct gy_error *err);
    /* Two ranks tell each other. */
    int (*swap)(struct gyre_job *job, int peer, uint32_t number, const void *out, void *in,
                size_t bytes, struct gy_error *err);
    int64_t (*waited)(const struct gy_wire *wire); /* nanoseconds in send, take and drain */
};
GY_INT const struct gy_wire_calls *gy_wire_calls(void);

/* Of a job that ends: what a failure left under way. The job's messages are over. */
GY_INT void gy_wire_free_left(struct gyre_job *job);

#endif
