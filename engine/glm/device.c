/* SPDX-License-Identifier: MIT */
/* Stochastic dual coordinate ascent on a device. Rows go there as windows (glm_window.h), through two pieces of pinned memory: while the device trains on
 * one, the next is packed by the host and copied. Where all windows fit they stay, and a pass is launches alone; where not, two pieces of
 * device memory take turns, and where not even the dual numbers of all rows fit, these travel with their window, there and back.
 *
 *     host      pack 0 | pack 1 | pack 2 (when copy 0 has left) ...
 *     COPY      copy 0 | copy 1 | copy 2 (when the device is done with 0) ...
 *     WORK               train 0 | train 1 ...
 *     PEERS                        duals of 0 back | ...
 *
 * Rows on the device go on at the same time, which makes their steps too long together; the damping factor s shortens them. It begins with how alike rows
 * are; after an epoch that let the dual objective fall, weights and dual numbers go back to what they were and s doubles, after a good one
 * it becomes a little smaller. The dual objective of an epoch costs next to nothing, the primal one a pass: it is made every few epochs.
 * Who decides is the host's certificate, in double: what the device believes to be enough is checked there before the run ends. */
#include "device.h"
#include "../../kernels/backend.h"
#include "../../kernels/glm_window.h"
#include "../base/clock.h"
#include "../base/rng.h"
#include "../device.h"
#include "../gyre.h"
#include "../op.h"

#ifndef GY_NO_CUDA

enum { GLD_STEP, GLD_LONG, GLD_BUILD, GLD_SCORES, GLD_SUMS, GLD_SQUARES, GLD_OPS };
enum { GLD_TRAIN, GLD_MAKE_W, GLD_LOOK }; /* what a pass does */
enum { GLD_SENT = GY_MARK_BUCKET, GLD_DONE = GLD_SENT + 2, GLD_BACK = GLD_DONE + 2 };
enum { GLD_LOSS, GLD_CONJUGATE, GLD_SQUARE, GLD_TOTALS = 4 };

#define GLD_WINDOW ((size_t)64 << 20) /* bytes of a window, at most */
#define GLD_EVERY 4                   /* epochs from one look at the gap to the next */
#define GLD_ANEW 16                   /* epochs after which w is made anew from the dual numbers */
#define GLD_RIVALS 8                  /* damping factor with which a run shall begin, at most: fewer rows at a time where rows are alike */
#define GLD_WARPS 64                  /* of a multiprocessor */
#define GLD_SMALL 8192                /* bytes for sums and alignment */
#define GLD_LEAST 1024                /* bytes of a window */

struct gld_window {          /* one that stays on the device */
    void *at;
    size_t bytes;
    int64_t first;
    struct gy_glm_packed in;
};

struct gld_slot {
    void *host, *device;     /* pinned; device NULL where windows stay */
    struct gy_glm_packed in; /* what is there */
    int64_t first;
    int back;                /* its dual numbers are on their way to the host */
};

struct gld {
    struct gy_glm_run *run;
    const struct gy_backend *b;
    void *self;
    struct gy_error err;
    const struct gy_log *log_to;
    struct gy_log log;
    char said[256];          /* the device's last error */
    struct gy_glm_pack pack;
    struct gy_uniform u;
    struct gy_op op[GLD_OPS];
    int64_t weights;         /* floats of w */
    size_t limit, used;      /* bytes of device memory */
    float *w, *w_kept, *dual, *dual_kept, *score;   /* on the device; dual NULL: they travel */
    double *totals, *parts;
    double *totals_host;     /* pinned: what came back, then zeros */
    float *host_dual, *host_kept;
    struct gld_slot slot[2];
    struct gld_window *window;
    int windows, room;       /* known so far, and in the list */
    int stays, loaded;       /* windows stay on the device; all are there */
    struct gy_rows head;     /* the first view, looked at before the first pass */
    int has_head, started;   /* a view is there; it was trained on */
    double damping, best;    /* s; dual objective of what is kept */
    int64_t began, visited;
    double losses[4];        /* of the last checks, on other rows */
    int checks;
};

/* ---- memory ---- */

static void gld_say(void *user, int level, const char *text)
{
    struct gld *d = user;
    if (level == GY_LOG_ERROR)
        gy_text_copy(d->said, sizeof d->said, text);
    gy_log_write(d->log_to, level, "%s", text);
}

