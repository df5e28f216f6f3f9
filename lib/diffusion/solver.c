/* Solvers of the probability-flow ODE and of SDEs with its marginals, on an even or given grid of times. */
#include "diffusion/solver.h"

#include <assert.h>
#include <math.h>

#include "diffusion/dopri5.h"
#include "diffusion/ondevice.h"

/* An explicit Runge-Kutta method: v_j is the velocity at x + h sum_k a[j][k] v_k and t + c[j] h, and the step adds h sum_j b[j] v_j. */
struct method {
	int stages;
	double c[SOLVER_STAGES], a[SOLVER_STAGES][SOLVER_STAGES], b[SOLVER_STAGES];
};

/* Of the kinds that are no Runge-Kutta methods, `stages` alone is used. */
static const struct method methods[SOLVER_KINDS] = {
    [SOLVER_EULER] = {1, {0}, {{0}}, {1}},
    [SOLVER_HEUN] = {2, {0, 1}, {{0}, {1}}, {.5, .5}},
    [SOLVER_MIDPOINT] = {2, {0, .5}, {{0}, {.5}}, {0, 1}},
    [SOLVER_RK4] = {4, {0, .5, .5, 1}, {{0}, {.5}, {0, .5}, {0, 0, 1}}, {1. / 6, 1. / 3, 1. / 3, 1. / 6}},
    [SOLVER_AB2] = {1, {0}, {{0}}, {1}},
    [SOLVER_SDE] = {1, {0}, {{0}}, {1}},
    [SOLVER_EDM_HEUN] = {2, {0, 1}, {{0}, {1}}, {.5, .5}},
};

/* Heun's method of order 3, which does not evaluate at the end of the step. */
static const struct method heun3 = {3, {0, 1. / 3, 2. / 3}, {{0}, {1. / 3}, {0, 2. / 3}}, {.25, 0, .75}};

/* The method of a step that ends at time `end`. */
static const struct method *method_of(enum solver_kind kind, double end)
{
	if (end == 0 && (kind == SOLVER_HEUN || kind == SOLVER_EDM_HEUN))
		return &methods[SOLVER_EULER];
	return end == 0 && kind == SOLVER_RK4 ? &heun3 : &methods[kind];
}

int64_t solver_evaluations(const struct solver *s)
{
	if (s->kind == SOLVER_DOPRI5)
		return 0;
	return (s->steps - 1) * methods[s->kind].stages + method_of(s->kind, s->to)->stages;
}

int64_t solver_work(const struct solver *s, int64_t count)
{
	int stages = methods[s->kind].stages, more = stages > 1 || s->kind == SOLVER_AB2 || s->kind == SOLVER_SDE;

	return s->kind == SOLVER_DOPRI5 ? dopri5_work(count) : (stages + more) * count;
}

static double grid_time(const struct solver *s, int64_t i)
{
	if (s->times)
		return s->times[i];
	if (s->last > 0 && i < s->steps)
		return s->steps == 1 ? s->from : (s->from * (double)(s->steps - 1 - i) + s->last * (double)i) / (double)(s->steps - 1);
	return (s->from * (double)(s->steps - i) + s->to * (double)i) / (double)s->steps;
}

/* y = x + h sum_k f[k] v_k, where v_k (count) lie one after the other. */
static void advance(struct device *d, float *y, const float *x, double h, const double *f, const float *v, int n, int64_t count)
{
	struct term t[SOLVER_STAGES + 1] = {{1, x, count}};
	int used[SOLVER_STAGES] = {0}, terms = 0;

	for (int k = 0; k < n; k++)
		if (f[k] != 0) {
			used[terms++] = k;
			t[terms] = (struct term){h * f[k], v + k * count, count};
		}
	if (terms == 1)
		ondevice_advance(d, y, x, h * f[used[0]], v + used[0] * count, NULL, count);
	else if (terms == 2 && f[used[0]] == f[used[1]])
		ondevice_advance(d, y, x, h * f[used[0]], v + used[0] * count, v + used[1] * count, count);
	else
		ondevice_combine(d, y, count, t, terms + 1, 0, 1, count);
}

