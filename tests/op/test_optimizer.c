/* SUMSQ, TOTAL, RATES, ADAMW against AdamW as in its paper, one element at a time in double; NOISE against rng_normal. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "kernels/optimizer.h"
#include "tape/params.h"

static double *normals(int64_t n, uint64_t index)
{
	float *f = mem_zalloc((size_t)n + 1, sizeof *f);
	double *v = mem_zalloc((size_t)n + 1, sizeof *v);

	rng_normal(f, (size_t)n, 3, RNG_TEST, 0, index);
	for (int64_t i = 0; i < n; i++)
		v[i] = f[i];
	mem_free(f);
	return v;
}

/* n values in the device's type, in memory of exactly that size. */
static void *reals(enum dtype t, const double *v, int64_t n)
{
	void *p = mem_zalloc((size_t)n, dtype_size(t));

	for (int64_t i = 0; i < n; i++)
		if (t == DT_F64)
			((double *)p)[i] = v[i];
		else
			((float *)p)[i] = (float)v[i];
	return p;
}

static double real_at(enum dtype t, const void *p, int64_t i)
{
	return t == DT_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static double sum_of(struct device *d, enum op op, void *x, int64_t n, double before, int anew)
{
	double y = before;
	struct op_call c = {
	    .nin = 1, .nout = 1, .in = {array_vector(d->real, x, n)}, .out = {array_vector(DT_F64, &y, 1)}, .attr = {.total = {anew}}};
	void *scratch = mem_try(device_scratch(d, op, &c), 1, "scratch", NULL);

	memset(scratch, 0xff, device_scratch(d, op, &c));
	device_run(d, op, &c, scratch);
	mem_free(scratch);
	return y;
}

/* SUMSQ as several ranks compute it: the sums of the chunks in two calls, and TOTAL of them. */
static double sum_by_chunks(struct device *d, char *x, int64_t n)
{
	int64_t chunks = (n + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK, first = chunks / 2;
	double part[16], y = NAN;
	struct op_call total = {
	    .nin = 1, .nout = 1, .in = {array_vector(DT_F64, part, chunks)}, .out = {array_vector(DT_F64, &y, 1)}, .attr = {.total = {1}}};

	assert_in_range(chunks, 1, 16);
	for (int half = 0; half < 2; half++) {
		int64_t at = half ? first : 0, count = half ? chunks - first : first, end = half ? n : first * SUMSQ_CHUNK;
		struct op_call c = {.nin = 1,
		                    .nout = 1,
		                    .in = {array_vector(d->real, x + at * SUMSQ_CHUNK * (int64_t)dtype_size(d->real), end - at * SUMSQ_CHUNK)},
		                    .out = {array_vector(DT_F64, part + at, count)}};
		void *scratch = mem_try(device_scratch(d, OP_SUMSQ, &c) + 1, 1, "scratch", NULL);

		if (count)
			device_run(d, OP_SUMSQ, &c, scratch);
		mem_free(scratch);
	}
	device_run(d, OP_TOTAL, &total, NULL);
	return y;
}

static void sums(void **state)
{
	static const int64_t sizes[] = {1, 15, 16, 17, 16384, 16385, 50001};
	struct pool *pool = pool_new(3, NULL);

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int real = DT_F32; real <= DT_F64; real++) {
			int64_t n = sizes[s];
			double *v = normals(n, s), squares = 0, plain = 7;
			void *x = reals((enum dtype)real, v, n);
			struct device *one = device_cpu(NULL, (enum dtype)real), *three = device_cpu(pool, (enum dtype)real);
			double a = sum_of(one, OP_SUMSQ, x, n, NAN, 0), b = sum_of(three, OP_SUMSQ, x, n, NAN, 0);

			for (int64_t i = 0; i < n; i++) {
				squares += v[i] * v[i];
				plain += v[i];
			}
			assert_memory_equal(&a, &b, sizeof a);
			b = sum_by_chunks(three, x, n);
			assert_memory_equal(&a, &b, sizeof a);
			assert_true(fabs(a - squares) <= 1e-13 * squares);
			assert_true(sum_of(one, OP_TOTAL, x, n, 7, 0) == plain);
			assert_true(fabs(sum_of(one, OP_TOTAL, x, n, NAN, 1) - (plain - 7)) < 1e-9);
			v[n / 2] = NAN;
			mem_free(x);
			x = reals((enum dtype)real, v, n);
			assert_true(isnan(sum_of(three, OP_SUMSQ, x, n, 0, 0)));
			device_free(one);
			device_free(three);
			mem_free(x);
			mem_free(v);
		}
	pool_free(pool);
}

enum { N = 16389, RUNS = (N + DECAY_RUN - 1) / DECAY_RUN, STEPS = 5 };

struct moments {
	double p[N], m[N], v[N], ema[N];
};

/* Algorithm 2 of arXiv 1711.05101, with the gradient clipped by its norm, and with the average of the weights. */
static void reference(struct moments *s, const double *g, const double *mask, const double *plan, int n)
{
	double norm = 0, scale;

	for (int i = 0; i < N; i++)
		norm += g[i] * g[i];
	norm = sqrt(norm);
	scale = plan[PLAN_CLIP] > 0 ? fmin(1, plan[PLAN_CLIP] / norm) : 1;
	for (int i = 0; i < N; i++) {
		double gi = scale * g[i], mhat, vhat;

		s->m[i] = plan[PLAN_BETA1] * s->m[i] + (1 - plan[PLAN_BETA1]) * gi;
		s->v[i] = plan[PLAN_BETA2] * s->v[i] + (1 - plan[PLAN_BETA2]) * gi * gi;
		mhat = s->m[i] / (1 - pow(plan[PLAN_BETA1], n));
		vhat = s->v[i] / (1 - pow(plan[PLAN_BETA2], n));
		s->p[i] -= plan[PLAN_LR] * (mhat / (sqrt(vhat) + plan[PLAN_EPS]) + plan[PLAN_DECAY] * mask[i / DECAY_RUN] * s->p[i]);
		s->ema[i] = plan[PLAN_EMA] * s->ema[i] + (1 - plan[PLAN_EMA]) * s->p[i];
	}
}

struct subject {
	struct device *d;
	void *p, *m, *v, *ema, *mask;
	double status[STATUS_COUNT];
};

static void one_step(struct subject *u, void *g, double loss, const double *plan)
{
	double sumsq = sum_of(u->d, OP_SUMSQ, g, N, 0, 0), coef[COEF_COUNT];
	enum dtype t = u->d->real;
	struct op_call rates = {
	    .nin = 3,
	    .nout = 2,
	    .in = {array_vector(DT_F64, &sumsq, 1), array_vector(DT_F64, &loss, 1), array_vector(DT_F64, (void *)(uintptr_t)plan, PLAN_COUNT)},
	    .out = {array_vector(DT_F64, coef, COEF_COUNT), array_vector(DT_F64, u->status, STATUS_COUNT)}};
	struct op_call adamw = {.nin = 3,
	                        .nout = 4,
	                        .in = {array_vector(DT_F64, coef, COEF_COUNT), array_vector(t, g, N), array_vector(t, u->mask, RUNS)},
	                        .out = {array_vector(t, u->p, N), array_vector(t, u->m, N), array_vector(t, u->v, N), array_vector(t, u->ema, N)}};

	memset(coef, 0xff, sizeof coef);
	device_run(u->d, OP_RATES, &rates, NULL);
	device_run(u->d, OP_ADAMW, &adamw, NULL);
}

static void close_to(enum dtype t, const void *got, const double *want, double tol)
{
	for (int i = 0; i < N; i++)
		if (!(fabs(real_at(t, got, i) - want[i]) <= tol))
			fail_msg("element %d is %.9g, not %.9g", i, real_at(t, got, i), want[i]);
}

/* Steps 1 and 3 are not finite, one in its gradient and one in its loss. They change nothing, not even the count of the bias correction. */
static void follow(enum dtype t, double tol)
{
	static const double plan[PLAN_COUNT] = {
	    [PLAN_LR] = .01, [PLAN_BETA1] = .8, [PLAN_BETA2] = .95, [PLAN_EPS] = 1e-6, [PLAN_DECAY] = .1, [PLAN_EMA] = .7, [PLAN_CLIP] = 100};
	struct moments *want = mem_zalloc(1, sizeof *want);
	struct pool *pool = pool_new(2, NULL);
	double *p = normals(N, 50), *mask = mem_zalloc(RUNS, sizeof *mask);
	struct subject u = {.d = device_cpu(pool, t)};
	int updates = 0;

	for (int i = 0; i < RUNS; i++)
		mask[i] = i % 3 != 0;
	memcpy(want->p, p, sizeof want->p);
	memcpy(want->ema, p, sizeof want->ema);
	u.p = reals(t, p, N);
	u.ema = reals(t, p, N);
	u.m = reals(t, want->m, N);
	u.v = reals(t, want->v, N);
	u.mask = reals(t, mask, RUNS);
	for (int s = 0; s < STEPS; s++) {
		double *g = normals(N, 60 + (uint64_t)s), loss = s == 3 ? INFINITY : s;
		int finite = s != 1 && s != 3;
		void *gr;

		for (int i = 0; i < N; i++)
			g[i] *= s == 2 ? .1 : 1; /* norms of 128 and of 13: with and without clipping */
		if (s == 1)
			g[N - 1] = NAN;
		gr = reals(t, g, N);
		one_step(&u, gr, loss, plan);
		if (finite)
			reference(want, g, mask, plan, ++updates);
		assert_true(u.status[STATUS_UPDATES] == updates);
		assert_true(u.status[STATUS_FINITE] == finite);
		assert_true(u.status[STATUS_SKIPPED_IN_A_ROW] == !finite);
		assert_true(u.status[STATUS_LOSS] == loss);
		close_to(t, u.p, want->p, tol);
		close_to(t, u.m, want->m, tol);
		close_to(t, u.v, want->v, tol);
		close_to(t, u.ema, want->ema, tol);
		mem_free(gr);
		mem_free(g);
	}
	device_free(u.d);
	pool_free(pool);
	mem_free(u.p);
	mem_free(u.m);
	mem_free(u.v);
	mem_free(u.ema);
	mem_free(u.mask);
	mem_free(p);
	mem_free(mask);
	mem_free(want);
}

static void adamw(void **state)
{
	(void)state;
	follow(DT_F64, 1e-13);
	follow(DT_F32, 2e-6); /* weights up to 4, three roundings in each of three updates */
}

static void ref_noise(const struct op_call *c)
{
	int64_t n = c->out[0].shape[0], size = array_count(&c->out[0]) / n;
	float *z = mem_zalloc((size_t)size, sizeof *z);

	for (int64_t b = 0; b < n; b++) {
		rng_normal(z, (size_t)size, c->keys->seed, (enum rng_purpose)c->keys->purpose, c->keys->step, c->keys->first + (uint64_t)b);
		for (int64_t i = 0; i < size; i++)
			((double *)c->out[0].data)[b * size + i] = z[i];
	}
	mem_free(z);
}

static void noise(void **state)
{
	static const struct operand shapes[] = {{.rank = 4, .shape = {3, 2, 3, 5}, .batch = 1, .dense = 1},
	                                        {.rank = 1, .shape = {4}, .batch = 1, .dense = 1},
	                                        {.rank = 2, .shape = {2, 5003}, .batch = 1, .dense = 1}};

	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct optest t = {
		    .name = "NOISE", .op = OP_NOISE, .nout = 1, .out = {shapes[i]}, .ref = ref_noise, .tol32 = 1e-300, .tol64 = 1e-300};

		optest_run(&t);
	}
}

