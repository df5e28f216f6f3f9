/* diffusion/jacobian, trajectory and stability against closed forms. For a Gaussian of mean m and covariance S the velocity is affine: in a direction
 * of variance T, J has the eigenvalue (sigma - alpha T) / (alpha^2 T + sigma^2), so that every number is a function of matrices with the eigenvectors
 * of S. The weights of a mixture of Gaussians by their posterior give dD/dx = alpha / sigma^2 Cov(x0 | x). Experts that are linear with a matrix that
 * is not symmetric test the transpose. Differences of float velocities over a relative 1e-3 are exact to about 1e-4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/gaussians.h"
#include "diffusion/sampler.h"
#include "diffusion/stability.h"

enum { D = 6, RANK = 2, KMOST = 2, COUNT = 6, STEPS = 8, DIRECTIONS = 3 };
static const double TOL = 1e-3;

static struct device *device;

/* ---- matrices ---- */

static void times(double *out, const double *m, const double *v)
{
	for (int i = 0; i < D; i++) {
		out[i] = 0;
		for (int j = 0; j < D; j++)
			out[i] += m[i * D + j] * v[j];
	}
}

/* The largest eigenvalue of a symmetric matrix: many steps of power iteration on m + shift I. */
static double largest(const double *m, double shift)
{
	double u[D] = {1, .9, -.8, .7, .6, -.5}, v[D], norm = 0;

	for (int s = 0; s < 20000; s++) {
		times(v, m, u);
		norm = 0;
		for (int i = 0; i < D; i++) {
			v[i] += shift * u[i];
			norm += v[i] * v[i];
		}
		norm = sqrt(norm);
		for (int i = 0; i < D; i++)
			u[i] = v[i] / norm;
	}
	return norm - shift;
}

/* The largest singular value. */
static double spectral(const double *m)
{
	double mm[D * D] = {0};

	for (int i = 0; i < D; i++)
		for (int j = 0; j < D; j++)
			for (int k = 0; k < D; k++)
				mm[i * D + j] += m[k * D + i] * m[k * D + j];
	return sqrt(largest(mm, 0));
}

static double length(const double *v)
{
	double s = 0;

	for (int i = 0; i < D; i++)
		s += v[i] * v[i];
	return sqrt(s);
}

static void near(double got, double want, double tol)
{
	if (!(fabs(got - want) <= tol * fmax(fabs(want), .05)))
		fail_msg("%.9g, expected %.9g", got, want);
}

/* ---- Gaussians ---- */

static struct gaussians g;
static struct law *laws[KMOST], *whole;

static int set_up(void **state)
{
	const double variance[KMOST][RANK] = {{1.5, .4}, {.7, .9}}, noise[KMOST] = {.05, .1};

	(void)state;
	device = device_cpu(NULL, DT_F32);
	if (gaussians_init(&g, KMOST, D, RANK, NULL))
		return -1;
	for (int k = 0; k < KMOST; k++) {
		double *u = g.basis + k * RANK * D, n = sqrt(D), dot = 0, left = 0;

		g.weight[k] = k ? .4 : .6;
		g.noise[k] = noise[k];
		for (int j = 0; j < D; j++) {
			g.mean[k * D + j] = (k ? -1.2 : 1) * cos(1 + j + 2 * k);
			u[j] = (j + k) % 2 ? 1 / n : -1 / n;
			u[D + j] = j + 1 + k;
			dot += u[j] * u[D + j];
		}
		for (int j = 0; j < D; j++) {
			u[D + j] -= dot * u[j];
			left += u[D + j] * u[D + j];
		}
		for (int j = 0; j < D; j++)
			u[D + j] /= sqrt(left);
		memcpy(g.variance + k * RANK, variance[k], sizeof variance[k]);
	}
	for (int k = 0; k < KMOST; k++)
		if (!(laws[k] = gaussians_law(&g, 0, NULL, NULL)))
			return -1;
	whole = gaussians_law(&g, 0, NULL, NULL);
	return whole ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	for (int k = 0; k < KMOST; k++)
		law_free(laws[k]);
	law_free(whole);
	gaussians_release(&g);
	device_free(device);
	return 0;
}

