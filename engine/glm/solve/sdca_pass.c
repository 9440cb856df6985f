/* SPDX-License-Identifier: MIT */
/* One pass of sdca.c. The rows of a resident feed are one window, those of another are one window a
 * view. A window's rows are dealt to the threads afresh in each pass. It is cut into ranges that
 * fit a cache. Each range is shuffled and cut into as many parts as there are threads. A thread
 * takes its part of every range, a row of each in turn. Order depends on seed, pass and window
 * alone. Rows are shuffled one by one, over the whole window. Buckets of neighbours that stay
 * together pass after pass cost many passes where rows share frequent features. For then what the
 * buckets' dual variables add up to moves but slowly from one to the other.
 *
 * Threads meet when they have done so much that meeting costs a small part of it. Sooner is better:
 * their changes overlap less, and sigma may be smaller. It follows what is measured at each
 * meeting: |sum of changes|^2 / sum of |change|^2. That is 1 for changes at right angles and fan
 * for equal ones. With sigma at or above it, the meeting raises the dual objective by at least what
 * the threads saw. */
#include "engine/base/rng.h"
#include "engine/glm/solve/sdca_state.h"

#define SDCA_TILE 4096          /* elements of the vector */
#define SDCA_LANES 16
#define SDCA_ROWS_SHARED 128    /* of a window: at 50 ns and more a row, some microseconds */
#define SDCA_STEPS 20           /* most of Newton's method */
#define SDCA_MARGIN 1.1         /* sigma over what was measured */

/* Runs the tiles of a window, one for each thread. This thread alone takes few rows: others would
 * wake for longer than they work. The bits are the same. */
static void sdca_run(struct gy_sdca *s, gy_tile_fn fn, int64_t tiles)
{
    if (s->window.count >= SDCA_ROWS_SHARED)
        gy_pool_run(s->run->pool, fn, s, tiles);
    else
        for (int64_t tile = 0; tile < tiles; tile++)
            fn(s, tile, 0);
}

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

static void sdca_shuffle(uint32_t *list, int64_t count, uint64_t state)
{
    for (int64_t i = count - 1; i > 0; i--) {
        const uint32_t j = sdca_random(&state, (uint32_t)i + 1), keep = list[i];
        list[i] = list[j];
        list[j] = keep;
    }
}

/* ---- a window's rows ---- */

static int64_t sdca_share(int64_t count, int64_t part, int64_t parts) { return count / parts * part + count % parts * part / parts; }

static float sdca_square(const struct gy_sdca *s, const struct gy_rows *rows, int64_t at, uint32_t begin, uint32_t end, float f)
{
    const double bias = s->run->problem->bias;
    float *const kept = s->norm && rows->value ? s->norm + at : NULL;
    double sum = 0;
    if (kept && *kept >= 0)
        return *kept;
    for (uint32_t k = begin; rows->value && k < end; k++)
        sum += (double)rows->value[k] * (double)rows->value[k];
    sum = (rows->value ? sum : (double)(end - begin)) * (double)f * (double)f + bias * bias;
    if (kept)
        *kept = (float)sum;
    return (float)sum;
}

/* Row i of a view becomes row `at` of the window, and `number` of the rank. */
static void sdca_fill(struct gy_sdca *s, const struct gy_rows *rows, int32_t i, int64_t at, int64_t number, struct sdca_sums *sums)
{
    const struct gy_glm_problem *const problem = s->run->problem;
    const uint32_t begin = gy_rows_begin(rows, i), end = gy_rows_end(rows, i);
    const float y = gy_glm_y(problem, rows, i), c = gy_glm_c(problem, rows, i, y), dual = s->dual[number];
    struct gy_sparse_row *const row = &s->window.row[at];
    row->id = rows->id + begin;
    row->count = end - begin;
    row->dual = dual;
    row->part = s->loss->form == GY_GLM_LOGIT ? gy_sparse_sigmoid(dual) : y;
    row->f = (rows->scale ? rows->scale[i] : 1.0f) * (rows->value ? 1.0f : rows->same);
    row->q = sdca_square(s, rows, number, begin, end, row->f);
    row->c = !(c > 0) ? 0 : s->loss->labels == GY_GLM_CLASSES && y < 0 ? -c : c;
    if (s->window.value)
        s->window.value[at] = rows->value ? rows->value + begin : NULL;
    if (!s->first || row->c == 0)
        return;
    sums->start += (double)c * s->loss->value((double)y, 0);
    sums->square += (double)c * (double)row->q;
}

