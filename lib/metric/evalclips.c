/* Reads the clips of a set in batches, and keeps their rows. */
#include "metric/evalclips.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/motionfeat.h"
#include "data/samples.h"
#include "file/fileio.h"
#include "metric/evalclipsimpl.h"
#include "metric/evalpictures.h"
#include "metric/evalstats.h"

enum { FRAMES_LEAST = 2, FRAMES_MOST = 1 << 16, BATCH_BYTES = 64 << 20 };

void evalclips_release(struct evalclips *c)
{
	mem_free(c->content);
	mem_free(c->motion);
	mem_free(c->flicker);
	mem_free(c->warp);
	mem_free(c->thumbs);
	mem_free(c->fvd);
	mem_free(c->embedding);
	for (int k = 0; k < CLIP_CONTENTS; k++)
		mem_free(c->content_of[k]);
	for (int k = 0; k < ALTERATIONS; k++)
		mem_free(c->motion_of[k]);
	*c = (struct evalclips){0};
}

static void batch_clear(struct evalclips_intake *t)
{
	for (int i = 0; i < t->n; i++) {
		struct evalclips_item *m = &t->item[i];

		mem_free(m->key);
		mem_free(m->bytes);
		mem_free(m->grey);
		clipframes_release(&m->clip);
		*m = (struct evalclips_item){0};
	}
	t->n = 0;
	t->bytes = 0;
}

static void intake_begin(struct evalclips_intake *t, struct evalset *s, struct evalclips *c, const struct evalclips_options *o)
{
	const struct extractor *x = o->set->extractor;

	*t = (struct evalclips_intake){.s = s, .c = c, .o = o, .threads = o->set->pool ? pool_threads(o->set->pool) : 1};
	t->flow = mem_zalloc((size_t)t->threads, sizeof(struct flow *));
	t->whole = mem_zalloc((size_t)t->threads, sizeof(struct flow *));
	t->least = mem_zalloc(ALTERED_CLIPS + 1, sizeof *t->least);
	snprintf(s->recipe.features, sizeof s->recipe.features, "%s", x->name);
	snprintf(s->recipe.features_hash, sizeof s->recipe.features_hash, "%s", x->hash);
	snprintf(s->recipe.input, sizeof s->recipe.input, "%s", x->input);
	s->recipe.dims = x->dims[TAP_MAIN];
	if (o->set->size)
		snprintf(s->recipe.resize, sizeof s->recipe.resize, "centre square, %s", resize_filter_names[o->set->filter]);
	else
		snprintf(s->recipe.resize, sizeof s->recipe.resize, "none");
}

static void intake_end(struct evalclips_intake *t)
{
	batch_clear(t);
	for (int i = 0; i < t->threads; i++) {
		flow_free(t->flow[i]);
		flow_free(t->whole[i]);
	}
	mem_free(t->flow);
	mem_free(t->whole);
	mem_free(t->least);
	mem_free(t->digest);
}

/* Rows of the set */

static void *rows(void *p, int wanted, int64_t cap, size_t each)
{
	return wanted ? mem_resize(p, (size_t)cap, each) : NULL;
}

static void room(struct evalclips_intake *t)
{
	struct evalclips *c = t->c;
	unsigned parts = t->o->parts;
	size_t content = (size_t)c->drawn * (size_t)t->s->recipe.dims * sizeof(float), motion = MOTION_DIMS * sizeof(float);

	if (t->s->n + t->n <= t->cap)
		return;
	t->cap = 2 * t->cap + CLIP_BATCH;
	c->content = rows(c->content, parts & CLIP_CONTENT, t->cap, content);
	c->motion = rows(c->motion, parts & CLIP_MOTION, t->cap, motion);
	c->flicker = rows(c->flicker, parts & CLIP_FLICKER, t->cap, sizeof(double));
	c->warp = rows(c->warp, parts & CLIP_WARP, t->cap, sizeof(double));
	c->thumbs = rows(c->thumbs, parts & CLIP_THUMBS, t->cap, (size_t)c->thumb);
	c->fvd = rows(c->fvd, parts & CLIP_FVD, t->cap, I3D_CLASSES * sizeof(float));
	c->embedding = rows(c->embedding, parts & CLIP_EMBEDDING, t->cap, (size_t)t->s->recipe.dims * sizeof(float));
	for (int k = 0; k < CLIP_CONTENTS; k++)
		c->content_of[k] = rows(c->content_of[k], t->o->alter && parts & CLIP_CONTENT, t->cap, content);
	for (int k = 0; k < ALTERATIONS; k++)
		c->motion_of[k] = rows(c->motion_of[k], t->o->alter && parts & CLIP_MOTION, t->cap, motion);
	t->digest = mem_resize(t->digest, (size_t)t->cap, sizeof *t->digest);
}

