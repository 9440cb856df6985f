/* SPDX-License-Identifier: MIT */
/* cmd_train.c: gyre train, and gyre why with the same options; gyre.c has their rows. It turns
 * options into configuration. Epochs become steps here, because only here the data set and the
 * batch are both known. The options themselves are rows of train_options.c. */
#include "engine/gyre_job.h"
#include "tools/lab/lab.h"
#include "tools/train_options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRAIN_TRACE_EVENTS 65536

/* Where none is given. ORDER: enum gyre_optimizer_kind */
static const double train_rates[] = { 0.05, 2, 0.001, 0.01, 2 };
typedef char train_rates_fit[CLI_COUNT(train_rates) == GYRE_OPTIMIZERS ? 1 : -1];

/* Everything of one call. */
struct train_job {
    struct train_values *v;
    struct cli_micro micro;           /* with --accumulate auto */
    const char *net_name;
    char *text;
    struct gyre_shape input;          /* h, w, c of the net */
    struct gyre_data *train, *test;
    char untested[480];               /* why there is nothing to test on */
    struct cli_checkpoint was;        /* what the run goes on from; net NULL: nothing */
    struct gyre_data_info info;
    struct gyre_config config;
    struct gyre_train_config loop;
    struct gyre_net *net;
    struct gyre_job *ranks;           /* the processes that train together */
    int servers;                      /* of them */
    struct cli_text recipe;           /* the run's options */
    int written;                      /* of it in the folder: -1 not yet; else an exit code */
    struct cli_progress *progress;
    char folder[4096];
    int64_t per_epoch, steps;
};

/* ---- data and net ---- */

/* The part of each class to hold out. Where this call names none, a resumed run keeps its own. */
static struct cli_hold hold_of(const struct train_job *job)
{
    const struct cli_hold given = { job->v->val_split, (uint64_t)job->v->net.seed, 0, 0 };
    return given.share > 0 || !job->was.net ? given : job->was.hold;
}

static int open_test_data(struct train_job *job, struct cli_source source)
{
    const char *given = job->v->test_data;
    const int none = given && strcmp(given, "none") == 0;
    if (source.hold_out > 0 && given && !none)
        return cli_fail(CLI_USAGE, "--val-split holds out images to test on, --test-data names others; take one of both");
    if (none) {
        snprintf(job->untested, sizeof job->untested, "--test-data none");
        return CLI_OK;
    }
    source.held = 1;
    if (source.hold_out > 0)
        return cli_open_data(&job->test, &source);
    source.split = "test";
    if (!given)
        return cli_open_split(&job->test, &source, job->untested);
    source.path = given;
    return cli_open_data(&job->test, &source);
}

static int open_job_data(struct train_job *job, const char *path)
{
    const struct train_values *v = job->v;
    const struct cli_hold hold = hold_of(job);
    const struct cli_source source = { .path = path, .split = "train", .max_bad = v->max_bad, .log = v->net.log, .hold_out = hold.share,
                                       .hold_seed = hold.seed };
    const int code = cli_open_data(&job->train, &source);
    if (code != CLI_OK)
        return code;
    gyre_get_data_info(job->train, &job->info);
    return open_test_data(job, source);
}

/* Bytes of a net's text up to its last word that is in no comment. */
static size_t text_words(const char *text)
{
    size_t words = 0;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        size_t line = strcspn(at, "#\n");
        while (line > 0 && strchr(" \t\r", at[line - 1]))
            line--;
        if (line > 0)
            words = (size_t)(at - text) + line;
    }
    return words;
}

/* The last word of the text must be "softmax": then " smooth X" follows it, and no comment. */
static int add_smoothing(struct train_job *job)
{
    if (!(job->v->smoothing > 0))
        return CLI_OK;
    const size_t bytes = text_words(job->text);
    char *longer = realloc(job->text, bytes + 64);
    if (!longer)
        return cli_fail(CLI_RESOURCES, "out of memory: a net's text");
    job->text = longer;
    if (bytes < 7 || memcmp(longer + bytes - 7, "softmax", 7) != 0)
        return cli_fail(CLI_USAGE, "--smoothing needs a net that ends in a plain 'softmax'; write 'softmax smooth X' in the net's text");
    snprintf(longer + bytes, 64, " smooth %.9g\n", job->v->smoothing);
    return CLI_OK;
}

