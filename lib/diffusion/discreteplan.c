/* Computes the coefficients of every step of a discrete-time solver. After the last step abar is 1, or with final_min the first of the table. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/discrete.h"

enum { FEW = 15 }; /* with fewer steps the order is lowered at the end: diffusers' lower_order_final */

struct maker {
	const struct discrete *how;
	const struct schedule *s;
	enum prediction kind;
	struct discrete_plan *p;
	double *at;    /* (steps) steps of the table, largest first */
	double *sigma; /* (steps + 1) sigma / alpha at these steps and at the end */
};

struct discrete discrete_default(enum discrete_kind kind)
{
	struct discrete d = {.kind = kind, .order = 2, .spacing = kind <= DISCRETE_DDIM ? SPACING_LEADING : SPACING_LINSPACE};

	return d;
}

/* DPM-Solver++ and UniPC space a grid of one more step and drop its last. */
static int fenced(const struct discrete *how)
{
	return how->kind >= DISCRETE_MULTISTEP;
}

static double linspace(const struct maker *m, int64_t i)
{
	int64_t n = m->p->steps + fenced(m->how);
	double last = (double)(m->s->steps - 1), t = n > 1 ? (double)(n - 1 - i) * (last / (double)(n - 1)) : 0;

	return m->how->kind == DISCRETE_EULER ? t : rint(t);
}

static int space(const struct maker *m, struct err *e)
{
	const struct discrete *how = m->how;
	int64_t n = m->p->steps, T = m->s->steps, grid = n + fenced(how), ratio = T / grid;
	double stride = n > 1 ? (double)(T - 1) / (double)(n - 1) : 1, sum = 0;

	for (int64_t i = 0; i < n; i++) {
		if (how->spacing == SPACING_LEADING)
			m->at[i] = (double)((grid - 1 - i) * ratio + how->offset);
		else if (how->spacing == SPACING_TRAILING)
			m->at[i] = rint((double)T - (double)i * ((double)T / (double)n)) - 1;
		else if (how->spacing == SPACING_LINSPACE)
			m->at[i] = linspace(m, i);
	}
	for (int64_t i = 0; how->spacing == SPACING_QUADRATIC && i < n; i++) {
		double root = n > 1 ? (double)(n - 1 - i) / (double)(n - 1) : 1;

		m->at[i] = fmax(rint(root * root * (double)(T - 1)), (double)(n - 1 - i));
	}
	for (int64_t i = n - 1; how->spacing == SPACING_RESPACED && i >= 0; i--, sum += stride)
		m->at[i] = rint(sum);
	for (int64_t i = 0; i < n; i++)
		if (m->at[i] < 0 || m->at[i] > (double)(T - 1) || (i && m->at[i] >= m->at[i - 1]))
			return err_set(e, ERR_USAGE, "%lld steps are too many for this solver and spacing: path \"%s\" has %lld", (long long)n,
			               m->s->path.name, (long long)T);
	return 0;
}

static double table_sigma(const struct schedule *s, double k)
{
	int64_t i = (int64_t)k, j = i + 1 < s->steps ? i + 1 : i;
	double a = sqrt((1 - s->abar[i]) / s->abar[i]), b = sqrt((1 - s->abar[j]) / s->abar[j]);

	return a + (k - (double)i) * (b - a);
}

static struct path_point at_sigma(double sigma)
{
	double alpha = 1 / sqrt(1 + sigma * sigma);

	return (struct path_point){.alpha = alpha, .sigma = alpha * sigma};
}

/* The step of the table with this sigma; log sigma is interpolated linearly between steps. k-diffusion's sigma_to_t. */
static double sigma_step(const struct schedule *s, double sigma)
{
	int64_t i = 0;
	double low, high, w;

	while (i + 2 < s->steps && table_sigma(s, (double)(i + 1)) <= sigma)
		i++;
	if (s->steps < 2)
		return 0;
	low = log(table_sigma(s, (double)i));
	high = log(table_sigma(s, (double)(i + 1)));
	w = (low - log(sigma)) / (low - high);
	return (double)i + fmin(fmax(w, 0), 1);
}