/* Rows of the window, of one view or several. */
static void sdca_fill_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const int64_t first = tile * SDCA_FILL, last = gy_min64(first + SDCA_FILL, s->window.count);
    struct sdca_sums sums = { 0 };
    (void)thread;
    for (int64_t v = 0; v < (s->view ? s->views : 1); v++) {
        const struct gy_rows *const rows = s->view ? &s->view[v] : &s->window.rows;
        const int64_t base = s->view ? s->view_at[v] : 0, end = gy_min64(last, base + rows->count);
        for (int64_t i = gy_max64(first, base); i < end; i++)
            sdca_fill(s, rows, (int32_t)(i - base), i, s->window.at + i, &sums);
    }
    s->window.fill_sums[2 * tile] = sums.start;
    s->window.fill_sums[2 * tile + 1] = sums.square;
}

/* The window's rows, and when they are seen for the first time, what they say about the start. */
static void sdca_fill_window(struct gy_sdca *s)
{
    const int64_t tiles = gy_ceil_div(s->window.count, SDCA_FILL);
    double square = 0;
    gy_pool_run(s->run->pool, sdca_fill_tile, s, tiles);
    for (int64_t t = 0; s->first && t < tiles; t++) {
        s->estimate.start += s->window.fill_sums[2 * t];
        square += s->window.fill_sums[2 * t + 1];
    }
    s->estimate.square += square;
    if (s->fresh && s->window.number == 0 && !s->ranks.base)
        s->prox.kappa = gy_sdca_kappa(s, square, (double)s->window.count);
}

/* Range `tile` is shuffled: its rows that count. */
static void sdca_deal_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const int64_t first = sdca_share(s->window.count, tile, s->window.ranges), last = sdca_share(s->window.count, tile + 1, s->window.ranges);
    uint32_t *const deal = s->window.deal + first;
    int64_t count = 0;
    (void)thread;
    if (s->window.dealt[tile] == last - first)
        for (; count < last - first; count++)
            deal[count] = (uint32_t)(first + count);
    else
        for (int64_t i = first; i < last; i++)
            if (s->window.row[i].c != 0)
                deal[count++] = (uint32_t)i;
    const uint64_t element = (uint64_t)s->window.number << 32 | (uint64_t)tile;
    sdca_shuffle(deal, count, sdca_random_open(s, element));
    s->window.dealt[tile] = count;
}

/* Where each thread's part of each range begins, and its rows in order. */
static void sdca_deal(struct gy_sdca *s)
{
    sdca_run(s, sdca_deal_tile, s->window.ranges);
    for (int k = 0; k <= s->threads.fan; k++) {
        int64_t *const part = s->window.part + k * s->window.ranges;
        s->window.begin[k] = 0;
        for (int64_t j = 0; j < s->window.ranges; j++) {
            const int64_t first = sdca_share(s->window.count, j, s->window.ranges);
            part[j] = first + sdca_share(s->window.dealt[j], k, s->threads.fan);
            s->window.begin[k] += part[j] - first;
        }
    }
}

/* Thread k's part of every range, a row of each in turn. */
static void sdca_collect(struct gy_sdca *s, int k)
{
    const struct sdca_window *const window = &s->window;
    uint32_t *to = window->order + window->begin[k], *const end = window->order + window->begin[k + 1];
    const int64_t *const part = window->part + k * window->ranges, *const next = part + window->ranges;
    for (int64_t i = 0; to < end; i++)
        for (int64_t j = 0; j < s->window.ranges; j++)
            if (part[j] + i < next[j])
                *to++ = s->window.deal[part[j] + i];
}

