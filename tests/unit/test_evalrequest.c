/* An evaluation from a C program: the numbers of two sets, the request's settings in the line, progress and a stop, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "metric/evalmetrics.h"
#include "metric/evaluation.h"
#include "metric/kd.h"
#include "tests/unit/scratch.h"

enum { N = 60, M = 40, D = 5 };

static float x[N * D], y[M * D];
static char *reference, *samples, *line;
static struct pool *pool;

static int set_up(void **state)
{
	if (make_dir(state))
		return -1;
	reference = path_join(dir, "x.npy");
	samples = path_join(dir, "y.npy");
	line = path_join(dir, "line.json");
	pool = pool_new(2, NULL);
	rng_normal(x, N * D, 3, RNG_TEST, 1, 0);
	rng_normal(y, M * D, 3, RNG_TEST, 2, 0);
	return !pool || npy_write(reference, NPY_F4, 2, (const int64_t[]){N, D}, x, NULL) ||
	       npy_write(samples, NPY_F4, 2, (const int64_t[]){M, D}, y, NULL);
}

static int tear_down(void **state)
{
	mem_free(reference);
	mem_free(samples);
	mem_free(line);
	pool_free(pool);
	return remove_dir(state);
}

static struct eval_request vectors(void)
{
	struct eval_request q = eval_defaults();

	q.reference = reference;
	q.samples = samples;
	q.out = NULL;
	return q;
}

static double number(const struct evaluation *v, const char *key)
{
	const json_t *n = json_object_get(evaluation_line(v), key);

	return json_is_number(n) ? json_number_value(n) : NAN;
}

/* The text of a key of the recipe; "" if there is none. */
static char *recipe(const struct evaluation *v, const char *key)
{
	const json_t *k = json_object_get(json_object_get(evaluation_line(v), "recipe"), key);
	char *text = k ? json_dumps(k, JSON_ENCODE_ANY) : NULL;

	return text ? text : mem_strdup("");
}

static void has(const struct evaluation *v, const char *key, const char *want)
{
	char *text = recipe(v, key);

	assert_string_equal(text, want);
	mem_free(text);
}

static struct evaluation *run(const struct eval_request *q)
{
	struct err e = {0};
	struct evaluation *v = evaluation_new(q, NULL, &e);

	if (!v || evaluation_run(v, pool, NULL, &e))
		fail_msg("%s", e.msg);
	return v;
}

static void numbers(void **state)
{
	struct eval_request q = vectors();
	struct evaluation *v = run(&q);
	struct kd k;

	(void)state;
	assert_int_equal(evaluation_needs_device(v), 0);
	assert_int_equal(kd_whole(&k, NULL, x, N, y, M, D, NULL), 0);
	assert_true(fabs(number(v, "kd-npy") - k.value) < 1e-8);
	assert_true(number(v, "fd-npy") > 0);
	assert_true(isnan(number(v, "memorised")));
	assert_true(number(v, "n-reference") == N && number(v, "n-samples") == M);
	assert_false(path_exists(line));
	has(v, "draws", "4");
	has(v, "metrics", "");
	has(v, "subset-size", "");
	assert_true(number(v, "seed") == 0);
	evaluation_free(v);
}

/* The line holds the settings and the protocol of the request; the file holds the line, and the claim is released. */
static void request_is_stamped(void **state)
{
	struct eval_request q = vectors();
	struct evaluation *v;
	char *text, *claim = path_join(dir, ".line.json.tmp.claim");
	size_t len;

	(void)state;
	q.metrics = "kid, fid";
	q.protocol = PROTOCOL_FIDELITY;
	q.subset_size = 20;
	q.out = line;
	v = run(&q);
	has(v, "metrics", "\"fid,kid\"");
	has(v, "protocol", "\"torch-fidelity\"");
	has(v, "kid-subsets", "100");
	has(v, "subset-size", "20");
	has(v, "groups", "");
	has(v, "features", "\"npy\"");
	assert_true(number(v, "seed") == 2020);
	assert_true(isnan(number(v, "kd-npy")));
	assert_true(number(v, "fid-npy") > 0);
	text = file_load(line, 1 << 20, &len, NULL);
	assert_non_null(text);
	assert_non_null(strstr(text, "\"fid-npy\":"));
	assert_int_equal(text[len - 1], '\n');
	mem_free(text);
	evaluation_free(v);
	assert_false(path_exists(claim));
	mem_free(claim);
}

