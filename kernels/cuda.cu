/* The CUDA device: memory, streams, events and graphs by the CUDA runtime. The runtime is linked statically and loads the driver at its first
 * call, so the program also runs on machines without a driver. The first error sticks. */
#include "kernels/launch.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

extern "C" {
#include "core/mem.h"
#include "kernels/cublaslt_cuda.h"
#include "kernels/cudnn_cuda.h"
#include "kernels/cudadevice.h"
#include "kernels/probe.h"
}
#include "kernels/cudausable.h"

enum { STREAMS = 5, STAGES = 4, STAGE_BYTES = 1 << 20 };

/* Pinned memory that `put` copies through, so that it neither waits for the device nor needs the caller's memory after it returns. Each stream
 * has its own stages, so that a put on one stream does not wait for work on another. */
struct stage {
	char *p;
	cudaEvent_t used; /* recorded after the copy from this stage to the device */
};

struct piece {
	void *p; /* NULL: this entry is unused */
	uint64_t bytes;
};

struct cuda {
	struct device device;
	char name[320];
	cudaStream_t stream[STREAMS];
	struct stage stage[STREAMS][STAGES];
	unsigned next_stage[STREAMS];
	struct err failed;   /* the first error; code 0: none */
	struct piece *piece; /* (pieces) */
	size_t pieces;
	uint64_t used, most;
	double peak, copy;
	struct cublaslt_cuda *cublaslt;
	struct cudnn_cuda *cudnn;
	int capturing;
	char capture_error[sizeof(((struct device *)0)->uncaptured)]; /* why the current capture failed; empty: it has not */
};

static struct cuda *cuda_of(struct device *d)
{
	return (struct cuda *)d;
}

/* After any error but memory exhaustion, such as a lost device or a faulting kernel, the context is unusable. */
static int code_of(cudaError_t rc)
{
	return rc == cudaErrorMemoryAllocation ? ERR_NOMEM : ERR_UNAVAILABLE;
}

static int check(struct cuda *c, cudaError_t rc, const char *what)
{
	if (rc == cudaSuccess)
		return 0;
	if (c->capturing)
		snprintf(c->capture_error, sizeof c->capture_error, "%s: %s", what, cudaGetErrorString(rc));
	else if (!c->failed.code)
		err_set(&c->failed, code_of(rc), "%s: %s: %s", c->name, what, cudaGetErrorString(rc));
	return -1;
}

static int cuda_error(struct device *d, struct err *e)
{
	struct cuda *c = cuda_of(d);

	return c->failed.code ? err_set(e, c->failed.code, "%s", c->failed.msg) : 0;
}

cudaStream_t cuda_stream(const struct op_call *c)
{
	return cuda_of(c->device)->stream[c->stream];
}

void cuda_launched(const struct op_call *c)
{
	check(cuda_of(c->device), cudaGetLastError(), "a kernel");
}

int cuda_shared(const struct op_call *c, const void *kernel, size_t bytes)
{
	return bytes <= 48 << 10 ? 0
	                         : check(cuda_of(c->device), cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
	                                 "a kernel's shared memory");
}

/* Record an error of a library that works on this device. */
static void cuda_failed(struct device *d, const struct err *e)
{
	struct cuda *c = cuda_of(d);

	if (c->capturing)
		snprintf(c->capture_error, sizeof c->capture_error, "%.*s", (int)sizeof c->capture_error - 1, e->msg);
	else if (!c->failed.code)
		err_set(&c->failed, e->code, "%s: %s", c->name, e->msg);
}

static void megabytes(char text[32], uint64_t bytes)
{
	snprintf(text, 32, "%.1f MB", (double)bytes * 1e-6);
}

static void remember(struct cuda *c, void *p, uint64_t bytes)
{
	size_t i = 0;

	while (i < c->pieces && c->piece[i].p)
		i++;
	if (i == c->pieces)
		c->piece = (struct piece *)mem_resize(c->piece, ++c->pieces, sizeof *c->piece);
	c->piece[i].p = p;
	c->piece[i].bytes = bytes;
	c->used += bytes;
	c->most = c->used > c->most ? c->used : c->most;
}

static void forget(struct cuda *c, const void *p)
{
	for (size_t i = 0; i < c->pieces; i++)
		if (c->piece[i].p == p) {
			c->used -= c->piece[i].bytes;
			c->piece[i].p = NULL;
			return;
		}
}

static void too_much(struct cuda *c, uint64_t bytes, const char *what, struct err *e)
{
	size_t unused = 0, all = 0;
	char want[32], have[32], missing[32];

	cudaGetLastError(); /* not a sticky error: the caller may retry with less */
	cudaMemGetInfo(&unused, &all);
	megabytes(want, bytes);
	megabytes(have, unused);
	megabytes(missing, bytes > unused ? bytes - unused : 0);
	err_set(e, ERR_NOMEM, "%s: out of memory: %s needs %s, free are %s: %s are missing", c->name, what, want, have, missing);
}

