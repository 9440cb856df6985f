/* SPDX-License-Identifier: MIT */
/* Gyre's mirror of CUDA's declarations beside the toolkit's own headers, where these are installed: the same numbers, the same sizes,
 * and every call that Gyre makes is one that the headers accept. Nothing is linked or called. */
#include "../kernels/cuda/api.h"
#include "t.h"

#if defined(__has_include) && (defined(__x86_64__) || defined(__aarch64__))
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
#include "/usr/local/cuda/include/cuda.h"
#include "/usr/local/cuda/include/cuda_runtime_api.h"
#include "/usr/local/cuda/include/nvrtc.h"
#pragma GCC diagnostic pop

static struct gy_cuda_api capi;

/* The same arguments to both: a difference in their number or in what is pointed to does not compile. */
#define CAPI_SAME(ours, theirs) T_CHECK(sizeof(ours) == sizeof(theirs) && sizeof(theirs) == sizeof(int))

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
    T_CHECK((int)CU_TENSOR_MAP_DATA_TYPE_FLOAT32 == 7 && (int)CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 == 9);
    T_CHECK((int)CU_TENSOR_MAP_L2_PROMOTION_L2_128B == 2 && (int)CU_TENSOR_MAP_INTERLEAVE_NONE == 0);
    T_CHECK((int)CU_TENSOR_MAP_SWIZZLE_32B == 1 && (int)CU_TENSOR_MAP_SWIZZLE_64B == 2 && (int)CU_TENSOR_MAP_SWIZZLE_128B == 3);
    T_CHECK((int)CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE == 0 && (int)NVRTC_ERROR_INVALID_OPTION == 5);
    T_CHECK(sizeof(CUtensorMap) == sizeof(struct gy_tensor_map) && _Alignof(CUtensorMap) <= _Alignof(struct gy_tensor_map));
    T_CHECK(sizeof(cudaError_t) == sizeof(gy_cuda_error) && sizeof(CUresult) == sizeof(gy_cuda_error) &&
            sizeof(nvrtcResult) == sizeof(gy_cuda_error));
    T_CHECK(sizeof(cudaStream_t) == sizeof(gy_cuda_stream) && sizeof(CUmodule) == sizeof(gy_cuda_module) &&
            sizeof(cudaGraphExec_t) == sizeof(gy_cuda_exec) && sizeof(CUdevice) == sizeof(int));
}

