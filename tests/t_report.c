/* SPDX-License-Identifier: MIT */
/* t_report.c: the files of a run for people. Event files are decoded here byte by byte, CSV files
 * are resumed and torn, charts must be well-formed XML. With --write FOLDER the program only leaves
 * samples there, for other readers. */
#include "engine/base/hash.h"
#include "io/report.h"
#include "tests/t.h"
#include <dirent.h>
#include <unistd.h>

static struct gy_error report_err;
static char report_folder[1024];

static const char *report_path(char buf[2048], const char *name)
{
    snprintf(buf, 2048, "%s/%s", report_folder, name);
    return buf;
}

/* The whole file with a NUL, to be freed; NULL when it cannot be read or is larger than 4 MiB. */
static char *report_load(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *data = file ? calloc(1, (4 << 20) + 1) : NULL;
    *bytes = data ? fread(data, 1, 4 << 20, file) : 0;
    if (file)
        fclose(file);
    return data;
}

static int report_same(const char *path, const char *text)
{
    size_t bytes = 0;
    char *data = report_load(path, &bytes);
    const int same = data && bytes == strlen(text) && memcmp(data, text, bytes) == 0;
    if (!same)
        printf("    found: %s\n", data ? data : "no file");
    free(data);
    return same;
}

static uint64_t report_little(const unsigned char *at, int bytes)
{
    uint64_t bits = 0;
    for (int i = bytes; i-- > 0;)
        bits = bits << 8 | at[i];
    return bits;
}

static uint32_t report_masked(const unsigned char *at, size_t count)
{
    const uint32_t crc = gy_crc32c(0, at, count);
    return (uint32_t)((crc >> 15 | (uint64_t)crc << 17) + 0xA282EAD8u);
}

/* One record checked and removed from *at .. end; its message, or NULL. */
static const unsigned char *report_record(const unsigned char **at, const unsigned char *end, size_t *count)
{
    const unsigned char *record = *at;
    if (end - record < 16)
        return NULL;
    *count = (size_t)report_little(record, 8);
    if (*count > (size_t)(end - record) - 16 || report_little(record + 8, 4) != report_masked(record, 8))
        return NULL;
    if (report_little(record + 12 + *count, 4) != report_masked(record + 12, *count))
        return NULL;
    *at = record + 16 + *count;
    return record + 12;
}

/* The only file of the folder whose name holds "tfevents": its path. */
static int report_find_events(char path[2048])
{
    int found = 0;
    DIR *folder = opendir(report_folder);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder));)
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0) {
            report_path(path, entry->d_name);
            found++;
        }
    if (folder)
        closedir(folder);
    return found;
}

static int report_write_events(const char *folder, const struct gy_alloc *alloc)
{
    struct gy_events *events;
    GY_TRY(gy_events_open(&events, alloc, folder, &report_err));
    int status = gy_events_scalar(events, 0, "train/loss", 2.5, &report_err);
    if (status == GY_OK)
        status = gy_events_scalar(events, 300, "train/loss", -0.125, &report_err);
    if (status == GY_OK)
        status = gy_events_restart(events, 301, &report_err);
    if (status == GY_OK)
        status = gy_events_scalar(events, (int64_t)1 << 40, "eval/acc\xC3\xA9", 1e30, &report_err);
    T_CHECK(gy_events_close(events, NULL) == GY_OK);
    return status;
}

static void report_test_events(void)
{
    static const unsigned char scalar[] = {0x10, 0xAC, 0x02, 0x2A, 19, 0x0A, 17, 0x0A, 10, 't', 'r', 'a', 'i', 'n', '/',
                                           'l', 'o', 's', 's', 0x15, 0, 0, 0, 0xBE};
    static const unsigned char restart[] = {0x10, 0xAD, 0x02, 0x3A, 2, 0x08, 1};
    const struct gy_alloc alloc = gy_alloc_default();
    char path[2048] = "", tag[500];
    size_t bytes = 0, count[5] = {0};
    const unsigned char *message[5];
    T_CHECK(report_write_events(report_folder, &alloc) == GY_OK);
    T_CHECK(report_find_events(path) == 1);
    unsigned char *data = (unsigned char *)report_load(path, &bytes);
    if (!T_CHECK(data != NULL))
        return;
    const unsigned char *at = data;
    for (int i = 0; i < 5; i++)
        message[i] = report_record(&at, data + bytes, &count[i]);
    T_CHECK(at == data + bytes && message[0] && message[1] && message[2] && message[4]);
    /* Every event begins with its wall time, a fixed 64-bit field. */
    T_CHECK(count[0] == 9 + 15 && message[0][0] == 9 && memcmp(message[0] + 9, "\x1A\x0D" "brain.Event:2", 15) == 0);
    T_CHECK(count[1] == 9 + 21 && message[1][9] == 0x2A); /* step 0 is not written */
    T_CHECK(count[2] == 9 + sizeof scalar && memcmp(message[2] + 9, scalar, sizeof scalar) == 0);
    T_CHECK(count[3] == 9 + sizeof restart && memcmp(message[3] + 9, restart, sizeof restart) == 0);
    free(data);
    memset(tag, 'x', sizeof tag - 1);
    tag[sizeof tag - 1] = 0;
    struct gy_events *events = NULL;
    /* a second one: another name */
    if (T_CHECK(gy_events_open(&events, &alloc, report_folder, &report_err) == GY_OK))
        T_CHECK(gy_events_scalar(events, 1, tag, 0, &report_err) == GY_E_ARG);
    T_CHECK(gy_events_close(events, NULL) == GY_OK);
    T_CHECK(report_find_events(path) == 2);
    T_CHECK(gy_events_open(&events, &alloc, "/absent-folder", &report_err) == GY_E_IO);
    T_CHECK(strstr(report_err.text, "/absent-folder") != NULL);
}

