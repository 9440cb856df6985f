/* SPDX-License-Identifier: MIT */
/* t_emu_stream.c: streams on the CUDA emulator. Work without order on a GPU is found, though it
 * happens in the order of the calls here. Each case is run right and with one wait left out. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "tests/emu_host.h"

enum { STREAM_COUNT = 64 };
static const char *const stream_options[] = {"-DGY_ARCH=80", "-DGY_THREADS=64", "-DGY_SHARED_BYTES=1024", "-DGY_DTYPE=0", "-DGY_ACT=0",
                                             "--gpu-architecture=sm_80"};

static struct {
    void *module, *work, *copy, *event, *taken;
    float *x, *y;              /* on the device: STREAM_COUNT, 1 */
    float *pinned, *sum;       /* of the host */
} at;
static const size_t stream_bytes = STREAM_COUNT * sizeof(float);

static void stream_set(float value)
{
    for (int i = 0; i < STREAM_COUNT; i++)
        at.pinned[i] = value;
}

static int stream_upload(void) { return cuda.copy(at.x, at.pinned, stream_bytes, 1, at.copy); }

/* y = sum of x */
static int stream_kernel(void *on)
{
    struct run run = { .grid = {1, 1, 1}, .threads = STREAM_COUNT, .shared = 1024, .stream = on };
    run.args.ptr[GY_X] = at.x;
    run.args.ptr[GY_Y] = at.y;
    return launch(at.module, "tree", &run);
}

static int stream_download(void) { return cuda.copy(at.sum, at.y, sizeof(float), 2, at.copy); }

/* `to` waits for all that `from` was given so far. */
static int stream_join(void *to, void *from, int wait)
{
    return wait ? cuda.record(at.event, from) || cuda.wait_event(to, at.event, 0) : 0;
}

/* Each returns the first error. wait: the one that matters is there. */

static int case_upload(int wait)
{
    int error = stream_upload();
    error = error ? error : stream_join(at.work, at.copy, wait);
    return error ? error : stream_kernel(at.work);
}

static int case_overwrite(int wait)
{
    int error = case_upload(1);
    error = error ? error : stream_join(at.copy, at.work, wait);
    return error ? error : stream_upload(); /* the kernel may still read */
}

static int case_download(int wait)
{
    int error = case_upload(1);
    error = error ? error : stream_join(at.copy, at.work, wait);
    return error ? error : stream_download();
}

static int case_copies(int wait)
{
    int error = stream_upload();
    error = error ? error : stream_join(at.work, at.copy, wait);
    return error ? error : cuda.copy(at.y, at.x, sizeof(float), 3, at.work);
}

static int case_fill(int wait)
{
    int error = cuda.fill(at.x, 0, stream_bytes, at.work);
    error = error ? error : stream_join(at.copy, at.work, wait);
    return error ? error : stream_upload();
}

static int case_kernels(int wait)
{
    int error = case_upload(1);
    error = error ? error : stream_join(at.copy, at.work, wait);
    return error ? error : stream_kernel(at.copy);
}

/* The host waits in place of an event. */
static int case_host(int wait)
{
    int error = stream_upload();
    error = error || !wait ? error : cuda.sync(at.copy);
    return error ? error : stream_kernel(at.work);
}

/* The host writes what a copy is reading. */
static int case_pinned(int wait)
{
    stream_set(1);
    int error = stream_upload();
    error = error || !wait ? error : cuda.sync(at.copy);
    stream_set(2);
    return error ? error : cuda.sync(at.copy);
}

/* An event inside a graph, for a stream outside. */
static int case_graph(int wait)
{
    void *graph = NULL, *exec = NULL;
    int error = stream_upload();
    error = error ? error : cuda.sync(at.copy);
    error = error ? error : cuda.capture(at.work, 2);
    error = error ? error : stream_kernel(at.work);
    error = error ? error : cuda.record_flags(at.event, at.work, 1);
    error = error ? error : cuda.end(at.work, &graph);
    error = error ? error : cuda.instantiate(&exec, graph, 0);
    error = error ? error : cuda.graph_destroy(graph);
    for (int round = 0; round < 2 && !error; round++) {
        error = cuda.graph_launch(exec, at.work);
        error = error || !wait ? error : cuda.wait_event(at.copy, at.event, 0);
        error = error ? error : stream_download();
        error = error ? error : cuda.wait_event(at.work, at.taken, 0); /* never recorded: no wait */
        error = error ? error : cuda.sync(at.copy);
    }
    T_CHECK(cuda.exec_destroy(exec) == 0);
    return error;
}

