/* net/timerange, diffusion/objective: ranges of training times, and the laws of times conditioned on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/objective.h"

static void texts(void **state)
{
	static const struct {
		const char *text;
		double from, to;
		const char *back;
	} good[] = {{"0..1", 0, 0, "0..1"},
	            {"0...5", 0, .5, "0..0.5"},
	            {".5..1", .5, 1, "0.5..1"},
	            {".25...75", .25, .75, "0.25..0.75"},
	            {"0.875..1", .875, 1, "0.875..1"},
	            {"1e-3..1", .001, 1, "0.001..1"}};
	static const char *const bad[] = {"", "..", ".5", ".5..", "...5", "0..2", "-1..1", ".5...5", ".6...5", "0..1x", "a..b", "nan..1", "0,1"};
	char text[TIME_RANGE_TEXT];
	struct time_range r;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(time_range_parse(good[i].text, &r, NULL), 0);
		assert_true(r.from == good[i].from && r.to == good[i].to);
		assert_string_equal(time_range_text(r, text), good[i].back);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		e = (struct err){0};
		assert_int_equal(time_range_parse(bad[i], &r, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
}

static void half_open(void **state)
{
	const struct time_range low = {0, .875}, high = {.875, 1}, all = {0};

	(void)state;
	assert_true(time_range_holds(low, 0) && time_range_holds(low, nextafter(.875, 0)) && !time_range_holds(low, .875));
	assert_true(!time_range_holds(high, nextafter(.875, 0)) && time_range_holds(high, .875) && time_range_holds(high, 1));
	assert_true(time_range_holds(all, 0) && time_range_holds(all, 1));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

enum { N = 20000 };

static void draw(double *t, const struct time_law *law, const struct time_range *r, const struct path *path)
{
	for (uint64_t i = 0; i < N; i++)
		t[i] = time_sample(law, r, path, 7, RNG_TEST, i / 64, i % 64);
	qsort(t, N, sizeof *t, by_value);
}

/* The probability of t below the given one by the whole law, in closed form. log sigma/alpha = -logSNR/2 on every path. */
static double law_below(const struct time_law *law, const struct path *path, double t)
{
	double z = law->kind == TIME_LOGIT_NORMAL ? log(t / (1 - t)) : -.5 * path_at(path, t).logsnr;

	if (law->kind == TIME_UNIFORM)
		return (t - path->lo) / (path->hi - path->lo);
	return .5 * erfc((law->mean - z) / law->std / sqrt(2));
}

/* Kolmogorov and Smirnov's distance between the draws and the conditioned law is below its .999 quantile, 1.95 / sqrt(N); all draws are in range. */
static void conditioned_laws(void **state)
{
	static const struct time_law laws[] = {
	    {TIME_UNIFORM, 0, 0}, {TIME_LOGIT_NORMAL, -.4, 1.2}, {TIME_LOGIT_NORMAL, 1, .5}, {TIME_LOGNORMAL, -1.2, 1.2}};
	static const struct time_range ranges[] = {{.3, .6}, {.6, .95}, {.05, .3}, {.9, .91}};
	const struct path *const paths[] = {&path_linear, &path_gvp, &path_cosine, &path_edm};
	double *t = mem_alloc(N * sizeof *t);

	(void)state;
	for (size_t p = 0; p < 4; p++)
		for (size_t l = 0; l < 4; l++)
			for (size_t k = 0; k < 4; k++) {
				const struct time_range *r = &ranges[k];
				double a = law_below(&laws[l], paths[p], r->from), b = law_below(&laws[l], paths[p], r->to), most = 0;

				if (b - a < 1e-6) /* the closed form above loses its digits in the upper tail; upper_tail has that case */
					continue;
				assert_int_equal(time_check(&laws[l], *r, paths[p], NULL), 0);
				draw(t, &laws[l], r, paths[p]);
				assert_true(time_range_holds(*r, t[0]) && time_range_holds(*r, t[N - 1]));
				for (int i = 0; i < N; i++) {
					double f = (law_below(&laws[l], paths[p], t[i]) - a) / (b - a);

					most = fmax(most, fmax(fabs(f - (double)i / N), fabs(f - (i + 1.) / N)));
				}
				assert_true(most < 1.95 / sqrt(N));
			}
	mem_free(t);
}

/* An independent reference: those of the whole law's draws that lie in the range. The distance of the two samples is below its .999 quantile. At an
 * end of the path the law has an atom, which belongs to the range that touches that end. */