static int make_text(struct train_job *job)
{
    const struct train_values *v = job->v;
    struct gyre_shape want = { 0, 0, 0, job->info.classes, 0 };
    int code = CLI_OK;
    if (job->info.h > 0 && job->info.h <= 64 && job->info.w <= 64)
        want = (struct gyre_shape){ job->info.h, job->info.w, job->info.channels, job->info.classes, 0 };
    if (v->size)
        want = (struct gyre_shape){ (int32_t)v->size, (int32_t)v->size, job->info.channels, want.classes, 0 };
    if (v->classes)
        want.classes = (int32_t)v->classes;
    if (!cli_is_zoo_name(job->net_name)) /* what was given, which a file does not take */
        want = (struct gyre_shape){ (int32_t)v->size, (int32_t)v->size, 0, (int32_t)v->classes, 0 };
    job->text = cli_net_text(job->net_name, &want, &code);
    if (!job->text)
        return code;
    cli_net_input(job->text, &job->input);
    return add_smoothing(job);
}

/* ---- configuration ---- */

static int64_t in_updates(const struct train_job *job, double epochs)
{
    return (int64_t)(epochs * (double)job->per_epoch / (double)train_accumulate_of(job->v) + 0.5);
}

/* A milestone before the first update would change nothing, and end the list. */
static int set_milestones(struct train_job *job)
{
    const struct cli_reals *given = &job->v->milestones;
    struct gyre_schedule *s = &job->config.schedule;
    const double epochs = (double)job->steps / (double)job->per_epoch;
    for (int i = 0; i < given->count; i++) {
        s->milestone[i] = in_updates(job, given->value[i]);
        if (s->milestone[i] < 1)
            return cli_fail(CLI_USAGE, "--milestones has %.9g, which is before the first update; an epoch has %.9g of them", given->value[i],
                            (double)job->per_epoch / (double)train_accumulate_of(job->v));
    }
    if (given->count || s->kind != GYRE_STEPS)
        return CLI_OK;
    s->milestone[0] = in_updates(job, epochs * 0.5);
    s->milestone[1] = in_updates(job, epochs * 0.75);
    /* a run of one update or none */
    if (s->milestone[1] <= s->milestone[0] || s->milestone[0] < 1)
        s->milestone[1] = 0;
    return CLI_OK;
}

static int set_schedule(struct train_job *job)
{
    const struct train_values *v = job->v;
    struct gyre_schedule *s = &job->config.schedule;
    s->kind = (int)v->schedule;
    s->rate = (float)(v->lr > 0 ? v->lr : train_rates[v->optimizer]);
    s->warmup = in_updates(job, v->warmup_epochs);
    s->warmup_from = (float)v->warmup_from;
    s->steps = (job->steps + train_accumulate_of(v) - 1) / train_accumulate_of(v);
    s->final_rate = (float)v->final_rate;
    s->power = (float)v->power;
    return set_milestones(job);
}

/* How many copies of the whole net train together. */
static int64_t copies(const struct train_job *job)
{
    return (gyre_job_ranks(job->ranks) + job->v->pipeline - 1) / job->v->pipeline;
}

/* Batches of a step: one for each shard or copy. */
static int64_t parts(const struct train_job *job)
{
    return job->v->shards ? job->v->shards : copies(job);
}

/* --accumulate auto: what was the batch, and a step, becomes that of an update. */
static int choose_micro(struct train_job *job)
{
    struct train_values *v = job->v;
    job->micro = (struct cli_micro){ .update = (int)v->batch, .bytes = (size_t)v->mem };
    const int code = cli_choose_micro(&job->config, job->was.net ? job->was.path : NULL, job->ranks,
                                      &job->micro);
    if (code != CLI_OK)
        return code;
    v->batch = job->config.batch = job->micro.batch;
    v->accumulate = job->config.accumulate = job->micro.accumulate;
    v->steps *= v->accumulate;
    v->checkpoint_every *= v->accumulate;
    return CLI_OK;
}

