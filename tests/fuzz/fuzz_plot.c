/* Any bytes as each kind of file that ddm-plot and ddm-html draw: a training log, a table or JSON lines, a routing log, a comparison. A file that is
 * read is also drawn. The columns are those named by the first line, and those with a fixed meaning. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "plot/chart.h"
#include "plot/frame.h"
#include "plot/marks.h"
#include "plot/sources.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/replay.h"
#include "tests/fuzz/tablehash.h"

enum { SERIES_DRAWN = 40 };

static void check(int rc, struct err *e)
{
	if ((rc < 0) != (e->code != 0) || (e->code && e->code != ERR_DATA && e->code != ERR_USAGE))
		abort();
	*e = (struct err){0};
}

static void put_svg(struct scene *s, int failed)
{
	struct str out = {0};

	if (!failed)
		scene_svg(&out, s, "a", "{}");
	str_release(&out);
	scene_release(s);
}

static void draw(struct chart *c)
{
	struct err e = {0};

	c->width = 320;
	c->height = 200;
	for (int log = 0; log < 2 && c->n <= SERIES_DRAWN; log++) {
		struct scene s = {0};

		c->log_x = c->log_y = log;
		put_svg(&s, chart_draw(&s, c, &e));
		check(e.code ? -1 : 0, &e);
	}
	chart_release(c);
	*c = (struct chart){0};
}

static void draw_bars(struct bars *b)
{
	struct scene s = {0};
	struct err e = {0};

	b->width = 320;
	if (b->n <= SERIES_DRAWN)
		put_svg(&s, bars_draw(&s, b, &e));
	check(e.code ? -1 : 0, &e);
	bars_release(b);
	*b = (struct bars){0};
}

static void use_frame(const char *path)
{
	static const char *const columns[] = {"a", "a.b", "step", "loss", "stamp", ""};
	struct err e = {0};
	struct frame *f = frame_load(path, &e);

	check(f ? 0 : -1, &e);
	for (size_t c = 0; f && c < sizeof columns / sizeof *columns; c++) {
		mem_free(frame_json(f, columns[c]));
		for (int64_t i = 0; i < frame_rows(f); i++) {
			double v;
			int has = frame_number(f, i, columns[c], &v, &e);

			check(has, &e);
			if (!frame_text(f, i, columns[c]) || (has > 0 && !frame_has(f, columns[c])))
				abort();
		}
	}
	frame_free(f);
}

static void use(char *path)
{
	struct chart c = {0}, d = {0};
	struct bars b = {0};
	struct err e = {0};
	char *arm = source_arm_column(path, NULL), *two[] = {path, path}, hash[65];

	use_frame(path);
	check(source_loss(&c, path, "x", 0, hash, &e), &e);
	draw(&c);
	check(source_loss(&c, path, "", 3, NULL, &e), &e);
	draw(&c);
	check(source_columns(&c, path, "x", "a", "b", NULL, "low", "high", CHART_POINTS, hash, &e) < 0 ? -1 : 0, &e);
	draw(&c);
	check(source_columns(&c, path, "x", "a", "b", "g", NULL, NULL, CHART_LINE, NULL, &e) < 0 ? -1 : 0, &e);
	draw(&c);
	check(source_cost(&c, two, 2, arm ? arm : "arm", "a", "b", "b", .95, NULL, &e), &e);
	draw(&c);
	check(source_router(&c, &d, path, hash, &e), &e);
	draw(&c);
	draw(&d);
	check(source_bars(&b, path, arm ? arm : "a", "b", NULL, NULL, .9, hash, &e), &e);
	draw_bars(&b);
	check(source_compare(&b, path, NULL, NULL, &e), &e);
	draw_bars(&b);
	check(source_compare(&b, path, "kd", hash, &e), &e);
	draw_bars(&b);
	mem_free(arm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t *copy = table_hashed(data, len);
	char *path = folder_path("file");

	folder_put("file", copy, len);
	use(path);
	mem_free(path);
	mem_free(copy);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/plot")
