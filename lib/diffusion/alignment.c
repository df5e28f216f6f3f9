/* Compares the experts that a policy chooses with the others. */
#include "diffusion/alignment.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"

#define ALIGNMENT_NAME(column, name) name,
const char *const alignment_names[] = {ALIGNMENT_LIST(ALIGNMENT_NAME)};
static const double pi = 3.14159265358979323846;

struct alignment {
	const struct alignment_plan *p;
	int64_t capacity, rows;           /* rows: of a column at one time, the larger of count and states */
	struct mixture own;               /* the mixture with weights by the sample's own cluster where policy_entry_own says so */
	struct mixer *mixer;              /* of noised samples; NULL: none */
	float *there_x, *there_v;         /* (capacity, d), on the device */
	double *value[ALIGNMENT_COLUMNS]; /* (steps, rows) */
	float *v;                         /* (k, capacity, d) velocities of the experts */
	float *x0;                        /* (capacity, d) */
	double *squared, *error;          /* (capacity, clusters), (k) */
	double *mean;                     /* (capacity, d) of the optimum */
	struct path_point *at;            /* (capacity) */
	struct alignment_loss *loss;      /* (steps, k), sums */
	int64_t *index;                   /* (capacity) */
};

static int allocate(struct alignment *a, struct err *e)
{
	const struct mixture *m = a->p->mixture;
	size_t n = (size_t)a->capacity, k = (size_t)m->k, d = (size_t)m->d, all = (size_t)(a->p->steps * a->rows);

	for (int c = 0; c < ALIGNMENT_COLUMNS; c++) {
		if (!(a->value[c] = mem_try(all, sizeof(double), "numbers of trajectories", e)))
			return -1;
		for (size_t i = 0; i < all; i++)
			a->value[c][i] = NAN;
	}
	a->squared = mem_zalloc(n * k, sizeof *a->squared);
	a->error = mem_zalloc(k, sizeof *a->error);
	a->at = mem_zalloc(n, sizeof *a->at);
	a->loss = mem_zalloc((size_t)a->p->steps * k, sizeof *a->loss);
	a->index = mem_zalloc(n, sizeof *a->index);
	return (a->v = mem_try(k * n * d, sizeof *a->v, "velocities", e)) && (a->x0 = mem_try(n * d, sizeof *a->x0, "samples", e)) &&
	               (a->mean = mem_try(n * d, sizeof *a->mean, "optimal samples", e)) &&
	               (a->there_x = m->device->alloc(m->device, n * d * sizeof(float), "states", e)) &&
	               (a->there_v = m->device->alloc(m->device, n * d * sizeof(float), "velocities", e))
	           ? 0
	           : -1;
}

/* Noised samples have no evaluation before them, so they are not routed by distance. */
static int routes_states(const struct alignment *a)
{
	return a->p->states && !a->p->optimum && !policy_uses(&a->p->mixture->policy, WEIGHT_DISTANCE);
}

struct alignment *alignment_new(const struct alignment_plan *p, int64_t capacity, struct err *e)
{
	struct alignment *a = mem_zalloc(1, sizeof *a);

	assert(!p->mixture->clusters || p->mixture->clusters == p->mixture->k);
	a->p = p;
	a->capacity = capacity;
	a->rows = p->count > p->states ? p->count : p->states;
	a->own = *p->mixture;
	for (int i = 0; i < a->own.policy.entries; i++)
		if (policy_entry_own(&a->own.policy.entry[i])) {
			a->own.policy.entry[i].weights = WEIGHT_ORACLE;
			a->own.policy.entry[i].select = SELECT_FULL;
		}
	if (!allocate(a, e) && (!routes_states(a) || (a->mixer = mixer_new(&a->own, capacity, e))))
		return a;
	alignment_free(a);
	return NULL;
}

void alignment_free(struct alignment *a)
{
	if (!a)
		return;
	struct device *dev = a->p->mixture->device;
	void *const host[] = {a->v, a->x0, a->squared, a->error, a->mean, a->at, a->loss, a->index};

	mixer_free(a->mixer);
	dev->release(dev, a->there_x);
	dev->release(dev, a->there_v);
	for (int c = 0; c < ALIGNMENT_COLUMNS; c++)
		mem_free(a->value[c]);
	for (size_t i = 0; i < sizeof host / sizeof *host; i++)
		mem_free(host[i]);
	mem_free(a);
}

static int present(const struct alignment *a, int k)
{
	return a->p->mixture->expert[k].velocity != NULL;
}

/* Row r of expert k's velocities. */
static const float *velocity_of(const struct alignment *a, int k, int64_t r)
{
	return a->v + (k * a->capacity + r) * a->p->mixture->d;
}

