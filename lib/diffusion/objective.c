/* The tables of training objectives: paths, loss weightings and distributions of training times. */
#include "diffusion/objective.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/named.h"
#include "core/samemath.h"

/* Name on the command line, how many numbers follow it, name in config.json, steps, first and last beta. Stable Diffusion uses scaled-linear. */
#define PATH_LIST(ROW) \
	ROW("linear", 0, "linear", 0, 0, 0) \
	ROW("cosine", 0, "cosine", 0, 0, 0) \
	ROW("ddpm", 0, "linear_betas", 1000, 1e-4, .02) \
	ROW("scaled-linear", 0, "scaled_linear_betas", 1000, .00085, .012) \
	ROW("gvp", 0, "gvp", 0, 0, 0) \
	ROW("edm", 1, "edm", 0, 0, 0)

#define CHOICE(name, count, config, steps, start, end) {SIGMA_DATA_NAMED(name, count), config, {steps, start, end, NULL}},
#define NAME(name, count, config, steps, start, end) name,
static const struct path_def {
	struct named named;
	const char *config;
	struct betas betas;
} paths[] = {PATH_LIST(CHOICE)};
static const struct named_table path_table = NAMED_TABLE(paths);
const char *const path_choice_names[] = {PATH_LIST(NAME) NULL};

int path_choice_parse(const char *text, struct path_choice *c, struct err *e)
{
	double number[NAMED_NUMBERS];
	int i = named_parse(&path_table, text, number, e);

	if (i < 0)
		return -1;
	*c = (struct path_choice){paths[i].named.name, paths[i].config, paths[i].betas, number[0] == SIGMA_DATA_USUAL ? 0 : number[0]};
	return 0;
}

const struct path *path_choice_open(const struct path_choice *c, struct schedule *s)
{
	return schedule_path(s, c->config, &c->betas, c->sigma_data, NULL);
}

static double weigh_none(const struct path_point *p, double by)
{
	(void)p;
	(void)by;
	return 1;
}

static double weigh_velocity(const struct path_point *p, double by)
{
	double a, b;

	(void)by;
	prediction_relate(p, PREDICT_X0, PREDICT_VELOCITY, &a, &b);
	return b * b;
}

static double weigh_min_snr(const struct path_point *p, double gamma)
{
	return fmin(p->alpha * p->alpha / (p->sigma * p->sigma), gamma);
}

static double weigh_edm(const struct path_point *p, double by)
{
	double std = by ? by : p->sigma_data;

	return p->alpha * p->alpha / (p->sigma * p->sigma) + 1 / (std * std);
}

/* e^b sigmoid(l - b) = 1 / (e^-l + e^-b), and half of dl/dt = alpha'/alpha - sigma'/sigma. */
static double weigh_sigmoid(const struct path_point *p, double b)
{
	return (p->dsigma / p->sigma - p->dalpha / p->alpha) * p->alpha * p->alpha / (p->sigma * p->sigma + same_exp(-b) * p->alpha * p->alpha);
}

#define EDGES WEIGHTING_EDGE, 1 - WEIGHTING_EDGE

/* In the order of enum weighting_kind, from WEIGHTING_NONE. */
static const struct weighting_def {
	struct named named;
	int of_x0;              /* weighs the error of x0 instead of the prediction's error */
	double least_t, most_t; /* the time is clamped to this range */
	double (*weigh)(const struct path_point *p, double by);
} weightings[] = {
    {{.name = "none"}, 0, 0, 1, weigh_none},
    {{.name = "velocity"}, 1, WEIGHTING_LEAST_T, 1, weigh_velocity},
    {{.name = "min-snr", .numbers = ":GAMMA", .count = 1, .optional = 1, .number = {{5, 1e-3, 1e6}}}, 1, EDGES, weigh_min_snr},
    {{.name = "edm", .numbers = ":STD", .count = 1, .optional = 1, .number = {{0, 1e-3, 1e3}}}, 1, EDGES, weigh_edm},
    {{.name = "sigmoid", .numbers = ":BIAS", .count = 1, .optional = 1, .number = {{0, -20, 20}}}, 1, EDGES, weigh_sigmoid},
};
static const struct named_table weighting_table = NAMED_TABLE(weightings);

int weighting_parse(const char *text, struct weighting *w, struct err *e)
{
	double number[NAMED_NUMBERS];
	int i = named_parse(&weighting_table, text, number, e);

	if (i < 0)
		return -1;
	*w = (struct weighting){(enum weighting_kind)(WEIGHTING_NONE + i), number[0]};
	return 0;
}

const char *weighting_name(const struct weighting *w, int *numbered)
{
	const struct named *n = w->kind == WEIGHTING_USUAL ? NULL : named_row(&weighting_table, w->kind - WEIGHTING_NONE);

	*numbered = n && n->count;
	return n ? n->name : NULL;
}

static enum weighting_kind usual(enum prediction kind)
{
	return kind == PREDICT_X0 ? WEIGHTING_VELOCITY : WEIGHTING_NONE;
}

struct weighting weighting_reduced(struct weighting w, enum prediction kind)
{
	return w.kind == usual(kind) ? (struct weighting){WEIGHTING_USUAL, 0} : w;
}

