/* SPDX-License-Identifier: MIT */
/* t_roofline.c: work and limits of ops against sums by hand, and the backend's measurements.
 * gyre_print_why leaves a net as it was; gyre_print_fit keeps the limit. No figure of speed is
 * judged. */
#include "tools/lab/lab.h"
#include "engine/run/engine.h"
#include "tools/lab/roofline.h"
#include "tests/t.h"

/* 100 and 200 GFLOP/s; 10 and 20 GB/s, in the cache of 1 MB 100 and 200. */
static const struct gy_ceilings roof_machine = { .f32 = 100, .bf16 = 200, .read = 10, .copy = 20, .cache_read = 100,
                                                 .cache_copy = 200, .cache_bytes = 1e6 };

static int roof_near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b); }

/* A plan of a few tensors, and one op on them. */
struct roof_case {
    struct gy_plan plan;
    struct gy_tensor tensors[4];
    struct gy_op op;
};

static void roof_tensor(struct roof_case *c, int role, int64_t count, int dtype)
{
    c->op.tensor[role] = c->plan.tensor_count;
    c->tensors[c->plan.tensor_count++] =
        (struct gy_tensor){ .count = count, .dtype = dtype, .bytes = (size_t)count * gy_dtype_bytes(dtype) };
    c->plan.tensors = c->tensors;
}

static void roof_conv(struct roof_case *c, int32_t side, int32_t filter, int32_t stride, int dtype)
{
    const int32_t out = (side + stride - 1) / stride;
    const struct gy_geom g = { .n = 2, .h = side, .w = side, .c = 8, .p = out, .q = out, .k = 16, .r = filter, .s = filter,
                               .stride_h = stride, .stride_w = stride, .groups = 1, .dil_h = 1, .dil_w = 1 };
    memset(c, 0, sizeof *c);
    c->op = gy_op_make(GY_OP_CONV, "conv", &g);
    c->op.dtype = dtype;
    roof_tensor(c, GY_X, g.n * side * side * 8, dtype);
    roof_tensor(c, GY_W, (int64_t)16 * filter * filter * 8, GY_F32);
    roof_tensor(c, GY_Y, g.n * out * out * 16, dtype);
}

static void roof_test_work(void)
{
    struct roof_case c;
    roof_conv(&c, 4, 3, 1, GY_F32);
    struct gy_work w = gy_op_work(&c.plan, &c.op);
    T_CHECK(w.flops == 2.0 * 2 * 16 * 16 * 72 && w.read == 4.0 * (256 + 1152) && w.written == 4.0 * 512 && !w.half);
    roof_conv(&c, 4, 3, 1, GY_BF16);
    w = gy_op_work(&c.plan, &c.op);
    T_CHECK(w.read == 2.0 * 256 + 4.0 * 1152 && w.written == 2.0 * 512 && w.half);
    roof_conv(&c, 4, 1, 2, GY_F32); /* a quarter of the input is met */
    w = gy_op_work(&c.plan, &c.op);
    T_CHECK(w.read == 4.0 * (256 / 4 + 128) && w.written == 4.0 * 128);
    T_CHECK(w.done == w.flops);
    c.op.variant = "winograd7";
    c.op.geom.r = c.op.geom.s = 3;
    c.op.geom.stride_h = c.op.geom.stride_w = 1;
    w = gy_op_work(&c.plan, &c.op);
    T_CHECK(w.flops == 2.0 * 2 * 4 * 16 * 8 * 9 && roof_near(w.done, w.flops * 81 / 441));
    c.op.variant = "winograd4";
    c.op.dtype = GY_BF16;
    w = gy_op_work(&c.plan, &c.op);
    T_CHECK(roof_near(w.done, w.flops * 36 / 144) && !w.half);
    c.op.variant = "winograd4";
    c.op.geom.r = c.op.geom.s = 5;
    w = gy_op_work(&c.plan, &c.op);
    T_CHECK(roof_near(w.done, w.flops * 64 / 400));
    c.op.code = GY_OP_ACT;
    c.op.dtype = GY_BF16;
    T_CHECK(!gy_op_work(&c.plan, &c.op).half);
}

