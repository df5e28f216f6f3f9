/* The stand-in for the CUDA runtime: streams, events and memory on the host. */
#include "tests/op/fakecuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/cublaslt_cuda.h"
#include "kernels/cudnn_cuda.h"
#include "kernels/device.h"

enum { STREAMS = 8, BLOCKS = 4096 };

struct fake_cuda fake_cuda;

/* A point of a stream at which an event was recorded. */
struct mark {
	cudaStream_t stream;
	atomic_int done;
	int captured;
	int64_t time; /* clock when it was reached */
	struct mark *next;
};

struct task {
	enum { COPY, FILL, RECORD, WAIT, KERNEL, GRAPH } kind;
	void *dst;
	const void *src;
	int byte, timed; /* timed: an event that each launch of a graph records */
	size_t bytes;
	struct mark *mark;
	cudaEvent_t event;
	void (*run)(void *body);
	void *body;
	cudaGraphExec_t graph;
	struct task *next;
};

struct fake_stream {
	int number;
	struct task *first, *last;
	int capturing, loose; /* loose: captured beside the first stream, which does not wait for it yet */
};

struct fake_event {
	struct mark *_Atomic mark; /* NULL: never recorded */
	int external;
};

struct fake_graph {
	struct task *first, *last;
};

struct block {
	char *p;
	size_t bytes;
	int pinned;
};

static struct block block[BLOCKS];
static cudaStream_t streams[STREAMS];
static struct fake_graph *capture; /* NULL: none is being captured */
static cudaStream_t origin;
static int invalid; /* a call during the capture made it invalid */
static cudaError_t last_error;
static int64_t now;
static struct mark *marks; /* every mark that was made */
static pthread_t owner;    /* the thread that opened the device; others only ask for events */

static void broken(const char *what)
{
	fprintf(stderr, "fake CUDA runtime: %s\n", what);
	abort();
}

static cudaError_t fails(cudaError_t rc)
{
	if (rc != cudaSuccess)
		last_error = rc;
	return rc;
}

static int lost(void)
{
	return fake_cuda.lost_at && fake_cuda.submitted >= fake_cuda.lost_at;
}

/* Fail a call that is not allowed while this thread captures. */
static cudaError_t unsafe(void)
{
	if (lost())
		return fails(cudaErrorEccUncorrectable);
	if (!capture)
		return cudaSuccess;
	invalid = 1;
	return fails(cudaErrorStreamCaptureUnsupported);
}

static struct block *holder(const void *p, size_t bytes)
{
	for (int i = 0; i < BLOCKS; i++)
		if (block[i].p && (const char *)p >= block[i].p && (const char *)p + bytes <= block[i].p + block[i].bytes)
			return &block[i];
	return NULL;
}

static void must_hold(const void *p, size_t bytes, int pinned, const char *what)
{
	const struct block *b = holder(p, bytes);

	if (!b || b->pinned != pinned)
		broken(what);
}

/* ---- streams ---- */

static void run_task(const struct task *t);

static void run_graph(cudaGraphExec_t g)
{
	for (const struct task *t = g->first; t; t = t->next)
		run_task(t);
}

static void run_task(const struct task *t)
{
	now++;
	if (t->kind == RECORD) {
		t->mark->time = lost() ? t->mark->time : now;
		t->mark->done = 1; /* other threads may then read the time */
	}
	if (lost())
		return;
	switch (t->kind) {
	case COPY:
		memmove(t->dst, t->src, t->bytes);
		break;
	case FILL:
		must_hold(t->dst, t->bytes, 0, "memory is filled that was released");
		memset(t->dst, t->byte, t->bytes);
		break;
	case KERNEL:
		t->run(t->body);
		break;
	case GRAPH:
		run_graph(t->graph);
		break;
	case RECORD:
	case WAIT:
		break;
	}
}

static int blocked(cudaStream_t s)
{
	return s->first && s->first->kind == WAIT && !s->first->mark->done;
}

static void step(cudaStream_t s)
{
	struct task *t = s->first;

	s->first = t->next;
	s->last = s->first ? s->last : NULL;
	run_task(t);
	if (t->kind == KERNEL)
		free(t->body);
	mem_free(t);
}

/* Run all work before the mark, on its stream and on the streams that it waits for. */
static void reach(struct mark *m)
{
	while (!m->done) {
		if (!m->stream->first)
			broken("an event that nothing leads to");
		if (blocked(m->stream))
			reach(m->stream->first->mark);
		step(m->stream);
	}
}

