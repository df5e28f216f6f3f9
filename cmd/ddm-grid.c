/* A contact sheet: labelled rows of pictures from several sources. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/font.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/resize.h"
#include "file/standing.h"
#include "file/still.h"

enum { MAX_SIDE = 1 << 15, GAP = 2, MARGIN = 6 };

static int64_t per_row = 12, rows_each = 2, scale = 2, size, skip;
static const char *out_path;
static int holdout, spread;

static const struct option options[] = {
    OPTION_GROUP("Pictures"),
    {.name = "--columns", .type = OPTION_INT, .value = &per_row, .lo = 1, .hi = 1000, .arg = "N", 
     .help = "pictures in a row (default 12)", OPTION_ALWAYS, .was = "-c"},
    {.name = "--rows", .letter = 'r', .type = OPTION_INT, .value = &rows_each, .lo = 1, .hi = 1000, .arg = "N",
     .help = "rows for each source (default 2)", OPTION_ALWAYS},
    {.name = "--skip", .type = OPTION_INT, .value = &skip, .lo = 0, .hi = 1e15, .arg = "N", .help = "pass over the first N of each (default 0)",
     OPTION_ALWAYS},
    {.name = "--spread", .value = &spread, .help = "take pictures at equal distances over all of the source, not the first ones",
     OPTION_ALWAYS},
    OPTION_GROUP("Sheet"),
    {.name = "--scale", .letter = 's', .type = OPTION_INT, .value = &scale, .lo = 1, .hi = 16, .arg = "N",
     .help = "enlarge by a whole factor, without smoothing (default 2)", OPTION_ALWAYS},
    {.name = "--size", .type = OPTION_INT, .value = &size, .lo = 1, .hi = 4096, .arg = "N",
     .help = "side of a picture before enlarging (default: that of the first)", OPTION_ALWAYS},
    {.name = "--holdout", .value = &holdout, .help = "of a SHARDS directory, show the held-out part instead of the training part",
     .when = {{USE_INPUT, "a SHARDS folder among the sources"}}},
    {.name = "--output", .letter = 'o', .type = OPTION_TEXT, .value = &out_path, .arg = "FILE", 
     .help = "write the PNG to FILE (default: standard output)", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-grid",
    .operands = "LABEL=SAMPLES...",
    .about = "Put some pictures of several sources on one labelled sheet, a PNG.",
    .options = options,
};

/* The pictures of one source, all size x size. */
struct strip {
	const char *label;
	struct picture *tile;
	int n;
};

static void strip_release(struct strip *s)
{
	for (int i = 0; i < s->n; i++)
		picture_release(&s->tile[i]);
	mem_free(s->tile);
}

static int take(struct strip *s, const struct picture *p, struct err *e)
{
	if (!size)
		size = p->width < p->height ? p->width : p->height;
	return picture_square(&s->tile[s->n], p, (int)size, RESIZE_BICUBIC, e) ? -1 : (s->n++, 0);
}

/* How many samples there are after the first `skip`; back at the start. */
static int64_t count_rest(struct samples *from, struct err *e)
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

/* Whether sample i of n after the skipped ones is one of `want` at equal distances. */
static int is_taken(int64_t i, int64_t n, int64_t want)
{
	return n <= want || i * want / n != (i - 1) * want / n || i == 0;
}

static int strip_read(struct strip *s, const char *path, struct err *e)
{
	struct samples_options o = {.channels = 3, .part = holdout ? SAMPLES_HOLDOUT : SAMPLES_TRAIN};
	struct samples *from = samples_open(&path, 1, &o, e);
	struct sample sample;
	int64_t want = per_row * rows_each, seen = 0, rest = 0;
	int got = 0;

	if (!from || (spread && (rest = count_rest(from, e)) < 0)) {
		samples_close(from);
		return -1;
	}
	s->tile = mem_zalloc((size_t)want, sizeof *s->tile);
	while (s->n < want && (got = samples_next(from, &sample, e)) == 1) {
		struct picture p = {0};

		if (seen++ < skip || (spread && !is_taken(seen - 1 - skip, rest, want)))
			continue;
		if (sample_pixels(&p, &sample, &o, e) || take(s, &p, e))
			got = -1;
		picture_release(&p);
		if (got < 0)
			break;
	}
	samples_close(from);
	return got < 0 ? -1 : 0;
}

/* tile enlarged by `scale`, upper left corner at (x0, y0) */
static void paste(struct picture *sheet, const struct picture *tile, int x0, int y0)
{
	int side = (int)(size * scale);

	for (int y = 0; y < side; y++)
		for (int x = 0; x < side; x++)
			memcpy(sheet->pixels + 3 * ((size_t)(y0 + y) * (size_t)sheet->width + (size_t)(x0 + x)),
			       tile->pixels + 3 * ((size_t)(y / scale) * (size_t)tile->width + (size_t)(x / scale)), 3);
}

