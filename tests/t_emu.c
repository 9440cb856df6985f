/* SPDX-License-Identifier: MIT */
/* t_emu.c: the CUDA emulator: its functions, the dialect's words, and every fault that a kernel can
 * have. Faults are planted, found and told with kernel, line and thread, whatever the order in
 * which threads run. The library is opened as the backend opens it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "tests/emu_host.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- words ---- */

static const char *const word_options[] = {"-DGY_ARCH=80", "-DGY_THREADS=64", "-DGY_SHARED_BYTES=1024", "-DGY_DTYPE=0", "-DGY_ACT=0",
                                           "--gpu-architecture=sm_80"};

static void test_words(void)
{
    void *module = compile("tests/emu/words.cu", word_options, 6, 0, NULL, 0);
    if (!T_CHECK(module != NULL))
        return;
    float x[192], y[768];
    int32_t where[768];
    for (int i = 0; i < 192; i++)
        x[i] = (float)i;
    struct run run = { .grid = {3, 1, 1}, .threads = 64, .shared = 1024 };
    run.args.ptr[GY_X] = device_of(x, sizeof x);
    run.args.ptr[GY_Y] = device_of(NULL, sizeof y);

    T_CHECK(launch(module, "tree", &run) == 0);
    T_CHECK(cuda.copy(y, run.args.ptr[GY_Y], sizeof y, 2, NULL) == 0);
    for (int i = 0; i < 3; i++)
        T_CHECK_MSG(y[i] == (float)(64 * (64 * i) + 2016), "%g", (double)y[i]);

    T_CHECK(launch(module, "exchange", &run) == 0);
    T_CHECK(cuda.copy(y, run.args.ptr[GY_Y], sizeof y, 2, NULL) == 0);
    int good = 1;
    for (int i = 0; i < 192; i++) {
        const int lane = i & 31, first = i - lane;
        good &= y[4 * i] == x[first + (lane ^ 5)] && y[4 * i + 1] == x[first + (lane + 9 < 32 ? lane + 9 : lane)];
        good &= y[4 * i + 2] == x[first + 17] && y[4 * i + 3] == (float)(first % 64 + lane / 2);
    }
    T_CHECK(good);

    T_CHECK(cuda.fill(run.args.ptr[GY_Y], 0, sizeof y, NULL) == 0 && launch(module, "adders", &run) == 0);
    T_CHECK(cuda.copy(y, run.args.ptr[GY_Y], sizeof y, 2, NULL) == 0);
    for (int i = 0; i < 6; i++)
        T_CHECK_MSG(y[i] == (i < 5 ? 48.0f : 0.0f), "%d: %g", i, (double)y[i]);

    run.grid[0] = 2, run.grid[1] = 3, run.grid[2] = 2;
    T_CHECK(launch(module, "place", &run) == 0);
    T_CHECK(cuda.copy(where, run.args.ptr[GY_Y], sizeof where, 2, NULL) == 0);
    good = 1;
    for (int i = 0; i < 768; i++)
        good &= where[i] == i / 64 * 1000 + i % 64 / 32 * 100 + i % 32;
    T_CHECK(good);
    T_CHECK(cuda.free(run.args.ptr[GY_X]) == 0 && cuda.free(run.args.ptr[GY_Y]) == 0);
    T_CHECK(cuda.unload(module) == 0);
}

static void test_compile_error(void)
{
    char log[2000] = "";
    const char *const options[] = {"-DGY_ARCH=80", "-DGY_THREADS=64", "-DGY_SHARED_BYTES=16", "-DGY_DTYPE=0", "-DGY_ACT=0"};
    T_CHECK(!compile("tests/emu/words.cu", options, 5, 1, log, sizeof log));
    T_CHECK_MSG(strstr(log, "the variant's shared memory is too small") != NULL, "%s", log);
}

/* ---- graphs, copies, attributes ---- */

/* One stream has a copy in and a launch; another stream waits for them and copies out. Capture
 * records them without running them; then the graph repeats them. */
