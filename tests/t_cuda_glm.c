/* SPDX-License-Identifier: MIT */
/* Linear models on a device: the kernels of glm.cu op by op beside plain loops on the host, then whole runs, on the emulator, which checks every access
 * for races and bounds, or on a GPU ('t_cuda_glm cuda'). Certificates are made here once more, plainly, in double. In the end
 * kernels that are wrong on purpose: all must be noticed. */
#include "../engine/base/file.h"
#include "../engine/device.h"
#include "../engine/glm/device.h"
#include "../kernels/cuda/backend.h"
#include "../kernels/glm_window.h"
#include "device_here.h"
#include "glm_ranks.h"
#include "glm_rows.h"
#include "t.h"

#include <dlfcn.h>

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define CG_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CG_NO_EMULATOR 1
#endif
#endif

static const char *cg_device = "emu";
static struct gy_pool *cg_pool;
static int (*cg_memory)(size_t *left, size_t *total); /* cudaMemGetInfo */
static const char *const cg_losses[GY_GLM_LOSSES] = { "logistic", "squared", "hinge", "squared hinge" };

/* ---- a device, op by op ---- */

struct cg_ops {
    const struct gy_backend *b;
    struct gy_cuda_backend *self;
    struct gy_alloc alloc;
    struct gy_log log;
    char said[512];
    struct gy_uniform u;
    struct gy_op op[GY_OP_GLM_END - GY_OP_GLM_STEP];
    const char *text;          /* in place of glm.cu */
    struct gy_glm_packed in;
    void *x, *scratch;         /* on the device */
    float *w, *dual, *score;
    double *sums;
    size_t w_count, rows;
};

static void cg_hear(void *user, int level, const char *text)
{
    struct cg_ops *o = user;
    if (level == GY_LOG_ERROR)
        snprintf(o->said, sizeof o->said, "%s", text);
}

/* 1: open; 0: there is no such device. */
static int cg_open(struct cg_ops *o)
{
    struct gy_error err = { 0 };
    void *self = NULL;
    memset(o, 0, sizeof *o);
    o->alloc = gy_alloc_default();
    o->log = (struct gy_log){ cg_hear, o, GY_LOG_WARN };
    struct gy_backend_config config = { .alloc = &o->alloc, .log = &o->log };
    const int good = dh_opened(cg_device, gy_device_open_backend(cg_device, &config, 1, 0, &o->b, &self, &err), err.text);
    o->self = self;
    return good;
}

static int cg_prepare(struct cg_ops *o, int loss, int rows_at_a_time, int most)
{
    struct gy_geom g = { .n = rows_at_a_time, .h = 1, .w = 1, .c = 1, .p = 1, .q = 1, .k = most, .r = 1, .s = 1, .groups = 1 };
    struct gy_error err = { 0 };
    int good = 1;
    for (int i = 0; i < (int)GY_COUNT(o->op) && good; i++) {
        struct gy_cuda_cut cut;
        struct gy_op *op = &o->op[i];
        *op = (struct gy_op){ .code = GY_OP_GLM_STEP + i, .act = loss, .geom = g, .u = &o->u };
        const struct gy_cuda_row *row = gy_cuda_pick(op, &o->self->device, NULL);
        memset(&cut, 0, sizeof cut);
        if (!T_CHECK(row != NULL))
            return 0;
        row->cut(op, &o->self->device, &cut);
        cut.text = o->text;
        good = (o->text ? gy_cuda_prepare_cut(o->self, op, row, &cut, &err) : o->b->prepare(o->self, op, &err)) == GY_OK;
    }
    good = good && o->b->ready(o->self, &err) == GY_OK;
    T_CHECK_MSG(good, "%s", err.text);
    return good;
}

static void *cg_get(struct cg_ops *o, size_t bytes, const void *from)
{
    struct gy_error err = { 0 };
    void *p = NULL;
    T_CHECK(o->b->mem_get(o->self, bytes, GY_MEM_DEVICE, &p, &err) == GY_OK);
    if (p && from)
        T_CHECK(o->b->copy(o->self, p, from, bytes, GY_COPY_TO_DEVICE) == GY_OK);
    return p;
}

/* All rows as one window, with these weights and dual numbers. */
static void cg_send(struct cg_ops *o, const struct gy_glm_problem *problem, const struct cg_data *d, const float *w, const float *dual)
{
    const size_t room = gy_glm_pack_most(d->rows.count, d->entries) + 256;
    const struct gy_glm_pack how = { .problem = problem, .features = d->features, .room = room, .most_rows = INT32_MAX };
    unsigned char *const window = calloc(1, room);
    struct gy_glm_piece piece[2] = { { .rows = &d->rows, .count = d->rows.count / 2 }, { .rows = &d->rows } };
    piece[1].from = piece[0].count;
    piece[1].count = d->rows.count - piece[0].count;
    T_CHECK(gy_glm_pack_count(&how, &d->rows, 0) == d->rows.count);
    o->in = piece[0].count ? gy_glm_pack(&how, piece, 2, window) : gy_glm_pack(&how, piece + 1, 1, window);
    T_CHECK(o->in.rows == d->rows.count);
    o->w_count = d->features + (problem->bias != 0);
    o->rows = (size_t)d->rows.count;
    o->x = cg_get(o, o->in.bytes, window);
    o->w = cg_get(o, 4 * o->w_count, w);
    o->dual = cg_get(o, 4 * o->rows, dual);
    o->score = cg_get(o, 4 * o->rows, NULL);
    o->sums = cg_get(o, 4 * sizeof *o->sums, NULL);
    o->scratch = cg_get(o, o->op[GY_OP_GLM_SUMS - GY_OP_GLM_STEP].scratch_bytes, NULL);
    o->u = (struct gy_uniform){ .seed = 5, .lr = (float)(1 / problem->l2), .loss_scale = 1, .bias1 = (float)problem->bias, .valid = 1 };
    free(window);
}

