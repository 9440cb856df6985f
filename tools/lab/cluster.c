/* SPDX-License-Identifier: MIT */
/* cluster.c: reads cluster files. A line is a property, `name value [value]`, in any order; the
 * last line of a name counts; # begins a comment. Rates are in bytes a second, times in seconds,
 * both with an optional unit of their own: 11.5G, 8us. */
#include "tools/lab/cluster.h"
#include "engine/base/file.h"

#define CLUSTER_FILE_MOST ((size_t)1 << 20)
#define CLUSTER_DEEP 8 /* files that include each other */

enum cluster_kind {
    CLUSTER_COUNT,
    CLUSTER_RATE,
    CLUSTER_NUMBER,
    CLUSTER_PUBLISHED,
    CLUSTER_NOTE,
    CLUSTER_INCLUDE
};
enum cluster_unit { CLUSTER_PLAIN, CLUSTER_BYTES, CLUSTER_SECONDS };
struct cluster_row {
    const char *name;
    enum cluster_kind kind;
    enum cluster_unit unit, then; /* of the first value, of the second */
    size_t first, second; /* offsets in struct gy_cluster_file; second 0: one value. Rates are
                           * followed by a latency, bursts by a rate */
};
#define CLUSTER_AT(field) offsetof(struct gy_cluster_file, net.field)
static const struct cluster_row cluster_rows[] = {
    { "hosts", CLUSTER_COUNT, 0, 0, CLUSTER_AT(hosts), 0 },
    { "ranks-per-host", CLUSTER_COUNT, 0, 0, CLUSTER_AT(ranks_per_host), 0 },
    { "hosts-per-rack", CLUSTER_COUNT, 0, 0, CLUSTER_AT(hosts_per_rack), 0 },
    { "inside", CLUSTER_RATE, CLUSTER_BYTES, CLUSTER_SECONDS, CLUSTER_AT(inside_rate),
      CLUSTER_AT(inside_latency) },
    { "nic", CLUSTER_RATE, CLUSTER_BYTES, CLUSTER_SECONDS, CLUSTER_AT(nic_rate),
      CLUSTER_AT(nic_latency) },
    { "burst", CLUSTER_RATE, CLUSTER_BYTES, CLUSTER_BYTES, CLUSTER_AT(burst), CLUSTER_AT(peak) },
    { "rack", CLUSTER_RATE, CLUSTER_BYTES, CLUSTER_SECONDS, CLUSTER_AT(rack_rate),
      CLUSTER_AT(rack_latency) },
    { "add", CLUSTER_NUMBER, CLUSTER_BYTES, 0, CLUSTER_AT(add_rate), 0 },
    { "overhead", CLUSTER_NUMBER, CLUSTER_SECONDS, 0, CLUSTER_AT(overhead), 0 },
    { "noise", CLUSTER_NUMBER, 0, 0, CLUSTER_AT(noise), 0 },
    { "skew", CLUSTER_NUMBER, CLUSTER_SECONDS, 0, CLUSTER_AT(skew), 0 },
    { "compute", CLUSTER_NUMBER, CLUSTER_SECONDS, 0, CLUSTER_AT(compute), 0 },
    { "backward", CLUSTER_NUMBER, 0, 0, CLUSTER_AT(backward), 0 },
    { "batch", CLUSTER_COUNT, 0, 0, offsetof(struct gy_cluster_file, batch), 0 },
    { "published", CLUSTER_PUBLISHED, 0, 0, 0, 0 },
    { "note", CLUSTER_NOTE, 0, 0, 0, 0 },
    { "include", CLUSTER_INCLUDE, 0, 0, 0, 0 },
};
static const struct {
    const char *text;
    enum cluster_unit unit;
    double factor;
} cluster_units[] = {
    { "k", CLUSTER_BYTES, 1e3 }, { "M", CLUSTER_BYTES, 1e6 }, { "G", CLUSTER_BYTES, 1e9 },
    { "ns", CLUSTER_SECONDS, 1e-9 }, { "us", CLUSTER_SECONDS, 1e-6 },
    { "ms", CLUSTER_SECONDS, 1e-3 }, { "s", CLUSTER_SECONDS, 1 },
};

struct cluster_text {
    const char *at, *end, *line, *name;
    int number;
    struct gy_error *err;
    const struct cluster_text *outer; /* file that includes this one, or NULL */
};

static int cluster_bad(const struct cluster_text *t, const char *what)
{
    return GY_FAIL(t->err, GY_E_FORMAT, "%s:%d:%d: %s", t->name, t->number, (int)(t->at - t->line) + 1, what);
}