static void test_graphs(void)
{
    void *module = compile("tests/emu/words.cu", word_options, 6, 0, NULL, 0);
    if (!T_CHECK(module != NULL))
        return;
    float x[64], *pinned = NULL, *sum = NULL;
    void *stream = NULL, *other = NULL, *event = NULL, *graph = NULL, *exec = NULL;
    struct run run = { .grid = {1, 1, 1}, .threads = 64, .shared = 1024 };
    T_CHECK(cuda.malloc_host((void **)&pinned, sizeof x) == 0 && cuda.malloc_host((void **)&sum, 4) == 0);
    run.args.ptr[GY_X] = device_of(NULL, sizeof x);
    run.args.ptr[GY_Y] = device_of(NULL, 4);
    T_CHECK(cuda.stream(&stream, 1) == 0 && cuda.stream(&other, 1) == 0 && cuda.event(&event, 2) == 0);
    run.stream = stream;
    *sum = -1.0f;
    T_CHECK(cuda.capture(stream, 2) == 0);
    T_CHECK(cuda.copy(run.args.ptr[GY_X], pinned, sizeof x, 1, stream) == 0);
    T_CHECK(launch(module, "tree", &run) == 0);
    T_CHECK(cuda.record(event, stream) == 0 && cuda.wait_event(other, event, 0) == 0);
    T_CHECK(cuda.copy(sum, run.args.ptr[GY_Y], 4, 2, other) == 0);
    T_CHECK(cuda.sync(stream) != 0); /* not while it is captured */
    T_CHECK(cuda.record(event, other) == 0 && cuda.wait_event(stream, event, 0) == 0);
    T_CHECK(cuda.end(stream, &graph) == 0 && *sum == -1.0f);
    T_CHECK(cuda.instantiate(&exec, graph, 0) == 0 && cuda.graph_destroy(graph) == 0);
    for (int round = 1; round < 4; round++) {
        for (int i = 0; i < 64; i++)
            pinned[i] = (float)round;
        T_CHECK(cuda.graph_launch(exec, stream) == 0 && cuda.sync(stream) == 0);
        T_CHECK_MSG(*sum == (float)(64 * round), "%g", (double)*sum);
    }
    T_CHECK(cuda.exec_destroy(exec) == 0 && cuda.event_destroy(event) == 0);
    T_CHECK(cuda.stream_destroy(stream) == 0 && cuda.stream_destroy(other) == 0);
    T_CHECK(cuda.free(run.args.ptr[GY_X]) == 0 && cuda.free(run.args.ptr[GY_Y]) == 0);
    T_CHECK(cuda.free_host(pinned) == 0 && cuda.free_host(sum) == 0 && cuda.unload(module) == 0);
}

static void test_refusals(void)
{
    char host[64] = {0};
    void *p = device_of(NULL, 64);
    T_CHECK(cuda.copy(p, host, 64, 1, NULL) == 0 && cuda.copy(host, p, 64, 2, NULL) == 0);
    T_CHECK(cuda.copy(p, host, 65, 1, NULL) == 1 && strstr(cuda.text(1), "65 bytes"));
    T_CHECK(cuda.copy(host, host + 32, 8, 1, NULL) == 1); /* to the device, says the kind */
    T_CHECK(cuda.copy(p, host, 8, 2, NULL) == 1);
    T_CHECK(cuda.fill((char *)p + 60, 0, 8, NULL) == 1 && cuda.fill(host, 0, 8, NULL) == 1);
    T_CHECK(cuda.free((char *)p + 16) == 1 && cuda.free(p) == 0 && cuda.free(p) == 1);
    T_CHECK(cuda.reset() == 0);
}

/* A host that follows a device pointer crashes, as with a GPU; seen in another process. */
static void test_hidden_memory(void)
{
    volatile float *p = device_of(NULL, 64);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(p[0] == 0.0f ? 0 : 1);
    }
    int status = 0;
    T_CHECK(child > 0 && waitpid(child, &status, 0) == child);
    T_CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %x", (unsigned)status);
    float *same;
    memcpy(&same, &p, sizeof same);
    T_CHECK(cuda.free(same) == 0);
}

static void test_architectures(void)
{
    static const int arches[] = {60, 70, 75, 80, 90};
    static const int shared[] = {48, 96, 64, 163, 227};
    for (size_t i = 0; i < GY_COUNT(arches); i++) {
        char text[10];
        int major = 0, minor = 0, most = 0;
        snprintf(text, sizeof text, "%d", arches[i]);
        setenv("GYRE_EMU_ARCH", text, 1);
        T_CHECK(cuda.attribute(&major, 75, 0) == 0 && cuda.attribute(&minor, 76, 0) == 0 && cuda.attribute(&most, 97, 0) == 0);
        T_CHECK(major * 10 + minor == arches[i] && most == shared[i] * 1024);
    }
    unsetenv("GYRE_EMU_ARCH");
}

/* ---- planted faults ---- */

