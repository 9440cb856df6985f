/* SPDX-License-Identifier: MIT */
/* gyre.h: the public header of Gyre, a training engine for convolutional nets. Beside it stand
 * gyre_glm.h for linear models, gyre_job.h for several processes, and gyre_base.h.
 *
 * What is not in these four files is private. The simplest use comes first.
 *
 * gyre_zoo_text() gives the texts of well-known nets.
 *
 *     struct gyre_config config;
 *     gyre_config_default(&config);
 *     config.net = "input 28x28x1\n linear 10\n softmax\n";        net text
 *     config.batch = 64;
 *     struct gyre_net *net;
 *     struct gyre_error error;
 *     if (gyre_open(&net, &config, &error) != GYRE_OK)
 *         return puts(error.text), 1;
 *     while (more_data(&batch))
 *         gyre_step(net, &batch, &result);                           forward, backward, update
 *     gyre_save(net, "model.safetensors");
 *     gyre_close(net);
 *
 * Lifecycle. gyre_open compiles the net: text to graph to plan; all memory is taken there, by the
 * caller's hook or in the caller's block. Afterwards gyre_step, gyre_eval and gyre_predict allocate
 * nothing; calls with files may, and give it back. gyre_close gives everything back.
 *
 * Errors. A function that can fail returns 0 or a negative enum gyre_status. The sentence stands in
 * the struct gyre_error that was passed, or in gyre_last_error(net); it names the thing, the value
 * found and the limit. Outputs are set on success only. After GYRE_E_DEVICE, GYRE_E_PEER or
 * GYRE_E_BUG a net can only be closed. The library never exits, prints or handles signals.
 *
 * NULL. A NULL pointer where none is allowed gives GYRE_E_ARG and a sentence that names it. The
 * argument `error` may be NULL in every call, and so may results where it is said. Calls that
 * release something, or fill in facts without a status, do nothing with NULL. Those that return a
 * text return NULL, or "" as gyre_sample_name does. A NULL job is one of this process alone.
 *
 * Threads. Different threads may use different nets at once; one net, one thread at a time.
 *
 * fork. A child process has none of its parent's threads, and shares its GPU, files and connections
 * to other ranks. It must neither use nor close what the parent opened here. It may only call _exit
 * or one of exec. A program that wants several processes forks before its first call.
 *
 * Results. Same inputs give the same bits, whatever the number of threads. Random numbers are
 * counted, not drawn: a resumed run ends with the bits of one that was not interrupted. */
#ifndef GYRE_H
#define GYRE_H
#include "gyre_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- configuration --------------------------------------------------------------------------- */
enum gyre_mode { GYRE_TRAIN, GYRE_INFER /* no gradients, far less memory; gyre_step is refused */ };
/* Type of activations and working weights; sums stay float. F16: on a GPU, with loss scaling. */
enum gyre_dtype { GYRE_F32, GYRE_BF16, GYRE_F16 };
/* How samples become input, by channel. F32: (x - mean) / std. U8: (x / 255 - mean) / std. */
enum gyre_input { GYRE_INPUT_F32, GYRE_INPUT_U8 };
enum gyre_optimizer_kind {
    GYRE_SGD, GYRE_LARS, GYRE_ADAMW, GYRE_LAMB, GYRE_LARS_UNSCALED,
    GYRE_OPTIMIZERS /* how many there are */
};
enum gyre_schedule_kind { GYRE_CONSTANT, GYRE_STEPS, GYRE_COSINE, GYRE_POLY };

/* Update rules are as PyTorch defines them. LARS: v = m v + lr ratio (g + decay w); w -= v. Its
 * ratio is eta |w| / (|g| + decay |w|) of a tensor's norms. It is 1 where |w| or |g| is 0, and for
 * tensors without decay. GYRE_LARS_UNSCALED: v = m v + (g + decay w); w -= lr ratio v. LAMB (You et
 * al. 2020): w -= lr ratio u. Its u is AdamW's step of rate 1, with decay w; ratio is |w| / |u|, or
 * 1 as in LARS. All rules see the gradient after clip_norm. */
