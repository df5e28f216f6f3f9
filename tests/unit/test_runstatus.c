/* The history of a training log while it grows, is cut and is damaged; the states, rates and notes of trainings; curves of characters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/runlock.h"
#include "inspect/runstatus.h"
#include "plot/sparkline.h"
#include "tests/unit/scratch.h"

#define START(attempt, step) \
	"{\"event\":\"start\",\"step\":" #step ",\"steps\":100,\"attempt\":" #attempt ",\"seconds_before\":7.5,\"time\":1000,\"host\":\"node\"," \
	"\"pid\":12,\"device\":\"cpu\",\"samples\":50,\"gflop_per_image\":2,\"stamp\":{\"program\":\"ddm-train\",\"batch\":4}}\n"

/* Write text to DIR/NAME/train.jsonl; mode "w" or "a". Returns the log's path, borrowed until the next call. */
static const char *put(const char *name, const char *mode, const char *text)
{
	static char path[4000];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	assert_int_equal(dir_make(path, NULL), 0);
	strncat(path, "/train.jsonl", sizeof path - strlen(path) - 1);
	f = fopen(path, mode);
	assert_non_null(f);
	assert_int_equal(fputs(text, f) < 0, 0);
	assert_int_equal(fclose(f), 0);
	return path;
}

static struct loghistory *history(const char *path)
{
	struct loghistory *h = loghistory_new(path);
	struct err e = {0};

	assert_int_equal(loghistory_update(h, &e), 1);
	return h;
}

static void grows(void **state)
{
	const char *path = put("grows", "w", START(1, 0) "{\"step\":10,\"loss\":2.5,\"seconds\":3}\n{\"step\":20,\"lo");
	struct loghistory *h = history(path);
	struct err e = {0};

	(void)state;
	assert_int_equal(h->n, 1);
	assert_int_equal(h->steps, 100);
	assert_int_equal(h->batch, 4);
	assert_string_equal(h->program, "ddm-train");
	assert_string_equal(h->attempt[0].host, "node");
	assert_int_equal(loghistory_update(h, &e), 0);
	put("grows", "a", "ss\":1.5,\"val_loss\":4,\"part\":{\"a\":7},\"seconds\":6}\n");
	assert_int_equal(loghistory_update(h, &e), 1);
	assert_int_equal(h->n, 2);
	assert_int_equal(h->step[1], 20);
	assert_true(loghistory_last(h, "loss", 0) == 1.5);
	assert_true(loghistory_last(h, "part.a", 0) == 7);
	assert_true(isnan(loghistory_column(h, "val_loss")->v[0]));
	assert_true(loghistory_time(h, 1) == 1006);
	assert_int_equal(h->finished, 0);
	put("grows", "a", "{\"step\":30,\"loss\":null,\"seconds\":9}\n{\"event\":\"end\",\"step\":30,\"seconds\":9.5}\n");
	assert_int_equal(loghistory_update(h, &e), 1);
	assert_true(isnan(loghistory_last(h, "loss", 0)));
	assert_true(loghistory_last(h, "loss", 1) == 1.5);
	assert_int_equal(h->finished, 1);
	assert_true(loghistory_seconds(h) == 17);
	assert_int_equal(h->damaged, 0);
	loghistory_free(h);
}

/* A run that goes on cuts off the lines it repeats. */
static void is_cut(void **state)
{
	const char *path = put("cut", "w", START(1, 0) "{\"step\":10,\"loss\":3,\"seconds\":1}\n{\"step\":20,\"loss\":2,\"seconds\":2}\n");
	struct loghistory *h = history(path);
	struct err e = {0};

	(void)state;
	put("cut", "w", START(1, 0) "{\"step\":10,\"loss\":3,\"seconds\":1}\n");
	put("cut", "a", START(2, 10) "{\"step\":20,\"loss\":5,\"seconds\":2}\n{\"step\":30,\"loss\":1,\"seconds\":4}\n");
	assert_int_equal(loghistory_update(h, &e), 1);
	assert_int_equal(h->n, 3);
	assert_int_equal(h->attempts, 2);
	assert_int_equal(h->attempt[1].number, 2);
	assert_true(loghistory_column(h, "loss")->v[1] == 5);
	assert_int_equal(h->of[0], 0);
	assert_int_equal(h->of[1], 1);
	unlink(path);
	assert_int_equal(loghistory_update(h, &e), -1);
	assert_int_equal(e.code, ERR_NOINPUT);
	loghistory_free(h);
}