struct listener {
	int told, until; /* until > 0: stop at this call */
	const char *what;
	int64_t done;
	int passes, whole; /* and those that were reported to the end */
};

static int hear(void *arg, const char *what, int64_t done, int64_t total)
{
	struct listener *l = arg;

	if (l->what != what || done < l->done)
		l->passes++;
	l->what = what;
	l->done = done;
	l->whole += total > 0 && done == total;
	assert_true(done >= 0 && (!total || done <= total));
	return ++l->told == l->until;
}

/* Stop at the n-th report of progress: while pictures are read, and in the computations. */
static void stops_at(int n, const char *a, const char *b, const char *metrics)
{
	struct listener l = {.until = n};
	const struct eval_hooks hooks = {.progress = {hear, &l}};
	struct eval_request q = vectors();
	struct evaluation *v;
	struct err e = {0};

	q.reference = a;
	q.samples = b;
	q.metrics = metrics;
	q.subset_size = 10;
	v = evaluation_new(&q, &hooks, &e);
	assert_non_null(v);
	assert_int_equal(evaluation_run(v, pool, NULL, &e), -1);
	assert_int_equal(e.code, ERR_AGAIN);
	assert_int_equal(l.told, n);
	evaluation_free(v);
}

static void stops(void **state)
{
	(void)state;
	stops_at(1, "tests/golden/eval-a.tar.gz", "tests/golden/eval-b.tar.gz", NULL);
	stops_at(3, "tests/golden/eval-a.tar.gz", "tests/golden/eval-b.tar.gz", NULL);
	stops_at(1, reference, samples, "kd");
	stops_at(3, reference, samples, "kd");
	stops_at(1, reference, samples, "fd");
	stops_at(1, reference, samples, "fid");
	stops_at(7, reference, samples, "kid");
	stops_at(1, reference, samples, "pr");
	stops_at(2, reference, samples, "cmmd");
	stops_at(1, "tests/golden/eval-a.tar.gz", "tests/golden/eval-b.tar.gz", "memorised");
}

/* Each long computation reports its progress to the end. */
static void tells(void **state)
{
	struct listener l = {0};
	const struct eval_hooks hooks = {.progress = {hear, &l}};
	struct eval_request q = vectors();
	struct evaluation *v;
	struct err e = {0};

	(void)state;
	q.metrics = "kd,kid,pr,cmmd,fid";
	q.subset_size = 10;
	v = evaluation_new(&q, &hooks, &e);
	assert_non_null(v);
	assert_int_equal(evaluation_run(v, pool, NULL, &e), 0);
	assert_true(l.passes >= 6);
	assert_true(l.whole >= 6);
	evaluation_free(v);
}

static void refused(const struct eval_request *q, int code, const char *why)
{
	struct err e = {0};
	struct evaluation *v = evaluation_new(q, NULL, &e);

	if (v)
		evaluation_run(v, pool, NULL, &e);
	assert_int_equal(e.code, code);
	if (!strstr(e.msg, why))
		fail_msg("\"%s\" does not say \"%s\"", e.msg, why);
	evaluation_free(v);
}

static void refusals(void **state)
{
	struct eval_request q = vectors();

	(void)state;
	q.draws = 0;
	refused(&q, ERR_USAGE, "--draws");
	q = vectors();
	q.protocol = PROTOCOLS;
	refused(&q, ERR_USAGE, "--protocol");
	q = vectors();
	q.reference = q.samples = "-";
	refused(&q, ERR_USAGE, "one set only");
	q = vectors();
	q.protocol = PROTOCOL_CLEAN;
	q.seed = (struct eval_seed){1ull << 32, 1};
	refused(&q, ERR_USAGE, "4294967296");
	q = vectors();
	q.metrics = "fid,nothing";
	refused(&q, ERR_USAGE, "nothing");
	q = vectors();
	q.metrics = "lpips";
	refused(&q, ERR_USAGE, "--lpips");
	q = vectors();
	q.samples = "nowhere";
	refused(&q, ERR_NOINPUT, "nowhere");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers), cmocka_unit_test(request_is_stamped), cmocka_unit_test(stops),
	    cmocka_unit_test(tells),   cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
