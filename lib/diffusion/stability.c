/* Measures the stability of trajectories. */
#include "diffusion/stability.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/median.h"
#include "core/mem.h"

#define STABILITY_NAME(column, name) name,
const char *const stability_names[] = {STABILITY_LIST(STABILITY_NAME)};

struct stability {
	const struct stability_plan *p;
	struct jacobian_plan parts;
	struct trajectory_plan path;
	struct jacobian *jacobian;
	struct trajectories *runs;
	int64_t capacity;
	double *value[STABILITY_COLUMNS]; /* (steps + 1, count), or (steps + 1, directions, count) of the amplifications */
	double *largest[2];               /* (count) */
	double *ratio, *apart, *length;   /* (count) path ratio; |x_0(N) - x_0(4 N)|^2; |x_0(4 N)|^2 */
	double *row;                      /* (capacity) */
	double *gain;                     /* (steps + 1, capacity) */
	double *tangent, *bend;           /* (capacity, d) */
	float *end;                       /* (capacity, d) */
	int64_t *index;                   /* (capacity) */
};

static int is_gain(int column)
{
	return column == STABILITY_AMPLIFICATION || column == STABILITY_AMPLIFICATION_FROZEN;
}

static int64_t per_time(const struct stability *s, int column)
{
	return s->p->count * (is_gain(column) ? s->p->directions : 1);
}

static int allocate(struct stability *s, struct err *e)
{
	const struct stability_plan *p = s->p;
	size_t row = (size_t)(s->capacity * p->mixture->d), times = (size_t)p->steps + 1, count = (size_t)p->count;

	for (int c = 0; c < STABILITY_COLUMNS; c++) {
		size_t n = times * (size_t)per_time(s, c);

		if (!(s->value[c] = mem_try(n, sizeof(double), "numbers of trajectories", e)))
			return -1;
		for (size_t i = 0; i < n; i++)
			s->value[c][i] = NAN;
	}
	for (int f = 0; f < 2; f++) {
		s->largest[f] = mem_zalloc(count, sizeof(double));
		for (size_t i = 0; i < count; i++)
			s->largest[f][i] = NAN;
	}
	s->ratio = mem_zalloc(count, sizeof *s->ratio);
	s->apart = mem_zalloc(count, sizeof *s->apart);
	s->length = mem_zalloc(count, sizeof *s->length);
	s->row = mem_zalloc((size_t)s->capacity, sizeof *s->row);
	s->gain = mem_zalloc(times * (size_t)s->capacity, sizeof *s->gain);
	s->index = mem_zalloc((size_t)s->capacity, sizeof *s->index);
	return (s->tangent = mem_try(row, sizeof *s->tangent, "tangents", e)) && (s->bend = mem_try(row, sizeof *s->bend, "tangents", e)) &&
	               (s->end = mem_try(row, sizeof *s->end, "samples", e))
	           ? 0
	           : -1;
}

struct stability *stability_new(const struct stability_plan *p, int64_t capacity, struct err *e)
{
	struct stability *s = mem_zalloc(1, sizeof *s);
	const struct mixture *m = p->mixture;

	assert(p->steps >= 1 && p->steps <= 500 && p->every >= 1 && m->device);
	s->p = p;
	s->capacity = capacity;
	s->parts = (struct jacobian_plan){.k = m->k, .d = m->d, .expert = m->expert, .router = m->router, .pull = p->pull, .device = m->device};
	if ((s->jacobian = jacobian_new(&s->parts, capacity, e))) {
		s->path = (struct trajectory_plan){.mixture = m, .jacobian = s->jacobian, .heun = p->heun, .steps = p->steps};
		if ((s->runs = trajectories_new(&s->path, capacity, e)) && !allocate(s, e))
			return s;
	}
	stability_free(s);
	return NULL;
}

void stability_free(struct stability *s)
{
	if (!s)
		return;
	void *const host[] = {s->largest[0], s->largest[1], s->ratio, s->apart, s->length, s->row, s->gain, s->tangent, s->bend, s->end, s->index};

	trajectories_free(s->runs);
	jacobian_free(s->jacobian);
	for (int c = 0; c < STABILITY_COLUMNS; c++)
		mem_free(s->value[c]);
	for (size_t i = 0; i < sizeof host / sizeof *host; i++)
		mem_free(host[i]);
	mem_free(s);
}

struct jacobian *stability_jacobian(struct stability *s)
{
	return s->jacobian;
}

struct trajectories *stability_trajectories(struct stability *s)
{
	return s->runs;
}

