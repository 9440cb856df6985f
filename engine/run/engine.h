/* SPDX-License-Identifier: MIT */
/* engine.h: struct gyre_net, an open net, and calls on it for engine/run, engine/train, tools/lab.
 * open.c takes and gives back all that it holds. Steps allocate nothing; loading and saving may. */
#ifndef GY_ENGINE_H
#define GY_ENGINE_H
#include "engine/base/public.h"
#include "engine/plan/program.h"

#define GY_SHARDS_MOST 65536
#define GY_NOTE_KEYS 64
#define GY_NOTE_BYTES 16384

struct gy_note {
    const char *key, *value; /* in gyre_net.note_text */
};

/* Loss scaling: GYRE_F16; else the scale is 1. */
struct gy_scale {
    float now;       /* multiplies the loss's gradient */
    int good;        /* updates since the last overflow or change */
    int open;        /* whether the last update was skipped is not known yet: it counts as done */
    int64_t skipped; /* updates */
};

/* What one step does in several parts: parallel.h. */
struct gy_parallel {
    int ranks, rank;
    int shards;          /* of the global batch: gyre_config.shards, or one a rank */
    int first, mine;     /* of this rank: [first, first + mine) */
    int sharded;         /* gyre_config.shards was given: the same bits for any number of ranks */
    int shard;           /* the one that is computed: 0 .. mine - 1 */
    int begin;           /* this backward pass begins sums over the ranks */
    int64_t *ticket;     /* [buckets] */
    int64_t *began;      /* [buckets]: clock when the sum was begun, for traces */
    float *room;         /* one value a channel: this rank's means */
    /* buckets whose sum was begun; whose sum is there: in the order of the plan */
    int opened, closed;
    float (*level)[4];   /* [levels + 1]: sums of results, as the tree of shards has them */
    float results[4];    /* of the shards so far: loss, labelled, top 1, top 5 */
    int grow, grown;     /* rank 0 knows of newcomers; some rank did, as of the last step */
    /* this rank was asked to stop; some rank was, as of the last step: the same on all */
    int stop, stopped;
};

/* Calls of a net that is one stage of several, or has slices of layers; NULL: the net is whole.
 * gradients, eval: NULL where the calls for a whole net do. */
struct gy_pipe;
struct gy_split_net;
struct gy_pipe_calls {
    int (*open)(struct gyre_net *net); /* after its memory is there */
    void (*close)(struct gyre_net *net);
    int (*gradients)(struct gyre_net *net, const struct gyre_batch *batch,
                     struct gyre_result *result);
    int (*eval)(struct gyre_net *net, const struct gyre_batch *batch, struct gyre_result *result);
    void (*aside)(struct gyre_net *net); /* what is fed next is of no update; NULL: nothing waits */
    int (*scores)(struct gyre_net *net); /* GY_OK if there are any; NULL: always */
    /* Of a batch of the last update; 0: there is none of that number. */
    int (*result)(const struct gyre_net *net, int number, struct gyre_result *result);
    int (*run)(struct gyre_net *net, const struct gy_op *op); /* GY_OP_SEND, GY_OP_RECV */
    int (*poll)(struct gyre_net *net); /* between two ops */
    int (*has)(const struct gyre_net *net, int region, int param);
    /* 1: the row is of another stage, and here it is; 0: it is of this one; or a status. */
    int (*row)(struct gyre_net *net, int param, int region, int32_t k, float *row);
    /* A checkpoint, or weights alone, of all ranks. */
    int (*save)(struct gyre_net *net, const char *path, int everything);
    int (*share)(struct gyre_net *net, double *values, int count); /* the last stage's, on all */
    int (*test)(const struct gyre_net *net); /* does this rank take part in evaluations? */
    /* Row k of a parameter among those of this rank; -1: it is another's. NULL: all are here. */
    int32_t (*place)(const struct gyre_net *net, int param, int32_t k);
};

/* What the net did when, in a ring: trace.h. */
struct gy_trace_event {
    const char *name, *what, *group; /* they live as long as the net */
    int64_t began, ended;            /* gy_clock_ns */
    int64_t step;
    double bytes;                    /* 0: not said */
    int row;
};

struct gy_trace {
    struct gy_trace_event *events;   /* [room]; NULL: nothing is kept */
    int64_t room, count;             /* count: of all times; the last `room` of them are there */
    int64_t talk_ended;              /* when the last sum ended; sums end one after the other */
};

