/* firstframe: what a network that reads first frames is given in training, how often a frame is withheld, and networks of every architecture that
 * start from one that reads none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "diffusion/path.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "net/adopt.h"
#include "net/netdef.h"
#include "train/noised.h"

enum { F = 3, C = 2, S = 4, FRAME = C * S * S, CLIP = F * FRAME, ROW = S * S + FRAME };

static struct net_config config_of(const char *preset, int first)
{
	struct net_config c, shape;
	struct err e = {0};

	net_init(&shape, net_first(NET_EXPERT));
	if (net_preset(preset, &shape, &e))
		fail_msg("%s", e.msg);
	net_init(&c, shape.def);
	net_shape_copy(&c, &shape);
	c.channels = c.out_channels = C;
	c.size = S;
	c.frames = F;
	c.first_frame = first;
	c.frame_dropout = first ? .25 : 0;
	c.time_scale = 1000;
	if (net_check(&c, &e))
		fail_msg("%s", e.msg);
	return c;
}

/* A row that was given a frame has ones and the frame, another one zeros. Returns whether it was given. */
static int check_row(const float *row, const float *clip)
{
	int given = row[0] != 0;

	for (int i = 0; i < ROW; i++)
		assert_true(row[i] == (!given ? 0.f : i < S * S ? 1.f : clip[i - S * S]));
	return given;
}