struct planted {
    const char *kernel, *says, *more; /* words of the sentence */
    int thread;                       /* -1: depends on the order */
    /* the order decides which of this many lines, from HERE upwards, is reported */
    int lines;
};
static const struct planted planted_faults[] = {
    {"missing_barrier", "race: ", "no barrier between", -1, 3},
    {"write_after_read", "race: ", "no barrier between", -1, 3},
    {"write_write", "race: writes", "wrote at faults.cu:", -1, 1},
    {"global_race", "race: ", "no barrier between", -1, 3},
    {"blocks_race", "race: writes", "another block", 0, 1},
    {"live_race", "race: reads byte 0", "to which a gy_atomic_add added", -1, 1},
    {"halves", "race: ", "no barrier between", -1, 2},
    {"outside_global", "out of bounds: byte 256 of the nearest allocation, which has 256", "writes 4 bytes", 63, 1},
    {"outside_shared", "at byte 256 of the shared memory, which has 256", "writes 4 bytes", 63, 1},
    {"freed", "in an allocation of 256 bytes that was freed", "writes 4 bytes", -1, 1},
    {"host_memory", "in the host's memory", "reads 4 bytes", -1, 1},
    {"misaligned", "which is not divisible by 16", "16 bytes", -1, 1},
    {"divergent", "divergent barrier: thread ", "at faults.cu:", -1, 3},
    {"never_written", "of shared memory, which nobody wrote", "reads byte 20 ", 4, 1},
    {"missing_lane", "lane 7 (thread 7) is missing: it waits at faults.cu:", "all 32 lanes must come", -1, 1},
    {"too_deep", "needs more than 131072 bytes of stack", "", -1, 0},
    {"other_stack", "a local variable of thread 0", "writes 4 bytes", 3, 1},
};

/* The line of a file that says HERE and the name. */
static int line_of(const char *text, const char *name)
{
    char mark[100];
    snprintf(mark, sizeof mark, "HERE %s */", name);
    const char *at = strstr(text, mark);
    int line = at ? 1 : 0;
    for (const char *p = text; at && p < at; p++)
        line += *p == '\n';
    return line;
}

/* Runs one kernel in one order of threads, with fresh tensors. For `freed`, Y is freed first. In
 * the faulty kernels BIAS is a host pointer. */
static int launch_planted(void *module, const char *name, int right)
{
    float *host = NULL;
    struct run run = { .grid = {strcmp(name, "blocks_race") ? 1 : 2, 1, 1}, .threads = 64, .shared = 256 };
    T_CHECK(cuda.malloc_host((void **)&host, 256) == 0);
    for (int i = 0; i < 64; i++)
        host[i] = (float)i;
    run.args.ptr[GY_X] = device_of(host, 256);
    run.args.ptr[GY_Y] = device_of(NULL, run.grid[0] * 256u);
    void *bias = device_of(host, 256);
    run.args.ptr[GY_BIAS] = right ? bias : host;
    const int free_first = !right && strcmp(name, "freed") == 0;
    if (free_first)
        T_CHECK(cuda.free(run.args.ptr[GY_Y]) == 0);
    const int status = launch(module, name, &run);
    if (!free_first)
        T_CHECK(cuda.free(run.args.ptr[GY_Y]) == 0);
    T_CHECK(cuda.free(run.args.ptr[GY_X]) == 0 && cuda.free(bias) == 0 && cuda.free_host(host) == 0);
    return status;
}

static void check_planted(void *module, const struct planted *p, const char *source)
{
    char kernel[100], line[100], thread[100];
    int told = p->lines == 0;
    const int status = launch_planted(module, p->kernel, 0);
    const char *text = cuda.text(status);
    snprintf(kernel, sizeof kernel, "kernel %s,", p->kernel);
    for (int i = 0; i < p->lines; i++) {
        snprintf(line, sizeof line, " faults.cu:%d,", line_of(source, p->kernel) - i);
        told |= strstr(text, line) != NULL;
    }
    snprintf(thread, sizeof thread, " thread %d:", p->thread);
    T_CHECK_MSG(status == 719, "%s: status %d", p->kernel, status);
    T_CHECK_MSG(strstr(text, kernel) != NULL, "%s", text);
    T_CHECK_MSG(told, "not%s but %s", line, text);
    if (p->thread >= 0)
        T_CHECK_MSG(strstr(text, thread) != NULL, "%s: %s", thread, text);
    T_CHECK_MSG(strstr(text, p->says) && strstr(text, p->more), "%s", text);
    T_CHECK(cuda.sync(NULL) == 719); /* until the device is reset, as on a GPU */
    T_CHECK(cuda.reset() == 0 && cuda.sync(NULL) == 0);
}