/* f(S_k) for a function of the variance T at time t. */
static void of_covariance(double *out, int k, double (*f)(double variance, double t), double t)
{
	double plain = f(g.noise[k], t);

	for (int i = 0; i < D * D; i++) {
		out[i] = i % (D + 1) ? 0 : plain;
		for (int r = 0; r < RANK; r++) {
			const double *u = g.basis + (k * RANK + r) * D;

			out[i] += (f(g.noise[k] + g.variance[k * RANK + r], t) - plain) * u[i / D] * u[i % D];
		}
	}
}

static double slope(double variance, double t)
{
	return (t - (1 - t) * variance) / (t * t + (1 - t) * (1 - t) * variance);
}

/* Its derivative by t. */
static double slope_dt(double v, double t)
{
	double c = t * t + (1 - t) * (1 - t) * v;

	return (1 + v) / c - (t - (1 - t) * v) * (2 * t - 2 * (1 - t) * v) / (c * c);
}

static double remaining(double variance, double t) /* Cov(x0 | x) */
{
	return variance * t * t / (t * t + (1 - t) * (1 - t) * variance);
}

static double root(double variance, double t)
{
	(void)t;
	return sqrt(variance);
}

/* v = J (x - (1 - t) m) - m for component k. */
static void velocity(double *v, int k, const double *x, double t)
{
	double jacobian[D * D], y[D];

	of_covariance(jacobian, k, slope, t);
	for (int i = 0; i < D; i++)
		y[i] = x[i] - (1 - t) * g.mean[k * D + i];
	times(v, jacobian, y);
	for (int i = 0; i < D; i++)
		v[i] -= g.mean[k * D + i];
}

/* dv/dt + J v at x. */
static void acceleration(double *a, const double *x, const double *v, double t)
{
	double jacobian[D * D], change[D * D], y[D], b[D], z[D];

	of_covariance(jacobian, 0, slope, t);
	of_covariance(change, 0, slope_dt, t);
	for (int i = 0; i < D; i++) {
		y[i] = x[i] - (1 - t) * g.mean[i];
		z[i] = v[i] + g.mean[i];
	}
	times(a, change, y);
	times(b, jacobian, z);
	for (int i = 0; i < D; i++)
		a[i] += b[i];
}

/* ---- experts and router ---- */

static int law_velocity(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	(void)c;
	(void)e;
	law_predict(*(struct law **)arg, (int)((struct law **)arg - laws), &path_linear, PREDICT_VELOCITY, n, x, t, v);
	return 0;
}

static int law_router(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e)
{
	(void)arg;
	(void)e;
	law_logits(whole, &path_linear, n, x, t, logits);
	return 0;
}

static int pull_law(void *arg, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *back, struct err *e)
{
	double jacobian[D * D], in[D], out[D];

	(void)arg;
	for (int64_t i = 0; i < n; i++) {
		of_covariance(jacobian, k, slope, t[i]);
		for (int c = 0; c < D; c++)
			in[c] = r[i * D + c];
		times(out, jacobian, in);
		for (int c = 0; c < D; c++)
			back[i * D + c] = (float)out[c];
	}
	return law_velocity(&laws[k], n, x, t, NULL, v, e);
}

static int pull_router(void *arg, int64_t n, const float *x, const float *t, const float *r, float *back, struct err *e)
{
	(void)arg;
	(void)e;
	law_pull_logits(whole, &path_linear, n, x, t, r, back);
	return 0;
}

/* v = B x */
static double matrix[D * D];

static int linear_velocity(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	(void)arg;
	(void)t;
	(void)c;
	(void)e;
	for (int64_t i = 0; i < n * D; i++) {
		double s = 0;

		for (int j = 0; j < D; j++)
			s += matrix[i % D * D + j] * x[i / D * D + j];
		v[i] = (float)s;
	}
	return 0;
}