static void cg_put(struct cg_ops *o)
{
    void *const all[] = { o->x, o->w, o->dual, o->score, o->sums, o->scratch };
    for (size_t i = 0; i < GY_COUNT(all); i++)
        if (all[i])
            o->b->mem_put(o->self, all[i], 0, GY_MEM_DEVICE);
}

static int cg_run(struct cg_ops *o, int code, int with_score)
{
    struct gy_op *op = &o->op[code - GY_OP_GLM_STEP];
    op->ptr[GY_X] = o->x, op->ptr[GY_W] = o->w, op->ptr[GY_M] = o->dual, op->ptr[GY_Y] = with_score ? o->score : NULL;
    op->ptr[GY_SUMS] = code == GY_OP_GLM_SQUARES ? o->sums + 2 : o->sums, op->ptr[GY_SCRATCH] = o->scratch;
    return o->b->run(o->self, op);
}

static int cg_fetch(struct cg_ops *o, float *w, float *dual)
{
    GY_TRY(o->b->copy(o->self, w, o->w, 4 * o->w_count, GY_COPY_TO_HOST));
    GY_TRY(o->b->copy(o->self, dual, o->dual, 4 * o->rows, GY_COPY_TO_HOST));
    return o->b->sync(o->self);
}

/* ---- steps in the host's order ---- */

static double cg_dot(const struct cg_data *d, const struct gy_glm_problem *p, int i, const float *w, double *square)
{
    double z = p->bias != 0 ? p->bias * (double)w[d->features] : 0;
    *square = p->bias * p->bias;
    for (uint32_t j = gy_rows_begin(&d->rows, i); j < gy_rows_end(&d->rows, i); j++) {
        const double v = cg_value(&d->rows, i, j);
        z += v * (double)w[d->id[j]];
        *square += v * v;
    }
    return z;
}

static void cg_plain_step(const struct cg_data *d, const struct gy_glm_problem *p, int i, double damping, float *w, float *dual)
{
    double square;
    const float y = gy_glm_y(p, &d->rows, i), c = gy_glm_c(p, &d->rows, i, y), old = dual[i];
    const float z = (float)cg_dot(d, p, i, w, &square);
    if (!(c > 0))
        return;
    dual[i] = gy_glm_step(p->loss, y, z, old, (float)(damping * square / p->l2), c);
    const double change = ((double)gy_glm_coefficient(p->loss, y, dual[i], c) - (double)gy_glm_coefficient(p->loss, y, old, c)) / p->l2;
    for (uint32_t j = gy_rows_begin(&d->rows, i); j < gy_rows_end(&d->rows, i); j++)
        w[d->id[j]] = (float)((double)w[d->id[j]] + change * cg_value(&d->rows, i, j));
    if (p->bias != 0)
        w[d->features] = (float)((double)w[d->features] + change * p->bias);
}

static int cg_is_long(const struct cg_data *d, int i)
{
    return gy_rows_end(&d->rows, i) - gy_rows_begin(&d->rows, i) > GY_GLM_LONG;
}

static void cg_plain_epoch(const struct cg_data *d, const struct gy_glm_problem *p, uint64_t step, double damping, float *w, float *dual)
{
    int *const list = cg_take((size_t)d->rows.count), longs = 0;
    for (int i = 0; i < d->rows.count; i++)
        if (cg_is_long(d, i))
            list[longs++] = i;
    for (int k = 0; k < d->rows.count; k++) {
        const int i = (int)gy_rng_permute(5, GY_RNG_ORDER, step, d->rows.count, k);
        if (!cg_is_long(d, i))
            cg_plain_step(d, p, i, damping, w, dual);
    }
    for (int k = 0; k < longs; k++)
        cg_plain_step(d, p, list[gy_rng_permute(5, GY_RNG_ORDER, step, longs, k)], damping, w, dual);
    free(list);
}

static double cg_apart(const float *a, const float *b, size_t count)
{
    double most = 0, size = 1e-3;
    for (size_t i = 0; i < count; i++) {
        const double apart = fabs((double)a[i] - (double)b[i]);
        most = !(apart <= most) ? apart : most;
        size = fabs((double)b[i]) > size ? fabs((double)b[i]) : size;
    }
    return most / size;
}

static float cg_none(int loss) { return loss == GY_GLM_LOGISTIC ? -18.0f : 0.0f; }