struct gyre_optimizer {
    int kind;           /* enum gyre_optimizer_kind; GYRE_SGD */
    float momentum;     /* .9 */
    int nesterov;       /* SGD and both LARS; 0 */
    float weight_decay; /* 1e-4 */
    /* 0: no weight decay (and no ratio of LARS and LAMB) for biases and batch norm */
    int decay_all;
    float beta1, beta2, eps; /* AdamW, LAMB: .9 .999 1e-8 */
    float lars_eta;     /* both LARS: .001 */
    /* 0: off; else the gradient's total norm is cut to this before the rule sees it */
    float clip_norm;
    /* decay of the weights' average, for evaluation: min(ema, (1 + n) / (10 + n)) at n updates */
    float ema;
};

/* The learning rate as a function of the step alone. */
struct gyre_schedule {
    int kind;             /* enum gyre_schedule_kind; GYRE_CONSTANT */
    float rate;           /* .1 */
    int64_t warmup;       /* steps of linear rise from warmup_from to rate; 0 */
    float warmup_from;    /* 0 */
    int64_t steps;        /* length of the run; needed by GYRE_COSINE and GYRE_POLY */
    float final_rate;     /* 0: where GYRE_COSINE and GYRE_POLY end */
    float power;          /* GYRE_POLY: 2 */
    float gamma;          /* GYRE_STEPS: factor at each milestone; .1 */
    int64_t milestone[8]; /* GYRE_STEPS: steps, rising, 0 ends the list */
};

/* Of a pipeline: a backward pass behind each forward pass, or first all forward passes. */
enum gyre_stage_schedule { GYRE_1F1B, GYRE_GPIPE };

struct gyre_job; /* gyre_job.h: processes that train together */

struct gyre_config {
    size_t size; /* sizeof(struct gyre_config), set by gyre_config_default */
    const char *net;      /* net text, NUL-terminated; copied */
    const char *net_name; /* for sentences, such as a file name; "net" */
    int mode;             /* enum gyre_mode; GYRE_TRAIN */
    int batch;            /* samples a step; 32 */
    /* gyre_step calls to an update, by the mean over all labelled samples of shards and ranks; 1 */
    int accumulate;
    /* What backward recomputes; 0. 1: all but the inputs of blocks: less memory, one more forward.
     * 0: inputs and outputs of batch norms, where that takes no time. -1: nothing. */
    int recompute;
    int dtype;            /* enum gyre_dtype, what activations are stored as; GYRE_F32 */
    int input;            /* enum gyre_input; GYRE_INPUT_F32 */
    /* input becomes (x / 255 - mean) / std (U8) or (x - mean) / std (F32); 0 and 1 */
    float mean[4], std[4];
    int threads;          /* 0: all processors of this process */
    /* "cpu", the default. "cuda:1": the GPU of that number. "cuda": each rank of a host has its
     * own. "auto": a GPU where one works, else the CPU. "emu": CUDA's emulator, for tests. "sm_90":
     * no device, for gyre_measure and `gyre kernels` alone. */
    const char *device;
    /* kernels: "ref", "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma"; NULL: the CPU's best */
    const char *isa;
    uint64_t seed;        /* 1 */
    struct gyre_optimizer optimizer;
    struct gyre_schedule schedule;
    struct gyre_memory memory;
    struct gyre_logger log;
    /* 1: GYRE_* variables fill what is left at its default; gyre_print_knobs lists them */
    int use_env;
    int pin;              /* enum gyre_pin; GYRE_PIN_AUTO */
    /* file that `gyre tune` wrote, or its text; "off": none; NULL: with use_env GYRE_TUNE or the
     * usual place where a file lies there, else none. Rows of other machines are passed over */
    const char *tune;
    /* GPU: folder of compiled kernels, "off": none; NULL: with use_env GYRE_KERNEL_CACHE, else
     * gyre/kernels in $XDG_CACHE_HOME or ~/.cache */
    const char *kernel_cache;
    /* GPU: file of compiled kernels that `gyre kernels` wrote, read first; NULL: with use_env
     * GYRE_KERNEL_PACK, else none */
    const char *kernel_pack;
    /* several processes train this net: gyre_job_open; batch is of each; NULL: alone */
    struct gyre_job *job;
    /* GYRE_F16: the loss's gradient is first multiplied by this. An update that overflows is
     * skipped and halves it; 2000 updates without double it. 65536 */
    float loss_scale;
    /* Of processes (ranks) and shards; all ranks give the same. shards, sync_bn: on the CPU. */
    /* Shards of `batch` samples in a step, dealt to the ranks, each with batch-norm statistics of
     * its own; 0: none. gyre_step and gyre_gradient take this rank's samples: batch * shards /
     * ranks; other calls at most `batch`. Then 1, 2, 4 ... ranks give the same bits. Each rank has
     * 1, 2, 4, 8 ... shards; where they have 2 or more, the last may have half. */
    int shards;
    /* Layers that a net's text calls split: each rank has columns of them; the job opens messages.
     * All ranks call gyre_step, gyre_eval, gyre_predict, gyre_save and gyre_export. With shards a
     * layer has as many slices, and the bits are one process's; else sums have another order. SGD
     * and AdamW, without clip_norm. On the CPU. */
    int sync_bn; /* 1: batch norms use the statistics of all ranks' samples together; 0 */
    /* gradients summed at a time, with the same bits, while others are computed; 0: 4 MiB */
    size_t bucket_bytes;
    /* ops and sums that are kept for gyre_write_trace, the last ones: 64 bytes each; 0 */
    int trace_events;
    /* A net in stages of consecutive layers: rank r of the job has stage r modulo pipeline of copy
     * r / pipeline. All ranks call gyre_step, gyre_eval, gyre_save and gyre_export; the last stage
     * has what gyre_eval gives. An update's `accumulate` batches, or a step's shards, go through
     * them in turn, with the bits of one process. On the CPU. */
    int pipeline;             /* stages; 0 and 1: each rank has the whole net; 0 */
    int stage;                /* the one that gyre_measure looks at where there is no job; 0 */
    int stage_schedule;       /* enum gyre_stage_schedule; GYRE_1F1B */
    size_t stage_bytes;       /* tensors of a rank may take so much; 0: any */
};