static int pull_linear(void *arg, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *back, struct err *e)
{
	(void)k;
	for (int64_t i = 0; i < n * D; i++) {
		double s = 0;

		for (int j = 0; j < D; j++)
			s += matrix[j * D + i % D] * r[i / D * D + j];
		back[i] = (float)s;
	}
	return linear_velocity(arg, n, x, t, NULL, v, e);
}

/* ---- a measurement ---- */

struct bench {
	struct expert expert[KMOST];
	struct router router;
	struct mixture mixture;
	struct stability_plan plan;
	struct stability *s;
};

static void start(struct bench *b, int k, const char *route, int heun, int64_t batch)
{
	static const double shares[KMOST] = {.6, .4};
	struct err e = {0};

	memset(b, 0, sizeof *b);
	for (int i = 0; i < k; i++)
		b->expert[i] = (struct expert){.velocity = law_velocity, .arg = &laws[i], .capacity = 3};
	b->router = (struct router){.logits = law_router, .capacity = 4};
	b->mixture = (struct mixture){.k = k,
	                              .d = D,
	                              .expert = b->expert,
	                              .router = &b->router,
	                              .policy = policy_of(route),
	                              .cfg = 1,
	                              .shares = shares,
	                              .seed = 5,
	                              .device = device};
	b->plan = (struct stability_plan){.mixture = &b->mixture,
	                                  .pull = {NULL, pull_law, pull_router},
	                                  .heun = heun,
	                                  .steps = STEPS,
	                                  .every = 1,
	                                  .count = COUNT,
	                                  .directions = DIRECTIONS,
	                                  .iteration = {1000, 0, 5},
	                                  .whole = 1};
	if (!(b->s = stability_new(&b->plan, batch, &e)))
		fail_msg("%s", e.msg);
}

static void finish(struct bench *b, int64_t batch)
{
	struct err e = {0};

	for (int64_t i = 0; i < COUNT; i += batch)
		if (!stability_add(b->s, i, COUNT - i < batch ? COUNT - i : batch, &e))
			fail_msg("%s", e.msg);
}

/* One step of the reference, and, if m is not NULL, of the derivative m (D, D) of the map. */
static void walk(double *x, double *m, int64_t i, int64_t steps, int heun)
{
	double t = (double)(steps - i) / (double)steps, end = (double)(steps - i - 1) / (double)steps, h = end - t, v[D], y[D], v2[D];
	double j1[D * D], j2[D * D], column[D], a[D], b[D];
	int second = heun && i + 1 < steps;

	velocity(v, 0, x, t);
	for (int c = 0; c < D; c++)
		y[c] = x[c] + h * v[c];
	if (second)
		velocity(v2, 0, y, end);
	for (int c = 0; c < D; c++)
		x[c] = second ? x[c] + .5 * h * (v[c] + v2[c]) : y[c];
	of_covariance(j1, 0, slope, t);
	if (second)
		of_covariance(j2, 0, slope, end);
	for (int c = 0; m && c < D; c++) {
		for (int r = 0; r < D; r++)
			column[r] = m[r * D + c];
		times(a, j1, column);
		for (int r = 0; r < D; r++)
			y[r] = column[r] + h * a[r];
		if (second)
			times(b, j2, y);
		for (int r = 0; r < D; r++)
			m[r * D + c] = second ? column[r] + .5 * h * (a[r] + b[r]) : y[r];
	}
}

static void noise(double *x, int64_t index)
{
	float z[D];

	rng_normal(z, D, 5, RNG_SAMPLE, 0, (uint64_t)index);
	for (int c = 0; c < D; c++)
		x[c] = z[c];
}

static double middle(double *v, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && v[j] < v[j - 1]; j--) {
			double s = v[j];

			v[j] = v[j - 1];
			v[j - 1] = s;
		}
	return .5 * (v[(n - 1) / 2] + v[n / 2]);
}

