/* POOL and POOL_GRAD on the GPU; kernels/pooling.c is the reference. A thread computes one element of the output. It visits the pixels of its
 * window, or in the gradient the windows that contain its pixel, in the same order as the CPU. */
#include "kernels/launch.h"

struct windows {
	struct reals x, y, dy, dx;
	int64_t count; /* elements written */
	int kind;
	int64_t k, step, pad, h, w, ho, wo, channels;
};

/* The part of a window inside the image. */
struct window {
	int64_t y0, y1, x0, x1;
};

static __device__ inline struct window window_at(const struct windows &p, int64_t oy, int64_t ox)
{
	const int64_t y = oy * p.step - p.pad, x = ox * p.step - p.pad;
	struct window v = {y < 0 ? 0 : y, y + p.k < p.h ? y + p.k : p.h, x < 0 ? 0 : x, x + p.k < p.w ? x + p.k : p.w};

	return v;
}

static __device__ inline float share_of(const struct windows &p, const struct window &v)
{
	return 1.f / (float)(p.kind == POOL_AVERAGE_ALL ? p.k * p.k : (v.y1 - v.y0) * (v.x1 - v.x0));
}

static __device__ inline int64_t pixel_at(const struct windows &p, int64_t b, int64_t y, int64_t x, int64_t c)
{
	return ((b * p.h + y) * p.w + x) * p.channels + c;
}

static __global__ void pool_elements(struct windows p)
{
	for (int64_t i = thread_index(); i < p.count; i += thread_count()) {
		const int64_t o = i / p.channels, c = i - o * p.channels, b = o / (p.ho * p.wo), at = o - b * p.ho * p.wo;
		const struct window v = window_at(p, at / p.wo, at % p.wo);
		float all = reals_get(p.x, pixel_at(p, b, v.y0, v.x0, c));

		for (int64_t y = v.y0; y < v.y1; y++)
			for (int64_t x = v.x0; x < v.x1; x++)
				if (y > v.y0 || x > v.x0) {
					const float u = reals_get(p.x, pixel_at(p, b, y, x, c));

					all = p.kind != POOL_MAX ? all + u : u > all || u != u ? u : all;
				}
		reals_set(p.y, i, p.kind == POOL_MAX ? all : all * share_of(p, v));
	}
}

/* Whether (y, x) is the first maximum of the window, in row-major order. */
static __device__ inline int is_largest(const struct windows &p, const struct window &v, int64_t b, int64_t y, int64_t x, int64_t c)
{
	int64_t best_y = v.y0, best_x = v.x0;
	float best = reals_get(p.x, pixel_at(p, b, v.y0, v.x0, c));

	for (int64_t i = v.y0; i < v.y1; i++)
		for (int64_t j = v.x0; j < v.x1; j++) {
			const float u = reals_get(p.x, pixel_at(p, b, i, j, c));

			if (u > best)
				best = u, best_y = i, best_x = j;
		}
	return best_y == y && best_x == x;
}

/* The first window along a side that reaches `at`. */
static __device__ inline int64_t first_window(const struct windows &p, int64_t at)
{
	const int64_t least = at + p.pad - p.k + 1;

	return least > 0 ? (least + p.step - 1) / p.step : 0;
}

static __global__ void pool_grad_elements(struct windows p)
{
	for (int64_t i = thread_index(); i < p.count; i += thread_count()) {
		const int64_t pixel = i / p.channels, c = i - pixel * p.channels, b = pixel / (p.h * p.w), at = pixel - b * p.h * p.w;
		const int64_t y = at / p.w, x = at % p.w;
		float sum = 0.f;

		for (int64_t oy = first_window(p, y); oy < p.ho && oy * p.step - p.pad <= y; oy++)
			for (int64_t ox = first_window(p, x); ox < p.wo && ox * p.step - p.pad <= x; ox++) {
				const struct window v = window_at(p, oy, ox);
				const float dy = reals_get(p.dy, ((b * p.ho + oy) * p.wo + ox) * p.channels + c);

				if (p.kind != POOL_MAX)
					sum += dy * share_of(p, v);
				else if (is_largest(p, v, b, y, x, c))
					sum += dy;
			}
		reals_set(p.dx, i, sum);
	}
}

static struct windows windows_of(const struct op_call *c, const struct array *x, const struct array *y)
{
	struct windows p;

	memset(&p, 0, sizeof p);
	p.x = reals_of(x);
	p.kind = (int)c->attr.pool.kind;
	p.k = c->attr.pool.k;
	p.step = c->attr.pool.stride;
	p.pad = c->attr.pool.pad;
	p.h = x->shape[1];
	p.w = x->shape[2];
	p.channels = x->shape[3];
	p.ho = y->shape[1];
	p.wo = y->shape[2];
	p.count = array_count(&c->out[0]);
	return p;
}

static void pool_run_op(const struct op_call *c)
{
	struct windows p = windows_of(c, &c->in[0], &c->out[0]);

	p.y = reals_of(&c->out[0]);
	if (p.count)
		LAUNCH(c, pool_elements, blocks_for(p.count), BLOCK, p);
}

static void pool_grad_run(const struct op_call *c)
{
	struct windows p = windows_of(c, &c->in[1], &c->in[0]);

	p.dy = reals_of(&c->in[0]);
	p.dx = reals_of(&c->out[0]);
	if (p.count)
		LAUNCH(c, pool_grad_elements, blocks_for(p.count), BLOCK, p);
}

extern "C" {
extern const struct kernel kernel_pool_cuda = {pool_run_op, NULL};
extern const struct kernel kernel_pool_grad_cuda = {pool_grad_run, NULL};
}
