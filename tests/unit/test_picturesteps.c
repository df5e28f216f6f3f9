/* Pictures among clips: which steps take them, the gradient that a batch of pictures gives next to a tape of clips, by differences and by the network
 * for pictures, and a training that alternates, bit by bit against one on clips of one frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/shard.h"
#include "file/still.h"
#include "net/netdef.h"
#include "tests/unit/scratch.h"
#include "train/run.h"

enum { B = 2, C = 2, SIDE = 4, FRAME = C * SIDE * SIDE, TOKENS = 3, WIDTH = 5 };

/* Of the first n steps the share takes pictures, rounded down, for any n. */
static void schedule(void **state)
{
	static const double shares[] = {.001, .1, .25, .3, .5, .75, .999};

	(void)state;
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		struct train_options o = {.pictures = "p", .picture_share = shares[i]};
		struct trainer r = {.o = &o};
		int64_t taken = 0;

		for (int64_t n = 0; n < 5000; n++) {
			assert_int_equal(picture_steps(&o, n), taken);
			assert_true(fabs((double)taken - (double)n * shares[i]) <= 1);
			taken += train_set_of(&r, n) == &r.pictures;
		}
		o.pictures = NULL;
		assert_int_equal(picture_steps(&o, 5000), 0);
		assert_ptr_equal(train_set_of(&r, 4999), &r.main);
	}
}

static struct net_config config_of(const char *preset, int64_t frames)
{
	struct net_config c, shape;
	struct err e = {0};

	net_init(&shape, net_first(NET_EXPERT));
	if (net_preset(preset, &shape, &e))
		fail_msg("%s", e.msg);
	net_shape_set(&shape, "hidden", 16, NULL);
	net_shape_set(&shape, "depth", 2, NULL);
	net_shape_set(&shape, "heads", 2, NULL);
	net_init(&c, shape.def);
	net_shape_copy(&c, &shape);
	c.channels = c.out_channels = C;
	c.size = SIDE;
	c.frames = frames;
	c.time_scale = 1000;
	if (net_reads(&c, NET_IN_TEXT)) {
		c.text_tokens = TOKENS;
		c.text_width = WIDTH;
	}
	if (net_check(&c, &e))
		fail_msg("%s", e.msg);
	return c;
}

/* A network in double with the gradient of the sum of dy times its output. */
struct recorded {
	struct tape *tape;
	struct net_input in;
	struct tensor *y, *dy;
	int forward;
	int64_t elements;
	double *x, *weights_of_y, time[B], text[B * TOKENS * WIDTH], mask[B * TOKENS];
};

static double *drawn(int64_t n, uint64_t stream)
{
	float *f = mem_alloc((size_t)n * sizeof *f);
	double *v = mem_alloc((size_t)n * sizeof *v);

	rng_normal(f, (size_t)n, 5, RNG_TEST, 0, stream);
	for (int64_t i = 0; i < n; i++)
		v[i] = (double)f[i];
	mem_free(f);
	return v;
}

static void record(struct recorded *r, const struct net_config *c, struct params *p)
{
	*r = (struct recorded){.tape = tape_new(DT_F64, B)};
	net_inputs(r->tape, c, &r->in);
	r->y = net_record(r->tape, p, c, &r->in);
	tape_keep(r->tape, r->y);
	r->forward = tape_mark(r->tape);
	r->dy = tape_input(r->tape, DT_F64, r->y->rank, r->y->shape, TAPE_BATCHED);
	tape_backward(r->tape, r->y, r->dy);
	r->elements = B * net_sample_elements(c);
	params_layout(p);
}

