/* SPDX-License-Identifier: MIT */
/* load.c: opens CUDA's runtime and NVRTC with dlopen and fills the table of functions. The driver's
 * functions come through the runtime. So nothing is linked, and one binary serves machines with and
 * without a GPU. Places are tried in a fixed order. Where the driver is too old for a runtime, an
 * older runtime is tried. cuda_backend.c calls it when it opens, compile.c for NVRTC. */
#include "kernels/cuda/api.h"
#ifndef GY_NO_CUDA
#include <dlfcn.h>
#include <glob.h>

/* Folders after the one that the user named. "" is the system's own search. Patterns are folders of
 * PyPI's packages. */
static const char *const load_places[] = {
    "",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/cu1[0-9]/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/cuda_*/lib",
    "/usr/lib/python3/dist-packages/nvidia/cuda_*/lib",
};
/* Under the folder of a Python environment ($VIRTUAL_ENV, $CONDA_PREFIX, ~/.local). */
static const char *const load_python[] = {
    "/lib/python3*/site-packages/nvidia/cu1[0-9]/lib",
    "/lib/python3*/site-packages/nvidia/cuda_*/lib",
    "/lib",
};
/* under the folder that the user named */
static const char *const load_named[] = { "", "/lib64", "/lib" };

static const char *const load_runtime_names[] = { "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so" };
static const char *const load_nvrtc_names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so" };

/* The libraries stay in the process once they are there: they keep threads and memory of their
 * own. */
#ifdef RTLD_NODELETE
#define LOAD_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)
#else
#define LOAD_FLAGS (RTLD_NOW | RTLD_LOCAL)
#endif

struct load_symbol {
    const char *name;
    size_t at; /* in struct gy_cuda_api */
};
#define LOAD_AT(member, name) { name, offsetof(struct gy_cuda_api, member) }

