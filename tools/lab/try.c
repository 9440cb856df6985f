/* SPDX-License-Identifier: MIT */
/* try.c: compiles a user's own kernel, checks it against the reference on random inputs, and times
 * it beside the library's variants of the op. tools/cmd_kernels.c calls it. It needs no net: only
 * what opens a device is filled in one. */
#include "tools/lab/lab.h"
#include "tools/lab/try_text.h"
#include "kernels/cuda/cuda_list.h"
#include "engine/base/file.h"
#include "kernels/devices.h"
#include "engine/run/engine.h"
#include "kernels/op_table.h"
#include "tools/lab/try_case.h"

GYRE_API void gyre_try_config_default(struct gyre_try_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->runs = 5;
    config->seed = 1;
}

#ifdef GY_NO_CUDA

GYRE_API int gyre_print_try(const struct gyre_config *config, const struct gyre_try_config *what, const struct gyre_sink *sink,
                            struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_print_try: config", error));
    GY_TRY(gy_given(what, "gyre_print_try: what", error));
    GY_TRY(gy_given(sink, "gyre_print_try: sink", error));
    struct gy_error err = { 0 };
    (void)config, (void)what, (void)sink;
    GY_FAIL(&err, GY_E_UNSUPPORTED, "this build has no CUDA");
    return gy_error_out(error, &err);
}

#else

#define TRY_FILE_MOST ((size_t)1 << 20)
#define TRY_WORK_MOST 2e10    /* multiplications: some ten seconds of the reference */
#define TRY_ROWS 40
#define TRY_TURN 1e-3         /* seconds: a run is repeated until it takes as long */
#define TRY_REPEATS 256

static const char *const try_types[] = { "f32", "bf16", "f16" };

struct try_run {
    struct gyre_try_config config;
    struct gyre_net *net;
    struct gy_sink sink;
    struct gy_error *err;
    struct gy_try head;
    int offline, emulated, checked;
    int clock; /* the device has one */
};

/* A kernel in the race: the user's, then the library's. */
struct try_racer {
    struct gy_op op;
    double seconds;
};

/* ---- kernels in words ---- */

static void try_print_head(struct try_run *r)
{
    gy_sink_printf(&r->sink, "  %-20s %-20s %14s %7s %7s  %s\n", "kernel", "entry", "blocks", "threads", "shared",
                   "regs  stack  spill   occ        us");
}

static void try_print_racer(struct try_run *r, const struct try_racer *a, const char *name, double best)
{
    struct gy_kernel_info k;
    char grid[48], said[48], time[48] = "";
    for (int l = 0; gy_cuda_list_info(r->net->backend_self, &a->op, l, &k); l++) {
        snprintf(grid, sizeof grid, "%ux%ux%u", k.grid[0], k.grid[1], k.grid[2]);
        if (k.reported)
            snprintf(said, sizeof said, "%4d %6d %6d %4.0f%%", k.registers, k.stack, k.spilled, 100 * k.occupancy);
        else
            snprintf(said, sizeof said, "%4s %6s %6s %5s", "-", "-", "-", "-");
        if (a->seconds > 0 && l == 0)
            snprintf(time, sizeof time, "%10.1f  %5.2f x", a->seconds * 1e6, a->seconds / best);
        gy_sink_printf(&r->sink, "  %-20.20s %-20.20s %14s %7u %7u  %s%s\n", l ? "" : name, k.entry, grid, k.threads, k.shared, said, time);
        time[0] = 0;
    }
}

/* ---- the race ---- */

static int try_ready(struct try_run *r, struct gy_try_case *c, struct gy_op *op)
{
    struct gyre_net *net = r->net;
    GY_TRY(net->backend->ready(net->backend_self, r->err));
    return r->offline ? GY_OK : gy_try_place(c, op, r->err);
}

/* Is there a clock? Whatever else is wrong ends the trial. */
static int try_find_clock(struct try_run *r, const struct gy_op *own)
{
    double seconds;
    const int status = r->offline ? GY_E_UNSUPPORTED : r->net->backend->lab->time(r->net->backend_self, own, 1, &seconds, r->err);
    r->clock = status == GY_OK;
    return status == GY_E_UNSUPPORTED ? GY_OK : status;
}

/* The library's variants that fit; without a clock the table's choice alone. */
static int try_collect(struct try_run *r, struct gy_try_case *c, struct try_racer racer[TRY_ROWS])
{
    struct gyre_net *net = r->net;
    const int all = r->clock;
    const char *name;
    int count = 1;
    for (int i = 0; count < TRY_ROWS && (i == 0 || all); i++) {
        name = all ? net->backend->lab->variant(net->backend_self, &racer[0].op, i) : NULL;
        if (all && !name)
            break;
        struct gy_op op = gy_try_op(c, "kernel");
        op.variant = name;
        /* A kernel that needs more than the device has is skipped. */
        if (net->backend->prepare(net->backend_self, &op, &c->arena, r->err) == GY_OK)
            racer[count++] = (struct try_racer){ .op = op };
    }
    r->err->status = GY_OK;
    return count;
}

