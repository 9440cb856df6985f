/* SPDX-License-Identifier: MIT */
/* net_truth.c: the interpreter of the graph. A layer kind is one function, forward and back; the
 * table is at the end. */
#include "tests/net_truth.h"
#include "engine/base/rng.h"

/* A layer at work. Forward it computes its value. Backward it adds its part to the gradients of its
 * inputs and parameters. */
struct truth_layer {
    const struct gy_node *node;
    const struct gy_geom *g;
    int back;
    int64_t size, count;  /* elements of its value, of a sample and of all */
    const double *x, *dy; /* first input; gradient of the own value */
    double *y, *dx;
    struct truth *t;
};

/* Elements of one sample of a node's value. */
static int64_t truth_size(const struct gy_graph *graph, int i)
{
    return (int64_t)graph->nodes[i].geom.p * graph->nodes[i].geom.q * graph->nodes[i].geom.k;
}

/* Element of the input, -1 outside of the image. */
static int64_t truth_at(const struct gy_geom *g, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return h < 0 || w < 0 || h >= g->h || w >= g->w ? -1 : ((n * g->h + h) * g->w + w) * g->c + c;
}

static double truth_pixel(const struct truth *t, const struct gy_geom *g, int64_t n, int64_t h, int64_t w, int64_t c)
{
    const struct gy_mix *m = t->now->mix ? &t->now->mix[n] : NULL;
    const int64_t at = truth_at(g, n, m ? h - m->dy : h, m ? (m->flip ? g->w - 1 - w : w) - m->dx : w, c);
    return ((at < 0 ? 0 : t->now->x[at]) - t->mean[c & 3]) / t->std[c & 3];
}

static void truth_input(const struct truth_layer *l)
{
    for (int64_t at = 0; !l->back && at < l->count; at++) {
        const int64_t c = at % l->g->c, w = at / l->g->c % l->g->w, h = at / l->g->c / l->g->w % l->g->h, n = at / l->size;
        const struct gy_mix *m = l->t->now->mix ? &l->t->now->mix[n] : NULL;
        l->y[at] = truth_pixel(l->t, l->g, n, h, w, c);
        if (m && h >= m->h0 && h < m->h1 && w >= m->w0 && w < m->w1)
            l->y[at] = (double)m->inside * l->y[at] + (1 - (double)m->inside) * truth_pixel(l->t, l->g, m->partner, h, w, c);
    }
}

/* Finds the place of weight (r, s, c) in PyTorch's filter. PyTorch flattens with the channel as the
 * slowest dimension. */
static void truth_filter_places(const struct truth *t, const struct gy_param *p)
{
    const int64_t pixels = (int64_t)p->flat_h * p->flat_w, deep = p->c / pixels, window = (int64_t)p->r * p->s;
    for (int64_t at = 0; at < window * p->c; at++)
        t->place[at] = (at % p->c % deep * pixels + at % p->c / deep) * window + at / p->c;
}

static void truth_conv(const struct truth_layer *l)
{
    struct truth *const t = l->t;
    const struct gy_geom *g = l->g;
    const int64_t deep = g->c / g->groups, filter = g->r * g->s * deep;
    truth_filter_places(t, &t->graph->params[l->node->weight]);
    for (int64_t at = 0; at < l->count; at++) {
        const int64_t k = at % g->k, q = at / g->k % g->q, p = at / g->k / g->q % g->p, n = at / l->size;
        const double *w = t->param[l->node->weight] + k * filter, dy = l->back ? l->dy[at] : 0;
        double *const dw = t->grad[l->node->weight] + k * filter, sum = 0;
        const int64_t *place = t->place;
        for (int64_t r = 0; r < g->r; r++)
            for (int64_t s = 0; s < g->s; s++, place += deep) {
                const int64_t h = p * g->stride_h - g->pad_h + r * g->dil_h, v = q * g->stride_w - g->pad_w + s * g->dil_w;
                const int64_t in = truth_at(g, n, h, v, k / (g->k / g->groups) * deep);
                for (int64_t c = 0; in >= 0 && !l->back && c < deep; c++)
                    sum += l->x[in + c] * w[place[c]];
                for (int64_t c = 0; in >= 0 && l->back && c < deep; c++) {
                    l->dx[in + c] += dy * w[place[c]];
                    dw[place[c]] += dy * l->x[in + c];
                }
            }
        if (!l->back)
            l->y[at] = sum + (l->node->bias < 0 ? 0 : t->param[l->node->bias][k]);
        else if (l->node->bias >= 0)
            t->grad[l->node->bias][k] += dy;
    }
}