static int gld_get(struct gld *d, size_t bytes, int kind, void **out)
{
    if (kind == GY_MEM_DEVICE && (d->used > d->limit || bytes > d->limit - d->used))
        return GY_FAIL(&d->err, GY_E_NOMEM, "the model and its rows need more than the %zu bytes of device memory that are allowed", d->limit);
    GY_TRY(d->b->mem_get(d->self, bytes, kind, out, &d->err));
    d->used += kind == GY_MEM_DEVICE ? bytes : 0;
    return GY_OK;
}

static void gld_put(struct gld *d, void *ptr, size_t bytes, int kind)
{
    if (!ptr)
        return;
    d->b->mem_put(d->self, ptr, bytes, kind);
    d->used -= kind == GY_MEM_DEVICE ? bytes : 0;
}

static size_t gld_w_bytes(const struct gld *d) { return (size_t)d->weights * sizeof(float); }
static size_t gld_dual_bytes(const struct gld *d) { return (size_t)d->run->feed->rows * sizeof(float); }
static size_t gld_score_bytes(const struct gld *d) { return (size_t)d->pack.most_rows * sizeof(float); }

/* How the memory is dealt: the model first, twice; dual numbers, twice, where they leave half of it; of the rest four ninths for each of two windows,
 * one for scores. */
static int gld_deal(struct gld *d, size_t memory, int *travel)
{
    const struct gy_glm_feed *feed = d->run->feed;
    const size_t fixed = 2 * gld_w_bytes(d) + GLD_SMALL, duals = 2 * gld_dual_bytes(d), whole = gy_glm_pack_most(feed->rows, feed->entries);
    d->limit = memory ? memory : SIZE_MAX / 2;
    const size_t left = d->limit > fixed ? d->limit - fixed : 0;
    *travel = duals > left / 2;
    const size_t each = (left - (*travel ? 0 : duals)) / 9 * 4, most = each < GLD_WINDOW ? each : GLD_WINDOW;
    d->pack.room = (most < whole ? most : gy_align_up(whole, 256)) & ~(size_t)255;
    if (d->pack.room < GLD_LEAST)
        return GY_FAIL(&d->err, GY_E_NOMEM, "device memory of %zu bytes is too little: the model of %" PRId64 " weights needs %zu, windows of rows %d more",
                       d->limit, d->weights, fixed, GLD_LEAST * 9 / 4);
    d->pack.most_rows = (int32_t)gy_max64(1, gy_min64((int64_t)(d->pack.room / 16), feed->rows));
    d->pack.duals = *travel;
    d->stays = !*travel;
    return GY_OK;
}

static int gld_get_all(struct gld *d, int travel)
{
    const struct gy_glm_feed *feed = d->run->feed;
    void *p[8] = { NULL };
    const struct { size_t bytes; int kind; void **out; } list[] = {
        { gld_w_bytes(d), GY_MEM_DEVICE, &p[0] }, { gld_w_bytes(d), GY_MEM_DEVICE, &p[1] }, { gld_score_bytes(d), GY_MEM_DEVICE, &p[2] },
        { GLD_TOTALS * sizeof(double), GY_MEM_DEVICE, &p[3] }, { d->op[GLD_SUMS].scratch_bytes, GY_MEM_DEVICE, &p[4] },
        { 2 * GLD_TOTALS * sizeof(double), GY_MEM_HOST, &p[5] }, { travel ? 0 : gld_dual_bytes(d), GY_MEM_DEVICE, &p[6] },
        { travel ? 0 : gld_dual_bytes(d), GY_MEM_DEVICE, &p[7] } };
    int status = GY_OK;
    for (size_t i = 0; i < GY_COUNT(list) && status == GY_OK; i++)
        status = list[i].bytes ? gld_get(d, list[i].bytes, list[i].kind, list[i].out) : GY_OK;
    d->w = p[0], d->w_kept = p[1], d->score = p[2], d->totals = p[3], d->parts = p[4], d->totals_host = p[5], d->dual = p[6], d->dual_kept = p[7];
    for (int i = 0; i < 2 && status == GY_OK; i++)
        status = gld_get(d, d->pack.room, GY_MEM_HOST, &d->slot[i].host);
    for (int i = 0; i < 2 && status == GY_OK && travel; i++)
        status = gld_get(d, d->pack.room, GY_MEM_DEVICE, &d->slot[i].device);
    GY_TRY(status);
    d->host_dual = d->run->dual ? d->run->dual : gy_alloc_take(d->run->alloc, (size_t)feed->rows, sizeof(float));
    d->host_kept = travel ? gy_alloc_take(d->run->alloc, (size_t)feed->rows, sizeof(float)) : NULL;
    if (!d->host_dual || (travel && !d->host_kept))
        return GY_NOMEM(&d->err, "dual numbers", gld_dual_bytes(d));
    return GY_OK;
}