/* Samples are the same for every number of frames: a clip begins with the picture. */
static void prepare(struct recorded *r, struct device *d)
{
	double *text = drawn(B * TOKENS * WIDTH, 3);

	r->x = drawn(r->elements, 1);
	r->weights_of_y = drawn(r->elements, 2);
	r->time[0] = .3;
	r->time[1] = .8;
	memcpy(r->text, text, sizeof r->text);
	mem_free(text);
	tape_layout(r->tape, d, &(struct plan_options){.poison = 1});
	assert_int_equal(tape_allocate(r->tape, NULL), 0);
	tape_bind(r->tape, r->in.x, r->x);
	tape_bind(r->tape, r->in.time, r->time);
	tape_bind(r->tape, r->dy, r->weights_of_y);
	if (r->in.text)
		tape_bind(r->tape, r->in.text, r->text);
	if (r->in.mask)
		tape_bind(r->tape, r->in.mask, r->mask);
}

static void recorded_release(struct recorded *r)
{
	tape_free(r->tape);
	mem_free(r->x);
	mem_free(r->weights_of_y);
}

static void run(struct recorded *r, double *values, double *grads)
{
	tape_bind_params(r->tape, values, grads);
	tape_run(r->tape, B, 0, tape_mark(r->tape));
}

static double value(struct recorded *r, double *values)
{
	const double *y;
	double sum = 0;

	tape_bind_params(r->tape, values, NULL);
	tape_run(r->tape, B, 0, r->forward);
	y = tape_data(r->tape, r->y);
	for (int64_t i = 0; i < r->elements; i++)
		sum += y[i] * r->weights_of_y[i];
	return sum;
}

/* Weights of no special value. */
static double *some_weights(const struct params *p)
{
	double *v = drawn(p->total, 4);

	for (int64_t i = 0; i < p->total; i++)
		v[i] *= .3;
	return v;
}

/* The gradient along `direction` in one parameter, by central differences. */
static double difference(struct recorded *r, const struct params *p, const struct param *q, const double *values, const double *direction)
{
	static const double h = 1e-6;
	double *v = mem_alloc((size_t)p->total * sizeof *v), side[2];

	for (int s = 0; s < 2; s++) {
		memcpy(v, values, (size_t)p->total * sizeof *v);
		for (int64_t i = 0; i < q->count; i++)
			v[q->offset + i] += (s ? h : -h) * direction[i];
		side[s] = value(r, v);
	}
	mem_free(v);
	return (side[1] - side[0]) / (2 * h);
}

/* A tape of pictures beside one of clips, over one table: it adds no parameter, writes the whole gradient of each over what the batch of clips left
 * there, and the gradient is that of central differences of the pictures' loss. With h = 1e-6 in double these have a relative error of about 1e-7:
 * h^2 times the third derivative, which is the largest in the embedding of the time, and 1e-16 / h times the value. */
static void gradients(void **state)
{
	static const char *const presets[] = {"vdit-nano/1x2", "vdit-full-text-nano/1x2", "dit-nano/2", "pixart-nano/2", "paris-nano/2"};

	(void)state;
	for (size_t k = 0; k < sizeof presets / sizeof *presets; k++) {
		struct net_config clip = config_of(presets[k], 3), picture = picture_net(&clip);
		struct device *d = device_cpu(NULL, DT_F64);
		struct recorded clips, pictures;
		struct params p = {0};
		double *values, *grads, *direction;
		int n;

		record(&clips, &clip, &p);
		n = p.n;
		record(&pictures, &picture, &p);
		assert_int_equal(p.n, n);
		assert_int_equal(pictures.elements, B * FRAME);
		prepare(&clips, d);
		prepare(&pictures, d);
		values = some_weights(&p);
		grads = mem_zalloc((size_t)p.trainable, sizeof *grads);
		direction = drawn(p.total, 6);
		run(&clips, values, grads);
		for (int64_t i = 0; i < p.trainable; i++)
			grads[i] = NAN;
		run(&pictures, values, grads);
		for (int i = 0; i < p.n; i++) {
			const struct param *q = &p.v[i];
			double sum = 0, want;

			if (q->flags & PARAM_FROZEN)
				continue;
			for (int64_t j = 0; j < q->count; j++)
				sum += grads[q->offset + j] * direction[j];
			want = difference(&pictures, &p, q, values, direction);
			if (!(fabs(sum - want) < 1e-6 * (1 + fabs(want))))
				fail_msg("%s: %s: %.10g, and by differences %.10g", presets[k], q->name, sum, want);
		}
		recorded_release(&clips);
		recorded_release(&pictures);
		device_free(d);
		params_release(&p);
		mem_free(values);
		mem_free(grads);
		mem_free(direction);
	}
}

