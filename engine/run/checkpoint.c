/* SPDX-License-Identifier: MIT */
/* checkpoint.c: writes and reads checkpoints. One safetensors file has weights under PyTorch's
 * names and layout, then optimiser state under these names with a prefix. Its metadata has
 * counters, the net's text and the caller's notes. Loading first checks everything, then writes: a
 * file that does not fit changes nothing. Programs and engine/train call it. */
#include "engine/run/engine.h"
#include "io/safetensors.h"

#define CKPT_NAME 512
#define CKPT_BATCHES ((int64_t)1 << 53) /* doubles, which rates are made of, are exact so far */

/* A group of tensors in the file: name prefix, region. */
struct ckpt_section {
    const char *prefix;
    int region;
};

static const struct ckpt_section ckpt_weights[] = { { "", GY_AT_PARAM }, { "", GY_AT_STATE } };
static const struct ckpt_section ckpt_training[] = { { "momentum.", GY_AT_OPT1 }, { "second.", GY_AT_OPT2 }, { "ema.", GY_AT_EMA } };
static const struct ckpt_section ckpt_pending[] = { { "grad.", GY_AT_GRAD } };

/* Walks all tensors of some sections. visit gets the full name. */
typedef int (*ckpt_visit)(struct gyre_net *net, void *ctx, int param, int region, const char *name);

/* A prefix's '.' is a ':', which no label has, where the name would be another weight's. */
static size_t ckpt_name(const struct gyre_net *net, const char *prefix, const char *name, char full[CKPT_NAME])
{
    const int bytes = snprintf(full, CKPT_NAME, "%s%s", prefix, name);
    if (prefix[0] && gy_param_named(net, full, 0) >= 0)
        full[strlen(prefix) - 1] = ':';
    return (size_t)bytes;
}

static int ckpt_each(struct gyre_net *net, const struct ckpt_section *sections, size_t count, ckpt_visit visit, void *ctx)
{
    char name[CKPT_NAME];
    for (size_t s = 0; s < count; s++)
        for (int i = 0; i < net->graph.param_count; i++) {
            if (!gy_region_has(net, sections[s].region, i))
                continue;
            if (ckpt_name(net, sections[s].prefix, net->graph.params[i].name, name) >= sizeof name)
                return gy_engine_fail(net, GY_E_NET, "the name of '%.100s...' is longer than %zu bytes", name, sizeof name - 16);
            GY_TRY(visit(net, ctx, i, sections[s].region, name));
        }
    return GY_OK;
}

static int ckpt_each_all(struct gyre_net *net, int everything, int pending, ckpt_visit visit, void *ctx)
{
    GY_TRY(ckpt_each(net, ckpt_weights, GY_COUNT(ckpt_weights), visit, ctx));
    if (everything)
        GY_TRY(ckpt_each(net, ckpt_training, GY_COUNT(ckpt_training), visit, ctx));
    return pending ? ckpt_each(net, ckpt_pending, GY_COUNT(ckpt_pending), visit, ctx) : GY_OK;
}

/* ---- writing ---- */

static int ckpt_declare(struct gyre_net *net, void *ctx, int param, int region, const char *name)
{
    int64_t shape[4];
    (void)region;
    const int dims = gy_param_shape(&net->graph.params[param], shape);
    return gy_st_declare(ctx, name, GY_ST_F32, shape, dims, &net->error);
}

static int ckpt_put(struct gyre_net *net, void *ctx, int param, int region, const char *name)
{
    const struct gy_param *p = &net->graph.params[param];
    (void)name;
    for (int32_t k = 0; k < p->k; k++) {
        GY_TRY(gy_param_read_row(net, param, region, k, net->row2));
        GY_TRY(gy_st_write_f32(ctx, net->row2, gy_param_row_count(p), &net->error));
    }
    return GY_OK;
}

static int ckpt_meta_number(struct gyre_net *net, struct gy_st_writer *w, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return gy_st_add_meta(w, key, text, &net->error);
}

/* The scale as the bits of its float. */
static int ckpt_meta_scale(struct gyre_net *net, struct gy_st_writer *w)
{
    uint32_t bits;
    if (net->config.dtype != GYRE_F16)
        return GY_OK;
    memcpy(&bits, &net->scale.now, sizeof bits);
    GY_TRY(ckpt_meta_number(net, w, "gyre.scale", (int64_t)bits));
    GY_TRY(ckpt_meta_number(net, w, "gyre.scale_good", net->scale.good));
    return ckpt_meta_number(net, w, "gyre.skipped", net->scale.skipped);
}

