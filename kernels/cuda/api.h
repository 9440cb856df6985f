/* SPDX-License-Identifier: MIT */
/* api.h: the declarations of CUDA's runtime, driver and NVRTC that Gyre uses, mirrored here. So no
 * toolkit is needed to build; tests/t_cuda_api.c checks them against the toolkit's headers where
 * these are. Nothing is linked: load.c opens the libraries and fills the table, struct
 * gy_cuda_library. The backend's files and tools/lab/device_count.c call through it. Names are
 * CUDA's own without the prefix (cudaMalloc is rt_malloc, cuLaunchKernel is dr_launch_kernel).
 * Versions: runtime and NVRTC 11.8 to 13.x. */
#ifndef GY_CUDA_API_H
#define GY_CUDA_API_H
#include "engine/base/base.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "kernels/op.h"
#include "kernels/cuda/args.h"
#ifndef GY_NO_CUDA

typedef int gy_cuda_error;                    /* cudaError_t, CUresult, nvrtcResult: 0 is success */
typedef struct gy_cuda_stream_t *gy_cuda_stream;
typedef struct gy_cuda_event_t *gy_cuda_event;
typedef struct gy_cuda_graph_t *gy_cuda_graph;
typedef struct gy_cuda_exec_t *gy_cuda_exec;  /* an instantiated graph */
typedef struct gy_cuda_module_t *gy_cuda_module;
typedef struct gy_cuda_function_t *gy_cuda_function;
typedef struct gy_nvrtc_program_t *gy_nvrtc_program;

/* Values of CUDA's enumerations. */
enum { GY_CUDA_TO_DEVICE = 1, GY_CUDA_TO_HOST = 2, GY_CUDA_ON_DEVICE = 3 };  /* cudaMemcpyKind */
enum { GY_CUDA_STREAM_NON_BLOCKING = 1, GY_CUDA_EVENT_NO_TIMING = 2, GY_CUDA_EVENT_EXTERNAL = 1, GY_CUDA_NOT_READY = 600 };
enum { GY_CUDA_CAPTURE_RELAXED = 2 }; /* cudaStreamCaptureMode */
enum {                                /* cudaDeviceAttr, CUdevice_attribute */
    GY_CUDA_CLOCK_RATE = 13, GY_CUDA_PROCESSORS = 16, GY_CUDA_MAJOR = 75, GY_CUDA_MINOR = 76, GY_CUDA_SHARED_MOST = 97,
    GY_CUDA_L2_BYTES = 38
};
enum { GY_CUDA_FUNCTION_SHARED = 1, GY_CUDA_FUNCTION_LOCAL = 3, GY_CUDA_FUNCTION_REGISTERS = 4,
       GY_CUDA_FUNCTION_DYNAMIC_SHARED = 8 }; /* CUfunction_attribute */

