/* SPDX-License-Identifier: MIT */
/* glm_problem.c: draws problems for linear models, and writes and reads them as text. Hard features
 * come often. These are: columns of very different scales, doubled rows and columns, rows without
 * an entry, classes that a plane separates, weights of 0 and 10,000. */
#include "tests/glm_problem.h"
#include "tests/words.h"
#include "engine/glm/glm_model.h"

const struct gp_row gp_rows[GP_OPTIONS] = {
    [GP_LOSS] = { "loss", 0, NULL /* gy_glm_loss_name */ },
    [GP_L1] = { "l1", 0, NULL },
    [GP_L2] = { "l2", 1, NULL },
    [GP_BIAS] = { "bias", 0, NULL },
    [GP_FREE] = { "free", 0, NULL },
    [GP_NORMALIZE] = { "normalize", 0, NULL },
    [GP_SOFTMAX] = { "softmax", 0, NULL },
    [GP_BALANCED] = { "balanced", 0, NULL },
    [GP_FACTOR] = { "factor", 0, NULL },
    [GP_FACTOR_LABEL] = { "factor-label", 0, NULL },
    [GP_SOLVER] = { "solver", 0, "auto sdca newton l1" },
    [GP_THREADS] = { "threads", 1, NULL },
    [GP_RANKS] = { "ranks", 1, NULL },
    [GP_SOURCE] = { "source", 0, "arrays blocks streamed" },
    [GP_BLOCK] = { "block", 0, NULL },
    [GP_FOLDER] = { "folder", 0, NULL },
    [GP_BEFORE] = { "before", 0, NULL },
    [GP_STOP] = { "stop", 0, NULL },
    [GP_GAP] = { "gap", 1e-4, NULL },
    [GP_TARGET] = { "target", 0, NULL },
    [GP_VALIDATION] = { "validation", 0, NULL },
    [GP_EPOCHS] = { "epochs", 1000, NULL },
    [GP_EVERY] = { "every", 0, NULL },
    [GP_ORDER] = { "order", 1, NULL },
    [GP_SECONDS] = { "seconds", 0, NULL },
    [GP_VERIFY] = { "verify", 0, NULL },
};

int gp_on(const struct gp_case *c, int option) { return c->option[option] > 0; }
int gp_has_words(int option) { return option == GP_LOSS || gp_rows[option].words; }
int gp_has(float x) { return x < 0 || x > 0 || signbit(x); }

int gp_classes(const struct gp_case *c, float *label)
{
    int count = 0;
    for (int i = 0; i < c->rows; i++) {
        int at = 0;
        while (at < count && label[at] < c->label[i])
            at++;
        if (at < count && label[at] <= c->label[i])
            continue;
        if (count == GP_CLASSES)
            return GP_CLASSES + 1;
        memmove(label + at + 1, label + at, (size_t)(count - at) * sizeof *label);
        label[at] = c->label[i];
        count++;
    }
    return count;
}

int gp_models(const struct gp_case *c)
{
    float label[GP_CLASSES + 1];
    const int classes = (int)c->option[GP_LOSS] == GYRE_GLM_SQUARED ? 0 : gp_classes(c, label);
    return classes <= 2 ? 1 : classes;
}

int gp_is_softmax(const struct gp_case *c) { return gp_on(c, GP_SOFTMAX) && gp_models(c) > 1; }

/* ---- drawing ---- */

static int gp_pick(struct random_draw *d, const int *percent, int count)
{
    int at = random_below(d, 100), k = 0;
    while (k + 1 < count && at >= percent[k])
        at -= percent[k++];
    return k;
}

/* Uneven: many small ones. */
static int gp_size(struct random_draw *d, const int *percent, const int *most, int count)
{
    const int k = gp_pick(d, percent, count), least = k ? most[k - 1] + 1 : 0;
    return least + random_below(d, most[k] - least + 1);
}

static double gp_power(struct random_draw *d, double lo, double hi) { return pow(10, random_real(d, lo, hi)); }

/* About normal: the sum of twelve uniform numbers. */
static double gp_normal(struct random_draw *d)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += random_real(d, 0, 1);
    return sum;
}

/* Few digits, so that a text stays short. */
static float gp_short(double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.3g", v);
    return strtof(text, NULL);
}

static void gp_draw_size(struct gp_case *c, struct random_draw *d)
{
    static const int row_percent[] = { 30, 41, 19, 10 }, row_most[] = { 6, 40, 150, GP_ROWS };
    static const int feature_percent[] = { 3, 33, 47, 14, 3 }, feature_most[] = { 0, 5, 30, 100, GP_FEATURES };
    c->rows = gp_size(d, row_percent, row_most, 4);
    c->rows = c->rows > 1 || random_percent(d, 20) ? (c->rows ? c->rows : 1) : 2;
    c->features = gp_size(d, feature_percent, feature_most, 5);
}