static const char *const planted_options[] = {"-DGY_ARCH=80", "-DGY_THREADS=64", "-DGY_SHARED_BYTES=256", "-DGY_DTYPE=0",
                                              "-DGY_ACT=0", "-DGY_RIGHT"};

static void test_planted(void)
{
    char *source = read_text("tests/emu/faults.cu");
    void *wrong = compile("tests/emu/faults.cu", planted_options, 5, 0, NULL, 0);
    void *right = compile("tests/emu/faults.cu", planted_options, 6, 0, NULL, 0);
    if (!T_CHECK(source && wrong && right))
        return;
    static const char *const seeds[] = {"1", "2", "3"};
    for (size_t seed = 0; seed < GY_COUNT(seeds); seed++) {
        setenv("GYRE_EMU_SEED", seeds[seed], 1);
        for (size_t i = 0; i < GY_COUNT(planted_faults); i++) {
            /* ThreadSanitizer keeps signals for itself */
            if (strcmp(planted_faults[i].kernel, "too_deep") == 0 && dlsym(RTLD_DEFAULT, "__tsan_create_fiber"))
                continue;
            check_planted(wrong, &planted_faults[i], source);
            const int status = launch_planted(right, planted_faults[i].kernel, 1);
            T_CHECK_MSG(status == 0, "seed %s: %s", seeds[seed], cuda.text(status));
            cuda.reset();
        }
    }
    T_CHECK(cuda.unload(wrong) == 0 && cuda.unload(right) == 0);
    free(source);
}

/* ---- matrices ---- */

struct product {
    const char *kernel;
    int m, n, k, count, bf16, turned;
};

/* y[count][m][n] = 1 + x[count][m][k] w[count][n][k]^T. cut: the last 3 numbers of both halves of
 * w's last row are 0. */
static void check_product(void *module, const struct product *p, int cut)
{
    uint16_t x[256], w[256];
    int xi[256], wi[256];
    float y[256];
    for (int i = 0; i < 256; i++) {
        xi[i] = (i * 37 + 11) % 13 - 6;
        wi[i] = (i * 53 + 5) % 11 - 5;
        x[i] = half_of(xi[i], p->bf16);
        w[i] = half_of(wi[i], p->bf16);
    }
    for (int i = 0; cut && i < 3; i++)
        wi[245 + i] = wi[253 + i] = 0;
    struct run run = { .grid = {1, 1, 1}, .threads = 32, .shared = 1024 };
    run.args.ptr[GY_X] = device_of(x, sizeof x);
    run.args.ptr[GY_W] = device_of(w, sizeof w);
    run.args.ptr[GY_Y] = device_of(NULL, sizeof y);
    const int status = launch(module, p->kernel, &run);
    T_CHECK_MSG(status == 0, "%s", cuda.text(status));
    T_CHECK(cuda.copy(y, run.args.ptr[GY_Y], sizeof y, 2, NULL) == 0);
    int wrong = 0;
    for (int q = 0; q < p->count; q++)
        for (int i = 0; i < p->m; i++)
            for (int j = 0; j < p->n; j++) {
                int sum = 1;
                for (int k = 0; k < p->k; k++)
                    sum += xi[(q * p->m + i) * p->k + k] * (p->turned ? wi[k * p->n + j] : wi[(q * p->n + j) * p->k + k]);
                wrong += y[(q * p->m + i) * p->n + j] != (float)sum;
            }
    T_CHECK_MSG(wrong == 0, "%s: %d numbers", p->kernel, wrong);
    T_CHECK(cuda.free(run.args.ptr[GY_X]) == 0 && cuda.free(run.args.ptr[GY_Y]) == 0 && cuda.free(run.args.ptr[GY_W]) == 0);
    cuda.reset();
}

static const char *matrix_options[] = {"-DGY_ARCH=80", "-DGY_THREADS=32", "-DGY_SHARED_BYTES=1024", "-DGY_DTYPE=2",
                                       "-DGY_ACT=0", "-DGY_TURNED"};

static void test_matrices(void)
{
    static const struct product products[] = {{"by_hand_8", 16, 8, 8, 1, 0, 0}, {"by_hand_16", 16, 8, 16, 1, 0, 0},
                                              {"by_hand_bf16", 16, 8, 16, 1, 1, 0}, {"by_hand_volta", 8, 8, 4, 4, 0, 0}};
    static const struct product tiles = {"by_tiles", 16, 16, 16, 1, 0, 0}, turned = {"by_tiles", 16, 16, 16, 1, 0, 1};
    void *module = compile("tests/emu/matrix.cu", matrix_options, 5, 0, NULL, 0);
    void *module_turned = compile("tests/emu/matrix.cu", matrix_options, 6, 0, NULL, 0);
    if (!T_CHECK(module && module_turned))
        return;
    for (size_t i = 0; i < GY_COUNT(products); i++)
        check_product(module, &products[i], 0);
    check_product(module, &tiles, 1);
    check_product(module_turned, &turned, 1);
    T_CHECK(cuda.unload(module) == 0 && cuda.unload(module_turned) == 0);
}