/* Of gradients that wait for their update. */
static int ckpt_meta_weight(struct gyre_net *net, struct gy_st_writer *w)
{
    char text[32];
    gy_text_print(text, sizeof text, "%.17g", net->weight);
    return net->pending ? gy_st_add_meta(w, "gyre.weight", text, &net->error) : GY_OK;
}

static int ckpt_meta(struct gyre_net *net, struct gy_st_writer *w)
{
    GY_TRY(gy_st_add_meta(w, "format", "pt", &net->error));
    GY_TRY(gy_st_add_meta(w, "gyre.net", net->config.net, &net->error));
    GY_TRY(gy_ckpt_put_input(net, w));
    GY_TRY(ckpt_meta_number(net, w, "gyre.version", GYRE_VERSION));
    GY_TRY(ckpt_meta_number(net, w, "gyre.seed", (int64_t)net->config.seed));
    GY_TRY(ckpt_meta_number(net, w, "gyre.optimizer", net->config.optimizer.kind));
    GY_TRY(ckpt_meta_number(net, w, "gyre.updates", net->updates));
    GY_TRY(ckpt_meta_number(net, w, "gyre.batches", net->micro));
    GY_TRY(ckpt_meta_number(net, w, "gyre.pending", net->pending));
    GY_TRY(ckpt_meta_weight(net, w));
    GY_TRY(ckpt_meta_scale(net, w));
    for (int i = 0; i < net->note_count; i++) {
        char key[160];
        snprintf(key, sizeof key, "note.%s", net->notes[i].key);
        GY_TRY(gy_st_add_meta(w, key, net->notes[i].value, &net->error));
    }
    return GY_OK;
}

/* PyTorch's batch norm also counts batches; without that number it refuses to load strictly. */
static int ckpt_tracked(struct gyre_net *net, struct gy_st_writer *w, int write)
{
    for (int i = 0; i < net->graph.param_count; i++) {
        const struct gy_param *p = &net->graph.params[i];
        char name[512];
        if (p->kind != GY_PARAM_RUN_VAR)
            continue;
        snprintf(name, sizeof name, "%s.num_batches_tracked", net->graph.nodes[p->node].name);
        if (write)
            GY_TRY(gy_st_write_i64(w, &net->micro, 1, &net->error));
        else
            GY_TRY(gy_st_declare(w, name, GY_ST_I64, NULL, 0, &net->error));
    }
    return GY_OK;
}

static int ckpt_fill(struct gyre_net *net, struct gy_st_writer *w, int everything)
{
    const int pending = everything && net->pending > 0;
    if (everything)
        GY_TRY(ckpt_meta(net, w));
    else
        GY_TRY(gy_st_add_meta(w, "format", "pt", &net->error));
    if (!everything) /* first, so that their 8-byte numbers are aligned */
        GY_TRY(ckpt_tracked(net, w, 0));
    GY_TRY(ckpt_each_all(net, everything, pending, ckpt_declare, w));
    if (!everything)
        GY_TRY(ckpt_tracked(net, w, 1));
    return ckpt_each_all(net, everything, pending, ckpt_put, w);
}

GY_INT int gy_ckpt_write(struct gyre_net *net, const char *path, int everything)
{
    struct gy_st_writer *w;
    GY_TRY(gy_st_create(&w, &net->scratch, path, &net->error));
    const int status = ckpt_fill(net, w, everything);
    if (status == GY_OK)
        return gy_st_commit(w, &net->error);
    gy_st_abandon(w);
    return status;
}

GYRE_API int gyre_save(struct gyre_net *net, const char *path)
{
    GY_TRY(gy_engine_given(net, path, "gyre_save: path"));
    GY_TRY(gy_engine_ready(net, "gyre_save", 0));
    if (net->parallel.ranks > 1 && net->pending > 0)
        return gy_engine_fail(net, GY_E_STATE, "gyre_save: each of %d ranks has gradients of its own that wait for their update, of %d of %d batches; "
                              "save behind an update", net->parallel.ranks, net->pending, net->config.accumulate);
    GY_TRY(gy_scale_settle(net));
    return net->pipe ? net->pipe->save(net, path, 1) : gy_ckpt_write(net, path, 1);
}