/* Shorter side for evaluation, where nothing says another. */
static int32_t usual_resize(const struct train_job *job)
{
    const int32_t side = job->input.h < job->input.w ? job->input.h : job->input.w;
    return side > 64 && !job->info.real ? (side * 8 + 6) / 7 : 0;
}

/* The number with the fewest digits that is this float. */
static double shortest(float value)
{
    char text[32];
    double read = 0;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        read = strtod(text, NULL);
        if (!((float)read < value || (float)read > value))
            break;
    }
    return read;
}

/* used: what the net gets, so far of this call alone. */
static void keep_reals(struct cli_reals *given, float used[4], const float was[4], int32_t channels)
{
    const int count = channels < 4 ? channels : 4;
    if (given->count || memcmp(used, was, (size_t)count * sizeof *was) == 0)
        return;
    given->count = count;
    for (int i = 0; i < count; i++) {
        used[i] = was[i];
        given->value[i] = shortest(was[i]);
    }
}

/* What the call does not say stays as the checkpoint has it. Where that is not what would be
 * anyway, it becomes an option: recipe.txt has it, too. */
static void keep_earlier(struct train_job *job)
{
    struct train_values *v = job->v;
    if (!(v->val_split > 0))
        v->val_split = job->was.hold.share;
    if (!v->resize && job->was.resize != usual_resize(job))
        v->resize = job->was.resize;
    if (!job->was.has_input)
        return;
    keep_reals(&v->mean, job->config.mean, job->was.mean, job->input.c);
    keep_reals(&v->std, job->config.std, job->was.std, job->input.c);
}

static int set_config(struct train_job *job)
{
    const struct train_values *v = job->v;
    struct gyre_config *c = &job->config;
    cli_net_config(c, &v->net, job->text, job->net_name);
    c->batch = (int)train_batch_of(v);
    c->accumulate = (int)train_accumulate_of(v);
    c->recompute = (int)v->recompute;
    c->input = job->info.real ? GYRE_INPUT_F32 : GYRE_INPUT_U8;
    c->optimizer.kind = (int)v->optimizer;
    c->optimizer.momentum = (float)v->momentum;
    c->optimizer.nesterov = (int)v->nesterov;
    c->optimizer.weight_decay = (float)v->weight_decay;
    c->optimizer.decay_all = v->skip == 1;
    c->optimizer.clip_norm = (float)v->clip;
    c->optimizer.ema = (float)v->ema;
    c->shards = (int)v->shards;
    c->sync_bn = (int)v->sync_bn;
    c->bucket_bytes = (size_t)(v->bucket * 1048576);
    c->trace_events = v->trace ? TRAIN_TRACE_EVENTS : 0;
    c->pipeline = (int)v->pipeline;
    c->stage_schedule = v->stage_schedule ? GYRE_GPIPE : GYRE_1F1B;
    c->stage_bytes = v->pipeline > 1 ? (size_t)v->mem : 0;
    const int chosen = v->accumulate ? CLI_OK : choose_micro(job);
    if (chosen != CLI_OK)
        return chosen;
    job->per_epoch = job->info.samples / train_batch_of(v) / parts(job);
    if (job->per_epoch < 1)
        return cli_fail(CLI_USAGE, "--batch is %" PRId64 "%s; the training data has only %" PRId64 " images", v->batch,
                        parts(job) > 1 ? " of each part" : "", job->info.samples);
    job->steps = v->steps ? v->steps * train_micros(v) : v->epochs * job->per_epoch;
    int code = set_schedule(job);
    if (code == CLI_OK)
        code = cli_normalisation(&v->mean, &v->std, job->input.c, c->mean, c->std);
    if (code == CLI_OK)
        keep_earlier(job);
    return code;
}

static int32_t eval_resize(const struct train_job *job)
{
    return job->v->resize ? (int32_t)job->v->resize : usual_resize(job);
}