static void gld_drop_windows(struct gld *d)
{
    for (int i = 0; i < d->windows; i++)
        gld_put(d, d->window[i].at, d->window[i].bytes, GY_MEM_DEVICE);
    d->windows = 0;
    d->loaded = 0;
}

static void gld_put_all(struct gld *d)
{
    const size_t w = gld_w_bytes(d), duals = gld_dual_bytes(d);
    gld_drop_windows(d);
    gy_alloc_free(d->run->alloc, d->window, (size_t)d->room * sizeof *d->window);
    for (int i = 0; i < 2; i++) {
        gld_put(d, d->slot[i].device, d->pack.room, GY_MEM_DEVICE);
        gld_put(d, d->slot[i].host, d->pack.room, GY_MEM_HOST);
    }
    gld_put(d, d->w, w, GY_MEM_DEVICE);
    gld_put(d, d->w_kept, w, GY_MEM_DEVICE);
    gld_put(d, d->score, gld_score_bytes(d), GY_MEM_DEVICE);
    gld_put(d, d->totals, GLD_TOTALS * sizeof(double), GY_MEM_DEVICE);
    gld_put(d, d->parts, d->op[GLD_SUMS].scratch_bytes, GY_MEM_DEVICE);
    gld_put(d, d->totals_host, 2 * GLD_TOTALS * sizeof(double), GY_MEM_HOST);
    gld_put(d, d->dual, duals, GY_MEM_DEVICE);
    gld_put(d, d->dual_kept, duals, GY_MEM_DEVICE);
    gy_alloc_free(d->run->alloc, d->host_kept, duals);
    if (!d->run->dual)
        gy_alloc_free(d->run->alloc, d->host_dual, duals);
}

/* ---- one window ---- */

static int gld_run(struct gld *d, int which, void *x, float *dual, float *score, double *sums)
{
    struct gy_op *op = &d->op[which];
    op->ptr[GY_X] = x;
    op->ptr[GY_W] = d->w;
    op->ptr[GY_M] = dual;
    op->ptr[GY_Y] = score;
    op->ptr[GY_SUMS] = sums;
    op->ptr[GY_SCRATCH] = d->parts;
    return d->b->run(d->self, op);
}

/* What a pass does with a window that is on the device. number: of the window, names its order. */
static int gld_work(struct gld *d, int what, void *x, const struct gy_glm_packed *in, float *dual, int epoch, int number)
{
    d->u.step = (uint64_t)epoch << 32 | (uint32_t)number;
    d->u.loss_scale = (float)d->damping;
    if (what == GLD_MAKE_W)
        return gld_run(d, GLD_BUILD, x, dual, NULL, NULL);
    if (what == GLD_LOOK) {
        GY_TRY(gld_run(d, GLD_SCORES, x, NULL, d->score, NULL));
        return gld_run(d, GLD_SUMS, x, dual, d->score, d->totals);
    }
    if (in->longs < in->rows)
        GY_TRY(gld_run(d, GLD_STEP, x, dual, NULL, NULL));
    if (in->longs)
        GY_TRY(gld_run(d, GLD_LONG, x, dual, NULL, NULL));
    return gld_run(d, GLD_SUMS, x, dual, NULL, d->totals);
}

/* The dual numbers that came back to a slot go to their place. */
static int gld_take_back(struct gld *d, int s)
{
    struct gld_slot *slot = &d->slot[s];
    if (!slot->back)
        return GY_OK;
    GY_TRY(d->b->reach(d->self, GLD_BACK + (unsigned)s));
    memcpy(d->host_dual + slot->first, (const unsigned char *)slot->host + slot->in.dual, (size_t)slot->in.rows * sizeof(float));
    slot->back = 0;
    return GY_OK;
}

