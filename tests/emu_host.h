/* SPDX-License-Identifier: MIT */
/* emu_host.h: what tests of the CUDA emulator share: the library opened as the backend opens it,
 * compiling a file of kernels, launching. */
#ifndef GY_TEST_EMU_HOST_H
#define GY_TEST_EMU_HOST_H
#include "tests/t.h"

#include <dlfcn.h>
#include <unistd.h>

#include "kernels/op_device.h"
#include "kernels/cuda/args.h"

/* ---- the library's functions ---- */

struct emu_api {
    int (*malloc)(void **ptr, size_t bytes);
    int (*free)(void *ptr);
    int (*malloc_host)(void **ptr, size_t bytes);
    int (*free_host)(void *ptr);
    int (*copy)(void *dst, const void *src, size_t bytes, int kind, void *stream);
    int (*fill)(void *dst, int value, size_t bytes, void *stream);
    int (*stream)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*sync)(void *stream);
    int (*wait_event)(void *stream, void *event, unsigned flags);
    int (*event)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*record)(void *event, void *stream);
    int (*record_flags)(void *event, void *stream, unsigned flags);
    int (*event_sync)(void *event);
    int (*capture)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*graph_launch)(void *exec, void *stream);
    int (*graph_destroy)(void *graph);
    int (*exec_destroy)(void *exec);
    int (*attribute)(int *value, int attribute, int device);
    int (*reset)(void);
    const char *(*text)(int error);
    int (*entry)(const char *symbol, void **function, unsigned long long flags, int *status);
    int (*create)(void **program, const char *source, const char *name, int headers, const char *const *sources,
                  const char *const *names);
    int (*destroy)(void **program);
    int (*compile)(void *program, int options, const char *const *option);
    int (*log_size)(void *program, size_t *bytes);
    int (*log)(void *program, char *log);
    int (*cubin_size)(void *program, size_t *bytes);
    int (*cubin)(void *program, char *cubin);
    /* driver */
    int (*load)(void **module, const void *image, unsigned options, int *names, void **values);
    int (*unload)(void *module);
    int (*function)(void **function, void *module, const char *name);
    int (*set)(void *function, int attribute, int value);
    int (*map_tiled)(void *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                     const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill);
    int (*map_im2col)(void *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                      const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave,
                      int swizzle, int l2, int fill);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                  void *stream, void **parameters, void **extra);
};
static struct emu_api cuda;

static int emu_symbol(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof symbol);
    T_CHECK_MSG(symbol != NULL, "no %s", name);
    return symbol != NULL;
}

/* The library lies beside the folder of the test program, or where GYRE_EMU says. */
static int emu_open(const char *program)
{
    char path[1024];
    const char *named = getenv("GYRE_EMU"), *slash = strrchr(program, '/');
    snprintf(path, sizeof path, "%.*s/../libgyre-emu.so", slash ? (int)(slash - program) : 1, slash ? program : ".");
    void *library = dlopen(named ? named : path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *const why = dlerror();
        /* a file that exists must open */
        T_CHECK_MSG(access(named ? named : path, F_OK) != 0, "%s", why);
        return 0;
    }
    const struct {
        const char *name;
        void *out;
    } table[] = {{"cudaMalloc", &cuda.malloc}, {"cudaFree", &cuda.free}, {"cudaMallocHost", &cuda.malloc_host},
                 {"cudaFreeHost", &cuda.free_host}, {"cudaMemcpyAsync", &cuda.copy}, {"cudaMemsetAsync", &cuda.fill},
                 {"cudaStreamCreateWithFlags", &cuda.stream}, {"cudaStreamDestroy", &cuda.stream_destroy},
                 {"cudaStreamSynchronize", &cuda.sync}, {"cudaStreamWaitEvent", &cuda.wait_event},
                 {"cudaEventCreateWithFlags", &cuda.event}, {"cudaEventDestroy", &cuda.event_destroy},
                 {"cudaEventRecordWithFlags", &cuda.record_flags}, {"cudaEventSynchronize", &cuda.event_sync},
                 {"cudaEventRecord", &cuda.record}, {"cudaStreamBeginCapture", &cuda.capture}, {"cudaStreamEndCapture", &cuda.end},
                 {"cudaGraphInstantiate", &cuda.instantiate}, {"cudaGraphLaunch", &cuda.graph_launch},
                 {"cudaGraphDestroy", &cuda.graph_destroy}, {"cudaGraphExecDestroy", &cuda.exec_destroy},
                 {"cudaDeviceGetAttribute", &cuda.attribute}, {"cudaDeviceReset", &cuda.reset}, {"cudaGetErrorString", &cuda.text},
                 {"cudaGetDriverEntryPoint", &cuda.entry}, {"nvrtcCreateProgram", &cuda.create},
                 {"nvrtcDestroyProgram", &cuda.destroy}, {"nvrtcCompileProgram", &cuda.compile},
                 {"nvrtcGetProgramLogSize", &cuda.log_size}, {"nvrtcGetProgramLog", &cuda.log},
                 {"nvrtcGetCUBINSize", &cuda.cubin_size}, {"nvrtcGetCUBIN", &cuda.cubin}};
    int good = 1;
    for (size_t i = 0; i < GY_COUNT(table); i++)
        good &= emu_symbol(library, table[i].name, table[i].out);
    const struct {
        const char *name;
        void *out;
    } driver[] = {{"cuModuleLoadDataEx", &cuda.load}, {"cuModuleUnload", &cuda.unload}, {"cuModuleGetFunction", &cuda.function},
                  {"cuFuncSetAttribute", &cuda.set}, {"cuLaunchKernel", &cuda.launch}, {"cuTensorMapEncodeTiled", &cuda.map_tiled},
                  {"cuTensorMapEncodeIm2col", &cuda.map_im2col}};
    for (size_t i = 0; good && i < GY_COUNT(driver); i++) {
        void *symbol = NULL;
        good &= T_CHECK(cuda.entry(driver[i].name, &symbol, 0, NULL) == 0 && symbol);
        memcpy(driver[i].out, &symbol, sizeof symbol);
    }
    return good;
}

