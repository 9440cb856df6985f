/* SPDX-License-Identifier: MIT */
/* lab.h: the command's workbench: functions that print, measure or generate. tools/cmd_*.c call
 * them, tests do, too; they stand above the library, may see its internals, and are in no
 * amalgamation. They follow the rules at the head of gyre.h: statuses, sentences, NULL, sizes set
 * by default functions. */
#ifndef GYRE_LAB_H
#define GYRE_LAB_H
#include "engine/gyre.h"
#include "engine/gyre_glm.h"

/* ---- speed ---------------------------------------------------------------------------------- */

/* Times every op of a training step, `runs` times each. A table, or CSV, has op, shape,
 * microseconds (least), GFLOP/s and GB/s beside the measured peak and bandwidth. Last comes the
 * op's limit: the larger of FLOPs over peak and bytes over bandwidth. The table ends with the
 * convolutions by shape, three passes each, and sums by kind. Weights are not kept. Takes memory
 * for its duration. */
GYRE_API int gyre_print_bench(struct gyre_net *net, int runs, int csv, const struct gyre_sink *sink);

struct gyre_tune_config {
    size_t size;
    int runs; /* of every candidate, in turn with the others; the fastest counts; 5 */
    /* 1: also sizes that change the order of sums, so results differ in their last bits from those
     * without the file; 0: every bit stays */
    int any_order;
    /* file to write; NULL: gyre_config.tune, else GYRE_TUNE, else the usual place */
    const char *path;
    const char *command;       /* kept with the rows, for people; may be NULL */
};
GYRE_API void gyre_tune_config_default(struct gyre_tune_config *config);
/* Measures block sizes for every distinct convolution of the net on this machine, forward and both
 * gradients. Prints a table and writes the winners, with their source, into a text file. What it
 * holds of other shapes and machines stays. Nets that are opened later with this file use them.
 * With whatever rows, results are the same for any number of threads. On a GPU whole kernels race,
 * each with its own order of sums: only with any_order; rows hold for the kernel's text that was
 * measured. Tensors are overwritten: the net is to be closed then. config may be NULL. Takes memory
 * for its duration. */
GYRE_API int gyre_print_tune(struct gyre_net *net, const struct gyre_tune_config *config, const struct gyre_sink *sink);

/* ---- a pipeline ----------------------------------------------------------------------------- */

/* The stages of gyre_config.pipeline: layers, parameters, memory, share of the time, bytes moved. A
 * simulation says how long stages wait for each other. A table, or JSON. */
GYRE_API int gyre_print_stages(const struct gyre_config *config, int json,
                               const struct gyre_sink *sink, struct gyre_error *error);

/* ---- kernels of a GPU ----------------------------------------------------------------------- */

/* Kernels of a GPU, which are compiled for a net's shapes. The field config.device is an
 * architecture ("sm_90": no GPU is needed, only CUDA's compiler NVRTC), or a GPU. */
enum gyre_kernels_form { GYRE_KERNELS_LIST, GYRE_KERNELS_SOURCE, GYRE_KERNELS_PTX, GYRE_KERNELS_CUBIN };
struct gyre_kernels_config {
    size_t size;
    /* enum gyre_kernels_form: a line a launch (registers, stack, spills, occupancy); or dumps of
     * one layer */
    int form;
    const char *layer; /* name of a layer, or NULL: all */
    /* for dumps: what the op does, such as "conv-wgrad"; NULL: all ops of the layer */
    const char *op;
    int strict;        /* 1: GYRE_E_BUG when a convolution spills registers */
};
GYRE_API void gyre_kernels_config_default(struct gyre_kernels_config *config);
/* Lists or dumps them; what NULL: lists. Compiles what the cache does not hold. */
GYRE_API int gyre_print_kernels(const struct gyre_config *config, const struct gyre_kernels_config *what, const struct gyre_sink *sink,
                                struct gyre_error *error);
/* Compiles the net's kernels for architectures (75, 80, 90 ...) into one file,
 * gyre_config.kernel_pack of machines without NVRTC. */
GYRE_API int gyre_pack_kernels(const struct gyre_config *config, const int *archs, int count, const char *path, struct gyre_error *error);
/* A user's own kernel, in the dialect of kernels/cuda/prelude.cuh, for an op of the library.
 * Lines '// gyre: ...' of the file say what it is (tools/lab/try_text.h). */
struct gyre_try_config {
    size_t size;
    const char *file;
    int runs;          /* of every variant when they are timed, in turn; the fastest counts; 5 */
    uint64_t seed;     /* of the inputs */
};
GYRE_API void gyre_try_config_default(struct gyre_try_config *config);
/* Compiles it and checks it against the reference on every shape and type of its lines, with random
 * inputs and poisoned outputs. Times it beside the library's variants. The field config.device is a
 * GPU; "emu": no times; "sm_90": it is only compiled. The field config.net may be NULL.
 * GYRE_E_MISMATCH: the sentence names the first wrong element, what was expected and what came. */
