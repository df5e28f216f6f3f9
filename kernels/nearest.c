/* NEAREST on the CPU, in the most direct way, as the reference. Clustering on the CPU uses matrix products instead (data/assign.c). */
#include "kernels/device.h"

#include <math.h>

#include "kernels/lanes.h"

LANES_SUM(distance2, (const real *x, const real *c, int64_t n), (L(x) - L(c)) * (L(x) - L(c)))

static void nearest_task(void *arg, int64_t piece, int worker)
{
	const struct op_call *c = arg;
	const struct array *x = &c->in[0], *centres = &c->in[1];
	const real *offset = c->in[2].data;
	int64_t n = x->shape[0], d = x->shape[1], k = centres->shape[0], begin = piece * NEAREST_PIECE;
	int32_t *cluster = c->out[0].data;
	real *near = c->out[1].data;
	double sum = 0;

	(void)worker;
	for (int64_t i = begin; i < n && i < begin + NEAREST_PIECE; i++) {
		real best = INFINITY, least = INFINITY;
		int32_t at = 0;

		for (int64_t o = 0; o < k; o++) {
			real r = distance2((const real *)x->data + i * d, (const real *)centres->data + o * d, d),
			     price = r + (offset ? offset[o] : 0);

			if (price < least) {
				least = price;
				best = r;
				at = (int32_t)o;
			}
		}
		if (cluster)
			cluster[i] = at;
		near[i] = c->attr.nearest.lower && near[i] < best ? near[i] : best;
		sum += (double)near[i];
	}
	((double *)c->out[2].data)[piece] = sum;
}

static void nearest_run(const struct op_call *c)
{
	pool_spread(c->pool, c->out[2].shape[0], nearest_task, (void *)(uintptr_t)c);
}

const struct kernel REAL_NAME(kernel_nearest) = {nearest_run, NULL};