/* Logs of earlier versions count neither attempts nor seconds, and repeat no step either; a log put together by hand may. */
static void is_old(void **state)
{
	static const char start[] = "{\"event\":\"start\",\"step\":0,\"steps\":9,\"time\":5}\n";
	char *text =
	    str_new("%s{\"step\":4,\"loss\":1,\"seconds\":3}\n{\"step\":6,\"loss\":1,\"seconds\":5}\n%s{\"step\":5,\"loss\":2,\"seconds\":4}\n",
	            start, start);
	struct loghistory *h = history(put("old", "w", text));

	(void)state;
	assert_int_equal(h->attempts, 2);
	assert_int_equal(h->attempt[1].number, 2);
	assert_true(loghistory_seconds(h) == 9);
	assert_int_equal(h->n, 2);
	assert_int_equal(h->step[1], 5);
	assert_int_equal(h->batch, -1);
	loghistory_free(h);
	mem_free(text);
}

static void is_damaged(void **state)
{
	json_t *o = json_pack("{s:i, s:f}", "step", 20, "loss", 2.5);
	char *line = jsonio_sealed_line(o), *text = str_new("%s%s\n", START(1, 0), line), *altered;
	struct loghistory *h;

	(void)state;
	altered = strstr(text, "2.5");
	assert_non_null(altered);
	*altered = '3';
	put("damaged", "w", text);
	put("damaged", "a", "{\"step\":25,\"loss\"\n[1]\n\n{\"step\":30,\"loss\":1}\n");
	put("damaged", "a", line);
	h = history(put("damaged", "a", "\n"));
	assert_int_equal(h->damaged, 3);
	assert_non_null(strstr(h->why.msg, "damaged/train.jsonl:2: altered"));
	assert_int_equal(h->n, 1); /* the intact line of step 20 repeats what came before it */
	assert_int_equal(h->step[0], 20);
	loghistory_free(h);
	mem_free(text);
	mem_free(line);
	json_decref(o);
}

static struct run *run_named(struct runs *r, const char *name)
{
	for (int i = 0; i < r->n; i++)
		if (!strcmp(r->v[i].name, name))
			return &r->v[i];
	fail_msg("%s is not among the runs", name);
	return NULL;
}

static void check_note(const struct runs *r, const char *words)
{
	for (int i = 0; i < r->notes; i++)
		if (strstr(r->note[i], words))
			return;
	fail_msg("no note says: %s", words);
}

/* A log of two lines, the last at step 20, with this rate. */
static void put_rate(const char *name, double rate)
{
	char *lines = str_new("{\"step\":10,\"loss\":2,\"images_per_s\":%g,\"seconds\":10}\n"
	                      "{\"step\":20,\"loss\":1,\"images_per_s\":%g,\"seconds\":30,\"memory_peak\":5000}\n",
	                      rate, rate);

	put(name, "w", START(3, 0));
	put(name, "a", lines);
	mem_free(lines);
}

static void states(void **state)
{
	static const char *const names[] = {"m/expert_0", "m/expert_1", "m/expert_2", "m/expert_10", "m/router"};
	const struct run_limits limits = {.straggler = .7};
	struct runlock lock[5];
	struct runs r = {0};
	struct err e = {0};
	struct stat st;
	char *model = path_join(dir, "m"), *other = path_join(model, "expert_3");
	double now;

	(void)state;
	put_rate(names[0], 100);
	put_rate(names[1], 120);
	put_rate(names[2], 50);
	put_rate(names[3], 60);
	put_rate(names[4], 1); /* slow, but no expert */
	put("m/expert_4", "w", START(1, 0));
	put_rate("m/expert_5", 7);
	put_rate("m/expert_6", 7);
	put("m/expert_6", "a", "{\"event\":\"unsaved\",\"at\":20,\"why\":\"a full disk\"}\n{\"event\":\"end\",\"step\":100,\"seconds\":40}\n");
	assert_int_equal(dir_make(other, NULL), 0);
	for (int i = 0; i < 5; i++) {
		char *path = path_join(dir, names[i]);

		assert_int_equal(runlock_take(&lock[i], path, &e), 0);
		mem_free(path);
	}
	assert_int_equal(runs_find(&r, &model, 1, 0, &e), 0);
	assert_int_equal(r.n, 12);
	assert_string_equal(r.v[2].name, "expert_2");
	assert_string_equal(r.v[10].name, "expert_10");
	assert_string_equal(r.v[11].name, "router");
	assert_int_equal(stat(r.v[10].log->path, &st), 0);
	now = (double)st.st_mtime + 100;
	runs_update(&r, now, &limits);
	assert_int_equal(run_named(&r, "expert_0")->state, RUN_RUNNING);
	assert_int_equal(run_named(&r, "expert_3")->state, RUN_NEVER);
	assert_int_equal(run_named(&r, "expert_4")->state, RUN_FAILED);
	assert_int_equal(run_named(&r, "expert_5")->state, RUN_STOPPED);
	assert_int_equal(run_named(&r, "expert_6")->state, RUN_FINISHED);
	assert_int_equal(run_named(&r, "expert_9")->state, RUN_NEVER);
	assert_int_equal(runs_count(&r, RUN_RUNNING), 5);
	assert_true(run_named(&r, "expert_0")->eta == 160); /* 80 steps of 20 s for 10 */
	assert_true(isnan(run_named(&r, "expert_5")->eta));
	assert_int_equal(run_named(&r, "expert_0")->restarts, 2);
	assert_true(run_named(&r, "expert_0")->memory == 5000);
	assert_true(run_named(&r, "expert_0")->seconds == 37.5);
	assert_int_equal(run_named(&r, "expert_6")->step, 100);
	/* The median of 50, 60, 100 and 120 is 80. */
	assert_true(run_named(&r, "expert_2")->median == 80);
	assert_true(isnan(run_named(&r, "expert_10")->median));
	assert_true(isnan(run_named(&r, "router")->median));
	check_note(&r, "expert_2: slow: 50 images/s, 62% of 80, the median of 4");
	check_note(&r, "expert_4: failed to start");
	check_note(&r, "expert_6: the checkpoint of step 20 could not be written: a full disk");
	assert_int_equal(r.notes, 3);
	/* Ten minutes of silence are too much. An expert that logs every seven minutes may be silent for twenty-one. */
	put("m/expert_1", "a", "{\"step\":30,\"loss\":1,\"images_per_s\":120,\"seconds\":450}\n");
	runs_update(&r, now + 600, &limits);
	assert_int_equal(run_named(&r, "expert_0")->state, RUN_STALE);
	assert_int_equal(run_named(&r, "expert_1")->state, RUN_RUNNING);
	check_note(&r, "expert_0: stale: nothing was logged for 11:");
	runs_update(&r, now + 600, &(struct run_limits){.stale = 60, .straggler = .7});
	assert_int_equal(run_named(&r, "expert_1")->state, RUN_STALE);
	for (int i = 0; i < 5; i++)
		runlock_drop(&lock[i]);
	runs_update(&r, now, &limits);
	assert_int_equal(run_named(&r, "expert_0")->state, RUN_STOPPED);
	runs_release(&r);
	mem_free(model);
	mem_free(other);
}

