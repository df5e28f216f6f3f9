/* Collects the glyphs of fonts, draws their factors and renders them. */
#include "data/glyphs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/fileio.h"
#include "text/scripts.h"

enum { CHARACTERS = 0x110000, BLOCK = 256, ROUND = 64, FACES = 1024 };
static const size_t most_bytes = (size_t)1 << 30; /* of a font file */

/* The draws of a sample: lanes of RNG_GLYPH in a step that no pass over the glyphs reaches. They are part of every result: never renumber. */
enum { LANE_X, LANE_Y, LANE_SCALE, LANE_ROTATION, LANE_CONTRAST, LANE_LEVEL, LANE_POLARITY };
static const uint64_t factors_step = (uint64_t)1 << 40;

static int is_chosen(const struct glyph_choice *c, uint32_t code_point)
{
	int script = c->scripts ? script_of(code_point) : -1;

	if (script >= 0 && c->scripts >> script & 1)
		return 1;
	for (int i = 0; i < c->ranges; i++)
		if (code_point >= c->range[i][0] && code_point <= c->range[i][1])
			return 1;
	return 0;
}

static int load_files(struct glyph_set *s, const char *const *path, int n, struct err *e)
{
	struct sha256 h;

	sha256_init(&h);
	s->file = mem_zalloc((size_t)n, sizeof *s->file);
	for (s->files = 0; s->files < n; s->files++) {
		struct glyph_file *f = &s->file[s->files];
		char hex[65];
		struct sha256 one;

		if (!font_available()) {
			font_open(NULL, 0, 0, path[s->files], e);
			return -1;
		}
		if (!(f->data = file_load(path[s->files], most_bytes, &f->len, e)))
			return -1;
		f->name = mem_strdup(path[s->files]);
		sha256_init(&one);
		sha256_add(&one, f->data, f->len);
		sha256_end(&one, hex);
		sha256_add(&h, hex, 64);
	}
	sha256_end(&h, s->hash);
	return 0;
}

/* List the faces of all files, and open them for worker 0. */
static int open_faces(struct glyph_set *s, struct err *e)
{
	for (int i = 0; i < s->files; i++) {
		const struct glyph_file *file = &s->file[i];
		int faces = 1;

		for (int index = 0; index < faces; index++) {
			struct font *f = s->faces < FACES ? font_open(file->data, file->len, index, file->name, e) : NULL;

			if (!f)
				return s->faces < FACES ? -1 : err_set(e, ERR_USAGE, "%s: more than %d faces in all fonts", file->name, FACES);
			faces = font_faces(f);
			s->open[s->faces] = f;
			s->face = mem_resize(s->face, (size_t)s->faces + 1, sizeof *s->face);
			s->face[s->faces++] = (struct glyph_face){mem_strdup(font_name(f)), font_weight(f), i, index};
		}
	}
	return 0;
}

/* The worker's own font of a face; NULL and *e if it cannot be opened again. */
static struct font *own_font(const struct glyph_set *s, int worker, int face, struct err *e)
{
	struct font **f = &s->open[worker * FACES + face];
	const struct glyph_file *file = &s->file[s->face[face].file];

	if (!*f)
		*f = font_open(file->data, file->len, s->face[face].index, file->name, e);
	return *f;
}

static int list_glyphs(struct glyph_set *s, const struct glyph_choice *c, struct err *e)
{
	uint8_t *chosen = mem_zalloc(CHARACTERS, 1);
	int64_t room = 0;

	for (uint32_t u = 0; u < CHARACTERS; u++)
		chosen[u] = (uint8_t)is_chosen(c, u);
	for (int face = 0; face < s->faces; face++)
		for (uint32_t u = 0; u < CHARACTERS; u++) {
			if (!chosen[u])
				continue;
			if (!font_has(s->open[face], u)) {
				s->missing++;
				continue;
			}
			if (s->n == room) {
				room = room ? 2 * room : 1024;
				s->glyph = mem_resize(s->glyph, (size_t)room, sizeof *s->glyph);
			}
			s->glyph[s->n++] = (struct glyph){u, face};
		}
	mem_free(chosen);
	return s->n ? 0 : err_set(e, ERR_DATA, "no glyph: none of the %d faces has any of the characters of --script and --range", s->faces);
}

