/* Jacobian products of an ensemble's velocity, and power iterations on them. */
#include "diffusion/jacobian.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/route.h"

enum { SIDES = 3 };

/* A derivative by differences: sum_s slope_s f(s h) / h, and f(0) = sum_s value_s f(s h) to the same order. */
struct stencil {
	int n;
	double at[SIDES], slope[SIDES], value[SIDES];
};
static const struct stencil central = {2, {1, -1}, {.5, -.5}, {.5, .5}}, backward = {3, {0, -1, -2}, {1.5, -2, .5}, {1}};

struct jacobian {
	const struct jacobian_plan *p;
	int64_t capacity;
	float *there_x, *there_v, *there_logits; /* (capacity, d) twice, (capacity, k), on the device */
	float *x, *v, *r, *g;                    /* (capacity, d) rows of one expert: states, velocities, cotangents, gradients */
	float *side;                             /* (capacity, d) states beside x */
	float *time, *logits;                    /* (capacity), (SIDES, capacity, k) */
	int32_t *label;                          /* (capacity) null labels */
	int64_t *row;                            /* (capacity) */
	double *dw, *q, *h;                      /* (capacity, k) twice, (capacity) */
	/* iterations */
	float *some_x;         /* (capacity, d) of the rows that are not done */
	double *some_w;        /* (capacity, k) */
	int64_t *left;         /* (capacity) */
	double *u, *a, *b;     /* (capacity, d) */
	double *before, *more; /* (capacity) */
};

static int allocate(struct jacobian *j, struct err *e)
{
	size_t n = (size_t)j->capacity, k = (size_t)j->p->k, d = n * (size_t)j->p->d;
	struct device *dev = j->p->device;
	float **const floats[] = {&j->x, &j->v, &j->r, &j->g, &j->side, &j->some_x};
	double **const doubles[] = {&j->u, &j->a, &j->b};

	if (!(j->there_x = dev->alloc(dev, d * sizeof(float), "states", e)) || !(j->there_v = dev->alloc(dev, d * sizeof(float), "velocities", e)) ||
	    !(j->there_logits = dev->alloc(dev, n * k * sizeof(float), "logits", e)))
		return -1;
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
		if (!(*floats[i] = mem_try(d, sizeof(float), "states", e)))
			return -1;
	for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
		if (!(*doubles[i] = mem_try(d, sizeof(double), "directions", e)))
			return -1;
	j->time = mem_zalloc(n, sizeof *j->time);
	j->logits = mem_zalloc(SIDES * n * k, sizeof *j->logits);
	j->label = mem_zalloc(n, sizeof *j->label);
	j->row = mem_zalloc(n, sizeof *j->row);
	j->dw = mem_zalloc(n * k, sizeof *j->dw);
	j->q = mem_zalloc(n * k, sizeof *j->q);
	j->h = mem_zalloc(n, sizeof *j->h);
	j->some_w = mem_zalloc(n * k, sizeof *j->some_w);
	j->left = mem_zalloc(n, sizeof *j->left);
	j->before = mem_zalloc(n, sizeof *j->before);
	j->more = mem_zalloc(n, sizeof *j->more);
	return 0;
}

struct jacobian *jacobian_new(const struct jacobian_plan *p, int64_t capacity, struct err *e)
{
	struct jacobian *j = mem_zalloc(1, sizeof *j);

	j->p = p;
	j->capacity = capacity;
	if (!allocate(j, e))
		return j;
	jacobian_free(j);
	return NULL;
}

void jacobian_free(struct jacobian *j)
{
	if (!j)
		return;
	void *const host[] = {j->x, j->v, j->r,      j->g,      j->side, j->time, j->logits, j->label, j->row,    j->dw,
	                      j->q, j->h, j->some_x, j->some_w, j->left, j->u,    j->a,      j->b,     j->before, j->more};

	j->p->device->release(j->p->device, j->there_x);
	j->p->device->release(j->p->device, j->there_v);
	j->p->device->release(j->p->device, j->there_logits);
	for (size_t i = 0; i < sizeof host / sizeof *host; i++)
		mem_free(host[i]);
	mem_free(j);
}

