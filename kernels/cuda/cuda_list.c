/* SPDX-License-Identifier: MIT */
/* cuda_list.c: reads plans and units. Registers, stack and spills are those of the compiler's log.
 * From them follows how many threads fit a multiprocessor at a time (CUDA C Programming Guide,
 * compute capabilities). */
#include "engine/base/hash.h"
#include "kernels/cuda/cuda_list.h"
#include "kernels/cuda/plans.h"
#include "kernels/cuda/variants.h"
#include "kernels/cuda/variants_conv.h"
#include "kernels/cuda/variants_ops.h"
#ifndef GY_NO_CUDA

static struct gy_cuda_plan *list_plan(const struct gy_op *op)
{
    struct gy_cuda_plan *plan;
    memcpy(&plan, &op->kernel, sizeof plan);
    return plan;
}

GY_INT int gy_cuda_list_ready(void *self, struct gy_error *err) { return gy_cuda_compile_units(self, err); }

/* ---- occupancy ---- */

struct list_limits {
    int arch, threads, blocks, shared_kib; /* of a multiprocessor; 65536 registers everywhere */
};
static const struct list_limits list_limit_rows[] = {
    { 60, 2048, 32, 64 },  { 61, 2048, 32, 96 },  { 62, 2048, 32, 64 },   { 70, 2048, 32, 96 },   { 75, 1024, 16, 64 },
    { 80, 2048, 32, 164 }, { 86, 1536, 16, 100 }, { 87, 1536, 16, 164 },  { 89, 1536, 24, 100 },  { 90, 2048, 32, 228 },
    { 110, 1536, 24, 228 }, { 120, 1536, 24, 100 },
};

static double list_occupancy(int arch, const struct gy_kernel_info *k)
{
    struct list_limits limit = list_limit_rows[0];
    for (size_t i = 0; i < GY_COUNT(list_limit_rows); i++)
        if (arch >= list_limit_rows[i].arch)
            limit = list_limit_rows[i];
    const int64_t warps = gy_ceil_div(k->threads, 32);
    /* registers are handed out in eights */
    const int64_t registers = gy_ceil_div(k->registers > 0 ? k->registers : 1, 8) * 8 * 32 * warps;
    int64_t blocks = gy_min64(limit.blocks, limit.threads / (warps * 32));
    blocks = gy_min64(blocks, 65536 / registers);
    if (k->shared)
        blocks = gy_min64(blocks, limit.shared_kib * 1024 / ((int64_t)k->shared + (arch >= 80 ? 1024 : 0)));
    return (double)(blocks * warps * 32) / limit.threads;
}

/* ---- a launch ---- */

/* A convolution whose channels fill vectors; others have tails, and time does not count there. */
static int list_is_hot(const struct gy_op *op)
{
    const int32_t groups = op->geom.groups;
    if (op->code != GY_OP_CONV && op->code != GY_OP_CONV_DGRAD && op->code != GY_OP_CONV_WGRAD)
        return 0;
    return op->geom.c / groups % 8 == 0 && op->geom.k / groups % 8 == 0;
}

GY_INT int gy_cuda_list_info(void *self, const struct gy_op *op, int launch, struct gy_kernel_info *out)
{
    const struct gy_cuda_backend *cuda = self;
    const struct gy_cuda_plan *plan = list_plan(op);
    struct gy_cuda_report report;
    if (launch >= plan->cut.launches)
        return 0;
    const struct gy_cuda_launch *l = &plan->cut.launch[launch];
    *out = (struct gy_kernel_info){ .file = plan->loaded->unit.file, .entry = l->entry, .row = plan->row->name,
                                    .grid = { l->grid[0], l->grid[1], l->grid[2] }, .threads = l->threads, .shared = l->shared,
                                    .hot = list_is_hot(op) };
    gy_sha256_hex(plan->loaded->unit.source, out->source);
    out->reported = gy_cuda_report_of(plan->loaded->unit.image.text, l->entry, &report);
    if (out->reported) {
        out->registers = report.registers;
        out->stack = report.stack;
        out->spilled = report.spill_stores + report.spill_loads;
        out->occupancy = list_occupancy(cuda->device.arch, out);
    }
    return 1;
}

