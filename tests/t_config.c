/* SPDX-License-Identifier: MIT */
/* t_config.c: every number of a configuration has a range. Each field of the structs below is set
 * beyond both ends of its range, and the sentence names it. The tables hold every field in its
 * place, so one that is new or moved is noticed. */
#include <float.h>
#include <unistd.h>

#include "engine/base/cpu.h"
#include "engine/gyre.h"
#include "engine/gyre_glm.h"
#include "tests/data_files.h"

enum conf_kind {
    CONF_INT, CONF_LONG, CONF_FLOAT, CONF_DOUBLE,
    CONF_PLACE, /* a pointer, size_t or uint64_t: any value is good */
    CONF_AUGMENT, /* a struct gyre_augment, which has a table of its own */
    CONF_STRUCT /* no field: a struct that is aligned to 8 bytes begins or ends */
};
struct conf_field {
    const char *name; /* as the sentence has it */
    size_t at;
    int kind;
    double lo, hi;    /* both are good; CONF_OPEN: no limit on this side */
};
#define CONF_OPEN HUGE_VAL

static size_t conf_align(int kind) { return kind == CONF_INT || kind == CONF_FLOAT || kind == CONF_AUGMENT ? 4 : 8; }

/* The table has the struct's fields in order, each aligned to its own size, and leaves no byte
 * out. */
static void conf_check_table(const char *name, const struct conf_field *fields, size_t count, size_t bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t own = conf_align(fields[i].kind);
        at = (at + own - 1) / own * own;
        if (fields[i].kind == CONF_STRUCT)
            continue;
        T_CHECK_MSG(fields[i].at == at, "%s: field %s is at %d, the one before ends at %d", name, fields[i].name, (int)fields[i].at, (int)at);
        at = fields[i].at + (fields[i].kind == CONF_AUGMENT ? sizeof(struct gyre_augment) : own);
    }
    T_CHECK_MSG((at + 7) / 8 * 8 == (bytes + 7) / 8 * 8, "%s has %d bytes, its table %d", name, (int)bytes, (int)at);
}

static void conf_set(void *config, const struct conf_field *f, double value)
{
    unsigned char *place = (unsigned char *)config + f->at;
    const int is_whole = f->kind == CONF_INT || f->kind == CONF_LONG;
    const int64_t large = is_whole ? (int64_t)value : 0;
    const int whole = (int)large;
    const float real = is_whole ? 0 : (float)value;
    if (f->kind == CONF_INT)
        memcpy(place, &whole, sizeof whole);
    else if (f->kind == CONF_LONG)
        memcpy(place, &large, sizeof large);
    else if (f->kind == CONF_FLOAT)
        memcpy(place, &real, sizeof real);
    else
        memcpy(place, &value, sizeof value);
}

/* Values beyond the range: next to it, and far. How many. */
static int conf_beyond(const struct conf_field *f, double value[8])
{
    const int whole = f->kind == CONF_INT || f->kind == CONF_LONG;
    int count = 0;
    if (f->lo < CONF_OPEN) {
        value[count++] = whole ? f->lo - 1 : f->lo - fabs(f->lo) * 1e-3 - 1e-9;
        value[count++] = whole ? -2e9 : -1e30;
    }
    if (f->hi < CONF_OPEN) {
        value[count++] = whole ? f->hi + 1 : f->hi * 1.001 + 1e-9;
        value[count++] = whole ? (f->hi < 2e9 ? 2e9 : 9e18) : 1e37;
    }
    if (!whole) {
        value[count++] = (double)NAN;
        value[count++] = (double)INFINITY;
    }
    return count;
}

/* Sets one field after another; call opens what the configuration is for. copy: its bytes, fresh
 * each time; base: where the fields' struct starts in them. */
