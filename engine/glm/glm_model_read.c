/* SPDX-License-Identifier: MIT */
/* Model texts, read strictly: liblinear's lines in any order up to the weights, then Gyre's own, if
 * there are any. Every sentence names file and line. Weights of classes are put into the rising
 * order of the labels. glm_api.c and tools/lab/glm_inspect.c call it. */
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/glm/glm_model.h"

#define GLM_READ_FLOAT 3.4028235e38 /* the largest one, as nine digits round it up */
#define GLM_READ_CLASSES 65536

struct glm_read {
    const char *path;
    const unsigned char *begin, *at, *end;
    const unsigned char *word_at; /* where word begins */
    int64_t line;
    int64_t version;       /* of Gyre's own lines */
    int summed;            /* their checksum was there, and right */
    char word[64];
    struct gyre_glm_info info;
    float *label;          /* [GLM_READ_CLASSES] as the file has them */
    int labels, classes, seen; /* seen: bits of what stood before the weights */
    int columns;           /* weights a line */
    int has_zero;          /* bias is 0: the last line of weights is of a feature that is 0 */
    int is_other;          /* the loss is none of Gyre's */
    struct gyre_glm *model;
    struct gy_error *err;
};

static int glm_read_fail(struct glm_read *r, const char *what)
{
    return GY_FAIL(r->err, GY_E_FORMAT, "%.300s:%" PRId64 ": %s", r->path, r->line, what);
}