static int gld_send_back(struct gld *d, int s)
{
    struct gld_slot *slot = &d->slot[s];
    const size_t bytes = (size_t)slot->in.rows * sizeof(float);
    GY_TRY(d->b->wait(d->self, GY_QUEUE_PEERS, GLD_DONE + (unsigned)s));
    GY_TRY(d->b->copy_on(d->self, GY_QUEUE_PEERS, (unsigned char *)slot->host + slot->in.dual, (unsigned char *)slot->device + slot->in.dual, bytes,
                         GY_COPY_TO_HOST));
    GY_TRY(d->b->mark(d->self, GY_QUEUE_PEERS, GLD_BACK + (unsigned)s));
    slot->back = 1;
    return GY_OK;
}

/* Windows do not fit: from here on two pieces take turns. */
static int gld_stop_staying(struct gld *d)
{
    d->stays = 0;
    GY_TRY(d->b->sync(d->self));
    gld_drop_windows(d);
    d->err.text[0] = 0;
    for (int i = 0; i < 2; i++)
        GY_TRY(gld_get(d, d->pack.room, GY_MEM_DEVICE, &d->slot[i].device));
    return GY_OK;
}

/* A place of its own for the slot's window; *out NULL: there is none, windows take turns. Room for the two that take turns is kept free. */
static int gld_place(struct gld *d, const struct gld_slot *slot, void **out)
{
    *out = NULL;
    if (d->windows == d->room) {
        const size_t more = (size_t)d->room + 64;
        struct gld_window *const list = gy_alloc_grow(d->run->alloc, d->window, (size_t)d->room, more, sizeof *list);
        if (!list)
            return GY_NOMEM(&d->err, "the list of windows", more * sizeof *list);
        d->window = list;
        d->room = (int)more;
    }
    const int status = gld_get(d, slot->in.bytes, GY_MEM_DEVICE, out);
    if (status == GY_E_NOMEM)
        return gld_stop_staying(d);
    GY_TRY(status);
    d->window[d->windows++] = (struct gld_window){ *out, slot->in.bytes, slot->first, slot->in };
    return GY_OK;
}

/* Packs rows from *from on into the slot whose turn it is, and sends them. */
static int gld_pack(struct gld *d, int s, const struct gy_rows *rows, int32_t *from, int64_t first)
{
    struct gld_slot *slot = &d->slot[s];
    GY_TRY(d->b->reach(d->self, GLD_SENT + (unsigned)s));
    GY_TRY(gld_take_back(d, s));
    slot->in = gy_glm_pack(&d->pack, rows, *from, slot->host);
    slot->first = first;
    if (slot->in.rows == 0)
        return GY_FAIL(&d->err, GY_E_NOMEM, "row %" PRId64 " has %u entries and does not fit a window of %zu bytes on the device: it needs more memory",
                       first + 1, (unsigned)(gy_rows_end(rows, *from) - gy_rows_begin(rows, *from)), d->pack.room);
    if (slot->in.dual)
        memcpy((unsigned char *)slot->host + slot->in.dual, d->host_dual + first, (size_t)slot->in.rows * sizeof(float));
    *from += slot->in.rows;
    return GY_OK;
}

static int gld_send(struct gld *d, int s, void **x)
{
    struct gld_slot *slot = &d->slot[s];
    *x = NULL;
    if (d->stays)
        GY_TRY(gld_place(d, slot, x));
    if (!*x) {
        *x = slot->device;
        GY_TRY(d->b->wait(d->self, GY_QUEUE_COPY, GLD_DONE + (unsigned)s));
        GY_TRY(d->b->wait(d->self, GY_QUEUE_COPY, GLD_BACK + (unsigned)s));
    }
    GY_TRY(d->b->copy_on(d->self, GY_QUEUE_COPY, *x, slot->host, slot->in.bytes, GY_COPY_TO_DEVICE));
    GY_TRY(d->b->mark(d->self, GY_QUEUE_COPY, GLD_SENT + (unsigned)s));
    return d->b->wait(d->self, GY_QUEUE_WORK, GLD_SENT + (unsigned)s);
}

/* ---- a pass ---- */

static int gld_next(struct gld *d, struct gy_rows *rows)
{
    if (!d->has_head)
        return d->run->feed->next(d->run->feed->self, rows, &d->err);
    *rows = d->head;
    d->has_head = 0;
    return GY_OK;
}

