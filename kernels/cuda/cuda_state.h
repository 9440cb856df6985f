/* SPDX-License-Identifier: MIT */
/* cuda_state.h: the struct behind the CUDA backend, and what its files all call: cuda_backend.c,
 * plans.c, peak.c, timing.c, cuda_list.c. A unit is compiled once; all ops share it that want the
 * same file with the same macros. A plan is one op made ready. */
#ifndef GY_CUDA_STATE_H
#define GY_CUDA_STATE_H
#include "kernels/backend.h"
#include "kernels/cuda/compile.h"
#include "kernels/cuda/variant_row.h"
#ifndef GY_NO_CUDA

#define GY_CUDA_UNIFORMS 64
#define GY_CUDA_PINNED 8

struct gy_cuda_loaded {                 /* a unit on the device */
    struct gy_cuda_unit unit;
    unsigned char hash[32];             /* of the machine code */
    gy_cuda_module module;
    struct gy_cuda_loaded *next;
};

struct gy_cuda_plan {
    struct gy_cuda_loaded *loaded;
    const struct gy_cuda_row *row;
    struct gy_cuda_cut cut;
    gy_cuda_function function[GY_CUDA_LAUNCHES];
    const struct gy_span *host_spans;   /* the op's */
    void *spans;                        /* their copy on the device */
    size_t span_bytes;
    int ready;                          /* functions and spans are there */
    int placed;                         /* args holds the addresses of seen */
    void *seen[GY_ROLES];
    struct gy_args args;
    struct gy_cuda_plan *next;
};

struct gy_cuda_program {                /* a captured program */
    gy_cuda_exec exec;
    int walked;                         /* times that its ops were walked */
};

struct gy_cuda_backend {
    struct gy_alloc alloc;
    struct gy_log log;
    struct gy_cuda_library lib;
    struct gy_cuda_compiler compiler;
    struct gy_cuda_device device;
    int ordinal, offline; /* offline: no device; kernels are only chosen and compiled */
    char name[200], model[128], set[16], versions[48], where[4096];
    struct gy_arena arena;              /* units and plans */
    struct gy_cuda_loaded *units;
    struct gy_cuda_plan *plans;         /* the newest first */
    int unit_count;
    gy_cuda_stream stream;              /* of GY_QUEUE_WORK */
    gy_cuda_stream queue[GY_QUEUES];    /* it is the first of them */
    gy_cuda_event event[GY_MARKS];
    void *uniform;                      /* on the device */
    struct gy_uniform *sent;            /* a ring of pinned copies */
    int sent_at, sent_any;
    struct { unsigned char *ptr; size_t bytes; } pinned[GY_CUDA_PINNED];
    struct gy_cuda_program program[GY_BACKEND_PROGRAMS];
    int capturing;                      /* number of the program, -1 none */
    int no_graphs;                      /* capturing failed once */
    int failed;                         /* a status; sticky */
};

/* Logs what failed and where, remembers and returns GY_E_DEVICE. error 0: GY_OK. */
GY_INT int gy_cuda_check(struct gy_cuda_backend *cuda, gy_cuda_error error, const char *what);
/* Makes the device current for this thread. GY_E_NODEVICE offline. */
GY_INT int gy_cuda_here(struct gy_cuda_backend *cuda);
/* Makes the device current for this thread and sends u to the device if it changed. */
GY_INT int gy_cuda_send_uniform(struct gy_cuda_backend *cuda, const struct gy_uniform *u);

#endif
#endif