double weighting_at(const struct weighting *w, const struct path *path, enum prediction kind, double t)
{
	const struct weighting_def *d = &weightings[(w->kind ? w->kind : usual(kind)) - WEIGHTING_NONE];
	struct path_point p;
	double a, b;

	if (!d->of_x0)
		return 1;
	/* Near t = 1 the error of x0 that follows from an error of epsilon may be unbounded. */
	p = path_at(path, fmin(fmax(t, d->least_t), kind == PREDICT_X0 ? d->most_t : 1 - WEIGHTING_EDGE));
	prediction_relate(&p, kind, PREDICT_X0, &a, &b);
	return d->weigh(&p, w->by) * (b * b);
}

/* The key of a random draw. */
struct draw {
	uint64_t seed, step, index;
	enum rng_purpose purpose;
};

static double draw_uniform(const struct draw *d)
{
	return rng_uniform(d->seed, d->purpose, d->step, d->index, 0);
}

static double draw_normal(const struct draw *d)
{
	uint32_t w[4];
	float z[4];

	rng_block(d->seed, d->purpose, d->step, d->index, 0, w);
	rng_normal4(w, z);
	return z[0];
}

static double time_uniform(const struct time_law *law, const struct path *path, const struct draw *d)
{
	(void)law;
	return path->lo + draw_uniform(d) * (path->hi - path->lo);
}

static double time_logit_normal(const struct time_law *law, const struct path *path, const struct draw *d)
{
	double t = 1 / (1 + same_exp(-(law->mean + law->std * draw_normal(d))));

	(void)path;
	return fmin(t, 1 - 0x1p-24);
}

static double time_lognormal(const struct time_law *law, const struct path *path, const struct draw *d)
{
	return path_time(path, -2 * (law->mean + law->std * draw_normal(d)));
}

static double time_discrete(const struct time_law *law, const struct path *path, const struct draw *d)
{
	const struct schedule *s = schedule_of(path);
	double steps = s ? (double)s->steps : 1000, k = floor(draw_uniform(d) * steps);

	(void)law;
	return s ? schedule_time(s, k) : (k + 1) / steps;
}

void time_span(struct time_range range, const struct path *path, double *lo, double *hi)
{
	*lo = fmax(path->lo, range.from);
	*hi = fmin(path->hi, time_range_end(range));
}

static double uniform_within(const struct time_law *law, const struct time_range *r, const struct path *path, const struct draw *d)
{
	double lo, hi;

	(void)law;
	time_span(*r, path, &lo, &hi);
	return lo + draw_uniform(d) * (hi - lo);
}

static double normal_below(double z)
{
	return .5 * same_erfc(-z * .70710678118654752440);
}

enum { NORMAL_FAR = 40 }; /* beyond so many deviations the probability is 0 in double precision */

/* The probability that a standard normal number is between a and b. The smaller tail keeps its digits. */
static double normal_between(double a, double b)
{
	return a > 0 ? normal_below(-a) - normal_below(-b) : normal_below(b) - normal_below(a);
}

/* The quantile u of a standard normal number that is known to be between a and b: by bisection, because the quantile function of the normal
 * distribution is not in libm. */
static double normal_within(double a, double b, double u)
{
	double below, want, lo, hi;

	if (a > 0)
		return -normal_within(-b, -a, 1 - u);
	below = normal_below(a);
	want = below + u * (normal_below(b) - below);
	lo = fmax(a, -NORMAL_FAR);
	hi = fmin(b, NORMAL_FAR);
	for (;;) {
		double middle = lo + .5 * (hi - lo);

		if (!(middle > lo && middle < hi))
			return lo;
		if (normal_below(middle) < want)
			lo = middle;
		else
			hi = middle;
	}
}

/* The ends of a range in standard deviations of a normal law, `of` being the function of t that is normal. What the law draws beyond an end of the
 * path is moved to that end (time_sample), so a range that reaches the end includes it. */
struct ends {
	double a, b;
};

static struct ends normal_ends(const struct time_law *law, const struct time_range *r, const struct path *path,
                               double (*of)(const struct path *path, double t))
{
	return (struct ends){r->from <= path->lo ? -INFINITY : (of(path, r->from) - law->mean) / law->std,
	                     time_range_end(*r) >= path->hi ? INFINITY : (of(path, r->to) - law->mean) / law->std};
}

static double logit(const struct path *path, double t)
{
	(void)path;
	return same_log(t / (1 - t));
}

static double log_ratio(const struct path *path, double t)
{
	return -.5 * path_at(path, t).logsnr;
}

static double logit_normal_within(const struct time_law *law, const struct time_range *r, const struct path *path, const struct draw *d)
{
	struct ends s = normal_ends(law, r, path, logit);
	double t = 1 / (1 + same_exp(-(law->mean + law->std * normal_within(s.a, s.b, draw_uniform(d)))));

	return fmin(t, 1 - 0x1p-24);
}