/* The next word of the line, or 0 bytes at its end or at a comment. */
static size_t cluster_word(struct cluster_text *t, const char **word)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\r'))
        t->at++;
    const char *from = t->at, *to = from;
    while (to < t->end && *to != ' ' && *to != '\t' && *to != '\r' && *to != '\n' && *to != '#')
        to++;
    *word = from;
    return (size_t)(to - from);
}

/* The factor of a value's unit, `bytes` of text; 0: it has no such unit. */
static double cluster_factor(const char *text, size_t bytes, enum cluster_unit unit)
{
    for (size_t i = 0; i < GY_COUNT(cluster_units); i++)
        if (cluster_units[i].unit == unit && strlen(cluster_units[i].text) == bytes &&
            memcmp(cluster_units[i].text, text, bytes) == 0)
            return cluster_units[i].factor;
    return bytes == 0;
}

static int cluster_number(struct cluster_text *t, enum cluster_unit unit, double *out)
{
    const char *word;
    char text[32];
    const size_t bytes = cluster_word(t, &word);
    size_t digits = 0;
    while (digits < bytes && word[digits] && strchr(digits ? "0123456789.e-+" : "0123456789.", word[digits]))
        digits++;
    if (digits == 0 || bytes >= sizeof text)
        return cluster_bad(t, "a number is missing here");
    memcpy(text, word, digits);
    text[digits] = 0;
    if (gy_text_real(text, 0, 1e18, out) != 0)
        return cluster_bad(t, "this is no number");
    const double factor = cluster_factor(word + digits, bytes - digits, unit);
    if (factor == 0)
        return cluster_bad(t, "this unit is not known here; bytes and rates take k, M, G, and times ns, us, ms, s");
    *out *= factor;
    t->at = word + bytes;
    return GY_OK;
}

static int cluster_published(struct cluster_text *t, struct gy_cluster_file *out)
{
    double ranks, efficiency;
    GY_TRY(cluster_number(t, CLUSTER_PLAIN, &ranks));
    GY_TRY(cluster_number(t, CLUSTER_PLAIN, &efficiency));
    if (ranks < 1 || ranks > GY_NET_RANKS_MOST || ranks != floor(ranks) || efficiency > 1)
        return cluster_bad(t, "published has ranks, 1 to 4096, and an efficiency of at most 1");
    if (out->published_count == GY_CLUSTER_PUBLISHED)
        return cluster_bad(t, "at most 12 published efficiencies are taken");
    out->published[out->published_count].ranks = (int)ranks;
    out->published[out->published_count++].efficiency = efficiency;
    return GY_OK;
}

/* The rest of the line. */
static int cluster_note(struct cluster_text *t, struct gy_cluster_file *out)
{
    const char *word;
    const size_t used = strlen(out->notes);
    cluster_word(t, &word);
    const size_t bytes = (size_t)(t->end - word);
    if (used + bytes + 2 > sizeof out->notes)
        return cluster_bad(t, "the notes are too long");
    memcpy(out->notes + used, word, bytes);
    memcpy(out->notes + used + bytes, "\n", 2);
    t->at = t->end;
    return GY_OK;
}

static int cluster_lines(struct cluster_text *t, const char *text, size_t bytes,
                         struct gy_cluster_file *out);

/* A file that is being read already, here or further out, would be read for ever. */
static int cluster_include(struct cluster_text *t, struct gy_cluster_file *out)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const char *word, *slash = strrchr(t->name, '/');
    char path[1024], *text;
    const size_t length = cluster_word(t, &word);
    size_t bytes;
    int deep = 0;
    if (length == 0 || length > 500)
        return cluster_bad(t, "the name of a file is missing here");
    snprintf(path, sizeof path, "%.*s%.*s",
             word[0] != '/' && slash && slash - t->name < 500 ? (int)(slash - t->name) + 1 : 0,
             t->name, (int)length, word);
    for (const struct cluster_text *at = t; at; at = at->outer, deep++)
        if (deep == CLUSTER_DEEP)
            return GY_FAIL(t->err, GY_E_FORMAT, "%s:%d:%d: more than %d files include each other, "
                           "in a chain or a loop", t->name, t->number, (int)(word - t->line) + 1,
                           CLUSTER_DEEP);
        else if (strcmp(at->name, path) == 0)
            return GY_FAIL(t->err, GY_E_FORMAT, "%s:%d:%d: the file includes itself in a loop of "
                           "%d", t->name, t->number, (int)(word - t->line) + 1, deep + 1);
    t->at = word + length;
    GY_TRY(gy_file_read(&alloc, path, CLUSTER_FILE_MOST, &text, &bytes, t->err));
    struct cluster_text inner = {
        .at = text, .name = path, .number = 1, .err = t->err, .outer = t
    };
    const int status = cluster_lines(&inner, text, bytes, out);
    gy_alloc_free(&alloc, text, bytes + 1);
    return status;
}

