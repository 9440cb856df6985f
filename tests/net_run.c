/* SPDX-License-Identifier: MIT */
/* net_run.c: runs a net in the engine: gives it weights and samples, collects every number that
 * comes out. */
#include "tests/net_case.h"
#include <unistd.h>

struct run_net {
    const struct net_test *t;
    const struct net_run *run;
    struct gyre_config config;
    struct gyre_net *net;
    void *block;
    double *answer;
    char *why;
    int infers;
};

static int run_fail(const struct run_net *n, const char *what)
{
    snprintf(n->why, NET_WHY, "%.100s: %.480s", what, n->net ? gyre_last_error(n->net)->text : "");
    return -1;
}

struct gyre_optimizer net_case_optimizer(const struct net_case *c)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.optimizer.kind = c->optimizer;
    config.optimizer.nesterov = c->nesterov && c->optimizer == GYRE_SGD;
    config.optimizer.decay_all = c->decay_all;
    config.optimizer.weight_decay = 0.125f;
    return config.optimizer;
}

static void run_config(struct run_net *n)
{
    const struct net_case *c = n->t->c;
    struct gyre_config *config = &n->config;
    gyre_config_default(config);
    config->net = c->net.text;
    config->batch = c->net.batch;
    config->mode = n->infers ? GYRE_INFER : GYRE_TRAIN;
    config->recompute = c->recompute;
    config->dtype = n->run->dtype;
    config->isa = n->run->isa;
    config->threads = n->run->threads;
    config->seed = c->seed;
    config->accumulate = c->accumulate;
    config->optimizer = net_case_optimizer(c);
    config->schedule.rate = NET_RATE;
    config->input = n->t->u8 ? GYRE_INPUT_U8 : GYRE_INPUT_F32;
    memcpy(config->mean, n->t->mean, sizeof config->mean);
    memcpy(config->std, n->t->std, sizeof config->std);
}

/* more than the alignment and head of a block: that many bytes fewer are not enough for the net */
#define RUN_SPARE 512

/* The net opens in a block of the measured bytes, and in none of RUN_SPARE fewer. */
static int run_open_in_block(struct run_net *n, struct gyre_error *error)
{
    struct gyre_need need;
    if (gyre_measure(&n->config, &need, error) != GYRE_OK)
        return -1;
    if (posix_memalign(&n->block, GY_CACHE_LINE, need.host_bytes) != 0)
        return snprintf(error->text, sizeof error->text, "no memory for a block"), -1;
    n->config.memory.block = n->block;
    n->config.memory.block_bytes = need.host_bytes - RUN_SPARE;
    if (n->t->c->tight && gyre_open(&n->net, &n->config, error) == GYRE_OK)
        return snprintf(error->text, sizeof error->text, "fewer bytes than were measured are enough"), -1;
    n->config.memory.block_bytes = need.host_bytes;
    return gyre_open(&n->net, &n->config, error) == GYRE_OK ? 0 : -1;
}

static int run_open(struct run_net *n)
{
    struct gyre_error error = { 0 };
    run_config(n);
    if (run_open_in_block(n, &error) == 0)
        return 0;
    snprintf(n->why, NET_WHY, "opened in a block of the measured %zu bytes: %.400s", n->config.memory.block_bytes,
             error.text);
    return -1;
}

static void run_close(struct run_net *n)
{
    gyre_close(n->net);
    free(n->block);
    n->net = NULL;
    n->block = NULL;
}

static int run_set_params(struct run_net *n)
{
    for (int i = 0; i < n->t->graph.param_count; i++)
        if (gyre_set_tensor(n->net, n->t->graph.params[i].name, n->t->param[i], n->t->graph.params[i].count) != GYRE_OK)
            return run_fail(n, "gyre_set_tensor");
    return 0;
}

/* What an op has not written is not to be read: NaN, in f32, bf16 and as an index. */
static void run_poison(struct run_net *n)
{
    static const int region[] = { GY_AT_ACT, GY_AT_OUT, GY_AT_GRAD };
    for (size_t i = 0; i < GY_COUNT(region) && n->t->c->poison; i++)
        memset(n->net->base[region[i]], 0xff, n->net->plan.region_bytes[region[i]]);
}

/* The next numbers of the answer. */
static void run_put(struct run_net *n, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        *n->answer++ = (double)values[i];
}

static int run_put_scores(struct run_net *n)
{
    const float *scores, *loss;
    if (gyre_get_scores(n->net, &scores, &loss, NULL) != GYRE_OK)
        return run_fail(n, "gyre_get_scores");
    run_put(n, scores, (int64_t)n->t->c->count * n->t->graph.classes);
    run_put(n, loss, n->t->c->count);
    return 0;
}

