/* Reads the clips of a set in batches and measures them. */
#include "metric/evalclips.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/samples.h"
#include "file/fileio.h"
#include "metric/clipembed.h"
#include "metric/clipframes.h"
#include "metric/evalpictures.h"
#include "metric/evalstats.h"
#include "data/motionfeat.h"
#include "metric/warperror.h"

enum { BATCH = 32, BATCH_BYTES = 64 << 20, DRAWS_MAX = CLIP_DRAWS, CONTENTS = ALTERED_SLOW, THUMB_SIDE = 16 };

/* A clip of the batch. */
struct item {
	char *key;
	void *bytes; /* of its npy, owned; the array points into it */
	struct npy array;
	struct clipframes clip;
	float *grey; /* (frames, h, w) for the movement */
	int drawn[DRAWS_MAX];
	int alter; /* 1: this clip is altered */
	struct err err;
};

/* The state of reading a set. Rows are in reading order until the end. */
struct intake {
	struct evalset *s;
	struct evalclips *c;
	const struct evalclips_options *o;
	int64_t shape[4]; /* of every clip */
	int fps_mixed;
	int w, h; /* of grey frames */
	struct digest *digest;
	int64_t cap;
	struct item item[BATCH];
	int n;
	size_t bytes;      /* of the batch */
	char (*least)[65]; /* [leasts], sorted: the least digests so far, of the clips that are altered */
	int leasts;
	struct flow **flow;  /* [threads] */
	struct flow **whole; /* [threads]: for frames of the clips' own size */
	int threads;
	int64_t expected;
};

void evalclips_release(struct evalclips *c)
{
	mem_free(c->content);
	mem_free(c->motion);
	mem_free(c->flicker);
	mem_free(c->warp);
	mem_free(c->thumbs);
	mem_free(c->fvd);
	mem_free(c->embedding);
	for (int k = 0; k < CONTENTS; k++)
		mem_free(c->content_of[k]);
	for (int k = 0; k < ALTERATIONS; k++)
		mem_free(c->motion_of[k]);
	*c = (struct evalclips){0};
}

static void batch_clear(struct intake *t)
{
	for (int i = 0; i < t->n; i++) {
		struct item *m = &t->item[i];

		mem_free(m->key);
		mem_free(m->bytes);
		mem_free(m->grey);
		clipframes_release(&m->clip);
		*m = (struct item){0};
	}
	t->n = 0;
	t->bytes = 0;
}

