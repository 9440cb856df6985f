/* SPDX-License-Identifier: MIT */
/* order.c: streams. Here all work happens at once, in the order of the calls. On a GPU work of two
 * streams happens in any order unless an event or the host orders it. So every piece of work has a
 * number in its stream. Streams, events and the host know up to which number of each stream work
 * has happened before them. Memory that a kernel touched is known by the epoch in its cells
 * (check.c), memory of a copy by a list. Two accesses of which one writes, neither of them before
 * the other, are a race.
 *
 * The host has its part. Pinned memory from which a copy reads must not change before the host has
 * waited for the copy. What a copy brings to pinned memory is not there before. Work inside a
 * captured program counts as one stream. */
#include "tests/emu/order.h"

#define ORDER_KERNELS 4096 /* the newest; older ones count as done */
#define ORDER_COPIES 256

struct order_kernel {
    uint32_t epoch, time; /* first epoch of the launch; its number in the stream */
    int stream;
};
struct order_copy {
    const unsigned char *p;
    size_t bytes;
    uint32_t time;
    int stream, write, host; /* host: pinned memory */
    uint64_t sum;            /* of what was read there */
    unsigned char *late;     /* what will be written there */
};

static struct order_kernel order_kernels[ORDER_KERNELS];
static uint64_t order_kernel_count;
static struct order_copy order_copies[ORDER_COPIES];
static int order_copy_count;
static uint32_t order_time[EMU_STREAMS], order_last_kernel[EMU_STREAMS];
static int order_used[EMU_STREAMS] = {1}; /* the first is stream NULL */
static struct emu_seen order_host_seen;
static const struct emu_stream *order_now;
uint32_t emu_order_from = UINT32_MAX;
int emu_order_rivals;

int emu_order_stream(struct emu_stream *s)
{
    int n = 0;
    while (n < EMU_STREAMS - 1 && order_used[n])
        n++;
    order_used[n]++;
    memset(s, 0, sizeof *s);
    s->number = n;
    s->seen.upto[n] = order_time[n];
    return 0;
}

void emu_order_stream_end(const struct emu_stream *s)
{
    order_used[s->number]--;
    order_now = order_now == s ? NULL : order_now;
}

void emu_order_join(struct emu_seen *to, const struct emu_seen *from)
{
    for (int i = 0; i < EMU_STREAMS; i++)
        if (to->upto[i] < from->upto[i])
            to->upto[i] = from->upto[i];
}

/* The work with this number has happened before the work that was issued last. */
static int order_before(int stream, uint32_t time) { return !order_now || order_now->seen.upto[stream] >= time; }

static const struct order_kernel *order_kernel_at(uint64_t i) { return &order_kernels[i % ORDER_KERNELS]; }

static uint64_t order_oldest(void) { return order_kernel_count > ORDER_KERNELS ? order_kernel_count - ORDER_KERNELS : 0; }

static void order_find_kernels(void)
{
    int some = 0;
    emu_order_from = UINT32_MAX;
    for (int i = 0; i < EMU_STREAMS; i++)
        some |= !order_before(i, order_last_kernel[i]);
    for (uint64_t i = order_oldest(); some && i < order_kernel_count && emu_order_from == UINT32_MAX; i++)
        if (!order_before(order_kernel_at(i)->stream, order_kernel_at(i)->time))
            emu_order_from = order_kernel_at(i)->epoch;
}

static int order_is_rival(const struct order_copy *c) { return !c->host && !order_before(c->stream, c->time); }

void emu_order_issue(struct emu_stream *s, int kernel)
{
    emu_order_join(&s->seen, &order_host_seen);
    s->seen.upto[s->number] = ++order_time[s->number];
    order_now = s;
    order_find_kernels();
    emu_order_rivals = 0;
    for (int i = 0; i < order_copy_count; i++)
        emu_order_rivals += order_is_rival(&order_copies[i]);
    if (!kernel)
        return;
    const uint32_t epoch = (emu_block() ? emu_block()->epoch : 0) + 1; /* the launch's */
    order_kernels[order_kernel_count++ % ORDER_KERNELS] = (struct order_kernel){epoch, order_time[s->number], s->number};
    order_last_kernel[s->number] = order_time[s->number];
}

int emu_order_apart(uint32_t epoch)
{
    /* the last one that begins at or before epoch */
    uint64_t lo = order_oldest(), hi = order_kernel_count;
    if (lo == hi || order_kernel_at(lo)->epoch > epoch)
        return 0;
    while (hi - lo > 1) {
        const uint64_t mid = (lo + hi) / 2;
        if (order_kernel_at(mid)->epoch <= epoch)
            lo = mid;
        else
            hi = mid;
    }
    return !order_before(order_kernel_at(lo)->stream, order_kernel_at(lo)->time);
}

static int order_meet(const struct order_copy *c, const unsigned char *p, size_t bytes, int write)
{
    return (c->write || write) && p < c->p + c->bytes && c->p < p + bytes;
}

int emu_order_rival(const void *p, size_t bytes, int write)
{
    for (int i = 0; i < order_copy_count; i++)
        if (order_is_rival(&order_copies[i]) && order_meet(&order_copies[i], p, bytes, write))
            return 1;
    return 0;
}

/* ---- copies ---- */

static uint64_t order_sum(const unsigned char *p, size_t bytes)
{
    uint64_t sum = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ p[i]) * 1099511628211u;
    return sum;
}

