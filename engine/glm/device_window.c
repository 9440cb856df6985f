/* SPDX-License-Identifier: MIT */
/* Rows as a device wants them: one piece of memory, labels already what the loss calls y, weights what it calls c. The arrays are copied by
 * the pool's threads; how many rows a window takes is found by halving, since its size rises with each. */
#include "device.h"
#include "../../kernels/glm_window.h"
#include "../base/rng.h"

enum { GLW_ALIGN = 16, GLW_TILE = 1 << 20 };

/* ---- sizes ---- */

struct glw_place {
    size_t at;
};

/* `count` words behind what is there; where they begin. */
static uint64_t glw_words(struct glw_place *p, uint64_t count)
{
    const size_t at = p->at;
    p->at += gy_align_up((size_t)count * 4, GLW_ALIGN);
    return at;
}

static uint64_t glw_entries(const struct gy_rows *rows, int32_t from, int32_t count)
{
    return (uint64_t)gy_rows_end(rows, from + count - 1) - gy_rows_begin(rows, from);
}

/* Fills the record but for longs; the list of these has room for as many as there can be. */
static struct gy_glm_packed glw_lay_out(const struct gy_glm_pack *how, const struct gy_rows *rows, int32_t from, int32_t count,
                                         struct gy_glm_window *head)
{
    const uint64_t n = (uint64_t)count, entries = glw_entries(rows, from, count);
    struct glw_place p = { gy_align_up(sizeof *head, GLW_ALIGN) };
    *head = (struct gy_glm_window){ .rows = count, .width = rows->start ? 0 : rows->width, .same = rows->same, .features = how->features };
    head->start = rows->start ? glw_words(&p, n + 1) : 0;
    head->id = glw_words(&p, entries);
    head->value = rows->value ? glw_words(&p, entries) : 0;
    head->y = glw_words(&p, n);
    head->c = glw_words(&p, n);
    head->scale = rows->scale ? glw_words(&p, n) : 0;
    head->long_rows = entries > GY_GLM_LONG ? glw_words(&p, entries / GY_GLM_LONG) : 0;
    struct gy_glm_packed out = { .rows = count };
    out.dual = how->duals ? glw_words(&p, n) : 0;
    out.bytes = p.at;
    return out;
}

GY_INT size_t gy_glm_pack_most(int64_t rows, int64_t entries)
{
    const size_t head = gy_align_up(sizeof(struct gy_glm_window), GLW_ALIGN) + 8 * GLW_ALIGN + 4;
    return head + (size_t)rows * 20 + (size_t)entries * 8 + (size_t)entries / GY_GLM_LONG * 4;
}

/* Most rows from `from` on that have room. */
static int32_t glw_count(const struct gy_glm_pack *how, const struct gy_rows *rows, int32_t from)
{
    struct gy_glm_window head;
    int32_t lo = 0, hi = (int32_t)gy_min64(rows->count - from, how->most_rows);
    while (lo < hi) {
        const int32_t middle = lo + (hi - lo + 1) / 2;
        if (glw_lay_out(how, rows, from, middle, &head).bytes <= how->room)
            lo = middle;
        else
            hi = middle - 1;
    }
    return lo;
}

/* ---- copies ---- */

struct glw_copy {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
};

static void glw_copy_tile(void *job, int64_t tile, int thread)
{
    const struct glw_copy *c = job;
    const size_t at = (size_t)tile * GLW_TILE, left = c->bytes - at;
    (void)thread;
    memcpy(c->to + at, c->from + at, left < GLW_TILE ? left : GLW_TILE);
}

static void glw_bytes(struct gy_pool *pool, void *to, const void *from, size_t bytes)
{
    struct glw_copy c = { to, from, bytes };
    if (!pool || bytes < 2 * GLW_TILE)
        memcpy(to, from, bytes);
    else
        gy_pool_run(pool, glw_copy_tile, &c, gy_ceil_div((int64_t)bytes, GLW_TILE));
}

