/* file/font, data/glyphs and text/scripts: factors against pixels (place, size, rotation, grey levels), the law of the draws, glyphs that are left
 * out, files that are refused. With Debian's fonts-dejavu-core, or another folder in DDM_TEST_FONTS that has its files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "data/glyphs.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "tests/unit/scratch.h"
#include "text/scripts.h"

enum { SIDE = 32 };

static char *sans, *bold;

/* skip() leaves the test; tests/run shows the line before it as the reason. */
static void need_fonts(void)
{
	if (font_available() && path_exists(sans) && path_exists(bold))
		return;
	if (!font_available())
		print_message("skipped: this build has no FreeType\n");
	else
		print_message("skipped: no fonts-dejavu-core: %s is missing\n", path_exists(sans) ? bold : sans);
	skip();
}

static void open_set(struct glyph_set *s, const struct glyph_choice *c, int files, struct pool *pool)
{
	const char *const path[] = {sans, bold, sans};
	struct err e = {0};

	if (glyph_set_open(s, path, files, c, pool, NULL, &e))
		fail_msg("%s", e.msg);
}

static struct glyph_choice characters(const char *text)
{
	struct glyph_choice c = {0};

	for (; *text; text++)
		c.range[c.ranges][0] = c.range[c.ranges][1] = (uint8_t)*text, c.ranges++;
	return c;
}

/* The coverage of a character of DejaVu Sans. */
static void render(uint8_t *coverage, const struct glyph_set *s, uint32_t c, double em, double x, double y, double degrees)
{
	const struct font_pose pose = {em, x, y, degrees};
	struct err e = {0};

	if (font_render(s->open[0], c, &pose, coverage, SIDE, &e))
		fail_msg("%s", e.msg);
}

struct mass {
	double sum, x, y; /* pixels covered, and their centre */
};

static struct mass mass_of(const uint8_t *p)
{
	struct mass m = {0, 0, 0};

	for (int r = 0; r < SIDE; r++)
		for (int c = 0; c < SIDE; c++) {
			double v = p[r * SIDE + c] / 255.;

			m.sum += v;
			m.x += v * (c + .5);
			m.y += v * (r + .5);
		}
	m.x /= m.sum;
	m.y /= m.sum;
	return m;
}

static void places_and_sizes(void **state)
{
	struct glyph_choice c = characters("FIL");
	uint8_t a[SIDE * SIDE], b[SIDE * SIDE];
	struct glyph_set s;
	struct mass m, n;

	(void)state;
	need_fonts();
	open_set(&s, &c, 1, NULL);
	/* A shift by whole pixels is the shifted picture, from a place between pixels too. */
	render(a, &s, 'F', 16, 13.25, 17.5, 20);
	render(b, &s, 'F', 16, 16.25, 15.5, 20);
	for (int r = 0; r < SIDE - 2; r++)
		for (int x = 3; x < SIDE; x++)
			assert_int_equal(b[r * SIDE + x], a[(r + 2) * SIDE + x - 3]);
	/* The I of DejaVu Sans is a box, 202 wide and 1493 high where the em is 2048; its centre is where it was put. Corners are rounded to 1/64 pixel,
	 * which changes the width by as much, and levels to 1/255. */
	for (int degrees = 0; degrees <= 60; degrees += 30)
		for (double em = 10; em <= 20; em += 10) {
			render(a, &s, 'I', em, 14.75, 17.25, degrees);
			m = mass_of(a);
			assert_true(fabs(m.sum / (202. * 1493 / 2048 / 2048 * em * em) - 1) < 2048 / 64. / (202 * em) + .004);
			assert_true(fabs(m.x - 14.75) < 1. / 64 && fabs(m.y - 17.25) < 1. / 64);
		}
	/* Upright: an L has its weight at the bottom left. A quarter turn, anticlockwise, takes the rows of the L for columns. */
	render(a, &s, 'L', 20, 16, 16, 0);
	m = mass_of(a);
	assert_true(m.x < 15 && m.y > 17);
	render(b, &s, 'L', 20, 16, 16, 90);
	for (int r = 0; r < SIDE; r++)
		for (int x = 0; x < SIDE; x++)
			assert_true(abs(b[r * SIDE + x] - a[x * SIDE + SIDE - 1 - r]) <= 2);
	/* Twice the size is four times the area. */
	render(a, &s, 'F', 11, 16, 16, 0);
	render(b, &s, 'F', 22, 16, 16, 0);
	m = mass_of(a);
	n = mass_of(b);
	assert_true(fabs(n.sum / m.sum - 4) < .08);
	/* Half outside: the rest is where it would be. */
	render(a, &s, 'I', 20, 0, 16, 0);
	m = mass_of(a);
	assert_true(fabs(m.sum / (101. * 1493 / 2048 / 2048 * 400) - 1) < .02);
	render(a, &s, 'I', 20, -40, 16, 0);
	assert_true(mass_of(a).sum == 0);
	glyph_set_release(&s);
}

