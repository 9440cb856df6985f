/* SPDX-License-Identifier: MIT */
/* A GPU's kernels for people, for packs and for audits. Nothing of this runs a kernel: a net is measured, and while it stands there
 * its kernels are compiled and looked at, on a machine with or without a GPU. */
#include "../kernels/cuda/list.h"
#include "device.h"

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

static int klist_selected(const struct klist_job *job, const struct gy_op *op)
{
    return !job->config->layer || strcmp(job->config->layer, op->name) == 0;
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
    return found ? GY_OK : GY_FAIL(job->err, GY_E_ARG, "no op of the net is of layer '%s'%s%s", job->config->layer ? job->config->layer : "",
                                   job->config->op ? " and does " : "", job->config->op ? job->config->op : "");
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
    struct gy_error err = { 0 };
    struct gyre_kernels_config kernels;
    struct gyre_need need;
    struct gy_sink out = gy_sink_of(sink);
    gyre_kernels_config_default(&kernels);
    if (what)
        memcpy(&kernels, what, what->size < sizeof kernels ? what->size : sizeof kernels);
    struct klist_job job = { .config = &kernels, .sink = &out, .err = &err };
    int status = gy_net_measure(config, &need, klist_look, &job, &err);
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
    int status = GY_OK;
    for (int i = 0; i < count && status == GY_OK; i++) {
        struct gyre_config one = *config;
        struct gyre_need need;
        char device[16];
        snprintf(device, sizeof device, "sm_%d", archs[i]);
        one.device = device;
        status = gy_net_measure(&one, &need, klist_collect, &job, err);
        status = status == GY_OK ? job.status : status;
    }
    if (status == GY_OK)
        status = gy_cuda_list_write(&pack, path, err);
    gy_cuda_list_close(&pack);
    return status;
}

GYRE_API int gyre_pack_kernels(const struct gyre_config *config, const int *archs, int count, const char *path, struct gyre_error *error)
{
    struct gy_error err = { 0 };
    const int status = klist_pack(config, archs, count, path, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
