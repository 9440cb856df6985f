/* SPDX-License-Identifier: MIT */
/* knob.h: all GYRE_ environment variables, in one table: name, type, default, help. gyre_open reads
 * its own only with gyre_config.use_env; jobs, commands and tests always read theirs. With use_env
 * a GYRE_ variable that the table lacks is reported, with the name that it resembles. */
#ifndef GY_KNOB_H
#define GY_KNOB_H
#include "engine/base/log.h"
#include "engine/base/text.h"

struct gy_knob {
    const char *name;    /* "GYRE_THREADS" */
    const char *type;    /* "count", "number", "text", "path", "flag" */
    const char *initial; /* as printed */
    const char *help;    /* one line */
};

GY_INT const struct gy_knob *gy_knob_table(size_t *count);
/* The value in the environment; NULL when it is unset or empty, or the table has no such name. */
GY_INT const char *gy_knob_get(const char *name);
GY_INT int gy_knob_warn_unknown(const struct gy_log *log); /* returns how many */
GY_INT void gy_knob_print(struct gy_sink *sink);

#endif
