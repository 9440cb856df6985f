/* SPDX-License-Identifier: MIT */
/* svg.c: charts as SVG text: a line chart and a confusion matrix. They are plain shapes and text,
 * no script, no style sheet, no font file. Numbers are printed from integers, so the host program's
 * locale does not matter; text is escaped; nothing is allocated. */
#include "engine/base/text.h"
#include "io/report.h"

enum { SVG_W = 880, SVG_H = 500, SVG_LEFT = 78, SVG_RIGHT = 78, SVG_TOP = 78, SVG_BOTTOM = 56, SVG_POINTS = 1500 };

#define SVG_FONT "font-family=\"Inter,'Segoe UI',Roboto,'Helvetica Neue','DejaVu Sans',Arial,sans-serif\""
#define SVG_INK "#1f2933"
#define SVG_MUTED "#52606d"
#define SVG_GRID "#e4e7eb"

/* Colours that stay apart for colour-blind eyes, dark enough on white. */
static const char *const svg_colors[] = {"#0b6bb5", "#d1490c", "#0a8754", "#a2387f",
                                         "#b07a00", "#2aa5c9", "#6b4fb3", "#5a5a5a"};

struct svg_out {
    struct gy_outfile file;
    struct gy_error *err;
};

static int svg_to_file(void *user, const char *text, size_t bytes)
{
    struct svg_out *out = user;
    return gy_outfile_write(&out->file, text, bytes, out->err) != GY_OK;
}

/* Writes text content or an attribute value, at most limit characters. Marks are escaped; '?'
 * replaces what XML cannot hold. */
static void svg_text(struct gy_sink *sink, const char *text, int limit)
{
    const unsigned char *at = (const unsigned char *)text;
    const unsigned char *end = at + strlen(text);
    for (int shown = 0; at < end; shown++) {
        const int length = gy_utf8_length(at, end);
        if (shown == limit) {
            gy_sink_printf(sink, "\xE2\x80\xA6");
            return;
        }
        const int nonsense = length == 3 && at[0] == 0xEF && at[1] == 0xBF && at[2] >= 0xBE;
        if (length == 0 || nonsense || *at < 0x20 || *at == 0x7F)
            gy_sink_printf(sink, "?");
        else if (strchr("&<>\"'", *at))
            gy_sink_printf(sink, "&#%d;", *at);
        else
            gy_sink_printf(sink, "%.*s", length, (const char *)at);
        at += length == 0 ? 1 : length;
    }
}

/* Writes value with at most `decimals` decimals and no trailing zeros; |value| < 10^15. It does not
 * depend on the locale. */
static void svg_number(struct gy_sink *sink, double value, int decimals)
{
    int64_t scale = 1;
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    int64_t units = (int64_t)floor(fabs(value) * (double)scale + 0.5);
    while (decimals > 0 && units % 10 == 0) {
        units /= 10;
        scale /= 10;
        decimals--;
    }
    gy_sink_printf(sink, "%s%" PRId64, value < 0 && units != 0 ? "-" : "", units / scale);
    if (decimals > 0)
        gy_sink_printf(sink, ".%0*" PRId64, decimals, units % scale);
}

/* The label of a tick: plain up to ten thousand, then with a unit, the same on the whole axis. It
 * has an exponent where the step is tiny or the axis huge. largest: of the axis, absolute. */
static void svg_tick(struct gy_sink *sink, double value, double step, double largest)
{
    static const struct svg_unit {
        double from, size;
        const char *mark;
    } units[] = {{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}, {0, 1, ""}};
    const double size = fabs(value) < step * 0.5 ? 0 : fabs(value);
    size_t unit = 0;
    if (size > 0 && (largest >= 1e15 || step < 1e-6)) {
        const int power = (int)floor(log10(size) + 1e-9);
        svg_number(sink, value / pow(10, power), 2);
        gy_sink_printf(sink, "e%d", power);
        return;
    }
    while (largest < units[unit].from)
        unit++;
    svg_number(sink, size > 0 ? value / units[unit].size : 0, 8);
    if (size > 0)
        gy_sink_printf(sink, "%s", units[unit].mark);
}

struct svg_axis {
    double low, high, step; /* of the data; ticks at multiples of step */
    double from, to;        /* pixels of low and high */
    int used;               /* some finite value was seen */
};

static double svg_largest(const struct svg_axis *axis) { return fmax(fabs(axis->low), fabs(axis->high)); }

static int svg_finite(double value) { return value > -1e300 && value < 1e300; }

