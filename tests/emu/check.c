/* SPDX-License-Identifier: MIT */
/* check.c: checks every load and store of a kernel. It must lie on the thread's own stack, in the
 * block's shared memory, or in one live allocation of device memory. A load may also lie among the
 * constants of the compiled file.
 *
 * Races. Time in a block is counted in epochs: one ends when all threads have met at the block's
 * barrier. So accesses of two epochs are ordered. Two of one epoch, by different threads, are not,
 * unless clock.c knows better. Every 4 bytes of shared and of device memory have a cell. It holds
 * the last write and the last read: epoch, thread, which of the 4 bytes. An access that overlaps
 * one of another thread in the same epoch is a race if one of both writes. The count of epochs
 * never starts again, so an epoch also names its block and launch. In device memory an access of
 * another block of the same launch is a race, too, whatever the order in which blocks happened to
 * run.
 *
 * Accesses by gy_load_live and gy_atomic_add are ordered among themselves. Their moments have the
 * thread MOMENT_LIVE, and race with every other access of the same epoch or launch.
 *
 * Shared memory is undefined when a block starts. A bit for each byte says whether it was written,
 * a mark for each word whether an asynchronous copy is on its way. */
#include "tests/emu/order.h"

#include <sys/mman.h>

/* A moment: epoch 32, time 15 (see clock.c), another block 1, many threads 1, mask 4, thread 11
 * bits. Two marks are of reads: another block of this launch has read, too; several threads have
 * read. */
#define MOMENT_TID 0x7ffull
#define MOMENT_LIVE MOMENT_TID
#define MOMENT_MASK_AT 11
#define MOMENT_MASK (0xfull << MOMENT_MASK_AT)
#define MOMENT_MANY (1ull << 15)
#define MOMENT_OTHER (1ull << 16)
#define MOMENT_TIME_AT 17
#define MOMENT_EPOCH_AT 32

struct check_word {
    struct emu_cell cell;
    /* places of the word's last accesses, for the report: check_place */
    uint32_t write_at, read_at;
    unsigned char written;            /* bits of bytes that somebody wrote */
    unsigned char flying;             /* a copy is under way: 1 to here, 2 from here */
    unsigned char stored;             /* written by a thread, not by a bulk copy */
    unsigned char timed;              /* read by many, and check_reads says when */
    short flyer;                      /* whose copy */
};
static struct check_word *check_shared; /* EMU_SHARED_MOST / 4 */
static const unsigned char *check_base; /* of the running kernel's compiled file */

/* When each warp, and each warp group's wgmma, last read a word that many read; 0: it did not. It
 * is kept only while clock.c knows of order within an epoch. */
struct check_readers {
    uint16_t time[EMU_THREADS_MOST / 32 + EMU_AGENT_BAR - EMU_AGENT_GROUP];
};
static struct check_readers *check_reads; /* EMU_SHARED_MOST / 4 */

/* Where an access is made: an instruction of the kernel, or a word of the dialect. */
struct check_at {
    const char *what, *site;
    const void *pc;
    int write;
};

/* The place of an instruction, or of a word's text: its offset in the compiled file; 0: not
 * known. */
#define CHECK_SITE 0x80000000u
static uint32_t check_place(const struct check_at *at)
{
    const void *const p = at->site ? (const void *)at->site : at->pc;
    const size_t offset = (size_t)((const unsigned char *)p - check_base);
    return !p || offset >= CHECK_SITE ? 0 : (uint32_t)offset | (at->site ? CHECK_SITE : 0);
}

int emu_check_block(void)
{
    const struct emu_block *b = emu_block();
    check_base = b->launch->function->module->base;
    const size_t words = (b->launch->shared + 3) / 4;
    if (!check_shared)
        check_shared = calloc(EMU_SHARED_MOST / 4 + 1, sizeof *check_shared);
    if (!check_reads)
        check_reads = calloc(EMU_SHARED_MOST / 4 + 1, sizeof *check_reads);
    if (check_shared)
        memset(check_shared, 0, words * sizeof *check_shared);
    return check_shared && check_reads ? 0 : -1;
}