static void grey_levels(void **state)
{
	struct glyph_choice c = characters("H");
	uint8_t p[SIDE * SIDE];
	struct glyph_set s;
	struct err e = {0};

	(void)state;
	need_fonts();
	open_set(&s, &c, 1, NULL);
	for (int up = 0; up < 2; up++) {
		struct glyph_draw d = {&s.glyph[0], {28, 16, 16, 0}, up ? 201 : 40, up ? 40 : 201};
		int ink = 0, ground = 0;

		assert_int_equal(glyph_picture(&s, 0, &d, p, SIDE, &e), 0);
		for (int i = 0; i < SIDE * SIDE; i++) {
			ink += p[i] == d.ink;
			ground += p[i] == d.ground;
			assert_true(p[i] >= 40 && p[i] <= 201);
		}
		assert_int_equal(p[0], d.ground);
		assert_true(ink > 40 && ground > 500);
	}
	glyph_set_release(&s);
}

/* Every pass has every glyph once; the factors stay within the law, fill it, and are rounded as said. */
static void draws(void **state)
{
	const struct glyph_law law = {.em = .75, .position = .1, .scale = .5, .rotation = 30, .contrast = .4}, none = {.em = .75};
	struct glyph_choice c = {.scripts = 1};
	double sum[5] = {0}, square[5] = {0};
	struct pool *pool;
	struct glyph_set s, t;
	struct err e = {0};
	int *seen, orders = 0;

	(void)state;
	need_fonts();
	pool = pool_new(3, &e);
	open_set(&s, &c, 2, NULL);
	open_set(&t, &c, 2, pool);
	assert_int_equal(s.n, t.n);
	assert_memory_equal(s.glyph, t.glyph, (size_t)s.n * sizeof *s.glyph);
	assert_string_equal(s.hash, t.hash);
	assert_int_equal(s.faces, 2);
	assert_string_equal(s.face[0].name, "DejaVu Sans Book");
	assert_string_equal(s.face[1].name, "DejaVu Sans Bold");
	assert_int_equal(s.face[1].weight, 700);
	assert_true(s.n > 600);
	seen = mem_zalloc((size_t)s.n, sizeof *seen);
	for (int64_t i = 0; i < 3 * s.n; i++) {
		struct glyph_draw d = glyph_draw(&s, &law, SIDE, 5, (uint64_t)i), z = glyph_draw(&s, &none, SIDE, 5, (uint64_t)i);
		const double v[5] = {(d.pose.x - 16) / 3.2, (d.pose.y - 16) / 3.2, log(d.pose.em / 24) / log(.5) * 2 - 1, d.pose.degrees / 30,
		                     (abs(d.ink - d.ground) / 255. - .4) / .3 - 1};

		assert_int_equal(++seen[d.glyph - s.glyph], i / s.n + 1);
		assert_ptr_equal(d.glyph, z.glyph);
		orders += i < s.n && d.glyph == glyph_draw(&s, &law, SIDE, 5, (uint64_t)(i + s.n)).glyph;
		assert_true(z.pose.x == 16 && z.pose.y == 16 && z.pose.em == 24 && z.pose.degrees == 0 && z.ink == 255 && z.ground == 0);
		assert_true(64 * d.pose.x == floor(64 * d.pose.x) && 64 * d.pose.em == floor(64 * d.pose.em));
		assert_true(16 * d.pose.degrees == floor(16 * d.pose.degrees));
		for (int a = 0; a < 5; a++) {
			assert_true(fabs(v[a]) <= 1.01);
			sum[a] += v[a];
			square[a] += v[a] * v[a];
		}
	}
	assert_true(orders < 20); /* each pass has an order of its own */
	for (int a = 0; a < 5; a++) {
		/* Uniform in [-1, 1]: mean 0, mean square 1/3, within five standard errors. */
		double n = 3. * (double)s.n;

		assert_true(fabs(sum[a] / n) < 5 * sqrt(1. / 3 / n));
		assert_true(fabs(square[a] / n - 1. / 3) < 5 * sqrt(4. / 45 / n) + .003);
	}
	mem_free(seen);
	glyph_set_release(&s);
	glyph_set_release(&t);
	pool_free(pool);
}