int jacobian_routes(const struct jacobian *j, const struct policy_entry *y)
{
	return y->weights == WEIGHT_ROUTER && y->select != SELECT_EXPERT && j->p->router != NULL && j->p->k > 1;
}

static double dot(const double *a, const double *b, int64_t n)
{
	double s = 0;

	for (int64_t i = 0; i < n; i++)
		s += a[i] * b[i];
	return s;
}

static void fill_times(struct jacobian *j, int64_t n, double t)
{
	for (int64_t i = 0; i < n; i++)
		j->time[i] = (float)t;
}

int jacobian_expert(struct jacobian *j, int k, int64_t n, const float *x, double t, float *v, struct err *e)
{
	const struct expert *expert = &j->p->expert[k];
	const struct condition none = {.label = expert->classes ? j->label : NULL};
	struct device *dev = j->p->device;
	int64_t d = j->p->d;
	size_t bytes = (size_t)(n * d) * sizeof *x;

	assert(n <= j->capacity && expert->velocity);
	fill_times(j, n, t);
	for (int64_t i = 0; i < n; i++)
		j->label[i] = expert->classes;
	device_put(dev, j->there_x, x, bytes);
	for (int64_t i = 0; i < n; i += expert->capacity) {
		int64_t rows = n - i < expert->capacity ? n - i : expert->capacity;

		if (expert->velocity(expert->arg, rows, j->there_x + i * d, j->time, &none, j->there_v + i * d, e))
			return -1;
	}
	device_get(dev, v, j->there_v, bytes);
	return dev->error(dev, e);
}

static int ask_router(struct jacobian *j, int64_t n, const float *x, double t, float *logits, struct err *e)
{
	const struct router *r = j->p->router;
	struct device *dev = j->p->device;
	int64_t d = j->p->d, k = j->p->k;

	fill_times(j, n, t);
	device_put(dev, j->there_x, x, (size_t)(n * d) * sizeof *x);
	for (int64_t i = 0; i < n; i += r->capacity) {
		int64_t rows = n - i < r->capacity ? n - i : r->capacity;

		if (r->logits(r->arg, rows, j->there_x + i * d, j->time, j->there_logits + i * k, e))
			return -1;
	}
	device_get(dev, logits, j->there_logits, (size_t)(n * k) * sizeof *logits);
	return dev->error(dev, e);
}

/* Gather the rows of x that use expert k into j->x, their numbers into j->row. Returns how many. */
static int64_t gather(struct jacobian *j, const struct jacobian_point *p, int k, const float *x)
{
	int64_t m = 0, d = j->p->d;

	for (int64_t i = 0; i < p->n; i++) {
		if (p->w[i * j->p->k + k] == 0 && j->dw[i * j->p->k + k] == 0)
			continue;
		memcpy(j->x + m * d, x + i * d, (size_t)d * sizeof *x);
		j->row[m++] = i;
	}
	return m;
}

int jacobian_field(struct jacobian *j, const struct jacobian_point *p, float *u, struct err *e)
{
	int64_t d = j->p->d;

	memset(u, 0, (size_t)(p->n * d) * sizeof *u);
	memset(j->dw, 0, (size_t)(p->n * j->p->k) * sizeof *j->dw);
	for (int k = 0; k < j->p->k; k++) {
		int64_t m = gather(j, p, k, p->x);

		if (m && jacobian_expert(j, k, m, j->x, p->t, j->v, e))
			return -1;
		for (int64_t r = 0; r < m; r++)
			for (int64_t c = 0; c < d; c++)
				u[j->row[r] * d + c] += (float)p->w[j->row[r] * j->p->k + k] * j->v[r * d + c];
	}
	return 0;
}

/* The router's posterior over the present experts at logits l (k) with the entry's temperature. */
static void posterior(const struct jacobian *j, const struct policy_entry *y, const double *l, double *prob)
{
	double top = -INFINITY, sum = 0;

	for (int k = 0; k < j->p->k; k++)
		if (j->p->expert[k].velocity)
			top = fmax(top, l[k]);
	for (int k = 0; k < j->p->k; k++)
		sum += prob[k] = j->p->expert[k].velocity ? exp((l[k] - top) / y->temperature) : 0;
	for (int k = 0; k < j->p->k; k++)
		prob[k] /= sum;
}