/* What a failed call left incomplete, and mends: WEIGHTS is of gyre_import, ALL of gyre_load. */
enum gy_torn { GY_TORN_NOT, GY_TORN_WEIGHTS, GY_TORN_ALL };

struct gyre_net {
    struct gyre_config config;      /* its texts lie in the arena */
    struct gy_alloc alloc;          /* for what lives as long as the net: the hook, or its block */
    struct gy_alloc scratch;        /* for what a call takes and gives back: the hook, or malloc */
    struct gy_log log;
    struct gy_error error;          /* of the last call that failed */
    struct gy_arena arena;          /* graph, plan, tables: frozen after open */
    struct gy_graph graph;
    struct gy_plan plan;
    struct gy_uniform uniform;
    const struct gy_backend *backend;
    void *backend_self;
    struct gy_caps caps;
    int tuned_ops; /* ops whose block sizes or kernels are of the file config.tune */
    const char *tuned_rows;         /* on a GPU, its rows for them, as such a file; NULL: none */
    void *memory;                   /* all regions, one piece */
    size_t memory_bytes;
    void *base[GY_REGIONS];         /* on the device */
    /* IN and OUT as the host sees them, when it cannot read the device's memory; else NULL */
    void *pinned;
    size_t pinned_bytes;
    /* IN and OUT: where the host reads and writes; base on a device with the host's memory */
    void *seen[GY_REGIONS];
    float *row, *row2; /* one output channel of the largest weight: for changes of layout */
    int64_t row_count;
    int64_t micro;                  /* gyre_step calls that went through */
    int64_t updates;
    int pending; /* gyre_step calls whose gradients were summed since the last update */
    /* labelled samples whose gradients were summed for an update, in batches; of all ranks */
    double weight;
    double grad_weight;             /* of those in GY_AT_GRAD: this rank's, behind an update all */
    int mixed;                      /* the mix tensor is not the identity */
    int unnamed; /* the batch has targets but no labels: its samples have no rank */
    struct gy_scale scale;
    struct gy_parallel parallel;
    struct gy_trace trace;
    const struct gy_pipe_calls *pipe;
    struct gy_pipe *stage;          /* pipeline.c */
    struct gy_split_net *split; /* split_run.c */
    void *shared; /* several ranks: the gradients, where all of them sum; taken from the job */
    size_t shared_bytes;
    int failed;                     /* by the device or a rank: only close is allowed */
    int torn; /* reading ended amid what was to be written into the net: enum gy_torn */
    struct gy_note notes[GY_NOTE_KEYS];
    int note_count;
    char note_text[GY_NOTE_BYTES];
    size_t note_bytes;
};

/* Sets the net's last error and returns status: for calls above the core, such as the training
 * loop. */
GY_INT int gy_engine_fail(struct gyre_net *net, int status, const char *fmt, ...) GY_PRINTF(3, 4);
GY_INT const struct gy_alloc *gy_engine_scratch(const struct gyre_net *net);
GY_INT const struct gy_log *gy_engine_log(const struct gyre_net *net);
/* GY_E_ARG where net or pointer is NULL, with a sentence in the net. what: "gyre_save: path". */
GY_INT int gy_engine_given(struct gyre_net *net, const void *pointer, const char *what);
/* status, where the device gave it. One that is not GY_OK is told, and the net can only be closed.
 * what: "sending the batch". */
GY_INT int gy_engine_checked(struct gyre_net *net, int status, const char *what);
/* may this call be made now? */
GY_INT int gy_engine_ready(struct gyre_net *net, const char *call, int training);
/* GY_E_STATE while gradients wait for their update */
GY_INT int gy_engine_updated(struct gyre_net *net, const char *call);

/* open.c: gyre_measure, and a look at the net while it is planned, without memory for its tensors.
 * look may be NULL. */
GY_INT int gy_engine_measure(const struct gyre_config *config, struct gyre_need *need,
                             void (*look)(void *user, const struct gyre_net *net), void *user, struct gy_error *err);

/* open.c, for train/outlive.c too: gyre_open up to the memory, then with it; gyre_close's work. */
GY_INT int gy_engine_compile(struct gyre_net *net);
GY_INT int gy_engine_fill(struct gyre_net *net);
GY_INT void gy_engine_empty(struct gyre_net *net);
/* open.c: opens what net->config.device says into net->backend, backend_self and caps. */
GY_INT int gy_engine_open_device(struct gyre_net *net);

/* config.c */
/* checked */
GY_INT int gy_config_copy(struct gyre_config *out, const struct gyre_config *in, struct gy_error *err);