static void *glw_at(unsigned char *at, uint64_t place) { return at + place; }

/* What stands beside the entries; returns the number of long rows. */
static int32_t glw_rows(const struct gy_glm_pack *how, const struct gy_rows *rows, int32_t from, const struct gy_glm_window *head,
                         unsigned char *at)
{
    float *const y = glw_at(at, head->y), *const c = glw_at(at, head->c), *const scale = glw_at(at, head->scale);
    uint32_t *const start = glw_at(at, head->start);
    int32_t *const list = glw_at(at, head->long_rows), longs = 0;
    const uint32_t first = gy_rows_begin(rows, from);
    for (int32_t i = 0; i < head->rows; i++) {
        const uint32_t begin = gy_rows_begin(rows, from + i), end = gy_rows_end(rows, from + i);
        y[i] = gy_glm_y(how->problem, rows, from + i);
        c[i] = gy_glm_c(how->problem, rows, from + i, y[i]);
        if (head->scale)
            scale[i] = rows->scale[from + i];
        if (head->start)
            start[i] = begin - first, start[i + 1] = end - first;
        if (end - begin > GY_GLM_LONG)
            list[longs++] = i;
    }
    return longs;
}

GY_INT struct gy_glm_packed gy_glm_pack(const struct gy_glm_pack *how, const struct gy_rows *rows, int32_t from, unsigned char *at)
{
    struct gy_glm_window head;
    const int32_t count = glw_count(how, rows, from);
    if (count == 0)
        return (struct gy_glm_packed){ .rows = 0 };
    struct gy_glm_packed out = glw_lay_out(how, rows, from, count, &head);
    const size_t bytes = (size_t)glw_entries(rows, from, count) * 4, first = gy_rows_begin(rows, from);
    glw_bytes(how->pool, glw_at(at, head.id), rows->id + first, bytes);
    if (head.value)
        glw_bytes(how->pool, glw_at(at, head.value), rows->value + first, bytes);
    head.longs = out.longs = glw_rows(how, rows, from, &head, at);
    memcpy(at, &head, sizeof head);
    return out;
}

/* ---- how alike rows are ---- */

static double glw_value(const struct gy_rows *rows, uint32_t j) { return (double)(rows->value ? rows->value[j] : rows->same); }
static double glw_scale(const struct gy_rows *rows, int32_t i) { return rows->scale ? (double)rows->scale[i] : 1; }

/* x_a . x_b; both rise. */
static double glw_product(const struct gy_glm_problem *problem, const struct gy_rows *rows, int32_t a, int32_t b)
{
    uint32_t i = gy_rows_begin(rows, a), j = gy_rows_begin(rows, b);
    const uint32_t i_end = gy_rows_end(rows, a), j_end = gy_rows_end(rows, b);
    double sum = 0;
    while (i < i_end && j < j_end) {
        if (rows->id[i] == rows->id[j])
            sum += glw_value(rows, i) * glw_value(rows, j);
        const uint32_t x = rows->id[i], y = rows->id[j];
        i += x <= y;
        j += y <= x;
    }
    return sum * glw_scale(rows, a) * glw_scale(rows, b) + problem->bias * problem->bias;
}

GY_INT double gy_glm_likeness(const struct gy_glm_problem *problem, const struct gy_rows *rows, uint64_t seed)
{
    double sum = 0;
    int pairs = 0;
    for (uint64_t k = 0; k < 1000 && rows->count > 1; k++) {
        uint32_t word[4];
        gy_rng_words(seed, GY_RNG_ORDER, UINT64_MAX, k, word);
        const int32_t a = (int32_t)(word[0] % (uint32_t)rows->count), b = (int32_t)(word[1] % (uint32_t)rows->count);
        const double size = a == b ? 0 : glw_product(problem, rows, a, a) * glw_product(problem, rows, b, b);
        if (size > 0) {
            sum += fabs(glw_product(problem, rows, a, b)) / sqrt(size);
            pairs++;
        }
    }
    return pairs ? sum / pairs : 0;
}
