/* Experts that take turns in device memory: the pictures are those of resident experts, the number of uploads is the smallest that the order of the
 * experts allows, and uploads overlap with the work of other experts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/sampler.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "net/autoencoder.h"
#include "net/model.h"
#include "net/pager.h"
#include "tests/unit/far.h"
#include "tests/unit/trunknet.h"

enum { EXPERTS = 4, SIZE = 8, D = SIZE * SIZE, PICTURES = 7, BATCH = 4, STEPS = 5, BATCHES = 2 };

static char dir[] = "/tmp/ddm-paging-XXXXXX";

/* Expert 3 is deeper than the others: its page has another size, and its network is another one. */
static int write_member(const char *name, const struct net_def *def, int64_t depth, uint64_t seed)
{
	struct net_config c = trunk_net((struct net_config){.def = def,
	                                                    .channels = 1,
	                                                    .out_channels = def == &net_dit,
	                                                    .size = SIZE,
	                                                    .time_scale = 1000,
	                                                    .clusters = def == &net_router ? EXPERTS : 0},
	                                (struct trunk_config){.patch = 2, .hidden = 16, .depth = depth, .heads = 2, .mlp_ratio = 2});
	struct model_config m = {.path = "linear", .cluster = -1, .clusters = EXPERTS};
	char *folder = path_join(dir, name), *config = path_join(folder, "config.json"), *text, *weights;
	struct device *d = device_cpu(NULL, DT_F32);
	struct params p = {0};
	float *values;
	int rc;

	c.classes = def == &net_dit ? 2 : 0;
	c.class_dropout = def == &net_dit ? .1 : 0;
	m.net = c;
	snprintf(m.prediction, sizeof m.prediction, "%s", def == &net_dit ? "velocity" : "");
	net_params(&c, &p);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	rng_normal(values, (size_t)p.total, 7, RNG_TEST, 0, seed);
	for (int64_t i = 0; i < p.total; i++)
		values[i] *= .3f;
	text = model_config_text(&m, NULL);
	weights = path_join(folder, model_weights_name(def->role));
	rc = dir_make(folder, NULL) || commit_bytes(config, text, strlen(text), NULL) || model_write_weights(weights, &p, d, values, NULL, 0, NULL);
	params_release(&p);
	device_free(d);
	mem_free(values);
	mem_free(text);
	mem_free(weights);
	mem_free(config);
	mem_free(folder);
	return rc;
}

static int set_up(void **state)
{
	(void)state;
	return !mkdtemp(dir) || write_member("expert_0", &net_dit, 2, 1) || write_member("expert_1", &net_dit, 2, 2) ||
	               write_member("expert_2", &net_dit, 2, 3) || write_member("expert_3", &net_dit, 3, 4) ||
	               write_member("router", &net_router, 1, 5)
	           ? -1
	           : 0;
}

static int tear_down(void **state)
{
	(void)state;
	return dir_remove(dir, NULL);
}

struct request {
	const char *route;
	double cfg;
	struct resident resident;
	size_t limit; /* of the device's memory; 0: none */
	int cpu;
	enum compact_type bulk;
	uint64_t free; /* free memory that the CPU reports; 0: the real one */
};

static uint64_t said_free;

static void say_memory(struct device *d, struct device_memory *m)
{
	(void)d;
	*m = (struct device_memory){.free = said_free, .total = said_free + 1};
}

struct found {
	float x[PICTURES * D];
	int slots; /* EXPERTS: all resident */
	int64_t uploads, sends, overlapped, captures, launches;
	size_t most;
};

static void take_down(const struct far *f, const struct ensemble *s, struct found *y)
{
	y->slots = s->pager ? pager_slots(s->pager) : EXPERTS;
	y->uploads = s->pager ? pager_uploads(s->pager) : 0;
	y->sends = f->sends;
	y->overlapped = f->overlapped;
	y->captures = f->captures;
	y->launches = f->launches;
	y->most = f->most;
}

