/* data/cues: SubRip and WebVTT, well formed and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/cues.h"

/* The text between two times, to be freed. */
static char *between(const char *file, double start, double end)
{
	struct cues c = {0};
	struct str out = {0};
	struct err e = {0};

	assert_int_equal(cues_parse(&c, file, strlen(file), "a.srt", &e), 0);
	cues_between(&out, &c, start, end);
	cues_release(&c);
	if (!out.p)
		str_puts(&out, "");
	return out.p;
}

static void check(const char *file, double start, double end, const char *want)
{
	char *got = between(file, start, end);

	assert_string_equal(got, want);
	mem_free(got);
}

static const char srt[] = "\xef\xbb\xbf"
			  "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>A cat</i>\r\nsits.\r\n\r\n"
			  "2\r\n00:00:02,500 --> 00:00:04,000 X1:1 X2:2\r\n{\\an8}It   sleeps\t&amp; purrs\r\n\r\n"
			  "3\r\n01:00:00,000 --> 01:00:01,000\r\nAn hour\r\n";

static void test_srt(void **state)
{
	(void)state;
	check(srt, 0, 1, "");
	check(srt, 0, 1.001, "A cat sits.");
	check(srt, 2.4999, 2.5, "A cat sits.");
	check(srt, 2.5, 3, "It sleeps & purrs");
	check(srt, 2, 3, "A cat sits. It sleeps & purrs");
	check(srt, 4, 3600, "");
	check(srt, 3600.5, 3601, "An hour");
}

static void test_vtt(void **state)
{
	static const char vtt[] =
	    "WEBVTT - title\n\nSTYLE\n::cue { color: red }\n\nNOTE a comment\n\nname\n00:01.000 --> 00:02.000 align:start line:0\n"
	    "<v Ann>Hello <00:01.500><c.loud>you</c>\n\n59:59.999 --> 100:00:00.000\nlate";

	(void)state;
	check(vtt, 0, 10, "Hello you");
	check(vtt, 3599.9991, 3600, "late");
	check(vtt, 359999.9, 360001, "late");
}

/* Out of order, overlapping, written word by word, and text that only looks like a tag. */
static void test_order(void **state)
{
	static const char late[] = "00:10.000 --> 00:12.000\nsecond\n\n00:01.000 --> 01:00.000\nfirst\n\n00:11.000 --> 00:13.000\nthird\n";
	static const char rolling[] = "00:01.000 --> 00:02.000\nwe\n\n00:02.000 --> 00:03.000\nwe go\n\n00:03.000 --> 00:04.000\nwe go home\n\n"
				      "00:04.000 --> 00:05.000\nwe go home\n\n00:05.000 --> 00:06.000\nnow\n";
	static const char odd[] = "00:01.000 --> 00:02.000\na < b, {x} <= & &unknown; 5 < 6 <open\n";

	(void)state;
	check(late, 10.5, 11.5, "first second third");
	check(late, 12.5, 14, "first third");
	check(late, 20, 21, "first");
	check(rolling, 0, 10, "we go home now");
	check(odd, 0, 10, "a < b, {x} <= & &unknown; 5 < 6 <open");
}

/* Cues that are wrong are left out; a file without any times, or with a NUL byte, is refused. */
static void test_wrong(void **state)
{
	static const char bad[] =
	    "00:05.000 --> 00:05.000\nno time\n\n00:07.000 --> 00:06.000\nbackwards\n\nxx --> 00:09.000\nno start\n\n00:08.000 -->\n"
	    "no end\n\n00:08.000 --> 00:09.\nno fraction\n\n9999999:00:00.000 --> 00:09.000\nlong\n\n00:01.000 --> 00:02.000\n\n"
	    "00:03.000 --> 00:04.000\n\xff\xfegood\x01\xc3\xa4\xed\xa0\x80";
	struct cues c = {0};
	struct err e = {0};

	(void)state;
	check(bad, 0, 1e9, "??good \xc3\xa4???");
	assert_int_equal(cues_parse(&c, "", 0, "a.srt", &e), -1);
	assert_int_equal(e.code, 65);
	cues_release(&c);
	e = (struct err){0};
	assert_int_equal(cues_parse(&c, "0\0:01 --> 00:02\na", 17, "b.srt", &e), -1);
	assert_non_null(strstr(e.msg, "b.srt: no subtitles: it holds a NUL byte"));
	cues_release(&c);
	e = (struct err){0};
	assert_int_equal(cues_parse(&c, "hello\nworld\n", 12, "c.srt", &e), -1);
	assert_non_null(strstr(e.msg, "no line has the times"));
	cues_release(&c);
}

/* Every cut of a file, and every single byte of it changed, is parsed without reading past the end (run with the address sanitizer). */
static void test_cuts(void **state)
{
	size_t len = sizeof srt - 1;

	(void)state;
	for (size_t n = 0; n <= len; n++)
		for (int flip = 0; flip < 3; flip++) {
			char *text = mem_alloc(n ? n : 1);
			struct cues c = {0};
			struct str out = {0};
			struct err e = {0};

			memcpy(text, srt, n);
			if (flip && n)
				text[(n * 7) % n] ^= (char)(flip == 1 ? 0x80 : 0x1f);
			cues_parse(&c, text, n, "cut.srt", &e);
			cues_between(&out, &c, -1, INFINITY);
			assert_true(out.len < 200);
			str_release(&out);
			cues_release(&c);
			mem_free(text);
		}
}

static void test_many(void **state)
{
	struct str text = {0};
	struct cues c = {0};
	struct err e = {0};
	struct str out = {0};

	(void)state;
	for (int i = 0; i < CUES_MOST; i++)
		str_printf(&text, "%d:%02d.000 --> %d:%02d.500\n%d\n\n", i / 60, i % 60, i / 60, i % 60, i);
	assert_int_equal(cues_parse(&c, text.p, text.len, "many.vtt", &e), 0);
	assert_int_equal(c.n, CUES_MOST);
	cues_between(&out, &c, 150000, 150002);
	assert_string_equal(out.p, "150000 150001");
	str_release(&out);
	cues_release(&c);
	str_puts(&text, "1:00.000 --> 2:00.000\none too many\n");
	assert_int_equal(cues_parse(&c, text.p, text.len, "many.vtt", &e), -1);
	assert_non_null(strstr(e.msg, "more than 200000 subtitles"));
	cues_release(&c);
	str_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_srt),   cmocka_unit_test(test_vtt),  cmocka_unit_test(test_order),
	                                   cmocka_unit_test(test_wrong), cmocka_unit_test(test_cuts), cmocka_unit_test(test_many)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