/* What an operand may be. */
static void operands(void **state)
{
	char *model = path_join(dir, "o"), *one = path_join(model, "expert_1/"), *gone = path_join(model, "expert_7"),
	     *empty = path_join(model, "none");
	char *pair[] = {model, one};
	struct runs r = {0};
	struct err e = {0};

	(void)state;
	put_rate("o/expert_1", 5);
	put_rate("o/large", 5);
	assert_int_equal(dir_make(empty, NULL), 0);
	assert_int_equal(runs_find(&r, pair, 2, 4, &e), 0);
	assert_int_equal(r.n, 6);
	assert_true(str_ends(r.v[0].name, "o/expert_0"));
	assert_true(str_ends(r.v[3].name, "o/expert_3"));
	assert_true(str_ends(r.v[4].name, "o/large"));
	assert_true(str_ends(r.v[5].name, "o/expert_1"));
	runs_release(&r);
	assert_int_equal(runs_find(&r, &gone, 1, 0, &e), 0);
	assert_string_equal(r.v[0].name, "expert_7");
	runs_update(&r, 0, &(struct run_limits){.straggler = .5});
	assert_int_equal(r.v[0].state, RUN_NEVER);
	runs_release(&r);
	assert_int_equal(runs_find(&r, &empty, 1, 0, &e), -1);
	assert_int_equal(e.code, ERR_NOINPUT);
	runs_release(&r);
	mem_free(model);
	mem_free(one);
	mem_free(gone);
	mem_free(empty);
}

static void check_curve(const char *want, const int64_t *x, const double *y, int64_t n, int width, int utf8)
{
	struct str s = {0};

	sparkline(&s, x, y, n, width, utf8);
	assert_string_equal(str_text(&s), want);
	str_release(&s);
}

static void curves(void **state)
{
	static const int64_t x[] = {10, 20, 30, 40, 50, 60, 70, 80};
	static const double rise[] = {1, 2, 4, 8, 16, 32, 64, 128}, gap[] = {1, NAN, 3, 3, 3, 3, 3, 3}, flat[] = {2, 2, 2, 2, 2, 2, 2, 2},
			    below[] = {-1, 0, 1, 2, 3, 4, 5, 6};

	(void)state;
	check_curve("_.-~=+*#", x, rise, 8, 8, 0);
	check_curve("▁▂▃▄▅▆▇█", x, rise, 8, 30, 1);
	check_curve("_-+#", x, below, 8, 4, 0); /* not logarithmic */
	check_curve("_ ######", x, gap, 8, 8, 0);
	check_curve("________", x, flat, 8, 8, 0);
	check_curve("", x, flat, 0, 8, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(grows),  cmocka_unit_test(is_cut),   cmocka_unit_test(is_old), cmocka_unit_test(is_damaged),
	    cmocka_unit_test(states), cmocka_unit_test(operands), cmocka_unit_test(curves),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