static void check_gaussian(int heun)
{
	struct bench b;
	double x[COUNT][D], from[COUNT][D], path[STEPS + 1][COUNT][D], fine[D], m[D * D] = {0}, jacobian[D * D], a[D], v[D],
										      gains[COUNT * DIRECTIONS];
	double norm[STEPS], mu[STEPS], bound = 0, sum = 0, ratio = 0, apart = 0, all = 0, straight = 0;
	struct stability_total total;

	start(&b, 1, "uniform|full", heun, COUNT);
	finish(&b, COUNT);
	total = stability_total(b.s);
	for (int i = 0; i < COUNT; i++) {
		noise(from[i], i);
		memcpy(x[i], from[i], sizeof from[i]);
		memcpy(path[0][i], from[i], sizeof from[i]);
	}
	for (int i = 0; i < D; i++)
		m[i * D + i] = 1;
	for (int s = 0; s < STEPS; s++) {
		double t = (double)(STEPS - s) / STEPS, bend = 0;

		of_covariance(jacobian, 0, slope, t);
		norm[s] = spectral(jacobian);
		for (int i = 0; i < D * D; i++)
			jacobian[i] *= -1;
		mu[s] = largest(jacobian, 100);
		near(stability_at(b.s, STABILITY_JACOBIAN, s), norm[s], TOL);
		near(stability_at(b.s, STABILITY_MU, s), mu[s], TOL);
		near(stability_at(b.s, STABILITY_BOUND, s), exp(bound), TOL);
		bound += mu[s] / STEPS;
		for (int i = 0; i < COUNT * DIRECTIONS; i++) {
			float z[D];
			double in[D], out[D];

			rng_normal(z, D, 5, RNG_METRIC, 4 + (uint64_t)(i / COUNT), (uint64_t)(i % COUNT));
			for (int c = 0; c < D; c++)
				in[c] = z[c];
			times(out, m, in);
			gains[i] = length(out) / length(in);
		}
		near(stability_at(b.s, STABILITY_AMPLIFICATION, s), middle(gains, COUNT * DIRECTIONS), TOL);
		for (int i = 0; i < COUNT; i++) {
			double vv, va = 0, across = 0;

			velocity(v, 0, x[i], t);
			acceleration(a, x[i], v, t);
			vv = length(v) * length(v);
			for (int c = 0; c < D; c++)
				va += v[c] * a[c];
			for (int c = 0; c < D; c++)
				across += (a[c] - va / vv * v[c]) * (a[c] - va / vv * v[c]);
			bend += sqrt(across * D) / vv / COUNT;
			walk(x[i], i ? NULL : m, s, STEPS, heun);
			memcpy(path[s + 1][i], x[i], sizeof x[i]);
		}
		near(stability_at(b.s, STABILITY_CURVATURE, s), bend, 2 * TOL);
		sum += bend / STEPS;
	}
	near(total.column[STABILITY_CURVATURE], sum, 2 * TOL);
	near(total.column[STABILITY_BOUND], exp(bound), TOL);
	near(total.largest[0], spectral(m), TOL);
	near(total.largest[1], spectral(m), TOL);
	assert_true(total.largest[0] <= exp(bound) * 1.2 && total.column[STABILITY_AMPLIFICATION] < total.largest[0]);
	for (int i = 0; i < COUNT; i++) {
		double line[D], way = 0;

		for (int c = 0; c < D; c++)
			line[c] = from[i][c] - x[i][c];
		for (int s = 0; s < STEPS; s++) {
			double step[D];

			velocity(v, 0, path[s][i], (double)(STEPS - s) / STEPS);
			for (int c = 0; c < D; c++) {
				step[c] = path[s + 1][i][c] - path[s][i][c];
				straight += (line[c] - v[c]) * (line[c] - v[c]) / (D * STEPS * COUNT);
			}
			way += length(step);
		}
		ratio += way / length(line) / COUNT;
		memcpy(fine, from[i], sizeof fine);
		for (int s = 0; s < 4 * STEPS; s++)
			walk(fine, NULL, s, 4 * STEPS, heun);
		for (int c = 0; c < D; c++) {
			apart += (fine[c] - x[i][c]) * (fine[c] - x[i][c]);
			all += fine[c] * fine[c];
		}
	}
	near(total.column[STABILITY_STRAIGHTNESS], straight, 1e-4);
	near(total.path, ratio, 1e-4);
	near(total.gap, sqrt(apart / all), 1e-3);
	near(total.column[STABILITY_JACOBIAN_FROZEN], total.column[STABILITY_JACOBIAN], 0);
	near(total.column[STABILITY_AMPLIFICATION_FROZEN], total.column[STABILITY_AMPLIFICATION], 0);
	stability_free(b.s);
}

