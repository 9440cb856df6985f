/* SPDX-License-Identifier: MIT */
/* t_cuda_glm.c: linear models on a device. The kernels of glm.cu run op by op beside plain loops on
 * the host, then in whole runs. The device is the emulator, or a GPU ('t_cuda_glm cuda'). The
 * emulator checks every access for races and bounds. Certificates are made here once more, plainly,
 * in double. Last come kernels that are wrong on purpose: all must be noticed. */
#include "tests/glm_device_ops.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define CG_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CG_NO_EMULATOR 1
#endif
#endif

/* ---- whole runs ---- */

struct cg_feed {
    struct gy_glm_feed feed;
    const struct cg_data *d;
    int views, at, pass, shuffled;
    uint32_t *start;           /* of each view */
};

static int cg_shuffle(void *self, int on, uint64_t seed, struct gy_error *err)
{
    (void)seed, (void)err;
    ((struct cg_feed *)self)->shuffled = on;
    return GY_OK;
}

/* Hands out the rows in views of equal size; the last may be shorter. shuffled: each pass begins
 * with another view. */
static int cg_next(void *self, struct gy_rows *rows, struct gy_error *err)
{
    struct cg_feed *f = self;
    const struct gy_rows *all = &f->d->rows;
    const int each = (all->count + f->views - 1) / f->views, which = f->shuffled ? (f->at + f->pass) % f->views : f->at;
    const int first = which * each, count = f->at < f->views ? (int)gy_min64(each, all->count - first) : 0;
    (void)err;
    *rows = *all;
    f->at = count > 0 ? f->at + 1 : 0;
    f->pass += count <= 0;
    rows->count = count;
    if (count <= 0)
        return GY_OK;
    const uint32_t begin = gy_rows_begin(all, first);
    uint32_t *const start = f->start + first + which;
    for (int i = 0; all->start && i <= count; i++)
        start[i] = all->start[first + i] - begin;
    rows->first = first;
    rows->start = all->start ? start : NULL;
    rows->id = all->id + begin;
    rows->value = all->value ? all->value + begin : NULL;
    rows->label += first;
    rows->weight = all->weight ? all->weight + first : NULL;
    rows->scale = all->scale ? all->scale + first : NULL;
    return GY_OK;
}

struct cg_model {
    struct gy_alloc alloc;
    struct cg_feed feed;
    struct gy_glm_problem problem;
    struct gy_glm_run run;
    struct gy_glm_device device;
    struct gy_error err;
    size_t most_used;          /* of device memory, while it ran */
    int stop_after;
    int checks;                /* of validation */
};

/* Bytes of device memory in use, on the emulator. */
static size_t cg_used(void)
{
    size_t left = 0, total = 0;
    return cg_memory && cg_memory(&left, &total) == 0 ? total - left : 0;
}

static int cg_progress(void *user, const struct gy_glm_progress *p)
{
    struct cg_model *m = user;
    const size_t used = cg_used();
    m->most_used = used > m->most_used ? used : m->most_used;
    return m->stop_after && p->epoch >= m->stop_after;
}

static void cg_model_make(struct cg_model *m, const struct cg_data *d, int loss, double l2, double bias, int views, int resident)
{
    memset(m, 0, sizeof *m);
    m->alloc = gy_alloc_default();
    m->problem = cg_problem(loss, l2, bias);
    m->feed = (struct cg_feed){ .feed = { .next = cg_next, .shuffle = resident ? NULL : cg_shuffle, .self = &m->feed,
                                          .rows = d->rows.count, .entries = d->entries, .all_rows = d->rows.count,
                                          .features = d->features, .most_rows = d->rows.count, .most_entries = d->entries, .views = views,
                                          .resident = resident }, .d = d, .views = views,
                                .start = cg_take((size_t)(d->rows.count + 2 * views)) };
    m->run = (struct gy_glm_run){ .problem = &m->problem, .feed = &m->feed.feed, .alloc = &m->alloc, .pool = cg_pool,
                                  .stop = { .gap = 1e-4, .epochs = 400 }, .seed = 3,
                                  .w = cg_take(d->features + 1), .dual = cg_take((size_t)d->rows.count), .progress = cg_progress, .user = m };
    m->device = (struct gy_glm_device){ .name = cg_device, .use_env = 1 };
}

static void cg_model_free(struct cg_model *m)
{
    free(m->feed.start);
    free(m->run.w);
    free(m->run.dual);
}