static float gp_entry(struct random_draw *d, int kind)
{
    switch (kind) {
    case 0: return 1;
    case 1: return random_percent(d, 50) ? 1.0f : -1.0f;
    case 2: return (float)(random_below(d, 9) - 4);
    default: return gp_short(gp_normal(d));
    }
}

static void gp_draw_rows(struct gp_case *c, struct random_draw *d)
{
    static const int kinds[] = { 15, 15, 15, 55 }, percents[] = { 100, 50, 20, 5 };
    /* problems of many rows are dense: streaming needs many entries */
    const int kind = gp_pick(d, kinds, 4), percent = percents[random_below(d, c->rows > 150 ? 2 : 4)];
    for (int e = 0; e < c->rows * c->features; e++)
        c->x[e] = random_percent(d, percent) ? gp_entry(d, kind) : 0;
}

/* None, each column its own, all the same, one of them. */
static void gp_draw_scales(struct gp_case *c, struct random_draw *d)
{
    static const int kinds[] = { 52, 12, 12, 12, 12 };
    const int kind = gp_pick(d, kinds, 5), one = c->features ? random_below(d, c->features) : 0;
    const double all = gp_power(d, -6, 6);
    for (int j = 0; j < c->features && kind; j++) {
        const double own = gp_power(d, kind == 1 ? -6 : -2, kind == 1 ? 6 : 2), scale = kind == 3 ? all : kind == 4 ? (j == one ? all : 1) : own;
        for (int i = 0; i < c->rows; i++)
            c->x[i * c->features + j] = gp_short((double)c->x[i * c->features + j] * scale);
    }
}

static void gp_draw_doubles(struct gp_case *c, struct random_draw *d)
{
    const size_t row = (size_t)c->features * sizeof *c->x;
    for (int n = random_percent(d, 25) ? c->rows / 2 : 0; n > 0; n--) /* rows */
        memcpy(c->x + random_below(d, c->rows) * c->features, c->x, row);
    for (int n = random_percent(d, 25) ? c->features / 2 : 0; n > 0; n--) { /* columns */
        const int from = random_below(d, c->features), to = random_below(d, c->features);
        for (int i = 0; i < c->rows; i++)
            c->x[i * c->features + to] = c->x[i * c->features + from];
    }
    for (int n = random_percent(d, 20) ? 1 + c->rows / 5 : 0; n > 0; n--) /* empty */
        memset(c->x + random_below(d, c->rows) * c->features, 0, row);
    if (random_percent(d, 3)) /* all */
        memset(c->x, 0, (size_t)c->rows * row);
    for (int n = random_percent(d, 5) && c->features ? 3 : 0; n > 0; n--) /* an entry that is 0 */
        c->x[random_below(d, c->rows * c->features)] = -0.0f;
}

/* Scores of planted weights, of size 1 about. */
static double gp_score(const struct gp_case *c, int i, uint64_t seed)
{
    struct random_draw d = { seed };
    double sum = 0, size = 0;
    for (int j = 0; j < c->features; j++) {
        const double x = (double)c->x[i * c->features + j], w = gp_normal(&d);
        sum += x * w;
        size += x * x;
    }
    return size > 0 ? sum / sqrt(size) : 0;
}

static void gp_draw_labels(struct gp_case *c, struct random_draw *d)
{
    static const float pairs[][2] = { { -1, 1 }, { 0, 1 }, { 3, 7 }, { -1, 1 } };
    const int loss = (int)c->option[GP_LOSS], pair = random_below(d, 4);
    const int several = loss != GYRE_GLM_SQUARED && random_percent(d, loss == GYRE_GLM_LOGISTIC ? 35 : 15);
    const int classes = 3 + random_below(d, GP_CLASSES - 3), one = random_percent(d, 2), random = random_percent(d, 20);
    const uint64_t planted = random_word(d);
    const double noise = random_percent(d, 30) ? 0 : 0.5, size = random_percent(d, 70) ? 1 : gp_power(d, -3, 3);
    for (int i = 0; i < c->rows; i++) {
        const double score = (random ? 0 : gp_score(c, i, planted)) + (random ? 1 : noise) * gp_normal(d);
        int class = (int)floor((score + 2) / 4 * classes);
        class = class < 0 ? 0 : class >= classes ? classes - 1 : class;
        c->label[i] = loss == GYRE_GLM_SQUARED ? gp_short(score * size) : several ? (float)(class + 1) : pairs[pair][score > 0 && !one];
    }
    float label[GP_CLASSES + 1];
    const int i = random_below(d, c->rows);
    if (loss != GYRE_GLM_SQUARED && !one && gp_classes(c, label) == 1) /* by chance */
        c->label[i] = several ? c->label[i] + 1 : pairs[pair][c->label[i] <= pairs[pair][0]];
}