static void truth_norm(const struct truth_layer *l)
{
    struct truth *const t = l->t;
    const struct gy_node *node = l->node;
    const int64_t step = l->g->k;
    const double pixels = (double)(l->count / step), momentum = (double)node->f[1];
    for (int64_t c = 0; c < step; c++) {
        double *const run_mean = &t->param[node->run_mean][c], *const run_var = &t->param[node->run_var][c];
        double *const dbeta = &t->grad[node->bias][c], *const dgamma = &t->grad[node->weight][c], mean = 0, variance = 0;
        for (int64_t at = c; at < l->count; at += step)
            mean += l->x[at] / pixels;
        for (int64_t at = c; at < l->count; at += step)
            variance += (l->x[at] - mean) * (l->x[at] - mean) / pixels;
        if (!t->training) {
            mean = *run_mean;
            variance = *run_var;
        } else if (!l->back) {
            *run_mean += momentum * (mean - *run_mean);
            *run_var += momentum * (variance * pixels / (pixels > 1 ? pixels - 1 : 1) - *run_var);
        }
        const double rstd = 1 / sqrt(variance + (double)node->f[0]), gamma = t->param[node->weight][c];
        for (int64_t at = c; !l->back && at < l->count; at += step)
            l->y[at] = (l->x[at] - mean) * rstd * gamma + t->param[node->bias][c];
        for (int64_t at = c; l->back && at < l->count; at += step) {
            *dbeta += l->dy[at];
            *dgamma += l->dy[at] * (l->x[at] - mean) * rstd;
        }
        for (int64_t at = c; l->back && at < l->count; at += step)
            l->dx[at] += gamma * rstd * (l->dy[at] - *dbeta / pixels - (l->x[at] - mean) * rstd * *dgamma / pixels);
    }
}

static void truth_act(const struct truth_layer *l)
{
    const int kind = l->node->layer;
    for (int64_t at = 0; at < l->count; at++) {
        const double x = l->x[at], clamped = x < 0 ? 0 : kind == GY_LAYER_RELU6 && x > 6 ? 6 : x;
        const double bent = x > 0 ? 1 : (double)l->node->f[0];
        if (kind == GY_LAYER_LEAKY) {
            if (l->back)
                l->dx[at] += l->dy[at] * bent;
            else
                l->y[at] = x * bent;
            continue;
        }
        const double y = kind == GY_LAYER_TANH ? tanh(x) : kind == GY_LAYER_SIGMOID ? 1 / (1 + exp(-x)) : clamped;
        const double slope = kind == GY_LAYER_TANH ? 1 - y * y : kind == GY_LAYER_SIGMOID ? y * (1 - y) : x > 0 && y == x;
        if (l->back)
            l->dx[at] += l->dy[at] * slope;
        else
            l->y[at] = y;
    }
}

/* Element e is kept when word e % 4 of draw e / 4 is at least rate * 2^32. */
static void truth_dropout(const struct truth_layer *l)
{
    const double rate = l->t->training ? (double)l->node->f[0] : 0;
    const uint32_t stream = GY_RNG_DROPOUT + (uint32_t)(l->node - l->t->graph->nodes);
    uint32_t words[4] = { 0 };
    for (int64_t e = 0; e < l->count; e++) {
        if (e % 4 == 0)
            gy_rng_words(l->t->now->seed, stream, l->t->now->step, (uint64_t)(e / 4), words);
        const double keep = words[e % 4] >= (uint32_t)(rate * 4294967296.0) ? 1 / (1 - rate) : 0;
        if (l->back)
            l->dx[e] += l->dy[e] * keep;
        else
            l->y[e] = l->x[e] * keep;
    }
}

/* add; and flatten, which leaves height, width, channel as they lie. */
static void truth_add(const struct truth_layer *l)
{
    for (int64_t at = 0; at < l->count; at++) {
        double sum = 0;
        for (int k = 0; k < l->node->input_count; k++) {
            sum += l->t->value[l->node->input[k]][at];
            if (l->back)
                l->t->dvalue[l->node->input[k]][at] += l->dy[at];
        }
        l->y[at] = sum;
    }
}

static void truth_concat(const struct truth_layer *l)
{
    int64_t first = 0;
    for (int k = 0; k < l->node->input_count; k++) {
        const int64_t in = l->node->input[k], deep = l->t->graph->nodes[in].geom.k;
        for (int64_t at = 0; at < l->count / l->g->k * deep; at++) {
            const int64_t to = at / deep * l->g->k + first + at % deep;
            if (l->back)
                l->t->dvalue[in][at] += l->dy[to];
            else
                l->y[to] = l->t->value[in][at];
        }
        first += deep;
    }
}

