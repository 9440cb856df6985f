/* SPDX-License-Identifier: MIT */
/* status.c: the words for statuses, and the only place that writes an error's sentence. */
#include "engine/base/status.h"
#include "engine/base/text_plain.h"

static const struct { int status; const char *name; } status_names[] = {
    { GY_OK, "ok" },
    { GY_E_ARG, "bad argument" },
    { GY_E_STATE, "not allowed in this state" },
    { GY_E_UNSUPPORTED, "unsupported" },
    { GY_E_FROZEN, "allocation after open" },
    { GY_E_NET, "bad net text" },
    { GY_E_IO, "input or output failed" },
    { GY_E_FORMAT, "wrong format" },
    { GY_E_IMAGE, "bad image" },
    { GY_E_TRUNCATED, "truncated file" },
    { GY_E_HASH, "checksum differs" },
    { GY_E_MISMATCH, "mismatch" },
    { GY_E_NOMEM, "out of memory" },
    { GY_E_NODEVICE, "no such device" },
    { GY_E_DEVICE, "device failed" },
    { GY_E_PEER, "peer lost" },
    { GY_E_NONFINITE, "not a finite number" },
    { GY_E_STOPPED, "stopped" },
    { GY_E_BUG, "internal error" },
};

GY_INT int gy_error_set(struct gy_error *err, int status, const char *file, int line, const char *fmt, ...)
{
    va_list args;
    if (!err)
        return status;
    err->status = status;
    err->file = file;
    err->line = line;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    gy_text_plain(err->text, sizeof err->text);
    return status;
}

GY_INT const char *gy_status_name(int status)
{
    for (size_t i = 0; i < GY_COUNT(status_names); i++)
        if (status_names[i].status == status)
            return status_names[i].name;
    return "unknown status";
}