static uint32_t check_epoch(uint64_t moment) { return (uint32_t)(moment >> MOMENT_EPOCH_AT); }
static int check_tid(uint64_t moment) { return (int)(moment & MOMENT_TID); }
static unsigned check_time(uint64_t moment) { return (unsigned)(moment >> MOMENT_TIME_AT & 0x7fff); }
static int check_is_live(uint64_t moment) { return (moment & MOMENT_TID) == MOMENT_LIVE; }
static int check_slot(int id) { return id < EMU_THREADS_MOST ? id / 32 : id - EMU_AGENT_GROUP + EMU_THREADS_MOST / 32; }

/* Of the acting thread now, for no byte yet */
static uint64_t check_moment(void)
{
    const struct emu_block *b = emu_block();
    return (uint64_t)b->epoch << MOMENT_EPOCH_AT | (uint64_t)emu_clock_now() << MOMENT_TIME_AT | (uint64_t)b->acting;
}

/* Whether what these readers, or all threads at a time, did has happened for the acting thread */
static int check_all_before(const struct check_readers *readers, unsigned time)
{
    const struct emu_block *b = emu_block();
    if (!emu_clock_used)
        return 0;
    for (int id = 0; id < EMU_AGENT_BAR; id++) {
        const unsigned when = readers ? readers->time[check_slot(id)] : id < EMU_THREADS_MOST ? time : 0;
        if (when && (id < b->launch->threads || id >= EMU_AGENT_GROUP) && id != b->acting && !emu_clock_before(id, when, b->acting))
            return 0;
        if (!when && id < EMU_THREADS_MOST)
            id |= 31; /* nobody of this warp */
    }
    return 1;
}

/* Whether the access that left this moment may happen at the same time as one of the acting
 * thread. */
static int check_unordered(uint64_t moment, unsigned mask, const struct check_readers *readers)
{
    const struct emu_block *b = emu_block();
    const uint32_t epoch = check_epoch(moment);
    if (!(moment >> MOMENT_MASK_AT & mask))
        return 0;
    if (epoch < b->launch_epoch)
        return epoch >= emu_order_from && emu_order_apart(epoch);
    if (epoch < b->block_epoch || moment & MOMENT_OTHER)
        return 1; /* another block */
    if (epoch < b->epoch)
        return 0;
    if (check_is_live(moment))
        return 1;
    if (moment & MOMENT_MANY)
        return !check_all_before(readers, check_time(moment));
    return check_tid(moment) != b->acting && !emu_clock_before(check_tid(moment), check_time(moment), b->acting);
}

/* The last read becomes this one, or this one and earlier ones that may happen at the same time.
 * Another thread's read of other bytes of the word is forgotten. If it were kept, neither thread
 * could write the bytes that it alone reads. */
static uint64_t check_merge_read(uint64_t old, uint64_t now, const struct check_readers *readers)
{
    const struct emu_block *b = emu_block();
    const uint32_t epoch = check_epoch(old);
    if (epoch < b->launch_epoch)
        return now;
    if (epoch == b->epoch && old & MOMENT_MANY && !emu_clock_used && (old & now & MOMENT_MASK) == (now & MOMENT_MASK))
        return old;
    if (!(old & now & MOMENT_MASK) && (check_tid(old) != b->acting || epoch < b->block_epoch))
        return now;
    now |= epoch >= b->block_epoch ? old & MOMENT_OTHER : MOMENT_OTHER;
    const int again = check_tid(old) == b->acting && !(old & MOMENT_MANY);
    if (epoch < b->epoch || !(old & MOMENT_MASK) || again || !check_unordered(old & ~MOMENT_OTHER, 15, readers))
        return now | (again && epoch == b->epoch ? old & MOMENT_MASK : 0);
    return now | (old & MOMENT_MASK) | MOMENT_MANY;
}

/* The same for shared memory, with the times of many readers. */
static void check_shared_read(struct check_word *w, size_t word, uint64_t now)
{
    const uint64_t old = w->cell.read;
    struct check_readers *readers = &check_reads[word];
    const uint64_t merged = check_merge_read(old, now, w->timed ? readers : NULL);
    w->cell.read = merged;
    if (!(merged & MOMENT_MANY))
        w->timed = 0;
    else if (emu_clock_used && (w->timed || !(old & MOMENT_MANY))) {
        if (!w->timed) {
            memset(readers, 0, sizeof *readers);
            readers->time[check_slot(check_tid(old))] = (uint16_t)check_time(old);
        }
        readers->time[check_slot(check_tid(now))] = (uint16_t)check_time(now);
        w->timed = 1;
    }
}