static void sdca_visit_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const struct gy_glm_problem *const problem = s->run->problem;
    const double l2 = problem->l2 + s->prox.kappa;
    (void)thread;
    if (s->window.slice == 0)
        sdca_collect(s, (int)tile);
    const int64_t count = s->window.begin[tile + 1] - s->window.begin[tile], first = sdca_share(count, s->window.slice, s->window.slices);
    struct gy_sparse_sweep sweep = {
        .loss = s->loss,
        .steps = SDCA_STEPS,
        .order = s->window.order + s->window.begin[tile] + first,
        .count = sdca_share(count, s->window.slice + 1, s->window.slices) - first,
        .row = s->window.row,
        .value = s->window.value,
        .u = s->threads.fan == 1 ? s->u : s->threads.replica + tile * s->pitch,
        .rate = (float)(s->ranks.sigma * s->threads.sigma / l2),
        .soft = (float)(problem->l1 / l2),
        .bias = (float)problem->bias,
        .bias_at = (uint32_t)(s->dim - 1),
    };
    gy_sparse_visit(&sweep);
    s->threads.gaps[tile * SDCA_APART] += sweep.gap;
}

/* ---- threads meet ---- */

/* Lanes that the compiler makes vectors of; the vector's end is padded with zeros. */
static void sdca_meet_lanes(struct gy_sdca *s, int64_t at, float per_sigma, float together[SDCA_LANES], float apart[SDCA_LANES])
{
    float *const u = s->u + at, sum[SDCA_LANES] = { 0 };
    for (int k = 0; k < s->threads.fan; k++) {
        const float *const replica = s->threads.replica + k * s->pitch + at;
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
    for (int k = 0; k < s->threads.fan; k++)
        memcpy(s->threads.replica + k * s->pitch + at, u, SDCA_LANES * sizeof *u);
}

static void sdca_meet_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const int64_t end = gy_min64(s->pitch, (tile + 1) * SDCA_TILE);
    float together[SDCA_LANES] = { 0 }, apart[SDCA_LANES] = { 0 };
    (void)thread;
    for (int64_t at = tile * SDCA_TILE; at < end; at += SDCA_LANES)
        sdca_meet_lanes(s, at, (float)(1 / s->threads.sigma), together, apart);
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
    s->threads.unmet = 0;
    if (s->threads.fan == 1)
        return;
    gy_pool_run(s->run->pool, sdca_meet_tile, s, tiles);
    for (int64_t t = 0; t < tiles; t++) {
        together += s->overlap[2 * t];
        apart += s->overlap[2 * t + 1];
    }
    if (s->threads.fixed || !(apart > 0))
        return;
    const double wanted = fmin(SDCA_MARGIN * together / apart, s->threads.fan);
    const double now = s->threads.sigma;
    s->threads.sigma = fmax(s->threads.floor, wanted > now ? wanted : 0.5 * (wanted + now));
}

/* ---- a pass ---- */

/* Cuts ranges of about SDCA_RANGE rows. Their number is a multiple of the threads', so all threads
 * have equal work. */
static void sdca_cut(struct gy_sdca *s)
{
    const int64_t ranges = gy_min64(s->window.most_ranges, gy_ceil_div(gy_ceil_div(s->window.count, SDCA_RANGE), s->threads.fan) * s->threads.fan);
    s->window.ranges = gy_max64(ranges, 1);
    for (int64_t j = 0; j < s->window.ranges; j++)
        s->window.dealt[j] = -1;
}

/* Every replica is u. */
static void sdca_spread(struct gy_sdca *s)
{
    for (int k = 0; s->threads.replica && k < s->threads.fan; k++)
        memcpy(s->threads.replica + k * s->pitch, s->u, (size_t)s->pitch * sizeof *s->u);
}

/* Ranks meet inside a pass too, each after the same parts of its own rows. */
static int sdca_meet_ranks(struct gy_sdca *s, int64_t visited, struct gy_error *err)
{
    while (gy_glm_levels_part(&s->ranks, visited, s->run->feed->rows)) {
        if (s->threads.unmet > 0)
            sdca_meet_threads(s);
        GY_TRY(gy_glm_levels_meet(&s->ranks, s->u, err));
        sdca_spread(s);
    }
    return GY_OK;
}

