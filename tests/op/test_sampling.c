/* MIX, GUIDE, CONVERT, COMBINE, ADVANCE against plain loops in double. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>
#include "kernels/device.h"

static double at(const struct array *a, int64_t i, int64_t j)
{
	const int64_t idx[ARRAY_RANK] = {i, j};

	return *element(a, idx);
}

static void ref_mix(const struct op_call *c)
{
	const struct array *v = &c->in[0], *null = &c->in[1];

	for (int64_t b = 0; b < v->shape[0]; b++)
		for (int64_t j = 0; j < v->shape[1]; j++) {
			const int64_t to[ARRAY_RANK] = {index_value(&c->in[2], b), j}, bi[ARRAY_RANK] = {b};
			double u = at(v, b, j);

			if (null->rank)
				u = at(null, b, j) + c->attr.mix.guidance * (u - at(null, b, j));
			*element(&c->out[0], to) = *element(&c->in[4], bi) * u;
		}
}

/* Every row once, none with a contribution yet: the outputs hold NaN before. */
static void mix(void **state)
{
	static const int64_t sizes[][2] = {{1, 1}, {5, 7}, {16, 48}, {3, 20000}};
	static const double order[16] = {3, 1, 4, 0, 2, 9, 15, 5, 8, 7, 6, 10, 14, 12, 13, 11}, zeros[16] = {0};
	static const double five[5] = {3, 1, 4, 0, 2}, three[3] = {1, 2, 0};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int guided = 0; guided < 2; guided++) {
			int64_t n = sizes[s][0];
			struct operand v = {.rank = 2, .shape = {n, sizes[s][1]}}, none = {0};
			struct operand index = {.rank = 1,
			                        .shape = {n},
			                        .limit = (int)n,
			                        .dense = 1,
			                        .values = n == 16  ? order
			                                  : n == 5 ? five
			                                  : n == 3 ? three
			                                           : zeros};
			struct operand begun = {.rank = 1, .shape = {n}, .limit = 2, .dense = 1, .values = zeros};
			struct operand w = {.rank = 1, .shape = {n}, .dense = 1, .exact = 1};
			struct optest t = {.name = "MIX",
			                   .op = OP_MIX,
			                   .attr.mix = {1.75},
			                   .nin = 5,
			                   .nout = 1,
			                   .in = {v, guided ? v : none, index, begun, w},
			                   .out = {v},
			                   .ref = ref_mix,
			                   .tol32 = 1e-6,
			                   .tol64 = 1e-15};

			optest_run(&t);
		}
}

/* A group adds to rows that have a contribution, stores the others, and does not change rows outside the group. */
static void mix_adds(void **state)
{
	float y[4][3] = {{1, 2, 3}, {NAN, NAN, NAN}, {7, 8, 9}, {10, 11, 12}}, v[2][3] = {{1, -1, 2}, {4, 5, -6}}, w[2] = {.5f, 2};
	static const float want[4][3] = {{1, 2, 3}, {8, 10, -12}, {7, 8, 9}, {10.5f, 10.5f, 13}};
	int32_t index[2] = {3, 1}, begun[2] = {1, 0};
	struct device *d = device_cpu(NULL, DT_F32);
	struct op_call c = {
	    .nin = 5,
	    .nout = 1,
	    .in = {{v, DT_F32, 2, {2, 3}, {3, 1}}, {0}, array_vector(DT_I32, index, 2), array_vector(DT_I32, begun, 2), array_vector(DT_F32, w, 2)},
	    .out = {{y, DT_F32, 2, {4, 3}, {3, 1}}},
	    .attr = {.mix = {1}}};

	(void)state;
	device_run(d, OP_MIX, &c, NULL);
	assert_memory_equal(y, want, sizeof want);
	device_free(d);
}

