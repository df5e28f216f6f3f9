/* lib/plot: scales, letters, coverage of pixels against areas, colours, escaping, thinning, charts of files. */
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
#include "file/commit.h"
#include "file/fileio.h"
#include "plot/chart.h"
#include "plot/frame.h"
#include "plot/glossary.h"
#include "plot/marks.h"
#include "plot/plot.h"
#include "plot/sources.h"
#include "plot/strokefont.h"

/* Ticks are within the scale, increasing, and multiples of 1, 2 or 5 times a power of ten; their labels have their values. */
static void check_axis(double lo, double hi, int log)
{
	struct axis a;

	axis_fit(&a, lo, hi, log, 6, 0);
	assert_true(a.lo < a.hi && a.lo <= lo && a.hi >= hi);
	assert_true(a.n >= 2 && a.n <= AXIS_TICKS);
	for (int i = 0; i < a.n; i++) {
		double read = strtod(a.label[i], NULL), step = a.n > 1 ? a.tick[1] - a.tick[0] : 0;

		assert_true(a.tick[i] >= a.lo - 1e-6 * (a.hi - a.lo) && a.tick[i] <= a.hi + 1e-6 * (a.hi - a.lo));
		assert_true(fabs(read - a.tick[i]) <= 1e-3 * fmax(step, log ? a.tick[i] : 0));
		assert_true(strlen(a.label[i]) <= 14);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(a.label[i], a.label[j]);
		assert_true(i == 0 || a.tick[i] > a.tick[i - 1]);
	}
	if (!log) {
		double step = a.tick[1] - a.tick[0], m = step / pow(10, floor(log10(step) + 1e-9));

		assert_true(fabs(m - 1) < 1e-6 || fabs(m - 2) < 1e-6 || fabs(m - 5) < 1e-6);
	}
	a.from = 100;
	a.to = 20;
	assert_true(fabs(axis_at(&a, a.lo) - 100) < 1e-9 && fabs(axis_at(&a, a.hi) - 20) < 1e-9);
}

static void test_axes(void **state)
{
	static const double scale[] = {1e-12, 3.7e-5, .02, 1, 8.3, 1000, 4.4e6, 1e30};

	(void)state;
	for (size_t i = 0; i < sizeof scale / sizeof *scale; i++)
		for (double span = .1; span < 2000; span *= 2.7) {
			check_axis(scale[i], scale[i] * (1 + span), 0);
			check_axis(-scale[i], scale[i] * span, 0);
			check_axis(scale[i], scale[i] * (1 + span), 1);
		}
	check_axis(1e-9, 1e9, 1);
	check_axis(5, 5, 0);
	check_axis(0, 0, 0);
	check_axis(-3, -3, 0);
	check_axis(7, 7, 1);
	check_axis(1 + 1e-12, 1 + 2e-12, 0);
}

static void test_numbers(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {{0, "0"},     {1, "1"},           {-.5, "-0.5"},  {.0123456, "0.01235"},    {1234.5, "1234"}, {999999, "999999"},
	             {1e6, "1e6"}, {-2.5e7, "-2.5e7"}, {1e-5, "1e-5"}, {1.25e-300, "1.25e-300"}, {100, "100"},     {1e100, "1e100"}};
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		axis_number(text, cases[i].v);
		assert_string_equal(text, cases[i].text);
	}
}

struct bounds {
	double x0, y0, x1, y1;
	int strokes;
};

static void bound(void *arg, const double *xy, int n)
{
	struct bounds *b = arg;

	assert_true(n >= 2);
	b->strokes++;
	for (int i = 0; i < n; i++) {
		b->x0 = fmin(b->x0, xy[2 * i]);
		b->x1 = fmax(b->x1, xy[2 * i]);
		b->y0 = fmin(b->y0, xy[2 * i + 1]);
		b->y1 = fmax(b->y1, xy[2 * i + 1]);
	}
}

