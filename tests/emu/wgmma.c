/* SPDX-License-Identifier: MIT */
/* wgmma.c: products of a warp group (wgmma): d[64][N] += a[64][16] b[16][N] with both operands in
 * shared memory, described by 64 bits. They run by themselves. Operands are read at issue or at the
 * wait, at random; d holds NaNs until the wait for its group.
 *
 * Where an element lies, before the swizzle (T = 8 elements of 16 bits are 16 bytes; swizzle s, a
 * row is 16 << s bytes):
 *   k innermost      (m / 8) * SBO + (m % 8) * row + k * 2;
 *                    no swizzle: (m / 8) * SBO + (k / 8) * LBO + (m % 8) * 16 + k % 8 * 2
 *   m innermost      m % (8 << s) * 2 + m / (8 << s) * LBO + (k % 8) * row + (k / 8) * SBO;
 *                    no swizzle: SBO and LBO exchanged
 * The swizzle then exchanges pieces of 16 bytes by the bits of the whole address, as a bulk copy
 * does. */
#include "tests/emu/emu.h"

#define WGMMA_GROUPS (EMU_THREADS_MOST / 128)

struct wgmma_one {
    struct gy_emu_wgmma in;
    int group, fetched, sum; /* sum: which accumulator */
    const char *site;
    float a[64][16], b[16][256];
};
/* Accumulators under way: what they will hold, lane by lane. */
struct wgmma_sum {
    float *d[128];
    float value[128][128];
    int columns, uses;
};
#define WGMMA_SUMS 8
struct wgmma_unit {
    struct wgmma_one *queue;
    int count, room, group, fenced;
    struct wgmma_sum sum[WGMMA_SUMS];
    float *last_d[128];
    float last[128][128]; /* what the last wait gave back: touched since? */
    int last_columns;
};
static struct wgmma_unit *wgmma_units; /* [WGMMA_GROUPS] */

static struct wgmma_unit *wgmma_unit_of(const struct emu_thread *lane)
{
    return &wgmma_units[lane->tid / 128];
}

void emu_wgmma_block(void)
{
    for (int i = 0; wgmma_units && i < WGMMA_GROUPS; i++) {
        struct wgmma_unit *u = &wgmma_units[i];
        u->count = u->group = u->fenced = u->last_columns = 0;
        for (int j = 0; j < WGMMA_SUMS; j++)
            u->sum[j].uses = 0;
    }
}

/* ---- operands ---- */

struct wgmma_tile {
    size_t start, lbo, sbo;
    int swizzle, turn;
};

static struct wgmma_tile wgmma_tile_of(unsigned long long bits, int turn)
{
    static const int swizzle[4] = {0, 3, 2, 1};
    const struct wgmma_tile t = {(size_t)(bits & 0x3fff) << 4, (size_t)(bits >> 16 & 0x3fff) << 4, (size_t)(bits >> 32 & 0x3fff) << 4,
                                 swizzle[bits >> 62], turn};
    return t;
}

static size_t wgmma_offset(const struct wgmma_tile *t, size_t m, size_t k)
{
    const size_t row = (size_t)16 << t->swizzle, wide = (size_t)8 << t->swizzle;
    if (!t->turn && !t->swizzle)
        return m / 8 * t->sbo + k / 8 * t->lbo + m % 8 * 16 + k % 8 * 2;
    if (!t->turn)
        return m / 8 * t->sbo + m % 8 * row + k * 2;
    return m % wide * 2 + m / wide * (t->swizzle ? t->lbo : t->sbo) + k % 8 * row + k / 8 * (t->swizzle ? t->sbo : t->lbo);
}

/* Reads one operand, 8 neighbours (16 bytes) at a time. out NULL: only checks that it may be
 * read. */
static void wgmma_fetch(const struct wgmma_one *one, const struct wgmma_tile *t, int rows, const char *what, float *out, int row_step,
                        int k_step)
{
    const unsigned char *shared = emu_block()->shared;
    const int outer = t->turn ? 16 : rows, inner = t->turn ? rows : 16;
    for (int i = 0; i < outer; i++)
        for (int j = 0; j < inner; j += 8) {
            const int m = t->turn ? j : i, k = t->turn ? i : j;
            const unsigned char *p = shared + emu_swizzled(t->start + wgmma_offset(t, (size_t)m, (size_t)k), t->swizzle);
            emu_check_async(p, 16, what, one->site);
            for (int e = 0; e < 8 && out; e++) {
                uint16_t half;
                memcpy(&half, p + 2 * e, 2);
                out[(m + (t->turn ? e : 0)) * row_step + (k + (t->turn ? 0 : e)) * k_step] =
                    one->in.f16 ? emu_f16(half) : emu_bf16(half);
            }
        }
}

static void wgmma_read(struct wgmma_one *one, int only_check)
{
    const struct wgmma_tile a = wgmma_tile_of(one->in.a, one->in.turn_a), b = wgmma_tile_of(one->in.b, one->in.turn_b);
    wgmma_fetch(one, &a, 64, "wgmma's a reads", only_check ? NULL : &one->a[0][0], 16, 1);
    wgmma_fetch(one, &b, one->in.columns, "wgmma's b reads", only_check ? NULL : &one->b[0][0], 1, 256);
}

/* ---- accumulators ---- */