static int sample(const struct request *q, struct found *y, struct err *e)
{
	struct device *dev = q->cpu ? device_cpu(NULL, DT_F32) : device_far(NULL);
	struct ensemble_options o = {.capacity = 2 * BATCH, .bulk = q->bulk, .device = dev, .resident = q->resident};
	struct ensemble s;
	struct mixture m;
	struct sampler sampler;
	struct sampler_state *st = NULL;
	int rc = -1;

	memset(y, 0, sizeof *y);
	if (!q->cpu)
		((struct far *)dev)->limit = ((struct far *)dev)->total = q->limit;
	if (q->free)
		dev->memory = say_memory;
	said_free = q->free;
	assert_int_equal(policy_parse(q->route, &o.policy, e), 0);
	if (ensemble_open(&s, dir, &o, e))
		goto out;
	m = (struct mixture){
	    .k = s.k, .d = s.d, .expert = s.expert, .router = &s.router, .policy = o.policy, .cfg = q->cfg, .seed = 3, .device = dev};
	sampler = (struct sampler){
	    .mixture = &m, .solver = {SOLVER_EULER, STEPS, 1, 0}, .seed = 3, .batch = BATCH, .order = ensemble_order, .order_arg = &s};
	if (!(st = sampler_new(&sampler, e)))
		goto out;
	for (int64_t at = 0; at < PICTURES; at += BATCH) {
		int64_t n = PICTURES - at < BATCH ? PICTURES - at : BATCH, index[BATCH] = {at, at + 1, at + 2, at + 3};
		int32_t label[BATCH] = {0, 1, 1, 0};

		if (sampler_run(st, y->x + at * D, &(struct sampler_call){.n = n, .index = index, .label = label}, NULL, NULL, e))
			goto out;
	}
	if (!q->cpu)
		take_down((struct far *)dev, &s, y);
	rc = 0;
out:
	sampler_free(st);
	ensemble_release(&s);
	device_free(dev);
	return rc;
}

static void must_sample(const struct request *q, struct found *y)
{
	struct err e = {0};

	if (sample(q, y, &e))
		fail_msg("%s", e.msg);
}

static void the_same_pictures(void **state)
{
	static const char *const routes[] = {"top-1", "top-2", "full", "sample", "expert:2", "threshold:0.3"};
	static struct found all, some;

	(void)state;
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
		for (int guided = 0; guided < 2; guided++) {
			struct request q = {.route = routes[i], .cfg = guided ? 2 : 1, .cpu = 1};

			must_sample(&q, &all);
			q.cpu = 0;
			for (int64_t k = 0; k < D; k++)
				assert_true(isfinite(all.x[k]) && fabsf(all.x[k]) > 0);
			for (q.resident.experts = 0; q.resident.experts <= EXPERTS; q.resident.experts++) {
				must_sample(&q, &some);
				assert_memory_equal(some.x, all.x, sizeof all.x);
				assert_true(some.sends == some.uploads && (some.uploads > 0) == (some.slots < EXPERTS));
			}
		}
}

/* All experts run at every evaluation, in order. With two slots each is sent every time, the first of a step at the end of the step before; with
 * three slots two are. With at least two slots no upload is waited for immediately, except for weights that were just read from their file. The last
 * upload, for a step that does not come, is never waited for. */
static void counts(void **state)
{
	static const int64_t n = STEPS * BATCHES, want[EXPERTS + 1] = {0, 4 * n, 4 * n, 4 + 2 * (n - 1), 0};
	static struct found y;

	(void)state;
	for (int slots = 1; slots <= EXPERTS; slots++) {
		must_sample(&(struct request){.route = "full", .cfg = 1, .resident = {slots, 0}}, &y);
		print_message("%d slots: %d uploads, %d overlap, %d graphs, %d launches\n", slots, (int)y.uploads, (int)y.overlapped, (int)y.captures,
		              (int)y.launches);
		assert_int_equal(y.slots, slots);
		assert_int_equal(y.uploads, want[slots]);
		assert_int_equal(y.overlapped, slots == 1 || slots == EXPERTS ? 0 : want[slots] - EXPERTS - 1);
	}
}

/* There is one graph for each network, slot and number of rows, for any number of experts. */
static void graphs(void **state)
{
	static struct found y;

	(void)state;
	must_sample(&(struct request){.route = "full", .cfg = 1, .resident = {2, 0}}, &y);
	assert_int_equal(y.captures, 2 * (1 + 2 + 1));
	/* After the first run and the capture. */
	assert_int_equal(y.launches, BATCHES * ((STEPS - 1) + (STEPS - 1) + (2 * STEPS - 1) + (STEPS - 1)));
}