static void intake_begin(struct intake *t, struct evalset *s, struct evalclips *c, const struct evalclips_options *o)
{
	const struct extractor *x = o->set->extractor;

	*t = (struct intake){.s = s, .c = c, .o = o, .threads = o->set->pool ? pool_threads(o->set->pool) : 1};
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

static void intake_end(struct intake *t)
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

static void room(struct intake *t)
{
	struct evalclips *c = t->c;
	unsigned parts = t->o->parts;
	size_t content = (size_t)c->drawn * (size_t)t->s->recipe.dims * sizeof(float), motion = MOTION_DIMS * sizeof(float);

	if (t->s->n + t->n <= t->cap)
		return;
	t->cap = 2 * t->cap + BATCH;
	c->content = rows(c->content, parts & CLIP_CONTENT, t->cap, content);
	c->motion = rows(c->motion, parts & CLIP_MOTION, t->cap, motion);
	c->flicker = rows(c->flicker, parts & CLIP_FLICKER, t->cap, sizeof(double));
	c->warp = rows(c->warp, parts & CLIP_WARP, t->cap, sizeof(double));
	c->thumbs = rows(c->thumbs, parts & CLIP_THUMBS, t->cap, (size_t)c->thumb);
	c->fvd = rows(c->fvd, parts & CLIP_FVD, t->cap, I3D_CLASSES * sizeof(float));
	c->embedding = rows(c->embedding, parts & CLIP_EMBEDDING, t->cap, (size_t)t->s->recipe.dims * sizeof(float));
	for (int k = 0; k < CONTENTS; k++)
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

static int sort_rows(struct intake *t, struct err *e)
{
	struct evalset *s = t->s;
	struct evalclips *c = t->c;
	size_t content = (size_t)c->drawn * (size_t)s->recipe.dims * sizeof(float), motion = MOTION_DIMS * sizeof(float);
	int rc = evalset_sort(s, t->digest, e) || reorder(&c->content, t->digest, s->n, content, e) ||
	         reorder(&c->motion, t->digest, s->n, motion, e) || reorder(&c->flicker, t->digest, s->n, sizeof(double), e) ||
	         reorder(&c->warp, t->digest, s->n, sizeof(double), e) || reorder(&c->thumbs, t->digest, s->n, (size_t)c->thumb, e) ||
	         reorder(&c->fvd, t->digest, s->n, I3D_CLASSES * sizeof(float), e) ||
	         reorder(&c->embedding, t->digest, s->n, (size_t)s->recipe.dims * sizeof(float), e);

	for (int k = 0; k < CONTENTS && !rc; k++)
		rc = reorder(&c->content_of[k], t->digest, s->n, content, e);
	for (int k = 0; k < ALTERATIONS && !rc; k++)
		rc = reorder(&c->motion_of[k], t->digest, s->n, motion, e);
	return rc ? -1 : 0;
}

/* Measuring a batch */

static void decode_task(void *arg, int64_t task, int worker)
{
	struct intake *t = arg;
	struct item *m = &t->item[task];
	int *at;

	(void)worker;
	if (clipframes_make(&m->clip, &m->array, t->o->set->size, t->o->set->filter, &m->err))
		return;
	at = mem_alloc((size_t)m->clip.frames * sizeof *at);
	clipframes_alter(at, &m->clip, ALTERATIONS);
	clipframes_draw(m->drawn, t->c->drawn, &m->clip, at);
	mem_free(at);
	t->digest[t->s->n + task].at = t->s->n + task;
	memcpy(t->digest[t->s->n + task].hex, m->clip.digest, sizeof m->clip.digest);
}

/* 255 less the mean absolute difference of the bytes of consecutive frames, over 255. */
static double flicker(const struct clipframes *c)
{
	int64_t n = (int64_t)c->frame[0].width * c->frame[0].height * 3, sum = 0;

	for (int t = 0; t + 1 < c->frames; t++)
		for (int64_t i = 0; i < n; i++)
			sum += abs(c->frame[t].pixels[i] - c->frame[t + 1].pixels[i]);
	return (255 - (double)sum / ((double)n * (c->frames - 1))) / 255;
}

/* Frames in their order, so that a copy is alike in what it shows and in how it moves. */
static void thumbnail(uint8_t *out, const struct clipframes *c, int side)
{
	for (int k = 0; k < CLIP_MOMENTS; k++) {
		const struct picture *p = &c->frame[k * (c->frames - 1) / (CLIP_MOMENTS - 1)];

		picture_thumbnail(out, p, side, side);
		out += 3 * side * side;
	}
}

static void warp_measure(struct intake *t, struct item *m, int64_t row, int worker)
{
	const struct picture *p = m->clip.frame;

	if (!t->whole[worker])
		t->whole[worker] = flow_new(p->width, p->height, &m->err);
	if (t->whole[worker])
		warp_error(&t->c->warp[row], t->whole[worker], p, m->clip.frames, &m->err);
}

static void grey_task(void *arg, int64_t task, int worker)
{
	struct intake *t = arg;
	struct item *m = &t->item[task];
	int64_t n = (int64_t)t->w * t->h;

	if (t->c->flicker)
		t->c->flicker[t->s->n + task] = flicker(&m->clip);
	if (t->c->thumbs)
		thumbnail(t->c->thumbs + (t->s->n + task) * t->c->thumb, &m->clip, THUMB_SIDE);
	if (t->c->warp)
		warp_measure(t, m, t->s->n + task, worker);
	if (!t->c->motion)
		return;
	m->grey = mem_try((size_t)(n * m->clip.frames), sizeof *m->grey, "a clip in grey", &m->err);
	for (int i = 0; m->grey && i < m->clip.frames; i++)
		motion_grey(m->grey + i * n, t->w, t->h, &m->clip.frame[i]);
}

/* A task is one clip in one order of its frames; the last one is the order of the clip itself. */
static void motion_task(void *arg, int64_t task, int worker)
{
	struct intake *t = arg;
	struct item *m = &t->item[task / (ALTERATIONS + 1)];
	enum altered how = (enum altered)(task % (ALTERATIONS + 1));
	int64_t row = (t->s->n + task / (ALTERATIONS + 1)) * MOTION_DIMS;
	struct err e = {0};
	int *at;

	if (how < ALTERATIONS && !m->alter)
		return;
	at = mem_alloc((size_t)m->clip.frames * sizeof *at);
	clipframes_alter(at, &m->clip, how);
	if (!t->flow[worker])
		t->flow[worker] = flow_new(t->w, t->h, &e);
	if (!t->flow[worker] || motion_compute((how < ALTERATIONS ? t->c->motion_of[how] : t->c->motion) + row, t->flow[worker], m->grey, at,
	                                       m->clip.frames, t->w, t->h, &e))
		m->err = e;
	mem_free(at);
}

/* The rows of frames that were drawn from an altered clip. All its frames are frames of the clip, and those drawn are among m->drawn. */
static void altered_rows(float *out, const struct intake *t, const struct item *m, const float *own, enum altered how)
{
	size_t d = (size_t)t->s->recipe.dims;
	int *at = mem_alloc((size_t)m->clip.frames * sizeof *at), drawn[DRAWS_MAX];

	clipframes_alter(at, &m->clip, how);
	clipframes_draw(drawn, t->c->drawn, &m->clip, at);
	for (int i = 0; i < t->c->drawn; i++) {
		int j = 0;

		while (j + 1 < t->c->drawn && strcmp(m->clip.hash[m->drawn[j]], m->clip.hash[drawn[i]]))
			j++;
		memcpy(out + (size_t)i * d, own + (size_t)j * d, d * sizeof *out);
	}
	mem_free(at);
}

static int content_measure(struct intake *t, struct err *e)
{
	const struct extractor *x = t->o->set->extractor;
	struct picture p[BATCH * DRAWS_MAX];
	int64_t each = (int64_t)t->c->drawn * t->s->recipe.dims;
	float *out[TAPS] = {t->c->content + t->s->n * each};
	int n = 0;

	for (int i = 0; i < t->n; i++)
		for (int k = 0; k < t->c->drawn; k++)
			p[n++] = t->item[i].clip.frame[t->item[i].drawn[k]];
	if (x->run(t->o->set->extractor, t->o->set->pool, out, p, n, e))
		return -1;
	for (int i = 0; i < t->n; i++)
		for (int k = 0; k < CONTENTS && t->item[i].alter; k++)
			altered_rows(t->c->content_of[k] + (t->s->n + i) * each, t, &t->item[i], out[TAP_MAIN] + i * each, (enum altered)k);
	return 0;
}

static int embedding_measure(struct intake *t, struct err *e)
{
	int64_t d = t->s->recipe.dims;

	for (int i = 0; i < t->n; i++) {
		const struct item *m = &t->item[i];

		if (clip_embed(t->c->embedding + (t->s->n + i) * d, t->o->set->extractor, t->o->set->pool, m->clip.frame, m->clip.frames, m->key, e))
			return -1;
		if (progress_tell(t->o->set->progress, "clips measured", t->s->n + i, t->expected))
			return err_set(e, ERR_AGAIN, "interrupted");
	}
	return 0;
}

struct video_job {
	const struct item *item;
	float *x; /* [2] of (I3D_FRAMES, I3D_SIDE, I3D_SIDE, 3) */
};

enum { VIDEO = I3D_FRAMES * I3D_SIDE * I3D_SIDE * 3 };

static void video_task(void *arg, int64_t task, int worker)
{
	const struct video_job *j = arg;

	(void)worker;
	clipframes_resized(j->x + task * VIDEO, &j->item[task].clip, I3D_FRAMES, I3D_SIDE);
}

/* Two clips at a time: a clip at the size of the network takes 10 MB. */
static int video_measure(struct intake *t, struct err *e)
{
	struct video_job j = {.x = mem_try(2 * (size_t)VIDEO, sizeof *j.x, "clips for I3D", e)};
	int rc = j.x ? 0 : -1;

	for (int i = 0; i < t->n && !rc; i += 2) {
		int n = t->n - i < 2 ? t->n - i : 2;

		j.item = &t->item[i];
		pool_run(t->o->set->pool, n, video_task, &j);
		rc = i3d_run(t->o->i3d, n, t->c->fvd + (t->s->n + i) * I3D_CLASSES, j.x, e);
		if (!rc && progress_tell(t->o->set->progress, "clips measured", t->s->n + i, t->expected))
			rc = err_set(e, ERR_AGAIN, "interrupted");
	}
	mem_free(j.x);
	return rc;
}

/* Choose the clips that are altered: those whose digest is among the least so far. In the end they include the first ALTERED_CLIPS of the set, which
 * is sorted by digest. */
static void choose_altered(struct intake *t)
{
	for (int i = 0; i < t->n && t->o->alter; i++) {
		const char *hex = t->item[i].clip.digest;
		int at = t->leasts;

		while (at > 0 && strcmp(t->least[at - 1], hex) > 0)
			at--;
		if (at >= ALTERED_CLIPS)
			continue;
		memmove(t->least + at + 1, t->least + at, (size_t)(t->leasts - at) * sizeof *t->least);
		memcpy(t->least[at], hex, sizeof *t->least);
		t->leasts += t->leasts < ALTERED_CLIPS;
		t->item[i].alter = 1;
	}
}

static int batch_errors(const struct intake *t, struct err *e)
{
	for (int i = 0; i < t->n; i++)
		if (t->item[i].err.code)
			return err_set(e, t->item[i].err.code, "%s", t->item[i].err.msg);
	return 0;
}

static int batch_measure(struct intake *t, struct err *e)
{
	struct pool *pool = t->o->set->pool;

	if (!t->n)
		return 0;
	room(t);
	pool_run(pool, t->n, decode_task, t);
	if (batch_errors(t, e))
		return -1;
	choose_altered(t);
	pool_run(pool, t->n, grey_task, t);
	if (batch_errors(t, e))
		return -1;
	if (t->c->motion)
		pool_run(pool, (int64_t)t->n * (ALTERATIONS + 1), motion_task, t);
	if (batch_errors(t, e) || (t->c->content && content_measure(t, e)) || (t->c->fvd && video_measure(t, e)) ||
	    (t->c->embedding && embedding_measure(t, e)))
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

/* Whether a clip can be measured, apart from its agreement with the others. */
static int clip_parse(struct npy *a, double *fps, const struct sample *x, struct err *e)
{
	const struct sample_member *m = sample_find(x, "npy");
	char *name = str_new("%s: %s.npy", x->origin, x->key);
	int rc;

	if (m)
		rc = npy_parse(a, m->data, m->len, name, e) || clipframes_check(a, 2, name, e) || fps_read(fps, x, e);
	else
		rc = err_set(e, ERR_DATA, "%s: %s is a picture; metrics of clips need clips, arrays (.npy) of frames, channels, height, width",
		             x->origin, x->key);
	mem_free(name);
	return rc ? -1 : 0;
}

static int side_fits(const struct intake *t, int width, int height, const char *key, struct err *e)
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
static int shape_fits(struct intake *t, const struct npy *a, double fps, const char *key, struct err *e)
{
	struct recipe *r = &t->s->recipe;
	const int64_t *s = a->shape, *p = t->shape;

	if (!r->frames) {
		memcpy(t->shape, s, sizeof t->shape);
		r->frames = (int)s[0];
		r->width = t->o->set->size ? t->o->set->size : (int)s[3];
		r->height = t->o->set->size ? t->o->set->size : (int)s[2];
		r->fps = fps;
		t->c->drawn = r->frames < DRAWS_MAX ? r->frames : DRAWS_MAX;
		if (side_fits(t, r->width, r->height, key, e))
			return -1;
		motion_size(&t->w, &t->h, r->width, r->height);
		t->c->thumb = CLIP_MOMENTS * 3 * THUMB_SIDE * THUMB_SIDE;
		return 0;
	}
	if (fabs(fps - r->fps) > 1e-3 * r->fps)
		t->fps_mixed = 1;
	if (s[0] != p[0])
		return err_set(e, ERR_DATA, "\"%s\" has %lld frames among clips of %lld: cut the clips to one length", key, (long long)s[0],
		               (long long)p[0]);
	if (!t->o->set->size && (s[2] != p[2] || s[3] != p[3]))
		return err_set(e, ERR_DATA, "\"%s\" is %lld x %lld among clips of %lld x %lld: --size makes them equal", key, (long long)s[3],
		               (long long)s[2], (long long)p[3], (long long)p[2]);
	return 0;
}

/* Add a sample to the batch. */
static int item_add(struct intake *t, struct samples *in, const struct sample *x, struct err *e)
{
	const struct sample_member *m = sample_find(x, "npy");
	struct item *item = &t->item[t->n];
	struct npy a;
	double fps = 0;

	if (clip_parse(&a, &fps, x, e))
		return samples_bad(in, e);
	if (shape_fits(t, &a, fps, x->key, e))
		return -1;
	item->bytes = mem_try(m->len, 1, "a clip", e);
	if (!item->bytes)
		return -1;
	memcpy(item->bytes, m->data, m->len);
	item->array = a;
	item->array.data = (const char *)item->bytes + ((const char *)a.data - (const char *)m->data);
	item->key = mem_strdup(x->key);
	t->n++;
	t->bytes += m->len;
	return 0;
}

static int clips_measure(struct intake *t, struct samples *in, const char *source, struct err *e)
{
	struct sample x;
	int rc;

	while ((rc = samples_next(in, &x, e)) > 0) {
		t->expected = samples_expected(in);
		if (item_add(t, in, &x, e) || ((t->n == BATCH || t->bytes > BATCH_BYTES) && batch_measure(t, e)))
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
	struct intake t;
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
		clip = a.rank == 4 && a.type == NPY_U1;
	samples_close(in);
	return clip;
}