GYRE_API int gyre_export(struct gyre_net *net, const char *path)
{
    GY_TRY(gy_engine_given(net, path, "gyre_export: path"));
    GY_TRY(gy_engine_ready(net, "gyre_export", 0));
    return net->pipe ? net->pipe->save(net, path, 0) : gy_ckpt_write(net, path, 0);
}

/* ---- reading ---- */

struct ckpt_reader {
    struct gy_st_file *file;
    const char *path;
    int partial, skipped;
    int average; /* for evaluation: averaged weights are read where the file has them */
    int write;   /* 0: only check */
    int alone;   /* weights alone: their averages, where the net has such, become the same */
};

static int ckpt_misfit(struct gyre_net *net, struct ckpt_reader *r, const char *name, const char *why)
{
    if (r->partial) {
        r->skipped += r->write;
        return GY_OK;
    }
    return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: tensor '%.120s' %s", r->path, name, why);
}

/* "[64,3,7,7]", cut where it is longer than text. */
static const char *ckpt_shape(const int64_t *shape, int dims, char text[64])
{
    int used = snprintf(text, 64, "[");
    for (int i = 0; i < dims && used < 64; i++)
        used += snprintf(text + used, 64 - (size_t)used, "%s%" PRId64, i > 0 ? "," : "", shape[i]);
    if (used < 63)
        memcpy(text + used, "]", 2);
    return text;
}

static int ckpt_fits(const struct gy_st_tensor *t, const struct gy_param *p)
{
    int64_t shape[4];
    const int dims = gy_param_shape(p, shape);
    return t->count == p->count && t->dims == dims && memcmp(t->shape, shape, (size_t)dims * sizeof shape[0]) == 0;
}

static int ckpt_row(struct gyre_net *net, struct ckpt_reader *r, const struct gy_st_tensor *t, int param, int region, int32_t k)
{
    const int64_t count = gy_param_row_count(&net->graph.params[param]);
    struct gy_error err;
    const int status = gy_st_read_f32(t, k * count, count, net->row2, &err);
    if (status != GY_OK)
        return gy_engine_fail(net, status, "%.200s: %.240s", r->path, err.text);
    const int overflows = region == GY_AT_GRAD && net->config.dtype == GYRE_F16;
    for (int64_t i = 0; i < count && !overflows; i++) /* the update skips sums that overflow */
        if (!isfinite(net->row2[i]))
            return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: tensor '%.120s' holds %g at element %" PRId64, r->path, t->name,
                                  (double)net->row2[i], k * count + i);
    if (r->write && r->alone && region == GY_AT_PARAM && gy_region_has(net, GY_AT_EMA, param))
        GY_TRY(gy_param_write_row(net, param, GY_AT_EMA, k, net->row2));
    return r->write ? gy_param_write_row(net, param, region, k, net->row2) : GY_OK;
}

static const struct gy_st_tensor *ckpt_find(const struct gyre_net *net, const struct ckpt_reader *r, int region, const char *name)
{
    char average[CKPT_NAME];
    ckpt_name(net, "ema.", name, average);
    const struct gy_st_tensor *t = r->average && region == GY_AT_PARAM ? gy_st_find(r->file, average) : NULL;
    return t ? t : gy_st_find(r->file, name);
}

static int ckpt_take(struct gyre_net *net, void *ctx, int param, int region, const char *name)
{
    struct ckpt_reader *r = ctx;
    const struct gy_param *p = &net->graph.params[param];
    const struct gy_st_tensor *t = ckpt_find(net, r, region, name);
    if (!t)
        return ckpt_misfit(net, r, name, "is missing");
    if (!ckpt_fits(t, p)) {
        char why[160], has[64], wants[64];
        int64_t want[4];
        const int dims = gy_param_shape(p, want);
        snprintf(why, sizeof why, "has shape %s; the net has %s", ckpt_shape(t->shape, t->dims, has),
                 ckpt_shape(want, dims, wants));
        return ckpt_misfit(net, r, name, why);
    }
    for (int32_t k = 0; k < p->k; k++)
        GY_TRY(ckpt_row(net, r, t, param, region, k));
    return GY_OK;
}

static int ckpt_number(struct gyre_net *net, const struct ckpt_reader *r, const char *key, int64_t *value)
{
    const char *text = gy_st_meta(r->file, key);
    if (!text || gy_text_int(text, INT64_MIN, INT64_MAX, value) != 0)
        return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: metadata '%s' is missing or not a number: not a checkpoint of Gyre", r->path, key);
    return GY_OK;
}