static void conf_check(const struct conf_field *fields, size_t count, const void *fresh, void *copy, size_t bytes, size_t base,
                       int (*call)(void *config, char text[512]))
{
    char text[512];
    for (size_t i = 0; i < count; i++) {
        const struct conf_field *f = &fields[i];
        const double good[2] = { f->lo, f->hi };
        double bad[8];
        const int tested = f->kind < CONF_PLACE, wrong = tested ? conf_beyond(f, bad) : 0;
        for (int k = 0; k < wrong; k++) {
            memcpy(copy, fresh, bytes);
            conf_set((unsigned char *)copy + base, f, bad[k]);
            text[0] = 0;
            const int status = call(copy, text);
            T_CHECK_MSG(status == GYRE_E_ARG && strstr(text, f->name), "%s of %g: status %d, '%s'", f->name, bad[k], status, text);
        }
        for (int k = 0; k < 2 && tested; k++) {
            if (!(good[k] <= 300)) /* large ones take memory */
                continue;
            memcpy(copy, fresh, bytes);
            conf_set((unsigned char *)copy + base, f, good[k]);
            const int status = call(copy, text);
            T_CHECK_MSG(status != GYRE_E_ARG || !strstr(text, f->name), "%s of %g: status %d, '%s'", f->name, good[k], status, text);
        }
    }
}

/* ---- a net ---- */

#define NET(member) offsetof(struct gyre_config, member)
static const struct conf_field conf_net[] = {
    { "size", NET(size), CONF_PLACE, 0, 0 }, { "net", NET(net), CONF_PLACE, 0, 0 }, { "net_name", NET(net_name), CONF_PLACE, 0, 0 },
    { "mode", NET(mode), CONF_INT, 0, 1 }, { "batch", NET(batch), CONF_INT, 1, 1 << 20 }, { "accumulate", NET(accumulate), CONF_INT, 1, 1 << 20 },
    { "recompute", NET(recompute), CONF_INT, -1, 1 }, { "dtype", NET(dtype), CONF_INT, 0, 2 }, { "input", NET(input), CONF_INT, 0, 1 },
    { "mean[0]", NET(mean[0]), CONF_FLOAT, CONF_OPEN, CONF_OPEN }, { "mean[1]", NET(mean[1]), CONF_FLOAT, CONF_OPEN, CONF_OPEN },
    { "mean[2]", NET(mean[2]), CONF_FLOAT, CONF_OPEN, CONF_OPEN }, { "mean[3]", NET(mean[3]), CONF_FLOAT, CONF_OPEN, CONF_OPEN },
    { "std[0]", NET(std[0]), CONF_FLOAT, 1e-38, CONF_OPEN }, { "std[1]", NET(std[1]), CONF_FLOAT, 1e-38, CONF_OPEN },
    { "std[2]", NET(std[2]), CONF_FLOAT, 1e-38, CONF_OPEN }, { "std[3]", NET(std[3]), CONF_FLOAT, 1e-38, CONF_OPEN },
    { "threads", NET(threads), CONF_INT, 0, 4096 }, { "device", NET(device), CONF_PLACE, 0, 0 }, { "isa", NET(isa), CONF_PLACE, 0, 0 },
    { "seed", NET(seed), CONF_PLACE, 0, 0 },
    { "optimizer.kind", NET(optimizer.kind), CONF_INT, 0, GYRE_OPTIMIZERS - 1 }, { "optimizer.momentum", NET(optimizer.momentum), CONF_FLOAT, 0, 1 },
    { "optimizer.nesterov", NET(optimizer.nesterov), CONF_INT, 0, 1 }, { "optimizer.weight_decay", NET(optimizer.weight_decay), CONF_FLOAT, 0, 1e6 },
    { "optimizer.decay_all", NET(optimizer.decay_all), CONF_INT, 0, 1 }, { "optimizer.beta1", NET(optimizer.beta1), CONF_FLOAT, 0, 0.9999999 },
    { "optimizer.beta2", NET(optimizer.beta2), CONF_FLOAT, 0, 0.9999999 }, { "optimizer.eps", NET(optimizer.eps), CONF_FLOAT, 0, 1 },
    { "optimizer.lars_eta", NET(optimizer.lars_eta), CONF_FLOAT, 0, 1e6 }, { "optimizer.clip_norm", NET(optimizer.clip_norm), CONF_FLOAT, 0, 1e30 },
    { "optimizer.ema", NET(optimizer.ema), CONF_FLOAT, 0, 0.9999999 }, { "", 0, CONF_STRUCT, 0, 0 },
    { "schedule.kind", NET(schedule.kind), CONF_INT, 0, 3 }, { "schedule.rate", NET(schedule.rate), CONF_FLOAT, 0, 1e6 },
    { "schedule.warmup", NET(schedule.warmup), CONF_LONG, 0, 1e15 }, { "schedule.warmup_from", NET(schedule.warmup_from), CONF_FLOAT, 0, 1e6 },
    { "schedule.steps", NET(schedule.steps), CONF_LONG, 0, 1e15 }, { "schedule.final_rate", NET(schedule.final_rate), CONF_FLOAT, 0, 1e6 },
    { "schedule.power", NET(schedule.power), CONF_FLOAT, 0, 100 }, { "schedule.gamma", NET(schedule.gamma), CONF_FLOAT, 0, 1e6 },
    /* ten apart: each must be above the one before */
    { "schedule.milestone[0]", NET(schedule.milestone[0]), CONF_LONG, 0, CONF_OPEN },
    { "schedule.milestone[1]", NET(schedule.milestone[1]), CONF_LONG, 11, CONF_OPEN },
    { "schedule.milestone[2]", NET(schedule.milestone[2]), CONF_LONG, 21, CONF_OPEN },
    { "schedule.milestone[3]", NET(schedule.milestone[3]), CONF_LONG, 31, CONF_OPEN },
    { "schedule.milestone[4]", NET(schedule.milestone[4]), CONF_LONG, 41, CONF_OPEN },
    { "schedule.milestone[5]", NET(schedule.milestone[5]), CONF_LONG, 51, CONF_OPEN },
    { "schedule.milestone[6]", NET(schedule.milestone[6]), CONF_LONG, 61, CONF_OPEN },
    { "schedule.milestone[7]", NET(schedule.milestone[7]), CONF_LONG, 71, CONF_OPEN },
    { "memory.hook", NET(memory.hook), CONF_PLACE, 0, 0 }, { "memory.user", NET(memory.user), CONF_PLACE, 0, 0 },
    { "memory.block", NET(memory.block), CONF_PLACE, 0, 0 }, { "memory.block_bytes", NET(memory.block_bytes), CONF_PLACE, 0, 0 },
    { "log.write", NET(log.write), CONF_PLACE, 0, 0 }, { "log.user", NET(log.user), CONF_PLACE, 0, 0 }, { "log.level", NET(log.level), CONF_INT, 0, 4 },
    { "", 0, CONF_STRUCT, 0, 0 },
    { "use_env", NET(use_env), CONF_INT, 0, 1 }, { "pin", NET(pin), CONF_INT, 0, 2 }, { "tune", NET(tune), CONF_PLACE, 0, 0 },
    { "kernel_cache", NET(kernel_cache), CONF_PLACE, 0, 0 }, { "kernel_pack", NET(kernel_pack), CONF_PLACE, 0, 0 }, { "job", NET(job), CONF_PLACE, 0, 0 },
    { "loss_scale", NET(loss_scale), CONF_FLOAT, 1.0 / 1048576, 16777216 }, { "shards", NET(shards), CONF_INT, 0, 65536 },
    { "sync_bn", NET(sync_bn), CONF_INT, 0, 1 }, { "bucket_bytes", NET(bucket_bytes), CONF_PLACE, 0, 0 },
    { "trace_events", NET(trace_events), CONF_INT, 0, 1 << 24 },
    { "pipeline is", NET(pipeline), CONF_INT, 0, 64 }, { "stage", NET(stage), CONF_INT, 0, 0 },
    { "stage_schedule", NET(stage_schedule), CONF_INT, 0, 1 },
    { "stage_bytes", NET(stage_bytes), CONF_PLACE, 0, 0 },
};
#undef NET

