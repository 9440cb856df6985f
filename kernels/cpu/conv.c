/* SPDX-License-Identifier: MIT */
/* conv.c: convolution forward and data gradient. It packs weights into panels, then runs the
 * micro-kernel on tiles: a strip of pixels x a group of panels. Inside a tile it lays out pointers
 * to input rows once for each slice of the reduction. Then every panel meets every register tile of
 * the strip. With the last slice the micro-kernel takes statistics and rounds while sums are in
 * registers, if it can. Otherwise the driver does both on sums in the cache. */
#include "kernels/cpu/conv.h"
#include "kernels/cpu/driver.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/product.h"

#define CONV_TURN 16  /* pairs of a reduction that are turned at a time */
#define CONV_LOOKAHEAD 16 /* rows of weights from the packed one to the prefetched ones */
#define CONV_STREAM 33554432 /* bytes of outputs that no cache keeps until the next op */

/* What one thread needs. */
struct conv_own {
    const float **rows; /* [tap_block][strip] */
    void **outs;        /* [strip] */
    float **sum_rows;   /* [strip]: rows of sums */
    float *sums;        /* [strip][width of the panel], where outputs are bf16 */
    float *buffer;      /* patches, lines or copied rows */
    float *joined;      /* [strip][patch pitch], of lines */
    float *panel;       /* a slice of a panel, when weights are not packed before */
};

/* Scratch of all threads. */
struct conv_all {
    float *packed;      /* unless tiles pack their own */
    float *mean, *m2;   /* [strips][K], with statistics */
    unsigned char *own; /* own_bytes a thread */
};

/* A pass as it is prepared: forward, or a class of the data gradient. */
struct conv_plan {
    struct gy_product p;
    struct conv_own own; /* layouts of scratch */
    struct conv_all all;
    size_t own_bytes;
    int stats;           /* of outputs are taken */
    int streams;         /* outputs go past the caches, if they begin a cache line */
};

struct conv_job {
    const struct gy_cpu *cpu;
    const struct conv_plan *plan;
    const struct gy_product *p;
    const struct gy_op *op;
    const void *in;
    const float *weights, *bias;
    void *out;
    struct conv_all all;
    int add;             /* out += */
    int stream;          /* outputs go past the caches */
};

struct conv_slice {
    int64_t tap, taps, first, len; /* taps [tap, tap + taps), channels [first, first + len) */
    int64_t before;                /* reduction elements in earlier slices */
    int last;
};

/* Lays out a thread's scratch; returns the bytes. */
static size_t conv_lay_own(const struct gy_product *p, struct conv_own *own)
{
    const size_t strip = (size_t)p->strip;
    size_t used = 0, buffer = 0;
    own->rows = gy_scratch_take(&used, strip * (size_t)p->tap_block, sizeof *own->rows);
    own->outs = gy_scratch_take(&used, strip, sizeof *own->outs);
    own->sum_rows = gy_scratch_take(&used, strip, sizeof *own->sum_rows);
    own->sums = gy_scratch_take(&used, p->half ? strip * GY_WIDTH_MAX : 0, sizeof(float));
    if (p->patch)
        buffer = strip * (size_t)gy_product_patch_pitch(p);
    else if (p->lines)
        buffer = (size_t)gy_product_lines_floats(p);
    else if (p->copy)
        buffer = strip * (size_t)p->tap_block * (size_t)(p->depth_block + 16);
    own->buffer = gy_scratch_take(&used, buffer, sizeof(float));
    own->joined = gy_scratch_take(&used, p->odd ? strip * (size_t)gy_product_patch_pitch(p) : 0, sizeof(float));
    own->panel = gy_scratch_take(&used, p->packed == 0 ? (size_t)(GY_WIDTH_MAX * p->tap_block * p->depth_block) : 0,
                                 sizeof(float));
    return used;
}

/* Floats of a weight behind one tap of one output channel. */
static int64_t conv_red(const struct gy_product *p)
{
    return p->red * (p->pair && !p->odd ? 2 : 1);
}

/* Turns rows [0, len) of a slice, panel->cols columns from src[col * pitch + row], into dst
 * [len][width]. In pairs, two neighbours in src become one unit. elems: floats of src that count;
 * the last pair's second is zero if it is beyond them. */