/* ---- variants ---- */

GY_INT const char *gy_cuda_list_variant(void *self, const struct gy_op *op, int index)
{
    static const struct gy_cuda_row *(*const tables[])(int) = { gy_cuda_row_at, gy_cuda_conv_row_at };
    const struct gy_cuda_backend *cuda = self;
    for (size_t t = 0; t < GY_COUNT(tables); t++)
        for (int i = 0; tables[t](i); i++) {
            const struct gy_cuda_row *const row = tables[t](i);
            if (row->code == op->code && gy_cuda_pick(op, &cuda->device, row->name) == row && index-- == 0)
                return row->name;
        }
    return NULL;
}

GY_INT int gy_cuda_list_own(void *self, struct gy_op *op, const struct gy_cuda_cut *cut, struct gy_error *err)
{
    static const struct gy_cuda_row own = { .name = "own", .facts = GY_FACT_SHAPE | GY_FACT_OUT | GY_FACT_WINDOW | GY_FACT_ACT |
                                            GY_FACT_FLAGS | GY_FACT_ID | GY_FACT_F | GY_FACT_HAS };
    return gy_cuda_prepare_cut(self, op, &own, cut, err);
}

/* ---- dumps ---- */

static void list_put(struct gy_sink *sink, const unsigned char *bytes, size_t count)
{
    for (size_t at = 0; at < count && !sink->failed;) {
        const size_t piece = count - at < 4096 ? count - at : 4096;
        sink->failed = sink->write(sink->user, (const char *)bytes + at, piece) != 0;
        at += piece;
    }
}

/* Macros as #define lines, then the file. */
static void list_put_source(const struct gy_cuda_unit *unit, struct gy_sink *sink)
{
    const char *at = unit->options;
    for (int i = 0; i < unit->option_count; i++, at += strlen(at) + 1) {
        const char *const name = strncmp(at, "-D", 2) == 0 ? at + 2 : at, *const equals = strchr(name, '=');
        const int bytes = equals ? (int)(equals - name) : (int)strlen(name);
        gy_sink_printf(sink, "#define %.*s %s\n", bytes, name, equals ? equals + 1 : "");
    }
    const char *const text = unit->text ? unit->text : gy_cuda_source(unit->file);
    list_put(sink, (const unsigned char *)text, strlen(text));
}

static int list_put_ptx(const struct gy_cuda_backend *cuda, const struct gy_cuda_unit *unit, struct gy_sink *sink, struct gy_error *err)
{
    struct gy_cuda_compiler compiler = cuda->compiler;
    struct gy_cuda_unit again = *unit, *list[] = { &again };
    compiler.ptx = 1;
    again.origin = GY_CUDA_MISSING;
    memset(&again.image, 0, sizeof again.image);
    GY_TRY(gy_cuda_compile(&compiler, list, 1, err));
    list_put(sink, again.image.bytes, strlen((const char *)again.image.bytes));
    gy_cuda_image_free(&again.image);
    return GY_OK;
}

GY_INT int gy_cuda_list_dump(void *self, const struct gy_op *op, int form, struct gy_sink *sink, struct gy_error *err)
{
    struct gy_cuda_backend *cuda = self;
    const struct gy_cuda_unit *unit = &list_plan(op)->loaded->unit;
    if (form == GY_KERNEL_SOURCE) {
        list_put_source(unit, sink);
        return GY_OK;
    }
    if (form == GY_KERNEL_PTX)
        return list_put_ptx(cuda, unit, sink, err);
    GY_TRY(gy_cuda_list_ready(cuda, err));
    if (!unit->image.bytes)
        return GY_FAIL(err, GY_E_STATE, "the machine code of %s went to the device", unit->file);
    list_put(sink, unit->image.bytes, unit->image.size);
    return GY_OK;
}

/* ---- packs ---- */