/* optim.c */
GY_INT float gy_schedule_rate(const struct gyre_schedule *schedule, int64_t step);
/* the share of itself that the average of weights keeps, after `updates` updates */
GY_INT float gy_average_keep(float decay, int64_t updates);
GY_INT int gy_init_weights(struct gyre_net *net);

/* staging.c: several ranks, each with a device with memory of its own */
GY_INT int gy_bridge_is(const struct gyre_net *net);
/* in backward: the bucket is complete */
GY_INT int gy_bridge_mark(struct gyre_net *net, int bucket);
/* behind backward: all buckets, as they become complete */
GY_INT int gy_bridge_fetch(struct gyre_net *net);
/* waits for it: in the ranks' memory */
GY_INT int gy_bridge_take(struct gyre_net *net, int bucket, float **data);
/* its sum, to the device: the update waits for it there */
GY_INT int gy_bridge_return(struct gyre_net *net, int bucket);

/* checkpoint_fits.c: GY_E_MISMATCH when the file is of another net, or of one whose samples become
 * input in another way. */
struct gy_st_file;
struct gy_st_writer;
GY_INT int gy_ckpt_check_net(struct gyre_net *net, const struct gy_st_file *file, const char *path);
GY_INT int gy_ckpt_check_input(struct gyre_net *net, const struct gy_st_file *file, const char *path);
GY_INT int gy_ckpt_put_input(struct gyre_net *net, struct gy_st_writer *writer);
GY_INT int gy_ckpt_write(struct gyre_net *net, const char *path, int everything); /* checkpoint.c */

/* loss_scale.c, which a build without GPUs has no use for: f16 is theirs */
#ifndef GY_NO_CUDA
GY_INT void gy_scale_open(struct gyre_net *net);
/* after the update program was started: asks for its outcome */
GY_INT int gy_scale_updated(struct gyre_net *net);
/* waits for it; afterwards net->updates and the scale are true */
GY_INT int gy_scale_settle(struct gyre_net *net);
#else
static inline void gy_scale_open(struct gyre_net *net)
{
    net->scale.now = net->uniform.loss_scale = 1;
}
static inline int gy_scale_updated(struct gyre_net *net) { return (void)net, GY_OK; }
static inline int gy_scale_settle(struct gyre_net *net) { return (void)net, GY_OK; }
#endif

/* weights.c: one parameter at a time, in PyTorch's layout, row k of it into or out of memory. */
/* elements of one row (output channel) */
GY_INT int64_t gy_param_row_count(const struct gy_param *p);
GY_INT int gy_param_read_row(struct gyre_net *net, int param, int region, int32_t k, float *row);
GY_INT int gy_param_write_row(struct gyre_net *net, int param, int region, int32_t k, const float *row);
GY_INT int gy_param_shape(const struct gy_param *p, int64_t shape[4]); /* PyTorch's; returns dims */
GY_INT int64_t gy_param_torch_index(const struct gy_param *p, int64_t index); /* of the element at index here */
/* the net's parameter of that name, or -1; the first guess saves time */
GY_INT int gy_param_named(const struct gyre_net *net, const char *name, int first);
GY_INT int gy_region_has(const struct gyre_net *net, int region, int param);

/* step.c: the device's limits, measured now. */
GY_INT int gy_engine_ceilings(struct gyre_net *net, struct gy_ceilings *out);
/* Runs one program. */
GY_INT int gy_engine_run(struct gyre_net *net, int program);
/* sets what the next update reads: rates at net->updates, the scale by net->weight */
GY_INT void gy_engine_rates(struct gyre_net *net);
/* 1: op is for batches with absent samples, and this batch has none */
GY_INT int gy_engine_skips(const struct gyre_net *net, const struct gy_op *op);
GY_INT int gy_step_keep_state(struct gyre_net *net, int restore); /* STATE to KEEP, or back */
GY_INT int gy_step_check_norms(struct gyre_net *net, int32_t count); /* enough samples? */
GY_INT int gy_step_judge(struct gyre_net *net, const struct gyre_result *result);
GY_INT int gy_step_results(struct gyre_net *net, int train, const char *what,
                           struct gyre_result *result); /* of the forward pass */
/* Copies a batch into the net's memory, fills up with unlabelled zero samples, sets
 * uniform.absent. */
GY_INT int gy_engine_feed(struct gyre_net *net, const struct gyre_batch *batch);

#endif
