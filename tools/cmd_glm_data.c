/* SPDX-License-Identifier: MIT */
/* cmd_glm_data.c: gyre glm convert, inspect, generate, predict; gyre.c has their rows. gyre glm
 * train is in cmd_glm.c, gyre glm verify in cmd_glm_verify.c. */
#include "tools/lab/lab.h"
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>

struct glm_data_values {
    int64_t append, block_rows, threads, json, quiet;
    struct cli_glm_options data;
};

#define AT(member) offsetof(struct glm_data_values, member)
#define GLM_THREADS_ROW { "threads", "N", "0", "0: all processors", CLI_WHOLE, AT(threads), 0, 4096 }
static const struct cli_option glm_convert_rows[] = {
    { "append", NULL, NULL, "behind what BLOCKS holds", CLI_FLAG, AT(append), 0, 0 },
    { "block-rows", "N", "0", "rows of a block; 0: 65536, fewer where rows are long", CLI_WHOLE, AT(block_rows), 0, 1 << 20 },
    GLM_THREADS_ROW,
    { "json", NULL, NULL, "one JSON object", CLI_FLAG, AT(json), 0, 0 },
};
static const struct cli_option glm_inspect_rows[] = { { "json", NULL, NULL, "one JSON object", CLI_FLAG, AT(json), 0, 0 } };
#undef AT

/* ---- convert, inspect ---- */

static int glm_convert_show(void *progress, int64_t done, int64_t total)
{
    char right[64], line[96], a[32], b[32];
    snprintf(right, sizeof right, "%s of %s", cli_bytes(a, (double)done), cli_bytes(b, (double)total));
    snprintf(line, sizeof line, "text: %s", right);
    return cli_progress_show(progress, "text", (double)done / (double)(total > 0 ? total : 1), right, line, 10);
}

static int glm_convert_run(const void *values, char **args, int count)
{
    const struct glm_data_values *v = values;
    struct gyre_glm_convert_config c;
    struct gyre_glm_data data;
    struct gyre_error error;
    gyre_glm_convert_default(&c);
    cli_glm_data(&data, &v->data, args, count - 1);
    c.from = &data;
    c.to = args[count - 1];
    c.append = (int)v->append;
    c.block_rows = (int32_t)v->block_rows;
    c.threads = (int)v->threads;
    for (int i = 0; i + 1 < count; i++)
        if (cli_spare(c.to, args[i]) != CLI_OK)
            return CLI_USAGE;
    struct cli_progress *progress = v->json ? NULL : cli_progress_open(CLI_PROGRESS_AUTO);
    if (progress) {
        c.progress = glm_convert_show;
        c.user = progress;
        cli_catch_signals();
    }
    const int status = gyre_glm_convert(&c, (int)v->json, &cli_stdout, &error);
    cli_progress_close(progress);
    return status == GYRE_OK ? CLI_OK : cli_error(&error);
}

const struct cli_command cmd_glm_convert = {
    .name = "glm convert", .args = "FILE... BLOCKS", .about = "makes a block file of rows in text files", .least = 2, .most = 1 << 20,
    .bytes = sizeof(struct glm_data_values),
    .groups = { { glm_convert_rows, CLI_COUNT(glm_convert_rows), 0 }, CLI_GLM_GROUP(struct glm_data_values, data) },
    .run = glm_convert_run,
    .details =
        "Text is svmlight (label id:value ...), libffm (label field:id:value ...), Criteo's tab-separated lines or its CSV (13 numbers,\n"
        "26 categories, hashed), or CSV of numbers; .gz too. All threads read; the result does not depend on them.\n\n"
        "Examples:\n"
        "  gyre glm convert a9a a9a.blocks\n"
        "  gyre glm convert day_0.gz day_1.gz clicks.blocks --format criteo --hash-bits 22\n"
        "  gyre glm convert frappe.libfm frappe.blocks --zero-based\n",
};

static int glm_inspect_run(const void *values, char **args, int count)
{
    const struct glm_data_values *v = values;
    struct gyre_glm_data data;
    struct gyre_error error;
    int code = CLI_OK;
    for (int i = 0; i < count && code == CLI_OK; i++) {
        cli_glm_data(&data, &v->data, args + i, 1);
        if (gyre_glm_print_inspect(args[i], &data, (int)v->json, &cli_stdout, &error) != GYRE_OK)
            code = cli_error(&error);
    }
    return code;
}

const struct cli_command cmd_glm_inspect = {
    .name = "glm inspect", .args = "FILE...", .about = "says what a file of rows, or a linear model, holds", .least = 1, .most = 1 << 20,
    .bytes = sizeof(struct glm_data_values),
    .groups = { { glm_inspect_rows, CLI_COUNT(glm_inspect_rows), 0 }, CLI_GLM_GROUP(struct glm_data_values, data) },
    .run = glm_inspect_run,
    .details = "A block file and text are read whole and checked.\n\nExamples:\n  gyre glm inspect a9a.blocks\n  gyre glm inspect a9a.model --json\n",
};

