/* SPDX-License-Identifier: MIT */
/* t_glm_model.c: linear models as a user meets them in C. Model texts (round trips, liblinear's
 * own, damaged ones), scores and probabilities, metrics beside plain counting. Then training from
 * arrays with known answers, folds, generated rows in parts. */
#include "tools/lab/lab.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/glm/glm_model.h"
#include "tests/t.h"
#include <float.h>
#include <unistd.h>

static char folder[256], path[512], path2[512];

static void write_text(const char *to, const char *text)
{
    FILE *file = fopen(to, "wb");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

/* ---- texts ---- */

static void check_same(const struct gyre_glm *a, const struct gyre_glm *b)
{
    T_CHECK(a->info.classes == b->info.classes && a->info.models == b->info.models && a->width == b->width);
    T_CHECK(a->info.loss == b->info.loss && a->info.l1 == b->info.l1 && a->info.l2 == b->info.l2 && a->info.bias == b->info.bias);
    T_CHECK(a->info.normalize == b->info.normalize && a->info.hash_bits == b->info.hash_bits && a->info.hash_seed == b->info.hash_seed);
    T_CHECK(a->info.softmax == b->info.softmax && a->info.bias_free == b->info.bias_free);
    T_CHECK(memcmp(a->label, b->label, (size_t)a->info.classes * sizeof *a->label) == 0);
    T_CHECK(memcmp(a->w, b->w, (size_t)a->info.models * (size_t)a->width * sizeof *a->w) == 0);
    for (int k = 0; k < a->info.models; k++)
        T_CHECK(a->part[k].objective == b->part[k].objective && a->part[k].epochs == b->part[k].epochs && isnan(b->part[k].bound));
}

static void check_round_trip(const struct gyre_glm_info *info)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gyre_glm *m = NULL, *back = NULL;
    struct gyre_error error = { 0 };
    T_CHECK(gy_glm_model_take(&m, info, &alloc, NULL) == GY_OK);
    for (int64_t j = 0; j < m->info.models * m->width; j++)
        m->w[j] = j % 3 ? gy_rng_normal(1, 77, 0, (uint64_t)j) * (float)pow(10, (double)(j % 30) - 20) : 0;
    m->w[0] = FLT_MAX;
    for (int k = 0; k < m->info.models; k++) {
        m->part[k].objective = 1.0 / 3 + k;
        m->part[k].epochs = 7 + k;
    }
    T_CHECK(gyre_glm_save(m, path, &error) == GYRE_OK);
    T_CHECK_MSG(gyre_glm_load(&back, path, &error) == GYRE_OK, "%s", error.text);
    if (back)
        check_same(m, back);
    gyre_glm_close(back);
    gyre_glm_close(m);
}

static void test_round_trips(void)
{
    const float two[] = { -1, 1 }, four[] = { -2.5f, 0, 1, 7 }, vast[] = { -FLT_MAX, FLT_MAX };
    const struct gyre_glm_info infos[] = {
        { .loss = GYRE_GLM_LOGISTIC, .classes = 2, .features = 2, .l2 = 1, .label = vast },
        { .loss = GYRE_GLM_LOGISTIC, .classes = 2, .features = 11, .l2 = 0.1, .label = two },
        { .loss = GYRE_GLM_HINGE, .classes = 2, .features = 5, .l2 = 3, .bias = 0.5, .bias_free = 1, .label = two },
        { .loss = GYRE_GLM_SQUARED, .classes = 0, .features = 8, .l1 = 2, .l2 = 1e-3, .bias = 1 },
        { .loss = GYRE_GLM_SQUARED_HINGE, .classes = 4, .features = 9, .l2 = 1, .normalize = 1, .hash_bits = 20, .hash_seed = UINT64_MAX, .label = four },
        { .loss = GYRE_GLM_LOGISTIC, .classes = 4, .features = 3, .l2 = 1, .softmax = 1, .label = four },
        { .loss = GYRE_GLM_LOGISTIC, .classes = 2, .features = 0, .l2 = 1, .bias = 1, .label = two },
    };
    for (size_t i = 0; i < GY_COUNT(infos); i++)
        check_round_trip(&infos[i]);
}