int stability_measures(const struct stability *s, int64_t i)
{
	return i < s->p->steps && i % s->p->every == 0;
}

/* ---- one batch ---- */

/* Store s->row as a column at time i for trajectories from `first` on. */
static void put(struct stability *s, enum stability_column c, int64_t i, int64_t first, int64_t n)
{
	memcpy(s->value[c] + i * s->p->count + first, s->row, (size_t)n * sizeof *s->row);
}

/* A pair of columns: with free and with frozen routing. */
static int measure_pair(struct stability *s, enum stability_column c, int64_t i, int64_t first, int64_t n,
                        int (*find)(struct jacobian *, const struct jacobian_point *, const struct jacobian_iteration *, double *, struct err *),
                        const struct trajectory *y, struct err *e)
{
	for (int frozen = 1; frozen >= 0; frozen--) {
		struct jacobian_point p = trajectory_point(s->runs, y->first[i], frozen);

		if ((frozen || jacobian_routes(s->jacobian, p.routing)) && find(s->jacobian, &p, &s->p->iteration, s->row, e))
			return -1;
		put(s, (enum stability_column)((int)c + frozen), i, first, n);
	}
	return 0;
}

static int measure_curvature(struct stability *s, int64_t i, int64_t first, int64_t n, const struct trajectory *y, struct err *e)
{
	struct jacobian_point p = trajectory_point(s->runs, y->first[i], 0);
	int64_t d = s->p->mixture->d;
	const float *u = y->v + y->first[i] * n * d;

	for (int64_t c = 0; c < n * d; c++)
		s->tangent[c] = u[c];
	if (jacobian_times(s->jacobian, &p, s->tangent, 1, s->bend, e))
		return -1;
	for (int64_t r = 0; r < n; r++) {
		double uu = 0, au = 0, across = 0;

		for (int64_t c = r * d; c < (r + 1) * d; c++) {
			uu += s->tangent[c] * s->tangent[c];
			au += s->bend[c] * s->tangent[c];
		}
		for (int64_t c = r * d; c < (r + 1) * d; c++) {
			double a = s->bend[c] - au / uu * s->tangent[c];

			across += a * a;
		}
		s->row[r] = sqrt(across * (double)d) / uu;
	}
	put(s, STABILITY_CURVATURE, i, first, n);
	return 0;
}

/* Straightness at every time, and the path ratio. */
static void measure_shape(struct stability *s, int64_t first, int64_t n, const struct trajectory *y)
{
	int64_t d = s->p->mixture->d, steps = s->p->steps;
	const float *x1 = y->x, *x0 = y->x + steps * n * d;

	for (int64_t r = 0; r < n; r++) {
		double whole = 0, path = 0;

		for (int64_t c = r * d; c < (r + 1) * d; c++)
			whole += ((double)x1[c] - x0[c]) * ((double)x1[c] - x0[c]);
		for (int64_t i = 0; i < steps; i++) {
			const float *x = y->x + i * n * d, *next = x + n * d, *u = y->v + y->first[i] * n * d;
			double off = 0, step = 0;

			for (int64_t c = r * d; c < (r + 1) * d; c++) {
				double a = (double)x1[c] - x0[c] - u[c], b = (double)next[c] - x[c];

				off += a * a;
				step += b * b;
			}
			s->value[STABILITY_STRAIGHTNESS][i * s->p->count + first + r] = off / (double)d;
			path += sqrt(step);
		}
		s->ratio[first + r] = path / sqrt(whole);
	}
}

/* Whether the weights depend on the state at some time. */
static int follows_state(const struct stability *s)
{
	const struct policy *y = &s->p->mixture->policy;
	int yes = 0;

	for (int i = 0; i < y->entries; i++)
		yes |= y->entry[i].select != SELECT_EXPERT &&
		       (y->entry[i].weights == WEIGHT_ROUTER || y->entry[i].weights == WEIGHT_DISTANCE || y->entry[i].weights == WEIGHT_UNCERTAINTY);
	return yes;
}