static void conv_pack_turned(const struct conv_job *job, const struct gy_panel *panel, const float *src, int64_t pitch,
                             int64_t len, int64_t elems, float *dst)
{
    const struct gy_kernels *k = &job->cpu->k;
    const int64_t width = panel->kind->width;
    float turned[2 * CONV_TURN * GY_WIDTH_MAX];
    if (!job->p->pair) {
        k->transpose(dst, width, src, pitch, panel->cols, len);
        return;
    }
    if (k->pair_turn) {
        k->pair_turn(dst, width, src, pitch, panel->cols, gy_min64(2 * len, elems));
        return;
    }
    for (int64_t c = 0; c < len; c += CONV_TURN) {
        const int64_t n = gy_min64(CONV_TURN, len - c), there = gy_min64(2 * n, elems - 2 * c);
        k->transpose(turned, width, src + 2 * c, pitch, panel->cols, there);
        if (there < 2 * n)
            memset(turned + there * width, 0, (size_t)width * sizeof(float));
        for (int64_t j = 0; j < n; j++)
            k->pair_floats(dst + (c + j) * width, turned + 2 * j * width, turned + (2 * j + 1) * width, panel->cols);
    }
}

/* Row j of transposed weights, for a slice of lines or taps: j floats behind the tap (r, s). */
static const float *conv_turned_row(const struct conv_job *job, int64_t group, int64_t r, int64_t s, int64_t j)
{
    const struct gy_product *p = job->p;
    const int64_t red = conv_red(p), tap = p->lines ? j / red : 0, channel = group * red + j - tap * red;
    return job->weights + ((channel * p->r + r) * p->s + s + tap * p->w.tap_step) * p->vec;
}

static void conv_prefetch_row(const float *row, int64_t count)
{
    for (int64_t i = 0; i < count; i += GY_CACHE_LINE / (int64_t)sizeof(float))
        __builtin_prefetch(row + i);
}

/* The same where the columns lie side by side: rows are looked up one by one. */
static void conv_pack_rows(const struct conv_job *job, int64_t group, const struct gy_panel *panel, int64_t r, int64_t s,
                           const struct conv_slice *slice, float *dst)
{
    static const float none[GY_WIDTH_MAX];
    const struct gy_product *p = job->p;
    const int64_t width = panel->kind->width, end = conv_red(p) * (p->lines ? p->w.taps : 1), step = p->pair ? 2 : 1;
    for (int64_t c = slice->first; c < slice->first + slice->len; c++, dst += width) {
        const float *const a = conv_turned_row(job, group, r, s, c * step) + panel->first;
        for (int64_t j = c * step + CONV_LOOKAHEAD; j < gy_min64((c + 1) * step + CONV_LOOKAHEAD, end); j++)
            conv_prefetch_row(conv_turned_row(job, group, r, s, j) + panel->first, panel->cols);
        if (p->pair)
            job->cpu->k.pair_floats(dst, a, 2 * c + 1 < end ? conv_turned_row(job, group, r, s, 2 * c + 1) + panel->first : none,
                                    panel->cols);
        else
            memcpy(dst, a, (size_t)panel->cols * sizeof(float));
    }
}

/* Packs columns of one panel for one slice: dst [taps][len][width]. */
static void conv_pack_slice(const struct conv_job *job, int64_t group, const struct gy_panel *panel,
                            const struct conv_slice *slice, float *dst)
{
    const struct gy_product *p = job->p;
    const int64_t width = panel->kind->width, red = conv_red(p), pitch = (int64_t)p->r * p->s * red;
    const int64_t first = slice->first * (p->pair ? 2 : 1), row = p->patch || p->odd ? pitch : p->lines ? p->w.taps * red : red;
    if (panel->cols < width)
        memset(dst, 0, (size_t)(slice->taps * slice->len * width) * sizeof(float));
    for (int64_t t = slice->tap; t < slice->tap + slice->taps; t++, dst += slice->len * width) {
        const int64_t across = p->lines ? 1 : p->w.taps; /* taps in a filter row */
        const int64_t r = p->h.tap0 + t / across * p->h.tap_step, s = p->w.tap0 + t % across * p->w.tap_step;
        const float *src = job->weights + (group * p->vec + panel->first) * pitch + (p->patch ? 0 : (r * p->s + s) * red);
        if (p->transposed)
            conv_pack_rows(job, group, panel, r, s, slice, dst);
        else
            conv_pack_turned(job, panel, src + first, pitch, slice->len, row - first, dst);
    }
}

