/* SPDX-License-Identifier: MIT */
/* A model for other programs: ONNX, domain ai.onnx.ml, LinearClassifier or LinearRegressor over
 * dense float rows [N][features]. glm_api.c calls it for a path that ends in .onnx. The file is
 * protocol buffers. What is needed of them is a number of variable length, a field, and messages
 * inside each other, written from the inside. */
#include "engine/base/file.h"
#include "engine/base/text.h"
#include "engine/glm/glm_model.h"

/* ---- protocol buffers ---- */

static void onnx_varint(struct gy_buf *b, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; value >= 128; value >>= 7)
        bytes[n++] = (unsigned char)(value | 128);
    bytes[n++] = (unsigned char)value;
    gy_buf_add(b, bytes, n);
}

static void onnx_int(struct gy_buf *b, unsigned field, int64_t value)
{
    onnx_varint(b, field << 3);
    onnx_varint(b, (uint64_t)value);
}

static void onnx_bytes(struct gy_buf *b, unsigned field, const void *bytes, size_t count)
{
    onnx_varint(b, field << 3 | 2);
    onnx_varint(b, count);
    gy_buf_add(b, bytes, count);
}

static void onnx_text(struct gy_buf *b, unsigned field, const char *text) { onnx_bytes(b, field, text, strlen(text)); }

/* Takes inner's content as a field and empties it. */
static void onnx_message(struct gy_buf *b, unsigned field, struct gy_buf *inner)
{
    const struct gy_alloc alloc = inner->alloc;
    onnx_bytes(b, field, inner->text, inner->bytes);
    b->failed |= inner->failed;
    gy_buf_close(inner);
    gy_buf_open(inner, &alloc);
}

/* ---- a model of ONNX ---- */

/* AttributeProto.type */
enum { ONNX_INT = 2, ONNX_STRING = 3, ONNX_FLOATS = 6, ONNX_INTS = 7, ONNX_STRINGS = 8 };
enum { ONNX_TENSOR_FLOAT = 1, ONNX_TENSOR_INT64 = 7, ONNX_TENSOR_STRING = 8 };

struct onnx {
    const struct gyre_glm *model;
    struct gy_alloc alloc;
    struct gy_buf file, graph, node, part; /* part: an attribute, or the inside of a value's type */
};

static void onnx_attribute(struct onnx *o, const char *name, int type)
{
    onnx_text(&o->part, 1, name);
    onnx_int(&o->part, 20, type);
}

static void onnx_close_attribute(struct onnx *o) { onnx_message(&o->node, 5, &o->part); }

static void onnx_text_attribute(struct onnx *o, const char *name, const char *value)
{
    onnx_attribute(o, name, ONNX_STRING);
    onnx_text(&o->part, 4, value);
    onnx_close_attribute(o);
}

static void onnx_int_attribute(struct onnx *o, const char *name, int64_t value)
{
    onnx_attribute(o, name, ONNX_INT);
    onnx_int(&o->part, 3, value);
    onnx_close_attribute(o);
}

static void onnx_float(struct onnx *o, float value)
{
    unsigned char bytes[4];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(bits >> (8 * i));
    gy_buf_add(&o->part, bytes, 4);
}

static int onnx_whole_labels(const struct gyre_glm *m)
{
    for (int c = 0; c < m->info.classes; c++)
        if (m->label[c] != floorf(m->label[c]) || fabsf(m->label[c]) > 1e9f)
            return 0;
    return 1;
}

static void onnx_labels(struct onnx *o)
{
    const int whole = onnx_whole_labels(o->model);
    char text[32];
    onnx_attribute(o, whole ? "classlabels_ints" : "classlabels_strings", whole ? ONNX_INTS : ONNX_STRINGS);
    for (int c = 0; c < o->model->info.classes; c++) {
        gy_text_print(text, sizeof text, "%.9g", (double)o->model->label[c]);
        if (whole)
            onnx_int(&o->part, 8, (int64_t)o->model->label[c]);
        else
            onnx_text(&o->part, 9, text);
    }
    onnx_close_attribute(o);
}

/* Two classes: the smaller one's scores are the other's, negated. */
static void onnx_weights(struct onnx *o)
{
    const struct gyre_glm *m = o->model;
    const int outputs = m->info.classes ? m->info.classes : 1;
    onnx_attribute(o, "coefficients", ONNX_FLOATS);
    onnx_varint(&o->part, 7 << 3 | 2);
    onnx_varint(&o->part, (uint64_t)outputs * m->info.features * 4);
    for (int c = 0; c < outputs; c++)
        for (int64_t j = 0; j < m->info.features; j++)
            onnx_float(o, outputs == 2 ? (c ? m->w[j] : -m->w[j]) : m->w[c * m->width + j]);
    onnx_close_attribute(o);
    onnx_attribute(o, "intercepts", ONNX_FLOATS);
    onnx_varint(&o->part, 7 << 3 | 2);
    onnx_varint(&o->part, (uint64_t)outputs * 4);
    for (int c = 0; c < outputs; c++) {
        const float w = m->info.bias != 0 ? (float)m->info.bias * m->w[(outputs > 2 ? c : 0) * m->width + m->info.features] : 0;
        onnx_float(o, outputs == 2 && c == 0 ? -w : w);
    }
    onnx_close_attribute(o);
}