static void gaussian(void **state)
{
	(void)state;
	check_gaussian(0);
	check_gaussian(1);
}

/* The gap is (4^p - 1) / 4^p of the error: the flow of a Gaussian leads from x to m + S^(1/2) x. */
static void refinement(void **state)
{
	(void)state;
	for (int heun = 0; heun < 2; heun++) {
		struct err e = {0};
		struct bench b;
		double to[D], m[D * D], x[D], off = 0, all = 0, part = 1 - pow(4, -1 - heun);
		const struct trajectory *y;

		start(&b, 1, "uniform|full", heun, COUNT);
		stability_free(b.s);
		b.plan.steps = 64;
		b.plan.every = 64;
		b.plan.whole = 0;
		b.s = stability_new(&b.plan, COUNT, &e);
		assert_non_null(y = stability_add(b.s, 0, COUNT, &e));
		of_covariance(m, 0, root, 0);
		for (int i = 0; i < COUNT; i++) {
			noise(x, i);
			times(to, m, x);
			for (int c = 0; c < D; c++) {
				double at = g.mean[c] + to[c], got = y->x[(64 * COUNT + i) * D + c];

				off += (got - at) * (got - at);
				all += at * at;
			}
		}
		print_message("gap over error %.4f, expected %.4f\n", stability_total(b.s).gap / sqrt(off / all), part);
		near(stability_total(b.s).gap / sqrt(off / all), part, .03);
		stability_free(b.s);
	}
}

/* E[x0 | x] and Cov(x0 | x) of the mixture at a state, or with the weights w as they are: sum w_k Cov_k alone. */
static void covariance(double *out, const float *x, double t, const double *w, int frozen)
{
	struct path_point at = path_at(&path_linear, t);
	double mean[KMOST][D], one[D * D], all[D] = {0};

	memset(out, 0, D * D * sizeof *out);
	for (int k = 0; k < KMOST; k++) {
		law_posterior(whole, k, 1, x, &at, NULL, mean[k]);
		for (int c = 0; c < D; c++)
			all[c] += w[k] * mean[k][c];
	}
	for (int k = 0; k < KMOST; k++) {
		of_covariance(one, k, remaining, t);
		for (int i = 0; i < D * D; i++)
			out[i] += w[k] * (one[i] + (frozen ? 0 : (mean[k][i / D] - all[i / D]) * (mean[k][i % D] - all[i % D])));
	}
}