GYRE_API int gyre_print_try(const struct gyre_config *config, const struct gyre_try_config *what, const struct gyre_sink *sink,
                            struct gyre_error *error);
/* Compiles the kernels that a checkpoint records once more, and compares hashes of their texts and
 * of the machine code. GYRE_E_MISMATCH: they differ. GYRE_E_ARG: the checkpoint was not made on a
 * GPU. The argument log may be NULL. */
GYRE_API int gyre_print_audit(const char *path, const struct gyre_logger *log, const struct gyre_sink *sink, struct gyre_error *error);

/* ---- schedules ------------------------------------------------------------------------------ */

/* algorithms of allreduce and broadcast; NULL after the last */
GYRE_API const char *gyre_collective_name(int index);
GYRE_API const char *gyre_collective_about(int index);
struct gyre_collective {
    size_t size;
    const char *algorithm;  /* "multihalving" */
    int ranks, lanes;       /* lanes: parts of the buffer that follow each other; 1, 1 */
    int dims[8];            /* their product is ranks, the nearest first; 0 ends: one dimension */
    int rank;               /* whose steps are printed; -1: all; -2: none */
    const char *file;       /* a schedule as it is printed, in place of an algorithm; NULL */
};
GYRE_API void gyre_collective_default(struct gyre_collective *collective);
/* Builds a schedule or reads it, proves it (every contribution exactly once, the same order on all
 * ranks, no deadlock) and prints it. */
GYRE_API int gyre_print_collective(const struct gyre_collective *collective, const struct gyre_sink *sink, struct gyre_error *error);

struct gyre_simulation {
    size_t size;
    const char *cluster;    /* file, as tools/examples/ddl.cluster */
    const char *algorithm;  /* "multihalving", over ranks of a host and two dimensions of hosts */
    int lanes;              /* 4 */
    /* gradients of a step, and reduced at a time: 102e6 (ResNet-50 in float), 16e6 */
    double bytes, bucket_bytes;
    int samples;            /* with other noise each; 15 */
};
GYRE_API void gyre_simulation_default(struct gyre_simulation *simulation);
/* A table of simulated data-parallel training on 1, 2, 4 ... hosts of the cluster. It has the times
 * of an allreduce and of a step, and the efficiency against one rank: median and 95th percentile. A
 * simulation, never a measurement. */
GYRE_API int gyre_print_simulation(const struct gyre_simulation *simulation, const struct gyre_sink *sink, struct gyre_error *error);

/* ---- a job ---------------------------------------------------------------------------------- */

/* Devices of this machine; kind: "cuda"; "emu": as many as GYRE_EMU_DEVICES says. */
GYRE_API int gyre_count_devices(const char *kind, int *count, struct gyre_error *error);

/* What all ranks of a job spent the time of a run on. It names images a second beside those of one
 * rank, sums and waits by rank, the straggler, and bytes on each link. A collective; rank 0 prints.
 * images: of a step, of all ranks. Alone, or without steps of gyre_train, nothing. */
struct gyre_job;
GYRE_API int gyre_print_ranks(struct gyre_job *job, int64_t images, int json,
                              const struct gyre_sink *sink, struct gyre_error *error);

/* Merges the flight records that the ranks of a job left in a folder (GYRE_FLIGHT, or a run's). A
 * page, or one JSON object, says what each did last, who waited for whom, why, and what to look at.
 * A file that is damaged, foreign or of another start gets a sentence and is left out. The flag
 * before asks for the records of the start before the last one. GYRE_E_IO and others: none can be
 * read. */
GYRE_API int gyre_print_doctor(const char *folder, int before, int json,
                               const struct gyre_sink *sink, struct gyre_error *error);

/* ---- a step, a machine ---------------------------------------------------------------------- */

struct gyre_why_config {
    size_t size;
    struct gyre_data *data;    /* NULL: synthetic samples */
    struct gyre_augment augment; /* as in training */
    int loader_threads;        /* 1 */
    int steps;                 /* that are measured, after three others; 20 */
    int json;                  /* 0: a page, 1: one JSON object */
    int all_ops; /* 1: the page ends with a line for each op; the JSON object has them always */
};
GYRE_API void gyre_why_config_default(struct gyre_why_config *config);
/* Why training is as fast as it is. Runs real training steps with a clock around each op. Prints
 * where a step's time goes, and whether input, compute or memory binds. Each kind of op stands
 * beside its limit: the larger of multiplications over the measured peak and bytes over the
 * measured bandwidth. Then come the five ops that lose most. Predictions, with reasons, say what
 * batch, type, recomputation, threads and packed data would bring. The steps have learning rate 0:
 * weights stay, momentum, averages and running statistics do not. Not in mid-accumulation. config
 * may be NULL. Takes memory for its duration. */