GYRE_API void gyre_config_default(struct gyre_config *config);

/* What a configuration takes, without taking it. */
struct gyre_need {
    /* all that gyre_open takes of the host's memory; a GPU's compiler and driver take more */
    size_t host_bytes;
    /* parts of it */
    size_t param_bytes, gradient_bytes, optimizer_bytes, activation_bytes, other_bytes;
    int64_t parameters;  /* trained numbers */
    int64_t flops; /* multiplications and additions of one step; forward alone with GYRE_INFER */
    /* on a GPU, and of the host's memory for its copies; else 0 */
    size_t device_bytes, pinned_bytes;
};
/* Runs the planner alone. Also the way to check a configuration: the sentence is in *error. */
GYRE_API int gyre_measure(const struct gyre_config *config, struct gyre_need *need, struct gyre_error *error);

/* ---- a net ----------------------------------------------------------------------------------- */
struct gyre_net;

/* On success *net is the caller's until gyre_close. Weights start as the seed says. */
GYRE_API int gyre_open(struct gyre_net **net, const struct gyre_config *config, struct gyre_error *error);
GYRE_API void gyre_close(struct gyre_net *net); /* NULL is fine */
/* NULL: of calls that got no net; never NULL */
GYRE_API const struct gyre_error *gyre_last_error(const struct gyre_net *net);

struct gyre_shape { int32_t h, w, c, classes, batch; };
/* NULL is fine, of both */
GYRE_API void gyre_get_shape(const struct gyre_net *net, struct gyre_shape *shape);

/* How a sample is made: it is moved by (dy, dx), where zeros come in, and mirrored. Then it is
 * mixed with another of the batch, moved in its own way (mixup, cutmix). */
struct gyre_mix {
    int32_t partner;        /* index in the batch; its own index: not mixed */
    float inside, label;    /* 0 .. 1: weight of the own pixel inside the box, of the own label */
    int32_t h0, w0, h1, w1; /* box [h0,h1) x [w0,w1) */
    /* pixel (h, w) is that of (h - dy, w - dx), with flip 1 of (h - dy, width - 1 - w - dx) */
    int32_t dy, dx, flip;
};

/* Read during the call only. */
struct gyre_batch {
    const void *x;               /* [count][h][w][c], float or uint8_t as gyre_config.input says */
    /* [count], -1: no label; NULL for gyre_predict, or with target: then no sample has a rank */
    const int32_t *label;
    const float *target;         /* [count][classes] for the mse loss, or NULL: one-hot label */
    /* [count] or NULL. Labels and targets are mixed, too, unless the partner has no label */
    const struct gyre_mix *mix;
    /* 1 .. gyre_config.batch; the absent are no part of anything. gyre_step with shards, or with
     * sync_bn and batch norms: full. A batch norm trains on at least 2 values a channel */
    int32_t count;
};