/* The gap of what came out, in double, from weights and dual variables alone. */
static double cg_gap(const struct cg_model *m, double *primal)
{
    const struct cg_data *d = m->feed.d;
    const struct gy_glm_problem *p = &m->problem;
    double *const made = calloc(d->features + 1, sizeof *made), P = 0, D = 0, square;
    for (int i = 0; i < d->rows.count; i++) {
        const float y = gy_glm_y(p, &d->rows, i), c = gy_glm_c(p, &d->rows, i, y);
        const double a = (double)gy_glm_loss_of(p)->coefficient(y, m->run.dual[i], c) / p->l2;
        if (!(c > 0))
            continue;
        P += (double)c * gy_glm_loss_of(p)->value((double)y, cg_dot(d, p, i, m->run.w, &square));
        D += gy_glm_conjugate(gy_glm_loss_of(p), (double)y, (double)m->run.dual[i], (double)c);
        for (uint32_t j = gy_rows_begin(&d->rows, i); j < gy_rows_end(&d->rows, i); j++)
            made[d->id[j]] += a * cg_value(&d->rows, i, j);
        made[d->features] += a * p->bias;
    }
    for (uint32_t f = 0; f < d->features + (p->bias != 0); f++) {
        const double size = fabs(made[f]) - p->l1 / p->l2;
        P += 0.5 * p->l2 * (double)m->run.w[f] * (double)m->run.w[f] + p->l1 * fabs((double)m->run.w[f]);
        D -= size > 0 ? 0.5 * p->l2 * size * size : 0;
    }
    free(made);
    *primal = P;
    return (P - D) / fabs(P);
}

/* One run to the gap; the primal objective, or 0. */
static double cg_solve(struct cg_model *m, const char *what)
{
    double primal = 0;
    const int status = gy_glm_solve_on(&m->run, &m->device, &m->err);
    T_CHECK_MSG(status == GY_OK, "%s: %s", what, m->err.text);
    if (status != GY_OK)
        return 0;
    const double gap = cg_gap(m, &primal);
    printf("%s: %d epochs, gap %.2g, objective %.9g\n", what, m->run.epochs, gap, primal);
    T_CHECK_MSG(m->run.why == GY_GLM_GAP, "%s: ends by rule %d", what, (int)m->run.why);
    T_CHECK_MSG(gap >= -1e-9 && gap <= 1.01 * m->run.stop.gap, "%s: gap %g", what, gap);
    T_CHECK_MSG(fabs(m->run.result.primal - primal) <= 1e-6 * fabs(primal), "%s: certificate says %.12g, not %.12g", what, m->run.result.primal, primal);
    return primal;
}

/* All losses and forms, with as many rows at a time as the device takes. */
static void cg_runs(void)
{
    /* each loss takes one case, in turn */
    static const struct { int form, rows, width; uint32_t features; double l2, bias, l1; } cases[] = {
        { CG_VALUES, 300, 13, 13, 1, 1, 0 }, { CG_START | CG_SCALE, 300, 12, 200, 3, 0, 2 }, { CG_START | CG_VALUES | CG_WEIGHT, 300, 10, 150, 4, 1, 0 },
        { CG_VALUES | CG_LONG, 120, 10, 2100, 20, 0, 0 } };
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        const size_t k = (size_t)loss % GY_COUNT(cases);
        struct cg_data d = cg_make(cases[k].form, cases[k].rows, cases[k].width, cases[k].features, loss, 900);
        struct cg_model m;
        cg_model_make(&m, &d, loss, cases[k].l2, cases[k].bias, 2, 1);
        m.problem.l1 = cases[k].l1;
        cg_solve(&m, gy_glm_loss_name(loss));
        cg_model_free(&m);
        cg_free(&d);
    }
}

/* With an eighth of the data's bytes beside the model, views come one after another. Dual variables
 * stay on the device or travel, and rows in memory are mixed. The optimum is the same, and memory
 * never exceeds its limit. In a fixed order the gap closes slowly; there `loose` is enough. */