struct seen {
	uint64_t hash;
	int64_t at;
};

struct hash_job {
	struct glyph_set *s;
	struct seen *seen; /* [s->n] */
	int64_t first;     /* block of task 0 */
	struct err err[ROUND];
};

static void hash_task(void *arg, int64_t task, int worker)
{
	struct hash_job *j = arg;
	int64_t block = j->first + task, end = (block + 1) * BLOCK < j->s->n ? (block + 1) * BLOCK : j->s->n;

	for (int64_t i = block * BLOCK; i < end && !j->err[task].code; i++) {
		const struct glyph *g = &j->s->glyph[i];
		struct font *f = own_font(j->s, worker, g->face, &j->err[task]);

		j->seen[i].at = i;
		if (f)
			font_outline_hash(f, g->code_point, &j->seen[i].hash, &j->err[task]);
	}
}

static int by_hash(const void *x, const void *y)
{
	const struct seen *a = x, *b = y;

	return a->hash != b->hash ? (a->hash < b->hash ? -1 : 1) : (a->at > b->at) - (a->at < b->at);
}

/* Leave out blanks, and outlines that an earlier glyph has: the same picture would have two names. */
static int leave_out(struct glyph_set *s, struct pool *pool, const struct progress *progress, struct err *e)
{
	struct hash_job j = {.s = s, .seen = mem_try((size_t)s->n, sizeof *j.seen, "outlines of glyphs", e)};
	int64_t blocks = (s->n + BLOCK - 1) / BLOCK, kept = 0;
	uint8_t *out;

	if (!j.seen)
		return -1;
	for (int64_t at = 0; at < blocks && !e->code; at += ROUND) {
		int64_t n = blocks - at < ROUND ? blocks - at : ROUND;

		if (progress_tell(progress, "glyphs", at * BLOCK, s->n))
			err_set(e, ERR_AGAIN, "interrupted");
		j.first = at;
		pool_run(pool, e->code ? 0 : n, hash_task, &j);
		for (int64_t i = 0; i < n && !e->code; i++)
			if (j.err[i].code)
				err_set(e, j.err[i].code, "%s", j.err[i].msg);
	}
	if (e->code) {
		mem_free(j.seen);
		return -1;
	}
	out = mem_zalloc((size_t)s->n, 1);
	qsort(j.seen, (size_t)s->n, sizeof *j.seen, by_hash);
	for (int64_t i = 0; i < s->n; i++) {
		int repeated = i && j.seen[i].hash == j.seen[i - 1].hash;

		out[j.seen[i].at] = !j.seen[i].hash || repeated;
		s->blank += !j.seen[i].hash;
		s->repetitions += j.seen[i].hash && repeated;
	}
	for (int64_t i = 0; i < s->n; i++)
		if (!out[i])
			s->glyph[kept++] = s->glyph[i];
	s->n = kept;
	mem_free(out);
	mem_free(j.seen);
	return kept ? 0 : err_set(e, ERR_DATA, "no glyph: all %lld characters of --script and --range are blank", (long long)s->blank);
}

static int by_number(const void *x, const void *y)
{
	const uint32_t *a = x, *b = y;

	return (*a > *b) - (*a < *b);
}

static void list_characters(struct glyph_set *s)
{
	s->character = mem_alloc((size_t)s->n * sizeof *s->character);
	for (int64_t i = 0; i < s->n; i++)
		s->character[i] = s->glyph[i].code_point;
	qsort(s->character, (size_t)s->n, sizeof *s->character, by_number);
	for (int64_t i = 0; i < s->n; i++)
		if (!i || s->character[i] != s->character[i - 1])
			s->character[s->characters++] = s->character[i];
}

