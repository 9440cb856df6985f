/* SPDX-License-Identifier: MIT */
/* train_options.c: the options of 'gyre train', for cmd_train.c, and which of them leave others
 * without effect. */
#include "tools/lab/lab.h"
#include "tools/train_options.h"

#define AT(member) offsetof(struct train_values, member)
/* Recipes, and what large batches want. */
const struct cli_option train_recipe_rows[4] = {
    { CLI_RECIPE_OPTION, "FILE|NAME", NULL,
      "options from a text, which those of the command line win over: 'gyre recipe list'", CLI_TEXT,
      AT(recipe), 0, 0 },
    { "warmup-from", "X", "0", "rate that this rise begins at", CLI_REAL, AT(warmup_from), 0, 1e6 },
    { "skip", "norms|none", "norms",
      "what weight decay and the ratios of lars and lamb leave alone; norms: biases and batch "
      "norms, which take the rate as it is, as MLPerf has it; none: nothing, as Intel Caffe's LARS "
      "has it", CLI_CHOICE, AT(skip), 0, 0 },
    { "mem", "SIZE", NULL,
      "memory that --accumulate auto may take, default: nine tenths of what is free; or the tensors "
      "of a stage of --pipeline, default: any", CLI_SIZE, AT(mem), 0, 0 },
};