static void drain(cudaStream_t s)
{
	while (s->first) {
		if (blocked(s))
			reach(s->first->mark);
		step(s);
	}
}

static void drain_all(void)
{
	for (int i = 0; i < STREAMS; i++)
		if (streams[i])
			drain(streams[i]);
}

static void move(void)
{
	static uint32_t chance = 1;
	int moved = 1;

	while (moved) {
		moved = 0;
		for (int i = 0; i < STREAMS; i++)
			for (; streams[i] && fake_cuda.eager >> i & 1 && streams[i]->first && !blocked(streams[i]); moved = 1)
				step(streams[i]);
	}
	for (unsigned k = 0; k < fake_cuda.odd; k++) {
		cudaStream_t s;

		chance = chance * 1664525u + 1013904223u;
		s = streams[(chance >> 16) % STREAMS];
		if (s && s->first && !blocked(s))
			step(s);
	}
}

static struct task *task_new(struct task t)
{
	struct task *p = mem_alloc(sizeof *p);

	*p = t;
	return p;
}

static void push(struct task **first, struct task **last, struct task *t)
{
	if (*last)
		(*last)->next = t;
	else
		*first = t;
	*last = t;
}

static cudaError_t submit(cudaStream_t s, struct task t)
{
	if (lost())
		return fails(cudaErrorEccUncorrectable);
	fake_cuda.submitted++;
	if (s->capturing && invalid)
		return fails(cudaErrorStreamCaptureInvalidated);
	if (s->capturing) {
		s->loose = s != origin;
		push(&capture->first, &capture->last, task_new(t));
		return cudaSuccess;
	}
	push(&s->first, &s->last, task_new(t));
	move();
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
	int i = 0;

	if (flags != cudaStreamNonBlocking)
		broken("a stream that waits for the legacy one");
	while (streams[i])
		if (++i == STREAMS)
			broken("too many streams");
	*s = streams[i] = mem_zalloc(1, sizeof **s);
	(*s)->number = i;
	fake_cuda.alive++;
	return unsafe();
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	drain(s);
	streams[s->number] = NULL;
	mem_free(s);
	fake_cuda.alive--;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	cudaError_t rc = unsafe();

	if (rc == cudaSuccess)
		drain(s);
	return lost() ? fails(cudaErrorEccUncorrectable) : rc;
}

cudaError_t cudaDeviceSynchronize(void)
{
	cudaError_t rc = unsafe();

	if (!capture)
		drain_all();
	return rc;
}

/* ---- events; marks are kept ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
	(void)flags;
	*e = mem_zalloc(1, sizeof **e);
	fake_cuda.alive++;
	return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
	return cudaEventCreateWithFlags(e, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	mem_free(e);
	fake_cuda.alive--;
	return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags)
{
	int external = flags == cudaEventRecordExternal;
	struct mark *m = mem_zalloc(1, sizeof *m);

	if (external && !s->capturing)
		return fails(cudaErrorInvalidValue);
	m->next = marks;
	marks = m;
	m->stream = s;
	m->captured = s->capturing && !external;
	e->mark = m;
	e->external = external;
	if (m->captured)
		return invalid ? fails(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
	return submit(s, (struct task){.kind = RECORD, .mark = m});
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	return cudaEventRecordWithFlags(e, s, cudaEventRecordDefault);
}

/* A stream that follows a captured event is captured too; one that is captured may follow no other. */
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
	struct mark *m = e->mark;

	(void)flags;
	if (!m)
		return cudaSuccess;
	if (m->captured && capture) {
		s->capturing = 1;
		if (s == origin)
			m->stream->loose = 0;
		return cudaSuccess;
	}
	if (s->capturing) {
		invalid = 1;
		return fails(cudaErrorStreamCaptureIsolation);
	}
	if (m->captured)
		broken("an event of a capture that is over is waited for");
	return submit(s, (struct task){.kind = WAIT, .mark = m});
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	cudaError_t rc = unsafe();

	if (rc == cudaSuccess && e->mark)
		reach(e->mark);
	return lost() ? fails(cudaErrorEccUncorrectable) : rc;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
	struct mark *m = e->mark;
	cudaError_t rc;

	if (!pthread_equal(owner, pthread_self()))
		return !m || m->done ? cudaSuccess : cudaErrorNotReady;
	rc = unsafe();
	return rc != cudaSuccess || !e->mark || e->mark->done ? rc : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	if (!from->mark || !to->mark)
		return fails(cudaErrorInvalidValue);
	if (!from->mark->done || !to->mark->done)
		return cudaErrorNotReady;
	*ms = 1e3f * (float)(to->mark->time - from->mark->time);
	return cudaSuccess;
}

