/* SPDX-License-Identifier: MIT */
/* metrics.c: counts what a net got right. The average precision of a class needs no sort of all its
 * scores: recall rises only at the scores of the class's own samples. So only those are sorted, and
 * every other sample is counted at the place where it falls among them. */
#include "engine/train/metrics.h"

struct gy_metrics {
    struct gy_alloc alloc;
    int32_t classes;
    int64_t samples, top1, top5;
    double loss;                            /* sum */
    int64_t *truth, *predicted, *right;     /* [classes] each */
    double *average;                        /* [classes]; NAN until gy_metrics_finish */
    int64_t *confusion;                     /* [classes][classes] or NULL */
    int64_t kept, room;                     /* samples whose scores are kept */
    float *scores;                          /* [room][classes] or NULL */
    int32_t *label;                         /* [room] */
    float *own;                             /* [room]: scores of a class's own samples */
    int64_t *above;                         /* [room + 1]: other samples between them */
    char note[160];
};

static int met_take(struct gy_metrics *metrics, void *place, size_t count, size_t elem_bytes, struct gy_error *err)
{
    void *memory = gy_alloc_take(&metrics->alloc, count, elem_bytes);
    if (!memory)
        return GY_NOMEM(err, "metrics", count * elem_bytes);
    memcpy(place, &memory, sizeof memory);
    return GY_OK;
}

static int met_take_all(struct gy_metrics *metrics, struct gy_error *err)
{
    const size_t classes = (size_t)metrics->classes, room = (size_t)metrics->room;
    GY_TRY(met_take(metrics, &metrics->truth, classes, sizeof(int64_t), err));
    GY_TRY(met_take(metrics, &metrics->predicted, classes, sizeof(int64_t), err));
    GY_TRY(met_take(metrics, &metrics->right, classes, sizeof(int64_t), err));
    GY_TRY(met_take(metrics, &metrics->average, classes, sizeof(double), err));
    if (metrics->classes <= GY_METRICS_MATRIX)
        GY_TRY(met_take(metrics, &metrics->confusion, classes * classes, sizeof(int64_t), err));
    if (room == 0)
        return GY_OK;
    GY_TRY(met_take(metrics, &metrics->scores, room * classes, sizeof(float), err));
    GY_TRY(met_take(metrics, &metrics->label, room, sizeof(int32_t), err));
    GY_TRY(met_take(metrics, &metrics->own, room, sizeof(float), err));
    return met_take(metrics, &metrics->above, room + 1, sizeof(int64_t), err);
}

GY_INT int gy_metrics_open(struct gy_metrics **out, const struct gy_alloc *alloc, int32_t classes, int64_t ap_samples,
                           struct gy_error *err)
{
    if (classes < 1 || ap_samples < 0)
        return GY_FAIL(err, GY_E_ARG, "metrics of %d classes and %" PRId64 " samples", (int)classes, ap_samples);
    struct gy_metrics *metrics = gy_alloc_take(alloc, 1, sizeof *metrics);
    if (!metrics)
        return GY_NOMEM(err, "metrics", sizeof *metrics);
    metrics->alloc = *alloc;
    metrics->classes = classes;
    metrics->room = ap_samples <= GY_METRICS_SCORES / classes ? ap_samples : 0;
    if (metrics->room != ap_samples)
        snprintf(metrics->note, sizeof metrics->note,
                 "average precision is left out: %" PRId64 " samples x %d classes are more than %" PRId64 " scores",
                 ap_samples, (int)classes, GY_METRICS_SCORES);
    const int status = met_take_all(metrics, err);
    if (status != GY_OK) {
        gy_metrics_close(metrics);
        return status;
    }
    for (int32_t c = 0; c < classes; c++)
        metrics->average[c] = (double)NAN;
    *out = metrics;
    return GY_OK;
}

