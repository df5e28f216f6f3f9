/* core: the contents of progress lines, and suggestions for misspelt words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "core/clock.h"
#include "core/wordsuggest.h"
#include "core/pace.h"

static void near(double a, double b)
{
	assert_true(a > b - 1e-9 && a < b + 1e-9);
}

static void a_steady_pace(void **state)
{
	struct pace p = {0};

	(void)state;
	near(pace_rate(&p), 0);
	near(pace_left(&p, 100), -1);
	pace_add(&p, 0, 50);
	pace_add(&p, 5, 50.5);
	near(pace_rate(&p), 0); /* less than a second has passed */
	for (int i = 1; i <= 200; i++)
		pace_add(&p, i * 10, 50 + i);
	near(pace_rate(&p), 10);
	near(pace_left(&p, 3000), 100);
	near(pace_left(&p, 2000), 0);
	near(pace_left(&p, 1999), -1);
}

/* A fast beginning, as from a cache, is forgotten. */
static void a_pace_that_changes(void **state)
{
	struct pace p = {0};
	int64_t done = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		pace_add(&p, done += 1000, i);
	for (int i = 100; i < 200; i++)
		pace_add(&p, done += 1, i);
	near(pace_rate(&p), 1);
	pace_add(&p, 3, 200); /* another pass */
	near(pace_rate(&p), 0);
	near(pace_left(&p, 100), -1);
}

static void a_slow_pace(void **state)
{
	struct pace p = {0};

	(void)state;
	for (int i = 0; i < 5; i++)
		pace_add(&p, i, i * 600);
	near(pace_rate(&p), 1. / 600);
	near(pace_left(&p, 6), 1200);
}

static void texts(void **state)
{
	static const struct {
		double seconds;
		const char *text;
	} times[] = {{0, "0:00"},        {42, "0:42"},     {725, "12:05"},    {3599.6, "1:00:00"},
	             {11265, "3:07:45"}, {86400, "1d 0h"}, {183600, "2d 3h"}, {1e300, "999d 0h"}};
	static const struct {
		double rate;
		const char *text;
	} rates[] = {{0, "0.00"}, {.34, "0.34"}, {8.14, "8.1"}, {99.94, "99.9"}, {812.3, "812"}, {9999, "9999"}, {12500, "12.5k"}, {3.2e9, "3200M"}};
	char text[PACE_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		assert_string_equal(pace_text(text, times[i].seconds), times[i].text);
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
		assert_string_equal(pace_number(text, rates[i].rate), rates[i].text);
}

static void words(void **state)
{
	static const char *const list[] = {"--schedule", "--steps", "--lr", "--batch", "--batch-invariant", "euler", NULL};

	(void)state;
	assert_int_equal(word_distance("kitten", "sitting"), 3);
	assert_int_equal(word_distance("setps", "steps"), 1);
	assert_int_equal(word_distance("Steps", "steps"), 0);
	assert_int_equal(word_distance("", "abc"), 3);
	assert_string_equal(word_nearest("--stesp", list), "--steps");
	assert_string_equal(word_nearest("--shedule", list), "--schedule");
	assert_string_equal(word_nearest("eul", list), "euler");
	assert_null(word_nearest("--colour", list));
	assert_null(word_nearest("x", list));
}

/* All output so far, read from the master side of a terminal. */
static size_t drain(int master, char *text, size_t size, size_t have)
{
	ssize_t got;

	while (have + 1 < size && (got = read(master, text + have, size - 1 - have)) > 0)
		have += (size_t)got;
	text[have] = 0;
	return have;
}

/* The line shows how many of how many are done, the speed and the remaining time; at most six lines a second; nothing without a terminal. */
static void on_a_terminal(void **state)
{
	static char text[1 << 16];
	struct timespec pause = {0, 5000000};
	struct progress p = cmd_progress();
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave = -1, kept = dup(2);
	double start, seconds = 0;
	size_t have = 0;
	int lines = 0;

	(void)state;
	if (master < 0 || grantpt(master) || unlockpt(master) || (slave = open(ptsname(master), O_RDWR | O_NOCTTY)) < 0) {
		close(kept);
		skip();
	}
	assert_int_equal(fcntl(master, F_SETFL, O_NONBLOCK), 0);
	assert_true(dup2(slave, 2) == 2);
	start = clock_seconds();
	for (int64_t i = 0; (seconds = clock_seconds() - start) < 60 && !strstr(text, "ETA"); i++) {
		progress_tell(&p, "things", i, 1000000);
		nanosleep(&pause, NULL);
		have = drain(master, text, sizeof text, have);
	}
	progress_tell(&p, "things", 1000000, 1000000);
	have = drain(master, text, sizeof text, have);
	assert_true(dup2(kept, 2) == 2);
	close(kept);
	close(slave);
	close(master);
	for (const char *c = text; (c = strstr(c, "things ")); c++)
		lines++;
	assert_true(lines >= 2 && lines <= 6 * seconds + 2);
	assert_non_null(strstr(text, " of 1000000 (0%)"));
	assert_non_null(strstr(text, "/s, ETA "));
	assert_true(have >= 4 && !strcmp(text + have - 4, "\r\033[K")); /* no line remains at the end */
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_steady_pace), cmocka_unit_test(a_pace_that_changes), cmocka_unit_test(a_slow_pace), cmocka_unit_test(texts),
	    cmocka_unit_test(words),         cmocka_unit_test(on_a_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