/* Window `number` from the view. */
static int gld_one(struct gld *d, int what, const struct gy_rows *rows, int32_t *from, int64_t first, int epoch, int number)
{
    const int s = number % 2;
    void *x;
    GY_TRY(gld_pack(d, s, rows, from, first));
    GY_TRY(gld_send(d, s, &x));
    struct gld_slot *slot = &d->slot[s];
    float *const dual = d->dual ? d->dual + first : (float *)(void *)((unsigned char *)x + slot->in.dual);
    GY_TRY(gld_work(d, what, x, &slot->in, dual, epoch, number));
    GY_TRY(d->b->mark(d->self, GY_QUEUE_WORK, GLD_DONE + (unsigned)s));
    return slot->in.dual && what == GLD_TRAIN ? gld_send_back(d, s) : GY_OK;
}

static int gld_pass_of_feed(struct gld *d, int what, int epoch)
{
    int64_t first = 0;
    int number = 0;
    for (struct gy_rows rows;;) {
        GY_TRY(gld_next(d, &rows));
        if (rows.count == 0)
            break;
        if (rows.count > d->run->feed->rows - first)
            return GY_FAIL(&d->err, GY_E_BUG, "a pass has more than the %" PRId64 " rows that were promised", d->run->feed->rows);
        for (int32_t from = 0, begin = 0; from < rows.count; first += from - begin, begin = from)
            GY_TRY(gld_one(d, what, &rows, &from, first, epoch, number++));
    }
    for (int s = 0; s < 2; s++)
        GY_TRY(gld_take_back(d, s));
    d->loaded = d->stays;
    return GY_OK;
}

/* Windows that stay come in an order of the epoch's own. */
static int gld_pass(struct gld *d, int what, int epoch)
{
    if (!d->loaded)
        return gld_pass_of_feed(d, what, epoch);
    for (int i = 0; i < d->windows; i++) {
        const int k = (int)gy_rng_permute(d->run->seed, GY_RNG_ORDER, (uint64_t)epoch << 32 | UINT32_MAX, d->windows, i);
        GY_TRY(gld_work(d, what, d->window[k].at, &d->window[k].in, d->dual + d->window[k].first, epoch, k));
    }
    return GY_OK;
}

/* A pass with its sums. */
static int gld_sum(struct gld *d, int what, int epoch, double out[GLD_TOTALS])
{
    const size_t bytes = GLD_TOTALS * sizeof(double);
    GY_TRY(d->b->copy(d->self, d->totals, d->totals_host + GLD_TOTALS, bytes, GY_COPY_TO_DEVICE));
    GY_TRY(gld_pass(d, what, epoch));
    GY_TRY(gld_run(d, GLD_SQUARES, d->loaded ? d->window[0].at : d->slot[0].device, NULL, NULL, d->totals + GLD_SQUARE));
    GY_TRY(d->b->copy(d->self, d->totals_host, d->totals, bytes, GY_COPY_TO_HOST));
    GY_TRY(d->b->sync(d->self));
    memcpy(out, d->totals_host, bytes);
    return GY_OK;
}

/* ---- weights and dual numbers, there and back ---- */

static int gld_dual_copy(struct gld *d, int to_device)
{
    if (!d->dual)
        return GY_OK;
    return d->b->copy(d->self, to_device ? d->dual : d->host_dual, to_device ? d->host_dual : d->dual, gld_dual_bytes(d),
                      to_device ? GY_COPY_TO_DEVICE : GY_COPY_TO_HOST);
}

/* restore 0: remembers weights and dual numbers; 1: goes back to them. */
static int gld_keep(struct gld *d, int restore)
{
    GY_TRY(d->b->copy(d->self, restore ? d->w : d->w_kept, restore ? d->w_kept : d->w, gld_w_bytes(d), GY_COPY_ON_DEVICE));
    if (d->dual)
        return d->b->copy(d->self, restore ? d->dual : d->dual_kept, restore ? d->dual_kept : d->dual, gld_dual_bytes(d), GY_COPY_ON_DEVICE);
    memcpy(restore ? d->host_dual : d->host_kept, restore ? d->host_kept : d->host_dual, gld_dual_bytes(d));
    return GY_OK;
}

/* w as the dual numbers have it: without what rounding has added since. */
static int gld_make_w(struct gld *d, int epoch)
{
    memset(d->run->w, 0, gld_w_bytes(d));
    GY_TRY(d->b->copy(d->self, d->w, d->run->w, gld_w_bytes(d), GY_COPY_TO_DEVICE));
    return gld_pass(d, GLD_MAKE_W, epoch);
}