static double eased(enum discrete_sigmas how, double sigma)
{
	return how == SIGMAS_KARRAS ? pow(sigma, 1 / 7.) : log(sigma);
}

/* Equal steps of sigma^(1/7) or log sigma: between the ends of the spacing for Euler, of the table for DPM-Solver++ and UniPC, which
 * evaluate networks at whole steps only. */
static void space_sigmas(const struct maker *m)
{
	const struct schedule *s = m->s;
	int64_t n = m->p->steps;
	int euler = m->how->kind == DISCRETE_EULER, cosine = !strncmp(s->path.name, "cosine", 6);
	enum discrete_sigmas how = m->how->sigmas;
	double hi = eased(how, table_sigma(s, euler ? m->at[0] : (double)(s->steps - 1)));
	double lo = eased(how, table_sigma(s, euler ? m->at[n - 1] : 0));

	for (int64_t i = 0; i < n; i++) {
		double at = n > 1 ? hi + (double)i / (double)(n - 1) * (lo - hi) : hi;

		m->sigma[i] = how == SIGMAS_KARRAS ? pow(at, 7) : exp(at);
		m->at[i] = sigma_step(s, m->sigma[i]);
		if (!euler)
			m->at[i] = cosine && m->how->kind == DISCRETE_MULTISTEP ? floor(m->at[i]) : rint(m->at[i]);
	}
}

static double lambda(double sigma)
{
	return -log(sigma);
}

/* abar after step i. With diffusers' spacings its DDIM always goes T / steps table steps down, even if the next step of the grid is another one. */
static double next_abar(const struct maker *m, int64_t i)
{
	const struct discrete *how = m->how;
	int64_t n = m->p->steps, k = i + 1 < n ? (int64_t)m->at[i + 1] : -1;

	if (how->kind == DISCRETE_DDIM && how->spacing <= SPACING_TRAILING)
		k = (int64_t)m->at[i] - m->s->steps / n;
	if (k >= 0)
		return m->s->abar[k];
	return how->kind == DISCRETE_DDIM && how->final_min ? m->s->abar[0] : 1;
}

static void make_ddpm(const struct maker *m, struct discrete_step *s, int64_t i)
{
	double a = m->s->abar[(int64_t)m->at[i]], next = next_abar(m, i), beta = 1 - a / next;
	double least = fmax((1 - next) / (1 - a) * beta, 1e-20);

	s->x = sqrt(a / next) * (1 - next) / (1 - a);
	s->x0[0] = sqrt(next) * beta / (1 - a);
	if (m->at[i] == 0 || (m->how->spacing == SPACING_RESPACED && i + 1 == m->p->steps))
		return;
	if (m->how->variance == VARIANCE_LEARNED) {
		s->log_lo = log(least);
		s->log_hi = log(beta);
		return;
	}
	s->noise = sqrt(m->how->variance == VARIANCE_LARGE ? beta : least);
}

static void make_ddim(const struct maker *m, struct discrete_step *s, const struct path_point *p, int64_t i)
{
	double a = m->s->abar[(int64_t)m->at[i]], next = next_abar(m, i), c, d, down;

	s->noise = m->how->eta * sqrt(fmax((1 - next) / (1 - a) * (1 - a / next), 0));
	down = sqrt(fmax(1 - next - s->noise * s->noise, 0));
	prediction_relate(p, m->kind, PREDICT_EPSILON, &c, &d);
	s->x = down * c;
	s->out = down * d;
	s->x0[0] = sqrt(next);
}

static void make_euler(const struct maker *m, struct discrete_step *s, int64_t i)
{
	double ratio = m->sigma[i + 1] / m->sigma[i];

	s->scale = 1 / sqrt(1 + m->sigma[i] * m->sigma[i]);
	s->x0_x *= s->scale;
	s->x = ratio;
	s->x0[0] = 1 - ratio;
}