static int loader_threads(const struct train_job *job)
{
    if (job->v->loader_threads)
        return (int)job->v->loader_threads;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (strcmp(job->info.format, "folder") != 0 || processors < 8)
        return 1;
    return processors < 64 ? (int)(processors / 4) : 16;
}

static void set_augment(const struct train_job *job, struct gyre_augment *a)
{
    const struct train_values *v = job->v;
    a->pad = (int32_t)v->pad_crop;
    a->resized_crop = (int)v->resized_crop;
    a->flip = v->flip ? 0.5f : 0;
    a->brightness = a->contrast = a->saturation = (float)v->jitter;
    a->hue = (float)v->jitter / 4;
    a->mixup = (float)v->mixup;
    a->cutmix = (float)v->cutmix;
    a->resize = eval_resize(job);
}

/* The options that a run was made with, beside what it leaves. */
static int write_recipe(const struct train_job *job)
{
    char path[4200];
    struct cli_out out;
    int code = cli_path(path, sizeof path, "%s/recipe.txt", job->folder);
    if (code == CLI_OK)
        code = cli_out_open(&out, path);
    if (code != CLI_OK)
        return code;
    if (fputs(job->recipe.text, out.file) == EOF)
        cli_out_failed(&out);
    return cli_out_close(&out, code);
}

/* The first event comes when the folder is there. */
static int watch(void *user, const struct gyre_progress *p)
{
    struct train_job *job = user;
    if (job->written < 0 && gyre_job_rank(job->ranks) == 0)
        job->written = write_recipe(job);
    return cli_progress_train(job->progress, p);
}

static void set_loop(struct train_job *job)
{
    const struct train_values *v = job->v;
    struct gyre_train_config *l = &job->loop;
    gyre_train_config_default(l);
    l->train = job->train;
    l->test = job->test;
    l->epochs = (int)v->epochs;
    l->max_steps = v->steps * train_micros(v);
    set_augment(job, &l->augment);
    l->loader_threads = loader_threads(job);
    l->folder = job->folder;
    l->checkpoint_steps = v->checkpoint_every * train_micros(v);
    l->keep = (int)v->keep;
    l->resume = (int)v->resume;
    l->overwrite = (int)v->overwrite;
    l->progress = watch;
    l->user = job;
}

/* runs/resnet20 for resnet20 and for nets/resnet20.net */
static int set_folder(struct train_job *job)
{
    const char *slash = strrchr(job->net_name, '/'), *base = slash ? slash + 1 : job->net_name, *dot = strrchr(base, '.');
    const int bytes = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
    return job->v->out ? cli_path(job->folder, sizeof job->folder, "%s", job->v->out)
                       : cli_path(job->folder, sizeof job->folder, "runs/%.*s", bytes, base);
}

/* What the run goes on from, if anything: it says what this call does not. */
static int open_earlier(struct train_job *job)
{
    char path[4096];
    if (!job->v->resume || gyre_find_checkpoint(job->folder, path, sizeof path, NULL) != GYRE_OK)
        return CLI_OK;
    return cli_open_checkpoint(&job->was, path);
}

/* ---- running ---- */

static int show_batch(const struct train_job *job)
{
    struct gyre_loader_config c;
    struct gyre_loader *loader;
    struct gyre_error error;
    gyre_loader_config_default(&c);
    c.batch = (int32_t)job->v->batch;
    c.h = job->input.h;
    c.w = job->input.w;
    c.c = job->input.c;
    c.training = 1;
    set_augment(job, &c.augment);
    c.seed = (uint64_t)job->v->net.seed;
    if (gyre_open_loader(&loader, job->train, &c, &error) != GYRE_OK)
        return cli_error(&error);
    const int status = gyre_write_contact_sheet(loader, job->v->show_batch, &error);
    gyre_close_loader(loader);
    if (status != GYRE_OK)
        return cli_error(&error);
    printf("batch: %s\n", job->v->show_batch);
    return CLI_OK;
}