static int cluster_fill(struct cluster_text *t, const struct cluster_row *row,
                        struct gy_cluster_file *out)
{
    if (row->kind == CLUSTER_PUBLISHED)
        return cluster_published(t, out);
    if (row->kind == CLUSTER_NOTE)
        return cluster_note(t, out);
    if (row->kind == CLUSTER_INCLUDE)
        return cluster_include(t, out);
    double first, second = 0;
    unsigned char *place = (unsigned char *)out;
    GY_TRY(cluster_number(t, row->unit, &first));
    if (row->kind == CLUSTER_RATE)
        GY_TRY(cluster_number(t, row->then, &second));
    if (row->kind == CLUSTER_COUNT && (first < 1 || first > GY_NET_RANKS_MOST || first != floor(first)))
        return cluster_bad(t, "this must be a whole number from 1 to 4096");
    const int counts = row->kind == CLUSTER_COUNT, count = counts ? (int)first : 0;
    memcpy(place + row->first, counts ? (const void *)&count : (const void *)&first, counts ? sizeof count : sizeof first);
    if (row->second != 0)
        memcpy(place + row->second, &second, sizeof second);
    return GY_OK;
}

static int cluster_line(struct cluster_text *t, struct gy_cluster_file *out)
{
    const char *word;
    const size_t bytes = cluster_word(t, &word);
    if (bytes == 0)
        return GY_OK;
    for (size_t i = 0; i < GY_COUNT(cluster_rows); i++)
        if (strlen(cluster_rows[i].name) == bytes && memcmp(cluster_rows[i].name, word, bytes) == 0) {
            t->at = word + bytes;
            GY_TRY(cluster_fill(t, &cluster_rows[i], out));
            return cluster_word(t, &word) == 0 ? GY_OK : cluster_bad(t, "the line goes on");
        }
    return cluster_bad(t, "this property is not known");
}

static int cluster_lines(struct cluster_text *t, const char *text, size_t bytes,
                         struct gy_cluster_file *out)
{
    for (const char *at = text, *last = text + bytes; at < last; t->number++) {
        const char *newline = memchr(at, '\n', (size_t)(last - at));
        t->at = t->line = at;
        t->end = newline ? newline : last;
        GY_TRY(cluster_line(t, out));
        at = t->end + 1;
    }
    t->at = t->line = text;
    return GY_OK;
}

GY_INT int gy_cluster_parse(struct gy_cluster_file *out, const char *text, size_t bytes,
                            const char *name, struct gy_error *err)
{
    struct cluster_text t = { .at = text, .name = name, .number = 1, .err = err };
    struct gy_cluster_file file = { .net = {
                                        .hosts = 1, .ranks_per_host = 1, .backward = 2.0 / 3 } };
    const struct gy_net_cluster *c = &file.net;
    GY_TRY(cluster_lines(&t, text, bytes, &file));
    if ((int64_t)c->hosts * c->ranks_per_host > GY_NET_RANKS_MOST)
        return cluster_bad(&t, "the hosts have more than 4096 ranks together");
    if (c->inside_rate <= 0 || (c->hosts > 1 && c->nic_rate <= 0) ||
        (c->hosts_per_rack > 0 && c->rack_rate <= 0))
        return cluster_bad(&t, "a rate is missing: inside, nic with several hosts, rack with hosts-per-rack");
    if (c->backward > 1)
        return cluster_bad(&t, "backward is a part of compute: at most 1");
    if (c->burst > 0 && c->peak <= c->nic_rate)
        return cluster_bad(&t, "the rate of burst, while it lasts, must be above nic's");
    *out = file;
    return GY_OK;
}

GY_INT int gy_cluster_read(struct gy_cluster_file *out, const char *path, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *text = NULL;
    size_t bytes = 0;
    GY_TRY(gy_file_read(&alloc, path, CLUSTER_FILE_MOST, &text, &bytes, err));
    int status = gy_cluster_parse(out, text, bytes, path, err);
    gy_alloc_free(&alloc, text, bytes + 1);
    if (status == GY_OK && !(out->net.compute > 0))
        status = GY_FAIL(err, GY_E_FORMAT, "%s: compute is missing: the seconds of a step", path);
    return status;
}

GY_INT void gy_cluster_dims(struct gy_net_shape *shape, const struct gy_net_cluster *c)
{
    int side = 1;
    for (int k = 1; (int64_t)k * k <= c->hosts; k++)
        side = c->hosts % k == 0 ? k : side;
    const int dims[3] = { c->ranks_per_host, side, c->hosts / side };
    for (int d = 0; d < 3; d++)
        if (dims[d] > 1)
            shape->dims[shape->dim_count++] = dims[d];
    if (shape->dim_count == 0)
        shape->dims[shape->dim_count++] = 1;
}
