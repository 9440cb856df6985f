/* SPDX-License-Identifier: MIT */
/* kernel_list.c: lists a GPU's kernels for people, for packs and for audits (tools/cmd_kernels.c).
 * No kernel runs. A net is measured, and meanwhile its kernels are compiled and inspected, on a
 * machine with or without a GPU. */
#include "tools/lab/lab.h"
#include "engine/base/text_plain.h"
#include "kernels/cuda/cuda_list.h"
#include "kernels/devices.h"
#include "engine/run/kernel_notes.h"

struct klist_job {
    const struct gyre_kernels_config *config;
    struct gy_sink *sink;
    struct gy_kernel_pack *pack;
    struct gy_error *err;
    int status;
    int launches, spilling, hot; /* of the list; hot: spilling kernels of convolutions */
};

GYRE_API void gyre_kernels_config_default(struct gyre_kernels_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
}

static int klist_ready(const struct gyre_net *net, struct gy_error *err)
{
    if (net->caps.host_memory)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "device '%s' has no kernels that are compiled; 'sm_90' lists those of that GPU",
                       net->config.device);
    return gy_cuda_list_ready(net->backend_self, err);
}

/* ---- the list ---- */

static void klist_line(struct klist_job *job, const struct gy_op *op, const char *program, int index, const struct gy_kernel_info *k)
{
    char grid[48], said[96] = "      -      -      -    -";
    snprintf(grid, sizeof grid, "%ux%ux%u", k->grid[0], k->grid[1], k->grid[2]);
    if (k->reported)
        snprintf(said, sizeof said, "%7d %6d %6d %3.0f%%", k->registers, k->stack, k->spilled, 100 * k->occupancy);
    gy_sink_printf(job->sink, "%-8s %4d %-16s %-26.26s %-18s %-16s %-18s %.12s %14s %7u %7u %s\n", program, index,
                   gy_op_row(op->code)->name, op->name, k->row, k->file, k->entry, k->source, grid, k->threads, k->shared, said);
    job->launches++;
    job->spilling += k->spilled > 0;
    job->hot += k->spilled > 0 && k->hot;
}

/* The engine's own ops have no kernel. */
static int klist_selected(const struct klist_job *job, const struct gy_op *op)
{
    return op->kernel && (!job->config->layer || strcmp(job->config->layer, op->name) == 0);
}

static void klist_print(struct klist_job *job, const struct gyre_net *net)
{
    struct gy_kernel_info k;
    gy_sink_printf(job->sink, "kernels of %s\n%-8s %4s %-16s %-26s %-18s %-16s %-18s %-12s %14s %7s %7s %7s %6s %6s %4s\n",
                   net->caps.device, "program", "op", "does", "layer", "kernel", "file", "entry", "hash", "blocks", "threads", "shared",
                   "regs", "stack", "spill", "occ");
    for (int p = 0; p < GY_PROGRAMS; p++)
        for (int i = 0; i < net->plan.program[p].count; i++) {
            const struct gy_op *op = &net->plan.program[p].ops[i];
            for (int l = 0; klist_selected(job, op) && gy_cuda_list_info(net->backend_self, op, l, &k); l++)
                klist_line(job, op, gy_program_name(p), i, &k);
        }
    gy_sink_printf(job->sink, "%d launches, %d of kernels that spill registers, %d of them convolutions\n", job->launches, job->spilling,
                   job->hot);
}

/* ---- dumps ---- */

/* Every op of the layer, one after another; machine code of the first only, since it is no text. */
static int klist_dump(struct klist_job *job, const struct gyre_net *net)
{
    const int form = job->config->form - GYRE_KERNELS_SOURCE;
    int found = 0;
    for (int p = 0; p < GY_PROGRAMS; p++)
        for (int i = 0; i < net->plan.program[p].count; i++) {
            const struct gy_op *op = &net->plan.program[p].ops[i];
            if (!klist_selected(job, op) || (job->config->op && strcmp(job->config->op, gy_op_row(op->code)->name) != 0) ||
                (form == GY_KERNEL_CUBIN && found))
                continue;
            if (form != GY_KERNEL_CUBIN)
                gy_sink_printf(job->sink, "// ---- %s op %d, %s of layer '%s' ----\n", gy_program_name(p), i, gy_op_row(op->code)->name,
                               op->name);
            GY_TRY(gy_cuda_list_dump(net->backend_self, op, form, job->sink, job->err));
            found = 1;
        }
    const char *const layer = job->config->layer, *const op = job->config->op;
    return found ? GY_OK : GY_FAIL(job->err, GY_E_ARG, "no op of the net%s%s%s%s%s", layer ? " is of layer '" : "", layer ? layer : "",
                                   layer ? op ? "' and does " : "'" : "", op && !layer ? " does " : "", op ? op : "");
}

