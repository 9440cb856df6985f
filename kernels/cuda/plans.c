/* SPDX-License-Identifier: MIT */
/* plans.c: makes ops ready. prepare chooses a row of the variant table and finds or adds the unit
 * that it wants compiled. ready compiles all units at once and loads them. run fills the kernels'
 * one parameter when it sees addresses for the first time, and launches. */
#include "kernels/cuda/plans.h"
#include "kernels/cuda/variants.h"
#ifndef GY_NO_CUDA
#include "engine/base/hash.h"

#define PLANS_OPTIONS 8192 /* bytes of a variant's macros */
#define PLANS_SHARED 49152 /* bytes of shared memory that need no permission */

/* ---- prepare ---- */

static int plans_wants(const struct gy_cuda_unit *unit, const struct gy_cuda_cut *cut, const char *options, size_t bytes)
{
    return strcmp(unit->file, cut->file) == 0 && unit->text == cut->text && unit->option_bytes == bytes &&
           memcmp(unit->options, options, bytes) == 0;
}

/* The unit of the cut's file and these macros: one that is there, or a new one. */
static struct gy_cuda_loaded *plans_unit(struct gy_cuda_backend *cuda, const struct gy_cuda_cut *cut, const char *options, size_t bytes,
                                         int count)
{
    for (struct gy_cuda_loaded *at = cuda->units; at; at = at->next)
        if (plans_wants(&at->unit, cut, options, bytes))
            return at;
    struct gy_cuda_loaded *new = gy_arena_take(&cuda->arena, 1, sizeof *new);
    char *const kept = gy_arena_text(&cuda->arena, options, bytes);
    if (!new || !kept)
        return NULL;
    new->unit = (struct gy_cuda_unit){ .file = cut->file, .text = cut->text, .options = kept, .option_bytes = bytes,
                                       .option_count = count, .arch = cuda->device.arch };
    new->next = cuda->units;
    cuda->units = new;
    cuda->unit_count++;
    return new;
}

static int plans_check_cut(const struct gy_cuda_backend *cuda, const struct gy_op *op, const struct gy_cuda_row *row,
                           const struct gy_cuda_cut *cut, struct gy_error *err)
{
    for (int i = 0; i < cut->launches; i++) {
        const struct gy_cuda_launch *l = &cut->launch[i];
        if (l->grid[0] < 1 || l->grid[0] > 2147483647u || l->grid[1] < 1 || l->grid[1] > 65535 || l->grid[2] < 1 ||
            l->grid[2] > 65535 || l->threads < 1 || l->threads > 1024 || l->shared > (unsigned)cuda->device.shared_most)
            return GY_FAIL(err, GY_E_UNSUPPORTED, "layer '%s': kernel %s, %s wants a grid of %u x %u x %u blocks of %u threads with %u "
                           "bytes of shared memory; the device has %d", op->name ? op->name : "", row->name, l->entry, l->grid[0],
                           l->grid[1], l->grid[2], l->threads, l->shared, cuda->device.shared_most);
    }
    return GY_OK;
}

static const struct gy_cuda_row *plans_pick(const struct gy_cuda_backend *cuda, const struct gy_op *op, struct gy_error *err)
{
    const struct gy_cuda_row *const row = gy_cuda_pick(op, &cuda->device, op->variant);
    if (!row)
        GY_FAIL(err, GY_E_UNSUPPORTED, "layer '%s': no kernel of sm_%d does op %d on dtype %d with this shape", op->name ? op->name : "",
                cuda->device.arch, op->code, op->dtype);
    return row;
}

GY_INT int gy_cuda_prepare(void *self, struct gy_op *op, struct gy_error *err)
{
    struct gy_cuda_backend *cuda = self;
    const struct gy_cuda_row *const row = plans_pick(cuda, op, err);
    struct gy_cuda_cut cut;
    if (!row)
        return GY_E_UNSUPPORTED;
    memset(&cut, 0, sizeof cut);
    row->cut(op, &cuda->device, &cut);
    return gy_cuda_prepare_cut(cuda, op, row, &cut, err);
}

/* On the boundary that its tensor maps want; the arena gives a cache line's. */
static struct gy_cuda_plan *plans_take(struct gy_cuda_backend *cuda)
{
    const size_t align = GY_CUDA_MAP_ALIGN, more = align - GY_CACHE_LINE;
    unsigned char *const at = gy_arena_take(&cuda->arena, 1, sizeof(struct gy_cuda_plan) + more);
    return at ? (void *)(at + (align - (uintptr_t)at % align) % align) : NULL;
}