GY_INT void gy_metrics_close(struct gy_metrics *metrics)
{
    if (!metrics)
        return;
    const struct gy_alloc alloc = metrics->alloc;
    const size_t classes = (size_t)metrics->classes, room = (size_t)metrics->room;
    gy_alloc_free(&alloc, metrics->above, (room + 1) * sizeof(int64_t));
    gy_alloc_free(&alloc, metrics->own, room * sizeof(float));
    gy_alloc_free(&alloc, metrics->label, room * sizeof(int32_t));
    gy_alloc_free(&alloc, metrics->scores, room * classes * sizeof(float));
    gy_alloc_free(&alloc, metrics->confusion, classes * classes * sizeof(int64_t));
    gy_alloc_free(&alloc, metrics->average, classes * sizeof(double));
    gy_alloc_free(&alloc, metrics->right, classes * sizeof(int64_t));
    gy_alloc_free(&alloc, metrics->predicted, classes * sizeof(int64_t));
    gy_alloc_free(&alloc, metrics->truth, classes * sizeof(int64_t));
    gy_alloc_free(&alloc, metrics, sizeof *metrics);
}

/* The first class with the highest score, but for `label`; NaN counts as lowest. */
static int32_t met_best_other(const float *scores, int32_t classes, int32_t label)
{
    int32_t best = label == 0 && classes > 1;
    for (int32_t c = best + 1; c < classes; c++)
        if (c != label && (scores[c] > scores[best] || (isnan(scores[best]) && !isnan(scores[c]))))
            best = c;
    return best;
}

GY_INT int gy_metrics_add(struct gy_metrics *metrics, const float *scores, const int32_t *labels, const float *loss,
                          const int32_t *rank, int64_t n, struct gy_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] >= metrics->classes)
            return GY_FAIL(err, GY_E_ARG, "sample %" PRId64 " has label %d, but there are %d classes", metrics->samples,
                           (int)labels[i], (int)metrics->classes);
        if (labels[i] < 0 || rank[i] < 0)
            continue;
        const float *row = scores + i * metrics->classes;
        const int32_t label = labels[i], best = rank[i] == 0 ? label : met_best_other(row, metrics->classes, label);
        metrics->samples++;
        metrics->top1 += rank[i] < 1;
        metrics->top5 += rank[i] < 5;
        metrics->loss += (double)loss[i];
        metrics->truth[label]++;
        metrics->predicted[best]++;
        metrics->right[label] += best == label;
        if (metrics->confusion)
            metrics->confusion[(int64_t)label * metrics->classes + best]++;
        if (metrics->kept < metrics->room) {
            metrics->label[metrics->kept] = label;
            memcpy(metrics->scores + metrics->kept * metrics->classes, row, (size_t)metrics->classes * sizeof(float));
            metrics->kept++;
        }
    }
    return GY_OK;
}

/* Lets own[at] sink among own[at..count): the smallest comes up, so the sorted order is
 * descending. */
static void met_sink(float *own, int64_t at, int64_t count)
{
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && own[child + 1] < own[child];
        if (own[at] <= own[child])
            return;
        const float swap = own[at];
        own[at] = own[child];
        own[child] = swap;
    }
}

/* Descending heap sort. */
static void met_sort(float *own, int64_t count)
{
    for (int64_t i = count / 2; i-- > 0;)
        met_sink(own, i, count);
    for (int64_t last = count - 1; last > 0; last--) {
        const float swap = own[0];
        own[0] = own[last];
        own[last] = swap;
        met_sink(own, 0, last);
    }
}

static float met_score(const struct gy_metrics *metrics, int64_t sample, int32_t label)
{
    const float score = metrics->scores[sample * metrics->classes + label];
    return isnan(score) ? -HUGE_VALF : score;
}

/* The first of the descending own[0..count) that is at most score: thresholds from that place on
 * accept the sample. */
