/* IM2COL, COL2IM; kernels/im2col.c is the definition. A thread writes what it owns: neighbouring elements of a patch, or a pixel. */
#include "kernels/launch.h"

struct patches {
	struct divider k, area, row, wo, ho, h, w, channels; /* row: elements of a patch */
	int64_t height, width, depth, size, step, pad, across, down;
};

static __device__ inline float patch_element(const struct patches &p, struct reals x, uint32_t i)
{
	uint32_t at, ox, oy, b, c, ky, kx;
	uint32_t patch = divide_rest(p.row, i, &at);
	int64_t row, col;

	b = divide_rest(p.ho, divide_rest(p.wo, patch, &ox), &oy);
	c = divide_rest(p.area, at, &at);
	ky = divide_rest(p.k, at, &kx);
	row = oy * p.step - p.pad + ky;
	col = ox * p.step - p.pad + kx;
	if (row < 0 || row >= p.height || col < 0 || col >= p.width)
		return 0;
	return reals_get(x, ((b * p.depth + c) * p.height + row) * p.width + col);
}

static __global__ void im2col_packed(int64_t n, struct patches p, struct reals y, struct reals x)
{
	for (int64_t i = thread_index() * PACK; i < n; i += thread_count() * PACK) {
		float v[PACK];

		for (int k = 0; k < PACK; k++)
			v[k] = patch_element(p, x, (uint32_t)(i + k));
		reals_set8(y, i, v);
	}
}

static __global__ void im2col_any(int64_t from, int64_t n, struct patches p, struct reals y, struct reals x)
{
	for (int64_t i = from + thread_index(); i < n; i += thread_count())
		reals_set(y, i, patch_element(p, x, (uint32_t)i));
}

/* The first patch along a side that reaches pixel `at`, and the last of those that begin at or before it. */
static __device__ inline void reaching(const struct patches &p, int64_t at, int64_t patches, int64_t *first, int64_t *last)
{
	int64_t start = at + p.pad, least = start - p.size + 1;

	*first = least > 0 ? (least + p.step - 1) / p.step : 0;
	*last = start / p.step < patches ? start / p.step : patches - 1;
}

/* Patches in the order of (oy, ox): of each, one element lies at the pixel. */
static __global__ void col2im_pixels(int64_t n, struct patches p, struct reals x, struct reals y)
{
	for (int64_t i = thread_index(); i < n; i += thread_count()) {
		uint32_t row, col, c;
		uint32_t b = divide_rest(p.channels, divide_rest(p.h, divide_rest(p.w, (uint32_t)i, &col), &row), &c);
		int64_t top, bottom, left, right;
		float sum = 0;

		reaching(p, row, p.down, &top, &bottom);
		reaching(p, col, p.across, &left, &right);
		for (int64_t oy = top; oy <= bottom; oy++)
			for (int64_t ox = left; ox <= right; ox++) {
				int64_t ky = row + p.pad - oy * p.step, kx = col + p.pad - ox * p.step;

				sum += reals_get(y, ((b * p.down + oy) * p.across + ox) * p.row.by + c * p.area.by + ky * p.size + kx);
			}
		reals_set(x, i, sum);
	}
}

static struct patches patches_of(const struct op_call *c, const struct array *x)
{
	struct patches p;
	int64_t k = c->attr.i[0];

	p.size = k;
	p.step = c->attr.i[1];
	p.pad = c->attr.i[2];
	p.depth = x->shape[1];
	p.height = x->shape[2];
	p.width = x->shape[3];
	p.down = (p.height + 2 * p.pad - k) / p.step + 1;
	p.across = (p.width + 2 * p.pad - k) / p.step + 1;
	p.k = divider_of(k);
	p.area = divider_of(k * k);
	p.row = divider_of(p.depth * k * k);
	p.wo = divider_of(p.across);
	p.ho = divider_of(p.down);
	p.h = divider_of(p.height);
	p.w = divider_of(p.width);
	p.channels = divider_of(p.depth);
	return p;
}

/* A sample at a time would do for any size; samples together while dividers hold their elements. */
static int64_t samples_together(const struct array *x, const struct array *y)
{
	int64_t n = x->shape[0], a = array_count(x) / n, b = array_count(y) / n, most = INT32_MAX / (a > b ? a : b);

	return most < n ? most : n;
}

static struct array samples_from(const struct array *a, int64_t first)
{
	struct array s = *a;

	s.data = (char *)a->data + first * a->stride[0] * (int64_t)dtype_size(a->dtype);
	return s;
}

static void im2col_some(const struct op_call *c, const struct array *y, const struct array *x, int64_t count)
{
	struct patches p = patches_of(c, x);
	int64_t packed = (uintptr_t)y->data % 16 ? 0 : count / PACK * PACK;

	if (packed)
		LAUNCH(c, im2col_packed, blocks_for(packed / PACK), BLOCK, packed, p, reals_of(y), reals_of(x));
	if (packed < count)
		LAUNCH(c, im2col_any, blocks_for(count - packed), BLOCK, packed, count, p, reals_of(y), reals_of(x));
}

static void im2col_run(const struct op_call *c)
{
	const struct array *x = &c->in[0], *y = &c->out[0];

	if (!array_count(x) || !array_count(y))
		return;
	for (int64_t b = 0, n = samples_together(x, y); b < x->shape[0]; b += n) {
		struct array from = samples_from(x, b), to = samples_from(y, b);

		n = x->shape[0] - b < n ? x->shape[0] - b : n;
		im2col_some(c, &to, &from, array_count(y) / x->shape[0] * n);
	}
}

static void col2im_run(const struct op_call *c)
{
	const struct array *x = &c->out[0], *y = &c->in[0];

	if (!array_count(x))
		return;
	for (int64_t b = 0, n = samples_together(x, y); b < x->shape[0]; b += n) {
		struct array to = samples_from(x, b), from = samples_from(y, b);
		int64_t count;

		n = x->shape[0] - b < n ? x->shape[0] - b : n;
		count = array_count(x) / x->shape[0] * n;
		LAUNCH(c, col2im_pixels, blocks_for(count), BLOCK, count, patches_of(c, x), reals_of(&to), reals_of(&from));
	}
}

extern "C" {
extern const struct kernel kernel_im2col_cuda = {im2col_run, NULL};
extern const struct kernel kernel_col2im_cuda = {col2im_run, NULL};
}
