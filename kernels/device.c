/* What every device shares: names, opening by name, shapes and strides of arrays, running a single op. */
#include "kernels/device.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/str.h"
#include "kernels/cublaslt.h"
#include "kernels/cudadevice.h"
#include "kernels/profile.h"

#ifndef HAVE_CUDA
struct device *device_cuda(int index, struct pool *pool, struct err *e)
{
	(void)index;
	(void)pool;
	err_set(e, ERR_UNAVAILABLE, "this build knows no CUDA device (configure --with-cuda=yes makes one that does)");
	return NULL;
}
#endif

size_t dtype_size(enum dtype t)
{
	assert(t != DT_COMPACT);
	return t == DT_F64 ? 8 : t == DT_BF16 ? 2 : 4;
}

const char *op_name(enum op op)
{
	static const char *const names[OP_COUNT] = {
	    [OP_VIEW] = "VIEW",
#define X(id, fn) [OP_##id] = #id,
	    OPS(X)
#undef X
	};

	assert((int)op >= 0 && op < OP_COUNT);
	return names[op];
}

int64_t array_count(const struct array *a)
{
	int64_t n = 1;

	for (int d = 0; d < a->rank; d++)
		n *= a->shape[d];
	return n;
}

int array_contiguous(const struct array *a)
{
	int64_t want = 1;

	for (int d = a->rank - 1; d >= 0; d--) {
		if (a->shape[d] != 1 && a->stride[d] != want)
			return 0;
		want *= a->shape[d];
	}
	return 1;
}

int64_t array_rows(const struct array *a)
{
	int64_t n = 1;

	for (int d = 0; d + 1 < a->rank; d++)
		n *= a->shape[d];
	return n;
}

int array_row_stride(const struct array *a, int64_t *stride)
{
	int64_t step = a->rank ? a->shape[a->rank - 1] : 1, span = 0;
	int seen = 0;

	for (int d = a->rank - 2; d >= 0; d--) {
		if (a->shape[d] == 1)
			continue;
		if (!seen)
			step = a->stride[d];
		else if (a->stride[d] != span)
			return 0;
		seen = 1;
		span = a->stride[d] * a->shape[d];
	}
	*stride = step;
	return 1;
}

int array_sums_runs(const struct array *x, const struct array *y)
{
	int64_t summed = 0, kept = INT64_MAX;

	for (int d = 0; d < x->rank; d++) {
		int64_t step = llabs(x->stride[d]);

		if (x->shape[d] != 1 && y->shape[d] == 1)
			summed = step;
		else if (d == 0)
			kept = step ? step : INT64_MAX;
		else if (x->shape[d] != 1)
			kept = step;
	}
	return summed < kept;
}

int64_t array_row_offset(const struct array *a, int64_t row)
{
	int64_t off = 0;

	for (int d = a->rank - 2; d >= 0; d--) {
		off += row % a->shape[d] * a->stride[d];
		row /= a->shape[d];
	}
	return off;
}

struct array array_vector(enum dtype t, void *data, int64_t n)
{
	return (struct array){.data = data, .dtype = t, .rank = 1, .shape = {n}, .stride = {1}};
}

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

	return k->scratch ? k->scratch(c, pool_threads(d->pool)) : 0;
}

void device_run(struct device *d, enum op op, struct op_call *c, void *scratch)
{
	c->device = d;
	c->stream = 0;
	c->pool = d->pool;
	c->scratch = scratch;
	if (d->profile)
		profile_run(d->profile, op, c, 0);
	else
		d->kernel[op]->run(c);
}

struct device_peaks device_peaks(struct device *d)
{
	return (struct device_peaks){d->peak_flops ? d->peak_flops(d) : NAN, d->peak_bytes ? d->peak_bytes(d) : NAN};
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

const char *const precision_names[PRECISIONS + 1] = {"f32", "tf32", "bf16", NULL};

static int computes_in(const struct device *d, enum precision p)
{
	return p == PRECISION_F32 || (p == PRECISION_TF32 ? d->cublaslt != NULL : d->storage >> DT_BF16 & 1);
}

int device_set_precision(struct device *d, enum precision p, struct err *e)
{
	if (!computes_in(d, p))
		return err_set(e, ERR_USAGE, "device %s does not compute in %s, only in f32", d->name, precision_names[p]);
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
	return computes_in(d, PRECISION_BF16) ? PRECISION_BF16 : PRECISION_F32;
}

/* What it has no kernel for shows when a network that needs it is laid out, by name. */
static struct device *open_any(struct pool *pool)
{
	struct err none = {0};
	struct device *d = device_cuda(0, pool, &none);

	return d ? d : device_cpu(pool, DT_F32);
}

struct device *device_open(const char *name, struct pool *pool, struct err *e)
{
	int64_t index = 0;

	if (!strcmp(name, "cpu"))
		return device_cpu(pool, DT_F32);
	if (!strcmp(name, "auto"))
		return open_any(pool);
	if (strcmp(name, "cuda") && (strncmp(name, "cuda:", 5) || parse_i64(name + 5, 0, 1023, &index))) {
		err_set(e, ERR_USAGE, "device \"%s\" is none of auto, cpu, cuda, cuda:N", name);
		return NULL;
	}
	return device_cuda((int)index, pool, e);
}