/* Where the blocks across frames have gates of 0, a network for clips computes of a picture, and learns from it, what the network for pictures
 * does. */
static void as_a_picture(void **state)
{
	struct net_config clip = config_of("dit-nano/2", 3), one = picture_net(&clip), plain = config_of("dit-nano/2", 0);
	struct device *d = device_cpu(NULL, DT_F64);
	struct params p = {0}, q = {0};
	struct recorded a, b;
	double *v, *w, *ga, *gb, most = 0;
	int shared = 0;

	(void)state;
	record(&a, &one, &p);
	record(&b, &plain, &q);
	prepare(&a, d);
	prepare(&b, d);
	assert_true(p.n > q.n);
	v = some_weights(&p);
	w = mem_zalloc((size_t)q.total, sizeof *w);
	ga = mem_zalloc((size_t)p.trainable, sizeof *ga);
	gb = mem_zalloc((size_t)q.trainable, sizeof *gb);
	for (int i = 0; i < p.n; i++) {
		int j = params_find(&q, p.v[i].name);

		if (j >= 0)
			memcpy(w + q.v[j].offset, v + p.v[i].offset, (size_t)q.v[j].count * sizeof *w);
		else if (strstr(p.v[i].name, "adaLN"))
			memset(v + p.v[i].offset, 0, (size_t)p.v[i].count * sizeof *v);
	}
	run(&a, v, ga);
	run(&b, w, gb);
	for (int j = 0; j < q.n; j++) {
		int i = params_find(&p, q.v[j].name);

		assert_true(i >= 0);
		shared += !(q.v[j].flags & PARAM_FROZEN);
		for (int64_t k = 0; k < q.v[j].count && !(q.v[j].flags & PARAM_FROZEN); k++) {
			double x = ga[p.v[i].offset + k], y = gb[q.v[j].offset + k];

			most = fmax(most, fabs(y));
			assert_true(fabs(x - y) <= 1e-11 * (1 + fabs(y)));
		}
	}
	assert_true(shared > 10 && most > .1);
	recorded_release(&a);
	recorded_release(&b);
	device_free(d);
	params_release(&p);
	params_release(&q);
	mem_free(v);
	mem_free(w);
	mem_free(ga);
	mem_free(gb);
}

enum { SAMPLES = 8, PIXELS = 8, STEPS = 6 };

static uint8_t level(int y, int x)
{
	return (uint8_t)(20 + 25 * y + 3 * x);
}

/* A folder of shards with SAMPLES equal samples, which are clips of one frame or pictures. */
static char *equal_samples(const char *name, int pictures)
{
	int64_t shape[4] = {1, 1, PIXELS, PIXELS};
	struct picture picture = {0};
	struct str npy = {0};
	struct stamp *stamp = stamp_new("test");
	struct manifest_row row = {.path = manifest_name(0, 0, 0)};
	char *root = path_join(dir, name), *full = path_join(root, row.path), *file = mem_strdup(row.path);
	struct shard_member m = {.ext = pictures ? "png" : "npy"};
	uint8_t pixels[PIXELS * PIXELS], *png = NULL;
	struct shard_writer *w;
	struct err e = {0};
	size_t len = 0;

	for (int i = 0; i < PIXELS * PIXELS; i++)
		pixels[i] = level(i / PIXELS, i % PIXELS);
	picture.width = picture.height = PIXELS;
	picture.channels = 1;
	picture.pixels = pixels;
	assert_int_equal(still_encode_png(&picture, NULL, 0, &png, &len, &e), 0);
	npy_encode(&npy, NPY_U1, 4, shape, pixels);
	m.data = pictures ? png : (uint8_t *)npy.p;
	m.size = pictures ? len : npy.len;
	*strrchr(full, '/') = 0;
	assert_int_equal(dir_make(full, &e), 0);
	mem_free(full);
	full = path_join(root, file);
	assert_non_null(w = shard_create(full, NULL, &e));
	for (int i = 0; i < SAMPLES; i++) {
		char key[8];

		snprintf(key, sizeof key, "%05d", i);
		assert_int_equal(shard_add(w, key, &m, 1, &e), 0);
	}
	assert_int_equal(shard_commit(w, &row, &e), 0);
	mem_free(row.path);
	row.path = file;
	assert_int_equal(manifest_write(root, &row, 1, 1, stamp, &e), 0);
	manifest_row_release(&row);
	stamp_free(stamp);
	str_release(&npy);
	mem_free(png);
	mem_free(full);
	return root;
}