const struct cli_option train_rows[42] = {
    { "batch", "N", "128", "images a step", CLI_WHOLE, AT(batch), 1, 1 << 20 },
    { "epochs", "N", "10", "times through the training data", CLI_WHOLE, AT(epochs), 1, 1e6 },
    { "steps", "N", NULL, "steps of the whole run, of --batch images each, instead of --epochs",
      CLI_WHOLE, AT(steps), 1, 1e12 },
    { "optimizer", CLI_OPTIMIZERS, "sgd",
      "update rule; lars: momentum of what the ratio scaled (You et al. 2017), lars-unscaled: the "
      "ratio scales the momentum (Kumar et al. 2019); lamb: You et al. 2020", CLI_CHOICE,
      AT(optimizer), 0, 0 },
    { "lr", "X", NULL, "learning rate; default: sgd 0.05, both lars 2, adamw 0.001, lamb 0.01",
      CLI_REAL, AT(lr), 1e-12, 1e6 },
    { "momentum", "X", "0.9", "of sgd and both lars", CLI_REAL, AT(momentum), 0, 0.99999 },
    { "nesterov", NULL, NULL, "Nesterov's momentum", CLI_FLAG, AT(nesterov), 0, 0 },
    { "weight-decay", "X", "0.0001", "pulls weights to 0, but what --skip names", CLI_REAL,
      AT(weight_decay), 0, 1e6 },
    { "schedule", "constant|step|cosine|poly", "cosine", "how the learning rate falls", CLI_CHOICE, AT(schedule), 0, 0 },
    { "warmup-epochs", "X", "0", "linear rise at the beginning", CLI_REAL, AT(warmup_epochs), 0, 1e6 },
    { "milestones", "E,E,...", NULL, "epochs after which --schedule step divides by ten; default: 1/2 and 3/4 of the run", CLI_REALS,
      AT(milestones), 1e-6, 1e6 },
    { "final-lr", "X", "0", "where cosine and poly end", CLI_REAL, AT(final_rate), 0, 1e6 },
    { "power", "X", "2", "of --schedule poly; 1: a straight line down", CLI_REAL, AT(power), 1e-3, 100 },
    { "smoothing", "X", "0", "label smoothing of a net that ends in a plain softmax", CLI_REAL, AT(smoothing), 0, 0.999 },
    { "clip", "X", "0", "largest norm of the gradient; 0: any", CLI_REAL, AT(clip), 0, 1e30 },
    { "ema", "X", "0", "decay of averaged weights, which evaluation then uses; 0: off", CLI_REAL, AT(ema), 0, 0.9999999 },
    { "accumulate", "N|auto", "1",
      "steps whose gradients make one update; auto: --batch is the update's, and as much of it at a "
      "time as is fastest within --mem", CLI_AUTO, AT(accumulate), 1, 1 << 20 },
    { "recompute", NULL, NULL, "less memory for more time: keep only block inputs", CLI_FLAG, AT(recompute), 0, 0 },
    { "pad-crop", "N", "0", "zero border before a random crop", CLI_WHOLE, AT(pad_crop), 0, 1024 },
    { "flip", NULL, NULL, "mirror every other image", CLI_FLAG, AT(flip), 0, 0 },
    { "resized-crop", NULL, NULL, "random part of the image, scaled", CLI_FLAG, AT(resized_crop), 0, 0 },
    { "jitter", "X", "0", "colour: brightness, contrast and saturation by up to X, hue by X/4", CLI_REAL, AT(jitter), 0, 1 },
    { "mixup", "ALPHA", "0", "mix pairs of images; 0: off", CLI_REAL, AT(mixup), 0, 100 },
    { "cutmix", "ALPHA", "0", "paste boxes of other images; 0: off", CLI_REAL, AT(cutmix), 0, 100 },
    { "resize", "N", NULL,
      "shorter side before the centre crop: of evaluation, and of training without --pad-crop and "
      "--resized-crop; default: 8/7 of the net's side above 64, else that side", CLI_WHOLE,
      AT(resize), 1, 16384 },
    { "mean", "X,X,X", NULL, "of pixels in [0, 1], a channel; default: 0.286 for gray, ImageNet's for colour", CLI_REALS, AT(mean), 0, 0 },
    { "std", "X,X,X", NULL, "likewise; default: 0.353 for gray, ImageNet's for colour", CLI_REALS, AT(std), 1e-9, 1e9 },
    { "max-bad", "N", "0", "unreadable images that are skipped and named before it is an error", CLI_WHOLE, AT(max_bad), 0, 1e12 },
    { "test-data", "PATH", NULL, "data to test on after each epoch; 'none'; default: DATA's test split when there is one", CLI_TEXT,
      AT(test_data), 0, 0 },
    { "val-split", "X", "0", "hold out this part of each class, by --seed, and test on it instead: where DATA has no test split, or to spare it",
      CLI_REAL, AT(val_split), 0, 0.99 },
    { "names", "A,B,...", NULL, "names of the classes; default: the data's", CLI_TEXT, AT(names), 0, 0 },
    { "classes", "N", NULL, "outputs of a zoo net; default: the data's", CLI_WHOLE, AT(classes), 1, 1 << 20 },
    { "size", "N", NULL,
      "side of a zoo net's input, which then has the data's channels; default: the data's up to 64, "
      "else side and channels are the net's own", CLI_WHOLE, AT(size), 1, 16384 },
    { "loader-threads", "N", "0", "threads that read images; 0: by the data's format", CLI_WHOLE, AT(loader_threads), 0, 256 },
    { "weights", "FILE", NULL, "start from these weights, when nothing is resumed; tensors that do not fit are left as they are", CLI_TEXT, AT(weights), 0, 0 },
    { "out", "DIR", NULL, "folder of the run; default: runs/NET", CLI_TEXT, AT(out), 0, 0 },
    { "checkpoint-every", "N", "0",
      "steps between checkpoints, of --batch images each; 0: each epoch", CLI_WHOLE,
      AT(checkpoint_every), 0, 1e12 },
    { "keep", "N", "3", "checkpoints that are kept", CLI_WHOLE, AT(keep), 1, 1e6 },
    { "resume", NULL, NULL, "go on from the newest readable checkpoint of --out, if any; --mean, --std, --resize, --names, --val-split: as it has them",
      CLI_FLAG, AT(resume), 0, 0 },
    { "overwrite", NULL, NULL, "remove the checkpoints of an earlier run in --out", CLI_FLAG, AT(overwrite), 0, 0 },
    { "show-batch", "FILE.png", NULL, "write the first batch as the net sees it, and end", CLI_TEXT, AT(show_batch), 0, 0 },
    { "json", NULL, NULL, "one JSON object a line on standard output", CLI_FLAG, AT(json), 0, 0 },
};

