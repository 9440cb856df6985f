/* SPDX-License-Identifier: MIT */
/* A model as text. What liblinear reads comes first: its program 'predict' takes the file as one of
 * its own. It stops behind the last weight. There begin the lines that only Gyre reads: the loss,
 * the penalties, how rows were hashed and normalised, and how far from the optimum each part is.
 * glm_api.c and tools/lab/glm_generate.c call it; glm_model_read.c reads it. */
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/glm/glm_model.h"

static const char *glm_text_solver(const struct gyre_glm_info *info)
{
    if (info->softmax && info->classes > 2)
        /* the largest score decides, and liblinear computes no probabilities from it */
        return "MCSVM_CS";
    return gy_glm_loss_at(info->loss)->liblinear[info->l1 > 0];
}

static void glm_text_head(const struct gyre_glm *m, struct gy_sink *out)
{
    const struct gyre_glm_info *info = &m->info;
    gy_sink_printf(out, "solver_type %s\nnr_class %d\n", glm_text_solver(info), info->classes ? info->classes : 2);
    if (info->classes == 2)
        /* a positive score means the first label */
        gy_sink_printf(out, "label %.9g %.9g\n", (double)m->label[1], (double)m->label[0]);
    for (int c = 0; c < info->classes && info->classes > 2; c++)
        gy_sink_printf(out, "%s%.9g%s", c ? " " : "label ", (double)m->label[c], c + 1 < info->classes ? "" : "\n");
    gy_sink_printf(out, "nr_feature %" PRIu32 "\nbias %.17g\nw\n", info->features, info->bias != 0 ? info->bias : -1);
}

static void glm_text_weights(const struct gyre_glm *m, struct gy_sink *out)
{
    char line[64];
    for (int64_t j = 0; j < m->width && !out->failed; j++)
        for (int k = 0; k < m->info.models; k++) {
            const float w = m->w[k * m->width + j];
            const int bytes = gy_text_print(line, sizeof line, "%.9g ", w == 0 ? 0 : (double)w);
            if (k + 1 == m->info.models)
                line[bytes - 1] = '\n';
            if (!out->failed)
                out->failed = out->write(out->user, line, (size_t)bytes) != 0;
        }
}

static void glm_text_number(struct gy_sink *out, const char *name, double value)
{
    if (isfinite(value))
        gy_sink_printf(out, " %s %.17g", name, value);
}

static void glm_text_facts(const struct gyre_glm *m, struct gy_sink *out)
{
    const struct gyre_glm_info *info = &m->info;
    gy_sink_printf(out, "gyre 2\nloss %s\nl1 %.17g\nl2 %.17g\nbias_free %d\nnormalize %d\nsoftmax %d\nhash_bits %d\nhash_seed %" PRIu64 "\n",
                   gy_glm_loss_name(info->loss), info->l1, info->l2, info->bias_free, info->normalize, info->softmax, info->hash_bits, info->hash_seed);
    for (int k = 0; k < info->classes; k++)
        gy_sink_printf(out, "%s%.9g%s", k ? " " : "class_weight ", (double)m->class_weight[k], k + 1 < info->classes ? "" : "\n");
    for (int k = 0; k < info->models; k++) {
        gy_sink_printf(out, "part %d epochs %d", k, m->part[k].epochs);
        glm_text_number(out, "objective", m->part[k].objective);
        glm_text_number(out, "bound", m->part[k].bound);
        glm_text_number(out, "loss", m->part[k].loss);
        if (m->part[k].why)
            gy_sink_printf(out, " why %s", m->part[k].why);
        gy_sink_printf(out, "\n");
    }
}

/* What goes on to a sink, and the CRC-32C of it all. */
struct glm_text_summed {
    struct gy_sink *to;
    uint32_t crc;
};

static int glm_text_sum(void *user, const char *text, size_t bytes)
{
    struct glm_text_summed *s = user;
    s->crc = gy_crc32c(s->crc, text, bytes);
    return s->to->write(s->to->user, text, bytes);
}

GY_INT void gy_glm_model_print(const struct gyre_glm *m, struct gy_sink *out)
{
    struct glm_text_summed summed = { .to = out };
    struct gy_sink sink = { .write = glm_text_sum, .user = &summed };
    glm_text_head(m, &sink);
    glm_text_weights(m, &sink);
    glm_text_facts(m, &sink);
    out->failed |= sink.failed;
    gy_sink_printf(out, "crc32c %08" PRIx32 "\nend\n", summed.crc);
}

struct glm_text_file {
    struct gy_outfile file;
    struct gy_error *err;
};

static int glm_text_put(void *user, const char *text, size_t bytes)
{
    struct glm_text_file *f = user;
    return gy_outfile_write(&f->file, text, bytes, f->err);
}

GY_INT int gy_glm_model_write(const struct gyre_glm *m, const char *path, struct gy_error *err)
{
    struct glm_text_file f = { .err = err };
    struct gy_sink out = { .write = glm_text_put, .user = &f };
    GY_TRY(gy_outfile_open(&f.file, path, err));
    gy_glm_model_print(m, &out);
    if (!out.failed)
        return gy_outfile_commit(&f.file, err);
    const int status = f.file.status;
    gy_outfile_abandon(&f.file);
    return status;
}
