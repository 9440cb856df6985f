/* SPDX-License-Identifier: MIT */
/* config.c: a configuration's defaults and environment, and checks before open.c does any work. */
#include "kernels/devices.h"
#include "engine/run/engine.h"
#include "engine/base/cpu.h"
#include "engine/base/knob.h"
#include "engine/base/pin.h"

GY_STATIC_ASSERT((int)GYRE_PIN_ON == (int)GY_PIN_ON && (int)GYRE_PIN_OFF == (int)GY_PIN_OFF, pin);
GY_STATIC_ASSERT(sizeof(struct gyre_mix) == sizeof(struct gy_mix), mix_size);

GYRE_API void gyre_config_default(struct gyre_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->net_name = "net";
    config->batch = 32;
    config->accumulate = 1;
    config->device = "cpu";
    config->seed = 1;
    for (int c = 0; c < 4; c++)
        config->std[c] = 1;
    config->optimizer = (struct gyre_optimizer){ .kind = GYRE_SGD, .momentum = 0.9f, .weight_decay = 1e-4f, .beta1 = 0.9f,
                                                 .beta2 = 0.999f, .eps = 1e-8f, .lars_eta = 0.001f };
    config->schedule = (struct gyre_schedule){ .kind = GYRE_CONSTANT, .rate = 0.1f, .power = 2, .gamma = 0.1f };
    config->loss_scale = 65536;
    config->log.level = GYRE_LOG_INFO;
}

static int config_check_numbers(const struct gyre_config *c, struct gy_error *err)
{
    const struct gy_range r[] = {
        { "mode", c->mode, GYRE_TRAIN, GYRE_INFER },
        { "batch", c->batch, 1, 1 << 20 },
        { "accumulate", c->accumulate, 1, 1 << 20 },
        { "recompute", c->recompute, -1, 1 },
        { "shards", c->shards, 0, GY_SHARDS_MOST },
        { "sync_bn", c->sync_bn, 0, 1 },
        { "pipeline", c->pipeline, 0, 64 },
        { "stage", c->stage, 0, c->pipeline > 1 ? c->pipeline - 1 : 0 },
        { "stage_schedule", c->stage_schedule, GYRE_1F1B, GYRE_GPIPE },
        { "trace_events", c->trace_events, 0, 1 << 24 },
        { "dtype", c->dtype, GYRE_F32, GYRE_F16 },
        { "input", c->input, GYRE_INPUT_F32, GYRE_INPUT_U8 },
        { "threads", c->threads, 0, 4096 },
        { "use_env", c->use_env, 0, 1 },
        { "log.level", c->log.level, 0, GYRE_LOG_DEBUG },
        { "pin", c->pin, GYRE_PIN_AUTO, GYRE_PIN_OFF },
        { "loss_scale", (double)c->loss_scale, 1.0 / 1048576, 16777216 },
    };
    return gy_config_ranges("", r, GY_COUNT(r), err);
}

static int config_check_optimizer(const struct gyre_optimizer *o, struct gy_error *err)
{
    const struct gy_range r[] = {
        { "optimizer.kind", o->kind, GYRE_SGD, GYRE_OPTIMIZERS - 1 },
        { "optimizer.nesterov", o->nesterov, 0, 1 },
        { "optimizer.decay_all", o->decay_all, 0, 1 },
        { "optimizer.momentum", (double)o->momentum, 0, 1 },
        { "optimizer.weight_decay", (double)o->weight_decay, 0, 1e6 },
        { "optimizer.beta1", (double)o->beta1, 0, 0.9999999 },
        { "optimizer.beta2", (double)o->beta2, 0, 0.9999999 },
        { "optimizer.eps", (double)o->eps, 0, 1 },
        { "optimizer.lars_eta", (double)o->lars_eta, 0, 1e6 },
        { "optimizer.clip_norm", (double)o->clip_norm, 0, 1e30 },
        { "optimizer.ema", (double)o->ema, 0, 0.9999999 },
    };
    return gy_config_ranges("", r, GY_COUNT(r), err);
}

static int config_check_milestones(const struct gyre_schedule *s, struct gy_error *err)
{
    for (int i = 0; i < 8; i++) {
        const int64_t before = i > 0 ? s->milestone[i - 1] : 0, here = s->milestone[i];
        if (here != 0 && here <= before)
            return GY_FAIL(err, GY_E_ARG, "schedule.milestone[%d] is %" PRId64 ", not above the one before, %" PRId64, i, here, before);
        if (here != 0 && i > 0 && before == 0)
            return GY_FAIL(err, GY_E_ARG, "schedule.milestone[%d] is %" PRId64 " behind a 0, which ends the list", i, here);
    }
    return GY_OK;
}

