/* SPDX-License-Identifier: MIT */
/* order.h: order between streams on a GPU, whatever ran first here. */
#ifndef GY_EMU_ORDER_H
#define GY_EMU_ORDER_H
#include "tests/emu/emu.h"

#define EMU_STREAMS 16

/* What has happened before something for a stream, an event or the host: of each stream, the work
 * up to this number. */
struct emu_seen {
    uint32_t upto[EMU_STREAMS];
};
struct emu_stream {
    int number;
    struct emu_seen seen;
};

struct emu_stream *emu_stream_of(void *stream);        /* api_runtime.c: of a handle, NULL too */
int emu_order_stream(struct emu_stream *s); /* those beyond EMU_STREAMS count as one */
void emu_order_stream_end(const struct emu_stream *s);
void emu_order_join(struct emu_seen *to, const struct emu_seen *from);
/* The next work of a stream is issued. kernel: a launch follows at once. */
void emu_order_issue(struct emu_stream *s, int kernel);
/* The host has waited for this. 0, or an error whose sentence is set. */
int emu_order_host(const struct emu_seen *seen);
int emu_order_host_all(void);
void emu_order_forget(void);

/* A copy or fill that was issued and is about to be made: 0, or an error whose sentence is set. */
int emu_order_check(const struct emu_copy *c);
/* It has been made: the same. Memory of the host that it reads must stay as it is, and what it
 * writes there is rubbish, until the host has waited. */
int emu_order_copy(const struct emu_copy *c);
/* Memory of the process that is pinned from now on, or no more. 0, or an error. */
int emu_order_register(const void *p, size_t bytes, int on);
int emu_order_registered(const void *p, size_t bytes);
/* check.c: a kernel that may run at the same time uses (or, for a read, writes) this memory. */
int emu_check_copy(const struct emu_range *r, const void *p, size_t bytes, int write);

/* Of the work issued last: the first epoch of any kernel that may run at the same time; UINT32_MAX:
 * none. */
extern __attribute__((visibility("hidden"))) uint32_t emu_order_from;
int emu_order_apart(uint32_t epoch); /* the kernel of this epoch may run at the same time */
/* copies that may run at the same time */
extern __attribute__((visibility("hidden"))) int emu_order_rivals;
int emu_order_rival(const void *p, size_t bytes, int write); /* one of them touches this */

#endif