static void wgmma_check_touched(struct wgmma_unit *u, struct emu_thread *lane, const struct gy_emu_wgmma *in)
{
    int touched = u->last_columns != in->columns;
    for (int i = 0; i < 128 && !touched; i++) {
        const float *d = ((const struct gy_emu_wgmma *)lane[i].in)->d;
        touched = d != u->last_d[i] || memcmp(d, u->last[i], (size_t)in->columns / 2 * sizeof *d) != 0;
    }
    if (touched && !u->fenced)
        emu_fail(lane->site, NULL, "wgmma without gy_wgmma_fence before: it is the first one, or d was touched");
}

static int wgmma_sum_of(struct wgmma_unit *u, struct emu_thread *lane, const struct gy_emu_wgmma *in)
{
    int spare = -1;
    for (int i = 0; i < WGMMA_SUMS; i++) {
        if (u->sum[i].uses > 0 && u->sum[i].d[0] == in->d && u->sum[i].columns == in->columns)
            return i;
        spare = u->sum[i].uses == 0 ? i : spare;
    }
    if (spare < 0)
        emu_fail(lane->site, NULL, "the emulator follows %d accumulators under way", WGMMA_SUMS);
    wgmma_check_touched(u, lane, in);
    struct wgmma_sum *s = &u->sum[spare];
    s->columns = in->columns;
    for (int i = 0; i < 128; i++) {
        s->d[i] = ((const struct gy_emu_wgmma *)lane[i].in)->d;
        memcpy(s->value[i], s->d[i], (size_t)in->columns / 2 * sizeof(float));
        memset(s->d[i], 0xff, (size_t)in->columns / 2 * sizeof(float));
    }
    return spare;
}

static void wgmma_issue(struct emu_thread *lane)
{
    struct wgmma_unit *u = wgmma_unit_of(lane);
    const struct gy_emu_wgmma *in = lane->in;
    for (int i = 1; i < 128; i++) {
        const struct gy_emu_wgmma *other = lane[i].in;
        if (other->a != in->a || other->b != in->b || other->add != in->add)
            emu_fail(lane[i].site, NULL, "the threads of a warp group name different operands");
    }
    if (u->count == u->room) {
        const int room = u->room ? 2 * u->room : 16;
        struct wgmma_one *queue = realloc(u->queue, (size_t)room * sizeof *queue);
        if (!queue)
            emu_fail(lane->site, NULL, "the emulator has no memory");
        u->queue = queue;
        u->room = room;
    }
    struct wgmma_one *one = &u->queue[u->count];
    one->in = *in;
    one->group = u->group;
    one->site = lane->site;
    one->sum = wgmma_sum_of(u, lane, in);
    one->fetched = emu_random(2) == 0;
    u->sum[one->sum].uses++;
    const int agent = EMU_AGENT_GROUP + lane->tid / 128;
    for (int i = 0; i < 128; i++)
        emu_clock_pass(lane[i].tid, agent, 1);
    emu_block()->acting = agent;
    wgmma_read(one, 0);
    u->count++;
    emu_counts[in->f16 ? EMU_COUNT_WGMMA_F16 : EMU_COUNT_WGMMA_BF16]++;
    emu_counts[EMU_COUNT_WGMMA_TURNED] += in->turn_a || in->turn_b;
}

static void wgmma_multiply(const struct wgmma_one *one, struct wgmma_sum *s)
{
    for (int t = 0; t < 128; t++)
        for (int i = 0; i < s->columns / 2; i++) {
            const int row = 16 * (t / 32) + t % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
            float sum = 0.0f;
            for (int k = 0; k < 16; k++)
                sum += one->a[row][k] * one->b[k][column];
            s->value[t][i] = (one->in.add ? s->value[t][i] : 0.0f) + sum;
        }
}

static void wgmma_give_back(struct wgmma_unit *u, const struct wgmma_sum *s)
{
    u->last_columns = s->columns;
    for (int t = 0; t < 128; t++) {
        memcpy(s->d[t], s->value[t], (size_t)s->columns / 2 * sizeof(float));
        memcpy(u->last[t], s->value[t], (size_t)s->columns / 2 * sizeof(float));
        u->last_d[t] = s->d[t];
    }
    u->fenced = 0;
}

static void wgmma_wait(struct emu_thread *lane, int newest)
{
    struct wgmma_unit *u = wgmma_unit_of(lane);
    const int agent = EMU_AGENT_GROUP + lane->tid / 128;
    int done = 0;
    emu_block()->acting = agent;
    for (; done < u->count && u->queue[done].group < u->group - newest; done++) {
        struct wgmma_one *one = &u->queue[done];
        wgmma_read(one, one->fetched); /* until now its operands must have stayed */
        wgmma_multiply(one, &u->sum[one->sum]);
        if (--u->sum[one->sum].uses == 0)
            wgmma_give_back(u, &u->sum[one->sum]);
    }
    u->count -= done;
    memmove(u->queue, u->queue + done, (size_t)u->count * sizeof *u->queue);
    for (int i = 0; i < 128; i++)
        emu_clock_pass(agent, lane[i].tid, 0);
}

void emu_wgmma_run(int word, struct emu_thread *lane)
{
    if (!wgmma_units)
        wgmma_units = calloc(WGMMA_GROUPS, sizeof *wgmma_units);
    if (!wgmma_units)
        emu_fail(lane->site, NULL, "the emulator has no memory");
    struct wgmma_unit *u = wgmma_unit_of(lane);
    switch (word) {
    case GY_EMU_WGMMA: wgmma_issue(lane); break;
    case GY_EMU_WGMMA_FENCE: u->fenced = 1; break;
    case GY_EMU_WGMMA_COMMIT: u->group++; break;
    default: wgmma_wait(lane, *(const int *)lane->in);
    }
}
