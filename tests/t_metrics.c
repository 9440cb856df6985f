/* SPDX-License-Identifier: MIT */
/* t_metrics.c: metrics against scikit-learn's. The scores come from a small generator that also ran
 * in Python, with many equal scores in them. The expected figures were printed there by
 * accuracy_score, top_k_accuracy_score, precision_recall_fscore_support and average_precision_score
 * (script: tests/peer/metrics_values.py). */
#include "engine/train/metrics.h"
#include "tests/t.h"

enum { MT_N = 500, MT_C = 7 };

static float mt_scores[MT_N][MT_C], mt_loss[MT_N];
static int32_t mt_label[MT_N], mt_rank[MT_N];

/* x' = 1664525 x + 1013904223 mod 2^32; the high 16 bits. */
static uint32_t mt_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static void mt_fill(void)
{
    uint32_t state = 7;
    for (int i = 0; i < MT_N; i++) {
        mt_label[i] = (int32_t)(mt_next(&state) % (MT_C - 1)); /* the last class has no samples */
        for (int c = 0; c < MT_C; c++)
            mt_scores[i][c] = (float)(mt_next(&state) % 32 + (c == mt_label[i] ? mt_next(&state) % 24 : 0)) / 64;
        mt_loss[i] = (float)(mt_next(&state) % 1000) / 256;
        mt_rank[i] = 0;
        for (int c = 0; c < MT_C; c++)
            mt_rank[i] += mt_scores[i][c] > mt_scores[i][mt_label[i]];
    }
}

static int mt_near(double value, double expected) { return fabs(value - expected) <= 1e-9; }

#include "tests/t_metrics_values.h"

static struct gy_metrics *mt_gather(const struct gy_alloc *alloc, int batch, int64_t ap_samples)
{
    struct gy_metrics *metrics = NULL;
    struct gy_error err;
    if (!T_CHECK(gy_metrics_open(&metrics, alloc, MT_C, ap_samples, &err) == GY_OK))
        exit(t_end("t_metrics"));
    for (int i = 0; i < MT_N; i += batch)
        T_CHECK(gy_metrics_add(metrics, mt_scores[i], mt_label + i, mt_loss + i, mt_rank + i, gy_min64(batch, MT_N - i),
                               &err) == GY_OK);
    gy_metrics_finish(metrics);
    return metrics;
}

static void mt_test_values(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_metrics *metrics = mt_gather(&alloc, 64, MT_N);
    struct gy_metrics_total total;
    struct gy_class_metrics one;
    gy_metrics_total(metrics, &total);
    T_CHECK(total.samples == MT_N && mt_near(total.loss, mt_mean_loss));
    T_CHECK(mt_near(total.top1, mt_top1) && mt_near(total.top5, mt_top5));
    for (int32_t c = 0; c < MT_C - 1; c++) {
        gy_metrics_class(metrics, c, &one);
        T_CHECK(mt_near(one.precision, mt_classes[c][0]) && mt_near(one.recall, mt_classes[c][1]));
        T_CHECK(mt_near(one.f1, mt_classes[c][2]) && mt_near(one.average_precision, mt_classes[c][3]));
        for (int32_t p = 0; p < MT_C; p++)
            T_CHECK(gy_metrics_confusion(metrics)[c * MT_C + p] == mt_confusion[c][p]);
    }
    gy_metrics_class(metrics, MT_C - 1, &one);
    T_CHECK(one.truth == 0 && one.predicted > 0 && isnan(one.recall) && isnan(one.average_precision));
    T_CHECK(mt_near(total.macro.precision, mt_macro[0]) && mt_near(total.macro.recall, mt_macro[1]));
    T_CHECK(mt_near(total.macro.f1, mt_macro[2]) && mt_near(total.macro.average_precision, mt_macro[3]));
    gy_metrics_close(metrics);
}

/* The figures do not depend on how the samples were cut into batches: to the bit. */
static void mt_test_batches(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_metrics *one = mt_gather(&alloc, MT_N, MT_N), *two = mt_gather(&alloc, 7, MT_N);
    struct gy_metrics_total a, b;
    gy_metrics_total(one, &a);
    gy_metrics_total(two, &b);
    T_CHECK(memcmp(&a.loss, &b.loss, sizeof(double)) == 0 && memcmp(&a.top1, &b.top1, sizeof(double)) == 0);
    T_CHECK(memcmp(&a.macro.average_precision, &b.macro.average_precision, sizeof(double)) == 0);
    gy_metrics_close(one);
    gy_metrics_close(two);
}

static void mt_test_edges(void)
{
    static const float scores[3][2] = {{0.5f, 0.5f}, {NAN, 0.25f}, {NAN, NAN}};
    static const int32_t labels[] = {1, 1, 0}, ignored[] = {-1, -1, -1}, wrong[] = {0, 2, 0}, rank[] = {0, 0, 0};
    static const float loss[] = {1, 2, 3};
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_metrics *metrics = NULL;
    struct gy_metrics_total total;
    struct gy_error err;
    T_CHECK(gy_metrics_open(&metrics, &alloc, 0, 0, &err) == GY_E_ARG && !metrics);
    if (!T_CHECK(gy_metrics_open(&metrics, &alloc, 2, 3, &err) == GY_OK))
        return;
    gy_metrics_finish(metrics);
    gy_metrics_total(metrics, &total);
    T_CHECK(total.samples == 0 && isnan(total.loss) && isnan(total.top1) && isnan(total.macro.f1));
    T_CHECK(gy_metrics_add(metrics, scores[0], ignored, loss, rank, 3, &err) == GY_OK);
    T_CHECK(gy_metrics_add(metrics, scores[0], labels, loss, rank, 3, &err) == GY_OK);
    gy_metrics_finish(metrics);
    gy_metrics_total(metrics, &total);
    T_CHECK(total.samples == 3 && mt_near(total.top1, 1) && mt_near(total.loss, 2));
    T_CHECK(gy_metrics_confusion(metrics)[3] == 2); /* a tie is the label's */
    T_CHECK(mt_near(total.macro.average_precision, (1.0 / 3 + 1) / 2));
    T_CHECK(gy_metrics_add(metrics, scores[0], wrong, loss, rank, 3, &err) == GY_E_ARG);
    T_CHECK(strstr(err.text, "label 2") != NULL);
    gy_metrics_close(metrics);
}

