/* A fake CUDA runtime, with which kernels/cuda.cu runs without a GPU. Memory is host memory, kernels run with tests/op/emulate.h, and streams are
 * queues that run as late, as early or in as mixed an order as events allow. The test fails on uses that a GPU would refuse or that would give wrong
 * results: a copy from memory that is not pinned, an unknown address, pinned memory that is freed while a copy from it waits. Calls that are not
 * allowed during capture fail as in CUDA. */
#ifndef DDM_TESTS_FAKECUDA_H
#define DDM_TESTS_FAKECUDA_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

/* Its functions have other names, so that it can be linked together with the real runtime. */
#define cudaGetErrorString fake_cudaGetErrorString
#define cudaGetLastError fake_cudaGetLastError
#define cudaDriverGetVersion fake_cudaDriverGetVersion
#define cudaGetDeviceCount fake_cudaGetDeviceCount
#define cudaSetDevice fake_cudaSetDevice
#define cudaDeviceGetPCIBusId fake_cudaDeviceGetPCIBusId
#define cudaGetDeviceProperties fake_cudaGetDeviceProperties
#define cudaFuncGetAttributes fake_cudaFuncGetAttributes
#define cudaMalloc fake_cudaMalloc
#define cudaFree fake_cudaFree
#define cudaMallocHost fake_cudaMallocHost
#define cudaFreeHost fake_cudaFreeHost
#define cudaMemGetInfo fake_cudaMemGetInfo
#define cudaMemcpyAsync fake_cudaMemcpyAsync
#define cudaMemsetAsync fake_cudaMemsetAsync
#define cudaStreamCreateWithFlags fake_cudaStreamCreateWithFlags
#define cudaStreamDestroy fake_cudaStreamDestroy
#define cudaStreamSynchronize fake_cudaStreamSynchronize
#define cudaDeviceSynchronize fake_cudaDeviceSynchronize
#define cudaStreamWaitEvent fake_cudaStreamWaitEvent
#define cudaEventCreate fake_cudaEventCreate
#define cudaEventCreateWithFlags fake_cudaEventCreateWithFlags
#define cudaEventDestroy fake_cudaEventDestroy
#define cudaEventRecord fake_cudaEventRecord
#define cudaEventRecordWithFlags fake_cudaEventRecordWithFlags
#define cudaEventSynchronize fake_cudaEventSynchronize
#define cudaEventQuery fake_cudaEventQuery
#define cudaEventElapsedTime fake_cudaEventElapsedTime
#define cudaStreamIsCapturing fake_cudaStreamIsCapturing
#define cudaStreamBeginCapture fake_cudaStreamBeginCapture
#define cudaStreamEndCapture fake_cudaStreamEndCapture
#define cudaGraphInstantiate fake_cudaGraphInstantiate
#define cudaGraphDestroy fake_cudaGraphDestroy
#define cudaGraphExecDestroy fake_cudaGraphExecDestroy
#define cudaGraphLaunch fake_cudaGraphLaunch
#define cublaslt_cuda_new fake_cublaslt_cuda_new
#define cublaslt_cuda_free fake_cublaslt_cuda_free
#define cublaslt_cuda_host fake_cublaslt_cuda_host
#define cudnn_cuda_new fake_cudnn_cuda_new
#define cudnn_cuda_free fake_cudnn_cuda_free
#define cuda_stream fake_cuda_stream
#define cuda_launched fake_cuda_launched
#define cuda_shared fake_cuda_shared
#define cudaFuncSetAttribute fake_cudaFuncSetAttribute

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorEccUncorrectable = 214,
	cudaErrorNotReady = 600,
	cudaErrorStreamCaptureUnsupported = 900,
	cudaErrorStreamCaptureInvalidated = 901,
	cudaErrorStreamCaptureUnjoined = 904,
	cudaErrorStreamCaptureIsolation = 905
} cudaError_t;

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, FAKE_SHARED = 227 << 10 /* most bytes of a block */ };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventRecordDefault = 0, cudaEventRecordExternal = 1 };
typedef enum { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal } cudaStreamCaptureMode;
typedef enum { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive } cudaStreamCaptureStatus;

typedef struct fake_stream *cudaStream_t;
typedef struct fake_event *cudaEvent_t;
typedef struct fake_graph *cudaGraph_t, *cudaGraphExec_t;

struct cudaDeviceProp {
	char name[256];
	int major, minor, multiProcessorCount;
	size_t sharedMemPerBlockOptin;
};

struct cudaFuncAttributes {
	int none;
};

#ifdef __cplusplus
typedef struct cudaFuncAttributes cudaFuncAttributes;
#endif

const char *cudaGetErrorString(cudaError_t rc);
cudaError_t cudaGetLastError(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int index);
cudaError_t cudaDeviceGetPCIBusId(char *place, int size, int index);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int index);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f);
cudaError_t cudaFuncSetAttribute(const void *f, int attribute, int value);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemGetInfo(size_t *unused, size_t *all);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status);
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *run, cudaGraph_t g, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t run);
cudaError_t cudaGraphLaunch(cudaGraphExec_t run, cudaStream_t s);

/* Controls and counters of the fake; one device at a time. eager: a mask of streams, numbered in the order of creation, that run as soon as events
 * allow; the others run when the host waits. odd: number of steps of random streams at every call. */
struct fake_cuda {
	unsigned eager, odd;
	int devices;     /* 0: one */
	size_t total;    /* bytes of device memory */
	int64_t lost_at; /* not 0: every call from that submission on fails */
	int64_t submitted, captures, launches;
	int alive;                 /* allocations, streams, events and graphs that exist */
	void (*opened)(int index); /* called with the device that is chosen; NULL: not */
};

extern struct fake_cuda fake_cuda;

/* Queue work on a stream, as a library does. Takes over body, which is freed when the work, or the last graph that holds it, is over. run must not
 * change it, because a graph runs it again. Returns an error of the runtime. */
int fake_cuda_work(void *stream, void (*run)(void *body), void *body);

/* kernels/cuda.cu compiled against the fake runtime. */
struct device;
struct pool;
struct err;
struct op_call;
struct device *device_fake_cuda(int index, struct pool *pool, struct err *e);
int cuda_shared(const struct op_call *c, const void *kernel, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
