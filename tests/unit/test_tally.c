/* train/tally: a router's scores by time, against values computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "train/tally.h"

/* Two classes with probability p of the first. The second is the label where `right` is 0. */
static void add(struct tally *y, double t, double p, int right)
{
	const float logits[2] = {(float)log(p / (1 - p)), 0};

	tally_add(y, t, logits, 2, !right, -log(right ? p : 1 - p));
}

static double number(json_t *a, size_t i, const char *key)
{
	return json_number_value(json_object_get(json_array_get(a, i), key));
}

/* Confidences .61 and .65 share the bin 9/15..10/15, and .69 lies in the next one. In ten bins all three would share one, and the error would be
 * |.61 + .65 + .69 - 2|/3 = .0167. */
static void fifteen_bins(void **state)
{
	struct tally y = {0};
	json_t *a;

	(void)state;
	add(&y, .31, .61, 1);
	add(&y, .35, .65, 0);
	add(&y, .39, .69, 1);
	a = tally_json(&y);
	assert_int_equal(json_array_size(a), 1);
	assert_float_equal(number(a, 0, "t"), .35, 1e-12);
	assert_float_equal(number(a, 0, "n"), 3, 0);
	assert_float_equal(number(a, 0, "accuracy"), 2. / 3, 1e-12);
	assert_float_equal(number(a, 0, "loss"), -(log(.61) + log(.35) + log(.69)) / 3, 1e-12);
	/* Logits are floats: relative errors of 6e-8 in numbers below 1. */
	assert_float_equal(number(a, 0, "ece"), (fabs(.61 + .65 - 1) + fabs(.69 - 1)) / 3, 1e-6);
	assert_float_equal(number(a, 0, "ece_bins"), 15, 0);
	json_decref(a);
}

/* Errors of opposite sign at different times do not cancel. Time 1 and confidence 1 belong to the last intervals. */
static void times_apart(void **state)
{
	const float certain[2] = {200, 0};
	struct tally y = {0};
	json_t *a;

	(void)state;
	add(&y, 0, .75, 0);
	tally_add(&y, 1, certain, 2, 0, 0);
	a = tally_json(&y);
	assert_int_equal(json_array_size(a), 2);
	assert_float_equal(tally_ece(&y), .375, 1e-6);
	assert_float_equal(tally_loss(&y), -log(.25) / 2, 1e-6);
	assert_float_equal(number(a, 0, "ece"), .75, 1e-6);
	assert_float_equal(number(a, 1, "t"), .95, 1e-12);
	assert_float_equal(number(a, 1, "ece"), 0, 1e-12);
	assert_float_equal(number(a, 1, "accuracy"), 1, 0);
	json_decref(a);
}

/* A diverged network's logits count as wrong with no confidence. */
static void not_finite(void **state)
{
	const float bad[2] = {NAN, NAN};
	struct tally y = {0};
	json_t *a;

	(void)state;
	tally_add(&y, .5, bad, 2, 1, NAN);
	a = tally_json(&y);
	assert_float_equal(number(a, 0, "accuracy"), 0, 0);
	assert_float_equal(number(a, 0, "ece"), 0, 0);
	json_decref(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fifteen_bins),
	    cmocka_unit_test(times_apart),
	    cmocka_unit_test(not_finite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