static void cg_streamed(const struct cg_data *d, double l2, double loose, const char *what)
{
    const size_t model = 8 * (size_t)d->features + 8192, whole = gy_glm_pack_most(d->rows.count, d->entries), rows = 8 * (size_t)d->rows.count;
    const struct { size_t memory; int views, resident; } cases[] = { { 0, 1, 1 }, { model + whole / 8 + rows, 3, 0 }, { model + whole / 8, 2, 0 },
                                                                     { model + whole / 8, 4, 1 } };
    double first = 0;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        struct cg_model m;
        char name[100];
        snprintf(name, sizeof name, "%s in %zu bytes", what, cases[i].memory);
        cg_model_make(&m, d, GY_GLM_LOGISTIC, l2, 0, cases[i].views, cases[i].resident);
        m.device.memory = cases[i].memory;
        m.run.stop.gap = cases[i].resident ? 1e-4 : loose;
        const double primal = cg_solve(&m, name);
        T_CHECK_MSG(i == 0 || fabs(primal - first) <= m.run.stop.gap * first, "%s: %.9g is not %.9g", name, primal, first);
        T_CHECK_MSG(i == 0 || m.most_used < cases[i].memory + 4096, "%s: %zu bytes were in use", name, m.most_used);
        T_CHECK(i == 0 || strcmp(cg_device, "emu") != 0 || m.most_used > cases[i].memory / 4);
        T_CHECK(i == 0 || m.run.epochs < 45);
        first = i == 0 ? primal : first;
        cg_model_free(&m);
    }
}

static void cg_streams(void)
{
    struct cg_data d = cg_make(CG_START | CG_VALUES, 900, 16, 300, GY_GLM_LOGISTIC, 1200);
    cg_streamed(&d, 5, 1e-4, "generated rows");
    cg_free(&d);
}

/* The first rows of a9a, as the file has them. */
static int cg_read_a9a(struct cg_data *d, int count)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    const char *const folder = getenv("GYRE_TEST_DATA");
    FILE *const f = folder && gy_file_join(path, sizeof path, folder, "glm/a9a", NULL) == 0 ? fopen(path, "r") : NULL;
    if (!f)
        return 0;
    *d = (struct cg_data){ .features = 123, .start = cg_take((size_t)count + 1), .id = cg_take((size_t)count * 15), .label = cg_take((size_t)count) };
    int i = 0;
    for (; i < count && getline(&line, &room, f) > 0; i++) {
        char *at = line;
        d->label[i] = (float)strtol(at, &at, 10);
        for (d->start[i + 1] = d->start[i]; *at == ' ' && at[1] >= '0'; d->start[i + 1]++) {
            d->id[d->start[i + 1]] = (uint32_t)strtol(at, &at, 10) - 1;
            at += strcspn(at, " \n");
        }
    }
    free(line);
    fclose(f);
    d->entries = d->start[i];
    d->rows = (struct gy_rows){ .count = i, .start = d->start, .id = d->id, .same = 1, .label = d->label };
    return 1;
}

static void cg_a9a(void)
{
    struct cg_data d;
    if (!cg_read_a9a(&d, 2000)) {
        T_SKIP("a9a: no GYRE_TEST_DATA");
        return;
    }
    T_CHECK(d.rows.count == 2000 && d.entries > 20000);
    cg_streamed(&d, 10, 1e-3, "a9a");
    cg_free(&d);
}

/* A run that the caller stops, and one that goes on from its dual variables. */
static void cg_stopped(void)
{
    struct cg_data d = cg_make(CG_START | CG_VALUES, 300, 12, 80, GY_GLM_LOGISTIC, 77);
    struct cg_model m;
    double primal;
    cg_model_make(&m, &d, GY_GLM_LOGISTIC, 3, 0, 1, 1);
    m.stop_after = 8;
    m.run.stop.gap = 1e-9;
    T_CHECK(gy_glm_solve_on(&m.run, &m.device, &m.err) == GY_E_STOPPED && m.run.epochs == 8);
    const double gap = cg_gap(&m, &primal);
    T_CHECK_MSG(gap < 0.2 && gap > 0, "%g", gap);
    m.stop_after = 0;
    m.run.has_dual = 1;
    m.run.first_epoch = 8;
    m.run.stop.gap = 1e-4;
    memset(m.run.w, 0, 4 * (size_t)d.features);
    cg_solve(&m, "resumed");
    cg_model_free(&m);
    cg_free(&d);
}

static int cg_validate(void *user, const float *w, double *loss, struct gy_error *err)
{
    struct cg_model *const m = user;
    (void)w, (void)err;
    *loss = fmax(6, 9 - m->checks++);
    return GY_OK;
}