static int64_t met_place(const float *own, int64_t count, float score)
{
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (own[middle] <= score)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Sum over the distinct scores of the class's own samples, from the highest: recall gained there
 * times precision there. */
static double met_average(struct gy_metrics *metrics, int32_t label)
{
    int64_t count = 0, others = 0;
    double sum = 0;
    for (int64_t i = 0; i < metrics->kept; i++)
        if (metrics->label[i] == label)
            metrics->own[count++] = met_score(metrics, i, label);
    if (count == 0)
        return (double)NAN;
    met_sort(metrics->own, count);
    memset(metrics->above, 0, (size_t)(count + 1) * sizeof(int64_t));
    for (int64_t i = 0; i < metrics->kept; i++)
        if (metrics->label[i] != label)
            metrics->above[met_place(metrics->own, count, met_score(metrics, i, label))]++;
    for (int64_t first = 0, end; first < count; first = end) {
        others += metrics->above[first];
        for (end = first + 1; end < count && metrics->own[end] >= metrics->own[first];)
            end++;
        sum += (double)(end - first) * ((double)end / (double)(end + others));
    }
    return sum / (double)count;
}

GY_INT void gy_metrics_finish(struct gy_metrics *metrics)
{
    for (int32_t c = 0; c < metrics->classes && metrics->kept > 0; c++)
        metrics->average[c] = met_average(metrics, c);
}

static double met_ratio(double part, double whole) { return whole > 0 ? part / whole : (double)NAN; }

GY_INT void gy_metrics_class(const struct gy_metrics *metrics, int32_t label, struct gy_class_metrics *out)
{
    const int64_t truth = metrics->truth[label], predicted = metrics->predicted[label], right = metrics->right[label];
    out->truth = truth;
    out->predicted = predicted;
    out->right = right;
    out->precision = predicted > 0 ? (double)right / (double)predicted : truth > 0 ? 0 : (double)NAN;
    out->recall = met_ratio((double)right, (double)truth);
    out->f1 = truth > 0 ? 2.0 * (double)right / (double)(truth + predicted) : (double)NAN;
    out->average_precision = metrics->average[label];
}

GY_INT void gy_metrics_total(const struct gy_metrics *metrics, struct gy_metrics_total *total)
{
    struct gy_class_metrics one, sum;
    int32_t classes = 0;
    memset(&sum, 0, sizeof sum);
    for (int32_t c = 0; c < metrics->classes; c++) {
        gy_metrics_class(metrics, c, &one);
        sum.truth += one.truth;
        sum.predicted += one.predicted;
        sum.right += one.right;
        if (one.truth == 0)
            continue;
        classes++;
        sum.precision += one.precision;
        sum.recall += one.recall;
        sum.f1 += one.f1;
        sum.average_precision += one.average_precision;
    }
    total->macro = sum;
    total->macro.precision = met_ratio(sum.precision, classes);
    total->macro.recall = met_ratio(sum.recall, classes);
    total->macro.f1 = met_ratio(sum.f1, classes);
    total->macro.average_precision = met_ratio(sum.average_precision, classes);
    total->samples = metrics->samples;
    total->loss = met_ratio(metrics->loss, (double)metrics->samples);
    total->top1 = met_ratio((double)metrics->top1, (double)metrics->samples);
    total->top5 = met_ratio((double)metrics->top5, (double)metrics->samples);
}

GY_INT const int64_t *gy_metrics_confusion(const struct gy_metrics *metrics) { return metrics->confusion; }

GY_INT const char *gy_metrics_note(const struct gy_metrics *metrics)
{
    return metrics->note[0] != 0 ? metrics->note : NULL;
}

/* ---- text ---- */

enum { MET_FULL = 20, MET_WORST = 10, MET_PAIRS = 10, MET_NAME = 24, MET_JSON_MATRIX = 256 };

/* A class's name in exactly `width` characters, or whole if width is 0; control characters as
 * '?'. */
static void met_name(struct gy_sink *sink, const char *const *names, int32_t label, int width)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)label);
    const char *name = names && names[label] ? names[label] : number;
    const unsigned char *at = (const unsigned char *)name;
    const unsigned char *end = at + strlen(name);
    int shown = 0;
    for (; at < end && (width == 0 || shown < width); shown++) {
        const int length = gy_utf8_length(at, end);
        if (length == 0 || *at < 0x20 || *at == 0x7F || (at[0] == 0xC2 && at[1] < 0xA0))
            gy_sink_printf(sink, "?");
        else
            gy_sink_printf(sink, "%.*s", length, (const char *)at);
        at += length == 0 ? 1 : length;
    }
    gy_sink_printf(sink, "%*s", width > shown ? width - shown : 0, "");
}

/* Characters of the longest name, at most MET_NAME, at least as wide as "macro mean". */
static int met_name_width(const char *const *names, int32_t classes)
{
    int widest = 10;
    for (int32_t c = 0; c < classes && names; c++) {
        int width = 0;
        for (const char *at = names[c] ? names[c] : ""; *at != 0; at++)
            width += ((unsigned char)*at & 0xC0) != 0x80;
        widest = width > widest ? width : widest;
    }
    return widest < MET_NAME ? widest : MET_NAME;
}

