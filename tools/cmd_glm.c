/* SPDX-License-Identifier: MIT */
/* cmd_glm.c: gyre glm: what its commands share, and gyre glm train; gyre.c has their rows.
 * liblinear's short options are other names of the long ones. Those without a counterpart are
 * turned into words before options are read. */
#include "engine/gyre_job.h"
#include "tools/cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct cli_glm_options, member)
const struct cli_option cli_glm_option_rows[9] = {
    { "format", "auto|svmlight|libffm|criteo|csv", "auto", "of text", CLI_CHOICE, AT(format), 0, 0 },
    { "zero-based", NULL, NULL, "ids of svmlight text begin with 0", CLI_FLAG, AT(zero_based), 0, 0 },
    { "lenient", NULL, NULL, "mend what can be read without doubt, and say so, instead of ending at the first wrong line", CLI_FLAG, AT(lenient), 0, 0 },
    { "hash-bits", "N", NULL, "of text: hash ids to N bits; default: as they are, criteo 20; prediction takes the model's", CLI_WHOLE, AT(hash_bits), 0, 30 },
    { "hash-seed", "N", "0", "of the hash", CLI_WHOLE, AT(hash_seed), 0, 9e18 },
    { "label-column", "N", "0", "csv: from 0; -1: the last", CLI_WHOLE, AT(label_column), -1, 1e9 },
    { "header", "auto|no|yes", "auto", "csv: does the first line have names?", CLI_CHOICE, AT(header), 0, 0 },
    { "features", "N", NULL, "of text: that there are at most; default: as many as the ids say", CLI_WHOLE, AT(features), 0, 4294967295.0 },
    { "log", "warnings|errors|info|debug", "warnings", "messages on standard error", CLI_CHOICE, AT(log), 0, 0 },
};
#undef AT

void cli_glm_data(struct gyre_glm_data *data, const struct cli_glm_options *o, char *const *paths, int count)
{
    static const char *const formats[] = { NULL, "svmlight", "libffm", "criteo", "csv" };
    static const int levels[] = { GYRE_LOG_WARN, GYRE_LOG_ERROR, GYRE_LOG_INFO, GYRE_LOG_DEBUG };
    gyre_glm_data_default(data);
    data->files = (const char *const *)paths;
    data->file_count = count;
    data->format = formats[o->format];
    data->zero_based = (int)o->zero_based;
    data->lenient = (int)o->lenient;
    data->hash_bits = (int)o->hash_bits;
    data->hash_seed = (uint64_t)o->hash_seed;
    data->label_column = (int)o->label_column;
    data->header = (int)o->header - 1;
    data->features = (uint32_t)o->features;
    data->log = cli_logger(levels[o->log]);
}

/* ---- gyre glm ---- */

static int glm_run(const void *values, char **args, int count)
{
    (void)values;
    (void)args;
    (void)count;
    return cli_fail(CLI_USAGE, "usage: gyre glm train|predict|verify|convert|inspect|generate ...; 'gyre help glm' says more");
}

const struct cli_command cmd_glm = {
    .name = "glm", .args = "train|predict|verify|convert|inspect|generate ...", .about = "linear models of sparse rows: logistic, ridge, lasso, SVM",
    .most = 1 << 20, .run = glm_run,
    .details =
        "  glm train DATA [MODEL]          trains a model, with a certificate of how far it is from the best\n"
        "  glm predict DATA MODEL [OUT]    labels or probabilities of rows, and how good they are\n"
        "  glm verify MODEL DATA           proves what a model's file says of itself, or shows that it is wrong\n"
        "  glm convert FILE... BLOCKS      text becomes a file of blocks, once\n"
        "  glm inspect FILE                what a file of rows or a model holds\n"
        "  glm generate FILE               rows like those of a click log, from a planted model\n\n"
        "'gyre help glm train' and so on say more.\n",
};

/* ---- gyre glm train ---- */

struct glm_values {
    int64_t type, loss, bias_free, normalize, softmax, balanced, threads, epochs, every, seed, folds, resume, overwrite, json, quiet;
    double cost, l1, l2, bias, gap, target, validation, seconds, memory, device_memory, checkpoint;
    struct cli_pairs weights;
    const char *test, *solver, *device, *out, *trace;
    struct cli_glm_options data;
};