static void capi_runtime(void)
{
    int *i = NULL;
    size_t *n = NULL;
    void *p = NULL, **pp = NULL;
    float *f = NULL;
    gy_cuda_stream s = NULL;
    gy_cuda_event e = NULL;
    gy_cuda_graph g = NULL;
    gy_cuda_exec x = NULL;
    CAPI_SAME(capi.rt_runtime_version(i), cudaRuntimeGetVersion(i));
    CAPI_SAME(capi.rt_driver_version(i), cudaDriverGetVersion(i));
    CAPI_SAME(capi.rt_device_count(i), cudaGetDeviceCount(i));
    CAPI_SAME(capi.rt_set_device(1), cudaSetDevice(1));
    CAPI_SAME(capi.rt_device_attribute(i, 1, 1), cudaDeviceGetAttribute(i, (enum cudaDeviceAttr)1, 1));
    CAPI_SAME(capi.rt_mem_info(n, n), cudaMemGetInfo(n, n));
    CAPI_SAME(capi.rt_malloc(pp, 1), cudaMalloc(pp, 1));
    CAPI_SAME(capi.rt_free(p), cudaFree(p));
    CAPI_SAME(capi.rt_malloc_host(pp, 1), cudaMallocHost(pp, 1));
    CAPI_SAME(capi.rt_free_host(p), cudaFreeHost(p));
    CAPI_SAME(capi.rt_memcpy_async(p, p, 1, 1, s), cudaMemcpyAsync(p, p, 1, (enum cudaMemcpyKind)1, (cudaStream_t)s));
    CAPI_SAME(capi.rt_memset_async(p, 1, 1, s), cudaMemsetAsync(p, 1, 1, (cudaStream_t)s));
    CAPI_SAME(capi.rt_stream_create(&s, 1u), cudaStreamCreateWithFlags((cudaStream_t *)&s, 1u));
    CAPI_SAME(capi.rt_stream_destroy(s), cudaStreamDestroy((cudaStream_t)s));
    CAPI_SAME(capi.rt_stream_synchronize(s), cudaStreamSynchronize((cudaStream_t)s));
    CAPI_SAME(capi.rt_stream_wait_event(s, e, 0u), cudaStreamWaitEvent((cudaStream_t)s, (cudaEvent_t)e, 0u));
    CAPI_SAME(capi.rt_event_create(&e, 1u), cudaEventCreateWithFlags((cudaEvent_t *)&e, 1u));
    CAPI_SAME(capi.rt_event_destroy(e), cudaEventDestroy((cudaEvent_t)e));
    CAPI_SAME(capi.rt_event_record(e, s), cudaEventRecord((cudaEvent_t)e, (cudaStream_t)s));
    CAPI_SAME(capi.rt_event_query(e), cudaEventQuery((cudaEvent_t)e));
    CAPI_SAME(capi.rt_host_register(p, (size_t)1, 0u), cudaHostRegister(p, (size_t)1, 0u));
    CAPI_SAME(capi.rt_host_unregister(p), cudaHostUnregister(p));
    CAPI_SAME(capi.rt_event_record_flags(e, s, 1u), cudaEventRecordWithFlags((cudaEvent_t)e, (cudaStream_t)s, 1u));
    CAPI_SAME(capi.rt_event_synchronize(e), cudaEventSynchronize((cudaEvent_t)e));
    CAPI_SAME(capi.rt_event_elapsed(f, e, e), cudaEventElapsedTime(f, (cudaEvent_t)e, (cudaEvent_t)e));
    CAPI_SAME(capi.rt_capture_begin(s, 1), cudaStreamBeginCapture((cudaStream_t)s, (enum cudaStreamCaptureMode)1));
    CAPI_SAME(capi.rt_capture_end(s, &g), cudaStreamEndCapture((cudaStream_t)s, (cudaGraph_t *)&g));
    CAPI_SAME(capi.rt_graph_instantiate(&x, g, 1ull), cudaGraphInstantiateWithFlags((cudaGraphExec_t *)&x, (cudaGraph_t)g, 1ull));
    CAPI_SAME(capi.rt_graph_launch(x, s), cudaGraphLaunch((cudaGraphExec_t)x, (cudaStream_t)s));
    CAPI_SAME(capi.rt_graph_destroy(g), cudaGraphDestroy((cudaGraph_t)g));
    CAPI_SAME(capi.rt_exec_destroy(x), cudaGraphExecDestroy((cudaGraphExec_t)x));
    CAPI_SAME(capi.rt_last_error(), cudaGetLastError());
    T_CHECK(sizeof(*capi.rt_error_text(1)) == sizeof(*cudaGetErrorString((cudaError_t)1)));
    T_CHECK(sizeof(*capi.rt_error_name(1)) == sizeof(*cudaGetErrorName((cudaError_t)1)));
}