/* Two epochs by one warp, or with long rows alone by one block: -1: the device failed, else how far it is from the host. */
static double cg_epochs(struct cg_ops *o, const struct cg_data *d, const struct gy_glm_problem *p, double damping)
{
    const size_t weights = d->features + 1, rows = (size_t)d->rows.count;
    float *const w = cg_take(weights), *const dual = cg_take(rows), *const w2 = cg_take(weights), *const dual2 = cg_take(rows);
    double apart = -1;
    int status = GY_OK;
    for (size_t i = 0; i < rows; i++)
        dual[i] = cg_none(p->loss);
    cg_send(o, p, d, w, dual);
    o->u.loss_scale = (float)damping;
    for (uint64_t epoch = 1; epoch < 3 && status == GY_OK; epoch++) {
        o->u.step = epoch << 32 | 7;
        cg_plain_epoch(d, p, o->u.step, damping, w, dual);
        status = o->in.longs < o->in.rows ? cg_run(o, GY_OP_GLM_STEP, 0) : GY_OK;
        if (status == GY_OK && o->in.longs)
            status = cg_run(o, GY_OP_GLM_STEP_LONG, 0);
    }
    if (status == GY_OK && cg_fetch(o, w2, dual2) == GY_OK) {
        apart = cg_apart(w2, w, o->w_count);
        const double more = cg_apart(dual2, dual, rows);
        apart = more > apart ? more : apart;
    }
    cg_put(o);
    free(w), free(dual), free(w2), free(dual2);
    return apart;
}

static void cg_sequential(struct cg_ops *o)
{
    static const struct { int form, count, width; uint32_t features; double bias, damping; } cases[] = {
        { CG_VALUES | CG_START, 45, 9, 60, 0, 1 }, { 0, 70, 39, 400, 1, 1 }, { CG_START | CG_SCALE | CG_WEIGHT, 33, 20, 90, 0.5, 2 },
        { CG_VALUES | CG_LONG, 23, 30, 3000, 1, 1.5 } };
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        if (!cg_prepare(o, loss, 1, 600))
            return;
        for (size_t k = 0; k < GY_COUNT(cases); k++) {
            struct cg_data d = cg_make(cases[k].form, cases[k].count, cases[k].width, cases[k].features, loss, 100 + k);
            const struct gy_glm_problem p = cg_problem(loss, 2, cases[k].bias);
            const double apart = cg_epochs(o, &d, &p, cases[k].damping);
            T_CHECK_MSG(apart >= 0 && apart < 2e-5, "%s, rows %zu: %g from the host's: %s", cg_losses[loss], k, apart, o->said);
            cg_free(&d);
        }
    }
}

/* ---- each row once, and its solution: row i has feature i alone, so that order does not matter ---- */

static int64_t cg_ulps(float a, float b)
{
    int32_t x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    const int64_t m = x < 0 ? (int64_t)INT32_MIN - x : x, n = y < 0 ? (int64_t)INT32_MIN - y : y;
    return m > n ? m - n : n - m;
}

/* Rows that were not visited once, with damping 3: a second visit would go on. */
static int64_t cg_singles(struct cg_ops *o, int loss, int count, int64_t *most)
{
    struct cg_data d = cg_make(CG_SINGLE | CG_VALUES | CG_WEIGHT, count, 1, (uint32_t)count, loss, 300 + (uint64_t)count);
    const struct gy_glm_problem p = cg_problem(loss, 0.7, 0);
    float *const w = cg_take((size_t)count), *const w2 = cg_take((size_t)count), *const dual = cg_take((size_t)count), *const dual2 = cg_take((size_t)count);
    int64_t wrong = 0;
    for (int i = 0; i < count; i++) {
        w[i] = (float)(8 * cg_random(9, (uint64_t)i) - 4);
        dual[i] = loss == GY_GLM_LOGISTIC ? (float)(10 * cg_random(8, (uint64_t)i) - 5) : 0.3f * (float)cg_random(8, (uint64_t)i);
        d.value[i] *= 3;
    }
    cg_send(o, &p, &d, w, dual);
    o->u.loss_scale = 3;
    o->u.step = (uint64_t)count;
    T_CHECK(cg_run(o, GY_OP_GLM_STEP, 0) == GY_OK && cg_fetch(o, w2, dual2) == GY_OK);
    for (int i = 0; i < count; i++) {
        const float y = gy_glm_y(&p, &d.rows, i), c = gy_glm_c(&p, &d.rows, i, y), v = d.value[i];
        const float want = c > 0 ? gy_glm_step(loss, y, v * w[i], dual[i], 3 * (v * v) * o->u.lr, c) : dual[i];
        const int64_t apart = fabsf(want) < 1e-6f && fabsf(dual2[i] - want) < 1e-6f ? 0 : cg_ulps(dual2[i], want);
        const double change = ((double)gy_glm_coefficient(loss, y, dual2[i], c) - (double)gy_glm_coefficient(loss, y, dual[i], c)) / 0.7 * (double)v;
        *most = apart > *most ? apart : *most;
        wrong += apart > 64 || fabs((double)w2[i] - (double)w[i] - (c > 0 ? change : 0)) > 1e-5;
    }
    cg_put(o);
    cg_free(&d);
    free(w), free(w2), free(dual), free(dual2);
    return wrong;
}

static void cg_once_each(struct cg_ops *o)
{
    static const int counts[] = { 1, 2, 31, 33, 64, 257, 600 };
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        int64_t most = 0;
        if (!cg_prepare(o, loss, loss == GY_GLM_SQUARED ? 24 : 8, 600))
            return;
        for (size_t k = loss == GY_GLM_SQUARED ? 0 : 5; k < GY_COUNT(counts); k++)
            T_CHECK_MSG(cg_singles(o, loss, counts[k], &most) == 0, "%s, %d rows: %s", cg_losses[loss], counts[k], o->said);
        T_CHECK_MSG(most <= (strcmp(cg_device, "emu") == 0 ? 4 : 64), "%s: %" PRId64 " units in the last place", cg_losses[loss], most);
    }
}