static int run_put_tensors(struct run_net *n, const char *prefix)
{
    for (int i = 0; i < n->t->graph.param_count; i++) {
        const struct gy_param *p = &n->t->graph.params[i];
        char name[300];
        float *values = calloc((size_t)p->count, sizeof *values);
        snprintf(name, sizeof name, "%s%s", gy_param_is_state(p->kind) ? "" : prefix, p->name);
        const int ok = values && gyre_get_tensor(n->net, name, values, p->count) == GYRE_OK;
        if (ok)
            run_put(n, values, p->count);
        free(values);
        if (!ok)
            return run_fail(n, name);
    }
    return 0;
}

static int run_forward_and_back(struct run_net *n)
{
    struct gyre_result r;
    if (!n->t->c->poison &&
        (gyre_gradient(n->net, &n->t->other, &r) != GYRE_OK || gyre_eval(n->net, &n->t->other, &r) != GYRE_OK))
        return run_fail(n, "another batch");
    run_poison(n);
    if (gyre_eval(n->net, &n->t->batch, &r) != GYRE_OK)
        return run_fail(n, "gyre_eval");
    if (run_put_scores(n) != 0)
        return -1;
    run_poison(n);
    for (int micro = 0; micro < n->t->c->accumulate; micro++)
        if (gyre_step(n->net, &n->t->batch, &r) != GYRE_OK)
            return run_fail(n, "gyre_step");
    if (run_put_scores(n) != 0)
        return -1;
    *n->answer++ = r.loss;
    return run_put_tensors(n, "grad.") != 0 || run_put_tensors(n, "") != 0 ? -1 : 0;
}

/* ---- files ---- */

/* One more step; its loss, and all weights after it. */
static int run_next(struct run_net *n, double *answer)
{
    struct gyre_result r;
    if (gyre_step(n->net, &n->t->other, &r) != GYRE_OK)
        return run_fail(n, "the next step");
    n->answer = answer;
    *n->answer++ = r.loss;
    return run_put_tensors(n, "");
}

static int run_save_and_load(struct run_net *n)
{
    char path[] = "/tmp/net_case_XXXXXX";
    struct run_net loaded = { .t = n->t, .run = n->run, .why = n->why };
    const size_t bytes = (size_t)n->t->count * sizeof(double);
    double *a = calloc(1, bytes), *b = calloc(1, bytes);
    const int file = mkstemp(path);
    int status = !a || !b || file < 0 || close(file) != 0 ? run_fail(n, "a file for the checkpoint") : 0;
    if (status == 0 && gyre_save(n->net, path) != GYRE_OK)
        status = run_fail(n, "gyre_save");
    if (status == 0)
        status = run_open(&loaded);
    if (status == 0 && gyre_load(loaded.net, path) != GYRE_OK)
        status = run_fail(&loaded, "gyre_load");
    if (status == 0 && (run_next(n, a) != 0 || run_next(&loaded, b) != 0))
        status = -1;
    if (status == 0 && memcmp(a, b, bytes) != 0) {
        snprintf(n->why, NET_WHY, "the step after saving and loading has other bits");
        status = -1;
    }
    run_close(&loaded);
    unlink(path);
    free(a);
    free(b);
    return status;
}

/* Opened for inference, with the same weights: the scores of evaluation, to the bit. */
static int run_infer(const struct run_net *n, const double *answer)
{
    const int64_t count = (int64_t)n->t->c->count * (n->t->graph.classes + 1);
    double *scores = calloc((size_t)count, sizeof *scores);
    struct gyre_result r;
    struct run_net net = { .t = n->t, .run = n->run, .why = n->why, .answer = scores, .infers = 1 };
    int status = scores ? run_open(&net) : run_fail(n, "scores");
    if (status == 0)
        status = run_set_params(&net);
    if (status == 0 && gyre_eval(net.net, &n->t->batch, &r) != GYRE_OK)
        status = run_fail(&net, "gyre_eval for inference");
    if (status == 0)
        status = run_put_scores(&net);
    if (status == 0 && memcmp(scores, answer, (size_t)count * sizeof *scores) != 0) {
        snprintf(n->why, NET_WHY, "opened for inference, scores have other bits");
        status = -1;
    }
    run_close(&net);
    free(scores);
    return status;
}

int net_test_run(const struct net_test *t, const struct net_run *run, double *answer, char *why)
{
    struct run_net n = { .t = t, .run = run, .answer = answer, .why = why };
    int status = run_open(&n);
    if (status == 0)
        status = run_set_params(&n);
    if (status == 0 && run->look)
        run->look(n.net);
    if (status == 0 && run->fault && !run->fault(run->user, n.net))
        status = 1;
    if (status == 0)
        status = run_forward_and_back(&n);
    if (status == 0 && t->c->saves && !run->fault)
        status = run_save_and_load(&n);
    run_close(&n);
    if (status == 0 && t->c->infers && !run->fault)
        status = run_infer(&n, answer);
    return status;
}
