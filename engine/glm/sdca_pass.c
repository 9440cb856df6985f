/* SPDX-License-Identifier: MIT */
/* One pass. Each view of the feed is a window: its rows are dealt to the threads afresh, in an order that depends on seed, pass and view alone, so that
 * a run that goes on after an interruption takes the same way. Every thread shuffles a range of the window and cuts it into as many parts as there are
 * threads; then each takes its part of every range. Rows are shuffled one by one: buckets of neighbours save nothing where rows and weights are
 * fetched ahead, and cost passes.
 *
 * Threads meet when they have done so much that meeting costs a small part of it: the sooner, the less their changes overlap, and the smaller sigma may
 * be. It follows what is measured at each meeting: |sum of changes|^2 / sum of |change|^2, which is 1 for changes at right angles and
 * fan for equal ones, and sigma at or above it makes the meeting raise the dual objective by at least what the threads saw. */
#include "../base/rng.h"
#include "sdca.h"

#define SDCA_TILE 4096          /* elements of the vector */
#define SDCA_LANES 16
#define SDCA_STEPS 20           /* most of Newton's method */
#define SDCA_MARGIN 1.1         /* sigma over what was measured */

/* ---- random order ---- */

static uint32_t sdca_random(uint64_t *state, uint32_t below)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return (uint32_t)((x >> 32) * below >> 32);
}

static uint64_t sdca_random_open(const struct gy_sdca *s, uint64_t element)
{
    uint32_t words[4];
    gy_rng_words(s->run->seed, GY_RNG_ORDER, (uint64_t)s->pass, element, words);
    return (uint64_t)words[0] << 32 | words[1] | 1;
}

static void sdca_shuffle(uint32_t *list, int32_t count, uint64_t state)
{
    for (int32_t i = count - 1; i > 0; i--) {
        const uint32_t j = sdca_random(&state, (uint32_t)i + 1), keep = list[i];
        list[i] = list[j];
        list[j] = keep;
    }
}

/* ---- a window's rows ---- */

static int32_t sdca_share(int32_t count, int part, int parts) { return (int32_t)((int64_t)count * part / parts); }

static float sdca_norm(const struct gy_sdca *s, int32_t i, uint32_t begin, uint32_t end, float f)
{
    const double bias = s->run->problem->bias;
    float *const kept = s->norm ? s->norm + s->at + i : NULL;
    double sum = 0;
    if (kept && *kept >= 0)
        return *kept;
    for (uint32_t k = begin; s->rows.value && k < end; k++)
        sum += (double)s->rows.value[k] * (double)s->rows.value[k];
    sum = (s->rows.value ? sum : (double)(end - begin)) * (double)f * (double)f + bias * bias;
    if (kept)
        *kept = (float)sum;
    return (float)sum;
}

/* Thread `tile` prepares its range of the window, and shuffles it. */
static void sdca_prepare_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const struct gy_glm_problem *const problem = s->run->problem;
    const struct gy_rows *const rows = &s->rows;
    const int32_t first = sdca_share(rows->count, (int)tile, s->fan), last = sdca_share(rows->count, (int)tile + 1, s->fan);
    const float per_l2 = (float)(1 / problem->l2);
    uint32_t *const deal = s->deal + first;
    int32_t count = 0;
    (void)thread;
    for (int32_t i = first; i < last; i++) {
        struct gy_sparse_row *const row = &s->row[i];
        row->begin = gy_rows_begin(rows, i);
        row->end = gy_rows_end(rows, i);
        row->dual = s->dual[s->at + i];
        row->part = problem->loss == GY_GLM_LOGISTIC ? gy_sparse_sigmoid(row->dual) : 0;
        row->y = gy_glm_y(problem, rows, i);
        row->c = gy_glm_c(problem, rows, i, row->y);
        row->f = (rows->scale ? rows->scale[i] : 1.0f) * (rows->value ? 1.0f : rows->same);
        row->q = per_l2 * sdca_norm(s, i, row->begin, row->end, row->f);
        if (!(row->c > 0))
            continue;
        deal[count++] = (uint32_t)i;
        if (s->fresh)
            s->sums[tile].start += (double)row->c * gy_glm_value(problem->loss, (double)row->y, 0);
    }
    sdca_shuffle(deal, count, sdca_random_open(s, (uint64_t)s->view_number << 16 | (uint64_t)tile));
    s->dealt[tile] = count;
}