static int conf_measure(void *config, char text[512])
{
    struct gyre_need need;
    struct gyre_error error = { 0 };
    const int status = gyre_measure(config, &need, &error);
    snprintf(text, 512, "%s", error.text);
    return status;
}

static struct gyre_config conf_net_config(void)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = "input 4x4x3\nlinear 3\nsoftmax\n";
    config.batch = 4;
    config.input = GYRE_INPUT_U8;
    config.threads = 1;
    return config;
}

static void conf_test_net(void)
{
    struct gyre_config fresh = conf_net_config(), copy;
    for (int i = 0; i < 8; i++)
        fresh.schedule.milestone[i] = 10 * (i + 1);
    conf_check_table("gyre_config", conf_net, GY_COUNT(conf_net), sizeof fresh);
    conf_check(conf_net, GY_COUNT(conf_net), &fresh, &copy, sizeof copy, 0, conf_measure);
    fresh.schedule.milestone[3] = 0; /* ends the list, and 50 stands behind it */
    struct gyre_error error = { 0 };
    T_CHECK_MSG(gyre_measure(&fresh, &(struct gyre_need){ 0 }, &error) == GYRE_E_ARG && strstr(error.text, "milestone[4] is 50 behind a 0"), "%s", error.text);
}

/* Kernel sets that the processor has are accepted. Others are refused with a list of those that it
 * has. The sentence is the same for each name. */