static const struct load_symbol load_runtime[] = {
    LOAD_AT(rt_runtime_version, "cudaRuntimeGetVersion"), LOAD_AT(rt_driver_version, "cudaDriverGetVersion"),
    LOAD_AT(rt_device_count, "cudaGetDeviceCount"), LOAD_AT(rt_set_device, "cudaSetDevice"),
    LOAD_AT(rt_device_attribute, "cudaDeviceGetAttribute"), LOAD_AT(rt_mem_info, "cudaMemGetInfo"),
    LOAD_AT(rt_malloc, "cudaMalloc"), LOAD_AT(rt_free, "cudaFree"), LOAD_AT(rt_malloc_host, "cudaMallocHost"),
    LOAD_AT(rt_host_register, "cudaHostRegister"), LOAD_AT(rt_host_unregister, "cudaHostUnregister"),
    LOAD_AT(rt_free_host, "cudaFreeHost"), LOAD_AT(rt_memcpy_async, "cudaMemcpyAsync"),
    LOAD_AT(rt_memset_async, "cudaMemsetAsync"), LOAD_AT(rt_stream_create, "cudaStreamCreateWithFlags"),
    LOAD_AT(rt_stream_destroy, "cudaStreamDestroy"), LOAD_AT(rt_stream_synchronize, "cudaStreamSynchronize"),
    LOAD_AT(rt_stream_wait_event, "cudaStreamWaitEvent"), LOAD_AT(rt_event_create, "cudaEventCreateWithFlags"),
    LOAD_AT(rt_event_destroy, "cudaEventDestroy"), LOAD_AT(rt_event_record, "cudaEventRecord"),
    LOAD_AT(rt_event_record_flags, "cudaEventRecordWithFlags"), LOAD_AT(rt_event_synchronize, "cudaEventSynchronize"),
    LOAD_AT(rt_event_query, "cudaEventQuery"), LOAD_AT(rt_event_elapsed, "cudaEventElapsedTime"),
    LOAD_AT(rt_capture_begin, "cudaStreamBeginCapture"), LOAD_AT(rt_capture_end, "cudaStreamEndCapture"),
    LOAD_AT(rt_graph_instantiate, "cudaGraphInstantiateWithFlags"), LOAD_AT(rt_graph_launch, "cudaGraphLaunch"),
    LOAD_AT(rt_graph_destroy, "cudaGraphDestroy"), LOAD_AT(rt_exec_destroy, "cudaGraphExecDestroy"),
    LOAD_AT(rt_last_error, "cudaGetLastError"), LOAD_AT(rt_error_text, "cudaGetErrorString"),
    LOAD_AT(rt_error_name, "cudaGetErrorName"),
};
static const struct load_symbol load_driver[] = {
    LOAD_AT(dr_module_load, "cuModuleLoadDataEx"), LOAD_AT(dr_module_unload, "cuModuleUnload"),
    LOAD_AT(dr_module_function, "cuModuleGetFunction"), LOAD_AT(dr_function_get, "cuFuncGetAttribute"),
    LOAD_AT(dr_function_set, "cuFuncSetAttribute"), LOAD_AT(dr_launch_kernel, "cuLaunchKernel"),
    LOAD_AT(dr_occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor"), LOAD_AT(dr_device_name, "cuDeviceGetName"),
    LOAD_AT(dr_error_text, "cuGetErrorString"),
};
/* Absent before 12.0. */
static const struct load_symbol load_driver_late[] = {
    LOAD_AT(dr_map_tiled, "cuTensorMapEncodeTiled"), LOAD_AT(dr_map_im2col, "cuTensorMapEncodeIm2col"),
};
static const struct load_symbol load_nvrtc[] = {
    LOAD_AT(nv_version, "nvrtcVersion"), LOAD_AT(nv_create, "nvrtcCreateProgram"), LOAD_AT(nv_destroy, "nvrtcDestroyProgram"),
    LOAD_AT(nv_compile, "nvrtcCompileProgram"), LOAD_AT(nv_log_size, "nvrtcGetProgramLogSize"),
    LOAD_AT(nv_log, "nvrtcGetProgramLog"), LOAD_AT(nv_cubin_size, "nvrtcGetCUBINSize"), LOAD_AT(nv_cubin, "nvrtcGetCUBIN"),
    LOAD_AT(nv_ptx_size, "nvrtcGetPTXSize"), LOAD_AT(nv_ptx, "nvrtcGetPTX"), LOAD_AT(nv_error_text, "nvrtcGetErrorString"),
};

/* Puts a function's address into the table as bytes: C has no cast between the two kinds of
 * pointer. */
static void load_put(struct gy_cuda_api *api, size_t at, void *address) { memcpy((unsigned char *)api + at, &address, sizeof address); }

static int load_symbols(struct gy_cuda_api *api, void *library, const char *path, const struct load_symbol *list, size_t count,
                        struct gy_error *err)
{
    for (size_t i = 0; i < count; i++) {
        void *const address = dlsym(library, list[i].name);
        if (!address)
            return GY_FAIL(err, GY_E_NODEVICE, "%s has no function %s; Gyre works with CUDA 11.8 to 13", path, list[i].name);
        load_put(api, list[i].at, address);
    }
    return GY_OK;
}

/* The driver's functions. Before CUDA 12.5 a symbol's version cannot be asked for; later it must
 * be. */
struct load_finder {
    int (*plain)(const char *symbol, void **out, unsigned long long flags, int *found);
    int (*versioned)(const char *symbol, void **out, unsigned version, unsigned long long flags, int *found);
};

static void *load_driver_symbol(const struct load_finder *find, const char *name, unsigned version)
{
    void *address = NULL;
    int found = 0;
    int status = find->versioned ? find->versioned(name, &address, version, 0, &found) : 1;
    if ((status != 0 || !address) && find->plain)
        status = find->plain(name, &address, 0, &found);
    return status == 0 ? address : NULL;
}

static int load_driver_symbols(struct gy_cuda_library *lib, struct gy_error *err)
{
    struct load_finder find = { NULL, NULL };
    void *symbol = dlsym(lib->runtime, "cudaGetDriverEntryPoint");
    memcpy(&find.plain, &symbol, sizeof symbol);
    symbol = dlsym(lib->runtime, "cudaGetDriverEntryPointByVersion");
    memcpy(&find.versioned, &symbol, sizeof symbol);
    for (size_t i = 0; i < GY_COUNT(load_driver); i++) {
        void *const address = load_driver_symbol(&find, load_driver[i].name, 11080);
        if (!address)
            return GY_FAIL(err, GY_E_NODEVICE, "NVIDIA's driver has no function %s; it serves CUDA %d.%d, Gyre needs 11.8",
                           load_driver[i].name, lib->driver_version / 1000, lib->driver_version % 1000 / 10);
        load_put(&lib->api, load_driver[i].at, address);
    }
    for (size_t i = 0; i < GY_COUNT(load_driver_late); i++)
        load_put(&lib->api, load_driver_late[i].at, load_driver_symbol(&find, load_driver_late[i].name, 12000));
    return GY_OK;
}

/* ---- searching ---- */

/* What is looked for, and what was met on the way. */
struct load_search {
    const char *names[GY_COUNT(load_runtime_names)];
    /* GY_OK: this one */
    int (*take)(struct gy_cuda_library *lib, void *handle, const char *path, struct gy_error *err);
    struct gy_cuda_library *lib;
    int met;              /* libraries that could be opened */
    struct gy_error err;  /* of the first of them */
};

static int load_try(struct load_search *s, const char *path)
{
    struct gy_error err = { 0 };
    void *const handle = dlopen(path, LOAD_FLAGS);
    if (!handle)
        return 0;
    if (s->take(s->lib, handle, path, &err) == GY_OK)
        return 1;
    dlclose(handle);
    if (s->met++ == 0)
        s->err = err;
    return 0;
}

static int load_try_folder(struct load_search *s, const char *folder)
{
    char path[4096];
    for (size_t i = 0; i < GY_COUNT(s->names); i++) {
        const int bytes = snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", s->names[i]);
        if (bytes > 0 && (size_t)bytes < sizeof path && load_try(s, path))
            return 1;
    }
    return 0;
}

/* Every folder that the pattern root + below means. */
static int load_try_pattern(struct load_search *s, const char *root, const char *below)
{
    char pattern[4096];
    glob_t found;
    int taken = 0;
    const int bytes = snprintf(pattern, sizeof pattern, "%s%s", root, below);
    if (bytes < 0 || (size_t)bytes >= sizeof pattern)
        return 0;
    if (!strpbrk(pattern, "*?["))
        return load_try_folder(s, pattern);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !taken; i++)
            taken = load_try_folder(s, found.gl_pathv[i]);
    globfree(&found);
    return taken;
}