/* ---- the sentence of a race ---- */

static void check_race(const struct check_at *at, uint64_t moment, int moment_writes, const char *where, size_t byte, uint32_t their_place)
{
    const struct emu_block *b = emu_block();
    char place[200] = "";
    if (their_place & CHECK_SITE)
        snprintf(place, sizeof place, " at %s", (const char *)check_base + (their_place & ~CHECK_SITE));
    else if (their_place) {
        memcpy(place, " at ", 5);
        emu_report_line(b->launch->function->module, check_base + their_place, place + 4, sizeof place - 4);
    }
    const char *did = moment_writes ? "wrote" : "read";
    if (check_epoch(moment) < b->launch_epoch)
        emu_fail(at->site, at->pc, "race: %s byte %zu of %s, which a kernel on another stream %s, with no event between", at->what, byte, where,
                 did);
    if (check_epoch(moment) < b->block_epoch || (moment & MOMENT_OTHER && !(moment & MOMENT_MANY)))
        emu_fail(at->site, at->pc, "race: %s byte %zu of %s, which another block of this launch %s", at->what, byte, where, did);
    if (moment & MOMENT_MANY)
        emu_fail(at->site, at->pc, "race: %s byte %zu of %s, which other threads %s%s with no barrier between", at->what, byte, where,
                 did, place);
    char who[40];
    if (check_is_live(moment))
        emu_fail(at->site, at->pc, "race: %s byte %zu of %s, %s with no barrier between", at->what, byte, where,
                 moment_writes ? "to which a gy_atomic_add added" : "which a gy_load_live read");
    snprintf(who, sizeof who, check_tid(moment) >= EMU_AGENT_BAR ? "a bulk copy" : check_tid(moment) >= EMU_AGENT_GROUP ? "wgmma" : "thread %d",
             check_tid(moment));
    emu_fail(at->site, at->pc, "race: %s byte %zu of %s, which %s %s%s with no barrier between", at->what, byte, where, who, did, place);
}

/* ---- shared memory ---- */

static const char check_in_shared[] = "shared memory", check_in_device[] = "an allocation";

/* Which bytes of a word [first, end) covers */
static unsigned check_mask(size_t word, size_t first, size_t end)
{
    const size_t lo = first > 4 * word ? first - 4 * word : 0, hi = end < 4 * word + 4 ? end - 4 * word : 4;
    return (15u << lo) & (15u >> (4 - hi));
}

/* Whether the last access was in an earlier epoch of this block, or by the acting thread. Then it
 * is in order. */
static int check_plainly(uint64_t moment)
{
    const struct emu_block *b = emu_block();
    return check_epoch(moment) != b->epoch || (check_tid(moment) == b->acting && !(moment & MOMENT_MANY));
}

static void check_shared_write(struct check_word *w, size_t byte, unsigned mask, uint64_t now, const struct check_at *at)
{
    if (!check_plainly(w->cell.read) && check_unordered(w->cell.read, mask, w->timed ? &check_reads[byte / 4] : NULL))
        check_race(at, w->cell.read, 0, check_in_shared, byte, w->read_at);
    const int again = (now ^ w->cell.write) >> MOMENT_TIME_AT == 0 && !((now ^ w->cell.write) & MOMENT_TID);
    w->cell.write = now | (again ? w->cell.write & MOMENT_MASK : 0);
    w->stored = 1;
    w->write_at = check_place(at);
    w->written |= (unsigned char)mask;
}

static void check_shared_word(struct check_word *w, size_t word, unsigned mask, uint64_t now, const struct check_at *at)
{
    const size_t byte = 4 * word + (size_t)__builtin_ctz(mask);
    if (w->flying == 1 || (w->flying == 2 && at->write))
        emu_fail(at->site, at->pc, "%s byte %zu of shared memory while an asynchronous copy of thread %d is under way there", at->what,
                 byte, w->flyer);
    if (!check_plainly(w->cell.write) && check_unordered(w->cell.write, mask, NULL))
        check_race(at, w->cell.write, 1, check_in_shared, byte, w->write_at);
    now |= (uint64_t)mask << MOMENT_MASK_AT;
    if (at->write) {
        check_shared_write(w, byte, mask, now, at);
        return;
    }
    if ((w->written & mask) != mask)
        emu_fail(at->site, at->pc, "%s byte %zu of shared memory, which nobody wrote", at->what, byte);
    check_shared_read(w, word, now);
    w->read_at = check_place(at);
}