/* The next word of this line; 0: there is none. */
static int glm_read_word(struct glm_read *r)
{
    const unsigned char *const end = r->end;
    size_t bytes = 0;
    while (r->at < end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
    r->word_at = r->at;
    while (r->at < end && *r->at > ' ') {
        if (bytes + 1 < sizeof r->word)
            r->word[bytes++] = (char)*r->at;
        r->at++;
    }
    r->word[bytes] = 0;
    return bytes > 0;
}

/* The first word of the next line that is not empty; 0 at the end. */
static int glm_read_line(struct glm_read *r)
{
    while (!glm_read_word(r)) {
        if (r->at >= r->end || *r->at != '\n')
            return 0;
        r->at++;
        r->line++;
    }
    return 1;
}

static int glm_read_number(struct glm_read *r, double lo, double hi, double *out)
{
    char what[160];
    if (!glm_read_word(r))
        return glm_read_fail(r, "a number is missing at the end of the line");
    if (gy_text_real(r->word, lo, hi, out) == 0)
        return GY_OK;
    snprintf(what, sizeof what, "'%s' is not a number in %g .. %g", r->word, lo, hi);
    return glm_read_fail(r, what);
}

static int glm_read_whole(struct glm_read *r, int64_t lo, int64_t hi, int64_t *out)
{
    char what[160];
    if (!glm_read_word(r))
        return glm_read_fail(r, "a whole number is missing at the end of the line");
    if (gy_text_int(r->word, lo, hi, out) == 0)
        return GY_OK;
    snprintf(what, sizeof what, "'%s' is not a whole number in %" PRId64 " .. %" PRId64, r->word, lo, hi);
    return glm_read_fail(r, what);
}

/* ---- liblinear's lines ---- */

enum { GLM_READ_SOLVER = 1, GLM_READ_CLASS = 2, GLM_READ_LABEL = 4, GLM_READ_FEATURE = 8, GLM_READ_BIAS = 16 };

static int glm_read_solver(struct glm_read *r)
{
    static const struct {
        const char *name;
        int loss, l1, softmax;
    } rows[] = {
        { "L2R_LR", GYRE_GLM_LOGISTIC, 0, 0 }, { "L2R_LR_DUAL", GYRE_GLM_LOGISTIC, 0, 0 }, { "L1R_LR", GYRE_GLM_LOGISTIC, 1, 0 },
        { "L2R_L2LOSS_SVC", GYRE_GLM_SQUARED_HINGE, 0, 0 }, { "L2R_L2LOSS_SVC_DUAL", GYRE_GLM_SQUARED_HINGE, 0, 0 },
        { "L1R_L2LOSS_SVC", GYRE_GLM_SQUARED_HINGE, 1, 0 }, { "L2R_L1LOSS_SVC_DUAL", GYRE_GLM_HINGE, 0, 0 }, { "MCSVM_CS", GYRE_GLM_HINGE, 0, 1 },
        { "L2R_L2LOSS_SVR", GYRE_GLM_SQUARED, 0, 0 }, { "L2R_L2LOSS_SVR_DUAL", GYRE_GLM_SQUARED, 0, 0 }, { "L2R_L1LOSS_SVR_DUAL", GYRE_GLM_SQUARED, 0, 0 },
    };
    glm_read_word(r);
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        if (strcmp(rows[i].name, r->word) == 0) {
            r->info.loss = rows[i].loss;
            r->info.softmax = rows[i].softmax;
            r->is_other = strcmp(r->word, "L2R_L1LOSS_SVR_DUAL") == 0;
            r->info.l1 = rows[i].l1;
            r->info.l2 = !rows[i].l1;
            return GY_OK;
        }
    return glm_read_fail(r, "solver_type is none that Gyre knows");
}

static int glm_read_labels(struct glm_read *r)
{
    double value;
    while (glm_read_word(r)) {
        if (r->labels == GLM_READ_CLASSES)
            return glm_read_fail(r, "more than 65536 labels");
        if (gy_text_real(r->word, -GLM_READ_FLOAT, GLM_READ_FLOAT, &value) != 0)
            return glm_read_fail(r, "a label is not a number");
        r->label[r->labels++] = (float)value;
    }
    return r->labels ? GY_OK : glm_read_fail(r, "a label is missing");
}

static int glm_read_head_line(struct glm_read *r, int *bit)
{
    int64_t whole = 0;
    static const char *const names[] = { "solver_type", "nr_class", "label", "nr_feature", "bias" };
    size_t i = 0;
    while (i < GY_COUNT(names) && strcmp(names[i], r->word) != 0)
        i++;
    *bit = 1 << i;
    if (i == GY_COUNT(names))
        return glm_read_fail(r, "not a line of a model: solver_type, nr_class, label, nr_feature, bias or w is expected");
    if (r->seen & *bit)
        return glm_read_fail(r, "this line stands twice");
    if (*bit == GLM_READ_SOLVER)
        return glm_read_solver(r);
    if (*bit == GLM_READ_LABEL)
        return glm_read_labels(r);
    if (*bit == GLM_READ_BIAS) {
        GY_TRY(glm_read_number(r, -1e30, 1e30, &r->info.bias));
        r->has_zero = r->info.bias == 0;
        r->info.bias = r->info.bias > 0 ? r->info.bias : 0;
        return GY_OK;
    }
    GY_TRY(glm_read_whole(r, *bit == GLM_READ_CLASS ? 2 : 0, *bit == GLM_READ_CLASS ? GLM_READ_CLASSES : UINT32_MAX, &whole));
    if (*bit == GLM_READ_CLASS)
        r->classes = (int)whole;
    else
        r->info.features = (uint32_t)whole;
    return GY_OK;
}

/* All lines but label must be there, and as many labels as classes. Without labels a
 * loss for numbers is a regression. */
static int glm_read_check_head(struct glm_read *r)
{
    const int need = GLM_READ_SOLVER | GLM_READ_CLASS | GLM_READ_FEATURE | GLM_READ_BIAS;
    const int numbers = gy_glm_loss_at(r->info.loss)->labels == GY_GLM_NUMBERS;
    const int regression = numbers && !(r->seen & GLM_READ_LABEL);
    if ((r->seen & need) != need)
        return glm_read_fail(r, "the weights begin before solver_type, nr_class, nr_feature and bias were said");
    if (!regression && r->labels != r->classes)
        return glm_read_fail(r, "label does not have as many numbers as nr_class says");
    r->info.classes = regression ? 0 : r->classes;
    r->columns = r->info.classes > 2 || (r->info.softmax && r->info.classes == 2) ? r->info.classes : 1;
    if (r->info.classes == 2)
        r->info.softmax = 0; /* the difference of two vectors is one of them all */
    return GY_OK;
}

static int glm_read_compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int glm_read_is_double(const float *sorted, int count)
{
    int i = 1;
    while (i < count && sorted[i] != sorted[i - 1])
        i++;
    return i < count;
}

static int glm_read_take(struct glm_read *r, const struct gy_alloc *alloc)
{
    struct gyre_glm_info info = r->info;
    float *sorted = gy_alloc_take(alloc, GLM_READ_CLASSES, sizeof *sorted);
    if (!sorted)
        return GY_NOMEM(r->err, "a model's labels", GLM_READ_CLASSES * sizeof *sorted);
    memcpy(sorted, r->label, (size_t)r->labels * sizeof *sorted);
    qsort(sorted, (size_t)r->labels, sizeof *sorted, glm_read_compare);
    info.label = sorted;
    /* A weight takes at least two bytes of text, so a header cannot ask for more memory than the
     * file is worth. */
    const int64_t left = (int64_t)(r->end - r->at), lines = (int64_t)info.features + (info.bias != 0 || r->has_zero);
    const int64_t need = 2 * lines * r->columns;
    int status = GY_OK;
    if (glm_read_is_double(sorted, r->labels))
        status = glm_read_fail(r, "a label stands twice");
    else if (need > left + 2)
        status = GY_FAIL(r->err, GY_E_TRUNCATED, "%.300s:%" PRId64 ": nr_feature %" PRIu32 " needs more weights than the file has bytes", r->path, r->line,
                         info.features);
    else
        status = gy_glm_model_take(&r->model, &info, alloc, r->err);
    if (status == GY_OK)
        r->model->is_other = r->is_other;
    gy_alloc_free(alloc, sorted, GLM_READ_CLASSES * sizeof *sorted);
    return status;
}

/* A line of weights, of feature j; what a feature that is 0 has is dropped. */
static int glm_read_line_of(struct glm_read *r, int64_t j)
{
    struct gyre_glm *m = r->model;
    double value;
    for (int c = 0; c < r->columns; c++) {
        if (c && !glm_read_word(r))
            return glm_read_fail(r, "a weight is missing at the end of the line");
        if (gy_text_real(r->word, -GLM_READ_FLOAT, GLM_READ_FLOAT, &value) != 0)
            return glm_read_fail(r, "a weight is not a finite number");
        const int32_t at = m->info.classes ? gy_glm_model_class(m, r->label[c]) : 1;
        if (j == m->width)
            continue;
        if (m->info.models > 1)
            m->w[at * m->width + j] = (float)(value + 0.0); /* -0 becomes 0 */
        else
            m->w[j] += (float)(at == 1 ? value : -value);
    }
    if (glm_read_word(r))
        return glm_read_fail(r, "more weights on a line than there are models");
    return GY_OK;
}

static int glm_read_weights(struct glm_read *r)
{
    const int64_t lines = r->model->width + r->has_zero;
    for (int64_t j = 0; j < lines; j++) {
        if (!glm_read_line(r))
            return GY_FAIL(r->err, GY_E_TRUNCATED, "%.300s:%" PRId64 ": the file ends after %" PRId64 " of %" PRId64 " lines of weights", r->path, r->line, j,
                           lines);
        GY_TRY(glm_read_line_of(r, j));
    }
    return GY_OK;
}

/* ---- Gyre's lines ---- */

static int glm_read_part(struct glm_read *r)
{
    struct gyre_glm *m = r->model;
    int64_t number, epochs = 0;
    GY_TRY(glm_read_whole(r, 0, m->info.models - 1, &number));
    struct gyre_glm_part *p = &m->part[number];
    double unused;
    while (glm_read_word(r)) {
        if (strcmp(r->word, "epochs") == 0)
            GY_TRY(glm_read_whole(r, 0, INT32_MAX, &epochs));
        else if (strcmp(r->word, "why") == 0) {
            p->why = glm_read_word(r) ? gy_glm_why(r->word) : NULL;
            if (!p->why)
                return glm_read_fail(r, "why is none that Gyre knows");
        } else {
            double *const to = strcmp(r->word, "objective") == 0 ? &p->objective : strcmp(r->word, "bound") == 0 ? &p->bound
                               : strcmp(r->word, "loss") == 0 ? &p->loss : &unused;
            if (to == &unused)
                return glm_read_fail(r, "a part has epochs, objective, bound, loss and why");
            GY_TRY(glm_read_number(r, -1e300, 1e300, to));
        }
    }
    p->epochs = (int)epochs;
    return GY_OK;
}

static int glm_read_loss(struct glm_read *r)
{
    glm_read_word(r);
    for (int loss = 0; gy_glm_loss_name(loss); loss++)
        if (strcmp(gy_glm_loss_name(loss), r->word) == 0) {
            r->model->info.loss = loss;
            return GY_OK;
        }
    return glm_read_fail(r, "loss is none that Gyre knows");
}

static int glm_read_seed(struct glm_read *r)
{
    uint64_t value = 0;
    if (!glm_read_word(r))
        return glm_read_fail(r, "hash_seed is missing");
    for (const char *p = r->word; *p; p++) {
        if (*p < '0' || *p > '9' || value > (UINT64_MAX - (uint64_t)(*p - '0')) / 10)
            return glm_read_fail(r, "hash_seed is not a whole number below 2^64");
        value = value * 10 + (uint64_t)(*p - '0');
    }
    r->model->info.hash_seed = value;
    return GY_OK;
}

static int glm_read_class_weights(struct glm_read *r)
{
    struct gyre_glm *m = r->model;
    double value;
    for (int k = 0; k < m->info.classes; k++) {
        GY_TRY(glm_read_number(r, 0, GLM_READ_FLOAT, &value));
        m->class_weight[k] = (float)value;
    }
    return GY_OK;
}

/* Of everything before its line. */
static int glm_read_sum(struct glm_read *r)
{
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%08" PRIx32, gy_crc32c(0, r->begin, (size_t)(r->word_at - r->begin)));
    glm_read_word(r);
    if (strcmp(r->word, wanted) != 0)
        return GY_FAIL(r->err, GY_E_HASH, "%.300s:%" PRId64 ": its checksum is %s, the file says '%s': it was changed after it was written", r->path, r->line,
                       wanted, r->word);
    r->summed = 1;
    return GY_OK;
}

static int glm_read_fact(struct glm_read *r)
{
    struct gyre_glm_info *info = &r->model->info;
    int64_t whole;
    const struct {
        const char *name;
        int *at, most;
    } flags[] = { { "bias_free", &info->bias_free, 1 }, { "normalize", &info->normalize, 1 }, { "softmax", &info->softmax, 1 },
                  { "hash_bits", &info->hash_bits, 32 } };
    for (size_t i = 0; i < GY_COUNT(flags); i++)
        if (strcmp(flags[i].name, r->word) == 0) {
            GY_TRY(glm_read_whole(r, 0, flags[i].most, &whole));
            *flags[i].at = (int)whole;
            return GY_OK;
        }
    if (strcmp(r->word, "part") == 0)
        return glm_read_part(r);
    if (strcmp(r->word, "class_weight") == 0)
        return glm_read_class_weights(r);
    if (strcmp(r->word, "crc32c") == 0)
        return glm_read_sum(r);
    if (strcmp(r->word, "loss") == 0)
        return glm_read_loss(r);
    if (strcmp(r->word, "hash_seed") == 0)
        return glm_read_seed(r);
    if (strcmp(r->word, "l1") == 0 || strcmp(r->word, "l2") == 0)
        return glm_read_number(r, 0, 1e300, r->word[1] == '1' ? &info->l1 : &info->l2);
    return glm_read_fail(r, "not a line that Gyre knows");
}

static int glm_read_facts(struct glm_read *r)
{
    if (!glm_read_line(r))
        return GY_OK; /* liblinear's own */
    if (strcmp(r->word, "gyre") != 0)
        return glm_read_fail(r, "something stands behind the last weight");
    GY_TRY(glm_read_whole(r, 1, 2, &r->version));
    while (glm_read_line(r)) {
        if (strcmp(r->word, "end") == 0)
            return r->version == 1 || r->summed ? GY_OK : glm_read_fail(r, "the line crc32c is missing");
        if (r->summed)
            return glm_read_fail(r, "behind the checksum there is only the line 'end'");
        GY_TRY(glm_read_fact(r));
        if (glm_read_word(r))
            return glm_read_fail(r, "more on a line than belongs there");
    }
    return GY_FAIL(r->err, GY_E_TRUNCATED, "%.300s:%" PRId64 ": the file ends before its line 'end'", r->path, r->line);
}

static int glm_read_all(struct glm_read *r, const struct gy_alloc *alloc)
{
    int bit;
    for (;;) {
        if (!glm_read_line(r))
            return GY_FAIL(r->err, r->at < r->end ? GY_E_FORMAT : GY_E_TRUNCATED, "%.300s:%" PRId64 ": no weights: not a linear model",
                           r->path, r->line);
        if (strcmp(r->word, "w") == 0)
            break;
        GY_TRY(glm_read_head_line(r, &bit));
        r->seen |= bit;
        if (glm_read_word(r))
            return glm_read_fail(r, "more on a line than belongs there");
    }
    GY_TRY(glm_read_check_head(r));
    GY_TRY(glm_read_take(r, alloc));
    GY_TRY(glm_read_weights(r));
    return glm_read_facts(r);
}

GY_INT int gy_glm_model_parse(struct gyre_glm **out, const unsigned char *bytes, size_t count, const char *name, const struct gy_alloc *alloc,
                              struct gy_error *err)
{
    struct glm_read r = { .path = name, .begin = bytes, .at = bytes, .end = bytes + count, .line = 1, .err = err };
    r.label = gy_alloc_take(alloc, GLM_READ_CLASSES, sizeof *r.label);
    const int status = r.label ? glm_read_all(&r, alloc) : GY_NOMEM(err, "a model's labels", GLM_READ_CLASSES * sizeof *r.label);
    gy_alloc_free(alloc, r.label, GLM_READ_CLASSES * sizeof *r.label);
    if (status != GY_OK)
        gyre_glm_close(r.model);
    else
        *out = r.model;
    return status;
}

GY_INT int gy_glm_model_read(struct gyre_glm **out, const char *path, const struct gy_alloc *alloc, struct gy_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    GY_TRY(gy_file_read(alloc, path, SIZE_MAX, &text, &bytes, err));
    const int status = gy_glm_model_parse(out, (const unsigned char *)text, bytes, path, alloc, err);
    gy_alloc_free(alloc, text, bytes + 1);
    return status;
}
