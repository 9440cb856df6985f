/* SPDX-License-Identifier: MIT */
/* public.c: adapters between the public structs and those of the base. Both errors have the same
 * numbers and the same layout. */
#include "engine/base/public.h"

GY_STATIC_ASSERT((int)GYRE_E_ARG == (int)GY_E_ARG && (int)GYRE_E_STATE == (int)GY_E_STATE, status_call);
GY_STATIC_ASSERT((int)GYRE_E_UNSUPPORTED == (int)GY_E_UNSUPPORTED && (int)GYRE_E_FROZEN == (int)GY_E_FROZEN, status_call2);
GY_STATIC_ASSERT((int)GYRE_E_NET == (int)GY_E_NET && (int)GYRE_E_IO == (int)GY_E_IO, status_net);
GY_STATIC_ASSERT((int)GYRE_E_FORMAT == (int)GY_E_FORMAT && (int)GYRE_E_IMAGE == (int)GY_E_IMAGE, status_data);
GY_STATIC_ASSERT((int)GYRE_E_TRUNCATED == (int)GY_E_TRUNCATED && (int)GYRE_E_HASH == (int)GY_E_HASH, status_data2);
GY_STATIC_ASSERT((int)GYRE_E_MISMATCH == (int)GY_E_MISMATCH && (int)GYRE_E_NOMEM == (int)GY_E_NOMEM, status_res);
GY_STATIC_ASSERT((int)GYRE_E_NODEVICE == (int)GY_E_NODEVICE && (int)GYRE_E_DEVICE == (int)GY_E_DEVICE, status_dev);
GY_STATIC_ASSERT((int)GYRE_E_PEER == (int)GY_E_PEER && (int)GYRE_E_NONFINITE == (int)GY_E_NONFINITE, status_job);
GY_STATIC_ASSERT((int)GYRE_E_STOPPED == (int)GY_E_STOPPED && (int)GYRE_E_BUG == (int)GY_E_BUG, status_end);
GY_STATIC_ASSERT(sizeof(struct gyre_error) == sizeof(struct gy_error), error_size);

/* Whoever calls this has failed: an error that nobody wrote down is no success. */
GY_INT int gy_error_out(struct gyre_error *out, const struct gy_error *err)
{
    struct gy_error none = { 0 };
    if (err->status == GY_OK)
        GY_FAIL(&none, GY_E_BUG, "a call failed and did not say why");
    const struct gy_error *const from = err->status == GY_OK ? &none : err;
    if (out)
        memcpy(out, from, sizeof *out);
    return from->status;
}

GY_INT int gy_given(const void *pointer, const char *what, struct gyre_error *error)
{
    struct gy_error err = { 0 };
    if (pointer)
        return GYRE_OK;
    GY_FAIL(&err, GY_E_ARG, "%s is NULL", what);
    return gy_error_out(error, &err);
}

GY_INT int gy_config_take(void *out, size_t bytes, const void *in, size_t least, const char *name, struct gy_error *err)
{
    size_t given;
    if (!in)
        return GY_FAIL(err, GY_E_ARG, "%s is NULL", name);
    memcpy(&given, in, sizeof given); /* size is the first field */
    if (given < least || given > bytes)
        return GY_FAIL(err, GY_E_ARG, "%s.size is %zu; its default function sets it to %zu", name, given, bytes);
    memcpy(out, in, given);
    memcpy(out, &bytes, sizeof bytes);
    return GY_OK;
}

GY_INT int gy_config_ranges(const char *what, const struct gy_range *r, size_t count, struct gy_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!(r[i].value >= r[i].lo && r[i].value <= r[i].hi)) /* also refuses NaN */
            return GY_FAIL(err, GY_E_ARG, "%s%s%s is %g; it must be in %g .. %g", what, what[0] ? ": " : "", r[i].name, r[i].value, r[i].lo, r[i].hi);
    return GY_OK;
}

GY_INT struct gy_log gy_log_of(const struct gyre_logger *logger)
{
    return (struct gy_log){ .fn = logger->write, .user = logger->user, .level = logger->level };
}

GY_INT struct gy_sink gy_sink_of(const struct gyre_sink *sink)
{
    return sink ? (struct gy_sink){ .write = sink->write, .user = sink->user } : (struct gy_sink){ NULL, NULL, 1 };
}

/* The caller's block: its first bytes say how far it is taken. Memory that is given back is not
 * used again, and is part of what gyre_measure counts. */
struct public_block {
    unsigned char *at;
    size_t left;
};

static void *public_block_fn(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct public_block *block = user;
    if (new_bytes == 0)
        return NULL;
    if (new_bytes > SIZE_MAX / 2 || gy_align_up(new_bytes, GY_CACHE_LINE) > block->left)
        return NULL;
    void *p = block->at;
    block->at += gy_align_up(new_bytes, GY_CACHE_LINE);
    block->left -= gy_align_up(new_bytes, GY_CACHE_LINE);
    memset(p, 0, new_bytes);
    if (ptr)
        memcpy(p, ptr, old_bytes < new_bytes ? old_bytes : new_bytes);
    return p;
}

GY_INT struct gy_alloc gy_config_scratch(const struct gyre_memory *memory)
{
    return memory->hook ? (struct gy_alloc){ memory->hook, memory->user } : gy_alloc_default();
}

GY_INT int gy_config_hook(const struct gyre_memory *memory, const char *name, struct gy_alloc *alloc, struct gy_error *err)
{
    if (memory->block)
        return GY_FAIL(err, GY_E_ARG, "%s: memory.block is for nets alone; give a hook", name);
    *alloc = gy_config_scratch(memory);
    return GY_OK;
}

GY_INT int gy_config_seal(const struct gyre_memory *memory, struct gy_alloc *alloc, struct gy_error *err)
{
    if (!memory->block)
        return gy_config_hook(memory, "config", alloc, err);
    if ((uintptr_t)memory->block % GY_CACHE_LINE || memory->block_bytes < GY_CACHE_LINE)
        return GY_FAIL(err, GY_E_ARG, "memory.block of %zu bytes at %p: it must be aligned to %d and not empty",
                       memory->block_bytes, memory->block, GY_CACHE_LINE);
    struct public_block *block = memory->block;
    block->at = (unsigned char *)memory->block + GY_CACHE_LINE;
    block->left = memory->block_bytes - GY_CACHE_LINE;
    *alloc = (struct gy_alloc){ public_block_fn, block };
    return GY_OK;
}
