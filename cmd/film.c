/* Reads clips, lays them out side by side, and writes films. */
#include "cmd/film.h"

#include <string.h>

#include "cmd/cmd.h"
#include "core/hash.h"
#include "core/mem.h"
#include "data/clipread.h"
#include "data/samples.h"
#include "file/animation.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/optionstamp.h"
#include "file/standing.h"
#include "file/stamp.h"

#define REQUEST(member) OPTION_FIELD(struct film_request, member)

enum { GAP = 2, PAPER = 255 /* pixels between clips, and their value */ };
enum { PIXELS_MOST = 1 << 30 /* bytes of all clips */, FILM_PIXELS = 1 << 27 /* pixels of a frame of a film */ };

const char *const film_formats[] = {"mp4", "webm", "gif", "webp", "png", NULL};

const struct option film_options[] = {
    OPTION_GROUP("Clips"),
    {.letter = 'n',
     .type = OPTION_INT,
     REQUEST(max),
     .lo = 1,
     .hi = 1e6,
     .arg = "MAX",
     .preset = "64",
     .help = "most clips",
     OPTION_ALWAYS,
     .stamp = STAMP_UNLESS_DEFAULT,
     .key = "n"},
    {"--spread", .type = OPTION_FLAG, REQUEST(spread), .help = "clips at equal distances over all, not the first", OPTION_ALWAYS,
     .stamp = STAMP_UNLESS_DEFAULT, .key = "spread"},
    OPTION_GROUP("Films"),
    {"--format", .type = OPTION_CHOICE, REQUEST(format), .arg = "NAME", .choices = film_formats, .help = "the format of the films",
     .said = "default: by the ending of FILE", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--fps", .type = OPTION_REAL, REQUEST(fps), .lo = .01, .hi = 1000, .arg = "R", .help = "frames a second",
     .said = "default: those of the first clip", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "fps"},
    {"--scale", .type = OPTION_INT, REQUEST(scale), .lo = 1, .hi = 64, .arg = "N", .help = "enlarge frames N times, without smoothing",
     .said = "default: to at least 128 pixels", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "scale"},
    {"--columns", .type = OPTION_INT, REQUEST(columns), .lo = 1, .hi = 1000, .arg = "N", .help = "clips in a row", .said = "default: a square",
     OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "columns"},
    OPTION_GROUP("Output"),
    {"--quiet", 'q', OPTION_FLAG, REQUEST(quiet), .help = "no report on stderr", OPTION_ALWAYS},
    {.letter = 'o', .type = OPTION_TEXT, REQUEST(out), .arg = "FILE", .help = "one film of all clips; a folder (DIR/): one of each", OPTION_ALWAYS},
    {0},
};

struct film_request film_defaults(void)
{
	struct film_request q = {.format = FILM_FORMATS};

	option_presets(film_options, &q);
	return q;
}

struct named_clip {
	char *key;
	struct sample_clip read;
};

/* The clips to be shown. A film of one clip has a pointer to it and n = 1. */
struct film {
	const struct film_request *q;
	struct named_clip *v;
	int64_t n, others; /* others: samples that are no clips */
	char digest[65];   /* of the keys and contents of the clips */
	double fps;
	/* The layout of a film: cells of width x height pixels, each a frame enlarged `scale` times. */
	int64_t scale, width, height, columns, rows, frames;
	int channels;
};

static int64_t film_width(const struct film *f)
{
	return f->columns * (f->width + GAP) - GAP;
}

static int64_t film_height(const struct film *f)
{
	return f->rows * (f->height + GAP) - GAP;
}

/* The least number of columns that makes n cells no taller than wide. */
static int64_t square_columns(const struct film *f, int64_t n)
{
	int64_t columns = 1;

	while (columns < n && columns * f->width < (n + columns - 1) / columns * f->height)
		columns++;
	return columns;
}

static int is_folder(const char *path)
{
	return str_ends(path, "/");
}

