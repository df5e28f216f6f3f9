/* Measures a batch of clips. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/pool.h"
#include "data/motionfeat.h"
#include "metric/evalclipsimpl.h"
#include "metric/evalpictures.h"
#include "metric/evalstats.h"
#include "metric/warperror.h"

enum { EMBEDDED = 64 /* frames at a time */ };

static void decode_task(void *arg, int64_t task, int worker)
{
	struct evalclips_intake *t = arg;
	struct evalclips_item *m = &t->item[task];
	int *at;

	(void)worker;
	if (clipframes_make(&m->clip, &m->stored, t->o->set->size, t->o->set->filter, &m->err))
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

static void warp_measure(struct evalclips_intake *t, struct evalclips_item *m, int64_t row, int worker)
{
	const struct picture *p = m->clip.frame;

	if (!t->whole[worker])
		t->whole[worker] = flow_new(p->width, p->height, &m->err);
	if (t->whole[worker])
		warp_error(&t->c->warp[row], t->whole[worker], p, m->clip.frames, &m->err);
}

static void grey_task(void *arg, int64_t task, int worker)
{
	struct evalclips_intake *t = arg;
	struct evalclips_item *m = &t->item[task];
	int64_t n = (int64_t)t->w * t->h;

	if (t->c->flicker)
		t->c->flicker[t->s->n + task] = flicker(&m->clip);
	if (t->c->thumbs)
		thumbnail(t->c->thumbs + (t->s->n + task) * t->c->thumb, &m->clip, CLIP_THUMB_SIDE);
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
	struct evalclips_intake *t = arg;
	struct evalclips_item *m = &t->item[task / (ALTERATIONS + 1)];
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
static void altered_rows(float *out, const struct evalclips_intake *t, const struct evalclips_item *m, const float *own, enum altered how)
{
	size_t d = (size_t)t->s->recipe.dims;
	int *at = mem_alloc((size_t)m->clip.frames * sizeof *at), drawn[CLIP_DRAWS];

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

static int content_measure(struct evalclips_intake *t, struct err *e)
{
	const struct extractor *x = t->o->set->extractor;
	struct picture p[CLIP_BATCH * CLIP_DRAWS];
	int64_t each = (int64_t)t->c->drawn * t->s->recipe.dims;
	float *out[TAPS] = {t->c->content + t->s->n * each};
	int n = 0;

	for (int i = 0; i < t->n; i++)
		for (int k = 0; k < t->c->drawn; k++)
			p[n++] = t->item[i].clip.frame[t->item[i].drawn[k]];
	if (x->run(t->o->set->extractor, t->o->set->pool, out, p, n, e))
		return -1;
	for (int i = 0; i < t->n; i++)
		for (int k = 0; k < CLIP_CONTENTS && t->item[i].alter; k++)
			altered_rows(t->c->content_of[k] + (t->s->n + i) * each, t, &t->item[i], out[TAP_MAIN] + i * each, (enum altered)k);
	return 0;
}

/* Add x (d), scaled to unit length, to sum (d). */
static int unit_add(double *sum, const float *x, int d)
{
	double length = 0;

	for (int k = 0; k < d; k++)
		length += (double)x[k] * x[k];
	length = sqrt(length);
	for (int k = 0; k < d && length > 0; k++)
		sum[k] += x[k] / length;
	return length > 0 ? 0 : -1;
}

/* The mean direction of the features of all frames of a clip. x: room for EMBEDDED rows, sum: for one. */
static int clip_embed(float *out, struct evalclips_intake *t, const struct evalclips_item *m, float *x, double *sum, struct err *e)
{
	struct extractor *extractor = t->o->set->extractor;
	int d = t->s->recipe.dims, frames = m->clip.frames;
	float *taps[TAPS] = {x};

	memset(sum, 0, (size_t)d * sizeof *sum);
	for (int at = 0, n; at < frames; at += n) {
		n = frames - at < EMBEDDED ? frames - at : EMBEDDED;
		if (extractor->run(extractor, t->o->set->pool, taps, m->clip.frame + at, n, e))
			return -1;
		for (int i = 0; i < n; i++)
			if (unit_add(sum, x + i * d, d))
				return err_set(e, ERR_DATA, "\"%s\": the %s features of frame %d are all 0", m->key, extractor->name, at + i);
	}
	for (int k = 0; k < d; k++)
		out[k] = (float)(sum[k] / frames);
	return 0;
}

static int embedding_measure(struct evalclips_intake *t, struct err *e)
{
	size_t d = (size_t)t->s->recipe.dims;
	float *x = mem_try(EMBEDDED * d, sizeof *x, "features of frames", e);
	double *sum = mem_alloc(d * sizeof *sum);
	int rc = x ? 0 : -1;

	for (int i = 0; i < t->n && !rc; i++) {
		rc = clip_embed(t->c->embedding + (t->s->n + i) * (int64_t)d, t, &t->item[i], x, sum, e);
		if (!rc && progress_tell(t->o->set->progress, "clips measured", t->s->n + i, t->expected))
			rc = err_set(e, ERR_AGAIN, "interrupted");
	}
	mem_free(x);
	mem_free(sum);
	return rc;
}

struct video_job {
	const struct evalclips_item *item;
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
static int video_measure(struct evalclips_intake *t, struct err *e)
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
static void choose_altered(struct evalclips_intake *t)
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

static int batch_errors(const struct evalclips_intake *t, struct err *e)
{
	for (int i = 0; i < t->n; i++)
		if (t->item[i].err.code)
			return err_set(e, t->item[i].err.code, "%s", t->item[i].err.msg);
	return 0;
}

int evalclips_batch(struct evalclips_intake *t, struct err *e)
{
	struct pool *pool = t->o->set->pool;

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
	return 0;
}