/* Who is not first is never counted as right: of scores that are not numbers, every other class is
 * higher. */
static void mt_test_nan(void)
{
    static const float scores[3][3] = {{NAN, NAN, NAN}, {NAN, 0.75f, 0.25f}, {0.25f, NAN, 0.75f}}, loss[3] = {NAN, 1, 1};
    static const int32_t labels[3] = {0, 1, 2}, rank[3] = {2, 1, 1};
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_metrics *metrics = NULL;
    struct gy_metrics_total total;
    struct gy_error err;
    if (!T_CHECK(gy_metrics_open(&metrics, &alloc, 3, 3, &err) == GY_OK))
        return;
    T_CHECK(gy_metrics_add(metrics, scores[0], labels, loss, rank, 3, &err) == GY_OK);
    gy_metrics_finish(metrics);
    gy_metrics_total(metrics, &total);
    T_CHECK(mt_near(total.top1, 0) && mt_near(total.macro.recall, 0) && total.macro.right == 0);
    gy_metrics_close(metrics);
}

/* Too many scores to keep: left out, and said. More classes than a matrix is kept for. */
static void mt_test_limits(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_metrics *metrics = NULL;
    struct gy_error err;
    if (!T_CHECK(gy_metrics_open(&metrics, &alloc, 1000, 1 << 20, &err) == GY_OK))
        return;
    T_CHECK(gy_metrics_note(metrics) && strstr(gy_metrics_note(metrics), "1048576 samples"));
    gy_metrics_close(metrics);
    if (!T_CHECK(gy_metrics_open(&metrics, &alloc, GY_METRICS_MATRIX + 1, 0, &err) == GY_OK))
        return;
    T_CHECK(!gy_metrics_confusion(metrics) && !gy_metrics_note(metrics));
    gy_metrics_close(metrics);
}

static void mt_test_text(void)
{
    static const char *const names[MT_C] = {"airplane", "caf\xC3\xA9", "bird\x1B[31m", "a \"quoted\" one", NULL, "e",
                                           "f"};
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_metrics *metrics = mt_gather(&alloc, 100, MT_N);
    struct gy_buf buf;
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_metrics_print(metrics, names, &sink);
    T_CHECK(!buf.failed && strstr(buf.text, "airplane") && strstr(buf.text, "macro mean"));
    T_CHECK(strstr(buf.text, "bird?[31m") && !strchr(buf.text, 0x1B));
    T_CHECK(strstr(buf.text, "confusion matrix") && strstr(buf.text, " taken for "));
    gy_buf_close(&buf);
    gy_buf_open(&buf, &alloc);
    sink = gy_sink_buf(&buf);
    gy_metrics_json(metrics, names, &sink);
    T_CHECK(!buf.failed && strstr(buf.text, "\"name\":\"a \\\"quoted\\\" one\""));
    T_CHECK(strstr(buf.text, "\"recall\":null") && !strstr(buf.text, "nan"));
    gy_buf_close(&buf);
    gy_metrics_close(metrics);
}

/* 30 classes: the worst are named in rising order of F1, each once. */
static void mt_test_worst(void)
{
    float scores[30] = {0};
    const float loss = 0;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_metrics *metrics = NULL;
    struct gy_error err;
    struct gy_buf buf;
    if (!T_CHECK(gy_metrics_open(&metrics, &alloc, 30, 0, &err) == GY_OK))
        return;
    for (int32_t label = 0; label < 29; label++)
        /* class c is right (30 - c) times of 30, else taken for class 29 */
        for (int32_t i = 0; i < 30; i++) {
            const int32_t best = i < 30 - label ? label : 29, rank = best != label;
            scores[best] = 1;
            T_CHECK(gy_metrics_add(metrics, scores, &label, &loss, &rank, 1, &err) == GY_OK);
            scores[best] = 0;
        }
    gy_metrics_finish(metrics);
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_metrics_print(metrics, NULL, &sink);
    if (!T_CHECK(!buf.failed))
        return;
    const char *first = strstr(buf.text, "\n28 "), *last = strstr(buf.text, "\n19 ");
    T_CHECK(first && last && first < last && !strstr(buf.text, "\n18 "));
    T_CHECK(strstr(buf.text, "28  28 taken for 29") && !strstr(buf.text, "confusion matrix"));
    gy_buf_close(&buf);
    gy_metrics_close(metrics);
}

int main(void)
{
    mt_fill();
    mt_test_values();
    mt_test_batches();
    mt_test_edges();
    mt_test_nan();
    mt_test_limits();
    mt_test_text();
    mt_test_worst();
    T_END("t_metrics");
}