static void report_clear_events(void)
{
    char path[2048];
    while (report_find_events(path) > 0)
        if (remove(path) != 0)
            return;
}

static void report_put(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return;
    fputs(text, file);
    fclose(file);
}

/* Opens with keep_step, adds one row, and compares the file. */
static void report_csv_case(const char *before, int64_t keep_step, const char *after)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_csv *csv = NULL;
    char path[2048];
    report_path(path, "metrics.csv");
    remove(path);
    if (before)
        report_put(path, before);
    if (!T_CHECK(gy_csv_open(&csv, &alloc, path, "step,loss", keep_step, &report_err) == GY_OK))
        return;
    T_CHECK(gy_csv_row(csv, &report_err, "%d,%s", 9, "new") == GY_OK);
    T_CHECK_MSG(report_same(path, after), "keep %d of: %s", (int)keep_step, before ? before : "no file");
    T_CHECK(gy_csv_close(csv, NULL) == GY_OK);
    remove(path);
}

static void report_test_csv(void)
{
    static const char old[] = "step,loss\n1,a\n2,b\n3,c\n10,d\n";
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_csv *csv = NULL;
    char path[2048];
    report_csv_case(NULL, -1, "step,loss\n9,new\n");
    report_csv_case(NULL, 5, "step,loss\n9,new\n");
    report_csv_case(old, -1, "step,loss\n9,new\n");
    report_csv_case(old, 0, "step,loss\n9,new\n");
    report_csv_case(old, 2, "step,loss\n1,a\n2,b\n9,new\n");
    report_csv_case(old, 100, "step,loss\n1,a\n2,b\n3,c\n10,d\n9,new\n");
    report_csv_case("step,loss\n1,a\n2,b", 5, "step,loss\n1,a\n9,new\n");       /* torn by a kill */
    report_csv_case("step,lo", 5, "step,loss\n9,new\n");
    report_csv_case("", 5, "step,loss\n9,new\n");
    report_csv_case("step,loss\nx,a\n\n,\n1,a\n", 5, "step,loss\n1,a\n9,new\n");
    report_path(path, "metrics.csv");
    report_put(path, "step,accuracy\n1,a\n");
    T_CHECK(gy_csv_open(&csv, &alloc, path, "step,loss", 5, &report_err) == GY_E_MISMATCH);
    T_CHECK(strstr(report_err.text, "step,accuracy") && report_same(path, "step,accuracy\n1,a\n"));
    remove(path);
    T_CHECK(gy_csv_open(&csv, &alloc, "/absent-folder/x.csv", "step,loss", 5, &report_err) == GY_E_IO);
}

/* Well-formed enough: tags nest and close, attribute quotes pair, no bare '&', and no text that
 * looks like a number gone wrong. */
static int report_xml(const char *text)
{
    char open[64][32];
    int depth = 0;
    for (const char *at = strchr(text, '<'); at != NULL; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        int quotes = 0;
        if (!end)
            return 0;
        for (const char *c = at; c < end; c++)
            quotes += *c == '"';
        if (quotes % 2 != 0 || depth >= 60)
            return 0;
        if (at[1] == '/') {
            if (depth-- == 0 || strncmp(open[depth], at + 2, strlen(open[depth])) != 0)
                return 0;
        } else if (at[1] != '?' && end[-1] != '/') {
            size_t length = strcspn(at + 1, " >");
            snprintf(open[depth++], 32, "%.*s", (int)length, at + 1);
        }
        at = end + 1;
    }
    for (const char *at = strchr(text, '&'); at != NULL; at = strchr(at + 1, '&'))
        if (at[1] != '#')
            return 0;
    return depth == 0 && !strstr(text, "nan") && !strstr(text, "inf") && !strstr(text, "<script");
}

