/* Coefficients of the paths at a time, and of what a network may predict on them. */
#include "diffusion/path.h"

#include <math.h>
#include <string.h>

struct path_point path_at(const struct path *p, double t)
{
	return p->at(p, t);
}

double path_time(const struct path *p, double logsnr)
{
	return p->time(p, logsnr);
}

static struct path_point linear_at(const struct path *path, double t)
{
	(void)path;
	return (struct path_point){1 - t, t, -1, 1, 2 * (log1p(-t) - log(t))};
}

static double linear_time(const struct path *path, double logsnr)
{
	(void)path;
	return 1 / (1 + exp(.5 * logsnr));
}

const struct path path_linear = {"linear", 0, 1, linear_at, linear_time};

#define COSINE_OFFSET .008
#define COSINE_RATE (1.5707963267948966 / (1 + COSINE_OFFSET))
#define COSINE_START (COSINE_OFFSET * COSINE_RATE)

/* 1 - alpha^2 as a product of sines: the difference of squares would lose sigma near t = 0. */
static struct path_point cosine_at(const struct path *path, double t)
{
	double a = (t + COSINE_OFFSET) * COSINE_RATE, c0 = cos(COSINE_START);
	struct path_point p;

	(void)path;
	p.alpha = fmax(cos(a), 0) / c0;
	p.sigma = sqrt(fmax(sin(a - COSINE_START), 0) * sin(a + COSINE_START)) / c0;
	p.dalpha = -sin(a) * COSINE_RATE / c0;
	p.dsigma = -p.alpha * p.dalpha / p.sigma;
	p.logsnr = 2 * (log(p.alpha) - log(p.sigma));
	return p;
}

static double cosine_time(const struct path *path, double logsnr)
{
	double alpha = sqrt(1 / (1 + exp(-logsnr)));

	(void)path;
	return fmin(fmax(acos(alpha * cos(COSINE_START)) / COSINE_RATE - COSINE_OFFSET, 0), 1);
}

const struct path path_cosine = {"cosine", .001, .999, cosine_at, cosine_time};

const struct path *path_find(const char *name)
{
	static const struct path *const all[] = {&path_linear, &path_cosine};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(name, all[i]->name))
			return all[i];
	return NULL;
}

int prediction_find(const char *name)
{
	static const struct {
		const char *name;
		enum prediction p;
	} all[] = {{"velocity", PREDICT_VELOCITY}, {"v", PREDICT_VELOCITY}, {"x0", PREDICT_X0},
	           {"epsilon", PREDICT_EPSILON},   {"eps", PREDICT_EPSILON}, {"v_prediction", PREDICT_ANGULAR}};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(name, all[i].name))
			return (int)all[i].p;
	return -1;
}

const char *prediction_name(enum prediction p)
{
	static const char *const names[] = {"velocity", "x0", "epsilon", "v_prediction"};

	return names[p];
}

void path_target_weights(const struct path_point *p, enum prediction kind, double *c, double *d)
{
	switch (kind) { /* the default is PREDICT_ANGULAR */
	case PREDICT_VELOCITY:
		*c = p->dalpha;
		*d = p->dsigma;
		return;
	case PREDICT_X0:
		*c = 1;
		*d = 0;
		return;
	case PREDICT_EPSILON:
		*c = 0;
		*d = 1;
		return;
	default:
		*c = -p->sigma;
		*d = p->alpha;
	}
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

double path_weight(const struct path *path, enum prediction kind, double t)
{
	struct path_point p;
	double a, b;

	if (kind != PREDICT_X0)
		return 1;
	p = path_at(path, fmax(t, PATH_LOSS_T));
	prediction_relate(&p, PREDICT_X0, PREDICT_VELOCITY, &a, &b);
	return b * b;
}

double time_sample(const struct time_law *law, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index)
{
	uint32_t w[4];
	float z[4];
	double t;

	if (law->kind == TIME_UNIFORM)
		return rng_uniform(seed, purpose, step, index, 0);
	rng_block(seed, purpose, step, index, 0, w);
	rng_normal4(w, z);
	t = 1 / (1 + exp(-(law->mean + law->std * z[0])));
	return fmin(t, 1 - 0x1p-24);
}