struct gyre_result {
    /* mean over the labelled samples; gyre_step: of all shards and ranks, as the two below */
    double loss;
    int32_t top1, top5; /* how many were right */
    int32_t labelled;   /* samples with a label */
    float rate;         /* gyre_step: learning rate used */
    int64_t step;       /* gyre_step: updates done so far */
    /* GYRE_F16: skipped updates of the whole run, and the scale of these gradients. Whether its own
     * update was skipped is known only in the next call: until then it counts as done in step. */
    int64_t skipped_steps;
    float loss_scale;
};

/* Forward, backward and, every gyre_config.accumulate calls, update. GYRE_E_NONFINITE: the loss, or
 * a score of a sample without a label, is not finite and nothing was updated; gyre_find_nonfinite
 * says where. GYRE_E_ARG also when no sample, of any rank, has a label. result may be NULL. Stages
 * of a pipeline say so in the last call of an update: the bad batches are dropped, others wait. */
GYRE_API int gyre_step(struct gyre_net *net, const struct gyre_batch *batch, struct gyre_result *result);
/* Forward with running statistics (averaged weights with ema), no dropout, no label smoothing. */
GYRE_API int gyre_eval(struct gyre_net *net, const struct gyre_batch *batch, struct gyre_result *result);
/* As gyre_eval; scores [count][classes]: probabilities, or outputs with the mse loss. */
GYRE_API int gyre_predict(struct gyre_net *net, const struct gyre_batch *batch, float *scores);
/* Forward and backward only, in training mode. Gradients are left for gyre_get_tensor("grad.NAME"):
 * of this rank alone, the mean over its labelled samples; result is of all, and all ranks call it.
 * GYRE_E_STATE in mid-accumulation, whose gradients would be lost. Does not allocate. */
GYRE_API int gyre_gradient(struct gyre_net *net, const struct gyre_batch *batch, struct gyre_result *result);

/* Results of the last batch, with all its shards; valid until the next call. Arrays: loss [count],
 * rank [count], scores [count][classes]. A rank is the number of classes that score higher than the
 * label, -1 without a label. Any pointer may be NULL. */
GYRE_API int gyre_get_scores(struct gyre_net *net, const float **scores, const float **loss, const int32_t **rank);

/* Replays this batch and checks every tensor, forward and, except in mid-accumulation, backward.
 * The sentence names the first op and tensor that is not finite, and the sample. *sample is its
 * index; -1: a weight or a sum over samples. GYRE_OK: all are finite. GYRE_E_STATE: they are, up to
 * where a rank with a part of the net would hear from others. */
GYRE_API int gyre_find_nonfinite(struct gyre_net *net, const struct gyre_batch *batch, int32_t *sample, struct gyre_error *where);

/* Writes when each of the last gyre_config.trace_events events ran: JSON for Chrome's trace viewer
 * or Perfetto. Each rank has a row of ops and one of sums with other ranks. All ranks of a job call
 * it. Those of one host write one file together; on several hosts rank N writes PATH.N. */
GYRE_API int gyre_write_trace(struct gyre_net *net, const char *path);

/* ---- weights and files ----------------------------------------------------------------------- */
struct gyre_tensor_info {
    const char *name;  /* PyTorch's: "layer1.0.conv1.weight" */
    int dims;          /* shape in PyTorch's order: [K][C][R][S], [K][C], [K] */
    int64_t shape[4];
    int64_t count;
    int trained;       /* 0: running statistics */
};
GYRE_API int gyre_tensor_count(const struct gyre_net *net); /* NULL: 0 */
/* GYRE_E_ARG, without a sentence: there is none */
GYRE_API int gyre_tensor_at(const struct gyre_net *net, int index, struct gyre_tensor_info *info);
/* Values in PyTorch's layout. name may begin with "grad." (after gyre_gradient or gyre_step: a mean
 * over samples), "momentum.", "second." or "ema.". */
GYRE_API int gyre_get_tensor(struct gyre_net *net, const char *name, float *values, int64_t count);
/* Sets a weight and its average, which evaluation uses; "ema.NAME" sets the average alone. */
GYRE_API int gyre_set_tensor(struct gyre_net *net, const char *name, const float *values, int64_t count);

