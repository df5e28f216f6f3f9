/* Runs trajectories, perturbed ones, and their linearisation. */
#include "diffusion/trajectory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

struct trajectories {
	const struct trajectory_plan *p;
	int64_t capacity;
	struct mixer *mixer;
	float *there_x, *there_v; /* (capacity, d), on the device */
	struct trajectory kept;
	float *x, *y, *v, *v2; /* (capacity, d) state, second stage, velocities */
	double *r, *q, *k1;    /* (capacity, d) */
};

static int64_t evaluations_of(const struct trajectory_plan *p, int64_t steps)
{
	return p->heun ? 2 * steps - 1 : steps;
}

static int allocate(struct trajectories *s, struct err *e)
{
	const struct mixture *m = s->p->mixture;
	struct trajectory *y = &s->kept;
	size_t row = (size_t)(s->capacity * m->d), rows = (size_t)s->capacity, all = (size_t)y->evaluations;

	if (!(s->there_x = m->device->alloc(m->device, row * sizeof(float), "states", e)) ||
	    !(s->there_v = m->device->alloc(m->device, row * sizeof(float), "velocities", e)))
		return -1;
	if (!(y->x = mem_try((size_t)(y->steps + 1) * row, sizeof *y->x, "trajectories", e)) ||
	    !(y->at = mem_try(all * row, sizeof *y->at, "trajectories", e)) || !(y->v = mem_try(all * row, sizeof *y->v, "velocities", e)) ||
	    !(y->w = mem_try(all * rows * (size_t)m->k, sizeof *y->w, "weights", e)) || !(s->x = mem_try(row, sizeof *s->x, "states", e)) ||
	    !(s->y = mem_try(row, sizeof *s->y, "states", e)) || !(s->v = mem_try(row, sizeof *s->v, "velocities", e)) ||
	    !(s->v2 = mem_try(row, sizeof *s->v2, "velocities", e)) || !(s->r = mem_try(row, sizeof *s->r, "tangents", e)) ||
	    !(s->q = mem_try(row, sizeof *s->q, "tangents", e)) || !(s->k1 = mem_try(row, sizeof *s->k1, "tangents", e)))
		return -1;
	y->heaviest = mem_zalloc(all * rows, sizeof *y->heaviest);
	y->t = mem_zalloc(all, sizeof *y->t);
	y->entry = mem_zalloc(all, sizeof *y->entry);
	y->first = mem_zalloc((size_t)y->steps, sizeof *y->first);
	return 0;
}

struct trajectories *trajectories_new(const struct trajectory_plan *p, int64_t capacity, struct err *e)
{
	struct trajectories *s = mem_zalloc(1, sizeof *s);

	s->p = p;
	s->capacity = capacity;
	s->kept.steps = p->steps;
	s->kept.evaluations = evaluations_of(p, p->steps);
	if ((s->mixer = mixer_new(p->mixture, capacity, e)) && !allocate(s, e))
		return s;
	trajectories_free(s);
	return NULL;
}

void trajectories_free(struct trajectories *s)
{
	if (!s)
		return;
	struct trajectory *y = &s->kept;
	void *const host[] = {y->x, y->at, y->v, y->w, y->heaviest, y->t, y->entry, y->first, s->x, s->y, s->v, s->v2, s->r, s->q, s->k1};
	struct device *dev = s->p->mixture->device;

	mixer_free(s->mixer);
	dev->release(dev, s->there_x);
	dev->release(dev, s->there_v);
	for (size_t i = 0; i < sizeof host / sizeof *host; i++)
		mem_free(host[i]);
	mem_free(s);
}

static double grid_time(int64_t steps, int64_t i)
{
	return (double)(steps - i) / (double)steps;
}

double trajectory_time(const struct trajectory_plan *p, int64_t i)
{
	return grid_time(p->steps, i);
}

struct jacobian_point trajectory_point(const struct trajectories *s, int64_t j, int frozen)
{
	const struct trajectory *y = &s->kept;
	int64_t d = s->p->mixture->d;

	return (struct jacobian_point){.n = y->n,
	                               .x = y->at + j * y->n * d,
	                               .t = y->t[j],
	                               .w = y->w + j * y->n * s->p->mixture->k,
	                               .routing = frozen ? NULL : y->entry[j],
	                               .index = y->index};
}

/* ---- runs ---- */

enum mode { KEEP, FREE, FROZEN };

/* A run of the rows in s->x from t = 1 to 0. */
struct run {
	enum mode mode;
	int64_t steps, evaluation;
	double *gain; /* (steps + 1, n) distances from the kept run, or NULL */
};

