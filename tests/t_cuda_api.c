/* SPDX-License-Identifier: MIT */
/* t_cuda_api.c: Gyre's mirror of CUDA's declarations beside the toolkit's own headers, where these
 * are installed. Numbers and sizes are the same, and every function has the same parameters and
 * result. Nothing is linked or called. run_headers.sh compiles it beside the headers of other
 * versions, on the search path (CAPI_ON_PATH). */
#include "kernels/cuda/api.h"
#include "tests/t.h"

#ifdef CAPI_ON_PATH
#define CAPI_HEADERS 1
#elif defined(__has_include) && (defined(__x86_64__) || defined(__aarch64__))
#if __has_include("/usr/local/cuda/include/cuda_runtime_api.h") && __has_include("/usr/local/cuda/include/cuda.h") && \
    __has_include("/usr/local/cuda/include/nvrtc.h")
#define CAPI_HEADERS 1
#endif
#endif

#ifdef CAPI_HEADERS
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wpointer-arith"
#ifdef CAPI_ON_PATH
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>
#else
#include "/usr/local/cuda/include/cuda.h"
#include "/usr/local/cuda/include/cuda_runtime_api.h"
#include "/usr/local/cuda/include/nvrtc.h"
#endif
#pragma GCC diagnostic pop
#pragma GCC diagnostic ignored "-Wunused-local-typedefs" /* not every table uses every name */

/* Tensor maps came with 12.0. */
#if CUDA_VERSION >= 12000
#define CAPI_MAP_TYPES(TYPE)                                                                      \
    TYPE(a_map, struct gy_tensor_map, CUtensorMap)                                                \
    TYPE(a_type, int, CUtensorMapDataType)                                                        \
    TYPE(a_interleave, int, CUtensorMapInterleave)                                                \
    TYPE(a_swizzle, int, CUtensorMapSwizzle)                                                      \
    TYPE(a_promotion, int, CUtensorMapL2promotion)                                                \
    TYPE(a_fill, int, CUtensorMapFloatOOBfill)
#define CAPI_MAPS(ROW)                                                                            \
    ROW(dr_map_tiled, cuTensorMapEncodeTiled, a_status, (a_map *, a_type, unsigned, void *, const a_u64 *, \
        const a_u64 *, const a_u32 *, const a_u32 *, a_interleave, a_swizzle, a_promotion, a_fill)) \
    ROW(dr_map_im2col, cuTensorMapEncodeIm2col, a_status, (a_map *, a_type, unsigned, void *, const a_u64 *, \
        const a_u64 *, const int *, const int *, a_u32, a_u32, const a_u32 *, a_interleave, a_swizzle, a_promotion, \
        a_fill))
#else
#define CAPI_MAP_TYPES(TYPE)
#define CAPI_MAPS(ROW)
#endif

/* Types that both call by names of their own: (name here, ours, CUDA's). */
#define CAPI_TYPES(TYPE)                                                                                               \
    TYPE(a_stream, gy_cuda_stream, cudaStream_t)                                                                       \
    TYPE(a_event, gy_cuda_event, cudaEvent_t)                                                                          \
    TYPE(a_graph, gy_cuda_graph, cudaGraph_t)                                                                          \
    TYPE(a_exec, gy_cuda_exec, cudaGraphExec_t)                                                                        \
    TYPE(a_module, gy_cuda_module, CUmodule)                                                                           \
    TYPE(a_function, gy_cuda_function, CUfunction)                                                                     \
    TYPE(a_program, gy_nvrtc_program, nvrtcProgram)                                                                    \
    TYPE(a_device, int, CUdevice)                                                                                      \
    TYPE(a_u64, uint64_t, cuuint64_t)                                                                                  \
    TYPE(a_u32, uint32_t, cuuint32_t)                                                                                  \
    TYPE(a_text, const char *, const char *)                                                                           \
    TYPE(a_attribute, int, enum cudaDeviceAttr)                                                                        \
    TYPE(a_copy, int, enum cudaMemcpyKind)                                                                             \
    TYPE(a_capture, int, enum cudaStreamCaptureMode)                                                                   \
    TYPE(a_option, int, CUjit_option)                                                                                  \
    TYPE(a_function_attribute, int, CUfunction_attribute)                                                              \
    CAPI_MAP_TYPES(TYPE)

