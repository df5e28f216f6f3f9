/* Functions on the shapes and strides of arrays, the sizes of dtypes, and the names of ops. Declared in kernels/device.h. */
#include <assert.h>
#include <stdlib.h>

#include "kernels/device.h"

size_t dtype_size(enum dtype t)
{
	assert(t != DT_COMPACT);
	return t == DT_F64 ? 8 : t == DT_BF16 ? 2 : 4;
}

const char *op_name(enum op op)
{
	static const char *const names[OP_COUNT] = {[OP_VIEW] = "VIEW",
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

struct array array_vector(enum dtype t, void *data, int64_t n)
{
	return (struct array){.data = data, .dtype = t, .rank = 1, .shape = {n}, .stride = {1}};
}