/* ---- scores and sums ---- */

static void cg_sums_of(struct cg_ops *o, int loss, const struct cg_data *d)
{
    const struct gy_glm_problem p = cg_problem(loss, 2, 0.7);
    const size_t rows = (size_t)d->rows.count;
    float *const w = cg_take(d->features + 1), *const made = cg_take(d->features + 1), *const dual = cg_take(rows), *const score = cg_take(rows);
    double got[4], want[4] = { 0, 0, 0, 0 }, square, most = 0, w_most = 0;
    for (uint32_t f = 0; f <= d->features; f++) {
        w[f] = (float)(cg_random(21, f) - 0.5);
        want[2] += (double)w[f] * (double)w[f];
        want[3] += fabs((double)w[f]);
    }
    for (size_t i = 0; i < rows; i++)
        dual[i] = (float)(cg_random(22, i) * 0.4);
    cg_send(o, &p, d, w, dual);
    T_CHECK(cg_run(o, GY_OP_GLM_SCORES, 1) == GY_OK && cg_run(o, GY_OP_GLM_SUMS, 1) == GY_OK && cg_run(o, GY_OP_GLM_SQUARES, 0) == GY_OK);
    T_CHECK(o->b->copy(o->self, score, o->score, 4 * rows, GY_COPY_TO_HOST) == GY_OK);
    T_CHECK(cg_run(o, GY_OP_GLM_SUMS, 0) == GY_OK); /* the conjugates once more */
    T_CHECK(o->b->copy(o->self, got, o->sums, sizeof got, GY_COPY_TO_HOST) == GY_OK && o->b->sync(o->self) == GY_OK);
    for (int i = 0; i < d->rows.count; i++) {
        const float y = gy_glm_y(&p, &d->rows, i), c = gy_glm_c(&p, &d->rows, i, y);
        const double z = cg_dot(d, &p, i, w, &square), apart = fabs((double)score[i] - z) / (1 + sqrt(square));
        most = !(apart <= most) ? apart : most;
        want[0] += c > 0 ? (double)c * gy_glm_value(loss, (double)y, (double)score[i]) : 0;
        want[1] += c > 0 ? 2 * gy_glm_conjugate(loss, (double)y, (double)dual[i], (double)c) : 0;
        if (!(c > 0))
            continue;
        for (uint32_t j = gy_rows_begin(&d->rows, i); j < gy_rows_end(&d->rows, i); j++)
            made[d->id[j]] += (float)((double)gy_glm_coefficient(loss, y, dual[i], c) * cg_value(&d->rows, i, j) / p.l2);
        made[d->features] += (float)((double)gy_glm_coefficient(loss, y, dual[i], c) * p.bias / p.l2);
    }
    T_CHECK_MSG(most < 1e-6, "%s: scores are off by %g", cg_losses[loss], most);
    for (int k = 0; k < 4; k++)
        T_CHECK_MSG(fabs(got[k] - want[k]) <= 1e-12 * fabs(want[k]), "%s: sum %d is %.15g, not %.15g", cg_losses[loss], k, got[k], want[k]);
    memset(w, 0, 4 * o->w_count);
    T_CHECK(o->b->copy(o->self, o->w, w, 4 * o->w_count, GY_COPY_TO_DEVICE) == GY_OK && cg_run(o, GY_OP_GLM_BUILD, 0) == GY_OK);
    T_CHECK(cg_fetch(o, w, dual) == GY_OK);
    w_most = cg_apart(w, made, o->w_count);
    T_CHECK_MSG(w_most < 1e-5, "%s: weights of dual numbers are off by %g", cg_losses[loss], w_most);
    cg_put(o);
    free(w), free(made), free(dual), free(score);
}

static void cg_sums(struct cg_ops *o)
{
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        struct cg_data d = cg_make(CG_VALUES | CG_LONG | CG_WEIGHT | CG_SCALE, 300, 12, 2300, loss, 40 + (uint64_t)loss);
        if (cg_prepare(o, loss, 8, 600))
            cg_sums_of(o, loss, &d);
        cg_free(&d);
    }
}

/* ---- whole runs ---- */

struct cg_feed {
    struct gy_glm_feed feed;
    const struct cg_data *d;
    int views, at, pass, shuffled;
    uint32_t *start;           /* of each view */
};

static int cg_shuffle(void *self, int on, uint64_t seed, struct gy_error *err)
{
    (void)seed, (void)err;
    ((struct cg_feed *)self)->shuffled = on;
    return GY_OK;
}

/* The rows in views of equal size, the last may be shorter; shuffled: each pass begins with another one. */
static int cg_next(void *self, struct gy_rows *rows, struct gy_error *err)
{
    struct cg_feed *f = self;
    const struct gy_rows *all = &f->d->rows;
    const int each = (all->count + f->views - 1) / f->views, which = f->shuffled ? (f->at + f->pass) % f->views : f->at;
    const int first = which * each, count = f->at < f->views ? (int)gy_min64(each, all->count - first) : 0;
    (void)err;
    *rows = *all;
    f->at = count > 0 ? f->at + 1 : 0;
    f->pass += count <= 0;
    rows->count = count;
    if (count <= 0)
        return GY_OK;
    const uint32_t begin = gy_rows_begin(all, first);
    uint32_t *const start = f->start + first + which;
    for (int i = 0; all->start && i <= count; i++)
        start[i] = all->start[first + i] - begin;
    rows->first = first;
    rows->start = all->start ? start : NULL;
    rows->id = all->id + begin;
    rows->value = all->value ? all->value + begin : NULL;
    rows->label += first;
    rows->weight = all->weight ? all->weight + first : NULL;
    rows->scale = all->scale ? all->scale + first : NULL;
    return GY_OK;
}