static void conf_test_isa(void)
{
    static const char *const names[] = { "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma" };
    struct gyre_config config = conf_net_config();
    char text[512];
    int absent = 0;
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        unsigned mask = 0;
        char want[64];
        config.isa = names[i];
        T_CHECK(gy_cpu_mask(names[i], &mask) == 0);
        const int status = conf_measure(&config, text), there = (mask & ~gy_cpu_bits()) == 0;
        snprintf(want, sizeof want, "isa '%s' is not what this processor has; it has: ref", names[i]);
        T_CHECK_MSG(there ? status == GYRE_OK : status == GYRE_E_UNSUPPORTED && strstr(text, want), "%s: %d, '%s'", names[i], status, text);
        absent += !there;
    }
    T_CHECK_MSG(absent > 0, "a processor with all sets"); /* of x86 and of POWER */
    static const char *const always[] = { "ref", "native", NULL };
    for (size_t i = 0; i < GY_COUNT(always); i++) {
        config.isa = always[i];
        T_CHECK_MSG(conf_measure(&config, text) == GYRE_OK, "%s", text);
    }
}

/* ---- a data set, a loader, a run ---- */

#define DATA(member) offsetof(struct gyre_data_config, member)
static const struct conf_field conf_data[] = {
    { "size", DATA(size), CONF_PLACE, 0, 0 }, { "path", DATA(path), CONF_PLACE, 0, 0 }, { "split", DATA(split), CONF_PLACE, 0, 0 },
    { "max_bad", DATA(max_bad), CONF_LONG, 0, CONF_OPEN }, { "memory.hook", DATA(memory.hook), CONF_PLACE, 0, 0 },
    { "memory.user", DATA(memory.user), CONF_PLACE, 0, 0 }, { "memory.block", DATA(memory.block), CONF_PLACE, 0, 0 },
    { "memory.block_bytes", DATA(memory.block_bytes), CONF_PLACE, 0, 0 }, { "log.write", DATA(log.write), CONF_PLACE, 0, 0 },
    { "log.user", DATA(log.user), CONF_PLACE, 0, 0 }, { "log.level", DATA(log.level), CONF_INT, 0, 4 }, { "", 0, CONF_STRUCT, 0, 0 },
    { "hold_out", DATA(hold_out), CONF_DOUBLE, 0, 0.99 }, { "hold_seed", DATA(hold_seed), CONF_PLACE, 0, 0 }, { "held", DATA(held), CONF_INT, 0, 1 },
};
#undef DATA


#define AUGMENT(member) offsetof(struct gyre_augment, member)
static const struct conf_field conf_augment[] = {
    { "pad", AUGMENT(pad), CONF_INT, 0, 1024 }, { "resized_crop", AUGMENT(resized_crop), CONF_INT, 0, 1 },
    { "scale", AUGMENT(scale_min), CONF_FLOAT, 1e-38, 0.5 }, { "scale", AUGMENT(scale_max), CONF_FLOAT, 0.5, 1 },
    { "ratio", AUGMENT(ratio_min), CONF_FLOAT, 0.01, 1 }, { "ratio", AUGMENT(ratio_max), CONF_FLOAT, 1, 100 },
    { "flip", AUGMENT(flip), CONF_FLOAT, 0, 1 }, { "brightness", AUGMENT(brightness), CONF_FLOAT, 0, 100 },
    { "contrast", AUGMENT(contrast), CONF_FLOAT, 0, 100 }, { "saturation", AUGMENT(saturation), CONF_FLOAT, 0, 100 },
    { "hue", AUGMENT(hue), CONF_FLOAT, 0, 0.5 }, { "mixup", AUGMENT(mixup), CONF_FLOAT, 0, 1000 },
    { "cutmix", AUGMENT(cutmix), CONF_FLOAT, 0, 1000 }, { "resize", AUGMENT(resize), CONF_INT, 0, 16384 },
};
#undef AUGMENT