/* Losses 9, 8, 7, 6 and 6 again: at the seventh, three checks have brought nothing. */
static void cg_validated(void)
{
    struct cg_data d = cg_make(CG_START | CG_VALUES, 300, 12, 80, GY_GLM_LOGISTIC, 77);
    struct cg_model m;
    cg_model_make(&m, &d, GY_GLM_LOGISTIC, 3, 0, 1, 1);
    m.run.stop = (struct gy_glm_stop){ .validation = 0.01, .epochs = 400 };
    m.run.validate = cg_validate;
    T_CHECK_MSG(gy_glm_solve_on(&m.run, &m.device, &m.err) == GY_OK, "%s", m.err.text);
    T_CHECK_MSG(m.checks == 7 && m.run.why == GY_GLM_VALIDATION, "%d checks, ends by rule %d", m.checks, (int)m.run.why);
    cg_model_free(&m);
    cg_free(&d);
}

/* However a run ends, its certificate is of the weights and dual variables that it leaves. */
static void cg_ends(void)
{
    static const struct { struct gy_glm_stop stop; int stop_after; enum gy_glm_why why; } cases[] = {
        { { .gap = 1e-9, .epochs = 6, .every = 4 }, 0, GY_GLM_EPOCHS }, { { .gap = 1e-9, .epochs = 60, .every = 40 }, 3, GY_GLM_GOES_ON },
        { { .gap = 1e-9, .epochs = 60, .every = 2 }, 5, GY_GLM_GOES_ON }, { { .gap = 1e-9, .epochs = 60, .seconds = 1e-6 }, 0, GY_GLM_TIME },
        { { .validation = 0.01, .epochs = 60, .every = 1 }, 0, GY_GLM_VALIDATION }, { { .gap = 1e-3, .epochs = 60 }, 0, GY_GLM_GAP },
        { { .gap = 1e-15, .epochs = 400 }, 0, GY_GLM_ROUNDING } };
    struct cg_data d = cg_make(CG_START | CG_VALUES, 200, 12, 80, GY_GLM_LOGISTIC, 77);
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        struct cg_model m;
        double primal;
        cg_model_make(&m, &d, GY_GLM_LOGISTIC, 3, 0, 1, 1);
        m.run.stop = cases[i].stop;
        m.stop_after = cases[i].stop_after;
        m.run.validate = m.run.stop.validation > 0 ? cg_validate : NULL;
        m.problem.l1 = 0.3;
        const int status = gy_glm_solve_on(&m.run, &m.device, &m.err);
        const double gap = cg_gap(&m, &primal);
        T_CHECK_MSG(status == (m.stop_after ? GY_E_STOPPED : GY_OK) && (m.stop_after || m.run.why == cases[i].why) && m.run.epochs < 400,
                    "case %zu: %d, rule %d after %d epochs", i, status, (int)m.run.why, m.run.epochs);
        T_CHECK_MSG(fabs(m.run.result.primal - primal) <= 1e-9 * primal && fabs(m.run.result.gap - gap * primal) <= 1e-5 * primal,
                    "case %zu: P %.12g, the weights' is %.12g; gap %g, the dual numbers' is %g", i, m.run.result.primal, primal, m.run.result.gap,
                    gap * primal);
        cg_model_free(&m);
    }
    cg_free(&d);
}

/* ---- ranks ---- */

struct cg_shared {
    float w[64], dual[400];
    double primal[2];
    int epochs[2];
};

enum { CG_RANK_ROWS = 200, CG_RANK_WIDTH = 8 };
static struct cg_data cg_rank_data(void) { return cg_make(CG_VALUES, 2 * CG_RANK_ROWS, CG_RANK_WIDTH, 40, GY_GLM_LOGISTIC, 600); }

