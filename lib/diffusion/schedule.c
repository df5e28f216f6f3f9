/* Builds the noise tables of discrete-time paths, and interpolates between their steps. */
#include "diffusion/schedule.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/mem.h"
#include "core/samemath.h"

static const struct schedule *of_path(const struct path *p)
{
	return (const struct schedule *)(const void *)p;
}

static struct path_point table_at(const struct path *path, double t);

const struct schedule *schedule_of(const struct path *p)
{
	return p->at == table_at ? of_path(p) : NULL;
}

double schedule_time(const struct schedule *s, double k)
{
	return fmin(fmax((k + s->first) / s->unit, s->path.lo), s->path.hi);
}

/* alpha^2 = sigmoid(logsnr), whose derivative is alpha^2 sigma^2. */
static struct path_point table_at(const struct path *path, double t)
{
	const struct schedule *s = of_path(path);
	double k = fmin(fmax(t * s->unit - s->first, 0), (double)(s->steps - 1)), slope = 0;
	int64_t i = (int64_t)k;
	struct path_point p;

	i = i > s->steps - 2 ? s->steps - 2 : i;
	p.logsnr = s->logsnr[0];
	if (s->steps > 1) {
		slope = s->logsnr[i + 1] - s->logsnr[i];
		p.logsnr = s->logsnr[i] + (k - (double)i) * slope;
	}
	p.alpha = sqrt(1 / (1 + same_exp(-p.logsnr)));
	p.sigma = sqrt(1 / (1 + same_exp(p.logsnr)));
	slope *= .5 * s->unit * p.alpha * p.sigma;
	p.dalpha = slope * p.sigma;
	p.dsigma = -slope * p.alpha;
	return p;
}

static double table_time(const struct path *path, double logsnr)
{
	const struct schedule *s = of_path(path);
	int64_t lo = 0, hi = s->steps - 1;

	if (!(logsnr < s->logsnr[lo]))
		return path->lo;
	if (logsnr <= s->logsnr[hi])
		return path->hi;
	while (hi - lo > 1) {
		int64_t mid = (lo + hi) / 2;

		*(s->logsnr[mid] > logsnr ? &lo : &hi) = mid;
	}
	return schedule_time(s, (double)lo + (logsnr - s->logsnr[lo]) / (s->logsnr[hi] - s->logsnr[lo]));
}

#define COSINE_MOST .999

static double cosine_abar(double t)
{
	double a = same_cos((t + .008) / 1.008 * 1.5707963267948966);

	return a * a;
}

static double beta_of(const char *path, const struct betas *b, int64_t k)
{
	double n = (double)b->steps, u = b->steps > 1 ? (double)k / (n - 1) : 0, root;

	if (b->v)
		return b->v[k];
	if (!strcmp(path, "linear_betas"))
		return b->start + u * (b->end - b->start);
	if (!strcmp(path, "scaled_linear_betas")) {
		root = sqrt(b->start) + u * (sqrt(b->end) - sqrt(b->start));
		return root * root;
	}
	return fmin(1 - cosine_abar((double)(k + 1) / n) / cosine_abar((double)k / n), COSINE_MOST);
}

/* Fill the tables from the betas, or with `formula` from that continuous path at the time of each step. */
static void fill(struct schedule *s, const char *path, const struct betas *b, const struct path *formula)
{
	double abar = 1;

	for (int64_t k = 0; k < s->steps; k++) {
		if (formula) {
			s->logsnr[k] = path_at(formula, schedule_time(s, (double)k)).logsnr;
			s->abar[k] = 1 / (1 + same_exp(-s->logsnr[k]));
			continue;
		}
		s->abar[k] = abar *= 1 - beta_of(path, b, k);
		s->logsnr[k] = same_log(abar) - same_log1p(-abar);
	}
}

int schedule_init(struct schedule *s, const char *path, const struct betas *b, struct err *e)
{
	static const struct betas thousand = {.steps = 1000}, within = {.steps = 999};
	const struct path *continuous = path_find(path), *formula = continuous == &path_cosine ? NULL : continuous;

	memset(s, 0, sizeof *s);
	b = formula ? &within : continuous ? &thousand : b;
	if (!continuous && (!betas_path(path) || b->steps < 1))
		return err_set(e, ERR_DATA, "path \"%s\" has no table of noise", path);
	s->steps = b->steps;
	s->first = continuous != NULL;
	s->unit = formula ? 1000 : (double)s->steps;
	s->path = (struct path){path, 0, (double)(s->steps - 1) / s->unit, table_at, table_time, 1, SIGMA_DATA_USUAL};
	if (continuous) {
		s->path.name = continuous->name;
		s->path.lo = fmax(continuous->lo, .001);
		s->path.hi = fmin(continuous->hi, .999);
	}
	s->abar = mem_zalloc(2 * (size_t)s->steps, sizeof *s->abar);
	s->logsnr = s->abar + s->steps;
	fill(s, path, b, formula);
	for (int64_t k = 0; k < s->steps; k++)
		if (!isfinite(s->logsnr[k]) || (k && s->logsnr[k] >= s->logsnr[k - 1])) {
			schedule_release(s);
			return err_set(e, ERR_DATA,
			               "path \"%s\": the noise level must rise from step to step and stay below 1; it does not at step %lld", path,
			               (long long)k);
		}
	return 0;
}

void schedule_release(struct schedule *s)
{
	mem_free(s->abar);
	memset(s, 0, sizeof *s);
}

const struct path *schedule_path(struct schedule *s, const char *path, const struct betas *b, double sigma_data, struct err *e)
{
	const struct path *formula = path_find(path);

	memset(s, 0, sizeof *s);
	if (formula == &path_edm && sigma_data && sigma_data != path_edm.sigma_data) {
		s->path = path_edm;
		s->path.sigma_data = sigma_data;
		return &s->path;
	}
	if (formula)
		return formula;
	if (!betas_path(path)) {
		err_set(e, ERR_DATA, "path \"%s\" is not known here", path);
		return NULL;
	}
	return schedule_init(s, path, b, e) ? NULL : &s->path;
}
