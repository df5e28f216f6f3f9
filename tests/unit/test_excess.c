/* diffusion/budget against a law: linear denoisers whose excess risk is known, one for each component and one for all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/budget.h"
#include "diffusion/gaussians.h"
#include "diffusion/gaussianspec.h"

enum { D = 12, RANK = 2, KMOST = 4, BATCH = 50, STATES = 6000 };
static const double pi = 3.14159265358979323846;

/* D(x) = shift + matrix x: the linear denoiser of data with this mean and covariance, at one time. */
struct linear {
	double mean[D], covariance[D * D]; /* of the data */
	double matrix[D * D], shift[D];    /* at t */
	float t;
};

/* The inverse (D, D) of a symmetric positive definite matrix, by Gauss and Jordan without pivots. */
static void invert(double *out, const double *a)
{
	double m[D * D];

	memcpy(m, a, sizeof m);
	for (int i = 0; i < D * D; i++)
		out[i] = i % (D + 1) == 0;
	for (int p = 0; p < D; p++) {
		double f = 1 / m[p * D + p];

		for (int j = 0; j < D; j++) {
			m[p * D + j] *= f;
			out[p * D + j] *= f;
		}
		for (int i = 0; i < D; i++) {
			double g = m[i * D + p];

			for (int j = 0; i != p && j < D; j++) {
				m[i * D + j] -= g * m[p * D + j];
				out[i * D + j] -= g * out[p * D + j];
			}
		}
	}
}

/* matrix = alpha S (alpha^2 S + sigma^2 I)^-1, shift = mean - alpha matrix mean */
static void settle(struct linear *l, float t)
{
	struct path_point p = path_at(&path_linear, t);
	double c[D * D], inverse[D * D];

	for (int i = 0; i < D * D; i++)
		c[i] = p.alpha * p.alpha * l->covariance[i] + (i % (D + 1) ? 0 : p.sigma * p.sigma);
	invert(inverse, c);
	l->t = t;
	for (int i = 0; i < D; i++) {
		l->shift[i] = l->mean[i];
		for (int j = 0; j < D; j++) {
			l->matrix[i * D + j] = 0;
			for (int k = 0; k < D; k++)
				l->matrix[i * D + j] += p.alpha * l->covariance[i * D + k] * inverse[k * D + j];
			l->shift[i] -= p.alpha * l->matrix[i * D + j] * l->mean[j];
		}
	}
}

static void take_component(struct linear *l, const struct gaussians *g, int k)
{
	memcpy(l->mean, g->mean + k * D, sizeof l->mean);
	for (int i = 0; i < D * D; i++) {
		l->covariance[i] = i % (D + 1) ? 0 : g->noise[k];
		for (int r = 0; r < RANK; r++)
			l->covariance[i] += g->variance[k * RANK + r] * g->basis[(k * RANK + r) * D + i / D] * g->basis[(k * RANK + r) * D + i % D];
	}
}

/* The mean and the covariance of the whole mixture. */
static void take_all(struct linear *l, const struct gaussians *g)
{
	memset(l, 0, sizeof *l);
	for (int k = 0; k < g->k; k++) {
		struct linear one;

		take_component(&one, g, k);
		for (int i = 0; i < D; i++)
			l->mean[i] += g->weight[k] * one.mean[i];
		for (int i = 0; i < D * D; i++)
			l->covariance[i] += g->weight[k] * (one.covariance[i] + one.mean[i / D] * one.mean[i % D]);
	}
	for (int i = 0; i < D * D; i++)
		l->covariance[i] -= l->mean[i / D] * l->mean[i % D];
}

static int linear_run(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	const struct linear *l = arg;

	(void)c;
	(void)e;
	for (int64_t r = 0; r < n; r++)
		for (int i = 0; i < D; i++) {
			double x0 = l->shift[i];

			assert_true(t[r] == l->t);
			for (int j = 0; j < D; j++)
				x0 += l->matrix[i * D + j] * x[r * D + j];
			v[r * D + i] = (float)((x[r * D + i] - x0) / t[r]);
		}
	return 0;
}

static const char *const names[] = {"exact:full", "optimum", "uniform|full", "oracle"};

/* Measure k experts against the law by one route, on new samples. */
static struct budget_sum measure(const struct gaussians *g, struct linear *l, int k, int whole, const char *route, float t)
{
	struct err e = {0};
	struct expert expert[KMOST];
	struct budget_route r;
	struct law *law = gaussians_law(g, 0, NULL, &e);
	struct budget_plan p = {.k = k, .d = D, .expert = expert, .reference = law, .whole = whole, .route = &r, .routes = 1};
	struct path_point at = path_at(&path_linear, t);
	struct budget_sum sum;
	struct budget *b;