/* dw (k) for a change dl (k) of the logits. Scaled weights are a softmax over the selected experts; raw ones are parts of the posterior. */
static void change_weights(const struct jacobian *j, const struct policy_entry *y, const double *w, const double *l, const double *dl, double *dw)
{
	int K = j->p->k;
	double prob[K], mean = 0;

	posterior(j, y, l, prob);
	for (int k = 0; k < K; k++)
		mean += (y->raw ? prob[k] : w[k]) * dl[k];
	for (int k = 0; k < K; k++)
		dw[k] = w[k] != 0 ? w[k] * (dl[k] - mean) / y->temperature : 0;
}

/* The transpose: dl (k) for q (k), the cotangents of the weights. Sums to 0 if the weights do to 1, and if they are raw. */
static void pull_weights(const struct jacobian *j, const struct policy_entry *y, const double *w, const double *l, const double *q, double *dl)
{
	int K = j->p->k;
	double prob[K], sum = 0;

	posterior(j, y, l, prob);
	for (int k = 0; k < K; k++)
		sum += w[k] * q[k];
	for (int k = 0; k < K; k++)
		dl[k] = (w[k] * q[k] - (y->raw ? prob[k] : w[k]) * sum) / y->temperature;
}

/* j->side = x + s h r. */
static void step_aside(struct jacobian *j, const struct jacobian_point *p, const double *r, double s)
{
	int64_t d = j->p->d;

	for (int64_t i = 0; i < p->n * d; i++)
		j->side[i] = (float)(p->x[i] + s * j->h[i / d] * r[i]);
}

/* j->dw = the derivative of the weights along (r, rate). */
static int differ_weights(struct jacobian *j, const struct jacobian_point *p, const struct stencil *s, const double *r, double rate, struct err *e)
{
	int K = j->p->k;

	for (int a = 0; a < s->n; a++) {
		step_aside(j, p, r, s->at[a]);
		if (ask_router(j, p->n, j->side, p->t + s->at[a] * rate * JACOBIAN_STEP, j->logits + a * j->capacity * K, e))
			return -1;
	}
	for (int64_t i = 0; i < p->n; i++) {
		double l[K], dl[K];

		for (int k = 0; k < K; k++) {
			l[k] = dl[k] = 0;
			for (int a = 0; a < s->n; a++) {
				double at = j->logits[(a * j->capacity + i) * K + k];

				l[k] += s->value[a] * at;
				dl[k] += j->h[i] > 0 ? s->slope[a] * at / j->h[i] : 0;
			}
		}
		change_weights(j, p->routing, p->w + i * K, l, dl, j->dw + i * K);
	}
	return 0;
}

int jacobian_times(struct jacobian *j, const struct jacobian_point *p, const double *r, double rate, double *out, struct err *e)
{
	const struct stencil *s = rate > 0 && p->t + rate * JACOBIAN_STEP > 1 ? &backward : &central;
	int64_t d = j->p->d;
	int K = j->p->k;

	assert(p->n <= j->capacity);
	for (int64_t i = 0; i < p->n; i++) {
		double xx = 0, rr = dot(r + i * d, r + i * d, d);

		for (int64_t c = i * d; c < (i + 1) * d; c++)
			xx += (double)p->x[c] * p->x[c];
		j->h[i] = rate > 0 ? JACOBIAN_STEP : rr > 0 ? JACOBIAN_STEP * sqrt(xx / rr) : 0;
	}
	memset(out, 0, (size_t)(p->n * d) * sizeof *out);
	memset(j->dw, 0, (size_t)(p->n * K) * sizeof *j->dw);
	if (p->routing && jacobian_routes(j, p->routing) && differ_weights(j, p, s, r, rate, e))
		return -1;
	for (int a = 0; a < s->n; a++) {
		step_aside(j, p, r, s->at[a]);
		for (int k = 0; k < K; k++) {
			int64_t m = gather(j, p, k, j->side);

			if (m && jacobian_expert(j, k, m, j->x, p->t + s->at[a] * rate * JACOBIAN_STEP, j->v, e))
				return -1;
			for (int64_t b = 0; b < m; b++) {
				int64_t i = j->row[b];
				double f = j->h[i] > 0 ? s->slope[a] * p->w[i * K + k] / j->h[i] : 0;

				f += s->value[a] * j->dw[i * K + k];
				for (int64_t c = 0; c < d; c++)
					out[i * d + c] += f * j->v[b * d + c];
			}
		}
	}
	return 0;
}

