/* Computes published metrics as other programs do: on whole sets, without draws of equal size and without axes. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/mt19937.h"
#include "core/str.h"
#include "metric/evalreport.h"
#include "metric/frechet.h"
#include "metric/kd.h"
#include "metric/neighbours.h"
#include "metric/rbf.h"
#include "metric/scores.h"

enum { PR_NEIGHBOURS = 3, DC_NEIGHBOURS = 5, ADM_CHUNK = 5000, SPLITS = 10 };

struct field {
	struct stamp *st;
	const struct evalreport *r;
	json_t *notes;
};

static void put(const struct field *f, const char *what, const char *tail, double value)
{
	char *key = str_new("%s-%s%s", what, evalset_features(f->r->reference, f->r->samples), tail);

	stamp_f64(f->st, key, value);
	mem_free(key);
}

static void note(const struct field *f, char *text)
{
	json_array_append_new(f->notes, json_string(text));
	mem_free(text);
}

static int wanted(const struct field *f, enum metric m)
{
	return (f->r->metrics & 1u << m) != 0;
}

/* A missing input is an error if the metric was asked for; otherwise the metric is left out. */
static int missing(const struct field *f, enum metric m, const char *what, struct err *e)
{
	return f->r->asked ? err_set(e, ERR_USAGE, "%s needs %s", metric_names[m], what) : 0;
}

static void few_note(const struct field *f, enum metric m, const char *set, int64_t n, int dims)
{
	if (n > 0 && n <= dims)
		note(f, str_new("%s: %lld %s are no more than the %d dimensions: their covariance is singular, and the distance biased upwards by "
		                "much; compare at equal numbers only",
		                metric_names[m], (long long)n, set, dims));
}

static int frechet_put(const struct field *f, enum metric m, const double *mu1, const double *s1, const double *mu2, const double *s2, int d,
                       struct err *e)
{
	double v;

	if (frechet_distance(&v, f->r->pool, mu1, s1, mu2, s2, d, e))
		return -1;
	put(f, metric_names[m], "", v);
	return 0;
}

static int fid(const struct field *f, struct err *e)
{
	struct evalset *a = f->r->reference, *b = f->r->samples;

	if (evalset_statistics(a, f->r->pool, e) || evalset_statistics(b, f->r->pool, e))
		return -1;
	few_note(f, METRIC_FID, "reference pictures", a->foreign ? 0 : a->n, a->recipe.dims);
	few_note(f, METRIC_FID, "samples", b->foreign ? 0 : b->n, b->recipe.dims);
	return frechet_put(f, METRIC_FID, a->mu, a->sigma, b->mu, b->sigma, a->recipe.dims, e);
}

static int has_spatial(const struct evalset *s)
{
	return s->spatial.x || s->spatial.mu;
}

static int sfid(const struct field *f, struct err *e)
{
	struct evalset *a = f->r->reference, *b = f->r->samples;
	struct evaltap *x = &a->spatial, *y = &b->spatial;

	if (!has_spatial(a) || !has_spatial(b))
		return missing(f, METRIC_SFID, "the spatial features of both sets (of the network inception, or mu_s and sigma_s)", e);
	if (x->dims != y->dims)
		return err_set(e, ERR_DATA, "sfid: %d spatial features in the reference, %d in the samples", x->dims, y->dims);
	if (evaltap_statistics(x, a->n, f->r->pool, e) || evaltap_statistics(y, b->n, f->r->pool, e))
		return -1;
	few_note(f, METRIC_SFID, "reference pictures", a->foreign ? 0 : a->n, x->dims);
	few_note(f, METRIC_SFID, "samples", b->foreign ? 0 : b->n, y->dims);
	return frechet_put(f, METRIC_SFID, x->mu, x->sigma, y->mu, y->sigma, x->dims, e);
}

/* out (n): out[i] is the row of the sample that torch-fidelity processes as the i-th. */
static void fidelity_order(int64_t *out, const struct evalset *s, uint32_t seed)
{
	struct mt19937 numpy;

	mt19937_seed(&numpy, seed);
	mt19937_permutation(&numpy, out, s->n);
	for (int64_t i = 0; i < s->n && s->order; i++)
		out[i] = s->order[out[i]];
}