static int ask_experts(struct alignment *a, struct jacobian *j, int64_t n, const float *x, double t, struct err *e)
{
	const struct mixture *m = a->p->mixture;

	for (int k = 0; k < m->k; k++)
		if (present(a, k) && jacobian_expert(j, k, n, x, t, a->v + k * a->capacity * m->d, e))
			return -1;
	return 0;
}

static double *cell(struct alignment *a, enum alignment_column c, int64_t i, int64_t row)
{
	return &a->value[c][i * a->rows + row];
}

/* |a - b|^2 */
static double apart(const float *a, const float *b, int64_t d)
{
	double s = 0;

	for (int64_t c = 0; c < d; c++)
		s += ((double)a[c] - b[c]) * ((double)a[c] - b[c]);
	return s;
}

static double dot(const float *a, const float *b, int64_t d)
{
	double s = 0;

	for (int64_t c = 0; c < d; c++)
		s += (double)a[c] * b[c];
	return s;
}

/* The pairs and the spread of row r, whose velocity is u (d). */
static void compare_experts(struct alignment *a, int64_t i, int64_t row, int64_t r, const float *u, const double *w)
{
	const struct mixture *m = a->p->mixture;
	double uu = dot(u, u, m->d), far = 0, angle = 0, spread = 0;
	int pairs = 0;

	for (int j = 0; j < m->k; j++) {
		const float *vj = velocity_of(a, j, r);

		if (!present(a, j))
			continue;
		spread += w[j] != 0 ? w[j] * apart(vj, u, m->d) : 0;
		for (int k = j + 1; k < m->k; k++) {
			const float *vk = velocity_of(a, k, r);

			if (!present(a, k))
				continue;
			far += apart(vj, vk, m->d);
			angle += acos(fmax(-1, fmin(1, dot(vj, vk, m->d) / sqrt(dot(vj, vj, m->d) * dot(vk, vk, m->d)))));
			pairs++;
		}
	}
	*cell(a, ALIGNMENT_SPREAD, i, row) = spread / uu;
	if (pairs) {
		*cell(a, ALIGNMENT_DISAGREEMENT, i, row) = far / pairs / uu;
		*cell(a, ALIGNMENT_ANGLE, i, row) = angle / pairs * 180 / pi;
	}
}

/* chosen, best, others and hit from the errors a->error (k). */
static void compare_errors(struct alignment *a, int64_t i, int64_t row, int chosen)
{
	int K = a->p->mixture->k, best = chosen, n = 0;
	double others = 0;

	for (int k = 0; k < K; k++) {
		if (!present(a, k))
			continue;
		best = a->error[k] < a->error[best] ? k : best;
		others += k != chosen ? a->error[k] : 0;
		n += k != chosen;
	}
	*cell(a, ALIGNMENT_CHOSEN, i, row) = a->error[chosen];
	*cell(a, ALIGNMENT_BEST, i, row) = a->error[best];
	*cell(a, ALIGNMENT_OTHERS, i, row) = n ? others / n : NAN;
	*cell(a, ALIGNMENT_HIT, i, row) = best == chosen;
}

static int find_ranks(struct alignment *a, int64_t i, int64_t first, int64_t n, const float *x, const float *u, double t, const int32_t *chosen,
                      struct err *e)
{
	const struct mixture *m = a->p->mixture;

	for (int64_t c = 0; c < n * m->d; c++)
		a->x0[c] = (float)(x[c] - t * u[c]);
	if (m->distances(m->distances_arg, a->squared, a->x0, n, e))
		return -1;
	for (int64_t r = 0; r < n; r++) {
		const double *s = a->squared + r * m->k;
		int rank = 1;

		for (int k = 0; k < m->k; k++)
			rank += s[k] < s[chosen[r]];
		*cell(a, ALIGNMENT_RANK, i, first + r) = rank;
	}
	return 0;
}

/* |v - u*|^2 per element at row r of x, u* = (x - mean) / t. */
static double error_of(const struct alignment *a, const float *x, int64_t r, double t, const float *v)
{
	int64_t d = a->p->mixture->d;
	double s = 0;

	for (int64_t c = 0; c < d; c++) {
		double off = v[c] - (x[r * d + c] - a->mean[r * d + c]) / t;

		s += off * off;
	}
	return s / (double)d;
}