static void klist_look(void *user, const struct gyre_net *net)
{
    struct klist_job *job = user;
    job->status = net->caps.host_memory || job->config->form == GYRE_KERNELS_LIST || job->config->form == GYRE_KERNELS_CUBIN
                      ? klist_ready(net, job->err) : GY_OK;
    if (job->status == GY_OK && job->config->form != GYRE_KERNELS_LIST)
        job->status = klist_dump(job, net);
    else if (job->status == GY_OK)
        klist_print(job, net);
}

GYRE_API int gyre_print_kernels(const struct gyre_config *config, const struct gyre_kernels_config *what, const struct gyre_sink *sink,
                                struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_print_kernels: config", error));
    GY_TRY(gy_given(sink, "gyre_print_kernels: sink", error));
    struct gy_error err = { 0 };
    struct gyre_kernels_config kernels;
    struct gyre_need need;
    struct gy_sink out = gy_sink_of(sink);
    gyre_kernels_config_default(&kernels);
    struct klist_job job = { .config = &kernels, .sink = &out, .err = &err };
    int status = what ? gy_config_take(&kernels, sizeof kernels, what, sizeof kernels.size, "kernels config", &err) : GY_OK;
    if (status == GY_OK && (kernels.form < GYRE_KERNELS_LIST || kernels.form > GYRE_KERNELS_CUBIN))
        status = GY_FAIL(&err, GY_E_ARG, "kernels config.form is %d; it must be in %d .. %d", kernels.form, GYRE_KERNELS_LIST, GYRE_KERNELS_CUBIN);
    if (status == GY_OK)
        status = gy_engine_measure(config, &need, klist_look, &job, &err);
    if (status == GY_OK)
        status = job.status;
    if (status == GY_OK && out.failed)
        status = GY_FAIL(&err, GY_E_IO, "the list could not be written");
    if (status == GY_OK && kernels.strict && job.hot)
        status = GY_FAIL(&err, GY_E_BUG, "%d launches of convolutions spill registers", job.hot);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* ---- packs ---- */

static void klist_collect(void *user, const struct gyre_net *net)
{
    struct klist_job *job = user;
    job->status = klist_ready(net, job->err);
    if (job->status == GY_OK)
        job->status = gy_cuda_list_collect(net->backend_self, job->pack, job->err);
}

static int klist_pack(const struct gyre_config *config, const int *archs, int count, const char *path, struct gy_error *err)
{
    struct gy_kernel_pack pack = { .count = 0 };
    struct klist_job job = { .pack = &pack, .err = err };
    struct gyre_config one;
    gyre_config_default(&one);
    int status = gy_config_take(&one, sizeof one, config, sizeof one.size, "config", err);
    if (status == GY_OK && count < 1)
        status = GY_FAIL(err, GY_E_ARG, "gyre_pack_kernels: %d architectures", count);
    for (int i = 0; i < count && status == GY_OK; i++) {
        struct gyre_need need;
        char device[16];
        snprintf(device, sizeof device, "sm_%d", archs[i]);
        one.device = device;
        status = gy_engine_measure(&one, &need, klist_collect, &job, err);
        status = status == GY_OK ? job.status : status;
    }
    if (status == GY_OK)
        status = gy_cuda_list_write(&pack, path, err);
    gy_cuda_list_close(&pack);
    return status;
}

GYRE_API int gyre_pack_kernels(const struct gyre_config *config, const int *archs, int count, const char *path, struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_pack_kernels: config", error));
    GY_TRY(gy_given(archs, "gyre_pack_kernels: archs", error));
    GY_TRY(gy_given(path, "gyre_pack_kernels: path", error));
    struct gy_error err = { 0 };
    const int status = klist_pack(config, archs, count, path, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* ---- audits ---- */

/* What a checkpoint says of its kernels. */
struct klist_record {
    char device[32], texts[65], code[65];
    int count;
};

struct klist_audit {
    struct klist_record now;
    struct gy_error *err;
    int status;
};

static void klist_audit_look(void *user, const struct gyre_net *net)
{
    struct klist_audit *audit = user;
    audit->status = klist_ready(net, audit->err);
    if (audit->status == GY_OK)
        gy_cuda_list_hash(net->backend_self, audit->now.texts, audit->now.code, &audit->now.count);
}

static int klist_record_read(const char *line, struct klist_record *was)
{
    char count[16];
    int64_t number;
    if (gy_text_word(&line, was->device, sizeof was->device) != 0 || gy_text_word(&line, count, sizeof count) != 0 ||
        gy_text_int(count, 0, INT_MAX, &number) != 0 || gy_text_word(&line, was->texts, sizeof was->texts) != 0)
        return 0;
    was->count = (int)number;
    return gy_text_word(&line, was->code, sizeof was->code) == 0;
}

static int klist_audit_read(const char *path, struct klist_record *was, struct gyre_config *config, struct gy_error *err)
{
    struct gyre_error error;
    char line[512];
    const int status = gyre_read_note(path, "kernels", line, sizeof line, &error);
    if (status == GYRE_E_ARG)
        return GY_FAIL(err, GY_E_ARG, "%.300s records no kernels: it was not trained on a GPU", path);
    if (status != GYRE_OK)
        return GY_FAIL(err, status, "%s", error.text);
    gy_text_plain(line, sizeof line);
    const int record = klist_record_read(line, was), second = gyre_read_note(path, "kernels.config", line, sizeof line, &error);
    if (second != GYRE_OK && second != GYRE_E_ARG)
        return GY_FAIL(err, second, "%s", error.text);
    if (!record || second != GYRE_OK || !gy_kernel_notes_config(line, config))
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: its note of kernels is damaged", path);
    config->device = was->device;
    return GY_OK;
}

static int klist_audit_net(const char *path, struct gyre_config *config, struct klist_audit *audit)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gyre_error error;
    struct gyre_need need;
    const size_t room = (size_t)1 << 20;
    char *const text = gy_alloc_take(&alloc, 2 * room, 1);
    if (!text)
        return GY_NOMEM(audit->err, "the net's text", 2 * room);
    char *const rows = text + room;
    int status = gyre_read_net(path, text, room, NULL, &error);
    if (status != GYRE_OK)
        status = GY_FAIL(audit->err, status, "%s", error.text);
    const int tuned = status == GY_OK ? gyre_read_note(path, "kernels.tune", rows, room, &error) : GYRE_OK;
    if (tuned != GYRE_OK && tuned != GYRE_E_ARG)
        status = GY_FAIL(audit->err, tuned, "%s", error.text);
    config->net = text;
    config->tune = tuned == GYRE_OK ? rows : "off";
    if (status == GY_OK)
        status = gy_engine_measure(config, &need, klist_audit_look, audit, audit->err);
    gy_alloc_free(&alloc, text, 2 * room);
    return status == GY_OK ? audit->status : status;
}

/* The rows of 'gyre tune' that chose kernels, if any. */
static int klist_audit_rows(const char *path, struct gy_sink *sink, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gyre_error error;
    char *const text = gy_alloc_take(&alloc, GY_NOTE_BYTES, 1);
    if (!text)
        return GY_NOMEM(err, "the rows of kernels", GY_NOTE_BYTES);
    const int status = gyre_read_note(path, "kernels.tune", text, GY_NOTE_BYTES, &error);
    if (status == GYRE_OK)
        for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
            char row[1024];
            snprintf(row, sizeof row, "%.*s", (int)gy_min64((int64_t)strcspn(at, "\n"), 400), at);
            gy_text_plain(row, sizeof row);
            if (at != text)
                gy_sink_printf(sink, "  %s\n", row);
        }
    gy_alloc_free(&alloc, text, GY_NOTE_BYTES);
    return status == GYRE_OK || status == GYRE_E_ARG ? GY_OK : GY_FAIL(err, status, "%s", error.text);
}

static int klist_audit_run(const char *path, const struct gyre_logger *log, struct gy_sink *sink, struct gy_error *err)
{
    struct klist_record was;
    struct klist_audit audit = { .err = err };
    struct gyre_config config;
    gyre_config_default(&config);
    config.use_env = 1;
    config.log = *log;
    GY_TRY(klist_audit_read(path, &was, &config, err));
    gy_sink_printf(sink, "%s: %d kernels on %s\n  recorded texts and macros  %s\n  recorded machine code      %s\n", path, was.count,
                   was.device, was.texts, was.code);
    GY_TRY(klist_audit_rows(path, sink, err));
    GY_TRY(klist_audit_net(path, &config, &audit));
    const int texts = strcmp(was.texts, audit.now.texts) == 0, code = strcmp(was.code, audit.now.code) == 0;
    gy_sink_printf(sink, "  texts and macros of this library: %s\n  machine code that this compiler makes: %s\n", texts ? "the same" : "others",
                   code ? "the same" : "another");
    return texts && code ? GY_OK : GY_FAIL(err, GY_E_MISMATCH, "%.300s was trained with other kernels than these: %s", path,
                                           texts ? "another compiler made the machine code" : "their texts or macros differ");
}

GYRE_API int gyre_print_audit(const char *path, const struct gyre_logger *log, const struct gyre_sink *sink, struct gyre_error *error)
{
    GY_TRY(gy_given(path, "gyre_print_audit: path", error));
    GY_TRY(gy_given(sink, "gyre_print_audit: sink", error));
    static const struct gyre_logger silent = { NULL, NULL, 0 };
    struct gy_error err = { 0 };
    struct gy_sink out = gy_sink_of(sink);
    const int status = klist_audit_run(path, log ? log : &silent, &out, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