/* Put *rows (n), which may be NULL, in the order of the digests. */
static int reorder(void *rows, const struct digest *d, int64_t n, size_t each, struct err *e)
{
	uint8_t **old = rows, *out;

	if (!*old)
		return 0;
	out = mem_try((size_t)n, each, "a set of clips in the order of its contents", e);
	for (int64_t i = 0; out && i < n; i++)
		memcpy(out + (size_t)i * each, *old + (size_t)d[i].at * each, each);
	if (!out)
		return -1;
	mem_free(*old);
	*old = out;
	return 0;
}

static int sort_rows(struct evalclips_intake *t, struct err *e)
{
	struct evalset *s = t->s;
	struct evalclips *c = t->c;
	size_t content = (size_t)c->drawn * (size_t)s->recipe.dims * sizeof(float), motion = MOTION_DIMS * sizeof(float);
	int rc = evalset_sort(s, t->digest, e) || reorder(&c->content, t->digest, s->n, content, e) ||
	         reorder(&c->motion, t->digest, s->n, motion, e) || reorder(&c->flicker, t->digest, s->n, sizeof(double), e) ||
	         reorder(&c->warp, t->digest, s->n, sizeof(double), e) || reorder(&c->thumbs, t->digest, s->n, (size_t)c->thumb, e) ||
	         reorder(&c->fvd, t->digest, s->n, I3D_CLASSES * sizeof(float), e) ||
	         reorder(&c->embedding, t->digest, s->n, (size_t)s->recipe.dims * sizeof(float), e);

	for (int k = 0; k < CLIP_CONTENTS && !rc; k++)
		rc = reorder(&c->content_of[k], t->digest, s->n, content, e);
	for (int k = 0; k < ALTERATIONS && !rc; k++)
		rc = reorder(&c->motion_of[k], t->digest, s->n, motion, e);
	return rc ? -1 : 0;
}