/* Nearly every access: it has a whole word, needs no report, and leaves no mark but itself. Returns
 * 1 if it was one. The rules are those of check_shared_word. */
static inline int check_shared_quick(struct check_word *w, uint64_t now, uint32_t place, int write)
{
    const uint32_t epoch = check_epoch(now);
    const uint64_t read = w->cell.read;
    if (w->flying || !check_plainly(w->cell.write))
        return 0;
    if (write) {
        if (!check_plainly(read))
            return 0;
        w->cell.write = now;
        w->written = 15;
        w->stored = 1;
        w->write_at = place;
        return 1;
    }
    if (w->written != 15)
        return 0;
    if (check_plainly(read)) {
        w->cell.read = now;
        w->timed = 0;
    } else if (check_epoch(read) != epoch || !(read & MOMENT_MANY) || (read & MOMENT_MASK) != MOMENT_MASK || emu_clock_used) {
        return 0;
    }
    w->read_at = place;
    return 1;
}

static void check_shared_bytes(const unsigned char *p, size_t bytes, const struct check_at *at)
{
    const struct emu_block *b = emu_block();
    const unsigned char *end = b->shared + b->launch->shared;
    if (p < b->shared || p > end || (size_t)(end - p) < bytes)
        emu_fail(at->site, at->pc, "%s %zu bytes at byte %td of the shared memory, which has %zu", at->what, bytes, p - b->shared,
                 b->launch->shared);
    if (emu_tsan()) {
        emu_tsan_touch(p, bytes, at->write);
        return;
    }
    const size_t first = (size_t)(p - b->shared);
    const uint64_t now = check_moment();
    const uint32_t place = check_place(at);
    const int whole = (first | bytes) % 4 == 0;
    for (size_t word = first / 4; 4 * word < first + bytes; word++)
        if (!whole || !check_shared_quick(&check_shared[word], now | MOMENT_MASK, place, at->write))
            check_shared_word(&check_shared[word], word, check_mask(word, first, first + bytes), now, at);
}

void emu_check_shared(const void *p, size_t bytes, int write, const char *what, const char *site, const void *pc)
{
    const struct check_at at = {what, site, pc, write};
    check_shared_bytes(p, bytes, &at);
}

void emu_check_flying(const void *p, size_t bytes, int flying)
{
    const struct emu_block *b = emu_block();
    const size_t first = (size_t)((const unsigned char *)p - b->shared);
    for (size_t word = first / 4; 4 * word < first + bytes; word++) {
        check_shared[word].flying = (unsigned char)flying;
        check_shared[word].flyer = (short)b->acting;
    }
}

void emu_check_landed(const void *p, size_t bytes, const char *site)
{
    const struct check_at at = {NULL, site, NULL, 1};
    const size_t first = (size_t)((const unsigned char *)p - emu_block()->shared);
    for (size_t word = first / 4; 4 * word < first + bytes; word++) {
        struct check_word *w = &check_shared[word];
        w->cell.write = check_moment() | MOMENT_MASK;
        w->write_at = check_place(&at);
        w->stored = 0;
        w->written = 15;
    }
}

void emu_check_async(const void *p, size_t bytes, const char *what, const char *site)
{
    emu_check_shared(p, bytes, 0, what, site, NULL);
    const size_t first = (size_t)((const unsigned char *)p - emu_block()->shared);
    for (size_t word = first / 4; 4 * word < first + bytes; word++) {
        const uint64_t m = check_shared[word].cell.write;
        if (check_shared[word].stored && !emu_clock_fenced(check_tid(m), check_epoch(m), check_time(m)))
            emu_fail(site, NULL, "%s byte %zu of shared memory, which thread %d stored without a gy_fence_async behind it", what, 4 * word,
                     check_tid(m));
    }
}

