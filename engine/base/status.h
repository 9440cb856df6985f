/* SPDX-License-Identifier: MIT */
/* status.h: how failures travel. Every function that can fail returns an int: 0, or one of the
 * negative codes here. The first function that knows the error writes its sentence with GY_FAIL;
 * all above forward it with GY_TRY and write nothing. A sentence names the thing (file, line,
 * tensor), the value found and the limit.
 *
 * The codes equal enum gyre_status of the public header (engine/base/public.c checks it at compile
 * time). Ranges say what must be rebuilt: -1.. the call, -20.. the data, -40.. resources, -60.. the
 * context, -80.. the job, -100.. numbers. */
#ifndef GY_STATUS_H
#define GY_STATUS_H
#include "engine/base/base.h"

enum gy_status {
    GY_OK = 0,
    GY_E_ARG = -1,         /* an argument or option is out of its documented range */
    GY_E_STATE = -2,       /* the call is not allowed in this state */
    GY_E_UNSUPPORTED = -3, /* valid, but this build, device or kernel set cannot do it */
    GY_E_FROZEN = -4,      /* an allocation was asked for after open */
    GY_E_NET = -5,         /* the net text is wrong: line and column are in the sentence */
    GY_E_IO = -20,         /* the operating system refused to read or write */
    GY_E_FORMAT = -21,     /* the bytes are not of the stated format */
    GY_E_IMAGE = -22,      /* an image cannot be decoded */
    GY_E_TRUNCATED = -23,  /* the file is shorter than it says, or than it was */
    GY_E_HASH = -24,       /* a checksum differs */
    GY_E_MISMATCH = -25,   /* names, shapes or settings of two things that must agree differ */
    GY_E_NOMEM = -40,      /* the allocator or the caller's memory is exhausted */
    GY_E_NODEVICE = -41,   /* the device asked for is not there */
    GY_E_DEVICE = -60,     /* the device failed; the context can only be closed */
    GY_E_PEER = -80,       /* another rank was lost or disagrees */
    GY_E_NONFINITE = -100, /* a loss or gradient is not a finite number */
    GY_E_STOPPED = -101,   /* the caller's callback asked to stop; everything was saved */
    GY_E_BUG = -120        /* an internal promise was broken */
};

struct gy_error {
    int status;
    const char *file; /* source place of the first GY_FAIL, for reports */
    int line;
    char text[480]; /* one sentence, no newline */
};

/* Fills *err (err may be NULL) and returns status. Long text is cut, never overflows. */
GY_INT int gy_error_set(struct gy_error *err, int status, const char *file, int line, const char *fmt, ...)
    GY_PRINTF(5, 6);

/* A short constant name such as "out of memory"; never NULL. */
GY_INT const char *gy_status_name(int status);

/* Returns status, a constant: so a compiler that sees all of Gyre at once knows it is not 0. */
static inline int gy_failed(int status, int written)
{
    (void)written;
    return status;
}
#define GY_FAIL(err, status, ...)                                                                                      \
    gy_failed((status), gy_error_set((err), (status), __FILE__, __LINE__, __VA_ARGS__))
#define GY_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        const int gy_try_status_ = (expr);                                                                             \
        if (gy_try_status_ != GY_OK)                                                                                   \
            return gy_try_status_;                                                                                     \
    } while (0)

#endif