static int try_time(struct try_run *r, struct try_racer *racer, int count)
{
    struct gyre_net *net = r->net;
    /* The first run warms up and tells how often a turn repeats. */
    for (int run = 0; run <= r->config.runs; run++)
        for (int i = 0; i < count; i++) {
            const double turns = racer[i].seconds > 0 ? TRY_TURN / racer[i].seconds : 1;
            const int repeats = (int)fmax(1, fmin(turns, TRY_REPEATS));
            double seconds;
            GY_TRY(net->backend->lab->time(net->backend_self, &racer[i].op, repeats, &seconds, r->err));
            racer[i].seconds = run <= 1 ? seconds : fmin(racer[i].seconds, seconds);
        }
    return GY_OK;
}

static void try_rank(struct try_racer *racer, int count)
{
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && racer[k].seconds < racer[k - 1].seconds; k--) {
            const struct try_racer t = racer[k];
            racer[k] = racer[k - 1];
            racer[k - 1] = t;
        }
}

static int try_race(struct try_run *r, struct gy_try_case *c, const struct gy_op *own)
{
    struct gyre_net *net = r->net;
    struct try_racer *const racer = gy_alloc_take(&net->alloc, TRY_ROWS, sizeof *racer);
    if (!racer)
        return GY_NOMEM(r->err, "the list of variants", TRY_ROWS * sizeof *racer);
    racer[0].op = *own;
    int status = try_find_clock(r, own);
    const int count = status == GY_OK ? try_collect(r, c, racer) : 0;
    for (int i = 1; i < count && status == GY_OK; i++)
        status = try_ready(r, c, &racer[i].op);
    if (status == GY_OK && r->clock) {
        status = try_time(r, racer, count);
        try_rank(racer, count);
    }
    double best = HUGE_VAL; /* of the library's */
    for (int i = 0; i < count; i++)
        best = racer[i].op.kernel != own->kernel ? fmin(best, racer[i].seconds) : best;
    try_print_head(r);
    for (int i = 0; i < count && status == GY_OK; i++)
        try_print_racer(r, &racer[i], racer[i].op.kernel == own->kernel ? "this file" : racer[i].op.variant, best);
    gy_alloc_free(&net->alloc, racer, TRY_ROWS * sizeof *racer);
    return status;
}

/* ---- one shape ---- */

static int try_own(struct try_run *r, const struct gy_try_case *c, struct gy_op *op)
{
    struct gy_cuda_cut cut;
    GY_TRY(gy_try_cut(&r->head, &c->geom, c->dtype, &cut, r->err));
    *op = gy_try_op(c, "kernel");
    return gy_cuda_list_own(r->net->backend_self, op, &cut, r->err);
}

/* Without a device nobody else says that a launch names no kernel of the file. */
static int try_find_kernels(const struct try_run *r, const struct gy_op *op)
{
    struct gy_kernel_info k;
    for (int l = 0; gy_cuda_list_info(r->net->backend_self, op, l, &k); l++)
        if (!k.reported)
            return GY_FAIL(r->err, GY_E_FORMAT, "%.200s has no kernel '%.60s', which a line launches", r->head.path, k.entry);
    return GY_OK;
}

static int try_run_case(struct try_run *r, struct gy_try_case *c)
{
    struct gyre_net *net = r->net;
    const int check = gy_try_work(&r->head, &c->geom) <= TRY_WORK_MOST;
    struct gy_op op;
    double most = 0;
    GY_TRY(try_own(r, c, &op));
    /* A compile error is reported before memory is taken. */
    GY_TRY(net->backend->ready(net->backend_self, r->err));
    if (r->offline) {
        GY_TRY(try_find_kernels(r, &op));
    } else {
        GY_TRY(gy_try_case_open(c, &net->alloc, check, r->err));
        GY_TRY(gy_try_place(c, &op, r->err));
    }
    if (!r->offline && check) {
        GY_TRY(gy_try_check(c, &op, &most, r->err));
        gy_sink_printf(&r->sink, "right: two runs, the same bits; the largest error is %.0f %% of what is allowed\n", 100 * most);
        r->checked++;
    } else {
        gy_sink_printf(&r->sink, "%s\n", r->offline ? "compiled, not run" : "not checked: the reference would take too long");
    }
    return try_race(r, c, &op);
}

