/* Sorts, compares and releases sets of features, and computes their statistics. */
#include "metric/evalset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "metric/moments.h"

enum { REPORT_EVERY = 256 }; /* vectors between two reports of progress */

void evaltap_release(struct evaltap *t)
{
	mem_free(t->x);
	mem_free(t->mu);
	mem_free(t->sigma);
}

void evalset_release(struct evalset *s)
{
	mem_free(s->features);
	mem_free(s->thumbs);
	mem_free(s->mu);
	mem_free(s->sigma);
	evaltap_release(&s->spatial);
	evaltap_release(&s->logits);
	mem_free(s->order);
	mem_free(s->partition);
	*s = (struct evalset){0};
}

static int digest_order(const void *a, const void *b)
{
	const struct digest *x = a, *y = b;
	int c = strcmp(x->hex, y->hex);

	return c ? c : x->at < y->at ? -1 : x->at > y->at;
}

/* Put *rows (n, size), which may be NULL, in the order of the digests. */
static int reorder(void *rows, const struct digest *d, int64_t n, size_t size, struct err *e)
{
	uint8_t **old = rows, *out;

	if (!*old)
		return 0;
	out = mem_try((size_t)n, size, "a set in the order of its contents", e);
	for (int64_t i = 0; out && i < n; i++)
		memcpy(out + (size_t)i * size, *old + (size_t)d[i].at * size, size);
	mem_free(*old);
	*old = out;
	return out ? 0 : -1;
}

int evalset_sort(struct evalset *s, struct digest *d, struct err *e)
{
	struct sha256 h;

	qsort(d, (size_t)s->n, sizeof *d, digest_order);
	sha256_init(&h);
	for (int64_t i = 0; i < s->n; i++)
		sha256_add(&h, d[i].hex, 64);
	sha256_end(&h, s->hash);
	s->order = mem_try((size_t)s->n, sizeof *s->order, "the order of a set", e);
	for (int64_t i = 0; i < s->n && s->order; i++)
		s->order[d[i].at] = i;
	return !s->order || reorder(&s->features, d, s->n, (size_t)s->recipe.dims * sizeof *s->features, e) ||
	               reorder(&s->thumbs, d, s->n, (size_t)s->thumb, e) ||
	               reorder(&s->spatial.x, d, s->n, (size_t)s->spatial.dims * sizeof *s->spatial.x, e) ||
	               reorder(&s->logits.x, d, s->n, (size_t)s->logits.dims * sizeof *s->logits.x, e)
	           ? -1
	           : 0;
}

/* Vectors made elsewhere */

int evalset_hash_rows(struct evalset *s, struct err *e)
{
	struct digest *d = mem_try((size_t)s->n, sizeof *d, "hashes of feature vectors", e);
	int rc;

	for (int64_t i = 0; d && i < s->n; i++) {
		struct sha256 h;

		sha256_init(&h);
		sha256_add(&h, s->features + i * s->recipe.dims, (size_t)s->recipe.dims * sizeof *s->features);
		sha256_end(&h, d[i].hex);
		d[i].at = i;
	}
	rc = d ? evalset_sort(s, d, e) : -1;
	mem_free(d);
	return rc;
}

/* Add x (n, dims) to m, in slices between which progress is reported. */
static int add_all(struct moments *m, const float *x, int64_t n, int dims, struct pool *pool, struct err *e)
{
	struct pool_pass pass = {"covariance, vectors", 0, n};

	while (pass.done < n) {
		int64_t more = n - pass.done < REPORT_EVERY ? n - pass.done : REPORT_EVERY;

		moments_add(m, pool, x + pass.done * dims, more);
		pass.done += more;
		if (pool_report(pool, &pass, e))
			return -1;
	}
	return 0;
}

/* Compute *mu and *sigma from x (n, dims) unless *mu exists. Both stay NULL on failure. */
static int gaussian(double **mu, double **sigma, const float *x, int64_t n, int dims, struct pool *pool, struct err *e)
{
	size_t d = (size_t)dims;
	struct moments m = {0};
	int rc = -1;

	if (*mu)
		return 0;
	*mu = mem_try(d, sizeof **mu, "a feature mean", e);
	*sigma = *mu ? mem_try(d * d, sizeof **sigma, "a feature covariance", e) : NULL;
	if (*sigma && !moments_init(&m, dims, e) && !add_all(&m, x, n, dims, pool, e))
		rc = moments_result(&m, pool, *mu, *sigma, e);
	moments_release(&m);
	if (rc) {
		mem_free(*mu);
		mem_free(*sigma);
		*mu = *sigma = NULL;
	}
	return rc;
}

int evaltap_statistics(struct evaltap *t, int64_t n, struct pool *pool, struct err *e)
{
	return gaussian(&t->mu, &t->sigma, t->x, n, t->dims, pool, e);
}

int evalset_statistics(struct evalset *s, struct pool *pool, struct err *e)
{
	return gaussian(&s->mu, &s->sigma, s->features, s->n, s->recipe.dims, pool, e);
}

int recipe_unrecorded(const struct recipe *r)
{
	return !strcmp(r->features, "npy");
}

int evalset_agree(const struct evalset *a, const char *name_a, const struct evalset *b, const char *name_b, struct err *e)
{
	const struct recipe *p = &a->recipe, *q = &b->recipe;
	int silent = (recipe_unrecorded(p) && *q->input) || (recipe_unrecorded(q) && *p->input);

	if ((strcmp(p->features, q->features) && !silent) || p->dims != q->dims)
		return err_set(e, ERR_DATA, "%s has %d features \"%s\", %s has %d \"%s\": they cannot be compared", name_a, p->dims, p->features,
		               name_b, q->dims, q->features);
	if (silent)
		return 0;
	if (*p->input && *q->input && strcmp(p->input, q->input))
		return err_set(e, ERR_DATA, "%s was prepared for \"%s\" by convention \"%s\", but %s by \"%s\"", name_a, p->features, p->input,
		               name_b, q->input);
	if (*p->features_hash && *q->features_hash && strcmp(p->features_hash, q->features_hash))
		return err_set(e, ERR_DATA, "%s and %s were made by different definitions of \"%s\" (%.12s, %.12s)", name_a, name_b, p->features,
		               p->features_hash, q->features_hash);
	if (p->width && q->width && (p->width != q->width || p->height != q->height))
		return err_set(e, ERR_DATA, "%s was measured at %d x %d, %s at %d x %d: --size makes them equal", name_a, p->width, p->height, name_b,
		               q->width, q->height);
	if (p->frames != q->frames)
		return err_set(e, ERR_DATA, "%s has clips of %d frames, %s of %d: cut the clips to one length", name_a, p->frames, name_b, q->frames);
	if (p->fps > 0 && q->fps > 0 && fabs(p->fps - q->fps) > 1e-3 * p->fps)
		return err_set(e, ERR_DATA, "%s has clips of %g frames a second, %s of %g: their movement differs for that reason alone", name_a,
		               p->fps, name_b, q->fps);
	if (p->width && q->width && strcmp(p->resize, q->resize))
		return err_set(e, ERR_DATA, "%s and %s were resized differently (%s; %s)", name_a, name_b, p->resize, q->resize);
	return 0;
}

const char *evalset_features(const struct evalset *reference, const struct evalset *samples)
{
	const struct recipe *a = &reference->recipe, *b = &samples->recipe;

	return recipe_unrecorded(a) ? b->features : a->features;
}