/* The strokes of every letter are unique, within its width, and between ascender and descender. */
static void test_letters(void **state)
{
	struct bounds seen[128];

	(void)state;
	for (int c = 33; c < 127; c++) {
		const char text[2] = {(char)c, 0};
		struct bounds b = {1e9, 1e9, -1e9, -1e9, 0};

		strokefont_draw(text, 0, 0, STROKEFONT_EM, bound, &b);
		assert_true(b.strokes > 0);
		assert_true(b.x0 >= 0 && b.x1 <= strokefont_width(text, STROKEFONT_EM));
		assert_true(b.y0 >= -16 && b.y1 <= 4.5);
		seen[c] = b;
	}
	assert_true(fabs(seen['x'].y0 + 10) < .1 && fabs(seen['H'].y0 + 14) < .1 && fabs(seen['H'].y1) < .1);
	for (int c = '0'; c <= '9'; c++) {
		const char text[2] = {(char)c, 0};

		assert_true(fabs(strokefont_width(text, 10) - strokefont_width("0", 10)) < .21);
	}
	/* A character of several bytes is one box. */
	assert_true(strokefont_width("\xc3\xa9", 20) == strokefont_width("\xe2\x82\xac", 20) && strokefont_width("\xc3\xa9", 20) > 0);
}

/* The area that a drawing covers, in pixels. */
static double ink(const struct scene *s, double scale)
{
	struct picture p = {0};
	struct err e = {0};
	double sum = 0;

	assert_int_equal(scene_picture(&p, s, scale, &e), 0);
	for (int i = 0; i < p.width * p.height; i++)
		sum += (255. - p.pixels[3 * i]) / (255. - (double)(scene_rgb(SCENE_INK) >> 16));
	picture_release(&p);
	return sum;
}

static void test_coverage(void **state)
{
	struct scene s = {.width = 60, .height = 40};
	const double corner[6] = {10, 30, 50, 30, 30, 10}, bent[6] = {10.2, 10.2, 40.2, 10.2, 40.2, 30.2};
	const struct scene_pen pen = {SCENE_INK, 3, 1, 0};
	double circle[128], straight;

	(void)state;
	scene_area(&s, corner, 3, SCENE_INK, 1);
	assert_true(fabs(ink(&s, 1) - 400) < 1.5);
	assert_true(fabs(ink(&s, 2) - 1600) < 3);
	scene_release(&s);
	s = (struct scene){.width = 60, .height = 40};
	scene_box(&s, 10.25, 10.5, 20.25, 12.5, SCENE_INK, 1);
	assert_true(fabs(ink(&s, 1) - 20) < .1);
	scene_release(&s);
	s = (struct scene){.width = 60, .height = 40};
	for (int i = 0; i < 64; i++) {
		circle[2 * i] = 30 + 15 * cos(2 * M_PI * i / 64);
		circle[2 * i + 1] = 20 + 15 * sin(2 * M_PI * i / 64);
	}
	scene_area(&s, circle, 64, SCENE_INK, .5);
	assert_true(fabs(ink(&s, 1) - .5 * 32 * 225 * sin(2 * M_PI / 64)) < 2);
	scene_release(&s);
	/* A line covers its length times its width; overlapping pieces count once (bends reduce it slightly). */
	s = (struct scene){.width = 60, .height = 40};
	scene_segment(&s, 10.3, 10.2, 45, 30.9, pen);
	straight = 3 * hypot(34.7, 20.7);
	assert_true(fabs(ink(&s, 1) - straight) < .01 * straight);
	scene_release(&s);
	/* A right angle: the square of half a width is covered twice, a quarter of a disc is added outside. */
	s = (struct scene){.width = 60, .height = 40};
	scene_line(&s, bent, 3, pen);
	assert_true(fabs(ink(&s, 1) - (3 * (30 + 20) - 2.25 + M_PI * 2.25 / 4)) < .2);
	scene_release(&s);
	/* Points along a line change nothing. */
	s = (struct scene){.width = 60, .height = 40};
	for (int i = 0; i < 64; i++) {
		circle[2 * i] = 10 + i * .5;
		circle[2 * i + 1] = 10 + i * .3;
	}
	scene_line(&s, circle, 64, pen);
	straight = 3 * hypot(31.5, 18.9);
	assert_true(fabs(ink(&s, 1) - straight) < .01 * straight);
	scene_release(&s);
	/* Dashes of 7 and gaps of 3. */
	s = (struct scene){.width = 60, .height = 40};
	scene_segment(&s, 5, 20.5, 55, 20.5, (struct scene_pen){SCENE_INK, 1, 1, 1});
	assert_true(fabs(ink(&s, 1) - 35) < .2);
	/* Parts outside are clipped. */
	scene_segment(&s, -1e6, 300, 1e6, 300, pen);
	assert_true(fabs(ink(&s, 1) - 35) < .2);
	scene_release(&s);
}