/* With less and less memory there are fewer slots and the same pictures, and the memory is never exceeded. */
static void fits(void **state)
{
	static struct found all, y;
	size_t most;
	int seen[EXPERTS + 1] = {0}, last = EXPERTS;
	struct err e = {0};

	(void)state;
	must_sample(&(struct request){.route = "full", .cfg = 2}, &all);
	most = all.most + all.most / 4;
	for (size_t limit = most; limit; limit -= most / 64) {
		struct request q = {.route = "full", .cfg = 2, .limit = limit};

		e = (struct err){0};
		if (sample(&q, &y, &e))
			break;
		assert_memory_equal(y.x, all.x, sizeof all.x);
		assert_true(y.most <= limit && y.slots <= last);
		seen[last = y.slots] = 1;
	}
	assert_int_equal(e.code, ERR_NOMEM);
	for (int i = 1; i <= EXPERTS; i++)
		assert_true(seen[i]);
}

static void bytes(void **state)
{
	static struct found y;
	struct request q = {.route = "full", .cfg = 1, .resident = {0, 1}};
	struct err e = {0};
	uint64_t slot;
	struct device *d = device_far(NULL);
	char *path = path_join(dir, "expert_3");
	struct model *m = model_open(path, 1, COMPACT_NONE, d, NULL, &e);

	(void)state;
	slot = (uint64_t)model_bytes(m);
	model_free(m);
	device_free(d);
	mem_free(path);
	assert_int_equal(sample(&q, &y, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	q.resident.bytes = 3 * slot - 1;
	must_sample(&q, &y);
	assert_int_equal(y.slots, 2);
	q.resident.bytes = 4 * slot;
	must_sample(&q, &y);
	assert_int_equal(y.slots, EXPERTS);
	q.cpu = 1;
	assert_int_equal(sample(&q, &y, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
}

static uint64_t takes(const char *name, enum compact_type bulk)
{
	struct device *d = device_cpu(NULL, DT_F32);
	char *path = path_join(dir, name);
	struct err e = {0};
	struct model *m = model_find(path, 1, 0, COMPACT_NONE, d, NULL, &e);
	uint64_t bytes, weights, work, then;

	if (!m)
		fail_msg("%s", e.msg);
	bytes = model_takes(m, bulk);
	model_needs(m, &weights, &work);
	if (model_load(m, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(weights, model_takes(m, COMPACT_F32));
	model_needs(m, &weights, &then); /* of the tape that runs */
	assert_true(work > 0);
	assert_int_equal(work, then);
	if (bulk == COMPACT_F32) /* in addition: gaps and whole panels */
		assert_true((uint64_t)model_bytes(m) >= bytes && (uint64_t)model_bytes(m) < bytes + 4096);
	model_free(m);
	device_free(d);
	mem_free(path);
	return bytes;
}

static void refused(const struct request *q, const char *why)
{
	static struct found y;
	struct err e = {0};

	assert_int_equal(sample(q, &y, &e), -1);
	assert_int_equal(e.code, ERR_NOMEM);
	if (!strstr(e.msg, why))
		fail_msg("not \"%s\": %s", why, e.msg);
}

/* On the CPU weights that do not fit are refused before they are read; the message says which type would fit. */
static void advises(void **state)
{
	static struct found y;
	static const enum compact_type types[] = {COMPACT_VIEW, COMPACT_F32, COMPACT_BF16, COMPACT_INT8};
	struct request q = {.route = "expert:3", .cfg = 1, .cpu = 1};
	uint64_t need[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		need[i] = takes("expert_3", types[i]);
	assert_true(need[0] < need[3] && need[3] < need[2] && need[2] < need[1]);
	q.free = need[1];
	must_sample(&q, &y);
	q.free = need[1] - 1;
	refused(&q, "all weights fit with --map");
	q.bulk = COMPACT_VIEW;
	must_sample(&q, &y);
	q.bulk = COMPACT_BF16;
	q.free = need[2] - 1;
	refused(&q, "all weights fit with --weight-dtype int8");
	q.free = need[3] - 1;
	refused(&q, "all weights do not fit even with --weight-dtype int8");
	q.bulk = COMPACT_INT8;
	refused(&q, "no option lowers the need");
	q.route = "full";
	q.bulk = COMPACT_NONE;
	q.free = 1000;
	refused(&q, "all weights do not fit even with --map");
}

static const char autokl[] = "tests/golden/autokl";

/* One half of the golden autoencoder, whose weights are found but not read. */
static struct runner *half_find(const struct autoencoder_config *c, int half, struct device *d)
{
	int encodes = half == AUTOENCODER_ENCODE;
	int64_t size[3] = {encodes ? c->in_channels : c->latent_channels, 16, 16};
	static struct renames kept[2][AUTOENCODER_FAMILIES]; /* until the weights are read */
	struct renames *names = kept[encodes];
	const struct renames *known[AUTOENCODER_FAMILIES];
	char *path = path_join(autokl, "diffusion_pytorch_model.safetensors");
	struct err e = {0};
	struct safetensors *s = weightfile_load(path, NULL, &e);
	struct runner *r = runner_new(encodes ? autokl_encoder : autokl_decoder, c, size, 1, COMPACT_NONE, d, &e);
	int n = autokl_names(c, half, names);

	for (int i = 0; i < n; i++)
		known[i] = &names[i];
	if (!s || !r || runner_weights(r, s, path, known, n, &e))
		fail_msg("%s", e.msg);
	mem_free(path);
	return r;
}

enum { TURNS = 3, HALF_MOST = 3 * 64 * 64 };

/* Run the encoder on pictures and the decoder on noise alternately with this number of slots; 0: all weights are resident. Returns the number of
 * uploads. */
static int64_t take_turns(const struct autoencoder_config *c, int slots, float out[2][HALF_MOST])
{
	static const int halves[2] = {AUTOENCODER_ENCODE, AUTOENCODER_DECODE};
	static float in[HALF_MOST];
	struct device *d = device_far(NULL);
	struct runner *r[2];
	struct pager *pager = NULL;
	uint64_t weights, work, slot = 0;
	struct err e = {0};
	int64_t sent;

	rng_normal(in, HALF_MOST, 5, RNG_TEST, 0, 0);
	for (int k = 0; k < 2; k++) {
		r[k] = half_find(c, halves[k], d);
		runner_needs(r[k], &weights, &work);
		slot = weights > slot ? weights : slot;
	}
	if (slots && !(pager = pager_new(d, slots, slot, &e)))
		fail_msg("%s", e.msg);
	for (int k = 0; k < 2; k++)
		if (runner_load(r[k], NULL, pager, &e))
			fail_msg("%s", e.msg);
	for (int i = 0; i < 2 * TURNS; i++) {
		int64_t size[3] = {i % 2 ? c->latent_channels : c->in_channels, 16, 16};

		if (runner_plan(r[i % 2], size, &e))
			fail_msg("%s", e.msg);
		assert_true(runner_elements(r[i % 2], 0) <= HALF_MOST);
		memset(out[i % 2], 0, sizeof out[i % 2]);
		runner_run(r[i % 2], 1, (const void *const[]){in}, (float *const[]){out[i % 2]});
	}
	assert_int_equal(d->error(d, &e), 0);
	sent = pager ? pager_uploads(pager) : 0;
	for (int k = 0; k < 2; k++)
		runner_free(r[k]);
	pager_free(pager);
	device_free(d);
	return sent;
}

/* Encoders can be paged like experts: two that take turns in one slot give the results of resident ones. */
static void encoders_take_turns(void **state)
{
	static float resident[2][HALF_MOST], paged[2][HALF_MOST];
	struct autoencoder_config c;
	char *path = path_join(autokl, "config.json");
	struct err e = {0};
	json_t *o = jsonio_load(path, &e);

	(void)state;
	if (!o || autoencoder_parse(o, path, &c, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(take_turns(&c, 0, resident), 0);
	assert_true(take_turns(&c, 1, paged) >= 2 * TURNS);
	assert_memory_equal(paged, resident, sizeof resident);
	for (int k = 0; k < 2; k++)
		assert_true(isfinite(resident[k][0]) && fabsf(resident[k][0]) > 0);
	json_decref(o);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(encoders_take_turns),
	                                   cmocka_unit_test(the_same_pictures),
	                                   cmocka_unit_test(counts),
	                                   cmocka_unit_test(graphs),
	                                   cmocka_unit_test(fits),
	                                   cmocka_unit_test(bytes),
	                                   cmocka_unit_test(advises)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