#define AT(member) offsetof(struct glm_values, member)
static const struct cli_option glm_train_rows[] = {
    { "loss", "logistic|squared|hinge|squared-hinge", "logistic", "squared: a regression on the labels as numbers; the others: classes", CLI_CHOICE, AT(loss),
      0, 0 },
    { "l2", "X", "-1",
      "half of it times the sum of squared weights is added; below 0: 1, with --l1 none", CLI_REAL,
      AT(l2), -1, 1e30 },
    { "l1", "X", "0", "times the sum of weights' sizes is added", CLI_REAL, AT(l1), 0, 1e30 },
    { "cost", "C", NULL, "liblinear's way to say it: the penalty is 1/C", CLI_REAL, AT(cost), 1e-30, 1e30 },
    { "type", "N", "-1", "liblinear's solver type: 0 7 logistic, 1 2 squared hinge, 3 hinge, 5 6 squared hinge and logistic with l1, 11 12 squared", CLI_WHOLE,
      AT(type), -1, 100 },
    { "bias", "X", "0", "a last feature that every row has with this value; 0 or less: none", CLI_REAL, AT(bias), -1e9, 1e9 },
    { "bias-free", NULL, NULL, "its weight is not penalised", CLI_FLAG, AT(bias_free), 0, 0 },
    { "normalize", NULL, NULL, "scale rows to length 1, also in prediction", CLI_FLAG, AT(normalize), 0, 0 },
    { "softmax", NULL, NULL, "more than two classes: one softmax instead of one against the rest each", CLI_FLAG, AT(softmax), 0, 0 },
    { "class-weight", "L:X,...", NULL, "rows with label L count X times; one against the rest: as class L alone", CLI_PAIRS, AT(weights), 1e-30, 1e30 },
    { "balanced", NULL, NULL, "classes count alike", CLI_FLAG, AT(balanced), 0, 0 },
    { "gap", "X", "0.0001", "done when the objective is proved to be within this part of the optimum; 0: no", CLI_REAL, AT(gap), 0, 1 },
    { "target", "X", "0", "done when the objective is at or below X", CLI_REAL, AT(target), 0, 0 },
    { "validation", "X", "0", "done when the mean loss on --test improves by a smaller part in three checks", CLI_REAL, AT(validation), 0, 1 },
    { "epochs", "N", "1000", "most passes over the rows", CLI_WHOLE, AT(epochs), 1, 1e9 },
    { "seconds", "X", "0", "most seconds of a model; 0: no limit", CLI_REAL, AT(seconds), 0, 1e9 },
    { "every", "N", "0", "passes between certificates; 0: the solver's choice", CLI_WHOLE, AT(every), 0, 1e9 },
    { "test", "DATA", NULL, "rows to test the model on", CLI_TEXT, AT(test), 0, 0 },
    { "folds", "N", NULL, "cross-validation: no model is written", CLI_WHOLE, AT(folds), 2, 1000 },
    { "solver", "NAME", NULL, "sdca, newton, l1; default: what is expected to be fastest", CLI_TEXT, AT(solver), 0, 0 },
    { "device", "NAME", "cpu", "cpu; cuda or cuda:1: a GPU; emu: its emulator; auto: a GPU where one can train this, else cpu",
      CLI_TEXT, AT(device), 0, 0 },
    { "threads", "N", "0", "0: all processors", CLI_WHOLE, AT(threads), 0, 4096 },
    { "memory", "MB", "0",
      "a process's rows that need more are streamed from their block file; 0: 6/10 of the machine's or its group's, shared by its processes",
      CLI_REAL, AT(memory), 0, 1e12 },
    { "device-memory", "MB", "0", "of a GPU, at most: rows that need more stream through it; 0: all", CLI_REAL, AT(device_memory), 0, 1e9 },
    { "seed", "N", "1", "of the order of rows", CLI_WHOLE, AT(seed), 0, 9e18 },
    { "out", "DIR", NULL, "folder for checkpoints; default: none are written", CLI_TEXT, AT(out), 0, 0 },
    { "checkpoint-every", "X", "60", "seconds between checkpoints", CLI_REAL, AT(checkpoint), 0, 1e9 },
    { "resume", NULL, NULL, "go on from the checkpoints of --out, if any", CLI_FLAG, AT(resume), 0, 0 },
    { "overwrite", NULL, NULL, "begin anew where --out holds checkpoints", CLI_FLAG, AT(overwrite), 0, 0 },
    { "trace", "FILE", NULL, "when rows were read and trained on: .svg, else JSON for Chrome's trace viewer", CLI_TEXT, AT(trace), 0, 0 },
    { "json", NULL, NULL, "one JSON object a line", CLI_FLAG, AT(json), 0, 0 },
    { "quiet", NULL, NULL, "nothing on standard output", CLI_FLAG, AT(quiet), 0, 0 },
};
#undef AT