/* The slice that begins at (first, tap); slices run over taps first, then over channels. */
static struct conv_slice conv_slice_at(const struct gy_product *p, int64_t first, int64_t tap)
{
    struct conv_slice s = { .tap = tap, .first = first };
    s.taps = gy_min64(p->tap_block, p->taps - tap);
    s.len = gy_min64(p->depth_block, p->depth - first);
    s.before = first * p->taps + tap * s.len;
    s.last = tap + s.taps == p->taps && first + s.len == p->depth;
    return s;
}

static struct conv_slice conv_slice_after(const struct gy_product *p, const struct conv_slice *s)
{
    const int wrap = s->tap + s->taps == p->taps;
    return conv_slice_at(p, wrap ? s->first + s->len : s->first, wrap ? 0 : s->tap + s->taps);
}

static void conv_pack_tile(void *arg, int64_t tile, int thread)
{
    const struct conv_job *job = arg;
    const struct gy_product *p = job->p;
    const int64_t group = tile / p->panels, total = p->taps * p->depth;
    const struct gy_panel panel = p->panel[tile % p->panels];
    float *const dst = job->all.packed + (group * p->padded + panel.first) * total;
    (void)thread;
    for (struct conv_slice s = conv_slice_at(p, 0, 0); s.first < p->depth; s = conv_slice_after(p, &s))
        conv_pack_slice(job, group, &panel, &s, dst + s.before * panel.kind->width);
}

/* Lays out the input pointers of a slice; copies rows that are widened. */
static void conv_lay_rows(const struct conv_job *job, const struct conv_own *own, const struct conv_slice *s,
                          const void *in, int64_t pixel, int64_t count)
{
    const struct gy_product *p = job->p;
    if (p->patch || p->odd) {
        const int64_t pitch = gy_product_patch_pitch(p);
        const float *const patch = (p->odd ? own->joined : own->buffer) + s->first;
        for (int64_t i = 0; i < count; i++)
            own->rows[i] = patch + i * pitch;
        return;
    }
    if (p->lines) {
        gy_product_line_rows(p, own->buffer + s->first + s->tap * p->line_tap, pixel, count, own->rows);
        for (int64_t i = count; i < s->taps * count; i++)
            own->rows[i] = own->rows[i - count] + p->line_tap;
        return;
    }
    float *to = own->buffer;
    for (int64_t t = 0; t < s->taps; t++) {
        const float **rows = own->rows + t * count;
        gy_product_rows(p, gy_product_in(p, in, s->first), pixel, count, s->tap + t, job->cpu->zeros, rows);
        for (int64_t i = 0; p->copy && i < count; i++, to += p->depth_block + 16) {
            if (rows[i] != job->cpu->zeros) {
                __builtin_prefetch(rows[gy_min64(i + 4, count - 1)]);
                gy_product_take(p, to, rows[i], s->len);
                rows[i] = to;
            }
        }
    }
}

/* Whole patches from lines. */
static void conv_join(const struct conv_job *job, const struct conv_own *own, int64_t pixel, int64_t count)
{
    const struct gy_product *p = job->p;
    gy_product_line_rows(p, own->buffer, pixel, count, own->rows);
    job->cpu->k.join((uint16_t *)(void *)own->joined, 2 * gy_product_patch_pitch(p),
                     (const uint16_t *const *)(const void *)own->rows, 2 * p->line_tap, p->h.taps,
                     p->w.taps * (int64_t)p->red, count);
}

/* The piece of work of a tile: pixels of a strip for panels of a group of channels. */
struct conv_area {
    int64_t group, strip, pixel, count; /* pixels [pixel, pixel + count) */
    int64_t first, end;                 /* panels */
    const void *in;                     /* the group's first channel */
};

/* The weights of a slice of a panel: rows of cols floats, pitch apart. */
struct conv_block {
    const float *first;
    int64_t rows, cols, pitch;
};

/* Panel index's block, if filters have one tap and tiles pack it themselves; else an empty one. */
static struct conv_block conv_block_at(const struct conv_job *job, const struct conv_area *a, int64_t index,
                                       const struct conv_slice *s)
{
    const struct gy_product *p = job->p;
    const int64_t step = p->pair ? 2 : 1, red = conv_red(p), from = s->first * step;
    if (p->packed > 0 || p->r * p->s > 1 || index >= a->end || s->first >= p->depth)
        return (struct conv_block){0};
    const struct gy_panel panel = p->panel[index];
    if (p->transposed)
        return (struct conv_block){job->weights + (a->group * red + from) * p->vec + panel.first, s->len * step, panel.cols, p->vec};
    return (struct conv_block){job->weights + (a->group * p->vec + panel.first) * red + from, panel.cols, s->len * step, red};
}

