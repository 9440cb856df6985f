/* SPDX-License-Identifier: MIT */
/* cmd_glm_verify.c: gyre glm verify: checks the claims in a linear model's file. gyre.c has its
 * row. */
#include "tools/cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cmd_verify_values {
    int64_t threads, json;
    double l1, l2, cost, gap, seconds;
    struct cli_glm_options data;
};

#define AT(member) offsetof(struct cmd_verify_values, member)
static const struct cli_option cmd_verify_rows[] = {
    { "gap", "X", "0", "to be proved beside: the objective is within this part of the optimum; 0: none", CLI_REAL, AT(gap), 0, 1 },
    { "l1", "X", "-1", "penalty of weights' sizes; below 0: the model's", CLI_REAL, AT(l1), -1, 1e30 },
    { "l2", "X", "-1", "penalty of squared weights; below 0: the model's, of liblinear's files 1", CLI_REAL, AT(l2), -1, 1e30 },
    { "seconds", "X", "0", "most of them for a bound of our own, where the weights' slopes prove too little; 0: no limit", CLI_REAL, AT(seconds), 0, 1e9 },
    { "threads", "N", "0", "0: all processors", CLI_WHOLE, AT(threads), 0, 4096 },
    { "json", NULL, NULL, "one JSON object a part", CLI_FLAG, AT(json), 0, 0 },
};
#undef AT

static void cmd_verify_json_number(const char *name, double value)
{
    if (isfinite(value))
        printf(",\"%s\":%.17g", name, value);
    else
        printf(",\"%s\":null", name);
}

static void cmd_verify_say(const struct cmd_verify_values *v, int k, const struct gyre_glm_part *part, const struct gyre_glm_verdict *verdict)
{
    const double gap = verdict->objective > 0 ? (verdict->objective - verdict->bound) / verdict->objective : 0;
    const char *const says = isfinite(part->objective) ? "holds" : "says nothing of itself";
    if (v->json) {
        printf("{\"event\":\"part\",\"part\":%d", k);
        cmd_verify_json_number("objective", verdict->objective);
        cmd_verify_json_number("bound", verdict->bound);
        cmd_verify_json_number("gap", gap);
        cmd_verify_json_number("said_objective", part->objective);
        cmd_verify_json_number("said_bound", part->bound);
        printf(",\"holds\":%s,\"what\":\"%s\"}\n", verdict->wrong ? "false" : "true", verdict->wrong ? verdict->wrong : says);
        return;
    }
    printf("part %d: objective %.12g, bound %.12g, gap %.2e, %s\n", k, verdict->objective, verdict->bound, gap,
           verdict->bound <= verdict->objective ? "proved" : "not proved");
    if (isfinite(part->objective))
        printf("        the file says objective %.12g, bound %.12g: %s\n", part->objective, part->bound, verdict->wrong ? verdict->wrong : says);
    else
        printf("        the file %s%s%s\n", says, verdict->wrong ? "; " : "", verdict->wrong ? verdict->wrong : "");
}

static int cmd_verify_parts(const struct cmd_verify_values *v, const struct gyre_glm *model, const struct gyre_glm_data *data, struct gyre_glm_verdict *verdict)
{
    struct gyre_glm_verify_config c;
    struct gyre_glm_info info;
    struct gyre_glm_part part;
    struct gyre_error error;
    int wrong = 0;
    gyre_glm_verify_default(&c);
    gyre_glm_get_info(model, &info);
    c.data = data;
    c.threads = (int)v->threads;
    c.l1 = v->l1;
    c.l2 = v->l2;
    c.gap = v->gap;
    c.seconds = v->seconds;
    c.log = data->log;
    if (gyre_glm_verify(model, &c, verdict, &error) != GYRE_OK)
        return cli_error(&error);
    const int parts = info.softmax && info.models > 1 ? 1 : info.models;
    for (int k = 0; k < parts; k++) {
        if (gyre_glm_get_part(model, k, &part) != GYRE_OK)
            return CLI_FAILED;
        cmd_verify_say(v, k, &part, &verdict[k]);
        wrong += verdict[k].wrong != NULL;
    }
    return wrong ? cli_fail(CLI_UNPROVED, "of %d of %d parts something does not hold", wrong, parts) : CLI_OK;
}

static int cmd_verify_run(const void *values, char **args, int count)
{
    const struct cmd_verify_values *v = values;
    struct gyre_glm_data data;
    struct gyre_glm_info info;
    struct gyre_glm *model;
    struct gyre_error error;
    (void)count;
    if (gyre_glm_load(&model, args[0], &error) != GYRE_OK)
        return cli_error(&error);
    cli_glm_data(&data, &v->data, args + 1, 1);
    gyre_glm_get_info(model, &info);
    struct gyre_glm_verdict *const verdict = calloc((size_t)info.models, sizeof *verdict);
    const int code = verdict ? cmd_verify_parts(v, model, &data, verdict) : cli_fail(CLI_RESOURCES, "out of memory: verdicts of %d parts", info.models);
    free(verdict);
    gyre_glm_close(model);
    return code;
}

const struct cli_command cmd_glm_verify = {
    .name = "glm verify", .args = "MODEL DATA", .about = "proves what a linear model's file says of itself", .least = 2, .most = 2,
    .bytes = sizeof(struct cmd_verify_values),
    .groups = { { cmd_verify_rows, CLI_COUNT(cmd_verify_rows), 0 }, CLI_GLM_GROUP(struct cmd_verify_values, data) },
    .run = cmd_verify_run,
    .details =
        "DATA are the rows that MODEL was trained on. Its objective is computed once more, every rounding counted, and a lower bound of the\n"
        "optimum from the slopes at its weights; where that proves less than the file says, the problem is solved again for a better one.\n"
        "Models of liblinear say nothing of themselves; --l2, or --l1, is then 1/C, of its L2R_L2LOSS_SVR types 1/(2C).\n"
        "Exit code 7: something that the file says does not hold.\n\n"
        "Examples:\n"
        "  gyre glm verify a9a.model a9a\n"
        "  gyre glm verify liblinear.model a9a --l2 0.5 --gap 1e-3\n",
};