/* A wait for the wrong group, no wait, and no barrier behind it. */
static void test_lost_waits(void)
{
    static const char *const wrong[] = {"-DGY_WRONG=1", "-DGY_WRONG=2", "-DGY_WRONG=3"};
    static const char *const says[] = {"while an asynchronous copy of thread", "while an asynchronous copy of thread", "race: ldmatrix reads"};
    for (int i = 0; i < 3; i++) {
        matrix_options[5] = wrong[i];
        void *module = compile("tests/emu/matrix.cu", matrix_options, 6, 0, NULL, 0);
        struct run run = { .grid = {1, 1, 1}, .threads = 32, .shared = 1024 };
        run.args.ptr[GY_X] = device_of(NULL, 512);
        run.args.ptr[GY_W] = device_of(NULL, 512);
        run.args.ptr[GY_Y] = device_of(NULL, 1024);
        const int status = module ? launch(module, "by_tiles", &run) : -1;
        T_CHECK_MSG(status == 719 && strstr(cuda.text(status), says[i]), "%s", cuda.text(status));
        cuda.reset();
        for (int role = 0; role < GY_ROLES; role++)
            T_CHECK(cuda.free(run.args.ptr[role]) == 0);
        T_CHECK(module && cuda.unload(module) == 0);
    }
}

/* ---- ThreadSanitizer ---- */

/* The other process: one kernel under ThreadSanitizer, which prints and decides the exit status. */
static int run_under_sanitizer(const char *kernel, int right)
{
    void *module = compile("tests/emu/faults.cu", planted_options, right ? 6 : 5, 0, NULL, 0);
    return module ? launch_planted(module, kernel, right) : 1;
}

static void check_sanitizer(const char *program, const char *kernel, int right, const char *source)
{
    char command[2000], text[16384], line[100];
    snprintf(command, sizeof command, "TSAN_OPTIONS=halt_on_error=0:exitcode=66 GYRE_EMU_TSAN=1 '%s' --tsan %s%s 2>&1", program, kernel,
             right ? " right" : "");
    FILE *f = popen(command, "r");
    if (!T_CHECK(f != NULL))
        return;
    const size_t count = fread(text, 1, sizeof text - 1, f);
    text[count] = 0;
    while (getc(f) != EOF) {
    }
    const int status = pclose(f);
    snprintf(line, sizeof line, "faults.cu:%d", line_of(source, kernel));
    if (right)
        T_CHECK_MSG(status == 0 && !strstr(text, "ThreadSanitizer"), "%s: %.2000s", kernel, text);
    else
        T_CHECK_MSG(strstr(text, "data race") && strstr(text, line), "%s: no %s in: %.2000s", kernel, line, text);
}

/* A program built with ThreadSanitizer reports the planted faults, and nothing in the right
 * kernels. */
static void test_sanitizer(const char *program)
{
    static const char *const kernels[] = {"missing_barrier", "write_after_read", "write_write", "global_race", "blocks_race"};
    if (!dlsym(RTLD_DEFAULT, "__tsan_create_fiber")) {
        T_SKIP("kernels under ThreadSanitizer: a program built with it does that");
        return;
    }
    char *source = read_text("tests/emu/faults.cu");
    for (size_t i = 0; source && i < GY_COUNT(kernels); i++) {
        check_sanitizer(program, kernels[i], 0, source);
        check_sanitizer(program, kernels[i], 1, source);
    }
    free(source);
}

int main(int argc, char **argv)
{
    if (!emu_open(argv[0])) {
        T_SKIP("no libgyre-emu.so beside the test");
        T_END("t_emu");
    }
    setenv("GYRE_EMU_QUIET", "1", 0);
    if (argc > 2 && strcmp(argv[1], "--tsan") == 0)
        return run_under_sanitizer(argv[2], argc > 3);
    test_words();
    test_compile_error();
    test_graphs();
    test_refusals();
    test_hidden_memory();
    test_architectures();
    test_planted();
    test_matrices();
    test_lost_waits();
    test_sanitizer(argv[0]);
    T_END("t_emu");
}