/* One row at a time, with the sums as textbooks write them. */
static void ref_guide(const struct op_call *call)
{
	const struct array *x = &call->in[0], *c = &call->in[1], *u = &call->in[2], *m = &call->in[3], *next = &call->out[1];
	double a = x->rank ? call->attr.guide.a : 0, b = call->attr.guide.b, s = call->attr.guide.scale, phi = call->attr.guide.blend;
	int64_t n = c->shape[1];
	enum guide_rule rule = call->attr.guide.rule;

	for (int64_t i = 0; i < c->shape[0]; i++) {
		double cc = 0, uu = 0, cu = 0, gc = 0, gg = 0, mc = 0, mu = 0, shrink = 1, sc = 0, su = 0;

		for (int pass = 0; pass < 3; pass++)
			for (int64_t j = 0; j < n; j++) {
				const int64_t to[ARRAY_RANK] = {i, j};
				double ax = a ? a * at(x, i, j) : 0, pc = ax + b * at(c, i, j), pu = u->rank ? ax + b * at(u, i, j) : 0, r;
				double g = pc - pu + (m->rank ? call->attr.guide.momentum * at(m, i, j) : 0), k = cu / (uu + 1e-8);

				if (pass == 0) {
					cc += pc * pc, uu += pu * pu, cu += pc * pu, gc += g * pc, gg += g * g;
					mc += pc / (double)n, mu += pu / (double)n;
					continue;
				}
				if (pass == 1) {
					sc += (pc - mc) * (pc - mc), su += (pu - mu) * (pu - mu);
					continue;
				}
				if (call->attr.guide.limit > 0)
					shrink = fmin(1, call->attr.guide.limit / sqrt(gg));
				r = rule == GUIDE_LINEAR    ? pu + s * (pc - pu)
				    : rule == GUIDE_FIT     ? k * pu + s * (pc - k * pu)
				    : rule == GUIDE_PROJECT ? pc + (s - 1) * shrink * (g - gc / cc * pc + call->attr.guide.parallel * gc / cc * pc)
				    : rule == GUIDE_STD     ? phi * pu * (su > 0 ? sqrt(sc / su) : 1) + (1 - phi) * pu
				                            : 0;
				*element(&call->out[0], to) = at(c, i, j) + (r - pc) / b;
				if (next->rank)
					*element(next, to) = g;
			}
	}
}

/* Each rule, in the space of the predictions and in one that x enters, with and without a momentum and a limit that some rows exceed. */
static void guide(void **state)
{
	static const int64_t sizes[][2] = {{1, 1}, {5, 7}, {16, 48}, {3, 20000}};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int rule = GUIDE_LINEAR; rule <= GUIDE_STILL; rule++)
			for (int way = 0; way < 8; way++) {
				struct operand v = {.rank = 2, .shape = {sizes[s][0], sizes[s][1]}, .shift = .5}, none = {0};
				struct optest t = {.name = "GUIDE",
				                   .op = OP_GUIDE,
				                   .attr.guide = {(enum guide_rule)rule, way & 1 ? 1 : 0, way & 1 ? -.7 : 1, 2.5,
				                                  way & 2 ? 1.2 * sqrt((double)sizes[s][1]) : 0, .25, -.5, .7},
				                   .nin = 4,
				                   .nout = way & 4 ? 2 : 1,
				                   .in = {way & 1 ? v : none, v, rule == GUIDE_STILL ? none : v, way & 4 ? v : none},
				                   .out = {v, v},
				                   .ref = ref_guide,
				                   .tol32 = 1e-6,
				                   .tol64 = 1e-13,
				                   .in_place = 2};

				if (way & 6 && rule != GUIDE_PROJECT)
					continue;
				optest_run(&t);
				t.in_place = rule == GUIDE_STILL ? 2 : 3;
				optest_run(&t);
			}
}

/* A constant row has no deviation and a row of zeros no direction: the guided prediction is what it was, not NaN. */
static void guide_degenerate(void **state)
{
	float c[3] = {0, 0, 0}, u[3] = {2, 2, 2}, y[3];
	struct device *d = device_cpu(NULL, DT_F32);
	struct op_call call = {.nin = 4,
	                       .nout = 2,
	                       .in = {{0}, {c, DT_F32, 2, {1, 3}, {3, 1}}, {u, DT_F32, 2, {1, 3}, {3, 1}}, {0}},
	                       .out = {{y, DT_F32, 2, {1, 3}, {3, 1}}, {0}},
	                       .attr = {.guide = {.rule = GUIDE_STD, .b = 1, .blend = .5}}};

	(void)state;
	device_run(d, OP_GUIDE, &call, NULL);
	assert_memory_equal(y, u, sizeof y);
	call.attr = (struct op_attr){.guide = {.rule = GUIDE_PROJECT, .b = 1, .scale = 3}};
	device_run(d, OP_GUIDE, &call, NULL);
	for (int i = 0; i < 3; i++)
		assert_true(y[i] == -4);
	device_free(d);
}

static void ref_convert(const struct op_call *c)
{
	const struct array *x = &c->in[0], *out = &c->in[1], *mean = &c->in[2], *v = &c->out[0];
	double a = c->attr.convert.a, b = c->attr.convert.b, t = c->attr.convert.t, blend = c->attr.convert.blend;

	for (int64_t i = 0; i < x->shape[0]; i++)
		for (int64_t j = 0; j < x->shape[1]; j++) {
			const int64_t to[ARRAY_RANK] = {i, j}, one[ARRAY_RANK] = {j};
			double x0 = a * at(x, i, j) + b * at(out, i, j), most = (double)c->attr.convert.limit;

			x0 = most > 0 && x0 > most ? most : most > 0 && x0 < -most ? -most : x0;
			if (mean->rank)
				x0 = (1 - blend) * x0 + blend * *element(mean, one);
			*element(v, to) = c->attr.convert.identity   ? at(out, i, j)
			                  : c->attr.convert.minus_x0 ? at(out, i, j) - x0
			                                             : (at(x, i, j) - x0) / t;
		}
}