static void routed(void **state)
{
	struct err e = {0};
	struct bench b;
	const struct trajectory *y;
	static double m[2][COUNT][D * D];

	(void)state;
	for (int i = 0; i < 2 * COUNT; i++)
		for (int c = 0; c < D * D; c++)
			m[i / COUNT][i % COUNT][c] = c % (D + 1) == 0;
	start(&b, KMOST, "full", 0, COUNT);
	assert_non_null(y = stability_add(b.s, 0, COUNT, &e));
	for (int s = 0; s < STEPS; s++)
		for (int frozen = 0; frozen < 2; frozen++) {
			double t = (double)(STEPS - s) / STEPS, norm = 0, mu = 0;

			for (int i = 0; i < COUNT; i++) {
				double c[D * D], j[D * D], lambda;

				covariance(c, y->at + (s * COUNT + i) * D, t, y->w + (s * COUNT + i) * KMOST, frozen);
				lambda = largest(c, 1) * (1 - t) / (t * t);
				for (int a = 0; a < D * D; a++)
					j[a] = ((a % (D + 1) ? 0 : 1) - (1 - t) / (t * t) * c[a]) / t;
				norm += spectral(j) / COUNT;
				mu += (lambda - 1) / t / COUNT;
				for (int col = 0; col < D; col++) {
					double in[D], out[D];

					for (int r = 0; r < D; r++)
						in[r] = m[frozen][i][r * D + col];
					times(out, j, in);
					for (int r = 0; r < D; r++)
						m[frozen][i][r * D + col] -= out[r] / STEPS;
				}
			}
			near(stability_at(b.s, frozen ? STABILITY_JACOBIAN_FROZEN : STABILITY_JACOBIAN, s), norm, 5 * TOL);
			near(stability_at(b.s, frozen ? STABILITY_MU_FROZEN : STABILITY_MU, s), mu, 5 * TOL);
		}
	for (int frozen = 0; frozen < 2; frozen++) {
		double gain = 0;

		for (int i = 0; i < COUNT; i++)
			gain += spectral(m[frozen][i]) / COUNT;
		near(stability_total(b.s).largest[frozen], gain, 5 * TOL);
	}
	assert_true(fabs(stability_total(b.s).largest[0] / stability_total(b.s).largest[1] - 1) > 20 * TOL);
	stability_free(b.s);
}

/* <J r, q> = <r, J' q> with free routing, for policies that drop experts, have a temperature or keep raw weights. */
static void transpose(void **state)
{
	static const char *const routes[] = {"full", "top-1", "router:.5|full", "router|top-1|raw", "router:2|top-1|raw", "uniform|full", "prior"};

	(void)state;
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
		struct err e = {0};
		struct bench b;
		const struct trajectory *y;
		double r[COUNT * D], q[COUNT * D], jr[COUNT * D], jq[COUNT * D], scale = 0;
		float z[2 * COUNT * D];

		start(&b, KMOST, routes[i], 0, COUNT);
		stability_free(b.s);
		b.plan.iteration.most = 2;
		b.plan.whole = 0;
		b.s = stability_new(&b.plan, COUNT, &e);
		assert_non_null(y = stability_add(b.s, 0, COUNT, &e));
		rng_normal(z, 2 * COUNT * D, 1, RNG_TEST, 0, i);
		for (int c = 0; c < COUNT * D; c++) {
			r[c] = z[c];
			q[c] = z[COUNT * D + c];
		}
		for (int s = 0; s < STEPS; s++) {
			struct jacobian_point p = trajectory_point(stability_trajectories(b.s), s, 0);

			assert_int_equal(jacobian_times(stability_jacobian(b.s), &p, r, 0, jr, &e), 0);
			assert_int_equal(jacobian_transposed(stability_jacobian(b.s), &p, q, jq, &e), 0);
			for (int row = 0; row < COUNT; row++) {
				double one = 0, other = 0;

				for (int c = row * D; c < (row + 1) * D; c++) {
					one += jr[c] * q[c];
					other += r[c] * jq[c];
				}
				scale = length(jr + row * D) * length(q + row * D);
				if (!(fabs(one - other) <= 2e-3 * scale))
					fail_msg("%s, t = %g: <J r, q> = %g, <r, J' q> = %g", routes[i], p.t, one, other);
			}
		}
		assert_non_null(y);
		stability_free(b.s);
	}
}