/* ---- generate ---- */

struct glm_generate_values {
    int64_t rows, features, seed, first_row, text, threads, json;
    double zipf, rate, scale;
    const char *weights;
};

#define AT(member) offsetof(struct glm_generate_values, member)
static const struct cli_option glm_generate_rows[] = {
    { "rows", "N", "1000000", "how many", CLI_WHOLE, AT(rows), 1, 1e13 },
    { "features", "N", "1000000", "most of them: the largest fields are cut; 0: 33762577 and some", CLI_WHOLE, AT(features), 0, 4e9 },
    { "zipf", "X", "1.1", "how fast ids of a field become rare", CLI_REAL, AT(zipf), 1.001, 5 },
    { "rate", "X", "0.256", "of clicks (label 1; else 0)", CLI_REAL, AT(rate), 1e-6, 0.999999 },
    { "scale", "X", "1.1", "standard deviation of the planted scores", CLI_REAL, AT(scale), 0, 100 },
    { "seed", "N", "1", "of the planted model and of the rows", CLI_WHOLE, AT(seed), 0, 9e18 },
    { "first-row", "N", "0", "rows are a function of seed and number: a part, or others to test on", CLI_WHOLE, AT(first_row), 0, 1e15 },
    { "text", NULL, NULL, "svmlight text instead of blocks", CLI_FLAG, AT(text), 0, 0 },
    { "weights", "FILE", NULL, "write the planted model", CLI_TEXT, AT(weights), 0, 0 },
    GLM_THREADS_ROW,
    { "json", NULL, NULL, "one JSON object", CLI_FLAG, AT(json), 0, 0 },
};
#undef AT

static int glm_generate_show(void *progress, int64_t done, int64_t total)
{
    char right[64], line[96];
    snprintf(right, sizeof right, "%" PRId64 " of %" PRId64, done, total);
    snprintf(line, sizeof line, "rows: %s", right);
    return cli_progress_show(progress, "rows", (double)done / (double)total, right, line, 10);
}

static int glm_generate_run(const void *values, char **args, int count)
{
    const struct glm_generate_values *v = values;
    struct gyre_glm_generate_config c;
    struct gyre_glm_generated made;
    struct gyre_error error;
    (void)count;
    gyre_glm_generate_default(&c);
    c.to = args[0];
    c.text = (int)v->text;
    c.rows = v->rows;
    c.features = v->features;
    c.zipf = v->zipf;
    c.rate = v->rate;
    c.scale = v->scale;
    c.seed = (uint64_t)v->seed;
    c.first_row = v->first_row;
    c.weights = v->weights;
    c.threads = (int)v->threads;
    struct cli_progress *progress = v->json ? NULL : cli_progress_open(CLI_PROGRESS_AUTO);
    if (progress) {
        c.progress = glm_generate_show;
        c.user = progress;
        cli_catch_signals();
    }
    const int status = gyre_glm_generate(&c, &made, &error);
    cli_progress_close(progress);
    if (status != GYRE_OK)
        return cli_error(&error);
    printf(v->json ? "{\"rows\":%" PRId64 ",\"features\":%" PRIu32 ",\"rate\":%.9g,\"entropy\":%.9g,\"log_loss\":%.9g}\n"
                   : "%" PRId64 " rows of %" PRIu32 " features, clicks %.6f\nlog-loss of the planted model: %.9g expected, %.9g on these rows\n",
           v->rows, made.features, made.rate, made.entropy, made.log_loss);
    return CLI_OK;
}

const struct cli_command cmd_glm_generate = {
    .name = "glm generate", .args = "FILE", .about = "makes rows like those of a click log, of a planted model", .least = 1, .most = 1,
    .bytes = sizeof(struct glm_generate_values), .groups = { { glm_generate_rows, CLI_COUNT(glm_generate_rows), 0 } },
    .run = glm_generate_run,
    .details =
        "39 fields with one id each, as many and as skewed as in the Criteo display challenge; all values are 1. The log-loss of the\n"
        "planted model is the least that any model can reach on new rows, up to chance.\n\n"
        "Examples:\n"
        "  gyre glm generate clicks.blocks --rows 2000000 --weights planted.model\n"
        "  gyre glm generate clicks.test --rows 100000 --first-row 2000000\n",
};

/* ---- predict ---- */

struct glm_predict_values {
    int64_t probability, scores, threads, json, quiet;
    struct cli_glm_options data;
};

#define AT(member) offsetof(struct glm_predict_values, member)
static const struct cli_option glm_predict_rows[] = {
    { "probability", "0|1", "0", "1: a line of OUT has the label and the probabilities of all labels", CLI_WHOLE, AT(probability), 0, 1 },
    { "scores", NULL, NULL, "a line of OUT has the label and the scores", CLI_FLAG, AT(scores), 0, 0 },
    GLM_THREADS_ROW,
    { "json", NULL, NULL, "metrics as one JSON object", CLI_FLAG, AT(json), 0, 0 },
    { "quiet", NULL, NULL, "no metrics", CLI_FLAG, AT(quiet), 0, 0 },
};
#undef AT
#undef GLM_THREADS_ROW
static const struct cli_short glm_predict_shorts[] = { { "b", "probability" }, { "q", "quiet" }, { NULL, NULL } };