/* A state of solver_run. */
struct run {
	const struct solver *s;
	struct device *d;
	float *x, *work;
	int64_t count;
	solver_field *field;
	solver_draw *draw;
	void *arg;
};

int solver_is_runge_kutta(enum solver_kind kind)
{
	return kind == SOLVER_EULER || kind == SOLVER_HEUN || kind == SOLVER_MIDPOINT || kind == SOLVER_RK4;
}

int solver_beside(const struct solver *s, int64_t i, int stage, double *h, double f[SOLVER_STAGES])
{
	double t = grid_time(s, i), end = grid_time(s, i + 1);
	const struct method *m = method_of(s->kind, end);
	int n = stage < 0 ? m->stages : stage;

	assert(solver_is_runge_kutta(s->kind));
	*h = end - t;
	for (int j = 0; j < n; j++)
		f[j] = stage < 0 ? m->b[j] : m->a[stage][j];
	return n;
}

static int runge_kutta(const struct run *r, int64_t i, struct err *e)
{
	double t = grid_time(r->s, i), end = grid_time(r->s, i + 1), h = end - t;
	const struct method *m = method_of(r->s->kind, end);
	float *y = r->work + methods[r->s->kind].stages * r->count;

	for (int j = 0; j < m->stages; j++) {
		double at = m->c[j] == 1 ? end : t + m->c[j] * h;

		if (j)
			advance(r->d, y, r->x, h, m->a[j], r->work, j, r->count);
		if (r->field(r->arg, r->work + j * r->count, j ? y : r->x, at, i, j, e))
			return -1;
	}
	advance(r->d, r->x, r->x, h, m->b, r->work, m->stages, r->count);
	return 0;
}

/* The last two velocities take turns in the two halves of `work`. */
static int adams_bashforth(const struct run *r, int64_t i, struct err *e)
{
	double t = grid_time(r->s, i), h = grid_time(r->s, i + 1) - t, ratio = i ? h / (t - grid_time(r->s, i - 1)) : 0;
	int now = i & 1;
	const double f[2] = {now ? -.5 * ratio : 1 + .5 * ratio, now ? 1 + .5 * ratio : -.5 * ratio};

	if (r->field(r->arg, r->work + now * r->count, r->x, t, i, 0, e))
		return -1;
	advance(r->d, r->x, r->x, h, f, r->work, 2, r->count);
	return 0;
}

/* f = the factors of x, v and z in an ancestral step from t to `end`. On the linear path p(x_t | x_end) is N(A x_end, S^2) with
 * A = (1 - t) / (1 - end) and S^2 = t^2 - end^2 A^2, so p(x_end | x_t, x0) has the mean (A end^2 x_t + (1 - end) S^2 x0) / t^2 and the deviation
 * end S / t; here x0 = x_t - t v. S^2 is written without a difference of close numbers. */
static void ancestral_factors(double t, double end, double f[3])
{
	double keep = (1 - t) / (1 - end), square = (t - end) / (1 - end) * (t + end * keep);

	f[0] = (keep * end * end + (1 - end) * square) / (t * t);
	f[1] = -(1 - end) * square / t;
	f[2] = end * sqrt(square) / t;
}

double solver_noise_ratio(const struct solver *s, int64_t i)
{
	double f[3];

	ancestral_factors(grid_time(s, i), grid_time(s, i + 1), f);
	return f[1] / f[2];
}

static int ancestral(const struct run *r, int64_t i, struct err *e)
{
	double t = grid_time(r->s, i), end = grid_time(r->s, i + 1), f[3];
	float *v = r->work, *z = r->work + r->count;

	ancestral_factors(t, end, f);
	const struct term next[] = {{f[0], r->x, r->count}, {f[1], v, r->count}, {f[2], z, r->count}};

	if (r->field(r->arg, v, r->x, t, i, 0, e) || (end > 0 && r->draw(r->arg, z, i, e)))
		return -1;
	ondevice_combine(r->d, r->x, r->count, next, end > 0 ? 3 : 2, 0, 1, r->count);
	return 0;
}