/* The format by the ending of the file; FILM_FORMATS: none. */
static int format_of(const char *path)
{
	for (int i = 0; i < FILM_FORMATS; i++) {
		char *ending = str_new(".%s", film_formats[i]);
		int is = str_ends(path, ending);

		mem_free(ending);
		if (is)
			return i;
	}
	return FILM_FORMATS;
}

/* Add the clip of a sample, if it is one. *bytes: of all clips so far. */
static int take_clip(struct film *f, const struct sample *sample, struct sha256 *h, size_t *bytes, struct err *e)
{
	struct named_clip *c = &f->v[f->n];
	int got = sample_clip(&c->read, sample, e);
	size_t size = (size_t)c->read.clip.frames * (size_t)c->read.clip.channels * (size_t)c->read.clip.height * (size_t)c->read.clip.width;

	f->others += !got;
	if (got != 1)
		return got;
	c->key = mem_strdup(sample->key);
	f->n++;
	sha256_add(h, sample->key, strlen(sample->key) + 1);
	sha256_add(h, &c->read.clip.frames, 4 * sizeof(int));
	sha256_add(h, &c->read.fps, sizeof c->read.fps);
	sha256_add(h, c->read.clip.pixels, size);
	if ((*bytes += size) > PIXELS_MOST)
		return err_set(e, ERR_USAGE, "the clips have more than %d MiB: show fewer of them with -n", PIXELS_MOST >> 20);
	return 0;
}

/* The number of samples, after which they can be read again. */
static int count_samples(struct samples *s, int64_t *n, struct err *e)
{
	struct sample sample;
	int rc;

	for (*n = 0; (rc = samples_next(s, &sample, e)) == 1; (*n)++)
		;
	return rc ? -1 : samples_rewind(s, e);
}

static int read_clips(struct film *f, struct err *e)
{
	const struct film_request *q = f->q;
	struct samples_options so = {.once = !q->spread};
	struct samples *s = samples_open(q->source, q->n, &so, e);
	struct sample sample;
	struct sha256 h;
	size_t bytes = 0;
	int64_t all = 0, shown, chosen = 0; /* chosen: samples that were tried */
	int rc = s ? 1 : -1;

	sha256_init(&h);
	f->v = mem_zalloc((size_t)q->max, sizeof *f->v);
	if (s && q->spread && count_samples(s, &all, e))
		rc = -1;
	shown = all < q->max ? all : q->max;
	for (int64_t i = 0; rc == 1 && f->n < q->max && (rc = samples_next(s, &sample, e)) == 1; i++) {
		if (q->spread && (chosen == shown || i != chosen * all / shown))
			continue;
		chosen++;
		if (take_clip(f, &sample, &h, &bytes, e))
			rc = -1;
	}
	samples_close(s);
	sha256_end(&h, f->digest);
	if (rc >= 0 && !f->n)
		return err_set(e, ERR_DATA, "%s: no clip: a clip is an array of bytes (frames, channels, height, width), and %lld samples are others",
		               q->source[0], (long long)f->others);
	return rc < 0 ? -1 : 0;
}

/* Lay out n clips from `c`. */
static int lay_out(struct film *f, const struct named_clip *c, int64_t n, int as_rows, struct err *e)
{
	int64_t longest = 0, w = c->read.clip.width, h = c->read.clip.height, side = w < h ? w : h;

	for (int64_t i = 0; i < n; i++) {
		const struct clip *k = &c[i].read.clip;

		longest = k->frames > longest ? k->frames : longest;
		if (k->width != w || k->height != h || k->channels != c->read.clip.channels)
			return err_set(e, ERR_DATA,
			               "%s: a clip of %d x %d with %d channels, but %s has %d x %d with %d: one film shows clips of one size; -o "
			               "DIR/ makes one of each",
			               c[i].key, k->width, k->height, k->channels, c->key, c->read.clip.width, c->read.clip.height,
			               c->read.clip.channels);
	}
	f->fps = f->q->fps > 0 ? f->q->fps : c->read.fps > 0 ? c->read.fps : FILM_RATE;
	f->scale = f->q->scale ? f->q->scale : (FILM_SIDE + side - 1) / side;
	f->width = w * f->scale;
	f->height = h * f->scale;
	f->channels = c->read.clip.channels;
	f->columns = as_rows ? longest : f->q->columns ? f->q->columns : square_columns(f, n);
	f->columns = as_rows || f->columns < n ? f->columns : n;
	f->rows = as_rows ? n : (n + f->columns - 1) / f->columns;
	f->frames = longest;
	if (film_width(f) * film_height(f) <= FILM_PIXELS)
		return 0;
	return err_set(e, ERR_USAGE, "a film of %lld x %lld pixels is too large: show fewer clips with -n, or give a smaller --scale",
	               (long long)film_width(f), (long long)film_height(f));
}

