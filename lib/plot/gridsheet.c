/* Makes a contact sheet: labelled rows of pictures from several sources. */
#include "plot/gridsheet.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/contactsheet.h"
#include "file/fileio.h"
#include "file/optionstamp.h"
#include "file/resize.h"
#include "file/standing.h"
#include "file/still.h"
#include "plot/charttext.h"

enum { MAX_SIDE = 1 << 15, MARGIN = 6, BAND = 21 }; /* pixels; BAND: height of the label above the pictures of a source */

#define REQUEST(member) OPTION_FIELD(struct grid_request, member)

/* The stamp holds the hashes of the pictures on the sheet, so the options that choose pictures are not stamped. */
const struct option grid_options[] = {
    OPTION_GROUP("Pictures"),
    {"--columns", .type = OPTION_INT, REQUEST(columns), .lo = 1, .hi = 1000, .arg = "N", .preset = "12", .help = "pictures in a row", OPTION_ALWAYS,
     .was = "-c", .stamp = STAMP_ALWAYS, .key = "columns"},
    {"--rows", 'r', OPTION_INT, REQUEST(rows), .lo = 1, .hi = 1000, .arg = "N", .preset = "2", .help = "rows for each source", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "rows"},
    {"--skip", .type = OPTION_INT, REQUEST(skip), .lo = 0, .hi = 1e15, .arg = "N", .preset = "0", .help = "skip the first N pictures of each source",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--spread", .type = OPTION_FLAG, REQUEST(spread), .help = "take pictures at equal distances over all of the source, not the first ones",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Sheet"),
    {"--scale", 's', OPTION_INT, REQUEST(scale), .lo = 1, .hi = 16, .arg = "N", .preset = "2", .help = "enlarge by a whole factor, without smoothing",
     OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "scale"},
    {"--size", .type = OPTION_INT, REQUEST(size), .lo = 1, .hi = 4096, .arg = "N", .help = "side of a picture before enlarging",
     .said = "default: that of the first picture", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "size"},
    {"--holdout", .type = OPTION_FLAG, REQUEST(holdout), .help = "of a SHARDS folder, show the held-out part instead of the training part",
     .when = {{USE_INPUT, "a SHARDS folder among the sources"}}, .stamp = STAMP_OTHERWISE},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "FILE", .preset = "-", .said = "default: standard output", .help = "write the PNG to FILE",
     OPTION_ALWAYS},
    {0},
};

struct grid_request grid_defaults(void)
{
	struct grid_request r = {0};

	option_presets(grid_options, &r);
	return r;
}

/* The pictures of one source, all size x size. */
struct strip {
	char *label;
	struct picture *tile;
	int n;
};

struct grid {
	const struct grid_request *r;
	int64_t size;
	struct strip *strips; /* (r->n) */
};

static void strip_release(struct strip *s)
{
	for (int i = 0; i < s->n; i++)
		picture_release(&s->tile[i]);
	mem_free(s->tile);
	mem_free(s->label);
}

static int take(struct grid *g, struct strip *s, const struct picture *p, struct err *e)
{
	if (!g->size)
		g->size = p->width < p->height ? p->width : p->height;
	return picture_square(&s->tile[s->n], p, (int)g->size, RESIZE_BICUBIC, e) ? -1 : (s->n++, 0);
}

/* The number of samples after the first `skip`; rewinds the samples. -1 on error. */
static int64_t count_rest(struct samples *from, int64_t skip, struct err *e)
{
	struct sample sample;
	int64_t n = 0;
	int got;

	while ((got = samples_next(from, &sample, e)) == 1)
		n++;
	if (got < 0 || samples_rewind(from, e))
		return -1;
	return n > skip ? n - skip : 0;
}

/* 1 if sample i of n is one of `want` samples at equal distances. */
static int is_taken(int64_t i, int64_t n, int64_t want)
{
	return n <= want || i * want / n != (i - 1) * want / n || i == 0;
}

static int strip_read(struct grid *g, struct strip *s, const char *path, struct err *e)
{
	const struct grid_request *r = g->r;
	struct samples_options o = {.channels = 3, .part = r->holdout ? SAMPLES_HOLDOUT : SAMPLES_TRAIN};
	struct samples *from = samples_open(&path, 1, &o, e);
	struct sample sample;
	int64_t want = r->columns * r->rows, seen = 0, rest = 0;
	int got = 0;

	if (!from || (r->spread && (rest = count_rest(from, r->skip, e)) < 0)) {
		samples_close(from);
		return -1;
	}
	s->tile = mem_zalloc((size_t)want, sizeof *s->tile);
	while (s->n < want && (got = samples_next(from, &sample, e)) == 1) {
		struct picture p = {0};

		if (seen++ < r->skip || (r->spread && !is_taken(seen - 1 - r->skip, rest, want)))
			continue;
		if (sample_pixels(&p, &sample, &o, e) || take(g, s, &p, e))
			got = -1;
		picture_release(&p);
		if (got < 0)
			break;
	}
	samples_close(from);
	return got < 0 ? -1 : 0;
}