static int load_try_python(struct load_search *s)
{
    static const char *const roots[][2] = { { "VIRTUAL_ENV", "" }, { "CONDA_PREFIX", "" }, { "HOME", "/.local" } };
    char root[2048];
    for (size_t i = 0; i < GY_COUNT(roots); i++) {
        const char *const at = getenv(roots[i][0]);
        if (!at || !at[0] || snprintf(root, sizeof root, "%s%s", at, roots[i][1]) >= (int)sizeof root)
            continue;
        for (size_t k = 0; k < GY_COUNT(load_python); k++)
            if (load_try_pattern(s, root, load_python[k]))
                return 1;
    }
    return 0;
}

/* what: "the CUDA runtime". Without any library the sentence says where it was looked for. */
static int load_find(struct load_search *s, const char *where, const char *what, struct gy_error *err)
{
    for (size_t i = 0; where && where[0] && i < GY_COUNT(load_named); i++)
        if (load_try_pattern(s, where, load_named[i]))
            return GY_OK;
    for (size_t i = 0; i < GY_COUNT(load_places); i++)
        if (load_try_pattern(s, load_places[i], ""))
            return GY_OK;
    if (load_try_python(s))
        return GY_OK;
    if (s->met) {
        *err = s->err;
        return err->status;
    }
    return GY_FAIL(err, GY_E_NODEVICE, "%s was not found: looked for %s, %s, %s and %s in %s%sthe system's folders, /usr/local/cuda "
                   "and Python's packages; GYRE_CUDA_PATH names a folder to look into", what, s->names[0], s->names[1], s->names[2],
                   s->names[3], where && where[0] ? where : "", where && where[0] ? ", " : "");
}

/* ---- the runtime ---- */

/* Is there a driver and a device? */
static int load_check_device(const struct gy_cuda_library *lib, const char *path, struct gy_error *err)
{
    int count = 0;
    const gy_cuda_error status = lib->api.rt_device_count(&count);
    if (status == 0 && count > 0)
        return GY_OK;
    lib->api.rt_last_error();
    const int have = lib->driver_version, need = lib->runtime_version;
    if (have == 0)
        return GY_FAIL(err, GY_E_NODEVICE, "no NVIDIA driver: %s (CUDA %d.%d) was opened, but it found no libcuda.so.1 that works (%s)",
                       path, need / 1000, need % 1000 / 10, lib->api.rt_error_text(status));
    if (have / 1000 < need / 1000)
        return GY_FAIL(err, GY_E_NODEVICE, "the NVIDIA driver is too old: it serves CUDA %d.%d, %s is %d.%d", have / 1000,
                       have % 1000 / 10, path, need / 1000, need % 1000 / 10);
    return GY_FAIL(err, GY_E_NODEVICE, "no NVIDIA GPU: the driver (CUDA %d.%d) and %s are there, but %s", have / 1000, have % 1000 / 10,
                   path, status ? lib->api.rt_error_text(status) : "they list no device");
}

