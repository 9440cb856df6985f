/* SPDX-License-Identifier: MIT */
/* Rows through a device. They go there as windows (glm_window.h), through two pieces of pinned
 * memory. While the device trains on one, the host packs and copies the next. Where all windows fit
 * they stay, and a pass is launches alone; where not, two pieces of device memory take turns, and
 * where not even the dual variables of all rows fit, these travel with their window, there and
 * back.
 *
 *     host      pack 0 | pack 1 | pack 2 (when copy 0 has left) ...
 *     COPY      copy 0 | copy 1 | copy 2 (when the device is done with 0) ...
 *     WORK               train 0 | train 1 ...
 *     PEERS                        duals of 0 back | ...
 *
 * Where rows lie in the host's memory, a window is made of pieces of a few rows from everywhere,
 * anew for each pass if it streams. In a fixed order of neighbours the dual objective rises many
 * times slower. A feed that hands out one view after another is asked for an order of its own. Dual
 * variables that stay on the device are in the order in which rows came to it. */
#include "engine/glm/solve/glm_device_state.h"
#include "kernels/glm_window.h"
#include "engine/base/rng.h"
#ifndef GY_NO_CUDA

/* ---- memory ---- */

static int gld_get(struct gy_gld *d, size_t bytes, int kind, void **out)
{
    if (kind == GY_MEM_DEVICE && (d->used > d->limit || bytes > d->limit - d->used))
        return GY_FAIL(&d->err, GY_E_NOMEM, "the model and its rows need more than the %zu bytes of device memory that are allowed", d->limit);
    GY_TRY(d->b->mem_get(d->self, bytes, kind, out, &d->err));
    d->used += kind == GY_MEM_DEVICE ? bytes : 0;
    return GY_OK;
}

static void gld_put(struct gy_gld *d, void *ptr, size_t bytes, int kind)
{
    if (!ptr)
        return;
    d->b->mem_put(d->self, ptr, bytes, kind);
    d->used -= kind == GY_MEM_DEVICE ? bytes : 0;
}

GY_INT size_t gy_gld_w_bytes(const struct gy_gld *d) { return (size_t)d->weights * sizeof(float); }
GY_INT size_t gy_gld_dual_bytes(const struct gy_gld *d) { return (size_t)d->run->feed->rows * sizeof(float); }
static size_t gld_score_bytes(const struct gy_gld *d) { return (size_t)d->pack.most_rows * sizeof(float); }

/* ---- views and pieces ---- */

static int gld_next(struct gy_gld *d, struct gy_rows *rows)
{
    if (!d->has_head)
        return d->run->feed->next(d->run->feed->self, rows, &d->err);
    *rows = d->head;
    d->has_head = 0;
    return GY_OK;
}

/* A feed that is not resident is asked for a new order in every pass. */
GY_INT int gy_gld_views(struct gy_gld *d)
{
    const struct gy_glm_feed *feed = d->run->feed;
    if (!feed->resident && feed->shuffle)
        GY_TRY(feed->shuffle(feed->self, 1, d->run->seed, &d->err));
    GY_TRY(gld_next(d, &d->head));
    d->has_head = 1;
    if (!feed->resident)
        return GY_OK;
    d->view = gy_alloc_take(d->run->alloc, (size_t)feed->views + 1, sizeof *d->view);
    d->view_at = gy_alloc_take(d->run->alloc, (size_t)feed->views + 1, sizeof *d->view_at);
    if (!d->view || !d->view_at)
        return GY_NOMEM(&d->err, "the table of views", (size_t)feed->views * sizeof *d->view);
    for (struct gy_rows rows;;) {
        GY_TRY(gld_next(d, &rows));
        if (rows.count == 0)
            break;
        if (d->views == feed->views || rows.first - feed->first != d->view_at[d->views])
            return GY_FAIL(&d->err, GY_E_BUG, "a feed of %d views has more, or not in the order of its rows", feed->views);
        d->view[d->views] = rows;
        d->view_at[d->views + 1] = d->view_at[d->views] + rows.count;
        d->views++;
    }
    return d->view_at[d->views] == feed->rows ? GY_OK : GY_FAIL(&d->err, GY_E_BUG, "a pass has not the %" PRId64 " rows that were promised", feed->rows);
}