struct glm_predict {
    const struct glm_predict_values *v;
    struct gyre_glm_info info;
    struct cli_out to; /* OUT; of standard output its file alone; without OUT no file */
    int failed; /* 1: the model has no probabilities */
};

/* Of two classes the larger label comes first, as in the model's file. */
static int glm_predict_order(const struct glm_predict *p, int class) { return p->info.classes == 2 ? 1 - class : class; }

static int glm_predict_take(void *user, const struct gyre_glm_scores *s)
{
    struct glm_predict *p = user;
    const int classes = p->info.classes;
    p->failed = p->v->probability && !s->probability;
    if (p->failed)
        return 1;
    for (int c = 0; p->v->probability && s->first == 0 && c < classes; c++)
        fprintf(p->to.file, "%s%.9g%s", c ? " " : "labels ", (double)p->info.label[glm_predict_order(p, c)], c + 1 < classes ? "" : "\n");
    for (int32_t i = 0; i < s->count; i++) {
        fprintf(p->to.file, "%.9g", (double)s->label[i]);
        for (int c = 0; p->v->probability && c < classes; c++)
            fprintf(p->to.file, " %.9g", (double)s->probability[(int64_t)i * classes + glm_predict_order(p, c)]);
        for (int m = 0; p->v->scores && m < p->info.models; m++)
            fprintf(p->to.file, " %.9g", (double)s->score[(int64_t)i * p->info.models + m]);
        fputc('\n', p->to.file);
    }
    return cli_out_failed(&p->to) || cli_stop_signal();
}

static int glm_predict_with(struct glm_predict *p, const struct gyre_glm *model, char **args)
{
    struct gyre_glm_predict_config c;
    struct gyre_glm_data data;
    struct gyre_error error;
    gyre_glm_predict_default(&c);
    cli_glm_data(&data, &p->v->data, args, 1);
    c.data = &data;
    c.threads = (int)p->v->threads;
    c.json = (int)p->v->json;
    c.table = p->v->quiet || p->to.file == stdout ? NULL : &cli_stdout;
    c.take = p->to.file ? glm_predict_take : NULL;
    c.user = p;
    cli_catch_signals();
    const int status = gyre_glm_predict(model, &c, NULL, &error);
    if (p->failed)
        return cli_fail(CLI_USAGE, "glm predict: %s gives no probabilities: only logistic models do", args[1]);
    if (p->to.reason != 0)
        return CLI_OK; /* who closes it says so */
    if (status == GYRE_OK && c.table && c.json)
        putchar('\n');
    return status == GYRE_OK ? CLI_OK : cli_error(&error);
}

static int glm_predict_run(const void *values, char **args, int count)
{
    struct glm_predict p = { .v = values };
    struct gyre_glm *model;
    struct gyre_error error;
    if (count < 3 && (p.v->probability || p.v->scores))
        return cli_fail(CLI_USAGE, "glm predict: --%s is for the lines of OUT, and there is no OUT",
                        p.v->scores ? "scores" : "probability");
    for (int i = 0; i < 2 && count > 2; i++)
        if (cli_spare(args[2], args[i]) != CLI_OK)
            return CLI_USAGE;
    if (gyre_glm_load(&model, args[1], &error) != GYRE_OK)
        return cli_error(&error);
    gyre_glm_get_info(model, &p.info);
    int code = CLI_OK;
    if (count > 2 && strcmp(args[2], "-") == 0)
        p.to.file = stdout;
    else if (count > 2)
        code = cli_out_open(&p.to, args[2]);
    if (code == CLI_OK)
        code = glm_predict_with(&p, model, args);
    if (p.to.file && p.to.file != stdout)
        code = cli_out_close(&p.to, code);
    gyre_glm_close(model);
    return code;
}

const struct cli_command cmd_glm_predict = {
    .name = "glm predict", .args = "DATA MODEL [OUT]", .about = "labels of rows, and how good they are", .least = 2, .most = 3,
    .bytes = sizeof(struct glm_predict_values),
    .groups = { { glm_predict_rows, CLI_COUNT(glm_predict_rows), 0 }, CLI_GLM_GROUP(struct glm_predict_values, data) },
    .shorts = glm_predict_shorts, .run = glm_predict_run,
    .details =
        "MODEL is one of 'gyre glm train' or of liblinear. OUT gets a line a row, as liblinear's predict writes it; '-': standard output,\n"
        "without metrics. A block file is read block by block in bounded memory. The area under the curve is exact up to 2^23 rows.\n\n"
        "Examples:\n"
        "  gyre glm predict a9a.t a9a.model\n"
        "  gyre glm predict -b 1 a9a.t a9a.model labels.txt\n",
};