static void gp_draw_weights(struct gp_case *c, struct random_draw *d)
{
    static const float some[] = { 0, 1, 1, 0.5f, 3, 10000 };
    const int kinds = random_percent(d, 70) ? 0 : 1 + random_below(d, 3);
    c->weighted = kinds > 0;
    for (int i = 0; i < c->rows; i++)
        c->weight[i] = kinds == 1 ? some[random_below(d, 6)] : kinds == 2 ? gp_short(random_real(d, 0, 2)) : kinds == 3 ? gp_short(gp_power(d, -3, 4)) : 1;
}

static void gp_draw_penalty(struct gp_case *c, struct random_draw *d)
{
    static const int kinds[] = { 66, 15, 18, 1 }; /* l2, l1, both, none */
    const int hinge = (int)c->option[GP_LOSS] == GYRE_GLM_HINGE && random_percent(d, 90), drawn = gp_pick(d, kinds, 4);
    const int kind = hinge && drawn % 2 ? 0 : drawn; /* l1 alone fits no solver of the hinge loss */
    c->option[GP_L2] = kind == 1 || kind == 3 ? 0 : random_percent(d, 30) ? 1 : (double)gp_short(gp_power(d, -6, 4));
    c->option[GP_L1] = kind == 0 || kind == 3 ? 0 : random_percent(d, 30) ? 1 : (double)gp_short(gp_power(d, -4, 2));
    if (random_percent(d, 40))
        c->option[GP_BIAS] = random_percent(d, 60) ? 1 : (double)gp_short(gp_power(d, -2, 2));
    c->option[GP_FREE] = random_percent(d, !gp_on(c, GP_BIAS) ? 1 : hinge ? 0 : 35);
    c->option[GP_NORMALIZE] = random_percent(d, 15);
}

static void gp_draw_classes(struct gp_case *c, struct random_draw *d)
{
    static const float factors[] = { 0.1f, 2, 10, 10000 };
    const int fits = (int)c->option[GP_LOSS] == GYRE_GLM_LOGISTIC && !gp_on(c, GP_L1);
    c->option[GP_SOFTMAX] = random_percent(d, gp_models(c) == 1 ? 5 : fits ? 70 : 3);
    c->option[GP_BALANCED] = random_percent(d, 10);
    if (random_percent(d, 15)) {
        c->option[GP_FACTOR] = (double)factors[random_below(d, 4)];
        c->option[GP_FACTOR_LABEL] = (double)c->label[random_below(d, c->rows)];
    }
}

/* The solver: any, but one that fits more often than not. */
static int gp_draw_solver(const struct gp_case *c, struct random_draw *d)
{
    const int any = random_below(d, 4), fits = gp_on(c, GP_L1) ? GP_L1_SOLVER : random_percent(d, 50) ? GP_SDCA : GP_NEWTON;
    if (gp_is_softmax(c))
        return random_percent(d, 95) ? GP_AUTO : any;
    return random_percent(d, 45) ? GP_AUTO : random_percent(d, 80) ? fits : gp_on(c, GP_L2) && random_percent(d, 80) ? GP_SDCA : any;
}

static int gp_entries(const struct gp_case *c)
{
    int count = 0;
    for (int e = 0; e < c->rows * c->features; e++)
        count += gp_has(c->x[e]);
    return count;
}