/* ---- memory ---- */

static cudaError_t take(void **p, size_t bytes, int pinned)
{
	size_t used = 0;
	struct block *b = block;

	if (bytes >> 47)
		return fails(cudaErrorInvalidValue); /* larger than any address */
	for (int i = 0; i < BLOCKS; i++)
		used += block[i].p && !block[i].pinned ? block[i].bytes : 0;
	if (!pinned && (!bytes || used + bytes > fake_cuda.total))
		return fails(cudaErrorMemoryAllocation);
	while (b->p)
		if (++b == block + BLOCKS)
			broken("too many allocations");
	if (posix_memalign((void **)&b->p, 256, bytes))
		return fails(cudaErrorMemoryAllocation);
	memset(b->p, 0xff, bytes);
	b->bytes = bytes;
	b->pinned = pinned;
	*p = b->p;
	fake_cuda.alive++;
	return cudaSuccess;
}

static void give(void *p, int pinned)
{
	struct block *b = holder(p, 1);

	if (!b || b->p != p || b->pinned != pinned)
		broken("memory is released that was not taken");
	memset(b->p, 0xee, b->bytes);
	free(b->p);
	*b = (struct block){NULL, 0, 0};
	fake_cuda.alive--;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	cudaError_t rc = unsafe();

	*p = NULL;
	return rc == cudaSuccess ? take(p, bytes, 0) : rc;
}

/* Waits for all work, as CUDA does. */
cudaError_t cudaFree(void *p)
{
	cudaError_t rc = unsafe();

	if (!p || capture)
		return rc;
	drain_all();
	give(p, 0);
	return rc;
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
	cudaError_t rc = unsafe();

	return rc == cudaSuccess ? take(p, bytes, 1) : rc;
}

/* CUDA need not wait here, so this does not. */
cudaError_t cudaFreeHost(void *p)
{
	const struct block *b = holder(p, 1);

	for (int i = 0; i < STREAMS; i++)
		for (const struct task *t = streams[i] ? streams[i]->first : NULL; t && !lost(); t = t->next)
			if (t->kind == COPY && b && (holder(t->src, 1) == b || holder(t->dst, 1) == b))
				broken("pinned memory is released while a copy of it waits");
	give(p, 1);
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *all)
{
	*all = *unused = fake_cuda.total;
	for (int i = 0; i < BLOCKS; i++)
		*unused -= block[i].p && !block[i].pinned ? block[i].bytes : 0;
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
	if (kind == cudaMemcpyHostToDevice)
		must_hold(src, bytes, 1, "memory that is not pinned is sent");
	else
		must_hold(src, bytes, 0, "what is copied is not on the device");
	if (kind != cudaMemcpyDeviceToHost)
		must_hold(dst, bytes, 0, "what is copied to is not on the device");
	else if (holder(dst, 1) && !holder(dst, 1)->pinned)
		broken("memory of the device is taken for the host's");
	if (s->capturing && kind != cudaMemcpyDeviceToDevice)
		broken("a graph keeps a copy to or from the host");
	return submit(s, (struct task){.kind = COPY, .dst = dst, .src = src, .bytes = bytes});
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t s)
{
	if (bytes)
		must_hold(p, bytes, 0, "what is filled is not on the device");
	return submit(s, (struct task){.kind = FILL, .dst = p, .byte = byte, .bytes = bytes});
}

/* ---- graphs ---- */

cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status)
{
	*status = s->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
	return lost() ? fails(cudaErrorEccUncorrectable) : cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode)
{
	cudaError_t rc = unsafe();

	if (mode != cudaStreamCaptureModeThreadLocal)
		broken("a capture that forbids other threads what they do");
	if (rc != cudaSuccess)
		return rc;
	capture = mem_zalloc(1, sizeof *capture);
	origin = s;
	invalid = 0;
	s->capturing = 1;
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
	cudaError_t rc = invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;

	if (s != origin || !capture)
		broken("a capture ends that was not begun");
	for (int i = 0; i < STREAMS; i++)
		if (streams[i]) {
			rc = streams[i]->loose && rc == cudaSuccess ? cudaErrorStreamCaptureUnjoined : rc;
			streams[i]->capturing = streams[i]->loose = 0;
		}
	*g = capture;
	fake_cuda.alive++;
	capture = NULL;
	origin = NULL;
	if (rc != cudaSuccess) {
		cudaGraphDestroy(*g);
		*g = NULL;
	}
	return lost() ? fails(cudaErrorEccUncorrectable) : fails(rc);
}

