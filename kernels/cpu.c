#include <string.h>

#include "core/mem.h"
#include "kernels/device.h"

#define X(id, fn) extern const struct kernel kernel_##fn##_f32, kernel_##fn##_f64;
OPS(X)
#undef X

static void *cpu_alloc(struct device *d, size_t bytes, const char *what, struct err *e)
{
	(void)d;
	return mem_try(bytes, 1, what, e);
}

static void cpu_release(struct device *d, void *p)
{
	(void)d;
	mem_free(p);
}

static void cpu_move(struct device *d, void *dst, const void *src, size_t bytes)
{
	(void)d;
	memcpy(dst, src, bytes);
}

static int cpu_error(struct device *d, struct err *e)
{
	(void)d;
	(void)e;
	return 0;
}

static const struct kernel *const float_kernels[OP_COUNT] = {
#define X(id, fn) [OP_##id] = &kernel_##fn##_f32,
    OPS(X)
#undef X
};

static const struct kernel *const double_kernels[OP_COUNT] = {
#define X(id, fn) [OP_##id] = &kernel_##fn##_f64,
    OPS(X)
#undef X
};

struct device *device_cpu(struct pool *pool, enum dtype real)
{
	struct device *d = mem_alloc(sizeof *d);

	*d = (struct device){
	    .name = real == DT_F64 ? "cpu, double" : "cpu",
	    .real = real,
	    .pool = pool,
	    .alloc = cpu_alloc,
	    .release = cpu_release,
	    .put = cpu_move,
	    .get = cpu_move,
	    .error = cpu_error,
	};
	memcpy(d->kernel, real == DT_F64 ? double_kernels : float_kernels, sizeof d->kernel);
	return d;
}

void device_free(struct device *d)
{
	mem_free(d);
}
