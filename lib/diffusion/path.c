/* Coefficients of the paths and of the kinds of prediction at a time. */
#include "diffusion/path.h"

#include <math.h>
#include <string.h>

#include "core/samemath.h"
#include "net/betas.h"

struct path_point path_at(const struct path *p, double t)
{
	struct path_point at = p->at(p, t);

	at.sigma_data = p->sigma_data;
	return at;
}

double path_time(const struct path *p, double logsnr)
{
	return p->time(p, logsnr);
}

static struct path_point linear_at(const struct path *path, double t)
{
	(void)path;
	return (struct path_point){.alpha = 1 - t, .sigma = t, .dalpha = -1, .dsigma = 1, .logsnr = 2 * (same_log1p(-t) - same_log(t))};
}

static double linear_time(const struct path *path, double logsnr)
{
	(void)path;
	return 1 / (1 + same_exp(.5 * logsnr));
}

const struct path path_linear = {"linear", 0, 1, linear_at, linear_time, 0, SIGMA_DATA_USUAL};

#define COSINE_OFFSET .008
#define COSINE_RATE (1.5707963267948966 / (1 + COSINE_OFFSET))
#define COSINE_START (COSINE_OFFSET * COSINE_RATE)

/* 1 - alpha^2 as a product of sines, because the difference of squares would lose sigma's digits near t = 0. */
static struct path_point cosine_at(const struct path *path, double t)
{
	double a = (t + COSINE_OFFSET) * COSINE_RATE, c0 = same_cos(COSINE_START);
	struct path_point p;

	(void)path;
	p.alpha = fmax(same_cos(a), 0) / c0;
	p.sigma = sqrt(fmax(same_sin(a - COSINE_START), 0) * same_sin(a + COSINE_START)) / c0;
	p.dalpha = -same_sin(a) * COSINE_RATE / c0;
	p.dsigma = -p.alpha * p.dalpha / p.sigma;
	p.logsnr = 2 * (same_log(p.alpha) - same_log(p.sigma));
	return p;
}

static double cosine_time(const struct path *path, double logsnr)
{
	double alpha = sqrt(1 / (1 + same_exp(-logsnr)));

	(void)path;
	return fmin(fmax(same_acos(alpha * same_cos(COSINE_START)) / COSINE_RATE - COSINE_OFFSET, 0), 1);
}

const struct path path_cosine = {"cosine", .001, .999, cosine_at, cosine_time, 1, SIGMA_DATA_USUAL};

#define QUARTER_TURN 1.5707963267948966

/* alpha as a sine, because the cosine near a quarter turn would lose its digits near t = 1. */
static struct path_point gvp_at(const struct path *path, double t)
{
	struct path_point p = {.alpha = same_sin(QUARTER_TURN * (1 - t)), .sigma = same_sin(QUARTER_TURN * t)};

	(void)path;
	p.dalpha = -QUARTER_TURN * p.sigma;
	p.dsigma = QUARTER_TURN * p.alpha;
	p.logsnr = 2 * (same_log(p.alpha) - same_log(p.sigma));
	return p;
}

static double gvp_time(const struct path *path, double logsnr)
{
	(void)path;
	return same_atan(same_exp(-.5 * logsnr)) / QUARTER_TURN;
}

const struct path path_gvp = {"gvp", 0, 1, gvp_at, gvp_time, 1, SIGMA_DATA_USUAL};

const struct path *path_find(const char *name)
{
	static const struct path *const all[] = {&path_linear, &path_cosine, &path_gvp, &path_edm};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(name, all[i]->name))
			return all[i];
	return NULL;
}

/* Every prediction is c x0 + d eps; these functions give c and d. */
static void velocity_weights(const struct path_point *p, double *c, double *d)
{
	*c = p->dalpha;
	*d = p->dsigma;
}

static void x0_weights(const struct path_point *p, double *c, double *d)
{
	(void)p;
	*c = 1;
	*d = 0;
}

static void epsilon_weights(const struct path_point *p, double *c, double *d)
{
	(void)p;
	*c = 0;
	*d = 1;
}

static void angular_weights(const struct path_point *p, double *c, double *d)
{
	*c = -p->sigma;
	*d = p->alpha;
}

#define DEFINITION(kind, name, other, weights) {name, other, weights},
#define NAME(kind, name, other, weights) name,

static const struct {
	const char *name, *other;
	void (*weights)(const struct path_point *p, double *c, double *d);
} predictions[] = {PREDICTION_LIST(DEFINITION)};

const char *const prediction_names[] = {PREDICTION_LIST(NAME) NULL};

int prediction_find(const char *name)
{
	for (int i = 0; i < PREDICTIONS; i++)
		if (!strcmp(name, predictions[i].name) || (predictions[i].other && !strcmp(name, predictions[i].other)))
			return i;
	return -1;
}

const char *prediction_name(enum prediction p)
{
	return predictions[p].name;
}

void path_target_weights(const struct path_point *p, enum prediction kind, double *c, double *d)
{
	predictions[kind].weights(p, c, d);
}

/* Solves x = alpha x0 + sigma eps, out = c x0 + d eps for (x0, eps). */
void prediction_relate(const struct path_point *p, enum prediction from, enum prediction to, double *a, double *b)
{
	double c, d, c2, d2, det;

	if (from == to) {
		*a = 0;
		*b = 1;
		return;
	}
	path_target_weights(p, from, &c, &d);
	path_target_weights(p, to, &c2, &d2);
	det = p->alpha * d - p->sigma * c;
	*a = (c2 * d - d2 * c) / det;
	*b = (d2 * p->alpha - c2 * p->sigma) / det;
}

static void combine(float *out, double a, const float *x, double b, const float *y, int64_t n)
{
	float fa = (float)a, fb = (float)b;

	for (int64_t i = 0; i < n; i++)
		out[i] = fa * x[i] + fb * y[i];
}

void path_noise(const struct path_point *p, float *xt, const float *x0, const float *eps, int64_t d)
{
	combine(xt, p->alpha, x0, p->sigma, eps, d);
}

void path_target(const struct path_point *p, enum prediction kind, float *target, const float *x0, const float *eps, int64_t d)
{
	double a, b;

	path_target_weights(p, kind, &a, &b);
	combine(target, a, x0, b, eps, d);
}
