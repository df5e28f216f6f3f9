/* The CPU as a device: host memory, a table of kernels, and work that is done at once when submitted. */
#include <string.h>

#include "core/machine.h"
#include "core/mem.h"
#include "kernels/device.h"
#include "kernels/flavour.h"
#include "kernels/peak.h"

#define X(id, fn) extern const struct kernel kernel_##fn##_f64;
OPS(X)
#undef X

/* Work is done at once when submitted, so streams and events have no state. */
struct cpu {
	struct device device;
	uint64_t used, most;
	double peak, peak_bf16, copy;
};

/* The header before each allocation, in a cache line of its own. */
struct block {
	uint64_t bytes;
};

enum { LINE = 64 };

static void *cpu_alloc(struct device *d, size_t bytes, const char *what, struct err *e)
{
	struct cpu *c = (struct cpu *)d;
	char *p = bytes <= SIZE_MAX - LINE ? mem_try(bytes + LINE, 1, what, e) : mem_try(bytes, 1, what, e);

	if (!p)
		return NULL;
	((struct block *)p)->bytes = bytes;
	c->used += bytes;
	c->most = c->used > c->most ? c->used : c->most;
	return p + LINE;
}

static void cpu_release(struct device *d, void *p)
{
	struct cpu *c = (struct cpu *)d;

	if (!p)
		return;
	p = (char *)p - LINE;
	c->used -= ((struct block *)p)->bytes;
	mem_free(p);
}

static void *cpu_alloc_host(struct device *d, size_t bytes, const char *what, struct err *e)
{
	(void)d;
	return mem_try(bytes, 1, what, e);
}

static void cpu_release_host(struct device *d, void *p)
{
	(void)d;
	mem_free(p);
}

static void cpu_memory(struct device *d, struct device_memory *m)
{
	const struct cpu *c = (const struct cpu *)d;
	struct machine_memory here;

	machine_memory(&here, "");
	*m = (struct device_memory){.free = here.free, .total = here.total, .used = c->used, .peak = c->most};
}

static void cpu_move(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	(void)d;
	(void)stream;
	if (bytes)
		memcpy(dst, src, bytes);
}

static void cpu_fill(struct device *d, int stream, void *dst, int byte, size_t bytes)
{
	(void)d;
	(void)stream;
	if (bytes)
		memset(dst, byte, bytes);
}

static int cpu_error(struct device *d, struct err *e)
{
	(void)d;
	(void)e;
	return 0;
}

static void *cpu_event_new(struct device *d)
{
	return d;
}

static void cpu_event_free(struct device *d, void *event)
{
	(void)d;
	(void)event;
}

static void cpu_event_record(struct device *d, void *event, int stream)
{
	(void)d;
	(void)event;
	(void)stream;
}

static int cpu_event_passed(struct device *d, void *event, int wait)
{
	(void)d;
	(void)event;
	(void)wait;
	return 1;
}

static double cpu_peak_flops(struct device *d)
{
	struct cpu *c = (struct cpu *)d;
	double *peak = d->bf16_products ? &c->peak_bf16 : &c->peak;

	if (!(*peak > 0))
		*peak = d->bf16_products ? peak_bf16_flops(d->pool) : peak_gemm_flops(d->pool);
	return *peak;
}

static double cpu_peak_bytes(struct device *d)
{
	struct cpu *c = (struct cpu *)d;

	if (!(c->copy > 0))
		c->copy = peak_copy_bytes(d->pool);
	return c->copy;
}

static void cpu_close(struct device *d)
{
	mem_free(d);
}

static const struct kernel *const double_kernels[OP_COUNT] = {
#define X(id, fn) [OP_##id] = &kernel_##fn##_f64,
    OPS(X)
#undef X
};

struct device *device_cpu(struct pool *pool, enum dtype real)
{
	struct cpu *c = mem_zalloc(1, sizeof *c);

	c->device = (struct device){
	    .name = real == DT_F64 ? "cpu, double" : "cpu",
	    .real = real,
	    .storage = 1u << real,
	    .host = 1,
	    .streams = 1,
	    .compact = real == DT_F32,
	    .pool = pool,
	    .alloc = cpu_alloc,
	    .release = cpu_release,
	    .alloc_host = cpu_alloc_host,
	    .release_host = cpu_release_host,
	    .memory = cpu_memory,
	    .put = cpu_move,
	    .get = cpu_move,
	    .fetch = cpu_move,
	    .send = cpu_move,
	    .copy = cpu_move,
	    .fill = cpu_fill,
	    .error = cpu_error,
	    .sync = cpu_error,
	    .event_new = cpu_event_new,
	    .event_free = cpu_event_free,
	    .event_record = cpu_event_record,
	    .event_follow = cpu_event_record,
	    .event_passed = cpu_event_passed,
	    .peak_flops = cpu_peak_flops,
	    .peak_bytes = cpu_peak_bytes,
	    .close = cpu_close,
	};
	memcpy(c->device.kernel, real == DT_F64 ? double_kernels : flavour_kernels(), sizeof c->device.kernel);
	return &c->device;
}