#define LOADER(member) offsetof(struct gyre_loader_config, member)
static const struct conf_field conf_loader[] = {
    { "size", LOADER(size), CONF_PLACE, 0, 0 }, { "batch", LOADER(batch), CONF_INT, 1, 65536 }, { "height", LOADER(h), CONF_INT, 1, 16384 },
    { "width", LOADER(w), CONF_INT, 1, 16384 }, { "channels", LOADER(c), CONF_INT, 1, 3 }, { "training", LOADER(training), CONF_INT, 0, 1 },
    { "augment", LOADER(augment), CONF_AUGMENT, 0, 0 }, { "seed", LOADER(seed), CONF_PLACE, 0, 0 },
    { "first batch", LOADER(first_batch), CONF_LONG, 0, CONF_OPEN }, { "threads", LOADER(threads), CONF_INT, 1, 1024 },
    { "depth", LOADER(depth), CONF_INT, 2, 1024 }, { "memory.hook", LOADER(memory.hook), CONF_PLACE, 0, 0 },
    { "memory.user", LOADER(memory.user), CONF_PLACE, 0, 0 }, { "memory.block", LOADER(memory.block), CONF_PLACE, 0, 0 },
    { "memory.block_bytes", LOADER(memory.block_bytes), CONF_PLACE, 0, 0 }, { "log.write", LOADER(log.write), CONF_PLACE, 0, 0 },
    { "log.user", LOADER(log.user), CONF_PLACE, 0, 0 }, { "log.level", LOADER(log.level), CONF_INT, 0, 4 }, { "", 0, CONF_STRUCT, 0, 0 },
    { "part", LOADER(part), CONF_INT, 0, 0 }, { "parts", LOADER(parts), CONF_INT, 0, CONF_OPEN }, { "groups", LOADER(groups), CONF_INT, 0, 4 },
    { "moves", LOADER(moves), CONF_INT, 0, 1 },
};
#undef LOADER

#define TRAIN(member) offsetof(struct gyre_train_config, member)
static const struct conf_field conf_train[] = {
    { "size", TRAIN(size), CONF_PLACE, 0, 0 }, { "train", TRAIN(train), CONF_PLACE, 0, 0 }, { "test", TRAIN(test), CONF_PLACE, 0, 0 },
    { "epochs", TRAIN(epochs), CONF_INT, 1, CONF_OPEN }, { "max_steps", TRAIN(max_steps), CONF_LONG, 0, CONF_OPEN },
    { "augment", TRAIN(augment), CONF_AUGMENT, 0, 0 }, { "threads", TRAIN(loader_threads), CONF_INT, 1, 1024 },
    { "folder", TRAIN(folder), CONF_PLACE, 0, 0 }, { "checkpoint_steps", TRAIN(checkpoint_steps), CONF_LONG, 0, CONF_OPEN },
    { "keep", TRAIN(keep), CONF_INT, 1, CONF_OPEN }, { "resume", TRAIN(resume), CONF_INT, 0, 1 }, { "overwrite", TRAIN(overwrite), CONF_INT, 0, 1 },
    { "progress", TRAIN(progress), CONF_PLACE, 0, 0 }, { "user", TRAIN(user), CONF_PLACE, 0, 0 },
};
#undef TRAIN

static struct gyre_data *conf_images;
static struct gyre_net *conf_opened;

static int conf_open_data(void *config, char text[512])
{
    struct gyre_data *data = NULL;
    struct gyre_error error = { 0 };
    const int status = gyre_open_data(&data, config, &error);
    gyre_close_data(data);
    snprintf(text, 512, "%s", error.text);
    return status;
}

static int conf_open_loader(void *config, char text[512])
{
    struct gyre_loader *loader = NULL;
    struct gyre_error error = { 0 };
    const int status = gyre_open_loader(&loader, conf_images, config, &error);
    gyre_close_loader(loader);
    snprintf(text, 512, "%s", error.text);
    return status;
}

static int conf_run(void *config, char text[512])
{
    const int status = gyre_train(conf_opened, config);
    snprintf(text, 512, "%s", status == GYRE_OK ? "" : gyre_last_error(conf_opened)->text);
    return status;
}