/* The graph itself is returned as its executable. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *run, cudaGraph_t g, unsigned long long flags)
{
	(void)flags;
	*run = mem_alloc(sizeof **run);
	**run = *g;
	g->first = g->last = NULL;
	fake_cuda.alive++;
	fake_cuda.captures++;
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
	for (struct task *t = g->first, *next; t; t = next) {
		next = t->next;
		if (t->kind == KERNEL)
			free(t->body);
		mem_free(t);
	}
	mem_free(g);
	fake_cuda.alive--;
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t run)
{
	drain_all(); /* a running graph is finished first */
	return cudaGraphDestroy(run);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t run, cudaStream_t s)
{
	fake_cuda.launches++;
	if (s->capturing)
		broken("a graph in a graph");
	for (const struct task *t = run->first; t; t = t->next)
		if (t->kind == RECORD)
			t->mark->done = 0;
	return submit(s, (struct task){.kind = GRAPH, .graph = run});
}

/* ---- kernels ---- */

/* Declared in emulate.h: queue a launch. 0 for another device. The queue takes the body. */
int fake_cuda_queue(const struct op_call *c, void (*run)(void *body), void *body);

int fake_cuda_queue(const struct op_call *c, void (*run)(void *body), void *body)
{
	if (!c->device || strncmp(c->device->name, "cuda:", 5))
		return 0;
	if (submit(streams[c->stream], (struct task){.kind = KERNEL, .run = run, .body = body}) != cudaSuccess)
		free(body);
	return 1;
}

int fake_cuda_work(void *stream, void (*run)(void *body), void *body)
{
	cudaError_t rc = submit(stream, (struct task){.kind = KERNEL, .run = run, .body = body});

	if (rc != cudaSuccess)
		free(body);
	return (int)rc;
}

/* ---- the rest ---- */

const char *cudaGetErrorString(cudaError_t rc)
{
	return rc == cudaErrorStreamCaptureUnsupported ? "operation not permitted when stream is capturing"
	       : rc == cudaErrorEccUncorrectable       ? "uncorrectable ECC error encountered"
	       : rc == cudaErrorMemoryAllocation       ? "out of memory"
	                                               : "another error";
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t rc = lost() ? cudaErrorEccUncorrectable : last_error;

	last_error = cudaSuccess;
	return rc;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = fake_cuda.devices ? fake_cuda.devices : 1;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int index)
{
	int n;

	cudaGetDeviceCount(&n);
	owner = pthread_self();
	if (fake_cuda.opened)
		fake_cuda.opened(index);
	return index >= n ? fails(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *place, int size, int index)
{
	snprintf(place, (size_t)size, "0000:%02x:00.0", (unsigned)index);
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int index)
{
	(void)index;
	*p = (struct cudaDeviceProp){"Fake", 9, 0, 132, FAKE_SHARED};
	return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f)
{
	(void)f;
	a->none = 0;
	return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *f, int attribute, int value)
{
	if (!f || attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
		broken("an attribute of a kernel that is not one");
	return value > FAKE_SHARED ? fails(cudaErrorInvalidValue) : cudaSuccess;
}

/* Without a library products run on our own kernels. A program that links kernels/cublaslt_cuda.cu uses that instead. */
__attribute__((weak)) struct cublaslt_cuda *cublaslt_cuda_new(struct device *d, const struct cudaDeviceProp *gpu, void *const *stream,
                                                              void (*failed)(struct device *d, const struct err *e), struct err *e)
{
	static char some;

	(void)d;
	(void)gpu;
	(void)stream;
	(void)failed;
	(void)e;
	return (struct cublaslt_cuda *)(void *)&some;
}

__attribute__((weak)) void cublaslt_cuda_free(struct cublaslt_cuda *c)
{
	(void)c;
}

__attribute__((weak)) const struct cublaslt_host *cublaslt_cuda_host(const struct cublaslt_cuda *c)
{
	(void)c;
	return NULL;
}

/* None: attention runs on our own kernels. */
struct cudnn_cuda *cudnn_cuda_new(struct device *d, const struct cublaslt_host *host)
{
	(void)host;
	snprintf(d->no_cudnn, sizeof d->no_cudnn, "the stand-in for CUDA has none");
	return NULL;
}

void cudnn_cuda_free(struct cudnn_cuda *c)
{
	(void)c;
}