/* The errors at rows x (n, d) of a trajectory, of velocity u, against the optimum. */
static void find_errors(struct alignment *a, int64_t i, int64_t first, int64_t n, const float *x, const float *u, double t, const int32_t *chosen)
{
	const struct mixture *m = a->p->mixture;

	for (int64_t r = 0; r < n; r++)
		a->at[r] = path_at(&path_linear, t);
	law_posterior(a->p->optimum, LAW_ALL, n, x, a->at, NULL, a->mean);
	for (int64_t r = 0; r < n; r++) {
		for (int k = 0; k < m->k; k++)
			a->error[k] = present(a, k) ? error_of(a, x, r, t, velocity_of(a, k, r)) : 0;
		*cell(a, ALIGNMENT_MIXED, i, first + r) = error_of(a, x, r, t, u + r * m->d);
		compare_errors(a, i, first + r, chosen[r]);
	}
}

int alignment_add(struct alignment *a, struct stability *s, const struct trajectory *y, int64_t first, struct err *e)
{
	const struct mixture *m = a->p->mixture;

	for (int64_t i = 0; i < a->p->steps; i++) {
		int64_t at = y->first[i] * y->n;
		const float *x = y->at + at * m->d, *u = y->v + at * m->d;
		double t = y->t[y->first[i]];

		if (!stability_measures(s, i))
			continue;
		if (ask_experts(a, stability_jacobian(s), y->n, x, t, e))
			return -1;
		for (int64_t r = 0; r < y->n; r++)
			compare_experts(a, i, first + r, r, u + r * m->d, y->w + (at + r) * m->k);
		if (m->distances && find_ranks(a, i, first, y->n, x, u, t, y->heaviest + at, e))
			return -1;
		if (a->p->optimum)
			find_errors(a, i, first, y->n, x, u, t, y->heaviest + at);
	}
	return 0;
}

/* ---- noised samples ---- */

/* The policy's velocity goes into a->x0. */
static int route_states(struct alignment *a, int64_t n, const float *x, double t, const int32_t *cluster, struct err *e)
{
	struct device *dev = a->p->mixture->device;
	const struct mixture_call call = {.n = n, .t = t, .x = a->there_x, .index = a->index, .chosen = cluster, .evaluations = 1};

	device_put(dev, a->there_x, x, (size_t)(n * a->p->mixture->d) * sizeof *x);
	if (mixer_velocity(a->mixer, a->there_v, &call, NULL, e))
		return -1;
	device_get(dev, a->x0, a->there_v, (size_t)(n * a->p->mixture->d) * sizeof *a->x0);
	return dev->error(dev, e);
}

int alignment_states(struct alignment *a, struct jacobian *j, int64_t i, int64_t first, int64_t n, const float *x, const float *target,
                     const int32_t *cluster, struct err *e)
{
	const struct mixture *m = a->p->mixture;
	double t = (double)(a->p->steps - i) / (double)a->p->steps;

	assert(n <= a->capacity && first + n <= a->rows);
	for (int64_t r = 0; r < n; r++)
		a->index[r] = first + r;
	if (ask_experts(a, j, n, x, t, e) || (a->mixer && route_states(a, n, x, t, cluster, e)))
		return -1;
	for (int64_t r = 0; r < n; r++) {
		for (int k = 0; k < m->k; k++) {
			struct alignment_loss *loss = &a->loss[i * m->k + k];
			int out = cluster[r] != k;

			if (!present(a, k))
				continue;
			a->error[k] = apart(velocity_of(a, k, r), target + r * m->d, m->d) / (double)m->d;
			loss->n[out]++;
			loss->loss[out] += a->error[k];
		}
		if (a->mixer) {
			compare_errors(a, i, first + r, mixer_heaviest(a->mixer)[r]);
			*cell(a, ALIGNMENT_MIXED, i, first + r) = apart(a->x0 + r * m->d, target + r * m->d, m->d) / (double)m->d;
		}
	}
	return 0;
}

double alignment_at(const struct alignment *a, enum alignment_column c, int64_t i)
{
	double *over, mean;

	if (i < a->p->steps)
		return stability_mean(a->value[c] + i * a->rows, a->rows);
	over = mem_alloc((size_t)a->p->steps * sizeof *over);
	for (int64_t s = 0; s < a->p->steps; s++)
		over[s] = stability_mean(a->value[c] + s * a->rows, a->rows);
	mean = stability_mean(over, a->p->steps);
	mem_free(over);
	return mean;
}

struct alignment_loss alignment_loss(const struct alignment *a, int64_t i, int k)
{
	struct alignment_loss l = a->loss[i * a->p->mixture->k + k];

	for (int out = 0; out < 2; out++)
		l.loss[out] = l.n[out] ? l.loss[out] / (double)l.n[out] : NAN;
	return l;
}