static int open_net(struct train_job *job)
{
    struct gyre_error error;
    int skipped = 0;
    if (gyre_open(&job->net, &job->config, &error) != GYRE_OK)
        return cli_error(&error);
    if (job->v->weights && !job->was.net &&
        gyre_import(job->net, job->v->weights, 1, &skipped) != GYRE_OK)
        return cli_net_error(job->net);
    if (skipped)
        fprintf(stderr, "gyre: warning: %s: %d tensors are missing or of another shape; they keep their first values\n",
                job->v->weights, skipped);
    if (gyre_note(job->net, "name", job->net_name) != GYRE_OK)
        return cli_net_error(job->net);
    if (!job->train)
        return CLI_OK;
    if (job->recipe.text && job->v->recipe && gyre_note(job->net, "recipe", job->recipe.text) != GYRE_OK)
        return cli_net_error(job->net);
    int code = cli_note_hold(job->net, job->train);
    if (code == CLI_OK && job->was.net && job->was.classes[0] && !job->v->names)
        code = gyre_note(job->net, "classes", job->was.classes) == GYRE_OK ? CLI_OK : cli_net_error(job->net);
    else if (code == CLI_OK)
        code = cli_note_classes(job->net, job->train, job->v->names);
    return code != CLI_OK ? code : cli_note_input(job->net, job->config.mean, job->config.std, job->input.c, eval_resize(job));
}

static void say_test_data(const struct train_job *job, FILE *file)
{
    struct gyre_data_info test = { .samples = 0 };
    if (job->test)
        gyre_get_data_info(job->test, &test);
    if (!job->test)
        fprintf(file, "nothing to test on: %s%s\n", job->untested, job->v->test_data ? "" : " (--val-split, --test-data)");
    else if (test.hold_out > 0)
        fprintf(file, "%" PRId64 " to test on, held out of %" PRId64 " (%.6g of each class, seed %" PRIu64 ")\n", test.samples, test.hold_of,
                test.hold_out, test.hold_seed);
    else
        fprintf(file, "%" PRId64 " to test on\n", test.samples);
}

/* need: what rank 0 takes, but the parameters of the whole net, of which a stage has a part. */
static int measure(const struct train_job *job, struct gyre_need *need)
{
    struct gyre_need all;
    struct gyre_config whole = job->config;
    whole.job = NULL;
    whole.pipeline = 0;
    if (gyre_measure(&job->config, need, NULL) != GYRE_OK)
        return 0;
    if (job->v->pipeline < 2)
        return 1;
    if (gyre_measure(&whole, &all, NULL) != GYRE_OK)
        return 0;
    need->parameters = all.parameters;
    return 1;
}

static void say_begin(const struct train_job *job)
{
    struct gyre_need need;
    char memory[32];
    if (job->v->json && !job->test && gyre_job_rank(job->ranks) == 0) {
        fputs("gyre: ", stderr);
        say_test_data(job, stderr);
    }
    if (job->v->json || gyre_job_rank(job->ranks) > 0 || !measure(job, &need))
        return;
    printf("net: %s, input %dx%dx%d, %" PRId64 " parameters, %s of memory%s\n", job->net_name, job->input.h, job->input.w,
           job->input.c, need.parameters, cli_bytes(memory, (double)need.host_bytes),
           job->v->pipeline > 1 ? " in the first stage" : "");
    printf("data: %s, %" PRId64 " images in %d classes; ", job->info.format, job->info.samples, job->info.classes);
    say_test_data(job, stdout);
    printf("run: %" PRId64 " steps of %" PRId64 " images, %" PRId64 " an epoch, into %s\n", job->steps,
           train_batch_of(job->v) * parts(job), job->per_epoch, job->folder);
    if (job->v->pipeline > 1)
        printf("pipeline: %" PRId64 " stages, %" PRId64 " cop%s; %" PRId64 " parts of %" PRId64
               " images make an update of each\n", job->v->pipeline, copies(job),
               copies(job) > 1 ? "ies" : "y", parts(job) / copies(job) * train_micros(job->v),
               train_batch_of(job->v));
    if (job->v->shards)
        printf("shards: %" PRId64 " of %" PRId64 " images a step, on %d process%s\n", job->v->shards, job->v->batch, gyre_job_ranks(job->ranks),
               gyre_job_ranks(job->ranks) > 1 ? "es" : "");
    else if (gyre_job_ranks(job->ranks) > 1 && job->v->pipeline < 2)
        printf("ranks: %d processes of %" PRId64 " images a step each\n", gyre_job_ranks(job->ranks), job->v->batch);
    cli_say_micro(&job->micro);
    if (job->v->recipe)
        printf("recipe: %s; as it was run: %s/recipe.txt\n", job->v->recipe, job->folder);
    fflush(stdout);
}