/* Where each thread's rows begin in order. */
static void sdca_deal(struct gy_sdca *s)
{
    const int fan = s->fan;
    s->begin[0] = 0;
    for (int k = 0; k < fan; k++) {
        s->begin[k + 1] = s->begin[k];
        for (int j = 0; j < fan; j++)
            s->begin[k + 1] += sdca_share(s->dealt[j], k + 1, fan) - sdca_share(s->dealt[j], k, fan);
    }
}

/* Thread k's part of every range, a row of each in turn. */
static void sdca_collect(struct gy_sdca *s, int k)
{
    const int fan = s->fan;
    uint32_t *to = s->order + s->begin[k], *const end = s->order + s->begin[k + 1];
    for (int32_t i = 0; to < end; i++)
        for (int j = 0; j < fan; j++) {
            const int32_t at = sdca_share(s->dealt[j], k, fan) + i;
            if (at < sdca_share(s->dealt[j], k + 1, fan))
                *to++ = s->deal[sdca_share(s->rows.count, j, fan) + at];
        }
}

static void sdca_visit_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const struct gy_glm_problem *const problem = s->run->problem;
    const double damping = s->levels.sigma * s->sigma;
    const int alone = s->fan == 1;
    (void)thread;
    if (!alone && s->slice == 0)
        sdca_collect(s, (int)tile);
    const int32_t count = s->begin[tile + 1] - s->begin[tile], first = sdca_share(count, s->slice, s->slices);
    struct gy_sparse_sweep sweep = {
        .loss = problem->loss,
        .steps = SDCA_STEPS,
        .order = (alone ? s->deal : s->order) + s->begin[tile] + first,
        .count = sdca_share(count, s->slice + 1, s->slices) - first,
        .row = s->row,
        .id = s->rows.id,
        .value = s->rows.value,
        .dual = s->dual + s->at,
        .u = alone ? s->u : s->replica + tile * s->pitch,
        .rate = (float)(damping / problem->l2),
        .damping = (float)damping,
        .soft = (float)(problem->l1 / problem->l2),
        .bias = (float)problem->bias,
        .bias_at = (uint32_t)(s->dim - 1),
    };
    gy_sparse_visit(&sweep);
    s->sums[tile].gap += sweep.gap;
}

/* ---- threads meet ---- */

/* Lanes that the compiler makes vectors of; the vector's end is padded with zeros. */
static void sdca_meet_lanes(struct gy_sdca *s, int64_t at, float per_sigma, float together[SDCA_LANES], float apart[SDCA_LANES])
{
    float *const u = s->u + at, sum[SDCA_LANES] = { 0 };
    for (int k = 0; k < s->fan; k++) {
        const float *const replica = s->replica + k * s->pitch + at;
        for (int j = 0; j < SDCA_LANES; j++) {
            const float d = replica[j] - u[j];
            sum[j] += d;
            apart[j] += d * d;
        }
    }
    for (int j = 0; j < SDCA_LANES; j++) {
        together[j] += sum[j] * sum[j];
        u[j] += sum[j] * per_sigma;
    }
    for (int k = 0; k < s->fan; k++)
        memcpy(s->replica + k * s->pitch + at, u, SDCA_LANES * sizeof *u);
}

static void sdca_meet_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const int64_t end = gy_min64(s->pitch, (tile + 1) * SDCA_TILE);
    float together[SDCA_LANES] = { 0 }, apart[SDCA_LANES] = { 0 };
    (void)thread;
    for (int64_t at = tile * SDCA_TILE; at < end; at += SDCA_LANES)
        sdca_meet_lanes(s, at, (float)(1 / s->sigma), together, apart);
    double *const overlap = s->overlap + 2 * tile;
    overlap[0] = overlap[1] = 0;
    for (int j = 0; j < SDCA_LANES; j++) {
        overlap[0] += (double)together[j];
        overlap[1] += (double)apart[j];
    }
}