/* Weights of an exponential integrator from grid point `from` to the point after step i, h = the difference of lambda: x weighs the x at `from`, flat
 * a constant x0, slope (heun) or middle (midpoint) the first difference of x0, curve the second. */
struct expo {
	double h, x, flat, slope, middle, curve;
};

static struct expo integrate(const struct maker *m, int64_t from, int64_t i)
{
	struct path_point a = at_sigma(m->sigma[from]), b = at_sigma(m->sigma[i + 1]);
	double h = lambda(m->sigma[i + 1]) - lambda(m->sigma[from]), q = expm1(-h);

	if (m->how->sde) {
		q = expm1(-2 * h);
		return (struct expo){h, b.sigma / a.sigma * exp(-h), -b.alpha * q, b.alpha * (q / (2 * h) + 1), -.5 * b.alpha * q, 0};
	}
	return (struct expo){h, b.sigma / a.sigma, -b.alpha * q, b.alpha * (q / h + 1), -.5 * b.alpha * q, -b.alpha * ((q + h) / (h * h) - .5)};
}

static void first_order(struct discrete_step *s, const struct expo *w)
{
	s->x = w->x;
	s->x0[0] = w->flat;
}

static void multi_second(const struct maker *m, struct discrete_step *s, const struct expo *w, int64_t i)
{
	double r = (lambda(m->sigma[i]) - lambda(m->sigma[i - 1])) / w->h, c = (m->how->heun ? w->slope : w->middle) / r;

	s->x = w->x;
	s->x0[0] = w->flat + c;
	s->x0[1] = -c;
}

/* Extrapolates x0 by the parabola through this x0 and the two before it. `curve` is the weight of the second derivative of x0 (in units of the
 * step), which is twice the second divided difference of the three. The published code (LuChengTHU/dpm-solver, and diffusers after it)
 * omits the factor of two and converges at order 2 only; `corrected` includes it. */
static void multi_third(const struct maker *m, struct discrete_step *s, const struct expo *w, int64_t i)
{
	double curve = m->how->corrected ? 2 * w->curve : w->curve;
	double l0 = lambda(m->sigma[i]), l1 = lambda(m->sigma[i - 1]), l2 = lambda(m->sigma[i - 2]);
	double r0 = (l0 - l1) / w->h, r1 = (l1 - l2) / w->h, late = w->slope * (1 + r0 / (r0 + r1)) + curve / (r0 + r1);
	double early = -(w->slope * r0 + curve) / (r0 + r1);

	s->x = w->x;
	s->x0[0] = w->flat + late / r0;
	s->x0[1] = early / r1 - late / r0;
	s->x0[2] = -early / r1;
}

static void make_multistep(const struct maker *m, struct discrete_step *s, int64_t i)
{
	struct expo w = integrate(m, i, i);
	int64_t n = m->p->steps;
	int lower = !m->how->any_final && n < FEW, order = m->how->order;

	if (m->how->sde)
		s->noise = at_sigma(m->sigma[i + 1]).sigma * sqrt(-expm1(-2 * w.h));
	/* With Karras' sigmas and final_min the last step starts and ends at the table's least sigma, so h is 0. */
	if (order == 1 || i < 1 || w.h <= 0 || (i + 1 == n && (lower || !m->how->final_min)))
		first_order(s, &w);
	else if (order == 2 || i < 2 || (i + 2 == n && lower))
		multi_second(m, s, &w, i);
	else
		multi_third(m, s, &w, i);
}

/* Orders 1 2 1 2 .. or 1 2 3 1 2 3 .. The last step has order 1 if it ends at zero noise, or if it completes a group and any_final is off. */
static int single_order(const struct maker *m, int64_t i)
{
	int64_t n = m->p->steps, order = m->how->order;

	if (i + 1 == n && (!m->how->final_min || (!m->how->any_final && n % order == 0)))
		return 1;
	return (int)(i % order) + 1;
}