static void say_end(const struct train_job *job, int status)
{
    char checkpoint[4096] = "";
    struct gyre_data_info info;
    gyre_get_data_info(job->train, &info);
    if (gyre_find_checkpoint(job->folder, checkpoint, sizeof checkpoint, NULL) != GYRE_OK)
        return;
    if (job->v->json) {
        printf("{\"event\":\"end\",\"status\":\"%s\",\"bad_images\":%" PRId64 ",\"checkpoint\":", gyre_status_name(status), info.bad);
        cli_json_text(stdout, checkpoint);
        printf(",\"folder\":");
        cli_json_text(stdout, job->folder);
        printf(",\"recipe\":");
        cli_json_text(stdout, job->recipe.text);
        puts("}");
        return;
    }
    if (info.bad)
        printf("unreadable images that were skipped: %" PRId64 "\n", info.bad);
    printf("curve:      %s/curve.svg\nmetrics:    %s/metrics.csv (and TensorBoard events beside it)\ncheckpoint: %s\n", job->folder,
           job->folder, checkpoint);
    printf("recipe:     %s/recipe.txt\n", job->folder);
}

/* Where a lost rank's last acts are. */
static void say_doctor(const struct train_job *job, int status)
{
    const char *const named = getenv("GYRE_FLIGHT");
    const char *const folder = named && named[0] ? named : job->folder;
    if (status == GYRE_E_PEER && gyre_job_rank(job->ranks) == 0 && strcmp(folder, "off") != 0)
        fprintf(stderr, "gyre: what each rank did last is kept: gyre net doctor %s\n", folder);
}

static int run_loop(struct train_job *job)
{
    job->progress = cli_progress_open(job->v->json ? CLI_PROGRESS_JSON : CLI_PROGRESS_AUTO);
    if (!job->progress)
        return cli_fail(CLI_RESOURCES, "out of memory: the progress bar");
    set_loop(job);
    say_begin(job);
    cli_catch_signals();
    const int status = gyre_train(job->net, &job->loop);
    cli_progress_close(job->progress);
    int code = CLI_OK;
    if (job->v->trace && (status == GYRE_OK || status == GYRE_E_STOPPED) && gyre_write_trace(job->net, job->v->trace) != GYRE_OK)
        return cli_net_error(job->net);
    if (status == GYRE_E_STATE)
        code = cli_fail(CLI_USAGE, "%s (--resume, --overwrite, --out)", gyre_last_error(job->net)->text);
    else if (status != GYRE_OK)
        code = cli_net_error(job->net);
    const int leads = gyre_job_rank(job->ranks) == 0; /* by now */
    say_doctor(job, status);
    if (status != GYRE_OK && status != GYRE_E_STOPPED)
        return code;
    /* a rank that is lost here is said at the job's end */
    if (job->servers == 0)
        gyre_print_ranks(job->ranks, job->v->batch * parts(job), (int)job->v->json, &cli_stdout, NULL);
    if (leads)
        say_end(job, status);
    return code == CLI_OK && job->written > 0 ? job->written : code;
}