static void *cuda_alloc(struct device *d, size_t bytes, const char *what, struct err *e)
{
	struct cuda *c = cuda_of(d);
	void *p = NULL;
	cudaError_t rc = cudaMalloc(&p, bytes ? bytes : 1);

	if (rc == cudaErrorMemoryAllocation || rc == cudaErrorInvalidValue) { /* an absurdly large size gives InvalidValue */
		too_much(c, bytes, what, e);
		return NULL;
	}
	/* Wait, because the memory may be used next on any stream. */
	if (check(c, rc, what) || check(c, cudaMemsetAsync(p, 0, bytes, c->stream[0]), what) || check(c, cudaStreamSynchronize(c->stream[0]), what)) {
		cuda_error(d, e);
		cudaFree(p);
		return NULL;
	}
	remember(c, p, bytes);
	return p;
}

static void cuda_release(struct device *d, void *p)
{
	struct cuda *c = cuda_of(d);

	if (!p)
		return;
	forget(c, p);
	check(c, cudaFree(p), "release"); /* waits for the device */
}

static void *cuda_alloc_host(struct device *d, size_t bytes, const char *what, struct err *e)
{
	struct cuda *c = cuda_of(d);
	void *p;

	if (cudaMallocHost(&p, bytes ? bytes : 1) != cudaSuccess) {
		cudaGetLastError();
		err_set(e, ERR_NOMEM, "%s: out of pinned memory: %s needs %zu bytes", c->name, what, bytes);
		return NULL;
	}
	memset(p, 0, bytes);
	return p;
}

static void cuda_release_host(struct device *d, void *p)
{
	if (p)
		check(cuda_of(d), cudaFreeHost(p), "release");
}

static void cuda_memory(struct device *d, struct device_memory *m)
{
	struct cuda *c = cuda_of(d);
	size_t unused = 0, all = 0;

	check(c, cudaMemGetInfo(&unused, &all), "memory");
	m->free = unused;
	m->total = all;
	m->used = c->used;
	m->peak = c->most;
}

static void cuda_put(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct cuda *c = cuda_of(d);

	for (size_t at = 0, n; at < bytes && !c->failed.code; at += n) {
		struct stage *s = &c->stage[stream][c->next_stage[stream]++ % STAGES];

		n = bytes - at < (size_t)STAGE_BYTES ? bytes - at : (size_t)STAGE_BYTES;
		if (check(c, cudaEventSynchronize(s->used), "put"))
			return;
		memcpy(s->p, (const char *)src + at, n);
		check(c, cudaMemcpyAsync((char *)dst + at, s->p, n, cudaMemcpyHostToDevice, c->stream[stream]), "put");
		check(c, cudaEventRecord(s->used, c->stream[stream]), "put");
	}
}

static void cuda_fetch(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct cuda *c = cuda_of(d);

	if (bytes)
		check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, c->stream[stream]), "get");
}

static void cuda_get(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct cuda *c = cuda_of(d);

	cuda_fetch(d, stream, dst, src, bytes);
	check(c, cudaStreamSynchronize(c->stream[stream]), "get");
}

static void cuda_send(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct cuda *c = cuda_of(d);

	if (bytes)
		check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, c->stream[stream]), "send");
}

static void cuda_copy(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct cuda *c = cuda_of(d);

	if (bytes)
		check(c, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, c->stream[stream]), "copy");
}

static void cuda_fill(struct device *d, int stream, void *dst, int byte, size_t bytes)
{
	struct cuda *c = cuda_of(d);

	if (bytes)
		check(c, cudaMemsetAsync(dst, byte, bytes, c->stream[stream]), "fill");
}

static int cuda_sync(struct device *d, struct err *e)
{
	check(cuda_of(d), cudaDeviceSynchronize(), "work");
	return cuda_error(d, e);
}