/* out += (dw/dx)' q, q (n, k) in j->q. */
static int transpose_weights(struct jacobian *j, const struct jacobian_point *p, double *out, struct err *e)
{
	int64_t d = j->p->d;
	int K = j->p->k;

	if (ask_router(j, p->n, p->x, p->t, j->logits, e))
		return -1;
	for (int64_t i = 0; i < p->n; i++) {
		double l[K], dl[K];

		for (int k = 0; k < K; k++)
			l[k] = j->logits[i * K + k];
		pull_weights(j, p->routing, p->w + i * K, l, j->q + i * K, dl);
		for (int k = 0; k < K; k++)
			j->logits[i * K + k] = (float)dl[k];
	}
	fill_times(j, p->n, p->t);
	if (j->p->pull.router(j->p->pull.arg, p->n, p->x, j->time, j->logits, j->g, e))
		return -1;
	for (int64_t i = 0; i < p->n * d; i++)
		out[i] += j->g[i];
	return 0;
}

int jacobian_transposed(struct jacobian *j, const struct jacobian_point *p, const double *r, double *out, struct err *e)
{
	int64_t d = j->p->d;
	int K = j->p->k;

	assert(p->n <= j->capacity);
	memset(out, 0, (size_t)(p->n * d) * sizeof *out);
	memset(j->dw, 0, (size_t)(p->n * K) * sizeof *j->dw);
	memset(j->q, 0, (size_t)(p->n * K) * sizeof *j->q);
	for (int k = 0; k < K; k++) {
		int64_t m = gather(j, p, k, p->x);

		for (int64_t b = 0; b < m * d; b++)
			j->r[b] = (float)r[j->row[b / d] * d + b % d];
		fill_times(j, m, p->t);
		if (m && j->p->pull.expert(j->p->pull.arg, k, m, j->x, j->time, j->r, j->v, j->g, e))
			return -1;
		for (int64_t b = 0; b < m; b++) {
			int64_t i = j->row[b];

			for (int64_t c = 0; c < d; c++) {
				out[i * d + c] += p->w[i * K + k] * j->g[b * d + c];
				j->q[i * K + k] += r[i * d + c] * j->v[b * d + c];
			}
		}
	}
	return p->routing && jacobian_routes(j, p->routing) ? transpose_weights(j, p, out, e) : 0;
}

/* ---- power iterations ---- */

/* Fill u (d) with a random unit vector. */
static void draw_unit(double *u, float *scratch, int64_t d, uint64_t seed, int64_t index)
{
	double norm;

	rng_normal(scratch, (size_t)d, seed, RNG_METRIC, 3, (uint64_t)index);
	for (int64_t c = 0; c < d; c++)
		u[c] = scratch[c];
	norm = sqrt(dot(u, u, d));
	for (int64_t c = 0; c < d; c++)
		u[c] /= norm;
}

/* The rows in j->left as a point of their own. */
static struct jacobian_point some_rows(struct jacobian *j, const struct jacobian_point *p, int64_t n)
{
	struct jacobian_point some = *p;
	int64_t d = j->p->d;
	int K = j->p->k;

	for (int64_t b = 0; b < n; b++) {
		memcpy(j->some_x + b * d, p->x + j->left[b] * d, (size_t)d * sizeof *p->x);
		memcpy(j->some_w + b * K, p->w + j->left[b] * K, (size_t)K * sizeof *p->w);
	}
	some.n = n;
	some.x = j->some_x;
	some.w = j->some_w;
	return some;
}

/* One step of an iteration for the n rows in j->left, whose vectors are the first of j->u: replaces them by the next unit vectors, and fills
 * found (n). shift (n) is added to the matrix. */