/* Channel k is channel k - pad of every stride-th pixel, 0 where there is none. */
static void truth_shortcut(const struct truth_layer *l)
{
    const struct gy_geom *g = l->g;
    for (int64_t at = 0; at < l->count; at++) {
        const int64_t c = at % g->k - (g->k - g->c) / 2, q = at / g->k % g->q, p = at / g->k / g->q % g->p;
        const int64_t from = truth_at(g, at / l->size, p * g->stride_h, q * g->stride_w, c);
        const int there = c >= 0 && c < g->c;
        if (!l->back)
            l->y[at] = there ? l->x[from] : 0;
        else if (there)
            l->dx[from] += l->dy[at];
    }
}

/* Elements in the window of output `at`, into t->place; returns how many are inside the image. */
static int truth_window(const struct truth_layer *l, int64_t at)
{
    const struct gy_geom *g = l->g;
    const int64_t c = at % g->k, q = at / g->k % g->q, p = at / g->k / g->q % g->p, n = at / l->size;
    int64_t *const place = l->t->place;
    int inside = 0;
    for (int64_t r = 0; r < g->r; r++)
        for (int64_t s = 0; s < g->s; s++) {
            place[inside] = truth_at(g, n, p * g->stride_h - g->pad_h + r, q * g->stride_w - g->pad_w + s, c);
            inside += place[inside] >= 0;
        }
    return inside;
}

/* Among equal maxima the first takes the whole gradient. An average is over the window, or over its
 * part inside the image. */
static void truth_pool(const struct truth_layer *l)
{
    const int64_t *place = l->t->place;
    for (int64_t at = 0; at < l->count; at++) {
        const int inside = truth_window(l, at), cells = l->node->f[0] > 0 ? inside : l->g->r * l->g->s;
        int best = 0;
        double sum = 0;
        for (int k = 1; k < inside; k++)
            best = l->x[place[k]] > l->x[place[best]] ? k : best;
        for (int k = 0; k < inside; k++) {
            const double share = l->node->layer == GY_LAYER_MAXPOOL ? k == best : 1.0 / cells;
            sum += share * l->x[place[k]];
            if (l->back)
                l->dx[place[k]] += share * l->dy[at];
        }
        l->y[at] = sum;
    }
}

/* y = x b^-beta, where b = k + alpha / size * the sum of squares of `size` channels around. */
static void truth_lrn(const struct truth_layer *l)
{
    const int64_t half = l->g->r / 2;
    const double share = (double)l->node->f[1] / l->g->r, beta = (double)l->node->f[2];
    for (int64_t at = 0; at < l->count; at++) {
        const int64_t c = at % l->g->k, lo = at - gy_min64(c, half), hi = at + gy_min64(l->g->k - 1 - c, half);
        double b = (double)l->node->f[0];
        for (int64_t j = lo; j <= hi; j++)
            b += share * l->x[j] * l->x[j];
        for (int64_t j = lo; l->back && j <= hi; j++)
            l->dx[j] += l->dy[at] * ((j == at) - beta * l->x[at] / b * share * 2 * l->x[j]) * pow(b, -beta);
        l->y[at] = l->x[at] * pow(b, -beta);
    }
}

static int truth_labelled(const struct truth_batch *b, int64_t n) { return b->label ? b->label[n] >= 0 : b->target != NULL; }

/* The target of class c of sample n: mixed with the target of a labelled partner, and smoothed in
 * training. */
static double truth_target(const struct truth *t, int64_t n, int64_t c)
{
    const struct truth_batch *b = t->now;
    const int64_t classes = t->graph->classes, m = b->mix && truth_labelled(b, b->mix[n].partner) ? b->mix[n].partner : n;
    const double own = b->mix ? (double)b->mix[n].label : 1, smooth = t->training ? (double)t->graph->nodes[t->graph->loss].f[0] : 0;
    const double mine = b->target ? b->target[n * classes + c] : b->label[n] == c;
    const double others = b->target ? b->target[m * classes + c] : b->label[m] == c;
    return (1 - smooth) * (own * mine + (1 - own) * others) + smooth / (double)classes;
}

/* The gradient is softmax - target for cross-entropy and 2 (output - target) / classes for mse. The
 * loss is the mean over labelled samples. */
static void truth_loss(const struct truth_layer *l)
{
    struct truth *const t = l->t;
    const int64_t classes = l->g->c, count = t->now->count;
    const int softmax = l->node->layer == GY_LAYER_SOFTMAX;
    t->mean_loss = t->labelled = 0;
    for (int64_t n = 0; n < count; n++)
        t->labelled += truth_labelled(t->now, n);
    const double samples = t->labelled ? t->labelled : 1, scale = (softmax ? 1 : 2 / (double)classes) / samples;
    for (int64_t n = 0; n < count; n++) {
        const double *x = l->x + n * classes;
        double largest = x[0], sum = 0;
        for (int64_t c = 0; c < classes; c++)
            largest = x[c] > largest ? x[c] : largest;
        for (int64_t c = 0; c < classes; c++)
            sum += exp(x[c] - largest);
        t->loss[n] = 0;
        for (int64_t c = 0; c < classes; c++) {
            const double y = t->scores[n * classes + c] = softmax ? exp(x[c] - largest) / sum : x[c];
            const double target = truth_labelled(t->now, n) ? truth_target(t, n, c) : 0;
            const double off = truth_labelled(t->now, n) ? y - target : 0;
            t->loss[n] += softmax ? target * (log(sum) + largest - x[c]) : off * off / (double)classes;
            l->dx[n * classes + c] += l->back ? scale * off : 0;
        }
        t->mean_loss += t->loss[n] / samples;
    }
}