static void test_liblinear_text(void)
{
    struct gyre_glm *m = NULL;
    struct gyre_error error = { 0 };
    write_text(path, "solver_type L2R_LR\nnr_class 2\nlabel -1 1\nnr_feature 3\nbias -1\nw\n0.5 \n-2 \n0 \n");
    T_CHECK_MSG(gyre_glm_load(&m, path, &error) == GYRE_OK, "%s", error.text);
    if (m) { /* positive scores are of the first label there, of the larger one here */
        T_CHECK(m->info.classes == 2 && m->label[0] == -1 && m->label[1] == 1 && m->info.bias == 0 && m->info.loss == GYRE_GLM_LOGISTIC);
        T_CHECK(m->w[0] == -0.5f && m->w[1] == 2 && m->w[2] == 0);
    }
    gyre_glm_close(m);
    m = NULL;
    write_text(path, "solver_type MCSVM_CS\r\nnr_class 3\r\nlabel 3 1 2\r\nnr_feature 1\r\nbias 2\r\nw\r\n3 1 2 \r\n30 10 20");
    T_CHECK_MSG(gyre_glm_load(&m, path, &error) == GYRE_OK, "%s", error.text);
    if (m)
        for (int k = 0; k < 3; k++)
            T_CHECK(m->label[k] == (float)(k + 1) && m->w[2 * k] == (float)(k + 1) && m->w[2 * k + 1] == (float)(10 * (k + 1)));
    gyre_glm_close(m);
    m = NULL;
    /* a bias of 0 has a weight there */
    write_text(path, "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 0\nw\n0.5\n-2\n7\n");
    T_CHECK_MSG(gyre_glm_load(&m, path, &error) == GYRE_OK, "%s", error.text);
    if (m)
        T_CHECK(m->width == 2 && m->info.bias == 0 && m->w[0] == 0.5f && m->w[1] == -2);
    gyre_glm_close(m);
    m = NULL;
    write_text(path, "solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 1\nbias -1\nw\n1.5\n");
    T_CHECK_MSG(gyre_glm_load(&m, path, &error) == GYRE_OK, "%s", error.text);
    if (m)
        T_CHECK(m->info.classes == 0 && m->w[0] == 1.5f);
    gyre_glm_close(m);
}

/* The last two of many labels are the same. */
static void test_label_twice(void)
{
    enum { LABELS = 1500 };
    struct gyre_glm *m = NULL;
    struct gyre_error error = { 0 };
    FILE *f = fopen(path, "w");
    if (!T_CHECK(f != NULL))
        return;
    fprintf(f, "solver_type L2R_LR\nnr_class %d\nlabel", LABELS);
    for (int i = 0; i < LABELS; i++)
        fprintf(f, " %d", i < LABELS - 1 ? i : i - 1);
    fprintf(f, "\nnr_feature 1\nbias -1\nw\n");
    for (int i = 0; i < LABELS; i++)
        fprintf(f, "%d ", i);
    fprintf(f, "\n");
    fclose(f);
    T_CHECK(gyre_glm_load(&m, path, &error) != GYRE_OK && strstr(error.text, "a label stands twice"));
    gyre_glm_close(m);
}