GY_INT int gy_cuda_prepare_cut(struct gy_cuda_backend *cuda, struct gy_op *op, const struct gy_cuda_row *row,
                               const struct gy_cuda_cut *cut, struct gy_error *err)
{
    char options[PLANS_OPTIONS];
    size_t bytes = 0;
    GY_TRY(plans_check_cut(cuda, op, row, cut, err));
    struct gy_cuda_plan *plan = plans_take(cuda);
    if (!plan)
        return GY_NOMEM(err, "a kernel's plan", sizeof *plan);
    plan->row = row;
    plan->cut = *cut;
    const int count = gy_cuda_options(op, row, cut, &cuda->device, options, sizeof options, &bytes);
    if (count < 0)
        return GY_FAIL(err, GY_E_BUG, "the macros of kernel %s need more than %d bytes", row->name, PLANS_OPTIONS);
    plan->loaded = plans_unit(cuda, cut, options, bytes, count);
    if (!plan->loaded)
        return GY_NOMEM(err, "a kernel's macros", bytes);
    plan->host_spans = op->spans;
    plan->span_bytes = (size_t)op->span_count * sizeof *op->spans;
    plan->next = cuda->plans;
    cuda->plans = plan;
    op->kernel = plan;
    op->variant = row->name;
    op->scratch_bytes = cut->scratch;
    return GY_OK;
}

/* The unit's hash, of a variant that is not prepared. */
GY_INT int gy_cuda_kernel_hash(void *self, const struct gy_op *op, char hash[65])
{
    const struct gy_cuda_backend *cuda = self;
    const struct gy_cuda_row *const row = gy_cuda_pick(op, &cuda->device, op->variant);
    char options[PLANS_OPTIONS];
    size_t bytes = 0;
    struct gy_cuda_cut cut;
    if (!row || (op->variant && strcmp(row->name, op->variant) != 0))
        return 0;
    memset(&cut, 0, sizeof cut);
    row->cut(op, &cuda->device, &cut);
    const int count = gy_cuda_options(op, row, &cut, &cuda->device, options, sizeof options, &bytes);
    if (count < 0)
        return 0;
    struct gy_cuda_unit unit = { .file = cut.file, .options = options, .option_bytes = bytes, .option_count = count,
                                 .arch = cuda->device.arch };
    gy_cuda_unit_hash(&unit, &cuda->compiler);
    gy_sha256_hex(unit.source, hash);
    return 1;
}

/* ---- ready ---- */

/* A refusal of the driver as a sentence. */
static int plans_refused(const struct gy_cuda_backend *cuda, gy_cuda_error error, const char *what, const char *name, struct gy_error *err)
{
    const char *text = NULL;
    if (error == 0)
        return GY_OK;
    cuda->lib.api.dr_error_text(error, &text);
    return GY_FAIL(err, GY_E_DEVICE, "%s %s: the driver says: %s", what, name, text ? text : "(nothing)");
}

static int plans_load_unit(struct gy_cuda_backend *cuda, struct gy_cuda_loaded *at, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_cuda_image *image = &at->unit.image;
    if (at->module)
        return GY_OK;
    GY_TRY(plans_refused(cuda, cuda->lib.api.dr_module_load(&at->module, image->bytes, 0, NULL, NULL), "loading kernel", at->unit.file,
                         err));
    gy_alloc_free(&alloc, image->bytes, image->size + 1); /* the driver has its own */
    image->bytes = NULL;
    return GY_OK;
}

static int plans_functions(struct gy_cuda_backend *cuda, struct gy_cuda_plan *plan, struct gy_error *err)
{
    const struct gy_cuda_api *api = &cuda->lib.api;
    for (int i = 0; i < plan->cut.launches; i++) {
        const struct gy_cuda_launch *l = &plan->cut.launch[i];
        GY_TRY(plans_refused(cuda, api->dr_module_function(&plan->function[i], plan->loaded->module, l->entry), "finding kernel", l->entry,
                             err));
        if (l->shared > PLANS_SHARED)
            GY_TRY(plans_refused(cuda, api->dr_function_set(plan->function[i], GY_CUDA_FUNCTION_DYNAMIC_SHARED, (int)l->shared),
                                 "shared memory of kernel", l->entry, err));
    }
    return GY_OK;
}

static int plans_send_spans(struct gy_cuda_backend *cuda, struct gy_cuda_plan *plan, struct gy_error *err)
{
    const struct gy_cuda_api *api = &cuda->lib.api;
    if (!plan->span_bytes)
        return GY_OK;
    if (!plan->spans && api->rt_malloc(&plan->spans, plan->span_bytes) != 0) {
        plan->spans = NULL;
        return GY_NOMEM(err, "the list of tensors on the device", plan->span_bytes);
    }
    const gy_cuda_error error = api->rt_memcpy_async(plan->spans, plan->host_spans, plan->span_bytes, GY_CUDA_TO_DEVICE, cuda->stream);
    if (error != 0 || api->rt_stream_synchronize(cuda->stream) != 0)
        return GY_FAIL(err, GY_E_DEVICE, "the list of tensors cannot be copied to the device");
    return GY_OK;
}

/* The machine code's hash, while it is at hand. */
static void plans_hash(struct gy_cuda_loaded *at)
{
    struct gy_sha256 sha;
    if (!at->unit.image.bytes)
        return;
    gy_sha256_open(&sha);
    gy_sha256_add(&sha, at->unit.image.bytes, at->unit.image.size);
    gy_sha256_close(&sha, at->hash);
}