static double luminance(uint32_t rgb)
{
	static const double weight[3] = {.2126, .7152, .0722};
	double sum = 0;

	for (int c = 0; c < 3; c++) {
		double v = (rgb >> (16 - 8 * c) & 255) / 255.;

		sum += weight[c] * (v <= .04045 ? v / 12.92 : pow((v + .055) / 1.055, 2.4));
	}
	return sum;
}

/* WCAG 2.2: 3 to 1 for graphics, 4.5 to 1 for text. */
static void test_contrast(void **state)
{
	(void)state;
	for (int i = SCENE_SERIES; i < SCENE_COLOURS; i++)
		assert_true(1.05 / (luminance(scene_rgb(i)) + .05) >= 3);
	assert_true(1.05 / (luminance(scene_rgb(SCENE_SOFT)) + .05) >= 4.5);
	for (int i = 0; i < 24; i++)
		for (int j = 0; j < i; j++)
			assert_true(i % 8 != j % 8 || mark_dash(i) != mark_dash(j));
}

static void test_escape(void **state)
{
	struct str s = {0};

	(void)state;
	scene_escape(&s, "a<b>&\"c\" \xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xb8 \xff\xc0\xaf\xed\xa0\x80 \x01\x7f");
	assert_string_equal(s.p, "a&lt;b&gt;&amp;&quot;c&quot; \xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xb8 ?????? ??");
	str_release(&s);
}

/* A million points become at most four per column, and the extremes are kept. */
static void test_thin(void **state)
{
	enum { N = 1000000 };
	struct scene s = {.width = 400, .height = 300};
	const struct plotbox box = {50, 20, 350, 280};
	double *xy = mem_zalloc(N, 2 * sizeof *xy), low = 1e9, high = -1e9;

	(void)state;
	for (int i = 0; i < N; i++) {
		xy[2 * i] = 50 + 300. * i / (N - 1);
		xy[2 * i + 1] = 150 + 40 * sin(i * .7) + (i == 400001 ? 80 : 0) - (i == 700001 ? 80 : 0);
	}
	mark_line(&s, &box, xy, N, (struct scene_pen){SCENE_INK, 1, 1, 0});
	assert_int_equal(s.n, 1);
	assert_true(s.item[0].n > 600 && s.item[0].n <= 4 * 301);
	for (int i = 0; i < s.item[0].n; i++) {
		low = fmin(low, s.item[0].xy[2 * i + 1]);
		high = fmax(high, s.item[0].xy[2 * i + 1]);
		assert_true(i == 0 || s.item[0].xy[2 * i] >= s.item[0].xy[2 * i - 2]);
	}
	assert_true(high > 190 && low < 110);
	scene_release(&s);
	mem_free(xy);
	/* Clipped to the box, in pieces. */
	s = (struct scene){.width = 400, .height = 300};
	xy = mem_zalloc(5, 2 * sizeof *xy);
	memcpy(xy, (const double[]){0, 150, 100, 150, 100, 1000, 200, 1000, 200, 100}, 10 * sizeof *xy);
	mark_line(&s, &box, xy, 5, (struct scene_pen){SCENE_INK, 1, 1, 0});
	assert_int_equal(s.n, 2);
	assert_true(s.item[0].xy[0] == 50 && s.item[0].xy[s.item[0].n * 2 - 1] == 280 && s.item[1].xy[1] == 280);
	scene_release(&s);
	mem_free(xy);
}

static char path[200];

static void put(const char *text)
{
	struct err e = {0};

	assert_int_equal(commit_bytes(path, text, strlen(text), &e), 0);
}

static int code_of(const char *text)
{
	struct chart c = {0};
	struct err e = {0};

	put(text);
	source_columns(&c, path, "a", "x", "y", NULL, NULL, NULL, CHART_LINE, NULL, &e);
	chart_release(&c);
	return e.code;
}