static void sdca_meet_threads(struct gy_sdca *s)
{
    const int64_t tiles = gy_ceil_div(s->pitch, SDCA_TILE);
    double together = 0, apart = 0;
    s->unmet = 0;
    if (s->fan == 1)
        return;
    gy_pool_run(s->run->pool, sdca_meet_tile, s, tiles);
    for (int64_t t = 0; t < tiles; t++) {
        together += s->overlap[2 * t];
        apart += s->overlap[2 * t + 1];
    }
    if (s->fixed || !(apart > 0))
        return;
    const double wanted = fmin(SDCA_MARGIN * together / apart, s->fan), now = s->sigma;
    s->sigma = fmax(s->floor, wanted > now ? wanted : 0.5 * (wanted + now));
}

/* ---- a pass ---- */

/* Every replica is u. */
static void sdca_spread(struct gy_sdca *s)
{
    for (int k = 0; s->replica && k < s->fan; k++)
        memcpy(s->replica + k * s->pitch, s->u, (size_t)s->pitch * sizeof *s->u);
}

/* Ranks meet inside a pass too, each after the same parts of its own rows. */
static int sdca_meet_ranks(struct gy_sdca *s, int64_t visited, struct gy_error *err)
{
    while (gy_glm_levels_part(&s->levels, visited, s->run->feed->rows)) {
        if (s->unmet > 0)
            sdca_meet_threads(s);
        GY_TRY(gy_glm_levels_meet(&s->levels, s->u, err));
        sdca_spread(s);
    }
    return GY_OK;
}

static int sdca_window(struct gy_sdca *s, struct gy_error *err)
{
    const int64_t before = s->visited;
    const int fan = s->fan;
    gy_pool_run(s->run->pool, sdca_prepare_tile, s, fan);
    sdca_deal(s);
    s->slices = fan == 1 ? 1 : (int)gy_max64(1, (s->rows.count + s->meet_every / 2) / s->meet_every);
    s->slices = (int)gy_max64(s->slices, gy_ceil_div((int64_t)s->levels.parts * s->rows.count, gy_max64(1, s->run->feed->rows)));
    for (s->slice = 0; s->slice < s->slices; s->slice++) {
        gy_pool_run(s->run->pool, sdca_visit_tile, s, fan);
        s->unmet += s->rows.count / s->slices;
        if (s->unmet >= s->meet_every)
            sdca_meet_threads(s);
        s->visited = before + (int64_t)s->rows.count * (s->slice + 1) / s->slices;
        GY_TRY(sdca_meet_ranks(s, s->visited, err));
    }
    return GY_OK;
}

static int sdca_stream(struct gy_sdca *s, struct gy_error *err)
{
    struct gy_glm_feed *const feed = s->run->feed;
    for (s->view_number = 0;; s->view_number++) {
        GY_TRY(feed->next(feed->self, &s->rows, err));
        if (s->rows.count == 0)
            return GY_OK;
        s->at = s->rows.first - feed->first;
        GY_TRY(sdca_window(s, err));
    }
}

/* Windows in an order of their own in each pass. */
static int sdca_resident(struct gy_sdca *s, struct gy_error *err)
{
    for (int v = 0; v < s->views; v++) {
        const int64_t number = gy_rng_permute(s->run->seed, GY_RNG_ORDER, (uint64_t)s->pass, s->views, v);
        s->view_number = (int)number;
        s->rows = s->view[number];
        s->at = s->view_at[number];
        GY_TRY(sdca_window(s, err));
    }
    return GY_OK;
}

GY_INT int gy_sdca_pass(struct gy_sdca *s, struct gy_error *err)
{
    memset(s->sums, 0, (size_t)s->fan * sizeof *s->sums);
    if (s->stale)
        sdca_spread(s);
    s->unmet = s->visited = s->stale = 0;
    GY_TRY(s->view ? sdca_resident(s, err) : sdca_stream(s, err));
    GY_TRY(sdca_meet_ranks(s, INT64_MAX, err));
    if (s->unmet > 0)
        sdca_meet_threads(s);
    s->gap = 0;
    for (int k = 0; k < s->fan; k++) {
        s->gap += s->sums[k].gap;
        s->start += s->sums[k].start;
    }
    s->pass++;
    s->fresh = 0;
    return GY_OK;
}