static void single_second(const struct maker *m, struct discrete_step *s, int64_t i)
{
	struct expo w = integrate(m, i - 1, i);
	double r = (lambda(m->sigma[i]) - lambda(m->sigma[i - 1])) / w.h, c = (m->how->heun ? w.slope : w.middle) / r;

	s->saved = w.x;
	s->x0[0] = c;
	s->x0[1] = w.flat - c;
}

static void single_third(const struct maker *m, struct discrete_step *s, int64_t i)
{
	struct expo w = integrate(m, i - 2, i);
	double l = lambda(m->sigma[i - 2]), r0 = (lambda(m->sigma[i]) - l) / w.h, r1 = (lambda(m->sigma[i - 1]) - l) / w.h;
	double late = w.slope, early = 0; /* weights of the differences to the first x0 over r0 and over r1 */

	if (m->how->heun) {
		late = (2 * w.curve - w.slope * r1) / (r0 - r1);
		early = (w.slope * r0 - 2 * w.curve) / (r0 - r1);
	}
	s->saved = w.x;
	s->x0[0] = late / r0;
	s->x0[1] = early / r1;
	s->x0[2] = w.flat - late / r0 - early / r1;
}

static void make_singlestep(const struct maker *m, struct discrete_step *s, int64_t i)
{
	struct expo w = integrate(m, i, i);
	int order = single_order(m, i);

	s->save = order == 1;
	if (order == 1)
		first_order(s, &w);
	else if (order == 2)
		single_second(m, s, i);
	else
		single_third(m, s, i);
}

/* How many x0 UniPC uses in step i. */
static int uni_points(const struct maker *m, int64_t i)
{
	int64_t n = m->p->steps, most = m->how->any_final ? m->how->order : n - i;

	if (i + 1 == n && (!m->how->final_min || lambda(m->sigma[n]) <= lambda(m->sigma[i])))
		return 1;
	most = most < m->how->order ? most : m->how->order;
	return (int)(i + 1 < most ? i + 1 : most);
}

/* Solve sum_k r[k]^i rho[k] = b[i] for i and k below n, at most 3, the r differing: the coefficients of the k-th Lagrange polynomial are row k of the
 * inverse. */
static void solve_vandermonde(const double *r, const double *b, int n, double *rho)
{
	for (int k = 0; k < n; k++) {
		double poly[3] = {1}, scale = 1;
		int degree = 0;

		for (int j = 0; j < n; j++) {
			if (j == k)
				continue;
			for (int i = ++degree; i >= 0; i--)
				poly[i] = (i ? poly[i - 1] : 0) - (i < degree ? r[j] * poly[i] : 0);
			scale *= r[k] - r[j];
		}
		rho[k] = 0;
		for (int i = 0; i < n; i++)
			rho[k] += poly[i] * b[i] / scale;
	}
}

/* UniPC's step from grid point i to the next with `points` x0: *x weighs the x at i; w[0] the x0 at i + 1, which the corrector has and the predictor
 * has not, and w[1], w[2], w[3] the x0 at i and before. Names and the two cases of rho = 1/2 are those of diffusers and of the published code. */
static void uni_weights(const struct maker *m, int64_t i, int points, int corrector, double *x, double w[4])
{
	struct path_point a = at_sigma(m->sigma[i]), b = at_sigma(m->sigma[i + 1]);
	double l = lambda(m->sigma[i]), h = lambda(m->sigma[i + 1]) - l, phi_1 = expm1(-h), B = m->how->bh1 ? -h : phi_1;
	double r[3] = {0}, rhs[3], rho[3] = {0}, phi = phi_1 / -h - 1, factorial = 1;
	int n = corrector ? points : points - 1;

	*x = b.sigma / a.sigma;
	memset(w, 0, 4 * sizeof *w);
	w[1] = -b.alpha * phi_1;
	for (int k = 0; k < points - 1; k++)
		r[k] = (lambda(m->sigma[i - 1 - k]) - l) / h;
	r[points - 1] = 1;
	for (int k = 0; k < n; k++) {
		rhs[k] = phi * factorial / B;
		factorial *= k + 2;
		phi = phi / -h - 1 / factorial;
	}
	solve_vandermonde(r, rhs, n, rho);
	if (n == 1)
		rho[0] = .5;
	for (int k = 0; k < n; k++) {
		double f = -b.alpha * B * rho[k] / r[k];

		w[k == points - 1 ? 0 : k + 2] += f;
		w[1] -= f;
	}
}

