/* SPDX-License-Identifier: MIT */
/* checkpoint_fits.c: decides whether a checkpoint is one of this net. Names and shapes of tensors
 * prove little: nets that compute different things can share them. So a checkpoint has the net's
 * text and how samples become input. Loading compares both, layer by layer; comments, spaces,
 * repetitions and labels of layers without weights do not count. */
#include "engine/run/engine.h"
#include "io/safetensors.h"
#include <float.h>

#define FITS_INPUT "gyre.input" /* metadata: "u8 mean 0.286 std 0.353", a number a channel */
#define FITS_ROOM 192           /* of such a text: 8 numbers of at most 16 letters */

/* ---- the net ---- */

static int fits_same_param(const struct gy_param *a, const struct gy_param *b)
{
    return a->kind == b->kind && a->node == b->node && a->k == b->k && a->r == b->r && a->s == b->s && a->c == b->c && a->flat_h == b->flat_h &&
           a->flat_w == b->flat_w && strcmp(a->name, b->name) == 0;
}

/* The parameters of two nodes, by their index or -1. */
static int fits_same_params(const struct gy_graph *a, const struct gy_node *m, const struct gy_graph *b, const struct gy_node *n)
{
    const int pairs[][2] = { { m->weight, n->weight }, { m->bias, n->bias }, { m->run_mean, n->run_mean }, { m->run_var, n->run_var } };
    for (size_t i = 0; i < GY_COUNT(pairs); i++)
        if (pairs[i][0] != pairs[i][1] || (pairs[i][0] >= 0 && !fits_same_param(&a->params[pairs[i][0]], &b->params[pairs[i][1]])))
            return 0;
    return 1;
}

/* A dropout's rate and a loss's smoothing are about training alone. */
static int fits_same_node(const struct gy_graph *a, const struct gy_graph *b, int node, int infer)
{
    const struct gy_node *m = &a->nodes[node], *n = &b->nodes[node];
    const int loose = infer && (m->layer == GY_LAYER_DROPOUT || m->layer == GY_LAYER_SOFTMAX);
    return m->layer == n->layer && m->input_count == n->input_count &&
           memcmp(m->input, n->input, (size_t)m->input_count * sizeof m->input[0]) == 0 &&
           memcmp(&m->geom, &n->geom, offsetof(struct gy_geom, groups) + sizeof m->geom.groups) == 0 &&
           (loose || memcmp(m->f, n->f, sizeof m->f) == 0) && fits_same_params(a, m, b, n);
}

static int fits_compare(struct gyre_net *net, const struct gy_graph *other, const char *path)
{
    const struct gy_graph *own = &net->graph;
    const int count = own->node_count < other->node_count ? own->node_count : other->node_count;
    for (int i = 0; i < count; i++)
        if (!fits_same_node(own, other, i, net->config.mode == GYRE_INFER))
            return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: it is of another net: layer %d is '%.60s' (%s) there and '%.60s' (%s) in this net, and they "
                                  "differ", path, i, other->nodes[i].name, gy_layer_name(other->nodes[i].layer), own->nodes[i].name,
                                  gy_layer_name(own->nodes[i].layer));
    return own->node_count == other->node_count ? GY_OK
                                                : gy_engine_fail(net, GY_E_MISMATCH, "%.200s: it is of another net: of %d layers, this one has %d", path,
                                                                 other->node_count, own->node_count);
}

GY_INT int gy_ckpt_check_net(struct gyre_net *net, const struct gy_st_file *file, const char *path)
{
    const char *text = gy_st_meta(file, "gyre.net");
    struct gy_arena arena;
    struct gy_graph other;
    if (!text)
        return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: it has no net text: not a checkpoint of Gyre", path);
    if (strcmp(text, net->config.net) == 0)
        return GY_OK;
    gy_arena_open_hook(&arena, &net->scratch);
    int status = gy_graph_parse(&other, &arena, text, strlen(text), path, &net->error);
    status = status == GY_OK ? fits_compare(net, &other, path) : status == GY_E_NET ? gy_engine_fail(net, GY_E_MISMATCH, "%s", net->error.text) : status;
    gy_arena_close(&arena);
    return status;
}

/* ---- the input ---- */