static void convert(void **state)
{
	static const int64_t kinds[][3] = {{1, 0, 0}, {0, 0, 0}, {0, 1, 0}, {0, 0, 2}, {0, 1, 1}};
	static const int64_t sizes[][2] = {{1, 1}, {5, 7}, {3, 20000}};

	(void)state;
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
			for (int blend = 0; blend < 2; blend++) {
				struct operand x = {.rank = 2, .shape = {sizes[s][0], sizes[s][1]}, .scale = 2};
				struct operand mean = {.rank = blend, .shape = {sizes[s][1]}, .dense = 1};
				struct optest t = {.name = "CONVERT",
				                   .op = OP_CONVERT,
				                   .nin = 3,
				                   .nout = 1,
				                   .attr.convert = {(int)kinds[k][0], (int)kinds[k][1], kinds[k][2], 1.25, -.75, .3, .4},
				                   .in = {x, x, mean},
				                   .out = {x},
				                   .ref = ref_convert,
				                   .tol32 = 1e-6,
				                   .tol64 = 1e-14,
				                   .in_place = 2};

				optest_run(&t);
			}
}

static void ref_combine(const struct op_call *c)
{
	for (int64_t i = 0; i < c->out[0].shape[0]; i++)
		for (int64_t j = 0; j < c->out[0].shape[1]; j++) {
			const int64_t idx[ARRAY_RANK] = {i, j};
			double u = 0, most = c->attr.combine.limit;

			for (int k = 0; k < c->nin; k++)
				u += c->in[k].rank ? c->attr.combine.f[k] * at(&c->in[k], i, j) : 0;
			*element(&c->out[0], idx) = most > 0 && u > most ? most : most > 0 && u < -most ? -most : u;
		}
}

/* Every number of inputs, with one absent in the middle, with and without a limit. */
static void combine(void **state)
{
	static const int64_t sizes[][2] = {{1, 1}, {5, 7}, {3, 20000}};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int n = 1; n <= OP_COMBINED; n++)
			for (int limited = 0; limited < 2; limited++) {
				struct operand x = {.rank = 2, .shape = {sizes[s][0], sizes[s][1]}, .scale = 2}, none = {0};
				struct optest t = {.name = "COMBINE",
				                   .op = OP_COMBINE,
				                   .nin = n,
				                   .nout = 1,
				                   .attr.combine = {{1.25, -.75, .3, .4, -1.5}, limited ? .8 : 0},
				                   .in = {x, x, n > 3 ? none : x, x, x},
				                   .out = {x},
				                   .ref = ref_combine,
				                   .tol32 = 1e-6,
				                   .tol64 = 1e-14,
				                   .in_place = 1};

				optest_run(&t);
			}
}

static void ref_advance(const struct op_call *c)
{
	for (int64_t i = 0; i < c->out[0].shape[0]; i++) {
		const int64_t idx[ARRAY_RANK] = {i};
		double u = *element(&c->in[1], idx) + (c->in[2].rank ? *element(&c->in[2], idx) : 0);

		*element(&c->out[0], idx) = (c->in[0].rank ? *element(&c->in[0], idx) : 0) + c->attr.advance.h * u;
	}
}

static void advance(void **state)
{
	static const int64_t sizes[] = {1, 5, 4096, 40001};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int which = 0; which < 4; which++) {
			struct operand x = {.rank = 1, .shape = {sizes[s]}, .dense = 1}, none = {0};
			struct optest t = {.name = "ADVANCE",
			                   .op = OP_ADVANCE,
			                   .attr.advance = {-.02},
			                   .nin = 3,
			                   .nout = 1,
			                   .in = {which & 1 ? x : none, x, which & 2 ? x : none},
			                   .out = {x},
			                   .ref = ref_advance,
			                   .tol32 = 1e-7,
			                   .tol64 = 1e-15,
			                   .in_place = 2};

			optest_run(&t);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(mix),     cmocka_unit_test(mix_adds), cmocka_unit_test(guide),  cmocka_unit_test(guide_degenerate),
	    cmocka_unit_test(convert), cmocka_unit_test(combine),  cmocka_unit_test(advance)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
