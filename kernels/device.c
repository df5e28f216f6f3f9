#include "kernels/device.h"

#include <assert.h>

size_t dtype_size(enum dtype t)
{
	return t == DT_F64 ? 8 : 4;
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

int64_t array_row_offset(const struct array *a, int64_t row)
{
	int64_t off = 0;

	for (int d = a->rank - 2; d >= 0; d--) {
		off += row % a->shape[d] * a->stride[d];
		row /= a->shape[d];
	}
	return off;
}