static void roof_test_parts(void)
{
    const struct gy_geom g = { .n = 1, .h = 2, .w = 2, .c = 4, .p = 2, .q = 2, .k = 16, .r = 4, .s = 1 };
    struct roof_case c = { .op = gy_op_make(GY_OP_CONCAT, "concat", &g) };
    roof_tensor(&c, GY_X, 16, GY_F32);
    roof_tensor(&c, GY_Y, 64, GY_F32);
    struct gy_work w = gy_op_work(&c.plan, &c.op);
    T_CHECK(w.read == 64 && w.written == 64 && w.flops == 0); /* r is a channel, no window */
    c = (struct roof_case){ .op = gy_op_make(GY_OP_ACT_BWD, "act", &g) };
    roof_tensor(&c, GY_DY, 16, GY_F32);
    roof_tensor(&c, GY_Y, 16, GY_F32);
    roof_tensor(&c, GY_DX, 16, GY_F32);
    w = gy_op_work(&c.plan, &c.op);
    T_CHECK(w.read == 128 && w.written == 64);
    c.op.flags = GY_F_ADD_DX;
    w = gy_op_work(&c.plan, &c.op);
    T_CHECK(w.read == 192 && w.written == 64);
    for (c.op.code = 0; c.op.code < GY_OP_GLM_END; c.op.code++)
        T_CHECK(gy_op_kind(&c.op) < GY_OP_KINDS && gy_op_row(c.op.code)->reads >> GY_ROLES == 0);
}

static void roof_test_limit(void)
{
    struct gy_work w = { .flops = 1e9, .done = 1e9, .read = 4e6, .written = 1e6 };
    struct gy_limit l = gy_roofline(&w, &roof_machine);
    /* 2 MB copied at 20 GB/s, 3 MB read at 10 */
    T_CHECK(roof_near(l.compute, 0.01) && roof_near(l.memory, 2e6 / 20e9 + 3e6 / 10e9) && l.seconds == l.compute);
    w.half = 1;
    l = gy_roofline(&w, &roof_machine);
    T_CHECK(roof_near(l.compute, 0.005) && gy_roofline_peak(&w, &roof_machine) == 200);
    T_CHECK(roof_near(gy_roofline_bandwidth(&w, &roof_machine), 5e6 / l.memory * 1e-9));
    w = (struct gy_work){ .flops = 1, .done = 1, .read = 1e5, .written = 9e5 };
    l = gy_roofline(&w, &roof_machine);
    T_CHECK(roof_near(l.memory, 1e6 / 200e9) && l.seconds == l.memory);
    w.written = 9e5 + 1; /* no longer in the cache */
    T_CHECK(roof_near(gy_roofline(&w, &roof_machine).memory, (1e6 + 1) / 20e9));
    w = (struct gy_work){ .flops = 0 };
    T_CHECK(gy_roofline(&w, &roof_machine).seconds == 0 && gy_roofline_bandwidth(&w, &roof_machine) == 20);
}

static void roof_test_expect(void)
{
    struct roof_case c;
    struct gy_ceilings twice = roof_machine, merged = { .f32 = 300, .read = 1, .cache_bytes = 5e6 };
    twice.f32 *= 2;
    twice.read *= 2;
    twice.copy *= 2;
    roof_conv(&c, 56, 3, 1, GY_F32);
    const struct gy_work w = gy_op_work(&c.plan, &c.op);
    const double once = gy_roofline_expect(&c.op, &w, &roof_machine), half = gy_roofline_expect(&c.op, &w, &twice);
    T_CHECK(once > gy_roofline(&w, &roof_machine).seconds && half < once && half > once / 2);
    gy_ceilings_merge(&merged, &roof_machine);
    T_CHECK(merged.f32 == 300 && merged.bf16 == 200 && merged.read == 10 && merged.cache_bytes == 5e6);
    for (int code = 0; code < GY_OP_CODES; code++) {
        struct gy_op op = gy_op_make(code, "any", &c.op.geom);
        const double seconds = gy_roofline_expect(&op, &w, &roof_machine);
        T_CHECK_MSG(gy_op_kind(&op) >= 0 && gy_op_kind(&op) < GY_OP_KINDS && seconds > 0 && isfinite(seconds), "op code %d", code);
        T_CHECK_MSG(code < GY_OP_NORMS || gy_op_kind(&op) == GY_OP_IS_UPDATE, "op code %d is no update in op_table.c", code);
    }
}

