/* SPDX-License-Identifier: MIT */
/* Rows as a device wants them, for glm_device_pass.c: one piece of memory, labels already what the
 * loss calls y, weights what it calls c. Where each piece's rows and entries go is known before any
 * is copied, so the pool's threads copy them side by side. */
#include "engine/glm/solve/glm_device_window.h"
#include "kernels/glm_window.h"
#include "engine/base/rng.h"

enum { GLW_ALIGN = 16 };

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
    return count ? (uint64_t)gy_rows_end(rows, from + count - 1) - gy_rows_begin(rows, from) : 0;
}

/* Lays out a window of n rows of this form. Fills the record except longs; that list has room for
 * the largest number. */
static struct gy_glm_packed glw_lay_out(const struct gy_glm_pack *how, const struct gy_rows *form, uint64_t n, uint64_t entries, struct gy_glm_window *head)
{
    struct glw_place p = { gy_align_up(sizeof *head, GLW_ALIGN) };
    *head = (struct gy_glm_window){ .rows = (int32_t)n, .width = form->start ? 0 : form->width, .same = form->same, .features = how->features };
    head->start = form->start ? glw_words(&p, n + 1) : 0;
    head->id = glw_words(&p, entries);
    head->value = form->value ? glw_words(&p, entries) : 0;
    head->y = glw_words(&p, n);
    head->c = glw_words(&p, n);
    head->scale = form->scale ? glw_words(&p, n) : 0;
    head->long_rows = entries > GY_GLM_LONG ? glw_words(&p, entries / GY_GLM_LONG) : 0;
    struct gy_glm_packed out = { .rows = (int32_t)n };
    out.dual = how->dual ? glw_words(&p, n) : 0;
    out.bytes = p.at;
    return out;
}

GY_INT size_t gy_glm_pack_most(int64_t rows, int64_t entries)
{
    const size_t head = gy_align_up(sizeof(struct gy_glm_window), GLW_ALIGN) + 8 * GLW_ALIGN + 4;
    return head + (size_t)rows * 20 + (size_t)entries * 8 + (size_t)entries / GY_GLM_LONG * 4;
}

GY_INT int gy_glm_pack_fits(const struct gy_glm_pack *how, const struct gy_rows *form, int64_t rows, int64_t entries)
{
    struct gy_glm_window head;
    return rows <= how->most_rows && entries <= UINT32_MAX &&
           glw_lay_out(how, form, (uint64_t)rows, (uint64_t)entries, &head).bytes <= how->room;
}

GY_INT int32_t gy_glm_pack_count(const struct gy_glm_pack *how, const struct gy_rows *rows, int32_t from)
{
    int32_t lo = 0, hi = rows->count - from;
    while (lo < hi) {
        const int32_t middle = lo + (hi - lo + 1) / 2;
        if (gy_glm_pack_fits(how, rows, middle, (int64_t)glw_entries(rows, from, middle)))
            lo = middle;
        else
            hi = middle - 1;
    }
    return lo;
}

/* ---- copies ---- */

struct glw_job {
    const struct gy_glm_pack *how;
    struct gy_glm_piece *piece;
    const struct gy_glm_window *head;
    const struct gy_glm_packed *out;
    unsigned char *at;
};

static void *glw_at(const struct glw_job *job, uint64_t place) { return job->at + place; }

/* One piece, to its place. */
static void glw_tile(void *arg, int64_t tile, int thread)
{
    const struct glw_job *job = arg;
    const struct gy_glm_piece *p = &job->piece[tile];
    const struct gy_rows *rows = p->rows;
    const uint32_t begin = gy_rows_begin(rows, p->from);
    const size_t bytes = (size_t)glw_entries(rows, p->from, p->count) * 4;
    float *const y = glw_at(job, job->head->y), *const c = glw_at(job, job->head->c), *const scale = glw_at(job, job->head->scale);
    uint32_t *const start = glw_at(job, job->head->start);
    (void)thread;
    memcpy((uint32_t *)glw_at(job, job->head->id) + p->entry, rows->id + begin, bytes);
    if (job->head->value)
        memcpy((float *)glw_at(job, job->head->value) + p->entry, rows->value + begin, bytes);
    for (int32_t i = 0; i < p->count; i++) {
        y[p->row + i] = gy_glm_y(job->how->problem, rows, p->from + i);
        c[p->row + i] = gy_glm_c(job->how->problem, rows, p->from + i, y[p->row + i]);
    }
    if (job->head->scale)
        memcpy(scale + p->row, rows->scale + p->from, (size_t)p->count * sizeof *scale);
    for (int32_t i = 0; i < p->count && job->head->start; i++)
        start[p->row + i] = p->entry + gy_rows_begin(rows, p->from + i) - begin;
    if (job->out->dual)
        memcpy((float *)glw_at(job, job->out->dual) + p->row, job->how->dual + p->first, (size_t)p->count * sizeof(float));
}

/* Lists the long rows; returns how many. */
static int32_t glw_longs(const struct glw_job *job)
{
    int32_t *const list = glw_at(job, job->head->long_rows), longs = 0;
    const uint32_t *const start = glw_at(job, job->head->start);
    for (int32_t i = 0; i < job->head->rows && job->head->long_rows; i++)
        if ((job->head->start ? start[i + 1] - start[i] : (uint32_t)job->head->width) > GY_GLM_LONG)
            list[longs++] = i;
    return longs;
}

GY_INT struct gy_glm_packed gy_glm_pack(const struct gy_glm_pack *how, struct gy_glm_piece *piece, int pieces, unsigned char *at)
{
    struct gy_glm_window head;
    uint64_t rows = 0, entries = 0;
    for (int k = 0; k < pieces; k++) {
        piece[k].row = (int32_t)rows;
        piece[k].entry = (uint32_t)entries;
        rows += (uint64_t)piece[k].count;
        entries += glw_entries(piece[k].rows, piece[k].from, piece[k].count);
    }
    struct gy_glm_packed out = glw_lay_out(how, piece[0].rows, rows, entries, &head);
    struct glw_job job = { how, piece, &head, &out, at };
    if (how->pool)
        gy_pool_run(how->pool, glw_tile, &job, pieces);
    for (int k = 0; k < pieces && !how->pool; k++)
        glw_tile(&job, k, 0);
    if (head.start) {
        const uint32_t last = (uint32_t)entries;
        memcpy(at + head.start + 4 * rows, &last, sizeof last);
    }
    head.longs = out.longs = glw_longs(&job);
    memcpy(at, &head, sizeof head);
    return out;
}

GY_INT void gy_glm_unpack_duals(const struct gy_glm_piece *piece, int pieces, const struct gy_glm_packed *in, const unsigned char *at, float *dual)
{
    for (int k = 0; k < pieces; k++)
        memcpy(dual + piece[k].first, at + in->dual + 4 * (size_t)piece[k].row, (size_t)piece[k].count * sizeof *dual);
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
