/* Fills the report of a comparison of clips. */
#include "metric/evalclipreport.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "data/motionfeat.h"
#include "metric/frechet.h"
#include "metric/kd.h"
#include "metric/memorised.h"
#include "metric/moments.h"
#include "metric/scores.h"

/* Movement must stand out from random exchanges of altered and unaltered clips in all but one of 200. The bound for content, which is equal in
 * expectation, is wide, because a false alarm would withhold a good number. */
static const double moved = .005, kept = 4;

/* Vectors of the clips of a set: (n, frames, d). */
struct side {
	const float *x;
	int64_t n;
};

/* One of the two distances. */
struct distance {
	struct stamp *st;
	const struct clipreport *c;
	json_t *notes;
	char *name; /* "content-pix", "motion-flow" */
	int64_t frames;
	int d;
	struct side reference, samples, heldout;
	float *const *altered; /* [alterations], of the reference */
	int alterations;
};

static void put(struct stamp *st, const char *name, const char *tail, const struct kd *k)
{
	char *key = str_new("%s%s", name, tail), *se = str_new("%s-se", key);

	stamp_f64(st, key, k->value);
	if (isfinite(k->se))
		stamp_f64(st, se, k->se);
	mem_free(key);
	mem_free(se);
}

static void note(json_t *notes, char *text)
{
	json_array_append_new(notes, json_string(text));
	mem_free(text);
}

static int between(struct kd *k, const struct distance *w, struct side x, struct side y, struct err *e)
{
	return kd_clips(k, w->c->r->pool, x.x, x.n, y.x, y.n, w->frames, w->d, e);
}

/* The distance between two random halves of the reference. */
static int put_floor(const struct distance *w, struct err *e)
{
	const struct evalreport *r = w->c->r;
	size_t each = (size_t)w->frames * (size_t)w->d;
	int64_t n = w->reference.n, half = n / 2;
	float *x = mem_try(2 * (size_t)half, each * sizeof *x, "halves of the reference", e);
	struct kd k;
	int rc = x ? 0 : -1;

	for (int64_t i = 0; i < 2 * half && x; i++)
		memcpy(x + (size_t)i * each, w->reference.x + rng_permute((uint64_t)i, (uint64_t)n, r->seed, RNG_METRIC, 1u << 20) * each,
		       each * sizeof *x);
	if (!rc && !(rc = between(&k, w, (struct side){x, half}, (struct side){x + (size_t)half * each, half}, e)))
		put(w->st, w->name, "-floor", &k);
	mem_free(x);
	return rc;
}

static int put_distances(const struct distance *w, struct err *e)
{
	struct kd k;

	if (between(&k, w, w->reference, w->samples, e))
		return -1;
	put(w->st, w->name, "", &k);
	if (w->reference.n >= 6 && put_floor(w, e))
		return -1;
	if (!w->heldout.x)
		return 0;
	if (between(&k, w, w->heldout, w->samples, e))
		return -1;
	put(w->st, w->name, "-heldout", &k);
	if (between(&k, w, w->reference, w->heldout, e))
		return -1;
	put(w->st, w->name, "-heldout-floor", &k);
	return 0;
}

/* The first clips of the reference are altered, the rest is what they are compared with. The order of a set is that of hashes, so both are random. */
static int64_t altered_count(const struct distance *w)
{
	return w->reference.n / 2 < ALTERED_CLIPS ? w->reference.n / 2 : ALTERED_CLIPS;
}

static void put_change(const struct distance *w, const char *tail, const struct kd_change *k)
{
	char *p = str_new("%s%s-p", w->name, tail);

	put(w->st, w->name, tail, &(struct kd){k->value, k->se});
	stamp_f64(w->st, p, k->p);
	mem_free(p);
}

static int null_test(struct kd_change change[ALTERATIONS], const struct distance *w, struct err *e)
{
	int64_t m = altered_count(w);
	const float *rest = w->reference.x + m * w->frames * w->d;

	for (int k = 0; k < w->alterations; k++) {
		char *tail = str_new("-%s", altered_names[k]);
		int rc = kd_change(&change[k], w->c->r->pool, rest, w->reference.n - m, w->reference.x, w->altered[k], m, w->frames, w->d, e);

		if (!rc)
			put_change(w, tail, &change[k]);
		mem_free(tail);
		if (rc)
			return -1;
	}
	return 0;
}

static int too_few(const struct distance *w)
{
	if (w->reference.n >= 16) /* 8 clips are altered: 2^-8 is the least probability that can be found */
		return 0;
	note(w->notes, str_new("%s is withheld: its null test needs at least 16 clips in the reference, not %lld; --no-null-test leaves the test out",
	                       w->name, (long long)w->reference.n));
	return 1;
}