struct cg_model {
    struct gy_alloc alloc;
    struct cg_feed feed;
    struct gy_glm_problem problem;
    struct gy_glm_run run;
    struct gy_glm_device device;
    struct gy_error err;
    size_t most_used;          /* of device memory, while it ran */
    int stop_after;
    int checks;                /* of validation */
};

/* Bytes of device memory in use, on the emulator. */
static size_t cg_used(void)
{
    size_t left = 0, total = 0;
    return cg_memory && cg_memory(&left, &total) == 0 ? total - left : 0;
}

static int cg_progress(void *user, const struct gy_glm_progress *p)
{
    struct cg_model *m = user;
    const size_t used = cg_used();
    m->most_used = used > m->most_used ? used : m->most_used;
    return m->stop_after && p->epoch >= m->stop_after;
}

static void cg_model_make(struct cg_model *m, const struct cg_data *d, int loss, double l2, double bias, int views, int resident)
{
    memset(m, 0, sizeof *m);
    m->alloc = gy_alloc_default();
    m->problem = cg_problem(loss, l2, bias);
    m->feed = (struct cg_feed){ .feed = { .next = cg_next, .shuffle = resident ? NULL : cg_shuffle, .self = &m->feed,
                                          .rows = d->rows.count, .entries = d->entries, .all_rows = d->rows.count,
                                          .features = d->features, .most_rows = d->rows.count, .most_entries = d->entries, .views = views,
                                          .resident = resident }, .d = d, .views = views,
                                .start = cg_take((size_t)(d->rows.count + 2 * views)) };
    m->run = (struct gy_glm_run){ .problem = &m->problem, .feed = &m->feed.feed, .alloc = &m->alloc, .pool = cg_pool,
                                  .stop = { .gap = 1e-4, .epochs = 400 }, .seed = 3,
                                  .w = cg_take(d->features + 1), .dual = cg_take((size_t)d->rows.count), .progress = cg_progress, .user = m };
    m->device = (struct gy_glm_device){ .name = cg_device, .use_env = 1 };
}

static void cg_model_free(struct cg_model *m)
{
    free(m->feed.start);
    free(m->run.w);
    free(m->run.dual);
}

/* The gap of what came out, in double, from weights and dual numbers alone. */
static double cg_gap(const struct cg_model *m, double *primal)
{
    const struct cg_data *d = m->feed.d;
    const struct gy_glm_problem *p = &m->problem;
    double *const made = calloc(d->features + 1, sizeof *made), P = 0, D = 0, square;
    for (int i = 0; i < d->rows.count; i++) {
        const float y = gy_glm_y(p, &d->rows, i), c = gy_glm_c(p, &d->rows, i, y);
        const double a = (double)gy_glm_coefficient(p->loss, y, m->run.dual[i], c) / p->l2;
        if (!(c > 0))
            continue;
        P += (double)c * gy_glm_value(p->loss, (double)y, cg_dot(d, p, i, m->run.w, &square));
        D += gy_glm_conjugate(p->loss, (double)y, (double)m->run.dual[i], (double)c);
        for (uint32_t j = gy_rows_begin(&d->rows, i); j < gy_rows_end(&d->rows, i); j++)
            made[d->id[j]] += a * cg_value(&d->rows, i, j);
        made[d->features] += a * p->bias;
    }
    for (uint32_t f = 0; f < d->features + (p->bias != 0); f++) {
        const double size = fabs(made[f]) - p->l1 / p->l2;
        P += 0.5 * p->l2 * (double)m->run.w[f] * (double)m->run.w[f] + p->l1 * fabs((double)m->run.w[f]);
        D -= size > 0 ? 0.5 * p->l2 * size * size : 0;
    }
    free(made);
    *primal = P;
    return (P - D) / fabs(P);
}

/* One run to the gap; the primal objective, or 0. */
static double cg_solve(struct cg_model *m, const char *what)
{
    double primal = 0;
    const int status = gy_glm_solve_on(&m->run, &m->device, &m->err);
    T_CHECK_MSG(status == GY_OK, "%s: %s", what, m->err.text);
    if (status != GY_OK)
        return 0;
    const double gap = cg_gap(m, &primal);
    printf("%s: %d epochs, gap %.2g, objective %.9g\n", what, m->run.epochs, gap, primal);
    T_CHECK_MSG(m->run.why && strcmp(m->run.why, "gap") == 0, "%s: %s", what, m->run.why ? m->run.why : "no reason");
    T_CHECK_MSG(gap >= -1e-9 && gap <= 1.01 * m->run.stop.gap, "%s: gap %g", what, gap);
    T_CHECK_MSG(fabs(m->run.result.primal - primal) <= 1e-6 * fabs(primal), "%s: certificate says %.12g, not %.12g", what, m->run.result.primal, primal);
    return primal;
}