static const struct cli_short glm_shorts[] = {
    { "s", "type" }, { "c", "cost" }, { "e", "gap" }, { "B", "bias" }, { "R", "bias-free" }, { "v", "folds" },
    { "q", "quiet" }, { "m", "threads" }, { NULL, NULL },
};

/* "-w1 2" becomes "--class-weight 1:2"; "-p" and "-C" are refused. */
static int glm_words(char **args, int count)
{
    static char pair[CLI_PAIRS_MAX][96];
    static char name[] = "--class-weight";
    int pairs = 0;
    for (int i = 0; i < count && strcmp(args[i], "--") != 0; i++) {
        if (strcmp(args[i], "-C") == 0)
            return cli_fail(CLI_USAGE, "glm train: -C (search for the cost) is not done here; -v N tells how good one cost is");
        if (strcmp(args[i], "-p") == 0)
            return cli_fail(CLI_USAGE, "glm train: -p (errors that count nothing) is not there: the squared loss counts all");
        if (args[i][0] != '-' || args[i][1] != 'w' || !args[i][2])
            continue;
        if (i + 1 == count || pairs == CLI_PAIRS_MAX)
            return cli_fail(CLI_USAGE, "glm train: %s needs a weight; there may be %d of them", args[i], CLI_PAIRS_MAX);
        snprintf(pair[pairs], sizeof pair[pairs], "%.40s:%.40s", args[i] + 2, args[i + 1]);
        args[i++] = name;
        args[i] = pair[pairs++];
    }
    return CLI_OK;
}

/* ---- configuration ---- */

/* liblinear's types, as a loss and a kind of penalty. */
static int glm_penalty(const struct glm_values *v, struct gyre_glm_config *c)
{
    static const struct {
        int type, loss, l1;
        double factor; /* of its sum of losses, in ours */
    } rows[] = { { 0, GYRE_GLM_LOGISTIC, 0, 1 }, { 1, GYRE_GLM_SQUARED_HINGE, 0, 1 }, { 2, GYRE_GLM_SQUARED_HINGE, 0, 1 }, { 3, GYRE_GLM_HINGE, 0, 1 },
                 { 5, GYRE_GLM_SQUARED_HINGE, 1, 1 }, { 6, GYRE_GLM_LOGISTIC, 1, 1 }, { 7, GYRE_GLM_LOGISTIC, 0, 1 }, { 11, GYRE_GLM_SQUARED, 0, 2 },
                 { 12, GYRE_GLM_SQUARED, 0, 2 } };
    const double cost = v->cost > 0 ? v->cost : 1;
    c->loss = (int)v->loss;
    c->l1 = v->l1;
    c->l2 = v->l2 >= 0 ? v->l2 : v->l1 > 0 ? 0 : 1 / cost;
    if ((v->cost > 0 || v->type >= 0) && (v->l1 > 0 || v->l2 >= 0))
        return cli_fail(CLI_USAGE, "glm train: --l1 and --l2 say the penalty, --cost and --type say it as liblinear does; take one way");
    if (v->type < 0)
        return CLI_OK;
    for (size_t i = 0; i < CLI_COUNT(rows); i++)
        if (rows[i].type == v->type) {
            if (v->loss != GYRE_GLM_LOGISTIC && v->loss != rows[i].loss)
                return cli_fail(CLI_USAGE, "glm train: --loss says another one than type %" PRId64,
                                v->type);
            c->loss = rows[i].loss;
            c->l1 = rows[i].l1 ? 1 / cost : 0;
            c->l2 = rows[i].l1 ? 0 : 1 / (cost * rows[i].factor);
            return CLI_OK;
        }
    return cli_fail(CLI_USAGE, "glm train: type %" PRId64 " is not there: 0 1 2 3 5 6 7 11 12 are%s", v->type, v->type == 4 ? "; near to 4 is --softmax" : "");
}

