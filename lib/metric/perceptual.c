/* Computes LPIPS within groups of samples and between pairs. */
#include "metric/perceptual.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/gallery.h"
#include "file/nametable.h"
#include "metric/evalpictures.h"

enum { BATCH = 16 };

const char *const perceptual_group_names[] = {"none", "class", "text", "folder", NULL};

/* ---- reading pictures ---- */

struct stream {
	struct samples *in;
	const char *name;
	const struct evalset_options *o;
	struct picture_batch batch;
	int at;
	struct picture now, square; /* the current picture, borrowed from batch or square; the resized picture */
	int width, height;          /* of the first picture */
	int64_t seen;
};

static int stream_open(struct stream *s, const char *source, const struct evalset_options *o, struct err *e)
{
	*s = (struct stream){.name = source, .o = o, .at = -1};
	if (!strcmp(source, "-"))
		return err_set(e, ERR_USAGE, "lpips and diversity read the pictures twice, which standard input does not allow");
	s->in = evalpictures_open(source, o, e);
	return s->in ? 0 : -1;
}

static void stream_close(struct stream *s)
{
	picture_batch_release(&s->batch);
	picture_release(&s->square);
	samples_close(s->in);
}

static int stream_fits(struct stream *s, struct err *e)
{
	const char *key = s->batch.key[s->at];

	if (!s->width)
		s->width = s->now.width, s->height = s->now.height;
	if (s->now.width < LPIPS_LEAST || s->now.height < LPIPS_LEAST)
		return err_set(e, ERR_DATA, "%s: \"%s\" is %d x %d: too small for LPIPS (at least %d); --size resizes", s->name, key, s->now.width,
		               s->now.height, LPIPS_LEAST);
	if (s->now.width != s->width || s->now.height != s->height)
		return err_set(e, ERR_DATA, "%s: \"%s\" is %d x %d among pictures of %d x %d: --size makes them equal", s->name, key, s->now.width,
		               s->now.height, s->width, s->height);
	return 0;
}

/* Read the next picture into s->now. Returns 1, 0 at the end, or -1. */
static int stream_next(struct stream *s, struct err *e)
{
	int n = s->batch.n, size = s->o->size;

	if (++s->at >= n) {
		if ((n = samples_pictures(s->in, s->o->pool, BATCH, &s->batch, e)) <= 0)
			return n;
		s->at = 0;
	}
	s->seen++;
	s->now = s->batch.picture[s->at];
	if (size && (s->now.width != size || s->now.height != size)) {
		picture_release(&s->square);
		if (picture_square(&s->square, &s->batch.picture[s->at], size, s->o->filter, e))
			return -1;
		s->now = s->square;
	}
	return stream_fits(s, e) ? -1 : 1;
}

/* Mean and standard error of n values. */
static void summarise(struct perceptual *out, const double *v, int64_t n)
{
	double spread = 0;

	*out = (struct perceptual){.n = n};
	for (int64_t i = 0; i < n; i++)
		out->mean += v[i] / (double)n;
	for (int64_t i = 0; i < n; i++)
		spread += (v[i] - out->mean) * (v[i] - out->mean);
	out->se = n > 1 ? sqrt(spread / (double)(n - 1) / (double)n) : 0;
}

/* ---- groups ---- */

struct group {
	char *name;
	double *sum, squares; /* sum of the vectors (width), and sum of their squared lengths */
	int64_t n;
};

struct grouping {
	struct group *v;
	int n, cap;
	struct nametable index;
	int64_t width;
};

static void grouping_release(struct grouping *g)
{
	for (int i = 0; i < g->n; i++) {
		mem_free(g->v[i].name);
		mem_free(g->v[i].sum);
	}
	mem_free(g->v);
	nametable_release(&g->index);
}