int glyph_set_open(struct glyph_set *s, const char *const *path, int n, const struct glyph_choice *c, struct pool *pool,
                   const struct progress *progress, struct err *e)
{
	*s = (struct glyph_set){.workers = pool ? pool_threads(pool) : 1};
	s->open = mem_zalloc((size_t)s->workers * FACES, sizeof *s->open);
	if (load_files(s, path, n, e) || open_faces(s, e) || list_glyphs(s, c, e) || leave_out(s, pool, progress, e))
		return -1;
	list_characters(s);
	return 0;
}

void glyph_set_release(struct glyph_set *s)
{
	for (int i = 0; s->open && i < s->workers * FACES; i++)
		font_close(s->open[i]);
	for (int i = 0; i < s->faces; i++)
		mem_free(s->face[i].name);
	for (int i = 0; s->file && i < s->files; i++) {
		mem_free(s->file[i].data);
		mem_free(s->file[i].name);
	}
	mem_free(s->open);
	mem_free(s->face);
	mem_free(s->file);
	mem_free(s->glyph);
	mem_free(s->character);
	*s = (struct glyph_set){0};
}

int64_t glyph_set_character(const struct glyph_set *s, const struct glyph *g)
{
	const uint32_t *at = bsearch(&g->code_point, s->character, (size_t)s->characters, sizeof *s->character, by_number);

	return at - s->character;
}

static double uniform(uint64_t seed, uint64_t i, uint32_t lane, double lo, double hi)
{
	return lo + (hi - lo) * rng_uniform(seed, RNG_GLYPH, factors_step, i, lane);
}

/* v rounded to a multiple of 1/parts. */
static double rounded(double v, int parts)
{
	return (double)llround(v * parts) / parts;
}

struct glyph_draw glyph_draw(const struct glyph_set *s, const struct glyph_law *law, int side, uint64_t seed, uint64_t i)
{
	uint64_t n = (uint64_t)s->n;
	struct glyph_draw d = {.glyph = s->glyph + rng_permute(i % n, n, seed, RNG_GLYPH, i / n), .ink = 255};
	double em = law->em * side, far = law->position * side;

	if (law->scale > 0)
		em *= exp(uniform(seed, i, LANE_SCALE, log(law->scale), 0));
	d.pose = (struct font_pose){.em = rounded(em, 64),
	                            .x = rounded(.5 * side + uniform(seed, i, LANE_X, -far, far), 64),
	                            .y = rounded(.5 * side + uniform(seed, i, LANE_Y, -far, far), 64),
	                            .degrees = rounded(uniform(seed, i, LANE_ROTATION, -law->rotation, law->rotation), 16)};
	if (law->contrast > 0) {
		double apart = uniform(seed, i, LANE_CONTRAST, 255 * law->contrast, 255);
		double dark = uniform(seed, i, LANE_LEVEL, 0, 255 - apart);
		int bright_ink = rng_uniform(seed, RNG_GLYPH, factors_step, i, LANE_POLARITY) < .5;
		uint8_t level[2] = {(uint8_t)lround(dark), (uint8_t)lround(dark + apart)};

		d.ink = level[bright_ink];
		d.ground = level[!bright_ink];
	}
	return d;
}

int glyph_picture(const struct glyph_set *s, int worker, const struct glyph_draw *d, uint8_t *pixels, int side, struct err *e)
{
	struct font *f = own_font(s, worker, d->glyph->face, e);

	if (!f || font_render(f, d->glyph->code_point, &d->pose, pixels, side, e))
		return -1;
	for (int i = 0; i < side * side; i++)
		pixels[i] = (uint8_t)((d->ground * (255 - pixels[i]) + d->ink * pixels[i] + 127) / 255);
	return 0;
}