/* Returns 1 if the null test allows the number. */
static int motion_passes(const struct distance *w, const struct kd_change change[ALTERATIONS])
{
	static const enum altered needed[] = {ALTERED_SHUFFLED, ALTERED_FROZEN};
	const struct kd_change *reversed = &change[ALTERED_REVERSED];

	for (int i = 0; i < 2; i++) {
		const struct kd_change *k = &change[needed[i]];

		if (k->p <= moved)
			continue;
		note(w->notes,
		     str_new("%s is withheld: its null test failed. %s frames of %lld clips change it by %.3g, and chance would do as much with "
		             "probability %.3g, so here it does not measure movement. Give more clips, or clips that move; --no-null-test "
		             "leaves the test out",
		             w->name, needed[i] == ALTERED_FROZEN ? "Frozen" : "Shuffled", (long long)altered_count(w), k->value, k->p));
		return 0;
	}
	if (reversed->p > moved)
		note(w->notes,
		     str_new("%s: reversed frames change it by %.3g, and chance would do as much with probability %.3g: the movement of these "
		             "clips looks alike in both directions of time, or they are too few",
		             w->name, reversed->value, reversed->p));
	return 1;
}

static int content_passes(const struct distance *w, const struct kd_change change[ALTERATIONS])
{
	for (int k = 0; k < w->alterations; k++)
		if (fabs(change[k].value) > kept * change[k].se) {
			note(w->notes,
			     str_new("%s is withheld: its null test failed. Clips with %s frames change it by %.3g, more than %g standard errors "
			             "of %.3g, so it does not measure single frames alone",
			             w->name, altered_names[k], change[k].value, kept, change[k].se));
			return 0;
		}
	return 1;
}

static int distance_fill(const struct distance *w, int (*passes)(const struct distance *w, const struct kd_change change[ALTERATIONS]), struct err *e)
{
	struct kd_change change[ALTERATIONS];

	if (w->c->null_test && too_few(w))
		return 0;
	if (w->c->null_test && null_test(change, w, e))
		return -1;
	return w->c->null_test && !passes(w, change) ? 0 : put_distances(w, e);
}

static int content(struct stamp *st, const struct clipreport *c, json_t *notes, struct err *e)
{
	const struct evalreport *r = c->r;
	struct distance w = {.st = st,
	                     .c = c,
	                     .notes = notes,
	                     .name = str_new("content-%s", evalset_features(r->reference, r->samples)),
	                     .frames = c->reference->drawn,
	                     .d = r->reference->recipe.dims,
	                     .reference = {c->reference->content, r->reference->n},
	                     .samples = {c->samples->content, r->samples->n},
	                     .altered = c->reference->content_of,
	                     .alterations = ALTERED_SLOW};
	int rc;

	if (r->heldout)
		w.heldout = (struct side){c->heldout->content, r->heldout->n};
	rc = distance_fill(&w, content_passes, e);
	mem_free(w.name);
	return rc;
}

static int motion(struct stamp *st, const struct clipreport *c, json_t *notes, struct err *e)
{
	const struct evalreport *r = c->r;
	struct distance w = {.st = st,
	                     .c = c,
	                     .notes = notes,
	                     .name = str_new("motion-flow"),
	                     .frames = 1,
	                     .d = MOTION_DIMS,
	                     .reference = {c->reference->motion, r->reference->n},
	                     .samples = {c->samples->motion, r->samples->n},
	                     .altered = c->reference->motion_of,
	                     .alterations = ALTERATIONS};
	int rc;

	if (r->heldout)
		w.heldout = (struct side){c->heldout->motion, r->heldout->n};
	rc = distance_fill(&w, motion_passes, e);
	mem_free(w.name);
	return rc;
}

/* Put the mean of v (n) and its standard error. */
static void put_mean(struct stamp *st, const char *name, const char *tail, const double *v, int64_t n)
{
	double mean = 0, square = 0;

	for (int64_t i = 0; i < n; i++)
		mean += v[i] / (double)n;
	for (int64_t i = 0; i < n; i++)
		square += (v[i] - mean) * (v[i] - mean);
	put(st, name, tail, &(struct kd){mean, n > 1 ? sqrt(square / ((double)n * (double)(n - 1))) : NAN});
}

static int memorised_put(struct stamp *st, const char *key, const struct clipreport *c, const struct evalclips *of, int64_t m,
                         const struct evalclips *train, int64_t n, struct err *e)
{
	double f;

	if (memorised_fraction(&f, NULL, c->r->pool, of->thumbs, m, train->thumbs, n, train->thumb, e))
		return -1;
	stamp_f64(st, key, f);
	return 0;
}

