/* Solvers of the probability-flow ODE on an even or given grid of times. */
#include "diffusion/solver.h"

#include <assert.h>

#include "diffusion/ondevice.h"

int64_t solver_evaluations(const struct solver *s)
{
	return s->kind == SOLVER_EULER ? s->steps : 2 * s->steps - (s->to == 0);
}

int64_t solver_work(const struct solver *s, int64_t count)
{
	return s->kind == SOLVER_EULER ? count : 3 * count;
}

static double grid_time(const struct solver *s, int64_t i)
{
	if (s->times)
		return s->times[i];
	if (s->last > 0 && i < s->steps)
		return s->steps == 1 ? s->from : (s->from * (double)(s->steps - 1 - i) + s->last * (double)i) / (double)(s->steps - 1);
	return (s->from * (double)(s->steps - i) + s->to * (double)i) / (double)s->steps;
}

int solver_run(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, void *arg, struct err *e)
{
	float *v = work, *v2 = work + count, *y = work + 2 * count;

	assert(s->steps > 0);
	for (int64_t i = 0; i < s->steps; i++) {
		double t = grid_time(s, i), next = grid_time(s, i + 1), h = next - t;

		if (field(arg, v, x, t, i, 0, e))
			return -1;
		if (s->kind == SOLVER_EULER || next == 0) {
			ondevice_advance(d, x, x, h, v, NULL, count);
			continue;
		}
		ondevice_advance(d, y, x, h, v, NULL, count);
		if (field(arg, v2, y, next, i, 1, e))
			return -1;
		ondevice_advance(d, x, x, .5 * h, v, v2, count);
	}
	return 0;
}
