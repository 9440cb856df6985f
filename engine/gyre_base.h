/* SPDX-License-Identifier: MIT */
/* gyre_base.h: declares what all of Gyre shares, inside and outside: version, statuses, errors,
 * memory, log and sinks of text. gyre.h, gyre_job.h and gyre_glm.h include it for programs. Inside,
 * statuses and errors have the same numbers and layout; engine/base/public.c converts the rest. */
#ifndef GYRE_BASE_H
#define GYRE_BASE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef GYRE_API
#if defined(__GNUC__)
#define GYRE_API __attribute__((visibility("default")))
#else
#define GYRE_API
#endif
#endif

/* ---- version -------------------------------------------------------------------------------- */
/* A program is compiled with the headers of the very library that it links, a shared one, too:
 * default functions write whole structs, as long as the library has them. */
#define GYRE_VERSION_MAJOR 0
#define GYRE_VERSION_MINOR 1
#define GYRE_VERSION_PATCH 0
#define GYRE_VERSION (GYRE_VERSION_MAJOR * 10000 + GYRE_VERSION_MINOR * 100 + GYRE_VERSION_PATCH)

GYRE_API int gyre_version(void);             /* GYRE_VERSION of the library that was linked */
/* SHA-256 over the library's sources, in hex; "unknown" without build.sh */
GYRE_API const char *gyre_source_id(void);

/* ---- status --------------------------------------------------------------------------------- */
enum gyre_status {
    GYRE_OK = 0,
    /* the call must change */
    GYRE_E_ARG = -1,         /* an argument is out of its documented range */
    GYRE_E_STATE = -2,       /* not allowed in this state */
    GYRE_E_UNSUPPORTED = -3, /* this build or device cannot do it */
    GYRE_E_FROZEN = -4,      /* memory was asked for after open */
    GYRE_E_NET = -5,         /* net text: line and column are in the sentence */
    /* the data must change */
    GYRE_E_IO = -20,
    GYRE_E_FORMAT = -21,
    GYRE_E_IMAGE = -22,
    GYRE_E_TRUNCATED = -23,
    GYRE_E_HASH = -24,
    GYRE_E_MISMATCH = -25,   /* a file and the net disagree in names, shapes or settings */
    /* more resources are needed */
    GYRE_E_NOMEM = -40,
    GYRE_E_NODEVICE = -41,
    /* the net must be closed */
    GYRE_E_DEVICE = -60,
    /* the job has ended */
    GYRE_E_PEER = -80,
    /* numbers; what to do is the caller's choice */
    GYRE_E_NONFINITE = -100, /* a loss or gradient is not finite */
    GYRE_E_STOPPED = -101,   /* a callback asked to stop; trainings are saved first */
    GYRE_E_BUG = -120
};

struct gyre_error {
    int status;
    const char *file; /* place in Gyre's source, for reports */
    int line;
    char text[480]; /* one sentence */
};

GYRE_API const char *gyre_status_name(int status); /* "out of memory"; never NULL */

/* ---- memory, threads, log, text ------------------------------------------------------------- */
/* Memory: a hook, or for a net one block. Neither: malloc. What a call takes and gives back, as for
 * files and for training of whole epochs, a net in a block takes from the hook, else malloc. */
struct gyre_memory {
    /* ptr NULL: allocates; new_bytes 0: frees; else resizes. NULL on failure. From any thread. */
    void *(*hook)(void *user, void *ptr, size_t old_bytes, size_t new_bytes);
    void *user;
    void *block;        /* at least gyre_need.host_bytes, aligned to 64; used when not NULL */
    size_t block_bytes;
};

/* Whether each thread that computes has a processor of its own. ON: threads are bound, except the
 * calling one. AUTO: threads are kept apart but not bound, so that the system may move them. AUTO
 * does nothing where they do not fill the machine, or the process may use only a part of it. */
enum gyre_pin { GYRE_PIN_AUTO, GYRE_PIN_ON, GYRE_PIN_OFF };

enum gyre_log_level { GYRE_LOG_ERROR = 1, GYRE_LOG_WARN = 2, GYRE_LOG_INFO = 3, GYRE_LOG_DEBUG = 4 };
struct gyre_logger {
    void (*write)(void *user, int level, const char *text); /* NULL: silent */
    void *user;
    int level; /* GYRE_LOG_INFO */
};

/* Printed text goes here. write returns 0 to go on. */
struct gyre_sink {
    int (*write)(void *user, const char *text, size_t bytes);
    void *user;
};

#ifdef __cplusplus
}
#endif
#endif