static int list_grow(struct gy_kernel_pack *pack, int more, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const int room = pack->count + more;
    void *const keys = gy_alloc_grow(&alloc, pack->keys, (size_t)pack->room, (size_t)room, sizeof *pack->keys);
    if (!keys)
        return GY_NOMEM(err, "the pack's list", (size_t)room * 32);
    pack->keys = keys;
    void *const images = gy_alloc_grow(&alloc, pack->images, (size_t)pack->room, (size_t)room, sizeof *pack->images);
    if (!images)
        return GY_NOMEM(err, "the pack's list", (size_t)room * sizeof *pack->images);
    pack->images = images;
    pack->room = room;
    return GY_OK;
}

GY_INT int gy_cuda_list_collect(void *self, struct gy_kernel_pack *pack, struct gy_error *err)
{
    struct gy_cuda_backend *cuda = self;
    GY_TRY(list_grow(pack, cuda->unit_count, err));
    for (struct gy_cuda_loaded *at = cuda->units; at; at = at->next) {
        if (!at->unit.image.bytes)
            continue;
        memcpy(pack->keys[pack->count], at->unit.source, 32);
        pack->images[pack->count++] = at->unit.image; /* the pack's from now on */
        memset(&at->unit.image, 0, sizeof at->unit.image);
        at->unit.origin = GY_CUDA_MISSING;
    }
    return GY_OK;
}

GY_INT int gy_cuda_list_write(const struct gy_kernel_pack *pack, const char *path, struct gy_error *err)
{
    return gy_cuda_pack_write(path, pack->keys, pack->images, pack->count, err);
}

GY_INT void gy_cuda_list_close(struct gy_kernel_pack *pack)
{
    const struct gy_alloc alloc = gy_alloc_default();
    for (int i = 0; i < pack->count; i++)
        gy_cuda_image_free(&pack->images[i]);
    gy_alloc_free(&alloc, pack->keys, (size_t)pack->room * sizeof *pack->keys);
    gy_alloc_free(&alloc, pack->images, (size_t)pack->room * sizeof *pack->images);
    memset(pack, 0, sizeof *pack);
}

/* ---- audit ---- */

/* The order in which units were prepared does not matter: exclusive or combines their hashes. */
GY_INT void gy_cuda_list_hash(void *self, char texts[65], char code[65], int *count)
{
    const struct gy_cuda_backend *cuda = self;
    unsigned char all[2][32] = { { 0 }, { 0 } };
    *count = 0;
    for (const struct gy_cuda_loaded *at = cuda->units; at; at = at->next, ++*count)
        for (int i = 0; i < 32; i++) {
            all[0][i] ^= at->unit.source[i];
            all[1][i] ^= at->hash[i];
        }
    gy_sha256_hex(all[0], texts);
    gy_sha256_hex(all[1], code);
}

#else

GY_INT int gy_cuda_list_ready(void *self, struct gy_error *err)
{
    (void)self;
    return GY_FAIL(err, GY_E_UNSUPPORTED, "this build has no CUDA");
}
GY_INT int gy_cuda_list_info(void *self, const struct gy_op *op, int launch, struct gy_kernel_info *out)
{
    (void)self, (void)op, (void)launch, (void)out;
    return 0;
}
GY_INT int gy_cuda_list_dump(void *self, const struct gy_op *op, int form, struct gy_sink *sink, struct gy_error *err)
{
    (void)op, (void)form, (void)sink;
    return gy_cuda_list_ready(self, err);
}
GY_INT int gy_cuda_list_collect(void *self, struct gy_kernel_pack *pack, struct gy_error *err)
{
    (void)pack;
    return gy_cuda_list_ready(self, err);
}
GY_INT int gy_cuda_list_write(const struct gy_kernel_pack *pack, const char *path, struct gy_error *err)
{
    (void)pack, (void)path;
    return gy_cuda_list_ready(NULL, err);
}
GY_INT void gy_cuda_list_close(struct gy_kernel_pack *pack) { (void)pack; }
GY_INT void gy_cuda_list_hash(void *self, char texts[65], char code[65], int *count)
{
    (void)self;
    texts[0] = code[0] = 0;
    *count = 0;
}

#endif