/* Functions: (ours, CUDA's, result, parameters). */
#define CAPI_RUNTIME(ROW)                                                                                              \
    ROW(rt_runtime_version, cudaRuntimeGetVersion, a_status, (int *))                                                  \
    ROW(rt_driver_version, cudaDriverGetVersion, a_status, (int *))                                                    \
    ROW(rt_device_count, cudaGetDeviceCount, a_status, (int *))                                                        \
    ROW(rt_set_device, cudaSetDevice, a_status, (int))                                                                 \
    ROW(rt_device_attribute, cudaDeviceGetAttribute, a_status, (int *, a_attribute, int))                              \
    ROW(rt_mem_info, cudaMemGetInfo, a_status, (size_t *, size_t *))                                                   \
    ROW(rt_malloc, cudaMalloc, a_status, (void **, size_t))                                                            \
    ROW(rt_free, cudaFree, a_status, (void *))                                                                         \
    ROW(rt_malloc_host, cudaMallocHost, a_status, (void **, size_t))                                                   \
    ROW(rt_free_host, cudaFreeHost, a_status, (void *))                                                                \
    ROW(rt_host_register, cudaHostRegister, a_status, (void *, size_t, unsigned))                                      \
    ROW(rt_host_unregister, cudaHostUnregister, a_status, (void *))                                                    \
    ROW(rt_memcpy_async, cudaMemcpyAsync, a_status, (void *, const void *, size_t, a_copy, a_stream))                  \
    ROW(rt_memset_async, cudaMemsetAsync, a_status, (void *, int, size_t, a_stream))                                   \
    ROW(rt_stream_create, cudaStreamCreateWithFlags, a_status, (a_stream *, unsigned))                                 \
    ROW(rt_stream_destroy, cudaStreamDestroy, a_status, (a_stream))                                                    \
    ROW(rt_stream_synchronize, cudaStreamSynchronize, a_status, (a_stream))                                            \
    ROW(rt_stream_wait_event, cudaStreamWaitEvent, a_status, (a_stream, a_event, unsigned))                            \
    ROW(rt_event_create, cudaEventCreateWithFlags, a_status, (a_event *, unsigned))                                    \
    ROW(rt_event_destroy, cudaEventDestroy, a_status, (a_event))                                                       \
    ROW(rt_event_record, cudaEventRecord, a_status, (a_event, a_stream))                                               \
    ROW(rt_event_record_flags, cudaEventRecordWithFlags, a_status, (a_event, a_stream, unsigned))                      \
    ROW(rt_event_synchronize, cudaEventSynchronize, a_status, (a_event))                                               \
    ROW(rt_event_query, cudaEventQuery, a_status, (a_event))                                                           \
    ROW(rt_event_elapsed, cudaEventElapsedTime, a_status, (float *, a_event, a_event))                                 \
    ROW(rt_capture_begin, cudaStreamBeginCapture, a_status, (a_stream, a_capture))                                     \
    ROW(rt_capture_end, cudaStreamEndCapture, a_status, (a_stream, a_graph *))                                         \
    ROW(rt_graph_instantiate, cudaGraphInstantiateWithFlags, a_status, (a_exec *, a_graph, unsigned long long))        \
    ROW(rt_graph_launch, cudaGraphLaunch, a_status, (a_exec, a_stream))                                                \
    ROW(rt_graph_destroy, cudaGraphDestroy, a_status, (a_graph))                                                       \
    ROW(rt_exec_destroy, cudaGraphExecDestroy, a_status, (a_exec))                                                     \
    ROW(rt_last_error, cudaGetLastError, a_status, (void))                                                             \
    ROW(rt_error_text, cudaGetErrorString, a_text, (a_status))                                                         \
    ROW(rt_error_name, cudaGetErrorName, a_text, (a_status))
