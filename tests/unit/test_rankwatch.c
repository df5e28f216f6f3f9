/* Which ranks of a training are called out, from hand-made numbers; and the median that this rests on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/median.h"
#include "train/rankwatch.h"

static void medians(void **state)
{
	double odd[] = {5, -1, 3}, even[] = {4, 1, 10, 2}, one[] = {7};

	(void)state;
	assert_true(median(odd, 3) == 3);
	assert_true(median(even, 4) == 3);
	assert_true(median(one, 1) == 7);
	assert_true(isnan(median(one, 0)));
}

/* Writes "s RANK VALUE OTHERS;" for a straggler and "c RANK AHEAD;" for a clock. */
static void note(void *arg, enum rank_fault what, int rank, double value, double others)
{
	char *text = arg;
	size_t n = strlen(text);

	if (what == RANK_STRAGGLES)
		snprintf(text + n, 200 - n, "s %d %g %g;", rank, value, others);
	else
		snprintf(text + n, 200 - n, "c %d %g;", rank, value);
}

static void told(struct rank_watch *w, const char *want)
{
	char text[200] = "";

	rank_watch_tell(w, note, text);
	assert_string_equal(text, want);
}

static void stragglers(void **state)
{
	double busy[4] = {10, 10, 31, 11}, clock[4] = {0}, bound[4] = {0};
	char slow[4] = {0}, off[4] = {0};
	struct rank_watch w = {.n = 4, .busy = busy, .clock = clock, .bound = bound, .slow = slow, .off = off};

	(void)state;
	told(&w, "s 2 31 10;");
	told(&w, ""); /* not twice in a row */
	busy[2] = 15; /* 1.5 times is allowed */
	told(&w, "");
	busy[2] = 15.5;
	told(&w, "s 2 15.5 10;"); /* again, as it had caught up */
	w.n = 2;
	busy[0] = 2.5, busy[1] = 1; /* rank 0 too, and among two */
	told(&w, "s 0 2.5 1;");
	busy[0] = 1.9; /* nearly twice, but by less than a second */
	told(&w, "");
}

static void clocks(void **state)
{
	double busy[3] = {1, 1, 1}, clock[3] = {0, -2, 3}, bound[3] = {0, .5, 2.5};
	char slow[3] = {0}, off[3] = {0};
	struct rank_watch w = {.n = 3, .busy = busy, .clock = clock, .bound = bound, .slow = slow, .off = off};

	(void)state;
	told(&w, "c 1 -2;"); /* rank 2 may be .5 s ahead only */
	clock[2] = 4;
	told(&w, "c 2 4;");
	clock[1] = 0;
	told(&w, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(medians),
	    cmocka_unit_test(stragglers),
	    cmocka_unit_test(clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