/* ---- device memory ---- */

/* Says what lies near an address that no kernel may use. */
static void check_outside(const unsigned char *p, size_t bytes, const struct check_at *at)
{
    const struct emu_range *dead = emu_memory_dead(p);
    int inside;
    const struct emu_range *near = emu_memory_find(p, bytes, &inside);
    const void *address = p;
    if (dead && (!near || !inside))
        emu_fail(at->site, at->pc, "%s %zu bytes at %p, in an allocation of %zu bytes that was freed", at->what, bytes, address,
                 dead->bytes);
    if (!p || !near)
        emu_fail(at->site, at->pc, "%s %zu bytes at %p, which is no device memory", at->what, bytes, address);
    if (near->pinned && inside)
        emu_fail(at->site, at->pc, "%s %zu bytes at %p, in the host's memory", at->what, bytes, address);
    if (p >= near->base)
        emu_fail(at->site, at->pc, "%s %zu bytes at %p, out of bounds: byte %zu of the nearest allocation, which has %zu", at->what,
                 bytes, address, (size_t)(p - near->base), near->bytes);
    emu_fail(at->site, at->pc, "%s %zu bytes at %p, out of bounds: %zu bytes before the nearest allocation, which has %zu", at->what,
             bytes, address, (size_t)(near->base - p), near->bytes);
}

static void check_global_word(struct emu_cell *cell, size_t word, unsigned mask, uint64_t now, const struct check_at *at)
{
    const size_t byte = 4 * word + (size_t)__builtin_ctz(mask);
    if (check_unordered(cell->write, mask, NULL))
        check_race(at, cell->write, 1, check_in_device, byte, 0);
    now |= (uint64_t)mask << MOMENT_MASK_AT;
    if (!at->write) {
        cell->read = check_merge_read(cell->read, now, NULL);
        return;
    }
    if (check_unordered(cell->read, mask, NULL))
        check_race(at, cell->read, 0, check_in_device, byte, 0);
    cell->write = now;
}

/* The same for device memory. Nobody has used the word in this launch, or may now; or many have
 * read it, and so does this thread. */
static inline int check_global_quick(struct emu_cell *cell, uint64_t now, int write)
{
    const uint32_t begin = emu_block()->launch_epoch, wrote = check_epoch(cell->write), read = check_epoch(cell->read);
    const uint32_t before = begin < emu_order_from ? begin : emu_order_from;
    if (wrote >= before)
        return 0;
    if (read < before) {
        *(write ? &cell->write : &cell->read) = now;
        return 1;
    }
    return !write && read == check_epoch(now) && cell->read & MOMENT_MANY && (cell->read & MOMENT_MASK) == MOMENT_MASK && !emu_clock_used;
}

static void check_global_bytes(const struct emu_range *r, const unsigned char *p, size_t bytes, const struct check_at *at)
{
    const size_t first = (size_t)(p - r->base);
    const uint64_t now = check_moment();
    if (emu_order_rivals && emu_order_rival(p, bytes, at->write))
        emu_fail(at->site, at->pc, "race: %s byte %zu of %s, which a copy on another stream %s, with no event between", at->what, first,
                 check_in_device, at->write ? "uses" : "writes");
    const int whole = (first | bytes) % 4 == 0;
    for (size_t word = first / 4; r->shadow && 4 * word < first + bytes; word++)
        if (!whole || !check_global_quick(&r->shadow[word], now | MOMENT_MASK, at->write))
            check_global_word(&r->shadow[word], word, check_mask(word, first, first + bytes), now, at);
}

int emu_check_copy(const struct emu_range *r, const void *p, size_t bytes, int write)
{
    const size_t first = (size_t)((const unsigned char *)p - r->base);
    for (size_t word = first / 4; r->shadow && 4 * word < first + bytes; word++) {
        const struct emu_cell *cell = &r->shadow[word];
        const uint64_t mask = (uint64_t)check_mask(word, first, first + bytes) << MOMENT_MASK_AT;
        if ((cell->write & mask && check_epoch(cell->write) >= emu_order_from && emu_order_apart(check_epoch(cell->write))) ||
            (write && cell->read & mask && check_epoch(cell->read) >= emu_order_from && emu_order_apart(check_epoch(cell->read))))
            return 1;
    }
    return 0;
}