/* All losses and forms, with as many rows at a time as the device takes. */
static void cg_runs(void)
{
    static const struct { int form, width; uint32_t features; double l2, bias, l1; } cases[GY_GLM_LOSSES] = {
        { CG_VALUES, 13, 13, 1, 1, 0 }, { CG_START | CG_SCALE, 12, 200, 3, 0, 2 }, { CG_START | CG_VALUES | CG_WEIGHT, 10, 150, 4, 1, 0 },
        { CG_VALUES | CG_LONG, 10, 2100, 20, 0, 0 } };
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        struct cg_data d = cg_make(cases[loss].form, loss == GY_GLM_SQUARED_HINGE ? 120 : 300, cases[loss].width, cases[loss].features, loss, 900);
        struct cg_model m;
        cg_model_make(&m, &d, loss, cases[loss].l2, cases[loss].bias, 2, 1);
        m.problem.l1 = cases[loss].l1;
        cg_solve(&m, cg_losses[loss]);
        cg_model_free(&m);
        cg_free(&d);
    }
}

/* With an eighth of the data's bytes beside the model: views one after another, with dual numbers on the device or on their way, and rows in memory, which
 * are mixed. The same optimum, never more memory. In a fixed order the gap closes slowly: `loose` is asked there. */
static void cg_streamed(const struct cg_data *d, double l2, double loose, const char *what)
{
    const size_t model = 8 * (size_t)d->features + 8192, whole = gy_glm_pack_most(d->rows.count, d->entries), rows = 8 * (size_t)d->rows.count;
    const struct { size_t memory; int views, resident; } cases[] = { { 0, 1, 1 }, { model + whole / 8 + rows, 3, 0 }, { model + whole / 8, 2, 0 },
                                                                     { model + whole / 8, 4, 1 } };
    double first = 0;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        struct cg_model m;
        char name[100];
        snprintf(name, sizeof name, "%s in %zu bytes", what, cases[i].memory);
        cg_model_make(&m, d, GY_GLM_LOGISTIC, l2, 0, cases[i].views, cases[i].resident);
        m.device.memory = cases[i].memory;
        m.run.stop.gap = cases[i].resident ? 1e-4 : loose;
        const double primal = cg_solve(&m, name);
        T_CHECK_MSG(i == 0 || fabs(primal - first) <= m.run.stop.gap * first, "%s: %.9g is not %.9g", name, primal, first);
        T_CHECK_MSG(i == 0 || m.most_used < cases[i].memory + 4096, "%s: %zu bytes were in use", name, m.most_used);
        T_CHECK(i == 0 || strcmp(cg_device, "emu") != 0 || m.most_used > cases[i].memory / 4);
        T_CHECK(i == 0 || m.run.epochs < 45);
        first = i == 0 ? primal : first;
        cg_model_free(&m);
    }
}

static void cg_streams(void)
{
    struct cg_data d = cg_make(CG_START | CG_VALUES, 900, 16, 300, GY_GLM_LOGISTIC, 1200);
    cg_streamed(&d, 5, 1e-4, "generated rows");
    cg_free(&d);
}

/* The first rows of a9a, as the file has them. */
static int cg_read_a9a(struct cg_data *d, int count)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    const char *const folder = getenv("GYRE_TEST_DATA");
    FILE *const f = folder && gy_file_join(path, sizeof path, folder, "glm/a9a", NULL) == 0 ? fopen(path, "r") : NULL;
    if (!f)
        return 0;
    *d = (struct cg_data){ .features = 123, .start = cg_take((size_t)count + 1), .id = cg_take((size_t)count * 15), .label = cg_take((size_t)count) };
    int i = 0;
    for (; i < count && getline(&line, &room, f) > 0; i++) {
        char *at = line;
        d->label[i] = (float)strtol(at, &at, 10);
        for (d->start[i + 1] = d->start[i]; *at == ' ' && at[1] >= '0'; d->start[i + 1]++) {
            d->id[d->start[i + 1]] = (uint32_t)strtol(at, &at, 10) - 1;
            at += strcspn(at, " \n");
        }
    }
    free(line);
    fclose(f);
    d->entries = d->start[i];
    d->rows = (struct gy_rows){ .count = i, .start = d->start, .id = d->id, .same = 1, .label = d->label };
    return 1;
}

static void cg_a9a(void)
{
    struct cg_data d;
    if (!cg_read_a9a(&d, 2000)) {
        T_SKIP("a9a: no GYRE_TEST_DATA");
        return;
    }
    T_CHECK(d.rows.count == 2000 && d.entries > 20000);
    cg_streamed(&d, 10, 1e-3, "a9a");
    cg_free(&d);
}

/* A run that the caller stops, and one that goes on from its dual numbers. */
static void cg_stopped(void)
{
    struct cg_data d = cg_make(CG_START | CG_VALUES, 300, 12, 80, GY_GLM_LOGISTIC, 77);
    struct cg_model m;
    double primal;
    cg_model_make(&m, &d, GY_GLM_LOGISTIC, 3, 0, 1, 1);
    m.stop_after = 8;
    m.run.stop.gap = 1e-9;
    T_CHECK(gy_glm_solve_on(&m.run, &m.device, &m.err) == GY_E_STOPPED && m.run.epochs == 8);
    const double gap = cg_gap(&m, &primal);
    T_CHECK_MSG(gap < 0.2 && gap > 0, "%g", gap);
    m.stop_after = 0;
    m.run.has_dual = 1;
    m.run.first_epoch = 8;
    m.run.stop.gap = 1e-4;
    memset(m.run.w, 0, 4 * (size_t)d.features);
    cg_solve(&m, "resumed");
    cg_model_free(&m);
    cg_free(&d);
}