static void svg_see(struct svg_axis *axis, double value)
{
    if (!svg_finite(value))
        return;
    axis->low = axis->used && axis->low < value ? axis->low : value;
    axis->high = axis->used && axis->high > value ? axis->high : value;
    axis->used = 1;
}

/* Chooses a step of 1, 2 or 5 times a power of ten, so that about `ticks` ticks cover the range.
 * round: the range grows to whole steps. */
static void svg_nice(struct svg_axis *axis, int ticks, int round)
{
    if (!axis->used)
        axis->high = 1;
    if (axis->high - axis->low <= fabs(axis->high) * 1e-9) {
        const double half = axis->high != 0 ? fabs(axis->high) * 0.1 : 0.5;
        axis->low -= half;
        axis->high += half;
    }
    const double rough = axis->high / ticks - axis->low / ticks;
    const double base = pow(10, floor(log10(rough)));
    const double times = rough / base;
    axis->step = base * (times <= 1.0001 ? 1 : times <= 2.0001 ? 2 : times <= 5.0001 ? 5 : 10);
    if (!round)
        return;
    axis->low = floor(axis->low / axis->step + 1e-6) * axis->step;
    axis->high = ceil(axis->high / axis->step - 1e-6) * axis->step;
}

static double svg_pixel(const struct svg_axis *axis, double value)
{
    return axis->from + (value / 2 - axis->low / 2) / (axis->high / 2 - axis->low / 2) * (axis->to - axis->from);
}

struct svg_chart {
    struct gy_sink *sink;
    struct svg_axis x, left, right;
};

static void svg_label(struct gy_sink *sink, double x, double y, const char *anchor, const char *fill, int size)
{
    gy_sink_printf(sink, "<text x=\"");
    svg_number(sink, x, 1);
    gy_sink_printf(sink, "\" y=\"");
    svg_number(sink, y, 1);
    gy_sink_printf(sink, "\" text-anchor=\"%s\" fill=\"%s\" font-size=\"%d\">", anchor, fill, size);
}

static void svg_line(struct gy_sink *sink, double x0, double y0, double x1, double y1, const char *color)
{
    const double at[4] = {x0, y0, x1, y1};
    static const char *const names[4] = {"x1", "y1", "x2", "y2"};
    gy_sink_printf(sink, "<line stroke=\"%s\"", color);
    for (int i = 0; i < 4; i++) {
        gy_sink_printf(sink, " %s=\"", names[i]);
        svg_number(sink, at[i], 1);
        gy_sink_printf(sink, "\"");
    }
    gy_sink_printf(sink, "/>\n");
}

static void svg_axis_y(struct gy_sink *sink, const struct svg_axis *axis, int right, const char *label)
{
    const double edge = right ? SVG_W - SVG_RIGHT : SVG_LEFT, middle = (SVG_TOP + SVG_H - SVG_BOTTOM) / 2.0;
    const int ticks = (int)floor((axis->high - axis->low) / axis->step + 0.5);
    for (int i = 0; i <= ticks && i < 50; i++) {
        const double value = axis->low + i * axis->step, y = svg_pixel(axis, value);
        if (!right)
            svg_line(sink, SVG_LEFT, y, SVG_W - SVG_RIGHT, y, i == 0 ? SVG_MUTED : SVG_GRID);
        svg_label(sink, edge + (right ? 8 : -8), y + 4, right ? "start" : "end", SVG_MUTED, 12);
        svg_tick(sink, value, axis->step, svg_largest(axis));
        gy_sink_printf(sink, "</text>\n");
    }
    if (!label)
        return;
    gy_sink_printf(sink, "<text transform=\"translate(%d,%d) rotate(%d)\" text-anchor=\"middle\" fill=\"%s\""
                   " font-size=\"13\">", right ? SVG_W - 18 : 24, (int)middle, right ? 90 : -90, SVG_INK);
    svg_text(sink, label, 60);
    gy_sink_printf(sink, "</text>\n");
}

static void svg_axis_x(struct gy_sink *sink, const struct svg_axis *axis, const char *label)
{
    const double base = SVG_H - SVG_BOTTOM, first = ceil(axis->low / axis->step - 1e-6);
    for (int i = 0; i < 50; i++) {
        const double value = (first + i) * axis->step;
        if (value > axis->high + axis->step * 1e-6)
            break;
        const double x = svg_pixel(axis, value);
        svg_line(sink, x, base, x, base + 5, SVG_MUTED);
        svg_label(sink, x, base + 19, "middle", SVG_MUTED, 12);
        svg_tick(sink, value, axis->step, svg_largest(axis));
        gy_sink_printf(sink, "</text>\n");
    }
    if (!label)
        return;
    svg_label(sink, (SVG_LEFT + SVG_W - SVG_RIGHT) / 2.0, SVG_H - 16, "middle", SVG_INK, 13);
    svg_text(sink, label, 80);
    gy_sink_printf(sink, "</text>\n");
}

