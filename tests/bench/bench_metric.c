/* bench_metric [-t THREADS] [-s SECONDS] [PATTERN]: distances between all pairs of features, beside the best product in cache. */
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/rng.h"
#include "metric/kd.h"
#include "metric/neighbours.h"
#include "tests/bench/meter.h"

enum { N = 2000, D = 2048, LATENT = 32 };

struct sets {
	struct pool *pool;
	float *real, *fake; /* (N, D) */
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

static void neighbours_once(void *arg)
{
	struct sets *s = arg;
	struct neighbours out;

	neighbours_measure(&out, s->pool, s->real, N, s->fake, N, D, 3, 5, &s->err);
}

static void kernel_once(void *arg)
{
	struct sets *s = arg;
	struct kd out;

	kd_whole(&out, s->pool, s->real, N, s->fake, N, D, &s->err);
}

/* Pairs within one set are counted once. */
static void measure(struct bench *b, const char *name, void (*once)(void *arg), struct sets *s)
{
	struct duty duty = {once, s, 2. * D * (2. * N * N)};
	struct reading r;

	if (!bench_wants(b, name))
		return;
	if (!s->real) {
		s->real = features_make(1);
		s->fake = features_make(2);
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
	struct sets s = {0};

	bench_start(&b, "bench_metric", argc, argv);
	s.pool = b.pool;
	measure(&b, "neighbours 2 x 2000 x 2048", neighbours_once, &s);
	measure(&b, "kernel distance 2 x 2000 x 2048, in double", kernel_once, &s);
	mem_free(s.real);
	mem_free(s.fake);
	bench_end(&b);
	return 0;
}