static void onnx_node(struct onnx *o, const char *type, const char *from, const char *to, const char *to2)
{
    onnx_text(&o->node, 1, from);
    onnx_text(&o->node, 2, to);
    if (to2)
        onnx_text(&o->node, 2, to2);
    onnx_text(&o->node, 3, to); /* its name: no two nodes have the same output */
    onnx_text(&o->node, 4, type);
    onnx_text(&o->node, 7, "ai.onnx.ml");
}

static void onnx_normalizer(struct onnx *o, const char *norm, const char *from, const char *to)
{
    onnx_node(o, "Normalizer", from, to, NULL);
    onnx_text_attribute(o, "norm", norm);
    onnx_message(&o->graph, 1, &o->node);
}

/* A tensor's name, type and shape [N] or [N][columns], as a field of the graph. */
static void onnx_value(struct onnx *o, unsigned field, const char *name, int type, int64_t columns)
{
    struct gy_buf *const b[] = { &o->file, &o->part, &o->node }; /* all three are empty here */
    onnx_text(b[0], 2, "N");
    onnx_message(b[1], 1, b[0]);
    if (columns) {
        onnx_int(b[0], 1, columns);
        onnx_message(b[1], 1, b[0]);
    }
    onnx_int(b[2], 1, type);
    onnx_message(b[2], 2, b[1]);  /* tensor: type, shape */
    onnx_message(b[1], 1, b[2]);  /* type: tensor */
    onnx_text(b[2], 1, name);
    onnx_message(b[2], 2, b[1]);
    onnx_message(&o->graph, field, b[2]);
}

static void onnx_graph(struct onnx *o)
{
    const struct gyre_glm_info *info = &o->model->info;
    const int shares = info->loss == GYRE_GLM_LOGISTIC && info->models > 1 && !info->softmax;
    const char *x = info->normalize ? "rows" : "input";
    if (info->normalize)
        onnx_normalizer(o, "L2", "input", "rows");
    onnx_node(o, info->classes ? "LinearClassifier" : "LinearRegressor", x, info->classes ? "label" : "value",
              info->classes ? (shares ? "sigmoids" : "scores") : NULL);
    onnx_weights(o);
    if (info->classes) {
        onnx_labels(o);
        onnx_int_attribute(o, "multi_class", info->classes > 2);
    }
    onnx_text_attribute(o, "post_transform", info->loss != GYRE_GLM_LOGISTIC || !info->classes ? "NONE"
                                             : info->softmax && info->models > 1               ? "SOFTMAX"
                                                                                               : "LOGISTIC");
    onnx_message(&o->graph, 1, &o->node);
    if (shares)
        onnx_normalizer(o, "L1", "sigmoids", "scores");
    onnx_text(&o->graph, 2, "gyre");
    onnx_value(o, 11, "input", ONNX_TENSOR_FLOAT, info->features);
    if (info->classes) {
        onnx_value(o, 12, "label", onnx_whole_labels(o->model) ? ONNX_TENSOR_INT64 : ONNX_TENSOR_STRING, 0);
        onnx_value(o, 12, "scores", ONNX_TENSOR_FLOAT, info->classes);
    } else
        onnx_value(o, 12, "value", ONNX_TENSOR_FLOAT, 1);
}

static int onnx_write(struct onnx *o, const char *path, struct gy_error *err)
{
    struct gy_outfile out;
    onnx_graph(o);
    onnx_int(&o->file, 1, 6); /* the version of ONNX's file format */
    onnx_text(&o->file, 2, "gyre");
    onnx_message(&o->file, 7, &o->graph);
    onnx_text(&o->part, 1, "ai.onnx.ml");
    onnx_int(&o->part, 2, 1);
    onnx_message(&o->file, 8, &o->part);
    onnx_text(&o->part, 1, "");
    onnx_int(&o->part, 2, 11);
    onnx_message(&o->file, 8, &o->part);
    if (o->file.failed || o->graph.failed || o->node.failed || o->part.failed)
        return GY_NOMEM(err, "an ONNX model", o->file.bytes);
    GY_TRY(gy_outfile_open(&out, path, err));
    const int status = gy_outfile_write(&out, o->file.text, o->file.bytes, err);
    if (status == GY_OK)
        return gy_outfile_commit(&out, err);
    gy_outfile_abandon(&out);
    return status;
}

GY_INT int gy_glm_model_onnx(const struct gyre_glm *model, const char *path, struct gy_error *err)
{
    struct onnx o = { .model = model, .alloc = model->alloc };
    struct gy_buf *const all[] = { &o.file, &o.graph, &o.node, &o.part };
    const int64_t outputs = model->info.classes ? model->info.classes : 1;
    if (outputs * model->info.features > 500000000)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%.300s: ONNX files end at 2 GB; %" PRId64 " weights need %" PRId64 " bytes", path,
                       outputs * model->info.features, outputs * model->info.features * 4);
    for (size_t i = 0; i < GY_COUNT(all); i++)
        gy_buf_open(all[i], &o.alloc);
    const int status = onnx_write(&o, path, err);
    for (size_t i = 0; i < GY_COUNT(all); i++)
        gy_buf_close(all[i]);
    return status;
}