/* ---- kernels ---- */

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = calloc(1, 200000);
    if (text)
        text[fread(text, 1, 199999, f)] = 0;
    fclose(f);
    return text;
}

static const char *const header_names[] = {"prelude.cuh", "op_device.h", "args.h", "element.cuh"};

/* Compiles a file of kernels. Returns the module, or NULL with the log printed; quiet: errors are
 * expected, the log is not printed. */
static void *compile(const char *path, const char *const *option, int options, int quiet, char *log, size_t log_bytes)
{
    char *source = read_text(path), *header[4] = {read_text("kernels/cuda/prelude.cuh"), read_text("kernels/op_device.h"),
                                                  read_text("kernels/cuda/args.h"), read_text("kernels/cuda/element.cuh")};
    void *program = NULL, *module = NULL;
    size_t bytes = 0;
    const char *texts[4];
    memcpy(texts, header, sizeof texts);
    if (source && header[3] && cuda.create(&program, source, path, 4, texts, header_names) == 0) {
        const int status = cuda.compile(program, options, option);
        cuda.log_size(program, &bytes);
        char *text = calloc(1, bytes + 1);
        if (text)
            cuda.log(program, text);
        if (log && text)
            snprintf(log, log_bytes, "%s", text);
        if (text && text[0] && !quiet)
            printf("%s\n", text);
        free(text);
        if (status == 0 && cuda.cubin_size(program, &bytes) == 0) {
            char *image = calloc(1, bytes);
            if (image && cuda.cubin(program, image) == 0)
                cuda.load(&module, image, 0, NULL, NULL);
            free(image);
        }
    }
    if (program)
        cuda.destroy(&program);
    free(source);
    for (int i = 0; i < 4; i++)
        free(header[i]);
    return module;
}

struct run {
    struct gy_args args;
    unsigned grid[3], threads, shared;
    void *stream;
};

static int launch(void *module, const char *name, struct run *run)
{
    void *function = NULL;
    if (cuda.function(&function, module, name) != 0)
        return -1;
    if (run->shared > 48 * 1024)
        cuda.set(function, 8, (int)run->shared);
    void *parameters[1] = {&run->args};
    return cuda.launch(function, run->grid[0], run->grid[1], run->grid[2], run->threads, 1, 1, run->shared, run->stream, parameters,
                       NULL);
}

static void *device_of(const void *data, size_t bytes)
{
    void *p = NULL;
    T_CHECK(cuda.malloc(&p, bytes) == 0 && p);
    if (data)
        T_CHECK(cuda.copy(p, data, bytes, 1, NULL) == 0);
    return p;
}

/* Small whole numbers: every sum is exact, in f16 and in bf16. */
static uint16_t half_of(int value, int bf16)
{
    const float v = (float)value;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (bf16)
        return (uint16_t)(bits >> 16);
    return value == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000u) | (((bits & 0x7fffffffu) - (112u << 23)) >> 13));
}

#endif