/* A shear of strength 2 and a rotation: J is neither symmetric nor normal. */
static void not_symmetric(void **state)
{
	(void)state;
	for (int heun = 0; heun < 2; heun++) {
		struct err e = {0};
		struct bench b;

		start(&b, 1, "uniform|full", heun, COUNT);
		stability_free(b.s);
		memset(matrix, 0, sizeof matrix);
		matrix[1] = 2;
		b.expert[0].velocity = linear_velocity;
		b.plan.pull.expert = pull_linear;
		b.s = stability_new(&b.plan, COUNT, &e);
		finish(&b, COUNT);
		near(stability_total(b.s).column[STABILITY_JACOBIAN], 2, TOL);
		near(stability_total(b.s).column[STABILITY_MU], 1, TOL);
		near(stability_total(b.s).largest[0], 1 + sqrt(2), TOL);
		near(stability_total(b.s).column[STABILITY_BOUND], exp(1), TOL);
		stability_free(b.s);
		memset(matrix, 0, sizeof matrix);
		for (int c = 0; c < D; c += 2) {
			matrix[c * D + c] = matrix[(c + 1) * D + c + 1] = 1.5;
			matrix[c * D + c + 1] = 2;
			matrix[(c + 1) * D + c] = -2;
		}
		b.s = stability_new(&b.plan, COUNT, &e);
		finish(&b, COUNT);
		near(stability_total(b.s).column[STABILITY_JACOBIAN], 2.5, TOL);
		near(stability_total(b.s).column[STABILITY_MU], -1.5, TOL); /* the dominant eigenvalue of the symmetric part is negative near t = 1 */
		near(stability_total(b.s).largest[0], stability_total(b.s).column[STABILITY_AMPLIFICATION], TOL);
		stability_free(b.s);
	}
}

/* The trajectories are those of the sampler, to the bit. */
static void same_as_sampler(void **state)
{
	(void)state;
	for (int heun = 0; heun < 2; heun++) {
		struct err e = {0};
		struct bench b;
		struct sampler how = {.solver = {.kind = heun ? SOLVER_HEUN : SOLVER_EULER, .steps = STEPS, .from = 1}, .seed = 5, .batch = COUNT};
		const int64_t index[COUNT] = {0, 1, 2, 3, 4, 5};
		const struct sampler_call call = {.n = COUNT, .index = index};
		const struct trajectory *y;
		struct sampler_state *st;
		float x[COUNT * D];

		start(&b, KMOST, "top-1,full@.5", heun, COUNT);
		how.mixture = &b.mixture;
		assert_non_null(st = sampler_new(&how, &e));
		assert_int_equal(sampler_run(st, x, &call, NULL, NULL, &e), 0);
		assert_non_null(y = stability_add(b.s, 0, COUNT, &e));
		assert_memory_equal(x, y->x + STEPS * COUNT * D, sizeof x);
		sampler_free(st);
		stability_free(b.s);
	}
}

static void batches(void **state)
{
	struct bench a, b;
	struct stability_total one, other;

	(void)state;
	start(&a, KMOST, "full", 1, COUNT);
	start(&b, KMOST, "full", 1, 4);
	a.plan.iteration.tolerance = b.plan.iteration.tolerance = .01;
	finish(&a, COUNT);
	finish(&b, 4);
	one = stability_total(a.s);
	other = stability_total(b.s);
	assert_memory_equal(&one, &other, sizeof one);
	for (int c = 0; c < STABILITY_COLUMNS; c++)
		for (int s = 0; s < STEPS; s++) {
			double x = stability_at(a.s, (enum stability_column)c, s), y = stability_at(b.s, (enum stability_column)c, s);

			assert_true(isfinite(x));
			assert_memory_equal(&x, &y, sizeof x);
		}
	stability_free(a.s);
	stability_free(b.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(gaussian),       cmocka_unit_test(refinement),    cmocka_unit_test(routed),
	                                   cmocka_unit_test(transpose),      cmocka_unit_test(not_symmetric), cmocka_unit_test(batches),
	                                   cmocka_unit_test(same_as_sampler)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