static int gld_same_form(const struct gy_rows *a, const struct gy_rows *b)
{
    return !a->start == !b->start && (a->start || a->width == b->width) && !a->value == !b->value && (a->value || a->same == b->same) &&
           !a->scale == !b->scale;
}

/* Bytes of all rows as windows; SIZE_MAX: views have several forms, or are not known. */
static size_t gld_whole(const struct gy_gld *d)
{
    const int values = d->views && d->view[0].value, more = d->views && d->view[0].scale, starts = d->views && d->view[0].start;
    for (int v = 1; v < d->views; v++)
        if (!gld_same_form(&d->view[0], &d->view[v]))
            return SIZE_MAX;
    return d->views ? (size_t)d->run->feed->rows * (size_t)(8 + 4 * more + 4 * starts) + (size_t)d->run->feed->entries * (size_t)(4 + 4 * values) : SIZE_MAX;
}

static int64_t gld_entries(const struct gy_glm_piece *p)
{
    return (int64_t)gy_rows_end(p->rows, p->from + p->count - 1) - gy_rows_begin(p->rows, p->from);
}

/* Rows from number `row` on, not beyond `end` or their view. */
static struct gy_glm_piece gld_piece(const struct gy_gld *d, int64_t row, int64_t end)
{
    int lo = 0, hi = d->views - 1;
    while (lo < hi) {
        const int middle = lo + (hi - lo + 1) / 2;
        if (d->view_at[middle] <= row)
            lo = middle;
        else
            hi = middle - 1;
    }
    const int64_t from = row - d->view_at[lo];
    return (struct gy_glm_piece){ .rows = &d->view[lo], .from = (int32_t)from, .first = row,
                                  .count = (int32_t)gy_min64(end - row, d->view[lo].count - from) };
}

/* Adds piece k to the list, in as many parts as it has views; *rows and *entries grow. Returns the
 * number of parts; 0: it does not fit. */
static int gld_add_piece(const struct gy_gld *d, int64_t k, struct gy_glm_piece *list, int room, int64_t *rows, int64_t *entries)
{
    const int64_t end = gy_min64((k + 1) * d->piece_rows, d->run->feed->rows);
    int64_t n = *rows, e = *entries;
    int parts = 0;
    for (int64_t row = k * d->piece_rows; row < end; row += list[parts - 1].count) {
        if (parts == room)
            return 0;
        list[parts] = gld_piece(d, row, end);
        n += list[parts].count;
        e += gld_entries(&list[parts++]);
    }
    if (!gy_glm_pack_fits(&d->pack, list[0].rows, n, e))
        return 0;
    *rows = n;
    *entries = e;
    return parts;
}

/* Makes pieces as large as possible, each of which fits a window. Where a single row does not fit,
 * the pass fails with its number. */
static void gld_cut_pieces(struct gy_gld *d)
{
    const int64_t rows = d->run->feed->rows, each = (int64_t)(gy_glm_pack_most(rows, d->run->feed->entries) / (size_t)rows) + 1;
    struct gy_glm_piece list[GLD_PIECE];
    d->piece_rows = (int)gy_max64(1, gy_min64(GLD_PIECE, (int64_t)d->pack.room / each / GLD_PIECES));
    for (int64_t k = 0; k * d->piece_rows < rows; k++) {
        int64_t n = 0, e = 0;
        while (d->piece_rows > 1 && !gld_add_piece(d, k, list, GLD_PIECE, &n, &e)) {
            d->piece_rows /= 2;
            k *= 2;
        }
    }
    d->pieces = gy_ceil_div(rows, d->piece_rows);
}

/* ---- memory, dealt ---- */

/* Deals the memory. The model comes first, twice. Dual variables stay, twice, where all windows can
 * stay, too. Without mixed windows they stay where they leave half of the memory. Each of two
 * windows takes four ninths of the rest, scores one ninth. */