/* The policy's velocity, and what it chose. */
static int ask_policy(struct trajectories *s, const struct run *r, const float *x, double t, int64_t step, int stage, float *v, struct err *e)
{
	const struct mixture *m = s->p->mixture;
	struct trajectory *y = &s->kept;
	size_t count = (size_t)(y->n * m->d), bytes = count * sizeof *x;
	const struct mixture_call call = {.n = y->n,
	                                  .step = step,
	                                  .stage = stage,
	                                  .evaluation = r->evaluation,
	                                  .evaluations = evaluations_of(s->p, r->steps),
	                                  .t = t,
	                                  .x = s->there_x,
	                                  .index = y->index};

	device_put(m->device, s->there_x, x, bytes);
	if (mixer_velocity(s->mixer, s->there_v, &call, NULL, e))
		return -1;
	device_get(m->device, v, s->there_v, bytes);
	return m->device->error(m->device, e);
}

static void keep(struct trajectories *s, int64_t j, const float *x, double t, const float *v, int64_t step, int stage)
{
	const struct mixture *m = s->p->mixture;
	struct trajectory *y = &s->kept;
	size_t count = (size_t)(y->n * m->d);

	memcpy(y->at + (size_t)j * count, x, count * sizeof *x);
	memcpy(y->v + (size_t)j * count, v, count * sizeof *v);
	memcpy(y->w + j * y->n * m->k, mixer_weights(s->mixer), (size_t)(y->n * m->k) * sizeof *y->w);
	memcpy(y->heaviest + j * y->n, mixer_heaviest(s->mixer), (size_t)y->n * sizeof *y->heaviest);
	y->t[j] = t;
	y->entry[j] = policy_at(&m->policy, t);
	if (!stage)
		y->first[step] = j;
}

static int evaluate(struct trajectories *s, struct run *r, const float *x, double t, int64_t step, int stage, float *v, struct err *e)
{
	struct jacobian_point p;
	int rc;

	if (r->mode == FROZEN) {
		p = trajectory_point(s, r->evaluation, 1);
		p.x = x;
		rc = jacobian_field(s->p->jacobian, &p, v, e);
	} else {
		rc = ask_policy(s, r, x, t, step, stage, v, e);
	}
	if (!rc && r->mode == KEEP)
		keep(s, r->evaluation, x, t, v, step, stage);
	r->evaluation++;
	return rc;
}

/* y = x + h (v + v2), rounded once; v2 may be NULL. */
static void advance(float *y, const float *x, double h, const float *v, const float *v2, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = (float)(x[i] + h * (v2 ? (double)v[i] + v2[i] : v[i]));
}

static void visit(struct trajectories *s, const struct run *r, int64_t i)
{
	struct trajectory *y = &s->kept;
	int64_t d = s->p->mixture->d, n = y->n;

	if (r->mode == KEEP)
		memcpy(y->x + i * n * d, s->x, (size_t)(n * d) * sizeof *s->x);
	for (int64_t row = 0; r->gain && row < n; row++) {
		double sum = 0;

		for (int64_t c = row * d; c < (row + 1) * d; c++)
			sum += ((double)s->x[c] - y->x[i * n * d + c]) * ((double)s->x[c] - y->x[i * n * d + c]);
		r->gain[i * n + row] = sqrt(sum);
	}
}

static int run(struct trajectories *s, struct run *r, struct err *e)
{
	size_t count = (size_t)(s->kept.n * s->p->mixture->d);

	for (int64_t i = 0; i < r->steps; i++) {
		double t = grid_time(r->steps, i), end = grid_time(r->steps, i + 1), h = end - t;
		int second = s->p->heun && i + 1 < r->steps;

		visit(s, r, i);
		if (evaluate(s, r, s->x, t, i, 0, s->v, e))
			return -1;
		if (second) {
			advance(s->y, s->x, h, s->v, NULL, count);
			if (evaluate(s, r, s->y, end, i, 1, s->v2, e))
				return -1;
		}
		advance(s->x, s->x, second ? .5 * h : h, s->v, second ? s->v2 : NULL, count);
	}
	visit(s, r, r->steps);
	return 0;
}

static void draw_noise(struct trajectories *s)
{
	int64_t d = s->p->mixture->d;

	for (int64_t i = 0; i < s->kept.n; i++)
		rng_normal(s->x + i * d, (size_t)d, s->p->mixture->seed, RNG_SAMPLE, 0, (uint64_t)s->kept.index[i]);
}

const struct trajectory *trajectory_run(struct trajectories *s, int64_t n, const int64_t *index, struct err *e)
{
	struct run r = {.mode = KEEP, .steps = s->p->steps};

	assert(n > 0 && n <= s->capacity);
	s->kept.n = n;
	s->kept.index = index;
	draw_noise(s);
	return run(s, &r, e) ? NULL : &s->kept;
}

int trajectory_end(struct trajectories *s, int64_t steps, float *x, struct err *e)
{
	struct run r = {.mode = FREE, .steps = steps};

	draw_noise(s);
	if (run(s, &r, e))
		return -1;
	memcpy(x, s->x, (size_t)(s->kept.n * s->p->mixture->d) * sizeof *x);
	return 0;
}