/* Train in dir/name; pictures NULL: on clips alone. */
static void train(const char *name, const char *clips, const char *pictures, int64_t accumulate)
{
	struct train_options o = train_defaults(NET_EXPERT);
	struct device *d = device_cpu(NULL, DT_F32);
	const struct train_hooks hooks = {0};
	char *out = path_join(dir, name);
	struct net_config net = config_of("vdit-nano/1x2", 1);
	struct err e = {0};

	o.net = net;
	o.shards = clips;
	o.out = out;
	o.pictures = pictures;
	o.picture_share = .5;
	o.grey = 1;
	o.steps = STEPS;
	o.batch = SAMPLES;
	o.accumulate = accumulate;
	o.optimizer = OPTIMIZER_ADAMW;
	o.lr = 1e-2;
	o.precision = PRECISION_F32;
	o.chain_every = 1;
	o.program = "test";
	if (train_run(&o, d, &hooks, &e))
		fail_msg("%s", e.msg);
	device_free(d);
	mem_free(out);
}

static void same_files(const char *a, const char *b)
{
	static const char *const names[] = {"weights.safetensors", "ema.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors"};
	char hex[2][65];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		for (int k = 0; k < 2; k++) {
			char *path = str_new("%s/%s/train/step-%08d/%s", dir, k ? b : a, STEPS, names[i]);

			assert_int_equal(sha256_file(path, hex[k], NULL, NULL), 0);
			mem_free(path);
		}
		assert_string_equal(hex[0], hex[1]);
	}
}

/* What a chain says of the losses and norms of all steps. */
static char *losses_of(const char *name)
{
	char *path = str_new("%s/%s/train/%s", dir, name, CHAIN_NAME), *text = file_load(path, 1 << 20, &(size_t){0}, NULL);
	struct str all = {0};

	assert_non_null(text);
	for (char *at = text; (at = strstr(at, "\"losses\":\"")); at++)
		str_printf(&all, "%.18s ", at);
	assert_true(all.len > 100);
	mem_free(path);
	mem_free(text);
	path = mem_strdup(str_text(&all));
	str_release(&all);
	return path;
}

/* All samples are equal, so a training on clips of one frame and one that takes every second batch from the pictures compute the same. */
static void alternates(void **state)
{
	char *clips = equal_samples("clips", 0), *pictures = equal_samples("pictures", 1);

	(void)state;
	for (int64_t parts = 1; parts <= 2; parts++) {
		char *a = str_new("alone%d", (int)parts), *b = str_new("mixed%d", (int)parts), *x, *y;

		train(a, clips, NULL, parts);
		train(b, clips, pictures, parts);
		same_files(a, b);
		x = losses_of(a);
		y = losses_of(b);
		assert_string_equal(x, y);
		mem_free(a);
		mem_free(b);
		mem_free(x);
		mem_free(y);
	}
	mem_free(clips);
	mem_free(pictures);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(schedule),
	    cmocka_unit_test(gradients),
	    cmocka_unit_test(as_a_picture),
	    cmocka_unit_test(alternates),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
