/* SPDX-License-Identifier: MIT */
/* knob.h: every environment variable that Gyre reads, in one table: name, type, default, help. They
 * are read only when the caller asks for it (gyre_config.use_env). A GYRE_ variable that the table
 * lacks is reported, with the name that it resembles. */
#ifndef GY_KNOB_H
#define GY_KNOB_H
#include "engine/base/log.h"
#include "engine/base/text.h"

struct gy_knob {
    const char *name;    /* "GYRE_THREADS" */
    const char *type;    /* "count", "text", "path", "bytes", "flag" */
    const char *initial; /* as printed */
    const char *help;    /* one line */
};

GY_INT const struct gy_knob *gy_knob_table(size_t *count);
/* The value in the environment; NULL when unset or empty. name must be in the table. */
GY_INT const char *gy_knob_get(const char *name);
GY_INT int gy_knob_warn_unknown(const struct gy_log *log); /* returns how many */
GY_INT void gy_knob_print(struct gy_sink *sink);

#endif