int trajectory_perturb(struct trajectories *s, int direction, int frozen, uint64_t seed, double *gain, struct err *e)
{
	struct run r = {.mode = frozen ? FROZEN : FREE, .steps = s->p->steps, .gain = gain};
	int64_t d = s->p->mixture->d, n = s->kept.n;

	draw_noise(s);
	for (int64_t i = 0; i < n; i++) {
		double xx = 0, zz = 0;

		rng_normal(s->y, (size_t)d, seed, RNG_METRIC, 4 + (uint64_t)direction, (uint64_t)s->kept.index[i]);
		for (int64_t c = 0; c < d; c++) {
			xx += (double)s->x[i * d + c] * s->x[i * d + c];
			zz += (double)s->y[c] * s->y[c];
		}
		for (int64_t c = 0; c < d; c++)
			s->x[i * d + c] = (float)(s->x[i * d + c] + JACOBIAN_STEP * sqrt(xx / zz) * s->y[c]);
	}
	if (run(s, &r, e))
		return -1;
	for (int64_t i = s->p->steps; i >= 0; i--)
		for (int64_t row = 0; row < n; row++)
			gain[i * n + row] /= gain[row];
	return 0;
}

/* ---- linearised ---- */

static int product(struct trajectories *s, int64_t evaluation, int frozen, int transposed, const double *r, double *out, struct err *e)
{
	struct jacobian_point p = trajectory_point(s, evaluation, frozen);

	return transposed ? jacobian_transposed(s->p->jacobian, &p, r, out, e) : jacobian_times(s->p->jacobian, &p, r, 0, out, e);
}

/* Step i of Heun's method has the derivative I + h/2 J1 + h/2 J2 (I + h J1), of Euler's I + h J1. Going back, the factors are transposed in the other
 * order: with q = J2' g, g + h/2 q + h/2 J1' (g + h q). */
static int linear_step(struct trajectories *s, int64_t i, int frozen, int back, double *r, struct err *e)
{
	const struct trajectory *y = &s->kept;
	double h = grid_time(y->steps, i + 1) - grid_time(y->steps, i);
	int64_t first = y->first[i], count = y->n * s->p->mixture->d;
	int second = s->p->heun && i + 1 < y->steps;

	if (!second) {
		if (product(s, first, frozen, back, r, s->k1, e))
			return -1;
		for (int64_t c = 0; c < count; c++)
			r[c] += h * s->k1[c];
		return 0;
	}
	if (product(s, back ? first + 1 : first, frozen, back, r, s->k1, e))
		return -1;
	for (int64_t c = 0; c < count; c++)
		s->r[c] = r[c] + h * s->k1[c];
	if (product(s, back ? first : first + 1, frozen, back, s->r, s->q, e))
		return -1;
	for (int64_t c = 0; c < count; c++)
		r[c] += .5 * h * (s->k1[c] + s->q[c]);
	return 0;
}

int trajectory_tangent(struct trajectories *s, int frozen, double *r, struct err *e)
{
	for (int64_t i = 0; i < s->kept.steps; i++)
		if (linear_step(s, i, frozen, 0, r, e))
			return -1;
	return 0;
}

int trajectory_cotangent(struct trajectories *s, int frozen, double *g, struct err *e)
{
	for (int64_t i = s->kept.steps - 1; i >= 0; i--)
		if (linear_step(s, i, frozen, 1, g, e))
			return -1;
	return 0;
}

/* |u (d)|; u becomes a unit vector. */
static double take_length(double *u, int64_t d)
{
	double sum = 0;

	for (int64_t c = 0; c < d; c++)
		sum += u[c] * u[c];
	sum = sqrt(sum);
	for (int64_t c = 0; c < d && sum > 0; c++)
		u[c] /= sum;
	return sum;
}

/* A row that is done keeps its value; the others go on, and the batch ends with the last. */
int trajectory_gain(struct trajectories *s, int frozen, const struct jacobian_iteration *how, double *gain, struct err *e)
{
	int64_t d = s->p->mixture->d, n = s->kept.n, left = n;
	double *u = mem_alloc((size_t)(n * d) * sizeof *u);
	unsigned char *done = mem_zalloc((size_t)n, 1);
	int rc = 0;

	for (int64_t i = 0; i < n; i++) {
		rng_normal(s->y, (size_t)d, how->seed, RNG_METRIC, 3, (uint64_t)s->kept.index[i]);
		for (int64_t c = 0; c < d; c++)
			u[i * d + c] = s->y[c];
		take_length(u + i * d, d);
		gain[i] = NAN;
	}
	for (int64_t step = 0; step < how->most && left && !rc; step++) {
		rc = trajectory_tangent(s, frozen, u, e);
		for (int64_t i = 0; i < n; i++) {
			double found = take_length(u + i * d, d);

			if (done[i])
				continue;
			done[i] = fabs(found - gain[i]) <= how->tolerance * found;
			gain[i] = found;
			left -= done[i];
		}
		if (!rc && left)
			rc = trajectory_cotangent(s, frozen, u, e);
		for (int64_t i = 0; i < n; i++)
			take_length(u + i * d, d);
	}
	mem_free(u);
	mem_free(done);
	return rc;
}