/* Options that would have no effect. */
static int glm_idle(const struct glm_values *v, const struct gyre_glm_config *c)
{
    const char *const of_classes = v->balanced ? "balanced"
                                 : v->softmax ? "softmax" : "class-weight";
    const char *const of_out = v->resume ? "resume" : "overwrite";
    if (c->loss == GYRE_GLM_SQUARED && (v->balanced || v->softmax || v->weights.count))
        return cli_fail(CLI_USAGE, "glm train: --%s is for classes; the squared loss has none",
                        of_classes);
    if (v->folds && v->test && !(v->validation > 0))
        return cli_fail(CLI_USAGE, "glm train: --folds tests on the rows of DATA; --test is for the model, and none is made");
    if ((v->resume || v->overwrite) && !v->out)
        return cli_fail(CLI_USAGE, "glm train: --%s is for the checkpoints of --out", of_out);
    return CLI_OK;
}

/* Of --threads, else of GYRE_THREADS, with the sentence that nets have for a bad one. */
static int glm_threads(const struct glm_values *v)
{
    const struct gyre_logger log = cli_logger(v->data.log == 1 ? GYRE_LOG_ERROR : GYRE_LOG_WARN);
    const char *const text = v->threads ? NULL : getenv("GYRE_THREADS");
    char *end = NULL, sentence[96];
    const long value = text && text[0] ? strtol(text, &end, 10) : 0;
    if (end && !*end && value > 0 && value <= 4096)
        return (int)value;
    snprintf(sentence, sizeof sentence, "GYRE_THREADS is '%.40s', not a count in 1 .. 4096: ignored", text ? text : "");
    if (end && log.level >= GYRE_LOG_WARN)
        log.write(log.user, GYRE_LOG_WARN, sentence);
    return (int)v->threads;
}

static int glm_config(const struct glm_values *v, struct gyre_glm_config *c)
{
    gyre_glm_config_default(c);
    c->bias = v->bias > 0 ? v->bias : 0;
    c->bias_free = (int)v->bias_free;
    c->normalize = (int)v->normalize;
    c->softmax = (int)v->softmax;
    c->weight_label = v->weights.left;
    c->weight_factor = v->weights.right;
    c->weights = v->weights.count;
    c->balanced = (int)v->balanced;
    c->solver = v->solver;
    c->device = v->device;
    c->threads = glm_threads(v);
    c->gap = v->gap;
    c->target = v->target;
    c->validation = v->validation;
    c->epochs = (int)v->epochs;
    c->seconds = v->seconds;
    c->every = (int)v->every;
    c->memory_bytes = (size_t)(v->memory * 1e6);
    c->device_bytes = (size_t)(v->device_memory * 1e6);
    c->seed = (uint64_t)v->seed;
    c->folds = (int)v->folds;
    c->folder = v->out;
    c->checkpoint_seconds = v->checkpoint;
    c->resume = (int)v->resume;
    c->overwrite = (int)v->overwrite;
    c->trace = v->trace;
    const int code = glm_penalty(v, c);
    return code == CLI_OK ? glm_idle(v, c) : code;
}

/* ---- what is said ---- */

struct glm_show {
    const struct glm_values *v;
    struct cli_progress *progress;
    int leads;
};

