/* SPDX-License-Identifier: MIT */
/* glm_device_ops.h: the kernels of glm.cu op by op on a device, beside plain loops on the host in
 * the same order of rows. It checks that each row is visited once, scores and sums. */
#ifndef GY_GLM_DEVICE_OPS_H
#define GY_GLM_DEVICE_OPS_H
#include "engine/base/file.h"
#include "kernels/devices.h"
#include "engine/glm/glm_model.h"
#include "engine/glm/solve/glm_device.h"
#include "kernels/cuda/plans.h"
#include "kernels/cuda/variants.h"
#include "engine/glm/solve/glm_device_window.h"
#include "kernels/glm_window.h"
#include "tests/device_here.h"
#include "tests/glm_ranks.h"
#include "tests/glm_rows.h"
#include "tests/t.h"

#include <dlfcn.h>

static const char *cg_device = "emu";
static struct gy_pool *cg_pool;
static int (*cg_memory)(size_t *left, size_t *total); /* cudaMemGetInfo */
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
        good = (o->text ? gy_cuda_prepare_cut(o->self, op, row, &cut, &err) : o->b->prepare(o->self, op, NULL, &err)) == GY_OK;
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

/* All rows as one window, with these weights and dual variables. */
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
    o->u = (struct gy_uniform){ .seed = 5, .lr = (float)(1 / problem->l2), .loss_scale = 1, .bias1 = (float)problem->bias };
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
    dual[i] = gy_glm_loss_of(p)->step(y, z, old, (float)(damping * square / p->l2), c);
    const double change = ((double)gy_glm_loss_of(p)->coefficient(y, dual[i], c) - (double)gy_glm_loss_of(p)->coefficient(y, old, c)) / p->l2;
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

/* Runs two epochs with one warp; long rows run with one block. Returns the largest difference from
 * the host's result; -1: the device failed. */
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
            T_CHECK_MSG(apart >= 0 && apart < 2e-5, "%s, rows %zu: %g from the host's: %s", gy_glm_loss_name(loss), k, apart, o->said);
            cg_free(&d);
        }
    }
}

/* ---- each row once, and its solution. Row i has only feature i: any order is right ---- */

/* |a - b| in units in the last place of size. */
static int64_t cg_ulps(float a, float b, float size)
{
    int exponent;
    (void)frexpf(size, &exponent);
    return (int64_t)ceil(fabs((double)a - (double)b) / ldexp(1, exponent - 24));
}

/* The largest number that a step of a dual variable adds up. A GPU fuses products and sums, the
 * host does not. Their results differ by a rounding error of this number, even where the sum is
 * near 0. */
static float cg_step_size(float want, float dual, float y, float z)
{
    return strcmp(cg_device, "emu") == 0 ? fabsf(want) : fmaxf(fmaxf(fabsf(want), fabsf(dual)), fmaxf(fabsf(y), fabsf(z)));
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
        const float want = c > 0 ? gy_glm_loss_at(loss)->step(y, v * w[i], dual[i], 3 * (v * v) * o->u.lr, c) : dual[i];
        const int64_t apart = fabsf(want) < 1e-6f && fabsf(dual2[i] - want) < 1e-6f ? 0 :
                              cg_ulps(dual2[i], want, cg_step_size(want, dual[i], y, v * w[i]));
        const struct gy_glm_loss *const row = gy_glm_loss_at(loss);
        const double change = ((double)row->coefficient(y, dual2[i], c) - (double)row->coefficient(y, dual[i], c)) / 0.7 * (double)v;
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
            T_CHECK_MSG(cg_singles(o, loss, counts[k], &most) == 0, "%s, %d rows: %s", gy_glm_loss_name(loss), counts[k], o->said);
        T_CHECK_MSG(most <= (strcmp(cg_device, "emu") == 0 ? 4 : 64), "%s: %" PRId64 " units in the last place", gy_glm_loss_name(loss), most);
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
        want[0] += c > 0 ? (double)c * gy_glm_loss_at(loss)->value((double)y, (double)score[i]) : 0;
        want[1] += c > 0 ? 2 * gy_glm_conjugate(gy_glm_loss_at(loss), (double)y, (double)dual[i], (double)c) : 0;
        if (!(c > 0))
            continue;
        for (uint32_t j = gy_rows_begin(&d->rows, i); j < gy_rows_end(&d->rows, i); j++)
            made[d->id[j]] += (float)((double)gy_glm_loss_at(loss)->coefficient(y, dual[i], c) * cg_value(&d->rows, i, j) / p.l2);
        made[d->features] += (float)((double)gy_glm_loss_at(loss)->coefficient(y, dual[i], c) * p.bias / p.l2);
    }
    T_CHECK_MSG(most < 1e-6, "%s: scores are off by %g", gy_glm_loss_name(loss), most);
    for (int k = 0; k < 4; k++)
        T_CHECK_MSG(fabs(got[k] - want[k]) <= 1e-12 * fabs(want[k]), "%s: sum %d is %.15g, not %.15g", gy_glm_loss_name(loss), k, got[k], want[k]);
    memset(w, 0, 4 * o->w_count);
    T_CHECK(o->b->copy(o->self, o->w, w, 4 * o->w_count, GY_COPY_TO_DEVICE) == GY_OK && cg_run(o, GY_OP_GLM_BUILD, 0) == GY_OK);
    T_CHECK(cg_fetch(o, w, dual) == GY_OK);
    w_most = cg_apart(w, made, o->w_count);
    T_CHECK_MSG(w_most < 1e-5, "%s: weights of dual numbers are off by %g", gy_glm_loss_name(loss), w_most);
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

#endif