struct ckpt_counters {
    int64_t seed, optimizer, updates, batches, pending;
    double weight;
    struct gy_scale scale; /* now 0: the file has none */
};

/* Loss scaling. Sums of gradients that wait for an update are scaled: they need the same scale. */
static int ckpt_scale_read(struct gyre_net *net, const struct ckpt_reader *r, struct ckpt_counters *c)
{
    int64_t bits = 0, good = 0;
    const int half = net->config.dtype == GYRE_F16;
    if (gy_st_meta(r->file, "gyre.scale")) {
        GY_TRY(ckpt_number(net, r, "gyre.scale", &bits));
        GY_TRY(ckpt_number(net, r, "gyre.scale_good", &good));
        GY_TRY(ckpt_number(net, r, "gyre.skipped", &c->scale.skipped));
        const uint32_t word = (uint32_t)bits;
        memcpy(&c->scale.now, &word, sizeof word);
        c->scale.good = (int)good;
        if (bits != word || !(c->scale.now > 0) || !isfinite(c->scale.now) || good < 0 || good > 1000000 || c->scale.skipped < 0 ||
            c->scale.skipped > c->batches - c->updates)
            return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: the loss scale %g, %" PRId64 " and %" PRId64 " cannot be", r->path,
                                  (double)c->scale.now, good, c->scale.skipped);
    }
    if (c->pending > 0 && half != (c->scale.now > 0) && net->config.mode == GYRE_TRAIN)
        return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: gradients wait for their update, with%s a loss scale; this net's dtype is %s", r->path,
                              half ? "out" : "", half ? "f16" : "not f16");
    return GY_OK;
}

/* Files of older versions: all samples had a label. */
static int ckpt_weight_read(struct gyre_net *net, const struct ckpt_reader *r, struct ckpt_counters *c)
{
    const char *text = gy_st_meta(r->file, "gyre.weight");
    const double most = (double)c->pending * net->parallel.shards;
    c->weight = most;
    if (text && (gy_text_real(text, 0, most, &c->weight) != 0 || (c->pending > 0 && c->weight == 0)))
        return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: gradients of %" PRId64 " calls cannot be worth '%.40s' batches", r->path, c->pending, text);
    return GY_OK;
}

static int ckpt_counters_read(struct gyre_net *net, const struct ckpt_reader *r, struct ckpt_counters *c)
{
    GY_TRY(ckpt_number(net, r, "gyre.seed", &c->seed));
    GY_TRY(ckpt_number(net, r, "gyre.optimizer", &c->optimizer));
    GY_TRY(ckpt_number(net, r, "gyre.updates", &c->updates));
    GY_TRY(ckpt_number(net, r, "gyre.batches", &c->batches));
    GY_TRY(ckpt_number(net, r, "gyre.pending", &c->pending));
    if (net->config.mode == GYRE_TRAIN && (uint64_t)c->seed != net->config.seed)
        return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: the run's seed was %" PRIu64 ", this net's is %" PRIu64, r->path,
                              (uint64_t)c->seed, net->config.seed);
    if (net->config.mode == GYRE_TRAIN && c->optimizer != net->config.optimizer.kind)
        return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: the run's optimizer was kind %" PRId64 ", this net's is %d", r->path,
                              c->optimizer, net->config.optimizer.kind);
    if (c->updates < 0 || c->pending < 0 || c->batches > CKPT_BATCHES || c->updates > c->batches ||
        (net->config.mode == GYRE_TRAIN && (c->pending >= net->config.accumulate || c->pending > c->batches - c->updates)))
        return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: counters %" PRId64 ", %" PRId64 ", %" PRId64 " do not fit this net",
                              r->path, c->updates, c->batches, c->pending);
    GY_TRY(ckpt_weight_read(net, r, c));
    return ckpt_scale_read(net, r, c);
}