GYRE_API int gyre_print_why(struct gyre_net *net, const struct gyre_why_config *config, const struct gyre_sink *sink);

struct gyre_fit_config {
    size_t size;
    size_t bytes;  /* limit of the training process's memory (net, loader's batches, program), or of
                    * a GPU's memory. 0: nine tenths of what this machine has free */
    int processes; /* that share what is free; 1 */
    int recompute; /* that may be chosen: 0, 1; -1: both; -1 */
    /* samples an update, batch times accumulation; 0: a batch of at most 256, no accumulation */
    int target_batch;
    int dtypes; /* that may be chosen: bits 1 << enum gyre_dtype, f32 and bf16; both */
    int json;                  /* 0: a table, 1: one JSON object */
};
struct gyre_fit {
    int batch, accumulate, recompute, dtype; /* as in struct gyre_config */
    size_t bytes, limit;                     /* planned; may be taken */
    double images_per_second;  /* expected, when input never waits */
};
GYRE_API void gyre_fit_config_default(struct gyre_fit_config *config);
struct gyre_fit_ranks {
    size_t size;
    int ranks;           /* that train together, each as the one that fit describes */
    const char *cluster; /* file, as tools/examples/ddl.cluster: ranks and links of its hosts. The
                            time of a step in it is not used */
    int lanes;           /* 4 */
    double bucket_bytes; /* reduced at a time; 16e6 */
};
GYRE_API void gyre_fit_ranks_default(struct gyre_fit_ranks *ranks);
/* As gyre_print_fit for one of several ranks: fit->target_batch, if any, is the update's of all of
 * them. Prints each batch that fits, with float and bf16 gradients between hosts, and the best.
 * Simulated are images/s of all ranks and the efficiency beside ranks that need not wait. choice:
 * of each rank; *half_wire: gradients are best sent as bf16. Both and error may be NULL. */
GYRE_API int gyre_print_fit_ranks(const struct gyre_config *config,
                                  const struct gyre_fit_config *fit,
                                  const struct gyre_fit_ranks *ranks, struct gyre_fit *choice,
                                  int *half_wire, const struct gyre_sink *sink,
                                  struct gyre_error *error);
/* Chooses batch, accumulation, recomputation and type for training config's net within fit->bytes,
 * by planning alone. It takes the fastest of all that fit. Of those within 2 % it takes the largest
 * batch, and of these the plainest. Speeds are expected, from this machine's measured peak and
 * bandwidth (half a second) and the share of them that ops of each kind reach. GYRE_E_NOMEM when
 * nothing fits. choice, out and error may be NULL. */
GYRE_API int gyre_print_fit(const struct gyre_config *config, const struct gyre_fit_config *fit, struct gyre_fit *choice,
                            const struct gyre_sink *sink, struct gyre_error *error);

/* ---- rows and models ------------------------------------------------------------------------ */

/* What a block file, a text of rows or a model is and holds. Rows are read whole and checked. The
 * argument how is for text, and may be NULL. */
GYRE_API int gyre_glm_print_inspect(const char *path, const struct gyre_glm_data *how, int json, const struct gyre_sink *text,
                                    struct gyre_error *error);

struct gyre_glm_generate_config {
    size_t size;
    const char *to;            /* block file, over no other file; with text: svmlight */
    int text;
    int64_t rows;              /* 1,000,000 */
    /* most of them; the largest of 39 fields (10,131,227 ids) are cut; 0: 33,762,577 and some;
     * 1,000,000 */
    int64_t features;
    double zipf;               /* exponent of the ids' frequencies, 1.05 .. 1.2; 1.1 */
    double rate;               /* of clicks; .256 */
    double scale;              /* standard deviation of the planted scores; 1.1 */
    /* of the planted model, and of rows from first_row on: rows are a function of seed and number;
     * 1 */
    uint64_t seed;
    int64_t first_row;         /* 0 */
    const char *weights;       /* file for the planted model; NULL */
    int threads;
    int (*progress)(void *user, int64_t done, int64_t total);
    void *user;
};
GYRE_API void gyre_glm_generate_default(struct gyre_glm_generate_config *config);
struct gyre_glm_generated {
    uint32_t features;
    /* of the rows: clicks; expected and actual log-loss of the planted model, below which none
     * comes */
    double rate, entropy, log_loss;
};
GYRE_API int gyre_glm_generate(const struct gyre_glm_generate_config *config, struct gyre_glm_generated *out, struct gyre_error *error);

#endif