/* Prefetches part i of a block that is cut into `parts`. */
static void conv_prefetch_block(const struct conv_block *b, int64_t i, int64_t parts)
{
    const int64_t end = b->rows > 0 ? b->rows * (i + 1) / parts : 0;
    for (int64_t row = b->rows > 0 ? b->rows * i / parts : 0; row < end; row++)
        for (int64_t c = 0; c < b->cols; c += GY_CACHE_LINE / (int64_t)sizeof(float))
            __builtin_prefetch(b->first + row * b->pitch + c, 0, 2);
}

/* What is not in the cache yet: the input rows, the outputs. */
enum conv_cold { CONV_COLD_ROWS = 1, CONV_COLD_OUTS = 2 };

/* A slice of a panel. */
struct conv_step {
    struct gy_panel panel;
    struct conv_slice slice;
    struct conv_block next;  /* weights that will be packed after it */
    int cold;                /* of enum conv_cold */
};

/* Rows [at, end) prefetch input rows and outputs of the next register tile: it ends at `next`. */
static void conv_prefetch(const struct conv_own *own, const struct conv_step *step, int half, struct gy_gemm_tile *t, int64_t at,
                          int64_t end, int64_t next)
{
    const struct gy_panel *const panel = &step->panel;
    const int64_t unit = half ? 2 : 4;
    const int kernel = panel->kind->finishes == GY_GEMM_PREFETCHES, outs = step->cold & CONV_COLD_OUTS;
    t->prefetch = (struct gy_prefetch){ .first = panel->first * unit, .bytes = panel->cols * unit, .from = end - at,
                                       .outs = own->outs + end, .count = outs ? next - end : 0 };
    t->prefetch.to = step->cold & CONV_COLD_ROWS ? next - at : t->prefetch.from;
    gy_prefetch_outs(&t->prefetch, kernel ? t->len * (int64_t)sizeof(float) : 0);
    if (!kernel)
        t->prefetch.count = 0;
}

/* One panel meets all register tiles of the strip, cut evenly. */
static void conv_panel(const struct conv_job *job, const struct conv_own *own, const struct conv_area *a, const struct conv_step *step,
                       struct gy_gemm_tile *t, struct gy_gemm_finish *finish)
{
    struct gy_even even = gy_even_tiles(a->count, step->panel.kind->rows);
    int64_t next = gy_even_next(&even);
    t->finish = finish;
    for (int64_t i = 0, at = 0; i < even.tiles; i++) {
        const int64_t end = next;
        next = i + 1 < even.tiles ? gy_even_next(&even) : end;
        t->rows = own->rows + at;
        t->out = own->sum_rows + at;
        if (finish) {
            finish->rows = own->outs + at;
            finish->before = at;
            finish->last = i + 1 == even.tiles;
        }
        conv_prefetch(own, step, job->p->half, t, at, end, next);
        conv_prefetch_block(&step->next, i, even.tiles);
        step->panel.kind->fn[end - at - 1](t);
        at = end;
    }
}

GY_INT void gy_cpu_epilogue(const struct gy_cpu *cpu, const struct gy_op *op, int64_t pixel, int64_t rows,
                            int64_t channel, int64_t cols)
{
    const int64_t pitch = op->geom.k, at = pixel * pitch + channel;
    const float *scale = op->ptr[GY_SCALE], *shift = op->ptr[GY_SHIFT];
    if (!scale && !op->ptr[GY_RES] && op->act == GY_ACT_NONE)
        return;
    void *const y = gy_cpu_out(op->ptr[GY_Y], at, op->dtype);
    struct gy_affine_rows a = { .y = y, .x = y, .res = gy_cpu_at(op->ptr[GY_RES], at, op->dtype),
                               .scale = scale ? scale + channel : NULL,
                               .shift = shift ? shift + channel : NULL, .rows = rows, .cols = cols,
                               .pitch = pitch };
    gy_act_limits(op->act, &a.lo, &a.hi);
    cpu->k.affine[op->dtype](&a);
    for (int64_t i = 0; gy_act_is_curve(op->act) && i < rows; i++)
        gy_act_curve(op, (float *)y + i * pitch, (float *)y + i * pitch, cols);
}

