/* SPDX-License-Identifier: MIT */
/* t_prepare.c: nothing is derived while a net steps. Every net of the zoo steps on every set of
 * kernels that this machine has, in f32 and bf16. The CPU backend's counter of plans stands still,
 * as malloc's does in t_engine. Batches are whole and partial; evaluation takes part. And the table
 * of drivers is whole: each op finds one, with a plan where it has scratch.
 *
 *     t_prepare                2 steps of the nets of up to 13 million weights
 *     t_prepare --weights N    of up to N weights, where a processor is emulated
 *     t_prepare --steps N      N steps of every net: minutes */
#include "engine/gyre.h"
#include "engine/base/cpu.h"
#include "engine/run/engine.h"
#include "kernels/cpu/cpu_context.h"
#include "tests/t.h"

#define PREP_BATCH 3
#define PREP_CLASSES 10
#define PREP_SIDE 64 /* where a net takes no smaller one */
#define PREP_PIXELS (PREP_SIDE * PREP_SIDE * 3 * PREP_BATCH)
#define PREP_SMALL 13000000

static struct {
    char text[1 << 20];
    size_t used;
} prep_net;

static int prep_write(void *user, const char *text, size_t bytes)
{
    (void)user;
    if (bytes >= sizeof prep_net.text - prep_net.used)
        return -1;
    memcpy(prep_net.text + prep_net.used, text, bytes);
    prep_net.used += bytes;
    prep_net.text[prep_net.used] = 0;
    return 0;
}

/* The zoo's text of a net; returns its side, or 0. */
static int prep_zoo(const char *name)
{
    const struct gyre_sink sink = { prep_write, NULL };
    static const int sides[] = { PREP_SIDE, 32, 28 };
    struct gyre_error err;
    const int gray = strstr(name, "resnet") == NULL && strstr(name, "alexnet") == NULL;
    for (size_t i = gray ? 2 : strstr(name, "alexnet") ? 0 : 1; i < GY_COUNT(sides); i++) {
        prep_net.used = 0;
        if (gyre_zoo_text(name, PREP_CLASSES, sides[i], sides[i], gray ? 1 : 3, &sink, &err) == GYRE_OK)
            return sides[i];
    }
    return 0;
}

static int64_t prep_weights(void)
{
    struct gyre_config config;
    struct gyre_need need = { 0 };
    gyre_config_default(&config);
    config.net = prep_net.text;
    config.batch = 1;
    T_CHECK(gyre_measure(&config, &need, NULL) == GYRE_OK);
    return need.parameters;
}

static void prep_step(struct gyre_net *net, const float *x, int count)
{
    static const int32_t label[PREP_BATCH] = { 3, 7, 1 };
    const struct gyre_batch batch = { .x = x, .label = label, .count = count };
    struct gyre_result result;
    T_CHECK_MSG(gyre_step(net, &batch, &result) == GYRE_OK && gyre_eval(net, &batch, &result) == GYRE_OK, "%s",
                gyre_last_error(net)->text);
}

/* The trap works: a plan that is made is counted. */
static void prep_probe(struct gyre_net *net)
{
    struct gy_cpu *const cpu = net->backend_self; /* the backend begins with it */
    struct gy_op op = net->plan.program[GY_EVAL].ops[0];
    const int64_t before = cpu->plans;
    struct gy_arena arena;
    gy_arena_open_hook(&arena, &net->alloc);
    T_CHECK(net->backend->prepare(cpu, &op, &arena, &net->error) == GY_OK && cpu->plans > before);
    gy_arena_close(&arena);
}

static void prep_run(const char *name, const char *isa, int dtype, int steps, const float *x)
{
    struct gyre_config config;
    struct gyre_net *net;
    struct gyre_error err;
    gyre_config_default(&config);
    config.net = prep_net.text;
    config.batch = PREP_BATCH;
    config.threads = 2;
    config.isa = isa;
    config.dtype = dtype;
    config.schedule.rate = 0.001f;
    const int status = gyre_open(&net, &config, &err);
    T_CHECK_MSG(status == GYRE_OK, "%s", err.text);
    if (status != GYRE_OK)
        return;
    const int64_t *const plans = &((const struct gy_cpu *)net->backend_self)->plans, before = *plans;
    T_CHECK(before > 0 && net->arena.refused_after_freeze == 0);
    for (int i = 0; i < steps; i++)
        prep_step(net, x, i % 2 ? PREP_BATCH - 1 : PREP_BATCH);
    T_CHECK_MSG(*plans == before && net->arena.refused_after_freeze == 0, "%s on %s, %s: %" PRId64 " plans in %d steps", name, isa,
                dtype == GYRE_BF16 ? "bf16" : "f32", *plans - before, steps);
    prep_probe(net);
    gyre_close(net);
}

/* A set that the processor lacks is the next one below: it ran already. */
static int prep_has(const char *isa)
{
    unsigned mask = 0;
    return gy_cpu_mask(isa, &mask) == 0 && (mask & gy_cpu_bits()) == mask;
}

int main(int argc, char **argv)
{
    static const char *const sets[] = { "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma" };
    static float x[PREP_PIXELS];
    const int all = argc == 3 && strcmp(argv[1], "--steps") == 0, steps = all ? atoi(argv[2]) : 2;
    const int64_t small = argc == 3 && strcmp(argv[1], "--weights") == 0 ? strtoll(argv[2], NULL, 10) : PREP_SMALL;
    int ran = 0;
    for (int i = 0; i < PREP_PIXELS; i++)
        x[i] = (float)(i % 1009 * 7919 % 1009) / 504.5f - 1.0f;
    for (int i = 0; gyre_zoo_name(i); i++) {
        const char *const name = gyre_zoo_name(i);
        const int at = prep_zoo(name);
        if (!T_CHECK(at > 0) || (!all && prep_weights() > small))
            continue;
        for (size_t s = 0; s < GY_COUNT(sets); s++)
            for (int bf16 = 0; bf16 < 2 && prep_has(sets[s]); bf16++, ran++)
                prep_run(name, sets[s], bf16 ? GYRE_BF16 : GYRE_F32, steps, x);
        if (at == 28) {
            prep_run(name, "ref", GYRE_F32, steps, x);
            ran++;
        }
    }
    T_CHECK_MSG(ran > 0, "no net ran");
    printf("t_prepare: %d runs of %d steps\n", ran, steps);
    return t_end("t_prepare");
}