/* A double of a report and its name. */
struct glm_number {
    const char *name;
    size_t at;
};
#define NUMBER(type, member) { #member, offsetof(struct type, member) }
static const struct glm_number glm_progress_numbers[] = {
    NUMBER(gyre_glm_progress, objective), NUMBER(gyre_glm_progress, bound),           NUMBER(gyre_glm_progress, gap),
    NUMBER(gyre_glm_progress, seconds),   NUMBER(gyre_glm_progress, rows_per_second), NUMBER(gyre_glm_progress, seconds_left),
};
static const struct glm_number glm_test_numbers[] = {
    NUMBER(gyre_glm_metrics, loss),   NUMBER(gyre_glm_metrics, log_loss), NUMBER(gyre_glm_metrics, accuracy),      NUMBER(gyre_glm_metrics, precision),
    NUMBER(gyre_glm_metrics, recall), NUMBER(gyre_glm_metrics, auc),      NUMBER(gyre_glm_metrics, squared_error), NUMBER(gyre_glm_metrics, r2),
};
static const struct glm_number glm_report_numbers[] = {
    NUMBER(gyre_glm_report, objective),    NUMBER(gyre_glm_report, bound),         NUMBER(gyre_glm_report, gap),
    NUMBER(gyre_glm_report, open_seconds), NUMBER(gyre_glm_report, train_seconds),
};
#undef NUMBER

/* More digits than elsewhere: a gap is a difference of two of them. */
static void glm_json(const void *report, const struct glm_number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, (const char *)report + numbers[i].at, sizeof value);
        if (isfinite(value))
            printf(",\"%s\":%.13g", numbers[i].name, value);
        else
            printf(",\"%s\":null", numbers[i].name);
    }
}

static void glm_show_json(const struct gyre_glm_progress *p)
{
    printf("{\"event\":\"epoch\",\"model\":%d,\"models\":%d,\"epoch\":%d,\"epochs\":%d,\"rows\":%" PRId64, p->model, p->models, p->epoch, p->epochs,
           p->rows_done);
    glm_json(p, glm_progress_numbers, CLI_COUNT(glm_progress_numbers));
    puts("}");
    fflush(stdout);
}

static int glm_show(void *user, const struct gyre_glm_progress *p)
{
    const struct glm_show *s = user;
    char left[64], right[160], line[256], objective[48] = "", gap[32] = "", eta[32] = "";
    if (!s->leads || s->v->quiet)
        return cli_stop_signal();
    if (s->v->json) {
        if (p->certified)
            glm_show_json(p);
        return cli_stop_signal();
    }
    if (p->models > 1)
        snprintf(left, sizeof left, "class %d/%d  epoch %d", p->model + 1, p->models, p->epoch);
    else
        snprintf(left, sizeof left, "epoch %d", p->epoch);
    if (p->gap == p->gap)
        snprintf(gap, sizeof gap, "  gap %.2e", p->gap);
    if (p->seconds_left >= 0)
        snprintf(eta, sizeof eta, "  ETA %.0f s", p->seconds_left);
    if (p->objective == p->objective)
        snprintf(objective, sizeof objective, "objective %.9g", p->objective);
    snprintf(right, sizeof right, "%s%s  %.3g rows/s%s", objective, gap, p->rows_per_second, eta);
    snprintf(line, sizeof line, "%s  %s", left, right);
    return cli_progress_show(s->progress, left, (double)p->epoch / (double)(p->epochs > 0 ? p->epochs : 1), right, line, 1);
}

static void glm_say_test(const struct gyre_glm_metrics *m, const char *what)
{
    if (m->rows == 0 && m->unknown == 0)
        return;
    printf("%s: %" PRId64 " rows", what, m->rows);
    if (m->squared_error == m->squared_error)
        printf(", mean squared error %.9g, R2 %.9g", m->squared_error, m->r2);
    else
        printf(", %s %.8f, accuracy %.6f", m->log_loss == m->log_loss ? "log-loss" : "loss", m->loss, m->accuracy);
    if (m->auc == m->auc)
        printf(", AUC %.8f", m->auc);
    if (m->unknown)
        printf("; %" PRId64 " others have labels that the model does not know", m->unknown);
    putchar('\n');
}

static void glm_json_test(const struct gyre_glm_metrics *m)
{
    printf(",\"test\":{\"rows\":%" PRId64 ",\"unknown\":%" PRId64, m->rows, m->unknown);
    glm_json(m, glm_test_numbers, CLI_COUNT(glm_test_numbers));
    putchar('}');
}

