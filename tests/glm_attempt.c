/* SPDX-License-Identifier: MIT */
/* Trains a drawn problem through the public interface: rows as arrays or as a block file, in one run or in two, and the model through its file. */
#include "glm_attempt.h"
#include "../engine/base/clock.h"

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
        o->part[k].why[0] = 0; /* a part's own reason, where the interface has one, goes here */
        memcpy(o->part[k].weight, part.weight, width * sizeof *part.weight);
    }
}

int ga_same(double a, double b) { return (isnan(a) && isnan(b)) || (a <= b && a >= b); }

/* What is judged is what the file holds; it must be what the model had. */
static void ga_through_file(const struct gyre_glm *model, const char *path, struct gc_outcome *o)
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
    gyre_glm_close(loaded);
    for (int k = 0; k < o->models && k < GP_CLASSES; k++) {
        const struct gc_part *const a = &before.part[k], *const b = &o->part[k];
        if (!ga_same(a->objective, b->objective) || !ga_same(a->bound, b->bound) || !ga_same(a->loss, b->loss) || a->epochs != b->epochs)
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
    ga_through_file(model, file, o);
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
