/* SPDX-License-Identifier: MIT */
/* choice.c: keeps measurements as a line of text in the cache folder, one file for each pair of
 * host names and transport. A new algorithm takes part in the choice by itself; the rule names a
 * few. */
#include "net/comm/choice.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/file_line.h"
#include "engine/base/hash.h"

#define CHOICE_DAY 86400.0

struct choice_word { /* of the leader, to all */
    int32_t known, none;
    struct gy_net_choice choice;
};

static int choice_path(const char *transport, const struct gy_net_identity *a, const struct gy_net_identity *b, char *path, size_t room)
{
    struct gy_sha256 sha;
    unsigned char hash[32];
    char hex[65], name[64];
    gy_sha256_open(&sha);
    gy_sha256_add(&sha, transport, strlen(transport) + 1);
    gy_sha256_add(&sha, a->name, sizeof a->name);
    gy_sha256_add(&sha, b->name, sizeof b->name);
    gy_sha256_close(&sha, hash);
    gy_sha256_hex(hash, hex);
    snprintf(name, sizeof name, "net-%.16s.txt", hex);
    return gy_file_cache(path, room, name);
}

/* "seconds-since-1970 latency rate add" */
static int choice_recall(const char *path, struct gy_net_costs *costs)
{
    char line[160];
    double v[4];
    const double now = gy_clock_wall();
    if (gy_text_reals(gy_file_line(path, line, sizeof line), v, 4) != 4 || v[0] > now || v[0] < now - CHOICE_DAY)
        return 0;
    *costs = (struct gy_net_costs){ .latency = v[1], .rate = v[2], .add = v[3] };
    return v[1] > 0 && v[2] > 0 && v[3] > 0;
}

static void choice_keep(const char *path, const struct gy_net_costs *c)
{
    struct gy_outfile out;
    char line[160], folder[4096];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    const int bytes = gy_text_print(line, sizeof line, "%.0f %.9g %.9g %.9g\n", gy_clock_wall(),
                                    c->latency, c->rate, c->add);
    if (gy_file_make_folder(folder, NULL) != GY_OK || gy_outfile_open(&out, path, NULL) != GY_OK)
        return;
    if (gy_outfile_write(&out, line, (size_t)bytes, NULL) == GY_OK)
        gy_outfile_commit(&out, NULL);
    gy_outfile_abandon(&out);
}

/* One word of the leader to all. */
static int choice_spread(struct choice_word *word, struct gy_net_boot *boot, int ranks, int leader, const struct gy_alloc *alloc,
                         struct gy_error *err)
{
    struct choice_word *const all = gy_alloc_take(alloc, (size_t)ranks, sizeof *all);
    if (!all)
        return GY_NOMEM(err, "the choice of algorithms", (size_t)ranks * sizeof *all);
    const int status = gy_net_boot_gather(boot, word, sizeof *word, all, err);
    *word = all[leader];
    gy_alloc_free(alloc, all, (size_t)ranks * sizeof *all);
    return status;
}

GY_INT const char *gy_net_choice_rule(const struct gy_net_topology *t, const struct gy_net_transport *transport, int many)
{
    if (!many)
        return "doubling:1";
    if (t->dim_count <= 1 && (t->hosts & (t->hosts - 1)) == 0)
        return transport->lanes == 1 ? "halving:1" : "halving:2";
    return t->dim_count > 1 ? "multihalving:2" : "ring:2";
}

/* Where nothing can be chosen, the rule's stays. */
static void choice_choose(struct gy_net_choice *c, const struct gy_net_topology *t, const struct gy_net_transport *transport, int fastest,
                          const struct gy_alloc *alloc)
{
    struct gy_net_shape shape = { .ranks = t->hosts, .lanes = 1, .dim_count = t->dim_count };
    struct gy_error why;
    const double piece = (double)gy_min64(transport->piece * t->hosts, GY_NET_PIECE_MOST) * sizeof(float);
    memcpy(shape.dims, t->dims, sizeof shape.dims);
    c->costs.lanes = transport->lanes;
    for (int many = 0; many < 2; many++)
        (void)gy_net_cost_choose(&c->costs, &shape, fastest ? NULL : gy_net_choice_rule(t, transport, many),
                                 many ? piece : GY_NET_CHOICE_FEW, many ? c->many : c->few, sizeof c->few, NULL, alloc, &why);
}

GY_INT int gy_net_choice_make(struct gy_net_choice *out, struct gy_net_boot *boot, const struct gy_net_end *end,
                              const struct gy_net_topology *t, const struct gy_net_identity *all, int fastest, const struct gy_alloc *alloc,
                              struct gy_error *err)
{
    struct choice_word word;
    char path[4096] = "";
    memset(&word, 0, sizeof word);
    snprintf(word.choice.few, sizeof word.choice.few, "%s", gy_net_choice_rule(t, end->transport, 0));
    snprintf(word.choice.many, sizeof word.choice.many, "%s", gy_net_choice_rule(t, end->transport, 1));
    *out = word.choice;
    if (t->hosts < 2 || t->hosts > GY_NET_COST_HOSTS)
        return GY_OK;
    const int leader = t->member[t->first[0]], other = t->member[t->first[1]], leads = end->rank == leader;
    if (leads && choice_path(end->transport->name, &all[leader], &all[other], path, sizeof path) == 0)
        word.known = choice_recall(path, &word.choice.costs);
    GY_TRY(choice_spread(&word, boot, end->ranks, leader, alloc, err));
    if (!word.known && (leads || end->rank == other))
        GY_TRY(gy_net_cost_measure(&word.choice.costs, end, leads ? other : leader, leads, alloc, err));
    if (leads && !word.known && path[0] != 0)
        choice_keep(path, &word.choice.costs);
    if (leads)
        choice_choose(&word.choice, t, end->transport, fastest, alloc);
    GY_TRY(choice_spread(&word, boot, end->ranks, leader, alloc, err));
    *out = word.choice;
    return GY_OK;
}