/* The host has waited for this copy, or nobody remembers it any longer. */
static int order_finish(const struct order_copy *c)
{
    int error = EMU_OK;
    if (c->late)
        memcpy((unsigned char *)(uintptr_t)c->p, c->late, c->bytes);
    else if (c->host && order_sum(c->p, c->bytes) != c->sum)
        error = emu_refuse(EMU_LAUNCH_FAILED, "race: the host has written to %zu bytes of pinned memory at %p while a copy read them: %s",
                           c->bytes, (const void *)c->p, "nobody waited for the copy");
    free(c->late);
    return error;
}

static int order_remove(int i)
{
    const int error = order_finish(&order_copies[i]);
    memmove(&order_copies[i], &order_copies[i + 1], (size_t)(--order_copy_count - i) * sizeof *order_copies);
    return error;
}

int emu_order_host(const struct emu_seen *seen)
{
    int error = EMU_OK;
    emu_order_join(&order_host_seen, seen);
    for (int i = 0; i < order_copy_count;) {
        const int done = order_copies[i].time <= order_host_seen.upto[order_copies[i].stream];
        const int wrong = done ? order_remove(i) : EMU_OK;
        error = error ? error : wrong;
        i += !done;
    }
    return error;
}

int emu_order_host_all(void)
{
    struct emu_seen all;
    memcpy(all.upto, order_time, sizeof all.upto);
    return emu_order_host(&all);
}

void emu_order_forget(void)
{
    emu_order_host_all();
    emu_sentence_clear();
}

struct order_piece {
    const unsigned char *p;
    size_t bytes;
};
static struct order_piece order_pieces[16]; /* registered */

int emu_order_register(const void *p, size_t bytes, int on)
{
    for (size_t i = 0; i < sizeof order_pieces / sizeof *order_pieces; i++)
        if (order_pieces[i].p == (on ? NULL : p)) {
            order_pieces[i] = on ? (struct order_piece){p, bytes} : (struct order_piece){NULL, 0};
            return EMU_OK;
        }
    return EMU_INVALID_VALUE;
}

int emu_order_registered(const void *p, size_t bytes)
{
    const unsigned char *at = p;
    for (size_t i = 0; i < sizeof order_pieces / sizeof *order_pieces; i++)
        if (order_pieces[i].p && at >= order_pieces[i].p && at + bytes <= order_pieces[i].p + order_pieces[i].bytes)
            return 1;
    return 0;
}

/* Memory of the host that a copy reaches by itself: pinned or registered. A call is done with
 * pageable memory when it returns. */
static int order_is_host(const struct emu_range *r, int inside, const void *p, size_t bytes)
{
    return r && inside ? r->pinned : emu_order_registered(p, bytes);
}

/* Checks earlier copies of this memory of the host. Those that happen before it are over; others
 * race. */
static int order_check_host(const unsigned char *p, size_t bytes, int write)
{
    for (int i = 0; i < order_copy_count;) {
        const struct order_copy *c = &order_copies[i];
        if (!c->host || !order_meet(c, p, bytes, write)) {
            i++;
            continue;
        }
        if (!order_before(c->stream, c->time))
            return emu_refuse(EMU_LAUNCH_FAILED, "race: a copy of %zu bytes %s pinned memory that a copy on another stream %s, with no event between",
                              bytes, write ? "writes" : "reads", c->write ? "writes" : "reads");
        const int error = order_remove(i);
        if (error)
            return error;
    }
    return EMU_OK;
}

/* One side of a copy. */
static int order_check(const unsigned char *p, size_t bytes, int write)
{
    int inside;
    const struct emu_range *r = emu_memory_find(p, bytes, &inside);
    if (order_is_host(r, inside, p, bytes))
        return order_check_host(p, bytes, write);
    if (!r || !inside)
        return EMU_OK;
    if (emu_order_rivals && emu_order_rival(p, bytes, write))
        return emu_refuse(EMU_LAUNCH_FAILED, "race: a copy of %zu bytes %s memory that a copy on another stream %s, with no event between", bytes,
                          write ? "writes" : "reads", write ? "uses" : "writes");
    if (emu_order_from != UINT32_MAX && emu_check_copy(r, p, bytes, write))
        return emu_refuse(EMU_LAUNCH_FAILED, "race: a copy of %zu bytes %s memory that a kernel on another stream %s, with no event between",
                          bytes, write ? "writes" : "reads", write ? "uses" : "writes");
    return EMU_OK;
}

static int order_note(const unsigned char *p, size_t bytes, int write)
{
    int inside;
    const struct emu_range *r = emu_memory_find(p, bytes, &inside);
    const int host = order_is_host(r, inside, p, bytes);
    if (!host && (!r || !inside))
        return EMU_OK;
    if (order_copy_count == ORDER_COPIES) {
        const int error = order_remove(0);
        if (error)
            return error;
    }
    struct order_copy *c = &order_copies[order_copy_count++];
    *c = (struct order_copy){p, bytes, order_now->seen.upto[order_now->number], order_now->number, write, host, 0, NULL};
    if (host && !write)
        c->sum = order_sum(p, bytes);
    else if (host && (c->late = malloc(bytes))) {
        memcpy(c->late, p, bytes);
        memset((unsigned char *)(uintptr_t)p, 0xff, bytes); /* NaNs until then */
    }
    return EMU_OK;
}

int emu_order_check(const struct emu_copy *c)
{
    const int error = order_check(c->dst, c->bytes, 1);
    return error || !c->src ? error : order_check(c->src, c->bytes, 0);
}

int emu_order_copy(const struct emu_copy *c)
{
    const int error = order_note(c->dst, c->bytes, 1);
    return error || !c->src ? error : order_note(c->src, c->bytes, 0);
}