static void conf_test_data(const struct gyre_data_config *fresh)
{
    struct gyre_data_config copy;
    struct gyre_loader_config loader, loader_copy;
    conf_check_table("gyre_data_config", conf_data, GY_COUNT(conf_data), sizeof copy);
    conf_check(conf_data, GY_COUNT(conf_data), fresh, &copy, sizeof copy, 0, conf_open_data);
    gyre_loader_config_default(&loader);
    loader.batch = 4;
    loader.h = loader.w = 4;
    loader.c = 3;
    loader.training = 1;
    conf_check_table("gyre_loader_config", conf_loader, GY_COUNT(conf_loader), sizeof loader);
    conf_check(conf_loader, GY_COUNT(conf_loader), &loader, &loader_copy, sizeof loader, 0, conf_open_loader);
    conf_check_table("gyre_augment", conf_augment, GY_COUNT(conf_augment), sizeof loader.augment);
    loader.augment.resized_crop = 1; /* else its scales and ratios are not looked at */
    loader.augment.scale_min = loader.augment.scale_max = 0.5f;
    loader.augment.ratio_min = loader.augment.ratio_max = 1;
    conf_check(conf_augment, GY_COUNT(conf_augment), &loader, &loader_copy, sizeof loader, offsetof(struct gyre_loader_config, augment), conf_open_loader);
}

static void conf_test_train(void)
{
    struct gyre_train_config fresh, copy;
    const struct gyre_config config = conf_net_config();
    struct gyre_error error = { 0 };
    T_CHECK_MSG(gyre_open(&conf_opened, &config, &error) == GYRE_OK, "%s", error.text);
    gyre_train_config_default(&fresh);
    fresh.train = conf_images;
    fresh.max_steps = 1;
    conf_check_table("gyre_train_config", conf_train, GY_COUNT(conf_train), sizeof fresh);
    conf_check(conf_train, GY_COUNT(conf_train), &fresh, &copy, sizeof copy, 0, conf_run);
    copy = fresh;
    copy.resume = copy.overwrite = 1;
    T_CHECK_MSG(gyre_train(conf_opened, &copy) == GYRE_E_ARG && strstr(gyre_last_error(conf_opened)->text, "take one of both"), "%s",
                gyre_last_error(conf_opened)->text);
    gyre_close(conf_opened);
}

/* ---- linear models ---- */

#define GLM(member) offsetof(struct gyre_glm_config, member)
static const struct conf_field conf_glm[] = {
    { "size", GLM(size), CONF_PLACE, 0, 0 }, { "train", GLM(train), CONF_PLACE, 0, 0 }, { "test", GLM(test), CONF_PLACE, 0, 0 },
    { "loss", GLM(loss), CONF_INT, 0, 3 }, { "l1", GLM(l1), CONF_DOUBLE, 0, 1e30 }, { "l2", GLM(l2), CONF_DOUBLE, 0, 1e30 },
    { "bias", GLM(bias), CONF_DOUBLE, 0, 1e9 }, { "bias_free", GLM(bias_free), CONF_INT, 0, 1 }, { "normalize", GLM(normalize), CONF_INT, 0, 1 },
    { "softmax", GLM(softmax), CONF_INT, 0, 1 }, { "weight_label", GLM(weight_label), CONF_PLACE, 0, 0 },
    { "weight_factor", GLM(weight_factor), CONF_PLACE, 0, 0 }, { "weights", GLM(weights), CONF_INT, 0, 65536 },
    { "balanced", GLM(balanced), CONF_INT, 0, 1 }, { "solver", GLM(solver), CONF_PLACE, 0, 0 }, { "device", GLM(device), CONF_PLACE, 0, 0 },
    { "threads", GLM(threads), CONF_INT, 0, 4096 }, { "pin", GLM(pin), CONF_INT, 0, 2 }, { "job", GLM(job), CONF_PLACE, 0, 0 },
    { "gap", GLM(gap), CONF_DOUBLE, 0, 1 }, { "target", GLM(target), CONF_DOUBLE, 0, CONF_OPEN }, { "validation", GLM(validation), CONF_DOUBLE, 0, 1 },
    { "epochs", GLM(epochs), CONF_INT, 0, 1e9 }, { "every", GLM(every), CONF_INT, 0, 1e9 }, { "seconds", GLM(seconds), CONF_DOUBLE, 0, 1e9 },
    { "device_bytes", GLM(device_bytes), CONF_PLACE, 0, 0 }, { "memory_bytes", GLM(memory_bytes), CONF_PLACE, 0, 0 },
    { "seed", GLM(seed), CONF_PLACE, 0, 0 }, { "folds", GLM(folds), CONF_INT, 0, 1000 }, { "folder", GLM(folder), CONF_PLACE, 0, 0 },
    { "checkpoint_seconds", GLM(checkpoint_seconds), CONF_DOUBLE, 0, 1e9 }, { "resume", GLM(resume), CONF_INT, 0, 1 },
    { "overwrite", GLM(overwrite), CONF_INT, 0, 1 }, { "trace", GLM(trace), CONF_PLACE, 0, 0 }, { "memory.hook", GLM(memory.hook), CONF_PLACE, 0, 0 },
    { "memory.user", GLM(memory.user), CONF_PLACE, 0, 0 }, { "memory.block", GLM(memory.block), CONF_PLACE, 0, 0 },
    { "memory.block_bytes", GLM(memory.block_bytes), CONF_PLACE, 0, 0 }, { "log.write", GLM(log.write), CONF_PLACE, 0, 0 },
    { "log.user", GLM(log.user), CONF_PLACE, 0, 0 }, { "log.level", GLM(log.level), CONF_INT, 0, 4 }, { "", 0, CONF_STRUCT, 0, 0 },
    { "progress", GLM(progress), CONF_PLACE, 0, 0 }, { "user", GLM(user), CONF_PLACE, 0, 0 },
};
#undef GLM