#define CAPI_DRIVER(ROW)                                                                                               \
    ROW(dr_module_load, cuModuleLoadDataEx, a_status, (a_module *, const void *, unsigned, a_option *, void **))       \
    ROW(dr_module_unload, cuModuleUnload, a_status, (a_module))                                                        \
    ROW(dr_module_function, cuModuleGetFunction, a_status, (a_function *, a_module, const char *))                     \
    ROW(dr_function_get, cuFuncGetAttribute, a_status, (int *, a_function_attribute, a_function))                      \
    ROW(dr_function_set, cuFuncSetAttribute, a_status, (a_function, a_function_attribute, int))                        \
    ROW(dr_launch_kernel, cuLaunchKernel, a_status, (a_function, unsigned, unsigned, unsigned, unsigned,               \
        unsigned, unsigned, unsigned, a_stream, void **, void **))                                                     \
    ROW(dr_occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, a_status, (int *, a_function, int, size_t))         \
    ROW(dr_device_name, cuDeviceGetName, a_status, (char *, int, a_device))                                            \
    ROW(dr_error_text, cuGetErrorString, a_status, (a_status, const char **))                                          \
    CAPI_MAPS(ROW)
#define CAPI_NVRTC(ROW)                                                                                                \
    ROW(nv_version, nvrtcVersion, a_status, (int *, int *))                                                            \
    ROW(nv_create, nvrtcCreateProgram, a_status, (a_program *, const char *, const char *, int,                        \
        const char *const *, const char *const *))                                                                     \
    ROW(nv_destroy, nvrtcDestroyProgram, a_status, (a_program *))                                                      \
    ROW(nv_compile, nvrtcCompileProgram, a_status, (a_program, int, const char *const *))                              \
    ROW(nv_log_size, nvrtcGetProgramLogSize, a_status, (a_program, size_t *))                                          \
    ROW(nv_log, nvrtcGetProgramLog, a_status, (a_program, char *))                                                     \
    ROW(nv_cubin_size, nvrtcGetCUBINSize, a_status, (a_program, size_t *))                                             \
    ROW(nv_cubin, nvrtcGetCUBIN, a_status, (a_program, char *))                                                        \
    ROW(nv_ptx_size, nvrtcGetPTXSize, a_status, (a_program, size_t *))                                                 \
    ROW(nv_ptx, nvrtcGetPTX, a_status, (a_program, char *))                                                            \
    ROW(nv_error_text, nvrtcGetErrorString, a_text, (a_status))

#define CAPI_OUR_TYPE(name, ours, theirs) typedef ours name;
#define CAPI_THEIR_TYPE(name, ours, theirs) typedef theirs name;
#define CAPI_TYPE_SAME(name, ours, theirs) T_CHECK(sizeof(ours) == sizeof(theirs));
#define CAPI_OURS(ours, theirs, result, parameters) T_CHECK(_Generic(((struct gy_cuda_api *)NULL)->ours, result (*) parameters: 1, default: 0));
#define CAPI_THEIRS(ours, theirs, result, parameters) T_CHECK(_Generic(&theirs, result (*) parameters: 1, default: 0));
#define CAPI_ONE(ours, theirs, result, parameters) +1