GY_INT int gy_cuda_compile_units(struct gy_cuda_backend *cuda, struct gy_error *err)
{
    struct gy_cuda_unit **list = gy_alloc_take(&cuda->alloc, (size_t)cuda->unit_count + 1, sizeof *list);
    int count = 0;
    if (!list)
        return GY_NOMEM(err, "the list of kernels", (size_t)cuda->unit_count * sizeof *list);
    for (struct gy_cuda_loaded *at = cuda->units; at; at = at->next)
        if (at->unit.origin == GY_CUDA_MISSING)
            list[count++] = &at->unit;
    const int status = gy_cuda_compile(&cuda->compiler, list, count, err);
    gy_alloc_free(&cuda->alloc, list, ((size_t)cuda->unit_count + 1) * sizeof *list);
    for (struct gy_cuda_loaded *at = cuda->units; at && status == GY_OK; at = at->next)
        plans_hash(at);
    return status;
}

GY_INT int gy_cuda_ready(void *self, struct gy_error *err)
{
    struct gy_cuda_backend *cuda = self;
    GY_TRY(gy_cuda_compile_units(cuda, err));
    if (cuda->offline)
        return GY_OK;
    if (cuda->lib.api.rt_set_device(cuda->ordinal) != 0)
        return GY_FAIL(err, GY_E_DEVICE, "device %d cannot be used any more", cuda->ordinal);
    for (struct gy_cuda_loaded *at = cuda->units; at; at = at->next)
        GY_TRY(plans_load_unit(cuda, at, err));
    for (struct gy_cuda_plan *plan = cuda->plans; plan; plan = plan->next) {
        if (plan->ready)
            continue;
        GY_TRY(plans_functions(cuda, plan, err));
        GY_TRY(plans_send_spans(cuda, plan, err));
        plan->ready = 1;
    }
    return GY_OK;
}

GY_INT void gy_cuda_plans_close(struct gy_cuda_backend *cuda)
{
    for (struct gy_cuda_plan *plan = cuda->plans; plan; plan = plan->next)
        if (plan->spans)
            cuda->lib.api.rt_free(plan->spans);
    for (struct gy_cuda_loaded *at = cuda->units; at; at = at->next) {
        if (at->module)
            cuda->lib.api.dr_module_unload(at->module);
        gy_cuda_image_free(&at->unit.image);
    }
}

/* ---- run ---- */

/* CU_TENSOR_MAP_DATA_TYPE_FLOAT32, BFLOAT16 */
static int plans_map_type(const struct gy_cuda_map *map) { return map->f32 ? 7 : 9; }

static gy_cuda_error plans_make_map(const struct gy_cuda_api *api, const struct gy_cuda_map *map, void *address, struct gy_tensor_map *out)
{
    const unsigned rank = (unsigned)map->rank;
    const int swizzle = map->swizzle, promote = 2; /* CU_TENSOR_MAP_L2_PROMOTION_L2_128B */
    if (map->kind == GY_MAP_TILED)
        return api->dr_map_tiled(out, plans_map_type(map), rank, address, map->sizes, map->strides, map->box, map->element_strides, 0,
                                 swizzle, promote, 0);
    return api->dr_map_im2col(out, plans_map_type(map), rank, address, map->sizes, map->strides, map->lower, map->upper, map->channels,
                              map->pixels, map->element_strides, 0, swizzle, promote, 0);
}

static int plans_place(struct gy_cuda_backend *cuda, const struct gy_op *op, struct gy_cuda_plan *plan)
{
    for (int i = 0; i < GY_CUDA_MAPS; i++) {
        const struct gy_cuda_map *map = &plan->cut.map[i];
        if (map->kind != GY_MAP_NONE)
            GY_TRY(gy_cuda_check(cuda, plans_make_map(&cuda->lib.api, map, op->ptr[map->role], &plan->args.map[i]), "a tensor map"));
    }
    memcpy(plan->args.ptr, op->ptr, sizeof plan->args.ptr);
    memcpy(plan->seen, op->ptr, sizeof plan->seen);
    plan->args.spans = plan->spans;
    plan->args.u = cuda->uniform;
    plan->placed = 1;
    return GY_OK;
}

GY_INT int gy_cuda_run(void *self, const struct gy_op *op)
{
    struct gy_cuda_backend *cuda = self;
    struct gy_cuda_plan *plan;
    memcpy(&plan, &op->kernel, sizeof plan);
    if (cuda->capturing < 0)
        GY_TRY(gy_cuda_send_uniform(cuda, op->u));
    if (!plan->placed || memcmp(plan->seen, op->ptr, sizeof plan->seen) != 0)
        GY_TRY(plans_place(cuda, op, plan));
    for (int i = 0; i < plan->cut.launches; i++) {
        const struct gy_cuda_launch *l = &plan->cut.launch[i];
        void *parameters[] = { &plan->args };
        const gy_cuda_error error = cuda->lib.api.dr_launch_kernel(plan->function[i], l->grid[0], l->grid[1], l->grid[2], l->threads, 1, 1,
                                                                   l->shared, cuda->stream, parameters, NULL);
        GY_TRY(gy_cuda_check(cuda, error, l->entry));
    }
    return GY_OK;
}

#endif