static const struct {
    const char *name, *says;
    int (*run)(int wait);
} stream_cases[] = {
    {"upload", "which a copy on another stream writes, with no event between", case_upload},
    {"overwrite", "writes memory that a kernel on another stream uses", case_overwrite},
    {"download", "reads memory that a kernel on another stream writes", case_download},
    {"copies", "reads memory that a copy on another stream writes", case_copies},
    {"fill", "writes memory that a copy on another stream uses", case_fill},
    {"kernels", "which a kernel on another stream wrote, with no event between", case_kernels},
    {"host", "which a copy on another stream writes", case_host},
    {"pinned", "the host has written", case_pinned},
    {"graph", "reads memory that a kernel on another stream writes", case_graph},
};

static void stream_clean(void)
{
    T_CHECK(cuda.reset() == 0);
    T_CHECK(cuda.sync(at.work) == 0 && cuda.sync(at.copy) == 0);
}

static void test_cases(void)
{
    for (size_t i = 0; i < GY_COUNT(stream_cases); i++) {
        const int right = stream_cases[i].run(1);
        T_CHECK_MSG(right == 0, "%s: %s", stream_cases[i].name, cuda.text(right));
        stream_clean();
        const int wrong = stream_cases[i].run(0);
        T_CHECK_MSG(wrong != 0 && strstr(cuda.text(wrong), stream_cases[i].says), "%s: %d, %s", stream_cases[i].name, wrong,
                    cuda.text(wrong));
        T_CHECK(cuda.sync(at.work) == wrong); /* it sticks */
        stream_clean();
    }
}

/* What a copy brings is there when the host has waited, not before. */
static void test_late(void)
{
    stream_set(3);
    *at.sum = -1;
    T_CHECK(case_download(1) == 0 && *at.sum != 192);
    /* this event is of the kernel alone */
    T_CHECK(cuda.record(at.event, at.work) == 0 && cuda.event_sync(at.event) == 0 && *at.sum != 192);
    T_CHECK(cuda.record(at.event, at.copy) == 0 && cuda.event_sync(at.event) == 0 && *at.sum == 192);
}

/* An event of a capture is no event for others; one from outside is none inside. */
static void test_captured(void)
{
    void *graph = NULL;
    T_CHECK(cuda.record(at.taken, at.copy) == 0 && cuda.capture(at.work, 2) == 0);
    T_CHECK(cuda.wait_event(at.work, at.taken, 0) == 900);
    T_CHECK(cuda.record(at.event, at.work) == 0 && cuda.end(at.work, &graph) == 0 && cuda.graph_destroy(graph) == 0);
    T_CHECK(cuda.wait_event(at.copy, at.event, 0) == 900 && cuda.event_sync(at.event) == 900);
    T_CHECK(cuda.record(at.event, at.work) == 0 && cuda.wait_event(at.copy, at.event, 0) == 0);
    T_CHECK(cuda.reset() == 0);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 4096);
    (void)argc;
    (void)half_of;
    setenv("GYRE_EMU_QUIET", "1", 0);
    if (dlsym(RTLD_DEFAULT, "__tsan_create_fiber")) {
        T_SKIP("under ThreadSanitizer kernels are not checked by the emulator");
        T_END("t_emu_stream");
    }
    if (!emu_open(argv[0])) {
        T_SKIP("no emulator beside this program");
        T_END("t_emu_stream");
    }
    at.module = compile("tests/emu/words.cu", stream_options, 6, 0, NULL, 0);
    at.x = device_of(NULL, stream_bytes);
    at.y = device_of(NULL, sizeof(float));
    void *pinned = NULL, *sum = NULL;
    T_CHECK(cuda.malloc_host(&pinned, stream_bytes) == 0 && cuda.malloc_host(&sum, sizeof(float)) == 0);
    at.pinned = pinned;
    at.sum = sum;
    T_CHECK(cuda.stream(&at.work, 1) == 0 && cuda.stream(&at.copy, 1) == 0);
    T_CHECK(cuda.event(&at.event, 2) == 0 && cuda.event(&at.taken, 2) == 0);
    stream_set(1);
    if (T_CHECK(at.module != NULL)) {
        test_cases();
        test_late();
        test_captured();
    }
    T_END("t_emu_stream");
}