static void met_cell(struct gy_sink *sink, double value)
{
    if (isnan(value))
        gy_sink_printf(sink, "  %9s", "-");
    else
        gy_sink_printf(sink, "  %9.4f", value);
}

static void met_row(struct gy_sink *sink, const struct gy_class_metrics *row, int with_average)
{
    gy_sink_printf(sink, "  %9" PRId64, row->truth);
    met_cell(sink, row->precision);
    met_cell(sink, row->recall);
    met_cell(sink, row->f1);
    if (with_average)
        met_cell(sink, row->average_precision);
    gy_sink_printf(sink, "\n");
}

/* The class with the lowest F1 after (f1, label) in that order; -1 after the last. Classes without
 * samples do not count. */
static int32_t met_next_worst(const struct gy_metrics *metrics, double f1, int32_t label)
{
    struct gy_class_metrics one;
    int32_t worst = -1;
    double lowest = 2;
    for (int32_t c = 0; c < metrics->classes; c++) {
        gy_metrics_class(metrics, c, &one);
        const int after = one.f1 > f1 || (one.f1 >= f1 && c > label);
        if (one.truth > 0 && after && one.f1 < lowest) {
            lowest = one.f1;
            worst = c;
        }
    }
    return worst;
}

static void met_print_classes(const struct gy_metrics *metrics, const char *const *names, struct gy_sink *sink)
{
    struct gy_class_metrics row = { .f1 = -1 };
    struct gy_metrics_total total;
    const int width = met_name_width(names, metrics->classes), full = metrics->classes <= MET_FULL;
    const int with_average = metrics->kept > 0;
    gy_metrics_total(metrics, &total);
    if (!full)
        gy_sink_printf(sink, "\nthe %d of %d classes with the lowest F1\n", MET_WORST, (int)metrics->classes);
    gy_sink_printf(sink, "%s%-*s  %9s  %9s  %9s  %9s%s\n", full ? "\n" : "", width, "class", "samples", "precision",
                   "recall", "F1", with_average ? "  avg.prec." : "");
    int32_t label = -1;
    for (int i = 0; i < (full ? metrics->classes : MET_WORST); i++) {
        label = full ? i : met_next_worst(metrics, row.f1, label);
        if (label < 0)
            break;
        gy_metrics_class(metrics, label, &row);
        met_name(sink, names, label, width);
        met_row(sink, &row, with_average);
    }
    gy_sink_printf(sink, "%-*s", width, "macro mean");
    met_row(sink, &total.macro, with_average);
}

static void met_print_matrix(const struct gy_metrics *metrics, const char *const *names, struct gy_sink *sink)
{
    const int width = met_name_width(names, metrics->classes);
    gy_sink_printf(sink, "\nconfusion matrix: a row is the truth, a column the prediction\n%*s", width, "");
    for (int32_t c = 0; c < metrics->classes; c++)
        gy_sink_printf(sink, " %6d", (int)c);
    gy_sink_printf(sink, "\n");
    for (int32_t r = 0; r < metrics->classes; r++) {
        met_name(sink, names, r, width);
        for (int32_t c = 0; c < metrics->classes; c++)
            gy_sink_printf(sink, " %6" PRId64, metrics->confusion[(int64_t)r * metrics->classes + c]);
        gy_sink_printf(sink, "\n");
    }
}

/* The cells off the diagonal with the largest counts, in that order; of equal ones the first leads.
 * Returns how many. */
static int met_pairs(const struct gy_metrics *metrics, int64_t cells[MET_PAIRS])
{
    int found = 0;
    const int64_t all = (int64_t)metrics->classes * metrics->classes;
    for (int64_t at = 0; at < all; at++) {
        if (at % (metrics->classes + 1) == 0 || metrics->confusion[at] == 0)
            continue;
        int place = found;
        while (place > 0 && metrics->confusion[at] > metrics->confusion[cells[place - 1]])
            place--;
        if (place == MET_PAIRS)
            continue;
        found += found < MET_PAIRS;
        for (int i = found - 1; i > place; i--)
            cells[i] = cells[i - 1];
        cells[place] = at;
    }
    return found;
}

