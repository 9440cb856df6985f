/* SPDX-License-Identifier: MIT */
/* glm_attempt.c: trains a drawn problem through the public interface. Rows are arrays or a block
 * file, in one run or in two; the model goes through its file. */
#include "engine/gyre_job.h"
#include "tests/glm_attempt.h"
#include "engine/base/clock.h"
#include "engine/base/hash.h"

static void ga_path(char path[400], const char *folder, const char *name) { snprintf(path, 400, "%s/%s", folder, name); }

/* ---- rows ---- */

struct ga_rows {
    int64_t start[GP_ROWS + 1];
    uint32_t id[GP_ROWS * GP_FEATURES + 1];
    float value[GP_ROWS * GP_FEATURES + 1];
};
static struct ga_rows ga_rows;

static void ga_arrays(const struct gp_case *c, struct gyre_glm_data *data)
{
    int64_t entries = 0;
    int ones = 1;
    for (int i = 0; i < c->rows; i++) {
        for (int j = 0; j < c->features; j++) {
            const float x = c->x[i * c->features + j];
            if (!gp_has(x))
                continue;
            ga_rows.id[entries] = (uint32_t)j;
            ga_rows.value[entries++] = x;
            ones &= x >= 1 && x <= 1;
        }
        ga_rows.start[i + 1] = entries;
    }
    data->rows = c->rows;
    data->start = ga_rows.start;
    data->id = ga_rows.id;
    data->value = ones ? NULL : ga_rows.value;
    data->label = c->label;
    data->weight = c->weighted ? c->weight : NULL;
    data->features = (uint32_t)c->features;
}

int ga_write_blocks(const struct gp_case *c, const char *folder, struct gyre_error *error)
{
    char path[400], blocks[400];
    const char *const text = path;
    struct gyre_glm_data from;
    struct gyre_glm_convert_config convert;
    ga_path(path, folder, "rows.svm");
    ga_path(blocks, folder, "rows.blocks");
    FILE *const file = fopen(text, "w");
    if (!file)
        return snprintf(error->text, sizeof error->text, "%s cannot be written", text), GYRE_E_IO;
    gp_svmlight(c, file);
    fclose(file);
    gyre_glm_data_default(&from);
    from.files = &text;
    from.file_count = 1;
    from.format = "svmlight";
    from.features = (uint32_t)c->features;
    from.log.level = GYRE_LOG_ERROR;
    gyre_glm_convert_default(&convert);
    convert.from = &from;
    convert.to = blocks;
    convert.block_rows = (int32_t)c->option[GP_BLOCK];
    convert.threads = 1;
    return gyre_glm_convert(&convert, 0, NULL, error);
}

/* Bytes of memory that the rows have not. */
static size_t ga_memory(const struct gp_case *c)
{
    size_t entries = 0;
    for (int e = 0; e < c->rows * c->features; e++)
        entries += (size_t)gp_has(c->x[e]);
    return 1 + (entries * 8 + (size_t)c->rows * 4) * 9 / 10 / (size_t)c->option[GP_RANKS];
}

/* ---- a training ---- */

struct ga_training {
    const struct gp_case *c;
    struct gyre_glm_data data;
    struct gyre_glm_config config;
    float factor, factor_label;
    int stop; /* after so many epochs; 0: never */
};

static int ga_progress(void *user, const struct gyre_glm_progress *p)
{
    const struct ga_training *const t = user;
    return t->stop && p->epoch >= t->stop;
}

static void ga_configure(struct ga_training *t, struct gyre_job *job, const char *run)
{
    static const char *const solvers[] = { NULL, "sdca", "newton", "l1" };
    const double *const option = t->c->option;
    struct gyre_glm_config *const g = &t->config;
    gyre_glm_config_default(g);
    g->train = &t->data;
    g->loss = (int)option[GP_LOSS];
    g->l1 = option[GP_L1];
    g->l2 = option[GP_L2];
    g->bias = option[GP_BIAS];
    g->bias_free = gp_on(t->c, GP_FREE);
    g->normalize = gp_on(t->c, GP_NORMALIZE);
    g->softmax = gp_on(t->c, GP_SOFTMAX);
    g->balanced = gp_on(t->c, GP_BALANCED);
    t->factor = (float)option[GP_FACTOR];
    t->factor_label = (float)option[GP_FACTOR_LABEL];
    g->weights = gp_on(t->c, GP_FACTOR);
    g->weight_label = &t->factor_label;
    g->weight_factor = &t->factor;
    g->solver = solvers[(int)option[GP_SOLVER]];
    g->threads = (int)option[GP_THREADS];
    g->pin = GYRE_PIN_OFF;
    g->job = job;
    g->gap = option[GP_GAP];
    g->target = option[GP_TARGET];
    g->validation = option[GP_VALIDATION];
    g->test = gp_on(t->c, GP_VALIDATION) ? &t->data : NULL;
    g->epochs = (int)option[GP_EPOCHS];
    g->seconds = option[GP_SECONDS];
    g->every = (int)option[GP_EVERY];
    g->seed = (uint64_t)option[GP_ORDER];
    g->memory_bytes = (int)option[GP_SOURCE] == GP_STREAMED ? ga_memory(t->c) : 0;
    g->folder = gp_on(t->c, GP_FOLDER) ? run : NULL;
    g->overwrite = gp_on(t->c, GP_FOLDER);
    g->log.level = GYRE_LOG_ERROR;
    g->progress = ga_progress;
    g->user = t;
}