static int load_take_runtime(struct gy_cuda_library *lib, void *handle, const char *path, struct gy_error *err)
{
    struct gy_cuda_library new = { .runtime = handle };
    GY_TRY(load_symbols(&new.api, handle, path, load_runtime, GY_COUNT(load_runtime), err));
    gy_text_copy(new.runtime_name, sizeof new.runtime_name, path);
    if (new.api.rt_runtime_version(&new.runtime_version) != 0 || new.api.rt_driver_version(&new.driver_version) != 0)
        return GY_FAIL(err, GY_E_NODEVICE, "%s does not say its version", path);
    GY_TRY(load_check_device(&new, path, err));
    GY_TRY(load_driver_symbols(&new, err));
    *lib = new;
    return GY_OK;
}

static int load_take_nvrtc(struct gy_cuda_library *lib, void *handle, const char *path, struct gy_error *err)
{
    struct gy_cuda_api api = lib->api;
    int major = 0, minor = 0;
    GY_TRY(load_symbols(&api, handle, path, load_nvrtc, GY_COUNT(load_nvrtc), err));
    if (api.nv_version(&major, &minor) != 0)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s does not say its version", path);
    lib->api = api;
    lib->nvrtc = handle;
    lib->nvrtc_major = major;
    lib->nvrtc_minor = minor;
    gy_text_copy(lib->nvrtc_name, sizeof lib->nvrtc_name, path);
    return GY_OK;
}

static int load_emulator(struct gy_cuda_library *out, const char *path, struct gy_error *err)
{
    void *const handle = dlopen(path, LOAD_FLAGS);
    if (!handle)
        return GY_FAIL(err, GY_E_NODEVICE, "the emulator cannot be opened: %s", dlerror());
    const int status = load_take_runtime(out, handle, path, err);
    if (status != GY_OK)
        dlclose(handle);
    return status;
}

GY_INT int gy_cuda_load(struct gy_cuda_library *out, const char *where, const char *emulated, const struct gy_log *log,
                        struct gy_error *err)
{
    struct gy_cuda_library lib = { .runtime = NULL };
    if (emulated) {
        GY_TRY(load_emulator(&lib, emulated, err));
    } else {
        struct load_search s = { .take = load_take_runtime, .lib = &lib };
        memcpy(s.names, load_runtime_names, sizeof s.names);
        GY_TRY(load_find(&s, where, "the CUDA runtime", err));
    }
    gy_log_write(log, GY_LOG_DEBUG, "CUDA: %s, runtime %d.%d, driver %d.%d", lib.runtime_name, lib.runtime_version / 1000,
                 lib.runtime_version % 1000 / 10, lib.driver_version / 1000, lib.driver_version % 1000 / 10);
    *out = lib;
    out->emulated = emulated != NULL;
    return GY_OK;
}

/* Looks for the compiler of the runtime's own version first. A newer one may make code that is too
 * new for the driver. */
GY_INT int gy_cuda_load_compiler(struct gy_cuda_library *lib, const char *where, const struct gy_log *log, struct gy_error *err)
{
    struct load_search s = { .take = load_take_nvrtc, .lib = lib };
    if (lib->nvrtc_major)
        return GY_OK;
    if (lib->emulated) {
        GY_TRY(load_take_nvrtc(lib, lib->runtime, lib->runtime_name, err));
        lib->nvrtc = NULL; /* one library, closed once */
        return GY_OK;
    }
    const size_t count = GY_COUNT(load_nvrtc_names);
    const size_t first = lib->runtime_version == 0 ? 0 : lib->runtime_version < 12000 ? 2 : lib->runtime_version < 13000 ? 1 : 0;
    s.names[0] = load_nvrtc_names[first];
    for (size_t i = 0, at = 1; i < count; i++)
        if (i != first)
            s.names[at++] = load_nvrtc_names[i];
    GY_TRY(load_find(&s, where, "NVRTC, CUDA's compiler of kernels,", err));
    gy_log_write(log, GY_LOG_DEBUG, "CUDA: %s, NVRTC %d.%d", lib->nvrtc_name, lib->nvrtc_major, lib->nvrtc_minor);
    return GY_OK;
}

GY_INT void gy_cuda_unload(struct gy_cuda_library *lib)
{
    if (lib->nvrtc)
        dlclose(lib->nvrtc);
    if (lib->runtime)
        dlclose(lib->runtime);
    memset(lib, 0, sizeof *lib);
}

#endif