static int cg_validate(void *user, const float *w, double *loss, struct gy_error *err)
{
    struct cg_model *const m = user;
    (void)w, (void)err;
    *loss = fmax(6, 9 - m->checks++);
    return GY_OK;
}

/* Losses 9, 8, 7, 6 and 6 again: at the seventh, three checks have brought nothing. */
static void cg_validated(void)
{
    struct cg_data d = cg_make(CG_START | CG_VALUES, 300, 12, 80, GY_GLM_LOGISTIC, 77);
    struct cg_model m;
    cg_model_make(&m, &d, GY_GLM_LOGISTIC, 3, 0, 1, 1);
    m.run.stop = (struct gy_glm_stop){ .validation = 0.01, .epochs = 400 };
    m.run.validate = cg_validate;
    T_CHECK_MSG(gy_glm_solve_on(&m.run, &m.device, &m.err) == GY_OK, "%s", m.err.text);
    T_CHECK_MSG(m.checks == 7 && m.run.why && strcmp(m.run.why, "validation") == 0, "%d checks, %s", m.checks, m.run.why ? m.run.why : "no reason");
    cg_model_free(&m);
    cg_free(&d);
}

/* ---- ranks ---- */

struct cg_shared {
    float w[64], dual[400];
    double primal[2];
    int epochs[2];
};

enum { CG_RANK_ROWS = 200, CG_RANK_WIDTH = 8 };
static struct cg_data cg_rank_data(void) { return cg_make(CG_VALUES, 2 * CG_RANK_ROWS, CG_RANK_WIDTH, 40, GY_GLM_LOGISTIC, 600); }

/* Half of the rows. */
static int cg_rank(void *user, struct gyre_job *job, int rank)
{
    struct cg_shared *shared = user;
    struct cg_data whole = cg_rank_data(), half = whole;
    struct cg_model m;
    const struct gy_alloc alloc = gy_alloc_default();
    if (gy_pool_open(&cg_pool, &alloc, 1, NULL) != GY_OK)
        return 0;
    half.rows.count = CG_RANK_ROWS;
    half.entries = CG_RANK_ROWS * CG_RANK_WIDTH;
    half.rows.id += rank * half.entries;
    half.rows.value += rank * half.entries;
    half.rows.label += rank * CG_RANK_ROWS;
    cg_model_make(&m, &half, GY_GLM_LOGISTIC, 2, 0, 2, 1);
    m.feed.feed.all_rows = 2 * CG_RANK_ROWS;
    m.run.job = job;
    if (gy_glm_solve_on(&m.run, &m.device, &m.err) != GY_OK)
        printf("rank %d: %s\n", rank, m.err.text);
    memcpy(shared->w, m.run.w, 4 * (size_t)half.features);
    memcpy(shared->dual + rank * CG_RANK_ROWS, m.run.dual, 4 * CG_RANK_ROWS);
    shared->primal[rank] = m.run.result.primal;
    shared->epochs[rank] = m.run.epochs;
    cg_model_free(&m);
    cg_free(&whole);
    gy_pool_close(cg_pool);
    cg_pool = NULL;
    return 1;
}

/* Two ranks, each with a device: the optimum of all rows. */
static void cg_ranks(void)
{
    struct cg_shared *const shared = gr_memory(sizeof *shared);
    struct cg_data d = cg_rank_data();
    struct cg_model m;
    double primal;
    T_CHECK(gr_run(2, cg_rank, shared));
    cg_model_make(&m, &d, GY_GLM_LOGISTIC, 2, 0, 1, 1);
    memcpy(m.run.w, shared->w, 4 * (size_t)d.features);
    memcpy(m.run.dual, shared->dual, sizeof shared->dual);
    const double gap = cg_gap(&m, &primal);
    printf("two ranks: %d epochs, gap %.2g, objective %.9g\n", shared->epochs[0], gap, primal);
    T_CHECK_MSG(gap >= -1e-9 && gap <= 1.01e-4 && shared->epochs[0] == shared->epochs[1], "%g after %d and %d epochs", gap, shared->epochs[0],
                shared->epochs[1]);
    T_CHECK(shared->primal[0] == shared->primal[1] && fabs(shared->primal[0] - primal) <= 1e-6 * primal);
    cg_model_free(&m);
    cg_free(&d);
}

static void cg_refuse(const struct cg_data *d, int which, int status, const char *says)
{
    struct cg_model m;
    cg_model_make(&m, d, GY_GLM_LOGISTIC, 3, 1, 1, 1);
    m.problem.l2 = which == 0 ? 0 : 3;
    m.problem.bias_free = which == 1;
    m.device.memory = which == 2 ? 10000 : which == 3 ? 16000 : 0;
    m.device.name = which == 4 ? "abacus" : cg_device;
    const int got = gy_glm_solve_on(&m.run, &m.device, &m.err);
    T_CHECK_MSG(got == status && strstr(m.err.text, says), "%d: %d, %s", which, got, m.err.text);
    cg_model_free(&m);
}