static void glm_end_json(const struct gyre_glm_report *r, const char *model, int status)
{
    printf("{\"event\":\"end\",\"status\":\"%s\",\"solver\":\"%s\",\"why\":\"%s\",\"rows\":%" PRId64 ",\"entries\":%" PRId64 ",\"features\":%" PRIu32,
           gyre_status_name(status), r->solver, r->why, r->rows, r->entries, r->features);
    printf(",\"reached\":%s", r->reached ? "true" : "false");
    printf(",\"classes\":%d,\"models\":%d,\"ranks\":%d,\"threads\":%d,\"streamed\":%s,\"epochs\":%d,\"rounds\":%d", r->classes, r->models, r->ranks, r->threads,
           r->streamed ? "true" : "false", r->epochs, r->rounds);
    glm_json(r, glm_report_numbers, CLI_COUNT(glm_report_numbers));
    if (r->test.rows)
        glm_json_test(&r->test);
    if (model) {
        printf(",\"model\":");
        cli_json_text(stdout, model);
    }
    puts("}");
}

static void glm_end(const struct glm_values *v, const struct gyre_glm_report *r, const char *model, int status)
{
    if (v->quiet)
        return;
    if (v->json) {
        glm_end_json(r, model, status);
        return;
    }
    printf("rows: %" PRId64 " of %" PRIu32 " features, %" PRId64 " entries%s; %.2f s to open them\n", r->rows, r->features, r->entries,
           r->streamed ? ", streamed" : "", r->open_seconds);
    if (model)
        printf("model: %s\nobjective: %.12g, bound %.12g, gap %.2e, proved\n", model, r->objective, r->bound, r->gap);
    printf("solver: %s, %d epochs in %.3f s, until %s\n", r->solver, r->epochs, r->train_seconds, r->why);
    glm_say_test(&r->test, v->folds ? "cross-validation" : "test");
}

/* ---- running ---- */

static int glm_train_save(const struct glm_values *v, const struct gyre_glm *model, const char *path, const struct gyre_glm_report *r, int leads, int status)
{
    struct gyre_error error;
    if (leads && model && gyre_glm_save(model, path, &error) != GYRE_OK)
        return cli_error(&error);
    if (leads)
        glm_end(v, r, model ? path : NULL, status);
    return CLI_OK;
}

/* A gap that was asked for and not reached gives its own exit code. A target or validation that was
 * met first does not. */
static int glm_reached(const struct glm_values *v, const struct gyre_glm_report *r)
{
    if (r->reached || strcmp(r->why, "target") == 0 || strcmp(r->why, "validation") == 0)
        return CLI_OK;
    return cli_fail(CLI_UNPROVED, "the gap is %.2g, not %g; training ended by '%s'%s; --gap 0 asks for none", r->gap, v->gap, r->why,
                    strcmp(r->why, "rounding") == 0 ? ": weights are floats, and about this is the least" : "");
}

static int glm_train_with(const struct glm_values *v, struct gyre_glm_config *c, const char *path)
{
    struct gyre_glm_report report;
    struct gyre_glm *model = NULL;
    struct gyre_error error;
    struct glm_show show = { .v = v, .leads = gyre_job_rank(c->job) == 0 };
    show.progress = cli_progress_open(CLI_PROGRESS_AUTO);
    if (!show.progress)
        return cli_fail(CLI_RESOURCES, "out of memory: the progress bar");
    c->progress = glm_show;
    c->user = &show;
    cli_catch_signals();
    const int status = gyre_glm_train(&model, c, &report, &error);
    cli_progress_close(show.progress);
    if (status == GYRE_E_STATE)
        return cli_fail(CLI_USAGE, "%s (--resume, --overwrite, --out)", error.text);
    const int failed = status != GYRE_OK && status != GYRE_E_STOPPED ? cli_error(&error) : CLI_OK;
    if (failed != CLI_OK && !model)
        return failed;
    const int code = glm_train_save(v, model, path, &report, show.leads, status);
    gyre_glm_close(model);
    if (failed != CLI_OK) /* by the test rows alone: the model is there */
        return failed;
    if (code == CLI_OK && status != GYRE_OK)
        return cli_fail(CLI_STOPPED, "stopped; the model is as good as it was then");
    return code == CLI_OK && show.leads ? glm_reached(v, &report) : code;
}