static int open_ranks(struct train_job *job)
{
    struct gyre_error error;
    struct gyre_job_config ranks;
    gyre_job_config_default(&ranks);
    ranks.wire = (int)job->v->wire;
    const int splits = cli_net_splits(job->net_name);
    ranks.messages = job->v->pipeline > 1 || splits;
    ranks.flight = job->folder;
    const char *const elastic = job->v->elastic ? job->v->elastic : getenv("GYRE_ELASTIC");
    if (elastic && cli_elastic(elastic, &ranks.elastic_least, &ranks.elastic_most) != CLI_OK)
        return CLI_USAGE;
    if (elastic && splits)
        return cli_fail(CLI_USAGE, "--elastic: a net with split layers cannot outlive its ranks, which have parts of them");
    const int roles = cli_server_config(&job->v->servers, &ranks);
    if (roles != CLI_OK)
        return roles;
    job->servers = ranks.servers;
    return gyre_job_open(&job->ranks, &ranks, &error) == GYRE_OK ? CLI_OK : cli_error(&error);
}

static int run_job(struct train_job *job, const char *path)
{
    const int joins = getenv("GYRE_JOIN") != NULL; /* others wait for it from then on */
    int code = set_folder(job);
    if (code == CLI_OK && !joins)
        code = open_ranks(job);
    if (code == CLI_OK)
        code = open_earlier(job);
    if (code == CLI_OK)
        code = open_job_data(job, path);
    if (code == CLI_OK && joins)
        code = open_ranks(job);
    if (code == CLI_OK)
        code = make_text(job);
    if (code == CLI_OK)
        code = set_config(job);
    job->config.job = job->ranks;
    if (code == CLI_OK)
        code = cli_recipe_of(&cmd_train, job->v->recipe, job->v, &job->recipe);
    if (code != CLI_OK)
        return code;
    if (job->v->show_batch)
        return show_batch(job);
    if (job->servers > 0)
        cli_server_bucket(&job->config, job->servers);
    code = open_net(job);
    return code == CLI_OK ? run_loop(job) : code;
}

/* All ranks end together, with everything but the job closed. */
static int close_job(struct train_job *job, int code)
{
    gyre_close(job->net);
    code = cli_job_end(job->ranks, code);
    gyre_job_close(job->ranks);
    gyre_close_data(job->test);
    gyre_close_data(job->train);
    cli_close_checkpoint(&job->was);
    cli_text_free(&job->recipe);
    free(job->text);
    return code;
}

static int train_run(const void *values, char **args, int count)
{
    struct train_values v = *(const struct train_values *)values;
    struct train_job job = { .v = &v, .net_name = args[0], .written = -1 };
    const int code = train_check_pairs(job.v);
    (void)count;
    return code != CLI_OK ? code : close_job(&job, run_job(&job, args[1]));
}

static int train_words(char **args, int count) { return cli_start_ranks(&cmd_train, args, count); }

const struct cli_command cmd_train = {
    .name = "train", .args = "NET DATA", .about = "trains a net on images", .least = 2, .most = 2,
    .bytes = sizeof(struct train_values),
    .groups = { { train_rows, CLI_COUNT(train_rows), 0 },
                { train_recipe_rows, CLI_COUNT(train_recipe_rows), 0 },
                { train_ranks_rows, CLI_COUNT(train_ranks_rows), 0 },
                CLI_NET_GROUP(struct train_values, net),
                { cli_server_rows, CLI_COUNT(cli_server_rows), offsetof(struct train_values, servers) } },
    .words = train_words, .recipe = cli_apply_recipe, .run = train_run,
    .details =
        "NET is a net of the zoo ('gyre zoo') or a file of net text ('gyre help language').\n"
        "DATA is a folder with a folder per class, a folder with train/ and test/ of that kind, IDX files (MNIST,\n"
        "Fashion-MNIST; plain or .gz), CIFAR binary files, or a file of 'gyre pack'.\n\n"
        "After each epoch the net is tested: on --test-data, on DATA's test split, or on the images that --val-split holds\n"
        "out, in every format. Which these are depends on --seed, the class and the image's number in it alone: the same on\n"
        "every machine and for any number of processes. The checkpoint remembers them for --resume and 'gyre eval'. Where\n"
        "there is none of these, nothing is tested, and the second line of the output says so.\n\n"
        "Batch norms see one batch at a time: with --accumulate as much of an update as a step has,\n"
        "with --shards and --ranks each shard's or process's own images (ghost batches, Hoffer et\n"
        "al. 2017, arXiv:1705.08741). So a large update keeps the statistics of a small batch:\n"
        "--batch 32 --shards 256 is 8,192 images, normalised 32 at a time. --accumulate auto chooses\n"
        "by what is free; recipe.txt of the run's folder says what, for the same bits elsewhere.\n\n"
        "Ctrl-C, SIGTERM and SIGHUP finish the step, write a checkpoint and exit with code 6; --resume goes on from\n"
        "there, to the same bits as a run that was never stopped.\n\n"
        "Examples:\n"
        "  gyre train lenet5 /usr/share/datasets/fashion-mnist --epochs 10 --batch 64\n"
        "  gyre train resnet20 cifar10 --epochs 100 --lr 0.1 --batch 128 --pad-crop 4 --flip --warmup-epochs 5\n"
        "  gyre train resnet50 imagenet --resized-crop --flip --smoothing 0.1 --batch 256 --recompute --resume\n",
};