static double lognormal_within(const struct time_law *law, const struct time_range *r, const struct path *path, const struct draw *d)
{
	struct ends s = normal_ends(law, r, path, log_ratio);

	return path_time(path, -2 * (law->mean + law->std * normal_within(s.a, s.b, draw_uniform(d))));
}

static double step_time(const struct path *path, int64_t k)
{
	const struct schedule *s = schedule_of(path);

	return s ? schedule_time(s, (double)k) : ((double)k + 1) / 1000;
}

/* The first step at time t or later; the number of steps if there is none. */
static int64_t step_from(const struct path *path, double t)
{
	const struct schedule *s = schedule_of(path);
	int64_t lo = 0, hi = s ? s->steps : 1000;

	while (lo < hi) {
		int64_t middle = (lo + hi) / 2;

		if (step_time(path, middle) < t)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

/* The steps in the range: from *first, as many as are returned. */
static int64_t steps_in(const struct time_range *r, const struct path *path, int64_t *first)
{
	*first = step_from(path, r->from);
	return step_from(path, time_range_end(*r) == 1 ? INFINITY : r->to) - *first;
}

static double discrete_within(const struct time_law *law, const struct time_range *r, const struct path *path, const struct draw *d)
{
	int64_t first, n = steps_in(r, path, &first);

	(void)law;
	return step_time(path, first + (int64_t)floor(draw_uniform(d) * (double)n));
}

static double uniform_mass(const struct time_law *law, const struct time_range *r, const struct path *path)
{
	double lo, hi;

	(void)law;
	time_span(*r, path, &lo, &hi);
	return hi - lo;
}

static double logit_normal_mass(const struct time_law *law, const struct time_range *r, const struct path *path)
{
	struct ends s = normal_ends(law, r, path, logit);

	return normal_between(s.a, s.b);
}

static double lognormal_mass(const struct time_law *law, const struct time_range *r, const struct path *path)
{
	struct ends s = normal_ends(law, r, path, log_ratio);

	return normal_between(s.a, s.b);
}

static double discrete_mass(const struct time_law *law, const struct time_range *r, const struct path *path)
{
	int64_t first;

	(void)law;
	return (double)steps_in(r, path, &first);
}

/* In the order of enum time_kind. */
static const struct time_def {
	struct named named;
	double (*draw)(const struct time_law *law, const struct path *path, const struct draw *d);
	double (*draw_within)(const struct time_law *law, const struct time_range *r, const struct path *path, const struct draw *d);
	double (*mass)(const struct time_law *law, const struct time_range *r, const struct path *path); /* above 0: the law draws in the range */
} times[] = {
    {{.name = "uniform"}, time_uniform, uniform_within, uniform_mass},
    {{.name = "logit-normal", .numbers = ":MEAN,STD", .count = 2, .optional = 1, .number = {{0, -20, 20}, {1, 1e-3, 20}}},
     time_logit_normal,
     logit_normal_within,
     logit_normal_mass},
    {{.name = "lognormal", .numbers = ":MEAN,STD", .count = 2, .optional = 1, .number = {{-1.2, -20, 20}, {1.2, 1e-3, 20}}},
     time_lognormal,
     lognormal_within,
     lognormal_mass},
    {{.name = "discrete"}, time_discrete, discrete_within, discrete_mass},
};
static const struct named_table time_table = NAMED_TABLE(times);

int time_law_parse(const char *text, struct time_law *law, struct err *e)
{
	double number[NAMED_NUMBERS];
	int i = named_parse(&time_table, text, number, e);

	if (i < 0)
		return -1;
	*law = (struct time_law){(enum time_kind)i, number[0], number[1]};
	return 0;
}

const char *time_law_name(const struct time_law *law, int *numbered)
{
	const struct named *n = named_row(&time_table, law->kind);

	*numbered = n->count > 0;
	return n->name;
}

int time_check(const struct time_law *law, struct time_range range, const struct path *path, struct err *e)
{
	double lo, hi;

	time_span(range, path, &lo, &hi);
	if (lo < hi && times[law->kind].mass(law, &range, path) >= DBL_MIN)
		return 0;
	return err_set(e, ERR_USAGE, "the law of times '%s' draws none from %g to %g on path %s", times[law->kind].named.name, range.from,
	               time_range_end(range), path->name);
}

double time_sample(const struct time_law *law, const struct time_range *range, const struct path *path, uint64_t seed, enum rng_purpose purpose,
                   uint64_t step, uint64_t index)
{
	const struct draw d = {seed, step, index, purpose};
	double t;

	if (!range || range->to == 0)
		return fmin(fmax(times[law->kind].draw(law, path, &d), path->lo), path->hi);
	t = fmin(fmax(times[law->kind].draw_within(law, range, path, &d), fmax(path->lo, range->from)), path->hi);
	/* Rounding may reach the upper end, which is not in the range. */
	return time_range_holds(*range, t) ? t : nextafter(range->to, 0);
}

struct objective_point objective_at(const struct objective_def *o, const struct path *path, double t)
{
	struct objective_point p = {.at = path_at(path, t), .weight = weighting_at(&o->weighting, path, o->prediction, t)};

	path_target_weights(&p.at, o->prediction, &p.from_x0, &p.from_eps);
	return p;
}
