/* SPDX-License-Identifier: MIT */
/* glm_generate.c: generates, for `gyre glm generate` (tools/cmd_glm_data.c), rows like those of a
 * click log whose truth is known: 39 fields with one id each, as skewed as real ones. A planted
 * linear model says how probable a click is. Everything is a function of the seed and the row's
 * number. So any part can be made alone, by any number of threads, with the same bits.
 *
 * The frequency of an id falls with its rank k in its field like k^-zipf. A draw inverts the tail's
 * power; then ranks are scattered over the field's ids. */
#include "tools/lab/lab.h"
#include "io/rows/blocks_write.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/train/net_data.h"
#include "engine/run/engine.h"
#include "engine/glm/glm_model.h"

#define GEN_FIELDS 39
#define GEN_BLOCK 32768   /* rows that a thread makes at a time: a block of the file */
#define GEN_FAMILIAR 1024 /* first ranks of a field whose weights are kept */
#define GEN_SAMPLE 16384  /* rows that the bias is found on */
enum { GEN_IDS = 0x67656e, GEN_WEIGHTS, GEN_SCALES, GEN_BIAS };

/* The number of values of each field of the Criteo display challenge: 13 numbers in logarithmic
 * steps, 26 categories. */
static const uint32_t gen_cards[GEN_FIELDS] = { 43, 99, 121, 50, 223, 118, 84, 76, 95, 9, 29, 38, 83, 1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3,
    93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572 };

struct gen {
    struct gyre_glm_generate_config c;
    struct gy_alloc alloc;
    struct gy_pool *pool;
    uint32_t card[GEN_FIELDS], offset[GEN_FIELDS + 1];
    double scale[GEN_FIELDS], tail[GEN_FIELDS]; /* tail: 1 - (card + 1)^(1 - zipf) */
    double bias;
    float *familiar;      /* [GEN_FIELDS][GEN_FAMILIAR] */
    struct gen_part *part; /* [parts] blocks that are made at the same time */
    int parts;
    int64_t first, end;   /* rows of these */
    struct gy_outfile text;
    struct gy_blocks_writer *blocks;
};

struct gen_part {
    uint32_t *id;         /* [GEN_BLOCK][GEN_FIELDS] */
    float *label;         /* [GEN_BLOCK] */
    struct gy_blocks_packed *packed;
    struct gy_buf buf;
    double entropy, loss, clicks;
    struct gy_error err;
    int status;
};

/* ---- one row ---- */

static double gen_weight(const struct gen *g, int f, uint32_t rank)
{
    if (rank < GEN_FAMILIAR)
        return (double)g->familiar[f * GEN_FAMILIAR + (int)rank];
    return g->scale[f] * (double)gy_rng_normal(g->c.seed, GEN_WEIGHTS, (uint64_t)f, rank);
}

static uint32_t gen_rank(const struct gen *g, int f, uint32_t word)
{
    const double u = ((double)word + 0.5) / 4294967296.0, x = pow(1 - u * g->tail[f], 1 / (1 - g->c.zipf));
    const uint32_t rank = x < (double)g->card[f] ? (uint32_t)x : g->card[f];
    return rank > 0 ? rank - 1 : 0;
}

/* The id of a rank within a field, so that frequent ids do not lie together. The factor is a prime
 * above every field's size. */
static uint32_t gen_scatter(const struct gen *g, int f, uint32_t rank)
{
    return g->offset[f] + (uint32_t)((uint64_t)rank * 2654435761u % g->card[f]);
}

/* Ids, and the planted score without bias; *click: uniform in 2^32. id may be NULL. */
static double gen_row(const struct gen *g, uint32_t stream, int64_t row, uint32_t *id, uint32_t *click)
{
    uint32_t word[4] = { 0 };
    double score = 0;
    for (int f = 0; f < GEN_FIELDS; f++) {
        if (f % 4 == 0)
            gy_rng_words(g->c.seed, stream, (uint64_t)row, (uint64_t)f, word);
        const uint32_t rank = gen_rank(g, f, word[f % 4]);
        score += gen_weight(g, f, rank);
        if (id)
            id[f] = gen_scatter(g, f, rank);
    }
    *click = word[3];
    return score;
}

/* ---- the planted model ---- */