/* Every op of planned nets has work and a finite limit; sums agree with gyre_measure. */
struct roof_sum {
    double flops;
    int ops, bad;
};

static void roof_look(void *user, const struct gyre_net *net)
{
    struct roof_sum *sum = user;
    for (int p = GY_FORWARD; p <= GY_UPDATE; p++)
        for (int i = 0; i < net->plan.program[p].count; i++) {
            const struct gy_op *op = &net->plan.program[p].ops[i];
            const struct gy_work w = gy_op_work(&net->plan, op);
            const double expected = gy_roofline_expect(op, &w, &roof_machine), limit = gy_roofline(&w, &roof_machine).seconds;
            sum->flops += w.flops;
            sum->ops++;
            if (op->flags & GY_F_PARTIAL) /* no part of a usual step */
                sum->bad += w.flops + w.done + w.read + w.written != 0;
            else
                sum->bad += !(w.read + w.written > 0 && limit > 0 && expected > 0 && isfinite(expected));
        }
}

static const char roof_net[] = "input 8x8x3\nconv1: conv 8 3x3\nbn1: bn\nrelu\nmaxpool 2x2\nfc: linear 5\nsoftmax\n";

static struct gyre_config roof_config(void)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = roof_net;
    config.batch = 6;
    config.threads = 2;
    return config;
}

static void roof_test_planned(void)
{
    struct gyre_config config = roof_config();
    struct gyre_need need;
    struct gy_error err = { 0 };
    for (int dtype = GYRE_F32; dtype <= GYRE_BF16; dtype++) {
        struct roof_sum sum = { 0 };
        config.dtype = dtype;
        T_CHECK(gy_engine_measure(&config, &need, roof_look, &sum, &err) == GY_OK);
        T_CHECK(sum.ops > 8 && sum.bad == 0 && sum.flops == (double)need.flops);
    }
}

/* ---- what is measured ---- */

static int roof_refuse; /* allocations of this size and more fail */
static void *roof_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    const struct gy_alloc plain = gy_alloc_default();
    (void)user;
    return roof_refuse && new_bytes >= (size_t)roof_refuse ? NULL : plain.fn(plain.user, ptr, old_bytes, new_bytes);
}

static void roof_test_ceilings(const char *isa)
{
    const struct gy_alloc alloc = { roof_alloc, NULL };
    const struct gy_log log = { 0 };
    const struct gy_backend_config config = { .alloc = &alloc, .log = &log, .isa = isa, .threads = 2 };
    const struct gy_backend *backend = gy_cpu_backend();
    struct gy_ceilings c = { .f32 = -1 };
    struct gy_error err;
    void *self;
    if (!T_CHECK(backend->open(&self, &config, &err) == GY_OK))
        return;
    roof_refuse = 1 << 20;
    T_CHECK(backend->lab->ceilings(self, &c) == GY_E_NOMEM && c.f32 == -1);
    roof_refuse = 0;
    T_CHECK(backend->lab->ceilings(self, &c) == GY_OK);
    T_CHECK(c.f32 > 0 && c.bf16 > 0 && c.read > 0 && c.copy > 0 && c.cache_read > 0 && c.cache_copy > 0 && c.cache_bytes > 0);
    T_CHECK(isfinite(c.f32 + c.bf16 + c.read + c.copy + c.cache_read + c.cache_copy + c.cache_bytes));
    backend->close(self);
}

/* ---- why and fit ---- */

static int roof_count(void *user, const char *text, size_t bytes)
{
    (void)text;
    *(size_t *)user += bytes;
    return 0;
}
static int roof_full(void *user, const char *text, size_t bytes)
{
    (void)user;
    (void)text;
    (void)bytes;
    return -1;
}