typedef int iteration_step(struct jacobian *j, const struct jacobian_point *some, const double *shift, double *found, struct err *e);

static void normalise(double *u, const double *from, int64_t d)
{
	double norm = sqrt(dot(from, from, d));

	for (int64_t c = 0; c < d && norm > 0; c++)
		u[c] = from[c] / norm;
}

static int step_norm(struct jacobian *j, const struct jacobian_point *some, const double *shift, double *found, struct err *e)
{
	int64_t d = j->p->d;

	(void)shift;
	if (jacobian_times(j, some, j->u, 0, j->a, e) || jacobian_transposed(j, some, j->a, j->b, e))
		return -1;
	for (int64_t i = 0; i < some->n; i++) {
		found[i] = sqrt(dot(j->a + i * d, j->a + i * d, d));
		normalise(j->u + i * d, j->b + i * d, d);
	}
	return 0;
}

static int step_symmetric(struct jacobian *j, const struct jacobian_point *some, const double *shift, double *found, struct err *e)
{
	int64_t d = j->p->d;

	if (jacobian_times(j, some, j->u, 0, j->a, e) || jacobian_transposed(j, some, j->u, j->b, e))
		return -1;
	for (int64_t i = 0; i < some->n; i++) {
		double *u = j->u + i * d, *a = j->a + i * d;

		for (int64_t c = 0; c < d; c++)
			a[c] = u[c] - .5 * some->t * (a[c] + j->b[i * d + c]);
		found[i] = dot(u, a, d);
		for (int64_t c = 0; c < d; c++)
			a[c] += shift[i] * u[c];
		normalise(u, a, d);
	}
	return 0;
}

/* Iterate the rows of p whose value is to be found, n of them in j->left, into value. Rows leave the batch when they are done. */
static int iterate(struct jacobian *j, const struct jacobian_point *p, int64_t n, const struct jacobian_iteration *how, iteration_step *step,
                   double *value, struct err *e)
{
	int64_t d = j->p->d;

	for (int64_t b = 0; b < n; b++) {
		draw_unit(j->u + b * d, j->side, d, how->seed, p->index[j->left[b]]);
		value[j->left[b]] = NAN;
	}
	for (int64_t s = 0; s < how->most && n; s++) {
		struct jacobian_point some = some_rows(j, p, n);
		int64_t still = 0;

		if (step(j, &some, j->more, j->before, e))
			return -1;
		for (int64_t b = 0; b < n; b++) {
			int64_t row = j->left[b];
			double found = j->before[b], change = fabs(found - value[row]);

			value[row] = found;
			if (change <= how->tolerance * fabs(found))
				continue;
			if (still < b) {
				memcpy(j->u + still * d, j->u + b * d, (size_t)d * sizeof *j->u);
				j->more[still] = j->more[b];
			}
			j->left[still++] = row;
		}
		n = still;
	}
	return 0;
}

int jacobian_norm(struct jacobian *j, const struct jacobian_point *p, const struct jacobian_iteration *how, double *norm, struct err *e)
{
	for (int64_t i = 0; i < p->n; i++)
		j->left[i] = i;
	return iterate(j, p, p->n, how, step_norm, norm, e);
}

/* Power iteration finds the eigenvalue of the largest magnitude. If it is negative, a second iteration on the matrix plus its magnitude finds the
 * largest. */
int jacobian_rate(struct jacobian *j, const struct jacobian_point *p, const struct jacobian_iteration *how, double *mu, struct err *e)
{
	int64_t again = 0;

	for (int64_t i = 0; i < p->n; i++) {
		j->left[i] = i;
		j->more[i] = 0;
	}
	if (iterate(j, p, p->n, how, step_symmetric, mu, e))
		return -1;
	for (int64_t i = 0; i < p->n; i++)
		if (mu[i] < 0) {
			j->more[again] = -mu[i];
			j->left[again++] = i;
		}
	if (iterate(j, p, again, how, step_symmetric, mu, e))
		return -1;
	for (int64_t i = 0; i < p->n; i++)
		mu[i] = (mu[i] - 1) / p->t;
	return 0;
}