/* A checkpoint: safetensors with PyTorch's names and layout, optimiser state, counters, the net's
 * text, and how samples become input. Whole or absent. On several ranks only behind an update: with
 * accumulate, GYRE_E_STATE in between. */
GYRE_API int gyre_save(struct gyre_net *net, const char *path);
/* Continues a checkpoint of the same net exactly: weights, optimiser, counters. Anything missing or
 * not finite, other layers, and an input, mean or std that is not the file's are GYRE_E_MISMATCH.
 * With GYRE_INFER a dropout's rate and a loss's smoothing may be others. An error leaves the net as
 * it was. One does not: the file was right and cannot be read again. Then calls that compute, save,
 * export, get or set tensors are GYRE_E_STATE until gyre_load succeeds. */
GYRE_API int gyre_load(struct gyre_net *net, const char *path);
/* Weights alone, without optimiser state: for PyTorch. */
GYRE_API int gyre_export(struct gyre_net *net, const char *path);
/* Weights alone from a safetensors file with PyTorch's names, or from a checkpoint, whatever its
 * net and input. With partial, tensors that are absent or of another shape keep their values and
 * are counted in *skipped (may be NULL). The file's tensors that the net does not have are left out
 * and counted in the log. Without partial, either is GYRE_E_MISMATCH. */
GYRE_API int gyre_import(struct gyre_net *net, const char *path, int partial, int *skipped);
/* A checkpoint's net text, into room bytes with NUL; *bytes (may be NULL) is its length. */
GYRE_API int gyre_read_net(const char *path, char *text, size_t room, size_t *bytes, struct gyre_error *error);
/* A checkpoint's config->input, mean and std; config has its defaults. GYRE_E_ARG: the file does
 * not say. */
GYRE_API int gyre_read_input(const char *path, struct gyre_config *config, struct gyre_error *error);
/* A value of a checkpoint's notes (gyre_note): "epoch", "classes", ... GYRE_E_ARG: none. */
GYRE_API int gyre_read_note(const char *path, const char *key, char *text, size_t room, struct gyre_error *error);
/* Keeps key = value (at most 64 keys, 16 KiB in all) in every later gyre_save of this net. */
GYRE_API int gyre_note(struct gyre_net *net, const char *key, const char *value);

/* ---- net texts ------------------------------------------------------------------------------- */

GYRE_API const char *gyre_zoo_name(int index);  /* NULL after the last */
GYRE_API const char *gyre_zoo_about(int index);
/* classes, h, w, c: 0 means the net's own. */
GYRE_API int gyre_zoo_text(const char *name, int32_t classes, int32_t h, int32_t w, int32_t c, const struct gyre_sink *sink, struct gyre_error *error);
/* the layers, their options and defaults; fails without a sentence */
GYRE_API int gyre_print_language(const struct gyre_sink *sink);
/* environment variables; fails without a sentence */
GYRE_API int gyre_print_knobs(const struct gyre_sink *sink);

/* ---- the plan -------------------------------------------------------------------------------- */
/* Programs and memory map: op, shapes, FLOPs, bytes, offset, kernel. json: one object. */
GYRE_API int gyre_print_plan(struct gyre_net *net, int json, const struct gyre_sink *sink);
/* The same of a net that is not opened, as gyre_measure plans it: its tensors take no memory. */
GYRE_API int gyre_print_config_plan(const struct gyre_config *config, int json, const struct gyre_sink *sink, struct gyre_error *error);

/* ---- data ------------------------------------------------------------------------------------ */
struct gyre_data;

struct gyre_data_config {
    size_t size;
    /* folder with a folder per class, IDX files, CIFAR binary files, or a packed file */
    const char *path;
    /* "train", "test" or another name of folders or files; "": "train", refused where path has
     * folders of splits. A path that has no splits (a folder with a folder per class, one file) is
     * one whole: "" and "train" open it. GYRE_E_FORMAT: there is no such split. */
    const char *split;
    int64_t max_bad;    /* unreadable samples that are skipped and named in the log; 0 */
    struct gyre_memory memory; /* hook only */
    struct gyre_logger log;
    /* Splits a set that has no test split. This share of each class, 0.000001 .. 0.99, rounded to a
     * whole number of samples, is held out. hold_seed, class and number in the class alone decide
     * which. held 1 opens the samples held out, 0 all others. 0, 1, 0. */
    double hold_out;
    uint64_t hold_seed;
    int held;
};
GYRE_API void gyre_data_config_default(struct gyre_data_config *config);
GYRE_API int gyre_open_data(struct gyre_data **data, const struct gyre_data_config *config, struct gyre_error *error);
/* NULL is fine; loaders of it must be closed */
GYRE_API void gyre_close_data(struct gyre_data *data);