static void gp_draw_run(struct gp_case *c, struct random_draw *d)
{
    static const int sources[] = { 20, 8, 72 };
    /* each block takes at least a page of the window's memory */
    const int entries = gp_entries(c), streams = entries > 700 && c->rows > 20;
    c->option[GP_SOLVER] = gp_draw_solver(c, d);
    c->option[GP_THREADS] = random_percent(d, 60) ? 1 : 2 + random_below(d, 2);
    c->option[GP_RANKS] = random_percent(d, entries ? 85 : 60) ? 1 : 2;
    /* text files hold no weights of rows */
    c->option[GP_SOURCE] = c->weighted ? GP_ARRAYS : gp_pick(d, sources, streams ? 3 : 2);
    c->option[GP_BLOCK] = gp_on(c, GP_SOURCE) ? 1 + random_below(d, 1 + c->rows / (streams ? 8 : 3)) : 0;
    c->option[GP_FOLDER] = random_percent(d, c->option[GP_RANKS] > 1 ? 70 : 15);
    c->option[GP_BEFORE] = gp_on(c, GP_FOLDER) && random_percent(d, 20);
    c->option[GP_STOP] = gp_on(c, GP_FOLDER) && random_percent(d, 50) ? 1 + random_below(d, 6) : 0;
    c->option[GP_GAP] = random_percent(d, 40) ? 1e-4 : pow(10, -2 - random_below(d, 5));
    c->option[GP_EPOCHS] = random_percent(d, 85) ? 1000 : 1 + random_below(d, 20);
    c->option[GP_EVERY] = random_percent(d, 90) ? 0 : 1 + random_below(d, 4);
    c->option[GP_ORDER] = random_percent(d, 80) ? 1 : random_below(d, 1000);
    c->option[GP_SECONDS] = random_percent(d, 4) ? gp_power(d, -5, -1) : 0;
    c->option[GP_VERIFY] = random_percent(d, 40);
    c->option[GP_TARGET] = random_percent(d, 5) ? (double)gp_short(gp_power(d, -3, 3)) : 0;
    c->option[GP_VALIDATION] = random_percent(d, 4) ? 1e-3 : 0;
}

void gp_draw(struct gp_case *c, uint64_t seed)
{
    struct random_draw d = { seed * 0x9e3779b97f4a7c15u + 77 };
    memset(c, 0, sizeof *c);
    for (int k = 0; k < GP_OPTIONS; k++)
        c->option[k] = gp_rows[k].plain;
    c->option[GP_LOSS] = random_below(&d, GY_GLM_LOSSES);
    gp_draw_size(c, &d);
    gp_draw_rows(c, &d);
    gp_draw_scales(c, &d);
    gp_draw_doubles(c, &d);
    gp_draw_labels(c, &d);
    gp_draw_weights(c, &d);
    gp_draw_penalty(c, &d);
    gp_draw_classes(c, &d);
    gp_draw_run(c, &d);
    /* The exact optimum of a large problem takes long if it has edges or several classes at once.
     * Most of these problems are drawn again, smaller. */
    if ((gp_on(c, GP_L1) || (int)c->option[GP_LOSS] == GYRE_GLM_HINGE || gp_is_softmax(c)) && (int64_t)c->rows * c->features > 3000 && seed % 8 > 0)
        gp_draw(c, seed + 0x100000000u);
}

/* ---- text ---- */

/* Word number n of those that an option has. */
static int gp_word(int option, int n, char *word, size_t room)
{
    const char *words = option == GP_LOSS ? gy_glm_loss_name(n) : gp_rows[option].words;
    for (int left = option == GP_LOSS ? 0 : n; left > 0 && words; left--)
        words = strchr(words, ' ') ? strchr(words, ' ') + 1 : NULL;
    if (!words)
        return 0;
    snprintf(word, room, "%.*s", (int)strcspn(words, " "), words);
    return 1;
}

void gp_options(const struct gp_case *c, char *text, size_t room)
{
    struct words w = { text, room };
    char word[24];
    words_put(&w, "features=%d", c->features);
    for (int k = 0; k < GP_OPTIONS; k++) {
        if (!(c->option[k] < gp_rows[k].plain || c->option[k] > gp_rows[k].plain))
            continue;
        if (gp_word(k, (int)c->option[k], word, sizeof word))
            words_put(&w, " %s=%s", gp_rows[k].name, word);
        else
            words_put(&w, " %s=%.9g", gp_rows[k].name, c->option[k]);
    }
}

static void gp_put_row(struct words *w, const struct gp_case *c, int i, int weighted)
{
    words_put(w, "%.9g", (double)c->label[i]);
    if (weighted)
        words_put(w, "*%.9g", (double)c->weight[i]);
    for (int j = 0; j < c->features; j++)
        if (gp_has(c->x[i * c->features + j]))
            words_put(w, " %d:%.9g", j + 1, (double)c->x[i * c->features + j]);
}

void gp_print(const struct gp_case *c, char *text, size_t room)
{
    gp_options(c, text, room);
    struct words w = { text + strlen(text), room - strlen(text) };
    for (int i = 0; i < c->rows; i++) {
        words_put(&w, " | ");
        gp_put_row(&w, c, i, c->weighted);
    }
}

void gp_svmlight(const struct gp_case *c, FILE *file)
{
    static char line[GP_WIDTH * 32];
    for (int i = 0; i < c->rows; i++) {
        struct words w = { line, sizeof line };
        gp_put_row(&w, c, i, 0);
        fprintf(file, "%s\n", line);
    }
}