static void draws_of_the_whole_law(void **state)
{
	static const struct time_law law = {TIME_LOGNORMAL, 1, 2.5};
	static const struct time_range ranges[] = {{0, .5}, {.5, 1}, {.4, .7}};
	double *t = mem_alloc(N * sizeof *t), *whole = mem_alloc(N * sizeof *whole);

	(void)state;
	draw(whole, &law, NULL, &path_edm);
	for (size_t k = 0; k < 3; k++) {
		int first = 0, m = 0, below = 0;
		double most = 0;

		draw(t, &law, &ranges[k], &path_edm);
		for (int i = 0; i < N; i++)
			m += time_range_holds(ranges[k], whole[i]);
		while (whole[first] < ranges[k].from)
			first++;
		assert_true(m > 1000);
		for (int i = 0; i < m; i++) {
			while (below < N && t[below] <= whole[first + i])
				below++;
			if (i + 1 == m || whole[first + i + 1] > whole[first + i])
				most = fmax(most, fabs((double)below / N - (i + 1.) / m));
		}
		assert_true(most < 1.95 * sqrt(1. / N + 1. / m));
		assert_true(k != 1 || t[N - 1] == 1);
	}
	mem_free(t);
	mem_free(whole);
}

/* Eight to nine standard deviations above the mean, where 1 minus the distribution function is 6e-16: quantiles by the upper tail's closed form. */
static void upper_tail(void **state)
{
	static const struct time_law law = {TIME_LOGIT_NORMAL, 0, .5};
	const struct time_range r = {1 / (1 + exp(-4.)), 1 / (1 + exp(-4.5))};
	double *t = mem_alloc(N * sizeof *t), a = erfc(8 / sqrt(2)), b = erfc(9 / sqrt(2)), most = 0;

	(void)state;
	assert_int_equal(time_check(&law, r, &path_linear, NULL), 0);
	draw(t, &law, &r, &path_linear);
	for (int i = 0; i < N; i++)
		most = fmax(most, fabs((a - erfc(log(t[i] / (1 - t[i])) / .5 / sqrt(2))) / (a - b) - (i + .5) / N));
	assert_true(most < 1.95 / sqrt(N));
	mem_free(t);
}

/* Every step in the range, equally often: chi-squared below its .999 quantile, and no others. Two ranges that meet share no step. */
static void steps(void **state)
{
	static const struct time_law law = {TIME_DISCRETE, 0, 0};
	static const struct {
		struct time_range range;
		int first, last;
	} want[] = {{{0, .02}, 0, 19}, {{.02, .05}, 20, 49}, {{.9755, 1}, 976, 999}};
	struct schedule s;
	const struct path *ddpm = schedule_path(&s, "linear_betas", &(struct betas){1000, 1e-4, .02, NULL}, 0, NULL);

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		int n = want[k].last - want[k].first + 1, count[1000] = {0};
		double chi = 0;

		for (uint64_t i = 0; i < N; i++) {
			double t = time_sample(&law, &want[k].range, ddpm, 3, RNG_TEST, 0, i);
			int step = (int)lround(t * 1000);

			assert_true(t == schedule_time(&s, step) && step >= want[k].first && step <= want[k].last);
			count[step]++;
		}
		for (int i = want[k].first; i <= want[k].last; i++)
			chi += pow(count[i] - (double)N / n, 2) / ((double)N / n);
		assert_true(chi < n - 1 + 3.1 * sqrt(2. * (n - 1)) + 7);
	}
	schedule_release(&s);
}

static void refusals(void **state)
{
	static const struct time_law discrete = {TIME_DISCRETE, 0, 0}, narrow = {TIME_LOGIT_NORMAL, 0, 1e-3}, uniform = {TIME_UNIFORM, 0, 0};
	struct schedule s;
	const struct path *ddpm = schedule_path(&s, "linear_betas", &(struct betas){1000, 1e-4, .02, NULL}, 0, NULL);
	struct err e = {0};

	(void)state;
	assert_int_equal(time_check(&discrete, (struct time_range){.0101, .0109}, ddpm, &e), -1);
	assert_true(e.code == ERR_USAGE && strstr(e.msg, "0.0101 to 0.0109"));
	assert_int_equal(time_check(&discrete, (struct time_range){.0101, .0111}, ddpm, NULL), 0);
	assert_int_equal(time_check(&narrow, (struct time_range){.6, 1}, &path_linear, NULL), -1);
	assert_int_equal(time_check(&uniform, (struct time_range){.9995, 1}, ddpm, NULL), -1);
	assert_int_equal(time_check(&uniform, (struct time_range){0}, ddpm, NULL), 0);
	schedule_release(&s);
}

/* Validation covers the range and no more. */
static void spans(void **state)
{
	double lo, hi;

	(void)state;
	time_span((struct time_range){0}, &path_cosine, &lo, &hi);
	assert_true(lo == path_cosine.lo && hi == path_cosine.hi);
	time_span((struct time_range){.25, 1}, &path_cosine, &lo, &hi);
	assert_true(lo == .25 && hi == path_cosine.hi);
	time_span((struct time_range){0, .25}, &path_linear, &lo, &hi);
	assert_true(lo == 0 && hi == .25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(texts),      cmocka_unit_test(half_open), cmocka_unit_test(conditioned_laws), cmocka_unit_test(draws_of_the_whole_law),
	    cmocka_unit_test(upper_tail), cmocka_unit_test(steps),     cmocka_unit_test(refusals),         cmocka_unit_test(spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