static void capi_numbers(void)
{
    T_CHECK((int)GY_CUDA_TO_DEVICE == (int)cudaMemcpyHostToDevice && (int)GY_CUDA_TO_HOST == (int)cudaMemcpyDeviceToHost);
    T_CHECK((int)GY_CUDA_ON_DEVICE == (int)cudaMemcpyDeviceToDevice && (int)GY_CUDA_STREAM_NON_BLOCKING == cudaStreamNonBlocking);
    T_CHECK((int)GY_CUDA_EVENT_NO_TIMING == cudaEventDisableTiming && (int)GY_CUDA_NOT_READY == (int)cudaErrorNotReady);
    T_CHECK((int)GY_CUDA_NOT_READY == (int)CUDA_ERROR_NOT_READY && (int)GY_CUDA_CAPTURE_RELAXED == (int)cudaStreamCaptureModeRelaxed);
    T_CHECK((int)GY_CUDA_CLOCK_RATE == (int)cudaDevAttrClockRate && (int)GY_CUDA_PROCESSORS == (int)cudaDevAttrMultiProcessorCount);
    T_CHECK((int)GY_CUDA_MAJOR == (int)cudaDevAttrComputeCapabilityMajor);
    T_CHECK((int)GY_CUDA_MINOR == (int)cudaDevAttrComputeCapabilityMinor && (int)GY_CUDA_L2_BYTES == (int)cudaDevAttrL2CacheSize);
    T_CHECK((int)GY_CUDA_SHARED_MOST == (int)cudaDevAttrMaxSharedMemoryPerBlockOptin);
    T_CHECK((int)GY_CUDA_FUNCTION_SHARED == (int)CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    T_CHECK((int)GY_CUDA_FUNCTION_LOCAL == (int)CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    T_CHECK((int)GY_CUDA_FUNCTION_REGISTERS == (int)CU_FUNC_ATTRIBUTE_NUM_REGS);
    T_CHECK((int)GY_CUDA_FUNCTION_DYNAMIC_SHARED == (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    T_CHECK((int)NVRTC_ERROR_INVALID_OPTION == 5);
    T_CHECK(sizeof(cudaError_t) == sizeof(gy_cuda_error) && sizeof(CUresult) == sizeof(gy_cuda_error) &&
            sizeof(nvrtcResult) == sizeof(gy_cuda_error));
    T_CHECK(sizeof(cudaStream_t) == sizeof(gy_cuda_stream) && sizeof(CUmodule) == sizeof(gy_cuda_module) &&
            sizeof(cudaGraphExec_t) == sizeof(gy_cuda_exec) && sizeof(CUdevice) == sizeof(int));
}

static void capi_maps(void)
{
#if CUDA_VERSION >= 12000
    T_CHECK((int)CU_TENSOR_MAP_DATA_TYPE_FLOAT32 == 7 && (int)CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 == 9);
    T_CHECK((int)CU_TENSOR_MAP_L2_PROMOTION_L2_128B == 2 && (int)CU_TENSOR_MAP_INTERLEAVE_NONE == 0);
    T_CHECK((int)CU_TENSOR_MAP_SWIZZLE_32B == 1 && (int)CU_TENSOR_MAP_SWIZZLE_64B == 2 && (int)CU_TENSOR_MAP_SWIZZLE_128B == 3);
    T_CHECK((int)CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE == 0);
    T_CHECK(sizeof(CUtensorMap) == sizeof(struct gy_tensor_map) && _Alignof(CUtensorMap) <= _Alignof(struct gy_tensor_map));
#endif
}

/* Where a table's names mean our types, each row has the type of our pointer. Where they mean
 * CUDA's, it has the type of CUDA's function. So number, width and order of the parameters
 * agree. */
static void capi_ours(void)
{
    typedef gy_cuda_error a_status;
    CAPI_TYPES(CAPI_OUR_TYPE)
    CAPI_RUNTIME(CAPI_OURS)
    CAPI_DRIVER(CAPI_OURS)
    CAPI_NVRTC(CAPI_OURS)
    const int rows = 0 CAPI_RUNTIME(CAPI_ONE) CAPI_DRIVER(CAPI_ONE) CAPI_NVRTC(CAPI_ONE);
    const int maps = 0 CAPI_MAPS(CAPI_ONE);
    /* the rows cover every pointer */
    T_CHECK((size_t)(rows + 2 - maps) * sizeof(void (*)(void)) == sizeof(struct gy_cuda_api));
    CAPI_TYPES(CAPI_TYPE_SAME)
}

static void capi_runtime(void)
{
    typedef cudaError_t a_status;
    CAPI_TYPES(CAPI_THEIR_TYPE)
    CAPI_RUNTIME(CAPI_THEIRS)
}

static void capi_driver(void)
{
    typedef CUresult a_status;
    CAPI_TYPES(CAPI_THEIR_TYPE)
    CAPI_DRIVER(CAPI_THEIRS)
}

static void capi_nvrtc(void)
{
    typedef nvrtcResult a_status;
    CAPI_TYPES(CAPI_THEIR_TYPE)
    CAPI_NVRTC(CAPI_THEIRS)
}
#endif

int main(void)
{
#ifdef CAPI_HEADERS
    printf("CUDA %d.%d\n", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    capi_numbers();
    capi_maps();
    capi_ours();
    capi_runtime();
    capi_driver();
    capi_nvrtc();
#else
    T_SKIP("no CUDA headers in /usr/local/cuda/include");
#endif
    T_END("t_cuda_api");
}
