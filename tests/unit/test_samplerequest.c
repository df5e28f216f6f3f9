/* Sampling from a C program: pictures passed to a hook, the same for any batch; a stop; a failure that leaves no files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/tarfile.h"
#include "sample/sample.h"
#include "tests/unit/scratch.h"

static char *model;
static struct pool *pool;
static struct device *device;

static int set_up(void **state)
{
	struct tar_reader *t = !make_dir(state) ? tar_open("tests/golden/tiny-model.tar", NULL, NULL) : NULL;
	struct tar_member m;
	int opened = t != NULL;

	while (t && tar_next(t, &m, NULL) > 0) {
		char *path = path_join(dir, m.name), *slash = strrchr(path, '/');

		*slash = 0;
		assert_int_equal(dir_make(path, NULL), 0);
		*slash = '/';
		assert_int_equal(commit_bytes(path, m.data, m.size, NULL), 0);
		mem_free(path);
	}
	tar_close(t);
	model = path_join(dir, "ensemble");
	pool = pool_new(2, NULL);
	device = device_cpu(pool, DT_F32);
	return opened && pool && device ? 0 : -1;
}

static int tear_down(void **state)
{
	device_free(device);
	pool_free(pool);
	mem_free(model);
	return remove_dir(state);
}

struct seen {
	int64_t pictures, until; /* until > 0: stop after this many pictures */
	uint64_t hash[8];
	int told; /* lines */
};

static void show(void *arg, int64_t index, const struct picture *p)
{
	struct seen *s = arg;

	assert_int_equal(index, s->pictures);
	assert_true(index < 8 && p->width > 0 && p->height > 0);
	s->hash[s->pictures++] = hash64(p->pixels, (size_t)(p->width * p->height * p->channels));
}

static void say(void *arg, const char *line)
{
	struct seen *s = arg;

	assert_non_null(line);
	s->told++;
}

static int halt(void *arg, const char *what, int64_t done, int64_t total)
{
	struct seen *s = arg;

	(void)what;
	(void)total;
	return s->until > 0 && done >= s->until;
}

static int sample(const struct sample_request *q, struct seen *s, struct err *e)
{
	const struct sample_hooks hooks = {.picture = show, .say = say, .arg = s, .progress = {halt, s}};
	struct sampling *r = sampling_new(q, &hooks, e);
	int rc = r ? sampling_run(r, device, e) : -1;

	sampling_free(r);
	return rc;
}

static struct sample_request request(void)
{
	struct sample_request q = sample_defaults();

	q.model = model;
	q.route = "full";
	q.steps = 3;
	q.each = 5;
	return q;
}

static void pictures_go_to_the_hook(void **state)
{
	struct sample_request q = request();
	struct seen all = {0}, ones = {0};
	struct err e = {0};

	(void)state;
	assert_int_equal(sample(&q, &all, &e), 0);
	assert_int_equal(all.pictures, 5);
	assert_int_equal(all.told, 1);
	q.batch = 2;
	assert_int_equal(sample(&q, &ones, &e), 0);
	assert_memory_equal(all.hash, ones.hash, sizeof all.hash);
	assert_int_not_equal(all.hash[0], all.hash[1]);
}

static void stops(void **state)
{
	struct sample_request q = request();
	struct seen s = {.until = 2};
	struct err e = {0};

	(void)state;
	q.batch = 1;
	assert_int_equal(sample(&q, &s, &e), -1);
	assert_int_equal(e.code, ERR_AGAIN);
	assert_true(s.pictures < 5);
}

static void a_failure_leaves_nothing(void **state)
{
	struct sample_request q = request();
	char *folder = path_join(dir, "out"), *out = path_join(folder, "x.tar"), **names;
	struct seen s = {0};
	struct err e = {0};
	size_t n;

	(void)state;
	assert_int_equal(dir_make(folder, NULL), 0);
	q.out = out;
	q.model = folder;
	assert_int_equal(sample(&q, &s, &e), -1);
	assert_int_equal(e.code, ERR_NOINPUT);
	assert_int_equal(dir_list(folder, &names, &n, NULL), 0);
	assert_int_equal(n, 0);
	names_free(names, n);
	e = (struct err){0};
	q.model = model;
	assert_int_equal(sample(&q, &s, &e), 0);
	assert_true(path_exists(out));
	mem_free(out);
	mem_free(folder);
}

static void what_is_missing_is_named(void **state)
{
	struct sample_request q = request();
	struct seen s = {0};
	struct err e = {0};

	(void)state;
	q.route = NULL;
	assert_int_equal(sample(&q, &s, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "--route is missing"));
}

/* A request that no command line could have made. */
static void ranges_are_checked(void **state)
{
	struct sample_request q[6];
	static const char *const said[6] = {"--count: -3 is not from 1 to 1000000", "--count: 0 is not from",
	                                    "--steps: -1 is not from 1 to 100000",  "--batch: 0 is not from 1 to 65536",
	                                    "--cfg: 1000 is not from -100 to 100",  "--weight-dtype: 9 is not the number of a choice"};

	(void)state;
	for (int i = 0; i < 6; i++)
		q[i] = request();
	q[0].each = -3;
	q[1].each = 0;
	q[2].steps = -1;
	q[3].batch = 0;
	q[4].cfg = 1000;
	q[5].dtype = 9;
	for (int i = 0; i < 6; i++) {
		struct err e = {0};

		assert_null(sampling_new(&q[i], NULL, &e));
		assert_int_equal(e.code, ERR_USAGE);
		assert_non_null(strstr(e.msg, said[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pictures_go_to_the_hook),  cmocka_unit_test(stops),
	    cmocka_unit_test(a_failure_leaves_nothing), cmocka_unit_test(what_is_missing_is_named),
	    cmocka_unit_test(ranges_are_checked),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
