/* Computes the metrics of a pair of sets and fills the report. */
#include "metric/evalreport.h"

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "metric/frechet.h"
#include "metric/frecheterror.h"
#include "metric/kd.h"
#include "metric/memorised.h"

#include <math.h>
#include <string.h>

/* Put the value under "WHAT-NAME-TAIL". */
static void put(struct stamp *st, const struct evalreport *r, const char *what, const char *tail, double value)
{
	char *key = str_new("%s-%s%s", what, evalset_features(r->reference, r->samples), tail);

	stamp_f64(st, key, value);
	mem_free(key);
}

/* Put the standard error under "WHAT-NAME-TAIL-se" if it is finite. */
static void put_error(struct stamp *st, const struct evalreport *r, const char *what, const char *tail, double se)
{
	char *key = str_new("%s-se", tail);

	if (isfinite(se))
		put(st, r, what, key, se);
	mem_free(key);
}

static void put_kd(struct stamp *st, const struct evalreport *r, const char *tail, const struct kd *k)
{
	put(st, r, "kd", tail, k->value);
	put_error(st, r, "kd", tail, k->se);
}

static int kd_between(struct kd *k, const struct evalreport *r, const float *x, int64_t n, const float *y, int64_t m, struct err *e)
{
	int64_t least = n < m ? n : m;
	int d = r->reference->recipe.dims;

	if (r->subsets > 0)
		return kd_subsets(k, r->pool, x, n, y, m, d, r->subsets, r->size < least ? r->size : least, r->seed, e);
	return kd_whole(k, r->pool, x, n, y, m, d, e);
}

/* Kernel distance between two random halves of the reference. */
static int kd_halves(struct kd *k, const struct evalreport *r, struct err *e)
{
	const struct evalset *s = r->reference;
	size_t d = (size_t)s->recipe.dims;
	int64_t half = s->n / 2;
	float *x = mem_try((size_t)half * 2, d * sizeof *x, "halves of the reference", e);
	int rc = x ? 0 : -1;

	for (int64_t i = 0; i < 2 * half && x; i++)
		memcpy(x + (size_t)i * d, s->features + rng_permute((uint64_t)i, (uint64_t)s->n, r->seed, RNG_METRIC, 1u << 20) * d, d * sizeof *x);
	if (!rc)
		rc = kd_between(k, r, x, half, x + (size_t)half * d, half, e);
	mem_free(x);
	return rc;
}

static int kd_fill(struct stamp *st, const struct evalreport *r, struct err *e)
{
	struct evalset *a = r->reference, *b = r->samples, *h = r->heldout;
	struct kd k;

	if (!a->features || !b->features)
		return r->asked ? err_set(e, ERR_USAGE, "kd needs the features of both sets, not statistics alone") : 0;
	if (kd_between(&k, r, a->features, a->n, b->features, b->n, e))
		return -1;
	put_kd(st, r, "", &k);
	if (a->n >= 6) {
		if (kd_halves(&k, r, e))
			return -1;
		put_kd(st, r, "-floor", &k);
	}
	if (!h || !h->features)
		return 0;
	if (kd_between(&k, r, h->features, h->n, b->features, b->n, e))
		return -1;
	put_kd(st, r, "-heldout", &k);
	if (kd_between(&k, r, a->features, a->n, h->features, h->n, e))
		return -1;
	put_kd(st, r, "-heldout-floor", &k);
	return 0;
}

/* Distance between the samples and a reference that consists only of a mean and a covariance. */
static int fd_statistics(struct stamp *st, const struct evalreport *r, const double *axes, int p, struct err *e)
{
	struct evalset *a = r->reference, *b = r->samples;
	int d = a->recipe.dims;
	double full, along, se = NAN, *v = mem_alloc(2 * (size_t)(p + p * p) * sizeof *v), *sp = v + 2 * p;
	int rc = -1;

	if (!evalset_statistics(b, r->pool, e) && !frechet_distance(&full, r->pool, a->mu, a->sigma, b->mu, b->sigma, d, e)) {
		frechet_project(v, sp, axes, a->mu, a->sigma, d, p);
		frechet_project(v + p, sp + p * p, axes, b->mu, b->sigma, d, p);
		rc = frechet_distance(&along, r->pool, v, sp, v + p, sp + p * p, p, e);
	}
	if (!rc && b->features)
		rc = frechet_fixed_error(&se, r->pool, v, sp, b->features, b->n, d, axes, p, e);
	mem_free(v);
	if (rc)
		return -1;
	put(st, r, "fd", "", along);
	put_error(st, r, "fd", "", se);
	put(st, r, "fd", "-full", full);
	if (b->n)
		stamp_i64(st, "fd-n", b->n);
	return 0;
}

struct pair {
	const struct evalset *x, *y; /* if equal: two disjoint parts */
	const char *along, *full;    /* the tails of the keys */
	int error;                   /* 1: report the standard error */
};