static int euler_maruyama(const struct run *r, int64_t i, struct err *e)
{
	double t = grid_time(r->s, i), end = grid_time(r->s, i + 1), h = end - t, c = end > 0 ? r->s->add.strength : 0;
	float *v = r->work, *z = r->work + r->count;
	const struct term next[] = {{1 + h * c, r->x, r->count}, {h * (1 + c * (1 - t)), v, r->count}, {sqrt(-2 * c * h * t), z, r->count}};

	if (r->field(r->arg, v, r->x, t, i, 0, e) || (c > 0 && r->draw(r->arg, z, i, e)))
		return -1;
	ondevice_combine(r->d, r->x, r->count, next, c > 0 ? 3 : 2, 0, 1, r->count);
	return 0;
}

/* Adds the noise of a step of edm_heun that starts at *t, and moves *t up to the new level. z is scratch. */
static int churn(const struct run *r, float *z, int64_t i, double *t, struct err *e)
{
	const struct stochastic *a = &r->s->add;
	double sigma = *t / (1 - *t), up = sigma * (1 + fmin(a->churn / (double)r->s->steps, sqrt(2) - 1)), at = up / (1 + up);
	const struct term raised[] = {{(1 - at) / (1 - *t), r->x, r->count},
	                              {(1 - at) * a->churn_noise * sqrt(up * up - sigma * sigma), z, r->count}};

	if (a->churn <= 0 || *t >= 1 || sigma < a->churn_min || sigma > a->churn_max)
		return 0;
	if (r->draw(r->arg, z, i, e))
		return -1;
	ondevice_combine(r->d, r->x, r->count, raised, 2, 0, 1, r->count);
	*t = at;
	return 0;
}

/* In y = x / (1 - t) the flow is dy/dsigma = eps = x + (1 - t) v; Heun's step in y and sigma is written in x, t and v here. */
static int edm_heun(const struct run *r, int64_t i, struct err *e)
{
	double t = grid_time(r->s, i), end = grid_time(r->s, i + 1), h, late;
	float *v = r->work, *v2 = v + r->count, *y = v2 + r->count;

	if (churn(r, v2, i, &t, e) || r->field(r->arg, v, r->x, t, i, 0, e))
		return -1;
	h = end - t;
	if (end == 0) {
		advance(r->d, r->x, r->x, h, (const double[]){1}, v, 1, r->count);
		return 0;
	}
	advance(r->d, y, r->x, h, (const double[]){1}, v, 1, r->count);
	if (r->field(r->arg, v2, y, end, i, 1, e))
		return -1;
	late = t < 1 ? .5 * (1 - end) / (1 - t) : .5;
	advance(r->d, r->x, r->x, h, (const double[]){1 - late, late}, v, 2, r->count);
	return 0;
}

int solver_draws(const struct solver *s)
{
	return (s->kind == SOLVER_SDE && (s->add.ancestral || s->add.strength > 0)) || (s->kind == SOLVER_EDM_HEUN && s->add.churn > 0);
}

static int step(const struct run *r, int64_t i, struct err *e)
{
	switch (r->s->kind) {
	case SOLVER_AB2:
		return adams_bashforth(r, i, e);
	case SOLVER_SDE:
		return r->s->add.ancestral ? ancestral(r, i, e) : euler_maruyama(r, i, e);
	case SOLVER_EDM_HEUN:
		return edm_heun(r, i, e);
	default:
		return runge_kutta(r, i, e);
	}
}

int solver_run(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, solver_draw *draw, void *arg,
               struct err *e)
{
	const struct run r = {s, d, x, work, count, field, draw, arg};
	int rc = 0;

	assert(s->steps > 0 && (draw || !solver_draws(s)));
	if (s->kind == SOLVER_DOPRI5)
		return dopri5_single(s, d, x, count, work, field, arg, e);
	for (int64_t i = 0; i < s->steps && !rc; i++)
		rc = step(&r, i, e);
	return rc;
}