static int inception(const struct field *f, struct err *e)
{
	const struct evalset *b = f->r->samples;
	enum protocol p = f->r->protocol;
	struct inception_groups g = {.splits = SPLITS, .chunk = p == PROTOCOL_ADM ? ADM_CHUNK : 0};
	struct inception_score v;
	int64_t *order = NULL;
	int rc;

	if (!b->logits.x)
		return missing(f, METRIC_IS, "class logits of the samples (of the network inception, or --logits)", e);
	if (p == PROTOCOL_FIDELITY) {
		order = mem_try((size_t)b->n, sizeof *order, "the order of the samples", e);
		if (!order)
			return -1;
		fidelity_order(order, b, (uint32_t)f->r->seed);
	}
	rc = inception_score(&v, f->r->pool, b->logits.x, order ? order : p == PROTOCOL_ADM ? b->order : NULL, b->n, b->logits.dims, &g, e);
	mem_free(order);
	if (rc)
		return -1;
	put(f, "is", "", v.mean);
	put(f, "is", "-sd", v.sd);
	if (b->n / v.groups < b->logits.dims)
		note(f, str_new("is: groups of %lld samples for %d classes: the score cannot exceed %lld", (long long)(b->n / v.groups),
		                b->logits.dims, (long long)(b->n / v.groups)));
	return 0;
}

static int kid(const struct field *f, struct err *e)
{
	const struct evalreport *r = f->r;
	const struct evalset *a = r->reference, *b = r->samples;
	int64_t subsets = r->subsets ? r->subsets : KID_SUBSETS, least = a->n < b->n ? a->n : b->n;
	int64_t size = r->size < least || r->protocol == PROTOCOL_FIDELITY ? r->size : least;
	double mean, sd;

	if (!a->features || !b->features)
		return missing(f, METRIC_KID, "the features of both sets, not statistics alone", e);
	if (r->protocol == PROTOCOL_FIDELITY || r->protocol == PROTOCOL_CLEAN) {
		if (kd_subsets_numpy(&mean, &sd, r->pool, a->features, a->order, a->n, b->features, b->order, b->n, a->recipe.dims, subsets, size,
		                     (uint32_t)r->seed, e))
			return -1;
	} else {
		struct kd k;

		if (kd_subsets(&k, r->pool, a->features, a->n, b->features, b->n, a->recipe.dims, subsets, size, r->seed, e))
			return -1;
		mean = k.value, sd = k.se * sqrt((double)(subsets - 1));
	}
	put(f, "kid", "", mean);
	put(f, "kid", "-sd", sd);
	return 0;
}

/* Authenticity asks for copies of training pictures: it compares with --train if that is given, and with the reference otherwise. */
static int authentic_to_reference(const struct field *f)
{
	return wanted(f, METRIC_AUTHENTICITY) && !f->r->train;
}

static int neighbourhoods(const struct field *f, struct err *e)
{
	const struct evalset *a = f->r->reference, *b = f->r->samples;
	enum metric m = wanted(f, METRIC_PR) ? METRIC_PR : wanted(f, METRIC_DC) ? METRIC_DC : METRIC_AUTHENTICITY;
	struct neighbours v;

	if (!wanted(f, METRIC_PR) && !wanted(f, METRIC_DC) && !authentic_to_reference(f))
		return 0;
	if (!a->features || !b->features)
		return missing(f, m, "the features of both sets, not statistics alone", e);
	if (neighbours_measure(&v, f->r->pool, a->features, a->n, b->features, b->n, a->recipe.dims, PR_NEIGHBOURS, DC_NEIGHBOURS, e))
		return err_prefix(e, "%s", metric_names[m]);
	if (wanted(f, METRIC_PR)) {
		put(f, "precision", "", v.precision);
		put(f, "recall", "", v.recall);
		if (a->n != b->n)
			note(f, str_new("pr: %lld reference pictures and %lld samples: precision and recall depend on both numbers", (long long)a->n,
			                (long long)b->n));
	}
	if (wanted(f, METRIC_DC)) {
		put(f, "density", "", v.density);
		put(f, "coverage", "", v.coverage);
	}
	if (authentic_to_reference(f))
		put(f, "authenticity", "", v.authenticity);
	return 0;
}

static int authenticity(const struct field *f, struct err *e)
{
	const struct evalset *train = f->r->train, *b = f->r->samples;
	struct neighbours v;

	if (!train || !wanted(f, METRIC_AUTHENTICITY))
		return 0;
	if (!train->features || !b->features)
		return missing(f, METRIC_AUTHENTICITY, "the features of the samples and of the --train set, not statistics alone", e);
	if (train->n < 2 || b->n < 2)
		return err_set(e, ERR_USAGE, "authenticity needs at least 2 training pictures and 2 samples, not %lld and %lld", (long long)train->n,
		               (long long)b->n);
	if (neighbours_measure(&v, f->r->pool, train->features, train->n, b->features, b->n, train->recipe.dims, 1, 1, e))
		return err_prefix(e, "authenticity");
	put(f, "authenticity", "", v.authenticity);
	return 0;
}