/* A table with a gap after every parameter, with one longer than a run and one that is not trained: every element gets its parameter's flag. */
static void decay(void **state)
{
	static const struct {
		const char *name;
		int64_t count;
		int flags;
	} of[] = {{"a", 17, PARAM_DECAY}, {"b", 1, 0}, {"c", 33, PARAM_DECAY}, {"d", 16, 0}, {"e", 5, PARAM_DECAY | PARAM_FROZEN},
	          {"f", 2, PARAM_DECAY}};
	struct params p = {0};
	float *mask;

	(void)state;
	for (int i = 0; i < 6; i++)
		params_add(&p, of[i].name, 1, &of[i].count, of[i].flags, (struct init){.kind = INIT_ZERO});
	params_layout(&p);
	assert_int_equal(p.trainable, 32 + 16 + 48 + 16 + 16);
	assert_int_equal(params_decay_runs(&p) * DECAY_RUN, p.trainable);
	mask = mem_try((size_t)params_decay_runs(&p), sizeof *mask, "mask", NULL); /* exactly the needed size */
	params_decay_mask(&p, mask);
	for (int i = 0; i < 6; i++)
		for (int64_t k = 0; !(of[i].flags & PARAM_FROZEN) && k < of[i].count; k++)
			assert_true(mask[(p.v[i].offset + k) / DECAY_RUN] == (of[i].flags & PARAM_DECAY ? 1 : 0));
	mem_free(mask);
	params_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(adamw), cmocka_unit_test(noise), cmocka_unit_test(decay)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