void emu_check_global(const void *p, size_t bytes, int write, const char *what, const char *site, const void *pc)
{
    const struct check_at at = {what, site, pc, write};
    int inside;
    const struct emu_range *r = emu_memory_find(p, bytes, &inside);
    if (!r || !inside || r->pinned)
        check_outside(p, bytes, &at);
    else
        check_global_bytes(r, p, bytes, &at);
}

/* A word that any thread changes at any time. A thread's other accesses in this epoch stay
 * noted. */
static void check_live_word(struct emu_cell *cell, size_t word, uint64_t now, const struct check_at *at)
{
    uint64_t *const mine = at->write ? &cell->write : &cell->read;
    if (!check_is_live(cell->write) && check_unordered(cell->write, 15, NULL))
        check_race(at, cell->write, 1, check_in_device, 4 * word, 0);
    if (at->write && !check_is_live(cell->read) && check_unordered(cell->read, 15, NULL))
        check_race(at, cell->read, 0, check_in_device, 4 * word, 0);
    if (check_epoch(*mine) < check_epoch(now) || check_is_live(*mine))
        *mine = now | MOMENT_MASK | MOMENT_LIVE;
}

float emu_live(float *p, float v, int add, const char *site, const void *pc)
{
    const struct check_at at = {add ? "adds to" : "loads", site, pc, add};
    int inside;
    const struct emu_range *r = emu_memory_find(p, sizeof *p, &inside);
    if (!r || !inside || r->pinned)
        check_outside((const unsigned char *)p, sizeof *p, &at);
    if ((uintptr_t)p % sizeof *p != 0)
        emu_fail(site, pc, "%s a float at %p, which is not divisible by 4", at.what, (const void *)p);
    if (emu_order_rivals && emu_order_rival(p, sizeof *p, add))
        emu_fail(site, pc, "race: %s a float that a copy on another stream %s, with no event between", at.what, add ? "uses" : "writes");
    if (r->shadow)
        check_live_word(&r->shadow[((const unsigned char *)p - r->base) / 4], (size_t)((const unsigned char *)p - r->base) / 4, check_moment(), &at);
    const float was = *p;
    if (add)
        *p = was + v;
    emu_counts[add ? EMU_COUNT_LIVE_ADD : EMU_COUNT_LIVE_LOAD]++;
    return was;
}

/* ---- the entry ---- */

static void check_stack_of_other(const unsigned char *p, size_t bytes, const struct check_at *at)
{
    const struct emu_block *b = emu_block();
    for (int i = 0; i < b->launch->threads; i++) {
        const unsigned char *stack = b->thread[i].fiber.stack;
        if (p >= stack && p < stack + EMU_STACK_BYTES)
            emu_fail(at->site, at->pc, "%s %zu bytes at %p, a local variable of thread %d", at->what, bytes, (const void *)p, i);
    }
}

void emu_access(const void *p, unsigned long bytes, int write, const void *pc)
{
    const struct emu_block *b = emu_block();
    const unsigned char *const at = p, *const stack = b->now->fiber.stack;
    if ((size_t)(at - stack) < EMU_STACK_BYTES || bytes == 0)
        return;
    const struct check_at where = {write ? "writes" : "reads", NULL, pc, write};
    if (at >= b->shared - 4096 && at < b->shared + b->launch->shared + 4096) {
        check_shared_bytes(at, bytes, &where);
        return;
    }
    int inside;
    const struct emu_range *r = emu_memory_find(p, bytes, &inside);
    if (r && inside && !r->pinned) {
        check_global_bytes(r, at, bytes, &where);
        return;
    }
    const struct emu_module *m = b->launch->function->module;
    if (!write && at >= m->base && at < m->limit)
        return;
    if (at >= (const unsigned char *)&b->launch->args && at < (const unsigned char *)(&b->launch->args + 1))
        return;
    check_stack_of_other(at, bytes, &where);
    check_outside(at, bytes, &where);
}

void emu_aligned(const void *p, unsigned long bytes, const void *pc)
{
    if ((uintptr_t)p % bytes != 0)
        emu_fail(NULL, pc, "%lu bytes at %p, which is not divisible by %lu", bytes, p, bytes);
}