/* Fields are cut to the same size until all ids together are few enough. */
static int gen_fields(struct gen *g, struct gy_error *err)
{
    uint32_t cap = UINT32_MAX, lo = 2, hi = 1u << 24;
    uint64_t sum = 0;
    while (g->c.features && lo < hi) { /* the largest cap with a sum that fits */
        cap = lo + (hi - lo + 1) / 2;
        sum = 0;
        for (int f = 0; f < GEN_FIELDS; f++)
            sum += gen_cards[f] < cap ? gen_cards[f] : cap;
        if (sum <= (uint64_t)g->c.features)
            lo = cap;
        else
            hi = cap - 1;
    }
    cap = g->c.features ? lo : cap;
    for (int f = 0; f < GEN_FIELDS; f++) {
        g->card[f] = gen_cards[f] < cap ? gen_cards[f] : cap;
        g->offset[f + 1] = g->offset[f] + g->card[f];
        g->tail[f] = 1 - pow((double)g->card[f] + 1, 1 - g->c.zipf);
    }
    if (g->c.features && g->offset[GEN_FIELDS] > g->c.features)
        return GY_FAIL(err, GY_E_ARG, "generate config: features is %" PRId64 "; %d fields of two ids need %d", g->c.features, GEN_FIELDS, 2 * GEN_FIELDS);
    return GY_OK;
}

static void gen_weights(struct gen *g)
{
    double sum = 0;
    for (int f = 0; f < GEN_FIELDS; f++) {
        g->scale[f] = 0.5 + (double)gy_rng_uniform(g->c.seed, GEN_SCALES, 0, (uint64_t)f);
        sum += g->scale[f] * g->scale[f];
    }
    for (int f = 0; f < GEN_FIELDS; f++) {
        g->scale[f] *= g->c.scale / sqrt(sum);
        for (uint32_t k = 0; k < GEN_FAMILIAR && k < g->card[f]; k++)
            g->familiar[f * GEN_FAMILIAR + (int)k] = (float)(g->scale[f] * (double)gy_rng_normal(g->c.seed, GEN_WEIGHTS, (uint64_t)f, k));
    }
}

static double gen_sigmoid(double z) { return 1 / (1 + exp(-z)); }

/* The bias with which the sample's rows are clicked as often as asked for. */
static int gen_find_bias(struct gen *g, struct gy_error *err)
{
    uint32_t unused;
    double lo = -50, hi = 50;
    double *score = gy_alloc_take(&g->alloc, GEN_SAMPLE, sizeof *score);
    if (!score)
        return GY_NOMEM(err, "scores of a sample", GEN_SAMPLE * sizeof *score);
    for (int64_t i = 0; i < GEN_SAMPLE; i++)
        score[i] = gen_row(g, GEN_BIAS, i, NULL, &unused);
    for (int turn = 0; turn < 50; turn++) {
        double sum = 0;
        g->bias = 0.5 * (lo + hi);
        for (int64_t i = 0; i < GEN_SAMPLE; i++)
            sum += gen_sigmoid(score[i] + g->bias);
        if (sum < g->c.rate * GEN_SAMPLE)
            lo = g->bias;
        else
            hi = g->bias;
    }
    gy_alloc_free(&g->alloc, score, GEN_SAMPLE * sizeof *score);
    return GY_OK;
}

static int gen_write_weights(const struct gen *g, struct gy_error *err)
{
    static const float labels[] = { 0, 1 };
    const struct gyre_glm_info info = { .loss = GYRE_GLM_LOGISTIC, .classes = 2, .features = g->offset[GEN_FIELDS], .bias = 1, .label = labels };
    struct gyre_glm *m;
    if (!g->c.weights)
        return GY_OK;
    GY_TRY(gy_glm_model_take(&m, &info, &g->alloc, err));
    for (int f = 0; f < GEN_FIELDS; f++)
        for (uint32_t k = 0; k < g->card[f]; k++)
            m->w[gen_scatter(g, f, k)] = (float)gen_weight(g, f, k);
    m->w[info.features] = (float)g->bias;
    const int status = gy_glm_model_write(m, g->c.weights, err);
    gyre_glm_close(m);
    return status;
}

/* ---- blocks of rows ---- */

static void gen_rows(const struct gen *g, struct gen_part *p, int64_t first, int32_t count)
{
    p->entropy = p->loss = p->clicks = 0;
    for (int32_t i = 0; i < count; i++) {
        uint32_t word;
        const double z = gen_row(g, GEN_IDS, first + i, p->id + (int64_t)i * GEN_FIELDS, &word) + g->bias, share = gen_sigmoid(z);
        const int click = ((double)word + 0.5) / 4294967296.0 < share;
        const double yes = gy_glm_logistic_value(1, z), no = gy_glm_logistic_value(-1, z);
        p->label[i] = (float)click;
        p->clicks += click;
        p->loss += click ? yes : no;
        p->entropy += share * yes + (1 - share) * no;
    }
}