static void test_frames(void **state)
{
	struct err e = {0};
	struct frame *f;
	double v = 0;

	(void)state;
	put("{\"a\":{\"b\":2,\"c.d\":3},\"t\":\"x\"}\n\n{\"a\":{\"b\":null},\"n\":0.25}\n{\"a\":");
	f = frame_load(path, &e);
	assert_non_null(f);
	assert_int_equal(frame_rows(f), 2);
	assert_int_equal(frame_number(f, 0, "a.b", &v, &e), 1);
	assert_true(v == 2);
	assert_int_equal(frame_number(f, 0, "a.c.d", &v, &e), 1);
	assert_true(v == 3);
	assert_int_equal(frame_number(f, 1, "a.b", &v, &e), 0);
	assert_int_equal(frame_number(f, 0, "t", &v, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_string_equal(frame_text(f, 0, "t"), "x");
	assert_string_equal(frame_text(f, 1, "n"), "0.25");
	assert_true(frame_has(f, "n") && !frame_has(f, "none"));
	frame_free(f);
	assert_int_equal(code_of(""), ERR_DATA);
	assert_int_equal(code_of("x y\n1 2\n"), ERR_DATA);
	assert_int_equal(code_of("[1]\n"), ERR_DATA);
	assert_int_equal(code_of("{\"x\":1}\n"), ERR_DATA);
	assert_int_equal(code_of("{\"x\":1,\"y\":\"high\"}\n"), ERR_DATA);
	assert_int_equal(code_of("{\"x\":1\n{\"x\":1,\"y\":2}\n"), ERR_DATA);
	assert_int_equal(code_of("{\"x\":1,\"y\":2}\n"), 0);
}

/* The mean of every window by its definition, in a log with gaps whose first losses are much larger than the others. */
static void test_smoothing(void **state)
{
	enum { LINES = 150 };
	double loss[LINES], worst = 0;
	struct err e = {0};
	char text[LINES * 64];
	size_t len = 0;

	(void)state;
	for (int i = 0; i < LINES; i++) {
		loss[i] = i < 2 ? 1e25 : i % 11 == 4 ? (double)NAN : 1 + .5 * sin(i * i);
		len += (size_t)snprintf(text + len, sizeof text - len,
		                        i % 11 == 4 ? "{\"step\":%d,\"loss\":null,\"val_loss\":1}\n" : "{\"step\":%d,\"loss\":%.17g}\n", i, loss[i]);
	}
	put(text);
	for (int window = 2; window < 2 * LINES; window += 7) {
		struct chart c = {0};
		int half = (window < LINES ? window : LINES) / 2;

		assert_int_equal(source_loss(&c, path, "a", window, NULL, &e), 0);
		assert_int_equal(c.series[0].n, LINES);
		for (int i = 0; i < LINES; i++) {
			int reach = half < i ? half : i, n = 0;
			double sum = 0;

			reach = reach < LINES - 1 - i ? reach : LINES - 1 - i;
			for (int j = i - reach; j <= i + reach; j++)
				if (isfinite(loss[j])) {
					sum += loss[j];
					n++;
				}
			assert_int_equal(isnan(loss[i]), isnan(c.series[0].y[i]));
			if (!isnan(loss[i]))
				worst = fmax(worst, fabs(c.series[0].y[i] / (sum / n) - 1));
		}
		chart_release(&c);
	}
	assert_true(worst < 1e-14);
}

/* A log of a training that was killed at step 30 and continued from 20: every step counts once, by its later line. */
static void test_losses(void **state)
{
	struct chart c = {0};
	struct err e = {0};

	(void)state;
	put("{\"event\":\"start\",\"step\":0}\n{\"step\":10,\"loss\":4}\n{\"step\":20,\"loss\":2}\n{\"step\":30,\"loss\":9,\"val_loss\":7}\n"
	    "{\"event\":\"start\",\"step\":20}\n{\"step\":30,\"loss\":1,\"val_loss\":3}\n{\"step\":40,\"loss\":null}\n{\"step\":50,\"loss\":0.5}\n");
	assert_int_equal(source_loss(&c, path, "a", 1, NULL, &e), 0);
	assert_int_equal(c.n, 2);
	assert_int_equal(c.series[0].n, 4);
	assert_true(c.series[0].x[2] == 30 && c.series[0].y[2] == 1 && c.series[0].y[3] == .5);
	assert_int_equal(c.series[1].n, 1);
	assert_true(c.series[1].y[0] == 3);
	chart_release(&c);
	/* Means over three lines, over one at the ends. */
	assert_int_equal(source_loss(&c, path, "a", 3, NULL, &e), 0);
	assert_int_equal(c.n, 3);
	assert_true(c.series[0].y[0] == 4 && fabs(c.series[0].y[1] - 7. / 3) < 1e-12 && c.series[0].y[3] == .5);
	assert_true(c.series[1].faint && c.series[1].y[1] == 2);
	chart_release(&c);
}

/* Three seeds: numpy's mean and scipy's t-interval of 1, 2, 4 (scipy.stats.t.interval(.95, 2, 7/3, sem)). */
static void test_cost(void **state)
{
	static const char *const row[] = {"1", "2", "4"};
	char *name[3];
	struct chart c = {0};
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *text = str_new("{\"label\":\"a\",\"g\":8,\"kd\":%s,\"f\":0.5}\n{\"label\":\"b\",\"g\":2,\"kd\":3}\n", row[i]);

		name[i] = str_new("%s.%d", path, i);
		assert_int_equal(commit_bytes(name[i], text, strlen(text), &e), 0);
		mem_free(text);
	}
	assert_int_equal(source_cost(&c, name, 3, "label", "g", "kd", "f", .95, NULL, &e), 0);
	assert_int_equal(c.n, 2);
	assert_true(c.series[0].x[0] == 8 && fabs(c.series[0].y[0] - 7. / 3) < 1e-12);
	assert_true(fabs(c.series[0].low[0] + 1.461249700263426) < 1e-9 && fabs(c.series[0].high[0] - 6.1279163669300925) < 1e-9);
	assert_true(c.series[1].low[0] == 3 && c.series[1].high[0] == 3);
	assert_true(c.rules == 1 && c.rule[0].y == .5);
	chart_release(&c);
	for (int i = 0; i < 3; i++) {
		unlink(name[i]);
		mem_free(name[i]);
	}
}

static void test_router(void **state)
{
	struct chart w = {0}, h = {0};
	struct err e = {0};

	(void)state;
	put("{\"index\":0,\"weights\":[[0.5,0.5],[1,0]]}\n{\"index\":1,\"weights\":[[0.25,0.75],[0,1]]}\n");
	assert_int_equal(source_router(&w, &h, path, NULL, &e), 0);
	assert_true(w.n == 2 && w.series[0].n == 2);
	assert_true(w.series[0].x[0] == 1 && w.series[0].x[1] == .5);
	assert_true(w.series[0].y[0] == .375 && w.series[1].y[0] == .625 && w.series[0].y[1] == .5);
	assert_true(fabs(h.series[0].y[0] - (log(2) - .25 * log(.25) - .75 * log(.75)) / 2) < 1e-12 && h.series[0].y[1] == 0);
	chart_release(&w);
	chart_release(&h);
	put("{\"index\":0,\"weights\":[[0.5,0.5],[1,0]]}\n{\"index\":1,\"weights\":[[0.5,0.5]]}\n");
	assert_int_equal(source_router(&w, NULL, path, NULL, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
}

static void test_labels(void **state)
{
	char *a[] = {"x/lr-1/m/train.jsonl", "x/lr-3/m/train.jsonl"}, *b[] = {"run/monolith/expert_0/train.jsonl"}, *c[] = {"a", "b/a"};
	static const char *const want[] = {"lr-1", "lr-3"};
	char *label;

	(void)state;
	for (int i = 0; i < 2; i++) {
		label = source_label(a, 2, i);
		assert_string_equal(label, want[i]);
		mem_free(label);
	}
	label = source_label(b, 1, 0);
	assert_string_equal(label, "monolith");
	mem_free(label);
	for (int i = 0; i < 2; i++) {
		label = source_label(c, 2, i);
		assert_true(*label);
		mem_free(label);
	}
}

/* Charts that cannot be drawn are errors; others have a description. */
static void test_chart(void **state)
{
	struct scene s = {0};
	struct chart c = {.width = 400, .height = 300, .log_y = 1};
	struct chart_series *series = chart_series_add(&c, "one", CHART_LINE);
	struct err e = {0};

	(void)state;
	chart_point(series, 1, -1);
	chart_point(series, 2, NAN);
	assert_int_equal(chart_draw(&s, &c, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	chart_point(series, 3, 5);
	e = (struct err){0};
	assert_int_equal(chart_draw(&s, &c, &e), 0);
	assert_non_null(strstr(s.about, "one: 5 at 3"));
	chart_point(series, 4, 1e200);
	assert_int_equal(chart_draw(&s, &c, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	scene_release(&s);
	chart_release(&c);
}

/* A metric is recognised with the name of its features after it; other columns with the same beginning are not. */
static void test_glossary(void **state)
{
	(void)state;
	assert_ptr_equal(glossary_find("fid-inception"), glossary_find("fid"));
	assert_ptr_equal(glossary_find("clip-score-clip"), glossary_find("clip-score"));
	assert_ptr_equal(glossary_find("kd-pix"), glossary_find("kd"));
	assert_ptr_not_equal(glossary_find("fd-n"), glossary_find("fd"));
	assert_ptr_not_equal(glossary_find("fd-axes"), glossary_find("fd"));
	assert_null(glossary_find("fid-inception-sd"));
	assert_null(glossary_find("fidelity"));
	assert_null(glossary_find("steps"));
	assert_non_null(strstr(glossary_find("recall-dinov2")->label, "larger"));
}

static void check_refused(const struct plot_request *r, const char *why)
{
	struct err e = {0};
	int64_t absent;

	assert_int_equal(plot_make(r, &absent, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, why));
}

/* A request of a C program: columns of JSON lines, one of which has no y. */
static void test_request(void **state)
{
	char *source = str_new("mine=%s", path), *out = str_new("%s.svg", path), *svg;
	struct plot_request r = plot_defaults();
	const char *sources[] = {source};
	struct err e = {0};
	int64_t absent = -1;
	size_t size;

	(void)state;
	put("{\"x\":1,\"y\":2}\n{\"x\":2}\n{\"x\":3,\"y\":5}\n");
	r.program = "test";
	r.source = sources;
	r.out = out;
	assert_int_equal(plot_kind_parse(&r.kind, "lines", &e), 0);
	check_refused(&r, "no file");
	r.n = 1;
	check_refused(&r, "-x and -y");
	r.x = "x";
	r.y = "y";
	r.width = 100;
	check_refused(&r, "--width: 100 is not from 200 to 4000");
	r.width = 300;
	r.x_range = "3:1";
	check_refused(&r, "LO < HI");
	r.x_range = NULL;
	assert_false(plot_is_png(&r));
	assert_int_equal(plot_make(&r, &absent, &e), 0);
	assert_int_equal(absent, 1);
	svg = file_load(out, 1 << 20, &size, &e);
	assert_non_null(svg);
	assert_non_null(strstr(svg, "mine: from 2 at 1 to 5 at 3"));
	assert_non_null(strstr(svg, "program&quot;:&quot;test&quot;"));
	mem_free(svg);
	assert_int_equal(plot_kind_parse(&r.kind, "liens", &e), -1);
	assert_non_null(strstr(e.msg, "did you mean lines"));
	unlink(out);
	mem_free(out);
	mem_free(source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_axes),      cmocka_unit_test(test_numbers), cmocka_unit_test(test_letters),  cmocka_unit_test(test_coverage),
	    cmocka_unit_test(test_contrast),  cmocka_unit_test(test_escape),  cmocka_unit_test(test_thin),     cmocka_unit_test(test_frames),
	    cmocka_unit_test(test_smoothing), cmocka_unit_test(test_losses),  cmocka_unit_test(test_cost),     cmocka_unit_test(test_router),
	    cmocka_unit_test(test_labels),    cmocka_unit_test(test_chart),   cmocka_unit_test(test_glossary), cmocka_unit_test(test_request),
	};
	int rc;

	snprintf(path, sizeof path, "%s/ddm-test-plot.%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