static int ckpt_load(struct gyre_net *net, struct ckpt_reader *r)
{
    struct ckpt_counters c = { .scale = { 0 } };
    const int train = net->config.mode == GYRE_TRAIN;
    GY_TRY(ckpt_counters_read(net, r, &c));
    GY_TRY(gy_ckpt_check_net(net, r->file, r->path));
    GY_TRY(gy_ckpt_check_input(net, r->file, r->path));
    if (train && c.pending > 0 && net->stage) /* which has kept none of these batches */
        return gy_engine_fail(net, GY_E_STATE, "%.200s was saved amid an update, after %" PRId64
                              " of its batches; a pipeline goes on from behind one", r->path, c.pending);
    if (c.pending > 0 && net->parallel.ranks > 1) /* as older versions wrote it */
        gy_log_write(&net->log, GY_LOG_WARN, "%s: of the gradients that wait for their update it has those of rank 0; they stand for those of all %d ranks",
                     r->path, net->parallel.ranks);
    r->average = !train;
    for (r->write = 0; r->write < 2; r->write++) {
        net->torn = r->write ? GY_TORN_ALL : net->torn;
        GY_TRY(ckpt_each_all(net, train, train && c.pending > 0, ckpt_take, r));
    }
    net->torn = GY_TORN_NOT;
    net->updates = c.updates;
    net->micro = c.batches;
    net->pending = train ? (int)c.pending : 0;
    net->weight = net->pending ? c.weight : 0;
    net->grad_weight = net->weight / net->parallel.shards; /* of this rank, which has one shard */
    gy_scale_open(net);
    if (net->config.dtype == GYRE_F16 && c.scale.now > 0)
        net->scale = c.scale;
    net->uniform.loss_scale = net->scale.now;
    return GY_OK;
}

/* Is a tensor a parameter, its optimiser's state, or PyTorch's unused counter? *at: first guess. */
static int ckpt_knows(const struct gyre_net *net, const char *name, int *at)
{
    static const char *const prefixes[] = { "", "momentum", "second", "ema", "grad" };
    const char *counter = strstr(name, ".num_batches_tracked");
    int param = -1;
    if (counter && !counter[strlen(".num_batches_tracked")])
        return 1;
    for (size_t i = 0; i < GY_COUNT(prefixes) && param < 0; i++) {
        const size_t bytes = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], bytes) == 0 && (i == 0 || name[bytes] == '.' || name[bytes] == ':'))
            param = gy_param_named(net, name + bytes + (i > 0), *at);
    }
    *at = param >= 0 ? param : *at;
    return param >= 0;
}

/* Tensors of the file that the net has no place for: the file is of a larger net. */
static int ckpt_left_over(struct gyre_net *net, const struct ckpt_reader *r)
{
    const char *first = NULL;
    int count = 0, at = 0;
    for (int i = 0; i < gy_st_count(r->file); i++) {
        const char *name = gy_st_at(r->file, i)->name;
        if (ckpt_knows(net, name, &at))
            continue;
        first = first ? first : name;
        count++;
    }
    if (!count)
        return GY_OK;
    if (!r->partial)
        return gy_engine_fail(net, GY_E_MISMATCH, "%.200s: %d of its tensors are not in this net, such as '%.120s'; a partial import leaves them out", r->path,
                              count, first);
    gy_log_write(&net->log, GY_LOG_WARN, "%s: %d of its tensors are not in this net, such as '%.120s': left out", r->path, count, first);
    return GY_OK;
}

static int ckpt_import(struct gyre_net *net, struct ckpt_reader *r)
{
    GY_TRY(ckpt_each_all(net, 0, 0, ckpt_take, r));
    GY_TRY(ckpt_left_over(net, r));
    r->write = 1;
    net->torn = GY_TORN_WEIGHTS;
    GY_TRY(ckpt_each_all(net, 0, 0, ckpt_take, r));
    net->torn = GY_TORN_NOT;
    return GY_OK;
}

/* torn: what a failed read left incomplete and `read` makes whole again. */
static int ckpt_open(struct gyre_net *net, const char *path, struct ckpt_reader *r, int torn,
                     int (*read)(struct gyre_net *, struct ckpt_reader *))
{
    const int was = net->torn;
    net->torn = was == torn ? GY_TORN_NOT : was;
    GY_TRY(gy_engine_ready(net, torn == GY_TORN_ALL ? "gyre_load" : "gyre_import", 0));
    net->torn = was;
    GY_TRY(gy_st_open(&r->file, &net->scratch, path, &net->error));
    r->path = path;
    const int status = read(net, r);
    gy_st_close(r->file);
    return status;
}

GYRE_API int gyre_load(struct gyre_net *net, const char *path)
{
    GY_TRY(gy_engine_given(net, path, "gyre_load: path"));
    struct ckpt_reader r = { 0 };
    return ckpt_open(net, path, &r, GY_TORN_ALL, ckpt_load);
}