static size_t fits_put(char *text, size_t room, size_t at, const char *word, const float *values, int count)
{
    at += (size_t)snprintf(text + at, room - at, " %s", word);
    for (int c = 0; c < count; c++) /* 9 digits bring back every float */
        at += (size_t)gy_text_print(text + at, room - at, " %.9g", (double)values[c]);
    return at;
}

static void fits_input_text(const struct gyre_net *net, char text[FITS_ROOM])
{
    const struct gyre_config *c = &net->config;
    const int channels = net->graph.c < 4 ? net->graph.c : 4;
    size_t at = (size_t)snprintf(text, FITS_ROOM, "%s", c->input == GYRE_INPUT_U8 ? "u8" : "f32");
    at = fits_put(text, FITS_ROOM, at, "mean", c->mean, channels);
    fits_put(text, FITS_ROOM, at, "std", c->std, channels);
}

GY_INT int gy_ckpt_put_input(struct gyre_net *net, struct gy_st_writer *writer)
{
    char text[FITS_ROOM];
    fits_input_text(net, text);
    return gy_st_add_meta(writer, FITS_INPUT, text, &net->error);
}

GY_INT int gy_ckpt_check_input(struct gyre_net *net, const struct gy_st_file *file, const char *path)
{
    const char *was = gy_st_meta(file, FITS_INPUT);
    char now[FITS_ROOM];
    fits_input_text(net, now);
    if (!was || strcmp(was, now) == 0)
        return GY_OK; /* files of older versions do not say it */
    return gy_engine_fail(net, GY_E_MISMATCH, "%.150s: its input was '%.140s', this net's is '%s'", path, was, now);
}

/* Numbers of *at into values, at least one and at most four, up to the word `end` or, where it
 * is empty, the end of the text. */
static int fits_numbers(const char **at, const char *end, float values[4])
{
    char word[40];
    double value;
    for (int i = 0; i <= 4; i++) {
        if (gy_text_word(at, word, sizeof word) != 0)
            return i > 0 && !end[0] ? 0 : -1;
        if (i > 0 && strcmp(word, end) == 0)
            return 0;
        if (i == 4 || gy_text_real(word, -(double)FLT_MAX, (double)FLT_MAX, &value) != 0)
            return -1;
        values[i] = (float)value;
    }
    return -1;
}

/* Sets three fields of config: the caller's struct may end behind them. */
static int fits_read_input(const char *text, struct gyre_config *config)
{
    char word[40];
    float mean[4] = { 0, 0, 0, 0 }, std[4] = { 1, 1, 1, 1 };
    if (gy_text_word(&text, word, sizeof word) != 0 || (strcmp(word, "u8") != 0 && strcmp(word, "f32") != 0))
        return -1;
    const int input = word[0] == 'u' ? GYRE_INPUT_U8 : GYRE_INPUT_F32;
    if (gy_text_word(&text, word, sizeof word) != 0 || strcmp(word, "mean") != 0 || fits_numbers(&text, "std", mean) != 0 ||
        fits_numbers(&text, "", std) != 0)
        return -1;
    config->input = input;
    memcpy(config->mean, mean, sizeof mean);
    memcpy(config->std, std, sizeof std);
    return 0;
}

static int fits_read_file(const char *path, struct gyre_config *config, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_file *file;
    if (config->size < offsetof(struct gyre_config, threads) || config->size > sizeof *config)
        return GY_FAIL(err, GY_E_ARG, "config.size is %zu; gyre_config_default sets it to %zu", config->size, sizeof *config);
    GY_TRY(gy_st_open(&file, &alloc, path, err));
    const char *text = gy_st_meta(file, FITS_INPUT);
    int status = GY_OK;
    if (!text)
        status = GY_FAIL(err, GY_E_ARG, "%.200s does not say how samples become input: an older version wrote it, or it is no checkpoint", path);
    else if (fits_read_input(text, config) != 0)
        status = GY_FAIL(err, GY_E_FORMAT, "%.200s: its metadata '" FITS_INPUT "', '%.100s', is damaged", path, text);
    gy_st_close(file);
    return status;
}

GYRE_API int gyre_read_input(const char *path, struct gyre_config *config, struct gyre_error *error)
{
    GY_TRY(gy_given(path, "gyre_read_input: path", error));
    GY_TRY(gy_given(config, "gyre_read_input: config", error));
    struct gy_error err = { 0 };
    const int status = fits_read_file(path, config, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