static void conv_sum_stats(const struct conv_job *job, const struct conv_area *a, const float *x, int64_t pitch,
                           int64_t channel, int64_t cols)
{
    const int64_t at = a->strip * job->p->out_pitch + channel;
    if (job->plan->stats)
        job->cpu->k.stats[GY_F32](x, a->count, cols, pitch, job->all.mean + at, job->all.m2 + at);
}

/* The micro-kernel finishes activations of its own type: floats of floats, bf16 of pairs. */
static int conv_finishes(const struct gy_product *p, const struct gy_panel *panel)
{
    return panel->kind->finishes && p->half == p->pair;
}

/* Statistics and epilogue of a panel of a strip; bf16 outputs are rounded from the sums. */
static void conv_finish(const struct conv_job *job, const struct conv_own *own, const struct conv_area *a,
                        const struct gy_panel *panel)
{
    const struct gy_product *p = job->p;
    const int64_t channel = a->group * p->vec + panel->first;
    const int rest = !conv_finishes(p, panel);
    if (p->half && rest)
        job->cpu->k.narrow[GY_BF16](own->outs, panel->first, own->sums, panel->kind->width, a->count, panel->cols, job->add);
    if (p->transposed)
        return;
    if (p->half && rest)
        conv_sum_stats(job, a, own->sums, panel->kind->width, channel, panel->cols);
    else if (rest)
        conv_sum_stats(job, a, (const float *)job->out + a->pixel * p->out_pitch + channel, p->out_pitch, channel,
                       panel->cols);
    gy_cpu_epilogue(job->cpu, job->op, a->pixel, a->count, channel, panel->cols);
}

/* One slice of one panel. The rows of the slice are laid out. */
static void conv_part(const struct conv_job *job, const struct conv_own *own, const struct conv_area *a, struct conv_step *step)
{
    const struct gy_product *p = job->p;
    const struct gy_panel *const panel = &step->panel;
    const struct conv_slice *const s = &step->slice;
    struct gy_gemm_tile t = { .row_pitch = a->count, .taps = s->taps, .len = s->len, .cols = panel->cols };
    const int finishes = s->last && conv_finishes(p, panel);
    const int late = p->half || (finishes && s->before == 0); /* added last: no product waits */
    t.out_first = p->half ? 0 : panel->first;
    if (s->before == 0 && (late || !job->add))
        t.init = job->bias ? job->bias + a->group * p->vec + panel->first : job->cpu->zeros;
    if (p->packed > 0) {
        t.panel = job->all.packed + (a->group * p->padded + panel->first) * p->taps * p->depth +
                  s->before * panel->kind->width;
    } else {
        conv_pack_slice(job, a->group, panel, s, own->panel);
        t.panel = own->panel;
    }
    struct gy_gemm_finish finish = { .first = panel->first, .add = job->add && late, .stream = job->stream };
    if (job->plan->stats) {
        const int64_t at = a->strip * p->out_pitch + a->group * p->vec + panel->first;
        finish.mean = job->all.mean + at;
        finish.m2 = job->all.m2 + at;
    }
    /* float sums wait in the outputs themselves */
    const int outs = (p->pair && conv_finishes(p, panel) ? finishes : t.init != NULL) && !(finishes && job->stream);
    step->cold |= outs ? CONV_COLD_OUTS : 0;
    conv_panel(job, own, a, step, &t, finishes ? &finish : NULL);
}

/* A slice of panel i; cold: the strip's rows are in no cache yet. */
static struct conv_step conv_step_at(const struct conv_job *job, const struct conv_area *a, int64_t i, const struct conv_slice *s, int cold)
{
    return (struct conv_step){ .panel = job->p->panel[i], .slice = *s,
                              .cold = cold && i == a->first ? CONV_COLD_ROWS : 0 };
}

/* Sums wait in the output: each slice's rows are laid out once. */
static void conv_by_slices(const struct conv_job *job, const struct conv_own *own, const struct conv_area *a, int cold)
{
    const struct gy_product *p = job->p;
    for (struct conv_slice s = conv_slice_at(p, 0, 0); s.first < p->depth; s = conv_slice_after(p, &s)) {
        conv_lay_rows(job, own, &s, a->in, a->pixel, a->count);
        for (int64_t i = a->first; i < a->end; i++) {
            struct conv_step step = conv_step_at(job, a, i, &s, cold);
            step.next = conv_block_at(job, a, i + 1, &s);
            conv_part(job, own, a, &step);
            if (s.last)
                conv_finish(job, own, a, &step.panel);
        }
    }
}