struct gyre_data_info {
    const char *format; /* "idx", "cifar", "folder", "packed" */
    int64_t samples, bad;
    int32_t classes, channels, h, w; /* h, w 0: images differ */
    /* 1: samples are float (a folder of .pfm): for a net with GYRE_INPUT_F32; 0: GYRE_INPUT_U8 */
    int real;
    const char *split;  /* that was opened; "": path has none */
    double hold_out;    /* 0: nothing was held out */
    uint64_t hold_seed;
    int64_t hold_of;    /* samples of both parts */
    uint32_t hold_labels; /* a checksum of their labels: where it is the same, the parts are */
};
/* NULL is fine, of both */
GYRE_API void gyre_get_data_info(const struct gyre_data *data, struct gyre_data_info *info);
/* NULL out of range */
GYRE_API const char *gyre_class_name(const struct gyre_data *data, int32_t label);
/* returns buf */
GYRE_API const char *gyre_sample_name(const struct gyre_data *data, int64_t index, char *buf, size_t room);

struct gyre_augment {
    int32_t pad;                      /* border before a random crop, without resized_crop; 0 */
    int resized_crop;                 /* random resized crop, without pad; 0 */
    float scale_min, scale_max;       /* .08 1 */
    float ratio_min, ratio_max;       /* .75 1.3333 */
    float flip;                       /* probability; 0 */
    float brightness, contrast, saturation, hue; /* 0 */
    float mixup, cutmix;              /* alpha; both: one or the other for each batch; 0 */
    /* shorter side before the centre crop: of evaluation, and of training without pad and
     * resized_crop; 0: the net's size */
    int32_t resize;
};

struct gyre_loader;
struct gyre_loader_config {
    size_t size;
    int32_t batch, h, w, c;
    int training;          /* 1: shuffled epochs without end; 0: in order, once */
    struct gyre_augment augment;
    uint64_t seed;
    int64_t first_batch;   /* to resume */
    int threads, depth;    /* 1, 4 */
    struct gyre_memory memory; /* hook only */
    struct gyre_logger log;
    /* training: every step's samples are dealt to `parts` loaders, of which this is one; 0, 0 */
    int32_t part, parts;
    /* groups of a batch; samples are mixed with others of their own group only; 1 */
    int32_t groups;
    /* 1: the net's device makes crops from a border and flips, as gyre_batch.mix says, where only
     * mixing follows them. Samples stay the same; 0 */
    int moves;
};
GYRE_API void gyre_loader_config_default(struct gyre_loader_config *config);
GYRE_API int gyre_open_loader(struct gyre_loader **loader, struct gyre_data *data, const struct gyre_loader_config *config,
                              struct gyre_error *error);
/* The next batch, valid until the call after; count 0: the end. samples: indexes, or NULL. */
GYRE_API int gyre_next_batch(struct gyre_loader *loader, struct gyre_batch *batch, const int64_t **samples, struct gyre_error *error);
GYRE_API void gyre_close_loader(struct gyre_loader *loader); /* NULL is fine */

/* Pixels -> PNG of the loader's next batch as a grid, for looking at augmentation. */
GYRE_API int gyre_write_contact_sheet(struct gyre_loader *loader, const char *path, struct gyre_error *error);
/* One image file (JPEG, PNG, BMP, PNM) cropped and scaled as evaluation does: pixels [h][w][c];
 * gray of colours is their luma (BT.601). An orientation that EXIF states is not applied, here or
 * in data sets. */
GYRE_API int gyre_read_image(const char *path, int32_t h, int32_t w, int32_t c, int32_t resize, uint8_t *pixels, struct gyre_error *error);
/* Writes data as one packed file, shorter side resized to side (0: not). progress non-zero:
 * stops. */