GYRE_API int gyre_import(struct gyre_net *net, const char *path, int partial, int *skipped)
{
    GY_TRY(gy_engine_given(net, path, "gyre_import: path"));
    struct ckpt_reader r = { .partial = partial, .alone = 1 };
    GY_TRY(ckpt_open(net, path, &r, GY_TORN_WEIGHTS, ckpt_import));
    if (skipped)
        *skipped = r.skipped;
    return GYRE_OK;
}

/* A metadata text of a file, without a net. */
static int ckpt_text(const char *path, const char *key, char *text, size_t room, size_t *bytes, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_file *file;
    GY_TRY(gy_st_open(&file, &alloc, path, err));
    const char *value = gy_st_meta(file, key);
    int status = GY_OK;
    if (!value)
        status = GY_FAIL(err, GY_E_ARG, "%.200s has no metadata '%.80s'", path, key);
    else if (gy_text_copy(text, room, value) != 0)
        status = GY_FAIL(err, GY_E_ARG, "%.200s: '%.80s' has %zu bytes; there is room for %zu", path, key, strlen(value), room);
    else if (bytes)
        *bytes = strlen(value);
    gy_st_close(file);
    return status;
}

GYRE_API int gyre_read_net(const char *path, char *text, size_t room, size_t *bytes, struct gyre_error *error)
{
    GY_TRY(gy_given(path, "gyre_read_net: path", error));
    GY_TRY(gy_given(text, "gyre_read_net: text", error));
    struct gy_error err = { 0 };
    const int status = ckpt_text(path, "gyre.net", text, room, bytes, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

GYRE_API int gyre_read_note(const char *path, const char *key, char *text, size_t room, struct gyre_error *error)
{
    GY_TRY(gy_given(path, "gyre_read_note: path", error));
    GY_TRY(gy_given(key, "gyre_read_note: key", error));
    GY_TRY(gy_given(text, "gyre_read_note: text", error));
    struct gy_error err = { 0 };
    char full[160];
    snprintf(full, sizeof full, "note.%.140s", key);
    const int status = ckpt_text(path, full, text, room, NULL, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

static const char *ckpt_note_text(struct gyre_net *net, const char *text)
{
    char *place = net->note_text + net->note_bytes;
    if (gy_text_copy(place, sizeof net->note_text - net->note_bytes, text) != 0)
        return NULL;
    net->note_bytes += strlen(text) + 1;
    return place;
}

/* Notes are few: a changed one is packed anew with all others, so that old values take no room. */
static int ckpt_note_set(struct gyre_net *net, int index, const char *key, const char *value)
{
    struct gy_note kept[GY_NOTE_KEYS];
    char old[GY_NOTE_BYTES];
    memcpy(kept, net->notes, sizeof kept);
    memcpy(old, net->note_text, sizeof old);
    const size_t bytes = net->note_bytes;
    const int count = index == net->note_count ? index + 1 : net->note_count;
    net->note_bytes = 0;
    for (int i = 0; i < count; i++) {
        const char *k = i == index ? key : old + (kept[i].key - net->note_text);
        const char *v = i == index ? value : old + (kept[i].value - net->note_text);
        net->notes[i].key = ckpt_note_text(net, k);
        net->notes[i].value = net->notes[i].key ? ckpt_note_text(net, v) : NULL;
        if (!net->notes[i].value) {
            memcpy(net->note_text, old, sizeof old);
            memcpy(net->notes, kept, sizeof kept);
            net->note_bytes = bytes;
            return GY_E_ARG;
        }
    }
    net->note_count = count;
    return GY_OK;
}

GYRE_API int gyre_note(struct gyre_net *net, const char *key, const char *value)
{
    GY_TRY(gy_engine_given(net, key, "gyre_note: key"));
    GY_TRY(gy_engine_given(net, value, "gyre_note: value"));
    int index = 0;
    while (index < net->note_count && strcmp(net->notes[index].key, key) != 0)
        index++;
    if (strlen(key) > 140 || index == GY_NOTE_KEYS || ckpt_note_set(net, index, key, value) != GY_OK)
        return gy_engine_fail(net, GY_E_ARG, "note '%.40s' does not fit: at most %d keys of 140 bytes, %d bytes in all", key,
                              GY_NOTE_KEYS, GY_NOTE_BYTES);
    return GYRE_OK;
}