/* Sums of one panel at a time wait in a buffer. */
static void conv_by_panels(const struct conv_job *job, const struct conv_own *own, const struct conv_area *a, int cold)
{
    const struct gy_product *p = job->p;
    const int again = p->taps > p->tap_block || p->depth > p->depth_block; /* more than one slice */
    const struct conv_slice first = conv_slice_at(p, 0, 0);
    int width = 0;
    for (int64_t i = a->first; i < a->end; i++) {
        const struct gy_panel panel = p->panel[i];
        for (int64_t j = 0; j < a->count && width != panel.kind->width; j++)
            own->sum_rows[j] = own->sums + j * panel.kind->width;
        width = panel.kind->width;
        for (struct conv_slice s = conv_slice_at(p, 0, 0); s.first < p->depth; s = conv_slice_after(p, &s)) {
            if (again || i == a->first)
                conv_lay_rows(job, own, &s, a->in, a->pixel, a->count);
            const struct conv_slice after = conv_slice_after(p, &s), *const rest = after.first < p->depth ? &after : &first;
            struct conv_step step = conv_step_at(job, a, i, &s, cold);
            step.next = conv_block_at(job, a, i + (rest == &first), rest);
            conv_part(job, own, a, &step);
        }
        conv_finish(job, own, a, &panel);
    }
}

static void conv_tile(void *arg, int64_t tile, int thread)
{
    const struct conv_job *job = arg;
    const struct gy_product *p = job->p;
    const int64_t set = tile % p->panel_groups, strip = tile / p->panel_groups % p->strips;
    struct conv_area a = { .group = tile / p->panel_groups / p->strips, .strip = strip, .pixel = strip * p->strip };
    a.count = gy_min64(p->strip, p->pixels - a.pixel);
    a.first = set * p->panel_group;
    a.end = gy_min64(a.first + p->panel_group, p->panels);
    a.in = gy_product_in(p, job->in, a.group * p->red);
    struct conv_own own = job->plan->own;
    gy_scratch_move(&own, sizeof own, job->all.own + (size_t)thread * job->plan->own_bytes);
    const int cold = !p->copy && !p->patch && !p->lines;
    gy_product_outs(p, gy_cpu_out(job->out, a.group * p->vec, p->half ? GY_BF16 : GY_F32), a.pixel, a.count, own.outs);
    for (int64_t i = 0; i < a.count && !p->half; i++)
        own.sum_rows[i] = own.outs[i];
    if (p->patch)
        gy_product_patches(p, a.in, a.pixel, a.count, own.buffer, gy_product_patch_pitch(p));
    if (p->lines)
        gy_product_lines(p, a.in, a.pixel, a.count, own.buffer);
    if (p->odd)
        conv_join(job, &own, a.pixel, a.count);
    if (p->half)
        conv_by_panels(job, &own, &a, cold);
    else
        conv_by_slices(job, &own, &a, cold);
}

/* Pixels that no tap reaches. */
static void conv_zero_tile(void *arg, int64_t tile, int thread)
{
    const struct conv_job *job = arg;
    const struct gy_product *p = job->p;
    for (int64_t m = tile * p->strip; m < gy_min64((tile + 1) * p->strip, p->pixels); m++) {
        void *out;
        gy_product_outs(p, job->out, m, 1, &out);
        memset(out, 0, (size_t)p->out_pitch * (p->half ? sizeof(uint16_t) : sizeof(float)));
    }
    (void)thread;
}

static void conv_run_product(const struct gy_cpu *cpu, struct conv_job *job)
{
    const struct gy_product *p = job->p;
    if (p->pixels == 0)
        return;
    if (p->taps == 0) {
        if (!job->add)
            gy_pool_run(cpu->pool, conv_zero_tile, job, p->strips);
        return;
    }
    if (p->packed > 0)
        gy_pool_run(cpu->pool, conv_pack_tile, job, p->groups * p->panels);
    gy_pool_run(cpu->pool, conv_tile, job, p->groups * p->strips * p->panel_groups);
}