static int gld_fetch(struct gld *d)
{
    GY_TRY(d->b->copy(d->self, d->run->w, d->w, gld_w_bytes(d), GY_COPY_TO_HOST));
    GY_TRY(gld_dual_copy(d, 0));
    return d->b->sync(d->self);
}

/* Where no run went before, all coefficients are 0, or as near to it as a logit says. */
static int gld_begin(struct gld *d)
{
    const struct gy_glm_run *run = d->run;
    const float none = run->problem->loss == GY_GLM_LOGISTIC ? -18.0f : 0.0f;
    for (int64_t i = 0; i < run->feed->rows && !run->has_dual; i++)
        d->host_dual[i] = none;
    GY_TRY(gld_dual_copy(d, 1));
    d->best = -INFINITY;
    return gld_make_w(d, run->first_epoch);
}

/* ---- training ---- */

static double gld_dual_of(const struct gld *d, const double sums[GLD_TOTALS])
{
    return sums[GLD_CONJUGATE] - 0.5 * d->run->problem->l2 * sums[GLD_SQUARE];
}

/* One epoch, taken back when the dual objective fell by more than rounding can explain. */
static int gld_epoch(struct gld *d, int epoch)
{
    double sums[GLD_TOTALS];
    if (epoch % GLD_ANEW == 0)
        GY_TRY(gld_make_w(d, epoch));
    GY_TRY(gld_keep(d, 0));
    GY_TRY(gld_sum(d, GLD_TRAIN, epoch, sums));
    const double dual = gld_dual_of(d, sums), noise = 1e-6 * (fabs(sums[GLD_CONJUGATE]) + 0.5 * d->run->problem->l2 * sums[GLD_SQUARE]);
    d->visited += d->run->feed->rows;
    if (dual >= d->best - noise) {
        d->best = dual;
        d->damping = d->damping > 1.1 ? d->damping / 1.1 : 1;
        return GY_OK;
    }
    d->damping *= 2;
    gy_log_write(&d->log, GY_LOG_INFO, "epoch %d let the dual objective fall from %.9g to %.9g and was taken back; damping is %.3g now", epoch, d->best,
                 dual, d->damping);
    return gld_keep(d, 1);
}

/* What the device believes. */
static int gld_look(struct gld *d, int epoch, struct gy_glm_certificate *out)
{
    double sums[GLD_TOTALS];
    GY_TRY(gld_sum(d, GLD_LOOK, epoch, sums));
    out->loss = sums[GLD_LOSS];
    out->primal = sums[GLD_LOSS] + 0.5 * d->run->problem->l2 * sums[GLD_SQUARE];
    out->dual = gld_dual_of(d, sums);
    out->gap = out->primal - out->dual;
    return GY_OK;
}

/* Three checks that brought next to nothing. */
static int gld_is_flat(struct gld *d, int *flat)
{
    double loss = 0;
    GY_TRY(gld_fetch(d));
    GY_TRY(d->run->validate(d->run->user, d->run->w, &loss, &d->err));
    memmove(d->losses, d->losses + 1, 3 * sizeof *d->losses);
    d->losses[3] = loss;
    *flat = ++d->checks > 3 && d->losses[0] - loss < d->run->stop.validation * fabs(d->losses[0]);
    return GY_OK;
}

/* The gap or the target, as this certificate has it; NULL: neither. */
static const char *gld_reached(const struct gy_glm_stop *stop, const struct gy_glm_certificate *at)
{
    if (stop->gap > 0 && at->gap <= stop->gap * fabs(at->primal))
        return "gap";
    return stop->target > 0 && at->primal <= stop->target ? "target" : NULL;
}

/* After a look: whether the run ends. What the device believes is asked of the host; where that says no, w is made anew. */
static int gld_decide(struct gld *d, int epoch, struct gy_glm_certificate *at)
{
    struct gy_glm_run *run = d->run;
    int flat = 0;
    if (gld_reached(&run->stop, at)) {
        GY_TRY(gld_fetch(d));
        GY_TRY(gy_glm_certify(run, run->w, d->host_dual, at, &d->err));
        run->why = gld_reached(&run->stop, at);
        run->result = *at;
        if (run->why)
            return GY_OK;
        GY_TRY(gld_make_w(d, epoch));
    }
    if (run->stop.validation > 0 && run->validate)
        GY_TRY(gld_is_flat(d, &flat));
    run->why = flat ? "validation" : NULL;
    return GY_OK;
}