GYRE_API int gyre_pack(struct gyre_data *data, const char *path, int32_t side, int threads,
                       int (*progress)(void *user, int64_t done, int64_t total), void *user, struct gyre_error *error);

/* ---- the loop -------------------------------------------------------------------------------- */
#define GYRE_STALE 16
struct gyre_progress {
    /* "resume", "step", "epoch", "checkpoint"; with parameter servers at the end "servers" */
    const char *event;
    int64_t step, steps;       /* batches done and in all */
    int epoch, epochs;         /* the present one counts from 1 */
    /* step: since the epoch's begin; epoch: of the epoch's training batches */
    double loss, accuracy;
    double test_loss, test_accuracy, test_top5; /* epoch: NAN without test data */
    double images_per_second;  /* of this epoch so far */
    double seconds_left;       /* of the whole run */
    int64_t loader_waits;      /* batches of this run that were not ready, the first aside */
    float rate;
    const char *path;          /* resume, checkpoint: the checkpoint's file */
    double loader_wait_seconds; /* how long loader_waits took in all */
    int64_t skipped_steps; /* GYRE_F16: updates that were skipped because gradients overflowed */
    double loss_scale;         /* GYRE_F16; else 0 */
    /* "servers": gradients of slices of the parameters: used in updates, too late, and 0, 1, ...
     * updates old (the last place: so many and more). lost, joined: workers that were lost and that
     * replaced them; again: gradients of the latter. */
    int64_t taken, late, stale[GYRE_STALE], lost, joined, again;
};

struct gyre_train_config {
    size_t size;
    struct gyre_data *train, *test; /* test may be NULL */
    int epochs;                /* 1 */
    /* gyre_step calls of the whole run, at least gyre_config.accumulate; 0: epochs decide */
    int64_t max_steps;
    struct gyre_augment augment; /* training; evaluation uses .resize of it alone */
    int loader_threads;        /* 1 */
    /* output: metrics.csv, curve.svg, events, checkpoints; NULL: nothing is written */
    const char *folder;
    /* between checkpoints; 0: each epoch; ranks wait for the next update, rank 0's number counts */
    int64_t checkpoint_steps;
    int keep;                  /* checkpoints kept; 3 */
    /* 1: continue from the newest readable checkpoint in folder, if any. GYRE_E_MISMATCH: data,
     * batch, accumulate, shards, or (without shards) ranks differ */
    int resume;
    /* 1: an earlier run's checkpoints are removed, when nothing has refused this one; 0: without
     * resume they are GYRE_E_STATE */
    int overwrite;
    /* may be NULL; non-zero: checkpoint and stop */
    int (*progress)(void *user, const struct gyre_progress *progress);
    void *user;
};
GYRE_API void gyre_train_config_default(struct gyre_train_config *config);
/* Trains; net must be in GYRE_TRAIN mode with the input that the data need. GYRE_E_STOPPED after a
 * stop: everything is saved. GYRE_E_NONFINITE: the sentence names op, tensor, index and the
 * sample's file; the last checkpoint stands. Before each checkpoint of rank 0, and at the end,
 * ranks compare their weights: GYRE_E_PEER names those that have others. */
GYRE_API int gyre_train(struct gyre_net *net, const struct gyre_train_config *config);
/* The newest checkpoint in a folder of gyre_train, into room bytes. GYRE_E_IO: none. */
GYRE_API int gyre_find_checkpoint(const char *folder, char *path, size_t room, struct gyre_error *error);

struct gyre_report {
    int64_t samples, bad;
    double loss, top1, top5;   /* top1, top5 in [0, 1] */
    double seconds;
};
struct gyre_evaluate_config {
    size_t size;
    struct gyre_data *data;
    int32_t resize;            /* as gyre_augment.resize */
    int loader_threads;
    const char *confusion_svg; /* path or NULL */
    const char *const *names;  /* of the net's classes; NULL: the data's */
    int json;                  /* text: 0 a table, 1 one JSON object */
    /* per-class precision, recall, average precision, confusion matrix; or NULL */
    const struct gyre_sink *text;
};
GYRE_API void gyre_evaluate_config_default(struct gyre_evaluate_config *config);
GYRE_API int gyre_evaluate(struct gyre_net *net, const struct gyre_evaluate_config *config, struct gyre_report *report);

#ifdef __cplusplus
}
#endif
#endif
