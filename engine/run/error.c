/* SPDX-License-Identifier: MIT */
/* The public error is the internal one under another name: both have the same numbers and the same layout. */
#include "engine/run/engine.h"

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