#define ROWS(member) offsetof(struct gyre_glm_data, member)
static const struct conf_field conf_rows[] = {
    { "size", ROWS(size), CONF_PLACE, 0, 0 }, { "files", ROWS(files), CONF_PLACE, 0, 0 }, { "file_count", ROWS(file_count), CONF_INT, CONF_OPEN, CONF_OPEN },
    { "format", ROWS(format), CONF_PLACE, 0, 0 }, { "zero_based", ROWS(zero_based), CONF_INT, 0, 1 }, { "lenient", ROWS(lenient), CONF_INT, 0, 1 },
    { "hash_bits", ROWS(hash_bits), CONF_INT, 0, 30 }, { "hash_seed", ROWS(hash_seed), CONF_PLACE, 0, 0 },
    { "label_column", ROWS(label_column), CONF_INT, -1, CONF_OPEN }, { "header", ROWS(header), CONF_INT, -1, 1 },
    { "features", ROWS(features), CONF_INT, CONF_OPEN, CONF_OPEN }, { "rows", ROWS(rows), CONF_LONG, CONF_OPEN, CONF_OPEN },
    { "start", ROWS(start), CONF_PLACE, 0, 0 }, { "id", ROWS(id), CONF_PLACE, 0, 0 }, { "value", ROWS(value), CONF_PLACE, 0, 0 },
    { "label", ROWS(label), CONF_PLACE, 0, 0 }, { "weight", ROWS(weight), CONF_PLACE, 0, 0 }, { "log.write", ROWS(log.write), CONF_PLACE, 0, 0 },
    { "log.user", ROWS(log.user), CONF_PLACE, 0, 0 }, { "log.level", ROWS(log.level), CONF_INT, 0, 4 }, { "", 0, CONF_STRUCT, 0, 0 },
};
#undef ROWS

#define VERIFY(member) offsetof(struct gyre_glm_verify_config, member)
static const struct conf_field conf_verify[] = {
    { "size", VERIFY(size), CONF_PLACE, 0, 0 }, { "data", VERIFY(data), CONF_PLACE, 0, 0 }, { "threads", VERIFY(threads), CONF_INT, 0, 4096 },
    { "l1", VERIFY(l1), CONF_DOUBLE, CONF_OPEN, 1e30 }, { "l2", VERIFY(l2), CONF_DOUBLE, CONF_OPEN, 1e30 }, { "gap", VERIFY(gap), CONF_DOUBLE, 0, 1 },
    { "seconds", VERIFY(seconds), CONF_DOUBLE, 0, 1e9 }, { "log.write", VERIFY(log.write), CONF_PLACE, 0, 0 },
    { "log.user", VERIFY(log.user), CONF_PLACE, 0, 0 }, { "log.level", VERIFY(log.level), CONF_INT, 0, 4 }, { "", 0, CONF_STRUCT, 0, 0 },
};
#undef VERIFY