/* Several processes. */
const struct cli_option train_ranks_rows[10] = {
    { "ranks", "N", "1",
      "processes on this machine, started here, that train together: each takes --batch images a "
      "step, and a GPU of its own with --device cuda; 'gyre launch' has more", CLI_WHOLE, AT(ranks), 1, 256 },
    { "shards", "N", "0",
      "a step is N batches, dealt to the processes; any number of them then gives the same bits "
      "where N is 1, 2, 4, 8 ...", CLI_WHOLE, AT(shards), 0, 65536 },
    { "elastic", "MIN:MAX", NULL,
      "the job goes on when processes are lost, with at least MIN, and takes newcomers up to MAX; "
      "needs --shards, or is for workers beside --servers; default: what 'gyre launch --elastic' says", CLI_TEXT, AT(elastic), 0, 0 },
    { "sync-bn", NULL, NULL, "batch norms see the images of all processes", CLI_FLAG, AT(sync_bn), 0, 0 },
    { "bucket", "X", "4", "megabytes of gradients that processes sum at a time, while the rest is computed", CLI_REAL, AT(bucket), 0.001, 1e6 },
    { "wire", "f32|bf16", "f32", "what gradients travel as between hosts; bf16: half the bytes", CLI_CHOICE, AT(wire), 0, 0 },
    { "pipeline", "P", "1",
      "stages of consecutive layers, one a process: for a net larger than a process; D x P "
      "processes are D copies", CLI_WHOLE, AT(pipeline), 1, 64 },
    { "micro", "M", "0",
      "equal parts of --batch that go through the stages one behind the other and make one update; "
      "0: up to four a stage. With --shards these are the parts", CLI_WHOLE, AT(micro), 0, 1 << 20 },
    { "stage-schedule", "1f1b|gpipe", "1f1b",
      "order of a stage's passes: a backward pass behind each forward pass, or all forward passes "
      "first", CLI_CHOICE, AT(stage_schedule), 0, 0 },
    { "trace", "FILE", NULL, "what ran when, of the last steps, as JSON for Chrome's trace viewer", CLI_TEXT, AT(trace), 0, 0 },
};
#undef AT

/* ---- a pipeline's micro-batches ---- */

int64_t train_micros(const struct train_values *v)
{
    int64_t m = v->micro;
    if (v->pipeline < 2 || v->shards)
        return 1;
    for (m = m ? m : 4 * v->pipeline; m > 1 && v->batch % m != 0 && !v->micro;)
        m--;
    return m;
}

int64_t train_batch_of(const struct train_values *v) { return v->batch / train_micros(v); }
int64_t train_accumulate_of(const struct train_values *v)
{
    return v->pipeline > 1 ? train_micros(v) : v->accumulate;
}

static int check_pipeline(const struct train_values *v)
{
    const struct {
        int there;
        const char *sentence;
    } rows[] = {
        { v->pipeline < 2 && (v->micro || v->stage_schedule),
          "--micro and --stage-schedule are for --pipeline 2 and more" },
        { v->pipeline > 1 && v->accumulate != 1,
          "--pipeline and --accumulate together: --micro says how many parts make an update" },
        { v->micro && v->shards,
          "--micro and --shards together: the shards are what goes through the stages" },
    };
    for (size_t i = 0; i < CLI_COUNT(rows); i++)
        if (rows[i].there)
            return cli_fail(CLI_USAGE, "%s", rows[i].sentence);
    if (v->batch % train_micros(v) != 0)
        return cli_fail(CLI_USAGE, "--batch %" PRId64 " cannot be cut into %" PRId64 " equal parts",
                        v->batch, v->micro);
    return CLI_OK;
}

/* ---- options that leave others without effect ---- */

int train_check_pairs(const struct train_values *v)
{
    const int steps = v->schedule == GYRE_STEPS, falls = v->schedule == GYRE_COSINE || v->schedule == GYRE_POLY;
    const struct {
        int there;
        const char *sentence;
    } rows[] = {
        { v->resume && v->overwrite, "--resume goes on from the checkpoints of --out, --overwrite removes them; take one of both" },
        { v->pad_crop && v->resized_crop, "--pad-crop and --resized-crop are two ways to crop; take one of both" },
        { v->mem > 0 && v->accumulate && v->pipeline < 2,
          "--mem is for --accumulate auto and --pipeline" },
        { v->milestones.count && !steps, "--milestones is for --schedule step" },
        { v->final_rate > 0 && !falls, "--final-lr is for --schedule cosine and poly" },
        { !(v->power >= 2 && v->power <= 2) && v->schedule != GYRE_POLY, "--power is for --schedule poly" },
        { v->warmup_from > 0 && !(v->warmup_epochs > 0), "--warmup-from is for --warmup-epochs" },
        { v->nesterov && v->optimizer != GYRE_SGD && v->optimizer != GYRE_LARS && v->optimizer != GYRE_LARS_UNSCALED,
          "--nesterov is for --optimizer sgd and lars" },
        { v->nesterov && !(v->momentum > 0), "--nesterov needs --momentum above 0" },
    };
    for (size_t i = 0; i < CLI_COUNT(rows); i++)
        if (rows[i].there)
            return cli_fail(CLI_USAGE, "%s", rows[i].sentence);
    return check_pipeline(v);
}