static void left_out(void **state)
{
	struct glyph_choice c = characters("A B"), cyrillic = {.scripts = 1 | 4};
	struct glyph_set s;

	(void)state;
	need_fonts();
	c.range[c.ranges][0] = c.range[c.ranges][1] = 0x4e00; /* Han: DejaVu has none */
	c.ranges++;
	open_set(&s, &c, 3, NULL);
	assert_int_equal(s.n, 4);
	assert_int_equal(s.characters, 2);
	assert_int_equal(glyph_set_character(&s, &s.glyph[3]), 1);
	assert_int_equal(s.missing, 3);
	assert_int_equal(s.blank, 3);
	assert_int_equal(s.repetitions, 2); /* the third file is the first again */
	glyph_set_release(&s);
	open_set(&s, &cyrillic, 1, NULL);
	assert_true(s.repetitions >= 20); /* as Cyrillic's A is Latin's */
	for (int64_t i = 0; i < s.n; i++)
		assert_int_not_equal(s.glyph[i].code_point, 0x410);
	glyph_set_release(&s);
}

static void refused(void **state)
{
	char *text = path_join(dir, "text.ttf"), *cut = path_join(dir, "cut.ttf"), *none = path_join(dir, "none.ttf");
	const struct {
		const char *path, *says;
		enum err_code code;
		uint32_t c;
	} bad[] = {
	    {text, "text.ttf: not a font that FreeType reads", ERR_DATA, 'A'},
	    {cut, "cut.ttf: ", ERR_DATA, 'A'},
	    {none, "none.ttf", ERR_NOINPUT, 'A'},
	    {sans, "none of the 1 faces has any", ERR_DATA, 0x4e00},
	    {sans, "blank", ERR_DATA, ' '},
	};
	struct err e = {0};
	size_t len;
	void *data;

	(void)state;
	need_fonts();
	data = file_load(sans, 1 << 24, &len, &e);
	assert_int_equal(commit_bytes(text, "no font\n", 8, &e), 0);
	assert_int_equal(commit_bytes(cut, data, 200, &e), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct glyph_choice c = {.ranges = 1, .range = {{bad[i].c, bad[i].c}}};
		struct glyph_set s;

		e = (struct err){0};
		assert_int_equal(glyph_set_open(&s, &bad[i].path, 1, &c, NULL, NULL, &e), -1);
		assert_int_equal(e.code, bad[i].code);
		if (!strstr(e.msg, bad[i].says))
			fail_msg("%s", e.msg);
		glyph_set_release(&s);
	}
	mem_free(data);
	mem_free(text);
	mem_free(cut);
	mem_free(none);
}

static void scripts(void **state)
{
	static const struct {
		uint32_t c;
		const char *name;
	} cases[] = {
	    {'A', "latin"},       {'z', "latin"},      {0xd7, NULL},      {'!', NULL},        {'7', "digits"},
	    {0x3b1, "greek"},     {0x416, "cyrillic"}, {0x5d0, "hebrew"}, {0x300, NULL},      {0x3042, "hiragana"},
	    {0x30ab, "katakana"}, {0x4e2d, "han"},     {0x20000, "han"},  {0xd55c, "hangul"}, {0x1f600, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int s = script_of(cases[i].c);

		if (s < 0 ? cases[i].name != NULL : !cases[i].name || strcmp(cases[i].name, script_names[s]) != 0)
			fail_msg("U+%04X is %s", (unsigned)cases[i].c, s < 0 ? "none" : script_names[s]);
	}
}

static int set_up(void **state)
{
	const char *fonts = getenv("DDM_TEST_FONTS");

	sans = path_join(fonts ? fonts : "/usr/share/fonts/truetype/dejavu", "DejaVuSans.ttf");
	bold = path_join(fonts ? fonts : "/usr/share/fonts/truetype/dejavu", "DejaVuSans-Bold.ttf");
	return make_dir(state);
}

static int tear_down(void **state)
{
	mem_free(sans);
	mem_free(bold);
	return remove_dir(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(places_and_sizes), cmocka_unit_test(grey_levels), cmocka_unit_test(draws),
	    cmocka_unit_test(left_out),         cmocka_unit_test(refused),     cmocka_unit_test(scripts),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