static void test_damaged_texts(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "", "no weights" },
        { "1 1:1 2:1\n", ":1: not a line of a model" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 3\nbias -1\nw\n1 \n2 \n", "ends after 2 of 3" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n1 \nnan \n", ":8: a weight is not a finite number" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n1 2 \n1 \n", ":7: more weights" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 1\nnr_feature 2\nbias -1\nw\n1 \n1 \n", "a label stands twice" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1\nnr_feature 2\nbias -1\nw\n1 \n1 \n", "as many numbers as nr_class" },
        { "solver_type ABC\n", ":1: solver_type is none" },
        { "solver_type L2R_LR\nnr_class 1\n", ":2: '1' is not a whole number in 2" },
        { "solver_type L2R_LR\nsolver_type L2R_LR\n", ":2: this line stands twice" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 4000000000\nbias -1\nw\n1 \n1 \n", "more weights than the file has bytes" },
        { "nr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n1 \n1 \n", "before solver_type" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n1 \ngyre 1\nl2 1\n", "before its line 'end'" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n1 \ngyre 3\nend\n", ":8: '3' is not a whole number in 1 .. 2" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n1 \ngyre 2\nend\n", ":9: the line crc32c is missing" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n1 \ngyre 1\nhash_bits 99\nend\n", ":9: '99'" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n1 \nhello\n", ":8: something stands behind" },
        { "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n1 \ngyre 1\npart 1 epochs 3\nend\n",
          ":9: '1' is not a whole number in 0 .. 0" },
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        struct gyre_glm *m = NULL;
        struct gyre_error error = { 0 };
        write_text(path, rows[i].text);
        const int status = gyre_glm_load(&m, path, &error);
        T_CHECK_MSG((status == GYRE_E_FORMAT || status == GYRE_E_TRUNCATED) && !m && strstr(error.text, rows[i].says) && strstr(error.text, path),
                    "case %d: %d %s", (int)i, status, error.text);
    }
}

/* ---- scores ---- */

static void test_scores(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const float two[] = { 0, 1 };
    const struct gyre_glm_info info = { .loss = GYRE_GLM_LOGISTIC, .classes = 2, .features = 3, .bias = 2, .label = two };
    const uint32_t start[] = { 0, 3, 5, 5 }, id[] = { 0, 2, 9, 1, 3 };
    const float value[] = { 1, 2, 100, 3, 4 };
    struct gy_rows rows = { .count = 3, .start = start, .id = id, .value = value };
    struct gyre_glm *m = NULL;
    float score[3], share[2];
    T_CHECK(gy_glm_model_take(&m, &info, &alloc, NULL) == GY_OK);
    const float w[] = { 0.5f, -1, 2, 0.25f };
    memcpy(m->w, w, sizeof w);
    struct gy_glm_scorer s = gy_glm_model_scorer(m);
    gy_glm_score(&s, &rows, 0, 3, score);
    /* the model has no ids 9 and 3 */
    T_CHECK(score[0] == 5.0f && score[1] == -2.5f && score[2] == 0.5f);
    s.normalize = 1;
    gy_glm_score(&s, &rows, 1, 2, score);
    /* in the length neither */
    T_CHECK(fabsf(score[0] - (-1 + 0.5f)) < 1e-6f && score[1] == 0.5f);
    T_CHECK(gy_glm_probability(m, score, share) && fabsf(share[0] + share[1] - 1) < 1e-6f && share[0] > share[1]);
    T_CHECK(gy_glm_decide(m, score) == 0 && gy_glm_model_class(m, 1) == 1 && gy_glm_model_class(m, 0.5f) == -1);
    gyre_glm_close(m);
}

/* ---- metrics ---- */

#define METRIC_ROWS 3000

static double plain_auc(const float *score, const float *label, const float *weight, int n)
{
    double pairs = 0, all = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (label[i] > label[j]) {
                const double w = (double)weight[i] * (double)weight[j];
                all += w;
                pairs += score[i] > score[j] ? w : score[i] == score[j] ? 0.5 * w : 0;
            }
    return pairs / all;
}

static void test_metrics(void)
{
    static float score[METRIC_ROWS], label[METRIC_ROWS], weight[METRIC_ROWS];
    const struct gy_alloc alloc = gy_alloc_default();
    const float two[] = { 0, 1 };
    const struct gyre_glm_info info = { .loss = GYRE_GLM_LOGISTIC, .classes = 2, .features = 1, .label = two };
    struct gyre_glm *m = NULL;
    struct gy_glm_meter *meter = NULL;
    struct gyre_glm_metrics v;
    double loss = 0, right = 0, all = 0;
    T_CHECK(gy_glm_model_take(&m, &info, &alloc, NULL) == GY_OK && gy_glm_meter_open(&meter, m, &alloc, NULL) == GY_OK);
    for (int i = 0; i < METRIC_ROWS; i++) {
        score[i] = floorf(8 * gy_rng_normal(5, 6, 0, (uint64_t)i)) / 8; /* many ties */
        label[i] = gy_rng_uniform(5, 7, 0, (uint64_t)i) < gy_glm_sigmoid(score[i]);
        weight[i] = (float)(1 + i % 3);
        loss += (double)weight[i] * log1p(exp((label[i] > 0 ? -1 : 1) * (double)score[i]));
        right += (double)weight[i] * ((score[i] > 0) == (label[i] > 0));
        all += (double)weight[i];
    }
    const struct gy_rows rows = { .count = METRIC_ROWS, .label = label, .weight = weight };
    const struct gy_glm_slice slice = { .rows = &rows, .count = METRIC_ROWS, .score = score };
    T_CHECK(gy_glm_meter_take(meter, &slice, NULL) == GY_OK);
    gy_glm_meter_metrics(meter, &v);
    T_CHECK(v.rows == METRIC_ROWS && v.unknown == 0 && fabs(v.log_loss - loss / all) < 1e-12 && fabs(v.accuracy - right / all) < 1e-12);
    const double auc = plain_auc(score, label, weight, METRIC_ROWS);
    T_CHECK_MSG(fabs(v.auc - auc) < 1e-12 && v.auc_error == 0, "%.15g, plain %.15g", v.auc, auc);
    /* more rows than are kept: bins, and the exact value within the bound */
    for (int turn = 0; turn < 2800; turn++)
        T_CHECK(gy_glm_meter_take(meter, &slice, NULL) == GY_OK);
    gy_glm_meter_metrics(meter, &v);
    T_CHECK_MSG(v.auc_error > 0 && fabs(v.auc - auc) <= v.auc_error, "%.15g +- %g, exact %.15g", v.auc, v.auc_error, auc);
    gy_glm_meter_close(meter);
    gyre_glm_close(m);
}

/* log-losses of several classes are those of the scores, also where a float has no such small
 * probability, or none between it and 1. */
static void test_class_metrics(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const float labels[] = { 0, 1, 2, 3 }, size[] = { 1, 30, 300, 1e7f };
    for (int turn = 0; turn < 8; turn++) {
        const struct gyre_glm_info info = { .loss = GYRE_GLM_LOGISTIC, .classes = 4, .features = 1, .label = labels, .softmax = turn / 4 };
        struct gyre_glm *m = NULL;
        struct gy_glm_meter *meter = NULL;
        struct gyre_glm_metrics v;
        float score[400], label[100], share[4];
        long double loss = 0;
        T_CHECK(gy_glm_model_take(&m, &info, &alloc, NULL) == GY_OK && gy_glm_meter_open(&meter, m, &alloc, NULL) == GY_OK);
        for (int i = 0; i < 100; i++) {
            long double part[4], most = -HUGE_VALL, sum = 0;
            label[i] = (float)(i % 4);
            for (int k = 0; k < 4; k++) {
                const long double z = (long double)(score[4 * i + k] = size[turn % 4] * gy_rng_normal(8, 9, (uint64_t)turn, (uint64_t)(4 * i + k)));
                part[k] = info.softmax ? z : (z < 0 ? z : 0) - log1pl(expl(z < 0 ? z : -z));
                most = fmaxl(most, part[k]);
            }
            for (int k = 0; k < 4; k++)
                sum += expl(part[k] - most);
            loss += most + logl(sum) - part[i % 4];
            T_CHECK(gy_glm_probability(m, score + 4 * i, share));
            for (int k = 0; k < 4; k++)
                T_CHECK_MSG(fabsl((long double)share[k] - expl(part[k] - most) / sum) < 1e-7L, "turn %d, row %d, class %d: %g", turn, i, k, (double)share[k]);
        }
        const struct gy_rows rows = { .count = 100, .label = label };
        const struct gy_glm_slice slice = { .rows = &rows, .count = 100, .score = score };
        T_CHECK(gy_glm_meter_take(meter, &slice, NULL) == GY_OK);
        gy_glm_meter_metrics(meter, &v);
        T_CHECK_MSG(fabs(v.log_loss - (double)(loss / 100)) <= 1e-12 * v.log_loss, "turn %d: %.15g, plain %.15g", turn, v.log_loss, (double)(loss / 100));
        gy_glm_meter_close(meter);
        gyre_glm_close(m);
    }
}

static void test_regression_metrics(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gyre_glm_info info = { .loss = GYRE_GLM_SQUARED, .features = 1 };
    /* a row of weight 0 is one of the rows, as with classes */
    const float label[] = { 1, 2, 3, 4, 9 }, score[] = { 1, 2, 3, 6, 7 }, weight[] = { 1, 1, 1, 1, 0 };
    const struct gy_rows rows = { .count = 5, .label = label, .weight = weight };
    const struct gy_glm_slice slice = { .rows = &rows, .count = 5, .score = score };
    struct gyre_glm *m = NULL;
    struct gy_glm_meter *meter = NULL;
    struct gyre_glm_metrics v;
    T_CHECK(gy_glm_model_take(&m, &info, &alloc, NULL) == GY_OK && gy_glm_meter_open(&meter, m, &alloc, NULL) == GY_OK);
    T_CHECK(gy_glm_meter_take(meter, &slice, NULL) == GY_OK);
    gy_glm_meter_metrics(meter, &v);
    T_CHECK(v.rows == 5 && fabs(v.squared_error - 1) < 1e-12 && fabs(v.r2 - (1 - 4 / 5.0)) < 1e-12 && isnan(v.accuracy) && isnan(v.auc));
    gy_glm_meter_close(meter);
    gyre_glm_close(m);
}

/* ---- training from arrays ---- */

static void array_data(struct gyre_glm_data *d, const float *label)
{
    static const int64_t start[] = { 0, 0, 2, 4 };
    static const uint32_t id[] = { 0, 1, 0, 1 };
    static const float value[] = { 1, 1, 2, 2 };
    gyre_glm_data_default(d);
    d->rows = 3;
    d->features = 2;
    d->start = start;
    d->id = id;
    d->value = value;
    d->label = label;
}

static void test_arrays(void)
{
    static const struct {
        int loss;
        double l2, w, objective; /* NAN: not known */
        float label[3];
    } rows[] = { { GYRE_GLM_SQUARED, 0.1, 0.4950495, (double)NAN, { 0, 1, 2 } },
                 { GYRE_GLM_HINGE, 1, 0.25, (double)NAN, { -1, -1, 1 } },
                 { GYRE_GLM_LOGISTIC, 0.01, 0.20884, 1.97749216838, { -1, -1, 1 } } };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        struct gyre_glm_data d;
        struct gyre_glm_config c;
        struct gyre_glm_report r = { 0 };
        struct gyre_glm *m = NULL;
        struct gyre_glm_part part = { 0 };
        struct gyre_error error = { 0 };
        array_data(&d, rows[i].label);
        gyre_glm_config_default(&c);
        c.train = &d;
        c.test = &d;
        c.loss = rows[i].loss;
        c.l2 = rows[i].l2;
        c.gap = 1e-9;
        c.threads = 1;
        T_CHECK_MSG(gyre_glm_train(&m, &c, &r, &error) == GYRE_OK, "%s", error.text);
        if (!m || gyre_glm_get_part(m, 0, &part) != GYRE_OK)
            continue;
        T_CHECK_MSG(fabs((double)part.weight[0] - rows[i].w) < 2e-4 && fabs((double)part.weight[1] - rows[i].w) < 2e-4, "case %d: %g %g", (int)i,
                    (double)part.weight[0], (double)part.weight[1]);
        T_CHECK_MSG(r.gap <= 1e-9 && r.gap > -1e-12 && r.rows == 3 && r.entries == 4 && r.test.rows == 3, "case %d: gap %g", (int)i, r.gap);
        T_CHECK(isnan(rows[i].objective) || fabs(r.objective - rows[i].objective) < 1e-8 * rows[i].objective);
        gyre_glm_close(m);
    }
}