static void cg_refusals(void)
{
    static const struct { int status; const char *says; } cases[] = { { GY_E_UNSUPPORTED, "an l2 above 0" }, { GY_E_UNSUPPORTED, "a bias that is penalised" },
        { GY_E_NOMEM, "10000 bytes is too little" }, { GY_E_NOMEM, "has 300 entries and does not fit" }, { GY_E_NODEVICE, "'abacus' is not known" } };
    struct cg_data d = cg_make(CG_VALUES | CG_LONG, 30, 12, 600, GY_GLM_LOGISTIC, 6);
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_op op = { .code = GY_OP_GLM_STEP, .geom = { .n = 8, .k = 8 } };
    struct gy_error err = { 0 };
    void *cpu = NULL;
    for (size_t i = 0; i < GY_COUNT(cases); i++)
        cg_refuse(&d, (int)i, cases[i].status, cases[i].says);
    if (T_CHECK(gy_cpu_backend()->open(&cpu, &(struct gy_backend_config){ .alloc = &alloc, .threads = 1 }, &err) == GY_OK)) {
        T_CHECK(gy_cpu_backend()->prepare(cpu, &op, &err) == GY_E_UNSUPPORTED && strstr(err.text, "linear models"));
        gy_cpu_backend()->close(cpu);
    }
    cg_free(&d);
}

/* ---- kernels that are wrong on purpose ---- */

/* glm.cu with one place changed. */
static char *cg_spoil(const char *from, const char *to)
{
    const char *const text = gy_cuda_source("glm.cu"), *const at = strstr(text, from);
    if (!T_CHECK(at != NULL))
        return NULL;
    const size_t bytes = strlen(text) + strlen(to) + 1;
    char *const out = calloc(1, bytes);
    snprintf(out, bytes, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

/* The emulator as after a new start: a device that failed stays so. */
static void cg_reset(struct cg_ops *o)
{
    int (*reset)(void) = NULL;
    void *const symbol = dlsym(o->self->lib.runtime, "cudaDeviceReset");
    memcpy(&reset, &symbol, sizeof reset);
    T_CHECK(reset && reset() == 0);
}

static void cg_faults(void)
{
    static const struct { const char *from, *to, *says; /* of the emulator; NULL: the values are wrong */ int rows; } faults[] = {
        { "gy_atomic_add(w + v->id[j], scaled * (v->value ? v->value[j] : v->same))", "w[v->id[j]] += scaled * (v->value ? v->value[j] : v->same)",
          "race: ", 8 },
        { "gy_load_live(w + id)", "w[id]", "race: ", 8 },
        { "while (x >= (uint32_t)count)", "while (x < 0)", "out of bounds", 1 },
        { "u->loss_scale * square * u->lr", "square * u->lr", NULL, 1 },
        { "(uint64_t)round << 32 | right", "(uint64_t)(round + 1) << 32 | right", NULL, 1 } };
    struct cg_data d = cg_make(CG_VALUES | CG_START, 45, 9, 60, GY_GLM_LOGISTIC, 100);
    const struct gy_glm_problem p = cg_problem(GY_GLM_LOGISTIC, 2, 0);
    for (size_t i = 0; i < GY_COUNT(faults); i++) {
        struct cg_ops o;
        char *const text = cg_spoil(faults[i].from, faults[i].to);
        if (!text || !T_CHECK(cg_open(&o)))
            return;
        o.text = text;
        setenv("GYRE_EMU_QUIET", "1", 1);
        if (cg_prepare(&o, GY_GLM_LOGISTIC, faults[i].rows, 600)) {
            const double apart = cg_epochs(&o, &d, &p, 2);
            T_CHECK_MSG(faults[i].says ? apart < 0 && strstr(o.said, faults[i].says) : apart > 1e-3, "fault %zu: %g, %s", i, apart, o.said);
        }
        unsetenv("GYRE_EMU_QUIET");
        if (faults[i].says)
            cg_reset(&o);
        o.b->close(o.self);
        free(text);
    }
    cg_free(&d);
}

int main(int argc, char **argv)
{
    struct cg_ops o;
    cg_device = argc > 1 ? argv[1] : "emu";
    setvbuf(stdout, NULL, _IOLBF, 4096);
#ifdef CG_NO_EMULATOR
    if (strcmp(cg_device, "emu") == 0) {
        T_SKIP("no emulator under ThreadSanitizer");
        T_END("t_cuda_glm");
    }
#endif
    if (!cg_open(&o))
        T_END("t_cuda_glm");
    if (strcmp(cg_device, "emu") == 0) { /* forks: nothing may be open */
        o.b->close(o.self);
        cg_ranks();
        T_CHECK(cg_open(&o));
    }
    const struct gy_alloc alloc = gy_alloc_default();
    void *const symbol = dlsym(o.self->lib.runtime, "cudaMemGetInfo");
    if (!T_CHECK(gy_pool_open(&cg_pool, &alloc, 2, NULL) == GY_OK))
        T_END("t_cuda_glm");
    if (strcmp(cg_device, "emu") == 0) /* of a GPU others have a part */
        memcpy(&cg_memory, &symbol, sizeof symbol);
    cg_sequential(&o);
    cg_once_each(&o);
    cg_sums(&o);
    cg_runs();
    cg_streams();
    cg_a9a();
    cg_stopped();
    cg_validated();
    cg_refusals();
    o.b->close(o.self); /* until here: it holds the library */
    if (strcmp(cg_device, "emu") == 0)
        cg_faults();
    gy_pool_close(cg_pool);
    T_END("t_cuda_glm");
}