static int config_check_schedule(const struct gyre_schedule *s, struct gy_error *err)
{
    const int needs_steps = s->kind == GYRE_COSINE || s->kind == GYRE_POLY;
    const struct gy_range r[] = {
        { "schedule.kind", s->kind, GYRE_CONSTANT, GYRE_POLY },
        { "schedule.rate", (double)s->rate, 0, 1e6 },
        { "schedule.warmup", (double)s->warmup, 0, 1e15 },
        { "schedule.warmup_from", (double)s->warmup_from, 0, 1e6 },
        { "schedule.final_rate", (double)s->final_rate, 0, 1e6 },
        { "schedule.steps", (double)s->steps, needs_steps ? 1 : 0, 1e15 },
        { "schedule.power", (double)s->power, 0, 100 },
        { "schedule.gamma", (double)s->gamma, 0, 1e6 },
    };
    GY_TRY(gy_config_ranges("", r, GY_COUNT(r), err));
    return config_check_milestones(s, err);
}

/* Every kernel set of the mask must be there. */
static int config_check_isa(const char *isa, unsigned mask, struct gy_error *err)
{
    static const char *const names[] = { "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma" };
    const unsigned bits = gy_cpu_bits();
    char there[64] = "ref";
    unsigned one = 0;
    if (mask == ~0u || (mask & ~bits) == 0)
        return GY_OK;
    for (size_t i = 0, used = 3; i < GY_COUNT(names); i++)
        if (gy_cpu_mask(names[i], &one) == 0 && (one & ~bits) == 0)
            used += (size_t)snprintf(there + used, sizeof there - used, ", %s", names[i]);
    return GY_FAIL(err, GY_E_UNSUPPORTED, "isa '%.40s' is not what this processor has; it has: %s", isa, there);
}

static int config_check_rest(const struct gyre_config *c, struct gy_error *err)
{
    unsigned mask;
    struct gy_device device;
    if (!c->net)
        return GY_FAIL(err, GY_E_ARG, "net is NULL; it must be net text");
    if (gy_device_parse(c->device, &device) != 0)
        return GY_FAIL(err, GY_E_NODEVICE, "device '%.40s' is not known; there are: cpu, cuda, cuda:N, auto, emu", c->device);
    if (gy_cpu_mask(c->isa, &mask) != 0)
        return GY_FAIL(err, GY_E_ARG, "isa '%.40s' is not known; there are: ref, avx2, avx512, avx512bf16, amx, vsx, mma, native",
                       c->isa);
    GY_TRY(config_check_isa(c->isa, mask, err));
    for (int i = 0; i < 4; i++)
        if (!(c->std[i] > 0) || !isfinite(c->std[i]) || !isfinite(c->mean[i]))
            return GY_FAIL(err, GY_E_ARG, "mean[%d] and std[%d] are %g and %g; they must be finite, std above 0", i, i,
                           (double)c->mean[i], (double)c->std[i]);
    return GY_OK;
}

static int config_pin(const char *text, const struct gy_log *log)
{
    static const char *const words[] = { "auto", "on", "off" };
    for (int i = 0; text && i < (int)GY_COUNT(words); i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    if (text)
        gy_log_write(log, GY_LOG_WARN, "GYRE_PIN is '%.40s', not auto, on or off: ignored", text);
    return GYRE_PIN_AUTO;
}

static void config_from_env(struct gyre_config *c, const struct gy_log *log)
{
    int64_t threads;
    const char *text = gy_knob_get("GYRE_THREADS");
    if (text && c->threads == 0) {
        if (gy_text_int(text, 1, 4096, &threads) == 0)
            c->threads = (int)threads;
        else
            gy_log_write(log, GY_LOG_WARN, "GYRE_THREADS is '%.40s', not a count in 1 .. 4096: ignored", text);
    }
    if (!c->isa)
        c->isa = gy_knob_get("GYRE_ISA");
    if (c->pin == GYRE_PIN_AUTO)
        c->pin = config_pin(gy_knob_get("GYRE_PIN"), log);
    gy_knob_warn_unknown(log);
}

GY_INT int gy_config_copy(struct gyre_config *out, const struct gyre_config *in, struct gy_error *err)
{
    if (!in || in->size < offsetof(struct gyre_config, batch) || in->size > sizeof *in)
        return GY_FAIL(err, GY_E_ARG, "config.size is %zu; gyre_config_default sets it to %zu", in ? in->size : 0, sizeof *in);
    gyre_config_default(out);
    memcpy(out, in, in->size);
    out->size = sizeof *out;
    if (!out->net_name)
        out->net_name = "net";
    if (!out->device)
        out->device = "cpu";
    const struct gy_log log = gy_log_of(&out->log);
    if (out->use_env)
        config_from_env(out, &log);
    GY_TRY(config_check_numbers(out, err));
    GY_TRY(config_check_optimizer(&out->optimizer, err));
    GY_TRY(config_check_schedule(&out->schedule, err));
    return config_check_rest(out, err);
}