static void check_refused(struct gyre_glm_config *c, int status, const char *says)
{
    struct gyre_glm *m = NULL;
    struct gyre_error error = { 0 };
    const int got = gyre_glm_train(&m, c, NULL, &error);
    T_CHECK_MSG(got == status && !m && strstr(error.text, says), "%d instead of %d: %s", got, status, error.text);
}

static void test_refused(void)
{
    const float one[] = { 1, 1, 1 }, good[] = { -1, 1, 1 };
    const uint32_t falling[] = { 1, 0, 0, 1 };
    struct gyre_glm_data d;
    struct gyre_glm_config c;
    gyre_glm_config_default(&c);
    check_refused(&c, GYRE_E_ARG, "training rows are missing");
    array_data(&d, one);
    c.train = &d;
    check_refused(&c, GYRE_E_FORMAT, "all 3 rows have the label 1");
    d.label = good;
    c.l2 = -1;
    check_refused(&c, GYRE_E_ARG, "l2 is -1");
    c.l2 = 1;
    c.bias_free = 1;
    check_refused(&c, GYRE_E_ARG, "bias_free without a bias");
    c.bias_free = 0;
    d.id = falling;
    check_refused(&c, GYRE_E_ARG, "row");
    array_data(&d, good);
    const float seven = 7, twice = 2;
    c.weight_label = &seven;
    c.weight_factor = &twice;
    c.weights = 1;
    check_refused(&c, GYRE_E_ARG, "a weight for label 7");
    c.weights = 0;
    c.solver = "magic";
    check_refused(&c, GYRE_E_UNSUPPORTED, "magic");
    c.solver = NULL;
    c.folds = 10;
    check_refused(&c, GYRE_E_ARG, "10 folds of 3 rows");
}