static void ga_take_parts(const struct gyre_glm *model, struct gc_outcome *o)
{
    struct gyre_glm_info info;
    struct gyre_glm_part part;
    gyre_glm_get_info(model, &info);
    o->models = info.models;
    o->classes = info.classes;
    o->features = info.features;
    const size_t width = (size_t)info.features + (info.bias > 0);
    for (int k = 0; k < info.models && k < GP_CLASSES && width <= GP_WIDTH; k++) {
        if (gyre_glm_get_part(model, k, &part) != GYRE_OK)
            continue;
        o->part[k].objective = part.objective;
        o->part[k].bound = part.bound;
        o->part[k].loss = part.loss;
        o->part[k].epochs = part.epochs;
        snprintf(o->part[k].why, sizeof o->part[k].why, "%s", part.why ? part.why : "");
        memcpy(o->part[k].weight, part.weight, width * sizeof *part.weight);
    }
}

int ga_same(double a, double b) { return (isnan(a) && isnan(b)) || (a <= b && a >= b); }

/* ---- the model's file ---- */

/* 0, or -1: what could not be done is in o->verify. */
static int ga_verify(const struct ga_training *t, const struct gyre_glm *model, struct gc_outcome *o, struct gyre_glm_verdict verdict[GP_CLASSES])
{
    struct gyre_glm_verify_config config;
    struct gyre_error error = { 0 };
    gyre_glm_verify_default(&config);
    config.data = &t->data;
    config.threads = t->config.threads;
    config.seconds = 1;
    config.log.level = GYRE_LOG_ERROR;
    if (gyre_glm_verify(model, &config, verdict, &error) == GYRE_OK)
        return 0;
    snprintf(o->verify, sizeof o->verify, "%.290s", error.text);
    return -1;
}

/* Copies of the file with one number changed, its checksum made anew or not. */
static const struct ga_forgery {
    const char *number;
    double factor;
    int summed;        /* 1: loads, and verification must see it; 0: it must not load */
    const char *about;
} ga_forgeries[] = {
    { " objective ", 0.999, 1, "an objective a thousandth too low" },
    { " bound ", 1.01, 1, "a bound that is above the objective" },
    { " epochs ", 2, 0, "a number that was changed after the checksum" },
};

/* 0: there is nothing to change. */
static int ga_forge(const struct ga_forgery *f, const char *from, const char *to, const struct gc_part *part)
{
    static char text[1 << 20], tail[sizeof text / 2 + 1];
    FILE *const in = fopen(from, "r");
    const size_t bytes = in ? fread(text, 1, sizeof text / 2, in) : 0;
    text[bytes] = 0;
    if (in)
        fclose(in);
    char *const at = strstr(text, f->number);
    char *const end = at ? at + strlen(f->number) : text;
    const double value = strcmp(f->number, " bound ") == 0 ? part->objective : at ? strtod(end, NULL) : 0;
    if (!at || !(value > 1e-20))
        return 0;
    snprintf(tail, sizeof tail, "%s", end + strcspn(end, " \n"));
    snprintf(end, (size_t)(text + sizeof text - end), "%.17g%s", value * f->factor, tail);
    char *const sum = strstr(text, "\ncrc32c ");
    FILE *const out = sum ? fopen(to, "w") : NULL;
    if (!out)
        return 0;
    if (f->summed)
        snprintf(sum, (size_t)(text + sizeof text - sum), "\ncrc32c %08" PRIx32 "\nend\n", gy_crc32c(0, text, (size_t)(sum + 1 - text)));
    fputs(text, out);
    return fclose(out) == 0;
}

static void ga_try_forgery(const struct ga_training *t, const struct ga_forgery *f, const char *path, struct gc_outcome *o)
{
    struct gyre_glm_verdict verdict[GP_CLASSES];
    struct gyre_error error = { 0 };
    struct gyre_glm *forged = NULL;
    char other[400];
    snprintf(other, sizeof other, "%.380s.forged", path);
    if (!ga_forge(f, path, other, &o->part[0]))
        return;
    const int status = gyre_glm_load(&forged, other, &error);
    if ((status == GYRE_OK) != f->summed)
        snprintf(o->verify, sizeof o->verify, "%s: status %d, %.200s", f->about, status, error.text);
    else if (f->summed && ga_verify(t, forged, o, verdict) == 0 && !verdict[0].wrong)
        snprintf(o->verify, sizeof o->verify, "%s is taken", f->about);
    gyre_glm_close(forged);
}