/* Draw a label in the font of the charts, cut to the width of the sheet. top: y of its band. */
static int label_draw(struct picture *sheet, int64_t top, const char *text, struct err *e)
{
	struct scene s = {.width = sheet->width, .height = BAND};
	struct picture band = {0};
	int rc;

	charttext_label(&s, MARGIN, BAND - 6, SCENE_START, SCENE_INK, text, sheet->width - 2 * MARGIN);
	rc = scene_picture(&band, &s, 1, e);
	if (!rc)
		memcpy(sheet->pixels + top * sheet->width * 3, band.pixels, (size_t)sheet->width * BAND * 3);
	picture_release(&band);
	scene_release(&s);
	return rc;
}

static int sheet_draw(struct picture *sheet, const struct grid *g, struct err *e)
{
	const struct contactsheet layout = {g->r->columns, g->size * g->r->scale, MARGIN, 3, 255};
	const struct strip *strips = g->strips;
	int64_t above = 0, rows = 0, heads = g->r->n * (int64_t)BAND - MARGIN + CONTACTSHEET_GAP, width, height;
	int n = g->r->n;

	for (int i = 0; i < n; i++)
		rows += (strips[i].n + layout.columns - 1) / layout.columns;
	width = contactsheet_width(&layout);
	height = contactsheet_height(&layout, rows, heads);
	if (width > MAX_SIDE || height > MAX_SIDE)
		return err_set(e, ERR_USAGE, "the sheet would be %lld x %lld pixels, more than %d", (long long)width, (long long)height, MAX_SIDE);
	if (contactsheet_new(sheet, &layout, rows, heads, e))
		return -1;
	rows = 0;
	for (int i = 0; i < n; i++) {
		if (label_draw(sheet, above + rows * (layout.side + CONTACTSHEET_GAP), strips[i].label, e))
			return -1;
		above += BAND;
		for (int j = 0; j < strips[i].n; j++)
			contactsheet_put(sheet, &layout, rows * layout.columns + j, above - MARGIN, &strips[i].tile[j]);
		rows += (strips[i].n + layout.columns - 1) / layout.columns;
	}
	return 0;
}

/* The stamp. Each source is recorded by its label and the hash of its pictures on the sheet. */
static struct stamp *make_stamp(const struct grid *g)
{
	static const struct option *const tables[] = {grid_options, NULL};
	struct grid_request r = *g->r;
	const struct strip *strips = g->strips;
	struct stamp *s = stamp_new(r.program);

	r.size = g->size;
	optionstamp_put(s, tables, &r, "columns rows scale size");
	for (int i = 0; i < r.n; i++) {
		char *label = str_new("label %d", i), *pictures = str_new("pictures %d", i), hex[65];
		struct sha256 hash;

		sha256_init(&hash);
		for (int j = 0; j < strips[i].n; j++)
			sha256_add(&hash, strips[i].tile[j].pixels, (size_t)(3 * r.size * r.size));
		sha256_end(&hash, hex);
		stamp_text(s, label, strips[i].label);
		stamp_input(s, pictures, hex);
		mem_free(label);
		mem_free(pictures);
	}
	return s;
}

static int sheet_write(const struct picture *sheet, const struct grid *g, struct err *e)
{
	const char *path = g->r->out;
	struct stamp *s = make_stamp(g);
	char *line = stamp_line(s);
	struct still_text text = {"ddm", line};
	uint8_t *png = NULL;
	size_t len = 0;
	int rc = claim_take(&path, 1, e) || standing_check(path, s, 0, e) || still_encode_png(sheet, &text, 1, &png, &len, e)
	             ? -1
	             : commit_bytes(path, png, len, e);

	mem_free(png);
	mem_free(line);
	stamp_free(s);
	return rc;
}

static int read_sources(struct grid *g, struct err *e)
{
	const struct grid_request *r = g->r;
	int rc = 0, sharded = 0;

	for (int i = 0; i < r->n && !rc; i++) {
		const char *path = strchr(r->source[i], '=');

		if (!path || path == r->source[i])
			return err_set(e, ERR_USAGE, "'%s' is not LABEL=SAMPLES", r->source[i]);
		g->strips[i].label = str_new("%.*s", (int)(path - r->source[i]), r->source[i]);
		sharded |= path_holds(path + 1, "MANIFEST.tsv");
		rc = strip_read(g, &g->strips[i], path + 1, e);
	}
	if (!rc && r->holdout && !sharded)
		return err_set(e, ERR_USAGE, "--holdout does nothing without a SHARDS folder among the sources");
	if (!rc && !g->size)
		return err_set(e, ERR_DATA, "no picture in any source after the first %lld", (long long)r->skip);
	return rc;
}

int grid_make(const struct grid_request *r, struct err *e)
{
	struct grid g = {.r = r, .size = r->size, .strips = mem_zalloc((size_t)r->n, sizeof *g.strips)};
	struct picture sheet = {0};
	int rc = read_sources(&g, e) || sheet_draw(&sheet, &g, e) || sheet_write(&sheet, &g, e) ? -1 : 0;

	picture_release(&sheet);
	for (int i = 0; i < r->n; i++)
		strip_release(&g.strips[i]);
	mem_free(g.strips);
	return rc;
}
