/* The CUDA functions that kernels/cublaslt.c needs, and compile-time checks of its constants against cublasLt.h. */
#include "kernels/launch.h"

#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

extern "C" {
#include "core/mem.h"
#include "kernels/cublaslt.h"
#include "kernels/cublaslt_cuda.h"
}

static_assert(sizeof(cublaslt_algo) == sizeof(cublasLtMatmulAlgo_t), "algo");
static_assert(sizeof(cublaslt_choice) == sizeof(cublasLtMatmulHeuristicResult_t), "choice");
static_assert(offsetof(cublaslt_choice, workspace) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), "choice");
static_assert(offsetof(cublaslt_choice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state), "choice");
static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cudaDataType_t) == sizeof(int), "enums are ints");
#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs);
SAME(LT_OK, CUBLAS_STATUS_SUCCESS)
SAME(LT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE)
SAME(LT_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH)
SAME(LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED)
SAME(LT_R_32F, CUDA_R_32F)
SAME(LT_R_16BF, CUDA_R_16BF)
SAME(LT_COMPUTE_32F, CUBLAS_COMPUTE_32F)
SAME(LT_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32)
SAME(LT_OP_N, CUBLAS_OP_N)
SAME(LT_OP_T, CUBLAS_OP_T)
SAME(LT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
SAME(LT_LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
SAME(LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA)
SAME(LT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB)
SAME(LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE)
SAME(LT_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER)
SAME(LT_DESC_BIAS_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
SAME(LT_DESC_AUX_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
SAME(LT_DESC_AUX_LD, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
SAME(LT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DEFAULT)
SAME(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS)
SAME(LT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU)
SAME(LT_EPILOGUE_GELU | LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS)
SAME(LT_EPILOGUE_GELU | LT_EPILOGUE_AUX, CUBLASLT_EPILOGUE_GELU_AUX)
SAME(LT_EPILOGUE_GELU | LT_EPILOGUE_AUX | LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
SAME(LT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU)
SAME(LT_EPILOGUE_BGRADB, CUBLASLT_EPILOGUE_BGRADB)
SAME(LT_PREF_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
SAME(LT_PREF_REDUCTION, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
SAME(LT_PREF_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
SAME(LT_PREF_ALIGN_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
SAME(LT_PREF_ALIGN_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
SAME(LT_PREF_ALIGN_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
SAME(LT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
SAME(LT_CONFIG_SPLIT_K, CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
SAME(LT_CONFIG_REDUCTION, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)

struct cublaslt_cuda {
	struct cublaslt_library library;
	struct cublaslt_host host;
	struct device *device;
	void *const *stream;
	void (*failed)(struct device *d, const struct err *e);
	char gpu[320];
	cudaEvent_t begin, end;
	struct cublaslt *cublaslt;
};

static struct cublaslt_cuda *self(void *arg)
{
	return (struct cublaslt_cuda *)arg;
}

static cudaStream_t stream_at(void *arg, int i)
{
	return (cudaStream_t)self(arg)->stream[i];
}

static void *host_stream(void *arg, int i)
{
	return stream_at(arg, i);
}

static int host_capturing(void *arg, int i)
{
	cudaStreamCaptureStatus s = cudaStreamCaptureStatusNone;

	return cudaStreamIsCapturing(stream_at(arg, i), &s) != cudaSuccess || s != cudaStreamCaptureStatusNone;
}

/* Start timing. Clears the last error, because host_stop fails on an error of a launch since the start. */
static void host_start(void *arg, int i)
{
	cudaGetLastError();
	cudaEventRecord(self(arg)->begin, stream_at(arg, i));
}

static double host_stop(void *arg, int i)
{
	struct cublaslt_cuda *c = self(arg);
	float ms = 0;

	if (cudaEventRecord(c->end, stream_at(arg, i)) != cudaSuccess || cudaEventSynchronize(c->end) != cudaSuccess ||
	    cudaGetLastError() != cudaSuccess || cudaEventElapsedTime(&ms, c->begin, c->end) != cudaSuccess)
		return -1;
	return (double)ms * 1e-3;
}

static void host_failed(void *arg, const struct err *e)
{
	self(arg)->failed(self(arg)->device, e);
}

static int timer_failed(cudaError_t rc, struct err *e)
{
	return rc == cudaSuccess ? 0 : err_set(e, ERR_UNAVAILABLE, "events to time with: %s", cudaGetErrorString(rc));
}

extern "C" struct cublaslt_cuda *cublaslt_cuda_new(struct device *d, const struct cudaDeviceProp *gpu, void *const *stream,
                                                   void (*failed)(struct device *d, const struct err *e), struct err *e)
{
	struct cublaslt_cuda *c = (struct cublaslt_cuda *)mem_zalloc(1, sizeof *c);
	int driver = 0;

	cudaDriverGetVersion(&driver);
	snprintf(c->gpu, sizeof c->gpu, "%s sm_%d%d %d processors driver %d", gpu->name, gpu->major, gpu->minor, gpu->multiProcessorCount, driver);
	c->device = d;
	c->stream = stream;
	c->failed = failed;
	c->host.arg = c;
	c->host.gpu = c->gpu;
	c->host.processors = gpu->multiProcessorCount;
	c->host.stream = host_stream;
	c->host.capturing = host_capturing;
	c->host.start = host_start;
	c->host.stop = host_stop;
	c->host.failed = host_failed;
	if (cublaslt_open(&c->library, NULL, e) || timer_failed(cudaEventCreate(&c->begin), e) || timer_failed(cudaEventCreate(&c->end), e) ||
	    !(c->cublaslt = cublaslt_new(&c->library, &c->host, e))) {
		cublaslt_cuda_free(c);
		return NULL;
	}
	d->cublaslt = c->cublaslt;
	return c;
}

extern "C" const struct cublaslt_host *cublaslt_cuda_host(const struct cublaslt_cuda *c)
{
	return &c->host;
}

extern "C" void cublaslt_cuda_free(struct cublaslt_cuda *c)
{
	if (!c)
		return;
	cublaslt_free(c->cublaslt);
	if (c->begin)
		cudaEventDestroy(c->begin);
	if (c->end)
		cudaEventDestroy(c->end);
	mem_free(c);
}