static void sdca_average_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const int64_t end = gy_min64(s->dim, (tile + 1) * SDCA_TILE);
    (void)thread;
    for (int64_t j = tile * SDCA_TILE; j < end; j++)
        s->mean[j] += s->share * s->u[j];
}

/* A part of the pass is done: threads meet, and u counts in its mean. */
static void sdca_average(struct gy_sdca *s, int64_t visited, int64_t before)
{
    const int64_t rows = gy_max64(1, s->run->feed->rows);
    s->share = (float)(visited * SDCA_MEANS / rows - before * SDCA_MEANS / rows) / SDCA_MEANS;
    if (!s->mean || s->share == 0)
        return;
    if (s->threads.unmet > 0)
        sdca_meet_threads(s);
    gy_pool_run(s->run->pool, sdca_average_tile, s, gy_ceil_div(s->dim, SDCA_TILE));
}

static int sdca_visit(struct gy_sdca *s, struct gy_error *err)
{
    const int64_t before = s->visited;
    sdca_deal(s);
    const int64_t every = s->threads.meet_every, slices = (s->window.count + every / 2) / every;
    s->window.slices = s->threads.fan == 1 ? 1 : (int)gy_max64(1, slices);
    s->window.slices = (int)gy_max64(s->window.slices, gy_ceil_div((int64_t)s->ranks.parts * s->window.count, gy_max64(1, s->run->feed->rows)));
    if (s->mean)
        s->window.slices = (int)gy_max64(s->window.slices, gy_ceil_div(SDCA_MEANS * s->window.count, gy_max64(1, s->run->feed->rows)));
    for (s->window.slice = 0; s->window.slice < s->window.slices; s->window.slice++) {
        const int64_t since = s->visited;
        sdca_run(s, sdca_visit_tile, s->threads.fan);
        s->visited = before + s->window.count * (s->window.slice + 1) / s->window.slices;
        /* above 0 after the last slice, for any number of rows */
        s->threads.unmet += s->visited - since;
        if (s->threads.unmet >= s->threads.meet_every)
            sdca_meet_threads(s);
        sdca_average(s, s->visited, since);
        GY_TRY(sdca_meet_ranks(s, s->visited, err));
    }
    return GY_OK;
}

static int sdca_stream(struct gy_sdca *s, struct gy_error *err)
{
    struct gy_glm_feed *const feed = s->run->feed;
    for (s->window.number = 0;; s->window.number++) {
        GY_TRY(feed->next(feed->self, &s->window.rows, err));
        s->window.count = s->window.rows.count;
        if (s->window.count == 0)
            return GY_OK;
        s->window.at = s->window.rows.first - feed->first;
        if (s->window.rows.value)
            GY_TRY(gy_sdca_values(s, err));
        sdca_cut(s);
        sdca_fill_window(s);
        GY_TRY(sdca_visit(s, err));
        gy_sdca_copy(s, 0);
    }
}

static int sdca_resident(struct gy_sdca *s, struct gy_error *err)
{
    s->window.count = s->run->feed->rows;
    if (s->first) {
        sdca_cut(s);
        sdca_fill_window(s);
    }
    return sdca_visit(s, err);
}

GY_INT int gy_sdca_pass(struct gy_sdca *s, struct gy_error *err)
{
    memset(s->threads.gaps, 0, (size_t)(s->threads.fan * SDCA_APART) * sizeof *s->threads.gaps);
    if (s->threads.stale)
        sdca_spread(s);
    s->threads.unmet = s->visited = s->threads.stale = 0;
    if (s->mean)
        memset(s->mean, 0, (size_t)s->pitch * sizeof *s->mean);
    GY_TRY(s->view ? sdca_resident(s, err) : sdca_stream(s, err));
    GY_TRY(sdca_meet_ranks(s, INT64_MAX, err));
    if (s->threads.unmet > 0)
        sdca_meet_threads(s);
    s->estimate.gap = 0;
    for (int k = 0; k < s->threads.fan; k++)
        s->estimate.gap += s->threads.gaps[k * SDCA_APART];
    s->pass++;
    s->fresh = s->first = 0;
    return GY_OK;
}
