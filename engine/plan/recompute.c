/* SPDX-License-Identifier: MIT */
/* recompute.c: trades time for memory (Chen et al. 2016, "Training deep nets with sublinear memory
 * cost"). With recompute 1 it cuts the net where a single value leads from all before to all after.
 * Only the values at the cuts are kept through forward. Backward computes each segment but the last
 * once more before the segment's own backward ops. The cuts come from trying segment sizes: the
 * peak is about the sum of the values at the cuts plus the largest segment.
 *
 * With recompute 0, too, a batch norm's backward op makes the output again from the input, which is
 * kept. It is y = act(x * scale + shift [+ res]), for one more write. Such an output is cheap,
 * and not kept, if the residual is kept, or made by the same pass, as at the start of a chain of
 * residual blocks. Along the chain every second output is cheap, from the first on; so is the last
 * if it is small. With segments all are, as far as possible; that takes passes of their own along
 * the chain. The net's input is cheap, too: the samples stay. So is a large input of a batch norm
 * that a convolution of few products makes from a kept value: in ResNet-50 the first shortcut. */
#include "engine/plan/emit.h"

#define REC_PRODUCTS 64    /* most multiplications an element: then they cost about a few passes */
#ifndef REC_BYTES          /* a test of small nets has smaller thresholds */
#define REC_BYTES 67108864 /* least output that a convolution recomputes, for its memory */
#define REC_NEAR 33554432  /* most bytes of a cheap pass: caches hold a part of them */
#endif

static int64_t rec_elements(const struct gy_emit *e, int i)
{
    const struct gy_geom *g = &e->b->graph->nodes[i].geom;
    return e->nodes[i].head == i ? (int64_t)g->p * g->q * g->k : 0;
}

static int64_t rec_bytes(const struct gy_emit *e, int i)
{
    return rec_elements(e, i) * e->b->config->batch * (int64_t)gy_dtype_bytes(e->b->config->dtype);
}

/* May the net be cut behind node i? `crossing`: values made at or before i and read later. */
static int rec_can_cut(const struct gy_emit *e, int i, int crossing)
{
    return crossing == 1 && e->nodes[i].last_use > i && e->nodes[e->nodes[i].head].tail == i;
}

/* Cuts greedily after `limit` elements; returns the number of segments; *peak is an estimate. */
static int rec_cut(const struct gy_emit *e, int64_t limit, int *segment_end, int64_t *peak)
{
    const int count = e->b->graph->node_count;
    int segments = 0, open = 0;
    int64_t kept = 0, largest = 0, size = 0;
    for (int i = 0; i < count; i++) {
        size += rec_elements(e, i);
        open += e->nodes[i].last_use > i;
        for (int k = 0, counted = -1; k < e->b->graph->nodes[i].input_count; k++) {
            const int in = e->b->graph->nodes[i].input[k];
            if (e->nodes[in].last_use == i && in != counted)
                open--, counted = in;
        }
        const int last = i + 1 == count;
        if (!last && (size < limit || !rec_can_cut(e, i, open)))
            continue;
        if (segment_end)
            segment_end[segments] = i;
        segments++;
        kept += last ? 0 : rec_elements(e, e->nodes[i].head);
        largest = size > largest ? size : largest;
        size = 0;
    }
    *peak = kept + largest;
    return segments;
}

GY_INT int gy_emit_segments(const struct gy_emit *e, int *segment_end)
{
    int64_t total = 0, best = INT64_MAX, best_limit = INT64_MAX, peak = 0;
    for (int i = 0; i < e->b->graph->node_count; i++)
        total += rec_elements(e, i);
    for (int parts = 1; parts <= 64 && e->b->config->recompute > 0; parts++) {
        rec_cut(e, total / parts, NULL, &peak);
        if (peak < best)
            best = peak, best_limit = total / parts;
    }
    return rec_cut(e, best_limit, segment_end, &peak);
}

/* Marks values that backward reads (layers' inputs, activations' outputs) or a batch norm adds. */
static void rec_mark_read(struct gy_emit *e)
{
    static const uint8_t reads_input[GY_LAYERS] = { [GY_LAYER_CONV] = 1, [GY_LAYER_LINEAR] = 1, [GY_LAYER_BN] = 1,
                                                    [GY_LAYER_LRN] = 1 };
    const struct gy_graph *g = e->b->graph;
    for (int i = 0; i < g->node_count; i++) {
        if (e->nodes[i].res >= 0)
            e->nodes[e->nodes[i].res].added = 1;
        e->nodes[i].read |= e->nodes[i].act != GY_ACT_NONE || gy_emit_act(g->nodes[i].layer) != GY_ACT_NONE;
        for (int k = 0; k < g->nodes[i].input_count && reads_input[g->nodes[i].layer]; k++)
            e->nodes[e->nodes[g->nodes[i].input[k]].head].read = 1;
    }
}

/* A convolution of few products, before a batch norm, of an input that is kept. */
static int rec_cheap_conv(const struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    const struct gy_geom *g = &node->geom;
    const struct gy_emit_node *n = &e->nodes[i];
    if (node->layer != GY_LAYER_CONV || n->head != i || n->bn < 0 || e->b->config->recompute != 0)
        return 0;
    const struct gy_emit_node *in = &e->nodes[e->nodes[node->input[0]].head];
    return rec_bytes(e, i) >= REC_BYTES && g->r * g->s * g->c / g->groups <= REC_PRODUCTS && in->read && !in->cheap;
}

/* What another stage reads is kept: so are values from which such ops make theirs again. */
static void rec_mark_crossing(struct gy_emit *e)
{
    const struct gy_graph *g = e->b->graph;
    const int *of = e->b->config->stages ? e->b->config->stages->of : NULL;
    for (int i = g->node_count - 1; of && i >= 0; i--)
        for (int k = 0; k < g->nodes[i].input_count; k++) {
            struct gy_emit_node *in = &e->nodes[e->nodes[g->nodes[i].input[k]].head];
            in->crosses |= of[e->nodes[i].head] != of[in - e->nodes];
            in->crosses |= e->nodes[i].through && e->nodes[i].crosses;
        }
}

GY_INT void gy_emit_cheap(struct gy_emit *e, const int *segment_end, int segments)
{
    const struct gy_graph *g = e->b->graph;
    rec_mark_read(e);
    rec_mark_crossing(e);
    for (int i = 0, s = 0; i < g->node_count; i++) {
        struct gy_emit_node *n = &e->nodes[i];
        const struct gy_emit_node *res = n->res < 0 ? NULL : &e->nodes[n->res];
        const int begins = res && res->res < 0 && !res->read, ends = !n->added && rec_bytes(e, i) <= REC_NEAR;
        const int made = res && res->cheap && (e->b->config->recompute > 0 || begins || ends);
        const int res_there = !res || made || (res->read && !res->cheap);
        const int kind = g->nodes[i].layer == GY_LAYER_BN || (g->nodes[i].layer == GY_LAYER_INPUT && segments == 1);
        n->cheap = (e->b->config->recompute >= 0 && n->head == i && kind && res_there) || rec_cheap_conv(e, i);
        n->cheap &= !n->crosses;
        n->read |= n->crosses;
        for (; s + 1 < segments && e->nodes[segment_end[s]].head == i; s++) {
            n->cheap = 0;
            n->read = 1;
        }
    }
}