/* Outputs beyond the caches bypass them if whole lines are written once, and no sums wait there. */
static int conv_streams(const struct gy_product *p, const struct gy_op *op)
{
    const int64_t bytes = p->half ? 2 : 4, row = p->out_pitch * bytes;
    const int whole = row % GY_CACHE_LINE == 0 && p->vec * bytes % GY_CACHE_LINE == 0;
    const int again = !p->half && (p->depth > p->depth_block || p->taps > p->tap_block);
    const int changed = p->transposed ? (op->flags & GY_F_ADD_DX) != 0
                                      : op->tensor[GY_SCALE] >= 0 || op->tensor[GY_RES] >= 0 || op->act != GY_ACT_NONE;
    return whole && !changed && !again && p->n * p->h.out_size * p->w.out_size * row >= CONV_STREAM;
}

/* Completes a pass behind its product: layouts. */
static void conv_lay_out(const struct gy_cpu *cpu, struct gy_op *op, struct conv_plan *plan)
{
    const struct gy_product *const p = &plan->p;
    size_t used = 0;
    plan->stats = !p->transposed && op->tensor[GY_STATS] >= 0;
    plan->streams = conv_streams(p, op);
    plan->own_bytes = conv_lay_own(p, &plan->own);
    const size_t parts = plan->stats ? (size_t)(p->strips * p->out_pitch) : 0;
    plan->all.packed = gy_scratch_take(&used, (size_t)p->packed, sizeof(float));
    plan->all.mean = gy_scratch_take(&used, parts, sizeof(float));
    plan->all.m2 = gy_scratch_take(&used, parts, sizeof(float));
    plan->all.own = gy_scratch_take(&used, (size_t)cpu->threads, plan->own_bytes);
    op->scratch_bytes = used > op->scratch_bytes ? used : op->scratch_bytes;
}

GY_INT void gy_cpu_conv_plan(struct gy_planner *planner, struct gy_op *op)
{
    struct conv_plan *const plan = gy_planner_take(planner, 1, sizeof *plan);
    op->plan = plan;
    if (!plan)
        return;
    gy_product_forward(&plan->p, op, planner, GY_PRODUCT_PAIRS);
    conv_lay_out(planner->cpu, op, plan);
}

/* Of a plan: where its scratch and its outputs are. */
static struct conv_job conv_make_job(const struct gy_cpu *cpu, const struct gy_op *op, const struct conv_plan *plan, void *out)
{
    struct conv_job job = { .cpu = cpu, .plan = plan, .p = &plan->p, .op = op, .weights = op->ptr[GY_W], .out = out, .all = plan->all };
    job.stream = plan->streams && (uintptr_t)out % GY_CACHE_LINE == 0;
    gy_scratch_move(&job.all, sizeof job.all, op->ptr[GY_SCRATCH]);
    return job;
}

GY_INT void gy_cpu_conv_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct conv_plan *const plan = op->plan;
    struct conv_job job = conv_make_job(cpu, op, plan, op->ptr[GY_Y]);
    job.in = op->ptr[GY_X];
    job.bias = op->ptr[GY_BIAS];
    conv_run_product(cpu, &job);
    if (plan->stats)
        gy_cpu_merge_stats(cpu, job.all.mean, job.all.m2, plan->p.strips, plan->p.out_pitch, plan->p.strip, plan->p.pixels,
                           op->ptr[GY_STATS]);
}

/* A plan for each class of dx's pixels. */
GY_INT void gy_cpu_dgrad_plan(struct gy_planner *planner, struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    struct conv_plan *const plan = gy_planner_take(planner, (int64_t)g->stride_h * g->stride_w, sizeof *plan);
    op->plan = plan;
    for (int32_t i = 0; plan && i < g->stride_h * g->stride_w; i++) {
        gy_product_dgrad(&plan[i].p, op, planner, i / g->stride_w, i % g->stride_w);
        conv_lay_out(planner->cpu, op, &plan[i]);
    }
}

GY_INT void gy_cpu_dgrad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct conv_plan *const plan = op->plan;
    for (int32_t i = 0; i < op->geom.stride_h * op->geom.stride_w; i++) {
        struct conv_job job = conv_make_job(cpu, op, &plan[i], op->ptr[GY_DX]);
        job.in = op->ptr[GY_DY];
        job.add = (op->flags & GY_F_ADD_DX) != 0;
        conv_run_product(cpu, &job);
    }
}