static void *cuda_event_new(struct device *d)
{
	cudaEvent_t event = NULL;

	check(cuda_of(d), cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
	return event;
}

static void cuda_event_free(struct device *d, void *event)
{
	if (event)
		check(cuda_of(d), cudaEventDestroy((cudaEvent_t)event), "event");
}

static void cuda_event_record(struct device *d, void *event, int stream)
{
	check(cuda_of(d), cudaEventRecord((cudaEvent_t)event, cuda_of(d)->stream[stream]), "event");
}

static void cuda_event_follow(struct device *d, void *event, int stream)
{
	struct cuda *c = cuda_of(d);

	check(c, cudaStreamWaitEvent(c->stream[stream], (cudaEvent_t)event, 0), "event");
}

static int cuda_event_passed(struct device *d, void *event, int wait)
{
	struct cuda *c = cuda_of(d);
	cudaError_t rc = wait ? cudaEventSynchronize((cudaEvent_t)event) : cudaEventQuery((cudaEvent_t)event);

	return rc != cudaErrorNotReady || c->failed.code ? (check(c, rc, "event"), 1) : 0;
}

static void *cuda_queue(struct device *d, int stream)
{
	return cuda_of(d)->stream[stream];
}

static int cuda_event_reached(struct device *d, void *event)
{
	(void)d;
	return cudaEventQuery((cudaEvent_t)event) != cudaErrorNotReady;
}

static void *cuda_timer_new(struct device *d)
{
	cudaEvent_t event = NULL;

	check(cuda_of(d), cudaEventCreate(&event), "timer");
	return event;
}

/* During a capture the event is recorded as external, so that every launch of the graph records it again. */
static void cuda_timer_record(struct device *d, void *timer, int stream)
{
	struct cuda *c = cuda_of(d);

	check(c, cudaEventRecordWithFlags((cudaEvent_t)timer, c->stream[stream], c->capturing ? cudaEventRecordExternal : cudaEventRecordDefault),
	      "timer");
}

/* If the time cannot be read, return 0; this is not a device error. */
static double cuda_timer_seconds(struct device *d, void *from, void *to)
{
	float ms = 0;

	(void)d;
	if (cudaEventElapsedTime(&ms, (cudaEvent_t)from, (cudaEvent_t)to) != cudaSuccess) {
		cudaGetLastError();
		return 0;
	}
	return (double)ms * 1e-3;
}

/* NVTX does nothing unless a profiler is attached. */
static void cuda_range_begin(struct device *d, const char *name)
{
	(void)d;
	nvtxRangePushA(name);
}

static void cuda_range_end(struct device *d)
{
	(void)d;
	nvtxRangePop();
}

/* End a capture, failed or not. */
static void end_capture(struct cuda *c)
{
	if (c->capture_error[0])
		memcpy(c->device.uncaptured, c->capture_error, sizeof c->capture_error);
	cudaGetLastError();
	c->capturing = 0;
}

static int cuda_capture_begin(struct device *d, int stream)
{
	struct cuda *c = cuda_of(d);

	if (c->failed.code)
		return -1;
	c->capturing = 1;
	c->capture_error[0] = 0;
	if (check(c, cudaStreamBeginCapture(c->stream[stream], cudaStreamCaptureModeThreadLocal), "capture")) {
		end_capture(c);
		return -1;
	}
	return 0;
}

/* Make a graph of the capture. If a call failed during the capture, `capture_error` holds the reason, and the result is NULL. */
static void *cuda_capture_end(struct device *d, int stream)
{
	struct cuda *c = cuda_of(d);
	cudaGraph_t graph = NULL;
	cudaGraphExec_t run = NULL;
	cudaError_t rc = cudaStreamEndCapture(c->stream[stream], &graph);

	if (!c->capture_error[0] && !check(c, rc, "capture") && check(c, cudaGraphInstantiate(&run, graph, 0), "capture"))
		run = NULL;
	if (graph)
		cudaGraphDestroy(graph);
	end_capture(c);
	return run;
}

static void cuda_graph_launch(struct device *d, void *graph, int stream)
{
	struct cuda *c = cuda_of(d);

	check(c, cudaGraphLaunch((cudaGraphExec_t)graph, c->stream[stream]), "graph");
}

static void cuda_graph_free(struct device *d, void *graph)
{
	if (graph)
		check(cuda_of(d), cudaGraphExecDestroy((cudaGraphExec_t)graph), "graph");
}

/* Run a speed probe without counting it in the peak memory or the profile. */
static double probed(struct device *d, double (*probe)(struct device *d))
{
	struct cuda *c = cuda_of(d);
	struct profile *profile = d->profile;
	uint64_t most = c->most;
	double rate;

	d->profile = NULL;
	rate = probe(d);
	d->profile = profile;
	c->most = most > c->used ? most : c->used;
	return rate;
}

static double cuda_peak_flops(struct device *d)
{
	struct cuda *c = cuda_of(d);

	if (!(c->peak > 0))
		c->peak = probed(d, probe_flops);
	return c->peak;
}

static double cuda_peak_bytes(struct device *d)
{
	struct cuda *c = cuda_of(d);

	if (!(c->copy > 0))
		c->copy = probed(d, probe_bytes);
	return c->copy;
}

static void cuda_close(struct device *d)
{
	struct cuda *c = cuda_of(d);

	cudaDeviceSynchronize();
	cudnn_cuda_free(c->cudnn);
	cublaslt_cuda_free(c->cublaslt);
	for (int i = 0; i < STREAMS; i++) {
		for (int k = 0; k < STAGES; k++) {
			if (c->stage[i][k].used)
				cudaEventDestroy(c->stage[i][k].used);
			if (c->stage[i][k].p)
				cudaFreeHost(c->stage[i][k].p);
		}
		if (c->stream[i])
			cudaStreamDestroy(c->stream[i]);
	}
	mem_free(c->piece);
	mem_free(c);
}

static int open_queues(struct cuda *c)
{
	for (int i = 0; i < STREAMS; i++) {
		if (check(c, cudaStreamCreateWithFlags(&c->stream[i], cudaStreamNonBlocking), "stream"))
			return -1;
		for (int k = 0; k < STAGES; k++)
			if (check(c, cudaMallocHost((void **)&c->stage[i][k].p, STAGE_BYTES), "pinned memory") ||
			    check(c, cudaEventCreateWithFlags(&c->stage[i][k].used, cudaEventDisableTiming), "event"))
				return -1;
	}
	return 0;
}

extern "C" {
#define X(id, fn) extern const struct kernel kernel_##fn##_cuda;
OPS(X)
#undef X
}

static void fill_table(struct device *d)
{
#define X(id, fn) d->kernel[OP_##id] = &kernel_##fn##_cuda;
	OPS(X)
#undef X
	d->real = DT_F32;
	d->storage = 1u << DT_F32 | 1u << DT_BF16;
	d->streams = STREAMS;
	d->alloc = cuda_alloc;
	d->release = cuda_release;
	d->alloc_host = cuda_alloc_host;
	d->release_host = cuda_release_host;
	d->memory = cuda_memory;
	d->put = cuda_put;
	d->get = cuda_get;
	d->fetch = cuda_fetch;
	d->send = cuda_send;
	d->copy = cuda_copy;
	d->fill = cuda_fill;
	d->error = cuda_error;
	d->sync = cuda_sync;
	d->event_new = cuda_event_new;
	d->event_free = cuda_event_free;
	d->event_record = cuda_event_record;
	d->event_follow = cuda_event_follow;
	d->event_passed = cuda_event_passed;
	d->queue = cuda_queue;
	d->event_reached = cuda_event_reached;
	d->timer_new = cuda_timer_new;
	d->timer_record = cuda_timer_record;
	d->timer_seconds = cuda_timer_seconds;
	d->range_begin = cuda_range_begin;
	d->range_end = cuda_range_end;
	d->capture_begin = cuda_capture_begin;
	d->capture_end = cuda_capture_end;
	d->graph_launch = cuda_graph_launch;
	d->graph_free = cuda_graph_free;
	d->peak_flops = cuda_peak_flops;
	d->peak_bytes = cuda_peak_bytes;
	d->close = cuda_close;
}

extern "C" int device_cuda_count(void)
{
	int count = 0;

	if (cudaGetDeviceCount(&count) == cudaSuccess)
		return count;
	cudaGetLastError();
	return 0;
}

extern "C" struct device *device_cuda(int index, struct pool *pool, struct err *e)
{
	struct cudaDeviceProp p;
	struct cuda *c;
	char place[sizeof(((struct device *)0)->place)] = "";
	int count = 0;
	cudaError_t rc = cudaGetDeviceCount(&count);

	if (rc != cudaSuccess || !count) {
		unusable(rc, e);
		return NULL;
	}
	if (index >= count) {
		err_set(e, ERR_UNAVAILABLE, "cuda:%d: there are %d GPUs, numbered from 0", index, count);
		return NULL;
	}
	if ((rc = cudaSetDevice(index)) != cudaSuccess || (rc = cudaGetDeviceProperties(&p, index)) != cudaSuccess ||
	    (rc = cudaDeviceGetPCIBusId(place, (int)sizeof place, index)) != cudaSuccess) {
		err_set(e, ERR_UNAVAILABLE, "cuda:%d: %s", index, cudaGetErrorString(rc));
		return NULL;
	}
	if (runs_here(&p, e))
		return NULL;
	c = (struct cuda *)mem_zalloc(1, sizeof *c);
	c->device.shared = p.sharedMemPerBlockOptin;
	snprintf(c->name, sizeof c->name, "cuda:%d (%s)", index, p.name);
	fill_table(&c->device);
	c->device.name = c->name;
	memcpy(c->device.place, place, sizeof place);
	c->device.pool = pool;
	c->device.processors = p.multiProcessorCount;
	c->device.gated_norms = 1;
	if (open_queues(c)) {
		cuda_error(&c->device, e);
		cuda_close(&c->device);
		return NULL;
	}
	if (!(c->cublaslt = cublaslt_cuda_new(&c->device, &p, (void *const *)c->stream, cuda_failed, e))) {
		cuda_close(&c->device);
		return NULL;
	}
	c->cudnn = cudnn_cuda_new(&c->device, cublaslt_cuda_host(c->cublaslt));
	return &c->device;
}