/* One point of a path: a move after a break, else a line. */
static void svg_point(struct svg_chart *chart, const struct svg_axis *axis, double x, double y, int *broken)
{
    gy_sink_printf(chart->sink, "%c", *broken ? 'M' : 'L');
    svg_number(chart->sink, svg_pixel(&chart->x, x), 1);
    gy_sink_printf(chart->sink, " ");
    svg_number(chart->sink, svg_pixel(axis, y), 1);
    *broken = 0;
}

/* The path of a series. A long series shows runs of points by their smallest and largest, so no
 * spike is lost. */
static void svg_path(struct svg_chart *chart, const struct svg_axis *axis, const struct gy_series *series)
{
    const int64_t run = gy_ceil_div(gy_max64(series->count, 1), SVG_POINTS);
    int broken = 1;
    for (int64_t at = 0; at < series->count; at += run) {
        int64_t low = -1, high = -1;
        for (int64_t i = at; i < gy_min64(at + run, series->count); i++) {
            if (!svg_finite(series->y[i]) || !svg_finite(series->x[i]))
                continue;
            low = low < 0 || series->y[i] < series->y[low] ? i : low;
            high = high < 0 || series->y[i] > series->y[high] ? i : high;
        }
        if (low < 0) {
            broken = 1;
            continue;
        }
        const int64_t first = gy_min64(low, high), last = gy_max64(low, high);
        svg_point(chart, axis, series->x[first], series->y[first], &broken);
        if (last != first)
            svg_point(chart, axis, series->x[last], series->y[last], &broken);
    }
}

static void svg_series(struct svg_chart *chart, const struct gy_series *series, const char *color)
{
    const struct svg_axis *axis = series->right ? &chart->right : &chart->left;
    gy_sink_printf(chart->sink, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"",
                   color, series->count > 400 ? "1.1" : "2");
    gy_sink_printf(chart->sink, " stroke-linecap=\"round\"%s d=\"", series->right ? " stroke-dasharray=\"6 4\"" : "");
    svg_path(chart, axis, series);
    gy_sink_printf(chart->sink, "\"/>\n");
    for (int64_t i = 0; i < series->count && series->count <= 40; i++) {
        if (!svg_finite(series->x[i]) || !svg_finite(series->y[i]))
            continue;
        gy_sink_printf(chart->sink, "<circle r=\"3\" fill=\"%s\" cx=\"", color);
        svg_number(chart->sink, svg_pixel(&chart->x, series->x[i]), 1);
        gy_sink_printf(chart->sink, "\" cy=\"");
        svg_number(chart->sink, svg_pixel(axis, series->y[i]), 1);
        gy_sink_printf(chart->sink, "\"/>\n");
    }
}

/* A row of samples under the title; names are taken as 7 pixels a character. */
static void svg_legend(struct gy_sink *sink, const struct gy_series *series, int count, int both)
{
    double x = SVG_LEFT;
    for (int i = 0; i < count; i++) {
        const char *color = svg_colors[(size_t)i % GY_COUNT(svg_colors)];
        const char *where = !both ? "" : series[i].right ? " (right)" : " (left)";
        gy_sink_printf(sink, "<path stroke=\"%s\" stroke-width=\"2.5\"%s d=\"M", color,
                       series[i].right ? " stroke-dasharray=\"6 4\"" : "");
        svg_number(sink, x, 1);
        gy_sink_printf(sink, " 56h22\"/>\n");
        svg_label(sink, x + 28, 60, "start", SVG_INK, 12);
        svg_text(sink, series[i].name, 28);
        gy_sink_printf(sink, "%s</text>\n", where);
        const int64_t characters = gy_min64((int64_t)strlen(series[i].name), 28) + (int64_t)strlen(where);
        x += 48 + 7.0 * (double)characters;
    }
}

