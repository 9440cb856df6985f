/* SPDX-License-Identifier: MIT */
/* graph.h: a net as its text says it: layers, shapes, parameters, before any decision about memory
 * or kernels. net_text.c makes it, and names a mistake of the user by line and column. engine/plan
 * makes ops of it. Each node stands behind its inputs. All memory is the arena's. */
#ifndef GY_GRAPH_H
#define GY_GRAPH_H
#include "kernels/op.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

#define GY_NODE_INPUTS 16
#define GY_MAX_NODES 8192
#define GY_MAX_CHANNELS (1 << 20)
#define GY_MAX_SIDE 16384

enum gy_layer {
    GY_LAYER_INPUT, GY_LAYER_CONV, GY_LAYER_LINEAR, GY_LAYER_BN, GY_LAYER_RELU, GY_LAYER_RELU6, GY_LAYER_SIGMOID,
    GY_LAYER_TANH, GY_LAYER_LEAKY, GY_LAYER_MAXPOOL, GY_LAYER_AVGPOOL, GY_LAYER_GAP, GY_LAYER_LRN,
    GY_LAYER_DROPOUT, GY_LAYER_ADD,
    GY_LAYER_CONCAT, GY_LAYER_FLATTEN, GY_LAYER_SHORTCUT, GY_LAYER_SOFTMAX, GY_LAYER_MSE, GY_LAYERS
};

/* What a parameter is: decides initial values, weight decay, layout of import and export. */
enum gy_param_kind {
    GY_PARAM_CONV_WEIGHT,   /* [k][r][s][c], c = channels a group; He normal, fan out */
    GY_PARAM_LINEAR_WEIGHT, /* [k][c], c = h*w*channels of the input, NHWC; uniform +-1/sqrt(c) */
    GY_PARAM_CONV_BIAS,     /* [k]; 0 */
    GY_PARAM_LINEAR_BIAS,   /* [k]; uniform +-1/sqrt(inputs) */
    GY_PARAM_GAMMA,         /* [k]; 1 */
    GY_PARAM_BETA,          /* [k]; 0 */
    GY_PARAM_RUN_MEAN,      /* [k]; 0; state, not trained */
    GY_PARAM_RUN_VAR        /* [k]; 1; state, not trained */
};

struct gy_param {
    const char *name;       /* PyTorch's: "layer1.0.conv1.weight" */
    int kind;               /* enum gy_param_kind */
    int node;               /* owner */
    int32_t k, r, s, c;     /* unused ones are 1 */
    int32_t flat_h, flat_w; /* linear weights: flattened height, width; else 1 */
    int64_t count;          /* elements */
};

struct gy_node {
    int layer;                 /* enum gy_layer */
    const char *name;          /* unique: "layer1.0.conv1"; without a label "relu3" */
    int line, column;          /* of the layer's word in the net text */
    int input_count;
    int input[GY_NODE_INPUTS]; /* node indexes, each less than the own */
    struct gy_geom geom;       /* n is 0; h w c of input[0], p q k of the output */
    float f[8];                /* for the op, which says what they are: kernels/op.h */
    int32_t flat_h, flat_w;    /* height, width that a flatten put into channels; else 1 */
    int weight, bias;          /* index in params or -1: weight or gamma, bias or beta */
    int run_mean, run_var;     /* batch norm */
    int split;                 /* linear: ranks keep slices of its columns */
};

struct gy_graph {
    struct gy_node *nodes;
    int node_count;
    struct gy_param *params;   /* in order of appearance */
    int param_count;
    int32_t h, w, c;           /* of one input sample */
    int loss;                  /* the loss node (always the last one) */
    int output;                /* its input: the scores [classes] */
    int32_t classes;           /* channels of the scores */
    int splits;                /* nodes that are split */
};

/* text has `bytes` bytes, NUL or not; source names it in sentences ("resnet50", "my.net"). GY_E_NET
 * with "source:line:column: ..." for a mistake; GY_E_NOMEM. *graph is set on success only. Its
 * memory is the arena's: a few hundred bytes a layer, with what only parsing needs. */
GY_INT int gy_graph_parse(struct gy_graph *graph, struct gy_arena *arena, const char *text, size_t bytes,
                          const char *source, struct gy_error *err);

GY_INT const char *gy_layer_name(int layer);     /* the word of the language */
GY_INT int gy_param_is_state(int kind);          /* running mean or variance */
GY_INT void gy_layer_help(struct gy_sink *sink); /* a line a layer: its options and defaults */

/* The zoo writes nets as text into the sink. name: "resnet50". classes 0, side 0: the net's own.
 * GY_E_ARG, with the nearest name if it is unknown, or with the limits of a size. */
GY_INT int gy_zoo_write(struct gy_sink *sink, const char *name, int32_t classes, int32_t side_h, int32_t side_w,
                        int32_t channels, struct gy_error *err);
GY_INT const char *gy_zoo_name(int index);  /* NULL after the last */
GY_INT const char *gy_zoo_about(int index); /* paper, input, classes */

#endif