static void gen_text(struct gen_part *p, int32_t count)
{
    char line[GEN_FIELDS * 16 + 8];
    p->buf.bytes = 0;
    for (int32_t i = 0; i < count; i++) {
        size_t at = 0;
        line[at++] = p->label[i] > 0 ? '1' : '0';
        for (int f = 0; f < GEN_FIELDS; f++) {
            char digits[12];
            int n = 0;
            for (uint32_t id = p->id[(int64_t)i * GEN_FIELDS + f] + 1; id; id /= 10)
                digits[n++] = (char)('0' + id % 10);
            line[at++] = ' ';
            while (n)
                line[at++] = digits[--n];
            line[at++] = ':';
            line[at++] = '1';
        }
        line[at++] = '\n';
        gy_buf_add(&p->buf, line, at);
    }
    p->status = p->buf.failed ? GY_NOMEM(&p->err, "text of rows", p->buf.bytes) : GY_OK;
}

static void gen_tile(void *user, int64_t tile, int thread)
{
    const struct gen *g = user;
    struct gen_part *p = &g->part[tile];
    const int64_t first = g->first + tile * GEN_BLOCK;
    const int32_t count = (int32_t)gy_min64(GEN_BLOCK, g->end - first);
    const struct gy_rows rows = { .first = first - g->c.first_row, .count = count, .width = GEN_FIELDS, .id = p->id, .same = 1, .label = p->label };
    (void)thread;
    gen_rows(g, p, first, count);
    if (g->c.text)
        gen_text(p, count);
    else
        p->status = gy_blocks_pack(&p->packed, &rows, 1, &g->alloc, &p->err);
}

static int gen_put(struct gen *g, struct gen_part *p, struct gyre_glm_generated *out, struct gy_error *err)
{
    if (p->status != GY_OK)
        return *err = p->err, p->status;
    out->rate += p->clicks;
    out->entropy += p->entropy;
    out->log_loss += p->loss;
    return g->c.text ? gy_outfile_write(&g->text, p->buf.text, p->buf.bytes, err) : gy_blocks_put(g->blocks, p->packed, err);
}

static int gen_all(struct gen *g, struct gyre_glm_generated *out, struct gy_error *err)
{
    const int64_t last = g->c.first_row + g->c.rows;
    for (g->first = g->c.first_row; g->first < last; g->first = g->end) {
        g->end = gy_min64(last, g->first + (int64_t)g->parts * GEN_BLOCK);
        const int64_t tiles = gy_ceil_div(g->end - g->first, GEN_BLOCK);
        gy_pool_run(g->pool, gen_tile, g, tiles);
        for (int64_t i = 0; i < tiles; i++)
            GY_TRY(gen_put(g, &g->part[i], out, err));
        if (g->c.progress && g->c.progress(g->c.user, g->end - g->c.first_row, g->c.rows))
            return GY_FAIL(err, GY_E_STOPPED, "generating %.300s was stopped after %" PRId64 " rows; nothing was written", g->c.to, g->end - g->c.first_row);
    }
    return GY_OK;
}

/* ---- files and memory ---- */

static int gen_create(struct gen *g, struct gy_error *err)
{
    const struct gy_blocks_write config = { .path = g->c.to, .features = g->offset[GEN_FIELDS], .alloc = &g->alloc };
    return g->c.text ? gy_outfile_open(&g->text, g->c.to, err) : gy_blocks_create(&g->blocks, &config, err);
}

static int gen_write(struct gen *g, struct gyre_glm_generated *out, struct gy_error *err)
{
    GY_TRY(gen_create(g, err));
    const int status = gen_all(g, out, err);
    if (g->c.text) {
        if (status == GY_OK)
            return gy_outfile_commit(&g->text, err);
        gy_outfile_abandon(&g->text);
        return status;
    }
    if (status == GY_OK)
        return gy_blocks_finish(g->blocks, NULL, err);
    gy_blocks_abandon(g->blocks);
    return status;
}