static void make_unipc(const struct maker *m, struct discrete_step *s, int64_t i)
{
	double w[4];

	if (i > 0) {
		s->correct = 1;
		uni_weights(m, i - 1, uni_points(m, i - 1), 1, &s->corrected_saved, s->corrected);
	}
	s->save = 1;
	uni_weights(m, i, uni_points(m, i), 0, &s->x, w);
	memcpy(s->x0, w + 1, sizeof s->x0);
}

static void make_step(const struct maker *m, int64_t i)
{
	struct discrete_step *s = &m->p->step[i];
	struct path_point p = at_sigma(m->sigma[i]);

	s->time = schedule_time(m->s, m->at[i]);
	s->scale = 1;
	prediction_relate(&p, m->kind, PREDICT_X0, &s->x0_x, &s->x0_out);
	switch (m->how->kind) {
	case DISCRETE_DDPM:
		make_ddpm(m, s, i);
		break;
	case DISCRETE_DDIM:
		make_ddim(m, s, &p, i);
		break;
	case DISCRETE_EULER:
		make_euler(m, s, i);
		break;
	case DISCRETE_MULTISTEP:
		make_multistep(m, s, i);
		break;
	case DISCRETE_UNIPC:
		make_unipc(m, s, i);
		break;
	default:
		make_singlestep(m, s, i);
	}
	m->p->noisy |= s->noise > 0 || s->log_hi > s->log_lo;
}

int discrete_plan_make(struct discrete_plan *p, const struct discrete *how, int64_t steps, const struct schedule *s, enum prediction kind,
                       int has_variance, struct err *e)
{
	struct discrete h = *how;
	struct maker m = {&h, s, kind, p, NULL, NULL};
	int rc;

	assert(steps > 0 && kind != PREDICT_VELOCITY && h.order >= 1 && h.order <= 3);
	memset(p, 0, sizeof *p);
	if (h.variance == VARIANCE_AUTO)
		h.variance = has_variance ? VARIANCE_LEARNED : VARIANCE_SMALL;
	if (h.variance == VARIANCE_LEARNED && !has_variance)
		return err_set(e, ERR_USAGE, "variance=learned: the networks predict no variance; use variance=small or variance=large");
	*p = (struct discrete_plan){.steps = steps, .start = 1, .clip = h.clip};
	if (h.sde && h.order == 3)
		return err_set(e, ERR_USAGE, "sde=yes is possible only with dpm++1 and dpm++2m");
	m.at = mem_zalloc(2 * (size_t)steps + 1, sizeof *m.at);
	m.sigma = m.at + steps;
	rc = h.sigmas && fenced(&h) ? 0 : space(&m, e);
	if (!rc) {
		p->step = mem_zalloc((size_t)steps, sizeof *p->step);
		for (int64_t i = 0; i < steps; i++)
			m.sigma[i] = table_sigma(s, m.at[i]);
		if (h.sigmas)
			space_sigmas(&m);
		m.sigma[steps] = h.final_min ? table_sigma(s, 0) : 0;
		for (int64_t i = 0; i < steps; i++)
			make_step(&m, i);
		if (h.kind == DISCRETE_EULER)
			p->start = h.spacing == SPACING_LEADING ? hypot(m.sigma[0], 1) : m.sigma[0];
	}
	mem_free(m.at);
	return rc;
}

void discrete_plan_release(struct discrete_plan *p)
{
	mem_free(p->step);
	memset(p, 0, sizeof *p);
}