static void capi_driver(void)
{
    int *i = NULL;
    char *c = NULL;
    const char **t = NULL;
    void *p = NULL, **pp = NULL;
    const uint64_t *l = NULL;
    const uint32_t *u = NULL;
    gy_cuda_module m = NULL;
    gy_cuda_function f = NULL;
    gy_cuda_stream s = NULL;
    struct gy_tensor_map *map = NULL;
    CAPI_SAME(capi.dr_module_load(&m, p, 1u, i, pp), cuModuleLoadDataEx((CUmodule *)&m, p, 1u, (CUjit_option *)i, pp));
    CAPI_SAME(capi.dr_module_unload(m), cuModuleUnload((CUmodule)m));
    CAPI_SAME(capi.dr_module_function(&f, m, c), cuModuleGetFunction((CUfunction *)&f, (CUmodule)m, c));
    CAPI_SAME(capi.dr_function_get(i, 1, f), cuFuncGetAttribute(i, (CUfunction_attribute)1, (CUfunction)f));
    CAPI_SAME(capi.dr_function_set(f, 1, 1), cuFuncSetAttribute((CUfunction)f, (CUfunction_attribute)1, 1));
    CAPI_SAME(capi.dr_launch_kernel(f, 1u, 1u, 1u, 1u, 1u, 1u, 1u, s, pp, pp),
              cuLaunchKernel((CUfunction)f, 1u, 1u, 1u, 1u, 1u, 1u, 1u, (CUstream)s, pp, pp));
    CAPI_SAME(capi.dr_occupancy(i, f, 1, 1), cuOccupancyMaxActiveBlocksPerMultiprocessor(i, (CUfunction)f, 1, 1));
    CAPI_SAME(capi.dr_device_name(c, 1, 1), cuDeviceGetName(c, 1, 1));
    CAPI_SAME(capi.dr_error_text(1, t), cuGetErrorString((CUresult)1, t));
    CAPI_SAME(capi.dr_map_tiled(map, 1, 1u, p, l, l, u, u, 1, 1, 1, 1),
              cuTensorMapEncodeTiled((CUtensorMap *)map, (CUtensorMapDataType)1, 1u, p, (const cuuint64_t *)l, (const cuuint64_t *)l,
                                     (const cuuint32_t *)u, (const cuuint32_t *)u, (CUtensorMapInterleave)1, (CUtensorMapSwizzle)1,
                                     (CUtensorMapL2promotion)1, (CUtensorMapFloatOOBfill)1));
    CAPI_SAME(capi.dr_map_im2col(map, 1, 1u, p, l, l, i, i, 1u, 1u, u, 1, 1, 1, 1),
              cuTensorMapEncodeIm2col((CUtensorMap *)map, (CUtensorMapDataType)1, 1u, p, (const cuuint64_t *)l, (const cuuint64_t *)l, i, i,
                                      1u, 1u, (const cuuint32_t *)u, (CUtensorMapInterleave)1, (CUtensorMapSwizzle)1,
                                      (CUtensorMapL2promotion)1, (CUtensorMapFloatOOBfill)1));
    T_CHECK(sizeof(cuuint64_t) == 8 && sizeof(cuuint32_t) == 4);
}

static void capi_nvrtc(void)
{
    int *i = NULL;
    size_t *n = NULL;
    char *c = NULL;
    const char *const *t = NULL;
    gy_nvrtc_program q = NULL;
    CAPI_SAME(capi.nv_version(i, i), nvrtcVersion(i, i));
    CAPI_SAME(capi.nv_create(&q, c, c, 1, t, t), nvrtcCreateProgram((nvrtcProgram *)&q, c, c, 1, t, t));
    CAPI_SAME(capi.nv_destroy(&q), nvrtcDestroyProgram((nvrtcProgram *)&q));
    CAPI_SAME(capi.nv_compile(q, 1, t), nvrtcCompileProgram((nvrtcProgram)q, 1, t));
    CAPI_SAME(capi.nv_log_size(q, n), nvrtcGetProgramLogSize((nvrtcProgram)q, n));
    CAPI_SAME(capi.nv_log(q, c), nvrtcGetProgramLog((nvrtcProgram)q, c));
    CAPI_SAME(capi.nv_cubin_size(q, n), nvrtcGetCUBINSize((nvrtcProgram)q, n));
    CAPI_SAME(capi.nv_cubin(q, c), nvrtcGetCUBIN((nvrtcProgram)q, c));
    CAPI_SAME(capi.nv_ptx_size(q, n), nvrtcGetPTXSize((nvrtcProgram)q, n));
    CAPI_SAME(capi.nv_ptx(q, c), nvrtcGetPTX((nvrtcProgram)q, c));
    T_CHECK(sizeof(*capi.nv_error_text(1)) == sizeof(*nvrtcGetErrorString((nvrtcResult)1)));
}
#endif

int main(void)
{
#ifdef CAPI_HEADERS
    memset(&capi, 0, sizeof capi); /* never called */
    printf("CUDA %d.%d\n", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    capi_numbers();
    capi_runtime();
    capi_driver();
    capi_nvrtc();
#else
    T_SKIP("no CUDA headers in /usr/local/cuda/include");
#endif
    T_END("t_cuda_api");
}