static void svg_begin(struct gy_sink *sink, int width, int height, const char *title, int left)
{
    gy_sink_printf(sink, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"");
    gy_sink_printf(sink, " width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" " SVG_FONT ">\n<title>",
                   width, height, width, height);
    svg_text(sink, title ? title : "", 200);
    gy_sink_printf(sink, "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width, height);
    gy_sink_printf(sink, "<text x=\"%d\" y=\"34\" fill=\"%s\" font-size=\"17\" font-weight=\"600\">", left, SVG_INK);
    svg_text(sink, title ? title : "", 90);
    gy_sink_printf(sink, "</text>\n");
}

/* Ranges of the three axes from all points that can be drawn. */
static void svg_ranges(struct svg_chart *chart, const struct gy_series *series, int count)
{
    for (int s = 0; s < count; s++)
        for (int64_t i = 0; i < series[s].count; i++)
            if (svg_finite(series[s].x[i]) && svg_finite(series[s].y[i])) {
                svg_see(&chart->x, series[s].x[i]);
                svg_see(series[s].right ? &chart->right : &chart->left, series[s].y[i]);
            }
    svg_nice(&chart->x, 8, 0);
    svg_nice(&chart->left, 6, 1);
    svg_nice(&chart->right, 6, 1);
    chart->x.from = SVG_LEFT;
    chart->x.to = SVG_W - SVG_RIGHT;
    chart->left.from = chart->right.from = SVG_H - SVG_BOTTOM;
    chart->left.to = chart->right.to = SVG_TOP;
}

static int svg_finish(struct svg_out *out, struct gy_sink *sink)
{
    gy_sink_printf(sink, "</svg>\n");
    const int status = sink->failed ? GY_E_IO : gy_outfile_commit(&out->file, out->err);
    gy_outfile_abandon(&out->file);
    return status;
}

GY_INT int gy_svg_curve(const char *path, const char *title, const char *x_label, const char *left_label,
                        const char *right_label, const struct gy_series *series, int count, struct gy_error *err)
{
    struct svg_out out;
    struct gy_sink sink = {svg_to_file, &out, 0};
    struct svg_chart chart;
    int left = 0, right = 0;
    out.err = err;
    GY_TRY(gy_outfile_open(&out.file, path, err));
    memset(&chart, 0, sizeof(chart));
    chart.sink = &sink;
    for (int i = 0; i < count; i++)
        *(series[i].right ? &right : &left) += 1;
    svg_ranges(&chart, series, count);
    svg_begin(&sink, SVG_W, SVG_H, title, SVG_LEFT);
    svg_axis_y(&sink, &chart.left, 0, left_label);
    if (right > 0)
        svg_axis_y(&sink, &chart.right, 1, right_label);
    svg_axis_x(&sink, &chart.x, x_label);
    for (int i = 0; i < count; i++)
        svg_series(&chart, &series[i], svg_colors[(size_t)i % GY_COUNT(svg_colors)]);
    svg_legend(&sink, series, count, left > 0 && right > 0);
    return svg_finish(&out, &sink);
}

enum { SVG_NAMED = 64, SVG_MATRIX = 560 }; /* classes with labels; pixels of the matrix */

struct svg_matrix {
    struct gy_sink *sink;
    const int64_t *counts;
    const char *const *names;
    int32_t classes;
    int cell, left, top;  /* pixels */
};

static void svg_class(const struct svg_matrix *matrix, int32_t label)
{
    if (matrix->names && matrix->names[label])
        svg_text(matrix->sink, matrix->names[label], 16);
    else
        gy_sink_printf(matrix->sink, "%d", (int)label);
}

/* A cell's colour goes from white to dark blue with the square root of its share of the row. So
 * small confusions stay visible. */
static void svg_cell(const struct svg_matrix *matrix, int32_t row, int32_t column, int64_t row_total)
{
    const int64_t count = matrix->counts[(int64_t)row * matrix->classes + column];
    if (count <= 0 || row_total <= 0)
        return;
    const double shade = sqrt((double)count / (double)row_total);
    const int red = (int)(255 - shade * 244), green = (int)(255 - shade * 180), blue = (int)(255 - shade * 105);
    const int x = matrix->left + column * matrix->cell, y = matrix->top + row * matrix->cell;
    gy_sink_printf(matrix->sink, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>\n", x, y,
                   matrix->cell, matrix->cell, red, green, blue);
    if (matrix->cell < 24)
        return;
    svg_label(matrix->sink, x + matrix->cell / 2.0, y + matrix->cell / 2.0 + 4, "middle",
              shade > 0.6 ? "#ffffff" : SVG_INK, matrix->cell >= 40 ? 12 : 9);
    gy_sink_printf(matrix->sink, "%" PRId64 "</text>\n", count);
}

static void svg_cells(const struct svg_matrix *matrix)
{
    const int side = matrix->cell * matrix->classes;
    for (int32_t row = 0; row < matrix->classes; row++) {
        int64_t total = 0;
        for (int32_t column = 0; column < matrix->classes; column++)
            total += matrix->counts[(int64_t)row * matrix->classes + column];
        for (int32_t column = 0; column < matrix->classes; column++)
            svg_cell(matrix, row, column, total);
    }
    for (int32_t i = 0; i <= matrix->classes && matrix->cell >= 16; i++) {
        const int at = i * matrix->cell;
        svg_line(matrix->sink, matrix->left, matrix->top + at, matrix->left + side, matrix->top + at, SVG_GRID);
        svg_line(matrix->sink, matrix->left + at, matrix->top, matrix->left + at, matrix->top + side, SVG_GRID);
    }
    gy_sink_printf(matrix->sink, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"%s\"/>\n",
                   matrix->left, matrix->top, side, side, SVG_MUTED);
}

static void svg_class_labels(const struct svg_matrix *matrix)
{
    const int size = matrix->cell >= 16 ? 12 : matrix->cell > 8 ? matrix->cell - 2 : 7;
    const int base = matrix->top + matrix->cell * matrix->classes;
    for (int32_t i = 0; i < matrix->classes && matrix->classes <= SVG_NAMED; i++) {
        const double middle = (i + 0.5) * matrix->cell;
        svg_label(matrix->sink, matrix->left - 8, matrix->top + middle + size * 0.35, "end", SVG_INK, size);
        svg_class(matrix, i);
        gy_sink_printf(matrix->sink, "</text>\n<text transform=\"translate(");
        svg_number(matrix->sink, matrix->left + middle + size * 0.35, 1);
        gy_sink_printf(matrix->sink, ",%d) rotate(-45)\" text-anchor=\"end\" fill=\"%s\" font-size=\"%d\">", base + 14,
                       SVG_INK, size);
        svg_class(matrix, i);
        gy_sink_printf(matrix->sink, "</text>\n");
    }
}

static void svg_totals(const struct svg_matrix *matrix)
{
    int64_t total = 0, right = 0;
    for (int64_t i = 0; i < (int64_t)matrix->classes * matrix->classes; i++) {
        total += matrix->counts[i];
        right += i % (matrix->classes + 1) == 0 ? matrix->counts[i] : 0;
    }
    svg_label(matrix->sink, matrix->left, 56, "start", SVG_MUTED, 12);
    gy_sink_printf(matrix->sink, "%" PRId64 " of %" PRId64 " right", right, total);
    if (total > 0) {
        gy_sink_printf(matrix->sink, ", ");
        svg_number(matrix->sink, 100.0 * (double)right / (double)total, 2);
        gy_sink_printf(matrix->sink, " %%");
    }
    gy_sink_printf(matrix->sink, "; a cell is shaded by its share of the row</text>\n");
}

GY_INT int gy_svg_confusion(const char *path, const char *title, const int64_t *counts, int32_t classes,
                            const char *const *names, struct gy_error *err)
{
    struct svg_out out;
    struct gy_sink sink = {svg_to_file, &out, 0};
    if (classes < 1 || classes > 16384)
        return GY_FAIL(err, GY_E_ARG, "a confusion matrix of %d classes cannot be drawn, 1 to 16384 can", (int)classes);
    const int fit = SVG_MATRIX / classes, cell = fit < 1 ? 1 : fit > 56 ? 56 : fit;
    const int labels = classes > SVG_NAMED ? 40 : names ? 130 : 60, side = cell * classes;
    const struct svg_matrix matrix = {&sink, counts, names, classes, cell, labels + 30, 74};
    out.err = err;
    GY_TRY(gy_outfile_open(&out.file, path, err));
    const int width = matrix.left + (side < 420 ? 420 : side) + 30;
    svg_begin(&sink, width, matrix.top + side + labels, title, matrix.left);
    svg_totals(&matrix);
    svg_cells(&matrix);
    svg_class_labels(&matrix);
    svg_label(&sink, matrix.left + side / 2.0, matrix.top + side + labels - 14, "middle", SVG_INK, 13);
    gy_sink_printf(&sink, "predicted</text>\n<text transform=\"translate(22,%d) rotate(-90)\" text-anchor=\"middle\""
                   " fill=\"%s\" font-size=\"13\">truth</text>\n", matrix.top + side / 2, SVG_INK);
    return svg_finish(&out, &sink);
}