GY_INT int gy_gld_deal(struct gy_gld *d, size_t memory)
{
    const struct gy_glm_feed *feed = d->run->feed;
    const size_t fixed = 2 * gy_gld_w_bytes(d) + GLD_SMALL, duals = 2 * gy_gld_dual_bytes(d), most = gy_glm_pack_most(feed->rows, feed->entries);
    const size_t whole = gld_whole(d);
    d->limit = memory ? memory : SIZE_MAX / 2;
    const size_t left = d->limit > fixed ? d->limit - fixed : 0;
    d->mixed = whole != SIZE_MAX;
    d->travel = d->mixed ? duals > left || whole + whole / 4 > left - duals : duals > left / 2;
    const size_t each = (left - (d->travel ? 0 : duals)) / 9 * 4, room = each < GLD_WINDOW ? each : GLD_WINDOW;
    d->pack.room = (room < most ? room : gy_align_up(most > GLD_LEAST ? most : GLD_LEAST, 256)) & ~(size_t)255;
    if (room < GLD_LEAST)
        return GY_FAIL(&d->err, GY_E_NOMEM, "device memory of %zu bytes is too little: the model of %" PRId64 " weights needs %zu, windows of rows %d more",
                       d->limit, d->weights, fixed, GLD_LEAST * 9 / 4);
    d->pack.most_rows = (int32_t)gy_max64(1, gy_min64((int64_t)(d->pack.room / 16), feed->rows));
    d->pack.dual = d->travel ? d->host_dual : NULL;
    d->stays = !d->travel;
    d->piece_rows = GLD_CHUNK;
    if (d->mixed)
        gld_cut_pieces(d);
    d->pieces_most = d->pack.most_rows / d->piece_rows + 2 * GLD_PIECE;
    return GY_OK;
}

GY_INT int gy_gld_get_all(struct gy_gld *d)
{
    const int travel = d->travel;
    void *p[8] = { NULL };
    const struct { size_t bytes; int kind; void **out; } list[] = {
        { gy_gld_w_bytes(d), GY_MEM_DEVICE, &p[0] }, { gy_gld_w_bytes(d), GY_MEM_DEVICE, &p[1] }, { gld_score_bytes(d), GY_MEM_DEVICE, &p[2] },
        { GLD_TOTALS * sizeof(double), GY_MEM_DEVICE, &p[3] }, { d->op[GLD_SUMS].scratch_bytes, GY_MEM_DEVICE, &p[4] },
        { 2 * GLD_TOTALS * sizeof(double), GY_MEM_HOST, &p[5] }, { travel ? 0 : gy_gld_dual_bytes(d), GY_MEM_DEVICE, &p[6] },
        { travel ? 0 : gy_gld_dual_bytes(d), GY_MEM_DEVICE, &p[7] } };
    int status = GY_OK;
    for (size_t i = 0; i < GY_COUNT(list) && status == GY_OK; i++)
        status = list[i].bytes ? gld_get(d, list[i].bytes, list[i].kind, list[i].out) : GY_OK;
    d->w = p[0], d->w_kept = p[1], d->score = p[2], d->totals = p[3], d->parts = p[4], d->totals_host = p[5], d->dual = p[6], d->dual_kept = p[7];
    for (int i = 0; i < 2 && status == GY_OK; i++)
        status = gld_get(d, d->pack.room, GY_MEM_HOST, &d->slot[i].host);
    for (int i = 0; i < 2 && status == GY_OK && travel; i++)
        status = gld_get(d, d->pack.room, GY_MEM_DEVICE, &d->slot[i].device);
    GY_TRY(status);
    for (int i = 0; i < 2; i++)
        if (!(d->slot[i].piece = gy_alloc_take(d->run->alloc, (size_t)d->pieces_most, sizeof *d->slot[i].piece)))
            return GY_NOMEM(&d->err, "the list of pieces", (size_t)d->pieces_most * sizeof *d->slot[i].piece);
    d->host_kept = travel || d->mixed ? gy_alloc_take(d->run->alloc, (size_t)d->run->feed->rows, sizeof(float)) : NULL;
    return d->host_kept || !(travel || d->mixed) ? GY_OK : GY_NOMEM(&d->err, "dual numbers", gy_gld_dual_bytes(d));
}

GY_INT int gy_gld_get_duals(struct gy_gld *d)
{
    d->host_dual = d->run->dual ? d->run->dual : gy_alloc_take(d->run->alloc, (size_t)d->run->feed->rows, sizeof(float));
    return d->host_dual ? GY_OK : GY_NOMEM(&d->err, "dual numbers", gy_gld_dual_bytes(d));
}

static void gld_drop_windows(struct gy_gld *d)
{
    for (int i = 0; i < d->windows; i++)
        gld_put(d, d->window[i].at, d->window[i].bytes, GY_MEM_DEVICE);
    d->windows = 0;
    d->loaded = 0;
}