static struct gyre_glm *conf_model;

static int conf_open_glm(void *config, char text[512])
{
    struct gyre_glm *model = NULL;
    struct gyre_error error = { 0 };
    const int status = gyre_glm_train(&model, config, NULL, &error);
    gyre_glm_close(model);
    snprintf(text, 512, "%s", error.text);
    return status;
}

static int conf_convert(void *rows, char text[512])
{
    struct gyre_error error = { 0 };
    struct gyre_glm_convert_config config;
    gyre_glm_convert_default(&config);
    config.from = rows;
    config.to = df_path("rows.blocks");
    config.threads = 1;
    const int status = gyre_glm_convert(&config, 0, NULL, &error);
    snprintf(text, 512, "%s", error.text);
    return status;
}

static int conf_check_claims(void *config, char text[512])
{
    struct gyre_error error = { 0 };
    struct gyre_glm_verdict verdict;
    const int status = gyre_glm_verify(conf_model, config, &verdict, &error);
    snprintf(text, 512, "%s", error.text);
    return status;
}

static void conf_test_rows(struct gyre_glm_data *rows)
{
    static const char lines[] = "+1 1:1 3:2\n-1 2:1\n+1 1:2\n-1 2:.5 3:-1\n";
    static char path[512];
    static const char *const file = path;
    struct gyre_glm_data copy;
    df_write("rows.svm", lines, sizeof lines - 1);
    snprintf(path, sizeof path, "%s", df_path("rows.svm"));
    gyre_glm_data_default(rows);
    rows->files = &file;
    rows->file_count = 1;
    conf_check_table("gyre_glm_data", conf_rows, GY_COUNT(conf_rows), sizeof copy);
    conf_check(conf_rows, GY_COUNT(conf_rows), rows, &copy, sizeof copy, 0, conf_convert);
}

static void conf_test_glm(void)
{
    struct gyre_glm_data rows;
    struct gyre_glm_config fresh, copy;
    struct gyre_glm_verify_config verify, verify_copy;
    struct gyre_error error = { 0 };
    conf_test_rows(&rows);
    gyre_glm_config_default(&fresh);
    fresh.train = fresh.test = &rows;
    fresh.threads = 1;
    fresh.bias = 1; /* else bias_free is refused */
    conf_check_table("gyre_glm_config", conf_glm, GY_COUNT(conf_glm), sizeof fresh);
    conf_check(conf_glm, GY_COUNT(conf_glm), &fresh, &copy, sizeof copy, 0, conf_open_glm);
    T_CHECK_MSG(gyre_glm_train(&conf_model, &fresh, NULL, &error) == GYRE_OK, "%s", error.text);
    gyre_glm_verify_default(&verify);
    verify.data = &rows;
    verify.threads = 1;
    conf_check_table("gyre_glm_verify_config", conf_verify, GY_COUNT(conf_verify), sizeof verify);
    conf_check(conf_verify, GY_COUNT(conf_verify), &verify, &verify_copy, sizeof verify, 0, conf_check_claims);
    gyre_glm_close(conf_model);
}

int main(void)
{
    struct gyre_data_config fresh;
    struct gyre_error error = { 0 };
    df_open();
    df_folder("a"), df_folder("a/0"), df_folder("a/1"), df_folder("a/2");
    for (int i = 0; i < 12; i++) {
        char name[32];
        snprintf(name, sizeof name, "a/%d/%d.ppm", i % 3, i);
        df_write_pnm(name, i, 4, 4, 3);
    }
    gyre_data_config_default(&fresh);
    fresh.path = df_path("a");
    T_CHECK_MSG(gyre_open_data(&conf_images, &fresh, &error) == GYRE_OK, "%s", error.text);
    conf_test_net();
    conf_test_isa();
    conf_test_data(&fresh);
    conf_test_train();
    conf_test_glm();
    gyre_close_data(conf_images);
    df_remove(df_root);
    T_END("t_config");
}