static void met_print_pairs(const struct gy_metrics *metrics, const char *const *names, struct gy_sink *sink)
{
    int64_t cells[MET_PAIRS];
    const int found = met_pairs(metrics, cells);
    if (found > 0)
        gy_sink_printf(sink, "\nmost frequent confusions\n");
    for (int i = 0; i < found; i++) {
        gy_sink_printf(sink, "%7" PRId64 "  ", metrics->confusion[cells[i]]);
        met_name(sink, names, (int32_t)(cells[i] / metrics->classes), 0);
        gy_sink_printf(sink, " taken for ");
        met_name(sink, names, (int32_t)(cells[i] % metrics->classes), 0);
        gy_sink_printf(sink, "\n");
    }
}

GY_INT void gy_metrics_print(const struct gy_metrics *metrics, const char *const *names, struct gy_sink *sink)
{
    struct gy_metrics_total total;
    gy_metrics_total(metrics, &total);
    gy_sink_printf(sink, "samples %" PRId64 "   loss %.4f   top-1 %.2f %%   top-5 %.2f %%\n", total.samples, total.loss,
                   100 * total.top1, 100 * total.top5);
    met_print_classes(metrics, names, sink);
    if (metrics->note[0] != 0)
        gy_sink_printf(sink, "%s\n", metrics->note);
    if (!metrics->confusion)
        return;
    if (metrics->classes <= MET_FULL)
        met_print_matrix(metrics, names, sink);
    met_print_pairs(metrics, names, sink);
}

/* Writes ,"name":value; NaN and infinity as null. */
static void met_json_number(struct gy_sink *sink, const char *name, double value)
{
    char text[40];
    gy_text_print(text, sizeof text, "%.9g", value);
    gy_sink_printf(sink, ",\"%s\":%s", name, isfinite(value) ? text : "null");
}

static void met_json_rates(struct gy_sink *sink, const struct gy_class_metrics *row)
{
    met_json_number(sink, "precision", row->precision);
    met_json_number(sink, "recall", row->recall);
    met_json_number(sink, "f1", row->f1);
    met_json_number(sink, "average_precision", row->average_precision);
    gy_sink_printf(sink, "}");
}

static void met_json_matrix(const struct gy_metrics *metrics, struct gy_sink *sink)
{
    gy_sink_printf(sink, ",\"confusion\":[");
    for (int32_t r = 0; r < metrics->classes; r++) {
        gy_sink_printf(sink, "%s[", r > 0 ? "," : "");
        for (int32_t c = 0; c < metrics->classes; c++)
            gy_sink_printf(sink, "%s%" PRId64, c > 0 ? "," : "", metrics->confusion[(int64_t)r * metrics->classes + c]);
        gy_sink_printf(sink, "]");
    }
    gy_sink_printf(sink, "]");
}

GY_INT void gy_metrics_json(const struct gy_metrics *metrics, const char *const *names, struct gy_sink *sink)
{
    struct gy_metrics_total total;
    struct gy_class_metrics row;
    gy_metrics_total(metrics, &total);
    gy_sink_printf(sink, "{\"samples\":%" PRId64, total.samples);
    met_json_number(sink, "loss", total.loss);
    met_json_number(sink, "top1", total.top1);
    met_json_number(sink, "top5", total.top5);
    gy_sink_printf(sink, ",\"macro\":{\"samples\":%" PRId64, total.macro.truth);
    met_json_rates(sink, &total.macro);
    gy_sink_printf(sink, ",\"classes\":[");
    for (int32_t c = 0; c < metrics->classes; c++) {
        gy_metrics_class(metrics, c, &row);
        gy_sink_printf(sink, "%s{\"label\":%d", c > 0 ? "," : "", (int)c);
        if (names && names[c]) {
            gy_sink_printf(sink, ",\"name\":");
            gy_print_json_text(names[c], sink);
        }
        gy_sink_printf(sink, ",\"samples\":%" PRId64 ",\"predicted\":%" PRId64 ",\"right\":%" PRId64, row.truth,
                       row.predicted, row.right);
        met_json_rates(sink, &row);
    }
    gy_sink_printf(sink, "]");
    if (metrics->confusion && metrics->classes <= MET_JSON_MATRIX)
        met_json_matrix(metrics, sink);
    if (metrics->note[0] != 0) {
        gy_sink_printf(sink, ",\"note\":");
        gy_print_json_text(metrics->note, sink);
    }
    gy_sink_printf(sink, "}\n");
}