static int gen_take(struct gen *g, struct gy_error *err)
{
    GY_TRY(gy_pool_open(&g->pool, &g->alloc, g->c.threads, err));
    g->parts = (int)gy_min64(gy_pool_threads(g->pool), gy_ceil_div(g->c.rows, GEN_BLOCK));
    g->familiar = gy_alloc_take(&g->alloc, GEN_FIELDS * GEN_FAMILIAR, sizeof *g->familiar);
    g->part = gy_alloc_take(&g->alloc, (size_t)g->parts, sizeof *g->part);
    for (int i = 0; g->part && i < g->parts; i++) {
        struct gen_part *p = &g->part[i];
        gy_buf_open(&p->buf, &g->alloc);
        p->id = gy_alloc_take(&g->alloc, GEN_BLOCK * GEN_FIELDS, sizeof *p->id);
        p->label = gy_alloc_take(&g->alloc, GEN_BLOCK, sizeof *p->label);
        if (!p->id || !p->label)
            return GY_NOMEM(err, "a block of rows", GEN_BLOCK * (GEN_FIELDS + 1) * sizeof *p->id);
    }
    return g->familiar && g->part ? GY_OK : GY_NOMEM(err, "planted weights", GEN_FIELDS * GEN_FAMILIAR * sizeof *g->familiar);
}

static void gen_close(struct gen *g)
{
    for (int i = 0; g->part && i < g->parts; i++) {
        struct gen_part *p = &g->part[i];
        gy_blocks_drop(p->packed, &g->alloc);
        gy_buf_close(&p->buf);
        gy_alloc_free(&g->alloc, p->id, GEN_BLOCK * GEN_FIELDS * sizeof *p->id);
        gy_alloc_free(&g->alloc, p->label, GEN_BLOCK * sizeof *p->label);
    }
    gy_alloc_free(&g->alloc, g->part, (size_t)g->parts * sizeof *g->part);
    gy_alloc_free(&g->alloc, g->familiar, GEN_FIELDS * GEN_FAMILIAR * sizeof *g->familiar);
    gy_pool_close(g->pool);
}

GYRE_API void gyre_glm_generate_default(struct gyre_glm_generate_config *config)
{
    if (!config)
        return;
    *config = (struct gyre_glm_generate_config){ .size = sizeof *config, .rows = 1000000, .features = 1000000, .zipf = 1.1, .rate = 0.256, .scale = 1.1,
                                                 .seed = 1 };
}

static int gen_check(const struct gyre_glm_generate_config *c, struct gy_error *err)
{
    const struct {
        const char *name;
        double value, lo, hi;
    } rows[] = { { "rows", (double)c->rows, 1, 1e13 }, { "features", (double)c->features, 0, 4e9 }, { "zipf", c->zipf, 1.001, 5 },
                 { "rate", c->rate, 1e-6, 1 - 1e-6 }, { "scale", c->scale, 0, 100 }, { "first_row", (double)c->first_row, 0, 1e15 },
                 { "threads", c->threads, 0, 4096 } };
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        if (!(rows[i].value >= rows[i].lo && rows[i].value <= rows[i].hi))
            return GY_FAIL(err, GY_E_ARG, "generate config: %s is %g; it must be in %g .. %g", rows[i].name, rows[i].value, rows[i].lo, rows[i].hi);
    return c->to ? GY_OK : GY_FAIL(err, GY_E_ARG, "generate config: no file to write");
}

static int gen_run(struct gen *g, struct gyre_glm_generated *out, struct gy_error *err)
{
    GY_TRY(gen_take(g, err));
    GY_TRY(gen_fields(g, err));
    gen_weights(g);
    GY_TRY(gen_find_bias(g, err));
    GY_TRY(gen_write_weights(g, err));
    GY_TRY(gen_write(g, out, err));
    out->features = g->offset[GEN_FIELDS];
    out->rate /= (double)g->c.rows;
    out->entropy /= (double)g->c.rows;
    out->log_loss /= (double)g->c.rows;
    return GY_OK;
}

GYRE_API int gyre_glm_generate(const struct gyre_glm_generate_config *config, struct gyre_glm_generated *out, struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_glm_generate: config", error));
    struct gen g = { .alloc = gy_alloc_default() };
    struct gyre_glm_generated made = { 0 };
    struct gy_error err = { 0 };
    gyre_glm_generate_default(&g.c);
    int status = gy_config_take(&g.c, sizeof g.c, config, offsetof(struct gyre_glm_generate_config, rows), "generate config", &err);
    if (status == GY_OK)
        status = gen_check(&g.c, &err);
    if (status == GY_OK)
        status = gen_run(&g, &made, &err);
    gen_close(&g);
    if (status != GY_OK)
        return gy_error_out(error, &err);
    if (out)
        *out = made;
    return GYRE_OK;
}

#undef GEN_FIELDS
#undef GEN_BLOCK
#undef GEN_FAMILIAR
#undef GEN_SAMPLE