static int gld_tell(struct gld *d, int epoch, const struct gy_glm_certificate *at, int looked)
{
    struct gy_glm_run *run = d->run;
    const double seconds = (double)(gy_clock_ns() - d->began) * 1e-9;
    const struct gy_glm_progress p = { .epoch = epoch, .rows_done = d->visited, .seconds = seconds, .seconds_left = -1, .at = *at,
                                       .rows_per_second = seconds > 0 ? (double)d->visited / seconds : 0, .has_certificate = looked };
    if (!run->progress)
        return GY_OK;
    if (run->dual)
        GY_TRY(gld_fetch(d)); /* the caller may store them */
    if (run->progress(run->user, &p) == 0)
        return GY_OK;
    GY_TRY(gld_fetch(d));
    run->result = *at;
    return GY_FAIL(&d->err, GY_E_STOPPED, "stopped after epoch %d", epoch);
}

static int gld_train(struct gld *d)
{
    struct gy_glm_run *run = d->run;
    const int last = run->stop.epochs ? run->stop.epochs : 1000, every = run->stop.every ? run->stop.every : GLD_EVERY;
    struct gy_glm_certificate at = { .primal = INFINITY, .dual = -INFINITY, .gap = INFINITY };
    GY_TRY(gld_begin(d));
    for (int epoch = run->first_epoch + 1; epoch <= last && !run->why; epoch++) {
        const int look = epoch % every == 0 || epoch == last;
        GY_TRY(gld_epoch(d, epoch));
        run->epochs = epoch;
        if (look)
            GY_TRY(gld_look(d, epoch, &at));
        if (look)
            GY_TRY(gld_decide(d, epoch, &at));
        GY_TRY(gld_tell(d, epoch, &at, look));
    }
    if (run->why && strcmp(run->why, "validation") != 0)
        return GY_OK;
    run->why = run->why ? run->why : "epochs";
    GY_TRY(gld_fetch(d));
    return gy_glm_certify(run, run->w, d->host_dual, &run->result, &d->err);
}

/* ---- opening ---- */

static int gld_fits(const struct gy_glm_run *run, struct gy_error *err)
{
    const struct gy_glm_problem *p = run->problem;
    if (p->l1 != 0 || !(p->l2 > 0) || (p->bias != 0 && p->bias_free))
        return GY_FAIL(err, GY_E_UNSUPPORTED, "a device trains with l2 above 0, without l1, and with a bias that is penalised like every weight");
    if (gyre_job_ranks(run->job) > 1)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "linear models train on a device in one process; this job has %d ranks", gyre_job_ranks(run->job));
    if (run->feed->rows < 1)
        return GY_FAIL(err, GY_E_ARG, "there are no rows to train on");
    return GY_OK;
}

/* How many rows at a time, from the first view: as many as the device can, but fewer where rows are so alike that steps would become tiny. */
static int gld_rows_at_a_time(struct gld *d, int64_t *out)
{
    struct gy_caps caps;
    d->b->caps(d->self, &caps);
    GY_TRY(gld_next(d, &d->head));
    d->has_head = 1;
    const double alike = gy_glm_likeness(d->run->problem, &d->head, d->run->seed);
    const int64_t all = gy_max64(8, (int64_t)caps.processors * GLD_WARPS), fit = alike * (double)all > GLD_RIVALS ? (int64_t)(GLD_RIVALS / alike) : all;
    *out = gy_max64(8, fit / 8 * 8);
    d->damping = (double)*out * alike > 1 ? (double)*out * alike : 1;
    gy_log_write(&d->log, GY_LOG_INFO, "%s: %" PRId64 " rows at a time, which are alike by %.3g; damping begins with %.3g", caps.device, *out, alike,
                 d->damping);
    return GY_OK;
}

static int gld_prepare(struct gld *d)
{
    struct gy_geom g = { .h = 1, .w = 1, .c = 1, .p = 1, .q = 1, .r = 1, .s = 1, .stride_h = 1, .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1 };
    GY_TRY(gld_rows_at_a_time(d, &g.n));
    g.k = (int32_t)gy_min64(gy_max64(d->pack.most_rows, d->weights), INT32_MAX);
    for (int i = 0; i < GLD_OPS; i++) {
        d->op[i] = gy_op_make(GY_OP_GLM_STEP + i, "linear model", &g);
        d->op[i].act = d->run->problem->loss;
        d->op[i].u = &d->u;
        GY_TRY(d->b->prepare(d->self, &d->op[i], &d->err));
    }
    d->u = (struct gy_uniform){ .seed = d->run->seed, .lr = (float)(1 / d->run->problem->l2), .bias1 = (float)d->run->problem->bias, .valid = 1 };
    return d->b->ready(d->self, &d->err);
}