GY_INT void gy_gld_put_all(struct gy_gld *d)
{
    const size_t w = gy_gld_w_bytes(d), duals = gy_gld_dual_bytes(d);
    gld_drop_windows(d);
    gy_alloc_free(d->run->alloc, d->window, (size_t)d->room * sizeof *d->window);
    for (int i = 0; i < 2; i++) {
        gld_put(d, d->slot[i].device, d->pack.room, GY_MEM_DEVICE);
        gld_put(d, d->slot[i].host, d->pack.room, GY_MEM_HOST);
        gy_alloc_free(d->run->alloc, d->slot[i].piece, (size_t)d->pieces_most * sizeof *d->slot[i].piece);
    }
    gy_alloc_free(d->run->alloc, d->view, ((size_t)d->run->feed->views + 1) * sizeof *d->view);
    gy_alloc_free(d->run->alloc, d->view_at, ((size_t)d->run->feed->views + 1) * sizeof *d->view_at);
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

GY_INT int gy_gld_run(struct gy_gld *d, int which, void *x, float *dual, float *score, double *sums)
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
static int gld_work(struct gy_gld *d, int what, void *x, const struct gy_glm_packed *in, float *dual, int epoch, int number)
{
    d->u.step = (uint64_t)epoch << 32 | (uint32_t)number;
    d->u.loss_scale = (float)d->damping;
    if (what == GLD_MAKE_W)
        return gy_gld_run(d, GLD_BUILD, x, dual, NULL, NULL);
    if (what == GLD_LOOK) {
        GY_TRY(gy_gld_run(d, GLD_SCORES, x, NULL, d->score, NULL));
        return gy_gld_run(d, GLD_SUMS, x, dual, d->score, d->totals);
    }
    if (in->longs < in->rows)
        GY_TRY(gy_gld_run(d, GLD_STEP, x, dual, NULL, NULL));
    if (in->longs)
        GY_TRY(gy_gld_run(d, GLD_LONG, x, dual, NULL, NULL));
    return gy_gld_run(d, GLD_SUMS, x, dual, NULL, d->totals);
}

/* The dual variables that came back to a slot go to their place. */
static int gld_take_back(struct gy_gld *d, int s)
{
    struct gy_gld_slot *slot = &d->slot[s];
    if (!slot->back)
        return GY_OK;
    GY_TRY(d->b->reach(d->self, GLD_BACK + (unsigned)s));
    gy_glm_unpack_duals(slot->piece, slot->pieces, &slot->in, slot->host, d->host_dual);
    slot->back = 0;
    return GY_OK;
}

static int gld_send_back(struct gy_gld *d, int s)
{
    struct gy_gld_slot *slot = &d->slot[s];
    const size_t bytes = (size_t)slot->in.rows * sizeof(float);
    GY_TRY(d->b->wait(d->self, GY_QUEUE_PEERS, GLD_DONE + (unsigned)s));
    GY_TRY(d->b->copy_on(d->self, GY_QUEUE_PEERS, (unsigned char *)slot->host + slot->in.dual, (unsigned char *)slot->device + slot->in.dual, bytes,
                         GY_COPY_TO_HOST));
    GY_TRY(d->b->mark(d->self, GY_QUEUE_PEERS, GLD_BACK + (unsigned)s));
    slot->back = 1;
    return GY_OK;
}

/* Windows do not fit: from here on two pieces take turns. */
static int gld_stop_staying(struct gy_gld *d)
{
    d->stays = 0;
    GY_TRY(d->b->sync(d->self));
    gld_drop_windows(d);
    d->err.text[0] = 0;
    for (int i = 0; i < 2; i++)
        GY_TRY(gld_get(d, d->pack.room, GY_MEM_DEVICE, &d->slot[i].device));
    return GY_OK;
}

/* Gets a place of its own for the slot's window. *out NULL: there is none, and from now on windows
 * take turns in two places. The windows that were there give their memory back for these. */
static int gld_place(struct gy_gld *d, const struct gy_gld_slot *slot, void **out)
{
    *out = NULL;
    if (d->windows == d->room) {
        const size_t more = (size_t)d->room + 64;
        struct gy_gld_window *const list = gy_alloc_grow(d->run->alloc, d->window, (size_t)d->room, more, sizeof *list);
        if (!list)
            return GY_NOMEM(&d->err, "the list of windows", more * sizeof *list);
        d->window = list;
        d->room = (int)more;
    }
    const int status = gld_get(d, slot->in.bytes, GY_MEM_DEVICE, out);
    if (status == GY_E_NOMEM)
        return gld_stop_staying(d);
    GY_TRY(status);
    d->window[d->windows++] = (struct gy_gld_window){ *out, slot->in.bytes, slot->place, slot->in };
    return GY_OK;
}

/* The slot of window `number` can be filled again. */
static int gld_empty(struct gy_gld *d, int number, struct gy_gld_slot **out)
{
    *out = &d->slot[number % 2];
    GY_TRY(d->b->reach(d->self, GLD_SENT + (unsigned)number % 2));
    GY_TRY(gld_take_back(d, number % 2));
    (*out)->pieces = 0;
    return GY_OK;
}

static int gld_too_long(struct gy_gld *d, const struct gy_rows *rows, int32_t i, int64_t row)
{
    return GY_FAIL(&d->err, GY_E_NOMEM, "row %" PRId64 " has %u entries and does not fit a window of %zu bytes on the device: it needs more memory",
                   row + 1, (unsigned)(gy_rows_end(rows, i) - gy_rows_begin(rows, i)), d->pack.room);
}

/* Takes rows of the view from *from on, in pieces for the threads that copy. first: number of the
 * view's first row. */
static int gld_take_rows(struct gy_gld *d, struct gy_gld_slot *slot, const struct gy_rows *rows, int32_t *from, int64_t first)
{
    const int32_t fit = gy_glm_pack_count(&d->pack, rows, *from), end = *from + fit;
    if (fit == 0)
        return gld_too_long(d, rows, *from, first + *from);
    slot->place = first + *from;
    for (; *from < end; *from += slot->piece[slot->pieces++].count)
        slot->piece[slot->pieces] = (struct gy_glm_piece){ .rows = rows, .from = *from, .first = first + *from,
                                                           .count = (int32_t)gy_min64(GLD_CHUNK, end - *from) };
    return GY_OK;
}

/* The piece that is number `next` of a pass. Pieces have a new order in each pass, or always that
 * of the dual variables on the device. */
static int64_t gld_order(const struct gy_gld *d, int epoch, int64_t next)
{
    return gy_rng_permute(d->run->seed, GY_RNG_ORDER, (uint64_t)(d->travel ? epoch : 0) << 32 | UINT32_MAX, d->pieces, next);
}

/* Pieces of the pass from *next on. */
static int gld_take_pieces(struct gy_gld *d, struct gy_gld_slot *slot, int epoch, int64_t *next)
{
    int64_t rows = 0, entries = 0;
    for (; *next < d->pieces; (*next)++) {
        const int parts = gld_add_piece(d, gld_order(d, epoch, *next), slot->piece + slot->pieces, d->pieces_most - slot->pieces, &rows, &entries);
        slot->pieces += parts;
        if (parts == 0 && slot->pieces == 0)
            return gld_too_long(d, slot->piece[0].rows, slot->piece[0].from, slot->piece[0].first);
        if (parts == 0)
            break;
    }
    return GY_OK;
}

static int gld_send(struct gy_gld *d, int s, void **x)
{
    struct gy_gld_slot *slot = &d->slot[s];
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

/* Window `number`, whose pieces are in its slot. */
static int gld_one(struct gy_gld *d, int what, int epoch, int number)
{
    const int s = number % 2;
    struct gy_gld_slot *slot = &d->slot[s];
    void *x;
    slot->in = gy_glm_pack(&d->pack, slot->piece, slot->pieces, slot->host);
    GY_TRY(gld_send(d, s, &x));
    float *const dual = d->dual ? d->dual + slot->place : (float *)(void *)((unsigned char *)x + slot->in.dual);
    GY_TRY(gld_work(d, what, x, &slot->in, dual, epoch, number));
    GY_TRY(d->b->mark(d->self, GY_QUEUE_WORK, GLD_DONE + (unsigned)s));
    return slot->in.dual && what == GLD_TRAIN ? gld_send_back(d, s) : GY_OK;
}

static int gld_view(struct gy_gld *d, int what, const struct gy_rows *rows, int64_t first, int epoch, int *number)
{
    struct gy_gld_slot *slot;
    for (int32_t from = 0; from < rows->count; (*number)++) {
        GY_TRY(gld_empty(d, *number, &slot));
        GY_TRY(gld_take_rows(d, slot, rows, &from, first));
        GY_TRY(gld_one(d, what, epoch, *number));
    }
    return GY_OK;
}

/* One view after another, in the feed's order. */
static int gld_pass_of_views(struct gy_gld *d, int what, int epoch)
{
    const struct gy_glm_feed *feed = d->run->feed;
    int64_t seen = 0;
    int number = 0;
    for (int v = 0; !d->view || v < d->views; v++) {
        struct gy_rows rows;
        if (d->view)
            rows = d->view[v];
        else
            GY_TRY(gld_next(d, &rows));
        if (rows.count == 0)
            break;
        const int64_t first = rows.first - feed->first;
        if (first < 0 || rows.count > feed->rows - first)
            return GY_FAIL(&d->err, GY_E_BUG, "a pass has row %" PRId64 "; %" PRId64 " rows from %" PRId64 " on were promised", rows.first + rows.count,
                           feed->rows, feed->first);
        GY_TRY(gld_view(d, what, &rows, first, epoch, &number));
        seen += rows.count;
    }
    return seen == feed->rows ? GY_OK : GY_FAIL(&d->err, GY_E_BUG, "a pass has %" PRId64 " rows, not %" PRId64, seen, feed->rows);
}

static int gld_pass_of_pieces(struct gy_gld *d, int what, int epoch)
{
    struct gy_gld_slot *slot;
    int64_t next = 0, place = 0;
    for (int number = 0; next < d->pieces; number++) {
        GY_TRY(gld_empty(d, number, &slot));
        GY_TRY(gld_take_pieces(d, slot, epoch, &next));
        slot->place = place;
        GY_TRY(gld_one(d, what, epoch, number));
        place += slot->in.rows;
    }
    return GY_OK;
}

static int gld_pass_of_host(struct gy_gld *d, int what, int epoch)
{
    GY_TRY(d->mixed ? gld_pass_of_pieces(d, what, epoch) : gld_pass_of_views(d, what, epoch));
    for (int s = 0; s < 2; s++)
        GY_TRY(gld_take_back(d, s));
    d->loaded = d->stays;
    return GY_OK;
}

/* Windows that stay come in an order of the epoch's own. */
GY_INT int gy_gld_pass(struct gy_gld *d, int what, int epoch)
{
    if (!d->loaded)
        return gld_pass_of_host(d, what, epoch);
    for (int i = 0; i < d->windows; i++) {
        const int k = (int)gy_rng_permute(d->run->seed, GY_RNG_ORDER, (uint64_t)epoch << 32 | UINT32_MAX, d->windows, i);
        GY_TRY(gld_work(d, what, d->window[k].at, &d->window[k].in, d->dual + d->window[k].first, epoch, k));
    }
    return GY_OK;
}

/* ---- dual variables that stay ---- */

/* Between host_dual and host_kept, which has the device's order. */
static void gld_reorder(struct gy_gld *d, int to_device)
{
    int64_t at = 0;
    for (int64_t k = 0; k < d->pieces; k++) {
        const int64_t first = gld_order(d, 0, k) * d->piece_rows, count = gy_min64(d->piece_rows, d->run->feed->rows - first);
        memcpy(to_device ? d->host_kept + at : d->host_dual + first, to_device ? d->host_dual + first : d->host_kept + at,
               (size_t)count * sizeof(float));
        at += count;
    }
}

GY_INT int gy_gld_dual_copy(struct gy_gld *d, int to_device)
{
    float *const host = d->mixed ? d->host_kept : d->host_dual;
    const size_t bytes = gy_gld_dual_bytes(d);
    if (!d->dual)
        return GY_OK;
    if (to_device && d->mixed)
        gld_reorder(d, 1);
    GY_TRY(to_device ? d->b->copy(d->self, d->dual, host, bytes, GY_COPY_TO_DEVICE) : d->b->copy(d->self, host, d->dual, bytes, GY_COPY_TO_HOST));
    GY_TRY(d->b->sync(d->self));
    if (!to_device && d->mixed)
        gld_reorder(d, 0);
    return GY_OK;
}

#endif