/* Which clips a film shows. */
struct shown {
	const struct film *f;
	const struct named_clip *c;
	int64_t n;
};

static int new_sheet(struct picture *p, const struct film *f, struct err *e)
{
	if (picture_alloc(p, (int)film_width(f), (int)film_height(f), f->channels, e))
		return -1;
	memset(p->pixels, PAPER, (size_t)p->width * (size_t)p->height * (size_t)p->channels);
	return 0;
}

/* Put frame i of clip c, or its last if it is shorter, to a place of the sheet, each pixel as a square of `scale` pixels. */
static int put_frame(const struct film *f, const struct clip *c, int64_t i, int64_t place, struct picture *sheet, struct err *e)
{
	int64_t left = place % f->columns * (f->width + GAP), top = place / f->columns * (f->height + GAP);
	size_t channels = (size_t)f->channels;
	struct picture p;

	if (clip_frame(&p, c, (int)(i < c->frames ? i : c->frames - 1), c->channels, e))
		return -1;
	for (int64_t y = 0; y < f->height; y++) {
		uint8_t *out = sheet->pixels + (size_t)((top + y) * sheet->width + left) * channels;
		const uint8_t *in = p.pixels + (size_t)(y / f->scale * p.width) * channels;

		for (int64_t x = 0; x < f->width; x++)
			memcpy(out + (size_t)x * channels, in + (size_t)(x / f->scale) * channels, channels);
	}
	picture_release(&p);
	return 0;
}

/* Frame i of a film of all its clips side by side. */
static int side_by_side(void *arg, int64_t i, struct picture *p, struct err *e)
{
	const struct shown *s = arg;

	if (new_sheet(p, s->f, e))
		return -1;
	for (int64_t k = 0; k < s->n; k++)
		if (put_frame(s->f, &s->c[k].read.clip, i, k, p, e)) {
			picture_release(p);
			return -1;
		}
	return 0;
}

static int make_webp(struct str *out, struct shown *s, struct err *e)
{
	struct animation *a = animation_new((int)film_width(s->f), (int)film_height(s->f), s->f->fps, e);
	uint8_t *data = NULL;
	size_t len = 0;
	int rc = a ? 0 : -1;

	for (int64_t i = 0; i < s->f->frames && !rc; i++) {
		struct picture p;

		rc = side_by_side(s, i, &p, e);
		if (!rc)
			rc = animation_add(a, &p, e);
		picture_release(&p);
	}
	if (!rc && !(rc = animation_end(a, &data, &len, e)))
		str_add(out, data, len);
	mem_free(data);
	animation_free(a);
	return rc;
}

/* One row for each clip, its frames from left to right. */
static int make_png(struct str *out, const struct shown *s, const char *stamp, struct err *e)
{
	const struct still_text text = {"ddm", stamp};
	struct picture sheet;
	uint8_t *data = NULL;
	size_t len = 0;
	int rc = new_sheet(&sheet, s->f, e);

	if (rc)
		return -1;
	for (int64_t k = 0; k < s->n && !rc; k++)
		for (int64_t i = 0; i < s->c[k].read.clip.frames && !rc; i++)
			rc = put_frame(s->f, &s->c[k].read.clip, i, k * s->f->columns + i, &sheet, e);
	if (!rc && !(rc = still_encode_png(&sheet, &text, 1, &data, &len, e)))
		str_add(out, data, len);
	mem_free(data);
	picture_release(&sheet);
	return rc;
}