	for (int i = 0; i < k; i++) {
		settle(&l[i], t);
		expert[i] = (struct expert){.velocity = linear_run, .arg = &l[i], .capacity = BATCH, .flops = 1};
	}
	assert_int_equal(budget_route_parse(route, &r, &e), 0);
	b = budget_new(&p, BATCH, &e);
	assert_non_null(b);
	for (int64_t from = 0; from < STATES; from += BATCH) {
		float x0[D], eps[D], x[BATCH * D], target[BATCH * D];
		int32_t own[BATCH];
		int64_t index[BATCH];

		for (int i = 0; i < BATCH; i++) {
			index[i] = from + i;
			own[i] = gaussians_draw(g, 7, RNG_TEST, (uint64_t)index[i], x0);
			own[i] = whole ? 0 : own[i];
			rng_normal(eps, D, 8, RNG_TEST, 3, (uint64_t)index[i]);
			path_noise(&at, x + i * D, x0, eps, D);
			path_target(&at, PREDICT_VELOCITY, target + i * D, x0, eps, D);
		}
		assert_int_equal(budget_add(b, t, BATCH, x, target, own, index, &e), 0);
	}
	sum = budget_sum(b, 0, LAW_ALL, NULL);
	budget_free(b);
	law_free(law);
	return sum;
}

static struct gaussians make(int k, double overlap, double separation, uint64_t seed)
{
	struct gaussian_spec s = {k, D, RANK, separation, overlap, 0, .05, .5, NULL, seed};
	struct gaussians g;

	assert_int_equal(gaussian_spec_make(&g, &s, NULL), 0);
	return g;
}

static const float times[] = {.03f, .1f, .3f, .6f, .9f, 1};
enum { TIMES = sizeof times / sizeof *times };

/* A component's linear denoiser is a multiple of the identity plus a matrix of the component's rank: its product with what is orthogonal to the basis
 * is 0. With the law's router these denoisers have no excess risk, but for the rounding of velocities to float. */
static void a_linear_denoiser_for_each_component(void **state)
{
	struct gaussians g = make(KMOST, -1, 2, 31);
	struct linear l[KMOST];

	(void)state;
	for (int k = 0; k < KMOST; k++)
		take_component(&l[k], &g, k);
	for (int c = 0; c < TIMES; c++) {
		struct path_point p = path_at(&path_linear, times[c]);
		struct budget_sum s = measure(&g, l, KMOST, 0, "exact:full", times[c]);

		assert_int_equal(s.n, STATES);
		if (!(s.total / s.flow < 1e-10 && s.expert / s.flow < 1e-10))
			fail_msg("t %g: relative excess %g", times[c], s.total / s.flow);
		for (int k = 0; k < KMOST; k++) {
			double shrink = p.alpha * g.noise[k] / (p.alpha * p.alpha * g.noise[k] + p.sigma * p.sigma);

			for (int i = 0; i < D * D; i++) {
				double off = 0;

				for (int j = 0; j < D; j++) {
					double outside = j == i % D;

					for (int r = 0; r < RANK; r++)
						outside -= g.basis[(k * RANK + r) * D + j] * g.basis[(k * RANK + r) * D + i % D];
					off += (l[k].matrix[i / D * D + j] - (i / D == j ? shrink : 0)) * outside;
				}
				assert_true(fabs(off) < 1e-10 * (1 + shrink));
			}
		}
	}
	gaussians_release(&g);
}

/* One linear denoiser for all of them has an excess risk at every time but 1: there the optimum is linear too. The loss above the least one agrees
 * with it within 4.5 standard errors. */
static void one_linear_denoiser_for_all(void **state)
{
	struct gaussians g = make(KMOST, -1, 2, 31);
	struct linear l;

	(void)state;
	take_all(&l, &g);
	for (int c = 0; c < TIMES; c++) {
		struct budget_sum s = measure(&g, &l, 1, 1, "expert:0", times[c]);
		double total = s.total / STATES, error = budget_error(s.total, s.total_squares, STATES);
		double excess = (s.loss - s.least) / STATES, bound = 4.5 * budget_error(s.loss - s.least, s.excess_squares, STATES);

		if (times[c] < 1 ? !(total > 20 * error && error > 0) : !(s.total / s.flow < 1e-10))
			fail_msg("t %g: excess %g +- %g", times[c], total, error);
		if (!(fabs(excess - total) <= bound + 1e-9))
			fail_msg("t %g: total %g, loss above the least %g +- %g", times[c], total, excess, bound / 4.5);
	}
	gaussians_release(&g);
}