/* ---- generated rows, files, folds ---- */

static void generate(const char *to, int64_t rows, int64_t first, struct gyre_glm_generated *made)
{
    struct gyre_glm_generate_config c;
    struct gyre_error error = { 0 };
    gyre_glm_generate_default(&c);
    c.to = to;
    c.rows = rows;
    c.first_row = first;
    c.features = 5000;
    c.threads = 2;
    c.weights = first ? NULL : path2;
    T_CHECK_MSG(gyre_glm_generate(&c, made, &error) == GYRE_OK, "%s", error.text);
}

static void data_of(struct gyre_glm_data *d, const char *const *file)
{
    gyre_glm_data_default(d);
    d->files = file;
    d->file_count = 1;
}

static void test_generate(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gyre_glm_generated all = { 0 }, part = { 0 };
    struct gy_glm_source *a = NULL, *b = NULL;
    struct gyre_glm_data da, db;
    struct gy_rows x, y;
    struct gyre_error error = { 0 };
    char other[512];
    snprintf(other, sizeof other, "%s/part.blocks", folder);
    const char *const files[] = { path, other };
    remove(path); /* a text of an earlier test: blocks are not written over it */
    generate(path, 40000, 0, &all);
    generate(other, 1000, 32768, &part);
    T_CHECK_MSG(fabs(all.rate - 0.256) < 0.01 && all.features <= 5000 && all.features > 3000, "rate %g, %u features", all.rate, all.features);
    T_CHECK_MSG(all.log_loss > 0.3 && all.log_loss < 0.57 && fabs(all.log_loss - all.entropy) < 0.02, "%g %g", all.log_loss, all.entropy);
    data_of(&da, &files[0]);
    data_of(&db, &files[1]);
    if (!T_CHECK(gy_glm_source_open(&a, &da, NULL, 0, NULL, &alloc, NULL) == GY_OK && gy_glm_source_open(&b, &db, NULL, 0, NULL, &alloc, NULL) == GY_OK))
        return;
    T_CHECK(gy_glm_source_next(a, &x, NULL) == GY_OK && gy_glm_source_next(a, &x, NULL) == GY_OK && gy_glm_source_next(b, &y, NULL) == GY_OK);
    T_CHECK(x.first == 32768 && y.count == 1000 && memcmp(x.label, y.label, 1000 * sizeof *x.label) == 0 && memcmp(x.id, y.id, 39000 * sizeof *x.id) == 0);
    gy_glm_source_close(a);
    gy_glm_source_close(b);
    /* the planted model on the rows has the log-loss that was printed */
    struct gyre_glm *planted = NULL;
    struct gyre_glm_predict_config p;
    struct gyre_glm_metrics v = { 0 };
    gyre_glm_predict_default(&p);
    p.data = &da;
    p.threads = 2;
    T_CHECK_MSG(gyre_glm_load(&planted, path2, &error) == GYRE_OK, "%s", error.text);
    T_CHECK_MSG(planted && gyre_glm_predict(planted, &p, &v, &error) == GYRE_OK, "%s", error.text);
    T_CHECK_MSG(fabs(v.log_loss - all.log_loss) < 1e-6 && v.rows == 40000, "%.9g, printed %.9g", v.log_loss, all.log_loss);
    gyre_glm_close(planted);
}