static int gld_all(struct gld *d, size_t memory)
{
    int travel = 0;
    GY_TRY(gld_deal(d, memory, &travel));
    GY_TRY(gld_prepare(d));
    GY_TRY(gld_get_all(d, travel));
    d->started = 1;
    return gld_train(d);
}

/* The feed's pass, of which the first view was taken, to its end: another solver may begin. */
static void gld_leave_feed(struct gld *d)
{
    while (d->has_head && d->head.count > 0 && d->run->feed->next(d->run->feed->self, &d->head, NULL) == GY_OK) {
    }
}

static int gld_solve(struct gld *d, size_t memory)
{
    struct gy_glm_run *run = d->run;
    d->weights = (int64_t)run->feed->features + (run->problem->bias != 0);
    d->pack = (struct gy_glm_pack){ .problem = run->problem, .pool = run->pool, .features = run->feed->features };
    d->began = gy_clock_ns();
    run->why = NULL;
    run->epochs = run->first_epoch;
    run->rounds = 0;
    const int status = gld_all(d, memory);
    d->b->sync(d->self);
    gld_put_all(d);
    if (!d->started)
        gld_leave_feed(d);
    if (status != GY_OK && !d->err.text[0])
        return GY_FAIL(&d->err, status, "the device failed: %s", d->said[0] ? d->said : "it said nothing");
    return status;
}

/* *started: it has trained, or tried to. */
static int gld_on_device(struct gy_glm_run *run, const struct gy_glm_device *device, const char *name, int *started, struct gy_error *err)
{
    struct gld d = { .run = run, .log_to = device->log };
    d.log = (struct gy_log){ gld_say, &d, device->log ? device->log->level : GY_LOG_ERROR };
    struct gy_backend_config config = { .alloc = run->alloc, .log = &d.log, .kernel_cache = device->kernel_cache };
    GY_TRY(gy_device_open_backend(name, &config, device->use_env, 0, &d.b, &d.self, err));
    const int status = gld_solve(&d, device->memory);
    d.b->close(d.self);
    *started = d.started;
    if (status != GY_OK)
        *err = d.err;
    return status;
}

#else

static int gld_fits(const struct gy_glm_run *run, struct gy_error *err)
{
    (void)run;
    (void)err;
    return GY_OK;
}

static int gld_on_device(struct gy_glm_run *run, const struct gy_glm_device *device, const char *name, int *started, struct gy_error *err)
{
    (void)run;
    (void)device;
    *started = 0;
    return GY_FAIL(err, GY_E_NODEVICE, "device '%s': this build has no CUDA", name);
}

#endif

static int gld_on_cpu(struct gy_glm_run *run, struct gy_error *err)
{
    const struct gy_glm_solver *const solver = gy_glm_choose("sdca", run->problem, run->feed, err);
    return solver ? solver->solve(run, err) : GY_E_UNSUPPORTED;
}

GY_INT int gy_glm_solve_on(struct gy_glm_run *run, const struct gy_glm_device *device, struct gy_error *err)
{
    const int wanted = strcmp(device->name, "auto") != 0;
    struct gy_error why = { 0 };
    int started = 0;
    if (strcmp(device->name, "cpu") == 0)
        return gld_on_cpu(run, err);
    int status = gld_fits(run, &why);
    if (status == GY_OK)
        status = gld_on_device(run, device, wanted ? device->name : "cuda", &started, &why);
    if (status != GY_OK && !started && !wanted) {
        gy_log_write(device->log, GY_LOG_INFO, "device auto: the CPU, because %s", why.text);
        return gld_on_cpu(run, err);
    }
    if (status != GY_OK && err)
        *err = why;
    return status;
}

GY_INT int gy_glm_solve_device(struct gy_glm_run *run, const char *device, size_t memory_cap, struct gy_error *err)
{
    return gy_glm_solve_on(run, &(struct gy_glm_device){ .name = device, .memory = memory_cap, .use_env = 1 }, err);
}
