/* Predictions and logits from the posterior of a law. */
#include "diffusion/law.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/convert.h"

int law_allocate(struct law *l, struct err *e)
{
	l->share = mem_zalloc((size_t)l->clusters, sizeof *l->share);
	l->mass = mem_zalloc(LAW_ROWS, sizeof *l->mass);
	l->at = mem_zalloc(LAW_ROWS, sizeof *l->at);
	return (l->mean = mem_try(LAW_ROWS * (size_t)l->d, sizeof *l->mean, "rows", e)) &&
	               (l->logit = mem_try(LAW_ROWS * (size_t)l->clusters, sizeof *l->logit, "logits", e))
	           ? 0
	           : -1;
}

void law_release(struct law *l)
{
	mem_free(l->share);
	mem_free(l->mean);
	mem_free(l->mass);
	mem_free(l->logit);
	mem_free(l->at);
}

void law_free(struct law *l)
{
	if (l)
		l->free(l);
}

void law_posterior(struct law *l, int cluster, int64_t n, const float *x, const struct path_point *at, double *mass, double *mean)
{
	l->posterior(l, cluster, n, x, at, mass, mean);
}

static void locate(struct law *l, const struct path *path, int64_t n, const float *t)
{
	for (int64_t i = 0; i < n; i++)
		l->at[i] = path_at(path, fmax(t[i], CONVERT_MIN_T));
}

void law_predict(struct law *l, int cluster, const struct path *path, enum prediction kind, int64_t n, const float *x, const float *t, float *out)
{
	int64_t d = l->d;

	for (int64_t i = 0; i < n; i += LAW_ROWS) {
		int64_t rows = n - i < LAW_ROWS ? n - i : LAW_ROWS;

		locate(l, path, rows, t + i);
		l->posterior(l, cluster, rows, x + i * d, l->at, NULL, l->mean);
		for (int64_t r = 0; r < rows; r++) {
			double a, b;

			prediction_relate(&l->at[r], PREDICT_X0, kind, &a, &b);
			for (int64_t j = 0; j < d; j++)
				out[(i + r) * d + j] = (float)(a * x[(i + r) * d + j] + b * l->mean[r * d + j]);
		}
	}
}

void law_logits(struct law *l, const struct path *path, int64_t n, const float *x, const float *t, float *logits)
{
	int clusters = l->clusters;

	for (int64_t i = 0; i < n; i += LAW_ROWS) {
		int64_t rows = n - i < LAW_ROWS ? n - i : LAW_ROWS;

		locate(l, path, rows, t + i);
		for (int k = 0; k < clusters; k++) {
			l->posterior(l, k, rows, x + i * l->d, l->at, l->mass, NULL);
			for (int64_t r = 0; r < rows; r++)
				l->logit[r * clusters + k] = l->mass[r];
		}
		for (int64_t r = 0; r < rows; r++) {
			double top = -INFINITY;

			for (int k = 0; k < clusters; k++)
				top = fmax(top, l->logit[r * clusters + k]);
			for (int k = 0; k < clusters; k++)
				logits[(i + r) * clusters + k] = (float)(l->logit[r * clusters + k] - top);
		}
	}
}

/* The score of cluster k is (alpha E[x0 | x, k] - x) / sigma^2 (Tweedie); the terms without k cancel. */
void law_pull_logits(struct law *l, const struct path *path, int64_t n, const float *x, const float *t, const float *r, float *out)
{
	int64_t d = l->d;
	double *sum = mem_alloc((size_t)d * sizeof *sum);

	for (int64_t i = 0; i < n; i++) {
		locate(l, path, 1, t + i);
		memset(sum, 0, (size_t)d * sizeof *sum);
		for (int k = 0; k < l->clusters; k++) {
			if (l->share[k] == 0)
				continue;
			l->posterior(l, k, 1, x + i * d, l->at, NULL, l->mean);
			for (int64_t j = 0; j < d; j++)
				sum[j] += (double)r[i * l->clusters + k] * l->mean[j];
		}
		for (int64_t j = 0; j < d; j++)
			out[i * d + j] = (float)(l->at->alpha / (l->at->sigma * l->at->sigma) * sum[j]);
	}
	mem_free(sum);
}

double law_flops(const struct law *l, int cluster, int with_mean)
{
	return l->flops(l, cluster, with_mean);
}