/* Half of the rows. */
static int cg_rank(void *user, struct gyre_job *job, int rank)
{
    struct cg_shared *shared = user;
    struct cg_data whole = cg_rank_data(), half = whole;
    struct cg_model m;
    const struct gy_alloc alloc = gy_alloc_default();
    if (gy_pool_open(&cg_pool, &alloc, 1, NULL) != GY_OK)
        return 0;
    half.rows.count = CG_RANK_ROWS;
    half.entries = CG_RANK_ROWS * CG_RANK_WIDTH;
    half.rows.id += rank * half.entries;
    half.rows.value += rank * half.entries;
    half.rows.label += rank * CG_RANK_ROWS;
    cg_model_make(&m, &half, GY_GLM_LOGISTIC, 2, 0, 2, 1);
    m.feed.feed.all_rows = 2 * CG_RANK_ROWS;
    m.run.job = job;
    if (gy_glm_solve_on(&m.run, &m.device, &m.err) != GY_OK)
        printf("rank %d: %s\n", rank, m.err.text);
    memcpy(shared->w, m.run.w, 4 * (size_t)half.features);
    memcpy(shared->dual + rank * CG_RANK_ROWS, m.run.dual, 4 * CG_RANK_ROWS);
    shared->primal[rank] = m.run.result.primal;
    shared->epochs[rank] = m.run.epochs;
    cg_model_free(&m);
    cg_free(&whole);
    gy_pool_close(cg_pool);
    cg_pool = NULL;
    return 1;
}

/* Two ranks, each with a device: the optimum of all rows. */
static void cg_ranks(void)
{
    struct cg_shared *const shared = gr_memory(sizeof *shared);
    struct cg_data d = cg_rank_data();
    struct cg_model m;
    double primal;
    T_CHECK(gr_run(2, cg_rank, shared));
    cg_model_make(&m, &d, GY_GLM_LOGISTIC, 2, 0, 1, 1);
    memcpy(m.run.w, shared->w, 4 * (size_t)d.features);
    memcpy(m.run.dual, shared->dual, sizeof shared->dual);
    const double gap = cg_gap(&m, &primal);
    printf("two ranks: %d epochs, gap %.2g, objective %.9g\n", shared->epochs[0], gap, primal);
    T_CHECK_MSG(gap >= -1e-9 && gap <= 1.01e-4 && shared->epochs[0] == shared->epochs[1], "%g after %d and %d epochs", gap, shared->epochs[0],
                shared->epochs[1]);
    T_CHECK(shared->primal[0] == shared->primal[1] && fabs(shared->primal[0] - primal) <= 1e-6 * primal);
    cg_model_free(&m);
    cg_free(&d);
}

static void cg_refuse(const struct cg_data *d, int which, int status, const char *says)
{
    struct cg_model m;
    cg_model_make(&m, d, GY_GLM_LOGISTIC, 3, 1, 1, 1);
    m.problem.l2 = which == 0 ? 0 : 3;
    m.problem.bias_free = which == 1;
    m.device.memory = which == 2 ? 10000 : which == 3 ? 16000 : 0;
    m.device.name = which == 4 ? "abacus" : which == 5 ? "sm_90" : cg_device;
    const int got = gy_glm_solve_on(&m.run, &m.device, &m.err);
    T_CHECK_MSG(got == status && strstr(m.err.text, says), "%d: %d, %s", which, got, m.err.text);
    cg_model_free(&m);
}

static void cg_refusals(void)
{
    static const struct { int status; const char *says; } cases[] = { { GY_E_UNSUPPORTED, "an l2 above 0" }, { GY_E_UNSUPPORTED, "a bias that is penalised" },
        { GY_E_NOMEM, "10000 bytes is too little" }, { GY_E_NOMEM, "has 300 entries and does not fit" }, { GY_E_NODEVICE, "'abacus' is not known" },
        { GY_E_NODEVICE, "'sm_90' is an architecture, not a device" } };
    struct cg_data d = cg_make(CG_VALUES | CG_LONG, 30, 12, 600, GY_GLM_LOGISTIC, 6);
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_op op = { .code = GY_OP_GLM_STEP, .geom = { .n = 8, .k = 8 } };
    struct gy_error err = { 0 };
    void *cpu = NULL, *nothing = NULL;
    for (size_t i = 0; i < GY_COUNT(cases); i++)
        cg_refuse(&d, (int)i, cases[i].status, cases[i].says);
    if (T_CHECK(gy_cpu_backend()->open(&cpu, &(struct gy_backend_config){ .alloc = &alloc, .threads = 1 }, &err) == GY_OK)) {
        T_CHECK(gy_cpu_backend()->prepare(cpu, &op, NULL, &err) == GY_E_UNSUPPORTED && strstr(err.text, "linear models"));
        gy_cpu_backend()->close(cpu);
    }
    if (T_CHECK(gy_cuda_backend()->open(&nothing, &(struct gy_backend_config){ .alloc = &alloc, .threads = 1, .arch = 90 }, &err) == GY_OK)) {
        T_CHECK(gy_cuda_backend()->sync(nothing) == GY_E_NODEVICE);
        gy_cuda_backend()->close(nothing);
    }
    cg_free(&d);
}

