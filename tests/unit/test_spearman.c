/* metric/spearman against published critical values, counts by hand, and its definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "metric/spearman.h"

static void near(double got, double want, double tol)
{
	if (!(fabs(got - want) <= tol))
		fail_msg("%.9g, expected %.9g", got, want);
}

/* The usual table of two-sided 5% points (Zar, "Biostatistical Analysis", B.20). */
static void critical(void **state)
{
	static const double table[] = {[5] = 1, [6] = .886, [7] = .786, [8] = .738, [9] = .700, [10] = .648};
	double a[40], b[40];

	(void)state;
	for (int i = 0; i < 40; i++)
		a[i] = b[i] = i;
	for (int n = 5; n <= 10; n++)
		near(spearman(a, b, n).critical, table[n], 6e-4);
	assert_true(isnan(spearman(a, b, 4).critical));
	near(spearman(a, b, 40).critical, .313, 2e-3);
	near(spearman(a, b, 40).p, 0, 0);
}

static void values(void **state)
{
	const double a[] = {1, 2, 3, 4, 5}, up[] = {2, 3, 5, 7, 1e9}, swapped[] = {1, 2, 3, 5, 4}, down[] = {5, 4, 3, 2, 1};
	struct spearman s;

	(void)state;
	s = spearman(a, up, 5);
	near(s.rho, 1, 1e-12);
	near(s.p, 2. / 120, 1e-12);
	s = spearman(a, down, 5);
	near(s.rho, -1, 1e-12);
	near(s.p, 2. / 120, 1e-12);
	s = spearman(a, swapped, 5); /* the identity, four exchanges of neighbours, and the same reversed */
	near(s.rho, .9, 1e-12);
	near(s.p, 10. / 120, 1e-12);
}

static void ties(void **state)
{
	const double a[] = {1, 2, 2, 3}, b[] = {1, 2, 3, 3}, flat[] = {1, 1, 1, 1};

	(void)state;
	/* ranks 1 2.5 2.5 4 and 1 2 3.5 3.5: covariance 3.75, variances 4.5 and 4.5 */
	near(spearman(a, b, 4).rho, 3.75 / 4.5, 1e-12);
	near(spearman(a, b, 4).p, 4. / 12, 1e-12);
	assert_true(isnan(spearman(a, flat, 4).rho) && isnan(spearman(a, flat, 4).p));
	assert_true(isnan(spearman(a, b, 2).rho));
}

/* Student's t with 9 degrees at rho = .6: t = 2.25, two-sided p = .051 (tables: t_.975 = 2.262). */
static void many(void **state)
{
	double a[11], b[11] = {3, 1, 0, 5, 2, 7, 4, 10, 6, 9, 8};
	struct spearman s;
	double d = 0;

	(void)state;
	for (int i = 0; i < 11; i++) {
		a[i] = i;
		d += (a[i] - b[i]) * (a[i] - b[i]);
	}
	s = spearman(a, b, 11);
	near(s.rho, 1 - 6 * d / (11 * 120), 1e-12);
	assert_true((s.p < .05) == (s.rho > s.critical));
	near(s.critical, .602, 1e-3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(critical), cmocka_unit_test(values), cmocka_unit_test(ties), cmocka_unit_test(many)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