/* Of many samples a quarter is withheld, by draws that belong to the number in the batch; in validation none is. The device gets the rows. */
static void withheld(void **state)
{
	enum { N = 64, STEPS = 50, PART = 16 };
	struct net_config c = config_of("vdit-nano/1x2", 1);
	struct device *d = device_cpu(NULL, DT_F32);
	struct objective o = {.path = &path_linear, .d = CLIP, .frame_dropout = c.frame_dropout, .def.loss = LOSS_SQUARED};
	struct params p = {0};
	struct loss_tape l;
	struct noised z;
	struct err e = {0};
	float *x0 = mem_alloc((size_t)(N * CLIP) * sizeof *x0);
	const struct clean clean = {.x0 = x0};
	int given = 0, had[N];

	(void)state;
	rng_normal(x0, N * CLIP, 1, RNG_TEST, 1, 0);
	loss_record(&l, &c, LOSS_SQUARED, &p, DT_F32, N, 0, 0);
	if (noised_init(&z, d, N, &c, LOSS_SQUARED, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(z.row_bytes[NOISED_FIRST], ROW * sizeof(float));
	for (int step = 0; step < STEPS; step++) {
		objective_noise(&o, &z, &l, N, &clean, 7, (uint64_t)step, 0);
		for (int i = 0; i < N; i++)
			given += had[i] = check_row(z.first + i * ROW, x0 + i * CLIP);
		assert_memory_equal(noised_part(&z, NOISED_FIRST), z.first, N * ROW * sizeof(float));
	}
	/* A binomial count of 3200 draws is within five deviations. */
	assert_true(fabs(given - .75 * N * STEPS) < 5 * sqrt(.75 * .25 * N * STEPS));
	for (int at = 0; at < N; at += PART) {
		const struct clean part = {.x0 = x0 + at * CLIP};

		objective_noise(&o, &z, &l, PART, &part, 7, STEPS - 1, (uint64_t)at);
		for (int i = 0; i < PART; i++)
			assert_int_equal(check_row(z.first + i * ROW, x0 + (at + i) * CLIP), had[at + i]);
	}
	objective_validate(&o, &z, &l, N, &clean, 0, N);
	for (int i = 0; i < N; i++)
		assert_true(check_row(z.first + i * ROW, x0 + i * CLIP));
	noised_put_first(&z, 1, x0 + CLIP);
	assert_true(check_row(noised_part(&z, NOISED_FIRST), x0 + CLIP));
	o.frame_dropout = 1; /* of pictures among clips */
	objective_noise(&o, &z, &l, N, &clean, 7, 0, 0);
	for (int i = 0; i < N; i++)
		assert_false(check_row(z.first + i * ROW, x0 + i * CLIP));
	objective_validate(&o, &z, &l, N, &clean, 0, N);
	for (int i = 0; i < N; i++)
		assert_false(check_row(z.first + i * ROW, x0 + i * CLIP));
	tape_free(l.tape);
	noised_release(&z);
	params_release(&p);
	device_free(d);
	mem_free(x0);
}

/* A network with drawn weights in a folder. */
struct made {
	struct model_config config;
	struct params params;
	float *values;
	char dir[64];
};

static void save(struct made *m, struct device *d)
{
	char *text = model_config_text(&m->config, NULL), *config = path_join(m->dir, "config.json"),
	     *weights = path_join(m->dir, model_weights_name(NET_EXPERT));
	struct err e = {0};

	if (dir_make(m->dir, &e) || commit_bytes(config, text, strlen(text), &e) ||
	    model_write_weights(weights, &m->params, d, m->values, NULL, 0, &e))
		fail_msg("%s", e.msg);
	mem_free(text);
	mem_free(config);
	mem_free(weights);
}

static struct made make(const char *dir, const struct net_config *c, uint64_t seed)
{
	struct made m = {.config = {.net = *c, .cluster = -1, .prediction = "velocity", .path = "linear"}};

	snprintf(m.dir, sizeof m.dir, "%s", dir);
	net_params(c, &m.params);
	m.values = mem_zalloc((size_t)m.params.total, sizeof *m.values);
	rng_normal(m.values, (size_t)m.params.total, seed, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < m.params.total; i++)
		m.values[i] *= .1f;
	return m;
}

static void answer(const struct made *m, struct device *d, const float *first, float out[CLIP])
{
	struct err e = {0};
	struct model *o = model_open(m->dir, 1, COMPACT_NONE, d, NULL, &e);
	float x[CLIP], t = .4f;
	const struct model_input in = {.x = x, .t = &t, .first = first};

	if (!o)
		fail_msg("%s", e.msg);
	rng_normal(x, CLIP, 2, RNG_TEST, 0, 0);
	model_run(o, 1, &in, out);
	model_free(o);
}

static double apart(const float *a, const float *b)
{
	double off = 0, top = 0;

	for (int i = 0; i < CLIP; i++) {
		off = fmax(off, fabs((double)a[i] - (double)b[i]));
		top = fmax(top, fabs((double)a[i]));
	}
	assert_true(top > 1e-3);
	return off / top;
}

/* One tensor is derived, and all others are copied. */
static void count_fates(void *arg, enum adopt_fate fate, const char *name)
{
	(void)name;
	((int *)arg)[fate]++;
}

static void adopt(struct made *to, const struct made *from)
{
	struct model_config loaded;
	struct err e = {0};
	int fates[ADOPT_FATES] = {0};

	if (model_config_load(from->dir, &loaded, &e) || adopt_config(&to->config.net, &loaded, &e) ||
	    adopt_weights(from->dir, &loaded, &to->config.net, 1, &to->params, to->values, count_fates, fates, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(fates[ADOPT_DERIVED], 1);
	assert_int_equal(fates[ADOPT_TAKEN], to->params.n - 1);
	model_config_release(&loaded);
}

/* A network that starts from one without first frames computes the same with any frame, and the other way the weights come back. Other weights of
 * the same network make it depend on the frame, and on whether there is one. */
static void starts_from_one_without(void **state)
{
	static const char *const presets[] = {"vdit-nano/1x2", "vdit-full-nano/3x2", "dit-nano/2", "unet-nano"};
	struct device *d = device_cpu(NULL, DT_F32);
	char dir[] = "/tmp/ddm-firstframe-XXXXXX";
	float first[ROW], plain[CLIP], with[CLIP], without[CLIP];

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (int i = 0; i < ROW; i++)
		first[i] = i < S * S ? 1 : (float)(i % 7) / 3 - 1;
	for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
		struct net_config c = config_of(presets[i], 0), f = config_of(presets[i], 1);
		char name[3][64];
		struct made from, to, back;

		for (int k = 0; k < 3; k++)
			snprintf(name[k], sizeof name[k], "%s/%zu-%d", dir, i, k);
		from = make(name[0], &c, 1);
		to = make(name[1], &f, 3);
		back = make(name[2], &c, 5);
		save(&from, d);
		save(&to, d);
		answer(&to, d, first, with);
		answer(&to, d, NULL, without);
		assert_true(apart(with, without) > 1e-3);
		adopt(&to, &from);
		save(&to, d);
		answer(&from, d, NULL, plain);
		answer(&to, d, first, with);
		answer(&to, d, NULL, without);
		assert_true(apart(plain, with) < 2e-6 && apart(plain, without) < 2e-6);
		adopt(&back, &to);
		for (int k = 0; k < from.params.n; k++) {
			const struct param *q = &from.params.v[k];

			assert_memory_equal(back.values + q->offset, from.values + q->offset, (size_t)q->count * sizeof(float));
		}
		for (int k = 0; k < 3; k++) {
			struct made *m = k == 0 ? &from : k == 1 ? &to : &back;

			params_release(&m->params);
			mem_free(m->values);
		}
	}
	dir_remove(dir, NULL);
	device_free(d);
}

static void refused(struct net_config c, const char *says)
{
	struct err e = {0};

	assert_int_equal(net_check(&c, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	if (!strstr(e.msg, says))
		fail_msg("%s", e.msg);
}

static void refusals(void **state)
{
	struct net_config c = config_of("dit-nano/2", 1);

	(void)state;
	c.frame_dropout = 1;
	refused(c, "withheld with probability 1");
	c.frame_dropout = .1;
	c.frames = 0;
	refused(c, "a dit network for pictures reads no first frame");
	net_init(&c, &net_router);
	c.channels = 1;
	c.size = S;
	c.frames = F;
	c.clusters = 2;
	c.first_frame = 1;
	refused(c, "a router network for clips reads no first frame");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(withheld),
	    cmocka_unit_test(starts_from_one_without),
	    cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