static int memorised(struct stamp *st, const struct clipreport *c, struct err *e)
{
	const struct evalreport *r = c->r;
	const struct evalclips *train = c->train ? c->train : c->reference, *unseen = c->heldout ? c->heldout : c->train ? c->reference : NULL;
	int64_t n = c->train ? r->train->n : r->reference->n, m = c->heldout ? r->heldout->n : r->reference->n;

	if (memorised_put(st, "memorised", c, c->samples, r->samples->n, train, n, e) ||
	    (unseen && memorised_put(st, "memorised-floor", c, unseen, m, train, n, e)))
		return -1;
	stamp_i64(st, "memorised-of", n);
	return 0;
}

static int alignment(struct stamp *st, const struct clipreport *c, struct err *e)
{
	const struct evalreport *r = c->r;
	const struct evalset *s = r->samples;
	struct kd score;
	char *name;

	if (!r->captions)
		return err_set(e, ERR_USAGE, "clip of clips needs --features clip:PATH, or --captions");
	if (r->captions_n != s->n)
		return err_set(e, ERR_DATA, "%lld captions for %lld samples", (long long)r->captions_n, (long long)s->n);
	if (clip_score_of_clips(&score.value, &score.se, c->samples->embedding, s->order, r->captions, s->n, s->recipe.dims, e))
		return -1;
	name = str_new("clip-score-%s", evalset_features(r->reference, s));
	put(st, name, "", &score);
	mem_free(name);
	return 0;
}

/* Mean and covariance, which FVD divides by n. */
static int gaussian(double *mu, double *sigma, const float *x, int64_t n, struct pool *pool, struct err *e)
{
	struct moments m;
	int rc = -1;

	if (moments_init(&m, I3D_CLASSES, e))
		return -1;
	moments_add(&m, pool, x, n);
	rc = moments_result(&m, pool, mu, sigma, e);
	moments_release(&m);
	for (int i = 0; i < I3D_CLASSES * I3D_CLASSES && !rc; i++)
		sigma[i] *= (double)(n - 1) / (double)n;
	return rc;
}

static int fvd(struct stamp *st, const struct clipreport *c, json_t *notes, struct err *e)
{
	const struct evalreport *r = c->r;
	int64_t n = r->reference->n, m = r->samples->n, least = n < m ? n : m;
	double *mu = mem_try(2 * I3D_CLASSES * (I3D_CLASSES + 1), sizeof *mu, "statistics of clips", e), *sigma = mu + 2 * I3D_CLASSES, value;
	int rc = -1;

	if (mu && !gaussian(mu, sigma, c->reference->fvd, n, r->pool, e) &&
	    !gaussian(mu + I3D_CLASSES, sigma + I3D_CLASSES * I3D_CLASSES, c->samples->fvd, m, r->pool, e) &&
	    !frechet_distance(&value, r->pool, mu, sigma, mu + I3D_CLASSES, sigma + I3D_CLASSES * I3D_CLASSES, I3D_CLASSES, e)) {
		stamp_f64(st, "fvd-i3d", value);
		rc = 0;
	}
	if (!rc && least <= I3D_CLASSES)
		note(notes,
		     str_new("fvd: %lld clips are no more than the %d dimensions: their covariance is singular, and the distance biased upwards by "
		             "much; compare at equal numbers only",
		             (long long)least, I3D_CLASSES));
	mem_free(mu);
	return rc;
}

int clipreport_fill(struct stamp *st, const struct clipreport *c, json_t *notes, struct err *e)
{
	const struct evalreport *r = c->r;
	unsigned m = r->metrics;

	stamp_i64(st, "n-reference", r->reference->n);
	stamp_i64(st, "n-samples", r->samples->n);
	if (r->heldout)
		stamp_i64(st, "n-heldout", r->heldout->n);
	if ((m & 1u << METRIC_CONTENT && content(st, c, notes, e)) || (m & 1u << METRIC_MOTION && motion(st, c, notes, e)))
		return -1;
	if (c->null_test)
		stamp_i64(st, "null-clips", r->reference->n / 2 < ALTERED_CLIPS ? r->reference->n / 2 : ALTERED_CLIPS);
	if (m & 1u << METRIC_FLICKER) {
		put_mean(st, "flicker", "", c->samples->flicker, r->samples->n);
		put_mean(st, "flicker", "-reference", c->reference->flicker, r->reference->n);
	}
	if (m & 1u << METRIC_WARP) {
		put_mean(st, "warp-error", "", c->samples->warp, r->samples->n);
		put_mean(st, "warp-error", "-reference", c->reference->warp, r->reference->n);
	}
	if ((m & 1u << METRIC_FVD && fvd(st, c, notes, e)) || (m & 1u << METRIC_CLIP && alignment(st, c, e)))
		return -1;
	return m & 1u << METRIC_MEMORISED ? memorised(st, c, e) : 0;
}