struct gy_cuda_api {
    /* runtime */
    gy_cuda_error (*rt_runtime_version)(int *version);
    gy_cuda_error (*rt_driver_version)(int *version);
    gy_cuda_error (*rt_device_count)(int *count);
    gy_cuda_error (*rt_set_device)(int device);
    gy_cuda_error (*rt_device_attribute)(int *value, int attribute, int device);
    gy_cuda_error (*rt_mem_info)(size_t *free, size_t *total);
    gy_cuda_error (*rt_malloc)(void **ptr, size_t bytes);
    gy_cuda_error (*rt_free)(void *ptr);
    gy_cuda_error (*rt_malloc_host)(void **ptr, size_t bytes);
    gy_cuda_error (*rt_free_host)(void *ptr);
    gy_cuda_error (*rt_host_register)(void *ptr, size_t bytes, unsigned flags);
    gy_cuda_error (*rt_host_unregister)(void *ptr);
    gy_cuda_error (*rt_memcpy_async)(void *dst, const void *src, size_t bytes, int kind, gy_cuda_stream stream);
    gy_cuda_error (*rt_memset_async)(void *dst, int value, size_t bytes, gy_cuda_stream stream);
    gy_cuda_error (*rt_stream_create)(gy_cuda_stream *stream, unsigned flags);
    gy_cuda_error (*rt_stream_destroy)(gy_cuda_stream stream);
    gy_cuda_error (*rt_stream_synchronize)(gy_cuda_stream stream);
    gy_cuda_error (*rt_stream_wait_event)(gy_cuda_stream stream, gy_cuda_event event, unsigned flags);
    gy_cuda_error (*rt_event_create)(gy_cuda_event *event, unsigned flags);
    gy_cuda_error (*rt_event_destroy)(gy_cuda_event event);
    gy_cuda_error (*rt_event_record)(gy_cuda_event event, gy_cuda_stream stream);
    gy_cuda_error (*rt_event_record_flags)(gy_cuda_event event, gy_cuda_stream stream, unsigned flags);
    gy_cuda_error (*rt_event_synchronize)(gy_cuda_event event);
    gy_cuda_error (*rt_event_query)(gy_cuda_event event);
    gy_cuda_error (*rt_event_elapsed)(float *milliseconds, gy_cuda_event begin, gy_cuda_event end);
    gy_cuda_error (*rt_capture_begin)(gy_cuda_stream stream, int mode);
    gy_cuda_error (*rt_capture_end)(gy_cuda_stream stream, gy_cuda_graph *graph);
    gy_cuda_error (*rt_graph_instantiate)(gy_cuda_exec *exec, gy_cuda_graph graph, unsigned long long flags);
    gy_cuda_error (*rt_graph_launch)(gy_cuda_exec exec, gy_cuda_stream stream);
    gy_cuda_error (*rt_graph_destroy)(gy_cuda_graph graph);
    gy_cuda_error (*rt_exec_destroy)(gy_cuda_exec exec);
    gy_cuda_error (*rt_last_error)(void);
    const char *(*rt_error_text)(gy_cuda_error error);
    const char *(*rt_error_name)(gy_cuda_error error);
    /* driver, by cudaGetDriverEntryPoint */
    gy_cuda_error (*dr_module_load)(gy_cuda_module *module, const void *image, unsigned options, int *names, void **values);
    gy_cuda_error (*dr_module_unload)(gy_cuda_module module);
    gy_cuda_error (*dr_module_function)(gy_cuda_function *function, gy_cuda_module module, const char *name);
    gy_cuda_error (*dr_function_get)(int *value, int attribute, gy_cuda_function function);
    gy_cuda_error (*dr_function_set)(gy_cuda_function function, int attribute, int value);
    gy_cuda_error (*dr_launch_kernel)(gy_cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                      unsigned block_y, unsigned block_z, unsigned shared, gy_cuda_stream stream, void **parameters,
                                      void **extra);
    gy_cuda_error (*dr_occupancy)(int *blocks, gy_cuda_function function, int threads, size_t shared);
    gy_cuda_error (*dr_device_name)(char *name, int bytes, int device);
    gy_cuda_error (*dr_error_text)(gy_cuda_error error, const char **text);
    gy_cuda_error (*dr_map_tiled)(struct gy_tensor_map *map, int type, unsigned rank, void *address, const uint64_t *sizes,
                                  const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, int interleave,
                                  int swizzle, int l2, int fill); /* maps: NULL before 12.0 */
    gy_cuda_error (*dr_map_im2col)(struct gy_tensor_map *map, int type, unsigned rank, void *address, const uint64_t *sizes,
                                   const uint64_t *strides, const int *lower, const int *upper, uint32_t channels, uint32_t pixels,
                                   const uint32_t *element_strides, int interleave, int swizzle, int l2, int fill);
    /* NVRTC: all NULL when only compiled kernels are used */
    gy_cuda_error (*nv_version)(int *major, int *minor);
    gy_cuda_error (*nv_create)(gy_nvrtc_program *program, const char *source, const char *name, int headers,
                               const char *const *header_sources, const char *const *header_names);
    gy_cuda_error (*nv_destroy)(gy_nvrtc_program *program);
    gy_cuda_error (*nv_compile)(gy_nvrtc_program program, int options, const char *const *option);
    gy_cuda_error (*nv_log_size)(gy_nvrtc_program program, size_t *bytes);
    gy_cuda_error (*nv_log)(gy_nvrtc_program program, char *log);
    gy_cuda_error (*nv_cubin_size)(gy_nvrtc_program program, size_t *bytes);
    gy_cuda_error (*nv_cubin)(gy_nvrtc_program program, char *cubin);
    gy_cuda_error (*nv_ptx_size)(gy_nvrtc_program program, size_t *bytes);
    gy_cuda_error (*nv_ptx)(gy_nvrtc_program program, char *ptx);
    const char *(*nv_error_text)(gy_cuda_error error);
};

/* Opened libraries; closed in reverse. */
struct gy_cuda_library {
    struct gy_cuda_api api;
    void *runtime, *nvrtc;        /* handles of dlopen */
    char runtime_name[256], nvrtc_name[256];
    /* 13000 is 13.0; NVRTC 0: not opened */
    int runtime_version, driver_version, nvrtc_major, nvrtc_minor;
    int emulated;                 /* the emulator is all of them */
};

/* load.c. Opens the runtime, and finds the driver's functions through it. where: a folder to look
 * into first (a knob's value), or NULL. emulated: opens the emulator's library of that path and
 * nothing else. GY_E_UNSUPPORTED: one sentence names what was looked for and where. */
GY_INT int gy_cuda_load(struct gy_cuda_library *out, const char *where, const char *emulated, const struct gy_log *log,
                        struct gy_error *err);
/* Opens NVRTC, on the first variant that no cache holds. */
GY_INT int gy_cuda_load_compiler(struct gy_cuda_library *lib, const char *where, const struct gy_log *log, struct gy_error *err);
GY_INT void gy_cuda_unload(struct gy_cuda_library *lib);

#endif
#endif
