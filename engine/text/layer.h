/* SPDX-License-Identifier: MIT */
/* layer.h: what the parser (net_text.c) knows of a layer kind: word, options with limits, function
 * that infers the shape. A new kind begins with a row in layer.c; docs/changing.md has the rest. */
#ifndef GY_LAYER_H
#define GY_LAYER_H
#include "engine/text/graph.h"

#define GY_MAX_PARAM_COUNT ((int64_t)1 << 33)  /* elements of all parameters together */
#define GY_MAX_VALUE_COUNT ((int64_t)1 << 30) /* elements of a sample's value, or of a filter */
#define GY_MAX_PRODUCTS ((int64_t)1 << 45)     /* multiplications of one sample in a forward pass */

/* What an option sets. Options of different layers with one meaning share a slot. */
enum gy_option_slot {
    GY_OPT_OUT, GY_OPT_WINDOW, GY_OPT_STRIDE, GY_OPT_PAD, GY_OPT_DILATION, GY_OPT_GROUPS, GY_OPT_BIAS, GY_OPT_NOBIAS,
    GY_OPT_CEIL, GY_OPT_EXCLUDE_PAD, GY_OPT_SIZE, GY_OPT_ALPHA, GY_OPT_BETA, GY_OPT_K, GY_OPT_EPS, GY_OPT_MOMENTUM,
    GY_OPT_RATE, GY_OPT_SLOPE, GY_OPT_SMOOTH, GY_OPT_SHAPE, GY_OPT_SPLIT, GY_OPT_SLOTS
};

enum gy_option_kind {
    GY_KIND_WHOLE, /* 64 */
    GY_KIND_PAIR,  /* 3x5, or 3 for 3x3: height, width */
    GY_KIND_SHAPE, /* 224x224x3 */
    GY_KIND_REAL,  /* 1e-5 */
    GY_KIND_FLAG   /* the word alone */
};

struct gy_option {
    const char *word;    /* NULL: the value stands behind the layer's word, and must */
    int slot, kind;
    double lo, hi;       /* limits, both allowed */
    double initial;      /* -1: shape inference decides */
    const char *about;   /* what it is, for sentences and help */
};

/* One layer of the text while it becomes a node. */
struct gy_layer_use {
    struct gy_graph *graph;   /* nodes before this one are complete */
    struct gy_node *node;     /* layer, place, inputs are set; shape inference does the rest */
    double value[GY_OPT_SLOTS][3];
    int column[GY_OPT_SLOTS]; /* where the option was written, 0: it was not */
    const char *source;
    struct gy_error *err;
};

struct gy_layer_row {
    const char *word;
    int names_lo, names_hi;           /* how many named values follow the word */
    const struct gy_option *options;  /* those without a word come first */
    int option_count;
    /* Fills geom, f, flat_h, flat_w, split; weight, bias, run_mean, run_var: 0 for those it has. */
    int (*shape)(struct gy_layer_use *use);
    const char *usage, *about;
};

GY_INT const struct gy_layer_row *gy_layer_row(int layer);
GY_INT int gy_layer_find(const char *word);            /* enum gy_layer, or -1 */
GY_INT const char *gy_layer_suggest(const char *word); /* nearest that begins a line, or NULL */
/* Writes "source:line:column: sentence" and returns GY_E_NET. */
GY_INT int gy_layer_fail(struct gy_error *err, const char *source, int line, int column, const char *fmt, ...)
    GY_PRINTF(5, 6);

#endif