/* As liblinear names it: the data's name without folders, and .model. */
static int glm_model_path(char path[4096], char *const *args, int count)
{
    const char *slash = strrchr(args[0], '/');
    return count > 1 ? cli_path(path, 4096, "%s", args[1]) : cli_path(path, 4096, "%s.model", slash ? slash + 1 : args[0]);
}

/* With folds no model is written. */
static int glm_train_spares(const struct glm_values *v, const char *rows, const char *model)
{
    const char *const to[] = { v->folds ? NULL : model, v->trace };
    const char *const from[] = { rows, v->test };
    int code = cli_spare(to[1], to[0]);
    for (int i = 0; i < 4 && code == CLI_OK; i++)
        code = cli_spare(to[i / 2], from[i % 2]);
    return code;
}

static int glm_can_write(const struct glm_values *v, const char *model)
{
    const int code = v->folds ? CLI_OK : cli_can_write(model);
    return code == CLI_OK && v->trace ? cli_can_write(v->trace) : code;
}

static int glm_train_run(const void *values, char **args, int count)
{
    const struct glm_values *v = values;
    char path[4096], *test[1] = { NULL };
    struct gyre_glm_data train, other;
    struct gyre_glm_config c;
    struct gyre_error error;
    int code = glm_config(v, &c);
    if (code == CLI_OK)
        code = glm_model_path(path, args, count);
    if (code == CLI_OK)
        code = glm_train_spares(v, args[0], path);
    if (code != CLI_OK)
        return code;
    cli_glm_data(&train, &v->data, args, 1);
    c.train = &train;
    c.log = train.log;
    if (v->test) {
        cli_glm_data(&other, &v->data, test, 1);
        other.files = &v->test;
        c.test = &other;
    }
    if (gyre_job_open(&c.job, NULL, &error) != GYRE_OK)
        return cli_error(&error);
    if (gyre_job_rank(c.job) == 0)
        code = glm_can_write(v, path);
    if (code == CLI_OK)
        code = glm_train_with(v, &c, path);
    code = cli_job_end(c.job, code);
    gyre_job_close(c.job);
    return code;
}

const struct cli_command cmd_glm_train = {
    .name = "glm train", .args = "DATA [MODEL]", .about = "trains a linear model", .least = 1, .most = 2, .bytes = sizeof(struct glm_values),
    .groups = { { glm_train_rows, CLI_COUNT(glm_train_rows), 0 }, CLI_GLM_GROUP(struct glm_values, data) },
    .shorts = glm_shorts, .words = glm_words, .run = glm_train_run,
    .details =
        "Minimises  sum of losses + l2/2 |w|^2 + l1 |w|_1  over the rows of DATA: a block file of 'gyre glm convert', or text, .gz too.\n"
        "Losses are summed, so l2 is 1/C of liblinear and scikit-learn. MODEL is a text that liblinear reads; default: DATA.model\n"
        "in this folder; a name that ends in .onnx is written as ONNX.\n\n"
        "liblinear's options -s -c -e -B -R -wLABEL -v -q -m are understood; -e is the gap: within which part of the optimum the\n"
        "objective is proved to be. Under 'gyre launch -n N' the rows are dealt to N processes that train one model.\n"
        "Ctrl-C ends the epoch, writes the model as it is and exits with code 6. A model that is not proved to be within --gap is written,\n"
        "too, with exit code 7; epochs on the way show the solver's own estimates.\n\n"
        "Examples:\n"
        "  gyre glm train a9a --l2 1 --gap 1e-6 --test a9a.t\n"
        "  gyre glm train -s 3 -c 0.5 -w1 2 a9a a9a.model\n"
        "  gyre glm train clicks.blocks clicks.model --memory 4000 --trace trace.svg\n"
        "  gyre launch -n 4 -- gyre glm train clicks.blocks --out runs/clicks --resume\n",
};
