/* SPDX-License-Identifier: MIT */
/* glm_device_state.h: a run on a device, for the files that make it up: glm_device.c trains,
 * glm_device_pass.c deals memory and brings rows through it. */
#ifndef GY_GLM_DEVICE_STATE_H
#define GY_GLM_DEVICE_STATE_H
#include "kernels/backend.h"
#include "engine/base/log.h"
#include "engine/glm/solve/glm_device_window.h"
#include "engine/glm/rank_sums.h"
#include "engine/glm/stop.h"
#ifndef GY_NO_CUDA

enum { GLD_STEP, GLD_LONG, GLD_BUILD, GLD_SCORES, GLD_SUMS, GLD_SQUARES, GLD_OPS };
enum { GLD_TRAIN, GLD_MAKE_W, GLD_LOOK }; /* what a pass does */
enum { GLD_SENT = GY_MARK_BUCKET, GLD_DONE = GLD_SENT + 2, GLD_BACK = GLD_DONE + 2 };
enum { GLD_LOSS, GLD_CONJUGATE, GLD_SQUARE, GLD_SIZE, GLD_TOTALS };

#define GLD_WINDOW ((size_t)64 << 20) /* bytes of a window, at most */
#define GLD_EVERY 4                   /* epochs from one look at the gap to the next */
#define GLD_ANEW 16                   /* epochs after which w is made anew from the duals */
/* largest damping factor at the beginning: fewer rows at a time where rows are alike */
#define GLD_RIVALS 8
#define GLD_WARPS 64                  /* of a multiprocessor */
#define GLD_SMALL 8192                /* bytes for sums and alignment */
#define GLD_LEAST 1024                /* bytes of a window */
#define GLD_CHUNK 4096                /* rows that a thread of the host copies together */
/* rows of a piece, at most; fewer where a window would hold fewer than GLD_PIECES */
#define GLD_PIECE 32
#define GLD_PIECES 64

struct gy_gld_window {          /* one that stays on the device */
    void *at;
    size_t bytes;
    int64_t first;
    struct gy_glm_packed in;
};

struct gy_gld_slot {
    void *host, *device;     /* pinned; device NULL where windows stay */
    struct gy_glm_packed in; /* what is there, and what it is made of */
    struct gy_glm_piece *piece;
    int pieces;
    int64_t place;           /* of its dual variables on the device */
    int back;                /* its dual variables are on their way to the host */
};

struct gy_gld {
    struct gy_glm_run *run;
    const struct gy_backend *b;
    void *self;
    struct gy_error err;
    const struct gy_log *log_to;
    struct gy_log log;
    char said[256];          /* the device's last error */
    struct gy_glm_pack pack;
    struct gy_uniform u;
    struct gy_op op[GLD_OPS];
    int64_t weights;         /* floats of w */
    size_t limit, used;      /* bytes of device memory */
    float *w, *w_kept, *dual, *dual_kept, *score;   /* on the device; dual NULL: they travel */
    double *totals, *parts;
    double *totals_host;     /* pinned: what came back, then zeros */
    float *host_dual, *host_kept; /* kept: what is gone back to, or room for the device's order */
    struct gy_gld_slot slot[2];
    struct gy_gld_window *window;
    int windows, room;       /* known so far, and in the list */
    int stays, loaded;       /* windows stay on the device; all are there */
    struct gy_rows head;     /* the first view, looked at before the first pass */
    int has_head, started;   /* a view is there; it was trained on */
    struct gy_rows *view;    /* those of a resident feed; NULL: they come one after another */
    int64_t *view_at;        /* [views + 1] rows before it */
    int views;
    int travel, mixed;       /* dual variables go with their window; windows are made of pieces */
    int piece_rows, pieces_most; /* of a window */
    int64_t pieces;
    double damping, best;    /* s; dual objective of what is kept */
    double conjugates;       /* their sum there */
    struct gy_glm_levels levels;
    int64_t began, visited;
    int settled;             /* what the caller has, and run->result, are of the present point */
    struct gy_glm_checks checks;
    struct gy_glm_patience patience;
};

/* Lists all views of a resident feed; takes the first view of another one. */
GY_INT int gy_gld_views(struct gy_gld *d);
GY_INT int gy_gld_get_duals(struct gy_gld *d); /* host_dual: the run's, or memory for it */
/* deal decides who gets how much memory, get_all takes it. Views must be listed before;
 * op[GLD_SUMS] is prepared in between. */
GY_INT int gy_gld_deal(struct gy_gld *d, size_t memory);
GY_INT int gy_gld_get_all(struct gy_gld *d);
GY_INT void gy_gld_put_all(struct gy_gld *d); /* also what get_duals and views took */
GY_INT size_t gy_gld_w_bytes(const struct gy_gld *d);
GY_INT size_t gy_gld_dual_bytes(const struct gy_gld *d);
/* Op number `which` on a window. */
GY_INT int gy_gld_run(struct gy_gld *d, int which, void *x, float *dual, float *score, double *sums);
/* Enqueues GLD_TRAIN, GLD_MAKE_W or GLD_LOOK over all rows. Dual variables that travel are back
 * afterwards. */
GY_INT int gy_gld_pass(struct gy_gld *d, int what, int epoch);
/* host_dual to the device's dual variables, or back; nothing where they travel. */
GY_INT int gy_gld_dual_copy(struct gy_gld *d, int to_device);

#endif
#endif