static void test_folds(void)
{
    struct gyre_glm_data d;
    struct gyre_glm_config c;
    struct gyre_glm_report whole = { 0 }, folds = { 0 };
    struct gyre_glm *m = NULL;
    struct gyre_error error = { 0 };
    const char *const file = path;
    data_of(&d, &file);
    gyre_glm_config_default(&c);
    c.train = c.test = &d;
    c.l2 = 10;
    c.threads = 2;
    T_CHECK_MSG(gyre_glm_train(&m, &c, &whole, &error) == GYRE_OK, "%s", error.text);
    gyre_glm_close(m);
    m = NULL;
    c.folds = 3;
    T_CHECK_MSG(gyre_glm_train(&m, &c, &folds, &error) == GYRE_OK && !m, "%s", error.text);
    T_CHECK_MSG(folds.test.rows == 40000 && folds.test.log_loss > whole.test.log_loss && folds.test.auc > 0.6 && folds.test.auc < whole.test.auc,
                "folds: log-loss %g, auc %g; own rows: %g, %g", folds.test.log_loss, folds.test.auc, whole.test.log_loss, whole.test.auc);
}

/* ---- real data: the reference's figures ---- */

static void test_a9a(void)
{
    const char *root = getenv("GYRE_TEST_DATA");
    char train[512], test[512];
    struct gyre_glm_data a, b;
    struct gyre_glm_config c;
    struct gyre_glm_report r = { 0 };
    struct gyre_glm *m = NULL;
    struct gyre_error error = { 0 };
    snprintf(train, sizeof train, "%s/glm/a9a", root ? root : "");
    snprintf(test, sizeof test, "%s/glm/a9a.t", root ? root : "");
    if (!root || gy_file_exists(train) != 1) {
        T_SKIP("no a9a in GYRE_TEST_DATA/glm");
        return;
    }
    const char *const files[] = { train, test };
    data_of(&a, &files[0]);
    data_of(&b, &files[1]);
    gyre_glm_config_default(&c);
    c.train = &a;
    c.test = &b;
    c.gap = 1e-11;
    c.solver = "newton";
    c.threads = 2;
    T_CHECK_MSG(gyre_glm_train(&m, &c, &r, &error) == GYRE_OK, "%s", error.text);
    T_CHECK_MSG(fabs(r.objective / 10529.5625846 - 1) < 1e-8, "%.12g", r.objective);
    T_CHECK_MSG(fabs(r.test.log_loss - 0.32405864) < 2e-8 && fabs(r.test.accuracy - 0.849886) < 1e-6 && fabs(r.test.auc - 0.90222074) < 2e-8,
                "log-loss %.9g, accuracy %.7g, auc %.9g", r.test.log_loss, r.test.accuracy, r.test.auc);
    gyre_glm_close(m);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/t_glm_model.XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(path2, sizeof path2, "%s/b", folder);
    test_round_trips();
    test_liblinear_text();
    test_damaged_texts();
    test_label_twice();
    test_scores();
    test_metrics();
    test_class_metrics();
    test_regression_metrics();
    test_arrays();
    test_refused();
    test_generate();
    test_folds();
    test_a9a();
    static const char *const names[] = { "a", "b", "part.blocks" };
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    rmdir(folder);
    T_END("t_glm_model");
}
