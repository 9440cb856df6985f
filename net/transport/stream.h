/* SPDX-License-Identifier: MIT */
/* stream.h: the messages between two ranks on one connection, both ways, for tcp.c. A stream exists
 * before its connection: requests wait for it. Nothing blocks, and bytes go straight into the
 * buffer that waits for them. One thread at a time. */
#ifndef GY_NET_STREAM_H
#define GY_NET_STREAM_H
#include "net/transport/code.h"
#include "net/transport/transport.h"

/* What the streams of a transport count together. */
struct gy_net_tally {
    unsigned ended; /* requests that are over */
    unsigned calls; /* of progress; whoever makes them counts */
};

struct gy_net_stream;
/* NULL: no memory. */
GY_INT struct gy_net_stream *gy_net_stream_open(struct gy_net_tally *tally, const struct gy_alloc *alloc);
GY_INT void gy_net_stream_free(struct gy_net_stream *stream);
/* The connection is there; it belongs to the stream. The opened codes of both directions are
 * copied. */
GY_INT void gy_net_stream_begin(struct gy_net_stream *stream, int fd, const struct gy_net_code *out, const struct gy_net_code *in);
/* Ends the connection and all its requests, as GY_NET_LOST. A message that is here already can
 * still be received. A second call does no harm. */
GY_INT void gy_net_stream_end(struct gy_net_stream *stream);
GY_INT int gy_net_stream_has_ended(const struct gy_net_stream *stream);
/* Why the stream has ended, where the bytes that came were not those sent, or more or fewer than a
 * receive waits for; else NULL. */
struct gy_net_stream_fault {
    const char *what; /* "line", whose tag and bytes may be wrong themselves, or "message" */
    uint32_t tag;
    uint64_t bytes, code; /* code: number of the wrong one, from 1 */
    uint64_t waited;      /* the receive's bytes; else as bytes */
};
GY_INT const struct gy_net_stream_fault *gy_net_stream_fault(const struct gy_net_stream *stream);
GY_INT int gy_net_stream_is_pending(const struct gy_net_stream *stream); /* requests wait */
/* GY_E_PEER: it has ended; GY_E_NOMEM. */
GY_INT int gy_net_stream_post(struct gy_net_stream *stream, struct gy_net_request *request);
/* What the system says of the connection since it refused. */
enum gy_net_stream_news { GY_NET_STREAM_IN = 1, GY_NET_STREAM_OUT = 2, GY_NET_STREAM_HUNG = 4 };
GY_INT void gy_net_stream_news(struct gy_net_stream *stream, unsigned news);
/* Writes and reads. Returns 0 when nothing moved. The stream may end in it. */
GY_INT size_t gy_net_stream_move(struct gy_net_stream *stream);
/* Called when nothing moved in a progress call. */
GY_INT void gy_net_stream_rest(struct gy_net_stream *stream, int64_t now);
/* close: nothing more will be sent. is_closed, called until it returns 1: the peer has all bytes,
 * or has ended. Bytes that come meanwhile are dropped. */
GY_INT void gy_net_stream_close(struct gy_net_stream *stream);
GY_INT int gy_net_stream_is_closed(struct gy_net_stream *stream);

#endif