static void roof_test_why(void)
{
    const struct gyre_config config = roof_config();
    struct gyre_why_config why;
    struct gyre_net *net;
    float before[8 * 27], after[8 * 27];
    size_t bytes = 0;
    const struct gyre_sink sink = { roof_count, &bytes }, full = { roof_full, NULL };
    if (!T_CHECK(gyre_open(&net, &config, NULL) == GYRE_OK))
        return;
    T_CHECK(gyre_get_tensor(net, "conv1.weight", before, 8 * 27) == GYRE_OK);
    gyre_why_config_default(&why);
    why.steps = 2;
    T_CHECK(gyre_print_why(net, &why, &sink) == GYRE_OK && bytes > 1000);
    T_CHECK(gyre_get_tensor(net, "conv1.weight", after, 8 * 27) == GYRE_OK && memcmp(before, after, sizeof before) == 0);
    T_CHECK(net->backend == gy_cpu_backend() && net->config.schedule.rate == config.schedule.rate);
    T_CHECK(gyre_print_why(net, &why, &full) == GYRE_E_IO);
    why.steps = 0;
    T_CHECK(gyre_print_why(net, &why, &sink) == GYRE_E_ARG && strstr(gyre_last_error(net)->text, "steps is 0"));
    why.size = 3;
    T_CHECK(gyre_print_why(net, &why, &sink) == GYRE_E_ARG);
    gyre_close(net);
}

static void roof_test_fit(void)
{
    const struct gyre_config config = roof_config();
    struct gyre_fit_config fit;
    struct gyre_fit choice = { 0 };
    struct gyre_error error;
    struct gyre_need need;
    gyre_fit_config_default(&fit);
    fit.bytes = (size_t)1 << 30;
    fit.target_batch = 60;
    T_CHECK(gyre_print_fit(&config, &fit, &choice, NULL, &error) == GYRE_OK);
    T_CHECK(choice.batch * choice.accumulate == 60 && choice.bytes <= fit.bytes && choice.images_per_second > 0);
    struct gyre_config chosen = config;
    chosen.batch = choice.batch;
    chosen.accumulate = choice.accumulate;
    chosen.recompute = choice.recompute;
    chosen.dtype = choice.dtype;
    T_CHECK(gyre_measure(&chosen, &need, NULL) == GYRE_OK && need.host_bytes < choice.bytes);
    fit.target_batch = 0;
    fit.dtypes = 1 << GYRE_F32;
    T_CHECK(gyre_print_fit(&config, &fit, &choice, NULL, NULL) == GYRE_OK && choice.dtype == GYRE_F32 && choice.accumulate == 1);
    fit.bytes = 1000;
    T_CHECK(gyre_print_fit(&config, &fit, &choice, NULL, &error) == GYRE_E_NOMEM && strstr(error.text, "the limit is 1.0 kB"));
    fit.dtypes = 0;
    T_CHECK(gyre_print_fit(&config, &fit, &choice, NULL, &error) == GYRE_E_ARG);
    fit.dtypes = 1;
    fit.bytes = 0; /* what is free */
    fit.target_batch = 8;
    fit.recompute = 1;
    T_CHECK(gyre_print_fit(&config, &fit, &choice, NULL, &error) == GYRE_OK && choice.limit > choice.bytes && choice.recompute == 1);
    fit.processes = 0;
    T_CHECK(gyre_print_fit(&config, &fit, &choice, NULL, &error) == GYRE_E_ARG);
    fit.processes = 1;
    fit.target_batch = -1;
    T_CHECK(gyre_print_fit(&config, &fit, &choice, NULL, &error) == GYRE_E_ARG);
}

int main(void)
{
    roof_test_work();
    roof_test_parts();
    roof_test_limit();
    roof_test_expect();
    roof_test_planned();
    roof_test_ceilings(NULL);
    roof_test_ceilings("ref");
    roof_test_why();
    roof_test_fit();
    T_END("t_roofline");
}
