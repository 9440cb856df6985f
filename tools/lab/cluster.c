/* SPDX-License-Identifier: MIT */
/* Cluster files: a line for each property, `name value [value]`, in any order; # begins a comment. Rates in bytes a second, times in
 * seconds, both with an optional unit: 11.5G, 8us. */
#include "tools/lab/cluster.h"

enum cluster_kind { CLUSTER_COUNT, CLUSTER_RATE, CLUSTER_NUMBER };
struct cluster_row {
    const char *name;
    enum cluster_kind kind;
    size_t first, second; /* offsets in struct gy_net_cluster; second 0: one value. Rates are followed by a latency,
                             * bursts by a rate */
};
#define CLUSTER_AT(field) offsetof(struct gy_net_cluster, field)
static const struct cluster_row cluster_rows[] = {
    {"hosts", CLUSTER_COUNT, CLUSTER_AT(hosts), 0},
    {"ranks-per-host", CLUSTER_COUNT, CLUSTER_AT(ranks_per_host), 0},
    {"hosts-per-rack", CLUSTER_COUNT, CLUSTER_AT(hosts_per_rack), 0},
    {"inside", CLUSTER_RATE, CLUSTER_AT(inside_rate), CLUSTER_AT(inside_latency)},
    {"nic", CLUSTER_RATE, CLUSTER_AT(nic_rate), CLUSTER_AT(nic_latency)},
    {"burst", CLUSTER_RATE, CLUSTER_AT(burst), CLUSTER_AT(peak)},
    {"rack", CLUSTER_RATE, CLUSTER_AT(rack_rate), CLUSTER_AT(rack_latency)},
    {"add", CLUSTER_NUMBER, CLUSTER_AT(add_rate), 0},
    {"overhead", CLUSTER_NUMBER, CLUSTER_AT(overhead), 0},
    {"noise", CLUSTER_NUMBER, CLUSTER_AT(noise), 0},
    {"skew", CLUSTER_NUMBER, CLUSTER_AT(skew), 0},
    {"compute", CLUSTER_NUMBER, CLUSTER_AT(compute), 0},
    {"backward", CLUSTER_NUMBER, CLUSTER_AT(backward), 0},
};
static const struct {
    const char *unit;
    double factor;
} cluster_units[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

struct cluster_text {
    const char *at, *end, *line, *name;
    int number;
    struct gy_error *err;
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

static int cluster_number(struct cluster_text *t, double *out)
{
    const char *word, *unit;
    char text[32];
    const size_t bytes = cluster_word(t, &word);
    size_t digits = 0;
    while (digits < bytes && (strchr("0123456789.", word[digits]) || ((word[digits] == 'e' || word[digits] == '-') && digits > 0)))
        digits++;
    if (digits == 0 || bytes >= sizeof text)
        return cluster_bad(t, "a number is missing here");
    unit = word + digits;
    memcpy(text, word, digits);
    text[digits] = 0;
    if (gy_text_real(text, 0, 1e18, out) != 0)
        return cluster_bad(t, "this is no number");
    for (size_t i = 0; i < GY_COUNT(cluster_units); i++)
        if (strlen(cluster_units[i].unit) == bytes - digits && memcmp(cluster_units[i].unit, unit, bytes - digits) == 0) {
            *out *= cluster_units[i].factor;
            t->at = word + bytes;
            return GY_OK;
        }
    return cluster_bad(t, "this unit is not known; there are k, M, G, ns, us, ms and s");
}

static int cluster_fill(struct cluster_text *t, const struct cluster_row *row, struct gy_net_cluster *out)
{
    double first, second = 0;
    unsigned char *place = (unsigned char *)out;
    GY_TRY(cluster_number(t, &first));
    if (row->kind == CLUSTER_RATE)
        GY_TRY(cluster_number(t, &second));
    if (row->kind == CLUSTER_COUNT && (first < 1 || first > GY_NET_RANKS_MOST || first != floor(first)))
        return cluster_bad(t, "this must be a whole number from 1 to 4096");
    const int counts = row->kind == CLUSTER_COUNT, count = counts ? (int)first : 0;
    memcpy(place + row->first, counts ? (const void *)&count : (const void *)&first, counts ? sizeof count : sizeof first);
    if (row->second != 0)
        memcpy(place + row->second, &second, sizeof second);
    return GY_OK;
}

static int cluster_line(struct cluster_text *t, struct gy_net_cluster *out)
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

GY_INT int gy_net_cluster_parse(struct gy_net_cluster *out, const char *text, size_t bytes, const char *name, struct gy_error *err)
{
    struct cluster_text t = { .at = text, .name = name, .number = 1, .err = err };
    struct gy_net_cluster c = { .hosts = 1, .ranks_per_host = 1, .backward = 2.0 / 3 };
    for (const char *at = text, *last = text + bytes; at < last; t.number++) {
        const char *newline = memchr(at, '\n', (size_t)(last - at));
        t.at = t.line = at;
        t.end = newline ? newline : last;
        GY_TRY(cluster_line(&t, &c));
        at = t.end + 1;
    }
    t.at = t.line = text;
    if ((int64_t)c.hosts * c.ranks_per_host > GY_NET_RANKS_MOST)
        return cluster_bad(&t, "the hosts have more than 4096 ranks together");
    if (c.inside_rate <= 0 || (c.hosts > 1 && c.nic_rate <= 0) || (c.hosts_per_rack > 0 && c.rack_rate <= 0))
        return cluster_bad(&t, "a rate is missing: inside, nic with several hosts, rack with hosts-per-rack");
    if (c.burst > 0 && c.peak <= c.nic_rate)
        return cluster_bad(&t, "the rate of burst, while it lasts, must be above nic's");
    *out = c;
    return GY_OK;
}