/* ---- kernels that are wrong on purpose ---- */

/* glm.cu with one place changed. */
static char *cg_spoil(const char *from, const char *to)
{
    const char *const text = gy_cuda_source("glm.cu"), *const at = strstr(text, from);
    if (!T_CHECK(at != NULL))
        return NULL;
    const size_t bytes = strlen(text) + strlen(to) + 1;
    char *const out = calloc(1, bytes);
    snprintf(out, bytes, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

/* The emulator as after a new start: a device that failed stays so. */
static void cg_reset(struct cg_ops *o)
{
    int (*reset)(void) = NULL;
    void *const symbol = dlsym(o->self->lib.runtime, "cudaDeviceReset");
    memcpy(&reset, &symbol, sizeof reset);
    T_CHECK(reset && reset() == 0);
}

static void cg_faults(void)
{
    /* says: the emulator's error; NULL: the values are wrong */
    static const struct { const char *from, *to, *says; int rows; } faults[] = {
        { "gy_atomic_add(w + v->id[j], scaled * (v->value ? v->value[j] : v->same))", "w[v->id[j]] += scaled * (v->value ? v->value[j] : v->same)",
          "race: ", 8 },
        { "gy_load_live(w + id)", "w[id]", "race: ", 8 },
        { "while (x >= (uint32_t)count)", "while (x < 0)", "out of bounds", 1 },
        { "u->loss_scale * square * u->lr", "square * u->lr", NULL, 1 },
        { "(uint64_t)round << 32 | right", "(uint64_t)(round + 1) << 32 | right", NULL, 1 } };
    struct cg_data d = cg_make(CG_VALUES | CG_START, 45, 9, 60, GY_GLM_LOGISTIC, 100);
    const struct gy_glm_problem p = cg_problem(GY_GLM_LOGISTIC, 2, 0);
    for (size_t i = 0; i < GY_COUNT(faults); i++) {
        struct cg_ops o;
        char *const text = cg_spoil(faults[i].from, faults[i].to);
        if (!text || !T_CHECK(cg_open(&o)))
            return;
        o.text = text;
        setenv("GYRE_EMU_QUIET", "1", 1);
        if (cg_prepare(&o, GY_GLM_LOGISTIC, faults[i].rows, 600)) {
            const double apart = cg_epochs(&o, &d, &p, 2);
            T_CHECK_MSG(faults[i].says ? apart < 0 && strstr(o.said, faults[i].says) : apart > 1e-3, "fault %zu: %g, %s", i, apart, o.said);
        }
        unsetenv("GYRE_EMU_QUIET");
        if (faults[i].says)
            cg_reset(&o);
        o.b->close(o.self);
        free(text);
    }
    cg_free(&d);
}

int main(int argc, char **argv)
{
    struct cg_ops o;
    cg_device = argc > 1 ? argv[1] : "emu";
    setvbuf(stdout, NULL, _IOLBF, 4096);
#ifdef CG_NO_EMULATOR
    if (strcmp(cg_device, "emu") == 0) {
        T_SKIP("no emulator under ThreadSanitizer");
        T_END("t_cuda_glm");
    }
#endif
    if (!cg_open(&o))
        T_END("t_cuda_glm");
    if (strcmp(cg_device, "emu") == 0) { /* forks: nothing may be open */
        o.b->close(o.self);
        cg_ranks();
        T_CHECK(cg_open(&o));
    }
    const struct gy_alloc alloc = gy_alloc_default();
    void *const symbol = dlsym(o.self->lib.runtime, "cudaMemGetInfo");
    if (!T_CHECK(gy_pool_open(&cg_pool, &alloc, 2, NULL) == GY_OK))
        T_END("t_cuda_glm");
    if (strcmp(cg_device, "emu") == 0) /* of a GPU others have a part */
        memcpy(&cg_memory, &symbol, sizeof symbol);
    cg_sequential(&o);
    cg_once_each(&o);
    cg_sums(&o);
    cg_runs();
    cg_streams();
    cg_a9a();
    cg_stopped();
    cg_validated();
    cg_ends();
    cg_refusals();
    o.b->close(o.self); /* until here: it holds the library */
    if (strcmp(cg_device, "emu") == 0)
        cg_faults();
    gy_pool_close(cg_pool);
    T_END("t_cuda_glm");
}