static void (*const truth_layers[GY_LAYERS])(const struct truth_layer *) = {
    [GY_LAYER_INPUT] = truth_input,   [GY_LAYER_CONV] = truth_conv,         [GY_LAYER_LINEAR] = truth_conv,
    [GY_LAYER_BN] = truth_norm,       [GY_LAYER_RELU] = truth_act,          [GY_LAYER_RELU6] = truth_act,
    [GY_LAYER_SIGMOID] = truth_act,   [GY_LAYER_TANH] = truth_act,          [GY_LAYER_LEAKY] = truth_act,
    [GY_LAYER_MAXPOOL] = truth_pool,
    [GY_LAYER_AVGPOOL] = truth_pool,  [GY_LAYER_GAP] = truth_pool,          [GY_LAYER_LRN] = truth_lrn,
    [GY_LAYER_DROPOUT] = truth_dropout, [GY_LAYER_ADD] = truth_add,         [GY_LAYER_CONCAT] = truth_concat,
    [GY_LAYER_FLATTEN] = truth_add,   [GY_LAYER_SHORTCUT] = truth_shortcut, [GY_LAYER_SOFTMAX] = truth_loss,
    [GY_LAYER_MSE] = truth_loss,
};

static void truth_node(struct truth *t, int i, int back)
{
    const struct gy_node *node = &t->graph->nodes[i];
    const int64_t size = truth_size(t->graph, i), count = size * t->now->count, in = node->input[0];
    const struct truth_layer l = { node, &node->geom, back, size, count, t->value[in], t->dvalue[i], t->value[i], t->dvalue[in], t };
    if (back && t->seen)
        t->seen(t->user, i, t->dvalue[i], count);
    truth_layers[node->layer](&l);
    if (!back && t->seen)
        t->seen(t->user, i, t->value[i], count);
}

void truth_forward(struct truth *t, const struct truth_batch *batch, int training)
{
    t->now = batch;
    t->training = training;
    for (int i = 0; i < t->graph->node_count; i++)
        truth_node(t, i, 0);
}

void truth_backward(struct truth *t)
{
    for (int i = 0; i < t->graph->param_count; i++)
        memset(t->grad[i], 0, (size_t)t->graph->params[i].count * sizeof(double));
    for (int i = 0; i < t->graph->node_count; i++)
        memset(t->dvalue[i], 0, (size_t)(t->now->count * truth_size(t->graph, i)) * sizeof(double));
    for (int i = t->graph->node_count - 1; i >= 0; i--)
        truth_node(t, i, 1);
}

int truth_open(struct truth *t, const struct gy_graph *graph, int batch)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const int params = graph->param_count, nodes = graph->node_count, rows = 2 * nodes + 2 * params;
    int64_t place = 1;
    *t = (struct truth){ .graph = graph, .std = { 1, 1, 1, 1 } };
    gy_arena_open_hook(&t->arena, &alloc);
    double **const row = t->value = gy_arena_take(&t->arena, (size_t)rows, sizeof *row);
    int ok = row != NULL;
    for (int i = 0; i < rows && ok; i++) {
        const struct gy_geom *g = &graph->nodes[i % nodes].geom;
        const int64_t count = i < 2 * nodes ? batch * truth_size(graph, i % nodes) : graph->params[(i - 2 * nodes) % params].count;
        place = gy_max64(place, (int64_t)g->r * g->s * g->c);
        ok = (row[i] = gy_arena_take(&t->arena, (size_t)count, sizeof(double))) != NULL;
    }
    ok = ok && (t->loss = gy_arena_take(&t->arena, (size_t)batch, sizeof *t->loss)) &&
         (t->scores = gy_arena_take(&t->arena, (size_t)batch * (size_t)graph->classes, sizeof *t->scores)) &&
         (t->place = gy_arena_take(&t->arena, (size_t)place, sizeof *t->place));
    t->dvalue = ok ? row + nodes : NULL;
    t->param = ok ? row + 2 * nodes : NULL;
    t->grad = ok ? t->param + params : NULL;
    if (!ok)
        truth_close(t);
    return ok ? 0 : -1;
}

void truth_close(struct truth *t)
{
    gy_arena_close(&t->arena);
}