/* Put the distances of the pairs. All pairs use `take` vectors a side, as many as the floor allows, so that they have the same bias. */
static int fd_pairs(struct stamp *st, const struct evalreport *r, const double *axes, int p, const struct pair *pair, int pairs, int64_t take,
                    const char *key, struct err *e)
{
	double along, full, se = NAN;

	for (int i = 0; i < pairs; i++) {
		const struct evalset *x = pair[i].x, *y = pair[i].y;

		if (frechet_equal(&along, &full, r->pool, x->features, x->n, y->features, y->n, r->reference->recipe.dims, axes, p, take, r->draws,
		                  r->seed, e))
			return -1;
		if (pair[i].error && frechet_equal_error(&se, r->pool, x->features, x->n, y->features, y->n, r->reference->recipe.dims, axes, p, take,
		                                         r->draws, r->seed, e))
			return -1;
		put(st, r, "fd", pair[i].along, along);
		if (pair[i].error)
			put_error(st, r, "fd", pair[i].along, se);
		put(st, r, "fd", pair[i].full, full);
	}
	stamp_i64(st, key, take);
	return 0;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int fd_sets(struct stamp *st, const struct evalreport *r, const double *axes, int p, struct err *e)
{
	const struct evalset *a = r->reference, *b = r->samples, *h = r->heldout;
	struct pair near[] = {{a, b, "", "-full", 1}, {a, a, "-floor", "-full-floor", 0}};
	struct pair far[] = {{h, b, "-heldout", "-heldout-full", 1}, {a, h, "-heldout-floor", "-heldout-full-floor", 0}};

	if (a->n >= 4 && fd_pairs(st, r, axes, p, near, 2, least(b->n, a->n / 2), "fd-n", e))
		return -1;
	if (a->n < 4 && fd_pairs(st, r, axes, p, near, 1, least(b->n, a->n), "fd-n", e))
		return -1;
	if (h && h->features)
		return fd_pairs(st, r, axes, p, far, 2, least(least(b->n, h->n), a->n), "fd-n-heldout", e);
	return 0;
}

static int fd_fill(struct stamp *st, const struct evalreport *r, struct err *e)
{
	struct evalset *a = r->reference;
	int d = a->recipe.dims, p = r->axes < d ? r->axes : d, rc = -1;
	double *axes;

	if (evalset_statistics(a, r->pool, e))
		return -1;
	axes = mem_try((size_t)p * (size_t)d, sizeof *axes, "principal axes", e);
	if (!axes)
		return -1;
	stamp_i64(st, "fd-axes", p);
	if (!frechet_axes(axes, a->sigma, d, p, e))
		rc = a->features && r->samples->features ? fd_sets(st, r, axes, p, e) : fd_statistics(st, r, axes, p, e);
	mem_free(axes);
	return rc;
}

static int memorised_put(struct stamp *st, const char *key, const struct evalreport *r, const struct evalset *s, const struct evalset *train,
                         struct err *e)
{
	double f;

	if (memorised_fraction(&f, NULL, r->pool, s->thumbs, s->n, train->thumbs, train->n, s->thumb, e))
		return -1;
	stamp_f64(st, key, f);
	return 0;
}

static int memorised_fill(struct stamp *st, const struct evalreport *r, struct err *e)
{
	const struct evalset *train = r->train ? r->train : r->reference, *s = r->samples;
	const struct evalset *unseen = r->heldout ? r->heldout : r->train ? r->reference : NULL;

	if (!s->thumbs || !train->thumbs || train->n < 2 || s->thumb != train->thumb)
		return r->asked ? err_set(e, ERR_USAGE, "memorised needs the pictures of both sets, and at least two of the reference") : 0;
	if (memorised_put(st, "memorised", r, s, train, e))
		return -1;
	if (unseen && unseen->thumbs && unseen->thumb == train->thumb && memorised_put(st, "memorised-floor", r, unseen, train, e))
		return -1;
	stamp_i64(st, "memorised-of", train->n);
	return 0;
}

int evalreport_fill(struct stamp *st, const struct evalreport *r, struct err *e)
{
	unsigned m = r->metrics ? r->metrics : 1u << METRIC_KD | 1u << METRIC_FD | 1u << METRIC_MEMORISED;
	json_t *notes = json_array();
	int rc = 0;

	if (r->reference->n)
		stamp_i64(st, "n-reference", r->reference->n);
	stamp_i64(st, "n-samples", r->samples->n);
	if (r->heldout)
		stamp_i64(st, "n-heldout", r->heldout->n);
	if (m & 1u << METRIC_KD)
		rc = kd_fill(st, r, e);
	if (!rc && m & 1u << METRIC_FD)
		rc = fd_fill(st, r, e);
	if (!rc && m & 1u << METRIC_MEMORISED)
		rc = memorised_fill(st, r, e);
	if (!rc)
		rc = evalfield_fill(st, r, notes, e);
	if (!rc && json_array_size(notes))
		stamp_json(st, "notes", json_incref(notes));
	json_decref(notes);
	return rc ? -1 : 0;
}