static int cmmd(const struct field *f, struct err *e)
{
	const struct evalset *a = f->r->reference, *b = f->r->samples;
	int d = a->recipe.dims, rc = -1;
	float *x;
	double v;

	if (!a->features || !b->features)
		return missing(f, METRIC_CMMD, "the features of both sets, not statistics alone", e);
	x = mem_try((size_t)(a->n + b->n) * (size_t)d, sizeof *x, "embeddings of length 1", e);
	if (!x)
		return -1;
	rows_normalise(x, a->features, a->n, d);
	rows_normalise(x + a->n * d, b->features, b->n, d);
	if (!rbf_mmd(&v, f->r->pool, x, a->n, x + a->n * d, b->n, d, 10, e)) {
		put(f, "cmmd", "", 1000 * v);
		rc = 0;
	}
	mem_free(x);
	return rc;
}

static int vendi(const struct field *f, struct err *e)
{
	const struct evalset *b = f->r->samples;
	double v;

	if (!b->features)
		return missing(f, METRIC_VENDI, "the features of the samples, not statistics alone", e);
	if (vendi_score(&v, f->r->pool, b->features, b->n, b->recipe.dims, e))
		return -1;
	put(f, "vendi", "", v);
	return 0;
}

static int clip(const struct field *f, struct err *e)
{
	const struct evalset *b = f->r->samples;
	double v, se;

	if (!b->features || !f->r->captions)
		return missing(f, METRIC_CLIP, "the features of the samples and --captions", e);
	if (f->r->captions_n != b->n)
		return err_set(e, ERR_DATA, "%lld captions for %lld samples", (long long)f->r->captions_n, (long long)b->n);
	if (clip_score(&v, &se, b->features, b->order, f->r->captions, b->n, b->recipe.dims, e))
		return -1;
	put(f, "clip-score", "", v);
	put(f, "clip-score", "-se", se);
	return 0;
}

static int aesthetic(const struct field *f, struct err *e)
{
	const struct evalset *b = f->r->samples;
	double v, se;

	if (!b->features || !f->r->aesthetic)
		return missing(f, METRIC_AESTHETIC, "the features of the samples and --aesthetic", e);
	if (b->recipe.dims != f->r->aesthetic->dims)
		return err_set(e, ERR_DATA, "aesthetic: the predictor reads embeddings of width %d, but those of the samples have width %d",
		               f->r->aesthetic->dims, b->recipe.dims);
	if (aesthetic_score(&v, &se, f->r->aesthetic, b->features, b->n, e))
		return -1;
	put(f, "aesthetic", "", v);
	put(f, "aesthetic", "-se", se);
	return 0;
}

/* Put the mean as "WHAT-TRUNK", and its standard error if there are several values. */
static void perceptual_put(const struct field *f, const char *what, const struct perceptual *v)
{
	char *key = str_new("%s-%s", what, lpips_trunk_names[lpips_kind(f->r->perceptual->net)]), *se = str_new("%s-se", key);

	stamp_f64(f->st, key, v->mean);
	if (v->n > 1)
		stamp_f64(f->st, se, v->se);
	mem_free(key);
	mem_free(se);
}

static int pairs(const struct field *f, struct err *e)
{
	const struct perceptual_work *p = f->r->perceptual;
	struct perceptual v;

	if (!p)
		return missing(f, METRIC_LPIPS, "--lpips", e);
	if (perceptual_pairs(&v, p->net, p->reference, p->samples, p->reading, e))
		return -1;
	perceptual_put(f, "lpips", &v);
	stamp_i64(f->st, "lpips-pairs", v.n);
	return 0;
}

static int diversity(const struct field *f, struct err *e)
{
	const struct perceptual_work *p = f->r->perceptual;
	struct perceptual v;

	if (!p)
		return missing(f, METRIC_DIVERSITY, "--lpips", e);
	if (perceptual_diversity(&v, p->net, p->samples, p->by, p->reading, e))
		return -1;
	perceptual_put(f, "lpips-diversity", &v);
	stamp_i64(f->st, "lpips-groups", v.n);
	return 0;
}

int evalfield_fill(struct stamp *st, const struct evalreport *r, json_t *notes, struct err *e)
{
	const struct field f = {st, r, notes};
	static const struct {
		enum metric metric;
		int (*fill)(const struct field *f, struct err *e);
	} parts[] = {{METRIC_FID, fid},     {METRIC_SFID, sfid}, {METRIC_IS, inception},        {METRIC_KID, kid},     {METRIC_CMMD, cmmd},
	             {METRIC_VENDI, vendi}, {METRIC_CLIP, clip}, {METRIC_AESTHETIC, aesthetic}, {METRIC_LPIPS, pairs}, {METRIC_DIVERSITY, diversity}};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (wanted(&f, parts[i].metric) && parts[i].fill(&f, e))
			return -1;
	return neighbourhoods(&f, e) || authenticity(&f, e) ? -1 : 0;
}