/* The name of a picture's group; NULL and ERR_DATA if it has none. Caller frees with mem_free. */
static char *group_name(const struct stream *s, enum perceptual_group by, struct err *e)
{
	const char *key = s->batch.key[s->at], *text = s->batch.text[s->at], *slash = strrchr(key, '/');
	int32_t label = s->batch.label[s->at];

	if (by == GROUP_CLASS && label >= 0)
		return str_new("%d", (int)label);
	if (by == GROUP_TEXT && text)
		return mem_strdup(text);
	if (by == GROUP_FOLDER)
		return str_new("%.*s", slash ? (int)(slash - key) : 0, key);
	if (by == GROUP_NONE)
		return mem_strdup("");
	err_set(e, ERR_DATA, "%s: \"%s\" has no .%s", s->name, key, by == GROUP_CLASS ? "cls" : "txt");
	return NULL;
}

/* The index of the group of that name, added if new; takes ownership of the name. -1: out of memory. */
static int group_find(struct grouping *g, char *name, struct err *e)
{
	int i = nametable_find(&g->index, name, strlen(name));

	if (i >= 0) {
		mem_free(name);
		return i;
	}
	if (g->n == g->cap) {
		g->cap = 2 * g->cap + 16;
		g->v = mem_resize(g->v, (size_t)g->cap, sizeof *g->v);
	}
	g->v[g->n] = (struct group){.name = name, .sum = mem_try((size_t)g->width, sizeof(double), "a group of pictures", e)};
	if (!g->v[g->n++].sum)
		return -1;
	memset(g->v[g->n - 1].sum, 0, (size_t)g->width * sizeof(double));
	nametable_add(&g->index, name, strlen(name), g->n - 1);
	return g->n - 1;
}

static void group_add(struct group *g, const float *x, int64_t width)
{
	for (int64_t i = 0; i < width; i++) {
		g->sum[i] += (double)x[i];
		g->squares += (double)x[i] * (double)x[i];
	}
	g->n++;
}

/* The mean distance of the pairs of a group: sum |x_i - x_j|^2 over the pairs i < j is n sum |x_i|^2 - |sum x_i|^2. */
static double group_mean(const struct group *g, int64_t width)
{
	double whole = 0, n = (double)g->n;

	for (int64_t i = 0; i < width; i++)
		whole += g->sum[i] * g->sum[i];
	return 2 / (n - 1) * (g->squares - whole / n);
}

/* ---- diversity ---- */

struct pending {
	float *x, *vectors; /* (BATCH, 3, h, w), (BATCH, width) */
	int group[BATCH], n;
};