/* The chart at path, checked as XML and removed; holds every word of `words` (ended by NULL). */
static void report_check_svg(const char *path, const char *const *words)
{
    size_t bytes = 0;
    char *text = report_load(path, &bytes);
    if (!T_CHECK(text != NULL))
        return;
    T_CHECK_MSG(report_xml(text), "%s is not well-formed", path);
    for (; *words != NULL; words++)
        T_CHECK_MSG(strstr(text, *words) != NULL, "%s lacks %s", path, *words);
    free(text);
    remove(path);
}

static int report_write_curve(const char *path)
{
    double x[3000], y[3000], some[30], accuracy[30];
    for (int i = 0; i < 3000; i++) {
        x[i] = i * 5;
        y[i] = 2.3 * exp(-i / 600.0) + 0.25 + 0.05 * sin(i * 1.7);
    }
    for (int i = 0; i < 30; i++) {
        some[i] = (i + 1) * 500;
        accuracy[i] = i == 12 ? (double)NAN : 0.93 - 0.6 * exp(-i / 6.0);
    }
    const struct gy_series series[] = {{"training loss", x, y, 3000, 0},
                                       {"<test> & \"acc\" \x01\xFF", some, accuracy, 30, 1}};
    return gy_svg_curve(path, "resnet20 <on> 'CIFAR' & more", "step", "loss", "accuracy", series, 2, &report_err);
}

static void report_test_curve(void)
{
    static const char *const words[] = {"resnet20 &#60;on&#62; &#39;CIFAR&#39; &#38; more",
                                        "&#60;test&#62; &#38; &#34;acc&#34; ??",
                                        "12k</text>", ">0.9</text>", ">2.5</text>", "accuracy", NULL};
    static const char *const bare[] = {"</svg>", "<title></title>", NULL};
    static const double values[] = {0, (double)NAN, HUGE_VAL, -HUGE_VAL, 1e308, -1e-300, 5};
    char path[2048];
    report_path(path, "curve.svg");
    T_CHECK(report_write_curve(path) == GY_OK);
    report_check_svg(path, words);
    T_CHECK(gy_svg_curve(path, NULL, NULL, NULL, NULL, NULL, 0, &report_err) == GY_OK);
    report_check_svg(path, bare);
    /* one point; two of them; with an infinite neighbour */
    for (size_t i = 0; i < GY_COUNT(values); i++) {
        const double x[2] = {1, 2}, y[2] = {values[i], values[(i + 1) % GY_COUNT(values)]};
        const struct gy_series series[] = {{"a", x, y, 1, 0}, {"b", x, y, 2, 1}, {"c", y, y, 2, 0}, {"d", x, y, 0, 0}};
        T_CHECK(gy_svg_curve(path, NULL, "x", "y", "z", series, 4, &report_err) == GY_OK);
        report_check_svg(path, bare);
    }
    T_CHECK(gy_svg_curve("/absent-folder/x.svg", "t", NULL, NULL, NULL, NULL, 0, &report_err) == GY_E_IO);
}

static void report_test_confusion(void)
{
    static const int64_t counts[] = {90, 10, 0, 1, 99, 0, 0, 0, 0};
    static const char *const names[] = {"cat & dog", NULL, "a name of more than sixteen"};
    static const char *const words[] = {"cat &#38; dog", ">1</text>", ">90</text>", "a name of more t\xE2\x80\xA6",
                                        "189 of 200", "94.5 %", NULL};
    static const char *const bare[] = {"</svg>", NULL};
    static const int32_t sizes[] = {1, 64, 65, 700};
    char path[2048];
    report_path(path, "confusion.svg");
    T_CHECK(gy_svg_confusion(path, "test", counts, 3, names, &report_err) == GY_OK);
    report_check_svg(path, words);
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        int64_t *zero = calloc((size_t)(sizes[i] * sizes[i]), sizeof *zero);
        T_CHECK(zero && gy_svg_confusion(path, NULL, zero, sizes[i], NULL, &report_err) == GY_OK);
        report_check_svg(path, bare);
        free(zero);
    }
    T_CHECK(gy_svg_confusion(path, "t", counts, 0, NULL, &report_err) == GY_E_ARG);
}

int main(int argc, char **argv)
{
    const struct gy_alloc alloc = gy_alloc_default();
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        char path[2048];
        snprintf(path, sizeof path, "%s/curve.svg", argv[2]);
        return report_write_events(argv[2], &alloc) != GY_OK || report_write_curve(path) != GY_OK;
    }
    const char *base = getenv("TMPDIR");
    snprintf(report_folder, sizeof report_folder, "%s/gyre-t_report-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(report_folder)) {
        printf("cannot make %s\n", report_folder);
        return 1;
    }
    report_test_events();
    report_clear_events();
    report_test_csv();
    report_test_curve();
    report_test_confusion();
    T_CHECK(rmdir(report_folder) == 0); /* nothing else was left there */
    T_END("t_report");
}
