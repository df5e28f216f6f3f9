/* diffusion/confidence: losses read from results of ddm-diagnose loss, and the weights of a mixture from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "diffusion/confidence.h"
#include "diffusion/mixture.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "tests/unit/exact.h"

#define SAMPLES "1234567890123456789012345678901234567890123456789012345678901234"
#define OTHERS "2234567890123456789012345678901234567890123456789012345678901234"

static char dir[] = "/tmp/ddm-confidence-XXXXXX", *path;
static const struct confidence_file files[2] = {{"expert_1/config.json", "aa"}, {"expert_1/weights", "bb"}};

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	path = path_join(dir, "loss.json");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mem_free(path);
	return dir_remove(dir, NULL);
}

static int add_told(struct confidence *c, int i, const char *route, const char *times, const char *losses, const char *samples, const char *told,
                    struct err *e)
{
	char text[1200];

	snprintf(text, sizeof text,
	         "{\"recipe\": {\"times\": [%s]}, \"inputs\": {\"heldout\": \"%s\"}, \"route\": \"%s\", %s, %s \"stamp\": "
	         "{\"inputs\": {\"expert_1/config.json\": \"aa\", \"expert_1/weights\": \"bb\"}}}",
	         times, samples, route, losses, told);
	assert_int_equal(commit_bytes(path, text, strlen(text), NULL), 0);
	return confidence_add(c, 3, i, path, files, 2, e);
}

static int add(struct confidence *c, int i, const char *route, const char *times, const char *losses, const char *samples, struct err *e)
{
	return add_told(c, i, route, times, losses, samples, "\"told\": \"class\",", e);
}

static void fill(struct confidence *c)
{
	struct err e = {0};

	*c = (struct confidence){0};
	if (add(c, 0, "expert:0", "0.25, 0.75", "\"loss_t0.25\": 1, \"loss_t0.75\": 0.5", SAMPLES, &e) ||
	    add(c, 2, "expert:2", "0.25, 0.75", "\"loss_t0.25\": 4, \"loss_t0.75\": 0.25", SAMPLES, &e))
		fail_msg("%s", e.msg);
}

/* Expert 1 is absent. */
static void by_hand(void **state)
{
	static const double want[][3] = {{.001, 1, 4}, {.25, 1, 4}, {.5, .75, 2.125}, {.65, .6, 1}, {.75, .5, .25}, {1, .5, .25}};
	struct confidence c;

	(void)state;
	fill(&c);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		double inverse[3];

		confidence_at(&c, want[i][0], inverse);
		assert_float_equal(inverse[0], 1 / want[i][1], 1e-12);
		assert_float_equal(inverse[1], 0, 0);
		assert_float_equal(inverse[2], 1 / want[i][2], 1e-12);
	}
	confidence_release(&c);
}

/* The weights of a mixture at t = .65, where the losses are .6 and 1: 1/loss to the power 1/TEMP. */
static void weights(void **state)
{
	static const float mean[6] = {0, 1, 2, 3, 4, 5};
	static const int32_t cluster[3] = {0, 1, 2};
	static const struct exact law = {3, 2, 3, mean, NULL, cluster, .5};
	static const double temperature[] = {1, .25};
	struct exact_expert arg[3] = {{&law, 0}, {&law, 1}, {&law, 2}};
	struct expert expert[3] = {
	    {.velocity = exact_expert_run, .arg = &arg[0], .capacity = 4}, {0}, {.velocity = exact_expert_run, .arg = &arg[2], .capacity = 4}};
	const float x[4] = {.1f, .2f, -1, 2};
	struct mixture m = {.k = 3, .d = 2, .expert = expert, .cfg = 1};
	struct confidence c;
	struct err e = {0};

	(void)state;
	fill(&c);
	for (int i = 0; i < 2; i++) {
		float v[4];
		struct mixer *mixer;
		const struct mixture_call call = {.n = 2, .evaluations = 1, .t = .65, .x = x};
		double a = pow(1 / .6, 1 / temperature[i]);

		m.policy = policy_of(i ? "confidence:.25|full" : "confidence|full");
		m.confidence = NULL;
		assert_null(mixer_new(&m, 2, &e));
		assert_non_null(strstr(e.msg, "measured losses"));
		m.confidence = &c;
		assert_non_null(mixer = mixer_new(&m, 2, &e));
		assert_int_equal(mixer_velocity(mixer, v, &call, NULL, &e), 0);
		for (int r = 0; r < 2; r++) {
			assert_float_equal(mixer_weights(mixer)[3 * r], a / (a + 1), 1e-12);
			assert_float_equal(mixer_weights(mixer)[3 * r + 1], 0, 0);
			assert_float_equal(mixer_weights(mixer)[3 * r + 2], 1 / (a + 1), 1e-12);
		}
		mixer_free(mixer);
	}
	confidence_release(&c);
}

static void refusals(void **state)
{
	static const char two[] = "\"loss_t0.25\": 1, \"loss_t0.75\": 2";
	static const struct {
		const char *route, *times, *losses, *samples, *part;
	} bad[] = {
	    {"expert:2", "0.25, 0.75", two, SAMPLES, "not of expert:1"},
	    {"full", "0.25, 0.75", two, SAMPLES, "the route full"},
	    {"expert:1", "0.25, 0.5", two, SAMPLES, "at other times"},
	    {"expert:1", "0.25", two, SAMPLES, "at other times"},
	    {"expert:1", "0.25, 0.75", two, OTHERS, "on other samples"},
	    {"expert:1", "0.25, 0.75", two, "x", "is not a result"},
	    {"expert:1", "0.25, 0.75", "\"loss_t0.25\": 1", SAMPLES, "no loss above 0 at t = 0.75"},
	    {"expert:1", "0.25, 0.75", "\"loss_t0.25\": 0, \"loss_t0.75\": 1", SAMPLES, "no loss above 0 at t = 0.25"},
	};
	const struct confidence_file changed[1] = {{"expert_1/weights", "cc"}};
	struct confidence c;
	struct err e = {0};

	(void)state;
	fill(&c);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(add(&c, 1, bad[i].route, bad[i].times, bad[i].losses, bad[i].samples, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		if (!strstr(e.msg, bad[i].part))
			fail_msg("\"%s\" does not say \"%s\"", e.msg, bad[i].part);
		e = (struct err){0};
	}
	assert_int_equal(add_told(&c, 1, "expert:1", "0.25, 0.75", two, SAMPLES, "\"told\": \"nothing\",", &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "this expert was told nothing and the experts before it the class"));
	e = (struct err){0};
	assert_int_equal(add_told(&c, 1, "expert:1", "0.25, 0.75", two, SAMPLES, "", &e), -1);
	assert_non_null(strstr(e.msg, "is not a result"));
	e = (struct err){0};
	assert_int_equal(add(&c, 1, "expert:1", "0.25, 0.75", two, SAMPLES, &e), 0);
	assert_int_equal(confidence_add(&c, 3, 1, path, changed, 1, &e), -1);
	assert_non_null(strstr(e.msg, "measured with another expert_1/weights"));
	confidence_release(&c);
	c = (struct confidence){0};
	assert_int_equal(add(&c, 1, "expert:1", "0.75, 0.25", two, SAMPLES, &e), -1);
	confidence_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_hand),
	    cmocka_unit_test(weights),
	    cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