static int pending_flush(struct pending *p, struct grouping *g, struct lpips *n, const struct stream *s, struct err *e)
{
	if (!p->n)
		return 0;
	if (lpips_vectors(n, p->n, p->x, s->height, s->width, p->vectors, e))
		return -1;
	for (int i = 0; i < p->n; i++)
		group_add(&g->v[p->group[i]], p->vectors + i * g->width, g->width);
	p->n = 0;
	return progress_tell(s->o->progress, "pictures compared", s->seen, samples_expected(s->in)) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

static int picture_add(struct pending *p, struct grouping *g, struct lpips *n, const struct stream *s, enum perceptual_group by, struct err *e)
{
	int64_t each = 3 * (int64_t)s->width * s->height;
	char *name = group_name(s, by, e);

	if (!name)
		return -1;
	if (!p->x) {
		if ((g->width = lpips_width(n, s->height, s->width, e)) < 0 ||
		    !(p->x = mem_try((size_t)(BATCH * (each + g->width)), sizeof *p->x, "features of pictures", e))) {
			mem_free(name);
			return -1;
		}
		p->vectors = p->x + BATCH * each;
	}
	if ((p->group[p->n] = group_find(g, name, e)) < 0)
		return -1;
	gallery_numbers(p->x + p->n * each, &s->now, 0);
	return ++p->n < BATCH ? 0 : pending_flush(p, g, n, s, e);
}

static int groups_summarise(struct perceptual *out, const struct grouping *g, struct err *e)
{
	double *v = mem_alloc((size_t)g->n * sizeof *v);
	int64_t n = 0;

	for (int i = 0; i < g->n; i++)
		if (g->v[i].n > 1)
			v[n++] = group_mean(&g->v[i], g->width);
	if (n)
		summarise(out, v, n);
	mem_free(v);
	return n ? 0 : err_set(e, ERR_USAGE, "diversity: no group has two samples");
}

int perceptual_diversity(struct perceptual *out, struct lpips *n, const char *source, enum perceptual_group by, const struct evalset_options *o,
                         struct err *e)
{
	struct grouping g = {0};
	struct pending p = {0};
	struct stream s;
	int rc = stream_open(&s, source, o, e), got = -1;

	while (!rc && (got = stream_next(&s, e)) > 0)
		rc = picture_add(&p, &g, n, &s, by, e);
	if (!rc && !got && !pending_flush(&p, &g, n, &s, e))
		rc = groups_summarise(out, &g, e);
	else
		rc = -1;
	stream_close(&s);
	grouping_release(&g);
	mem_free(p.x);
	return rc;
}

/* ---- pairs ---- */

struct couples {
	float *x, *y; /* (BATCH, 3, h, w) */
	double *v;    /* all distances */
	int64_t done, n, cap;
};

static int couples_flush(struct couples *c, struct lpips *n, const struct stream *s, struct err *e)
{
	float d[BATCH];

	if (c->n == c->done)
		return 0;
	if (lpips_run(n, c->n - c->done, c->x, c->y, s->height, s->width, d, e))
		return -1;
	if (c->n > c->cap) {
		c->cap = 2 * c->n + BATCH;
		c->v = mem_resize(c->v, (size_t)c->cap, sizeof *c->v);
	}
	for (int64_t i = 0; c->done < c->n; i++)
		c->v[c->done++] = (double)d[i];
	return progress_tell(s->o->progress, "pairs compared", c->n, 0) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

static int couple_add(struct couples *c, struct lpips *n, const struct stream *a, const struct stream *b, struct err *e)
{
	int64_t each = 3 * (int64_t)a->width * a->height, at = c->n - c->done;
	const char *ka = a->batch.key[a->at], *kb = b->batch.key[b->at];

	if (strcmp(ka, kb) != 0)
		return err_set(e, ERR_DATA, "lpips compares pictures of the same key: %s has \"%s\" where %s has \"%s\"", a->name, ka, b->name, kb);
	if (a->width != b->width || a->height != b->height)
		return err_set(e, ERR_DATA, "pictures of %d x %d in %s and of %d x %d in %s: --size makes them equal", a->width, a->height, a->name,
		               b->width, b->height, b->name);
	if (!c->x && !(c->x = mem_try((size_t)(2 * BATCH * each), sizeof *c->x, "pictures", e)))
		return -1;
	c->y = c->x + BATCH * each;
	gallery_numbers(c->x + at * each, &a->now, 0);
	gallery_numbers(c->y + at * each, &b->now, 0);
	return ++c->n - c->done < BATCH ? 0 : couples_flush(c, n, a, e);
}

static int pairs_read(struct couples *c, struct lpips *n, struct stream *a, struct stream *b, struct err *e)
{
	for (;;) {
		int more = stream_next(a, e), also = more < 0 ? -1 : stream_next(b, e);

		if (also < 0)
			return -1;
		if (more != also)
			return err_set(e, ERR_DATA, "lpips compares pictures of the same key: %s has no \"%s\"", more ? b->name : a->name,
			               more ? a->batch.key[a->at] : b->batch.key[b->at]);
		if (!more)
			return couples_flush(c, n, a, e);
		if (couple_add(c, n, a, b, e))
			return -1;
	}
}

int perceptual_pairs(struct perceptual *out, struct lpips *n, const char *a, const char *b, const struct evalset_options *o, struct err *e)
{
	struct couples c = {0};
	struct stream s, t = {0};
	int rc = stream_open(&s, a, o, e) || stream_open(&t, b, o, e) ? -1 : pairs_read(&c, n, &s, &t, e);

	if (!rc)
		summarise(out, c.v, c.n);
	stream_close(&s);
	stream_close(&t);
	mem_free(c.x);
	mem_free(c.v);
	return rc;
}
