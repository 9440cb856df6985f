/* SPDX-License-Identifier: MIT */
/* What sdca.c, sdca_pass.c and sdca_centre.c share: room for a run, the rows' dual variables, and
 * the weights that the shared vector stands for. The first dual point is 0 everywhere; of the
 * logistic loss it is so small that it adds nothing to u in float. */
#include "engine/glm/glm_room.h"
#include "engine/glm/solve/sdca_state.h"
#include "engine/job/peers.h"

#define SDCA_COLD_LOGIT (-40.0f) /* sigmoid 4e-18 */
/* threads meet after working this many times longer than a meeting lasts */
#define SDCA_MEET_COST 16
#define SDCA_COPY 16384          /* rows whose dual variables are copied together */

/* ---- weights ---- */

GY_INT float gy_sdca_soft(const struct gy_sdca *s) { return (float)(s->run->problem->l1 / (s->run->problem->l2 + s->prox.kappa)); }

/* The u of the weights that are returned. For the hinge loss, and where windows come one after
 * another, it is the mean over a pass; several ranks have no mean. */
static const float *sdca_u(const struct gy_sdca *s) { return s->mean && !s->first ? s->mean : s->u; }

GY_INT void gy_sdca_weights(const struct gy_sdca *s, float *w)
{
    const float soft = gy_sdca_soft(s), *const u = sdca_u(s);
    for (int64_t j = 0; j < s->dim; j++)
        w[j] = gy_sdca_shrink(u[j], soft);
}

GY_INT void gy_sdca_means(struct gy_sdca *s)
{
    if (s->mean)
        memcpy(s->mean, s->u, (size_t)s->pitch * sizeof *s->mean);
}

GY_INT void gy_sdca_set(struct gy_sdca *s, const double *vector)
{
    const double l2 = s->run->problem->l2, all = l2 + s->prox.kappa;
    for (int64_t j = 0; j < s->dim; j++)
        s->u[j] = (float)((l2 * vector[j] + s->prox.kappa * (double)s->prox.centre[j]) / all);
    gy_sdca_means(s);
    gy_glm_levels_begin(&s->ranks, s->u);
    s->threads.stale = 1;
}

/* ---- dual variables ---- */

static void sdca_copy_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const int64_t end = gy_min64(s->window.count, (tile + 1) * SDCA_COPY);
    (void)thread;
    for (int64_t i = tile * SDCA_COPY; i < end; i++)
        if (s->window.take)
            s->window.row[i].dual = s->dual[s->window.at + i];
        else
            s->dual[s->window.at + i] = s->window.row[i].dual;
    const int logits = s->window.take && s->loss->form == GY_GLM_LOGIT;
    for (int64_t i = tile * SDCA_COPY; logits && i < end; i++)
        s->window.row[i].part = gy_sparse_sigmoid(s->window.row[i].dual);
}

GY_INT void gy_sdca_copy(struct gy_sdca *s, int take)
{
    s->window.take = take;
    gy_pool_run(s->run->pool, sdca_copy_tile, s, gy_ceil_div(s->window.count, SDCA_COPY));
}

GY_INT void gy_sdca_duals(struct gy_sdca *s, int take)
{
    if (s->view && !s->first)
        gy_sdca_copy(s, take);
}

/* ---- room ---- */

/* Rows between two meetings. A meeting reads and writes all replicas, about half a nanosecond an
 * element. A row takes 50 ns, and 1 ns for each entry. */
static int64_t sdca_meet_rows(const struct gy_sdca *s)
{
    const struct gy_glm_feed *const feed = s->run->feed;
    const double entries = feed->rows ? (double)feed->entries / (double)feed->rows : 1, fan = s->threads.fan;
    const double meeting = 2000 + 0.5 * (double)s->dim * (fan + 1) / fan, row = (50 + entries) / fan;
    return (int64_t)(SDCA_MEET_COST * meeting / row) + 1;
}

/* What rows and vectors take, about. */
static size_t sdca_bytes(const struct gy_sdca *s, int64_t rows, int64_t most)
{
    const size_t vectors = (size_t)(s->threads.fan + 5) * (size_t)s->pitch * sizeof *s->u;
    return vectors + (size_t)most * (sizeof *s->window.row + 2 * sizeof *s->window.order) + (size_t)rows * (2 * sizeof *s->dual);
}

static int sdca_room(struct gy_sdca *s, struct gy_error *err)
{
    const struct gy_glm_feed *const feed = s->run->feed;
    struct sdca_window *const window = &s->window;
    const int fan = s->threads.fan, several = fan > 1 || s->ranks.base;
    const int64_t rows = feed->rows, most = feed->resident ? rows : feed->most_rows;
    const int64_t ranges = window->most_ranges = gy_ceil_div(gy_ceil_div(most, SDCA_RANGE) + 1, fan) * fan;
    /* not with ranks: each would have a mean of its own */
    const int rough = !s->ranks.base && (s->rough || (!feed->resident && feed->views > 1));
    const struct gy_glm_room room[] = {
        { &s->u, s->pitch, sizeof *s->u },
        { &s->prox.centre, s->pitch, sizeof *s->prox.centre },
        { &s->prox.before, s->pitch, sizeof *s->prox.before },
        { &s->overlap, 2 * (s->pitch / 16 + 1), sizeof *s->overlap },
        { &s->dual, s->run->dual ? -1 : rows, sizeof *s->dual },
        { &window->row, most, sizeof *window->row },
        { &window->deal, most, sizeof *window->deal },
        { &window->order, most, sizeof *window->order },
        { &window->dealt, ranges, sizeof *window->dealt },
        { &window->part, (fan + 1) * ranges, sizeof *window->part },
        { &window->begin, fan + 1, sizeof *window->begin },
        { &s->threads.gaps, fan * SDCA_APART, sizeof *s->threads.gaps },
        { &window->fill_sums, 2 * gy_ceil_div(most, SDCA_FILL), sizeof *window->fill_sums },
        { &s->mean, rough ? s->pitch : -1, sizeof *s->mean },
        { &s->norm, feed->resident ? -1 : rows, sizeof *s->norm },
        { &s->threads.replica, fan > 1 ? fan * s->pitch : -1, sizeof *s->threads.replica },
        { &s->dual_kept, several ? rows : -1, sizeof *s->dual_kept },
        { &s->u_kept, several ? s->pitch : -1, sizeof *s->u_kept },
    };
    s->dual = s->run->dual;
    if (gy_arena_reserve(&s->arena, sdca_bytes(s, rows, most)) != 0)
        return GY_NOMEM(err, "coordinate ascent", sdca_bytes(s, rows, most));
    return gy_glm_take_rooms(&s->arena, room, GY_COUNT(room), "coordinate ascent", err);
}

