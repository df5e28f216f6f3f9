/* Functions common to all devices: copying bytes, running a single op, ranges for a profiler, precision. */
#include "kernels/device.h"

#include <stdio.h>

#include "kernels/compact.h"
#include "kernels/cublaslt.h"
#include "kernels/gemm_library.h"
#include "kernels/profile.h"

void device_put(struct device *d, void *dst, const void *src, size_t bytes)
{
	d->put(d, 0, dst, src, bytes);
}

void device_get(struct device *d, void *dst, const void *src, size_t bytes)
{
	d->get(d, 0, dst, src, bytes);
}

void device_copy(struct device *d, void *dst, const void *src, size_t bytes)
{
	d->copy(d, 0, dst, src, bytes);
}

size_t device_scratch(struct device *d, enum op op, const struct op_call *c)
{
	const struct kernel *k = d->kernel[op];
	struct op_call here = *c;

	here.device = d;
	return k->scratch ? k->scratch(&here, pool_threads(d->pool)) : 0;
}

void device_run(struct device *d, enum op op, struct op_call *c, void *scratch)
{
	device_run_on(d, 0, op, c, scratch);
}

void device_run_on(struct device *d, int stream, enum op op, struct op_call *c, void *scratch)
{
	c->device = d;
	c->stream = stream;
	c->pool = d->pool;
	c->scratch = scratch;
	if (d->profile)
		profile_run(d->profile, op, c, 0);
	else
		d->kernel[op]->run(c);
}

void device_range(struct device *d, const char *name)
{
	if (d->range_begin)
		d->range_begin(d, name);
}

void device_range_number(struct device *d, const char *name, int number)
{
	char text[64];

	if (!d->range_begin)
		return;
	snprintf(text, sizeof text, "%s %d", name, number);
	d->range_begin(d, text);
}

void device_range_end(struct device *d)
{
	if (d->range_end)
		d->range_end(d);
}

void device_free(struct device *d)
{
	if (d)
		d->close(d);
}

const char *const precision_names[PRECISIONS + 1] = {"f32", "tf32", "bf16", "bf16-emulated", NULL};

int device_stores_bf16(const struct device *d, enum precision p)
{
	return p == PRECISION_BF16 && d->storage >> DT_BF16 & 1;
}

/* Whether the device is a CPU with the kernels for floats. */
static int is_float_cpu(const struct device *d)
{
	return d->compact;
}

static int computes_in(const struct device *d, enum precision p)
{
	switch (p) {
	case PRECISION_TF32:
		return d->cublaslt != NULL;
	case PRECISION_BF16:
		return device_stores_bf16(d, p) || is_float_cpu(d);
	case PRECISION_BF16_EMULATED:
		return is_float_cpu(d);
	default:
		return 1;
	}
}

int device_set_precision(struct device *d, enum precision p, struct err *e)
{
	if (!computes_in(d, p))
		return err_set(e, ERR_USAGE, "device %s does not compute in %s", d->name, precision_names[p]);
	if (p == PRECISION_BF16 && is_float_cpu(d) && compact_isa() == COMPACT_PORTABLE)
		return err_set(
		    e, ERR_UNAVAILABLE,
		    "precision bf16 needs a CPU with AMX or AVX512-BF16, which this one lacks; bf16-emulated works on any CPU, slower than f32");
	d->bf16_products = is_float_cpu(d) && (p == PRECISION_BF16 || p == PRECISION_BF16_EMULATED);
	d->bf16_isa = (int)(p == PRECISION_BF16 ? compact_isa() : compact_isa_pairwise());
	if (d->cublaslt)
		cublaslt_allow_tf32(d->cublaslt, p == PRECISION_TF32);
	return 0;
}

void device_set_invariant(struct device *d, int on)
{
	d->invariant = on;
}

enum precision device_precision(const struct device *d)
{
	return device_stores_bf16(d, PRECISION_BF16) ? PRECISION_BF16 : PRECISION_F32;
}

int device_portable(const struct device *d, enum precision p)
{
	return d->host && !gemm_library_f32() && (p == PRECISION_F32 || p == PRECISION_BF16_EMULATED);
}