static struct stamp *stamp_of(const struct film *f, enum film_format format, const char *encoder, const char *clip)
{
	static const struct option *const tables[] = {film_options, NULL};
	struct stamp *s = stamp_new("ddm-play");

	stamp_text(s, "format", film_formats[format]);
	if (clip)
		stamp_text(s, "clip", clip);
	optionstamp_put(s, tables, f->q, "");
	if (*encoder)
		stamp_text(s, "encoder", encoder);
	stamp_input(s, "clips", f->digest);
	return s;
}

/* Make a film of n clips from c, unless it stands already. 1: it stood. */
static int make_one(struct film *f, const struct named_clip *c, int64_t n, enum film_format format, const char *encoder, const char *path,
                    struct err *e)
{
	struct shown shown = {f, c, n};
	struct stamp *s = stamp_of(f, format, encoder, n == 1 && is_folder(f->q->out) ? c->key : NULL);
	char *line = stamp_line(s);
	struct str out = {0};
	int rc = standing_all(&path, 1, s, e);

	if (!rc && !(rc = lay_out(f, c, n, format == FILM_PNG, e))) {
		if (format == FILM_PNG)
			rc = make_png(&out, &shown, line, e);
		else if (format == FILM_WEBP)
			rc = make_webp(&out, &shown, e);
		else
			rc = film_encode(&out, film_formats[format], f->frames, f->fps, side_by_side, &shown, e);
		if (!rc)
			rc = format == FILM_PNG ? commit_bytes(path, out.p, out.len, e) : stamp_write(s, path, out.p, out.len, e);
	}
	str_release(&out);
	mem_free(line);
	stamp_free(s);
	return rc;
}

/* The file of a clip in a folder: slashes of its key become underscores. */
static char *file_of(const char *folder, const char *key, enum film_format format)
{
	char *path = str_new("%s%s.%s", folder, key, film_formats[format]);

	for (char *p = path + strlen(folder); *p; p++)
		*p = *p == '/' ? '_' : *p;
	return path;
}

static int make_each(struct film *f, enum film_format format, const char *encoder, int64_t *stood, struct err *e)
{
	if (dir_make(f->q->out, e))
		return -1;
	for (int64_t i = 0; i < f->n; i++) {
		char *path = file_of(f->q->out, f->v[i].key, format);
		int rc = cmd_signal ? err_set(e, ERR_AGAIN, "interrupted") : make_one(f, &f->v[i], 1, format, encoder, path, e);

		mem_free(path);
		if (rc < 0)
			return -1;
		*stood += rc;
	}
	return 0;
}

int film_make(const struct film_request *q, struct err *e)
{
	struct film f = {.q = q};
	struct str encoder = {0};
	int format = q->format == FILM_FORMATS ? is_folder(q->out) ? FILM_MP4 : format_of(q->out) : q->format, rc = -1;
	int64_t stood = 0;

	if (format == FILM_FORMATS)
		err_set(e, ERR_USAGE, "%s: the ending names no format: mp4, webm, gif, webp and png are there; or give --format", q->out);
	else if (!(format <= FILM_GIF && film_versions(&encoder, e)) && !read_clips(&f, e))
		rc = is_folder(q->out) ? make_each(&f, format, str_text(&encoder), &stood, e)
		                       : make_one(&f, f.v, f.n, format, str_text(&encoder), q->out, e);
	if (rc >= 0 && !q->quiet && strcmp(q->out, "-") != 0)
		cmd_say("%s: %lld clips%s", q->out, (long long)f.n, rc == 1 || (stood && stood == f.n) ? ", unchanged" : "");
	for (int64_t i = 0; i < f.n; i++) {
		mem_free(f.v[i].key);
		sample_clip_release(&f.v[i].read);
	}
	mem_free(f.v);
	str_release(&encoder);
	return rc < 0 ? -1 : 0;
}
