/* data/clipgrid: which frame is shown at each target, against a search through all frames; wrong and missing times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "core/rng.h"
#include "data/clipgrid.h"

#define MS ((int64_t)1000000)

enum { MOST = 4000 };

/* The frame of each target, and the number of targets. */
struct plan {
	int64_t frame[MOST];
	uint64_t n, segment[MOST];
};

static void plan_add(struct plan *p, const struct clipgrid_shown *s, int64_t frame)
{
	if (s->targets)
		assert_true(s->first >= p->n);
	for (; p->n < s->first && s->targets; p->n++)
		p->frame[p->n] = -1; /* in a gap */
	for (uint64_t i = 0; i < s->targets; i++) {
		assert_true(p->n < MOST);
		p->segment[p->n] = s->segment;
		p->frame[p->n++] = frame;
	}
}

static void plan_make(struct plan *p, double rate, int64_t unit, const int64_t *times, const int64_t *lengths, int n)
{
	struct clipgrid g = {.rate = rate, .slack = clipgrid_slack(unit)};
	struct clipgrid_shown s;

	*p = (struct plan){0};
	for (int i = 0; i < n; i++) {
		assert_int_equal(clipgrid_add(&g, times[i], lengths ? lengths[i] : 0, &s), i > 0);
		if (i)
			plan_add(p, &s, i - 1);
	}
	assert_int_equal(clipgrid_end(&g, &s), n > 0);
	if (n)
		plan_add(p, &s, n - 1);
	assert_int_equal(clipgrid_end(&g, &s), 0);
}

/* Random frame lengths, rounded to the unit: each target has the last frame whose time is at most the slack after it. */
static void test_search(void **state)
{
	static const double rates[] = {1, 7.3, 8, 24000. / 1001, 60, 120};
	static const int64_t units[] = {MS, 11111, 1, 40 * MS};
	static struct plan p;

	(void)state;
	for (int u = 0; u < 4; u++)
		for (int r = 0; r < 6; r++) {
			int64_t times[200], at = 12345 * units[u], slack = clipgrid_slack(units[u]), end, end_slack;
			uint64_t j = 0;

			for (int i = 0; i < 200; i++) {
				times[i] = at;
				at += units[u] * (1 + (int64_t)rng_below((uint64_t)(100 * MS / units[u]), 5, RNG_TEST, (uint64_t)i, (uint64_t)u, 0));
			}
			end = times[199] + times[199] - times[198];
			end_slack = slack < (end - times[199]) / 2 ? slack : (end - times[199]) / 2;
			plan_make(&p, rates[r], units[u], times, NULL, 200);
			for (;; j++) {
				double target = (double)times[0] + (double)j * 1e9 / rates[r];
				int64_t last = 0;

				if (target + 1e3 / rates[r] >= (double)(end - end_slack))
					break;
				for (int i = 0; i < 200; i++)
					last = (double)times[i] <= target + (double)slack + 1e3 / rates[r] ? i : last;
				assert_true(j < p.n);
				assert_int_equal(p.frame[j], last);
			}
			assert_int_equal(p.n, j);
		}
}

/* Equal rates take every frame once, though Matroska rounds times to milliseconds. */
static void test_rounded(void **state)
{
	static const double rates[] = {24, 25, 24000. / 1001, 30000. / 1001, 30, 48, 50, 60000. / 1001, 60};
	static struct plan p;

	(void)state;
	for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
		int64_t times[600];

		for (int i = 0; i < 600; i++)
			times[i] = (int64_t)llround(i * 1e3 / rates[r]) * MS + 67 * MS;
		plan_make(&p, rates[r], MS, times, NULL, 600);
		assert_true(p.n >= 599 && p.n <= 601);
		for (int i = 0; i < 599; i++)
			assert_int_equal(p.frame[i], i);
	}
}

/* Missing times go on by the length of the frame; frames of no length are never shown; a long stand is a gap; times that go back, too. */
static void test_wrong(void **state)
{
	static struct plan p;
	int64_t missing[] = {CLIPGRID_UNKNOWN, CLIPGRID_UNKNOWN, CLIPGRID_UNKNOWN}, lengths[] = {100 * MS, 100 * MS, 100 * MS};
	int64_t equal[] = {0, 100 * MS, 100 * MS, 50 * MS, 200 * MS};
	int64_t stands[] = {0, 100 * MS, 60100 * MS, 60200 * MS};
	int64_t back[] = {50000 * MS, 50100 * MS, 0, 100 * MS};
	int64_t absurd[] = {0, INT64_MAX, 100 * MS, -INT64_MAX};

	(void)state;
	plan_make(&p, 10, 1, missing, lengths, 3);
	assert_int_equal(p.n, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p.frame[i], i);
	plan_make(&p, 10, 1, equal, NULL, 5);
	assert_int_equal(p.n, 3);
	assert_true(p.frame[0] == 0 && p.frame[1] == 3 && p.frame[2] == 4);
	plan_make(&p, 10, 1, stands, NULL, 4);
	assert_int_equal(p.n, 603);
	assert_true(p.frame[1] == 1 && p.frame[100] == 1 && p.frame[101] == -1 && p.frame[600] == -1 && p.frame[601] == 2 && p.frame[602] == 3);
	assert_true(p.segment[100] == 0 && p.segment[601] == 1);
	plan_make(&p, 10, 1, back, NULL, 4);
	assert_int_equal(p.n, 4);
	assert_true(p.frame[2] == 2 && p.frame[3] == 3 && p.segment[1] == 0 && p.segment[2] == 1);
	plan_make(&p, 10, 1, absurd, lengths, 3);
	assert_true(p.n >= 2 && p.n <= 4);
	plan_make(&p, 10, 1, NULL, NULL, 0);
	assert_int_equal(p.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_search), cmocka_unit_test(test_rounded), cmocka_unit_test(test_wrong)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