static int measure_gains(struct stability *s, int64_t first, int64_t n, struct err *e)
{
	int64_t count = s->p->count;

	for (int v = 0; v < s->p->directions; v++)
		for (int frozen = 1; frozen >= 0; frozen--) {
			double *to = s->value[STABILITY_AMPLIFICATION + frozen];

			if ((frozen || follows_state(s)) && trajectory_perturb(s->runs, v, frozen, s->p->iteration.seed, s->gain, e))
				return -1;
			for (int64_t i = 0; i <= s->p->steps; i++)
				memcpy(to + (i * s->p->directions + v) * count + first, s->gain + i * n, (size_t)n * sizeof *to);
		}
	for (int frozen = 1; frozen >= 0 && s->p->whole; frozen--) {
		if ((frozen || follows_state(s)) && trajectory_gain(s->runs, frozen, &s->p->iteration, s->row, e))
			return -1;
		memcpy(s->largest[frozen] + first, s->row, (size_t)n * sizeof *s->row);
	}
	return 0;
}

static int measure_gap(struct stability *s, int64_t first, int64_t n, const struct trajectory *y, struct err *e)
{
	int64_t d = s->p->mixture->d;
	const float *x0 = y->x + s->p->steps * n * d;

	if (trajectory_end(s->runs, 4 * s->p->steps, s->end, e))
		return -1;
	for (int64_t c = 0; c < n * d; c++) {
		s->apart[first + c / d] += ((double)x0[c] - s->end[c]) * ((double)x0[c] - s->end[c]);
		s->length[first + c / d] += (double)s->end[c] * s->end[c];
	}
	return 0;
}

/* exp(sum h mu): a sum over the measured times, each for the steps up to the next. */
static void find_bounds(struct stability *s, int64_t first, int64_t n)
{
	int64_t count = s->p->count, steps = s->p->steps;

	for (int64_t r = first; r < first + n; r++) {
		double sum = 0, mu = 0;

		for (int64_t i = 0; i <= steps; i++) {
			s->value[STABILITY_BOUND][i * count + r] = exp(sum);
			mu = stability_measures(s, i) ? s->value[STABILITY_MU][i * count + r] : mu;
			sum += mu / (double)steps;
		}
	}
}

const struct trajectory *stability_add(struct stability *s, int64_t first, int64_t n, struct err *e)
{
	const struct trajectory *y;

	assert(n <= s->capacity && first + n <= s->p->count);
	for (int64_t i = 0; i < n; i++)
		s->index[i] = first + i;
	if (!(y = trajectory_run(s->runs, n, s->index, e)))
		return NULL;
	measure_shape(s, first, n, y);
	for (int64_t i = 0; i < s->p->steps; i++)
		if (stability_measures(s, i) &&
		    (measure_pair(s, STABILITY_JACOBIAN, i, first, n, jacobian_norm, y, e) ||
		     measure_pair(s, STABILITY_MU, i, first, n, jacobian_rate, y, e) || measure_curvature(s, i, first, n, y, e)))
			return NULL;
	find_bounds(s, first, n);
	return measure_gains(s, first, n, e) || measure_gap(s, first, n, y, e) ? NULL : y;
}

/* ---- means ---- */

double stability_mean(const double *v, int64_t n)
{
	double sum = 0;
	int64_t k = 0;

	for (int64_t i = 0; i < n; i++)
		if (!isnan(v[i])) {
			sum += v[i];
			k++;
		}
	return k ? sum / (double)k : NAN;
}

static double median_of(const double *v, int64_t n)
{
	double *sorted = mem_alloc((size_t)n * sizeof *sorted), m;

	memcpy(sorted, v, (size_t)n * sizeof *sorted);
	m = median(sorted, n);
	mem_free(sorted);
	return m;
}

double stability_at(const struct stability *s, enum stability_column c, int64_t i)
{
	int64_t n = per_time(s, c);
	const double *v = s->value[c] + i * n;

	return is_gain(c) || c == STABILITY_BOUND ? median_of(v, n) : stability_mean(v, n);
}

struct stability_total stability_total(const struct stability *s)
{
	int64_t steps = s->p->steps, count = s->p->count;
	struct stability_total t = {.path = stability_mean(s->ratio, count)};
	double *at = mem_alloc((size_t)steps * sizeof *at), apart = 0, length = 0;

	for (int c = 0; c < STABILITY_COLUMNS; c++) {
		for (int64_t i = 0; i < steps; i++)
			at[i] = stability_at(s, (enum stability_column)c, i);
		t.column[c] = is_gain(c) || c == STABILITY_BOUND ? stability_at(s, (enum stability_column)c, steps) : stability_mean(at, steps);
	}
	for (int f = 0; f < 2; f++)
		t.largest[f] = stability_mean(s->largest[f], count);
	for (int64_t i = 0; i < count; i++) {
		apart += s->apart[i];
		length += s->length[i];
	}
	t.gap = sqrt(apart / length);
	mem_free(at);
	return t;
}