void gp_command(const struct gp_case *c, char *text, size_t room)
{
    static const struct {
        int option, value;
        const char *word;
    } rows[] = { { GP_LOSS, 1, "--loss" },           { GP_L1, 1, "--l1" },       { GP_L2, 1, "--l2" },         { GP_BIAS, 1, "-B" },
                 { GP_FREE, 0, "-R" },               { GP_NORMALIZE, 0, "--normalize" }, { GP_SOFTMAX, 0, "--softmax" }, { GP_BALANCED, 0, "--balanced" },
                 { GP_SOLVER, 1, "--solver" },       { GP_GAP, 1, "--gap" },     { GP_TARGET, 1, "--target" }, { GP_EPOCHS, 1, "--epochs" },
                 { GP_EVERY, 1, "--every" },         { GP_ORDER, 1, "--seed" },  { GP_FOLDER, 0, "--out run" } };
    struct words w = { text, room };
    char word[24];
    words_put(&w, "%sgyre glm train d.svm m --format svmlight -m %d", c->option[GP_RANKS] > 1 ? "gyre launch -n 2 " : "", (int)c->option[GP_THREADS]);
    for (size_t k = 0; k < GY_COUNT(rows); k++) {
        const double value = c->option[rows[k].option], plain = gp_rows[rows[k].option].plain;
        if (!(value < plain || value > plain) && rows[k].option != GP_L2)
            continue;
        words_put(&w, " %s", rows[k].word);
        if (rows[k].value && gp_word(rows[k].option, (int)value, word, sizeof word))
            words_put(&w, " %s", word);
        else if (rows[k].value)
            words_put(&w, " %.9g", value);
    }
    if (gp_on(c, GP_FACTOR))
        words_put(&w, " --class-weight %.9g:%.9g", c->option[GP_FACTOR_LABEL], c->option[GP_FACTOR]);
}

static int gp_set(struct gp_case *c, const char *name, const char *value)
{
    char word[24];
    char *end;
    if (strcmp(name, "features") == 0)
        return c->features = (int)strtol(value, &end, 10), *end || c->features < 0 || c->features > GP_FEATURES ? -1 : 0;
    if (strcmp(name, "seed") == 0)
        return gp_draw(c, strtoull(value, &end, 10)), *end ? -1 : 0;
    for (int k = 0; k < GP_OPTIONS; k++) {
        if (strcmp(name, gp_rows[k].name) != 0)
            continue;
        for (int n = 0; gp_word(k, n, word, sizeof word); n++)
            if (strcmp(word, value) == 0)
                return c->option[k] = n, 0;
        c->option[k] = strtod(value, &end);
        return *end || gp_has_words(k) ? -1 : 0;
    }
    return -1;
}

/* label*weight id:value ..., up to '|' or the end. */
static const char *gp_read_row(struct gp_case *c, const char *at)
{
    char *end;
    const int i = c->rows;
    if (i == GP_ROWS)
        return NULL;
    c->label[i] = strtof(at, &end);
    c->weight[i] = 1;
    if (end == at)
        return NULL;
    if (*end == '*') {
        c->weighted = 1;
        c->weight[i] = strtof(end + 1, &end);
    }
    for (at = end + strspn(end, " "); *at && *at != '|'; at = end + strspn(end, " ")) {
        const long id = strtol(at, &end, 10);
        if (end == at || *end != ':' || id < 1 || id > c->features)
            return NULL;
        c->x[i * c->features + id - 1] = strtof(end + 1, &end);
    }
    c->rows++;
    return at;
}

int gp_parse(struct gp_case *c, const char *text, char *why, size_t room)
{
    const char *at = text + strspn(text, " ");
    char name[24], value[40];
    memset(c, 0, sizeof *c);
    for (int k = 0; k < GP_OPTIONS; k++)
        c->option[k] = gp_rows[k].plain;
    for (; *at && *at != '|'; at += strspn(at, " ")) {
        const size_t word = strcspn(at, " |"), split = strcspn(at, "=");
        snprintf(name, sizeof name, "%.*s", (int)(split < word ? split : word), at);
        snprintf(value, sizeof value, "%.*s", (int)(split < word ? word - split - 1 : 0), at + split + 1);
        if (split >= word || gp_set(c, name, value) != 0)
            return snprintf(why, room, "no option '%.60s'", at), -1;
        at += word;
    }
    for (c->rows = *at == '|' ? 0 : c->rows; at && *at == '|';)
        at = gp_read_row(c, at + 1);
    if (!at || c->rows < 1)
        return snprintf(why, room, "row %d is not 'label*weight id:value ...', or there is none", c->rows + 1), -1;
    return 0;
}