/* ---- gyre why ---- */

struct why_values {
    struct train_values train;
    struct cli_why_options why;
};

/* Without data: samples of noise in the net's own shape. */
static int why_job(struct train_job *job, const struct cli_why_options *options, const char *path)
{
    int code = path ? open_job_data(job, path) : CLI_OK;
    if (!path)
        job->info.samples = job->v->batch;
    if (code == CLI_OK)
        code = make_text(job);
    if (code == CLI_OK)
        code = set_config(job);
    if (code == CLI_OK)
        code = open_net(job);
    if (code != CLI_OK)
        return code;
    gyre_train_config_default(&job->loop);
    job->loop.train = job->train;
    if (path) {
        set_augment(job, &job->loop.augment);
        job->loop.loader_threads = loader_threads(job);
    }
    return cli_print_why(job->net, &job->loop, options, (int)job->v->json);
}

static int why_run(const void *values, char **args, int count)
{
    struct why_values v = *(const struct why_values *)values;
    struct train_job job = { .v = &v.train, .net_name = args[0] };
    v.train.test_data = "none";
    v.train.shards = 0; /* one of them */
    const int code = train_check_pairs(&v.train);
    return code != CLI_OK ? code : close_job(&job, why_job(&job, &v.why, count > 1 ? args[1] : NULL));
}

const struct cli_command cmd_why = {
    .name = "why", .args = "NET [DATA]", .about = "says where the time of a training step goes, and what would help",
    .least = 1, .most = 2, .bytes = sizeof(struct why_values),
    .groups = { { cli_why_rows, CLI_COUNT(cli_why_rows), offsetof(struct why_values, why) },
                { train_rows, CLI_COUNT(train_rows), offsetof(struct why_values, train) },
                { train_recipe_rows, CLI_COUNT(train_recipe_rows), offsetof(struct why_values, train) },
                { train_ranks_rows, CLI_COUNT(train_ranks_rows), offsetof(struct why_values, train) },
                CLI_NET_GROUP(struct why_values, train.net),
                { cli_server_rows, CLI_COUNT(cli_server_rows),
                  offsetof(struct why_values, train.servers) } },
    .recipe = cli_apply_recipe, .run = why_run,
    .details =
        "Takes the options of 'gyre train', so that 'train' in a command line can be replaced by 'why'; those that are\n"
        "about the length and the files of a run have no effect. Without DATA the samples are noise.\n\n"
        "Measures what this machine can do at most: multiplications a second, bytes a second. Runs some steps with a\n"
        "clock around each op and prints one page: the shares of waiting for input, of ops whose limit is multiplications,\n"
        "of ops whose limit is bytes; each kind of op beside its limit; the five ops that lose most; what batch, type,\n"
        "recomputation, threads and packed data would bring, predicted.\n\n"
        "Examples:\n"
        "  gyre why resnet50 --batch 16\n"
        "  gyre why resnet20 cifar10 --batch 128 --pad-crop 4 --flip\n"
        "  gyre why my.net data --dtype bf16 --json\n",
};
