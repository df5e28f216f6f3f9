/* bench_metric [-t THREADS] [-s SECONDS] [PATTERN]: distances between all pairs of features, beside the best product in cache. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/rng.h"
#include "metric/kd.h"
#include "metric/neighbours.h"
#include "tests/bench/meter.h"

enum { N = 2000, D = 2048, LATENT = 32, MANY = 8192, MEASURED = 1280 };

struct sets {
	struct pool *pool;
	int64_t n;
	float *real, *fake; /* (n, D) */
	struct err err;
};

/* Features like those of a network: not negative, and of lower rank than their width. */
static float *features_make(uint64_t set)
{
	float *x = mem_alloc((size_t)N * D * sizeof *x), *basis = mem_alloc((size_t)LATENT * D * sizeof *basis), latent[LATENT];

	rng_normal(basis, (size_t)LATENT * D, 1, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < N; i++) {
		rng_normal(latent, LATENT, 1, RNG_TEST, 2 * set, (uint64_t)i);
		rng_normal(x + i * D, D, 1, RNG_TEST, 2 * set + 1, (uint64_t)i);
		for (int k = 0; k < D; k++) {
			float sum = .4f + .1f * x[i * D + k];

			for (int l = 0; l < LATENT; l++)
				sum += .25f / (float)(1 + l) * latent[l] * basis[l * D + k];
			x[i * D + k] = sum > 0 ? sum : 0;
		}
	}
	mem_free(basis);
	return x;
}

/* The variance of principal axis k of a classifier's features of photographs, relative to that of the first: a fit to EfficientNet-Lite0 (trained on
 * ImageNet, 1280 features) on 3,661 photographs of flowers. Beyond its 1280 axes little is left. */
static double spectrum(int k)
{
	double fit = pow(1 + k / 3.5, -1.1);

	return k < 256 ? fit : k < MEASURED ? fit * exp(-(k - 256) / 1200.) : fit * .1;
}

/* Features with that spectrum, of which each vector has a length of its own, mixed by a Hadamard transform. */
static float *spectral_make(uint64_t set)
{
	float *x = mem_alloc((size_t)MANY * D * sizeof *x), length;

	for (int64_t i = 0; i < MANY; i++) {
		float *row = x + i * D;

		rng_normal(row, D, 1, RNG_TEST, 2 * set, (uint64_t)i);
		rng_normal(&length, 1, 1, RNG_TEST, 2 * set + 1, (uint64_t)i);
		for (int k = 0; k < D; k++)
			row[k] *= sqrtf((float)spectrum(k)) * expf(.25f * length);
		for (int half = 1; half < D; half *= 2)
			for (int k = 0; k < D; k++)
				if (!(k & half)) {
					float a = row[k], b = row[k + half];

					row[k] = a + b;
					row[k + half] = a - b;
				}
	}
	return x;
}

static void neighbours_once(void *arg)
{
	struct sets *s = arg;
	struct neighbours out;

	neighbours_measure(&out, s->pool, s->real, s->n, s->fake, s->n, D, 3, 5, &s->err);
}

static void kernel_once(void *arg)
{
	struct sets *s = arg;
	struct kd out;

	kd_whole(&out, s->pool, s->real, s->n, s->fake, s->n, D, &s->err);
}

/* Pairs within one set are counted once. */
static void measure(struct bench *b, const char *name, void (*once)(void *arg), float *(*make)(uint64_t set), struct sets *s)
{
	struct duty duty = {once, s, 2. * D * (2. * (double)s->n * (double)s->n)};
	struct reading r;

	if (!bench_wants(b, name))
		return;
	if (!s->real) {
		s->real = make(1);
		s->fake = make(2);
	}
	r = bench_read(b, &duty, yard_product(b), 0, 3);
	if (s->err.code) {
		fprintf(stderr, "bench_metric: %s\n", s->err.msg);
		exit(1);
	}
	bench_print(name, r.rate / (2. * D) * 1e-6, "Mpairs/s", &r);
}

int main(int argc, char **argv)
{
	struct bench b;
	struct sets s = {.n = N}, many = {.n = MANY};

	bench_start(&b, "bench_metric", argc, argv);
	s.pool = many.pool = b.pool;
	measure(&b, "neighbours 2 x 2000 x 2048", neighbours_once, features_make, &s);
	measure(&b, "kernel distance 2 x 2000 x 2048, in double", kernel_once, features_make, &s);
	measure(&b, "neighbours 2 x 8192 x 2048, spectrum of photographs", neighbours_once, spectral_make, &many);
	mem_free(s.real);
	mem_free(s.fake);
	mem_free(many.real);
	mem_free(many.fake);
	bench_end(&b);
	return 0;
}