static int try_run_shapes(struct try_run *r)
{
    for (int d = 0; d < r->head.dtypes; d++)
        for (int s = 0; s < r->head.shapes; s++) {
            const struct gy_geom *g = &r->head.shape[s];
            struct gy_try_case c = { .t = &r->head, .geom = *g, .dtype = r->head.dtype[d], .guard = r->emulated ? 0 : 256,
                                     .seed = r->config.seed + (uint64_t)s, .backend = r->net->backend, .self = r->net->backend_self };
            gy_sink_printf(&r->sink, "%s %s %" PRId64 "x%dx%dx%d -> %dx%dx%d: ", gy_op_row(r->head.code)->name, try_types[c.dtype], g->n,
                           (int)g->h, (int)g->w, (int)g->c, (int)g->p, (int)g->q, (int)g->k);
            const int status = try_run_case(r, &c);
            gy_try_case_close(&c);
            if (status != GY_OK)
                gy_sink_printf(&r->sink, "refused\n");
            GY_TRY(status);
        }
    if (!r->offline && !r->checked)
        return GY_FAIL(r->err, GY_E_ARG, "%.200s: no shape is small enough to be checked; add one", r->head.path);
    return GY_OK;
}

/* ---- the call ---- */

static int try_open(struct try_run *r, const struct gyre_config *config)
{
    struct gyre_net *net = r->net;
    struct gyre_config mine;
    struct gy_device device;
    gyre_config_default(&mine);
    memcpy(&mine, config, config->size < sizeof mine ? config->size : sizeof mine);
    mine.size = sizeof mine;
    mine.net = mine.net ? mine.net : "";
    GY_TRY(gy_config_copy(&net->config, &mine, r->err));
    net->alloc = gy_alloc_default();
    net->log = gy_log_of(&net->config.log);
    gy_device_parse(net->config.device, &device);
    r->offline = device.kind == GY_DEVICE_ARCH;
    r->emulated = device.kind == GY_DEVICE_EMU;
    const int status = gy_engine_open_device(net);
    if (status != GY_OK)
        *r->err = net->error;
    else if (net->caps.host_memory)
        return GY_FAIL(r->err, GY_E_UNSUPPORTED, "kernels are tried on a GPU (cuda), the emulator (emu) or for an architecture (sm_90), "
                       "not on %s", net->caps.device);
    return status;
}

static int try_print(struct try_run *r, const struct gyre_config *config, const char *text)
{
    GY_TRY(gy_try_read(&r->head, r->config.file, text, r->err));
    GY_TRY(try_open(r, config));
    gy_sink_printf(&r->sink, "%s on %s\n", r->config.file, r->net->caps.device);
    GY_TRY(try_run_shapes(r));
    if (r->emulated && !r->clock)
        gy_sink_printf(&r->sink, "no times: the emulator's mean nothing; a GPU ranks it beside every variant of the library\n");
    return r->sink.failed ? GY_FAIL(r->err, GY_E_IO, "the list could not be written") : GY_OK;
}

static int try_main(struct try_run *r, const struct gyre_config *config)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *text = NULL;
    size_t bytes = 0;
    if (!r->config.file || r->config.runs < 1 || r->config.runs > 1000)
        return GY_FAIL(r->err, GY_E_ARG, "a kernel to try needs a file, and runs in 1 .. 1000");
    r->net = gy_alloc_take(&alloc, 1, sizeof *r->net);
    if (!r->net)
        return GY_NOMEM(r->err, "a device", sizeof *r->net);
    int status = gy_file_read(&alloc, r->config.file, TRY_FILE_MOST, &text, &bytes, r->err);
    if (status == GY_OK)
        status = try_print(r, config, text);
    if (r->net->backend)
        r->net->backend->close(r->net->backend_self);
    gy_alloc_free(&alloc, text, bytes + 1);
    gy_alloc_free(&alloc, r->net, sizeof *r->net);
    return status;
}

GYRE_API int gyre_print_try(const struct gyre_config *config, const struct gyre_try_config *what, const struct gyre_sink *sink,
                            struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_print_try: config", error));
    GY_TRY(gy_given(what, "gyre_print_try: what", error));
    GY_TRY(gy_given(sink, "gyre_print_try: sink", error));
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct try_run *const r = gy_alloc_take(&alloc, 1, sizeof *r);
    int status = r ? GY_OK : GY_NOMEM(&err, "a kernel to try", sizeof *r);
    if (r) {
        gyre_try_config_default(&r->config);
        r->sink = gy_sink_of(sink);
        r->err = &err;
        status = gy_config_take(&r->config, sizeof r->config, what, sizeof r->config.size, "try config", &err);
        if (status == GY_OK)
            status = try_main(r, config);
        gy_alloc_free(&alloc, r, sizeof *r);
    }
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

#undef TRY_FILE_MOST
#undef TRY_WORK_MOST
#undef TRY_ROWS
#undef TRY_TURN
#undef TRY_REPEATS
#endif