/* What verification says of the file, and that it sees what is wrong with other ones. */
static void ga_verify_file(const struct ga_training *t, const struct gyre_glm *loaded, const char *path, struct gc_outcome *o)
{
    struct gyre_glm_verdict verdict[GP_CLASSES];
    const int parts = gp_is_softmax(t->c) ? 1 : o->models;
    if (ga_verify(t, loaded, o, verdict) != 0)
        return;
    o->verified = 1;
    for (int k = 0; k < parts && k < GP_CLASSES; k++) {
        o->verdict[k] = (struct gc_verdict){ .objective = verdict[k].objective, .least = verdict[k].least, .bound = verdict[k].bound };
        snprintf(o->verdict[k].wrong, sizeof o->verdict[k].wrong, "%s", verdict[k].wrong ? verdict[k].wrong : "");
    }
    for (size_t k = 0; k < GY_COUNT(ga_forgeries) && !o->verify[0]; k++)
        ga_try_forgery(t, &ga_forgeries[k], path, o);
}

/* What is judged is what the file holds; it must be what the model had. */
static void ga_through_file(const struct ga_training *t, const struct gyre_glm *model, const char *path, struct gc_outcome *o)
{
    struct gc_outcome before = *o;
    struct gyre_glm *loaded = NULL;
    struct gyre_error error = { 0 };
    ga_take_parts(model, &before);
    if (gyre_glm_save(model, path, &error) != GYRE_OK || gyre_glm_load(&loaded, path, &error) != GYRE_OK) {
        snprintf(o->file, sizeof o->file, "%.190s", error.text);
        return;
    }
    ga_take_parts(loaded, o);
    if (gp_on(t->c, GP_VERIFY) && gyre_job_rank(t->config.job) == 0)
        ga_verify_file(t, loaded, path, o);
    gyre_glm_close(loaded);
    for (int k = 0; k < o->models && k < GP_CLASSES; k++) {
        const struct gc_part *const a = &before.part[k], *const b = &o->part[k];
        const int numbers = ga_same(a->objective, b->objective) && ga_same(a->bound, b->bound) && ga_same(a->loss, b->loss);
        if (!numbers || a->epochs != b->epochs || strcmp(a->why, b->why) != 0)
            snprintf(o->file, sizeof o->file, "part %d was loaded with other facts than it was saved with", k);
        for (int j = 0; j < GP_WIDTH; j++)
            if (!ga_same((double)a->weight[j], (double)b->weight[j]))
                snprintf(o->file, sizeof o->file, "weight %d of part %d is %.9g in the file, not %.9g", j, k, (double)b->weight[j], (double)a->weight[j]);
    }
}

static void ga_train(struct ga_training *t, const char *file, struct gc_outcome *o)
{
    struct gyre_glm *model = NULL;
    struct gyre_glm_report report = { 0 };
    struct gyre_error error = { 0 };
    const int64_t began = gy_clock_ns();
    *o = (struct gc_outcome){ .ranks = (int)t->c->option[GP_RANKS], .threads = (int)t->c->option[GP_THREADS] };
    o->status = gyre_glm_train(&model, &t->config, &report, &error);
    o->seconds = (double)(gy_clock_ns() - began) * 1e-9;
    snprintf(o->text, sizeof o->text, "%s", o->status == GYRE_OK ? "" : error.text);
    if (!gc_is_model(o))
        return;
    snprintf(o->solver, sizeof o->solver, "%s", report.solver ? report.solver : "none");
    snprintf(o->why, sizeof o->why, "%s", report.why ? report.why : "none");
    o->objective = report.objective;
    o->bound = report.bound;
    o->gap = report.gap;
    o->epochs = report.epochs;
    o->streamed = report.streamed;
    o->reached = report.reached;
    ga_through_file(t, model, file, o);
    gyre_glm_close(model);
}

void ga_rank(const struct gp_case *c, struct gyre_job *job, const char *folder, struct gc_outcome *first, struct gc_outcome *last)
{
    static struct ga_training t; /* large */
    static char blocks[400], run[400], model[400];
    static const char *files[] = { blocks };
    char name[40];
    ga_path(blocks, folder, "rows.blocks");
    ga_path(run, folder, "run");
    snprintf(name, sizeof name, "model%d.txt", gyre_job_rank(job));
    ga_path(model, folder, name);
    t = (struct ga_training){ .c = c, .stop = (int)c->option[GP_STOP] };
    gyre_glm_data_default(&t.data);
    if (gp_on(c, GP_SOURCE)) {
        t.data.files = files;
        t.data.file_count = 1;
    } else
        ga_arrays(c, &t.data);
    ga_configure(&t, job, run);
    if (gp_on(c, GP_BEFORE)) { /* the folder holds another run, which is to be removed */
        t.config.l2 *= 2;
        t.stop = 0;
        ga_train(&t, model, first);
        t.config.l2 = c->option[GP_L2];
        t.stop = (int)c->option[GP_STOP];
    }
    memset(first, 0, sizeof *first);
    if (t.stop) {
        ga_train(&t, model, first);
        t.stop = 0;
        t.config.overwrite = 0;
        t.config.resume = 1;
    }
    ga_train(&t, model, last);
}