/* Measure the batch, and make room for the next one. */
static int batch_measure(struct evalclips_intake *t, struct err *e)
{
	if (!t->n)
		return 0;
	room(t);
	if (evalclips_batch(t, e))
		return -1;
	t->s->n += t->n;
	batch_clear(t);
	return progress_tell(t->o->set->progress, "clips measured", t->s->n, t->expected) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

/* Reading */

/* The frames a second from the facts of a clip (.json), 0 if they do not say. */
static int fps_read(double *out, const struct sample *x, struct err *e)
{
	const struct sample_member *m = sample_find(x, "json");
	json_t *o = m ? json_loadb(m->data, m->len, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const json_t *v = json_object_get(o, "fps");

	*out = json_is_number(v) ? json_number_value(v) : 0;
	if (m && !json_is_object(o))
		err_set(e, ERR_DATA, "%s: %s.json is not a JSON object", x->origin, x->key);
	else if (v && !(isfinite(*out) && *out > 0))
		err_set(e, ERR_DATA, "%s: \"fps\" of %s.json is not a number above 0", x->origin, x->key);
	else
		m = NULL;
	json_decref(o);
	return m ? -1 : 0;
}

/* The clip of a sample, if it can be measured apart from its agreement with the others. Its pixels are the sample's. */
static int find_clip(struct clip *c, double *fps, const struct sample *x, struct err *e)
{
	const struct sample_member *m = sample_find(x, "npy");
	char *name = str_new("%s: %s.npy", x->origin, x->key);
	struct npy a;
	int rc;

	if (m) {
		if (!(rc = npy_parse(&a, m->data, m->len, name, e))) {
			rc = clip_of(c, &a, name, e) || fps_read(fps, x, e);
			npy_release(&a); /* the bytes stay */
		}
		if (!rc && (c->frames < FRAMES_LEAST || c->frames > FRAMES_MOST))
			rc = err_set(e, ERR_DATA, "%s: a clip of %d frames; metrics of clips need %d to %d", name, c->frames, FRAMES_LEAST,
			             FRAMES_MOST);
	} else {
		rc = err_set(e, ERR_DATA, "%s: %s is a picture; metrics of clips need clips, arrays (.npy) of frames, channels, height, width",
		             x->origin, x->key);
	}
	mem_free(name);
	return rc ? -1 : 0;
}

static int side_fits(const struct evalclips_intake *t, int width, int height, const char *key, struct err *e)
{
	int side = t->o->set->extractor->least > MOTION_SIDE_MIN ? t->o->set->extractor->least : MOTION_SIDE_MIN;

	if (t->o->parts & CLIP_FVD && t->s->recipe.frames < I3D_FRAMES)
		return err_set(e, ERR_DATA, "\"%s\" has %d frames; fvd is defined on %d", key, t->s->recipe.frames, I3D_FRAMES);
	if (t->o->parts & CLIP_FVD && width != height)
		return err_set(e, ERR_DATA, "\"%s\" is %d x %d; fvd takes square frames: --size crops and resizes", key, width, height);
	if (width >= side && height >= side)
		return 0;
	return err_set(e, ERR_DATA, "\"%s\" is %d x %d: too small for metrics of clips (at least %d); --size resizes", key, width, height, side);
}

/* The first clip fixes the shape of the set. */
static int shape_fits(struct evalclips_intake *t, const struct clip *c, double fps, const char *key, struct err *e)
{
	struct recipe *r = &t->s->recipe;

	if (!r->frames) {
		t->width = c->width;
		t->height = c->height;
		r->frames = c->frames;
		r->width = t->o->set->size ? t->o->set->size : c->width;
		r->height = t->o->set->size ? t->o->set->size : c->height;
		r->fps = fps;
		t->c->drawn = r->frames < CLIP_DRAWS ? r->frames : CLIP_DRAWS;
		if (side_fits(t, r->width, r->height, key, e))
			return -1;
		motion_size(&t->w, &t->h, r->width, r->height);
		t->c->thumb = CLIP_MOMENTS * 3 * CLIP_THUMB_SIDE * CLIP_THUMB_SIDE;
		return 0;
	}
	if (fabs(fps - r->fps) > 1e-3 * r->fps)
		t->fps_mixed = 1;
	if (c->frames != r->frames)
		return err_set(e, ERR_DATA, "\"%s\" has %d frames among clips of %d: cut the clips to one length", key, c->frames, r->frames);
	if (!t->o->set->size && (c->width != t->width || c->height != t->height))
		return err_set(e, ERR_DATA, "\"%s\" is %d x %d among clips of %d x %d: --size makes them equal", key, c->width, c->height, t->width,
		               t->height);
	return 0;
}

/* Add a sample to the batch. */
static int item_add(struct evalclips_intake *t, struct samples *in, const struct sample *x, struct err *e)
{
	struct evalclips_item *item = &t->item[t->n];
	struct clip c;
	double fps = 0;
	size_t n;

	if (find_clip(&c, &fps, x, e))
		return samples_bad(in, e);
	if (shape_fits(t, &c, fps, x->key, e))
		return -1;
	n = (size_t)c.frames * (size_t)c.channels * (size_t)c.height * (size_t)c.width;
	item->bytes = mem_try(n, 1, "a clip", e);
	if (!item->bytes)
		return -1;
	memcpy(item->bytes, c.pixels, n);
	item->stored = c;
	item->stored.pixels = item->bytes;
	item->key = mem_strdup(x->key);
	t->n++;
	t->bytes += n;
	return 0;
}

static int clips_measure(struct evalclips_intake *t, struct samples *in, const char *source, struct err *e)
{
	struct sample x;
	int rc;

	while ((rc = samples_next(in, &x, e)) > 0) {
		t->expected = samples_expected(in);
		if (item_add(t, in, &x, e) || ((t->n == CLIP_BATCH || t->bytes > BATCH_BYTES) && batch_measure(t, e)))
			return -1;
	}
	if (rc || batch_measure(t, e) || samples_check(in, e))
		return -1;
	t->s->skipped = samples_skipped(in);
	if (t->fps_mixed)
		t->s->recipe.fps = 0;
	return t->s->n ? sort_rows(t, e) : err_set(e, ERR_DATA, "%s contains no clips", source);
}

int evalclips_read(struct evalset *s, struct evalclips *c, const char *source, const struct evalclips_options *o, struct err *e)
{
	const struct evalset_options *q = o->set;
	struct samples_options so = {.skip_bad = q->skip_bad, .max_errors = q->max_errors, .bad = q->bad, .bad_arg = q->bad_arg, .spool = q->spool};
	char *path = evalpictures_split(source, &so.part);
	const char *one = path;
	struct samples *in = NULL;
	struct evalclips_intake t;
	int rc = -1;

	*s = (struct evalset){0};
	*c = (struct evalclips){0};
	intake_begin(&t, s, c, o);
	if (evalstats_sniff(source) != SOURCE_SAMPLES)
		err_set(e, ERR_DATA, "%s holds statistics or vectors; metrics of clips need the clips themselves", source);
	else if ((in = samples_open(&one, 1, &so, e)))
		rc = clips_measure(&t, in, source, e) || evalpictures_partition(s, path, e) ? -1 : 0;
	samples_close(in);
	intake_end(&t);
	mem_free(path);
	return rc;
}

int evalclips_peek(const char *source, const struct evalset_options *o)
{
	struct sample x;
	struct samples *in = NULL;
	const struct sample_member *m = NULL;
	struct npy a = {0};
	int clip = 0;

	if (!strcmp(source, "-") || evalstats_sniff(source) != SOURCE_SAMPLES || !(in = evalpictures_open(source, o, NULL)))
		return 0;
	if (samples_next(in, &x, NULL) > 0 && !sample_picture(&x))
		m = sample_find(&x, "npy");
	if (m && !npy_parse(&a, m->data, m->len, x.key, NULL))
		clip = clip_is(&a);
	samples_close(in);
	return clip;
}