static int sheet_draw(struct picture *sheet, const struct strip *strips, int n, struct err *e)
{
	int64_t cell = size * scale + GAP, band = MARGIN + FONT_HEIGHT + 4;
	int64_t width = per_row * cell - GAP + 2 * MARGIN, height = MARGIN;

	for (int i = 0; i < n; i++)
		height += band + (strips[i].n + per_row - 1) / per_row * cell;
	if (width > MAX_SIDE || height > MAX_SIDE)
		return err_set(e, ERR_USAGE, "the sheet would be %lld x %lld pixels, more than %d", (long long)width, (long long)height, MAX_SIDE);
	*sheet = (struct picture){.width = (int)width, .height = (int)height, .channels = 3};
	sheet->pixels = mem_try((size_t)width * (size_t)height, 3, "the sheet", e);
	if (!sheet->pixels)
		return -1;
	memset(sheet->pixels, 255, (size_t)width * (size_t)height * 3);
	height = 0;
	for (int i = 0; i < n; i++) {
		font_draw(sheet, MARGIN, (int)height + MARGIN, strips[i].label, 0, 0, 0);
		height += band;
		for (int j = 0; j < strips[i].n; j++)
			paste(sheet, &strips[i].tile[j], MARGIN + (int)(j % per_row * cell), (int)(height + j / per_row * cell));
		height += (strips[i].n + per_row - 1) / per_row * cell;
	}
	return 0;
}

/* The sources are told by the pictures shown of them. */
static struct stamp *make_stamp(const struct strip *strips, int n)
{
	struct stamp *s = stamp_new(program.name);

	stamp_i64(s, "columns", per_row);
	stamp_i64(s, "rows", rows_each);
	stamp_i64(s, "scale", scale);
	stamp_i64(s, "size", size);
	for (int i = 0; i < n; i++) {
		char *label = str_new("label %d", i), *pictures = str_new("pictures %d", i), hex[65];
		struct sha256 hash;

		sha256_init(&hash);
		for (int j = 0; j < strips[i].n; j++)
			sha256_add(&hash, strips[i].tile[j].pixels, (size_t)(3 * size * size));
		sha256_end(&hash, hex);
		stamp_text(s, label, strips[i].label);
		stamp_input(s, pictures, hex);
		mem_free(label);
		mem_free(pictures);
	}
	return s;
}

static int sheet_write(const struct picture *sheet, const struct strip *strips, int n, struct err *e)
{
	const char *path = out_path ? out_path : "-";
	struct stamp *s = make_stamp(strips, n);
	char *line = stamp_line(s);
	struct still_text text = {"ddm", line};
	uint8_t *png = NULL;
	size_t len = 0;
	int rc = claim_take(&path, 1, e) || standing_check(path, s, 0, e) ||
	         still_encode_png(sheet, &text, 1, &png, &len, e) ? -1 : commit_bytes(path, png, len, e);

	mem_free(png);
	mem_free(line);
	stamp_free(s);
	return rc;
}

static int run(struct strip *strips, char **operand, int n, struct err *e)
{
	struct picture sheet = {0};
	int r = cmd_binary(out_path ? out_path : "-", "-o FILE.png", e), sharded = 0;

	for (int i = 0; i < n && !r; i++) {
		char *path = strchr(operand[i], '=');

		if (!path || path == operand[i])
			return err_set(e, ERR_USAGE, "'%s' is not LABEL=SAMPLES", operand[i]);
		*path++ = 0;
		strips[i].label = operand[i];
		sharded |= path_holds(path, "MANIFEST.tsv");
		r = strip_read(&strips[i], path, e);
	}
	if (!r && holdout && !sharded)
		r = err_set(e, ERR_USAGE, "--holdout does nothing without a SHARDS folder among the sources");
	if (!r && !size)
		r = err_set(e, ERR_DATA, "no picture in any source after the first %lld", (long long)skip);
	if (!r && !sheet_draw(&sheet, strips, n, e))
		r = sheet_write(&sheet, strips, n, e);
	picture_release(&sheet);
	return r;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	int n = cmd_start(&program, argc, argv, 1, -1);
	struct strip *strips = mem_zalloc((size_t)n, sizeof *strips);

	run(strips, argv + 1, n, &e);
	for (int i = 0; i < n; i++)
		strip_release(&strips[i]);
	mem_free(strips);
	return cmd_end(&e);
}