GY_INT int gy_sdca_values(struct gy_sdca *s, struct gy_error *err)
{
    const struct gy_glm_feed *const feed = s->run->feed;
    const struct gy_glm_room room = { &s->window.value, feed->resident ? feed->rows : feed->most_rows,
                                      sizeof *s->window.value };
    return s->window.value ? GY_OK : gy_glm_take_rooms(&s->arena, &room, 1, "pointers to values", err);
}

/* A resident feed's views, once and for all. */
static int sdca_views(struct gy_sdca *s, struct gy_error *err)
{
    struct gy_glm_feed *const feed = s->run->feed;
    int64_t at = 0;
    int values = 0;
    if (!feed->resident)
        return GY_OK;
    if (feed->rows > UINT32_MAX)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%" PRId64 " rows in memory of one rank; coordinate ascent takes %u", feed->rows, UINT32_MAX);
    s->views = feed->views;
    const struct gy_glm_room room[] = { { &s->view, s->views, sizeof *s->view },
                                        { &s->view_at, s->views, sizeof *s->view_at } };
    GY_TRY(gy_glm_take_rooms(&s->arena, room, GY_COUNT(room), "the table of views", err));
    for (int64_t v = 0;; v++) {
        struct gy_rows rows;
        GY_TRY(feed->next(feed->self, &rows, err));
        if (rows.count == 0)
            return values ? gy_sdca_values(s, err) : GY_OK;
        values |= rows.value != NULL;
        if (v == s->views)
            return GY_FAIL(err, GY_E_BUG, "a feed of %d views has more", feed->views);
        s->view[v] = rows;
        s->view_at[v] = at;
        at += rows.count;
    }
}

GY_INT int gy_sdca_from_duals(struct gy_sdca *s, struct gy_error *err)
{
    double *const u = gy_alloc_take(s->run->alloc, (size_t)s->dim, sizeof *u);
    if (!u)
        return GY_NOMEM(err, "the vector of the duals", (size_t)s->dim * sizeof *u);
    const int status = gy_glm_rebuild(s->run, s->dual, u, err);
    if (status == GY_OK)
        gy_sdca_set(s, u);
    gy_alloc_free(s->run->alloc, u, (size_t)s->dim * sizeof *u);
    return status;
}

static int sdca_begin(struct gy_sdca *s, struct gy_error *err)
{
    const float cold = s->loss->form == GY_GLM_LOGIT ? SDCA_COLD_LOGIT : 0.0f;
    for (int64_t i = 0; s->norm && i < s->run->feed->rows; i++)
        s->norm[i] = -1;
    s->fresh = !(s->run->has_dual && s->run->dual);
    s->first = 1;
    s->pass = s->run->first_epoch;
    if (!s->fresh)
        return gy_sdca_from_duals(s, err);
    for (int64_t i = 0; i < s->run->feed->rows; i++)
        s->dual[i] = cold;
    gy_glm_levels_begin(&s->ranks, s->u);
    return GY_OK;
}

GY_INT int gy_sdca_open(struct gy_sdca *s, struct gy_glm_run *run, struct gy_error *err)
{
    memset(s, 0, sizeof *s);
    s->run = run;
    s->loss = gy_glm_loss_of(run->problem);
    s->rough = gy_glm_has_kink(run->problem);
    s->threads.fan = gy_pool_threads(run->pool);
    s->threads.sigma = s->threads.fan;
    gy_arena_open_hook(&s->arena, run->alloc);
    s->dim = (int64_t)run->feed->features + (run->problem->bias != 0);
    s->pitch = (int64_t)gy_align_up((size_t)s->dim, 64);
    s->threads.floor = 1;
    s->prox.plain = s->rough && run->job && run->job->ranks > 1;
    s->threads.meet_every = sdca_meet_rows(s);
    int status = gy_glm_levels_open(&s->ranks, run->job, run->alloc, s->dim, 0, err);
    if (status == GY_OK)
        status = gy_glm_levels_plan(&s->ranks, run->feed->rows, run->feed->entries,
                                    s->threads.fan, err);
    if (status == GY_OK)
        status = sdca_room(s, err);
    if (status == GY_OK)
        status = sdca_views(s, err);
    if (status == GY_OK && !s->view && run->feed->shuffle)
        status = run->feed->shuffle(run->feed->self, 1, run->seed, err);
    if (status == GY_OK)
        status = sdca_begin(s, err);
    if (status != GY_OK)
        gy_sdca_close(s);
    return status;
}

GY_INT void gy_sdca_close(struct gy_sdca *s)
{
    gy_arena_close(&s->arena);
    gy_glm_levels_close(&s->ranks);
}
