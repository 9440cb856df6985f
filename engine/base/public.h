/* SPDX-License-Identifier: MIT */
/* public.h: converts the structs of gyre.h to those of engine/base and back: errors, logs, sinks,
 * memory. Public calls use it at their beginning and end. */
#ifndef GY_PUBLIC_H
#define GY_PUBLIC_H
#include "engine/gyre.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

/* of a call that failed: copies to out (or NULL), returns its status; GY_E_BUG if there is none */
GY_INT int gy_error_out(struct gyre_error *out, const struct gy_error *err);
/* GYRE_OK, or GYRE_E_ARG where pointer is NULL; what: "gyre_save: path". error may be NULL. */
GY_INT int gy_given(const void *pointer, const char *what, struct gyre_error *error);
/* Copies a caller's configuration over defaults that stand in out. Both begin with their size; at
 * least `least` bytes are needed. GY_E_ARG when it cannot be one of ours. */
GY_INT int gy_config_take(void *out, size_t bytes, const void *in, size_t least, const char *name, struct gy_error *err);
/* A number of a configuration, and the range in which it must lie. */
struct gy_range {
    const char *name;
    double value, lo, hi;
};
/* GY_E_ARG where one lies outside or is NaN; what: stands before its name, as "glm config"; or "" */
GY_INT int gy_config_ranges(const char *what, const struct gy_range *r, size_t count, struct gy_error *err);
GY_INT struct gy_log gy_log_of(const struct gyre_logger *logger);
GY_INT struct gy_sink gy_sink_of(const struct gyre_sink *sink); /* NULL: one that drops all */
/* Sets alloc to the allocator that a caller asked for: a hook, or malloc. GY_E_ARG where there is a
 * block; name: of the configuration. */
GY_INT int gy_config_hook(const struct gyre_memory *memory, const char *name, struct gy_alloc *alloc, struct gy_error *err);
/* The same for a net, which takes a block, too. GY_E_ARG where it is empty or not aligned. */
GY_INT int gy_config_seal(const struct gyre_memory *memory, struct gy_alloc *alloc, struct gy_error *err);
/* The hook, or malloc, whether or not there is a block: for what a call takes and gives back. */
GY_INT struct gy_alloc gy_config_scratch(const struct gyre_memory *memory);

#endif