/* Two components of one covariance S0, with means +m and -m, and C = alpha^2 S0 + sigma^2 I. z = alpha m' C^-1 x is sufficient for the sign b of the
 * mean, and N(b k, k) with k = alpha^2 m' C^-1 m. The optimum estimates b by tanh z, the linear denoiser by z / (1 + k), and everything else alike:
 * the excess risk of E[x0 | x] is |sigma^2 C^-1 m|^2 E (z / (1 + k) - tanh z)^2, by a sum over a fine grid of z. */
static double excess_of_two(const struct gaussians *g, float t)
{
	struct path_point p = path_at(&path_linear, t);
	struct linear one;
	double c[D * D], inverse[D * D], k = 0, size = 0, mean = 0;

	take_component(&one, g, 0);
	for (int i = 0; i < D * D; i++)
		c[i] = p.alpha * p.alpha * one.covariance[i] + (i % (D + 1) ? 0 : p.sigma * p.sigma);
	invert(inverse, c);
	for (int i = 0; i < D; i++) {
		double y = 0;

		for (int j = 0; j < D; j++)
			y += inverse[i * D + j] * one.mean[j];
		k += p.alpha * p.alpha * one.mean[i] * y;
		size += pow(p.sigma * p.sigma * y, 2);
	}
	for (int i = -40000; i <= 40000; i++) {
		double u = 1e-3 / 4 * i, z = k + sqrt(k) * u;

		mean += 1e-3 / 4 * exp(-u * u / 2) / sqrt(2 * pi) * pow(z / (1 + k) - tanh(z), 2);
	}
	return size * mean / (t * t * D);
}

static void a_known_excess(void **state)
{
	struct gaussians g = make(2, 1, 3, 32);
	struct linear l;

	(void)state;
	take_all(&l, &g);
	for (int c = 0; c < TIMES; c++) {
		struct budget_sum s = measure(&g, &l, 1, 1, "expert:0", times[c]);
		double want = excess_of_two(&g, times[c]), error = budget_error(s.total, s.total_squares, STATES);

		if (!(fabs(s.total / STATES - want) <= 4.5 * error + 1e-12) || (times[c] < 1 && !(error < .1 * want)))
			fail_msg("t %g: excess %g +- %g, expected %g", times[c], s.total / STATES, error, want);
	}
	gaussians_release(&g);
}

/* Experts of other clusters than the components are measured against the whole law; the routes that need its clusters are refused. */
static void other_clusters(void **state)
{
	struct gaussians g = make(3, 0, 2, 33);
	struct linear l[2];
	struct law *law = gaussians_law(&g, 0, NULL, NULL);
	struct budget_sum one, two, none;

	(void)state;
	take_all(&l[0], &g);
	l[1] = l[0];
	one = measure(&g, l, 1, 1, "expert:0", .3f);
	two = measure(&g, l, 2, 1, "uniform|full", .3f);
	none = measure(&g, l, 2, 1, "optimum", .3f);
	assert_true(fabs(two.total - one.total) < 1e-9 * one.total && fabs(two.expert - two.total) < 1e-9 * two.total);
	assert_true(two.router < 1e-20 * two.flow && none.total == 0 && none.loss == none.least);
	assert_true(fabs(none.loss - one.least) < 1e-12 * one.least);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct expert expert[2] = {{.velocity = linear_run, .arg = l, .capacity = BATCH, .flops = 1},
		                           {.velocity = linear_run, .arg = l, .capacity = BATCH, .flops = 1}};
		struct budget_route r;
		struct budget_plan p = {.k = 2, .d = D, .expert = expert, .reference = law, .whole = 1, .route = &r, .routes = 1};
		struct err e = {0};
		struct budget *b;

		assert_int_equal(budget_route_parse(names[i], &r, &e), 0);
		b = budget_new(&p, BATCH, &e);
		if (strcmp(names[i], "exact:full") && strcmp(names[i], "oracle"))
			assert_non_null(b);
		else
			assert_true(!b && e.code == ERR_USAGE && strstr(e.msg, "clusters are those of the law"));
		budget_free(b);
	}
	law_free(law);
	gaussians_release(&g);
}

/* Of n numbers with this sum and sum of squares. */
static void standard_error(void **state)
{
	(void)state;
	assert_true(fabs(budget_error(1 + 2 + 6, 1 + 4 + 36, 3) - sqrt((41. / 3 - 9) / 2)) < 1e-15);
	assert_true(budget_error(6, 12, 3) == 0);
	assert_true(isnan(budget_error(2, 4, 1)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_linear_denoiser_for_each_component),
	    cmocka_unit_test(one_linear_denoiser_for_all),
	    cmocka_unit_test(a_known_excess),
	    cmocka_unit_test(other_clusters),
	    cmocka_unit_test(standard_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
